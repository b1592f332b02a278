"""The criteria library for people: all names, what they check, and worked examples.

find_criteria(search="unit test")     every criterion that fits these words, best first
describe("WordCount")                 its docstring, parameters and examples
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

from rubrank.errors import UnknownName
from rubrank.rubrics.catalogue import KNOWN
from rubrank.rubrics.files import load_yaml
from rubrank.verifiers.verifier import VERIFIERS, Domain, Verifier, verifier_names


@dataclass(frozen=True)
class Parameter:
    """A parameter of a verifier."""

    name: str
    type: str
    required: bool
    default: Any = None


@dataclass(frozen=True)
class Listed:
    """One criterion of the library."""

    name: str
    family: str
    how: str
    """"rule", "judge" or "both"."""
    layer: str
    values: str
    checks: str
    """In a line."""
    version: int | None = None
    languages: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    doc: str = ""
    examples: tuple[Mapping[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return asdict(self)


def find_criteria(family: str | None = None, search: str | None = None) -> list[Listed]:
    """All criteria, or those of a family, by family and name; with `search`, those that fit the words, best first.

    "unit tests", "hallucination", "polite": a word is looked for in names, keywords and descriptions, and an ending
    (tests, hallucinated, politeness) does not matter. If no criterion fits all words, the list is empty.
    """
    criteria = sorted(map(_listed, _all_names()), key=lambda listed: (listed.family, listed.name))
    families = {listed.family for listed in criteria}
    if family is not None and family not in families:
        raise UnknownName.of("find_criteria", "family", family, families)
    if family is not None:
        criteria = [listed for listed in criteria if listed.family == family]
    words = _stems(search or "")
    if not words:
        return criteria
    fits = [(_fit(words, listed), listed) for listed in criteria]
    return [listed for fit, listed in sorted(fits, key=lambda pair: -pair[0]) if fit]


def _fit(words: Sequence[str], listed: Listed) -> float:
    """How well a criterion fits all words: 3 for a word of its name, 2 for a keyword, 1 for its description; 0 if one
    of the words is in none of them."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", listed.name)
    places = (
        (3.0, f"{listed.name} {spaced} {listed.family}"),
        (2.0, " ".join(_keywords().get(listed.name, ()))),
        (1.0, f"{listed.checks} {listed.doc}"),
    )
    stems = [(worth, _stems(text)) for worth, text in places]
    best = [max((worth for worth, there in stems if _has(word, there)), default=0.0) for word in words]
    return sum(best) if all(best) else 0.0


def _has(word: str, there: Sequence[str]) -> bool:
    return any(stem.startswith(word) for stem in there)


def _stems(text: str) -> list[str]:
    """Words without their commonest English endings, in small letters."""
    return [_ENDING.sub("", word) or word for word in re.findall(r"\w+", text.casefold())]


_ENDING = re.compile(r"(?<=\w{3})(?:ations?|ated?|ating|ness|ful(?:ness)?|ing|ed|es|s|ly|e)$")


@cache
def _keywords() -> dict[str, list[str]]:
    return dict(load_yaml((files("rubrank") / "rubrics" / "keywords.yaml").read_text(encoding="utf-8")))


def describe(name: str) -> Listed:
    """One criterion, with its examples."""
    if name not in _all_names():
        near = get_close_matches(name, _all_names(), n=3, cutoff=0.5)
        remedy = f"Did you mean {' or '.join(map(repr, near))}?" if near else "`rubrank criteria` lists them."
        raise UnknownName("criteria", "name", f"one of {len(_all_names())} known criteria", repr(name), remedy)
    listed = _listed(name)
    return Listed(**{**vars(listed), "examples": tuple(_examples().get(name, ()))})


def _all_names() -> set[str]:
    return {*verifier_names(), *KNOWN}


def _listed(name: str) -> Listed:
    verifier, known = VERIFIERS.get(name), KNOWN.get(name)
    if verifier is None:
        assert known is not None
        return Listed(name, known.family, known.how, known.layer, _values(known.domain), known.checks)
    doc = verifier.doc
    checks = known.checks if known else doc.partition("\n")[0]
    return Listed(
        name,
        known.family if known else verifier.family,
        known.how if known else verifier.how,
        verifier.layer,
        _values(verifier.domain),
        checks,
        verifier.version,
        verifier.languages,
        _parameters(verifier),
        doc,
    )


def _values(domain: Domain) -> str:
    if domain.kind in ("binary", "ternary"):
        return domain.kind
    if domain.values:
        return ", ".join(f"{value:g}" for value in domain.values)
    return f"{domain.low:g} to {domain.high:g}"


def _parameters(verifier: Verifier) -> tuple[Parameter, ...]:
    schema = verifier.parameters.model_json_schema()
    return tuple(
        Parameter(name, _type(data, schema), name in schema.get("required", ()), data.get("default"))
        for name, data in schema.get("properties", {}).items()
    )


def _type(data: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """A JSON Schema in a few words: `"a" | "b"`, `integer ≥ 0`, `list of string`."""
    if "$ref" in data:
        return _type(schema["$defs"][data["$ref"].rpartition("/")[2]], schema)
    if "anyOf" in data:
        return " | ".join(dict.fromkeys(_type(option, schema) for option in data["anyOf"]))
    if "enum" in data or "const" in data:
        return " | ".join(repr(value) for value in data.get("enum", [data.get("const")]))
    if data.get("type") == "array":
        return f"list of {_type(data.get('items', {}), schema)}"
    kind = str(data.get("type", "anything"))
    limits = [f"{sign} {data[word]:g}" for word, sign in _LIMITS.items() if word in data]
    return " ".join([kind, *limits])


_LIMITS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}


@cache
def _examples() -> dict[str, list[Mapping[str, Any]]]:
    folder = files("rubrank") / "verifiers" / "examples"
    examples: dict[str, list[Mapping[str, Any]]] = {}
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.endswith(".yaml"):
            for name, cases in (load_yaml(path.read_text(encoding="utf-8")) or {}).items():
                examples.setdefault(name, []).extend(cases)
    return examples
