"""What verifiers claim about a response, as data: a number within an interval, one value of a choice, a text in it.

    @claims("MyWordLimit")
    def _(p):
        yield Interval("words", high=p["most"])

`p` holds all parameters, defaults too. `rubrank.rubrics.contradiction` compares claims about the same thing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    from rubrank.rubrics.rubric import Criterion


@dataclass(frozen=True)
class Interval:
    """The number of `quantity` lies between low and high, both included."""

    quantity: str
    low: float = 0.0
    high: float = math.inf

    def __str__(self) -> str:
        if self.low == self.high:
            return f"exactly {self.low:g}"
        parts = [f"at least {self.low:g}"] if self.low > 0 or self.high == math.inf else []
        return " and ".join([*parts, *([f"at most {self.high:g}"] if self.high < math.inf else [])])


@dataclass(frozen=True)
class OneOf:
    """Of `what` there is one, and it is one of these values."""

    what: str
    values: frozenset[str]

    def __str__(self) -> str:
        return " or ".join(sorted(self.values))


@dataclass(frozen=True)
class Contains:
    """This text occurs, in some case."""

    text: str


@dataclass(frozen=True)
class Lacks:
    """This does not occur, in any case: a character wherever it stands, or a word standing alone."""

    text: str
    is_word: bool = False


Claim: TypeAlias = Interval | OneOf | Contains | Lacks
Claims: TypeAlias = Callable[[Mapping[str, Any]], Iterable[Claim]]


CLAIMS: dict[str, Claims] = {}
"""What each verifier claims; see the top of the file."""


def claims(*verifiers: str) -> Callable[[Claims], Claims]:
    """Register what verifiers of these names claim, given their parameters."""

    def register(function: Claims) -> Claims:
        CLAIMS.update(dict.fromkeys(verifiers, function))
        return function

    return register


def claims_of(verifier: str, params: Mapping[str, Any]) -> list[Claim]:
    """What a verifier claims with these parameters."""
    return list(CLAIMS[verifier](params)) if verifier in CLAIMS else []


def all_params(criterion: Criterion) -> dict[str, Any]:
    """Its parameters as the verifier gets them, defaults too."""
    params = criterion.decided_by.check_parameters(dict(criterion.params))
    return {name: getattr(params, name) for name in type(params).model_fields}
