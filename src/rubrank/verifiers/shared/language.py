"""Languages: which one a text is in, and which ones it names.

    detect_language("Wo ist der Bahnhof?")                 ("de", …)
    find_language_code("法语")                              "fr"
    find_named_languages("Is 法语 harder than English?")     {"fr", "en"}

`detect_language` takes two steps; the first that decides wins:

    1. The script. Most scripts are written by one language: Thai letters mean Thai. Chinese characters mean Japanese if
       there are kana or forms that only Japan has, else Chinese.
    2. The statistics of py3langid, for scripts that several languages share (Latin, Cyrillic, Arabic, Devanagari). They
       were the best of those compared on short texts (figures in docs/trusted_criteria.md). A long text in Latin
       letters that is full of one language's small words ("the", "and") needs no statistics.

Addresses, code and Markdown signs are not looked at.

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

# ---- limits ----------------------------------------------------------------------------------------------------------

# All were set by hand. docs/gates.md has the false alarms of WrongLanguage, which are measured with them.

SURE = 0.7
"""From this confidence on, the statistics were never wrong on the texts that they were compared on."""
_NEARLY_CERTAIN = 0.95  # confidence from which on very few words are enough
_NEGLIGIBLE = 0.05  # probability of a language below which it is excluded
# Characters of a text that are read, and letters of them that the statistics get. More changes nothing but the time.
_MOST_CHARACTERS = 10_000
_MOST_LETTERS = 600
_MOST_CHARACTERS_FOR_SMALL_WORDS = 4_000
# A text in Latin letters is prose, and not only names and titles ("Casa Lume, Bergen"), if it has so many different
# words that begin with a small letter, or so many words of any kind.
_FEWEST_SMALL_WORDS = 4
_FEWEST_SMALL_WORDS_IF_CERTAIN = 2
_FEWEST_WORDS = 40
# Small words ("the", "and") decide the language if there are so many, and if they are this share of all words. In
# English answers about a third of all words are in the list, in a list of English names hardly any.
_FEWEST_DECIDING_WORDS = 10
_LEAST_DECIDING_SHARE = 0.25
_LEAST_KANA_SHARE = (
    0.05  # kana per Chinese character from which on a text is Japanese; Chinese quotes fewer
)
_MOST_WITHOUT_KANA = (
    30  # Chinese characters that a Japanese text, such as a headline, may have without any kana
)

# ---- patterns --------------------------------------------------------------------------------------------------------

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


LETTERS: dict[str, str] = {}
"""The letters of each script, to be put into a character class: "A-Zª…". The table has "0041-005A 00AA …"."""
_LANGUAGES_OF_SCRIPT: dict[str, list[str]] = {}
for _script, _code_points, _codes in read_table("scripts"):
    _ranges = [entry.split("-") for entry in _code_points.split()]
    LETTERS[_script] = "".join("-".join(chr(int(end, 16)) for end in ends) for ends in _ranges)
    _LANGUAGES_OF_SCRIPT[_script] = _codes.split()
_ONLY_LANGUAGE = {
    script: codes[0] for script, codes in _LANGUAGES_OF_SCRIPT.items() if len(codes) == 1
}
# Languages that are not listed are written in Latin letters.
_SCRIPT_OF_LANGUAGE = {
    code: script for script, codes in _LANGUAGES_OF_SCRIPT.items() for code in codes
}
# One group per script, so that `lastgroup` of a match names the script
_LETTER = re.compile("|".join(f"(?P<{script}>[{letters}])" for script, letters in LETTERS.items()))
# A passage in one script, with its spaces and punctuation
_PASSAGE = {
    script: re.compile(f"[{letters}\\s'’.,!?¿¡;:-]+") for script, letters in LETTERS.items()
}
# One character that only Chinese has (们), or only Japanese (駅)
_ONLY_CHINESE, _ONLY_JAPANESE = (
    re.compile(f"[{characters}]") for _, characters in read_table("han_characters")
)
# Labels of py3langid → our codes, where they differ: "nb" → "no". An empty code: no language.
_CODE_OF_LABEL = {row[0]: row[1] for row in read_table("merged_languages")}
# A common word such as "the" or "und" → the languages that have it
_SMALL_WORDS: dict[str, list[str]] = {}
for _code, _words in read_words("small_words").items():
    for _word in set(_words):
        _SMALL_WORDS.setdefault(_word, []).append(_code)


@lru_cache(maxsize=1024)
def detect_language(text: str) -> tuple[str, float]:
    """Return the language's code and the confidence in it (0 to 1); ("", 0.0) for a text without letters."""
    prose = _remove_code(text)
    counts = count_scripts(prose)
    if not counts:  # nothing but code and addresses: better these than no answer
        prose = text[:_MOST_CHARACTERS]
        counts = count_scripts(prose)
    if not counts:
        return "", 0.0
    # One character of a script without spaces says as much as two or three letters.
    weights = {"Han": 3, "Kana": 2, "Hangul": 2}
    script = max(counts, key=lambda name: counts[name] * weights.get(name, 1))
    total = sum(counts.values())
    share = counts[script] / total
    if script == "Han":
        kana = counts.get("Kana", 0)
        if kana > _LEAST_KANA_SHARE * counts["Han"]:
            return "ja", (counts["Han"] + kana) / total
        only_chinese = len(_ONLY_CHINESE.findall(prose))
        only_japanese = len(_ONLY_JAPANESE.findall(prose))
        if only_japanese > only_chinese:
            return "ja", 0.8 * share
        # Without any character that only Chinese has, the text may be Japanese as well.
        return "zh", share if only_chinese else 0.6 * share
    if script in _ONLY_LANGUAGE:
        return _ONLY_LANGUAGE[script], share
    if script == "Latin":
        by_small_words = _detect_by_small_words(prose)
        if by_small_words:
            language, confidence = by_small_words
            return language, confidence * share
    chances = _measure_chances(prose, script)
    if not chances:
        return "", 0.0
    language = max(chances, key=chances.__getitem__)
    return language, chances[language] * share


def is_in_other_language(text: str, languages: Collection[str]) -> bool:
    """Is the text surely in none of these languages? Names, dates and single words prove nothing.

    Another script proves it. Within one script the statistics must be clear: `SURE` for another language, next to
    nothing for these.
    """
    language, confidence = detect_language(text)
    if not language or language in languages:
        return False
    if language in ("zh", "ja") and {"zh", "ja"} & set(languages):
        # A short Japanese text may do without kana, and a Chinese one without characters that only Chinese has.
        beginning = text[:_MOST_CHARACTERS]
        letters = count_scripts(beginning)
        if letters.get("Han", 0) >= _MOST_WITHOUT_KANA:
            return True
        if language == "ja":
            return letters.get("Kana", 0) >= 3
        return len(_ONLY_CHINESE.findall(beginning)) >= 2
    script = get_script(language)
    if all(get_script(code) != script for code in languages):
        # Latin letters may be names and terms.
        return script != "Latin" or _is_prose(text, confidence)
    chances = _measure_chances(_remove_code(text), script)
    chance_of_these = sum(chances.get(_CODE_OF_LABEL.get(code, code), 0.0) for code in languages)
    if chance_of_these > _NEGLIGIBLE or confidence < SURE:
        return False
    if script != "Latin":
        return True
    # Words such as "předložena" are not English, so "en" was a wrong guess. (Names begin with a capital.)
    if language == "en" and has_foreign_letters(text):
        return False
    return _is_prose(text, confidence)


def has_foreign_letters(text: str, fewest: int = 1) -> bool:
    """Are there at least `fewest` words in small letters with letters that English does not have ("café")?"""
    return len(_FOREIGN_WORD.findall(text[:_MOST_CHARACTERS])) >= fewest


def has_own_script(language: str) -> bool:
    """Does the script alone show the language, as for Thai? True for Chinese and Japanese, too."""
    return language in _ONLY_LANGUAGE.values()


def get_script(language: str) -> str:
    """Return the script that a language is written in; "Latin" unless another one is known."""
    return _SCRIPT_OF_LANGUAGE.get(language, "Latin")


def is_detectable(language: str) -> bool:
    """Can `detect_language` ever return this language, or the one that it is merged with ("nb" with "no")?"""
    return language.lower().split("-")[0] in _read_known_languages()


def count_scripts(prose: str) -> dict[str, int]:
    """Count the letters of each script: {"Latin": 120, "Greek": 3}. Scripts without letters are left out."""
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


def select_letters(prose: str, script: str) -> str:
    """Return what is written in one script, with its punctuation."""
    return " ".join(" ".join(_PASSAGE[script].findall(prose)).split())


def _remove_code(text: str) -> str:
    """Return the beginning of the text with spaces instead of code and addresses."""
    return _NO_PROSE.sub(" ", text[:_MOST_CHARACTERS])


@lru_cache(maxsize=65536)
def _find_letter_script(char: str) -> str | None:
    """Return the script of a letter; None for anything else."""
    letter = _LETTER.match(char)
    return letter.lastgroup if letter else None


def _detect_by_small_words(prose: str) -> tuple[str, float] | None:
    """Return the language of a text full of its small words, and the confidence in it; None if no language is clear."""
    words = _WORD.findall(prose[:_MOST_CHARACTERS_FOR_SMALL_WORDS].lower())
    hits_by_language = Counter(code for word in words for code in _SMALL_WORDS.get(word, ()))
    ranked = hits_by_language.most_common(2)
    if not ranked:
        return None
    language, hits = ranked[0]
    hits_of_second = ranked[1][1] if len(ranked) > 1 else 0
    is_full = hits >= max(_FEWEST_DECIDING_WORDS, _LEAST_DECIDING_SHARE * len(words))
    is_clear = hits_of_second <= 0.5 * hits
    if not is_full or not is_clear:
        return None
    return language, min(1.0, 3 * hits / len(words))


def _is_prose(text: str, confidence: float) -> bool:
    """Are there a few words that begin with a small letter? Names, titles and terms are not prose."""
    words = _WORD.findall(_IN_NAMES.sub(" ", _remove_code(text)))
    small_words = {word for word in words if word[0].islower() and len(word) > 1}
    fewest = _FEWEST_SMALL_WORDS
    if confidence >= _NEARLY_CERTAIN:
        fewest = _FEWEST_SMALL_WORDS_IF_CERTAIN
    return len(small_words) >= fewest or len(words) >= _FEWEST_WORDS


def _measure_chances(prose: str, script: str) -> dict[str, float]:
    """Return how likely each language of the script is, by the statistics; {} for a text without letters of it."""
    letters = select_letters(prose, script)[:_MOST_LETTERS]
    return _rank_languages(letters, script) if any(map(str.isalpha, letters)) else {}


@lru_cache(maxsize=1024)
def _rank_languages(letters: str, script: str) -> dict[str, float]:
    """Ask py3langid for the probability of each language, and keep those of the script."""
    chances: dict[str, float] = {}
    # Lone surrogates cannot be encoded, which py3langid would try.
    for label, chance in _load_identifier().rank(letters.encode("utf-8", "ignore").decode()):
        code = _CODE_OF_LABEL.get(label, label)
        if code and get_script(code) == script:
            chances[code] = chances.get(code, 0.0) + float(chance)
    return chances


@lru_cache(maxsize=1)
def _load_identifier() -> Any:
    """Load the model of py3langid, once: it takes a moment."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


@lru_cache(maxsize=1)
def _read_known_languages() -> frozenset[str]:
    """Return the codes that can be detected."""
    labels = {_CODE_OF_LABEL.get(label, label) for label in _load_identifier().labels} - {""}
    # These are detected as the language that they are merged with: Malay as Indonesian.
    merged = {"ms", "bs", "nb", "nn"}
    return frozenset(labels | set(_SCRIPT_OF_LANGUAGE) | merged)


# ---- names of languages ----------------------------------------------------------------------------------------------

MOST_CHARACTERS_WITH_NAMES = 20_000  # of a text in which names are looked for

# Quotations, in which a name says nothing about the text itself: “…”, 「…」, «…», "…", 《…》
QUOTED = re.compile(
    '“[^”]{1,2000}”|「[^」]{1,2000}」|『[^』]{1,2000}』|«[^»]{1,2000}»|"[^"\n]{1,500}"|《[^》]{1,200}》'
)

_CODES: dict[str, str] = {}  # code or name in small letters → code
for _code, _names in read_words("language_names").items():
    _CODES |= dict.fromkeys((_code, *_names), _code)
# Codes such as "de" are words of other languages, so texts are not searched for them. The longest names come first.
_NAMES = [name for name in _CODES if len(name) > 2 or not name.isascii()]
_NAMES.sort(key=len, reverse=True)
# Names in scripts with spaces: french, brazilian[ -]portuguese
SPACED_NAME = "|".join(re.escape(name).replace("\\-", "[ -]") for name in _NAMES if name < "\u3000")
# Names in scripts without spaces, from U+3000 on: 法语, フランス語
UNSPACED_NAME = "|".join(name for name in _NAMES if name >= "\u3000")
# A name with spaces is a whole word ("frenchman" is none), but Chinese characters may touch it: 用English回答
NAMED = re.compile(rf"(?<![^\W\d_一-鿿])(?:{SPACED_NAME})(?![^\W\d_一-鿿])|{UNSPACED_NAME}")


def find_language_code(name: str) -> str:
    """Return the code of a language given by code or name: "French", "法语", "fr-FR" → "fr".

    Only Chinese has codes with a hyphen: "zh-hans" and "zh-hant". An unknown name is returned in small letters, without
    what follows a hyphen.
    """
    key = name.strip().lower().replace("_", "-").replace(" ", "-")
    main = key.split("-")[0]
    return _CODES.get(key) or _CODES.get(main) or main


def find_named_languages(text: str) -> frozenset[str]:
    """Return the codes of all languages whose names occur in the text; "zh" for both variants of Chinese."""
    return frozenset(
        find_language_code(name).split("-")[0]
        for name in NAMED.findall(text[:MOST_CHARACTERS_WITH_NAMES].lower())
    )
