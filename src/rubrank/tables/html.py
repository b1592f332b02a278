"""Show results in notebooks: small HTML tables in which blue is better than the others, and orange is worse.

    make_html_table("Fused(…)", ["rollout", "reward"], [["0", Shaded("1.00", 0.8)], ["1", Shaded("0.25", -0.3)]])

A result that can be converted to a data frame inherits from `Framed`, and is then shown as an HTML table.

Every text is escaped. The colours are those of the web pages of `rubrank.viewer`, half transparent so that they fit
light and dark notebooks.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from rubrank.errors import import_optional

# Colours as red, green, blue.
_BETTER = "91, 147, 220"
_WORSE = "224, 146, 74"
_BAR = "139, 147, 161"
_MARKS = {"bad": "179, 38, 30", "warn": "200, 150, 30"}
_HIGHEST_OPACITY = 0.55  # of a cell with strength 1 or −1
_SHOWN_ROWS = 20  # of a frame


@dataclass(frozen=True)
class Shaded:
    """A cell with a colour: strength from −1 (orange) over 0 (none) to 1 (blue)."""

    text: str
    strength: float

    @property
    def style(self) -> str:
        """Return its CSS."""
        colour = _BETTER if self.strength > 0.0 else _WORSE
        return f"background: rgba({colour}, {_HIGHEST_OPACITY * min(1.0, abs(self.strength)):.2f})"


@dataclass(frozen=True)
class Bar:
    """A cell with a bar behind it: share from 0 to 1 of its width."""

    text: str
    share: float

    @property
    def style(self) -> str:
        """Return its CSS."""
        end = f"{100.0 * min(1.0, max(0.0, self.share)):.0f}%"
        return f"background: linear-gradient(90deg, rgba({_BAR}, 0.45) {end}, transparent {end})"


@dataclass(frozen=True)
class Marked:
    """A cell marked as stopped ("bad") or worth a look ("warn")."""

    text: str
    kind: str

    @property
    def style(self) -> str:
        """Return its CSS."""
        return f"background: rgba({_MARKS[self.kind]}, 0.3)"


def write_cell(cell: Any) -> str:
    """Return a cell as text: four digits of a number, a dash if it is missing."""
    if cell is None or cell != cell:  # only NaN differs from itself
        return "–"
    return f"{cell:.4g}" if isinstance(cell, float) else str(cell)


def shade_column(values: Sequence[float | None]) -> list[Any]:
    """Return the cells of a column of numbers around 0, each coloured by its size relative to the largest."""
    present = [abs(value) for value in values if value is not None and value == value]
    largest = max(present, default=0.0) or 1.0
    cells: list[Any] = []
    for value in values:
        if value is None or value != value:
            cells.append("–")
        else:
            cells.append(Shaded(write_cell(value), value / largest))
    return cells


def make_html_table(
    title: str, headings: Iterable[Any], rows: Iterable[Sequence[Any]], more: int = 0
) -> str:
    """Return a table with a title; a cell is a text, or has a colour. more: how many rows are not shown."""
    head = "".join(f"<th>{escape(str(heading))}</th>" for heading in headings)
    body = ""
    for row in rows:
        cells = ""
        for cell in row:
            if isinstance(cell, Shaded | Bar | Marked):
                cells += f'<td style="{cell.style}">{escape(cell.text)}</td>'
            else:
                cells += f"<td>{escape(str(cell))}</td>"
        body += f"<tr>{cells}</tr>"
    rest = f"<p>… and {more:,} more</p>" if more > 0 else ""
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<div><p><b>{escape(title)}</b></p>{table}{rest}</div>"


class Framed:
    """A result that can be converted to a frame, and is shown as one in a notebook."""

    def to_polars(self) -> Any:
        """Return a polars frame; each result documents its columns."""
        # Every result overrides this method.
        raise TypeError(f"{type(self).__name__} has no frame")  # pragma: no cover

    def to_pandas(self) -> Any:
        """Return the same as a pandas frame; pyarrow is not needed."""
        frame = self.to_polars()
        columns = {name: frame[name].to_list() for name in frame.columns}
        return import_optional("pandas", "to_pandas").DataFrame(columns)

    def _colour_column(self, name: str, values: Sequence[Any]) -> list[Any]:
        """Return the cells of a column as a notebook shows them; results with colours override this."""
        return [write_cell(value) for value in values]

    def _repr_html_(self) -> str:
        frame = self.to_polars()
        first_rows = frame.head(_SHOWN_ROWS)
        columns = [
            self._colour_column(name, first_rows[name].to_list()) for name in first_rows.columns
        ]
        rows = list(zip(*columns, strict=True))
        return make_html_table(repr(self), frame.columns, rows, len(frame) - len(rows))
