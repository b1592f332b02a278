"""The page docs/lab.md, from the collected results: verdict first, tables after. No figure in it is written by hand.

write_report(plan, Path("docs/lab.md"))
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, variance
from textwrap import dedent

import polars as pl

from rubrank.fusion.control.student_t import student_t_975
from rubrank_lab.cells import Plan, load_cells, load_starts
from rubrank_lab.statistics import Comparison, Effects, compare, estimate_effects
from rubrank_lab.tunnel import GROUP, PROMPTS, STEPS, WORLDS, share_of_best, summarise

REFERENCE = "weighted mean+"
"""The rival that matters: a gated weighted mean is what most people would use."""
PAPER = "RLVR²+ (paper)"
TUNNEL = Path("results") / "tunnel.parquet"
TRL = Path("results") / "trl.json"
"""Held-out quality of an arm by `rubrank train`, one value for each seed."""
TIE = 0.01
"""Worst-case shares that differ by less are a tie."""
TITLES = {"facts": "First family: facts", "kitchen": "Second family: kitchen"}


@dataclass(frozen=True)
class FamilyResult:
    """One family: every arm's outcomes and the comparison with the reference."""

    name: str
    start: float
    table: pl.DataFrame
    """arm, seeds, held_out, last_quarter, mean, and what else is shown: means over seeds."""
    effects: Effects
    comparisons: Mapping[str, Comparison]

    def share(self, arm: str) -> float:
        """The arm's gain as a share of the best arm's gain."""
        gains = self.effects.means - self.start
        return float(gains[self.effects.arms.index(arm)] / gains.max())


def summarise_family(plan: Plan, cells: pl.DataFrame, family: str) -> FamilyResult | None:
    """None if nothing was run, or not the reference."""
    rows = cells.filter(pl.col("family") == family)
    if not len(rows):
        return None
    outcomes = rows.filter((pl.col("metric") == "quality") & pl.col("phase").is_in(["held_out", "last_quarter"]))
    by_cell = outcomes.pivot("phase", index=["arm", "seed"], values="value")
    by_cell = by_cell.with_columns(((pl.col("held_out") + pl.col("last_quarter")) / 2).alias("mean"))
    values: dict[str, dict[int, float]] = {}
    for arm in plan.arms:
        of_arm = by_cell.filter(pl.col("arm") == arm)
        if len(of_arm):
            values[arm] = dict(of_arm.select("seed", "mean").iter_rows())
    if REFERENCE not in values or len(values[REFERENCE]) < 2:
        return None
    effects = estimate_effects(values)
    others = rows.filter((pl.col("phase") == "held_out") & pl.col("metric").is_in(["thinking", "markers", "gate"]))
    measured = others.pivot("metric", index=["arm", "seed"], values="value", aggregate_function="mean")
    costs = rows.filter(pl.col("phase") == "cost").select("arm", "seed", pl.col("value").alias("cost"))
    table = by_cell.join(measured, on=["arm", "seed"]).join(costs, on=["arm", "seed"])
    table = table.group_by("arm").agg(pl.len().alias("seeds"), pl.exclude("seed").mean())
    comparisons = {comparison.arm: comparison for comparison in compare(effects, REFERENCE)}
    return FamilyResult(family, load_starts(plan)[family], table, effects, comparisons)


def write_report(plan: Plan, target: Path) -> None:
    """Write the page."""
    cells = load_cells(plan)
    families = [result for name in plan.seeds if (result := summarise_family(plan, cells, name)) is not None]
    tunnel = plan.folder / TUNNEL
    shares = share_of_best(pl.read_parquet(tunnel)) if tunnel.exists() else None
    parts = ["# The laboratory: which rule trains best", _describe_start(plan)]
    parts += ["## Verdict", *_write_verdict(plan, families, shares)]
    parts += _write_choice(plan, families, shares)
    for result in families:
        parts += _write_family(plan, result)
    if shares is not None:
        parts += _write_tunnel(plan, shares)
    parts += _write_method(plan, families, cells)
    target.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _describe_start(plan: Plan) -> str:
    return (
        f"Small policies were trained with {len(plan.arms)} reward rules on tasks whose true quality is known and "
        "shown to no rule. This page is written by `rubrank lab report` from `recipes/lab/results`; no figure is "
        "written by hand. A “+” is a gate; “control” takes the influence of reasoning length and Markdown out of "
        "judged criteria ([attributes.md](attributes.md))."
    )


# ------------------------------------------------------------------------------------------------------------- verdict


def _write_verdict(plan: Plan, families: Sequence[FamilyResult], shares: pl.DataFrame | None) -> list[str]:
    lines = []
    for result in families:
        ranked = sorted(result.effects.arms, key=lambda arm: -result.effects.means[result.effects.arms.index(arm)])
        best, last = ranked[0], ranked[-1]
        means = dict(zip(result.effects.arms, result.effects.means.tolist(), strict=True))
        sure_better = [c for c in result.comparisons.values() if c.p_holm < 0.05 and c.difference > 0]
        sure_worse = [c for c in result.comparisons.values() if c.p_holm < 0.05 and c.difference < 0]
        text = (
            f"- **{TITLES[result.name]}** ({_describe_seeds(plan, result)}): true quality rose from {result.start:.3f} "
            f"to between "
            f"{means[last]:.3f} ({last}) and {means[best]:.3f} ({best}). "
        )
        text += f"Better than {REFERENCE} after Holm's correction: {_name(sure_better)}. Worse: {_name(sure_worse)}."
        lines.append(text)
    if shares is not None:
        table = _tunnel_summary(plan, shares)
        best = max(table, key=lambda arm: table[arm][0])
        safest = max(table, key=lambda arm: table[arm][1])
        lines.append(
            f"- **Wind tunnel** ({len(WORLDS)} worlds): best on average is {best} ({table[best][0]:.0%} of the best "
            f"gain), best in its worst "
            f"world is {safest} ({table[safest][1]:.0%}). {PAPER}: {table[PAPER][0]:.0%} and {table[PAPER][1]:.0%}."
        )
    lines.append(_write_control_effect(families, shares))
    return ["\n".join(line for line in lines if line)]


def _describe_seeds(plan: Plan, result: FamilyResult) -> str:
    counts = sorted(set(result.table["seeds"].to_list()))
    text = f"{counts[0]} seeds an arm" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds an arm"
    planned = plan.seeds[result.name]
    return text if counts[0] >= planned else f"{text} of {planned} planned"


def _name(comparisons: Sequence[Comparison]) -> str:
    ordered = sorted(comparisons, key=lambda comparison: -abs(comparison.difference))
    return ", ".join(f"{c.arm} ({c.difference:+.3f})" for c in ordered) or "none"


def _write_control_effect(families: Sequence[FamilyResult], shares: pl.DataFrame | None) -> str:
    """What control adds to the two rules that ran with it and without."""
    pairs = (("weighted mean+", "weighted mean+ + control"), ("GEAR+", "GEAR+ + control"))
    texts = []
    for result in families:
        for plain, controlled in pairs:
            if controlled not in result.effects.arms:
                continue
            contrast = {c.arm: c for c in compare(result.effects, plain)}[controlled]
            texts.append(
                f"{result.name}, {plain}: {contrast.difference:+.3f} [{contrast.low:+.3f}, {contrast.high:+.3f}]"
            )
    if shares is not None:
        means = dict(shares.group_by("arm").agg(pl.col("share").mean()).iter_rows())
        texts += [
            f"tunnel, {plain}: {means[controlled] - means[plain]:+.0%} of the best gain" for plain, controlled in pairs
        ]
    return f"- **What control adds**: {'; '.join(texts)}." if texts else ""


# --------------------------------------------------------------------------------------------------- choice of defaults


def _tunnel_summary(plan: Plan, shares: pl.DataFrame) -> dict[str, tuple[float, float, str]]:
    """Arm → mean share, worst share, and the world where it is worst; the arms of the laboratory only."""
    summary = {}
    for arm in plan.arms:
        of_arm = shares.filter(pl.col("arm") == arm).sort("share")
        summary[arm] = (float(of_arm["share"].mean()), float(of_arm["share"][0]), str(of_arm["world"][0]))
    return summary


def _write_choice(plan: Plan, families: Sequence[FamilyResult], shares: pl.DataFrame | None) -> list[str]:
    if shares is None or not families:
        return []
    tunnel = _tunnel_summary(plan, shares)
    arms = [arm for arm in plan.arms if all(arm in result.effects.arms for result in families)]
    worst = {arm: min(tunnel[arm][1], *(result.share(arm) for result in families)) for arm in arms}
    ranked = sorted(arms, key=lambda arm: -worst[arm])
    tied = [arm for arm in ranked if worst[arm] >= worst[ranked[0]] - TIE]
    # The paper's own form first, then other forms of RLVR², then the rest.
    nearest = min(tied, key=lambda arm: (arm != PAPER, not _is_rlvr2(plan, arm), -worst[arm]))
    rlvr2 = max((arm for arm in arms if _is_rlvr2(plan, arm)), key=lambda arm: worst[arm])
    header = [
        "share of the best gain",
        "worst case",
        *(result.name for result in families),
        "tunnel, mean",
        "tunnel, worst",
    ]
    rows = [
        [
            arm,
            f"{worst[arm]:.0%}",
            *(f"{result.share(arm):.0%}" for result in families),
            f"{tunnel[arm][0]:.0%}",
            f"{tunnel[arm][1]:.0%} ({tunnel[arm][2]})",
        ]
        for arm in ranked
    ]
    criterion = (
        "The criterion of the plan: the best worst-case share of the best gain over all worlds of the tunnel and both "
        f"families; ties go to the paper's form, then to other forms of RLVR². That shares within {TIE:.0%} "
        "are a tie was "
        "set after the first two seeds had run."
    )
    outcome = f"By it the default would be **{nearest}** ({worst[nearest]:.0%})"
    if len(tied) > 1:
        outcome += f", tied with {', '.join(arm for arm in tied if arm != nearest)}"
    outcome += ". "
    if not _is_rlvr2(plan, nearest):
        outcome += "No form of RLVR² wins. "
    outcome += f"The best form of RLVR² is {rlvr2} ({worst[rlvr2]:.0%}), the paper's own form has {worst[PAPER]:.0%}."
    return ["## Which defaults follow", criterion, _table(header, rows), outcome]


def _is_rlvr2(plan: Plan, arm: str) -> bool:
    return str(plan.arms[arm]["rule"]).startswith("rlvr2")


# ------------------------------------------------------------------------------------------------------------- sections


def _write_family(plan: Plan, result: FamilyResult) -> list[str]:
    about = {
        "facts": (
            "Facts about twelve topics, on honest scales: 6 to 15 criteria a prompt, four gates, and a judge that "
            "likes long thinking "
            "and Markdown. Thinking beyond a short plan is useless."
        ),
        "kitchen": (
            "Cooking for some guests. The judge uses 6 to 9 of 1 to 10 and becomes more lenient by a point over the "
            "run; a continuous "
            "criterion (amounts) counts; thinking helps until every item is worked out; criteria build on each other. "
            "Arms and constants "
            "were committed before the first run."
        ),
    }[result.name]
    rows = []
    by_arm = {row["arm"]: row for row in result.table.iter_rows(named=True)}
    order = sorted(result.effects.arms, key=lambda arm: -result.effects.means[result.effects.arms.index(arm)])
    for arm in order:
        row = by_arm[arm]
        contrast = result.comparisons.get(arm)
        rows.append(
            [
                arm,
                str(row["seeds"]),
                f"{row['held_out']:.3f}",
                f"{row['last_quarter']:.3f}",
                f"{result.effects.means[result.effects.arms.index(arm)]:.3f}",
                "" if contrast is None else f"{contrast.difference:+.3f} [{contrast.low:+.3f}, {contrast.high:+.3f}]",
                "" if contrast is None else _format_p(contrast.p),
                "" if contrast is None else _format_p(contrast.p_holm),
                f"{row['thinking']:.1f}",
                f"{row['markers']:.2f}",
                f"{row['gate']:.1%}",
            ]
        )
    header = ["arm", "seeds", "held out", "last quarter", "mean", f"mean minus {REFERENCE}", "p", "p, Holm"]
    header += ["thinking, words", "Markdown markers", "gates passed"]
    note = (
        f"One linear model (arm + seed) for the mean of held-out and last-quarter quality: residual standard deviation "
        f"{result.effects.residual_sd:.3f} with {result.effects.freedom} degrees of freedom; seeds explain "
        f"{result.effects.seed_share:.0%} of the "
        f"variance within arms. Intervals are 95%, not corrected; Holm's correction is for {len(result.comparisons)} "
        f"comparisons. "
        f"Before training: {result.start:.3f}."
    )
    return [f"## {TITLES[result.name]}", about, _table(header, rows), note]


def _write_tunnel(plan: Plan, shares: pl.DataFrame) -> list[str]:
    about = (
        f"`rubrank lab tunnel` trains a factored policy in {len(WORLDS)} small worlds with rubrank's own rules: "
        f"{STEPS} steps of {PROMPTS} prompts × "
        f"{GROUP} responses, mixed criteria, a biased judge, gates, advantages divided by the group's standard "
        f"deviation, "
        f"{pl.read_parquet(plan.folder / TUNNEL)['seed'].n_unique()} seeds, the same random numbers for all rules. "
        f"Figures are shares of the best rule's gain "
        "in that world."
    )
    worlds_of_worst = shares.sort("share", "world").group_by("arm").agg(pl.col("world").first())
    worst_world = dict(worlds_of_worst.iter_rows())
    all_rules = [[arm, f"{mean:.0%}", f"{worst:.0%}", worst_world[arm]] for arm, mean, worst in summarise(shares)]
    arms = list(plan.arms)
    share_of = {(world, arm): share for world, arm, share in shares.select("world", "arm", "share").iter_rows()}
    by_world = [
        [f"{world.name}: {world.about}", *(f"{share_of[world.name, arm]:.0%}" for arm in arms)] for world in WORLDS
    ]
    return [
        "## Wind tunnel",
        about,
        _table(["rule", "mean", "worst", "worst world"], all_rules),
        "World by world, the arms of the laboratory:",
        _table(["world", *arms], by_world),
    ]


def _write_method(plan: Plan, families: Sequence[FamilyResult], cells: pl.DataFrame) -> list[str]:
    costs = ", ".join(f"{result.name} {result.table['cost'].mean():.1f} s" for result in families)
    seeds = ", ".join(f"{result.name} {_describe_seeds(plan, result)}" for result in families)
    paragraphs = [
        "**Policies.** A Qwen3 of two layers and 0.1 million weights a family, taught by 800 to 900 supervised steps "
        "to give middling answers.",
        "**Training.** 64 steps of 6 prompts × 8 rollouts, GSPO with one update a batch, learning rate 4e-4 (chosen "
        "among 1.5e-4 and 4e-4 by "
        "seed 100, which is in no table, with two arms; both were better with it). All arms of a seed see the same "
        "prompts and random numbers. "
        "Afterwards 16 answers to each of 48 held-out prompts. “Last quarter” is the quality of the answers that were "
        "trained on in "
        "steps 48 to 63.",
        _describe_trl(plan, cells),
        f"**Cost.** Processor time of a cell (one arm, one seed) on a busy machine: {costs}; the first edition took 40 "
        f"s for half the steps. "
        f"Seeds so far: {seeds}.",
        "**What was set after a look at results.** The strength of the judge's liking, the learning rate, the "
        "number of "
        "steps and what untidiness costs in the tunnel were chosen after trial runs of several rules in a few worlds. "
        "Results were looked at as seeds came in; p-values are not corrected for that, and the number of seeds was "
        "decided by the time that was left. The two families ran with two states of rubrank's code, a few "
        "commits apart.",
        "**What it cannot show.** Transfer to real tasks and models, judges that can be argued with, thousands of "
        "steps. The tunnel was "
        "written by people who knew the rules; the second family was not tuned for any of them.",
        dedent("""\
            ```console
            $ rubrank lab list                                # arms, and how many seeds are finished
            $ rubrank lab run --jobs 2                        # everything that is missing; can be stopped at any time
            $ rubrank lab tunnel                              # the wind tunnel again
            $ rubrank lab report --markdown docs/lab.md       # new results into recipes/lab/results, then this page
            ```"""),
    ]
    return ["## How it was done", *(paragraph for paragraph in paragraphs if paragraph)]


def _describe_trl(plan: Plan, cells: pl.DataFrame) -> str:
    text = (
        "**The trainer** is a lean loop (`recipes/lab/rubrank_lab/trainer.py`): rewards come from rubrank's "
        "`RewardEngine`, grading from the "
        "family's functions, and all arms of a seed are trained side by side."
    )
    path = plan.folder / TRL
    if not path.exists():
        return text
    data = json.loads(path.read_text(encoding="utf-8"))
    of_arm = (pl.col("family") == "facts") & (pl.col("arm") == data["arm"])
    outcome = (pl.col("phase") == "held_out") & (pl.col("metric") == "quality")
    lean = cells.filter(of_arm & outcome).sort("seed")["value"].to_list()
    trl = data["held_out"]
    difference = fmean(lean) - fmean(trl)
    error = math.sqrt(variance(lean) / len(lean) + variance(trl) / len(trl))
    # At least as wide as Welch's interval, whose degrees of freedom are never fewer.
    reach = student_t_975(min(len(lean), len(trl)) - 1) * error
    return (
        f"{text} The same arm ({data['arm']}) by `rubrank train` (TRL) reached a held-out quality of {fmean(trl):.3f} "
        f"({len(trl)} seeds), by the lean loop {fmean(lean):.3f} ({len(lean)} seeds): a difference of "
        f"{difference:+.3f}, 95% interval [{difference - reach:+.3f}, {difference + reach:+.3f}]. Their random numbers "
        "differ, so cells are not equal one by one."
    )


# -------------------------------------------------------------------------------------------------------------- writing


def _format_p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)
