"""What a run of this recipe came to: python summarise.py RUN FOLDER

Writes into FOLDER (which may be RUN itself) small files to look at, and to keep:

    results.json    shares of the held-out answers at every evaluation, and what was gained, with 95% intervals
    log.jsonl       what was logged at every step, the lines that matter
    curves.svg      the same as pictures
    answers.md      some held-out answers before and after, good and bad, as they come

Whole prompts are drawn in the bootstrap, since answers to one prompt are not independent, and the same prompts at every
evaluation.
"""

from __future__ import annotations

import argparse
import json
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from rubrank import read_records
from rubrank.records.record import GroupRecord
from rubrank.studies.statistics import LEVEL, Measure, Resampling, ratio_measure

DRAWS = 10_000
SHOWN = 12
EVERYWHERE = (
    "count:unique_word_count",
    "Subject",
)  # asked of every prompt; the others are its constraints
SCORE = "rubrank/score"  # rows bring their criteria, which have no lines of their own
LOGGED = (
    "step",
    "epoch",
    "loss",
    "grad_norm",
    "entropy",
    "reward",
    "reward_std",
    "frac_reward_zero_std",
    "completions/mean_length",
    "completions/clipped_ratio",
    "step_time",
    "rubrank/seconds",
    "rubrank/share_of_step",
    "rubrank/groups/no_signal",
    "rubrank/gate/stopped",
)
Cells = dict[str, tuple[np.ndarray, np.ndarray]]
"""What is counted → by prompt: how often it was so, of how many."""


# -------------------------------------------------------------------------------------------------------------- results


def cells_of(records: Iterable[GroupRecord], prompts: Mapping[str, int]) -> Cells:
    """Counts of each criterion; of "constraints" together; and of answers that meet both, or everything."""
    counts: dict[str, np.ndarray] = defaultdict(lambda: np.zeros((2, len(prompts))))
    for record in records:
        at = prompts[str(record.prompt)]
        names = [criterion.name for criterion in record.criteria]
        constraints = [c.name for c in record.criteria if c.layer == "quality" and c.name not in EVERYWHERE]
        for row in record.scores:
            met = {name: score == 1.0 for name, score in zip(names, row, strict=True)}
            for name in constraints:
                counts["constraints"][:, at] += met[name], 1
            counts["both constraints"][:, at] += all(met[name] for name in constraints), 1
            counts["everything"][:, at] += all(met.values()), 1
            for name, good in met.items():
                counts[name][:, at] += good, 1
    return {name: (some, of) for name, (some, of) in counts.items()}


def difference(before: Measure, after: Measure) -> Measure:
    """After less before, over the same draws of prompts."""
    return Measure(lambda times: after.statistic(times) - before.statistic(times), after.n)


def compare(run: Path) -> dict[str, Any]:
    """Shares at every evaluation, and what was gained from the first to the last."""
    held_out = [record for record in read_records(run / "records.jsonl") if record.metadata["mode"] == "eval"]
    steps = sorted({record.step for record in held_out if record.step is not None})
    prompts = {text: n for n, text in enumerate(dict.fromkeys(str(record.prompt) for record in held_out))}
    draws = Resampling(np.arange(len(prompts)), len(prompts), DRAWS, seed=0)
    cells = {step: cells_of([r for r in held_out if r.step == step], prompts) for step in steps}
    found: dict[str, Any] = {"prompts": len(prompts), "level": LEVEL, "shares": {}}
    for name in cells[steps[0]]:
        shares = {step: ratio_measure(*cells[step][name]) for step in steps}
        parts = {f"step {step}": measure for step, measure in shares.items()}
        parts["gained"] = difference(shares[steps[0]], shares[steps[-1]])
        found["shares"][name] = {part: draws.estimate(measure).as_dict() for part, measure in parts.items()}
    return found


# ------------------------------------------------------------------------------------------------------- log and curves


def log_of(run: Path) -> list[dict[str, Any]]:
    """The lines of the log, without what does not matter here, with four digits."""
    state = json.loads((run / "trainer_state.json").read_text(encoding="utf-8"))
    return [
        {name: float(f"{value:.4g}") for name, value in line.items() if _is_logged(name)}
        for line in state["log_history"]
        if "reward" in line or "eval_reward" in line
    ]


def _is_logged(name: str) -> bool:
    bare = name.removeprefix("eval_")
    return bare in LOGGED or bare == SCORE or (bare.startswith("rubrank/") and bare.endswith("/mean"))


def draw(log: list[dict[str, Any]], shares: Mapping[str, Any], file: Path) -> None:
    """Three pictures: what trained answers meet, what held-out answers meet, and how long answers are."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams["svg.fonttype"], plt.rcParams["svg.hashsalt"] = "none", "rubrank"
    figure, axes = plt.subplots(1, 3, figsize=(14, 5.2), layout="constrained")
    trained = [line for line in log if "reward" in line]
    _draw_trained(axes[0], trained)
    _draw_held_out(axes[1], shares)
    axes[2].plot([line["step"] for line in trained], [line["completions/mean_length"] for line in trained])
    axes[2].set_title("tokens of an answer, training")
    axes[2].set_ylim(0)
    for one in axes:
        one.set_xlabel("step")
        one.grid(alpha=0.3)
    figure.savefig(file, metadata={"Date": None})


def _draw_trained(axis: Any, trained: list[dict[str, Any]]) -> None:
    names = sorted(
        {name for line in trained for name in line if name == SCORE or (name.startswith("rubrank/") and ":" in name)}
    )
    for name in names:
        points = [(line["step"], line[name]) for line in trained if name in line]
        mean = np.convolve([y for _, y in points], np.ones(5), "valid") / 5 if len(points) >= 5 else []
        axis.plot([x for x, _ in points][2 : 2 + len(mean)], mean, label=name.split("/")[1], linewidth=1.2)
    axis.set_title("met in training, mean of 5 steps that ask it")
    _finish(axis)


def _draw_held_out(axis: Any, shares: Mapping[str, Any]) -> None:
    for name in ("constraints", "both constraints", "everything", *EVERYWHERE):
        points = [(int(part.split()[1]), at) for part, at in shares[name].items() if part.startswith("step")]
        low = [at["value"] - at["low"] for _, at in points]
        high = [at["high"] - at["value"] for _, at in points]
        axis.errorbar(
            [x for x, _ in points],
            [at["value"] for _, at in points],
            [low, high],
            label=name,
            capsize=3,
        )
    axis.set_title("met by held-out answers, 95% intervals")
    _finish(axis)


def _finish(axis: Any) -> None:
    axis.set_ylim(-0.02, 1.02)
    axis.legend(fontsize=7, loc="upper center", bbox_to_anchor=(0.5, -0.14), ncols=2)  # below: lines are everywhere


# -------------------------------------------------------------------------------------------------------------- answers


def answers_of(run: Path) -> str:
    """The first answer to some held-out prompts, before and after."""
    by_prompt: dict[str, dict[int, GroupRecord]] = defaultdict(dict)
    for record in read_records(run / "records.jsonl"):
        if record.metadata["mode"] == "eval" and record.step is not None:
            by_prompt[str(record.prompt)][record.step] = record
    every = max(1, len(by_prompt) // SHOWN)
    lines = [f"# Every {every}th held-out prompt: its first answer before and after", ""]
    for records in list(by_prompt.values())[::every]:
        lines.append(f"**{_asked(records[min(records)])}**")
        for step in (min(records), max(records)):
            lines += [
                "",
                f"step {step}: {_met(records[step])}",
                "",
                *_quoted(records[step].responses[0]),
            ]
        lines.append("")
    return "\n".join(lines)


def _asked(record: GroupRecord) -> str:
    prompt: Any = record.prompt
    text = prompt if isinstance(prompt, str) else prompt[-1]["content"]
    return text.replace("<", "\\<")


def _met(record: GroupRecord) -> str:
    quality = [k for k, criterion in enumerate(record.criteria) if criterion.layer == "quality"]
    failed = [c.name for c, score in zip(record.criteria, record.scores[0], strict=True) if score != 1.0]
    met = sum(record.scores[0][k] == 1.0 for k in quality)
    return f"{met} of {len(quality)}" + (f"; not {', '.join(failed)}" if failed else "")


def _quoted(text: str) -> list[str]:
    return ["    " + line for line in text.splitlines()] or ["    (nothing)"]


# ----------------------------------------------------------------------------------------------------------------- main


def main(run: Path, folder: Path) -> None:
    """Write the files, and print the table."""
    folder.mkdir(parents=True, exist_ok=True)
    found, log = compare(run), log_of(run)
    (folder / "results.json").write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    (folder / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in log), encoding="utf-8")
    (folder / "answers.md").write_text(answers_of(run), encoding="utf-8")
    draw(log, found["shares"], folder / "curves.svg")
    for name, parts in found["shares"].items():
        print(f"{name:<34}{', '.join(f'{part} {_estimate(value)}' for part, value in parts.items())}")


def _estimate(value: Mapping[str, Any]) -> str:
    low, high = (f"{value[end]:.2f}" if value[end] is not None else "–" for end in ("low", "high"))
    return f"{value['value']:.3f} [{low}, {high}]"


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("folder", type=Path)
    options = parser.parse_args()
    main(options.run, options.folder)
