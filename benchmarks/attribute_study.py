"""How much do rewards follow length and Markdown, and what does control change? Simulated judges, then real data.

    python benchmarks/attribute_study.py                                    the tables of docs/attribute_study.md
    python benchmarks/attribute_study.py --json figures.json --draw docs/pictures/attribute_study.svg

First, judges whose taste is known (`simulated_control.py`). Then real groups of eight: the reward of every rule is
correlated with words, headings, bold print and list items within each group (Spearman; mean over groups in which both
vary).
RLVR² takes attributes out, by `remove` or attenuate(λ), in steps of 128 groups, in four forms: as in the paper (a γ
for each group), the pooled form of the first version, and the present one over a batch and over a run. The cost is how
far the ranking moves away from the unadjusted one: Kendall's τ-b within groups, which falls both where pairs are turned
round and where ties get an order; and these two apart.

As a control, RLVR² also adjusts for words that are shuffled within each group: an attribute that means nothing. All
criteria are adjusted by name here, those that programs decided too, which by default are left alone.
"""

from __future__ import annotations

import argparse
import itertools
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import simulated_control
from first_form import control
from real_data import ATTRIBUTES, DATA, Study, longform_writing, m_ifeval, text_table

from rubrank import attenuate
from rubrank.fusion.rules import rule_names
from rubrank.records.agreement import RankedRewards, compute_mean, measure_kendall, measure_spearman, rank_rewards
from rubrank.studies.replay import run_rule

NAMES = tuple(ATTRIBUTES.values())
LAMBDAS = (0.0, 0.5, 1.0)
SETS = {"words": 1, "all four": 4}
"""What is adjusted for: so many of the columns."""
FORMS_OF_CONTROL = ("letter", "old", "batch", "run")


@dataclass(frozen=True)
class Followed:
    """One ranking: how it follows the attributes, and how near it is to the unadjusted one of RLVR²."""

    data: str
    rule: str
    attributes: str = "none"
    form: str = ""
    adjust: str = ""
    follows: tuple[float, ...] = ()
    """Mean Spearman with each of NAMES."""
    tau: float = float("nan")
    turned: float = float("nan")
    """Share of the pairs in an order that are now in the other."""
    untied: float = float("nan")
    """Share of the ties that are now in an order."""


class Measured:
    """A study's groups, with their attributes put in order once."""

    def __init__(self, study: Study) -> None:
        self.name = study.name
        self.values = study.attributes
        self.batch = study.table.batch(attributes=study.attributes, attribute_names=NAMES)
        self.columns = [rank_rewards(column, self.batch.starts) for column in study.attributes.T]
        self.plain = self.order("rlvr2")

    def order(self, rule: str) -> RankedRewards:
        """Who is above whom under a rule."""
        return rank_rewards(run_rule(rule, self.batch), self.batch.starts)

    def order_adjusted(self, values: np.ndarray, form: str, adjust: Any, **options: Any) -> RankedRewards:
        """The same under RLVR², adjusted for `values`; every criterion, unless the options say otherwise."""
        names = NAMES[: values.shape[1]]
        batch = replace(self.batch, attributes_MD=values, attribute_names=names)
        options = {"adjust_criteria": "all", **options}
        return rank_rewards(run_rule(control(form, adjust, **options), batch), batch.starts)

    def measure_order(
        self, order: RankedRewards, rule: str, attributes: str = "none", form: str = "", adjust: str = ""
    ) -> Followed:
        """The figures of a ranking."""
        follows = tuple(compute_mean(measure_spearman(order, column)) for column in self.columns)
        tau = compute_mean(measure_kendall(order, self.plain))
        return Followed(self.name, rule, attributes, form, adjust, follows, tau, *compare_orders(order, self.plain))

    def varying(self) -> tuple[int, ...]:
        """In how many groups each attribute varies."""
        return tuple(sum(int(block.any((1, 2)).sum()) for block in column.signs) for column in self.columns)

    def shuffle_words(self, seed: int = 0) -> np.ndarray:
        """Words, dealt anew within each group."""
        rng = np.random.default_rng(seed)
        starts = self.batch.starts
        return np.concatenate([rng.permutation(self.values[a:b, :1]) for a, b in itertools.pairwise(starts)])


def compare_orders(order: RankedRewards, plain: RankedRewards) -> tuple[float, float]:
    """Of the pairs that `plain` has in an order, those turned round; of its ties, those that have one now."""
    turned = ranked = untied = tied = 0
    for now, before in zip(order.signs, plain.signs, strict=True):
        pairs = ~np.eye(before.shape[1], dtype=bool)
        turned += int((now * before < 0).sum())
        ranked += int((before != 0).sum())
        untied += int(((before == 0) & (now != 0) & pairs).sum())
        tied += int(((before == 0) & pairs).sum())
    return turned / ranked, untied / tied if tied else float("nan")


def every_rule(data: Measured) -> list[Followed]:
    return [data.measure_order(data.order(rule), rule) for rule in rule_names()]


def every_adjustment(data: Measured) -> list[Followed]:
    rankings = [data.measure_order(data.plain, "rlvr2")]
    for label, columns in SETS.items():
        for form in FORMS_OF_CONTROL:
            for adjust, name in [*((attenuate(x), f"λ = {x:g}") for x in LAMBDAS), ("remove", "remove")]:
                order = data.order_adjusted(data.values[:, :columns], form, adjust)
                rankings.append(data.measure_order(order, "rlvr2", label, form, name))
    for form in FORMS_OF_CONTROL:
        order = data.order_adjusted(data.shuffle_words(), form, "remove")
        rankings.append(data.measure_order(order, "rlvr2", "shuffled words", form, "remove"))
    return rankings


# ------------------------------------------------------------------------------------------------------------ printing


def rules_table(data: Measured, found: Sequence[Followed]) -> str:
    """Rule × attribute."""
    groups = ("groups in which it varies", *map(str, data.varying()))
    rows = [(row.rule, *map(_format_signed, row.follows)) for row in found]
    return text_table([(data.name, *NAMES), groups, *rows])


def adjustments_table(data: Measured, found: Sequence[Followed]) -> str:
    """Adjustment × (attributes, agreement with no adjustment)."""
    heading = (f"{data.name}: taken out", "form", "adjust", *NAMES, "τ", "turned", "untied")
    rows = [
        (
            row.attributes,
            row.form,
            row.adjust,
            *map(_format_signed, row.follows),
            f"{row.tau:.3f}",
            f"{row.turned:.3f}",
            "–" if row.untied != row.untied else f"{row.untied:.3f}",
        )
        for row in found
    ]
    return text_table([heading, *rows])


def control_table(studies: Sequence[Measured]) -> str:
    """Spearman of the reward with shuffled words, before and after these are taken out."""
    rows: list[tuple[str, ...]] = [("ρ with shuffled words", "form", "no adjustment", "remove", "λ = 0.5", "λ = 1")]
    for data in studies:
        words = data.shuffle_words()
        column = rank_rewards(words[:, 0], data.batch.starts)
        for form in FORMS_OF_CONTROL:
            adjusted = [
                data.order_adjusted(words, form, adjust) for adjust in ("remove", attenuate(0.5), attenuate(1.0))
            ]
            correlations = [compute_mean(measure_spearman(order, column)) for order in (data.plain, *adjusted)]
            rows.append((data.name, form, *map(_format_signed, correlations)))
    return text_table(rows)


def _format_signed(x: float) -> str:
    return "–" if x != x else f"{x:+.3f}".replace("-0.000", "+0.000")


def draw(found: Sequence[Sequence[Followed]], path: Path) -> None:
    """Correlation with words, and agreement with the unadjusted ranking, along λ."""
    import matplotlib

    matplotlib.use("svg")
    matplotlib.rcParams.update({"svg.hashsalt": "rubrank", "font.size": 9})
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(2, len(found), figsize=(8, 5), sharex=True, sharey="row", layout="constrained")
    for column, rows in enumerate(found):
        _draw_column(axes[:, column], rows)
    axes[0, 0].set_ylabel("Spearman of reward and words")
    axes[1, 0].set_ylabel("Kendall with no adjustment")
    axes[1, 0].legend(frameon=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, metadata={"Date": None})
    pyplot.close(figure)


def _draw_column(axes: Any, rows: Sequence[Followed]) -> None:
    plain = rows[0]
    axes[0].set_title(plain.data)
    axes[0].axhline(0.0, color="0.8", linewidth=0.8)
    axes[0].axhline(plain.follows[0], color="0.4", linestyle="--", linewidth=1)
    axes[0].annotate("no adjustment", (1.0, plain.follows[0]), ha="right", va="bottom", color="0.4")
    for form, colour in zip(FORMS_OF_CONTROL, ("#999999", "#c8553d", "#1b6ca8", "#2a9d5c"), strict=True):
        line = [row for row in rows if row.attributes == "words" and row.form == form and row.adjust.startswith("λ")]
        for axis, values in ((axes[0], [row.follows[0] for row in line]), (axes[1], [row.tau for row in line])):
            axis.plot(LAMBDAS, values, marker="o", markersize=4, color=colour, label=form)
    axes[1].set_xlabel("λ: share of a positive γ that is taken out")
    for axis in axes:
        axis.spines[["top", "right"]].set_visible(False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--draw", type=Path)
    options = parser.parse_args()
    studies = [Measured(longform_writing(options.data)), Measured(m_ifeval(options.data))]
    rules = [every_rule(data) for data in studies]
    adjusted = [every_adjustment(data) for data in studies]
    tables = [rules_table(*pair) for pair in zip(studies, rules, strict=True)]
    tables += [adjustments_table(*pair) for pair in zip(studies, adjusted, strict=True)]
    simulated = list(simulated_control.every_row())
    print("\n\n".join([text_table(simulated_control.rows_for_print(simulated)), *tables, control_table(studies)]))
    if options.json:
        rows = [asdict(row) for some in (*rules, *adjusted) for row in some] + [asdict(row) for row in simulated]
        options.json.write_text(json.dumps(rows, indent=1), encoding="utf-8")
    if options.draw:
        draw(adjusted, options.draw)


if __name__ == "__main__":
    main()
