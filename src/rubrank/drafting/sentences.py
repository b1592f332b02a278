"""Prepare a prompt for the rules: sentences in which quantities and quoted texts are replaced by tokens.

    >>> prepared = prepare('Write a 300+ word story. Use the word "tide" at least twice.')
    >>> [sentence.text for sentence in prepared]
    ['Write a ⟨q1⟩ word story.', 'Use the word ⟨s0⟩ ⟨q0⟩ times.']
    >>> prepared[1].quantity("q0"), prepared[1].string("s0")
    (Quantity(relation='at least', low=2, high=2), 'tide')

The tokens make the rules short: a rule that reads "⟨q⟩ words" need not know that a quantity may be written as "at least
three hundred", "300+", "no fewer than 300" or "between 300 and 400". Long quotations, code blocks and other material
that the prompt only talks about are replaced by "⟨m⟩": what they say is not asked of the response.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, TypeAlias

Relation: TypeAlias = Literal[
    "at least", "at most", "more than", "less than", "exactly", "around", "between", "plain"
]
"""plain: a number alone, as in "3 bullet points"."""

_LONGEST_STRING = 30
"""Words of a quotation that a constraint may name; a longer one is material."""


@dataclass(frozen=True)
class Quantity:
    """A number with its relation; low and high differ only for "between"."""

    relation: Relation
    low: int
    high: int

    @property
    def number(self) -> int:
        """The number, unless it is a range."""
        return self.low


@dataclass(frozen=True)
class Sentence:
    """One sentence of a prompt, with tokens in the place of quantities and strings."""

    text: str
    original: str
    """As it stands in the prompt."""
    quantities: dict[str, Quantity]
    strings: dict[str, str]

    def quantity(self, token: str) -> Quantity:
        """The quantity behind a token such as q0."""
        return self.quantities[token]

    def string(self, token: str) -> str:
        """The text behind a token such as s0."""
        return self.strings[token]

    def strings_in(self, text: str) -> list[str]:
        """The strings whose tokens stand in a part of the sentence, in order."""
        return [self.strings[token] for token in re.findall(r"⟨(s\d+)⟩", text)]


def prepare(prompt: str) -> list[Sentence]:
    """Split a prompt into sentences with tokens; see the top of this file."""
    quantities: dict[str, Quantity] = {}
    strings: dict[str, str] = {}
    originals: dict[str, str] = {}

    def keep(token: str, original: str) -> str:
        originals[token] = original
        return f"⟨{token}⟩"

    text = prompt.replace("’", "'").replace("‘", "'")
    text = _CODE.sub(lambda match: keep(f"m{len(originals)}", match[0]), text)
    text = _GIVEN_TEXT.sub(
        lambda match: match["task"] + keep(f"m{3000 + match.start()}", match["text"]), text
    )
    text = _EMPHASIS.sub(r"\1", text)
    text = _replace_quotations(text, strings, keep)
    for abbreviation, plain in _ABBREVIATIONS:
        text = abbreviation.sub(plain, text)
    text = _replace_quantities(text, quantities, keep)
    sentences = []
    for part in _SENTENCE_END.split(text):
        part = part.strip()
        if part:
            original = re.sub(r"⟨(\w\d+)⟩", lambda match: originals[match[1]], part)
            text_of_part = re.sub(r"⟨m\d+⟩", "⟨m⟩", part)
            sentences.append(Sentence(text_of_part, original, quantities, strings))
    return sentences


# ---- material and quotations ---------------------------------------------------------------------------------------

_CODE = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
# "Summarise this article: …", "Classify the following instruction: …": what follows is material.
_GIVEN_TEXT = re.compile(
    r"(?P<task>^[^.:!?\n]{0,40}\b(?:summari[sz]e|classify|translate|proofread|correct|fix|paraphrase|edit|identify|label"
    r"|categori[sz]e|detect|rewrite|rephrase|explain|evaluate|critique|grade|improve|analy[sz]e|give me feedback)\b"
    r"[^.:!?\n⟨]{0,80}"
    r"\b(?:this|these|the following|the sentence|the text|the instruction|the rules?|the clause|grammar)\b"
    r"[^.:!?\n⟨]{0,60}:[ \t]+)"
    r"(?P<text>[^\s\"“'‘⟨][^\n]{9,}?)"
    # … up to a sentence that speaks to the writer of the response again
    r"(?=$|(?<=[.!?。])\s+(?:do not|don't|your|please|make sure|ensure|include|use|the response|answer|respond)\b)",
    re.IGNORECASE | re.MULTILINE,
)
_EMPHASIS = re.compile(r"\*\*([^*\n]{1,80})\*\*")
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


def _replace_quotations(text: str, strings: dict[str, str], keep: Callable[[str, str], str]) -> str:
    count = 0

    def replace(match: re.Match[str]) -> str:
        nonlocal count
        string = next(group for group in match.groups() if group is not None)
        is_material = (
            match["triple"] is not None
            or len(string.split()) > _LONGEST_STRING
            or len(string) > 300
        )
        count += 1
        if is_material:
            return keep(f"m{1000 + count}", match[0])
        token = f"s{len(strings)}"
        strings[token] = string.strip()
        # A quotation that ends with a full stop ends the sentence, if a capital follows.
        ends_sentence = string.rstrip()[-1:] in ".!?" and re.match(
            r"\s+[A-Z]", match.string[match.end() :]
        )
        return keep(token, match[0]) + ("." if ends_sentence else "")

    text = _LONG_QUOTATION.sub(lambda match: keep(f"m{2000 + match.start()}", match[0]), text)
    return _QUOTATION.sub(replace, text)


def stands_outside_quotations(words: str, prompt: str) -> bool:
    """Do the words stand in the prompt itself, and not only within a quotation or code?

    >>> stands_outside_quotations("at most 5 words", 'Translate "Use at most 5 words." into French.')
    False
    >>> stands_outside_quotations('the word "tide"', 'Use the word "tide".')
    True
    """

    def remove(match: re.Match[str]) -> str:
        return " " if folded_words in fold_text(match[0]) else match[0]

    folded_words = fold_text(words)
    text = prompt
    for material in (_CODE, _LONG_QUOTATION, _QUOTATION):
        text = material.sub(remove, text)
    return folded_words in fold_text(text)


def fold_text(text: str) -> str:
    """The text without differences of case, white space and the form of apostrophes."""
    return " ".join(text.replace("’", "'").replace("‘", "'").casefold().split())


_ABBREVIATIONS: list[tuple[re.Pattern[str], str]] = [
    (re.compile(r"\ba single (?=sentence|paragraph)", re.IGNORECASE), "one "),
    (re.compile(r"\bi\.\s?e\.", re.IGNORECASE), "ie"),
    (re.compile(r"\be\.\s?g\.", re.IGNORECASE), "eg"),
    (re.compile(r"\bP\.\s?P\.\s?S\b\.?"), "PPS"),
    (re.compile(r"\bP\.\s?S\b\.?"), "PS"),
    (
        re.compile(
            r"\b(vs|etc|Dr|Mr|Mrs|Ms|St|approx|U\.S)\.(?! [A-Z]\w+ \w+ing\b)", re.IGNORECASE
        ),
        r"\1",
    ),
]
# A full stop ends a sentence if white space follows; Chinese and Japanese need none. A line break always does.
_SENTENCE_END = re.compile(r"(?<=[.!?])[)\"]?\s+(?=\S)|(?<=[。！？；])|\n+")


# ---- quantities ----------------------------------------------------------------------------------------------------

_UNITS_OF_TEN = ("twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety")
_TEENS = ("thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen")
_ONES = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine")
_SMALL = ("zero", *_ONES, "ten", "eleven", "twelve", *_TEENS)
_WORD_VALUES = (
    {word: value for value, word in enumerate(_SMALL)}
    | {word: 10 * (2 + value) for value, word in enumerate(_UNITS_OF_TEN)}
    | {"a dozen": 12, "a couple of": 2, "a hundred": 100}
)
_BELOW_TWENTY = "|".join(sorted(_SMALL, key=len, reverse=True))
_BELOW_HUNDRED = rf"(?:(?:{'|'.join(_UNITS_OF_TEN)})(?:[- ](?:{'|'.join(_ONES)}))?|{_BELOW_TWENTY})"
_NUMBER_WORD = (
    # "two hundred and fifty"; but "between one hundred and two hundred" has two numbers
    rf"(?:(?:a|{'|'.join(_ONES)})[- ]hundred (?:and )?{_BELOW_HUNDRED}\b(?![- ](?:hundred|thousand)\b)"
    rf"|(?:{_BELOW_HUNDRED}|a dozen|a couple of|a hundred)(?:[- ](?:hundred|thousand))?)"
)
NUMBER = rf"(?:\d{{1,3}}(?:,\d{{3}})+|\d{{1,7}}(?:\.0)?|\b{_NUMBER_WORD}\b)"
_AT_LEAST = (
    r"at least|at minimum|at a minimum|no fewer than|not fewer than|no less than|not less than|a minimum of"
    r"|minimum of"
    r"|the minimum of|minimum|min\.?|a minimum|greater than or equal to|≥|>="
)
_AT_MOST = (
    r"at most|at maximum|at the most|no more than|not more than|a maximum of|maximum of|the maximum of|maximum"
    r"|max\.?|up to"
    r"|not exceed|not exceeding|without exceeding|not to exceed|does not exceed|do not exceed|don't exceed"
    r"|less than or equal to|≤|<=|not go over"
)
_MORE_THAN = (
    r"more than|longer than|run past|go past|over|above|beyond|greater than|exceed(?:s|ing)?|surpass(?:es)?"
    r"|upwards of|>"
)
_LESS_THAN = r"less than|shorter than|fewer than|under|below|lower than|smaller than|<"
_EXACTLY = r"exactly|precisely|just|only|exact|equal to|a total of"
_AROUND = r"about|around|approximately|roughly|approx|circa|nearly|close to|some|~|≈|in the region of|an average of"
_RELATION_WORDS: list[tuple[Relation, str]] = [
    ("at least", _AT_LEAST),
    ("at most", _AT_MOST),
    ("more than", _MORE_THAN),
    ("less than", _LESS_THAN),
    ("exactly", _EXACTLY),
    ("around", _AROUND),
]
_ANY_RELATION = "|".join(pattern for _, pattern in _RELATION_WORDS)
_FILLER = r"(?:(?:a\s+)?total\s+of\s+|the\s+number\s+|in\s+total\s+)?"
_QUANTITY = re.compile(
    rf"(?<![\w.$€£%⟨:/-])(?:(?P<relation>(?:(?<=\W)|^|\b)(?:{_ANY_RELATION}))\s*)?{_FILLER}"
    rf"(?:(?P<between>between|from|in the range of|ranging from|range of)\s+)?(?P<low>{NUMBER})"
    rf"(?:\s*(?P<joiner>-|–|—|to|and|or)\s*(?P<high>{NUMBER})(?!\w))?"
    r"(?P<plus>\s?\+|\s+or\s+(?:more|greater)\b|\s+or\s+(?:fewer|less)\b)?(?![\w%⟩]|\.\d|:\d|/\d|,\d|-?(?:st|nd"
    r"|rd|th)\b)",
    re.IGNORECASE,
)
_TIMES = re.compile(
    rf"\b(?:(?P<relation>{_ANY_RELATION})\s+)?(?P<count>once|twice|thrice)\b(?P<after> or (?:less|fewer"
    rf"|more))?(?!\s+(?:again|upon|you|the|it|we|they|he|a|in a)\b)",
    re.IGNORECASE,
)
_AFTER_UNIT = re.compile(
    r"⟨(?P<token>q\d+)⟩(?P<unit>[- ](?:[\w-]+\s){0,2}?[\w-]+)\s*"
    r"(?:,?\s*(?P<more>or more|or greater|minimum|at a minimum|at the least|at minimum|at least|and above|or above)"
    r"|,?\s*(?P<fewer>or fewer|or less|or under|maximum|max|at most|at maximum|at the most|tops|and below"
    r"|or below))\b(?!\s+⟨q)",
    re.IGNORECASE,
)


def read_number(text: str) -> int:
    """The value of digits ("1,200") or number words ("twenty-five", "three hundred and ten")."""
    text = text.strip().lower()
    digits = text.replace(",", "").removesuffix(".0")
    if digits.isdigit():
        return int(digits)
    hundreds, _, rest = re.sub(r"[- ]hundred (?:and )?", "|", text).partition("|")
    if rest:  # "two hundred and fifty"
        return 100 * (1 if hundreds == "a" else _WORD_VALUES[hundreds]) + read_number(rest)
    factor = 1
    for word, value in (("thousand", 1000), ("hundred", 100)):
        if text.endswith(word) and text not in _WORD_VALUES:
            text = text[: -len(word)].strip(" -")
            factor = value
    if text in _WORD_VALUES:
        return factor * _WORD_VALUES[text]
    tens, _, ones = text.replace(" ", "-").partition("-")
    return factor * (_WORD_VALUES[tens] + _WORD_VALUES[ones])


# "do not go over 60", "it should not be longer than 60": at most 60
_NEGATED_BEFORE = re.compile(
    r"(?:\bnot|n't|\bnever|\bwithout)\s+(?:(?:be|go|going|run|have|contain|write|use|include|extend|reach|get|stretch|any"
    r"|it|to|want|need|anything|something|a|text|response|answer)\s+){0,4}$"
    r"|\bnothing\s+$|\bavoid(?:ing)?\s+(?:[\w'⟨⟩-]+\s+){0,5}$",
    re.IGNORECASE,
)
# "I would rather not read more than 90", "nobody wants to see over 60": a negation before it in the same clause.
# What it turns around is not sure, and "more than 90" would be the opposite of the request: no constraint.
_PERHAPS_NEGATED_BEFORE = re.compile(
    r"(?:\b(?:not|never|no|nobody|nothing|none|neither|nor|without|cannot|hardly|hate|hates|dislike|refuse|refuses|unwilling"
    r"|annoyed|tired of|too long if|lose (?:interest|points|marks))|n't)\b"
    r"(?:(?!\b(?:and|but|then|or|which|while|instead|rather|so)\b)[^.,;:!?\n⟨]){0,70}$",
    re.IGNORECASE,
)
_NEGATED_RELATIONS: dict[str, Relation] = {"more than": "at most", "less than": "at least"}
# "limit your reply to 75", "keep it to 75", "cap it at 75", "within 75": at most 75
_LIMIT_BEFORE = re.compile(
    r"(?<!\bthe )(?<!\ba )(?<!word )(?<!character )\b(?:limit(?:ing)?|be limited|restrict|confine|keep)\b"
    r"[^.,;:!?\n⟨]{0,40}\b(?:to|within)\s*$"
    r"|\bcap(?:ped)?\b[^.,;:!?\n⟨]{0,25}\bat\s*$|\bwithin\s*$",
    re.IGNORECASE,
)
# "don't limit yourself to 100", "you need not write 100": no constraint at all
_DENIED_BEFORE = re.compile(
    r"(?:\bnot|n't|\bnever)\s+(?:limit|restrict|confine|(?:need|have) to|required to|worry about|care about)\b"
    r"[^.,;:!?\n]{0,40}$|\bno need (?:to|for)\b[^.,;:!?\n]{0,30}$|\bneed not\b[^.,;:!?\n]{0,30}$",
    re.IGNORECASE,
)


def _find_relation(words: str | None) -> Relation:
    if not words:
        return "plain"
    for relation, pattern in _RELATION_WORDS:
        if re.fullmatch(pattern, words.strip(), re.IGNORECASE):
            return relation
    return "plain"


def _replace_quantities(
    text: str, quantities: dict[str, Quantity], keep: Callable[[str, str], str]
) -> str:
    def add(quantity: Quantity, original: str) -> str:
        token = f"q{len(quantities)}"
        quantities[token] = quantity
        return keep(token, original)

    def replace(match: re.Match[str]) -> str:
        low = read_number(match["low"])
        relation = _find_relation(match["relation"])
        before = match.string[max(0, match.start() - 80) : match.start()]
        if _DENIED_BEFORE.search(before):
            return match[0]
        if _NEGATED_BEFORE.search(before):
            relation = _NEGATED_RELATIONS.get(relation, relation)
        elif relation in _NEGATED_RELATIONS and _PERHAPS_NEGATED_BEFORE.search(before):
            return match[0]
        elif relation == "plain" and not match["high"] and _LIMIT_BEFORE.search(before):
            relation = "at most"
        if match["high"]:
            high = read_number(match["high"])
            if high > low and (match["between"] or match["joiner"].lower() != "and"):
                return add(Quantity("between", low, high), match[0])
            return match[0]
        if match["between"]:
            return match[0]
        after = (match["plus"] or "").lower()
        if "+" in after or "more" in after or "greater" in after:
            relation = "at least"
        elif after:
            relation = "at most"
        return add(Quantity(relation, low, low), match[0])

    def replace_times(match: re.Match[str]) -> str:
        count = {"once": 1, "twice": 2, "thrice": 3}[match["count"].lower()]
        relation = _find_relation(match["relation"])
        if _NEGATED_BEFORE.search(match.string[max(0, match.start() - 80) : match.start()]):
            relation = _NEGATED_RELATIONS.get(relation, relation)
        if match["after"]:
            relation = "at least" if match["after"].endswith("more") else "at most"
        return add(Quantity(relation, count, count), match[0]) + " times"

    text = _TIMES.sub(replace_times, text)
    text = _QUANTITY.sub(replace, text)
    for match in _AFTER_UNIT.finditer(text):
        quantity = quantities[match["token"]]
        if quantity.relation == "plain":
            relation: Relation = "at least" if match["more"] else "at most"
            quantities[match["token"]] = Quantity(relation, quantity.low, quantity.high)
    return text
