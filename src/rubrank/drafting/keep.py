"""Decide which written items are kept: judges grade responses on each item, and the figures decide.

    An item stays if                                    figure
      it splits the group                               decided: ≥ 5% of the pairs, and of 20 pairs or more ≤ 95%
      the judge agrees with itself when asked again     kappa ≥ 0.6
      a rewrite that violates it is caught              enforced
      it does not prefer the weaker response            strength: τ ≥ 0, where the strength is known
      it is no proxy for length or for Markdown         length, markdown: |τ| < 0.9 over at least 6 pairs
      it adds something after the others                adds > 0: share of its pairs that the earlier items together
                                                        leave tied, or decide otherwise
      the breaker's text does not win by it             breaker_wins, see below

If the strength of the responses is known, τ with length and Markdown is partial: without what strength explains.

The breaker's text, which fulfils the items cheaply, is graded with the responses. While it beats more than half of
them, an item is dropped: of those that the breaker's text fulfils, the one that decides the fewest pairs.
`breaker_wins` is the share of the responses that it beats in the end.

Asking again means another order of the criteria, so that a judge of kind `batched` sees another prompt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rubrank.drafting.draft import DraftedItem, WrittenItems
from rubrank.drafting.writers import Progress, Templates, ask_for_each, ask_json
from rubrank.fusion.control.markdown import markdown_density
from rubrank.grading.grade import grade
from rubrank.judges.client.runtime import JudgeClients
from rubrank.judges.client.usage import Account
from rubrank.judges.judge import Judges
from rubrank.scores.table import GroupScores

LEAST_RESPONSES = 3
"""Fewer responses say nothing about an item."""
# The thresholds of the table above.
LEAST_DECIDED = 0.05
MOST_DECIDED = 0.95
LEAST_KAPPA = 0.6
MOST_PROXY_TAU = 0.9
_LEAST_PROXY_PAIRS = 6  # decided pairs before an item may count as a proxy
_LEAST_PAIRS_FOR_MOST = 20  # with fewer pairs, 95% cannot be told from all
_MOST_BREAKER_WINS = 0.5


@dataclass(frozen=True)
class KeepTask:
    """A prompt whose items are measured."""

    prompt: str
    items: Sequence[DraftedItem]
    breaker: str | None
    responses: Sequence[str]
    strengths: Sequence[float] | None = None
    """How good each response is; None if that is not known."""
    earlier_totals: Sequence[float] | None = None
    """Weighted sum of each response's scores on the criteria that the rubric already has."""


def keep_by_data(
    tasks: Sequence[KeepTask],
    judges: Judges,
    writers: Judges,
    templates: Templates,
    progress: Progress | None = None,
) -> tuple[list[WrittenItems], Account]:
    """Grade the responses of every task on its items, and decide which items stay; returns them with the cost."""
    accounts: list[Account] = []
    # Scores by the number of the task, as a text. Tasks without items are not graded.
    graded = _grade_rows(_make_rows(tasks), judges, accounts, progress)
    again = _grade_rows(_make_rows(tasks, reverse=True), judges, accounts, progress)
    enforced = _check_enforcement(tasks, graded, judges, writers, templates, accounts, progress)
    measured = []
    for number, task in enumerate(tasks):
        scores = graded.get(str(number))
        if scores is None:
            measured.append(WrittenItems())
            continue
        items = _measure_items(task, scores, again.get(str(number)), enforced[number])
        measured.append(_drop_gamed_items(task, scores, items))
    return measured, Account.merge(accounts)


def _name_item(position: int) -> str:
    return f"item {position + 1}"


def _make_rows(tasks: Sequence[KeepTask], reverse: bool = False) -> list[dict[str, Any]]:
    """Return a row for each task in which its responses, then the breaker's text, are graded on all items.

    reverse: with the items in the opposite order.
    """
    rows = []
    for number, task in enumerate(tasks):
        responses = list(task.responses)
        if task.breaker:
            responses.append(task.breaker)
        positions = range(len(task.items))
        if reverse:
            positions = positions[::-1]
        rows.append(_make_graded_row(str(number), task, responses, positions))
    return rows


def _make_graded_row(
    row_id: str, task: KeepTask, responses: Sequence[str], positions: Sequence[int]
) -> dict[str, Any]:
    """Return a row in which responses are graded on the items at these positions, which are named by them."""
    criteria = [
        task.items[position].rename(_name_item(position)).criterion for position in positions
    ]
    return {
        "id": row_id,
        "prompt": task.prompt,
        "responses": responses,
        "rubric": {"criteria": criteria},
    }


def make_rows_to_grade(tasks: Sequence[KeepTask]) -> list[list[dict[str, Any]]]:
    """Return the rows of the three rounds in which `keep_by_data` has responses graded, to estimate their cost.

    Rewrites are not known before a model has written them; they are assumed to be as long as the longest response.
    """
    enforcement_rows = []
    for number, task in enumerate(tasks):
        longest = max(task.responses, key=len)
        texts = [longest, f"{longest} (rewritten)"]
        for position in range(len(task.items)):
            enforcement_rows.append(
                _make_graded_row(f"{number}/{position}", task, texts, [position])
            )
    return [_make_rows(tasks), _make_rows(tasks, reverse=True), enforcement_rows]


def _grade_rows(
    rows: Sequence[dict[str, Any]],
    judges: Judges,
    accounts: list[Account],
    progress: Progress | None,
) -> dict[str, GroupScores]:
    """Grade rows. Returns id of the row → scores; what the judges cost is added to the accounts."""
    rows = [row for row in rows if row["rubric"]["criteria"]]
    if not rows:
        return {}
    table = grade(rows, judges=judges, progress=progress or False)
    if table.judging is not None:
        accounts.append(table.judging.account)
    return {group.id: group for group in table.groups}


def _check_enforcement(
    tasks: Sequence[KeepTask],
    graded: Mapping[str, GroupScores],
    judges: Judges,
    writers: Judges,
    templates: Templates,
    accounts: list[Account],
    progress: Progress | None,
) -> list[dict[int, bool]]:
    """Check whether a rewrite of the best response that violates an item gets a lower score on it.

    Returns for each task: position of the item → was the violation caught? Items without a rewrite are left out.
    """
    # Number of the task, position of the item, the response to rewrite.
    targets: list[tuple[int, int, str]] = []
    for number, task in enumerate(tasks):
        scores = graded.get(str(number))
        if scores is None:
            continue
        for position in range(len(task.items)):
            oriented = _orient_scores(scores, position, task)[: len(task.responses)]
            if not np.isnan(oriented).all():
                best_response = task.responses[int(np.nanargmax(oriented))]
                targets.append((number, position, best_response))

    async def rewrite(target: tuple[int, int, str], clients: JudgeClients) -> str | None:
        number, position, response = target
        task = tasks[number]
        values = {"response": response, "items": task.items[position].question}
        message = templates.fill("violate", task.prompt, values)
        data, _ = await ask_json(clients.asker_of(writers.judges[0]), message, "violate")
        text = data.get("text")
        return text if isinstance(text, str) and text.strip() else None

    rewritten, account = ask_for_each(targets, rewrite, writers, progress)
    accounts.append(account)
    rows = []
    for (number, position, response), text in zip(targets, rewritten, strict=True):
        if text is not None:
            row_id = f"{number}/{position}"
            rows.append(_make_graded_row(row_id, tasks[number], [response, text], [position]))
    enforced: list[dict[int, bool]] = [{} for _ in tasks]
    for group_id, scores in _grade_rows(rows, judges, accounts, progress).items():
        number, position = map(int, group_id.split("/"))
        before, after = _orient_scores(scores, position, tasks[number])[:2]
        if not np.isnan([before, after]).any():
            enforced[number][position] = bool(after < before)
    return enforced


def _orient_scores(scores: GroupScores, position: int, task: KeepTask) -> np.ndarray:
    """Return the scores of an item, with their sign changed if it takes points away, so that higher is better."""
    sign = 1 if task.items[position].points > 0 else -1
    return sign * scores.scores[:, scores.names.index(_name_item(position))]


# ---- decisions -----------------------------------------------------------------------------------------------------


def _measure_items(
    task: KeepTask, scores: GroupScores, again: GroupScores | None, enforced: Mapping[int, bool]
) -> list[DraftedItem]:
    """Measure every item; it is kept unless one of the figures speaks against it.

    again: the scores of the second round. enforced: position of the item → was a violation caught?
    """
    size = len(task.responses)
    lengths = np.array([len(response) for response in task.responses], dtype=float)
    markdown = markdown_density(list(task.responses)).sum(axis=1)
    proxy_signs = {"length": _compare_pairs(lengths), "markdown": _compare_pairs(markdown)}
    strength_signs = None
    if task.strengths is not None:
        strength_signs = _compare_pairs(np.asarray(task.strengths, dtype=float))
    # How the rubric orders each pair without the items that come later: the sum of its criteria, weighted.
    earlier_signs = np.zeros(size * (size - 1) // 2)
    if task.earlier_totals is not None:
        earlier_signs = np.nan_to_num(_compare_pairs(np.asarray(task.earlier_totals, dtype=float)))
    measured = []
    for position, item in enumerate(task.items):
        values = _orient_scores(scores, position, task)[:size]
        signs = _compare_pairs(values)
        is_decided = np.nan_to_num(signs) != 0
        figures: dict[str, Any] = {"decided": round(float(is_decided.mean()), 3)}
        if again is not None:
            values_again = _orient_scores(again, position, task)[:size]
            figures["kappa"] = round(measure_kappa(values, values_again), 3)
        if position in enforced:
            figures["enforced"] = enforced[position]
        for name, signs_of_proxy in proxy_signs.items():
            figures[name] = _measure_partial_tau(signs, signs_of_proxy, strength_signs)
        if strength_signs is not None:
            figures["strength"] = _measure_tau(signs, strength_signs)
        if is_decided.any():
            differs = np.sign(earlier_signs) != signs
            figures["adds"] = round(float(differs[is_decided].mean()), 3)
        reason = _find_reason(figures, int(is_decided.sum()), len(signs))
        measured.append(replace(item, kept=reason is None, reason=reason or "", figures=figures))
        if reason is None:
            earlier_signs = earlier_signs + abs(item.points) * np.nan_to_num(signs)
    return measured


def _drop_gamed_items(
    task: KeepTask, scores: GroupScores, measured: Sequence[DraftedItem]
) -> WrittenItems:
    """Drop items by which the breaker's text beats more than half of the responses."""
    size = len(task.responses)
    measured = list(measured)
    breaker_wins = None
    while task.breaker is not None and any(item.kept for item in measured):
        totals = np.zeros(size + 1)
        fulfilled = []
        for position, item in enumerate(measured):
            if not item.kept:
                continue
            values = _orient_scores(scores, position, task)
            totals += abs(item.points) * np.nan_to_num(values)
            if not np.isnan(values[size]) and values[size] >= np.nanmax(values[:size]):
                fulfilled.append(position)
        breaker_wins = round(float((totals[size] > totals[:size]).mean()), 3)
        if breaker_wins <= _MOST_BREAKER_WINS or not fulfilled:
            break
        weakest = min(fulfilled, key=lambda position: measured[position].figures["decided"])
        reason = f"the breaker's text fulfils it and beats {breaker_wins:.0%} of the responses"
        measured[weakest] = replace(measured[weakest], kept=False, reason=reason)
    return WrittenItems(measured, breaker_wins=breaker_wins)


def _find_reason(figures: Mapping[str, Any], decided: int, pairs: int) -> str | None:
    """Return why an item is dropped; None if it stays. decided: pairs that it decides, of `pairs` in all."""
    decides_nearly_all = pairs >= _LEAST_PAIRS_FOR_MOST and figures["decided"] > MOST_DECIDED
    if figures["decided"] < LEAST_DECIDED or decides_nearly_all:
        return f"decides {figures['decided']:.0%} of the pairs"
    if figures.get("kappa", 1.0) < LEAST_KAPPA:
        return f"the judge contradicts itself (κ {figures['kappa']:.2f})"
    if figures.get("enforced") is False:
        return "a rewrite that violates it got no lower score"
    if (figures.get("strength") or 0.0) < 0:
        return f"prefers weaker responses (τ {figures['strength']:+.2f})"
    for name in ("length", "markdown"):
        tau = figures[name]
        if tau is not None and abs(tau) >= MOST_PROXY_TAU and decided >= _LEAST_PROXY_PAIRS:
            return f"follows {name} (τ {tau:+.2f})"
    if figures.get("adds") == 0.0:
        return "adds nothing: earlier items order the responses the same way"
    return None


def measure_kappa(first: np.ndarray, second: np.ndarray) -> float:
    """Return Cohen's κ, the agreement of two ratings beyond chance; 1 if both are constant and equal.

    >>> measure_kappa(np.array([1.0, 1, 0, 0]), np.array([1.0, 0, 0, 0]))
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


def _compare_pairs(values: np.ndarray) -> np.ndarray:
    """Return a sign for every pair of responses: 1 if the first has the higher value, −1 if the second, 0 for a tie."""
    first, second = np.triu_indices(len(values), 1)
    return np.asarray(np.sign(values[first] - values[second]))


def _measure_tau(first_signs: np.ndarray, second_signs: np.ndarray) -> float | None:
    """Return Kendall's τ of two orders over the pairs that both decide; None without any.

    An order is given by the signs of all pairs (`_compare_pairs`).
    """
    # 1 if both orders agree about a pair, −1 if they contradict each other, 0 or NaN if one of them does not decide it.
    agreement = np.nan_to_num(first_signs * second_signs)
    is_decided = agreement != 0
    if not is_decided.any():
        return None
    return round(float(agreement[is_decided].mean()), 3)


def _measure_partial_tau(
    first_signs: np.ndarray, second_signs: np.ndarray, control_signs: np.ndarray | None
) -> float | None:
    """Return Kendall's partial τ of two orders: τ without what both share with a third order, the control.

    It is τ itself without a control; None if no pair is decided by both.
    """
    tau = _measure_tau(first_signs, second_signs)
    if tau is None or control_signs is None:
        return tau
    first_tau = _measure_tau(first_signs, control_signs)
    second_tau = _measure_tau(second_signs, control_signs)
    if first_tau is None or second_tau is None:
        return tau
    unexplained = (1 - first_tau**2) * (1 - second_tau**2)
    if unexplained <= 0:
        return 0.0  # the control explains one of them altogether
    partial = (tau - first_tau * second_tau) / unexplained**0.5
    return round(float(np.clip(partial, -1.0, 1.0)), 3)
