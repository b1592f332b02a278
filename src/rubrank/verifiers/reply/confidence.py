"""Stated confidence: is it calibrated, and does the answer abstain exactly where it should?"""

from __future__ import annotations

import re
from typing import Literal

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.words import count_words
from rubrank.verifiers.truth.ground_truth import Mode as TruthMode
from rubrank.verifiers.truth.ground_truth import ground_truth_match
from rubrank.verifiers.truth.truths import Truth
from rubrank.verifiers.verifier import BINARY, UNIT, Answer, Verdict, missing, verifier

_CONFIDENCE = re.compile(
    r"(?:<confidence>\s*|[\"']?(?:confidence|probability|certainty|置信度|信心|把握)[\"']?"
    r"(?:\s(?:level|score|of|in this answer|is))*\s*[:=：为是]?\s*[*_~]{0,3}\s*(?:about|around|roughly)?\s*[*_~]*)"
    r"(\d{1,3}(?:[.,]\d+)?)\s*(%|percent|/\s?100?\b)?"
    r"|(\d{1,3}(?:[.,]\d+)?)\s?(%|percent)\s(?:confident|sure|certain)",
    re.IGNORECASE,
)
_UNKNOWN = re.compile(
    r"\b(?:I (?:do not|don['’]?t|really don['’]?t|honestly don['’]?t) "
    r"(?:know(?! why)|have (?:enough|any|that) \w+)|I have no idea"
    r"|I(?:['’]m| am) (?:not (?:sure|certain)|(?:not able|unable) to (?:say|answer|determine|verify))"
    r"|I (?:cannot|can['’]?t) (?:say|answer|determine|verify|be (?:sure|certain)|tell|find)"
    r"|(?:it|this|that|the answer) (?:is|cannot be|can['’]t be) (?:unknown|unclear|impossible to (?:say|know|determine)"
    r"|determined|known|answered)|(?:there is|there['’]s) (?:no|not enough|insufficient) (?:information|evidence|data)"
    r"|(?:insufficient|not enough) (?:information|evidence|data)|no (?:answer|information) (?:is|can be) found)"
    r"|(?:我)?(?:不知道|不清楚|无法(?:确定|回答|得知|判断)|没有足够的信息)|不得而知"
    r"|わかりません|分かりません|存じません|모르겠|알 수 없"
    r"|\b(?:no (?:lo )?sé|no tengo (?:ni )?idea|lo desconozco|je (?:ne|n['’]en) sais (?:pas|rien)|je l['’]ignore"
    r"|ich weiß (?:es |das )?(?:leider )?nicht|weiß ich (?:leider )?nicht|keine ahnung|não (?:o )?sei|não faço ideia"
    r"|non (?:lo )?so|non ne ho idea|ik weet het (?:helaas )?niet|geen idee|nie wiem|nevím|не знаю)\b",
    re.IGNORECASE,
)
_LONG = 80  # words after which an answer has said something all the same


def read_confidence(answer: str) -> float | None:
    """The last confidence that the answer states, from 0 to 1: "Confidence: 80%", <confidence>0.8</confidence>."""
    last = None
    for match in _CONFIDENCE.finditer(answer[-20_000:]):
        last = match
    if last is None:
        return None
    value = float((last[1] or last[3]).replace(",", "."))
    sign = (last[2] or last[4] or "").replace(" ", "")
    if sign == "/10":
        value /= 10
    elif sign or value > 1:
        value /= 100
    return value if 0 <= value <= 1 else None


@verifier("Calibration", family="truth", domain=UNIT, version=2, cost="process")
def calibration(
    rollout: Rollout, *, truth: Truth | None = None, mode: TruthMode = "normalised"
) -> Answer:
    """1 − Brier score of the stated confidence: 1 − (confidence − right)², right by GroundTruthMatch.

    Confidence is the last "Confidence: 80%", <confidence>0.8</confidence>, "confidence": 0.8, "90% sure".
    Passes (1): sure and right; at 0% and wrong.
    Part: 80% and right is 0.96.
    Fails (0): sure and wrong; no confidence stated.
    Missing: no truth.
    Not covered: confidence in words ("fairly sure").
    """
    confidence = read_confidence(rollout.answer)
    answer = _CONFIDENCE.sub(" ", rollout.answer)
    verdict = ground_truth_match(rollout.with_answer(answer), truth=truth, mode=mode)
    value, reason = (verdict.value, verdict.reason) if isinstance(verdict, Verdict) else verdict
    if value is None:
        return missing(reason)
    if confidence is None:
        return 0.0, "no confidence is stated"
    score = 1.0 - (confidence - float(value)) ** 2
    return score, f"confidence {confidence:.0%}, {'right' if value else 'wrong'}: {reason}"


@verifier("Abstention", family="truth", domain=BINARY, version=2)
def abstention(rollout: Rollout, *, wanted: Literal["abstain", "answer"] | None = None) -> Answer:
    """The answer says that it does not know where it should (`wanted="abstain"`), and only there ("answer").

    `wanted` may come from metadata["answerable"] (true or false).
    Passes: "I don't know." for "abstain"; "Paris." for "answer".
    Fails: the other way round; an empty answer.
    Missing: it is not stated what is wanted, or the answer says that it does not know and goes on at length.
    Not covered: refusals (see Refusal); hedges that still answer.
    """
    expected = wanted
    answerable = rollout.metadata.get("answerable")
    if expected is None and isinstance(answerable, bool):
        expected = "answer" if answerable else "abstain"
    if expected is None:
        return missing(
            "it is not stated whether there is an answer (`wanted`, metadata['answerable'])"
        )
    answer = rollout.answer.strip()
    if not answer:
        return False, "an empty answer"
    unknown = _UNKNOWN.search(answer[:2_000])
    if unknown and count_words(answer) > _LONG:
        return missing("says that it does not know, and goes on")
    if unknown:
        return expected == "abstain", f"abstains: {unknown[0][:60]!r}"
    return expected == "answer", "answers"
