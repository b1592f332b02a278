"""The batch API of one endpoint, as OpenAI and those who follow it speak it.

    POST /files                     a file of requests, one a line                     → file id
    POST /batches                   {"input_file_id": …, "metadata": {"rubrank": …}}   → batch id
    GET  /batches/ID                validating, in_progress, finalizing, completed, expired, failed, cancelled
    GET  /files/ID/content          replies one a line, in any order; what failed is in a file of its own

What fails for now (429, 5xx, no connection) is tried again; `Unanswered` is raised if it keeps failing. What fails for
good is InvalidInput with the server's own words; `NotThere` says that a batch or a file of replies is no more, as
servers keep them for some weeks. A batch is found again by its metadata: a process may be killed, or an answer lost,
between sending a batch and writing down its id, and it is not sent twice.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from rubrank.errors import InvalidInput
from rubrank.judges.client.completion import shorten
from rubrank.judges.client.retrying import backoff, of_status
from rubrank.judges.client.transport import Address
from rubrank.judges.judge import Endpoint, Judge

if TYPE_CHECKING:
    import aiohttp

MARK = "rubrank"
"""The key of a batch's metadata under which its token stands."""
_CONNECT = 10.0
_QUIET = 120.0  # seconds without a byte, after which a transfer is given up
_PAGE = 100
_MOST_PAGES = 50
_PIECE = 1 << 20
_LOST = "no connection"
_STATUSES = {"canceled": "cancelled", "canceling": "cancelling"}  # as some servers spell them
_GONE = (404, 410)


class Unanswered(Exception):  # noqa: N818 - says what is the matter
    """The server keeps failing; what it said last."""


class NotThere(Exception):  # noqa: N818
    """The server has the batch or its file no more; what it said."""


@dataclass(frozen=True)
class BatchState:
    """What the server says about a batch."""

    status: str
    output: str | None = None
    errors: str | None = None
    """The files of replies and of what failed."""
    completed: int = 0
    total: int = 0
    said: str = ""
    """Why it failed."""
    codes: frozenset[str] = field(default_factory=frozenset)

    @property
    def over(self) -> bool:
        """Will nothing more come of it?"""
        return self.status in ("completed", "expired", "failed", "cancelled")

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> BatchState:
        """From what the server sent; what it left out is nothing."""
        counts = data.get("request_counts")
        counts = counts if isinstance(counts, dict) else {}
        errors = data.get("errors")
        found = errors.get("data") if isinstance(errors, dict) else errors
        listed = [one for one in found if isinstance(one, dict)] if isinstance(found, list) else []
        completed, total = (
            value if isinstance(value := counts.get(name), int) else 0 for name in ("completed", "total")
        )
        return cls(
            _STATUSES.get(status := str(data.get("status")).lower(), status),
            _id(data.get("output_file_id")),
            _id(data.get("error_file_id")),
            completed,
            total,
            said=shorten("; ".join(str(one.get("message") or one.get("code")) for one in listed)),
            codes=frozenset(str(one.get("code")) for one in listed),
        )


def _id(value: object) -> str | None:
    return value if isinstance(value, str) and value else None


class BatchApi:
    """Of the endpoint of one judge."""

    def __init__(self, endpoint: Endpoint, judge: Judge) -> None:
        self.endpoint, self._judge, self._address = endpoint, judge, Address(endpoint)
        self._session: aiohttp.ClientSession | None = None

    async def __aenter__(self) -> Self:
        import aiohttp

        timeout = aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT, sock_read=_QUIET)
        self._session = aiohttp.ClientSession(timeout=timeout, cookie_jar=aiohttp.DummyCookieJar())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._session is not None
        await self._session.close()
        await asyncio.sleep(0.01)  # its connections say goodbye in the turns of the loop that follow

    async def upload(self, path: Path) -> str:
        """The id of a file of requests; sending it again costs nothing."""
        return str((await self._json("POST", "/files", file=path))["id"])

    async def create(self, file: str, token: str) -> str:
        """The id of a new batch; where the answer is lost, the batch is looked for before another is made."""
        body = {
            "input_file_id": file,
            "endpoint": "/v1/chat/completions",
            "completion_window": self.endpoint.batch.window,
            "metadata": {MARK: token},
        }
        for attempt in range(1, self._judge.retry.attempts + 1):
            try:
                return str((await self._json("POST", "/batches", body=body, attempts=1))["id"])
            except Unanswered as error:
                if attempt == self._judge.retry.attempts:
                    raise
                await asyncio.sleep(backoff(self._judge.retry, attempt, error.args[1]))
                if (found := await self.find(token)) is not None:
                    return found
        raise AssertionError  # the loop has returned or raised

    async def find(self, token: str) -> str | None:
        """The batch that was made with this token, if there is one."""
        after = ""
        for _ in range(_MOST_PAGES):
            data = await self._json("GET", f"/batches?limit={_PAGE}{after}")
            batches = [one for one in data.get("data") or () if isinstance(one, dict)]
            for one in batches:
                if isinstance(one.get("metadata"), dict) and one["metadata"].get(MARK) == token:
                    return str(one["id"])
            if not batches or not data.get("has_more"):
                return None
            after = f"&after={batches[-1].get('id')}"
        return None

    async def state(self, batch: str) -> BatchState:
        """How far a batch is."""
        return BatchState.of(await self._json("GET", f"/batches/{batch}", attempts=1))

    async def download(self, file: str, to: Path, least: int) -> None:
        """The content of a file; again where it is cut off or has fewer lines than there should be."""
        for attempt in range(1, self._judge.retry.attempts + 1):
            await self._json("GET", f"/files/{file}/content", to=to)
            if sum(1 for _ in read_lines(to)) >= least:
                return
            await asyncio.sleep(backoff(self._judge.retry, attempt, None))

    # -------------------------------------------------------------------------------------------------------- requests

    async def _json(
        self,
        method: str,
        path: str,
        *,
        body: Any = None,
        file: Path | None = None,
        to: Path | None = None,
        attempts: int | None = None,
    ) -> dict[str, Any]:
        """What the server says, as an object; with `to`, its body goes there instead."""
        most = attempts or self._judge.retry.attempts
        for attempt in range(1, most + 1):
            status, found, wait = await self._once(method, path, body, file, to)
            if status == 200 and isinstance(found, dict):
                return found
            said = self._address.hide(shorten(_message(found)))
            again = status in (0, 200) or of_status(status, said, None, {}, self._judge.retry).next == "again"
            if status in _GONE and method == "GET" and "?" not in path:  # a list of batches is no batch
                raise NotThere(f"HTTP {status}: {said}")
            if not again:
                raise self._refused(method, path, status, said)
            if attempt == most:
                raise Unanswered(f"HTTP {status}: {said}" if status else f"{_LOST}: {said}", wait)
            await asyncio.sleep(backoff(self._judge.retry, attempt, wait))
        raise AssertionError  # the loop has returned or raised

    def _refused(self, method: str, path: str, status: int, said: str) -> InvalidInput:
        where = f"{method} {self.endpoint.where}{path.partition('?')[0]}"
        remedy = "See whether the server has a batch API, and whether the key may use it; else leave --batch out."
        return InvalidInput(f"judge {self._judge.name!r}", where, "accepted", f"HTTP {status}: {said}", remedy)

    async def _once(
        self, method: str, path: str, body: Any, file: Path | None, to: Path | None
    ) -> tuple[int, Any, float | None]:
        """Status (0: none), what was said, and how long the server asks to wait."""
        import aiohttp

        assert self._session is not None
        path, _, query = path.partition("?")
        url, headers = self._address.url(path), self._address.headers
        if query:
            url += ("&" if "?" in url else "?") + query
        data: Any = None if body is None else json.dumps(body).encode()
        opened = None if file is None else file.open("rb")
        try:
            if opened is not None:
                del headers["Content-Type"]  # that of the form
                data = aiohttp.FormData({"purpose": "batch"})
                data.add_field("file", opened, filename=file.name if file else "", content_type="application/jsonl")
            proxy = self._address.proxy
            async with self._session.request(
                method, url, data=data, headers=headers, allow_redirects=False, proxy=proxy
            ) as response:
                return await _read(response, to, self._judge)
        except (aiohttp.ClientError, OSError, TimeoutError, ValueError) as error:
            return 0, repr(error.__cause__ or error), None
        finally:
            if opened is not None:
                opened.close()


async def _read(response: aiohttp.ClientResponse, to: Path | None, judge: Judge) -> tuple[int, Any, float | None]:
    wait = of_status(response.status, "", None, response.headers, judge.retry).wait
    if to is not None and response.status == 200:
        with to.open("wb") as out:
            async for piece in response.content.iter_chunked(_PIECE):
                out.write(piece)
        return 200, {}, None
    raw = await response.read()
    try:
        return response.status, json.loads(raw), wait
    except (ValueError, RecursionError):
        return response.status, raw[:1000].decode("utf-8", "replace"), wait


def _message(found: Any) -> Any:
    if isinstance(found, dict):
        error = found.get("error", found)
        return error.get("message") or error if isinstance(error, dict) else error
    return found


def read_lines(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of replies; a line that is none (cut off, say) is left out."""
    with path.open("rb") as file:
        for line in file:
            try:
                found = json.loads(line)
            except (ValueError, RecursionError):
                continue
            if isinstance(found, dict) and isinstance(found.get("custom_id"), str):
                yield found
