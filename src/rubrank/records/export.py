"""Send records to a tracker of runs: MLflow, Weave or Weights & Biases.

    export_records("records.jsonl", "mlflow", place="http://localhost:5000", project="constraints", name="seed 0")
        Exported(to="mlflow", groups=160, rollouts=1280, steps=40, where="http://localhost:5000 run 3f…")

`StepMetrics` computes what all trackers show of a step. A tracker is a module with a function `export`, behind an extra
of the tracker's name, and is listed in EXPORTERS.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from itertools import chain
from pathlib import Path

from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.records.files import read_records
from rubrank.records.record import GroupRecord

EXPORTERS = {
    "mlflow": "rubrank.records.mlflow_export",
    "weave": "rubrank.records.weave_export",
    "wandb": "rubrank.records.wandb_export",
}
"""Tracker, which is also the name of the package it needs → our module."""


@dataclass(frozen=True)
class Exported:
    """What was sent, and where it is."""

    to: str
    groups: int
    rollouts: int
    steps: int
    where: str


@dataclass(frozen=True)
class Target:
    """Where records go."""

    place: str | None
    """MLflow: the tracking URI. W&B: online or offline. Weave has none: the user who is logged in."""
    project: str
    """MLflow's experiment, the project of Weave or W&B."""
    name: str
    """Of the run."""
    source: Path | None
    """The file that the records come from, kept as an artifact where there are any."""


@only_our_errors
def export_records(
    records: Iterable[GroupRecord] | str | Path,
    to: str,
    *,
    place: str | None = None,
    project: str = "rubrank",
    name: str | None = None,
) -> Exported:
    """Send records, or a file of them, to MLflow, Weave or Weights & Biases."""
    if to not in EXPORTERS:
        raise UnknownName.of("export", "to", to, EXPORTERS)
    if find_spec(to) is None:
        raise InvalidInput(
            "export", "to", "a package that is installed", to, f"pip install 'rubrank[{to}]'."
        )
    source = Path(records) if isinstance(records, str | Path) else None
    groups = read_records(records) if isinstance(records, str | Path) else iter(records)
    # The first record is read before anything is created: an empty file leaves no empty run behind.
    first = next(groups, None)
    if first is None:
        raise InvalidInput("export", "records", "at least one group", "none", "")
    if name is None:
        name = source.name.split(".")[0] if source else "rubrank"
    target = Target(place, project, name, source)
    exported: Exported = import_module(EXPORTERS[to]).export(chain([first], groups), target)
    return exported


@dataclass
class StepMetrics:
    """Means by step, of groups added one by one."""

    values: dict[tuple[int, str], list[float]] = field(default_factory=dict)
    groups: int = 0
    rollouts: int = 0
    rules: dict[str, None] = field(default_factory=dict)
    criteria: dict[str, None] = field(default_factory=dict)

    def add(self, record: GroupRecord) -> None:
        """Count a group in; evaluations of a training run stand apart, below `eval/`."""
        self.groups += 1
        self.rollouts += record.size
        self.rules.setdefault(record.rule)
        prefix = "eval/" if record.metadata.get("mode") == "eval" else ""
        step = record.step or 0
        self._add(step, f"{prefix}no_signal", float(record.no_signal))
        for i, reward in enumerate(record.reward):
            self._add(step, f"{prefix}reward", reward)
            if record.gate is not None:
                self._add(step, f"{prefix}stopped", float(not record.gate.passed[i]))
            for k, criterion in enumerate(record.criteria):
                self._add(step, f"{prefix}criterion/{criterion.name}", record.scores[i][k])
                self._add(
                    step, f"{prefix}missing/{criterion.name}", float(record.scores[i][k] is None)
                )
        self.criteria.update(dict.fromkeys(criterion.name for criterion in record.criteria))

    def by_step(self) -> dict[int, dict[str, float]]:
        """Step → name → mean over rollouts (of `no_signal`: over groups); what no rollout has is left out."""
        by_step: dict[int, dict[str, float]] = {}
        for (step, name), values in sorted(self.values.items()):
            by_step.setdefault(step, {})[name] = sum(values) / len(values)
        return by_step

    def _add(self, step: int, name: str, value: float | None) -> None:
        if value is not None and not math.isnan(value):
            self.values.setdefault((step, name), []).append(value)


def step_metrics(records: Iterable[GroupRecord]) -> dict[int, dict[str, float]]:
    """Step → name → mean, such as {0: {"reward": 0.5, "criterion/NoComma": 0.62, "missing/NoComma": 0.0}}."""
    metrics = StepMetrics()
    for record in records:
        metrics.add(record)
    return metrics.by_step()
