"""Judging by batch API: half the price, the same answers, nothing paid twice, whatever goes wrong on the way."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from cases import spread
from judges.batch_server import BatchServer, completion, usual
from judges.server import Answer, Server
from typer.testing import CliRunner

from rubrank import InvalidInput, JudgingFailed
from rubrank.cli.app import app
from rubrank.errors import BatchesPending, JudgeOutage
from rubrank.grading.grade import grade
from rubrank.grading.preview import estimate
from rubrank.judges.client.batch_api import BatchState
from rubrank.judges.client.cache import ReplyCache
from rubrank.judges.client.usage import Account

SAID = ["West Lake, in the west of the town.", "A lake.", "Lake Tai is near, but it is not there."]
ROWS = [{"prompt": f"Name lake {g}.", "group": f"q{g}", "response": f"{said} {g}"} for g in range(3) for said in SAID]
RUBRIC = ["EmptyAnswer", "CoreIntentMatch"]
N = len(ROWS)


def judges(url, path, kind="absolute", limits=None, **more):
    endpoint = {"base_url": url, "model": "m", "price": {"input": 2.0, "output": 8.0}, "batch": {"poll": 0.01}}
    endpoint["batch"] |= limits or {}
    retry = {"attempts": 3, "first_wait": 0.0, "longest_wait": 0.01}
    judge = {"kind": kind, "endpoints": [endpoint], "retry": retry}
    return {"judges": [judge], "cache": str(path / "replies.sqlite"), "most_missing": 1.0, **more}


def graded(server, tmp_path, batch="wait", rows=ROWS, **more):
    return grade(rows, RUBRIC, judges=judges(server.url, tmp_path, **more), workers=0, batch=batch)


def scores(table):
    return np.concatenate([group.scores for group in table.groups])


def reasons(table):
    return {reason for group in table.groups for row in group.reasons for reason in row[1:]}


def test_the_answers_are_those_of_ordinary_calls_at_half_the_price(tmp_path):
    with Server(lambda asked: Answer(usual(asked.body)[1]["choices"][0]["message"]["content"])) as ordinary:
        here = grade(ROWS, RUBRIC, judges=judges(ordinary.url, tmp_path / "a"), workers=0)
    with BatchServer() as server:
        there = graded(server, tmp_path)
        np.testing.assert_array_equal(scores(there), scores(here))
        assert [g.reasons for g in there.groups] == [g.reasons for g in here.groups]
        assert len(server.paid) == len(server.batches) * N == N
        account = there.judging.account
        assert (account.calls, account.hits, account.requests) == (N, 0, N)
        assert account.cost == pytest.approx(N * (100 * 2.0 + 20 * 8.0) / 1e6 / 2)
        again = graded(server, tmp_path)
        assert (again.judging.account.calls, again.judging.account.hits, again.judging.account.cost) == (0, N, 0.0)
        assert len(server.paid) == N
    with ReplyCache(tmp_path / "replies.sqlite") as store:
        assert Account.read(store).cost == pytest.approx(account.cost)


@pytest.mark.slow
def test_either_way_uses_what_the_other_has_paid_for(tmp_path):
    with BatchServer() as server:
        graded(server, tmp_path, rows=ROWS[:3])
        assert len(server.paid) == 3
        graded(server, tmp_path)
        assert len(server.paid) == N
        table = grade(ROWS, RUBRIC, judges=judges(server.url, tmp_path), workers=0)  # ordinary calls: none is needed
        assert (table.judging.account.calls, table.judging.account.hits) == (0, N)
        assert not any("chat" in path for _, path in server.asked)


def test_submit_comes_back_later(tmp_path):
    with BatchServer() as server:
        server.states = ["in_progress", "in_progress", "completed"]
        for _ in range(3):  # sent; looked at twice
            with pytest.raises(BatchesPending, match=f"{N} requests are in 1 batch"):
                graded(server, tmp_path, batch="submit")
        table = graded(server, tmp_path, batch="submit")
        assert not np.isnan(scores(table)).any()
        assert len(server.paid) == N
        assert len(server.batches) == 1


@pytest.mark.slow
def test_large_ones_are_split(tmp_path):
    with BatchServer() as server:
        graded(server, tmp_path, limits={"requests": 4})
        assert sorted(len(server.files[b["input_file_id"]].splitlines()) for b in server.batches.values()) == [1, 4, 4]
    with BatchServer() as server:
        graded(server, tmp_path / "b", limits={"megabytes": 0.03})
        assert len(server.batches) > 1
        assert all(len(server.files[b["input_file_id"]]) <= 30_000 for b in server.batches.values())
    with BatchServer() as server, pytest.raises(InvalidInput, match="MB"):
        graded(server, tmp_path / "c", limits={"megabytes": 0.0001})


@pytest.mark.slow
def test_order_repetition_and_strangers_do_not_matter(tmp_path):
    with BatchServer() as server:
        server.backwards = server.twice = True
        work = server._work

        def and_strangers(batch):
            work(batch)
            name = f"out-{batch['id']}"
            stranger = {"custom_id": "00ff", "response": {"status_code": 200, "body": completion("no")[1]}}
            odd = {"custom_id": "not hexadecimal", "response": None}
            server.files[name] += (json.dumps(stranger) + "\n" + json.dumps(odd) + "\nnot JSON\n[]\n").encode()

        server._work = and_strangers
        table = graded(server, tmp_path)
        assert not np.isnan(scores(table)).any()
        assert table.judging.account.calls == N


@pytest.mark.parametrize("fault", ["cut", "silent cut", 500, 429, "drop"])
@pytest.mark.parametrize(
    ("method", "path"), [("POST", "/files"), ("POST", "/batches"), ("GET", "/batches/"), ("GET", "/content")]
)
@pytest.mark.slow
def test_a_fault_anywhere_is_survived_and_nothing_is_paid_twice(tmp_path, method, path, fault):
    with BatchServer() as server:
        server.faults = [(method, path, fault)] * 2
        table = graded(server, tmp_path)
        assert not np.isnan(scores(table)).any()
        assert len(server.paid) == N
        assert len(server.batches) == 1
        assert len(server.faults) < 2  # a batch that was made is found again, without asking once more


@pytest.mark.slow
def test_what_expires_is_sent_again_and_in_the_end_missing(tmp_path):
    with BatchServer() as server:
        server.states = ["in_progress", "expired"]
        server.answer = lambda body: usual(body) if "West" in body["messages"][-1]["content"] else None
        table = graded(server, tmp_path)
        assert len(server.batches) == 3  # as many as there are attempts
        assert np.isnan(scores(table)[:, 1]).sum() == N - 3
        assert any("expired" in reason for reason in reasons(table))
        assert len(server.paid) == 3
        server.answer = usual
        assert not np.isnan(scores(graded(server, tmp_path))).any()
        assert len(server.paid) == N


@pytest.mark.slow
def test_what_fails_for_good_is_missing_with_the_reason_and_not_sent_again(tmp_path):
    def answer(body):
        text = body["messages"][-1]["content"]
        return (400, {"error": {"message": "too long for this model"}}) if "Tai" in text else usual(body)

    with BatchServer(answer) as server:
        table = graded(server, tmp_path)
        assert len(server.batches) == 1
        assert np.isnan(scores(table)[:, 1]).sum() == 3
        assert any("too long for this model" in reason for reason in reasons(table))
        assert table.judging.account.failures == {"HTTP 400": 3}
        with pytest.raises(JudgingFailed):
            graded(server, tmp_path, most_missing=0.1)


@pytest.mark.slow
def test_overload_in_a_line_takes_another_round(tmp_path):
    seen = Counter()

    def answer(body):
        text = body["messages"][-1]["content"]
        seen[text] += 1
        return (429, {"error": {"message": "slow down"}}) if seen[text] == 1 and "Tai" in text else usual(body)

    with BatchServer(answer) as server:
        table = graded(server, tmp_path)
        assert not np.isnan(scores(table)).any()
        assert len(server.batches) == 2
        assert (table.judging.account.calls, table.judging.account.requests) == (N, N + 3)


@pytest.mark.slow
def test_a_parameter_that_the_server_does_not_take_is_left_out(tmp_path):
    def answer(body):
        if body.get("response_format", {}).get("type") == "json_schema":
            return 400, {"error": {"message": "response_format json_schema is not supported", "param": None}}
        return usual(body)

    with BatchServer(answer) as server:
        assert not np.isnan(scores(graded(server, tmp_path))).any()
        assert len(server.batches) == 2


@pytest.mark.slow
def test_a_batch_that_is_refused_stops_the_run(tmp_path):
    with BatchServer() as server:
        server.states, server.error = ["failed"], {"code": "model_not_found", "message": "m has no batches"}
        with pytest.raises(InvalidInput, match="m has no batches"):
            graded(server, tmp_path)
        assert len(server.batches) == 1
        server.error = {"code": "token_limit_exceeded", "message": "too much waits already"}
        with pytest.raises(JudgingFailed, match="batch failed"):  # turned away as often as there are attempts
            graded(server, tmp_path)
        assert len(server.batches) == 4
        server.states = ["completed"]
        assert not np.isnan(scores(graded(server, tmp_path))).any()


@pytest.mark.slow
def test_what_is_cancelled_is_not_sent_again(tmp_path):
    with BatchServer() as server:
        server.states = ["cancelling", "cancelled"]
        server.answer = lambda body: usual(body) if "West" in body["messages"][-1]["content"] else None
        table = graded(server, tmp_path)
        assert len(server.batches) == 1
        assert any("cancelled" in reason for reason in reasons(table))


@pytest.mark.slow
def test_a_server_without_batches_or_that_is_gone_is_named(tmp_path):
    with BatchServer() as server:
        server.faults = [("POST", "/files", 404)]
        with pytest.raises(InvalidInput, match="told to say 404"):
            graded(server, tmp_path)
        gone = server.url
    with pytest.raises(JudgeOutage):
        grade(ROWS, RUBRIC, judges=judges(gone, tmp_path / "b", outage_wait=0.0), workers=0, batch="wait")
    with BatchServer() as server:
        server.faults = [("GET", "/batches/", 503)] * 1000
        with pytest.raises(JudgeOutage, match="503"):
            graded(server, tmp_path / "c", outage_wait=0.0)


@pytest.mark.slow
@pytest.mark.parametrize("path", ["/files", "/batches"])
def test_a_limit_on_submission_is_waited_for(tmp_path, path):
    with BatchServer() as server:
        server.faults = [("POST", path, 429)] * 8  # more than a request has attempts
        table = graded(server, tmp_path, outage_wait=60.0)
        assert not np.isnan(scores(table)).any()
        assert len(server.batches) == 1
        assert not server.faults


@pytest.mark.slow
def test_a_batch_whose_id_never_came_is_found_however_long_it_takes(tmp_path):
    with BatchServer() as server:
        server.faults = [("POST", "/batches", "drop"), *[("GET", "/batches?", 503)] * 8]
        assert not np.isnan(scores(graded(server, tmp_path, outage_wait=60.0))).any()
        assert len(server.batches) == 1
        assert len(server.paid) == N


@pytest.mark.slow
@pytest.mark.parametrize("kept", ["batch", "output"])
def test_what_the_server_has_no_more_is_sent_again(tmp_path, kept):
    with BatchServer() as server:
        with pytest.raises(BatchesPending):
            graded(server, tmp_path, batch="submit")
        if kept == "batch":
            server.faults = [("GET", "/batches/batch-0", 404)]
        else:
            server.states = ["completed"]
            server.faults = [("GET", "/content", 404)]
        table = graded(server, tmp_path)
        assert not np.isnan(scores(table)).any()
        assert len(server.batches) == 2


@pytest.mark.slow
def test_a_server_that_lists_no_batches_is_named(tmp_path):
    with BatchServer() as server:
        server.faults = [("POST", "/batches", "drop"), ("GET", "/batches?", 404)]
        with pytest.raises(InvalidInput, match="told to say 404"):
            graded(server, tmp_path)


@pytest.mark.parametrize("said", ["COMPLETED", "Cancelled", "canceled", "EXPIRED", "failed"])
def test_the_end_of_a_batch_is_known_by_any_spelling(said):
    assert BatchState.parse({"status": said}).is_over


@pytest.mark.slow
def test_requests_that_wait_at_another_endpoint_are_refused_until_they_are_answered(tmp_path):
    with BatchServer() as server, BatchServer() as other:
        with pytest.raises(BatchesPending):
            graded(server, tmp_path, batch="submit")
        with pytest.raises(InvalidInput, match="pending"):
            graded(other, tmp_path)
        assert not other.asked
        assert not np.isnan(scores(graded(server, tmp_path))).any()
        assert not np.isnan(scores(graded(other, tmp_path))).any()
        assert other.asked  # another server may serve another model under the same name


@pytest.mark.slow
def test_comparisons_and_panels_go_in_rounds_too(tmp_path):
    def answer(body):
        text = body["messages"][-1]["content"]
        return completion(json.dumps({"reasoning": "so", "finding": [], "verdict": "tie" if "pair" in text else "A"}))

    setting = judges("", tmp_path, kind="pairwise")
    with BatchServer(answer) as server:
        setting["judges"][0]["endpoints"][0]["base_url"] = server.url
        table = grade(ROWS, ["GeneralQuality"], judges=setting, workers=0, batch="wait")
        assert table.judging.asked > 0
        assert len(server.batches) == 1
        setting = judges(server.url, tmp_path / "p")
        setting["judges"][0]["samples"] = 3
        server.answer, before = usual, len(server.paid)
        grade(ROWS, RUBRIC, judges=setting, workers=0, batch="wait")
        assert len(server.paid) - before == 3 * N


def test_members_of_a_panel_with_the_same_model_name_are_both_asked(tmp_path):
    def answer_with(verdict):
        return lambda body: completion(json.dumps({"reasoning": "so", "finding": [], "verdict": verdict}))

    with BatchServer(answer_with(1)) as one, BatchServer(answer_with(0)) as two:
        members = [{**judges(server.url, tmp_path)["judges"][0], "name": server.url} for server in (one, two)]
        panel = {"name": "panel", "kind": "absolute", "combine": "mean", "members": members}
        setting = {**judges(one.url, tmp_path), "judges": [panel]}
        table = grade(ROWS, RUBRIC, judges=setting, workers=0, batch="wait")
        np.testing.assert_array_equal(scores(table)[:, 1], 0.5)  # 1 of one, 0 of the other
        assert len(one.paid) == len(two.paid) == N


def test_what_batches_cannot_do_is_refused_before_anything_is_sent(tmp_path):
    with BatchServer() as server:
        for changed in ({"deadline": 5}, {"cache": None}, {"cache_only": True}):
            with pytest.raises(InvalidInput, match="batch"):
                graded(server, tmp_path, **changed)
        with pytest.raises(InvalidInput, match="judges"):
            grade(ROWS, ["EmptyAnswer"], batch="wait")
        with pytest.raises(InvalidInput, match="batch"):
            graded(server, tmp_path, batch="later")
        assert not server.asked


def test_the_estimate_has_the_price_and_number_of_batches(tmp_path):
    plain = estimate(ROWS, RUBRIC, judges("http://127.0.0.1:1/v1", tmp_path)).judges[0]
    found = estimate(
        ROWS, RUBRIC, judges("http://127.0.0.1:1/v1", tmp_path, limits={"requests": 2}), batch=True
    ).judges[0]
    assert found.cost == pytest.approx(plain.cost / 2)
    assert (found.batches, plain.batches) == (5, 0)
    other = estimate(ROWS, RUBRIC, judges("http://127.0.0.1:1/v1", tmp_path, limits={"price": 0.25}), batch=True)
    assert other.cost == pytest.approx(plain.cost / 4)


def command(tmp_path, url):
    (tmp_path / "rollouts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in ROWS), encoding="utf-8")
    (tmp_path / "rubric.json").write_text(json.dumps({"criteria": RUBRIC}), encoding="utf-8")
    (tmp_path / "judges.json").write_text(json.dumps(judges(url, tmp_path)), encoding="utf-8")
    files = [str(tmp_path / name) for name in ("rollouts.jsonl", "rubric.json", "judges.json", "scores.jsonl")]
    return ["grade", files[0], "-r", files[1], "--judges", files[2], "-o", files[3], "--cache", "none"]


@pytest.mark.slow
def test_the_verb_submits_and_comes_back(tmp_path):
    with BatchServer() as server:
        args = command(tmp_path, server.url)
        shown = CliRunner().invoke(app, [*args, "--batch", "wait", "--dry-run"])
        assert shown.exit_code == 0, shown.output
        assert "batches" in shown.output
        assert not server.asked
        server.states = ["in_progress", "completed"]
        for code in (75, 75, 0):
            found = CliRunner().invoke(app, [*args, "--batch", "submit"])
            assert found.exit_code == code, found.output
            assert (tmp_path / "scores.jsonl").exists() == (code == 0)
        refused = CliRunner().invoke(app, [*args, "--batch", "wait", "--engine", "ray", "--force"])
        assert refused.exit_code != 0
        assert "batch" in refused.output


@pytest.mark.slow
@pytest.mark.parametrize("when", spread(["POST /v1/batches 200", "GET /v1/batches/batch-0 200", "paid"], every=2))
def test_kill_minus_nine_and_again(tmp_path, when):
    """Killed when the server has made the batch, while it works, and when replies come in."""
    here = Path(__file__).parent
    script = [sys.executable, str(here / "batch_server.py"), str(tmp_path), "3"]
    with subprocess.Popen(script, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        url = server.stdout.readline().strip()
        run = [sys.executable, "-m", "rubrank", *command(tmp_path, url), "--batch", "wait"]
        log = tmp_path / "log"
        with subprocess.Popen(run, stderr=subprocess.DEVNULL) as first:
            while when not in (log.read_text(encoding="utf-8") if log.exists() else ""):
                assert first.poll() is None, "it ended before it was killed"
                time.sleep(0.002)
            os.kill(first.pid, signal.SIGKILL)
        done = subprocess.run([*run, "--force"], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr
        server.stdin.close()
        server.wait(10)
    lines = log.read_text(encoding="utf-8").splitlines()
    assert sum(line.startswith("paid") for line in lines) == N
    assert sum(line.startswith("POST /v1/batches") for line in lines) == 1
    assert len((tmp_path / "scores.jsonl").read_text(encoding="utf-8").splitlines()) >= N
