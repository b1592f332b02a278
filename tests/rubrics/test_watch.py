"""`layer: watch`: criteria that are graded and logged, never rewarded."""

from __future__ import annotations

import numpy as np
import pytest

from rubrank import InvalidInput, grade
from rubrank.fusion.files import explain_file
from rubrank.fusion.rules import find_rule, rule_names
from rubrank.records.files import read_records, write_records
from rubrank.records.record import explain, record_table, to_score_table
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.public import to_rubric
from rubrank.scores.criterion import CriterionData
from rubrank.scores.files import read_scores

COUNTED = [{"name": "WordCount", "params": {"low": 3}}, "EmptyAnswer"]
WATCHED = {"name": "Short", "verifier": "WordCount", "params": {"high": 4}, "layer": "watch"}
TEXTS = ("The moon pulls the sea.", "Moon.", "The moon pulls.", "")
GROUPS = [Group(id="tides", rollouts=tuple(Rollout(prompt="Explain tides.", response=text) for text in TEXTS))]


def test_it_weighs_nothing_and_needs_no_weight():
    criterion = to_rubric([*COUNTED, WATCHED])["Short"]
    assert criterion.value_layer == "watch"
    assert CriterionData.of(criterion).weight == 0.0
    gate = to_rubric([*COUNTED, {"name": "Truncated", "layer": "watch", "weight": 0}])["Truncated"]
    assert gate.value_layer == "watch"  # whatever layer its verifier has
    bad = to_rubric([*COUNTED, {"name": "Rude", "question": "Is it rude?", "points": -3, "layer": "watch"}])["Rude"]
    assert (bad.direction, CriterionData.of(bad).weight) == ("lower", 0.0)


@pytest.mark.parametrize(
    ("criterion", "message"),
    [
        ({**WATCHED, "weight": 1}, "weight must be 0, or left out, in the layer watch; got 1"),
        ({"name": "A", "question": "?", "weight": 0}, "weight must be > 0; got 0. Write `layer: watch` instead"),
        ({"name": "A", "question": "?", "weight": "0.0"}, "weight must be > 0; got 0. Write `layer: watch` instead"),
        ({"name": "A", "question": "?", "weight": 0, "points": 3}, "weight must be > 0; got 0. Write `layer: watch`"),
        ({"name": "A", "question": "?", "points": 0}, "must be a number other than 0; got 0. Write `layer: watch"),
        ({"name": "A", "question": "?", "depends": "Short"}, "depends must be on criteria that count; got 'Short'"),
        ({**WATCHED, "layer": "watched"}, "'watch'"),
    ],
)
def test_what_does_not_go_together(criterion, message):
    rubric = [*COUNTED, WATCHED, {**criterion, "name": "B"}]
    with pytest.raises(InvalidInput, match=message):
        to_rubric(rubric)


@pytest.mark.parametrize("name", [*rule_names(), "rlvr2*focal", "rlvr2*gear"])
def test_no_rule_sees_it(name):
    """Rewards are those of the rubric without it, bit for bit; with a gate, too."""
    table = grade(GROUPS, [*COUNTED, WATCHED])
    plain = grade(GROUPS, COUNTED)
    assert table["tides"].scores[:, 2].tolist() == [0.0, 1.0, 1.0, 1.0]
    for expression in (name, f"{name}+"):
        watched = find_rule(expression)(table.batch())
        assert np.array_equal(watched.reward, find_rule(expression)(plain.batch()).reward)
        assert "Short" not in watched.criteria


def test_it_is_in_files_records_and_tables_of_records(tmp_path):
    table = grade(GROUPS, [*COUNTED, WATCHED])
    table.write(tmp_path / "scores.parquet")
    assert read_scores(tmp_path / "scores.parquet")["tides"].criteria[2].layer == "watch"
    write_records(tmp_path / "r.jsonl", record_table(table, "rlvr2+"))
    (record,) = read_records(tmp_path / "r.jsonl")
    assert [(c.name, c.layer) for c in record.criteria][-1] == ("Short", "watch")
    assert [row[-1] for row in record.scores] == [0.0, 1.0, 1.0, 1.0]
    assert record.reasons[0][-1]
    assert len(record.weights) == 1
    again = to_score_table([record])
    assert np.array_equal(find_rule("rlvr2+")(again.batch()).reward, np.array(record.reward))


def test_watching_alone_is_not_enough():
    with pytest.raises(InvalidInput, match='some in the layer "quality"'):
        grade(GROUPS, [WATCHED]).batch()


def test_explanations_show_it_apart(tmp_path):
    table = grade(GROUPS, [*COUNTED, WATCHED])
    table.write(tmp_path / "scores.jsonl")
    explained = explain_file(tmp_path / "scores.jsonl", "tides").explain(1)
    assert explained.splitlines()[-1] == "  watched, not rewarded: Short 1"
    [record] = record_table(table, "rlvr2+")
    assert explain(record, 1) == explained
    assert explain(record, 0).endswith("watched, not rewarded: Short 0")


def test_a_group_of_gates_and_watched_criteria_can_be_fused(tmp_path):
    """A file may hold such a group beside others; it has nothing to rank by."""
    only_watched = Group(id="free", rollouts=GROUPS[0].rollouts, rubric=["EmptyAnswer", WATCHED])
    ranked = Group(id="tides", rollouts=GROUPS[0].rollouts, rubric=[*COUNTED])
    grade([ranked, only_watched]).write(tmp_path / "scores.jsonl")
    explained = explain_file(tmp_path / "scores.jsonl", "free")
    assert explained.watched["Short"].tolist() == [0.0, 1.0, 1.0, 1.0]
