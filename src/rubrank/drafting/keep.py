"""Keep a written item only if data says that it helps: judges grade responses on it, and the figures decide.

    An item stays if                                              figure
      it splits the group                                         decided ≥ 5% of the pairs
      the judge agrees with itself when asked again               kappa ≥ 0.6
      a rewrite that violates it is caught                        enforced
      it does not prefer the weaker response                      strength: τ ≥ 0, where the strength is known
      it is no proxy for length                                   length: |τ| < 0.9 over at least 6 pairs
      it adds something after the others                          another order than every earlier item

The breaker's text, which fulfils the items cheaply, is graded with the responses. A rubric under which it beats half of
them is marked: its items can be gamed.

Asking again means another order of the criteria, so that a judge of kind `batched` sees another prompt.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rubrank.drafting.writers import Templates, WrittenItem, WrittenItems, ask_json
from rubrank.grading.grade import grade
from rubrank.judges.client.runtime import runtime
from rubrank.judges.clients import open_clients
from rubrank.judges.judge import Judges
from rubrank.scores.table import GroupScores

LEAST_DECIDED = 0.05
LEAST_KAPPA = 0.6
MOST_LENGTH = 0.9
_LEAST_PAIRS = 6


@dataclass(frozen=True)
class MeasuredItem:
    """One item with what was measured, and the decision."""

    item: WrittenItem
    kept: bool
    reason: str = ""
    figures: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class MeasuredRubric:
    """The items of one prompt."""

    items: Sequence[MeasuredItem]
    breaker_wins: float | None = None
    """Share of the responses that the breaker's text beats; None: it was not graded."""


@dataclass(frozen=True)
class KeepTask:
    """A prompt whose items are measured."""

    prompt: str
    written: WrittenItems
    responses: Sequence[str]
    strengths: Sequence[float] | None = None
    """How good each response is, where that is known."""


def keep_by_data(
    tasks: Sequence[KeepTask], judges: Judges, writers: Judges, templates: Templates
) -> list[MeasuredRubric]:
    """Grade the responses of every task on its items, and decide which items stay."""
    graded = _grade_rows([_make_row(number, task) for number, task in enumerate(tasks)], judges)
    again = _grade_rows([_make_row(number, task, reverse=True) for number, task in enumerate(tasks)], judges)
    enforced = _check_enforcement(tasks, graded, judges, writers, templates)
    return [
        _decide(task, graded.get(str(number)), again.get(str(number)), enforced, number)
        for number, task in enumerate(tasks)
    ]


def _name(position: int) -> str:
    return f"item {position + 1}"


def _make_row(number: int, task: KeepTask, reverse: bool = False) -> dict[str, Any]:
    criteria = [item.criterion(_name(position)) for position, item in enumerate(task.written.items)]
    responses = [*task.responses, *([task.written.breaker] if task.written.breaker else [])]
    if reverse:
        criteria = criteria[::-1]
    return {"id": str(number), "prompt": task.prompt, "responses": responses, "rubric": {"criteria": criteria}}


def _grade_rows(rows: Sequence[dict[str, Any]], judges: Judges) -> dict[str, GroupScores]:
    rows = [row for row in rows if row["rubric"]["criteria"]]
    if not rows:
        return {}
    table = grade(rows, judges=judges)
    return {group.id: group for group in table.groups}


def _check_enforcement(
    tasks: Sequence[KeepTask], graded: Mapping[str, GroupScores], judges: Judges, writers: Judges, templates: Templates
) -> dict[tuple[int, int], bool]:
    """For each (task, item): does a rewrite of the best response that violates the item get a lower score?"""
    targets: list[tuple[int, int, str]] = []
    for number, task in enumerate(tasks):
        scores = graded.get(str(number))
        if scores is None:
            continue
        for position in range(len(task.written.items)):
            oriented = _oriented(scores, position, task)[: len(task.responses)]
            if not np.isnan(oriented).all():
                targets.append((number, position, task.responses[int(np.nanargmax(oriented))]))
    rewritten = runtime().run(_violate(tasks, targets, writers, templates))
    rows = []
    for (number, position, response), text in zip(targets, rewritten, strict=True):
        if text is not None:
            task = tasks[number]
            criterion = task.written.items[position].criterion(_name(position))
            rows.append(
                {
                    "id": f"{number}/{position}",
                    "prompt": task.prompt,
                    "responses": [response, text],
                    "rubric": {"criteria": [criterion]},
                }
            )
    enforced = {}
    for group_id, scores in _grade_rows(rows, judges).items():
        number, position = map(int, group_id.split("/"))
        sign = 1 if tasks[number].written.items[position].points > 0 else -1
        before, after = sign * scores.scores[:2, 0]
        if not np.isnan([before, after]).any():
            enforced[number, position] = bool(after < before)
    return enforced


async def _violate(
    tasks: Sequence[KeepTask], targets: Sequence[tuple[int, int, str]], writers: Judges, templates: Templates
) -> list[str | None]:
    async with AsyncExitStack() as stack:
        clients = await open_clients(writers, writers.judges[:1], stack, None)
        asker = clients.asker_of(writers.judges[0])
        messages = [
            templates.fill(
                "violate",
                tasks[number].prompt,
                {"response": response, "items": tasks[number].written.items[position].question},
            )
            for number, position, response in targets
        ]
        replies = await asyncio.gather(*(ask_json(asker, message, "violate") for message in messages))
    texts = [data.get("text") for data, _ in replies]
    return [text if isinstance(text, str) and text.strip() else None for text in texts]


def _oriented(scores: GroupScores, position: int, task: KeepTask) -> np.ndarray:
    """The scores of an item, higher is better."""
    sign = 1 if task.written.items[position].points > 0 else -1
    return sign * scores.scores[:, scores.names.index(_name(position))]


# ---- decisions -----------------------------------------------------------------------------------------------------


def _decide(
    task: KeepTask,
    scores: GroupScores | None,
    again: GroupScores | None,
    enforced: Mapping[tuple[int, int], bool],
    number: int,
) -> MeasuredRubric:
    if scores is None:
        return MeasuredRubric([])
    size = len(task.responses)
    lengths = np.array([len(response) for response in task.responses], dtype=float)
    measured: list[MeasuredItem] = []
    kept_signs: list[np.ndarray] = []
    total = np.zeros(len(scores.scores))
    for position, item in enumerate(task.written.items):
        values = _oriented(scores, position, task)
        signs = _pair_signs(values[:size])
        figures: dict[str, Any] = {"decided": round(float((np.nan_to_num(signs) != 0).mean()), 3)}
        if again is not None:
            figures["kappa"] = round(cohen_kappa(values[:size], _oriented(again, position, task)[:size]), 3)
        if (number, position) in enforced:
            figures["enforced"] = enforced[number, position]
        figures["length"] = _tau(signs, _pair_signs(lengths))
        if task.strengths is not None:
            figures["strength"] = _tau(signs, _pair_signs(np.asarray(task.strengths, dtype=float)))
        reason = _find_reason(figures, signs, kept_signs)
        measured.append(MeasuredItem(item, reason is None, reason or "", figures))
        if reason is None:
            kept_signs.append(signs)
            total += abs(item.points) * np.nan_to_num(values)
    breaker_wins = None
    if task.written.breaker is not None and size and kept_signs:
        breaker_wins = float((total[size] > total[:size]).mean())
    return MeasuredRubric(measured, breaker_wins)


def _find_reason(figures: Mapping[str, Any], signs: np.ndarray, kept_signs: Sequence[np.ndarray]) -> str | None:
    """Why an item is dropped; None if it stays."""
    if figures["decided"] < LEAST_DECIDED:
        return f"decides {figures['decided']:.0%} of the pairs"
    if figures.get("kappa", 1.0) < LEAST_KAPPA:
        return f"the judge contradicts itself (κ {figures['kappa']:.2f})"
    if figures.get("enforced") is False:
        return "a rewrite that violates it got the same score"
    if (figures.get("strength") or 0.0) < 0:
        return f"prefers weaker responses (τ {figures['strength']:+.2f})"
    decided = int((np.nan_to_num(signs) != 0).sum())
    if figures["length"] is not None and abs(figures["length"]) >= MOST_LENGTH and decided >= _LEAST_PAIRS:
        return f"follows length (τ {figures['length']:+.2f})"
    if any(np.array_equal(signs, earlier, equal_nan=True) for earlier in kept_signs):
        return "orders the responses as an earlier item does"
    return None


def cohen_kappa(first: np.ndarray, second: np.ndarray) -> float:
    """Agreement of two ratings beyond chance; 1 if both are constant and equal.

    >>> cohen_kappa(np.array([1.0, 1, 0, 0]), np.array([1.0, 0, 0, 0]))
    0.5
    """
    is_rated_twice = ~(np.isnan(first) | np.isnan(second))
    first = first[is_rated_twice]
    second = second[is_rated_twice]
    if not len(first):
        return 0.0
    agreement = float((first == second).mean())
    levels = np.unique([first, second])
    chance = float(sum((first == level).mean() * (second == level).mean() for level in levels))
    if chance >= 1.0:
        return 1.0
    return (agreement - chance) / (1.0 - chance)


def _pair_signs(values: np.ndarray) -> np.ndarray:
    first, second = np.triu_indices(len(values), 1)
    return np.asarray(np.sign(values[first] - values[second]))


def _tau(signs: np.ndarray, others: np.ndarray) -> float | None:
    """Kendall's τ over the pairs that both decide; None if there are none."""
    decided = (np.nan_to_num(signs) != 0) & (np.nan_to_num(others) != 0)
    if not decided.any():
        return None
    return round(float((signs[decided] * others[decided]).mean()), 3)
