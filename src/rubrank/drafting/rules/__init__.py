"""The rules that compile prompts, and what they share.

A rule is a function that yields the constraints of one sentence; it also sees all sentences of the prompt. In the
sentences, tokens stand for what the prompt says: ⟨q0⟩ for a quantity such as "at least 20", ⟨s0⟩ for a quoted string
(`sentences.py`). Patterns name lists of data/words.tsv in braces: `{use}` matches "include", "mention" and so on.
Four of the lists also capture what they match, in a group:

    list            matches                  group       read by
    {quantity}      ⟨q0⟩                     quantity    Sentence.get_quantity
    {string}        ⟨s0⟩                     string      Sentence.get_string
    {strings}       ⟨s0⟩, ⟨s1⟩ and ⟨s2⟩      strings     Sentence.find_strings, after read_group
    {bare words}    happy, sad and glad      bare        read_group

The examples in the docstring of a rule are tests (`tests/drafting/test_rules.py`): a prompt, and below it everything
that the rule compiles from it, or "nothing".

    structure.py    words, paragraphs, sections, bullet points, highlights, title, JSON, table, postscript
    keywords.py     keywords, letters, commas, capitals
    endings.py      first and last words, quotation marks, fixed answers, language, the repeated request
    chinese.py      the same for Chinese prompts, which have rules of their own
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rubrank.drafting.sentences import Quantity, Relation, Sentence, pattern, read_group

_NEGATED_WITHIN = pattern("{negation}")
# A negation in the text before a match: "do not use the" before "word ⟨s0⟩", or "do not use the words ⟨s0⟩ and" before
# "⟨s1⟩". It must be in the same clause: "do not rhyme and use the" negates something else.
_NEGATED_BEFORE = pattern(
    r"{negation}(?:\s+(?!(?:and|but)\b)[\w'-]+){0,6}\s*:?\s*"
    r"(?:⟨s\d+⟩\s*,?\s*(?:and\s+|or\s+|nor\s+)?)*$"
)
_OPPOSITE: dict[Relation, Relation] = {
    "more than": "at most",
    "less than": "at least",
    "at least": "less than",
    "at most": "more than",
}


@dataclass(frozen=True)
class Constraint:
    """A verifier with its parameters, and the words of the prompt that state it."""

    verifier: str
    params: Mapping[str, Any] = field(default_factory=dict)
    evidence: str = ""
    """Empty: the compiler adds the whole sentence."""


Rule: TypeAlias = Callable[[Sentence, Sequence[Sentence]], Iterator[Constraint]]
"""Yields the constraints of one sentence; it also sees all sentences of the prompt."""


def constrain_count(
    quantity: Quantity,
    general: str,
    *,
    public: tuple[str, str] | None = None,
    plain: str = "exactly",
    unit: str | None = None,
) -> Constraint:
    """Return a constraint on a count, such as the number of words.

    general: the library's criterion, which takes every relation and a range.
    public: id of a benchmark's instruction and the name of its number. It is preferred, but it only knows "at least",
        "at most", "more than" and "less than".
    plain: what a number without a relation means.
    unit: parameter of `general`, if it needs one.
    """
    relation = quantity.relation if quantity.relation != "plain" else plain
    params: dict[str, Any]
    if relation == "between":
        params = {"low": quantity.low, "high": quantity.high}
    elif public and relation in ("at least", "at most", "more than", "less than"):
        identifier, number_name = public
        return Constraint(identifier, {"relation": relation, number_name: quantity.number})
    else:
        params = {"relation": relation, "count": quantity.number}
    if unit is not None:
        params["unit"] = unit
    return Constraint(general, params)


def split_bounds(quantity: Quantity) -> list[tuple[str, int]]:
    """Return a quantity as (relation, number) pairs: "at least" and "at most" for a range, else one pair."""
    if quantity.relation == "between":
        return [("at least", quantity.low), ("at most", quantity.high)]
    if quantity.relation == "plain":
        return [("exactly", quantity.number)]
    return [(quantity.relation, quantity.number)]


def read_frequency(sentence: Sentence, match: re.Match[str]) -> list[tuple[str, int]]:
    """Return how often a word or letter may appear, as (relation, number) pairs; negations are taken into account.

    match: has the group `quantity`, and `middle` if the pattern has the quantity after the word: the text between them.

    Do not use the word "tide" more than 3 times.      [("at most", 3)]
    Do not use the word "tide" at least 3 times.       [("less than", 3)]
    The word "tide" should not appear twice.           []: a negated number says neither more nor fewer
    """
    quantity = sentence.get_quantity(match)
    is_negated_before = bool(_NEGATED_BEFORE.search(sentence.text[: match.start()]))
    is_negated_within = bool(_NEGATED_WITHIN.search(read_group(match, "middle")))
    if not is_negated_before and not is_negated_within:
        return split_bounds(quantity)
    if quantity.relation not in _OPPOSITE:
        return []
    # `sentences.py` reads a negation directly before a quantity: that of "do not use more than 3 mentions of" is "at
    # most 3", and must not be reversed again. It does not read a negation on the other side of the word: that of "do
    # not use the word ⟨s0⟩ at least 3 times" is still "at least 3".
    word_is_between = is_negated_before and "middle" in match.re.groupindex
    if word_is_between or quantity.relation in ("more than", "less than"):
        return [(_OPPOSITE[quantity.relation], quantity.number)]
    return [(quantity.relation, quantity.number)]


# ---- the whole response or a part of it ----------------------------------------------------------------------------

# How far from a quantity `is_about_a_part` looks for words such as "each", within the clause.
_CHARACTERS_BEFORE = 70
_CHARACTERS_AFTER = 40
_CLAUSE_START = re.compile(r"[.;:,]|\band\b|\bbut\b")
_CLAUSE_END = re.compile(r"[.;,:]")
# "each section has …", "all the sentences have …"
_EACH_PART_BEFORE = pattern(
    r"\b(?:each|every|per|both|all (?:the )?(?:sentences|paragraphs|lines|items|sections|answers|responses))\b"
)
# "3 paragraphs, each separated by ***" speaks of the whole response.
_EACH_PART_AFTER = pattern(
    r"\s*(?:each\b(?! separated| of which is separated)|apiece|per\b|in each|for each|every\b)"
)
# "the first sentence", "the last paragraph"
_ONE_PART = pattern(
    r"\b(?:first|second|third|last|final|opening|closing|introductory|concluding)\s+"
    r"(?:sentence|paragraph|section|part|line|half)\b"
)
# "an introduction of 50 words", "the title must have 5 words"
_NAMED_PART = pattern(
    r"\b{named part}\s+"
    r"(?:of|with|that|should|must|has|have|containing|contains?|is|are|be)\b[^,]{0,30}$"
)
# "For each tier, keep to a paragraph not exceeding 200 words", "no paragraph exceeding 100 words"
_PARTS_EARLIER = pattern(
    r"\bfor (?:each|every)\b|\b(?:each|every)\b[^.;]{0,80}\b(?:must|should|is|are|follows?|has|consists?)\b"
    r"|\bno (?:paragraph|sentence|section|line|step|item)\b"
)


def is_about_a_part(text: str, start: int, end: int) -> bool:
    """Is a quantity about parts of the response, as in "each section has 50 words"?

    Looks at the words of its clause, and at all text before it for a "for each …" that still applies.

    start, end: where the quantity is in the text.
    """
    before = _CLAUSE_START.split(text[:start])[-1][-_CHARACTERS_BEFORE:]
    after = _CLAUSE_END.split(text[end:])[0][:_CHARACTERS_AFTER]
    return bool(
        _EACH_PART_BEFORE.search(before)
        or _EACH_PART_AFTER.match(after)
        or _PARTS_EARLIER.search(text[:start])
        or _ONE_PART.search(before)
        or _NAMED_PART.search(before)
    )
