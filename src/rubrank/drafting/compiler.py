"""Compile the explicit constraints of a prompt to criteria of the library, by patterns and without a model.

>>> for constraint in compile_prompt("Write a poem of at least 20 words. Do not use any commas."):
...     print(constraint.verifier, dict(constraint.params))
length_constraints:number_words {'relation': 'at least', 'num_words': 20}
punctuation:no_comma {}
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from rubrank.drafting.constraint import Constraint
from rubrank.drafting.rules import endings, formats, keywords, lengths, letters, sections
from rubrank.drafting.rules.chinese import compile_chinese
from rubrank.drafting.rules.requests import hide_story, is_request
from rubrank.drafting.rules.special import find_special
from rubrank.drafting.sentences import Sentence, prepare_sentences

Rule: TypeAlias = Callable[[Sentence, Sequence[Sentence]], Iterator[Constraint]]
"""Yields the constraints of one sentence; it also sees all sentences of the prompt."""

RULES: tuple[Rule, ...] = (
    lengths.find_lengths,
    sections.find_divided_paragraphs,
    sections.find_first_word_of_paragraph,
    sections.find_sections,
    sections.find_two_responses,
    keywords.find_keywords,
    letters.find_letter_counts,
    letters.find_no_comma,
    letters.find_letter_case,
    formats.find_bullets,
    formats.find_highlights,
    formats.find_title,
    formats.find_json,
    formats.find_table,
    formats.find_numbered_list,
    formats.find_placeholders,
    formats.find_postscript,
    endings.find_beginning,
    endings.find_ending,
    endings.find_quotation,
    endings.find_fixed_answers,
    endings.find_language,
)
_HAN = re.compile(r"[一-鿿]")
# A prompt with a larger share of Han characters counts as Chinese; an English one may quote a few.
_CHINESE_SHARE = 0.2


def compile_prompt(prompt: str) -> list[Constraint]:
    """Return the constraints that a prompt states, each once.

    Those of special rules come first, then those of `RULES` in the order of the sentences, then a request that must be
    repeated, then those that the Chinese rules find.
    """
    constraints: list[Constraint] = []
    ordinary = []  # sentences without a special constraint
    for sentence in prepare_sentences(prompt):
        special = list(find_special(sentence, prompt))
        constraints += [replace(constraint, evidence=sentence.original) for constraint in special]
        # "Include keyword x in the 3rd sentence" says more than "include keyword x".
        if not special:
            ordinary.append(sentence)
    for sentence in filter(is_request, ordinary):
        # "Write about a boy who never used commas" must not forbid commas. The rules look up their sentence in the
        # prompt, so it is replaced there too.
        shortened = replace(sentence, text=hide_story(sentence.text))
        sentences = [shortened if item is sentence else item for item in ordinary]
        for rule in RULES:
            for constraint in rule(shortened, sentences):
                evidence = constraint.evidence or sentence.original
                constraints.append(replace(constraint, evidence=evidence))
    # What is repeated is a part of the prompt as it was written, so this rule needs the prompt's text.
    constraints += endings.find_repeated_prompt(prompt, ordinary)
    if len(_HAN.findall(prompt)) > _CHINESE_SHARE * len(prompt):
        constraints += compile_chinese(prompt)
    unique: dict[tuple[str, str], Constraint] = {}
    for constraint in constraints:
        key = (constraint.verifier, repr(sorted(constraint.params.items())))
        unique.setdefault(key, constraint)
    return list(unique.values())
