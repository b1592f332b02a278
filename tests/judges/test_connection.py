"""The connections of judges speak HTTP/1.1 with every kind of server: measured, chunked and unmeasured bodies, TLS."""

from __future__ import annotations

import asyncio
import gzip
import socket
import ssl
import threading
from contextlib import contextmanager, suppress

import pytest
from certificates import write

from rubrank.judges.client import connection as module
from rubrank.judges.client.connection import BadBody, NoConnection, Origin, Pool
from rubrank.judges.client.transport import Address, Transport
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
        async with Transport() as transport, asyncio.timeout(20):
            return [await transport.request("POST", address, "/chat/completions", b"{}") for _ in range(times)]

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
    "packed": b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n%b"
    % (len(gzip.compress(b"hi", mtime=0)), gzip.compress(b"hi", mtime=0)),
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
    "nothing": (b"", ConnectionError),
    "not HTTP": (b"SSH-2.0-OpenSSH\r\n", ConnectionError),
    "half a body": (b"HTTP/1.1 200 OK\r\nContent-Length: 20\r\n\r\nhi", ConnectionError),
    "half a chunk": (b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhi", ConnectionError),
    "too much": (b"HTTP/1.1 200 OK\r\n\r\n" + b" " * (module.LARGEST + 1), BadBody),
    "headers without end": (b"HTTP/1.1 200 OK\r\nX: " + b"x" * 2**20, BadBody),
    "many headers": (b"HTTP/1.1 200 OK\r\n" + b"X: yyyyyyyyyyyyyyy\r\n" * 40_000, BadBody),
    "another protocol": (b"HTTP/1.1 101 X\r\nUpgrade: h2c\r\nConnection: upgrade\r\n\r\n", ConnectionError),
    "packed strangely": (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 2\r\n\r\nhi", BadBody),
}


@pytest.mark.parametrize(("reply", "error"), FAULTS.values(), ids=FAULTS)
def test_what_a_server_does_wrong_is_an_error_of_a_known_kind(reply, error):
    with Wire([reply], [OK]) as wire, pytest.raises(error):
        ask(wire)


def test_a_name_with_several_addresses_is_tried_until_one_answers(monkeypatch):
    async def both(origin):
        return ["::1", "127.0.0.2", "127.0.0.1"]

    monkeypatch.setattr(module, "_looked_up", both)
    with Wire([OK], [OK]) as wire:
        assert ask(wire, host="judge.test")[0].body == b"hi"
        assert b"Host: judge.test:" in wire.asked[0]


def test_a_name_is_looked_up_once_for_many(monkeypatch):
    looked_up = []

    async def once(origin):
        looked_up.append(origin.host)
        await asyncio.sleep(0.01)
        return ["127.0.0.1"]

    monkeypatch.setattr(module, "_looked_up", once)
    with Wire([OK], [OK], [OK]) as wire:

        async def main():
            pool = Pool()
            await asyncio.gather(*(pool.take(Origin("http", "judge.test", wire.port)) for _ in range(3)))
            pool.close()
            await asyncio.sleep(0.01)

        asyncio.run(main())
    assert looked_up == ["judge.test"]


def test_no_connection_in_time(monkeypatch):
    async def never(origin):
        await asyncio.sleep(60)

    monkeypatch.setattr(module, "_looked_up", never)
    monkeypatch.setattr(module, "_CONNECT", 0.05)
    with Wire([OK]) as wire, pytest.raises(NoConnection, match="no connection in time"):
        ask(wire, host="judge.test")


def test_idle_connections_are_closed_after_a_while(monkeypatch):
    monkeypatch.setattr(module, "_KEEP_ALIVE", 0.02)
    with Wire([OK], [OK]) as wire:

        async def main():
            address = Address(Endpoint(base_url=f"http://127.0.0.1:{wire.port}", model="m"))
            async with Transport() as transport:
                for _ in range(2):
                    await transport.request("POST", address, "/x", b"")
                    await asyncio.sleep(0.2)

        asyncio.run(main())
    assert wire.connections == 2


@pytest.mark.parametrize("key", ["sk\r\nX: y", "sk\n"])
def test_a_key_with_a_line_break_is_not_sent(monkeypatch, key):
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with Wire([OK]) as wire, pytest.raises(ValueError, match="line break"):
        ask(wire)
    assert wire.asked == []


@pytest.mark.parametrize(
    ("base", "target", "host"),
    [
        ("http://h/v1", "/v1/x", "h"),
        ("https://h:443/v1/?api-version=1 2", "/v1/x?api-version=1%202", "h"),
        ("http://u:p@h:8000", "/x", "h:8000"),
        ("http://[::1]:8000/a%20b", "/a%20b/x", "[::1]:8000"),
        ("http://bücher.example/ü", "/%C3%BC/x", "xn--bcher-kva.example"),
    ],
)
def test_the_target_and_the_host_of_a_url(base, target, host):
    lines = Address(Endpoint(base_url=base, model="m")).head("GET", "/x", 0).decode().split("\r\n")
    assert lines[0] == f"GET {target} HTTP/1.1"
    assert lines[1] == f"Host: {host}"


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
        with pytest.raises(ssl.SSLCertVerificationError):
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
        with pytest.raises(ConnectionError):
            ask(wire, host="judge.test")
