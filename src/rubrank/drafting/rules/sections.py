"""Rules about the parts of the response: divided paragraphs, first words of paragraphs, sections, two responses.

Each rule gets a sentence and all sentences of the prompt, and yields the constraints that the sentence states; its
docstring has examples. In a sentence, tokens stand for what the prompt says: ⟨q0⟩ for a quantity such as "at least 20",
⟨s0⟩ for a quoted string (`sentences.py`). `words("…")` is a list of alternatives in data/words.tsv.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rubrank.drafting.constraint import Constraint
from rubrank.drafting.patterns import QUANTITY, STRING, any_of, list_words, pattern, words
from rubrank.drafting.sentences import Sentence

# ---- paragraphs that are separated by *** --------------------------------------------------------------------------

_DIVIDER = pattern(r"(?<!\*)\*\*\*(?!\*)|\b(?:three|3) asterisks?\b|markdown divider")
# "use this format:"
_FORM = pattern(r"\b(?:format|form)\b")
# "⟨q0⟩ paragraphs", "⟨q0⟩ short stanzas"
_NUMBER_OF_PARTS = pattern(
    rf"{QUANTITY}\s+(?:\w+\s){{0,2}}?",
    r"(?:paragraphs?|sections?|parts?|stanzas?|verses?|chapters?|pieces|q and as|q&as)\b",
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
_ORDINAL = any_of(*_ORDINALS, "last", "final", r"\d+(?:st|nd|rd|th)")
# "the second paragraph must start with the word ⟨s0⟩", "paragraph 2 begins with tide"
_FIRST_WORD = pattern(
    rf"\b(?:(?P<ordinal>{_ORDINAL})\s+paragraph|paragraph\s+(?:number\s+)?(?P<number>⟨q\d+⟩|\d+))(?!\w)[^.]{{0,60}}?",
    r"\b(?:start|begin|starting|beginning|starts|begins)\b\s+(?:off\s+)?with\s+",
    r"(?:the\s+)?(?:exact\s+)?(?:word\s+)?:?\s*",
    rf"(?:{STRING}|(?P<bare>[^\W\d_][\w'-]*))",
)
# "start the second paragraph with", "begin paragraph 2 with"
_START_PARAGRAPH = pattern(
    r"\b(start|begin)(?:ing)?\s+((?:the\s+)?(?:\w+\s+paragraph|paragraph\s+(?:⟨q\d+⟩|\d+)))\s+(?=with\b)"
)
# "⟨q0⟩ paragraphs", "⟨q0⟩-paragraph essay"
_NUMBER_OF_PARAGRAPHS = pattern(QUANTITY, r"[- ](?:\w+\s){0,2}?paragraphs?\b")


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
    rf"\b{words('label')}\b[^.]{{0,60}}?\b(?:with|as|by|into|the|:)\s*:?\s*",
    rf"(?:{STRING}|(?P<bare>[A-Za-z]+)\s+(?:X\b|#?⟨(?P<label_number>q\d+)⟩|1\b|#))",
)
# "Day X", "Section 1:", "Part #"
_QUOTED_LABEL = re.compile(r"([A-Za-z]+)\s*(?:X|\d+|#\d*)\.?:?$")
# "Section 1, Section 2" without quotation marks
_LISTED_LABELS = re.compile(r"\b([A-Z][A-Za-z]{2,}) 1\b[^.\n]{0,20}\b\1 2\b")
# "⟨q0⟩ sections", "⟨q0⟩-day itinerary"
_NUMBER_OF_SECTIONS = pattern(
    rf"{QUANTITY}(?:[- ](?:[\w-]+\s){{0,3}}?{words('labelled part')}\b| section)"
)
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
