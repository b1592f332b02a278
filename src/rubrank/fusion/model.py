"""From outcomes of comparisons to utilities: the contract, and the registry of models.

Three rollouts; the first beat both others, who tied:

    wins[i, j] = how often i beat j        [[0, 1,   1  ],
    (a tie is half a win for both)          [0, 0,   0.5],
                                            [0, 0.5, 0  ]]

A utility model turns that into one number for each rollout, larger for better, 0 for the average:

    fit(wins, ridge) -> utilities         wins (..., n, n), ridge (..., n)  ->  (..., n)

`ridge` is the precision of the normal prior on each utility (α in docs/method.md).

How to add a model: write a class with `name` and `fit` and register it.

    @register_model
    class Copeland:
        name = "copeland"
        def fit(self, wins, ridge):
            return np.sign(wins - wins.swapaxes(-1, -2)).sum(-1) / ridge

Then `fuse(scores, model="copeland")` works everywhere; each shape of ordering is fitted once and remembered. A model
that also has a `link` (see `LinkModel`) can adjust for attributes. One that sets `weighted = True` may be given a row
that stands for several rollouts nobody can tell apart, with wins and ridge multiplied by their number: much smaller
problems where many tie. `fit_ordering(start, beaten, n, prior)`, if it has one, is asked for orderings of more than 512
classes, for which a table of all pairs would be large: see `models/large.py`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol, TypeVar, runtime_checkable

import numpy as np

from rubrank.errors import InvalidInput, UnknownName

Link = Callable[[np.ndarray], tuple[np.ndarray, np.ndarray, np.ndarray]]


@runtime_checkable
class UtilityModel(Protocol):
    """What every utility model can do."""

    name: str

    def fit(self, wins: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        """Utilities (..., n) from wins (..., n, n) and the prior's precisions (..., n)."""
        ...


@runtime_checkable
class LinkModel(UtilityModel, Protocol):
    """A model in which i beats j with probability F(u_i − u_j): attributes enter the argument of F."""

    def link(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """log F, and its first and second derivative, at x."""
        ...


_MODELS: dict[str, UtilityModel] = {}
_M = TypeVar("_M")


def register_model(model: _M) -> _M:
    """Register a utility model (an instance, or a class without arguments) under its `name`; usable as a decorator."""
    instance = model() if isinstance(model, type) else model
    if not isinstance(instance, UtilityModel) or not isinstance(instance.name, str):
        raise InvalidInput(
            "register_model",
            "model",
            "an object with `name` and `fit(wins, ridge)`",
            repr(model),
            "See the top of rubrank/utility.py for an example.",
        )
    _MODELS[instance.name] = instance
    return model


def find_model(name: str | UtilityModel) -> UtilityModel:
    """The model of that name (or the model itself)."""
    if not isinstance(name, str):
        if isinstance(name, UtilityModel) and not isinstance(name, type):
            return name
        raise InvalidInput(
            "find_model", "model", "a name or a utility model", repr(name), "Pass model='bradley-terry'."
        )
    if name not in _MODELS:
        import rubrank.fusion.models  # noqa: F401 - registers the built-in models, only when a fit needs them

        if name not in _MODELS:
            raise UnknownName.of("find_model", "model", name, _MODELS)
    return _MODELS[name]


def model_names() -> tuple[str, ...]:
    """All registered models."""
    find_model("bradley-terry")
    return tuple(sorted(_MODELS))
