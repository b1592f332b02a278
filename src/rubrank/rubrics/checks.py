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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from rubrank._plain import explain_complaints
from rubrank.errors import InvalidInput, RubrankError, UnknownName, only_our_errors
from rubrank.rollouts.groups import group_rows
from rubrank.rubrics.claims import find_contradictions
from rubrank.rubrics.files import presets
from rubrank.rubrics.public import convert_rubric, to_rubric
from rubrank.rubrics.rubric import (
    MOST_CRITERIA,
    Criterion,
    Rubric,
    find_mistakes_together,
    merge_extended,
    read_data,
)
from rubrank.tables.columns import COLUMNS
from rubrank.tables.sources import read_rows
from rubrank.verifiers.verifier import Domain, Layer

YES_NO = (
    "all criteria are yes/no: if no score is missing, ranking gives the weighted sum, stretched to 0–1 in each group "
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
    try:
        loaded = _load_rubric_data(source)
        if loaded is None:
            return list(_check_rows(source))
        data, folder = loaded
        return list(check_rubric_data(data, source, folder))
    except RubrankError as error:
        return [Problem(source, _strip_place(error, source))]


def make_note(source: str | Path) -> str | None:
    """Return a note for the user about a rubric without problems; None if there is nothing to say, and for datasets."""
    loaded = _load_rubric_data(str(source))
    if loaded is None:
        return None
    data, folder = loaded
    rubric = to_rubric(data, str(source), folder)
    criteria = [(criterion.value_layer, criterion.value_domain) for criterion in rubric.criteria]
    return YES_NO if are_all_yes_no(criteria) else None


def _load_rubric_data(source: str) -> tuple[Any, Path] | None:
    """Return the data of a preset or a rubric file, and the folder of what it extends; None for a dataset."""
    path = Path(source)
    if source in presets():
        return source, Path()
    if path.suffix not in _RUBRIC_SUFFIXES:
        return None
    data = read_data(path)
    if path.suffix != ".json":
        return data, path.parent
    # A JSON file may hold one rubric, or the rows of a dataset.
    first_item = data[0] if isinstance(data, Sequence) and data else data
    if isinstance(first_item, Mapping):
        # Rows have a response or a prompt. "question" tells nothing: it may hold a prompt, or a criterion's question.
        dataset_columns = {*COLUMNS["response"], *COLUMNS["prompt"], "instruction_id_list"}
        is_rubric = dataset_columns.isdisjoint(first_item.keys() - {"question"})
    else:
        # A list of texts is a rubric: each of them is a criterion. A number is neither a rubric nor rows.
        is_rubric = isinstance(data, Sequence)
    return (data, path.parent) if is_rubric else None


def are_all_yes_no(criteria: Iterable[tuple[Layer, Domain]]) -> bool:
    """Are all criteria of the quality layer yes/no, and are there at least two?"""
    ranked = [domain for layer, domain in criteria if layer == "quality"]
    return len(ranked) > 1 and all(domain.kind == "binary" for domain in ranked)


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
    items = merged.get("criteria") or []
    is_usable_list = isinstance(items, list | tuple) and 0 < len(items) <= MOST_CRITERIA
    # The criteria are checked one by one below. So that their mistakes are not reported twice, a valid one takes their
    # place while the other fields are checked.
    stand_in = {"name": "stand-in", "question": "?"}
    try:
        Rubric.model_validate({**merged, "criteria": [stand_in] if is_usable_list else items})
    except ValidationError as error:
        for complaint in explain_complaints(error, file, Rubric):
            yield Problem(file, _strip_place(complaint, file), row)
    if not is_usable_list:
        return
    valid_criteria: list[Criterion] = []
    for number, item in enumerate(items, start=1):
        name = _get_name(item).strip() or str(number)
        try:
            valid_criteria.append(Criterion.model_validate(item))
        except ValidationError as error:
            for complaint in explain_complaints(error, file, Criterion):
                yield Problem(file, _strip_place(complaint, file, name), row, name)
    names = [name for name in map(_get_name, items) if name]
    for name, mistake in find_mistakes_together(valid_criteria, names):
        # A dependency that seems unknown may be in a rubric that cannot be read.
        if not errors or not isinstance(mistake, UnknownName):
            yield Problem(file, _strip_place(mistake, file, name), row, name)
    for contradiction in find_contradictions(valid_criteria):
        names_of_both = " and ".join(contradiction.criteria)
        yield Problem(file, f"it cannot be met: {contradiction.message}", row, names_of_both)


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
    columns: dict[str, None] = {}  # in order; those that have a value in some row
    number = 0
    try:
        for number, row in enumerate(read_rows(path), start=1):
            columns |= dict.fromkeys(name for name, value in row.items() if value is not None)
            if any(row.get(name) is not None for name in COLUMNS["response"]):
                try:
                    group_rows([row], path)
                except RubrankError as error:
                    # `group_rows` was given this row alone, so it calls it row 1.
                    message = _strip_place(error, path).removeprefix("row 1: ")
                    yield Problem(path, message, number)
            rubric = next((row[name] for name in COLUMNS["rubric"] if row.get(name)), None)
            if rubric is None and row.get("instruction_id_list") is not None:
                ids = row["instruction_id_list"]
                rubric = {"instruction_id_list": ids, "kwargs": row.get("kwargs")}
            # Rollouts of a query repeat its rubric: it is checked once.
            if rubric is not None and repr(rubric) not in checked_rubrics:
                checked_rubrics.add(repr(rubric))
                yield from check_rubric_data(rubric, path, row=number)
    except InvalidInput as error:  # a line that cannot be read: no more rows come after it
        yield Problem(path, _strip_place(error, path), number + 1)
        return
    if number == 0:
        yield Problem(path, "there are no rows")
    elif _CHECKED_COLUMNS.isdisjoint(columns):
        listed = ", ".join(map(repr, list(columns)[:_MOST_LISTED_COLUMNS])) or "without values"
        message = "no row has a rubric, a response or a prompt: nothing to check in the columns"
        yield Problem(path, f"{message} {listed}")
