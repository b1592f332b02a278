"""The rule about keywords: words that must appear, must not appear, or must appear a number of times.

The rule gets a sentence and all sentences of the prompt, and yields the constraints that the sentence states; its
docstring has examples. In a sentence, tokens stand for what the prompt says: ⟨q0⟩ for a quantity such as "at least 20",
⟨s0⟩ for a quoted string (`sentences.py`). `words("…")` is a list of alternatives in data/words.tsv.

Keywords in quotation marks are looked for first. A bare word is read only where the prompt calls it a word or keyword.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence

from rubrank.drafting.constraint import Constraint, read_frequency
from rubrank.drafting.patterns import (
    NOT,
    QUANTITY,
    STRING,
    USE,
    list_words,
    pattern,
    read_group,
    words,
)
from rubrank.drafting.sentences import Sentence

# ---- pieces --------------------------------------------------------------------------------------------------------

_BE_USED = words("be used")
_MUST_USE = words("must use")
_THE_WORDS = (
    r"(?:the\s+)?(?:following\s+|exact\s+|specific\s+|any\s+of\s+the\s+|any\s+)*"
    r"(?:key\s?words?|words?|terms?|phrases?|names?|expressions?|lines?|sentences?)"
)
_MOST_KEYWORD_WORDS = 12  # a longer string is a sentence rather than a keyword
# Words of a string that the prompt does not call a word or phrase: "mention ⟨s0⟩".
_MOST_UNNAMED_WORDS = 3
_NO_KEYWORDS = frozenset(
    list_words("no keyword")
)  # "any", "these": words that nobody means as keywords
_BETWEEN_BARE_WORDS = re.compile(r"\s*(?:,|\band\b|\bor\b|&|\bnor\b)\s*")
# What follows a match, which may say that it is about a place: "… in the title"
_AFTERWARDS = r"(?P<after>[^.]{0,60})"
_AFTERWARDS_2 = r"(?P<after_2>[^.]{0,60})"


def _match_strings(group: str) -> str:
    """Return a pattern of one or more quoted strings: ⟨s0⟩, ⟨s1⟩ and ⟨s2⟩, perhaps in brackets."""
    return (
        rf"(?P<{group}>\[?\(?⟨s\d+⟩(?:(?:\s*(?:,|;|/|and|or|&|nor|as well as)\s*)+⟨s\d+⟩)*\]?\)?)"
    )


def _match_bare_words(group: str) -> str:
    """Return a pattern of one or more words without quotation marks: startup, capsule and tide."""
    word = r"[^\W_][\w'-]*"
    return rf"(?P<{group}>\[?{word}(?:(?:\s*(?:,\s*(?:and|or|nor)?|and|or|&|nor)\s*){word})*\]?)"


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


# ---- the rule ------------------------------------------------------------------------------------------------------

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
    rf"\b{NOT}\s+(?:\w+\s){{0,3}}?(?:{USE}\s+)?(?:\w+\s){{0,2}}?(?:{_THE_WORDS}\s*)?:?\s*",
    _match_strings("strings"),
    _AFTERWARDS,
    # "the word ⟨s0⟩ should not appear"
    rf"|{_THE_WORDS}\s+",
    _match_strings("strings_2"),
    rf"\s+(?:(?:\w+\s){{0,3}}?{NOT}\s+(?:\w+\s){{0,2}}?{_BE_USED}",
    # "the words ⟨s0⟩ and ⟨s1⟩ are not allowed", "… are forbidden"
    r"|(?:is|are)\s+(?:strictly\s+)?(?:not (?:allowed|permitted)|forbidden|banned|prohibited|off[- ]limits|taboo))",
    _AFTERWARDS_2,
    # "neither ⟨s0⟩ nor ⟨s1⟩ appears"
    rf"|\bneither\s+(?:{_THE_WORDS}\s+)?",
    _match_strings("strings_3"),
    rf"\s+(?:\w+\s)?(?:{_BE_USED}|appears|occurs|shows up|is (?:used|mentioned))\b",
)
_FORBIDDEN_BARE = pattern(
    # "do not use the words happy or sad"
    rf"\b{NOT}\s+(?:\w+\s){{0,3}}?{USE}\s+(?:the\s+|any\s+of\s+the\s+|following\s+|these\s+|any\s+)*",
    r"(?:key\s?words?|words?)\s*:?\s+",
    _match_bare_words("bare"),
    # "the word happy should not appear"
    rf"|{_THE_WORDS}\s+",
    _match_bare_words("bare_2"),
    rf"\s+(?:(?:should|must|can|may|do|does|are|is)\s*)?{NOT}\s+(?:\w+\s){{0,2}}?{_BE_USED}",
    # "avoid the words happy and sad"
    rf"|\b(?:avoid|exclude|without|omit)\s+(?:{USE}\s+)?(?:the\s+)?(?:following\s+)?(?:key\s?words?|words?)\s*:?\s+",
    _match_bare_words("bare_3"),
)
# "… in the title", "… ⟨q0⟩ times", "… more often than", "… at the end": only a place or a count is forbidden
_FORBIDDEN_IN_A_PLACE_OR_COUNT = pattern(
    r"\s*(?:in (?:your|the) (?:title|first)|at the (?:end|beginning|start)",
    r"|⟨q\d+⟩ times|(?:more|fewer|less)(?: often| frequently)? than)",
)
# "the word ⟨s0⟩ does not need to appear" forbids nothing
_NOT_NEEDED = pattern(r"(?:\bnot|n't) (?:need|have|required|necessary)\b")
# "say nothing other than ⟨s0⟩" asks for the string; "no words after ⟨s0⟩" is about the end.
_NOT_FORBIDDEN = pattern(
    r"\bletters?\b|\bother (?:than|words)|\bonly\b|\bno other\b|\bnothing\b|\bfollow\b|\bafter\b|\bafterwards\b"
    r"|\bif you\b|\bbefore\b"
)


def _find_forbidden(sentence: Sentence, counted: Collection[str]) -> list[str]:
    """Return the words that must not appear; counted: words that must appear a number of times."""
    forbidden: list[str] = []
    for match in _FORBIDDEN.finditer(sentence.text):
        is_limited = _FORBIDDEN_IN_A_PLACE_OR_COUNT.match(read_group(match, "after"))
        if is_limited or _NOT_NEEDED.search(match[0]) or _NOT_FORBIDDEN.search(match[0]):
            continue
        strings = sentence.find_strings(read_group(match, "strings"))
        if _are_words(strings) and not any(string.lower() in counted for string in strings):
            forbidden += strings
    if not forbidden:
        for match in _FORBIDDEN_BARE.finditer(sentence.text):
            is_limited = _FORBIDDEN_IN_A_PLACE_OR_COUNT.match(sentence.text, match.end())
            if not is_limited and not _NOT_NEEDED.search(match[0]):
                forbidden += _split_bare(read_group(match, "bare"))
    return forbidden


# ---- words that must appear ----------------------------------------------------------------------------------------

_OTHER_THAN_NOT = r"(?:(?!(?:not|never)\b)\w+\s)"
_INCLUDE = pattern(
    # "include the words ⟨s0⟩ and ⟨s1⟩"
    rf"\b{_MUST_USE}\s+(?:\w+\s){{0,4}}?(?:{_THE_WORDS})\s*(?:of\s+|like\s+)?:?\s*",
    _match_strings("strings"),
    _AFTERWARDS,
    # "the word ⟨s0⟩ must appear"; not "must not appear more than 3 times", "does not need to appear"
    rf"|{_THE_WORDS}\s*:?\s*",
    _match_strings("strings_2"),
    rf"\s+{_OTHER_THAN_NOT}{{0,2}}?(?:should|must|need to|has to|have to)\s+{_OTHER_THAN_NOT}?",
    r"(?:be (?:used|included|mentioned|in|present)|appear|occur|show up)",
    _AFTERWARDS_2,
    # "make sure the word ⟨s0⟩ shows up"
    rf"|\b(?:make sure|ensure|be sure|see to it)\s+(?:that\s+)?{_THE_WORDS}\s+",
    _match_strings("strings_3"),
    r"\s+(?:is|are)?\s?(?:appears?|shows? up|occurs?|used|included|mentioned|present)\b",
)
# "mention ⟨s0⟩": the prompt does not say that it is a word
_INCLUDE_STRING = pattern(
    r"\b(?:mention|include|including|incorporate|must contain|should contain|contains)\s+(?:the\s+)?",
    _match_strings("strings"),
    _AFTERWARDS,
)
_INCLUDE_BARE = pattern(
    # "use these keywords: happy, sad"
    rf"\b{USE}\s+(?:\w+\s){{0,3}}?(?:the\s+)?(?:following\s+|these\s+)?key\s?words?\s*:?\s+",
    _match_bare_words("bare"),
    # "use the word happy somewhere"; the list must end where a clause ends
    rf"|\b{USE}\s+(?:the\s+)(?:following\s+)?words?\s*:?\s+",
    _match_bare_words("bare_2"),
    r"(?=\s+(?:somewhere|in (?:your|the|it)|throughout)|\s*[.;]|$)",
    # "keywords: happy, sad"
    r"|\bkey\s?words?\s*:\s+",
    _match_bare_words("bare_3"),
    # "make sure the word happy shows up"
    r"|\b(?:make sure|ensure|be sure|see to it)\s+(?:that\s+)?the\s+words?\s+",
    _match_bare_words("bare_4"),
    r"\s+(?:appears?|shows? up|occurs?|(?:is|are) (?:used|included|mentioned|present))\b",
)
_NOT_BEFORE = pattern(rf"\b{NOT}\s+(?:\w+\s){{0,3}}$")
# "… in the first sentence", "… at the end", "… ⟨q0⟩ times": other rules compile these
_INCLUDED_IN_A_PLACE = pattern(
    r"\s*(?:⟨q\d+⟩ times|in (?:the|every|each) (?:first|last|second|third|title|sentence|⟨)",
    r"|as the (?:first|last)|at the (?:start|beginning|end)|for ⟨q)",
)
# "words such as ⟨s0⟩", "either ⟨s0⟩ or ⟨s1⟩": no single string is required
_EXAMPLES_OR_CHOICE = pattern(
    r"\bone of|\bend\w* with|\beither\b|\bsuch as|\bfor example|\beg\b|\blike\b|\bie\b|\bat least one\b"
)
_POSTSCRIPT_MARKERS = ("P.S.", "P.P.S", "P.S", "P.P.S.", "PS")


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
            before = text[max(0, match.start() - 40) : match.start()]
            is_about_a_place = _INCLUDED_IN_A_PLACE.match(read_group(match, "after"))
            is_choice = _EXAMPLES_OR_CHOICE.search(match[0])
            if _NOT_BEFORE.search(before) or is_about_a_place or is_choice:
                continue
            strings = sentence.find_strings(read_group(match, "strings"))
            # After _INCLUDE_STRING nothing says that the string is a keyword, so it must look like one.
            looks_unlike_words = any(
                len(string.split()) > _MOST_UNNAMED_WORDS or not string[:1].isalpha()
                for string in strings
            )
            if include_pattern is _INCLUDE_STRING and looks_unlike_words:
                continue
            strings = [
                string
                for string in strings
                if string.lower() not in counted and string not in forbidden
            ]
            has_postscript = any(string.upper() in _POSTSCRIPT_MARKERS for string in strings)
            if _are_words(strings) and not has_postscript:
                included += strings
    if included:
        return included
    for match in _INCLUDE_BARE.finditer(text):
        before = text[max(0, match.start() - 40) : match.start()]
        if _NOT_BEFORE.search(before):
            continue
        for word in _split_bare(read_group(match, "bare")):
            if word.lower() not in counted and word not in forbidden:
                included.append(word)
    return included


# ---- words that are counted ----------------------------------------------------------------------------------------

# "the word ⟨s0⟩ should appear ⟨q0⟩ times", "the word tide ⟨q0⟩ times"
_FREQUENCY = pattern(
    r"(?:\b(?:key\s?word|word|term|phrase|name)s?\s*:?\s+)?",
    rf"(?:{STRING}|\b(?:key\s?word|word)s?\s+(?P<bare>[^\W\d_][\w'-]*))",
    rf"(?P<middle>(?:\s+(?!⟨s)[\w'⟨⟩-]+,?){{0,9}}?)\s+(?:for\s+)?{QUANTITY}\s+(?:or more\s+)?times?\b",
)
# "⟨q0⟩ mentions of the word ⟨s0⟩"
_FREQUENCY_FIRST = pattern(
    rf"{QUANTITY}\s+(?:times?|mentions?|instances?|occurrences?|uses?)\s+(?:of\s+)?(?:the\s+)?",
    rf"(?:key\s?word|word|term|phrase|name)?\s*{STRING}",
)
_LETTER_BEFORE = pattern(r"\bletters?\s+$")
# "the word ⟨s0⟩ with the letter a ⟨q0⟩ times", "… in capitals", "… in each sentence": other rules, or no rule
_NOT_A_FREQUENCY = pattern(r"\bletters?\b|\bcapital|\bcaps\b|\bsentence\b")


def _find_frequencies(sentence: Sentence) -> Iterator[Constraint]:
    """Yield how often words must appear: keywords:frequency constraints."""
    text = sentence.text
    for match in [*_FREQUENCY.finditer(text), *_FREQUENCY_FIRST.finditer(text)]:
        word = sentence.get_string(match)
        middle = read_group(match, "middle")
        before = text[max(0, match.start() - 25) : match.start()]
        if _LETTER_BEFORE.search(before) or _NOT_A_FREQUENCY.search(middle):
            continue
        is_filler = word.lower() in _NO_KEYWORDS or word.lower().startswith("with")
        if is_filler or not _are_words([word]):
            continue
        for relation, number in read_frequency(sentence, match):
            params = {"keyword": word, "relation": relation, "frequency": number}
            yield Constraint("keywords:frequency", params)
