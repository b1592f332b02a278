"""Rules about the form of the response: its length and parts, then bullet points, highlights, tables, and so on.

length and parts    words, sentences, paragraphs, sections, two responses
format              bullet points, highlights, title, JSON, table, numbered list, placeholders, postscript

The sentences have tokens: ⟨s0⟩ stands for a quoted string, ⟨q0⟩ for a quantity such as "at least 3", ⟨m⟩ for material.
In the patterns, names in braces are lists of words; {string}, {strings}, {bare words} and {quantity} also capture what
they match in the groups `string`, `strings`, `bare` and `quantity` (`rules/__init__.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rubrank.drafting.rules import Constraint, constrain_count, is_about_a_part
from rubrank.drafting.sentences import Quantity, Sentence, list_words, pattern, read_group

# ---- lengths -------------------------------------------------------------------------------------------------------

# "⟨q0⟩ words", "⟨q0⟩-word", "⟨q0⟩ short sentences". `after` is only looked at: the patterns below need up
# to 45 characters of the text that follows.
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
# "the word limit is ⟨q0⟩": at most
_LIMIT = pattern(r"\blimit|maximum|max\b")


def find_lengths(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Find how many words, sentences, paragraphs or characters the response must have.

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
# "in five words", "using two words"
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

# "***", "three asterisks", "the markdown divider"
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
    total = _find_total(_NUMBER_OF_PARTS, (sentence, *earlier, *following))
    if total:
        quantity, source = total
        params = {"num_paragraphs": quantity.number}
        yield Constraint("length_constraints:number_paragraphs", params, source.original)


def _find_total(
    number_of_parts: re.Pattern[str], sentences: Sequence[Sentence]
) -> tuple[Quantity, Sentence] | None:
    """Return the first number of parts that is a total or a minimum, and its sentence; None if there is none."""
    for sentence in sentences:
        for match in number_of_parts.finditer(sentence.text):
            quantity = sentence.get_quantity(match)
            if quantity.relation in ("plain", "exactly", "at least"):
                return quantity, sentence
    return None


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
    nearest_first = (sentence, *reversed(prompt[:position]), *prompt[position + 1 :])
    total = _find_total(_NUMBER_OF_SECTIONS, nearest_first)
    if total:
        quantity = total[0]
        params: dict[str, object] = {"section_spliter": label, "num_sections": quantity.number}
        if quantity.relation == "at least":
            params["relation"] = "at least"
        yield Constraint("detectable_format:multiple_sections", params)


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
    """Find how many bullet points are asked for.

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


def _make_count_params(name: str, quantity: Quantity) -> dict[str, object] | None:
    """Return the parameters of a verifier that reads a number as "at least"; None if the quantity is a range.

    Such a verifier cannot check a range.
    """
    if quantity.relation == "between":
        return None
    if quantity.relation in ("plain", "at least"):
        return {name: quantity.number}
    return {name: quantity.number, "relation": quantity.relation}


# "highlight", "italicized", "in bold"
_HIGHLIGHT = pattern(
    r"\b(?:highlight(?:ed|ing|s)?|italici[sz]e[ds]?|bold(?:ed|face)?|emphasi[sz]e[ds]?|italics?)\b"
)
_NUMBER_BEFORE_HIGHLIGHT = (
    60  # characters, about a clause; a number farther before counts something else
)
# "sections", "phrases", "points"
_HIGHLIGHTED = pattern("{highlighted part}")
_NUMBER_OF_HIGHLIGHTS = pattern(r"{quantity}\s+(?:[\w'-]+\s+){0,4}?{highlighted part}\b")
# Only highlights in Markdown can be counted: the prompt names it, or shows *highlighted text*.
_MARKDOWN_HINT = pattern(r"markdown|\*[^*\n]{1,60}\*|asterisk|highlighted (?:section|text)|⟨s\d+⟩")
_HIGHLIGHT_SHOWN = re.compile(r"(?<!\*)\*[^*\n]{1,60}\*(?!\*)")


def find_highlights(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Find how many sections must be highlighted in Markdown.

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
    # The number may stand before the verb: "at least 3 sections must be highlighted".
    match = _NUMBER_OF_HIGHLIGHTS.search(text[max(0, verb.start() - _NUMBER_BEFORE_HIGHLIGHT) :])
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
    """Find that the response needs a title in double angular brackets.

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
    """Find that the whole response must be JSON.

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
    """Find that a table is asked for, with or without text beside it.

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
    """Find that a numbered list is asked for, and how many items it has.

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
    """Find how many placeholders in square brackets are asked for.

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
    """Find that a postscript is asked for, and its marker.

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
