"""The contract of a utility model (outcomes of comparisons → utilities), and the registry of models.

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

Then `fuse(scores, model="copeland")` works everywhere. Each ordering is fitted once and remembered. A model that also
has a `link` (see `LinkModel`) can adjust for attributes. A model that sets `weighted = True` accepts rows that stand
for several tied rollouts, with wins and ridge multiplied by their number. The problems are then much smaller if many
rollouts tie. Groups have at most 4,096 rollouts.
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
    importable_home,
    load_plugins,
    make_decorator,
)
from rubrank.errors import InvalidInput, UnknownName, only_our_errors

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
_sources: dict[str, Any] = {}
"""The class, instance or function that each model was registered from; registering it again replaces the model."""
_homes: dict[str, str] = {}
"""The module that registers each model when it is imported; "" if it was registered by a script or a function."""
_LIBRARY = frozenset({"bradley-terry", "thurstone", "borda"})
_M = TypeVar("_M")


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
        check_free("utility_model", model.name, source, _sources.get, model.name in _LIBRARY)
        _MODELS[model.name] = model
        _sources[model.name] = source
        _homes[model.name] = importable_home()
        return source

    return make_decorator(register, name)


@dataclass(frozen=True)
class _FunctionModel:
    """A function `fit(wins, ridge)` as a model."""

    name: str
    fit: Callable[[np.ndarray, np.ndarray], np.ndarray]


def _make_model(chosen_name: str | None, source: Any) -> Any:
    """The model that a class, an instance or a function stands for; raises for anything else."""
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
    """The model of that name; a model is returned as it is."""
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
    if name not in _MODELS:
        load_plugins()
    if name not in _MODELS:
        raise UnknownName.of("find_model", "model", name, _MODELS)
    return _MODELS[name]


def model_home(name: str | UtilityModel) -> str | None:
    """The module that registers a user's model, "" if no module does; None for models of the library and instances."""
    if not isinstance(name, str) or name in _LIBRARY:
        return None
    return _homes[find_model(name).name]


@only_our_errors
def model_names() -> tuple[str, ...]:
    """The names of all registered models."""
    load_plugins()
    return tuple(sorted(_MODELS))
