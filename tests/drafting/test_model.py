"""What a model adds to the rules is verified: schema, evidence, parameters, words entailed, texts told apart."""

import json

import jsonschema
import pytest
from judges.server import MODEL, Answer, Server

from rubrank.drafting.draft import Author, DraftedItem, DraftedRubric
from rubrank.drafting.model import COMPILABLE, find_with_model, make_schema
from rubrank.drafting.pipeline import PromptRow, draft_rubrics
from rubrank.drafting.writers import load_templates, load_writers

pytest.importorskip("aiohttp", reason="pip install 'rubrank[judge]'")

PROMPT = 'Tell me about tides, as an enumeration with numerals in front. My note says "use at most 9 words".'
NUMBERED = {
    "verifier": "FormatRequirement",
    "params": {"format": "numbered", "only": False},
    "evidence": "as an enumeration with numerals in front",
}
TEXTS = {"passing": "1. The moon pulls.\n2. The sea rises.", "failing": "The moon pulls, and the sea rises."}


def script(constraints, library=(), entailed=True, texts=TEXTS):
    """A model that names these constraints, and checks them in this way."""

    def answer(asked):
        prompt = asked.prompt
        if prompt.startswith("You read a request"):
            return Answer(json.dumps({"constraints": constraints, "library": list(library)}))
        if prompt.startswith("Does a request ask"):
            return Answer(json.dumps({"entailed": entailed}))
        if prompt.startswith("Write two short texts"):
            return Answer(json.dumps(texts))
        return Answer(json.dumps({"items": [], "text": ""}))

    return answer


def writers_at(tmp_path, server):
    path = tmp_path / "writers.json"
    entry = {"name": "w", "endpoints": [{"base_url": server.url, "model": MODEL}]}
    path.write_text(json.dumps({"judges": [entry]}))
    return load_writers(path)


def find(tmp_path, constraints, prompt=PROMPT, compiled=(), **answers):
    with Server(script(constraints, **answers)) as server:
        items = [DraftedItem({"name": name}, "compiled") for name in compiled]
        rubric = DraftedRubric(prompt, "chat", items)
        (found,) = find_with_model([rubric], writers_at(tmp_path, server), load_templates())[0]
        bodies = [asked.body for asked in server.completions]
    return found, bodies


def test_a_constraint_that_the_rules_miss_is_used_after_the_round_trip(tmp_path):
    found, bodies = find(tmp_path, [NUMBERED])
    (constraint,) = found.items
    assert constraint.reason == ""
    assert constraint.author == Author("w", MODEL, "2")
    assert constraint.figures == TEXTS
    # The reply is bound to the schema of the criteria.
    assert bodies[0]["response_format"]["json_schema"]["schema"] == json.loads(json.dumps(make_schema()))
    # The demand is said in words, and the texts are made from the prompt's own words, not from the parameters.
    assert "in the format numbered" in bodies[1]["messages"][0]["content"]
    assert NUMBERED["evidence"] in bodies[2]["messages"][0]["content"]
    assert "FormatRequirement" not in bodies[2]["messages"][0]["content"]


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"verifier": "os.system"}, "not one of the verifiers that a model may name"),
        ({"verifier": "Regex", "params": {"pattern": "."}}, "not one of the verifiers that a model may name"),
        ({"params": {"format": "interpretive dance"}}, "the parameters do not fit"),
        ({"params": {"format": "numbered", "always": True}}, "the parameters do not fit"),
        ({"evidence": "in a numbered list"}, "the quoted words do not occur in the prompt"),
        ({"evidence": ""}, "the quoted words do not occur in the prompt"),
        (
            {"verifier": "WordCount", "params": {"relation": "at most", "count": 9}, "evidence": "use at most 9 words"},
            "occur in a quotation",
        ),
        (
            {"verifier": "BulletCount", "params": {"relation": "exactly", "count": 12}},
            "the prompt does not say count 12",
        ),
    ],
)
def test_what_a_model_makes_up_is_refused_without_another_call(tmp_path, change, reason):
    found, bodies = find(tmp_path, [{**NUMBERED, **change}])
    assert reason in found.items[0].reason
    assert len(bodies) == 1


def test_words_that_are_not_entailed_and_texts_that_look_alike_refuse(tmp_path):
    found, _ = find(tmp_path, [NUMBERED], entailed=False)
    assert found.items[0].reason.startswith("the checker says that the prompt does not ask for: ")
    found, _ = find(tmp_path, [NUMBERED], entailed="true")
    assert found.items[0].reason, "only the JSON value true is a yes"
    found, _ = find(tmp_path, [NUMBERED], texts={"passing": "Moon.", "failing": "Sea."})
    assert "gives 0 to a text that fulfils it" in found.items[0].reason
    found, _ = find(tmp_path, [NUMBERED], texts={"passing": TEXTS["passing"], "failing": TEXTS["passing"]})
    assert "1 to one that does not" in found.items[0].reason
    found, _ = find(tmp_path, [NUMBERED], texts={"passing": 3})
    assert found.items[0].reason == "the checker did not write a text that fulfils it and one that does not"


def test_a_wrong_number_shows_in_the_texts(tmp_path):
    prompt = "Two or three lines suffice; let there be 5 entries with dashes."
    entry = {
        "verifier": "BulletCount",
        "params": {"relation": "exactly", "count": 4},
        "evidence": "let there be 5 entries with dashes",
    }
    texts = {"passing": "- a\n- b\n- c\n- d\n- e", "failing": "- a"}
    found, _ = find(tmp_path, [entry], prompt, texts=texts)
    assert "gives 0 to a text that fulfils it" in found.items[0].reason
    right = {**entry, "params": {"relation": "exactly", "count": 5}}
    found, _ = find(tmp_path, [right], prompt, texts=texts)
    assert found.items[0].reason == ""


def test_what_the_rules_compiled_is_not_added_again(tmp_path):
    entry = {"verifier": "WordCount", "params": {"relation": "at most", "count": 30}, "evidence": "at most 30 words"}
    found, _ = find(tmp_path, [entry], "Explain tides in at most 30 words.", ["at most 30 words"])
    assert found.items[0].reason == "the rules compiled it"


@pytest.mark.parametrize(
    "text", ["no JSON", "[]", '{"constraints": 3, "library": "x"}', '{"constraints": ["x", null]}']
)
def test_broken_replies_give_nothing(tmp_path, text):
    with Server([Answer(text)]) as server:
        rubric = DraftedRubric(PROMPT, "chat", [])
        (found,) = find_with_model([rubric], writers_at(tmp_path, server), load_templates())[0]
    assert not found.items


def test_the_pipeline_adds_what_was_found_with_its_provenance(tmp_path):
    with Server(script([NUMBERED, {**NUMBERED, "evidence": "nowhere"}], ["LogicalError", "Invented"])) as server:
        result = draft_rubrics([PromptRow(PROMPT)], writers=writers_at(tmp_path, server))
    row = result.rubrics[0].to_row()
    found = [item for item in row["draft"]["items"] if item["step"] == "compiled by a model"]
    assert [item["kept"] for item in found] == [True, False]
    assert (found[0]["writer"], found[0]["model"], found[0]["prompt_version"]) == ("w", MODEL, "2")
    chosen = [item["name"] for item in row["draft"]["items"] if item["step"] == "activated by a model"]
    assert chosen == ["LogicalError"], "a name that the library does not have is left out"
    verifiers = [criterion.get("verifier") for criterion in row["rubric"]["criteria"]]
    assert verifiers.count("FormatRequirement") == 1


def test_the_schema_takes_what_the_verifiers_take():
    for name in COMPILABLE:
        form = next(
            form
            for form in make_schema()["properties"]["constraints"]["items"]["anyOf"]
            if form["properties"]["verifier"]["const"] == name
        )
        jsonschema.Draft202012Validator.check_schema(form)
    validator = jsonschema.Draft202012Validator(make_schema())
    assert validator.is_valid({"constraints": [NUMBERED], "library": ["CoreIntentMatch"]})
    assert not validator.is_valid({"constraints": [{**NUMBERED, "verifier": "os.system"}], "library": []})


@pytest.mark.parametrize(
    ("verifier", "params", "name"),
    [
        ("WordCount", {"count": 30}, "at least 30 words"),
        ("WordCount", {}, "WordCount"),
        ("WordCount", {"low": 3}, "WordCount"),
        ("Keyword", {"keywords": [1]}, "Keyword"),
        ("CaseFormat", {}, "CaseFormat"),
        ("first_word:first_word_answer", {}, "first_word:first_word_answer"),
        ("os.system", {"count": 30}, "os.system"),
    ],
)
def test_parameters_that_a_model_leaves_out_or_makes_up_do_not_end_the_run(tmp_path, verifier, params, name):
    entry = {"verifier": verifier, "params": params, "evidence": "as an enumeration"}
    with Server(script([entry])) as server:
        result = draft_rubrics([PromptRow(PROMPT)], writers=writers_at(tmp_path, server), activate=False)
    (item,) = [item for item in result.rubrics[0].items if item.step == "compiled by a model"]
    assert item.name == name
    assert not item.kept
