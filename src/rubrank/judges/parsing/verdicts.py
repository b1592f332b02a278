"""Reply → verdict: a reply is one object of the schema, or ends in a verdict that nothing contradicts; else missing.

    {"reasoning": "…", "finding": "meets", "verdict": 1}       1.0
    ```json {"reasoning": "…", "verdict": 0.5,} ```            0.5
    The tone is right.\n**Verdict:** 1                         1.0
    The tone is right: {"verdict": 1}, I think.                missing: no verdict at the end of the reply
    Verdict: 1 — no, wait, zero                                missing: no number
    {"verdict": 1, "Verdict": 0}                               missing: two different verdicts
    {"reasoning": "…", "finding": "fails", "verdict": 1}       missing: the verdict contradicts its reasoning
    {"reasoning": "…", "verdict": 7}                           missing: 7 is not one of 0, 1 (0.7 for a range)
    {"reasoning": "…", "items": [{"item": …, "verdict": …}]}   computed from the items
    1                                                          missing: it may answer the query instead of judging

The steps of reading a reply:

    Reply ─find_statements─► objects, lines ─_read_object, _read_line─► entries ─_score_…─► verdicts ─_unite─► one

Reasons contain the judge's own words. `statements.py` says what counts as a quotation; given the `call` that was
answered, the parser recognises a verdict that is copied from the text under judgment, even without quotation marks.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

from rubrank._plain import encodable
from rubrank.errors import only_our_errors
from rubrank.judges.judge import Call, Reply
from rubrank.judges.parsing.items import items_form, value_of_items
from rubrank.judges.parsing.logprobs import read_distribution
from rubrank.judges.parsing.statements import Statements, find_statements, is_refusal
from rubrank.judges.prompting.reply_form import (
    batch_keys,
    fold_word,
    numbers_of_findings,
    numbers_of_pairwise_findings,
    spell,
)
from rubrank.rubrics.rubric import Criterion, shortened
from rubrank.verifiers.distribution import mean_of
from rubrank.verifiers.verifier import Domain, Verdict, missing

_MAX_REASON = 400  # characters
_MAX_REASON_PER_RESPONSE = 250  # characters for each response of a list, if that gives more
_NUMBER = re.compile(r"[-+]?(?:\d{1,30}(?:\.\d{0,30})?|\.\d{1,30})")
_REST_OF_LINE = re.compile(r"[\s*_`.。!！]*(?:[(（](?P<finding>[^()（）\n]{1,80})[)）])?[\s*_`.。!！]*")
_CHOICE = re.compile(r"(?:response|answer|回复|回答)?[ \t]*(a|b|tie|equal|平局|平手)(?![a-z])", re.IGNORECASE)
_CHOICES = {"a": 1.0, "b": 0.0, "tie": 0.5, "equal": 0.5, "平局": 0.5, "平手": 0.5}
_FIELD_NAMES = {
    **dict.fromkeys(("verdict", "结论", "判定", "ranks", "ranking"), "verdict"),
    **dict.fromkeys(("reasoning", "reason", "explanation", "rationale", "justification", "analysis"), "reasoning"),
    **dict.fromkeys(("推理", "理由", "分析", "解释"), "reasoning"),
    **dict.fromkeys(("finding", "判断"), "finding"),
    "items": "items",
    "criterion": "criterion",
}
_CANNOT_TELL = "the judge cannot tell"

NumbersOfFindings: TypeAlias = Mapping[str, tuple[float, ...]]
"""Every word for a finding → the numbers that agree with it."""


@dataclass(frozen=True)
class _Entry:
    """One statement about one criterion, not yet checked."""

    verdict: Any = None
    finding: Any = None
    reasoning: str = ""
    has_items: bool = False
    items: Any = None
    """A list, or null for "cannot tell"."""
    problem: str = ""


# ---------------------------------------------------------------------------------------------------------- the kinds


@only_our_errors
def read_absolute(reply: Reply, criterion: Criterion, *, call: Call | None = None) -> Verdict:
    """A value of the criterion's domain, or missing."""
    items_schema = _find_items_schema(call)
    statements = find_statements(reply, _has_verdict if items_schema is None else _has_items, call)
    if statements.problem:
        return _missing(statements.problem)
    numbers = numbers_of_findings(criterion)
    verdicts = []
    for value in statements.values:
        entry = _read_object(value) if isinstance(value, dict) else _read_line(value, _NUMBER, numbers, statements)
        verdicts.append(_score_entry(entry, criterion, items_schema))
    return _unite(verdicts, statements)


def read_expected(reply: Reply, criterion: Criterion, *, call: Call | None = None) -> Verdict:
    """The mean of the domain's values, weighted by their probabilities at the place of the verdict; or missing."""
    verdict = read_absolute(reply, criterion, call=call)
    if verdict.value is None:
        return verdict
    if not reply.logprobs:
        return missing("there are no log-probabilities")
    distribution, explanation = read_distribution(reply.logprobs, criterion.scale, verdict.value)
    if not distribution:
        return _missing(explanation)
    mean = min(max(mean_of(distribution), distribution[0][0]), distribution[-1][0])
    return Verdict(mean, _shorten(f"expected from {explanation}: {verdict.reason}"), distribution)


def add_probabilities(verdict: Verdict, reply: Reply, criterion: Criterion, key: str | None = None) -> Verdict:
    """The verdict with the probabilities of all values, if the reply shows them; else the verdict as it is."""
    if verdict.value is None or not reply.logprobs:
        return verdict
    distribution, _ = read_distribution(reply.logprobs, criterion.scale, verdict.value, key)
    return replace(verdict, probabilities=distribution)


def read_batched(reply: Reply, criteria: Sequence[Criterion], *, call: Call | None = None) -> dict[str, Verdict]:
    """A verdict, or missing, for every criterion by its name."""
    fields = _BatchFields(criteria)

    def accept(value: Mapping[str, Any]) -> bool:
        if any(fields.criterion_of(field) is not None for field in _unwrap_batch(value)):
            return True
        return len(criteria) == 1 and (_has_verdict(value) or _has_items(value))

    statements = find_statements(reply, accept, call)
    problem = statements.problem
    objects = [_unwrap_batch(value) for value in statements.values if isinstance(value, dict)]
    if not problem and len(objects) < len(statements.values):
        problem = f"no JSON in the reply: {statements.text}"
    verdicts = {}
    for i, (criterion, key) in enumerate(zip(criteria, batch_keys(criteria), strict=True)):
        if problem:
            verdicts[criterion.name] = _missing(problem)
            continue
        entries, entry_problem = fields.find_entries(objects, i)
        if entry_problem:
            verdicts[criterion.name] = _missing(f"{entry_problem}: {statements.text}")
            continue
        items_schema = _find_items_schema(call, key)
        scored = [_score_entry(entry, criterion, items_schema) for entry in entries]
        verdicts[criterion.name] = _unite(scored, statements)
    return verdicts


def read_pairwise(reply: Reply, *, call: Call | None = None) -> Verdict:
    """1 = A is better, 0.5 = neither, 0 = B is better, or missing."""
    statements = find_statements(reply, _has_verdict, call)
    if statements.problem:
        return _missing(statements.problem)
    numbers = numbers_of_pairwise_findings()
    verdicts = []
    for value in statements.values:
        entry = _read_object(value) if isinstance(value, dict) else _read_line(value, _CHOICE, numbers, statements)
        verdicts.append(_score_choice(entry, numbers))
    return _unite(verdicts, statements)


def read_listwise(reply: Reply, n: int, *, call: Call | None = None) -> tuple[tuple[int, ...] | None, str]:
    """Dense ranks of the n responses in the order shown (1 = best), and the reason; None: missing."""
    statements = find_statements(reply, _has_verdict, call)
    if statements.problem:
        return None, _shorten(statements.problem)
    rankings = [_read_ranks(_read_object(value), n) for value in statements.values if isinstance(value, dict)]
    if len(rankings) < len(statements.values):
        return None, _shorten(f"no JSON in the reply: {statements.text}")
    if len({ranks for ranks, _ in rankings}) > 1:
        return None, _shorten(f"two different verdicts: {statements.text}")
    return rankings[-1]


def missing_reasons(verdict: Verdict) -> list[str]:
    """The reason in a list if the verdict is missing; else an empty list."""
    return [verdict.reason] if verdict.value is None else []


# ------------------------------------------------------------------------------------------------ statement → entry


def _field_of(name: str) -> str | None:
    return _FIELD_NAMES.get(name.strip().casefold())


def _has_verdict(value: Mapping[str, Any]) -> bool:
    return any(_field_of(name) == "verdict" for name in value)


def _has_items(value: Mapping[str, Any]) -> bool:
    return any(_field_of(name) == "items" for name in value)


def _read_object(value: Mapping[str, Any]) -> _Entry:
    """Read an object of the schema. Unknown fields are a problem: they may withdraw the verdict."""
    fields: dict[str, Any] = {}
    for name, content in value.items():
        field = _field_of(name)
        if field is None:
            return _Entry(problem=f"not the form that was asked for: a field {shortened(name, 40)!r}: {value}")
        if field in fields:
            problem = "two different verdicts" if field == "verdict" else f"twice {name}"
            return _Entry(problem=f"{problem}: {value}")
        fields[field] = content
    reasoning = fields.get("reasoning")
    if reasoning is None:
        reasoning = ""
    if not isinstance(reasoning, str):
        return _Entry(problem=f"not the form that was asked for: reasoning that is no text: {value}")
    if is_refusal(reasoning):
        return _Entry(problem=f"refused: {reasoning}")
    return _Entry(fields.get("verdict"), fields.get("finding"), reasoning, "items" in fields, fields.get("items"))


def _read_line(line: str, pattern: re.Pattern[str], numbers: NumbersOfFindings, statements: Statements) -> _Entry:
    """Read a line such as "1" or "A (better)". More text is a problem: it may withdraw the verdict."""
    line = line.strip()
    match = pattern.match(line)
    rest = None if match is None else _REST_OF_LINE.fullmatch(line[match.end() :])
    finding = "" if rest is None else rest["finding"] or ""
    if match is None or rest is None or (finding and fold_word(finding) not in numbers):
        return _Entry(problem=f"no verdict in the line “{shortened(line, 60)}”: {statements.text}")
    value = match[1] if pattern is _CHOICE else match[0]
    return _Entry(value, finding or statements.finding, statements.text.strip())


# ---------------------------------------------------------------------------------------------------- entry → verdict


def _score_entry(entry: _Entry, criterion: Criterion, items_schema: Mapping[str, Any] | None) -> Verdict:
    """The value of an entry on the criterion's scale, or missing."""
    if entry.problem:
        return _missing(entry.problem)
    if items_schema is not None or entry.has_items:
        return _score_items(entry, criterion, items_schema)
    if entry.verdict is None:
        return _missing(f"{_CANNOT_TELL}: {entry.reasoning}")
    scale = criterion.scale
    number = _parse_number(entry.verdict, criterion.value_domain)
    value = None if number is None else scale.score(number)
    if number is None or value is None:
        allowed = "0 to 10 in whole numbers" if scale.steps else ", ".join(map(spell, scale.asked))
        return _missing(f"verdict {shortened(str(entry.verdict), 60)} is not one of {allowed}: {entry.reasoning}")
    contradiction = _check_finding(entry, number, numbers_of_findings(criterion))
    return contradiction or Verdict(value, _reason_of(entry))


def _find_items_schema(call: Call | None, key: str | None = None) -> Mapping[str, Any] | None:
    """The schema of the items that a call asks for (in a batch: under this key); None if it asks for none."""
    schema: Any = None if call is None else call.schema
    for name in (key, "items"):
        if name is not None:
            schema = (schema or {}).get("properties", {}).get(name)
    if schema is None:
        return None
    for alternative in schema.get("anyOf", [schema]):
        if alternative.get("type") == "array":
            array: Mapping[str, Any] = alternative
            return array
    return {}


def _score_items(entry: _Entry, criterion: Criterion, items_schema: Mapping[str, Any] | None) -> Verdict:
    """The value that is computed from a list of items."""
    if not entry.has_items:
        return _missing("not the form that was asked for: no list of items")
    if entry.verdict is not None or items_form(criterion) is None:
        return _missing("not the form that was asked for: items")
    if entry.items is None:
        return _missing(f"{_CANNOT_TELL}: {entry.reasoning}")
    count = None if items_schema is None else items_schema.get("minItems")
    value, explanation = value_of_items(entry.items, criterion, count)
    if value is None:
        return _missing(f"{explanation}: {entry.reasoning}")
    return Verdict(value, _shorten(f"{explanation}: {entry.reasoning}".rstrip(": ")))


def _score_choice(entry: _Entry, numbers: NumbersOfFindings) -> Verdict:
    """1, 0.5 or 0 for A, tie or B, or missing."""
    if entry.problem:
        return _missing(entry.problem)
    if entry.verdict is None:
        return _missing(f"{_CANNOT_TELL}: {entry.reasoning}")
    match = _CHOICE.fullmatch(entry.verdict.strip()) if isinstance(entry.verdict, str) else None
    if match is None:
        return _missing(f"verdict {shortened(str(entry.verdict), 60)} is not one of A, B, tie: {entry.reasoning}")
    value = _CHOICES[match[1].lower()]
    contradiction = _check_finding(entry, value, numbers)
    return contradiction or Verdict(value, _reason_of(entry))


def _read_ranks(entry: _Entry, n: int) -> tuple[tuple[int, ...] | None, str]:
    """Dense ranks and the reason; None: missing."""
    if entry.problem:
        return None, _shorten(entry.problem)
    if entry.verdict is None:
        return None, _shorten(f"{_CANNOT_TELL}: {entry.reasoning}")
    by_number = entry.verdict
    if isinstance(by_number, list):
        by_number = {str(i): rank for i, rank in enumerate(by_number, 1)}
    ranks = []
    if isinstance(by_number, Mapping) and len(by_number) == n:
        for i in range(1, n + 1):
            rank = by_number.get(str(i))
            if isinstance(rank, int | float) and not isinstance(rank, bool) and rank in range(1, n + 1):
                ranks.append(int(rank))
    if len(ranks) != n or n == 0:
        got = shortened(str(by_number), 120)
        return None, _shorten(f"not a rank from 1 to {n} for each response: {got}: {entry.reasoning}")
    order = sorted(set(ranks))
    dense_ranks = tuple(order.index(rank) + 1 for rank in ranks)
    best = entry.finding if isinstance(entry.finding, list) else []
    if any(number not in range(1, n + 1) or dense_ranks[int(number) - 1] != 1 for number in best):
        problem = f"verdict contradicts its reasoning: best are {best}, ranks {ranks}"
        return None, _shorten(f"{problem}: {entry.reasoning}")
    reason = _shorten(entry.reasoning, max(_MAX_REASON, n * _MAX_REASON_PER_RESPONSE))
    return dense_ranks, reason or "the judge gave no reason"


def _check_finding(entry: _Entry, number: float, numbers: NumbersOfFindings) -> Verdict | None:
    """Missing if the finding agrees only with other numbers; None if it fits, or is in the judge's own words."""
    agreeing_numbers = numbers.get(fold_word(entry.finding)) if entry.finding else None
    if agreeing_numbers is None or any(abs(number - agreeing) <= 5e-5 for agreeing in agreeing_numbers):
        return None
    contradiction = f"found “{shortened(str(entry.finding), 40)}”, said {entry.verdict}"
    return _missing(f"verdict contradicts its reasoning: {contradiction}: {entry.reasoning}")


def _parse_number(verdict: Any, domain: Domain) -> float | None:
    if isinstance(verdict, bool):
        return float(verdict) if domain.kind == "binary" else None
    if isinstance(verdict, str):
        match = _NUMBER.fullmatch(verdict.strip())
        return float(match[0]) if match else None
    if not isinstance(verdict, int | float) or abs(verdict) > 1e300 or not math.isfinite(verdict):
        return None
    return float(verdict)


def _unite(verdicts: Sequence[Verdict], statements: Statements) -> Verdict:
    """The verdict, if all statements agree."""
    if not verdicts:
        return _missing(f"no verdict in the reply: {statements.text}")
    if len({verdict.value for verdict in verdicts}) > 1:
        return _missing(f"two different verdicts: {statements.text}")
    return verdicts[-1]


# ------------------------------------------------------------------------------------------------------------- batches


class _SeveralEntries(tuple[Any, ...]):
    """Several entries about one criterion, from a list in which its name occurs more than once."""


def _unwrap_batch(value: Mapping[str, Any]) -> Mapping[str, Any]:
    """The entries of a batch by criterion; some judges wrap them in one outer field, or list them with a name each."""
    inner = next(iter(value.values())) if len(value) == 1 else value
    if isinstance(inner, list):
        entries: dict[str, Any] = {}
        for item in inner:
            if not isinstance(item, Mapping) or not isinstance(item.get("criterion"), str):
                return {}
            name = item["criterion"]
            entries[name] = _SeveralEntries((*entries.get(name, ()), item))
        return entries
    if isinstance(inner, Mapping) and not _has_verdict(inner) and not _has_items(inner):
        return inner
    return value


class _BatchFields:
    """Finds the criterion that a field of a batch is about, by key or name; spaces, hyphens and case do not matter."""

    def __init__(self, criteria: Sequence[Criterion]) -> None:
        self._exact: dict[str, int] = {}
        loose: dict[str, set[int]] = {}
        names = [*enumerate(batch_keys(criteria)), *enumerate(criterion.name for criterion in criteria)]
        for i, name in names:
            self._exact.setdefault(name, i)
            loose.setdefault(_fold_name(name), set()).add(i)
        self._loose = {name: numbers.pop() for name, numbers in loose.items() if len(numbers) == 1}

    def criterion_of(self, field: str) -> int | None:
        """The index of the criterion; None: no criterion, or an ambiguous name."""
        if field in self._exact:
            return self._exact[field]
        return self._loose.get(_fold_name(field))

    def find_entries(self, objects: Sequence[Mapping[str, Any]], i: int) -> tuple[list[_Entry], str]:
        """The entries about criterion i, or the problem."""
        names = [_fold_name(name) for name, number in self._exact.items() if number == i]
        entries: list[Any] = []
        for value in objects:
            for field, content in value.items():
                criterion = self.criterion_of(field)
                if criterion == i and content is not None:
                    entries += content if isinstance(content, _SeveralEntries) else (content,)
                elif criterion is None and any(_fold_name(field).startswith(name) for name in names):
                    return [], "two different verdicts"  # "Tone (final)" beside "Tone"
        if not entries and set(self._exact.values()) == {i}:  # a batch of one: its verdict may come without the name
            entries = [value for value in objects if _has_verdict(value) or _has_items(value)]
        if not entries:
            return [], "no verdict about it in the reply"
        return [_read_object(entry) if isinstance(entry, Mapping) else _Entry(entry) for entry in entries], ""


def _fold_name(name: str) -> str:
    return re.sub(r"[\s_-]+", "", unicodedata.normalize("NFKC", name).casefold())


# ------------------------------------------------------------------------------------------------------------- reasons


def _reason_of(entry: _Entry) -> str:
    return _shorten(entry.reasoning) or "the judge gave no reason"


def _missing(reason: str) -> Verdict:
    return missing(_shorten(reason))


def _shorten(text: str, limit: int = _MAX_REASON) -> str:
    return shortened(" ".join(encodable(text[: 4 * limit]).split()), limit)
