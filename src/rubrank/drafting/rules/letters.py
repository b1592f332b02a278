"""Rules that find constraints about letters: how often one appears, commas, lower case and capitals.

Each rule gets a sentence and all sentences of the prompt, which the rules of this file do not need, and yields the
constraints that the sentence states; its docstring has examples. In a sentence, tokens stand for what the prompt says:
⟨q0⟩ for a quantity such as "at least 20", ⟨s0⟩ for a quoted string (`sentences.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from rubrank.drafting.constraint import Constraint, read_frequency, split_bounds
from rubrank.drafting.patterns import NOT, QUANTITY, STRING, USE, any_of, pattern, words
from rubrank.drafting.sentences import Sentence

# ---- one letter ----------------------------------------------------------------------------------------------------

# "the letter ⟨s0⟩ should appear ⟨q0⟩ times"
_LETTER_THEN_NUMBER = pattern(
    rf"\bletters?\s+(?:{STRING}|(?P<bare>[A-Za-z#!?@])\b)",
    rf"(?P<middle>(?:\s+(?!letter)[\w'⟨⟩\"()/-]+,?){{0,10}}?)\s+(?:for\s+)?{QUANTITY}\s+times?\b",
)
# "⟨q0⟩ occurrences of the letter ⟨s0⟩"
_NUMBER_THEN_LETTER = pattern(
    rf"{QUANTITY}\s+(?:times?\s+(?:the\s+)?letter\s+",
    r"|(?:letter\s+|instances of (?:the )?letter\s+|occurrences of (?:the )?letter\s+))",
    rf"(?:{STRING}|(?P<bare>[A-Za-z])(?:'s)?\b)",
)
_NO_LETTER = pattern(
    # "do not use the letter ⟨s0⟩"
    rf"\b{NOT}\s+(?:\w+\s){{0,3}}?(?:{USE}\s+)?(?:the\s+|any\s+)?letters?\s+(?:{STRING}|(?P<bare>[A-Za-z])\b)",
    # "the letter ⟨s0⟩ must not appear"
    r"|\bletter\s+(?:⟨(?P<string_2>s\d+)⟩|(?P<bare_2>[A-Za-z])\b)",
    rf"\s+(?:\w+\s){{0,2}}?{NOT}\s+(?:\w+\s){{0,2}}?{USE}",
)
# "⟨q0⟩ exclamation marks", "⟨q0⟩ hashtags"
_NUMBER_OF_MARKS = pattern(
    QUANTITY,
    r"\s+(?P<mark>exclamation (?:marks?|points?)|question marks?|hash(?:tag)?s?|semicolons?|colons?)\b",
)
# "no exclamation marks", "do not use any semicolons", "without question marks"
_NO_MARKS = pattern(
    r"\b(?:no|without|avoid|never use|do not use|don't use|must not (?:use|contain)|should not (?:use|contain))\s+",
    r"(?:(?:using|any|the use of)\s+)*(?P<mark>exclamation (?:marks?|points?)|question marks?|semicolons?)\b",
)
# "do not use the letter e more than 3 times" does not forbid it
_IS_COUNTED = pattern(
    r"[^.,;:]{0,40}?(?:⟨q\d+⟩ times|\b(?:more|fewer|less)(?: often| frequently)? than\b)"
)
# By the first word of their names, without the plural s.
_MARKS = {
    "exclamation": "!",
    "question": "?",
    "semicolon": ";",
    "colon": ":",
    "hash": "#",
    "hashtag": "#",
}


def find_letter_counts(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Find how often a letter or a punctuation mark appears, or that it does not.

    The letter j should appear at least 20 times.
        → keywords:letter_frequency {"letter": "j", "let_relation": "at least", "let_frequency": 20}
    Do not use the letter "e".
        → keywords:letter_frequency {"letter": "e", "let_relation": "less than", "let_frequency": 1}
    Use at least 3 exclamation marks.
        → keywords:letter_frequency {"letter": "!", "let_relation": "at least", "let_frequency": 3}
    """
    text = sentence.text
    has_count = False
    for match in [*_LETTER_THEN_NUMBER.finditer(text), *_NUMBER_THEN_LETTER.finditer(text)]:
        letter = sentence.get_string(match)
        if len(letter) != 1:
            continue
        has_count = True
        for relation, number in read_frequency(sentence, match):
            params = {"letter": letter.lower(), "let_relation": relation, "let_frequency": number}
            yield Constraint("keywords:letter_frequency", params)
    if has_count:
        # "do not use the letter ⟨s0⟩ ⟨q0⟩ times" is read above, and does not forbid the letter.
        return
    for match in _NO_LETTER.finditer(text):
        letter = sentence.get_string(match)
        if len(letter) == 1 and not _IS_COUNTED.match(text, match.end()):
            params = {"letter": letter.lower(), "let_relation": "less than", "let_frequency": 1}
            yield Constraint("keywords:letter_frequency", params)
    for match in _NO_MARKS.finditer(text):
        if _IS_COUNTED.match(text, match.end()):
            continue
        params = {"letter": _read_mark(match), "let_relation": "less than", "let_frequency": 1}
        yield Constraint("keywords:letter_frequency", params)
    for match in _NUMBER_OF_MARKS.finditer(text):
        quantity = sentence.get_quantity(match)
        # "3 exclamation marks" alone is not read: the verifier has no "exactly".
        if quantity.relation in ("at least", "at most", "more than", "less than"):
            params = {
                "letter": _read_mark(match),
                "let_relation": quantity.relation,
                "let_frequency": quantity.number,
            }
            yield Constraint("keywords:letter_frequency", params)


def _read_mark(match: re.Match[str]) -> str:
    """Return the punctuation mark that a match names in its group `mark`: "exclamation marks" is "!"."""
    first_word = match["mark"].split()[0]
    return _MARKS[first_word.rstrip("s").lower()]


# ---- commas --------------------------------------------------------------------------------------------------------

_NO_COMMA = pattern(
    # "do not use any commas"; "no comma separated list" is about a list
    rf"\b(?:{NOT}|refrain|free of|devoid of|zero)\b(?:\s+[\w']+){{0,7}}?\s+commas?\b(?!\s*(?:separated|delimited|-))",
    # "commas are forbidden"
    rf"|\bcommas?\s+(?:\w+\s){{0,3}}?(?:{NOT}|forbidden|prohibited)\b",
    r"|\bcomma-free\b",
    r"|\bwithout (?:the use of |using )?(?:any )?(?:⟨s\d+⟩ )?commas?\b",
)
# "do not add anything to a list separated by commas", "without missing commas"
_COMMAS_ALLOWED = pattern(r"\b(?:separated by|only)\s+commas?|\bmissing commas?")


def find_no_comma(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Find that the response must have no commas.

    Do not use any commas.
        → punctuation:no_comma {}
    """
    match = _NO_COMMA.search(sentence.text)
    if match and not _COMMAS_ALLOWED.search(match[0]):
        yield Constraint("punctuation:no_comma", {})


# ---- lower case and capitals ---------------------------------------------------------------------------------------

_LOWER_CASE = "lower[- ]?case"
_UPPER_CASE = "upper[- ]?case"
_LOWER = pattern(
    any_of(
        # "in all lowercase letters", "use only english and lower case"
        r"\b(?:all|only|entirely|completely|in|use|using|just|with)\s+(?:in\s+)?(?:the\s+)?(?:all\s+)?(?:english\s+)?"
        rf"(?:and\s+)?(?:all\s+)?(?:only\s+)?{_LOWER_CASE}d?\b(?:\s+(?:letters?|english|text|only))?",
        rf"\b{_LOWER_CASE} (?:letters )?(?:only|english)\b",
        # "no capital letters", "do not use any uppercase letters", "capital letters are forbidden"
        rf"\b(?:no|without(?: any)?|without using(?: any)?) (?:capital(?:ized)?|{_UPPER_CASE})"
        r"\s*(?:letters?|words?|characters?)?\b",
        r"\b(?:do not|don't|never|avoid|refrain from) (?:us(?:e|ing) |includ(?:e|ing) )?(?:any )?"
        rf"(?:capital|{_UPPER_CASE})(?:ization| letters?)?\b",
        r"\bcapital letters? (?:is|are) (?:not allowed|forbidden|prohibited)",
        rf"\b(?:not|n't) (?:contain|include|use|have) (?:any )?(?:capital|{_UPPER_CASE})",
        # "all of the letters should be lowercase", "not a single word may be capitalized"
        rf"\ball (?:of )?(?:the |your )?letters\b[^.]{{0,40}}\b{_LOWER_CASE}d?",
        r"\bnot a single (?:letter|word)\b[^.]{0,40}\bcapitali[sz]ed",
        rf"\bin {_LOWER_CASE}s\b",
    )
)
_UPPER = pattern(
    any_of(
        # "in all capital letters", "use only english and in uppercase"
        r"\b(?:in|use|using|all|only|entirely|completely|with|be)\s+(?:\w+\s+){0,2}?(?:in\s+)?(?:english\s+)?"
        r"(?:and\s+)?(?:in\s+)?(?:all\s+)?"
        rf"(?:capital letters|capitals|caps|{_UPPER_CASE}(?: letters)?|capitalized letters)\b",
        rf"\b(?:no|without(?: any)?) {_LOWER_CASE}(?: letters?)?\b",
        r"\ball[- ](?:caps|capitals|capital letters)\b",
        r"\bcaps only\b",
        r"\bonly capital letters\b",
        # "all letters should be capitalized", "capitalize every word"
        rf"\ball (?:of )?(?:the |your )?(?:letters|words)\b[^.]{{0,40}}\b(?:capitali[sz]ed|{_UPPER_CASE})",
        r"\bcapitali[sz]e (?:every|all|each)\b[^.]{0,20}\b(?:letters?|words?)",
    )
)
# "no lowercase letters", which `_LOWER` would find
_NOT_LOWER = pattern(r"\b(?:no|without(?: any)?|not) lower")
# "do not use all caps", which `_UPPER` would find
_NOT_UPPER = pattern(r"\b(?:no|without|avoid|not|don't)\b[^,.]{0,25}(?:capital|upper|caps)")
# Some words in capitals, rather than the whole response
_CAPITAL_WORDS = pattern(
    any_of(
        # "words in all capital letters", "terms that are capitalized"
        r"\b(?:words?|phrases?|stress words?|terms?|acronyms?)\b(?:\s+[\w'()⟨⟩,]+){0,6}?\s*\b(?:all[- ])?"
        r"(?:caps|capitals?|capital letters|uppercase|upper case|capitalized)\b",
        # "all-caps words"
        r"\b(?:all[- ]caps|capitali[sz]ed|fully capitali[sz]ed|all[- ]capital|upper[- ]?case|all-uppercase|stress)"
        r"\s+words?\b",
        r"\bcapitali[sz]e\b",
        r"\bwords? in (?:all )?caps\b",
    )
)
# "⟨q0⟩ words", "⟨q0⟩ times"
_NUMBER_OF_CAPITAL_WORDS = pattern(
    QUANTITY,
    # "20 sentences and 4 words in capitals": 20 counts something else
    r"(?![- ](?:\w+\s)?(?:sentence|paragraph|character|line|stanza|bullet|point|section|item|page|part|step))",
    r"(?P<unit>\s+(?:\w+\s){0,2}?(?:words?|times?|phrases?|terms?|acronyms?)\b)?",
)
_STRING_OR_LETTER = re.compile(r"⟨s\d+⟩|\bletter\b")
# Whole words: "begin" and "likely" name no example. "e.g." has lost its points by then.
_EXAMPLE = re.compile(r"\b(?:such as|like|eg)\b")
# "all of your words", "every letter", "the entire text"
_ALL_WORDS = pattern(
    r"\b(?:all|every|each)(?: of)?(?: the| your)? (?:words?|letters?|text)|\bentire|\bwhole|\bonly"
)
# "the title in capitals", "capitalize the names of variables"
_CASE_OF_A_PART = pattern(
    rf"\b{words('part with a case')}\b[^.]{{0,40}}(?:case|caps|capital)",
    r"|(?:case|caps|capital\w*)[^.]{0,30}\b",
    r"(?:title|headings?|names?|variables?|keys|keywords?|columns?|speakers?)\b",
)
_WHOLE_RESPONSE = pattern(r"\b(?:entire|whole|all of) (?:response|answer|reply|output|text)")


def find_letter_case(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Find that all is in lower case or in capitals, or how many words are in capitals.

    Your entire response should be in lowercase letters.
        → change_case:english_lowercase {}
    Answer in all capital letters.
        → change_case:english_capital {}
    Use at least 5 words in all capital letters.
        → change_case:capital_word_frequency {"capital_relation": "at least", "capital_frequency": 5}
    Write the title in capital letters.
        → nothing
    """
    text = sentence.text
    capital_words = _CAPITAL_WORDS.search(text)
    if capital_words:
        capitals_end = capital_words.end()
        counts = []  # matches of numbers that may say how many words are in capitals
        for match in _NUMBER_OF_CAPITAL_WORDS.finditer(text):
            if match["unit"] or abs(match.start() - capitals_end) < 60:
                counts.append(match)
        # The number that belongs to the capitals is the last one before them: "200 words, 4 words in capitals". Without
        # one, it is the first one after them: "words in capitals should appear 4 times".
        counts.sort(
            key=lambda match: (match.start() > capitals_end, abs(match.start() - capitals_end))
        )
        for match in counts:
            unit = match["unit"] or ""
            is_near = -40 < match.start() - capital_words.start() < 60
            if "word" in unit and not is_near:
                continue  # the length of the response
            before = text[max(0, match.start() - 45) : match.start()]
            # "the word ⟨s0⟩ ⟨q0⟩ times" counts one word; "words in capitals, such as ⟨s0⟩, ⟨q0⟩ times" counts all.
            counts_one_word = "time" in unit and _STRING_OR_LETTER.search(before)
            if counts_one_word and not _EXAMPLE.search(text):
                continue
            for relation, number in split_bounds(sentence.get_quantity(match)):
                params = {"capital_relation": relation, "capital_frequency": number}
                yield Constraint("change_case:capital_word_frequency", params)
            return
        # "Capitalize some words" without a number cannot be decided.
        speaks_of_some_words = counts or not _ALL_WORDS.search(text)
        if speaks_of_some_words and not _LOWER.search(text):
            return
    if _CASE_OF_A_PART.search(text) and not _WHOLE_RESPONSE.search(text):
        return
    if _LOWER.search(text) and not _NOT_LOWER.search(text):
        yield Constraint("change_case:english_lowercase", {})
    elif _UPPER.search(text) and not _NOT_UPPER.search(text):
        yield Constraint("change_case:english_capital", {})
