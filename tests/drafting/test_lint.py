"""Lint names what is weak in a rubric, and leaves good criteria alone."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import rubrank
from rubrank.cli.app import app
from rubrank.drafting.lint import lint_rubric
from rubrank.records.files import write_records
from rubrank.records.record import records_of
from rubrank.rubrics.public import to_rubric

WEAK = [
    ("vague", "Is the answer good?"),
    ("vague", "Is the tone appropriate?"),
    ("vague", "回答是否合适？"),
    ("compound", "Is the answer polite and correct?"),
    ("compound", "Does it name the dose and warns of side effects?"),
    ("compound", "Is it short? Is it clear?"),
    ("unverifiable", "Does every piece of code compile and are all links valid? Do the links work?"),
    ("unverifiable", "Is the price the latest price?"),
    ("program", "Does the answer have at most 50 words?"),
    ("program", "Does the answer contain exactly 3 bullet points?"),
]
STRONG = [
    "Does the answer name the dose of the medicine in milligrams?",
    "Is salt and pepper mentioned as an ingredient?",
    "Does the answer tell the reader to see a doctor if the fever lasts?",
    "Would a child of ten understand the explanation of tides?",
]


def lint(*questions):
    return lint_rubric(to_rubric([{"name": f"C{i}", "question": q} for i, q in enumerate(questions)]))


@pytest.mark.parametrize(("kind", "question"), WEAK, ids=[question[:30] for _, question in WEAK])
def test_weak_questions(kind, question):
    assert kind in [finding.kind for finding in lint(question)]


@pytest.mark.parametrize("question", STRONG)
def test_specific_questions_pass(question):
    assert lint(question) == []


def test_duplicates_and_contradictions():
    kinds = [finding.kind for finding in lint("Does it name the dose in mg?", "Does it name the dose, in mg?")]
    assert kinds == ["duplicate"]
    rubric = to_rubric(
        [
            {"name": "Long", "verifier": "WordCount", "params": {"low": 100}},
            {"name": "Short", "verifier": "WordCount", "params": {"high": 50}},
        ]
    )
    (finding,) = lint_rubric(rubric)
    assert finding.kind == "contradictory"
    assert "Long" in finding.sentence


def test_anchors_make_a_vague_question_clear():
    rubric = to_rubric([{"name": "Good", "question": "Is it good?", "anchors": {0: "wrong", 1: "right and complete"}}])
    assert lint_rubric(rubric) == []


def test_records_show_what_criteria_did(tmp_path):
    scores = np.random.default_rng(0).normal(size=(12, 6, 2))
    scores[:, :, 1] = 1
    fused = rubrank.RLVR2()(rubrank.ScoreBatch.of_arrays(scores, criteria=["Facts", "Tone"]))
    write_records(tmp_path / "run.jsonl", records_of(fused))
    (tmp_path / "rubric.yaml").write_text("criteria:\n- {name: Tone, question: Does it greet the reader by name?}\n")
    command = ["lint", str(tmp_path / "rubric.yaml"), "--records", str(tmp_path / "run.jsonl"), "--json"]
    result = CliRunner().invoke(app, command)
    assert result.exit_code == 1
    assert [finding["kind"] for finding in json.loads(result.output)] == ["tied"]


def test_a_clean_rubric_exits_with_0(tmp_path):
    (tmp_path / "rubric.yaml").write_text("criteria:\n- EmptyAnswer\n")
    result = CliRunner().invoke(app, ["lint", str(tmp_path / "rubric.yaml")])
    assert result.exit_code == 0
    assert "nothing found" in result.output
