"""Options of verbs that fuse: declared by `FuseOptions` and `TableOptions`, on the command line and in files alike.

    @app.command(cls=with_options(models))                     models(): the two, imported when a verb runs
    def fuse(context: typer.Context, file: Path) -> None:
        options, table = given_options(context, FuseOptions, TableOptions)

A flag is a field's name with hyphens, its help the field's description. `--config` names a TOML or YAML file that holds
the same names; the command line wins.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args, get_origin

import typer
from pydantic import BaseModel, Field, StrictBool, ValidationError
from typer.core import TyperCommand

from rubrank._plain import Strict, in_our_words, kind_in_words
from rubrank.cli.flags import FLAGS, as_flag
from rubrank.cli.usage import UsageError
from rubrank.errors import InvalidInput, UnknownName

if TYPE_CHECKING:
    from rubrank.tables.columns import Columns

_META = "rubrank.options"
_OPEN = "rubrank.open"
_FIND = "The table"
_M = TypeVar("_M", bound=BaseModel)
GROUP_COLUMN = (
    "Column that names a rollout's group; repeat it if several do so together. "
    "Default: found by name (group, uid, prompt_id …), else the prompt."
)
LONG = "One row per score, not one per rollout; by default detected from the columns."
TABLE_COLUMN = "Column of a long table with another name: criterion, score, response, reason; repeatable."
_LONG_FIELDS = ("group", "response", "criterion", "score", "reason")


def _where(default: Any, description: str) -> Any:
    return Field(default, description=description, json_schema_extra={"panel": _FIND})


class WhereOptions(Strict):
    """Where a table of scores holds what, for every verb that reads one."""

    group_column: tuple[str, ...] = _where((), GROUP_COLUMN)
    long: StrictBool = _where(False, LONG)
    column: dict[str, str] = Field(
        {}, description=TABLE_COLUMN, json_schema_extra={"panel": _FIND, "metavar": "FIELD=COLUMN"}
    )

    def columns(self) -> Columns:
        """The same as files take it."""
        from rubrank.tables.columns import Columns

        unknown = next((field for field in self.column if field not in _LONG_FIELDS), None)
        if unknown is not None:
            raise UnknownName.of("rubrank", "--column", unknown, _LONG_FIELDS)
        return Columns(
            group=self.group_column or ((self.column["group"],) if "group" in self.column else ()),
            fields={field: name for field, name in self.column.items() if field != "group"},
            long=True if self.long else None,
        )


class TableOptions(WhereOptions):
    """The same for `fuse` and `explain`, which also need criteria and batches."""

    criteria: tuple[str, ...] = _where(
        (), "Criteria, as a,b,c. Default: all fields of `scores`, or all numeric columns."
    )
    batch_column: str | None = _where(None, "Column that names the batch, such as the training step.")
    any_order: StrictBool = _where(False, "Rows of a group need not be adjacent.")

    def columns(self) -> Columns:
        """The same as files take it."""
        names = [part.strip() for text in self.criteria for part in text.split(",") if part.strip()]
        if self.criteria and not names:
            raise InvalidInput("rubrank", "--criteria", "names, as a,b,c", repr(",".join(self.criteria)), "")
        return replace(super().columns(), batch=self.batch_column, criteria=names or None)


# ------------------------------------------------------------------------------------------------------ the flags


def fuse_options() -> tuple[type[BaseModel], ...]:
    """The options of fusion, which are loaded when a verb needs them."""
    from rubrank.fusion.options import FuseOptions

    return (FuseOptions,)


def where_and_fuse_options() -> tuple[type[BaseModel], ...]:
    """Those of verbs that read a table of scores, or records, as a whole and fuse it."""
    return (WhereOptions, *fuse_options())


def with_options(models: Callable[[], tuple[type[BaseModel], ...]]) -> type[TyperCommand]:
    """A kind of command that has a flag for each field of the models, and --config."""

    class WithOptions(TyperCommand):
        """Takes its flags from the line before typer reads the rest, and shows them after typer's own."""

        def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
            fields = _fields(models())
            flags = {as_flag(name): name for name in (*fields, "config")}
            if ctx.resilient_parsing and args and _takes_value(args[-1], flags, fields):
                ctx.meta[_OPEN] = flags[args[-1]]  # a shell completes its value
                args = [*args[:-1], "."]  # stands for a file that lacks yet: a shell would complete that first
            rest, given = _split(args, flags, fields)
            ctx.meta[_META] = given
            ctx.meta[FLAGS] = {as_flag(name): given.get(name) for name in (*fields, "config")}
            try:
                return super().parse_args(ctx, rest)
            except Exception as error:
                wrong = getattr(error, "option_name", None)
                if wrong is not None and hasattr(error, "possibilities"):  # an unknown one: ours may have been meant
                    known = [*flags, *(getattr(error, "possibilities", None) or ())]
                    error.possibilities = get_close_matches(wrong, known)
                raise

        def shell_complete(self, ctx: Any, incomplete: str) -> list[Any]:
            found = super().shell_complete(ctx, incomplete)
            item = type(super().shell_complete(ctx, "--help")[0])
            if _OPEN in ctx.meta:
                return [item(name) for name in _values(ctx.meta[_OPEN]) if name.startswith(incomplete)]
            return [*found, *(item(flag, help=text) for flag, text in _completed(_fields(models()), incomplete))]

        def format_help(self, ctx: Any, formatter: Any) -> None:
            super().format_help(ctx, formatter)
            _show_flags(_fields(models()))

    return WithOptions


def _completed(fields: Mapping[str, Any], incomplete: str) -> list[tuple[str, str]]:
    """What a shell offers of our flags, with their help."""
    flags = {as_flag(name): field.description for name, field in fields.items()}
    flags["--config"] = "TOML or YAML file with these options."
    return [(flag, text) for flag, text in flags.items() if incomplete and flag.startswith(incomplete)]


def _values(name: str) -> Sequence[str]:
    """What a shell offers behind a flag; nothing where any value may stand."""
    from rubrank.fusion.rules import rule_names

    return [form for rule in rule_names() for form in (rule, f"{rule}+")] if name == "rule" else ()


def _fields(models: tuple[type[BaseModel], ...]) -> dict[str, Any]:
    return {name: field for model in models for name, field in model.model_fields.items()}


def _split(args: list[str], flags: Mapping[str, str], fields: Mapping[str, Any]) -> tuple[list[str], dict[str, Any]]:
    """What is left for typer, and our flags with their texts."""
    rest: list[str] = []
    given: dict[str, Any] = {}
    left = iter(args)
    for token in left:
        flag, equals, value = token.partition("=")
        if token == "--":
            rest += [token, *left]
        elif flag not in flags:
            rest.append(token)
        elif not _takes_value(flag, flags, fields):
            if equals:
                raise UsageError(f"option '{flag}' does not take a value")
            given[flags[flag]] = True
        else:
            text = value if equals else next(left, None)
            if text is None:
                raise UsageError(f"option '{flag}' requires an argument")
            _keep(given, flags[flag], text, fields)
    return rest, given


def _takes_value(flag: str, flags: Mapping[str, str], fields: Mapping[str, Any]) -> bool:
    name = flags.get(flag)
    return name is not None and (name == "config" or _kind(fields[name].annotation) is not bool)


def _keep(given: dict[str, Any], name: str, text: str, fields: Mapping[str, Any]) -> None:
    several = name != "config" and _kind(fields[name].annotation) in (tuple, dict)
    given[name] = [*given.get(name, []), text] if several else text


_METAVARS: Mapping[Any, str] = {float: "NUMBER", int: "NUMBER"}


def _show_flags(fields: Mapping[str, Any]) -> None:
    from rich import box
    from rich.console import Console
    from rich.panel import Panel
    from rich.table import Table

    panels: dict[str, Table] = {}
    for name, field in fields.items():
        extra, kind = field.json_schema_extra or {}, _kind(field.annotation)
        metavar = "" if kind is bool else extra.get("metavar") or _METAVARS.get(kind, "TEXT")
        table = panels.setdefault(extra.get("panel", "Options"), Table(box=None, show_header=False, pad_edge=False))
        table.add_row(f"[bold cyan]{as_flag(name)}[/]", f"[yellow]{metavar}[/]", field.description)
    config = "TOML or YAML file with these options; the command line wins."
    panels[_FIND if _FIND in panels else next(iter(panels))].add_row(
        "[bold cyan]--config[/]", "[yellow]PATH[/]", config
    )
    console = Console()
    for title, table in panels.items():
        console.print(Panel(table, title=title, title_align="left", border_style="dim", box=box.ROUNDED))


def _kind(annotation: Any) -> Any:
    origin = get_origin(annotation)
    if origin in (tuple, dict):
        return origin
    if annotation in (bool, StrictBool):
        return bool
    kinds = [kind for kind in get_args(annotation) if kind is not type(None)]
    return kinds[0] if len(kinds) == 1 and isinstance(kinds[0], type) else annotation


# ------------------------------------------------------------------------------------------ what was given


def columns_with(where: WhereOptions, options: Any) -> Columns:
    """Where a table holds what, with the columns of the attributes that are named."""
    return replace(where.columns(), attributes=options.attribute)


def given_options(context: typer.Context, *models: type[BaseModel]) -> list[Any]:
    """One object of each model, from the command line before the config file."""
    given = dict(context.meta.get(_META, {}))
    text = given.pop("config", None)
    path = None if text is None else Path(text)
    fields = _fields(models)
    line = {name: _parsed(name, fields[name], value) for name, value in given.items() if name in fields}
    data = {} if path is None else _read_config(path, fields)
    for name in line.keys() & data.keys():
        if isinstance(line[name], dict) and isinstance(data[name], dict):
            line[name] = {**data[name], **line[name]}
    where = "rubrank" if path is None else str(path)
    merged = {**data, **line}
    return [_made(model, {n: v for n, v in merged.items() if n in model.model_fields}, where, line) for model in models]


def _made(model: type[_M], data: Mapping[str, Any], where: str, line: Mapping[str, Any]) -> _M:
    try:
        return model.model_validate(dict(data))
    except ValidationError as error:
        typed = str(error.errors()[0]["loc"][0]) in line
        found = in_our_words(error, "rubrank" if typed else where, model, "rubrank fuse --help")[0]
        raise (_in_flags(found) if typed else found) from None


def _in_flags(error: InvalidInput) -> InvalidInput:
    name, *rest = error.parameter.split(".")
    flag = as_flag(name) + "".join(f" {part}" for part in rest)
    return type(error)(error.owner, flag, error.allowed, error.got, error.remedy)


def _parsed(name: str, field: Any, value: Any) -> Any:
    kind = _kind(field.annotation)
    if kind is not dict:
        return value
    if get_args(field.annotation)[1] is str:
        return dict(_named(name, text) for text in value)
    scale = get_origin(get_args(field.annotation)[1]) is tuple
    return dict(_pair(name.replace("_", "-"), text, scale) for text in value)


def _named(flag: str, text: str) -> tuple[str, str]:
    name, equals, column = text.partition("=")
    if not equals or not name or not column:
        raise InvalidInput("rubrank", f"--{flag}", "FIELD=COLUMN", repr(text), "For example criterion=metric.")
    return name, column


def _pair(flag: str, text: str, scale: bool) -> tuple[str, Any]:
    name, equals, number = text.rpartition("=")
    form, such = ("NAME=LOW:HIGH", f"--{flag} Style=1:5") if scale else ("NAME=NUMBER", f"--{flag} Facts=2")
    try:
        if equals and name:
            parts = [float(part) for part in number.split(":")]
            if len(parts) == (2 if scale else 1) and parts == sorted(parts):
                return name, tuple(parts) if scale else parts[0]
    except ValueError:
        pass
    raise InvalidInput("rubrank", f"--{flag}", form, repr(text), f"For example {such}.")


def _read_config(path: Path, fields: Mapping[str, Any]) -> dict[str, Any]:
    from rubrank.rubrics.files import read_settings

    content = read_settings(path)
    if not isinstance(content, Mapping):
        raise InvalidInput(str(path), "the config", "keys and values", kind_in_words(content), "")
    found: dict[str, Any] = {}
    for key, value in content.items():
        name = str(key).replace("-", "_")
        if name not in fields:
            raise UnknownName.of(str(path), "key", key, [known.replace("_", "-") for known in fields])
        found[name] = _listed(name, _kind(fields[name].annotation), value)
    return found


def _listed(name: str, kind: Any, value: Any) -> Any:
    """A value of a file in the form that the model has."""
    if name == "adjust" and isinstance(value, dict):
        return [f"{attribute}={rule}" for attribute, rule in value.items()]
    return [value] if kind is tuple and isinstance(value, str) else value
