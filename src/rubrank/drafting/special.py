"""Unusual constraints for which the library has a verifier: wordplay, ratios, positions of words (as in IFBench).

Each rule is a pattern over a prepared sentence, and the verifier that decides. Parameters come from the named groups of
the pattern: `N` is the number of a quantity, `word` a string or a bare word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from rubrank.drafting.constraint import Constraint
from rubrank.drafting.sentences import Sentence


@dataclass(frozen=True)
class SpecialRule:
    """A pattern, its verifier, and which parameters the pattern's groups fill."""

    verifier: str
    pattern: re.Pattern[str]
    numbers: dict[str, str] = field(default_factory=dict)
    """Parameter → group with the token of a quantity, or with digits."""
    words: dict[str, str] = field(default_factory=dict)
    """Parameter → group with the token of a string, or with a bare word."""


def _rule(verifier: str, pattern: str, numbers: str = "", words: str = "") -> SpecialRule:
    def split(names: str) -> dict[str, str]:
        return dict(pair.split("=") for pair in names.split())

    return SpecialRule(verifier, re.compile(pattern, re.IGNORECASE), split(numbers), split(words))


_Q = r"⟨(?P<q>q\d+)⟩"
_WORD = r"(?:⟨(?P<s>s\d+)⟩|(?P<w>[^\W\d_][\w'-]*))"
_NTH = r"(?P<n>\d+)\s?-?(?:st|nd|rd|th)"
_NTH2 = r"(?P<m>\d+)\s?-?(?:st|nd|rd|th)"

RULES = [
    _rule("count:conjunctions", rf"{_Q}\s+(?:different\s+)?(?:coordinating\s+)?conjunctions", "small_n=q"),
    _rule("count:numbers", rf"\b(?:include|use|contain|have)\w*\s+(?:exactly\s+)?{_Q}\s+numbers\b(?!\s+of)", "N=q"),
    _rule("count:person_names", rf"{_Q}\s+(?:different\s+)?(?:person|people's|personal)\s+names", "N=q"),
    _rule("count:pronouns", rf"{_Q}\s+(?:personal\s+)?pronouns", "N=q"),
    _rule("count:punctuation", r"\bevery (?:standard )?punctuation mark\b"),
    _rule("count:unique_word_count", rf"{_Q}\s+(?:unique|distinct)\s+words", "N=q"),
    _rule("count:words_japanese", r"\bevery\s+(?P<n>\d+)(?:st|nd|rd|th)?\s+word\b[^.]{0,60}\bin japanese\b", "N=n"),
    _rule("format:emoji", r"\bemojis?\b[^.]{0,20}\bat the end of (?:every|each) sentence\b"),
    _rule(
        "format:line_indent", r"\b(?:create|make|form)\s+stairs\b|\bincrementally indent(?:ing)? each (?:new )?line\b"
    ),
    _rule("format:list", r"\blist of items\b[^.]{0,10}instead of bullet points use (?P<w>\S+?)\.?$", words="sep=w"),
    _rule("format:newline", r"\b(?:write|put|place)\s+each word on (?:a|its own) (?:new |separate )?line\b"),
    _rule(
        "format:no_bullets_bullets",
        r"sentences? ending in a period\b[^.]{0,30}\bfollowed by\b[^.]{0,20}\bbullet points?",
    ),
    _rule("format:no_whitespace", r"\b(?:not contain|without|no|not (?:include|use)) (?:any )?white ?spaces?\b"),
    _rule(
        "format:options", r"\banswer with ⟨q\d+⟩ of the following options\s*:\s*(?P<w>[^⟨\n]+?)\.?$", words="options=w"
    ),
    _rule("format:output_template", r"\bMy Answer:\s*\[answer\]\s*My Conclusion:\s*\[conclusion\]\s*Future Outlook:"),
    _rule("format:parentheses", r"\bnest(?:ed)? parentheses\b[^.]{0,60}\b(?:levels? deep)\b"),
    _rule("format:quote_unquote", r"\bquoted? (?:phrase|text)s?\b[^.]{0,60}\bunquoted\b"),
    _rule("format:quotes", r"\bquotes within quotes within quotes\b"),
    _rule("format:sub-bullets", r"\bsub-bullet(?: point)?s?\b[^.]{0,40}\bfor each bullet\b"),
    _rule("format:thesis", r"\beach section\b[^.]{0,30}\bthesis statement\b[^.]{0,20}\bital"),
    _rule("format:title_case", r"\b(?:entire|whole|full) \w+ in title case\b|\bin title case\b"),
    _rule("ratio:overlap", r"\btrigram overlap of (?P<n>\d+)%", "percentage=n"),
    _rule("ratio:sentence_balance", r"\bratio of sentence types\b[^.]{0,90}\bbalanced\b"),
    _rule("ratio:sentence_type", r"\b(?:2\s?:\s?1|two to one) ratio of declarative to interrogative\b"),
    _rule(
        "ratio:sentence_words",
        r"\bsentences, all containing the same number of characters\b"
        r"|\bsame number of characters but using all different words\b",
    ),
    _rule(
        "ratio:stop_words", r"\bstop words constitute (?:no more than|at most|less than) (?P<n>\d+)%", "percentage=n"
    ),
    _rule(
        "sentence:alliteration_increment",
        r"\beach sentence\b[^.]{0,30}\blonger sequence of consecutive alliterative words\b",
    ),
    _rule("sentence:increment", rf"\beach sentence\b[^.]{{0,40}}{_Q}\s+more words than the previous\b", "small_n=q"),
    _rule("sentence:keyword", rf"\bkey ?word\s+{_WORD}\s+in the {_NTH} sentence\b(?!,? as)", "N=n", "word=s|w"),
    _rule("words:alphabet", r"\beach word\b[^.]{0,40}\bnext letter of the alphabet\b"),
    _rule("words:consonants", r"\beach word\b[^.]{0,40}\bconsonant cluster\b"),
    _rule(
        "words:keywords_specific_position",
        rf"\bkey ?word\s+{_WORD}\s+in the {_NTH} sentence,? as the {_NTH2} word\b",
        "n=n m=m",
        "keyword=s|w",
    ),
    _rule("words:last_first", r"\blast word of each sentence must become the first word of the next\b"),
    _rule("words:no_consecutive", r"\bno ⟨q\d+⟩ consecutive words (?:can|may|should)? ?(?:share|start|begin)\b"),
    _rule("words:odd_even_syllables", r"\balternate between words with odd and even numbers of syllables\b"),
    _rule("words:palindrome", r"⟨q\d+⟩ (?:single-word )?palindromes\b"),
    _rule("words:paragraph_last_first", r"\beach paragraph\b[^.]{0,30}\bend with the same word it started with\b"),
    _rule("words:prime_lengths", r"\bwords with lengths? that are prime\b"),
    _rule(
        "words:repeats",
        r"\bonly use each word\b|\b(?:no word|words?) (?:should |may "
        r"|can )?(?:be )?repeat\w*\b[^.]{0,20}more than ⟨(?P<q>q\d+)⟩",
    ),
    _rule("words:start_verb", r"\b(?:must|should) (?:start|begin) with a verb\b"),
    _rule("words:vowel", r"\bwords that contain (?:only )?⟨q\d+⟩ types? of vowels\b"),
    _rule(
        "words:words_position",
        rf"\bsecond word\b[^.]{{0,60}}\bsecond to last word\b[^.]{{0,50}}\b(?:be|word)\s+(?:the word\s+)?{_WORD}",
        words="keyword=s|w",
    ),
    _rule("repeat:repeat_change", r"\brepeat the request\b[^.]{0,20}\bchange the first word\b"),
    _rule("repeat:repeat_simple", r"\bonly output this sentence\b"),
    _rule("repeat:repeat_span", r"\bcopy the span of words\b[^.]{0,60}\bindex\b"),
    _rule("custom:character_reverse", r"\breverse order\b[^.]{0,50}\bper letter\b"),
    _rule("custom:word_reverse", r"\breverse order\b[^.]{0,50}\bper word\b"),
    _rule(
        "first_word:first_word_answer",
        rf"\b(?:response|answer|reply|it|essay|story|poem)\b[^.]{{0,20}}\b(?:start|begin)s? with the word {_WORD}",
        words="first_word=s|w",
    ),
    _rule(
        "first_word:first_word_sent",
        rf"\b(?:each|every) sentence\b[^.]{{0,20}}\b(?:start|begin)s? with the word {_WORD}",
        words="first_word=s|w",
    ),
    _rule(
        "last_word:last_word_sent",
        rf"\b(?:each|every) sentence\b[^.]{{0,20}}\bends? with the word {_WORD}",
        words="last_word=s|w",
    ),
]

_COUNTED_KEYWORD = re.compile(
    r"\bkey ?word\s+(?:⟨(?P<s>s\d+)⟩|(?P<w>[^\W\d_][\w'-]*))\s+⟨(?P<q>q\d+)⟩\s+times\b", re.IGNORECASE
)


def find_special(sentence: Sentence, prompt_text: str, prompt: Sequence[Sentence]) -> Iterator[Constraint]:
    """The unusual constraints of one sentence."""
    counted = list(_COUNTED_KEYWORD.finditer(sentence.text))
    if [sentence.quantity(match["q"]).number for match in counted] == [1, 2, 3, 5, 7]:
        words = {
            f"keyword{number}": sentence.strings.get(match["s"], match["w"]) for number, match in enumerate(counted, 1)
        }
        yield Constraint("count:keywords_multiple", words, sentence.original)
    for rule in RULES:
        match = rule.pattern.search(sentence.text)
        if match:
            params = _read_params(rule, match, sentence)
            params |= _text_params(rule.verifier, sentence, prompt_text)
            yield Constraint(rule.verifier, params, sentence.original)


def _read_params(rule: SpecialRule, match: re.Match[str], sentence: Sentence) -> dict[str, object]:
    params: dict[str, object] = {}
    for name, group in rule.numbers.items():
        value = match[group]
        if value is not None:
            params[name] = sentence.quantity(value).number if value in sentence.quantities else int(value)
    for name, groups in rule.words.items():
        value = next((match[group] for group in groups.split("|") if match[group]), None)
        if value is not None:
            params[name] = sentence.strings.get(value, value)
    return params


def _text_params(verifier: str, sentence: Sentence, prompt_text: str) -> dict[str, object]:
    """Parameters that are a part of the prompt: what is repeated, or compared with."""
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
