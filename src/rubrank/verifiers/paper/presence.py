"""What must and must not occur: Keyword, ForbiddenContent, and the checkable part of DictionRequirement."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated, Any, Literal, TypeAlias

import re2
from pydantic import Field

from rubrank._plain import clean
from rubrank.texts.prose import (
    count_in,
    count_phrase,
    folded,
    is_heading,
    list_items,
    search_form,
    sentences,
    split_code,
    with_marked_titles,
)
from rubrank.texts.text import Text
from rubrank.verifiers.shared.patterns import compile_re2
from rubrank.verifiers.shared.persons import find_first_person
from rubrank.verifiers.shared.relation import Relation, holds
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier

Words: TypeAlias = tuple[Annotated[str, Field(min_length=1)], ...]
Where: TypeAlias = Literal[
    "anywhere", "start", "end", "first sentence", "last sentence", "every paragraph", "every sentence"
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
_CONTRACTION = (
    r"(?i:\b(?:\w{1,20}n['’]t|\w{1,20}['’](?:ll|re|ve)|(?:i['’]m|(?:it|that|he|she|there|what|who|let|here)['’]s))\b)"
)
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
    "contractions": re.compile(_CONTRACTION),
}

# One of these must be there at all: saves looking at every letter.
_OF_MARKUP = frozenset(("url", "email", "code", "bold", "heading", "list", "table"))
_SIGNS = {"email": "@", "contractions": "'’", "bold": "*_", "table": "-", "code": "`~", "url": ":."}


@verifier("Keyword", family="presence", domain=BINARY, version=3)
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

    Passes: keywords ["West Lake"] in "the west lake"; ["西湖"] in "杭州西湖". Fails: ["art"] in "party" (a whole word
    is asked; scripts without spaces have no such edges). "every paragraph" wants the keyword in each. Not covered:
    inflected forms, synonyms, Simplified for Traditional.
    """
    text = text.shown
    if where == "anywhere" and not case_sensitive:
        enough = count if relation == "at least" else None
        counts = [count_in(text, folded(word), whole=whole_words, enough=enough) for word in keywords]
        met = [holds(n, relation, count) for n in counts]
    else:
        form = (lambda s: " ".join(s.split())) if case_sensitive else folded
        places = _places(text, where, case_sensitive)
        met = []
        for word in keywords:
            counts = [_count_at(place, form(word), whole_words, where) for place in places]
            met.append(bool(counts) and all(holds(n, relation, count) for n in counts))
    wanted = need if isinstance(need, int) else len(keywords) if need == "all" else 1
    failed = [word for word, ok in zip(keywords, met, strict=True) if not ok]
    found = len(keywords) - len(failed)
    what = f"{found} of {len(keywords)} keywords occur {relation} {count} times ({where}), {need} asked"
    return found >= wanted, f"{what}; not so: {', '.join(map(repr, failed[:5]))}" if failed else what


def _places(text: Text, where: Where, case_sensitive: bool) -> list[str]:
    if where in ("anywhere", "start", "end"):
        return [" ".join(text.raw.split()) if case_sensitive else search_form(text)]
    if where == "every paragraph":
        found = [p for p in text.paragraphs if not is_heading(p) and any(c.isalnum() for c in p)]
    else:
        found = sentences(text.raw)
        found = found[:1] if where == "first sentence" else found[-1:] if where == "last sentence" else found
    return [" ".join(p.split()) if case_sensitive else folded.__wrapped__(p) for p in found]


def _count_at(place: str, phrase: str, whole: bool, where: Where) -> int:
    """Occurrences in the place; at the start or end only one can count."""
    if where == "start":
        place = place.lstrip("*_#>\"'“‘「『《 ")[: len(phrase) + 1]
        return int(place.startswith(phrase) and count_phrase(place, phrase, whole=whole) > 0)
    if where == "end":
        place = place.rstrip("*_\"'”’」』》 ")
        place = place if place.endswith(phrase) else place.rstrip(".。!！?？…")
        return int(place.endswith(phrase) and count_phrase(place[-len(phrase) - 1 :], phrase, whole=whole) > 0)
    return count_phrase(place, phrase, whole=whole)


def _forbids_something(params: Any) -> str | None:
    if not (params.words or params.patterns or params.characters or params.kinds):
        return "given: words, patterns, characters or kinds"
    for pattern in params.patterns:
        try:
            _pattern(pattern)
        except re2.error as error:
            return f"with patterns that RE2 can read ({pattern!r}: {error})"
    return None


@verifier("ForbiddenContent", family="presence", domain=BINARY, version=1, check=_forbids_something)
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
    """Nothing forbidden occurs: words or phrases, characters, RE2 patterns, or kinds of content (digits, emoji, url …).

    Passes: words ["bad"] in "not badly". Fails: "Bad idea"; kinds ["comma"] for "一，二". Not covered: paraphrases and
    spelling tricks (b-a-d); first person and contractions are known in English (and 我, 咱) only.
    """
    if not (words or patterns or characters or kinds):
        return missing("nothing is forbidden: give words, patterns, characters or kinds")
    shown = text.shown
    found = _forbidden_words(shown, words, whole_words, case_sensitive)
    if characters:
        found += [repr(c) for c in dict.fromkeys(characters) if c in shown.raw]
    if kinds:
        found += [kind for kind in kinds if _has(kind, text if kind in _OF_MARKUP else shown)]
    try:
        found += [f"pattern {p!r}" for p in patterns if _pattern(p).search(clean(shown.raw))] if patterns else ()
    except re2.error as error:
        return missing(f"a pattern that RE2 cannot read: {error}")
    return not found, f"forbidden: {', '.join(found[:5])}" if found else "nothing forbidden found"


def _forbidden_words(text: Text, words: tuple[str, ...], whole: bool, case_sensitive: bool) -> list[str]:
    if not words:
        return []
    if not case_sensitive:
        return [repr(word) for word in words if count_in(text, folded(word), whole=whole, enough=1)]
    place = " ".join(text.raw.split())
    return [repr(word) for word in words if count_phrase(place, " ".join(word.split()), whole=whole)]


def _has(kind: str, text: Text) -> bool:
    if kind == "list":
        return bool(list_items(text.raw))
    if kind == "heading":
        return any(map(is_heading, split_code(with_marked_titles(text).raw)[0]))
    if kind == "first person":
        return find_first_person(text.raw) is not None
    return any(sign in text.raw for sign in _SIGNS.get(kind, ("",))) and bool(_KINDS[kind].search(text.raw))


@lru_cache(maxsize=256)
def _pattern(pattern: str) -> Any:
    return compile_re2(clean(pattern))


_SLANG = folded("gonna|wanna|gotta|kinda|sorta|dunno|lemme|ain't|y'all|yeah|nope|lol|omg|btw|tbh|imo|dude|guys").split(
    "|"
)
_SLANG_ZH = ("咋整", "啥", "忒", "贼拉", "牛逼", "绝绝子", "yyds", "老铁", "家人们", "哈哈", "呵呵", "嘿嘿")


@verifier("DictionRequirement", family="style", domain=BINARY, version=2, how="both")
def diction_requirement(
    text: Text,
    *,
    use: Words = (),
    avoid: Words = (),
    tone: Literal["formal", "no first person", "no contractions"] | None = None,
) -> Answer:
    """The wording asked for, as far as words can show: expressions to use, to avoid, and a tone.

    Passes: use ["therefore"] in "It is therefore so". Fails: tone "formal" with "gonna", "don't" or "啥"; an
    avoided word. "formal" only fails for sure: without a breach a judge must say whether the tone is right, unless
    words were asked as well. Without any parameter: missing (needs a judge). Not covered: style
    that no single word shows.
    """
    if not (use or avoid or tone):
        return missing("needs a judge: no words and no tone are given")
    place = search_form(text.shown)
    absent = [word for word in use if not count_phrase(place, folded(word))]
    if absent:
        return False, f"expressions to use are absent: {', '.join(map(repr, absent[:5]))}"
    breaches = [word for word in avoid if count_phrase(place, folded(word))] + _breaches(text.shown.raw, place, tone)
    if breaches:
        return False, f"wording to avoid: {', '.join(map(repr, breaches[:5]))}"
    if tone == "formal" and not (use or avoid):
        return missing("needs a judge: no informal word found, the tone cannot be recognised by words")
    return True, "all expressions asked for are there, none to avoid"


def _breaches(shown: str, place: str, tone: str | None) -> list[str]:
    if tone == "no first person":
        return [who] if (who := find_first_person(shown)) else []
    found = [match[0]] if tone and (match := _KINDS["contractions"].search(place)) else []
    if tone == "formal":
        found += [w for w in _SLANG if count_phrase(place, w)] + [w for w in _SLANG_ZH if w in place]
    return found
