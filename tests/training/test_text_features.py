"""Texts of a step are measured once, and wherever they are measured."""

from __future__ import annotations

import numpy as np

import rubrank
from rubrank.fusion.control.attribute import Attribute
from rubrank.fusion.control.length import lengths
from rubrank.rollouts.rollout import Rollout
from rubrank.training.controls import Control, measure_texts, parse_controls, select_active_controls

TEXTS = ("<think>One two.</think># Three", "four five six", "", "<think>cut off", "- a\n- b **c**")
SAID = [Rollout(prompt="p", response=text) for text in TEXTS]
RUBRIC = [{"name": "Words", "verifier": "WordCount", "params": {"low": 2}}]


def shouting(text: str) -> int:
    return sum(map(str.isupper, text))


OWN = Attribute("shouts", ("shouts",), lambda texts: np.array([[shouting(text)] for text in texts]))


def test_values_are_those_of_the_attributes():
    controls = parse_controls(["reasoning_length", "markdown", "total_length", OWN, Control("answer_length", start=9)])
    features = measure_texts(SAID)
    found = select_active_controls(controls, features, SAID, 3)
    expected, columns = rubrank.measure(TEXTS, ["reasoning_length", "markdown", "total_length", OWN])
    np.testing.assert_array_equal(found.values_MD, expected)
    assert found.columns == columns
    assert select_active_controls(controls, measure_texts(SAID), SAID, 9).values_MD.shape[1] == expected.shape[1] + 1


def test_reasoning_of_its_own_field_is_taken_as_it_is():
    said = [Rollout(prompt="p", response="An answer </think> here", reasoning="I <think> so")]
    np.testing.assert_array_equal(measure_texts(said).words, [[3, 4]])
    assert lengths(["x"], reasoning=["I so"]).reasoning[0] == 2
