"""What verbs print: tables that stay readable at 80 columns, JSON, and errors in one line.

matrix("Kendall", rows, columns, cells)      too many columns for the screen: numbers for names, then several tables
histogram([0, 0, 0.5, 1])                    ▁▂▃▄▅▆▇█
"""

from __future__ import annotations

import json
import math
import re
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from rubrank._plain import plain

if TYPE_CHECKING:
    from rich.table import Table

_BARS = "▁▂▃▄▅▆▇█"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and newline
_GAP = 2
_LIBRARY = str(Path(__file__).parent.parent)
_WIDEST_NAME = 28
_NARROWEST = 8
MOST_ROWS = 40


@contextmanager
def warnings_in_words() -> Iterator[None]:
    """A warning of the library is one line, not a place in its source; others are shown as ever."""
    before = warnings.showwarning

    def show(message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None) -> None:
        if filename.startswith(_LIBRARY):
            say(f"rubrank: warning: {message}")
        else:
            before(message, category, filename, lineno, file, line)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = before


def visible(text: str) -> str:
    r"""`\x1b` for the character itself: text from data that would command a terminal is shown by its codes."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def say(text: str) -> None:
    """A line on standard error, whatever characters it holds."""
    typer.echo(visible(text), err=True)


def print_line(text: str) -> None:
    """A line on standard output, whatever characters it holds."""
    _write(visible(text))


def _write(line: str) -> None:
    sys.stdout.flush()  # what was printed as text comes first
    sys.stdout.buffer.write((line + "\n").encode("utf-8", "backslashreplace"))
    sys.stdout.flush()


def print_json(data: Any) -> None:
    """Indented, with null for what is no number."""
    text = json.dumps(plain(data), ensure_ascii=False, indent=2, default=str)
    _write(_CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def number(x: float, form: str = ".2f") -> str:
    """A number, or a dash where there is none; zero is never negative."""
    if math.isnan(x):
        return "–"
    text = format(x, form)
    return text if float(text.rstrip("%")) else text.replace("-", "+" if "+" in form else "")


def histogram(values: Sequence[float], bins: int = 10) -> str:
    """Where the values are, from the smallest to the largest."""
    low, high = min(values), max(values)
    counts = [0] * bins
    for x in values:
        counts[min(int((x - low) / (high - low) * bins), bins - 1) if high > low else bins // 2] += 1
    top = max(counts)
    return "".join(" " if not n else _BARS[math.ceil(n / top * len(_BARS)) - 1] for n in counts)


def table(
    title: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[str]],
    words: int = 1,
    most: int | None = MOST_ROWS,
    total: int = 0,
) -> None:
    """One table on standard output; the first `words` columns are words that may wrap, the others numbers.

    Numbers that do not fit beside them go on in a further table below, with the words before them again: no column
    gets lost, and no number is broken. The last `total` rows are bold. Above `most` rows, the rest is counted.
    """
    from rich.console import Console
    from rich.markup import escape

    console = Console()
    title, headings = visible(title), [_cell(name) for name in headings]
    cells = [[_cell(text) for text in row] for row in rows[:most]]
    widths = _widths(headings, cells)
    labels = _narrow(widths[:words], console.width - sum(widths[words:]) - _GAP * (len(widths) - 1), words)
    room = console.width - sum(labels) - _GAP * words
    for number_of_part, part in enumerate(_split_columns(widths[words:], room + _GAP)):
        if title:
            console.print(escape(title) + (", continued" if number_of_part else ""), style="bold")
        console.print(_make_table(headings, cells, labels, [words + i for i in part], total))
        print()
    if len(cells) < len(rows):
        print(f"… and {len(rows) - len(cells)} more; --json has them all\n")


def _cell(text: str) -> str:
    return visible(text).replace("\t", " ")


def _make_table(
    headings: Sequence[str], rows: Sequence[Sequence[str]], labels: Sequence[int], numbers: Sequence[int], total: int
) -> Table:
    """One part of a table: all columns of words, and some of numbers."""
    from rich.markup import escape
    from rich.table import Table

    grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
    for i, width in enumerate(labels):
        grid.add_column(escape(headings[i]), max_width=width, overflow="fold")
    for i in numbers:
        grid.add_column(escape(headings[i]), justify="right", no_wrap=True)
    for i, row in enumerate(rows):
        cells = [escape(row[j]) for j in (*range(len(labels)), *numbers)]
        grid.add_row(*cells, style="bold" if i >= len(rows) - total else None)
    return grid


def _narrow(widths: Sequence[int], room: int, words: int) -> list[int]:
    """The columns of words: as wide as they like if there is room, else the widest gets narrower, to a point."""
    narrowed = list(widths)
    narrowest = _NARROWEST if words > 1 else _WIDEST_NAME
    while sum(narrowed) > room and max(narrowed) > narrowest:
        narrowed[narrowed.index(max(narrowed))] -= 1
    return narrowed


def matrix(
    title: str, rows: Sequence[str], columns: Sequence[str], cells: Sequence[Sequence[str]], named: int = 0
) -> None:
    """Numbers under named columns; columns that do not fit are called 1, 2, 3 …, and go on in a further table.

    named: so many of the first columns keep their names, and do not count.
    """
    from rich.console import Console

    room = Console().width - min(max(map(len, rows), default=0), _WIDEST_NAME) - _GAP
    if sum(width + _GAP for width in _widths(columns, cells)) > room:
        columns = [*columns[:named], *(str(i + 1) for i in range(len(columns) - named))]
    table(title, ["", *columns], [[name, *row] for name, row in zip(rows, cells, strict=True)])


def _widths(columns: Sequence[str], cells: Sequence[Sequence[str]]) -> list[int]:
    from rich.cells import cell_len

    return [max([cell_len(name), *(cell_len(row[i]) for row in cells)]) for i, name in enumerate(columns)]


def _split_columns(widths: Sequence[int], room: int) -> list[list[int]]:
    """The columns in portions, each at least one; one empty portion if there are none."""
    portions: list[list[int]] = [[]]
    left = room
    for i, width in enumerate(widths):
        if portions[-1] and width + _GAP > left:
            portions.append([])
            left = room
        portions[-1].append(i)
        left -= width + _GAP
    return portions
