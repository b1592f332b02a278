"""Rules about the length of the response: words, sentences, paragraphs and characters."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rubrank.drafting.constraint import Constraint, constrain_count
from rubrank.drafting.patterns import QUANTITY, pattern, read_group, words
from rubrank.drafting.rules.requests import is_about_a_part
from rubrank.drafting.rules.sections import has_divider, names_first_word
from rubrank.drafting.sentences import Quantity, Sentence

# "⟨q0⟩ words", "⟨q0⟩-word", "⟨q0⟩ short sentences"
_NUMBER_THEN_UNIT = pattern(
    QUANTITY,
    r"[- ]?\s?(?:(?P<adjective>[\w'/-]+)\s(?:[\w'-]+\s)?)?",
    r"(?P<unit>words?|sentences?|paragraphs?|characters?|stanzas?)\b(?=(?P<after>[^.]{0,45}))",
)
# "the number of words should be ⟨q0⟩", "word limit: ⟨q0⟩"
_UNIT_THEN_NUMBER = pattern(
    r"\b(?:number of (?P<unit>words|sentences|paragraphs|characters)",
    r"|(?P<unit_2>word|sentence|character) (?:count|limit|length))\b",
    rf"(?P<between>(?:\s*{words('between unit and number')}){{0,10}}\s*)",
    QUANTITY,
    r"(?!\s*(?:times|bullet))",
)
# "300 short words" counts the words of the response; "300 French words" counts only some of them.
_PLAIN_ADJECTIVE = pattern(rf"^{words('plain adjective')}$")
# "5 words in all caps"
_IN_CAPITALS = (
    r"^(?:(?!\band\b)[^,;⟨]){0,40}\b(?:caps|capitals?|capitalized|uppercase|upper case)\b"
)
# "3 words that rhyme", "2 sentences from the text", "5 words each"
_NOT_A_LENGTH_AFTER = pattern(rf"{_IN_CAPITALS}|^\s*{words('some units only')}")
# "summarise these 300 words": the length of something in the prompt
_MATERIAL_BEFORE = pattern(
    r"\b(?:this|these|following|attached|above|below|given|original|my|his|her|their)\s*$"
)
# "essays of ⟨q0⟩-word length", "⟨q0⟩-word essays": texts that the prompt speaks of
_OTHER_TEXTS = pattern(rf"^(?:\s+[\w'-]+)?\s+{words('other texts')}\b")
# "the difference between a 5-paragraph essay and a report", "how to structure a 500-word essay", "compare a 250-word
# abstract with a paper"; "review the book in a 200-word essay" asks for one
_SUCH_TEXTS_BEFORE = pattern(
    r"\b(?:differences? between|what (?:is|makes|counts as)|purpose of|structure of|history of)\b[^.,;:]*$",
    r"|\b(?:how|ways?|tips|advice|best way)\b[^.,;:]{0,30}\b(?:write|writing|structure|plan|format|outline)\b[^.,;:]*$",
    rf"|\b{words('work on a text')}\b",
    r"(?:(?!\b(?:write|compose|draft|create|give|provide|in|into|as|with|using)\b)[^.,;:]){0,40}$",
)
_OF_PARTS_BETWEEN = pattern(r"capital|each|every|per\b|⟨s")
_LIMIT = pattern(r"\blimit|maximum|max\b")


def find_lengths(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Words, sentences, paragraphs and characters of the response.

    Write an essay of at least 900 words.
        → length_constraints:number_words {"relation": "at least", "num_words": 900}
    Write a 300-word story.
        → WordCount {"relation": "around", "count": 300}
    The word limit is 200.
        → length_constraints:number_words {"relation": "at most", "num_words": 200}
    Use three words that rhyme.
        → nothing
    """
    text = sentence.text
    for match in _NUMBER_THEN_UNIT.finditer(text):
        quantity = sentence.get_quantity(match)
        before = text[: match.start()]
        adjective = match["adjective"]
        if adjective and not _PLAIN_ADJECTIVE.match(adjective):
            continue
        if _NOT_A_LENGTH_AFTER.search(match["after"]) or _MATERIAL_BEFORE.search(before):
            continue
        if is_about_a_part(text, match.start(), match.end("unit")):
            continue
        if quantity.relation == "plain":
            if _OTHER_TEXTS.search(match["after"]) or _SUCH_TEXTS_BEFORE.search(before):
                continue
            if not _is_size_of_response(before, match["unit"], quantity):
                continue
        yield from _make_constraints(match["unit"], quantity, prompt)
    for match in _UNIT_THEN_NUMBER.finditer(text):
        if _OF_PARTS_BETWEEN.search(match["between"]):
            continue
        quantity = sentence.get_quantity(match)
        if quantity.relation == "plain" and _LIMIT.search(match[0]):
            quantity = Quantity("at most", quantity.low, quantity.high)
        yield from _make_constraints(read_group(match, "unit"), quantity, prompt)


# "the two sentences", "both paragraphs": texts that the prompt speaks of
_REFERENCE_BEFORE = pattern(
    r"\b(?:the|those|both|any|all|other|between|of|her|its|than|another|next|last)$"
)
# "a length of", "an essay of"
_SIZE_OF_BEFORE = pattern(
    r"\b(?:length|total|maximum|minimum|limit|consist(?:s|ing)?|comprised|composed|made up",
    r"|essay|story|text|poem|article) of$",
)
_BEFORE_FEW_WORDS = pattern(r"\b(?:in|with|using|exactly)$")
_BEFORE_SIZE = pattern(rf"\b{words('before a size')}$")


def _is_size_of_response(before: str, unit: str, quantity: Quantity) -> bool:
    """Does a number alone state the size of the response, as in "a 300 word essay", but not in "these two words"?"""
    before = before.rstrip()
    unit = unit.lower()
    if _REFERENCE_BEFORE.search(before):
        return bool(_SIZE_OF_BEFORE.search(before))
    if unit.startswith("word"):
        # "The two words" are often words that the prompt speaks of; nobody speaks of 300 words.
        return quantity.number >= 10 or bool(_BEFORE_FEW_WORDS.search(before))
    is_adjective = unit == "paragraph"  # "a five paragraph essay"
    return is_adjective or bool(_BEFORE_SIZE.search(before))


def _make_constraints(
    unit: str, quantity: Quantity, prompt: Sequence[Sentence]
) -> Iterator[Constraint]:
    """Yield the constraint on the number of a unit such as "words"; nothing for units that no verifier counts."""
    unit = unit.lower().rstrip("s")
    if unit == "word":
        public = ("length_constraints:number_words", "num_words")
        yield constrain_count(quantity, "WordCount", public=public, plain="around")
    elif unit == "sentence":
        public = ("length_constraints:number_sentences", "num_sentences")
        yield constrain_count(quantity, "SentenceCount", public=public)
    elif unit == "character":
        yield constrain_count(quantity, "WordCount", plain="around", unit="characters")
    # Other rules compile the number of paragraphs together with their divider or a first word.
    elif unit == "paragraph" and not has_divider(prompt) and not names_first_word(prompt):
        yield constrain_count(quantity, "ParagraphCount")
