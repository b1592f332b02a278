"""Comparisons survive in score files, and `fuse` on a file goes by them."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from cases import thinned

from rubrank.fusion.files import explain_file, fuse_file
from rubrank.scores.criterion import CriterionData
from rubrank.scores.files import read_scores
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.tables.columns import Columns
from rubrank.verifiers.verifier import UNIT

NAN = float("nan")


def table(criteria_per_query: int = 0) -> ScoreTable:
    rng = np.random.default_rng(0)
    made = []
    for g in range(6):
        own = tuple(CriterionData(f"q{g} point {k}") for k in range(criteria_per_query))
        criteria = (CriterionData("Facts", weight=2.0, domain=UNIT), CriterionData("Taste"), *own)
        won = np.triu(rng.choice([0.0, 0.5, 1.0, NAN], (4, 4)), 1)
        won = won + np.tril(1.0 - won.T, -1)
        np.fill_diagonal(won, NAN)
        scores = rng.random((4, len(criteria)))
        scores[:, 2:] = scores[:, 2:] > 0.5
        is_compared = g % 3 != 2
        scores[:, 1] = NAN if is_compared else rng.integers(0, 2, 4)
        reasons = (("", "said so", *(["counted"] * criteria_per_query)),) * 4
        made.append(GroupScores(f"q{g}", criteria, scores, reasons, {"Taste": won} if is_compared else {}))
    return ScoreTable(tuple(made))


@pytest.mark.parametrize("per_query", [0, 100])  # the second is written with one row per score
@pytest.mark.parametrize("name", thinned(["s.jsonl", "s.jsonl.gz", "s.parquet"]))
def test_there_and_back(tmp_path: Path, name: str, per_query: int) -> None:
    given = table(per_query)
    given.write(tmp_path / name)
    again = read_scores(tmp_path / name)
    for one, other in zip(again, given, strict=True):
        assert one.outcomes.keys() == other.outcomes.keys()
        for criterion, won in other.outcomes.items():
            assert np.array_equal(one.outcomes[criterion], won, equal_nan=True)
    expected = given.fuse().reward
    assert again.fuse().reward.tolist() == expected.tolist()
    fuse_file(tmp_path / name, tmp_path / "out.jsonl")
    import polars

    rewards = polars.read_ndjson(tmp_path / "out.jsonl", infer_schema_length=None)["reward"].to_list()
    assert rewards == pytest.approx(expected.tolist(), abs=1e-12)


def test_explained_from_a_file(tmp_path: Path) -> None:
    table().write(tmp_path / "s.jsonl")
    assert "Taste: " in explain_file(tmp_path / "s.jsonl", "q0").explain(0)
    assert explain_file(tmp_path / "s.jsonl", "q0").explain(0) == table().fuse()["q0"].explain(0)


def test_a_compared_criterion_can_be_left_out(tmp_path: Path) -> None:
    table().write(tmp_path / "s.jsonl")
    summary = fuse_file(tmp_path / "s.jsonl", columns=Columns(criteria=["Facts"]))
    assert summary.graded


def test_the_summary_counts_pairs() -> None:
    taste = next(s for s in table().summary() if s.name == "Taste")
    said = [won[np.triu_indices(4, 1)] for group in table() for won in group.outcomes.values()]
    observed = np.concatenate(said)
    observed = observed[~np.isnan(observed)]
    scored = [group.scores[:, 1] for group in table() if not group.outcomes]
    pairs = [scores[i] == scores[j] for scores in scored for i in range(4) for j in range(i)]
    assert taste.tie_rate == pytest.approx(((observed == 0.5).sum() + sum(pairs)) / (len(observed) + len(pairs)))
    assert taste.groups == 6
