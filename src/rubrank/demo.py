"""The main job on a bundled table: 3 queries × 8 rollouts, 4 criteria of different scales, a gate and two attributes.

Everything it shows comes from the public API; `rubrank demo` calls it.
"""

from __future__ import annotations

import json
from importlib.resources import files
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rubrank.adjustment import attenuate
from rubrank.aggregators.rlvr2 import RLVR2
from rubrank.fused import FusedBatch, FusedGroup
from rubrank.gate import Gate

CRITERIA = ("Facts", "Keyword", "Clarity", "Coverage", "NotEmpty", "NoRepeats")
ATTRIBUTES = ("tokens", "headings")


def demo(output: Path, console: Console | None = None) -> FusedBatch:
    """Fuse the bundled table, show it, and write the rewards to `output` as JSON lines."""
    console = console or Console()
    rows = load_rows()
    result = fuse_rows(rows)
    console.rule("[bold]rubrank[/]: rubrics into rewards, by ranking")
    console.print(_introduction(result))
    for group in result:
        console.print(_rewards(group), "")
    console.print(_utilities(result["explain-tides"]), "")
    console.print(Text("Why that reward?", style="bold"))
    for label, rollout in (("explain-tides", 1), ("fix-the-query", 5)):
        console.print(Text(result[label].explain(rollout)), soft_wrap=True)
    write_rewards(rows, result, output)
    console.print(f"\nRewards of all {len(rows)} rollouts: [bold]{output}[/]", highlight=False, soft_wrap=True)
    return result


def load_rows() -> list[dict[str, object]]:
    """The bundled table, one dict a rollout."""
    text = (files("rubrank") / "data" / "demo.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


def fuse_rows(rows: list[dict[str, object]]) -> FusedBatch:
    """Fuse them as a training step would."""
    rule = RLVR2(
        criteria=CRITERIA,
        weights={"Facts": 2.0},
        margins={"Coverage": 0.05},
        attribute_names=ATTRIBUTES,
        adjust=[attenuate(0.5, draw="fixed"), "remove"],
        gate=Gate(global_quality=["NotEmpty"], low_quality=["NoRepeats"]),
    )
    scores = np.array([[row[name] for name in CRITERIA] for row in rows], dtype=float)
    attributes = np.array([[row[name] for name in ATTRIBUTES] for row in rows], dtype=float)
    return rule(scores, groups=[str(row["group"]) for row in rows], attributes=attributes)


def write_rewards(rows: list[dict[str, object]], result: FusedBatch, output: Path) -> None:
    """The rows with their rewards, as JSON lines."""
    output.parent.mkdir(parents=True, exist_ok=True)
    lines = (
        json.dumps({**row, "reward": float(r)}, ensure_ascii=False) for row, r in zip(rows, result.reward, strict=True)
    )
    output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _introduction(result: FusedBatch) -> str:
    return (
        f"{len(result)} queries × 8 rollouts. Ranked by {', '.join(result.criteria)} (yes/no, three grades, 0–10, 0–1: "
        "no scale is ever compared with another). Half of what more tokens explain is taken out, all that "
        "headings explain. NotEmpty is a hard gate, NoRepeats a soft one.\n"
    )


def _rewards(group: FusedGroup) -> Table:
    """Rollouts from best to worst."""
    table = Table(title=str(group.label), title_justify="left", title_style="bold", box=None, pad_edge=False)
    for heading in ("#", *group.criteria, *group.attribute_names, "R̃", "gate", "reward"):
        table.add_column(heading, justify="right", no_wrap=True)
    for i in np.argsort(-group.reward, kind="stable"):
        scores = ["–" if np.isnan(x) else f"{x:g}" for x in group.scores[i]]
        attributes = [] if group.attributes is None else [f"{x:g}" for x in group.attributes[i]]
        table.add_row(
            str(i),
            *scores,
            *attributes,
            f"{group.ranking[i]:.2f}",
            _gate(group, int(i)),
            f"[bold]{group.reward[i]:.2f}[/]",
        )
    return table


def _gate(group: FusedGroup, i: int) -> str:
    if group.gated is None or (group.gated.passed[i] and group.gated.factor[i] == 1.0):
        return "pass"
    return f"× {group.gated.factor[i]:.2f}" if group.gated.passed[i] else "[red]stop[/]"


def _utilities(group: FusedGroup) -> Table:
    title = f"{group.label}: utilities"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for heading in ("rollout", *group.criteria, "fused"):
        table.add_column(heading, justify="right")
    for i, row in enumerate(group.values):
        table.add_row(str(i), *(f"{u:+.2f}" for u in row), f"{group.fused[i]:+.2f}")
    table.add_section()
    table.add_row("weight", *(f"{w:g}" for w in group.weights), "")
    table.add_row("effective", *(f"{w:.0%}" for w in group.effective_weights), "")
    return table
