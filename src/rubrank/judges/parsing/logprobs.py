"""How likely each value of the scale is as a verdict, from the log-probabilities of its tokens.

    … "verdict": 1        at "1": 70 %, "0": 20 %, " maybe": 10 %        0: 2/9, 1: 7/9

The probabilities of the scale's values are summed and scaled to 1. A value of several tokens (0.5) is followed along
the tokens of the reply. The probability of an alternative token that could begin several values ("0" for 0 and 0.5) is
divided evenly among them, because the reply does not show more. If less than half of the probability is on values of
the scale, there is no distribution. For a range, the judge is asked for a whole number from 0 to 10; these are mapped
to the range.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rubrank.judges.prompting.reply_form import spell_number
from rubrank.rubrics.scale import Scale
from rubrank.verifiers.distribution import Distribution

MIN_PROBABILITY = 0.5
"""Probability that must be on values of the scale."""
# The place of a verdict: `"verdict": 1` in JSON, or `Verdict: 1` at the start of a line.
_VERDICT = re.compile(
    r"(?:(?<!\\)[\"'](?:verdict|结论|判定)[\"']|^[ \t*_#-]*(?:final )?(?:verdict|结论|判定|裁决)[ \t*_]*)"
    r"\s*[:：=][ \t*_`\"\n]*(?P<value>[-+]?[\d.]+|true|false)",
    re.IGNORECASE | re.MULTILINE,
)
# A number at the start of a token, behind spaces and marks, and what follows it: ` "0.5}` → "0.5", "}".
_LITERAL = re.compile(r"[\s\"'*_`:：]*([-+]?[\d.]*)(.*)", re.DOTALL)


def read_distribution(
    tokens: Sequence[Mapping[str, Any]], scale: Scale, verdict: float, key: str | None = None
) -> tuple[Distribution, str]:
    """Return the scores with their probabilities, and the likeliest in words; or () and why there are none.

    verdict: the score that was read from the reply. key: in a reply about several criteria, the field of this one.
    """
    span = _find_verdict(tokens, scale, verdict, key)
    if span is None:
        return (), "the log-probabilities do not show the verdict"
    probabilities: dict[float, float] = defaultdict(float)
    for value, probability in _follow_alternatives(tokens, *span, scale):
        probabilities[value] += probability
    total = math.fsum(probabilities.values())
    if not total >= MIN_PROBABILITY:
        return (), f"only {total:.0%} of the probability is on values of the scale"
    likeliest = sorted(probabilities.items(), key=lambda item: -item[1])[:5]
    listing = ", ".join(
        f"{spell_number(value)}: {probability / total:.2f}" for value, probability in likeliest
    )
    distribution = []
    for number, score in zip(scale.numbers, scale.scores, strict=True):
        distribution.append((score, probabilities.get(number, 0.0) / total))
    return tuple(distribution), listing


def _find_verdict(
    tokens: Sequence[Mapping[str, Any]], scale: Scale, verdict: float, key: str | None
) -> tuple[int, int] | None:
    """Start and end, in the joined text, of the place that states the verdict that was read.

    That is the last one of the reply, or the first one in the object of the key.
    """
    text = "".join(str(token.get("token", "")) for token in tokens)
    start = 0
    if key is not None:
        entries = list(re.finditer(rf'(?<!\\)"{re.escape(key)}"\s*:\s*\{{', text))
        if len(entries) != 1:
            return None
        start = entries[0].end()
    span = None
    for match in _VERDICT.finditer(text, start):
        number = _parse_number(match["value"], scale)
        if number is not None and scale.find_score(number) == verdict:
            span = match.span("value")
        if key is not None:
            break
    return span


def _parse_number(literal: str, scale: Scale) -> float | None:
    """Return the number of the scale that a literal means; None if there is none."""
    try:
        number = float(literal)
    except ValueError:
        if scale.numbers != (0.0, 1.0) or literal.lower() not in ("true", "false"):
            return None
        number = float(literal.lower() == "true")
    return scale.match_number(number)


def _follow_alternatives(
    tokens: Sequence[Mapping[str, Any]], start: int, end: int, scale: Scale
) -> Iterator[tuple[float, float]]:
    """Yield (value, probability) of every continuation of the verdict: at each token, all alternatives to it."""
    path_probability = 1.0
    literal_so_far = ""
    position = 0
    for token in tokens:
        text = str(token.get("token", ""))
        token_start = position
        position += len(text)
        if position <= start:
            continue
        offset = max(0, start - token_start)  # the first token may begin before the verdict
        for alternative, logprob in dict(token.get("top") or {}).items():
            if alternative != text:
                probability = path_probability * _to_probability(logprob)
                values = _list_possible_values(
                    literal_so_far + alternative.removeprefix(text[:offset]), scale
                )
                for value in values:
                    yield value, probability / len(values)
        path_probability *= _to_probability(token.get("logprob"))
        literal_so_far += text[offset:]
        if position > end:  # this token ends the verdict
            break
    match = _LITERAL.match(literal_so_far)
    last = _parse_number(match[1] if match else "", scale)
    if last is not None:
        yield last, path_probability


def _to_probability(logprob: Any) -> float:
    """Return the probability of a log-probability; 0 for anything but a number."""
    if isinstance(logprob, int | float) and not math.isnan(logprob):
        return math.exp(min(0.0, logprob))
    return 0.0


def _list_possible_values(text: str, scale: Scale) -> list[float]:
    """Return the values of the scale that a text with this beginning can become."""
    match = _LITERAL.match(text)
    literal = match[1] if match else ""
    is_complete = match is None or bool(match[2])
    if is_complete:
        value = _parse_number(literal, scale)
        return [] if value is None else [value]
    return [value for value in scale.numbers if literal and spell_number(value).startswith(literal)]
