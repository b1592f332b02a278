"""Rules about the length and the parts of the response: words, sentences, paragraphs, sections, two responses."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rubrank.drafting.rules import Constraint, constrain_count, is_about_a_part
from rubrank.drafting.sentences import Quantity, Sentence, list_words, pattern, read_group

# ---- lengths -------------------------------------------------------------------------------------------------------

# "⟨q0⟩ words", "⟨q0⟩-word", "⟨q0⟩ short sentences"
_NUMBER_THEN_UNIT = pattern(
    r"{quantity}[- ]?\s?(?:(?P<adjective>[\w'/-]+)\s(?:[\w'-]+\s)?)?"
    r"(?P<unit>words?|sentences?|paragraphs?|characters?|stanzas?)\b(?=(?P<after>[^.]{0,45}))"
)
# "the number of words should be ⟨q0⟩", "word limit: ⟨q0⟩"
_UNIT_THEN_NUMBER = pattern(
    r"\b(?:number of (?P<unit>words|sentences|paragraphs|characters)"
    r"|(?P<unit>word|sentence|character) (?:count|limit|length))\b"
    r"(?:\s*{between unit and number}){0,10}\s*"
    r"{quantity}(?!\s*(?:times|bullet))"
)
# "300 short words" counts the words of the response; "300 French words" counts only some of them.
_PLAIN_ADJECTIVE = pattern(r"^{plain adjective}$")
_NOT_A_LENGTH_AFTER = pattern(
    # "5 words in all caps"
    r"^(?:(?!\band\b)[^,;⟨]){0,40}\b(?:caps|capitals?|capitalized|uppercase|upper case)\b"
    # "3 words that rhyme", "2 sentences from the text", "5 words each"
    r"|^\s*{some units only}"
)
# "summarise these 300 words": the length of something in the prompt
_MATERIAL_BEFORE = pattern(
    r"\b(?:this|these|following|attached|above|below|given|original|my|his|her|their)\s*$"
)
# "essays of ⟨q0⟩-word length", "⟨q0⟩-word essays": texts that the prompt speaks of
_OTHER_TEXTS = pattern(r"^(?:\s+[\w'-]+)?\s+{other texts}\b")
# "the difference between a 5-paragraph essay and a report", "how to structure a 500-word essay", "compare a 250-word
# abstract with a paper"; "review the book in a 200-word essay" asks for one
_SUCH_TEXTS_BEFORE = pattern(
    r"\b(?:differences? between|what (?:is|makes|counts as)|purpose of|structure of|history of)\b[^.,;:]*$"
    r"|\b(?:how|ways?|tips|advice|best way)\b[^.,;:]{0,30}\b(?:write|writing|structure|plan|format|outline)\b[^.,;:]*$"
    r"|\b{work on a text}\b"
    r"(?:(?!\b(?:write|compose|draft|create|give|provide|in|into|as|with|using)\b)[^.,;:]){0,40}$"
)
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
    r"\b(?:length|total|maximum|minimum|limit|consist(?:s|ing)?|comprised|composed|made up"
    r"|essay|story|text|poem|article) of$"
)
_BEFORE_FEW_WORDS = pattern(r"\b(?:in|with|using|exactly)$")
_BEFORE_SIZE = pattern(r"\b{before a size}$")


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


# ---- paragraphs that are separated by *** --------------------------------------------------------------------------

_DIVIDER = pattern(r"(?<!\*)\*\*\*(?!\*)|\b(?:three|3) asterisks?\b|markdown divider")
# "use this format:"
_FORM = pattern(r"\b(?:format|form)\b")
# "⟨q0⟩ paragraphs", "⟨q0⟩ short stanzas"
_NUMBER_OF_PARTS = pattern(
    r"{quantity}\s+(?:\w+\s){0,2}?"
    r"(?:paragraphs?|sections?|parts?|stanzas?|verses?|chapters?|pieces|q and as|q&as)\b"
)


def has_divider(prompt: Sequence[Sentence]) -> bool:
    """Does the prompt ask for *** between paragraphs?"""
    return any(_DIVIDER.search(sentence.original) for sentence in prompt)


def find_divided_paragraphs(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Find how many paragraphs or parts, separated by ***, are asked for.

    The number may be in the sentence itself, up to three sentences before it, or in the next one.

    Write 3 paragraphs. Separate them with the markdown divider: ***
        → length_constraints:number_paragraphs {"num_paragraphs": 3}
    """
    if not _DIVIDER.search(sentence.original):
        return
    position = prompt.index(sentence)
    divider_lines = [index for index, line in enumerate(prompt) if line.original.strip() == "***"]
    asks_for_form = any(_FORM.search(earlier.text) for earlier in prompt[:position])
    if len(divider_lines) >= 2 and asks_for_form:
        # The prompt shows the form: "Use this format:", then parts with lines of *** between them.
        if divider_lines[0] == position:
            params = {"num_paragraphs": len(divider_lines) + 1}
            yield Constraint("length_constraints:number_paragraphs", params)
        return
    earlier = reversed(prompt[max(0, position - 3) : position])
    following = prompt[position + 1 : position + 2]
    for nearby in (sentence, *earlier, *following):
        for match in _NUMBER_OF_PARTS.finditer(nearby.text):
            quantity = nearby.get_quantity(match)
            if quantity.relation in ("plain", "exactly", "at least"):
                params = {"num_paragraphs": quantity.number}
                yield Constraint("length_constraints:number_paragraphs", params, nearby.original)
                return


# ---- the first word of a paragraph ---------------------------------------------------------------------------------

_ORDINALS = list_words("ordinal")
# "the second paragraph must start with the word ⟨s0⟩", "paragraph 2 begins with tide"
_FIRST_WORD = pattern(
    r"\b(?:(?P<ordinal>{ordinal}|last|final|\d+(?:st|nd|rd|th))\s+paragraph|paragraph\s+(?:number\s+)?(?P<number>⟨q\d+⟩|\d+))(?!\w)[^.]{0,60}?"
    r"\b(?:start|begin|starting|beginning|starts|begins)\b\s+(?:off\s+)?with\s+"
    r"(?:the\s+)?(?:exact\s+)?(?:word\s+)?:?\s*"
    r"(?:{string}|(?P<bare>[^\W\d_][\w'-]*))"
)
# "start the second paragraph with", "begin paragraph 2 with"
_START_PARAGRAPH = pattern(
    r"\b(start|begin)(?:ing)?\s+((?:the\s+)?(?:\w+\s+paragraph|paragraph\s+(?:⟨q\d+⟩|\d+)))\s+(?=with\b)"
)
# "⟨q0⟩ paragraphs", "⟨q0⟩-paragraph essay"
_NUMBER_OF_PARAGRAPHS = pattern(r"{quantity}[- ](?:\w+\s){0,2}?paragraphs?\b")


def names_first_word(prompt: Sequence[Sentence]) -> bool:
    """Does the prompt say with which word a paragraph starts?"""
    return any(_find_first_word(sentence) for sentence in prompt)


def _find_first_word(sentence: Sentence) -> re.Match[str] | None:
    """Return the match of `_FIRST_WORD`, if the sentence says with which word a paragraph starts.

    "Start the second paragraph with" is first turned into "the second paragraph start with".
    """
    return _FIRST_WORD.search(_START_PARAGRAPH.sub(r"\2 \1 ", sentence.text))


def find_first_word_of_paragraph(
    sentence: Sentence, prompt: Sequence[Sentence]
) -> Iterator[Constraint]:
    """Find the first word of one paragraph, together with the number of paragraphs.

    Write 4 paragraphs. Paragraph 2 must start with the word "tide".
        → length_constraints:nth_paragraph_first_word {"num_paragraphs": 4, "nth_paragraph": 2, "first_word": "tide"}
    """
    match = _find_first_word(sentence)
    if not match:
        return
    totals = [
        nearby.get_quantity(count)
        for nearby in prompt
        for count in _NUMBER_OF_PARAGRAPHS.finditer(nearby.text)
    ]
    clear_totals = [total.number for total in totals if total.relation in ("plain", "exactly")]
    if not clear_totals:
        return
    total = clear_totals[0]
    if match["number"]:
        token = match["number"].strip("⟨⟩")
        nth = sentence.quantities[token].number if token in sentence.quantities else int(token)
    elif match["ordinal"].lower() in ("last", "final"):
        nth = total
    elif match["ordinal"][0].isdigit():
        nth = int(re.sub(r"\D", "", match["ordinal"]))
    else:
        nth = _ORDINALS.index(match["ordinal"].lower()) + 1
    word = sentence.get_string(match)
    if 1 <= nth <= total and len(word.split()) == 1:
        params = {
            "num_paragraphs": total,
            "nth_paragraph": nth,
            "first_word": word.strip(".,!?").lower(),
        }
        yield Constraint("length_constraints:nth_paragraph_first_word", params)


# ---- labelled sections ---------------------------------------------------------------------------------------------

# "mark each section with ⟨s0⟩", "each one labelled as Section X"
_LABEL = pattern(
    r"\b{label}\b[^.]{0,60}?\b(?:with|as|by|into|the|:)\s*:?\s*"
    r"(?:{string}|(?P<bare>[A-Za-z]+)\s+(?:X\b|#?⟨(?P<label_number>q\d+)⟩|1\b|#))"
)
# "Day X", "Section 1:", "Part #"
_QUOTED_LABEL = re.compile(r"([A-Za-z]+)\s*(?:X|\d+|#\d*)\.?:?$")
# "Section 1, Section 2" without quotation marks
_LISTED_LABELS = re.compile(r"\b([A-Z][A-Za-z]{2,}) 1\b[^.\n]{0,20}\b\1 2\b")
# "⟨q0⟩ sections", "⟨q0⟩-day itinerary"
_NUMBER_OF_SECTIONS = pattern(r"{quantity}(?:[- ](?:[\w-]+\s){0,3}?{labelled part}\b| section)")
_LABELLING = pattern("section|part|mark|label|begin")


def find_sections(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Find how many sections begin with "Section 1", "Day 2" and so on.

    Write 3 sections. Mark the beginning of each section with "Day X".
        → detectable_format:multiple_sections {"section_spliter": "Day", "num_sections": 3}
    """
    label = _find_label(sentence)
    if label is None:
        return
    position = prompt.index(sentence)
    for nearby in (sentence, *reversed(prompt[:position]), *prompt[position + 1 :]):
        for match in _NUMBER_OF_SECTIONS.finditer(nearby.text):
            quantity = nearby.get_quantity(match)
            if quantity.relation in ("plain", "exactly", "at least"):
                params: dict[str, object] = {
                    "section_spliter": label,
                    "num_sections": quantity.number,
                }
                if quantity.relation == "at least":
                    params["relation"] = "at least"
                yield Constraint("detectable_format:multiple_sections", params)
                return


def _find_label(sentence: Sentence) -> str | None:
    """Return the word before the number of every section, "Day" in "Day 1", "Day 2"; None if there is none.

    It may be quoted ("Day X"), bare (Day X), or shown by a list (Day 1, Day 2).
    """
    for match in _LABEL.finditer(sentence.text):
        if match["string"]:
            quoted = _QUOTED_LABEL.match(sentence.strings[match["string"]])
            if quoted:
                return quoted[1]
        elif match["bare"].lower() not in list_words("no label"):
            # "as Section 1" names the first section; "using Python 3" names none.
            token = match["label_number"]
            if not token or sentence.quantities[token].number == 1:
                return match["bare"]
    listed = _LISTED_LABELS.search(sentence.original)
    if listed and _LABELLING.search(sentence.text):
        return listed[1]
    return None


# ---- two responses -------------------------------------------------------------------------------------------------

_SIX_ASTERISKS = pattern(r"(?<!\*)\*{6}(?!\*)|\b(?:six|6) (?:asterisks?|asterisk symbols|stars)\b")


def find_two_responses(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Find that two responses are asked for, separated by ******.

    Give two different responses, separated by 6 asterisk symbols: ******.
        → combination:two_responses {}
    """
    if _SIX_ASTERISKS.search(sentence.original):
        yield Constraint("combination:two_responses", {})
