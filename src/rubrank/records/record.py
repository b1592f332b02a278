"""One record for each fused group: what replay, report, explain and the trainers' logs read.

    write_records("records.jsonl", records_of(table.fuse(), table, groups=groups, step=12))
    for record in read_records("records.jsonl"):
        record.reward, record.criteria[0].name, record.flags

A record holds everything between the scores of a group and its rewards (docs/method.md), as plain data: lists, numbers,
names. None = not there. JSON lines, one record per line, or Parquet. Texts are optional: without them a report shows
the numbers and the reasons.

Letters: G rollouts, K criteria that are ranked by, C gate criteria, D attributes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from rubrank._plain import Strict
from rubrank.errors import InvalidInput, only_our_errors
from rubrank.fusion.result import Fused
from rubrank.fusion.rule import Rule, apply_rule
from rubrank.fusion.rules import find_rule
from rubrank.records.making import check_same, graded_data, score_table, spent_data, texts
from rubrank.rollouts.rollout import Group
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import ScoreTable

VERSION = 1

Number: TypeAlias = float | None
"""None = missing."""
Table: TypeAlias = tuple[tuple[Number, ...], ...]


class GateRecord(Strict):
    """What the gate did to each rollout."""

    passed: tuple[bool, ...]
    factor: tuple[float, ...]
    """ρ: what the reward was multiplied by."""
    low_quality: tuple[Number, ...]
    """Mean of the low-quality criteria, 1 = clean."""
    stopped_by: tuple[tuple[str, ...], ...]
    """Names of the hard criteria that stopped it."""
    missing: tuple[int, ...]
    lifted: tuple[float, ...] | None = None
    """What the factor was applied to."""


class GroupRecord(Strict):
    """One group under one rule."""

    version: int = VERSION
    group: str
    rule: str = "rlvr2"
    step: int | None = None
    criteria: tuple[CriterionData, ...]
    """The K ranked by come first, then the C of the gate."""
    scores: Table
    """G × (K + C), as given."""
    reasons: tuple[tuple[str, ...], ...] | None = None
    outcomes: Mapping[str, Table] = {}
    """Criterion → G × G, of those on which responses were compared instead of scored."""
    weights: tuple[float, ...]
    """(K,): as the rule used them."""
    utilities: Table | None = None
    """G × K; None for rules that have none."""
    values: Table | None = None
    """G × K: what was weighted and added up."""
    attribute_names: tuple[str, ...] = ()
    attributes: Table | None = None
    """G × D."""
    mean_contrasts: Table | None = None
    """G × D."""
    pool: str | None = None
    """What γ was estimated over: "batch", "run" or "group"."""
    gamma: Table | None = None
    """K × D: γ̂."""
    se: Table | None = None
    """K × D: its standard error."""
    shrunk: Table | None = None
    """K × D: γ̃."""
    n: tuple[float, ...] | None = None
    """(K,): groups that the estimate comes from."""
    taken: Table | None = None
    """K × D: what was taken out in this group."""
    scale: tuple[float, ...] | None = None
    """(K,): what `span` multiplied each criterion's utilities by."""
    fused: tuple[float, ...] | None = None
    ranking: tuple[float, ...]
    """Before the gate."""
    gate: GateRecord | None = None
    reward: tuple[float, ...]
    no_signal: bool
    effective_weights: tuple[float, ...] | None = None
    agreement: Number = None
    """How far the criteria say the same, from 0 to 1."""
    error: tuple[Number, ...] | None = None
    """(G,): standard error of `fused`, criteria taken as replicates."""
    flags: tuple[str, ...] = ()
    prompt: tuple[Mapping[str, Any], ...] | None = None
    """Messages: role and content; and tool_calls, reasoning, tool_call_id, error where they have some."""
    turns: tuple[tuple[Mapping[str, Any], ...], ...] | None = None
    """Messages that came before the answer of each rollout: its own turns, tool calls, what tools gave back."""
    responses: tuple[str, ...] | None = None
    reasoning: tuple[str, ...] | None = None
    tokens: tuple[tuple[int, int], ...] | None = None
    """Of the reasoning and the answer of each rollout, where the trainer counted them."""
    others: Mapping[str, tuple[float, ...]] = {}
    """Rule → rewards of the same rollouts under other rules."""
    metadata: Mapping[str, Any] = {}

    @property
    def size(self) -> int:
        """Rollouts in the group."""
        return len(self.reward)

    @property
    def ranked(self) -> tuple[CriterionData, ...]:
        """The criteria ranked by."""
        return self.criteria[: len(self.weights)]


@only_our_errors
def records_of(
    result: Fused,
    table: ScoreTable | None = None,
    *,
    groups: Sequence[Group] | None = None,
    step: int | None = None,
    others: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
) -> Iterator[GroupRecord]:
    """The records of a fused batch, under any rule.

    table: what was fused, to keep the reasons of its scores. groups: the rollouts, to keep their texts.
    others: rule → rewards of all rows under other rules.
    """
    if not isinstance(result, Fused):
        got = type(result).__name__
        raise InvalidInput("records_of", "result", "what a rule gives back (Fused)", got, "Such as table.fuse().")
    check_same(result, table, groups)
    for g in range(len(result)):
        rows = slice(int(result.batch.starts[g]), int(result.batch.starts[g + 1]))
        data = result.record(g)
        found = {} if table is None else graded_data(table, g, [c.name for c in data["criteria"]])
        judged = found.pop("metadata", {}) | (spent_data(table) if g == 0 else {})
        yield GroupRecord(
            step=step,
            others={name: tuple(np.asarray(r, dtype=float)[rows].tolist()) for name, r in (others or {}).items()},
            metadata={**judged, **(metadata or {})},
            **data,
            **found,
            **texts(None if groups is None else groups[g]),
        )


def record_table(
    table: ScoreTable,
    rule: str | Rule,
    *,
    groups: Sequence[Group] | None = None,
    others: Sequence[str | Rule] = (),
    step: int | None = None,
    batch: ScoreBatch | None = None,
) -> Iterator[GroupRecord]:
    """The records of a table under a rule such as "rlvr2+", with the rewards of other rules beside."""
    batch = table.batch() if batch is None else batch
    found = {other.name: apply_rule(other, batch).reward_M for other in map(find_rule, others)}
    return records_of(apply_rule(find_rule(rule), batch), table, groups=groups, step=step, others=found)


def table_of(records: Iterable[GroupRecord]) -> ScoreTable:
    """The scores of records as a table again, to fuse them otherwise."""
    return score_table(records)
