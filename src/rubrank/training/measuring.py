"""What is measured of the texts of a step, once: for the log, and for the attributes that are controlled.

    figures = figures_of(rollouts, controls, step=12)
    figures.words[:, 0]                    words of each rollout's reasoning

Where a batch is cut over processes each measures the groups that it grades, and the figures go with the scores. Workers
measure what every step asks for, while they have the texts; attributes of your own are left to the trainer's process.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any

import numpy as np

from rubrank.fusion.attributes import ATTRIBUTES
from rubrank.fusion.attributes.common import COMMON, WORDS, common_rows, keep_places
from rubrank.fusion.attributes.length import Lengths
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.training.controls import LENGTHS, Control, ControlledStep, token_lengths

if TYPE_CHECKING:
    from rubrank.grading.grade import MeasuredRows


@dataclass(frozen=True, eq=False)
class Figures:
    """Of some rollouts, a row each; can be sent to another process."""

    words: np.ndarray
    """Of the reasoning, and of the answer."""
    markdown: np.ndarray
    """Markers per line of the answer."""
    others: Mapping[str, np.ndarray]
    """Attribute → its columns, of attributes that are neither."""


def figures_of(
    rollouts: Sequence[Rollout], controls: Sequence[Control], step: int, known: MeasuredRows | None = None
) -> Figures:
    """Everything that the log and the controls of this step ask for; `known` of some rollouts, by workers."""
    rows = common_rows(rollouts) if known is None or known.rows is None else _completed(rollouts, known)
    asked = [one for one in controls if step >= one.start and not is_common(one)]
    tagged = [_tagged(rollout) for rollout in rollouts] if asked else []
    return Figures(rows[:, :WORDS], rows[:, WORDS:], {one.name: one.found.rows(tagged) for one in asked})


def _completed(rollouts: Sequence[Rollout], known: MeasuredRows) -> np.ndarray:
    """What workers have measured, and the rest."""
    assert known.rows is not None
    rows = np.empty((len(rollouts), COMMON))
    rows[known.numbers] = known.rows[:, :COMMON]
    left = np.setdiff1d(np.arange(len(rollouts)), known.numbers)
    if left.size:
        rows[left] = common_rows([rollouts[i] for i in left])
    return rows


def keep_parts(rollouts: Sequence[Rollout], known: MeasuredRows) -> None:
    """Where workers have told what was thought from what was said, records need not do it again."""
    if known.rows is not None:
        keep_places([rollouts[i] for i in known.numbers], known.rows[:, COMMON:])


def is_common(control: Control) -> bool:
    """Is it measured of every rollout anyway?"""
    return control.name in (*LENGTHS, "markdown") and control.found is ATTRIBUTES[control.name]


def controlled(controls: Sequence[Control], figures: Figures, rollouts: Sequence[Rollout], step: int) -> ControlledStep:
    """Values of the attributes that are on at this step; none: no values."""
    on = [control for control in controls if step >= control.start]
    if not on:
        return ControlledStep(None, (), ())
    length = token_lengths(rollouts) or Lengths(figures.words[:, 0], figures.words[:, 1], "words")
    values = np.concatenate([_values(control, figures, length) for control in on], axis=1)
    columns = [(column, control.adjust) for control in on for column in control.found.columns]
    return ControlledStep(values, tuple(name for name, _ in columns), tuple(adjust for _, adjust in columns))


def _values(control: Control, figures: Figures, length: Lengths) -> np.ndarray:
    """(rollouts, D); lengths in tokens where the trainer knows them of all rollouts of the step."""
    if not is_common(control):
        return figures.others[control.name]
    part = LENGTHS.get(control.name)
    return figures.markdown if part is None else np.asarray(getattr(length, part))[:, None]


def by_group(figures: Figures, groups: Sequence[Group]) -> tuple[Figures, ...]:
    """Cut into those of the groups."""
    cuts = pairwise(accumulate((len(group.rollouts) for group in groups), initial=0))
    return tuple(_rows(figures, slice(*cut)) for cut in cuts)


def joined(parts: Sequence[Figures]) -> Figures:
    """Those of several groups, one after another."""
    others = {name: np.concatenate([part.others[name] for part in parts]) for name in parts[0].others}
    words, markdown = (np.concatenate([getattr(part, name) for part in parts]) for name in ("words", "markdown"))
    return Figures(words, markdown, others)


def _rows(figures: Figures, rows: Any) -> Figures:
    return Figures(figures.words[rows], figures.markdown[rows], {n: v[rows] for n, v in figures.others.items()})


def _tagged(rollout: Rollout) -> str:
    """The whole text, as attributes take it: the reasoning in tags."""
    if rollout.reasoning is None:
        return rollout.response
    return f"<think>{rollout.reasoning}</think>{rollout.response}"
