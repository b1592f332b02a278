"""Running a solution against its tests: two sandboxes with a pipe between them.

A patch may change the code in any way, but not what judges it: tests use their own files as they were given. This
module finds those files, says which modules belong to which side, and starts both sandboxes.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import PurePosixPath
from typing import Any

from rubrank.verifiers.shared import sandbox
from rubrank.verifiers.shared.sandboxes.bundle import make_command

_PIPE = "rubrank.verifiers.agentic.pipe"
_TEST_FOLDERS = {"test", "tests", "testing", "testdata", "test_data", "fixtures"}
_TEST_NAMES = re.compile(
    r"(?:test_.*|tests?|.*_tests?|conftest|.*_?test_?(?:helpers?|utils?|tools?|case))\.py"
)
_CHECKING_VERBS = ("assert", "check", "expect", "verify", "require", "ensure")


@dataclass(frozen=True)
class Work:
    """What is to be run: the solution's code and files, and the files as the tests know them."""

    code: str | None
    """The solution, as a module named `module`; None: the tests import it from `files`."""
    module: str
    files: Mapping[str, str] = field(default_factory=dict)
    """The solution's files."""
    given: Mapping[str, str] = field(default_factory=dict)
    """The files as they were before the policy changed them: those that the tests see."""
    test_files: frozenset[str] = frozenset()
    """Of these, the tests' own: imported beside the tests, not from the solution."""


@dataclass(frozen=True)
class RunOptions:
    """How the tests of one response are run."""

    seconds: float
    """For each test."""
    memory: int
    """In MB."""
    stop: bool
    """Stop at the first test that fails."""
    mutates: bool = False
    """Changes of arguments are seen whatever a function returns."""
    in_process: bool = False
    """Run every test in the solution's process."""


def run_tests(work: Work, jobs: list[dict[str, Any]], options: RunOptions) -> list[dict[str, Any]]:
    """One line per job: {"passed", "why", "out", "live"}. Raises what `sandbox.run` raises, for either side."""
    to_solution, from_tests = os.pipe()
    to_tests, from_solution = os.pipe()
    limits = sandbox.Limits(
        # A test may be tried twice: with plain data, then in the solution's process.
        seconds=min(600.0, 2 * options.seconds * len(jobs) + 5),
        cpu=int(options.seconds) + 2,
        memory=options.memory,
        output=64,
        processes=32,
    )
    solution = {"code": work.code, "module": work.module, "mutates": options.mutates}
    tests = {
        "jobs": jobs,
        "seconds": options.seconds,
        "stop": options.stop,
        "live": options.in_process,
    }
    tests |= _assign_modules(work)

    def run_side(
        module: str, request: dict[str, Any], files: Mapping[str, str], channel: tuple[int, int]
    ) -> Any:
        return sandbox.run(
            make_command(f"{_PIPE}.messages", f"{_PIPE}.{module}"),
            files=files,
            stdin=json.dumps(request).encode(),
            limits=limits,
            channel=channel,
            trusted=True,
        )

    with ThreadPoolExecutor(1) as threads:
        other_side = threads.submit(
            run_side, "solution_process", solution, work.files, (to_solution, from_solution)
        )
        try:
            result = run_side("tests_process", tests, work.given, (to_tests, from_tests))
        finally:
            error = other_side.exception()
    if error is not None:
        raise error
    return [json.loads(line) for line in result.stdout.decode().split("\n")[:-1]]


def _assign_modules(work: Work) -> dict[str, Any]:
    """Which modules are the solution's (`remote`), which the tests' own (`local`), and what there was before."""
    local = {name: file for name, file in modules_of(work.test_files).items() if file}
    remote: set[str] = set()
    if work.code is None or work.test_files:
        remote = set(modules_of(work.files)) - set(local)
    if work.code is not None:
        remote.add(work.module)
    given = {name.partition(".")[0] for name in modules_of(work.given)} | {work.module}
    return {"remote": sorted(remote), "local": local, "given": sorted(given)}


def find_test_files(
    files: Mapping[str, str], patterns: list[str] | None, sources: Iterable[str]
) -> set[str]:
    """The files of the tests: those that the patterns name; without patterns, by their names, and helpers that check.

    A helper that checks is a module which the tests import and which has a function such as `check_sorted` that
    asserts: a solution that may rewrite it may pass everything.
    """
    if patterns is not None:
        return {name for name in files if any(fnmatchcase(name, pattern) for pattern in patterns)}
    test_files = set()
    for name in files:
        path = PurePosixPath(name)
        if _TEST_FOLDERS & set(path.parts[:-1]) or _TEST_NAMES.fullmatch(path.name):
            test_files.add(name)
    imported: set[str] = set()
    for source in [*sources, *(files[name] for name in test_files if name.endswith(".py"))]:
        imported |= _find_imports(source)
    helpers = {name for name in files if module_of(name) in imported and _has_checks(files[name])}
    return test_files | helpers


def _walk(source: str) -> Iterator[ast.AST]:
    """All nodes of a source; none if it is not Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    yield from ast.walk(tree)


def _find_imports(source: str) -> set[str]:
    """Modules that a source imports, and what it may import from them."""
    modules: set[str] = set()
    for node in _walk(source):
        if isinstance(node, ast.Import):
            modules |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            modules |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return modules


def _has_checks(source: str) -> bool:
    """Does a function with a name such as `check_sorted` assert something?"""
    for node in _walk(source):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        if not node.name.lstrip("_").startswith(_CHECKING_VERBS):
            continue
        for inner in ast.walk(node):
            if isinstance(inner, ast.Assert) or (
                isinstance(inner, ast.Name) and inner.id == "AssertionError"
            ):
                return True
    return False


def module_of(name: str) -> str | None:
    """a/b.py → a.b, a/__init__.py → a; None for what is no module."""
    path = PurePosixPath(name)
    parts = path.with_suffix("").parts
    if path.suffix != ".py" or not all(part.isidentifier() for part in parts):
        return None
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts) or None


def modules_of(names: Iterable[str]) -> dict[str, str]:
    """Every module that the files make → its file; "" for packages without an __init__."""
    modules: dict[str, str] = {}
    for name in names:
        module = module_of(name)
        if module is None:
            continue
        modules[module] = name
        parts = module.split(".")
        for i in range(1, len(parts)):
            modules.setdefault(".".join(parts[:i]), "")
    return modules
