"""Ordinary mistakes in a rubric are errors wherever it is read: nobody is paid to answer "WordCount"."""

from __future__ import annotations

import json

import pytest

from rubrank import grade, load_rubric
from rubrank.errors import InvalidInput
from rubrank.rubrics.checks import check_file
from rubrank.rubrics.public import to_rubric
from rubrank.training.engine import RewardEngine

SLIPS = [
    ({"name": "WordCount", "param": {"count": 3}}, "params"),
    ({"name": "WordCount", "params": {"count": 3}, "wieght": 2}, "weight"),
    ({"name": "WordCount", "parameters": {"count": 3}}, "params"),
    ({"name": "Postscript", "weigth": 2}, "weight"),
    ({"name": "Polite", "question": "Is it polite?", "wieght": 2}, "weight"),
    ({"question": "Is it polite?", "wieght": 2}, "weight"),
    ({"criterion": "Is it polite?", "wieght": 2}, "weight"),
    ({"title": "Polite", "description": "Is it polite?", "weigh": 2}, "weight"),
    ({"criterion": "Is it polite?", "pionts": 2}, "points"),
    ({"criterion": "Is it polite?", "directoin": "lower"}, "direction"),
    ({"name": "Postscript", "verifer": "WordCount"}, "verifier"),
]


def everywhere(tmp_path, criterion):
    """The same criterion through every way in."""
    path, rows = tmp_path / "r.json", tmp_path / "rows.jsonl"
    path.write_text(json.dumps({"criteria": [criterion]}))
    row = {"prompt": "p", "response": "r", "rubric": [criterion]}
    rows.write_text(json.dumps(row))
    yield lambda: to_rubric([criterion])
    yield lambda: to_rubric(str(path))
    yield lambda: grade([{"prompt": "p", "response": "r"}], str(path), workers=0)
    yield lambda: grade([row], workers=0)
    yield lambda: RewardEngine([criterion])


@pytest.mark.parametrize(("criterion", "meant"), SLIPS)
def test_a_misspelt_key_is_an_error_everywhere(tmp_path, criterion, meant):
    for read in everywhere(tmp_path, criterion):
        with pytest.raises(InvalidInput, match=f"Did you mean '{meant}'"):
            read()
    for name in ("r.json", "rows.jsonl"):
        assert any(f"Did you mean '{meant}'" in str(problem) for problem in check_file(tmp_path / name))


@pytest.mark.parametrize("name", ["WordCuont", "Wordcount", "keywords:existense", "CoreIntentMatsh"])
def test_a_misspelt_name_is_no_question(name):
    for data in ([name], [{"criterion": name}], {"criteria": [{"name": name}]}):
        with pytest.raises(InvalidInput, match="verifier must be the name of a verifier"):
            to_rubric(data)


@pytest.mark.parametrize("weight", [[1], {"low": 1}, True], ids=str)
@pytest.mark.parametrize("key", ["weight", "points", "score"])
def test_a_weight_of_public_data_that_is_no_number_is_told(tmp_path, key, weight):
    criterion = {"criterion": "Is it polite?", key: weight}
    with pytest.raises(InvalidInput, match="weight must be a number"):
        to_rubric([criterion])
    (tmp_path / "r.json").write_text(json.dumps({"criteria": [criterion]}))
    assert any("weight must be a number" in str(problem) for problem in check_file(tmp_path / "r.json"))


@pytest.mark.parametrize("tags", [5, "axis:tone", {"axis": "tone"}], ids=str)
def test_tags_of_public_data_that_are_no_list_are_ignored(tags):
    (criterion,) = to_rubric([{"criterion": "Is it polite?", "tags": tags}]).criteria
    assert criterion.category is None


def test_what_public_data_adds_is_no_slip():
    rubric = to_rubric([{"criterion": "Is it polite?", "points": -3, "tags": ["axis:tone"], "source": "x", "id": 7}])
    assert rubric.criteria[0].points == -3
    assert rubric.criteria[0].direction == "lower"


def test_what_a_foreign_shape_says_about_a_criterion_is_kept():
    criterion = to_rubric([{"criterion": "Is it polite?", "domain": "ternary", "layer": "low_quality"}]).criteria[0]
    assert criterion.domain == "ternary"
    assert criterion.layer == "low_quality"
    assert criterion.question == "Is it polite?"


def test_a_name_of_the_library_is_asked_by_its_own_prompt():
    criterion = to_rubric(["CoreIntentMatch"]).criteria[0]
    assert criterion.judged
    assert criterion.question is None
    assert to_rubric([{"criterion": "WordCount", "params": {"count": 3}}]).criteria[0].decided_by.name == "WordCount"


IMPOSSIBLE = [
    "WordCount",
    {"name": "BulletCount"},
    {"name": "WordCount", "params": {"relation": "at least"}},
    {"name": "WordCount", "params": {"count": 10**12}},
    {"name": "WordCount", "params": {"count": -3}},
    {"name": "WordCount", "params": {"low": 9, "high": 3}},
    {"name": "WordCount", "params": {"count": 5, "low": 1}},
    {"name": "WordCount", "params": {"relation": "less than", "count": 0}},
    {"name": "length_constraints:number_words", "params": {"num_words": -5}},
    {"name": "length_constraints:number_words", "params": {"num_words": 3e12}},
    {"name": "count:counting_composition", "params": {"n_sent": 300_000_000, "n_words": 3}},
    {"name": "ratio:overlap", "params": {"percentage": float("nan"), "reference_text": "x"}},
    {"name": "LetterFrequency", "params": {"letter": "ab", "count": 2}},
    {"name": "ForbiddenContent"},
    {"name": "ForbiddenContent", "params": {"patterns": ["(unclosed"]}},
    {"name": "ConstrainedWriting", "params": {"kind": "lipogram"}},
    {"name": "LanguageRequirement", "params": {"language": "Klingon"}},
    {"name": "Postscript", "weight": 1e300},
    {"name": "Postscript", "weight": float("inf")},
    {"name": "Postscript", "margin": 1},
    {"name": "Polite", "question": "Is it polite?", "points": 1e200},
    {"name": "   ", "question": "Is it polite?"},
    {"name": "\u200b", "question": "Is it polite?"},
    {"name": "Polite", "question": " \n"},
]


@pytest.mark.parametrize("criterion", IMPOSSIBLE)
def test_what_no_response_can_meet_is_found_before_anything_is_graded(tmp_path, criterion):
    path = tmp_path / "r.json"
    path.write_text(json.dumps({"criteria": [criterion]}))
    assert check_file(path)
    with pytest.raises(InvalidInput):
        load_rubric(path)
    with pytest.raises(InvalidInput):
        grade([{"prompt": "p", "response": "r"}], str(path), workers=0)


def test_an_unknown_preset_does_not_hide_other_mistakes(tmp_path):
    path = tmp_path / "r.yaml"
    path.write_text(
        "extends: [gatez, gates]\ncriteria:\n"
        "  - {name: A, question: '?', wieght: 2, depends: [Elsewhere]}\n  - WordCount\n"
    )
    found = [str(problem) for problem in check_file(path)]
    assert len(found) == 3
    assert any("Did you mean 'gates'" in text for text in found)
    with pytest.raises(InvalidInput) as error:
        load_rubric(path)
    for part in ("Did you mean 'gates'", "Did you mean 'weight'", "`count`, or `low` and `high`"):
        assert part in str(error.value)
    assert "Elsewhere" not in str(error.value)


def test_all_mistakes_of_a_rubric_are_named_at_once():
    with pytest.raises(InvalidInput) as error:
        to_rubric([{"name": "A", "question": "?", "weight": -1, "colour": 3}, {"name": "B", "verifier": "Nobody"}])
    for part in ("weight", "colour", "Nobody"):
        assert part in str(error.value)
    assert "\n" not in str(error.value)


def test_all_wrong_parameters_of_a_verifier_are_named_at_once():
    with pytest.raises(InvalidInput) as error:
        to_rubric([{"name": "WordCount", "params": {"count": -1, "unit": "parsecs"}}])
    assert "count" in str(error.value)
    assert "Also: unit must be" in str(error.value)


@pytest.mark.parametrize("pattern", ["a(?=b)", r"(a)\1", "[", "a{2,1}", "(?P<x", "*"])
def test_a_pattern_that_cannot_be_read_is_refused_with_the_rubric(pattern):
    rubric = [{"name": "Id", "verifier": "Regex", "params": {"pattern": pattern}}]
    with pytest.raises(InvalidInput, match="pattern that RE2 can read"):
        to_rubric(rubric)


@pytest.mark.parametrize("arguments", ["{broken", "no_such_file.json"])
def test_arguments_of_an_instruction_that_cannot_be_read_are_told(arguments):
    with pytest.raises(InvalidInput):
        to_rubric({"instruction_id_list": ["punctuation:no_comma"], "kwargs": [arguments]})


@pytest.mark.parametrize("ids", ["punctuation:no_comma", "gates", "ids.json", "7", '{"a": 1}', '"a:b"'])
def test_a_list_of_instructions_that_is_a_text_is_never_opened_as_a_file(ids, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ids.json").write_text('["punctuation:no_comma"]')
    with pytest.raises(InvalidInput, match="instruction_id_list must be a list of ids") as error:
        to_rubric({"instruction_id_list": ids, "kwargs": [{}]})
    assert repr(ids) in str(error.value)


@pytest.mark.parametrize("kwargs", ["kwargs.json", ["arguments.json"], "gates", ["gates"], 7, [7]])
def test_arguments_of_instructions_are_never_opened_as_files(kwargs, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "kwargs.json").write_text("[{}]")
    (tmp_path / "arguments.json").write_text('{"criteria": ["EmptyAnswer"]}')
    with pytest.raises(InvalidInput, match="kwargs must be a list"):
        to_rubric({"instruction_id_list": ["punctuation:no_comma"], "kwargs": kwargs})


@pytest.mark.parametrize("kwargs", [None, "null", "[]", "[{}]", "[null]", ["{}"], [None], [{}]])
def test_instructions_may_be_written_as_json(kwargs):
    rubric = to_rubric({"instruction_id_list": '["punctuation:no_comma"]', "kwargs": kwargs})
    assert [criterion.name for criterion in rubric.criteria] == ["punctuation:no_comma"]
