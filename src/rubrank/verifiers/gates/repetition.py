"""RepeatSegment: does the answer go round in circles (1 = fine, 0 = the reward is stopped)?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Annotated

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import HAN, has_fence, is_rule, split_code
from rubrank.texts.sentences import split_sentences
from rubrank.verifiers.shared.relation import Share
from rubrank.verifiers.shared.repeats import Repeat, asks_to_repeat, find_repeats
from rubrank.verifiers.verifier import BINARY, Answer, verifier

_TABLE = re.compile(r"[ \t]*\|")
_SHORTEST = 16  # characters of a repeat that can matter, given the least `least_length`
_LINE = re.compile(r"^[\s\d.)(、*_#>•·-]+")
_NUMERAL = "一二三四五六七八九十百千零〇两"
_COUNTER = re.compile(
    rf"\d+(?:\.\d+)*|第[{_NUMERAL}]+|[①-⑳]|(?<=[^\W\d_] )(?:one|two|three|four|five|six|seven|eight|nine|ten"
    rf"|eleven|twelve)\b"
    r"|\b(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth)\b",
    re.IGNORECASE,
)
_MANY_ENTRIES, _MANY_ROWS, _MANY_CODE_LINES = 12, 12, 25
_MANY_BREAKS = re.compile(r"(?:[ \t\r\xa0\u3000]*\n){100}")
_MANY_SPACES = re.compile(r"[ \t\xa0\u3000]{2000}")


@verifier("RepeatSegment", family="gate", domain=BINARY, version=2, layer="global_quality")
def repeat_segment(
    rollout: Rollout,
    *,
    most_times: Annotated[int, Field(ge=2)] = 4,
    least_length: Annotated[int, Field(ge=20)] = 100,
    most_copied: Share = 0.45,
    refrains: tuple[str, ...] = (),
) -> Answer:
    """The answer does not go round in circles.

    Fails: a segment of any length (also of Chinese) repeated in a row more than `most_times` times over at least
    `least_length` characters (Chinese counts double); more than `most_copied` of the prose being long copies of what
    was said before; most lines of a list being the same; twelve sentences or entries in a row that differ in a
    counter only ("Step 7: …"); a dozen such rows of a table, 25 such lines of code; a hundred empty lines. Passes:
    tables, code, rules, lists of alike entries, a chorus between verses, `refrains` given as parameters, and
    repetition that the prompt asks for ("say it 20 times"). Not covered: the same thought in other words.
    """
    prose, whole = _loopable(rollout.answer, refrains), rollout.answer
    asked = asks_to_repeat(rollout.question)
    repeats = find_repeats(prose, least=_SHORTEST)
    for repeat in repeats:
        if _is_loop(prose, repeat, most_times * (25 if asked else 1), least_length):
            return False, _describe(prose, repeat)
    if _is_empty_at_length(whole):
        return False, "empty lines without end"
    if asked:
        return True, "repetition was asked for"
    copied = _copied(prose, repeats)
    if copied > 150 and copied > most_copied * len(prose):
        return False, f"{copied / len(prose):.0%} of the text was said before"
    if _same_lines(prose):
        return False, "most lines are the same"
    if counted := _counting(whole, prose):
        return False, counted
    return _code_loop(whole, len(prose))


def _is_empty_at_length(text: str) -> bool:
    """A hundred empty lines, or thousands of spaces; counting characters tells of most texts that it is not so."""
    if "\n" not in text:
        return False
    breaks, spaces = text.count("\n") >= 100, sum(map(text.count, " \t\xa0\u3000")) >= 2000
    return bool((breaks and _MANY_BREAKS.search(text)) or (spaces and _MANY_SPACES.search(text)))


def _loopable(answer: str, refrains: tuple[str, ...]) -> str:
    """Prose with single spaces; tables, code and refrains left out."""
    lines = split_code(answer)[0] if has_fence(answer) else answer.splitlines()
    text = "\n".join(" ".join(line.split()) for line in lines if not _is_table_or_rule(line) and line.strip())
    for refrain in refrains:
        text = text.replace(" ".join(refrain.split()), "") if refrain.strip() else text
    return text


def _is_table_or_rule(line: str) -> bool:
    first = line.lstrip(" \t")[:1]
    return first == "|" or (first in _RULED and is_rule(line))


_RULED = frozenset("*-_=")  # how a rule begins: few lines need a pattern


def _size(text: str) -> int:
    return len(text) + len(re.findall(f"[{HAN}]", text))


def _is_loop(text: str, repeat: Repeat, most: int, least: int) -> bool:
    span = repeat.length + repeat.distance
    if repeat.times <= most or span * 2 < least:
        return False
    period = text[repeat.start : repeat.start + repeat.distance]
    if not any(c.isalnum() for c in period):  # dots, dashes, blanks to fill in, emoji
        return span > 10 * least
    digits = sum(c.isdigit() for c in period)
    floor = 3 * least if 2 * digits >= sum(c.isalnum() for c in period) else least  # 1/3 = 0.333…
    return _size(text[repeat.start - repeat.distance : repeat.start + repeat.length]) >= floor


def _describe(text: str, repeat: Repeat) -> str:
    segment = text[repeat.start : repeat.start + repeat.distance]
    return f"a segment of {repeat.distance} characters stands {int(repeat.times)} times in a row: {segment[:40]!r}"


def _copied(text: str, repeats: list[Repeat]) -> int:
    """Characters in copies as long as a sentence."""
    return sum(
        r.length for r in repeats if r.length >= 60 or (r.length >= 30 and _size(text[r.start : r.start + 30]) > 45)
    )


def _same_lines(text: str) -> bool:
    lines = [_LINE.sub("", line) for line in text.splitlines()]
    lines = [line for line in lines if len(line) > 2]
    return len(lines) >= 12 and len(set(lines)) <= 0.3 * len(lines)


def _counting(answer: str, prose: str) -> str | None:
    """What goes on with nothing but a counter changing: entries, sentences, rows of a table, lines of code."""
    if len(answer) < 100:
        return None
    counts = _may_count(prose)  # what is the same without any number is a loop, and was found before
    kinds: list[tuple[str, Iterable[str], int]] = [
        ("lines", prose.splitlines() if counts else (), _MANY_ENTRIES),
        ("rows", (line for line in answer.splitlines() if _TABLE.match(line)) if "|" in answer else (), _MANY_ROWS),
        ("sentences", split_sentences(prose) if counts and prose.count("\n") < 10 else (), _MANY_ENTRIES),
        ("lines of code", _code_lines(answer), _MANY_CODE_LINES),
    ]
    for what, units, most in kinds:
        for key, n in _rows_of_alike(units, most):
            if _letters(key) >= (5 if most == _MANY_CODE_LINES else 8):
                return f"{n} {what} in a row that differ in a number at most: {key[:40]!r}"
    return None


def _rows_of_alike(units: Iterable[str], most: int) -> Iterator[tuple[str, int]]:
    """What stands at least so often in a row, but for a counter, and how often."""
    for _, near in groupby(units, key=_spaces):  # a counter has no space: few units are left to look at closely
        some = [*near]
        for key, alike in groupby(some, key=_uncounted) if len(some) >= most else ():
            if (n := sum(1 for _ in alike)) >= most:
                yield key, n


def _spaces(unit: str) -> int:
    return unit.strip().count(" ")


def _may_count(prose: str) -> bool:
    """Are there a dozen digits, or numerals?"""
    return "第" in prose or " two" in prose or "①" in prose or sum(map(prose.count, "123456789")) >= _MANY_ENTRIES


def _uncounted(unit: str) -> str:
    """The line without its first number, wherever that stands in it."""
    counter = _COUNTER.search(unit)
    return unit.strip().replace(counter[0], "0") if counter else unit.strip()


def _letters(text: str) -> int:
    return sum(map(str.isalpha, text)) + len(re.findall(f"[{HAN}]", text))


def _code_lines(answer: str) -> list[str]:
    return [line for _, code in split_code(answer)[1] for line in code.splitlines()] if has_fence(answer) else []


def _code_loop(answer: str, prose: int) -> Answer:
    """Code that fills a long answer with one segment over and over."""
    if len(answer) < 2000 or prose > len(answer) // 2:
        return True, "no loop found"
    for repeat in find_repeats(answer, least=_SHORTEST):
        if repeat.times <= 12 or 2 * repeat.length <= len(answer):
            continue
        period = answer[repeat.start : repeat.start + repeat.distance]
        if sum(c.isalpha() for c in period) >= 8:
            return False, _describe(answer, repeat)
    return True, "no loop found"
