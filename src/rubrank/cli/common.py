"""Options that several verbs share: where columns are, and what may be overwritten."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

import typer

from rubrank.cli.options import GROUP_COLUMN, LONG, TABLE_COLUMN, WhereOptions

AsJson: TypeAlias = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
Force: TypeAlias = Annotated[bool, typer.Option("--force", help="Replace an output that exists; never an input.")]
GroupColumn: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--group-column", help=GROUP_COLUMN, show_default=False),
]
Column: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--column", help="FIELD=COLUMN, such as response=model_output; repeatable.", show_default=False),
]
Engine: TypeAlias = Annotated[
    Literal["local", "ray"], typer.Option("--engine", help="Where it runs: here, or on Ray (docs/scale.md).")
]
Address: TypeAlias = Annotated[
    str | None,
    typer.Option("--address", help="Address of a Ray cluster; by default one on this machine.", show_default=False),
]
Long: TypeAlias = Annotated[bool, typer.Option("--long", help=LONG)]
TableColumn: TypeAlias = Annotated[
    list[str] | None, typer.Option("--column", metavar="FIELD=COLUMN", help=TABLE_COLUMN, show_default=False)
]
Source: TypeAlias = Annotated[
    str, typer.Argument(help="Scores in any shape that fuse reads, or a file of records (docs/data.md).")
]


def table_columns(group_column: Sequence[str] | None, long: bool, column: Sequence[str] | None) -> Any:
    """Where a table of scores holds what, as `fuse` takes it."""
    pairs = dict(_pair(text, "rubrank") for text in column or ())
    return WhereOptions(group_column=tuple(group_column or ()), long=long, column=pairs).columns()


def check_address(engine: str, address: str | None, verb: str) -> None:
    """Refuse the address of a cluster that would not be used or does not answer, and Ray where it is not installed."""
    from rubrank.errors import InvalidInput

    if address is not None and engine != "ray":
        raise InvalidInput(verb, "--address", "used with --engine ray", f"--engine {engine}", "")
    if engine == "ray":
        from rubrank.grading.cluster import check_reachable, import_ray

        import_ray(verb)
        if address is not None:
            check_reachable(address, verb)


def columns_from(column: Sequence[str] | None, group_column: Sequence[str] | None, verb: str) -> dict[str, Any]:
    """The columns of rollouts that were named, as `read_groups` takes them."""
    found: dict[str, Any] = dict(_pair(text, verb) for text in column or ())
    if group_column:
        found["group"] = group_column[0] if len(group_column) == 1 else tuple(group_column)
    return found


def _pair(text: str, verb: str) -> tuple[str, str]:
    from rubrank.errors import InvalidInput

    field, sign, column = text.partition("=")
    if not sign or not field or not column:
        raise InvalidInput(verb, "--column", "FIELD=COLUMN", repr(text), "For example response=model_output.")
    return field, column
