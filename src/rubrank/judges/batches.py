"""Judge groups through batch APIs: calls are collected, submitted in files, and answered from the cache later.

    judgments = judge_in_batches(groups, criteria, wanted, judges, wait=True)

A run is a sequence of rounds:

    round: judge all groups as usual ──► calls with a reply in the cache are answered from there
      ▲                                  the others are collected
      │                                     │ none: the judgments of this round are the result
      │                                     ▼
      └── replies ──► cache ◄── wait ◄── submit the collected calls as batches

More than one round is needed if a kind asks again after an answer, if requests expired or failed temporarily, or if the
server rejects a parameter. With wait=False, a round that leaves batches open raises `BatchesPending`; calling the
function again later continues from there.

Replies go to the same cache as those of ordinary calls, under the same keys, so that neither pays for what the other
has. Only keys are held in memory.

The book, a folder beside the cache, says which requests are in which batch: a kill loses nothing, and no request
is submitted twice. A batch is entered before it is created, gets its id when it has one, and is removed when all of its
replies are in the cache. A batch without an id may exist on the server, because the process may have been killed before
it wrote the id; so it is looked for before it is created again. Only one process at a time can open a
book; others get InvalidInput.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self
from uuid import uuid4

import numpy as np

from rubrank._files import atomic_write
from rubrank._folders import make_folder
from rubrank.errors import BatchesPending, InvalidInput, JudgingInterrupted, UnknownName
from rubrank.judges.client.batch_api import (
    BatchApi,
    BatchState,
    NotFound,
    compute_batch_price,
    read_lines,
)
from rubrank.judges.client.cache import CallKeys, ReplyCache, make_reply_id
from rubrank.judges.client.protocol import (
    Capabilities,
    RequestOutcome,
    classify_status,
    read_error,
    read_response,
)
from rubrank.judges.client.runtime import runtime
from rubrank.judges.client.transport import open_session
from rubrank.judges.client.usage import Account
from rubrank.judges.judge import Call, Judge, Judges, Reply, Usage
from rubrank.judges.judgments import Judgments
from rubrank.judges.step import Progress, check_judgments, judge_groups_async
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.rubric import Criterion
from rubrank.store import lock_file
from rubrank.verifiers.verifier import REFUSED

if TYPE_CHECKING:
    import aiohttp

_MAX_ROUNDS = 32  # so that a kind of judge that never stops asking again ends, too
_REPLIES_PER_COMMIT = 500
_BYTES_PER_MEGABYTE = 1_000_000
_READ_TIMEOUT = 120.0  # seconds without a byte
_NOT_ANSWERED_YET = Reply(None, "in a batch that is not finished", attempts=0)


def check_batch_mode(batch: str, judges: Judges | None) -> None:
    """Raise InvalidInput for settings that do not work with batches, before any call is paid for."""
    if batch not in ("wait", "submit"):
        raise UnknownName.of("grade", "batch", batch, ("wait", "submit"))
    if judges is None:
        raise InvalidInput(
            "grade",
            "batch",
            allowed="used with judges",
            got="none",
            remedy="Name a file of judges: `judges=FILE`.",
        )
    leaves = [leaf for judge in judges.judges for leaf in judge.leaves]
    problems = {  # what batches can be used with → whether these settings violate it
        "used with a reply cache: set cache: FILE in the judges": judges.cache is None,
        "used without `cache_only`": judges.cache_only,
        "used without most_cost: a batch is paid for as a whole (a dry run shows its cost)": (
            judges.most_cost is not None
        ),
        "used without a deadline: a batch takes up to a day": judges.deadline is not None,
        "used without a fallback, whose questions depend on the first answers": any(
            judge.fallback is not None for judge in judges.judges
        ),
        "used with a number of pairs: a design chooses them by the answers so far": any(
            isinstance(leaf.pairs, str) for leaf in leaves
        ),
    }
    for allowed, is_violated in problems.items():
        if is_violated:
            raise InvalidInput("grade", "batch", allowed, got=batch)


def judge_in_batches(
    groups: Sequence[Group],
    criteria: Sequence[Sequence[Criterion]],
    wanted: Sequence[np.ndarray],
    judges: Judges,
    *,
    progress: Progress | None = None,
    wait: bool = True,
) -> Judgments:
    """Judge groups like `judge_groups`, but through batch APIs. wait: wait until all batches are over."""
    check_batch_mode("wait" if wait else "submit", judges)
    assert judges.cache is not None
    with ExitStack() as stack:
        cache = stack.enter_context(runtime().cache(judges.cache))
        book = stack.enter_context(BatchBook(f"{judges.cache}.pending"))
        folder = Path(stack.enter_context(make_folder("batches")))
        run = BatchRun(judges, cache, book, folder, progress)
        try:
            judgments = runtime().run(run.judge(groups, criteria, wanted, wait))
        except KeyboardInterrupt:
            raise JudgingInterrupted(len(run.answered), len(run.unanswered), judges.cache) from None
    check_judgments(judgments, judges)
    return judgments


@dataclass
class _RequestFile:
    """A file of requests, filled up to the size that the endpoint allows."""

    path: Path
    token: str
    purposes: dict[bytes, str] = field(default_factory=dict)
    """Key → purpose."""
    size: int = 0
    """Bytes."""


class BatchAsker:
    """Answers the calls of one judge from the cache, and collects those without a reply."""

    def __init__(self, run: BatchRun, api: BatchApi) -> None:
        self.api = api
        self.capabilities = Capabilities(api.endpoint, api.judge.sampling)
        self.files: list[_RequestFile] = []
        self._run = run
        self._keys = CallKeys(api.judge)

    async def ask(self, call: Call) -> Reply:
        """Return the reply in the cache, or a failure that says that there is none yet."""
        key = self._keys.key(call)
        if key in self._run.failed:
            return self._run.failed[key]
        reply = await self._run.cache.get_async(key, self._keys.servers)
        if reply is None:
            self._run.collect(self, key, call)
            return _NOT_ANSWERED_YET
        if key in self._run.answered:  # paid for in this run: not a cache hit
            return replace(reply, cached=False, attempts=1)
        return reply

    def unreadable(self, call: Call, reply: Reply) -> None:
        """Note that no verdict could be found in this reply."""
        self._run.unreadable[self._keys.key(call)] = reply

    def add_request(self, folder: Path, key: bytes, purpose: str, body: Mapping[str, Any]) -> None:
        """Append a request to the last file, or to a new one if that is full."""
        request = {
            "custom_id": key.hex(),
            "method": "POST",
            "url": "/v1/chat/completions",
            "body": body,
        }
        text = json.dumps(request, ensure_ascii=False, separators=(",", ":"))
        line = text.encode("utf-8", "replace") + b"\n"
        limits = self.api.endpoint.batch
        max_size = int(limits.megabytes * _BYTES_PER_MEGABYTE)
        if len(line) > max_size:
            raise InvalidInput(
                "grade",
                "batch",
                allowed=f"requests of at most {limits.megabytes:g} MB",
                got=f"one of {len(line) / _BYTES_PER_MEGABYTE:.1f} MB",
            )
        last = self.files[-1] if self.files else None
        if (
            last is None
            or len(last.purposes) >= limits.requests
            or last.size + len(line) > max_size
        ):
            token = uuid4().hex
            last = _RequestFile(folder / f"rubrank-{token}.jsonl", token)
            self.files.append(last)
        with last.path.open("ab") as file:
            file.write(line)
        last.purposes[key] = purpose
        last.size += len(line)


class BatchRun:
    """The state of one run."""

    def __init__(
        self,
        judges: Judges,
        cache: ReplyCache,
        book: BatchBook,
        folder: Path,
        progress: Progress | None,
    ) -> None:
        self.cache = cache
        self.failed: dict[bytes, Reply] = {}
        """Calls that failed permanently in this run, with the reason."""
        self.answered: set[bytes] = set()
        """Calls that were paid for in this run."""
        self.unanswered: dict[bytes, tuple[BatchAsker, dict[str, Any]]] = {}
        """Calls of this round without a reply: their asker, and the parameters of the request."""
        self.unreadable: dict[bytes, Reply] = {}
        """Replies of this round without a verdict. The next run asks again; this one does not."""
        self._judges = judges
        self._book = book
        self._folder = folder
        self._progress = progress
        self._usage = Account()
        self._submissions: Counter[bytes] = Counter()
        """How often each call was submitted in this run."""
        self._submitted: dict[bytes, OpenBatch] = {}
        """Calls in open batches, from this run or earlier ones."""
        self._awaited: set[str] = set()
        """Tokens of the batches that have calls of this round."""
        self._askers: dict[str, BatchAsker] = {}
        """By what a request depends on, as JSON."""

    async def judge(
        self,
        groups: Sequence[Group],
        criteria: Sequence[Sequence[Criterion]],
        wanted: Sequence[np.ndarray],
        wait: bool,
    ) -> Judgments:
        """Run the rounds; raises BatchesPending if batches are open at the end of a round that is not to wait."""
        # No cache here: `BatchAsker` looks into the cache itself. "continue": a call without a reply is not an error.
        judges_of_round = self._judges.model_copy(update={"cache": None, "on_outage": "continue"})
        async with open_session(read_timeout=_READ_TIMEOUT, decompress=True) as session:
            for judge in self._judges.judges:
                for leaf in judge.leaves:
                    self._add_asker(leaf, session)
            for batch in self._book.list_open_batches():
                # A batch of other judges, which share the cache, is left to them.
                if self._find_api(batch) is not None:
                    await self._finish_if_over(batch)
            for _ in range(_MAX_ROUNDS):
                self.unanswered = {}
                self.unreadable = {}
                self._awaited = set()
                self._submitted = {}
                for batch in self._book.list_open_batches():
                    self._submitted |= dict.fromkeys(batch.purposes, batch)
                for asker in self._askers.values():
                    asker.files = []
                judgments = await judge_groups_async(
                    groups,
                    criteria,
                    wanted,
                    judges_of_round,
                    asker_of=lambda judge: self._add_asker(judge, session),
                )
                if not self.unanswered:
                    break
                await self._submit()
                open_batches = [
                    batch
                    for batch in self._book.list_open_batches()
                    if batch.token in self._awaited
                ]
                if open_batches and not wait:
                    requests = sum(len(batch.requests) for batch in open_batches)
                    raise BatchesPending(requests, len(open_batches))
                await self._wait(open_batches)
        for key, reply in self.unreadable.items():
            self.cache.mark_unreadable(key, reply)
        account = Account.merge([judgments.account, self._usage])
        return replace(judgments, account=account)

    def _add_asker(self, judge: Judge, session: aiohttp.ClientSession) -> BatchAsker:
        """Return the asker of a judge; judges that send the same requests share one."""
        settings = judge.model_dump_json(include={"kind", "endpoints", "sampling", "retry"})
        if settings not in self._askers:
            api = BatchApi(judge, session, self._judges.outage_wait)
            self._askers[settings] = BatchAsker(self, api)
        return self._askers[settings]

    def _find_api(self, batch: OpenBatch) -> BatchApi | None:
        """Return the API that a batch was sent to; None: no judge of this run uses it."""
        for asker in self._askers.values():
            endpoint = asker.api.endpoint
            if (endpoint.where, endpoint.model) == (batch.endpoint, batch.model):
                return asker.api
        return None

    # ------------------------------------------------------------------------------------------------------- a round

    def collect(self, asker: BatchAsker, key: bytes, call: Call) -> None:
        """Note a call without a reply; it is added to the next batch, unless it is in an open batch already."""
        if key in self.unanswered:
            return
        body = asker.capabilities.make_body(call)
        # What a server may reject is kept until the reply comes. Keeping whole bodies would fill the memory.
        parameters = dict(body)
        del parameters["messages"]
        response_format = parameters.pop("response_format", None)
        if isinstance(response_format, dict):
            parameters["response_format"] = {"type": response_format.get("type")}
        self.unanswered[key] = (asker, parameters)
        batch = self._submitted.get(key)
        if batch is None:
            asker.add_request(self._folder, key, call.purpose, body)
        elif self._find_api(batch) is not None:
            self._awaited.add(batch.token)
        else:
            raise InvalidInput(
                "grade",
                "batch",
                allowed="reachable as long as requests of this run are pending there",
                got=f"{batch.endpoint} is not among the judges",
                remedy=f"Use that endpoint, or delete {self._book.path} and pay for them again.",
            )

    async def _submit(self) -> None:
        """Submit the calls that were collected in this round."""
        for asker in self._askers.values():
            api = asker.api
            for file in asker.files:
                # The order matters, because a kill can happen at any point: the batch is in the book before it is
                # created.
                file_id = await api.upload(file.path)
                batch = OpenBatch(
                    file.token,
                    api.endpoint.where,
                    api.endpoint.model,
                    file_id,
                    {key.hex(): purpose for key, purpose in file.purposes.items()},
                )
                self._book.write(batch)
                file.path.unlink(missing_ok=True)
                batch_id = await api.create(file_id, file.token)
                self._book.write(replace(batch, batch_id=batch_id))
                self._submissions.update(file.purposes.keys())
                self._awaited.add(file.token)

    async def _wait(self, batches: Sequence[OpenBatch]) -> None:
        """Wait until all these batches are over."""
        pending = list(batches)
        while pending:
            pending = [batch for batch in pending if not await self._finish_if_over(batch)]
            if pending:
                api = self._find_api(pending[0])
                assert api is not None  # `collect` raises for batches of other judges
                await asyncio.sleep(api.endpoint.batch.poll)

    async def _finish_if_over(self, batch: OpenBatch) -> bool:
        """Is the batch over? If so, its replies are stored. A batch that the server no longer has is over too."""
        api = self._find_api(batch)
        assert api is not None
        try:
            batch_id = batch.batch_id
            if batch_id is None:
                batch_id = await api.create(batch.file, batch.token, may_exist=True)
                self._book.write(replace(batch, batch_id=batch_id))
            state = await api.state(batch_id)
            self._report_progress(state)
            if not state.is_over:
                return False
            await self._finish(api, batch, state)
        except NotFound as error:
            state = BatchState("expired", message=f"the server no longer has it ({error})")
            await self._finish(api, batch, state)
        return True

    def _report_progress(self, state: BatchState) -> None:
        """Report how many calls are answered, and how far the server is with a batch."""
        if self._progress is None or not self.unanswered:
            return
        done = len(self.answered)
        self._progress(done, max(len(self.unanswered), done))
        tell = getattr(self._progress, "tell", None)
        if tell is not None:
            tell(f"{state.status}: {state.completed:,} of {state.total:,}")

    # ------------------------------------------------------------------------------------------------------- replies

    async def _finish(self, api: BatchApi, batch: OpenBatch, state: BatchState) -> None:
        """Download the replies of a batch that is over into the cache, and close it."""
        requests = batch.purposes
        answered: set[bytes] = set()
        # The output file must have all requests that the server counts as completed; the error file may be incomplete.
        for file, min_lines in ((state.output_file, state.completed), (state.error_file, 0)):
            if file is not None:
                path = self._folder / f"{batch.token}.replies"
                await api.download(file, path, min_lines)
                await self._store_replies(path, api, requests, answered)
                path.unlink(missing_ok=True)
        for key in requests.keys() - answered:
            # The key is in neither file. The next round submits the call again, if attempts are left.
            if state.status == "cancelled" or not self._has_attempts(key, api.judge):
                failure = f"batch {state.status}: {state.message or 'no answer'}"
                self.failed[key] = Reply(None, failure, attempts=0)
        self._book.remove(batch)
        if state.status == "failed" and not state.hit_limit:
            raise api.judge.make_error(
                "the batch",
                allowed="accepted by the server",
                got=state.message or "it failed",
                remedy="Replies so far are in the cache.",
            )

    def _has_attempts(self, key: bytes, judge: Judge) -> bool:
        """May a call be submitted again?"""
        return self._submissions[key] < judge.retry.attempts

    async def _store_replies(
        self, path: Path, api: BatchApi, requests: Mapping[bytes, str], answered: set[bytes]
    ) -> None:
        """Put the replies of a file into the cache, and add their keys to `answered`.

        Replies to unknown requests, and second replies to the same request, are skipped.
        """
        writes: list[Awaitable[None]] = []
        servers = CallKeys(api.judge).servers
        keys_by_id = {key.hex(): key for key in requests}
        for line in read_lines(path):
            key = keys_by_id.get(line["custom_id"])
            if key is None or key in answered:
                continue
            answered.add(key)
            call = Call((), purpose=requests[key])
            outcome, is_rejected = self._read_line(key, api, line)
            reply = replace(outcome.reply, id=make_reply_id(key, time.time()))
            if reply.failure is None and await self.cache.get_async(key, servers) is not None:
                continue  # it was stored before a kill
            may_retry = outcome.next == "retry" and self._has_attempts(key, api.judge)
            final = not is_rejected and not may_retry
            # The last round, which reads the reply from the cache, counts the call and its request. Here only the usage
            # is counted, and the request if there will be another one.
            self._usage.add(call, reply, 0 if final else 1, final=False)
            if final:
                self.answered.add(key)
                # The cache returns refusals, but no other failures. The usage is counted above.
                if reply.failure is not None and not reply.failure.startswith(REFUSED):
                    self.failed[key] = replace(reply, usage=Usage())
            writes.append(self.cache.put_async(key, call, reply, final=final))
            if len(writes) == _REPLIES_PER_COMMIT:
                await asyncio.gather(*writes)
                writes = []
        await asyncio.gather(*writes)

    def _read_line(
        self, key: bytes, api: BatchApi, line: Mapping[str, Any]
    ) -> tuple[RequestOutcome, bool]:
        """Return the outcome of a request, and whether the server rejected a parameter.

        The next round leaves a rejected parameter out. line: of the file of replies.
        """
        response = line.get("response") or {}
        status = response.get("status_code")
        body = response.get("body")
        is_rejected = False
        if status == 200:
            outcome = read_response(json.dumps(body).encode(), compute_batch_price(api.endpoint))
        else:
            content = json.dumps(body or {"error": line.get("error")}).encode()
            message, parameter, code = read_error(content)
            message = message or code or "no answer"
            if isinstance(status, int):
                outcome = classify_status(status, message, code, {}, api.judge.retry)
                if key in self.unanswered:
                    asker, parameters = self.unanswered[key]
                    is_rejected = asker.capabilities.learn(
                        parameters, status, f"{parameter} {message}"
                    )
            else:  # expired, or lost by the server
                outcome = RequestOutcome(Reply(None, f"batch: {message}"), "retry")
        failure = outcome.reply.failure
        if failure is not None:
            failure = api.address.hide_secrets(failure)
        reply = replace(
            outcome.reply,
            failure=failure,
            endpoint=api.endpoint.where,
            model=api.endpoint.model,
        )
        return replace(outcome, reply=reply), is_rejected


# ----------------------------------------------------------------------------------------------------------- the book


@dataclass(frozen=True)
class OpenBatch:
    """A batch whose replies are not in the cache yet."""

    token: str
    endpoint: str
    model: str
    file: str
    requests: Mapping[str, str]
    """Key of each call in hexadecimal digits → its purpose."""
    batch_id: str | None = None
    """None: not known whether it was created."""

    @property
    def purposes(self) -> dict[bytes, str]:
        """Key of each call → its purpose."""
        return {bytes.fromhex(key): purpose for key, purpose in self.requests.items()}


class BatchBook:
    """A folder with a file for each open batch."""

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)
        self.path.mkdir(parents=True, exist_ok=True)
        try:
            self._lock = lock_file(self.path / "lock")
        except BlockingIOError:
            raise InvalidInput(
                "grade",
                "batch",
                allowed="used by one run at a time with the same cache",
                got=f"another run uses {path}",
                remedy="Wait for it, or give this run a cache of its own.",
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._lock is not None:
            self._lock.close()

    def _find_file(self, batch: OpenBatch) -> Path:
        return self.path / f"{batch.token}.json"

    def write(self, batch: OpenBatch) -> None:
        """Record a batch that is about to be created, or has got its id."""
        with atomic_write(self._find_file(batch)) as file:
            file.write_text(json.dumps(asdict(batch)), encoding="utf-8")

    def remove(self, batch: OpenBatch) -> None:
        """Remove a batch: all its replies are in the cache, or will never come."""
        self._find_file(batch).unlink()

    def list_open_batches(self) -> list[OpenBatch]:
        """Return all open batches."""
        files = sorted(self.path.glob("*.json"))
        return [OpenBatch(**json.loads(file.read_text(encoding="utf-8"))) for file in files]
