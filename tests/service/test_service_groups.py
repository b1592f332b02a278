"""POST /v1/groups and /v1/score over a real socket: the rewards are those of the engine, to the last bit."""

from __future__ import annotations

import asyncio
import json
import math
import time

import numpy as np
import pytest
from cases import thinned
from service.serving import RUBRIC, config_at, serving

from rubrank import Group, RewardEngine, Rollout, read_records, rule_names
from rubrank.service.config import load_service
from rubrank.service.service import Service, open_service

SAID = [
    "The moon pulls the water. Tides follow it twice a day.",
    "Moon.",
    "",
    "Tides rise and fall because the moon pulls. The sun helps a little. It is gravity.",
]
PROMPT = "Explain tides."


def body(**more):
    return {"groups": [{"id": "0/0", "prompt": PROMPT, "responses": SAID}], **more}


def in_process(groups, rule="rlvr2+", **options):
    engine = RewardEngine(RUBRIC, rule, **options)
    made = [
        Group(id=g["id"], rollouts=tuple(Rollout(prompt=g["prompt"], response=said) for said in g["responses"]))
        for g in groups
    ]
    return engine.score(made, 0)


def same_bits(got, want):
    flat = [math.nan if value is None else value for value in got]
    return np.array_equal(np.array(flat), np.array(want), equal_nan=True)


@pytest.fixture(scope="module")
def served(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("service"), records="records.jsonl") as found:
        yield found


def test_rewards_scores_and_reasons_come_back(served):
    status, answer, _ = served.call("/v1/groups", body())
    assert status == 200
    (group,) = answer["groups"]
    assert same_bits(group["rewards"], in_process(body()["groups"]).rewards[0])
    assert group["scores"]["WordCount"] == [1.0, 0.0, 0.0, 1.0]
    assert "at least 3 required" in group["reasons"]["WordCount"][1]
    assert group["stopped_by"][2] == "EmptyAnswer"
    assert answer["cost"]["calls"] == 0


def test_records_are_written_as_training_does(served):
    served.call("/v1/groups", body(step=7) | {"groups": [{**body()["groups"][0], "id": "7/recorded"}]})
    records = {record.group: record for record in read_records(served.folder / "records.jsonl")}
    found = records["7/recorded"]
    assert (found.step, found.metadata["mode"]) == (7, "train")
    assert found.responses is not None
    assert list(found.responses) == SAID
    assert same_bits(found.reward, in_process(body()["groups"]).rewards[0])


def test_one_rollout_is_scored(served):
    status, answer, _ = served.call("/v1/score", {"prompt": PROMPT, "response": "Moon."})
    assert status == 200
    assert answer["scores"] == {"EmptyAnswer": 1.0, "WordCount": 0.0, "SentenceCount": 0.0}
    assert set(answer["reasons"]) == set(answer["scores"])
    # Without judges the cost has the same keys as with them.
    names = {"calls", "hits", "cost", "input_tokens", "output_tokens", "asked", "missing"}
    assert answer["cost"] == dict.fromkeys(names, 0)


def test_groups_bring_rubrics_messages_and_metadata(served):
    groups = [
        {
            "prompt": [{"role": "user", "content": PROMPT}],
            "responses": [[{"role": "assistant", "content": "Moon."}], {"response": "Sun.", "finish_reason": "length"}],
            "rubric": [{"name": "Truncated"}],
            "metadata": {"answer": "moon"},
        }
    ]
    status, answer, _ = served.call("/v1/groups", {"groups": groups})
    assert status == 200
    assert answer["groups"][0]["scores"]["Truncated"] == [1.0, 0.0]


def test_a_request_with_an_id_is_answered_once(served):
    groups = [{**body()["groups"][0], "id": "once"}]
    first = served.call("/v1/groups", {"groups": groups, "request_id": "r-1"})[1]
    again = served.call("/v1/groups", {"groups": groups, "request_id": "r-1"})[1]
    assert again == first
    records = [record.group for record in read_records(served.folder / "records.jsonl")]
    assert records.count("once") == 1


def test_metrics_of_a_step_come_on_request(served):
    answer = served.call("/v1/groups", body(metrics=True, reasons=False))[1]
    want = in_process(body()["groups"]).metrics
    of_the_run = ("seconds", "share_of_step", "alarm")  # they depend on what was scored before
    same = {name: value for name, value in want.items() if not any(word in name for word in of_the_run)}
    assert {name: answer["metrics"][name] for name in same} == same
    assert "reasons" not in answer["groups"][0]


@pytest.mark.parametrize("rule", thinned(sorted(set(rule_names()) | {f"{name}+" for name in rule_names()}), every=6))
def test_rewards_are_those_of_the_engine_under_every_rule(rule, tmp_path):
    groups = [{"id": f"0/{n}", "prompt": f"{PROMPT} {n}", "responses": SAID[n % 2 :] + SAID[: n % 3]} for n in range(5)]
    want = in_process(groups, rule)
    with serving(tmp_path, rule=rule) as served:
        status, answer, _ = served.call("/v1/groups", {"groups": groups})
    assert status == 200, answer
    for got, expected in zip(answer["groups"], want.rewards, strict=True):
        assert same_bits(got["rewards"], expected)


@pytest.mark.parametrize("gate", [{"floor": 0.2}, {"lift": 0.0}, {"missing": "fail"}])
def test_and_under_gates(gate, tmp_path):
    from rubrank import Gate

    groups = body()["groups"]
    with serving(tmp_path, rule="weighted-mean+", gate=gate) as served:
        answer = served.call("/v1/groups", body())[1]
    assert same_bits(answer["groups"][0]["rewards"], in_process(groups, "weighted-mean+", gate=Gate(**gate)).rewards[0])


def test_groups_that_are_fused_together_keep_their_bits(served):
    """Many callers at the same time: their groups share a call of the engine, and no bit changes."""
    from concurrent.futures import ThreadPoolExecutor

    rng = np.random.default_rng(0)
    words = ["the", "moon", "pulls", "water.", "Tides", "rise", "and", "fall.", "It", "is", "gravity,", "twice."]
    groups = [
        {
            "id": f"0/{n}",
            "prompt": PROMPT,
            "responses": [" ".join(rng.choice(words, rng.integers(0, 30))) for _ in range(6)],
        }
        for n in range(60)
    ]
    want = [in_process([group]).rewards[0] for group in groups]
    with ThreadPoolExecutor(16) as pool:
        answers = list(pool.map(lambda group: served.call("/v1/groups", {"groups": [group]})[1], groups))
    for answer, expected in zip(answers, want, strict=True):
        assert same_bits(answer["groups"][0]["rewards"], expected)


def test_health_and_metrics(served):
    group = {"id": "0/metrics", "prompt": PROMPT, "responses": ["The moon pulls.", "Moon."]}
    assert served.call("/v1/groups", {"groups": [group]})[0] == 200
    assert served.call("/healthz")[0] == 200
    assert served.call("/readyz")[0] == 200
    status, text, headers = served.call("/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain")
    lines = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert float(lines["rubrank_groups_total"]) >= 1
    assert float(lines['rubrank_requests_total{path="/v1/groups",status="200"}']) >= 1
    assert float(lines["rubrank_resident_bytes"]) > 1e6


def test_half_characters_are_read(served):
    raw = json.dumps({"groups": [{"id": "\ud800", "prompt": "a \udfff", "responses": ["\ud83d", "ok then yes."]}]})
    status, answer, _ = served.call("/v1/groups", raw=raw.encode())
    assert status == 200
    assert answer["groups"][0]["id"] == "\ud800"


@pytest.mark.parametrize("name", ["records.jsonl", "records.jsonl.gz", "records.jsonl.zst"])
def test_what_a_killed_process_had_half_written_does_not_spoil_what_follows(tmp_path, name):
    with serving(tmp_path, records=name) as served:
        served.call("/v1/groups", body())
        served.call("/v1/groups", body())
    path = tmp_path / name
    path.write_bytes(path.read_bytes()[:-30])
    with serving(tmp_path, records=name) as served:
        served.call("/v1/groups", body(step=7))
    records = list(read_records(path))
    assert len(records) >= 2
    assert records[-1].step == 7


def test_attributes_over_groups_are_warmed_up_without_a_warning(tmp_path):
    """A warning is an error here, and a service that fails to warm up would never be ready."""
    with serving(tmp_path, rule="rlvr2+", attributes=["total_length"], pool="batch") as served:
        assert served.call("/readyz")[0] == 200


def test_a_warm_up_that_fails_keeps_nobody_out(tmp_path, monkeypatch, caplog):
    monkeypatch.setattr(Service, "warm_up_engine", lambda self: 1 / 0)
    with serving(tmp_path) as served:
        assert served.call("/v1/groups", body())[0] == 200
    assert "warming up" in caplog.text


def test_a_step_during_the_warm_up_is_not_rolled_back(tmp_path, monkeypatch):
    async def main():
        config, folder = load_service(config_at(tmp_path, rule="rlvr2+", attributes=["total_length"]))
        service = await open_service(config, folder)
        engine = service.engine
        while not service.is_ready:
            await asyncio.sleep(0.01)
        before = engine.state_dict()
        service.warm_up_engine()
        assert engine.state_dict() == before  # the made-up groups teach it nothing
        decide = engine.decide
        real = [Group(id=str(n), rollouts=tuple(Rollout(prompt=PROMPT, response=s) for s in SAID)) for n in range(2)]

        def decide_while_a_step_runs(groups):
            monkeypatch.setattr(engine, "decide", decide)
            engine.score(real, 0)
            return decide(groups)

        monkeypatch.setattr(engine, "decide", decide_while_a_step_runs)
        service.warm_up_engine()
        after = engine.state_dict()
        await service.close()
        return before, after

    before, after = asyncio.run(main())
    assert after["memory"] != before["memory"]


def test_what_uvicorn_has_waited_is_part_of_the_time_at_the_end(tmp_path, monkeypatch):
    async def main():
        config, folder = load_service(config_at(tmp_path, shutdown=30.0))
        service = await open_service(config, folder)
        waited = []
        monkeypatch.setattr(service, "finish_tasks", lambda seconds: asyncio.sleep(0, waited.append(seconds)))
        now = time.monotonic()
        monkeypatch.setattr("rubrank.service.service.time.monotonic", lambda: now)
        service.begin_shutdown()
        now += 20.0
        await service.close()
        return waited

    assert asyncio.run(main()) == [pytest.approx(10.0)]


def test_a_full_disk_is_a_503_and_no_record_is_written_twice(tmp_path, monkeypatch):
    """Records are written when answers cannot be stored; callers try again."""
    import sqlite3

    from rubrank.service.store import ServiceStore

    async def fail(*_):
        raise sqlite3.OperationalError("database or disk is full")

    sample = {"prompt": PROMPT, "response": SAID[0], "label": '{"group_id": "g", "sample_id": "0", "group_size": 1}'}
    with serving(tmp_path, records="records.jsonl") as served:
        with monkeypatch.context() as full:
            full.setattr(ServiceStore, "add_request_answer", fail)
            full.setattr(ServiceStore, "add_sample_answers", fail)
            for path, request in (("/v1/groups", body(request_id="r")), ("/slime", sample)):
                for _ in range(2):
                    status, answer, headers = served.call(path, request)
                    assert status == 503, answer
                    assert headers["retry-after"]
                    assert str(tmp_path) not in json.dumps(answer)
        status, answer, _ = served.call("/v1/groups", body(request_id="r"))
        assert status == 200
        assert same_bits(answer["groups"][0]["rewards"], in_process(body()["groups"]).rewards[0])
        assert served.call("/slime", sample)[0] == 200
        assert served.call("/v1/groups", body(request_id="r"))[0] == 200
    assert len(list(read_records(tmp_path / "records.jsonl"))) == 2


def test_records_that_cannot_be_written_are_a_refusal_of_one_call_only(tmp_path, monkeypatch):
    """The caller gets no rewards, so that its groups are not missing if it never comes back."""
    from rubrank.records import writer

    def fail(*_, **__):
        raise OSError(28, "No space left on device")

    with serving(tmp_path, records="records.jsonl") as served:
        with monkeypatch.context() as full:
            full.setattr(writer, "write_records", fail)
            status, answer, _ = served.call("/v1/groups", body(request_id="r"))
            assert status == 503
            assert str(tmp_path) not in json.dumps(answer)
        assert served.call("/v1/groups", body(request_id="other"))[0] == 200
        assert served.call("/v1/groups", body(request_id="r"))[0] == 200
    assert len(list(read_records(tmp_path / "records.jsonl"))) == 2
