"""The contract of a verifier: a program that decides a criterion.

    @verifier("Shouting", family="style", domain=BINARY, version=1)
    def shouting(text: Text, *, most: int = 3) -> Answer:
        '''At most `most` words in capitals.

        Passes: "OK, fine." Fails: "THIS IS NOT FINE AT ALL". Not covered: scripts without capitals (always pass).
        '''
        n = sum(word.isupper() and len(word) > 1 for word in text.words)
        return n <= most, f"{n} words in capitals, at most {most} allowed"

The first parameter's annotation says what the function wants to see: `Text` (the answer without reasoning; also what it
gets without an annotation), `str` (the same as a string), `Rollout` (everything: prompt, turns, tools, metadata), or
`Group` (all rollouts of the query; it returns an answer for each, in their order, once the group is complete).
The keyword parameters are the criterion's parameters; pydantic checks their values against the annotations before
anything runs. The result is a value and a reason: "3 bullets, 4 required". A value alone is enough, and `@verifier`
without a name takes that of the function: `@verifier def polite(text): return "please" in text`.

- A value is a number of the declared domain, or a bool (1 or 0). Without `domain=` that is 0 to 1, and 0 or 1 where the
  function is annotated `-> bool` or is the library's.
- `missing(reason)` says that the criterion cannot be decided; so does None or an exception. It never becomes a score.
- `compat: Compat` as a keyword parameter makes two readings available: "fixed" (what the instruction says; default) and
  "upstream" (the verdict of the public benchmark's checker, quirks included).
- `version` is raised whenever a verdict could change: caches are keyed by it.
- Examples live beside the code, in `verifiers/examples/<family>.yaml`; tests run them all, the docs show them.

A verifier is registered when its module is imported; the library's are imported when one is first looked up.
"""

from __future__ import annotations

import importlib.util
import inspect
import math
import warnings
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import cache, cached_property, partial
from importlib.resources import files
from reprlib import repr as brief
from typing import Any, Literal, TypeAlias, TypeVar, get_type_hints, overload

from pydantic import BaseModel, ConfigDict, ValidationError, create_model

from rubrank._plain import MOST_PARAMETERS, Strict, check_bounds, describe_allowed, word_set
from rubrank._plugins import (
    check_free,
    describe_object,
    find_failed_line,
    find_importing_module,
    is_async,
    is_from_library,
    load_plugins,
    make_decorator,
)
from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.distribution import Distribution
from rubrank.verifiers.domain import BINARY as BINARY
from rubrank.verifiers.domain import TERNARY as TERNARY
from rubrank.verifiers.domain import UNIT as UNIT
from rubrank.verifiers.domain import Domain as Domain
from rubrank.verifiers.domain import Layer as Layer
from rubrank.verifiers.domain import discrete as discrete

LONGEST_REASON = 500  # characters
_MOST_ERRORS_SHOWN = 5  # about further parameters, in one message

Compat: TypeAlias = Literal["fixed", "upstream"]
Mode: TypeAlias = Literal["strict", "loose"]


@dataclass(frozen=True, slots=True)
class Verdict:
    """A value with its reason; value None = missing, and the reason says why."""

    value: float | None
    reason: str
    probabilities: Distribution = field(default=(), repr=False)
    """How likely each level is, if the judge says so: (value, probability) pairs, lowest value first."""

    @property
    def score(self) -> float:
        """The value as a number; NaN if missing."""
        return math.nan if self.value is None else self.value


Answer: TypeAlias = Verdict | tuple[bool | float, str]
PlainVerdict: TypeAlias = tuple[float | None, str]
"""The value (None if missing) and the reason of a verdict, as a tuple: faster to make and to pickle than `Verdict`."""


# How the reason of a missing score begins, if the program acts on it; details follow after a colon. Score files and
# reply caches contain these texts, so they must not change.
NEEDS_JUDGE = "needs a judge"
"""No verifier could decide: judges are asked."""
NOT_ASKED = "not asked"
"""No judge was asked, because a gate has stopped the rollout. Such a score does not count as missing."""
REFUSED = "refused"
"""The judge declines; it would decline again, so the reply is cached."""
OUTAGE = "outage"
"""No endpoint of the judge answered."""


def missing(reason: str) -> Verdict:
    """Return a verdict that could not be decided: no value, and the reason."""
    return Verdict(None, reason)


class _Parameters(Strict):
    """The base of every verifier's parameters."""

    model_config = ConfigDict(allow_inf_nan=False)


@dataclass(frozen=True)
class Verifier:
    """A registered verifier; `verify(rollout, params)` gives a `Verdict` and never raises."""

    name: str
    function: Callable[..., Any]
    family: str
    domain: Domain
    version: int
    layer: Layer = "quality"
    how: Literal["rule", "judge", "both"] = "rule"
    cost: Literal["cheap", "process"] = "cheap"
    """"process": it starts a subprocess (sandbox, mathematics) and is graded apart from the cheap ones."""
    languages: tuple[str, ...] = ()
    """Languages it is made for; empty: any."""
    wants: type = field(default=Text)
    """What the function is called with: Text, str, Rollout or Group."""
    check: Callable[[Any], str | None] | None = None
    """Returns what is wrong with parameters that are valid one by one: none is given where one of three is needed."""
    needs: Callable[[Any], tuple[str, str] | None] | None = None
    """Returns the package that these parameters need, and its extra, such as ("math_verify", "math")."""
    home: str = ""
    """The module whose import registers it, for worker processes; "" if only this process has it."""

    @cached_property
    def parameters(self) -> type[BaseModel]:
        """Return the parameters, as a pydantic model."""
        hints = _read_type_hints(self.function, include_extras=True)
        # The first parameter is the response, not a parameter of the criterion.
        _, *parameters = inspect.signature(self.function).parameters.values()
        fields: dict[str, Any] = {}
        for parameter in parameters:
            is_named = parameter.kind in (
                parameter.KEYWORD_ONLY,
                parameter.POSITIONAL_OR_KEYWORD,
            )
            if is_named and parameter.name != "compat":
                # `...` makes a field of pydantic required.
                default = ... if parameter.default is parameter.empty else parameter.default
                fields[parameter.name] = (hints.get(parameter.name, Any), default)
        # A parameter may be called `schema` or `copy`, as pydantic's own methods are.
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Field name .* shadows an attribute")
            return create_model(f"{self.name} parameters", __base__=_Parameters, **fields)

    @cached_property
    def knows_compat(self) -> bool:
        """Does it have an "upstream" reading?"""
        return "compat" in inspect.signature(self.function).parameters

    @property
    def doc(self) -> str:
        """The docstring: what passes, what fails, what is not covered."""
        return inspect.getdoc(_unwrap_partial(self.function)) or ""

    def check_parameters(self, params: dict[str, Any]) -> BaseModel:
        """Return the parameters, validated; raises `InvalidInput`, which names all that are wrong."""
        owner = f"verifier {self.name!r}"
        remedy = f"See `rubrank criteria {self.name}`."
        check_bounds(params, owner, "params", MOST_PARAMETERS)
        try:
            validated = self.parameters(**params)
        except ValidationError as error:
            first, *further_errors = error.errors()
            names = ", ".join(self.parameters.model_fields) or "none"
            allowed = f"{describe_allowed(first)}; it has the parameters: {names}"
            for further in further_errors[:_MOST_ERRORS_SHOWN]:
                remedy += f" Also: {_name_parameter(further)} must be {describe_allowed(further)}."
            raise InvalidInput(
                owner,
                _name_parameter(first),
                allowed=allowed,
                got=brief(first.get("input")),
                remedy=remedy,
            ) from None
        problem = None if self.check is None else self.check(validated)
        if problem is not None:
            raise InvalidInput(owner, "params", allowed=problem, got=brief(params), remedy=remedy)
        return validated

    def find_missing_package(self, params: BaseModel) -> tuple[str, str] | None:
        """Return the package that these parameters need and the command that installs it; None if it is installed."""
        needs = None if self.needs is None else self.needs(params)
        if needs is None:
            return None
        package, extra = needs
        if importlib.util.find_spec(package) is not None:
            return None
        return package.replace("_", "-"), f"pip install 'rubrank[{extra}]'"

    def verify(
        self,
        rollout: Rollout,
        params: BaseModel,
        *,
        compat: Compat = "fixed",
        mode: Mode = "strict",
    ) -> Verdict:
        """Decide; whatever goes wrong inside is "missing" with a reason."""
        return Verdict(*self.bind(params, compat, mode)(rollout))

    def bind(
        self, params: BaseModel, compat: Compat = "fixed", mode: Mode = "strict"
    ) -> Callable[[Rollout], PlainVerdict]:
        """Return a function that gives the verdict on a rollout; what does not depend on the rollout is done once."""
        if self.sees_group:
            decide = self.bind_group(params, compat)
            return lambda rollout: decide(Group(id="", rollouts=(rollout,)))[0]
        arguments = self._list_arguments(params, compat)

        def run(rollout: Rollout) -> PlainVerdict:
            subject: Text | str | Rollout = rollout
            try:
                if self.wants is Text:
                    subject = rollout.text
                elif self.wants is str:
                    subject = rollout.answer
                return self._read_answer(self.function(subject, **arguments))
            except (Exception, SystemExit) as error:  # exit() in a verifier ends no run
                return None, _describe_failure(self.name, error)

        def run_loosely(rollout: Rollout) -> PlainVerdict:
            best = run(rollout)
            for variant in loose_variants(rollout.answer)[1:]:
                if best[0] == self.domain.high:
                    break
                verdict = run(rollout.replace_answer(variant))
                if verdict[0] is not None and (best[0] is None or verdict[0] > best[0]):
                    best = verdict
            return best

        return run_loosely if mode == "loose" and self.knows_loose else run

    @property
    def sees_group(self) -> bool:
        """Does it look at all rollouts of a query together?"""
        return self.wants is Group

    def bind_group(
        self, params: BaseModel, compat: Compat = "fixed"
    ) -> Callable[[Group], list[PlainVerdict]]:
        """Return a function that gives the verdicts on all rollouts of a group, in their order."""
        arguments = self._list_arguments(params, compat)

        def run(group: Group) -> list[PlainVerdict]:
            try:
                answers = list(self.function(group, **arguments))
                if len(answers) != len(group.rollouts):
                    raise ValueError(f"{len(answers)} answers for {len(group.rollouts)} rollouts")
                return [self._read_answer(answer) for answer in answers]
            except (Exception, SystemExit) as error:
                return [(None, _describe_failure(self.name, error))] * len(group.rollouts)

        return run

    def _list_arguments(self, params: BaseModel, compat: Compat) -> dict[str, Any]:
        """Return the keyword arguments of the function."""
        arguments = {name: getattr(params, name) for name in type(params).model_fields}
        if self.knows_compat:
            arguments["compat"] = compat
        return arguments

    @property
    def knows_loose(self) -> bool:
        """Does it have a loose mode?

        One that gets the answer (Text or str) has. One that gets the rollout has not if it is a gate, because a line
        that is left out may hide a defect, or if it starts a process, because it would start one for each variant.
        """
        if self.wants is Rollout:
            return self.layer != "global_quality" and self.cost == "cheap"
        return not self.sees_group

    def _read_answer(self, answer: Any) -> PlainVerdict:
        """Return what the function answered as a value of the domain and a short reason. Raises TypeError."""
        if isinstance(answer, Verdict):
            answer = answer.value, answer.reason
        if isinstance(answer, tuple) and len(answer) == 2:
            value = _read_number(answer[0])
            reason = answer[1]
        else:
            value = _read_number(answer)
            reason = "no verdict" if value is None else f"gives {answer}"
        if not isinstance(reason, str):
            raise TypeError(f"a reason is a text, not {brief(reason)}")
        if len(reason) > LONGEST_REASON:  # it quotes the answer
            reason = reason[:LONGEST_REASON] + " …"
        if value is None or self.domain.holds(value):
            return value, reason
        reason = (
            f"{self.name} gave {value:g}, which is not in its domain ({self.domain.description})"
        )
        return None, reason


def _describe_failure(name: str, error: BaseException) -> str:
    """Say which verifier failed, with which exception, and in which line of the user's code."""
    place = find_failed_line(error)
    return f"{name} failed: {type(error).__name__}: {error}" + (f" ({place})" if place else "")


def _name_parameter(error: Any) -> str:
    """Return the path of the parameter that an error of pydantic is about."""
    return ".".join(map(str, error["loc"])) or "parameters"


def _read_number(value: Any) -> float | None:
    """Return the value as a number, or None if it is None. Text is not read as a number: "0" is no verdict."""
    if value is None:
        return None
    if isinstance(value, bool | int | float):
        return float(value)
    # arrays and tensors have axes, single numbers of theirs have none
    has_axes = getattr(value, "ndim", 0) > 0
    if isinstance(value, str | bytes | tuple) or (has_axes and value.shape != (1,)):
        raise TypeError(
            f"a verifier returns a bool, a number, or (value, reason), not {brief(value)}"
        )
    return float(value.item() if has_axes else value)


def loose_variants(text: str) -> list[str]:
    """Return the answer, the answer without its first line, last line, or both, and these four without asterisks.

    The answer itself comes first, even if it is empty. Equal and empty variants are left out.
    """
    lines = text.split("\n")
    with_asterisks = [
        text,
        "\n".join(lines[1:]).strip(),
        "\n".join(lines[:-1]).strip(),
        "\n".join(lines[1:-1]).strip(),
    ]
    without_asterisks = [variant.replace("*", "") for variant in with_asterisks]
    variants = dict.fromkeys(with_asterisks + without_asterisks)
    return [variant for i, variant in enumerate(variants) if i == 0 or variant.strip()]


VERIFIERS: dict[str, Verifier] = {}
# Criteria that only a judge decides (rubrics/catalogue.py): a verifier of such a name would silently take their place.
JUDGED_NAMES = word_set("""
    Affectation AnswerRelevance BusinessScenarioQuality CapabilityBoundary ContextPrecision ContextRecall
    CoreFactAccuracy CoreIntentMatch CrossLingualInstruction DialogueStyle GeneralQuality InjectionResistance
    InstructionHierarchy LogicalError MaterialFaithfulness MultiTurnMemory NonCoreFactAccuracy RoleConsistency
    TaskTypeMatch TextTypeMatch UnrealisticContent
""")
_F = TypeVar("_F", bound=Callable[..., Any])


@overload
def verifier(name: _F, /) -> _F: ...


@overload
def verifier(
    name: str | None = None,
    *,
    family: str = "user",
    domain: Domain = ...,
    version: int = 1,
    layer: Layer = "quality",
    how: Literal["rule", "both"] = "rule",
    cost: Literal["cheap", "process"] = "cheap",
    languages: Iterable[str] = (),
    check: Callable[[Any], str | None] | None = None,
    needs: Callable[[Any], tuple[str, str] | None] | None = None,
) -> Callable[[_F], _F]: ...


def verifier(name: Any = None, *, languages: Iterable[str] = (), **options: Any) -> Any:
    """Register a function as the verifier `name`, or under its own name; see the top of this file."""

    def register(
        requested_name: str | None, decorated_object: Callable[..., Any]
    ) -> Callable[..., Any]:
        if requested_name is None:
            requested_name = getattr(decorated_object, "__name__", None)
        function = _find_function(decorated_object)
        is_library = is_from_library(function)
        if not is_library:
            _load_families()  # so that `check_free` sees the names of the library
        valid_name = check_free(
            "verifier",
            requested_name,
            function,
            find=lambda name: VERIFIERS[name].function if name in VERIFIERS else None,
            reserved=requested_name in JUDGED_NAMES,
        )
        hints = _read_type_hints(function)
        parameters = list(inspect.signature(function).parameters.values())
        if not parameters or parameters[0].kind is inspect.Parameter.KEYWORD_ONLY:
            raise _refuse("one whose first parameter is the response", function)
        subject_type = hints.get(parameters[0].name)
        defaults = {
            "family": "user",
            "domain": BINARY if is_library or hints.get("return") is bool else UNIT,
            "version": 1,
            "wants": subject_type if subject_type in (Rollout, Group, str) else Text,
        }
        home = function.__module__ if is_library else find_importing_module()
        VERIFIERS[valid_name] = Verifier(
            valid_name, function, languages=tuple(languages), home=home, **{**defaults, **options}
        )
        return decorated_object

    return make_decorator(register, name)


def _find_function(decorated_object: Any) -> Callable[..., Any]:
    """Return what is called with a response: the function itself, or an object of a class that needs no arguments."""
    function = decorated_object
    if isinstance(decorated_object, type) and "__call__" in dir(decorated_object):
        try:
            function = decorated_object()
        except TypeError:
            function = None
    if isinstance(function, type) or not callable(function) or is_async(function):
        raise _refuse(
            "a function of one response that is not async, or a class without arguments that has `__call__`",
            decorated_object,
        )
    return function


def _refuse(allowed: str, decorated_object: Any) -> InvalidInput:
    """Return the error about an object that cannot be a verifier."""
    return InvalidInput(
        owner="verifier",
        parameter="function",
        allowed=allowed,
        got=describe_object(decorated_object),
        remedy="See `rubrank help extending`.",
    )


def _load_families() -> None:
    import rubrank.verifiers

    rubrank.verifiers.load()


def _unwrap_partial(function: Any) -> Any:
    """Return the function that `functools.partial` wraps, or the function itself."""
    while isinstance(function, partial):
        function = function.func
    return function


def _read_type_hints(function: Callable[..., Any], include_extras: bool = False) -> dict[str, Any]:
    """Return the annotations of a function, of what `functools.partial` wraps, or of an object's `__call__`."""
    function = _unwrap_partial(function)
    plain = function if inspect.isroutine(function) else type(function).__call__
    return get_type_hints(plain, include_extras=include_extras)


def is_verifier(name: str) -> bool:
    """Is there a verifier of that name?"""
    if name not in VERIFIERS:
        _load_families()
        if name not in VERIFIERS:
            load_plugins()
    return name in VERIFIERS


def verifier_names() -> tuple[str, ...]:
    """Return the names of all verifiers: the library's, those of installed plug-ins, and your own."""
    _load_families()
    load_plugins()
    return tuple(VERIFIERS)


@only_our_errors
def find_verifier(name: str) -> Verifier:
    """Return the verifier of that name. Raises UnknownName if there is none."""
    if not is_verifier(name):
        raise UnknownName.of("find_verifier", "name", name, VERIFIERS)
    return VERIFIERS[name]


@cache
def library_examples() -> dict[str, list[dict[str, Any]]]:
    """Return the worked examples of all verifiers, by name; see verifiers/examples."""
    import yaml

    examples: dict[str, list[dict[str, Any]]] = {}
    folder = files("rubrank") / "verifiers" / "examples"
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.endswith(".yaml"):
            for name, cases in (yaml.safe_load(path.read_text(encoding="utf-8")) or {}).items():
                examples.setdefault(name, []).extend(cases)
    return examples
