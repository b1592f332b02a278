"""RepeatSegment: does the answer go round in circles (1 = fine, 0 = the reward is stopped)?

    "I will go home. I will go home. I will go home. …"        # a loop: one segment many times in a row
    "Step 1: mix it well.\nStep 2: mix it well.\n…"            # a counting loop: only a number changes

`repeat_segment` runs these checks one after another; the first that finds a fault decides:
1. a segment many times in a row, in the prose (`_is_loop`);
2. empty lines without end;
3. the same paragraph three times in a row;
4. too much of the prose copied from earlier passages, too many equal lines or sentences;
5. prose that can be compressed to almost nothing;
6. lines, sentences, rows or lines of code that differ in a counter only;
7. one segment of code over and over.
If the prompt asks for repetition, only 1 and 2 are checked, and 1 allows more.
"""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Annotated

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import HAN, has_fence, is_rule, split_code
from rubrank.texts.sentences import split_sentences
from rubrank.verifiers.shared.relation import Share
from rubrank.verifiers.shared.repeats import Repeat, asks_to_repeat, find_nested_loops, find_repeats
from rubrank.verifiers.verifier import BINARY, Answer, verifier

_MOST_CHARACTERS = (
    100_000  # of an answer in which paragraphs, sentences and compression are examined
)
# In characters. Shorter repeats cannot matter, because `least_length` is at least 20.
_SHORTEST_REPEAT = 16
_PARAGRAPH_CHARACTERS = 120  # a segment this long is a loop if it stands three times in a row
_ENTRY_CHARACTERS = 12  # shorter entries of a list are often alike without a loop
_COMPRESSIBLE_CHARACTERS = 800  # the compression of shorter texts says little
# The most repetitive good answers, tables of test cases, are compressed to 0.17 of their size.
_LEAST_COMPRESSED_SHARE = 0.12
# How many lines, sentences, rows or lines of code that differ in a counter only are a loop.
_MANY_ENTRIES = 12
_MANY_ROWS = 12
_MANY_CODE_LINES = 25
_ASKED_FACTOR = 25  # `most_times` is multiplied by this if the prompt asks for repetition

_HAN_CHARACTER = re.compile(f"[{HAN}]")
# What stands before the text of an entry: "12. ", "- **", "(3) ".
_LINE_MARKER = re.compile(r"^[\s\d.)(、*_#>•·-]+")
# A counter: the "7" of "Step 7: …", "2.1", 第三, ③, the "two" of "Day two", "third". Not the "One" of "One day".
_COUNTER = re.compile(
    r"""\d+(?:\.\d+)*
    | 第[一二三四五六七八九十百千零〇两]+
    | [①-⑳]
    | (?<=[^\W\d_][ ])(?:one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve)\b
    | \b(?:first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth)\b""",
    re.IGNORECASE | re.VERBOSE,
)
# A line that calls a tool: get_weather(city="Oslo").
_CALL_LINE = re.compile(r"(?:[\[{]\s*+)?[A-Za-z_][\w.]*+\(.*\)[\]}]?[,;]?$")
_CALL_BEGINS = re.compile(r"<(?:tool_call|function_call|tool_use|invoke|function)\b[^<>]*+>")
_CALL_ENDS = re.compile(r"</(?:tool_call|function_call|tool_use|invoke|function)>")
# Both begin where a run begins, so that a long run is not tried again from each of its characters.
_MANY_BREAKS = re.compile(r"\n(?:[ \t\r\xa0\u3000]*+\n){99}")
_MANY_SPACES = re.compile(r"(?<![ \t\xa0\u3000])[ \t\xa0\u3000]{2000}")


@verifier("RepeatSegment", family="gate", domain=BINARY, version=6, layer="global_quality")
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
        `least_length` characters (Chinese counts double), a paragraph three times in a row; more than `most_copied` of
        the prose being long copies of what was said before; most sentences being there before, in whatever order; prose
        that can be compressed to an eighth; most lines of a list being the same; twelve sentences or entries in a row
        that differ in a counter only ("Step 7: …"); a dozen such rows of a table, 25 such lines of code; a hundred
        empty lines.
    Passes: tables, code, rules, JSON, calls of tools, answer keys, lists of alike entries, a chorus between verses,
        `refrains` given as parameters, and repetition that the prompt asks for ("say it 20 times").
    Not covered: the same thought in other words.
    """
    answer = rollout.answer
    prose = _select_prose(answer, refrains)
    is_asked = asks_to_repeat(rollout.question)
    repeats = find_repeats(prose, least=_SHORTEST_REPEAT)
    for repeat in (*repeats, *find_nested_loops(prose, repeats)):
        if _is_loop(prose, repeat, most_times, least_length, is_asked):
            return False, _describe_loop(prose, repeat)
    if _MANY_BREAKS.search(answer) or ("\n" in answer and _MANY_SPACES.search(answer)):
        return False, "empty lines without end"
    if is_asked:
        return True, "repetition was asked for"

    # If the whole answer is JSON or a list of calls, its entries may be alike; a loop would not end with a bracket.
    data = answer.strip()
    if data.startswith("```"):
        data = data.split("\n", 1)[-1].removesuffix("```").strip()
    if (data[:1], data[-1:]) in (("[", "]"), ("{", "}")):
        return True, "data may be alike"

    paragraphs = [" ".join(part.split()) for part in answer[:_MOST_CHARACTERS].split("\n\n")]
    for paragraph, copies in groupby(filter(None, paragraphs)):
        times = len(list(copies))
        if times >= 3 and len(paragraph) >= _PARAGRAPH_CHARACTERS:
            return False, f"a paragraph stands {times} times in a row: {paragraph[:40]!r}"
    copied = _count_copied(prose, repeats)
    # In a short answer a copied sentence or two are a large share, but no loop.
    if copied > 150 and copied > most_copied * len(prose):
        return False, f"{copied / len(prose):.0%} of the text was said before"
    if _are_most_lines_same(prose):
        return False, "most lines are the same"
    repeated_share = _measure_repeated_sentences(prose)
    if repeated_share is not None:
        return False, f"{repeated_share:.0%} of the sentences were said before"
    if len(prose) >= _COMPRESSIBLE_CHARACTERS:
        raw = prose[:_MOST_CHARACTERS].encode("utf-8", "surrogatepass")
        if len(zlib.compress(raw)) < _LEAST_COMPRESSED_SHARE * len(raw):
            return False, "hardly anything is new: the text can be compressed to an eighth"
    loop = _find_counting_loop(answer, prose) or _find_code_loop(answer, len(prose))
    return loop is None, loop or "no loop found"


def _select_prose(answer: str, refrains: tuple[str, ...]) -> str:
    """Return the prose with single spaces, without tables, code, rules, calls of tools and refrains."""
    # Calls between tags are left out; a call that was made before stays, since it may be a loop.
    *parts, rest = _CALL_ENDS.split(answer)
    calls: set[str] = set()
    outside_calls: list[str] = []
    for part in parts:  # each ends where a call ends
        tag = _CALL_BEGINS.search(part)
        if tag is None:
            outside_calls.append(part)
            continue
        call = part[tag.end() :]
        outside_calls.append(part if call in calls else part[: tag.start()])
        calls.add(call)
    answer = "".join([*outside_calls, rest])

    lines = split_code(answer)[0] if has_fence(answer) else answer.splitlines()
    prose_lines = []
    for line in lines:
        is_prose = line.strip() and not line.lstrip(" \t").startswith("|") and not is_rule(line)
        if is_prose and not _CALL_LINE.match(line.strip()):
            prose_lines.append(" ".join(line.split()))
    text = "\n".join(prose_lines)
    for refrain in refrains:
        if refrain.strip():
            text = text.replace(" ".join(refrain.split()), "")
    return text


def _measure_size(text: str) -> int:
    """Count characters; Chinese ones count double."""
    return len(text) + len(_HAN_CHARACTER.findall(text))


def _is_loop(text: str, repeat: Repeat, most_times: int, least_length: int, is_asked: bool) -> bool:
    """Does the segment stand in a row more than `most_times` times, over at least `least_length` characters?

    The segment has `repeat.distance` characters. Its first occurrence ends where the repeat starts; the repeat itself
    is all further occurrences, `repeat.length` characters.
    is_asked: the prompt asks for repetition, so that segments may be repeated more often, and paragraphs too.
    """
    if is_asked:
        most_times *= _ASKED_FACTOR
    # A large `most_times`, too, allows paragraphs to be repeated.
    may_repeat_paragraphs = most_times >= _ASKED_FACTOR
    is_paragraph = repeat.distance >= _PARAGRAPH_CHARACTERS
    if is_paragraph and repeat.times >= 3 and not may_repeat_paragraphs:
        return True
    span = repeat.length + repeat.distance  # all occurrences together
    # The size of the span is at most 2 * span, if all of it is Chinese.
    if repeat.times <= most_times or 2 * span < least_length:
        return False
    segment = text[repeat.start : repeat.start + repeat.distance]
    letters_and_digits = sum(map(str.isalnum, segment))
    if not letters_and_digits:
        # Dots, dashes, blanks to fill in and emoji may be repeated for long.
        return span > 10 * least_length
    if 2 * sum(map(str.isdigit, segment)) >= letters_and_digits:
        # The digits of 1/3 = 0.333… repeat, too.
        least_length *= 3
    looped_text = text[repeat.start - repeat.distance : repeat.start + repeat.length]
    return _measure_size(looped_text) >= least_length


def _describe_loop(text: str, repeat: Repeat) -> str:
    """Return the reason for the verdict: how long the segment is, how often it stands there, and how it begins."""
    segment = text[repeat.start : repeat.start + repeat.distance]
    return f"a segment of {repeat.distance} characters stands {int(repeat.times)} times in a row: {segment[:40]!r}"


def _count_copied(text: str, repeats: list[Repeat]) -> int:
    """Count the characters in copies that are as long as a sentence: 60 characters, or 30 if it is Chinese."""
    copied = 0
    for repeat in repeats:
        beginning = text[repeat.start : repeat.start + 30]
        # More than half of these 30 characters are Chinese.
        is_chinese_sentence = repeat.length >= 30 and _measure_size(beginning) > 45
        if repeat.length >= 60 or is_chinese_sentence:
            copied += repeat.length
    return copied


def _are_most_lines_same(text: str) -> bool:
    """Are most lines of a list the same, their numbers aside?"""
    entries = []
    for line in text.splitlines():
        entry = _LINE_MARKER.sub("", line)
        # The entries of answer keys (A, True) are short, and alike.
        if _measure_size(entry) >= _ENTRY_CHARACTERS:
            entries.append(entry)
    return len(entries) >= _MANY_ENTRIES and len(set(entries)) <= 0.3 * len(entries)


def _measure_repeated_sentences(prose: str) -> float | None:
    """Return the share of sentences that were there before; None if it is too small for a loop."""
    sentences = []
    for sentence in split_sentences(prose[:_MOST_CHARACTERS]):
        if _measure_size(sentence) >= 10:
            sentences.append(sentence.strip().lower())
    if len(sentences) < 6:
        return None
    share = 1 - len(set(sentences)) / len(sentences)
    least_share = 0.55 if len(sentences) >= 10 else 0.6
    return share if share >= least_share else None


def _find_counting_loop(answer: str, prose: str) -> str | None:
    """Return a defect if lines, sentences, rows of a table or lines of code differ in a counter only; else None."""
    if len(answer) < 100:
        return None
    # Of each kind of unit: its name, the units, how many in a row are a loop, and the fewest letters of each.
    kinds: list[tuple[str, Iterable[str], int, int]] = []
    # Lines and sentences need not be compared if nothing counts them: if they are the same without any counter, they
    # are a loop, which was found before. A series in words has a "two" in it.
    has_counting_words = any(word in prose for word in ("第", " two", "①"))
    has_digits = sum(map(prose.count, "123456789")) >= _MANY_ENTRIES
    if has_counting_words or has_digits:
        kinds.append(("lines", prose.splitlines(), _MANY_ENTRIES, 8))
        if prose.count("\n") < 10:  # otherwise the lines are the units
            kinds.append(("sentences", split_sentences(prose), _MANY_ENTRIES, 8))
    if "|" in answer:
        rows = [line for line in answer.splitlines() if line.lstrip(" \t").startswith("|")]
        kinds.append(("rows", rows, _MANY_ROWS, 8))
    if has_fence(answer):
        code_lines = [line for _, code in split_code(answer)[1] for line in code.splitlines()]
        kinds.append(("lines of code", code_lines, _MANY_CODE_LINES, 5))
    for name, units, fewest_units, fewest_letters in kinds:
        for unit, n in _find_alike(units, fewest_units):
            if sum(map(str.isalpha, unit)) + len(_HAN_CHARACTER.findall(unit)) >= fewest_letters:
                return f"{n} {name} in a row that differ in a number at most: {unit[:40]!r}"
    return None


def _find_alike(units: Iterable[str], fewest: int) -> Iterator[tuple[str, int]]:
    """Yield units that occur at least `fewest` times in a row, apart from a counter, and how often."""
    # Fast filter: a counter contains no space, so alike units have the same number of spaces.
    for _, group in groupby(units, key=lambda unit: unit.strip().count(" ")):
        neighbours = list(group)
        if len(neighbours) < fewest:
            continue
        for unit, alike in groupby(neighbours, key=_replace_counter):
            n = len(list(alike))
            if n >= fewest:
                yield unit, n


def _replace_counter(unit: str) -> str:
    """Return the unit with every occurrence of its first counter replaced by 0."""
    counter = _COUNTER.search(unit)
    return unit.strip().replace(counter[0], "0") if counter else unit.strip()


def _find_code_loop(answer: str, prose_length: int) -> str | None:
    """Return a defect if more than half of the answer is one segment of code over and over; else None."""
    if len(answer) < 400 or prose_length > len(answer) // 2:
        return None
    # A short answer may repeat a segment of a few letters ("0, "), but it must do so more often to be a loop.
    is_long = len(answer) >= 2000
    most_times = 12 if is_long else 30
    fewest_letters = 8 if is_long else 2
    for repeat in find_repeats(answer, least=_SHORTEST_REPEAT):
        if repeat.times <= most_times or 2 * repeat.length <= len(answer):
            continue
        segment = answer[repeat.start : repeat.start + repeat.distance]
        if sum(map(str.isalpha, segment)) >= fewest_letters:
            return _describe_loop(answer, repeat)
    return None
