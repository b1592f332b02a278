"""How much of an attribute's influence stays in the reward.

    fuse(scores, attributes=tokens[..., None], adjust="remove")              formatting control: nothing stays
    fuse(scores, attributes=tokens[..., None], adjust=attenuate(0.5))        reasoning-efficiency control

`attenuate(lam)` leaves a coefficient that is not positive as it is, and keeps a positive one with mean 1 − lam. Draws
are a function of seed, group, criterion and attribute, and of nothing else: the same whatever the batch, its order, or
the process that computes them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from rubrank.errors import InvalidInput, UnknownName

Draw: TypeAlias = Literal["bernoulli", "uniform", "fixed"]


@dataclass(frozen=True)
class Attenuate:
    """Keep a positive coefficient with mean 1 − lam; leave the others alone."""

    lam: float
    draw: Draw = "bernoulli"

    def __post_init__(self) -> None:
        if not (isinstance(self.lam, int | float | np.number) and 0.0 <= self.lam <= 1.0):
            raise InvalidInput(
                "attenuate", "lam", "between 0 (keep all) and 1 (keep nothing)", repr(self.lam), "Start with 0.5."
            )
        if self.draw not in get_args(Draw):
            raise UnknownName.of("attenuate", "draw", self.draw, get_args(Draw))

    def kept(self, gamma: np.ndarray, uniform: np.ndarray) -> np.ndarray:
        """The share of each coefficient that stays, from one uniform number each."""
        if self.draw == "bernoulli":
            share = (uniform >= self.lam).astype(float)
        elif self.draw == "uniform":
            share = _uniform_with_mean(1.0 - self.lam, uniform)
        else:
            share = np.full(gamma.shape, 1.0 - self.lam)
        return np.where(gamma > 0.0, share, 1.0)

    def __str__(self) -> str:
        return f"attenuate({self.lam:g}, {self.draw})"


Adjustment: TypeAlias = Literal["remove"] | Attenuate


def attenuate(lam: float, draw: Draw = "bernoulli") -> Attenuate:
    """Weaken positive associations with an attribute: 0 keeps all of them, 1 none.

    draw="bernoulli" drops a coefficient as a whole with probability lam, "uniform" scales it by a uniform number with
    mean 1 − lam, "fixed" scales it by 1 − lam.
    """
    return Attenuate(lam, draw)


def rules_for(owner: str, adjust: Adjustment | Sequence[Adjustment] | None, D: int) -> tuple[Adjustment, ...]:
    """One rule for each of D attributes; attributes given without a rule are removed."""
    given: Any = "remove" if adjust is None else adjust
    rules: tuple[Adjustment, ...] = (given,) * D
    if isinstance(given, Sequence) and not isinstance(given, str):
        rules = tuple(given)
    for rule in rules:
        if not isinstance(rule, Attenuate) and rule != "remove":
            raise InvalidInput(
                owner,
                "adjust",
                "'remove' or attenuate(lam)",
                repr(rule),
                "One rule for all attributes, or one for each.",
            )
    if len(rules) != D:
        raise InvalidInput(
            owner, "adjust", f"one rule, or {D} of them, one for each attribute", str(len(rules)), "Check their number."
        )
    return rules


def kept_shares(
    rules: tuple[Adjustment, ...],
    gamma_NKD: np.ndarray,
    seed: int,
    groups: Sequence[Hashable],
    criteria: Sequence[Hashable],
    attributes: Sequence[Hashable],
) -> np.ndarray:
    """The share of every coefficient that stays in the reward, (N, K, D)."""
    kept = np.zeros_like(gamma_NKD)
    if all(rule == "remove" for rule in rules):
        return kept
    uniform = uniform_numbers(seed, groups, criteria, attributes)
    for d, rule in enumerate(rules):
        if isinstance(rule, Attenuate):
            kept[:, :, d] = rule.kept(gamma_NKD[:, :, d], uniform[:, :, d])
    return kept


def _uniform_with_mean(mean: float, uniform: np.ndarray) -> np.ndarray:
    """The widest uniform distribution within [0, 1] that has this mean."""
    half = min(mean, 1.0 - mean)
    return mean - half + 2.0 * half * uniform


def uniform_numbers(
    seed: int, groups: Sequence[Hashable], criteria: Sequence[Hashable], attributes: Sequence[Hashable]
) -> np.ndarray:
    """Numbers in [0, 1), (N, K, D): each a hash of the four names it belongs to."""
    state = _mix(_fingerprints([seed]) ^ _fingerprints(groups))
    state = _mix(state[:, None] ^ _fingerprints(criteria))
    state = _mix(state[:, :, None] ^ _fingerprints(attributes))
    return (state >> np.uint64(11)) * 2.0**-53


def _fingerprints(names: Sequence[Hashable]) -> np.ndarray:
    """64 bits of each name; the number 1 and the string "1" are different names, NumPy's 1 and Python's are not."""
    plain = (name.item() if isinstance(name, np.generic) else name for name in names)
    digests = (blake2b(f"{type(name).__name__}:{name}".encode(), digest_size=8).digest() for name in plain)
    return np.array([int.from_bytes(digest, "little") for digest in digests], np.uint64)


def _mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: every bit of the input moves every bit of the output."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
