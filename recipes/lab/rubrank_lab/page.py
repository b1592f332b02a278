"""The report, from the results alone.

    write_page(Path("recipes/lab"), experiments, Path("report.html"), Path("docs/lab.md"))

The same results give the same text. What they mean for the paper's claims is decided by `claims.py`, not by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import yaml

from rubrank_lab import confirming
from rubrank_lab.brief import in_short
from rubrank_lab.claims import CONFIRMING, MARGIN, Decided, decided
from rubrank_lab.document import Heading, Page, Paragraph, Part, Table
from rubrank_lab.experiments import Experiment
from rubrank_lab.files import replacing
from rubrank_lab.results import load
from rubrank_lab.runtime import Times
from rubrank_lab.sections import section
from rubrank_lab.view import View, counted

TITLE = "The laboratory: the paper's experiments with a small policy"
PICTURES = "pictures"


def make_page(folder: Path, experiments: Mapping[str, Experiment]) -> Page:
    """The page."""
    results = load(folder)
    paper = yaml.safe_load((folder / "paper.yaml").read_text(encoding="utf-8"))
    times = Times.of(folder)
    views = {name: View(one, results) for name, one in experiments.items()}
    real = confirming.read(folder)
    found = decided(views, [(CONFIRMING, confirming.against(real))])
    sections = [part for view in sorted(views.values(), key=_rank) for part in section(view, paper, times)]
    sections += confirming.section(real)
    parts: list[Part] = [*in_short(views, found), *_claims(found, _tests(sections)), Heading("How it was done")]
    parts += [Paragraph(text) for text in (*_preface(folder), f"Different cells run: {counted(views.values())}.")]
    return Page(TITLE, [*parts, *sections])


def _rank(view: View) -> tuple[bool, str]:
    """By number; the null test has none and is the last of our own experiments."""
    return not view.experiment.number, view.experiment.number


def _tests(parts: Sequence[Part]) -> int:
    """p-values in the tables of the sections."""
    tables = [part for part in parts if isinstance(part, Table)]
    return sum(len(table.rows) for table in tables if any(name.split()[0:1] == ["p"] for name in table.header))


def _preface(folder: Path) -> list[str]:
    """What does not come from results: what was done, how, and what it cannot show."""
    text = (folder / "preface.txt").read_text(encoding="utf-8")
    return [block.strip() for block in text.split("\n\n") if block.strip()]


def _claims(found: Sequence[Decided], tests: int) -> list[Part]:
    """Claim by claim."""
    if not found:
        return []
    told = (
        f"{len(found)} comparisons, each paired over seeds. “Agrees” and “disagrees” mean p < 0.05 by t-test; where "
        "there is nothing to be found, one in twenty would come out so by chance. “Sure” means p < 0.05 / "
        f"{len(found)} (Bonferroni), “open” is everything else. That two arms are alike is granted only where the "
        f"whole 95% interval by Student's t lies within ±{MARGIN}, that something costs no quality only where it "
        f"ends above -{MARGIN}. Claims marked ° are ours, not the paper's. The sections below show {tests} "
        "more p-values (some of them the same comparisons again), to look at and not to decide by."
    )
    return [Heading("Claim by claim"), Paragraph(told), Table(_HEADER, [_row(one) for one in found])]


_HEADER = ["claim", "verdict", "measured by", "difference [bootstrap]", "95% by t", "p"]
_NAMES = {
    "true_quality": "true quality",
    "thinking": "words of thinking",
    "markers": "Markdown markers",
    "constraints": "constraints met",
}


def _row(one: Decided) -> list[str]:
    claim, gap = one.claim, one.difference
    digits = 3 if claim.metric not in ("thinking", "markers") else 2
    name = _NAMES.get(claim.metric, claim.metric) + (", end minus fifth eighth" if claim.within else "")
    said = f"{claim.said}{'°' * claim.ours}"
    return [said, one.verdict, name, gap.said(digits), gap.t_said(digits), gap.p_said]


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
