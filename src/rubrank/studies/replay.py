"""Fuse the same logged rollouts under many rules, to see which rewards would differ, and why.

    result = replay(read_scores("scores.parquet"), ["rlvr2+", "gdpo+", "focal+", "rule-fusion"])
    result.kendall                          (rules, rules): how alike they rank within groups
    result["gdpo+"].influence               how much each criterion moves that rule
    result["gdpo+"].follows                 its correlation with length and Markdown, within groups

Nothing is sampled: the table has the score of every rollout on every criterion, and each rule fuses these scores.
Rules that look at a whole batch or have a memory (GDPO, AMRP …) see `step` groups at a time, in the order of the table.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, fields, is_dataclass, replace
from typing import Any

import numpy as np

from rubrank._plain import plain
from rubrank._plugins import is_from_library
from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.fusion.control.estimate import RunningEstimate
from rubrank.fusion.models.graded import RecentScores
from rubrank.fusion.options import make_fuse_rule
from rubrank.fusion.rule import Rule, Stateful, apply_rule
from rubrank.fusion.rules import find_rule
from rubrank.options import FuseOptions
from rubrank.records.agreement import (
    RankedRewards,
    compare_rules,
    compute_mean,
    find_rows_by_size,
    measure_spearman,
    rank_rewards,
)
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.spread import find_no_signal
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.studies.logged import Logged, make_batch
from rubrank.studies.overhead import measure_best_seconds

STEP = 128
"""Groups in a step by default."""

_QUANTILES = (0.0, 0.25, 0.5, 0.75, 1.0)
_TIMING_ROUNDS = 2


@dataclass(frozen=True, eq=False)
class RuleReplay:
    """The rewards of one rule, and what influences them."""

    rule: str
    reward: np.ndarray
    """(M,), in the order of the table."""
    no_signal: np.ndarray
    """(N,): groups in which all rewards are equal."""
    winner: np.ndarray
    """(N,): the number of the best rollout; −1 if several are equally good."""
    effective: np.ndarray
    """(K,): each criterion's share in the variance of the rewards within groups; see `effective_weights`."""
    influence: np.ndarray
    """(K,): 1 − mean Spearman between the rewards with and without the criterion: 0 = it changes no order."""
    follows: np.ndarray
    """(D,): mean Spearman between the reward and each attribute, within groups."""
    seconds: float
    """Time to fuse one step."""

    @property
    def quantiles(self) -> tuple[float, ...]:
        """Smallest, quartiles, largest reward."""
        return tuple(np.quantile(self.reward, _QUANTILES).tolist()) if len(self.reward) else ()

    def as_dict(self) -> dict[str, Any]:
        """Return figures as plain data for JSON; rewards are left out."""
        return {
            "rule": self.rule,
            "mean": plain(self.reward.mean()) if len(self.reward) else None,
            "std": plain(self.reward.std()) if len(self.reward) else None,
            "quantiles": list(self.quantiles),
            "no_signal": int(self.no_signal.sum()),
            "seconds_per_step": self.seconds,
        }


@dataclass(frozen=True, eq=False)
class Replay:
    """All rules, and how alike they are."""

    rules: tuple[RuleReplay, ...]
    criteria: tuple[str, ...]
    nominal: np.ndarray
    """(K,): mean weight of each criterion in the rubrics, as a share of all."""
    attributes: tuple[str, ...]
    groups: tuple[str, ...]
    step: int
    kendall: np.ndarray
    """(R, R): mean Kendall τ-b within groups. Groups that one of the two rules leaves tied do not count."""
    spearman: np.ndarray
    """(R, R): mean Spearman correlation of the same groups."""
    signs: np.ndarray
    """(R, R): share of rollouts on the same side of their group's mean."""
    same_winner: np.ndarray
    """(R, R): share of the same groups in which a rollout is best under both rules."""

    def __getitem__(self, rule: str) -> RuleReplay:
        """Return the result of one rule."""
        for rule_replay in self.rules:
            if rule_replay.rule == rule:
                return rule_replay
        raise UnknownName.of(
            "Replay", "rule", rule, [rule_replay.rule for rule_replay in self.rules]
        )

    @property
    def names(self) -> tuple[str, ...]:
        """The labels of the rules."""
        return tuple(rule_replay.rule for rule_replay in self.rules)

    def as_dict(self) -> dict[str, Any]:
        """Return everything as plain data for JSON, with the figures of criteria and attributes by name."""
        rules = []
        for rule in self.rules:
            data = rule.as_dict()
            data["effective"] = _name_values(self.criteria, rule.effective)
            data["influence"] = _name_values(self.criteria, rule.influence)
            data["follows"] = _name_values(self.attributes, rule.follows)
            rules.append(data)
        matrices = ("kendall", "spearman", "signs", "same_winner")
        return {
            "groups": len(self.groups),
            "step": self.step,
            "nominal": _name_values(self.criteria, self.nominal),
            "rules": rules,
            **{name: plain(getattr(self, name)) for name in matrices},
        }


def _name_values(names: Sequence[str], values: np.ndarray) -> dict[str, float | None]:
    return dict(zip(names, plain(values), strict=True))


@only_our_errors
def replay(
    table: ScoreTable,
    rules: Sequence[str | Rule],
    *,
    options: FuseOptions | None = None,
    transforms: Sequence[str | Transform] = (),
    attributes: Any = None,
    attribute_names: Sequence[str] = (),
    step: int = STEP,
    progress: Callable[[int, int], None] | None = None,
) -> Replay:
    """Fuse the table under every rule.

    options: options of the fusion. Each rule takes those that it has; the attributes named there are adjusted for.
    transforms: maps of single criteria, such as "IFBench*10"; all are applied, first to last.
    attributes: (rollouts, D), to see how much each rule's reward follows them.
    step: groups that a rule sees at a time.
    progress: called after each rule with (rules done, all rules).
    """
    check_input("replay", rules, table, step)
    for transform in transforms:
        if isinstance(transform, str):
            transform = parse_transform(transform)
        table = transform(table)
    options = FuseOptions() if options is None else options
    _, batch = make_batch(Logged(table, attributes, tuple(attribute_names)), options)
    replays = []
    rankings = []
    for number, (rule, label) in enumerate(zip(rules, label_rules(rules), strict=True), start=1):
        rule_replay, ranking = _replay_rule(rule, label, batch, step, options)
        replays.append(rule_replay)
        rankings.append(ranking)
        if progress is not None:
            progress(number, len(rules))
    # The share of each criterion in the weights of a group, averaged over groups; a group without it has 0.
    weights_NK = np.broadcast_to(batch.weights_NK, (batch.N, batch.K)) * batch.scored_NK
    total_N = weights_NK.sum(1, keepdims=True)
    nominal = (weights_NK / np.where(total_N > 0.0, total_N, 1.0)).mean(0)
    return Replay(
        rules=tuple(replays),
        criteria=batch.names,
        nominal=np.asarray(nominal),
        attributes=batch.attribute_names,
        groups=tuple(map(str, batch.labels)),
        step=step,
        kendall=compare_rules(rankings, "kendall"),
        spearman=compare_rules(rankings, "spearman"),
        signs=compare_rules(rankings, "signs"),
        same_winner=compare_rules(rankings, "winner"),
    )


def check_input(owner: str, rules: Sequence[str | Rule], table: ScoreTable, step: int) -> None:
    """Raise InvalidInput unless there are rules, rollouts, and at least one group in a step."""
    if not rules:
        raise InvalidInput(
            owner, "rules", allowed="at least one", got="none", remedy="Such as rlvr2+,gdpo+."
        )
    if not len(table):
        raise InvalidInput(owner, "the table", allowed="one with rollouts", got="none left")
    if step < 1:
        raise InvalidInput(
            owner,
            "step",
            allowed="at least 1 group",
            got=str(step),
            remedy="128 is a usual training step.",
        )


def label_rules(rules: Sequence[str | Rule]) -> list[str]:
    """Return a label for each rule: its name, or the expression that it was named by if several have the same name."""
    names = [find_rule(rule).name for rule in rules]
    labels = []
    for rule, name in zip(rules, names, strict=True):
        is_ambiguous = names.count(name) > 1 and isinstance(rule, str)
        labels.append(str(rule).strip() if is_ambiguous else name)
    # The same expression twice gets numbers.
    unique_labels = []
    for i, label in enumerate(labels):
        number = labels[:i].count(label) + 1
        unique_labels.append(label if labels.count(label) == 1 else f"{label} ({number})")
    return unique_labels


def run_rule(
    rule: str | Rule, batch: ScoreBatch, step: int = STEP, options: FuseOptions | None = None
) -> np.ndarray:
    """Return the rewards of a batch, (M,), computed for `step` groups at a time.

    A rule of the library with a memory begins with an empty one. Another rule that learns is copied, and its copy
    begins with what the rule has learnt. The rule that was passed does not learn from the batch.
    """
    new_rule = _make_new_rule(rule, options)
    return np.concatenate([apply_rule(new_rule, part).reward for part in split_steps(batch, step)])


def _make_new_rule(rule: str | Rule, options: FuseOptions | None = None) -> Rule:
    """Return the rule of a name with these options, or a copy of a rule that shares no memory with it.

    The copy of a rule of the library has an empty memory; the copy of another rule keeps what it has learnt.
    """
    if isinstance(rule, str):
        return make_fuse_rule(options or FuseOptions(), rule)
    if not isinstance(rule, Stateful):
        return rule  # it does not learn
    if not is_dataclass(rule) or not is_from_library(rule):
        return deepcopy(rule)
    new_values: dict[str, Any] = {}
    for field in fields(rule):
        value = getattr(rule, field.name)
        if isinstance(value, RunningEstimate | RecentScores):
            new_values[field.name] = type(value)()
        elif isinstance(value, Rule):  # the rule inside a gate, a control or a composition
            new_values[field.name] = _make_new_rule(value)
    # `replace` also gives the copy an empty `memory`, because that is no argument of the rules that have one.
    return replace(rule, **new_values)


def split_steps(batch: ScoreBatch, step: int) -> Iterator[ScoreBatch]:
    """Return the batch in parts of `step` groups."""
    if step >= batch.N:
        yield batch
        return
    for first in range(0, batch.N, step):
        yield batch.select_groups(first, min(first + step, batch.N))


def _replay_rule(
    rule: str | Rule, label: str, batch: ScoreBatch, step: int, options: FuseOptions
) -> tuple[RuleReplay, RankedRewards]:
    """Fuse the batch under one rule; returns everything about it, and its ranking to compare with other rules."""
    reward = run_rule(rule, batch, step, options)
    ranking = rank_rewards(reward, batch.starts)

    def compare_ranking(values_M: np.ndarray) -> float:
        """Mean Spearman correlation within groups between the rewards and other values."""
        return compute_mean(measure_spearman(ranking, rank_rewards(values_M, batch.starts)))

    influence = []
    for k in range(batch.K):
        reward_without = run_rule(rule, drop_criterion(batch, k), step, options)
        influence.append(1.0 - compare_ranking(reward_without))
    follows = []
    if batch.attributes_MD is not None:
        follows = [compare_ranking(column) for column in batch.attributes_MD.T]
    # A ranking holds the groups in blocks of one size: rows and best are (groups of that size, size).
    winners = np.full(batch.N, -1)
    for rows, signs in zip(find_rows_by_size(batch.starts), ranking.signs, strict=True):
        best = (signs >= 0).all(2)
        groups = batch.group_of_row[rows[:, 0]]
        has_one_winner = best.sum(1) == 1
        winners[groups] = np.where(has_one_winner, best.argmax(1), -1)
    first_step = next(split_steps(batch, step))
    rule_replay = RuleReplay(
        rule=label,
        reward=reward,
        no_signal=find_no_signal(reward, batch.starts),
        winner=winners,
        effective=effective_weights(reward, batch),
        influence=np.array(influence),
        follows=np.array(follows),
        seconds=measure_best_seconds(_make_new_rule(rule, options), first_step, _TIMING_ROUNDS),
    )
    return rule_replay, ranking


# -------------------------------------------------------------------------------------------------- what moves a rule


def effective_weights(reward_M: np.ndarray, batch: ScoreBatch) -> np.ndarray:
    """Return each criterion's share of the variance of the rewards within groups, (K,); see `share_variance`."""
    scores = _centre_in_groups(batch.unit_MK, batch)
    reward = _centre_in_groups(reward_M[:, None], batch)[:, 0]
    return share_variance(scores.T @ scores, scores.T @ reward, float(reward @ reward))


def share_variance(
    products_KK: np.ndarray, products_with_reward_K: np.ndarray, variance: float
) -> np.ndarray:
    """Return each criterion's share of the variance of the rewards, (K,), from sums of products.

    The rewards R are explained by the scores s_k with least squares, both minus the mean of their group. The share of
    criterion k is β_k · cov(s_k, R) / var(R). For 0.8 · Facts + 0.2 · Style, independent and of the same spread, the
    shares are 0.94 and 0.06 (0.8² to 0.2²). Shares sum to what the criteria explain together: 1 for a weighted mean,
    less with gates, ranks or products. A share is negative if a criterion works against the others.

    The arguments are the sums, over all rollouts, of s_k · s_l, of s_k · R, and of R².
    """
    shares = np.zeros(len(products_KK))
    if not variance > 0.0:
        return shares
    spread = np.sqrt(np.diag(products_KK))
    varies = np.flatnonzero(
        spread > 1e-12 * max(1.0, spread.max(initial=0.0))
    )  # more than rounding
    # Scaled to correlations, because least squares ignores directions that are tiny beside others.
    scale = spread[varies]
    correlations = products_KK[np.ix_(varies, varies)] / np.outer(scale, scale)
    with_reward = products_with_reward_K[varies] / scale
    # If one criterion is a combination of others, rounding leaves a little of a direction that should be 0.
    slopes = np.linalg.lstsq(correlations, with_reward, rcond=1e-12)[0]
    shares[varies] = slopes * with_reward / variance
    return shares


def drop_criterion(batch: ScoreBatch, k: int) -> ScoreBatch:
    """Return the batch as if criterion k had never been scored."""
    scores = batch.scores_MK.copy()
    scores[:, k] = np.nan
    return replace(
        batch,
        scores_MK=scores,
        outcomes={key: won for key, won in batch.outcomes.items() if key[1] != k},
    )


def _centre_in_groups(values_MK: np.ndarray, batch: ScoreBatch) -> np.ndarray:
    """Return values minus the mean of their group; a missing value counts as that mean."""
    present = ~np.isnan(values_MK)
    total = np.add.reduceat(np.where(present, values_MK, 0.0), batch.starts[:-1], axis=0)
    count = np.add.reduceat(present, batch.starts[:-1], axis=0)
    mean = (total / np.maximum(count, 1))[batch.group_of_row]
    return np.where(present, values_MK - mean, 0.0)


# ---------------------------------------------------------------------------------------------------------- transforms
#
# An order-preserving map of one criterion's scores, as if its verifier had changed its scale without the rule
# knowing it:
#
#     IFBench*10                       times ten
#     GeneralQuality^2                 squared
#     UniLLM=0:0,0.2:1,1:100           level by level
#
# The declared domain and the margins do not change, because the rule does not know of the new scale. With a margin
# above 0 a new scale may therefore change which rollouts tie.

Map = Callable[[np.ndarray], np.ndarray]

_FORM = re.compile(r"(?P<name>.+?)\s*(?P<sign>[*^=])\s*(?P<map>[^*^=]+)")


@dataclass(frozen=True)
class Transform:
    """A map of one criterion's scores."""

    criterion: str
    map: Map
    text: str

    def __call__(self, table: ScoreTable) -> ScoreTable:
        """Return the table with that criterion's scores mapped; raises if the map changes the order of scores."""
        if self.criterion not in table.criteria:
            raise UnknownName.of("replay", "transform", self.criterion, table.criteria)
        return ScoreTable(tuple(self._map_group(group) for group in table.groups))

    def _map_group(self, group: GroupScores) -> GroupScores:
        """Return the group with the criterion's scores mapped; a group without the criterion is not changed."""
        if self.criterion not in group.names:
            return group
        k = group.names.index(self.criterion)
        before = group.scores[:, k]
        after = np.asarray(self.map(before), dtype=float)
        order_before = np.sign(before[:, None] - before)  # NaN for a pair with a missing score
        order_after = np.sign(after[:, None] - after)
        is_kept = (order_before == order_after) | np.isnan(order_before)
        if not is_kept.all():
            raise InvalidInput(
                "transform",
                self.text,
                allowed="strictly increasing on the scores",
                got=f"another order in group {group.id!r}",
                remedy="Only maps that keep the order are compared.",
            )
        scores = group.scores.copy()
        scores[:, k] = after
        return replace(group, scores=scores)


def parse_transform(text: str) -> Transform:
    """Return the transform that a text describes, in one of the forms above.

    Raises InvalidInput for other texts.
    """
    match = _FORM.fullmatch(text.strip())
    try:
        if match is None:
            raise ValueError
        if match["sign"] == "=":
            pairs = [part.split(":") for part in match["map"].split(",")]
            levels = {_read_number(old): _read_number(new) for old, new in pairs}
            return Transform(match["name"], lambda scores: _map_levels(scores, levels, text), text)
        number = _read_number(match["map"])
    except ValueError:
        allowed = "NAME*10, NAME^2 or NAME=0:0,0.2:1,1:100"
        raise InvalidInput("replay", "transform", allowed, repr(text)) from None
    if match["sign"] == "*":
        return Transform(match["name"], lambda scores: scores * number, text)
    return Transform(match["name"], lambda scores: np.sign(scores) * np.abs(scores) ** number, text)


def _read_number(text: str) -> float:
    """Return a finite number; raises ValueError for any other text."""
    number = float(text)
    if not np.isfinite(number):
        raise ValueError
    return number


def _map_levels(scores: np.ndarray, levels: Mapping[float, float], text: str) -> np.ndarray:
    """Replace levels by others; raises InvalidInput for a score that is not listed."""
    mapped = np.array([levels.get(score, np.nan) for score in scores.tolist()])
    unmapped = np.isnan(mapped) & ~np.isnan(scores)
    if unmapped.any():
        allowed = f"a map of all levels, those of {sorted(levels)}"
        raise InvalidInput("transform", text, allowed, f"{scores[unmapped][0]:g}")
    return mapped
