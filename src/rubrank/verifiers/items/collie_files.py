"""COLLIE's own files, read without running what is in them: prompts, and constraints for the verifier `Collie`.

    items = read_collie("all_data.dill")
    items[0].key, items[0].prompt, items[0].constraints        ("wiki_c07", "Please generate …", [{"level": …}])

A dill file is a pickle, and a pickle can run anything. Here only the classes of `collie.constraints` are known, and
only as records of their attributes; whatever else a file names is refused. JSON files are read too (an object per line,
or one list), with constraints in the words in which COLLIE prints them: "Constraint(InputLevel(None), …)".
"""

from __future__ import annotations

import builtins
import io
import json
import pickle
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput

_OWNER = "read_collie"
_RELATIONS = {"==": "equals", "!=": "differs", "<": "less than", ">": "more than", "<=": "at most", ">=": "at least"}


@dataclass(frozen=True)
class CollieItem:
    """One prompt, its constraints as parameters of the verifier `Collie`, and the text it was made from."""

    key: str
    prompt: str
    constraints: list[dict[str, Any]]
    example: str = ""


class Record:
    """An object of COLLIE's classes: its name and its attributes."""

    kind = ""

    def __init__(self, *args: Any) -> None:
        self.args = args


def read_collie(path: str | Path) -> list[CollieItem]:
    """The items of a COLLIE file: the published dill, or JSON."""
    path = Path(path)
    data = _pickled(path) if path.suffix in (".dill", ".pkl", ".pickle") else _json(path)
    groups = data.items() if isinstance(data, Mapping) else [("", data)]
    return [_item(str(key), i, row) for key, rows in groups for i, row in enumerate(rows)]


def _json(path: Path) -> Any:
    text = path.read_text("utf-8")
    try:
        return json.loads(text)
    except ValueError:
        pass
    try:
        return [json.loads(line) for line in text.splitlines() if line.strip()]
    except ValueError as error:
        raise InvalidInput(_OWNER, path.name, "JSON, or a dill file of COLLIE", str(error), "") from None


class _TreeReader(pickle.Unpickler):
    """Knows COLLIE's constraints and plain containers, nothing that can act."""

    def find_class(self, module: str, name: str) -> Any:
        if module.split(".")[0] == "collie":
            return type(name, (Record,), {"kind": name})
        if (module, name) in (
            ("builtins", "Ellipsis"),
            ("builtins", "set"),
            ("builtins", "frozenset"),
            ("builtins", "list"),
        ):
            return getattr(builtins, name)
        if (module, name) == ("copyreg", "_reconstructor"):
            return lambda cls, base, state: cls() if isinstance(cls, type) and issubclass(cls, Record) else None
        if (module, name) == ("builtins", "object"):
            return Record
        raise InvalidInput(_OWNER, "file", "constraints of COLLIE and plain data", f"{module}.{name}", "It is not run.")


def _pickled(path: Path) -> Any:
    try:
        return _TreeReader(io.BytesIO(path.read_bytes())).load()
    except (pickle.UnpicklingError, EOFError, AttributeError, IndexError, TypeError, KeyError, ValueError) as error:
        if isinstance(error, InvalidInput):
            raise
        raise InvalidInput(_OWNER, path.name, "a pickle or dill file", str(error), "") from None


def _item(key: str, number: int, row: Any) -> CollieItem:
    where = f"{key or 'row'} {number}"
    if not isinstance(row, Mapping) or "constraint" not in row:
        raise InvalidInput(_OWNER, where, "an object with `prompt`, `constraint`, `targets`", repr(row)[:80], "")
    constraint = row["constraint"]
    tree = parse_constraint(constraint) if isinstance(constraint, str) else _tree(constraint)
    found = _constraints(tree, row.get("targets"), where)
    return CollieItem(str(row.get("key", key)), str(row.get("prompt", "")), found, str(row.get("example", "")))


# ---- one form for objects and for print-outs: a name and its arguments ----

Tree = tuple[str, list[Any]]
_FIELDS = {
    "Constraint": ("input_level", "target_level", "transformation", "relation", "reduction"),
    "InputLevel": ("level",),
    "TargetLevel": ("level",),
    "Count": ("count_target",),
    "Position": ("position",),
    "ForEach": ("func",),
    "Max": ("func",),
    "Relation": ("operand",),
    "Reduction": ("reduction", "value"),
    "And": ("callable_1", "callable_2"),
    "Or": ("callable_1", "callable_2"),
    "All": ("callables",),
}


def _tree(value: Any) -> Any:
    if not isinstance(value, Record):
        return value
    inside = [getattr(value, name, None) for name in _FIELDS.get(value.kind, ())]
    if value.kind == "All":
        inside = list(inside[0] or ())
    return value.kind, [_tree(one) for one in inside]


_NAME = re.compile(r"\s*([A-Za-z]+)\(")


def parse_constraint(text: str) -> Tree:
    """`Constraint(InputLevel(None), TargetLevel(word), Transformation(Count()), Relation(==), Reduction(None))`."""
    tree, end = _parse(text, 0, 0)
    if text[end:].strip():
        raise InvalidInput(_OWNER, "constraint", "one printed constraint", text[end : end + 60], "")
    return tree


def _parse(text: str, at: int, depth: int) -> tuple[Tree, int]:
    name = _NAME.match(text, at)
    if name is None or depth > 8:
        raise InvalidInput(_OWNER, "constraint", "a name and its arguments in brackets", text[at : at + 60], "")
    arguments: list[Any] = []
    at = name.end()
    while True:
        if _NAME.match(text, at):
            inner, at = _parse(text, at, depth + 1)
            arguments.append(inner[1][0] if inner[0] == "Transformation" and inner[1] else inner)
        end = re.compile(r"[^(),\[\]]*(?:\[[^\]]*\])?").match(text, at)
        literal = end[0].strip() if end else ""
        arguments += [_literal(literal)] if literal else []
        at = end.end() if end else at
        if at >= len(text):
            raise InvalidInput(_OWNER, "constraint", "closed brackets", text[-60:], "")
        at += 1
        if text[at - 1] == ")":
            return (name[1], arguments), at


def _literal(word: str) -> Any:
    if word in ("None", "..."):
        return None if word == "None" else ...
    try:
        return json.loads(word.replace("'", '"'))
    except ValueError:
        return word


# ---- from COLLIE's form to ours ----


def _constraints(tree: Any, targets: Any, where: str) -> list[dict[str, Any]]:
    name, inside = tree if isinstance(tree, tuple) else ("", [])
    if name in ("All", "And"):
        each = targets if isinstance(targets, Sequence) and not isinstance(targets, str) else [targets] * len(inside)
        return [one for part, target in zip(inside, each, strict=False) for one in _constraints(part, target, where)]
    if name == "Or":
        each = targets if isinstance(targets, Sequence) and not isinstance(targets, str) else [targets] * len(inside)
        pairs = zip(inside, each, strict=False)
        return [{"or": [{"and": _constraints(part, target, where)} for part, target in pairs]}]
    if name != "Constraint" or len(inside) < 4:
        raise _unknown(where, tree)
    levels = [one[1][0] if isinstance(one, tuple) and one[1] else None for one in inside[:2]]
    reduction = inside[4][1] if len(inside) > 4 and isinstance(inside[4], tuple) else []
    operand = inside[3][1][0] if isinstance(inside[3], tuple) and inside[3][1] else None
    return _single(levels, inside[2], operand, reduction, targets, where)


def _single(
    levels: list[Any], transformation: Any, operand: Any, reduction: list[Any], target: Any, where: str
) -> list[dict[str, Any]]:
    outer, level = levels
    kind, arguments = transformation if isinstance(transformation, tuple) else (transformation, [])
    if kind == "ForEach" and outer is not None:
        measured = _measured(level, arguments[0] if arguments else None, where)
        compared = _compared(operand, target, each=True)
        how = _reduced(reduction)
        return [{"level": outer, "transform": "for_each", "inner": measured, **compared, **how}]
    if operand in ("in", "not in"):
        wanted = target if isinstance(target, list) else [target]
        amount = {"relation": "at least", "value": 1} if operand == "in" else {"relation": "exactly", "value": 0}
        return [{"level": level, "transform": "count", "of": str(word), **amount} for word in wanted]
    if kind == "Position" and arguments and isinstance(arguments[0], list):
        pairs = zip(arguments[0], target if isinstance(target, list) else [target] * len(arguments[0]), strict=False)
        return [{"level": level, **_place(at), **_compared(operand, one)} for at, one in pairs]
    return [{**_measured(level, transformation, where), **_compared(operand, target)}]


def _measured(level: Any, transformation: Any, where: str) -> dict[str, Any]:
    kind, arguments = transformation if isinstance(transformation, tuple) else (transformation, [])
    if kind == "Count":
        of = arguments[0] if arguments else None
        return {"level": level, "transform": "count"} | ({} if of is None else {"of": str(of)})
    if kind == "Position" and arguments and isinstance(arguments[0], int):
        return {"level": level, **_place(arguments[0])}
    if kind == "Max" and arguments and isinstance(arguments[0], tuple) and arguments[0][0] == "ForEach":
        return {"level": level, "transform": "max", "inner": _measured("character", arguments[0][1][0], where)}
    raise _unknown(where, transformation)


def _place(position: int) -> dict[str, Any]:
    return {"transform": "position", "at": position + 1 if position >= 0 else position}


def _compared(operand: Any, target: Any, each: bool = False) -> dict[str, Any]:
    one = target[0] if isinstance(target, list) and len(target) == 1 and not each else target
    number = isinstance(one[0] if isinstance(one, list) and one else one, int | float)
    relation = "exactly" if operand == "==" and number else _RELATIONS.get(str(operand), str(operand))
    return {"relation": relation, ("values" if isinstance(one, list) else "value"): one}


def _reduced(reduction: list[Any]) -> dict[str, Any]:
    how = reduction[0] if reduction else None
    if how in (None, "all"):
        return {}
    word, _, n = str(how).rpartition(" ")  # printed as "at least 3"
    if word and n.isdigit():
        return {"reduction": word, "n": int(n)}
    return {"reduction": str(how)} | (
        {"n": int(reduction[1])} if len(reduction) > 1 and reduction[1] is not None else {}
    )


def _unknown(where: str, tree: Any) -> InvalidInput:
    known = "Count, Position, ForEach, Max with a level, a relation and a reduction; All, And, Or"
    return InvalidInput(_OWNER, where, known, repr(tree)[:120], "")
