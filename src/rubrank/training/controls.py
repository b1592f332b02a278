"""Controlled attributes: properties of the texts whose influence on the reward is removed or weakened.

    controls = parse_controls(["markdown", Control("reasoning_length", attenuate(0.5), start=700)])
    features = measure_texts(rollouts)                           once per step, also for the log
    active = select_active_controls(controls, features, rollouts, step=12)
    active.values_MD, active.columns, active.adjust              what the rule needs

A control does nothing before its step `start`. RLVR² estimates and removes the influence of attributes within its fit;
for every other rule, a linear stage removes it from the scores first (`fusion/control/linear.py`).

If a batch is split over processes, each one measures all its texts.
"""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from rubrank._choices import Pool
from rubrank.errors import InvalidInput, refuses_wrong_kinds
from rubrank.fusion.control.adjustment import Adjustment, attenuate, expand_adjustments
from rubrank.fusion.control.attribute import Attribute
from rubrank.fusion.control.attributes import (
    ATTRIBUTES,
    WORD_COLUMNS,
    find_attribute,
    measure_rollouts,
)
from rubrank.fusion.control.length import Lengths
from rubrank.fusion.options import find_parts, make_adjustment, with_options
from rubrank.fusion.rule import Rule
from rubrank.options import AttributeOptions, RewardOptions
from rubrank.rollouts.rollout import Rollout
from rubrank.scores.table import GroupScores

OWNER = "attributes"
LENGTHS = {"reasoning_length": "reasoning", "answer_length": "answer", "total_length": "total"}
"""Attribute → the part of the response whose length it is."""


@refuses_wrong_kinds
@dataclass(frozen=True)
class Control:
    """What to do about an attribute's influence from step `start` on: "remove" it, or `attenuate(lam)` it."""

    attribute: str | Attribute
    adjust: Adjustment = "remove"
    start: int = 0

    def __post_init__(self) -> None:
        expand_adjustments(f"Control({self.name!r})", [self.adjust], 1)
        if isinstance(self.start, bool) or not isinstance(self.start, int) or self.start < 0:
            raise InvalidInput(
                f"Control({self.name!r})", "start", allowed="a step ≥ 0", got=repr(self.start)
            )

    @property
    def name(self) -> str:
        """The name of the attribute."""
        return self.attribute if isinstance(self.attribute, str) else self.attribute.name

    @property
    def definition(self) -> Attribute:
        """The attribute itself, looked up if it is given by name."""
        return find_attribute(self.attribute) if isinstance(self.attribute, str) else self.attribute


DEFAULT_ATTRIBUTES = ("reasoning_length", "markup")
"""What trainers control by default if there are judges: judges tend to prefer long and formatted answers."""


def make_default_controls(options: RewardOptions) -> tuple[Control, ...]:
    """Make the controls of a trainer whose options name none: by default, all positive influence is removed."""
    if "adjust" in options.model_fields_set:
        return tuple(
            make_control(options, AttributeOptions(name=name)) for name in DEFAULT_ATTRIBUTES
        )
    return tuple(Control(name, attenuate(1.0)) for name in DEFAULT_ATTRIBUTES)


def list_shared_judged(groups: Sequence[GroupScores], shared: Collection[str] = ()) -> list[str]:
    """List the judged criteria that several groups have: only on these can attributes' influence be estimated.

    shared: criteria that groups of other calls have as well.
    """
    counts = Counter(
        criterion.name
        for group in groups
        for criterion in group.criteria
        if criterion.verifier is None and criterion.layer == "quality"
    )
    return [name for name, count in counts.items() if count > 1 or name in shared]


def make_control(
    options: RewardOptions, attribute: AttributeOptions, steps: int | None = None
) -> Control:
    """Make the control that the options describe. steps: the number of steps of the run, for a start such as "70%"."""
    return Control(attribute.name, make_adjustment(options, attribute), attribute.start_step(steps))


def parse_controls(attributes: Iterable[str | Attribute | Control]) -> tuple[Control, ...]:
    """Make controls of names, attributes and controls; raises for unknown names and for columns that occur twice."""
    if isinstance(attributes, str | Attribute | Control):
        attributes = [attributes]
    controls = tuple(item if isinstance(item, Control) else Control(item) for item in attributes)
    columns = [column for control in controls for column in control.definition.columns]
    repeated = sorted({column for column in columns if columns.count(column) > 1})
    if repeated:
        raise InvalidInput(
            OWNER, "columns", allowed="each controlled once", got=f"{repeated} twice"
        )
    return controls


# ------------------------------------------------------------------------------------------------------- measurements


@dataclass(frozen=True, eq=False)
class TextFeatures:
    """What is measured on the texts of some rollouts, one row per rollout."""

    words: np.ndarray
    """Words of the reasoning and of the answer."""
    markdown: np.ndarray
    """Markers per line of the answer."""


def measure_texts(rollouts: Sequence[Rollout]) -> TextFeatures:
    """Measure what the log needs, and the attributes that are made of it."""
    rows = measure_rollouts(rollouts)
    return TextFeatures(rows[:, :WORD_COLUMNS], rows[:, WORD_COLUMNS:])


def find_token_lengths(rollouts: Sequence[Rollout]) -> Lengths | None:
    """Return lengths in tokens, or None if a rollout has no counts: all lengths of a step must have the same unit."""
    reasoning = []
    answer = []
    for rollout in rollouts:
        counts = rollout.token_counts
        if counts is None or "reasoning" not in counts or "answer" not in counts:
            return None
        reasoning.append(counts["reasoning"])
        answer.append(counts["answer"])
    return Lengths(reasoning, answer, unit="tokens") if reasoning else None


@dataclass(frozen=True, eq=False)
class ActiveControls:
    """The columns of the controls that are active at a step: measured values, names and adjustments."""

    values_MD: np.ndarray | None = None
    """None if no control is active."""
    columns: tuple[str, ...] = ()
    adjust: tuple[Adjustment, ...] = ()


def select_active_controls(
    controls: Sequence[Control], features: TextFeatures, rollouts: Sequence[Rollout], step: int
) -> ActiveControls:
    """Select the controls that are active at this step, and the values of their attributes.

    Lengths are in tokens if every rollout has counts, else in words.
    """
    active = [control for control in controls if step >= control.start]
    if not active:
        return ActiveControls()
    lengths = find_token_lengths(rollouts) or Lengths(
        features.words[:, 0], features.words[:, 1], "words"
    )
    # Other attributes expect the whole text, with the reasoning in tags.
    texts = []
    for rollout in rollouts:
        has_reasoning = rollout.reasoning is not None
        thoughts = f"<think>{rollout.reasoning}</think>" if has_reasoning else ""
        texts.append(f"{thoughts}{rollout.response}")
    values = []
    columns: list[str] = []
    adjust: list[Adjustment] = []
    for control in active:
        # Lengths and Markdown have been measured already, unless this is another attribute with the same name.
        is_measured = control.definition is ATTRIBUTES.get(control.name)
        if is_measured and control.name in LENGTHS:
            values.append(np.asarray(getattr(lengths, LENGTHS[control.name]))[:, None])
        elif is_measured and control.name == "markdown":
            values.append(features.markdown)
        elif is_measured and control.name == "markup":
            values.append(features.markdown.sum(1, keepdims=True))
        else:
            values.append(control.definition.rows(texts))
        columns += control.definition.columns
        adjust += [control.adjust] * len(control.definition.columns)
    return ActiveControls(np.concatenate(values, axis=1), tuple(columns), tuple(adjust))


# -------------------------------------------------------------------------------------------------------------- rules


def set_pool(rule: Rule, pool: Pool | None) -> Rule:
    """Return the rule with attributes estimated over the run, unless `pool` or the rule itself says otherwise."""
    if pool is None:
        rule_pool = _find_pool(rule)
        pool = "run" if rule_pool in (None, "batch") else rule_pool
    return with_options(rule, OWNER, pool=pool)


def _find_pool(rule: Rule) -> Pool | None:
    """Return what the influence of attributes is estimated over; None if the rule has no such stage yet."""
    return getattr(find_parts(rule).controlling, "pool", None)


def is_linear(rule: Rule) -> bool:
    """Whether the linear stage removes the influence of attributes, instead of the ordinal fit of RLVR²."""
    return getattr(find_parts(rule).controlling, "wins", "graded") == "graded"


def warn_of_single_group(owner: str, rule: Rule) -> bool:
    """Warn that nothing can be estimated in a call with a single group; returns whether it did.

    The influence of attributes is estimated over the groups of a call, so with one group it would silently remain. The
    linear stage with pool="run" is an exception: it learns from single groups.
    """
    pool = _find_pool(rule)
    if pool == "group" or (pool == "run" and is_linear(rule)):
        return False
    message = (
        f"{owner}: the influence of attributes is estimated over the groups of a call, and this call has a single "
        'group: nothing is removed. Pass the groups of a step together, or use pool="group", as in the paper.'
    )
    warnings.warn(message, RuntimeWarning, stacklevel=5)  # the line that called `score`
    return True
