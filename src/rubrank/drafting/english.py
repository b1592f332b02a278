"""Compile the constraints that English prompts state; the rules stand in `rules/`, one module per subject."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from rubrank.drafting.constraint import Constraint
from rubrank.drafting.rules import endings, formats, keywords, lengths, letters, sections
from rubrank.drafting.rules.patterns import Rule
from rubrank.drafting.rules.requests import hide_story, is_request
from rubrank.drafting.sentences import Sentence

RULES: tuple[Rule, ...] = (
    lengths.lengths,
    sections.divided_paragraphs,
    sections.first_word_of_paragraph,
    sections.sections,
    sections.two_responses,
    keywords.keywords,
    letters.letters,
    letters.no_comma,
    letters.letter_case,
    formats.bullets,
    formats.highlights,
    formats.title,
    formats.json_format,
    formats.table,
    formats.numbered_list,
    formats.placeholders,
    formats.postscript,
    endings.beginning,
    endings.ending,
    endings.quotation,
    endings.constrained_options,
    endings.response_language,
)


def compile_english(prompt_text: str, prompt: Sequence[Sentence]) -> list[Constraint]:
    """All constraints of an English prompt, in its order."""
    constraints: list[Constraint] = []
    for sentence in prompt:
        if is_request(sentence):
            shortened = replace(sentence, text=hide_story(sentence.text))
            sentences = [shortened if other is sentence else other for other in prompt]
            for rule in RULES:
                constraints += rule(shortened, sentences)
    # What is repeated is a part of the prompt as it was written, so this rule needs the prompt's text.
    constraints += endings.repeat_prompt(prompt_text, prompt)
    return constraints
