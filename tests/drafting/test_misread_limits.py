"""Limits that are easily misread: under a negation, or of a text that the prompt only speaks of."""

import pytest

from rubrank.drafting.compiler import compile_prompt

UPPER = [
    "I would rather not read more than ninety words about tides.",
    "Explain tides. Nobody wants to see more than 80 words.",
    "Write a summary of tides. I don't have time to read more than 100 words.",
    "I hate reading texts longer than 60 words. Explain tides.",
    "Explain tides. The editor never prints over 120 words.",
    "Explain tides and do not go over 60 words.",
    "Explain tides. It shouldn't be longer than 60 words.",
]
LOWER = [
    "Describe tides; your reply must not have less than 50 words.",
    "Describe tides. Nobody accepts fewer than 5 sentences here.",
]


@pytest.mark.parametrize("prompt", UPPER)
def test_an_upper_limit_never_becomes_a_lower_one(prompt):
    assert all(constraint.params["relation"] in ("at most", "less than") for constraint in compile_prompt(prompt))


@pytest.mark.parametrize("prompt", LOWER)
def test_a_lower_limit_never_becomes_an_upper_one(prompt):
    assert all(constraint.params["relation"] in ("at least", "more than") for constraint in compile_prompt(prompt))


@pytest.mark.parametrize(
    "prompt",
    [
        "Do not use the word tide in your answer more than 3 times.",
        "The word tide should not be used in any stanza more than twice.",
        "Use the word tide at least 3 times and do not use the word tide in italics.",
    ],
)
def test_a_word_whose_number_is_limited_is_not_forbidden(prompt):
    assert "keywords:forbidden_words" not in [constraint.verifier for constraint in compile_prompt(prompt)]


@pytest.mark.parametrize(
    "prompt",
    [
        "Do not mention the moon and write more than 100 words about tides.",
        "Don't mention the moon. Use more than 100 words.",
        "No introduction, please: write more than 100 words about tides.",
    ],
)
def test_a_negation_of_something_else_changes_nothing(prompt):
    relations = [constraint.params.get("relation") for constraint in compile_prompt(prompt)]
    assert "more than" in relations


@pytest.mark.parametrize(
    "prompt",
    [
        "Compare a 250-word abstract with a full paper.",
        "Explain how teachers grade a 300-word summary.",
        "Why do editors reading a 900-word column lose interest?",
        "Shorten a 400-word notice to its main point.",
        "Our style guide says headlines must be under 60 characters. Why do publishers do this?",
        "My essay has 3 paragraphs and the teacher wants 5. What should I add?",
        "Explain why all caps emails feel rude.",
    ],
)
def test_what_the_prompt_only_speaks_of_is_not_asked_for(prompt):
    assert compile_prompt(prompt) == []


@pytest.mark.parametrize(
    "prompt",
    [
        "Review the film in a 200-word essay.",
        "Read the poem below and write a 200-word reply.",
        "Compare cats with dogs in a 200-word text.",
        "Explain why the sky is blue in a 200-word text.",
        "My teacher wants an essay on tides, and you must write a 200-word draft.",
    ],
)
def test_a_text_that_is_asked_for_has_its_length(prompt):
    assert [constraint.params.get("count") for constraint in compile_prompt(prompt)] == [200]


@pytest.mark.parametrize(
    "prompt",
    [
        "The letter e should not appear more than 3 times.",
        "Do not use the letter e more than three times.",
        "The letter e must not appear fewer than 3 times.",
        "Do not use any exclamation marks more than twice.",
    ],
)
def test_a_limit_on_a_letter_does_not_forbid_it(prompt):
    constraints = compile_prompt(prompt)
    assert ("less than", 1) not in [(c.params["let_relation"], c.params["let_frequency"]) for c in constraints]


def test_a_story_ends_where_the_length_of_the_response_begins():
    (constraint,) = compile_prompt("Write a story about a boy who sails to the moon in at least 300 words.")
    assert constraint.params == {"relation": "at least", "num_words": 300}


def test_begin_does_not_name_an_example():
    """Three times one word in capitals is not three words in capitals; "e.g." would make it an example of them."""
    prompt = 'Begin the story and use the word "tide" in capital letters at least 3 times.'
    assert "change_case:capital_word_frequency" not in [constraint.verifier for constraint in compile_prompt(prompt)]


@pytest.mark.parametrize(
    "prompt",
    [
        'The word "tide" should not appear more than 3 times.',
        'The words "tide" and "dose" must not appear more than 3 times.',
        "The word tide should not appear more than 3 times.",
        'The word "tide" should never appear more often than the word "dose".',
        'The word "tide" does not need to appear.',
        'The word "tide" should not appear twice.',
        "Do not use the word tide twice.",
        "Do not use the letter e 3 times.",
    ],
)
def test_a_limit_on_a_word_neither_requires_nor_forbids_it(prompt):
    assert compile_prompt(prompt) == []


@pytest.mark.parametrize(
    ("prompt", "relation"),
    [
        ('Do not use the word "tide" more than 3 times.', "at most"),
        ('Don\'t use the word "tide" more than 3 times.', "at most"),
        ('Do not use the words "dose" and "tide" more than 3 times.', "at most"),
        ('Do not use more than 3 mentions of the word "tide".', "at most"),
        ('Do not use the word "tide" at least 3 times.', "less than"),
        ('Never rhyme and use the word "tide" at least 3 times.', "at least"),
        ('Do not forget to use the word "tide" at least 3 times.', "at least"),
    ],
)
def test_a_negation_turns_the_limit_on_a_word_once(prompt, relation):
    (constraint,) = compile_prompt(prompt)
    assert constraint.params == {"keyword": "tide", "relation": relation, "frequency": 3}


@pytest.mark.parametrize(
    ("prompt", "relation"),
    [
        ("Do not use the letter e at least 3 times.", "less than"),
        ('Do not use the letter "e" more than 3 times.', "at most"),
        ("Do not include more than 3 occurrences of the letter e.", "at most"),
        ("Never rhyme and use the letter e at least 3 times.", "at least"),
    ],
)
def test_a_negation_turns_the_limit_on_a_letter_once(prompt, relation):
    (constraint,) = compile_prompt(prompt)
    assert constraint.params == {"letter": "e", "let_relation": relation, "let_frequency": 3}


@pytest.mark.parametrize("kind", ["an elegant line", "a likely phrase", "the helpful tips"])
def test_an_ending_is_an_example_only_if_a_whole_word_says_so(kind):
    (constraint,) = compile_prompt(f'End your answer with {kind}: "See you soon."')
    assert constraint.params == {"end_phrase": "See you soon."}
    assert compile_prompt('End your answer with a phrase like "See you soon."') == []
