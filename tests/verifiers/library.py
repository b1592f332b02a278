"""What the tests of the whole library share: every verifier, and every example."""

import importlib
import pkgutil
from pathlib import Path

import yaml

import rubrank.verifiers
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.verifiers.verifier import VERIFIERS

EXAMPLES = Path(rubrank.verifiers.__file__).parent / "examples"


def load_all():
    """Every module of the folder is imported: a family that nobody listed is tested too."""
    for module in pkgutil.walk_packages(rubrank.verifiers.__path__, "rubrank.verifiers."):
        importlib.import_module(module.name)
    return {name: v for name, v in VERIFIERS.items() if v.function.__module__.startswith("rubrank.")}


def load_examples():
    """(file, verifier's name, example) of all files."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    return [
        (path.stem, name, example)
        for path in sorted(EXAMPLES.glob("*.yaml"))
        for name, examples in yaml.load(path.read_text("utf-8"), Loader=loader).items()
        for example in examples
    ]


def rollout_of(example):
    return Rollout(response=example["text"], **example.get("rollout", {}))


def group_of(example):
    """The rollout of an example, then its siblings."""
    siblings = [Rollout(response=text) for text in example.get("siblings", ())]
    return Group(id="example", rollouts=(rollout_of(example), *siblings))
