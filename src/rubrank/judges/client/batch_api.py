"""The batch API of an endpoint, as OpenAI and compatible servers have it.

    POST /files                     a file of requests, one per line                   → file id
    POST /batches                   {"input_file_id": …, "metadata": {"rubrank": …}}   → batch id
    GET  /batches/ID                validating, in_progress, finalizing, completed, expired, failed, cancelled
    GET  /files/ID/content          replies one per line, in any order; failures are in a separate file

Transient errors (429, 5xx, no connection) are retried for up to `outage_wait` seconds, then JudgeOutage is raised.
Permanent errors are raised as InvalidInput with the server's message. `NotFound` means that a batch or a file of
replies is gone: servers delete them after some weeks. A batch can be found by the token in its metadata, so that it is
not created twice if the process is killed, or a response is lost, before the id of the batch is on disk.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from rubrank.errors import JudgeOutage
from rubrank.judges.client.protocol import classify_status, compute_backoff, read_error, shorten
from rubrank.judges.client.transport import Address, describe_error
from rubrank.judges.judge import Endpoint, Judge, Price

if TYPE_CHECKING:
    import aiohttp

T = TypeVar("T")
_TOKEN_NAME = "rubrank"  # in the metadata of a batch
_PAGE_SIZE = 100
_MAX_PAGES = 50
_CHUNK = 1 << 20  # bytes
_SPELLINGS = {"canceled": "cancelled", "canceling": "cancelling"}


def choose_batch_endpoint(judge: Judge) -> Endpoint:
    """Return the endpoint to which a judge's batches go: the one with the largest weight, the first of equals."""
    if judge.kind == "decision":
        raise judge.make_error(
            "kind",
            allowed="one whose calls are chat completions",
            got="'decision'",
            remedy="Grade without `batch`.",
        )
    return max(judge.endpoints, key=lambda endpoint: endpoint.weight)


def compute_batch_price(endpoint: Endpoint) -> Price:
    """Return the price of tokens in a batch."""
    share = endpoint.batch.price
    price = endpoint.price
    cached_input = None if price.cached_input is None else price.cached_input * share
    return Price(input=price.input * share, output=price.output * share, cached_input=cached_input)


class ServerUnavailable(Exception):  # noqa: N818
    """A request failed, and may succeed later; the message says why."""

    def __init__(self, failure: str, retry_after: float | None = None) -> None:
        super().__init__(failure)
        self.retry_after = retry_after


class NotFound(Exception):  # noqa: N818
    """The server no longer has a batch or a file."""


@dataclass(frozen=True)
class BatchState:
    """What the server says about a batch."""

    status: str
    output_file: str | None = None
    error_file: str | None = None
    completed: int = 0
    total: int = 0
    message: str = ""
    """Why it failed."""
    hit_limit: bool = False
    """Was it rejected because too many requests are pending? That is a transient failure."""

    @property
    def is_over(self) -> bool:
        """Has the server finished with it, so that no more replies will come?"""
        return self.status in ("completed", "expired", "failed", "cancelled")

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> BatchState:
        """Read the state from the server's JSON, of which any part may be missing."""
        status = str(data.get("status")).lower()
        counts = data.get("request_counts") or {}
        errors = data.get("errors") or {}
        if isinstance(errors, dict):  # {"object": "list", "data": […]}
            errors = errors.get("data") or []
        messages = [str(error.get("message") or error.get("code")) for error in errors]
        return cls(
            status=_SPELLINGS.get(status, status),
            output_file=data.get("output_file_id") or None,
            error_file=data.get("error_file_id") or None,
            completed=counts.get("completed") or 0,
            total=counts.get("total") or 0,
            message=shorten("; ".join(messages)),
            hit_limit=any("limit" in str(error.get("code")) for error in errors),
        )


class BatchApi:
    """The batch API of a judge's endpoint. outage_wait: seconds for which transient errors are retried."""

    def __init__(self, judge: Judge, session: aiohttp.ClientSession, outage_wait: float) -> None:
        self.judge = judge
        self.endpoint = choose_batch_endpoint(judge)
        self.address = Address(self.endpoint)
        self._session = session
        self._outage_wait = outage_wait

    async def upload(self, path: Path) -> str:
        """Upload a file of requests, and return its id. Uploading it twice costs nothing."""
        file = await self._retry(lambda _: self._request("POST", "/files", upload=path))
        return str(file["id"])

    async def create(self, file: str, token: str, *, may_exist: bool = False) -> str:
        """Create a batch, unless there is one with this token; returns its id.

        may_exist: an earlier process may have created it.
        """
        body = {
            "input_file_id": file,
            "endpoint": "/v1/chat/completions",
            "completion_window": self.endpoint.batch.window,
            "metadata": {_TOKEN_NAME: token},
        }

        async def create_once(is_retry: bool) -> str:
            if (
                is_retry or may_exist
            ):  # the batch may have been created although its response was lost
                batch_id = await self.find(token)
                if batch_id is not None:
                    return batch_id
            return str((await self._request("POST", "/batches", body=body))["id"])

        return await self._retry(create_once)

    async def find(self, token: str) -> str | None:
        """Return the id of the batch that was created with this token; None if there is none."""
        query = {"limit": str(_PAGE_SIZE)}
        for _ in range(_MAX_PAGES):
            page = await self._retry(lambda _: self._request("GET", "/batches", query=dict(query)))
            batches = page.get("data") or []
            for batch in batches:
                if (batch.get("metadata") or {}).get(_TOKEN_NAME) == token:
                    return str(batch["id"])
            if not batches or not page.get("has_more"):
                return None
            query["after"] = str(batches[-1].get("id"))
        return None

    async def state(self, batch_id: str) -> BatchState:
        """Return the state of a batch."""
        path = f"/batches/{batch_id}"
        return BatchState.parse(await self._retry(lambda _: self._request("GET", path)))

    async def download(self, file: str, target: Path, min_lines: int) -> None:
        """Download a file; again if it has fewer lines than it should, because the connection was lost."""
        path = f"/files/{file}/content"
        for _ in range(self.judge.retry.attempts):
            await self._retry(lambda _: self._request("GET", path, target=target))
            if sum(1 for _ in read_lines(target)) >= min_lines:
                return

    # -------------------------------------------------------------------------------------------------------- requests

    async def _retry(self, request: Callable[[bool], Awaitable[T]]) -> T:
        """Make a request until the server answers, or raise JudgeOutage. request: called with is_retry."""
        started = time.monotonic()
        failures = 0
        while True:
            try:
                return await request(failures > 0)
            except ServerUnavailable as error:
                failures += 1
                elapsed = time.monotonic() - started
                if failures >= self.judge.retry.attempts and elapsed >= self._outage_wait:
                    raise JudgeOutage(
                        self.judge.name, self.endpoint.where, str(error), elapsed
                    ) from None
                pause = compute_backoff(self.judge.retry, failures, error.retry_after)
            await asyncio.sleep(pause)

    async def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        upload: Path | None = None,
        target: Path | None = None,
    ) -> dict[str, Any]:
        """Send one request, and return the JSON object that the server answers with.

        upload: a file to send as a form. target: a file to write the body of the response to.
        """
        import aiohttp

        try:
            headers = self.address.headers
            with ExitStack() as stack:
                form = None
                if upload is not None:
                    del headers["Content-Type"]  # aiohttp sets the type of the form
                    file = stack.enter_context(upload.open("rb"))
                    form = aiohttp.FormData({"purpose": "batch"})
                    form.add_field(
                        "file", file, filename=upload.name, content_type="application/jsonl"
                    )
                async with self._session.request(
                    method,
                    self.address.url(path),
                    params=query,
                    json=body,
                    data=form,
                    headers=headers,
                    allow_redirects=False,
                    proxy=self.address.proxy,
                ) as response:
                    if target is not None and response.status == 200:
                        with target.open("wb") as output:
                            async for chunk in response.content.iter_chunked(_CHUNK):
                                output.write(chunk)
                        return {}
                    content = await response.read()
        except (aiohttp.ClientError, OSError, ValueError) as error:
            failure = self.address.hide_secrets(describe_error(error))
            raise ServerUnavailable(f"no connection: {failure}") from None
        if response.status == 200:
            return _parse_answer(content)
        message, _, code = read_error(content)
        retry_headers = {name.lower(): value for name, value in response.headers.items()}
        outcome = classify_status(response.status, message, code, retry_headers, self.judge.retry)
        failure = self.address.hide_secrets(outcome.reply.failure or "")
        if response.status in (404, 410) and method == "GET" and query is None:
            raise NotFound(failure)
        if outcome.next == "retry":
            raise ServerUnavailable(failure, outcome.retry_after)
        raise self.judge.make_error(
            f"{method} {self.endpoint.where}{path}",
            allowed="accepted",
            got=failure,
            remedy="Check that the server has a batch API and that the key may use it; else leave out `batch`.",
        )


def _parse_answer(content: bytes) -> dict[str, Any]:
    """Return the object in the body of a response; raises ServerUnavailable if there is none."""
    try:
        answer = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise ServerUnavailable(f"malformed answer: {error}") from None
    if not isinstance(answer, dict):
        raise ServerUnavailable("malformed answer: not an object")
    return answer


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the objects in a file of replies; lines that are not replies (such as one cut off) are skipped."""
    with path.open("rb") as file:
        for line in file:
            try:
                entry = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(entry, dict) and isinstance(entry.get("custom_id"), str):
                yield entry
