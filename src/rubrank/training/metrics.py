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

from collections.abc import Collection, Iterable, Mapping, Sequence
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

OWN = "own"
_P = "rubrank"


def metrics_of(
    result: Fused, table: ScoreTable, rollouts: Sequence[Rollout], figures: Figures, shared: Collection[str]
) -> dict[str, float]:
    """All numbers of a step that exist; `shared` are the criteria with lines of their own."""
    found = {
        **_criteria(table.summary(), _weights(result), shared),
        **_gates(result, shared),
        **_attributes(result),
        **_texts(rollouts, figures),
        f"{_P}/groups/no_signal": float(result.no_signal.mean()),
        **_agreement(result),
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


def _weights(result: Fused) -> dict[str, float]:
    """Criterion → its effective weight, mean over the groups that ask it."""
    batch = result.batch
    if result.fit is None:
        shares_NK = np.broadcast_to(shares(batch, result.used_weights_NK), (batch.N, batch.K))
    else:
        shares_NK = np.array([group.effective_weights for group in result]).reshape(batch.N, batch.K)
    asked = batch.asked_NK
    total = np.where(asked, shares_NK, 0.0).sum(0)
    mean = np.divide(total, asked.sum(0), out=np.full(batch.K, np.nan), where=asked.any(0))
    return dict(zip(batch.names, mean.tolist(), strict=True))


def _agreement(result: Fused) -> dict[str, float]:
    """Means over the groups in which at least two criteria say anything."""
    if result.agreement is None:
        return {}
    each = {"groups/agreement": result.agreement, "groups/error": result.error_M}
    return {f"{_P}/{name}": float(x[~np.isnan(x)].mean()) for name, x in each.items() if not np.isnan(x).all()}


def _gates(result: Fused, shared: Collection[str]) -> dict[str, float]:
    gate, gated = result.gate, result.gated
    if gate is None or gated is None:
        return {}
    found = {f"{_P}/gate/stopped": (~gated.passed).mean(), f"{_P}/gate/factor": gated.factor.mean()}
    stopped = gated.stopped_by.mean(0) if len(gate.global_quality) else ()
    named = zip(gate.global_quality, stopped, strict=True)
    return found | {f"{_P}/gate/{name}": rate for name, rate in named if name in shared}


# ---------------------------------------------------------------------------------------------------------- attributes


def _attributes(result: Fused) -> dict[str, float]:
    control = result.control
    if control is None:
        return {}
    telling = result.batch.informative_NK & (control.n_NK > 0)  # elsewhere there is nothing to explain, and γ is 0
    if not telling.any():
        return {}
    groups = float(control.n_NK[telling].mean())
    parts = {
        "": control.gamma_NKD,
        "/se": control.se_NKD,
        "/shrunk": control.shrunk_NKD,
        "/taken": control.taken_NKD,
    }
    found: dict[str, float] = {}
    for d, name in enumerate(result.attribute_names):
        found |= {f"{_P}/gamma/{name}{what}": float(values[telling][:, d].mean()) for what, values in parts.items()}
        found[f"{_P}/gamma/{name}/groups"] = groups
    return found


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


def texts_of(result: Fused, table: ScoreTable) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Group, scores and gate of every rollout, for a reader."""
    return {
        f"{_P}/group": tuple((group.id,) * len(group.scores) for group in table.groups),
        f"{_P}/scores": tuple(_scores(group) for group in table.groups),
        **stopped_of(result),
    }


def stopped_of(result: Fused) -> dict[str, tuple[tuple[str, ...], ...]]:
    """The gates that stopped each rollout, for a reader."""
    batch = result.batch
    stopped: Sequence[str] = [""] * len(batch.scores_MK)
    if result.gate is not None and result.gated is not None:
        names = [str(name) for name in result.gate.global_quality]
        rows = result.gated.stopped_by.tolist()
        stopped = [
            ", ".join(name for name, by in zip(names, row, strict=True) if by) if any(row) else "" for row in rows
        ]
    cuts = pairwise(batch.starts.tolist())
    return {f"{_P}/stopped_by": tuple(tuple(stopped[first:end]) for first, end in cuts)}


def _scores(group: GroupScores) -> tuple[str, ...]:
    """Such as "WordCount 1, Tone –"; what was compared has no score, and is left out."""
    shown = [(k, name) for k, name in enumerate(group.names) if name not in group.outcomes]
    rows = group.scores.tolist()
    return tuple(", ".join([f"{name} {_number(row[k])}" for k, name in shown]) for row in rows)


def _number(score: float) -> str:
    return "–" if score != score else f"{score:.4g}"
