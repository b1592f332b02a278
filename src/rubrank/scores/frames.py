"""Frames and tensors as arrays, and results as frames.

plain_array(frame_or_tensor)      a NumPy array; pd.NA and null are NaN, bfloat16 and gradients are no obstacle
column_names(frame)               ("Facts", "Style") or None: a frame's columns are its criteria

Nothing is imported for it: pandas, polars and torch are known by what their objects can do.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rubrank.errors import optional_package

_MISSING = "NAType"  # pandas' NA
_SHOWN = 20  # rows in a notebook


def plain_array(value: Any) -> Any:
    """What NumPy can read: frames, tensors on any device and of any dtype, and lists of these; else the same."""
    if _is_pandas(value):
        return _without_na(value.to_numpy())
    if _is_polars(value):
        return value.to_numpy()
    if hasattr(value, "detach"):
        value = value.detach().cpu()
        return (value.double() if value.is_floating_point() else value).numpy()
    if isinstance(value, list | tuple):
        return _from_list(value)
    return _without_na(value) if isinstance(value, np.ndarray) else value


def column_names(value: Any) -> tuple[str, ...] | None:
    """The names of a frame's columns, if it is a frame and they are texts."""
    if not (_is_pandas(value) or _is_polars(value)) or getattr(value, "ndim", 2) != 2:
        return None
    names = tuple(value.columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def columns_of(value: Any) -> list[np.ndarray]:
    """The numbers of a frame or a list before they had to be of one kind, in arrays of one kind each."""
    if _is_pandas(value):
        return [plain_array(value.iloc[:, k]) for k in range(value.shape[1])] if value.ndim == 2 else []
    if _is_polars(value):
        return [column.to_numpy() for column in value.iter_columns()] if hasattr(value, "iter_columns") else []
    if isinstance(value, list | tuple):
        lone = [one for one in value if not (isinstance(one, list | tuple) or hasattr(one, "__array__"))]
        arrays = [np.asarray(plain_array(one)) for one in value if hasattr(one, "__array__")]
        inner = [part for one in value if isinstance(one, list | tuple) for part in columns_of(one)]
        return [np.array(lone, dtype=object), *arrays, *inner]
    return []


def _is_pandas(value: Any) -> bool:
    return hasattr(value, "to_numpy") and hasattr(value, "iloc")


def _is_polars(value: Any) -> bool:
    return hasattr(value, "to_numpy") and hasattr(value, "to_arrow")


def _from_list(value: Any) -> Any:
    """A list of tensors or frames, or with pd.NA somewhere, becomes one that NumPy reads; others stay as they are."""
    if any(hasattr(one, "detach") or _is_pandas(one) or _is_polars(one) for one in value):
        return [plain_array(one) for one in value]
    if _has_na(value):
        return [_from_list(one) if isinstance(one, list | tuple) else _number(one) for one in value]
    return value


def _has_na(value: Any) -> bool:
    return any(_has_na(one) if isinstance(one, list | tuple) else type(one).__name__ == _MISSING for one in value)


def _number(one: Any) -> Any:
    return np.nan if type(one).__name__ == _MISSING else one


def _without_na(array: np.ndarray) -> np.ndarray:
    if array.dtype != object or not any(type(one).__name__ == _MISSING for one in array.flat):
        return array
    filled = np.empty(array.size, dtype=object)
    filled[:] = [_number(one) for one in array.flat]
    return filled.reshape(array.shape)


class Framed:
    """A result that can be had, and shown in a notebook, as a frame."""

    def to_polars(self) -> Any:
        """A polars frame; each result says what is in it."""
        raise TypeError(f"{type(self).__name__} has no frame")  # pragma: no cover - every result has its own

    def to_pandas(self) -> Any:
        """The same as a pandas frame, without pyarrow."""
        frame = self.to_polars()
        return optional_package("pandas", "to_pandas").DataFrame(
            {name: frame[name].to_list() for name in frame.columns}
        )

    def _repr_html_(self) -> str:
        frame = self.to_polars()
        rows = [[shown_cell(cell) for cell in row] for row in frame.head(_SHOWN).rows()]
        return html_table(repr(self), frame.columns, rows, len(frame) - len(rows))


def shown_cell(cell: Any) -> str:
    """A cell for people: four digits of a number, a dash where there is none."""
    if cell is None or cell != cell:
        return "–"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def html_table(title: str, headings: Any, rows: Any, more: int = 0) -> str:
    """A small table for notebooks; every text is escaped."""
    from html import escape

    def line(cells: Any, tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(line(row, "td") for row in rows)
    rest = f"<p>… and {more:,} more</p>" if more > 0 else ""
    head = f"<table><thead>{line(headings, 'th')}</thead><tbody>{body}</tbody></table>"
    return f"<div><p><b>{escape(title)}</b></p>{head}{rest}</div>"
