"""What is logged about a step: one flat dict of numbers, and a few texts about each rollout.

    rubrank/score                       mean over rollouts of the gated weighted mean of the scores, from 0 to 1
    rubrank/score/source/<source>       the same over the queries of one source; likewise …/stage/<stage>
    rubrank/score/category/<category>   weighted mean of the criteria of one category; likewise …/tier/<tier>,
                                        …/shared (the shared rubric) and …/own (the queries' own rubrics)
    rubrank/<criterion>/mean            mean of its scores, on its own scale
    rubrank/<criterion>/ties            share of the pairs within groups with equal scores
    rubrank/<criterion>/covariance      correlation of its scores with the advantages within groups, Cov(s, A)/(σ_s σ_A)
                                        from -1 to 1: if it is positive, training improves the criterion (to first
                                        order); named after the covariance, which has the same sign
    rubrank/<criterion>/missing         share of the rollouts without a score
    rubrank/<criterion>/weight          its share of the variance of the fused utility under RLVR², its share of the
                                        weights under other rules; mean over the groups that have it
    rubrank/gate/stopped, /factor       share of the rollouts that a hard gate stopped; mean factor of the soft gate
    rubrank/gate/<criterion>            share that this hard gate stopped
    rubrank/gamma/<attribute>           γ̂ of a controlled attribute, mean over the (group, criterion) pairs in which
                                        its influence was removed; no line if there are none
    rubrank/reasoning/words, rubrank/answer/words, rubrank/markdown/<marker>       means; markers per line
    rubrank/reasoning/tokens, rubrank/answer/tokens                                if the trainer has token ids
    rubrank/groups/no_signal            share of the groups whose rewards are all equal
    rubrank/groups/incomplete           1 if samples of the group are missing, else 0 (only with `barrier.py`)
    rubrank/groups/agreement, /error    how much the criteria agree; standard error of the fused utility
    rubrank/unknown                     share of the rollouts without any score
    rubrank/judge/calls, /hits, /cost, /tokens, /missing, /latency_p50, /latency_p90, /latency_p99
    rubrank/judge/total_cost, /total_tokens          of the run so far, evaluations included
    rubrank/judge/waited, /hidden       seconds the trainer waited for scores; seconds of judging that overlapped with
                                        the generation of other rollouts
    rubrank/alarm/<signal>              signs of reward hacking, from 1 on an alarm (`alarm.py`)
    rubrank/seconds, rubrank/share_of_step           time for rewards; its share of the time since the last rewards

A fused reward ranks the rollouts of a group, so its mean says nothing about the policy. `rubrank/score` does: the
scores of every criterion are scaled from 0 to 1 by its domain, weighted as its rubric says, and gated without the lift.
Criteria that are compared instead of scored, and rollouts without any score, are left out.

Only criteria of the shared rubric have their own metrics. The queries' own rubrics may have thousands of criteria, each
seen once or twice; these share `rubrank/own/ties` and `rubrank/own/missing`. For the same reason only the first
`MOST_LINES` sources, stages, categories and tiers of a run have their own lines.

The source and the stage of a query are its metadata `rubrank_source` and `rubrank_stage` (set by `rubrank train`), else
`data_source` or `source`, and `stage`.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rubrank.fusion.control.markdown import MARKERS
from rubrank.fusion.gate import Gate
from rubrank.fusion.result import Fused
from rubrank.fusion.rules.group_math import expand_rows, normalise_weights
from rubrank.judges.judgments import Judgments
from rubrank.rollouts.rollout import Group
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.training.alarm import measure_step, scale_scores
from rubrank.training.controls import TextFeatures, find_token_lengths

MOST_LINES = 32
"""Sources, stages, categories and tiers (each) with its own line; the others share the line "others"."""
_MAX_NAME_LENGTH = 80  # characters of a source, stage or category in the name of a line
# The source or stage of a query is the first of these metadata that it has.
_ORIGIN_KEYS = {
    "source": ("rubrank_source", "data_source", "source"),
    "stage": ("rubrank_stage", "stage"),
}


def collect_step_metrics(
    results: Sequence[Fused],
    table: ScoreTable,
    groups: Sequence[Group],
    rewards: Sequence[Sequence[float]],
    features: TextFeatures,
    shared: Collection[str],
    lines: list[str],
) -> dict[str, float]:
    """Return all numbers of a step except those about judges, alarms and times; undefined numbers are left out.

    shared: names of the criteria of the shared rubric, which have their own metrics.
    lines: the score lines that the run has had so far; new ones are added.
    """
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    unknown_M = np.isnan(np.concatenate([np.array(group_rewards) for group_rewards in rewards]))
    metrics = measure_criteria(results, table, rewards, shared) | measure_fusion(results, shared)
    reasoning_words, answer_words = features.words.mean(0)
    metrics["rubrank/reasoning/words"] = reasoning_words
    metrics["rubrank/answer/words"] = answer_words
    lengths = find_token_lengths(rollouts)
    if lengths is not None:
        metrics["rubrank/reasoning/tokens"] = lengths.reasoning.mean()
        metrics["rubrank/answer/tokens"] = lengths.answer.mean()
    for marker, markers_per_line in zip(MARKERS, features.markdown.mean(0), strict=True):
        metrics[f"rubrank/markdown/{marker}"] = markers_per_line
    metrics |= measure_scores(results, unknown_M, table, groups, shared, lines)
    metrics["rubrank/unknown"] = unknown_M.mean()
    return {name: float(value) for name, value in metrics.items() if np.isfinite(value)}


def measure_criteria(
    results: Sequence[Fused],
    table: ScoreTable,
    rewards: Sequence[Sequence[float]],
    shared: Collection[str],
) -> dict[str, float]:
    """Return what is logged about each shared criterion, and the mean ties and missing scores of the others."""
    # Criterion → its weight in every group in which it has a score
    weights: dict[str, list[float]] = defaultdict(list)
    for result in results:
        batch = result.batch
        shares_NK = np.zeros((batch.N, batch.K))
        if result.fit is None:  # a rule without utilities: its weights are all that is known
            shares_NK[:] = normalise_weights(batch, result.used_weights_NK)
        else:  # RLVR²: how much of the variance of the fused utility each criterion explains
            for g, group in enumerate(result):
                shares_NK[g, result.columns_of(g)] = group.effective_weights
        for k, name in enumerate(batch.names):
            weights[name] += shares_NK[batch.scored_NK[:, k], k].tolist()

    metrics: dict[str, float] = {}
    own_ties = []
    own_missing = []
    for summary in table.summary():
        missing = summary.missing / summary.rollouts if summary.rollouts else np.nan
        if summary.name in shared:
            prefix = f"rubrank/{summary.name}"
            metrics[f"{prefix}/mean"] = summary.mean
            metrics[f"{prefix}/ties"] = summary.tie_rate
            metrics[f"{prefix}/missing"] = missing
            metrics[f"{prefix}/weight"] = _mean(weights[summary.name])
        else:
            own_ties.append(summary.tie_rate)
            own_missing.append(missing)
    metrics["rubrank/own/ties"] = _mean(own_ties)
    metrics["rubrank/own/missing"] = _mean(own_missing)

    scored_groups = [
        (group.criteria, group.scores, group_rewards)
        for group, group_rewards in zip(table.groups, rewards, strict=True)
    ]
    step = 0  # only stored in the figures, where nobody reads it here
    figures = measure_step(step, scored_groups, names=shared)
    for name, (correlation, _) in figures.covariance.items():
        metrics[f"rubrank/{name}/covariance"] = correlation
    return metrics


def measure_fusion(results: Sequence[Fused], shared: Collection[str]) -> dict[str, float]:
    """Return how often gates stopped rollouts, the mean γ̂ of each attribute, and how much the criteria agree."""
    metrics: dict[str, float] = {}
    passed = []
    factors = []
    stopped: Counter[str] = Counter()
    for result in results:
        if result.gate is not None and result.gated is not None:
            passed.append(result.gated.passed)
            factors.append(result.gated.factor)
            counts = result.gated.stopped_by.sum(axis=0).tolist()
            stopped.update(dict(zip(map(str, result.gate.global_quality), counts, strict=True)))
    if passed:
        passed_M = np.concatenate(passed)
        metrics["rubrank/gate/stopped"] = (~passed_M).mean()
        metrics["rubrank/gate/factor"] = np.concatenate(factors).mean()
        for name, count in stopped.items():
            if name in shared:
                metrics[f"rubrank/gate/{name}"] = count / len(passed_M)

    controls = [result.control for result in results if result.control is not None]
    # All parts of a step have the same attributes, whether or not these were removed in each.
    attribute_names = results[0].attribute_names if controls else ()
    for d, name in enumerate(attribute_names):
        removed = []
        for control in controls:
            was_removed_NK = control.taken_NKD[..., d] != 0.0
            removed.append(control.gamma_NKD[..., d][was_removed_NK])
        metrics[f"rubrank/gamma/{name}"] = _mean(np.concatenate(removed))

    metrics["rubrank/groups/no_signal"] = np.concatenate(
        [result.no_signal for result in results]
    ).mean()
    agreements = [result.agreement for result in results if result.agreement is not None]
    if len(agreements) == len(results):  # rules other than RLVR² have no agreement
        metrics["rubrank/groups/agreement"] = _mean(np.concatenate(agreements))
        metrics["rubrank/groups/error"] = _mean(
            np.concatenate([result.error_M for result in results])
        )
    return metrics


def measure_judges(judging: Judgments, totals: dict[str, float]) -> dict[str, float]:
    """Return calls, cost, tokens, latency, and the share of missing answers.

    totals: "cost" and "tokens" of the run so far; those of this step are added.
    """
    account = judging.account
    tokens = float(account.input_tokens + account.output_tokens)
    totals["cost"] += account.cost
    totals["tokens"] += tokens
    metrics: dict[str, float] = {
        "rubrank/judge/calls": float(account.calls),
        "rubrank/judge/hits": float(account.hits),
        "rubrank/judge/cost": float(account.cost),
        "rubrank/judge/tokens": tokens,
        "rubrank/judge/missing": float(judging.missing),
        "rubrank/judge/total_cost": totals["cost"],
        "rubrank/judge/total_tokens": totals["tokens"],
    }
    for percent in (50, 90, 99):
        latency = account.latency(percent / 100)
        if latency is not None:
            metrics[f"rubrank/judge/latency_p{percent}"] = latency
    return metrics


def _mean(values: Iterable[float]) -> float:
    """Return the mean of the values that are not NaN; NaN if there are none."""
    numbers = [value for value in values if not math.isnan(value)]
    return float(np.mean(numbers)) if numbers else math.nan


# -------------------------------------------------------------------------------------------------------- score lines


def measure_scores(
    results: Sequence[Fused],
    unknown_M: np.ndarray,
    table: ScoreTable,
    groups: Sequence[Group],
    shared: Collection[str],
    lines: list[str],
) -> dict[str, float]:
    """Return `rubrank/score` and the lines below it.

    unknown_M: rollouts without any score. lines: those that the run has had so far; new ones are added.
    """
    scores_M = np.concatenate([compute_gated_means(result) for result in results])
    scores_M = np.where(unknown_M, np.nan, scores_M)
    values: dict[str, list[float]] = defaultdict(list)
    start = 0
    for group, scored in zip(groups, table.groups, strict=True):
        # Lines of all criteria: of the run, of the query's source, and of its stage
        end = start + len(scored.scores)
        group_scores = scores_M[start:end].tolist()
        start = end
        values["rubrank/score"] += group_scores
        for kind, name in find_origin(group).items():
            values[_choose_score_line(kind, name, lines)] += group_scores

        # Lines of some criteria: of a category, of a tier, of the shared rubric, or of the query's own
        columns: dict[str, list[int]] = defaultdict(list)
        for k, criterion in enumerate(scored.criteria):
            if criterion.layer != "quality" or criterion.name in scored.outcomes:
                continue
            rubric = "shared" if criterion.name in shared else "own"
            columns[f"rubrank/score/{rubric}"].append(k)
            if criterion.category is not None:
                category = criterion.category[:_MAX_NAME_LENGTH]
                columns[_choose_score_line("category", category, lines)].append(k)
            if criterion.tier is not None:
                columns[_choose_score_line("tier", str(criterion.tier), lines)].append(k)
        unit_GK = scale_scores(scored.criteria, scored.scores)
        weights_K = np.array([criterion.weight for criterion in scored.criteria])
        for line, numbers in columns.items():
            values[line] += _compute_weighted_means(
                unit_GK[:, numbers], weights_K[numbers]
            ).tolist()
    return {line: _mean(line_values) for line, line_values in values.items()}


def compute_gated_means(result: Fused) -> np.ndarray:
    """Return (M,) weighted means of the scores, from 0 to 1, times the gate's factor; NaN for a rollout without any."""
    batch = result.batch.drop_penalties()
    unit_MK = batch.unit_MK
    if batch.outcomes:
        unit_MK = unit_MK.copy()
        for g, k in batch.outcomes:
            unit_MK[batch.starts[g] : batch.starts[g + 1], k] = np.nan
    means_M = _compute_weighted_means(unit_MK, expand_rows(batch.weights_NK, batch))
    gated = result.gated
    if gated is None:
        # The score is gated even if the rule has no gate, so that it can be compared between rules.
        layers = {criterion.name: criterion.layer for criterion in batch.gate_criteria}
        gate = Gate(
            global_quality=[name for name, layer in layers.items() if layer == "global_quality"],
            low_quality=[name for name, layer in layers.items() if layer == "low_quality"],
        )
        in_rubric_MC = batch.gates_in_rubric_NC[batch.group_of_row]
        zeros_M = np.zeros(len(means_M))  # only the gate's decisions are used, not its rewards
        gated = gate(zeros_M, batch.clean_MC, list(layers), in_rubric_MC, batch.starts)
    return np.where(gated.passed, gated.factor * means_M, 0.0)


def _compute_weighted_means(unit_MK: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """Return the weighted means of the rows, leaving NaN out; NaN for a row that contains nothing else."""
    weights_MK = np.where(np.isnan(unit_MK), 0.0, weights)
    total_M = weights_MK.sum(axis=1)
    sum_M = (np.nan_to_num(unit_MK) * weights_MK).sum(axis=1)
    return np.divide(sum_M, total_M, out=np.full(len(unit_MK), np.nan), where=total_M > 0.0)


def _choose_score_line(kind: str, name: str, lines: list[str]) -> str:
    """Return the name of a score line; once a run has `MOST_LINES` of this kind, new names share the line "others"."""
    line = f"{kind}/{name}"
    if line not in lines:
        if sum(earlier.startswith(f"{kind}/") for earlier in lines) >= MOST_LINES:
            return f"rubrank/score/{kind}/others"
        lines.append(line)
    return f"rubrank/score/{line}"


def find_origin(group: Group) -> dict[str, str]:
    """Return the source and the stage of a query, as far as its metadata name them.

    Such as {"source": "chat", "stage": "0"}; long names are cut, because records and lines of the log have them.
    """
    metadata = group.rollouts[0].metadata if group.rollouts else {}
    origin = {}
    for kind, keys in _ORIGIN_KEYS.items():
        names = [metadata[key] for key in keys if metadata.get(key) not in (None, "")]
        if names and isinstance(names[0], str | int):
            origin[kind] = str(names[0])[:_MAX_NAME_LENGTH]
    return origin


# ---------------------------------------------------------------------------------------------- texts about rollouts


@dataclass(frozen=True)
class DisputedRollout:
    """A rollout that is among the best of its group by some criteria, and among the worst by others."""

    group: str
    number: int
    disagreement: float
    """Standard deviation, over the criteria, of its standardised scores (in deviations from the group's mean)."""
    prompt: str
    response: str
    scores: str
    reward: float


def find_disputed(
    table: ScoreTable, groups: Sequence[Group], rewards: Sequence[Sequence[float]], most: int = 3
) -> tuple[DisputedRollout, ...]:
    """Find the rollouts about which the criteria disagree most, at most one per group.

    A rollout's position on a criterion is its score in deviations from the group's mean. The criteria disagree about a
    rollout as much as its positions differ. Criteria on which all rollouts are equal say nothing, and are left out.
    """
    candidates = []
    for g, scored in enumerate(table.groups):
        unit_GK = np.ma.masked_invalid(scale_scores(scored.criteria, scored.scores))
        spread_K = np.ma.masked_less(unit_GK.std(axis=0), 1e-9)
        position_GK = (unit_GK - unit_GK.mean(axis=0)) / spread_K
        spread_G = np.ma.filled(position_GK.std(axis=1), 0.0)
        i = int(spread_G.argmax())
        if spread_G[i] > 0.0:
            candidates.append((float(spread_G[i]), g, i))
    disputed = []
    for disagreement, g, i in sorted(candidates, key=lambda item: (-item[0], item[1]))[:most]:
        rollout = groups[g].rollouts[i]
        disputed.append(
            DisputedRollout(
                group=groups[g].id,
                number=i,
                disagreement=disagreement,
                prompt=rollout.question or "",
                response=rollout.answer,
                scores=_describe_scores(table.groups[g])[i],
                reward=rewards[g][i],
            )
        )
    return tuple(disputed)


def make_completion_columns(
    table: ScoreTable, stopped_by: Sequence[Sequence[Sequence[str]]]
) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Return group, scores and gates of each rollout as texts, for a table of completions."""
    return {
        "rubrank/group": tuple((group.id,) * len(group.scores) for group in table.groups),
        "rubrank/scores": tuple(_describe_scores(group) for group in table.groups),
        "rubrank/stopped_by": tuple(
            tuple(", ".join(gates) for gates in group) for group in stopped_by
        ),
    }


def _describe_scores(group: GroupScores) -> tuple[str, ...]:
    """Describe the scores of each rollout: "WordCount 1, Tone –"; compared criteria have no score and are left out."""
    scored = [(k, name) for k, name in enumerate(group.names) if name not in group.outcomes]
    texts = []
    for row in group.scores.tolist():
        parts = [
            f"{name} –" if math.isnan(row[k]) else f"{name} {row[k]:.4g}" for k, name in scored
        ]
        texts.append(", ".join(parts))
    return tuple(texts)
