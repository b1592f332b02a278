"""Rules about the format of the response: bullet points, highlights, title, JSON, placeholders, postscript."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rubrank.drafting.rules import Constraint, constrain_count, is_about_a_part
from rubrank.drafting.sentences import Quantity, Sentence, pattern


def _make_count_params(name: str, quantity: Quantity) -> dict[str, object] | None:
    """Return the parameters of a verifier that reads a number as "at least"; None if the quantity is a range.

    Such a verifier cannot check a range.
    """
    if quantity.relation == "between":
        return None
    if quantity.relation in ("plain", "at least"):
        return {name: quantity.number}
    return {name: quantity.number, "relation": quantity.relation}


# ---- bullet points -------------------------------------------------------------------------------------------------

# "⟨q0⟩ bullet points", "⟨q0⟩ short bulleted items"
_BULLETS = pattern(
    r"{quantity}\s+(?:[\w'-]+\s){0,3}?"
    r"bullet(?:ed)?(?:[- ]?points?|s| list items| items| lists)?\b[^.]{0,30}"
)
# "⟨q0⟩ reasons in the form of bullet points"
_BULLETS_LATER = pattern(
    r"{quantity}\s+[^.⟨]{0,60}?\b(?:using|in|with|as|in the form of)\s+"
    r"(?:the\s+)?(?:a\s+)?(?:markdown\s+)?(?:list of )?bullet(?:ed)?[- ]?(?:points?|list|s|form|format)\b"
)
# "a bulleted list with ⟨q0⟩ items"
_BULLET_LIST_OF = pattern(
    r"\bbullet(?:ed)?[- ]?(?:point )?list\s+(?:of|with|containing|that has|having)\s+{quantity}"
    r"\s+(?:[\w'-]+\s){0,2}?(?:items?|points?|entries|bullets?|elements?|lines?|ideas|reasons|tips|steps|examples)\b"
)
_WORDS_OR_SENTENCES = pattern(r"\bwords?\b|\bsentences?\b")


def find_bullets(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """A number of bullet points.

    Give exactly 4 bullet points.
        → detectable_format:number_bullet_lists {"num_bullets": 4}
    Give at least 4 bullet points.
        → BulletCount {"relation": "at least", "count": 4}
    """
    text = sentence.text
    for match in [
        *_BULLETS.finditer(text),
        *_BULLETS_LATER.finditer(text),
        *_BULLET_LIST_OF.finditer(text),
    ]:
        if "sub-bullet" in text or is_about_a_part(text, match.start(), match.end("quantity")):
            continue
        before_bullet = match[0].lower().split("bullet")[0]
        if _WORDS_OR_SENTENCES.search(before_bullet):
            continue  # "20 words as bullet points" counts words
        quantity = sentence.get_quantity(match)
        if quantity.relation in ("plain", "exactly"):
            params = {"num_bullets": quantity.number}
            yield Constraint("detectable_format:number_bullet_lists", params)
        else:
            yield constrain_count(quantity, "BulletCount")
        return


# ---- highlights ----------------------------------------------------------------------------------------------------

# "highlight", "italicized", "in bold"
_HIGHLIGHT = pattern(
    r"\b(?:highlight(?:ed|ing|s)?|italici[sz]e[ds]?|bold(?:ed|face)?|emphasi[sz]e[ds]?|italics?)\b"
)
_HIGHLIGHTED = pattern("{highlighted part}")
_NUMBER_OF_HIGHLIGHTS = pattern(r"{quantity}\s+(?:[\w'-]+\s+){0,4}?{highlighted part}\b")
# Only highlights in Markdown can be counted: the prompt names it, or shows *highlighted text*.
_MARKDOWN_HINT = pattern(r"markdown|\*[^*\n]{1,60}\*|asterisk|highlighted (?:section|text)|⟨s\d+⟩")
_HIGHLIGHT_SHOWN = re.compile(r"(?<!\*)\*[^*\n]{1,60}\*(?!\*)")


def find_highlights(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Highlighted sections in Markdown.

    Highlight at least 3 sections with markdown, i.e. *highlighted section*.
        → detectable_format:number_highlighted_sections {"num_highlights": 3}
    Highlight the key phrases like *this*.
        → detectable_format:number_highlighted_sections {"num_highlights": 1}
    """
    text = sentence.text
    verb = _HIGHLIGHT.search(text)
    if not verb:
        return
    position = prompt.index(sentence)
    neighbours = " ".join(nearby.original for nearby in prompt[position : position + 3])
    if not _MARKDOWN_HINT.search(neighbours):
        return
    match = _NUMBER_OF_HIGHLIGHTS.search(text[max(0, verb.start() - 60) :])
    params: dict[str, object] | None = None
    if match:
        params = _make_count_params("num_highlights", sentence.get_quantity(match))
    elif _HIGHLIGHTED.search(text) and _HIGHLIGHT_SHOWN.search(neighbours):
        params = {"num_highlights": 1}
    if params is not None:
        yield Constraint("detectable_format:number_highlighted_sections", params)


# ---- title and JSON ------------------------------------------------------------------------------------------------

# "a title in double angular brackets", "<<poem of joy>>"
_ANGULAR_BRACKETS = pattern(
    r"\btitles?\b[^.]{0,70}(?:double angular brackets|double angle brackets|angular brackets|<<)"
    r"|<<[^>\n]{0,80}>>|\b(?:double )?angular brackets?\b"
)
_TITLE = pattern(r"\b(?:title|name|bracket)")


def find_title(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """A title in double angular brackets.

    Your answer must contain a title, wrapped in double angular brackets, such as <<poem of joy>>.
        → detectable_format:title {}
    """
    if _ANGULAR_BRACKETS.search(sentence.original) and _TITLE.search(sentence.original):
        yield Constraint("detectable_format:title", {})


_JSON = pattern(
    # "as a single valid JSON", but not "as a JSON file"
    r"\b(?:in|as|into|using|to|a|with|valid|of|only|one|contains|the)\s+(?:a\s+|an\s+|the\s+)?"
    r"(?:single\s+|valid\s+|one\s+|pure\s+|raw\s+|proper\s+)*"
    r"json\b(?!\s+(?:file|files|schema|library|parser|parsing|api|data|web|token|and(?! nothing)))"
    r"|\bjson (?:format|block|object|output|only|response|array|structure)\b"
    r"|\bformat\b[^.]{0,40}\bjson\b"
)
_ASKS_FOR_OUTPUT = pattern(r"\b{put out}\w*\b")
# "write a function that returns JSON": the response is a program
_ABOUT_JSON = pattern(r"\b{about json}\b")


def find_json(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """The whole response is JSON.

    Wrap your entire response in JSON format.
        → detectable_format:json_format {}
    Write a function that returns valid JSON.
        → nothing
    """
    text = sentence.text
    if _JSON.search(text) and _ASKS_FOR_OUTPUT.search(text) and not _ABOUT_JSON.search(text):
        yield Constraint("detectable_format:json_format", {})


# ---- tables and numbered lists -------------------------------------------------------------------------------------

# "as a markdown table", "in tabular form"; not "use table salt"
_TABLE = pattern(
    r"\b(?:as|in|into|using|use|with|form of)\s+(?:an?\s+|one\s+)?(?:single\s+|simple\s+|short\s+|comparison\s+)*"
    r"(?:markdown\s+|md\s+|\S+-column\s+|comparison\s+)*"
    r"(?:table(?:\s+form(?:at)?)?|tabular\s+form(?:at)?)\b(?!\s+(?:of contents|named|called|salt|\w\b|\d))"
)
_OTHER_TABLE = pattern(r"\b{other table}\b")
_ASKS_TO_SHOW = pattern(r"\b{show}\w*\b")
# "do not answer", "instead of answering": a denial before the table or list
_DENIAL = pattern(
    r"(?:\bnot|n't|\bno need|\bnever|\bwithout|\binstead of|\brather than|\bavoid)\b[^.,;]{0,40}$"
)


def find_table(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """A table, with or without text beside it.

    Compare Python and Ruby in a markdown table.
        → FormatRequirement {"format": "table", "only": False}
    Do not use a table.
        → nothing
    """
    text = sentence.text
    match = _TABLE.search(text)
    if not match or _OTHER_TABLE.search(text) or not _ASKS_TO_SHOW.search(text[: match.end()]):
        return
    if not _DENIAL.search(text[: match.start()]):
        yield Constraint("FormatRequirement", {"format": "table", "only": False})


# "as a numbered list", "give me a numbered list of ⟨q0⟩"
_NUMBERED_LIST = pattern(
    r"\b(?:as|in|into|using|use|with|form of|make|create|write|give(?: me)?|provide)\s+(?:an?\s+|the\s+)?"
    r"(?:[\w'-]+\s)?(?:numbered|enumerated)\s+list\b(?:\s+(?:of|with|containing)\s+(?:{quantity}|\S+))?"
)


def find_numbered_list(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """A numbered list, and how many items it has.

    Explain it in a numbered list.
        → FormatRequirement {"format": "numbered", "only": False}
    """
    text = sentence.text
    match = _NUMBERED_LIST.search(text)
    if not match or _DENIAL.search(text[: match.start()]):
        return
    if is_about_a_part(text, match.start(), match.end()):
        return
    yield Constraint("FormatRequirement", {"format": "numbered", "only": False})
    if match["quantity"]:
        quantity = sentence.get_quantity(match)
        yield constrain_count(quantity, "BulletCount")


# ---- placeholders and postscript -----------------------------------------------------------------------------------

_NUMBER_OF_PLACEHOLDERS = pattern(
    # "⟨q0⟩ placeholders", then "placeholders, ⟨q0⟩ of them"
    r"{quantity}\s+(?:[\w'-]+\s){0,3}?(?:place ?holders?|square[- ]bracketed \w+)\b"
    r"|\bplace ?holders?\b[^.]{0,60}?⟨(?P<quantity>q\d+)⟩"
)
_ONE_PLACEHOLDER = pattern(r"\binclude (?:a|one) placeholder")


def find_placeholders(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Placeholders in square brackets.

    Include at least 2 placeholders in square brackets, such as [address].
        → detectable_content:number_placeholders {"num_placeholders": 2}
    """
    for match in _NUMBER_OF_PLACEHOLDERS.finditer(sentence.text):
        params = _make_count_params("num_placeholders", sentence.get_quantity(match))
        if params is not None:
            yield Constraint("detectable_content:number_placeholders", params)
            return
    shows_brackets = any("[" in nearby.text for nearby in prompt)
    if shows_brackets and _ONE_PLACEHOLDER.search(sentence.text):
        yield Constraint("detectable_content:number_placeholders", {"num_placeholders": 1})


_POSTSCRIPT_WORD = pattern(r"\bpost ?-?script\b")
# "a note starting with P.P.S", "add a P.S."
_ASKS_FOR_MARKER = pattern(
    r"\bnote starting with\b"
    r"|\b(?:add|include|end|with|starting|starts|begin\w*|by|have|write|append|using|marked)\b"
    r"[^.]{0,50}P\.?\s?(?:P\.?\s?)?S\b"
)
_MARKER = re.compile(r"\bP\.\s?P\.\s?S\.?|\bP\.\s?S\.?|\bPPS\b|\bPS\b")
# The two markers that the public verifier knows, by their other spellings.
_MARKER_SPELLINGS = {"P.P.S.": "P.P.S", "PPS": "P.P.S", "PS": "P.S.", "P.S": "P.S."}


def find_postscript(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """A postscript with a marker.

    At the end of your response, add a postscript starting with P.P.S
        → detectable_content:postscript {"postscript_marker": "P.P.S"}
    Please add a postscript.
        → detectable_content:postscript {"postscript_marker": "P.S."}
    """
    original = sentence.original
    says_postscript = _POSTSCRIPT_WORD.search(original)
    marker_match = _MARKER.search(original)
    asks_for_marker = marker_match and _ASKS_FOR_MARKER.search(original)
    if not says_postscript and not asks_for_marker:
        return
    marker = re.sub(r"\s", "", marker_match[0]) if marker_match else "P.S."
    params = {"postscript_marker": _MARKER_SPELLINGS.get(marker, marker)}
    yield Constraint("detectable_content:postscript", params)
