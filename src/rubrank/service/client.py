"""The other side of the service: for programs, for TRL, and for verl's `compute_score`.

    client = RewardClient("http://127.0.0.1:8300", token="…")
    client.rewards([{"prompt": "Name a lake.", "responses": ["West Lake.", "No."]}], step=12)     [[1.0, 0.0]]
    await client.rewards_async(groups, step=12)

    GRPOTrainer(…, reward_funcs=remote_reward("http://127.0.0.1:8300", num_generations=8))

    verl: reward.custom_reward_function.path=pkg://rubrank.service.client
          reward.custom_reward_function.name=compute_score          and RUBRANK_SERVICE=http://…, RUBRANK_TOKEN=…

A call that fails for now (no connection, 429, 503) is made again with the same request id: the service answers it once.
A reward about which nothing is known is NaN, and None for TRL, which leaves such a sample out.
"""

from __future__ import annotations

import asyncio
import http.client
import json
import math
import os
import ssl
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Self
from urllib.parse import SplitResult, unquote, urlsplit

from rubrank._plain import plain
from rubrank.errors import InvalidInput, RubrankError, refuses_wrong_kinds
from rubrank.service.schemas import to_json

URL, TOKEN = "RUBRANK_SERVICE", "RUBRANK_TOKEN"
_AGAIN = (408, 429, 500, 502, 503, 504)
_LONGEST = 30.0  # seconds between tries
_OWNER = "RewardClient"


class ServiceError(RubrankError, RuntimeError):
    """The service refused a call, or could not be reached; `status` is None where it could not."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message, status)
        self.status = status

    def __str__(self) -> str:
        return str(self.args[0])


@refuses_wrong_kinds
class RewardClient:
    """Calls of one service; may be used by several threads. Connections are kept, until `close` or the end of `with`.

    timeout: seconds for one attempt. tries: attempts before a call is given up.
    """

    def __init__(
        self, url: str | None = None, *, token: str | None = None, timeout: float = 600.0, tries: int = 8
    ) -> None:
        self._idle: list[tuple[int, http.client.HTTPConnection]] = []
        """With the process that opened them: a forked one would read the answers of its parent."""
        if tries < 1 or not timeout > 0.0:
            name, allowed, got = ("tries", "≥ 1", tries) if tries < 1 else ("timeout", "> 0", timeout)
            raise InvalidInput(_OWNER, name, allowed, str(got), "")
        self._address, self._timeout, self._tries = _address(url), timeout, tries
        secret = token or unquote(self._address.password or "") or os.environ.get(TOKEN)
        self._headers = {"Content-Type": "application/json"}
        if secret:
            self._headers["Authorization"] = f"Bearer {_in_a_header(secret)}"

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_idle": []}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the connections; the next call opens another."""
        while self._idle:
            with suppress(IndexError):
                self._idle.pop()[1].close()

    def __del__(self) -> None:
        self.close()

    # ---------------------------------------------------------------------------------------------------------- calls

    def groups(self, groups: Sequence[Mapping[str, Any]], **options: Any) -> dict[str, Any]:
        """Whole groups → the answer of `POST /v1/groups`: rewards, scores, reasons, cost (docs/service.md)."""
        body = {"groups": list(groups), "request_id": uuid.uuid4().hex, **options}
        found: dict[str, Any] = self.call("/v1/groups", body)
        return found

    def rewards(self, groups: Sequence[Mapping[str, Any]], **options: Any) -> list[list[float]]:
        """The rewards of whole groups; NaN if all scores are missing."""
        answer = self.groups(groups, **{"reasons": False, **options})
        try:
            return [[math.nan if r is None else r for r in group["rewards"]] for group in answer["groups"]]
        except (KeyError, TypeError):
            got = f"{self._where}: its answer has no rewards; is it a reward service?"
            raise ServiceError(got) from None

    def score(self, prompt: Any, response: Any, **more: Any) -> dict[str, Any]:
        """One rollout → its scores, reasons and cost."""
        found: dict[str, Any] = self.call("/v1/score", {"prompt": prompt, "response": response, **more})
        return found

    def sample(self, prompt: Any, response: Any, label: Any = None, **more: Any) -> dict[str, Any]:
        """One sample, which waits for its siblings → reward, scores, whether its group was complete.

        more: group_id, sample_id, group_size, step, train.
        """
        body = {"prompt": prompt, "response": response, "label": label, **more}
        found: dict[str, Any] = self.call("/slime?form=object", body)
        return found

    async def groups_async(self, groups: Sequence[Mapping[str, Any]], **options: Any) -> dict[str, Any]:
        """`groups` in an event loop, which goes on meanwhile."""
        return await asyncio.to_thread(self.groups, groups, **options)

    async def rewards_async(self, groups: Sequence[Mapping[str, Any]], **options: Any) -> list[list[float]]:
        """`rewards` in an event loop."""
        return await asyncio.to_thread(self.rewards, groups, **options)

    async def sample_async(self, prompt: Any, response: Any, label: Any = None, **more: Any) -> dict[str, Any]:
        """`sample` in an event loop: a thread for each, since each may wait for minutes."""
        future: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        _in_thread(future, lambda: self.sample(prompt, response, label, **more))
        return await future

    # ----------------------------------------------------------------------------------------------------------- HTTP

    def call(self, path: str, body: Any) -> Any:
        """The JSON of an answer; tried again where that may help."""
        content, error = to_json(body), ServiceError("")
        for attempt in range(self._tries):
            if attempt:
                time.sleep(min(0.25 * 2**attempt, _LONGEST))
            try:
                status, answer = self._request(path, content)
            except (OSError, http.client.HTTPException) as found:
                error = ServiceError(f"{self._where}: {type(found).__name__}: {found}")
                if isinstance(found, ssl.SSLCertVerificationError):
                    break  # it will not become another one
                continue
            if status == http.client.OK:
                return self._read(answer)
            error = ServiceError(_said(answer, status), status)
            if status not in _AGAIN:
                break
        raise error

    def _read(self, answer: bytes) -> Any:
        try:
            return json.loads(answer)
        except (ValueError, RecursionError):
            got = answer[:80].decode("utf-8", "replace")
            raise ServiceError(f"{self._where}: its answer is not JSON: {got!r}; is it a reward service?") from None

    @property
    def _where(self) -> str:
        return f"{self._address.scheme}://{self._address.hostname}:{self._address.port or ''}"

    def _request(self, path: str, content: bytes) -> tuple[int, bytes]:
        connection = self._taken()
        try:
            connection.request("POST", self._address.path.rstrip("/") + path, content, self._headers)
            response = connection.getresponse()
            found = response.status, response.read()
        except BaseException:
            connection.close()
            raise
        self._idle.append((os.getpid(), connection))
        return found

    def _taken(self) -> http.client.HTTPConnection:
        """One that is idle, or another."""
        while self._idle:
            with suppress(IndexError):
                process, connection = self._idle.pop()
                if process == os.getpid():
                    return connection
                connection.close()
        return self._connect()

    def _connect(self) -> http.client.HTTPConnection:
        host, port = self._address.hostname or "", self._address.port
        if self._address.scheme == "https":
            context = ssl.create_default_context(cafile=os.environ.get("SSL_CERT_FILE"))
            return http.client.HTTPSConnection(host, port, timeout=self._timeout, context=context)
        return http.client.HTTPConnection(host, port, timeout=self._timeout)


def _address(url: str | None) -> SplitResult:
    allowed, remedy = "http://host:port", f"Pass it, or set {URL}."
    given = url or os.environ.get(URL) or ""
    try:
        address = urlsplit(given)
        known = address.scheme in ("http", "https") and address.hostname and (address.port is None or address.port > 0)
    except ValueError:  # a port that is none, brackets that do not match
        known = False
    if not known:
        raise InvalidInput(_OWNER, "url", allowed, repr(given.rpartition("@")[2]) if given else "none", remedy)
    return address


def _in_a_header(secret: str) -> str:
    if not secret.isascii() or not secret.isprintable():
        raise InvalidInput(_OWNER, "token", "printable ASCII characters", "others", "")
    return secret


def _in_thread(future: asyncio.Future[Any], call: Callable[[], Any]) -> None:
    loop = future.get_loop()

    def settle(result: Any, error: BaseException | None) -> None:
        if not future.done():
            future.set_result(result) if error is None else future.set_exception(error)

    def run() -> None:
        result, error = None, None
        try:
            result = call()
        except Exception as found:
            error = found
        loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, daemon=True).start()


def _said(answer: bytes, status: int) -> str:
    try:
        return str(json.loads(answer)["error"]["message"])
    except (ValueError, KeyError, TypeError):
        return f"HTTP {status}: {answer[:200].decode('utf-8', 'replace')}"


# ------------------------------------------------------------------------------------------------------------ trainers


def remote_reward(
    url: str | None = None, num_generations: int = 8, *, rubric_column: str = "rubric", **options: Any
) -> Callable[..., list[float | None]]:
    """A reward function for TRL's GRPOTrainer in one process (or AsyncGRPO): groups are judged by the service.

    num_generations: as the trainer has it; a slice that cuts a group is refused. options: those of `RewardClient`.
    With several processes a slice may be cut: use `RubricReward` there, or a batch that is a multiple of it.
    """
    client = RewardClient(url, **options)
    if num_generations < 1:
        raise InvalidInput("remote_reward", "num_generations", "≥ 1", str(num_generations), "")

    def rubrank(prompts: Sequence[Any], completions: Sequence[Any], **columns: Any) -> list[float | None]:
        if len(prompts) % num_generations:
            remedy = "per_device_train_batch_size × steps must be a multiple of it in every process."
            got = f"{len(prompts)} samples"
            raise InvalidInput("remote_reward", "num_generations", "a divisor of the slice", got, remedy)
        known = ("completion_ids", "trainer_state", "log_extra", "log_metric")
        rows = {
            k: v for k, v in columns.items() if k not in known and isinstance(v, Sequence) and len(v) == len(prompts)
        }
        starts = range(0, len(prompts), num_generations)
        if any(prompt != prompts[at] for at in starts for prompt in prompts[at : at + num_generations]):
            remedy = "Pass num_generations as the trainer has it, for evaluation too."
            got = f"{num_generations}, and so many samples in a row are of several prompts"
            raise InvalidInput("remote_reward", "num_generations", "the samples of one prompt", got, remedy)
        groups = [
            _group(
                prompts[at], completions[at : at + num_generations], {k: v[at] for k, v in rows.items()}, rubric_column
            )
            for at in starts
        ]
        step = getattr(columns.get("trainer_state"), "global_step", 0)
        found = client.rewards(groups, step=step)
        return [None if math.isnan(reward) else reward for rewards in found for reward in rewards]

    return rubrank


def _group(prompt: Any, responses: Sequence[Any], row: Mapping[str, Any], rubric_column: str) -> dict[str, Any]:
    metadata = {name: value for name, value in row.items() if name != rubric_column and value is not None}
    own = row.get(rubric_column)
    return {"prompt": prompt, "responses": list(responses), "metadata": metadata, **({"rubric": own} if own else {})}


_clients: dict[tuple[str, str], RewardClient] = {}


async def compute_score(
    data_source: Any, solution_str: str, ground_truth: Any, extra_info: Mapping[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """verl's reward function, one sample per call: the reward of the sample among its siblings.

    The group is `uid` of `extra_info` where it is there, else prompt and ground truth; the prompt is `extra_info`'s
    `prompt` or `question`. verl keeps every number of the answer under `reward_extra_info`.
    """
    key = (os.environ.get(URL, ""), os.environ.get(TOKEN, ""))
    client = _clients.get(key) or _clients.setdefault(key, RewardClient())
    row = plain(extra_info or {})  # of a Parquet file: lists are arrays there
    given = {name: row[name] for name in ("group_size", "sample_id", "step") if row.get(name) is not None}
    group = row.get("group_id", row.get("uid"))
    prompt = row.get("prompt") or row.get("question") or str(data_source)
    label = {**row, "ground_truth": ground_truth, "data_source": data_source}
    if group is not None:
        given["group_id"] = group
    answer = await client.sample_async(prompt, solution_str, label, **given)
    flags = {f"rubrank_{name}": float(answer[name]) for name in ("complete", "late", "unknown")}
    return {"score": answer["reward"], **flags}
