"""The picture of an audit: the right panels, the same file every time, clear errors."""

from __future__ import annotations

import math
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("matplotlib", reason="needs rubrank[plots]")

from rubrank.errors import InvalidInput
from rubrank.studies.audit.audit import audit
from rubrank.studies.audit.figure import draw, make_panels
from rubrank.studies.statistics import Estimate

pytestmark = pytest.mark.slow

N, G = 12, 5


@pytest.fixture(scope="module")
def everything():
    rng = np.random.default_rng(0)
    quality = rng.normal(size=(N, G, 1))
    runs = {name: [quality + rng.normal(size=(N, G, 2)) for _ in range(2)] for name in ("main", "<ranker> & $x$")}
    return audit(
        {name: [np.round(run) for run in both] for name, both in runs.items()},
        humans=np.round(quality + rng.normal(size=(N, G, 2))),
        criteria=["Clarity", "Depth"],
        attributes=rng.integers(1, 900, (N, G, 2)),
        attribute_names=["length", "markdown"],
        positions={"main": {"Clarity": (13, 20)}},
        bootstrap=40,
    )


def texts_of(path):
    root = ElementTree.parse(path).getroot()
    return [" ".join(element.itertext()) for element in root.iter("{http://www.w3.org/2000/svg}text")]


TITLES = [
    "Agreement",
    "Swayed by: length",
    "Swayed by: markdown",
    "The same questions again",
    "Position",
    "Ties and gaps",
]


def test_every_panel_is_there(everything, tmp_path):
    found = texts_of(draw(everything, tmp_path / "audit.svg"))
    for title in TITLES:
        assert any(text.startswith(title) for text in found), title
    assert "60 rollouts in 12 groups, 2 criteria" in found
    assert found.count("main") >= 2  # in the legend, and beside the table
    assert any("position bias" in text for text in found)


def test_only_what_was_measured_is_drawn(tmp_path):
    alone = audit(np.arange(12.0).reshape(2, 3, 2), bootstrap=10)
    found = texts_of(draw(alone, tmp_path / "audit.svg"))
    drawn = [title for title in TITLES if any(text.startswith(title) for text in found)]
    assert drawn == ["Ties and gaps"]
    assert sum("one run only" in text for text in found) == 1


def test_a_panel_without_any_number_is_left_out(everything):
    unknown = Estimate(math.nan)
    bias = [replace(row, gamma=unknown) if row.attribute == "length" else row for row in everything.bias]
    agreement = [replace(row, tau_within=unknown) for row in everything.agreement]
    panels = make_panels(replace(everything, bias=tuple(bias), agreement=tuple(agreement)))
    assert [panel.title for panel in panels] == TITLES[2:]


def test_points_stand_where_the_estimates_are(everything):
    from matplotlib.figure import Figure

    (panel,) = [panel for panel in make_panels(everything) if getattr(panel, "title", "") == "Swayed by: length"]
    ax = Figure().add_subplot()
    panel.draw(ax)
    drawn = sorted(float(x) for line in ax.get_lines()[:3] for x in line.get_xdata())
    assert drawn == pytest.approx(sorted(b.gamma.value for b in everything.bias if b.attribute == "length"))
    ends = sorted(tuple(segment[:, 0]) for bars in ax.collections for segment in bars.get_segments())
    assert ends == sorted((b.gamma.low, b.gamma.high) for b in everything.bias if b.attribute == "length")
    assert [label.get_text() for label in ax.get_yticklabels()] == ["Clarity", "Depth", "all"]


def test_names_in_chinese(tmp_path):
    named = audit(np.arange(12.0).reshape(2, 3, 2), criteria=["清晰", "深度"], bootstrap=0)
    assert "清晰" in texts_of(draw(named, tmp_path / "audit.svg"))


def test_the_same_audit_gives_the_same_file(everything, tmp_path):
    once, again = (draw(everything, tmp_path / name).read_bytes() for name in ("a.svg", "b.svg"))
    assert once == again


@pytest.mark.parametrize(("name", "start"), [("a.png", b"\x89PNG"), ("a.pdf", b"%PDF"), ("A.PNG", b"\x89PNG")])
def test_formats(everything, tmp_path, name, start):
    path = draw(everything, tmp_path / "new folder" / name, title="A title", dpi=50)
    assert path.read_bytes().startswith(start)


def test_other_formats_are_refused(everything, tmp_path):
    with pytest.raises(InvalidInput, match=r"must be a file that ends in .png, .svg or .pdf; got 'audit.html'"):
        draw(everything, tmp_path / "audit.html")


def test_without_matplotlib(everything, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(InvalidInput, match=r"pip install 'rubrank\[plots\]'"):
        draw(everything, tmp_path / "audit.png")
