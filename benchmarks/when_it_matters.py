"""Where RLVR² ranks differently from a weighted sum, on real scores: `python benchmarks/when_it_matters.py`.

Every row is a change to the same data: none, one criterion on another scale, scores missing at random, a margin. τ is
Kendall's τ-b within groups between RLVR² and the weighted mean (both after the change); "best" the share of groups in
which both have the same best rollout; the last column is the τ of each rule with itself before the change.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from real_data import DATA, longform_writing, m_ifeval, text_table

from rubrank.fusion.rules import find_rule
from rubrank.records.agreement import compute_mean, measure_kendall, measure_same_winners, rank_rewards
from rubrank.scores.batch import ScoreBatch
from rubrank.verifiers.verifier import Domain

Change = Callable[[ScoreBatch, np.random.Generator], ScoreBatch]


def unchanged(batch: ScoreBatch, rng: np.random.Generator) -> ScoreBatch:
    """As it is."""
    return batch


def times_ten(batch: ScoreBatch, rng: np.random.Generator) -> ScoreBatch:
    """The first criterion counts in tenths, on an undeclared domain."""
    scores = batch.scores_MK.copy()
    scores[:, 0] *= 10.0
    top = max(batch.criteria[0].domain.high, 1.0)
    criteria = (replace(batch.criteria[0], domain=Domain("continuous", (), 0.0, top)), *batch.criteria[1:])
    return replace(batch, scores_MK=scores, criteria=criteria)


def some_missing(batch: ScoreBatch, rng: np.random.Generator) -> ScoreBatch:
    """Every fifth score is missing."""
    scores = batch.scores_MK.copy()
    scores[rng.random(scores.shape) < 0.2] = np.nan
    return replace(batch, scores_MK=scores)


CHANGES: dict[str, Change] = {"as it is": unchanged, "one criterion × 10": times_ten, "20% missing": some_missing}


def rows_of(name: str, batch: ScoreBatch) -> list[list[str]]:
    ours = find_rule("rlvr2")
    sums = find_rule("weighted-mean")
    before = [rank_rewards(rule(batch).reward, batch.starts) for rule in (ours, sums)]
    rows = []
    for change, make in CHANGES.items():
        changed = make(batch, np.random.default_rng(0))
        after = [rank_rewards(rule(changed).reward, changed.starts) for rule in (ours, sums)]
        agreement = [compute_mean(measure_kendall(old, new)) for old, new in zip(before, after, strict=True)]
        rows.append(
            [
                name,
                change,
                f"{compute_mean(measure_kendall(*after)):.3f}",
                f"{measure_same_winners(*after):.0%}",
                f"{agreement[0]:.3f} / {agreement[1]:.3f}",
            ]
        )
    return rows


def main() -> None:
    heading = ["data", "change", "τ", "same best", "τ with itself: RLVR² / sum"]
    rows = [heading]
    if not DATA.is_dir():
        raise SystemExit(f"needs {DATA}")
    rows += rows_of("yes/no verdicts (M-IFEval)", m_ifeval(least=2).table.batch())
    rows += rows_of("grades from 0 to 20 (longform writing)", longform_writing().table.batch())
    print(text_table(rows))


if __name__ == "__main__":
    main()
