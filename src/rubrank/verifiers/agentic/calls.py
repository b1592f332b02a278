"""Tool calls as the agentic verifiers handle them: read their arguments, recognise repeated ones, pair them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from rubrank.rollouts.rollout import ToolCall
from rubrank.verifiers.shared.json_values import TooBig, check_size, parse_json, write_canonical


def read_arguments(call: ToolCall) -> Mapping[str, Any]:
    """Return the arguments of a call as a mapping; an empty text means no arguments.

    Raises ValueError if they are not a JSON object, or too large.
    """
    arguments = call.arguments
    if isinstance(arguments, str):
        arguments = parse_json(arguments) if arguments.strip() else {}
    if not isinstance(arguments, Mapping):
        raise ValueError("not a JSON object")
    check_size(arguments, "arguments")
    return arguments


def write_call_key(call: ToolCall, *, with_result: bool) -> str | None:
    """Write a text that is the same for calls with the same tool and arguments (and result).

    Returns None if the call is too large to compare.
    """
    arguments: Any  # as a mapping if they are one, so that the order of keys does not matter
    try:
        arguments = dict(read_arguments(call))
    except ValueError:
        arguments = call.arguments
    parts = [call.name, arguments, call.result if with_result else None]
    try:
        check_size(parts, "call")
    except TooBig:
        return None
    return write_canonical(parts)


def count_repeated(calls: Sequence[ToolCall], *, with_result: bool) -> int:
    """Count the calls with the same tool and arguments (and result) as an earlier one."""
    # A call too large to compare gets a key of its own: it repeats nothing.
    keys = [
        write_call_key(call, with_result=with_result) or f"#{i}" for i, call in enumerate(calls)
    ]
    return len(keys) - len(set(keys))


def find_best_pairs(gains: Sequence[Sequence[int]]) -> list[tuple[int, int]]:
    """Pair rows with columns so that the sum of the gains is largest; each row and column is used once at most.

    `gains[row][column]` is a whole number, 0 or more; pairs that gain nothing are left out. For [[3, 2], [3, 0]] the
    result is [(0, 1), (1, 0)]: row 0 leaves column 0 to row 1, which loses more without it.

    Rows are added one at a time. The new row may take a column from an earlier row, which then takes another column,
    perhaps from a third row, and so on until a free column is reached. Of all such chains the one with the largest
    change of the sum is carried out. Starting from the best pairs of the earlier rows, this gives the best pairs of
    one row more (the method of successive augmenting paths for the assignment problem).
    """
    table = np.asarray(gains, dtype=np.int64)
    if table.size == 0:
        return []
    rows = table.shape[0]
    # A column of zeros for each row: to remain without a partner is to take one of these.
    table = np.hstack([table, np.zeros((rows, rows), dtype=np.int64)])
    row_of: dict[int, int] = {}  # column → the row that has it
    for new_row in range(rows):
        # best_change[c]: the largest change of the sum by a chain that ends with somebody taking column c.
        best_change = table[new_row].copy()
        # previous_column[c]: the column before c in that chain; -1 if c is the first.
        previous_column = np.full(table.shape[1], -1)
        improved = True
        while improved:
            improved = False
            for column, row in row_of.items():
                # The chain takes `column` from `row`, which moves on to any other column.
                change = best_change[column] - table[row, column] + table[row]
                is_better = change > best_change
                if is_better.any():
                    best_change[is_better] = change[is_better]
                    previous_column[is_better] = column
                    improved = True
        free_columns = [column for column in range(table.shape[1]) if column not in row_of]
        column = max(free_columns, key=lambda free: int(best_change[free]))
        # Carry out the chain from its end: each row moves to the column after its own.
        while previous_column[column] >= 0:
            taken_from = int(previous_column[column])
            row_of[column] = row_of[taken_from]
            column = taken_from
        row_of[column] = new_row
    return sorted((row, column) for column, row in row_of.items() if table[row, column] > 0)
