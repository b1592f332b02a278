"""Rubrics: the schema, the files, presets, and one clear message for each mistake."""

from __future__ import annotations

import json

import jsonschema
import pytest
import yaml
from cases import folded

import rubrank.verifiers.gates.empty
import rubrank.verifiers.gates.legibility
import rubrank.verifiers.paper.format
import rubrank.verifiers.paper.length  # noqa: F401 - registers WordCount and others
from rubrank.errors import InvalidInput, UnknownName
from rubrank.rubrics.checks import check_file
from rubrank.rubrics.files import load_yaml, presets
from rubrank.rubrics.public import to_rubric
from rubrank.rubrics.rubric import Criterion, Rubric, json_schema, load_rubric, parse_rubric

ESSAY = """
id: essay
version: 3
criteria:
  - name: WordCount
    params: {relation: at least, count: 300}
  - name: Structure
    verifier: ParagraphCount
    params: {relation: exactly, count: 3}
    weight: 2
    margin: 0.1
    depends: [{on: WordCount, kind: strong}]
  - name: Persuasive
    question: Would a sceptical reader be moved?
    domain: [0, 0.5, 1]
    category: Essential
    tier: 1
"""


def essay() -> Rubric:
    return parse_rubric(load_yaml(ESSAY), "essay.yaml")


@pytest.mark.parametrize("wrapped", [False, True])
@pytest.mark.parametrize("text", ["Is it polite?", "Names the source", "回答有礼貌"])
def test_a_text_alone_is_a_name_or_a_question_wherever_it_stands(text, wrapped, tmp_path):
    given = {"criteria": ["EmptyAnswer", text]} if wrapped else ["EmptyAnswer", text]
    (tmp_path / "r.json").write_text(json.dumps(given))
    for rubric in (load_rubric(given), load_rubric(tmp_path / "r.json"), to_rubric(given)):
        assert [(c.name, c.question) for c in rubric.criteria] == [("EmptyAnswer", None), (text, text)]
    for read in (load_rubric, to_rubric):
        with pytest.raises(InvalidInput, match="Did you mean 'EmptyAnswer'"):
            read({"criteria": ["EmptyAnswr"]} if wrapped else ["EmptyAnswr"])


def test_an_unknown_word_is_a_slip_in_our_own_shape_and_a_question_in_a_bare_list(tmp_path):
    (tmp_path / "r.yaml").write_text("- Polite\n- EmptyAnswer\n")
    for rubric in (load_rubric(["Polite"]), to_rubric(["Polite"]), load_rubric(tmp_path / "r.yaml")):
        assert rubric["Polite"].question == "Polite"
    for read in (load_rubric, to_rubric):
        with pytest.raises(InvalidInput, match="or write a question"):
            read({"criteria": ["Polite"]})


def test_a_rubric_says_what_it_holds():
    rubric = essay()
    assert (rubric.id, rubric.version, rubric.names) == ("essay", 3, ("WordCount", "Structure", "Persuasive"))
    structure = rubric["Structure"]
    assert structure.decided_by.name == "ParagraphCount"
    assert (structure.weight, structure.margin, structure.depends[0].kind) == (2.0, 0.1, "strong")
    assert not structure.judged
    assert rubric["Persuasive"].judged
    assert rubric["Persuasive"].value_domain.values == (0.0, 0.5, 1.0)


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_files_round_trip(tmp_path, suffix):
    data = essay().model_dump(mode="json", exclude_defaults=True)
    text = json.dumps(data) if suffix == ".json" else yaml.safe_dump(data, sort_keys=False)
    (tmp_path / f"essay{suffix}").write_text(text)
    assert load_rubric(tmp_path / f"essay{suffix}") == essay()
    assert load_rubric(str(tmp_path / f"essay{suffix}")) == essay()


def test_toml_is_the_same_schema(tmp_path):
    path = tmp_path / "essay.toml"
    path.write_text('id = "essay"\n[[criteria]]\nname = "WordCount"\nparams = {relation = "at least", count = 300}\n')
    assert load_rubric(path)["WordCount"].params == {"relation": "at least", "count": 300}


def test_yes_no_and_on_are_words():
    assert load_yaml("options: [yes, no, on, off, true]\non: x") == {
        "options": ["yes", "no", "on", "off", True],
        "on": "x",
    }


def test_a_key_given_twice_is_refused(tmp_path):
    path = tmp_path / "twice.yaml"
    path.write_text("id: a\nid: b\ncriteria: [EmptyAnswer]\n")
    with pytest.raises(InvalidInput, match="id given twice"):
        load_rubric(path)


def test_a_name_alone_is_a_criterion():
    assert parse_rubric(["EmptyAnswer", "Truncated"], "list").names == ("EmptyAnswer", "Truncated")


def test_a_question_alone_is_a_criterion():
    (criterion,) = parse_rubric([{"question": "Is it kind?"}], "list").criteria
    assert (criterion.name, criterion.judged) == ("Is it kind?", True)


def test_points_that_are_written_as_text_say_weight_and_direction_too():
    criterion = Criterion(name="Rude", question="Is it rude?", points="-5")
    assert (criterion.points, criterion.weight, criterion.direction) == (-5.0, 5.0, "lower")


@pytest.mark.parametrize("field", ["points", "weight"])
def test_a_number_that_is_too_large_for_a_float_is_refused(field):
    with pytest.raises(InvalidInput, match=f"{field} must be a number"):
        load_rubric([{"name": "Polite", "question": "Is it polite?", field: 10**400}])


def test_points_say_weight_and_direction():
    bad = Criterion(name="Invents a dose", question="Is a dose invented?", points=-4)
    assert (bad.weight, bad.direction) == (4.0, "lower")
    good = Criterion(name="Gives the dose", question="Is the dose given?", points=3, weight=1)
    assert (good.weight, good.direction) == (1.0, "higher")


def test_the_layer_is_the_verifiers_unless_given():
    assert Criterion(name="EmptyAnswer").value_layer == "global_quality"
    assert Criterion(name="EmptyAnswer", layer="quality").value_layer == "quality"
    assert Criterion(name="Polite", question="Is it polite?").value_layer == "quality"


def test_names_that_judges_decide_need_no_question():
    intent = Criterion(name="CoreIntentMatch")
    assert intent.judged
    assert Criterion(name="CoreFactAccuracy").value_domain.kind == "ternary"
    assert Criterion(name="LogicalError").value_layer == "low_quality"


# ---------------------------------------------------------------------------------------------------------- extending


def test_extends_a_preset_and_replaces_by_name():
    rubric = parse_rubric({"extends": "gates", "criteria": [{"name": "Truncated", "weight": 5}, "Postscript"]}, "r")
    assert set(load_rubric("gates").names) < set(rubric.names)
    assert rubric["Truncated"].weight == 5
    assert rubric.names[-2:] == ("Truncated", "Postscript")


@pytest.mark.parametrize("name", presets())
def test_every_preset_loads_without_problems_and_stops_broken_output(name):
    rubric = load_rubric(name)
    assert rubric.id == name
    assert set(load_rubric("gates").names) <= set(rubric.names)
    assert check_file(name) == []


@pytest.mark.parametrize("name", ["agent", "chat", "code", "long-context", "maths"])
def test_presets_of_tasks_rank_by_something_besides_gates(name):
    assert any(criterion.value_layer == "quality" for criterion in load_rubric(name).criteria)


def test_extends_a_file_beside_it(tmp_path):
    (tmp_path / "base").mkdir()
    (tmp_path / "base" / "base.yaml").write_text("extends: [gates]\ncriteria: [Postscript]\n")
    (tmp_path / "own.yaml").write_text("extends: base/base.yaml\ncriteria: [TitleFormat]\n")
    for path in (tmp_path / "own.yaml", str(tmp_path / "own.yaml")):
        assert {"EmptyAnswer", "Postscript", "TitleFormat"} <= set(load_rubric(path).names)


def test_a_circle_of_files_is_refused(tmp_path):
    (tmp_path / "a.yaml").write_text("extends: b.yaml\ncriteria: [Postscript]\n")
    (tmp_path / "b.yaml").write_text("extends: a.yaml\ncriteria: [SentenceCount]\n")
    with pytest.raises(InvalidInput, match="without a cycle"):
        load_rubric(tmp_path / "a.yaml")


def test_a_key_given_twice_in_json_is_refused(tmp_path):
    path = tmp_path / "twice.json"
    path.write_text('{"criteria": [{"name": "WordCount", "params": {"low": 2, "low": 3}}]}', encoding="utf-8")
    with pytest.raises(InvalidInput, match="the key 'low' twice"):
        load_rubric(path)


@pytest.mark.parametrize("name", ["facts", "Facts ", "Ｆacts", "Fa\u200bcts"])
def test_names_that_look_alike_are_refused(tmp_path, name):
    rubric = {"criteria": [{"name": "Facts", "question": "True?"}, {"name": name, "question": "Complete?"}]}
    with pytest.raises(InvalidInput, match=r"different in more than case and spaces; got .* beside 'Facts'"):
        load_rubric(rubric)
    path = tmp_path / "similar.json"
    path.write_text(json.dumps(rubric), encoding="utf-8")
    (problem,) = check_file(path)
    assert "different in more than case and spaces" in problem.message


def test_what_is_given_twice_is_seen_although_it_extends():
    with pytest.raises(InvalidInput, match="'Postscript': name must be given once"):
        parse_rubric({"extends": "gates", "criteria": ["Postscript", "Postscript"]}, "r")


def test_extended_adds_and_replaces():
    both = essay().extended(parse_rubric([{"name": "WordCount", "params": {"count": 5}}, "Postscript"], "more"))
    assert both.names == ("WordCount", "Structure", "Persuasive", "Postscript")
    assert both["WordCount"].params == {"count": 5}


# -------------------------------------------------------------------------------------------------------------- errors


@folded(
    ("criterion", "says"),
    [
        ({"name": "Wordcount"}, "Did you mean 'WordCount'"),
        ({"name": "A", "verifier": "Nothing like it"}, "verifier must be the name of a verifier"),
        ({"name": "A", "verifier": "WordCount", "params": {"relation": "roughly"}}, "criterion 'A'.*relation"),
        ({"name": "A", "verifier": "WordCount", "params": {"words": 3}}, "it has the parameters: relation, count"),
        ({"name": "A", "verifier": "WordCount", "question": "Long?"}, "left out where a verifier decides"),
        ({"name": "A", "question": "?", "weight": 0}, "weight must be > 0"),
        ({"name": "A", "question": "?", "weight": float("nan")}, "finite"),
        ({"name": "A", "question": "?", "margin": -1}, "margin must be ≥ 0"),
        ({"name": "A", "question": "?", "points": 0, "weight": 0}, "points must be a number other than 0"),
        ({"name": "A", "question": "?", "domain": "tri"}, "'binary', 'ternary'"),
        ({"name": "A", "question": "?", "domain": [1]}, "two or more different values"),
        ({"name": "A", "question": "?", "domain": {"low": 2, "high": 1}}, "low < high"),
        ({"name": "A", "question": "?", "domain": {"lo": 2}}, "low < high"),
        ({"name": "A", "question": "?", "direction": "up"}, "higher"),
        ({"name": "A", "question": "?", "wieght": 1}, "Did you mean 'weight'"),
        ({"name": "A", "question": "?", "xyz": 1}, "Known: name, verifier"),
        ({"name": ""}, "a text that can be read"),
        ({"name": "A", "question": "?", "depends": "B"}, "one of 'A'"),
        ({"name": "A", "question": "?", "depends": "A"}, "without cycles; got A → A"),
        ({"name": "A", "question": "?", "depends": ["A", {"on": "A", "kind": "strong"}]}, "'A' twice"),
    ],
)
def test_one_message_for_each_mistake(criterion, says):
    with pytest.raises(InvalidInput, match=says) as caught:
        parse_rubric({"criteria": [criterion]}, "essay.yaml")
    assert str(caught.value).startswith("essay.yaml")
    assert "\n" not in str(caught.value)


@folded("data", [3, "text", {"criteria": []}, {"id": "x"}, {"criteria": "WordCount"}, None])
def test_what_is_no_rubric_is_refused(data):
    with pytest.raises(InvalidInput):
        parse_rubric(data, "r")


def test_a_long_circle_is_named():
    data = [{"name": n, "question": "?", "depends": [on]} for n, on in (("A", "B"), ("B", "C"), ("C", "A"))]
    with pytest.raises(InvalidInput, match="without cycles; got"):
        parse_rubric(data, "r")


def test_files_that_cannot_be_read(tmp_path):
    (tmp_path / "broken.yaml").write_text("criteria: [")
    (tmp_path / "broken.json").write_text("{")
    (tmp_path / "rubric.txt").write_text("")
    for name in ("broken.yaml", "broken.json", "rubric.txt", "missing.yaml"):
        with pytest.raises(InvalidInput):
            load_rubric(tmp_path / name)


def test_an_unknown_criterion_is_an_error():
    with pytest.raises(UnknownName, match="Structure"):
        essay()["Structur"]


# -------------------------------------------------------------------------------------------------------- JSON Schema


def test_the_json_schema_accepts_what_loads():
    schema = json_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(json.loads(json.dumps(schema)))
    for text in (ESSAY, "extends: gates", "criteria: [EmptyAnswer, {name: A, question: B, depends: EmptyAnswer}]"):
        assert not list(validator.iter_errors(yaml.safe_load(text.replace("{on:", "{'on':"))))


@pytest.mark.parametrize(
    "data",
    [
        {"id": "x"},
        {"criteria": [{"name": "A", "weight": -1}]},
        {"criteria": [{"name": "A", "unknown": 1}]},
        {"criteria": [{"name": "A", "layer": "top"}]},
    ],
)
def test_the_json_schema_refuses_what_does_not(data):
    assert list(jsonschema.Draft202012Validator(json_schema()).iter_errors(data))


def test_a_judge_can_be_asked_for():
    assert Criterion(name="SummaryRecall", verifier="judge").judged
    assert not Criterion(name="SummaryRecall", params={"points": ["a"]}).judged
    assert Criterion(name="Verbosity", verifier="judge").judged
    assert Criterion(name="Own", verifier="judge", question="Is it kind?").judged
    with pytest.raises(ValueError, match="no prompt of the library has that name"):
        Criterion(name="WordCount", verifier="judge")


def test_inherited_criteria_without_names_are_kept(tmp_path):
    inherited = "- question: Is it polite?\n- Is it short?\n- question: Is it right?\n  weight: 3\n"
    (tmp_path / "base.yaml").write_text(f"criteria:\n{inherited}")
    (tmp_path / "top.yaml").write_text("extends: base.yaml\ncriteria:\n- question: Is it right?\n  weight: 2\n")
    rubric = load_rubric(str(tmp_path / "top.yaml"))
    assert rubric.names == ("Is it polite?", "Is it short?", "Is it right?")
    assert rubric["Is it right?"].weight == 2
