"""Options of a verb that pydantic models declare: a few have their own flag, and each is a key of --set and --config.

    def fuse(file: str, options: FuseOptions, where: TableOptions, force: bool = False) -> None: ...
    wrapped, keys = replace_models_by_flags(fuse, flags=("rule", "weight"))

Typer makes the command line of a verb from the parameters of its function. `wrapped` is the function that it sees: in
place of `options` and `where` it has --rule, --weight, --config and --set. When it is called, it reads their values,
makes the two models of them, and calls `fuse`. A flag is the field's name with hyphens; its help is the field's
description.

An option may be set in three places. A flag overrides --set, which overrides the file; entries of a mapping are merged:

    --config rule.toml                      {"pool": "batch", "weight": {"Facts": 1, "Style": 3}}
    --set pool=run --set gate.floor=0.3     {"pool": "run", "gate": {"floor": "0.3"}}
    --weight Facts=2                        {"weight": {"Facts": "2"}}
    together          {"pool": "run", "weight": {"Facts": "2", "Style": 3}, "gate": {"floor": "0.3"}}

The models turn texts into numbers, and refuse wrong values.
"""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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
        value_type: Any = str | None
        if get_origin(field.annotation) in (tuple, dict):
            value_type = list[str] | None  # the flag may be repeated
        elif field.annotation is bool:
            value_type = bool | None
        metavar = (field.json_schema_extra or {}).get("metavar")
        complete = complete_rule if name == "rule" else None
        parameters.append(
            _make_parameter(name, value_type, make_flag(name), metavar, field.description, complete)
        )
    if len(flags) < len(fields):  # otherwise every setting has its flag
        parameters.append(_make_parameter("config", Path | None, "--config", "FILE", _CONFIG_HELP))
        parameters.append(
            _make_parameter(
                "settings",
                list[str] | None,
                "--set",
                "KEY=VALUE",
                _SET_HELP,
                lambda incomplete: list(complete_setting(fields, incomplete)),
            )
        )

    def run(**values: Any) -> None:
        from_flags = {name: values.pop(name) for name in flags}
        from_set = _read_set_texts(values.pop("settings", None) or (), fields)
        config = values.pop("config", None)
        function(**values, **merge_settings(models, fields, from_flags, from_set, config))

    run.__name__ = function.__name__
    run.__doc__ = function.__doc__
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return run, tuple(fields)


def _make_parameter(
    name: str,
    value_type: Any,
    flag: str,
    metavar: str | None,
    description: str | None,
    complete: Callable[[str], Any] | None = None,
) -> inspect.Parameter:
    """Make a parameter of the wrapped function, from which typer makes a flag. complete: values for the shell."""
    option = typer.Option(
        flag,
        metavar=metavar,
        help=description,
        rich_help_panel=_PANEL,
        show_default=False,
        autocompletion=complete,
    )
    annotation = Annotated[value_type, option]
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation
    )


# ------------------------------------------------------------------------------------------------------ reading values


def merge_settings(
    models: Mapping[str, type[Options]],
    fields: Mapping[str, Any],
    flag_values: Mapping[str, Any],
    from_set: Mapping[str, Any],
    config: Path | None,
) -> dict[str, Options]:
    """Merge the three sources, and return an object of each model, by the name of its parameter.

    fields: those of all models. flag_values: None or [] for a flag that is not on the line.
    """
    from_flags = {}
    for name, value in flag_values.items():
        if value is None or value == []:
            continue
        is_mapping = get_origin(fields[name].annotation) is dict
        from_flags[name] = read_pairs(name, value) if is_mapping else value
    from_file = {} if config is None else read_config(config, fields)

    merged: dict[str, Any] = {}
    for source in (from_file, from_set, from_flags):  # later sources override earlier ones
        for name, value in source.items():
            earlier = merged.get(name)
            if isinstance(earlier, Mapping) and isinstance(value, Mapping):
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
            name, _, entry = complaint.parameter.partition(".")
            if _has_setting(from_flags, name, entry):
                place = f"{make_flag(name)} {entry}".rstrip()
            elif _has_setting(from_set, name, entry):
                place = f"--set {complaint.parameter}"
            else:
                raise complaint.change(owner=str(config), field=None) from None
            raise complaint.change(parameter=place, field=None) from None
    return objects


def _has_setting(source: Mapping[str, Any], name: str, entry: str) -> bool:
    """Does this source set the option, and if it is a mapping, this entry of it?

    Entries are merged, so `weight.Style` may come from the file although `--weight Facts=2` is on the line.
    entry: "" if the message is about the option as a whole.
    """
    value = source.get(name)
    if not isinstance(value, Mapping) or not entry:
        return name in source
    # The part of the message after the name may go deeper: "Facts.0" is about the entry "Facts".
    return any(entry == key or entry.startswith(f"{key}.") for key in value)


def _read_set_texts(texts: Iterable[str], fields: Mapping[str, Any]) -> dict[str, Any]:
    """Read the texts of `--set KEY=VALUE …`; a key with a dot sets an entry of a mapping: gate.floor=0.3."""
    values: dict[str, Any] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key:
            remedy = "For example pool=run."
            raise InvalidInput("options", "--set", "KEY=VALUE", got=repr(text), remedy=remedy)
        name, _, entry = key.strip().partition(".")
        name = name.replace("-", "_")
        field_type = get_origin(fields[name].annotation) if name in fields else None
        if name not in fields or (
            entry and field_type is tuple
        ):  # a list has no entries with names
            raise UnknownOption.of("options", "--set", key, _list_settings(fields))
        if field_type is tuple:
            earlier_values = values.setdefault(name, [])
            if value.strip() != "[]":  # [] sets none
                earlier_values.append(value)
            continue
        if field_type is dict and not entry:
            entry, _, value = value.rpartition("=")  # --set weight=Facts=2 is --set weight.Facts=2
        is_repeated = name in values
        if entry:
            entries = values.setdefault(name, {})
            # `entries` is a text if the option was also set as a whole: --set gate=x --set gate.floor=0.3
            is_repeated = not isinstance(entries, dict) or entry in entries
        if is_repeated:
            option = f"--set {name}.{entry}".rstrip(".")
            raise InvalidInput("options", option, allowed="given once", got="two values")
        if entry:
            entries[entry] = value
        else:
            values[name] = value
    return values


def read_config(path: Path, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Read the settings of a file. Raises UnknownOption for a key that is not in `fields`."""
    from rubrank.rubrics.files import read_settings

    content = read_settings(path)
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
