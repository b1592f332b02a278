"""The catalogue that `rubrank criteria` shows: every criterion, what it checks, and worked examples.

    find_criteria(search="unit test")     the criteria that match these words, best first
    describe("WordCount")                 one criterion with its parameters and examples

Criteria come from two places: verifiers, which are code, and `KNOWN`, which describes criteria that judges decide (and
adds to the description of some verifiers).
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import get_close_matches
from functools import cache
from importlib.resources import files
from typing import Any

import yaml

from rubrank.errors import UnknownName
from rubrank.rubrics.catalogue import KNOWN
from rubrank.rubrics.files import load_yaml
from rubrank.verifiers.verifier import VERIFIERS, Domain, library_examples, verifier_names

# Endings that a search ignores, after at least three letters: the s of a plural, and then one of the others.
_PLURAL = re.compile(r"(?<=\w{3})(?<!s)s$")  # "template(s)", but not "class"
_ENDING = re.compile(
    r"""(?<=\w{3})(?:
        ation | ated? | ating       # hallucin(ation), hallucin(ated), hallucin(ating)
        | ness | ful | ly           # polite(ness), help(ful), clear(ly)
        | ance | ancy | ence | ency | ant    # relev(ance), relev(ancy), relev(ant)
        | ing | ed | ie | e | y     # word(ing), bias(ed), stor(ie)(s), stor(y)
    )$""",
    re.VERBOSE,
)


def _find_stems(text: str) -> list[str]:
    """Return the words of a text in lower case, without the most common English endings.

    A stem need not be a word: "templates" and "template" have the stem "templ". Endings are removed until none is left,
    as in "polit(e)(ness)", so that all forms of a word have the same stem.
    """
    stems = []
    for word in re.findall(r"\w+", text.casefold()):
        stem = _PLURAL.sub("", word)
        shorter = _ENDING.sub("", stem)
        while shorter != stem:
            stem = shorter
            shorter = _ENDING.sub("", stem)
        stems.append(stem)
    return stems


# Words of a search for criteria that forbid something, in several languages.
_NEGATIONS = frozenset(
    _find_stems(
        "no not without avoid never none don t kein keine ohne nicht sin sans pas senza non sem não zonder geen"
        " utan uden bez без не"
    )
)
# Words that say nothing about what a criterion checks: "at most 100 words" asks about words.
_SMALL_WORDS = frozenset(
    _find_stems(
        "a an the of in on at to for is are be must should with and or it its my do does most least than more less"
        " across exactly response use using der die das de la le les el los en du des"
    )
) | frozenset(map(str, range(1001)))
_CHINESE_NEGATION = re.compile("不要|不能|禁止|没有|不得")
# Keys of JSON Schema → how a limit is shown.
_LIMITS = {"minimum": "≥", "exclusiveMinimum": ">", "maximum": "≤", "exclusiveMaximum": "<"}


@dataclass(frozen=True)
class Parameter:
    """A parameter of a verifier."""

    name: str
    type: str
    required: bool
    default: Any = None


@dataclass(frozen=True)
class CriterionEntry:
    """One criterion of the catalogue."""

    name: str
    family: str
    how: str
    """"rule", "judge" or "both"."""
    layer: str
    values: str
    """The scores it gives: "binary", "ternary", "0 to 1", or a list of numbers."""
    checks: str
    """What it checks, in one line."""
    version: int | None = None
    languages: tuple[str, ...] = ()
    parameters: tuple[Parameter, ...] = ()
    doc: str = ""
    examples: tuple[Mapping[str, Any], ...] = ()

    def to_dict(self) -> dict[str, Any]:
        """Return the entry as plain data, for JSON."""
        return asdict(self)


def find_criteria(family: str | None = None, search: str | None = None) -> list[CriterionEntry]:
    """Return all criteria, or those of one family, sorted by family and name; with `search`, the matches, best first.

    Every word of `search` must occur in the name, keywords or description of a criterion. Endings do not matter:
    "tests", "hallucinated" and "politeness" find test, hallucination and polite.
    """
    entries = sorted(map(_make_entry, _list_names()), key=lambda entry: (entry.family, entry.name))
    if family is not None:
        families = {entry.family for entry in entries}
        if family not in families:
            raise UnknownName.of("find_criteria", "family", family, families)
        entries = [entry for entry in entries if entry.family == family]
    # "no emojis" has the subject "emoji" and is negated.
    stems = [stem for stem in _find_stems(search or "") if stem not in _SMALL_WORDS]
    if not stems:
        return entries
    is_negated = not _NEGATIONS.isdisjoint(stems) or bool(_CHINESE_NEGATION.search(search or ""))
    subjects = [stem for stem in stems if stem not in _NEGATIONS] or stems
    relevance = {}
    for entry in entries:
        points = _rate_relevance(subjects, entry)
        if is_negated and not _forbids(entry, subjects):
            points /= 10  # "no emojis": criteria that forbid something come first
        relevance[entry.name] = points
    matches = [entry for entry in entries if relevance[entry.name] > 0.0]
    # Of equal matches, general criteria come before instructions of one benchmark ("count:words").
    return sorted(matches, key=lambda entry: (-relevance[entry.name], ":" in entry.name))


def _forbids(entry: CriterionEntry, subjects: Sequence[str]) -> bool:
    """Return whether the criterion forbids a subject: ForbiddenContent, no_comma, a keyword like "no markdown"."""
    if "forbidden" in entry.name.casefold() or "no" in re.split(r"[_:]", entry.name):
        return True
    for keyword in _load_keywords().get(entry.name, ()):
        stems = set(_find_stems(str(keyword)))
        if not _NEGATIONS.isdisjoint(stems) and not stems.isdisjoint(subjects):
            return True
    return False


def _rate_relevance(stems: Sequence[str], entry: CriterionEntry) -> float:
    """Rate how well a criterion matches the stems of a search; 0 if one of them does not occur.

    Each counts 3 if it is in the name or family, 2 if it is a keyword, 1 if it is in the description. Chinese is
    matched by characters, because it has no spaces between words.
    """
    spaced_name = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", entry.name)  # WordCount → Word Count
    keywords = _load_keywords().get(entry.name, ())
    parameter_types = " ".join(parameter.type for parameter in entry.parameters)
    texts = (
        (3.0, f"{entry.name} {spaced_name} {entry.family}"),
        (2.0, " ".join(keywords)),
        (1.0, f"{entry.checks} {entry.doc} {parameter_types}"),
    )
    keywords_as_stems = [_find_stems(keyword) for keyword in keywords]
    total = 0.0
    for stem in stems:
        best = max((points for points, text in texts if _occurs(stem, text)), default=0.0)
        if not best:
            return 0.0
        # Of equal matches, the one with the word alone as a keyword comes first: "test" before "unit test".
        total += best + 0.1 * ([stem] in keywords_as_stems)
    return total


def _occurs(stem: str, text: str) -> bool:
    """Is this the stem of a word in the text, or the beginning of one?"""
    if not stem.isascii():
        # Chinese has no spaces, and no endings: 语言 is part of 多语言, and the other way round.
        chinese_words = [word for word in text.split() if not word.isascii()]
        if stem in text or any(word in stem for word in chinese_words):
            return True
    stems_of_text = _find_stems(text)
    if stem in stems_of_text:
        return True
    # Three letters are too few for a beginning: "dat" (date) begins "data".
    return len(stem) > 3 and any(other.startswith(stem) for other in stems_of_text)


@cache
def _load_keywords() -> dict[str, list[str]]:
    """Load the words by which people search for each criterion."""
    path = files("rubrank") / "rubrics" / "keywords.yaml"
    return dict(load_yaml(path.read_text(encoding="utf-8")))


def describe(name: str) -> CriterionEntry:
    """Return one criterion with its examples. Raises UnknownName, with the nearest names, for an unknown criterion."""
    names = _list_names()
    if name not in names:
        near = get_close_matches(name, names, n=3, cutoff=0.5)
        remedy = "`rubrank criteria` lists them."
        if near:
            remedy = f"Did you mean {' or '.join(map(repr, near))}?"
        raise UnknownName(
            "criteria",
            "name",
            allowed=f"one of {len(names)} known criteria",
            got=repr(name),
            remedy=remedy,
        )
    return replace(_make_entry(name), examples=tuple(library_examples().get(name, ())))


def write_yaml_line(entry: CriterionEntry) -> str:
    """Write a line for the `criteria:` of a rubric, with the parameters of the first example that passes.

    >>> write_yaml_line(describe("BulletCount"))
    '- {name: BulletCount, params: {count: 3}}'
    """
    criterion: dict[str, Any] = {"name": entry.name}
    passing = [example for example in entry.examples if example.get("kind") == "pass"]
    if passing and passing[0].get("params"):
        criterion["params"] = passing[0]["params"]
    text: str = yaml.safe_dump(
        criterion, default_flow_style=True, allow_unicode=True, sort_keys=False, width=10**6
    )
    if "\n" in text.strip():  # a text with line breaks: as JSON, which is YAML too
        text = json.dumps(criterion, ensure_ascii=False)
    return f"- {text.strip()}"


def _list_names() -> set[str]:
    return {*verifier_names(), *KNOWN}


def _make_entry(name: str) -> CriterionEntry:
    """Make the entry of a criterion, without examples."""
    verifier = VERIFIERS.get(name)
    listed = KNOWN.get(name)
    if verifier is None:
        assert listed is not None
        values = _describe_domain(listed.domain)
        return CriterionEntry(name, listed.family, listed.how, listed.layer, values, listed.checks)
    schema = verifier.parameters.model_json_schema()
    required = schema.get("required", ())
    parameters = []
    for parameter, data in schema.get("properties", {}).items():
        value_type = _describe_schema(data, schema)
        is_required = parameter in required
        parameters.append(Parameter(parameter, value_type, is_required, data.get("default")))
    return CriterionEntry(
        name=name,
        family=listed.family if listed else verifier.family,
        how=listed.how if listed else verifier.how,
        layer=verifier.layer,
        values=_describe_domain(verifier.domain),
        checks=listed.checks if listed else verifier.doc.partition("\n")[0],
        version=verifier.version,
        languages=verifier.languages,
        parameters=tuple(parameters),
        doc=verifier.doc,
    )


def _describe_domain(domain: Domain) -> str:
    """Describe the scores that a criterion gives: "binary", "ternary", "0, 0.5, 1" or "0 to 1"."""
    if domain.kind in ("binary", "ternary"):
        return domain.kind
    if domain.values:
        return ", ".join(f"{value:g}" for value in domain.values)
    return f"{domain.low:g} to {domain.high:g}"


def _describe_schema(data: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    """Describe a JSON Schema: `"a" | "b"`, `integer ≥ 0`, `list of string`. schema: the whole, with its definitions."""
    if "$ref" in data:
        name = data["$ref"].rpartition("/")[2]
        return _describe_schema(schema["$defs"][name], schema)
    if "anyOf" in data:
        return " | ".join(
            dict.fromkeys(_describe_schema(option, schema) for option in data["anyOf"])
        )
    if "enum" in data or "const" in data:
        return " | ".join(repr(value) for value in data.get("enum", [data.get("const")]))
    if data.get("type") == "array":
        return f"list of {_describe_schema(data.get('items', {}), schema)}"
    kind = str(data.get("type", "anything"))
    limits = [f"{sign} {data[word]:g}" for word, sign in _LIMITS.items() if word in data]
    return " ".join([kind, *limits])
