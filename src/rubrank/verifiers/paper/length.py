"""Length in words, sentences, entries or letters: WordCount, SentenceCount, EntryCount, LetterFrequency.

Each takes `relation` and `count` ("at least", 100), or `low` and `high` for a range.
"""

from __future__ import annotations

import json
import re
import unicodedata
from typing import Any, Literal, TypeAlias

from rubrank.texts.prose import HAN, is_heading, list_items, sentences, split_code
from rubrank.texts.text import Text
from rubrank.texts.words import count_segmented_words
from rubrank.verifiers.shared.relation import Count, Relation, check_count_parameters, compare_range
from rubrank.verifiers.verifier import Answer, verifier

Unit: TypeAlias = Literal["words", "characters", "characters without spaces", "han"]
Entries: TypeAlias = Literal["auto", "list", "lines", "separated", "table", "json"]

_HAN = re.compile(f"[{HAN}]")
_TABLE_ROW = re.compile(r"[ \t]*\|.*\|[ \t]*$")
# The second line of a Markdown table: "|---|:--:|".
_TABLE_DELIMITER = re.compile(r"[ \t]*+\|(?:[ \t]*+:?-++:?[ \t]*+\|)+[ \t]*+$")
_HEADING_UNDERLINE = re.compile(r"={3,}[ \t]*$")
_SEPARATORS = re.compile(r"[,，、;；|]")
# The word before the last entry: the " or " of "red, green or blue".
_BEFORE_LAST_ENTRY = re.compile(
    r"(?<=\w)\s+(?:and|or|as well as|et|ou|und|oder|y|o|e|и|или|&)\s+(?=\w)|(?<=\w)(?:以及|和|或者|或|及|与)(?=\w)"
)


@verifier("WordCount", family="length", version=2, check=check_count_parameters)
def word_count(
    text: Text,
    *,
    relation: Relation = "at least",
    count: Count | None = None,
    low: Count | None = None,
    high: Count | None = None,
    unit: Unit = "words",
) -> Answer:
    """The number of words that a reader sees; in Chinese every character is a word (字数).

    Passes: "one two three" for exactly 3; "你好世界" and "私は学生です" for exactly 4.
    Fails: any other number. Punctuation is never counted in words, nor is what is hidden (comments, targets of links);
        unit "han" counts Chinese characters only, "characters" everything. "around" allows a tenth more or less.
    Not covered: the words (词) of Chinese; code counts like text.
    """
    raw = text.shown.raw
    if unit == "words":
        return compare_range(count_segmented_words(raw), "word", relation, count, low, high)
    if unit == "han":
        return compare_range(
            len(_HAN.findall(raw)), "Chinese character", relation, count, low, high
        )
    if unit == "characters without spaces":
        raw = "".join(raw.split())
    return compare_range(len(raw), "character", relation, count, low, high)


@verifier("SentenceCount", family="length", version=3, check=check_count_parameters)
def sentence_count(
    text: Text,
    *,
    relation: Relation = "at least",
    count: Count | None = None,
    low: Count | None = None,
    high: Count | None = None,
) -> Answer:
    """The number of sentences.

    Passes: "Dr. Lee came. He sat." for exactly 2; "好。真的吗？" for exactly 2.
    Fails: any other number. A list entry is a sentence of its own; headings, rules and code are none.
    Not covered: verse without punctuation (a stanza is one).
    """
    return compare_range(len(sentences(text.shown.raw)), "sentence", relation, count, low, high)


@verifier("EntryCount", family="length", version=2, check=check_count_parameters)
def entry_count(
    text: Text,
    *,
    relation: Relation = "exactly",
    count: Count | None = None,
    low: Count | None = None,
    high: Count | None = None,
    entries: Entries = "auto",
    separator: str | None = None,
    nested: bool = False,
) -> Answer:
    """The number of entries: bullets, numbered items (1. 一、 ①), table rows, JSON elements, lines, "a, b, c".

    Passes: "- a\\n- b" for exactly 2; "苹果、香蕉" for exactly 2.
    Fails: any other number. "auto" takes the first that is there: JSON, list (entries under entries only if `nested`),
        table, several lines (headings are none), separated by commas or `separator`.
    Not covered: entries distinguished only by meaning.
    """
    text = text.shown
    if entries == "auto":
        if separator:
            entries = "separated"
        elif _parse_json(text) is not None:
            entries = "json"
        elif list_items(text.raw):
            entries = "list"
        elif _count_table_rows(text):
            entries = "table"
        else:
            entries = "lines" if _count_lines(text) > 1 else "separated"
    if entries == "list":
        items = list_items(text.raw)
        # One column more than the outermost entries is not nested.
        top = min((item.indent for item in items), default=0)
        number = sum(nested or item.indent <= top + 1 for item in items)
    elif entries == "lines":
        number = _count_lines(text)
    elif entries == "table":
        number = _count_table_rows(text)
    elif entries == "json":
        number = len(_parse_json(text) or ())
    else:
        if separator:
            pieces = text.raw.split(separator)
        else:
            *pieces, last = _SEPARATORS.split(text.raw)
            # Without commas, "or" divides only an answer of a few words: "red or blue".
            is_enumeration = pieces or len(last.split()) <= 5
            pieces += _BEFORE_LAST_ENTRY.split(last) if is_enumeration else [last]
        # Pieces without a letter or a digit are no entries.
        number = sum(any(map(str.isalnum, piece)) for piece in pieces)
    return compare_range(number, "entry", relation, count, low, high)


def _count_lines(text: Text) -> int:
    """Count the lines that contain a letter or a digit, without headings and code."""
    lines = split_code(text.raw)[0]
    underlined = {i - 1 for i, line in enumerate(lines) if _HEADING_UNDERLINE.match(line)}
    entries = [line for i, line in enumerate(lines) if i not in underlined and not is_heading(line)]
    return sum(any(map(str.isalnum, line)) for line in entries)


def _count_table_rows(text: Text) -> int:
    """Count rows of Markdown tables, without their headers."""
    rows = [line for line in split_code(text.raw)[0] if _TABLE_ROW.match(line)]
    delimiters = sum(_TABLE_DELIMITER.match(row) is not None for row in rows)
    if not delimiters:
        return 0
    return max(0, len(rows) - 2 * delimiters)  # each table has a header and a delimiter line


def _parse_json(text: Text) -> list[object] | dict[str, object] | None:
    """Return the outermost list or object, if the answer is JSON, bare or in one fence."""
    outside, blocks, _ = split_code(text.raw)
    is_one_fence = len(blocks) == 1 and not "".join(outside).strip()
    source = blocks[0][1] if is_one_fence else text.raw
    if source.lstrip()[:1] not in ("[", "{"):
        return None
    try:
        value = json.loads(source)
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, list | dict) else None


def _check_letter_parameters(params: Any) -> str | None:
    if len(unicodedata.normalize("NFC", params.letter)) != 1:
        return "with a `letter` of one character"
    return check_count_parameters(params)


@verifier("LetterFrequency", family="length", version=2, check=_check_letter_parameters)
def letter_frequency(
    text: Text,
    *,
    letter: str,
    relation: Relation = "at least",
    count: Count | None = None,
    low: Count | None = None,
    high: Count | None = None,
    case_sensitive: bool = False,
) -> Answer:
    """The number of times that a letter (or one Chinese character, digit or sign) occurs.

    Passes: letter "e", at least 2: "See".
    Fails: "Set". Capitals count as the small letter unless `case_sensitive`; "é" is another letter than "e", however it
        is encoded.
    Not covered: several letters at once.
    """
    composed = unicodedata.normalize("NFC", letter)
    forms = {composed} if case_sensitive else {composed, composed.lower(), composed.upper()}
    number = sum(map(text.shown.composed.count, forms))
    return compare_range(number, f"{composed!r}", relation, count, low, high)
