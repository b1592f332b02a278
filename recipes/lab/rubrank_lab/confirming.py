"""The confirming runs with SmolLM2-135M-Instruct: from records of runs to a small file, and from it to a section.

    collect(Path("out/lab/smollm2"), Path("recipes/lab"))      "rlvr2+-s0/records.jsonl" … → results/smollm2.csv
    section(read(Path("recipes/lab")))                         tables, a drawing, differences seed by seed

Held-out prompts are answered before and after a run; training is kept in eight bins, as for the small policy.
"""

from __future__ import annotations

import csv
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import TypeAlias

import rubrank
from rubrank.records.record import GroupRecord
from rubrank_lab.comparing import Difference, difference, summary
from rubrank_lab.document import Heading, Paragraph, Part, Picture, Table
from rubrank_lab.figures import curves
from rubrank_lab.files import reading, replacing
from rubrank_lab.results import BINS

FILE = Path("results") / "smollm2.csv"
METRICS = {
    "constraints": "constraints met",
    "both": "both constraints",
    "Subject": "subject named",
    "count:unique_word_count": "eight different words",
    "SoftLength": "length near 20",
    "DistinctN": "different words, share",
    "gates": "gates passed",
    "words": "words",
}
"""Metric → heading."""
NAMES = {"rule-fusion": "Rule-Fusion", "rlvr2+": "RLVR²+"}
TOLD = (
    "SmolLM2-135M-Instruct with LoRA: {steps} steps of 2 prompts × 8 rollouts of at most 32 tokens on the prompts of "
    "`recipes/smollm2_ifeval`; {runs} runs. A prompt asks for two constraints of eight kinds; all answers are asked "
    "to name their subject, to have eight different words, to be about 20 tokens long, and not to repeat words (the "
    "last two are graded). There is no judge, hence no true quality apart from the criteria: what counts is the share "
    "of constraints that are met on 64 held-out prompts with two answers each. With three seeds intervals go from the "
    "least to the greatest, and only a very large difference would show: these runs tell that a real model learns "
    "under both rules, not which of them is better."
)
_CONSTRAINT = re.compile(r"[a-z_]+:[a-z_]+")


@dataclass(frozen=True, slots=True)
class Row:
    """A number of one run; `bin` is 0 … 7 for training, 0 and 8 for held-out prompts before and after."""

    rule: str
    seed: int
    phase: str
    bin: int
    metric: str
    value: float


Sums: TypeAlias = dict[tuple[str, int, str], list[float]]


def collect(work: Path, folder: Path) -> None:
    """Finished runs of `work` into the kept results, in place of what was kept of the same runs."""
    runs = {named(path): path for path in sorted(work.glob("*-s*")) if (path / "model").is_dir()}
    if not runs:
        return
    rows = [row for row in read(folder) if (row.rule, row.seed) not in runs]
    for (rule, seed), path in runs.items():
        rows += measured(rubrank.read_records(path / "records.jsonl"), rule, seed)
    with replacing(folder / FILE) as partial, partial.open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file)
        lines.writerow(["rule", "seed", "phase", "bin", "metric", "value"])
        lines.writerows([*astuple(row)[:-1], f"{row.value:.5f}"] for row in sorted(rows, key=astuple))


def named(run: Path) -> tuple[str, int]:
    """Rule and seed: "rlvr2+-s0" → ("rlvr2+", 0)."""
    rule, _, seed = run.name.rpartition("-s")
    return rule, int(seed)


def read(folder: Path) -> list[Row]:
    """What is kept; empty if nothing is."""
    if not (folder / FILE).is_file():
        return []
    path = folder / FILE
    with path.open(encoding="utf-8") as file, reading(path, "rows of rule, seed, phase, bin, metric, value"):
        return [
            Row(line["rule"], int(line["seed"]), line["phase"], int(line["bin"]), line["metric"], float(line["value"]))
            for line in csv.DictReader(file)
        ]


def measured(records: Iterable[GroupRecord], rule: str, seed: int) -> list[Row]:
    """Means over the answers of each bin."""
    groups = list(records)
    steps = 1 + max(record.step or 0 for record in groups if record.metadata["mode"] == "train")
    sums: Sums = defaultdict(list)
    for record in groups:
        phase = str(record.metadata["mode"])
        at = BINS if phase == "eval" and record.step else min(BINS - 1, (record.step or 0) * BINS // steps)
        for answer in answers(record):
            for metric, value in answer.items():
                sums[phase, at, metric].append(value)
    return [
        Row(rule, seed, phase, at, metric, sum(values) / len(values))
        for (phase, at, metric), values in sorted(sums.items())
    ]


def answers(record: GroupRecord) -> Iterable[dict[str, float]]:
    """What each answer of a group came to; a constraint is what the row itself asks for, by its IFEval name."""
    names = [criterion.name for criterion in record.criteria]
    gates = {criterion.name for criterion in record.criteria if criterion.layer == "global_quality"}
    asked = [name for name in names if _CONSTRAINT.fullmatch(name) and name not in METRICS]
    for scores, response in zip(record.scores, record.responses or (), strict=True):
        of = {name: score for name, score in zip(names, scores, strict=True) if score is not None}
        met = [of[name] for name in asked]
        yield {
            "constraints": sum(met) / len(met),
            "both": float(all(met)),
            "gates": float(all(of[name] for name in gates if name in of)),
            "words": float(len(str(response).split())),
            **{name: of[name] for name in METRICS if name in of},
        }


# ---------------------------------------------------------------------------------------------------------- the section


def against(rows: Sequence[Row], metric: str = "constraints") -> Difference:
    """RLVR²+ minus Rule-Fusion after the run, over the seeds that both have."""
    first, second = (_values(rows, rule, metric, BINS) for rule in ("rlvr2+", "rule-fusion"))
    both = [seed for seed in first if seed in second]
    return difference([first[seed] for seed in both], [second[seed] for seed in both])


def section(rows: Sequence[Row], steps: int = 40) -> list[Part]:
    """Everything about them; nothing if there are none."""
    if not rows:
        return []
    rules = [rule for rule in NAMES if any(row.rule == rule for row in rows)]
    runs = len({(row.rule, row.seed) for row in rows})
    parts: list[Part] = [
        Heading("10. Confirming runs with a real model"),
        Paragraph(TOLD.format(steps=steps, runs=runs)),
        Table(["held-out prompts", "seeds", *METRICS.values()], _summaries(rows, rules)),
    ]
    if against(rows).n > 1:
        gaps = {metric: against(rows, metric) for metric in METRICS}
        told = [[METRICS[metric], gap.said(), gap.p_said] for metric, gap in gaps.items()]
        parts.append(Table(["RLVR²+ minus Rule-Fusion, seed by seed", "difference", "p"], told))
    panels = [
        (METRICS[metric], [(NAMES[rule], _curve(rows, rule, metric)) for rule in rules])
        for metric in ("constraints", "SoftLength")
    ]
    return [*parts, Picture("lab_smollm2", "SmolLM2 in training, by rule: constraints met, and length", curves(panels))]


def _summaries(rows: Sequence[Row], rules: Sequence[str]) -> list[list[str]]:
    told = []
    for name, at, asked in (("before training", 0, rules[:1]), *((NAMES[rule], BINS, [rule]) for rule in rules)):
        by_metric = {metric: _values(rows, asked[0], metric, at) for metric in METRICS}
        seeds = str(len(by_metric["constraints"]))
        said = [
            summary(list(found.values())).said(1 if metric == "words" else 3) for metric, found in by_metric.items()
        ]
        told.append([name, seeds, *said])
    return told


def _values(rows: Sequence[Row], rule: str, metric: str, at: int) -> Mapping[int, float]:
    """Seed → value on held-out prompts."""
    return {
        row.seed: row.value for row in rows if (row.rule, row.phase, row.metric, row.bin) == (rule, "eval", metric, at)
    }


def _curve(rows: Sequence[Row], rule: str, metric: str) -> list[tuple[int, float]]:
    by_bin: dict[int, list[float]] = defaultdict(list)
    for row in rows:
        if (row.rule, row.phase, row.metric) == (rule, "train", metric):
            by_bin[row.bin].append(row.value)
    return [(at, sum(values) / len(values)) for at, values in sorted(by_bin.items())]
