from __future__ import annotations

import doctest

import pytest
from cases import folded
from hypothesis import given
from hypothesis import strategies as st

from rubrank.errors import InvalidInput
from rubrank.texts import reasoning
from rubrank.texts.reasoning import TAGS, split_reasoning


def test_docstrings_run():
    assert doctest.testmod(reasoning).failed == 0


@folded(
    ("text", "reasoning", "answer"),
    [
        ("", "", ""),
        ("a\n", "", "a\n"),
        ("<think>r</think>a", "r", "a"),
        ("<think>\nr\n</think>\n\na\n", "r", "a"),
        ("<think>\n\n</think>\n\na", "", "a"),
        ("<think>r", "r", ""),
        ("b<think>r", "r", "b"),
        ("r</think>a", "r", "a"),
        ("\nr\n</think>\n\n    code", "r", "    code"),
        ("</think>a", "", "a"),
        ("a<think>r</think>b<think>s</think>c", "r\n\ns", "a\n\nb\n\nc"),
        ("r</think>a<think>s</think>b", "r\n\ns", "a\n\nb"),
        ("<think>r<think>s</think>t</think>a", "r\n\ns\n\nt", "a"),
        ("<think>r<reasoning>s</reasoning>t</think>a", "r\n\ns\n\nt", "a"),
        ("<think>what is <think> for?</think>a", "what is \n\n for?", "a"),
        ("<think>r<think>s</think>a<think>t", "r\n\ns\n\nt", "a"),
        ("<think>r</think>a</think>b", "r", "a</think>b"),
        ("<think>r</thinking>s", "r\n\ns", ""),
        ("<thinking>r</thinking>a", "r", "a"),
        ("[THINK]r[/THINK]a", "r", "a"),
        ("<|START_THINKING|>r<|END_THINKING|>a", "r", "a"),
        ("<thinker>a</thinker>", "", "<thinker>a</thinker>"),
        ("<THINK>a", "", "<THINK>a"),
    ],
)
def test_split_reasoning(text, reasoning, answer):
    assert split_reasoning(text) == (reasoning, answer)


@folded(("opening", "closing"), TAGS)
def test_every_default_tag(opening, closing):
    assert split_reasoning(f"{opening}r{closing}a") == ("r", "a")
    assert split_reasoning(f"r{closing}a") == ("r", "a")
    assert split_reasoning(f"a{opening}r") == ("r", "a")


def test_own_tags():
    tags = [("<<", ">>"), ("<<<", ">>")]
    assert split_reasoning("<<r>>a<<<s>>b", tags) == ("r\n\ns", "a\n\nb")
    assert split_reasoning("<think>r</think>a", tags) == ("", "<think>r</think>a")
    assert split_reasoning("<think>r</think>a", ()) == ("", "<think>r</think>a")


@folded("tags", [("<think>", "</think>"), [("a", "a")], [("a", "")], [("a",)], [("a", 1)]])
def test_bad_tags(tags):
    with pytest.raises(InvalidInput, match="tags must be pairs"):
        split_reasoning("a", tags)


tagged = st.lists(st.sampled_from([tag for pair in TAGS[:2] for tag in pair] + ["a", "b c", "\n", "字"]))


@given(tagged.map("".join))
def test_no_text_is_lost(text):
    kept = "".join(split_reasoning(text))
    for pair in TAGS:
        for tag in pair:
            text = text.replace(tag, "")
    assert [kept.count(char) for char in "abc字"] == [text.count(char) for char in "abc字"]


@folded("piece", ["<think>", "</think>", "<think></think>", "</think><think>", "<think><reasoning>", "<"])
def test_splitting_takes_linear_time(piece):
    split_reasoning(piece * (10**6 // len(piece)))
