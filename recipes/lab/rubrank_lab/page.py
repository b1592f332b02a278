"""The report, from the results alone.

    write_page(Path("recipes/lab"), experiments, Path("report.html"), Path("docs/lab.md"))

The same results give the same text. What they mean for the paper's claims is decided by `claims.py`, not by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from rubrank_lab import confirming
from rubrank_lab.claims import CONFIRMING, Decided, decided
from rubrank_lab.document import Heading, Page, Paragraph, Part, Table
from rubrank_lab.experiments import Experiment
from rubrank_lab.files import replacing
from rubrank_lab.results import load
from rubrank_lab.runtime import read_times
from rubrank_lab.sections import section
from rubrank_lab.view import View

TITLE = "The laboratory: the paper's experiments with a small policy"
PICTURES = "pictures"


def make_page(folder: Path, experiments: Mapping[str, Experiment]) -> Page:
    """The page."""
    results = load(folder)
    paper = yaml.safe_load((folder / "paper.yaml").read_text(encoding="utf-8"))
    fusion = read_times(folder)
    views = {name: View(one, results) for name, one in experiments.items()}
    parts: list[Part] = [Paragraph(text) for text in _preface(folder)]
    real = confirming.read(folder)
    parts += _overview(views, real)
    for view in views.values():
        parts += section(view, paper, fusion)
    return Page(TITLE, [*parts, *confirming.section(real)])


def _preface(folder: Path) -> list[str]:
    """What does not come from results: what was done, how, and what it cannot show."""
    text = (folder / "preface.txt").read_text(encoding="utf-8")
    return [block.strip() for block in text.split("\n\n") if block.strip()]


def _overview(views: Mapping[str, View], real: Sequence[confirming.Row]) -> list[Part]:
    found = decided(views, [(CONFIRMING, confirming.against(real))])
    cells = {key for view in views.values() for arm in view.experiment.arms for key in _keys(view, arm, done=True)}
    wanted = {key for view in views.values() for arm in view.experiment.arms for key in _keys(view, arm, done=False)}
    counted = f"{len(cells)} of {len(wanted)} different cells have been run (arms that experiments share count once)."
    parts: list[Part] = [Heading("What the paper claims, and what is seen here"), Paragraph(counted)]
    if not found:
        return parts
    compared = len(found)
    told = (
        f"{compared} comparisons were made, each paired over seeds. “Agrees” and “disagrees” mean p < 0.05 by t-test; "
        f"one in twenty would come by chance. “Sure” means p < 0.05 / {compared}, “open” is everything else. That two "
        "arms are alike is granted only where the whole interval lies within ±0.03. Claims marked ° are ours."
    )
    return [*parts, Paragraph(told), Table(_HEADER, [_row(one) for one in found])]


_HEADER = ["claim", "measured by", "difference", "p", "verdict"]
_NAMES = {
    "true_quality": "true quality",
    "thinking": "words of thinking",
    "markers": "Markdown markers",
    "constraints": "constraints met",
}


def _row(one: Decided) -> list[str]:
    claim, gap = one.claim, one.difference
    digits = 3 if claim.metric not in ("thinking", "markers") else 2
    name = _NAMES.get(claim.metric, claim.metric)
    return [f"{claim.said}{'°' * claim.ours}", name, gap.said(digits), gap.p_said, one.verdict]


def _keys(view: View, arm: str, done: bool) -> list[str]:
    seeds = view.seeds(arm) if done else range(5)
    return [view.cell(arm, seed).key for seed in seeds]


def write_page(
    folder: Path, experiments: Mapping[str, Experiment], page: Path, markdown: Path | None = None
) -> list[Path]:
    """HTML in one file; Markdown with its pictures beside it. Returns what was written."""
    made = make_page(folder, experiments)
    written = [_write(page, made.html())]
    if markdown is not None:
        written.append(_write(markdown, made.markdown(PICTURES)))
        for picture in made.pictures:
            written.append(_write(markdown.parent / PICTURES / f"{picture.name}.svg", picture.svg))
    return written


def _write(path: Path, text: str) -> Path:
    with replacing(path) as partial:
        partial.write_text(text, encoding="utf-8")
    return path
