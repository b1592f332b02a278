"""What can be set about a fusion, declared once: Python, TOML and YAML files and the command line read it from here.

    >>> options = FuseOptions(rule="focal+", weight={"Facts": 2}, gate_lift=0)
    >>> options.found_rule().name
    'focal+'

A field's description is its help on the command line; its name, with hyphens, is the flag and the key of a file.
Weights, margins, directions and layers are about criteria by name, and hold for every rule. `prior`, `span` and the
other options of RLVR² are refused where the rule has no such part.
"""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace
from typing import Any

from pydantic import Field

from rubrank._plain import Strict
from rubrank.errors import InvalidInput, UnknownName
from rubrank.fusion.control.adjustment import Adjustment, Pool, attenuate
from rubrank.fusion.gate import Gate, Gated, Missing, Shape
from rubrank.fusion.rlvr2 import RLVR2, Reweighted, Scale, Span
from rubrank.fusion.rule import Rule
from rubrank.fusion.rules import find_rule
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import Penalties
from rubrank.verifiers.domain import Domain

_RULE, _LENGTH, _GATE = "The rule", "Attributes", "The gate"
_OF_RLVR2 = ("pool", "adjust_criteria", "prior", "attribute_prior", "span", "model", "seed", "scale")
_OF_GATE = ("threshold", "floor", "shape", "missing", "lift")


def _field(default: Any, description: str, panel: str, metavar: str | None = None, **more: Any) -> Any:
    return Field(default, description=description, json_schema_extra={"panel": panel, "metavar": metavar}, **more)


class RankingOptions(Strict):
    """The options of a fusion that the files of trainers have too; what is not given keeps the library's default."""

    rule: str = _field("rlvr2+", "The rule, such as rlvr2+, gdpo+ or focal:gamma=2; + gates it.", _RULE)
    prior: float = _field(1.0, "Precision of the prior on utilities, default 1.", _RULE)
    span: Span = _field(
        "model", "Utilities as fitted, or each criterion's span or deviation scaled to 1.", _RULE, "model|unit|sd"
    )
    scale: Scale = _field(
        "ranking", "Rewards from 0 to 1, or advantages by how far the criteria agree.", _RULE, "ranking|utility"
    )
    penalties: Penalties = _field(
        "rank", "low_quality criteria under a rule without +, default rank.", _RULE, "rank|ignore"
    )

    def given(self, *names: str) -> dict[str, Any]:
        """Those of these options that were set."""
        return {name: getattr(self, name) for name in names if name in self.model_fields_set}

    def trained_rule(self, owner: str, gate: Gate | None = None) -> Rule:
        """The rule of a trainer with what is said here about utilities, where that is not the default."""
        fields = type(self).model_fields
        options = {name: getattr(self, name) for name in ("prior", "span", "scale")}
        changed = {name: value for name, value in options.items() if value != fields[name].default}
        rule = find_rule(self.rule, gate=gate)
        return with_options(rule, owner, **changed) if changed else rule


class FuseOptions(RankingOptions):
    """Options of a fusion; what is not given keeps the library's default."""

    weight: dict[str, float] = _field({}, "Weight of a criterion, > 0; repeatable.", _RULE, "NAME=NUMBER")
    margin: dict[str, float] = _field(
        {}, "Differences of at most this much are ties; repeatable.", _RULE, "NAME=NUMBER"
    )
    domain: dict[str, tuple[float, float]] = _field(
        {}, "Scale of a criterion in a table without a rubric, default 0:1; repeatable.", _RULE, "NAME=LOW:HIGH"
    )
    lower: tuple[str, ...] = _field((), "A criterion on which lower is better; repeatable.", _RULE, "NAME")
    model: str = _field("bradley-terry", "bradley-terry (default), thurstone or borda.", _RULE)
    attribute: tuple[str, ...] = _field(
        (), "Column whose influence is taken out, such as tokens; repeatable.", _LENGTH, "NAME"
    )
    adjust: tuple[str, ...] = _field(
        (),
        "remove (default), or attenuate:0.5[:fixed|bernoulli|uniform]; NAME=… for a single attribute.",
        _LENGTH,
        "RULE",
    )
    pool: Pool = _field(
        "batch",
        "What influences are estimated over: the batch (default), the run of batches so far, or each group by itself, "
        "exactly as in the paper; without --batch-column the file is one batch and is read into memory.",
        _LENGTH,
        "batch|run|group",
    )
    adjust_criteria: tuple[str, ...] = _field(
        (),
        "Adjust the verdicts of this criterion, also where a program decided it; repeatable, or all. "
        "Default: the criteria that no program decided.",
        _LENGTH,
        "NAME",
    )
    attribute_prior: float = _field(1.0, "Precision of the prior on influences, default 1.", _LENGTH)
    seed: int = _field(0, "Seed of the draws that attenuate makes, default 0.", _LENGTH)
    global_quality: tuple[str, ...] = _field((), "Reward 0 if this criterion is below 1; repeatable.", _GATE, "NAME")
    low_quality: tuple[str, ...] = _field((), "Smaller reward if this criterion is below 1; repeatable.", _GATE, "NAME")
    gate_threshold: float = _field(1.0, "Low-quality mean that costs nothing, default 1.", _GATE)
    gate_floor: float = _field(0.5, "Factor at a low-quality mean of 0, default 0.5.", _GATE)
    gate_shape: Shape = _field("linear", "Between the two; default linear.", _GATE, "linear|smoothstep")
    gate_missing: Missing = _field("pass", "What a missing gate score does, default pass.", _GATE, "pass|fail")
    gate_lift: float = _field(
        0.25, "Reward of the worst rollout that passes, default 0.25; 0 is the paper's gate.", _GATE
    )

    def found_rule(self, expression: str | None = None) -> Rule:
        """The rule with its options.

        expression: one of several compared rules, instead of `rule`; options that it does not have are left out.
        """
        text, alone = self.rule if expression is None else expression, expression is None
        gate = {name: value for name in _OF_GATE for value in self.given(f"gate_{name}").values()}
        if not text.strip().endswith("+"):
            gate = gate if alone else {}
        if gate and not text.strip().endswith("+"):
            flag = f"--gate-{next(iter(gate))}"
            raise InvalidInput("rubrank", flag, "given with a rule that ends in +", text, f"Ask for {text.strip()}+.")
        rule = find_rule(text, gate=Gate(**gate) if gate else None)
        options = self.given(*_OF_RLVR2)
        if options.get("adjust_criteria") == ("all",):
            options["adjust_criteria"] = "all"
        if self.attribute:
            options["adjust"] = self.adjustments()
        elif self.adjust:
            raise InvalidInput("rubrank", "--adjust", "given with --attribute", "no attribute", "Name the columns.")
        return with_options(rule, "rubrank", **options) if options and (alone or has_part(rule)) else rule

    def check_adjusted(self, criteria: Collection[str]) -> None:
        """Raise if verdicts are to be adjusted of a criterion that is not there."""
        for name in self.adjust_criteria if self.adjust_criteria != ("all",) else ():
            if name not in criteria:
                raise UnknownName.of("rubrank", "--adjust-criteria", name, criteria)

    def refuse_gate_options(self) -> None:
        """Raise if something is said about a gate, where the scores have none."""
        for name in type(self).model_fields:
            if name.startswith("gate_") and name in self.model_fields_set:
                flag, allowed = name.replace("_", "-"), "given with a gate: --global-quality or --low-quality"
                raise InvalidInput("fuse_file", f"--{flag}", allowed, "none", "Name a criterion for the gate.")

    def adjustments(self) -> list[Adjustment]:
        """One for each attribute, from `RULE` for all of them and `NAME=RULE` for one."""
        found: dict[str | None, Adjustment] = {}
        for text in self.adjust:
            name, _, rule = text.rpartition("=")
            if name and name not in self.attribute:
                raise UnknownName.of("rubrank", "--adjust", name, self.attribute)
            if (name or None) in found:
                remedy = "Say which attribute each is for: --adjust NAME=RULE."
                raise InvalidInput("rubrank", "--adjust", "one rule for each attribute", f"{text!r} on top", remedy)
            found[name or None] = _adjustment(rule)
        return [found.get(name, found.get(None, "remove")) for name in self.attribute]

    def changes(self) -> dict[str, dict[str, Any]]:
        """What is said about each criterion by name, as fields of `CriterionData`."""
        found: dict[str, dict[str, Any]] = {}
        for name, weight in self.weight.items():
            if not 0.0 < weight < math.inf:
                raise InvalidInput("FuseOptions", "weights", "finite and > 0", f"{weight:g} for {name!r}", "")
            found.setdefault(name, {})["weight"] = weight
        for name, margin in self.margin.items():
            if not 0.0 <= margin < math.inf:
                raise InvalidInput("FuseOptions", "margins", "finite and ≥ 0", f"{margin:g} for {name!r}", "")
            found.setdefault(name, {})["margin"] = margin
        for name, (low, high) in self.domain.items():
            found.setdefault(name, {})["domain"] = _domain(name, low, high)
        for name in self.lower:
            found.setdefault(name, {})["direction"] = "lower"
        for layer in ("global_quality", "low_quality"):
            for name in getattr(self, layer):
                found.setdefault(name, {})["layer"] = layer
        return found

    def criterion(self, name: str) -> str | CriterionData:
        """A column of a table that brings no rubric; its name alone where there is nothing else to say."""
        scale = self.domain.get(name)
        return name if scale is None else CriterionData(name, domain=_domain(name, *scale))

    def ranked(self, batch: ScoreBatch) -> ScoreBatch:
        """The batch as the rule is to see it."""
        return batch.without_penalties() if self.penalties == "ignore" else batch


def is_local(rule: Rule) -> bool:
    """Do the rewards of a group depend on that group alone? A rule that does not say so is given whole batches."""
    found = part_of(rule, "rule", "weighing")
    both = found, part_of(rule, "rule", "ordinal")
    return all(bool(getattr(one, "local", False)) for one in both)


def has_part(rule: Rule) -> bool:
    """Is it RLVR², alone, gated or composed?"""
    return isinstance(part_of(rule, "rule", "ordinal"), RLVR2)


def part_of(rule: Rule, *names: str) -> Any:
    """What a gated or composed rule holds under these names, down to the bottom."""
    while isinstance(rule, Gated | Reweighted):
        rule = next(getattr(rule, name) for name in names if hasattr(rule, name))
    return rule


def with_options(rule: Rule, owner: str, **options: Any) -> Rule:
    """The rule with other options of its RLVR² part; weights that remember go on remembering in the same place."""
    if isinstance(rule, Gated):
        return replace(rule, rule=with_options(rule.rule, owner, **options))
    if isinstance(rule, Reweighted):
        return replace(rule, ordinal=replace(rule.ordinal, **options))
    if isinstance(rule, RLVR2):
        return replace(rule, **options)
    what = next(iter(options), "attributes").replace("_", "-")
    allowed = f"'rlvr2', alone or composed, where {what} is given"
    raise InvalidInput(owner, "rule", allowed, repr(rule.name), "Such as 'rlvr2+' or 'rlvr2*focal+'.")


def _domain(name: str, low: float, high: float) -> Domain:
    if not -math.inf < low < high < math.inf:
        allowed = "LOW:HIGH, two finite numbers of which the second is larger"
        raise InvalidInput("FuseOptions", "domain", allowed, f"{low:g}:{high:g} for {name!r}", "")
    return Domain("continuous", (), low, high)


def _adjustment(text: str) -> Adjustment:
    word, *parts = text.split(":")
    try:
        if word == "remove" and not parts:
            return "remove"
        if word == "attenuate" and 1 <= len(parts) <= 2:
            return attenuate(float(parts[0]), *parts[1:])  # type: ignore[arg-type]
    except InvalidInput as error:
        raise InvalidInput("rubrank", "--adjust", f"attenuate:NUMBER, {error.allowed}", repr(text), "") from None
    except ValueError:
        pass
    allowed = "remove or attenuate:NUMBER[:fixed|bernoulli|uniform]"
    raise InvalidInput("rubrank", "--adjust", allowed, repr(text), "For example attenuate:0.5.")
