"""TLS, with real handshakes: a certificate that is known, one that is not, and none at all."""

from __future__ import annotations

import http.client
import socket
import ssl
import subprocess
import sys
from types import SimpleNamespace

import pytest
from certificates import write
from service.serving import config_at, process

from rubrank import RewardClient
from rubrank.service.client import ServiceError

pytestmark = pytest.mark.slow
GROUP = {"prompt": "Explain tides.", "responses": ["The moon pulls. So it rises.", "Moon."]}


@pytest.fixture(scope="module")
def secured(tmp_path_factory):
    """A service with a certificate for 127.0.0.1; the certificate of another one."""
    folder = tmp_path_factory.mktemp("tls")
    certificate, key = write(folder, "127.0.0.1")
    (folder / "other").mkdir()
    other, _ = write(folder / "other", "127.0.0.1")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("SSL_CERT_FILE", str(certificate))
        options = {"certificate": certificate.name, "private_key": key.name, "token": "secret"}
        with process(folder, **options) as served:
            yield served, certificate, other


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


def test_rewards_come_over_tls(secured, monkeypatch):
    served, certificate, _ = secured
    assert served.url.startswith("https://")
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with RewardClient(served.url, token="secret") as client:
        assert client.groups([GROUP])["groups"][0]["rewards"] == [1.0, 0.25]


def test_old_versions_are_not_spoken(secured):
    served, certificate, _ = secured
    context = ssl.create_default_context(cafile=str(certificate))
    with (
        socket.create_connection(("127.0.0.1", port_of(served.url)), 10) as plain,
        context.wrap_socket(plain, server_hostname="127.0.0.1") as spoken,
    ):
        assert spoken.version() in ("TLSv1.2", "TLSv1.3")


def test_a_certificate_that_is_not_known_is_refused_at_once(secured, monkeypatch):
    served, _, other = secured
    monkeypatch.setenv("SSL_CERT_FILE", str(other))
    # Only the client's own `time`: threads of other tests may sleep meanwhile.
    no_pause = SimpleNamespace(sleep=lambda _: pytest.fail("it was tried again"))
    monkeypatch.setattr("rubrank.service.client.time", no_pause)
    with RewardClient(served.url, token="secret") as client, pytest.raises(ServiceError, match="CERTIFICATE_VERIFY"):
        client.groups([GROUP])


def test_a_certificate_of_another_host_is_refused(secured, monkeypatch):
    served, certificate, _ = secured
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    with (
        RewardClient(served.url.replace("127.0.0.1", "localhost"), token="secret", tries=1) as client,
        pytest.raises(ServiceError, match=r"CERTIFICATE_VERIFY|refused"),
    ):
        client.groups([GROUP])


def test_plain_http_gets_no_answer(secured):
    served, *_ = secured
    connection = http.client.HTTPConnection("127.0.0.1", port_of(served.url), timeout=120)
    try:
        connection.request("GET", "/healthz")
        with pytest.raises((OSError, http.client.HTTPException)):
            connection.getresponse()
    finally:
        connection.close()


@pytest.mark.parametrize(("fault", "more"), [("a key of another certificate", ()), ("no certificate", ("--dry-run",))])
def test_files_that_do_not_belong_together_are_said_in_one_line(tmp_path, fault, more):
    certificate, key = write(tmp_path, "127.0.0.1")
    _, other = write(tmp_path, "localhost")
    if fault == "no certificate":
        certificate.write_text("nothing")
    given = other if fault.startswith("a key") else key
    path = config_at(tmp_path, certificate=certificate.name, private_key=given.name)
    command = [sys.executable, "-m", "rubrank", "serve", str(path), *more]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert "certificate" in done.stderr
