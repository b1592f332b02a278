"""The table of aggregation rules, and `find_rule`, which makes a rule from its name; docs/rules.md explains each rule.

    >>> from rubrank import ScoreBatch, find_rule
    >>> batch = ScoreBatch.of_arrays([[1, 0.5], [1, 1.0], [0, 1.0]])
    >>> find_rule("rlvr2")(batch).reward
    array([0., 1., 0.])
    >>> find_rule("focal:gamma=2+")(batch).rule
    'focal+'

A name is a small expression:

    gdpo                 a rule
    focal:gamma=2        with its constants, separated by `:` as in focal:gamma=2:eps=0.1
    gdpo+                followed by the gate of the rubric's layers (fusion/gate.py)
    rlvr2*focal          RLVR² with the weights of focal, sa-mrpo, dvao, amrp or pow3r (fusion/rlvr2.py)
    rlvr2*gear           RLVR² of the scores that gear makes: credit where prerequisites are met
    rlvr2*focal+         both

How to add a rule: write a frozen dataclass whose fields are the constants, in the file of its kind, with `name`,
`bounded` and a `__call__` that takes a `ScoreBatch` and returns a `Fused` (also `weights` if it re-weights, `scores`
if it changes scores first, `state` and `restore` if it learns from batch to batch), and add a line to `RULES`. A rule
of your own needs no change here:

    @rubrank.rule
    @dataclass(frozen=True)
    class Best:
        name: ClassVar[str] = "best-case"
        bounded: ClassVar[bool] = True
        def __call__(self, batch):
            return Fused(batch, self.name, np.fmax.reduce(batch.unit_MK, axis=1))
"""

from __future__ import annotations

import ast
import importlib
import inspect
import re
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from functools import cache
from reprlib import repr as brief
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rubrank._plugins import (
    check_call,
    check_free,
    describe_object,
    is_from_library,
    load_plugins,
    make_decorator,
)
from rubrank.errors import InvalidInput, UnknownName, only_our_errors

if TYPE_CHECKING:
    from rubrank.fusion.gate import Gate
    from rubrank.fusion.rule import Rule

# "module.Class", or the class itself. A module is imported when its rule is first looked up: importing all is slow.
RULES: dict[str, str | type] = {
    "weighted-mean": "means.WeightedMean",
    "z-score": "means.ZScore",
    "rule-fusion": "means.RuleFusion",
    "rar-explicit": "means.RarExplicit",
    "healthbench": "points.HealthBench",
    "all-or-nothing": "means.AllOrNothing",
    "gdpo": "gdpo.GDPO",
    "gear": "points.GEAR",
    "focal": "weights.Focal",
    "sa-mrpo": "weights.SAMRPO",
    "dvao": "weights.DVAO",
    "amrp": "weights.AMRP",
    "pow3r": "weights.POW3R",
    "rlrr": "ranks.RLRR",
    "rvpo": "means.RVPO",
    "worst-case": "means.WorstCase",
    "mean-variance": "means.MeanVariance",
    "chebyshev": "means.Chebyshev",
    "geometric": "means.Geometric",
    "log-sigmoid": "means.LogSigmoid",
    "lexicographic": "means.Lexicographic",
    "borda": "ranks.Borda",
    "copeland": "ranks.Copeland",
    "run-quantile": "ranks.RunQuantile",
    "rlvr2": "rlvr2.RLVR2",
}

# Other names of rules, some with constants.
ALIASES = {
    "cardinal": "weighted-mean",
    "normalised-cardinal": "z-score",
    "rlrr-hybrid": "rlrr:hybrid=true",
}

CONTROL_OPTIONS = ("adjust", "pool", "adjust_criteria", "seed")
"""Options of attribute control, which every rule takes; see `RLVR2` and `Controlled`."""

_NAME = re.compile(r"[a-z0-9][a-z0-9.-]*")
_WORDS = {"true": True, "false": False, "none": None, "inf": float("inf")}
_R = TypeVar("_R", bound=type)


@only_our_errors
def find_rule(expression: str | Rule, *, gate: Gate | None = None, **parameters: Any) -> Rule:
    """Return the rule that a name or an expression stands for; a rule object is returned unchanged.

    gate: options of the gate of "+" (threshold, floor, shape, missing); its criteria come from the batch.
    parameters: constants of the rule; in a composition, of the first one. Every rule also takes those of attribute
        control (`CONTROL_OPTIONS`).
    """
    if isinstance(expression, str):
        text = expression.strip()
        is_gated = text.endswith("+")
    else:
        has_parts = hasattr(expression, "name") and hasattr(expression, "bounded")
        if isinstance(expression, type) or not callable(expression) or not has_parts:
            raise InvalidInput(
                "find_rule",
                "rule",
                allowed="a name such as 'rlvr2+', or a rule",
                got=brief(expression),
                remedy="See `rubrank help rules`.",
            )
        text = expression.name
        is_gated = False
    if gate is not None and not is_gated:
        raise InvalidInput(
            "find_rule",
            "gate",
            allowed="given for a name with '+'",
            got=text,
            remedy=f"Ask for {text + '+'!r}.",
        )
    if not isinstance(expression, str):
        return expression
    first, star, second = text.removesuffix("+").partition("*")
    rule: Any = _parse_rule(first, parameters)
    if star:
        from rubrank.fusion.rlvr2 import Composed

        weighing: Any = _parse_rule(second, {})
        rule = Composed(rule, weighing)
    if is_gated:
        from rubrank.fusion.gate import Gated

        rule = Gated(rule) if gate is None else Gated(rule, gate)
    return rule


@only_our_errors
def rule_names() -> tuple[str, ...]:
    """Return all rules in the order of the table, then those of plug-ins and your own; see also `ALIASES`."""
    load_plugins()
    return tuple(RULES)


@overload
def rule(name: _R, /) -> _R: ...


@overload
def rule(name: str | None = None) -> Callable[[_R], _R]: ...


def rule(name: Any = None) -> Any:
    """Register a rule's class under `name`, or under the `name` that it has: `@rule`, `@rule("best-case")`."""

    def register(chosen_name: str | None, rule_type: Any) -> Any:
        rule_name = getattr(rule_type, "name", None) if chosen_name is None else chosen_name
        remedy = "See `rubrank help extending`."
        if not isinstance(rule_type, type):
            raise InvalidInput(
                "rule",
                "class",
                allowed="a class called with a batch",
                got=describe_object(rule_type),
                remedy=remedy,
            )
        if not isinstance(rule_name, str) or not _NAME.fullmatch(rule_name):
            allowed = "a text of small letters, digits, dots and hyphens"
            raise InvalidInput("rule", "name", allowed=allowed, got=repr(rule_name), remedy=remedy)
        if not hasattr(rule_type, "bounded") or not any(
            "__call__" in vars(base) for base in rule_type.__mro__
        ):
            raise InvalidInput(
                "rule",
                "class",
                allowed="one with `bounded` and `__call__(batch)`",
                got=describe_object(rule_type),
                remedy=remedy,
            )
        check_call("rule", rule_type.__call__, "self", "batch")
        registered = RULES.get(rule_name)
        is_unloaded = isinstance(registered, str)  # a rule of the library that nobody has used
        check_free(
            "rule",
            rule_name,
            rule_type,
            find=lambda _: None if is_unloaded else registered,
            reserved=is_unloaded or rule_name in ALIASES,
        )
        if chosen_name is not None:
            rule_type.name = chosen_name  # type: ignore[attr-defined]
        RULES[rule_name] = rule_type
        return rule_type

    return make_decorator(register, name)


def list_parameters(expression: str) -> set[str]:
    """Return the parameters that `find_rule` takes for an expression: constants of its first rule, and of control."""
    first = expression.removesuffix("+").partition("*")[0]
    rule_type, _ = _find_class(first)
    return {*_find_constants(rule_type), *CONTROL_OPTIONS}


def _find_class(text: str) -> tuple[type, list[str]]:
    """Split "focal:gamma=2" into the class of the rule and the constants written after its name: ["gamma=2"]."""
    written_name, *written_constants = text.split(":")
    name = written_name.strip().lower().replace("_", "-")
    name, *alias_constants = ALIASES.get(name, name).split(":")
    if name not in RULES:
        load_plugins()
    if name not in RULES:
        raise UnknownName.of("find_rule", "rule", name, [*RULES, *ALIASES])
    rule_type = RULES[name]
    if isinstance(rule_type, str):
        module, class_name = rule_type.split(".")
        package = "rubrank.fusion" if module == "rlvr2" else "rubrank.fusion.rules"
        rule_type = getattr(importlib.import_module(f"{package}.{module}"), class_name)
        RULES[name] = rule_type
    return rule_type, alias_constants + written_constants


def _parse_rule(text: str, parameters: dict[str, Any]) -> Rule:
    """Make a single rule from its name, the constants written after it, and the parameters of `find_rule`."""
    rule_type, written_constants = _find_class(text)
    name = rule_type.name  # type: ignore[attr-defined]
    constants = dict(_parse_constant(name, part) for part in written_constants) | parameters
    defaults = _find_constants(rule_type)
    control = {}
    if "adjust" not in defaults:  # RLVR² controls attributes itself
        control = {key: constants.pop(key) for key in CONTROL_OPTIONS if key in parameters}
    for key, value in constants.items():
        if key not in defaults and not defaults:
            raise InvalidInput(
                name, "parameters", allowed="none", got=repr(key), remedy="It has no constants."
            )
        if key not in defaults:
            raise UnknownName.of(name, "parameter", key, list(defaults))
        default = defaults[key]
        is_number = isinstance(default, int | float)
        if is_number and isinstance(value, str) and not is_from_library(rule_type):
            allowed = "true or false" if isinstance(default, bool) else "a number"
            raise InvalidInput(name, key, allowed=allowed, got=repr(value))
    for key, default in defaults.items():
        if default is inspect.Parameter.empty and key not in constants:
            raise InvalidInput(
                name,
                key,
                allowed="given, as it has no default",
                got="nothing",
                remedy=f"Such as {name}:{key}=1.",
            )
    rule: Rule = rule_type(**constants)
    if control:
        from rubrank.fusion.control.linear import Controlled

        rule = Controlled(rule, **control)
    return rule


@cache
def _find_constants(rule_type: type) -> dict[str, Any]:
    """Return the constants that can be set, with their defaults. Fields with repr=False hold state."""
    hidden: set[str] = set()
    if is_dataclass(rule_type):
        hidden = {field.name for field in fields(rule_type) if not field.repr}
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(rule_type).parameters.values()
    return {p.name: p.default for p in parameters if p.kind in kinds and p.name not in hidden}


def _parse_constant(rule_name: str, text: str) -> tuple[str, Any]:
    """Parse "gamma=2" into ("gamma", 2); the value may also be true, none, inf or another word."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or not key or not value:
        remedy = "Such as focal:gamma=2:eps=0.1."
        raise InvalidInput(
            rule_name, "parameter", allowed="of the form name=value", got=repr(text), remedy=remedy
        )
    if value.lower() in _WORDS:
        return key, _WORDS[value.lower()]
    try:
        return key, ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return key, value  # a word, such as method=exact
