"""Length and language of an answer.

WordCount, SentenceCount, EntryCount and LetterFrequency take `relation` and `count` ("at least", 100), or `low` and
`high` for a range. LanguageRequirement checks for a given language, LanguageDetection for the one that the prompt
expects.
"""

from __future__ import annotations

import json
import operator
import re
import unicodedata
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import HAN, is_heading, list_items, sentences, split_code
from rubrank.texts.text import Text
from rubrank.texts.words import count_segmented_words
from rubrank.verifiers.shared.answer_languages import (
    LEAST,
    Accepted,
    find_accepted,
    fits,
    measure_languages,
    measure_others,
    measure_within,
    quotes_language,
    weigh,
)
from rubrank.verifiers.shared.instruction import (
    Count,
    Relation,
    Share,
    check_count_parameters,
    compare_range,
)
from rubrank.verifiers.shared.language import find_language_code, is_detectable
from rubrank.verifiers.verifier import Answer, missing, verifier

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
    Fails: any other number. Punctuation and hidden text (comments, targets of links) are never counted as words;
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
    Fails: any other number. A list entry counts as a sentence; headings, rules and code do not.
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
        table, several lines (without headings), separated by commas or `separator`.
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


# ---- language --------------------------------------------------------------------------------------------------------

_MOSTLY_QUOTED = 0.3  # share of an answer in quotations: it may be a translation and words about it


def _check_detectable(params: Any) -> str | None:
    names = [params.language] if isinstance(params.language, str) else params.language
    if not names:
        return "given: a `language`"
    for name in names:
        if not is_detectable(find_language_code(name).split("-")[0]):
            return f"of a language that can be detected, not {name!r}"
    return None


@verifier("LanguageRequirement", family="language", version=3, check=_check_detectable)
def language_requirement(
    text: Text, *, language: str | tuple[str, ...], share: Share = 0.8
) -> Answer:
    """The answer is in the language asked for (or one of several): by code or name, "fr", "French", "法语", "zh-Hant".

    Passes: at least `share` of it is; code, addresses and quotations aside.
    Fails: another language, too much of another, Simplified for Traditional characters (or the reverse); sentences of
        another in a code fence.
    Missing: no words, or too few that show a language (names, dates).
    Not covered: dialects, romanised text.
    """
    names = [language] if isinstance(language, str) else language
    codes = [find_language_code(name) for name in names]
    base_codes = {code.split("-")[0] for code in codes}
    shares = measure_languages(text.raw)
    if not shares:
        return missing("no words to tell a language by")
    right_share = sum(shares.get(code, 0.0) for code in base_codes)
    if right_share >= share and codes in (["zh-hans"], ["zh-hant"]):
        return _check_variant(text.raw, simplified=codes == ["zh-hans"])
    main = max(shares, key=shares.__getitem__)
    required = "/".join(codes)
    if right_share < share and measure_others(text.raw, base_codes) <= 1 - share:
        return missing(f"too few words that show a language: perhaps {main}, {required} required")
    reason = f"{right_share:.0%} in {required}, {share:.0%} required; mostly {main}"
    return right_share >= share, reason


@lru_cache(maxsize=2)
def load_converter(config: str) -> Any:
    """Load a converter between Chinese variants, such as "t2s" (Traditional to Simplified)."""
    import opencc

    return opencc.OpenCC(config)


def _check_variant(raw: str, *, simplified: bool) -> tuple[bool, str]:
    """Check that at most a tenth of the characters that belong to one variant only belong to the wrong one."""
    han = "".join(_HAN.findall(raw[:200_000]))
    # What changes when the text is converted to one variant belongs to the other variant only.
    only_traditional = sum(map(operator.ne, han, load_converter("t2s").convert(han)))
    only_simplified = sum(map(operator.ne, han, load_converter("s2t").convert(han)))
    right = only_simplified if simplified else only_traditional
    wrong = only_traditional if simplified else only_simplified
    name = "Simplified" if simplified else "Traditional"
    is_right = wrong <= 0.1 * (right + wrong)
    return is_right, f"{right} characters {name} only, {wrong} of the other variant"


@verifier("LanguageDetection", family="language", version=4)
def language_detection(
    rollout: Rollout,
    *,
    languages: tuple[str, ...] = (),
    least_letters: Annotated[int, Field(ge=1)] = LEAST,
) -> Answer:
    """The main language of the answer is the one the prompt asks for, else the prompt's, or one of `languages`.

    Passes: a French answer to a French prompt, or to "answer in French", "translate this into French",
        "译成法语"; any language that the prompt makes possible ("if it is right, answer in French").
    Fails: an English one. The main language has the largest share of the sentences; quotations, code and addresses do
        not count.
    Missing: too little text on either side, too few words that show a language.
    Not covered: a language that the prompt asks for by hints ("for my Spanish grandmother"); give `languages` then.
    """
    shares = measure_languages(rollout.answer)
    if not shares or weigh(rollout.answer) < least_letters:
        return missing("the answer is too short to tell its language")
    main = max(shares, key=shares.__getitem__)
    if languages:
        codes = frozenset(find_language_code(name).split("-")[0] for name in languages)
        expected = Accepted(codes, whole=True, sure=True)
    else:
        expected = find_accepted(rollout)
    if not expected.languages:
        return missing("the prompt is too short to tell its language")
    reason = f"the answer is in {main}, {'/'.join(sorted(expected.languages))} expected"
    if main in expected.languages:
        return True, reason
    right_share = sum(shares.get(code, 0.0) for code in expected.languages)
    if fits(main, expected) or measure_others(rollout.answer, expected.languages) <= right_share:
        return missing(f"too few words that show a language; perhaps {reason}")
    quoted_share = measure_within(rollout.answer, expected.languages)
    if quoted_share >= _MOSTLY_QUOTED or quotes_language(rollout.answer, expected.languages):
        return missing(f"what is quoted is in another language; perhaps {reason}")
    return False, reason
