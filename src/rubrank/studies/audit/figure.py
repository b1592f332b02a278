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
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from rubrank._files import atomic_write, suffix_error
from rubrank.errors import import_optional
from rubrank.studies.audit.result import Audit, list_unmeasured, name_criterion
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
_HUMANS = "humans"
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
_LEGEND_COLUMNS = 6

Point: TypeAlias = tuple[str, str, Estimate]
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
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    columns = arrange_panels(make_panels(audit))
    column_count = max(1, len(columns))
    tallest = max((sum(panel.height for panel in column) for column in columns), default=0.0)
    notes = [
        fill(line, 95 * column_count, subsequent_indent="    ") for line in list_unmeasured(audit)
    ]
    head_inches = 0.75 + 0.2 * math.ceil((len(audit.judges) + 1) / _LEGEND_COLUMNS)
    foot_inches = 0.1
    if notes:
        foot_inches = 0.4 + 0.17 * sum(note.count("\n") + 1 for note in notes)
    total_inches = head_inches + tallest + foot_inches
    panels_share = 1.0 - (foot_inches + head_inches) / total_inches
    area = (0.0, foot_inches / total_inches, 1.0, panels_share)
    layout = ConstrainedLayoutEngine(rect=area, h_pad=0.1, w_pad=0.08)
    figure = Figure(figsize=(_PANEL_WIDTH * column_count, total_inches), layout=layout)
    grid = figure.add_gridspec(1, column_count)
    for number, column in enumerate(columns):
        heights = [panel.height for panel in column]
        empty = tallest - sum(heights)
        if empty > 0.01:
            heights.append(empty)  # the shorter column ends in an empty cell
        cells = grid[0, number].subgridspec(len(heights), 1, height_ratios=heights)
        for i, panel in enumerate(column):
            panel.draw(figure.add_subplot(cells[i]))
    _add_title_and_legend(figure, audit, title, total_inches)
    if notes:
        text = "not measured:\n" + "\n".join(notes)
        figure.text(0.012, 0.08 / total_inches, text, va="bottom", size=7.5, color=_FAINT)
    # Fix the positions of the panels to four digits: the last digits of the layout differ from run to run.
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for ax in figure.axes:
        left, bottom, width, height = (
            round(float(x), 4) for x in ax.get_position(original=True).bounds
        )
        ax.set_position((left, bottom, width, height))
    return figure


def arrange_panels(panels: Sequence[Panel]) -> list[list[Panel]]:
    """Return the panels in two columns: each one goes where there is more room."""
    columns: list[list[Panel]] = [[] for _ in range(min(2, len(panels)))]
    for panel in panels:
        shortest = min(columns, key=lambda column: sum(panel.height for panel in column))
        shortest.append(panel)
    return columns


def _add_title_and_legend(figure: Figure, audit: Audit, title: str, total_inches: float) -> None:
    from matplotlib.lines import Line2D

    size = f"{audit.rollouts:,} rollouts in {audit.groups:,} groups, {len(audit.criteria)} criteria"
    figure.text(0.012, 1.0 - 0.12 / total_inches, title, va="top", size=13, weight="bold")
    figure.text(0.012, 1.0 - 0.38 / total_inches, size, va="top", color=_FAINT)
    raters = {*audit.judges, *(row.judge for row in audit.bias)}
    handles = [
        Line2D([], [], color=colour, marker=_choose_marker(name), ls="", ms=5, label=name)
        for name, colour in _choose_colours(audit.judges).items()
        if name in raters
    ]
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=(0.004, 1.0 - 0.55 / total_inches),
        borderaxespad=0.0,
        ncols=_LEGEND_COLUMNS,
        frameon=False,
        handletextpad=0.2,
    )


def _choose_colours(judges: Sequence[str]) -> dict[str, str]:
    """Return rater → colour, in the order in which raters are drawn; the humans come last."""
    colours = {judge: _COLOURS[i % len(_COLOURS)] for i, judge in enumerate(judges)}
    return {**colours, _HUMANS: _HUMANS_COLOUR}


def _choose_marker(judge: str) -> str:
    return "D" if judge == _HUMANS else "o"


# ------------------------------------------------------------------------------------------------------------- panels


@dataclass(frozen=True, eq=False)
class PointsPanel:
    """Rows from top to bottom, in each row one point with its bar for every judge."""

    title: str
    label: str
    """Label of the horizontal axis."""
    judges: tuple[str, ...]
    points: Sequence[Point]
    circles: Sequence[Point] = ()
    """A second estimate in the same rows, drawn as empty circles."""
    reference: float = 0.0
    """Position of a vertical line."""
    least_range: tuple[float, float] | None = None
    """Range that the horizontal axis includes in any case."""

    @property
    def has_values(self) -> bool:
        """Whether there is anything to draw: an estimate that could not be computed is NaN."""
        points = (*self.points, *self.circles)
        return any(not math.isnan(estimate.value) for _, _, estimate in points)

    @property
    def rows(self) -> list[str]:
        """The names of the rows, from top to bottom."""
        return list(dict.fromkeys(row for row, _, _ in (*self.points, *self.circles)))

    @property
    def height(self) -> float:
        """Height of the panel in inches."""
        judges = {judge for _, judge, _ in (*self.points, *self.circles)}
        return 0.95 + max(0.32, _POINT_HEIGHT * len(judges) + 0.05) * len(self.rows)

    def draw(self, ax: Axes) -> None:
        """Draw the panel."""
        rows = self.rows
        self._draw_points(ax, self.points)
        ax.axvline(self.reference, color=_FAINT, lw=0.9, ls=(0, (4, 3)), zorder=0)
        for position in range(0, len(rows), 2):
            ax.axhspan(position - 0.5, position + 0.5, color="#F4F4F4", lw=0, zorder=-1)
        ax.set_yticks(range(len(rows)), rows)
        if "all" in rows:
            ax.get_yticklabels()[rows.index("all")].set_fontweight("bold")
        ax.set_ylim(len(rows) - 0.5, -0.5)
        ax.tick_params(axis="y", length=0)
        ax.margins(x=0.06)
        if self.circles:
            self._draw_points(ax, self.circles, as_circles=True)
        if self.least_range is not None:
            low, high = ax.get_xlim()
            ax.set_xlim(min(low, self.least_range[0]), max(high, self.least_range[1]))
        ax.set_xlabel(self.label)
        ax.set_title(self.title)

    def _draw_points(self, ax: Axes, points: Sequence[Point], as_circles: bool = False) -> None:
        """Draw estimates with their bars; the judges of a row lie below each other, 0.8 of its height together."""
        rows = self.rows
        colours = _choose_colours(self.judges)
        drawn_judges = {judge for _, judge, _ in (*self.points, *self.circles)}
        judges = [name for name in colours if name in drawn_judges]
        step = 0.8 / max(1, len(judges))
        for number, judge in enumerate(judges):
            offset = (number + 0.5) * step - 0.4
            y = []
            values = []
            lows = []
            highs = []
            for row, name, estimate in points:
                if name != judge or math.isnan(estimate.value):
                    continue
                has_interval = not math.isnan(estimate.low)
                y.append(rows.index(row) + offset)
                values.append(estimate.value)
                lows.append(estimate.low if has_interval else estimate.value)
                highs.append(estimate.high if has_interval else estimate.value)
            colour = colours[judge]
            ax.hlines(y, lows, highs, color=colour, lw=1.6, alpha=0.55)
            face = "white" if as_circles else colour
            ax.plot(
                values,
                y,
                _choose_marker(judge),
                color=colour,
                markerfacecolor=face,
                ms=4.2,
                zorder=3,
            )


@dataclass(frozen=True, eq=False)
class AgreementPanel:
    """A matrix of Kendall's tau for every two raters."""

    raters: tuple[str, ...]
    table: np.ndarray

    @property
    def has_values(self) -> bool:
        """Whether there is anything to draw."""
        return not np.isnan(self.table).all()

    @property
    def height(self) -> float:
        """Height of the panel in inches."""
        return 1.3 + 0.42 * len(self.raters)

    def draw(self, ax: Axes) -> None:
        """Draw the panel."""
        ax.imshow(self.table, cmap="RdBu", vmin=-1.0, vmax=1.0, aspect=0.6)
        ax.set_anchor("NW")
        for (i, j), value in np.ndenumerate(self.table):
            if not math.isnan(value):
                colour = "white" if abs(value) > 0.6 else _INK
                ax.text(j, i, f"{value:.2f}", ha="center", va="center", color=colour)
        ax.set_xticks(
            range(len(self.raters)), self.raters, rotation=30, ha="right", rotation_mode="anchor"
        )
        ax.set_yticks(range(len(self.raters)), self.raters)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.set_title("Agreement: Kendall's tau within groups, mean over criteria")


Panel: TypeAlias = PointsPanel | AgreementPanel


def make_panels(audit: Audit) -> list[Panel]:
    """Return a panel for everything that was measured."""
    panels: list[Panel] = []
    means = [row for row in audit.agreement if row.criterion is None]
    raters = tuple(dict.fromkeys(name for row in means for name in (row.a, row.b)))
    if raters:
        table = np.full((len(raters), len(raters)), np.nan)
        for row in means:
            i = raters.index(row.a)
            j = raters.index(row.b)
            table[i, j] = row.tau_within.value
            table[j, i] = row.tau_within.value
        panels.append(AgreementPanel(raters, table))
    for attribute in audit.attributes:
        gammas = [
            (name_criterion(row), row.judge, row.gamma)
            for row in audit.bias
            if row.attribute == attribute
        ]
        label = f"γ: how much more {attribute} goes with winning (0: not at all)"
        panels.append(PointsPanel(f"Swayed by: {attribute}", label, audit.judges, gammas))
    panels += [
        PointsPanel(
            "The same questions again",
            "● share of identical verdicts    ○ Krippendorff's alpha    (1: always the same)",
            audit.judges,
            [(name_criterion(row), row.judge, row.identical) for row in audit.consistency],
            [(name_criterion(row), row.judge, row.alpha) for row in audit.consistency],
            reference=1.0,
        ),
        PointsPanel(
            "Position",
            "share of wins of the response shown first (0.5: no bias)",
            audit.judges,
            [(name_criterion(row), row.judge, row.first) for row in audit.position],
            reference=0.5,
            least_range=(0.4, 0.6),
        ),
        PointsPanel(
            "Ties and gaps",
            "● share of pairs that tie    ○ share of verdicts missing",
            audit.judges,
            [(row.criterion, row.judge, row.ties) for row in audit.coverage if row.ties.n],
            [
                (row.criterion, row.judge, Estimate(row.missing / row.asked))
                for row in audit.coverage
            ],
        ),
    ]
    return [panel for panel in panels if panel.has_values]
