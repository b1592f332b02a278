"""A property that is worked out when first asked for, and kept.

    class Circle:
        @kept
        def area(self) -> float: ...

`functools.cached_property` does the same, but before Python 3.12 it takes a lock each time that it works something out,
which costs more than many of the units of a text.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, Self, TypeVar, overload

_V = TypeVar("_V")


class kept(Generic[_V]):  # noqa: N801 - reads as a decorator
    """Keeps what `function` gives in the object's `__dict__`, under the function's own name."""

    def __init__(self, function: Callable[[Any], _V]) -> None:
        self.function, self.name, self.__doc__ = function, function.__name__, function.__doc__

    @overload
    def __get__(self, holder: None, owner: type) -> Self: ...
    @overload
    def __get__(self, holder: object, owner: type) -> _V: ...
    def __get__(self, holder: object | None, owner: type) -> Self | _V:
        if holder is None:
            return self
        value = holder.__dict__[self.name] = self.function(holder)
        return value
