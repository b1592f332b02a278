"""Records to where runs are tracked: MLflow, Weave.

    export_records("records.jsonl", "mlflow", place="http://localhost:5000", project="constraints", name="seed 0")
        Exported(to="mlflow", groups=160, rollouts=1280, steps=40, where="http://localhost:5000 run 3f…")

`step_metrics` is what all of them show of a step. A module of `exporters/` is one destination, behind an extra of the
same name; to add one, write a module with a function `export` and name it in EXPORTERS.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path

from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.records.files import read_records
from rubrank.records.record import GroupRecord

EXPORTERS = {"mlflow": "mlflow", "weave": "weave"}
"""Name → module of `exporters/` and package that it needs."""


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
    """MLflow: the tracking URI. Weave has none: the user who is logged in."""
    project: str
    """MLflow's experiment, Weave's project."""
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
    """Send records, or a file of them, to MLflow or Weave."""
    if to not in EXPORTERS:
        raise UnknownName.of("export", "to", to, EXPORTERS)
    if find_spec(to) is None:
        raise InvalidInput("export", "to", "a package that is installed", to, f"pip install 'rubrank[{to}]'.")
    source = Path(records) if isinstance(records, str | Path) else None
    found = read_records(records) if isinstance(records, str | Path) else iter(records)
    target = Target(place, project, name or (source.name.split(".")[0] if source else "rubrank"), source)
    module = import_module(f"rubrank.records.exporters.{EXPORTERS[to]}")
    exported: Exported = module.export(_some(found), target)
    return exported


def _some(records: Iterator[GroupRecord]) -> Iterator[GroupRecord]:
    """The same records; nothing is created anywhere for a file without any."""
    first = next(records, None)
    if first is None:
        raise InvalidInput("export", "records", "at least one group", "none", "")

    def whole() -> Iterator[GroupRecord]:
        yield first
        yield from records

    return whole()


@dataclass
class _Sum:
    total: float = 0.0
    count: int = 0

    def add(self, value: float | None) -> None:
        if value is not None and not math.isnan(value):
            self.total, self.count = self.total + value, self.count + 1


@dataclass
class StepMetrics:
    """Means by step, of groups added one by one."""

    sums: dict[tuple[int, str], _Sum] = field(default_factory=dict)
    groups: int = 0
    rollouts: int = 0
    rules: dict[str, None] = field(default_factory=dict)
    criteria: dict[str, None] = field(default_factory=dict)

    def add(self, record: GroupRecord) -> None:
        """Count a group in; evaluations of a training run stand apart, below `eval/`."""
        self.groups, self.rollouts = self.groups + 1, self.rollouts + record.size
        self.rules.setdefault(record.rule)
        start = "eval/" if record.metadata.get("mode") == "eval" else ""
        step = record.step or 0
        self._add(step, f"{start}no_signal", float(record.no_signal))
        for i, reward in enumerate(record.reward):
            self._add(step, f"{start}reward", reward)
            if record.gate is not None:
                self._add(step, f"{start}stopped", float(not record.gate.passed[i]))
            for k, criterion in enumerate(record.criteria):
                self._add(step, f"{start}criterion/{criterion.name}", record.scores[i][k])
                self._add(step, f"{start}missing/{criterion.name}", float(record.scores[i][k] is None))
        self.criteria.update(dict.fromkeys(criterion.name for criterion in record.criteria))

    def by_step(self) -> dict[int, dict[str, float]]:
        """Step → name → mean over rollouts (of `no_signal`: over groups); what no rollout has is left out."""
        found: dict[int, dict[str, float]] = {}
        for (step, name), part in sorted(self.sums.items()):
            if part.count:
                found.setdefault(step, {})[name] = part.total / part.count
        return found

    def _add(self, step: int, name: str, value: float | None) -> None:
        self.sums.setdefault((step, name), _Sum()).add(value)


def step_metrics(records: Iterable[GroupRecord]) -> dict[int, dict[str, float]]:
    """Step → name → mean, such as {0: {"reward": 0.5, "criterion/NoComma": 0.62, "missing/NoComma": 0.0}}."""
    counted = StepMetrics()
    for record in records:
        counted.add(record)
    return counted.by_step()
