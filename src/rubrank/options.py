"""The options of a reward, declared once for Python, files, trainers, the service and the command line.

    RewardOptions        how scores become rewards: the rule and its constants, the gate, the attributes
    ├── FuseOptions      + what a table of scores leaves open about its criteria: weight, margin, direction, layer
    └── EngineOptions    + what grades the rollouts of a training run: rubric, judges, workers, records

    >>> options = FuseOptions(rule="focal+", weight={"Facts": 2}, gate={"lift": 0})
    >>> options.weight, options.gate.lift
    ({'Facts': 2.0}, 0.0)

Each field has a type, a default and a description; the command line makes its flags and its help from them. An option
that nobody sets leaves the rule's own constant alone, so `rlvr2:prior=2` keeps its prior; `model_fields_set` says
which options were set. This module only describes options: `rubrank.fusion.options` makes a rule of them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping
from os import PathLike
from typing import (
    TYPE_CHECKING,
    Annotated,
    Any,
    Literal,
    Self,
    TypedDict,
    TypeVar,
    get_args,
    get_origin,
)

from pydantic import (
    BaseModel,
    Field,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
    field_validator,
    model_validator,
)

from rubrank._choices import (
    LARGEST_PRIOR,
    SMALLEST_PRIOR,
    Draw,
    Edition,
    GateMissing,
    GateShape,
    Outcomes,
    Penalties,
    Pool,
    Scale,
    Span,
    Thinking,
    Width,
    Wins,
)
from rubrank._plain import Strict, explain_complaints
from rubrank.errors import InvalidInput, UnknownOption

_PERCENT = re.compile(r"(\d+(?:\.\d+)?)\s*%")  # "70%", "12.5 %"
_ModelT = TypeVar("_ModelT", bound=BaseModel)
_Positive = Annotated[float, Field(gt=0.0, allow_inf_nan=False)]
_NotNegative = Annotated[float, Field(ge=0.0, allow_inf_nan=False)]


def read_options(
    model: type[_ModelT],
    owner: str,
    values: Mapping[str, Any],
    page: str = "frameworks",
    strict: bool = False,
) -> _ModelT:
    """Validate options as a model. Raises InvalidInput, about `owner`, for an unknown name or a wrong value.

    page: the page of the documentation that errors refer to. strict: do not read numbers from text.
    """
    accepts_hyphens = issubclass(model, Options)
    names = [name.replace("-", "_") if accepts_hyphens else name for name in values]
    check_keywords(owner, names, model.model_fields)
    try:
        return model.model_validate(dict(values), strict=strict)
    except ValidationError as error:
        raise explain_complaints(error, owner, model, page)[0] from None


def check_keywords(owner: str, names: Iterable[str], known: Iterable[str]) -> None:
    """Raise for the first keyword that `owner` does not have, with the nearest one that it has."""
    allowed = set(known)
    for name in names:
        if name not in allowed:
            raise UnknownOption.of(owner, "keyword", name, allowed)


def read_pairs(name: str, texts: Iterable[Any]) -> dict[str, str]:
    """Read the entries `NAME=VALUE` of an option as a mapping. Raises InvalidInput if a name is repeated."""
    values: dict[str, str] = {}
    for text in texts:
        # At the last "=": the name of a criterion may contain one, a number may not.
        key, equals, value = str(text).rpartition("=")
        if not equals or not key:
            raise InvalidInput("options", name, allowed="NAME=VALUE", got=repr(text))
        if key in values:
            raise InvalidInput(
                "options",
                name,
                allowed="one value for each name",
                got=f"two for {key!r}",
            )
        values[key] = value
    return values


def _parse_adjustment(field: str, text: str) -> dict[str, Any]:
    """Parse `remove` or `attenuate:0.5:uniform` into fields of AttributeOptions."""
    word, *parts = text.split(":")
    if word == "remove" and not parts:
        return {"attenuate": None}
    try:
        if word == "attenuate" and 1 <= len(parts) <= 2:
            share = float(parts[0])
            draw = parts[1] if len(parts) == 2 else "fixed"
            if 0.0 <= share <= 1.0 and draw in get_args(Draw):
                return {"attenuate": share, "draw": draw}
    except ValueError:
        pass
    raise InvalidInput(
        "options",
        field,
        allowed="remove or attenuate:NUMBER[:fixed|bernoulli|uniform] with a number from 0 to 1",
        got=repr(text),
        remedy="For example attenuate:0.5.",
    )


# ---------------------------------------------------------------------------------------------------------- the options


def option(default: Any, description: str, metavar: str | None = None, **limits: Any) -> Any:
    """Make a field with its default and description. metavar: what help shows for the value, such as NAME=NUMBER."""
    extra: dict[str, Any] = {"metavar": metavar}
    return Field(default, description=description, json_schema_extra=extra, **limits)


if TYPE_CHECKING:
    OptionsBase = Strict
else:

    class _OptionsType(type(BaseModel)):
        """Makes `FuseOptions(prior=-1)` raise our own errors instead of pydantic's."""

        def __call__(cls, **values: Any) -> Any:
            return read_options(cls, cls.__name__, values)

    class OptionsBase(Strict, metaclass=_OptionsType):
        """Hidden from type checkers: pydantic's own metaclass tells them the fields."""


class Options(OptionsBase):
    """A model that also accepts what people write in files and on command lines.

    Keys may have hyphens, a single name may stand for a list of names, and `NAME=VALUE` for an entry of a mapping.
    """

    @model_validator(mode="before")
    @classmethod
    def _accept_written_forms(cls, data: Any) -> Any:
        """Replace hyphens in keys, wrap a single name in a list, and read `NAME=VALUE` as an entry."""
        if not isinstance(data, Mapping):
            return data
        values = {}
        for key, value in data.items():
            name = str(key).replace("-", "_")
            if name not in cls.model_fields:
                values[key] = value
                continue
            field_type = get_origin(cls.model_fields[name].annotation)
            if field_type in (tuple, dict) and isinstance(value, str):
                value = [value]
            if field_type is dict and isinstance(value, list | tuple):
                value = read_pairs(name, value)
            values[name] = value
        return values


class GateOptions(Options):
    """Constants of the gate, the `+` behind a rule; see docs/gates.md."""

    threshold: float = option(
        1.0, "Mean of the low-quality scores above which the reward is not reduced.", gt=0.0, le=1.0
    )
    floor: float = option(0.5, "Factor at a low-quality mean of 0.", ge=0.0, le=1.0)
    shape: GateShape = option("linear", "Shape of the factor between 0 and the threshold.")
    missing: GateMissing = option("pass", "What a missing score of a gate criterion does.")
    lift: float = option(
        0.25, "Reward of the worst rollout that passes; 0 is the paper's gate.", ge=0.0, lt=1.0
    )


class AttributeOptions(Options):
    """An attribute that is controlled from step `start` on: `tokens`, or `tokens=attenuate:0.5` in one text."""

    name: str = option(..., "Name of the attribute, such as tokens or markdown.")
    attenuate: float | None = option(
        None,
        "Share of a positive influence that is taken out; by default all influence is removed.",
        ge=0.0,
        le=1.0,
    )
    draw: Draw = option("fixed", "How the share is drawn for each group.")
    start: int | str = option(
        0, "First step at which it is controlled; in a training job also a share, such as 70%."
    )

    @model_validator(mode="before")
    @classmethod
    def _accept_text(cls, value: Any) -> Any:
        """Read `tokens` and `tokens=attenuate:0.5`."""
        if not isinstance(value, str):
            return value
        name, equals, rule = value.rpartition("=")
        if not equals:
            return {"name": value}
        return {"name": name, **_parse_adjustment("attributes", rule)}

    @field_validator("start", mode="before")
    @classmethod
    def _check_start(cls, value: Any) -> Any:
        """Refuse a negative step, and a share that is not from 0% to 100%."""
        percent = _PERCENT.fullmatch(value) if isinstance(value, str) else None
        is_step = isinstance(value, int) and not isinstance(value, bool) and value >= 0
        is_share = percent is not None and float(percent[1]) <= 100.0
        if not is_step and not is_share:
            raise InvalidInput(
                "options",
                "start",
                allowed="a step ≥ 0, or a share of the run",
                got=repr(value),
                remedy="Such as 70%.",
            )
        return value

    def start_step(self, steps: int | None) -> int:
        """Return the first step at which the attribute is controlled.

        steps: of the whole run; None if the trainer does not know. Raises InvalidInput if `start` is a share of the run
        then.
        """
        if isinstance(self.start, int):
            return self.start
        if steps is None:
            raise InvalidInput(
                "options",
                "start",
                allowed="a step ≥ 0",
                got=repr(self.start),
                remedy="Only `rubrank train` knows how long a run is.",
            )
        share = float(self.start.rstrip("% ")) / 100.0
        # 70% of 10 steps is step 7, even if 0.7 × 10 is rounded up.
        return math.ceil(share * steps - 1e-6)


def _accept_objects(value: Any, validate: ValidatorFunctionWrapHandler) -> Any:
    """Check plain data; let a `Gate`, an `Attribute` or a `Control` through, which checked itself when it was made."""
    if value is None:
        return validate({})
    if isinstance(value, str | int | float | list | tuple | Mapping | Options):
        return validate(value)
    return value


class RewardOptions(Options):
    """How scores become rewards."""

    rule: Any = option(
        "rlvr2+", "The rule, such as rlvr2+, gdpo+ or focal:gamma=2; + adds the gate.", "RULE"
    )
    gate: Annotated[GateOptions, WrapValidator(_accept_objects)] = option(
        GateOptions(), "Constants of the gate: threshold, floor, shape, missing, lift."
    )
    attributes: tuple[Annotated[AttributeOptions, WrapValidator(_accept_objects)], ...] = option(
        (),
        "Attribute whose influence is removed, such as tokens; tokens=attenuate:0.5 removes half of it; repeatable.",
        "NAME",
    )
    adjust: str = option(
        "remove",
        "For attributes that do not say it: remove, or attenuate:0.5[:fixed|bernoulli|uniform].",
        "RULE",
    )
    pool: Pool | None = option(
        None,
        "What influences are estimated over: the batch, the run of batches so far, or each group by itself as in the "
        "paper. Default: batch for tables, run for trainers.",
    )
    adjust_criteria: tuple[str, ...] | Literal["all"] | None = option(
        None,
        "Criteria whose verdicts are adjusted, or all. Default: those that no program decided.",
        "NAME",
    )
    prior: float = option(
        1.0, "Precision of the prior on utilities.", ge=SMALLEST_PRIOR, le=LARGEST_PRIOR
    )
    attribute_prior: float = option(
        1.0, "Precision of the prior on influences.", ge=SMALLEST_PRIOR, le=LARGEST_PRIOR
    )
    span: Span = option(
        "model",
        "Utilities as fitted, or each criterion's span (unit) or deviation (sd) scaled to 1.",
    )
    wins: Wins = option(
        "ordinal",
        "ordinal: only who is better counts. graded: larger differences of the scores count more.",
    )
    tau: float = option(
        0.5,
        "With graded wins: share of the width from which a difference counts fully.",
        gt=0.0,
        le=1.0,
    )
    width: Width = option(
        "domain",
        "With graded wins: the width of the domain, or the range of the run's recent scores.",
    )
    scale: Scale = option(
        "ranking",
        "ranking: rewards from 0 to 1. utility: advantages, small where the criteria disagree.",
    )
    edition: Edition | None = option(
        None,
        "paper: the paper's settings: span model, wins ordinal, lift 0, and pool group if attributes are controlled.",
    )
    outcomes: Outcomes = option(
        "hard",
        "hard: compare scores. soft: compare how likely each level is, where judges said so.",
    )
    retest: dict[str, _NotNegative] = option(
        {},
        "For soft outcomes: how much the scores of a criterion vary from one judging to the next, as measured by "
        "`rubrank judge audit`; repeatable.",
        "NAME=NUMBER",
    )
    seed: int = option(0, "Seed of the draws of attenuate.")
    penalties: Penalties = option(
        "rank", "Under a rule without +: rank by low-quality criteria, or ignore them."
    )

    @field_validator("rule")
    @classmethod
    def _check_rule(cls, value: Any) -> Any:
        """Refuse anything but a name or a rule; the name is looked up later, when the rule is made."""
        if not isinstance(value, str) and not callable(value):
            raise InvalidInput(
                "options",
                "rule",
                allowed="a name such as 'rlvr2+', or a rule",
                got=repr(value),
                remedy="See `rubrank help rules`.",
            )
        return value

    @field_validator("attributes", mode="before")
    @classmethod
    def _accept_one_attribute(cls, value: Any) -> Any:
        is_list = isinstance(value, Iterable) and not isinstance(value, str | Mapping)
        return tuple(value) if is_list else (value,)

    @field_validator("adjust")
    @classmethod
    def _check_adjust(cls, value: str) -> str:
        _parse_adjustment("adjust", value)
        return value

    @field_validator("adjust_criteria", mode="before")
    @classmethod
    def _read_adjust_criteria(cls, value: Any) -> Any:
        """Wrap a single name in a list; ["all"] is "all"."""
        if isinstance(value, str):
            value = [value]
        if isinstance(value, list | tuple) and list(value) == ["all"]:
            return "all"
        return value

    @property
    def attribute_names(self) -> tuple[str, ...]:
        """Names of the attributes, in their order."""
        return tuple(attribute.name for attribute in self.attributes)

    def with_attributes(self, names: Iterable[str]) -> Self:
        """Return the same options with these attributes; one that was set already keeps its adjustment."""
        attributes_by_name = {attribute.name: attribute for attribute in self.attributes}
        attributes = tuple(
            attributes_by_name.get(name, AttributeOptions(name=name)) for name in names
        )
        return self.model_copy(update={"attributes": attributes})

    def adjustment_of(self, attribute: AttributeOptions) -> tuple[float, Draw] | None:
        """Return the share of an attribute's influence to take out, and how it is drawn; None if all is removed."""
        share = attribute.attenuate
        draw = attribute.draw
        if "attenuate" not in attribute.model_fields_set:
            default = _parse_adjustment("adjust", self.adjust)
            share = default["attenuate"]
            if "draw" not in attribute.model_fields_set:
                draw = default.get("draw", "fixed")
        return None if share is None else (share, draw)


class FuseOptions(RewardOptions):
    """Options for a table of scores: those of a reward, and what the table leaves open about its criteria."""

    weight: dict[str, _Positive] = option(
        {}, "Weight of a criterion, > 0; repeatable.", "NAME=NUMBER"
    )
    margin: dict[str, _NotNegative] = option(
        {}, "Differences of at most this much are ties; repeatable.", "NAME=NUMBER"
    )
    domain: dict[str, tuple[float, float]] = option(
        {},
        "Scale of a criterion in a table without a rubric, by default 0:1; repeatable.",
        "NAME=LOW:HIGH",
    )
    lower: tuple[str, ...] = option((), "Criterion on which lower is better; repeatable.", "NAME")
    global_quality: tuple[str, ...] = option(
        (),
        "Criterion that must have its best score: otherwise the reward is 0; repeatable.",
        "NAME",
    )
    low_quality: tuple[str, ...] = option(
        (), "Criterion that reduces the reward if its score is below 1; repeatable.", "NAME"
    )
    # Not an option of trainers: in the file of a training job, `model` is the policy.
    model: Any = option(
        "bradley-terry", "Utility model: bradley-terry, thurstone, borda, or one of your own."
    )

    @model_validator(mode="after")
    def _check_layers(self) -> Self:
        """Refuse a criterion that is in both layers of gates."""
        both = sorted(set(self.global_quality) & set(self.low_quality))
        if both:
            raise InvalidInput(
                "options",
                "global_quality",
                allowed="of other criteria than `low_quality`",
                got=f"{both[0]!r} in both",
            )
        return self

    @field_validator("domain", mode="before")
    @classmethod
    def _split_domains(cls, value: Any) -> Any:
        """Split `1:5` into its two numbers."""
        if not isinstance(value, Mapping):
            return value
        return {
            name: text.split(":") if isinstance(text, str) else text for name, text in value.items()
        }

    @field_validator("domain")
    @classmethod
    def _check_domains(
        cls, value: dict[str, tuple[float, float]]
    ) -> dict[str, tuple[float, float]]:
        """Refuse infinite bounds, and a lower bound that is not below the upper one."""
        for name, (low, high) in value.items():
            if not -math.inf < low < high < math.inf:
                raise InvalidInput(
                    "options",
                    "domain",
                    allowed="LOW:HIGH, two finite numbers of which the second is larger",
                    got=f"{low:g}:{high:g} for {name!r}",
                    remedy="For example Style=1:5.",
                )
        return value


class EngineOptions(RewardOptions):
    """Options of a reward that grades rollouts itself, step after step: those of trainers and of the service."""

    rubric: Any = option(
        None, "Criteria applied to every response: a file, a preset, or the criteria themselves."
    )
    judges: Any = option(
        None, "Judges for criteria that no program decides: a file, or its content."
    )
    workers: int | None = option(
        0, "Worker processes; 0 grades in the trainer's own process.", ge=0
    )
    cache: Any = option(None, "Cache file of verdicts.")
    records: Any = option(
        None,
        "File to which every group of every step is appended: .jsonl, .jsonl.gz or .jsonl.zst.",
    )
    alarm: Literal["warn", "stop", "off"] = option(
        "warn",
        "At signs of reward hacking: log a warning, also stop the run (TRL only), or look for none.",
    )
    thinking: Thinking = option(
        "auto",
        "Whether completions start inside the reasoning, because the chat template opened it. prefilled: always; tags: "
        "never; auto: if the prompt ends in the opening tag.",
    )

    @field_validator("cache")
    @classmethod
    def _check_cache(cls, value: Any) -> Any:
        """Refuse anything but a path."""
        if value is not None and not hasattr(value, "__fspath__") and not isinstance(value, str):
            raise InvalidInput("options", "cache", allowed="a file", got=repr(value))
        return value


class EngineKeywords(TypedDict, total=False):
    """The options of `EngineOptions` but rubric and rule, as keywords that editors and type checkers know.

    A function that takes `**options: Unpack[EngineKeywords]` passes them to `EngineOptions`, which has the defaults and
    the descriptions. A test compares the two.
    """

    gate: Any
    attributes: Iterable[Any]
    adjust: str
    pool: Pool | None
    adjust_criteria: Iterable[str] | None
    prior: float
    attribute_prior: float
    span: Span
    wins: Wins
    tau: float
    width: Width
    scale: Scale
    edition: Edition | None
    outcomes: Outcomes
    retest: Mapping[str, float]
    seed: int
    penalties: Penalties
    judges: Any
    workers: int | None
    cache: str | PathLike[str] | None
    records: Any
    alarm: Literal["warn", "stop", "off"]
    thinking: Thinking
