"""Finds the result in an answer, for every verifier that compares it with a known truth.

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
    stated       after "the answer is", "Answer:", 答案是, la réponse est … (see `statements`)
    last         the only line, or the last one
    whole        the entire answer (only if asked for)

What a tag or a JSON key holds is read again: "<answer>The answer is 42</answer>" gives 42.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from rubrank.verifiers.shared.statements import find_statements

Extractor: TypeAlias = Literal[
    "answer_tag", "solution_tag", "boxed", "hash", "json", "stated", "last", "whole"
]
DEFAULT: tuple[Extractor, ...] = (
    "answer_tag",
    "solution_tag",
    "boxed",
    "hash",
    "json",
    "stated",
    "last",
)
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
        result = _EXTRACTORS[name](tail)
        if result is None:
            continue
        reading = AnswerReading(_strip_markup(result), _HOW[name], name not in ("last", "whole"))
        if name in ("answer_tag", "solution_tag", "json", "hash"):
            return _read_again(reading, extractors)
        return reading
    return AnswerReading("", f"none of {', '.join(extractors)}", False)


def _read_again(outer: AnswerReading, extractors: Sequence[Extractor]) -> AnswerReading:
    """The result that is marked once more inside a tag (boxed, after "the answer is"), else the tag's content."""
    for name in ("boxed", "hash", "json", "stated"):
        result = _EXTRACTORS[name](outer.text) if name in extractors else None
        if result is not None:
            return AnswerReading(
                _strip_markup(result), outer.how if name == "stated" else _HOW[name], True
            )
    return outer


def _strip_markup(text: str) -> str:
    """The text without Markdown around it, LaTeX's \\text and the like, and a full stop at its end."""
    text = _TEXT.sub(r"\1", text.strip()).strip(_AROUND).rstrip("。｡ ")
    if text.endswith(("..", "…")):
        return text
    return text.rstrip(".").strip(_AROUND)


# ---- the extractors ------------------------------------------------------------------------------------------------

_AROUND = " \t\r\n*_#`~\"'“”‘’「」『』"
_COMMENT = re.compile(r"<!--[^>]{0,2000}-->")
_TEXT = re.compile(r"\\(?:text|mathrm|mathbf|textbf|textit|mbox|rm|operatorname)\s*\{([^{}]*)\}")
_OPEN = {
    "answer": re.compile(
        r"<\|?(?:begin_of_)?(?:final[_ -]?)?(?:answer|ans)\|?>|\[(?:FINAL[_ ]?)?ANSWER\]",
        re.IGNORECASE,
    ),
    "solution": re.compile(r"<\|?(?:begin_of_)?solution\|?>", re.IGNORECASE),
}
_CLOSE = {
    "answer": re.compile(
        r"<\|?(?:/|end_of_)(?:final[_ -]?)?(?:answer|ans)\|?>|\[/(?:FINAL[_ ]?)?ANSWER\]",
        re.IGNORECASE,
    ),
    "solution": re.compile(r"<\|?(?:/|end_of_)solution\|?>", re.IGNORECASE),
}


def _find_in_tag(text: str, kind: str) -> str | None:
    start = _find_last(_OPEN[kind], text)
    if start is None:
        return None
    end = _CLOSE[kind].search(text, start.end())
    return text[start.end() : end.start() if end else len(text)].strip()


def _find_last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    last = None
    for match in pattern.finditer(text):
        last = match
    return last


_MOST_BOXES = 100  # at the end of the answer: one that never closes is read to its end each time
_BOX = re.compile(r"\\(?:boxed|fbox|framebox)\s*(?:\{|(-?\w[\w.,]*))")
_JOINED = re.compile(
    r"[\s$,;、，]*(?:or|and|and/or|或者?|和|oder|und|ou|et|y|e|o|или|и|\\text\{ ?(?:or|and) ?\}|/)?[\s$]*",
    re.IGNORECASE,
)


def _find_boxed(text: str) -> str | None:
    """The content of the last \\boxed{…}, together with boxes before it that "or" or a comma joins to it."""
    parts: list[str] = []
    start = 0  # of the first box that is read so far
    for box in reversed(list(_BOX.finditer(text))[-_MOST_BOXES:]):
        content = _read_box(text, box)
        if not parts:
            if content is None:
                continue  # it never closes
            parts = [content[0]]
        else:
            if content is None or content[1] > start:
                break
            between = text[content[1] : start]
            if len(between) > 30 or not _JOINED.fullmatch(between):
                break
            parts = [content[0], between.strip(" $\n") or ",", *parts]
        start = box.start()
    return " ".join(parts) if parts else None


def _read_box(text: str, box: re.Match[str]) -> tuple[str, int] | None:
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


def _find_after_hash(text: str) -> str | None:
    """The text after the last ####; None if that is a heading and no result."""
    mark = _find_last(_HASH, text)
    if mark is None:
        return None
    line = mark[1].strip()
    # "#### Step 2" is a heading, with text below it: GSM8K's mark ends the answer.
    is_heading = len(text[mark.end() :].strip()) > 200 or line.rstrip("*_ ").endswith((":", "："))
    return line if line and not is_heading else None


_KEY = re.compile(
    r"[{,]\s*[\"'](?:final[_ ]?)?(?:answer|result|solution|choice|答案|最终答案|réponse|respuesta|antwort)[\"']\s*:\s*",
    re.IGNORECASE,
)
_LITERAL = re.compile(r"'([^'\n]*)'|([^\s,}\]]+)")


def _find_in_json(text: str) -> str | None:
    key = _find_last(_KEY, text)
    if key is None:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(text[key.end() : key.end() + _MOST])
    except (ValueError, RecursionError):  # Python's quotes, or no quotes
        literal = _LITERAL.match(text, key.end())
        if literal is None:
            return None
        return literal[2] if literal[1] is None else literal[1]
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _find_stated(text: str) -> str | None:
    """The rest of the line after the last statement, or the next line with words."""
    for end in reversed(find_statements(text)):
        for line in text[end:].split("\n", 8)[:8]:
            if any(map(str.isalnum, line)):
                return line[:_MOST].lstrip("> ")
    return None


def _find_last_line(text: str) -> str | None:
    lines = [line for line in text.splitlines() if any(map(str.isalnum, line))] or [text]
    return lines[-1].strip()[-_MOST:].lstrip("> ") or None


_EXTRACTORS: dict[Extractor, Callable[[str], str | None]] = {
    "answer_tag": lambda text: _find_in_tag(text, "answer"),
    "solution_tag": lambda text: _find_in_tag(text, "solution"),
    "boxed": _find_boxed,
    "hash": _find_after_hash,
    "json": _find_in_json,
    "stated": _find_stated,
    "last": _find_last_line,
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
