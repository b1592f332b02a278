"""What must not come in, and how it is told so: one JSON error, never a traceback."""

from __future__ import annotations

import json
import logging
import os
import socket
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cases import folded
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from service.serving import RUBRIC, config_at, serving
from typer.testing import CliRunner

from rubrank import InvalidInput
from rubrank.cli.app import app
from rubrank.service import server as http_server
from rubrank.service.config import load_service, parse_service, plan_service

PARTS = {"where", "what", "allowed", "got", "remedy", "message"}
KEYS = [
    *("groups", "prompt", "responses", "response", "query", "prompts", "labels", "label", "rubric", "metadata"),
    *("responses_create_params", "output", "input", "id", "group_id", "group_size", "role", "content", "tools"),
]
JUDGE = {"name": "judge", "endpoints": [{"base_url": "http://127.0.0.1:9/v1", "model": "m"}]}
PATHS = ["/v1/groups", "/v1/score", "/openrlhf", "/slime", "/miles", "/verify"]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hostile")
    with serving(folder, max_body=200_000, max_group=50, body_timeout=1.0, deadline=0.2) as found:
        yield found


def refused(answer, *statuses):
    status, body, _ = answer
    assert status in statuses, body
    assert set(body["error"]) == PARTS
    return body["error"]


@folded("path", [*PATHS, "/seed_session", "/close_session", "/aggregate_metrics"])
@folded(
    "raw",
    [
        b"",
        b"{",
        b"nonsense",
        b"[NaN]",
        b'{"a": NaN}',
        b'{"a": Infinity}',
        b"\xff\xfe",
        b'{"a": "\xed\xa0\x80"}',
        b"[" * 100_000,
        b'{"a":' * 20_000,
        b"1 2",
        b"\x00",
    ],
)
def test_bodies_that_are_no_json(served, path, raw):
    assert refused(served.call(path, raw=raw), 400)["what"] == "body"


@folded("path", [*PATHS, "/aggregate_metrics"])
@folded("depth", [250, 400, 900])
@folded("opening", ["[", '{"a":'])
def test_what_is_too_deep_is_said_whatever_else_is_in_it(served, path, depth, opening):
    """Half a character takes another reader, which reads deeper than anything else could follow."""
    closing = "]" if opening == "[" else "}"
    deep = opening * depth + "1" + closing * depth
    keys = ("groups", "prompt", "label", "rubric", "verify_responses", "response", "metadata")
    body = "{" + ", ".join([f'"{key}": {deep}' for key in keys] + [r'"x": "\ud83d"']) + "}"
    assert refused(served.call(path, raw=body.encode()), 400)["got"] == "too deep"


@folded("path", PATHS)
def test_a_key_that_is_there_twice_is_refused(served, path):
    for body in ('{"prompt": "a", "prompt": "b"}', '{"groups": [{"responses": ["a"], "responses": ["b"]}]}'):
        assert refused(served.call(path, raw=body.encode()), 400)["got"].endswith("twice")


@pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 400, "1e308", "9" * 4000])
def test_numbers_that_no_float_holds_have_no_mean(served, number):
    body = f'{{"verify_responses": [{{"reward": {number}}}, {{"reward": {number}}}, {{"reward": 0.5}}]}}'
    status, answer, _ = served.call("/aggregate_metrics", raw=body.encode())
    assert status == 200
    assert answer["agent_metrics"]["mean/reward"] == 0.5


@folded("number", ["9" * 20, "9" * 400, "-" + "9" * 400, "51"])
@folded("key", ["group_size", "step"])
def test_numbers_that_are_too_large_are_refused(served, key, number):
    if (key, number) != ("step", "51"):
        raw = f'{{"prompt": "p", "response": "r", "{key}": {number}}}'.encode()
        assert refused(served.call("/slime", raw=raw), 422)["what"] == key


def test_another_body_under_a_known_request_id_is_refused(served):
    """Its rewards would be those of other rollouts."""
    body = {"groups": [{"prompt": "p", "responses": ["One two three.", "x"]}], "request_id": "other"}
    first = served.call("/v1/groups", body)
    assert first[0] == 200
    body["groups"][0]["responses"].reverse()
    assert refused(served.call("/v1/groups", body), 409)["what"] == "request_id"
    body["groups"][0]["responses"].reverse()
    assert served.call("/v1/groups", body)[1] == first[1]


def test_samples_of_a_call_that_is_refused_leave_their_places(served):
    labels = [json.dumps({"group_id": "left", "group_size": size}) for size in (3, 2)]
    body = {"query": ["pa", "pb"], "prompts": ["p", "p"], "labels": labels}
    refused(served.call("/openrlhf", body), 422)
    assert "rubrank_waiting_samples 0" in served.call("/metrics")[1]


@folded("path", PATHS)
@folded("body", [[], 1, "x", None, True, {}, {"groups": 1}, {"groups": []}, {"groups": [1]}])
def test_bodies_of_the_wrong_shape(served, path, body):
    refused(served.call(path, raw=json.dumps(body).encode()), 422)


@pytest.mark.parametrize(
    ("change", "what"),
    [
        ({"prompt": 1}, "groups.0.prompt"),
        ({"prompt": None}, "groups.0.prompt"),
        ({"prompt": []}, "groups.0.prompt"),
        ({"responses": "text"}, "groups.0.responses"),
        ({"responses": []}, "groups.0.responses"),
        ({"responses": ["x"] * 51}, "groups.0.responses"),
        ({"finish_reasons": ["stop"]}, "groups.0.finish_reasons"),
        ({"metadata": [1]}, "groups.0.metadata"),
        ({"id": 7}, "groups.0.id"),
        ({"respones": ["x"]}, "groups.0.respones"),
    ],
)
def test_groups_of_the_wrong_shape(served, change, what):
    group = {"prompt": "p", "responses": ["a", "b"], **change}
    assert refused(served.call("/v1/groups", {"groups": [group]}), 422)["what"] == what


@pytest.mark.parametrize("name", ["responses", "finish_reasons"])
def test_keys_of_groups_are_no_keys_of_a_score(served, name):
    error = refused(served.call("/v1/score", {"prompt": "p", "response": "a", name: []}), 422)
    assert error["what"] == name


@pytest.mark.parametrize(
    "more", [{"step": -1}, {"step": 1.5}, {"step": True}, {"step": "1"}, {"train": 1}, {"request_id": 3}, {"stepp": 1}]
)
def test_requests_of_the_wrong_shape(served, more):
    refused(served.call("/v1/groups", {"groups": [{"prompt": "p", "responses": ["a"]}], **more}), 422)


@pytest.mark.parametrize(
    "rubric", ["no such preset", [{"name": "NoSuchCriterion"}], 7, [{"name": "WordCount", "x": 1}]]
)
def test_rubrics_that_nobody_can_decide(served, rubric):
    group = {"prompt": "p", "responses": ["a"], "rubric": rubric}
    refused(served.call("/v1/groups", {"groups": [group]}), 422)


@pytest.mark.parametrize(
    "shape",
    [
        lambda path: path,
        lambda path: {"extends": path},
        lambda path: {"extends": [path], "criteria": ["EmptyAnswer"]},
        lambda path: {"rubric": path},
        lambda path: {"rubrics": {"extends": [path]}},
        lambda path: json.dumps({"extends": [path]}),
        lambda path: {"instruction_id_list": path},
        lambda path: {"instruction_id_list": ["punctuation:no_comma"], "kwargs": path},
        lambda path: {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [path]},
    ],
)
def test_no_file_of_the_host_is_read_for_a_caller(served, tmp_path, monkeypatch, shape):
    """Neither its content nor whether it exists can be seen, and a pipe that nobody writes to hangs no request."""
    monkeypatch.chdir(tmp_path)  # relative paths, so that no message is cut in the middle of one
    secret = Path("secret.yaml")
    secret.write_text("criteria: [sk-not-to-be-seen]")
    pipe = Path("pipe.yaml")
    os.mkfifo(pipe)
    messages = set()
    for path in (secret, pipe, "no-such.yaml", "https://example.org/r.yaml", "hf:org/set", "/dev/zero"):
        rubric = shape(str(path))
        group = {"id": "g", "prompt": "p", "responses": ["a"], "rubric": rubric}
        error = refused(served.call("/v1/groups", {"groups": [group]}), 422)
        assert "sk-not-to-be-seen" not in json.dumps(error)
        label = json.dumps({"rubric": rubric, "group_size": 1})
        refused(served.call("/slime", {"prompt": "p", "response": "a", "label": label}), 422)
        messages.add(error["message"].replace(str(path), "PATH"))
    assert len(messages) == 1


def test_presets_may_be_named(served):
    for rubric in ("gates", {"extends": "gates", "criteria": ["Postscript"]}):
        group = {"prompt": "p", "responses": ["One two three.", ""], "rubric": rubric}
        status, answer, _ = served.call("/v1/groups", {"groups": [group]})
        assert status == 200
        assert "EmptyAnswer" in answer["groups"][0]["scores"]


def test_rubrics_that_the_operator_configured_may_be_named(tmp_path):
    (tmp_path / "base.yaml").write_text("criteria: [EmptyAnswer]")
    (tmp_path / "house.yaml").write_text("extends: [base.yaml]\ncriteria: [Postscript]")
    with serving(tmp_path, rubrics={"house": "house.yaml"}) as served:
        for rubric in ("house", {"extends": ["house"], "criteria": RUBRIC[1:]}):
            group = {"prompt": "p", "responses": ["One two three.", ""], "rubric": rubric}
            status, answer, _ = served.call("/v1/groups", {"groups": [group]})
            assert status == 200, answer
            assert {"EmptyAnswer", "Postscript"} <= set(answer["groups"][0]["scores"])
        for path in ("house.yaml", "base.yaml", "no-such.yaml"):
            group = {"prompt": "p", "responses": ["x"], "rubric": {"extends": path}}
            refused(served.call("/v1/groups", {"groups": [group]}), 422)


@pytest.mark.parametrize("rubrics", [{"gates": "r.yaml"}, {"a/b": "r.yaml"}, {"x": "no-such.yaml"}, {"x": "bad.yaml"}])
def test_rubrics_that_cannot_be_named(tmp_path, rubrics):
    (tmp_path / "r.yaml").write_text("criteria: [EmptyAnswer]")
    (tmp_path / "bad.yaml").write_text("criteria: [NoSuchCriterion]")
    config, folder = load_service(config_at(tmp_path, rubrics=rubrics))
    with pytest.raises(InvalidInput):
        config.read_rubrics(folder)


def test_one_bad_request_spoils_no_other(served):
    good = {"groups": [{"prompt": "p", "responses": ["One two three. Four five.", "x"]}]}
    bad = {"groups": [{"prompt": "p", "responses": ["a"], "rubric": [{"name": "NoSuchCriterion"}]}]}
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(lambda n: served.call("/v1/groups", bad if n % 3 == 0 else good), range(24)))
    assert [status for status, _, _ in found] == [422 if n % 3 == 0 else 200 for n in range(24)]


def test_too_large_bodies(served):
    large = json.dumps({"groups": [{"prompt": "p", "responses": ["x" * 300_000]}]}).encode()
    assert refused(served.call("/v1/groups", raw=large), 413)["allowed"].startswith("at most 200,000")


def test_too_large_without_a_length(served):
    answer = _raw(served, b"POST /v1/groups HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", chunks=400)
    assert answer.startswith(b"HTTP/1.1 413")


def test_bodies_that_never_come(served):
    answer = _raw(served, b"POST /slime HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 408")


def _raw(served, head, chunks=0):
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=120) as made:
        made.sendall(head)
        try:
            for _ in range(chunks):
                made.sendall(b"400\r\n" + b"x" * 1024 + b"\r\n")
        except OSError:
            pass
        return made.recv(65536)


def test_headers_that_do_not_end(served):
    """Whoever sends them, token or not, takes no memory."""
    lines = [b"X-%d: %s\r\n" % (i, b"a" * 65_536) for i in range(16)]
    for sent in ([b"POST /slime HTTP/1.1\r\nHost: x\r\n", *lines], [b"POST /" + b"a" * 700_000]):
        # Closed, with an answer that is lost where the caller still sends.
        assert _sent(served, *sent)[:12] in (b"", b"HTTP/1.1 431")


def test_headers_that_never_come(served, monkeypatch):
    monkeypatch.setattr(http_server, "SLOWEST_HEAD_SECONDS", 0.2)
    answer = _sent(served, b"POST /slime HTTP/1.1\r\nHost: x\r\n")
    assert answer.startswith(b"HTTP/1.1 408")
    assert set(json.loads(answer.partition(b"\r\n\r\n")[2])["error"]) == PARTS
    assert _sent(served, b"").startswith(b"HTTP/1.1 408")
    first = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    assert b"HTTP/1.1 408" in _sent(served, first, b"GET /healthz HTTP/1.1\r\n")


def test_a_few_requests_ahead_are_answered_and_many_are_not(served):
    one = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    last = b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
    assert _sent(served, one * 20 + last).count(b"HTTP/1.1 200") == 21
    assert _sent(served, one * 5000 + last).count(b"HTTP/1.1 200") < 100


def test_large_bodies_have_no_large_headers(served):
    """What comes in one piece with the headers is not taken for them."""
    large = json.dumps({"prompt": "p", "response": "x " * 90_000}).encode()
    for _ in range(3):
        assert served.call("/v1/score", raw=large)[0] == 200


def _sent(served, *pieces):
    host, port = served.url.removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), timeout=120) as made:
        answer = b""
        try:
            for piece in pieces:
                made.sendall(piece)
            while found := made.recv(65536):
                answer += found
        except ConnectionError:
            pass
        return answer


def test_malformed_requests_do_not_fill_the_log(served):
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    logger = logging.getLogger("uvicorn.error")
    logger.addHandler(handler)
    try:
        for request in (b"nonsense\r\n\r\n", b"GET / HTTP/9\r\n\r\n", b"GET / HTTP/1.1\r\nbad header\r\n\r\n"):
            assert _sent(served, request).startswith(b"HTTP/1.1 400")
        _sent(served, b"GET /health HTTP/1.1\r\nHost: x\r\nConnection: upgrade, close\r\nUpgrade: websocket\r\n\r\n")
    finally:
        logger.removeHandler(handler)
    assert not lines


def test_compressed_bodies_are_refused(served):
    refused(served.call("/slime", raw=b"x", headers={"Content-Encoding": "gzip"}), 415)


def test_unknown_paths_and_methods(served):
    assert "/v1/groups" in refused(served.call("/v1/group", {}), 404)["allowed"]
    refused(served.call("/v1/groups"), 405)
    refused(served.call("/healthz", {}), 405)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.sampled_from(PATHS),
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(max_size=8),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(KEYS),
                inner,
                max_size=4,
            )
        ),
        max_leaves=12,
    ),
)
def test_nothing_breaks_it(served, path, body):
    status, answer, _ = served.call(path, raw=json.dumps(body).encode())
    assert status in (200, 400, 422)
    if status != 200:
        assert set(answer["error"]) == PARTS


def test_a_body_that_is_refused_is_not_waited_for(tmp_path):
    """Without a token, a caller that sends its body byte by byte is disconnected as soon as it is refused."""
    with serving(tmp_path, token="s3cret") as served:
        answer = _sent(served, b"POST /slime HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{")
    assert answer.startswith(b"HTTP/1.1 401")
    assert b"connection: close" in answer.lower()


def test_a_trainer_that_cannot_complete_its_groups_is_told_so(tmp_path, caplog):
    """slime keeps 64 samples in flight: with larger steps every group would be scored incomplete."""
    with serving(tmp_path, deadline=0.05, group_size=4, window=4) as served:
        statuses = []
        for n in range(6):
            statuses.append(served.call("/slime", {"prompt": f"p{n}", "response": "One two three."})[0])
        assert statuses == [200, 200, 200, 503, 503, 503]
        assert "rubrank_starved_total 3.0" in served.call("/metrics")[1]
        assert len([line for line in caplog.messages if "in flight" in line]) == 1
        calls = [{"prompt": "whole", "response": f"Text number {i}."} for i in range(4)]
        with ThreadPoolExecutor(4) as pool:
            whole = list(pool.map(lambda body: served.call("/slime", body), calls))
        assert [status for status, _, _ in whole] == [200] * 4


def open_connections(served, number, start):
    """Connections that send `start` and then nothing."""
    host, port = served.url.removeprefix("http://").split(":")
    connections = []
    for _ in range(number):
        connection = socket.create_connection((host, int(port)), timeout=120)
        connection.sendall(start)
        connections.append(connection)
    return connections


def count_closed(connections):
    closed = 0
    for connection in connections:
        connection.settimeout(0.05)
        try:
            closed += connection.recv(1) == b""
        except TimeoutError:
            pass
        except ConnectionError:
            closed += 1
    return closed


@pytest.mark.parametrize(
    ("options", "start"),
    [
        ({"token": "s3cret"}, b"POST /v1/score HTTP/1.1\r\nHost: x\r\n"),
        ({}, b"POST /v1/score HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n{"),
    ],
    ids=["half headers without a token", "half bodies where no token is needed"],
)
def test_callers_that_only_hold_connections_give_way(tmp_path, monkeypatch, options, start):
    monkeypatch.setattr(http_server, "MOST_UNTRUSTED", 20)
    monkeypatch.setattr(http_server, "LEAST_UNTRUSTED_SECONDS", 0.0)
    headers = {"Authorization": "Bearer s3cret"} if options else {}
    with serving(tmp_path, **options) as served:
        held = open_connections(served, 100, start)
        try:
            score = {"prompt": "p", "response": "One two three."}
            assert served.call("/v1/score", score, headers=headers)[0] == 200
            assert count_closed(held) >= 80
        finally:
            for connection in held:
                connection.close()


def test_callers_with_the_token_keep_their_connections(tmp_path, monkeypatch):
    monkeypatch.setattr(http_server, "MOST_UNTRUSTED", 5)
    head = b"POST /v1/score HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer s3cret\r\nContent-Length: 100\r\n\r\n{"
    with serving(tmp_path, token="s3cret") as served:
        uploads = open_connections(served, 10, head)
        assert served.call("/healthz")[0] == 200  # the headers above have been read
        monkeypatch.setattr(http_server, "LEAST_UNTRUSTED_SECONDS", 0.0)
        strangers = open_connections(served, 40, b"GET /healthz HTTP/1.1\r\n")
        try:
            assert served.call("/healthz")[0] == 200
            assert count_closed(uploads) == 0
            assert count_closed(strangers) >= 30
        finally:
            for connection in (*uploads, *strangers):
                connection.close()


def test_a_burst_of_a_trainer_is_not_cut(tmp_path, monkeypatch):
    """All its connections are new: none is closed, although they are more than the limit for strangers."""
    monkeypatch.setattr(http_server, "MOST_UNTRUSTED", 5)
    with serving(tmp_path, group_size=1) as served, ThreadPoolExecutor(40) as pool:
        bodies = [{"prompt": f"p{n}", "response": "One two three."} for n in range(40)]
        statuses = [status for status, _, _ in pool.map(lambda body: served.call("/slime", body), bodies)]
    assert statuses == [200] * 40


# -------------------------------------------------------------------------------------------------------------- access


def test_a_token_is_asked_for_in_four_ways(tmp_path):
    import base64

    basic = base64.b64encode(b"any:s3cret").decode()
    score = {"prompt": "p", "response": "One two three."}
    with serving(tmp_path, token="s3cret") as served:
        assert refused(served.call("/v1/score", score), 401)["what"] == "token"
        for wrong in ("Bearer s3cre", "Bearer s3crett", "Bearer ", "Basic !!", "Basic eDp5", "s3cret", "Bearer \xe9"):
            refused(served.call("/v1/score", score, headers={"Authorization": wrong}), 401)
        refused(served.call("/v1/score?token=x", score), 401)
        refused(served.call("/metrics"), 401)
        for right in ("Bearer s3cret", f"Basic {basic}"):
            assert served.call("/v1/score", score, headers={"Authorization": right})[0] == 200
        assert served.call("/v1/score?token=s3cret", score)[0] == 200
        assert served.call("/healthz")[0] == served.call("/readyz")[0] == 200


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org"])
def test_other_hosts_need_a_token(tmp_path, host):
    config, folder = load_service(config_at(tmp_path, host=host))
    with pytest.raises(InvalidInput, match="loopback"):
        config.read_secret(folder)
    config, folder = load_service(config_at(tmp_path, host=host, token="x"))
    assert config.read_secret(folder) == "x"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.0.0.7", "::1", "localhost"])
def test_this_machine_needs_none(tmp_path, host):
    config, folder = load_service(config_at(tmp_path, host=host))
    assert config.read_secret(folder) is None


def test_tokens_come_from_the_environment_or_a_file(tmp_path, monkeypatch):
    monkeypatch.setenv("MY_TOKEN", " abc\n")
    config, folder = load_service(config_at(tmp_path, token_env="MY_TOKEN"))
    assert config.read_secret(folder) == "abc"
    (tmp_path / "token").write_text("def\n")
    config, folder = load_service(config_at(tmp_path, token_file="token"))
    assert config.read_secret(folder) == "def"
    monkeypatch.setenv("MY_TOKEN", "")
    config, folder = load_service(config_at(tmp_path, token_env="MY_TOKEN"))
    with pytest.raises(InvalidInput, match="MY_TOKEN"):
        config.read_secret(folder)


@pytest.mark.parametrize(
    "options",
    [
        {"token": "a", "token_env": "B"},
        {"certificate": "c.pem"},
        {"private_key": "k.pem"},
        {"port": 70000},
        {"deadline": 0},
        {"deadline": float("inf")},
        {"group_size": 0},
        {"max_body": 1},
        {"group_size": 10, "max_group": 5},
        {"port": True},
        {"group_size": True},
        {"deadline": False},
        {"workers": True},
        {"prot": 1},
        {"rule": 7},
    ],
)
def test_configurations_that_cannot_be(tmp_path, options):
    with pytest.raises(InvalidInput):
        load_service(config_at(tmp_path, **options))


@pytest.mark.parametrize("key", ["keep", "window", "max_body", "max_waiting", "max_group", "body_timeout", "shutdown"])
@pytest.mark.parametrize("value", [True, False])
def test_true_is_no_number_of_a_service(key, value):
    with pytest.raises(InvalidInput, match=f"{key} must be .*number.*; got '{str(value).lower()}'"):
        parse_service({"rubric": RUBRIC, key: value})


@pytest.mark.parametrize("token", ["schl\u00fcssel", "a\nb", "a\x00b", "\u2003x\u2003y"])
def test_tokens_that_no_header_can_hold(tmp_path, token):
    config, folder = load_service(config_at(tmp_path, token=token))
    with pytest.raises(InvalidInput, match="ASCII"):
        config.read_secret(folder)


@pytest.mark.parametrize(
    ("more", "what"),
    [
        ({"judges": []}, "a file, or the data of one"),
        ({"judges": 7}, "a file, or the data of one"),
        ({"records": "a\0b.jsonl"}, "path"),
        ({"folder": "\0"}, "path"),
        ({"judges": {"judges": [JUDGE | {"timeout": True}]}}, "timeout must be a number; got 'true'"),
        ({"judges": {"judges": [JUDGE | {"retry": {"attempts": True}}]}}, "attempts must be a whole number"),
        ({"judges": {"judges": [JUDGE], "most_missing": True}}, "most_missing must be a number"),
    ],
)
def test_plans_that_cannot_be_made_are_said(tmp_path, more, what):
    with pytest.raises(InvalidInput, match=what):
        plan_service(parse_service({"rubric": ["EmptyAnswer"], **more}), tmp_path)


def test_a_token_is_never_shown(tmp_path):
    config, _ = load_service(config_at(tmp_path, token="s3cret"))
    assert "s3cret" not in repr(config)


def test_too_much_at_once_is_turned_away(tmp_path):
    with serving(tmp_path, max_waiting=4) as served:
        with ThreadPoolExecutor(1) as pool:
            waiting = pool.submit(served.call, "/slime", {"prompt": "p", "response": "a", "group_size": 2})
            while "rubrank_waiting_samples 1" not in served.call("/metrics")[1]:
                time.sleep(0.01)
            status, answer, headers = served.call("/v1/groups", {"groups": [{"prompt": "p", "responses": ["a"] * 4}]})
            assert status == 429
            assert set(answer["error"]) == PARTS
            assert int(headers["retry-after"]) > 0
            assert served.call("/slime", {"prompt": "p", "response": "b", "group_size": 2})[0] == 200
            assert waiting.result()[0] == 200
        assert served.call("/v1/groups", {"groups": [{"prompt": "p", "responses": ["a"] * 4}]})[0] == 200


def test_a_request_that_fills_the_service_is_answered(tmp_path):
    """A request does not count against itself, and requests that have ended leave no rollouts behind."""
    full = {"groups": [{"prompt": "p", "responses": ["a"] * 4}]}
    label = json.dumps({"rubric": ["NoSuchVerifier"], "group_size": 1})
    bad_sample = {"prompt": "p", "response": "a", "label": label}
    with serving(tmp_path, max_waiting=4) as served:
        for number in range(3):
            assert served.call("/v1/groups", full | {"request_id": f"r{number}"})[0] == 200
            assert served.call("/v1/score", {"prompt": "p", "response": "a"})[0] == 200
            assert served.call("/slime", {"prompt": "p", "response": "a", "group_size": 1})[0] == 200
            assert served.call("/slime", bad_sample)[0] in (400, 422)
        assert served.call("/v1/groups", full)[0] == 200


def test_more_than_there_is_room_for_is_not_to_be_tried_again(tmp_path):
    with serving(tmp_path, max_waiting=4) as served:
        answer = served.call("/v1/groups", {"groups": [{"prompt": "p", "responses": ["a"] * 5}]})
        assert "max_waiting" in refused(answer, 413)["remedy"]


@pytest.mark.slow
def test_a_folder_is_of_one_service_at_a_time(tmp_path):
    """Two would number their groups alike, and write over each other's."""
    with serving(tmp_path) as served:
        command = [sys.executable, "-m", "rubrank", "serve", str(served.folder / "service.yaml")]
        found = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert found.returncode == 2
        assert "one service at a time" in found.stderr
        assert "Traceback" not in found.stderr
    with serving(tmp_path):
        pass  # free again


@pytest.mark.parametrize("name", ["folder", "records"])
def test_places_that_cannot_be_written_are_said_before_anything_is_served(tmp_path, name):
    (tmp_path / "file").write_text("")
    path = tmp_path / "service.json"
    given = "file/records.jsonl" if name == "records" else "file"
    path.write_text(json.dumps({"rubric": ["EmptyAnswer"], name: given}))
    found = CliRunner().invoke(app, ["serve", str(path), "--dry-run"])
    assert found.exit_code == 2
    assert f"serve: {name} must be" in found.stderr
