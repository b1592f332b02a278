"""The command line: `rubrank fuse FILE`, `rubrank explain FILE --group ID` and `rubrank demo`.

The first two turn their options into a rule (`RLVR2`) and columns, call one function of `rubrank.table` and show what
came back. The options that both share are declared once, in `_SHARED`; a TOML file given with --config holds the same
names, and the command line wins. Errors are one line on standard error and exit code 2; Ctrl-C is 130.

Nothing but typer is imported here, so that --help is quick: polars and numba are loaded when a verb runs.
"""

from __future__ import annotations

import functools
import inspect
import math
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_type_hints

import typer

import rubrank
from rubrank.errors import InvalidInput, RubrankError, UnknownName
from rubrank.verbs import criteria as criteria_verbs

if TYPE_CHECKING:
    from rubrank.adjustment import Rule
    from rubrank.aggregators.rlvr2 import RLVR2
    from rubrank.gate import Gate
    from rubrank.table import Columns

app = typer.Typer(
    name="rubrank",
    help="Rubrics into rewards, by ranking: check a rubric, grade rollouts with it, fuse the scores into rewards.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)

criteria_verbs.register(app)

_FIND, _RULE, _LENGTH, _GATE = "Where things are in the table", "The rule", "Attributes", "The gate"


def _option(kind: Any, name: str, help_: str, panel: str, **more: Any) -> Any:
    return Annotated[kind, typer.Option(f"--{name}", help=help_, rich_help_panel=panel, show_default=False, **more)]


_Names, _Text, _Float = list[str] | None, str | None, float | None
_SHARED: dict[str, Any] = {
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


def _with_shared_options(verb: Callable[..., None]) -> Callable[..., None]:
    """Give a verb the options of `_SHARED`; it receives them as one mapping, `options`."""
    hints = get_type_hints(verb, include_extras=True)
    own = [
        p.replace(annotation=hints[p.name]) for p in inspect.signature(verb).parameters.values() if p.name != "options"
    ]
    shared = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind)
        for name, kind in _SHARED.items()
    ]

    @functools.wraps(verb)
    def command(**given: Any) -> None:
        options = {name: given.pop(name) for name in _SHARED}
        with _errors_in_words():
            verb(**given, options=_merged(options))

    command.__signature__ = inspect.Signature([*own, *shared])  # type: ignore[attr-defined]
    command.__annotations__ = {p.name: p.annotation for p in (*own, *shared)}
    return command


_File = Annotated[Path, typer.Argument(help="A table: .jsonl, .csv (both also .gz) or .parquet.", show_default=False)]


@app.command()
@_with_shared_options
def fuse(
    file: _File,
    *,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Table to write; its suffix says the format.", show_default=False),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Write JSON lines to standard output.")] = False,
    utilities: Annotated[
        bool, typer.Option("--utilities", help="Add a column utility.NAME for each criterion.")
    ] = False,
    prefix: Annotated[str, typer.Option(help="Put before the names of the added columns.", show_default=False)] = "",
    force: Annotated[bool, typer.Option("--force", help="Replace an output that exists.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress bar, no summary line.")] = False,
    options: Mapping[str, Any],
) -> None:
    """One reward for every rollout: the table with the columns reward and no_signal, and ranking if there is a gate.

    Without -o or --json, the rewards of the first groups and a summary are shown. Rows of a group stand together; the
    file is read in chunks, twice, and an output appears only when everything is done. A file that `rubrank grade` wrote
    brings the weights, margins, directions and gates of its rubric; an option changes what it names.
    """
    from rubrank import table
    from rubrank.verbs import show

    if json and output is not None:
        raise InvalidInput("rubrank fuse", "output", "-o FILE or --json", "both", "Leave one out.")
    rule, columns = rule_of(options), columns_of(options)
    with show.Bar(quiet) as bar:
        summary = table.fuse_file(
            file,
            sys.stdout.buffer if json else output,
            rule,
            columns=columns,
            any_order=bool(options.get("any_order")),
            utilities=utilities,
            prefix=prefix,
            force=force,
            progress=bar,
        )
    if output is None and not json:
        show.show_summary(summary)
    elif not quiet:
        for line in show.summary_lines(summary, None if json else str(output)):
            typer.echo(line, err=True)


@app.command()
@_with_shared_options
def explain(
    file: _File,
    *,
    group: Annotated[str, typer.Option("--group", help="Label of the group.", show_default=False)],
    rollout: Annotated[int | None, typer.Option("--rollout", help="One rollout, from 0.", show_default=False)] = None,
    json: Annotated[bool, typer.Option("--json", help="The same as one JSON object.")] = False,
    options: Mapping[str, Any],
) -> None:
    """Why the rollouts of a group got their rewards: scores, utilities, weights, and the reasons in words."""
    from rubrank import table
    from rubrank.verbs import show

    rule, columns = rule_of(options), columns_of(options)
    with show.Bar() as bar:
        any_order = bool(options.get("any_order"))
        found = table.explain_file(file, group, rule, columns=columns, any_order=any_order, progress=bar)
    if table.has_rubric(file):
        typer.echo(show.BY_RUBRIC, err=True)
    if rollout is not None and not 0 <= rollout < len(found.reward):
        allowed = f"a number from 0 to {len(found.reward) - 1}"
        raise InvalidInput("rubrank explain", "--rollout", allowed, str(rollout), "Count from 0.")
    if json:
        typer.echo(show.group_as_json(found, rollout))
    else:
        show.show_group(found, rollout)


@app.command()
def demo(
    output: Annotated[Path, typer.Option("--output", "-o", help="Where the rewards go, as JSON lines.")] = Path(
        "out/demo_rewards.jsonl"
    ),
) -> None:
    """The main job on a bundled table: rewards of three queries, utilities, and the reasons in words."""
    from rubrank.verbs.demo import demo as run

    with _errors_in_words():
        run(output)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rubrank {rubrank.__version__}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True)
    ] = False,
) -> None:
    """Rubrics into rewards, by ranking: a table of scores in, one reward for every rollout out."""


# ------------------------------------------------------------------------------------------ from options to a rule


def rule_of(options: Mapping[str, Any]) -> RLVR2:
    """The rule that the options describe; what was not given keeps the library's default."""
    from rubrank.aggregators.rlvr2 import RLVR2

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
    from rubrank.table import Columns

    return Columns(
        group=options.get("group_column", ()),
        batch=options.get("batch_column"),
        criteria=options.get("criteria"),
        attributes=options.get("attribute", ()),
    )


def _gate(options: Mapping[str, Any]) -> Gate | None:
    from rubrank.gate import Gate

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
    from rubrank.adjustment import attenuate

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


def _merged(options: Mapping[str, Any]) -> dict[str, Any]:
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
    known = [name for name in _SHARED if name != "config"]
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


@contextmanager
def _errors_in_words() -> Iterator[None]:
    """An error is one line and an exit code, not a traceback."""
    try:
        yield
    except RubrankError as error:
        typer.echo(f"rubrank: {error}", err=True)
        raise typer.Exit(2) from None
    except KeyboardInterrupt:
        typer.echo("rubrank: interrupted, nothing was written", err=True)
        raise typer.Exit(130) from None
    except BrokenPipeError:
        # Whoever read standard output has seen enough, such as `head`; Python must not try to flush it again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(1) from None
    except OSError as error:
        typer.echo(f"rubrank: {error.filename or 'the file system'}: {error.strerror or error}", err=True)
        raise typer.Exit(2) from None
