"""Everything rubrank raises on purpose.

    RubrankError
    ├── InvalidInput      (ValueError)   a parameter, an array or a cell that cannot be used
    │   ├── UnknownName   (LookupError)  a name that no registry or table holds
    │   │   └── UnknownOption (TypeError)  a keyword or key that is not an option
    │   └── BadTable                     a file that cannot be read as a score table
    ├── SolverError       (ArithmeticError)  a fit that did not converge; it is never replaced by a guess
    ├── GradingFailed     (RuntimeError)     too many scores are missing to go on
    ├── JudgingFailed     (RuntimeError)     too many answers of judges are missing to go on
    ├── JudgeOutage       (RuntimeError)     no endpoint of a judge answers any more
    └── BatchesPending    (RuntimeError)     batches of judge requests are not finished yet

The message of an InvalidInput is one line with five parts: owner, parameter, allowed, got, remedy. The parts are also
attributes, and they survive pickling, so that a worker's error reads the same in the parent process.

JudgingInterrupted is not in the tree: it is a KeyboardInterrupt that says which replies were saved.
"""

from __future__ import annotations

import errno
import inspect
import numbers
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from functools import wraps
from importlib import import_module
from typing import Any, ParamSpec, Self, TypeVar, get_args, get_type_hints

_MOST_NAMES = 40  # nobody reads a longer list of allowed names
_MOST_OTHERS = 9  # further errors that are quoted in full after the first one
# os.path, because importing pathlib here would make every import of rubrank slower.
_RUBRANK_FOLDER = os.path.dirname(__file__)
_STANDARD_LIBRARY = os.path.dirname(os.__file__)
# File names that Python and IPython give to code that somebody types: "<stdin>", "<ipython-input-3-…>".
_TYPED_CODE = ("<stdin>", "<console>", "<ipython-input-", "<python-input-", "<doctest ")

_P = ParamSpec("_P")
_R = TypeVar("_R")
_ClassT = TypeVar("_ClassT", bound=type)


class RubrankError(Exception):
    """Any error that rubrank raises on purpose."""


class _FieldsAsArguments:
    """For errors that are dataclasses: their fields are the arguments of the exception, which pickling keeps."""

    args: tuple[Any, ...]

    def __post_init__(self) -> None:
        self.args = tuple(vars(self).values())


class InvalidInput(RubrankError, ValueError):  # noqa: N818 - the name says what is wrong; "Error" adds nothing
    """A value that cannot be used.

    owner: the function, file or row that received the value. parameter: which of its values is wrong.
    allowed, got: what would have been accepted, and what was received. remedy: what to do; "" if there is no advice.
    field: name of the option that the error is about, such as "prior" or "gate.floor". The command line shows its flag.
        Default: `parameter` if `owner` is a function, and None if it is a file.

    In `allowed` and `remedy`, option names are in backquotes, as name or name=value. The command line shows them as
    flags, too.
    """

    def __init__(
        self,
        owner: str,
        parameter: str,
        allowed: str,
        got: str,
        remedy: str = "",
        *,
        field: str | None = None,
    ) -> None:
        super().__init__(owner, parameter, allowed, got, remedy)
        self.owner = owner
        self.parameter = parameter
        self.allowed = allowed
        self.got = got
        self.remedy = remedy
        self.field = field
        if field is None:
            # A file or a row has dots, slashes or numbers in its name; a function or a verb ("judge audit") has not.
            is_function = all(word.isidentifier() for word in owner.split(" "))
            is_option = all(word.isidentifier() for word in parameter.split("."))
            if is_function and is_option:
                self.field = parameter

    def __str__(self) -> str:
        return f"{self.owner}: {self.parameter} must be {self.allowed}; got {self.got}. {self.remedy}".rstrip()

    def change(self, **parts: str | None) -> Self:
        """Return a copy of this error with other parts, such as `owner`."""
        names = ("owner", "parameter", "allowed", "got", "remedy", "field")
        return type(self)(**{name: getattr(self, name) for name in names} | parts)

    def together_with(self, others: Sequence[InvalidInput]) -> InvalidInput:
        """Return a copy of this error whose remedy also lists `others`, which were found at the same time."""
        if not others:
            return self
        messages = "; ".join(str(error).rstrip(".") for error in others[:_MOST_OTHERS])
        more = f"; and {len(others) - _MOST_OTHERS} more" if len(others) > _MOST_OTHERS else ""
        return self.change(remedy=f"{self.remedy} Also: {messages}{more}.".lstrip())


class UnknownName(InvalidInput, LookupError):  # noqa: N818
    """An unknown name; the remedy suggests the nearest known name."""

    @classmethod
    def of(
        cls,
        owner: str,
        parameter: str,
        name: object,
        known: Iterable[str],
        *,
        field: str | None = None,
    ) -> Self:
        """Return the error for `name`. known: all names that are accepted; the remedy suggests the nearest."""
        names = sorted(known)
        similar = get_close_matches(str(name), names, n=1)
        remedy = f"Did you mean {similar[0]!r}?" if similar else ""
        allowed = f"one of {', '.join(map(repr, names))}"
        if len(names) > _MOST_NAMES:
            allowed = f"one of {len(names)} known names"
            remedy = remedy or "See `rubrank criteria`, or the columns of the table."
        return cls(owner, parameter, allowed, repr(name), remedy, field=field)


class UnknownOption(UnknownName, TypeError):  # noqa: N818
    """A keyword, or a key of a file, that is not an option. Also a TypeError, which Python raises for such keywords."""


class BadTable(InvalidInput):
    """A file whose rows cannot be read as scores of rollouts."""


class SolverError(RubrankError, ArithmeticError):
    """A fit that did not converge; the message says for which group and criterion."""


@dataclass(eq=False)
class GradingFailed(_FieldsAsArguments, RubrankError, RuntimeError):  # noqa: N818
    """Too many scores are missing: more than `ceiling` allows, or all of them."""

    missing: int
    asked: int
    ceiling: float
    """The share that may be missing: `most_missing` of the function or the verb."""
    reasons: tuple[tuple[str, int], ...]
    """The most frequent reasons, and how often each occurs."""

    def __str__(self) -> str:
        why = ", ".join(f"{count:,} × {reason}" for reason, count in self.reasons)
        # In backquotes, because the command line shows it as a flag. That of judges is a key of their file.
        limit = f"`most_missing` allows {self.ceiling:.1%}"
        if self.missing == self.asked:
            limit = "all of them"
        share = f"{self.missing / self.asked:.1%}"
        return f"grade: {self.missing:,} of {self.asked:,} scores are missing ({share}; {limit}); most often: {why}."


@dataclass(eq=False)
class JudgingFailed(_FieldsAsArguments, RubrankError, RuntimeError):  # noqa: N818
    """Too many answers of judges are missing: more than `ceiling` allows, or all of them."""

    missing: int
    asked: int
    ceiling: float
    """The share that may be missing: `most_missing` in the file of judges."""
    reasons: tuple[tuple[str, int], ...]
    """The most frequent reasons, and how often each occurs."""
    spent: str
    """What the calls so far have cost."""
    remedy: str
    """Where the replies so far were saved, and what to do."""

    def __str__(self) -> str:
        why = ", ".join(f"{count:,} × {reason}" for reason, count in self.reasons)
        limit = f"most_missing allows {self.ceiling:.1%}"
        if self.ceiling >= 1.0:
            # Any share is allowed, so all answers are missing.
            limit = "a run without any answer fails, whatever most_missing allows"
        return (
            f"judges: {self.missing:,} of {self.asked:,} answers are missing ({self.missing / self.asked:.1%}), and"
            f" {limit}; most often: {why}. Spent: {self.spent}. {self.remedy}"
        )


@dataclass(eq=False)
class JudgeOutage(_FieldsAsArguments, RubrankError, RuntimeError):  # noqa: N818
    """No endpoint of a judge has answered for `seconds`, and `on_outage` says to stop then."""

    judge: str
    where: str
    failure: str
    seconds: float

    def __str__(self) -> str:
        return (
            f"judge {self.judge!r}: {self.where} has not answered for {self.seconds:.0f} s ({self.failure}). The cache,"
            " if there is one, holds all replies so far. Start the server and run again, or set on_outage: continue."
        )


@dataclass(eq=False)
class BatchesPending(_FieldsAsArguments, RubrankError, RuntimeError):  # noqa: N818
    """Batches of judge requests are not finished yet; the same command or call continues from there."""

    requests: int
    batches: int

    def __str__(self) -> str:
        noun = "batch" if self.batches == 1 else "batches"
        size = f"{self.requests:,} requests are in {self.batches:,} {noun}"
        return f"{size}; run the same command again to collect the results"


@dataclass(eq=False)
class JudgingInterrupted(_FieldsAsArguments, KeyboardInterrupt):
    """Ctrl-C while judges were answering; says which replies were saved."""

    done: int
    total: int
    cache: str | None

    def __str__(self) -> str:
        replies = f"{self.done:,} of {self.total:,} replies"
        if self.cache:
            return f"{replies} are kept in {self.cache}; run again to continue"
        return f"{replies} are lost: there is no cache"


# ------------------------------------------------------------------------------------------- helpers for messages


def counted(number: int, noun: str) -> str:
    """Format a number with its noun: 1 group, 1,024 groups, 2 criteria."""
    plural = "criteria" if noun == "criterion" else f"{noun}s"
    return f"{number:,} {noun if number == 1 else plural}"


def import_optional(name: str, owner: str, install: str = "") -> Any:
    """Import and return an optional dependency. Raises InvalidInput, with what to install, if it is missing."""
    try:
        return import_module(name)
    except ImportError:
        raise InvalidInput(
            owner,
            f"the package {name}",
            allowed="installed",
            got="no such package",
            remedy=f"Run `pip install {install or name}`.",
        ) from None


# ------------------------------------------------------------------------------------------------ wrong arguments


def only_our_errors(function: Callable[_P, _R]) -> Callable[_P, _R]:
    """Decorate a public function: an argument of the wrong type raises `InvalidInput`, wherever inside it fails.

    A file name that is too long for the system raises `InvalidInput`, too.

    The arguments are compared with the annotations only after something was raised. If they fit, the error is a bug,
    or it comes from the system or from the caller's own code (a progress function, a verifier), and passes unchanged.
    """

    @wraps(function)
    def guarded(*args: _P.args, **kwargs: _P.kwargs) -> _R:
        try:
            return function(*args, **kwargs)
        except (TypeError, ValueError, AttributeError, LookupError, ArithmeticError) as error:
            if isinstance(error, RubrankError) or not _was_raised_inside(error):
                raise
            wrong = _find_wrong_argument(function, args, kwargs)
            if wrong is None:
                raise
            name, hint, value = wrong
            raise InvalidInput(
                function.__name__,
                name,
                allowed=f"of type {_describe_type(hint)}",
                got=f"{type(value).__name__} ({type(error).__name__}: {str(error)[:120]})",
            ) from error
        except OSError as error:
            if error.errno != errno.ENAMETOOLONG:
                raise
            raise InvalidInput(
                function.__name__,
                "the file",
                allowed="a name that the system accepts",
                got=f"a name of {len(str(error.filename)):,} characters",
            ) from None

    return guarded


def _was_raised_inside(error: BaseException) -> bool:
    """Return whether it was raised by rubrank or a library that it uses, and not by code of the caller."""
    trace = error.__traceback__
    files = []
    while trace is not None:
        files.append(trace.tb_frame.f_code.co_filename)
        trace = trace.tb_next
    files_inside = files[1:]  # the first frame is the decorator's wrapper
    if not files_inside:
        return False  # Python itself refused the call: a missing or an unknown argument
    return all(is_library_file(file) for file in files_inside)


def is_library_file(name: str) -> bool:
    """Return whether this file belongs to rubrank, Python or an installed package."""
    if name.startswith(_TYPED_CODE):
        return False
    # Extension modules, such as numpy.random, have relative names, and generated code has names in angle brackets.
    is_compiled = not os.path.isabs(name)
    folders = (_RUBRANK_FOLDER + os.sep, _STANDARD_LIBRARY + os.sep)
    return is_compiled or name.startswith(folders) or "site-packages" in name


def _find_wrong_argument(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> tuple[str, Any, Any] | None:
    """Find the first argument that is not of its declared type: its name, annotation and value. None if all fit."""
    try:
        hints = get_type_hints(function)
        signature = inspect.signature(function)
        arguments = signature.bind(*args, **kwargs).arguments
    except (NameError, TypeError):  # a type that is imported for type checkers only
        return None
    for name, value in arguments.items():
        kind = signature.parameters[name].kind
        values = [value]
        if kind is inspect.Parameter.VAR_POSITIONAL:
            values = list(value)
        elif kind is inspect.Parameter.VAR_KEYWORD:
            values = list(value.values())
        for single_value in values:
            if name in hints and not _is_of_type(single_value, hints[name]):
                return name, hints[name], single_value
    return None


def _is_of_type(value: Any, hint: Any) -> bool:
    """Return whether a value is of the type of an annotation; True if that cannot be told."""
    from pydantic import ConfigDict, TypeAdapter, ValidationError  # slow to import

    if isinstance(value, numbers.Real) and type(value).__module__ == "numpy":
        value = value.item()  # type: ignore[attr-defined]
    try:
        config = ConfigDict(arbitrary_types_allowed=True)
        # A list, because pydantic takes no configuration for a class that has its own.
        adapter = TypeAdapter(list[hint], config=config)
        (checked,) = adapter.validate_python([value], strict=True)
        if isinstance(checked, Iterator) and isinstance(value, Collection):
            list(checked)  # the items of an Iterable are checked when they are read
    except ValidationError:
        return False
    except Exception:  # a class or a protocol that pydantic cannot check
        return not isinstance(hint, type) or isinstance(value, hint)
    return True


def _describe_type(hint: Any) -> str:
    """Format an annotation as it is written in the code, without the names of modules."""
    text = str(hint)
    if isinstance(hint, type) and not get_args(hint):
        text = hint.__name__
    # "collections.abc.Sequence[pathlib.Path]" → "Sequence[Path]"
    return re.sub(r"\b(?:[a-z_0-9]+\.)+(?=[A-Za-z])", "", text)


def refuses_wrong_kinds(cls: _ClassT) -> _ClassT:
    """Decorate a class: its constructor raises `InvalidInput` for arguments of a wrong type, as `only_our_errors` does.

    Unknown keywords raise `UnknownOption`.
    """
    guarded_init = only_our_errors(cls.__init__)  # type: ignore[misc]
    parameters = inspect.signature(guarded_init).parameters
    names = [name for name in parameters if name != "self"]
    takes_any = any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters.values())

    @wraps(guarded_init)
    def init(self: object, *args: object, **kwargs: object) -> None:
        for name in kwargs:
            if name not in names and not takes_any:
                raise UnknownOption.of(cls.__name__, "keyword", name, names)
        try:
            guarded_init(self, *args, **kwargs)
        except InvalidInput as error:
            if error.owner != "__init__":
                raise
            # The message names the class instead.
            raise error.change(owner=cls.__name__) from error.__cause__

    cls.__init__ = init  # type: ignore[misc]
    return cls
