from __future__ import annotations

import doctest
import pickle

import numpy as np
import pytest
from cases import folded
from hypothesis import given
from hypothesis import strategies as st

from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion.control import length
from rubrank.fusion.control.length import Lengths, count_words, lengths


def test_docstrings_run():
    assert doctest.testmod(length).failed == 0


@folded(
    ("text", "words"),
    [
        ("", 0),
        (" \n\t", 0),
        ("one two  three\nfour", 4),
        ("don't, can’t", 2),
        ("state-of-the-art", 1),
        ("3.14 and 1,000", 3),
        ("e.g. snake_case", 2),
        ("a - b — c … d", 4),
        ("word—word (and/or)", 4),
        ("| a | b |\n|---|---|", 2),
        ("## **Bold** `code`\n\n---\n___", 2),
        ("🙂 👍🏽 ok", 1),
        ("x² ½", 2),
        ("机器学习，很有趣。", 7),
        ("中文 English 混合text字", 7),
        ("か\u3099", 1),  # decomposed: the mark is no second word
        ("ひらがな カタカナー ｶﾅ", 11),
        ("人々〇", 3),
        ("한국어 문장입니다", 2),
        ("ภาษาไทย", 7),
        ("ខ្មែរ", 3),
        ("हिन्दी भाषा", 2),
        ("العربيّة لغة", 2),
        ("می\u200cخواهم", 1),
        ("soft\u00adhyphen zero\u200bwidth", 3),
        ("привет, мир", 2),
        ("\ud800 a\0b", 2),
    ],
)
def test_count_words(text, words):
    assert count_words(text) == words


@given(st.text(st.characters()), st.text(st.characters()))
def test_words_add_up_over_spaces(first, second):
    assert count_words(f"{first} {second}") == count_words(first) + count_words(second)


@given(st.lists(st.text("abzé", min_size=1)))
def test_plain_words(words):
    assert count_words(" ".join(words)) == len(words)


@folded("text", ["a" * 10**6, "a " * 500_000, "字" * 300_000, "’" * 10**6, " " * 10**6, "é—" * 300_000])
def test_long_texts(text):
    half = len(text) // 2
    whole = count_words(text)
    assert whole <= count_words(text[:half]) + count_words(text[half:])
    assert whole >= 0


@given(st.text(st.characters()))
def test_untagged_text_is_all_answer(text):
    assert lengths([text], tags=()).answer[0] == count_words(text)


def test_lengths_in_words():
    measured = lengths(["<think>two and two</think>four, then", "no thoughts here", "<think>cut off"])
    assert measured.reasoning.tolist() == [3, 0, 2]
    assert measured.answer.tolist() == [2, 3, 0]
    assert measured.total.tolist() == [5, 3, 2]
    assert measured.unit == "words"
    assert measured.stack().tolist() == [[3, 2, 5], [0, 3, 3], [2, 0, 2]]


def test_leading_shape_is_kept():
    assert lengths([]).stack().shape == (0, 3)
    measured = lengths([["a", "b c", ""], ["d", "e", "f"]])
    assert measured.answer.tolist() == [[1, 2, 0], [1, 1, 1]]
    assert measured.stack().shape == (2, 3, 3)


def test_the_trainers_own_reasoning():
    texts = ["a <think>b</think>", "<think>c d</think>e", "f"]
    measured = lengths(texts, reasoning=["x y z", None, ""], tokens=lambda text: len(text.split()))
    assert measured.reasoning.tolist() == [3, 2, 0]
    assert measured.answer.tolist() == [2, 1, 1]


def test_reasoning_of_another_shape():
    with pytest.raises(InvalidInput, match=r"reasoning must be of shape \(2,\), one for every text; got shape \(1,\)"):
        lengths(["a", "b"], reasoning=["c"])
    with pytest.raises(InvalidInput, match="reasoning must be a list of texts; got str 'c'"):
        lengths(["a"], reasoning="c")


def test_tokens_are_counted_by_the_caller():
    asked = []

    def count(text):
        asked.append(text)
        return np.int64(len(text))

    measured = lengths(["<think>abc</think>de", "f"], tokens=count)
    assert (measured.unit, measured.total.tolist()) == ("tokens", [5, 1])
    assert asked == ["abc", "de", "f"]  # an empty part is 0 without asking


@pytest.mark.parametrize("tokens", [lambda text: [1, 2], lambda text: -1, lambda text: 1.5, [3, 4]])
def test_tokens_must_be_counts(tokens):
    with pytest.raises(InvalidInput, match="tokens must be"):
        lengths(["a"], tokens=tokens)


def test_known_token_counts():
    known = Lengths([812, 90], [40, 35], unit="tokens")
    assert known.total.tolist() == [852, 125]
    assert pickle.loads(pickle.dumps(known)).answer.tolist() == [40, 35]


@pytest.mark.parametrize("bad", [-1, np.nan, np.inf])
def test_lengths_are_counts(bad):
    with pytest.raises(InvalidInput, match="answer must be finite and at least 0"):
        Lengths([1, 2], [3, bad], unit="tokens")


def test_lengths_of_other_shapes_or_units():
    with pytest.raises(InvalidInput, match="answer must be of shape"):
        Lengths([1, 2], [3], unit="tokens")
    with pytest.raises(UnknownName, match="unit must be one of 'tokens', 'words'"):
        Lengths([1], [3], unit="token")  # type: ignore[arg-type]
