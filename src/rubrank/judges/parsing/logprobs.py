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
# The place of a verdict: `"verdict": 1` in JSON, or `**Final verdict:** 1` at the start of a line.
_VERDICT = re.compile(
    r"""
    (?:
        (?<!\\) ["'] (?:verdict|结论|判定) ["']                       # a key, but not the \"verdict\" of a quoted JSON
        | ^ [ \t*_#-]* (?:final[ ])? (?:verdict|结论|判定|裁决) [ \t*_]*  # a line of text, perhaps in Markdown
    )
    \s* [:：=] [ \t*_`"\n]*
    (?P<value> [-+]?[\d.]+ | true | false )
    """,
    re.IGNORECASE | re.MULTILINE | re.VERBOSE,
)
# The value at the start of a token, behind spaces and marks, and what follows it: ` "0.5}` → "0.5", "}".
# The value is "" if the token is something else.
_LITERAL = re.compile(
    r"""[\s"'*_`:：]* (?P<value> true | false | [-+]?[\d.]* ) (?P<rest> .* )""",
    re.IGNORECASE | re.DOTALL | re.VERBOSE,
)


def read_distribution(
    tokens: Sequence[Mapping[str, Any]], scale: Scale, verdict: float, key: str | None = None
) -> tuple[Distribution, str]:
    """Return the scores with their probabilities, and the likeliest in words; or () and why there are none.

    tokens: of the reply, each {"token": text, "logprob": number, "top": {alternative: logprob}}.
    verdict: the score that was read from the reply. key: in a reply about several criteria, the field of this one.
    """
    span = _find_verdict(tokens, scale, verdict, key)
    if span is None:
        return (), "the log-probabilities do not show the verdict"
    probabilities: dict[float, float] = defaultdict(float)
    for value, probability in _follow_alternatives(tokens, *span, scale):
        probabilities[value] += probability
    total = math.fsum(probabilities.values())
    if total < MIN_PROBABILITY:
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
    """Return the start and end, in the text of all tokens, of the value that was read as the verdict; None without one.

    That is the last value of the reply that means this verdict, or the first value in the object of the key.
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
    """Return the number of the scale that a literal means; None if there is none.

    On the scale of 0 and 1, true and false are numbers too.
    """
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
    """Yield (value, probability) for the verdict and for all alternatives to it; a value may come several times.

    The tokens "0", ".", "5", "}" of 0.5 branch at each token: "1" instead of "0" gives 1, "}" instead of "." gives 0.
    start, end: of the verdict in the text of all tokens.
    """
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
        alternatives: Mapping[str, Any] = token.get("top") or {}
        for alternative, logprob in alternatives.items():
            if alternative != text:
                probability = path_probability * _to_probability(logprob)
                # The alternative may begin with the same space or quote as the token.
                literal = literal_so_far + alternative.removeprefix(text[:offset])
                values = _list_possible_values(literal, scale)
                for value in values:
                    yield value, probability / len(values)
        path_probability *= _to_probability(token.get("logprob"))
        literal_so_far += text[offset:]
        # The token after the verdict is needed too: only "}" behind "0" shows that the number is not 0.5.
        if position > end:
            break
    literal, _ = _split_literal(literal_so_far)
    stated = _parse_number(literal, scale)
    if stated is not None:
        yield stated, path_probability


def _to_probability(logprob: Any) -> float:
    """Return the probability of a log-probability; 0 for anything but a number."""
    if isinstance(logprob, int | float) and not math.isnan(logprob):
        return math.exp(min(0.0, logprob))
    return 0.0


def _list_possible_values(text: str, scale: Scale) -> list[float]:
    """Return the values of the scale that a text with this beginning can become."""
    literal, rest = _split_literal(text)
    is_complete = bool(rest) or literal.lower() in ("true", "false")
    if is_complete:
        value = _parse_number(literal, scale)
        return [] if value is None else [value]
    if not literal:
        return []
    return [value for value in scale.numbers if spell_number(value).startswith(literal)]


def _split_literal(text: str) -> tuple[str, str]:
    """Return the value at the start of a text ("" if there is none), and what follows it."""
    match = _LITERAL.match(text)
    assert match is not None  # the pattern also matches the empty text
    return match["value"], match["rest"]
