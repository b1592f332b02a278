"""What is logged about a step: one flat dict of numbers, and a few texts about every rollout.

    rubrank/score, and below it         how good the policy is, over steps and by source, stage, category, tier:
                                        `progress.py`
    rubrank/<criterion>/mean            of its scores, on its own scale
    rubrank/<criterion>/ties            share of the pairs within groups that it does not tell apart
    rubrank/<criterion>/missing         share of the rollouts asked about that have no score
    rubrank/<criterion>/weight          its share of what decides: of the variance of the fused utility under RLVR², of
                                        the weights that were used under another rule; mean over the groups that ask it
    rubrank/gate/stopped, /factor       share of the rollouts that a hard gate stopped; mean factor of the soft gate
    rubrank/gate/<criterion>            share that this hard gate stopped
    rubrank/gamma/<attribute>           γ̂ of a controlled attribute, as a mean over what tells rollouts apart; so are
    …/se, …/shrunk, …/groups, …/taken   its standard error, γ̃, the groups it comes from, and what was taken out
    rubrank/reasoning/words, rubrank/answer/words, rubrank/markdown/<marker>       means; markers per line
    rubrank/reasoning/tokens, rubrank/answer/tokens                                where the trainer has token ids
    rubrank/groups/no_signal            share of the groups whose rewards are all equal
    rubrank/groups/agreement, /error    how far the criteria say the same; standard error of the fused utility
    rubrank/unknown                     share of the rollouts about which nothing is known
    rubrank/judge/calls, /hits, /cost, /missing, /latency_p50, /latency_p90
    rubrank/judge/waited, /hidden       seconds for which the trainer waited for scores; seconds of judging that passed
                                        while siblings were still being generated
    rubrank/seconds, rubrank/share_of_step           for rewards; and of the time since the last rewards

Only criteria of the rubric that all queries share have lines of their own: where queries bring rubrics there is no end
of names, each met once or twice. Those share `rubrank/own/ties` and `rubrank/own/missing`, means over criteria.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from itertools import pairwise

import numpy as np

from rubrank.fusion.attributes.markdown import MARKERS
from rubrank.fusion.result import Fused
from rubrank.fusion.rules.within import shares
from rubrank.judges.judgments import Judgments
from rubrank.rollouts.rollout import Rollout
from rubrank.scores.summary import CriterionSummary
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.training.controls import token_lengths
from rubrank.training.measuring import Figures
from rubrank.training.parts import FusedPart

OWN = "own"
_P = "rubrank"


def metrics_of(
    parts: Sequence[FusedPart],
    table: ScoreTable,
    rollouts: Sequence[Rollout],
    figures: Figures,
    shared: Collection[str],
) -> dict[str, float]:
    """All numbers of a step that exist; `shared` are the criteria with lines of their own."""
    results = [one.result for one in parts]
    found = {
        **_criteria(table.summary(), _weights(results, shared), shared),
        **_gates(results, shared),
        **_attributes(results),
        **_texts(rollouts, figures),
        f"{_P}/groups/no_signal": float(np.concatenate([result.no_signal for result in results]).mean()),
        **_agreement(results),
        **_judging(table.judging),
    }
    return {name: float(value) for name, value in found.items() if np.isfinite(value)}


# ------------------------------------------------------------------------------------------------------------ criteria


def _criteria(
    summaries: Iterable[CriterionSummary], weights: Mapping[str, float], shared: Collection[str]
) -> dict[str, float]:
    found: dict[str, float] = {}
    own: dict[str, list[float]] = {"ties": [], "missing": []}
    for one in summaries:
        missing = one.missing / one.rollouts if one.rollouts else np.nan
        if one.name in shared:
            values = {
                "mean": one.mean,
                "ties": one.tie_rate,
                "missing": missing,
                "weight": weights.get(one.name, np.nan),
            }
            found |= {f"{_P}/{one.name}/{what}": value for what, value in values.items()}
        else:
            own["ties"].append(one.tie_rate)
            own["missing"].append(missing)
    known = {what: [value for value in values if np.isfinite(value)] for what, values in own.items()}
    return found | {f"{_P}/{OWN}/{what}": float(np.mean(values)) for what, values in known.items() if values}


def _weights(results: Sequence[Fused], shared: Collection[str]) -> dict[str, float]:
    """Shared criterion → its effective weight, mean over the groups that ask it."""
    total, asking = dict.fromkeys(shared, 0.0), dict.fromkeys(shared, 0)
    for result in results:
        batch = result.batch
        if result.fit is None:
            shares_NK = np.broadcast_to(shares(batch, result.used_weights_NK), (batch.N, batch.K))
        else:
            shares_NK = np.array([group.effective_weights for group in result]).reshape(batch.N, batch.K)
        asked = batch.asked_NK
        sums = np.where(asked, shares_NK, 0.0).sum(0)
        for name, added, groups in zip(batch.names, sums.tolist(), asked.sum(0).tolist(), strict=True):
            if name in total:
                total[name] += added
                asking[name] += groups
    return {name: total[name] / groups for name, groups in asking.items() if groups}


def _agreement(results: Sequence[Fused]) -> dict[str, float]:
    """Means over the groups in which at least two criteria say anything."""
    if any(result.agreement is None for result in results):
        return {}
    each = {
        "groups/agreement": np.concatenate([result.agreement for result in results]),
        "groups/error": np.concatenate([result.error_M for result in results]),
    }
    return {f"{_P}/{name}": float(x[~np.isnan(x)].mean()) for name, x in each.items() if not np.isnan(x).all()}


def _gates(results: Sequence[Fused], shared: Collection[str]) -> dict[str, float]:
    gated = [result.gated for result in results if result.gated is not None]
    if not gated:
        return {}
    found = {
        f"{_P}/gate/stopped": (~np.concatenate([one.passed for one in gated])).mean(),
        f"{_P}/gate/factor": np.concatenate([one.factor for one in gated]).mean(),
    }
    stopped: dict[str, int] = {}
    for result in results:
        if result.gate is not None and result.gated is not None:
            for name, by_M in zip(result.gate.global_quality, result.gated.stopped_by.T, strict=True):
                stopped[str(name)] = stopped.get(str(name), 0) + int(by_M.sum())
    rollouts = sum(len(one.passed) for one in gated)
    return found | {f"{_P}/gate/{name}": count / rollouts for name, count in stopped.items() if name in shared}


# ---------------------------------------------------------------------------------------------------------- attributes


def _attributes(results: Sequence[Fused]) -> dict[str, float]:
    controls = [(result.control, result.batch) for result in results if result.control is not None]
    # elsewhere there is nothing to explain, and γ is 0
    told = [(control, batch.informative_NK & (control.n_NK > 0)) for control, batch in controls]
    if not any(telling.any() for _, telling in told):
        return {}
    groups = float(np.concatenate([control.n_NK[telling] for control, telling in told]).mean())
    names = results[0].attribute_names
    parts = {"": "gamma_NKD", "/se": "se_NKD", "/shrunk": "shrunk_NKD", "/taken": "taken_NKD"}
    found: dict[str, float] = {}
    for what, field in parts.items():
        values = np.concatenate([getattr(control, field)[telling] for control, telling in told])
        found |= {f"{_P}/gamma/{name}{what}": float(values[:, d].mean()) for d, name in enumerate(names)}
    return found | {f"{_P}/gamma/{name}/groups": groups for name in names}


def _texts(rollouts: Sequence[Rollout], figures: Figures) -> dict[str, float]:
    reasoning, answer = figures.words.mean(0)
    return {
        f"{_P}/reasoning/words": reasoning,
        f"{_P}/answer/words": answer,
        **_tokens(rollouts),
        **{f"{_P}/markdown/{name}": value for name, value in zip(MARKERS, figures.markdown.mean(0), strict=True)},
    }


def _tokens(rollouts: Sequence[Rollout]) -> dict[str, float]:
    length = token_lengths(rollouts)
    if length is None:
        return {}
    return {f"{_P}/reasoning/tokens": length.reasoning.mean(), f"{_P}/answer/tokens": length.answer.mean()}


def _judging(judging: Judgments | None) -> dict[str, float]:
    if judging is None:
        return {}
    account = judging.account
    found = {"calls": account.calls, "hits": account.hits, "cost": account.cost, "missing": judging.missing}
    latencies = {"latency_p50": account.latency(0.5), "latency_p90": account.latency(0.9)}
    found |= {name: np.nan if value is None else value for name, value in latencies.items()}
    return {f"{_P}/judge/{name}": float(value) for name, value in found.items()}


# ------------------------------------------------------------------------------------------------ about every rollout


def texts_of(parts: Sequence[FusedPart], table: ScoreTable) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Group, scores and gate of every rollout, for a reader."""
    return {
        f"{_P}/group": tuple((group.id,) * len(group.scores) for group in table.groups),
        f"{_P}/scores": tuple(_scores(group) for group in table.groups),
        **stopped_of(parts),
    }


def stopped_of(parts: Sequence[FusedPart]) -> dict[str, tuple[tuple[str, ...], ...]]:
    """The gates that stopped each rollout, for a reader."""
    return {f"{_P}/stopped_by": tuple(stopped for one in parts for stopped in _stopped(one.result))}


def _stopped(result: Fused) -> Iterator[tuple[str, ...]]:
    batch = result.batch
    stopped: Sequence[str] = [""] * len(batch.scores_MK)
    if result.gate is not None and result.gated is not None:
        names = [str(name) for name in result.gate.global_quality]
        rows = result.gated.stopped_by.tolist()
        stopped = [
            ", ".join(name for name, by in zip(names, row, strict=True) if by) if any(row) else "" for row in rows
        ]
    return (tuple(stopped[first:end]) for first, end in pairwise(batch.starts.tolist()))


def _scores(group: GroupScores) -> tuple[str, ...]:
    """Such as "WordCount 1, Tone –"; what was compared has no score, and is left out."""
    shown = [(k, name) for k, name in enumerate(group.names) if name not in group.outcomes]
    rows = group.scores.tolist()
    return tuple(", ".join([f"{name} {_number(row[k])}" for k, name in shown]) for row in rows)


def _number(score: float) -> str:
    return "–" if score != score else f"{score:.4g}"
