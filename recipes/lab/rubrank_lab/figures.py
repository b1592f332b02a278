"""Drawings in the manner of the paper's figures: lines over the run, one for each arm.

curves([("off", points), ("λ = 1", points)], "words of thinking")      an SVG text, the same for the same data
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from rubrank_lab.results import BINS

Points: TypeAlias = Sequence[tuple[int, float]]
_COLOURS = ("#5b6b7b", "#1f77b4", "#2a9d8f", "#e9a03b", "#d1495b", "#7b5ea7", "#8c6d46", "#111111", "#999999")


def curves(panels: Sequence[tuple[str, Sequence[tuple[str, Points]]]], mark: float | None = None) -> str:
    """Panels side by side; `mark` is a share of the run at which something begins."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    names = list(dict.fromkeys(name for _, lines in panels for name, _ in lines))
    colours = {name: _COLOURS[number % len(_COLOURS)] for number, name in enumerate(names)}
    with pyplot.rc_context({"svg.hashsalt": "rubrank", "font.size": 9, "svg.fonttype": "none"}):
        figure, axes = pyplot.subplots(1, len(panels), figsize=(4.4 * len(panels), 3.2), squeeze=False)
        drawn: dict[str, Any] = {}
        for axis, (title, lines) in zip(axes[0], panels, strict=True):
            drawn |= _panel(axis, title, lines, colours, mark)
        figure.legend(drawn.values(), drawn, loc="lower center", ncol=min(5, max(1, len(drawn))), frameon=False)
        rows = -(-len(drawn) // 5)
        figure.tight_layout(rect=(0, 0.07 * rows + 0.01, 1, 1))
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
        pyplot.close(figure)
    return text.getvalue()


def _panel(
    axis: Any, title: str, lines: Sequence[tuple[str, Points]], colours: Mapping[str, str], mark: float | None
) -> dict[str, Any]:
    """Name → its line."""
    drawn = {}
    for name, points in lines:
        at = [(bin_ + 0.5) / BINS * 100 for bin_, _ in points]
        values = [value for _, value in points]
        (drawn[name],) = axis.plot(at, values, marker="o", markersize=3, linewidth=1.5, color=colours[name])
    if mark is not None:
        axis.axvline(100 * mark, color="#bbbbbb", linestyle="--", linewidth=1)
    axis.set_title(title)
    axis.set_xlabel("% of the run")
    for side in ("top", "right"):
        axis.spines[side].set_visible(False)
    return drawn
