"""Words around a truth in its sentence that rule it out: a denial, other candidates, a longer name, a range.

>>> question = "Where were the games held?"
>>> is_ruled_out("The games were held in Paris.", 23, 28, question)
False
>>> is_ruled_out("The games were held in Paris, Lyon and Nice.", 23, 28, question)
True
>>> is_ruled_out("The games were held in Paris or in Lyon.", 23, 28, question)
True

The words stand in data/claim_words.tsv. Those of all languages are tried together, because the language of one short
sentence often cannot be told.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from rubrank.verifiers.shared.answers import ALTERNATIVE, is_denied
from rubrank.verifiers.shared.word_tables import read_table, write_pattern


@cache
def read_phrases(kind: str) -> tuple[str, ...]:
    """Return the phrases of one kind in data/claim_words.tsv."""
    phrases: list[str] = []
    for row_kind, row_phrases in read_table("claim_words"):
        if row_kind == kind:
            phrases += row_phrases.split(", ")
    return tuple(phrases)


# Letters with a mark that Unicode does not separate: Władysław, Søren.
_MARKED_LETTERS = str.maketrans({
    "ł": "l", "ø": "o", "đ": "d", "ð": "d", "ħ": "h", "ı": "i", "ƒ": "f", "æ": "ae", "œ": "oe", "þ": "th",
})  # fmt: skip

_VOICING_MARKS = "\u3099\u309a"


def fold_accents(word: str) -> str:
    """Return the letters and digits of a word, without case and accents: "Łódź" → "lodz".

    The voicing marks of kana are no accents, and stay: ガ is not カ. Hangul is composed again.
    """
    letters = unicodedata.normalize("NFKD", word.casefold()).translate(_MARKED_LETTERS)
    folded = "".join(char for char in letters if char.isalnum() or char in _VOICING_MARKS)
    return unicodedata.normalize("NFC", folded)


OPENING_MARKS = r"[\s*_\"“„‘'`「『《«(（$]"
CLOSING_MARKS = r"[\s*_\"”“’'`」』》»)）$]*"
_MARKS = "*_\"”’'`」』》» )）"  # may stand behind the truth
# "or" right before the truth.
_ALTERNATIVE_BEFORE = re.compile(rf"(?:{ALTERNATIVE.pattern})\Z", re.IGNORECASE)


def is_ruled_out(sentence: str, start: int, end: int, question: str) -> bool:
    """Does something around sentence[start:end] show that it is not the answer?"""
    before = sentence[:start]
    after = sentence[end:]
    truth = sentence[start:end]
    if is_denied(sentence, start, end) or after.lstrip(_MARKS).startswith("?"):
        return True
    if _has_alternative(before, truth, after):  # "X or Y"
        return True
    if truth[0].isdigit():
        return _is_other_number(before, after, question)  # "more than X", "X-Y", "X thousand"
    if _is_in_list(before, after, question):  # "X, Y and Z"
        return True
    if _is_end_of_name(before, truth, question):  # "South X"
        return True
    if _BRACKETS_AFTER_TITLE.search(before[-90:]):  # "My World" (originally X)
        return True
    is_relative = _KIN_BEFORE.search(before[-40:]) or _KIN_AFTER.match(after[:40])  # "X's brother"
    return bool(is_relative) and not _KIN_ASKED.search(question)


def _has_alternative(before: str, truth: str, after: str) -> bool:
    """Is another result offered beside it: "X or Y", "X/Y"? Another spelling is not: "Émile (or Emile)"."""
    or_after = ALTERNATIVE.match(after.lstrip(_MARKS))
    if or_after:
        word = or_after[0].strip()
        other_start = after.find(word) + len(word)
        other_result = after[other_start : other_start + len(truth) + 3]
        return not fold_accents(other_result).startswith(fold_accents(truth))
    or_before = _ALTERNATIVE_BEFORE.search(before[-30:])
    if or_before:
        other_result = before[: len(before) - len(or_before[0])]
        return not fold_accents(other_result).endswith(fold_accents(truth))
    return False


# ---- lists ---------------------------------------------------------------------------------------------------------

_AND = write_pattern(read_phrases("and"))
# "And" between names in Chinese, Japanese and Korean; not the 和 of 和平 (peace), nor the 与 of 与其 (rather than).
_UNSPACED_AND = (
    r"(?:、|以及|和(?![平谐諧服睦])|与(?!其)|與(?!其)|及(?!其|时|時)|と(?=[一-龯ァ-ヴ])|[와과]\s)"
)
_OPTIONAL_ARTICLE = r"(?:(?:the|la|le|les|el|los|las|il|lo|der|die|das|den|in|en|von|de)\s)?"
# Behind the truth X: "X and Y", "X; Y", X、Y. The second name begins where the match ends.
_NEXT_ENTRY = re.compile(
    rf"{CLOSING_MARKS}"
    rf"(?:[,;；，]?\s*{_AND}\s+|\s*[;；]\s*|{_UNSPACED_AND})"  # the sign or word between two entries
    rf"{_OPTIONAL_ARTICLE}[\"“„«‘'*_「『《]*(?=\w)",
    re.IGNORECASE,
)
# Behind the truth X: "X, Y and Z". Not "X, where it rained".
_COMMA_LIST = re.compile(
    rf"{CLOSING_MARKS}[,，]\s*[\"“„«‘'*_]*(?P<next>\w[^,，.;:!?]{{0,40}})"  # Y
    rf"(?:[,，]\s*[^,，.;:!?]{{1,40}}){{0,8}}"  # further entries
    rf"[,，]?\s{_AND}\s+[\"“„«‘'*_]*(?P<last>\w)",  # the first letter of Z
    re.IGNORECASE,
)
# Before the truth Y: the "X and" of "X and Y", "X; Y", X、Y.
_PREVIOUS_ENTRY = re.compile(
    rf"(?P<word>\w+)[\"”“»’'*_)」』》]*"
    rf"(?:[,;；，]?\s+{_AND}\s+|\s*[;；]\s*|{_UNSPACED_AND})"  # the sign or word between two entries
    rf"{_OPTIONAL_ARTICLE}[\"“„«‘'*_「『《]*\Z",
    re.IGNORECASE,
)
# The truth stands between two commas: "X, Y, Z".
_COMMA_BEFORE = re.compile(r"[^\W\d_][\"”»*_]*[,、，]\s?[\"“„«*_]*\Z")
_COMMA_OR_AND_AFTER = re.compile(rf"[\"”»*_]*(?:[,、，]|\s{_AND}\s)")


def _is_in_list(before: str, after: str, question: str) -> bool:
    """Is it one of several names: "X and Y", "X, Y and Z", "X; Y"? Names in the question do not count."""
    if _COMMA_BEFORE.search(before[-10:]) and _COMMA_OR_AND_AFTER.match(after[:20]):
        return True
    entry = _NEXT_ENTRY.match(after)
    if entry and _is_new_name(after[entry.end() :], question):
        return True
    entries = _COMMA_LIST.match(after[:400])
    if entries and _starts_name(entries["last"]) and _is_new_name(entries["next"], question):
        return True
    previous = _PREVIOUS_ENTRY.search(before[-80:])
    return previous is not None and _is_new_name(previous["word"], question)


def _is_new_name(text: str, question: str) -> bool:
    """Does the text begin with a name that the question does not give?"""
    name = re.match(r"[^\W\d_]+", text)
    if name is None or not _starts_name(name[0]):
        return False
    if name[0][0].isupper():
        return fold_accents(name[0]) not in map(fold_accents, re.findall(r"\w+", question))
    return name[0][:2] not in question and name[0][-2:] not in question


def _starts_name(word: str) -> bool:
    """Is the first letter a capital, or a letter of Chinese, Japanese or Korean?"""
    return word[0].isupper() or "\u3040" <= word[0] <= "\u9fff" or "\uac00" <= word[0] <= "\ud7af"


# ---- brackets and longer names -------------------------------------------------------------------------------------

# Open brackets behind a title: "My World" (originally "The Two Fridas". What stands there explains the title.
_BRACKETS_AFTER_TITLE = re.compile(r"[\"”“»」』》]\*{0,2}\s?[(（][^()（）]{0,80}\Z")
# The first part of a longer name: the "South " of "South Sudan".
_MODIFIER_BEFORE = re.compile(rf"({write_pattern(read_phrases('modifier'))})[\s-]\Z", re.IGNORECASE)
# 南苏丹 for 苏丹; but 江西南昌, 湖北武汉 name a province first.
_CHINESE_MODIFIER = re.compile(r"(?<![江广廣山河湖陕陝云雲海济濟淮在以之到向往])[南北东東西新]\Z")
# A capitalised word, not at the start of the sentence: the " Jean " of "by Jean Paul Simon". German nouns do not count:
# in "der Physiker Albert Einstein" an article stands before the word.
_CAPITALISED_BEFORE = re.compile(
    r"(?<=[\w,)])(?<!\b[Dd][eia][rnmes])(?<!\b[Vv]om)(?<!\b[Ee]in)(?<!\b[Ee]ine)\s([^\W\d_]{2,})\.?\s\Z"
)
_TITLES = frozenset(read_phrases("title"))


def _is_end_of_name(before: str, truth: str, question: str) -> bool:
    """Is it only the end of a longer name: "South Sudan" for Sudan, "by Jean Paul Simon" for Paul Simon?"""
    if "\u4e00" <= truth[0] <= "\u9fff":
        return len(truth) > 1 and _CHINESE_MODIFIER.search(before[-2:]) is not None
    if not truth[0].isupper():
        return False
    modifier = _MODIFIER_BEFORE.search(before[-25:])
    if modifier and modifier[1][0].isupper() and modifier[1] not in question:
        return True
    previous = _CAPITALISED_BEFORE.search(before[-40:])
    is_full_name = re.fullmatch(r"[^\W\d_]+(?:\s[^\W\d_]+)+", truth) is not None
    if previous is None or not is_full_name or not previous[1][0].isupper():
        return False
    word = previous[1].casefold()
    return word not in _TITLES and word not in question.casefold()


# Somebody else is meant if the truth is X in "the brother of X", "X's student", X的弟弟, unless the question asks about
# relatives.
_KIN = write_pattern(read_phrases("kin"))
# "the brother of ", "le fils du "
_KIN_BEFORE = re.compile(
    rf"{_KIN}\s"
    r"(?:(?:of|von|vom|de|du|des|del|di|da|do|dos|van|av|af)\s|d['’])?"
    r"(?:(?:the|la|le|el|der|den|il|o)\s)?\Z",
    re.IGNORECASE,
)
# "'s brother", " family", 的弟弟
_KIN_AFTER = re.compile(rf"(?:['’]s?\s(?:\w+\s)?|\s|的|の){_KIN}", re.IGNORECASE)
_KIN_ASKED = re.compile(rf"{_KIN}|{write_pattern(read_phrases('whose'))}", re.IGNORECASE)


# ---- numbers -------------------------------------------------------------------------------------------------------

# "more than ", "at least a number of "
_BOUND_BEFORE = re.compile(
    rf"{write_pattern(read_phrases('bound'))}\s?(?:{write_pattern(read_phrases('bound noun'))}\s)?\Z",
    re.IGNORECASE,
)
_BOUND_ASKED = re.compile(write_pattern(read_phrases("bound")), re.IGNORECASE)
# "25-30", "25 to 30", "25 bis 30"
_RANGE_SIGN = r"\s?(?:[-–—~～至到]|(?:to|through|až|do|bis|à|hasta|até|fino a|tot|till|до|по)\s)\s?"
_RANGE_BEFORE = re.compile(rf"\d{_RANGE_SIGN}\Z", re.IGNORECASE)
_RANGE_AFTER = re.compile(rf"{_RANGE_SIGN}\d", re.IGNORECASE)
# "thousand", "million", 万
_SCALE = write_pattern(read_phrases("scale"))
_SCALE_AFTER = re.compile(rf"\s?({_SCALE})", re.IGNORECASE)
UNITS = [
    re.compile(write_pattern(phrases.split(", ")), re.IGNORECASE)
    for kind, phrases in read_table("claim_words")
    if kind == "unit"
]
"""For each unit, a pattern of its names in all languages."""


def _is_other_number(before: str, after: str, question: str) -> bool:
    """Is the number a bound ("more than 25"), part of a range, or in thousands or a unit that were not asked for?"""
    if _RANGE_BEFORE.search(before[-12:]) or _RANGE_AFTER.match(after[:12]):
        return True
    if _BOUND_BEFORE.search(before[-40:]) and not _BOUND_ASKED.search(question):
        return True
    scale = _SCALE_AFTER.match(after[:20])
    if scale and not re.search(_SCALE, question, re.IGNORECASE):
        return True
    next_word = after[:25].lstrip()
    unit = next((names for names in UNITS if names.match(next_word)), None)
    if unit is None:
        return False
    units_of_question = [names for names in UNITS if names.search(question)]
    return bool(units_of_question) and unit not in units_of_question
