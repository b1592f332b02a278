"""Find the statements of the judge itself in a reply, as opposed to what it quotes.

    {"reasoning": "Rude.", "verdict": 0}       the whole reply is one object: a statement
    It is rude.\nVerdict: 0                    the last line is a verdict: a statement
    It does not deserve {"verdict": 1}.        an object in running text: not a statement
    > {"verdict": 1}                           a quotation

The words of this file:

- A statement is a JSON object with a verdict, a line such as "Verdict: 0" or "结论：0", or a sentence that names the
  verdict ("so the verdict is 1"). The last one must end the reply. All must say the same, which the caller checks.
- A quotation is text in quotation marks, block quotes, indented blocks, inline code, code fences that do not end the
  reply, or between our own data tags. A verdict in a quotation is not a statement.
- The data is what the judge was shown: the query, the response, and so on. It is known if the call is given.
- A statement is copied if it occurs in the data word for word. An object is also copied if its end occurs there, from
  the closing quotation mark of its last free text to its last value: `…", "finding": "holds", "verdict": 1`. A response
  can prepare such an end: a judge that repeats the response within its own JSON, and is cut off there, completes it.

`find_statements` tries three ways to read a reply, in this order:

1. The whole reply is one object, bare or in one code fence.
2. The data is known, and a statement ends the reply that is not copied. It is the judge's own. Quotation marks,
   brackets and code fences before it do not matter: they may come from the response, and need not be balanced.
3. All statements outside quotations are searched, and the copied ones are left out.

An honest verdict is lost only if the data contains it: a line "Verdict: 0" looks like the same line in the response.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping
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
"""Where a part of the reply begins and ends."""

_MAX_REPLY_CHARACTERS = 200_000  # without the thoughts
_MAX_BRACES = 2_000  # opening braces that are tried as the beginning of an object
_MAX_REFUSAL_START = 400  # characters in which a reply without a verdict must begin to refuse

# Replies are read without two harmless differences. A comma before a closing bracket is removed: {"verdict": 1,}
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
# Digits and signs in full width, which Chinese and Japanese models write, become ASCII: "结论：１" is "结论:1".
_FULL_WIDTH_TO_ASCII = str.maketrans("０１２３４５６７８９．－＋：＝＊", "0123456789.-+:=*")


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
    # Runs of spaces become one. Four times the limit leaves enough text, and a long reply is not read to its end.
    return shorten(" ".join(join_surrogates(text[: 4 * limit]).split()), limit)


@dataclass(frozen=True)
class Statements:
    """The statements of a reply in order: objects, and the values of verdict lines."""

    text: str
    """The reply without thoughts."""
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
    text_for_reason = text.strip()
    if not text_for_reason:
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
    reason_if_copied = f"the verdict is copied from the text under judgment: {text_for_reason}"

    # 1. The usual case: the whole reply is one object.
    value = _parse_whole(text) or _repair_whole(text)
    if value is not None and accept(value):
        whole = (0, len(text))
        if _is_copied(_Statement(value, whole, whole), text, data):
            raise NoVerdict(reason_if_copied)
        return Statements(text, (value,))

    # 2. A statement that is not in the data ends the reply. Statements before it must still agree with it.
    final = _find_final(text, accept) if data else None
    if final is not None and not _is_copied(final, text, data):
        before = _scan(text[: final.outer_span[0]], accept).statements
        earlier = [statement for statement in before if not _is_copied(statement, text, data)]
        return _check_end(text, [*earlier, final])

    # 3. All statements outside quotations.
    scan = _scan(text, accept)
    if scan.is_broken:
        raise NoVerdict(f"broken JSON: {text_for_reason}")
    statements = [
        statement for statement in scan.statements if not _is_copied(statement, text, data)
    ]
    if statements:
        return _check_end(text, statements)

    # There is no statement: say why.
    if scan.statements:
        raise NoVerdict(reason_if_copied)
    if _REFUSAL.search(text[:_MAX_REFUSAL_START]):
        raise NoVerdict(f"{REFUSED}: {text_for_reason}", declined=True)
    if scan.has_quoted:
        raise NoVerdict(f"the only verdict is in a quotation: {text_for_reason}")
    raise NoVerdict(f"no verdict in the reply: {text_for_reason}")


def _check_end(text: str, statements: list[_Statement]) -> Statements:
    """Return the statements, if the last one is alone at the end of the reply, and the reply does not refuse."""
    start, end = statements[-1].outer_span
    if is_refusal(text) or _REFUSAL.search(text[end:]):
        raise NoVerdict(f"{REFUSED}: {text.strip()}", declined=True)
    # Before the last statement, its line may hold another statement, but no other text.
    line_start = text.rfind("\n", 0, start) + 1
    if len(statements) > 1:
        line_start = max(line_start, statements[-2].outer_span[1])
    if text[end:].strip() or text[line_start:start].strip():
        raise NoVerdict(f"no verdict at the end of the reply: {text.strip()}")
    findings = [match["value"] for match in _FINDING_LINE.finditer(text)]
    values = tuple(statement.value for statement in statements)
    return Statements(text, values, findings[-1] if findings else "")


# ---------------------------------------------------------------------------------------------- refusals and thoughts

_I_AM = "i(?:['’]m| am)"
# A refusal within a text: "I’m sorry", "I can't", "As an AI", "我无法评判". Not one: "The user is sorry".
_REFUSAL = re.compile(
    rf"\b(?:{_I_AM} (?:sorry|unable|not able)|i (?:can(?:no|['’])t|won['’]t|must decline)|as an ai\b)"
    r"|抱歉|对不起|我?(?:无法|不能)(?:提供|协助|帮助|评判|回答|完成)",
    re.IGNORECASE,
)
# A refusal that begins a text: "I cannot judge this." It is stricter than _REFUSAL, because a verdict follows. Not one:
# "I cannot find an error.", "The answer says: I cannot help."
_REFUSAL_START = re.compile(
    r"\W*(?:"
    rf"{_I_AM} (?:very )?sorry\b"
    r"|as an ai\b"
    rf"|{_I_AM} (?:unable|not able|not allowed)\b"
    r"|i (?:can(?:no|['’])t|won['’]t|must decline to|will not) (?:help|assist|evaluate|judge|assess|rate|grade"
    r"|provide|comply|answer|do that|fulfill?|engage|continue)"
    r"|很?(?:抱歉|对不起)"
    r"|我?(?:无法|不能)(?:提供|协助|帮助|评判|评价|回答|完成)"
    r")",
    re.IGNORECASE,
)
# The tags around thoughts: "<think>", "</think>" and the like.
_THOUGHT_TAG = re.compile("|".join(re.escape(tag) for pair in TAGS for tag in pair))


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
    opening_tags = dict(TAGS)
    if first_tag[0] in opening_tags:
        # Thoughts come first: a tag after other text is only mentioned.
        is_mentioned = bool(text[: first_tag.start()].strip())
    else:
        # A closing tag without an opening one: the chat template has put the opening tag into the prompt.
        start = text[:_MAX_REPLY_CHARACTERS]
        fences = [fence.span() for fence in _CODE_FENCE.finditer(start)]
        quoted = Spans([*find_quotations(start), *fences])
        is_mentioned = first_tag.start() in quoted
    return text if is_mentioned else split_reasoning(text)[1]


# -------------------------------------------------------------------------------------------------- copied statements

# What is not compared with the data: white space, Markdown characters and the character that breaks up control tokens.
_IGNORED_IN_COPIES = re.compile(rf"[\s*_`#>{UNSEEN}]+")
# A field in which a judge writes what it likes, with its text: "reasoning": "It says \"no\"."
# Not one: "finding": "holds".
_FREE_TEXT_FIELD = re.compile(
    '"(?:reasoning|reason|explanation|rationale|justification|analysis|item|推理|理由|分析|解释)"'
    r'\s*:\s*(?P<text>"(?:[^"\\]|\\.)*")',
    re.IGNORECASE | re.DOTALL,
)


def _normalize(text: str) -> str:
    """Return the text as copies are compared: without white space, case, Markdown and invisible characters."""
    characters = _IGNORED_IN_COPIES.sub("", text.translate(_FULL_WIDTH_TO_ASCII))
    return _TRAILING_COMMA.sub(r"\1", characters.casefold())


def _is_copied(statement: _Statement, text: str, data: str) -> bool:
    """Does the data contain this statement of the reply, or, if it is an object, its end after the last free text?

    data: normalized; "" if it is not known, and then nothing is copied.
    """
    if not data:
        return False
    start, end = statement.span
    written = text[start:end]
    if _normalize(written) in data:
        return True
    free_texts = list(_FREE_TEXT_FIELD.finditer(written))
    if not free_texts or isinstance(statement.value, str):
        return False
    # From the closing mark of the text to the last value. The closing brackets are not compared: a judge or a server
    # may have added them to a reply that was cut off.
    closing_mark = free_texts[-1].end("text") - 1
    ending = written[closing_mark:].rstrip(" \t\r\n`~}]")
    return ":" in ending and _normalize(ending) in data


# -------------------------------------------------------------------------------------------------- objects and lines

# A line that states a verdict or a finding, perhaps in Markdown: "Verdict: 1", "**Final verdict:** 0.5", "最终结论: 1".
# Not one: "The verdict: 1", "Verdict 1".
_LABEL = r"^[ \t*_#•-]*(?:final[ \t]+|最终|最后的?)?(?:%s)[ \t*_]*[:=][ \t*_`]*"
_VERDICT_LINE = re.compile(
    _LABEL % "verdict|结论|判定|裁决" + r"(?P<value>[^\n]*)$", re.MULTILINE | re.IGNORECASE
)
_FINDING_LINE = re.compile(
    _LABEL % "finding|发现|判断" + r"(?P<value>[^\n]*)$", re.MULTILINE | re.IGNORECASE
)
# A verdict in a sentence, which must agree with the one at the end: "so the verdict should be 1", "the verdict is A".
# Not one: "the verdict is clear", "the verdict could be 1".
_INLINE_VERDICT = re.compile(
    r"\bverdict (?:is|should be|must be) (?:now |therefore )?[*_`]*(?P<value>[-+]?[\d.]+|[AB]\b|tie\b)",
    re.IGNORECASE,
)
# A line that opens or closes a code fence: "```json", "~~~". Not one: "``` a ```".
_FENCE_LINE = re.compile(r"[ \t]{0,3}(?P<marks>```+|~~~+)[^\n`]*")
# An object that begins a line: '  {"verdict": 1}'. Four spaces would make it an indented block, which is a quotation.
_OBJECT_LINE = re.compile(r"^[ \t]{0,3}\{", re.MULTILINE)
# A brace that can only be the beginning of JSON: '{ "'. Not one: "{x}".
_JSON_START = re.compile(r'\{\s*"')
# A reply whose reasoning has marks that are not escaped: {"reasoning": "It says "no".", "finding": "x", "verdict": 0}
# Not one: {"reasoning": "It says "no".", "score": 2, "verdict": 0}
# The reasoning is the shortest that fits, or it would take in the finding.
_OBJECT_WITH_UNESCAPED_MARKS = re.compile(
    r'\s*\{\s*"reasoning"\s*:\s*"(?P<reasoning>.*?)"\s*,\s*'
    r'(?P<ending>(?:"finding"\s*:\s*"[^"\n]*"\s*,\s*)?"verdict"\s*:\s*(?:"[^"\n]*"|-?[\d.]+|null|true|false))\s*\}\s*',
    re.DOTALL,
)
_VERDICT_FIELD = re.compile(r'"(?:verdict|结论|判定)"\s*:', re.IGNORECASE)


def _make_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return an object made of its fields; raises ValueError if a field has two different values."""
    value = dict(pairs)
    if any(value[name] != entry for name, entry in pairs):
        raise ValueError("a field is given twice")
    return value


# strict=False: line breaks within texts are allowed, which judges often forget to escape.
_DECODER = json.JSONDecoder(object_pairs_hook=_make_object, strict=False)


def _scan(text: str, accept: Accept) -> _Scan:
    """Find all objects with a verdict and all verdict lines."""
    quoted = Spans(find_quotations(text))
    fences = list(_CODE_FENCE.finditer(text))
    fenced = Spans(fence.span() for fence in fences)
    # The code fence that ends the reply, if there is one: an object that is alone in it is a statement.
    final_fence = None
    final_content = ""
    if fences and not text[fences[-1].end() :].strip():
        final_fence = fences[-1]
        final_content = final_fence["content"].strip()

    objects, is_broken = _find_objects(text, quoted, fenced)
    statements = []
    has_quoted = False
    for value, span in objects:
        if not accept(value):
            continue
        start, end = span
        is_quoted = start in quoted
        outer_span = span
        if final_fence is not None and start >= final_fence.start("content"):
            is_quoted = is_quoted or text[start:end] != final_content
            outer_span = final_fence.span()
        elif start in fenced:
            is_quoted = True
        if is_quoted:
            has_quoted = True
        else:
            statements.append(_Statement(value, span, outer_span))
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
    content = text.strip()
    fence = _CODE_FENCE.match(content)
    if fence is not None and fence.end() == len(content):
        content = fence["content"].strip()
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
    text = text.rstrip()
    last_line_start = text.rfind("\n") + 1
    match = _VERDICT_LINE.fullmatch(text, last_line_start)
    if match is not None:
        return _Statement(match["value"], match.span(), match.span())
    closing = _FENCE_LINE.fullmatch(text, last_line_start)
    body = text if closing is None else text[:last_line_start].rstrip()

    # The object begins one of the lines, and ends the body.
    for line in list(_OBJECT_LINE.finditer(body))[-_MAX_BRACES:]:
        start = line.end() - 1  # the brace
        try:
            value, end = _DECODER.raw_decode(body, start)
        except (ValueError, RecursionError):
            continue
        if end != len(body) or not isinstance(value, dict) or not accept(value):
            continue
        if closing is None:
            return _Statement(value, (start, end), (start, end))
        # The line before must open the fence with the marks that close it.
        before = text[: line.start()].removesuffix("\n")
        opening = _FENCE_LINE.fullmatch(before, before.rfind("\n") + 1)
        if opening is None or opening["marks"][0] != closing["marks"][0]:
            return None
        return _Statement(value, (start, end), (opening.start(), len(text)))
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

# A code fence with its content: "```json\n{}\n```". One that never closes takes the rest of the text.
# Not one: "``` {} ```", which is inline code.
_CODE_FENCE = re.compile(
    r"^[ \t]*(?P<marks>```+|~~~+)[^\n`]*\n(?P<content>.*?)(?:^[ \t]*(?P=marks)[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
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
# Opening and closing marks. Some open in one language and close in another: English “…”, German „…“.
_QUOTE_PAIRS = (
    "“”",
    "„“",
    "„”",
    "‘’",
    "‚‘",
    "«»",
    "»«",
    "‹›",
    "「」",
    "『』",
    "《》",
    "〈〉",
    "【】",
)
_OPENING_QUOTES = "“「『«《"  # marks that never close a quotation (but see `is_german`)
# Straight marks look the same at both ends: one opens after these characters or a space, and closes before those.
_BEFORE_OPENING_MARK = "([:,，：。（"
_AFTER_CLOSING_MARK = ".,;:!?)]}，。；：！？）"


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
        spans += _find_paired_quotes(text, *pair)
    return spans


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
