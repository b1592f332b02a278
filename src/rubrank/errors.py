"""Everything rubrank raises on purpose.

    RubrankError
    ├── InvalidInput      (ValueError)   a parameter, an array or a cell that cannot be used
    │   ├── UnknownName   (LookupError)  a name that no registry or table holds
    │   │   └── UnknownOption (TypeError)  a keyword or key that is not an option
    │   └── BadTable                     a file that cannot be read as a score table
    ├── SolverError       (ArithmeticError)  an optimum that could not be reached; never a silent guess
    ├── GradingFailed     (RuntimeError)     too many scores are missing to go on
    ├── JudgingFailed     (RuntimeError)     too many answers of judges are missing to go on
    └── JudgeOutage       (RuntimeError)     no endpoint of a judge answers any more

Every message answers five questions in one line: which parameter of what, what is allowed, what came, and what to do
about it. The answers are attributes too, and survive pickling, so that a worker's error reads the same in the parent.
Beside them there is JudgingInterrupted (KeyboardInterrupt), which says what of a run is kept.
"""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterable, Sequence
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from typing import Any, ParamSpec, Self, TypeVar

_MOST_NAMES = 40  # a longer list does not help
_MOST_OTHERS = 9


class RubrankError(Exception):
    """Any error that rubrank raises on purpose."""


class InvalidInput(RubrankError, ValueError):  # noqa: N818 - says what is wrong
    """A value that cannot be used.

    owner: the function, file or row that the value was given to. parameter: which value of it.
    allowed, got: what could have been given, and what was. remedy: what to do about it, "" if there is no advice.
    field: name of the option that the error is about, such as "prior" or "gate.floor". By default it is the parameter
        of a function; None if the error is about the content of a file. The command line shows it as its flag.

    Options within `allowed` and `remedy` stand in backquotes, as name or name=value. The command line shows them as
    flags, too.
    """

    def __init__(
        self, owner: str, parameter: str, allowed: str, got: str, remedy: str, *, field: str | None = None
    ) -> None:
        super().__init__(owner, parameter, allowed, got, remedy)
        self.owner = owner
        self.parameter = parameter
        self.allowed = allowed
        self.got = got
        self.remedy = remedy
        is_function = all(word.isidentifier() for word in owner.split(" "))
        is_option = all(word.isidentifier() for word in parameter.split("."))
        self.field = parameter if field is None and is_function and is_option else field

    def __str__(self) -> str:
        return f"{self.owner}: {self.parameter} must be {self.allowed}; got {self.got}. {self.remedy}".rstrip()

    def with_owner(self, owner: str) -> Self:
        """The same error about another owner."""
        return type(self)(owner, self.parameter, self.allowed, self.got, self.remedy, field=self.field)

    def together_with(self, others: Sequence[InvalidInput]) -> InvalidInput:
        """This error, with others that were found at the same time named after its remedy."""
        if not others:
            return self
        shown = "; ".join(str(other).rstrip(".") for other in others[:_MOST_OTHERS])
        more = f"; and {len(others) - _MOST_OTHERS} more" if len(others) > _MOST_OTHERS else ""
        remedy = f"{self.remedy} Also: {shown}{more}.".lstrip()
        return type(self)(self.owner, self.parameter, self.allowed, self.got, remedy)


class UnknownName(InvalidInput, LookupError):  # noqa: N818
    """An unknown name; the remedy has the nearest known ones."""

    @classmethod
    def of(cls, owner: str, parameter: str, name: object, known: Iterable[str], *, field: str | None = None) -> Self:
        """The error for `name`, with the nearest known names as the remedy."""
        names = sorted(known)
        near = get_close_matches(str(name), names, n=1)
        remedy = f"Did you mean {near[0]!r}?" if near else ""
        if len(names) > _MOST_NAMES:
            remedy = remedy if near else "See `rubrank criteria`, or the table at hand."
            return cls(owner, parameter, f"one of {len(names)} known names", repr(name), remedy, field=field)
        return cls(owner, parameter, f"one of {', '.join(map(repr, names))}", repr(name), remedy, field=field)


class UnknownOption(UnknownName, TypeError):  # noqa: N818
    """A keyword, or a key of a file, that is not an option; also a TypeError, as for any other function."""


def optional_package(name: str, owner: str, install: str = "") -> Any:
    """A package that only some need; one message, with what to install, where it is not there."""
    try:
        return import_module(name)
    except ImportError:
        remedy = f"Run `pip install {install or name}`."
        raise InvalidInput(owner, f"the package {name}", "installed", "no such package", remedy) from None


class BadTable(InvalidInput):
    """A file whose rows cannot be read as scores of rollouts."""


class SolverError(RubrankError, ArithmeticError):
    """An optimum that was not reached; the message says for which group and criterion."""


class GradingFailed(RubrankError, RuntimeError):  # noqa: N818
    """More scores are missing than `ceiling` allows, or all of them; `reasons` counts the most frequent ones."""

    def __init__(self, missing: int, asked: int, ceiling: float, reasons: tuple[tuple[str, int], ...]) -> None:
        super().__init__(missing, asked, ceiling, reasons)
        self.missing = missing
        self.asked = asked
        self.ceiling = ceiling
        self.reasons = reasons

    def __str__(self) -> str:
        why = ", ".join(f"{count:,} × {reason}" for reason, count in self.reasons)
        limit = "all of them" if self.missing == self.asked else f"`most_missing` allows {self.ceiling:.1%}"
        share = f"{self.missing / self.asked:.1%}"
        return f"grade: {self.missing:,} of {self.asked:,} scores are missing ({share}; {limit}); most often: {why}."


class JudgingFailed(RubrankError, RuntimeError):  # noqa: N818
    """More answers of judges are missing than `ceiling` allows; `reasons` counts the most frequent ones."""

    def __init__(
        self, missing: int, asked: int, ceiling: float, reasons: tuple[tuple[str, int], ...], spent: str, kept: str
    ) -> None:
        super().__init__(missing, asked, ceiling, reasons, spent, kept)
        self.missing = missing
        self.asked = asked
        self.ceiling = ceiling
        self.reasons = reasons
        self.spent = spent
        self.kept = kept

    def __str__(self) -> str:
        why = ", ".join(f"{count:,} × {reason}" for reason, count in self.reasons)
        limit = f"most_missing allows {self.ceiling:.1%}"
        if self.ceiling >= 1.0:
            limit = "without any there is no judgment, whatever most_missing allows"
        return (
            f"judges: {self.missing:,} of {self.asked:,} answers are missing ({self.missing / self.asked:.1%}), and"
            f" {limit}; most often: {why}. Spent: {self.spent}. {self.kept}"
        )


class JudgeOutage(RubrankError, RuntimeError):  # noqa: N818
    """No endpoint of a judge has answered for `seconds`; `on_outage` says not to go on without it."""

    def __init__(self, judge: str, where: str, failure: str, seconds: float) -> None:
        super().__init__(judge, where, failure, seconds)
        self.judge, self.where, self.failure, self.seconds = judge, where, failure, seconds

    def __str__(self) -> str:
        return (
            f"judge {self.judge!r}: {self.where} has not answered for {self.seconds:.0f} s ({self.failure}). Replies so"
            " far are kept where there is a cache: start the server and run again, or say on_outage: continue."
        )


class BatchesPending(RubrankError, RuntimeError):  # noqa: N818
    """Judges were asked in batches that are not over; the same command or call goes on from there."""

    def __init__(self, requests: int, batches: int) -> None:
        super().__init__(requests, batches)
        self.requests, self.batches = requests, batches

    def __str__(self) -> str:
        noun = "batch" if self.batches == 1 else "batches"
        return f"{self.requests:,} requests are in {self.batches:,} {noun}; run the same again to take in what is done"


class JudgingInterrupted(KeyboardInterrupt):
    """Ctrl-C while judges were asked; says what is kept."""

    def __init__(self, done: int, total: int, cache: str | None) -> None:
        super().__init__(done, total, cache)
        self.done, self.total, self.cache = done, total, cache

    def __str__(self) -> str:
        kept = f"are kept in {self.cache}; run again to continue" if self.cache else "are lost: there is no cache"
        return f"{self.done:,} of {self.total:,} replies {kept}"


# ------------------------------------------------------------------------------------------------ hostile arguments

_P = ParamSpec("_P")
_R = TypeVar("_R")
_OURS = os.path.dirname(__file__)  # pathlib would bring URLs and addresses into every import
_STANDARD = os.path.dirname(os.__file__)


def only_our_errors(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """A public function that answers arguments of the wrong kind with `InvalidInput`, whatever they broke inside.

    What a caller's own code raises (a progress function, a verifier) comes through as it is, and so do errors of the
    system: a full disk is no wrong argument.
    """

    @wraps(function)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except (RubrankError, OSError, ImportError, MemoryError, RecursionError, AssertionError, NotImplementedError):
            raise
        except Exception as error:
            if not _breaks_inside(error):
                raise
            kinds = ", ".join(type(value).__name__ for value in (*args, *kwargs.values()))
            got = f"{kinds} ({type(error).__name__}: {str(error)[:120]})"
            name = function.__name__
            raise InvalidInput(name, "the arguments", "of the kinds that help() names", got, "") from error

    return guarded


_C = TypeVar("_C", bound=type)


def refuses_wrong_kinds(cls: _C) -> _C:
    """The same for a class: values of the wrong kind that its checks stumble over are `InvalidInput`."""
    made = only_our_errors(cls.__init__)  # type: ignore[misc]

    names = [name for name in inspect.signature(made).parameters if name != "self"]
    takes_any = any(p.kind is p.VAR_KEYWORD for p in inspect.signature(made).parameters.values())

    @wraps(made)
    def init(self: object, *args: object, **kwargs: object) -> None:
        for name in kwargs:
            if name not in names and not takes_any:
                raise UnknownOption.of(cls.__name__, "keyword", name, names)
        try:
            made(self, *args, **kwargs)
        except InvalidInput as error:
            if error.owner != "__init__":
                raise
            got = error.got.partition(", ")[2] or error.got
            raise InvalidInput(cls.__name__, error.parameter, error.allowed, got, "") from error.__cause__

    cls.__init__ = init  # type: ignore[misc]
    return cls


def _breaks_inside(error: BaseException) -> bool:
    """Did a call that rubrank made fail, in rubrank or in a library that it uses?"""
    trace = error.__traceback__
    frames = []
    while trace is not None:
        frames.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    inside = frames[1:]  # without the guard itself
    if not inside:  # Python refused the call: a wrong number of arguments
        return False
    return all(is_library_file(name) for name in inside)


def is_library_file(name: str) -> bool:
    """Is code of this file rubrank's, Python's or an installed package's?"""
    compiled = not os.path.isabs(name)  # such as numpy's random numbers
    return compiled or name.startswith((_OURS, _STANDARD)) or "site-packages" in name


def counted(number: int, noun: str) -> str:
    """1 group, 1,024 groups, 2 criteria."""
    several = "criteria" if noun == "criterion" else f"{noun}s"
    return f"{number:,} {noun if number == 1 else several}"
