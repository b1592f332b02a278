"""List everything that is wrong with a rubric, or with a dataset whose rows bring their own, before it is used.

    >>> from rubrank.rubrics.checks import check_rubric_data
    >>> data = {"criteria": [{"name": "A", "question": "Good?", "weight": -1}]}
    >>> for problem in check_rubric_data(data, "essay.yaml"):
    ...     print(problem)
    essay.yaml: criterion A: weight must be > 0; got -1. See `rubrank help rubrics`.

Loading a rubric stops at the first mistake; this lists them all: unknown verifiers, wrong parameters, weights, names
given twice, unknown or circular dependencies, constraints that exclude each other, rows that cannot be read.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rubrank._plain import explain_complaints, find_similar_names
from rubrank.errors import InvalidInput, RubrankError, only_our_errors
from rubrank.rollouts.groups import group_rows
from rubrank.rubrics.claims import find_contradictions
from rubrank.rubrics.dependencies import find_cyclic_names
from rubrank.rubrics.files import presets
from rubrank.rubrics.public import convert_rubric, to_rubric
from rubrank.rubrics.rubric import MOST_CRITERIA, Criterion, Rubric, merge_extended, read_data
from rubrank.tables.columns import COLUMNS
from rubrank.tables.rows import Row, read_rows
from rubrank.verifiers.verifier import Domain, Layer

YES_NO = (
    "all criteria are yes/no: with every score there, ranking gives the weighted sum, stretched to 0–1 in each group "
    "(rubrank help when_it_matters)"
)
_RUBRIC_SUFFIXES = (".yaml", ".yml", ".toml", ".json")
_MOST_LISTED_COLUMNS = 8  # named in a problem
# A dataset needs at least one of these columns; otherwise there is nothing to check.
_CHECKED_COLUMNS = {
    *COLUMNS["rubric"],
    *COLUMNS["response"],
    *COLUMNS["prompt"],
    "instruction_id_list",
}


@dataclass(frozen=True)
class Problem:
    """One thing that is wrong, and where."""

    file: str
    message: str
    row: int | None = None
    """Counted from 1; None: the file is one rubric."""
    criterion: str | None = None

    def __str__(self) -> str:
        parts = [self.file]
        if self.row is not None:
            parts.append(f"row {self.row}")
        if self.criterion is not None:
            parts.append(f"criterion {self.criterion}")
        return ": ".join([*parts, self.message])


@only_our_errors
def check_file(path: str | Path) -> list[Problem]:
    """Return all problems of a rubric file, a preset or a dataset; an empty list if it can be used."""
    source = str(path)
    path = Path(path)
    try:
        if source in presets():
            return list(check_rubric_data(source, source))
        if path.suffix in _RUBRIC_SUFFIXES:
            data = read_data(path)
            if _is_rubric(data, path):
                return list(check_rubric_data(data, str(path), path.parent))
        return list(_check_rows(source))
    except RubrankError as error:
        return [Problem(source, _strip_place(error, source))]


def make_note(source: str | Path) -> str | None:
    """Return a note for the user about a rubric without problems; None if there is nothing to say, and for datasets."""
    path = Path(source)
    if str(source) in presets():
        rubric = to_rubric(str(source))
    elif path.suffix in _RUBRIC_SUFFIXES:
        data = read_data(path)
        if not _is_rubric(data, path):
            return None
        rubric = to_rubric(data, str(path), path.parent)
    else:
        return None
    values = [(criterion.value_layer, criterion.value_domain) for criterion in rubric.criteria]
    return YES_NO if are_all_yes_no(values) else None


def are_all_yes_no(criteria: Iterable[tuple[Layer, Domain]]) -> bool:
    """Are all criteria of the quality layer yes/no, and are there at least two?"""
    ranked = [domain for layer, domain in criteria if layer == "quality"]
    return len(ranked) > 1 and all(domain.kind == "binary" for domain in ranked)


def _is_rubric(data: Any, path: Path) -> bool:
    """Is it one rubric? A YAML or TOML file always is; a JSON file may hold the rows of a dataset."""
    if path.suffix != ".json":
        return True
    first_item = data[0] if isinstance(data, Sequence) and data else data
    if not isinstance(first_item, Mapping):
        # A list of texts is a rubric: each of them is a criterion. A number is neither a rubric nor rows.
        return isinstance(data, Sequence)
    # Rows have a response or a prompt. "question" tells nothing: it may hold a prompt, or the question of a criterion.
    dataset_columns = {*COLUMNS["response"], *COLUMNS["prompt"], "instruction_id_list"}
    return dataset_columns.isdisjoint(first_item.keys() - {"question"})


# --------------------------------------------------------------------------------------------------------- one rubric


def check_rubric_data(
    data: Any, file: str, folder: Path = Path(), row: int | None = None
) -> Iterator[Problem]:
    """Yield all problems of one rubric, in our own shape or a public one. row: of a dataset, counted from 1."""
    errors: list[InvalidInput] = []
    try:
        merged = merge_extended(convert_rubric(data, file), file, folder, errors=errors)
    except RubrankError as error:
        yield Problem(file, _strip_place(error, file), row)
        return
    yield from (Problem(file, _strip_place(error, file), row) for error in errors)
    items = merged.get("criteria")
    if not isinstance(items, Sequence) or isinstance(items, str) or not items:
        yield Problem(file, "criteria must be a list with at least one criterion", row)
        return
    if len(items) > MOST_CRITERIA:
        yield Problem(
            file, f"criteria must be a list of at most {MOST_CRITERIA:,}; got {len(items):,}", row
        )
        return
    # The other fields are checked together with a valid criterion; the criteria are checked one by one below.
    stand_in = {"name": "stand-in", "question": "?"}
    try:
        Rubric.model_validate({**merged, "criteria": [stand_in]})
    except ValidationError as error:
        for complaint in explain_complaints(error, file, Rubric):
            yield Problem(file, _strip_place(complaint, file), row)
    valid_criteria: list[Criterion] = []
    for number, item in enumerate(items):
        name = _get_name(item).strip() or f"{number + 1}"
        try:
            valid_criteria.append(Criterion.model_validate(item))
        except ValidationError as error:
            for complaint in explain_complaints(error, file, Criterion):
                yield Problem(file, _strip_place(complaint, file, name), row, name)
    names = [_get_name(item) for item in items]
    yield from _check_criteria_together(valid_criteria, names, file, row, has_all_names=not errors)


def _check_criteria_together(
    criteria: list[Criterion], names: list[str], file: str, row: int | None, has_all_names: bool
) -> Iterator[Problem]:
    """Yield the problems of several criteria together: names, dependencies, contradictions.

    has_all_names: False if a rubric that this one extends cannot be read, so that a dependency may be in it.
    """
    for name, times in Counter(names).items():
        if name and times > 1:
            yield Problem(file, f"the name is given {times} times; names must differ", row, name)
    similar_names = find_similar_names(name for name in dict.fromkeys(names) if name)
    if similar_names:
        first, second = similar_names
        message = (
            f"the name is too similar to {first!r}; names must differ in more than case and spaces"
        )
        yield Problem(file, message, row, second)
    all_names = set(names)
    for criterion in criteria:
        for edge in criterion.depends:
            if has_all_names and edge.on not in all_names:
                yield Problem(
                    file,
                    f"it depends on {edge.on!r}, which is not in the rubric",
                    row,
                    criterion.name,
                )
    for cycle in _find_cycles(criteria):
        yield Problem(file, f"it depends on itself: {' → '.join(cycle)}", row, cycle[0])
    for contradiction in find_contradictions(criteria):
        names_of_both = " and ".join(contradiction.criteria)
        yield Problem(file, f"it cannot be met: {contradiction.message}", row, names_of_both)


def _find_cycles(criteria: Sequence[Criterion]) -> Iterator[list[str]]:
    """Yield cycles of dependencies, such as ["A", "B", "A"], until every criterion on a cycle is in one of them."""
    edges = {criterion.name: [edge.on for edge in criterion.depends] for criterion in criteria}
    # Most criteria are on no cycle. A search from each of them would take long, so they are removed first.
    cyclic_names = set(find_cyclic_names(edges))
    cyclic_edges = {}
    for name in cyclic_names.intersection(edges):
        cyclic_edges[name] = [on for on in edges[name] if on in cyclic_names]
    visited: set[str] = set()
    for start in edges:
        if start not in cyclic_edges or start in visited:
            continue
        path = _find_cycle_from(start, cyclic_edges)
        visited.update(path)
        if path:
            yield path


def _find_cycle_from(start: str, edges: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the shortest path from a criterion to itself by breadth-first search; empty if there is none."""
    came_from: dict[str, str] = {}
    todo = [start]
    for name in todo:  # it grows while it is read
        for on in edges.get(name, ()):
            if on == start:
                path = [name]
                while path[-1] != start:
                    path.append(came_from[path[-1]])
                return [*reversed(path), start]
            if on not in came_from:
                came_from[on] = name
                todo.append(on)
    return []


def _get_name(item: Any) -> str:
    return str(item.get("name", "")) if isinstance(item, Mapping) else str(item)


def _strip_place(error: RubrankError, file: str, criterion: str | None = None) -> str:
    """Return the message of an error without the file and the criterion, which a `Problem` names by itself."""
    text = str(error)
    return text.removeprefix(f"{file}: ").removeprefix(f"criterion {criterion!r}: ")


# --------------------------------------------------------------------------------------------------------- a dataset


def _check_rows(path: str) -> Iterator[Problem]:
    """Yield all problems of a dataset, row by row."""
    checked_rubrics: set[str] = set()
    rows = read_rows(path)
    number = 0
    has_known_column = False
    first_columns: tuple[str, ...] = ()
    # `next` instead of a `for` loop, so that an error in the middle is reported with its row.
    while True:
        number += 1
        try:
            row = next(rows, None)
        except InvalidInput as error:  # a line that cannot be read: no more rows come after it
            yield Problem(path, _strip_place(error, path), number)
            return
        if row is None:
            break
        has_known_column = has_known_column or any(
            row.get(name) is not None for name in _CHECKED_COLUMNS
        )
        first_columns = first_columns or tuple(row)
        yield from _check_row(row, path, number, checked_rubrics)
    if number == 1:
        yield Problem(path, "there are no rows")
    elif not has_known_column:
        columns = "rows without columns"
        if first_columns:
            listed = ", ".join(map(repr, first_columns[:_MOST_LISTED_COLUMNS]))
            columns = f"the columns {listed}"
            if len(first_columns) > _MOST_LISTED_COLUMNS:
                columns += " …"
        yield Problem(
            path, f"no row has a rubric, a response or a prompt: nothing to check in {columns}"
        )


def _check_row(row: Row, path: str, number: int, checked_rubrics: set[str]) -> Iterator[Problem]:
    """Yield the problems of one row. checked_rubrics: the rubrics of earlier rows; this row's rubric is added."""
    if any(row.get(name) is not None for name in COLUMNS["response"]):
        try:
            group_rows([row], path)
        except RubrankError as error:
            # `group_rows` was given this row alone, so it calls it row 1, with or without the file.
            message = _strip_place(error, path).removeprefix(f"{path}: row 1: ")
            yield Problem(path, message.removeprefix("row 1: "), number)
    rubric = next((row[name] for name in COLUMNS["rubric"] if row.get(name)), None)
    if rubric is None and row.get("instruction_id_list") is not None:
        rubric = {"instruction_id_list": row["instruction_id_list"], "kwargs": row.get("kwargs")}
    # Rollouts of a query repeat its rubric: it is checked once.
    if rubric is not None and repr(rubric) not in checked_rubrics:
        checked_rubrics.add(repr(rubric))
        yield from check_rubric_data(rubric, path, row=number)
