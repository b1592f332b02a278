"""What `import rubrank` offers, and what it costs."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from cases import folded

import rubrank

ROOT = Path(__file__).parents[2]
NAMES = sorted(rubrank.__all__)
HEAVY = ["numba", "torch", "openai", "polars", "rich", "typer", "pyromark", "pydantic"]


def in_a_new_process(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_few_names_and_the_ones_that_a_beginner_needs():
    assert len(NAMES) <= 60
    assert {"fuse", "grade", "verifier", "rule", "RLVR2", "Gate", "RewardEngine", "ScoreBatch", "InvalidInput"} <= set(
        NAMES
    )


@folded("name", NAMES)
def test_every_name_is_what_its_home_defines(name):
    value = getattr(rubrank, name)
    if hasattr(value, "__module__"):
        home = importlib.import_module(value.__module__)
        assert value.__module__.startswith("rubrank.")
        assert getattr(home, rubrank._HOMES[name][1]) is value
        assert value.__doc__


def test_star_import():
    namespace: dict[str, object] = {}
    exec("from rubrank import *", namespace)
    assert set(NAMES) <= set(namespace)


def test_dir_lists_the_names():
    assert dir(rubrank) == NAMES


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'rubrank' has no attribute 'fues'"):
        rubrank.fues  # noqa: B018 - looking it up is the test
    with pytest.raises(ImportError, match="fues"):
        exec("from rubrank import fues")


def test_importing_rubrank_imports_nothing_heavy():
    code = f"import sys, rubrank; print([m for m in {HEAVY} if m in sys.modules])"
    assert in_a_new_process(code).strip() == "[]"


@pytest.mark.slow
def test_the_first_fusion_loads_the_compiler_and_nothing_else():
    code = f"import sys, rubrank; rubrank.fuse([[1], [0]]); print([m for m in {HEAVY} if m in sys.modules])"
    assert in_a_new_process(code).strip() == "['numba']"


def test_names_are_there_in_a_new_process():
    code = f"import rubrank; print(all(hasattr(rubrank, name) for name in {NAMES}))"
    assert in_a_new_process(code).strip() == "True"


def test_types_are_shipped():
    assert (files("rubrank") / "py.typed").is_file()


def test_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert rubrank.__version__ == project["version"]


IMPORT = re.compile(r"^[ ]*from[ ]+(rubrank(?:\.[\w.]+)?)[ ]+import[ ]+(\w+(?:, \w+)*)", re.MULTILINE)
OPTIONAL = ("rubrank.training.frameworks.", "rubrank.evaluation.inspect")  # these need packages of others


def imports_of_documents() -> set[tuple[str, str]]:
    folders = [ROOT / name for name in ("docs", "examples", "recipes")]
    paths = [*ROOT.glob("*.md"), *(p for f in folders for kind in ("md", "py") for p in f.rglob(f"*.{kind}"))]
    lines = {line for path in paths if "log" not in path.parts for line in IMPORT.findall(path.read_text("utf-8"))}
    return {(module, name) for module, names in lines for name in names.split(", ") if not module.startswith(OPTIONAL)}


def test_documents_and_examples_import_what_is_there():
    found = imports_of_documents()
    assert len(found) > 30
    assert [pair for pair in sorted(found) if not hasattr(importlib.import_module(pair[0]), pair[1])] == []
