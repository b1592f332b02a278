"""GroundTruthMatch: is the answer the known one? Six ways to compare, from letter by letter to mathematics."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import bare, clean, list_items
from rubrank.verifiers.paper.language import converter
from rubrank.verifiers.shared.answers import boxed, chosen_letters, final_answer
from rubrank.verifiers.shared.numbers import UNITS, Number, read_numbers
from rubrank.verifiers.shared.worker import WorkerFailed, call
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier

Mode: TypeAlias = Literal["exact", "normalised", "numeric", "choice", "set", "math"]
Truth: TypeAlias = str | int | float | tuple[str | int | float, ...]

_KEYS = ("ground_truth", "truth", "answer", "reference_answer", "target", "solution")
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")


@verifier("GroundTruthMatch", family="presence", domain=BINARY, version=1, cost="process")
def ground_truth_match(
    rollout: Rollout,
    *,
    truth: Truth | None = None,
    mode: Mode = "normalised",
    whole: bool = False,
    tolerance: Annotated[float, Field(ge=0)] = 1e-6,
    options: str = "ABCDEFGHIJ",
    seconds: Annotated[float, Field(gt=0, le=60)] = 5.0,
) -> Answer:
    """The result that the answer gives is the true one (or one of several).

    The result is what stands in \\boxed{}, after "answer is" / "答案是", in the only line, or in the last one; with
    `whole` it is the entire answer. Modes:
    - exact: the same characters. normalised: case, width, punctuation, articles, Simplified/Traditional aside.
    - numeric: within `tolerance` (relative); 1,200 = 1.2e3 = 一千二百, 50% = 0.5 = 1/2, 5 km = 5000 m; another unit
      fails.
    - choice: the letter chosen among `options`; several letters, where one is true, fail.
    - set: the same entries, in any order.
    - math: equal as mathematics (math-verify, in a worker process of at most `seconds`).
    Fails: another result, or none. Missing: no truth known, a truth that does not suit the mode, a worker that died or
    was too slow. Not covered: a right result that is stated only in passing.
    """
    known = truth if truth is not None else next((v for k in _KEYS if (v := rollout.metadata.get(k)) is not None), None)
    if known is None or known == "" or known == ():
        return missing("no ground truth is known")
    truths = [str(t) for t in known] if isinstance(known, tuple | list) else [str(known)]
    given = rollout.answer.strip() if whole else final_answer(rollout.answer)
    if mode == "set":
        return _same_set(rollout.answer if not whole else given, truths)
    if mode == "choice":
        return _same_choice(rollout.answer, truths, options)
    if mode == "math":
        return _same_math(rollout.answer, truths, seconds)
    if mode == "numeric":
        return _same_number(given, rollout.answer, truths, tolerance)
    form: Callable[[str], str] = str.strip if mode == "exact" else normalised
    candidates = {form(given), form(rollout.answer)} if len(rollout.answer) < 10_000 else {form(given)}
    found = any(form(t) in candidates for t in truths)
    return found, f"{given[:80]!r} given, {truths[0][:80]!r} expected"


def normalised(text: str) -> str:
    """Without case, width, punctuation, articles, and in Simplified characters."""
    text = unicodedata.normalize("NFKC", clean(text)).casefold()
    if not text.isascii():
        text = converter("t2s").convert(text)
    kept = "".join(c if c.isalnum() or unicodedata.category(c)[0] in "SM" else " " for c in text.replace("'", ""))
    words = " ".join(_ARTICLES.sub(" ", kept).split())
    return words or " ".join(kept.split()) or text.strip()


def _same_number(given: str, answer: str, truths: list[str], tolerance: float) -> Answer:
    expected = [numbers[0] for t in truths if (numbers := read_numbers(t))]
    if not expected:
        return missing(f"the truth {truths[0][:80]!r} is no number")
    stated = boxed(answer[-20_000:]) is not None or given != bare(
        answer.strip().splitlines()[-1] if answer.strip() else ""
    ).rstrip(".。 ")
    found = read_numbers(given[:5000])
    number = (found[0] if stated else found[-1]) if found else next(iter(read_numbers(answer[-5000:])[-1:]), None)
    if number is None:
        return False, "no number found in the answer"
    same = any(_close(number, one, tolerance) for one in expected)
    return same, f"{number.written[:80]!r} given, {truths[0][:80]!r} expected"


def _close(given: Number, true: Number, tolerance: float) -> bool:
    if given.unit and true.unit and _dimension(given.unit) != _dimension(true.unit):
        return False
    if math.isnan(given.value) or math.isnan(true.value):
        return False
    readings = [given.value]
    if true.percent and not given.percent:
        readings.append(given.value / 100)
    if given.percent and not true.percent and abs(true.value) >= 1:  # "what percentage": 50 stands for 50%
        readings.append(100 * given.value)
    if bool(given.unit) != bool(true.unit):  # one of them leaves the unit unsaid: as written
        factor = UNITS.get(given.unit or true.unit, (1.0, ""))[0]
        readings.append(given.value / factor if given.unit else given.value * factor)
    return any(math.isclose(r, true.value, rel_tol=tolerance, abs_tol=1e-12) for r in readings)


def _dimension(unit: str) -> str:
    return UNITS[unit][1] if unit in UNITS else unit


def _same_choice(answer: str, truths: list[str], options: str) -> Answer:
    wanted = {"".join(sorted({c for c in t.upper() if c in options})) for t in truths}
    if "" in wanted:
        return missing(f"the truth {truths[0][:80]!r} names no option of {options}")
    found, where = chosen_letters(answer, options)
    if not found:
        return False, "no option is chosen"
    several = len(found) > 1 and all(len(one) == 1 for one in wanted)
    reason = f"ambiguous: {'/'.join(found)} named" if several else f"{found} chosen ({where})"
    return found in wanted, f"{reason}, {'/'.join(sorted(wanted))} expected"


_SEPARATOR = re.compile(r"[,，、;；|\n]|(?<=\s)(?:and|or)(?=\s)|和|与|以及")


def _same_set(answer: str, truths: list[str]) -> Answer:
    single = truths[0] if len(truths) == 1 else None
    wanted = {normalised(t) for t in (_SEPARATOR.split(single.strip(" {}[]()")) if single else truths)} - {""}
    items = [item.text for item in list_items(answer[-50_000:])]
    if not items or boxed(answer[-20_000:]) is not None:
        items = _SEPARATOR.split(final_answer(answer).strip(" {}[]()"))
    found = {normalised(bare(item)) for item in items} - {""}
    lacking, extra = sorted(wanted - found), sorted(found - wanted)
    return found == wanted, f"{len(wanted & found)} of {len(wanted)} entries; lacking {lacking[:3]}, extra {extra[:3]}"


def _same_math(answer: str, truths: list[str], seconds: float) -> Answer:
    inside = boxed(answer[-20_000:])
    given = f"$\\boxed{{{inside}}}$" if inside is not None else clean(answer[-2000:])
    reasons: list[Any] = []
    for truth in truths:
        try:
            same, reason = call("rubrank.verifiers.truth.mathematics:equal", [clean(truth), given], seconds=seconds)
        except WorkerFailed as error:
            return missing(f"mathematics not decided: {error}")
        if same:
            return True, reason
        reasons.append(reason)
    return False, reasons[0]
