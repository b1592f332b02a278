"""An audit as one picture: agreement, what judges are swayed by, consistency, position, ties and gaps.

    draw(result, "audit.png")          .png, .svg or .pdf; needs matplotlib: pip install 'rubrank[plots]'

Points are estimates and bars their intervals. A panel is left out when nothing in it was measured; the foot of the
picture says what was not, and why.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from pathlib import Path
from textwrap import fill
from typing import TYPE_CHECKING

import numpy as np

from rubrank._files import atomic_write, suffix_error
from rubrank.errors import optional_package
from rubrank.studies.audit.result import Audit
from rubrank.studies.audit.tables import not_measured, or_all
from rubrank.studies.statistics import Estimate

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORMATS = (".png", ".svg", ".pdf")
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
_INK, _FAINT, _HUMANS = "#222222", "#8A8A8A", "#111111"
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
_WIDTH, _ROW = 6.4, 0.14  # inches: of a panel, and of one point with its bar

_LEGEND = 6  # names in a row of the legend

Panel = tuple[float, "Callable[[Axes], None]"]
"""Height in inches, and what draws it."""
Point = tuple[str, str, Estimate]
"""Row, judge, estimate."""


def draw(audit: Audit, path: str | Path, *, title: str | None = None, dpi: int = 150) -> Path:
    """Draw the audit into a file; returns its path."""
    to = Path(path)
    if to.suffix.lower() not in FORMATS:
        raise suffix_error(to, FORMATS)
    is_svg = to.suffix.lower() == ".svg"
    matplotlib = optional_package("matplotlib", "draw", "'rubrank[plots]'")
    with matplotlib.rc_context({**_STYLE, "font.family": _fonts()}), warnings.catch_warnings():
        if is_svg:  # its text is text: the viewer has the fonts
            warnings.filterwarnings("ignore", message="Glyph .* missing from font")
        figure = _figure(audit, title or ", ".join(audit.judges))
        # Without a date, and with panels settled, the same audit gives the same file.
        settled = {"Date": None} if is_svg else None
        with atomic_write(to) as partial:
            figure.savefig(partial, dpi=dpi, metadata=settled, facecolor="white", format=to.suffix[1:].lower())
    return to


def _fonts() -> list[str]:
    """Those that are installed, for names of criteria in Chinese too."""
    from matplotlib.font_manager import get_font_names

    installed = set(get_font_names())
    return [name for name in _FONTS if name in installed]


# ------------------------------------------------------------------------------------------------------------- figure


def _figure(audit: Audit, title: str) -> Figure:
    from matplotlib.figure import Figure
    from matplotlib.layout_engine import ConstrainedLayoutEngine

    columns = _columns(_panels(audit))
    tallest = max((sum(height for height, _ in column) for column in columns), default=0.0)
    notes = [fill(line, 95 * max(1, len(columns)), subsequent_indent="    ") for line in not_measured(audit)]
    head = 0.75 + 0.2 * math.ceil((len(audit.judges) + 1) / _LEGEND)
    foot = 0.17 * sum(note.count("\n") + 1 for note in notes) + 0.4 if notes else 0.1
    total = head + tallest + foot
    area = (0.0, foot / total, 1.0, 1.0 - (foot + head) / total)
    layout = ConstrainedLayoutEngine(rect=area, h_pad=0.1, w_pad=0.08)
    figure = Figure(figsize=(_WIDTH * max(1, len(columns)), total), layout=layout)
    grid = figure.add_gridspec(1, max(1, len(columns)))
    for j, column in enumerate(columns):
        heights = [height for height, _ in column]
        rest = [tallest - sum(heights)] if tallest - sum(heights) > 0.01 else []  # nothing stands there
        places = grid[0, j].subgridspec(len(heights + rest), 1, height_ratios=heights + rest)
        for i, (_, panel) in enumerate(column):
            panel(figure.add_subplot(places[i]))
    _write_around(figure, audit, title, total, notes)
    _settle(figure)
    return figure


def _settle(figure: Figure) -> None:
    """Fix where the layout puts the panels, to four digits: its last ones differ from run to run."""
    figure.draw_without_rendering()
    figure.set_layout_engine("none")
    for ax in figure.axes:
        left, bottom, width, height = (round(float(x), 4) for x in ax.get_position(original=True).bounds)
        ax.set_position((left, bottom, width, height))


def _columns(panels: Sequence[Panel]) -> list[list[Panel]]:
    """Two columns: every panel goes to where there is more room."""
    columns: list[list[Panel]] = [[] for _ in range(min(2, len(panels)))]
    for panel in panels:
        min(columns, key=lambda column: sum(height for height, _ in column)).append(panel)
    return columns


def _write_around(figure: Figure, audit: Audit, title: str, total: float, notes: Sequence[str]) -> None:
    """Title, size, one legend for all panels; at the foot what was not measured."""
    from matplotlib.lines import Line2D

    size = f"{audit.rollouts:,} rollouts in {audit.groups:,} groups, {len(audit.criteria)} criteria"
    figure.text(0.012, 1.0 - 0.12 / total, title, va="top", size=13, weight="bold")
    figure.text(0.012, 1.0 - 0.38 / total, size, va="top", color=_FAINT)
    raters = {name for row in audit.bias for name in [row.judge]} | set(audit.judges)
    handles = [
        Line2D([], [], color=colour, marker=_marker(name), ls="", ms=5, label=name)
        for name, colour in _colours(audit).items()
        if name in raters
    ]
    at = (0.004, 1.0 - 0.55 / total)
    figure.legend(
        handles=handles,
        loc="upper left",
        bbox_to_anchor=at,
        borderaxespad=0.0,
        ncols=_LEGEND,
        frameon=False,
        handletextpad=0.2,
    )
    if notes:
        figure.text(0.012, 0.08 / total, "not measured:\n" + "\n".join(notes), va="bottom", size=7.5, color=_FAINT)


def _panels(audit: Audit) -> list[Panel]:
    every = [_agreement(audit), *(_bias(audit, attribute) for attribute in audit.attributes)]
    every += [_consistency(audit), _position(audit), _coverage(audit)]
    return [panel for panel in every if panel is not None]


def _colours(audit: Audit) -> dict[str, str]:
    chosen = {judge: _COLOURS[i % len(_COLOURS)] for i, judge in enumerate(audit.judges)}
    return {**chosen, "humans": _HUMANS}


# ------------------------------------------------------------------------------------------------------------- panels


def _agreement(audit: Audit) -> Panel | None:
    pairs = {(row.a, row.b): row.tau_within for row in audit.agreement if row.criterion is None}
    names = list(dict.fromkeys(name for pair in pairs for name in pair))
    if len(names) < 2:
        return None
    table = np.full((len(names), len(names)), np.nan)
    for (a, b), tau in pairs.items():
        i, j = names.index(a), names.index(b)
        table[i, j] = table[j, i] = tau.value

    def panel(ax: Axes) -> None:
        ax.imshow(table, cmap="RdBu", vmin=-1.0, vmax=1.0, aspect=0.6)
        ax.set_anchor("NW")
        for (i, j), value in np.ndenumerate(table):
            if not math.isnan(value):
                colour = "white" if abs(value) > 0.6 else _INK
                ax.text(j, i, f"{value:.2f}", ha="center", va="center", color=colour)
        ax.set_xticks(range(len(names)), names, rotation=30, ha="right", rotation_mode="anchor")
        ax.set_yticks(range(len(names)), names)
        ax.tick_params(length=0)
        ax.spines[:].set_visible(False)
        ax.set_title("Agreement: Kendall's tau within groups, mean over criteria")

    return 1.3 + 0.42 * len(names), panel


def _bias(audit: Audit, attribute: str) -> Panel | None:
    rows = [(or_all(b.criterion), b.judge, b.gamma) for b in audit.bias if b.attribute == attribute]

    def panel(ax: Axes) -> None:
        _points(ax, audit, rows, zero=0.0)
        ax.set_xlabel(f"γ: how much more {attribute} goes with winning (0: not at all)")
        ax.set_title(f"Swayed by: {attribute}")

    return (_height(rows), panel) if rows else None


def _consistency(audit: Audit) -> Panel | None:
    rows = [(or_all(c.criterion), c.judge, c.identical) for c in audit.consistency]
    alphas = [(or_all(c.criterion), c.judge, c.alpha) for c in audit.consistency]

    def panel(ax: Axes) -> None:
        _points(ax, audit, rows, zero=1.0)
        _points(ax, audit, alphas, hollow=True)
        ax.set_xlabel("● share of identical verdicts    ○ Krippendorff's alpha    (1: always the same)")
        ax.set_title("The same questions again")

    return (_height(rows), panel) if rows else None


def _position(audit: Audit) -> Panel | None:
    rows = [(or_all(p.criterion), p.judge, p.first) for p in audit.position]

    def panel(ax: Axes) -> None:
        _points(ax, audit, rows, zero=0.5)
        low, high = ax.get_xlim()
        ax.set_xlim(min(low, 0.4), max(high, 0.6))
        ax.set_xlabel("share of wins of the response shown first (0.5: no bias)")
        ax.set_title("Position")

    return (_height(rows), panel) if rows else None


def _coverage(audit: Audit) -> Panel | None:
    ties = [(c.criterion, c.judge, c.ties) for c in audit.coverage if c.ties.n]
    gaps = [(c.criterion, c.judge, Estimate(c.missing / c.asked)) for c in audit.coverage]

    def panel(ax: Axes) -> None:
        _points(ax, audit, ties, zero=0.0)
        _points(ax, audit, gaps, hollow=True)
        ax.set_xlabel("● share of pairs that tie    ○ share of verdicts missing")
        ax.set_title("Ties and gaps")

    return (_height(gaps), panel) if gaps else None


# ------------------------------------------------------------------------------------------------------------- points


def _points(ax: Axes, audit: Audit, points: Sequence[Point], zero: float | None = None, hollow: bool = False) -> None:
    """Rows from top to bottom, in each one point and bar for every judge."""
    rows = list(dict.fromkeys(row for row, _, _ in points))
    judges = [name for name in _colours(audit) if any(judge == name for _, judge, _ in points)]
    step = 0.8 / max(1, len(judges))
    for judge in judges:
        mine = [(rows.index(row), e) for row, name, e in points if name == judge and not math.isnan(e.value)]
        y = [at + (judges.index(judge) + 0.5) * step - 0.4 for at, _ in mine]
        value = np.array([e.value for _, e in mine])
        ends = np.array([[e.low, e.high] if not math.isnan(e.low) else [e.value] * 2 for _, e in mine]).reshape(-1, 2)
        colour = _colours(audit)[judge]
        ax.hlines(y, ends[:, 0], ends[:, 1], color=colour, lw=1.6, alpha=0.55)
        face = "white" if hollow else colour
        ax.plot(value, y, _marker(judge), color=colour, markerfacecolor=face, ms=4.2, zorder=3)
    if zero is not None:
        _frame(ax, rows, zero)


def _marker(judge: str) -> str:
    return "D" if judge == "humans" else "o"


def _frame(ax: Axes, rows: Sequence[str], zero: float) -> None:
    ax.axvline(zero, color=_FAINT, lw=0.9, ls=(0, (4, 3)), zorder=0)
    for at in range(0, len(rows), 2):
        ax.axhspan(at - 0.5, at + 0.5, color="#F4F4F4", lw=0, zorder=-1)
    ax.set_yticks(range(len(rows)), rows)
    if "all" in rows:
        ax.get_yticklabels()[rows.index("all")].set_fontweight("bold")
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.margins(x=0.06)


def _height(points: Sequence[Point]) -> float:
    rows, judges = {row for row, _, _ in points}, {judge for _, judge, _ in points}
    return 0.95 + max(0.32, _ROW * len(judges) + 0.05) * len(rows)
