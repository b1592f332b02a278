"""From the options of a command line, and a TOML file that holds the same, to a rule and columns."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rubrank.errors import InvalidInput, RubrankError, UnknownName

if TYPE_CHECKING:
    from rubrank.fusion.adjust import Rule
    from rubrank.fusion.gate import Gate
    from rubrank.fusion.rlvr2 import RLVR2
    from rubrank.fusion.stream.files import Columns


_FIND, _RULE, _LENGTH, _GATE = "Where things are in the table", "The rule", "Attributes", "The gate"


def _option(kind: Any, name: str, help_: str, panel: str, **more: Any) -> Any:
    return Annotated[kind, typer.Option(f"--{name}", help=help_, rich_help_panel=panel, show_default=False, **more)]


_Names, _Text, _Float = list[str] | None, str | None, float | None
SHARED: dict[str, Any] = {
    "group_column": _option(
        _Names,
        "group-column",
        "Column that names a rollout's group; repeat it if several do so together. "
        "Default: the first of group, group_id, uid, prompt_id, query_id.",
        _FIND,
    ),
    "criteria": _option(
        _Names, "criteria", "Criteria, as a,b,c. Default: all fields of `scores`, or all numeric columns.", _FIND
    ),
    "batch_column": _option(_Text, "batch-column", "Column that names the batch, such as the training step.", _FIND),
    "any_order": _option(
        bool | None,
        "any-order",
        "Rows of a group may stand apart; reads the whole file into memory.",
        _FIND,
    ),
    "config": _option(Path | None, "config", "TOML file with these options; the command line wins.", _FIND),
    "weight": _option(_Names, "weight", "Weight of a criterion, > 0; repeatable.", _RULE, metavar="NAME=NUMBER"),
    "margin": _option(
        _Names, "margin", "Differences of at most this much are ties; repeatable.", _RULE, metavar="NAME=NUMBER"
    ),
    "lower": _option(_Names, "lower", "A criterion on which lower is better; repeatable.", _RULE, metavar="NAME"),
    "model": _option(_Text, "model", "bradley-terry (default), thurstone or borda.", _RULE),
    "prior": _option(_Float, "prior", "Precision of the prior on utilities, default 1.", _RULE),
    "span": _option(
        _Text, "span", "Utilities as fitted, or each criterion's scaled to 1.", _RULE, metavar="model|unit"
    ),
    "attribute": _option(
        _Names, "attribute", "Column whose influence is taken out, such as tokens; repeatable.", _LENGTH, metavar="NAME"
    ),
    "adjust": _option(
        _Names,
        "adjust",
        "remove (default), or attenuate:0.5[:bernoulli|uniform|fixed]; NAME=… for a single attribute.",
        _LENGTH,
        metavar="RULE",
    ),
    "pool": _option(
        _Text,
        "pool",
        "One influence for each group (default), or one for the whole batch; "
        "without --batch-column the file is one batch and is read into memory.",
        _LENGTH,
        metavar="group|batch",
    ),
    "attribute_prior": _option(_Float, "attribute-prior", "Precision of the prior on influences, default 1.", _LENGTH),
    "seed": _option(int | None, "seed", "Of the draws that attenuate makes, default 0.", _LENGTH),
    "global_quality": _option(
        _Names, "global-quality", "Reward 0 if this criterion is below 1; repeatable.", _GATE, metavar="NAME"
    ),
    "low_quality": _option(
        _Names, "low-quality", "Smaller reward if this criterion is below 1; repeatable.", _GATE, metavar="NAME"
    ),
    "gate_threshold": _option(_Float, "gate-threshold", "Low-quality mean that costs nothing, default 1.", _GATE),
    "gate_floor": _option(_Float, "gate-floor", "Factor at a low-quality mean of 0, default 0.5.", _GATE),
    "gate_shape": _option(_Text, "gate-shape", "Between the two; default linear.", _GATE, metavar="linear|smoothstep"),
    "gate_missing": _option(
        _Text, "gate-missing", "What a missing gate score does, default pass.", _GATE, metavar="pass|fail"
    ),
}
_LISTS = ("group_column", "criteria", "lower", "attribute", "global_quality", "low_quality")
_BY_NAME = ("weight", "margin")


def rule_of(options: Mapping[str, Any]) -> RLVR2:
    """The rule that the options describe; what was not given keeps the library's default."""
    from rubrank.fusion.rlvr2 import RLVR2

    given = {
        name: options[name] for name in ("pool", "prior", "attribute_prior", "span", "model", "seed") if name in options
    }
    return RLVR2(
        weights=options.get("weight"),
        margins=options.get("margin"),
        directions=dict.fromkeys(options["lower"], "lower") if options.get("lower") else None,
        adjust=_adjust(options.get("adjust"), options.get("attribute", [])),
        gate=_gate(options),
        **given,
    )


def columns_of(options: Mapping[str, Any]) -> Columns:
    """Where the options say that things are."""
    from rubrank.fusion.stream.files import Columns

    return Columns(
        group=options.get("group_column", ()),
        batch=options.get("batch_column"),
        criteria=options.get("criteria"),
        attributes=options.get("attribute", ()),
    )


def _gate(options: Mapping[str, Any]) -> Gate | None:
    from rubrank.fusion.gate import Gate

    names = {name: options[name] for name in ("global_quality", "low_quality") if options.get(name)}
    given = {
        name: options[f"gate_{name}"]
        for name in ("threshold", "floor", "shape", "missing")
        if f"gate_{name}" in options
    }
    return Gate(**names, **given) if names or given else None


def _adjust(given: list[str] | None, attributes: list[str]) -> list[Rule] | None:
    """One rule for each attribute, from `RULE` for all of them and `NAME=RULE` for one."""
    if not given:
        return None
    if not attributes:
        remedy = "Name the columns: --attribute tokens."
        raise InvalidInput("rubrank", "--adjust", "given with --attribute", "no attribute", remedy)
    rules: dict[str | None, Rule] = {}
    for text in given:
        name, _, rule = text.rpartition("=")
        if name and name not in attributes:
            raise UnknownName.of("rubrank", "--adjust", name, attributes)
        if (name or None) in rules:
            remedy = "Say which attribute each is for: --adjust NAME=RULE."
            raise InvalidInput("rubrank", "--adjust", "one rule for each attribute", f"{text!r} on top", remedy)
        rules[name or None] = _rule(rule)
    return [rules.get(name, rules.get(None, "remove")) for name in attributes]


def _rule(text: str) -> Rule:
    from rubrank.fusion.adjust import attenuate

    word, *parts = text.split(":")
    try:
        if word == "remove" and not parts:
            return "remove"
        if word == "attenuate" and 1 <= len(parts) <= 2:
            return attenuate(float(parts[0]), *parts[1:])  # type: ignore[arg-type]
    except ValueError as error:
        if isinstance(error, RubrankError):
            raise
    allowed = "remove or attenuate:NUMBER[:bernoulli|uniform|fixed]"
    raise InvalidInput("rubrank", "--adjust", allowed, repr(text), "For example attenuate:0.5.")


# --------------------------------------------------------------------------------- the command line and its config


def merged(options: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, on the command line before the config file, in its final form."""
    given = {name: value for name, value in options.items() if value not in (None, []) and name != "config"}
    for name in _BY_NAME:
        if name in given:
            given[name] = _by_name(name, dict(_pair(name, text) for text in given[name]))
    if "criteria" in given:
        given["criteria"] = [part.strip() for text in given["criteria"] for part in text.split(",") if part.strip()]
    config = _read_config(options["config"]) if options.get("config") else {}
    for name in _BY_NAME:
        if name in given and name in config:
            given[name] = {**config[name], **given[name]}
    return {**config, **given}


def _pair(option: str, text: str) -> tuple[str, float]:
    name, equals, number = text.rpartition("=")
    try:
        if equals and name:
            return name, float(number)
    except ValueError:
        pass
    raise InvalidInput("rubrank", f"--{option}", "NAME=NUMBER", repr(text), f"For example --{option} Facts=2.")


def _by_name(option: str, numbers: dict[str, float]) -> dict[str, float]:
    for name, number in numbers.items():
        good = 0.0 < number < math.inf if option == "weight" else 0.0 <= number < math.inf
        if not good:
            allowed = "a finite number > 0" if option == "weight" else "a finite number ≥ 0"
            raise InvalidInput(
                "rubrank", f"--{option} {name}", allowed, f"{number:g}", "Use 1 if it is like the others."
            )
    return numbers


def _read_config(path: Path) -> dict[str, Any]:
    import tomllib

    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise InvalidInput(
            str(path), "the config", "a readable file", error.strerror or str(error), "Check it."
        ) from None
    except ValueError as error:
        raise InvalidInput(str(path), "the config", "TOML in UTF-8", str(error), "Check its syntax.") from None
    known = [name for name in SHARED if name != "config"]
    found = {}
    for key, value in content.items():
        name = key.replace("-", "_")
        if name not in known:
            raise UnknownName.of(str(path), "key", key, [known_name.replace("_", "-") for known_name in known])
        found[name] = _checked(path, key, name, value)
    return found


def _checked(path: Path, key: str, name: str, value: Any) -> Any:
    """A value of the config file in the form in which the command line has it."""
    if name in _BY_NAME:
        if isinstance(value, dict) and all(_is_number(number) for number in value.values()):
            return _by_name(name, value)
        raise InvalidInput(
            str(path), key, f"a table of numbers by name, [{key}]", repr(value), "For example Facts = 2."
        )
    if name == "adjust" and isinstance(value, dict):
        value = [f"{attribute}={rule}" for attribute, rule in value.items()]
    if name in (*_LISTS, "adjust"):
        value = [value] if isinstance(value, str) else value
        if isinstance(value, list) and all(isinstance(item, str) for item in value):
            return value
        raise InvalidInput(str(path), key, "a list of names", repr(value), 'For example ["Facts", "Style"].')
    numeric = name in ("prior", "attribute_prior", "gate_threshold", "gate_floor", "seed")
    wanted = "a number" if numeric else "true or false" if name == "any_order" else "a text"
    good = _is_number(value) if numeric else isinstance(value, bool if name == "any_order" else str)
    if not good:
        raise InvalidInput(str(path), key, wanted, repr(value), "See rubrank fuse --help.")
    return value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)
