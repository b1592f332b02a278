"""What an answer must or must not say.

Keyword(keywords=["West Lake"], count=2)      it says "West Lake" at least twice
ForbiddenContent(words=["bad"])               it does not say "bad", "b-a-d" or "b4d"
DictionRequirement(tone="no first person")    it keeps a tone
Regex(pattern="ID-\\d{4}")                    it matches a pattern
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable
from functools import lru_cache
from itertools import islice
from typing import Annotated, Any, Literal, TypeAlias

import re2
from pydantic import Field

from rubrank._plain import replace_surrogates, word_list, word_set
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
from rubrank.verifiers.shared.word_tables import compile_re2, read_table
from rubrank.verifiers.verifier import NEEDS_JUDGE, Answer, missing, verifier

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
        if pronoun[0] == "I":
            # The numeral: "World War I"; "I. Introduction", "I and II" at the beginning of a line.
            before = _WORD_BEFORE.search(text, max(0, start - 30), start)
            if (
                before
                and before[1][0].isupper()
                and (before[1].lower(),) in read_table("numbered_things")
            ):
                continue
            line_before = text[max(0, start - 40) : start].rpartition("\n")[2]
            if not line_before.strip(" \t#*") and _NUMERAL_AFTER.match(text, pronoun.end()):
                continue
        if pronoun[0].lower() == "mine" and _MINE_BEFORE.search(text, max(0, start - 15), start):
            continue  # a coal mine
        return pronoun[0]
    return None


# ---- keywords and forbidden content --------------------------------------------------------------------------------

_EMOJI = re.compile(
    "[\U0001f000-\U0001faff\u2600-\u26ff\u2700-\u2712\u2728\u2733-\u2757\u2763-\u2767"
    "\u2795-\u2797\u2b50\u2b55]|[\u203c-\u2bff]\ufe0f"
)
# "don't", "we'll", "I'm", "it's". Not the possessive of "Anna's".
_CONTRACTION = re.compile(
    r"(?i:\b(?:\w{1,20}n['’]t|\w{1,20}['’](?:ll|re|ve)"
    r"|(?:i['’]m|(?:it|that|he|she|there|what|who|let|here)['’]s))\b)"
)
# For each kind of content, a function whose result is true if the text has such content.
_KINDS: dict[str, Callable[[str], object]] = {
    "digits": re.compile(r"\d").search,
    "emoji": _EMOJI.search,
    "url": re.compile(r"https?://\S|www\.\w").search,
    "email": re.compile(r"[\w.+-]{1,64}@[\w-]{1,63}\.\w").search,
    "code": re.compile(r"```|~~~|`[^`\n]{1,1000}`").search,
    "comma": re.compile("[,，、،]").search,
    "exclamation": re.compile("[!！¡]").search,
    "question": re.compile("[?？¿؟]").search,
    "parentheses": re.compile("[()（）]").search,
    "quotes": re.compile('["“”「」『』«»]').search,
    "bold": re.compile(r"\*\*[^*\n]{1,2000}\*\*|__[^_\n]{1,2000}__").search,
    "heading": lambda raw: any(map(is_heading, split_code(mark_titles(raw))[0])),
    "list": list_items,
    "table": re.compile(r"(?m)^[ \t]*+\|?(?:[ \t]*+:?-{2,}+:?[ \t]*+\|)+").search,
    "latin letters": re.compile("[A-Za-z]").search,
    "chinese": re.compile("[\u3400-\u9fff]").search,
    "first person": find_first_person,
    "contractions": _CONTRACTION.search,
}
_KINDS_OF_MARKUP = frozenset(("url", "email", "code", "bold", "heading", "list", "table"))

# Digits and letters of other alphabets that look like Latin letters.
_SMALL_CAPITALS = "ʙᴀᴅᴇɢʜɪᴊᴋʟᴍɴᴏᴘʀᴛᴜᴠᴡʏᴢ"
_LOOKALIKES = list(
    zip(
        f"аеорсухіјѕԁһԛԝαορνικ4301578@${_SMALL_CAPITALS}",
        "aeopcyxijsdhqwaopvikaeolstbasbadeghijklmnoprtuvwyz",
        strict=True,
    )
)
# Units that follow a number without a space: 5am, 10km.
_UNITS = word_set(
    "am pm st nd rd th in cm mm km kg mg ml lb lbs oz ft yd mi mph kb mb gb tb hz khz mhz ghz min hr hrs"
)
# Three letters or more with the same separator between them: "b-a-d", "b a d". Group 1 is the separator.
_SINGLE_LETTERS = re.compile(r"(?<![\w-])\w([-. *_])\w(?:\1\w){1,40}(?![\w-])")
_SLANG = word_list(
    "gonna wanna gotta kinda sorta dunno lemme ain't y'all yeah nope lol omg btw tbh imo dude guys"
)
_SLANG_ZH = word_list("咋整 啥 忒 贼拉 牛逼 绝绝子 yyds 老铁 家人们 哈哈 呵呵 嘿嘿")


def _check_keyword_parameters(params: Any) -> str | None:
    if not params.keywords:
        return "given: at least one keyword"
    if isinstance(params.need, int) and params.need > len(params.keywords):
        return f"with a need of at most {len(params.keywords)}, the number of keywords"
    return None


@verifier("Keyword", family="presence", version=4, check=_check_keyword_parameters)
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
    Fails: ["art"] in "party": a whole word is required, except in scripts without spaces. "every paragraph" requires
        the keyword in each.
    Not covered: inflected forms, synonyms, Simplified for Traditional.
    """
    text = text.shown
    if where in ("anywhere", "start", "end"):
        parts = [text.raw]
    elif where == "every paragraph":
        parts = [part for part in text.paragraphs if not is_heading(part)]
        parts = [part for part in parts if any(map(str.isalnum, part))]
    else:
        parts = sentences(text.raw)
        if where == "first sentence":
            parts = parts[:1]
        elif where == "last sentence":
            parts = parts[-1:]
    if case_sensitive:
        places = [" ".join(part.split()) for part in parts]
    elif parts == [text.raw]:
        places = [text.folded]  # folded once for all criteria
    else:
        places = list(map(fold_visible, parts))
    enough = count if relation == "at least" else None
    failed: list[str] = []
    for word in keywords:
        phrase = " ".join(word.split()) if case_sensitive else fold_phrase(word)
        counts = [_count_at(place, phrase, whole_words, where, enough) for place in places]
        if not counts or not all(holds(n, relation, count) for n in counts):
            failed.append(word)
    if need == "all":
        needed = len(keywords)
    elif need == "any":
        needed = 1
    else:
        needed = need
    met = len(keywords) - len(failed)
    times = "once" if count == 1 else f"{count} times"
    reason = (
        f"{met} of {len(keywords)} keywords occur {relation} {times} ({where}), {need} required"
    )
    if failed:
        reason += f"; not met: {', '.join(map(repr, failed[:5]))}"
    return met >= needed, reason


def _count_at(place: str, phrase: str, whole: bool, where: Where, enough: int | None) -> int:
    """Count the phrase in a part of the text; with `where` "start" or "end" 1 if it stands there, else 0.

    Marks around the part are ignored ("**Done**" starts with "done"), but not those of the phrase itself ("#hashtag").
    enough: the count at which counting may end.
    """
    if where == "start":
        start = place.lstrip("*_#>\"'“‘「『《 ".replace(phrase[:1], ""))
        # With the next character, which tells whether the phrase ends a word.
        first = start[: len(phrase) + 1]
        return int(start.startswith(phrase) and count_phrase(first, phrase, whole=whole) > 0)
    if where == "end":
        marks = "*_\"'”’」』》 ".replace(phrase[-1:], "")
        end = place.rstrip(marks)
        if not end.endswith(phrase):
            end = end.rstrip(marks + ".。!！?？…")
        # With the character before, which tells whether the phrase begins a word.
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
        if _KINDS[kind](text.raw if kind in _KINDS_OF_MARKUP else visible_text.raw):
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
    if " " not in phrase:  # a longer phrase is not searched for in look-alike letters
        for match in _compile_lookalikes(phrase).finditer(text.folded):
            if match[0] != phrase and not _is_ordinary_spelling(match[0]):
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


@lru_cache(maxsize=1024)
def _compile_lookalikes(word: str) -> re.Pattern[str]:
    """Return a pattern for a whole word, in which letters may be replaced by their look-alikes."""
    letters = []
    for letter in word:
        alike = "".join(sign for sign, replaced in _LOOKALIKES if replaced == letter)
        letters.append(f"[{letter}{alike}]")
    return re.compile(rf"(?<![\w@$]){''.join(letters)}(?![\w@$])")


def _is_ordinary_spelling(word: str) -> bool:
    """Do the digits or foreign letters of a word disguise nothing?

    This holds for words of another alphabet (the Russian оса), numbers with a unit (5am), numbered names (item5), and
    codes with fewer letters than digits (A11). Any other word is a disguise: b4d, bаd with a Cyrillic а.
    """
    letters = sum((char.isascii() and char.isalpha()) or char in _SMALL_CAPITALS for char in word)
    digits = sum(map(str.isdigit, word))
    if letters == 0 or digits > letters:
        return True
    is_numbered = digits == 1 and word[-1].isdigit()
    return is_numbered or (digits > 0 and word.lstrip("0123456789") in _UNITS)


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
    Fails: tone "formal" with "gonna", "don't" or "啥"; an avoided word. The rule can only fail "formal": without a
        breach a judge must say whether the tone is right, unless words were asked as well. Without any
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


# ---- patterns -------------------------------------------------------------------------------------------------------


def _compile_pattern(pattern: str, where: str, case_sensitive: bool) -> Any:
    """Compile the pattern; "." matches line breaks, and "^" and "$" match at lines unless `where` is "whole"."""
    flags = "(?s)" if where == "whole" else "(?ms)"
    return compile_re2(flags + pattern, case_sensitive=case_sensitive)


def _check_pattern(params: Any) -> str | None:
    """Return what is wrong with the pattern, so that a rubric with a bad pattern is refused before grading."""
    try:
        _compile_pattern(params.pattern, params.where, params.case_sensitive)
    except re2.error as error:
        return f"with a pattern that RE2 can read ({params.pattern[:60]!r}: {error})"
    return None


@verifier("Regex", family="presence", version=2, check=_check_pattern)
def regex(
    text: Text,
    *,
    pattern: Annotated[str, Field(min_length=1, max_length=10_000)],
    must: Literal["match", "not match"] = "match",
    where: Literal["anywhere", "whole", "every line"] = "anywhere",
    relation: Relation = "at least",
    count: Annotated[int, Field(ge=0, le=1_000_000)] = 1,
    case_sensitive: bool = True,
) -> Answer:
    """The pattern (RE2 syntax) matches: somewhere `relation count` times, the whole answer, or every line of it.

    Passes: "ID-0042" for ID-\\d{4}.
    Fails: no match; another number of matches; a match where `must="not match"`. `^` and `$` mean lines, `.` any
        character. A pattern that RE2 cannot read is refused with the rubric.
    Not covered: look-around and back-references, which RE2 does not have.
    """
    compiled = _compile_pattern(pattern, where, case_sensitive)
    raw = replace_surrogates(text.raw)
    if where == "anywhere":
        # Twice as many matches as `count` and two more decide every relation, so the search ends there.
        number = sum(1 for _ in islice(compiled.finditer(raw), 2 * count + 2))
        matches = holds(number, relation, count)
        expectation = "required" if must == "match" else "forbidden"
        reason = f"{number} match(es) of {pattern[:60]!r}, {relation} {count} {expectation}"
    elif where == "whole":
        matches = compiled.fullmatch(raw.strip()) is not None
        verb = "matches" if matches else "does not match"
        reason = f"the whole answer {verb} {pattern[:60]!r}"
    else:
        lines = [line.strip() for line in raw.split("\n") if line.strip()]
        matching = sum(compiled.fullmatch(line) is not None for line in lines)
        matches = bool(lines) and matching == len(lines)
        reason = f"{matching} of {len(lines)} lines match {pattern[:60]!r}"
    return matches == (must == "match"), reason
