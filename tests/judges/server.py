"""A local OpenAI-compatible server that does as it is told, for tests and for the benchmark of judging.

    with Server([Answer(status=429, headers={"Retry-After": "1"}), Answer('{"verdict": 1}')]) as server:
        ...                      # ask server.url; the last answer is repeated
        server.completions       what was asked, in order: method, path, headers, body, when

    python tests/judges/server.py --delay 2          prints its address, serves until its standard input closes

A script is a list of answers, or a function of what was asked. The server speaks HTTP/1.1 with keep-alive over
`asyncio.Protocol`, with nothing but the standard library, and answers thousands of requests a second. Within a test it
runs in a thread of its own; `--delay` and the benchmark run it as a process.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any, Literal, Self

MODEL = "test-model"


@dataclass(frozen=True)
class Asked:
    """One request as it came."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    at: float
    number: int
    """Counted from 0 among requests of the same path."""

    @property
    def prompt(self) -> str:
        """The text of the last message."""
        return str(self.body["messages"][-1]["content"])


@dataclass(frozen=True)
class Answer:
    """What is sent back, and how badly."""

    text: str | None = '{"verdict": 1}'
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    delay: float = 0.0
    body: str | None = None
    """Sent as it is, instead of a completion."""
    raw: bytes | None = None
    """The same as bytes, for what is no text."""
    finish_reason: str = "stop"
    usage: tuple[int, int, int] | None = (100, 20, 0)
    """Input, output and cached tokens; None: the reply does not say."""
    message: Mapping[str, Any] = field(default_factory=dict)
    """More fields of the message: refusal, reasoning_content …"""
    logprobs: Sequence[Mapping[str, Any]] | None = None
    drop: Literal["no", "before", "mid-body", "never"] = "no"
    """Close the connection before or amid the reply; "never": neither answer nor close."""
    dribble: float = 0.0
    """Seconds between bytes of the body, for replies that never pause long and never end."""


Script = Callable[[Asked], Answer] | Sequence[Answer]
USUAL: Script = (Answer(),)


def refusal_of(parameter: str, status: int = 400) -> Answer:
    """The error of a server that does not know a parameter."""
    error = {"message": f"Unsupported parameter: '{parameter}' is not supported.", "param": parameter, "code": None}
    return Answer(status=status, body=json.dumps({"error": error}))


def completion(answer: Answer, model: str = MODEL) -> str:
    """The body of a chat completion."""
    message = {"role": "assistant", "content": answer.text, **answer.message}
    choice: dict[str, Any] = {"index": 0, "message": message, "finish_reason": answer.finish_reason}
    if answer.logprobs is not None:
        choice["logprobs"] = {"content": list(answer.logprobs)}
    reply = {"id": "c", "object": "chat.completion", "created": 1, "model": model, "choices": [choice]}
    if answer.usage:
        asked, said, cached = answer.usage
        details = {"prompt_tokens_details": {"cached_tokens": cached}} if cached else {}
        total = asked + said
        reply["usage"] = {"prompt_tokens": asked, "completion_tokens": said, "total_tokens": total, **details}
    return json.dumps(reply)


@lru_cache(maxsize=64)
def _plain(text: str | None, finish_reason: str, usage: tuple[int, int, int] | None) -> bytes:
    """The usual reply, made once: the benchmark wants thousands a second."""
    return _http(200, {}, completion(Answer(text, finish_reason=finish_reason, usage=usage)).encode())


def _http(status: int, headers: Mapping[str, str], body: bytes) -> bytes:
    lines = [f"HTTP/1.1 {status} X", "Content-Type: application/json", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers.items()]
    return "\r\n".join([*lines, "", ""]).encode() + body


class _Connection(asyncio.Protocol):
    """One client connection: requests one after another."""

    def __init__(self, server: Server) -> None:
        self.server, self.buffer = server, b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self.server.connections += 1

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        end = self.buffer.find(b"\r\n\r\n")
        if end < 0:
            return
        head = self.buffer[:end].decode("latin-1").split("\r\n")
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in head[1:])}
        size = int(headers.get("content-length", 0))
        if len(self.buffer) < end + 4 + size:
            return
        body, self.buffer = self.buffer[end + 4 : end + 4 + size], self.buffer[end + 4 + size :]
        method, path, _ = head[0].split(" ", 2)
        answer = self.server.answer(method, path, headers, body)
        if answer.delay:
            asyncio.get_running_loop().call_later(answer.delay, self.send, answer)
        else:
            self.send(answer)

    def send(self, answer: Answer) -> None:
        if self.transport.is_closing() or answer.drop == "never":
            return
        if answer.drop == "before":
            self.transport.abort()
            return
        data = self._bytes(answer)
        if answer.drop == "mid-body":
            self.transport.write(data[:-20])
            self.transport.close()
        elif answer.dribble:
            self._dribble(data, answer.dribble)
        else:
            self.transport.write(data)

    def _bytes(self, answer: Answer) -> bytes:
        if answer.raw is not None:
            return _http(answer.status, answer.headers, answer.raw)
        if answer.body is None and answer.status == 200 and not (answer.headers or answer.message or answer.logprobs):
            return _plain(answer.text, answer.finish_reason, answer.usage)
        body = completion(answer) if answer.body is None else answer.body
        return _http(answer.status, answer.headers, body.encode())

    def _dribble(self, data: bytes, pause: float) -> None:
        if data and not self.transport.is_closing():
            self.transport.write(data[:1])
            asyncio.get_running_loop().call_later(pause, self._dribble, data[1:], pause)


class Server:
    """A server on a free port; `with` starts and stops it in a thread."""

    def __init__(self, script: Script = USUAL, *, models: Sequence[str] | None = (MODEL,), keep: bool = True) -> None:
        self.script, self.models, self.keep = script, models, keep
        self.asked: list[Asked] = []
        self.count: dict[str, int] = {}
        self.connections = 0
        self.url = ""
        self._loop = asyncio.new_event_loop()
        self._ready = threading.Event()
        self._stop: asyncio.Event | None = None
        self._thread = threading.Thread(target=lambda: self._loop.run_until_complete(self.serve()), daemon=True)

    @property
    def completions(self) -> list[Asked]:
        """The completions that were asked for, answered or not."""
        return [asked for asked in self.asked if asked.path.endswith("/chat/completions")]

    def answer(self, method: str, path: str, headers: Mapping[str, str], body: bytes) -> Answer:
        number = self.count.get(path, 0)
        self.count[path] = number + 1
        if path.endswith("/models"):
            return self._list_models(Asked(method, path, headers, None, time.monotonic(), number))
        if not self.keep and not callable(self.script):
            return self.script[min(number, len(self.script) - 1)]
        asked = Asked(method, path, headers, json.loads(body) if body else None, time.monotonic(), number)
        self.asked.append(asked)
        return self.script(asked) if callable(self.script) else self.script[min(number, len(self.script) - 1)]

    def _list_models(self, asked: Asked) -> Answer:
        self.asked.append(asked)
        if self.models is None:
            return Answer(status=404, body='{"error": {"message": "Not found"}}')
        return Answer(body=json.dumps({"object": "list", "data": [{"id": m, "object": "model"} for m in self.models]}))

    async def serve(self, port: int = 0) -> None:
        """Until `stop`."""
        self._stop = asyncio.Event()
        loop = asyncio.get_running_loop()
        server = await loop.create_server(lambda: _Connection(self), "127.0.0.1", port, backlog=2048)
        self.url = f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}/v1"
        self._ready.set()
        await self._stop.wait()
        server.close()

    def __enter__(self) -> Self:
        self._thread.start()
        self._ready.wait()
        return self

    def __exit__(self, *_: object) -> None:
        assert self._stop is not None
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()
        self._loop.run_until_complete(self._close_connections())
        self._loop.close()

    async def _close_connections(self) -> None:
        for transport in [*getattr(self._loop, "_transports", {}).values()]:
            transport.abort()
        await asyncio.sleep(0)


def main(argv: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before each reply")
    parser.add_argument("--text", default='{"verdict": 1}', help="what every reply says")
    arguments = parser.parse_args(argv)
    server = Server([Answer(arguments.text, delay=arguments.delay)], keep=False)
    with server:
        print(server.url, flush=True)
        sys.stdin.read()  # ends when whoever started it ends, even by a kill
        print(json.dumps({"asked": server.count.get("/v1/chat/completions", 0)}), flush=True)


if __name__ == "__main__":
    main()
