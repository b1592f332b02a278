"""Show results as data frames, and as small tables in notebooks."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from rubrank.errors import optional_package

_SHOWN_ROWS = 20


class Framed:
    """A result that can be converted to a frame, and is shown as one in a notebook."""

    def to_polars(self) -> Any:
        """A polars frame; each result says what is in it."""
        raise TypeError(f"{type(self).__name__} has no frame")  # pragma: no cover - every result has its own

    def to_pandas(self) -> Any:
        """The same as a pandas frame; pyarrow is not needed."""
        frame = self.to_polars()
        columns = {name: frame[name].to_list() for name in frame.columns}
        return optional_package("pandas", "to_pandas").DataFrame(columns)

    def _repr_html_(self) -> str:
        frame = self.to_polars()
        rows = [[shown_cell(cell) for cell in row] for row in frame.head(_SHOWN_ROWS).rows()]
        return html_table(repr(self), frame.columns, rows, len(frame) - len(rows))


def shown_cell(cell: Any) -> str:
    """A cell as text: four digits of a number, a dash if it is missing."""
    if cell is None or cell != cell:
        return "–"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def html_table(title: str, headings: Iterable[Any], rows: Iterable[Sequence[Any]], more: int = 0) -> str:
    """A small table for notebooks; every text is escaped. more: how many rows are not shown."""

    def make_row(cells: Iterable[Any], tag: str) -> str:
        return "<tr>" + "".join(f"<{tag}>{escape(str(cell))}</{tag}>" for cell in cells) + "</tr>"

    body = "".join(make_row(row, "td") for row in rows)
    rest = f"<p>… and {more:,} more</p>" if more > 0 else ""
    table = f"<table><thead>{make_row(headings, 'th')}</thead><tbody>{body}</tbody></table>"
    return f"<div><p><b>{escape(title)}</b></p>{table}{rest}</div>"
