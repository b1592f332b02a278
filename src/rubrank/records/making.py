"""What a record holds beside what was fused: reasons, texts, judges; and records → score tables."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.fusion.result import Fused
from rubrank.rollouts.rollout import Group, Message, Rollout
from rubrank.scores.table import GroupScores, ScoreTable

if TYPE_CHECKING:
    from rubrank.records.record import GroupRecord


def check_same(result: Fused, table: ScoreTable | None, groups: Sequence[Group] | None) -> None:
    """Raise unless table and groups are what was fused."""
    labels = [str(label) for label in result.labels]
    tables = labels if table is None else [group.id for group in table.groups]
    texts = labels if groups is None else [group.id for group in groups]
    if tables != labels or texts != labels:
        raise InvalidInput(
            "records_of",
            "table and groups",
            f"those that were fused: {len(labels)} groups, in order",
            f"{len(tables)} and {len(texts)}",
            "Pass what was graded and fused.",
        )


def graded_data(table: ScoreTable, g: int, names: Sequence[str]) -> dict[str, Any]:
    """Reasons of the scores, and what the judges of a group were asked for and did not answer."""
    scored = table.groups[g]
    at = [scored.names.index(name) for name in names]
    found: dict[str, Any] = {"reasons": tuple(tuple(row[k] for k in at) for row in scored.reasons)}
    if table.judging is not None:
        judgment = table.judging.groups[g]
        found["metadata"] = {"judges": {"asked": judgment.asked, "missing": judgment.lost}}
    return found


def spent_data(table: ScoreTable | None) -> dict[str, Any]:
    """Usage of judging the whole table; the first record of a batch carries it, so that a run's records add up."""
    known = None if table is None else table.provenance
    return {"judging": dict(known.spent)} if known is not None and known.spent else {}


def texts(group: Group | None) -> dict[str, Any]:
    """Prompt and responses."""
    if group is None:
        return {}
    prompt = group.rollouts[0].prompt if group.rollouts else ()
    turns = tuple(_turns(rollout) for rollout in group.rollouts)
    return {
        "prompt": tuple(_said(message) for message in prompt),
        **({"turns": turns} if any(turns) else {}),
        "responses": tuple(rollout.answer for rollout in group.rollouts),
        "reasoning": tuple(rollout.thoughts for rollout in group.rollouts),
        "tokens": _tokens(group),
    }


def _said(message: Message) -> dict[str, Any]:
    """A message with what it has: {"role": "user", "content": "…"}."""
    return {"role": message.role, "content": message.content, **message.model_dump(mode="json", exclude_defaults=True)}


def _turns(rollout: Rollout) -> tuple[dict[str, Any], ...]:
    """What a rollout did before its answer; of tool calls alone, one turn that makes them all."""
    if rollout.messages:
        return tuple(_said(message) for message in rollout.messages)
    return (_said(Message(role="assistant", tool_calls=rollout.tool_calls)),) if rollout.tool_calls else ()


def _tokens(group: Group) -> tuple[tuple[int, int], ...] | None:
    """(reasoning, answer) of every rollout; None unless all were counted."""
    counts = [rollout.token_counts or {} for rollout in group.rollouts]
    if any(not {"reasoning", "answer"} <= set(found) for found in counts):
        return None
    return tuple((found["reasoning"], found["answer"]) for found in counts)


def score_table(records: Iterable[GroupRecord]) -> ScoreTable:
    """The scores as `grade` gave them."""
    return ScoreTable(tuple(_group_scores(record) for record in records))


def _group_scores(record: GroupRecord) -> GroupScores:
    scores = _array(record.scores, (record.size, len(record.criteria)))
    reasons = record.reasons or ((("",) * len(record.criteria),) * record.size)
    outcomes = {name: _array(won, (record.size, record.size)) for name, won in record.outcomes.items()}
    return GroupScores(record.group, record.criteria, scores, reasons, outcomes)


def _array(table: Any, shape: tuple[int, int]) -> np.ndarray:
    return np.array([[np.nan if x is None else x for x in row] for row in table], dtype=float).reshape(shape)
