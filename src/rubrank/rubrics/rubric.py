"""Rubrics: a `Rubric` is a list of `Criterion`, which together say what a good response is.

    id: essay
    version: 3
    extends: [gates]                      # presets, or other rubric files
    criteria:
      - name: WordCount                   # a verifier of that name decides
        params: {relation: at least, count: 300}
      - name: Structure
        verifier: ParagraphCount          # … or of another name
        params: {relation: exactly, count: 3}
        weight: 2
      - name: Persuasive                  # a judge decides
        question: Would a sceptical reader be moved by the argument?
        anchors: {0: no, 1: in part, 2: yes}    # the scale in your own words

The same in TOML or JSON; `json_schema()` is for editors. Loading checks everything that can be known without a
response: unknown verifiers, wrong parameters, weights, cycles. `Rubric.contradictions()` finds constraints that exclude
each other; `rubrank.rubrics.checks` lists everything that is wrong with a file at once.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self
from unicodedata import category

from pydantic import Field, ValidationError, ValidationInfo, field_validator, model_validator

from rubrank._plain import Strict, explain_complaints, find_similar_names, shorten
from rubrank.errors import InvalidInput, UnknownName, only_our_errors
from rubrank.rubrics.catalogue import KNOWN, PROMPTED, name_or_question
from rubrank.rubrics.files import check_may_read, presets, read_data
from rubrank.rubrics.scale import (
    Scale,
    check_findings,
    make_domain,
    make_scale,
    read_number,
    read_scale_words,
)
from rubrank.tables.html import Bar, Marked, make_html_table
from rubrank.verifiers.verifier import (
    BINARY,
    TERNARY,
    VERIFIERS,
    Domain,
    Layer,
    Verifier,
    discrete,
    find_verifier,
    is_verifier,
)

if TYPE_CHECKING:
    from rubrank.rubrics.claims import Contradiction

MOST_CRITERIA = 10_000
JUDGE = "judge"
"""`verifier: judge` says that a judge decides, although a verifier may have the name of the criterion."""

# Unicode categories of characters that nobody sees: controls, formats, spaces.
_INVISIBLE = ("Cc", "Cf", "Zs", "Zl", "Zp")
_MOST_CYCLES = 10  # cycles of dependencies that are reported
_LARGEST_WEIGHT = 1e9  # a larger one is a mistake, and no other criterion would count beside it


class Dependency(Strict):
    """Another criterion that this one builds on: without it, this one is worth less (or nothing)."""

    on: str
    kind: Literal["weak", "strong", "trigger"] = "weak"


class Criterion(Strict):
    """One requirement for a response, and who decides to what degree it is met."""

    name: str
    verifier: str | None = None
    """Who decides; by default the verifier of the criterion's own name. "judge": a judge, by the library's prompt."""
    params: Mapping[str, Any] = {}
    """Parameters of the verifier."""
    question: str | None = None
    """What a judge is asked, where no program can decide."""
    weight: float = Field(default=1.0, gt=0.0, le=_LARGEST_WEIGHT, allow_inf_nan=False)
    """Left out, or 0, for a criterion that is only watched."""
    points: float | None = Field(
        default=None, ge=-_LARGEST_WEIGHT, le=_LARGEST_WEIGHT, allow_inf_nan=False
    )
    """Points as a point-based rubric gives them; negative for what should not be there. Without a weight, their size is
    the weight, and below 0 lower scores are better."""
    domain: str | tuple[float, ...] | Mapping[str, float] | None = None
    """"binary", "ternary", a list of values, or {low: …, high: …}; by default the verifier's own, or binary."""
    direction: Literal["higher", "lower"] = "higher"
    """Which scores are better."""
    family: str | None = None
    """Family of the catalogue, such as "comprehensive"; pages and alarms read it."""
    layer: Layer | None = None
    """By default the verifier's own, or "quality". "watch": graded and logged, never rewarded."""
    margin: float = Field(default=0.0, ge=0.0, allow_inf_nan=False)
    """Scores that differ by no more than this are tied."""
    category: str | None = None
    """Such as Essential, Important, Optional, Pitfall."""
    tier: int | None = None
    """For the rule "lexicographic", which compares tier 1 first."""
    depends: tuple[Dependency, ...] = ()
    """Criteria that this one builds on."""
    reference: Any = None
    """Material that a judge needs: reference facts, an answer."""
    anchors: Mapping[float, str] | None = None
    """What the values mean to a judge: {0: bad, 1: neutral, 2: good}; without a domain, the numbers are scores."""
    findings: Mapping[str | float, str] | None = None
    """A judge's reasoning in a word: {high: cites, low: does not cite}, or a word for every value of the scale."""

    @model_validator(mode="before")
    @classmethod
    def _expand_short_forms(cls, data: Any) -> Any:
        """Expand short forms: a text is a name or a question; points without a weight give weight and direction."""
        if isinstance(data, str):
            return name_or_question(data)
        if not isinstance(data, Mapping):
            return data
        fields = dict(data)
        if "name" not in fields and isinstance(fields.get("question"), str):
            fields["name"] = _name_question(fields["question"])
        is_watched = fields.get("layer") == "watch"
        points = read_number(
            fields.get("points")
        )  # also of "-5", which pydantic takes for a number, too
        # A watched criterion may have weight 0. Points of 0 in public data also become a weight of 0, which would be
        # reported as a second error.
        if read_number(fields.get("weight")) == 0 and (is_watched or points == 0):
            del fields["weight"]
        if points:
            if not is_watched:
                fields.setdefault("weight", abs(points))
            if points < 0:
                fields["direction"] = "lower"
        return fields

    @field_validator("weight", "points", mode="before")
    @classmethod
    def _refuse_zero(cls, value: Any, info: ValidationInfo) -> Any:
        """Refuse 0. `_expand_short_forms` has removed the weight 0 of a watched criterion, for which it is allowed."""
        if read_number(value) == 0:
            owner = f"criterion {info.data.get('name', '')!r}"
            raise InvalidInput(
                owner,
                str(info.field_name),
                allowed="> 0" if info.field_name == "weight" else "a number other than 0",
                got="0",
                remedy="Write `layer: watch` instead to grade and log the criterion without rewarding it.",
            )
        return value

    @field_validator("name", "question")
    @classmethod
    def _refuse_blank(cls, value: str | None, info: ValidationInfo) -> str | None:
        """Refuse a text in which a reader sees nothing."""
        if value is not None and all(category(character) in _INVISIBLE for character in value):
            raise InvalidInput(
                "criterion",
                str(info.field_name),
                allowed="a text that can be read",
                got=repr(value),
            )
        return value

    @field_validator("depends", mode="before")
    @classmethod
    def _expand_dependencies(cls, value: Any) -> Any:
        """Expand short forms: a name is a weak prerequisite."""
        if isinstance(value, str):
            value = [value]
        if not isinstance(value, list | tuple):
            return value  # pydantic says that it is not a list
        return [{"on": item} if isinstance(item, str) else item for item in value]

    @field_validator("anchors", "findings", mode="before")
    @classmethod
    def _read_scale_words(cls, value: Any, info: ValidationInfo) -> Any:
        """Read anchors and findings, whose keys may be written as numbers or as texts."""
        if value is None:
            return None
        owner = f"criterion {info.data.get('name', '')!r}"
        return read_scale_words(str(info.field_name), value, owner)

    @model_validator(mode="after")
    def _check_fields_together(self) -> Self:
        """Check what depends on several fields, and on the verifier."""
        if self.question is not None and self.verifier not in (None, JUDGE):
            raise self._make_error("question", "left out where a verifier decides", "both")
        if self.verifier == JUDGE and self.question is None and self.name not in PROMPTED:
            raise self._make_error(
                "question",
                allowed="given: no prompt of the library has that name",
                got="none",
                remedy="Write a question.",
            )
        if not self.judged:
            try:
                self.decided_by.check_parameters(dict(self.params))
            except InvalidInput as error:
                # The verifier does not know the criterion: add its name, so that the user finds it in the file.
                owner = error.owner
                if not owner.startswith("criterion"):
                    owner = f"criterion {self.name!r}: {owner}"
                raise error.change(owner=owner) from None
        if self.value_layer == "watch" and "weight" in self.model_fields_set:
            raise self._make_error(
                "weight", "0, or left out, in the layer watch", f"{self.weight:g}"
            )
        domain = self.value_domain  # raises InvalidInput if the domain cannot be read
        if self.margin >= domain.high - domain.low:
            raise self._make_error(
                "margin",
                allowed=f"less than {domain.high - domain.low:g}, the width of its domain: otherwise all scores tie",
                got=f"{self.margin:g}",
            )
        may_be_judged = self.judged or self.prompt_name in PROMPTED
        for key in ("anchors", "findings"):
            if getattr(self, key) is not None and not may_be_judged:
                raise self._make_error(
                    key,
                    allowed="left out where a program decides",
                    got="some",
                    remedy="Write a question, or leave them out.",
                )
        # Made here even without findings: it raises InvalidInput if the anchors do not fit the domain.
        scale = self.scale
        if self.findings is not None:
            check_findings(self.findings, scale, f"criterion {self.name!r}")
        return self

    def check_installed(self) -> None:
        """Raise InvalidInput, with how to install it, if a package is missing that the verifier needs."""
        if self.judged:
            return
        params = self.decided_by.check_parameters(dict(self.params))
        missing = self.decided_by.find_missing_package(params)
        if missing is not None:
            package, command = missing
            name = self.decided_by.name
            raise self._make_error(
                "verifier",
                allowed=f"one whose packages are installed: {name} needs {package} for these parameters",
                got="none",
                remedy=f"Run {command}.",
            )

    def _make_error(self, parameter: str, allowed: str, got: str, remedy: str = "") -> InvalidInput:
        """Return an error that names this criterion."""
        return InvalidInput(f"criterion {self.name!r}", parameter, allowed, got, remedy)

    @cached_property
    def judged(self) -> bool:
        """Does a judge decide, and not a verifier? Yes if the rubric says so, or if the catalogue has it for judges."""
        if self.question is not None or self.verifier == JUDGE:
            return True
        if self.verifier is not None or self.name not in KNOWN or is_verifier(self.name):
            return False
        return KNOWN[self.name].how != "rule"

    @property
    def prompt_name(self) -> str:
        """The name under which the library may have a prompt for a judge: the verifier's, or else the criterion's own.

        Verifiers that can pass a criterion on to a judge use it.
        """
        return self.name if self.verifier in (None, JUDGE) else str(self.verifier)

    @property
    def decided_by(self) -> Verifier:
        """The verifier that decides. It is looked up each time, because a notebook may define it again.

        Raises UnknownName if there is none of that name.
        """
        name = self.verifier or self.name
        if is_verifier(name):
            return find_verifier(name)
        allowed = "the name of a verifier, where no question for a judge is given"
        near = get_close_matches(name, VERIFIERS, n=1)
        hint = f"Did you mean {near[0]!r}? " if near else ""
        remedy = f"{hint}`rubrank criteria` lists them, a module that you import can add your own; or write a question."
        raise UnknownName(f"criterion {self.name!r}", "verifier", allowed, repr(name), remedy)

    @property
    def value_domain(self) -> Domain:
        """The values that scores can take: those that the rubric sets, else those of the verifier or the catalogue."""
        if self.domain is not None or (self.anchors and self.judged):
            return self._domain_of_rubric
        if not self.judged:
            return self.decided_by.domain
        return KNOWN[self.name].domain if self.name in KNOWN else BINARY

    @cached_property
    def _domain_of_rubric(self) -> Domain:
        """The domain that the rubric sets, by `domain` or by anchors."""
        domain = self.domain
        if domain is None:
            assert self.anchors is not None
            return make_domain(self.anchors)
        if isinstance(domain, str):
            named_domains = {"binary": BINARY, "ternary": TERNARY}
            if domain not in named_domains:
                owner = f"criterion {self.name!r}"
                raise UnknownName.of(owner, "domain", domain, named_domains)
            return named_domains[domain]
        if isinstance(domain, Mapping):
            low = float(domain.get("low", 0.0))
            high = float(domain.get("high", 1.0))
            if set(domain) - {"low", "high"} or not -math.inf < low < high < math.inf:
                raise self._make_error(
                    "domain",
                    allowed="{low: …, high: …} with low < high",
                    got=repr(dict(domain)),
                    remedy="Give both ends.",
                )
            return Domain("continuous", (), low, high)
        if len(set(domain)) < 2 or not all(map(math.isfinite, domain)):
            raise self._make_error(
                "domain",
                allowed="two or more different values",
                got=repr(list(domain)),
                remedy="List what scores can be.",
            )
        return discrete(*domain)

    @cached_property
    def scale(self) -> Scale:
        """The numbers that a judge may write, and the score that each stands for."""
        return make_scale(self.value_domain, self.anchors, f"criterion {self.name!r}")

    @property
    def value_layer(self) -> Layer:
        """The use of its scores: ranking ("quality"), a gate ("global_quality", "low_quality") or none ("watch")."""
        if self.layer is not None:
            return self.layer
        if not self.judged:
            return self.decided_by.layer
        return KNOWN[self.name].layer if self.name in KNOWN else "quality"


class Rubric(Strict):
    """All criteria of a query."""

    id: str = "rubric"
    version: int | str = 1
    criteria: tuple[Criterion, ...] = Field(min_length=1, max_length=MOST_CRITERIA)

    @model_validator(mode="after")
    def _check_criteria_together(self) -> Self:
        """Check what depends on several criteria."""
        mistakes = list(find_mistakes_together(self.criteria, self.names))
        if mistakes:
            _, error = mistakes[0]
            raise error
        return self

    def __getitem__(self, name: str) -> Criterion:
        """The criterion of that name."""
        for criterion in self.criteria:
            if criterion.name == name:
                return criterion
        raise UnknownName.of(
            f"rubric {self.id!r}", "criterion", name, [c.name for c in self.criteria]
        )

    @property
    def names(self) -> tuple[str, ...]:
        """Names of all criteria, in order."""
        return tuple(criterion.name for criterion in self.criteria)

    def _repr_html_(self) -> str:
        """Return a table for notebooks: one row per criterion; gates are marked."""
        heaviest = max((criterion.weight for criterion in self.criteria), default=1.0) or 1.0
        uses: dict[str, Any] = {
            "quality": "ranked by",
            "global_quality": Marked("hard gate", "bad"),
            "low_quality": Marked("soft gate", "warn"),
            "watch": "watched",
        }
        rows = []
        for criterion in self.criteria:
            weight: Any = "–"
            if criterion.value_layer == "quality":
                weight = Bar(f"{criterion.weight:g}", criterion.weight / heaviest)
            if criterion.judged:
                decided_by = "judge"
                asks = criterion.question or ""
            else:
                decided_by = "program"
                asks = criterion.decided_by.name
            rows.append([criterion.name, decided_by, weight, uses[criterion.value_layer], asks])
        return make_html_table(
            f"Rubric {self.id!r}", ["criterion", "decided by", "weight", "use", "asks"], rows
        )

    def contradictions(self) -> tuple[Contradiction, ...]:
        """Constraints that no response can meet together."""
        from rubrank.rubrics.claims import find_contradictions

        return find_contradictions(self.criteria)

    def extended(self, more: Rubric) -> Rubric:
        """Return a rubric with these criteria, then those of `more`; one of the same name is replaced."""
        merged = {criterion.name: criterion for criterion in (*self.criteria, *more.criteria)}
        return Rubric(id=more.id, version=more.version, criteria=tuple(merged.values()))


def find_mistakes_together(
    criteria: Sequence[Criterion], names: Sequence[str]
) -> Iterator[tuple[str, InvalidInput]]:
    """Yield what is wrong with several criteria together, each with the name of a criterion.

    names: of all criteria of the rubric, including those that cannot be read.
    """
    for name, times in Counter(names).items():
        if times > 1:
            yield _name_mistake(name, "name", "given once", f"{times} criteria of that name")
    similar_names = find_similar_names(dict.fromkeys(names))
    if similar_names:
        first, second = similar_names
        got = f"{second!r} beside {first!r}"
        yield _name_mistake(second, "name", "different in more than case and spaces", got)
    watched = {criterion.name for criterion in criteria if criterion.value_layer == "watch"}
    edges = {}  # name of a criterion → the names that it depends on
    for criterion in criteria:
        depends_on = [edge.on for edge in criterion.depends]
        edges[criterion.name] = depends_on
        for on, times in Counter(depends_on).items():
            if times > 1:
                got = f"{on!r} twice"
                yield _name_mistake(criterion.name, "depends", "one edge for each criterion", got)
            if on in watched:
                got = f"{on!r}, which is only watched"
                yield _name_mistake(criterion.name, "depends", "on criteria that count", got)
            if on not in names:
                owner = f"criterion {criterion.name!r}"
                yield criterion.name, UnknownName.of(owner, "depends", on, names)
    for _ in range(_MOST_CYCLES):
        try:
            TopologicalSorter(edges).prepare()
            return
        except CycleError as error:
            cycle = error.args[1][::-1]  # it is given against the direction of the edges
            yield _name_mistake(cycle[0], "depends", "without cycles", " → ".join(cycle))
            edges = {name: depends_on for name, depends_on in edges.items() if name not in cycle}


def _name_mistake(name: str, field: str, allowed: str, got: str) -> tuple[str, InvalidInput]:
    """Return a mistake as `find_mistakes_together` yields it: the name of a criterion, and the error about it."""
    return name, InvalidInput(f"criterion {name!r}", field, allowed, got)


# ------------------------------------------------------------------------------------------------- files and presets


@only_our_errors
def load_rubric(source: str | Path | Mapping[str, Any] | list[Any] | tuple[Any, ...]) -> Rubric:
    """Load a rubric from a YAML, TOML or JSON file, from a preset's name, or from the data that such a file holds."""
    if isinstance(source, Mapping | list | tuple):
        return parse_rubric(source, "rubric")
    return parse_rubric(read_data(source), str(source), Path(source).parent)


def parse_rubric(data: Any, where: str, folder: Path = Path()) -> Rubric:
    """Make a rubric from the data of a file, with the rubrics that it extends.

    where: the file or row, for errors. folder: where files that it extends are looked for. Raises InvalidInput, which
    lists all mistakes.
    """
    errors: list[InvalidInput] = []
    merged = merge_extended(data, where, folder, errors=errors)
    try:
        rubric = Rubric.model_validate(merged)
    except ValidationError as error:
        complaints = explain_complaints(error, where, Rubric)
        if errors:
            # The criterion that another depends on may be in the rubric that could not be read.
            complaints = [c for c in complaints if c.parameter != "depends"]
        errors += complaints
    if errors:
        raise errors[0].together_with(errors[1:])
    return rubric


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema of a rubric file, for editors."""
    schema = Rubric.model_json_schema()
    properties = schema["properties"]
    properties["extends"] = {
        "description": "Presets, or rubric files, whose criteria come first",
        "anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string"}}],
    }
    properties["criteria"]["items"] = {
        "anyOf": [properties["criteria"]["items"], {"type": "string"}]
    }
    schema["$defs"]["Criterion"]["properties"]["depends"] = {
        "description": "Criteria that this one builds on; a name alone is a weak prerequisite",
        "type": ["array", "string"],
        "items": {"anyOf": [{"$ref": "#/$defs/Dependency"}, {"type": "string"}]},
    }
    schema.pop("required", None)  # a rubric that extends another needs no criteria of its own
    schema["anyOf"] = [{"required": ["criteria"]}, {"required": ["extends"]}]
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}


def merge_extended(
    data: Any,
    where: str,
    folder: Path,
    above: tuple[str, ...] = (),
    errors: list[InvalidInput] | None = None,
) -> dict[str, Any]:
    """Return the data with the criteria of the rubrics that it extends put first; its own replace inherited ones.

    Criteria are not checked. data: a mapping, or a list of criteria alone, as public data has it.
    above: the rubrics that led here, each of which extends the next, to find cycles.
    errors: gets an error for each rubric that cannot be extended, so that the rest can be checked; None: it is raised.
    """
    if isinstance(data, list | tuple):
        criteria = [
            name_or_question(item, foreign=True) if isinstance(item, str) else item for item in data
        ]
        data = {"criteria": criteria}
    if not isinstance(data, Mapping):
        raise InvalidInput(
            where,
            "rubric",
            allowed="a mapping with `criteria`",
            got=type(data).__name__,
            remedy="See `rubrank help rubrics`.",
        )
    merged = dict(data)
    bases = merged.pop("extends", None) or []
    own_criteria = merged.get("criteria") or []
    if not bases or not isinstance(own_criteria, list | tuple):
        return merged  # criteria of another type are refused when the rubric is validated
    if not isinstance(bases, list | tuple):
        bases = [bases]
    replaced = {_get_name(criterion) for criterion in own_criteria}
    inherited: dict[str, Any] = {}
    for base in bases:  # if two of them have a criterion of the same name, the later one counts
        try:
            base_criteria = _load_base_criteria(base, where, folder, above)
            inherited |= {_get_name(criterion): criterion for criterion in base_criteria}
        except InvalidInput as error:
            if errors is None:
                raise
            errors.append(error)
    not_replaced = [criterion for name, criterion in inherited.items() if name not in replaced]
    merged["criteria"] = [*not_replaced, *own_criteria]
    return merged


def _load_base_criteria(base: Any, where: str, folder: Path, above: tuple[str, ...]) -> list[Any]:
    """Load the criteria of a preset or file that a rubric extends. above: the rubrics that led here."""
    allowed = f"presets ({', '.join(presets())}) or files that can be read"
    if not isinstance(base, str):
        raise InvalidInput(where, "extends", allowed, got=repr(base))
    path = folder / base
    name = base
    if base not in presets():
        check_may_read(base, where)
        name = str(path.resolve())
        if not path.is_file():
            near = get_close_matches(base, presets(), n=1)
            remedy = f"Did you mean {near[0]!r}?" if near else ""
            raise UnknownName(where, "extends", allowed, repr(base), remedy)
    if name in above:
        got = " → ".join((*above, name))
        raise InvalidInput(where, "extends", allowed="without a cycle", got=got)
    is_preset = base in presets()
    data = read_data(base if is_preset else path)
    merged = merge_extended(data, base, Path() if is_preset else path.parent, (*above, name))
    return list(merged.get("criteria") or [])


def _get_name(criterion: Any) -> str:
    """Return the name that a criterion will have, from its data; data without a name stands for itself."""
    if isinstance(criterion, str):
        return name_or_question(criterion)["name"]
    if isinstance(criterion, Mapping):
        if criterion.get("name") is not None:
            return str(criterion["name"])
        if isinstance(criterion.get("question"), str):
            return _name_question(criterion["question"])
    return repr(criterion)


def _name_question(question: str) -> str:
    """Return the name of a criterion that has only a question."""
    return shorten(question, 80)
