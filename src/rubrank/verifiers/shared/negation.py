"""What a sentence denies: "Profits did not rise" denies the rise; "not only did they rise" denies nothing.

>>> find_denials("The board did not approve the merger.")
[('The board did not approve the merger', 'approve the merger')]
>>> find_denials("董事会没有批准合并，但会议很长。")
[('董事会没有批准合并', '批准合并')]
>>> find_denials("It is a no-brainer. 彼は必ず来ます。")
[]

The words of denial are those of the sentence's language (data/denial_words.tsv); what stands behind one, to the end of
the clause, is denied (before it in Japanese and Korean). Expressions that contain such a word and deny nothing
("without doubt", 必ず, 不断) are taken out first. Not covered: languages that have no words in the table deny nothing;
irony, doubt ("might"), and opposites ("fell" for "rose").
"""

from __future__ import annotations

import re
from functools import cache

from rubrank.verifiers.shared.language import detect_language, script_of
from rubrank.verifiers.shared.word_tables import read_table

_CLAUSE = re.compile(
    r"[,;:，；：、。.!?！？]|\b(?:(?<!anything )but|while|whereas|although|though|however|yet|because|since|which|who"
    r"|mais|pero|sino|aber|sondern|mas|ma|но|а)\b|但是?|而是|然而|却|虽然|因为|所以",
    re.IGNORECASE,
)
_UNSPACED = ("zh", "ja", "ko")
_MOST_CHARACTERS = 2_000  # of a sentence


@cache
def _pattern(language: str, kind: str) -> re.Pattern[str] | None:
    """A pattern for the words of denial of a language, or for the expressions that are none; None if it has none."""
    phrases: list[str] = []
    for row_language, row_kind, row_phrases in read_table("denial_words"):
        if (row_language, row_kind) == (language, kind):
            phrases += row_phrases.split(", ")
    if not phrases:
        return None
    phrases.sort(key=len, reverse=True)
    sources = [re.escape(phrase).replace(r"\ \*\ ", r" \w{1,20} ").replace(r"\*", r"\w{0,20}") for phrase in phrases]
    alternatives = "|".join(sources).replace("'", "['’]")
    if language in _UNSPACED:
        return re.compile(alternatives)
    # A hyphen makes another word: "no-brainer", "non-profit".
    return re.compile(rf"(?<![\w-])(?:{alternatives})(?![\w-])", re.IGNORECASE)


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


def find_denials(sentence: str, language: str | None = None) -> list[tuple[str, str]]:
    """The clauses that deny something, each with what it denies; `language` if it is known."""
    sentence = sentence[:_MOST_CHARACTERS]
    language = language or _find_language(sentence)
    exceptions = _pattern(language, "never")
    if exceptions:
        sentence = exceptions.sub(" ", sentence)
    before = _pattern(language, "before")
    behind = _pattern(language, "behind")
    denials = []
    for clause in _CLAUSE.split(sentence):
        cue = before.search(clause) if before else None
        cue_behind = behind.search(clause) if behind else None
        if cue:
            denials.append((clause.strip(), clause[cue.end() :].strip()))
        elif cue_behind:
            denials.append((clause.strip(), clause[: cue_behind.start()].strip()))
    return denials


def has_denial(sentence: str, language: str | None = None) -> bool:
    """Is anything denied?"""
    return bool(find_denials(sentence, language))
