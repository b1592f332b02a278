"""The verbs replay, robustness and bench fusion, as a user types them."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from rubrank.cli.app import app
from rubrank.cli.terminal import draw_histogram, format_number
from rubrank.cli.verbs.replay import split_rules
from rubrank.fusion.rules import rule_names
from rubrank.grading.grade import grade
from rubrank.records.files import write_records
from rubrank.records.record import records_of
from rubrank.rollouts.groups import read_groups
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.studies.overhead import synthetic_step
from rubrank.studies.replay import replay
from rubrank.verifiers.verifier import UNIT


def run(*arguments, width=80):
    return CliRunner().invoke(app, [str(argument) for argument in arguments], env={"COLUMNS": str(width)})


def as_json(*arguments):
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture
def scores(tmp_path):
    path = tmp_path / "scores.parquet"
    synthetic_step(groups=12).write(path)
    return path


@pytest.fixture
def rollouts(tmp_path):
    """Longer answers are better, and one has a heading."""
    said = [["a b c d", "a b c", "a b", "a"], ["# a\n\nb c d e", "a b c d", "a b c", ""]]
    rows = [{"id": f"q{g}", "prompt": "Say.", "responses": answers} for g, answers in enumerate(said)]
    (tmp_path / "rollouts.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    criteria = [{"name": f"Words{low}", "verifier": "WordCount", "params": {"low": low}} for low in (1, 2, 3, 4)]
    (tmp_path / "rubric.json").write_text(json.dumps({"criteria": criteria}))
    table = grade(tmp_path / "rollouts.jsonl", tmp_path / "rubric.json", workers=0)
    table.write(tmp_path / "graded.jsonl")
    return tmp_path


# -------------------------------------------------------------------------------------------------------------- replay


def test_replay_says_the_same_as_the_library(scores):
    found = as_json("replay", scores, "--rules", "rlvr2+,gdpo", "--step", 5, "--winners")
    expected = replay(synthetic_step(groups=12), ["rlvr2+", "gdpo"], step=5)
    ours = expected.as_dict()
    for name in ("kendall", "signs", "same_winner", "nominal", "groups", "step"):
        assert found[name] == ours[name]
    for a, b in zip(found["rules"], ours["rules"], strict=True):
        assert {**a, "seconds_per_step": 0} == {**b, "seconds_per_step": 0}
        assert a["seconds_per_step"] > 0.0
    winners = [found["winners"][f"query {g}"]["gdpo"] for g in range(12)]
    assert [-1 if w is None else w for w in winners] == expected["gdpo"].winner.tolist()


def test_replay_shows_tables(scores):
    done = run("replay", scores)
    assert done.exit_code == 0, done.stderr
    for part in ("12 groups, 96 rollouts", "rlvr2+", "rule-fusion", "Kendall", "same winner", "nominal", "Influence"):
        assert part in done.stdout
    assert "follows" not in done.stdout  # nothing is known about lengths
    assert "Winners:" not in done.stdout
    assert "Winners:" in run("replay", scores, "--winners").stdout


@pytest.mark.parametrize("width", [60, 80, 200])
def test_nothing_is_cut_off(scores, width):
    done = run("replay", scores, "--rules", "all", "--winners", width=width)
    assert done.exit_code == 0, done.stderr
    assert max(map(len, done.stdout.splitlines())) <= width
    assert "…" not in done.stdout
    names = done.stdout.split("Agreement")[0]
    number = next(line.split()[0] for line in names.splitlines() if line.split()[1:2] == ["rlvr2"])
    lines = [line for line in done.stdout.splitlines() if line.startswith(f"{number} rlvr2")]
    assert len(lines) >= 3  # in every matrix


def test_numbers_for_names_count_rules_only(scores):
    """With columns called by number, 1 is the first rule, and not the nominal weights."""
    shown = run("replay", scores, "--rules", "all").stdout.split("Effective weights")[1].splitlines()
    assert shown[1].split()[:3] == ["nominal", "1", "2"]
    columns = next(line for line in shown if line.startswith("Check 3")).split()[2:]
    found = replay(synthetic_step(groups=12), ["weighted-mean"])
    assert [float(x) for x in columns[:2]] == pytest.approx(
        [found.nominal[2], found["weighted-mean"].effective[2]], abs=0.006
    )


def test_lengths_are_measured_from_rollouts(rollouts):
    found = as_json(
        "replay", rollouts / "graded.jsonl", "--rules", "weighted-mean", "--rollouts", rollouts / "rollouts.jsonl"
    )["rules"][0]
    assert found["follows"]["answer_length"] == pytest.approx(1.0, abs=0.06)
    assert found["follows"]["heading"] > 0.5
    assert set(found["follows"]) == {"answer_length", "heading"}  # what nobody uses is left out
    assert (
        "Correlation of rewards with attributes"
        in run("replay", rollouts / "graded.jsonl", "--rollouts", rollouts / "rollouts.jsonl").stdout
    )


def test_records_bring_their_texts_or_attributes(rollouts):
    groups = read_groups(rollouts / "rollouts.jsonl")
    table = grade(groups, rollouts / "rubric.json", workers=0)
    write_records(rollouts / "texts.jsonl", records_of(table.fuse(), table, groups=groups))
    found = as_json("replay", rollouts / "texts.jsonl", "--rules", "weighted-mean")["rules"][0]
    assert set(found["follows"]) == {"answer_length", "heading"}

    fused = table.fuse(attributes=np.arange(8.0)[:, None] + 1.0, attribute_names=["place"])
    write_records(rollouts / "attributes.jsonl", records_of(fused, table, groups=groups))
    found = as_json("replay", rollouts / "attributes.jsonl", "--rules", "weighted-mean")["rules"][0]
    assert found["follows"]["place"] == pytest.approx(-1.0, abs=0.06)

    write_records(rollouts / "bare.jsonl", records_of(table.fuse(), table))
    assert as_json("replay", rollouts / "bare.jsonl", "--rules", "weighted-mean")["rules"][0]["follows"] == {}


def test_transforms(scores):
    plain = as_json("replay", scores, "--rules", "rlvr2,weighted-mean")
    mapped = as_json(
        "replay",
        scores,
        "--rules",
        "rlvr2,weighted-mean",
        "--transform",
        "Metric 1*10",
        "--transform",
        "Check 1=0:0,1:7",
    )
    assert mapped["rules"][0]["quantiles"] == plain["rules"][0]["quantiles"]
    assert mapped["rules"][1]["quantiles"] != plain["rules"][1]["quantiles"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--rules", "gdop"), "Did you mean 'gdpo'"),
        (("--transform", "Check 1*-1"), "strictly increasing"),
        (("--transform", "Chek 1*2"), "Did you mean 'Check 1'"),
        (("--step", "0"), "at least 1"),
        (("--rules", ","), "at least one"),
        (("--rollouts", "none.jsonl"), "none.jsonl"),
    ],
)
def test_mistakes_are_one_line(scores, arguments, message):
    done = run("replay", scores, *arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert len([line for line in done.stderr.splitlines() if not line.startswith("read ")]) == 1


def test_files_that_do_not_belong(rollouts, scores):
    assert run("replay", rollouts / "nothing.jsonl").exit_code == 2
    done = run("replay", rollouts / "rollouts.jsonl")
    assert done.exit_code == 2
    assert "at least one column of numbers" in done.stderr
    done = run("replay", scores, "--rollouts", rollouts / "rollouts.jsonl")
    assert done.exit_code == 2
    assert "no such group" in done.stderr


def test_rules_are_cut_at_commas_outside_of_constants():
    assert split_rules("rlvr2+, gdpo") == ["rlvr2+", "gdpo"]
    assert split_rules("rule-fusion:hard=('Check 1','Check 2'),gdpo") == [
        "rule-fusion:hard=('Check 1','Check 2')",
        "gdpo",
    ]
    assert split_rules("all") == list(rule_names())


# ---------------------------------------------------------------------------------------------------------- robustness


def test_robustness_is_the_paper_s_table(scores):
    found = as_json("robustness", scores)
    assert len(found["rows"]) == 12 * 3 * 3
    ordinal = [row for row in found["rows"] if row["rule"] == "rlvr2"]
    assert {row["signs"] for row in ordinal} == {1.0}
    assert {round(row["spearman"], 12) for row in ordinal} == {1.0}
    assert min(row["signs"] for row in found["means"] if row["rule"] == "weighted-mean") < 0.95
    shown = run("robustness", scores).stdout
    assert "all 12" in shown
    assert "100.00    1.0000" in shown
    assert max(map(len, shown.splitlines())) <= 80


def test_robustness_of_some_criteria_and_maps(scores):
    found = as_json("robustness", scores, "--rules", "borda", "--map", "Check 1, Metric 2")
    assert {row["criterion"] for row in found["rows"]} == {"Check 1", "Metric 2"}
    found = as_json("robustness", scores, "--rules", "borda,gdpo", "--transform", "Metric 2^3")
    assert [(row["map"], row["rule"]) for row in found["rows"]] == [("Metric 2^3", "borda"), ("Metric 2^3", "gdpo")]
    assert "means" not in run("robustness", scores, "--transform", "Metric 2^3").stdout.lower()
    for wrong in (("--map", "Nothing"), ("--map", "Check 1", "--transform", "Check 1*2")):
        assert run("robustness", scores, *wrong).exit_code == 2


def test_the_same_rule_with_other_constants_has_another_name(scores):
    rows = as_json("robustness", scores, "--rules", "focal,focal:gamma=0", "--map", "Check 1")["rows"]
    assert {row["rule"] for row in rows} == {"focal", "focal:gamma=0"}
    found = as_json("replay", scores, "--rules", "focal,focal:gamma=0")
    assert [rule["rule"] for rule in found["rules"]] == ["focal", "focal:gamma=0"]
    assert found["kendall"][0][1] < 1.0


# --------------------------------------------------------------------------------------------------------------- bench


def test_bench_fusion(scores):
    found = as_json("bench", "fusion", scores, "--rules", "gdpo,rlvr2", "--rounds", "2")
    assert (found["groups"], found["rollouts"], found["criteria"]) == (12, 96, 13)
    cases = {row["case"]: row for row in found["rows"]}
    assert list(cases)[:3] == ["weighted-mean", "gdpo", "rlvr2"]
    assert sum("attribute" in case for case in cases) == 4
    assert cases["weighted-mean"]["ratio"] == 1.0
    for row in cases.values():
        assert row["ratio"] == pytest.approx(row["seconds"] / cases["weighted-mean"]["seconds"])
    shown = run("bench", "fusion", scores, "--rules", "gdpo", "--rounds", "1").stdout
    assert "12 groups of 8, 13 criteria" in shown
    assert "attribute" not in shown  # RLVR² was not asked for


def test_bench_fusion_by_itself():
    found = as_json("bench", "fusion", "--rounds", "1")
    assert (found["groups"], found["rollouts"]) == (128, 1024)
    assert {row["case"] for row in found["rows"]} > set(rule_names())


def test_bench_mistakes(scores, tmp_path):
    assert run("bench", "fusion", scores, "--rounds", "0").exit_code == 2
    assert run("bench", "fusion", scores, "--step", "0").exit_code == 2
    ScoreTable(()).write(tmp_path / "empty.jsonl")
    assert run("bench", "fusion", tmp_path / "empty.jsonl").exit_code == 2
    assert run("replay", tmp_path / "empty.jsonl").exit_code == 2
    assert run("robustness", tmp_path / "empty.jsonl").exit_code == 2


# ------------------------------------------------------------------------------------------------------------ printing


def test_histogram():
    assert draw_histogram([0.0, 0.0, 0.5, 1.0], bins=3) == "█▄▄"
    assert draw_histogram([0.0, 1.0], bins=4) == "█  █"
    assert draw_histogram([2.0, 2.0], bins=3) == " █ "


def test_numbers():
    assert [format_number(x) for x in (0.5, -0.001, float("nan"))] == ["0.50", "0.00", "–"]
    assert format_number(-0.001, "+.2f") == "+0.00"
    assert format_number(-0.2, "+.2f") == "-0.20"


def test_markup_in_names_is_text(tmp_path):
    criteria = (CriterionData("[bold]loud", domain=UNIT), CriterionData("B", domain=UNIT))
    group = GroupScores("[red]q", criteria, np.array([[0.1, 0.9], [0.2, 0.3]]), (("", ""),) * 2)
    ScoreTable((group,)).write(tmp_path / "s.jsonl")
    shown = run("replay", tmp_path / "s.jsonl", "--rules", "rlvr2,weighted-mean", "--winners").stdout
    assert "[bold]loud" in shown
    assert "[red]q" in shown


def test_what_is_excluded_must_be_there(rollouts):
    """A slip of the pen would leave everything in, and say nothing. What the paper excludes need not be there."""
    table = rollouts / "graded.jsonl"
    for more in (
        [],
        ["--set", "exclude=Words2"],
        ["--paper", "--set", "group_size=4", "--rollouts", rollouts / "rollouts.jsonl"],
    ):
        done = run("robustness", table, "--set", "exclude=Word1", *more)
        assert (done.exit_code, done.stdout) == (2, "")
        line = done.stderr.strip().splitlines()[-1]
        assert "robustness: --set exclude must be one of 'Words1', 'Words2'" in line
        assert line.endswith("got 'Word1'. Did you mean 'Words1'?")
    left = as_json("robustness", table, "--set", "exclude=Words1", "--rules", "borda")["left_out"]
    assert left == {"excluded by name: Words1": 2}
