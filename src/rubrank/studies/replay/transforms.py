"""Order-preserving maps of one criterion's scores, as if its verifier's scale had changed without the rule's knowledge.

    IFBench*10                       times ten
    GeneralQuality^2                 squared
    UniLLM=0:0,0.2:1,1:100           level by level

The declared domain stays as it is, because the rule does not know of the change, and so do the margins. With a margin
above 0 a new scale may change which rollouts tie, so that the order changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from rubrank.errors import InvalidInput, UnknownName
from rubrank.scores.table import GroupScores, ScoreTable

Map = Callable[[np.ndarray], np.ndarray]

_SCALED = re.compile(
    r"""
    (?P<name>.+?) \s*
    (?: \* \s* (?P<factor>[0-9.eE+-]+)      # IFBench*10
      | \^ \s* (?P<power>[0-9.eE+-]+) )     # GeneralQuality^2
    """,
    re.VERBOSE,
)
_LEVELS = re.compile(r"(?P<name>.+?)\s*=\s*(?P<levels>[^=]+)")  # UniLLM=0:0,0.2:1,1:100
_REMEDY = "Write NAME*10, NAME^2 or NAME=0:0,0.2:1,1:100."


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
        """Return the group with the criterion's scores mapped; a group without the criterion stays as it is."""
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
    """Return the transform that a text describes, in one of the forms of the module's docstring.

    Raises InvalidInput for other texts.
    """
    match = _LEVELS.fullmatch(text.strip())
    if match is not None:
        return Transform(match["name"].strip(), _make_level_map(text, match["levels"]), text)
    match = _SCALED.fullmatch(text.strip())
    if match is None:
        raise InvalidInput(
            "replay", "transform", allowed="a criterion and a map", got=repr(text), remedy=_REMEDY
        )
    name = match["name"].strip()
    if match["factor"] is not None:
        factor = _read_number(text, match["factor"])
        return Transform(name, lambda scores: scores * factor, text)
    power = _read_number(text, match["power"])
    return Transform(name, lambda scores: np.sign(scores) * np.abs(scores) ** power, text)


def _read_number(text: str, number_text: str) -> float:
    """Return a number inside a transform; raises InvalidInput, which shows the whole text, if it is none."""
    try:
        number = float(number_text)
    except ValueError:
        number = float("nan")
    if not np.isfinite(number):
        raise InvalidInput(
            "replay", "transform", allowed="with numbers", got=repr(text), remedy=_REMEDY
        )
    return number


def _make_level_map(text: str, levels: str) -> Map:
    """Return the map of levels such as "0:0,0.2:1,1:100"; it raises InvalidInput for a score that is not listed."""
    new_level: dict[float, float] = {}
    for part in levels.split(","):
        old, _, new = part.partition(":")
        new_level[_read_number(text, old)] = _read_number(text, new)

    def map_levels(scores: np.ndarray) -> np.ndarray:
        new_scores = np.array([new_level.get(score, np.nan) for score in scores.tolist()])
        unmapped = np.isnan(new_scores) & ~np.isnan(scores)
        if unmapped.any():
            raise InvalidInput(
                "transform",
                text,
                allowed=f"a map of all levels, those of {sorted(new_level)}",
                got=f"{scores[unmapped][0]:g}",
            )
        return new_scores

    return map_levels
