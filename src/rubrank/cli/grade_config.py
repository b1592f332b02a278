"""`rubrank grade --config grading.toml`: the options of the verb from a file; the command line wins.

    rubric = "rubric.yaml"
    judges = "judges.yaml"
    workers = 4

Keys are the names of the flags. Paths are read from the current directory, as on the command line.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

import typer
from pydantic import Field, ValidationError

from rubrank._plain import Strict, in_our_words, kind_in_words
from rubrank.cli.printing import errors_in_words
from rubrank.errors import InvalidInput, UnknownName


class GradeConfig(Strict):
    """What a file may say about grading; what it does not say is left to the flags."""

    rubric: str | None = None
    output: str | None = None
    workers: int | None = Field(None, ge=0)
    engine: Literal["local", "ray"] | None = None
    address: str | None = None
    cache: str | None = None
    compat: Literal["fixed", "upstream"] | None = None
    mode: Literal["strict", "loose"] | None = None
    column: dict[str, str] | None = None
    group_column: str | tuple[str, ...] | None = None
    timeout: float | Literal["none"] | None = None
    judges: str | None = None
    cache_only: bool | None = None
    batch: Literal["wait", "submit"] | None = None
    most_missing: float | None = None

    def defaults(self) -> dict[str, Any]:
        """The same as the command line would have them."""
        found: dict[str, Any] = self.model_dump(exclude_none=True)
        if self.column is not None:
            found["column"] = [f"{field}={column}" for field, column in self.column.items()]
        if self.group_column is not None:
            found["group_column"] = [self.group_column] if isinstance(self.group_column, str) else self.group_column
        if self.timeout is not None:
            found["timeout"] = str(self.timeout)
        return found


def _read(context: typer.Context, path: Path | None) -> Path | None:
    """Have the file's values stand where nothing is typed."""
    if path is not None and not context.resilient_parsing:
        with errors_in_words():
            context.default_map = _config(path).defaults()
    return path


def _config(path: Path) -> GradeConfig:
    known = [name.replace("_", "-") for name in GradeConfig.model_fields]
    given = {}
    for key, value in _content(path).items():
        if str(key).replace("_", "-") not in known:
            raise UnknownName.of(str(path), "key", key, known)
        given[str(key).replace("-", "_")] = value
    try:
        return GradeConfig.model_validate(given)
    except ValidationError as error:
        raise in_our_words(error, str(path), GradeConfig, "rubrank grade --help")[0] from None


def _content(path: Path) -> Mapping[Any, Any]:
    from rubrank.rubrics.files import read_settings

    try:
        content = read_settings(path)
    except InvalidInput as error:  # it cannot be read at all, which is about the flag
        what = "--config" if str(path) in error.got else f"--config {path}"
        raise type(error)("grade", what, error.allowed, error.got, error.remedy) from None
    if not isinstance(content, Mapping):
        raise InvalidInput(str(path), "the config", "keys and values", kind_in_words(content), "")
    return content


Config: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML or YAML file with these options; the command line wins.",
        callback=_read,
        is_eager=True,
        show_default=False,
    ),
]
