"""Check a drafted criterion: its parameters stand in the prompt, and its verifier tells a right text from a wrong one.

    >>> params = {"relation": "at least", "num_words": 3}
    >>> passing, failing = find_example_texts("length_constraints:number_words", params)
    >>> len(passing.split()) >= 3, len(failing.split()) < 3
    (True, True)

A verifier that passes every text, or none, would only add noise to the rewards. The texts are made from the parameters:
as many words, sentences, bullet points or placeholders as the numbers say, one fewer and one more, with and without the
strings.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from rubrank.drafting.sentences import NUMBER, fold_text, read_number
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.shared.numerals import read_han
from rubrank.verifiers.verifier import find_verifier, library_examples

_WORDS = (
    "the",
    "tide",
    "rises",
    "slowly",
    "and",
    "a",
    "small",
    "boat",
    "leaves",
    "while",
    "gulls",
    "circle",
    "above",
)
_LARGEST_EXAMPLE = 20_000
_LANGUAGE_SAMPLES = {
    "en": "The tide rises slowly, and a small boat leaves the old harbour before the morning fog is gone.",
    "fr": "La marée monte lentement et un petit bateau quitte le vieux port avant que le brouillard ne disparaisse.",
    "es": "La marea sube despacio y una pequeña barca deja el viejo puerto antes de que se vaya la niebla.",
    "de": "Die Flut steigt langsam, und ein kleines Boot verlässt den alten Hafen, bevor sich der Nebel auflöst.",
    "zh": "潮水慢慢上涨，一艘小船在晨雾散去之前离开了古老的港口。",
    "ja": "潮がゆっくりと満ちて、小さな舟が朝霧の晴れる前に古い港を出ていきます。",
    "ko": "조수가 천천히 차오르고 작은 배 한 척이 아침 안개가 걷히기 전에 오래된 항구를 떠납니다.",
    "ru": "Прилив медленно поднимается, и маленькая лодка покидает старую гавань, пока не рассеялся туман.",
}


def find_example_texts(name: str, params: Mapping[str, Any]) -> tuple[str, str] | None:
    """A text that passes and a text that fails, or None if no pair was found."""
    verifier = find_verifier(name)
    checked = verifier.check_parameters(dict(params))
    passing = None
    failing = None
    for text in _make_texts(params):
        value = verifier.verify(Rollout(response=text), checked).value
        if value == verifier.domain.high and passing is None:
            passing = text
        elif value == verifier.domain.low and text and failing is None:
            failing = text
        if passing is not None and failing is not None:
            return passing, failing
    return _find_library_examples(name)


def _find_library_examples(name: str) -> tuple[str, str] | None:
    """A passing and a failing example of the library, for verifiers whose texts are hard to make (palindromes)."""
    passing = None
    failing = None
    for example in library_examples().get(name, []):
        text = example.get("text")
        if not isinstance(text, str) or "compat" in example:
            continue
        if example.get("value") == 1:
            passing = passing or text
        elif example.get("value") == 0:
            failing = failing or text
    if passing is None or failing is None:
        return None
    return passing, failing


def find_foreign_parameter(params: Mapping[str, Any], prompt: str) -> str | None:
    """A parameter that the prompt does not say; None if all numbers and strings stand in it.

    A number may be one off, because "at most 10" is also "less than 11".
    """
    lowered = fold_text(prompt)
    numbers = {read_number(text) for text in re.findall(r"\d[\d,]*", prompt)}
    numbers |= {read_number(text) for text in re.findall(NUMBER, lowered)}
    numbers |= {
        value for word, value in _NUMBER_WORDS.items() if re.search(rf"\b{word}\b", lowered)
    }
    numbers |= {int(read_han(numeral)) for numeral in _HAN_NUMERAL.findall(prompt)}
    for name, value in params.items():
        if name in _OPEN or name == "postscript_marker":
            continue
        for item in value if isinstance(value, list | tuple) else [value]:
            if (
                isinstance(item, str)
                and fold_text(item) not in lowered
                and _MARK_NAMES.get(item, item) not in lowered
            ):
                return f"{name} {item!r}"
            is_number = isinstance(item, int | float) and not isinstance(item, bool)
            if is_number and item > 1 and not {int(item) - 1, int(item), int(item) + 1} & numbers:
                return f"{name} {item}"
    return None


_MARK_NAMES = {
    "!": "exclamation",
    "?": "question mark",
    ";": "semicolon",
    ":": "colon",
    "#": "hash",
}
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
_OPEN = (
    *(
        "relation",
        "let_relation",
        "capital_relation",
        "lang",
        "unit",
        "kinds",
        "language",
        "format",
        "pattern",
    ),
    *("case", "style", "marks", "need", "scope"),
)
"""Parameters whose values need not stand in the prompt in the same words."""


def _make_texts(params: Mapping[str, Any]) -> Iterator[str]:
    """Texts that fulfil, or miss by a little, whatever the parameters ask for."""
    numbers = sorted(
        {int(value) for value in params.values() if isinstance(value, int | float) and value < 5000}
    )
    strings = [value for value in params.values() if isinstance(value, str)]
    for value in params.values():
        if isinstance(value, list | tuple):
            strings += [item for item in value if isinstance(item, str)]
    plain = "The tide rises slowly."
    counts = sorted(
        {max(0, number + change) for number in numbers for change in (-1, 0, 1)} | {1, 2, 3, 40}
    )
    yield plain
    yield _make_words(12)
    joined = " ".join(strings)
    if strings:
        yield joined
        yield f"{plain} {joined}"
        yield f"{joined} {plain}"
        yield "\n\n".join([plain, *strings])
        yield from strings
    for count in counts:
        for text in _counted_texts(count, strings):
            if len(text) <= _LARGEST_EXAMPLE:
                yield text
    yield from _LANGUAGE_SAMPLES.values()
    yield plain.upper()
    yield plain.lower()
    yield f'"{plain}"'
    yield json.dumps({"answer": plain})
    yield f"<<Tides>>\n\n{plain}"
    yield f"{plain}\n\nP.S. Bring a coat."
    yield f"{plain}\n\nP.P.S Bring a coat."
    yield f"{plain}\n******\nThe boat stays."
    yield "The tide, and the boat, rise! Is it 5 o'clock? 🙂"
    yield "| a | b |\n|---|---|\n| 1 | 2 |"
    yield "My answer is yes."


def _make_words(count: int) -> str:
    return " ".join(_WORDS[position % len(_WORDS)] for position in range(count))


def _counted_texts(count: int, strings: list[str]) -> Iterator[str]:
    sentence = "The tide rises slowly."
    yield _make_words(count)
    yield " ".join([sentence] * count)
    yield "\n\n".join([sentence] * count)
    yield "\n***\n".join([sentence] * count)
    yield "\n".join(f"* point {position}" for position in range(1, count + 1))
    yield "\n".join(f"{position}. point" for position in range(1, count + 1))
    yield " ".join(f"[name {position}]" for position in range(1, count + 1))
    yield " ".join(f"*part {position}*" for position in range(1, count + 1))
    yield " ".join(["TIDE"] * count) + " rises"
    yield " ".join(str(position) for position in range(1, count + 1))
    yield "x" * count
    for string in strings[:5]:
        yield " ".join([string] * count) + " end."
        yield "\n\n".join(f"{string} {position}\n{sentence}" for position in range(1, count + 1))
        yield "\n\n".join([f"{string} {sentence}"] * count)
