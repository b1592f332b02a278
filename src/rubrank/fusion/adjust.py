"""How much of an attribute's influence is taken out of the reward.

    fuse(scores, attributes=tokens[..., None], adjust="remove")            formatting control: all, of either sign
    fuse(scores, attributes=tokens[..., None], adjust=attenuate(0.5))      reasoning-efficiency control

`attenuate(lam)` leaves a coefficient that is not positive as it is, and takes the share lam of a positive one. Draws
are a function of seed, group, criterion and attribute, and of nothing else: the same whatever the batch, its order, or
the process that computes them.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from rubrank.errors import InvalidInput, UnknownName, only_our_errors

Draw: TypeAlias = Literal["fixed", "bernoulli", "uniform"]
Pool: TypeAlias = Literal["batch", "run", "group"]
"""What coefficients are estimated over; see `control.py`."""


@dataclass(frozen=True)
class Attenuate:
    """Take the share lam of a positive coefficient, as a mean over draws; leave the others alone."""

    lam: float
    draw: Draw = "fixed"

    def __post_init__(self) -> None:
        if not (isinstance(self.lam, int | float | np.number) and 0.0 <= self.lam <= 1.0):
            raise InvalidInput(
                "attenuate", "lam", "between 0 (take nothing out) and 1 (all of it)", repr(self.lam), "Start with 0.5."
            )
        if self.draw not in get_args(Draw):
            raise UnknownName.of("attenuate", "draw", self.draw, get_args(Draw))

    def taken(self, uniform: np.ndarray) -> np.ndarray:
        """The share of each positive coefficient that is taken out, from one uniform number each."""
        if self.draw == "bernoulli":
            return (uniform < self.lam).astype(float)
        if self.draw == "uniform":
            return _uniform_with_mean(self.lam, uniform)
        return np.full(uniform.shape, float(self.lam))

    def __str__(self) -> str:
        return f"attenuate({self.lam:g}, {self.draw})"


Adjustment: TypeAlias = Literal["remove"] | Attenuate


@only_our_errors
def attenuate(lam: float, draw: Draw = "fixed") -> Attenuate:
    """Weaken positive associations with an attribute: 0 takes nothing out and is exactly off, 1 takes out all.

    draw="fixed" takes the share lam, "bernoulli" all of a coefficient with probability lam and nothing else, "uniform"
    a uniform share with mean lam.
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
        raise InvalidInput(owner, "adjust", f"one rule, or {D} of them, one for each attribute", str(len(rules)), "")
    return rules


@dataclass(frozen=True, eq=False)
class Naming:
    """What draws depend on, and a running estimate goes by."""

    groups: Sequence[Hashable]
    criteria: Sequence[Hashable]
    attributes: Sequence[Hashable]
    seed: int = 0


def taken_shares(
    rules: tuple[Adjustment, ...], shape: tuple[int, ...], naming: Naming
) -> tuple[np.ndarray, np.ndarray]:
    """The share of every coefficient that is taken out, (N, K, D); and where of negative ones too, (D,)."""
    share = np.ones((*shape, len(rules)))
    two_sided = np.array([rule == "remove" for rule in rules], bool)
    drawn = [rule for rule in rules if isinstance(rule, Attenuate) and rule.draw != "fixed"]
    uniform = uniform_numbers(naming.seed, naming.groups, naming.criteria, naming.attributes) if drawn else share
    for d, rule in enumerate(rules):
        if isinstance(rule, Attenuate):
            share[:, :, d] = rule.taken(uniform[:, :, d])
    return share, two_sided


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
