"""Ray gives the bits of the local path: by rules, by judges, again from the store; and refuses what it cannot do."""

from __future__ import annotations

import json
import pickle
import re
import time

import numpy as np
import polars as pl
import pytest
from judges.server import MODEL, Answer, Server
from typer.testing import CliRunner
from whole_tables import fuse_file

import rubrank
import rubrank.fusion
import rubrank.grading
from rubrank import InvalidInput, JudgingFailed, verifier
from rubrank.cli.app import app
from rubrank.grading.grade import grade
from rubrank.grading.plan import GradeOptions
from rubrank.grading.ray_grader import ActorSetting, distribute_parts, divide_groups, grade_on_ray, queue_parts
from rubrank.judges.judge import load_judges
from rubrank.rollouts.groups import read_groups

pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")  # Ray warns about itself

SAID = ["West Lake, in the west of the town.", "A lake.", "Lake Tai is near, but it is not there.", ""]
ROWS = [
    {"prompt": f"Name lake {g}.", "group": f"q{g}", "response": f"{text} {g}" if text else ""}
    for g in range(12)
    for text in SAID[: 2 + g % 3]
]
RULES = ["EmptyAnswer", {"name": "WordCount", "params": {"relation": "at least", "count": 3}}, "GroupDiversity"]
JUDGED = ["EmptyAnswer", {"name": "WordCount", "params": {"relation": "at least", "count": 3}}, "CoreIntentMatch"]


@pytest.fixture(scope="module")
def cluster():
    ray = pytest.importorskip("ray", reason="ray is not installed")
    pytest.importorskip("ray.data", reason="Ray Data is not installed")
    if not ray.is_initialized():
        ray.init("local", num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=128 << 20)
    yield ray
    ray.shutdown()


def same(one, other):
    assert [g.id for g in one.groups] == [g.id for g in other.groups]
    for a, b in zip(one.groups, other.groups, strict=True):
        assert a.criteria == b.criteria
        np.testing.assert_array_equal(a.scores, b.scores)
        assert a.reasons == b.reasons
        assert set(a.outcomes) == set(b.outcomes)
        assert all(np.array_equal(a.outcomes[k], b.outcomes[k], equal_nan=True) for k in a.outcomes)


def verdict(asked):
    return Answer(json.dumps({"reasoning": "so", "verdict": int("near" in asked.prompt)}))


def judges(server, **more):
    endpoint = {"base_url": server.url, "model": MODEL, "concurrency": 3}
    return {"judges": [{"kind": "absolute", "endpoints": [endpoint], "retry": {"attempts": 1}}], **more}


def test_parts_hold_whole_groups_in_order():
    groups = read_groups(ROWS)
    for actors in (1, 2, 5, 100):
        parts = divide_groups(groups, range(len(groups)), actors, 7)
        assert [g for part in parts for g in part] == list(range(len(groups)))
        assert all(parts)


class Machines:
    """As much of Ray as handing out takes: actors at addresses, each result at once."""

    def __init__(self, *addresses):
        self.addresses, self.graded = addresses, []

    def pool(self):
        return [_Actor(self, address) for address in self.addresses]

    def wait(self, references, num_returns):
        return references[:num_returns], references[num_returns:]

    def get(self, reference):
        return reference[0]


class _Actor:
    def __init__(self, machines, address):
        self.find_machine = _Method(lambda: address)
        self.grade_part = _Method(lambda packed: machines.graded.append((address, packed)) or packed)


class _Method:
    def __init__(self, call):
        self._call = call

    def remote(self, *given):
        return (self._call(*given), object())


def judged_setting(**more):
    judges = load_judges({"endpoints": [{"base_url": "http://h/v1", "model": "m"}]}).model_copy(update=more)
    return ActorSetting(None, GradeOptions(judges=judges))


@pytest.mark.parametrize("actors", [("a", "b", "c"), ("c", "a"), ("b",)], ids=str)
def test_groups_with_paid_replies_go_to_the_machine_that_has_them(actors):
    groups = read_groups([{**row, "group": f"{row['group']}-{n}"} for n in range(40) for row in ROWS])
    places = {}
    for number in (1, 2, 7):  # of actors: parts differ, machines do not
        ray = Machines(*actors)
        queues = queue_parts(groups, number, judged_setting(cache="r.sqlite"), ["a", "b", "c"])
        parts = [part for queue in queues.values() for part in queue]
        assert sorted(g for part in parts for g in part) == list(range(len(groups)))
        done = list(distribute_parts(ray, ray.pool(), queues, groups))
        assert sorted(part for part, _ in done) == sorted(parts)
        for part, packed in done:
            assert pickle.loads(packed) == [groups[g] for g in part]
        for place, packed in ray.graded:
            for group in pickle.loads(packed):
                if set(actors) == {"a", "b", "c"}:
                    assert places.setdefault(group.id, place) == place
    assert len(actors) < 3 or set(places.values()) == {"a", "b", "c"}


def test_without_a_store_there_is_one_queue():
    groups = read_groups(ROWS)
    for setting, known in (
        (judged_setting(), ["a", "b"]),
        (ActorSetting(None), ["a", "b"]),
        (judged_setting(cache="r"), ["a"]),
    ):
        (queue,) = queue_parts(groups, 2, setting, known).values()
        assert [g for part in queue for g in part] == list(range(len(groups)))


@pytest.mark.slow
def test_rules_give_the_same_bits_and_the_same_file(cluster, tmp_path):
    there, here = grade_on_ray(ROWS, RULES), grade(ROWS, RULES, workers=0)
    same(there, here)
    there.write(tmp_path / "there.parquet")
    here.write(tmp_path / "here.parquet")
    assert (tmp_path / "there.parquet").read_bytes() == (tmp_path / "here.parquet").read_bytes()


@pytest.mark.slow
def test_judges_give_the_same_bits_and_nothing_is_asked_again(cluster, tmp_path):
    with Server(verdict) as server:
        here = grade(ROWS, JUDGED, judges=judges(server), workers=0)
        needed = len(server.completions)
        setting = judges(server, cache=str(tmp_path / "replies.sqlite"))
        there = grade_on_ray(ROWS, JUDGED, judges=setting, cache=tmp_path / "verdicts.sqlite")
        same(there, here)
        assert len(server.completions) == 2 * needed
        assert there.judging.asked == here.judging.asked
        assert there.judging.account.calls == needed
        same(grade_on_ray(ROWS, JUDGED, judges=setting, cache=tmp_path / "verdicts.sqlite"), here)
        assert len(server.completions) == 2 * needed


@pytest.mark.slow
def test_a_judge_that_fails_everywhere_fails_the_run(cluster):
    with Server(lambda asked: Answer("no JSON at all")) as server, pytest.raises(JudgingFailed):
        grade_on_ray(ROWS, JUDGED, judges=judges(server))


@pytest.mark.slow
def test_errors_come_back_as_they_are(cluster):
    with pytest.raises(InvalidInput, match="rubric"):
        grade_on_ray(ROWS)


def test_what_cannot_be_the_same_is_refused():
    pytest.importorskip("ray", reason="ray is not installed")

    @verifier("OnlyHere")
    def only_here(text: str) -> bool:
        return True

    with pytest.raises(InvalidInput, match="OnlyHere"):
        grade_on_ray(ROWS, ["OnlyHere"])
    endpoint = {"base_url": "http://127.0.0.1:1/v1", "model": MODEL}
    with pytest.raises(InvalidInput, match="deadline"):
        grade_on_ray(ROWS, JUDGED, judges={"judges": [{"endpoints": [endpoint]}], "deadline": 5})
    with pytest.raises(InvalidInput, match="workers"):
        grade_on_ray(ROWS, RULES, workers=0)


def test_what_goes_to_an_actor_can_be_packed():
    assert pickle.loads(pickle.dumps(read_groups(ROWS))) == read_groups(ROWS)


def written(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return str(path)


def cli(*args):
    return CliRunner().invoke(app, [*map(str, args)])


@pytest.mark.slow
def test_the_verbs_write_the_same_files_with_either_engine(cluster, tmp_path):
    rollouts, rubric = written(tmp_path / "rollouts.jsonl", ROWS), tmp_path / "rubric.json"
    rubric.write_text(json.dumps({"criteria": RULES}), encoding="utf-8")
    for engine in ("local", "ray"):
        scores = tmp_path / f"{engine}.jsonl"
        graded = cli("grade", rollouts, "-r", rubric, "-o", scores, "--engine", engine, "--cache", "none")
        assert graded.exit_code == 0, graded.output
        fused = cli("fuse", scores, "-o", tmp_path / f"{engine}_fused.jsonl", "--utilities", "--engine", engine)
        assert fused.exit_code == 0, fused.output
    assert (tmp_path / "ray.jsonl").read_bytes() == (tmp_path / "local.jsonl").read_bytes()
    assert (tmp_path / "ray_fused.jsonl").read_bytes() == (tmp_path / "local_fused.jsonl").read_bytes()


@pytest.mark.slow
@pytest.mark.parametrize("suffix", ["csv", "parquet", "jsonl"])
def test_parts_of_a_table_are_fused_to_the_same_bits(cluster, tmp_path, suffix, monkeypatch):
    monkeypatch.setattr("rubrank.fusion.cluster.ROWS_PER_TASK", 100)
    rng = np.random.default_rng(7)
    frame = pl.DataFrame(
        {"uid": np.repeat(np.arange(500), 6), "Facts": rng.integers(0, 2, 3000), "Style": rng.normal(size=3000)}
    )
    source = tmp_path / f"scores.{suffix}"
    {"csv": frame.write_csv, "parquet": frame.write_parquet, "jsonl": frame.write_ndjson}[suffix](source)
    summaries = [fuse_file(source, tmp_path / f"{e}.{suffix}", engine=e) for e in ("local", "ray")]
    assert summaries[0].reward_sum == pytest.approx(summaries[1].reward_sum)
    assert summaries[0].groups == summaries[1].groups == 500
    assert (tmp_path / f"ray.{suffix}").read_bytes() == (tmp_path / f"local.{suffix}").read_bytes()


def test_a_rule_that_remembers_is_refused_on_ray(tmp_path):
    pytest.importorskip("ray", reason="ray is not installed")
    source = written(tmp_path / "s.jsonl", [{"uid": i // 4, "Facts": i % 3, "tokens": 10 + i} for i in range(16)])
    output = tmp_path / "out.jsonl"
    flags = ["--criteria", "Facts", "--attributes", "tokens", "--set", "pool=run", "--engine", "ray"]
    found = cli("fuse", source, "-o", output, *flags)
    assert found.exit_code != 0
    assert "Use --engine local" in found.output
    assert not output.exists()


@pytest.mark.parametrize(("verb", "flags"), [("grade", ["--address", "local"]), ("fuse", ["--set", "address=local"])])
def test_an_address_without_ray_is_refused(tmp_path, verb, flags):
    found = cli(verb, written(tmp_path / "r.jsonl", ROWS), *flags)
    assert found.exit_code != 0
    assert "--engine ray" in found.output


@pytest.mark.slow
@pytest.mark.parametrize("rubric", [RULES, RULES[:2]], ids=["groups", "rows"])
def test_a_dataset_gets_the_scores_of_the_local_path(cluster, rubric):
    rows = [{"uid": row["group"], "number": i, **row} for i, row in enumerate(ROWS)]
    rows = [{name: x for name, x in row.items() if name != "group"} for row in rows]
    scored = {row["number"]: row for row in rubrank.grading.on_ray(cluster.data.from_items(rows), rubric).take_all()}
    here = grade(ROWS, rubric, workers=0)
    at = 0
    for group in here.groups:
        for i in range(len(group.scores)):
            for name in group.names:
                assert np.array_equal(scored[at][name], group.score(i, name), equal_nan=True)
                assert scored[at][f"{name} (reason)"] == group.reason(i, name)
            assert scored[at]["uid"] == group.id
            at += 1
    assert len(scored) == at


@pytest.mark.slow
def test_a_dataset_that_does_not_fit_is_refused(cluster):
    rows = [{"uid": "q", "prompt": "p", "response": "r", "rubric": "x"}]
    with pytest.raises(InvalidInput, match="rubric"):
        rubrank.grading.on_ray(cluster.data.from_items(rows), RULES)
    with pytest.raises(InvalidInput, match="EmptyAnswer"):
        rubrank.grading.on_ray(cluster.data.from_items([{"uid": "q", "response": "r", "EmptyAnswer": 1}]), RULES)
    with pytest.raises(InvalidInput, match="group"):
        rubrank.grading.on_ray(cluster.data.from_items([{"response": "r"}]), RULES)


@pytest.mark.slow
def test_a_dataset_gets_the_rewards_of_the_local_path(cluster):
    rows = [
        {"uid": row["group"], "number": i, "prompt": row["prompt"], "response": row["response"]}
        for i, row in enumerate(ROWS)
    ]
    scored = rubrank.grading.on_ray(cluster.data.from_items(rows), RULES)
    there = sorted(rubrank.fusion.on_ray(scored, RULES).take_all(), key=lambda row: row["number"])
    here = grade(ROWS, RULES, workers=0).fuse()
    assert [row["reward"] for row in there] == here.reward.tolist()
    assert [row["ranking"] for row in there] == here.ranking.tolist()
    with pytest.raises(InvalidInput, match="adjust"):
        rubrank.fusion.on_ray(cluster.data.from_items(rows), RULES, adjust="remove")
    with pytest.raises(InvalidInput, match="EmptyAnswer"):
        rubrank.fusion.on_ray(cluster.data.from_items(rows), RULES)


@pytest.mark.slow
def test_a_dataset_is_judged_in_whole_groups_where_responses_are_compared(cluster):
    def longest(asked):
        texts = re.findall(r"<(response\w*) (\w+)>\n(.*?)\n</\1 \2>", asked.prompt, re.S)
        order = sorted(range(len(texts)), key=lambda i: (-len(texts[i][2]), texts[i][2]))
        ranks = {str(i + 1): order.index(i) + 1 for i in range(len(texts))}
        return Answer(json.dumps({"reasoning": "by length", "finding": [order[0] + 1], "verdict": ranks}))

    rows = [
        {"uid": row["group"], "step": i % 2, "prompt": row["prompt"], "response": row["response"]}
        for i, row in enumerate(ROWS)
    ]
    with Server(longest) as server:
        setting = judges(server)
        setting["judges"][0]["kind"] = "listwise"
        found = rubrank.grading.on_ray(cluster.data.from_items(rows), ["GeneralQuality"], judges=setting).take_all()
    groups = {}
    for row in found:
        groups.setdefault(row["uid"], []).append(row)
    assert len(groups) == 12
    for some in groups.values():
        best = max(range(len(some)), key=lambda i: len(some[i]["response"]))
        won = [x for x in json.loads(some[best]["outcomes"])["GeneralQuality"] if x is not None]
        assert sum(won) >= len(some) - 1


@pytest.mark.slow
def test_actors_together_keep_to_the_limit_of_an_endpoint(cluster):
    delay, seen = 0.2, []

    def slow(asked):
        seen.append(time.monotonic())
        return Answer(json.dumps({"reasoning": "so", "verdict": 1}), delay=delay)

    with Server(slow) as server:
        grade_on_ray(ROWS, JUDGED, judges=judges(server), workers=2)
    assert len(seen) > 20
    # a call holds its place at least until it is answered
    assert max(sum(start <= at < start + delay for start in seen) for at in seen) <= 3
