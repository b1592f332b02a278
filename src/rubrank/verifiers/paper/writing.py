"""ConstrainedWriting: acrostics (藏头诗), lipograms, alliteration, syllable and line patterns, palindromes, pangrams.

The value says how much of the constraint is met, in quarters; 1 only if all of it is.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Sequence
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from rubrank._plain import word_set
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.lexicon import count_syllables
from rubrank.texts.prose import HAN, bare, is_heading, is_rule, sentences, without_code
from rubrank.texts.text import Text
from rubrank.verifiers.shared.language import detect_language, is_other
from rubrank.verifiers.verifier import Answer, Verdict, discrete, missing, verifier

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

_MOST = 2000  # units looked at: more lines are no poem
_CLAUSE = re.compile("[，。！？；,.!?;、\n]+")
_TITLE = re.compile(r"^[\s*_]*[《【<].{1,60}[》】>][\s*_]*$")
_HAN = re.compile(f"[{HAN}]")
_KANA = re.compile("[\u3041-\u3096\u30a1-\u30fa]")
_SMALL_KANA = frozenset("ゃゅょぁぃぅぇぉャュョァィゥェォ")
# words that speakers count either way, by one syllable
_EITHER = word_set("""
    fire hour our flower flowers power every poem poems world real really tired quiet family different favorite
    several evening heaven heavens higher desire iron girl pearl towards orange being seeing violet choir lion oil
    smile while wild
""")


_NEEDS = {
    "acrostic": "word",
    "telestich": "word",
    "syllables": "pattern",
    "line lengths": "pattern",
    "lipogram": "letters",
    "univocalic": "letters",
}


def _has_what_its_kind_needs(params: Any) -> str | None:
    needed = _NEEDS.get(params.kind)
    if needed is not None and not getattr(params, needed):
        return f"given: the kind {params.kind!r} needs `{needed}`"
    if params.word is not None and not any(c.isalnum() for c in params.word):
        return "with letters in `word`"
    return None


@verifier(
    "ConstrainedWriting",
    family="format",
    domain=discrete(0, 0.25, 0.5, 0.75, 1),
    version=2,
    check=_has_what_its_kind_needs,
)
def constrained_writing(
    rollout: Rollout,
    *,
    kind: Kind,
    word: Annotated[str, Field(min_length=1)] | None = None,
    letters: Annotated[str, Field(min_length=1)] | None = None,
    pattern: tuple[Annotated[int, Field(ge=1)], ...] | Literal["四言", "五言", "六言", "七言"] | None = None,
    unit: Unit = "auto",
) -> Answer:
    """A constrained form, in quarters of what is met (1 = all, rounded down).

    - acrostic, telestich: the first (last) letters of the lines spell `word`; 藏头诗 by lines or clauses. A title or an
      introduction may stand before. abecedarian: lines start with a, b, c …
    - lipogram: none of `letters` occurs. univocalic: no vowel but `letters`. alliteration: words start with `letters`
      (or with one common letter); small words (the, of …) are exempt.
    - syllables: lines have the syllables of `pattern`; haiku 5-7-5, tanka 5-7-5-7-7. English, Chinese (a character is
      one syllable) and kana (one beat each); English words that may be read two ways fit both.
    - line lengths: words of each line, or clause, by `pattern`, which repeats; Chinese characters for "五言", "七言",
      a Chinese prompt or a Chinese poem: words in Latin letters do not fit then.
    - palindrome: letters read the same backwards. pangram: every letter of the alphabet (or of `letters`) occurs.

    Passes (1): "Calm\\nAnd\\nTender" for the acrostic "CAT". Fails (0): less than a quarter, or nothing written.
    Missing: a parameter that the kind needs; syllables of other languages, and of kanji. Not covered: rhyme, metre,
    tones.
    """
    text = rollout.text
    if not any(c.isalnum() for c in text.raw):
        return 0.0, "nothing written"
    if kind in ("acrostic", "telestich", "abecedarian"):
        return _spelling(text, kind, word, unit)
    if kind in ("syllables", "haiku", "tanka", "line lengths"):
        return _measured(rollout, kind, pattern, unit)
    return _letters(text, kind, letters)


def _quarters(met: int, total: int, what: str) -> Answer:
    return int(4 * met / total) / 4, f"{met} of {total} {what}"


def _units(text: Text, unit: str) -> list[str]:
    prose = [line for line in without_code(text.raw).splitlines() if not (is_rule(line) or is_heading(line))]
    if unit == "sentences":
        found: Sequence[str] = sentences(text.raw)
    elif unit == "paragraphs":
        found = text.paragraphs
    elif unit == "words":
        found = text.words
    elif unit == "clauses":
        found = [c for line in prose if not _TITLE.match(line) for c in _CLAUSE.split(line)]
    else:
        found = [line for line in prose if not _TITLE.match(line)]
    return [piece for piece in map(bare, found[: 4 * _MOST]) if any(c.isalnum() for c in piece)][:_MOST]


def _fold(char: str) -> str:
    return unicodedata.normalize("NFKD", char).casefold()[:1]


def _spelling(text: Text, kind: str, word: str | None, unit: str) -> Answer:
    if kind == "abecedarian":
        word = word or "abcdefghijklmnopqrstuvwxyz"
    if word is None:
        return missing(f"{kind} needs `word`")
    wanted = [_fold(c) for c in word if c.isalnum()][:200]
    if not wanted:
        return missing("`word` has no letters")
    tried = ["lines", "clauses", "sentences"] if unit == "auto" else [unit]
    best = max(_best_window(_edges(_units(text, u), kind == "telestich"), wanted) for u in tried)
    return _quarters(best, len(wanted), f"letters of {word[:40]!r} spelled in order")


def _edges(units: list[str], last: bool) -> list[str]:
    found = []
    for piece in units:
        letters = [c for c in (reversed(piece[-80:]) if last else piece[:80]) if c.isalpha()]
        found.append(_fold(letters[0]) if letters else "")
    return found


def _best_window(edges: list[str], wanted: list[str]) -> int:
    """The most letters that some run of neighbouring units has in their place."""
    starts = range(max(1, len(edges) - len(wanted) + 1))
    return max(sum(a == b for a, b in zip(edges[i : i + len(wanted)], wanted, strict=False)) for i in starts)


_FORMS = {"四言": (4,), "五言": (5,), "六言": (6,), "七言": (7,), "haiku": (5, 7, 5), "tanka": (5, 7, 5, 7, 7)}
_SIZE: TypeAlias = Callable[[str], tuple[int, int]]


def _measured(rollout: Rollout, kind: str, pattern: tuple[int, ...] | str | None, unit: str) -> Answer:
    text, repeats = rollout.text, kind == "line lengths"
    lengths = _FORMS.get(kind) or (_FORMS[pattern] if isinstance(pattern, str) else pattern)
    if not lengths:
        return missing(f"{kind} needs `pattern`")
    if not repeats and (language := _uncounted(text.raw)):
        return missing(f"the syllables of {language} cannot be counted")
    in_han = isinstance(pattern, str) or _is_chinese(rollout.question) or _is_chinese(text.raw)
    size = (_han if in_han else _words) if repeats else _syllables
    tried = ["lines", "clauses"] if unit == "auto" else [unit]
    results = [_fitting(_units(text, u), lengths, repeats, size) for u in tried]
    met, total = max(results, key=lambda pair: pair[0] / pair[1])
    return _quarters(met, total, f"lines fit the pattern {'-'.join(map(str, lengths))}")


def _is_chinese(text: str) -> bool:
    """Is most of it Chinese characters? One of them says as much as three letters."""
    han = len(_HAN.findall(text[:20_000]))
    return 4 * han > sum(map(str.isalpha, text[:20_000]))


def _uncounted(raw: str) -> str | None:
    """The language, if its syllables do not follow from the spelling by the rules that are known here."""
    raw = raw[:10_000]
    if _KANA.search(raw):
        return "kanji" if _HAN.search(raw) else None
    if _HAN.search(raw) or not is_other(raw, ("en",)):
        return None
    return f"the language {detect_language(raw)[0]!r}"


def _fitting(lines: list[str], pattern: tuple[int, ...], repeats: bool, size: _SIZE) -> tuple[int, int]:
    """Lines that fit, of those that should; a poem may be introduced, but has as many lines as the pattern."""
    sizes = list(map(size, lines))
    if repeats:
        fits = [low <= pattern[i % len(pattern)] <= high for i, (low, high) in enumerate(sizes)]
        return sum(fits), max(1, len(fits))
    starts = range(max(1, len(lines) - len(pattern) + 1))
    best = max(
        sum(low <= n <= high for (low, high), n in zip(sizes[i : i + len(pattern)], pattern, strict=False))
        for i in starts[:200]
    )
    extra = max(0, len(lines) - len(pattern) - 1)  # one line may introduce it
    return best, len(pattern) + extra


def _words(line: str) -> tuple[int, int]:
    n = len(Text(line).words)
    return n, n


def _han(line: str) -> tuple[int, int]:
    """Chinese characters; with other words among them it fits nothing."""
    n = len(_HAN.findall(line))
    return (n, n) if n == len(Text(line).words) else (0, 0)


def _syllables(line: str) -> tuple[int, int]:
    """The least and the most syllables the line can be read with."""
    low = high = 0
    for word in Text(line).words[:200]:
        if word.isascii():
            parts = [p for p in re.split(r"[^A-Za-z]+", word.replace("'", "")) if p]
            n = sum(count_syllables(p.lower()) for p in parts)
            low, high = low + n - (n > 1 and word.lower() in _EITHER), high + n + (n == 1 and word.lower() in _EITHER)
        elif word not in _SMALL_KANA:
            n = (
                1
                if len(word) == 1
                else count_syllables(unicodedata.normalize("NFKD", word).encode("ascii", "ignore").decode())
            )
            low, high = low + n, high + n
    return low, high


_VOWELS = "aeiou"
_SMALL_WORDS = word_set("a an the of in on and or to for with at by from as is are was it its but")


def _letters(text: Text, kind: str, letters: str | None) -> Answer:
    found = [_fold(c) for c in text.raw if c.isalpha()]
    wanted = {_fold(c) for c in letters or "" if c.isalpha()}
    if kind == "palindrome":
        half = len(found) // 2
        met = sum(a == b for a, b in zip(found[:half], reversed(found), strict=False))
        return _quarters(met, half, "letter pairs mirror") if half else (0.0, "too short to be a palindrome")
    if kind == "pangram":
        alphabet = wanted or set("abcdefghijklmnopqrstuvwxyz")
        return _quarters(len(alphabet & set(found)), len(alphabet), "letters of the alphabet occur")
    if kind == "alliteration":
        return _alliteration(text, wanted)
    if not wanted:
        return missing(f"{kind} needs `letters`")
    bad = wanted if kind == "lipogram" else set(_VOWELS) - wanted
    return _without(text, bad, found)


def _without(text: Text, bad: set[str], found: list[str]) -> Answer:
    """All or nothing first: one forbidden letter breaks the form; then by words."""
    hits = sum(c in bad for c in found)
    if not found or not hits:
        return (1.0, "no forbidden letter") if found else (0.0, "no letters")
    spoiled = sum(any(_fold(c) in bad for c in word) for word in text.words)
    value = min(0.75, int(4 * (1 - spoiled / max(1, len(text.words)))) / 4)
    return Verdict(value, f"{hits} forbidden letters in {spoiled} of {len(text.words)} words")


def _alliteration(text: Text, wanted: set[str]) -> Answer:
    starts = [_fold(word[0]) for word in text.words if word[0].isalpha() and word.lower() not in _SMALL_WORDS]
    if len(starts) < 2:
        return 0.0, "too few words to alliterate"
    wanted = wanted or {max(sorted(set(starts)), key=starts.count)}
    return _quarters(sum(c in wanted for c in starts), len(starts), f"words start with {''.join(sorted(wanted))!r}")
