"""Do rules care how scores are written? The paper's table, in form, on real data.

    python benchmarks/robustness.py                       the tables of docs/robustness.md, in about half a minute
    python benchmarks/robustness.py --json figures.json   every criterion × map × rule, for machines

One criterion at a time is mapped by a function that keeps its order: × 10; the levels 0, 0.2, 1 to 0, 1, 100 (a power
curve through these, for scores between them); squared. Every rule is run before and after on the same groups. The
paper's own figures stand in PAPER, as printed there (Table "Robustness to order-preserving score transformations"); its
rollouts are not public, so ours are others and only the form is the same.
"""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from real_data import DATA, Study, longform_writing, m_ifeval, text_table

from rubrank.fusion.rules import rule_names
from rubrank.scores.batch import ScoreBatch
from rubrank.studies.replay import parse_transform, run_rule
from rubrank.studies.robustness import MAPS, RULES, RobustnessRow, robustness, summarise_rows

TIMES, LEVELS, SQUARED = MAPS
NAMES = {"weighted-mean": "cardinal", "z-score": "normalised cardinal", "rlvr2": "RLVR²"}
PAPER: dict[str, tuple[str, int, dict[str, tuple[str, str]]]] = {
    TIMES: (
        "IFBench",
        672,
        {
            "weighted-mean": ("92.52", "0.9783"),
            "z-score": ("98.75", "0.9985"),
            "rlvr2": ("100.00", "1.0000"),
        },
    ),
    LEVELS: (
        "UniLLM",
        194,
        {
            "weighted-mean": ("95.88", "0.9651"),
            "z-score": ("99.16", "0.9921"),
            "rlvr2": ("100.00", "1.0000"),
        },
    ),
    SQUARED: (
        "UniBusiness",
        954,
        {
            "weighted-mean": ("95.83", "0.99997"),
            "z-score": ("97.68", "0.99925"),
            "rlvr2": ("100.00", "1.0000"),
        },
    ),
}
FEWEST = 12
"""Groups that a criterion must tell apart to be shown in a row of its own."""


# ------------------------------------------------------------------------------------------------------------ printing


def beside_the_paper(writing: Sequence[RobustnessRow], verdicts: Sequence[RobustnessRow]) -> str:
    """Map × rule: the means of ours, and what the paper reports for its criterion under that map."""
    rows: list[tuple[str, ...]] = [
        ("map", "rule", "writing %", "ρ", "verdicts %", "ρ", "paper %", "ρ", "criterion", "groups")
    ]
    ours = [{(row.map, row.rule): row for row in summarise_rows(some)} for some in (writing, verdicts)]
    for name, (criterion, groups, figures) in PAPER.items():
        for rule in RULES:
            cells = [text for study in ours for text in _cells(study[name, rule])]
            rows.append((name, NAMES[rule], *cells, *figures[rule], criterion, str(groups)))
    return text_table(rows)


def by_criterion(found: Sequence[RobustnessRow], name: str) -> str:
    """Criterion × rule, for one map."""
    rows: list[tuple[str, ...]] = [(name, "groups", "cardinal %", "ρ", "normalised %", "ρ", "RLVR² %", "ρ")]
    cells = {(row.criterion, row.rule): row for row in found if row.map == name}
    for criterion in dict.fromkeys(row.criterion for row in found):
        groups = cells[criterion, RULES[0]].groups
        if groups >= FEWEST:
            texts = [text for rule in RULES for text in _cells(cells[criterion, rule])]
            rows.append((criterion, str(groups), *texts))
    return text_table(rows)


def all_rules(found: Sequence[RobustnessRow]) -> str:
    """Rule × map, means over criteria."""
    means = {(row.map, row.rule): row for row in summarise_rows(found)}
    rows: list[tuple[str, ...]] = [("rule", "× 10 %", "ρ", "levels %", "ρ", "squared %", "ρ")]
    for rule in dict.fromkeys(row.rule for row in found):
        rows.append((rule, *(text for name in MAPS for text in _cells(means[name, rule]))))
    return text_table(rows)


def without_tolerance(study: Study) -> str:
    """Sign agreement under × 10 if a difference of 1e-17 from the group's mean were a side to be on."""
    before = study.table.batch()
    same: dict[str, list[np.ndarray]] = {rule: [] for rule in RULES}
    for name in study.table.criteria:
        after = parse_transform(f"{name}*10")(study.table).batch()
        is_informative = before.informative_NK[before.group_of_row, before.names.index(name)]
        for rule in RULES:
            signs = [_bare_signs(run_rule(rule, batch), batch) for batch in (before, after)]
            same[rule].append((signs[0] == signs[1])[is_informative])
    shares = (f"{NAMES[rule]} {100.0 * np.concatenate(same[rule]).mean():.2f}" for rule in RULES)
    return f"verdicts, × 10, sign % without tolerance: {', '.join(shares)}"


def _bare_signs(reward: np.ndarray, batch: ScoreBatch) -> np.ndarray:
    mean = np.add.reduceat(reward, batch.starts[:-1]) / batch.sizes
    return np.sign(reward - mean[batch.group_of_row])


def _cells(row: RobustnessRow) -> tuple[str, str]:
    return f"{100.0 * row.signs:.2f}", "–" if math.isnan(row.spearman) else f"{row.spearman:.4f}"


def report(writing: Sequence[RobustnessRow], verdicts: Sequence[RobustnessRow], study: Study) -> str:
    """Everything that docs/robustness.md shows."""
    tables = [beside_the_paper(writing, verdicts), without_tolerance(study)]
    tables += [by_criterion(writing, name) for name in MAPS]
    tables += [by_criterion(verdicts, TIMES), all_rules(writing)]
    return "\n\n".join(tables)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    writing = robustness(longform_writing(options.data).table, rules=rule_names())
    study = m_ifeval(options.data, least=2)
    verdicts = robustness(study.table, rules=RULES)
    print(report(writing, verdicts, study))
    if options.json:
        studies = {"longform_writing": writing, "m_ifeval": verdicts}
        data = {name: [row.as_dict() for row in rows] for name, rows in studies.items()}
        options.json.write_text(json.dumps(data, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
