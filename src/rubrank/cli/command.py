"""Verbs of the command line, and their error messages: one line that names the flag the error is about.

    add_verb(app, fuse)                       a function as a verb
    add_verb(app, fuse, flags=("rule",))      the same, with options that models declare: see `settings.py`

    InvalidInput("RLVR2", "prior", "≥ 1e-09", "-1.0", "")     →   rubrank: fuse: --set prior must be ≥ 1e-09; got -1.0.
    InvalidInput("a.yaml", "the file", …)                     →   rubrank: a.yaml: the file must be …

An error of the library has the name of the option it is about (`field`). The verb that was called knows the flag of
that option, so `Verb` leaves its context to `VerbGroup`, which prints all errors. The exit code is 2 for every mistake,
and 130 for Ctrl-C.
"""

from __future__ import annotations

import os
import re
import sqlite3
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, ClassVar

import typer
from typer.core import TyperCommand, TyperGroup

from rubrank._plain import describe_allowed
from rubrank._plugins import find_failed_line
from rubrank.cli.settings import replace_models_by_flags
from rubrank.cli.terminal import print_warnings_in_one_line, say
from rubrank.errors import InvalidInput, RubrankError
from rubrank.options import GateOptions

UsageError: Any = typer.BadParameter.__base__  # typer does not export the base class by name
_BACKQUOTED = re.compile(
    r"""`(?P<name>\w+)         # an option in a message: `any_order`
        (?:\.(?P<key>[^`=]*))?  # an entry of a mapping: `column.response=NAME`
        (?:=(?P<value>[^`]*))?` # with a value: `criteria=Facts,Style`
    """,
    re.VERBOSE,
)
_FUNCTION = re.compile(r"[a-z]+(?:_[a-z]+)+|(?:[A-Z][a-z0-9]+){2,}|options")
"""Owners of errors that are functions or classes of the library: read_scores, RewardOptions. The user of the command
line does not know them, so messages name the verb instead."""
_VERB = "rubrank.verb"
"""The key under which a verb leaves its context."""
_OTHER_NAMES = {
    "columns": "column",
    "budget_mb": "budget",
    "sources": "scores",
    "judge": "judges",
    "batch": "batch_size",
}
"""Parameters of functions that have another name on the command line."""


class Verb(TyperCommand):
    """A verb of the command line."""

    setting_keys: ClassVar[Sequence[str]] = ()
    """Keys of --set, if the verb has it."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the rest of the line. Raises for an option with one value that is given twice."""
        ctx.meta[_VERB] = ctx  # the dictionary belongs to all contexts of the command line
        if not ctx.resilient_parsing:  # it is True while the shell completes a line
            parameters: Sequence[Any] = self.make_parser(ctx).parse_args(list(args))[2]
            names_so_far: set[str] = set()
            for parameter in parameters:
                is_option = parameter.param_type_name == "option"
                if not is_option or parameter.multiple or parameter.is_flag:
                    continue
                if parameter.name in names_so_far:  # the parser itself would use the last value
                    flag = _get_long_flag(parameter)
                    raise InvalidInput("options", flag, allowed="given once", got="two values")
                names_so_far.add(parameter.name)
        return super().parse_args(ctx, args)


class VerbGroup(TyperGroup):
    """The command line as a whole."""

    def make_context(self, info_name: Any, args: Any, parent: Any = None, **extra: Any) -> Any:
        """Read the options before the verb."""
        if sys.stdout is None:
            # Standard output is closed (`>&-`): results could not be printed, and the next file that is opened would
            # get file descriptor 1, and with it everything that libraries print. So stop, as after a broken pipe.
            sys.exit(1)
        with print_errors_in_one_line():
            return super().make_context(info_name, args, parent, **extra)

    def invoke(self, ctx: Any) -> Any:
        """Read the rest of the line and run the verb."""
        with print_warnings_in_one_line(), print_errors_in_one_line(ctx):
            return super().invoke(ctx)


def add_verb(
    app: typer.Typer,
    function: Callable[..., None],
    name: str | None = None,
    flags: Sequence[str] = (),
) -> None:
    """Add a function to a command line.

    flags: fields of the function's option models that get their own flag; the others are set by --set or a file.
    """
    verb_name = name or function.__name__.replace("_", "-")
    wrapped, keys = replace_models_by_flags(function, flags)
    kind = type("Verb", (Verb,), {"setting_keys": keys})
    # The help of a verb is its docstring. Typer would keep the line breaks within a paragraph.
    paragraphs = (function.__doc__ or "").split("\n\n")
    help_text = "\n\n".join(" ".join(paragraph.split()) for paragraph in paragraphs)
    app.command(verb_name, cls=kind, help=help_text)(wrapped)


# -------------------------------------------------------------------------------------------------------------- errors


@contextmanager
def print_errors_in_one_line(ctx: Any = None) -> Iterator[None]:
    """Print an error as one line and exit with a code, instead of a traceback. ctx: of the command line."""
    try:
        yield
    except KeyboardInterrupt as error:
        # Grading and judging say what was saved (`JudgingInterrupted`); other verbs write at the end.
        what_was_saved = f"; {error}" if str(error) else ", nothing was written"
        say(f"rubrank: interrupted{what_was_saved}")
        raise typer.Exit(130) from None
    except BrokenPipeError:
        # The reader of standard output, such as `head`, has ended; Python must not try to flush it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except (typer.Exit, typer.Abort):
        raise
    except UsageError as error:  # the line cannot be parsed
        if "\n" in error.format_message():  # a help text, which typer prints
            raise
        error.ctx = error.ctx or _find_verb_context(ctx)  # some errors of the parser lack it
        command = "rubrank" if error.ctx is None else error.ctx.command_path
        program, _, verb = command.partition(" ")
        text = _describe_usage_error(error)
        if verb:
            text = f"{verb}: {text}"
        if not text.endswith(("?", ".")):
            text += "."
        say(f"{program}: {text} See `{command} --help`.")
        raise typer.Exit(2) from None
    except Exception as error:
        description = _describe_failure(error, _find_verb_context(ctx))
        if description is None:
            raise
        say(" ".join([f"rubrank: {description}", *getattr(error, "__notes__", ())]))
        raise typer.Exit(2) from None


def _find_verb_context(ctx: Any) -> Any:
    """Return the context of the verb that was called; that of the command line if there was no verb yet."""
    return None if ctx is None else ctx.meta.get(_VERB, ctx)


def _describe_usage_error(error: Any) -> str:
    """Describe a mistake in the command line in one sentence, with what is allowed or meant instead."""
    cause = error.__cause__
    parameter = getattr(error, "param", None)
    # pydantic refused the value of an option.
    if parameter is not None and hasattr(cause, "errors"):
        complaint = cause.errors()[0]
        choices = complaint["msg"].partition(" is not one of ")[2]
        allowed = f"one of {choices.rstrip('.')}" if choices else describe_allowed(complaint)
        return f"{_get_long_flag(parameter)} must be {allowed}; got {complaint['input']!r}"
    similar_options = None
    if hasattr(
        error, "possibilities"
    ):  # an unknown option: say where to put it, if it belongs elsewhere
        unknown = f"no such option: {error.option_name}"
        key = error.option_name.lstrip("-").replace("-", "_")
        if key == "import":
            return f"{unknown}. Put it before the verb: rubrank --import MODULE"
        if key.startswith("gate_") and key.removeprefix("gate_") in GateOptions.model_fields:
            key = key.replace("_", ".", 1)  # --gate-floor is --set gate.floor
        if key.partition(".")[0] in getattr(error.ctx.command, "setting_keys", ()):
            return f"{unknown}. Use --set {key}=VALUE"
        similar_options = error.possibilities
    # With `format_message`, typer would add the similar options in its own words.
    text = error.message if similar_options else error.format_message()
    text = text[:1].lower() + text[1:]
    if similar_options:
        text += f". Did you mean {' or '.join(sorted(similar_options))}?"
    return text


def _describe_failure(error: Exception, ctx: Any) -> str | None:
    """Describe an error in one line; None for a bug, whose traceback is needed."""
    if isinstance(error, InvalidInput):
        return describe_error(error, ctx)
    if isinstance(error, RubrankError):
        return show_flags(str(error), ctx)
    # If there is no memory to load a library, numba only says that it was not found.
    if isinstance(error, MemoryError) or "failed to map segment" in str(error.__context__):
        return "out of memory"
    if isinstance(error, UnicodeDecodeError):
        return "a file is not UTF-8 text. Save it as UTF-8."
    if isinstance(error, UnicodeEncodeError):
        near = ascii(error.object[max(0, error.start - 20) : error.end + 20])
        return f"text with a lone surrogate (half of a character) cannot be used here: {near}"
    if isinstance(error, sqlite3.Error):  # a full or broken disk under a store
        return f"a cache file of this run cannot be used: {error}"
    if isinstance(error, OSError):
        return f"{error.filename or 'the file system'}: {error.strerror or error}"
    place = find_failed_line(error)  # in a rule, a model or an attribute that the user wrote
    if place is None:
        return None
    return f"{place} failed: {type(error).__name__}: {error}"


def describe_error(error: InvalidInput, ctx: Any) -> str:
    """Describe an error for the user of a verb: with flags instead of options, and the verb instead of functions.

    An error begins with what it is about. Here is that beginning under `rubrank fuse`:

        RLVR2: prior, an option with a flag             fuse: --set prior
        load_scores: source, a function of ours         fuse: source
        a.yaml: weight, a file and a flag               fuse: a.yaml: --weight
        a.yaml: criteria.0, a file                      a.yaml: criteria.0
    """
    verb = ctx.command_path.partition(" ")[2]
    flag = None if error.field is None else _find_flag(error.field, ctx)
    owner = error.owner
    is_verb = owner.removeprefix("rubrank ") == verb
    is_function = _FUNCTION.fullmatch(owner) is not None
    is_file = not all(word.isidentifier() for word in owner.split(" "))  # it has a dot or a slash
    if is_verb or is_function or (flag is not None and not is_file):
        owner = verb
    elif flag is not None:
        owner = f"{verb}: {owner}"
    changed = error.change(
        owner=owner,
        parameter=flag or error.parameter,
        allowed=show_flags(error.allowed, ctx),
        remedy=show_flags(error.remedy, ctx),
    )
    return str(changed)


def show_flags(text: str, ctx: Any) -> str:
    """Replace options in backquotes by flags: `criteria=A,B` → --criteria A,B."""

    def show(match: re.Match[str]) -> str:
        key = match["key"]
        value = match["value"]
        flag = _find_flag(match["name"], ctx)
        if flag is None:
            return match[0]
        if flag.startswith("--set"):
            if key:
                flag += f".{key}"
            return f"{flag}={value}" if value else flag
        if key:
            return f"{flag} {key}={value}"
        return flag if value in (None, "true") else f"{flag} {value}"

    return _BACKQUOTED.sub(show, text)


def _find_flag(field: str, ctx: Any) -> str | None:
    """Return the flag of an option, or `--set KEY` if it has none; None if the verb does not have the option."""
    for name in (field, _OTHER_NAMES.get(field)):
        for parameter in ctx.command.params:
            if parameter.name == name and parameter.param_type_name == "option":
                return _get_long_flag(parameter)
    keys = getattr(ctx.command, "setting_keys", ())
    return f"--set {field}" if field.partition(".")[0] in keys else None


def _get_long_flag(parameter: Any) -> str:
    """Return the flag of an option in its long form, such as --output for -o."""
    return next((flag for flag in parameter.opts if flag.startswith("--")), parameter.opts[0])
