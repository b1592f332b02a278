"""The criteria library as a reader meets it: all names, what they check, and worked examples.

find_criteria(search="word")          every criterion whose name, family or description says "word"
describe("WordCount")                 its docstring, parameters and examples
"""

from __future__ import annotations

from collections.abc import Mapping
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
    """All criteria, of one family, or with a word in their name or description; sorted by family and name."""
    names = _all_names()
    found = [_listed(name) for name in names]
    families = {listed.family for listed in found}
    if family is not None and family not in families:
        raise UnknownName.of("find_criteria", "family", family, families)
    words = (search or "").casefold().split()
    chosen = [
        listed
        for listed in found
        if family in (None, listed.family)
        and all(word in f"{listed.name} {listed.family} {listed.doc or listed.checks}".casefold() for word in words)
    ]
    return sorted(chosen, key=lambda listed: (listed.family, listed.name))


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
    found: dict[str, list[Mapping[str, Any]]] = {}
    for path in sorted(folder.iterdir(), key=lambda path: path.name):
        if path.name.endswith(".yaml"):
            for name, cases in (load_yaml(path.read_text(encoding="utf-8")) or {}).items():
                found.setdefault(name, []).extend(cases)
    return found
