"""Prepare a prompt for the rules: sentences in which quantities and quoted texts are replaced by tokens.

    >>> prepared = prepare_sentences('Write a 300+ word story. Use the word "tide" at least twice.')
    >>> [sentence.text for sentence in prepared]
    ['Write a ⟨q1⟩ word story.', 'Use the word ⟨s0⟩ ⟨q0⟩ times.']
    >>> prepared[1].quantities["q0"], prepared[1].strings["s0"]
    (Quantity(relation='at least', low=2, high=2), 'tide')

The tokens make the rules short: a rule that reads "⟨q⟩ words" need not know that a quantity may be written as "at least
three hundred", "300+", "no fewer than 300" or "between 300 and 400". Long quotations, code blocks and other material
that the prompt only talks about are replaced by "⟨m⟩": what they say is not asked of the response.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from rubrank.drafting.patterns import any_of, list_words, pattern, read_group, words
from rubrank.verifiers.shared.numerals import read_english

Relation: TypeAlias = Literal[
    "at least", "at most", "more than", "less than", "exactly", "around", "between", "plain"
]
"""plain: a number alone, as in "3 bullet points"."""

_MOST_STRING_WORDS = 30
_MOST_STRING_CHARACTERS = 300
"""Size of a quotation that a constraint may name; a longer one is material."""
_CHARACTERS_BEFORE = 80
"""Characters before a quantity in which a negation or a limit is looked for."""


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
    """The sentence as it is in the prompt."""
    quantities: dict[str, Quantity]
    strings: dict[str, str]

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


# ---- material and quotations ---------------------------------------------------------------------------------------

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
# "Summarise this article: …", "Classify the following instruction: …": what follows is material.
_GIVEN_TEXT = re.compile(
    rf"(?P<task>^[^.:!?\n]{{0,40}}\b{words('task on a text')}\b[^.:!?\n⟨]{{0,80}}"
    rf"\b{words('given text')}\b[^.:!?\n⟨]{{0,60}}:[ \t]+)"
    r"(?P<text>[^\s\"“'‘⟨][^\n]{9,}?)"
    # … up to a sentence that speaks to the writer of the response again
    rf"(?=$|(?<=[.!?。])\s+{words('back to the request')}\b)",
    re.IGNORECASE | re.MULTILINE,
)
# **must**: the asterisks are removed
_EMPHASIS = re.compile(r"\*\*([^*\n]{1,80})\*\*")
# Quoted texts in all kinds of quotation marks: """a""", "b", “c”, «d», 「e」, 'f', `g`
_QUOTATION = re.compile(
    r'"""(?P<triple>.*?)"""'
    r'|[“”"„](?P<double>[^“”"\n]{1,2000}?)[”"“]'
    r"|«\s*(?P<guillemets>[^»\n]{1,2000}?)\s*»"
    r"|「(?P<corner>[^」]{1,2000})」|『(?P<white>[^』]{1,2000})』|【(?P<lens>[^】]{1,200})】"
    r"|(?<![\w'])'(?P<single>[^'\n]{1,200}?)'(?![\w'])"
    r"|(?<!`)`(?P<tick>[^`\n]{1,200})`(?!`)",
    re.DOTALL,
)
# A quotation may run over several lines; then it is material.
_LONG_QUOTATION = re.compile(r'(?:(?<=\s)|^)["“][^"“”]{200,6000}["”]', re.DOTALL)


# Their full stops would end a sentence.
_ABBREVIATIONS = [
    (pattern(r"\ba single (?=sentence|paragraph)"), "one "),
    (pattern(r"\bi\.\s?e\."), "ie"),
    (pattern(r"\be\.\s?g\."), "eg"),
    (re.compile(r"\bP\.\s?P\.\s?S\b\.?"), "PPS"),
    (re.compile(r"\bP\.\s?S\b\.?"), "PS"),
    (pattern(r"\b(vs|etc|Dr|Mr|Mrs|Ms|St|approx|U\.S)\.(?! [A-Z]\w+ \w+ing\b)"), r"\1"),
]
# A full stop ends a sentence if white space follows; Chinese and Japanese need none. A line break always does.
_SENTENCE_END = re.compile(r"(?<=[.!?])[)\"]?\s+(?=\S)|(?<=[。！？；])|\n+")

# ---- quantities ----------------------------------------------------------------------------------------------------

_ONES = list_words("number, ones")
_TENS = list_words("number, tens")
_BELOW_TWENTY = ["zero", *_ONES, *list_words("number, ten to nineteen")]

_ONE = any_of(*_ONES)
# The longest first: "fourteen" begins with "four".
_SMALL = any_of(*sorted(_BELOW_TWENTY, key=len, reverse=True))
_BELOW_HUNDRED = rf"(?:{any_of(*_TENS)}(?:[- ]{_ONE})?|{_SMALL})"
_NUMBER_WORD = any_of(
    # "two hundred and fifty"; but "between one hundred and two hundred" has two numbers
    rf"(?:a|{_ONE})[- ]hundred (?:and )?{_BELOW_HUNDRED}\b(?![- ](?:hundred|thousand)\b)",
    # "thirty-five", "a dozen", "three hundred"
    rf"(?:{_BELOW_HUNDRED}|a dozen|a couple of|a hundred)(?:[- ](?:hundred|thousand))?",
)
# "1,200", "300", "3.0", "twenty-five"
NUMBER = rf"(?:\d{{1,3}}(?:,\d{{3}})+|\d{{1,7}}(?:\.0)?|\b{_NUMBER_WORD}\b)"

_RELATIONS: tuple[Relation, ...] = (
    "at least",
    "at most",
    "more than",
    "less than",
    "exactly",
    "around",
)
_ANY_RELATION = any_of(*map(words, _RELATIONS))
# "at least 300", "between 300 and 400", "from 3 to 5", "300+", "3 or more"; not "3rd", "$300", "3:15", "30%"
_QUANTITY = pattern(
    # not within a word, a price, a time or a token
    r"(?<![\w.$€£%⟨:/-])",
    # "no fewer than", "a total of", "between"
    rf"(?:(?P<relation>(?:(?<=\W)|^|\b){_ANY_RELATION})\s*)?",
    r"(?:(?:a\s+)?total\s+of\s+|the\s+number\s+|in\s+total\s+)?",
    r"(?:(?P<between>between|from|in the range of|ranging from|range of)\s+)?",
    # "300", or "300 to 400"
    rf"(?P<low>{NUMBER})",
    rf"(?:\s*(?P<joiner>-|–|—|to|and|or)\s*(?P<high>{NUMBER})(?!\w))?",
    # "+", "or more", "or fewer"
    r"(?P<plus>\s?\+|\s+or\s+(?:more|greater)\b|\s+or\s+(?:fewer|less)\b)?",
    # not a percentage, a decimal number, a time, a date or an ordinal number
    r"(?![\w%⟩]|\.\d|:\d|/\d|,\d|-?(?:st|nd|rd|th)\b)",
)
# "at least once", "twice or more"; not "once upon a time"
_TIMES = pattern(
    rf"\b(?:(?P<relation>{_ANY_RELATION})\s+)?(?P<count>once|twice|thrice)\b",
    r"(?P<after> or (?:less|fewer|more))?",
    r"(?!\s+(?:again|upon|you|the|it|we|they|he|a|in a)\b)",
)
# "300 words or more", "3 paragraphs at most"
_AFTER_UNIT = pattern(
    r"⟨(?P<token>q\d+)⟩(?P<unit>[- ](?:[\w-]+\s){0,2}?[\w-]+)\s*,?\s*",
    rf"(?:(?P<more>{words('more, after the unit')})|(?P<fewer>{words('fewer, after the unit')}))",
    r"\b(?!\s+⟨q)",
)


# "do not go over 60", "it should not be longer than 60", "avoid writing more than 60": at most 60
_NEGATED_BEFORE = pattern(
    rf"(?:\bnot|n't|\bnever|\bwithout)\s+(?:{words('between not and number')}\s+){{0,4}}$",
    r"|\bnothing\s+$",
    r"|\bavoid(?:ing)?\s+(?:[\w'⟨⟩-]+\s+){0,5}$",
)
_NEGATED_RELATIONS: dict[str, Relation] = {"more than": "at most", "less than": "at least"}
# "I would rather not read more than 90", "nobody wants to see over 60": a negation before it in the same clause.
# What it turns around is not sure, and "more than 90" would be the opposite of the request: no constraint.
_PERHAPS_NEGATED_BEFORE = pattern(
    rf"(?:\b{words('dislike')}|n't)\b",
    r"(?:(?!\b(?:and|but|then|or|which|while|instead|rather|so)\b)[^.,;:!?\n⟨]){0,70}$",
)
# "limit your reply to 75", "keep it to 75", "cap it at 75", "within 75": at most 75
_LIMIT_BEFORE = pattern(
    r"(?<!\bthe )(?<!\ba )(?<!word )(?<!character )\b(?:limit(?:ing)?|be limited|restrict|confine|keep)\b",
    r"[^.,;:!?\n⟨]{0,40}\b(?:to|within)\s*$",
    r"|\bcap(?:ped)?\b[^.,;:!?\n⟨]{0,25}\bat\s*$",
    r"|\bwithin\s*$",
)
# "don't limit yourself to 100", "no need for 100 words", "you need not write 100": no constraint at all
_DENIED_BEFORE = pattern(
    r"(?:\bnot|n't|\bnever)\s+",
    r"(?:limit|restrict|confine|(?:need|have) to|required to|worry about|care about)\b[^.,;:!?\n]{0,40}$",
    r"|\bno need (?:to|for)\b[^.,;:!?\n]{0,30}$",
    r"|\bneed not\b[^.,;:!?\n]{0,30}$",
)


# ---- sentences and tokens -------------------------------------------------------------------------------------------


def prepare_sentences(prompt: str) -> list[Sentence]:
    """Split a prompt into sentences with tokens, as described at the top of this file."""
    tokens = _Tokens()
    # Material and quotations are replaced first, because a number in them is no quantity.
    text = prompt.replace("’", "'").replace("‘", "'")
    text = _CODE.sub(lambda match: tokens.add_material(match[0]), text)
    text = _GIVEN_TEXT.sub(lambda match: match["task"] + tokens.add_material(match["text"]), text)
    text = _EMPHASIS.sub(r"\1", text)
    text = _LONG_QUOTATION.sub(lambda match: tokens.add_material(match[0]), text)
    text = _QUOTATION.sub(tokens.replace_quotation, text)
    for abbreviation, plain in _ABBREVIATIONS:
        text = abbreviation.sub(plain, text)
    text = _TIMES.sub(tokens.replace_times, text)
    text = _QUANTITY.sub(tokens.replace_quantity, text)
    # "300 words or more": the relation follows the unit.
    for match in _AFTER_UNIT.finditer(text):
        quantity = tokens.quantities[match["token"]]
        if quantity.relation == "plain":
            relation: Relation = "at least" if match["more"] else "at most"
            tokens.quantities[match["token"]] = replace(quantity, relation=relation)
    sentences = []
    for sentence in _SENTENCE_END.split(text):
        sentence = sentence.strip()
        if sentence:
            original = re.sub(r"⟨(\w\d+)⟩", lambda match: tokens.originals[match[1]], sentence)
            # Rules need not tell one piece of material from another.
            sentence = re.sub(r"⟨m\d+⟩", "⟨m⟩", sentence)
            sentences.append(Sentence(sentence, original, tokens.quantities, tokens.strings))
    return sentences


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
        """Add a token for a quotation: a string, or material if it is long."""
        string = next(group for group in match.groups() if group is not None)
        is_long = len(string.split()) > _MOST_STRING_WORDS or len(string) > _MOST_STRING_CHARACTERS
        if is_long or match["triple"] is not None:
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
        if match["after"]:
            relation = "at least" if match["after"].endswith("more") else "at most"
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
            # "3 and 5" without "between" are two numbers.
            is_range = match["between"] or match["joiner"].lower() != "and"
            if high > low and is_range:
                return self._add_quantity(Quantity("between", low, high), match)
            return unchanged
        if match["between"]:  # "from 3": a range without an end
            return unchanged
        after = (match["plus"] or "").lower()
        if "+" in after or "more" in after or "greater" in after:
            relation = "at least"
        elif after:
            relation = "at most"
        return self._add_quantity(Quantity(relation, low, low), match)

    def _add_quantity(self, quantity: Quantity, match: re.Match[str]) -> str:
        token = f"q{len(self.quantities)}"
        self.quantities[token] = quantity
        return self._add_token(token, match[0])


def _get_text_before(match: re.Match[str]) -> str:
    return match.string[max(0, match.start() - _CHARACTERS_BEFORE) : match.start()]


def _find_relation(relation_words: str | None) -> Relation:
    """Return the relation that words such as "no fewer than" state; "plain" without any."""
    if not relation_words:
        return "plain"
    for relation in _RELATIONS:
        if pattern(words(relation)).fullmatch(relation_words.strip()):
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
