"""ConstrainedWriting: acrostics (藏头诗), lipograms, alliteration, syllable and line patterns, palindromes, pangrams.

The value is the share of the constraint that is met, rounded down to quarters: 1 only if all of it is.

A constraint is about units of the text: lines, clauses, sentences, paragraphs or words. With the unit "auto", lines and
clauses (for acrostics also sentences) are tried, and the unit that fits best counts: a Chinese poem may stand on one
line.
"""

from __future__ import annotations

import re
import string
import unicodedata
from collections.abc import Iterable, Sequence
from itertools import cycle
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from rubrank._plain import word_set
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import HAN, is_heading, is_rule, remove_code, sentences, strip_decoration
from rubrank.texts.text import Text
from rubrank.texts.words import count_syllables
from rubrank.verifiers.shared.language import detect_language, is_in_other_language
from rubrank.verifiers.verifier import Answer, discrete, missing, verifier

Kind: TypeAlias = Literal[
    "acrostic",
    "telestich",
    "abecedarian",
    "lipogram",
    "univocalic",
    "alliteration",
    "syllables",
    "haiku",
    "tanka",
    "line lengths",
    "palindrome",
    "pangram",
]
Unit: TypeAlias = Literal["auto", "lines", "sentences", "paragraphs", "words", "clauses"]

# Limits that keep the time of a check short. No poem reaches them; what exceeds them is not read.
_MAX_UNITS = 2000  # lines, clauses …
_MAX_PARTS = 200  # letters of a word to spell, words of a line, lines before a poem
_MAX_EDGE = 80  # characters in which the first (last) letter of a unit must stand
_MAX_CHARACTERS_FOR_SCRIPT = 20_000  # that tell whether a text is Chinese
_MAX_CHARACTERS_FOR_LANGUAGE = 10_000  # that tell the language, which takes longer

# What ends a clause: "春眠不觉晓，处处闻啼鸟。" has two.
_CLAUSE_END = re.compile("[，。！？；,.!?;、\n]+")
# A line that is a title: "《春晓》", "**<Spring>**". Not one: "《春晓》 is a poem".
_TITLE = re.compile(r"^[\s*_]*[《【<].{1,60}[》】>][\s*_]*$")
_HAN = re.compile(f"[{HAN}]")
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
# Small kana belong to the beat of the one before: きょ is one.
_SMALL_KANA = frozenset("ゃゅょぁぃぅぇぉャュョァィゥェォ")
# Words that speakers count either way, by one syllable.
_AMBIGUOUS_WORDS = word_set("""
    fire hour our flower flowers power every poem poems world real really tired quiet family different favorite
    several evening heaven heavens higher desire iron girl pearl towards orange being seeing violet choir lion oil
    smile while wild
""")
# Words that need not alliterate.
_SMALL_WORDS = word_set("a an the of in on and or to for with at by from as is are was it its but")
# The syllables or characters of each line.
_FORMS = {
    "四言": (4,),
    "五言": (5,),
    "六言": (6,),
    "七言": (7,),
    "haiku": (5, 7, 5),
    "tanka": (5, 7, 5, 7, 7),
}
_NEEDED_PARAMETER = {
    "acrostic": "word",
    "telestich": "word",
    "syllables": "pattern",
    "line lengths": "pattern",
    "lipogram": "letters",
    "univocalic": "letters",
}


def _check_kind_parameters(params: Any) -> str | None:
    """Return how the error message "params must be …" goes on, or None if the parameters fit the kind."""
    needed = _NEEDED_PARAMETER.get(params.kind)
    if needed is not None and not getattr(params, needed):
        return f"given: the kind {params.kind!r} needs `{needed}`"
    for name in ("word", "letters"):
        text = getattr(params, name)
        if text is not None and not any(map(str.isalnum, text)):
            return f"with letters in `{name}`"
    return None


@verifier(
    "ConstrainedWriting",
    family="format",
    domain=discrete(0, 0.25, 0.5, 0.75, 1),
    version=2,
    check=_check_kind_parameters,
)
def constrained_writing(
    rollout: Rollout,
    *,
    kind: Kind,
    word: Annotated[str, Field(min_length=1)] | None = None,
    letters: Annotated[str, Field(min_length=1)] | None = None,
    pattern: tuple[Annotated[int, Field(ge=1)], ...]
    | Literal["四言", "五言", "六言", "七言"]
    | None = None,
    unit: Unit = "auto",
) -> Answer:
    """The share of a writing constraint that is met, in quarters, rounded down (1 = all of it).

    - acrostic, telestich: the first (last) letters of the lines spell `word`; 藏头诗 by lines or clauses. A title or an
      introduction may stand before. abecedarian: lines start with a, b, c …
    - lipogram: none of `letters` occurs. univocalic: no vowel but `letters`. alliteration: words start with `letters`
      (or with one common letter); small words (the, of …) are exempt.
    - syllables: lines have the syllables of `pattern`; haiku 5-7-5, tanka 5-7-5-7-7. English, Chinese (a character is
      one syllable) and kana (one beat each); English words that may be read two ways fit both.
    - line lengths: words of each line, or clause, by `pattern`, which repeats; Chinese characters for "五言", "七言",
      a Chinese prompt or a Chinese poem: words in Latin letters do not fit then.
    - palindrome: letters read the same backwards. pangram: every letter of the alphabet (or of `letters`) occurs.

    Passes (1): "Calm\\nAnd\\nTender" for the acrostic "CAT".
    Fails (0): less than a quarter, or nothing written.
    Missing: a parameter that the kind needs; syllables of other languages, and of kanji.
    Not covered: rhyme, metre, tones.
    """
    if not any(map(str.isalnum, rollout.text.raw)):
        return 0.0, "nothing written"
    units: list[str] = ["lines", "clauses", "sentences"] if unit == "auto" else [unit]
    if kind in ("acrostic", "telestich", "abecedarian"):
        return _check_spelling(rollout.text, kind, word, units)
    # Of the three automatic units, sentences are not tried below: a verse is a line or a clause.
    units = units[:2]
    if kind == "line lengths":
        return _check_line_lengths(rollout, pattern, units)
    if kind in ("syllables", "haiku", "tanka"):
        return _check_syllables(rollout.text, kind, pattern, units)
    return _check_letters(rollout.text, kind, letters)


def _score_in_quarters(met: int, total: int, description: str) -> Answer:
    """Return the share rounded down to quarters, and the reason: "3 of 4 letter pairs mirror"."""
    return int(4 * met / total) / 4, f"{met} of {total} {description}"


def _count_equal(items: Iterable[str | int], expected: Iterable[str | int]) -> int:
    """Count the items that equal the expected ones at the same place, up to the end of the shorter."""
    return sum(item == other for item, other in zip(items, expected, strict=False))


def _split_units(text: Text, unit: str) -> list[str]:
    """Return the lines, clauses, sentences … that hold a letter or digit, without decoration."""
    if unit == "sentences":
        pieces: Sequence[str] = sentences(text.raw)
    elif unit == "paragraphs":
        pieces = text.paragraphs
    elif unit == "words":
        pieces = text.words
    else:
        prose = remove_code(text.raw).splitlines()
        pieces = [
            line for line in prose if not (is_rule(line) or is_heading(line) or _TITLE.match(line))
        ]
        if unit == "clauses":
            pieces = [clause for line in pieces for clause in _CLAUSE_END.split(line)]
    # Pieces without letters are dropped below: reading four times as many leaves enough.
    units = [strip_decoration(piece) for piece in pieces[: 4 * _MAX_UNITS]]
    return [piece for piece in units if any(map(str.isalnum, piece))][:_MAX_UNITS]


def _fold_letter(char: str) -> str:
    """Return the letter without case and accent."""
    return unicodedata.normalize("NFKD", char).casefold()[:1]


def _check_spelling(text: Text, kind: str, word: str | None, units: list[str]) -> Answer:
    """Count the letters of the word that lines, clauses or sentences begin (telestich: end) with, in order."""
    word = word or string.ascii_lowercase  # abecedarian: a, b, c …
    letters = [_fold_letter(char) for char in word if char.isalnum()][:_MAX_PARTS]
    best = 0
    for unit in units:
        edges = []  # the first or last letter of each unit; "" if there is none near its edge
        for piece in _split_units(text, unit):
            window = reversed(piece[-_MAX_EDGE:]) if kind == "telestich" else piece[:_MAX_EDGE]
            edges.append(next((_fold_letter(char) for char in window if char.isalpha()), ""))
        # The run of neighbouring units with the most letters in their place.
        for start in range(max(1, len(edges) - len(letters) + 1)):
            best = max(best, _count_equal(edges[start:], letters))
    return _score_in_quarters(best, len(letters), f"letters of {word[:40]!r} spelled in order")


def _check_line_lengths(
    rollout: Rollout, pattern: tuple[int, ...] | str | None, units: list[str]
) -> Answer:
    """Count the lines, or clauses, whose length fits the pattern, which repeats to the end."""
    lengths = _read_lengths(pattern)
    text = rollout.text
    is_chinese = isinstance(pattern, str) or _is_chinese(rollout.question) or _is_chinese(text.raw)
    results: list[tuple[int, int]] = []
    for unit in units:
        sizes: list[int] = []
        for line in _split_units(text, unit):
            words = len(Text(line).words)
            if is_chinese and words != len(_HAN.findall(line)):
                words = 0  # words in Latin letters among the characters: fits no length
            sizes.append(words)
        fitting = _count_equal(sizes, cycle(lengths))
        results.append((fitting, max(1, len(sizes))))
    return _score_best_fit(results, lengths)


def _check_syllables(
    text: Text, kind: str, pattern: tuple[int, ...] | str | None, units: list[str]
) -> Answer:
    """Count the lines that have the syllables of the pattern, in the best run of neighbouring lines."""
    lengths = _FORMS.get(kind) or _read_lengths(pattern)
    # Only Chinese (a character each), kana without kanji (a beat each) and English (by rules) can be counted.
    beginning = text.raw[:_MAX_CHARACTERS_FOR_LANGUAGE]
    has_han = _HAN.search(beginning) is not None
    if _KANA.search(beginning):
        if has_han:
            return missing("the syllables of kanji cannot be counted")
    elif not has_han and is_in_other_language(beginning, ("en",)):
        language = detect_language(beginning)[0]
        return missing(f"the syllables of the language {language!r} cannot be counted")
    results: list[tuple[int, int]] = []
    for unit in units:
        sizes = [_count_syllables_of_line(line) for line in _split_units(text, unit)]
        best = 0
        starts = range(max(1, len(sizes) - len(lengths) + 1))
        for start in starts[:_MAX_PARTS]:
            window = zip(sizes[start:], lengths, strict=False)
            best = max(best, sum(low <= length <= high for (low, high), length in window))
        # A poem has as many lines as the pattern; one line more may introduce it.
        extra_lines = max(0, len(sizes) - len(lengths) - 1)
        results.append((best, len(lengths) + extra_lines))
    return _score_best_fit(results, lengths)


def _read_lengths(pattern: tuple[int, ...] | str | None) -> tuple[int, ...]:
    """Return the length of each line: those given, or those of a form such as "五言"."""
    return _FORMS[pattern] if isinstance(pattern, str) else pattern or ()


def _score_best_fit(results: list[tuple[int, int]], lengths: tuple[int, ...]) -> Answer:
    """Score the unit (lines or clauses) of which the largest share fits; a result is (fitting, all)."""
    fitting, total = max(results, key=lambda result: result[0] / result[1])
    pattern = "-".join(map(str, lengths))
    return _score_in_quarters(fitting, total, f"lines fit the pattern {pattern}")


def _is_chinese(text: str) -> bool:
    """Are more than a quarter of the letters Chinese characters? One says about as much as three other letters."""
    text = text[:_MAX_CHARACTERS_FOR_SCRIPT]
    return len(_HAN.findall(text)) > sum(map(str.isalpha, text)) / 4


def _count_syllables_of_line(line: str) -> tuple[int, int]:
    """Return the least and the most syllables that the line can be read with."""
    low = 0
    high = 0
    for word in Text(line).words[:_MAX_PARTS]:
        if word in _SMALL_KANA:
            continue
        if word.isascii():
            parts = re.split(r"[^A-Za-z]+", word.replace("'", ""))
            count = sum(count_syllables(part.lower()) for part in parts if part)
        elif len(word) == 1:
            count = 1
        else:
            without_accents = unicodedata.normalize("NFKD", word).encode("ascii", "ignore").decode()
            count = count_syllables(without_accents)
        low += count
        high += count
        if word.lower() in _AMBIGUOUS_WORDS:
            if count > 1:
                low -= 1
            elif count == 1:
                high += 1
    return low, high


def _check_letters(text: Text, kind: str, letters: str | None) -> Answer:
    """Check the kinds that are about single letters: palindromes, pangrams, alliteration, forbidden letters."""
    written = [_fold_letter(char) for char in text.raw if char.isalpha()]
    chosen = {_fold_letter(char) for char in letters or "" if char.isalpha()}
    if kind == "palindrome":
        half = len(written) // 2
        if not half:
            return 0.0, "too short to be a palindrome"
        mirrored = _count_equal(written[:half], reversed(written))
        return _score_in_quarters(mirrored, half, "letter pairs mirror")
    if kind == "pangram":
        alphabet = chosen or set(string.ascii_lowercase)
        return _score_in_quarters(
            len(alphabet & set(written)), len(alphabet), "letters of the alphabet occur"
        )
    if kind == "alliteration":
        first_letters = []
        for word in text.words:
            if word[0].isalpha() and word.lower() not in _SMALL_WORDS:
                first_letters.append(_fold_letter(word[0]))
        if len(first_letters) < 2:
            return 0.0, "too few words to alliterate"
        if not chosen:
            chosen = {max(sorted(set(first_letters)), key=first_letters.count)}
        fitting = sum(letter in chosen for letter in first_letters)
        description = f"words start with {''.join(sorted(chosen))!r}"
        return _score_in_quarters(fitting, len(first_letters), description)
    if not written:
        return 0.0, "no letters"
    forbidden = chosen if kind == "lipogram" else set("aeiou") - chosen
    hits = sum(letter in forbidden for letter in written)
    if not hits:
        return 1.0, "no forbidden letter"
    # One forbidden letter already breaks the form, so 1 is out of reach; the words without any decide the rest.
    spoiled = 0
    for word in text.words:
        if any(_fold_letter(char) in forbidden for char in word):
            spoiled += 1
    clean_share = 1 - spoiled / max(1, len(text.words))
    value = min(0.75, int(4 * clean_share) / 4)
    return value, f"{hits} forbidden letters in {spoiled} of {len(text.words)} words"
