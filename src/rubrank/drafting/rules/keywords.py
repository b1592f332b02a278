"""Rules about words and letters: keywords that must or must not appear, how often; letters, commas, capitals.

Keywords in quotation marks are looked for first. A bare word is read only where the prompt calls it a word or keyword.

The sentences have tokens: ⟨s0⟩ stands for a quoted string, ⟨q0⟩ for a quantity such as "at least 3", ⟨m⟩ for material.
In the patterns, names in braces are lists of words; {string}, {strings}, {bare words} and {quantity} also capture what
they match in the groups `string`, `strings`, `bare` and `quantity` (`rules/__init__.py`).
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from rubrank.drafting.rules import Constraint, read_frequency, split_bounds
from rubrank.drafting.sentences import Sentence, list_words, pattern, read_group

# ---- patterns of words ---------------------------------------------------------------------------------------------

_MOST_KEYWORD_WORDS = 12  # a longer string is a sentence rather than a keyword
_NO_KEYWORDS = frozenset(
    list_words("no keyword")
)  # "any", "these": words that nobody means as keywords
_BETWEEN_BARE_WORDS = re.compile(r"\s*(?:,|\band\b|\bor\b|&|\bnor\b)\s*")


def _split_bare(text: str) -> list[str]:
    """Split "startup and capsule" into both words; return nothing if a word cannot be meant as a keyword."""
    bare_words = [word for word in _BETWEEN_BARE_WORDS.split(text.strip("[] ")) if word]
    if any(word.lower() in _NO_KEYWORDS for word in bare_words):
        return []
    return bare_words


def _are_words(strings: Sequence[str]) -> bool:
    """Are all strings words or short phrases, rather than marks or whole sentences?"""
    has_letters = all(re.search(r"\w", string) for string in strings)
    is_short = all(len(string.split()) <= _MOST_KEYWORD_WORDS for string in strings)
    return bool(strings) and has_letters and is_short


# ---- keywords ------------------------------------------------------------------------------------------------------

# "use ⟨s0⟩ in the title": a keyword of one part, which no verifier looks for
_PART_OF_RESPONSE = pattern(
    r"\b(?:verse|chapter|headline|title|example sentences?|subject line)s?\b"
)


def find_keywords(sentence: Sentence, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """Find words that must appear, must not appear, or appear a number of times.

    Include the keywords "dose" and "tide".
        → keywords:existence {"keywords": ["dose", "tide"]}
    Avoid using the word "station".
        → keywords:forbidden_words {"forbidden_words": ["station"]}
    Use the word "tide" at least 3 times.
        → keywords:frequency {"keyword": "tide", "relation": "at least", "frequency": 3}
    Use the word "tide" in the title.
        → nothing
    """
    if _PART_OF_RESPONSE.search(sentence.text):
        return
    frequencies = list(_find_frequencies(sentence))
    yield from frequencies
    counted = {str(constraint.params["keyword"]).lower() for constraint in frequencies}
    forbidden = _find_forbidden(sentence, counted)
    if forbidden:
        params = {"forbidden_words": list(dict.fromkeys(forbidden))}
        yield Constraint("keywords:forbidden_words", params)
    included = _find_included(sentence, counted, forbidden)
    if included:
        yield Constraint("keywords:existence", {"keywords": list(dict.fromkeys(included))})


# ---- words that must not appear ------------------------------------------------------------------------------------

_FORBIDDEN = pattern(
    # "do not use the words ⟨s0⟩ or ⟨s1⟩"
    r"\b{not}\s+(?:\w+\s){0,3}?(?:{use}\s+)?(?:\w+\s){0,2}?(?:{the words}\s*)?:?\s*{strings}(?P<after>[^.]{0,60})"
    # "the word ⟨s0⟩ should not appear"
    r"|{the words}\s+{strings}"
    r"\s+(?:(?:\w+\s){0,3}?{not}\s+(?:\w+\s){0,2}?{be used}"
    # "the words ⟨s0⟩ and ⟨s1⟩ are not allowed", "… are forbidden"
    r"|(?:is|are)\s+(?:strictly\s+)?(?:not (?:allowed|permitted)|forbidden|banned|prohibited|off[- ]limits|taboo))"
    r"(?P<after>[^.]{0,60})"
    # "neither ⟨s0⟩ nor ⟨s1⟩ appears"
    r"|\bneither\s+(?:{the words}\s+)?{strings}"
    r"\s+(?:\w+\s)?(?:{be used}|appears|occurs|shows up|is (?:used|mentioned))\b"
)
_FORBIDDEN_BARE = pattern(
    # "do not use the words happy or sad"
    r"\b{not}\s+(?:\w+\s){0,3}?{use}\s+(?:the\s+|any\s+of\s+the\s+|following\s+|these\s+|any\s+)*"
    r"(?:key\s?words?|words?)\s*:?\s+{bare words}"
    # "the word happy should not appear"
    r"|{the words}\s+{bare words}"
    r"\s+(?:(?:should|must|can|may|do|does|are|is)\s*)?{not}\s+(?:\w+\s){0,2}?{be used}"
    # "avoid the words happy and sad"
    r"|\b(?:avoid|exclude|without|omit)\s+(?:{use}\s+)?(?:the\s+)?(?:following\s+)?(?:key\s?words?|words?)\s*:?\s+"
    r"{bare words}"
)
# "… in the title", "… ⟨q0⟩ times", "… more often than", "… at the end": only a place or a count is forbidden
_FORBIDDEN_IN_A_PLACE_OR_COUNT = pattern(
    r"\s*(?:in (?:your|the) (?:title|first)|at the (?:end|beginning|start)"
    r"|⟨q\d+⟩ times|(?:more|fewer|less)(?: often| frequently)? than)"
)
# "the word ⟨s0⟩ does not need to appear" forbids nothing
_NOT_NEEDED = pattern(r"(?:\bnot|n't) (?:need|have|required|necessary)\b")
# A negation that does not forbid the string:
_NOT_FORBIDDEN = pattern(
    # "no letter ⟨s0⟩": the rule about letters reads it
    r"\bletters?\b"
    # "nothing other than ⟨s0⟩", "no other words than ⟨s0⟩", "do not write anything, only ⟨s0⟩": asks for the string
    r"|\bother (?:than|words)|\bno other\b|\bnothing\b|\bonly\b"
    # "no words after ⟨s0⟩", "no words should follow ⟨s0⟩", "nothing before ⟨s0⟩": the end or the beginning
    r"|\bfollow\b|\bafter\b|\bafterwards\b|\bbefore\b"
    # "do not answer ⟨s0⟩ if you are unsure": only sometimes
    r"|\bif you\b"
)
# After a word or letter: "… more than 3 times" and "… in your answer ⟨q0⟩ times" limit its number, no more.
# The gap of up to 40 characters stays within the clause.
_IS_COUNTED = pattern(
    r"[^.,;:]{0,40}?(?:⟨q\d+⟩ times|\b(?:more|fewer|less)(?: often| frequently)? than\b)"
)


def _find_forbidden(sentence: Sentence, counted: Collection[str]) -> list[str]:
    """Return the words that must not appear. Bare words are read only if no quoted ones are found.

    counted: words that must appear a number of times, in lower case.
    """
    forbidden: list[str] = []
    for match in _FORBIDDEN.finditer(sentence.text):
        is_limited = _FORBIDDEN_IN_A_PLACE_OR_COUNT.match(read_group(match, "after"))
        if is_limited or _NOT_NEEDED.search(match[0]) or _NOT_FORBIDDEN.search(match[0]):
            continue
        strings = sentence.find_strings(read_group(match, "strings"))
        if _are_words(strings) and not any(string.lower() in counted for string in strings):
            forbidden += strings
    if forbidden:
        return forbidden
    for match in _FORBIDDEN_BARE.finditer(sentence.text):
        is_in_a_place = _FORBIDDEN_IN_A_PLACE_OR_COUNT.match(sentence.text, match.end())
        is_limited = is_in_a_place or _IS_COUNTED.match(sentence.text, match.end())
        # Not `_NOT_FORBIDDEN`, which would read the words themselves: "avoid the word nothing".
        if is_limited or _NOT_NEEDED.search(match[0]):
            continue
        words = _split_bare(read_group(match, "bare"))
        if not any(word.lower() in counted for word in words):
            forbidden += words
    return forbidden


# ---- words that must appear ----------------------------------------------------------------------------------------

_INCLUDE = pattern(
    # "include the words ⟨s0⟩ and ⟨s1⟩"
    r"\b{must use}\s+(?:\w+\s){0,4}?(?:{the words})\s*(?:of\s+|like\s+)?:?\s*{strings}(?P<after>[^.]{0,60})"
    # "the word ⟨s0⟩ must appear"; not "must not appear more than 3 times", "does not need to appear"
    r"|{the words}\s*:?\s*{strings}"
    r"\s+(?:(?!(?:not|never)\b)\w+\s){0,2}?(?:should|must|need to|has to|have to)\s+(?:(?!(?:not|never)\b)\w+\s)?"
    r"(?:be (?:used|included|mentioned|in|present)|appear|occur|show up)(?P<after>[^.]{0,60})"
    # "make sure the word ⟨s0⟩ shows up"
    r"|\b(?:make sure|ensure|be sure|see to it)\s+(?:that\s+)?{the words}\s+{strings}"
    r"\s+(?:is|are)?\s?(?:appears?|shows? up|occurs?|used|included|mentioned|present)\b"
)
# "mention ⟨s0⟩": the prompt does not say that it is a word
_INCLUDE_STRING = pattern(
    r"\b(?:mention|include|including|incorporate|must contain|should contain|contains)\s+(?:the\s+)?{strings}"
    r"(?P<after>[^.]{0,60})"
)
_INCLUDE_BARE = pattern(
    # "use these keywords: happy, sad"
    r"\b{use}\s+(?:\w+\s){0,3}?(?:the\s+)?(?:following\s+|these\s+)?key\s?words?\s*:?\s+{bare words}"
    # "use the word happy somewhere"; the list must end where a clause ends
    r"|\b{use}\s+(?:the\s+)(?:following\s+)?words?\s*:?\s+{bare words}"
    r"(?=\s+(?:somewhere|in (?:your|the|it)|throughout)|\s*[.;]|$)"
    # "keywords: happy, sad"
    r"|\bkey\s?words?\s*:\s+{bare words}"
    # "make sure the word happy shows up"
    r"|\b(?:make sure|ensure|be sure|see to it)\s+(?:that\s+)?the\s+words?\s+{bare words}"
    r"\s+(?:appears?|shows? up|occurs?|(?:is|are) (?:used|included|mentioned|present))\b"
)
# "do not ever (use the word ⟨s0⟩)": a negation up to three words before a match. It is searched in so many characters:
# enough for "not" and three words.
_NOT_BEFORE = pattern(r"\b{not}\s+(?:\w+\s){0,3}$")
_CHARACTERS_BEFORE = 40
# "… in the first sentence", "… at the end", "… ⟨q0⟩ times": other rules compile these
_INCLUDED_IN_A_PLACE = pattern(
    r"\s*(?:⟨q\d+⟩ times|in (?:the|every|each) (?:first|last|second|third|title|sentence|⟨)"
    r"|as the (?:first|last)|at the (?:start|beginning|end)|for ⟨q)"
)
# "words such as ⟨s0⟩", "either ⟨s0⟩ or ⟨s1⟩": no single string is required
_EXAMPLES_OR_CHOICE = pattern(
    r"\bone of|\bend\w* with|\beither\b|\bsuch as|\bfor example|\beg\b|\blike\b|\bie\b|\bat least one\b"
)


def _find_included(
    sentence: Sentence, counted: Collection[str], forbidden: Sequence[str]
) -> list[str]:
    """Return the words that must appear, without those that are counted or forbidden.

    Bare words are read only if no quoted ones are found.
    """
    text = sentence.text
    included: list[str] = []
    for include_pattern in (_INCLUDE, _INCLUDE_STRING):
        for match in include_pattern.finditer(text):
            before = text[max(0, match.start() - _CHARACTERS_BEFORE) : match.start()]
            is_about_a_place = _INCLUDED_IN_A_PLACE.match(read_group(match, "after"))
            is_choice = _EXAMPLES_OR_CHOICE.search(match[0])
            if _NOT_BEFORE.search(before) or is_about_a_place or is_choice:
                continue
            strings = sentence.find_strings(read_group(match, "strings"))
            strings = [
                string
                for string in strings
                if string.lower() not in counted and string not in forbidden
            ]
            if _are_words(strings):
                included += strings
    if included:
        return included
    for match in _INCLUDE_BARE.finditer(text):
        before = text[max(0, match.start() - _CHARACTERS_BEFORE) : match.start()]
        if _NOT_BEFORE.search(before):
            continue
        for word in _split_bare(read_group(match, "bare")):
            if word.lower() not in counted and word not in forbidden:
                included.append(word)
    return included


# ---- words that are counted ----------------------------------------------------------------------------------------

# "the word ⟨s0⟩ should appear ⟨q0⟩ times", "the word tide ⟨q0⟩ times"
_FREQUENCY = pattern(
    r"(?:\b(?:key\s?word|word|term|phrase|name)s?\s*:?\s+)?"
    r"(?:{string}|\b(?:key\s?word|word)s?\s+(?P<bare>[^\W\d_][\w'-]*))"
    r"(?P<middle>(?:\s+(?!⟨s)[\w'⟨⟩-]+,?){0,9}?)\s+(?:for\s+)?{quantity}\s+(?:or more\s+)?times?\b"
)
# "⟨q0⟩ mentions of the word ⟨s0⟩"
_FREQUENCY_FIRST = pattern(
    r"{quantity}\s+(?:times?|mentions?|instances?|occurrences?|uses?)\s+(?:of\s+)?(?:the\s+)?"
    r"(?:key\s?word|word|term|phrase|name)?\s*{string}"
)
# "the letter (⟨s0⟩ ⟨q0⟩ times)": the rule about letters reads it
_LETTER_BEFORE = pattern(r"\bletters?\s+$")
# "the word ⟨s0⟩ with the letter a ⟨q0⟩ times", "… in capitals", "… in each sentence": other rules, or no rule
_NOT_A_FREQUENCY = pattern(r"\bletters?\b|\bcapital|\bcaps\b|\bsentence\b")


def _find_frequencies(sentence: Sentence) -> Iterator[Constraint]:
    """Yield how often words must appear: keywords:frequency constraints."""
    text = sentence.text
    for match in [*_FREQUENCY.finditer(text), *_FREQUENCY_FIRST.finditer(text)]:
        word = sentence.get_string(match)
        middle = read_group(match, "middle")
        if _LETTER_BEFORE.search(text[: match.start()]) or _NOT_A_FREQUENCY.search(middle):
            continue
        if word.lower() in _NO_KEYWORDS or not _are_words([word]):
            continue
        for relation, number in read_frequency(sentence, match):
            params = {"keyword": word, "relation": relation, "frequency": number}
            yield Constraint("keywords:frequency", params)


# ---- one letter ----------------------------------------------------------------------------------------------------

# "the letter ⟨s0⟩ should appear ⟨q0⟩ times"
_LETTER_THEN_NUMBER = pattern(
    r"\bletters?\s+(?:{string}|(?P<bare>[A-Za-z#!?@])\b)"
    r"(?P<middle>(?:\s+(?!letter)[\w'⟨⟩\"()/-]+,?){0,10}?)\s+(?:for\s+)?{quantity}\s+times?\b"
)
# "⟨q0⟩ occurrences of the letter ⟨s0⟩"
_NUMBER_THEN_LETTER = pattern(
    r"{quantity}\s+(?:times?\s+(?:the\s+)?letter\s+"
    r"|(?:letter\s+|instances of (?:the )?letter\s+|occurrences of (?:the )?letter\s+))"
    r"(?:{string}|(?P<bare>[A-Za-z])(?:'s)?\b)"
)
_NO_LETTER = pattern(
    # "do not use the letter ⟨s0⟩"
    r"\b{not}\s+(?:\w+\s){0,3}?(?:{use}\s+)?(?:the\s+|any\s+)?letters?\s+(?:{string}|(?P<bare>[A-Za-z])\b)"
    # "the letter ⟨s0⟩ must not appear"
    r"|\bletter\s+(?:{string}|(?P<bare>[A-Za-z])\b)"
    r"\s+(?:\w+\s){0,2}?{not}\s+(?:\w+\s){0,2}?{use}"
)
# "⟨q0⟩ exclamation marks", "⟨q0⟩ hashtags"
_NUMBER_OF_MARKS = pattern(
    r"{quantity}\s+(?P<mark>exclamation (?:marks?|points?)|question marks?|hash(?:tag)?s?|semicolons?|colons?)\b"
)
# "no exclamation marks", "do not use any semicolons", "without question marks"
_NO_MARKS = pattern(
    r"\b(?:no|without|avoid|never use|do not use|don't use|must not (?:use|contain)|should not (?:use|contain))\s+"
    r"(?:(?:using|any|the use of)\s+)*(?P<mark>exclamation (?:marks?|points?)|question marks?|semicolons?)\b"
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
    for match in [*_LETTER_THEN_NUMBER.finditer(text), *_NUMBER_THEN_LETTER.finditer(text)]:
        letter = sentence.get_string(match)
        if len(letter) != 1:
            continue
        for relation, number in read_frequency(sentence, match):
            params = {"letter": letter.lower(), "let_relation": relation, "let_frequency": number}
            yield Constraint("keywords:letter_frequency", params)
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
    r"\b(?:{not}|refrain|free of|devoid of|zero)\b(?:\s+[\w']+){0,7}?\s+commas?\b(?!\s*(?:separated|delimited|-))"
    # "commas are forbidden"
    r"|\bcommas?\s+(?:\w+\s){0,3}?(?:{not}|forbidden|prohibited)\b"
    r"|\bcomma-free\b"
    r"|\bwithout (?:the use of |using )?(?:any )?(?:⟨s\d+⟩ )?commas?\b"
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

_LOWER = pattern(
    # "in all lowercase letters", "use only english and lower case"
    r"\b(?:all|only|entirely|completely|in|use|using|just|with)\s+(?:in\s+)?(?:the\s+)?(?:all\s+)?(?:english\s+)?"
    r"(?:and\s+)?(?:all\s+)?(?:only\s+)?{lower case}d?\b(?:\s+(?:letters?|english|text|only))?"
    r"|\b{lower case} (?:letters )?(?:only|english)\b"
    # "no capital letters", "do not use any uppercase letters", "capital letters are forbidden"
    r"|\b(?:no|without(?: any)?|without using(?: any)?) (?:capital(?:ized)?|{upper case})"
    r"\s*(?:letters?|words?|characters?)?\b"
    r"|\b(?:do not|don't|never|avoid|refrain from) (?:us(?:e|ing) |includ(?:e|ing) )?(?:any )?"
    r"(?:capital|{upper case})(?:ization| letters?)?\b"
    r"|\bcapital letters? (?:is|are) (?:not allowed|forbidden|prohibited)"
    r"|\b(?:not|n't) (?:contain|include|use|have) (?:any )?(?:capital|{upper case})"
    # "all of the letters should be lowercase", "not a single word may be capitalized"
    r"|\ball (?:of )?(?:the |your )?letters\b[^.]{0,40}\b{lower case}d?"
    r"|\bnot a single (?:letter|word)\b[^.]{0,40}\bcapitali[sz]ed"
    r"|\bin {lower case}s\b"
)
_UPPER = pattern(
    # "in all capital letters", "use only english and in uppercase"
    r"\b(?:in|use|using|all|only|entirely|completely|with|be)\s+(?:\w+\s+){0,2}?(?:in\s+)?(?:english\s+)?"
    r"(?:and\s+)?(?:in\s+)?(?:all\s+)?"
    r"(?:capital letters|capitals|caps|{upper case}(?: letters)?|capitalized letters)\b"
    r"|\b(?:no|without(?: any)?) {lower case}(?: letters?)?\b"
    r"|\ball[- ](?:caps|capitals|capital letters)\b"
    r"|\bcaps only\b"
    r"|\bonly capital letters\b"
    # "all letters should be capitalized", "capitalize every word"
    r"|\ball (?:of )?(?:the |your )?(?:letters|words)\b[^.]{0,40}\b(?:capitali[sz]ed|{upper case})"
    r"|\bcapitali[sz]e (?:every|all|each)\b[^.]{0,20}\b(?:letters?|words?)"
)
# "no lowercase letters", which `_LOWER` would find
_NOT_LOWER = pattern(r"\b(?:no|without(?: any)?|not) lower")
# "do not use all caps", which `_UPPER` would find
_NOT_UPPER = pattern(r"\b(?:no|without|avoid|not|don't)\b[^,.]{0,25}(?:capital|upper|caps)")
# Some words in capitals, rather than the whole response
_CAPITAL_WORDS = pattern(
    # "words in all capital letters", "terms that are capitalized"
    r"\b(?:words?|phrases?|stress words?|terms?|acronyms?)\b(?:\s+[\w'()⟨⟩,]+){0,6}?\s*\b(?:all[- ])?"
    r"(?:caps|capitals?|capital letters|uppercase|upper case|capitalized)\b"
    # "all-caps words"
    r"|\b(?:all[- ]caps|capitali[sz]ed|fully capitali[sz]ed|all[- ]capital|upper[- ]?case|all-uppercase|stress)"
    r"\s+words?\b"
    r"|\bcapitali[sz]e\b"
    r"|\bwords? in (?:all )?caps\b"
)
# "⟨q0⟩ words", "⟨q0⟩ times"
_NUMBER_OF_CAPITAL_WORDS = pattern(
    r"{quantity}"
    # "20 sentences and 4 words in capitals": 20 counts something else
    r"(?![- ](?:\w+\s)?(?:sentence|paragraph|character|line|stanza|bullet|point|section|item|page|part|step))"
    r"(?P<unit>\s+(?:\w+\s){0,2}?(?:words?|times?|phrases?|terms?|acronyms?)\b)?"
)
# How many characters may lie between a number and the words in capitals. They are about the length of a clause, because
# nothing else tells the number of another clause from this one.
_CAPITALS_NEARBY = 60
_WORDS_BEFORE_CAPITALS = (
    40  # less before them: "⟨q0⟩ words. Use some …" often is the length of the response
)
_STRING_BEFORE_TIMES = 45  # as in "the word ⟨s0⟩ should appear ⟨q0⟩ times"
_STRING_OR_LETTER = re.compile(r"⟨s\d+⟩|\bletter\b")
# Whole words: "begin" and "likely" name no example. "e.g." is "eg" in a prepared sentence.
_EXAMPLE = re.compile(r"\b(?:such as|like|eg)\b")
# "all of your words", "every letter", "the entire text"
_ALL_WORDS = pattern(
    r"\b(?:all|every|each)(?: of)?(?: the| your)? (?:words?|letters?|text)|\bentire|\bwhole|\bonly"
)
# "the title in capitals", "capitalize the names of variables"
_CASE_OF_A_PART = pattern(
    r"\b{part with a case}\b[^.]{0,40}(?:case|caps|capital)"
    r"|(?:case|caps|capital\w*)[^.]{0,30}\b"
    r"(?:title|headings?|names?|variables?|keys|keywords?|columns?|speakers?)\b"
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
        numbers = _find_numbers_near(capital_words)
        counts = [match for match in numbers if _counts_capital_words(match, capital_words)]
        if counts:
            for relation, number in split_bounds(sentence.get_quantity(counts[0])):
                params = {"capital_relation": relation, "capital_frequency": number}
                yield Constraint("change_case:capital_word_frequency", params)
        # "Capitalize some words" without a number cannot be decided.
        if numbers or not _ALL_WORDS.search(text):
            return
    if _CASE_OF_A_PART.search(text) and not _WHOLE_RESPONSE.search(text):
        return
    if _LOWER.search(text) and not _NOT_LOWER.search(text):
        yield Constraint("change_case:english_lowercase", {})
    elif _UPPER.search(text) and not _NOT_UPPER.search(text):
        yield Constraint("change_case:english_capital", {})


def _find_numbers_near(capital_words: re.Match[str]) -> list[re.Match[str]]:
    """Return the numbers that may say how many words are in capitals, the likeliest first.

    capital_words: the match of `_CAPITAL_WORDS`, "words in capitals". The last number before its end is the likeliest
    one: "⟨q0⟩ words, ⟨q1⟩ words in capitals". If none is before, it is the first one after it: "words in capitals
    should appear ⟨q0⟩ times".
    """
    end = capital_words.end()
    numbers = []
    for match in _NUMBER_OF_CAPITAL_WORDS.finditer(capital_words.string):
        if match["unit"] or abs(match.start() - end) < _CAPITALS_NEARBY:
            numbers.append(match)
    return sorted(numbers, key=lambda match: (match.start() > end, abs(match.start() - end)))


def _counts_capital_words(number: re.Match[str], capital_words: re.Match[str]) -> bool:
    """Does a number count the words in capitals, rather than all words or the uses of one word?"""
    text = number.string
    unit = number["unit"] or ""
    distance = number.start() - capital_words.start()
    if "word" in unit and not -_WORDS_BEFORE_CAPITALS < distance < _CAPITALS_NEARBY:
        return False  # the length of the response
    if "time" in unit:
        # "the word ⟨s0⟩ ⟨q0⟩ times" counts one word; "words in capitals, such as ⟨s0⟩, ⟨q0⟩ times" counts all.
        before = text[max(0, number.start() - _STRING_BEFORE_TIMES) : number.start()]
        if _STRING_OR_LETTER.search(before) and not _EXAMPLE.search(text):
            return False
    return True
