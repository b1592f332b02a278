"""Score files: the verbs go by the rubric that the file brings, as `ScoreTable.fuse` does."""

from __future__ import annotations

import io
import json
import math
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from cases import thinned
from few_columns import allow_few_columns
from typer.testing import CliRunner
from whole_tables import explain_file, fuse_file

import rubrank
from rubrank import Gate, InvalidInput, UnknownName
from rubrank.cli.app import app
from rubrank.errors import BadTable
from rubrank.options import FuseOptions
from rubrank.scores import output as score_output
from rubrank.scores.criterion import CriterionData
from rubrank.scores.files import has_rubric, read_scores
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.tables.columns import Columns
from rubrank.verifiers.verifier import TERNARY, UNIT, Domain

FACTS = CriterionData("Facts", weight=2.0, domain=TERNARY)
STYLE = CriterionData("Style", margin=1.0, domain=Domain("continuous", (), 0.0, 10.0))
SLIPS = CriterionData("Slips", direction="lower", domain=Domain("continuous", (), 0.0, 5.0), weight=0.5)
EMPTY = CriterionData("NotEmpty", layer="global_quality")
MARKS = CriterionData("Marks", layer="low_quality", direction="lower", domain=Domain("continuous", (), 0.0, 20.0))
LENGTH = CriterionData("length", domain=UNIT)  # a name that plain tables take for bookkeeping
FORMATS = ["parquet", "jsonl", "jsonl.gz"]


def made(id: str, criteria: list[CriterionData], rollouts: int, r: np.random.Generator) -> GroupScores:
    columns = [r.integers(c.domain.low, c.domain.high + 1, rollouts) for c in criteria]
    scores = np.stack(columns, 1).astype(float) if columns else np.empty((rollouts, 0))
    scores[r.random(scores.shape) < 0.1] = math.nan
    reasons = tuple(tuple(f"{id} {i} {c.name}" for c in criteria) for i in range(rollouts))
    return GroupScores(id, tuple(criteria), scores, reasons)


def shared(groups: int = 16) -> ScoreTable:
    """One rubric for all."""
    r = np.random.default_rng(1)
    rubric = [EMPTY, FACTS, STYLE, SLIPS, MARKS, LENGTH]
    return ScoreTable(tuple(made(f"q{g}", rubric, int(r.integers(1, 12)), r) for g in range(groups)))


def own(groups: int = 16) -> ScoreTable:
    """A rubric of its own for every query: other orders, weights, margins, directions; some with gates alone."""
    r = np.random.default_rng(2)
    found = []
    for g in range(groups):
        rubric = [CriterionData(f"own {g}.{j}", weight=float(r.integers(1, 5)), domain=UNIT) for j in range(int(g % 4))]
        rubric += [replace(FACTS, weight=1.0 + g % 3), replace(STYLE, margin=0.5 * (g % 4)), EMPTY]
        rubric += [replace(SLIPS, direction="higher" if g % 2 else "lower"), *([MARKS] if g % 3 else [])]
        order = r.permutation(len(rubric))
        rubric = [EMPTY, MARKS] if g % 10 == 7 else [rubric[k] for k in order]
        found.append(made(f"q{g}", rubric, int(r.integers(1, 12)), r))
    return ScoreTable(tuple(found))


def plain(groups: int = 16) -> ScoreTable:
    """Without margins, and one group that is larger than those that are counted."""
    r = np.random.default_rng(5)
    sizes = [40 if g == 12 else int(r.integers(1, 12)) for g in range(groups)]
    return ScoreTable(tuple(made(f"q{g}", [FACTS, SLIPS, LENGTH, EMPTY, MARKS], n, r) for g, n in enumerate(sizes)))


HOW = ["whole", "wide", "long", "long and wide"]


@pytest.fixture
def how(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """As it is; too many criteria for columns; one row per score."""
    if "wide" in request.param:
        allow_few_columns(monkeypatch, 3)
    if "long" in request.param:
        monkeypatch.setattr(score_output, "_MOST_CRITERION_COLUMNS", 2)
    return str(request.param)


def rewards(path: Path, rule: FuseOptions | None = None, **more: Any) -> list[float]:
    out = io.BytesIO()
    fuse_file(path, out, rule, **more)
    return [json.loads(line)["reward"] for line in out.getvalue().splitlines()]


TABLES = {"one rubric": shared(), "own rubrics": own(), "no margins": plain()}


def combined(names: Iterable[str]) -> list[Any]:
    """Each of them in every format, read in every way; `make quick` has every way once."""
    return [
        pytest.param(how, name, suffix, marks=() if (j, k) == (i % 3, 2 * i % 3) else pytest.mark.slow)
        for i, how in enumerate(HOW)
        for j, name in enumerate(names)
        for k, suffix in enumerate(FORMATS)
    ]


@pytest.mark.parametrize(("how", "name", "suffix"), combined(TABLES), indirect=["how"])
def test_rewards_are_those_of_the_table(tmp_path: Path, how: str, name: str, suffix: str) -> None:
    table, path = TABLES[name], tmp_path / f"scores.{suffix}"
    table.write(path)
    expected = read_scores(path).fuse()
    assert rewards(path) == expected.reward.tolist()
    assert expected.reward.tolist() != expected.ranking.tolist()  # the gates had a say
    summary = fuse_file(path)
    assert summary.graded
    assert sorted(summary.gates) == ["Marks", "NotEmpty"]
    assert set(summary.criteria) == set(expected.criteria)
    assert (summary.groups, summary.rollouts) == (len(table.groups), len(table))
    assert how in ("wide", "long and wide") or summary.criteria == expected.criteria


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("pool", ["group", "batch"])
def test_options_of_the_rule_come_through(tmp_path: Path, suffix: str, pool: Any) -> None:
    own().write(tmp_path / f"s.{suffix}")
    expected = read_scores(tmp_path / f"s.{suffix}").fuse(model="borda", pool=pool, span="unit")
    assert (
        rewards(tmp_path / f"s.{suffix}", FuseOptions(model="borda", pool=pool, span="unit"))
        == expected.reward.tolist()
    )


@pytest.mark.parametrize("target", ["r.parquet", "r.csv", "r.jsonl"])
@pytest.mark.parametrize("suffix", FORMATS)
def test_the_output_is_the_table_with_its_rewards(tmp_path: Path, suffix: str, target: str) -> None:
    table = shared()
    table.write(tmp_path / f"s.{suffix}")
    fuse_file(tmp_path / f"s.{suffix}", tmp_path / target, utilities=True)
    readers = {"r.parquet": pl.read_parquet, "r.csv": pl.read_csv, "r.jsonl": pl.read_ndjson}
    found = readers[target](tmp_path / target)  # type: ignore[operator]
    assert found["group"].to_list() == table.group_ids
    np.testing.assert_array_equal(found["reward"].to_numpy(), table.fuse().reward)
    np.testing.assert_array_equal(found["ranking"].to_numpy(), table.fuse().ranking)
    assert "utility.length" in found.columns
    assert "utility.NotEmpty" not in found.columns


def test_rows_of_a_group_may_stand_apart(tmp_path: Path) -> None:
    table = own(6)
    table.write(tmp_path / "s.jsonl")
    head, *lines = (tmp_path / "s.jsonl").read_text().splitlines()
    order = np.random.default_rng(3).permutation(len(lines))
    (tmp_path / "s.jsonl").write_text("\n".join([head, *(lines[i] for i in order)]) + "\n")
    with pytest.raises(BadTable, match="comes back at line"):
        fuse_file(tmp_path / "s.jsonl")
    assert rewards(tmp_path / "s.jsonl", any_order=True) == table.fuse().reward[order].tolist()


def test_attributes_beside_the_scores(tmp_path: Path) -> None:
    table = shared(8)
    table.write(tmp_path / "s.jsonl")
    head, *lines = (tmp_path / "s.jsonl").read_text().splitlines()
    tokens = np.random.default_rng(4).integers(1, 900, len(lines)).tolist()
    rows = [json.dumps({**json.loads(line), "tokens": n}) for line, n in zip(lines, tokens, strict=True)]
    (tmp_path / "s.jsonl").write_text("\n".join([head, *rows]))
    expected = table.fuse(attributes=np.array(tokens)[:, None], attribute_names=["tokens"], adjust="remove")
    rule = FuseOptions(adjust="remove")
    assert rewards(tmp_path / "s.jsonl", rule, columns=Columns(attributes=["tokens"])) == expected.reward.tolist()


# ------------------------------------------------------------------------------------------- what is said otherwise


def changed(table: ScoreTable, **changes: dict[str, Any]) -> ScoreTable:
    return ScoreTable(
        tuple(
            replace(group, criteria=tuple(replace(c, **changes.get(c.name, {})) for c in group.criteria))
            for group in table
        )
    )


@pytest.mark.parametrize("suffix", FORMATS)
@pytest.mark.parametrize("how", thinned(HOW, every=2), indirect=True)
def test_a_rule_changes_what_it_names(tmp_path: Path, how: str, suffix: str) -> None:
    table = own()
    table.write(tmp_path / f"s.{suffix}")
    rule = FuseOptions(
        weight={"Facts": 7},
        margin={"Facts": 0.5},
        lower=["Slips"],
        low_quality=["Style"],
        gate={"floor": 0.25, "missing": "fail"},
    )
    expected = changed(
        table,
        Facts={"weight": 7.0, "margin": 0.5},
        Slips={"direction": "lower"},
        Style={"layer": "low_quality"},
    )
    gate = Gate(floor=0.25, missing="fail")
    assert rewards(tmp_path / f"s.{suffix}", rule) == expected.fuse(gate=gate).reward.tolist()


def test_some_of_the_criteria(tmp_path: Path) -> None:
    table = own()
    table.write(tmp_path / "s.parquet")
    wanted = ["Facts", "Slips", "Marks"]
    some = ScoreTable(
        tuple(
            GroupScores(
                group.id,
                tuple(c for c in group.criteria if c.name in wanted),
                group.scores[:, [k for k, name in enumerate(group.names) if name in wanted]],
                (),
            )
            for group in table
        )
    )
    found = fuse_file(tmp_path / "s.parquet", columns=Columns(criteria=wanted))
    assert (sorted(found.criteria), found.gates) == (["Facts", "Slips"], ("Marks",))
    assert rewards(tmp_path / "s.parquet", columns=Columns(criteria=wanted)) == some.fuse().reward.tolist()


def run(*arguments: object) -> Any:
    return CliRunner().invoke(app, [str(a) for a in arguments])


def test_the_verb_fuse(tmp_path: Path) -> None:
    table = shared()
    path = tmp_path / "s.parquet"
    table.write(path)
    shown = run("fuse", path)
    assert "using the weights and gates stored in the file; gated by NotEmpty, Marks\n" in shown.stdout
    found = run("fuse", path, "--json", "--weight", "Facts=9", "--set", "gate.floor=0", "--set", "lower=Style")
    expected = changed(table, Facts={"weight": 9.0}, Style={"direction": "lower"})
    gate = Gate(floor=0.0)
    assert [json.loads(line)["reward"] for line in found.stdout.splitlines()] == expected.fuse(
        gate=gate
    ).reward.tolist()
    assert found.stderr.startswith("using the weights and gates stored in the file; gated by NotEmpty, Marks\n")
    same = run("fuse", path, "-o", tmp_path / "r.parquet", "--global-quality", "NotEmpty")
    assert same.stderr.splitlines()[1] == "using the weights and gates stored in the file; gated by NotEmpty, Marks"
    assert pl.read_parquet(tmp_path / "r.parquet")["reward"].to_list() == table.fuse().reward.tolist()
    assert run("fuse", path, "-o", tmp_path / "r.jsonl", "--quiet").stderr == ""


@pytest.mark.slow
@pytest.mark.parametrize(("how", "suffix"), [(how, FORMATS[i % 3]) for i, how in enumerate(HOW)], indirect=["how"])
def test_the_verb_explain(tmp_path: Path, how: str, suffix: str) -> None:
    table = own()
    path = tmp_path / f"s.{suffix}"
    table.write(path)
    whole = table.fuse()
    for group in table.groups[:8]:
        found = run("explain", path, "--group", group.id, "--json")
        assert found.stderr == "using the weights and gates stored in the file\n"
        rollouts = json.loads(found.stdout)["rollouts"]
        assert [rollout["reward"] for rollout in rollouts] == whole[group.id].reward.tolist()
    fused = explain_file(path, "q2")
    assert set(fused.criteria) == {c.name for c in table["q2"].criteria if c.layer == "quality"}
    at = fused.criteria.index("Slips")
    assert not fused.higher_is_better[at]  # in this query; in others it is
    np.testing.assert_array_equal(fused.scores[:, at], table["q2"].scores[:, table["q2"].names.index("Slips")])


# --------------------------------------------------------------------------------------------------------- mistakes


def test_plain_tables_bring_no_rubric(tmp_path: Path) -> None:
    shared(3).write(tmp_path / "s.parquet")
    pl.read_parquet(tmp_path / "s.parquet").drop("length").write_parquet(tmp_path / "plain.parquet")
    assert has_rubric(tmp_path / "s.parquet")
    assert not has_rubric(tmp_path / "plain.parquet")
    summary = fuse_file(tmp_path / "plain.parquet")
    assert not summary.graded
    assert "NotEmpty" in summary.criteria


@pytest.mark.parametrize(
    ("rule", "columns", "error", "found"),
    [
        (FuseOptions(weight={"Fact": 2}), None, UnknownName, "'Facts'"),
        (FuseOptions(global_quality=["Empty"]), None, UnknownName, "'NotEmpty'"),
        (None, Columns(criteria=["Fact"]), UnknownName, "'Facts'"),
        (None, Columns(criteria=["NotEmpty"]), InvalidInput, "gates only"),
        (FuseOptions(gate={"floor": 0.1}), Columns(criteria=["Facts"]), InvalidInput, "global_quality"),
    ],
)
def test_mistakes_in_a_rule(tmp_path: Path, rule: Any, columns: Any, error: type[Exception], found: str) -> None:
    shared(3).write(tmp_path / "s.parquet")
    with pytest.raises(error, match=found):
        fuse_file(tmp_path / "s.parquet", options=rule, columns=columns)


def test_mistakes_in_a_file(tmp_path: Path) -> None:
    path = tmp_path / "s.jsonl"
    shared(3).write(path)
    head, first, *rest = path.read_text().splitlines()

    def write(*lines: str) -> Path:
        path.write_text("\n".join(lines))
        return path

    row = json.loads(first)
    row["scores"]["Facts"] = "yes"
    with pytest.raises(BadTable, match=r"line 2, column 'scores\.Facts'"):
        fuse_file(write(head, json.dumps(row), *rest))
    with pytest.raises(BadTable, match="one number from 0 to 0; got 5"):
        fuse_file(write(head, first.replace('"rubric": 0', '"rubric": 5')))
    with pytest.raises(BadTable, match="the rubric of group 'a' must be one number"):
        fuse_file(write(head, *(json.dumps({"group": "a", "scores": row["scores"] | {"Facts": i}}) for i in (0, 1))))
    with pytest.raises(BadTable, match="version 1"):
        fuse_file(write(head.replace('"version": 1', '"version": 9'), first))
    with pytest.raises(BadTable, match="a score table"):
        fuse_file(write(head.replace('"domain"', '"range"'), first))
    ScoreTable(()).write(path)
    with pytest.raises(BadTable, match="at least one row"):
        fuse_file(path)
    soft = replace(EMPTY, layer="low_quality")
    r = np.random.default_rng(0)
    ScoreTable((made("a", [FACTS, EMPTY], 2, r), made("b", [FACTS, soft], 2, r))).write(path)
    with pytest.raises(InvalidInput, match="the same in all rubrics"):
        fuse_file(path)


def test_the_library_grades_and_the_verbs_fuse(tmp_path: Path) -> None:
    rows = [{"id": "tides", "prompt": "Explain tides.", "responses": ["The moon pulls the sea.", "Moon.", ""]}]
    rubric = ["EmptyAnswer", {"name": "WordCount", "params": {"low": 4}, "weight": 3}]
    table = rubrank.grade(rows, rubric, workers=0)
    table.write(tmp_path / "s.parquet")
    assert rewards(tmp_path / "s.parquet") == table.fuse().reward.tolist() == [1.0, 0.25, 0.0]


def test_explain_does_not_call_what_judges_were_not_asked_missing(tmp_path: Path) -> None:
    """Of two rollouts without a score for Facts, a gate stopped one: no judge was asked about it."""
    scores = np.array([[1.0, 1.0], [math.nan, 1.0], [0.0, 1.0], [math.nan, 0.0]])
    group = GroupScores("q", (FACTS, EMPTY), scores, (("", ""),) * 4)
    path = tmp_path / "scores.parquet"
    ScoreTable((group,)).write(path)
    shown = run("explain", path, "--group", "q")
    assert shown.exit_code == 0
    assert "note: missing: Facts (1)\n" in shown.stdout
    assert json.loads(run("explain", path, "--group", "q", "--json").stdout)["flags"] == ["missing: Facts (1)"]
    assert shown.stderr.splitlines()[-1] == "using the weights and gates stored in the file"


def test_explain_says_nothing_about_a_rubric_that_a_file_does_not_have(tmp_path: Path) -> None:
    path = tmp_path / "scores.csv"
    path.write_text("group,Facts\nq,1\nq,0\n")
    shown = run("explain", path, "--group", "q", "--criteria", "Facts")
    assert shown.exit_code == 0
    assert "stored in the file" not in shown.output
