"""Unusual constraints for which the library has a verifier: wordplay, ratios, positions of words (as in IFBench).

Each rule is a pattern over a prepared sentence (see sentences.py), and the verifier that decides. The groups of the
pattern are the verifier's parameters. The end of a group's name says how its text becomes the value:

    N_quantity      token of a quantity, ⟨q0⟩ → 22
    N_digits        digits, 3 → 3
    word_string     token of a quoted string, ⟨s0⟩ → "tide"
    word_text       text of the prompt as it is

    >>> from rubrank.drafting.sentences import prepare_sentences
    >>> prompt = 'Include the keyword "tide" in the 3rd sentence.'
    >>> (sentence,) = prepare_sentences(prompt)
    >>> [(constraint.verifier, dict(constraint.params)) for constraint in find_special(sentence, prompt)]
    [('sentence:keyword', {'N': 3, 'word': 'tide'})]
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rubrank.drafting.constraint import Constraint
from rubrank.drafting.patterns import pattern
from rubrank.drafting.sentences import Sentence

# Pieces of the patterns: each captures the value of a parameter, in a group as described above.


def _capture_quantity(parameter: str) -> str:
    return rf"⟨(?P<{parameter}_quantity>q\d+)⟩"


def _capture_digits(parameter: str) -> str:
    return rf"(?P<{parameter}_digits>\d+)"


def _capture_ordinal(parameter: str) -> str:
    """Return a pattern of ordinal numbers: 3rd, 12-th."""
    return _capture_digits(parameter) + r"\s?-?(?:st|nd|rd|th)"


def _capture_word(parameter: str) -> str:
    """Return a pattern of a quoted string, or of a word without quotation marks."""
    return rf"(?:⟨(?P<{parameter}_string>s\d+)⟩|(?P<{parameter}_text>[^\W\d_][\w'-]*))"


SPECIAL_PATTERNS = {
    "count:conjunctions": pattern(
        rf"{_capture_quantity('small_n')}\s+(?:different\s+)?(?:coordinating\s+)?conjunctions"
    ),
    "count:numbers": pattern(
        rf"\b(?:include|use|contain|have)\w*\s+(?:exactly\s+)?{_capture_quantity('N')}\s+numbers\b(?!\s+of)"
    ),
    "count:person_names": pattern(
        rf"{_capture_quantity('N')}\s+(?:different\s+)?(?:person|people's|personal)\s+names"
    ),
    "count:pronouns": pattern(rf"{_capture_quantity('N')}\s+(?:personal\s+)?pronouns"),
    "count:punctuation": pattern(r"\bevery (?:standard )?punctuation mark\b"),
    "count:unique_word_count": pattern(rf"{_capture_quantity('N')}\s+(?:unique|distinct)\s+words"),
    "count:words_japanese": pattern(
        rf"\bevery\s+{_capture_digits('N')}(?:st|nd|rd|th)?\s+word\b[^.]{{0,60}}\bin japanese\b"
    ),
    "format:emoji": pattern(r"\bemojis?\b[^.]{0,20}\bat the end of (?:every|each) sentence\b"),
    "format:line_indent": pattern(
        r"\b(?:create|make|form)\s+stairs\b|\bincrementally indent(?:ing)? each (?:new )?line\b"
    ),
    "format:list": pattern(
        r"\blist of items\b[^.]{0,10}instead of bullet points use (?P<sep_text>\S+?)\.?$"
    ),
    "format:newline": pattern(
        r"\b(?:write|put|place)\s+each word on (?:a|its own) (?:new |separate )?line\b"
    ),
    "format:no_bullets_bullets": pattern(
        r"sentences? ending in a period\b[^.]{0,30}\bfollowed by\b[^.]{0,20}\bbullet points?",
    ),
    "format:no_whitespace": pattern(
        r"\b(?:not contain|without|no|not (?:include|use)) (?:any )?white ?spaces?\b"
    ),
    "format:options": pattern(
        r"\banswer with ⟨q\d+⟩ of the following options\s*:\s*(?P<options_text>[^⟨\n]+?)\.?$"
    ),
    "format:output_template": pattern(
        r"\bMy Answer:\s*\[answer\]\s*My Conclusion:\s*\[conclusion\]\s*Future Outlook:"
    ),
    "format:parentheses": pattern(r"\bnest(?:ed)? parentheses\b[^.]{0,60}\b(?:levels? deep)\b"),
    "format:quote_unquote": pattern(r"\bquoted? (?:phrase|text)s?\b[^.]{0,60}\bunquoted\b"),
    "format:quotes": pattern(r"\bquotes within quotes within quotes\b"),
    "format:sub-bullets": pattern(r"\bsub-bullet(?: point)?s?\b[^.]{0,40}\bfor each bullet\b"),
    "format:thesis": pattern(r"\beach section\b[^.]{0,30}\bthesis statement\b[^.]{0,20}\bital"),
    "format:title_case": pattern(r"\b(?:entire|whole|full) \w+ in title case\b|\bin title case\b"),
    "ratio:overlap": pattern(rf"\btrigram overlap of {_capture_digits('percentage')}%"),
    "ratio:sentence_balance": pattern(r"\bratio of sentence types\b[^.]{0,90}\bbalanced\b"),
    "ratio:sentence_type": pattern(
        r"\b(?:2\s?:\s?1|two to one) ratio of declarative to interrogative\b"
    ),
    "ratio:sentence_words": pattern(
        r"\bsentences, all containing the same number of characters\b"
        r"|\bsame number of characters but using all different words\b",
    ),
    "ratio:stop_words": pattern(
        rf"\bstop words constitute (?:no more than|at most|less than) {_capture_digits('percentage')}%"
    ),
    "sentence:alliteration_increment": pattern(
        r"\beach sentence\b[^.]{0,30}\blonger sequence of consecutive alliterative words\b",
    ),
    "sentence:increment": pattern(
        rf"\beach sentence\b[^.]{{0,40}}{_capture_quantity('small_n')}\s+more words than the previous\b"
    ),
    "sentence:keyword": pattern(
        rf"\bkey ?word\s+{_capture_word('word')}\s+in the {_capture_ordinal('N')} sentence\b(?!,? as)"
    ),
    "words:alphabet": pattern(r"\beach word\b[^.]{0,40}\bnext letter of the alphabet\b"),
    "words:consonants": pattern(r"\beach word\b[^.]{0,40}\bconsonant cluster\b"),
    "words:keywords_specific_position": pattern(
        rf"\bkey ?word\s+{_capture_word('keyword')}\s+in the {_capture_ordinal('n')} sentence,? ",
        rf"as the {_capture_ordinal('m')} word\b",
    ),
    "words:last_first": pattern(
        r"\blast word of each sentence must become the first word of the next\b"
    ),
    "words:no_consecutive": pattern(
        r"\bno ⟨q\d+⟩ consecutive words (?:can|may|should)? ?(?:share|start|begin)\b"
    ),
    "words:odd_even_syllables": pattern(
        r"\balternate between words with odd and even numbers of syllables\b"
    ),
    "words:palindrome": pattern(r"⟨q\d+⟩ (?:single-word )?palindromes\b"),
    "words:paragraph_last_first": pattern(
        r"\beach paragraph\b[^.]{0,30}\bend with the same word it started with\b"
    ),
    "words:prime_lengths": pattern(r"\bwords with lengths? that are prime\b"),
    "words:repeats": pattern(
        r"\bonly use each word\b|\b(?:no word|words?) (?:should |may "
        r"|can )?(?:be )?repeat\w*\b[^.]{0,20}more than ⟨q\d+⟩",
    ),
    "words:start_verb": pattern(r"\b(?:must|should) (?:start|begin) with a verb\b"),
    "words:vowel": pattern(r"\bwords that contain (?:only )?⟨q\d+⟩ types? of vowels\b"),
    "words:words_position": pattern(
        r"\bsecond word\b[^.]{0,60}\bsecond to last word\b[^.]{0,50}",
        rf"\b(?:be|word)\s+(?:the word\s+)?{_capture_word('keyword')}",
    ),
    "repeat:repeat_change": pattern(r"\brepeat the request\b[^.]{0,20}\bchange the first word\b"),
    "repeat:repeat_simple": pattern(r"\bonly output this sentence\b"),
    "repeat:repeat_span": pattern(r"\bcopy the span of words\b[^.]{0,60}\bindex\b"),
    "custom:character_reverse": pattern(r"\breverse order\b[^.]{0,50}\bper letter\b"),
    "custom:word_reverse": pattern(r"\breverse order\b[^.]{0,50}\bper word\b"),
    "first_word:first_word_answer": pattern(
        r"\b(?:response|answer|reply|it|essay|story|poem)\b[^.]{0,20}",
        rf"\b(?:start|begin)s? with the word {_capture_word('first_word')}",
    ),
    "first_word:first_word_sent": pattern(
        rf"\b(?:each|every) sentence\b[^.]{{0,20}}\b(?:start|begin)s? with the word {_capture_word('first_word')}",
    ),
    "last_word:last_word_sent": pattern(
        rf"\b(?:each|every) sentence\b[^.]{{0,20}}\bends? with the word {_capture_word('last_word')}",
    ),
}

# "Include keyword ⟨s0⟩ once, keyword ⟨s1⟩ twice, …": the public verifier knows five keywords with these counts only.
_COUNTED_KEYWORD = pattern(
    r"\bkey ?word\s+", _capture_word("keyword"), r"\s+", _capture_quantity("count"), r"\s+times\b"
)
_KEYWORD_COUNTS = [1, 2, 3, 5, 7]


def find_special(sentence: Sentence, prompt_text: str) -> Iterator[Constraint]:
    """Yield the unusual constraints of one sentence."""
    keywords = [_read_params(match, sentence) for match in _COUNTED_KEYWORD.finditer(sentence.text)]
    if [params["count"] for params in keywords] == _KEYWORD_COUNTS:
        words = {f"keyword{number}": params["keyword"] for number, params in enumerate(keywords, 1)}
        yield Constraint("count:keywords_multiple", words)
    for verifier, expression in SPECIAL_PATTERNS.items():
        match = expression.search(sentence.text)
        if match:
            params = _read_params(match, sentence)
            params |= _find_text_params(verifier, sentence, prompt_text)
            yield Constraint(verifier, params)


def _read_params(match: re.Match[str], sentence: Sentence) -> dict[str, object]:
    """Read the parameters in the groups of a match, numbers first, as described at the top of this file."""
    numbers: dict[str, object] = {}
    texts: dict[str, object] = {}
    for group, text in match.groupdict().items():
        parameter, _, kind = group.rpartition("_")
        if text is None:
            continue
        if kind == "quantity":
            numbers[parameter] = sentence.quantities[text].number
        elif kind == "digits":
            numbers[parameter] = int(text)
        elif kind == "string":
            texts[parameter] = sentence.strings[text]
        else:
            texts[parameter] = text
    return numbers | texts


def _find_text_params(verifier: str, sentence: Sentence, prompt_text: str) -> dict[str, object]:
    """Return parameters that are texts of the prompt: what is repeated, or what the response is compared with."""
    if verifier not in ("ratio:overlap", "repeat:repeat_change", "repeat:repeat_span"):
        return {}
    rest = prompt_text.replace("’", "'").replace(sentence.original, "").strip()
    if verifier == "ratio:overlap":
        return {"reference_text": re.sub(r"^reference text:\s*", "", rest, flags=re.IGNORECASE)}
    if verifier == "repeat:repeat_span":
        numbers = [int(number) for number in re.findall(r"\d+", sentence.original)]
        if len(numbers) >= 2:
            return {"prompt_to_repeat": rest, "n_start": numbers[0], "n_end": numbers[1]}
    return {"prompt_to_repeat": rest}
