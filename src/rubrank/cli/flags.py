"""Errors of the library in the words of the command line: what was typed behind a flag is named by the flag.

    InvalidInput("RLVR2", "prior", "> 0", "-1.0", "")        →   fuse: --prior must be > 0; got -1.0.
    InvalidInput("Gate", "floor", …)                          →   fuse: --gate-floor must be …
    InvalidInput("a.yaml", "the file", …, "no such file")     →   grade: --rubric a.yaml must be …; got no such file.

Errors about something inside a file, a criterion or a judge speak of these, and stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from rubrank.errors import InvalidInput

FLAGS = "rubrank.flags"
"""Where a command keeps its flags beyond typer's own, in the context's `meta`: flag → what was given, None if not."""
_running: ContextVar[Any] = ContextVar("_running", default=None)
_KEYWORD = re.compile(r" \(\w+=(?:[^()]|\([^()]*\))*\)")
_FUNCTION = re.compile(r"[A-Za-z_][\w.]*(?: [a-z]+| on Ray)?")
_INTERNAL = re.compile(r"[a-z]+(?:_[a-z]+)+|(?:[A-Z][a-z]+){2,}|filters")  # functions and classes, not rules or files


def remember(command: Any) -> None:
    """Have a command say that it runs, for `in_flags`."""
    invoke = command.invoke

    def remembered(context: Any) -> Any:
        token = _running.set(context)
        try:
            return invoke(context)
        finally:
            _running.reset(token)

    command.invoke = remembered


def in_flags(error: InvalidInput) -> InvalidInput:
    """The error, with verb and flag where it is about something that was, or could be, given by a flag."""
    context = _running.get()
    if context is None:
        return error
    allowed, remedy = _for_verbs(error.allowed), _for_verbs(error.remedy)
    error = type(error)(error.owner, error.parameter, allowed, error.got, remedy)
    verb, typed = context.command_path.partition(" ")[2], _typed(context)
    named = error.owner in map(str, context.params.values()) or _by_value(error.owner, typed) is not None
    function = _FUNCTION.fullmatch(error.owner) and not named
    owner = verb if function else f"{verb}: {error.owner}"
    flag = _by_value(error.owner, typed) if error.parameter.startswith("the file") else None
    if flag is not None:
        what = flag if error.owner in error.got else f"{flag} {error.owner}"
        return type(error)(verb, what, error.allowed, error.got, error.remedy)
    flag = error.parameter if error.parameter.startswith("--") else None
    named_so = _by_keyword(error, typed) if function else None
    if flag is None and named_so is not None and typed[named_so] is not None:
        flag = named_so
    flag = flag or _by_value(error.got.strip("'\""), typed) or named_so
    if flag is None and not (function and _INTERNAL.fullmatch(error.owner)):
        return error
    return type(error)(owner, flag or error.parameter, error.allowed, error.got, error.remedy)


def _for_verbs(text: str) -> str:
    """Without the keyword that messages for both name beside a flag: "Say --judges FILE (judges=…)."."""
    return _KEYWORD.sub("", text)


def _typed(context: Any) -> dict[str, Any]:
    """Flag → what was typed behind it; None where it was left out."""
    own = {}
    for parameter in context.command.params:
        value = context.params.get(parameter.name)
        own[parameter.opts[0]] = None if value == parameter.default or isinstance(value, bool) else value
    return {flag: value for flag, value in own.items() if flag.startswith("--")} | context.meta.get(FLAGS, {})


def _by_keyword(error: InvalidInput, typed: Mapping[str, Any]) -> str | None:
    """The flag for a keyword of a function: its own name, one of several, or with its owner before it."""
    name = error.parameter
    names = (name, f"{error.owner.lower()}_{name}", f"{name}s", name.removesuffix("s"), name.removesuffix("_mb"))
    return next((flag for flag in map(as_flag, names) if flag in typed), None)


def as_flag(name: str) -> str:
    """What a keyword is called on the command line."""
    return f"--{name.replace('_', '-')}"


def _by_value(value: str, typed: Mapping[str, Any]) -> str | None:
    """The flag behind which this was typed."""
    return next((flag for flag, given in typed.items() if value in _words(given)), None)


def _words(given: Any) -> Iterator[str]:
    """A text as it was typed, the parts of a,b,c, and the name of NAME=VALUE."""
    if isinstance(given, list | tuple):
        for one in given:
            yield from _words(one)
    elif given is not None:
        text = str(given)
        yield text
        yield from (part.strip() for part in text.split(",") if "," in text)
        if "=" in text:
            yield text.rpartition("=")[0]
