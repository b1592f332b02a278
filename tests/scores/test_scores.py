"""Score tables: round trips, summaries, and what fusion gets."""

from __future__ import annotations

import json
import math
import re
from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from cases import examples
from hypothesis import given
from hypothesis import strategies as st
from ordinal import rlvr2

from rubrank.errors import BadTable, InvalidInput, UnknownName
from rubrank.fusion.gate import Gate, Gated
from rubrank.fusion.rules import find_rule
from rubrank.scores.criterion import CriterionData
from rubrank.scores.files import read_scores
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.verifiers.verifier import TERNARY, UNIT, Domain, discrete

NAN = math.nan
FACTS = CriterionData("Facts", weight=2.0, domain=TERNARY, verifier="Facts", version=3, depends=(("Style", "weak"),))
STYLE = CriterionData("Style", margin=0.5, domain=Domain("continuous", (), 0.0, 10.0), category="Important", tier=2)
SLIPS = CriterionData("Slips", direction="lower", domain=discrete(0, 1, 2), points=-3.0)
EMPTY = CriterionData("NotEmpty", layer="global_quality")
CLEAN = CriterionData("Clean", layer="low_quality", domain=UNIT)


def group(id, criteria, scores):
    scores = np.array(scores, dtype=float)
    reasons = tuple(
        tuple(f"{id}: {i} on {c.name}, “{x}”" for c, x in zip(criteria, row, strict=True))
        for i, row in enumerate(scores)
    )
    return GroupScores(id, tuple(criteria), scores, reasons)


@pytest.fixture
def table():
    return ScoreTable(
        (
            group("a", [FACTS, STYLE, EMPTY], [[1, 7, 1], [0.5, NAN, 1], [0, 7.4, 0]]),
            group("b", [SLIPS, STYLE, CLEAN], [[0, 3, 1], [2, 9, 0.5]]),
        )
    )


def same(a, b):
    assert [g.id for g in a] == [g.id for g in b]
    for x, y in zip(a, b, strict=True):
        assert x.criteria == y.criteria
        assert x.reasons == y.reasons
        np.testing.assert_array_equal(x.scores, y.scores)


def test_what_a_table_says(table):
    assert len(table) == 5
    assert table.criteria == ("Facts", "Style", "NotEmpty", "Slips", "Clean")
    assert table.group_ids == ["a", "a", "a", "b", "b"]
    assert table.rollout_numbers == [0, 1, 2, 0, 1]
    assert table["a"].score(0, "Style") == 7.0
    assert math.isnan(table["a"].score(1, "Style"))
    assert table["a"].reason(1, "Style") == "a: 1 on Style, “nan”"
    np.testing.assert_array_equal(table.scores[3], [NAN, 3, NAN, 0, 1])
    with pytest.raises(InvalidInput, match="such as 'a'"):
        table["c"]
    with pytest.raises(UnknownName, match="Slips"):
        table["a"].score(0, "Slips")


@pytest.mark.parametrize("name", ["s.parquet", "s.jsonl", "s.jsonl.gz", "new folder/s.parquet"])
def test_round_trip(tmp_path, table, name):
    table.write(tmp_path / name)
    same(read_scores(tmp_path / name), table)
    assert not list(tmp_path.glob("**/*.partial"))


@pytest.mark.parametrize("name", ["scores.jsonl", "scores.parquet"])
def test_a_group_without_digests_does_not_remove_those_of_others(tmp_path, table, name):
    known, unknown = table
    ScoreTable((replace(known, digests=("d0", "d1", "d2")), unknown)).write(tmp_path / name)
    assert [group.digests for group in read_scores(tmp_path / name)] == [("d0", "d1", "d2"), ()]


def test_parquet_is_a_plain_table(tmp_path, table):
    table.write(tmp_path / "s.parquet")
    frame = pl.read_parquet(tmp_path / "s.parquet")
    assert frame["Style"].to_list() == [7, None, 7.4, 3, 9]
    assert frame["Slips (reason)"].to_list()[:3] == [None] * 3
    assert frame["group"].to_list() == ["a", "a", "a", "b", "b"]


def test_jsonl_is_plain_json(tmp_path, table):
    table.write(tmp_path / "s.jsonl")
    rows = [json.loads(line) for line in (tmp_path / "s.jsonl").read_text(encoding="utf-8").splitlines()]
    assert rows[2]["scores"] == {"Facts": 0.5, "Style": None, "NotEmpty": 1.0}
    assert "Slips" not in rows[2]["reasons"]


@pytest.mark.parametrize(
    "names", [("group", "criterion"), ("A", "A (reason)"), tuple(f"criterion {k}" for k in range(600))]
)
@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
def test_names_that_do_not_fit_side_by_side(tmp_path, names, suffix):
    many = ScoreTable(tuple(group(f"g{i}", [CriterionData(n)], [[1], [NAN]]) for i, n in enumerate(names)))
    many.write(tmp_path / f"s{suffix}")
    same(read_scores(tmp_path / f"s{suffix}"), many)


@examples(30)
@given(
    st.lists(st.tuples(st.text(min_size=1), st.floats(0, 1) | st.just(float("nan"))), min_size=1, max_size=6),
    st.sampled_from([".parquet", ".jsonl"]),
)
def test_any_reason_and_any_number_round_trips(tmp_path_factory, cells, suffix):
    reasons = tuple((reason,) for reason, _ in cells)
    scores = np.array([[value] for _, value in cells])
    one = ScoreTable((GroupScores("g", (CriterionData("A", domain=UNIT),), scores, reasons),))
    path = tmp_path_factory.mktemp("round") / f"s{suffix}"
    one.write(path)
    same(read_scores(path), one)


def test_lone_surrogates_in_reasons_do_no_harm(tmp_path):
    one = ScoreTable((GroupScores("g", (CriterionData("A"),), np.ones((1, 1)), (("\ud800!",),)),))
    for suffix in (".parquet", ".jsonl"):
        one.write(tmp_path / f"s{suffix}")
        assert read_scores(tmp_path / f"s{suffix}")["g"].reason(0, "A").endswith("!")


def test_files_that_are_no_tables(tmp_path, table):
    (tmp_path / "a.jsonl").write_text('{"x": 1}\n')
    (tmp_path / "b.jsonl").write_text("{")
    (tmp_path / "c.parquet").write_text("no")
    pl.DataFrame({"x": [1]}).write_parquet(tmp_path / "d.parquet")
    for name in ("a.jsonl", "b.jsonl", "c.parquet", "d.parquet", "missing.parquet"):
        with pytest.raises(BadTable):
            read_scores(tmp_path / name)
    with pytest.raises(InvalidInput, match="a file that ends in"):
        table.write(tmp_path / "s.csv")


@pytest.mark.parametrize("name", ["Facts", "Facts (reason)"])
def test_a_parquet_file_without_a_column_is_refused(tmp_path, table, name):
    table.write(tmp_path / "s.parquet")
    metadata = pl.read_parquet_metadata(tmp_path / "s.parquet")
    frame = pl.read_parquet(tmp_path / "s.parquet").drop(name)
    frame.write_parquet(tmp_path / "t.parquet", metadata={"rubrank": metadata["rubrank"]})
    with pytest.raises(BadTable, match=re.escape(f"a score table; got one without the column {name!r}")):
        read_scores(tmp_path / "t.parquet")


def test_a_long_parquet_file_without_reasons_is_refused(tmp_path):
    names = ("A", "A (reason)")  # would be two columns of one name
    clash = ScoreTable(tuple(group(f"g{i}", [CriterionData(n)], [[1], [NAN]]) for i, n in enumerate(names)))
    clash.write(tmp_path / "s.parquet")
    metadata = pl.read_parquet_metadata(tmp_path / "s.parquet")
    frame = pl.read_parquet(tmp_path / "s.parquet").drop("reason")
    frame.write_parquet(tmp_path / "t.parquet", metadata={"rubrank": metadata["rubrank"]})
    with pytest.raises(BadTable, match="without the column 'reason'"):
        read_scores(tmp_path / "t.parquet")


# ------------------------------------------------------------------------------------------------------------- summary


def test_summary(table):
    found = {summary.name: summary for summary in table.summary()}
    style = found["Style"]
    assert (style.rollouts, style.missing, style.groups, style.all_tied) == (5, 1, 2, 1)
    assert style.mean == pytest.approx((7 + 7.4 + 3 + 9) / 4)
    assert style.tie_rate == pytest.approx(1 / 2)  # 7 and 7.4 are within the margin, 3 and 9 are not
    assert (found["Facts"].tie_rate, found["Facts"].all_tied) == (0.0, 0)
    assert found["NotEmpty"].tie_rate == pytest.approx(1 / 3)
    assert found["Slips"].groups == 1


def test_summary_of_what_nobody_scored():
    (summary,) = ScoreTable((group("a", [FACTS], [[NAN], [NAN]]),)).summary()
    assert math.isnan(summary.mean)
    assert math.isnan(summary.tie_rate)
    assert (summary.missing, summary.all_tied) == (2, 0)


# -------------------------------------------------------------------------------------------------------------- fusion


def test_fuse_takes_weights_margins_directions_and_the_gate(table):
    result = table.fuse()
    by_hand = rlvr2(
        criteria=["Facts", "Style", "NotEmpty"],
        weights={"Facts": 2},
        margins={"Style": 0.5},
        gate=Gate(global_quality=["NotEmpty"]),
        lift=0.25,
    )(table["a"].scores)
    np.testing.assert_allclose(result.reward[:3], by_hand.reward)
    by_hand = rlvr2(
        criteria=["Slips", "Style", "Clean"],
        directions={"Slips": "lower"},
        margins={"Style": 0.5},
        gate=Gate(low_quality=["Clean"]),
        lift=0.25,
    )(table["b"].scores)
    np.testing.assert_allclose(result.reward[3:], by_hand.reward)
    assert result.criteria == ("Facts", "Style", "Slips")


def test_weights_may_differ_from_query_to_query():
    scores = [[1, 0], [0, 1]]
    a, b = CriterionData("A"), CriterionData("B")
    heavy = CriterionData("A", weight=9.0)
    both = ScoreTable((group("x", [a, b], scores), group("y", [heavy, b], scores)))
    assert both.fuse().reward.tolist() == [0.5, 0.5, 1.0, 0.0]


def test_directions_may_differ_from_query_to_query():
    up, down = CriterionData("A"), CriterionData("A", direction="lower")
    both = ScoreTable((group("x", [up], [[1], [0]]), group("y", [down], [[1], [0]])))
    assert both.fuse().reward.tolist() == [1.0, 0.0, 0.0, 1.0]


def test_gates_of_any_scale_and_direction():
    bad = CriterionData(
        "Errors", layer="global_quality", direction="lower", domain=Domain("continuous", (), 0.0, 100.0)
    )
    table = ScoreTable((group("x", [FACTS, bad], [[1, 3], [0.5, 0], [0, 0]]),))
    assert table.fuse(gate=Gate(lift=0)).reward.tolist() == [0.0, 0.5, 0.0]
    assert table.fuse().reward.tolist() == [0.0, 1.0, 0.25]


def test_a_gate_that_another_query_asks_for_fails_nobody(tmp_path):
    quality, gate = CriterionData("Q", domain=UNIT), CriterionData("NotEmpty", layer="global_quality")
    table = ScoreTable(
        (
            group("asks", [quality, gate], [[0.1, 1], [0.9, math.nan], [0.5, 1]]),
            group("does not", [quality], [[0.1], [0.9], [0.5]]),
        )
    )
    options = Gate(missing="fail", lift=0)
    rewards = [[0.0, 0.0, 0.5], [0.0, 1.0, 0.5]]  # the best of the first group has no score on the gate
    fused = table.fuse(gate=options, span="unit")
    assert fused.reward.reshape(2, 3) == pytest.approx(np.array(rewards))
    assert fused.gated.missing.tolist() == [0, 1, 0, 0, 0, 0]
    rule = Gated(find_rule("rlvr2:span=unit"), options)
    assert rule(table.batch()).reward.reshape(2, 3) == pytest.approx(np.array(rewards))
    table.write(tmp_path / "scores.jsonl")
    read = read_scores(tmp_path / "scores.jsonl")
    assert read.fuse(gate=options, span="unit").reward.tolist() == fused.reward.tolist()


def test_options_of_the_rule_come_through(table):
    result = table.fuse(model="borda", gate=Gate(floor=0.0, lift=0))
    assert result.reward[4] == pytest.approx(0.5 * result.ranking[4])
    np.testing.assert_allclose(result.ranking, find_rule("rlvr2:model=borda")(table.batch(penalties="ignore")).reward)


def test_what_cannot_be_fused():
    with pytest.raises(InvalidInput, match="gates only"):
        ScoreTable((group("x", [EMPTY], [[1], [0]]),)).fuse()
    soft = CriterionData("NotEmpty", layer="low_quality")
    mixed = ScoreTable((group("x", [FACTS, EMPTY], [[1, 1]]), group("y", [FACTS, soft], [[1, 1]])))
    with pytest.raises(InvalidInput, match="the same in all rubrics"):
        mixed.fuse()


def test_a_matrix_that_would_be_too_large(monkeypatch, table):
    monkeypatch.setattr("rubrank.scores.table._MOST_CELLS", 20)
    with pytest.raises(InvalidInput, match="Take parts"):
        table.fuse()
    parts = [table.select_groups([one]).fuse().reward for one in table]
    monkeypatch.undo()
    np.testing.assert_allclose(np.concatenate(parts), table.fuse().reward)
