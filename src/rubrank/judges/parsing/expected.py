"""The expected value of a verdict, from the log-probabilities of its tokens.

    … "verdict": 1        at "1": 70 %, "0": 20 %, " maybe": 10 %        7/9 on a scale of 0 and 1

The probabilities of the scale's values are summed and scaled to 1. A value that takes several tokens (0.5) is followed
along the tokens that were said. A token that could begin several values where another one was said ("0" for 0 and 0.5)
is divided evenly among them; nothing tells more. Where less than half of the probability is on values of the scale,
there is no expectation. A range is asked in whole numbers from 0 to 10, and the mean of those is mapped.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rubrank.judges.prompting.answer_form import spelled
from rubrank.rubrics.scale import Scale

LEAST = 0.5
_PLACE = re.compile(
    r"(?:(?<!\\)[\"'](?:verdict|结论|判定)[\"']|^[ \t*_#-]*(?:final )?(?:verdict|结论|判定|裁决)[ \t*_]*)"
    r"\s*[:：=][ \t*_`\"\n]*(?P<value>[-+]?[\d.]+|true|false)",
    re.IGNORECASE | re.MULTILINE,
)
_LITERAL = re.compile(r"[\s\"'*_`:：]*([-+]?[\d.]*)(.*)", re.DOTALL)


def expectation(tokens: Sequence[Mapping[str, Any]], scale: Scale, said: float) -> tuple[float | None, str]:
    """The mean, and the probabilities in words; None, and why not."""
    place = _place(tokens, scale, said)
    if place is None:
        return None, "the log-probabilities do not show the verdict"
    masses: dict[float, float] = defaultdict(float)
    for value, mass in _masses(tokens, *place, scale):
        masses[value] += mass
    total = math.fsum(masses.values())
    if not total >= LEAST:
        return None, f"only {total:.0%} of the probability is on values of the scale"
    mean = math.fsum(value * mass for value, mass in masses.items()) / total
    likely = sorted(masses.items(), key=lambda item: -item[1])[:5]
    return min(max(mean, scale.asked[0]), scale.asked[-1]), "expected from " + ", ".join(
        f"{spelled(value)}: {mass / total:.2f}" for value, mass in likely
    )


def _place(tokens: Sequence[Mapping[str, Any]], scale: Scale, said: float) -> tuple[int, int] | None:
    """Start and end of the verdict in the joined text; the last that says what was read."""
    text = "".join(str(token.get("token", "")) for token in tokens)
    fitting = [
        match
        for match in _PLACE.finditer(text)
        if (number := _number(match["value"], scale)) is not None and scale.score(number) == said
    ]
    return fitting[-1].span("value") if fitting else None


def _number(literal: str, scale: Scale) -> float | None:
    try:
        number = float(literal)
    except ValueError:
        number = {"true": 1.0, "false": 0.0}.get(literal.lower(), math.nan) if scale.asked == (0.0, 1.0) else math.nan
    return next((asked for asked in scale.asked if abs(asked - number) <= 5e-5), None)


def _masses(tokens: Sequence[Mapping[str, Any]], start: int, end: int, scale: Scale) -> Iterator[tuple[float, float]]:
    """(value, probability) of every way the verdict could have gone on, leaving what was said token by token."""
    path, so_far, at = 1.0, "", 0
    for token in tokens:
        text = str(token.get("token", ""))
        begins, at = at, at + len(text)
        if at <= start:
            continue
        before, own = text[: max(0, start - begins)], text[max(0, start - begins) :]
        for other, logprob in dict(token.get("top") or {}).items():
            if other != text:
                yield from _readings(so_far, other.removeprefix(before), path * _probability(logprob), scale)
        path *= _probability(token.get("logprob"))
        so_far += own
        if at > end:  # this token ends it
            break
    literal = _LITERAL.match(so_far)
    value = _number(literal[1] if literal else "", scale)
    if value is not None:
        yield value, path


def _probability(logprob: Any) -> float:
    return math.exp(min(0.0, logprob)) if isinstance(logprob, int | float) and logprob == logprob else 0.0


def _readings(so_far: str, token: str, mass: float, scale: Scale) -> Iterator[tuple[float, float]]:
    """The values that a text beginning so could be; several share the mass."""
    match = _LITERAL.match(so_far + token)
    literal, ended = (match[1], bool(match[2])) if match else ("", True)
    if ended:
        value = _number(literal, scale)
        values = [] if value is None else [value]
    else:
        values = [value for value in scale.asked if literal and spelled(value).startswith(literal)]
    for value in values:
        yield value, mass / len(values)
