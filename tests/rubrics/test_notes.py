"""Rubrics of yes/no criteria are noted: ranking is the weighted sum there."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

import rubrank
from rubrank.cli.app import app

RUN = CliRunner()
YES_NO = "criteria:\n- {name: WordCount, params: {low: 2}}\n- {name: Keyword, params: {keywords: [a]}}\n- EmptyAnswer\n"


def test_check_notes_a_rubric_of_yes_no_criteria(tmp_path):
    path = tmp_path / "rubric.yaml"
    path.write_text(YES_NO)
    done = RUN.invoke(app, ["check", str(path)])
    assert done.exit_code == 0
    assert "when_it_matters" in done.stderr
    path.write_text(YES_NO + "- {name: Style, question: Is it good?, domain: [0, 0.5, 1]}\n")
    assert "when_it_matters" not in RUN.invoke(app, ["check", str(path)]).stderr


def test_grade_notes_it_too(tmp_path):
    rubric, rollouts = tmp_path / "rubric.yaml", tmp_path / "rollouts.jsonl"
    rubric.write_text(YES_NO)
    rollouts.write_text('{"id": "q", "prompt": "p", "responses": ["a b", "c"]}\n')
    done = RUN.invoke(app, ["grade", str(rollouts), "--rubric", str(rubric), "-o", str(tmp_path / "s.jsonl")])
    assert done.exit_code == 0, done.output
    assert "when_it_matters" in done.stderr


@given(st.integers(2, 8), st.integers(1, 6), st.integers(0, 2**32 - 1))
def test_ranking_yes_no_criteria_is_the_stretched_weighted_sum(G, K, seed):
    rng = np.random.default_rng(seed)
    scores, weights = rng.integers(0, 2, (G, K)).astype(float), rng.uniform(0.1, 3.0, K)
    total = scores @ weights
    spread = total.max() - total.min()
    wanted = (total - total.min()) / spread if spread > 0 else np.full(G, 0.5)
    assert np.abs(rubrank.fuse(scores, weights=weights) - wanted).max() < 1e-9
