"""Read the files that hold rubrics (YAML, TOML, JSON), and the presets that come with rubrank.

    read_data("gates")              the data of the preset of that name
    read_data("essay.yaml")         the data of a file; InvalidInput if it cannot be read

YAML is read more strictly than usual: a key given twice is an error, only true and false are truth values, and
aliases that would fill the memory are refused. A service reads the rubrics of callers within `refuse_files`, where no
file is opened.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from importlib.resources import files
from pathlib import Path
from types import MappingProxyType
from typing import Any

import yaml

from rubrank._files import read_text, suffix_error
from rubrank._plain import MOST_DEPTH, MOST_VALUES, check_bounds, check_unique_keys, shorten
from rubrank.errors import InvalidInput

_MOST_CHARACTERS = 4 << 20  # characters of a YAML or TOML file, whose parsers are slow
_MERGE_TAG = "tag:yaml.org,2002:merge"

# The parser in C reads ten times as fast.
_SafeLoader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


# --------------------------------------------------------------------------------------------------------------- YAML


class _Loader(_SafeLoader):
    """YAML in which only true and false are truth values: `on` is a key here, and `yes` a word to look for."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver(
    "tag:yaml.org,2002:bool", re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), "tTfF"
)


def _construct_unique_mapping(
    loader: _Loader, node: yaml.MappingNode, deep: bool = False
) -> dict[Any, Any]:
    """Build a mapping; refuse a key given twice, of which YAML would silently drop the first value.

    deep: passed by the loader. It is not used: values are always built at once.
    """
    written_keys = [key for key, _ in node.value if key.tag != _MERGE_TAG]
    keys = Counter(str(loader.construct_object(key, deep=True)) for key in written_keys)
    twice = sorted(key for key, times in keys.items() if times > 1)
    if twice:
        raise yaml.constructor.ConstructorError(
            None, None, f"{', '.join(twice)} given twice", node.start_mark
        )
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _construct_unique_mapping)


def load_yaml(text: str) -> Any:
    """Parse a YAML text. Raises yaml.YAMLError if it is not valid, or too large once its aliases are expanded."""
    loader = _Loader(text)
    try:
        node = loader.get_single_node()
        if node is None:
            return None
        _refuse_bombs(node)
        return loader.construct_document(node)
    finally:
        loader.dispose()


def _refuse_bombs(root: yaml.Node) -> None:
    """Refuse aliases that multiply: nine aliases of nine aliases of … are 500 bytes in a file, gigabytes in memory."""
    sizes: dict[int, int] = {}  # values below a node, with all aliases expanded; by the node's id
    ancestors: set[int] = set()
    # A stack instead of recursion, because the nesting is not limited yet. True: the children have been counted.
    stack: list[tuple[yaml.Node, bool]] = [(root, False)]
    while stack:
        node, children_are_counted = stack.pop()
        children: list[yaml.Node] = []
        if isinstance(node, yaml.MappingNode):
            children = [part for pair in node.value for part in pair]
        elif isinstance(node, yaml.SequenceNode):
            children = list(node.value)
        if children_are_counted:
            sizes[id(node)] = 1 + sum(sizes[id(child)] for child in children)
            ancestors.discard(id(node))
            if sizes[id(node)] > MOST_VALUES or len(ancestors) > MOST_DEPTH:
                raise yaml.YAMLError(
                    f"more than {MOST_VALUES:,} values, or nested more than {MOST_DEPTH} deep"
                )
        elif id(node) in ancestors:
            raise yaml.YAMLError("a value that contains itself")
        elif id(node) not in sizes:
            ancestors.add(id(node))
            stack.append((node, True))
            stack.extend((child, False) for child in children)


# ------------------------------------------------------------------------------------------------- presets and files

_LOADERS: dict[str, Callable[[str], Any]] = {
    ".yaml": load_yaml,
    ".yml": load_yaml,
    ".json": partial(json.loads, object_pairs_hook=check_unique_keys),
    ".toml": tomllib.loads,
}

_named_rubrics: ContextVar[Mapping[str, Any] | None] = ContextVar("named_rubrics", default=None)
"""Within `refuse_files`: the data of the rubrics that may be named. None: files may be read."""


def _get_preset_folder() -> Any:
    return files("rubrank") / "rubrics" / "presets"


def presets() -> tuple[str, ...]:
    """Return the names that `extends` knows: presets, and within `refuse_files` also the operator's rubrics."""
    names = {path.name.removesuffix(".yaml") for path in _get_preset_folder().iterdir()}
    return tuple(sorted(names.union(_named_rubrics.get() or {})))


@contextmanager
def refuse_files(rubrics: Mapping[str, Any] = MappingProxyType({})) -> Iterator[None]:
    """Within this context a rubric may name presets and `rubrics` but no files: for callers that are not trusted."""
    token = _named_rubrics.set(rubrics)
    try:
        yield
    finally:
        _named_rubrics.reset(token)


def check_may_read(source: str | Path, where: str = "rubric") -> None:
    """Raise InvalidInput within `refuse_files`. The message does not reveal whether the file exists."""
    if _named_rubrics.get() is not None:
        raise InvalidInput(
            where,
            "rubric",
            allowed=f"the content of a rubric, or a preset ({', '.join(presets())})",
            got=shorten(repr(str(source)), 80),
            remedy="Send the rubric itself: files are not read for callers.",
        )


def read_data(source: str | Path) -> Any:
    """Read the data of a rubric file or a preset."""
    if isinstance(source, str) and source in presets():
        named_rubrics = _named_rubrics.get() or {}
        if source in named_rubrics:
            return named_rubrics[source]
        return load_yaml((_get_preset_folder() / f"{source}.yaml").read_text(encoding="utf-8"))
    check_may_read(source)
    return read_settings(source, f"Presets: {', '.join(presets())}.")


def read_settings(source: str | Path, remedy: str = "") -> Any:
    """Read the data of a YAML, TOML or JSON file. remedy: advice in the error about a file with another suffix.

    Raises InvalidInput if the file cannot be read, is not valid, or is too large.
    """
    path = Path(source)
    if path.suffix not in _LOADERS:
        raise suffix_error(source, tuple(_LOADERS), remedy=remedy)
    text = read_text(path)
    if path.suffix != ".json" and len(text) > _MOST_CHARACTERS:
        raise InvalidInput(
            str(path),
            "the file",
            allowed=f"at most {_MOST_CHARACTERS >> 20} MB",
            got="more",
            remedy="Write it as JSON.",
        )
    try:
        data = _LOADERS[path.suffix](text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        message = shorten(" ".join(str(error).split()), 500)
        language = "YAML" if path.suffix == ".yml" else path.suffix[1:].upper()
        raise InvalidInput(
            str(path),
            "the file",
            allowed=f"valid {language}",
            got=message,
        ) from None
    # A list may be a dataset of any size: only each of its items is limited.
    for part in data if isinstance(data, list) else [data]:
        check_bounds(part, str(path), "the file")
    return data
