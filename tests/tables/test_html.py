"""Tables for notebooks: colour says who is better, and no text becomes markup."""

from __future__ import annotations

import re

import numpy as np
import pytest

from rubrank import Rubric
from rubrank.fusion.rules import find_rule
from rubrank.judges.client.usage import Account
from rubrank.judges.judgments import Judgments
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.tables.html import Bar, Shaded, make_html_table, shade_column


def cells(page: str) -> list[tuple[str, str]]:
    """(style, text) of every cell."""
    return re.findall(r'<td(?: style="([^"]*)")?>(.*?)</td>', page)


def make_table() -> ScoreTable:
    criteria = (CriterionData("<b>Facts</b>"), CriterionData("Clean", layer="global_quality"))
    scores = np.array([[0.0, 1.0], [1.0, 1.0], [1.0, 0.0]])
    return ScoreTable((GroupScores("q", criteria, scores, (("", ""),) * 3),))


def test_strength_is_colour_and_opacity() -> None:
    assert "91, 147, 220, 0.55" in Shaded("x", 1.0).style
    assert "224, 146, 74, 0.28" in Shaded("x", -0.5).style
    assert "25%" in Bar("x", 0.25).style
    assert [cell if isinstance(cell, str) else cell.strength for cell in shade_column([2.0, None, -1.0])] == [
        1.0,
        "–",
        -0.5,
    ]


def test_texts_are_escaped() -> None:
    page = make_html_table("<script>", ["<i>"], [[Shaded("<u>", 1.0)], ["<s>"]])
    assert not re.search(r"<(script|i|u|s)>", page)


def test_a_group_is_shown_from_best_to_worst() -> None:
    page = make_table().fuse()["q"]._repr_html_()
    assert [text for _, text in cells(page)][::4] == ["1", "0", "2"]
    assert "<b>Facts</b>" not in page
    best, worst = cells(page)[3], cells(page)[7]
    assert ("91, 147, 220" in best[0], best[1]) == (True, "1")
    assert ("224, 146, 74" in worst[0], worst[1]) == (True, "0")
    assert cells(page)[10] == ("background: rgba(179, 38, 30, 0.3)", "stopped")


def test_a_rule_without_utilities_has_no_colours_of_utilities() -> None:
    fused = find_rule("weighted-mean")(make_table().batch())
    assert "Fused" in fused._repr_html_()
    assert "91, 147, 220" not in fused.group(0)._repr_html_()


def test_scores_go_from_orange_to_blue() -> None:
    styles = [style for style, text in cells(make_table()._repr_html_()) if text in ("0.0", "0", "1") and style]
    assert any("224, 146, 74" in style for style in styles)
    assert any("91, 147, 220" in style for style in styles)


def test_a_rubric_shows_who_decides_and_marks_gates() -> None:
    rubric = Rubric.model_validate(
        {
            "criteria": [
                {"name": "A", "question": "Is it <b>?", "weight": 2},
                {"name": "Empty", "verifier": "Truncated"},
                {"name": "WordCount", "params": {"high": 5}},
            ]
        }
    )
    page = rubric._repr_html_()
    assert "Is it &lt;b&gt;?" in page
    assert [text for _, text in cells(page)][1::5] == ["judge", "program", "program"]
    assert "hard gate" in page


@pytest.mark.parametrize(
    ("account", "words"), [(Account(), "0 calls"), (Account(calls=3, hits=2, cost=0.5), "cost 0.5")]
)
def test_judgments_are_one_line(account: Account, words: str) -> None:
    shown = repr(Judgments((), account))
    assert words in shown
    assert len(shown) < 120
