"""An audit as one picture: agreement, biases, consistency, position, ties and missing verdicts.

    draw(result, "audit.png")          .png, .svg or .pdf; needs matplotlib: pip install 'rubrank[plots]'

Points are estimates and bars their intervals. A panel is left out if nothing in it was measured; the foot of the
picture lists what was not measured, and why.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from rubrank._files import atomic_write, suffix_error
from rubrank.errors import import_optional
from rubrank.studies.audit.result import HUMANS, Audit, list_unmeasured, name_criterion
from rubrank.studies.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
# The fonts after the first one are for names of criteria in Chinese.
_FONTS = (
    "DejaVu Sans",
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Source Han Sans SC",
    "WenQuanYi Micro Hei",
    "PingFang SC",
    "Hiragino Sans GB",
    "Microsoft YaHei",
    "SimHei",
)
_COLOURS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7F5AA2", "#8C6D31")
_INK = "#222222"
_FAINT = "#8A8A8A"
_HUMANS_COLOUR = "#111111"
_STYLE = {
    "font.size": 9.0,
    "axes.titlesize": 10.5,
    "axes.titleweight": "bold",
    "axes.titlelocation": "left",
    "axes.edgecolor": "#BBBBBB",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "rubrank",
    "text.parse_math": False,
}
_PANEL_WIDTH = 6.4  # inches
_POINT_HEIGHT = 0.14  # inches, for a point with its bar

Points: TypeAlias = "Sequence[tuple[str, str, Estimate]]"
"""(name of the row, judge, estimate)"""


def draw(audit: Audit, path: str | Path, *, title: str | None = None, dpi: int = 150) -> Path:
    """Draw the audit into a file; returns its path.

    title: by default the names of the judges. Raises InvalidInput if the name of the file ends in something else than
    .png, .svg or .pdf.
    """
    file = Path(path)
    suffix = file.suffix.lower()
    if suffix not in FORMATS:
        raise suffix_error(file, FORMATS)
    matplotlib = import_optional("matplotlib", "draw", "'rubrank[plots]'")
    from matplotlib.font_manager import get_font_names

    installed = set(get_font_names())
    fonts = [name for name in _FONTS if name in installed]
    with matplotlib.rc_context({**_STYLE, "font.family": fonts}), warnings.catch_warnings():
        metadata = None
        if suffix == ".svg":
            # Text stays text: the program that shows the file has the fonts.
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
            metadata = {"Date": None}  # the same audit gives the same file
        figure = _make_figure(audit, title or ", ".join(audit.judges))
        with atomic_write(file) as partial:
            figure.savefig(
                partial, dpi=dpi, metadata=metadata, facecolor="white", format=suffix[1:]
            )
    return file


# ------------------------------------------------------------------------------------------------------------- figure


def _make_figure(audit: Audit, title: str) -> Figure:
    """Draw all panels in at most two columns, with a title and a legend above and notes below."""
    from matplotlib.figure import Figure
    from matplotlib.lines import Line2D

    panels = make_panels(audit)
    # Panels go where there is more room.
    columns: list[list[Panel]] = [[] for _ in range(min(2, len(panels)))]
    for panel in panels:
        min(columns, key=_sum_heights).append(panel)
    tallest = max(map(_sum_heights, columns), default=0.0)
    width = max(1, len(columns))
    notes = [fill(line, 95 * width, subsequent_indent="    ") for line in list_unmeasured(audit)]
    note_text = "\n".join(["not measured:", *notes]) if notes else ""
    inches = 1.5 + tallest + 0.17 * note_text.count("\n")
    figure = Figure(figsize=(_PANEL_WIDTH * width, inches), layout="constrained")
    figure.supxlabel(note_text, x=0.012, ha="left", size=7.5, color=_FAINT)
    size = f"{audit.rollouts:,} rollouts in {audit.groups:,} groups, {len(audit.criteria)} criteria"
    raters = {*audit.judges, *(row.judge for row in audit.bias)}
    handles = [
        Line2D([], [], color=colour, marker=_choose_marker(name), ls="", ms=5, label=name)
        for name, colour in _choose_colours(audit.judges).items()
        if name in raters
    ]
    figure.legend(
        handles=handles,
        title=f"{title}\n{size}",
        title_fontproperties={"weight": "bold", "size": 11},
        alignment="left",
        loc="outside upper left",
        ncols=6,
        frameon=False,
    )
    grid = figure.add_gridspec(1, width)
    for number, column in enumerate(columns):
        # The shorter column ends in an empty cell.
        heights = [*(panel.height for panel in column), 0.01 + tallest - _sum_heights(column)]
        cells = grid[0, number].subgridspec(len(heights), 1, height_ratios=heights)
        for i, panel in enumerate(column):
            panel.draw(figure.add_subplot(cells[i]))
    # Fix the positions of the panels to four digits: the last digits of the layout differ from run to run.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for ax in figure.axes:
        left, bottom, right, top = np.round(ax.get_position(original=True).bounds, 4).tolist()
        ax.set_position((left, bottom, right, top))
    return figure


def _sum_heights(column: Sequence[Panel]) -> float:
    return sum(panel.height for panel in column)


def _choose_colours(judges: Sequence[str]) -> dict[str, str]:
    """Return rater → colour, in the order in which raters are drawn; the humans come last."""
    colours = {judge: _COLOURS[i % len(_COLOURS)] for i, judge in enumerate(judges)}
    return {**colours, HUMANS: _HUMANS_COLOUR}


def _choose_marker(judge: str) -> str:
    return "D" if judge == HUMANS else "o"


# ------------------------------------------------------------------------------------------------------------- panels


@dataclass(frozen=True, eq=False)
class Panel:
    """Rows from top to bottom, in each row one point with its bar for every judge."""

    title: str
    label: str
    """Label of the horizontal axis."""
    judges: tuple[str, ...]
    points: Points
    circles: Points = ()
    """A second estimate in the same rows, drawn as empty circles."""
    reference: float = 0.0
    """Position of a vertical line."""

    @property
    def rows(self) -> list[str]:
        """The names of the rows, from top to bottom."""
        return list(dict.fromkeys(row for row, _, _ in (*self.points, *self.circles)))

    @property
    def colours(self) -> dict[str, str]:
        """Judge → colour, for the judges that have a value; from top to bottom in each row."""
        points = (*self.points, *self.circles)
        judges = {judge for _, judge, estimate in points if not math.isnan(estimate.value)}
        colours = _choose_colours(self.judges)
        return {judge: colour for judge, colour in colours.items() if judge in judges}

    @property
    def height(self) -> float:
        """Height of the panel in inches."""
        return 0.95 + max(0.32, _POINT_HEIGHT * len(self.colours) + 0.05) * len(self.rows)

    def draw(self, ax: Axes) -> None:
        """Draw the panel."""
        rows = self.rows
        self._draw_points(ax, self.points, "full")
        self._draw_points(ax, self.circles, "none")
        ax.axvline(self.reference, color=_FAINT, lw=0.9, ls=(0, (4, 3)), zorder=0)
        for position in range(0, len(rows), 2):
            ax.axhspan(position - 0.5, position + 0.5, color="#F4F4F4", lw=0, zorder=-1)
        ax.set_yticks(range(len(rows)), rows)
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.tick_params(axis="y", length=0)
        ax.set_xlabel(self.label)
        ax.set_title(self.title)

    def _draw_points(self, ax: Axes, points: Points, fill_style: str) -> None:
        """Draw estimates with their bars; the judges of a row lie below each other, 0.8 of its height together."""
        rows = self.rows
        colours = self.colours
        for number, (judge, colour) in enumerate(colours.items()):
            offset = 0.8 * (number + 0.5) / len(colours) - 0.4
            estimates = {rows.index(row) + offset: e for row, name, e in points if name == judge}
            # Matplotlib leaves out what is NaN: a point without a value, and a bar without an interval.
            for y, estimate in estimates.items():
                ax.hlines(y, estimate.low, estimate.high, color=colour, lw=1.6, alpha=0.55)
            values = [estimate.value for estimate in estimates.values()]
            marker = _choose_marker(judge)
            ax.plot(values, list(estimates), marker, color=colour, fillstyle=fill_style, ms=4.2)


def make_panels(audit: Audit) -> list[Panel]:
    """Return a panel for everything that was measured."""
    agreement = []
    for row in audit.agreement:
        if row.criterion is None:
            agreement.append((row.a, row.b, row.tau_within))
            agreement.append((row.b, row.a, row.tau_within))

    def list_points(rows: Sequence[Any], name: str) -> Points:
        return [(name_criterion(row), row.judge, getattr(row, name)) for row in rows]

    missing = [
        (name_criterion(row), row.judge, Estimate(row.missing / row.asked))
        for row in audit.coverage
    ]
    judges = audit.judges
    panels = [
        Panel(
            "Agreement",
            "Kendall's tau within groups, mean over criteria (1: the same order)",
            judges,
            agreement,
        )
    ]
    for attribute in audit.attributes:
        rows = [row for row in audit.bias if row.attribute == attribute]
        label = f"γ: how much more {attribute} goes with winning (0: not at all)"
        panels.append(Panel(f"Swayed by: {attribute}", label, judges, list_points(rows, "gamma")))
    panels += [
        Panel(
            "The same questions again",
            "● share of identical verdicts    ○ Krippendorff's alpha    (1: always the same)",
            judges,
            list_points(audit.consistency, "identical"),
            list_points(audit.consistency, "alpha"),
            reference=1.0,
        ),
        Panel(
            "Position",
            "share of wins of the response shown first (0.5: no bias)",
            judges,
            list_points(audit.position, "first"),
            reference=0.5,
        ),
        Panel(
            "Ties and gaps",
            "● share of pairs that tie    ○ share of verdicts missing",
            judges,
            list_points(audit.coverage, "ties"),
            missing,
        ),
    ]
    return [panel for panel in panels if panel.colours]
