"""The language of the answer: LanguageRequirement (one was asked for), LanguageDetection (it is the prompt's)."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Annotated, Any

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import HAN
from rubrank.texts.text import Text
from rubrank.verifiers.shared.language import is_detectable
from rubrank.verifiers.shared.language_names import language_code
from rubrank.verifiers.shared.language_shares import (
    LEAST,
    Accepted,
    find_accepted,
    fits,
    measure_languages,
    measure_others,
    measure_within,
    quotes_language,
    weigh,
)
from rubrank.verifiers.shared.relation import Share
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier

_HAN = re.compile(f"[{HAN}]")
_QUOTED = 0.3  # of an answer, in quotations: a translation and words about it


def _can_be_told(params: Any) -> str | None:
    asked = [params.language] if isinstance(params.language, str) else params.language
    unknown = [name for name in asked if not is_detectable(language_code(name).split("-")[0])]
    if unknown or not asked:
        return f"of a language that can be told, not {unknown[0]!r}" if unknown else "given: a `language`"
    return None


@verifier("LanguageRequirement", family="language", domain=BINARY, version=2, check=_can_be_told)
def language_requirement(text: Text, *, language: str | tuple[str, ...], share: Share = 0.8) -> Answer:
    """The answer is in the language asked for (or one of several): by code or name, "fr", "French", "法语", "zh-Hant".

    Passes: at least `share` of it is; code, addresses and quotations aside. Fails: another language, too much of
    another, Simplified for Traditional characters (or the reverse); sentences of another in a code fence. Missing: no
    words, too few that show a language (names, dates), or a language that cannot be told. Not covered: dialects,
    romanised text.
    """
    asked = [language_code(name) for name in ([language] if isinstance(language, str) else language)]
    unknown = [code for code in asked if not is_detectable(code.split("-")[0])]
    if unknown:
        return missing(f"the language {unknown[0]!r} cannot be detected")
    found, codes = measure_languages(text.raw), {code.split("-")[0] for code in asked}
    if not found:
        return missing("no words to tell a language by")
    part = sum(found.get(code, 0.0) for code in codes)
    if part >= share and asked == ["zh-hans"]:
        return _variant(text.raw, simplified=True)
    if part >= share and asked == ["zh-hant"]:
        return _variant(text.raw, simplified=False)
    main = max(found, key=found.__getitem__)
    if part < share and measure_others(text.raw, codes) <= 1 - share:
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


@verifier("LanguageDetection", family="language", domain=BINARY, version=2)
def language_detection(
    rollout: Rollout, *, languages: tuple[str, ...] = (), least_letters: Annotated[int, Field(ge=1)] = LEAST
) -> Answer:
    """The main language of the answer is the one the prompt asks for, else the prompt's, or one of `languages`.

    Passes: a French answer to a French prompt, or to "answer in French", "translate this into French", "译成法语"; any
    language that the prompt makes possible ("if it is right, answer in French"). Fails: an English one. The main
    language has the largest share of the sentences; quotations, code and addresses do not count. Missing: too little
    text on either side, too few words that show a language. Not covered: a language that the prompt asks for by hints
    ("for my Spanish grandmother"); give `languages` then.
    """
    found = measure_languages(rollout.answer)
    if not found or weigh(rollout.answer) < least_letters:
        return missing("the answer is too short to tell its language")
    main = max(found, key=found.__getitem__)
    given = frozenset(language_code(name).split("-")[0] for name in languages)
    wanted = Accepted(given, whole=True, sure=True) if given else find_accepted(rollout)
    if not wanted.languages:
        return missing("the prompt is too short to tell its language")
    reason = f"the answer is in {main}, {'/'.join(sorted(wanted.languages))} expected"
    if main in wanted.languages:
        return True, reason
    inside = sum(found.get(code, 0.0) for code in wanted.languages)
    if fits(main, wanted) or measure_others(rollout.answer, wanted.languages) <= inside:
        return missing(f"too few words that show a language; perhaps {reason}")
    if measure_within(rollout.answer, wanted.languages) >= _QUOTED or quotes_language(rollout.answer, wanted.languages):
        return missing(f"what is quoted is in another language; perhaps {reason}")
    return False, reason
