"""The data of benchmarks/hanna.py, and the rules by which several criteria become one number.

scores (stories, criteria), the prompt of each story  →  one number a story; only its order within a prompt counts
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from first_form import FirstForm

import rubrank

Rule: TypeAlias = Callable[[np.ndarray, np.ndarray], np.ndarray]

DATA = Path(__file__).parents[2] / "shared" / "data" / "hanna" / "hanna_tidy.csv.gz"
CRITERIA = {
    "RE": "relevance",
    "CH": "coherence",
    "EM": "empathy",
    "SU": "surprise",
    "EG": "engagement",
    "CX": "complexity",
}
JUDGES = ("Beluga-13B", "OrcaPlatypus", "Mistral-7B", "Llama-13B", "ChatGPT")
ALL = "all five"
RIVALS = ("mean", "mean of z-scores", "mean of min–max", "Borda")


@dataclass(frozen=True, eq=False)
class Hanna:
    """The data: rows are stories, sorted by prompt."""

    prompts: np.ndarray
    systems: np.ndarray
    judges: dict[str, np.ndarray]
    """(stories, 6) of each; NaN = no answer that could be read."""
    raters: tuple[np.ndarray, ...]
    """(stories, 6) of each of three humans."""
    lengths: np.ndarray

    @property
    def human(self) -> np.ndarray:
        """The humans' mean over criteria and raters."""
        return np.mean(self.raters, axis=(0, 2))

    @property
    def human_fused(self) -> np.ndarray:
        """The same 18 columns put together by RLVR², as another reading of what the humans say."""
        return rubrank.fuse(np.concatenate(self.raters, axis=1), groups=self.prompts)

    @property
    def everything(self) -> dict[str, np.ndarray]:
        """The criteria of each judge, and those of all five side by side."""
        return {**self.judges, ALL: np.concatenate(list(self.judges.values()), axis=1)}


def load(path: Path = DATA) -> Hanna:
    import polars

    rows = polars.read_csv(path).sort("prompt_idx", "system")

    def scores(name: str) -> np.ndarray:
        columns = rows.select([f"{name}_{short}" for short in CRITERIA]).to_numpy().astype(float)
        return np.where(columns >= 1.0, columns, np.nan)

    return Hanna(
        rows["prompt_idx"].to_numpy(),
        rows["system"].to_numpy(),
        {name: scores(name) for name in JUDGES},
        tuple(scores(f"h{i}") for i in (1, 2, 3)),
        rows["text_length"].to_numpy().astype(float),
    )


# --------------------------------------------------------------------------------------------------------------- rules


def mean(scores: np.ndarray, groups: np.ndarray) -> np.ndarray:
    """The plain mean of what is there."""
    is_known = ~np.isnan(scores)
    return np.where(is_known, scores, 0.0).sum(axis=1) / np.maximum(is_known.sum(axis=1), 1)


def by_group(change: Callable[[np.ndarray], np.ndarray]) -> Rule:
    """The mean of criteria that are changed within each group first; a missing score becomes 0, the middle."""

    def rule(scores: np.ndarray, groups: np.ndarray) -> np.ndarray:
        rewards = np.zeros_like(scores)
        for group in np.unique(groups):
            rewards[groups == group] = np.nan_to_num(change(scores[groups == group]))
        return rewards.mean(axis=1)

    return rule


def z_scores(scores: np.ndarray) -> np.ndarray:
    spread = np.nanstd(scores, axis=0)
    return (scores - np.nanmean(scores, axis=0)) / np.where(spread > 0.0, spread, 1.0)


def min_max(scores: np.ndarray) -> np.ndarray:
    low = np.nanmin(scores, axis=0)
    high = np.nanmax(scores, axis=0)
    return (scores - low) / np.where(high > low, high - low, 1.0) - 0.5


def borda(scores: np.ndarray) -> np.ndarray:
    """Wins minus losses against the others of the group that have a score, over how many these are."""
    sign = np.sign(scores[:, None, :] - scores[None, :, :])
    return np.nansum(sign, axis=1) / np.maximum((~np.isnan(sign)).sum(axis=1) - 1, 1)


def rlvr2(scores: np.ndarray, groups: np.ndarray, **options: Any) -> np.ndarray:
    return rubrank.fuse(scores, groups=groups, **options)


def first_form(scores: np.ndarray, groups: np.ndarray, length: np.ndarray) -> np.ndarray:
    """Length out by the pooled form of the first version."""
    return FirstForm("remove")(rubrank.ScoreBatch.of_arrays(scores, groups=groups, attributes=length)).reward


def rules(data: Hanna) -> dict[str, Rule]:
    length = data.lengths[:, None]
    return {
        "mean": mean,
        "mean of z-scores": by_group(z_scores),
        "mean of min–max": by_group(min_max),
        "Borda": by_group(borda),
        "RLVR²": rlvr2,
        "RLVR², span=unit": lambda s, g: rlvr2(s, g, span="unit"),
        "RLVR², length out": lambda s, g: rlvr2(s, g, attributes=length),
        "the same, λ = 0.5": lambda s, g: rlvr2(s, g, attributes=length, adjust=rubrank.attenuate(0.5)),
        "the same, old form": lambda s, g: first_form(s, g, length),
    }
