"""RepeatSegment: does the answer go round in circles (1 = fine, 0 = the reward is stopped)?

    "I will go home. I will go home. I will go home. …"        # a loop: one segment many times in a row
    "Step 1: mix it well.\nStep 2: mix it well.\n…"            # a counting loop: only a number changes

`repeat_segment` runs these checks one after another; the first that finds a fault decides:
1. a segment many times in a row, in the prose (`_is_loop`);
2. empty lines without end;
3. too much of the prose copied from earlier passages, too many equal sentences;
4. prose that can be compressed to almost nothing;
5. lines, sentences, rows or lines of code that differ in a counter only;
6. an answer that is mostly code or tables, and one segment over and over.
Only 1 and 2 are checked if the answer is data (JSON), or if the prompt asks for repetition; then 1 allows more.

`find_repeats` finds everything that a text repeats: every window of `K` characters gets a hash, and sorting the hashes
tells for each window where it stood before.

    >>> find_repeats("I am sorry. " * 40)
    [Repeat(start=12, length=468, distance=12)]
"""

from __future__ import annotations

import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import groupby
from typing import Annotated

import numpy as np
from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import HAN, has_fence, is_rule, split_code
from rubrank.texts.text import split_sentences
from rubrank.verifiers.shared.code_blocks import parse_python
from rubrank.verifiers.shared.instruction import Share
from rubrank.verifiers.shared.json_values import parse_json
from rubrank.verifiers.shared.word_tables import compile_phrases
from rubrank.verifiers.verifier import BINARY, Answer, verifier

# ---- limits ----------------------------------------------------------------------------------------------------------

# All limits were set by hand, so that loops fail and good answers pass; docs/gates.md has the figures, which come from
# `python benchmarks/gates.py`. Lengths are in characters. A "size" counts a Chinese character twice, because it says
# about as much as two letters.

# Segments in a row.
_SHORTEST_REPEAT = 16  # shorter repeats are not listed, to save time; see `repeat_segment` for a small `least_length`
_PARAGRAPH_LENGTH = 120  # a segment this long is a loop if it stands three times in a row …
_PARAGRAPHS_MAY_REPEAT = 25  # … unless `most_times` is this or more
_ASKED_FACTOR = 25  # `most_times` is multiplied by this if the prompt asks for repetition
# `least_length` is multiplied by this for dots, dashes, blanks to fill in and emoji …
_SIGNS_FACTOR = 10
# … and by this for segments that are mostly digits: those of 1/3 = 0.333… repeat, too.
_DIGITS_FACTOR = 3

# Copies of earlier passages. A copy counts if it is as long as a sentence.
_COPY_LENGTH = 60
_CHINESE_COPY_LENGTH = 30
_FEWEST_COPIED = 150  # in a short answer a copied sentence or two are a large share, but no loop

# Equal sentences, and compression.
_MOST_CHARACTERS = 100_000  # of the prose that are examined, which bounds the time
_SHORTEST_SENTENCE = 10  # its size: "Yes." may come again
_FEWEST_SENTENCES = 6  # of fewer sentences nothing is concluded
# A share of equal sentences from here on is a loop. Among few sentences, a large share comes about more easily.
_LEAST_EQUAL_SHARE = 0.55
_LEAST_EQUAL_SHARE_OF_FEW = 0.6
_MANY_SENTENCES = 10  # fewer are few
_COMPRESSIBLE_LENGTH = 800  # the compression of shorter texts says little
# The most repetitive good answers, tables of test cases, are compressed to 0.17 of their size.
_LEAST_COMPRESSED_SHARE = 0.12

# Units in a row that differ in a counter only. Good code has long runs of such lines: x1 = 0, x2 = 0, …
_COUNTING_LENGTH = 100  # shorter answers are not examined
_MANY_LINES = 10  # of prose with so many line breaks, the lines are the units, not the sentences
_MANY_ENTRIES = 12  # lines, sentences or rows of a table
_MANY_CODE_LINES = 25
_FEWEST_UNIT_LETTERS = 8  # "1. Yes" is an answer key, not a loop
_FEWEST_CODE_LINE_LETTERS = 5

# One segment over and over in an answer that is mostly code or tables.
_CODE_LOOP_LENGTH = 400  # shorter answers are not examined
_MOST_TIMES_IN_CODE = 12
_FEWEST_SEGMENT_LETTERS = 8  # "0, 0, 0, " is a matrix
# In a short answer, a segment of a few letters ("a, ") may be a loop, but it must be repeated more often.
_LONG_CODE_LENGTH = 2_000  # shorter answers are short
_MOST_TIMES_IN_SHORT_CODE = 30
_FEWEST_SHORT_SEGMENT_LETTERS = 2

# Finding repeats.
K = 12  # characters of a window
_MOST_PERIODS = 8  # that are tried for a chain of repeats, see `find_nested_loops`
# Odd random numbers of 64 bits. The first spreads the codes of letters over all bits, the second is the base of the
# polynomial.
_MIX_FACTOR = np.uint64(0x9E3779B97F4A7C15)
_HASH_BASE = np.uint64(0xD6E8FEB86659FD93)

_HAN_CHARACTER = re.compile(f"[{HAN}]")
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
# <tool_call>{"name": "search"}</tool_call>
_TAGGED_CALL = re.compile(
    r"<(tool_call|function_call|tool_use|invoke|function)\b[^<>]{0,500}>.{0,5000}?</\1>", re.DOTALL
)
# Both begin where a run begins, so that a long run is not tried again from each of its characters.
_MANY_BREAKS = re.compile(r"\n(?:[ \t\r\xa0\u3000]*+\n){99}")
_MANY_SPACES = re.compile(r"(?<![ \t\xa0\u3000])[ \t\xa0\u3000]{2000}")


@verifier("RepeatSegment", family="gate", domain=BINARY, version=8, layer="global_quality")
def repeat_segment(
    rollout: Rollout,
    *,
    most_times: Annotated[int, Field(ge=2)] = 4,
    least_length: Annotated[int, Field(ge=20)] = 100,
    most_copied: Share = 0.45,
    refrains: tuple[str, ...] = (),
) -> Answer:
    """The answer does not go round in circles.

    Fails:
        - a segment of any length repeated in a row more than `most_times` times, over at least `least_length`
          characters (Chinese counts double); a paragraph three times in a row;
        - more than `most_copied` of the prose being long copies of what was said before;
        - most sentences being there before, in whatever order;
        - prose that can be compressed to an eighth;
        - twelve sentences, entries or rows of a table in a row that differ in a counter only ("Step 7: …"); 25 such
          lines of code;
        - a hundred empty lines.
    Passes: tables, code, rules, JSON, calls of tools, answer keys, lists of alike entries, a chorus between verses,
        `refrains` given as parameters, and repetition that the prompt asks for ("say it 20 times").
    Not covered: the same thought in other words.
    """
    answer = rollout.answer
    prose = _select_prose(answer, refrains)
    is_asked = asks_to_repeat(rollout.question)
    # At least half of a loop is repeat, and its characters may count double: with shorter repeats, no loop reaches
    # `least_length`.
    repeats = find_repeats(prose, least=min(_SHORTEST_REPEAT, least_length // 4))
    for repeat in (*repeats, *find_nested_loops(prose, repeats)):
        if _is_loop(prose, repeat, most_times, least_length, is_asked):
            return False, _describe_loop(prose, repeat)
    if _MANY_BREAKS.search(answer) or ("\n" in answer and _MANY_SPACES.search(answer)):
        return False, "empty lines without end"
    if is_asked:
        return True, "repetition was asked for"
    if _is_data(answer):
        return True, "data may be alike"

    copied = 0  # characters in copies that are as long as a sentence
    for repeat in repeats:
        beginning = prose[repeat.start : repeat.start + _CHINESE_COPY_LENGTH]
        is_mostly_chinese = 2 * len(_HAN_CHARACTER.findall(beginning)) > _CHINESE_COPY_LENGTH
        if repeat.length >= (_CHINESE_COPY_LENGTH if is_mostly_chinese else _COPY_LENGTH):
            copied += repeat.length
    if copied > _FEWEST_COPIED and copied > most_copied * len(prose):
        return False, f"{copied / len(prose):.0%} of the text was said before"
    repeated_share = _measure_repeated_sentences(prose)
    if repeated_share is not None:
        return False, f"{repeated_share:.0%} of the sentences were said before"
    if len(prose) >= _COMPRESSIBLE_LENGTH:
        raw = prose[:_MOST_CHARACTERS].encode("utf-8", "surrogatepass")
        if len(zlib.compress(raw)) < _LEAST_COMPRESSED_SHARE * len(raw):
            return False, "hardly anything is new: the text can be compressed to an eighth"
    loop = _find_counting_loop(answer, prose) or _find_loop_outside_prose(answer, len(prose))
    return loop is None, loop or "no loop found"


def _is_data(answer: str) -> bool:
    """Is the whole answer, or its one block of code, JSON, or lists and calls as Python writes them?

    [{"id": 1, "ok": true}, …], the same on lines of their own (JSON Lines), [get_weather(city="Oslo"), …]. Brackets
    around prose make no data of it.
    """
    text = answer.strip()
    if text.startswith("```"):
        text = text.split("\n", 1)[-1].removesuffix("```").strip()
    if (text[:1], text[-1:]) not in (("[", "]"), ("{", "}")):
        return False
    try:
        parse_json(text)
        return True
    except ValueError:
        pass
    if len(text) > _MOST_CHARACTERS:
        return False
    try:
        parse_python(text)
        return True
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False


def _select_prose(answer: str, refrains: tuple[str, ...]) -> str:
    """Return the prose with single spaces, without tables, code, rules, calls of tools and refrains."""
    # Calls between tags are left out; a call that was made before stays, since it may be a loop.
    calls: set[str] = set()

    def drop_new_call(call: re.Match[str]) -> str:
        if call[0] in calls:
            return call[0]
        calls.add(call[0])
        return ""

    answer = _TAGGED_CALL.sub(drop_new_call, answer)
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
    may_repeat_paragraphs = most_times >= _PARAGRAPHS_MAY_REPEAT
    is_paragraph = repeat.distance >= _PARAGRAPH_LENGTH
    if is_paragraph and repeat.times >= 3 and not may_repeat_paragraphs:
        return True
    span = repeat.length + repeat.distance  # all occurrences together
    # The size of the span is at most 2 * span, if all of it is Chinese.
    if repeat.times <= most_times or 2 * span < least_length:
        return False
    segment = text[repeat.start : repeat.start + repeat.distance]
    letters_and_digits = sum(map(str.isalnum, segment))
    if not letters_and_digits:
        return span > _SIGNS_FACTOR * least_length
    if 2 * sum(map(str.isdigit, segment)) >= letters_and_digits:
        least_length *= _DIGITS_FACTOR
    looped_text = text[repeat.start - repeat.distance : repeat.start + repeat.length]
    return _measure_size(looped_text) >= least_length


def _describe_loop(text: str, repeat: Repeat) -> str:
    """Return the reason for the verdict: how long the segment is, how often it stands there, and how it begins."""
    segment = text[repeat.start : repeat.start + repeat.distance]
    return f"a segment of {repeat.distance} characters stands {int(repeat.times)} times in a row: {segment[:40]!r}"


def _measure_repeated_sentences(prose: str) -> float | None:
    """Return the share of sentences that were there before; None if it is too small for a loop."""
    sentences = []
    for sentence in split_sentences(prose[:_MOST_CHARACTERS]):
        if _measure_size(sentence) >= _SHORTEST_SENTENCE:
            sentences.append(sentence.strip().lower())
    if len(sentences) < _FEWEST_SENTENCES:
        return None
    share = 1 - len(set(sentences)) / len(sentences)
    is_many = len(sentences) >= _MANY_SENTENCES
    least_share = _LEAST_EQUAL_SHARE if is_many else _LEAST_EQUAL_SHARE_OF_FEW
    return share if share >= least_share else None


def _find_counting_loop(answer: str, prose: str) -> str | None:
    """Return a defect if lines, sentences, rows of a table or lines of code differ in a counter only; else None."""
    if len(answer) < _COUNTING_LENGTH:
        return None
    # Of each kind of unit: its name, the units, how many in a row are a loop, and the fewest letters of each.
    kinds: list[tuple[str, Iterable[str], int, int]] = []
    kinds.append(("lines", prose.splitlines(), _MANY_ENTRIES, _FEWEST_UNIT_LETTERS))
    if prose.count("\n") < _MANY_LINES:
        sentences = split_sentences(prose)
        kinds.append(("sentences", sentences, _MANY_ENTRIES, _FEWEST_UNIT_LETTERS))
    if "|" in answer:
        rows = [line for line in answer.splitlines() if line.lstrip(" \t").startswith("|")]
        kinds.append(("rows", rows, _MANY_ENTRIES, _FEWEST_UNIT_LETTERS))
    if has_fence(answer):
        code_lines = [line for _, code in split_code(answer)[1] for line in code.splitlines()]
        kinds.append(("lines of code", code_lines, _MANY_CODE_LINES, _FEWEST_CODE_LINE_LETTERS))
    for name, units, fewest_units, fewest_letters in kinds:
        for unit, n in _find_alike(units, fewest_units):
            # As in a size, Chinese characters count twice.
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


def _find_loop_outside_prose(answer: str, prose_length: int) -> str | None:
    """Return a defect if more than half of the answer is one segment over and over; else None.

    Answers that are mostly prose are not examined, since loops of prose are found before. The whole answer is searched,
    because a segment may have code, fences and prose in it.
    """
    if len(answer) < _CODE_LOOP_LENGTH or prose_length > len(answer) // 2:
        return None
    is_short = len(answer) < _LONG_CODE_LENGTH
    most_times = _MOST_TIMES_IN_SHORT_CODE if is_short else _MOST_TIMES_IN_CODE
    fewest_letters = _FEWEST_SHORT_SEGMENT_LETTERS if is_short else _FEWEST_SEGMENT_LETTERS
    for repeat in find_repeats(answer, least=_SHORTEST_REPEAT):
        if repeat.times <= most_times or 2 * repeat.length <= len(answer):
            continue
        segment = answer[repeat.start : repeat.start + repeat.distance]
        if sum(map(str.isalpha, segment)) >= fewest_letters:
            return _describe_loop(answer, repeat)
    return None


# ---- repeats ---------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Repeat:
    """`length` characters from `start` on equal those `distance` earlier."""

    start: int
    length: int
    distance: int

    @property
    def times(self) -> float:
        """Return how often the segment stands in a row: 2 for one repetition right after it."""
        return 1 + self.length / self.distance


def find_repeats(text: str, k: int = K, least: int = 0) -> list[Repeat]:
    """Find all repeats of at least `k` (and `least`) characters, each from its nearest earlier copy, in order."""
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype=np.uint32)
    if len(codes) <= k:
        return []
    # The hash of a window is a polynomial in its mixed codes.
    mixed = codes.astype(np.uint64) * _MIX_FACTOR
    mixed ^= mixed >> np.uint64(29)
    windows = len(codes) - k + 1
    hashes = np.zeros(windows, dtype=np.uint64)
    for offset in range(k):
        hashes = hashes * _HASH_BASE + mixed[offset : offset + windows]
    hashes ^= hashes >> np.uint64(32)
    # Sorted by hash, and equal hashes by position: the neighbour before is the nearest earlier window with that hash.
    order = np.argsort(hashes, kind="stable")
    is_copy = hashes[order[1:]] == hashes[order[:-1]]
    distances = np.zeros(len(hashes), dtype=np.int64)  # 0: the window did not occur before
    distances[order[1:][is_copy]] = (order[1:] - order[:-1])[is_copy]
    # Neighbouring windows with the same distance are one repeat.
    edges = np.flatnonzero(np.diff(distances, prepend=-1, append=-1))
    starts = edges[:-1]
    lengths = np.diff(edges) + k - 1
    repeats = []
    for start, length in zip(starts.tolist(), lengths.tolist(), strict=True):
        distance = int(distances[start])
        if not distance or length < least:
            continue
        earlier = start - distance
        # Different windows may have the same hash.
        if text[start : start + length] == text[earlier : earlier + length]:
            repeats.append(Repeat(start, length, distance))
    return repeats


def find_nested_loops(text: str, repeats: list[Repeat]) -> list[Repeat]:
    """Find loops whose segment repeats something itself, from the repeats of a text in reading order.

    In "Because of rain, because of rain, Because of rain, …" the nearest earlier copy of a passage is one phrase away,
    or two where it contains the capital letter. These many short repeats are one loop of the larger distance.
    """
    loops = []
    chain: list[Repeat] = []
    for repeat in repeats:
        # Neighbouring repeats overlap, unless one between them was too short to be listed.
        if chain and repeat.start > chain[-1].start + chain[-1].length:
            loops += _find_loop_of_chain(text, chain)
            chain = []
        chain.append(repeat)
    return loops + _find_loop_of_chain(text, chain)


def _find_loop_of_chain(text: str, chain: list[Repeat]) -> list[Repeat]:
    """Return the loop that a chain of neighbouring repeats is part of; [] if it is none."""
    # Something occurs only once in each segment (the capital letter of the example above). Its nearest earlier copy is
    # one segment away each time, so the length of the segment is among the frequent distances.
    counts = Counter(repeat.distance for repeat in chain)
    for distance, times in counts.most_common(_MOST_PERIODS):
        if times < 3:
            break
        of_distance = [repeat for repeat in chain if repeat.distance == distance]
        start = of_distance[0].start
        stop = of_distance[-1].start + of_distance[-1].length
        if text[start:stop] == text[start - distance : stop - distance]:
            return [Repeat(start, stop - start, distance)]
    return []


# ---- prompts that ask for repetition -------------------------------------------------------------------------------

# The instructions of a prompt are at its beginning and at its end: so many characters of each are searched.
_INSTRUCTION_LENGTH = 4_000

# English requests have one of three forms:
#
#     start    verb     words                 times
#     Please   repeat   the word “yes”        ten times.
#     Now      write    I will be good        over and over.
#     First    repeat   the sentence above.
#
# Requests in other languages, and for songs, are rows of data/gate_phrases.tsv ("repetition_asked").

# The beginning of a sentence or clause, or a word before an order; not the "They" of "They repeat …"
_START = (
    r"^|[.!?:;,\n(]\s*"
    r"|\b(?:please|kindly|just|now|you (?:must|should|to|can)|can you|could you|only|must|to)\s+"
)
# What is to be repeated: anything up to the end of the sentence
_WORDS = (
    r"(?:"
    r"\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”"  # a quotation, which may contain full stops
    r"|[^.!?\n\"“]"
    r"|[.!?](?=\S)"  # the point of "3.5" ends no sentence
    r"){0,200}?"
)
# What is to be written: up to eight words or quotations
_FEW_WORDS = (
    r"\s*:?\s*"
    # Not the subject of a text: "write that …", "write a note …"; but "write a sentence ten times"
    r"(?!(?:that|about|how|why|down|me|us)\b"
    r"|an?\s(?!word|sentence|phrase|line|name|letter|following|request|prompt|message|text))"
    r"(?:(?:"
    r"\"[^\"\n]{1,300}\"|“[^”\n]{1,300}”|(?>'[^\n]{1,300}?'(?!\w))|‘[^’\n]{1,300}’"  # a quotation
    r"|[^\s.!?:,\"“]++"  # a word
    r")\s*+){1,8}?"
)
# "ten times", "5x", "over and over"; not "at times"
_TIMES = (
    r"\b(?:(?:\d[\d,]*|one|two|three|four|five|six|seven|eight|nine|ten|twelve|fifteen|twenty|thirty|forty|fifty|sixty"
    r"|(?:a |one |two |five )?hundred|(?:a |one )?thousand|many|several|multiple|a few|as many|numerous)"
    r"\s+(?:more\s+)?times\b"
    r"|\d+\s?x\b|twice\b|again and again|over and over|repeatedly|endlessly|forever|in a loop)"
)
_ASKED_IN_ENGLISH = re.compile(
    # "repeat “yes” ten times"; not "repeat offenders were fined four times"
    rf"(?:{_START}|\b(?:and|then)\s+)repeat\b(?! (?:offend|custom|visit|business|order)){_WORDS}{_TIMES}"
    # "write hello ten times"; not "write a note that it failed ten times"
    rf"|(?:{_START}|\b(?:and|then)\s+)"
    rf"(?:say|write|type|print|recite|chant|sing|output|copy|include|insert|put)\b{_FEW_WORDS}{_TIMES}"
    # "repeat the sentence above", "repeat after me", "repeat: …"; not "do not repeat yourself"
    rf"|(?:{_START}|\bfirst\s+)repeat\s*"
    r"(?:[:\"“'‘«*]|(?:the|this|that|it|these|my|your|after|each|every|exactly|back|all|only|verbatim|word)\b)",
    re.IGNORECASE,
)
_ASKED_OTHERWISE = compile_phrases("repetition_asked")


# All rollouts of a query have the same prompt.
@lru_cache(maxsize=256)
def asks_to_repeat(prompt: str) -> bool:
    """Does the prompt ask for repetition? "Say it ten times" does, "it failed four times" does not."""
    # The two are the same in a short prompt, which is then searched once.
    parts = {prompt[:_INSTRUCTION_LENGTH], prompt[-_INSTRUCTION_LENGTH:]}
    return any(_ASKED_IN_ENGLISH.search(part) or _ASKED_OTHERWISE.search(part) for part in parts)
