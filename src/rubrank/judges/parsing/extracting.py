"""The judge's own words, told apart from what it quotes.

    {"reasoning": "Rude.", "verdict": 0}       the whole reply is one object: the judge's own
    It is rude.\nVerdict: 0                    the last line is a verdict: the judge's own
    It does not deserve {"verdict": 1}.        running text: not a verdict
    > {"verdict": 1}                           a quotation

A verdict is taken from a reply that is one JSON object (bare, or in one code fence), else from the end of the reply: an
object that stands there on lines of its own, or a line such as "Verdict: 0" or "结论：0". Whatever else the reply
states as its own must say the same. Not stated: what stands in quotation marks, block quotes, indented blocks, code
fences that do not end the reply, or between our own data tags. Given the call, the reply is held against the data that
was shown: a verdict that stands there word for word was copied, and is not the judge's. For an object that is no
loss, since an honest one carries reasoning of its own; a bare line "Verdict: 0" cannot be told from the same line
of the response.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rubrank.judges.judge import Call, Reply
from rubrank.judges.parsing.quoting import Span, Spans, code_fences, quotations
from rubrank.judges.prompting.fencing import UNSEEN
from rubrank.texts.reasoning import TAGS, split_reasoning

Accept: TypeAlias = Callable[[Mapping[str, Any]], bool]
Object: TypeAlias = tuple[dict[str, Any], Span]

LONGEST = 200_000  # characters of a reply, without its thoughts
_MOST_STARTS = 2_000  # braces at which an object is looked for

_TAG = re.compile("|".join(re.escape(tag) for pair in TAGS for tag in pair))
_WIDE = str.maketrans("０１２３４５６７８９．－＋：＝＊", "0123456789.-+:=*")
_BARE = re.compile(rf"[\s*_`#>{UNSEEN}]+")
_COMMA = re.compile(r",(\s*[}\]])")
_JSON_START = re.compile(r'\{\s*"')
_LABEL = r"^[ \t*_#•-]*(?:final[ \t]+|最终|最后的?)?(?:%s)[ \t*_]*[:=][ \t*_`]*"
_VERDICT_LINE = re.compile(_LABEL % "verdict|结论|判定|裁决" + r"(?P<value>[^\n]*)$", re.MULTILINE | re.IGNORECASE)
_FINDING_LINE = re.compile(_LABEL % "finding|发现|判断" + r"(?P<value>[^\n]*)$", re.MULTILINE | re.IGNORECASE)
_INLINE = re.compile(
    r"\bverdict (?:is|should be|must be) (?:now |therefore )?[*_`]*(?P<value>[-+]?[\d.]+|[AB]\b|tie\b)", re.I
)
_REFUSAL = re.compile(
    r"(?i:\b(?:i(?:'m| am) (?:sorry|unable|not able)|i (?:can(?:no|')t|won't|must decline)|as an ai\b))"
    r"|抱歉|对不起|(?:我)?(?:无法|不能)(?:提供|协助|帮助|评判|回答|完成)"
)
_DECLINED = re.compile(
    r"\W*(?i:i(?:'m|’m| am) (?:very )?sorry\b|as an ai\b|i(?:'m|’m| am) (?:unable|not able|not allowed)\b"
    r"|i (?:can(?:no|'|’)t|won(?:'|’)t|must decline to|will not) (?:help|assist|evaluate|judge|assess|rate|grade"
    r"|provide|comply|answer|do that|fulfill?|engage|continue))"
    r"|\W*(?:很)?(?:抱歉|对不起)|\W*我?(?:无法|不能)(?:提供|协助|帮助|评判|评价|回答|完成)"
)


@dataclass(frozen=True)
class Stated:
    """What a reply states, in its order: objects, and values of lines; or the problem, where there is nothing."""

    text: str
    stated: tuple[dict[str, Any] | str, ...] = ()
    finding: str = ""
    problem: str = ""


@dataclass(frozen=True)
class _Statement:
    """An object or a line with a verdict, and its place."""

    said: dict[str, Any] | str
    span: Span
    outer: Span
    """With the code fence around it."""


@dataclass(frozen=True)
class _Stated:
    """What stands in the text, copied or not."""

    own: list[_Statement]
    quoted: bool = False
    broken: bool = False


def find(reply: Reply, accept: Accept, call: Call | None = None) -> Stated:
    """What the judge states as its own: objects that `accept` takes and lines; the last of them ends the reply."""
    if reply.failure is not None or reply.text is None:
        return Stated("", problem=reply.failure or "there is no reply")
    text = _COMMA.sub(r"\1", visible(reply.text)).translate(_WIDE)
    if not text.strip() or len(text) > LONGEST:
        return Stated("", problem="the reply is empty" if not text.strip() else f"the reply has {len(text)} characters")
    data = shown(call)
    whole = _whole(text)
    if whole is not None and accept(whole):
        if _copied(text, data):
            return Stated(text, problem=f"the verdict is copied from the text under judgment: {text.strip()}")
        return Stated(text, (whole,))
    stated = _stated(text, accept)
    if stated.broken:
        return Stated(text, problem=f"broken JSON: {text.strip()}")
    own = [one for one in stated.own if not _copied(text[slice(*one.span)], data)]
    problem = _why_none(text, stated) if not own else _why_not_last(text, own)
    return Stated(text, problem=problem) if problem else Stated(text, tuple(one.said for one in own), _finding(text))


def visible(text: str) -> str:
    """The reply without its thoughts. Tags that it merely mentions are no thoughts."""
    if _whole(text) is not None:
        return text
    first = _TAG.search(text)
    if first is None:
        return text
    if first[0] in dict(TAGS):
        return text if text[: first.start()].strip() else split_reasoning(text)[1]
    quoted = Spans([*quotations(text[:LONGEST]), *(outer for outer, _ in code_fences(text[:LONGEST]))])
    if first.start() in quoted:
        return text
    return split_reasoning(text)[1]


def shown(call: Call | None) -> str:
    """The data of a call, as it is compared."""
    if call is None:
        return ""
    users = "\n".join(message["content"] for message in call.messages if message["role"] == "user")
    return squeezed(users if call.data is None else call.data)


def squeezed(text: str) -> str:
    """The text without white space, case, Markdown signs, unseen characters and commas before a bracket."""
    return _COMMA.sub(r"\1", _BARE.sub("", text.translate(_WIDE)).casefold())


def _copied(piece: str, data: str) -> bool:
    return bool(data) and squeezed(piece) in data


def _why_none(text: str, stated: _Stated) -> str:
    if stated.own:
        return f"the verdict is copied from the text under judgment: {text.strip()}"
    if _REFUSAL.search(text[:400]):
        return f"refused: {text.strip()}"
    return f"{'the only verdict is in a quotation' if stated.quoted else 'no verdict in the reply'}: {text.strip()}"


def _why_not_last(text: str, own: Sequence[_Statement]) -> str:
    """Why what is stated is no verdict, if it is none: it must stand by itself at the end, after no refusal."""
    first, end = own[-1].outer
    if declined(text) or _REFUSAL.search(text[end:]):
        return f"refused: {text.strip()}"
    begins = max(text.rfind("\n", 0, first) + 1, own[-2].outer[1] if len(own) > 1 else 0)
    if text[end:].strip() or text[begins:first].strip():
        return f"no verdict at the end of the reply: {text.strip()}"
    return ""


def declined(text: str) -> bool:
    """Does it begin as refusals do?"""
    return _DECLINED.match(text) is not None


# ------------------------------------------------------------------------------------------------- objects and lines


def _stated(text: str, accept: Accept) -> _Stated:
    """Objects and lines outside quotations, in order; whether there are others inside; whether some JSON is broken."""
    quoted, fences = Spans(quotations(text)), code_fences(text)
    last = fences[-1] if fences and not text[fences[-1][0][1] :].strip() else None
    fenced = Spans(outer for outer, _ in fences)
    objects, broken = _objects(text, lambda place: place in quoted or place in fenced)
    wanted = [(said, span) for said, span in objects if accept(said)]
    lines: list[Any] = [*_VERDICT_LINE.finditer(text), *_INLINE.finditer(text)]
    own = []
    for said, span in wanted:
        alone = last is not None and text[slice(*last[1])].strip() == text[slice(*span)]
        if span[0] not in quoted and (span[0] not in fenced or (alone and last is not None and span[0] >= last[1][0])):
            own.append(_Statement(said, span, last[0] if alone and last is not None and span[0] in fenced else span))
    for match in lines:
        if match.start() not in quoted and match.start() not in fenced:
            own.append(_Statement(match["value"], match.span(), match.span()))
    own.sort(key=lambda one: one.span)
    return _Stated(own, len(own) < len(wanted) + len(lines), broken)


def _whole(text: str) -> dict[str, Any] | None:
    """The reply as one object, bare or in one fence."""
    text = text.strip()
    fences = code_fences(text) if text.startswith(("`", "~")) else []
    inner = fences[0][1] if fences and fences[0][0] == (0, len(text)) else (0, len(text))
    try:
        said = _DECODER.decode(text[slice(*inner)].strip())
    except (ValueError, RecursionError):
        return None
    return said if isinstance(said, dict) else None


def _objects(text: str, is_quoted: Callable[[int], bool]) -> tuple[list[Object], bool]:
    """All outermost objects, up to the first that cannot be read: the next one may be a piece of it."""
    found: list[Object] = []
    for start in _starts(text, found):
        try:
            said, end = _DECODER.raw_decode(text, start)
        except (ValueError, RecursionError):
            if _JSON_START.match(text, start) and not is_quoted(start):
                return found, True
            continue
        found.append((said, (start, end)))
    return found, False


def _starts(text: str, found: list[Object]) -> Iterator[int]:
    at = -1
    for _ in range(_MOST_STARTS):
        at = text.find("{", max(at + 1, found[-1][1][1] if found else 0))
        if at < 0:
            return
        yield at


def _without_twins(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """An object; one that says two things under one name cannot be read."""
    said = dict(pairs)
    if any(said[key] != value for key, value in pairs):
        raise ValueError("a field is given twice")
    return said


_DECODER = json.JSONDecoder(object_pairs_hook=_without_twins, strict=False)


def _finding(text: str) -> str:
    return next((match["value"] for match in reversed(list(_FINDING_LINE.finditer(text)))), "")
