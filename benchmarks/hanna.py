"""How well do aggregations of judges' criteria rank stories the way humans do? And how do the judges audit?

    python benchmarks/hanna.py                                    the tables of docs/audit.md
    python benchmarks/hanna.py --json figures.json --draw docs/audit_hanna.svg

HANNA (Chhun et al., 2022 and 2024; MIT licence): 96 prompts × 11 systems × 6 criteria, rated from 1 to 5 by three
humans and five language models. A group is a prompt with its 11 stories. The judges' criteria are put together by
several rules; the order of the stories of each prompt is compared with that of the humans' mean over criteria and
raters.

A judge's number here is the mean of its answers in several runs, and −1 stands for one that could not be read. What
lies below 1 holds such marks and is taken as missing; a mean above 1 that holds one cannot be told, and stays.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from hanna_rules import ALL, CRITERIA, DATA, JUDGES, RIVALS, Hanna, load, mean, rules

from rubrank.studies.audit.audit import Audit, audit
from rubrank.studies.audit.result import format_estimate
from rubrank.studies.statistics import (
    Draws,
    Estimate,
    Measure,
    Resampling,
    average_draws,
    compute_cluster_taus,
    compute_interval,
    kendall,
    make_mean_statistic,
    make_resampling,
    spearman,
)

NAMES = ("tau", "tau_fused", "rho", "system_tau", "system_rho")


# ---------------------------------------------------------------------------------------------------------- measuring


@dataclass(frozen=True)
class Ranked:
    """How well one ranking follows the humans'."""

    tau: Draws
    """Mean of Kendall's tau-b within prompts."""
    tau_fused: Draws
    """The same, against the humans' columns put together by RLVR²."""
    rho: Draws
    """Mean of Spearman's rho within prompts."""
    system_tau: Draws
    """Kendall's tau-b of the systems' means."""
    system_rho: Draws


class Compared:
    """Rankings against a reference, all in the same draws of prompts."""

    def __init__(self, data: Hanna, bootstrap: int, seed: int = 0) -> None:
        self.data = data
        self.draw: Resampling = make_resampling("hanna", len(data.prompts), data.prompts.tolist(), bootstrap, seed)

    def ranked(self, values: np.ndarray, reference: np.ndarray, fused: np.ndarray | None = None) -> Ranked:
        """All measures of one ranking; `fused` is the other reading of the reference."""
        rhos = np.array([spearman(values[rows], reference[rows]).value for rows in _rows_of(self.data.prompts)])
        taus = compute_cluster_taus(values, reference, self.draw)
        taus_with_fused = (
            np.full(len(taus), np.nan) if fused is None else compute_cluster_taus(values, fused, self.draw)
        )
        return Ranked(
            self.draw.measure(Measure(make_mean_statistic(taus), len(taus))),
            self.draw.measure(Measure(make_mean_statistic(taus_with_fused), len(taus_with_fused))),
            self.draw.measure(Measure(make_mean_statistic(rhos), len(rhos))),
            self.draw.measure(self._systems(values, reference, lambda a, b: kendall(a, b).value)),
            self.draw.measure(self._systems(values, reference, lambda a, b: spearman(a, b).value)),
        )

    def _systems(
        self, values: np.ndarray, reference: np.ndarray, coefficient: Callable[[np.ndarray, np.ndarray], float]
    ) -> Measure:
        """Of the means of the systems over the prompts drawn."""
        ours, theirs = (self._by_system(x) for x in (values, reference))

        def statistic(times: np.ndarray) -> float:
            return coefficient(times @ ours, times @ theirs)

        return Measure(statistic, ours.shape[1])

    def _by_system(self, values: np.ndarray) -> np.ndarray:
        """(prompts, systems)"""
        return values.reshape(len(np.unique(self.data.prompts)), -1)


def _rows_of(prompts: np.ndarray) -> list[np.ndarray]:
    return [np.flatnonzero(prompts == prompt) for prompt in np.unique(prompts)]


def difference(a: Draws, b: Draws) -> Estimate:
    """a − b, draw by draw."""
    return compute_interval(Draws(a.value - b.value, a.draws - b.draws, a.n))


def compare(data: Hanna, bootstrap: int) -> dict[str, dict[str, Ranked]]:
    """rule → judge → how well it follows the humans; the last rows are what to compare with."""
    compared = Compared(data, bootstrap)
    figures = {
        rule: {
            judge: compared.ranked(aggregate(scores, data.prompts), data.human, data.human_fused)
            for judge, scores in data.everything.items()
        }
        for rule, aggregate in rules(data).items()
    }
    figures["length alone"] = {ALL: compared.ranked(data.lengths, data.human, data.human_fused)}
    figures["one human, by the others"] = {ALL: _one_human(data, compared)}
    return figures


def _one_human(data: Hanna, compared: Compared) -> Ranked:
    """Each rater's mean against that of the other two; the mean of the three."""
    each = []
    for i, rater in enumerate(data.raters):
        mean_of_others = np.mean([labels for j, labels in enumerate(data.raters) if j != i], axis=(0, 2))
        each.append(compared.ranked(rater.mean(axis=1), mean_of_others))
    return Ranked(*(average_draws([getattr(ranking, name) for ranking in each]) for name in NAMES))


def run_audit(data: Hanna, bootstrap: int) -> Audit:
    return audit(
        data.judges,
        humans=list(data.raters),
        groups=data.prompts,
        criteria=list(CRITERIA.values()),
        attributes=data.lengths[:, None],
        attribute_names=["length"],
        bootstrap=bootstrap,
    )


# ------------------------------------------------------------------------------------------------------------ printing


def by_judge(found: dict[str, dict[str, Ranked]]) -> list[Sequence[str]]:
    """Kendall's tau within prompts: rules × judges."""
    rows: list[Sequence[str]] = [("tau within prompts", *JUDGES, ALL)]
    for rule, ranked in found.items():
        values = [f"{ranked[judge].tau.value:.3f}" if judge in ranked else "" for judge in (*JUDGES, ALL)]
        rows.append((rule, *values))
    return rows


def by_measure(found: dict[str, dict[str, Ranked]]) -> list[Sequence[str]]:
    """All measures of all five together, with intervals."""
    heading = (ALL, "tau", "tau, humans fused", "rho", "systems: tau", "systems: rho")
    return [
        heading,
        *(
            (rule, *(format_estimate(compute_interval(getattr(ranked[ALL], name))) for name in NAMES))
            for rule, ranked in found.items()
        ),
    ]


def against(found: dict[str, dict[str, Ranked]]) -> list[Sequence[str]]:
    """RLVR² less each of its rivals, tau within prompts: judges × rules, in the same draws."""
    rows: list[Sequence[str]] = [("RLVR² less", *RIVALS)]
    for judge in (*JUDGES, ALL):
        ours = found["RLVR²"][judge].tau
        rows.append((judge, *(tell_signed(difference(ours, found[rule][judge].tau)) for rule in RIVALS)))
    return rows


def panels(data: Hanna, bootstrap: int) -> list[Sequence[str]]:
    """All five judges less the best one alone, and less the four without the worst; tau within prompts."""
    compared = Compared(data, bootstrap)
    every = rules(data)
    some = {
        ALL: data.everything[ALL],
        "Beluga-13B alone": data.judges["Beluga-13B"],
        "without Llama-13B": np.concatenate([x for name, x in data.judges.items() if name != "Llama-13B"], axis=1),
    }
    rows: list[Sequence[str]] = [("all five less", *list(some)[1:])]
    for rule in (*RIVALS, "RLVR²"):
        taus = [compared.ranked(every[rule](x, data.prompts), data.human).tau for x in some.values()]
        rows.append((rule, *(tell_signed(difference(taus[0], tau)) for tau in taus[1:])))
    return rows


def raters_line(data: Hanna) -> str:
    """Correlations within prompts of the raters' means over criteria, with each other and with the judges' mean."""

    def centre_scores(values: np.ndarray) -> np.ndarray:
        table = values.reshape(len(np.unique(data.prompts)), -1)
        return (table - table.mean(axis=1, keepdims=True)).ravel()

    rows = [centre_scores(rater.mean(axis=1)) for rater in data.raters]
    table = np.corrcoef([*rows, centre_scores(mean(data.everything[ALL], data.prompts))])
    among = sorted(table[np.triu_indices(3, 1)])
    judged = sorted(table[3, :3])
    return (
        f"correlation of raters: {among[0]:.2f} to {among[-1]:.2f}, with the judges {judged[0]:.2f} to {judged[-1]:.2f}"
    )


def tell_signed(estimate: Estimate) -> str:
    return f"{estimate.value:+.3f} [{estimate.low:+.3f}, {estimate.high:+.3f}]"


def judges_rows(found: Audit) -> list[Sequence[str]]:
    """The audit in a few columns: agreement with the humans, length, ties, missing."""
    rows: list[Sequence[str]] = [
        ("mean of criteria", "missing", "ties", "kappa", "alpha", "tau", "γ of length", "longer wins")
    ]
    for name in (*found.judges, "humans"):
        covered = [c for c in found.coverage if c.judge == name and c.criterion is not None]
        agrees = [a for a in found.agreement if (a.a, a.b, a.criterion) == (name, "humans", None)]
        (bias,) = [b for b in found.bias if (b.judge, b.criterion) == (name, None)]
        missing = f"{sum(c.missing for c in covered) / sum(c.asked for c in covered):.1%}" if covered else ""
        ties = f"{np.mean([c.ties.value for c in covered]):.2f}" if covered else ""
        cells = [format_estimate(x) for a in agrees for x in (a.kappa, a.alpha, a.tau_within)] or [""] * 3
        rows.append((name, missing, ties, *cells, format_estimate(bias.gamma), format_estimate(bias.wins)))
    return rows


def text_of(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, the first to the left."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = ("  ".join(f"{x:<{w}}" for x, w in zip(row, widths, strict=True)).rstrip() for row in rows)
    return "\n".join(lines)


def report(data: Hanna, found: dict[str, dict[str, Ranked]], judged: Audit, bootstrap: int) -> str:
    """Everything that docs/audit.md shows."""
    humans = judged.human_raters
    assert humans is not None
    raters = f"three human raters: identical {format_estimate(humans.identical)}, alpha {format_estimate(humans.alpha)}"
    tables = [by_judge(found), against(found), panels(data, bootstrap), by_measure(found), judges_rows(judged)]
    return "\n\n".join([*map(text_of, tables), f"{raters}\n{raters_line(data)}"])


def as_json(found: dict[str, dict[str, Ranked]], judged: Audit) -> dict[str, Any]:
    ranked = {
        rule: {
            judge: {n: compute_interval(getattr(ranking, n)).as_dict() for n in NAMES}
            for judge, ranking in ranked.items()
        }
        for rule, ranked in found.items()
    }
    return {"aggregation": ranked, "audit": judged.as_dict()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--bootstrap", type=int, default=500)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--draw", type=Path)
    options = parser.parse_args()
    data = load(options.data)
    comparison = compare(data, options.bootstrap)
    judged = run_audit(data, options.bootstrap)
    print(report(data, comparison, judged, options.bootstrap))
    if options.json:
        options.json.write_text(json.dumps(as_json(comparison, judged), indent=1), encoding="utf-8")
    if options.draw:
        from rubrank.studies.audit.figure import draw

        draw(judged, options.draw, title="HANNA: five judges of stories", dpi=100)


if __name__ == "__main__":
    main()
