"""Output of the verbs: tables that stay readable at 80 columns, JSON, and one-line messages.

    print_table(title, headings, rows)               columns of numbers that do not fit continue in another table
    print_matrix("Kendall", rows, columns, cells)    the same; long column names are replaced by numbers
    draw_histogram([0, 0, 0.5, 1])                   a text of bars: ▁▂▃▄▅▆▇█

Everything printed goes through `escape_controls`, because texts from data must not send commands to the terminal.
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
from typing import Any

import typer

from rubrank._plain import plain

_BARS = "▁▂▃▄▅▆▇█"
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]")  # all but tab and newline
_GAP = 2  # spaces between columns
_LIBRARY = str(Path(__file__).parent.parent)
# Columns of words are not squeezed below these widths: a single one, and each of several.
_SINGLE_WIDTH = 28
_SHARED_WIDTH = 8
_NUMBER_WIDTH = 5  # of most numbers in a matrix, such as -0.25
MOST_ROWS = 40
"""Rows that a table shows, unless its caller says otherwise."""


@contextmanager
def print_warnings_in_one_line() -> Iterator[None]:
    """Show a warning of the library as one line, without its source line; other warnings are shown as usual."""
    show_as_usual = warnings.showwarning

    def show(
        message: Any, category: Any, filename: str, lineno: int, file: Any = None, line: Any = None
    ) -> None:
        if filename.startswith(_LIBRARY):
            say(f"rubrank: warning: {message}")
        else:
            show_as_usual(message, category, filename, lineno, file, line)

    warnings.showwarning = show
    try:
        yield
    finally:
        warnings.showwarning = show_as_usual


def escape_controls(text: str) -> str:
    r"""Escape control characters, such as `\x1b`: text from data must not command the terminal."""
    return _CONTROL.sub(lambda match: f"\\x{ord(match[0]):02x}", text)


def say(text: str) -> None:
    """Print a line to standard error."""
    typer.echo(escape_controls(text), err=True)


def show_findings(findings: Sequence[Any]) -> None:
    """Print what should be changed, at the end of a summary; nothing without findings."""
    if findings:
        say("what to change:")
    for finding in findings:
        say(f"- {finding}")


def print_line(text: str) -> None:
    """Print a line to standard output."""
    _write(escape_controls(text))


def _write(line: str) -> None:
    """Write UTF-8 in every locale: print() fails on characters that the terminal's encoding lacks."""
    sys.stdout.flush()  # print() buffers text above this byte stream, and that text comes first
    sys.stdout.buffer.write((line + "\n").encode("utf-8", "backslashreplace"))
    sys.stdout.flush()


def print_json(data: Any) -> None:
    """Print indented JSON, with null for NaN and infinity."""
    text = json.dumps(plain(data), ensure_ascii=False, indent=2, default=str)
    _write(_CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text))


def format_number(x: float, form: str = ".2f") -> str:
    """Format a number; a dash for NaN, and no minus sign in front of a zero."""
    if math.isnan(x):
        return "–"
    text = format(x, form)
    digits = text.rstrip("%").replace(",", "")  # the forms ".0%" and ",.0f"
    is_zero = float(digits) == 0.0
    if is_zero:
        # -0.004 is formatted as "-0.00": with a signed form "+0.00" is shown, else "0.00".
        text = text.replace("-", "+" if "+" in form else "")
    return text


def draw_histogram(values: Sequence[float], bins: int = 10) -> str:
    """Draw a line of bars, from the smallest value to the largest. Equal values are one bar in the middle."""
    low = min(values)
    high = max(values)
    counts = [0] * bins
    for x in values:
        place = bins // 2
        if high > low:
            place = min(int((x - low) / (high - low) * bins), bins - 1)
        counts[place] += 1
    top = max(counts)
    return "".join(" " if not n else _BARS[math.ceil(n / top * len(_BARS)) - 1] for n in counts)


def print_table(
    title: str,
    headings: Sequence[str],
    rows: Sequence[Sequence[Any]],
    *,
    words: int = 1,
    form: str | Sequence[str] = ".2f",
    most: int | None = MOST_ROWS,
    total: int = 0,
) -> None:
    """Print a table. The first `words` columns hold words, which may wrap; the others hold numbers, which may not.

    Cells are texts, or numbers that are formatted by `form`: one for all of them, or one for each column of numbers.
    Columns of numbers that do not fit are printed in another table below, which repeats the words: no column is lost,
    and no number is broken. The last `total` rows are bold. Of more than `most` rows, only the first are printed, and
    the last `total`.
    """
    from rich.cells import cell_len
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    console = Console()
    printed = [*rows]
    if most is not None and len(rows) > most:
        printed = [*rows[: most - total], *rows[len(rows) - total :]]
    forms = [form] * len(headings) if isinstance(form, str) else [""] * words + [*form]
    cells = [[_clean_text(name) for name in headings]]
    for row in printed:
        texts = []
        for value, number_form in zip(row, forms, strict=True):
            if isinstance(value, str):
                texts.append(_clean_text(value))
            else:
                texts.append("–" if value is None else format_number(value, number_form))
        cells.append(texts)
    widths = [max(map(cell_len, column)) for column in zip(*cells, strict=True)]
    narrowest = _SHARED_WIDTH if words > 1 else _SINGLE_WIDTH
    room = console.width - sum(min(width, narrowest) + _GAP for width in widths[:words]) + _GAP
    for part_number, part in enumerate(_split_columns(widths[words:], room)):
        if title:
            heading = escape(escape_controls(title)) + (", continued" if part_number else "")
            console.print(heading, style="bold")
        grid = Table(box=None, pad_edge=False, padding=(0, _GAP, 0, 0))
        for name in cells[0][:words]:
            grid.add_column(escape(name), overflow="fold")
        for i in part:
            grid.add_column(escape(cells[0][words + i]), justify="right", no_wrap=True)
        for number, row in enumerate(cells[1:], start=1):
            texts = [*row[:words], *(row[words + i] for i in part)]
            style = "bold" if number > len(printed) - total else None
            grid.add_row(*map(escape, texts), style=style)
        console.print(grid)
        print()
    if len(printed) < len(rows):
        print(f"… and {len(rows) - len(printed)} more; --json prints them all\n")


def _clean_text(text: str) -> str:
    return escape_controls(text).replace("\t", " ")


def print_matrix(
    title: str,
    rows: Sequence[str],
    columns: Sequence[str],
    cells: Any,
    named: int = 0,
    form: str = ".2f",
) -> None:
    """Print a table of numbers. If its columns do not fit, their names are replaced by 1, 2, 3 …

    cells: a matrix of numbers or texts. named: this many of the first columns keep their names and are not numbered.
    """
    from rich.console import Console

    name_width = min(max(map(len, rows), default=0), _SINGLE_WIDTH)
    room = Console().width - name_width
    if sum(max(len(column), _NUMBER_WIDTH) + _GAP for column in columns) > room:
        numbers = [str(i + 1) for i in range(len(columns) - named)]
        columns = [*columns[:named], *numbers]
    lines = [[name, *row] for name, row in zip(rows, cells, strict=True)]
    print_table(title, ["", *columns], lines, form=form)


def _split_columns(widths: Sequence[int], room: int) -> list[list[int]]:
    """Split the columns into parts that fit into `room`, of at least one column each; [[]] without columns."""
    parts: list[list[int]] = [[]]
    room_left = room
    for i, width in enumerate(widths):
        if parts[-1] and width + _GAP > room_left:
            parts.append([])
            room_left = room
        parts[-1].append(i)
        room_left -= width + _GAP
    return parts
