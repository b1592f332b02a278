"""The client: for programs, for TRL, for verl; and what it does about a service that is away."""

from __future__ import annotations

import asyncio
import json
import math
import pickle
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from types import SimpleNamespace

import numpy as np
import pytest
from service.serving import serving

from rubrank import InvalidInput, RewardClient, remote_reward
from rubrank.service import client as module
from rubrank.service.client import ServiceError, compute_score

SAID = ["The moon pulls the water. Tides follow.", "Moon.", "", "Tides rise since the moon pulls. So it is."]


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("client"), token="s3cret") as found:
        yield found


@pytest.fixture
def client(served):
    with RewardClient(served.url, token="s3cret", tries=1) as found:
        yield found


def test_groups_scores_and_samples(client):
    groups = [{"prompt": "Tides?", "responses": SAID}]
    (rewards,) = client.rewards(groups)
    assert rewards[2] == 0.0
    assert asyncio.run(client.rewards_async(groups)) == [rewards]
    assert asyncio.run(client.groups_async(groups))["groups"][0]["rewards"] == rewards
    assert client.score("Tides?", SAID[1])["scores"]["WordCount"] == 0.0

    async def samples():
        return await asyncio.gather(*(client.sample_async("Tides?", text, group_id="c") for text in SAID))

    assert [one["reward"] for one in asyncio.run(samples())] == pytest.approx(rewards, abs=1e-12)


def test_it_can_be_sent_to_other_processes(client):
    with pickle.loads(pickle.dumps(client)) as again:
        assert again.rewards([{"prompt": "p", "responses": ["a b c. d e.", "x"]}])


def test_a_wrong_token_is_said(served):
    with pytest.raises(ServiceError, match="token") as error:
        RewardClient(served.url, token="no").score("p", "r")
    assert error.value.status == 401
    assert pickle.loads(pickle.dumps(error.value)).status == 401


def test_mistakes_are_not_tried_again(client):
    with pytest.raises(ServiceError, match=r"groups\.0\.responses"):
        client.rewards([{"prompt": "p", "responses": []}])


@pytest.mark.parametrize(
    "url",
    ["", "ftp://x", "127.0.0.1:80", "http://", "http://x:99999", "http://x:port", "http://x:0", "http://[::1:80"],
)
def test_addresses_that_are_none(url, monkeypatch):
    monkeypatch.delenv("RUBRANK_SERVICE", raising=False)
    with pytest.raises(InvalidInput, match="url"):
        RewardClient(url)


def test_trl_gets_rewards_in_its_order(served):
    reward = remote_reward(served.url, num_generations=4, token="s3cret")
    prompts = [[{"role": "user", "content": "Tides?"}]] * 4 + [[{"role": "user", "content": "Moon?"}]] * 4
    completions = [[{"role": "assistant", "content": text}] for text in [*SAID, *reversed(SAID)]]
    found = reward(
        prompts=prompts,
        completions=completions,
        completion_ids=[[1]] * 8,
        answer=["a"] * 8,
        rubric=[None] * 8,
        trainer_state=SimpleNamespace(global_step=3),
    )
    assert found[:4] == pytest.approx(list(reversed(found[4:])), abs=1e-12)
    assert reward.__name__ == "rubrank"
    with pytest.raises(InvalidInput, match="num_generations"):
        reward(prompts=prompts[:3], completions=completions[:3])


@pytest.mark.parametrize(
    "row",
    [
        {"question": "Q", "rubric": np.array([{"name": "WordCount", "params": {"low": 9}}], dtype=object)},
        {"question": "Q", "rubric": np.array(["EmptyAnswer", "Refusal"], dtype=object), "index": np.int64(3)},
        {"prompt": np.array([{"role": "user", "content": c} for c in "ab"], dtype=object), "step": np.int64(2)},
        {"question": "Q", "share": np.float32(0.5), "none": np.nan, "uid": np.array([1, 2])},
    ],
)
def test_rows_of_parquet_files_hold_arrays(served, monkeypatch, row):
    monkeypatch.setenv("RUBRANK_SERVICE", served.url)
    monkeypatch.setenv("RUBRANK_TOKEN", "s3cret")
    found = asyncio.run(compute_score("source", "One two three.", np.array(["a"]), {**row, "group_size": 1}))
    assert 0.0 <= found["score"] <= 1.0
    assert found["rubrank_unknown"] == 0.0


def test_slices_of_trl_that_are_no_groups_are_refused(served):
    prompts, said = ["p", "p", "q", "q"], ["a", "b", "c", "d"]
    with pytest.raises(InvalidInput, match="of each prompt"):
        remote_reward(served.url, num_generations=4, token="s3cret")(prompts, said)
    assert len(remote_reward(served.url, num_generations=2, token="s3cret")(prompts, said)) == 4
    for wrong in (0, -1):
        with pytest.raises(InvalidInput, match="num_generations"):
            remote_reward(served.url, num_generations=wrong)


def test_verl_gets_a_score_and_flags(served, monkeypatch):
    monkeypatch.setenv("RUBRANK_SERVICE", served.url)
    monkeypatch.setenv("RUBRANK_TOKEN", "s3cret")

    async def main():
        info = {"prompt": "Tides?", "uid": "v1"}
        return await asyncio.gather(*(compute_score("data", text, "moon", {**info, "index": 0}) for text in SAID))

    found = asyncio.run(main())
    assert [one["rubrank_complete"] for one in found] == [1.0] * 4
    assert found[2]["score"] == 0.0
    assert all(isinstance(value, float) for one in found for value in one.values())


_seen: list[dict] = []


class _Flaky(BaseHTTPRequestHandler):
    """Has no time for the first two calls."""

    def do_POST(self):
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        _seen.append(body)
        if len(_seen) < 3:
            self.send_response(503)
            answer = b'{"error": {"message": "later"}}'
        else:
            self.send_response(200)
            answer = b'{"groups": [{"rewards": [null, 0.5]}]}'
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


def test_a_call_is_made_again_with_the_same_id(monkeypatch):
    monkeypatch.setattr(module.time, "sleep", lambda seconds: None)
    with HTTPServer(("127.0.0.1", 0), _Flaky) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with RewardClient(f"http://127.0.0.1:{server.server_port}") as client:
                (rewards,) = client.rewards([{"prompt": "p", "responses": ["a", "b"]}])
        finally:
            server.shutdown()
            thread.join()
    assert math.isnan(rewards[0])
    assert rewards[1] == 0.5
    assert len(_seen) == 3
    assert len({body["request_id"] for body in _seen}) == 1


def test_a_service_that_is_away_is_said(monkeypatch):
    monkeypatch.setattr(module.time, "sleep", lambda seconds: None)
    with pytest.raises(ServiceError, match="refused") as error:
        RewardClient("http://127.0.0.1:9").score("p", "r")
    assert error.value.status is None


@pytest.mark.parametrize("options", [{"tries": 0}, {"timeout": 0.0}, {"token": "a\nb"}, {"token": "schl\u00fcssel"}])
def test_options_that_cannot_be(options):
    with pytest.raises(InvalidInput, match=next(iter(options))):
        RewardClient("http://127.0.0.1:9", **options)


def test_a_token_in_the_address_may_hold_any_character(tmp_path):
    with serving(tmp_path, token="a/b@c%") as served:
        url = served.url.replace("http://", "http://any:a%2Fb%40c%25@")
        with RewardClient(url, tries=1) as client:
            assert client.score("p", "One two three.")["scores"]


def test_a_wrong_address_does_not_show_its_token():
    with pytest.raises(InvalidInput) as error:
        RewardClient("http://any:s3cret@host:99999")
    assert "s3cret" not in str(error.value)


class _Other(BaseHTTPRequestHandler):
    """Some other server, which says 200 to everything."""

    def do_POST(self):
        self.rfile.read(int(self.headers["Content-Length"]))
        answer = b"<html>Welcome</html>" if "groups" in self.path else b'{"detail": "ok"}'
        self.send_response(200)
        self.send_header("Content-Length", str(len(answer)))
        self.end_headers()
        self.wfile.write(answer)

    def log_message(self, *args):
        pass


def test_a_server_that_is_none_of_ours_is_said():
    with HTTPServer(("127.0.0.1", 0), _Other) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            with RewardClient(f"http://127.0.0.1:{server.server_port}") as client:
                with pytest.raises(ServiceError, match="not JSON"):
                    client.rewards([{"prompt": "p", "responses": ["a"]}])
                client.groups = lambda groups, **options: client.call("/other", {})
                with pytest.raises(ServiceError, match="no rewards"):
                    client.rewards([{"prompt": "p", "responses": ["a"]}])
        finally:
            server.shutdown()
            thread.join()


def test_a_forked_process_opens_connections_of_its_own(served, client):
    """On the parent's it might read the answers to the parent's calls."""
    group = [{"prompt": "p", "responses": ["One two three. Four five.", "x"]}]
    rewards = client.rewards(group)
    ((process, kept),) = client._idle
    client._idle = [(process + 1, kept)]  # as a child of this process finds it
    assert client.rewards(group) == rewards
    assert kept.sock is None


def test_a_message_names_the_address_without_password_or_empty_port():
    client = RewardClient("http://user:secret@nowhere.invalid", tries=1)
    with pytest.raises(ServiceError, match=r"^http://nowhere\.invalid: "):
        client.rewards([])
