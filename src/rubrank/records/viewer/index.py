"""Columns over all groups of a run: where each record is, and what lists, filters and curves need of it.

    index.add_line(part, offset, length)       found while scanning: the group can be opened
    index.add_facts(g, record)                  read: it can be filtered and counted
    index.column("step")[:index.ready]

A group takes some 60 bytes, and 16 for each of its criteria: 100,000 groups with 12 take 25 MB.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rubrank.records import facts
from rubrank.records.viewer.light import Light, same_prompt

NO_STEP = np.iinfo(np.int64).min
UNREADABLE = 1 << 15
"""Beside the bits of `facts`: a line that is no record."""
EVALUATION = 1 << 14
"""Written by an evaluation, and so no part of the training's curves."""

_LINES = {"part": np.uint32, "offset": np.int64, "length": np.int64}
_FACTS = {
    "step": np.int64,
    "size": np.uint32,
    "spread": np.float32,
    "mean": np.float32,
    "bits": np.uint16,
    "stopped": np.uint32,
    "rule": np.uint32,
    "same": np.uint64,
}
_SERIES = {"group": np.uint32, "series": np.uint32, "average": np.float32, "low": np.float32, "high": np.float32}


class Grown:
    """Arrays of one length that grow together."""

    def __init__(self, columns: dict[str, Any]) -> None:
        self.arrays = {name: np.zeros(1024, kind) for name, kind in columns.items()}
        self.length = 0

    def append(self, **values: Any) -> None:
        """One row."""
        if self.length == len(next(iter(self.arrays.values()))):
            self.arrays = {name: np.concatenate([a, np.zeros_like(a)]) for name, a in self.arrays.items()}
        for name, value in values.items():
            self.arrays[name][self.length] = value
        self.length += 1

    def extend(self, **values: Any) -> None:
        """Many rows."""
        more = len(next(iter(values.values())))
        while self.length + more > len(next(iter(self.arrays.values()))):
            self.arrays = {name: np.concatenate([a, np.zeros_like(a)]) for name, a in self.arrays.items()}
        for name, value in values.items():
            self.arrays[name][self.length : self.length + more] = value
        self.length += more

    def __getitem__(self, name: str) -> np.ndarray:
        return self.arrays[name][: self.length]

    def columns(self, *names: str) -> tuple[np.ndarray, ...]:
        """Several columns, of the same rows even while more are being appended."""
        length, arrays = self.length, self.arrays
        return tuple(arrays[name][:length] for name in names)


class Index:
    """All columns of a run."""

    def __init__(self) -> None:
        self.lines, self.facts, self.series = Grown(_LINES), Grown(_FACTS), Grown(_SERIES)
        self.ids: list[str] = []
        self.rules: dict[str, int] = {}
        self.names: dict[tuple[str, str], int] = {}
        """("criterion" | "attribute", name) → number of the series."""
        self.unreadable: list[tuple[int, str]] = []

    def __len__(self) -> int:
        return self.lines.length

    @property
    def ready(self) -> int:
        """Groups whose facts are known; they come first."""
        return self.facts.length

    def add_record(self, record: Light) -> None:
        """The facts of the next group; of one that no column can hold (a step beyond 64 bits) nothing is added."""
        rule = self.rules.setdefault(record.rule, len(self.rules))
        row = {name: _FACTS[name](value) for name, value in {**group_facts(record), "rule": rule}.items()}
        self._add_series(self.facts.length, record)
        self.ids.append(record.group)
        self.facts.append(**row)

    def add_unreadable(self, why: str) -> None:
        """The next line is no record."""
        self.unreadable.append((self.facts.length, why))
        self.ids.append("")
        self.facts.append(step=NO_STEP, bits=UNREADABLE)

    def _add_series(self, g: int, record: Light) -> None:
        """Mean, lowest and highest of every criterion and attribute of which something is known."""
        names, columns = _measured(record)
        rows = []
        for name, column in zip(names, columns, strict=False):
            known = [x for x in column if x is not None]
            if known:
                number = self.names.setdefault(name, len(self.names))
                rows.append((g, number, sum(known) / len(known), min(known), max(known)))
        if rows:
            group, series, average, low, high = zip(*rows, strict=True)
            self.series.extend(group=group, series=series, average=average, low=low, high=high)


def group_facts(record: Light) -> dict[str, Any]:
    """What a list shows of a group, and filters look at."""
    reward = record.reward
    return {
        "step": NO_STEP if record.step is None else record.step,
        "size": len(reward),
        "spread": max(reward) - min(reward) if reward else 0.0,
        "mean": sum(reward) / len(reward) if reward else 0.0,
        "bits": facts.bits_of(record) | EVALUATION * (record.metadata.get("mode") == "eval"),
        "stopped": facts.stopped(record),
        "same": same_prompt(record),
    }


def _measured(record: Light) -> tuple[list[tuple[str, str]], list[Any]]:
    """Names of criteria and attributes, and the values of the group's rollouts."""
    names = [("criterion", criterion.name) for criterion in record.criteria]
    columns: list[Any] = list(zip(*record.scores, strict=False))[: len(names)]
    if record.attributes is not None:
        names += [("attribute", name) for name in record.attribute_names]
        columns += zip(*record.attributes, strict=False)
    if record.responses:
        names.append(("attribute", "answer characters"))
        columns.append([len(text) for text in record.responses])
    return names, columns
