"""One rollout's reward in words.

rollout 3 of group query-17: reward 0.62, 3rd of 8
  CoreFactAccuracy (weight 2): 1; beats 0, 2, 5; ties 1; loses to 4, 6, 7 → +0.58
  Keyword: ties all
  Tone: not scored
  together: +1.06 (se 0.41); agreement of the criteria 0.55
  reasoning tokens: 905, more than its group; γ on Clarity +0.42 (se 0.05, 128 groups); taken out of 3 criteria
  attributes: taking them out made −0.31
  gate: passed
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from rubrank.fusion.group import FusedGroup

_PLACES = 7  # beyond these, rounding decides who is ahead
_SMALL = 0.005  # printed with two decimals, anything below would read as 0.00


def explain_rollout(group: FusedGroup, i: int) -> str:
    """The lines above, for rollout i of a group."""
    lines = [_headline(group, i)]
    found = (*_criteria(group, i), *_together(group, i), *_attributes(group, i), *_gate(group, i))
    lines += [f"  {line}" for line in found]
    return "\n".join(lines)


def _headline(group: FusedGroup, i: int) -> str:
    reward, G = np.round(group.reward, _PLACES), len(group.reward)
    better, same = int((reward > reward[i]).sum()), int((reward == reward[i]).sum())
    if group.no_signal:
        why = "same as all others: nothing tells them apart" if G > 1 else "alone in its group: nothing to compare with"
        return f"rollout {i} of group {group.label}: reward {reward[i]:.2f}, {why}"
    tied = f", with {same - 1} other{'s' if same > 2 else ''}" if same > 1 else ""
    return f"rollout {i} of group {group.label}: reward {reward[i]:.2f}, {_ordinal(better + 1)} of {G}{tied}"


def _criteria(group: FusedGroup, i: int) -> Iterator[str]:
    parts = group.weights * group.values
    order = np.argsort(-np.round(np.abs(parts[i]), _PLACES - 1), kind="stable")  # what mattered most comes first
    for k in order:
        if group.missing[k] == len(group.reward):
            continue  # no rollout was scored: another query's criterion
        name = group.criteria[k]
        weight = f" (weight {group.weights[k]:g})" if group.weights[k] != 1.0 else ""
        if not group.known[i, k]:
            yield f"{name}{weight}: {'' if k in group.compared else 'not scored, so '}not compared"
            continue
        share = f" → {parts[i, k]:+.2f}" if abs(parts[i, k]) >= _SMALL else ""
        score = "" if k in group.compared else f"{group.scores[i, k]:g}; "
        yield f"{name}{weight}: {score}{_against(group.outcomes[i, :, k], i)}{share}"


def _together(group: FusedGroup, i: int) -> Iterator[str]:
    """The weighted sum, how far to trust it, and how far the criteria say the same; where two or more say anything."""
    if group.error is None or np.isnan(group.agreement) or np.isnan(group.error[i]):
        return
    total = round(float((group.weights * group.values[i]).sum()), _PLACES) + 0.0  # −0 is 0
    yield f"together: {total:+.2f} (se {group.error[i]:.2f}); agreement of the criteria {group.agreement:.2f}"


def _against(outcome: np.ndarray, i: int) -> str:
    others = [j for j in range(len(outcome)) if j != i and not np.isnan(outcome[j])]
    if not others:
        return "nothing to compare with"
    won, lost = [j for j in others if outcome[j] > 0.5], [j for j in others if outcome[j] < 0.5]
    tied = [j for j in others if outcome[j] == 0.5]
    for verb, found in (("beats", won), ("ties", tied), ("loses to", lost)):
        if len(found) == len(outcome) - 1:
            return f"{verb} all"
    phrases = [
        f"{verb} {_numbers(found)}" for verb, found in (("beats", won), ("ties", tied), ("loses to", lost)) if found
    ]
    return "; ".join(phrases)


def _numbers(found: list[int]) -> str:
    return ", ".join(map(str, found[:12])) + (f" and {len(found) - 12} more" if len(found) > 12 else "")


def _attributes(group: FusedGroup, i: int) -> Iterator[str]:
    """How much the rollout has of each attribute, where that mattered most, and what taking it out made."""
    if group.gamma is None or group.mean_contrasts is None or group.taken is None or group.attributes is None:
        return
    for d, name in enumerate(group.attribute_names):
        contrast = group.mean_contrasts[i, d]
        than = "as much as" if abs(contrast) < _SMALL else "more than" if contrast > 0.0 else "less than"
        yield f"{name}: {group.attributes[i, d]:g}, {than} its group; {_taken(group, d)}"
    made = (group.weights * (group.values[i] - group.scale * group.utilities[i])).sum()
    if abs(made) >= _SMALL:
        letter = " (as in the paper: by this group alone)" if group.pool == "group" else ""
        yield f"attributes: taking them out made {made:+.2f}{letter}"


def _taken(group: FusedGroup, d: int) -> str:
    assert group.taken is not None
    taken_K = np.where(group.constant, 0.0, group.taken[:, d])
    count = int((taken_K != 0.0).sum())
    if not count:
        return "nothing taken out"
    k = int(np.argmax(np.abs(group.weights * taken_K)))
    where = "1 criterion" if count == 1 else f"{count} criteria"
    return f"{_coefficient(group, k, d)}; taken out of {where}"


def _coefficient(group: FusedGroup, k: int, d: int) -> str:
    """Such as "γ on Clarity +0.42 (se 0.05, 128 groups)"."""
    assert group.gamma is not None
    assert group.se is not None
    assert group.n is not None
    text = f"γ on {group.criteria[k]} {group.gamma[k, d]:+.2f}"
    return text if np.isnan(group.se[k, d]) else f"{text} (se {group.se[k, d]:.2f}, {group.n[k]:.0f} groups)"


def _gate(group: FusedGroup, i: int) -> Iterator[str]:
    if group.gate is None or group.gated is None or not (group.gate.global_quality or group.gate.low_quality):
        return
    if not group.gated.passed[i]:
        stopped = [
            str(name) for name, hit in zip(group.gate.global_quality, group.gated.stopped_by[i], strict=True) if hit
        ]
        yield f"gate: stopped by {', '.join(stopped)}, so the reward is 0 instead of {group.ranking[i]:.2f}"
    elif group.gated.factor[i] < 1.0:
        yield (
            f"gate: low quality {group.gated.low_quality[i]:.2f} (1 = clean), "
            f"so {group.gated.lifted[i]:.2f} is multiplied by {group.gated.factor[i]:.2f}"
        )
    else:
        unknown = f" ({group.gated.missing[i]} of its scores missing)" if group.gated.missing[i] else ""
        yield f"gate: passed{unknown}{_lifted(group, i)}"


def _lifted(group: FusedGroup, i: int) -> str:
    """What the stretch over those that passed made of the ranking, where one can see it."""
    assert group.gated is not None
    ranked, lifted = f"{group.ranking[i]:.2f}", f"{group.gated.lifted[i]:.2f}"
    return "" if ranked == lifted else f"; {ranked} becomes {lifted}, above every rollout that was stopped"


def _ordinal(n: int) -> str:
    suffix = "th" if 10 <= n % 100 <= 20 else {1: "st", 2: "nd", 3: "rd"}.get(n % 10, "th")
    return f"{n}{suffix}"
