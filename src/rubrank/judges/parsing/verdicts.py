"""`Reply` → verdict: it is one object of the schema, or ends in a verdict that nothing contradicts; else missing.

    {"reasoning": "…", "finding": "meets", "verdict": 1}       1.0
    ```json {"reasoning": "…", "verdict": 0.5,} ```            0.5
    The tone is right.\n**Verdict:** 1                         1.0
    The tone is right: {"verdict": 1}, I think.                missing: no verdict at the end of the reply
    Verdict: 1 — no, wait, zero                                missing: no number
    {"verdict": 1, "Verdict": 0}                               missing: two different verdicts
    {"reasoning": "…", "finding": "fails", "verdict": 1}       missing: the verdict contradicts its reasoning
    {"reasoning": "…", "verdict": 7}                           missing: 7 is not one of 0, 1 (0.7 for a range)
    {"reasoning": "…", "items": [{"item": …, "verdict": …}]}   computed from the items
    1                                                          missing: perhaps the answer to the query, not a verdict

A failed call, a refusal, no verdict, two different ones, or one that the judge merely quotes: missing, with a reason
that carries the judge's own words. What counts as a quotation is told in `extracting.py`; give the `call` that was
answered, and a verdict copied from the text under judgment is known for what it is even without quotation marks.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rubrank._plain import encodable
from rubrank.errors import only_our_errors
from rubrank.judges.judge import Call, Reply
from rubrank.judges.parsing.expected import expectation
from rubrank.judges.parsing.extracting import Stated, declined, find
from rubrank.judges.parsing.items import items_form, value_of_items
from rubrank.judges.prompting.answer_form import bare, batch_keys, finding_numbers, pairwise_numbers, spelled
from rubrank.rubrics.rubric import Criterion, shortened
from rubrank.verifiers.verifier import Domain, Verdict, missing

_LONGEST_REASON = 400
_EACH = 250  # characters for every response of a list that is spoken about at once
_NUMBER = re.compile(r"[-+]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})")
_AFTER = re.compile(r"[\s*_`.。!！]*(?:[(（](?P<finding>[^()（）\n]{1,80})[)）])?[\s*_`.。!！]*")
_CHOICE = re.compile(r"(?:response|answer|回复|回答)?[ \t]*(a|b|tie|equal|平局|平手)(?![a-z])", re.IGNORECASE)
_CHOICES = {"a": 1.0, "b": 0.0, "tie": 0.5, "equal": 0.5, "平局": 0.5, "平手": 0.5}
_FIELDS = {
    **dict.fromkeys(("verdict", "结论", "判定", "ranks", "ranking"), "verdict"),
    **dict.fromkeys(("reasoning", "reason", "explanation", "rationale", "justification", "analysis"), "reasoning"),
    **dict.fromkeys(("推理", "理由", "分析", "解释"), "reasoning"),
    **dict.fromkeys(("finding", "判断"), "finding"),
    "items": "items",
    "criterion": "criterion",
}
_CANNOT = "the judge cannot tell"


@dataclass(frozen=True)
class _SaidVerdict:
    """One statement, not yet checked."""

    verdict: Any
    finding: Any = None
    reasoning: str = ""
    problem: str = ""
    items: Any = ...
    """A list, null for "cannot tell"; ... where none is given."""


@only_our_errors
def read_absolute(reply: Reply, criterion: Criterion, *, call: Call | None = None) -> Verdict:
    """A value of the criterion's domain, or missing."""
    asked = _items_asked(call)
    found = find(reply, _has_items if asked else _has_verdict, call)
    if found.problem:
        return _missing(found.problem)
    levels = finding_numbers(criterion)
    said = [_statement(each, found, _number_of, levels) for each in found.stated]
    return _agreed([_checked(one, criterion, asked) for one in said], found)


def read_expected(reply: Reply, criterion: Criterion, *, call: Call | None = None) -> Verdict:
    """The mean of the domain's values by their probabilities at the place of the verdict, or missing."""
    verdict = read_absolute(reply, criterion, call=call)
    if verdict.value is None:
        return verdict
    if not reply.logprobs:
        return missing("there are no log-probabilities")
    scale = criterion.scale
    mean, why = expectation(reply.logprobs, scale, verdict.value)
    return _missing(why) if mean is None else Verdict(scale.between(mean), _short(f"{why}: {verdict.reason}"))


def read_batched(reply: Reply, criteria: Sequence[Criterion], *, call: Call | None = None) -> dict[str, Verdict]:
    """A verdict, or missing, for every criterion by its name."""
    fields = _Fields.of(criteria)

    def accept(said: Mapping[str, Any]) -> bool:
        return fields.knows(_unwrapped(said)) or (len(criteria) == 1 and (_has_verdict(said) or _has_items(said)))

    found = find(reply, accept, call)
    if not found.problem and not all(isinstance(said, dict) for said in found.stated):
        found = Stated(found.text, problem=f"no JSON in the reply: {found.text}")
    if found.problem:
        return {c.name: _missing(found.problem) for c in criteria}
    objects = [_unwrapped(said) for said in found.stated if isinstance(said, dict)]
    asked = [_items_asked(call, key) for key in batch_keys(criteria)]
    return {c.name: _of_batch(c, i, fields, objects, found, asked[i]) for i, c in enumerate(criteria)}


def read_pairwise(reply: Reply, *, call: Call | None = None) -> Verdict:
    """1 = A is better, 0.5 = neither, 0 = B is better, or missing."""
    found = find(reply, _has_verdict, call)
    if found.problem:
        return _missing(found.problem)
    levels = pairwise_numbers()
    return _agreed([_compared(_statement(each, found, _choice_of, levels)) for each in found.stated], found)


def read_listwise(reply: Reply, n: int, *, call: Call | None = None) -> tuple[tuple[int, ...] | None, str]:
    """Dense ranks of the n responses in the order shown (1 = best), and the reason; None: missing."""
    found = find(reply, _has_verdict, call)
    if found.problem:
        return None, _short(found.problem)
    ranked = [_ranked(_entry(said), n) for said in found.stated if isinstance(said, dict)]
    if len(ranked) < len(found.stated):
        return None, _short(f"no JSON in the reply: {found.text}")
    if len({ranks for ranks, _ in ranked}) > 1:
        return None, _short(f"two different verdicts: {found.text}")
    return ranked[-1]


def missing_reasons(verdict: Verdict) -> list[str]:
    """Why it is missing, if it is."""
    return [verdict.reason] if verdict.value is None else []


# ------------------------------------------------------------------------------------------------------- one statement


def _checked(said: _SaidVerdict, criterion: Criterion, asked: _Listed | None = None) -> Verdict:
    if said.problem:
        return _missing(said.problem)
    if asked is not None or said.items is not ...:
        return _listed(said, criterion, asked)
    if said.verdict is None:
        return _missing(f"{_CANNOT}: {said.reasoning}")
    scale, number = criterion.scale, _number(said.verdict, criterion.value_domain)
    value = None if number is None else scale.score(number)
    if number is None or value is None:
        allowed = "0 to 10 in whole numbers" if scale.steps else ", ".join(map(spelled, scale.asked))
        return _missing(f"verdict {shortened(str(said.verdict), 60)} is not one of {allowed}: {said.reasoning}")
    return _contradiction(said, number, finding_numbers(criterion)) or Verdict(value, _why(said))


@dataclass(frozen=True)
class _Listed:
    """That items were asked for, and how many if that is known."""

    count: int | None


def _items_asked(call: Call | None, key: str | None = None) -> _Listed | None:
    """Were items asked for (in a batch: under this key)? The schema of the call says so."""
    schema: Any = call.schema if call is not None else None
    for name in filter(None, (key, "items")):
        schema = (schema or {}).get("properties", {}).get(name)
    if schema is None:
        return None
    array: dict[str, Any] = next((one for one in schema.get("anyOf", [schema]) if one.get("type") == "array"), {})
    return _Listed(array.get("minItems"))


def _listed(said: _SaidVerdict, criterion: Criterion, asked: _Listed | None) -> Verdict:
    """The value of a list of items."""
    if said.items is ... or said.verdict is not None or items_form(criterion) is None:
        return _missing(f"not the form that was asked for: {'no list of items' if said.items is ... else 'items'}")
    if said.items is None:
        return _missing(f"{_CANNOT}: {said.reasoning}")
    value, how = value_of_items(said.items, criterion, None if asked is None else asked.count)
    if value is None:
        return _missing(f"{how}: {said.reasoning}")
    return Verdict(value, _short(f"{how}: {said.reasoning}".rstrip(": ")))


def _compared(said: _SaidVerdict) -> Verdict:
    if said.problem:
        return _missing(said.problem)
    if said.verdict is None:
        return _missing(f"{_CANNOT}: {said.reasoning}")
    match = _CHOICE.fullmatch(said.verdict.strip()) if isinstance(said.verdict, str) else None
    if match is None:
        return _missing(f"verdict {shortened(str(said.verdict), 60)} is not one of A, B, tie: {said.reasoning}")
    value = _CHOICES[match[1].lower()]
    return _contradiction(said, value, pairwise_numbers()) or Verdict(value, _why(said))


def _ranked(said: _SaidVerdict, n: int) -> tuple[tuple[int, ...] | None, str]:
    if said.problem:
        return None, _short(said.problem)
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
    return dense, _short(said.reasoning, max(_LONGEST_REASON, n * _EACH)) or "the judge gave no reason"


def _contradiction(said: _SaidVerdict, number: float, words: Mapping[str, tuple[float, ...]]) -> Verdict | None:
    """Missing, where the finding is one that goes with other numbers; one in the judge's own words is no matter."""
    fitting = words.get(bare(said.finding)) if said.finding else None
    if fitting is None or number in fitting or any(abs(number - one) <= 5e-5 for one in fitting):
        return None
    found = f"found “{shortened(str(said.finding), 40)}”, said {said.verdict}"
    return _missing(f"verdict contradicts its reasoning: {found}: {said.reasoning}")


def _agreed(verdicts: Sequence[Verdict], found: Stated) -> Verdict:
    """The verdict, where it is said once, or always the same."""
    if not verdicts:
        return _missing(f"no verdict in the reply: {found.text}")
    if len({verdict.value for verdict in verdicts}) > 1:
        return _missing(f"two different verdicts: {found.text}")
    return verdicts[-1]


# -------------------------------------------------------------------------------------------------- from JSON and lines


def _has_verdict(said: Mapping[str, Any]) -> bool:
    return any(_FIELDS.get(_key(key)) == "verdict" for key in said)


def _has_items(said: Mapping[str, Any]) -> bool:
    return any(_FIELDS.get(_key(key)) == "items" for key in said)


def _key(key: str) -> str:
    return key.strip().casefold()


def _entry(said: Mapping[str, Any]) -> _SaidVerdict:
    """An object of the schema; whatever else stands in it may take the verdict back."""
    fields: dict[str, Any] = {}
    for key, value in said.items():
        field = _FIELDS.get(_key(key))
        if field is None:
            return _SaidVerdict(
                None, problem=f"not the form that was asked for: a field {shortened(key, 40)!r}: {said}"
            )
        if field in fields:
            return _SaidVerdict(
                None, problem=f"two different verdicts: {said}" if field == "verdict" else f"twice {key}: {said}"
            )
        fields[field] = value
    reasoning = fields.get("reasoning")
    if reasoning is not None and not isinstance(reasoning, str):
        return _SaidVerdict(None, problem=f"not the form that was asked for: reasoning that is no text: {said}")
    if declined(reasoning or ""):
        return _SaidVerdict(None, problem=f"refused: {reasoning}")
    return _SaidVerdict(fields.get("verdict"), fields.get("finding"), reasoning or "", items=fields.get("items", ...))


def _unwrapped(said: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entries of a batch, also from inside one outer field or a list of entries that name their criterion."""
    inner = next(iter(said.values())) if len(said) == 1 else said
    if isinstance(inner, list):
        named = [item for item in inner if isinstance(item, Mapping) and isinstance(item.get("criterion"), str)]
        if len(named) < len(inner):
            return {}
        entries: dict[str, Any] = {}
        for item in named:
            entries[item["criterion"]] = _Several((*_several(entries.get(item["criterion"])), item))
        return entries
    return inner if isinstance(inner, Mapping) and not (_has_verdict(inner) or _has_items(inner)) else said


class _Several(tuple[Any, ...]):
    """Entries under one name."""


def _several(entry: Any) -> tuple[Any, ...]:
    return entry if isinstance(entry, _Several) else () if entry is None else (entry,)


@dataclass(frozen=True)
class _Fields:
    """Which criterion a field of a batch is about: its key or its name, spaces, hyphens and case aside."""

    exact: Mapping[str, int]
    loose: Mapping[str, int]

    @classmethod
    def of(cls, criteria: Sequence[Criterion]) -> _Fields:
        keys = [*enumerate(batch_keys(criteria)), *((i, criterion.name) for i, criterion in enumerate(criteria))]
        exact: dict[str, int] = {}
        loose: dict[str, set[int]] = {}
        for i, name in keys:
            exact.setdefault(name, i)
            loose.setdefault(_loose(name), set()).add(i)
        return cls(exact, {name: i for name, found in loose.items() for i in found if len(found) == 1})

    def knows(self, said: Mapping[str, Any]) -> bool:
        """Is it about some of them?"""
        return any(self.at(field) is not None for field in said)

    def at(self, field: str) -> int | None:
        """The number of the criterion."""
        return self.exact[field] if field in self.exact else self.loose.get(_loose(field))

    def is_near(self, field: str, i: int) -> bool:
        """Does a field that names no criterion begin like one about this criterion, such as "Tone (final)"?"""
        if self.at(field) is not None:
            return False
        return any(_loose(field).startswith(_loose(name)) for name, at in self.exact.items() if at == i)


def _loose(name: str) -> str:
    return re.sub(r"[\s_-]+", "", unicodedata.normalize("NFKC", name).casefold())


def _of_batch(
    criterion: Criterion,
    i: int,
    fields: _Fields,
    objects: Sequence[Mapping[str, Any]],
    found: Stated,
    asked: _Listed | None,
) -> Verdict:
    entries = [
        one for said in objects for field, value in said.items() if fields.at(field) == i for one in _several(value)
    ]
    if any(fields.is_near(field, i) for said in objects for field in said):
        return _missing(f"two different verdicts: {found.text}")
    if not entries and set(fields.exact.values()) == {i}:
        entries = [said for said in objects if _has_verdict(said) or _has_items(said)]
    if not entries:
        return _missing(f"no verdict about it in the reply: {found.text}")
    said = [_entry(entry) if isinstance(entry, Mapping) else _SaidVerdict(entry) for entry in entries]
    return _agreed([_checked(each, criterion, asked) for each in said], found)


def _statement(
    said: Mapping[str, Any] | str,
    found: Stated,
    value_of: Callable[[str], tuple[str, str] | None],
    levels: Mapping[str, tuple[float, ...]],
) -> _SaidVerdict:
    if not isinstance(said, str):
        return _entry(said)
    read = value_of(said.strip())
    if read is None or (read[1] and bare(read[1]) not in levels):  # more is said, which may take it back
        return _SaidVerdict(None, problem=f"no verdict in the line “{shortened(said.strip(), 60)}”: {found.text}")
    value, finding = read
    return _SaidVerdict(value, finding or found.finding, found.text.strip())


def _number_of(line: str) -> tuple[str, str] | None:
    match = _NUMBER.match(line)
    return _with_finding(match[0], line[match.end() :]) if match else None


def _choice_of(line: str) -> tuple[str, str] | None:
    match = _CHOICE.match(line)
    return _with_finding(match[1], line[match.end() :]) if match else None


def _with_finding(value: str, rest: str) -> tuple[str, str] | None:
    """The value and a finding in brackets; None where more is said."""
    after = _AFTER.fullmatch(rest)
    return None if after is None else (value, after["finding"] or "")


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


def _why(said: _SaidVerdict) -> str:
    return _short(said.reasoning) or "the judge gave no reason"


def _missing(reason: str) -> Verdict:
    return missing(_short(reason))


def _short(text: str, limit: int = _LONGEST_REASON) -> str:
    return shortened(" ".join(encodable(text[: 4 * limit]).split()), limit)
