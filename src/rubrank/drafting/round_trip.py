"""Check a drafted criterion: its parameters occur in the prompt, and its verifier passes some texts and fails others.

    >>> find_foreign_parameter({"num_words": 300}, "Use at most 100 words.")
    'num_words 300'
    >>> params = {"relation": "at least", "num_words": 3}
    >>> passing, failing = find_example_texts("length_constraints:number_words", params)
    >>> len(passing.split()) >= 3, len(failing.split()) < 3
    (True, True)

A verifier that passes every text, or none, would only add noise to the rewards. The texts are made from the parameters:
as many words, sentences, bullet points or placeholders as the numbers say, one fewer and one more, with and without the
strings.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from rubrank._plain import word_list
from rubrank.drafting.sentences import NUMBER, fold_text, read_number
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.shared.numerals import read_han
from rubrank.verifiers.verifier import find_verifier, library_examples

# The words and the sentence of which example texts are made.
_WORDS = word_list("the tide rises slowly and a small boat leaves while gulls circle above")
_SENTENCE = "The tide rises slowly."
_LONGEST_EXAMPLE = 20_000  # characters
_LARGEST_COUNT = 5000  # of words or other units in an example

# Punctuation marks that a prompt may name instead of showing: patterns of their names.
_MARK_NAMES = {
    "!": "exclamation",
    "?": "question mark",
    ";": "semicolon",
    ":": "colon",
    "#": "hash(?:tag)?",
}
# Numbers in words that `read_number` does not know.
_NUMBER_WORDS = {
    "once": 1,
    "twice": 2,
    "thrice": 3,
    "dozen": 12,
    "single": 1,
    "both": 2,
    "couple": 2,
}
_HAN_NUMERAL = re.compile(r"[零一二两三四五六七八九十百千万]+")
_FREE_PARAMETERS = word_list("""
    relation let_relation capital_relation lang unit kinds language format pattern case style marks need scope
    postscript_marker
""")
"""Parameters whose values need not occur in the prompt in the same words."""


def find_example_texts(name: str, params: Mapping[str, Any]) -> tuple[str, str] | None:
    """Return a text that passes and a text that fails, or None if no pair was found.

    The passing text may be an example of the library, which passes with parameters of its own. That shows only that the
    verifier can pass: no text in Portuguese, or for a regular expression, can be made from the parameters.
    """
    verifier = find_verifier(name)
    checked = verifier.check_parameters(dict(params))
    passing = None
    failing = None
    for text in _make_texts(params):
        value = verifier.verify(Rollout(response=text), checked).value
        if value == verifier.domain.high and passing is None:
            passing = text
        elif value == verifier.domain.low and text and failing is None:
            # Not the empty text: almost every verifier fails it.
            failing = text
        if passing is not None and failing is not None:
            return passing, failing
    # Some texts, such as palindromes, cannot be made from parameters; the library has examples of them.
    for example in library_examples().get(name, []):
        example_text = example.get("text")
        # With "compat" an example is for another reading of the instruction.
        if not isinstance(example_text, str) or "compat" in example:
            continue
        if example.get("value") == 1:
            passing = passing or example_text
        elif failing is None:
            # The example fails with parameters of its own; only a text that also fails with these is used.
            value = verifier.verify(Rollout(response=example_text), checked).value
            if value == verifier.domain.low:
                failing = example_text
    if passing is None or failing is None:
        return None
    return passing, failing


def find_foreign_parameter(params: Mapping[str, Any], prompt: str) -> str | None:
    """Return the first parameter whose number or string does not occur in the prompt, as "name value"; None if all do.

    Such a criterion was invented, or read from another prompt.
    A number may be one off, because "at most 10" is also "less than 11".
    """
    folded = fold_text(prompt)
    # All numbers in the prompt: as digits, as English words, as words such as "twice", as Chinese numerals.
    numbers = {read_number(text) for text in re.findall(r"\d[\d,]*", prompt)}
    numbers |= {read_number(text) for text in re.findall(NUMBER, folded)}
    for word, number in _NUMBER_WORDS.items():
        if re.search(rf"\b{word}\b", folded):
            numbers.add(number)
    numbers |= {int(read_han(numeral)) for numeral in _HAN_NUMERAL.findall(prompt)}
    for name, value in params.items():
        if name in _FREE_PARAMETERS:
            continue
        for item in value if isinstance(value, list | tuple) else [value]:
            if isinstance(item, str):
                mark_name = _MARK_NAMES.get(item)
                # A whole word: "semicolon" does not name a colon.
                is_named = mark_name is not None and re.search(rf"\b{mark_name}(?:e?s)?\b", folded)
                if fold_text(item) not in folded and not is_named:
                    return f"{name} {item!r}"
            elif isinstance(item, int | float) and not isinstance(item, bool):
                # 0 and 1 are seldom written as numbers: "no commas", "a title".
                nearby = {int(item) - 1, int(item), int(item) + 1}
                if item > 1 and numbers.isdisjoint(nearby):
                    return f"{name} {item}"
    return None


def _make_texts(params: Mapping[str, Any]) -> Iterator[str]:
    """Yield texts that fulfil, or miss by a little, whatever the parameters ask for."""
    strings = [value for value in params.values() if isinstance(value, str)]
    for value in params.values():
        if isinstance(value, list | tuple):
            strings += [item for item in value if isinstance(item, str)]
    yield _SENTENCE
    yield _make_words(12)
    if strings:
        joined = " ".join(strings)
        yield joined
        yield f"{_SENTENCE} {joined}"
        yield f"{joined} {_SENTENCE}"
        yield "\n\n".join([_SENTENCE, *strings])
        yield from strings
    counts = {1, 2, 3, 40}
    for value in params.values():
        if isinstance(value, int | float) and value < _LARGEST_COUNT:
            counts |= {max(0, int(value) + change) for change in (-1, 0, 1)}
    for count in sorted(counts):
        for text in _make_texts_of_size(count, strings):
            if len(text) <= _LONGEST_EXAMPLE:
                yield text
    yield from _read_examples()["texts"]


def _make_words(count: int) -> str:
    return " ".join(_WORDS[position % len(_WORDS)] for position in range(count))


def _make_texts_of_size(count: int, strings: list[str]) -> Iterator[str]:
    """Yield texts with this many words, sentences, paragraphs, bullet points and so on."""
    yield _make_words(count)
    yield " ".join(["TIDE"] * count) + " rises"
    for separator, unit in _read_examples()["units"]:
        for string in strings[:5] if "{string}" in unit else [""]:
            units = [unit.format(number=number, string=string) for number in range(1, count + 1)]
            yield separator.join(units)


@cache
def _read_examples() -> dict[str, Any]:
    text = (files("rubrank") / "drafting" / "data" / "examples.yaml").read_text(encoding="utf-8")
    examples: dict[str, Any] = yaml.safe_load(text)
    return examples
