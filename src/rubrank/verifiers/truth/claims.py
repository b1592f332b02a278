"""Does an answer claim the truth? "The capital of France is Paris." claims Paris; "It is not Paris" does not.

>>> claims("The capital of France is Paris.", "Paris"), claims("Some say Paris, but it is Lyon.", "Paris")
(True, False)
>>> question = "Who performed the halftime show?"
>>> claims("Lady Gaga performed it in 2017.", "Lady Gaga", question)
True
>>> claims("Although Lady Gaga was asked, Shakira performed.", "Lady Gaga", question)
False

The first sentence (the first two if the question is known) and the last are searched for the truth:
1. `_states`: the truth stands letter by letter where an answer stands: at the end of a clause behind "is" or a colon
   ("It is Paris."), or at the beginning of the sentence before a verb ("Paris is the capital.").
2. `_mentions`, if the question is known and does not name the truth: a form of the truth stands anywhere in the
   sentence, perhaps with another ending (Paříž, v Paříži), without middle names, or without words that the question
   gives ("President Obama").
3. `_names_date`, `_lists_parts`: the sentence gives the date in another notation, or all parts of a list.
In all three, `_is_answer` rejects a truth that is denied, doubted, hedged ("Paris or Lyon"), only compared with, one of
several names, or a part of a longer name. `surroundings` has the tests that need only the words around the truth.

Some sentences with the truth Lady Gaga and the question "Who performed the halftime show?", and the rule that decides:

    It was Lady Gaga.                                   claimed by 1: behind "was", at the end
    Lady Gaga performed it in 2017.                     claimed by 1: at the beginning, before a verb
    The show of 2017 featured Lady Gaga live.           not found by 1, claimed by 2
    Gaga performed the show.                            not found: a first word is left out only if the question has it
  The rest is found by 1 or 2, and then rejected by `_is_answer`, whose tests run in this order:
    Perhaps it was Lady Gaga.                           `_DOUBT`
    It was not Lady Gaga.                               `is_ruled_out`: denied
    It was Lady Gaga or Shakira.                        `is_ruled_out`: an alternative
    The show featured Lady Gaga and Shakira.            `is_ruled_out`: one of several names
    Before Lady Gaga, Shakira performed.                `_RELATED_BEFORE`
    While Lady Gaga applied, Shakira sang.              `_CONCESSION`
    Lady Gaga has never performed the show.             `_NEGATION`
    It was Lady Gaga Junior.                            `_is_start_of_name`
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from functools import cache, lru_cache
from typing import NamedTuple

from rubrank._plain import replace_surrogates, word_set
from rubrank.texts.text import split_sentences
from rubrank.verifiers.paper.length import load_converter
from rubrank.verifiers.shared.answers import RETRACTION
from rubrank.verifiers.shared.language import detect_language
from rubrank.verifiers.shared.negation import mask_expressions
from rubrank.verifiers.shared.numbers import read_numerals
from rubrank.verifiers.shared.word_tables import write_pattern
from rubrank.verifiers.truth.measurements import find_dates, read_dates
from rubrank.verifiers.truth.surroundings import (
    CLOSING_MARKS,
    OPENING_MARKS,
    UNITS,
    fold_accents,
    is_ruled_out,
    read_phrases,
)

_LONGEST_SENTENCE = 600  # characters of a sentence that may claim something
_LONGEST_QUESTION = 20_000  # characters at the end of a question that are searched
_MOST_MENTIONS = 20  # of the truth in one sentence
_MOST_WORDS = 400  # words of a sentence or question that are compared; later ones are not seen

_ENGLISH_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
# A line that is a name and nothing else: "- Paris", "2. **New York**". "- Answer: Paris" says more.
_ENTRY = re.compile(r"^\s*+(?:[-*•–]|\d{1,2}[.)])\s++([^\s:：]++(?:[ \t]++[^\s:：]++){0,5}+)\s*+$")
_IS = rf"(?:{write_pattern(read_phrases('is'))}|[은는이가](?=\s)|[:：=＝—–→-])"
# Small words and marks that may stand between "is" and the truth: "is certainly the city of **".
_SMALL = rf"(?:{OPENING_MARKS}|{write_pattern(read_phrases('small'))}|\b[dl]['’])*"
_CLAIM_BEFORE = re.compile(rf"{_IS}{_SMALL}\Z", re.IGNORECASE)
# "is" and a description before the name: "is the German composer …", 是唐代诗人…. Not "is the capital of …".
_DESCRIBED_BEFORE = re.compile(
    r"""\b(?:is|was|are|were|est|es|é|è|ist|war)\s+
    (?:the|a|an|la|le|el|il|o|der|die|das|un|une|una|ein|eine)\s+
    (?:
        (?!(?:not|or|and|than|of|from|to|near|outside|like|unlike|before|after|without|with|for|by|but|no
            |ou|oder|et|und|de|von)\b)
        [^\W\d_]+\s+
    ){1,4}\Z
    | (?:是|为)[^，。；、！？或和与及不非没比跟同,.;\s]{1,10}\Z""",
    re.IGNORECASE | re.VERBOSE,
)
# The truth begins the sentence: only marks, "so" or "therefore", and small words stand before it.
_START_BEFORE = re.compile(
    rf"\A(?:{OPENING_MARKS}|[#>-])*(?:{write_pattern(read_phrases('opening'))}[\s,，:：]*)?{_SMALL}\Z",
    re.IGNORECASE,
)
# The clause ends behind the truth: with the text, a full stop, "is" in languages that put it last (です, 입니다), a
# word that begins another clause ("because"), or a comma and a remark (", of course", ", the capital of France").
_CLAUSE_END = re.compile(
    rf"""{CLOSING_MARKS}
    (?: \Z | [.。．!！;；\n?？](?:\W|\Z) | [.。．!！;；]
      | です | だ(?!\w) | である | でした | 입니다 | 이다 | 예요 | 이에요 | है | है। | dir\b | dır\b | dur\b
      | [,，、]?\s*{write_pattern(read_phrases("clause start"))}
      | ,\s*{write_pattern(read_phrases("remark start"))}
    )""",
    re.IGNORECASE | re.VERBOSE,
)
# Behind the truth as the subject: "Paris is …", "Newton discovered …", 鲁迅写的.
_VERB_AFTER = re.compile(
    rf"""{CLOSING_MARKS}
    (?: \s(?:is|are|was|were|has|had|est|es|é|è|ist|war|är|er|jest|adalah|là|это)\b
      | \s?[—–:：]\s
      | 是 | 为 | は | が | [写作创著发画唱导建][^，。]{{0,3}}的 | 이 | 가 | 은 | 는
      # any verb: "Lady Gaga performed the show"; not "Paris and Lyon", "X of Y"
      | [*_"”]*\s(?!(?:and|or|of|in|at|on|with|to|from|for|as|than|but|nor|not|near|by|who|which|that|vs)\b)
        (?-i:[a-z]{{3,}})\s
    )""",
    re.IGNORECASE | re.VERBOSE,
)
# ---- phrases, from data/claim_words.tsv ----
_AND = write_pattern(read_phrases("and"))
# The sentence only supposes or reports: "might", "some say", "used to be".
_DOUBT = re.compile(write_pattern(read_phrases("doubt")), re.IGNORECASE)
_NEGATION = re.compile(write_pattern(read_phrases("negation")), re.IGNORECASE)
# Words before a thing that is compared with the answer, or only helps to find it: "unlike Paris", "near Paris".
_RELATED_BEFORE = re.compile(
    rf"({write_pattern(read_phrases('related'))})[\s\"“'‘「《(*_]*\Z", re.IGNORECASE
)
# "While Paris applied, Lyon …": the clause only prepares the answer.
_CONCESSION = re.compile(rf"\W*{write_pattern(read_phrases('concession'))}", re.IGNORECASE)
# If a full name is asked for, the middle names must not be left out. If a first name is asked for, the rest of the name
# may follow it.
_FULL_NAME_ASKED = re.compile(write_pattern(read_phrases("full name")), re.IGNORECASE)
_FIRST_NAME_ASKED = re.compile(write_pattern(read_phrases("first name")), re.IGNORECASE)
_ORDER_ASKED = re.compile(write_pattern(read_phrases("order")), re.IGNORECASE)

# ---- parts of a sentence ----
# What stands between the parts of a list: "A, B and C", A、B和C.
_LIST_SEPARATOR = re.compile(rf"\s*[,;、，]\s*(?:{_AND}\s)?\s*|\s+{_AND}\s+|\s*[和与及]\s*")
_QUOTED = re.compile(r"[\"“„«]([^\"”“»\n]{2,200})[\"”“»]")
_CLAUSE_SIGN = re.compile(r"[,;:，；：]\s")
_DENIAL_END = re.compile(rf"[,;:，；：。.]|\s{_AND}\s+(?={_NEGATION.pattern})", re.IGNORECASE)
# A word that is not the first of its sentence, so that a capital letter makes it a name.
_LATER_WORD = re.compile(r"(?<=[\w,(] )[\"“„«*]*([^\W\d_]\w+)")
# A capital letter or a digit follows at once, so that the name or number may go on: " Hilton", "-2", ".4".
_NEXT_NAME = re.compile(r"(?:[\s'’]{1,2}|-|‐|\.)(?:[A-ZÀ-ÖØ-ÞА-Я]|\d)")
# The name began before a hyphen: the "Rolls-" before "Royce".
_HYPHEN_BEFORE = re.compile(r"[A-Z]\w*[-‐]\Z")

# ---- words ----
# What Korean joins to a word: "is", "was", "of", "in" …
_KOREAN_PARTICLE = (
    "(?:은|는|이|가|을|를|의|에|에서|에게|도|만|로|으로|와|과|이나|나|까지|부터|다|이다|였다|이었다|입니다|이며|이고"
    "|였습니다|이었습니다|예요|이에요|라고|이라고|라는|이라는)"
)
_UNSPACED = r"\u3040-\u9fff\uac00-\ud7af"
# A number; characters of a script without spaces; any other word, with "'s": 25年 is two words.
_WORD = re.compile(
    rf"\d+(?:[.,]\d+)+|[{_UNSPACED}]+|(?:(?![{_UNSPACED}])[^\W_])+(?:['’][^\W\d_]{{1,2}}\b)?"
)
_GROUPED_NUMBER = re.compile(r"(?<![\d.,])\d{1,3}(?: \d{3})+(?!\d)")  # 7 000
_ARTICLES = word_set("a an the The")  # "A" may be a name
_SHORT_WORDS = word_set("yes no true false none zero one two")
# Languages whose nouns and names change their endings: Paříž, v Paříži.
_INFLECTED = word_set("cs sk pl ru uk be bg hr sr bs sl lt lv et fi hu tr el ro de la is")
_CZECH_JULY = ("cervenec", "cervenc")
_VOWELS = "aeiouyаеиоуыэюяьй"
_LONG_ENDINGS = word_set("ach ami ich imi ovi ech eho emu ymi ove ами ого ому ыми")  # v Aténách


class _Word(NamedTuple):
    """A word without case and accents (a number in digits), and its place in the text."""

    text: str
    start: int
    end: int


def normalise(text: str) -> str:
    """Return the text in lower case, normal width and Simplified characters, without punctuation and articles."""
    text = unicodedata.normalize("NFKC", replace_surrogates(text)).casefold()
    if not text.isascii():
        text = load_converter("t2s").convert(text)
    letters = ""
    for char in text.replace("'", ""):
        letters += char if char.isalnum() or unicodedata.category(char)[0] in "SM" else " "
    without_articles = " ".join(_ENGLISH_ARTICLES.sub(" ", letters).split())
    # A text that has only articles or punctuation keeps them.
    return without_articles or " ".join(letters.split()) or text.strip()


def claims(answer: str, truth: str, question: str = "") -> bool:
    """Does the first or the last sentence claim the truth, without a later retraction or another number beside it?

    If the question is known, the second sentence counts as well.
    """
    is_asked = bool(question.strip())
    language = detect_language(question)[0] if is_asked else ""
    prose, entries = separate_list(answer)
    if entries and is_asked and _lists_parts(", ".join(entries), truth, question, language):
        return True
    sentences = [_simplify(sentence[:_LONGEST_SENTENCE]) for sentence in split_sentences(prose)]
    truth = _simplify(truth).strip(" .。")
    if not sentences or not truth:
        return False
    candidates = sentences[: 2 if is_asked else 1]
    if RETRACTION.search(" ".join(sentences[1:])[:4000]):
        candidates = []
    candidates = list(dict.fromkeys([*candidates, sentences[-1]]))
    if any(_states(sentence, truth, question) for sentence in candidates):
        return True
    if not is_asked:
        return False
    candidates = [_blank_quotations(sentence, question) for sentence in candidates]
    return _mentions(candidates, truth, question, language) or any(
        _names_date(sentence, truth, question) or _lists_parts(sentence, truth, question, language)
        for sentence in candidates
    )


def separate_list(answer: str) -> tuple[str, list[str]]:
    """Return the answer without its list of names, and the names: lines with a bullet or number and a short name.

    A name in such a list is not claimed, because the answer names several. A single such line is not a list.
    """
    lines = answer.splitlines()
    matches = [_ENTRY.match(line) for line in lines]
    entries = [match[1].strip("*_.,; ") for match in matches if match]
    if len(entries) < 2:
        return answer, []
    rest = [line for line, match in zip(lines, matches, strict=True) if match is None]
    return "\n".join(rest), entries


def _simplify(text: str) -> str:
    """Return the text in one width, in Simplified characters, with single spaces, 7 000 as 7000 and 2nd as 2."""
    text = unicodedata.normalize("NFKC", replace_surrogates(text))
    if not text.isascii():
        text = load_converter("t2s").convert(text).replace("ß", "ss")
    text = _GROUPED_NUMBER.sub(lambda number: number[0].replace(" ", ""), " ".join(text.split()))
    return re.sub(r"(?<=\d)(?:st|nd|rd|th)\b", "", text)


# ---- the three ways to claim ----------------------------------------------------------------------------------------


def _states(sentence: str, truth: str, question: str) -> bool:
    """Does the truth end a clause after "is", or begin the sentence before a verb or the end of a clause?"""
    left = r"(?<!\w)" if _is_spaced(truth[0]) else ""
    right = r"(?!\w)" if _is_spaced(truth[-1]) else ""
    # The words of the truth may be joined by hyphens.
    words = r"[\s\-‐]+".join(map(re.escape, truth.replace("-", " ").split()))
    mentions = re.finditer(left + words + right, sentence, re.IGNORECASE)
    for mention in itertools.islice(mentions, _MOST_MENTIONS):
        before = sentence[: mention.start()]
        after = sentence[mention.end() :]
        ends_clause = _CLAUSE_END.match(after) is not None
        if _START_BEFORE.match(before):
            is_claimed = ends_clause or _VERB_AFTER.match(after) is not None
        else:
            is_claimed = ends_clause and bool(
                _CLAIM_BEFORE.search(before[-80:]) or _DESCRIBED_BEFORE.search(before[-120:])
            )
        if is_claimed and _is_answer(sentence, *mention.span(), [truth.casefold()], question):
            return True
    return False


def _mentions(sentences: list[str], truth: str, question: str, language: str) -> bool:
    """Does one of the sentences answer the question with a form of the truth that the question does not name?

    If the first sentence answers with another name, later ones only tell more about that name: a truth in them does not
    count.
    """
    for form in _list_forms(truth, question, language):
        letters = "".join(form)
        # "x" and "yes" stand in too many sentences to mean anything there. A number is read as a whole.
        is_short = len(letters) < 2 or _SHORT_WORDS.issuperset(form)
        if (is_short and not letters.isdigit()) or _is_in_question(form, question, language):
            continue
        first = sentences[0]
        # "Jana Malá received the medal. She often thanked Eva Nová for it.": the first sentence answers "Who received
        # the medal?", so Eva Nová is not claimed. This is about names, not numbers, and about names that the first
        # sentence does not have.
        may_be_answered_before = letters.isalpha() and not _find_words(first, form, language)
        for sentence in sentences:
            places = _find_words(sentence, form, language)[:1]
            if not places or not _is_answer(sentence, *places[0], form, question):
                continue
            if sentence is first or not may_be_answered_before:
                return True
            if not _gives_answer(first, sentence, question):
                return True
    return False


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
    """Count the question's longer words that the sentence repeats, perhaps with other endings."""
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
    if letters.isalpha() and len(letters) > 4 and _is_spaced(letters[0]):
        for word in _list_words(question):
            is_adjective = word.startswith(letters) and len(word) < len(letters) + 4
            if letters in word and not is_adjective:
                return True
    # One word may share its stem with another of the question: Tunis, "the Tunisian mathematician".
    return bool(_find_words(question, truth_words, language if len(truth_words) > 1 else ""))


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
    # "Which president …?" "President Obama"
    if is_name and _find_words(question, words[:1], language):
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
    return _is_answer(sentence, start, end, [], question)


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
    if len(places) < len(parts) or _NEGATION.search(sentence) or _DOUBT.search(sentence):
        return False
    if _ORDER_ASKED.search(question) and places != sorted(places):
        return False
    listed = sentence[min(start for start, _ in places) :]
    entries = [entry.lstrip(' "“„«*_(') for entry in _LIST_SEPARATOR.split(listed)]
    # Explanations between the parts begin with small letters: "A, which is …, and B (1809), which …". If the parts
    # themselves are written small, explanations cannot be told from them.
    if not any(sentence[start].islower() for start, _ in places):
        entries = [entry for entry in entries if not entry[:1].islower()]
    return len(entries) <= len(parts)


# ---- what rules a claim out -----------------------------------------------------------------------------------------


def _is_answer(sentence: str, start: int, end: int, truth_words: list[str], question: str) -> bool:
    """Is the truth at sentence[start:end] meant as the answer: does nothing deny, doubt or replace it?"""
    before = sentence[:start]
    after = sentence[end:]
    # Titles may hold any words: "Never Let Me Go" denies nothing.
    unquoted = _blank_quotations(sentence)
    if _DOUBT.search(f"{unquoted[:start]} {unquoted[end:]}") or after.rstrip(" \"”'").endswith("?"):
        return False
    if is_ruled_out(sentence, start, end, question):
        return False
    related = _RELATED_BEFORE.search(before)
    if related and not re.search(rf"\b{re.escape(related[1])}\b", question, re.IGNORECASE):
        return False
    # The clause around the truth denies something, or only prepares the answer ("While Paris applied, …"). A negative
    # question allows a denial: "Asana did not report." answers "Which company did not report?".
    masked = mask_expressions(unquoted)
    clause_before = _CLAUSE_SIGN.split(masked[:start])[-1]
    clause = f"{clause_before} {_DENIAL_END.split(masked[end:])[0]}"
    if _CONCESSION.match(clause_before):
        return False
    if _NEGATION.search(clause) and not _NEGATION.search(question):
        return False
    if _HYPHEN_BEFORE.search(before) or _is_start_of_name(sentence[start:end], after, question):
        return False
    is_number = re.fullmatch(r"\d+(?:[.,]\d+)?", sentence[start:end]) is not None
    if is_number and re.match(r"\.\s?[^\W\d_]", after):  # "3. března": a day or an ordinal
        return False
    return not _has_rival_number(sentence, truth_words, question)


def _blank_quotations(text: str, source: str | None = None) -> str:
    """Return the text with blanks for what it quotes (only from this source, if one is given)."""

    def write_blanks(quotation: re.Match[str]) -> str:
        is_from_elsewhere = source is not None and quotation[1] not in source
        return quotation[0] if is_from_elsewhere else " " * len(quotation[0])

    return _QUOTED.sub(write_blanks, text)


def _is_start_of_name(mention: str, after: str, question: str) -> bool:
    """Is the truth only the beginning of a longer name or number: "Paris Hilton" for Paris, "1.4.4.1" for 1.4?

    mention: the truth as the sentence writes it. after: the rest of the sentence behind it.

        mention    after            result
        Paris      " is big"        False    neither a name nor a number follows
        Paris      "-Nice"          True     joined by a mark
        1.4        ".4.1"           True
        1944       " Bohr fled"     False    a number ends before a name
        12         " 000"           True     but not before digits
        Paris      " Hilton"        True     unless the question asks for a first name
        October    " 1993"          True     unless the question gives the next word: "In which month of 1993 …?"
        dragon     " Smaug"         True     as before
    """
    next_name = _NEXT_NAME.match(after)
    if next_name is None:
        return False
    if after[0] != " ":
        return True
    is_before_name = next_name[0][-1].isalpha()
    if mention[0].isdigit():
        return not is_before_name
    if is_before_name and mention[0].isupper():
        return _FIRST_NAME_ASKED.search(question) is None
    next_words = _list_words(after[:100])
    if not next_words:
        return False  # only an article follows, as in a text that breaks off: "the dragon The"
    return next_words[0] not in set(_list_words(question))


# ---- other numbers -------------------------------------------------------------------------------------------------


def _has_rival_number(sentence: str, truth_words: list[str], question: str) -> bool:
    """Does the sentence hold another number that might be the answer?

    It is not in the question, and it is a year (four digits) if and only if the truth is one.
    """
    numbers = [word for word in truth_words if word.isdigit()]
    # Only a number alone or with one word ("15", "15 days") is likely to have rivals. In a longer truth the other words
    # show what the number counts: "12 angry men", "June 5, 1944".
    if not numbers or len(truth_words) > 2:
        return False
    is_year = max(map(len, numbers)) == 4
    question_words = set(_list_words(question))
    places = _find_words(sentence, truth_words)
    if places:
        end = places[0][1]
        # "15 days" answers "How many days …?", whatever other numbers follow.
        noun = re.match(r"\s([^\W\d_]{3,})", sentence[end:])
        if noun and any(_share_stem(fold_accents(noun[1]), word) for word in question_words):
            return False
    without_brackets = re.sub(r"\([^()]*\)", " ", sentence)  # what is in brackets explains
    for word in _list_words(without_brackets):
        is_other = word.isdigit() and word not in truth_words and word not in question_words
        is_of_same_kind = (len(word) == 4) == is_year
        if is_other and is_of_same_kind:
            return True
    return False


# ---- words ---------------------------------------------------------------------------------------------------------


def _is_spaced(char: str) -> bool:
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
        if len(words) == _MOST_WORDS:
            break
    return words


def _find_words(text: str, truth_words: list[str], language: str = "") -> list[tuple[int, int]]:
    """Return the places (start, end) where the words follow each other.

    The last word may have an English plural ending; in a `language` that inflects, each word may have another ending.
    In scripts without spaces, the same characters may stand anywhere; see `_compile_unspaced`.
    """
    if not all(char.isascii() or _is_spaced(char) for char in "".join(truth_words)):
        return [match.span() for match in _compile_unspaced(tuple(truth_words)).finditer(text)]
    words = _split_words(text, language)
    places = []
    n = len(truth_words)
    last = truth_words[-1]
    endings = {last}
    if not last.isdigit() and len(last) >= 3:
        endings |= {f"{last}s", f"{last}es", last.removesuffix("s")}
    for i in range(len(words) - n + 1):
        row = [word.text for word in words[i : i + n]]
        is_same = row[:-1] == truth_words[:-1] and row[-1] in endings
        is_other_form = language in _INFLECTED and all(map(_share_stem, row, truth_words))
        # "Jana Nováková" is another person than Jan Novák.
        if row[-1] == f"{last}ova" and row[:-1] != truth_words[:-1]:
            is_other_form = False
        if is_same or is_other_form:
            places.append((words[i].start, words[i + n - 1].end))
    return places


@lru_cache(maxsize=1024)
def _compile_unspaced(truth_words: tuple[str, ...]) -> re.Pattern[str]:
    """Return a pattern for words of a script without spaces between words, with or without spaces: iPhone 手机.

    A letter or digit of another script at an edge must not go on: the 25 of 25岁 is not found in 125岁. Korean has
    spaces, but joins particles to words: 한라산이 has 한라산, and 서울대학교 (a university) does not have 서울.
    """
    first = truth_words[0][0]
    last = truth_words[-1][-1]
    left = ""
    right = ""
    if _is_hangul(first):
        left = r"(?<![\uac00-\ud7af])"
    elif _is_spaced(first):
        left = r"(?<![a-z\d])"
    if _is_hangul(last):
        right = rf"(?={_KOREAN_PARTICLE}?(?![\uac00-\ud7af]))"
    elif _is_spaced(last):
        right = r"(?![a-z\d])"
    return re.compile(left + r"\s*".join(map(re.escape, truth_words)) + right, re.IGNORECASE)


def _is_hangul(char: str) -> bool:
    return "\uac00" <= char <= "\ud7af"


def _share_stem(word: str, other: str) -> bool:
    """Is the word a form of the other: únoru of únor, Rimingtonová of Rimington?

    Both come without accents, and must share more than half of the longer word. The order matters: Martina may be a
    form of Martin, but Martin is not a form of Martina.
    """
    if word == other:
        return True
    if word[0] != other[0] or not (word.isalpha() and other.isalpha()):
        return False
    # Two pairs of Czech words that share enough and are no forms: Martin of Martina, and July (červenec, července) of
    # June (červen, června).
    if other == f"{word}a" or word.startswith(_CZECH_JULY) != other.startswith(_CZECH_JULY):
        return False
    shorter = min(len(word), len(other))
    longer = max(len(word), len(other))
    stem = 0
    while stem < shorter and word[stem] == other[stem]:
        stem += 1
    if stem < 3 or 2 * stem <= longer:
        return False
    # A Czech ending that is longer than the others: a woman's name.
    if word == f"{other}ova":
        return True
    # Another last consonant makes another word: Irán, Irák. Another vowel does not: Praha, Prahy.
    ending = word[stem:]
    other_ending = other[stem:]
    has_vowel = ending in _VOWELS or other_ending in _VOWELS
    if len(ending) == len(other_ending) == 1 and not has_vowel:
        return False
    return longer - stem <= 2 or (ending in _LONG_ENDINGS and len(other_ending) <= 1)
