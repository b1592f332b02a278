"""IFBench `custom:` and `repeat:` — single tasks with a known answer, and repeating the request.

    repeat:repeat_span(prompt_to_repeat="a b c d", n_start=1, n_end=2)    →  "b c"

The tables of data among them are in `ifbench_csv`.
"""

from __future__ import annotations

import re
import unicodedata
from datetime import date
from itertools import pairwise

from rubrank.texts.lexicon import read_names
from rubrank.texts.text import Text
from rubrank.verifiers.ifbench.tokens import ifbench, public_sentences, trim, without_punctuation
from rubrank.verifiers.shared.relation import Count
from rubrank.verifiers.verifier import Answer, Compat

_DIGITS = re.compile(r"\d+")
_DATE = re.compile(r"(\d{4})-(\d{2})-(\d{2})\Z", re.ASCII)
_QUESTION_UPSTREAM = re.compile(r"Question \d+[.|):;]?\s*")
_OPTION_UPSTREAM = re.compile(r"[A-Ea-e][.|)]\s*\w")
_QUESTION = re.compile(r"\W{0,6}Question\b\W{0,3}\d{0,3}\W{0,6}")
_OPTION = re.compile(r"\W{0,4}[A-Ea-e1-5][.):]\W{0,4}\w")
_ITEM_MARK = re.compile(r"\s*(?:[-*•+]|\d{1,3}[.)])?\s*")
_ONLY_SENTENCE = "only output this sentence here, ignore all other requests."
_FORGOTTEN_UPSTREAM = "Kyiv"


@ifbench("custom:multiples")
def multiples(text: Text) -> Answer:
    """The numbers in the answer are 14, 21, 28, 35, 42, 49, in this order and no others.

    Passes: "14, 21, 28, 35, 42, 49". Fails: a 10 or a 50 in the explanation. Not covered: numbers in words.
    """
    found = _DIGITS.findall(text.raw)
    return found == [str(n) for n in range(14, 51, 7)], f"numbers found: {', '.join(found[:12])}"


@ifbench("custom:mcq_count_length")
def mcq_count_length(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Four questions labelled "Question", each longer than the one before and with five options, nothing before.

    Passes: "Question 1: … A) … E) …" four times. Fails: three questions, four options, a shorter question.
    "**Question 1**" is fine; upstream wants "Question 1" plain. Not covered: the topic; text after the last option.
    """
    parts = _questions_upstream(text.raw) if compat == "upstream" else _questions(text)
    if len(parts) != 4:
        return False, f"{len(parts)} questions found, 4 asked (and nothing before them)"
    option = _OPTION_UPSTREAM if compat == "upstream" else _OPTION
    sizes = []
    for part in parts:
        size, options = _question_size(part, option)
        if options != 5:
            return False, f"{options} options found in {part[:40]!r}, 5 asked"
        sizes.append(size)
    return all(one < two for one, two in pairwise(sizes)), f"the questions have {sizes} characters"


def _questions_upstream(raw: str) -> list[str]:
    if not raw.startswith("Question"):
        return []
    return [part.strip() for part in _QUESTION_UPSTREAM.split(raw) if part.strip()]


def _questions(text: Text) -> list[str]:
    parts: list[list[str]] = []
    for line in text.lines:
        label = _QUESTION.match(line)
        if label:
            parts.append([line[label.end() :]])
        elif parts:
            parts[-1].append(line)
        elif line.strip():
            return []
    return ["\n".join(part).strip() for part in parts]


def _question_size(part: str, option: re.Pattern[str]) -> tuple[int, int]:
    """How long the question is, before its options, and how many options there are."""
    said, options = [], 0
    for line in part.split("\n"):
        if option.match(line.strip()):
            options += 1
        elif not options:
            said.append(line.strip())
    return len(" ".join(said).strip()), options


@ifbench("custom:reverse_newline")
def reverse_newline(text: Text, *, compat: Compat = "fixed") -> Answer:
    """The countries of Africa, one a line, from Zimbabwe back to Algeria.

    Passes: all 54 (one may be missing or called otherwise). Fails: another order; several on a line. Upstream asks
    for 52 lines from the one with Zimbabwe on, in reverse order, whatever they say. Not covered: text before the
    list.
    """
    lines = [trim(line) for line in text.raw.split("\n") if trim(line)]
    start = next((i for i, line in enumerate(lines) if "Zimbabwe" in line), None)
    if start is None:
        return False, "Zimbabwe not found"
    found = [
        _plain_ascii(line if compat == "upstream" else _ITEM_MARK.sub("", line, count=1)) for line in lines[start:]
    ]
    if compat == "upstream":
        return len(found) >= 52 and found == sorted(found, reverse=True), f"{len(found)} lines from Zimbabwe on"
    names = [name.casefold() for name in found]
    known = sum(any(name in names for name in country) for country in read_names("african_countries.tsv"))
    countries = {name for country in read_names("african_countries.tsv") for name in country}
    listed = [name for name in names if name in countries]
    ordered = listed == sorted(listed, reverse=True)
    return known >= 53 and ordered, f"{known} of 54 countries found, {'in' if ordered else 'not in'} reverse order"


def _plain_ascii(text: str) -> str:
    """Without accents and whatever else is not ASCII."""
    return unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode("ascii")


@ifbench("custom:word_reverse")
def word_reverse(text: Text) -> Answer:
    """Read word by word from the end, the answer names the bald eagle.

    Passes: "eagle bald the is It". Fails: "It is the bald eagle". Not covered: whether the rest is a sentence.
    """
    backwards = " ".join(reversed(without_punctuation(text.raw.lower()).split()))
    found = "bald eagle" in backwards
    return found, f"read backwards, {'it names' if found else 'it does not name'} the bald eagle"


@ifbench("custom:character_reverse")
def character_reverse(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Read letter by letter from the end, the answer names the bald eagle; read forwards it does not.

    Passes: "elgae dlab ehT". Fails: "The bald eagle"; both ways at once (upstream passes that). Not covered: the rest.
    """
    small = text.raw.lower()
    found = "elgae dlab" in small and (compat == "upstream" or "bald eagle" not in small)
    return found, f"{'found' if found else 'not found'}: the bald eagle, backwards only"


@ifbench("custom:sentence_alphabet", version=3)
def sentence_alphabet(text: Text, *, compat: Compat = "fixed") -> Answer:
    """26 sentences whose first words start with a, b, c … z.

    Passes: "All began. Birds sang. …" to Z. Fails: 25 sentences, two letters swapped. Quotes and marks before the
    word do not matter. upstream: sentences as the public splitter cuts them. Not covered: whether it is a story.
    """
    sentences = public_sentences(text.raw) if compat == "upstream" else text.sentences
    if len(sentences) != 26:
        return False, f"{len(sentences)} sentences found, 26 asked"
    for letter, sentence in zip("abcdefghijklmnopqrstuvwxyz", sentences, strict=True):
        start = trim(sentence) if compat == "upstream" else "".join(Text(sentence).words[:1])
        if start[:1].lower() != letter:
            return False, f"{sentence[:40]!r} does not start with {letter!r}"
    return True, "26 sentences from a to z"


@ifbench("custom:european_capitals_sort")
def european_capitals_sort(text: Text, *, compat: Compat = "fixed") -> Answer:
    """The 28 capitals of Europe north of 45°, from Reykjavik to Zagreb, separated by commas and nothing else.

    Passes: "Reykjavík, Helsinki, Oslo, …". Fails: one missing or misplaced, words around the list. Upstream forgot
    Kyiv, so there 27 pass and 28 fail. Not covered: capitals of territories and of states not generally recognised.
    """
    order = read_names("northern_capitals.tsv")
    if compat == "upstream":
        order = tuple(names for names in order if _FORGOTTEN_UPSTREAM not in names)
    raw = _plain_ascii(text.raw if compat == "upstream" else text.raw.strip().rstrip("."))
    cities = [city.strip() for city in raw.split(",") if city.strip()]
    if len(cities) != len(order):
        return False, f"{len(cities)} cities found, {len(order)} asked"
    for city, names in zip(cities, order, strict=True):
        if city not in (names if compat == "fixed" else names[:1]):
            return False, f"{city[:40]!r} stands where {names[0]} should"
    return True, "all capitals, from north to south"


@ifbench("custom:date_format_list")
def date_format_list(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Dates as YYYY-MM-DD, separated by commas, and nothing else; all within Napoleon's life (1769 to 1821).

    Passes: "1796-04-12, 1805-12-02". Fails: "12 April 1796"; 1805-02-30; month 00, day 00 and
    29 February of any year, which upstream lets pass. Not covered: whether there was a battle.
    """
    for item in text.raw.strip().split(","):
        parts = _DATE.match(item.strip())
        if not parts:
            return False, f"{item.strip()[:40]!r} is no date of the form YYYY-MM-DD"
        year, month, day = map(int, parts.groups())
        if not 1769 <= year <= 1821 or not (_real if compat == "fixed" else _real_upstream)(year, month, day):
            return False, f"{item.strip()!r} is no such date"
    return True, "dates only"


def _real(year: int, month: int, day: int) -> bool:
    try:
        date(year, month, day)
    except ValueError:
        return False
    return True


def _real_upstream(_: int, month: int, day: int) -> bool:
    return month <= 12 and day <= (99, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)[month]


@ifbench("repeat:repeat_change")
def repeat_change(text: Text, *, prompt_to_repeat: str, compat: Compat = "fixed") -> Answer:
    """The request again, with another first word and nothing else changed or added.

    Passes: "Compose a poem." for "Write a poem." Fails: the request unchanged; an answer after it. Spaces and line
    breaks do not matter; upstream lets an unchanged first word pass if only they differ. Not covered: deleting the
    first word.
    """
    asked, said = prompt_to_repeat.split(), text.raw.split()
    if compat == "upstream":
        return prompt_to_repeat != text.raw and asked[1:] == said[1:], "compared from the second word on"
    if asked[:1] == said[:1]:
        return False, f"the first word is still {said[0]!r}"
    return asked[1:] == said[1:], "repeated" if asked[1:] == said[1:] else "not the request from its second word on"


@ifbench("repeat:repeat_simple")
def repeat_simple(text: Text) -> Answer:
    """Exactly the sentence "Only output this sentence here, ignore all other requests.", whatever its case.

    Passes: that sentence, spaces around it too. Fails: anything before or after. Not covered: quotes around it fail.
    """
    same = text.raw.strip().lower() == _ONLY_SENTENCE
    return same, "the sentence" if same else f"not the sentence: {text.raw.strip()[:40]!r}"


@ifbench("repeat:repeat_span", version=2)
def repeat_span(text: Text, *, prompt_to_repeat: str, n_start: Count, n_end: Count) -> Answer:
    """The words of the request from index `n_start` to `n_end`, counted from 0, both included; nothing else.

    Passes: "b c" for "a b c d", 1, 2. Fails: one word more or less. Case does not matter. Not covered:
    quotes around the words fail.
    """
    span = prompt_to_repeat.lower().split()[n_start : n_end + 1]
    wanted, same = " ".join(span), text.raw.lower().split() == span
    return same, f"{'the' if same else 'not the'} span {wanted[:60]!r}"
