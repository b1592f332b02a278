"""The client of the reward service: for programs, for TRL, and for verl's `compute_score`.

    client = RewardClient("http://127.0.0.1:8300", token="…")
    client.rewards([{"prompt": "Name a lake.", "responses": ["West Lake.", "No."]}], step=12)     [[1.0, 0.0]]
    await client.rewards_async(groups, step=12)

    GRPOTrainer(…, reward_funcs=remote_reward("http://127.0.0.1:8300", num_generations=8))

    verl: reward.custom_reward_function.path=pkg://rubrank.service.client
          reward.custom_reward_function.name=compute_score          and RUBRANK_SERVICE=http://…, RUBRANK_TOKEN=…

A call that fails temporarily (no connection, or a status such as 429 or 503) is retried. A retry sends the same body,
so the service recognises groups by their request id and samples by their id or text, and does the work once.
The reward of a rollout without any score is NaN, and None for TRL, which leaves such a sample out. `sample` and
`compute_score` give it the mean of its group instead, and set the flag `unknown` (in verl: `rubrank_unknown`).
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
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Self
from urllib.parse import SplitResult, unquote, urlsplit

from rubrank._plain import plain
from rubrank.errors import InvalidInput, RubrankError, refuses_wrong_kinds
from rubrank.service.requests import to_json

URL_VARIABLE = "RUBRANK_SERVICE"
"""The environment variable with the address of the service."""
TOKEN_VARIABLE = "RUBRANK_TOKEN"
"""The environment variable with its token."""
_RETRIED_STATUSES = (408, 429, 500, 502, 503, 504)
_LONGEST_PAUSE_SECONDS = 30.0  # between two attempts
_OWNER = "RewardClient"
_TRAINER_ARGUMENTS = ("completion_ids", "trainer_state", "log_extra", "log_metric")
"""Arguments that TRL passes in addition to the columns of the dataset."""


class ServiceError(RubrankError, RuntimeError):
    """The service rejected a call, or could not be reached (`status` is None)."""

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message, status)
        self.status = status

    def __str__(self) -> str:
        return str(self.args[0])


@refuses_wrong_kinds
class RewardClient:
    """Calls one service; may be used by several threads. Connections stay open until `close` or the end of `with`.

    url: default: the environment variable RUBRANK_SERVICE.
    token: default: the password in the URL, or else the environment variable RUBRANK_TOKEN.
    timeout: seconds for one attempt. tries: attempts before a call is given up.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        token: str | None = None,
        timeout: float = 600.0,
        tries: int = 8,
    ) -> None:
        # Set first: `__del__` closes the connections even if an argument is invalid.
        self._idle: list[tuple[int, http.client.HTTPConnection]] = []
        """(process id, connection): a forked process must not use the connections of its parent."""
        if tries < 1:
            raise InvalidInput(_OWNER, "tries", allowed="≥ 1", got=str(tries))
        if not timeout > 0.0:
            raise InvalidInput(_OWNER, "timeout", allowed="> 0", got=str(timeout))
        self._address = _parse_url(url)
        self._timeout = timeout
        self._tries = tries
        self._headers = {"Content-Type": "application/json"}
        secret = token or unquote(self._address.password or "") or os.environ.get(TOKEN_VARIABLE)
        if secret:
            if not secret.isascii() or not secret.isprintable():
                raise InvalidInput(
                    _OWNER, "token", allowed="printable ASCII characters", got="others"
                )
            self._headers["Authorization"] = f"Bearer {secret}"

    def __getstate__(self) -> dict[str, Any]:
        """Return the state for pickle, without the connections: a socket cannot be sent to another process."""
        return {**self.__dict__, "_idle": []}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections; the next call opens another."""
        while self._idle:
            with suppress(IndexError):  # another thread took the last one
                self._idle.pop()[1].close()

    def __del__(self) -> None:
        self.close()

    # ----------------------------------------------------------------------------------------------------- calls

    def groups(self, groups: Sequence[Mapping[str, Any]], **options: Any) -> dict[str, Any]:
        """Send whole groups, and return the answer of `POST /v1/groups` (docs/service.md): rewards, scores, cost …"""
        body = {"groups": list(groups), "request_id": uuid.uuid4().hex, **options}
        return self.call("/v1/groups", body)

    def rewards(self, groups: Sequence[Mapping[str, Any]], **options: Any) -> list[list[float]]:
        """Return the rewards of whole groups, one list per group; NaN if all scores are missing."""
        answer = self.groups(groups, **{"reasons": False, **options})
        try:
            rewards = []
            for group in answer["groups"]:
                # JSON has no NaN, so the service sends null.
                rewards.append(
                    [math.nan if reward is None else reward for reward in group["rewards"]]
                )
            return rewards
        except (KeyError, TypeError):
            problem = "its answer has no rewards; is it a reward service?"
            raise ServiceError(f"{self._public_url}: {problem}") from None

    def score(self, prompt: Any, response: Any, **more: Any) -> dict[str, Any]:
        """Send one rollout, and return its scores, reasons and cost."""
        return self.call("/v1/score", {"prompt": prompt, "response": response, **more})

    def sample(self, prompt: Any, response: Any, label: Any = None, **more: Any) -> dict[str, Any]:
        """Send one sample, wait for its siblings, and return its reward, scores, and whether its group was complete.

        more: group_id, sample_id, group_size, step, train.
        """
        body = {"prompt": prompt, "response": response, "label": label, **more}
        # slime's format is the plainest for one sample; form=object asks for more than the reward (`dialects.py`).
        return self.call("/slime?form=object", body)

    async def groups_async(
        self, groups: Sequence[Mapping[str, Any]], **options: Any
    ) -> dict[str, Any]:
        """Do what `groups` does, in an event loop."""
        return await asyncio.to_thread(self.groups, groups, **options)

    async def rewards_async(
        self, groups: Sequence[Mapping[str, Any]], **options: Any
    ) -> list[list[float]]:
        """Do what `rewards` does, in an event loop."""
        return await asyncio.to_thread(self.rewards, groups, **options)

    async def sample_async(
        self, prompt: Any, response: Any, label: Any = None, **more: Any
    ) -> dict[str, Any]:
        """Do what `sample` does, in an event loop.

        Each call has its own thread. It waits for its siblings, perhaps for minutes; in a pool such as that of
        `asyncio.to_thread`, waiting samples would occupy all threads, and the siblings could never be sent.
        """
        future: Future[dict[str, Any]] = Future()
        # A running future cannot be cancelled, so the thread can set its result even if the caller has left.
        future.set_running_or_notify_cancel()

        def run() -> None:
            try:
                future.set_result(self.sample(prompt, response, label, **more))
            except Exception as error:
                future.set_exception(error)

        threading.Thread(target=run, daemon=True).start()
        return await asyncio.wrap_future(future)

    # ------------------------------------------------------------------------------------------------------ HTTP

    def call(self, path: str, body: Any) -> dict[str, Any]:
        """Send a POST request, with retries, and return the JSON of the response.

        Raises ServiceError if the service rejects the call, if its answer is no JSON, or after the last attempt.
        """
        content = to_json(body)
        error = ServiceError("")  # replaced by the error of the latest attempt
        for attempt in range(self._tries):
            if attempt:  # a retry, after 0.5, 1, 2, 4 … seconds
                time.sleep(min(0.25 * 2**attempt, _LONGEST_PAUSE_SECONDS))
            try:
                status, answer = self._request(path, content)
            except (OSError, http.client.HTTPException) as failure:
                error = ServiceError(f"{self._public_url}: {type(failure).__name__}: {failure}")
                if isinstance(failure, ssl.SSLCertVerificationError):
                    break  # another attempt would see the same certificate
                continue
            if status == http.client.OK:
                try:
                    parsed: dict[str, Any] = json.loads(answer)
                except (ValueError, RecursionError):
                    got = answer[:80].decode("utf-8", "replace")
                    problem = f"its answer is not JSON: {got!r}; is it a reward service?"
                    raise ServiceError(f"{self._public_url}: {problem}") from None
                return parsed
            try:
                message = str(json.loads(answer)["error"]["message"])
            except (ValueError, KeyError, TypeError):  # not the JSON of our service
                message = f"HTTP {status}: {answer[:200].decode('utf-8', 'replace')}"
            error = ServiceError(message, status)
            if status not in _RETRIED_STATUSES:
                break
        raise error

    @property
    def _public_url(self) -> str:
        """The address without the password that it may contain, for messages."""
        return f"{self._address.scheme}://{self._address.netloc.rpartition('@')[2]}"

    def _request(self, path: str, content: bytes) -> tuple[int, bytes]:
        """Send one request, and return status and body of the response.

        The connection is kept for the next request, or closed if this one failed.
        """
        connection = self._take_connection()
        try:
            target = self._address.path.rstrip("/") + path
            connection.request("POST", target, content, self._headers)
            response = connection.getresponse()
            answer = response.read()
        except BaseException:
            connection.close()
            raise
        self._idle.append((os.getpid(), connection))
        return response.status, answer

    def _take_connection(self) -> http.client.HTTPConnection:
        """Return an idle connection, or a new one."""
        while self._idle:
            with suppress(IndexError):  # another thread took the last one
                process, connection = self._idle.pop()
                if process == os.getpid():
                    return connection
                connection.close()
        host = self._address.hostname or ""
        port = self._address.port
        if self._address.scheme == "https":
            context = ssl.create_default_context(cafile=os.environ.get("SSL_CERT_FILE"))
            return http.client.HTTPSConnection(host, port, timeout=self._timeout, context=context)
        return http.client.HTTPConnection(host, port, timeout=self._timeout)


def _parse_url(url: str | None) -> SplitResult:
    """Return the parts of the address. Raises InvalidInput without the password, which must not be in a log."""
    text = url or os.environ.get(URL_VARIABLE) or ""
    try:
        address = urlsplit(text)
        has_port = address.port is None or address.port > 0
        if address.scheme in ("http", "https") and address.hostname and has_port:
            return address
    except ValueError:  # a port that is not a number, brackets that do not match
        pass
    without_password = repr(text.rpartition("@")[2]) if text else "none"
    raise InvalidInput(
        _OWNER,
        "url",
        allowed="http://host:port",
        got=without_password,
        remedy=f"Pass it, or set {URL_VARIABLE}.",
    )


# ----------------------------------------------------------------------------------------------------------- trainers


def remote_reward(
    url: str | None = None,
    num_generations: int = 8,
    *,
    rubric_column: str = "rubric",
    **options: Any,
) -> Callable[..., list[float | None]]:
    """Return a reward function for TRL's GRPOTrainer in one process (or AsyncGRPO), whose groups the service scores.

    num_generations: as in the trainer. options: those of `RewardClient`.
    Each call must have whole groups, else InvalidInput is raised. With several processes a group may be split among
    them: use `RubricReward` there, or a batch size that is a multiple of num_generations.
    """
    client = RewardClient(url, **options)
    if num_generations < 1:
        raise InvalidInput(
            "remote_reward", "num_generations", allowed="≥ 1", got=str(num_generations)
        )

    # TRL logs the rewards under the name of the function.
    def rubrank(
        prompts: Sequence[Any], completions: Sequence[Any], **columns: Any
    ) -> list[float | None]:
        groups = []
        for start in range(0, len(prompts), num_generations):
            end = start + num_generations
            if end > len(prompts) or any(p != prompts[start] for p in prompts[start:end]):
                raise InvalidInput(
                    "remote_reward",
                    "num_generations",
                    allowed="the number of samples of each prompt, one after the other in the batch",
                    got=f"{num_generations} for {len(prompts)} samples",
                    remedy="Pass the num_generations of the trainer, also in evaluation, and make the batch size of"
                    " every process a multiple of it.",
                )
            row = {}
            for name, values in columns.items():
                is_column = isinstance(values, Sequence) and len(values) == len(prompts)
                if name not in _TRAINER_ARGUMENTS and is_column and values[start] is not None:
                    row[name] = values[start]
            group = {"prompt": prompts[start], "responses": list(completions[start:end])}
            rubric = row.pop(rubric_column, None)
            if rubric:
                group["rubric"] = rubric
            groups.append({**group, "metadata": row})
        step = getattr(columns.get("trainer_state"), "global_step", 0)
        rewards = [reward for group in client.rewards(groups, step=step) for reward in group]
        return [None if math.isnan(reward) else reward for reward in rewards]

    return rubrank


_clients: dict[tuple[str, str], RewardClient] = {}
"""Address and token → the client of this process."""


async def compute_score(
    data_source: Any,
    solution_str: str,
    ground_truth: Any,
    extra_info: Mapping[str, Any] | None = None,
    **more: Any,
) -> dict[str, Any]:
    """Return the reward of one sample among its siblings; verl calls this function for every sample.

    The group is identified by `group_id` or `uid` in `extra_info`, or else by prompt and ground truth. The prompt is
    `prompt` or `question` in `extra_info`. verl logs every number of the result under `reward_extra_info`.
    """
    key = (os.environ.get(URL_VARIABLE, ""), os.environ.get(TOKEN_VARIABLE, ""))
    if key not in _clients:
        _clients[key] = RewardClient()
    row = plain(extra_info or {})  # lists from a Parquet file are NumPy arrays
    names = ("group_size", "sample_id", "step")
    options = {name: row[name] for name in names if row.get(name) is not None}
    group = row.get("group_id", row.get("uid"))
    if group is not None:
        options["group_id"] = group
    prompt = row.get("prompt") or row.get("question") or str(data_source)
    label = {**row, "ground_truth": ground_truth, "data_source": data_source}
    answer = await _clients[key].sample_async(prompt, solution_str, label, **options)
    flags = {f"rubrank_{name}": float(answer[name]) for name in ("complete", "late", "unknown")}
    return {"score": answer["reward"], **flags}
