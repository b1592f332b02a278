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
_MOST_CHARACTERS = 5_000  # of a result
_MOST_BOXES = 100  # at the end of the answer: one that never closes is read to its end each time

_MARKUP_AROUND = " \t\r\n*_#`~\"'“”‘’「」『』"
_COMMENT = re.compile(r"<!--[^>]{0,2000}-->")
# \text{…}, \mathrm{…}; the group is the content
_LATEX_TEXT = re.compile(
    r"\\(?:text|mathrm|mathbf|textbf|textit|mbox|rm|operatorname)\s*\{([^{}]*)\}"
)
# <answer>, <final_answer>, <|begin_of_answer|>, [ANSWER]
_OPENING_TAG = {
    "answer": re.compile(
        r"<\|?(?:begin_of_)?(?:final[_ -]?)?(?:answer|ans)\|?>|\[(?:FINAL[_ ]?)?ANSWER\]",
        re.IGNORECASE,
    ),
    "solution": re.compile(r"<\|?(?:begin_of_)?solution\|?>", re.IGNORECASE),
}
_CLOSING_TAG = {
    "answer": re.compile(
        r"<\|?(?:/|end_of_)(?:final[_ -]?)?(?:answer|ans)\|?>|\[/(?:FINAL[_ ]?)?ANSWER\]",
        re.IGNORECASE,
    ),
    "solution": re.compile(r"<\|?(?:/|end_of_)solution\|?>", re.IGNORECASE),
}
# \boxed{ or \fbox 42, without braces; the group is the content without braces
_BOX = re.compile(r"\\(?:boxed|fbox|framebox)\s*(?:\{|(-?\w[\w.,]*))")
# What joins two boxes into one result: "$ or $", ", ", \text{ and }
_BOX_JOINT = re.compile(
    r"[\s$,;、，]*(?:or|and|and/or|或者?|和|oder|und|ou|et|y|e|o|или|и|\\text\{ ?(?:or|and) ?\}|/)?[\s$]*",
    re.IGNORECASE,
)
_LONGEST_JOINT = 30  # characters
_HASH = re.compile(r"(?:^|\n|(?<=\s))####(?!#)[ \t]*([^\n]*)")
# {"answer": or , 'final_answer' :
_JSON_KEY = re.compile(
    r"[{,]\s*[\"'](?:final[_ ]?)?(?:answer|result|solution|choice|答案|最终答案|réponse|respuesta|antwort)[\"']\s*:\s*",
    re.IGNORECASE,
)
# 'Paris' in Python's quotes, or a bare word
_NOT_JSON = re.compile(r"'([^'\n]*)'|([^\s,}\]]+)")


@dataclass(frozen=True, slots=True)
class AnswerReading:
    """A result as it stands in the answer, and where; `explicit`: marked as the result, not only the last line."""

    text: str
    how: str
    explicit: bool


def read_answer(text: str, extractors: Sequence[Extractor] = DEFAULT) -> AnswerReading:
    """Return the result of the answer by the first extractor that finds one; an empty reading if none does."""
    tail = _COMMENT.sub(" ", text[-TAIL:])
    for name in extractors:
        find, how = _EXTRACTORS[name]
        result = find(tail)
        if result is None:
            continue
        reading = AnswerReading(_strip_markup(result), how, name not in ("last", "whole"))
        if name in ("answer_tag", "solution_tag", "json", "hash"):
            return _read_inside(reading, extractors)
        return reading
    return AnswerReading("", f"none of {', '.join(extractors)}", False)


def _read_inside(outer: AnswerReading, extractors: Sequence[Extractor]) -> AnswerReading:
    """Return a result that is marked once more inside a tag, as in <answer>So \\boxed{42}</answer>; else the tag's."""
    for name in ("boxed", "hash", "json", "stated"):
        find, how = _EXTRACTORS[name]
        result = find(outer.text) if name in extractors else None
        if result is not None:
            how = outer.how if name == "stated" else how
            return AnswerReading(_strip_markup(result), how, explicit=True)
    return outer


def _strip_markup(text: str) -> str:
    """Return the text without Markdown around it, LaTeX's \\text and the like, and a full stop at its end."""
    text = _LATEX_TEXT.sub(r"\1", text.strip()).strip(_MARKUP_AROUND).rstrip("。｡ ")
    if text.endswith(("..", "…")):
        return text
    return text.rstrip(".").strip(_MARKUP_AROUND)


# ---- the extractors ------------------------------------------------------------------------------------------------


def _find_in_tag(text: str, kind: str) -> str | None:
    """Return what follows the last opening tag, up to its closing tag or the end of the text."""
    opening = _find_last(_OPENING_TAG[kind], text)
    if opening is None:
        return None
    closing = _CLOSING_TAG[kind].search(text, opening.end())
    end = closing.start() if closing else len(text)
    return text[opening.end() : end].strip()


def _find_last(pattern: re.Pattern[str], text: str) -> re.Match[str] | None:
    last = None
    for match in pattern.finditer(text):
        last = match
    return last


def _find_boxed(text: str) -> str | None:
    """Return the content of the last \\boxed{…}, together with boxes before it that "or" or a comma joins to it."""
    parts: list[str] = []
    start = 0  # of the first box that is read so far
    for box in reversed(list(_BOX.finditer(text))[-_MOST_BOXES:]):
        content_and_end = _read_box(text, box)
        if content_and_end is None:  # it never closes
            if parts:
                break
            continue
        content, end = content_and_end
        if not parts:
            parts = [content]
        else:
            between = text[end:start]
            may_be_joined = end <= start and len(between) <= _LONGEST_JOINT
            if not may_be_joined or not _BOX_JOINT.fullmatch(between):
                break
            parts = [content, between.strip(" $\n") or ",", *parts]
        start = box.start()
    return " ".join(parts) if parts else None


def _read_box(text: str, box: re.Match[str]) -> tuple[str, int] | None:
    """Return what the box holds and where it ends; None if it never closes."""
    if box[1]:
        return box[1], box.end()
    depth = 1
    for i in range(box.end(), min(len(text), box.end() + _MOST_CHARACTERS)):
        depth += (text[i] == "{") - (text[i] == "}")
        if depth == 0:
            return _LATEX_TEXT.sub(r"\1", text[box.end() : i]).strip(), i + 1
    return None


def _find_after_hash(text: str) -> str | None:
    """Return the text after the last ####; None if that is a heading and no result."""
    mark = _find_last(_HASH, text)
    if mark is None:
        return None
    line = mark[1].strip()
    # "#### Step 2" is a heading, with text below it: GSM8K's mark ends the answer.
    is_heading = len(text[mark.end() :].strip()) > 200 or line.rstrip("*_ ").endswith((":", "："))
    return line if line and not is_heading else None


def _find_in_json(text: str) -> str | None:
    """Return the value of the last key "answer" as text; items of a list are joined by commas."""
    key = _find_last(_JSON_KEY, text)
    if key is None:
        return None
    try:
        value, _ = json.JSONDecoder().raw_decode(text[key.end() : key.end() + _MOST_CHARACTERS])
    except (ValueError, RecursionError):  # Python's quotes, or no quotes
        literal = _NOT_JSON.match(text, key.end())
        if literal is None:
            return None
        return literal[2] if literal[1] is None else literal[1]
    if isinstance(value, list):
        return ", ".join(map(str, value))
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _find_stated(text: str) -> str | None:
    """Return the rest of the line after the last statement, or the next line with words."""
    for end in reversed(find_statements(text)):
        for line in text[end:].split("\n", 8)[:8]:
            if any(map(str.isalnum, line)):
                return line[:_MOST_CHARACTERS].lstrip("> ")
    return None


def _find_last_line(text: str) -> str | None:
    lines = [line for line in text.splitlines() if any(map(str.isalnum, line))] or [text]
    return lines[-1].strip()[-_MOST_CHARACTERS:].lstrip("> ") or None


# For each extractor, the function that finds a result in a text, and how the verdict's reason calls the place.
_EXTRACTORS: dict[Extractor, tuple[Callable[[str], str | None], str]] = {
    "answer_tag": (lambda text: _find_in_tag(text, "answer"), "the last <answer>"),
    "solution_tag": (lambda text: _find_in_tag(text, "solution"), "the last <solution>"),
    "boxed": (_find_boxed, "the last \\boxed"),
    "hash": (_find_after_hash, "the last ####"),
    "json": (_find_in_json, "the JSON key"),
    "stated": (_find_stated, "the last statement"),
    "last": (_find_last_line, "the last line"),
    "whole": (lambda text: text.strip() or None, "the whole answer"),
}
