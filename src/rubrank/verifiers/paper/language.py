"""The language of the answer: LanguageRequirement (a given language), LanguageDetection (that of the prompt)."""

from __future__ import annotations

import operator
import re
from functools import lru_cache
from typing import Annotated, Any

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import HAN
from rubrank.texts.text import Text
from rubrank.verifiers.shared.language import is_detectable
from rubrank.verifiers.shared.language_names import find_language_code
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
from rubrank.verifiers.verifier import Answer, missing, verifier

_HAN = re.compile(f"[{HAN}]")
_MOSTLY_QUOTED = 0.3  # share of an answer in quotations: it may be a translation and words about it


def _check_detectable(params: Any) -> str | None:
    names = [params.language] if isinstance(params.language, str) else params.language
    if not names:
        return "given: a `language`"
    for name in names:
        if not is_detectable(find_language_code(name).split("-")[0]):
            return f"of a language that can be detected, not {name!r}"
    return None


@verifier("LanguageRequirement", family="language", version=3, check=_check_detectable)
def language_requirement(
    text: Text, *, language: str | tuple[str, ...], share: Share = 0.8
) -> Answer:
    """The answer is in the language asked for (or one of several): by code or name, "fr", "French", "法语", "zh-Hant".

    Passes: at least `share` of it is; code, addresses and quotations aside.
    Fails: another language, too much of another, Simplified for Traditional characters (or the reverse); sentences of
        another in a code fence.
    Missing: no words, or too few that show a language (names, dates).
    Not covered: dialects, romanised text.
    """
    names = [language] if isinstance(language, str) else language
    codes = [find_language_code(name) for name in names]
    base_codes = {code.split("-")[0] for code in codes}
    shares = measure_languages(text.raw)
    if not shares:
        return missing("no words to tell a language by")
    right_share = sum(shares.get(code, 0.0) for code in base_codes)
    if right_share >= share and codes in (["zh-hans"], ["zh-hant"]):
        return _check_variant(text.raw, simplified=codes == ["zh-hans"])
    main = max(shares, key=shares.__getitem__)
    required = "/".join(codes)
    if right_share < share and measure_others(text.raw, base_codes) <= 1 - share:
        return missing(f"too few words that show a language: perhaps {main}, {required} required")
    reason = f"{right_share:.0%} in {required}, {share:.0%} required; mostly {main}"
    return right_share >= share, reason


@lru_cache(maxsize=2)
def load_converter(config: str) -> Any:
    """Load a converter between Chinese variants, such as "t2s" (Traditional to Simplified)."""
    import opencc

    return opencc.OpenCC(config)


def _check_variant(raw: str, *, simplified: bool) -> tuple[bool, str]:
    """Check that at most a tenth of the characters that belong to one variant only belong to the wrong one."""
    han = "".join(_HAN.findall(raw[:200_000]))
    # What changes when the text is converted to one variant belongs to the other variant only.
    only_traditional = sum(map(operator.ne, han, load_converter("t2s").convert(han)))
    only_simplified = sum(map(operator.ne, han, load_converter("s2t").convert(han)))
    right = only_simplified if simplified else only_traditional
    wrong = only_traditional if simplified else only_simplified
    name = "Simplified" if simplified else "Traditional"
    is_right = wrong <= 0.1 * (right + wrong)
    return is_right, f"{right} characters {name} only, {wrong} of the other variant"


@verifier("LanguageDetection", family="language", version=4)
def language_detection(
    rollout: Rollout,
    *,
    languages: tuple[str, ...] = (),
    least_letters: Annotated[int, Field(ge=1)] = LEAST,
) -> Answer:
    """The main language of the answer is the one the prompt asks for, else the prompt's, or one of `languages`.

    Passes: a French answer to a French prompt, or to "answer in French", "translate this into French",
        "译成法语"; any language that the prompt makes possible ("if it is right, answer in French").
    Fails: an English one. The main language has the largest share of the sentences; quotations, code and addresses do
        not count.
    Missing: too little text on either side, too few words that show a language.
    Not covered: a language that the prompt asks for by hints ("for my Spanish grandmother"); give `languages` then.
    """
    shares = measure_languages(rollout.answer)
    if not shares or weigh(rollout.answer) < least_letters:
        return missing("the answer is too short to tell its language")
    main = max(shares, key=shares.__getitem__)
    if languages:
        codes = frozenset(find_language_code(name).split("-")[0] for name in languages)
        expected = Accepted(codes, whole=True, sure=True)
    else:
        expected = find_accepted(rollout)
    if not expected.languages:
        return missing("the prompt is too short to tell its language")
    reason = f"the answer is in {main}, {'/'.join(sorted(expected.languages))} expected"
    if main in expected.languages:
        return True, reason
    right_share = sum(shares.get(code, 0.0) for code in expected.languages)
    if fits(main, expected) or measure_others(rollout.answer, expected.languages) <= right_share:
        return missing(f"too few words that show a language; perhaps {reason}")
    quoted_share = measure_within(rollout.answer, expected.languages)
    if quoted_share >= _MOSTLY_QUOTED or quotes_language(rollout.answer, expected.languages):
        return missing(f"what is quoted is in another language; perhaps {reason}")
    return False, reason
