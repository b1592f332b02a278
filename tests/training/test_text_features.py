"""Texts of a step are measured once, and wherever they are measured."""

from __future__ import annotations

import numpy as np

import rubrank
from rubrank.fusion.control.attribute import Attribute
from rubrank.fusion.control.length import lengths
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.training import engine as engines
from rubrank.training.controls import Control, TextFeatures, measure_texts, parse_controls, select_active_controls
from rubrank.training.engine import RewardEngine
from rubrank.training.flat_batch import Processes, Sample, by_position, score_flat

TEXTS = ("<think>One two.</think># Three", "four five six", "", "<think>cut off", "- a\n- b **c**")
SAID = [Rollout(prompt="p", response=text) for text in TEXTS]
RUBRIC = [{"name": "Words", "verifier": "WordCount", "params": {"low": 2}}]


def shouting(text: str) -> int:
    return sum(map(str.isupper, text))


OWN = Attribute("shouts", ("shouts",), lambda texts: np.array([[shouting(text)] for text in texts]))


def test_values_are_those_of_the_attributes():
    controls = parse_controls(["reasoning_length", "markdown", "total_length", OWN, Control("answer_length", start=9)])
    features = measure_texts(SAID, controls, 3)
    found = select_active_controls(controls, features, SAID, 3)
    expected, columns = rubrank.measure(TEXTS, ["reasoning_length", "markdown", "total_length", OWN])
    np.testing.assert_array_equal(found.values_MD, expected)
    assert found.columns == columns
    assert (
        select_active_controls(controls, measure_texts(SAID, controls, 9), SAID, 9).values_MD.shape[1]
        == expected.shape[1] + 1
    )


def test_reasoning_of_its_own_field_is_taken_as_it_is():
    said = [Rollout(prompt="p", response="An answer </think> here", reasoning="I <think> so")]
    np.testing.assert_array_equal(measure_texts(said, (), 0).words, [[3, 4]])
    assert lengths(["x"], reasoning=["I so"]).reasoning[0] == 2


def test_groups_are_cut_and_joined():
    features = measure_texts(SAID, parse_controls([OWN]), 0)
    again = TextFeatures.join(features.split([2, len(SAID) - 2, 0]))
    np.testing.assert_array_equal(again.words, features.words)
    np.testing.assert_array_equal(again.markdown, features.markdown)
    np.testing.assert_array_equal(again.custom["shouts"], features.custom["shouts"])


def test_each_process_measures_its_own_groups(monkeypatch):
    measured: list[int] = []

    def counting(rollouts, controls, step, known=None):
        measured.append(len(rollouts))
        return measure_texts(rollouts, controls, step, known)

    monkeypatch.setattr(engines, "measure_texts", counting)
    samples = [Sample(rollout) for rollout in (*SAID, SAID[1])]
    alone = score_flat(RewardEngine(RUBRIC, attributes=["markdown"]), samples, step=0, group_of=by_position(2))
    assert measured == [6]
    graded: list = []
    # Two processes in one: the first call of `gather` has the samples, the second the scores of both.
    other = RewardEngine(RUBRIC, attributes=["markdown"])

    def gather(mine):
        (value, failure) = mine[0]
        if isinstance(value, list):
            return [(samples[:3], None), (samples[3:], None)]
        groups = [Group(id=f"0/{i}", rollouts=tuple(s.rollout for s in samples[2 * i : 2 * i + 2])) for i in range(3)]
        graded.append(other.grade(groups[1::2], step=0))
        return [(value, failure), (graded[0], None)]

    measured.clear()
    engine = RewardEngine(RUBRIC, attributes=["markdown"])
    first = score_flat(
        engine, samples[:3], step=0, group_of=by_position(2), processes=Processes(gather, rank=0, world=2)
    )
    assert measured == [4, 2]
    np.testing.assert_array_equal(first.rewards, alone.rewards[:3])
    metrics = {name: v for name, v in first.metrics.items() if "seconds" not in name and "share" not in name}
    assert metrics == {name: alone.metrics[name] for name in metrics}
