"""Which language a text is in: `detect_language("Wo ist der Bahnhof?")` gives `("de", …)`.

Two steps, the first that decides wins. The script: most scripts are written by one language. Within a script that many
languages share, the statistics of py3langid, which were the best of those compared on short texts (figures in
docs/trusted_criteria.md); long texts that are full of one language's small words need no statistics. Addresses, code
and Markdown signs are not looked at. Text in Chinese characters alone is Japanese where forms are used that only Japan
has, and may be either where nothing shows it.

Codes are those of ISO 639-1 (639-3 for a few languages that have none). Not covered: dialects, romanised text (Hindi in
Latin letters), Chinese variants (both are "zh"), texts in many languages at once (the largest part wins).
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection
from functools import lru_cache
from typing import Any

from rubrank.verifiers.shared.word_tables import read_table, read_words

_MOST_CHARACTERS = 10_000  # looked at; more changes nothing but the time
_MOST_LETTERS = 600  # handed to the statistics
# Code in fences, addresses, LaTeX commands, snake_case and calls()
_NO_PROSE = re.compile(
    r"```[^`]*```|https?://\S+|www\.\S+|\S{1,64}@\S+|\\[A-Za-z]+|\b\w+(?:_\w+)+\b|\b\w+\(\)"
)
_WORD = re.compile(r"[^\W\d_]+")
# Small words in names (Casa de la Luna, La Cucina): they show where a name is from, not the language of the text.
_IN_NAMES = re.compile(
    r"(?<=[^\W_] )(?:(?:de|del|la|las|los|le|les|da|do|dos|di|du|des|von|van|der|den|al) ){1,3}(?=[A-ZÀ-Þ])"
    r"|(?<=[,:] )(?:La|Le|Les|El|Los|Il|Da|De|Die|Der|Das|Den)(?= [A-ZÀ-Þ])"
)
# A word in small letters with a letter that English does not have: předložena
_FOREIGN_WORD = re.compile(r"(?<![^\W_])[a-z]*[ß-öø-ÿā-ž][a-zß-öø-ÿā-ž]*(?![^\W_])")
SURE = 0.7
"""From here on the statistics were never wrong on the texts that they were compared on."""
_NEGLIGIBLE = 0.05  # probability of a language below which it is excluded
_FEWEST_SMALL_WORDS = 4  # different words that begin small; with fewer, a text may be names alone
_MOST_WITHOUT_KANA = 30  # Chinese characters that a Japanese text may have without any kana


def _write_letter_class(code_points: str) -> str:
    """Write the letters of a script as a character class: "0041-005A 00AA" → "A-Zª"."""
    ranges = []
    for entry in code_points.split():
        ranges.append("-".join(chr(int(end, 16)) for end in entry.split("-")))
    return "".join(ranges)


_LETTERS = {
    script: _write_letter_class(code_points) for script, code_points, _ in read_table("scripts")
}
_LANGUAGES_IN = {script: languages.split() for script, _, languages in read_table("scripts")}
_ONLY_LANGUAGE = {script: codes[0] for script, codes in _LANGUAGES_IN.items() if len(codes) == 1}
# Languages that are not listed are written in Latin letters.
_SCRIPT_OF = {code: script for script, codes in _LANGUAGES_IN.items() for code in codes}
# One group per script, so that `lastgroup` of a match names the script
_LETTER = re.compile("|".join(f"(?P<{script}>[{letters}])" for script, letters in _LETTERS.items()))
_PASSAGE = {
    script: re.compile(f"[{letters}\\s'’.,!?¿¡;:-]+") for script, letters in _LETTERS.items()
}
_CHINESE, _JAPANESE = (
    re.compile(f"[{characters}]") for _, characters in read_table("han_characters")
)
# What the statistics tell apart and we do not: label → code.
_MERGED = {row[0]: row[1] for row in read_table("merged_languages")}
# word → the languages that have it
_SMALL_WORDS: dict[str, list[str]] = {}
for _code, _words in read_words("small_words").items():
    for _word in set(_words):
        _SMALL_WORDS.setdefault(_word, []).append(_code)


@lru_cache(maxsize=1024)
def detect_language(text: str) -> tuple[str, float]:
    """Return the language's code and how sure that is (0 to 1); ("", 0.0) for a text without letters."""
    prose = _NO_PROSE.sub(" ", text[:_MOST_CHARACTERS])
    counts = count_scripts(prose)
    if not counts:
        prose = text[:_MOST_CHARACTERS]
        counts = count_scripts(prose)
    total = sum(counts.values())
    if not total:
        return "", 0.0
    script = _find_main_script(counts)
    share = counts[script] / total
    if script == "Han":
        kana = counts.get("Kana", 0)
        if kana > 0.05 * counts["Han"]:
            return "ja", (counts["Han"] + kana) / total
        return _tell_chinese_from_japanese(prose, share)
    if script in _ONLY_LANGUAGE:
        return _ONLY_LANGUAGE[script], share
    language, sure = _find_likeliest(prose, script)
    return language, sure * share


def is_other(text: str, languages: Collection[str]) -> bool:
    """Is the text surely in none of these languages? Names, dates and single words prove nothing.

    Another script proves it. Within one script the statistics must be clear: `SURE` for another language, next to
    nothing for these. Whatever they say, small words of these languages leave a doubt.
    """
    language, sure = detect_language(text)
    if not language or language in languages:
        return False
    if language in ("zh", "ja") and {"zh", "ja"} & set(languages):
        return _is_other_han(text, language)
    script = script_of(language)
    if all(script_of(code) != script for code in languages):
        # Latin letters may be names and terms.
        return script != "Latin" or _is_prose(text, sure)
    chances = _measure_chances(_NO_PROSE.sub(" ", text[:_MOST_CHARACTERS]), script)
    chance_of_these = sum(chances.get(_MERGED.get(code, code), 0.0) for code in languages)
    if chance_of_these > _NEGLIGIBLE or sure < SURE:
        return False
    if script != "Latin":
        return True
    # English has no such letters; names do, and names begin with a capital.
    if language == "en" and has_foreign_letters(text):
        return False
    return _is_prose(text, sure) and not _do_small_words_favour(languages, language, text)


def has_foreign_letters(text: str, fewest: int = 1) -> bool:
    """Are there words in small letters with letters that English does not have? "byla předložena" has, "café" too."""
    return len(_FOREIGN_WORD.findall(text[:_MOST_CHARACTERS])) >= fewest


def _is_prose(text: str, sure: float) -> bool:
    """Are there a few words that begin with a small letter? Names, titles and terms are not prose."""
    words = _WORD.findall(_IN_NAMES.sub(" ", _NO_PROSE.sub(" ", text[:_MOST_CHARACTERS])))
    small_words = {word for word in words if word[0].islower() and len(word) > 1}
    fewest = _FEWEST_SMALL_WORDS if sure < 0.95 else 2
    return len(small_words) >= fewest or len(words) >= 40


def _do_small_words_favour(languages: Collection[str], detected: str, text: str) -> bool:
    """Do the small words speak for one of these languages rather than for the detected one?"""
    if detected not in read_words("small_words"):
        return False
    words = set(_WORD.findall(_IN_NAMES.sub(" ", text[:_MOST_CHARACTERS]).lower()))
    hits = _count_small_words(words)
    return max((hits[code] for code in languages), default=0) > hits[detected]


def _count_small_words(words: Collection[str]) -> Counter[str]:
    """Count for each language how many of the words are among its small words."""
    return Counter(code for word in words for code in _SMALL_WORDS.get(word, ()))


def has_own_script(language: str) -> bool:
    """Does the script show the language? (Chinese and Japanese are told apart, so theirs does.)"""
    return language in _ONLY_LANGUAGE.values()


def script_of(language: str) -> str:
    """Return the script that a language is written in; "Latin" unless another one is known."""
    return _SCRIPT_OF.get(language, "Latin")


def is_detectable(language: str) -> bool:
    """Can `detect_language` ever answer this?"""
    return language.lower().split("-")[0] in _read_known_languages()


@lru_cache(maxsize=65536)
def _find_letter_script(char: str) -> str | None:
    letter = _LETTER.match(char)
    return letter.lastgroup if letter else None


def count_scripts(prose: str) -> dict[str, int]:
    """Count the letters of each script."""
    counts: dict[str, int] = {}
    if prose.isascii():
        letters = sum(map(str.isalpha, prose))
        if letters:
            counts["Latin"] = letters
        return counts
    for char, n in Counter(prose).items():
        script = _find_letter_script(char)
        if script:
            counts[script] = counts.get(script, 0) + n
    return counts


def _find_main_script(counts: dict[str, int]) -> str:
    """Return the script of most of the text. A letter of a script without spaces says as much as three that spell."""
    weights = {"Han": 3, "Kana": 2, "Hangul": 2}
    return max(counts, key=lambda script: counts[script] * weights.get(script, 1))


def _tell_chinese_from_japanese(prose: str, share: float) -> tuple[str, float]:
    """Decide between Chinese and Japanese, for a text without kana. Returns the code and how sure that is."""
    chinese = len(_CHINESE.findall(prose))
    japanese = len(_JAPANESE.findall(prose))
    if japanese > chinese:
        return "ja", 0.8 * share
    return "zh", share if chinese else 0.6 * share


def _is_other_han(text: str, language: str) -> bool:
    """Is it surely Chinese and not Japanese, or the reverse? A short text may do without kana."""
    text = text[:_MOST_CHARACTERS]
    if language == "ja":
        counts = count_scripts(text)
        return counts.get("Kana", 0) >= 3 or counts.get("Han", 0) >= _MOST_WITHOUT_KANA
    return len(_CHINESE.findall(text)) >= 2 or sum(map(str.isalpha, text)) >= _MOST_WITHOUT_KANA


def _find_likeliest(prose: str, script: str) -> tuple[str, float]:
    """Return the likeliest language of a script that several share, and how likely it is."""
    if script == "Latin":
        by_small_words = _detect_by_small_words(prose)
        if by_small_words:
            return by_small_words
    chances = _measure_chances(prose, script)
    if not chances:
        return "", 0.0
    best = max(chances, key=chances.__getitem__)
    return best, chances[best]


def _detect_by_small_words(prose: str) -> tuple[str, float] | None:
    """Return the language of a text full of its small words, and how sure that is; None if no language is clear."""
    words = _WORD.findall(prose[:4000].lower())
    ranked = _count_small_words(words).most_common(2)
    if not ranked:
        return None
    language, hits = ranked[0]
    hits_of_second = ranked[1][1] if len(ranked) > 1 else 0
    if hits < max(10, 0.25 * len(words)) or hits_of_second > 0.5 * hits:
        return None
    return language, min(1.0, 3 * hits / len(words))


def _measure_chances(prose: str, script: str) -> dict[str, float]:
    """Return how likely each language of the script is, by the statistics."""
    letters = select_letters(prose, script)[:_MOST_LETTERS]
    return _rank_languages(letters, script) if any(map(str.isalpha, letters)) else {}


def select_letters(prose: str, script: str) -> str:
    """Return what is written in one script, with its punctuation."""
    return " ".join(" ".join(_PASSAGE[script].findall(prose)).split())


@lru_cache(maxsize=1024)
def _rank_languages(letters: str, script: str) -> dict[str, float]:
    chances: dict[str, float] = {}
    for label, chance in _load_identifier().rank(letters.encode("utf-8", "ignore").decode()):
        code = _MERGED.get(label, label)
        if code and script_of(code) == script:
            chances[code] = chances.get(code, 0.0) + float(chance)
    return chances


@lru_cache(maxsize=1)
def _load_identifier() -> Any:
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@lru_cache(maxsize=1)
def _read_known_languages() -> frozenset[str]:
    labels = {_MERGED.get(label, label) for label in _load_identifier().labels} - {""}
    return frozenset(labels | set(_SCRIPT_OF) | {"ms", "bs", "nb", "nn"})
