"""What an answer must or must not say: Keyword, ForbiddenContent, DictionRequirement, SummaryRecall."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Annotated, Any, Literal, TypeAlias

import re2
from pydantic import Field

from rubrank._plain import replace_surrogates, word_list, word_set
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import (
    count_phrase,
    fold_phrase,
    fold_visible,
    is_heading,
    list_items,
    mark_titles,
    sentences,
    split_code,
)
from rubrank.texts.text import Text
from rubrank.texts.visible import remove_invisible
from rubrank.verifiers.shared.instruction import Relation, holds, require_none
from rubrank.verifiers.shared.language import detect_language
from rubrank.verifiers.shared.negation import Denial, find_denials
from rubrank.verifiers.shared.word_tables import compile_re2, read_table, read_words
from rubrank.verifiers.verifier import NEEDS_JUDGE, UNIT, Answer, missing, verifier

Words: TypeAlias = tuple[Annotated[str, Field(min_length=1, pattern=r"\S")], ...]
Where: TypeAlias = Literal[
    "anywhere",
    "start",
    "end",
    "first sentence",
    "last sentence",
    "every paragraph",
    "every sentence",
]
Kind: TypeAlias = Literal[
    "digits",
    "emoji",
    "url",
    "email",
    "code",
    "comma",
    "exclamation",
    "question",
    "parentheses",
    "quotes",
    "bold",
    "heading",
    "list",
    "table",
    "latin letters",
    "chinese",
    "first person",
    "contractions",
]

_EMOJI = re.compile(
    "[\U0001f000-\U0001faff\u2600-\u26ff\u2700-\u2712\u2728\u2733-\u2757\u2763-\u2767"
    "\u2795-\u2797\u2b50\u2b55]|[\u203c-\u2bff]\ufe0f"
)
# "don't", "we'll", "I'm", "it's". Not the possessive of "Anna's".
_CONTRACTION = re.compile(
    r"(?i:\b(?:\w{1,20}n['’]t|\w{1,20}['’](?:ll|re|ve)"
    r"|(?:i['’]m|(?:it|that|he|she|there|what|who|let|here)['’]s))\b)"
)
# Kinds of content that a pattern finds; `_has_kind` finds the others.
_KINDS: dict[str, re.Pattern[str]] = {
    "digits": re.compile(r"\d"),
    "emoji": _EMOJI,
    "url": re.compile(r"https?://\S|www\.\w"),
    "email": re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}\.\w"),
    "code": re.compile(r"```|~~~|`[^`\n]{1,1000}`"),
    "comma": re.compile("[,，、،]"),
    "exclamation": re.compile("[!！¡]"),
    "question": re.compile("[?？¿؟]"),
    "parentheses": re.compile("[()（）]"),
    "quotes": re.compile('["“”「」『』«»]'),
    "bold": re.compile(r"\*\*[^*\n]{1,2000}\*\*|__[^_\n]{1,2000}__"),
    "table": re.compile(r"(?m)^[ \t]*+\|?(?:[ \t]*+:?-{2,}+:?[ \t]*+\|)+"),
    "latin letters": re.compile("[A-Za-z]"),
    "chinese": re.compile("[\u3400-\u9fff]"),
    "contractions": _CONTRACTION,
}

# Digits and letters of other alphabets that look like Latin letters.
_SMALL_CAPITALS = "ʙᴀᴅᴇɢʜɪᴊᴋʟᴍɴᴏᴘʀᴛᴜᴠᴡʏᴢ"
_LOOKALIKES = str.maketrans(
    f"аеорсухіјѕԁһԛԝαορνικ4301578@${_SMALL_CAPITALS}",
    "aeopcyxijsdhqwaopvikaeolstbasbadeghijklmnoprtuvwyz",
)
# Units that follow a number without a space: 5am, 10km.
_UNITS = word_set(
    "am pm st nd rd th in cm mm km kg mg ml lb lbs oz ft yd mi mph kb mb gb tb hz khz mhz ghz min hr hrs"
)
_WORD = re.compile(r"[\w@$]+")
# Three letters or more with the same separator between them: "b-a-d", "b a d". Group 1 is the separator.
_SINGLE_LETTERS = re.compile(r"(?<![\w-])\w([-. *_])\w(?:\1\w){1,40}(?![\w-])")
_SLANG = word_list(
    "gonna wanna gotta kinda sorta dunno lemme ain't y'all yeah nope lol omg btw tbh imo dude guys"
)
_SLANG_ZH = word_list("咋整 啥 忒 贼拉 牛逼 绝绝子 yyds 老铁 家人们 哈哈 呵呵 嘿嘿")
_KINDS_OF_MARKUP = frozenset(("url", "email", "code", "bold", "heading", "list", "table"))


def _check_keyword_parameters(params: Any) -> str | None:
    if not params.keywords:
        return "given: at least one keyword"
    if isinstance(params.need, int) and params.need > len(params.keywords):
        return f"with a need of at most {len(params.keywords)}, the number of keywords"
    return None


@verifier("Keyword", family="presence", version=3, check=_check_keyword_parameters)
def keyword(
    text: Text,
    *,
    keywords: Words,
    need: Literal["all", "any"] | Annotated[int, Field(ge=1)] = "all",
    relation: Relation = "at least",
    count: Annotated[int, Field(ge=0)] = 1,
    whole_words: bool = True,
    case_sensitive: bool = False,
    where: Where = "anywhere",
) -> Answer:
    """The keywords occur, each `relation count` times; all of them, any, or at least `need` of them.

    Passes: keywords ["West Lake"] in "the west lake"; ["西湖"] in "杭州西湖".
    Fails: ["art"] in "party" (a whole word is required; scripts without spaces have no such edges). "every paragraph"
        wants the keyword in each.
    Not covered: inflected forms, synonyms, Simplified for Traditional.
    """
    text = text.shown
    places = _select_places(text, where, case_sensitive)
    enough = count if relation == "at least" else None
    failed: list[str] = []
    for word in keywords:
        phrase = " ".join(word.split()) if case_sensitive else fold_phrase(word)
        counts = [_count_at(place, phrase, whole_words, where, enough) for place in places]
        if not counts or not all(holds(n, relation, count) for n in counts):
            failed.append(word)
    needed = {"all": len(keywords), "any": 1}.get(str(need), need)
    met = len(keywords) - len(failed)
    times = "once" if count == 1 else f"{count} times"
    reason = (
        f"{met} of {len(keywords)} keywords occur {relation} {times} ({where}), {need} required"
    )
    if failed:
        reason += f"; not met: {', '.join(map(repr, failed[:5]))}"
    return met >= int(needed), reason


def _select_places(text: Text, where: Where, case_sensitive: bool) -> list[str]:
    """Return the parts of the text in which a keyword is searched for."""
    if where in ("anywhere", "start", "end"):
        return [" ".join(text.raw.split()) if case_sensitive else text.folded]
    parts = sentences(text.raw)
    if where == "every paragraph":
        parts = [part for part in text.paragraphs if not is_heading(part)]
        parts = [part for part in parts if any(map(str.isalnum, part))]
    elif where != "every sentence":
        parts = parts[:1] if where == "first sentence" else parts[-1:]
    return [" ".join(part.split()) if case_sensitive else fold_visible(part) for part in parts]


def _count_at(place: str, phrase: str, whole: bool, where: Where, enough: int | None) -> int:
    """Count the phrase in the place; at the start or end at most one counts."""
    if where == "start":
        start = place.lstrip("*_#>\"'“‘「『《 ")[: len(phrase) + 1]
        return int(start.startswith(phrase) and count_phrase(start, phrase, whole=whole) > 0)
    if where == "end":
        end = place.rstrip("*_\"'”’」』》 ")
        if not end.endswith(phrase):
            end = end.rstrip(".。!！?？…")
        # The character before the phrase tells whether it begins a word.
        last = end[-len(phrase) - 1 :]
        return int(end.endswith(phrase) and count_phrase(last, phrase, whole=whole) > 0)
    return count_phrase(place, phrase, whole=whole, enough=enough)


def _check_forbidden_parameters(params: Any) -> str | None:
    if not (params.words or params.patterns or params.characters or params.kinds):
        return "given: words, patterns, characters or kinds"
    for pattern in params.patterns:
        try:
            compile_re2(pattern)
        except re2.error as error:
            return f"with patterns that RE2 can read ({pattern!r}: {error})"
    return None


@verifier(
    "ForbiddenContent",
    family="presence",
    version=2,
    check=_check_forbidden_parameters,
)
def forbidden_content(
    text: Text,
    *,
    words: Words = (),
    patterns: Words = (),
    characters: str = "",
    kinds: tuple[Kind, ...] = (),
    whole_words: bool = True,
    case_sensitive: bool = False,
) -> Answer:
    """No forbidden content: words or phrases, characters, RE2 patterns, or kinds of content (digits, emoji, url …).

    Passes: words ["bad"] in "not badly".
    Fails: "Bad idea", "b-a-d", "b4d", "bаd" with a Cyrillic а; kinds ["comma"] for "一，二".
    Not covered: paraphrases and other spelling tricks; first person and contractions are known in English
        (and 我, 咱) only.
    """
    visible_text = text.shown
    place = " ".join(visible_text.raw.split()) if case_sensitive else visible_text.folded
    present: list[str] = []
    for word in words:
        phrase = " ".join(word.split()) if case_sensitive else fold_phrase(word)
        is_written = count_phrase(place, phrase, whole=whole_words, enough=1) > 0
        if is_written or _is_disguised(word, visible_text):
            present.append(word)
    present += [char for char in dict.fromkeys(characters) if char in visible_text.raw]
    for kind in kinds:
        # Markup is searched for in the raw text: the shown one has lost some of it.
        if _has_kind(kind, text.raw if kind in _KINDS_OF_MARKUP else visible_text.raw):
            present.append(kind)
    for pattern in patterns:
        if compile_re2(pattern).search(replace_surrogates(visible_text.raw)):
            present.append(f"/{pattern}/")
    return require_none(present, "forbidden content")


def _is_disguised(word: str, text: Text) -> bool:
    """Does the text spell the word with look-alike letters (b4d), or letter by letter (b-a-d)?"""
    phrase = fold_phrase(word)
    if not phrase.isascii() or not phrase.replace(" ", "").isalpha() or len(phrase) < 3:
        return False
    for candidate in _WORD.findall(text.folded):
        looks_alike = candidate != phrase and candidate.translate(_LOOKALIKES) == phrase
        if looks_alike and not _is_ordinary_spelling(candidate):
            return True
    spaced = " ".join(unicodedata.normalize("NFKC", remove_invisible(text.raw)).split())
    for match in _SINGLE_LETTERS.finditer(spaced):
        separator = match[1]
        letters = match[0].replace(separator, "")
        if letters.isupper():
            # Capitals in a row are often options or notes (B A D C), with dots an abbreviation: W.H.O. is not "who".
            is_abbreviation = separator == "." and not word.isupper()
            if letters.casefold() == phrase and not is_abbreviation:
                return True
        elif phrase in letters.casefold():
            return True
    return False


def _is_ordinary_spelling(word: str) -> bool:
    """Is there a good reason for the digits or foreign letters of a word, so that it disguises nothing?

    There is for words of another alphabet altogether, numbers with a unit (5am), numbered names (item5) and codes with
    fewer letters than digits (A11).
    """
    letters = sum((char.isascii() and char.isalpha()) or char in _SMALL_CAPITALS for char in word)
    digits = sum(map(str.isdigit, word))
    if letters == 0 or digits > letters:
        return True
    is_numbered = digits == 1 and word[-1].isdigit()
    return is_numbered or (digits > 0 and word.lstrip("0123456789") in _UNITS)


def _has_kind(kind: str, raw: str) -> bool:
    """Tell whether the text has content of this kind."""
    if kind == "list":
        return bool(list_items(raw))
    if kind == "heading":
        return any(map(is_heading, split_code(mark_titles(raw))[0]))
    if kind == "first person":
        return find_first_person(raw) is not None
    return _KINDS[kind].search(raw) is not None


@verifier("DictionRequirement", family="style", version=2, how="both")
def diction_requirement(
    text: Text,
    *,
    use: Words = (),
    avoid: Words = (),
    tone: Literal["formal", "no first person", "no contractions"] | None = None,
) -> Answer:
    """The answer uses the given expressions, avoids others, and keeps a tone, as far as single words can show it.

    Passes: use ["therefore"] in "It is therefore so".
    Fails: tone "formal" with "gonna", "don't" or "啥"; an avoided word. "formal" only fails for sure: without
        a breach a judge must say whether the tone is right, unless words were asked as well. Without any
        parameter: missing (needs a judge).
    Not covered: style that no single word shows.
    """
    if not (use or avoid or tone):
        return missing(f"{NEEDS_JUDGE}: no words and no tone are given")
    place = text.shown.folded
    absent = [word for word in use if not count_phrase(place, fold_phrase(word))]
    if absent:
        return False, f"expressions to use are absent: {', '.join(map(repr, absent[:5]))}"
    breaches = [word for word in avoid if count_phrase(place, fold_phrase(word))]
    if tone == "no first person":
        pronoun = find_first_person(text.shown.raw)
        if pronoun:
            breaches.append(pronoun)
    if tone in ("formal", "no contractions"):
        contraction = _CONTRACTION.search(place)
        if contraction:
            breaches.append(contraction[0])
    if tone == "formal":
        breaches += [word for word in _SLANG if count_phrase(place, word)]
        breaches += [word for word in _SLANG_ZH if word in place]
    if breaches:
        return False, f"wording to avoid: {', '.join(map(repr, breaches[:5]))}"
    if tone == "formal" and not (use or avoid):
        return missing(
            f"{NEEDS_JUDGE}: no informal word found, but words alone do not prove the tone"
        )
    return True, "all expressions to use occur, none to avoid"


# ---- the first person -----------------------------------------------------------------------------------------------

_PRONOUN = re.compile(
    r"""
    (?<![\w'’/.-])
    (?: I(?![\w/-])                                     # not "I/O"
      | i(?= ['’](?:m|ve|ll|d)\b                        # "i'm"
           | \s+(?:am|was|have|had|think|will|would|can|could|do|did|don['’]t|like|love|want|need|feel|know|went|see|saw
               |believe|hope|guess|mean|really|just|also)\b )
      | [Mm]e | [Mm]y | MY | [Mm]yself | [Mm]ine | [Ww]e | WE | us | Us | [Oo]urs? | OURS? | [Oo]urselves
    )
    (?![\w-])
    | (?<![自忘无大小真本])我 | 咱                         # not 自我 (self), 忘我 (selfless)
    """,
    re.VERBOSE,
)
_WORD_BEFORE = re.compile(r"([^\W_]+)[ \t]+\Z")
# What follows the numeral I: ". Introduction", " and II".
_NUMERAL_AFTER = re.compile(
    r"[ \t]*(?:[.)][ \t]+[A-Z]|[:,)]?[ \t]*(?:and|through|to|–|-)?[ \t]*(?:II|III|IV|V)\b)"
)
# What stands before the noun "mine": "the ", "coal ".
_MINE_BEFORE = re.compile(
    r"\b(?:an?|the|coal|gold|salt|land|iron|copper|silver|diamond|this|that|each|old|abandoned|data)\s\Z",
    re.IGNORECASE,
)


def find_first_person(text: str) -> str | None:
    """Return the first pronoun of the first person: "we" for "In World War I we lost", not the numeral; None if none.

    Not covered: other languages than English and Chinese; words in capitals throughout ("US", "ME" are no pronouns).
    """
    for pronoun in _PRONOUN.finditer(text):
        start = pronoun.start()
        if pronoun[0] == "I" and _is_roman_one(text, pronoun):
            continue
        if pronoun[0].lower() == "mine" and _MINE_BEFORE.search(text, max(0, start - 15), start):
            continue  # a coal mine
        return pronoun[0]
    return None


def _is_roman_one(text: str, match: re.Match[str]) -> bool:
    """Tell whether this "I" is a numeral: "World War I"; "I. Introduction", "I and II" at the beginning of a line."""
    before = _WORD_BEFORE.search(text, max(0, match.start() - 30), match.start())
    if before and before[1][0].isupper() and (before[1].lower(),) in read_table("numbered_things"):
        return True
    line_before = text[max(0, match.start() - 40) : match.start()].rpartition("\n")[2]
    return not line_before.strip(" \t#*") and _NUMERAL_AFTER.match(text, match.end()) is not None


# ---- SummaryRecall ---------------------------------------------------------------------------------------------------
#
#     points    "Profits rose sharply in 2020.", "The plant closed."
#     answer    "In 2020, profits rose sharply. The plant did not close."
#     value     0.5: all words of the first point are there, and the second point is denied
#
# - A point is a sentence of the reference, or a phrase. Its words are compared without endings and without stop words;
#   in scripts without spaces, pairs of neighbouring characters are compared instead of words.
# - A statement is a sentence of the answer that can recall a point: not a question, not a bag of words (words in a row
#   that form no sentence), and not a repetition of a point that the prompt lists.
# - A denial is a word such as "not" with its clause (`verifiers/shared/negation.py`). It denies a point, or it does
#   not, or that is unclear. A point is negated if it contains a denial itself: "The plant never closed."

# Words that are not compared, because every text has them.
_STOP_WORDS = word_set("""
    a an the of to in on at for and or but is are was were be been it its this that these those with as by from he she
    they we you i his her their our your has have had do does did not no will would can could may
""")
# Scripts without spaces: Chinese characters, kana and Thai.
_UNSPACED_RANGES = "\u3400-\u9fff\uf900-\ufaff\u3040-\u30ff\u0e00-\u0e7f"
_UNSPACED = re.compile(f"[{_UNSPACED_RANGES}]+")
# A run of characters of one kind: "PCA方法" is "PCA" and "方法". An underscore belongs to none.
_TOKEN = re.compile(f"[{_UNSPACED_RANGES}]+|[^\\W_{_UNSPACED_RANGES}]+")
# English endings: "rises", "rising" and "rise" become "ris". Three letters stay: "red" keeps its ending.
_SUFFIX = re.compile(r"(?<=[a-z]{3})(?:ies|es|s|ing|ed|ly|e|y)$")
_WINDOW = 3  # sentences over which one point may be spread
_MAX_SENTENCES = 20_000  # of the answer; the rest is not read
_MAX_PROMPT_CHARACTERS = 100_000  # of the prompt; the rest is not read


@verifier("SummaryRecall", family="format", domain=UNIT, version=7)
def summary_recall(
    rollout: Rollout,
    *,
    points: tuple[Annotated[str, Field(min_length=1)], ...] | None = None,
    reference: str | None = None,
    threshold: Annotated[float, Field(gt=0, le=1)] | None = None,
    relation: Relation = "at most",
    words: Annotated[int, Field(ge=1)] | None = None,
) -> Answer:
    """The share of the reference points that the answer recalls, by words in common (Chinese: pairs of characters).

    Each point counts by the share of its words found within three neighbouring sentences of the answer; with
    `threshold`, a point counts fully from there on and not at all below. 1: every point is there. 0: none, or the
    answer breaks the limit `relation words` (copying everything recalls everything). The points come from `points`, the
    sentences of `reference`, or the rollout's metadata of these names.
    Passes with 1: every point in its own words.
    Fails with 0: nothing of them. These sentences recall nothing:
        - one that denies the point ("did not rise" for "rose in May"), or states what the point denies;
        - a question;
        - words that form no sentence, or the point's words in another order (of five or more, at least two pairs must
          follow each other as they do there);
        - one that repeats a point which the prompt lists.
    Missing: no reference points; a point of which it is unclear whether it is denied, because a word of denial stands
        beside it in an unknown expression ("nicht eben langsam", "did not hesitate to approve").
    Not covered: other words for the same thing, opposites ("fell").
    """
    reference_points = _find_points(rollout, points, reference)
    if not reference_points:
        return missing("no reference points are known")
    word_count = len(rollout.text.words)
    if words is not None and not holds(word_count, relation, words):
        return 0.0, f"{word_count} words, {relation} {words} required"
    visible_text = rollout.text.shown.raw
    language = detect_language(visible_text)[0]
    points_in_prompt = _find_points_in_prompt(reference_points, rollout.question)
    connection_of_points = _measure_connection("\n".join(reference_points))
    statements = []
    for sentence in sentences(visible_text)[:_MAX_SENTENCES]:
        normalised = _normalise(sentence)
        repeats_prompt = any(point in normalised for point in points_in_prompt)
        is_question = sentence.rstrip("*_\"'”’)） ").endswith(("?", "？"))
        is_bag = _is_bag_of_words(sentence, connection_of_points)
        if not (repeats_prompt or is_question or is_bag):
            statements.append(_Sentence.parse(sentence, language))
    recalls = []
    for point in reference_points:
        # Read in the answer's language, as its sentences are: else a point may contradict itself in a mixed text.
        is_negated = bool(find_denials(point, language or None))
        # The recall if all unclear denials deny the point, and if none does. Where both agree, they do not matter.
        least = _measure_recall(point, statements, is_negated, unclear_denies=True)
        most = _measure_recall(point, statements, is_negated, unclear_denies=False)
        if threshold is not None:
            least = float(least >= threshold)
            most = float(most >= threshold)
        if least != most:
            return missing(f"a word of denial stands beside {point[:80]!r}: is it denied or not?")
        recalls.append(least)
    value = sum(recalls) / len(recalls)
    return value, f"{value:.2f} of {len(recalls)} reference points recalled"


def _find_points(
    rollout: Rollout, points: Sequence[str] | None, reference: str | None
) -> list[str]:
    """Return the points that have words: those given, those of the metadata, or the sentences of the reference."""
    metadata = rollout.metadata
    listed = points or metadata.get("points") or metadata.get("reference_points")
    source = reference or metadata.get("reference")
    if listed:
        candidates = [str(point) for point in listed]
    elif source:
        candidates = sentences(str(source))
    else:
        candidates = []
    return [point for point in candidates if _split_words(point)]


# ------------------------------------------------------------------------------- sentences that recall nothing

# The number of a list entry, in a normalised text: "1 " in "1 profits rose 2 the plant closed". Not one: "2020 ".
_ENTRY_NUMBER = re.compile(r"(?<!\S)\d{1,2} ")
# A prompt that lists the points in one paragraph may have this many characters beside twice their length.
_MAX_INSTRUCTION = 300
# A prompt that lists points on lines of their own has at least this share of them: some may be worded differently.
_MIN_LISTED_SHARE = 0.8

_PIECE = re.compile(r"[^\W_]+")
_SMALL_WORDS = _STOP_WORDS.union(*read_words("small_words").values())
_MIN_BAG = 8  # words of a bag of words: fewer may be a heading or a list entry
# A sentence is a bag of words if it is so many times less connected than the points (see `_measure_connection`).
# In English prose (our own docs, 1,100 sentences) about 0.4 of the words are small, in one sentence of twenty less than
# 0.2: a quarter of 0.4 is rare. In Chinese, "公司 批准 合并" has pieces of 2 characters, "公司批准了合并。" one of 7.
_LESS_CONNECTED = 4
_LESS_CONNECTED_UNSPACED = 2
# Points with fewer small words than one in eight are keywords rather than sentences: they do not tell how connected an
# answer must be. Neither do points of small words only.
_MIN_CONNECTION_OF_POINTS = 0.12
_MAX_CONNECTION_OF_POINTS = 1


def _normalise(text: str) -> str:
    """Return the words on one line, without case and punctuation."""
    return " ".join(_TOKEN.findall(fold_visible(text)))


def _find_points_in_prompt(points: list[str], question: str) -> set[str]:
    """Return the points, normalised, if the prompt itself lists them: repeating that list recalls nothing.

    They are lines of the prompt, or follow each other in a prompt that says little else. In a longer prompt they may be
    sentences of the text that is to be summarised, and copying those is allowed.
    """
    question = question[:_MAX_PROMPT_CHARACTERS]
    normalised = [_normalise(point) for point in points]
    if len(points) >= 2:
        prompt = _normalise(question)
        points_in_a_row = " ".join(_ENTRY_NUMBER.sub("", point) for point in normalised)
        longest_list = 2 * sum(map(len, normalised)) + _MAX_INSTRUCTION
        if len(prompt) <= longest_list and points_in_a_row in _ENTRY_NUMBER.sub("", prompt):
            return set(normalised)
    lines = {_normalise(line) for line in question.splitlines()}
    listed = set(normalised) & lines
    if len(listed) >= 2 and len(listed) >= _MIN_LISTED_SHARE * len(points):
        return listed
    return set()


def _measure_connection(text: str) -> float:
    """Return how connected the words are.

    It is the share of small words ("the", "of"); in scripts without spaces the mean length of an unbroken piece.
    """
    pieces = _PIECE.findall(text.lower())
    if _UNSPACED.search(text):
        return sum(map(len, pieces)) / max(1, len(pieces))
    return sum(piece in _SMALL_WORDS for piece in pieces) / max(1, len(pieces))


def _is_bag_of_words(sentence: str, connection_of_points: float) -> bool:
    """Do the words merely stand in a row, far less connected than those of the reference points?

    A bag: "profits sharply rose 2020 exports board plant closed". Not one: "In 2020, the profits of the company rose."
    """
    if len(_PIECE.findall(sentence)) < _MIN_BAG:
        return False
    connection = _measure_connection(sentence)
    if _UNSPACED.search(sentence):
        return _LESS_CONNECTED_UNSPACED * connection < connection_of_points
    if not _MIN_CONNECTION_OF_POINTS < connection_of_points < _MAX_CONNECTION_OF_POINTS:
        return False
    return _LESS_CONNECTED * connection < connection_of_points


# ------------------------------------------------------------------------------------------------- recall of a point

_ABOUT_POINT = 0.6  # share of a point's words that makes a sentence one about the point
# Words of a point in one sentence from which on their order matters, and pairs of them that must follow each other as
# they do in the point. Fewer words may be reordered by an honest rewording.
_MIN_ORDERED_WORDS = 5
_MIN_ORDERED_PAIRS = 2


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence of the answer, read once for all points."""

    words: tuple[str, ...]
    """The different words, in order."""
    tokens: frozenset[str]
    """The same words as a set."""
    denials: tuple[tuple[Denial, frozenset[str]], ...]
    """Each with the words of its clause."""

    @classmethod
    def parse(cls, sentence: str, language: str) -> _Sentence:
        denials = []
        for denial in find_denials(sentence, language or None):
            denials.append((denial, frozenset(_split_words(denial.part))))
        words = _split_words(sentence)
        return cls(tuple(dict.fromkeys(words)), frozenset(words), tuple(denials))

    def contradicts(
        self, point: str, point_tokens: set[str], *, is_negated: bool, unclear_denies: bool
    ) -> bool:
        """Does the sentence say the opposite of a point? unclear_denies: an unclear denial counts as one."""
        enough = _ABOUT_POINT * len(point_tokens)
        if is_negated:
            # "The plant closed." contradicts the point "The plant never closed."
            return not self.denials and len(point_tokens & self.tokens) >= enough
        for denial, clause_tokens in self.denials:
            is_denied = denial.denies(point)
            if is_denied is None:
                # Unclear: it can deny the point only in a clause about the point.
                is_about_point = denial.is_narrow or len(point_tokens & clause_tokens) >= enough
                is_denied = unclear_denies and is_about_point
            if is_denied:
                return True
        return False

    def scrambles(self, point: list[str]) -> bool:
        """Does the sentence have many words of a point, but hardly any two of them in its order?"""
        if len(self.tokens & set(point)) < _MIN_ORDERED_WORDS or any(map(_is_unspaced, point)):
            return False
        in_point = [word for word in dict.fromkeys(point) if word in self.tokens]
        in_sentence = [word for word in self.words if word in point]
        common_pairs = set(pairwise(in_point)) & set(pairwise(in_sentence))
        return len(common_pairs) < _MIN_ORDERED_PAIRS


def _measure_recall(
    point: str, statements: list[_Sentence], is_negated: bool, *, unclear_denies: bool
) -> float:
    """Return the largest share of the point's words in neighbouring sentences that do not contradict it."""
    point_words = _split_words(point)
    point_tokens = set(point_words)
    no_tokens: frozenset[str] = frozenset()
    tokens = []
    for sentence in statements:
        is_opposite = sentence.contradicts(
            point, point_tokens, is_negated=is_negated, unclear_denies=unclear_denies
        )
        is_useless = is_opposite or sentence.scrambles(point_words)
        tokens.append(no_tokens if is_useless else sentence.tokens)
    best = 0
    for start in range(max(1, len(tokens) - _WINDOW + 1)):
        window = no_tokens.union(*tokens[start : start + _WINDOW])
        best = max(best, len(point_tokens & window))
    return best / len(point_tokens)


def _split_words(text: str) -> list[str]:
    """Return the stems of words in order, without stop words; in scripts without spaces, pairs of characters."""
    words: list[str] = []
    for token in _TOKEN.findall(fold_visible(text)):
        if _is_unspaced(token):
            words += [token[i : i + 2] for i in range(max(1, len(token) - 1))]
        elif token not in _STOP_WORDS:
            words.append(_SUFFIX.sub("", token))
    return words


def _is_unspaced(token: str) -> bool:
    return _UNSPACED.match(token) is not None
