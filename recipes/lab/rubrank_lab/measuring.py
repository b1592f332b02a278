"""What a run came to, from what it left behind: its records and the trainer's log.

    measure(folder, "rlvr2+-1f0c9a2e-s3")        polars: cell, phase, step, metric, value

phase "train": every step; "eval": held-out prompts, before and after. Everything is measured on the texts in the
records, the truth too, after the run is over.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl

from rubrank import markdown_density, read_records
from rubrank.fusion.control.markdown import MARKERS
from rubrank.records.record import GroupRecord
from rubrank_lab import truth
from rubrank_lab.rows import JUDGED
from rubrank_lab.world import parsed

LOGGED = {
    "step_time": "seconds_step",
    "rubrank/seconds": "seconds_reward",
    "rubrank/groups/no_signal": "no_signal",
    "entropy": "entropy",
    "reward": "reward",
    "grad_norm": "grad_norm",
    "completions/clipped_ratio": "clipped",
}
"""Of the trainer's log → as it is called here."""


def measure(run: Path, key: str) -> pl.DataFrame:
    """A long table of a finished run."""
    rows = [*_recorded(run / "records.jsonl"), *_logged(run / "trainer_state.json")]
    schema = {"phase": pl.String, "step": pl.Int16, "metric": pl.String, "value": pl.Float32}
    table = pl.DataFrame(rows, schema=schema, orient="row")
    return table.select(pl.lit(key).alias("cell"), *schema).sort("phase", "metric", "step")


def _recorded(path: Path) -> Iterator[tuple[str, int, str, float]]:
    """Means over the rollouts of a step."""
    sums: dict[tuple[str, int, str], list[float]] = defaultdict(list)
    for record in read_records(path):
        phase, step = str(record.metadata["mode"]), int(record.step or 0)
        for name, values in _of_group(record).items():
            sums[phase, step, name] += [value for value in values if value is not None]
    for (phase, step, name), values in sums.items():
        if values:
            yield phase, step, name, sum(values) / len(values)


def _of_group(record: GroupRecord) -> Mapping[str, list[Any]]:
    """Metric → one value a rollout."""
    ask = parsed((record.prompt or ())[-1]["content"])
    pairs = zip(record.reasoning or (), record.responses or (), strict=True)
    texts = [f"<think>{thought}</think>\n{said}" for thought, said in pairs]
    truncated = _column(record, "Truncated")
    found: dict[str, list[Any]] = defaultdict(list)
    for i, text in enumerate(texts):
        known, seen = truth.truth(ask, text, truncated[i] == 0.0), truth.read(ask, text)
        for name in ("quality", "additive", "content", "asks", "satisfied", "gate"):
            found[f"true_{name}"].append(getattr(known, name))
        found["thinking"].append(float(seen.thinking))
        found["words"].append(float(seen.words))
        found["markers"].append(float(seen.markers))
        found["opened"].append(float(seen.opened))
    for criterion in record.criteria:
        found[f"score_{criterion.name}"] = _column(record, criterion.name)
    for name in ("true_quality", "thinking", "markers"):
        found[f"follows_{name}"] = [_correlation(record.reward, found[name])]
    return found | _markdown(texts) | _influence(record)


def _correlation(rewards: Sequence[float], values: Sequence[float]) -> float | None:
    """Within the group: does the reward follow it? None where one of them is the same for all."""
    if np.ptp(rewards) < 1e-12 or np.ptp(values) < 1e-12:
        return None
    return float(np.corrcoef(rewards, values)[0, 1])


def _influence(record: GroupRecord) -> dict[str, list[Any]]:
    """What an attribute is estimated to do to a judged criterion, and what was taken out."""
    found: dict[str, list[Any]] = {}
    for word, table in (("gamma", record.gamma), ("taken", record.taken)):
        for criterion, row in zip(record.ranked, table or (), strict=False):
            if criterion.name in JUDGED and len(row) == 1:
                found[f"{word}_{criterion.name}"] = [row[0]]
    return found


def _column(record: GroupRecord, name: str) -> list[Any]:
    names = [criterion.name for criterion in record.criteria]
    return [row[names.index(name)] for row in record.scores]


def _markdown(texts: list[str]) -> dict[str, list[Any]]:
    """Density of each of the eleven markers, in percent of lines."""
    table = 100.0 * markdown_density([text.partition("</think>")[2] for text in texts])
    return {f"md_{name}": list(map(float, table[:, d])) for d, name in enumerate(MARKERS)}


def _logged(path: Path) -> Iterator[tuple[str, int, str, float]]:
    """What the trainer wrote down: times, entropy, rewards."""
    for line in json.loads(path.read_text(encoding="utf-8"))["log_history"]:
        for name, ours in LOGGED.items():
            if name in line:
                yield "train", int(line["step"]) - 1, ours, float(line[name])
