"""One record for each fused group: what replay, report, explain and the trainers' logs read.

    from rubrank.records.files import read_records, write_records

    write_records("records.jsonl", records_of(table.fuse(), table, groups=groups, step=12))
    for record in read_records("records.jsonl"):
        record.reward, record.criteria[0].name, record.flags
        explain(record, 3), to_fused_group(record).outcomes

A record holds everything between the scores of a group and its rewards (docs/method.md), as plain data: lists, numbers
and names. None means absent. Texts are optional: without them a report shows the numbers and the reasons.

Letters: G rollouts, K criteria by which they are ranked, C gate criteria, D attributes.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from rubrank._plain import Immutable
from rubrank.errors import InvalidInput, counted, only_our_errors
from rubrank.fusion.gate import Gate, GateResult
from rubrank.fusion.group import FusedGroup
from rubrank.fusion.result import Fused
from rubrank.fusion.rule import Rule, apply_rule
from rubrank.fusion.rules import find_rule
from rubrank.rollouts.rollout import Group, Message
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.verifiers.distribution import Distribution

VERSION = 1

Number: TypeAlias = float | None
"""None = missing."""
Matrix: TypeAlias = tuple[tuple[Number, ...], ...]
"""One row per rollout, criterion or whatever comes first in its description: G × K is (rollouts, criteria)."""


class GateRecord(Immutable):
    """What the gate did to each rollout."""

    passed: tuple[bool, ...]
    factor: tuple[float, ...]
    """ρ: what the reward was multiplied by."""
    low_quality: tuple[Number, ...]
    """Mean of the low-quality criteria, 1 = clean."""
    stopped_by: tuple[tuple[str, ...], ...]
    """Names of the hard criteria that stopped it."""
    missing: tuple[int, ...]
    """The number of gate criteria without a score."""
    lifted: tuple[float, ...]
    """The rewards that the factor was applied to: those of rollouts that passed are stretched and lifted above 0."""


class GroupRecord(Immutable):
    """Everything about one group under one rule, from its scores to its rewards."""

    version: int = VERSION
    group: str
    rule: str = "rlvr2"
    step: int | None = None
    criteria: tuple[CriterionData, ...]
    """First the K by which rollouts are ranked, then the C of the gate, then those that are only watched."""
    scores: Matrix
    """G × all criteria, as given."""
    reasons: tuple[tuple[str, ...], ...] | None = None
    outcomes: Mapping[str, Matrix] = {}
    """Criterion → G × G, of those on which responses were compared instead of scored."""
    soft_outcomes: Mapping[str, Matrix] = {}
    """Criterion → G × G, of those whose verdicts were uncertain and fitted as such (`outcomes: soft`)."""
    probabilities: Mapping[str, tuple[Distribution, ...]] = {}
    """Criterion → for each rollout (value, probability) pairs, if the judge gave probabilities."""
    weights: tuple[float, ...]
    """(K,): as the rule used them."""
    utilities: Matrix | None = None
    """G × K; None for rules that have none."""
    values: Matrix | None = None
    """G × K: what was weighted and added up."""
    ranked_scores: Matrix | None = None
    """G × K: what was ranked instead of the scores, if another rule changed them (rlvr2*gear)."""
    attribute_names: tuple[str, ...] = ()
    attributes: Matrix | None = None
    """G × D."""
    mean_contrasts: Matrix | None = None
    """G × D: how much more of each attribute a rollout has than its group."""
    pool: str | None = None
    """What γ, the effect of each attribute on each criterion, was estimated over: "batch", "run" or "group"."""
    gamma: Matrix | None = None
    """K × D: the estimate γ̂."""
    se: Matrix | None = None
    """K × D: its standard error."""
    shrunk: Matrix | None = None
    """K × D: γ̃, the estimate after shrinkage towards 0."""
    n: tuple[float, ...] | None = None
    """(K,): groups that the estimate comes from."""
    taken: Matrix | None = None
    """K × D: the effect that was taken out of the utilities in this group."""
    scale: tuple[float, ...] | None = None
    """(K,): what `span` multiplied each criterion's utilities by."""
    fused: tuple[float, ...] | None = None
    """Weighted sum of `values`."""
    ranking: tuple[float, ...]
    """The reward before the gate."""
    gate: GateRecord | None = None
    reward: tuple[float, ...]
    no_signal: bool
    """All rollouts have the same reward, so that the group teaches nothing."""
    effective_weights: tuple[float, ...] | None = None
    """(K,): each criterion's share of the variance of `fused`; they add up to 1, or are all 0 if rollouts are tied."""
    agreement: Number = None
    """How much the criteria agree, from 0 to 1."""
    error: tuple[Number, ...] | None = None
    """(G,): standard error of `fused`, estimated from the differences between criteria."""
    flags: tuple[str, ...] = ()
    """Warnings for the reader: "no signal", "missing: NAME (2)", "constant: NAME"."""
    prompt: tuple[Mapping[str, Any], ...] | None = None
    """Messages: role and content, and tool_calls, reasoning, tool_call_id and error if they have them."""
    turns: tuple[tuple[Mapping[str, Any], ...], ...] | None = None
    """Messages before the answer of each rollout: its own turns, its tool calls, and the results of tools."""
    responses: tuple[str, ...] | None = None
    reasoning: tuple[str, ...] | None = None
    tokens: tuple[tuple[int, int], ...] | None = None
    """(reasoning, answer) of each rollout, if the trainer counted them."""
    others: Mapping[str, tuple[float, ...]] = {}
    """Rule → rewards of the same rollouts under other rules."""
    metadata: Mapping[str, Any] = {}

    @property
    def size(self) -> int:
        """Rollouts in the group."""
        return len(self.reward)

    @property
    def ranked(self) -> tuple[CriterionData, ...]:
        """The criteria that rank the rollouts."""
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
    only: Iterable[int] | None = None,
) -> Iterator[GroupRecord]:
    """Iterate over the records of a fused batch, under any rule.

    table: what was fused, to keep the reasons of its scores. groups: the rollouts, to keep their texts.
    others: rule → rewards of all rollouts under other rules. only: numbers of the groups to record; None: all.
    metadata: of every record. The arguments are checked at once; the records are made as they are consumed.
    """
    if not isinstance(result, Fused):
        raise InvalidInput(
            "records_of",
            "result",
            allowed="what a rule returns (Fused)",
            got=type(result).__name__,
            remedy="For example table.fuse().",
        )
    labels = [str(label) for label in result.labels]
    for argument, argument_groups in (("table", table), ("groups", groups)):
        ids = labels if argument_groups is None else [group.id for group in argument_groups]
        if ids == labels:
            continue
        got = f"{counted(len(ids), 'group')} instead of {len(labels)}"
        if len(ids) == len(labels):
            number = next(g for g, label in enumerate(labels) if ids[g] != label)
            got = f"{ids[number]!r} instead of {labels[number]!r} as group {number}"
        raise InvalidInput(
            "records_of",
            argument,
            allowed="the groups that were fused, in the same order",
            got=got,
            remedy="Pass what was graded and fused.",
        )
    numbers = range(len(result)) if only is None else list(only)
    # Another function yields: a generator would check the arguments only when its first record is taken.
    return _make_records(result, table, groups, step, others or {}, metadata or {}, numbers)


def _make_records(
    result: Fused,
    table: ScoreTable | None,
    groups: Sequence[Group] | None,
    step: int | None,
    others: Mapping[str, Any],
    metadata: Mapping[str, Any],
    numbers: Sequence[int],
) -> Iterator[GroupRecord]:
    """Yield the records of the groups with these numbers; see `records_of`."""
    spent = None
    if table is not None and table.provenance is not None:
        spent = table.provenance.spent
    for position, g in enumerate(numbers):
        rows = slice(int(result.batch.starts[g]), int(result.batch.starts[g + 1]))
        fields = result.record(g)
        group_metadata: dict[str, Any] = {}
        if table is not None:
            scores = table.groups[g]
            _add_watched(fields, scores)
            # Reasons come in the order of the record's criteria.
            columns = [scores.names.index(criterion.name) for criterion in fields["criteria"]]
            fields["reasons"] = tuple(tuple(row[k] for k in columns) for row in scores.reasons)
            fields["probabilities"] = scores.probabilities
            if table.judging is not None:
                judgment = table.judging.groups[g]
                group_metadata["judges"] = {"asked": judgment.asked, "missing": judgment.lost}
        if position == 0 and spent:
            # What judging the whole table cost is in the first record only, so that sums over records are right.
            group_metadata["judging"] = dict(spent)
        if groups is not None:
            fields |= describe_texts(groups[g])
        other_rewards = {
            name: tuple(np.asarray(rewards, dtype=float)[rows].tolist())
            for name, rewards in others.items()
        }
        yield GroupRecord(
            step=step,
            others=other_rewards,
            metadata={**group_metadata, **metadata},
            **fields,
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
    """Iterate over the records of a table under a rule such as "rlvr2+".

    others: rules whose rewards are recorded as well. batch: the batch of the table, if the caller has made it already.
    """
    batch = table.batch() if batch is None else batch
    other_rewards = {}
    for name in others:
        other_rule = find_rule(name)
        other_rewards[other_rule.name] = apply_rule(other_rule, batch).reward_M
    return records_of(
        apply_rule(find_rule(rule), batch), table, groups=groups, step=step, others=other_rewards
    )


def to_score_table(records: Iterable[GroupRecord]) -> ScoreTable:
    """Return the scores of records as a table again, to fuse them in another way."""
    groups = []
    for record in records:
        shape = (record.size, record.size)
        group = GroupScores(
            id=record.group,
            criteria=record.criteria,
            scores=to_array(record.scores, (record.size, len(record.criteria))),
            reasons=record.reasons or (("",) * len(record.criteria),) * record.size,
            outcomes={name: to_array(matrix, shape) for name, matrix in record.outcomes.items()},
            probabilities=record.probabilities,
        )
        groups.append(group)
    return ScoreTable(tuple(groups))


def describe_texts(group: Group) -> dict[str, Any]:
    """Return the fields of a record that hold texts: prompt, turns, responses, reasoning, and token counts."""
    prompt = group.rollouts[0].prompt if group.rollouts else ()
    token_counts = [rollout.token_counts or {} for rollout in group.rollouts]
    tokens = None
    if all("reasoning" in counts and "answer" in counts for counts in token_counts):
        tokens = tuple((counts["reasoning"], counts["answer"]) for counts in token_counts)
    texts: dict[str, Any] = {
        "prompt": tuple(_describe_message(message) for message in prompt),
        "responses": tuple(rollout.answer for rollout in group.rollouts),
        "reasoning": tuple(rollout.thoughts for rollout in group.rollouts),
        "tokens": tokens,
    }
    turns = []
    for rollout in group.rollouts:
        messages = rollout.messages
        if not messages and rollout.tool_calls:
            # Tool calls without messages become one turn that makes them all.
            messages = (Message(role="assistant", tool_calls=rollout.tool_calls),)
        turns.append(tuple(_describe_message(message) for message in messages))
    if any(turns):
        texts["turns"] = tuple(turns)
    return texts


def _add_watched(fields: dict[str, Any], scores: GroupScores) -> None:
    """Add the criteria that are only watched, which no rule sees, to the fields of a record."""
    columns = [k for k, criterion in enumerate(scores.criteria) if criterion.layer == "watch"]
    if not columns:
        return
    fields["criteria"] += tuple(scores.criteria[k] for k in columns)
    rows = []
    for row, watched in zip(fields["scores"], scores.scores[:, columns].tolist(), strict=True):
        rows.append(row + tuple(None if math.isnan(score) else score for score in watched))
    fields["scores"] = tuple(rows)


def _describe_message(message: Message) -> dict[str, Any]:
    """Return {"role": "user", "content": "…"} and whatever else the message has."""
    return {
        "role": message.role,
        "content": message.content,
        **message.model_dump(mode="json", exclude_defaults=True),
    }


def to_array(numbers: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Return the numbers of a record as an array, with NaN for None.

    shape: needed for matrices without rows, which do not show how many columns they have.
    """
    return np.array(numbers, dtype=float).reshape(shape)  # NumPy reads None as NaN


# ------------------------------------------------------------------------------------------- back to a fused group


@only_our_errors
def explain(record: GroupRecord, rollout: int) -> str:
    """Explain in words why this rollout (counted from 0) got its reward."""
    return to_fused_group(record).explain(rollout)


def to_fused_group(record: GroupRecord) -> FusedGroup:
    """Return the fused group of a record, which answers the same questions as the result of a rule.

    What the record does not hold is None. The group of a rule without utilities explains who beats whom and what the
    gate did, without contributions of criteria.
    """
    G = record.size
    K = len(record.weights)
    D = len(record.attribute_names)
    scores = to_array(record.scores, (G, len(record.criteria)))
    shapes: dict[str, tuple[int, ...]] = {
        "utilities": (G, K),
        "values": (G, K),
        "scale": (K,),
        "fused": (G,),
        "ranked_scores": (G, K),
        "attributes": (G, D),
        "mean_contrasts": (G, D),
        "gamma": (K, D),
        "se": (K, D),
        "shrunk": (K, D),
        "taken": (K, D),
        "n": (K,),
    }
    arrays: dict[str, Any] = {}
    for name, shape in shapes.items():
        numbers = getattr(record, name)
        arrays[name] = None if numbers is None else to_array(numbers, shape)
    gate = None
    gated = None
    if record.gate is not None:
        gate, gated = _restore_gate(record, record.gate)
    return FusedGroup(
        label=record.group,
        criteria=tuple(criterion.name for criterion in record.ranked),
        weights=np.array(record.weights, dtype=float),
        margins=np.array([criterion.margin for criterion in record.ranked], dtype=float),
        scores=scores[:, :K],
        higher_is_better=np.array([c.direction == "higher" for c in record.ranked], dtype=bool),
        ranking=np.array(record.ranking, dtype=float),
        reward=np.array(record.reward, dtype=float),
        no_signal=record.no_signal,
        gate=gate,
        gated=gated,
        attribute_names=record.attribute_names,
        pool=record.pool,
        compared=_read_outcomes(record, record.outcomes),
        soft=_read_outcomes(record, record.soft_outcomes),
        watched={c.name: scores[:, k] for k, c in enumerate(record.criteria) if c.layer == "watch"},
        **arrays,
    )


def _read_outcomes(record: GroupRecord, matrices: Mapping[str, Matrix]) -> dict[int, np.ndarray]:
    """Return column → (G, G) outcomes of comparisons, for the criteria that rank the rollouts."""
    shape = (record.size, record.size)
    read = {}
    for k, criterion in enumerate(record.ranked):
        if criterion.name in matrices:
            read[k] = to_array(matrices[criterion.name], shape)
    return read


def _restore_gate(record: GroupRecord, gate: GateRecord) -> tuple[Gate, GateResult]:
    """Return the gate of a record, and what it did to each rollout.

    A record does not hold the settings of the gate, such as threshold and floor. The returned gate has the defaults.
    """
    hard_names = [c.name for c in record.criteria if c.layer == "global_quality"]
    soft_names = [c.name for c in record.criteria if c.layer == "low_quality"]
    is_stopped = [[name in stopped_by for name in hard_names] for stopped_by in gate.stopped_by]
    result = GateResult(
        reward=np.array(record.reward, dtype=float),
        passed=np.array(gate.passed, dtype=bool),
        factor=np.array(gate.factor, dtype=float),
        low_quality=np.array(gate.low_quality, dtype=float),
        stopped_by=np.array(is_stopped, dtype=bool).reshape(record.size, len(hard_names)),
        missing=np.array(gate.missing, dtype=int),
        lifted=np.array(gate.lifted, dtype=float),
    )
    return Gate(global_quality=tuple(hard_names), low_quality=tuple(soft_names)), result
