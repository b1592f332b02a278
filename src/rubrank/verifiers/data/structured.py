"""CSV, YAML, TOML and XML in answers: the share of the expected values that stand in the right place."""

from __future__ import annotations

import csv
import io
import re
import tomllib
from collections.abc import Callable
from typing import Annotated, Any, Literal
from xml.etree import ElementTree

import yaml
from pydantic import Field

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import split_code
from rubrank.verifiers.data.json_answers import count_leaves
from rubrank.verifiers.shared.json_values import TooBig, check_size
from rubrank.verifiers.verifier import UNIT, Answer, missing, verifier

_MOST_CHARACTERS = 200_000
_MOST_XML_DEPTH = 100
_ABSENT = object()
# "-12", "3.50", "1e-3": at most 15 digits on either side of the point, so that no float loses one
_NUMBER = re.compile(r"[-+]?\d{1,15}(?:\.\d{1,15})?(?:[eE][-+]?\d{1,3})?")
# "&base" in "a: &base {x: 1}" and "*base" in "b: *base" or "[*base]": a name of YAML where a value begins
_YAML_ANCHOR_OR_ALIAS = re.compile(r"(?m)(?:^|[\s:\-,\[{])[&*][A-Za-z_]\w*(?=\s|$|[,\]}])")


@verifier("DataMatch", family="data", domain=UNIT, version=4)
def data_match(
    rollout: Rollout,
    *,
    format: Literal["csv", "yaml", "toml", "xml"],
    expected: Any = None,
    tolerance: Annotated[float, Field(ge=0)] = 1e-9,
    order: Literal["matters", "ignored"] = "matters",
) -> Answer:
    """The share of expected values that the answer's CSV, YAML, TOML or XML has at their place.

    `expected` (or metadata["expected"]) is the same data: as plain values, or as a text of that format. CSV is a list
    of rows by column; XML an element as {tag: {"@attribute": …, child: …, "#text": …}}. Values that were not asked for
    count as wrong.
    Passes (1): the data itself, numbers written otherwise (1.0 for 1), rows in another order with `order="ignored"`.
    Half: one of two values right.
    Fails (0): nothing right; text that does not parse; aliases of YAML and entities of XML, which can explode.
    Missing: nothing expected.
    Not covered: comments, namespaces, dates.
    """
    reference = rollout.metadata.get("expected", _ABSENT) if expected is None else expected
    if reference is _ABSENT:
        return missing("nothing expected: give `expected`, or metadata['expected']")
    parse = _PARSERS[format]
    if isinstance(reference, str):
        try:
            reference = parse(reference)
        except ValueError as error:
            return missing(f"what is expected is no {format}: {error}"[:200])
    try:
        value = parse(_find_source(rollout.answer, format))
        check_size(value, "the answer")
    except (ValueError, TooBig) as error:
        return False, f"no {format}: {error}"[:200]
    right, total, unexpected = count_leaves(
        reference, value, tolerance, any_order=order == "ignored"
    )
    share = right / (total + unexpected) if total + unexpected else 1.0
    return share, f"{right} of {total} expected values, {unexpected} not asked for"


def _find_source(answer: str, format: str) -> str:
    """Return the last fence of the format, else the last fence, else the answer."""
    blocks = split_code(answer)[1]
    # "yml" is as common as "yaml". Words may follow in the tag: "csv title=prices".
    names = ("yaml", "yml") if format == "yaml" else (format,)
    tagged = [code for tag, code in blocks if tag.lower().startswith(names)]
    sources = tagged or [code for _, code in blocks]
    return sources[-1] if sources else answer.strip()


def _read_scalar(text: str) -> Any:
    """Return a number if the text is one, because CSV and XML have no types; else the text with single spaces."""
    if _NUMBER.fullmatch(text.strip()):
        return float(text)
    return " ".join(text.split())


def _parse_csv(source: str) -> Any:
    try:
        # Where the comma is the decimal sign, tables are written with semicolons.
        first_line = source.lstrip().split("\n", 1)[0]
        delimiter = next((sign for sign in ",;\t" if sign in first_line), ",")
        reader = csv.reader(
            io.StringIO(source[:_MOST_CHARACTERS]), delimiter=delimiter, strict=True
        )
        rows = [row for row in reader if row]
    except csv.Error as error:
        raise ValueError(str(error)) from None
    if not rows:
        raise ValueError("no rows")
    header = [name.strip() for name in rows[0]]
    if any(len(row) != len(header) for row in rows):
        raise ValueError("rows of different lengths")
    return [
        {name: _read_scalar(cell) for name, cell in zip(header, row, strict=True)}
        for row in rows[1:]
    ]


def _parse_yaml(source: str) -> Any:
    # Aliases of aliases can make gigabytes out of a few lines ("billion laughs").
    if _YAML_ANCHOR_OR_ALIAS.search(source):
        raise ValueError("anchors and aliases are not read")
    try:
        return yaml.safe_load(source[:_MOST_CHARACTERS])
    except (yaml.YAMLError, RecursionError) as error:
        raise ValueError(" ".join(str(error).split())) from None


def _parse_toml(source: str) -> Any:
    try:
        return tomllib.loads(source[:_MOST_CHARACTERS])
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _parse_xml(source: str) -> Any:
    if "<!DOCTYPE" in source or "<!ENTITY" in source:
        raise ValueError("document types and entities are not read")
    try:
        root = ElementTree.fromstring(source[:_MOST_CHARACTERS].strip())
        return {root.tag: _read_element(root, 0)}
    except ElementTree.ParseError as error:
        raise ValueError(str(error)) from None


def _read_element(element: ElementTree.Element, depth: int) -> Any:
    """Return an element as {"@attribute": …, child: …, "#text": …}, or as its text if it has nothing else.

    Children with the same tag become a list. Raises ValueError if elements are nested too deeply.
    """
    if depth > _MOST_XML_DEPTH:
        raise ValueError("nested too deeply")
    content: dict[str, Any] = {
        f"@{name}": _read_scalar(value) for name, value in element.attrib.items()
    }
    for child in element:
        value = _read_element(child, depth + 1)
        if child.tag not in content:
            content[child.tag] = value
        elif isinstance(content[child.tag], list):
            content[child.tag].append(value)
        else:
            content[child.tag] = [content[child.tag], value]
    text = _read_scalar(element.text or "")
    if not content:
        return text
    if text != "":
        content["#text"] = text
    return content


_PARSERS: dict[str, Callable[[str], Any]] = {
    "csv": _parse_csv,
    "yaml": _parse_yaml,
    "toml": _parse_toml,
    "xml": _parse_xml,
}
