"""From outcomes of comparisons to utilities: the contract, and the registry of models.

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

Then `fuse(scores, model="copeland")` works everywhere; each shape of ordering is fitted once and remembered. A model
that also has a `link` (see `LinkModel`) can adjust for attributes. One that sets `weighted = True` may be given a row
that stands for several rollouts that cannot be told apart, with wins and ridge multiplied by their number: much smaller
problems where many tie. Groups have at most 4,096 rollouts.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar, overload, runtime_checkable

import numpy as np

from rubrank._plugins import check_call, check_free, decorated, importable_home, load_plugins, shown
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
_LIBRARY = frozenset({"bradley-terry", "thurstone", "borda"})  # known before models/ is imported, which takes numba
_M = TypeVar("_M")


@overload
def utility_model(name: str | None = None) -> Callable[[_M], _M]: ...


@overload
def utility_model(name: _M, /) -> _M: ...


def utility_model(name: Any = None) -> Any:
    """Register a utility model under `name`, or under the `name` that it has.

    A class without arguments, an instance, or a function `fit(wins, ridge)`: `@utility_model("copeland")`.
    """

    def register(chosen: str | None, made: Any) -> Any:
        instance = _instance(chosen, made)
        check_call("utility_model", instance.fit, "wins", "ridge")
        check_free("utility_model", instance.name, made, _made.get, instance.name in _LIBRARY)
        _MODELS[instance.name], _made[instance.name] = instance, made
        _homes[instance.name] = importable_home()
        return made

    return decorated(register, name)


def _instance(chosen: str | None, made: Any) -> Any:
    """The model itself, of a class, an object or a function."""
    if not isinstance(made, type) and callable(made) and not hasattr(made, "fit"):
        return _Fitted(getattr(made, "__name__", "") if chosen is None else chosen, made)
    try:
        instance = made() if isinstance(made, type) else made
        if chosen is not None:
            instance.name = chosen
    except (TypeError, AttributeError):  # it wants arguments, or takes no name
        instance = None
    if not isinstance(instance, UtilityModel) or not isinstance(instance.name, str):
        allowed = "a function `fit(wins, ridge)`, or a class without arguments that has `name` and such a `fit`"
        raise InvalidInput("utility_model", "model", allowed, shown(made), "See docs/extending.md.")
    return instance


_made: dict[str, Any] = {}
"""What each model was made from: the same class or function again replaces it."""
_homes: dict[str, str] = {}
"""Which module registers it when it is imported; "": none does."""


@dataclass(frozen=True)
class _Fitted:
    """A function as a model."""

    name: str
    fit: Callable[[np.ndarray, np.ndarray], np.ndarray]


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
            load_plugins()
        if name not in _MODELS:
            raise UnknownName.of("find_model", "model", name, _MODELS)
    return _MODELS[name]


def model_home(name: str | UtilityModel) -> str | None:
    """The module that registers a model of one's own, "" if none does; None: the library's, or a model itself."""
    if not isinstance(name, str) or name in _LIBRARY:
        return None
    return _homes[find_model(name).name]


@only_our_errors
def model_names() -> tuple[str, ...]:
    """All registered models."""
    find_model("bradley-terry")
    load_plugins()
    return tuple(sorted(_MODELS))
