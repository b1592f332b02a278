"""Which rows are one group.

- A column that names the group (`GROUP_NAMES`, or the one that was said) decides. It is never set aside: rows with
  different ids are different groups, whatever their prompts; a row without one, among others that have it, is an error.
- Without such a column the prompt decides.
- Where there is a training step, the same query in two steps is two groups.
- All rows of a group ask for the same: two different rubrics in one group are an error.

So what a row's group is depends on the row alone: other rows cannot regroup it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rubrank._plain import shortened
from rubrank.errors import InvalidInput, UnknownName
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.tables.columns import GROUP_NAMES, STEP_NAMES, WEAK_GROUP_NAMES
from rubrank.tables.rows import Row


@dataclass(frozen=True)
class RowPart:
    """What one row adds to a group."""

    where: str
    key: Hashable
    """Equal for rows of the same group."""
    label: str | None
    """The name that the row gives its group; None: it has none, and gets a number."""
    step: str | None
    rollouts: Sequence[Rollout]
    rubric: Any


@dataclass(frozen=True)
class GroupKeys:
    """The columns that decide."""

    group: tuple[str, ...]
    step: str | None

    def __str__(self) -> str:
        """In words: "by prompt_id", "by step and prompt"."""
        return " and ".join(filter(None, (self.step, "/".join(self.group) or "prompt")))


def find_keys(rows: Sequence[Row], where: str, given: Any = None, step: str | None = None) -> GroupKeys:
    """The columns that name the group and the step, from all rows; raises where two of them disagree."""
    if given is not None:
        names = (given,) if isinstance(given, str) else tuple(given)
        for name in names:
            if not any(name in row for row in rows):
                raise UnknownName.of(where, "the group column", name, map(str, rows[0]))
    else:
        names = _usual_group(rows, where)
    return GroupKeys(names, step or _present(rows, STEP_NAMES, names))


def _usual_group(rows: Sequence[Row], where: str) -> tuple[str, ...]:
    strong = [name for name in GROUP_NAMES if any(_is_there(row.get(name)) for row in rows)]
    for other in strong[1:]:
        if _partition(rows, strong[0]) != _partition(rows, other):
            got = f"two readings: by {strong[0]!r} and by {other!r}"
            remedy = f"Choose one: `group_column={strong[0]}`."
            raise InvalidInput(where, "the group", "in one column", got, remedy)
    weak = _present(rows, WEAK_GROUP_NAMES, ())
    return (strong[0],) if strong else (weak,) if weak else ()


def _partition(rows: Sequence[Row], name: str) -> list[int]:
    seen: dict[str, int] = {}
    return [seen.setdefault(repr(row.get(name)), len(seen)) for row in rows]


def _present(rows: Sequence[Row], names: Sequence[str], taken: Sequence[str]) -> str | None:
    return next((n for n in names if n not in taken and any(_is_there(row.get(n)) for row in rows)), None)


def _is_there(value: Any) -> bool:
    return value is not None and value != "" and value == value


def part_of(row: Row, keys: GroupKeys, where: str, prompt: Any, rollouts: Sequence[Rollout], rubric: Any) -> RowPart:
    """A row with its group; raises if it does not say what the other rows say."""
    step = None if keys.step is None else str(_cell(row, keys.step, where, "step"))
    if keys.group:
        label = "/".join(str(_cell(row, name, where, "group")) for name in keys.group)
        return RowPart(where, (step, "=", label), label, step, rollouts, rubric)
    return RowPart(where, (step, "?", as_key(prompt)), None, step, rollouts, rubric)


def _cell(row: Row, name: str, where: str, what: str) -> Any:
    value = row.get(name)
    if not _is_there(value) or isinstance(value, Mapping | list):
        got = f"nothing in {name!r}" if not _is_there(value) else f"{shortened(repr(value), 60)} in {name!r}"
        remedy = f"Every row names its {what}, or none does."
        raise InvalidInput(where, f"the {what}", "given, as in other rows", got, remedy)
    return value


def as_key(value: Any) -> str:
    """Equal for equal prompts and rubrics, however they are written."""
    return json.dumps(value, sort_keys=True, ensure_ascii=False, default=str)


def collected(parts: Sequence[RowPart]) -> list[Group]:
    """The groups, in the order in which they first appear."""
    members: dict[Hashable, list[RowPart]] = {}
    for part in parts:
        members.setdefault(part.key, []).append(part)
    times = Counter(found[0].label for found in members.values())
    groups = []
    for number, found in enumerate(members.values()):
        label, step = found[0].label, found[0].step
        # The same query of another step has the same label: then the step is part of its name.
        name = str(number) if label is None else label if times[label] == 1 else f"{label} (step {step})"
        rollouts = tuple(rollout for part in found for rollout in part.rollouts)
        groups.append(Group(id=name, rollouts=rollouts, rubric=_one_rubric(name, found)))
    return groups


def _one_rubric(name: str, parts: Sequence[RowPart]) -> Any:
    given = [part for part in parts if part.rubric is not None]
    for other in given[1:]:
        if as_key(other.rubric) != as_key(given[0].rubric):
            got = f"another than {given[0].where.rpartition(': ')[2]} has"
            remedy = "A group is asked one rubric: give rows that ask for something else another group."
            raise InvalidInput(other.where, f"the rubric of group {name!r}", "the same in all rows", got, remedy)
    return given[0].rubric if given else None
