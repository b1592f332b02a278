"""The sections of the report, one for each experiment: tables beside the paper's numbers, and drawings.

section(view, paper)      headings, paragraphs, tables, pictures of one experiment; nothing but the results is read
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from rubrank.fusion.control.markdown import MARKERS
from rubrank_lab.comparing import Summary, summary
from rubrank_lab.document import Heading, Paragraph, Part, Picture, Table
from rubrank_lab.figures import curves
from rubrank_lab.rows import CHALLENGING, SATURATED
from rubrank_lab.runtime import PARTS, Times
from rubrank_lab.view import View, counted

METRICS: Mapping[str, tuple[str, int, float]] = {
    "true_quality": ("true quality", 3, 1.0),
    "true_additive": ("additive", 3, 1.0),
    "true_content": ("content", 3, 1.0),
    "true_asks": ("wishes", 3, 1.0),
    "true_satisfied": ("all satisfied, %", 1, 100.0),
    "true_gate": ("gates passed, %", 1, 100.0),
    "thinking": ("thinking, words", 1, 1.0),
    "words": ("answer, words", 1, 1.0),
    "markers": ("Markdown markers", 2, 1.0),
}
"""Metric → heading, digits, factor."""
CRITERIA = (
    "FactCount",
    "Coverage",
    "Avoid",
    "Title",
    "List",
    "Closing",
    "Order",
    "NoComma",
    "Short",
    "OnTopic",
    "Variety",
    "Density",
    "Accuracy",
    "Helpful",
    "Clear",
    "NoOpening",
)
JUDGED = ("Accuracy", "Helpful", "Clear")
TOLD = {
    "criteria": "Each criterion on held-out prompts, as verifiers and the judge scored it (Density from 0 to 100, "
    "Accuracy from 0 to 10, Helpful from 1 to 5):",
    "follows": "How far the reward follows what it should, and what it should not: correlation within groups, mean "
    "over the run.",
    "averages": "Beside the paper's averages over 16 benchmarks (one run each, other models, other tasks: only the "
    "order can be compared):",
    "influence": "What the estimator found (γ̂, mean over groups) and what it took out. The judge's true liking of a "
    "unit of length is 0.20, 0.15 and 0 on a scale from 0 to 1; γ̂ is in logits of a comparison, so only zero and the "
    "order of the three can be compared:",
    "null": "The two rewards are the same up to a shift and a factor within each group. Advantages are not quite: TRL "
    "divides by σ + 10⁻⁴, which weighs more where rewards lie closer together (up to 0.4% of an advantage here). A "
    "seed parts from its twin once that changes a token that is drawn.",
    "groups": "Here all have the same rollouts: 12 prompts × 4, 6 × 8 or 3 × 16 a step. In the paper all have the same "
    "steps, and G = 16 sees four times the rollouts of G = 4.",
    "pools": "A step has 6 groups here. An estimate from fewer than eight is not trusted and nothing is taken out, so "
    "that “length control, pool batch” is the same run as without control; what differs is what the estimator says of "
    "held-out prompts, which come in larger batches. “Utility scale” has no gate; beside the rule "
    "that it should be compared with:",
    "densities": "Densities of the eleven markers in training, in percent of lines, by eighths of the run, as the "
    "paper shows them. Control begins in the sixth, which is in no mean, and has 10 steps to act (the paper: 30). The "
    "policy was never taught ordered lists.",
    "branches": "Branches leave at 70% and have 10 steps to act; the paper's have 30.",
    "overall": "The paper's overall average (9B, Table 2a) is {off:.2f} without and {controlled:.2f} with control of "
    "formatting; its text names the two the other way round.",
    "headroom": "Challenging are all verified criteria from 0 to 1 whose mean before training is below 2/3 ({hard}), "
    "saturated those above 0.8 ({easy}). The paper does not say which its own are.",
    "scales": "Numbers that are not equal include the mean score of the criterion itself, one for each seed: it is on "
    "another scale.",
    "clock": "All of ours is processor time of one thread; what else the machine does is not in it. `fusion` is for "
    "128 groups of 8 that one run logged, the same for all rules. `rollout`, `reward` (grading, judging, fusing) and "
    "`total` are of a step of 48 rollouts, mean over one run of seed 0. Rollouts differ in length, the paper's far "
    "more than ours.",
}


def section(view: View, paper: Mapping[str, Any], times: Times) -> list[Part]:
    """Everything about one experiment."""
    one = view.experiment
    number = f"{one.number}. " if one.number else ""
    told = f"The paper: {one.paper}. " if one.paper else ""
    parts: list[Part] = [Heading(f"{number}{one.title}"), Paragraph(f"{told}Cells run: {counted([view])}.")]
    if not any(map(view.seeds, one.arms)):
        return parts
    if one.name != "runtime":  # whose arms are those of the main table
        parts += [_summaries(view), *_differences(view)]
    more = {
        "main": _main,
        "null": _null,
        "thinking": _thinking,
        "formatting": _formatting,
        "headroom": _headroom,
        "group_size": _groups,
        "focal": _beside,
        "scale": _scale,
        "ours": _ours,
    }.get(one.name)
    if one.name == "runtime":
        parts += _runtime(view, paper.get(one.name, {}), times)
    return parts + (more(view, paper.get(one.name, {})) if more else [])


def _said(found: Summary, digits: int, factor: float = 1.0) -> str:
    return Summary(factor * found.mean, factor * found.low, factor * found.high, found.n).said(digits)


def _number(value: float, form: str = ".2f") -> str:
    return "–" if math.isnan(value) else format(value, form)


def _sameness(view: View, pairs: Sequence[tuple[str, str]]) -> list[Part]:
    """Arms that should be the same run, number by number."""
    told = []
    for arm, other in pairs:
        seeds, compared, equal = view.same(arm, other) if {arm, other} <= set(view.experiment.arms) else (0, 0, 0)
        if seeds:
            over = "1 seed" if seeds == 1 else f"{seeds} seeds"
            told.append(f"“{arm}” and “{other}”: {equal} of {compared} final numbers are equal ({over}).")
    return [Paragraph(" ".join(told))] if told else []


def _arms(view: View) -> list[str]:
    return [arm for arm in view.experiment.arms if view.seeds(arm)]


def _summaries(view: View) -> Table:
    """Means over seeds with bootstrap intervals; the first row is the policy before training."""
    header = ["held-out prompts", "seeds", *(name for name, _, _ in METRICS.values())]
    rows = []
    begun = [arm for arm in _arms(view) if view.values(arm, "true_quality", base=True)]
    if begun:
        told = [_said(view.summary(begun[0], m, base=True), d, f) for m, (_, d, f) in METRICS.items()]
        rows.append(["before training", str(len(view.seeds(begun[0]))), *told])
    for arm in _arms(view):
        told = [_said(view.summary(arm, metric), d, f) for metric, (_, d, f) in METRICS.items()]
        rows.append([arm, str(len(view.seeds(arm))), *told])
    return Table(header, rows)


def _differences(view: View) -> list[Part]:
    reference = view.experiment.reference
    if not view.seeds(reference):
        return []
    rows = []
    for arm in _arms(view):
        if arm != reference:
            gaps = [view.against(arm, reference, metric) for metric in ("true_quality", "thinking", "markers")]
            rows.append([arm, *(gap.said(d) for gap, d in zip(gaps, (3, 1, 2), strict=True)), gaps[0].p_said])
    header = [f"minus {reference}, seed by seed", "true quality", "thinking", "markers", "p (quality)"]
    return [Table(header, rows)] if rows else []


# --------------------------------------------------------------------------------------------------------- the sections


def _main(view: View, paper: Mapping[str, Any]) -> list[Part]:
    arms = _arms(view)
    panels = [
        ("true quality", view.curves(arms, "true_quality")),
        ("words of thinking", view.curves(arms, "thinking")),
    ]
    about = "True quality and words of thinking on the prompts of training, by method: means over seeds"
    return [
        Picture("lab_main", about, curves(panels)),
        Paragraph(TOLD["criteria"]),
        _criteria(view, arms),
        Paragraph(TOLD["follows"]),
        _follows(view, arms),
        Paragraph(TOLD["averages"]),
        _averages(view, arms, paper),
    ]


def _null(view: View, paper: Mapping[str, Any]) -> list[Part]:
    return [*_sameness(view, [("RLVR²", "weighted sum")]), Paragraph(TOLD["null"])]


def _criteria(view: View, arms: Sequence[str]) -> Table:
    rows = []
    for name in CRITERIA:
        before = view.summary(arms[0], f"score_{name}", base=True).mean
        rows.append([name, _number(before), *(_number(view.summary(arm, f"score_{name}").mean) for arm in arms)])
    return Table(["mean score, held out", "before", *arms], rows)


def _follows(view: View, arms: Sequence[str]) -> Table:
    asked = ("true_quality", "thinking", "markers")
    rows = [[arm, *(_number(_mean(view, arm, f"follows_{what}"), "+.2f") for what in asked)] for arm in arms]
    return Table(["reward follows", "true quality", "thinking", "markers"], rows)


def _averages(view: View, arms: Sequence[str], paper: Mapping[str, Any]) -> Table:
    rows = []
    for arm in ("base", *arms):
        ours = view.summary(arms[0], "true_quality", base=True) if arm == "base" else view.summary(arm, "true_quality")
        rows.append([arm, *(f"{value:.2f}" for value in paper[arm]), f"{ours.mean:.3f}"])
    return Table(["method", "paper, 106B", "paper, 9B", "paper, 4B", "here, true quality"], rows)


def _mean(view: View, arm: str, metric: str) -> float:
    points = [value for _, value in view.curve(arm, metric)]
    return sum(points) / len(points) if points else float("nan")


def _thinking(view: View, paper: Mapping[str, Any]) -> list[Part]:
    arms = _arms(view)
    ours = [arm for arm in arms if not arm.startswith("letter")]
    letter = [arm for arm in arms if arm.startswith("letter") or arm == "off"]
    panels = [
        ("words of thinking, pooled over the run", view.curves(ours, "thinking")),
        ("words of thinking, the paper's letter", view.curves(letter, "thinking")),
    ]
    rows = []
    for arm in arms:
        told = f"{paper[arm]:.2f}" if arm in paper else "–"
        rows.append([arm, told, view.summary(arm, "true_quality").said()])
    return [
        *_sameness(view, [("λ = 0", "off")]),
        Paragraph(TOLD["branches"]),
        Picture("lab_thinking", "Words of thinking over the run, by λ: means over seeds", curves(panels, mark=0.7)),
        Table(["λ", "paper, overall (9B)", "here, true quality"], rows),
        Paragraph(TOLD["influence"]),
        _influence(view, [arm for arm in arms if arm != "off"]),
    ]


def _influence(view: View, arms: Sequence[str]) -> Table:
    both = [(name, word) for name in JUDGED for word in ("gamma", "taken")]
    rows = [[arm, *(_number(_mean(view, arm, f"{word}_{name}")) for name, word in both)] for arm in arms]
    return Table(["", *(f"{name}, {'γ̂' if word == 'gamma' else word}" for name, word in both)], rows)


def _formatting(view: View, paper: Mapping[str, Any]) -> list[Part]:
    arms = _arms(view)
    if "off" not in arms:
        return []
    shown = [Picture("lab_formatting", "Markdown markers over the run: means over seeds", _markers(view, arms))]
    told = [Paragraph(TOLD["overall"].format(**paper["overall"]))] if "overall" in paper else []
    return [*shown, Paragraph(TOLD["densities"]), _densities(view, arms, paper), *told]


def _markers(view: View, arms: Sequence[str]) -> str:
    return curves([("markers in an answer", view.curves(arms, "markers"))], mark=0.7)


def _densities(view: View, arms: Sequence[str], paper: Mapping[str, Any]) -> Table:
    """Rows are eighths of the run, then means; the paper's below them."""
    tables = {arm: {name: dict(view.curve(arm, f"md_{name}")) for name in MARKERS} for arm in arms}

    def row(label: str, arm: str, bins: Sequence[int]) -> list[str]:
        found = [[tables[arm][name][at] for at in bins if at in tables[arm][name]] for name in MARKERS]
        return [label, *(_number(summary(values).mean, ".1f") for values in found)]

    rows = [row(f"{at + 1} of 8, off", "off", [at]) for at in range(6)]
    rows += [row(f"{at + 1} of 8, {arm}", arm, [at]) for arm in arms if arm != "from the start" for at in (6, 7)]
    rows += [row("mean of 1–5, off", "off", range(5)), *(row(f"mean of 7–8, {arm}", arm, (6, 7)) for arm in arms)]
    for label, which in (("the paper, steps 0–70", 0), ("the paper, steps 80–100", 1)):
        rows.append([label, *(f"{paper[name][which]:.1f}" if name in paper else "–" for name in MARKERS)])
    return Table(["training", *(name.replace("_", " ") for name in MARKERS)], rows)


def _headroom(view: View, paper: Mapping[str, Any]) -> list[Part]:
    arms = _arms(view)
    panels = [(kind, view.curves(arms, kind)) for kind in ("challenging", "saturated")]
    rows = []
    for arm in arms:
        gains = []
        for kind in ("challenging", "saturated"):
            before, after = view.values(arm, kind, base=True), view.values(arm, kind)
            gains.append(_said(summary([after[seed] - before[seed] for seed in after if seed in before]), 1, 100.0))
        rows.append([arm, *gains, f"{paper[arm]:+.1f}" if arm in paper else "–"])
    header = ["gain in points, held out", "challenging", "saturated", "paper, challenging"]
    told = TOLD["headroom"].format(hard=", ".join(CHALLENGING), easy=", ".join(SATURATED))
    drawn = Picture(
        "lab_headroom", "Scores of challenging and saturated criteria over the run: means over seeds", curves(panels)
    )
    return [Paragraph(told), Table(header, rows), drawn]


def _groups(view: View, paper: Mapping[str, Any]) -> list[Part]:
    return [Paragraph(TOLD["groups"]), *_beside(view, paper)]


def _ours(view: View, paper: Mapping[str, Any]) -> list[Part]:
    """What the comparison with the usual arm alone would leave open, or make look odd."""
    same = _sameness(view, [("length control, pool batch", "as usual")])
    gap = view.against("utility scale", "minmax, no gate", "true_quality")
    rows = [["utility scale", gap.said(), gap.p_said]]
    return [*same, Paragraph(TOLD["pools"]), Table(["minus minmax, no gate", "true quality", "p"], rows)]


def _beside(view: View, paper: Mapping[str, Any]) -> list[Part]:
    rows = []
    for arm in _arms(view):
        given = paper.get(arm)
        told = ", ".join(f"{value:+.2f}" for value in given) if isinstance(given, Sequence) else given
        rows.append([arm, "–" if told is None else str(told), view.summary(arm, "true_quality").said()])
    return [Table(["", "paper", "here, true quality"], rows)]


def _scale(view: View, paper: Mapping[str, Any]) -> list[Part]:
    rows = []
    for arm in _arms(view):
        numbers = [view.summary(arm, metric).said() for metric in ("true_quality", "score_FactCount", "score_Coverage")]
        rows.append([arm, *numbers])
    alike = [
        (f"{rule}, {change}", f"{rule}, as given")
        for rule in ("RLVR²", "raw sum")
        for change in ("× 10", "squared", "+ 5")
    ]
    told = _sameness(view, alike)
    more = [Paragraph(TOLD["scales"])] if told else []
    return [Table(["", "true quality", "FactCount", "Coverage"], rows), *told, *more]


def _runtime(view: View, paper: Mapping[str, Any], times: Times) -> list[Part]:
    rows = []
    for arm in _arms(view):
        rule = view.experiment.arms[arm].rule
        alone = _number(times.fusion.get(rule, math.nan) / 1000, ".4f")
        ours = [_number(times.steps.get(rule, {}).get(part, math.nan)) for part in PARTS]
        words = _number(_mean(view, arm, "thinking") + _mean(view, arm, "words"), ".1f")
        told = [f"{value:g}" for value in paper.get(arm, ())] or ["–"] * 4
        rows.append([arm, alone, *ours, words, *told])
    header = ["seconds a step", *(f"here, {name}" for name in ("fusion", *PARTS, "words"))]
    return [
        Table([*header, *(f"paper, {name}" for name in ("fusion", "rollout", "total", "tokens"))], rows),
        Paragraph(TOLD["clock"]),
    ]
