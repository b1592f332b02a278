"""What pydantic complains about, in our words: where, what is allowed, what came, what to do.

judges.yaml: judges.0.kid must be left out; got 1. Did you mean 'kind'?
"""

from __future__ import annotations

from collections.abc import Sequence, Sized
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from rubrank.errors import InvalidInput


def in_our_words(
    error: ValidationError, where: str, model: type[BaseModel], page: str = "docs/rubrics.md"
) -> list[InvalidInput]:
    """Each complaint as one of our errors; one of our own comes through as it is, with the place before it."""
    return [_in_our_words(complaint, where, model, page) for complaint in error.errors() if not _follows(complaint)]


def _follows(complaint: Any) -> bool:
    """Is a list only too short because what is wrong with its items was left out?"""
    given = complaint.get("input")
    return (
        complaint["type"] == "too_short" and isinstance(given, Sized) and len(given) >= complaint["ctx"]["min_length"]
    )


def _in_our_words(complaint: Any, where: str, model: type[BaseModel], page: str) -> InvalidInput:
    inner, place = complaint.get("ctx", {}).get("error"), ".".join(map(str, complaint["loc"]))
    if isinstance(inner, InvalidInput):
        return type(inner)(f"{where}: {inner.owner}", inner.parameter, inner.allowed, inner.got, inner.remedy)
    got = shortened(repr(complaint.get("input")))
    if complaint["type"] == "missing":  # pydantic shows what is around it
        got = f"none in {got}"
    if complaint["type"] == "extra_forbidden":
        remedy = _known(model, complaint["loc"])
        return InvalidInput(where, place, "left out: nothing has that name", got, remedy)
    return InvalidInput(where, place or model.__name__.lower(), _allowed(complaint), got, f"See {page}.")


_PLAINLY = {
    "missing": "given",
    "string_type": "a text",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    **dict.fromkeys(("float_type", "float_parsing"), "a number"),
    **dict.fromkeys(("int_type", "int_parsing", "int_from_float"), "a whole number"),
}
_LISTS = ("tuple_type", "list_type", "set_type", "frozen_set_type", "iterable_type")
_MAPPINGS = ("dict_type", "mapping_type", "model_type", "model_attributes_type")


def _allowed(complaint: Any) -> str:
    """What would have been right; kinds of containers have the names that files have for them."""
    if complaint["type"] in _LISTS:
        return "a list"
    if complaint["type"] in _MAPPINGS:
        return "keys and values"
    if complaint["type"] == "too_short":
        return f"a list of at least {complaint['ctx']['min_length']}"
    if complaint["type"] == "literal_error":
        return f"one of {complaint['ctx']['expected'].replace(' or ', ', ')}"
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


def shortened(text: str, most: int = 120) -> str:
    """Not more than `most` characters, cut with an ellipsis."""
    return text if len(text) <= most else text[: most - 1] + "…"
