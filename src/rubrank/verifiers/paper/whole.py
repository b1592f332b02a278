"""Format of the whole answer: title, quotation marks, postscript, the prompt repeated, a choice of answers."""

from __future__ import annotations

import re
import unicodedata
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import bare, count_phrase, fold_phrase, fold_visible, split_code
from rubrank.texts.text import Text
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier

TitleStyle: TypeAlias = Literal["any", "angle", "book", "bracket", "heading", "bold", "labelled"]

_TITLES: dict[str, re.Pattern[str]] = {
    "angle": re.compile(r"[\s*_#]*<<([^\n<>]+)>>"),
    "book": re.compile(r"[\s*_#]*《([^《》\n]+)》[\s*_]*$"),
    "bracket": re.compile(r"[\s*_#]*[【\[]([^【】\[\]\n]+)[】\]][\s*_]*$"),
    "heading": re.compile(r"[ \t]{0,3}#{1,6}[ \t]+(.*\w.*)"),
    "bold": re.compile(r"[ \t]*\*\*([^*\n]*\w[^*\n]*)\*\*[ \t]*$"),
    "labelled": re.compile(r"[\s*_#]*(?i:title|标题|題目|题目|標題)[*_]*[ \t]*[:：][\s*_]*(\S.*)"),
}


@verifier("TitleFormat", family="format", domain=BINARY, version=1)
def title_format(
    text: Text,
    *,
    style: TitleStyle = "any",
    first: bool = True,
    title: str | None = None,
    most_words: Annotated[int, Field(ge=1)] | None = None,
) -> Answer:
    """There is a title in the style asked: `<<a>>`, 《a》, 【a】 or [a], `# a`, a line in bold, "Title: a", "标题：a".

    Passes: "<<Joy>>\\n…" as angle; "《春》\\n…" as book. Fails: no such line; if `first` (default), one that is not the
    first line; an empty title; another than `title`; more than `most_words` words. A 《…》 within a line is a citation,
    no title. Not covered: a first line without any sign.
    """
    lines = [line for line in split_code(text.raw)[0] if line.strip()][: 1 if first else None]
    styles = list(_TITLES) if style == "any" else [style]
    found = [m[1].strip(" *_") for line in lines for name in styles if (m := _TITLES[name].match(line))]
    found = [t for t in found if any(c.isalnum() for c in t)]
    where = "first line" if first else "any line"
    if not found:
        return False, f"no title ({style}) in the {where}"
    if title is not None and fold_phrase(title) not in map(fold_phrase, found):
        return False, f"title {found[0]!r} found, {title!r} asked"
    n = len(Text(found[0]).words)
    return most_words is None or n <= most_words, f"title {found[0][:60]!r} found, {n} words"


_PAIRS = {'"': '"', "“": "”", "「": "」", "『": "』", "«": "»", "„": "“", "‘": "’", "'": "'", "《": "》", "＂": "＂"}


@verifier("QuotationFormat", family="format", domain=BINARY, version=1)
def quotation_format(
    text: Text, *, marks: Literal["any", "double", "straight", "curly", "corner", "guillemets", "single"] = "any"
) -> Answer:
    """The whole answer stands in one pair of quotation marks: "a", “a”, 「a」, 『a』, «a», „a“ ('a' only as "single").

    Passes: “你好。”; 「全部」. Fails: a missing mark, marks that do not match, text outside, nothing inside, and
    two quotations that merely stand at the two ends ("a" and "b"). Not covered: a straight mark for inches.
    """
    allowed = {"straight": '"＂', "curly": "“„", "corner": "「『", "guillemets": "«", "single": "'‘"}
    openers = allowed.get(marks, '"＂“„「『«' if marks == "any" else '"＂“„')
    raw = text.raw.strip()
    if len(raw) < 3 or raw[0] not in openers:
        return False, f"starts with {raw[:1]!r}, no opening mark ({marks})"
    close = _PAIRS[raw[0]]
    if raw[-1] != close:
        return False, f"ends with {raw[-1]!r}, not {close!r}"
    if not any(c.isalnum() for c in raw):
        return False, "nothing inside the marks"
    again = _opens_again(raw, raw[0], close)
    return not again, "two quotations, not one around all" if again else "the whole answer is quoted"


def _opens_again(raw: str, opener: str, close: str) -> bool:
    """Does the first quotation end before the last one begins?"""
    depth, closed = 0, False
    for i, char in enumerate(raw):
        if char not in (opener, close):
            continue
        before = raw[i - 1] if i else " "
        opens = (
            char == opener
            if opener != close
            else before.isspace() or before in "([（「" or unicodedata.category(before) == "Ps"
        )
        if opens and closed:
            return True
        depth = depth + 1 if opens else max(0, depth - 1)
        closed = depth == 0
    return False


_POSTSCRIPT = re.compile(
    r"(?:(?:p\.?\s?){1,3}s\b\.?|附言|附注|附註|又及|附|备注|另|postscript)\s*[:：.．,，、\-—]?\s*", re.IGNORECASE
)


@verifier("Postscript", family="format", domain=BINARY, version=1)
def postscript(text: Text, *, marker: Annotated[str, Field(min_length=1)] | None = None) -> Answer:
    """A postscript follows the text: a line that starts with the marker ("P.S.", "附言：") and says something.

    Passes: "Dear Li, … \\n\\nP.S. Call me." Fails: no such line, the marker alone, a marker at the very top with
    nothing before it, another marker than the one asked. Case, stars and spaces inside the marker do not matter. Not
    covered: how much may follow.
    """
    seen = False
    for line in filter(str.strip, split_code(text.raw)[0]):
        start = bare(line)
        rest = _after_marker(start, marker)
        if rest is not None and any(c.isalnum() for c in rest):
            return seen, "postscript found" if seen else "a postscript with nothing before it"
        seen = seen or any(c.isalnum() for c in start)
    return False, f"no line starts with {marker or 'P.S.'!r} and goes on"


def _after_marker(line: str, marker: str | None) -> str | None:
    if marker is None:
        match = _POSTSCRIPT.match(line)
        if not match or (match[0] and not match[0].isascii() and match[0][-1] not in ":：.．,，、-— "):
            return None  # 附近, 另外 … are words, no markers
        return line[match.end() :] if not line[: match.end()].isalpha() else None
    wanted = "".join(fold_phrase(marker).split()).rstrip(":.")
    squeezed, used = "", 0
    while used < len(line) and len(squeezed) < len(wanted):
        squeezed += "".join(fold_phrase(line[used]).split())
        used += 1
    follows = line[used : used + 1]
    glued = follows.isalnum() and wanted[-1:].isascii()
    return line[used:] if wanted and squeezed == wanted and not glued else None


@verifier("PromptRepeat", family="format", domain=BINARY, version=1)
def prompt_repeat(
    rollout: Rollout, *, prompt: Annotated[str, Field(min_length=1)] | None = None, then_answer: bool = True
) -> Answer:
    """The answer begins with the prompt, word for word (or with the part given as `prompt`), and then answers.

    Passes: prompt "Why?" with "Why? Because." Fails: a changed word, something before it, nothing after it (unless
    `then_answer` is off). Case, width, line breaks and marks around the repetition (`>`, quotes, stars) do not matter.
    Missing: no prompt is known. Not covered: a faithful paraphrase.
    """
    asked = prompt if prompt is not None else rollout.question
    if not asked.strip():
        return missing("no prompt is known")
    wanted = fold_visible(asked).strip("\"'“”「」 ")
    start = re.sub(r"(?m)^[ \t]*>+[ \t]?", "", rollout.answer[: 4 * len(asked) + 4000])
    given = fold_visible(start).lstrip("*_\"'“”「」 ")
    if not given.startswith(wanted):
        return False, "does not begin with the prompt"
    rest = rollout.answer[len(asked) // 2 :] if len(start) < len(rollout.answer) else given[len(wanted) :]
    if then_answer and not any(c.isalnum() for c in rest):
        return False, "the prompt is repeated, nothing follows"
    return True, "begins with the prompt"


_IFEVAL_OPTIONS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")


@verifier("ConstrainedResponse", family="format", domain=BINARY, version=1)
def constrained_response(
    text: Text,
    *,
    options: tuple[Annotated[str, Field(min_length=1)], ...] = _IFEVAL_OPTIONS,
    whole: bool = True,
) -> Answer:
    """The answer is one of the options; with `whole` off, exactly one of them occurs in it.

    Passes: "**Yes**" for ["yes", "no"]; "不可能" for ["可能", "不可能"]. Fails: two options, none, and — if `whole` —
    anything around it. Case, width and marks around the option do not matter. Not covered: options said in other words.
    """
    marks = " *_#>`\"'“”‘’「」『』()（）[].。!！,，"
    given = fold_visible(text.raw[:100_000]).strip(marks)
    forms = {option: fold_phrase(option).strip(marks) for option in options}
    if whole:
        chosen = [option for option, form in forms.items() if given == form]
        return bool(chosen), f"the answer is {chosen[0]!r}" if chosen else f"none of the {len(options)} options alone"
    chosen = _occurring(given, forms)
    return len(chosen) == 1, f"{len(chosen)} of the {len(options)} options occur, 1 asked"


def _occurring(given: str, forms: dict[str, str]) -> list[str]:
    """Longest first, each found one taken out, so that 可能 is not found in 不可能."""
    chosen = []
    for option, form in sorted(forms.items(), key=lambda pair: -len(pair[1])):
        if count_phrase(given, form):
            chosen.append(option)
            given = given.replace(form, " \x00 ")
    return chosen
