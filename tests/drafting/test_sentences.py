"""Sentences with tokens: what the prompt itself writes like a token, and numbers joined by "or"."""

import pytest

from rubrank.drafting.compiler import compile_prompt
from rubrank.drafting.sentences import prepare_sentences


@pytest.mark.parametrize("literal", ["⟨q9⟩", "⟨s0⟩", "⟨m1⟩", "⟨n1⟩", "⟨12⟩"])
def test_brackets_of_the_prompt_are_no_tokens(literal):
    prompt = f'Explain {literal} words. Use the word "tide" and at most 30 words.'
    assert " ".join(sentence.original for sentence in prepare_sentences(prompt)) == prompt
    params = [dict(constraint.params) for constraint in compile_prompt(prompt)]
    assert params == [{"relation": "at most", "num_words": 30}, {"keywords": ["tide"]}]


def test_a_quoted_text_may_look_like_a_token():
    (constraint,) = compile_prompt('Use the word "⟨q1⟩" in your answer.')
    assert constraint.params == {"keywords": ["⟨q1⟩"]}


@pytest.mark.parametrize(
    ("prompt", "expected"),
    [
        ("Write 3 or 4 paragraphs.", [{"low": 3, "high": 4}]),
        ("Write between 3 or 5 paragraphs.", [{"low": 3, "high": 5}]),
        ("Write 3 or 5 paragraphs.", []),
        ("Write two or three hundred words.", []),
    ],
)
def test_numbers_joined_by_or_are_a_range_only_without_numbers_between_them(prompt, expected):
    assert [dict(constraint.params) for constraint in compile_prompt(prompt)] == expected
