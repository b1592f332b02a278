"""`Reply` → verdict: tolerant in form, strict in content.

    {"reasoning": "…", "finding": "meets", "verdict": 1}       1.0
    ```json {"reasoning": "…", "verdict": 0.5,} ```            0.5
    The tone is right.\n**Verdict:** 1                         1.0
    {"reasoning": "…", "finding": "fails", "verdict": 1}       missing: the verdict contradicts its reasoning
    {"reasoning": "…", "verdict": 7}                           missing: 7 is not one of 0, 1
    1                                                          missing: perhaps the answer to the query, not a verdict

A failed call, a refusal, no verdict, two different ones, or one that the judge merely quotes: missing, with a reason
that carries the judge's own words. What counts as a quotation is told in `extracting.py`; give the `call` that was
answered, and a verdict copied from the text under judgment is known for what it is even without quotation marks.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rubrank.judges.judge import Call, Reply
from rubrank.judges.parsing.expected import expectation
from rubrank.judges.parsing.extracting import Found, find
from rubrank.judges.prompting.answer_form import (
    Level,
    agrees,
    bare,
    batch_keys,
    finding_levels,
    nearest,
    pairwise_levels,
    spelled,
)
from rubrank.judges.prompting.fencing import encodable
from rubrank.rubrics.rubric import Criterion, shortened
from rubrank.verifiers.verifier import Domain, Verdict, missing

_LONGEST_REASON = 400
_NUMBER = re.compile(r"[-+]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})")
_AFTER = re.compile(r"[\s*_`.。!！)）]*(?:[(（,，;；:：—–-][^\d]*)?")
_CHOICE = re.compile(r"(?:response|answer|回复|回答)?[ \t]*(a|b|tie|equal|平局|平手)(?![a-z])", re.IGNORECASE)
_CHOICES = {"a": 1.0, "b": 0.0, "tie": 0.5, "equal": 0.5, "平局": 0.5, "平手": 0.5}
_FIELDS = {"verdict": "verdict", "结论": "verdict", "判定": "verdict", "ranks": "verdict", "ranking": "verdict",
           "reasoning": "reasoning", "reason": "reasoning", "推理": "reasoning", "理由": "reasoning",
           "finding": "finding", "判断": "finding"}  # fmt: skip
_CANNOT = "the judge cannot tell"


@dataclass(frozen=True)
class _Said:
    """One statement, not yet checked."""

    verdict: Any
    finding: Any = None
    reasoning: str = ""


def read_absolute(reply: Reply, criterion: Criterion, *, call: Call | None = None) -> Verdict:
    """A value of the criterion's domain, or missing."""
    found = find(reply, _has_verdict, call)
    if found.problem:
        return _missing(found.problem)
    said = [_entry(each) for each in found.objects] or _from_lines(found, _number_of)
    return _agreed([_checked(each, criterion) for each in said], found)


def read_expected(reply: Reply, criterion: Criterion, *, call: Call | None = None) -> Verdict:
    """The mean of the domain's values by their probabilities at the place of the verdict, or missing."""
    verdict = read_absolute(reply, criterion, call=call)
    if verdict.value is None:
        return verdict
    if not reply.logprobs:
        return missing("there are no log-probabilities")
    mean, why = expectation(reply.logprobs, criterion.value_domain, verdict.value)
    return _missing(why) if mean is None else Verdict(mean, _short(f"{why}: {verdict.reason}"))


def read_batched(reply: Reply, criteria: Sequence[Criterion], *, call: Call | None = None) -> dict[str, Verdict]:
    """A verdict, or missing, for every criterion by its name."""
    keys = batch_keys(criteria)
    accepted = {bare(key) for key in keys} | {bare(criterion.name) for criterion in criteria}

    def accept(said: Mapping[str, Any]) -> bool:
        return bool({bare(key) for key in _unwrapped(said)} & accepted) or (len(criteria) == 1 and _has_verdict(said))

    found = find(reply, accept, call)
    if found.problem or not found.objects:
        return {c.name: _missing(found.problem or f"no JSON in the reply: {found.text}") for c in criteria}
    objects = [_unwrapped(said) for said in found.objects]
    return {c.name: _of_batch(c, key, objects, found, len(criteria)) for c, key in zip(criteria, keys, strict=True)}


def read_pairwise(reply: Reply, *, call: Call | None = None) -> Verdict:
    """1 = A is better, 0.5 = neither, 0 = B is better, or missing."""
    found = find(reply, _has_verdict, call)
    if found.problem:
        return _missing(found.problem)
    said = [_entry(each) for each in found.objects] or _from_lines(found, _choice_of)
    return _agreed([_compared(each) for each in said], found)


def read_listwise(reply: Reply, n: int, *, call: Call | None = None) -> tuple[tuple[int, ...] | None, str]:
    """Dense ranks of the n responses in the order shown (1 = best), and the reason; None: missing."""
    found = find(reply, _has_verdict, call)
    if found.problem or not found.objects:
        return None, _short(found.problem or f"no JSON in the reply: {found.text}")
    ranked = [_ranked(_entry(each), n) for each in found.objects]
    if len({ranks for ranks, _ in ranked}) > 1:
        return None, _short(f"two different verdicts: {found.text}")
    return ranked[-1]


# ------------------------------------------------------------------------------------------------------- one statement


def _checked(said: _Said, criterion: Criterion) -> Verdict:
    level = finding_levels(criterion).get(bare(said.finding)) if said.finding else None
    if said.verdict is None:
        return _missing(f"{_CANNOT}: {said.reasoning}")
    domain, number = criterion.value_domain, _number(said.verdict, criterion.value_domain)
    value = None if number is None else nearest(domain, number)
    if value is None:
        allowed = ", ".join(map(spelled, domain.values)) or f"{spelled(domain.low)} to {spelled(domain.high)}"
        return _missing(f"verdict {shortened(str(said.verdict), 60)} is not one of {allowed}: {said.reasoning}")
    return _contradiction(said, level, agrees(level, value, domain) if level else True) or Verdict(value, _why(said))


def _compared(said: _Said) -> Verdict:
    level = pairwise_levels().get(bare(said.finding)) if said.finding else None
    if said.verdict is None:
        return _missing(f"{_CANNOT}: {said.reasoning}")
    match = _CHOICE.fullmatch(said.verdict.strip()) if isinstance(said.verdict, str) else None
    if match is None:
        return _missing(f"verdict {shortened(str(said.verdict), 60)} is not one of A, B, tie: {said.reasoning}")
    value = _CHOICES[match[1].lower()]
    expected = {"high": 1.0, "between": 0.5, "low": 0.0}.get(level or "")
    return _contradiction(said, level, level is None or expected == value) or Verdict(value, _why(said))


def _ranked(said: _Said, n: int) -> tuple[tuple[int, ...] | None, str]:
    if said.verdict is None:
        return None, _short(f"{_CANNOT}: {said.reasoning}")
    given = said.verdict
    if isinstance(given, list):
        given = {str(i): rank for i, rank in enumerate(given, 1)}
    ranks = [given.get(str(i)) for i in range(1, n + 1)] if isinstance(given, Mapping) and len(given) == n else []
    whole = [int(r) for r in ranks if isinstance(r, int | float) and not isinstance(r, bool) and r in range(1, n + 1)]
    if len(whole) != n or n == 0:
        return None, _short(
            f"not a rank from 1 to {n} for each response: {shortened(str(given), 120)}: {said.reasoning}"
        )
    order = sorted(set(whole))
    dense = tuple(order.index(rank) + 1 for rank in whole)
    best = said.finding if isinstance(said.finding, list) else []
    if any(number not in range(1, n + 1) or dense[int(number) - 1] != 1 for number in best):
        return None, _short(f"verdict contradicts its reasoning: best are {best}, ranks {whole}: {said.reasoning}")
    return dense, _why(said)


def _contradiction(said: _Said, level: Level | None, fits: bool) -> Verdict | None:
    if level != "cannot" and fits:
        return None
    found = f"found “{shortened(str(said.finding), 40)}”, said {said.verdict}"
    return _missing(f"verdict contradicts its reasoning: {found}: {said.reasoning}")


def _agreed(verdicts: Sequence[Verdict], found: Found) -> Verdict:
    """The verdict, where it is said once, or always the same."""
    if not verdicts:
        return _missing(f"no verdict in the reply: {found.text}")
    if len({verdict.value for verdict in verdicts}) > 1:
        return _missing(f"two different verdicts: {found.text}")
    return verdicts[-1]


# -------------------------------------------------------------------------------------------------- from JSON and lines


def _has_verdict(said: Mapping[str, Any]) -> bool:
    return any(_FIELDS.get(_key(key)) == "verdict" for key in said)


def _key(key: str) -> str:
    return key.strip().casefold()


def _entry(said: Mapping[str, Any]) -> _Said:
    fields: dict[str, Any] = {}
    for key, value in said.items():
        fields.setdefault(_FIELDS.get(_key(key), key), value)
    return _Said(fields.get("verdict"), fields.get("finding"), str(fields.get("reasoning") or ""))


def _unwrapped(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entries of a batch, also from inside one outer field or a list of entries that name their criterion."""
    inner = next(iter(said.values())) if len(said) == 1 else said
    if isinstance(inner, list):
        named = [item for item in inner if isinstance(item, Mapping) and isinstance(item.get("criterion"), str)]
        return {item["criterion"]: item for item in named}
    return inner if isinstance(inner, Mapping) and not _has_verdict(inner) else said


def _of_batch(
    criterion: Criterion, key: str, objects: Sequence[Mapping[str, Any]], found: Found, count: int
) -> Verdict:
    entries = _fields_named(key, objects) or _fields_named(criterion.name, objects)
    if not entries and count == 1:
        entries = [said for said in objects if _has_verdict(said)]
    if not entries:
        return _missing(f"no verdict about it in the reply: {found.text}")
    said = [_entry(entry) if isinstance(entry, Mapping) else _Said(entry) for entry in entries]
    return _agreed([_checked(each, criterion) for each in said], found)


def _fields_named(name: str, objects: Sequence[Mapping[str, Any]]) -> list[Any]:
    return [value for said in objects for field, value in said.items() if bare(field) == bare(name)]


def _from_lines(found: Found, value_of: Any) -> list[_Said]:
    values = [value_of(line) for line in found.lines]
    return [_Said(value, found.finding, found.text.strip()) for value in values if value is not None]


def _number_of(line: str) -> str | None:
    match = _NUMBER.match(line.strip())
    return match[0] if match and _AFTER.fullmatch(line.strip()[match.end() :]) else None


def _choice_of(line: str) -> str | None:
    match = _CHOICE.match(line.strip())
    rest = line.strip()[match.end() :] if match else ""
    return match[1] if match and _AFTER.fullmatch(rest) and not re.search(r"\b[ABab]\b", rest) else None


def _number(verdict: Any, domain: Domain) -> float | None:
    if isinstance(verdict, bool):
        return float(verdict) if domain.kind == "binary" else None
    if isinstance(verdict, str):
        match = _NUMBER.fullmatch(verdict.strip())
        return float(match[0]) if match else None
    if not isinstance(verdict, int | float) or abs(verdict) > 1e300 or not math.isfinite(verdict):
        return None
    return float(verdict)


# ------------------------------------------------------------------------------------------------------------- reasons


def _why(said: _Said) -> str:
    return _short(said.reasoning) or "the judge gave no reason"


def _missing(reason: str) -> Verdict:
    return missing(_short(reason))


def _short(text: str) -> str:
    return shortened(" ".join(encodable(text[: 4 * _LONGEST_REASON]).split()), _LONGEST_REASON)
