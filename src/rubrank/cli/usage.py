"""Command lines that cannot be read, in one line like every other error, whatever the width of the screen.

rubrank fuse scores.csv --rul gdpo      rubrank: fuse: no such option: --rul. Did you mean --rule? See …
rubrank replay scores.csv --step x      rubrank: replay: --step must be a whole number; got 'x'. See …
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer

from rubrank._plain import allowed_by
from rubrank.cli.printing import say

UsageError: Any = typer.BadParameter.__mro__[1]
"""What typer raises for a line that it cannot read: it does not export it by name."""


@contextmanager
def usage_in_words() -> Iterator[None]:
    """One line and exit code 2 for a command line that cannot be read; a whole help text is left as it is."""
    try:
        yield
    except UsageError as error:
        if "\n" in error.format_message() or error.ctx is None:
            raise
        name, _, verb = error.ctx.command_path.partition(" ")
        text = _in_words(error)
        end = "" if text.endswith(("?", ".")) else "."
        say(f"{name}: {verb}{': ' if verb else ''}{text}{end} See `{error.ctx.command_path} --help`.")
        raise typer.Exit(2) from None


def locate(command: Any) -> None:
    """Have a command say in which verb its line could not be read."""
    parse = command.parse_args

    def located(context: Any, args: list[str]) -> Any:
        try:
            return parse(context, args)
        except UsageError as error:
            error.ctx = error.ctx or context
            raise

    command.parse_args = located


def _in_words(error: Any) -> str:
    cause, parameter = error.__cause__, getattr(error, "param", None)
    if parameter is not None and hasattr(cause, "errors"):
        complaint = cause.errors()[0]
        name = next((name for name in parameter.opts if name.startswith("--")), parameter.opts[0])
        return f"{name} must be {_allowed(complaint)}; got {complaint['input']!r}"
    near = getattr(error, "possibilities", None)
    text = error.message if near else error.format_message()
    text = text[:1].lower() + text[1:]
    return f"{text}. Did you mean {' or '.join(sorted(near))}?" if near else text


def _allowed(complaint: Any) -> str:
    _, choice, choices = complaint["msg"].partition(" is not one of ")
    return f"one of {choices.rstrip('.')}" if choice else allowed_by(complaint)
