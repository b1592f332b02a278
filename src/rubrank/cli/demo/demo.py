"""The main job on bundled rollouts: grade by programs and judges, rank, adjust, gate, explain, report.

Everything it shows comes from the public API; `rubrank demo` calls it. No server, no key, nothing to download: what the
judges say is replayed from bundled replies.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rubrank.cli.demo.groups import load_demo_groups
from rubrank.cli.demo.judge import NOTICE, demo_judges
from rubrank.fusion.adjust import attenuate
from rubrank.fusion.attributes.length import lengths
from rubrank.fusion.attributes.markdown import MARKERS, markdown_density
from rubrank.fusion.result import Fused, FusedGroup
from rubrank.fusion.rules import find_rule
from rubrank.grading.grade import grade
from rubrank.records.record import records_of, write_records
from rubrank.records.report import write_report
from rubrank.rollouts.rollout import Group
from rubrank.scores.table import ScoreTable

ATTRIBUTES = ("reasoning words", "headings", "bold")


def demo(output: Path, console: Console | None = None) -> Fused:
    """Grade and fuse the bundled rollouts, show some; rewards go to `output`, records and a report beside it."""
    console = console or Console()
    groups = load_demo_groups()
    table = grade(groups, workers=0, judges=demo_judges(output.parent / "demo_replies.sqlite"))
    result = fuse_table(table, groups)
    console.rule("[bold]rubrank[/]: rubrics into rewards, by ranking")
    console.print(_introduction(groups, table))
    console.print(_rewards(next(iter(result))), "")
    console.print(_overview(result), "")
    console.print(Text("Why that reward?", style="bold"))
    for label, rollout in _worth_explaining(result):
        console.print(Text(result[label].explain(rollout)), soft_wrap=True)
        for line in _verdicts(table, str(label), rollout):
            console.print(Text(line), soft_wrap=True)
    write_rewards(groups, result, output)
    records, report = output.parent / "demo_records.jsonl", output.parent / "demo_report.html"
    write_records(records, records_of(result, table, groups=groups, others=_others(table)))
    write_report(records, report, title="rubrank demo")
    for what, path in (("Rewards", output), ("Records", records), ("Report to open in a browser", report)):
        console.print(f"{what}: [bold]{path}[/]", highlight=False, soft_wrap=True)
    return result


def _others(table: ScoreTable) -> dict[str, np.ndarray]:
    """The same rollouts under other rules, for the report."""
    batch = table.batch()
    return {name: find_rule(name)(batch).reward for name in ("weighted-mean+", "gdpo+", "focal+", "borda+")}


def fuse_table(table: ScoreTable, groups: Sequence[Group]) -> Fused:
    """Rank and gate by the rubrics; weaken what more reasoning explains, take out headings and bold print."""
    rollouts = [rollout for group in groups for rollout in group.rollouts]
    reasoning = lengths([r.answer for r in rollouts], reasoning=[r.thoughts for r in rollouts]).reasoning
    density = markdown_density([r.answer for r in rollouts])
    columns = [MARKERS.index("heading"), MARKERS.index("bold")]
    attributes = np.column_stack([reasoning, density[:, columns]])
    adjust = [attenuate(0.75, draw="fixed"), "remove", "remove"]
    return table.fuse(attributes=attributes, attribute_names=ATTRIBUTES, adjust=adjust)


def write_rewards(groups: Sequence[Group], result: Fused, output: Path) -> None:
    """One line a rollout: its group, its number, its reward."""
    output.parent.mkdir(parents=True, exist_ok=True)
    places = [(group.id, i) for group in groups for i in range(len(group.rollouts))]
    lines = (
        json.dumps({"group": label, "rollout": i, "reward": float(reward)}, ensure_ascii=False)
        for (label, i), reward in zip(places, result.reward, strict=True)
    )
    output.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _introduction(groups: Sequence[Group], table: ScoreTable) -> str:
    rollouts = sum(len(group.rollouts) for group in groups)
    return (
        f"{len(groups)} queries in English and Chinese, {rollouts} responses, {len(table.criteria)} criteria in all, "
        "decided by programs and judges: no scale is ever compared with another. Three quarters of what more reasoning "
        "explains is taken out, and all that headings and bold print explain. Gates stop what is empty, cut off, "
        f"garbled or looping.\n{NOTICE}\n"
    )


def _asked(group: FusedGroup) -> list[int]:
    """The criteria of the query's own rubric: those that somebody was scored on."""
    return [k for k, missing in enumerate(group.missing) if missing < len(group.reward)]


def _rewards(group: FusedGroup) -> Table:
    """Rollouts from best to worst, with their scores."""
    asked = _asked(group)
    table = Table(title=str(group.label), title_justify="left", title_style="bold", box=None, pad_edge=False)
    for heading in ("#", *(group.criteria[k] for k in asked), "R̃", "gate", "reward"):
        table.add_column(heading, justify="right", overflow="fold")
    for i in np.argsort(-group.reward, kind="stable"):
        scores = [_score(group, int(i), k) for k in asked]
        table.add_row(
            str(i), *scores, f"{group.ranking[i]:.2f}", _gate(group, int(i)), f"[bold]{group.reward[i]:.2f}[/]"
        )
    return table


def _score(group: FusedGroup, i: int, k: int) -> str:
    """A score, or the share of the others that it was preferred to."""
    if k in group.compared and group.known[i, k]:
        return f"{np.nanmean(group.compared[k][i]):.0%}"
    return "–" if np.isnan(group.scores[i, k]) else f"{group.scores[i, k]:.3g}"


def _gate(group: FusedGroup, i: int) -> str:
    if group.gated is None or (group.gated.passed[i] and group.gated.factor[i] == 1.0):
        return "pass"
    return f"× {group.gated.factor[i]:.2f}" if group.gated.passed[i] else "[red]stop[/]"


def _overview(result: Fused) -> Table:
    """All groups, a line each."""
    title = "all groups: rewards by rollout (%), and the criterion that decided most"
    table = Table(title=title, title_justify="left", title_style="bold", box=None, pad_edge=False)
    for heading in ("group", "rewards", "decided most by"):
        table.add_column(heading, overflow="fold", no_wrap=heading == "rewards")
    for group in result:
        k = int(np.argmax(group.effective_weights))
        rewards = " ".join(f"{100 * reward:3.0f}" for reward in group.reward)
        table.add_row(str(group.label), rewards, f"{group.criteria[k]} ({group.effective_weights[k]:.0%})")
    return table


def _worth_explaining(result: Fused) -> list[tuple[object, int]]:
    """The best rollout of the first group, and the best-ranked one that a gate stopped."""
    first = next(iter(result))
    chosen: list[tuple[object, int]] = [(first.label, int(np.argmax(first.reward)))]
    stopped = [
        (float(group.ranking[i]), str(group.label), int(i))
        for group in result
        if group.gated is not None
        for i in np.flatnonzero(~group.gated.passed)
    ]
    return [*chosen, *((label, i) for _, label, i in sorted(stopped)[-1:])]


def _verdicts(table: ScoreTable, label: str, rollout: int) -> list[str]:
    """What verifiers and judges said about it."""
    group = table[label]
    return [f"  · {name}: {group.reason(rollout, name)}" for name in group.names]
