"""The batch API of an endpoint, as OpenAI and compatible servers have it.

    POST /files                     a file of requests, one per line                   → file id
    POST /batches                   {"input_file_id": …, "metadata": {"rubrank": …}}   → batch id
    GET  /batches/ID                validating, in_progress, finalizing, completed, expired, failed, cancelled
    GET  /files/ID/content          replies one per line, in any order; failures are in a separate file

Transient errors (429, 5xx, no connection) are retried; `ServerUnavailable` is raised if all attempts fail. Permanent
errors are raised as InvalidInput with the server's message. `NotFound` means that a batch or a file of replies is gone:
servers delete them after some weeks. A batch can be found by the token in its metadata, so that it is not created twice
if the process is killed, or a response is lost, before the id of the batch is on disk.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rubrank.errors import InvalidInput
from rubrank.judges.client.outcome import (
    classify_status,
    compute_backoff,
    read_error_message,
    shorten,
)
from rubrank.judges.client.transport import Address, close_session, open_session
from rubrank.judges.judge import Endpoint, Judge, Price

if TYPE_CHECKING:
    import aiohttp

_TOKEN_NAME = "rubrank"  # in the metadata of a batch
_READ_TIMEOUT = 120.0  # seconds without a byte
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
            remedy="Grade without --batch.",
        )
    return max(judge.endpoints, key=lambda endpoint: endpoint.weight)


def compute_batch_price(endpoint: Endpoint) -> Price:
    """Return the price of tokens in a batch."""
    share = endpoint.batch.price
    price = endpoint.price
    cached_input = None if price.cached_input is None else price.cached_input * share
    return Price(input=price.input * share, output=price.output * share, cached_input=cached_input)


class ServerUnavailable(Exception):  # noqa: N818
    """The server keeps failing; the message is its last failure."""

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
    codes: frozenset[str] = field(default_factory=frozenset)

    @property
    def is_over(self) -> bool:
        """Has the server finished with it, so that no more replies will come?"""
        return self.status in ("completed", "expired", "failed", "cancelled")

    @classmethod
    def parse(cls, data: Mapping[str, Any]) -> BatchState:
        """Read the state from the server's JSON, of which any part may be missing."""
        status = str(data.get("status")).lower()
        counts = data.get("request_counts")
        if not isinstance(counts, dict):
            counts = {}
        errors = data.get("errors")
        if isinstance(errors, dict):  # {"object": "list", "data": […]}
            errors = errors.get("data")
        if not isinstance(errors, list):
            errors = []
        errors = [error for error in errors if isinstance(error, dict)]
        messages = [str(error.get("message") or error.get("code")) for error in errors]
        return cls(
            status=_SPELLINGS.get(status, status),
            output_file=_parse_id(data.get("output_file_id")),
            error_file=_parse_id(data.get("error_file_id")),
            completed=_parse_count(counts.get("completed")),
            total=_parse_count(counts.get("total")),
            message=shorten("; ".join(messages)),
            codes=frozenset(str(error.get("code")) for error in errors),
        )


@dataclass(frozen=True)
class _Answer:
    """The server's answer to one request."""

    status: int
    """0: there was none."""
    data: Any
    """The parsed body, or an error message."""
    retry_after: float | None = None


def _parse_id(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


def _parse_count(value: object) -> int:
    return value if isinstance(value, int) else 0


class BatchApi:
    """The batch API of a judge's endpoint; open it with `async with`."""

    def __init__(self, judge: Judge) -> None:
        self.endpoint = choose_batch_endpoint(judge)
        self._judge = judge
        self._address = Address(self.endpoint)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        self._session = open_session(read_timeout=_READ_TIMEOUT, decompress=True)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        await close_session(self._session)

    async def upload(self, path: Path) -> str:
        """Upload a file of requests, and return its id. Uploading it twice costs nothing."""
        return str((await self._request("POST", "/files", upload=path))["id"])

    async def create(self, file: str, token: str) -> str:
        """Create a batch, and return its id. If the response is lost, look for the batch before trying again."""
        body = {
            "input_file_id": file,
            "endpoint": "/v1/chat/completions",
            "completion_window": self.endpoint.batch.window,
            "metadata": {_TOKEN_NAME: token},
        }
        failures = 0
        while True:
            try:
                return str((await self._request("POST", "/batches", body=body, attempts=1))["id"])
            except ServerUnavailable as error:
                failures += 1
                if failures == self._judge.retry.attempts:
                    raise
                await asyncio.sleep(compute_backoff(self._judge.retry, failures, error.retry_after))
            batch_id = await self.find(token)
            if batch_id is not None:
                return batch_id

    async def find(self, token: str) -> str | None:
        """Return the id of the batch that was created with this token; None if there is none."""
        after = ""
        for _ in range(_MAX_PAGES):
            page = await self._request("GET", f"/batches?limit={_PAGE_SIZE}{after}")
            batches = [batch for batch in page.get("data") or () if isinstance(batch, dict)]
            for batch in batches:
                metadata = batch.get("metadata")
                if isinstance(metadata, dict) and metadata.get(_TOKEN_NAME) == token:
                    return str(batch["id"])
            if not batches or not page.get("has_more"):
                return None
            after = f"&after={batches[-1].get('id')}"
        return None

    async def state(self, batch_id: str) -> BatchState:
        """Return the state of a batch."""
        return BatchState.parse(await self._request("GET", f"/batches/{batch_id}", attempts=1))

    async def download(self, file: str, target: Path, min_lines: int) -> None:
        """Download a file; again if it has fewer lines than it should."""
        for attempt in range(1, self._judge.retry.attempts + 1):
            await self._request("GET", f"/files/{file}/content", target=target)
            if sum(1 for _ in read_lines(target)) >= min_lines:
                return
            await asyncio.sleep(compute_backoff(self._judge.retry, attempt, None))

    # -------------------------------------------------------------------------------------------------------- requests

    async def _request(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        upload: Path | None = None,
        target: Path | None = None,
        attempts: int | None = None,
    ) -> dict[str, Any]:
        """Return the JSON object that the server answers with. target: write the body to this file instead."""
        attempts = attempts or self._judge.retry.attempts
        failures = 0
        while True:
            answer = await self._request_once(method, path, body, upload, target)
            status = answer.status
            if status == 200 and isinstance(answer.data, dict):
                return answer.data
            error = answer.data
            if isinstance(error, dict):
                error = error.get("error", error)
            message = self._address.hide_secrets(shorten(read_error_message(error)))
            is_list = "?" in path  # a page of the list of batches
            if status in (404, 410) and method == "GET" and not is_list:
                raise NotFound(f"HTTP {status}: {message}")
            is_transient = status in (0, 200)  # no response, or a body that is not an object
            if not is_transient:
                outcome = classify_status(status, message, None, {}, self._judge.retry)
                is_transient = outcome.next == "retry"
            if not is_transient:
                where = f"{method} {self.endpoint.where}{path.partition('?')[0]}"
                raise InvalidInput(
                    f"judge {self._judge.name!r}",
                    where,
                    allowed="accepted",
                    got=f"HTTP {status}: {message}",
                    remedy="Check that the server has a batch API and that the key may use it; else leave out `batch`.",
                )
            failures += 1
            if failures == attempts:
                name = f"HTTP {status}" if status else "no connection"
                raise ServerUnavailable(f"{name}: {message}", answer.retry_after)
            await asyncio.sleep(compute_backoff(self._judge.retry, failures, answer.retry_after))

    async def _request_once(
        self, method: str, path: str, body: Any, upload: Path | None, target: Path | None
    ) -> _Answer:
        """Send one request; an answer with status 0 if there was no response. Arguments as in `_request`."""

        import aiohttp

        assert self._session is not None
        path, _, query = path.partition("?")
        url = self._address.url(path)
        if query:
            url += ("&" if "?" in url else "?") + query
        data: Any = None if body is None else json.dumps(body).encode()
        with ExitStack() as stack:
            try:
                headers = self._address.headers
                if upload is not None:
                    del headers["Content-Type"]  # aiohttp sets the type of the form
                    file = stack.enter_context(upload.open("rb"))
                    data = aiohttp.FormData({"purpose": "batch"})
                    data.add_field(
                        "file", file, filename=upload.name, content_type="application/jsonl"
                    )
                async with self._session.request(
                    method,
                    url,
                    data=data,
                    headers=headers,
                    allow_redirects=False,
                    proxy=self._address.proxy,
                ) as response:
                    return await self._read_response(response, target)
            except (aiohttp.ClientError, OSError, ValueError) as error:
                return _Answer(0, repr(error.__cause__ or error))

    async def _read_response(
        self, response: aiohttp.ClientResponse, target: Path | None
    ) -> _Answer:
        """Read a response: write its body to the target, or parse it as JSON, or keep its beginning as text."""
        if target is not None and response.status == 200:
            with target.open("wb") as file:
                async for chunk in response.content.iter_chunked(_CHUNK):
                    file.write(chunk)
            return _Answer(200, {})
        headers = {name.lower(): value for name, value in response.headers.items()}
        retry_after = classify_status(
            response.status, "", None, headers, self._judge.retry
        ).retry_after
        raw = await response.read()
        try:
            data = json.loads(raw)
        except (ValueError, RecursionError):
            data = raw[:1000].decode("utf-8", "replace")
        return _Answer(response.status, data, retry_after)


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
