"""Utility models turn outcomes of comparisons into utilities: their contract, their registry, and the built-in ones.

Three rollouts; the first beat both others, who tied:

    wins[i, j] = how often i beat j        [[0, 1,   1  ],
    (a tie is half a win for both)          [0, 0,   0.5],
                                            [0, 0.5, 0  ]]

A utility model turns that into one number for each rollout, larger for better, 0 for the average:

    fit(wins, ridge) -> utilities         wins (..., n, n), ridge (..., n)  ->  (..., n)

`ridge` is the precision of the normal prior on each utility (α in docs/method.md).

How to add a model: write a class with `name` and `fit` and register it.

    @rubrank.utility_model
    class Copeland:
        name = "copeland"
        def fit(self, wins, ridge):
            return np.sign(wins - wins.swapaxes(-1, -2)).sum(-1) / ridge

Then `fuse(scores, model="copeland")` works everywhere. The fit of an ordering is cached, so `fit` must depend on its
arguments alone. A model may have two more abilities:

    link                see `LinkModel`: the model can adjust for attributes
    weighted = True     `fit` accepts rows that stand for several tied rollouts, with wins and ridge multiplied by their
                        number; the problems are then much smaller if many rollouts tie

Groups have at most 4,096 rollouts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, overload, runtime_checkable

import numpy as np

from rubrank._plugins import (
    check_call,
    check_free,
    describe_object,
    find_importing_module,
    load_plugins,
    make_decorator,
)
from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.fusion.models.newton import maximise


@runtime_checkable
class UtilityModel(Protocol):
    """The contract of a utility model."""

    name: str

    def fit(self, wins: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        """Return utilities (..., n) from wins (..., n, n) and the prior's precisions (..., n)."""
        ...


@runtime_checkable
class LinkModel(UtilityModel, Protocol):
    """A model in which i beats j with probability F(u_i − u_j): attributes enter the argument of F."""

    def link(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return log F, and its first and second derivative, at x."""
        ...


_BUILT_IN_NAMES = frozenset({"bradley-terry", "thurstone", "borda"})
_M = TypeVar("_M")

# The registry: what is known about each registered model, by its name.
_models: dict[str, UtilityModel] = {}
_sources: dict[str, Any] = {}
"""The class, instance or function that each model was registered from; registering it again replaces the model."""
_modules: dict[str, str] = {}
"""The module that registers each model when it is imported, so that worker processes can import it as well; "" if a
script or a function registered it."""


@overload
def utility_model(name: str | None = None) -> Callable[[_M], _M]: ...


@overload
def utility_model(name: _M, /) -> _M: ...


def utility_model(name: Any = None) -> Any:
    """Register a utility model under `name`, or under the `name` that it has.

    It can be a class without arguments, an instance, or a function `fit(wins, ridge)`: `@utility_model("copeland")`.
    """

    def register(chosen_name: str | None, source: Any) -> Any:
        model = _make_model(chosen_name, source)
        check_call("utility_model", model.fit, "wins", "ridge")
        is_built_in = model.name in _BUILT_IN_NAMES
        check_free("utility_model", model.name, source, find=_sources.get, reserved=is_built_in)
        _models[model.name] = model
        _sources[model.name] = source
        _modules[model.name] = find_importing_module()
        return source

    return make_decorator(register, name)


@dataclass(frozen=True)
class _FunctionModel:
    """Makes a model of a function `fit(wins, ridge)`."""

    name: str
    fit: Callable[[np.ndarray, np.ndarray], np.ndarray]


def _make_model(chosen_name: str | None, source: Any) -> Any:
    """Return the model that a class, an instance or a function stands for; raises InvalidInput for anything else."""
    is_class = isinstance(source, type)
    if not is_class and callable(source) and not hasattr(source, "fit"):
        name = getattr(source, "__name__", "") if chosen_name is None else chosen_name
        return _FunctionModel(name, source)
    try:
        model = source() if is_class else source
        if chosen_name is not None:
            model.name = chosen_name
    except (TypeError, AttributeError):  # the class needs arguments, or the name cannot be set
        model = None
    if not isinstance(model, UtilityModel) or not isinstance(model.name, str):
        allowed = "a function `fit(wins, ridge)`, or a class without arguments that has `name` and such a `fit`"
        raise InvalidInput(
            "utility_model",
            "model",
            allowed=allowed,
            got=describe_object(source),
            remedy="See `rubrank help extending`.",
        )
    return model


def find_model(name: str | UtilityModel) -> UtilityModel:
    """Return the model of that name; a model object is returned unchanged. Raises UnknownName for an unknown name."""
    if not isinstance(name, str):
        if isinstance(name, UtilityModel) and not isinstance(name, type):
            return name
        raise InvalidInput(
            "find_model",
            "model",
            allowed="a name or a utility model",
            got=repr(name),
            remedy="Pass model='bradley-terry'.",
        )
    if name not in _models:
        load_plugins()  # an installed package may register it
    if name not in _models:
        raise UnknownName.of("find_model", "model", name, _models)
    return _models[name]


def find_model_home(name: str | UtilityModel) -> str | None:
    """Return the module that registers a user's model; "" if no module does.

    None for a built-in model and for a model object: other processes need no import to have these.
    """
    if not isinstance(name, str) or name in _BUILT_IN_NAMES:
        return None
    return _modules[find_model(name).name]


@only_our_errors
def model_names() -> tuple[str, ...]:
    """Return the names of all registered models."""
    load_plugins()
    return tuple(sorted(_models))


# ------------------------------------------------------------------------------------------- the models of the library

# Bradley–Terry and Thurstone say with which probability i beats j, and maximise
#
#     Σ_ij wins_ij · log F(u_i − u_j)  −  ½ Σ_i ridge_i · u_i²
#
# The prior is part of the model: without it, a rollout that wins all comparisons would have an infinite utility. The
# objective is strictly concave, so there is exactly one maximum.


@utility_model
class BradleyTerry:
    """i beats j with probability σ(u_i − u_j), the logistic function."""

    name = "bradley-terry"
    weighted = True

    def link(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return log σ(x), and its first and second derivative."""
        small = np.exp(-np.abs(x))  # in (0, 1]: nothing here can overflow
        value = np.minimum(x, 0.0) - np.log1p(small)
        slope = np.where(x > 0.0, small, 1.0) / (1.0 + small)
        return value, slope, -slope * (1.0 - slope)

    def fit(self, wins: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        """Return the utilities that maximise the objective, by Newton's method."""
        return maximise(wins, ridge, self.link)


@utility_model
class Thurstone:
    """i beats j with probability Φ(u_i − u_j), the normal distribution function (Thurstone's case V).

    The tails of the normal are thinner than those of the logistic, so a surprising result moves utilities further.
    """

    name = "thurstone"
    weighted = True

    def link(self, x: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Return log Φ(x), and its first and second derivative."""
        # Imported here, because it loads numba, which takes half a second.
        from rubrank.fusion.models.likelihood import probit

        flat = np.ascontiguousarray(x, dtype=float).ravel()
        value = np.empty_like(flat)
        slope = np.empty_like(flat)
        curvature = np.empty_like(flat)
        probit(flat, value, slope, curvature)
        return value.reshape(x.shape), slope.reshape(x.shape), curvature.reshape(x.shape)

    def fit(self, wins: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        """Return the utilities that maximise the objective, by Newton's method."""
        return maximise(wins, ridge, self.link)


@utility_model
class BordaCount:
    """Half of wins minus losses, divided by the prior's precision; no probability model.

    Bradley–Terry becomes this as its prior grows strong.
    """

    name = "borda"
    weighted = True

    def fit(self, wins: np.ndarray, ridge: np.ndarray) -> np.ndarray:
        """Return u_i = (wins_i − losses_i) / (2 · ridge_i)."""
        return (wins.sum(-1) - wins.sum(-2)) / (2.0 * ridge)
