"""The connections of judges speak HTTP/1.1 with every kind of server: measured, chunked and unmeasured bodies, TLS."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
from contextlib import contextmanager, suppress

import pytest
from certificates import write

from rubrank.judges.client.transport import MAX_BODY, Address, RequestFailed, Transport
from rubrank.judges.judge import Endpoint

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"


class Wire:
    """A server that sends what it is told, whatever it is asked: one list of pieces for each connection."""

    def __init__(self, *replies, tls=None):
        self._replies, self._tls, self.asked, self.connections = list(replies), tls, [], 0
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def __enter__(self):
        self._thread.start()
        return self

    def __exit__(self, *_):
        with suppress(OSError):  # some systems do not shut down what only listens; there, closing is enough
            self._socket.shutdown(socket.SHUT_RDWR)  # on Linux, closing alone would leave `accept` waiting
        self._socket.close()
        self._thread.join(5)
        assert not self._thread.is_alive()

    def _serve(self):
        while self._replies:
            try:
                peer, _ = self._socket.accept()
            except OSError:
                return
            self.connections += 1
            try:
                with self._tls.wrap_socket(peer, server_side=True) if self._tls else peer as one:
                    self._answer(one, self._replies.pop(0))
            except OSError:
                continue  # the other side did not like it

    def _answer(self, peer, replies):
        for reply in replies:
            asked = b""
            while b"\r\n\r\n" not in asked:
                piece = peer.recv(65536)
                if not piece:
                    return
                asked += piece
            self.asked.append(asked)
            peer.sendall(reply)


def ask(wire, times=1, scheme="http", host="127.0.0.1", **more):
    """The replies, or the error, of so many requests over one transport."""
    address = Address(Endpoint(base_url=f"{scheme}://{host}:{wire.port}/v1", model="m", **more))

    async def main():
        transport = Transport()
        try:
            async with asyncio.timeout(20):
                return [await transport.request("POST", address, "/chat/completions", b"{}") for _ in range(times)]
        finally:
            await transport.close()

    return asyncio.run(main())


def test_a_request_as_it_goes_over_the_wire(monkeypatch):
    monkeypatch.setenv("OPENAI_API_KEY", "sk-1")
    with Wire([OK]) as wire:
        (reply,) = ask(wire)
    lines = wire.asked[0].split(b"\r\n")
    assert lines[0] == b"POST /v1/chat/completions HTTP/1.1"
    assert {b"Authorization: Bearer sk-1", b"Content-Length: 2", f"Host: 127.0.0.1:{wire.port}".encode()} <= set(lines)
    assert (reply.status, reply.body, reply.headers["content-length"]) == (200, b"hi", "2")


BODIES = {
    "measured": OK,
    "chunked": b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nh\r\n1;x=y\r\ni\r\n0\r\nTrailer: t\r\n\r\n",
    "until the end": b"HTTP/1.0 200 OK\r\n\r\nhi",
    "closed by the server": b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\nhi",
    "announced first": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n" + OK,
}


@pytest.mark.parametrize("reply", BODIES.values(), ids=BODIES)
def test_every_kind_of_body_is_read(reply):
    with Wire([reply], [OK]) as wire:
        assert [one.body for one in ask(wire)] == [b"hi"]


def test_a_connection_is_used_again_unless_the_server_closes_it():
    with Wire([OK, OK, BODIES["chunked"], BODIES["closed by the server"]], [OK]) as wire:
        assert [one.body for one in ask(wire, 5)] == [b"hi"] * 5
    assert wire.connections == 2


def test_what_comes_unasked_is_not_the_reply_to_the_next_request():
    with Wire([OK + b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nevil"], [OK]) as wire:
        assert [one.body for one in ask(wire, 2)] == [b"hi", b"hi"]


FAULTS = {
    "nothing": (b"", RequestFailed),
    "not HTTP": (b"SSH-2.0-OpenSSH\r\n", RequestFailed),
    "half a body": (b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhi", RequestFailed),
    "half a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhi", RequestFailed),
    "too much": (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (MAX_BODY + 1), RequestFailed),
    "headers without end": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2**20, RequestFailed),
    "many headers": (b"HTTP/1.1 200 OK\r\n" + b"X: yyyyyyyyyyyyyyy\r\n" * 40_000, RequestFailed),
    "packed strangely": (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nhi", RequestFailed),
}


@pytest.mark.parametrize(("reply", "error"), FAULTS.values(), ids=FAULTS)
def test_what_a_server_does_wrong_is_an_error_of_a_known_kind(reply, error):
    with Wire([reply], [OK]) as wire, pytest.raises(error):
        ask(wire)


@pytest.mark.parametrize("key", ["sk\r\nX: y", "sk\n"])
def test_a_key_with_a_line_break_is_not_sent(monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with Wire([OK]) as wire, pytest.raises(RequestFailed, match="line break"):
        ask(wire)
    assert wire.asked == []


# ---------------------------------------------------------------------------------------------------------------- TLS


@contextmanager
def secured(folder, name):
    """A server with a certificate for this name, and the file of the certificate."""
    certificate, key = write(folder, name)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with Wire([OK], [OK], tls=context) as wire:
        yield wire, certificate


def test_a_known_certificate_is_trusted(tmp_path, monkeypatch):
    with secured(tmp_path, "localhost") as (wire, certificate):
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        assert ask(wire, scheme="https", host="localhost")[0].body == b"hi"


@pytest.mark.parametrize("name", ["localhost", "elsewhere.test"], ids=["unknown", "of another host"])
def test_another_certificate_is_refused(tmp_path, monkeypatch, name):
    with secured(tmp_path, name) as (wire, certificate):
        if name != "localhost":
            monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
        with pytest.raises(RequestFailed, match="certificate"):
            ask(wire, scheme="https", host="localhost")
        assert wire.asked == []


# -------------------------------------------------------------------------------------------------------------- proxies


def test_a_proxy_of_the_environment_is_asked(monkeypatch):
    with Wire([OK]) as wire:
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{wire.port}")
        monkeypatch.delenv("no_proxy", raising=False)
        assert ask(wire, host="judge.test")[0].body == b"hi"
    assert wire.asked[0].startswith(f"POST http://judge.test:{wire.port}/v1/chat/completions HTTP/1.1".encode())


def test_a_proxy_that_is_away_is_a_failed_connection(monkeypatch):
    with Wire([OK]) as wire:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:9")
        monkeypatch.delenv("no_proxy", raising=False)
        with pytest.raises(RequestFailed):
            ask(wire, host="judge.test")
