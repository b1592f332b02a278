"""Explain a group: a rollout's reward in words, and the record of the group as plain data.

rollout 3 of group query-17: reward 0.62, 3rd of 8
  CoreFactAccuracy (weight 2): 1; beats 0, 2, 5; ties 1; loses to 4, 6, 7 → +0.58
  Keyword: ties all
  Tone: not scored
  together: +1.06 (se 0.41); agreement of the criteria 0.55
  reasoning tokens: 905, more than its group; γ on Clarity +0.42 (se 0.05, 128 groups); taken out of 3 criteria
  attributes: taking them out changed the sum by −0.31
  gate: passed
  watched, not rewarded: TestsPass 0

Letters at the end of a name are the axes of an array: G rollouts of the group, K criteria that rank them, C gate
criteria.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from rubrank.errors import counted

if TYPE_CHECKING:
    from rubrank.fusion.group import FusedGroup
    from rubrank.fusion.result import Fused

_DECIMALS = 7  # that count: smaller differences are rounding errors
_LEAST_SHOWN = 0.005  # printed with two decimals, anything below would read as 0.00
_MOST_LISTED = 12  # rollouts that a line lists before "and 5 more"


# ------------------------------------------------------------------------------------------------------------- in words


def explain_rollout(group: FusedGroup, i: int) -> str:
    """Return the lines of the example above, for rollout i of a group."""
    lines = [
        _explain_reward(group, i),
        *_explain_criteria(group, i),
        *_explain_sum(group, i),
        *_explain_attributes(group, i),
        *_explain_gate(group, i),
    ]
    if group.watched:
        scores = []
        for name, scores_G in group.watched.items():
            score = "not scored" if np.isnan(scores_G[i]) else f"{scores_G[i]:g}"
            scores.append(f"{name} {score}")
        lines.append(f"watched, not rewarded: {', '.join(scores)}")
    return "\n  ".join(lines)


def _explain_reward(group: FusedGroup, i: int) -> str:
    """Return the first line: the reward and its rank in the group."""
    reward = np.round(group.reward, _DECIMALS)
    start = f"rollout {i} of group {group.label}: reward {reward[i]:.2f}"
    if group.no_signal and len(reward) > 1:
        return f"{start}, same as all others: nothing tells them apart"
    if group.no_signal:
        return f"{start}, alone in its group: nothing to compare with"
    rank = int((reward > reward[i]).sum()) + 1
    tied = int((reward == reward[i]).sum()) - 1
    text = f"{start}, {_write_ordinal(rank)} of {len(reward)}"
    if tied:
        text += f", with {tied} other{'s' if tied > 1 else ''}"
    return text


def _write_ordinal(n: int) -> str:
    """Write 1 as "1st", 12 as "12th", 23 as "23rd"."""
    if 10 <= n % 100 <= 20:
        return f"{n}th"
    suffix = {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{suffix}"


def _explain_criteria(group: FusedGroup, i: int) -> Iterator[str]:
    """Yield a line for each criterion: the score, who it beats or loses to, and what it adds to the sum."""
    parts_K = np.zeros(len(group.criteria)) if group.parts is None else group.parts[i]
    # What mattered most comes first.
    order = np.argsort(-np.round(np.abs(parts_K), _DECIMALS - 1), kind="stable")
    for k in order:
        if group.missing[k] == len(group.reward):
            continue  # no rollout was scored: a criterion of another query
        name = group.criteria[k]
        if group.weights[k] != 1.0:
            name += f" (weight {group.weights[k]:g})"
        was_scored = k not in group.compared
        if not group.known[i, k]:
            reason = "not scored, so not compared" if was_scored else "not compared"
            yield f"{name}: {reason}"
            continue
        score = f"{group.scores[i, k]:g}; " if was_scored else ""
        if was_scored and group.ranked_scores is not None:
            ranked_score = group.ranked_scores[i, k]
            if ranked_score != group.scores[i, k]:
                score = f"{group.scores[i, k]:g}, ranked as {ranked_score:.3g}; "
        outcomes = _describe_outcomes(group.outcomes[i, :, k], i)
        contribution = f" → {parts_K[k]:+.2f}" if abs(parts_K[k]) >= _LEAST_SHOWN else ""
        yield f"{name}: {score}{outcomes}{contribution}"


def _describe_outcomes(outcome_G: np.ndarray, i: int) -> str:
    """Return a text such as "beats 0, 2, 5; ties 1".

    "ahead of 3 (0.70)": the judge is only 70% sure that it beats 3, or said so 7 of 10 times.
    """
    opponents_of_verb: dict[str, list[str]] = {
        "beats": [],
        "ahead of": [],
        "ties": [],
        "behind": [],
        "loses to": [],
    }
    for j, outcome in enumerate(outcome_G.tolist()):
        if j == i or np.isnan(outcome):
            continue
        verb = {1.0: "beats", 0.5: "ties", 0.0: "loses to"}.get(outcome)
        if verb is not None:
            opponents_of_verb[verb].append(str(j))
        else:
            opponents_of_verb["ahead of" if outcome > 0.5 else "behind"].append(
                f"{j} ({outcome:.2f})"
            )
    phrases = []
    for verb, names in opponents_of_verb.items():
        if len(names) == len(outcome_G) - 1 and verb in ("beats", "ties", "loses to") and names:
            return f"{verb} all"
        if names:
            phrase = f"{verb} {', '.join(names[:_MOST_LISTED])}"
            if len(names) > _MOST_LISTED:
                phrase += f" and {len(names) - _MOST_LISTED} more"
            phrases.append(phrase)
    return "; ".join(phrases) or "nothing to compare with"


def _explain_sum(group: FusedGroup, i: int) -> Iterator[str]:
    """Yield the weighted sum and how far to trust it, if at least two criteria tell rollouts apart."""
    if group.parts is None or group.error is None or group.agreement is None:
        return  # a rule without utilities
    if np.isnan(group.agreement) or np.isnan(group.error[i]):
        return
    # Adding 0.0 turns −0.0 into 0.0.
    total = round(float(group.parts[i].sum()), _DECIMALS) + 0.0
    yield f"together: {total:+.2f} (se {group.error[i]:.2f}); agreement of the criteria {group.agreement:.2f}"


def _explain_attributes(group: FusedGroup, i: int) -> Iterator[str]:
    """Yield the value of each attribute and the criterion it affected most, then what taking attributes out changed."""
    if group.mean_contrasts is None or group.attributes is None:
        return
    for d, name in enumerate(group.attribute_names):
        contrast = group.mean_contrasts[i, d]
        comparison = "more than" if contrast > 0.0 else "less than"
        if abs(contrast) < _LEAST_SHOWN:
            comparison = "as much as"
        yield f"{name}: {group.attributes[i, d]:g}, {comparison} its group; {_describe_taken(group, d)}"
    if group.utilities is None or group.values is None:  # a rule that adds up scores
        assert group.taken is not None
        removed_K = np.where(group.known[i], group.taken @ group.mean_contrasts[i], 0.0)
        total_weight = np.abs(group.weights[group.known[i]]).sum()
        change = -(group.weights * removed_K).sum() / total_weight if total_weight else 0.0
        if abs(change) >= _LEAST_SHOWN:
            yield f"attributes: taking them out changed its mean score by {change:+.2f}"
        return
    uncontrolled_K = group.scale * group.utilities[i]
    change = (group.weights * (group.values[i] - uncontrolled_K)).sum()
    if abs(change) >= _LEAST_SHOWN:
        how = " (as in the paper: by this group alone)" if group.pool == "group" else ""
        yield f"attributes: taking them out changed the sum by {change:+.2f}{how}"


def _describe_taken(group: FusedGroup, d: int) -> str:
    """Return a text such as "γ on Clarity +0.42 (se 0.05, 128 groups); taken out of 3 criteria"."""
    assert group.gamma is not None
    assert group.se is not None
    assert group.n is not None
    assert group.taken is not None
    taken_K = np.where(group.constant, 0.0, group.taken[:, d])
    count = int((taken_K != 0.0).sum())
    if not count:
        return "nothing taken out"
    k = int(np.argmax(np.abs(group.weights * taken_K)))
    coefficient = f"γ on {group.criteria[k]} {group.gamma[k, d]:+.2f}"
    if not np.isnan(group.se[k, d]):
        coefficient += f" (se {group.se[k, d]:.2f}, {group.n[k]:.0f} groups)"
    return f"{coefficient}; taken out of {counted(count, 'criterion')}"


def _explain_gate(group: FusedGroup, i: int) -> Iterator[str]:
    """Yield what the gate decided; nothing if the group has no gate criteria."""
    gate = group.gate
    gated = group.gated
    if gate is None or gated is None or not (gate.global_quality or gate.low_quality):
        return
    before = f"{group.ranking[i]:.2f}"
    lifted = f"{gated.lifted[i]:.2f}"
    if not gated.passed[i]:
        pairs = zip(gate.global_quality, gated.stopped_by[i], strict=True)
        names = ", ".join(str(name) for name, is_stopped in pairs if is_stopped)
        yield f"gate: stopped by {names}, so the reward is 0 instead of {before}"
    elif gated.factor[i] < 1.0:
        yield (
            f"gate: low quality {gated.low_quality[i]:.2f} (1 = clean), "
            f"so {lifted} is multiplied by {gated.factor[i]:.2f}"
        )
    else:
        text = "gate: passed"
        if gated.missing[i]:
            text += f" ({gated.missing[i]} of its scores missing)"
        if lifted != before:
            text += f"; {before} becomes {lifted}, above every rollout that was stopped"
        yield text


# ----------------------------------------------------------------------------------------------------------- as records


# Arrays of a group that a record holds under the same names; None stays None.
_UTILITY_ARRAYS = ("utilities", "values", "scale", "fused", "effective_weights", "error")
_CONTROL_ARRAYS = ("mean_contrasts", "gamma", "se", "shrunk", "taken", "n")


def make_record(fused: Fused, g: int) -> dict[str, Any]:
    """Return everything between the scores of a group and its rewards, as tuples, numbers and names; None = unknown.

    The criteria are those of the group's rubric: first the ranked ones, then the gates.
    """
    batch = fused.batch
    group = fused.group(g)
    rubric = batch.criteria + batch.gate_criteria
    if batch.group_rubrics is not None:
        rubric = batch.group_rubrics[g]
    criterion_of = {criterion.name: criterion for criterion in rubric}
    names = list(group.criteria)
    scores = group.scores
    for c, gate_criterion in enumerate(batch.gate_criteria):
        # A penalty that is ranked is among the gate criteria too.
        if gate_criterion.name in criterion_of and gate_criterion.name not in names:
            assert batch.gates_MC is not None
            names.append(gate_criterion.name)
            scores = np.column_stack([scores, batch.gates_MC[fused.rows_of(g), c]])
    probabilities = {}
    for k in fused.columns_of(g):
        if (g, k) in batch.probabilities:
            probabilities[batch.names[k]] = batch.probabilities[g, k]
    record: dict[str, Any] = {
        "group": str(group.label),
        "rule": fused.rule,
        "criteria": tuple(criterion_of[name] for name in names),
        "scores": _list(scores),
        "outcomes": {names[k]: _list(outcome) for k, outcome in group.compared.items()},
        "soft_outcomes": {names[k]: _list(outcome) for k, outcome in group.soft.items()},
        "probabilities": probabilities,
        "weights": _list(group.weights),
        "ranking": _list(group.ranking),
        "reward": _list(group.reward),
        "no_signal": group.no_signal,
        "flags": group.flags,
        "gate": None,
        "attribute_names": fused.attribute_names,
        "attributes": _list(group.attributes),
        "ranked_scores": _list(group.ranked_scores),
        "pool": group.pool,
        "agreement": group.agreement,
    }
    if group.agreement is not None and np.isnan(group.agreement):
        record["agreement"] = None  # JSON has no NaN
    if group.gate is not None and group.gated is not None:
        gated = group.gated
        gate_names = np.array([str(name) for name in group.gate.global_quality], dtype=object)
        record["gate"] = {
            "passed": tuple(gated.passed.tolist()),
            "factor": _list(gated.factor),
            "low_quality": _list(gated.low_quality),
            "stopped_by": tuple(tuple(gate_names[row]) for row in gated.stopped_by),
            "missing": tuple(int(n) for n in gated.missing),
            "lifted": _list(gated.lifted),
        }
    for name in (*_UTILITY_ARRAYS, *_CONTROL_ARRAYS):
        record[name] = _list(getattr(group, name))
    return record


def _list(values: np.ndarray | None) -> tuple[Any, ...] | None:
    """Return the numbers (n,), or the rows of numbers (n, m), with None for NaN: JSON has no NaN."""
    if values is None:
        return None
    if np.ndim(values) > 1:
        return tuple(_list(row) for row in values)
    numbers = np.asarray(values, dtype=float).tolist()
    return tuple(None if number != number else number for number in numbers)
