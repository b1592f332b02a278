"""Order-preserving maps of one criterion's scores: as if a verifier's scale had changed without the rule being told.

    IFBench*10                       times ten
    GeneralQuality^2                 squared
    UniLLM=0:0,0.2:1,1:100           level by level

The declared domain stays as it is, since the rule was not told; and so do the margins: with a margin above 0 a new
scale may change who ties with whom, and then the order is another one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from rubrank.errors import InvalidInput, UnknownName
from rubrank.scores.table import GroupScores, ScoreTable

Map = Callable[[np.ndarray], np.ndarray]

_TIMES = re.compile(r"(?P<name>.+?)\s*\*\s*(?P<factor>[0-9.eE+-]+)")
_POWER = re.compile(r"(?P<name>.+?)\s*\^\s*(?P<power>[0-9.eE+-]+)")
_LEVELS = re.compile(r"(?P<name>.+?)\s*=\s*(?P<levels>[^=]+)")
_REMEDY = "Write NAME*10, NAME^2 or NAME=0:0,0.2:1,1:100."


@dataclass(frozen=True)
class Transform:
    """A map of one criterion's scores."""

    criterion: str
    map: Map
    text: str

    def __call__(self, table: ScoreTable) -> ScoreTable:
        """The table with that criterion's scores mapped."""
        if self.criterion not in table.criteria:
            raise UnknownName.of("replay", "transform", self.criterion, table.criteria)
        return ScoreTable(tuple(self._group(group) for group in table.groups))

    def _group(self, group: GroupScores) -> GroupScores:
        if self.criterion not in group.names:
            return group
        k = group.names.index(self.criterion)
        before = group.scores[:, k]
        after = np.asarray(self.map(before), dtype=float)
        _check_order(self, group.id, before, after)
        scores = group.scores.copy()
        scores[:, k] = after
        return replace(group, scores=scores)


def parse_transform(text: str) -> Transform:
    """A transform from its text."""
    for pattern, make in ((_LEVELS, _make_levels), (_POWER, _make_power), (_TIMES, _make_factor)):
        match = pattern.fullmatch(text.strip())
        if match:
            name, *rest = match.groups()
            return Transform(name.strip(), make(text, rest[0]), text)
    raise InvalidInput("replay", "transform", "a criterion and a map", repr(text), _REMEDY)


def _number(text: str, part: str) -> float:
    try:
        number = float(part)
    except ValueError:
        number = float("nan")
    if not np.isfinite(number):
        raise InvalidInput("replay", "transform", "with numbers", repr(text), _REMEDY)
    return number


def _make_factor(text: str, factor: str) -> Map:
    number = _number(text, factor)
    return lambda scores: scores * number


def _make_power(text: str, power: str) -> Map:
    number = _number(text, power)
    return lambda scores: np.sign(scores) * np.abs(scores) ** number


def _make_levels(text: str, levels: str) -> Map:
    pairs = [part.partition(":") for part in levels.split(",")]
    to = {_number(text, old): _number(text, new) for old, _, new in pairs}

    def map_levels(scores: np.ndarray) -> np.ndarray:
        new_scores = np.array([to.get(s, np.nan) for s in scores.tolist()])
        lost = np.isnan(new_scores) & ~np.isnan(scores)
        if lost.any():
            raise InvalidInput(
                "transform", text, f"a map of all levels, those of {sorted(to)}", f"{scores[lost][0]:g}", ""
            )
        return new_scores

    return map_levels


def _check_order(transform: Transform, group: str, before: np.ndarray, after: np.ndarray) -> None:
    """Raise unless who is above whom stays the same."""
    order = np.sign(before[:, None] - before)
    new_order = np.sign(after[:, None] - after)
    if not ((order == new_order) | np.isnan(order)).all():
        raise InvalidInput(
            "transform",
            transform.text,
            "strictly increasing on the scores",
            f"another order in group {group!r}",
            "Only maps that keep the order are compared.",
        )
