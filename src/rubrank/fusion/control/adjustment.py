"""How much of an attribute's influence is taken out of the reward.

    fuse(scores, attributes=tokens[..., None], adjust="remove")            formatting control
    fuse(scores, attributes=tokens[..., None], adjust=attenuate(0.5))      reasoning-efficiency control

Every attribute has a coefficient for each group and criterion: positive if more of it (longer, more bold text) wins.
"remove" takes out the whole coefficient, positive or negative. `attenuate(lam)` takes out the share lam of a positive
coefficient and leaves negative ones as they are.

A random draw is a function of seed, group, criterion and attribute alone: it does not depend on the batch, its order,
or the process that computes it.

Letters at the end of a name are the axes of an array: N groups, K criteria, D attributes.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import numpy as np

from rubrank._choices import Draw
from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.scores.batch import ScoreBatch

if TYPE_CHECKING:
    from rubrank.fusion.control.linear import Controlled
    from rubrank.fusion.rlvr2 import RLVR2


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

    def choose_share(self, uniform: np.ndarray) -> np.ndarray:
        """Turn one uniform number for each positive coefficient into the share of it that is taken out."""
        if self.draw == "bernoulli":
            return (uniform < self.lam).astype(float)
        if self.draw == "uniform":
            # The widest uniform distribution within [0, 1] whose mean is lam: lam ± half_width.
            half_width = min(self.lam, 1.0 - self.lam)
            return self.lam - half_width + 2.0 * half_width * uniform
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
    """Return one adjustment for each of D attributes. None removes all of them.

    Raises InvalidInput, in the name of `owner`, for anything but adjustments, or if their number is not D.
    """
    is_sequence = isinstance(adjust, Sequence) and not isinstance(adjust, str)
    adjustments: Any = adjust
    if not is_sequence:
        adjustments = ["remove" if adjust is None else adjust] * D
    for adjustment in adjustments:
        if not isinstance(adjustment, Attenuate) and adjustment != "remove":
            remedy = "One rule for all attributes, or one for each."
            raise InvalidInput(
                owner,
                "adjust",
                allowed="'remove' or attenuate(lam)",
                got=repr(adjustment),
                remedy=remedy,
            )
    if len(adjustments) != D:
        allowed = f"one rule, or {D} of them, one for each attribute"
        raise InvalidInput(owner, "adjust", allowed=allowed, got=str(len(adjustments)))
    return tuple(adjustments)


def name_columns(batch: ScoreBatch) -> tuple[Sequence[Hashable], Sequence[Hashable]]:
    """Return the names of the criteria and of the attributes; numbers if they have no names.

    Random draws depend on these names, and a running estimate stores its sums under them.
    """
    assert batch.attributes_MD is not None
    criteria: Sequence[Hashable] = batch.names if batch.has_names else range(batch.K)
    return criteria, batch.attribute_names or range(batch.attributes_MD.shape[1])


def select_criteria(
    adjust_criteria: Sequence[str | int] | str | None, batch: ScoreBatch
) -> np.ndarray:
    """Return (N, K) or (1, K): is the criterion controlled? Those that are named, else those that no program decides.

    Programs have no bias towards length or headings. Plain arrays do not say who decided, so all their criteria are
    controlled.
    """
    if adjust_criteria is None:
        return np.asarray(
            batch.collect_per_group(lambda criterion: criterion.verifier is None), bool
        )
    if adjust_criteria == "all":
        return np.ones((1, batch.K), bool)
    names = batch.names if batch.has_names else tuple(str(k) for k in range(batch.K))
    selected = {str(name) for name in adjust_criteria}
    return np.array([[name in selected for name in names]], bool)


def choose_taken(
    rule: RLVR2 | Controlled, batch: ScoreBatch, gamma: np.ndarray, controlled_NK: np.ndarray
) -> np.ndarray:
    """Return δ (N, K, D): what is taken out of the coefficients, 0 where a criterion is not controlled.

    gamma: the coefficients (K, D), or (N, K, D) if each group has its own.
    """
    criteria, attributes = name_columns(batch)
    adjustments = expand_adjustments(rule.name, rule.adjust, len(attributes))
    taken_NKD = np.where(controlled_NK[:, :, None], gamma, 0.0)
    uniform_NKD = np.zeros(taken_NKD.shape)
    if any(getattr(adjustment, "draw", "fixed") != "fixed" for adjustment in adjustments):
        # Only for random draws: hashing all names takes time.
        uniform_NKD = draw_uniform(rule.seed, batch.labels, criteria, attributes)
    for d, adjustment in enumerate(adjustments):
        if isinstance(adjustment, Attenuate):
            # It takes out a liking of an attribute only; "remove" takes out a dislike as well.
            share_NK = adjustment.choose_share(uniform_NKD[:, :, d])
            taken_NKD[:, :, d] = share_NK * np.maximum(taken_NKD[:, :, d], 0.0)
    return taken_NKD


def draw_uniform(
    seed: int,
    groups: Sequence[Hashable],
    criteria: Sequence[Hashable],
    attributes: Sequence[Hashable],
) -> np.ndarray:
    """Return numbers in [0, 1) (N, K, D). Each is a hash of the seed and the three names that it belongs to."""
    bits_N = _mix_bits(_hash_names([seed]) ^ _hash_names(groups))
    bits_NK = _mix_bits(bits_N[:, None] ^ _hash_names(criteria))
    bits_NKD = _mix_bits(bits_NK[:, :, None] ^ _hash_names(attributes))
    return (bits_NKD >> np.uint64(11)) * 2.0**-53  # 53 bits, as many as a double has


def _hash_names(names: Sequence[Hashable]) -> np.ndarray:
    """Return a hash of 64 bits of each name. 1 and "1" are different names; NumPy's 1 and Python's are the same."""
    hashes = []
    for name in names:
        plain = name.item() if isinstance(name, np.generic) else name
        # A label that JSON escapes spell may hold half of a surrogate pair, which plain UTF-8 refuses.
        text = f"{type(plain).__name__}:{plain}".encode("utf-8", "surrogatepass")
        digest = blake2b(text, digest_size=8).digest()
        hashes.append(int.from_bytes(digest, "little"))
    return np.array(hashes, np.uint64)


def _mix_bits(x: np.ndarray) -> np.ndarray:
    """Apply the finaliser of splitmix64: every bit of the input affects every bit of the output."""
    x = x + np.uint64(0x9E3779B97F4A7C15)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))
