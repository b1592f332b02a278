"""Options that several verbs share: the columns of a table, --force, --json, --engine, --config."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

import typer

from rubrank.cli.settings import read_config
from rubrank.errors import InvalidInput, UnknownName
from rubrank.options import FuseOptions, Options, option

if TYPE_CHECKING:
    from rubrank.tables.columns import Columns

_GROUP_COLUMN = (
    "Column with the id of the group; repeat it if several columns form the id. "
    "Default: found by name (group, uid, prompt_id …), else the prompt."
)
_CRITERIA = "Columns that are criteria, as a,b,c, or all. Not needed for a table with a column `scores` or a rubric."
_LONG = "The table has one row per score instead of one per rollout; detected by default."
_TABLE_COLUMN = (
    "Column of a field in a long table: criterion, score, response or reason; repeatable."
)
LONG_FIELDS = ("group", "response", "criterion", "score", "reason")

FUSION_FLAGS = (
    "rule",
    "criteria",
    "attributes",
    "weight",
    "global_quality",
    "low_quality",
    "group_column",
)
"""Settings of a fusion that have their own flag; all others are set by --set or a file."""

COLUMN_FLAGS = ("criteria", "group_column", "long", "column")
"""Flags of verbs that read a table and fuse nothing."""

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Force: TypeAlias = Annotated[
    bool,
    typer.Option("--force", help="Overwrite an existing output; inputs are never overwritten."),
]
GroupColumn: TypeAlias = Annotated[
    list[str] | None, typer.Option("--group-column", help=_GROUP_COLUMN, show_default=False)
]
Column: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--column",
        metavar="FIELD=COLUMN",
        help="Column of a field, such as response=model_output; output.text is a nested one; repeatable.",
        show_default=False,
    ),
]
Engine: TypeAlias = Annotated[
    Literal["local", "ray"],
    typer.Option("--engine", help="Run on this machine or on Ray (rubrank help scale)."),
]
Address: TypeAlias = Annotated[
    str | None,
    typer.Option(
        "--address",
        help="Address of a Ray cluster; by default one on this machine.",
        show_default=False,
    ),
]
Source: TypeAlias = Annotated[
    str,
    typer.Argument(help="Scores in any format that `fuse` reads, or records (rubrank help data)."),
]


class ColumnOptions(Options):
    """The columns of a table of scores: which hold criteria, groups and other fields. For verbs that read a table."""

    criteria: tuple[str, ...] = option((), _CRITERIA, "NAMES")
    group_column: tuple[str, ...] = option((), _GROUP_COLUMN, "NAME")
    long: bool = option(False, _LONG)
    column: dict[str, str] = option({}, _TABLE_COLUMN, "FIELD=COLUMN")

    def make_columns(self, options: FuseOptions | None = None, batch: str | None = None) -> Columns:
        """Return these options as `Columns`, which functions that read tables take.

        options: those of the fusion. Attributes that they name are columns of the table, and so are the criteria to
            which they give a weight, a margin or another setting: such columns are found without --criteria.
        batch: the column that names the batch.
        """
        from rubrank.fusion.options import collect_criterion_changes
        from rubrank.tables.columns import Columns

        for field in self.column:
            if field not in LONG_FIELDS:
                raise UnknownName.of("options", "column", field, LONG_FIELDS)
        group = self.group_column
        if not group and "group" in self.column:
            group = (self.column["group"],)
        names = split_names(",".join(self.criteria))  # the option may be repeated
        criteria: list[str] | Literal["all"] = names
        if self.criteria and not names:
            got = repr(",".join(self.criteria))
            raise InvalidInput("options", "criteria", allowed="names such as a,b,c", got=got)
        if names == ["all"]:
            criteria = "all"
        return Columns(
            group=group,
            criteria=criteria or None,
            batch=batch,
            fields={field: name for field, name in self.column.items() if field != "group"},
            long=True if self.long else None,  # None: detect it
            declared=() if options is None else tuple(collect_criterion_changes(options)),
            attributes=() if options is None else options.attribute_names,
        )


class TableOptions(ColumnOptions):
    """The same for `fuse` and `explain`, which also read batches."""

    batch_column: str | None = option(
        None, "Column that names the batch, such as the training step."
    )
    any_order: bool = option(False, "Rows of a group need not be adjacent.")


def make_rollout_columns(
    column: Sequence[str] | None, group_column: Sequence[str] | None
) -> dict[str, Any]:
    """Return the columns of rollouts that the user has named, as `read_rollouts` takes them."""
    columns: dict[str, Any] = split_pairs(column, "column")
    if group_column:
        columns["group"] = group_column[0] if len(group_column) == 1 else tuple(group_column)
    return columns


def split_pairs(
    texts: Sequence[str] | None, field: str, form: str = "FIELD=COLUMN"
) -> dict[str, str]:
    """Read texts of the form NAME=VALUE. field, form: the option and its form, for errors."""
    pairs = {}
    for text in texts or ():
        # At the first "=": a field has none in its name, a column may.
        name, equals, value = text.partition("=")
        if not equals or not name or not value:
            raise InvalidInput("options", field, allowed=form, got=repr(text))
        pairs[name] = value
    return pairs


def split_names(text: str) -> list[str]:
    """Split "a, b,,c" into the names a, b and c."""
    names = [name.strip() for name in text.split(",")]
    return [name for name in names if name]


def check_address(engine: str, address: str | None, verb: str) -> None:
    """Raise InvalidInput if Ray is not installed, or its address would not be used or does not answer."""
    if address is not None and engine != "ray":
        raise InvalidInput(
            verb,
            "address",
            allowed="used with --engine ray",
            got=f"--engine {engine}",
        )
    if engine == "ray":
        from rubrank.grading.cluster import check_reachable, import_ray

        import_ray(verb)
        if address is not None:
            check_reachable(address, verb)


# ------------------------------------------------------------------------------------------------------- files of flags


def _use_config(context: typer.Context, path: Path | None) -> Path | None:
    """Use the values of a file as defaults of the flags, which the command line overrides."""
    if path is None or context.resilient_parsing:
        return path
    options = {
        parameter.name: parameter
        for parameter in context.command.params
        if parameter.name != "config"
    }
    defaults = {}
    for name, value in read_config(path, options).items():
        # Values take the form that a command line has: {response: text} is --column response=text.
        if isinstance(value, dict):
            value = [f"{key}={item}" for key, item in value.items()]
        takes_list = getattr(options[name], "multiple", False)
        if takes_list and not isinstance(value, list | tuple):
            value = [value]
        defaults[name] = value
    context.default_map = defaults
    return path


FlagConfig: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--config",
        metavar="FILE",
        help="TOML, YAML or JSON file with these options; flags override it.",
        callback=_use_config,
        is_eager=True,
        show_default=False,
    ),
]
"""For a verb whose options are all flags: keys of the file are names of flags."""
