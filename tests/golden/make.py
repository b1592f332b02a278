"""One fixed batch, fused in every way: the numbers that a refactoring must not move.

To write rewards.json anew, after a change that is meant to move them:

    PYTHONPATH=src .venv/bin/python tests/golden/make.py

LOOK_UP   bit by bit. Their utilities are rounded to nine decimals, because the last bit of a linear solve differs from
          processor to processor; everything after the solve is the same on all of them.
SOLVED    the models as they are, to 1e-12.
FITTED    with attributes, to 1e-9: a solver stops where it stops.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

import rubrank
from rubrank import attenuate
from rubrank.fusion.models import BradleyTerry, Thurstone

NAN = np.nan
PATH = Path(__file__).with_name("rewards.json")

CRITERIA = ["Facts", "Grade", "Clarity", "Cost"]
ATTRIBUTES = ["tokens", "headings"]
GROUPS = ["tides", "query", "lake"]
SCORES_NGK = np.array(
    [
        [[1, 2, 7.5, 0.31], [1, 1, 8, 0.3], [0, 2, 8, 0.74], [1, 0, 6.2, 0.55], [0, 1, 5, 0.52], [0, 2, 7.5, NAN]],
        [[1, 2, 9, 0.9], [0, 2, 3.1, 0.2], [0, 0, NAN, 0.31], [1, 2, 7, 0.85], [NAN, 1, 6, 0.6], [1, 2, 8, 0.87]],
        [[1, 1, 8, 0.77], [1, 1, 8, 0.79], [0, 1, 6, 0.55], [1, 1, 7.3, 0.72], [1, 1, NAN, 0.8], [0, 1, 7.3, 0.58]],
    ]
)
ATTRIBUTES_NGD = np.array(
    [
        [[310, 2], [905, 5], [1240, 6], [280, 0], [190, 0], [1100, 7]],
        [[640, 3], [210, 0], [980, 4], [330, 1], [450, 2], [700, 2]],
        [[95, 0], [240, 0], [130, 0], [110, 0], [180, 0], [300, 0]],
    ]
)
SCATTERED = [2, 0, 1, 1, 0, 2, 0, 0, 1, 0, 2, 0, 0, 1, 0, 1, 1, 0]  # groups of 8, 7 and 3 rollouts

MANY = [f"{name} {i}" for i in range(4) for name in GROUPS]  # the batch four times, judged with an eye on tokens

WEIGHTS = {"weights": {"Facts": 2.0, "Cost": 0.3}}
MARGINS = {"margins": {"Clarity": 0.5, "Cost": 0.05}}
DIRECTIONS = {"directions": {"Cost": "lower"}}


class Rounded:
    """A model to nine decimals."""

    def __init__(self, model: Any) -> None:
        self.name, self.model = f"rounded {model.name}", model

    def fit(self, wins: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        return np.round(self.model.fit(wins, ridge), 9)


BRADLEY_TERRY, THURSTONE = {"model": Rounded(BradleyTerry())}, {"model": Rounded(Thurstone())}
EVERYTHING = {**WEIGHTS, **MARGINS, **DIRECTIONS, "prior": 0.25, "span": "unit"}

LOOK_UP: dict[str, dict[str, Any]] = {
    "rounded": {**BRADLEY_TERRY},
    "rounded, weights and directions": {**BRADLEY_TERRY, **WEIGHTS, **DIRECTIONS},
    "rounded, margins": {**BRADLEY_TERRY, **MARGINS},
    "rounded, scattered": {**BRADLEY_TERRY, **WEIGHTS, "groups": SCATTERED},
    "rounded, margins, scattered": {**BRADLEY_TERRY, **MARGINS, "groups": SCATTERED},
    "rounded, everything": {**BRADLEY_TERRY, **EVERYTHING},
    "rounded, thurstone": {**THURSTONE},
    "rounded, thurstone, everything": {**THURSTONE, **EVERYTHING},
    "borda": {"model": "borda"},
    "borda, everything": {"model": "borda", **EVERYTHING},
}
SOLVED: dict[str, dict[str, Any]] = {
    "bradley-terry": {},
    "bradley-terry, weights and directions": {**WEIGHTS, **DIRECTIONS},
    "bradley-terry, margins": {**MARGINS},
    "bradley-terry, everything": EVERYTHING,
    "thurstone": {"model": "thurstone"},
    "thurstone, everything": {"model": "thurstone", **EVERYTHING},
}
FITTED: dict[str, dict[str, Any]] = {
    "remove": {"pool": "group"},
    "remove, batch": {"pool": "batch", "groups": MANY, **WEIGHTS},
    "remove, everything": {**EVERYTHING, "attribute_prior": 0.1, "pool": "group"},
    "remove, thurstone": {"model": "thurstone", "pool": "group"},
    "remove, thurstone, batch": {"model": "thurstone", "pool": "batch", "groups": MANY, **MARGINS},
    "remove, scattered": {"groups": SCATTERED, "pool": "group"},
    "attenuate, bernoulli": {"adjust": attenuate(0.5, draw="bernoulli"), "pool": "group", "seed": 1},
    "attenuate, uniform": {"adjust": attenuate(0.5, draw="uniform"), "pool": "group", "seed": 1},
    "attenuate, fixed": {"adjust": attenuate(0.7, draw="fixed"), "pool": "group"},
    "attenuate, batch": {"adjust": [attenuate(0.5), "remove"], "pool": "batch", "groups": MANY},
    "attenuate, scattered": {
        "adjust": ["remove", attenuate(0.5, draw="uniform")],
        "groups": SCATTERED,
        "pool": "group",
    },
}
CASES = LOOK_UP | SOLVED | FITTED


def rewards(name: str) -> list[Any]:
    """The rewards of a case."""
    options = {"groups": GROUPS, "criteria": CRITERIA, **CASES[name]}
    scores, attributes = SCORES_NGK, ATTRIBUTES_NGD
    if options["groups"] is SCATTERED:
        scores, attributes = scores.reshape(18, 4), attributes.reshape(18, 2)
    if options["groups"] is MANY:
        attributes = np.concatenate([attributes * (1 + 0.1 * i * np.arange(6)[:, None]) for i in range(4)])
        scores = np.tile(scores, (4, 1, 1))
        scores[..., 2] += attributes[..., 0] / 100
    if name in FITTED:
        options |= {"attributes": attributes, "attribute_names": ATTRIBUTES}
    return rubrank.fuse(scores, **options).tolist()


def write() -> None:
    """One case a line, every digit of every number."""
    lines = (f"  {json.dumps(name)}: {json.dumps(rewards(name))}" for name in CASES)
    PATH.write_text("{\n" + ",\n".join(lines) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    write()
    print(f"{len(CASES)} cases written to {PATH}")
