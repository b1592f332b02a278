"""The verbs check, criteria, grade and conformance, as a user types them."""

from __future__ import annotations

import json
from importlib import resources

import numpy as np
import polars as pl
import pytest
import yaml
from typer.testing import CliRunner

import rubrank.verifiers.gates.empty
import rubrank.verifiers.gates.legibility
import rubrank.verifiers.instructions.if_rlvr
import rubrank.verifiers.instructions.ifeval_format
import rubrank.verifiers.paper.length  # noqa: F401 - all register verifiers
from rubrank.cli.app import app
from rubrank.grading.grade import grade
from rubrank.rubrics.catalogue import KNOWN
from rubrank.scores.files import read_scores
from rubrank.verifiers.verifier import VERIFIERS

ROWS = [
    {"id": "q1", "prompt": "Tell me.", "responses": ["One two three.", "One.", ""]},
    {"id": "q2", "prompt": "Tell me more.", "responses": ["One two three four.", "One, two."]},
]


def run(*arguments):
    return CliRunner().invoke(app, [str(argument) for argument in arguments])


@pytest.fixture
def files(tmp_path):
    (tmp_path / "rollouts.jsonl").write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    (tmp_path / "rubric.yaml").write_text(
        "extends: gates\ncriteria:\n  - {name: WordCount, params: {low: 3}}\n  - {question: 'Kind?', name: Kind}\n"
    )
    return tmp_path


# ------------------------------------------------------------------------------------------------------------- grade


@pytest.mark.parametrize("name", ["scores.parquet", "scores.jsonl"])
def test_grade_writes_a_table_and_shows_a_summary(files, name):
    done = run(
        "grade", files / "rollouts.jsonl", "--rubric", files / "rubric.yaml", "-o", files / name, "--most-missing", 1
    )
    assert done.exit_code == 0, done.stderr
    table = read_scores(files / name)
    assert table["q1"].scores[:, table["q1"].names.index("WordCount")].tolist() == [1, 0, 0]
    assert table["q1"].reason(0, "Kind") == "needs a judge"
    assert "groups all tied" in done.stdout
    assert "5 rollouts, 2 groups" in done.stderr
    assert (files / f"{name}.cache").exists()


def test_grade_as_json(files):
    done = run(
        "grade",
        files / "rollouts.jsonl",
        "-r",
        files / "rubric.yaml",
        "-o",
        files / "s.parquet",
        "--json",
        "--most-missing",
        1,
    )
    data = json.loads(done.stdout)
    assert (data["rollouts"], data["groups"]) == (5, 2)
    by_name = {criterion["name"]: criterion for criterion in data["criteria"]}
    assert by_name["WordCount"]["mean"] == pytest.approx(2 / 5)
    assert by_name["Kind"]["mean"] is None
    assert by_name["Kind"]["missing"] == 5


def test_grade_says_the_same_as_the_library(files):
    run(
        "grade",
        files / "rollouts.jsonl",
        "-r",
        files / "rubric.yaml",
        "-o",
        files / "s.parquet",
        "--cache",
        "none",
        "--most-missing",
        1,
    )
    assert not (files / "s.parquet.cache").exists()
    expected = grade(files / "rollouts.jsonl", files / "rubric.yaml")
    np.testing.assert_array_equal(read_scores(files / "s.parquet").scores, expected.scores)


def test_grade_options(files):
    pl.DataFrame({"said": ["no, comma\nx"], "q": ["p"]}).write_csv(files / "r.csv")
    (files / "r.json").write_text('["punctuation:no_comma"]')
    for mode, score in (("strict", 0), ("loose", 1)):
        done = run(
            "grade",
            files / "r.csv",
            "-r",
            files / "r.json",
            "-o",
            files / f"{mode}.jsonl",
            "--column",
            "response=said",
            "--column",
            "prompt=q",
            "--mode",
            mode,
            "--compat",
            "upstream",
            "--workers",
            "0",
            "--cache",
            files / "c",
        )
        assert done.exit_code == 0, done.stderr
        assert read_scores(files / f"{mode}.jsonl")["0"].scores[0, 0] == score
    assert (files / "c").exists()


@pytest.mark.parametrize(
    "arguments",
    [
        ("nothing.jsonl", "-r", "gates"),
        ("rollouts.jsonl",),
        ("rollouts.jsonl", "-r", "gates", "--column", "response"),
        ("rollouts.jsonl", "-r", "gates", "-o", "s.xlsx"),
    ],
)
def test_grade_mistakes_are_one_line(files, monkeypatch, arguments):
    monkeypatch.chdir(files)
    done = run("grade", *arguments)
    assert done.exit_code == 2
    assert done.stderr.strip().splitlines()[-1].startswith("rubrank: ")
    assert "Traceback" not in done.stderr


# ------------------------------------------------------------------------------------------------------------- check


def test_check(files):
    assert run("check", files / "rubric.yaml").exit_code == 0
    (files / "bad.yaml").write_text("criteria: [Nothing, {name: A, question: b, weight: -1}]")
    done = run("check", files / "bad.yaml")
    assert done.exit_code == 1
    assert len(done.stdout.splitlines()) == 2
    found = json.loads(run("check", files / "bad.yaml", "--json").stdout)
    assert [problem["criterion"] for problem in found] == ["Nothing", "A"]


# ---------------------------------------------------------------------------------------------------------- criteria


def test_criteria_lists_verifiers_and_judged_ones():
    names = {one["name"] for one in json.loads(run("criteria", "--json").stdout)}
    assert names == {*VERIFIERS, *KNOWN}
    shown = run("criteria").stdout
    assert "WordCount" in shown
    assert "CoreIntentMatch" in shown


def test_criteria_by_family_and_word():
    found = json.loads(run("criteria", "--family", "gate", "--json").stdout)
    assert {"EmptyAnswer", "Truncated"} <= {one["name"] for one in found}
    assert {one["family"] for one in found} == {"gate"}
    found = json.loads(run("criteria", "--search", "INTENT", "--json").stdout)
    assert found[0]["name"] == "CoreIntentMatch"
    assert run("criteria", "--family", "nothing").exit_code == 2


@pytest.mark.parametrize(
    ("words", "name"),
    [
        ("polite", "DialogueStyle"),
        ("politeness", "ImproperWording"),
        ("safety", "Refusal"),
        ("hallucinations", "MaterialFaithfulness"),
        ("unit test", "CodePasses"),
        ("unit tests", "TestsPass"),
        ("regex", "Regex"),
        ("PII", "NoPersonalData"),
        ("concise", "Verbosity"),
        ("tool use", "FunctionCalls"),
        ("translate", "LanguageRequirement"),
        ("regexp", "Regex"),
        ("hate speech", "ImproperWording"),
        ("biased", "ImproperWording"),
        ("self harm", "SecurityRisk"),
        ("fabricated", "MaterialFaithfulness"),
        ("duplicated", "RepeatSegment"),
        ("low effort", "GeneralLowQuality"),
        ("arithmetic", "QuantityMatch"),
        ("语言", "LanguageRequirement"),
        ("多语言", "LanguageDetection"),
        ("引用", "Citations"),
        ("字数", "WordCount"),
        ("answer relevancy", "AnswerRelevance"),
        ("answer relevance", "CoreIntentMatch"),
        ("multiple choice", "GroundTruthMatch"),
        ("prompt injection", "InjectionResistance"),
        ("compiles", "CodeParses"),
    ],
)
def test_criteria_are_found_by_the_words_people_use(words, name):
    found = json.loads(run("criteria", "--search", words, "--json").stdout)
    assert name in [one["name"] for one in found[:12]]


@pytest.mark.parametrize(
    ("words", "first", "later"),
    [
        ("no emojis", "ForbiddenContent", "format:emoji"),
        ("without emoji", "ForbiddenContent", "format:emoji"),
        ("no commas", "punctuation:no_comma", None),
    ],
)
def test_what_is_not_wanted_is_found_before_what_demands_it(words, first, later):
    names = [entry["name"] for entry in json.loads(run("criteria", "--search", words, "--json").stdout)]
    assert names[0] == first
    assert later is None or names.index(first) < names.index(later)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("template", "templates"),
        ("reference", "references"),
        ("sentence", "sentences"),
        ("story", "stories"),
        ("class", "classes"),
        ("politeness", "polite"),
    ],
)
def test_a_plural_finds_what_the_singular_finds(one, other):
    from rubrank.cli.catalogue import find_criteria

    names = [entry.name for entry in find_criteria(search=one)]
    assert names == [entry.name for entry in find_criteria(search=other)]
    assert names


def test_of_equal_matches_the_one_with_the_word_as_a_keyword_comes_first():
    from rubrank.cli.catalogue import find_criteria

    # "code" is in both names, but a keyword of its own only of CodePasses.
    names = [entry.name for entry in find_criteria(search="code")]
    assert names.index("CodePasses") < names.index("CodeParses")


def test_a_short_word_is_not_taken_for_the_beginning_of_another():
    names = [entry["name"] for entry in json.loads(run("criteria", "--search", "date", "--json").stdout)]
    assert set(names[:2]) == {"DateFormat", "DateMatch"}


def test_one_criterion_is_shown_with_a_line_to_paste():
    from rubrank.rubrics.rubric import load_rubric

    for name in ("BulletCount", "CoreIntentMatch", "GroundTruthMatch", "DataMatch", "Keyword"):
        shown = run("criteria", name).stdout
        line = next(line for line in shown.splitlines() if line.startswith("  - "))
        rubric = load_rubric({"id": "r", "criteria": yaml.safe_load(line)})
        assert rubric.names[-1] == name


def test_one_criterion_is_counted_as_one():
    assert run("criteria", "--search", "tau-bench").stderr.strip() == "1 criterion"


def test_nothing_that_fits_is_said():
    done = run("criteria", "--search", "xyzzy")
    assert done.exit_code == 1
    assert "no criterion matches 'xyzzy'" in done.stderr


def test_keywords_belong_to_criteria():
    from rubrank.cli.catalogue import find_criteria

    text = (resources.files("rubrank") / "rubrics" / "keywords.yaml").read_text(encoding="utf-8")
    keywords = yaml.safe_load(text)
    names = {entry.name for entry in find_criteria()}
    assert set(keywords) <= names
    # Other tests, and the laboratory, may have registered verifiers in this process.
    ours = {name for name in names if name not in VERIFIERS or _home(name).startswith("rubrank.verifiers")}
    assert {name for name in ours if ":" not in name} <= set(keywords), "say how people look for it"


def _home(name):
    return VERIFIERS[name].function.__module__


def test_criteria_shows_one_with_examples():
    done = run("criteria", "keywords:word_once")
    assert "occurs exactly once" in done.stdout
    assert "keyword: string (required)" in done.stdout
    assert "[tricky]" in done.stdout
    one = json.loads(run("criteria", "keywords:word_once", "--json").stdout)
    assert one["parameters"][0]["name"] == "keyword"
    assert len(one["examples"]) >= 8
    assert "judge" in run("criteria", "CoreIntentMatch").stdout


def test_criteria_unknown():
    done = run("criteria", "WordCont")
    assert done.exit_code == 2
    assert "Did you mean 'WordCount'" in done.stderr


# -------------------------------------------------------------------------------------------------------- conformance


def test_conformance(files):
    row = {"key": 1, "prompt": "p", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
    answers = [
        {"response": "a, b", "strict": [False], "loose": [False]},
        {"response": "a", "strict": [False], "loose": [True]},
    ]
    (files / "c.jsonl").write_text(json.dumps({**row, "responses": answers}))
    data = json.loads(run("conformance", files / "c.jsonl", "--json").stdout)
    assert (data["strict"], data["loose"]) == (0.5, 1.0)
    assert data["per_id"]["punctuation:no_comma"]["strict"] == 0.5
    shown = run("conformance", files / "c.jsonl").stdout
    assert "50.00%" in shown
    assert "published False, ours True" in shown


@pytest.mark.parametrize(
    ("search", "first"),
    [
        ("no emojis", "ForbiddenContent"),
        ("keine Emojis", "ForbiddenContent"),
        ("sin emojis", "ForbiddenContent"),
        ("without markdown", "FormatRequirement"),
        ("sans liste", "ForbiddenContent"),
        ("no bullet points", "BulletCount"),
        ("no links", "ForbiddenContent"),
        ("at most 100 words", "WordCount"),
        ("response length", "WordCount"),
        ("Länge", "WordCount"),
        ("answer in French", "LanguageRequirement"),
        ("idioma", "LanguageRequirement"),
        ("answer relevancy", "AnswerRelevance"),
        ("mentions the source", "Citations"),
        ("引用", "Citations"),
        ("repetition across turns", "TurnRepetition"),
        ("标点", "count:punctuation"),
        ("emoji", "format:emoji"),
    ],
)
def test_the_criterion_that_is_meant_comes_first(search, first):
    from rubrank.cli.catalogue import find_criteria

    assert find_criteria(search=search)[0].name == first
