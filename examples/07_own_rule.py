"""An aggregation rule of your own, beside those of the library, gated or not.

Run it: python examples/07_own_rule.py
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

import rubrank


@rubrank.rule
@dataclass(frozen=True)
class BestCase:
    """The best score of a rollout, whichever criterion gave it."""

    name: ClassVar[str] = "best-case"
    bounded: ClassVar[bool] = True  # values from 0 to 1; others are stretched to that before a gate acts
    share: float = 1.0

    def __call__(self, batch: rubrank.ScoreBatch) -> rubrank.Fused:
        """One number for each rollout of the batch."""
        best = np.fmax.reduce(batch.unit_MK, axis=1)  # a missing score is NaN, which fmax leaves out
        return rubrank.Fused(batch, self.name, self.share * best)


rubric = [
    "EmptyAnswer",
    {"name": "WordCount", "params": {"low": 4}},
    {"name": "Keyword", "params": {"keywords": ["lake"]}},
]
responses = ["A lake is still water.", "Water, and more water.", "A lake.", ""]
batch = rubrank.grade([{"prompt": "What is a lake?", "responses": responses}], rubric).batch()
for name in ("weighted-mean", "rlvr2", "best-case", "best-case:share=0.5", "best-case+"):
    print(f"{name:<22}", *(f"{reward:.2f}" for reward in rubrank.find_rule(name)(batch).reward))
