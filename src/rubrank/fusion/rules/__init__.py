"""The aggregation rules: scores of a batch → one number per rollout; docs/rules.md has the table.

    >>> from rubrank import ScoreBatch, find_rule
    >>> batch = ScoreBatch.of_arrays([[1, 0.5], [1, 1.0], [0, 1.0]])
    >>> find_rule("rlvr2")(batch).reward
    array([0., 1., 0.])
    >>> find_rule("focal:gamma=2+")(batch).rule
    'focal+'

A name is a small expression:

    gdpo                 a rule
    focal:gamma=2        with constants of its own, `:` between them: focal:gamma=2:eps=0.1
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

# "module.Class", or the class itself. Modules are imported when a rule is first looked up: importing all is slow.
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
    """The rule that a name or an expression stands for; a rule is returned as it is.

    gate: options of the gate of "+" (threshold, floor, shape, missing); its criteria come from the batch.
    parameters: constants of the rule; in a composition, of the first one. Every rule also takes those of attribute
        control (`CONTROL_OPTIONS`).
    """
    if not isinstance(expression, str):
        has_parts = hasattr(expression, "name") and hasattr(expression, "bounded")
        if isinstance(expression, type) or not callable(expression) or not has_parts:
            raise InvalidInput(
                "find_rule",
                "rule",
                allowed="a name such as 'rlvr2+', or a rule",
                got=brief(expression),
                remedy="See `rubrank help rules`.",
            )
    text = expression.strip() if isinstance(expression, str) else expression.name
    if gate is not None and not (isinstance(expression, str) and text.endswith("+")):
        raise InvalidInput(
            "find_rule",
            "gate",
            allowed="given for a name with '+'",
            got=text,
            remedy=f"Ask for {text + '+'!r}.",
        )
    if not isinstance(expression, str):
        return expression
    first, star, second = (part.strip() for part in text.removesuffix("+").partition("*"))
    rule = _parse_rule(first, parameters)
    if star:
        rule = _compose(rule, _parse_rule(second, {}))
    if text.endswith("+"):
        from rubrank.fusion.gate import Gated

        return Gated(rule) if gate is None else Gated(rule, gate)
    return rule


@only_our_errors
def rule_names() -> tuple[str, ...]:
    """All rules in the order of the table, then those of plug-ins and your own; ALIASES has their other names."""
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
        registered = rule_class(rule_name) if rule_name in RULES else None
        check_free("rule", rule_name, rule_type, lambda _: registered, rule_name in ALIASES)
        if chosen_name is not None:
            rule_type.name = chosen_name  # type: ignore[attr-defined]
        RULES[rule_name] = rule_type
        return rule_type

    return make_decorator(register, name)


def rule_class(name: str) -> type:
    """The class of a rule; its fields are the constants."""
    if name not in RULES:
        load_plugins()
    if name not in RULES:
        raise UnknownName.of("find_rule", "rule", name, [*RULES, *ALIASES])
    location = RULES[name]
    if not isinstance(location, str):
        return location
    module, _, class_name = location.partition(".")
    package = "rubrank.fusion" if module == "rlvr2" else "rubrank.fusion.rules"
    rule_type: type = getattr(importlib.import_module(f"{package}.{module}"), class_name)
    RULES[name] = rule_type
    return rule_type


def list_parameters(expression: str) -> set[str]:
    """The parameters that `find_rule` takes for an expression: constants of its first rule, and those of control."""
    first = expression.strip().removesuffix("+").partition("*")[0]
    return {*_find_constants(_split_name(first)[0]), *CONTROL_OPTIONS}


def _split_name(text: str) -> tuple[type, list[str]]:
    """Split "focal:gamma=2" into the class of the rule and the constants that are written behind its name."""
    written_name, *written_constants = text.split(":")
    name = written_name.strip().lower().replace("_", "-")
    name, *alias_constants = ALIASES.get(name, name).split(":")
    return rule_class(name), alias_constants + written_constants


def _parse_rule(text: str, parameters: dict[str, Any]) -> Rule:
    """A single rule with its constants, such as "focal:gamma=2"."""
    rule_type, written_constants = _split_name(text)
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
    """The constants that can be set, with their defaults. Fields with repr=False hold state and cannot be set."""
    hidden = (
        {field.name for field in fields(rule_type) if not field.repr}
        if is_dataclass(rule_type)
        else ()
    )
    kinds = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    parameters = inspect.signature(rule_type).parameters.values()
    return {p.name: p.default for p in parameters if p.kind in kinds and p.name not in hidden}


def _parse_constant(rule_name: str, text: str) -> tuple[str, Any]:
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


def _compose(first: Rule, second: Rule) -> Rule:
    """RLVR² with the weights or the scores of another rule."""
    from rubrank.fusion.rlvr2 import RLVR2, Composed
    from rubrank.fusion.rule import Rescoring, Reweighting

    if not isinstance(first, RLVR2):
        raise InvalidInput(
            "find_rule",
            "rule before '*'",
            allowed="'rlvr2'",
            got=repr(first.name),
            remedy="Such as 'rlvr2*focal'.",
        )
    if not isinstance(second, Reweighting | Rescoring):
        reweighting = "'focal', 'sa-mrpo', 'dvao', 'amrp', 'pow3r'"
        allowed = f"one that re-weights criteria, such as {reweighting}, or changes scores: 'gear'"
        raise InvalidInput("find_rule", "rule after '*'", allowed=allowed, got=repr(second.name))
    return Composed(first, second)
