"""Order-preserving maps of one criterion's scores, as if its verifier's scale had changed without the rule's knowledge.

    IFBench*10                       times ten
    GeneralQuality^2                 squared
    UniLLM=0:0,0.2:1,1:100           level by level

The declared domain stays as it is, because the rule does not know of the change, and so do the margins. With a margin
above 0 a new scale may change which rollouts tie, so that the order changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

import numpy as np

from rubrank.errors import InvalidInput, UnknownName
from rubrank.scores.table import GroupScores, ScoreTable

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
    """Return a finite number; raises ValueError if the text is none."""
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
