"""How much of an attribute's influence is taken out of the reward.

    fuse(scores, attributes=tokens[..., None], adjust="remove")            formatting control: all, of either sign
    fuse(scores, attributes=tokens[..., None], adjust=attenuate(0.5))      reasoning-efficiency control

`attenuate(lam)` takes out the share lam of a positive coefficient and leaves other coefficients as they are. A random
draw is a function of seed, group, criterion and attribute alone: it does not depend on the batch, its order, or the
process that computes it.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from rubrank._choices import Draw
from rubrank.errors import InvalidInput, UnknownName, only_our_errors


@dataclass(frozen=True)
class Attenuate:
    """Take out the share lam of a positive coefficient, on average over draws; leave negative ones alone."""

    lam: float
    draw: Draw = "fixed"

    def __post_init__(self) -> None:
        if not (isinstance(self.lam, int | float | np.number) and 0.0 <= self.lam <= 1.0):
            allowed = "between 0 (take nothing out) and 1 (all of it)"
            raise InvalidInput(
                "attenuate", "lam", allowed=allowed, got=repr(self.lam), remedy="Start with 0.5."
            )
        if self.draw not in get_args(Draw):
            raise UnknownName.of("attenuate", "draw", self.draw, get_args(Draw))

    def share(self, uniform: np.ndarray) -> np.ndarray:
        """The share of each positive coefficient that is taken out, from one uniform number each."""
        if self.draw == "bernoulli":
            return (uniform < self.lam).astype(float)
        if self.draw == "uniform":
            # The widest uniform distribution within [0, 1] whose mean is lam.
            half = min(self.lam, 1.0 - self.lam)
            return self.lam - half + 2.0 * half * uniform
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


def expand_adjustments(
    owner: str, adjust: Adjustment | Sequence[Adjustment] | None, D: int
) -> tuple[Adjustment, ...]:
    """One adjustment for each of D attributes; None removes all of them."""
    per_attribute: Any = ("remove" if adjust is None else adjust,) * D
    if isinstance(adjust, Sequence) and not isinstance(adjust, str):
        per_attribute = tuple(adjust)
    for adjustment in per_attribute:
        if not isinstance(adjustment, Attenuate) and adjustment != "remove":
            remedy = "One rule for all attributes, or one for each."
            raise InvalidInput(
                owner,
                "adjust",
                allowed="'remove' or attenuate(lam)",
                got=repr(adjustment),
                remedy=remedy,
            )
    if len(per_attribute) != D:
        allowed = f"one rule, or {D} of them, one for each attribute"
        raise InvalidInput(owner, "adjust", allowed=allowed, got=str(len(per_attribute)), remedy="")
    return tuple(per_attribute)


@dataclass(frozen=True, eq=False)
class DrawNames:
    """The names that random draws depend on; a running estimate stores its sums under the same names."""

    groups: Sequence[Hashable]
    criteria: Sequence[Hashable]
    attributes: Sequence[Hashable]
    seed: int = 0


def draw_shares(
    adjustments: tuple[Adjustment, ...], shape: tuple[int, ...], names: DrawNames
) -> tuple[np.ndarray, np.ndarray]:
    """The share of every coefficient to take out (N, K, D), and for each attribute whether negative ones count (D,)."""
    share_NKD = np.ones((*shape, len(adjustments)))
    is_two_sided_D = np.array([adjustment == "remove" for adjustment in adjustments], bool)
    is_random = any(
        isinstance(adjustment, Attenuate) and adjustment.draw != "fixed"
        for adjustment in adjustments
    )
    uniform_NKD = share_NKD  # not read by fixed shares
    if is_random:
        uniform_NKD = draw_uniform(names.seed, names.groups, names.criteria, names.attributes)
    for d, adjustment in enumerate(adjustments):
        if isinstance(adjustment, Attenuate):
            share_NKD[:, :, d] = adjustment.share(uniform_NKD[:, :, d])
    return share_NKD, is_two_sided_D


def draw_uniform(
    seed: int,
    groups: Sequence[Hashable],
    criteria: Sequence[Hashable],
    attributes: Sequence[Hashable],
) -> np.ndarray:
    """Numbers in [0, 1), (N, K, D): each a hash of the four names that it belongs to."""
    state = _mix(_hash_names([seed]) ^ _hash_names(groups))
    state = _mix(state[:, None] ^ _hash_names(criteria))
    state = _mix(state[:, :, None] ^ _hash_names(attributes))
    return (state >> np.uint64(11)) * 2.0**-53


def _hash_names(names: Sequence[Hashable]) -> np.ndarray:
    """64 bits of each name. 1 and "1" are different names; NumPy's 1 and Python's are the same."""
    hashes = []
    for name in names:
        plain = name.item() if isinstance(name, np.generic) else name
        # A label that JSON escapes spell may hold half of a surrogate pair, which plain UTF-8 refuses.
        text = f"{type(plain).__name__}:{plain}".encode("utf-8", "surrogatepass")
        digest = blake2b(text, digest_size=8).digest()
        hashes.append(int.from_bytes(digest, "little"))
    return np.array(hashes, np.uint64)


def _mix(x: np.ndarray) -> np.ndarray:
    """The finaliser of splitmix64: every bit of the input affects every bit of the output."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
