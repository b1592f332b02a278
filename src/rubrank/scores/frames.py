"""Show results as data frames, and as small tables with colour in notebooks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rubrank.errors import optional_package
from rubrank.tables.html import make_html_table, write_cell

_SHOWN_ROWS = 20


class Framed:
    """A result that can be converted to a frame, and is shown as one in a notebook."""

    def to_polars(self) -> Any:
        """A polars frame; each result says what is in it."""
        # Every result overrides this method.
        raise TypeError(f"{type(self).__name__} has no frame")  # pragma: no cover

    def to_pandas(self) -> Any:
        """The same as a pandas frame; pyarrow is not needed."""
        frame = self.to_polars()
        columns = {name: frame[name].to_list() for name in frame.columns}
        return optional_package("pandas", "to_pandas").DataFrame(columns)

    def _colour_column(self, name: str, values: Sequence[Any]) -> list[Any]:
        """The cells of a column as a notebook shows them; results with colours have their own."""
        return [write_cell(value) for value in values]

    def _repr_html_(self) -> str:
        frame = self.to_polars()
        first_rows = frame.head(_SHOWN_ROWS)
        columns = [
            self._colour_column(name, first_rows[name].to_list()) for name in first_rows.columns
        ]
        rows = list(zip(*columns, strict=True))
        return make_html_table(repr(self), frame.columns, rows, len(frame) - len(rows))
