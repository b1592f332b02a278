"""Which files of a tree belong to its tests, and which modules its files make.

A patch may do as it likes with the code, not with what judges it: tests run with their own files as they were given.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Mapping
from fnmatch import fnmatchcase
from pathlib import PurePosixPath

_FOLDERS = {"test", "tests", "testing", "testdata", "test_data", "fixtures"}
_NAMES = re.compile(r"(?:test_.*|tests?|.*_tests?|conftest|.*_?test_?(?:helpers?|utils?|tools?|case))\.py")
_CHECKS = ("assert", "check", "expect", "verify", "require", "ensure")


def test_files(files: Mapping[str, str], patterns: list[str] | None, sources: Iterable[str]) -> set[str]:
    """Files of the tests: those that the patterns name; without patterns, by their names, and helpers that check.

    A helper that checks is a module which the tests import and which has a function such as `check_sorted` that
    asserts: a solution that may rewrite it may pass everything.
    """
    if patterns is not None:
        return {name for name in files if any(fnmatchcase(name, pattern) for pattern in patterns)}
    found = {name for name in files if _by_name(name)}
    texts = [*sources, *(files[name] for name in found if name.endswith(".py"))]
    imported = {module for text in texts for module in _imports(text)}
    helpers = {name for name in files if module_of(name) in imported and _checks(files[name])}
    return found | helpers


def _by_name(name: str) -> bool:
    path = PurePosixPath(name)
    return bool(_FOLDERS & set(path.parts[:-1])) or bool(_NAMES.fullmatch(path.name))


def _parsed(source: str) -> list[ast.stmt]:
    try:
        return ast.parse(source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return []


def _imports(source: str) -> set[str]:
    """Modules that a source imports, and what it may import from them."""
    found: set[str] = set()
    for node in (inner for statement in _parsed(source) for inner in ast.walk(statement)):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            found |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return found


def _checks(source: str) -> bool:
    for node in (inner for statement in _parsed(source) for inner in ast.walk(statement)):
        named = isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and node.name.lstrip("_").startswith(_CHECKS)
        if named and any(_asserts(inner) for inner in ast.walk(node)):
            return True
    return False


def _asserts(node: ast.AST) -> bool:
    return isinstance(node, ast.Assert) or (isinstance(node, ast.Name) and node.id == "AssertionError")


def module_of(name: str) -> str | None:
    """a/b.py → a.b, a/__init__.py → a; None for what is no module."""
    path = PurePosixPath(name)
    parts = path.with_suffix("").parts
    if path.suffix != ".py" or not all(part.isidentifier() for part in parts):
        return None
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts) or None


def modules_of(names: Iterable[str]) -> dict[str, str]:
    """Every module that the files make, packages without an __init__ too → its file ("" for these)."""
    found: dict[str, str] = {}
    for name in names:
        module = module_of(name)
        if module is not None:
            found[module] = name
            parts = module.split(".")
            for i in range(1, len(parts)):
                found.setdefault(".".join(parts[:i]), "")
    return found
