"""Options of a verb that a pydantic model declares: some as flags, all of them by --set and in the file of --config.

    def fuse(file: str, options: FuseOptions, where: TableOptions, force: bool = False) -> None: ...
    wrapped, keys = replace_models_by_flags(fuse, flags=("rule", "weight"))

`wrapped` is the function as the command line calls it: instead of `options` and `where` it takes --rule, --weight,
--config and --set. A flag is the field's name with hyphens, its help the field's description.

    rubrank fuse scores.csv --weight Facts=2 --set pool=run --set gate.floor=0.3 --config rule.toml

A flag overrides --set, and --set overrides the file. Entries of a mapping, such as weights, are merged.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, get_args, get_origin

import typer
from pydantic import BaseModel, ValidationError

from rubrank._plain import describe_type, explain_complaints
from rubrank.errors import InvalidInput, UnknownOption
from rubrank.options import Options, read_pairs

_PANEL = "Table and fusion"
_CONFIG_HELP = "TOML, YAML or JSON file with any of these settings."
_SET_HELP = "Any other setting, such as pool=run or gate.floor=0.3; repeatable. `rubrank help cli` has the keys."


def make_flag(name: str) -> str:
    """Return the flag of a field: `group_column` → --group-column."""
    return f"--{name.replace('_', '-')}"


def replace_models_by_flags(
    function: Callable[..., None], flags: Sequence[str]
) -> tuple[Callable[..., None], tuple[str, ...]]:
    """Return the function with flags instead of its option models, and the keys of --set.

    A function without a parameter of type `Options` is returned unchanged.
    """
    hints = typing.get_type_hints(function, include_extras=True)
    models = {
        name: hint
        for name, hint in hints.items()
        if isinstance(hint, type) and issubclass(hint, Options)
    }
    if not models:
        return function, ()
    fields: dict[str, Any] = {}
    for model in models.values():
        fields |= model.model_fields

    parameters = [
        parameter.replace(annotation=hints[parameter.name], kind=parameter.KEYWORD_ONLY)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name not in models
    ]
    for name in flags:
        field = fields[name]
        option = typer.Option(
            make_flag(name),
            metavar=(field.json_schema_extra or {}).get("metavar"),
            help=field.description,
            rich_help_panel=_PANEL,
            show_default=False,
            autocompletion=complete_rule if name == "rule" else None,
        )
        value_type: Any = str | None
        if _is_repeatable(field):
            value_type = list[str] | None
        elif field.annotation is bool:
            value_type = bool | None
        parameters.append(_make_parameter(name, value_type, option))
    config = typer.Option(
        "--config", metavar="FILE", help=_CONFIG_HELP, rich_help_panel=_PANEL, show_default=False
    )
    settings = typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help=_SET_HELP,
        rich_help_panel=_PANEL,
        show_default=False,
        autocompletion=lambda incomplete: list(complete_setting(fields, incomplete)),
    )
    if len(flags) < len(fields):  # otherwise every setting has its flag
        parameters.append(_make_parameter("config", Path | None, config))
        parameters.append(_make_parameter("settings", list[str] | None, settings))

    def run(**values: Any) -> None:
        flag_values = {name: values.pop(name) for name in flags}
        settings = values.pop("settings", None)
        config = values.pop("config", None)
        function(**values, **read_settings(models, fields, flag_values, settings, config))

    run.__name__ = function.__name__
    run.__doc__ = function.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run, tuple(fields)


def _make_parameter(name: str, value_type: Any, option: Any) -> inspect.Parameter:
    """Make a parameter of the wrapped function, from which typer makes a flag."""
    annotation = Annotated[value_type, option]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


def _is_repeatable(field: Any) -> bool:
    """Return whether a flag may be given several times: the field is a list or a mapping."""
    return get_origin(field.annotation) in (tuple, dict)


# ------------------------------------------------------------------------------------------------------ reading values


def read_settings(
    models: Mapping[str, type[Options]],
    fields: Mapping[str, Any],
    flag_values: Mapping[str, Any],
    set_texts: Sequence[str] | None,
    config: Path | None,
) -> dict[str, Options]:
    """Read one object of each model, by the name of its parameter, from flags, --set and the file."""
    from_flags = {
        name: value for name, value in flag_values.items() if value is not None and value != []
    }
    from_set = _read_set_texts(set_texts or (), fields)
    from_file = {} if config is None else read_config(config, fields)

    # Later sources override earlier ones.
    merged: dict[str, Any] = {}
    for source in (from_file, from_set, from_flags):
        for name, value in source.items():
            earlier = merged.get(name)
            if isinstance(earlier, Mapping) and isinstance(value, list):
                value = read_pairs(name, value)
            if isinstance(earlier, Mapping) and isinstance(value, Mapping):
                # Entries of a mapping, such as weights, are merged one by one.
                value = {**earlier, **value}
            merged[name] = value

    objects = {}
    for parameter, model in models.items():
        data = {name: value for name, value in merged.items() if name in model.model_fields}
        try:
            objects[parameter] = model.model_validate(data)
        except ValidationError as error:
            # The message names the place that the wrong value came from: a flag, --set or the file.
            complaint = explain_complaints(error, "options", model, "cli")[0]
            name, _, inner = complaint.parameter.partition(".")
            if name in from_flags:
                place = f"{make_flag(name)} {inner}".rstrip()
            elif name in from_set:
                place = f"--set {complaint.parameter}"
            else:
                raise complaint.change(owner=str(config), field=None) from None
            raise complaint.change(parameter=place, field=None) from None
    return objects


def _read_set_texts(texts: Sequence[str], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Read the settings of `--set KEY=VALUE …`; a key with a dot sets an entry of a mapping: gate.floor=0.3."""
    entries: dict[str, list[tuple[str, str]]] = {}  # name of a field → keys in it, and values
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            remedy = "For example pool=run."
            raise InvalidInput("options", "--set", "KEY=VALUE", got=repr(text), remedy=remedy)
        name, _, inner = key.strip().partition(".")
        name = name.replace("-", "_")
        if name not in fields:
            raise UnknownOption.of("options", "--set", key, _list_settings(fields))
        if get_origin(fields[name].annotation) is dict and not inner:
            inner, _, value = value.rpartition("=")  # --set weight=Facts=2 is --set weight.Facts=2
        entries.setdefault(name, []).append((inner, value))
    values: dict[str, Any] = {}
    for name, pairs in entries.items():
        inner_keys = [inner for inner, _ in pairs]
        if get_origin(fields[name].annotation) is tuple:
            values[name] = [value for _, value in pairs if value.strip() != "[]"]  # [] sets none
        elif len(set(inner_keys)) < len(pairs):
            twice = f"--set {name}.{inner_keys[-1]}".rstrip(".")
            raise InvalidInput("options", twice, allowed="given once", got="two values")
        elif inner_keys == [""]:
            values[name] = pairs[0][1]
        else:
            values[name] = dict(pairs)
    return values


def read_config(path: Path, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Read the settings of a file. Raises UnknownOption for a key that is not in `fields`."""
    from rubrank.rubrics.files import read_settings as read_file

    content = read_file(path)
    if not isinstance(content, Mapping):
        got = describe_type(content)
        raise InvalidInput(str(path), "the config", allowed="keys and values", got=got)
    values = {}
    for key, value in content.items():
        name = str(key).replace("-", "_")
        if name not in fields:
            raise UnknownOption.of(str(path), "key", key, fields)
        values[name] = value
    return values


# ---------------------------------------------------------------------------------------------------------- completion


def _list_settings(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the field of every key of --set; the fields of an inner model have a dot, such as gate.floor."""
    settings: dict[str, Any] = {}
    for name, field in fields.items():
        annotation = field.annotation
        if isinstance(annotation, type) and issubclass(annotation, BaseModel):
            for inner_name, inner_field in annotation.model_fields.items():
                settings[f"{name}.{inner_name}"] = inner_field
        else:
            settings[name] = field
    return settings


def complete_setting(fields: Mapping[str, Any], incomplete: str) -> Iterator[tuple[str, str]]:
    """Complete --set in the shell: yield keys, or values of a key that allows only a few, with their description."""
    typed_key, equals, _ = incomplete.partition("=")
    for key, field in _list_settings(fields).items():
        description = field.description or ""
        if not equals and key.startswith(incomplete):
            yield f"{key}=", description
        if equals and key == typed_key:
            for value in _list_literal_values(field.annotation):
                setting = f"{key}={value}"
                if setting.startswith(incomplete):
                    yield setting, description


def complete_rule(incomplete: str) -> list[str]:
    """Complete --rule in the shell."""
    from rubrank.fusion.rules import rule_names

    rules = [rule for name in rule_names() for rule in (name, f"{name}+")]
    return [rule for rule in rules if rule.startswith(incomplete)]


def _list_literal_values(annotation: Any) -> list[str]:
    """Return the values that an annotation lists, such as those of `Literal["a", "b"] | None`; often none."""
    if get_origin(annotation) is Literal:
        return [str(value) for value in get_args(annotation)]
    if annotation is bool:
        return ["true", "false"]
    return [value for kind in get_args(annotation) for value in _list_literal_values(kind)]
