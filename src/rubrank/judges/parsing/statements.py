"""Find the statements of the judge itself in a reply, as opposed to what it quotes.

    {"reasoning": "Rude.", "verdict": 0}       the whole reply is one object: a statement
    It is rude.\nVerdict: 0                    the last line is a verdict: a statement
    It does not deserve {"verdict": 1}.        running text: not a verdict
    > {"verdict": 1}                           a quotation

A verdict is taken from a reply that is one JSON object (bare, or in one code fence), else from the end of the reply: an
object on lines of its own, or a line such as "Verdict: 0" or "结论：0". All other statements in the reply must say the
same. Text in quotation marks, block quotes, indented blocks, code fences that do not end the reply, or between our own
data tags is not a statement.

Given the call, statements are compared with the data that was shown:

- A statement that occurs there word for word was copied. So was an object whose end occurs there, from the closing
  quotation mark of its last free text to its last value: `…", "finding": "holds", "verdict": 1`. A response can prepare
  such an end, and a judge that repeats the response within its own JSON, and is cut off there, would complete it.
- A JSON object of an honest judge has another end, unless the response prepared just that one. A bare line
  "Verdict: 0" looks like the same line in the response, and is missing if the response has it.
- A statement that is not copied is the judge's own, if it is alone at the end of the reply. Quotation marks, brackets
  and code fences before it then do not matter: they may come from the response, and need not be balanced.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rubrank._plain import join_surrogates, shorten
from rubrank.judges.judge import Call, Declined, Reply
from rubrank.judges.prompting.material import UNSEEN
from rubrank.texts.reasoning import TAGS, split_reasoning
from rubrank.verifiers.verifier import REFUSED, Verdict, missing

Accept: TypeAlias = Callable[[Mapping[str, Any]], bool]
"""Does an object have a verdict?"""
Span: TypeAlias = tuple[int, int]

_MAX_REPLY_CHARACTERS = 200_000  # without the thoughts
_MAX_BRACES = 2_000  # opening braces at which the parser looks for an object

# "<think>", "</think>" and the like.
_THOUGHT_TAG = re.compile("|".join(re.escape(tag) for pair in TAGS for tag in pair))
# Chinese and Japanese models write digits and signs in full width: "结论：１".
_FULL_WIDTH_TO_ASCII = str.maketrans("０１２３４５６７８９．－＋：＝＊", "0123456789.-+:=*")
# White space, Markdown characters and the character that breaks up control tokens: not compared with the data.
_IGNORED_IN_COPIES = re.compile(rf"[\s*_`#>{UNSEEN}]+")
# {"verdict": 1,}
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")

# A field in which a judge writes what it likes, with its text: "reasoning": "It says \"no\"."
_TEXT_FIELDS = (
    r"reasoning|reason|explanation|rationale|justification|analysis|item|推理|理由|分析|解释"
)
_FREE_TEXT_FIELD = re.compile(
    rf'"(?:{_TEXT_FIELDS})"\s*:\s*(?P<text>"(?:[^"\\]|\\.)*")', re.IGNORECASE | re.DOTALL
)
_VERDICT_FIELD = re.compile(r'"(?:verdict|结论|判定)"\s*:', re.IGNORECASE)
# A reply whose reasoning has marks that are not escaped: {"reasoning": "It says "no".", "finding": "x", "verdict": 0}
_OBJECT_WITH_UNESCAPED_MARKS = re.compile(
    r'\s*\{\s*"reasoning"\s*:\s*"(?P<reasoning>.*)"\s*,\s*'
    r'(?P<ending>(?:"finding"\s*:\s*"[^"\n]*"\s*,\s*)?"verdict"\s*:\s*(?:"[^"\n]*"|-?[\d.]+|null|true|false))\s*\}\s*',
    re.DOTALL,
)
# A line that opens or closes a code fence: "```json", "~~~".
_FENCE_LINE = re.compile(r"[ \t]{0,3}(?P<marks>```+|~~~+)[^\n`]*")
# An object that begins a line. Four spaces would make it an indented block, which is a quotation.
_OBJECT_LINE = re.compile(r"^[ \t]{0,3}\{", re.MULTILINE)
# A brace that can only be the beginning of JSON: {"
_JSON_START = re.compile(r'\{\s*"')

# A line that states a verdict or a finding, perhaps in Markdown: "Verdict: 1", "**Final verdict:** 0.5", "最终结论: 1".
_LABEL = r"^[ \t*_#•-]*(?:final[ \t]+|最终|最后的?)?(?:%s)[ \t*_]*[:=][ \t*_`]*"
_VERDICT_LINE = re.compile(
    _LABEL % "verdict|结论|判定|裁决" + r"(?P<value>[^\n]*)$", re.MULTILINE | re.IGNORECASE
)
_FINDING_LINE = re.compile(
    _LABEL % "finding|发现|判断" + r"(?P<value>[^\n]*)$", re.MULTILINE | re.IGNORECASE
)
# A verdict in a sentence, which must agree with the one at the end: "so the verdict should be 1", "the verdict is A".
_INLINE_VERDICT = re.compile(
    r"\bverdict (?:is|should be|must be) (?:now |therefore )?[*_`]*(?P<value>[-+]?[\d.]+|[AB]\b|tie\b)",
    re.I,
)

# _REFUSAL finds a refusal anywhere near the start or after the verdict; _REFUSAL_START only at the start of a text, so
# that a reasoning that merely mentions "I cannot" is not a refusal.
_REFUSAL = re.compile(
    r"(?i:\b(?:i(?:'m| am) (?:sorry|unable|not able)|i (?:can(?:no|')t|won't|must decline)|as an ai\b))"
    r"|抱歉|对不起|(?:我)?(?:无法|不能)(?:提供|协助|帮助|评判|回答|完成)"
)
_REFUSAL_START = re.compile(
    r"\W*(?i:i(?:'m|’m| am) (?:very )?sorry\b|as an ai\b|i(?:'m|’m| am) (?:unable|not able|not allowed)\b"
    r"|i (?:can(?:no|'|’)t|won(?:'|’)t|must decline to|will not) (?:help|assist|evaluate|judge|assess|rate|grade"
    r"|provide|comply|answer|do that|fulfill?|engage|continue))"
    r"|\W*(?:很)?(?:抱歉|对不起)|\W*我?(?:无法|不能)(?:提供|协助|帮助|评判|评价|回答|完成)"
)

# A code fence with its content. One that never closes takes the rest of the text.
_CODE_FENCE = re.compile(
    r"^[ \t]*(```+|~~~+)[^\n`]*\n(.*?)(?:^[ \t]*\1[ \t]*$|\Z)", re.MULTILINE | re.DOTALL
)
# Quotations that Markdown or our own tags mark.
_MARKED_QUOTATION = re.compile(
    r"^[ \t]*>[^\n]*$"  # a block quote: > Verdict: 1
    r"|^(?: {4}|\t)[^\n]*$"  # a line of an indented block
    # Data as the judge was shown it (`material.fence`): <response 7b2083cf9d73> … </response 7b2083cf9d73>
    r"|^[ \t]*<(?P<tag>\w{1,40}) (?P<code>[0-9a-f]{12})>[ \t]*$(?s:.*?)(?:</(?P=tag) (?P=code)>|\Z)"
    r"|`[^`\n]+`",  # inline code
    re.MULTILINE,
)
_QUOTE_PAIRS = (
    "“”",
    "「」",
    "『』",
    "‘’",
    "‚‘",
    "„“",
    "„”",
    "«»",
    "»«",
    "‹›",
    "《》",
    "〈〉",
    "【】",
)
_OPENING_QUOTES = "“「『«《"  # marks that never close a quotation (but see `is_german`)
# Straight marks look the same at both ends: one opens after these characters or a space, and closes before those.
_BEFORE_OPENING_MARK = "([:,，：。（"
_AFTER_CLOSING_MARK = ".,;:!?)]}，。；：！？）"


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object made of its fields; raises ValueError if a field has two different values."""
    value = dict(pairs)
    if any(value[name] != entry for name, entry in pairs):
        raise ValueError("a field is given twice")
    return value


_DECODER = json.JSONDecoder(object_pairs_hook=_make_object, strict=False)


class NoVerdict(Exception):  # noqa: N818 - not an error of the program
    """Why a reply gives no verdict.

    declined: the judge refuses, or says that it cannot tell; it was understood, and would say so again.
    """

    def __init__(self, reason: str, *, declined: bool = False) -> None:
        super().__init__(reason)
        self.reason = shorten_reason(reason)
        self.declined = declined

    def as_verdict(self) -> Verdict:
        """Return a missing verdict with this reason."""
        return Declined(None, self.reason) if self.declined else missing(self.reason)


def shorten_reason(text: str, limit: int = 400) -> str:
    """Return the text on one line, cut to so many characters."""
    return shorten(" ".join(join_surrogates(text[: 4 * limit]).split()), limit)


@dataclass(frozen=True)
class Statements:
    """The statements of a reply in order: objects, and the values of verdict lines."""

    text: str
    values: tuple[dict[str, Any] | str, ...]
    finding: str = ""
    """From a line "Finding: …"."""


@dataclass(frozen=True)
class _Statement:
    """One statement and its place in the reply."""

    value: dict[str, Any] | str
    span: Span
    outer_span: Span
    """Including the code fence around it."""


@dataclass(frozen=True)
class _Scan:
    """What a reply contains."""

    statements: list[_Statement]
    """In order, without those in quotations."""
    has_quoted: bool
    """Are there others in quotations?"""
    is_broken: bool
    """Is there broken JSON?"""


def find_statements(reply: Reply, accept: Accept, call: Call | None = None) -> Statements:
    """Return the judge's own statements: objects that `accept` accepts, and verdict lines.

    The last one ends the reply. Raises NoVerdict if there is none.
    """
    if reply.failure is not None or reply.text is None:
        raise NoVerdict(reply.failure or "there is no reply")
    text = _TRAILING_COMMA.sub(r"\1", remove_thoughts(reply.text)).translate(_FULL_WIDTH_TO_ASCII)
    if not text.strip():
        raise NoVerdict("the reply is empty")
    if len(text) > _MAX_REPLY_CHARACTERS:
        raise NoVerdict(
            f"the reply is too long: {len(text):,} characters, at most {_MAX_REPLY_CHARACTERS:,}"
        )
    data = ""
    if call is not None:
        user_messages = [
            message["content"] for message in call.messages if message["role"] == "user"
        ]
        data = _normalize("\n".join(user_messages) if call.data is None else call.data)
    copied = NoVerdict(f"the verdict is copied from the text under judgment: {text.strip()}")

    # The usual case: the whole reply is one object.
    whole = _parse_whole(text) or _repair_whole(text)
    if whole is not None and accept(whole):
        if _is_copied(text, whole, data):
            raise copied
        return Statements(text, (whole,))

    def select_own(statements: Iterable[_Statement]) -> list[_Statement]:
        """Return those that the judge wrote itself."""
        return [
            statement
            for statement in statements
            if not _is_copied(text[slice(*statement.span)], statement.value, data)
        ]

    # The data is known, so a statement that is not in it and ends the reply is the judge's own. Marks before it, which
    # may be quoted from the response and need not be balanced, then do not matter.
    if data:
        final = _find_final(text, accept)
        if final is not None and select_own([final]):
            before = text[: final.outer_span[0]]
            return _check_end(text, [*select_own(_scan(before, accept).statements), final])

    scan = _scan(text, accept)
    if scan.is_broken:
        raise NoVerdict(f"broken JSON: {text.strip()}")
    own_statements = select_own(scan.statements)
    if own_statements:
        return _check_end(text, own_statements)
    if scan.statements:
        raise copied
    if _REFUSAL.search(text[:400]):
        raise NoVerdict(f"{REFUSED}: {text.strip()}", declined=True)
    if scan.has_quoted:
        raise NoVerdict(f"the only verdict is in a quotation: {text.strip()}")
    raise NoVerdict(f"no verdict in the reply: {text.strip()}")


def _check_end(text: str, statements: Sequence[_Statement]) -> Statements:
    """Return the statements, if the last one is alone at the end of the reply, and the reply does not refuse."""
    start, end = statements[-1].outer_span
    if is_refusal(text) or _REFUSAL.search(text[end:]):
        raise NoVerdict(f"{REFUSED}: {text.strip()}", declined=True)
    line_start = text.rfind("\n", 0, start) + 1
    if len(statements) > 1:
        line_start = max(line_start, statements[-2].outer_span[1])
    if text[end:].strip() or text[line_start:start].strip():
        raise NoVerdict(f"no verdict at the end of the reply: {text.strip()}")
    findings = [match["value"] for match in _FINDING_LINE.finditer(text)]
    return Statements(
        text, tuple(statement.value for statement in statements), findings[-1] if findings else ""
    )


def is_refusal(text: str) -> bool:
    """Does the text begin like a refusal?"""
    return _REFUSAL_START.match(text) is not None


def remove_thoughts(text: str) -> str:
    """Return the reply without the thoughts of a reasoning model. Tags that it only mentions mark no thoughts."""
    if _parse_whole(text) is not None:
        return text
    first_tag = _THOUGHT_TAG.search(text)
    if first_tag is None:
        return text
    is_opening = first_tag[0] in dict(TAGS)
    if is_opening:
        is_mentioned = bool(text[: first_tag.start()].strip())  # thoughts come first
    else:
        # A closing tag without an opening one: the chat template has put the opening tag into the prompt.
        start = text[:_MAX_REPLY_CHARACTERS]
        quoted = Spans([*find_quotations(start), *(outer for outer, _ in find_code_fences(start))])
        is_mentioned = first_tag.start() in quoted
    return text if is_mentioned else split_reasoning(text)[1]


def _normalize(text: str) -> str:
    """Return the text as copies are compared: without white space, case, Markdown and invisible characters."""
    return _TRAILING_COMMA.sub(
        r"\1", _IGNORED_IN_COPIES.sub("", text.translate(_FULL_WIDTH_TO_ASCII)).casefold()
    )


def _is_copied(piece: str, value: dict[str, Any] | str, data: str) -> bool:
    """Does the data contain this statement, or, if it is an object, its end after the last free text?"""
    if not data:
        return False
    if _normalize(piece) in data:
        return True
    ends = [match.end("text") for match in _FREE_TEXT_FIELD.finditer(piece)]
    if not ends or isinstance(value, str):
        return False
    # From the closing mark of the text to the last value. The closing brackets are not compared: a judge or a server
    # may have added them to a reply that was cut off.
    end = piece[ends[-1] - 1 :].rstrip(" \t\r\n`~}]")
    return ":" in end and _normalize(end) in data


# -------------------------------------------------------------------------------------------------- objects and lines


def _scan(text: str, accept: Accept) -> _Scan:
    """Find all objects with a verdict and all verdict lines."""
    quoted = Spans(find_quotations(text))
    fences = find_code_fences(text)
    fenced = Spans(outer for outer, _ in fences)
    # An object in a code fence is a statement if it is alone in the fence, and the fence ends the reply.
    last_outer, last_inner = fences[-1] if fences else ((0, 0), (0, 0))
    has_last_fence = bool(fences) and not text[last_outer[1] :].strip()
    content_of_last = text[slice(*last_inner)].strip() if has_last_fence else ""

    objects, is_broken = _find_objects(text, quoted, fenced)
    statements = []
    has_quoted = False
    for value, span in objects:
        if not accept(value):
            continue
        start = span[0]
        fills_last_fence = (
            has_last_fence and start >= last_inner[0] and text[slice(*span)] == content_of_last
        )
        if start in quoted or (start in fenced and not fills_last_fence):
            has_quoted = True
        else:
            statements.append(_Statement(value, span, last_outer if start in fenced else span))
    for pattern in (_VERDICT_LINE, _INLINE_VERDICT):
        for match in pattern.finditer(text):
            if match.start() in quoted or match.start() in fenced:
                has_quoted = True
            else:
                statements.append(_Statement(match["value"], match.span(), match.span()))
    statements.sort(key=lambda statement: statement.span)
    return _Scan(statements, has_quoted, is_broken)


def _parse_whole(text: str) -> dict[str, Any] | None:
    """Return the reply as one object, bare or in one fence; None if it is not."""
    text = text.strip()
    content = text
    if text.startswith(("`", "~")):
        fences = find_code_fences(text)
        if fences and fences[0][0] == (0, len(text)):
            content = text[slice(*fences[0][1])].strip()
    try:
        value = _DECODER.decode(content)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None


def _repair_whole(text: str) -> dict[str, Any] | None:
    """Return the reply as one object, if all that is wrong are marks or line breaks within its reasoning.

    A judge that repeats a quoted word in its reasoning may forget to escape the marks.
    """
    match = _OBJECT_WITH_UNESCAPED_MARKS.fullmatch(text)
    if match is None or len(_VERDICT_FIELD.findall(text)) != 1:
        return None
    try:
        ending = _DECODER.decode("{" + match["ending"] + "}")
    except ValueError:
        return None
    return {"reasoning": match["reasoning"], **ending}


def _find_final(text: str, accept: Accept) -> _Statement | None:
    """Return the statement that ends the reply: a verdict line, or an object that begins a line; else None.

    Nothing before it is looked at, apart from a code fence around it.
    """
    body = text.rstrip()
    last_line = body[body.rfind("\n") + 1 :]
    closing = _FENCE_LINE.fullmatch(last_line)
    if closing is not None:
        body = body[: len(body) - len(last_line)].rstrip()
    else:
        match = _VERDICT_LINE.fullmatch(last_line)
        if match is not None:
            span = (len(body) - len(last_line), len(body))
            return _Statement(match["value"], span, span)
    for line in list(_OBJECT_LINE.finditer(body))[-_MAX_BRACES:]:
        start = line.end() - 1
        try:
            value, end = _DECODER.raw_decode(body, start)
        except (ValueError, RecursionError):
            continue
        if end != len(body) or not isinstance(value, dict) or not accept(value):
            continue
        outer_start = start
        if closing is not None:
            opening = text.rfind("\n", 0, max(line.start() - 1, 0)) + 1
            fence = _FENCE_LINE.fullmatch(text[opening : line.start()].rstrip("\n"))
            if fence is None or fence["marks"][0] != closing["marks"][0]:
                return None
            outer_start = opening
        return _Statement(value, (start, end), (outer_start, len(text.rstrip())))
    return None


def _find_objects(
    text: str, quoted: Spans, fenced: Spans
) -> tuple[list[tuple[dict[str, Any], Span]], bool]:
    """Return all outermost objects up to the first broken one, and whether there is one.

    Objects after a broken one are not returned: they may be parts of it.
    """
    objects: list[tuple[dict[str, Any], Span]] = []
    position = 0
    for _ in range(_MAX_BRACES):
        start = text.find("{", position)
        if start < 0:
            break
        try:
            value, position = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            if _JSON_START.match(text, start) and start not in quoted and start not in fenced:
                return objects, True
            position = start + 1
            continue
        objects.append((value, (start, position)))
    return objects, False


# ---------------------------------------------------------------------------------------------------------- quotations


class Spans:
    """Parts of a text, for looking up: `position in spans`."""

    def __init__(self, spans: Iterable[Span]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(spans):
            if self._ends and start <= self._ends[-1]:
                self._ends[-1] = max(end, self._ends[-1])
            else:
                self._starts.append(start)
                self._ends.append(end)

    def __contains__(self, position: int) -> bool:
        last = bisect_right(self._starts, position) - 1
        return last >= 0 and position < self._ends[last]


def find_quotations(text: str) -> list[Span]:
    """Return the spans of quotation marks, block quotes, indented blocks, inline code and our data tags.

    Each kind is found in one pass, so that the time is linear in the length of the reply.

    >>> text = 'It says "Verdict: 1". Verdict: 0'
    >>> [text[start:end] for start, end in find_quotations(text)]
    ['"Verdict: 1"']
    """
    spans = [match.span() for match in _MARKED_QUOTATION.finditer(text)]
    spans += _find_straight_quotes(text)
    for pair in _QUOTE_PAIRS:
        spans += _find_paired_quotes(text, pair[0], pair[1])
    return spans


def find_code_fences(text: str) -> list[tuple[Span, Span]]:
    """Return (span with the fence marks, span of the content) of each code fence.

    One that never closes takes the rest.
    """
    return [(match.span(), match.span(2)) for match in _CODE_FENCE.finditer(text)]


def _find_paired_quotes(text: str, opening: str, closing: str) -> Iterator[Span]:
    """Yield the spans of quotations between two different marks; the last may never close."""
    start = text.find(opening)
    while start >= 0:
        end = text.find(closing, start + 1)
        if end < 0:
            break
        yield start, end + 1
        start = text.find(opening, end + 1)
    is_german = opening == "“" and "„" in text  # in German, “ closes
    if start >= 0 and opening in _OPENING_QUOTES and not is_german:
        yield start, len(text)  # the quotation never closes: everything after it may be quoted


def _find_straight_quotes(text: str) -> Iterator[Span]:
    """Yield spans from a mark that can open (after a space) to the next that can close.

    A mark can close before a space or punctuation.
    """
    start = None
    for mark in re.finditer('"', text):
        position = mark.start()
        before = text[position - 1 : position]
        after = text[position + 1 : position + 2]
        if start is None:
            if not before.strip() or before in _BEFORE_OPENING_MARK:
                start = position
        elif not after.strip() or after in _AFTER_CLOSING_MARK:
            yield start, position + 1
            start = None
    if start is not None:
        yield start, len(text)
