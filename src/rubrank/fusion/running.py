"""Attribute coefficients that are estimated over a whole run: a moving sum of what its steps say.

    A ← ρA + I      b ← ρb + (I + βE)γ̂_t      V ← ρ²V + V_t      n ← ρn + n_t          ρ = 0.9: ten steps or so
    γ̂ = (A + βE)⁻¹ b,  its error with A for I

One step of a trainer has few groups; ten steps have ten times as many, and the judge they train against is the same.
A criterion learns from the training steps in which it tells rollouts of two groups or more apart: one group has no
spread. When other attributes are controlled than before, a criterion starts afresh: coefficients are estimated jointly.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.fusion.estimate import InfluenceEstimate

DECAY = 0.9
_FEWEST = 2


@dataclass(eq=False, slots=True)
class _Sums:
    """A, b, V and n of one criterion."""

    information_DD: np.ndarray
    right_D: np.ndarray
    variance_DD: np.ndarray
    n: float

    def add(self, information_DD: np.ndarray, right_D: np.ndarray, variance_DD: np.ndarray, n: float) -> None:
        self.information_DD = DECAY * self.information_DD + information_DD
        self.right_D = DECAY * self.right_D + right_D
        self.variance_DD = DECAY * DECAY * self.variance_DD + variance_DD
        self.n = DECAY * self.n + n


@dataclass(eq=False, slots=True)
class Running:
    """What a run knows about its attributes so far; grows with every step that is learnt from."""

    attributes: tuple[str, ...] = ()
    sums: dict[str, _Sums] = field(default_factory=dict)

    def learn(
        self, step: InfluenceEstimate, criteria: Sequence[Hashable], attributes: Sequence[Hashable], beta: float
    ) -> InfluenceEstimate:
        """Take a step in, and return what is known now about its criteria."""
        names, columns = [str(name) for name in criteria], tuple(map(str, attributes))
        if columns != self.attributes:
            self.attributes, self.sums = columns, {}
        D = len(columns)
        right_KD = ((step.information_KDD + beta * np.eye(D)) @ step.gamma_KD[:, :, None])[:, :, 0]
        for k in np.flatnonzero(step.n_K >= _FEWEST):
            if names[k] not in self.sums:
                self.sums[names[k]] = _Sums(np.zeros((D, D)), np.zeros(D), np.zeros((D, D)), 0.0)
            taken_in = step.information_KDD[k], right_KD[k], step.variance_KDD[k], float(step.n_K[k])
            self.sums[names[k]].add(*taken_in)
        return self._known(names, D, beta)

    def _known(self, names: Sequence[str], D: int, beta: float) -> InfluenceEstimate:
        K = len(names)
        right_KD, n_K = np.zeros((K, D)), np.zeros(K)
        information_KDD, variance_KDD = np.zeros((K, D, D)), np.full((K, D, D), np.nan)
        for k, name in enumerate(names):
            if name in self.sums:
                sums = self.sums[name]
                right_KD[k], n_K[k] = sums.right_D, sums.n
                information_KDD[k], variance_KDD[k] = sums.information_DD, sums.variance_DD
        gamma_KD = np.linalg.solve(information_KDD + beta * np.eye(D), right_KD[:, :, None])[:, :, 0]
        return InfluenceEstimate.of(gamma_KD, information_KDD, variance_KDD, n_K, beta)

    def state(self) -> dict[str, Any]:
        """What a checkpoint must carry, as JSON can hold it."""
        criteria = {
            name: {"A": s.information_DD.tolist(), "b": s.right_D.tolist(), "V": s.variance_DD.tolist(), "n": s.n}
            for name, s in self.sums.items()
        }
        return {"attributes": list(self.attributes), "criteria": criteria}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Go on from there; raises for what is no such state."""
        try:
            attributes = tuple(map(str, state["attributes"]))
            D = len(attributes)
            sums = {str(name): _read(held, D) for name, held in state["criteria"].items()}
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            allowed = "the state of a running estimate: attributes, and A, b, V and n of every criterion"
            raise InvalidInput("Running", "state", allowed, repr(error), "Resume from another checkpoint.") from None
        self.attributes, self.sums = attributes, sums


def _read(held: Mapping[str, Any], D: int) -> _Sums:
    square = {name: np.array(held[name], float).reshape(D, D) for name in ("A", "V")}
    return _Sums(square["A"], np.array(held["b"], float).reshape(D), square["V"], float(held["n"]))
