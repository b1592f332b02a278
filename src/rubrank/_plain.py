"""Strict models, how much data a file may hold, pydantic's complaints in our words, and data as JSON has it.

judges.yaml: judges.0.kid must be left out; got 1. Did you mean 'kind'?
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence, Set, Sized
from difflib import get_close_matches
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ConfigDict, ValidationError

from rubrank.errors import InvalidInput, UnknownName

MOST_VALUES = 1_000_000
"""Values in a file of settings: more are a mistake, or meant to do harm."""
MOST_PARAMETERS = 20_000
"""Values in the parameters of one criterion, such as keywords."""
MOST_KEYS = 10_000
"""Keys of one mapping."""
MOST_TEXT = 64 << 20
"""Characters in all texts of a file of settings together."""
MOST_DEPTH = 100
_MOST_COMPLAINTS = 100  # about one thing; more do not help


def check_bounds(value: Any, owner: str, parameter: str, most: int = MOST_VALUES) -> None:
    """Raise one clear error if there is more in `value` than a person writes; without recursion, and soon."""
    stack, values, text = [(value, 0)], 0, 0
    while stack:
        item, depth = stack.pop()
        values += 1
        if isinstance(item, str):
            text += len(item)
        elif isinstance(item, Mapping):
            if len(item) > MOST_KEYS:
                raise InvalidInput(owner, parameter, f"mappings of at most {MOST_KEYS:,} keys", f"{len(item):,}", "")
            stack.extend((child, depth + 1) for pair in item.items() for child in pair)
        elif isinstance(item, Sequence | Set) and not isinstance(item, bytes | bytearray):
            if len(item) > most:
                raise _too_many(owner, parameter, most, len(item))
            stack.extend((child, depth + 1) for child in item)
        if depth > MOST_DEPTH:
            raise InvalidInput(owner, parameter, f"nested at most {MOST_DEPTH} deep", "more", "")
        if values > most:
            raise _too_many(owner, parameter, most, None)
        if text > MOST_TEXT:
            raise InvalidInput(owner, parameter, f"at most {MOST_TEXT >> 20} million characters of text", "more", "")


def _too_many(owner: str, parameter: str, most: int, got: int | None) -> InvalidInput:
    return InvalidInput(owner, parameter, f"at most {most:,} values", "more" if got is None else f"{got:,}", "")


class Strict(BaseModel):
    """A model that cannot be changed, and refuses keys it does not know."""

    model_config = ConfigDict(frozen=True, extra="forbid")


def plain(value: Any) -> Any:
    """As JSON can hold it: no NumPy types, no tuples; None for what is no finite number."""
    if isinstance(value, Mapping):
        return {str(key): plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple | Iterator):
        return [plain(inner) for inner in value]
    if type(value).__module__ == "numpy" and hasattr(value, "tolist"):  # a number, or an array of whatever
        found = value.tolist()
        return plain(found) if isinstance(found, list | float) else found
    return None if isinstance(value, float) and not math.isfinite(value) else value


def in_our_words(
    error: ValidationError, where: str, model: type[BaseModel], page: str = "docs/rubrics.md"
) -> list[InvalidInput]:
    """Each complaint as one of our errors; one of our own comes through as it is, with the place before it."""
    complaints = _joined([complaint for complaint in error.errors() if not _follows(complaint)])
    return [_in_our_words(complaint, where, model, page) for complaint in complaints[:_MOST_COMPLAINTS]]


_M = TypeVar("_M", bound=BaseModel)


def validated(model: type[_M], data: Any, where: str, page: str, **context: Any) -> _M:
    """The data as a model; raises the first complaint. context: for validators that ask for it."""
    try:
        return model.model_validate(data, context=context or None)
    except ValidationError as error:
        raise in_our_words(error, where, model, page)[0] from None


def _follows(complaint: Any) -> bool:
    """Is a list only too short because what is wrong with its items was left out?"""
    given = complaint.get("input")
    return (
        complaint["type"] == "too_short" and isinstance(given, Sized) and len(given) >= complaint["ctx"]["min_length"]
    )


_BRANCH = re.compile(r"str|int|float|bool|\w+\[.+\]")
"""How pydantic names, in the place of a complaint, which kind of several it tried."""


def _joined(complaints: list[Any]) -> list[Any]:
    """Where a value may be of several kinds, one complaint instead of one for each; that of the nearest kind."""
    found: dict[Any, list[Any]] = {}
    for number, complaint in enumerate(complaints):
        tried = next((i for i, part in enumerate(complaint["loc"]) if _BRANCH.fullmatch(str(part))), None)
        key = number if tried is None else complaint["loc"][:tried]
        found.setdefault(key, []).append(complaint if tried is None else {**complaint, "tried": tried})
    return [_nearest(several) for several in found.values()]


def _nearest(several: list[Any]) -> Any:
    if "tried" not in several[0]:
        return several[0]
    deepest = max(several, key=lambda complaint: len(complaint["loc"]))
    tried = deepest["tried"]
    place = (*deepest["loc"][:tried], *deepest["loc"][tried + 1 :])
    if len(place) > tried:  # the kind was right, and something in it is not
        return {**deepest, "loc": place}
    return {**deepest, "loc": place, "allowed": " or ".join(dict.fromkeys(map(allowed_by, several)))}


def _in_our_words(complaint: Any, where: str, model: type[BaseModel], page: str) -> InvalidInput:
    inner, place = complaint.get("ctx", {}).get("error"), ".".join(map(str, complaint["loc"]))
    if isinstance(inner, InvalidInput):
        return inner.with_owner(where if inner.owner == "options" else f"{where}: {inner.owner}")
    got = shortened(repr(complaint.get("input")))
    if complaint["type"] == "missing":  # pydantic shows what is around it
        got = f"none in {got}"
    if complaint["type"] == "extra_forbidden":
        remedy = _known(model, complaint["loc"])
        return InvalidInput(where, place, allowed_by(complaint), got, remedy)
    if complaint["type"] == "literal_error" and isinstance(complaint["input"], str):
        allowed = re.findall(r"'([^']*)'", complaint["ctx"]["expected"])
        near = get_close_matches(complaint["input"], allowed, n=1)
        remedy = f"Did you mean {near[0]!r}?" if near else f"See {page}."
        return UnknownName(where, place, allowed_by(complaint), got, remedy)
    return InvalidInput(where, place or model.__name__.lower(), allowed_by(complaint), got, f"See {page}.")


_PLAINLY = {
    "missing": "given",
    "extra_forbidden": "left out: it is an unknown key",
    "string_type": "a text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "finite_number": "a finite number",
    "string_too_short": "a text that is not empty",
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
}
_BOUNDS = {
    "greater_than": (">", "gt"),
    "greater_than_equal": ("≥", "ge"),
    "less_than": ("<", "lt"),
    "less_than_equal": ("≤", "le"),
}
_LISTS = ("tuple_type", "list_type", "set_type", "frozen_set_type", "iterable_type")
_MAPPINGS = ("dict_type", "mapping_type", "model_type", "model_attributes_type")


def kind_in_words(value: Any) -> str:
    """What a file holds where something else belongs, in the words of files."""
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


def allowed_by(complaint: Any) -> str:
    """What would have been right; kinds of containers have the names that files have for them."""
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
    if complaint["type"] in _PLAINLY:
        return _PLAINLY[complaint["type"]]
    return f"right ({complaint['msg']})"


def _known(model: type[BaseModel], place: Sequence[int | str]) -> str:
    """What could have been meant by a name that is not known."""
    *above, name = place
    names = list(_inside(model, above).model_fields)
    near = get_close_matches(str(name), names, n=1)
    return f"Did you mean {near[0]!r}?" if near else f"Known: {', '.join(names)}."


def _inside(model: type[BaseModel], place: Sequence[int | str]) -> type[BaseModel]:
    """The model at a place within another, such as ("judges", 0, "sampling")."""
    for part in place:
        if isinstance(part, str) and part in model.model_fields:
            model = _model_in(model.model_fields[part].annotation, model) or model
    return model


def _model_in(annotation: Any, owner: type[BaseModel]) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if getattr(annotation, "__name__", None) == "Self":
        return owner
    return next((found for inner in get_args(annotation) if (found := _model_in(inner, owner))), None)


def word_list(text: str) -> tuple[str, ...]:
    """Words as one writes them: `word_list("a an the")` is ("a", "an", "the")."""
    return tuple(text.split())


def word_set(text: str) -> frozenset[str]:
    """The same where their order does not matter."""
    return frozenset(text.split())


def clean(text: str) -> str:
    """The text without lone surrogates, which UTF-8, RE2 and SQLite cannot hold; each becomes a question mark."""
    return text if text.isascii() else text.encode("utf-8", "replace").decode()


def encodable(text: str) -> str:
    """The text as UTF-8 can hold it: halves of one character are joined, what is left alone becomes U+FFFD."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def no_constant(name: str) -> Any:
    """For `json.loads`: NaN and Infinity, which Python would read, are no JSON."""
    raise ValueError(f"{name} is not JSON")


def labelled(name: str, text: str, width: int) -> str:
    """One line of a description: a name, padded to `width`, and what there is to say."""
    return f"{name:<{width}}{text}"


def shortened(text: str, most: int = 120) -> str:
    """Not more than `most` characters, cut with an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"
