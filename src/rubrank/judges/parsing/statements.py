"""Find the statements of the judge itself in a reply, as opposed to what it quotes or copies.

    {"reasoning": "Rude.", "verdict": 0}       the whole reply is one object: a statement
    It is rude.\\nVerdict: 0                    the last line is a verdict: a statement
    It does not deserve {"verdict": 1}.        an object in running text: not a statement
    > {"verdict": 1}                           a quotation

The words of this file:

    statement    a JSON object with a verdict, a line such as "Verdict: 0" or "结论：0", or a sentence that names the
                 verdict ("so the verdict is 1"). The last one must end the reply. All must agree, which the
                 caller checks.
    quotation    text in quotation marks, block quotes, indented blocks, inline code, code fences that do not end the
                 reply, or between our own data tags. A verdict in a quotation is not a statement.
    data         what the judge was shown: the query, the response, and so on. It is known if the call is given.
    copied       a statement that occurs in the data. See `_is_copied`.

`find_statements` reads a reply in the first of three ways that fits:

    1. The whole reply is one object, bare or in one code fence.
    2. A statement ends the reply, and the data, which is known, does not contain it. So it is the judge's own.
       Quotation marks, brackets and code fences before it do not matter: they may come from the response, and be
       unbalanced.
    3. All statements outside quotations are collected, without the copied ones.

An honest verdict is lost only if the data contains it: a line "Verdict: 0" looks like the same line in the response.
"""

from __future__ import annotations

import json
import re
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
    """The judge's own statements in a reply."""

    text: str
    """The reply without thoughts."""
    values: tuple[dict[str, Any] | str, ...]
    """In order: objects, and the values of verdict lines and sentences."""
    finding: str = ""
    """From a line "Finding: …"."""


@dataclass(frozen=True)
class _Statement:
    """One statement and its place in the reply."""

    value: dict[str, Any] | str
    span: Span
    outer_span: Span
    """Including the code fence around it."""


# Replies are read without two harmless differences. A comma before a closing bracket is removed: {"verdict": 1,}
_TRAILING_COMMA = re.compile(r",(\s*[}\]])")
# Digits and signs in full width, which Chinese and Japanese models write, become ASCII: "结论：１" is "结论:1".
_FULL_WIDTH_TO_ASCII = str.maketrans("０１２３４５６７８９．－＋：＝＊", "0123456789.-+:=*")


def find_statements(reply: Reply, accept: Accept, call: Call | None = None) -> Statements:
    """Return the judge's own statements: objects that `accept` accepts, verdict lines and verdict sentences.

    The last one ends the reply. Raises NoVerdict if there is none. call: what was answered, with the data.
    """
    if reply.failure is not None or reply.text is None:
        raise NoVerdict(reply.failure or "there is no reply")
    text = remove_thoughts(reply.text)
    text = _TRAILING_COMMA.sub(r"\1", text).translate(_FULL_WIDTH_TO_ASCII)
    if not text.strip():
        raise NoVerdict("the reply is empty")
    if len(text) > _MAX_REPLY_CHARACTERS:
        size = f"{len(text):,} characters, at most {_MAX_REPLY_CHARACTERS:,}"
        raise NoVerdict(f"the reply is too long: {size}")
    data = "" if call is None else _get_data(call)
    all_copied = f"the verdict is copied from the text under judgment: {text}"

    # 1. The usual case: the whole reply is one object.
    value = _parse_whole(text) or _repair_whole(text)
    if value is not None and accept(value):
        if _is_copied(text, value, data):
            raise NoVerdict(all_copied)
        return Statements(text, (value,))

    def select_own(statements: Iterable[_Statement]) -> list[_Statement]:
        own_statements = []
        for statement in statements:
            start, end = statement.span
            if not _is_copied(text[start:end], statement.value, data):
                own_statements.append(statement)
        return own_statements

    # 2. A statement that is not in the data ends the reply. Statements before it must still agree with it.
    if data:
        final = _find_final(text, accept)
        if final is not None and select_own([final]):
            before = text[: final.outer_span[0]]
            earlier = _find_unquoted(before, accept).statements
            return _require_end(text, [*select_own(earlier), final])

    # 3. All statements outside quotations.
    unquoted = _find_unquoted(text, accept)
    if unquoted.has_broken_json:
        raise NoVerdict(f"broken JSON: {text}")
    own_statements = select_own(unquoted.statements)
    if own_statements:
        return _require_end(text, own_statements)

    # There is none: say why.
    if unquoted.statements:
        raise NoVerdict(all_copied)
    if _REFUSAL.search(text[:_MAX_REFUSAL_START]):
        raise NoVerdict(f"{REFUSED}: {text}", declined=True)
    if unquoted.has_quoted_verdict:
        raise NoVerdict(f"the only verdict is in a quotation: {text}")
    raise NoVerdict(f"no verdict in the reply: {text}")


def _require_end(text: str, statements: list[_Statement]) -> Statements:
    """Return the statements; raises NoVerdict unless the last one is alone at the end, or if the reply refuses."""
    start, end = statements[-1].outer_span
    text_after = text[end:]
    if is_refusal(text) or _REFUSAL.search(text_after):
        raise NoVerdict(f"{REFUSED}: {text}", declined=True)
    # Before the last statement, its line may hold another statement, but no other text.
    line_start = text.rfind("\n", 0, start) + 1
    if len(statements) > 1:
        line_start = max(line_start, statements[-2].outer_span[1])
    text_before = text[line_start:start]
    if text_after.strip() or text_before.strip():
        raise NoVerdict(f"no verdict at the end of the reply: {text}")
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
    position = first_tag.start()
    opening_tags = dict(TAGS)
    if first_tag[0] in opening_tags:
        # Thoughts come first: a tag after other text is only mentioned.
        is_mentioned = bool(text[:position].strip())
    else:
        # A closing tag without an opening one: the chat template has put the opening tag into the prompt.
        head = text[:_MAX_REPLY_CHARACTERS]
        fences = _CODE_FENCE.finditer(head)
        quoted = _mark(head, [*find_quotations(head), *(fence.span() for fence in fences)])
        is_mentioned = position < len(head) and bool(quoted[position])
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


def _get_data(call: Call) -> str:
    """Return the text under judgment, normalized. A call that does not name it has it in the messages of the user."""
    data = call.data
    if data is None:
        user_messages = [message for message in call.messages if message["role"] == "user"]
        data = "\n".join(message["content"] for message in user_messages)
    return _normalize(data)


def _normalize(text: str) -> str:
    """Return the text as copies are compared: without white space, case, Markdown and invisible characters."""
    characters = _IGNORED_IN_COPIES.sub("", text.translate(_FULL_WIDTH_TO_ASCII))
    return _TRAILING_COMMA.sub(r"\1", characters.casefold())


def _is_copied(written: str, value: dict[str, Any] | str, data: str) -> bool:
    """Does the data contain a statement word for word, or the end of an object?

    The end is what follows the last free text: `", "finding": "holds", "verdict": 1`. A response can prepare such an
    end: a judge that repeats the response within its own JSON, and is cut off there, completes it.
    written: the statement as it is in the reply. data: normalized; "" if it is not known: nothing counts as copied.
    """
    if not data:
        return False
    if _normalize(written) in data:
        return True
    free_texts = list(_FREE_TEXT_FIELD.finditer(written))
    if not free_texts or isinstance(value, str):
        return False
    # From the closing mark of the text to the last value. The closing brackets are not compared: a judge or a server
    # may have added them to a reply that was cut off.
    closing_mark = free_texts[-1].end("text") - 1
    ending = written[closing_mark:].rstrip(" \t\r\n`~}]")
    return ":" in ending and _normalize(ending) in data


# -------------------------------------------------------------------------------------- 1. the whole reply is an object

# A code fence with its content: "```json\n{}\n```". One that never closes takes the rest of the text.
# Not one: "``` {} ```", which is inline code.
_CODE_FENCE = re.compile(
    r"^[ \t]*(?P<marks>```+|~~~+)[^\n`]*\n(?P<content>.*?)(?:^[ \t]*(?P=marks)[ \t]*$|\Z)",
    re.MULTILINE | re.DOTALL,
)
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


# --------------------------------------------------------------------------------- 2. the statement that ends the reply

# A line that states a verdict or a finding, perhaps in Markdown: "Verdict: 1", "**Final verdict:** 0.5", "最终结论: 1".
# Not one: "The verdict: 1", "Verdict 1".
_LABELLED_LINE = (
    r"^[ \t*_#•-]*(?:final[ \t]+|最终|最后的?)?(?:%s)[ \t*_]*[:=][ \t*_`]*(?P<value>[^\n]*)$"
)
_VERDICT_LINE = re.compile(_LABELLED_LINE % "verdict|结论|判定|裁决", re.MULTILINE | re.IGNORECASE)
_FINDING_LINE = re.compile(_LABELLED_LINE % "finding|发现|判断", re.MULTILINE | re.IGNORECASE)
# A line that opens or closes a code fence: "```json", "~~~". Not one: "``` a ```".
_FENCE_LINE = re.compile(r"[ \t]{0,3}(?P<marks>```+|~~~+)[^\n`]*")
# An object that begins a line: '  {"verdict": 1}'. Four spaces would make it an indented block, which is a quotation.
_OBJECT_LINE = re.compile(r"^[ \t]{0,3}\{", re.MULTILINE)


def _find_final(text: str, accept: Accept) -> _Statement | None:
    """Return the statement that ends the reply: a verdict line, or an object that begins a line; else None.

    Nothing before it is looked at, apart from a code fence around it.
    """
    text = text.rstrip()
    last_line_start = text.rfind("\n") + 1
    verdict_line = _VERDICT_LINE.fullmatch(text, last_line_start)
    if verdict_line is not None:
        span = verdict_line.span()
        return _Statement(verdict_line["value"], span, span)
    closing_fence = _FENCE_LINE.fullmatch(text, last_line_start)
    body = text
    if closing_fence is not None:
        body = text[:last_line_start].rstrip()

    # The object begins one of the lines, and ends the body.
    for line in list(_OBJECT_LINE.finditer(body))[-_MAX_BRACES:]:
        brace = line.end() - 1
        try:
            value, end = _DECODER.raw_decode(body, brace)
        except (ValueError, RecursionError):
            continue
        if end != len(body) or not isinstance(value, dict) or not accept(value):
            continue
        if closing_fence is None:
            return _Statement(value, (brace, end), (brace, end))
        # The line before must open the fence with the marks that close it.
        before = text[: line.start()].removesuffix("\n")
        opening_fence = _FENCE_LINE.fullmatch(before, before.rfind("\n") + 1)
        if opening_fence is None or opening_fence["marks"][0] != closing_fence["marks"][0]:
            return None
        return _Statement(value, (brace, end), (opening_fence.start(), len(text)))
    return None


# --------------------------------------------------------------------------------- 3. all statements outside quotations

# A verdict in a sentence, which must agree with the one at the end: "so the verdict should be 1", "the verdict is A".
# Not one: "the verdict is clear", "the verdict could be 1".
_VERDICT_SENTENCE = re.compile(
    r"\bverdict (?:is|should be|must be) (?:now |therefore )?[*_`]*(?P<value>[-+]?[\d.]+|[AB]\b|tie\b)",
    re.IGNORECASE,
)
# A brace that can only be the beginning of JSON: '{ "'. Not one: "{x}".
_JSON_START = re.compile(r'\{\s*"')


@dataclass(frozen=True)
class _Unquoted:
    """What a reply says outside quotations."""

    statements: list[_Statement]
    """In order."""
    has_quoted_verdict: bool
    """Are there verdicts in quotations, too?"""
    has_broken_json: bool


def _find_unquoted(text: str, accept: Accept) -> _Unquoted:
    """Find all objects with a verdict, verdict lines and verdict sentences outside quotations."""
    fences = list(_CODE_FENCE.finditer(text))
    fenced = _mark(text, (fence.span() for fence in fences))
    quoted = _mark(text, find_quotations(text))
    # An object that is alone in a code fence at the end of the reply is a statement.
    final_fence = None
    if fences and not text[fences[-1].end() :].strip():
        final_fence = fences[-1]

    statements: list[_Statement] = []
    has_quoted_verdict = False
    has_broken_json = False
    for value, (start, end) in _find_objects(text):
        if value is None:
            if not quoted[start] and not fenced[start]:
                has_broken_json = True
                break  # objects after it may be parts of it
            continue
        if not accept(value):
            continue
        outer_span = (start, end)
        is_quoted = quoted[start] or fenced[start]
        if final_fence is not None and start >= final_fence.start("content"):
            is_alone = text[start:end] == final_fence["content"].strip()
            is_quoted = quoted[start] or not is_alone
            outer_span = final_fence.span()
        if is_quoted:
            has_quoted_verdict = True
        else:
            statements.append(_Statement(value, (start, end), outer_span))
    for pattern in (_VERDICT_LINE, _VERDICT_SENTENCE):
        for match in pattern.finditer(text):
            if quoted[match.start()] or fenced[match.start()]:
                has_quoted_verdict = True
            else:
                statements.append(_Statement(match["value"], match.span(), match.span()))
    statements.sort(key=lambda statement: statement.span)
    return _Unquoted(statements, has_quoted_verdict, has_broken_json)


def _find_objects(text: str) -> Iterator[tuple[dict[str, Any] | None, Span]]:
    """Yield all outermost objects with their spans; None for a place where JSON begins and is broken."""
    position = 0
    for _ in range(_MAX_BRACES):
        start = text.find("{", position)
        if start < 0:
            break
        try:
            value, position = _DECODER.raw_decode(text, start)
            yield value, (start, position)
        except (ValueError, RecursionError):
            position = start + 1
            if _JSON_START.match(text, start):
                yield None, (start, position)


# ---------------------------------------------------------------------------------------------------------- quotations

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
    *("“”", "„“", "„”", "‘’", "‚‘", "«»", "»«", "‹›"),
    *("「」", "『』", "《》", "〈〉", "【】"),
)
_OPENING_QUOTES = "“「『«《"  # marks that never close a quotation (but see `is_german`)
# Straight marks look the same at both ends: one opens after these characters or a space, and closes before those.
_BEFORE_OPENING_MARK = "([:,，：。（"
_AFTER_CLOSING_MARK = ".,;:!?)]}，。；：！？）"


def _mark(text: str, spans: Iterable[Span]) -> bytearray:
    """Return for every character of the text whether it is in one of the spans: 1 or 0."""
    marks = bytearray(len(text))
    for start, end in spans:
        marks[start:end] = b"\1" * (end - start)
    return marks


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
        opening, closing = tuple(pair)
        spans += _find_paired_quotes(text, opening, closing)
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
