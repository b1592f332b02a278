"""The rollouts that a score table was made of, read again: their texts are not in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.rollouts.reading import read_groups
from rubrank.rollouts.rollout import Group
from rubrank.scores.table import ScoreTable


def groups_of(table: ScoreTable, rollouts: Any, columns: Mapping[str, str] | None = None) -> list[Group]:
    """The groups of the table, in its order, from the file that was graded; `columns` as for `grade`."""
    found = {group.id: group for group in read_groups(rollouts, None if columns is None else dict(columns))}
    groups = []
    for scored in table.groups:
        group = found.get(scored.id)
        if group is None or len(group.rollouts) != len(scored.scores):
            got = "no such group" if group is None else f"{len(group.rollouts)} rollouts"
            raise InvalidInput(
                str(rollouts),
                f"group {scored.id!r}",
                f"there, with {len(scored.scores)} rollouts",
                got,
                "Give the file that was graded.",
            )
        groups.append(group)
    return groups
