"""The language of the answer: LanguageRequirement (one was asked for), LanguageDetection (it is the prompt's)."""

from __future__ import annotations

import re
from collections.abc import Collection
from functools import lru_cache
from typing import Annotated, Any

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import HAN, without_code
from rubrank.texts.text import Text
from rubrank.verifiers.shared.language import detect_language, detectable, is_other
from rubrank.verifiers.shared.language_names import QUOTED, language_code, target_languages
from rubrank.verifiers.shared.relation import Share
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier

_SPLIT = re.compile(r"\n[ \t]*\n|(?<=[。！？])|(?<=[.!?])\s")
_HAN = re.compile(f"[{HAN}]")
_DENSE = re.compile(f"[{HAN}\u3040-\u30ff\uac00-\ud7af]")
_LEAST = 12  # letters from which a sentence shows its language; a Chinese character is worth three
_SURE = 0.25


def weight(text: str) -> int:
    """How much text there is to tell a language by: letters, those of Chinese, Japanese and Korean as three."""
    return sum(map(str.isalpha, text)) + 2 * len(_DENSE.findall(text))


def shares(text: str) -> dict[str, float]:
    """The languages of the text's sentences, by their share; code, addresses and quotations left out."""
    sizes: dict[str, float] = {}
    for piece in _pieces(text):
        code, sure = detect_language(piece)
        if code and sure >= _SURE:
            sizes[code] = sizes.get(code, 0.0) + weight(piece)
    total = sum(sizes.values())
    return {code: size / total for code, size in sizes.items()} if total else {}


def share_of_others(text: str, languages: Collection[str]) -> float:
    """How much of the text is surely in none of these languages."""
    sizes = [(weight(piece), is_other(piece, languages)) for piece in _pieces(text)]
    return sum(size for size, other in sizes if other) / max(1, sum(size for size, _ in sizes))


def _pieces(text: str) -> list[str]:
    prose = without_code(text[:200_000])
    plain = QUOTED.sub(" ", prose)
    prose = plain if weight(plain) >= max(_LEAST, 0.4 * weight(prose)) else prose  # all quoted: then that is the text
    return _merged(_SPLIT.split(prose))


def _merged(pieces: list[str]) -> list[str]:
    """Neighbouring pieces joined until each is long enough to tell its language, about a dozen of them."""
    least = max(60, sum(map(len, pieces)) // 12)
    merged: list[str] = []
    size = least
    for piece in filter(str.strip, pieces):
        if size >= least:
            merged.append(piece)
            size = 0
        else:
            merged[-1] += " " + piece
        size += weight(piece)
    if len(merged) > 1 and size < least:
        last = merged.pop()
        merged[-1] += " " + last
    return merged


def _can_be_told(params: Any) -> str | None:
    asked = [params.language] if isinstance(params.language, str) else params.language
    unknown = [name for name in asked if not detectable(language_code(name).split("-")[0])]
    if unknown or not asked:
        return f"of a language that can be told, not {unknown[0]!r}" if unknown else "given: a `language`"
    return None


@verifier("LanguageRequirement", family="language", domain=BINARY, version=1, check=_can_be_told)
def language_requirement(text: Text, *, language: str | tuple[str, ...], share: Share = 0.8) -> Answer:
    """The answer is in the language asked for (or one of several): by code or name, "fr", "French", "法语", "zh-Hant".

    Passes: at least `share` of it is; code, addresses and quotations aside. Fails: another language, too much of
    another, Simplified for Traditional characters (or the reverse). Missing: no words, too few that show a language
    (names, dates), or a language that cannot be told. Not covered: dialects, romanised text.
    """
    asked = [language_code(name) for name in ([language] if isinstance(language, str) else language)]
    unknown = [code for code in asked if not detectable(code.split("-")[0])]
    if unknown:
        return missing(f"the language {unknown[0]!r} cannot be told")
    found, codes = shares(text.raw), {code.split("-")[0] for code in asked}
    if not found:
        return missing("no words to tell a language by")
    part = sum(found.get(code, 0.0) for code in codes)
    if part >= share and asked == ["zh-hans"]:
        return _variant(text.raw, simplified=True)
    if part >= share and asked == ["zh-hant"]:
        return _variant(text.raw, simplified=False)
    main = max(found, key=found.__getitem__)
    if part < share and share_of_others(text.raw, codes) <= 1 - share:
        return missing(f"too few words that show a language: perhaps {main}, {'/'.join(asked)} asked")
    return part >= share, f"{part:.0%} in {'/'.join(asked)}, {share:.0%} asked; mostly {main}"


@lru_cache(maxsize=2)
def converter(config: str) -> Any:
    """A converter between Chinese variants."""
    import opencc

    return opencc.OpenCC(config)


def _variant(raw: str, *, simplified: bool) -> tuple[bool, str]:
    han = "".join(_HAN.findall(raw[:200_000]))
    to_simplified, to_traditional = converter("t2s").convert(han), converter("s2t").convert(han)
    traditional = sum(a != b for a, b in zip(han, to_simplified, strict=False))
    simple = sum(a != b for a, b in zip(han, to_traditional, strict=False))
    right, wrong = (simple, traditional) if simplified else (traditional, simple)
    name = "Simplified" if simplified else "Traditional"
    return wrong <= 0.1 * (right + wrong), f"{right} characters {name} only, {wrong} of the other variant"


@verifier("LanguageDetection", family="language", domain=BINARY, version=1)
def language_detection(
    rollout: Rollout, *, languages: tuple[str, ...] = (), least_letters: Annotated[int, Field(ge=1)] = _LEAST
) -> Answer:
    """The main language of the answer is the one the prompt asks for, else the prompt's, or one of `languages`.

    Passes: a French answer to a French prompt, or to "answer in French", "translate this into French", "译成法语".
    Fails: an English one. The main language has the largest share of the sentences; quotations, code and addresses do
    not count. Missing: too little text on either side, too few words that show a language. Not covered: a language
    that the prompt asks for by hints ("for my Spanish grandmother"); give `languages` then.
    """
    found = shares(rollout.answer)
    if not found or weight(rollout.answer) < least_letters:
        return missing("the answer is too short to tell its language")
    main = max(found, key=found.__getitem__)
    wanted = {language_code(name).split("-")[0] for name in languages} or target_languages(rollout.question)
    asked = {} if wanted else shares(rollout.question)
    if not wanted and (not asked or weight(rollout.question) < least_letters):
        return missing("the prompt is too short to tell its language")
    wanted = wanted or {max(asked, key=asked.__getitem__)}
    reason = f"the answer is in {main}, {'/'.join(sorted(wanted))} expected"
    inside = sum(found.get(code, 0.0) for code in wanted)
    unsure = share_of_others(rollout.answer, wanted) <= inside or (asked and not is_other(rollout.question, {main}))
    if main not in wanted and unsure:
        return missing(f"too few words that show a language; perhaps {reason}")
    return main in wanted, reason
