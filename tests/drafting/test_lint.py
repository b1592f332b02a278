"""Lint names what is weak in a rubric, and leaves good criteria alone."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

import rubrank
from rubrank.cli.app import app
from rubrank.drafting.lint import lint_rubric
from rubrank.errors import InvalidInput
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
    assert [finding["kind"] for finding in json.loads(result.output)] == ["saturated"]


def lint_scores(scores, names, **options):
    """The kinds of findings about a run with these scores."""
    fused = rubrank.RLVR2()(rubrank.ScoreBatch.of_arrays(scores, criteria=names, **options))
    rubric = to_rubric([{"name": name, "verifier": "WordCount", "params": {"low": 1}} for name in names])
    return lint_rubric(rubric, records_of(fused))


def test_each_measure_fires_on_a_case_made_for_it_and_not_on_a_healthy_run():
    generator = np.random.default_rng(1)
    healthy = generator.normal(size=(12, 6, 3))
    names = ["River", "Lake", "Sea"]
    assert lint_scores(healthy, names) == []
    redundant = healthy.copy()
    redundant[:, :, 1] = redundant[:, :, 0]
    assert "redundant" in [finding.kind for finding in lint_scores(redundant, names)]
    reversed_scores = healthy.copy()
    reversed_scores[:, :, 1] = healthy[:, :, 0] + 0.1 * healthy[:, :, 1]
    reversed_scores[:, :, 2] = -healthy[:, :, 0]
    findings = lint_scores(reversed_scores, names)
    assert any(finding.kind == "reversed" and "Sea" in finding.sentence for finding in findings)
    assert not any(finding.kind == "misaligned" and "Sea" in finding.sentence for finding in findings)
    for finding in findings:
        assert finding.evidence, finding
        assert finding.action


def test_saturated_and_never_decided_are_told_apart():
    graded = [
        {
            "id": str(i),
            "prompt": "Name lakes.",
            "responses": ["One lake here.", "Two lakes here, I think.", "Three lakes, all of them deep."],
        }
        for i in range(10)
    ]
    criteria = [
        {"name": "Short", "verifier": "WordCount", "params": {"high": 50}},  # every response passes
        {"name": "Long", "verifier": "WordCount", "params": {"low": 50}},  # none does
        {"name": "Deep", "verifier": "Keyword", "params": {"keywords": ["deep"]}},
    ]
    table = rubrank.grade(graded, criteria)
    findings = lint_rubric(to_rubric(criteria), records_of(table.fuse(), table))
    kinds = {finding.sentence.split()[0]: finding.kind for finding in findings if finding.kind != "contradictory"}
    assert (kinds["Short"], kinds["Long"]) == ("saturated", "tied")
    assert kinds["Deep"] == "dominates", "it decides alone"


def test_records_of_another_rubric_are_refused(tmp_path):
    fused = rubrank.RLVR2()(rubrank.ScoreBatch.of_arrays(np.ones((9, 4, 1)), criteria=["Other"]))
    with pytest.raises(InvalidInput, match="with some criterion of the rubric; got Other"):
        lint_rubric(to_rubric([{"name": "Mine", "question": "Does it greet the reader by name?"}]), records_of(fused))


def test_a_weight_that_does_not_act():
    """A has half of the weight, but tells only one response of eight apart; B to D order all."""
    scores = np.random.default_rng(2).uniform(size=(20, 8, 4))
    scores[:, :, 0] = 0.0
    scores[:, 0, 0] = 0.05
    names = ["A", "B", "C", "D"]
    fused = rubrank.find_rule("weighted-mean")(
        rubrank.ScoreBatch.of_arrays(scores, criteria=names, weights=[3.0, 1.0, 1.0, 1.0])
    )
    rubric = to_rubric([{"name": name, "verifier": "WordCount", "params": {"low": 1}} for name in names])
    findings = [finding for finding in lint_rubric(rubric, records_of(fused)) if finding.sentence.startswith("A ")]
    assert [finding.kind for finding in findings] == ["misaligned"]
    assert findings[0].evidence["effective"] < findings[0].evidence["weight"] / 3


def test_a_clean_rubric_exits_with_0(tmp_path):
    (tmp_path / "rubric.yaml").write_text("criteria:\n- EmptyAnswer\n")
    result = CliRunner().invoke(app, ["lint", str(tmp_path / "rubric.yaml")])
    assert result.exit_code == 0
    assert "nothing found" in result.output
