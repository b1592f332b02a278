"""Reading the files that hold rubrics: YAML, TOML, JSON, and the presets that come with rubrank."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import yaml

from rubrank._files import read_text
from rubrank.errors import InvalidInput


def presets() -> tuple[str, ...]:
    """Names that `extends` knows."""
    return tuple(sorted(path.name.removesuffix(".yaml") for path in _preset_folder().iterdir()))


class _Loader(yaml.SafeLoader):
    """YAML in which only true and false are yes-or-no values: `on` is a key here, `yes` a word to look for."""


_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:bool"]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:bool", re.compile("^(?:true|True|TRUE|false|False|FALSE)$"), "tTfF")


def _unique_keys(loader: _Loader, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
    """A key given twice is a slip of which the first half would be lost without a word."""
    keys = [loader.construct_object(key, deep=True) for key, _ in node.value]
    twice = sorted({str(key) for key in keys if keys.count(key) > 1})
    if twice:
        raise yaml.constructor.ConstructorError(None, None, f"{', '.join(twice)} given twice", node.start_mark)
    return loader.construct_mapping(node, deep=True)


_Loader.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, _unique_keys)


def load_yaml(text: str) -> Any:
    """YAML as rubric files are written."""
    return yaml.load(text, Loader=_Loader)


_LOADERS: dict[str, Callable[[str], Any]] = {
    ".yaml": load_yaml,
    ".yml": load_yaml,
    ".json": json.loads,
    ".toml": tomllib.loads,
}


def _preset_folder() -> Any:
    return files("rubrank") / "rubrics" / "presets"


def read_data(source: str | Path) -> Any:
    """What a rubric file, or a preset, holds."""
    if isinstance(source, str) and source in presets():
        return load_yaml((_preset_folder() / f"{source}.yaml").read_text(encoding="utf-8"))
    path = Path(source)
    if path.suffix not in _LOADERS:
        raise InvalidInput(
            "load_rubric", "source", "a .yaml, .toml or .json file, or a preset", str(source),
            f"Presets: {', '.join(presets())}.",
        )  # fmt: skip
    text = read_text(path)
    try:
        return _LOADERS[path.suffix](text)
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise InvalidInput(
            str(path), "file", f"valid {path.suffix[1:]}", " ".join(str(error).split()), "Mend it."
        ) from None
