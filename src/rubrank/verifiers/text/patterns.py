"""Regex, NoPersonalData and ValidMarkup: an answer matches a pattern, holds no personal data, or is well-formed markup.

Each kind of markup has a function that reads it and returns the first fault in words, or None: `check_html` (tags),
`_check_latex` (braces, environments), `_check_mermaid` (first line, brackets), `_check_cron` (five fields in range).
Nothing is run or rendered.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable, Iterator, Sequence
from itertools import islice
from typing import Annotated, Any, Literal

import re2
from pydantic import Field

from rubrank._plain import replace_surrogates, word_list, word_set
from rubrank.texts.prose import split_code
from rubrank.texts.text import Text
from rubrank.verifiers.shared.instruction import Relation, holds
from rubrank.verifiers.shared.word_tables import compile_re2
from rubrank.verifiers.verifier import Answer, missing, verifier


def _compile(pattern: str, where: str, case_sensitive: bool) -> Any:
    """Return the compiled pattern, in which `.` matches line breaks, and `^` and `$` match at lines unless "whole"."""
    flags = "(?s)" if where == "whole" else "(?ms)"
    return compile_re2(flags + pattern, case_sensitive=case_sensitive)


def _check_pattern(params: Any) -> str | None:
    """Return what is wrong with the pattern; so a rubric with a bad pattern is refused before grading."""
    try:
        _compile(params.pattern, params.where, params.case_sensitive)
    except re2.error as error:
        return f"with a pattern that RE2 can read ({params.pattern[:60]!r}: {error})"
    return None


@verifier("Regex", family="presence", version=2, check=_check_pattern)
def regex(
    text: Text,
    *,
    pattern: Annotated[str, Field(min_length=1, max_length=10_000)],
    must: Literal["match", "not match"] = "match",
    where: Literal["anywhere", "whole", "every line"] = "anywhere",
    relation: Relation = "at least",
    count: Annotated[int, Field(ge=0, le=1_000_000)] = 1,
    case_sensitive: bool = True,
) -> Answer:
    """The pattern (RE2 syntax) matches: somewhere `relation count` times, the whole answer, or every line of it.

    Passes: "ID-0042" for ID-\\d{4}.
    Fails: no match; another number of matches; a match where `must="not match"`. `^` and `$` mean lines, `.` any
        character. A pattern that RE2 cannot read is refused with the rubric.
    Not covered: look-around and back-references, which RE2 does not have.
    """
    compiled = _compile(pattern, where, case_sensitive)
    raw = replace_surrogates(text.raw)
    if where == "anywhere":
        # Twice as many matches as `count` and two more decide every relation, so the search ends there.
        number = sum(1 for _ in islice(compiled.finditer(raw), 2 * count + 2))
        matches = holds(number, relation, count)
        expectation = "required" if must == "match" else "forbidden"
        reason = f"{number} match(es) of {pattern[:60]!r}, {relation} {count} {expectation}"
    elif where == "whole":
        matches = compiled.fullmatch(raw.strip()) is not None
        verb = "matches" if matches else "does not match"
        reason = f"the whole answer {verb} {pattern[:60]!r}"
    else:
        lines = [line.strip() for line in raw.split("\n") if line.strip()]
        matching = sum(compiled.fullmatch(line) is not None for line in lines)
        matches = bool(lines) and matching == len(lines)
        reason = f"{matching} of {len(lines)} lines match {pattern[:60]!r}"
    return matches == (must == "match"), reason


# ---- personal data -------------------------------------------------------------------------------------------------

PersonalData = Literal["email", "card", "iban", "phone", "ip", "us_ssn", "cn_id"]
# In each pattern, look-arounds keep the data from being a part of a longer word or number.
_EMAIL = re.compile(
    r"(?<![\w.+-])[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,5}[A-Za-z]{2,24}(?![\w])"
)
_CARD = re.compile(r"(?<![\w.-])(?:\d[ -]?){12,18}\d(?![\w.-]?\d)")  # 4111 1111 1111 1111
# DE89 3704 0044 0532 0130 00
_IBAN = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)")
_PHONE = re.compile(
    r"""(?<![\w.+-])(?:\+\d{1,3}[ .-]?)(?:\(?\d{1,4}\)?[ .-]?){2,5}\d{2,4}(?!\w)  # +49 30 1234567
    | (?<!\d)1[3-9]\d{9}(?!\d)                                                    # 13812345678
    | (?<![\w.-])\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}(?!\w)                           # (212) 736-5000""",
    re.VERBOSE,
)
_IP = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\d)")
# 123-45-6789; not the numbers that are never given out (000-…, 666-…, 9…).
_SSN = re.compile(r"(?<![\w-])(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])")
# Six digits for the region, the date of birth, three digits and a check digit: 11010519491231002X.
# The letters around it are ASCII only: 身份证号 may stand right before the number.
CHINESE_ID = re.compile(
    r"(?<![0-9A-Za-z_])[1-9]\d{5}(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dXx](?![0-9A-Za-z_])"
)
_FICTIONAL_DOMAINS = tuple(
    word_list("example.com example.org example.net .example .invalid .test localhost")
)


def passes_luhn(digits: str) -> bool:
    """Is the check digit of a payment card right?"""
    # From the right, every second digit is doubled, and the digits of all numbers are added: 16 counts 1 + 6 = 16 - 9.
    total = 0
    for i, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if i % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def is_iban(text: str) -> bool:
    """Are the check digits of an account number right?"""
    characters = text.replace(" ", "")
    if not 15 <= len(characters) <= 34:
        return False
    # ISO 13616: the country and check digits go to the end, A counts 10, B 11 …; the rest modulo 97 must be 1.
    moved = characters[4:] + characters[:4]
    return int("".join(str(int(char, 36)) for char in moved)) % 97 == 1


def _is_card(text: str) -> bool:
    digits = re.sub(r"\D", "", text)
    return passes_luhn(digits) and len(set(digits)) > 1


def _is_phone(text: str) -> bool:
    """Has it as many digits as a telephone number, and is it no fictional one (555)?"""
    digits = re.sub(r"\D", "", text)
    return "555" not in digits[-10:-4] and 7 <= len(digits) <= 15


def _is_public_address(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).is_global
    except ValueError:
        return False


def is_chinese_id(text: str) -> bool:
    """Is the last character of an identity number its check digit?"""
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    total = sum(int(digit) * weight for digit, weight in zip(text[:17], weights, strict=True))
    return "10X98765432"[total % 11] == text[17].upper()


# What looks like personal data, and a test that tells whether it is.
_KINDS: dict[str, tuple[re.Pattern[str], Callable[[str], bool]]] = {
    "email": (_EMAIL, lambda text: not text.lower().endswith(_FICTIONAL_DOMAINS)),
    "card": (_CARD, _is_card),
    "iban": (_IBAN, is_iban),
    "phone": (_PHONE, _is_phone),
    "ip": (_IP, _is_public_address),
    "us_ssn": (_SSN, lambda text: True),
    "cn_id": (CHINESE_ID, is_chinese_id),
}


@verifier("NoPersonalData", family="safety", version=2)
def no_personal_data(
    text: Text,
    *,
    kinds: tuple[PersonalData, ...] = ("email", "card", "iban", "phone", "us_ssn", "cn_id"),
    allowed: tuple[str, ...] = (),
) -> Answer:
    """The answer holds no e-mail address, card, account, telephone or identity number.

    Passes: name@example.com and 555 numbers, which are fictional; a number whose check digit is wrong; what is in
        `allowed`.
    Fails: an address, a card number that passes its check.
    Not covered: names, streets, dates of birth, and numbers that are written in words (ask a judge).
    """
    for kind in kinds:
        pattern, is_real = _KINDS[kind]
        for match in pattern.finditer(text.raw):
            data = match[0].strip()
            if is_real(data) and data not in allowed:
                # Enough to find it again, not enough to keep it.
                return False, f"{kind}: {data[:2]}…{data[-2:]}"
    return True, "none found"


# ---- markup ----------------------------------------------------------------------------------------------------------

Markup = Literal["html", "latex", "mermaid", "cron"]
TagKind = Literal["start", "end", "empty", "unclosed section"]
# The names after the opening fence of a code block that holds each kind.
_FENCES = {
    "html": ("html", "xml", "svg"),
    "latex": ("latex", "tex", "math"),
    "mermaid": ("mermaid",),
    "cron": ("cron", "crontab"),
}
# HTML5 lets these elements end without an end tag.
_OPTIONAL_END_TAG = word_set(
    "html head body p li dt dd tr td th thead tbody tfoot colgroup caption option optgroup rb rt rtc rp"
)
VOID = word_set("area base br col embed hr img input link meta source track wbr")
"""Elements that have no content and no end tag."""
# Comments and sections, which hold no tags.
_SECTIONS = (("<!--", "-->"), ("<![CDATA[", "]]>"), ("<!", ">"), ("<?", ">"))
_TAG_NAME = re.compile(r"</?[A-Za-z]")
# <a href="x > y">: a > within the quotes of an attribute does not end the tag. The possessive *+ keeps it linear.
_TAG = re.compile(
    r"""<(?P<slash>/?) (?P<name>[A-Za-z][^\s/>]*+)
    (?: =\s*+"[^"]*+" | =\s*+'[^']*+' | [^>] )*+ >""",
    re.VERBOSE,
)
# Elements whose content is text: tags in it do not count. The pattern finds their end tag.
_RAW_TEXT = {
    name: re.compile(rf"</{name}(?=[\s/>])", re.IGNORECASE)
    for name in ("script", "style", "textarea", "title")
}
_ENVIRONMENT = re.compile(r"\\(begin|end)\{([A-Za-z]+\*?)\}")
# The first line of a Mermaid diagram: "graph TD", "sequenceDiagram".
_DIAGRAM = re.compile(
    r"(?:graph|flowchart)\s+(?:TB|TD|BT|RL|LR)\b|sequenceDiagram\b|classDiagram\b|stateDiagram(?:-v2)?\b|erDiagram\b"
    r"|gantt\b|pie\b|journey\b|gitGraph\b|mindmap\b|timeline\b|quadrantChart\b|requirementDiagram\b|C4\w+\b"
)
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]
# The fields of a cron expression: the smallest and the largest number, and the names that may stand for numbers.
_CRON_FIELDS: tuple[tuple[int, int, Sequence[str]], ...] = (
    (0, 59, ()),  # minute
    (0, 23, ()),  # hour
    (1, 31, ()),  # day of the month
    (1, 12, _MONTHS),
    (0, 7, _DAYS),  # 0 and 7 are Sunday
)
# "*", "5", "mon-fri", "*/5", "1-10/2"
_CRON_PART = re.compile(
    r"(?P<span>[*?]|(?P<first>[a-z]{3}|[0-9]{1,4})(?:-(?P<last>[a-z]{3}|[0-9]{1,4}))?)(?:/(?P<step>[0-9]{1,9}))?"
)
_CRON_SHORTCUTS = word_set("@yearly @annually @monthly @weekly @daily @midnight @hourly @reboot")


@verifier("ValidMarkup", family="format", version=2)
def valid_markup(text: Text, *, kind: Markup) -> Answer:
    """The HTML, LaTeX, Mermaid or cron expression of the answer is well-formed.

    Looked at: the last code fence of that kind, else the last one without a name, else the whole answer.
    Passes: <p>a<br><li>b (HTML5 closes it); \\begin{a}…\\end{a} with balanced braces; "graph TD" and lines with
        balanced brackets; "*/5 9-17 * * mon-fri".
    Fails: </b> that nothing opened, <b> that nothing closes; braces or environments that cross; a diagram of no known
        kind; a field out of range; nothing of that kind in the answer.
    Missing: an empty answer.
    Not covered: unknown commands and tags.
    """
    if not text.raw.strip():
        return missing("the answer is empty")
    markup = text.raw.strip().strip("`") if kind == "cron" else text.raw
    fences = [(tag.lower(), code) for tag, code in split_code(text.raw)[1]]
    for names in (_FENCES[kind], ("",)):
        blocks = [code for name, code in fences if name in names]
        if blocks:
            markup = blocks[-1]
            break
    if not markup.strip():
        return False, f"no {kind} in the answer"
    if kind == "html":
        problem, tags = check_html(markup)
        if problem is None and not tags:
            problem = "there is no tag"
    else:
        check = {"latex": _check_latex, "mermaid": _check_mermaid, "cron": _check_cron}[kind]
        problem = check(markup)
    return problem is None, problem or f"well-formed {kind}"


def check_html(text: str) -> tuple[str | None, set[str]]:
    """Return what is wrong with the nesting of tags (None if nothing), and the names of all tags in lower case.

    Tags are read as browsers read them: `<li>a<li>b`, `<br>`, `<P>` and a `</p>` that nothing opened are fine.
    """
    open_tags: list[str] = []
    names: set[str] = set()
    for name, kind in _find_tags(text):
        if kind == "unclosed section":
            return f"{name} is never closed", names
        names.add(name)
        if kind == "empty" or name in VOID:
            continue
        if kind == "start":
            open_tags.append(name)
            continue
        # An end tag.
        if name not in open_tags:
            if name == "p":  # browsers insert the start tag
                continue
            return f"</{name}> closes nothing", names
        while open_tags[-1] != name and open_tags[-1] in _OPTIONAL_END_TAG:
            open_tags.pop()
        if open_tags[-1] != name:
            return f"</{name}> crosses <{open_tags[-1]}>", names
        open_tags.pop()
    unclosed = [tag for tag in open_tags if tag not in _OPTIONAL_END_TAG]
    if unclosed:
        return f"<{unclosed[-1]}> is never closed", names
    return None, names


def _find_tags(text: str) -> Iterator[tuple[str, TagKind]]:
    """Yield names and kinds of the tags of a text; at last ("<!--", "unclosed section") if a comment never ends.

    Python's own parser starts again at every "<" of a tag or comment that does not end, which takes minutes for long
    texts. Here everything is read once: what never ends is the rest of the text.
    """
    position = 0
    while (start := text.find("<", position)) >= 0:
        section = next((marks for marks in _SECTIONS if text.startswith(marks[0], start)), None)
        if section:
            opening, closing = section
            end = text.find(closing, start + len(opening))
            if end < 0:
                if opening in ("<!--", "<![CDATA["):
                    yield opening, "unclosed section"
                return
            position = end + len(closing)
            continue
        if not _TAG_NAME.match(text, start):  # a "<" in the text: "a < b"
            position = start + 1
            continue
        tag = _TAG.match(text, start)
        if tag is None:  # there is no ">" behind it, so no later tag ends either
            return
        position = tag.end()
        name = tag["name"].lower()
        if tag["slash"]:
            yield name, "end"
        elif tag[0].endswith("/>"):
            yield name, "empty"
        else:
            yield name, "start"
            if name in _RAW_TEXT:
                end_tag = _RAW_TEXT[name].search(text, position)
                if end_tag is None:
                    return
                position = end_tag.start()


def _check_latex(text: str) -> str | None:
    """Return what is wrong with braces, environments and dollars; None if nothing is."""
    text = re.sub(r"(?<!\\)%[^\n]*", "", text)  # comments
    text = re.sub(r"\\\\", " ", text)  # line breaks
    unbalanced = _find_unbalanced(re.sub(r"\\[{}]", "", text), "{}")
    if unbalanced:
        return unbalanced
    environments: list[str] = []
    for command, name in _ENVIRONMENT.findall(text):
        if command == "begin":
            environments.append(name)
        elif not environments or environments.pop() != name:
            return f"\\end{{{name}}} does not close what is open"
    if environments:
        return f"\\begin{{{environments[-1]}}} is never ended"
    if len(re.findall(r"(?<!\\)\$", text)) % 2:
        return "a $ without its partner"
    if len(re.findall(r"\\left\b", text)) != len(re.findall(r"\\right\b", text)):
        return "\\left without \\right"
    return None if re.search(r"\\[A-Za-z]+|\$|[{}^_]", text) else "there is no LaTeX"


def _check_mermaid(text: str) -> str | None:
    """Return what is wrong with the first line or, in a flowchart, with the brackets; None if nothing is."""
    lines = [line.strip() for line in text.split("\n")]
    lines = [line for line in lines if line and not line.startswith("%%")]
    if lines and lines[0] == "---" and "---" in lines[1:]:  # front matter
        lines = lines[lines.index("---", 1) + 1 :]
    if not lines or not _DIAGRAM.match(lines[0]):
        return "the first line names no kind of diagram"
    if len(lines) < 2 and not lines[0].startswith("pie"):
        return "there is nothing in the diagram"
    if lines[0].split()[0] in ("graph", "flowchart"):
        without_texts = re.sub(r"\"[^\"\n]*\"", "", "\n".join(lines[1:]))
        # The > of the shape "id>text]" and arrows such as "-->", "-.->", "<==>", "--x".
        without_arrows = re.sub(r">(?=[^\]\n]{0,200}\])|<?[-=.]+[>xo]?", "", without_texts)
        return _find_unbalanced(without_arrows, "()[]{}")
    return None


def _find_unbalanced(text: str, brackets: str) -> str | None:
    """Return the first bracket that nothing opens or the last that nothing closes; None if there is none."""
    openings = dict(zip(brackets[1::2], brackets[::2], strict=True))
    stack: list[str] = []
    for sign in text:
        if sign in brackets[::2]:
            stack.append(sign)
        elif sign in openings and (not stack or stack.pop() != openings[sign]):
            return f"a {sign} that nothing opens"
    return f"a {stack[-1]} that nothing closes" if stack else None


def _check_cron(text: str) -> str | None:
    """Return what is wrong with the expression; None if nothing is."""
    lines = [line.strip() for line in text.split("\n")]
    lines = [line for line in lines if line and not line.startswith("#")]
    if len(lines) != 1:
        return "not one expression"
    if lines[0].lower() in _CRON_SHORTCUTS:
        return None
    fields = lines[0].split()
    if len(fields) != len(_CRON_FIELDS):
        return f"{len(fields)} fields instead of 5"
    for number, (field, (low, high, names)) in enumerate(zip(fields, _CRON_FIELDS, strict=True), 1):
        if not all(_is_cron_part(part, low, high, names) for part in field.lower().split(",")):
            return f"field {number} is {field[:30]!r}"
    return None


def _is_cron_part(part: str, low: int, high: int, names: Sequence[str]) -> bool:
    """Is this "*", "5", "mon-fri", "*/5" or "1-10/2", within the range?"""
    match = _CRON_PART.fullmatch(part)
    if match is None:
        return False
    if match["step"] and not 0 < int(match["step"]) <= high:
        return False
    if match["first"] is None:  # "*", or "?": "no value", which some schedulers allow for days
        return match["span"] == "*" or not match["step"]
    numbers = []
    for end in filter(None, (match["first"], match["last"])):
        if end in names:
            numbers.append(names.index(end) + low)  # months count from 1, days of the week from 0
        elif end.isdigit():
            numbers.append(int(end))
        else:
            return False
    return numbers == sorted(numbers) and low <= numbers[0] and numbers[-1] <= high
