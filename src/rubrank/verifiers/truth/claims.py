"""Does a sentence claim the truth? "The capital of France is Paris." claims Paris; "It is not Paris" does not.

>>> claims("The capital of France is Paris.", "Paris"), claims("Some say Paris, but it is Lyon.", "Paris")
(True, False)

A claim is the truth in one of two places: at the end of a clause behind a word for "is" (or a colon), or at the
beginning of the sentence before one. What is denied, hedged ("Paris or Lyon"), one of several names, part of a longer
name, or only mentioned is no claim (see `surroundings`).

If the question is known, more counts: a truth that the question does not name, in a sentence that answers it ("Lady
Gaga performed the halftime show in 2017."; see `mentions`).
"""

from __future__ import annotations

import itertools
import re
import unicodedata

from rubrank._plain import replace_surrogates, word_set
from rubrank.texts.sentences import split_sentences
from rubrank.verifiers.paper.language import load_converter
from rubrank.verifiers.shared.statements import RETRACTION
from rubrank.verifiers.shared.word_tables import write_pattern
from rubrank.verifiers.truth.mentions import (
    DOUBT,
    LONGEST_SENTENCE,
    blank_quotations,
    has_rival_number,
    is_in_denying_clause,
    is_spaced,
    mentions,
    names_other_numbers,
)
from rubrank.verifiers.truth.surroundings import (
    CLOSING_MARKS,
    OPENING_MARKS,
    is_ruled_out,
    read_phrases,
)

_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
# A line that is a name and nothing else: "- Paris", "2. **New York**". "- Answer: Paris" says more.
_ENTRY = re.compile(r"^\s*+(?:[-*•–]|\d{1,2}[.)])\s++([^\s:：]++(?:[ \t]++[^\s:：]++){0,5}+)\s*+$")
_IS = rf"(?:{write_pattern(read_phrases('is'))}|[은는이가](?=\s)|[:：=＝—–→-])"
# Small words and marks that may stand between "is" and the truth: "is certainly the city of **".
_SMALL = rf"(?:{OPENING_MARKS}|{write_pattern(read_phrases('small'))}|\b[dl]['’])*"
_CLAIM_BEFORE = re.compile(rf"{_IS}{_SMALL}\Z", re.IGNORECASE)
# What it is may stand before its name: "is the German composer …", 是唐代诗人…. Not "is the capital of …".
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
# Nothing but marks, "so" or "therefore", and small words stands before the truth.
_START_BEFORE = re.compile(
    rf"\A(?:{OPENING_MARKS}|[#>-])*(?:{write_pattern(read_phrases('opening'))}[\s,，:：]*)?{_SMALL}\Z",
    re.IGNORECASE,
)
# The clause ends behind the truth: with the text, a full stop, or a word that begins another clause.
_CLAUSE_END = re.compile(
    rf"""{CLOSING_MARKS}
    (?: \Z | [.。．!！;；\n?？](?:\W|\Z) | [.。．!！;；]
      | です | だ(?!\w) | である | でした | 입니다 | 이다 | 예요 | 이에요 | है | है। | dir\b | dır\b | dur\b
      | (?: [,，、]?\s*
            (?:because|since|as|which|who|whose|where|for|so|and[ ]it|and[ ]the|given|due|with|in|on|at|from|not
              |rather|instead|but|although|though|whereas|while|by
              |parce|car|puisque|qui|où|en|porque|pois|ya[ ]que|que
              |weil|da|denn|das|die|und[ ]nicht|perché|che|потому|который|так[ ]как|поскольку)\b )
      | [,，]?\s*(?:因为|由于|而不是|而非|不是|它|其|这|位于|なぜなら)
    )""",
    re.IGNORECASE | re.VERBOSE,
)
# Behind the truth as the subject: "Paris is …", "Newton discovered …", 鲁迅写的.
_VERB_AFTER = re.compile(
    rf"""{CLOSING_MARKS}
    (?: \s(?:is|are|was|were|has|had|est|es|é|è|ist|war|är|er|jest|adalah|là|это)\b
      | \s?[—–:：]\s
      | 是 | 为 | は | が | [写作创著发画唱导建][^，。]{{0,3}}的 | 이 | 가 | 은 | 는
      | \s(?:wrote|discovered|invented|painted|won|became|founded|composed)\b
    )""",
    re.IGNORECASE | re.VERBOSE,
)
# The phrase between two commas behind the truth: ", the capital of France,".
_APPOSITION = re.compile(rf"{CLOSING_MARKS}[,，]\s*([^,，.。;；!?]{{1,80}})")
# Words that begin such a phrase.
_APPOSITION_WORDS = word_set("""
    the a an which who la le el der die das il o su son its it they he she of i naturally obviously
""")


def normalise(text: str) -> str:
    """Return the text in lower case, normal width and Simplified characters, without punctuation and articles."""
    text = unicodedata.normalize("NFKC", replace_surrogates(text)).casefold()
    if not text.isascii():
        text = load_converter("t2s").convert(text)
    letters = ""
    for char in text.replace("'", ""):
        letters += char if char.isalnum() or unicodedata.category(char)[0] in "SM" else " "
    without_articles = " ".join(_ARTICLES.sub(" ", letters).split())
    # A text of articles or punctuation only stays as it is.
    return without_articles or " ".join(letters.split()) or text.strip()


def claims(answer: str, truth: str, question: str = "") -> bool:
    """Does the first or the last sentence claim the truth, without a later retraction or another number beside it?

    If the question is known, the second sentence counts as well.
    """
    prose, entries = separate_list(answer)
    sentences = [sentence for sentence in split_sentences(prose) if any(map(str.isalnum, sentence))]
    if entries and mentions([", ".join(entries)], truth, question, only_lists=True):
        return True
    if not sentences or names_other_numbers(answer[:4000], truth, question):
        return False
    if _is_claimed_in(sentences[-1], truth, question):
        return True
    later = " ".join(sentences[1:])[:4000]
    if RETRACTION.search(later):
        return mentions(sentences[-1:], truth, question)
    opening = sentences[:2] if question.strip() else sentences[:1]
    if any(_is_claimed_in(sentence, truth, question) for sentence in opening):
        return True
    candidates = list(dict.fromkeys([*sentences[:2], *sentences[-1:]]))
    return mentions(candidates, truth, question)


def separate_list(answer: str) -> tuple[str, list[str]]:
    """Split an answer into its text and the names that it lists on lines of their own (two or more, else none).

    A name in such a list is not claimed: the answer names several.
    """
    lines = answer.splitlines()
    matches = [_ENTRY.match(line) for line in lines]
    entries = [match[1].strip("*_.,; ") for match in matches if match]
    if len(entries) < 2:
        return answer, []
    rest = [line for line, match in zip(lines, matches, strict=True) if match is None]
    return "\n".join(rest), entries


def _is_claimed_in(sentence: str, truth: str, question: str) -> bool:
    """Does the truth stand in the sentence where it is claimed, and nothing rule it out?"""
    sentence = _simplify(sentence[:LONGEST_SENTENCE])
    truth = _simplify(truth).strip(" .。")
    if not truth or DOUBT.search(blank_quotations(sentence)):
        return False
    if truth.isdigit():
        if question and has_rival_number(sentence, [truth], question):
            return False
        if re.search(rf"(?<!\d){truth}\.\s[^\W\d_]", sentence):  # "3. března": a day or an ordinal
            return False
    # The truth as whole words; its own words may be joined by hyphens.
    left = r"(?<!\w)" if is_spaced(truth[0]) else ""
    right = r"(?!\w)" if is_spaced(truth[-1]) else ""
    words = r"[\s\-‐]+".join(map(re.escape, truth.replace("-", " ").split()))
    for place in itertools.islice(re.finditer(left + words + right, sentence, re.IGNORECASE), 20):
        start, end = place.span()
        if (
            _is_in_claiming_place(sentence, start, end, question)
            and not is_ruled_out(sentence, start, end, question)
            and not is_in_denying_clause(blank_quotations(sentence), start, end, question)
        ):
            return True
    return False


def _simplify(text: str) -> str:
    """Return the text in one width, in Simplified characters, with single spaces."""
    text = unicodedata.normalize("NFKC", replace_surrogates(text))
    if not text.isascii():
        text = load_converter("t2s").convert(text).replace("ß", "ss")
    return " ".join(text.split())


def _is_in_claiming_place(sentence: str, start: int, end: int, question: str) -> bool:
    """Does sentence[start:end] end a clause after "is", or begin the sentence before "is" or the end of a clause?"""
    before = sentence[:start]
    after = sentence[end:]
    ends_clause = _CLAUSE_END.match(after) is not None or _is_apposition(after, question)
    is_named = _CLAIM_BEFORE.search(before[-80:]) or _DESCRIBED_BEFORE.search(before[-120:])
    if is_named and ends_clause:
        return True
    begins_sentence = _START_BEFORE.match(before) is not None
    return begins_sentence and (_VERB_AFTER.match(after) is not None or ends_clause)


def _is_apposition(after: str, question: str) -> bool:
    """Does a comma follow, and then a phrase such as "the capital of …" or one that the question gives?"""
    apposition = _APPOSITION.match(after)
    if apposition is None:
        return False
    phrase = apposition[1].strip().casefold()
    if not phrase:
        return False
    if phrase.split()[0] in _APPOSITION_WORDS:
        return True
    return len(phrase) > 2 and phrase in _simplify(question).casefold()
