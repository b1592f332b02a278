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

import polars as pl

from rubrank.fusion.control.estimate import student_t_975
from rubrank_lab.cells import Plan, load_cells, load_starts
from rubrank_lab.statistics import Comparison, Effects, compare, estimate_effects
from rubrank_lab.tunnel import (
    GROUP,
    PROMPTS,
    STEPS,
    TRAINERS_DEFAULT,
    WORLDS,
    share_of_best,
    summarise,
)

REFERENCE = "weighted mean+"
"""The rival that matters: a gated weighted mean is what most people would use."""
PAPER = "RLVR²+ (paper)"
TUNNEL = Path("results") / "tunnel.parquet"
TRL = Path("results") / "trl.json"
"""Held-out quality of an arm by `rubrank train`, one value for each seed."""
TIE = 0.01
"""Worst-case shares that differ by less are a tie."""
TITLES = {"facts": "First family: facts", "kitchen": "Second family: kitchen"}
CONTROLLED_PAIRS = (("weighted mean+", "weighted mean+ + control"), ("GEAR+", "GEAR+ + control"))
"""The rules that ran without control and with it."""


# ------------------------------------------------------------------------------------------------------------- results


@dataclass(frozen=True)
class FamilyResult:
    """One family: every arm's outcomes and the comparison with the reference."""

    name: str
    start: float
    """True quality before training."""
    table: pl.DataFrame
    """arm, seeds, held_out, last_quarter, mean, and what else is shown: means over seeds."""
    effects: Effects
    comparisons: Mapping[str, Comparison]

    @property
    def means(self) -> dict[str, float]:
        """Arm → its mean at the average seed, the best first."""
        means = zip(self.effects.arms, self.effects.means.tolist(), strict=True)
        return dict(sorted(means, key=lambda item: -item[1]))

    def share(self, arm: str) -> float:
        """The arm's gain as a share of the best arm's gain."""
        return (self.means[arm] - self.start) / (max(self.means.values()) - self.start)


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


@dataclass(frozen=True)
class TunnelResult:
    """Shares of the best gain in the worlds of the wind tunnel."""

    seeds: int
    shares: pl.DataFrame
    """world, arm, share."""

    def share(self, arm: str, world: str) -> float:
        """The share in one world."""
        return float(self._of_arm(arm).filter(pl.col("world") == world)["share"].item())

    def mean(self, arm: str) -> float:
        """The mean share over the worlds."""
        return float(self._of_arm(arm)["share"].mean())

    def worst(self, arm: str) -> float:
        """The share in the arm's worst world."""
        return float(self._of_arm(arm)["share"][0])

    def worst_world(self, arm: str) -> str:
        """The name of that world."""
        return str(self._of_arm(arm)["world"][0])

    def _of_arm(self, arm: str) -> pl.DataFrame:
        return self.shares.filter(pl.col("arm") == arm).sort("share", "world")


def load_tunnel(plan: Plan) -> TunnelResult | None:
    """None if the tunnel was not run."""
    path = plan.folder / TUNNEL
    if not path.exists():
        return None
    gains = pl.read_parquet(path)
    return TunnelResult(gains["seed"].n_unique(), share_of_best(gains))


# ------------------------------------------------------------------------------------------------------------ the page


def write_report(plan: Plan, target: Path) -> None:
    """Write the page."""
    cells = load_cells(plan)
    families = [result for name in plan.seeds if (result := summarise_family(plan, cells, name)) is not None]
    tunnel = load_tunnel(plan)
    answer = "Nothing is decided yet: results of both families and of the tunnel are needed."
    if tunnel is not None and families:
        choice = choose_default(plan, families, tunnel)
        answer = f"{_join(choice.tied)}, by their worst case over all tasks. {_describe_rlvr2(choice)}"
    introduction = _paragraph(f"""
        **Which rule trains best?** {answer} Small policies were trained with {len(plan.arms)} reward rules on tasks
        whose true quality is known but not shown to any rule, and every rule was also run in simulated worlds.
        `rubrank lab report` writes this page from `recipes/lab/results`; no figure is written by hand. “+” after a rule
        means with gates; “control” removes the influence of reasoning length and Markdown from judged criteria
        ([attributes.md](attributes.md)).""")
    parts = ["# The laboratory: which rule trains best", introduction]
    parts += ["## Verdict", _write_verdict(plan, families, tunnel)]
    if tunnel is not None and families:
        parts += _write_choice(plan, families, tunnel)
    for result in families:
        parts += _write_family(result)
    if tunnel is not None:
        parts += _write_tunnel(plan, tunnel)
    parts += _write_method(plan, families, cells)
    target.write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def _write_verdict(plan: Plan, families: Sequence[FamilyResult], tunnel: TunnelResult | None) -> str:
    lines = []
    if tunnel is not None and families:
        choice = choose_default(plan, families, tunnel)
        lines.append(f"**Use {_join(choice.tied)}.** {_describe_rlvr2(choice)}")
    for result in families:
        means = result.means
        best, last = next(iter(means)), list(means)[-1]
        sure = [comparison for comparison in result.comparisons.values() if comparison.p_holm < 0.05]
        better = _list_differences([comparison for comparison in sure if comparison.difference > 0])
        worse = _list_differences([comparison for comparison in sure if comparison.difference < 0])
        lines.append(f"""**{TITLES[result.name]}** ({_describe_seeds(plan, result)}): true quality rose from
            {result.start:.3f} to between {means[last]:.3f} ({last}) and {means[best]:.3f} ({best}). Better than
            {REFERENCE} after Holm's correction: {better}. Worse: {worse}.""")
    if tunnel is not None:
        best = max(plan.arms, key=tunnel.mean)
        safest = max(plan.arms, key=tunnel.worst)
        lines.append(f"""**Wind tunnel** ({len(WORLDS)} worlds): best on average is {best} ({tunnel.mean(best):.0%} of
            the best gain), best in its worst world is {safest} ({tunnel.worst(safest):.0%}). {PAPER}:
            {tunnel.mean(PAPER):.0%} and {tunnel.worst(PAPER):.0%}.""")
    effects = _list_control_effects(families, tunnel)
    if effects:
        lines.append(f"**What control adds**: {'; '.join(effects)}.")
    return "\n".join(f"- {_paragraph(line)}" for line in lines)


def _describe_seeds(plan: Plan, result: FamilyResult) -> str:
    counts = sorted(set(result.table["seeds"].to_list()))
    text = f"{counts[0]} seeds per arm" if len(counts) == 1 else f"{counts[0]} to {counts[-1]} seeds per arm"
    planned = plan.seeds[result.name]
    return text if counts[0] >= planned else f"{text} of {planned} planned"


def _list_differences(comparisons: Sequence[Comparison]) -> str:
    ordered = sorted(comparisons, key=lambda comparison: -abs(comparison.difference))
    return ", ".join(f"{comparison.arm} ({comparison.difference:+.3f})" for comparison in ordered) or "none"


def _list_control_effects(families: Sequence[FamilyResult], tunnel: TunnelResult | None) -> list[str]:
    """What control adds to the rules that ran with it and without."""
    effects = []
    for result in families:
        for plain, controlled in CONTROLLED_PAIRS:
            if controlled in result.effects.arms:
                contrast = {comparison.arm: comparison for comparison in compare(result.effects, plain)}[controlled]
                interval = f"[{contrast.low:+.3f}, {contrast.high:+.3f}]"
                effects.append(f"{result.name}, {plain}: {contrast.difference:+.3f} {interval}")
    if tunnel is not None:
        for plain, controlled in CONTROLLED_PAIRS:
            gained = tunnel.mean(controlled) - tunnel.mean(plain)
            effects.append(f"tunnel, {plain}: {gained:+.0%} of the best gain")
    return effects


# --------------------------------------------------------------------------------------------------- choice of defaults


@dataclass(frozen=True)
class Choice:
    """What the criterion of the plan says."""

    worst: Mapping[str, float]
    """Arm → its worst share over all worlds of the tunnel and all families, the best first."""
    tied: tuple[str, ...]
    """The best arms, which differ by less than `TIE`, in the order of preference."""
    rlvr2: str
    """The best form of RLVR²."""
    is_rlvr2: bool
    """Does a form of RLVR² win?"""


def choose_default(plan: Plan, families: Sequence[FamilyResult], tunnel: TunnelResult) -> Choice:
    """Apply the criterion: best worst-case share; ties go to the paper's form, then to other forms of RLVR²."""

    def is_rlvr2(arm: str) -> bool:
        return str(plan.arms[arm]["rule"]).startswith("rlvr2")

    arms = [arm for arm in plan.arms if all(arm in result.effects.arms for result in families)]
    worst = {arm: min(tunnel.worst(arm), *(result.share(arm) for result in families)) for arm in arms}
    worst = dict(sorted(worst.items(), key=lambda item: -item[1]))
    highest = max(worst.values())
    tied = [arm for arm in worst if worst[arm] >= highest - TIE]
    tied.sort(key=lambda arm: (arm != PAPER, not is_rlvr2(arm), -worst[arm]))
    best_rlvr2 = max(filter(is_rlvr2, arms), key=lambda arm: worst[arm])
    return Choice(worst, tuple(tied), best_rlvr2, is_rlvr2(tied[0]))


def _describe_rlvr2(choice: Choice) -> str:
    text = "" if choice.is_rlvr2 else "RLVR² does not win in any form. "
    best = f"Its best form is {choice.rlvr2} ({choice.worst[choice.rlvr2]:.0%} of the best gain in the worst case)"
    return f"{text}{best}, the paper's own form reaches {choice.worst[PAPER]:.0%}."


def _write_choice(plan: Plan, families: Sequence[FamilyResult], tunnel: TunnelResult) -> list[str]:
    choice = choose_default(plan, families, tunnel)
    criterion = _paragraph(f"""
        The plan chooses the rule with the best worst case: its smallest share of the best gain over both families and
        all worlds of the tunnel. Ties go to the paper's form, then to other forms of RLVR². That shares within
        {TIE:.0%} are a tie was decided after the first two seeds had run. The last column names the world of the tunnel
        in which each rule is weakest. If the first rules share that world, it alone decides their order.""")
    header = ["share of the best gain", "worst case", *(result.name for result in families)]
    header += ["tunnel, mean", "tunnel, worst"]
    rows = []
    for arm, share in choice.worst.items():
        of_families = [f"{result.share(arm):.0%}" for result in families]
        of_tunnel = [
            f"{tunnel.mean(arm):.0%}",
            f"{tunnel.worst(arm):.0%} ({tunnel.worst_world(arm)})",
        ]
        rows.append([arm, f"{share:.0%}", *of_families, *of_tunnel])
    outcome = f"By this criterion **{choice.tied[0]}** wins ({choice.worst[choice.tied[0]]:.0%})"
    if len(choice.tied) > 1:
        others = [f"{arm} ({choice.worst[arm]:.0%})" for arm in choice.tied[1:]]
        outcome += f", tied with {_join(others)}"
    losses = [1 - tunnel.share(controlled, "length is quality") for _, controlled in CONTROLLED_PAIRS]
    default_form = ""
    if TRAINERS_DEFAULT in tunnel.shares["arm"]:
        default_form = f"""With control, as trainers use it by default, `rlvr2+` ran in the tunnel only
            ({TRAINERS_DEFAULT}: {tunnel.mean(TRAINERS_DEFAULT):.0%} on average, {tunnel.worst(TRAINERS_DEFAULT):.0%} in
            its worst world). """
    decisions = [
        f"""**Control stays on** in trainers where judges decide a criterion. It helps wherever a judge likes length or
        Markdown and costs next to nothing where it does not; where length is quality and only the judge can see it,
        it costs {max(losses):.0%} of the gain: `attributes: []` turns it off.""",
        """**The recommended rules are `weighted-mean+`, the simplest, and `gear+`**, with control. README,
        [rules.md](rules.md) and the pages of the trainers say so. That GEAR helps where criteria build on each other is
        not shown: see kitchen, whose criteria do, and the world “prerequisites”.""",
        f"""**Names keep their meaning.** `rlvr2` and `rlvr2+` stay what they are (`span: model`, `wins: ordinal`): a
        name that runs and records refer to must not change its rewards, and no other form would make RLVR² the best
        rule. {default_form}If rewards must be ordinal, `rlvr2:span=unit+` is the better form; between ordinal and
        cardinal it is `rlvr2:wins=graded+`. `edition: paper` names the paper's settings.""",
    ]
    decided = "\n".join(f"- {_paragraph(decision)}" for decision in decisions)
    return [
        "## Which defaults follow",
        criterion,
        _table(header, rows),
        f"{outcome}. {_describe_rlvr2(choice)} Therefore:",
        decided,
    ]


# ------------------------------------------------------------------------------------------------------------- sections

ABOUT = {
    "facts": """Facts about twelve topics, with scores that use their whole scale: 6 to 15 criteria per
        prompt, four gates, and a judge that likes long thinking and Markdown. Thinking beyond a short plan is
        useless.""",
    "kitchen": """Cooking for some guests. The judge uses 6 to 9 of 1 to 10 and becomes more lenient by a point over the
        run; a continuous criterion (amounts) counts; thinking helps until every item is worked out; criteria build on
        each other. Arms and constants were committed before the first run.""",
}


def _write_family(result: FamilyResult) -> list[str]:
    row_of = {row["arm"]: row for row in result.table.iter_rows(named=True)}
    rows = []
    for arm, mean in result.means.items():
        row = row_of[arm]
        comparison = result.comparisons.get(arm)
        difference = ["", "", ""]  # of the reference from itself
        if comparison is not None:
            interval = f"[{comparison.low:+.3f}, {comparison.high:+.3f}]"
            difference = [f"{comparison.difference:+.3f} {interval}"]
            difference += [_format_p(comparison.p), _format_p(comparison.p_holm)]
        qualities = [f"{row['held_out']:.3f}", f"{row['last_quarter']:.3f}", f"{mean:.3f}"]
        measured = [f"{row['thinking']:.1f}", f"{row['markers']:.2f}", f"{row['gate']:.1%}"]
        rows.append([arm, str(row["seeds"]), *qualities, *difference, *measured])
    header = [
        "arm",
        "seeds",
        "held out",
        "last quarter",
        "mean",
        f"mean minus {REFERENCE}",
        "p",
        "p, Holm",
    ]
    header += ["thinking, words", "Markdown markers", "gates passed"]
    effects = result.effects
    note = _paragraph(f"""
        One linear model (arm + seed) for the mean of held-out and last-quarter quality: residual standard deviation
        {effects.residual_sd:.3f} with {effects.freedom} degrees of freedom; seeds explain {effects.seed_share:.0%} of
        the variance within arms. Intervals are 95%, not corrected; Holm's correction is for {len(result.comparisons)}
        comparisons. Before training: {result.start:.3f}.""")
    return [f"## {TITLES[result.name]}", _paragraph(ABOUT[result.name]), _table(header, rows), note]


def _write_tunnel(plan: Plan, tunnel: TunnelResult) -> list[str]:
    about = _paragraph(f"""
        `rubrank lab tunnel` trains a factored policy in {len(WORLDS)} small worlds with rubrank's own rules: {STEPS}
        steps of {PROMPTS} prompts × {GROUP} responses, mixed criteria, a biased judge, gates, advantages divided by the
        group's standard deviation, {tunnel.seeds} seeds, the same random numbers for all rules. Figures are shares of
        the best rule's gain in that world.""")
    by_rule = []
    for arm, mean, worst in summarise(tunnel.shares):
        by_rule.append([arm, f"{mean:.0%}", f"{worst:.0%}", tunnel.worst_world(arm)])
    share_of = {(world, arm): share for world, arm, share in tunnel.shares.select("world", "arm", "share").iter_rows()}
    by_world = []
    for world in WORLDS:
        shares = [f"{share_of[world.name, arm]:.0%}" for arm in plan.arms]
        by_world.append([f"{world.name}: {world.about}", *shares])
    return [
        "## Wind tunnel",
        about,
        _table(["rule", "mean", "worst", "worst world"], by_rule),
        "World by world, the arms of the laboratory:",
        _table(["world", *plan.arms], by_world),
    ]


COMMANDS = """\
```console
$ rubrank lab list                                # arms, and how many seeds are finished
$ rubrank lab run --jobs 2                        # everything that is missing; can be stopped at any time
$ rubrank lab tunnel                              # the wind tunnel again
$ rubrank lab report --markdown docs/lab.md       # new results into recipes/lab/results, then this page
```"""


def _write_method(plan: Plan, families: Sequence[FamilyResult], cells: pl.DataFrame) -> list[str]:
    costs = ", ".join(f"{result.name} {result.table['cost'].mean():.1f} s" for result in families)
    seeds = ", ".join(f"{result.name} {_describe_seeds(plan, result)}" for result in families)
    paragraphs = [
        """**Policies.** A Qwen3 of two layers and 0.1 million weights per family, trained by 800 to 900 supervised
        steps to give mediocre answers.""",
        """**Training.** 64 steps of 6 prompts × 8 rollouts, GSPO with one update per batch, learning rate 4e-4 (chosen
        among 1.5e-4 and 4e-4 by seed 100, which is in no table, with two arms; both were better with it). All arms of a
        seed see the same prompts and random numbers. Afterwards 16 answers to each of 48 held-out prompts. “Last
        quarter” is the quality of the answers that were trained on in steps 48 to 63.""",
        f"""**The trainer** is a lean loop (`recipes/lab/rubrank_lab/trainer.py`): rewards come from rubrank's
        `RewardEngine`, grading from the family's functions, and all arms of a seed are trained side by side.
        {_compare_with_trl(plan, cells)}""",
        f"""**Seeds and cost.** {seeds.capitalize()}, numbered from 0. Processor time of a cell (one arm, one seed) on a
        busy machine: {costs}; the first edition took 40 s for half the steps.""",
        """**What was set after a look at results.** The strength of the judge's liking, the learning rate, the number
        of steps and what untidiness costs in the tunnel were chosen after trial runs of several rules in a few worlds.
        Results were looked at as seeds came in, but all planned seeds were run; p-values are not corrected for that.
        The seeds ran with several states of rubrank's code, some commits apart.""",
        """**What it cannot show.** Transfer to real tasks and models, judges that can be argued with, thousands of
        steps. The tunnel was written by people who knew the rules; the second family was not tuned for any of them.""",
    ]
    return ["## How it was done", *map(_paragraph, paragraphs), COMMANDS]


def _compare_with_trl(plan: Plan, cells: pl.DataFrame) -> str:
    """How an arm trained by `rubrank train` differs from the same arm here; nothing if none was."""
    path = plan.folder / TRL
    if not path.exists():
        return ""
    data = json.loads(path.read_text(encoding="utf-8"))
    of_arm = (pl.col("family") == "facts") & (pl.col("arm") == data["arm"])
    outcome = (pl.col("phase") == "held_out") & (pl.col("metric") == "quality")
    lean = cells.filter(of_arm & outcome).sort("seed")["value"].to_list()
    trl = data["held_out"]
    difference = fmean(lean) - fmean(trl)
    error = math.sqrt(variance(lean) / len(lean) + variance(trl) / len(trl))
    # At least as wide as Welch's interval, whose degrees of freedom are never fewer.
    reach = student_t_975(min(len(lean), len(trl)) - 1) * error
    return f"""The same arm ({data["arm"]}) by `rubrank train` (TRL) reached a held-out quality of {fmean(trl):.3f}
        ({len(trl)} seeds), by the lean loop {fmean(lean):.3f} ({len(lean)} seeds): a difference of {difference:+.3f},
        95% interval [{difference - reach:+.3f}, {difference + reach:+.3f}]. Their random numbers differ, so cells are
        not equal one by one."""


# -------------------------------------------------------------------------------------------------------------- writing


def _paragraph(text: str) -> str:
    """The text on one line."""
    return " ".join(text.split())


def _join(names: Sequence[str]) -> str:
    """Such as "a, b or c"."""
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} or {names[-1]}"


def _format_p(p: float) -> str:
    return "< 0.001" if p < 0.001 else f"{p:.3f}"


def _table(header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [f"| {' | '.join(header)} |", f"|{'---|' * len(header)}"]
    lines += [f"| {' | '.join(row)} |" for row in rows]
    return "\n".join(lines)
