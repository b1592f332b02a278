"""The paper's filters: what stays, what is left out, and that it is said."""

from __future__ import annotations

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from rubrank import InvalidInput
from rubrank.cli.app import app
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.studies.robustness import PAPER, Filters, apply_filters

NAMES = ("IFBench", "Business", "focal_score", "NotEmpty")


def group(id, size=8, **columns):
    criteria = tuple(CriterionData(n, layer="global_quality" if n == "NotEmpty" else "quality") for n in NAMES)
    scores = np.tile(np.linspace(0.0, 1.0, size)[:, None], (1, len(NAMES)))
    for name, values in columns.items():
        scores[:, NAMES.index(name)] = values
    return GroupScores(id, criteria, scores, (("",) * len(NAMES),) * size)


def texts(*groups, twice=()):
    return [("", f"{g.id if g.id in twice else (g.id, i)}") for g in groups for i in range(len(g.scores))]


def test_the_papers_filters():
    whole, small, same = group("whole"), group("small", 7), group("same")
    scaled, holes = group("scaled", Business=np.arange(8.0)), group("holes", IFBench=[np.nan, *range(7)])
    every = (whole, small, same, scaled, holes)
    kept = apply_filters(ScoreTable(every), PAPER, texts(*every, twice=("same",)))
    assert [(g.id, g.names) for g in kept.table.groups] == [
        ("whole", ("IFBench", "Business")),
        ("scaled", ("IFBench",)),
        ("holes", ("Business",)),
    ]
    assert dict(kept.left_out) == {
        "excluded by name: focal_score": 3,
        "gate criterion: NotEmpty": 3,
        "group of other than 8 rollouts": 1,
        "group with the same response twice": 1,
        "a score missing, or outside 0 to 1: Business": 1,
        "a score missing, or outside 0 to 1: IFBench": 1,
    }
    for g in kept.table.groups:
        assert (g.scores.shape, len(g.reasons[0])) == ((8, len(g.names)), len(g.names))


def test_a_group_without_anything_left_goes():
    one = group("one", IFBench=2.0, Business=-1.0)
    kept = apply_filters(ScoreTable((one,)), PAPER, texts(one))
    assert kept.table.groups == ()
    assert dict(kept.left_out)["group without any criterion left"] == 1


def test_no_filter_leaves_everything():
    table = ScoreTable((group("a"), group("b", 3)))
    kept = apply_filters(table, Filters())
    assert [kept_group.names for kept_group in kept.table] == [whole.names for whole in table]
    assert kept.left_out == ()
    assert not Filters().any


def test_unique_responses_need_the_texts():
    with pytest.raises(InvalidInput, match="rollouts"):
        apply_filters(ScoreTable((group("a"),)), Filters(unique=True))


def test_a_group_of_one_is_no_group():
    with pytest.raises(InvalidInput, match="2 or more"):
        Filters(group_size=1)


def test_the_command_line_prints_what_was_left_out(tmp_path):
    path = tmp_path / "scores.parquet"
    ScoreTable((group("a"), group("b", 7), group("c", Business=np.r_[np.nan, np.zeros(7)]))).write(path)
    options = [
        "--set",
        "group_size=8",
        "--set",
        "unit_scores=true",
        "--set",
        "gates=false",
        "--set",
        "exclude=focal_score",
    ]
    shown = CliRunner().invoke(app, ["robustness", str(path), *options])
    assert shown.exit_code == 0, shown.output
    assert "2 of 3 groups kept" in shown.output
    assert "left out 1 ×: a score missing, or outside 0 to 1: Business" in shown.output
    found = json.loads(CliRunner().invoke(app, ["robustness", str(path), *options, "--json"]).stdout)
    assert found["left_out"]["group of other than 8 rollouts"] == 1
    assert {row["criterion"] for row in found["rows"]} == {"IFBench", "Business"}
    refused = CliRunner().invoke(app, ["robustness", str(path), "--paper"])
    assert refused.exit_code != 0
    assert "rollouts" in refused.output
