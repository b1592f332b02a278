"""Decides whether sentences of an answer give the expected result, anywhere in a sentence.

The expected result is called the truth. Finding its words is not enough:

>>> question = "Who performed the halftime show?"
>>> mentions(["Lady Gaga performed the halftime show in 2017."], "Lady Gaga", question)
True
>>> mentions(["Although Lady Gaga was asked, Shakira performed."], "Lady Gaga", question)
False

A sentence passes in one of three ways, which `mentions` tries in this order:
1. It names a form of the truth (`_list_forms`): with other endings (Paříž, v Paříži), without middle names, or without
   words that the question gives ("President Obama", "Obama"). Nothing may deny it, doubt it, compare with it, set it
   beside others or make it part of a longer name, and the question itself must not name it.
2. The truth is a date, and the sentence gives the same one in another notation.
3. The truth is a list, and the sentence lists the same parts, perhaps in another order.
"""

from __future__ import annotations

import re
from functools import cache
from typing import NamedTuple

from rubrank._plain import word_set
from rubrank.verifiers.shared.language import detect_language
from rubrank.verifiers.shared.negation import mask_expressions
from rubrank.verifiers.shared.numerals import read_numerals
from rubrank.verifiers.shared.statements import is_denied
from rubrank.verifiers.shared.word_tables import write_pattern
from rubrank.verifiers.truth.dates import find_dates, read_dates
from rubrank.verifiers.truth.surroundings import (
    UNITS,
    fold_accents,
    is_ruled_out,
    read_phrases,
)

LONGEST_SENTENCE = 600  # characters of a sentence that may claim something
_LONGEST_QUESTION = 20_000  # characters at the end of a question that are searched
_MOST_WORDS = 400  # words of a sentence or question that are compared; later ones are not seen

# ---- phrases, from data/claim_words.tsv ----
_AND = write_pattern(read_phrases("and"))
# The sentence only supposes or reports: "might", "some say", "used to be".
DOUBT = re.compile(write_pattern(read_phrases("doubt")), re.IGNORECASE)
_NEGATION = re.compile(write_pattern(read_phrases("negation")), re.IGNORECASE)
# What stands before a thing that is only compared with, or only helps to find another: "unlike Paris".
_RELATED_BEFORE = re.compile(
    rf"({write_pattern(read_phrases('related'))})[\s\"“'‘「《(*_]*\Z", re.IGNORECASE
)
# "While Paris applied, Lyon …": the clause only prepares the answer.
_CONCESSION = re.compile(rf"\W*{write_pattern(read_phrases('concession'))}", re.IGNORECASE)
# With a full name asked for, a name without its middle names is no answer; with a first name asked for, the rest of the
# name may follow it.
_FULL_NAME_ASKED = re.compile(write_pattern(read_phrases("full name")), re.IGNORECASE)
_FIRST_NAME_ASKED = re.compile(write_pattern(read_phrases("first name")), re.IGNORECASE)
_ORDER_ASKED = re.compile(write_pattern(read_phrases("order")), re.IGNORECASE)

# ---- parts of a sentence ----
# What stands between the parts of a list: "A, B and C", A、B和C.
_LIST_SEPARATOR = re.compile(rf"\s*[,;、，]\s*(?:{_AND}\s)?\s*|\s+{_AND}\s+|\s*[和与及]\s*")
_QUOTED = re.compile(r"[\"“„«]([^\"”“»\n]{2,200})[\"”“»]")
_CLAUSE_SIGN = re.compile(r"[,;:，；：]\s")
_CLAUSE_END = re.compile(rf"[,;:，；：。.]|\s{_AND}\s+(?={_NEGATION.pattern})", re.IGNORECASE)
# The start of a sentence before its subject: '**The ' of "**The Beatles played …".
_SENTENCE_START = re.compile(r"[\s*_\"“‘'#>-]*(?:The\s)?")
# A verb behind the subject: the " performed " of "Lady Gaga performed the show". Not "Paris and Lyon", "X of Y".
_VERB = re.compile(
    r"[*_\"”]*\s(?!(?:and|or|of|in|at|on|with|to|from|for|as|than|but|nor|not|near|by|who|which|that|vs|is|was|are)\b)"
    r"[a-z]{3,}\s"
)
# A word that is not the first of its sentence, so that a capital letter makes it a name.
_LATER_WORD = re.compile(r"(?<=[\w,(] )[\"“„«*]*([^\W\d_]\w+)")
# A capital letter or a digit follows at once, so that the name or number may go on: " Hilton", "-2", ".4".
_NEXT_NAME = re.compile(r"(?:[\s'’]{1,2}|-|‐|\.)(?:[A-ZÀ-ÖØ-ÞА-Я]|\d)")
# The name began before a hyphen: the "Rolls-" before "Royce".
_HYPHEN_BEFORE = re.compile(r"[A-Z]\w*[-‐]\Z")
_NUMBERED_NOUN = re.compile(r"\b([^\W\d_]{4,30})\s(\d{1,9})\b(?![.,]\d)")  # "section 107"

# ---- words ----
_UNSPACED = r"\u3040-\u9fff\uac00-\ud7af"
# A number; characters of a script without spaces; any other word, with "'s": 25年 is two words.
_WORD = re.compile(
    rf"\d+(?:[.,]\d+)+|[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[^\W_])+(?:['’][^\W\d_]{{1,2}}\b)?"
)
_ARTICLES = word_set("a an the The")  # "A" may be a name
_SHORT_WORDS = word_set("yes no true false none zero one two")
# Languages whose nouns and names change their endings: Paříž, v Paříži.
_INFLECTED = word_set("cs sk pl ru uk be bg hr sr bs sl lt lv et fi hu tr el ro de la is")
_VOWELS = "aeiouyаеиоуыэюяьй"
_LONG_ENDINGS = word_set("ach ami ich imi ovi ech eho emu ymi ove ами ого ому ыми")  # v Aténách


class _Word(NamedTuple):
    """A word without case and accents (a number in digits), and its place in the text."""

    text: str
    start: int
    end: int


def mentions(sentences: list[str], truth: str, question: str, *, only_lists: bool = False) -> bool:
    """Does one of the sentences answer the question with the truth, or with another form of it?

    sentences: in the order of the answer. If the first one answers with another name, the later ones only tell more
        about that name, so that the truth in them is no answer.
    question: may be empty if it is not known; then the rules are stricter.
    only_lists: the truth counts only as a date, or as a list of all its parts.
    """
    language = detect_language(question)[0] if question.strip() else ""
    sentences = [
        _join_digits(blank_quotations(sentence[:LONGEST_SENTENCE], question))
        for sentence in sentences
    ]
    forms = [] if only_lists else _list_forms(_join_digits(truth), question, language)
    for form in forms:
        letters = "".join(form)
        # "x" and "yes" stand in too many sentences to mean anything there. A number is read as a whole.
        is_number = len(form) == 1 and form[0].isdigit()
        is_short = len(letters) < 2 or _SHORT_WORDS.issuperset(form)
        if (is_short and not is_number) or _is_in_question(form, question, language):
            continue
        for sentence in sentences:
            if not _answers_with(sentence, form, question, language):
                continue
            was_answered_before = (
                sentence is not sentences[0]
                and letters.isalpha()
                and not _find_words(sentences[0], form, language)
                and _gives_answer(sentences[0], sentence, question)
            )
            if not was_answered_before:
                return True
    if any(_names_date(sentence, truth, question) for sentence in sentences):
        return True
    return bool(question.strip()) and any(
        _lists_parts(sentence, truth, question, language) for sentence in sentences
    )


def _gives_answer(first: str, later: str, question: str) -> bool:
    """Is the first sentence the answer: does it give a new name and repeat more of the question than the later one?"""
    question_words = set(_list_words(question))
    names = [fold_accents(name) for name in _LATER_WORD.findall(first) if name[0].isupper()]
    new_names = [
        name for name in names if not any(_share_stem(name, word) for word in question_words)
    ]
    if not new_names:
        return False
    return _count_repeated(first, question_words) > _count_repeated(later, question_words)


def _count_repeated(sentence: str, question_words: set[str]) -> int:
    """Count the question's longer words that the sentence repeats, in whatever form."""
    sentence_words = _list_words(sentence)
    count = 0
    for question_word in question_words:
        if len(question_word) >= 4:
            count += any(_share_stem(question_word, word) for word in sentence_words)
    return count


def _is_in_question(truth_words: list[str], question: str, language: str) -> bool:
    """Does the question name the truth, even inside a longer word: Kanaloa in "Kamakanaloa"?"""
    question = question[-_LONGEST_QUESTION:]
    letters = "".join(truth_words)
    # Inside a word of the question. An adjective is no such word: "Which Parisian street …?" does not name Paris.
    if letters.isalpha() and len(letters) > 4 and is_spaced(letters[0]):
        for word in _list_words(question):
            is_adjective = word.startswith(letters) and len(word) < len(letters) + 4
            if letters in word and not is_adjective:
                return True
    # One word may share its stem with another of the question: Tunis, "the Tunisian mathematician".
    return bool(_find_words(question, truth_words, language if len(truth_words) > 1 else ""))


def blank_quotations(text: str, source: str | None = None) -> str:
    """Return the text with blanks for what it quotes (only from this source, if one is given)."""

    def write_blanks(quotation: re.Match[str]) -> str:
        is_from_elsewhere = source is not None and quotation[1] not in source
        return quotation[0] if is_from_elsewhere else " " * len(quotation[0])

    return _QUOTED.sub(write_blanks, text)


# ---- forms of the truth --------------------------------------------------------------------------------------------


def _list_forms(truth: str, question: str, language: str) -> list[list[str]]:
    """Return forms of the truth, each as a list of words: the whole truth first, then shorter forms of it."""
    truth = re.sub(r"(?<=\w{3})\s*\([^()]*\)\s*\Z", "", truth)  # "Stadion (Diaulos)"
    spelled = [match[0] for match in _WORD.finditer(truth)]
    words = _list_words(truth, language)
    forms = [words]
    # Below, words are compared with their spelling one by one, which is impossible if an article was left out.
    if len(words) != len(spelled) or len(words) < 2 or not question.strip():
        return forms
    question = question[-_LONGEST_QUESTION:]
    is_name = all(word[0].isupper() and word.isalpha() for word in spelled)
    if is_name and len(words) >= 3 and not _FULL_NAME_ASKED.search(question):
        forms.append([words[0], words[-1]])
    # "Which president …?" "President Obama"; "Which section …?" "Section 107"
    is_numbered = len(words) == 2 and words[1][0].isdigit()
    if (is_name or is_numbered) and _find_words(question, words[:1], language):
        forms.append(words[1:])
    # "How many dollars?" "19 dollars": the number is enough.
    if words[0][0].isdigit() and all(_asks_for(question, unit, language) for unit in words[1:]):
        forms.append(words[:1])
    return forms


def _asks_for(question: str, unit: str, language: str) -> bool:
    """Does the question name the unit, or another word for it: "Kolik let …?" "3 roky"?"""
    if _find_words(question, [unit], language):
        return True
    return any(names.fullmatch(unit) and names.search(question) for names in UNITS)


def _names_date(sentence: str, truth: str, question: str) -> bool:
    """Is the truth a date, and the only one that the sentence gives, in any notation: 5.6.1944, June 5, 1944?"""
    true_dates = find_dates(truth)
    dates = find_dates(sentence)
    if len(true_dates) != 1 or len(dates) != 1:
        return False
    true_date, true_start, true_end = true_dates[0]
    date, start, end = dates[0]
    has_other_numbers = re.search(r"\d", truth[:true_start] + truth[true_end:]) is not None
    if date != true_date or has_other_numbers or date in read_dates(question):
        return False
    is_in_brackets = sentence.rfind("(", 0, start) > sentence.rfind(")", 0, start)
    if is_in_brackets or DOUBT.search(sentence):
        return False
    if is_ruled_out(sentence, start, end, question):
        return False
    return not is_in_denying_clause(sentence, start, end, question)


def _lists_parts(sentence: str, truth: str, question: str, language: str) -> bool:
    """Does the sentence list all parts of the truth ("A, B and C") and no others?

    The order matters only if the question asks for one.
    """
    parts = [_list_words(part) for part in _LIST_SEPARATOR.split(truth)]
    # Short parts and numbers are found by chance.
    if len(parts) < 2 or any(len("".join(part)) <= 3 for part in parts) or re.search(r"\d", truth):
        return False
    places: list[tuple[int, int]] = []  # of the first mention of each part
    for part in parts:
        places += _find_words(sentence, part, language)[:1]
    if len(places) < len(parts) or _NEGATION.search(sentence) or DOUBT.search(sentence):
        return False
    if _ORDER_ASKED.search(question) and places != sorted(places):
        return False
    list_start = min(start for start, _ in places)
    listed = sentence[list_start:]
    # Explanations between the parts begin with small letters: "A, which is …, and B (1809), which …".
    entries = [entry.lstrip(' "“„«*_(') for entry in _LIST_SEPARATOR.split(listed)]
    explanations = [entry for entry in entries if entry and entry[0].islower()]
    names = [entry for entry in entries if entry and not entry[0].islower()]
    if len(explanations) > len(parts):
        return False
    # If the parts themselves are written small, explanations cannot be told from them.
    are_parts_small = any(sentence[start].islower() for start, _ in places)
    return len(entries if are_parts_small else names) <= len(parts)


# ---- a sentence and one form of the truth --------------------------------------------------------------------------


def _answers_with(sentence: str, truth_words: list[str], question: str, language: str) -> bool:
    """Does the sentence name the truth as an answer, and nothing in it deny, doubt or replace the truth?"""
    places = _find_words(sentence, truth_words, language)
    if not places or sentence.rstrip(" \"”'").endswith(("?", "？")):
        return False
    start, end = places[0]
    before = sentence[:start]
    after = sentence[end:]
    # Titles may hold any words: "Never Let Me Go" denies nothing.
    unquoted = blank_quotations(sentence)
    if DOUBT.search(f"{unquoted[:start]} {unquoted[end:]}"):
        return False
    if not question.strip():
        # Then only the subject of the sentence counts: "Lady Gaga performed …".
        is_subject = _SENTENCE_START.fullmatch(before) and end > 3 and _VERB.match(sentence, end)
        if not is_subject:
            return False
    if is_denied(sentence, start, end) or is_ruled_out(sentence, start, end, question):
        return False
    related = _RELATED_BEFORE.search(before)
    if related and not re.search(rf"\b{re.escape(related[1])}\b", question, re.IGNORECASE):
        return False
    if is_in_denying_clause(unquoted, start, end, question):
        return False
    if _HYPHEN_BEFORE.search(before) or _is_start_of_name(sentence[start:end], after, question):
        return False
    is_number = re.fullmatch(r"\d+(?:[.,]\d+)?", sentence[start:end]) is not None
    if is_number and re.match(r"\.\s?[^\W\d_]", after):  # "3. března": a day or an ordinal
        return False
    return not has_rival_number(sentence, truth_words, question)


def is_in_denying_clause(sentence: str, start: int, end: int, question: str) -> bool:
    """Does the clause around sentence[start:end] deny something, or only concede it ("While Paris applied, …")?

    A negative question allows a negative clause: "Asana did not report." answers "Which company did not report?".
    """
    sentence = mask_expressions(sentence)
    clause_before = _CLAUSE_SIGN.split(sentence[:start])[-1]
    clause = f"{clause_before} {_CLAUSE_END.split(sentence[end:])[0]}"
    if _CONCESSION.match(clause_before):
        return True
    return _NEGATION.search(clause) is not None and _NEGATION.search(question) is None


def _is_start_of_name(mention: str, after: str, question: str) -> bool:
    """Is the truth only the beginning of a longer name or number: "Paris Hilton" for Paris, "1.4.4.1" for 1.4?

    mention: the truth as the sentence writes it. after: the rest of the sentence behind it.
    """
    next_name = _NEXT_NAME.match(after)
    if next_name is None:
        return False
    if after[0] != " ":  # "Paris-Nice", "1.4.4.1"
        return True
    is_before_name = next_name[0][-1].isalpha()
    if mention[0].isdigit():
        # "in 1944 Bohr" and "3,5 TeV" are whole numbers; "12 000" goes on.
        return not is_before_name
    if is_before_name and mention[0].isupper():
        # The first name is enough if only that was asked for.
        return _FIRST_NAME_ASKED.search(question) is None
    # A number follows ("October 1993"), or a name follows a word in small letters. It does not belong to the truth if
    # the question gives it: "in October 1993" answers "In which month of 1993 …?".
    next_words = _list_words(after[:100])
    if not next_words:
        return False  # there is only an article behind it, as in a text that breaks off: "the dragon The"
    return next_words[0] not in set(_list_words(question))


# ---- other numbers -------------------------------------------------------------------------------------------------


def names_other_numbers(answer: str, truth: str, question: str) -> bool:
    """Does the answer offer another number for the same thing: "section 107 … section 144 was used, too"?

    The thing must be named in the question. Years are left out: an answer may tell what happened in other years.
    """
    truth = truth.strip(" .。")
    if not truth.isdigit() or len(truth) == 4:
        return False
    question_words = set(_list_words(question))
    numbered = [(fold_accents(noun), number) for noun, number in _NUMBERED_NOUN.findall(answer)]
    # Nouns of the question that the answer numbers with the truth: "section" in "section 107".
    true_nouns = set()
    for noun, number in numbered:
        if number == truth and any(_share_stem(noun, word) for word in question_words):
            true_nouns.add(noun)
    for noun, number in numbered:
        is_other = number != truth and number not in question_words
        if is_other and any(_share_stem(noun, true_noun) for true_noun in true_nouns):
            return True
    return False


def has_rival_number(sentence: str, truth_words: list[str], question: str) -> bool:
    """Does the sentence hold another number that might be the answer?

    It is not in the question, and it is a year (four digits) if and only if the truth is one.
    """
    numbers = [word for word in truth_words if word.isdigit()]
    # A truth of three words or more is too special to be confused with another number.
    if len(truth_words) > 2 or not numbers:
        return False
    is_year = max(map(len, numbers)) == 4
    question_words = set(_list_words(question))
    places = _find_words(sentence, truth_words)
    if places:
        start, end = places[0]
        # "15 days" answers "How many days …?", whatever other numbers follow.
        noun = re.match(r"\s([^\W\d_]{3,})", sentence[end:])
        if noun and any(_share_stem(fold_accents(noun[1]), word) for word in question_words):
            return False
        sentence = _select_clause(sentence, start, question_words)
    without_brackets = re.sub(r"\([^()]*\)", " ", sentence)  # what is in brackets explains
    for word in _list_words(without_brackets):
        is_other = word.isdigit() and word not in truth_words and word not in question_words
        is_of_same_kind = (len(word) == 4) == is_year
        if is_other and is_of_same_kind:
            return True
    return False


def _select_clause(sentence: str, place: int, question_words: set[str]) -> str:
    """Return the clause at the place if it repeats most of the question's words, else the whole sentence.

    If it does, the other clauses are about something else: "NATO's first office was set up in 1952, after it was
    founded in 1949."
    """
    start = max(sentence.rfind(", ", 0, place), 0)
    end = sentence.find(", ", place)
    clause = sentence[start : end if end >= 0 else len(sentence)]
    long_words = [word for word in question_words if len(word) >= 4]
    repeated = _count_repeated(clause, question_words)
    return clause if repeated >= 3 and repeated >= 0.6 * len(long_words) else sentence


def _join_digits(text: str) -> str:
    """Return the text with 7 000 as 7000, and 2nd as 2."""
    text = re.sub(
        r"(?<![\d.,])(\d{1,3})((?:[ \u00a0\u202f]\d{3})+)(?!\d)",
        lambda match: match[1] + re.sub(r"\D", "", match[2]),
        text,
    )
    return re.sub(r"(?<=\d)(?:st|nd|rd|th)\b", "", text)


# ---- words ---------------------------------------------------------------------------------------------------------


def is_spaced(char: str) -> bool:
    """Is it a letter of a script that puts spaces between words?"""
    if "\u0e00" <= char <= "\u0e7f" or "\u3040" <= char <= "\u9fff" or "\uac00" <= char <= "\ud7af":
        return False
    return char.isalnum()


@cache
def _read_number_words(language: str) -> dict[str, str]:
    """Return English number words and those of another language, without accents, with their digits: "ctyrmi": "4"."""
    words = read_numerals("en") | read_numerals(language)
    return {fold_accents(word): value for word, value in words.items() if value.isdigit()}


def _list_words(text: str, language: str = "") -> list[str]:
    """Return the words of a text without case, accents and articles, numbers in digits: "The Four" → ["4"]."""
    return [word.text for word in _split_words(text, language)]


def _split_words(text: str, language: str = "") -> list[_Word]:
    """Return the first `_MOST_WORDS` words of a text, without articles."""
    number_words = _read_number_words(language)
    words = []
    for match in _WORD.finditer(text):
        word = match[0]
        if word[0].isdigit():
            word = re.sub(r",(?=\d{3}(?!\d))", "", word)
        else:
            word = fold_accents(word)
        if word and match[0] not in _ARTICLES:
            words.append(_Word(number_words.get(word, word), match.start(), match.end()))
        if len(words) > _MOST_WORDS:
            break
    return words


def _find_words(text: str, truth_words: list[str], language: str = "") -> list[tuple[int, int]]:
    """Return the places (start, end) where the words follow each other; the last may have an English plural ending.

    In a `language` that inflects, words may have other endings. A date may stand in another order ("5 June 1944").
    In scripts without spaces, the first place of the same characters is returned.
    """
    joined = "".join(truth_words)
    if not all(char.isascii() or is_spaced(char) for char in joined):
        start = text.find(joined)
        return [] if start < 0 else [(start, start + len(joined))]
    words = _split_words(text, language)
    places = []
    n = len(truth_words)
    last = truth_words[-1]
    endings = {last}
    if not last.isdigit() and len(last) >= 3:
        endings |= {f"{last}s", f"{last}es", last.removesuffix("s")}
    is_date = (
        n == 3
        and sum(word.isdigit() for word in truth_words) == 2
        and any(len(word) == 4 for word in truth_words)
    )
    for i in range(len(words) - n + 1):
        row = [word.text for word in words[i : i + n]]
        is_same = row[:-1] == truth_words[:-1] and row[-1] in endings
        is_same_date = is_date and sorted(row) == sorted(truth_words)
        is_other_form = language in _INFLECTED and _is_inflected(row, truth_words)
        if is_same or is_same_date or is_other_form:
            places.append((words[i].start, words[i + n - 1].end))
    return places


def _is_inflected(row: list[str], truth_words: list[str]) -> bool:
    """Are the words those of the truth with other endings? "Jana Nováková" is another person than Jan Novák."""
    is_feminine = row[-1] == f"{truth_words[-1]}ova"
    if is_feminine and row[:-1] != truth_words[:-1]:
        return False
    return all(map(_share_stem, row, truth_words))


def _share_stem(word: str, other: str) -> bool:
    """Is the word a form of the other: únoru of únor, Rimingtonová of Rimington?

    Both come without accents. The order matters: Martina may be a form of Martin, but Martin is none of Martina. They
    must share more than half of the longer word.
    """
    if word == other:
        return True
    if word[0] != other[0] or not (word.isalpha() and other.isalpha()):
        return False
    if other == f"{word}a":
        return False
    # Czech June (červen, června) and July (červenec, července) share more than their stem.
    july = ("cervenec", "cervenc")
    if word.startswith(july) != other.startswith(july):
        return False
    # A vowel before the last consonant may be left out: Karel, Karlem; Poláček, Poláčkem.
    may_lose_vowel = len(other) > 4 and other[-2] in "eoео" and len(word) <= len(other) + 2
    if may_lose_vowel and word.startswith(other[:-2] + other[-1]):
        return True
    shorter = min(len(word), len(other))
    longer = max(len(word), len(other))
    stem = 0
    while stem < shorter and word[stem] == other[stem]:
        stem += 1
    if stem < 3 or 2 * stem <= longer:
        return False
    if word == f"{other}ova":
        return True
    # Another last consonant makes another word: Irán, Irák. Another vowel does not: Praha, Prahy.
    ending = word[stem:]
    other_ending = other[stem:]
    has_vowel = ending in _VOWELS or other_ending in _VOWELS
    if len(ending) == len(other_ending) == 1 and not has_vowel:
        return False
    return longer - stem <= 2 or (ending in _LONG_ENDINGS and len(other_ending) <= 1)
