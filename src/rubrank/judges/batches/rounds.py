"""The rounds of a run in batches: what is still to be asked, what is under way, and what came of it.

A reply goes through three hands: the batch's file, the store, and the pass over all questions that reads it there. So
nothing of a batch is kept in memory but keys, and a process that is killed anywhere loses none: a batch is closed in
the book only when all of its replies are in the store.
"""

from __future__ import annotations

import asyncio
import json
import sqlite3
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput, JudgeOutage
from rubrank.judges.batches.api import BatchApi, BatchState, NotThere, Unanswered, read_lines
from rubrank.judges.batches.book import Book, Sent
from rubrank.judges.batches.outbox import Outbox, Outgoing
from rubrank.judges.batches.pricing import batch_price, endpoint_of
from rubrank.judges.client.accounting import UsageMeter
from rubrank.judges.client.capabilities import Capabilities
from rubrank.judges.client.completion import read_completion, shorten
from rubrank.judges.client.replies import Keys, Replies, reply_id
from rubrank.judges.client.retrying import RequestOutcome, of_status
from rubrank.judges.client.transport import Address
from rubrank.judges.judge import Asker, Call, Endpoint, Judge, Judges, Reply, Usage
from rubrank.judges.judging import Progress

_LOCKED = 0.02  # seconds between looks at a store that is locked
_AT_ONCE = 500  # replies that are written together
_WAITING = Reply(None, "in a batch that is not over", attempts=0)
_FEWEST_POLLS = 10  # that fail before a server counts as away


class Rounds:
    """The state of one run."""

    def __init__(self, judges: Judges, store: Replies, book: Book, folder: Path, progress: Progress | None) -> None:
        self._judges, self.store, self._book, self._folder = judges, store, book, folder
        self._progress, self.meter = progress, UsageMeter()
        self.ended: dict[bytes, Reply] = {}
        """Of this run: why there is no reply."""
        self.fresh: set[bytes] = set()
        """What was paid for in this run."""
        self._sends: Counter[bytes] = Counter()
        self._under_way: dict[bytes, int] = {}
        self._waited: set[int] = set()
        self._elsewhere: dict[int, str] = {}
        self._asked: dict[bytes, tuple[_Asker, dict[str, Any]]] = {}
        self._askers: dict[int, _Asker] = {}
        self._unread: dict[bytes, Reply] = {}
        self.learnt: dict[str, Capabilities] = {}
        """What each endpoint understands, from round to round."""

    # ---------------------------------------------------------------------------------------------------- a round

    def begin(self) -> None:
        """A new pass over all questions."""
        self._asked, self._unread = {}, {}
        self._under_way = dict(self._book.open_keys())
        batches = self._book.open_batches()
        self._elsewhere = {sent.number: sent.endpoint for sent in batches if self._judge_of(sent) is None}
        self._askers = {}
        self._waited = set()

    def asker_of(self, judge: Judge) -> Asker:
        """Who answers for a judge in this pass."""
        if id(judge) not in self._askers:
            self._askers[id(judge)] = _Asker(self, judge, Outbox(self._folder, endpoint_of(judge)))
        return self._askers[id(judge)]

    def note(self, asker: _Asker, key: bytes, call: Call) -> None:
        """This call has no reply: it goes out with the next batch, unless it is in one."""
        if key in self._asked:
            return
        number = self._under_way.get(key)
        body = asker.capabilities.body(call)
        self._asked[key] = (asker, _shape(body))
        if number is None:
            asker.outbox.add(key, call.purpose, body)
        elif number in self._elsewhere:
            allowed = "reachable as long as requests of this run are pending there"
            remedy = f"Use that endpoint, or delete {self._book.path} and pay for them again."
            raise InvalidInput(
                "grade", "--batch", allowed, f"{self._elsewhere[number]} is not among the judges", remedy
            )
        else:
            self._waited.add(number)

    def unreadable(self, key: bytes, reply: Reply) -> None:
        """Kept until the last pass: the next run asks once more, this one does not."""
        self._unread[key] = reply

    @property
    def open(self) -> bool:
        """Is something without a reply?"""
        return bool(self._asked)

    @property
    def noted(self) -> int:
        """Calls of this round without a reply when it began."""
        return len(self._asked)

    @property
    def answered(self) -> int:
        """Calls that were answered in this run."""
        return len(self.fresh)

    def end(self) -> None:
        """After the last pass."""
        for key, reply in self._unread.items():
            self.store.mark_unreadable(key, reply)

    # ---------------------------------------------------------------------------------------------------- sending

    async def send(self, wait: bool) -> tuple[int, int] | None:
        """Send what was noted; wait for it, or say how many requests are under way in how many batches."""
        for asker in self._askers.values():
            async with BatchApi(asker.outbox.endpoint, asker.judge) as api:
                for outgoing in asker.outbox.files:
                    self._waited.add(await self._send(api, outgoing))
        open_now = [sent for sent in self._book.open_batches() if sent.number in self._waited]
        if not wait:
            requests = sum(len(self._book.requests(sent.number)) for sent in open_now)
            return (requests, len(open_now)) if open_now else None
        await self._wait(open_now)
        return None

    async def _send(self, api: BatchApi, outgoing: Outgoing) -> int:
        """Upload, write down, make the batch, write down its id: in an order that survives a kill anywhere."""
        file = await self._patient(api, lambda _: api.upload(outgoing.path))
        endpoint = api.endpoint
        number = self._book.add(outgoing.token, endpoint.where, endpoint.model, file, outgoing.purposes)
        outgoing.path.unlink(missing_ok=True)
        self._book.sent(number, await self._patient(api, lambda again: _created(api, file, outgoing.token, again)))
        self._sends.update(list(outgoing.purposes))
        return number

    async def _patient(self, api: BatchApi, request: Callable[[bool], Awaitable[str]]) -> str:
        """What the server says; JudgeOutage when it keeps failing. request: is told whether it is made again."""
        start, again = time.monotonic(), False
        while True:
            try:
                return str(await request(again))
            except Unanswered as error:
                gone, again = time.monotonic() - start, True
                if gone > self._judges.outage_wait:
                    name, where = self._name_of(api.endpoint), api.endpoint.where
                    raise JudgeOutage(name, where, str(error.args[0]), gone) from None
            await asyncio.sleep(min(api.endpoint.batch.poll, self._judges.outage_wait))

    # ---------------------------------------------------------------------------------------------------- waiting

    async def look(self) -> None:
        """Take in what is over of what an earlier run has sent."""
        for sent in self._book.open_batches():
            judge = self._judge_of(sent)
            if judge is not None:  # else it belongs to other judges that share the store
                async with BatchApi(endpoint_of(judge), judge) as api:
                    try:
                        await self._settle_if_over(api, judge, sent)
                    except Unanswered:
                        continue  # waiting will find out

    async def _wait(self, waited: Iterable[Sent]) -> None:
        left, since, failure = list(waited), time.monotonic(), ""
        poll = 0.0
        while left:
            still = []
            for sent in left:
                judge = self._judge_of(sent)
                assert judge is not None  # `note` refuses others
                async with BatchApi(endpoint_of(judge), judge) as api:
                    try:
                        over = await self._settle_if_over(api, judge, sent)
                        since, failure = time.monotonic(), ""
                    except Unanswered as error:
                        over, failure = False, str(error.args[0])
                poll, gone = api.endpoint.batch.poll, time.monotonic() - since
                if failure and gone > max(self._judges.outage_wait, _FEWEST_POLLS * poll):
                    raise JudgeOutage(judge.name, api.endpoint.where, failure, gone)
                if not over:
                    still.append(sent)
            left = still
            if left:
                await asyncio.sleep(poll)

    async def _settle_if_over(self, api: BatchApi, judge: Judge, sent: Sent) -> bool:
        """Is it over? Then its replies are in the store. One that the server has no more is over without them."""
        try:
            batch = sent.batch
            if batch is None:
                batch = await _created(api, sent.file, sent.token, True)
                self._book.sent(sent.number, batch)
            state = await api.state(batch)
            self._tell(state)
            if not state.over:
                return False
            await self._settle(api, judge, sent, state)
        except NotThere as error:
            await self._settle(api, judge, sent, BatchState("expired", said=f"the server has it no more ({error})"))
        return True

    def _tell(self, state: BatchState) -> None:
        if self._progress is not None and self._asked:
            self._progress(self.answered, max(len(self._asked), self.answered))
            tell = getattr(self._progress, "tell", None)
            if tell is not None:
                tell(f"{state.status}: {state.completed:,} of {state.total:,}")

    # ---------------------------------------------------------------------------------------------------- settling

    async def _settle(self, api: BatchApi, judge: Judge, sent: Sent, state: BatchState) -> None:
        requests = self._book.requests(sent.number)
        reader = _ReplyReader(judge, api.endpoint)
        seen: set[bytes] = set()
        for file, least in ((state.output, state.completed), (state.errors, 0)):
            if file is None:
                continue
            path = self._folder / f"{sent.token}.replies"
            await api.download(file, path, least)
            await self._take_in(read_lines(path), requests, reader, seen)
            path.unlink(missing_ok=True)
        for key in requests.keys() - seen:
            self._without_answer(key, judge, state)
        self._book.close_batch(sent.number)
        if state.status == "failed" and not _is_limit(state):
            allowed, remedy = "accepted by the server", "What was answered so far is kept."
            raise InvalidInput(f"judge {judge.name!r}", "the batch", allowed, state.said or "it failed", remedy)

    async def _take_in(
        self, lines: Iterable[Mapping[str, Any]], requests: Mapping[bytes, str], reader: _ReplyReader, seen: set[bytes]
    ) -> None:
        """Into the store, some at a time; what was not asked for, and what comes twice, is left."""
        keeping = []
        for line in lines:
            key = _key(line["custom_id"])
            if key is None or key not in requests or key in seen:
                continue
            seen.add(key)
            call = Call((), purpose=requests[key])
            reply, final = await self._read(key, call, reader, line)
            if reply is not None:
                keeping.append(self.store.keep(key, call, reply, final=final))
            if len(keeping) == _AT_ONCE:
                await asyncio.gather(*keeping)
                keeping = []
        await asyncio.gather(*keeping)

    async def _read(
        self, key: bytes, call: Call, reader: _ReplyReader, line: Mapping[str, Any]
    ) -> tuple[Reply | None, bool]:
        """What is to be kept of a line, and whether it ends the call; None: it was kept before a kill."""
        asker, shape = self._asked.get(key, (None, {}))
        outcome, learnt = reader.read(line, None if asker is None else asker.capabilities, shape)
        reply = replace(outcome.reply, id=reply_id(key, time.time()))
        if reply.failure is None and await known(self.store, key) is not None:
            return None, True
        if learnt or (outcome.next == "again" and self._sends[key] < reader.judge.retry.attempts):
            self.meter.add(call, reply, 1, final=False)
            return reply, False
        self.meter.add(call, reply, 0, final=False)  # the last pass counts the call
        self.fresh.add(key)
        if reply.failure is not None and not reply.failure.startswith("refused"):
            self.ended[key] = replace(reply, usage=Usage())
        return reply, True

    def _without_answer(self, key: bytes, judge: Judge, state: BatchState) -> None:
        """Neither file has it: the next round sends it again, if there are tries left."""
        if state.status == "cancelled" or self._sends[key] >= judge.retry.attempts:
            self.ended[key] = Reply(None, f"batch {state.status}: {state.said or 'no answer'}", attempts=0)

    # ---------------------------------------------------------------------------------------------------- judges

    def _judge_of(self, sent: Sent) -> Judge | None:
        for judge in self._judges.judges:
            for leaf in judge.members or (judge,):
                endpoint = endpoint_of(leaf)
                if (endpoint.where, endpoint.model) == (sent.endpoint, sent.model):
                    return leaf
        return None

    def _name_of(self, endpoint: Endpoint) -> str:
        leaves = [leaf for judge in self._judges.judges for leaf in judge.members or (judge,)]
        return next((leaf.name for leaf in leaves if endpoint_of(leaf) is endpoint), "judge")


class _Asker:
    """Answers for one judge in one pass: from the store, or not yet."""

    def __init__(self, rounds: Rounds, judge: Judge, outbox: Outbox) -> None:
        self._rounds, self.judge, self.outbox = rounds, judge, outbox
        self._keys = Keys(judge)
        self.capabilities = _capabilities(rounds, outbox.endpoint, judge)

    async def ask(self, call: Call) -> Reply:
        """The reply, or that there is none yet."""
        rounds, key = self._rounds, self._keys.of(call)
        if key in rounds.ended:
            return rounds.ended[key]
        reply = await known(rounds.store, key)
        if reply is None:
            rounds.note(self, key, call)
            return _WAITING
        return replace(reply, cached=False, attempts=1) if key in rounds.fresh else reply

    def unreadable(self, call: Call, reply: Reply) -> None:
        """No verdict could be read in this reply."""
        self._rounds.unreadable(self._keys.of(call), reply)


class _ReplyReader:
    """Lines of a batch's files → outcomes, at the price of a batch."""

    def __init__(self, judge: Judge, endpoint: Endpoint) -> None:
        self.judge, self._endpoint = judge, endpoint
        self._price, self._address = batch_price(endpoint), Address(endpoint)

    def read(
        self, line: Mapping[str, Any], capabilities: Capabilities | None, sent: Mapping[str, Any]
    ) -> tuple[RequestOutcome, bool]:
        """What a line says; and whether a parameter was refused that the next round leaves out."""
        response, error = line.get("response"), line.get("error")
        response = response if isinstance(response, dict) else {}
        status, body = response.get("status_code"), response.get("body")
        if status == 200:
            outcome, learnt = read_completion(json.dumps(body).encode(), self._price), False
        else:
            outcome, learnt = self._failed(status, body, error, capabilities, sent)
        failure = outcome.reply.failure
        hidden = None if failure is None else self._address.hide(failure)
        reply = replace(
            outcome.reply, endpoint=self._endpoint.where, model=self._endpoint.model, failure=hidden, attempts=1
        )
        return replace(outcome, reply=reply), learnt

    def _failed(
        self, status: Any, body: Any, error: Any, capabilities: Capabilities | None, sent: Mapping[str, Any]
    ) -> tuple[RequestOutcome, bool]:
        said = body.get("error", body) if isinstance(body, dict) else body
        said = said if isinstance(said, dict) else error if isinstance(error, dict) else {}
        message, code = shorten(said.get("message") or said.get("code") or "no answer"), said.get("code")
        if not isinstance(status, int):  # expired, or lost by the server
            return RequestOutcome(Reply(None, f"batch: {message}"), "again", healthy=False), False
        outcome = of_status(status, message, code if isinstance(code, str) else None, {}, self.judge.retry)
        told = f"{said.get('param') or ''} {message}"
        return outcome, capabilities is not None and capabilities.learn(sent, status, told)


async def _created(api: BatchApi, file: str, token: str, again: bool) -> str:
    """The batch with this token: where it may have been made already, it is looked for first."""
    return (await api.find(token) if again else None) or await api.create(file, token)


async def known(store: Replies, key: bytes) -> Reply | None:
    """The reply in the store, once it can be read."""
    while True:
        try:
            return store.get(key)
        except sqlite3.OperationalError as error:
            if "locked" not in str(error):
                raise
            await asyncio.sleep(_LOCKED)


def _capabilities(rounds: Rounds, endpoint: Endpoint, judge: Judge) -> Capabilities:
    """Remembered from round to round."""
    parts = [endpoint.base_url, endpoint.model, endpoint.structured, dict(endpoint.extra_body)]
    name = json.dumps([*parts, judge.sampling.model_dump()], default=repr)
    return rounds.learnt.setdefault(name, Capabilities(endpoint, judge.sampling))


def _shape(body: Mapping[str, Any]) -> dict[str, Any]:
    """A request without its text: what a server may refuse about it."""
    form = body.get("response_format")
    kept = {name: value for name, value in body.items() if name not in ("messages", "response_format")}
    return kept | ({"response_format": {"type": form.get("type")}} if isinstance(form, dict) else {})


def _key(custom_id: str) -> bytes | None:
    try:
        return bytes.fromhex(custom_id)
    except ValueError:
        return None


def _is_limit(state: BatchState) -> bool:
    """Was it turned away for now, because too much waits already?"""
    return any("limit" in code for code in state.codes)
