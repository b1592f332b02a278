"""Fused groups → records, and records → score tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.records.record import GateRecord, GroupRecord
from rubrank.rollouts.rollout import Group
from rubrank.scores.table import GroupScores, ScoreTable

if TYPE_CHECKING:
    from rubrank.fusion.gate import Gate, Gated
    from rubrank.fusion.result import FusedBatch, FusedGroup
    from rubrank.fusion.rule import RuleResult
    from rubrank.scores.batch import ScoreBatch


def fused_records(
    result: FusedBatch,
    table: ScoreTable,
    groups: Sequence[Group] | None,
    step: int | None,
    rule: str,
    others: Mapping[str, Any],
    metadata: Mapping[str, Any],
) -> Iterator[GroupRecord]:
    """One record for each group of the table, in its order."""
    _check(table, groups, len(result))
    starts, place = _starts(table), {name: k for k, name in enumerate(result.criteria)}
    for g, (scored, fused) in enumerate(zip(table.groups, result, strict=True)):
        asked = [place[criterion.name] for criterion in scored.criteria if criterion.layer == "quality"]
        yield GroupRecord(
            rule=rule, step=step, metadata={**_judged(table, g), **metadata},
            **_scores(scored),
            **_fitted(fused, asked),
            ranking=_row(fused.ranking), reward=_row(fused.reward), no_signal=fused.no_signal, flags=fused.flags,
            gate=_gate(fused.gate, fused.gated, slice(None)),
            others={name: _row(np.asarray(r)[starts[g] : starts[g + 1]]) for name, r in others.items()},
            **_texts(None if groups is None else groups[g]),
        )  # fmt: skip


def rule_records(
    result: RuleResult,
    batch: ScoreBatch,
    table: ScoreTable,
    groups: Sequence[Group] | None,
    step: int | None,
    others: Mapping[str, Any],
    metadata: Mapping[str, Any],
) -> Iterator[GroupRecord]:
    """The same for a rule that has no utilities."""
    _check(table, groups, batch.N)
    used = batch.weights_NK if result.weights_NK is None else result.weights_NK
    for g, scored in enumerate(table.groups):
        rows = slice(int(batch.starts[g]), int(batch.starts[g + 1]))
        reward = result.reward[rows]
        weights = dict(zip(batch.names, used[g if len(used) > 1 else 0].tolist(), strict=True))
        yield GroupRecord(
            rule=result.rule, step=step, metadata={**_judged(table, g), **metadata},
            **_scores(scored),
            weights=tuple(weights[c.name] for c in scored.criteria if c.layer == "quality"),
            attribute_names=batch.attribute_names,
            attributes=None if batch.attributes_MD is None else _table(batch.attributes_MD[rows]),
            ranking=_row(result.value_M[rows]), reward=_row(reward), no_signal=bool(np.ptp(reward) == 0.0),
            gate=_gate(result.gate, result.gated, rows),
            others={name: _row(np.asarray(r)[rows]) for name, r in others.items()},
            **_texts(None if groups is None else groups[g]),
        )  # fmt: skip


def score_table(records: Iterable[GroupRecord]) -> ScoreTable:
    """The scores as `grade` gave them."""
    return ScoreTable(tuple(_group_scores(record) for record in records))


def _check(table: ScoreTable, groups: Sequence[Group] | None, number: int) -> None:
    if len(table.groups) != number or (groups is not None and [g.id for g in groups] != [s.id for s in table.groups]):
        raise InvalidInput(
            "records_of", "table and groups", f"those that were fused: {number} groups, in order",
            f"{len(table.groups)} and {'none' if groups is None else len(groups)}", "Pass what was graded and fused.",
        )  # fmt: skip


def _judged(table: ScoreTable, g: int) -> dict[str, Any]:
    """How many answers the judges of a group were asked for, and how many are missing."""
    if table.judging is None:
        return {}
    judgment = table.judging.groups[g]
    return {"judges": {"asked": judgment.asked, "missing": judgment.lost}}


def _starts(table: ScoreTable) -> np.ndarray:
    return np.concatenate([[0], np.cumsum([len(group.scores) for group in table.groups])]).astype(int)


def _scores(scored: GroupScores) -> dict[str, Any]:
    """Columns ranked by first, then the gate's."""
    order = sorted(range(len(scored.criteria)), key=lambda k: scored.criteria[k].layer != "quality")
    return {
        "group": scored.id,
        "criteria": tuple(scored.criteria[k] for k in order),
        "scores": _table(scored.scores[:, order]),
        "reasons": tuple(tuple(row[k] for k in order) for row in scored.reasons),
        "outcomes": {name: _table(won) for name, won in scored.outcomes.items()},
    }


def _fitted(fused: FusedGroup, asked: Sequence[int]) -> dict[str, Any]:
    """What was fitted, for the criteria that this group asks for."""
    at = list(asked)
    return {
        "weights": _row(fused.weights[at]),
        "utilities": _table(fused.utilities[:, at]),
        "values": _table(fused.values[:, at]),
        "fused": _row(fused.fused),
        "effective_weights": _row(fused.effective_weights[at]),
        "attribute_names": fused.attribute_names,
        "attributes": None if fused.attributes is None else _table(fused.attributes),
        "mean_contrasts": None if fused.mean_contrasts is None else _table(fused.mean_contrasts),
        "gamma": None if fused.gamma is None else _table(fused.gamma[at]),
        "kept": None if fused.kept is None else _table(fused.kept[at]),
    }


def _gate(gate: Gate | None, gated: Gated | None, rows: slice) -> GateRecord | None:
    if gate is None or gated is None:
        return None
    names = [str(name) for name in gate.global_quality]
    return GateRecord(
        passed=tuple(gated.passed[rows].tolist()),
        factor=_row(gated.factor[rows]),
        low_quality=_numbers(gated.low_quality[rows]),
        stopped_by=tuple(
            tuple(name for name, stopped in zip(names, row, strict=True) if stopped)
            for row in gated.stopped_by[rows].tolist()
        ),
        missing=tuple(int(n) for n in gated.missing[rows]),
    )


def _texts(group: Group | None) -> dict[str, Any]:
    if group is None:
        return {}
    prompt = group.rollouts[0].prompt if group.rollouts else ()
    return {
        "prompt": tuple({"role": m.role, "content": m.content} for m in prompt),
        "responses": tuple(rollout.answer for rollout in group.rollouts),
        "reasoning": tuple(rollout.thoughts for rollout in group.rollouts),
    }


def _group_scores(record: GroupRecord) -> GroupScores:
    scores = _array(record.scores, (record.size, len(record.criteria)))
    reasons = record.reasons or ((("",) * len(record.criteria),) * record.size)
    outcomes = {name: _array(won, (record.size, record.size)) for name, won in record.outcomes.items()}
    return GroupScores(record.group, record.criteria, scores, reasons, outcomes)


def _array(table: Any, shape: tuple[int, int]) -> np.ndarray:
    return np.array([[np.nan if x is None else x for x in row] for row in table], dtype=float).reshape(shape)


def _row(values: np.ndarray) -> tuple[float, ...]:
    return tuple(np.asarray(values, dtype=float).tolist())


def _numbers(values: np.ndarray) -> tuple[float | None, ...]:
    return tuple(None if x != x else x for x in np.asarray(values, dtype=float).tolist())


def _table(values: np.ndarray) -> tuple[tuple[float | None, ...], ...]:
    return tuple(_numbers(row) for row in values)
