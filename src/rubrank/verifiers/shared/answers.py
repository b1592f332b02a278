"""Where the result of an answer stands: one layer for every check that knows the truth.

>>> read_answer("<answer>So \\\\boxed{42}</answer>")
AnswerReading(text='42', how='the last \\\\boxed', explicit=True)
>>> read_answer("Six times seven.\\n\\nSo 42.").how
'the last line'

Extractors, tried in this order unless the caller gives another; the first that finds something decides, and of several
places of one kind the last:

    answer_tag   <answer>…</answer>, <final_answer>, [ANSWER]…[/ANSWER]
    solution_tag <solution>…</solution>
    boxed        \\boxed{…}, \\fbox{…}; two of them joined by "or" or a comma are read together
    hash         #### …
    json         the key "answer" (or "final_answer", 答案) of a JSON object
    stated       behind "the answer is", "Answer:", 答案是, la réponse est … (see `statements`)
    last         the only line, or the last one
    whole        the entire answer (only if asked for)

What a tag or a JSON key holds is read again: "<answer>The answer is 42</answer>" gives 42.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias, get_args

from rubrank.verifiers.shared.statements import find_statements

Extractor: TypeAlias = Literal["answer_tag", "solution_tag", "boxed", "hash", "json", "stated", "last", "whole"]
DEFAULT: tuple[Extractor, ...] = ("answer_tag", "solution_tag", "boxed", "hash", "json", "stated", "last")
TAIL = 20_000  # characters at the end of an answer in which its result is looked for
_MOST = 5_000  # characters of a result


@dataclass(frozen=True, slots=True)
class AnswerReading:
    """A result as it stands in the answer, and where; `explicit`: marked as the result, not only the last line."""

    text: str
    how: str
    explicit: bool


def read_answer(text: str, extractors: Sequence[Extractor] = DEFAULT) -> AnswerReading:
    """The result of the answer by the first extractor that finds one; an empty reading if none does."""
    tail = _COMMENT.sub(" ", text[-TAIL:])
    for name in extractors:
        found = _EXTRACTORS[name](tail)
        if found is None:
            continue
        reading = AnswerReading(_undressed(found), _HOW[name], name not in ("last", "whole"))
        return _inner(reading, extractors) if name in ("answer_tag", "solution_tag", "json", "hash") else reading
    return AnswerReading("", f"none of {', '.join(extractors)}", False)


def _inner(outer: AnswerReading, extractors: Sequence[Extractor]) -> AnswerReading:
    """A result marked again inside a tag: the boxed one, or what follows "the answer is"."""
    for name in ("boxed", "hash", "json", "stated"):
        if name in extractors and (found := _EXTRACTORS[name](outer.text)) is not None:
            return AnswerReading(_undressed(found), outer.how if name == "stated" else _HOW[name], True)
    return outer


def _undressed(text: str) -> str:
    """Without Markdown around it, LaTeX's \\text and the like, and a full stop at its end."""
    text = _TEXT.sub(r"\1", text.strip()).strip(_AROUND).rstrip("。｡ ")
    return text if text.endswith(("..", "…")) else text.rstrip(".").strip(_AROUND)


# ---- the extractors ------------------------------------------------------------------------------------------------

_AROUND = " \t\r\n*_#`~\"'“”‘’「」『』"
_COMMENT = re.compile(r"<!--[^>]{0,2000}-->")
_TEXT = re.compile(r"\\(?:text|mathrm|mathbf|textbf|textit|mbox|rm|operatorname)\s*\{([^{}]*)\}")
_OPEN = {
    "answer": re.compile(
        r"<\|?(?:begin_of_)?(?:final[_ -]?)?(?:answer|ans)\|?>|\[(?:FINAL[_ ]?)?ANSWER\]", re.IGNORECASE
    ),
    "solution": re.compile(r"<\|?(?:begin_of_)?solution\|?>", re.IGNORECASE),
}
_CLOSE = {
    "answer": re.compile(
        r"<\|?(?:/|end_of_)(?:final[_ -]?)?(?:answer|ans)\|?>|\[/(?:FINAL[_ ]?)?ANSWER\]", re.IGNORECASE
    ),
    "solution": re.compile(r"<\|?(?:/|end_of_)solution\|?>", re.IGNORECASE),
}


def _tagged(kind: str) -> Callable[[str], str | None]:
    def extract(text: str) -> str | None:
        start = _last(_OPEN[kind], text)
        if start is None:
            return None
        end = _CLOSE[kind].search(text, start.end())
        return text[start.end() : end.start() if end else len(text)].strip()

    return extract


def _last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    return next(iter(deque(pattern.finditer(text), maxlen=1)), None)


_BOX = re.compile(r"\\(?:boxed|fbox|framebox)\s*(?:\{|(-?\w[\w.,]*))")
_JOINED = re.compile(
    r"[\s$,;、，]*(?:or|and|and/or|或者?|和|oder|und|ou|et|y|e|o|или|и|\\text\{ ?(?:or|and) ?\}|/)?[\s$]*",
    re.IGNORECASE,
)


def boxed(text: str) -> str | None:
    """What is in the last \\boxed{…}, its braces balanced; with the ones before it that only "or" or a comma joins."""
    boxes = list(_BOX.finditer(text))
    while boxes and (last := _inside(text, boxes[-1])) is None:
        boxes.pop()  # it never closes
    if not boxes or last is None:
        return None
    parts, start = [last[0]], boxes[-1].start()
    for box in reversed(boxes[:-1]):
        before = _inside(text, box)
        between = text[before[1] : start] if before else ""
        if before is None or before[1] > start or len(between) > 30 or not _JOINED.fullmatch(between):
            break
        joint = between.strip(" $\n") or ","
        parts[:0], start = [before[0], joint], box.start()
    return " ".join(parts)


def _inside(text: str, box: re.Match[str]) -> tuple[str, int] | None:
    """What the box holds and where it ends; None if it never closes."""
    if box[1]:
        return box[1], box.end()
    depth = 1
    for i in range(box.end(), min(len(text), box.end() + _MOST)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return _TEXT.sub(r"\1", text[box.end() : i]).strip(), i + 1
    return None


_HASH = re.compile(r"(?:^|\n|(?<=\s))####(?!#)[ \t]*([^\n]*)")


def _hash(text: str) -> str | None:
    """What stands behind the last ####; a heading of that depth that names no result is none."""
    found = _last(_HASH, text)
    if found is None:
        return None
    line = found[1].strip()
    later = text[found.end() :].strip()
    # "#### Step 2" is a heading: GSM8K's mark ends the answer.
    return line if line and not (later and len(later) > 200) and not line.rstrip("*_ ").endswith((":", "：")) else None


_KEY = re.compile(
    r"[{,]\s*[\"'](?:final[_ ]?)?(?:answer|result|solution|choice|答案|最终答案|réponse|respuesta|antwort)[\"']\s*:\s*",
    re.IGNORECASE,
)
_LITERAL = re.compile(r"'([^'\n]*)'|([^\s,}\]]+)")


def _json(text: str) -> str | None:
    found = _last(_KEY, text)
    if found is None:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(text[found.end() : found.end() + _MOST])
    except (ValueError, RecursionError):
        literal = _LITERAL.match(text, found.end())
        return (literal[1] if literal[1] is not None else literal[2]) if literal else None
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _stated(text: str) -> str | None:
    """The line behind the last statement, or the next one that says something."""
    for end in reversed(find_statements(text)):
        lines = (line for line in text[end:].split("\n", 8)[:8] if any(map(str.isalnum, line)))
        if line := next(lines, ""):
            return line[:_MOST].lstrip("> ")
    return None


def _last_line(text: str) -> str | None:
    lines = [line for line in text.splitlines() if any(map(str.isalnum, line))] or [text]
    return lines[-1].strip()[-_MOST:].lstrip("> ") or None


_EXTRACTORS: dict[Extractor, Callable[[str], str | None]] = {
    "answer_tag": _tagged("answer"),
    "solution_tag": _tagged("solution"),
    "boxed": boxed,
    "hash": _hash,
    "json": _json,
    "stated": _stated,
    "last": _last_line,
    "whole": lambda text: text.strip() or None,
}
_HOW: dict[Extractor, str] = {
    "answer_tag": "the last <answer>",
    "solution_tag": "the last <solution>",
    "boxed": "the last \\boxed",
    "hash": "the last ####",
    "json": "the JSON key",
    "stated": "the last statement",
    "last": "the last line",
    "whole": "the whole answer",
}
assert set(_EXTRACTORS) == set(_HOW) == set(get_args(Extractor))
