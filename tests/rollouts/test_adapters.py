"""Public shapes of rubrics and rollouts."""

from __future__ import annotations

import json

import pytest
from cases import folded

import rubrank.verifiers.instructions.ifeval_format
import rubrank.verifiers.instructions.ifeval_words
import rubrank.verifiers.paper.length  # noqa: F401 - all register verifiers
from rubrank.errors import InvalidInput
from rubrank.rubrics.public import CATEGORY_WEIGHTS, to_rubric
from rubrank.rubrics.rubric import parse_rubric


def test_ifeval_rows():
    row = {
        "instruction_id_list": ["en:punctuation:no_comma", "length_constraints:number_words"],
        "kwargs": [{"num_words": None}, {"num_words": 30, "relation": "at least", "keywords": None}],
    }
    rubric = to_rubric(row)
    assert rubric.names == ("en:punctuation:no_comma", "length_constraints:number_words")
    assert [c.decided_by.name for c in rubric.criteria] == ["punctuation:no_comma", "length_constraints:number_words"]
    assert rubric.criteria[1].params == {"num_words": 30, "relation": "at least"}


def test_ifeval_rows_as_text_without_kwargs_and_with_an_id_twice():
    ids = ["keywords:existence", "keywords:existence"]
    kwargs = json.dumps([{"keywords": ["a"]}, {"keywords": ["b"]}])
    rubric = to_rubric({"instruction_id_list": json.dumps(ids), "kwargs": kwargs})
    assert rubric.names == ("keywords:existence", "keywords:existence (2)")
    assert rubric.criteria[1].decided_by.name == "keywords:existence"
    assert to_rubric({"instruction_id_list": ["punctuation:no_comma"]}).names == ("punctuation:no_comma",)


def test_ifeval_rows_that_are_wrong():
    with pytest.raises(InvalidInput, match="one for each instruction"):
        to_rubric({"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}, {}]})
    with pytest.raises(InvalidInput, match="nothing:like_it"):
        to_rubric({"instruction_id_list": ["nothing:like_it"], "kwargs": [{}]})


def test_healthbench():
    rubric = to_rubric(
        [
            {"criterion": "Advises to call a doctor", "points": 7, "tags": ["level:example", "axis:completeness"]},
            {"criterion": "Recommends a dose without asking", "points": -5, "tags": ["axis:accuracy"]},
        ]
    )
    good, bad = rubric.criteria
    assert (good.question, good.weight, good.direction, good.category) == (
        "Advises to call a doctor",
        7.0,
        "higher",
        "completeness",
    )
    assert (bad.weight, bad.direction, bad.points, bad.category) == (5.0, "lower", -5.0, "accuracy")


def test_rar():
    rubric = to_rubric(
        [
            {"title": "Dose", "description": "Essential Criteria: Gives the dose.", "weight": 5},
            {"title": "Scare", "description": "Pitfall Criteria: Frightens the reader.", "weight": -1},
            {"title": "Tone", "description": "Optional Criteria: Is kind."},
            {"title": "Safe", "description": "Avoids wrong advice.", "category": "Pitfall"},
        ]
    )
    dose, scare, tone, safe = rubric.criteria
    assert (dose.name, dose.question, dose.category, dose.weight) == ("Dose", "Gives the dose.", "Essential", 5.0)
    assert (scare.category, scare.weight, scare.direction) == ("Pitfall", 1.0, "lower")
    assert (tone.category, tone.weight) == ("Optional", CATEGORY_WEIGHTS["Optional"])
    # Without a sign a pitfall is worded as what is good: "avoids …".
    assert (safe.weight, safe.direction) == (CATEGORY_WEIGHTS["Pitfall"], "higher")


def test_lists_of_anything():
    rubric = to_rubric(
        [
            {"criterion": "Names the source", "weight": 2},
            {"criterion": "Names the source", "importance": "Important"},
            "Is polite",
            "Postscript",
            {"name": "Short", "verifier": "WordCount", "params": {"high": 50}},
        ]
    )
    assert rubric.names == ("Names the source", "Names the source (2)", "Is polite", "Postscript", "Short")
    assert [c.weight for c in rubric.criteria[:2]] == [2.0, 0.7]
    assert [c.judged for c in rubric.criteria] == [True, True, True, False, False]
    assert rubric.criteria[1].question == "Names the source"


def test_long_texts_get_short_names():
    text = "The answer " + "really " * 50 + "helps"
    (criterion,) = to_rubric([text]).criteria
    assert len(criterion.name) <= 80
    assert criterion.question == text


def test_nulls_of_a_table_are_not_there():
    item = {
        "name": "Short",
        "verifier": "WordCount",
        "params": {"high": 50, "low": None},
        "question": None,
        "tier": None,
    }
    (criterion,) = to_rubric([item]).criteria
    assert criterion.params == {"high": 50}


def test_our_own_shape_as_mapping_text_preset_and_file(tmp_path):
    data = {"id": "x", "criteria": [{"name": "WordCount", "params": {"low": 5}}]}
    rubric = parse_rubric(data, "x")
    (tmp_path / "x.yaml").write_text(json.dumps(data))
    for shape in (rubric, data, json.dumps(data), {"rubric": data}, str(tmp_path / "x.yaml")):
        assert to_rubric(shape).criteria == rubric.criteria


def test_a_file_of_a_public_shape(tmp_path):
    (tmp_path / "h.json").write_text('[{"criterion": "Calls a doctor", "points": 7}]')
    assert to_rubric(str(tmp_path / "h.json"))["Calls a doctor"].weight == 7


@folded("data", [3, "no such thing", '{"a"', {"weights": []}, [{"points": 3}], [3], [{"criterion": "a", "weight": 0}]])
def test_what_is_no_rubric(data):
    with pytest.raises(InvalidInput) as caught:
        to_rubric(data, "row 3")
    assert "\n" not in str(caught.value)
