"""`check_file` lists everything that is wrong, each with its place, and grades nothing."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import polars as pl
import pytest

import rubrank.verifiers.gates.empty
import rubrank.verifiers.gates.legibility
import rubrank.verifiers.instructions.ifeval_format
import rubrank.verifiers.instructions.ifeval_words
import rubrank.verifiers.paper.length  # noqa: F401 - all register verifiers
from rubrank.rubrics.checks import Problem, check_file, make_note
from rubrank.verifiers.verifier import VERIFIERS, verifier

DATA = Path(__file__).parents[3] / "shared" / "data"

WRONG = """
id: essay
colour: red
extends: gates
criteria:
  - {name: Long, verifier: WordCount, params: {relation: at least, count: 100}}
  - {name: Short, verifier: WordCount, params: {relation: at most, count: 50}}
  - {name: Wordcount}
  - {name: Odd, verifier: WordCount, params: {relation: roughly}}
  - {name: Weightless, question: "?", weight: 0, margin: -1}
  - {name: Twice, question: "?"}
  - {name: Twice, question: "?"}
  - {name: A, question: "?", depends: [B]}
  - {name: B, question: "?", depends: [{on: C, kind: strong}]}
  - {name: C, question: "?", depends: [A, Nobody]}
  - {name: Self, question: "?", depends: Self}
  - {weight: 77}
"""


def problems(tmp_path, name, text):
    path = tmp_path / name
    path.write_text(text, encoding="utf-8")
    return check_file(path)


def test_everything_is_listed_at_once(tmp_path):
    found = problems(tmp_path, "essay.yaml", WRONG)
    by_criterion = {problem.criterion: problem.message for problem in found}
    assert "Did you mean 'WordCount'" in by_criterion["Wordcount"]
    assert "relation must be one of" in by_criterion["Odd"]
    assert "2 criteria of that name" in by_criterion["Twice"]
    assert any("→" in by_criterion.get(name, "") for name in "ABC")
    assert "'Nobody'" in next(p.message for p in found if p.criterion == "C")
    assert "Self → Self" in by_criterion["Self"]
    assert "it cannot be met: words" in by_criterion["Long and Short"]
    assert sum(problem.criterion == "Weightless" for problem in found) == 2
    assert any("colour" in problem.message and problem.criterion is None for problem in found)
    assert any("77" in problem.message for problem in found)
    assert len(found) == 11
    assert all(problem.row is None and problem.file.endswith("essay.yaml") for problem in found)
    assert all("\n" not in str(problem) for problem in found)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.yaml", "extends: gates\ncriteria: [Postscript]\n"),
        ("a.toml", '[[criteria]]\nname = "Postscript"\n'),
        ("a.json", '{"criteria": ["Postscript"]}'),
        ("a.json", '[{"criterion": "Is kind", "points": 3}]'),
        ("a.json", '["Postscript", "Is it kind?"]'),
        ("a.jsonl", '{"prompt": "p", "response": "r", "rubric": ["Postscript"]}\n'),
        ("a.jsonl", '{"prompt": "p", "rubric": "gates"}\n'),
        ("a.csv", 'prompt,response,rubric\np,r,"[""Postscript""]"\n'),
    ],
)
def test_nothing_wrong(tmp_path, name, text):
    assert problems(tmp_path, name, text) == []


@pytest.mark.parametrize(
    ("name", "text", "says"),
    [
        ("a.yaml", "criteria: [", "valid YAML"),
        ("a.yaml", "3", "a mapping"),
        ("a.yaml", "criteria: []", "a list of at least 1"),
        ("a.yaml", "extends: nobody\ncriteria: [Postscript]", "presets ("),
        ("a.json", "{", "valid JSON"),
        ("a.jsonl", "", "no rows"),
        ("a.txt", "x", "that ends in"),
    ],
)
def test_files_that_cannot_be_used(tmp_path, name, text, says):
    (problem,) = problems(tmp_path, name, text)
    assert says in problem.message


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("scores.csv", "group,rollout,Facts,Tone\nq0,0,1,0.5\nq0,1,0,0.7\n"),
        ("scores.jsonl", '{"group": "q0", "rollout": 0, "criterion": "Facts", "score": 1.0}\n'),
        ("rewards.jsonl", '{"group": "q0", "rollout": 0, "reward": 1.0, "rubric": null}\n'),
    ],
)
def test_a_file_with_nothing_to_check(tmp_path, name, text):
    """Such as scores: that nothing was found wrong with them would say nothing."""
    (problem,) = problems(tmp_path, name, text)
    assert "no row has a rubric, a response or a prompt: nothing to check in the columns 'group', 'rollout'" in str(
        problem
    )
    assert problem.row is None


def test_a_file_that_is_not_there(tmp_path):
    message = "the file must be a file that can be read; got no such file."
    assert check_file(tmp_path / "x.yaml") == [Problem(str(tmp_path / "x.yaml"), message)]


def test_rows_of_a_dataset(tmp_path):
    rows = [
        {"prompt": "p", "response": "r", "rubric": ["Postscript"]},
        {"prompt": "p", "response": "r", "rubric": [{"name": "A", "verifier": "Nothing"}, {"name": "B", "weight": -1}]},
        {"prompt": "p", "response": "s", "rubric": [{"name": "A", "verifier": "Nothing"}, {"name": "B", "weight": -1}]},
        {"prompt": [{"role": "nobody"}], "response": "r"},
        {"prompt": "p", "instruction_id_list": ["a:b", "punctuation:no_comma"], "kwargs": [{}, {}]},
        {"prompt": "p", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}, {}]},
        {"prompt": "p", "rubric": "{"},
    ]
    found = problems(tmp_path, "rows.jsonl", "\n".join(map(json.dumps, rows)))
    assert [(problem.row, problem.criterion) for problem in found] == [
        (2, "A"),
        (2, "B"),
        (4, None),
        (5, "a:b"),
        (6, None),
        (7, None),
    ]
    assert str(found[0]).startswith(f"{tmp_path / 'rows.jsonl'}: row 2: criterion A: ")


def test_a_line_that_is_no_json(tmp_path):
    (problem,) = problems(tmp_path, "rows.jsonl", '{"response": "x"}\n{\n')
    assert "line 2" in problem.message
    assert problem.row == 2


def test_parquet_with_nested_rubrics(tmp_path):
    rubrics = [
        [{"criterion": "Kind", "points": 3, "tags": ["axis:tone"]}],
        [{"criterion": "Rude", "points": 0, "tags": []}],
    ]
    pl.DataFrame({"prompt": ["p", "q"], "rubrics": rubrics}).write_parquet(tmp_path / "r.parquet")
    (problem,) = check_file(tmp_path / "r.parquet")
    assert (problem.row, problem.criterion) == (2, "Rude")


def test_nothing_is_graded(tmp_path):
    calls = []

    @verifier("checking-test counts")
    def counts(text):
        calls.append(text)
        return True, ""

    try:
        assert not problems(tmp_path, "r.jsonl", '{"response": "x", "rubric": ["checking-test counts"]}')
    finally:
        del VERIFIERS["checking-test counts"]
    assert not calls


@pytest.mark.skipif(not DATA.exists(), reason="needs ../shared/data")
def test_the_prompts_of_ifeval():
    found = check_file(DATA / "ifeval" / "prompts.jsonl.gz")
    # Four prompts ask to repeat a request word for word that holds what they forbid: commas, or the words themselves.
    assert all("combination:repeat_prompt" in str(problem.criterion) for problem in found)
    assert len({problem.row for problem in found}) == len(found) == 4
    with gzip.open(DATA / "ifeval" / "prompts.jsonl.gz", "rt", encoding="utf-8") as file:
        rows = [json.loads(line) for line in file]
    row = rows[found[0].row - 1]
    assert "punctuation:no_comma" in row["instruction_id_list"]
    assert any("," in kwargs.get("prompt_to_repeat", "") for kwargs in row["kwargs"])


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("list.yaml", "- Is it polite?\n- Is it right?\n"),
        ("names.yaml", "- a\n- b\n"),
        (
            "healthbench.json",
            '[{"criterion": "See a doctor", "points": 5, "tags": []}, {"criterion": "B"}]',
        ),
        (
            "rar.yaml",
            "- {title: Dose, description: 'Essential Criteria: a dose'}\n- {title: B, description: b}\n",
        ),
        ("ids.yaml", "instruction_id_list: ['punctuation:no_comma', 'startend:quotation']\nkwargs: [{}, {}]\n"),
    ],
)
def test_every_shape_without_problems_gets_its_note(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    assert check_file(tmp_path / name) == []
    assert "yes/no" in (make_note(tmp_path / name) or "")


@pytest.mark.parametrize("name", ["r.yaml", "r.yml"])
@pytest.mark.parametrize("text", ["", "\n\n", "# nothing\n", "null\n"])
def test_an_empty_rubric_is_no_dataset(tmp_path, name, text):
    (tmp_path / name).write_text(text)
    [problem] = check_file(tmp_path / name)
    assert "rubric must be a mapping, a list of criteria" in problem.message


@pytest.mark.parametrize("anchors", ["{0: same, 1: same}", "{0: Same, 1: other, 2: same}", "{1: Ｘ, 5: x}"])
def test_anchors_that_mean_the_same_are_a_problem(tmp_path, anchors):
    (tmp_path / "r.yaml").write_text(f"criteria: [{{name: C, question: q?, anchors: {anchors}}}]\n")
    [problem] = check_file(tmp_path / "r.yaml")
    assert "anchors must be of different texts" in problem.message
