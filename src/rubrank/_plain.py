"""Helpers for plain data: strict models, limits for files of settings, readable validation errors, JSON-ready values.

    judges.yaml: judges.0.kid must be left out (unknown key); got 1. Did you mean 'kind'?

Pydantic reports a list of error dictionaries; this module calls each of them a complaint and turns it into one of our
errors, as above.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence, Set, Sized
from difflib import get_close_matches
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from rubrank.errors import InvalidInput, UnknownName

MOST_VALUES = 1_000_000
"""Values in a file of settings. A larger file is a mistake or an attack."""
MOST_PARAMETERS = 20_000
"""Values in the parameters of one criterion, such as keywords."""
MOST_KEYS = 10_000
"""Keys of one mapping."""
MOST_TEXT = 64 << 20
"""Characters in all texts of a file of settings together."""
MOST_DEPTH = 100
"""Levels of nesting."""
_MOST_COMPLAINTS = 100  # per file; nobody reads more

# For a field such as `str | list[str]`, pydantic adds the type that it tried to the location of its complaint:
# ("criteria", 0, "list[str]"). This matches that part of the location.
_TRIED_TYPE = re.compile(r"str|int|float|bool|constrained-\w+|\w+\[.+\]")
# Type of a complaint → what would have been accepted, in words.
_ALLOWED = {
    "missing": "given",
    "extra_forbidden": "left out (unknown key)",
    "string_type": "a text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "finite_number": "a finite number",
    "string_too_short": "a text that is not empty",
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
}
# Type of a complaint about a bound → its sign, and the key of the bound in the complaint.
_BOUNDS = {
    "greater_than": (">", "gt"),
    "greater_than_equal": ("≥", "ge"),
    "less_than": ("<", "lt"),
    "less_than_equal": ("≤", "le"),
}
_LISTS = ("tuple_type", "list_type", "set_type", "frozen_set_type", "iterable_type")
_MAPPINGS = ("dict_type", "mapping_type", "model_type", "model_attributes_type")

ModelT = TypeVar("ModelT", bound=BaseModel)


def check_bounds(value: Any, owner: str, parameter: str, most: int = MOST_VALUES) -> None:
    """Raise InvalidInput if `value` holds more data than a person would write. most: values in it."""
    # A stack instead of recursion, so that deeply nested data cannot exhaust Python's own stack. Each limit is checked
    # before its data are copied, so that huge data are refused quickly.
    stack = [(value, 0)]
    values = 0
    characters = 0
    while stack:
        item, depth = stack.pop()
        values += 1
        children: Collection[Any] = ()
        if isinstance(item, str):
            characters += len(item)
        elif isinstance(item, Mapping):
            if len(item) > MOST_KEYS:
                allowed = f"mappings of at most {MOST_KEYS:,} keys"
                raise InvalidInput(owner, parameter, allowed, got="more")
            children = [*item, *item.values()]
        elif isinstance(item, Sequence | Set) and not isinstance(item, bytes | bytearray):
            children = item
        if depth > MOST_DEPTH:
            raise InvalidInput(owner, parameter, f"nested at most {MOST_DEPTH} deep", got="more")
        if values + len(children) > most:
            raise InvalidInput(owner, parameter, f"at most {most:,} values", got="more")
        if characters > MOST_TEXT:
            allowed = f"at most {MOST_TEXT >> 20} million characters of text"
            raise InvalidInput(owner, parameter, allowed, got="more")
        stack.extend((child, depth + 1) for child in children)


class Immutable(BaseModel):
    """A model that cannot be changed, and refuses unknown keys: for data that programs write, such as records."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Strict(Immutable):
    """The same for data that people write, such as files of settings: it also refuses `true` in place of a number."""

    @model_validator(mode="before")
    @classmethod
    def _refuse_booleans_as_numbers(cls, data: Any) -> Any:
        """Replace True by "true" where a number is expected, so that pydantic refuses it instead of reading 1."""
        if not isinstance(data, Mapping):
            return data
        values = dict(data)
        for name, field in cls.model_fields.items():
            types = _list_types(field.annotation)
            if (int in types or float in types) and bool not in types:
                for key in (name, field.alias):
                    if key in values:
                        values[key] = _spell_booleans(values[key])
        return values


def _spell_booleans(value: Any) -> Any:
    """Return the value with "true" and "false" in place of booleans, also within mappings and lists."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, Mapping):
        return {key: _spell_booleans(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(_spell_booleans, value))
    return value


def _list_types(annotation: Any) -> set[Any]:
    """Return the types of which an annotation is made: {str, float} of `dict[str, float]`."""
    parts = get_args(annotation)
    if not parts:
        return {annotation}
    return {kind for part in parts for kind in _list_types(part)}


def plain(value: Any) -> Any:
    """Return the value with types that JSON has: no NumPy types, no tuples or sets, and None for NaN and infinity.

    The items of a set are sorted by how they are written, so that equal sets become equal lists.
    """
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | Iterator):
        return [plain(inner) for inner in value]
    if isinstance(value, Set):
        return sorted((plain(inner) for inner in value), key=repr)
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):  # a NumPy number or array
        python_value = value.tolist()
        return plain(python_value) if isinstance(python_value, list | float) else python_value
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def explain_complaints(
    error: ValidationError, where: str, model: type[BaseModel], page: str = "rubrics"
) -> list[InvalidInput]:
    """Turn each complaint of pydantic into one of our errors.

    where: the file or function, which becomes the owner. page: the documentation that the remedy refers to.
    An InvalidInput that a validator raised keeps its message.
    """
    causes = [complaint for complaint in error.errors() if not _is_consequence(complaint)]
    complaints = _merge_alternatives(causes)[:_MOST_COMPLAINTS]
    return [_explain_complaint(complaint, where, model, page) for complaint in complaints]


def validate_model(model: type[ModelT], data: Any, where: str, page: str, **context: Any) -> ModelT:
    """Validate the data as a model. Raises the first complaint as InvalidInput. context: passed to the validators."""
    try:
        return model.model_validate(data, context=context or None)
    except ValidationError as error:
        raise explain_complaints(error, where, model, page)[0] from None


def _is_consequence(complaint: Any) -> bool:
    """Return whether pydantic calls a list too short only because it dropped invalid items, which it also reports."""
    if complaint["type"] != "too_short":
        return False
    value = complaint.get("input")
    return isinstance(value, Sized) and len(value) >= complaint["ctx"]["min_length"]


def _merge_alternatives(complaints: list[Any]) -> list[Any]:
    """Keep one complaint per value: for a value that may have several types, pydantic complains once for each type.

    For 7 in a field `names: str | list[str]` it reports two complaints, with the locations ("names", "str") and
    ("names", "list[str]"). They become one, with the location ("names",) and "allowed": "a text or a list".
    """
    # The complaints about each value. The key is its location, such as ("names",). A complaint about a value that can
    # have one type only is not merged with any other: its key is its number.
    by_value: dict[tuple[Any, ...] | int, list[Any]] = {}
    for number, complaint in enumerate(complaints):
        location = complaint["loc"]
        tried = _find_tried_type(location)
        value_key = number if tried is None else location[:tried]
        by_value.setdefault(value_key, []).append(complaint)
    merged = []
    for value_key, alternatives in by_value.items():
        if isinstance(value_key, int):
            merged += alternatives
            continue
        # A longer location means that the value has this type, and something inside it is wrong.
        deepest = max(alternatives, key=lambda complaint: len(complaint["loc"]))
        inside = deepest["loc"][len(value_key) + 1 :]  # what follows the tried type
        merged_complaint = {**deepest, "loc": (*value_key, *inside)}
        if not inside:
            descriptions = dict.fromkeys(map(describe_allowed, alternatives))
            merged_complaint["allowed"] = " or ".join(descriptions)
        merged.append(merged_complaint)
    return merged


def _find_tried_type(location: Sequence[int | str]) -> int | None:
    """Return where a location names the type that pydantic tried; None if the value can have one type only."""
    for i, part in enumerate(location):
        if _TRIED_TYPE.fullmatch(str(part)):
            return i
    return None


def _explain_complaint(
    complaint: Any, where: str, model: type[BaseModel], page: str
) -> InvalidInput:
    """Turn one complaint into one of our errors; see `explain_complaints`."""
    cause = complaint.get("ctx", {}).get("error")
    if isinstance(cause, InvalidInput):
        # "options" is the owner that validators name if they do not know where the options come from.
        owner = where if cause.owner == "options" else f"{where}: {cause.owner}"
        return cause.change(owner=owner)
    place = ".".join(map(str, complaint["loc"]))
    got = shorten(repr(complaint.get("input")))
    if complaint["type"] == "missing":  # the input is the mapping that lacks the key
        got = f"none in {got}"
    error_type = InvalidInput
    remedy = f"See `rubrank help {page}`."
    if complaint["type"] == "extra_forbidden":
        remedy = _suggest_key(model, complaint["loc"])
    elif complaint["type"] == "literal_error" and isinstance(complaint["input"], str):
        error_type = UnknownName
        names = re.findall(r"'([^']*)'", complaint["ctx"]["expected"])
        near = get_close_matches(complaint["input"], names, n=1)
        if near:
            remedy = f"Did you mean {near[0]!r}?"
    return error_type(
        where,
        place or model.__name__.lower(),
        allowed=describe_allowed(complaint),
        got=got,
        remedy=remedy,
    )


def describe_allowed(complaint: Any) -> str:
    """Describe what pydantic would have accepted: "a list", "≥ 0", "one of 'a', 'b'"."""
    if "allowed" in complaint:
        return str(complaint["allowed"])
    if complaint["type"] in _LISTS:
        return "a list"
    if complaint["type"] in _MAPPINGS:
        return "keys and values"
    if complaint["type"] == "too_short":
        return f"a list of at least {complaint['ctx']['min_length']}"
    if complaint["type"] == "too_long":
        return f"a list of at most {complaint['ctx']['max_length']:,}"
    if complaint["type"] == "literal_error":
        return f"one of {complaint['ctx']['expected'].replace(' or ', ', ')}"
    if complaint["type"] in _BOUNDS:
        sign, bound = _BOUNDS[complaint["type"]]
        return f"{sign} {complaint['ctx'][bound]:,g}"
    if complaint["type"] in _ALLOWED:
        return _ALLOWED[complaint["type"]]
    return f"valid ({complaint['msg']})"


def _suggest_key(model: type[BaseModel], place: Sequence[int | str]) -> str:
    """Return a remedy for an unknown key: the nearest key, or all keys that are allowed there."""
    *parents, name = place
    # Find the model that the key is in. Parents are, for example, ("judges", 0, "sampling").
    for parent in parents:
        if isinstance(parent, str) and parent in model.model_fields:
            model = _find_model(model.model_fields[parent].annotation, model) or model
    names = list(model.model_fields)
    near = get_close_matches(str(name), names, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(names)}."


def _find_model(annotation: Any, owner: type[BaseModel]) -> type[BaseModel] | None:
    """Return the first model in an annotation, such as Judge in `tuple[Judge, ...] | None`; None without one.

    owner: what `Self` stands for.
    """
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if getattr(annotation, "__name__", None) == "Self":
        return owner
    for inner in get_args(annotation):
        model = _find_model(inner, owner)
        if model is not None:
            return model
    return None


def describe_type(value: Any) -> str:
    """Describe the type of a value from a file, for messages: "a text", "a list", "keys and values"."""
    if isinstance(value, Mapping):
        return "keys and values"
    kinds = {
        type(None): "nothing",
        bool: "true or false",
        int: "a number",
        float: "a number",
        str: "a text",
        list: "a list",
    }
    return kinds.get(type(value), type(value).__name__)


def word_list(text: str) -> tuple[str, ...]:
    """Split a text into words: `word_list("a an the")` is ("a", "an", "the")."""
    return tuple(text.split())


def word_set(text: str) -> frozenset[str]:
    """Split a text into a set of words."""
    return frozenset(text.split())


def replace_surrogates(text: str) -> str:
    """Replace each lone surrogate, which UTF-8, RE2 and SQLite cannot represent, by a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def join_surrogates(text: str) -> str:
    """Make a text representable in UTF-8: pairs of surrogates are joined, a lone one becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def refuse_constant(name: str) -> Any:
    """Raise for NaN and Infinity, which Python reads but JSON does not have: `json.loads(…, parse_constant=…)`."""
    raise ValueError(f"{name} is not JSON")


def shorten(text: str, most: int = 120) -> str:
    """Cut the text to `most` characters if it is longer; a cut text ends with an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"


class RepeatedKey(ValueError):  # noqa: N818 - the name says what is wrong
    """A JSON object that has a key twice."""


def check_unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Return a JSON object as a dict; for `json.loads(…, object_pairs_hook=…)`.

    Raises `RepeatedKey` if a key is repeated; json would keep its last value.
    """
    data = dict(pairs)
    if len(data) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise RepeatedKey(f"the key {repeated!r} twice")
    return data


def find_similar_names(names: Iterable[str]) -> tuple[str, str] | None:
    """Find the first two names that differ only in case, spaces, invisible characters or how Unicode writes them."""
    first: dict[str, str] = {}
    for name in names:
        text = name
        if not text.isascii():
            text = unicodedata.normalize("NFKC", text)
            text = "".join(
                character for character in text if unicodedata.category(character) != "Cf"
            )
        earlier_name = first.setdefault(" ".join(text.casefold().split()), name)
        if earlier_name != name:
            return earlier_name, name
    return None
