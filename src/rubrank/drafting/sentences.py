"""Prepare a prompt for the rules (`rules/`): split it into sentences, and replace quantities and quotations by tokens.

    >>> prepared = prepare_sentences('Write a 300+ word story. Use the word "tide" at least twice.')
    >>> [sentence.text for sentence in prepared]
    ['Write a ⟨q1⟩ word story.', 'Use the word ⟨s0⟩ ⟨q0⟩ times.']
    >>> prepared[1].quantities["q0"], prepared[1].strings["s0"]
    (Quantity(relation='at least', low=2, high=2), 'tide')

The tokens make the rules short: a rule that looks for "⟨q0⟩ words" need not know that a quantity may be written as "at
least three hundred", "300+", "no fewer than 300" or "between 300 and 400". There are three kinds of tokens:

    ⟨q0⟩  a quantity: a number with its relation ("at least", "exactly"), or a range
    ⟨s0⟩  a string: a short quotation, which a constraint may name
    ⟨m⟩   material: a code block, a long quotation, a text to summarise. What it says is not asked of the response.

The text is replaced in the order below, which is also the order of the patterns in this file. Tokens are numbered as
they are made: in the example, "at least twice" (step 3) is ⟨q0⟩, although "300+" (step 4) stands before it.

    1  code blocks, given texts and quotations    first, because a number in them is no quantity
    2  spellings                                  "e.g." becomes "eg", because its full stops end no sentence
    3  "once", "twice", "thrice"                  become "⟨q0⟩ times"
    4  numbers                                    in digits or words, with the relation before or after them
    5  sentences                                  are split last, when no full stop of a quotation is left

The rules search the sentences by regular expressions, which are written as `pattern` explains. Most expressions have
gaps: `(?:\\w+\\s){0,3}?` allows up to three further words, `[^.]{0,60}` any text within the sentence.
"""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from typing import Any, Literal, TypeAlias

import yaml

from rubrank.verifiers.shared.numbers import read_english

# ---- data files and regular expressions -----------------------------------------------------------------------------

_DATA = files("rubrank") / "drafting" / "data"


@cache
def read_data(name: str) -> dict[str, Any]:
    """Return the mapping in data/NAME.yaml."""
    data: dict[str, Any] = yaml.safe_load((_DATA / f"{name}.yaml").read_text(encoding="utf-8"))
    return data


def read_table(name: str) -> list[list[str]]:
    """Return the lines of data/NAME.tsv, split at tabs; empty lines and those that begin with # are left out."""
    text = (_DATA / f"{name}.tsv").read_text(encoding="utf-8")
    return [line.split("\t") for line in text.splitlines() if line and not line.startswith("#")]


@cache
def _read_words() -> dict[str, str]:
    """Read data/words.tsv: name of a list → its alternatives, separated by |. Lines of the same name are one list."""
    lists: dict[str, str] = {}
    for name, alternatives in read_table("words"):
        lists[name] = f"{lists[name]}|{alternatives}" if name in lists else alternatives
    return lists


def list_words(name: str) -> list[str]:
    """Return the entries of a list in data/words.tsv that holds plain words."""
    return _read_words()[name].split("|")


def expand(text: str) -> str:
    """Return a regular expression with the lists of data/words.tsv in place of their names: {use} → (?:use|include|…).

    A list may contain names of other lists. The counts of regular expressions, such as {0,3}, stay.
    """
    return re.sub(
        r"\{([^\W\d][^{}]*)\}", lambda match: f"(?:{expand(_read_words()[match[1]])})", text
    )


def pattern(text: str) -> re.Pattern[str]:
    """Compile a regular expression that ignores case, in which {name} stands for a list of data/words.tsv.

    Python allows a group name only once in an expression. Here several alternatives may capture the same thing under
    one name; `read_group` returns it.

    >>> match = pattern(r"use (?P<word>\\w+)|(?P<word>\\w+) must appear").search("tide must appear")
    >>> read_group(match, "word")
    'tide'
    """
    counts: Counter[str] = Counter()

    def number_group(match: re.Match[str]) -> str:
        counts[match[1]] += 1
        number = counts[match[1]]
        return match[0] if number == 1 else f"(?P<{match[1]}_{number}>"

    return re.compile(re.sub(r"\(\?P<(\w+)>", number_group, expand(text)), re.IGNORECASE)


def read_group(match: re.Match[str], name: str) -> str:
    """Return the text that a pattern captured under a name; empty if it captured none."""
    for group, text in match.groupdict().items():
        if text and re.fullmatch(rf"{name}(?:_\d)?", group):
            return text
    return ""


# ---- sentences ------------------------------------------------------------------------------------------------------

Relation: TypeAlias = Literal[
    "at least", "at most", "more than", "less than", "exactly", "around", "between", "plain"
]
"""between: a range. plain: a number alone, as in "3 bullet points"; the rule decides what it means."""


@dataclass(frozen=True)
class Quantity:
    """A number with its relation; low and high differ only for "between"."""

    relation: Relation
    low: int
    high: int

    @property
    def number(self) -> int:
        """The number; for a range, the lower one."""
        return self.low


@dataclass(frozen=True)
class Sentence:
    """One sentence of a prompt, with tokens in the place of quantities and strings."""

    text: str
    original: str
    """The sentence of the prompt, without tokens. Simplified spellings stay: "eg" for "e.g.", no ** around words."""
    quantities: dict[str, Quantity]
    """Token → quantity. The tokens are numbered over the whole prompt, and its sentences share this mapping."""
    strings: dict[str, str]
    """Token → quoted text without its quotation marks, shared in the same way."""

    def get_quantity(self, match: re.Match[str]) -> Quantity:
        """Return the quantity behind the token in a match's group `quantity`."""
        return self.quantities[read_group(match, "quantity")]

    def get_string(self, match: re.Match[str]) -> str:
        """Return what a match names: the quoted text behind its group `string`, or the word of its group `bare`."""
        token = read_group(match, "string")
        return self.strings[token] if token else read_group(match, "bare")

    def find_strings(self, text: str) -> list[str]:
        """Return the strings whose tokens occur in a part of the sentence, in order."""
        return [self.strings[token] for token in re.findall(r"⟨(s\d+)⟩", text)]


def prepare_sentences(prompt: str) -> list[Sentence]:
    """Split a prompt into sentences with tokens, by the steps at the top of this file."""
    tokens = _Tokens()
    # 1: material and quotations
    text = prompt.replace("’", "'").replace("‘", "'")
    text = _CODE.sub(lambda match: tokens.add_material(match[0]), text)
    text = _GIVEN_TEXT.sub(lambda match: match["task"] + tokens.add_material(match["text"]), text)
    text = _EMPHASIS.sub(r"\1", text)
    text = _LONG_QUOTATION.sub(lambda match: tokens.add_material(match[0]), text)
    text = _QUOTATION.sub(tokens.replace_quotation, text)
    # 2: spellings
    for spelling, plain in _RESPELLINGS:
        text = spelling.sub(plain, text)
    # 3 and 4: quantities
    text = _TIMES.sub(tokens.replace_times, text)
    text = _QUANTITY.sub(tokens.replace_quantity, text)
    for match in _RELATION_AFTER_UNIT.finditer(text):
        quantity = tokens.quantities[match["token"]]
        if quantity.relation == "plain":
            relation: Relation = "at least" if match["more"] else "at most"
            tokens.quantities[match["token"]] = replace(quantity, relation=relation)
    # 5: sentences
    sentences = []
    for sentence in _SENTENCE_END.split(text):
        sentence = sentence.strip()
        if sentence:
            # An unknown token such as ⟨m9⟩ is the prompt's own text.
            original = re.sub(
                r"⟨([qsm]\d+)⟩",
                lambda match: tokens.originals.get(match[1], match[0]),
                sentence,
            )
            # Rules need not tell one piece of material from another.
            sentence = re.sub(r"⟨m\d+⟩", "⟨m⟩", sentence)
            sentences.append(Sentence(sentence, original, tokens.quantities, tokens.strings))
    return sentences


# ---- 1: material and quotations -------------------------------------------------------------------------------------

# A code block; one that is not closed runs to the end of the prompt.
_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
# "Summarise this article: …", "Classify the following instruction: …": what follows the colon is material.
# Not "Summarise tides: …", which does not point to a text ("this", "the following").
_GIVEN_TEXT = pattern(
    r"(?m)(?P<task>^[^.:!?\n]{0,40}\b{task on a text}\b[^.:!?\n⟨]{0,80}"
    r"\b{given text}\b[^.:!?\n⟨]{0,60}:[ \t]+)"
    # at least ten characters that do not begin with a quotation, which is replaced below
    r"(?P<text>[^\s\"“'‘⟨][^\n]{9,}?)"
    # up to the end of the line, or a sentence that speaks to the writer of the response again: "Please …", "Your …"
    r"(?=$|(?<=[.!?。])\s+{back to the request}\b)"
)
# **must** becomes must; not * must *, which may be a bullet point
_EMPHASIS = re.compile(r"\*\*([^*\n]{1,80})\*\*")
# A quotation of 200 characters or more may run over several lines. It begins after white space, because the mark in 6"
# stands for inches.
_LONG_QUOTATION = re.compile(r'(?:(?<=\s)|^)["“][^"“”]{200,6000}["”]', re.DOTALL)
_QUOTATION = re.compile(
    # """a""", which may run over several lines
    r'"""(?P<triple>.*?)"""'
    # "b", “b”, „b“
    r'|[“”"„](?P<double>[^“”"\n]{1,2000}?)[”"“]'
    # «c», 「d」, 『e』, 【f】
    r"|«\s*(?P<guillemets>[^»\n]{1,2000}?)\s*»"
    r"|「(?P<corner>[^」]{1,2000})」|『(?P<white>[^』]{1,2000})』|【(?P<lens>[^】]{1,200})】"
    # 'g'; not the apostrophes of "don't" and "the boys' dogs"
    r"|(?<![\w'])'(?P<single>[^'\n]{1,200}?)'(?![\w'])"
    # `h`; not ``h``
    r"|(?<!`)`(?P<tick>[^`\n]{1,200})`(?!`)"
    # What looks like a token but is the prompt's own text, as in the physics of ⟨q9⟩. Tokens ⟨q…⟩ and ⟨s…⟩ are made
    # only in and after this replacement, so none of ours is in the text yet.
    r"|(?P<lookalike>⟨[qs]\d+⟩)",
    re.DOTALL,
)
_MOST_STRING_WORDS = 30
_MOST_STRING_CHARACTERS = 300
"""A longer quotation is material: a constraint names a word, a phrase or a sentence."""

# ---- 2: spellings ---------------------------------------------------------------------------------------------------

_RESPELLINGS = [
    # "a single sentence" states a number; "a single idea" is left as it is
    (pattern(r"\ba single (?=sentence|paragraph)"), "one "),
    # The full stops of abbreviations would end a sentence.
    (pattern(r"\bi\.\s?e\."), "ie"),
    (pattern(r"\be\.\s?g\."), "eg"),
    (re.compile(r"\bP\.\s?P\.\s?S\b\.?"), "PPS"),
    (re.compile(r"\bP\.\s?S\b\.?"), "PS"),
    # "Dr. Lee", "cats vs. dogs"; not "birds, etc. Avoid using commas", where a sentence begins
    (pattern(r"\b(vs|etc|Dr|Mr|Mrs|Ms|St|approx|U\.S)\.(?! [A-Z]\w+ \w+ing\b)"), r"\1"),
]

# ---- 3 and 4: quantities --------------------------------------------------------------------------------------------

# The relations that words before a number state; the words are in data/words.tsv.
_RELATIONS: dict[Relation, re.Pattern[str]] = {
    "at least": pattern("{at least}"),
    "at most": pattern("{at most}"),
    "more than": pattern("{more than}"),
    "less than": pattern("{less than}"),
    "exactly": pattern("{exactly}"),
    "around": pattern("{around}"),
}
# "at least once", "twice or more"; not "once upon a time"
_TIMES = pattern(
    r"\b(?:(?P<relation>{relation})\s+)?(?P<count>once|twice|thrice)\b"
    r"(?:(?P<or_more> or more)|(?P<or_fewer> or (?:less|fewer)))?"
    r"(?!\s+(?:again|upon|you|the|it|we|they|he|a|in a)\b)"
)
# "at least 300", "between 300 and 400", "from 3 to 5", "300+", "3 or more"; not "3rd", "$300", "3:15", "30%"
_QUANTITY = pattern(
    # not within a word ("B12", "covid-19"), a price, a time ("3:15"), a fraction ("1/2") or a token
    r"(?<![\w.$€£%⟨:/-])"
    # "no fewer than", "≥"; the latter has no word boundary
    r"(?:(?P<relation>(?:(?<=\W)|^|\b){relation})\s*)?"
    r"(?:(?:a\s+)?total\s+of\s+|the\s+number\s+|in\s+total\s+)?"
    r"(?:(?P<between>between|from|in the range of|ranging from|range of)\s+)?"
    # "300", or "300 to 400"
    r"(?P<low>{number})"
    r"(?:\s*(?P<joiner>-|–|—|to|and|or)\s*(?P<high>{number})(?!\w))?"
    # "+", "or more", "or fewer"
    r"(?:(?P<or_more>\s?\+|\s+or\s+(?:more|greater)\b)|(?P<or_fewer>\s+or\s+(?:fewer|less)\b))?"
    # not a percentage, a decimal number, a time, a date or an ordinal number
    r"(?![\w%⟩]|\.\d|:\d|/\d|,\d|-?(?:st|nd|rd|th)\b)"
)
# "⟨q0⟩ words or more", "⟨q0⟩ very short paragraphs at most": the relation follows the unit of up to three words.
# Not "⟨q0⟩ paragraphs, at most ⟨q1⟩": there, the words belong to the second number.
_RELATION_AFTER_UNIT = pattern(
    r"⟨(?P<token>q\d+)⟩(?P<unit>[- ](?:[\w-]+\s){0,2}?[\w-]+)\s*,?\s*"
    r"(?:(?P<more>{more, after the unit})|(?P<fewer>{fewer, after the unit}))"
    r"\b(?!\s+⟨q)"
)

# The text before a quantity may change what it means. The patterns below end with $, where the quantity begins.
_CHARACTERS_BEFORE = 80
"""How much of that text is searched: enough for a negation and the 70 characters that may follow it."""

# "do not go over 60", "it should not be longer than 60", "avoid writing more than 60": at most 60.
# Not "do not rhyme, and write more than 60".
_NEGATED_BEFORE = pattern(
    r"(?:\bnot|n't|\bnever|\bwithout)\s+(?:{between not and number}\s+){0,4}$"
    r"|\bnothing\s+$"
    r"|\bavoid(?:ing)?\s+(?:[\w'⟨⟩-]+\s+){0,5}$"
)
_NEGATED_RELATIONS: dict[str, Relation] = {"more than": "at most", "less than": "at least"}
# "I would rather not read more than 90", "nobody wants to see over 60": a negation before it in the same clause.
# It is not certain what is negated, and "more than 90" would be the opposite of the request: no constraint.
# Not "do not mention the moon and write more than 90": "and" begins another clause.
_PERHAPS_NEGATED_BEFORE = pattern(
    r"(?:\b{dislike}|n't)\b"
    r"(?:(?!\b(?:and|but|then|or|which|while|instead|rather|so)\b)[^.,;:!?\n⟨]){0,70}$"
)
# "limit your reply to 75", "keep it to 75", "cap it at 75", "within 75": at most 75.
# Not "the limit may rise to 75", "the word limit may rise to 75": there, "limit" is a noun.
_LIMIT_BEFORE = pattern(
    r"(?<!\bthe )(?<!\ba )(?<!word )(?<!character )\b(?:limit(?:ing)?|be limited|restrict|confine|keep)\b"
    r"[^.,;:!?\n⟨]{0,40}\b(?:to|within)\s*$"
    r"|\bcap(?:ped)?\b[^.,;:!?\n⟨]{0,25}\bat\s*$"
    r"|\bwithin\s*$"
)
# "don't limit yourself to 100", "no need for 100 words", "you need not write 100": no constraint at all.
# Not "limit yourself to 100".
_DENIED_BEFORE = pattern(
    r"(?:\bnot|n't|\bnever)\s+"
    r"(?:limit|restrict|confine|(?:need|have) to|required to|worry about|care about)\b[^.,;:!?\n]{0,40}$"
    r"|\bno need (?:to|for)\b[^.,;:!?\n]{0,30}$"
    r"|\bneed not\b[^.,;:!?\n]{0,30}$"
)

# ---- 5: sentences ---------------------------------------------------------------------------------------------------

# A full stop ends a sentence if white space follows; Chinese and Japanese need none. A line break always does.
_SENTENCE_END = re.compile(r"(?<=[.!?])[)\"]?\s+(?=\S)|(?<=[。！？；])|\n+")

# ---- tokens ---------------------------------------------------------------------------------------------------------


class _Tokens:
    """The tokens in the text of a prompt, and what they stand for."""

    def __init__(self) -> None:
        self.quantities: dict[str, Quantity] = {}
        self.strings: dict[str, str] = {}
        self.originals: dict[str, str] = {}
        """Every token's text in the prompt."""

    def add_material(self, original: str) -> str:
        """Add a token for a text that asks nothing of the response."""
        return self._add_token(f"m{len(self.originals)}", original)

    def _add_token(self, token: str, original: str) -> str:
        self.originals[token] = original
        return f"⟨{token}⟩"

    def replace_quotation(self, match: re.Match[str]) -> str:
        """Add a token for a quotation: a string, or material if it is long or only looks like a token."""
        string = next(group for group in match.groups() if group is not None)
        is_long = len(string.split()) > _MOST_STRING_WORDS or len(string) > _MOST_STRING_CHARACTERS
        if is_long or match.lastgroup in ("triple", "lookalike"):
            return self.add_material(match[0])
        name = f"s{len(self.strings)}"
        self.strings[name] = string.strip()
        token = self._add_token(name, match[0])
        # A quotation that ends with a full stop ends the sentence, if a capital follows.
        ends_with_mark = string.rstrip()[-1:] in ".!?"
        if ends_with_mark and re.match(r"\s+[A-Z]", match.string[match.end() :]):
            token += "."
        return token

    def replace_times(self, match: re.Match[str]) -> str:
        """Add a token for "once", "at least twice"."""
        count = {"once": 1, "twice": 2, "thrice": 3}[match["count"].lower()]
        relation = _find_relation(match["relation"])
        if _NEGATED_BEFORE.search(_get_text_before(match)):
            relation = _NEGATED_RELATIONS.get(relation, relation)
        if match["or_more"]:
            relation = "at least"
        elif match["or_fewer"]:
            relation = "at most"
        return self._add_quantity(Quantity(relation, count, count), match) + " times"

    def replace_quantity(self, match: re.Match[str]) -> str:
        """Add a token for a number with its relation, or for a range; return the text itself if it is neither."""
        unchanged = match[0]
        low = read_number(match["low"])
        relation = _find_relation(match["relation"])
        before = _get_text_before(match)
        if _DENIED_BEFORE.search(before):
            return unchanged
        if _NEGATED_BEFORE.search(before):
            relation = _NEGATED_RELATIONS.get(relation, relation)
        elif relation in _NEGATED_RELATIONS and _PERHAPS_NEGATED_BEFORE.search(before):
            return unchanged
        elif relation == "plain" and not match["high"] and _LIMIT_BEFORE.search(before):
            relation = "at most"
        if match["high"]:
            high = read_number(match["high"])
            joiner = match["joiner"].lower()
            # "3 to 5", "between 3 and 5"; but "3 and 5" alone are two numbers.
            is_range = match["between"] or joiner not in ("and", "or")
            # "3 or 4" is a range, because no number lies between; "3 or 5" is none, because 4 is not asked for.
            if joiner == "or" and high == low + 1:
                is_range = True
            if is_range and high > low:
                return self._add_quantity(Quantity("between", low, high), match)
            return unchanged
        if match["between"]:  # "from 3": a range without an end
            return unchanged
        if match["or_more"]:
            relation = "at least"
        elif match["or_fewer"]:
            relation = "at most"
        return self._add_quantity(Quantity(relation, low, low), match)

    def _add_quantity(self, quantity: Quantity, match: re.Match[str]) -> str:
        token = f"q{len(self.quantities)}"
        self.quantities[token] = quantity
        return self._add_token(token, match[0])


def _get_text_before(match: re.Match[str]) -> str:
    return match.string[: match.start()][-_CHARACTERS_BEFORE:]


def _find_relation(relation_words: str | None) -> Relation:
    """Return the relation that words such as "no fewer than" state; "plain" without any."""
    if not relation_words:
        return "plain"
    for relation, relation_pattern in _RELATIONS.items():
        if relation_pattern.fullmatch(relation_words.strip()):
            return relation
    return "plain"


def read_number(text: str) -> int:
    """Return the value of digits ("1,200") or number words ("twenty-five", "three hundred and ten")."""
    text = text.strip().lower()
    digits = text.replace(",", "").removesuffix(".0")
    if digits.isdigit():
        return int(digits)
    return 2 if text == "a couple of" else int(read_english(text))


def occurs_outside_quotations(phrase: str, prompt: str) -> bool:
    """Does the phrase occur in the prompt itself, and not only within a quotation or code?

    >>> occurs_outside_quotations("at most 5 words", 'Translate "Use at most 5 words." into French.')
    False
    >>> occurs_outside_quotations('the word "tide"', 'Use the word "tide".')
    True
    """
    folded_phrase = fold_text(phrase)

    def remove(match: re.Match[str]) -> str:
        return " " if folded_phrase in fold_text(match[0]) else match[0]

    text = prompt
    for material in (_CODE, _LONG_QUOTATION, _QUOTATION):
        text = material.sub(remove, text)
    return folded_phrase in fold_text(text)


def fold_text(text: str) -> str:
    """Return the text without differences of case, white space and the form of apostrophes."""
    return " ".join(text.replace("’", "'").replace("‘", "'").casefold().split())
