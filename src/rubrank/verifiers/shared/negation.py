"""What a sentence denies: "Profits did not rise" denies the rise; "not only did they rise" denies nothing.

>>> find_denials("The board did not approve the merger.")
[('The board did not approve the merger', 'approve the merger')]
>>> find_denials("董事会没有批准合并，但会议很长。")
[('董事会没有批准合并', '批准合并')]
>>> find_denials("It is a no-brainer. 彼は必ず来ます。")
[]

The words of denial are those of the sentence's language (data/denial_words.tsv); what stands behind one, to the end of
the clause, is denied (before it in Japanese and Korean). Some denials are narrow and deny only the words next to them:
"Profits rose without delay" and "Profits not rarely rose" say that they rose. Expressions that contain a word of denial
and deny nothing ("no doubt", 必ず, 不断) are passed over. Not covered: languages that have no words in the table deny
nothing; irony, doubt ("might"), opposites ("fell" for "rose"); of 55 litotes and idioms that were written after the
table, 8 were taken for denials.
"""

from __future__ import annotations

import re
from functools import cache

from rubrank._plain import word_set
from rubrank.verifiers.shared.language import detect_language, script_of
from rubrank.verifiers.shared.word_tables import read_table, write_pattern

_CLAUSE = re.compile(
    r"[,;:，；：、。.!?！？]|\b(?:(?<!anything )but|while|whereas|although|though|however|yet|because|since|which|who"
    r"|mais|pero|sino|aber|sondern|mas|ma|но|а)\b|但是?|而是|然而|却|虽然|因为|所以",
    re.IGNORECASE,
)
_MOST_CHARACTERS = 2_000  # of a sentence
# A Chinese adverb of manner, 不可否认地: it ends with 地, which is no part of a noun (当地, 地区), and denies nothing
# unless it begins with a verb (不能顺利地).
_CHINESE_ADVERB = re.compile(
    "(?!不能|不会|不會|不是|不再|不曾|不愿|不肯|不想|不应|不该|不可能|不打算|未能|未曾|无法|無法|没有|沒有)[不无無未]"
    "[^，。；：、\\s]{1,5}(?<![当當土本各外基产產场場陆陸内內草园園工耕圣聖属屬民])地"
    "(?![区區方点點址产產铁鐵下上球图圖位名板])"
)
# The words that "without" denies: small words, then one word, or a name of several ("without any hesitation").
_NEXT_WORDS = re.compile(
    r"\s*(?:[^\W\d_]{1,3}\s+){0,2}(?:[A-Z][\w'’-]*(?:\s+[A-Z][\w'’-]*){0,3}|[\w'’-]+)"
)
_NEXT_CHARACTERS = re.compile(r"\w{1,2}")
_LAST_WORDS = re.compile(r"\S+\s*\Z")
_LAST_CHARACTERS = re.compile(r"[^はがをにでともの\s]{1,8}[はがをにでとも]?\Z")


@cache
def _pattern(language: str, kind: str) -> re.Pattern[str] | None:
    """A pattern for the phrases of one kind in a language (see data/denial_words.tsv); None if it has none."""
    phrases: list[str] = []
    for row_language, row_kind, row_phrases in read_table("denial_words"):
        if (row_language, row_kind) == (language, kind):
            phrases += row_phrases.split(", ")
    if not phrases:
        return None
    # A hyphen makes another word: "no-brainer", "non-profit".
    return re.compile(write_pattern(phrases, not_beside=r"\w-"), re.IGNORECASE)


@cache
def _languages_with(script: str) -> tuple[str, ...]:
    languages = dict.fromkeys(language for language, _, _ in read_table("denial_words"))
    return tuple(language for language in languages if script_of(language) == script)


def _find_language(sentence: str) -> str:
    """The language of the sentence; English if the letters are Latin and it cannot be told."""
    language, sure = detect_language(sentence)
    if script_of(language) == "Latin" and (sure < 0.5 or language not in _languages_with("Latin")):
        return "en"
    return language


def mask_expressions(sentence: str, language: str | None = None) -> str:
    """The sentence with blanks for the expressions that only look like denials; every other letter keeps its place."""
    language = language or _find_language(sentence)
    expressions = _pattern(language, "never")
    if expressions:
        sentence = expressions.sub(lambda match: " " * len(match[0]), sentence)
    if language == "zh":
        sentence = _CHINESE_ADVERB.sub(lambda match: " " * len(match[0]), sentence)
    return sentence


def find_denials(sentence: str, language: str | None = None) -> list[tuple[str, str]]:
    """The parts that deny something (clauses, or "without" and its words), each with what it denies.

    `language` if it is known. The parts stand in the sentence as they are returned.
    """
    sentence = sentence[:_MOST_CHARACTERS]
    language = language or _find_language(sentence)
    masked = mask_expressions(sentence, language)
    denials = []
    for start, end in _find_clauses(masked):
        clause = masked[start:end]
        for first, last, denied in _find_narrow_denials(clause, language):
            denials.append((sentence[start + first : start + last].strip(), denied.strip()))
            clause = clause[:first] + " " * (last - first) + clause[last:]
        before = _pattern(language, "before")
        behind = _pattern(language, "behind")
        if before and (cue := before.search(clause)):
            denials.append((sentence[start:end].strip(), clause[cue.end() :].strip()))
        elif behind and (cue := behind.search(clause)):
            denials.append((sentence[start:end].strip(), clause[: cue.start()].strip()))
    return denials


def _find_clauses(sentence: str) -> list[tuple[int, int]]:
    """Where the clauses of the sentence begin and end."""
    clauses = []
    start = 0
    for separator in _CLAUSE.finditer(sentence):
        clauses.append((start, separator.start()))
        start = separator.end()
    clauses.append((start, len(sentence)))
    return clauses


# An English verb is denied behind an auxiliary ("did not often rise"); elsewhere "not often" is denied alone.
_AUXILIARY = re.compile(
    r"\b(?:do|does|did|is|are|was|were|am|be|been|has|have|had|will|would|can|could|may|might|shall|should|must)\s+\Z",
    re.IGNORECASE,
)
_LONE_CUES = word_set(
    "not no nicht pas no não non не ні nie niet inte ikke ne tidak tak bukan không chẳng لا ليس غير"
)


def _find_narrow_denials(clause: str, language: str) -> list[tuple[int, int, str]]:
    """Where only a few words are denied: start, end, and those words ("without delay", "not rarely", 동의 없이)."""
    denials = []
    without = _pattern(language, "without")
    for cue in without.finditer(clause) if without else ():
        next_words = (_NEXT_CHARACTERS if language == "zh" else _NEXT_WORDS).match(
            clause, cue.end()
        )
        end = next_words.end() if next_words else cue.end()
        denials.append((cue.start(), end, clause[cue.end() : end]))
    before = _pattern(language, "before")
    limits = _pattern(language, "next")
    if before and limits:
        for cue in before.finditer(clause):
            is_verb_denied = language == "en" and _AUXILIARY.search(clause[: cue.start()])
            next_words = _NEXT_WORDS.match(clause, cue.end())
            if is_verb_denied or next_words is None or cue[0].casefold() not in _LONE_CUES:
                continue
            if limits.match(clause[cue.end() :].lstrip()):
                denials.append((cue.start(), next_words.end(), next_words[0].split()[-1]))
    without_behind = _pattern(language, "without behind")
    for cue in without_behind.finditer(clause) if without_behind else ():
        # The text is cut so that the pattern's end is the cue; it looks at a few words only.
        nearby = clause[max(0, cue.start() - 30) : cue.start()]
        last_words = (_LAST_WORDS if language == "ko" else _LAST_CHARACTERS).search(nearby)
        denied = last_words[0] if last_words else ""
        denials.append((cue.start() - len(denied), cue.end(), denied))
    return denials


def has_denial(sentence: str, language: str | None = None) -> bool:
    """Is anything denied?"""
    return bool(find_denials(sentence, language))
