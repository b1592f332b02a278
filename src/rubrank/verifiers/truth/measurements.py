"""Quantities: numbers with units, significant digits, intervals."""

from __future__ import annotations

import re
from functools import cache
from typing import Annotated, Any, Literal

from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.shared.answers import read_answer
from rubrank.verifiers.truth.truths import find_truths
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier

_NUMBER = r"[-+−]?\d+(?:,\d{3})*(?:\.\d+)?(?:\s*(?:[eE]|[x×·]\s*10\s*\^?)\s*\{?[-+−]?\d{1,3}\}?)?"
_QUANTITY = re.compile(rf"({_NUMBER})\s*([A-Za-zµμΩ°%][A-Za-zµμΩ°²³⁻¹0-9^*/·.\-\s]{{0,30}})?")
_INTERVAL = re.compile(
    rf"[\[(]\s*({_NUMBER})\s*[,;]\s*({_NUMBER})\s*[\])]|({_NUMBER})\s*(?:to|–|—|至|到)\s*({_NUMBER})"
)
_LATEX = re.compile(r"\\(?:text|mathrm|rm|,|;|!|quad|left|right)\b|[\\{}$]")


@cache
def _units() -> Any:
    import pint

    return pint.UnitRegistry(cache_folder=None)


def _number(text: str) -> float:
    text = re.sub(r"\s+", "", text.replace(",", "").replace("−", "-"))
    text = re.sub(r"[x×·]10\^?\{?([-+]?\d+)\}?", r"e\1", text).replace("{", "").replace("}", "")
    return float(text)


def count_digits(text: str) -> int:
    """Significant digits as written: 0.0420 has three, 1200 four, 1.2e3 two."""
    head = re.split(r"[eE]|[x×·]", text.replace(",", ""))[0].strip().lstrip("-+−")
    return len(head.replace(".", "").lstrip("0")) or 1


def read_quantity(text: str) -> tuple[float, str, str] | None:
    """(number, unit, as written) of the last quantity of a text; the unit may be empty."""
    plain = re.sub(r"\s+", " ", _LATEX.sub(" ", text))
    found = list(_QUANTITY.finditer(plain))
    if not found:
        return None
    last = found[-1]
    unit = re.split(r"\s(?:and|or|is|are|of|in|at|for|per cent)\b|[,;]", (last[2] or "").strip())[0].rstrip(". ")
    return _number(last[1]), unit, last[1]


@verifier("QuantityMatch", family="truth", domain=BINARY, version=1)
def quantity_match(
    rollout: Rollout,
    *,
    truth: str | None = None,
    tolerance: Annotated[float, Field(ge=0, le=1)] = 0.01,
    digits: Annotated[int, Field(ge=1, le=20)] | None = None,
    unit: Literal["convert", "same", "ignore"] = "convert",
) -> Answer:
    """The answer's quantity is the true one: 5 km for "5000 m", 9.81 m/s² for "9.8 m/s^2" within `tolerance`.

    The truth is `truth` or in the data; an interval ("[2, 3] m", "2 to 3") accepts what lies in it. `digits` asks for
    that many significant digits as written. Units are converted (pint), must be the same, or are ignored.
    Passes: "about 5.0 km". Fails: another number; a number without its unit; kg for m; other digits than asked.
    Missing: no truth; pint not installed where units differ; a unit of the truth that is not known. Not covered: sums
    such as "5 km 200 m".
    """
    known = [truth] if truth is not None else list(find_truths(None, rollout.metadata).values)
    if not known:
        return missing("no ground truth is known")
    given = read_quantity(read_answer(rollout.answer).text or rollout.answer) or read_quantity(rollout.answer)
    if given is None:
        return False, "no number in the answer"
    if digits is not None and count_digits(given[2]) != digits:
        return False, f"{count_digits(given[2])} significant digits, {digits} asked"
    verdicts = [_compare(given, one, tolerance, unit) for one in known]
    return next((v for v in verdicts if isinstance(v, tuple) and v[0]), verdicts[0])


def _compare(given: tuple[float, str, str], truth: str, tolerance: float, how: str) -> Answer:
    interval = _INTERVAL.search(_LATEX.sub(" ", truth))
    if interval:
        ends = [_number(end) for end in interval.groups() if end]
        unit = truth[interval.end() :].strip()
    else:
        wanted = read_quantity(truth)
        if wanted is None:
            return missing(f"the truth {truth[:60]!r} has no number")
        ends, unit = [wanted[0]], wanted[1]
    number, own, _ = given
    if how != "ignore" and (unit or own) and unit != own:
        if how == "same" or not own or not unit:
            return False, f"the unit is {own or 'none'!r}, {unit or 'none'!r} asked"
        converted = _converted(number, own, unit)
        if isinstance(converted, str):
            return missing(converted) if converted.startswith(("pint", "the truth")) else (False, converted)
        number = converted
    low, high = min(ends), max(ends)
    room = tolerance * max(abs(low), abs(high)) if len(ends) == 1 else 0.0
    right = low - room <= number <= high + room
    return right, f"{number:g} {unit}".strip() + f", {truth[:60]} expected"


def _converted(number: float, own: str, unit: str) -> float | str:
    try:
        registry = _units()
    except ImportError:
        return "pint is not installed: pip install 'rubrank[units]'"
    try:
        wanted = registry.parse_units(_spelled(unit))
    except Exception:  # pint raises many kinds for what is no unit
        return f"the truth's unit {unit[:30]!r} is not known"
    try:
        return float(registry.Quantity(number, registry.parse_units(_spelled(own))).to(wanted).magnitude)
    except Exception:
        return f"{own[:30]!r} cannot be turned into {unit[:30]!r}"


def _spelled(unit: str) -> str:
    text = unit.replace("²", "^2").replace("³", "^3").replace("⁻¹", "^-1").replace("·", "*").replace("μ", "µ")
    return {"°C": "degC", "°F": "degF", "%": "percent", "°": "degree"}.get(text.strip(), text.strip()).replace(
        "^", "**"
    )
