"""What a run of this recipe came to: python summarise.py FOLDER

Writes FOLDER/results.json (share of constraints that held-out answers meet before and after, with intervals) and
FOLDER/curves.svg (what was logged at each step). Whole prompts are drawn in the bootstrap, since answers to one prompt
are not independent, and the same prompts before and after.
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rubrank.record import GroupRecord, read_records
from rubrank.statistics.resampling import Measure, Resampling, ratio_measure

DRAWS = 10_000
Cells = dict[str, tuple[np.ndarray, np.ndarray]]
"""Kind of constraint → by prompt: how often it was met, how often it was asked."""


def cells_of(records: list[GroupRecord], prompts: Mapping[str, int]) -> Cells:
    """Counts of constraints, of each kind and of "all"; "both" counts answers that meet everything they are asked."""
    counts: dict[str, np.ndarray] = defaultdict(lambda: np.zeros((2, len(prompts))))
    for record in records:
        at = prompts[str(record.prompt)]
        asked = [k for k, criterion in enumerate(record.criteria) if criterion.layer == "quality"]
        for row in record.scores:
            met = [row[k] == 1.0 for k in asked]
            for k, good in zip(asked, met, strict=True):
                for name in (record.criteria[k].name, "all"):
                    counts[name][:, at] += good, 1
            counts["both"][:, at] += all(met), 1
    return {name: (some, of) for name, (some, of) in counts.items()}


def difference(before: Measure, after: Measure) -> Measure:
    """After less before, over the same draws of prompts."""
    return Measure(lambda times: after.statistic(times) - before.statistic(times), after.n)


def compare(folder: Path) -> dict[str, Any]:
    """Shares before and after, and what was gained, for every kind."""
    held_out = [record for record in read_records(folder / "records.jsonl") if record.metadata["mode"] == "eval"]
    steps = sorted({record.step for record in held_out if record.step is not None})
    prompts = {text: n for n, text in enumerate(dict.fromkeys(str(record.prompt) for record in held_out))}
    draws = Resampling(np.arange(len(prompts)), len(prompts), DRAWS, seed=0)
    before, after = (cells_of([r for r in held_out if r.step == step], prompts) for step in (steps[0], steps[-1]))
    found: dict[str, Any] = {"steps": [steps[0], steps[-1]], "prompts": len(prompts), "level": draws.level}
    for name in sorted(after, key=lambda name: (name not in ("all", "both"), name)):
        old, new = ratio_measure(*before[name]), ratio_measure(*after[name])
        parts = {"before": old, "after": new, "gained": difference(old, new)}
        found[name] = {part: draws.estimate(measure).as_dict() for part, measure in parts.items()}
    return found


def draw(folder: Path) -> None:
    """Curves of the log: reward, means of the criteria, lengths."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    log = json.loads((folder / "trainer_state.json").read_text(encoding="utf-8"))["log_history"]
    trained = [line for line in log if "reward" in line]
    steps = [line["step"] for line in trained]
    figure, axes = plt.subplots(1, 3, figsize=(13, 3.6), layout="constrained")
    axes[0].plot(steps, [line["reward"] for line in trained])
    axes[0].set_title("reward (relative within groups)")
    names = sorted(
        {name for line in trained for name in line if name.startswith("rubrank/") and name.endswith("/mean")}
    )
    for name in names:
        points = [(line["step"], line[name]) for line in trained if name in line]
        axes[1].plot(*zip(*points, strict=True), label=name.split("/")[1], linewidth=1)
    axes[1].set_title("met, by constraint")
    axes[1].legend(fontsize=6)
    axes[2].plot(steps, [line["completions/mean_length"] for line in trained])
    axes[2].set_title("tokens")
    for one in axes:
        one.set_xlabel("step")
    figure.savefig(folder / "curves.svg")


def main(folder: Path) -> None:
    """Write both files, and print the table."""
    found = compare(folder)
    (folder / "results.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    draw(folder)
    for name, parts in found.items():
        if isinstance(parts, dict):
            said = [f"{part} {_estimate(value)}" for part, value in parts.items()]
            print(f"{name:<34}{', '.join(said)}")


def _estimate(value: Mapping[str, Any]) -> str:
    low, high = (f"{value[end]:.2f}" if value[end] is not None else "–" for end in ("low", "high"))
    return f"{value['value']:.3f} [{low}, {high}]"


if __name__ == "__main__":
    main(Path(sys.argv[1]))
