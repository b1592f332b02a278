"""Verifiers of the format of an answer: its parts (bullets, highlights, paragraphs, case) and the answer as a whole.

    BulletCount(count=3)                 exactly 3 bullet points
    HighlightCount(count=2)              at least 2 highlights, such as **this**
    ParagraphCount(count=4)              exactly 4 paragraphs
    CaseFormat(case="upper")             ALL IN CAPITALS
    TitleFormat(style="angle")           <<a title>> in the first line
    QuotationFormat()                    "all of it in quotation marks"
    Postscript()                         "P.S. …" at the end
    PromptRepeat()                       the prompt again, then the answer
    ConstrainedResponse(options=…)       one of the options and nothing else

The constants of a verifier stand right above it.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from rubrank._plain import word_set
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import (
    count_phrase,
    fold_phrase,
    fold_visible,
    has_fence,
    is_heading,
    is_item,
    is_rule,
    list_items,
    mark_titles,
    remove_code,
    split_code,
    strip_decoration,
)
from rubrank.texts.text import Text
from rubrank.verifiers.shared.instruction import (
    Count,
    Relation,
    check_count_parameters,
    compare_range,
    require_none,
)
from rubrank.verifiers.verifier import Answer, missing, verifier

Highlight: TypeAlias = Literal["any", "bold", "italic", "marked", "brackets"]

# Text between stars, without spaces at their inner sides: *a*, **a b**, ***a***. Not "2 * 3 * 4".
_STARRED = re.compile(r"\*{1,3}(?=[^\s*])[^*\n]*(?<=[^\s*])\*{1,3}")
_HIGHLIGHTS: dict[str, re.Pattern[str]] = {
    # **a**, ***a***, __a__
    "bold": re.compile(
        r"\*{2,3}(?=[^\s*])[^*\n]*(?<=[^\s*])\*{2,3}|(?<!\w)__(?=[^\s_])[^_\n]*(?<=[^\s_])__(?!\w)"
    ),
    # *a*, ***a***, _a_; not snake_case_names
    "italic": re.compile(
        r"(?<!\*)(?:\*{3}|\*)(?=[^\s*])[^*\n]*(?<=[^\s*])(?:\*{3}|\*)(?!\*)"
        r"|(?<![\w_])_(?=[^\s_])[^_\n]*(?<=[^\s_])_(?![\w_])"
    ),
    # ==a==, <mark>a</mark>
    "marked": re.compile(r"==(?=[^\s=])[^=\n]*(?<=[^\s=])==|<(?:mark|b|strong|em|u)>[^<\n]+</"),
    "brackets": re.compile("【[^】\n]+】"),
}
# _a_ or __a__; not snake_case_names
_UNDERSCORED = re.compile(r"(?<![\w_])_{1,2}(?=[^\s_])[^_\n]*(?<=[^\s_])_{1,2}(?![\w_])")

_LETTER_OR_DIGIT = re.compile(r"[^\W_]")
# The end of a line that ends a sentence: ".", "。”", "!**".
_SENTENCE_END = re.compile(r"[.!?。！？…；：][ \t*_”’」』）)\"']*\Z")
# Words that title case may leave small, unless they come first.
_MINOR_WORDS = word_set(
    "a an the and but or nor for so yet of in on at to by up as off per via with from into over is"
)
_LATIN_WORD = re.compile(r"[^\W\d_]+(?:['’\-][^\W\d_]+)*")
# The first letter of a sentence: at the beginning, after a blank line, or after a full stop and a space.
_SENTENCE_START = re.compile(r"(?:^|\n[ \t]*\n|(?<=[.!?])[ \t\n]+)[^\w\n]*([^\W\d_])")


@verifier("BulletCount", family="format", version=2, check=check_count_parameters)
def bullet_count(
    text: Text,
    *,
    relation: Relation = "exactly",
    count: Count | None = None,
    low: Count | None = None,
    high: Count | None = None,
    kind: Literal["bullet", "numbered", "any"] = "bullet",
    nested: bool = True,
) -> Answer:
    """The number of bullet points (`-`, `*`, `+`, `–`, `•`, `・` …) or numbered items (`1.`, `1、`, `①`, `一、`, `1️⃣`).

    Passes: "- a\\n- b" for exactly 2; "-a\\n-b" too.
    Fails: any other number. Nested points count unless `nested` is off, and so do entries of an HTML list.
        Rules (`***`), bold at the start of a line, negative numbers and code do not count.
    Not covered: em dashes (—), which open dialogue.
    """
    items = [item for item in list_items(text.shown.raw) if kind in ("any", item.kind)]
    if not nested:
        # Points of the top level are often indented by one column more or less than the others.
        top = min((item.indent for item in items), default=0)
        items = [item for item in items if item.indent <= top + 1]
    unit = {"bullet": "bullet", "numbered": "numbered item", "any": "list item"}[kind]
    return compare_range(len(items), unit, relation, count, low, high)


@verifier("HighlightCount", family="format", check=check_count_parameters)
def highlight_count(
    text: Text,
    *,
    relation: Relation = "at least",
    count: Count | None = None,
    low: Count | None = None,
    high: Count | None = None,
    kind: Highlight = "any",
) -> Answer:
    """The number of highlights: `*a*`, `**a**`, `***a***` (one), `_a_`, `==a==`, `<mark>a</mark>`, or 【a】.

    Passes: "**a** and *b*" for at least 2.
    Fails: "2 * 3 * 4" (no highlight), `****` (nothing in it), bullets, code. "any" is all but brackets.
    Not covered: a highlight over several lines; one inside another counts once.
    """
    lines: list[str] = []
    for line in remove_code(text.raw).splitlines():
        # What has stars but is no highlight: the star of a bullet, a horizontal rule.
        if line.lstrip()[:2] in ("* ", "*\t"):
            lines.append(line.lstrip()[2:])
        elif not is_rule(line):
            lines.append(line)
    prose = "\n".join(lines)
    if kind != "any":
        highlights = len(_HIGHLIGHTS[kind].findall(prose))
        return compare_range(highlights, f"{kind} highlight", relation, count, low, high)
    # Each kind is removed once it is counted, so that no highlight counts twice.
    rest, stars = _STARRED.subn(" ", prose)
    rest, underscores = _UNDERSCORED.subn(" ", rest)
    marked = len(_HIGHLIGHTS["marked"].findall(rest))
    return compare_range(stars + underscores + marked, "highlight", relation, count, low, high)


@verifier("ParagraphCount", family="format", version=3, check=check_count_parameters)
def paragraph_count(
    text: Text,
    *,
    relation: Relation = "exactly",
    count: Count | None = None,
    low: Count | None = None,
    high: Count | None = None,
    separator: Annotated[str, Field(min_length=1)] | None = None,
) -> Answer:
    """The number of paragraphs, divided by blank lines or by a separator such as "***".

    Passes: "a\\n\\nb" for exactly 2.
    Fails: any other number. Headings, also underlined ones, titles in bold and rules do not count; a list is one whole,
        up to the next heading or rule. Without any blank line, lines that all end as sentences do are the paragraphs
        (usual in Chinese). With a separator, empty parts do not count.
    Not covered: stanzas of verse (each is a paragraph).
    """
    raw = text.shown.raw
    if separator:
        number = sum(_LETTER_OR_DIGIT.search(piece) is not None for piece in raw.split(separator))
        return compare_range(number, "paragraph", relation, count, low, high)
    raw = mark_titles(raw)
    if has_fence(raw):
        raw = _fill_blank_lines_in_code(raw)
    blocks = Text(raw).paragraphs
    # Without any blank line, each line is a paragraph if all of them end as sentences do.
    if len(blocks) == 1:
        lines = blocks[0].splitlines()
        if all(_SENTENCE_END.search(line) and not is_item(line) for line in lines):
            blocks = tuple(lines)
    number = 0
    was_list = False
    for block in blocks:
        all_lines = block.splitlines()
        lines = [line for line in all_lines if not (is_rule(line) or is_heading(line))]
        # A heading or a rule ends a list: what follows is another one.
        if len(lines) < len(all_lines):
            was_list = False
        if not any(map(_LETTER_OR_DIGIT.search, lines)):
            continue
        if len(lines) == 1:
            line = lines[0].strip()
            is_title = line.startswith("**") and line.endswith("**") and line.count("**") == 2
            if is_title:
                was_list = False
                continue
        is_list = is_item(lines[0])
        # Several blocks of list items in a row are one list.
        if not (is_list and was_list):
            number += 1
        was_list = is_list
    return compare_range(number, "paragraph", relation, count, low, high)


def _fill_blank_lines_in_code(raw: str) -> str:
    """Put a full stop on blank lines inside code fences, so that a fence is one paragraph."""
    inside = False
    lines: list[str] = []
    for line in raw.splitlines():
        if line.lstrip().startswith(("```", "~~~")):
            inside = not inside
        if inside and not line.strip():
            line = "."
        lines.append(line)
    return "\n".join(lines)


@verifier("CaseFormat", family="format")
def case_format(
    text: Text,
    *,
    case: Literal["upper", "lower", "title", "sentence"],
    scope: Literal["text", "headings", "first line"] = "text",
) -> Answer:
    """All in upper case, all in lower case, Each Word Capitalised, or a capital at the start of each sentence.

    Passes: "HELLO, 世界" as upper.
    Fails: one letter of the wrong case; a text without letters that have case (such as pure Chinese) — it shows
        nothing. Code and addresses are exempt; in title case so are words like "of".
    Not covered: names inside sentence case.
    """
    prose = remove_code(text.raw)
    if scope != "text":
        lines = [line for line in prose.splitlines() if line.strip()]
        lines = list(filter(is_heading, lines)) if scope == "headings" else lines[:1]
        prose = "\n".join(lines)
    # Not "ª" and "ĸ", which Unicode calls small: they have no capital, so they cannot be wrong.
    letters = [char for char in prose if char.lower() != char.upper()]
    if not letters:
        return False, "no letters that have case"
    if case in ("upper", "lower"):
        wrong = sum(char.islower() == (case == "upper") for char in letters)
        return not wrong, f"{wrong} of {len(letters)} letters are not {case} case"
    if case == "sentence":
        bad = [match[1] for match in _SENTENCE_START.finditer(prose) if match[1].islower()]
    else:
        bad = []
        for line in prose.splitlines():
            for position, word in enumerate(_LATIN_WORD.findall(line)):
                may_be_small = position > 0 and word in _MINOR_WORDS
                if word[0].islower() and not may_be_small:
                    bad.append(word)
    return require_none(bad, "word without a capital")


# ---- the answer as a whole ------------------------------------------------------------------------------------------

TitleStyle: TypeAlias = Literal["any", "angle", "book", "bracket", "heading", "bold", "labelled"]

# What a line with a title of each style looks like; group 1 is the title. Marks of bold and headings may stand before.
_TITLES: dict[str, re.Pattern[str]] = {
    "angle": re.compile(r"[\s*_#]*<<([^\n<>]+)>>"),
    "book": re.compile(r"[\s*_#]*《([^《》\n]+)》[\s*_]*$"),
    "bracket": re.compile(r"[\s*_#]*[【\[]([^【】\[\]\n]+)[】\]][\s*_]*$"),
    "heading": re.compile(r"[ \t]{0,3}#{1,6}[ \t]+(.*\w.*)"),
    "bold": re.compile(r"[ \t]*\*\*([^*\n]*\w[^*\n]*)\*\*[ \t]*$"),
    "labelled": re.compile(r"[\s*_#]*(?i:title|标题|題目|题目|標題)[*_]*[ \t]*[:：][\s*_]*(\S.*)"),
}


@verifier("TitleFormat", family="format", version=2)
def title_format(
    text: Text,
    *,
    style: TitleStyle = "any",
    first: bool = True,
    title: str | None = None,
    most_words: Annotated[int, Field(ge=1)] | None = None,
) -> Answer:
    """There is a title of the given style: `<<a>>`, 《a》, 【a】 or [a], `# a`, a line in bold, "Title: a", "标题：a".

    Passes: "<<Joy>>\\n…" as angle; "《春》\\n…" as book.
    Fails: no such line; if `first` (default), one that is not the first line; an empty title; a title other
        than `title`; more than `most_words` words. A 《…》 within a line is a citation, not a title.
    Not covered: a first line without any sign.
    """
    lines = [line for line in split_code(text.raw)[0] if line.strip()]
    if first:
        lines = lines[:1]
    styles = list(_TITLES) if style == "any" else [style]
    titles: list[str] = []
    for line in lines:
        matches = [_TITLES[name].match(line) for name in styles]
        titles += [match[1].strip(" *_") for match in matches if match]
    titles = [candidate for candidate in titles if any(map(str.isalnum, candidate))]
    right_titles = titles
    if title is not None:
        right_titles = [line for line in titles if fold_phrase(line) == fold_phrase(title)]
    if not right_titles:
        where = "the first line" if first else "any line"
        return False, f"titles ({style}) in {where}: {titles[:3]}, {title or 'one'} required"
    words = len(Text(right_titles[0]).words)
    reason = f"title {right_titles[0][:60]!r} found, {words} words"
    return most_words is None or words <= most_words, reason


_QUOTATION_OPENERS = {
    "any": '"＂“„「『«',
    "double": '"＂“„',
    "straight": '"＂',
    "curly": "“„",
    "corner": "「『",
    "guillemets": "«",
    "single": "'‘",
}
# By the opening mark.
_CLOSING_MARKS = {
    pair[0]: pair[1] for pair in ['""', "“”", "「」", "『』", "«»", "„“", "‘’", "''", "＂＂"]
}


@verifier("QuotationFormat", family="format", version=2)
def quotation_format(
    text: Text,
    *,
    marks: Literal["any", "double", "straight", "curly", "corner", "guillemets", "single"] = "any",
) -> Answer:
    """The whole answer is in one pair of quotation marks: "a", “a”, 「a」, 『a』, «a», „a“ ('a' only as "single").

    Passes: “你好。”; 「全部」.
    Fails: a missing mark, marks that do not match, text outside, nothing inside, and two quotations that merely stand
        at the two ends ("a" and "b").
    Not covered: a straight mark for inches.
    """
    openers = _QUOTATION_OPENERS[marks]
    raw = text.raw.strip()
    if not raw or raw[0] not in openers:
        return False, f"starts with {raw[:1]!r}, no opening mark ({marks})"
    if not any(map(str.isalnum, raw)):
        return False, "nothing inside the marks"
    closer = _CLOSING_MARKS[raw[0]]
    if raw[-1] != closer:
        return False, f"ends with {raw[-1]!r}, not {closer!r}"
    if _has_second_quotation(raw, raw[0], closer):
        return False, "two quotations, not one around all"
    return True, "the whole answer is quoted"


def _has_second_quotation(raw: str, opener: str, closer: str) -> bool:
    """Does the first quotation end before the end of the text, and another one begin?"""
    depth = 0  # how many quotations are open
    was_closed = False  # the first one has ended
    for i, char in enumerate(raw):
        if char not in (opener, closer):
            continue
        if opener == closer:
            # A straight mark opens after a space or an opening bracket (the category "Ps"). Texts without spaces
            # need two more signs: a colon before it (他说："好"), or that no quotation is open (the 和" of "甲"和"乙").
            # Neither opens one before a space or at the end, where a mark closes or stands for inches.
            before = raw[i - 1] if i else " "
            after = raw[i + 1 : i + 2] or " "
            is_opening = before.isspace() or unicodedata.category(before) == "Ps"
            if not after.isspace() and (before in ":：" or was_closed):
                is_opening = True
        else:
            is_opening = char == opener
        if is_opening and was_closed:
            return True
        depth = depth + 1 if is_opening else max(0, depth - 1)
        was_closed = depth == 0
    return False


# "P.S.", "PPS:", "p. s. ", 附言：, "Postscript"
_POSTSCRIPT = re.compile(
    r"(?:(?:p\.?\s?){1,3}s\b\.?|附言|附注|附註|又及|附|备注|另|postscript)\s*[:：.．,，、\-—]?\s*",
    re.IGNORECASE,
)


@verifier("Postscript", family="format")
def postscript(text: Text, *, marker: Annotated[str, Field(min_length=1)] | None = None) -> Answer:
    """A postscript follows the text: a line that starts with the marker ("P.S.", "附言：") and says something.

    Passes: "Dear Li, … \\n\\nP.S. Call me."
    Fails: no such line, the marker alone, a marker at the very top with nothing before it, a marker other than the
        requested one. Case, stars and spaces inside the marker do not matter.
    Not covered: how much may follow.
    """
    has_text_before = False
    for line in split_code(text.raw)[0]:
        start = strip_decoration(line)
        rest = _cut_marker(start, marker)
        if rest is not None and any(map(str.isalnum, rest)):
            if not has_text_before:
                return False, "a postscript with nothing before it"
            return True, "postscript found"
        has_text_before = has_text_before or any(map(str.isalnum, start))
    return False, f"no line starts with {marker or 'P.S.'!r} and goes on"


def _cut_marker(line: str, marker: str | None) -> str | None:
    """Return what follows the marker at the start of the line; None if the line does not start with it."""
    if marker is None:
        match = _POSTSCRIPT.match(line)
        if not match or match[0].isalpha():
            return None  # no full stop, colon or space behind it: the "postscript" of "postscripts"
        if not match[0].isascii() and match[0][-1] not in ":：.．,，、-— ":
            return None  # 附近, 另外 … are words, no markers
        return line[match.end() :]
    # Case, width, spaces inside the marker, and a colon or a full stop at its end do not matter.
    letters = "".join(fold_phrase(marker).split()).rstrip(":.")
    line = unicodedata.normalize("NFKC", line)
    match = re.match(r"\s*".join(map(re.escape, letters)), line, re.IGNORECASE)
    if not letters or not match:
        return None
    rest = line[match.end() :]
    is_inside_word = rest[:1].isalnum() and letters[-1].isascii()
    return None if is_inside_word else rest


# The sign of a quotation in Markdown at the start of a line: "> ".
_QUOTE_SIGN = re.compile(r"(?m)^[ \t]*>+[ \t]?")


@verifier("PromptRepeat", family="format", version=3)
def prompt_repeat(
    rollout: Rollout,
    *,
    prompt: Annotated[str, Field(min_length=1)] | None = None,
    then_answer: bool = True,
) -> Answer:
    """The answer begins with the prompt, word for word (or with the part given as `prompt`), and then answers.

    Passes: prompt "Why?" with "Why? Because."
    Fails: a changed word, something before it, nothing after it (unless `then_answer` is off). Case, width, line breaks
        and marks around the repetition (`>`, quotes, stars) do not matter.
    Missing: no prompt is known.
    Not covered: a faithful paraphrase.
    """
    request = prompt if prompt is not None else rollout.question
    if not request.strip():
        return missing("no prompt is known")
    folded_request = fold_visible(request).strip("\"'“”「」 ")
    # A repetition takes no more than this; the rest of a long answer need not be folded.
    longest = 4 * len(request) + 4000
    start = _QUOTE_SIGN.sub("", rollout.answer[:longest])
    folded_start = fold_visible(start).lstrip("*_\"'“”「」 ")
    if not folded_start.startswith(folded_request):
        return False, "does not begin with the prompt"
    # The next character shows whether the last word goes on: "What is art" does not count in "What is artificial …".
    if not count_phrase(folded_start[: len(folded_request) + 1], folded_request):
        return False, "the last word of the prompt goes on"
    rest = folded_start[len(folded_request) :] + rollout.answer[longest:]
    if then_answer and not any(map(str.isalnum, rest)):
        return False, "the prompt is repeated, nothing follows"
    return True, "begins with the prompt"


_AROUND_OPTION = " *_#>`\"'“”‘’「」『』()（）[].。!！,，"
_IFEVAL_OPTIONS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


@verifier("ConstrainedResponse", family="format")
def constrained_response(
    text: Text,
    *,
    options: tuple[Annotated[str, Field(min_length=1)], ...] = _IFEVAL_OPTIONS,
    whole: bool = True,
) -> Answer:
    """The answer is one of the options; with `whole` off, exactly one of them occurs in it.

    Passes: "**Yes**" for ["yes", "no"]; "不可能" for ["可能", "不可能"].
    Fails: two options, none, and — if `whole` — anything around it. Case, width and punctuation around the option are
        ignored.
    Not covered: paraphrased options.
    """
    answer = fold_visible(text.raw[:100_000]).strip(_AROUND_OPTION)
    forms = {option: fold_phrase(option).strip(_AROUND_OPTION) for option in options}
    if not whole:
        chosen = 0
        # The longest are taken out first, so that 可能 is not found in 不可能.
        for form in sorted(forms.values(), key=len, reverse=True):
            if count_phrase(answer, form):
                chosen += 1
                answer = answer.replace(form, " \x00 ")
        return chosen == 1, f"{chosen} of the {len(options)} options occur, 1 required"
    for option, form in forms.items():
        if answer == form:
            return True, f"the answer is {option!r}"
    return False, f"none of the {len(options)} options alone"
