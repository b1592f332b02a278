"""Catastrophic text: GarbledText (not readable), WrongLanguage (1 = fine, 0 = the reward is stopped)."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import split_code, without_code
from rubrank.verifiers.paper.language import share_of_others, shares, weight
from rubrank.verifiers.shared.language import detect_language, written_by_one
from rubrank.verifiers.shared.language_names import NAMED, language_code, target_languages
from rubrank.verifiers.shared.relation import Share
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier

_BROKEN = re.compile(
    "[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f-\x84\x86-\x9f\ufffd\ufdd0-\ufdef\ufffe\uffff\ud800-\udfff\ue000-\uf8ff]"
)
_KNOWN_MOJIBAKE = re.compile("锟斤拷|烫烫烫|屯屯屯|ï¿½|â€[™œ\x9d\x9c“”˜¦]|Ã[\x80-\xbf©¨¡³±¶¼¤§]")
_HIGH = re.compile("[\x80-\xffŒœŠšŸŽžƒˆ˜–—‘’‚“”„†‡•…‰‹›€™]{2,}")
_MATHS = re.compile(
    r"\$\$[^$]{1,5000}\$\$|\$[^$\n]{1,1000}\$"
    # A backslash may not begin another opening bracket: a megabyte of them would be tried from each one on.
    r"|\\\[(?:[^\]\\]|\\(?![\[\]])){1,5000}+\\\]|\\\((?:[^)\\]|\\(?![()])){1,2000}+\\\)|\\[a-zA-Z]+"
)
_STACKED = re.compile("[\u0300-\u036f]{4,}")
_SCRIPTS = (
    ("Latin", "A-Za-zÀ-ɏ"), ("Cyrillic", "Ѐ-ӿ"), ("Arabic", "\u0600-\u06ff"), ("Hebrew", "\u0590-\u05ff"),
    ("Thai", "\u0e00-\u0e7f"),
    ("Hangul", "가-힣"), ("Devanagari", "\u0900-\u097f"), ("Kana", "ぁ-ヿ"), ("Han", "\u3400-\u9fff"),
)  # fmt: skip
_JOINED = re.compile("|".join(f"(?P<{name}>[{letters}]+)" for name, letters in _SCRIPTS))
_HAPPY = (
    {"Han", "Kana"},
    {"Latin", "Han"},
    {"Latin", "Kana"},
    {"Latin", "Hangul"},
    {"Han", "Hangul"},
    {"Latin", "Thai"},
)
_SOUP = 60  # characters of a line from which a mix of signs is no longer writing


@verifier("GarbledText", family="gate", domain=BINARY, version=1, layer="global_quality")
def garbled_text(rollout: Rollout) -> Answer:
    """The text can be read.

    Fails: three or more broken characters (replacement, control, private use, lone surrogates) or two in a short text;
    wrongly decoded text ("â€™", "锟斤拷"); long stretches of mixed signs without words; words that mix scripts,
    three or more; letters under heaps of accents. Passes: code, mathematics, emoji, tables, drawings of lines,
    every script, and what the prompt itself contains. Not covered: real words in senseless order.
    """
    prose = without_code(rollout.answer)
    for what, n in _signs_of_garbling(prose):
        if n and not any(n <= m for kind, m in _signs_of_garbling(rollout.question) if kind == what):
            return False, f"{what}: {n}"
    return True, "readable"


def _signs_of_garbling(text: str) -> Iterator[tuple[str, int]]:
    """Each sign with how often it occurs, 0 where it is too seldom to matter."""
    broken = len(_BROKEN.findall(text))
    yield "broken characters", broken if broken >= 3 or (broken == 2 and len(text) < 100) else 0
    wrong = max(len(_KNOWN_MOJIBAKE.findall(text)), _decodable(text))
    yield "wrongly decoded passages", wrong if wrong >= 2 or 20 * wrong > len(text) else 0
    stacked = len(_STACKED.findall(text))
    yield "letters under heaps of accents", stacked if stacked >= 3 else 0
    mixed = _mixed_words(text)
    yield "words of mixed scripts", mixed if mixed >= 3 else 0
    yield "lines of signs without words", sum(map(_is_soup, _MATHS.sub(" ", text).splitlines()))


def _decodable(text: str) -> int:
    """Runs of Western characters that are really the bytes of UTF-8."""
    count = 0
    for run in _HIGH.findall(text) if not text.isascii() else ():
        for codec in ("cp1252", "latin-1"):
            try:
                decoded = run.encode(codec).decode("utf-8")
            except ValueError:
                continue
            count += len(decoded) < len(run)
            break
    return count


def _mixed_words(text: str) -> int:
    if text.isascii():
        return 0
    count, end, scripts = 0, -1, set[str]()
    for run in _JOINED.finditer(text):
        scripts = scripts | {run.lastgroup or ""} if run.start() == end else {run.lastgroup or ""}
        count += run.start() == end and not any(scripts <= happy for happy in (*_HAPPY, {"Han", "Kana", "Latin"}))
        end = run.end()
    return count


def _is_soup(line: str) -> bool:
    """A long line of many different ASCII signs and few letters; no rule, drawing, table or emoji."""
    dense = "".join(line.split())
    if len(dense) < _SOUP or dense.count("|") >= 2:
        return False
    signs = Counter(c for c in dense if c.isascii() and not c.isalnum())
    letters = sum(map(str.isalpha, dense))
    common = signs.most_common(2)
    return (
        len(signs) >= 8
        and 2 * signs.total() > len(dense)
        and 4 * letters < len(dense)
        and 2 * sum(n for _, n in common) < signs.total()
    )


_OPEN = re.compile(
    r"(?:different|another|other|any|foreign|second) languages?\b|language (?:other than|of your)"
    r"|autre langue|otro idioma"
    r"|(?:其他|其它|另一种|不同的?|别的|任何)(?:一种)?语言",
    re.IGNORECASE,
)
_COMMENT = re.compile(r"\b(?:explain|explanation|comment|notes?|why|glossary)\b|解释|说明|讲解|注释", re.IGNORECASE)
_SHORT = 30  # letters below which only the script shows a language


@verifier("WrongLanguage", family="gate", domain=BINARY, version=1, layer="global_quality")
def wrong_language(rollout: Rollout, *, language: str | None = None, most: Share = 0.4) -> Answer:
    """The answer is in the language expected: `language`, else what the prompt asks for, is written in, or quotes.

    Passes: English for "Write it in English", "译成英文", or an English prompt; answers without words ("42").
    Fails: more than `most` of the sentences are surely in another. Code, quotations and addresses do not count.
    Missing: too little text to tell; a few words are enough where the script shows the language (Chinese, Thai …).
    Not covered: dialects; Simplified or Traditional.
    """
    prose = without_code(rollout.answer)
    if not any(c.isalpha() for c in prose):
        return True, "no words of any language"
    if language is None and _is_open(rollout.question):
        return missing("the prompt leaves the language open")
    wanted = {language_code(language).split("-")[0]} if language else _expected(rollout)
    if not wanted or (weight(prose) < _SHORT and not _shown_by_script(prose)):
        return missing("too little text to tell the language")
    other, main = share_of_others(rollout.answer, wanted), detect_language(prose)[0]
    reason = f"{other:.0%} not in {'/'.join(sorted(wanted))}; mostly {main or 'unclear'}"
    if other > most and main in wanted and not written_by_one(main):  # names by the dozen, as in a list of places
        other = 0.0
    if other <= most and main not in wanted and not wanted & shares(rollout.answer).keys():
        return missing(f"languages too close to tell, or too few words: {reason}")
    return other <= most, reason


def _shown_by_script(prose: str) -> bool:
    """Four Chinese characters, or a dozen letters of another script that one language writes."""
    return weight(prose) >= 12 and written_by_one(detect_language(prose)[0])


def _is_open(question: str) -> bool:
    """Is some other language asked for, whichever? ("only Tamil, no other language" asks for one.)"""
    found = _OPEN.search(question)
    return found is not None and ("other than" in found[0].lower() or not NAMED.search(question.lower()))


def _expected(rollout: Rollout) -> set[str]:
    """Languages that the prompt asks for; else those it is written in, quotes or names."""
    rules = "\n\n".join(m.content for m in rollout.prompt if m.role in ("system", "developer"))
    asked = target_languages(rollout.question) or target_languages(rules)
    if asked and not _COMMENT.search(rollout.question):
        return asked
    said = "\n\n".join((rules, *(m.content for m in rollout.prompt if m.role == "user")))[:50_000]
    named = {language_code(name).split("-")[0] for name in NAMED.findall(said.lower())}
    outside = "\n".join(split_code(rollout.question)[0])
    code, sure = detect_language(outside)
    whole = {code} if sure >= 0.5 else set()
    return asked | named | whole | {code for code, part in shares(outside).items() if part >= 0.15}
