"""Verifiers of code: PatchApplies (a patch fits its files) and TestsPass (the code passes its tests).

TestsPass takes these steps:

    1. _split_tests     every test function of a source becomes a job
    2. _find_solution   the code: a block of the answer, a file that the agent left, or files after a patch
    3. run_tests        jobs that call functions, in two sandboxes joined by a pipe (see `messages.py`)
       _run_programs    cases of input and output, in one sandbox (see `code/programs.py`)
    4. _summarise       one report per test → value and reason

What does the code of a response see of its tests? Programs (`cases`) never see the outputs expected of them: those are
compared outside the sandbox. Tests that call functions run in another sandbox than the code: arguments go over a pipe
as plain data, results come back as plain data, and are compared where no code of the response ever ran.

A patch may change the code in any way, but not what judges it: tests use their own files as they were given.
"""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path, PurePosixPath
from typing import Annotated, Any, Literal

from pydantic import Field, TypeAdapter

from rubrank._plain import Strict
from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.agentic.patches import PatchError, apply_patches, parse_diff
from rubrank.verifiers.code.programs import find_failure, run_program
from rubrank.verifiers.shared import sandbox
from rubrank.verifiers.shared.code_blocks import (
    Compare,
    find_code,
    find_patch,
    parse_python,
)
from rubrank.verifiers.shared.sandbox import make_command
from rubrank.verifiers.verifier import UNIT, Answer, Verdict, missing, verifier

_MOST_TESTS = 200
_MOST_SECONDS = 600.0  # of one sandbox, however many tests it runs
_PACKAGE = "rubrank.verifiers.agentic"
_TEST_FOLDERS = {"test", "tests", "testing", "testdata", "test_data", "fixtures"}
# Names of files that belong to the tests:
# test_sort.py, tests.py, sort_test.py, conftest.py, test_helpers.py, testutils.py
_TEST_NAMES = re.compile(
    r"(?:test_.*|tests?|.*_tests?|conftest|.*_?test_?(?:helpers?|utils?|tools?|case))\.py"
)
_CHECKING_VERBS = ("assert", "check", "expect", "verify", "require", "ensure")


class Case(Strict):
    """What a program reads and what it should write."""

    stdin: str = ""
    stdout: str


@dataclass(frozen=True)
class Solution:
    """The solution to run: its code and files, and the files as the tests know them."""

    code: str | None
    """The solution, as a module named `module`; None: the tests import it from `files`."""
    module: str
    files: Mapping[str, str] = field(default_factory=dict)
    """The solution's files."""
    original_files: Mapping[str, str] = field(default_factory=dict)
    """The files as they were before the policy changed them: those that the tests see."""
    test_files: frozenset[str] = frozenset()
    """Those of the original files that belong to the tests: imported beside the tests, not from the solution."""


@dataclass(frozen=True)
class RunOptions:
    """How the tests of one response are run."""

    seconds: float
    """Time limit of each test."""
    memory: int
    """In MB."""
    stop: bool
    """Stop at the first test that fails."""
    mutates: bool = False
    """Changes of arguments are seen whatever a function returns."""
    in_process: bool = False
    """Run every test in the solution's process."""


# Validate what a rollout's metadata holds.
_CASES: TypeAdapter[list[Case]] = TypeAdapter(list[Case])
_TESTS: TypeAdapter[list[str] | str] = TypeAdapter(list[str] | str)
_FILES: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])


# --- patches ------------------------------------------------------------------------------------------------------


@verifier("PatchApplies", family="agentic", version=4)
def patch_applies(
    rollout: Rollout,
    *,
    files: dict[str, str] | None = None,
    fuzz: Annotated[int, Field(ge=0, le=3)] = 0,
) -> Answer:
    """The response holds a unified diff that fits the files (`files` or `metadata["files"]`: name → content).

    Passes: a plain or git diff, in a fenced block or bare, whose context and removed lines are found to the letter; a
        hunk may have moved. New, deleted, renamed and copied files are understood. `fuzz`: the number of lines at
        either end of the context that may differ.
    Fails: no diff; wrong counts in a hunk's header; context that does not match; a file that does not exist, or exists
        already, or would be a folder, too; paths that lead out of the tree or into .git, or that no file can have;
        symbolic links; submodules; binary patches. Applied in memory, strictly: no program is started and no file
        touched.
    Missing: no files given.
    Not covered: whether the change is right (TestsPass with `source="patch"`); combined diffs; ed scripts.
    """
    before = rollout.metadata.get("files") if files is None else files
    if before is None:
        return missing("no files to patch: give `files` or metadata['files']")
    before = _FILES.validate_python(before)
    after = _apply_patch(rollout.answer, before, fuzz)
    if isinstance(after, str):
        return False, after
    changed = sum(before.get(name) != after.get(name) for name in {*before, *after})
    return True, f"the patch applies; {changed} files change"


def _apply_patch(answer: str, files: dict[str, str], fuzz: int = 0) -> dict[str, str] | str:
    """Return the files after the response's patch, or a text that says what is wrong with it."""
    diff = find_patch(answer)
    if diff is None:
        return "no diff in the answer"
    try:
        return apply_patches(parse_diff(diff), files, fuzz=fuzz)
    except PatchError as error:
        return f"the patch does not apply: {error}"


# --- tests --------------------------------------------------------------------------------------------------------


@verifier("TestsPass", family="agentic", domain=UNIT, version=6, cost="process")
def passes_tests(
    rollout: Rollout,
    *,
    tests: list[str] | str | None = None,
    cases: list[Case] | None = None,
    score: Literal["share", "all"] = "share",
    source: Literal["answer", "file", "patch"] = "answer",
    path: str = "solution.py",
    setup: str = "",
    entry_point: str | None = None,
    test_files: list[str] | None = None,
    mutates: bool = False,
    in_process: bool = False,
    compare: Compare = "lines",
    tolerance: Annotated[float, Field(ge=0)] = 0.0,
    seconds: Annotated[float, Field(gt=0, le=60)] = 5.0,
    memory: Annotated[int, Field(ge=64, le=8192)] = 512,
) -> Answer:
    """The Python code of the response passes its tests, in the sandbox (see docs/sandbox.md).

    `tests` (or `metadata["tests"]`): Python source, or a list of it; each `test_…` function, each `test_…` method of a
    `Test…` class, each source without such is one test. They see the code's names (not those that would hide Python's
    own), and can import it as the stem of `path`. With `entry_point`, a source that defines `check` is called with that
    function, as in HumanEval. Code and tests run in two sandboxes: calls and results cross as plain data; of the code's
    objects, tests use methods and attributes. What a function does to its arguments in place is seen if it returns
    None, or with `mutates` always. A test that needs the code's live objects (operators on them, subclasses, functions
    passed as arguments), or every test with `in_process`, runs in the code's process; the reason then says that such a
    pass can be faked. `cases` (or `metadata["cases"]`): {stdin, stdout}; the code runs as a program. Compared by
    "lines" (space at the ends of lines and of the text aside), "tokens" (numbers within `tolerance`) or "exact".
    `source`: "answer": the last Python block; "file": `metadata["final_files"][path]`; "patch": the response's diff
    applied to `metadata["files"]`. `setup` runs before the code. Other files of `metadata["files"]` lie beside it.
    Tests use their own files as they were given, whatever a patch does to them: `test_files` names them ("tests/*"), by
    default folders and names of tests and helpers that assert. Value: the share of tests passed, or with `score="all"`
    1 if all pass. `seconds` holds for each test, `memory` is in MB.
    Fails (0): no code, syntax errors, leaving early, too slow, too large.
    Missing: no tests, a sandbox that cannot run.
    Not covered: pytest's fixtures and parameters; languages other than Python (CodePasses); tests that look at files
        which the code changes; operators on objects that a function of the code returns.
    """
    if tests is None and cases is None:
        tests = _TESTS.validate_python(rollout.metadata.get("tests", []))
        cases = _CASES.validate_python(rollout.metadata.get("cases", []))
    sources = [tests] if isinstance(tests, str) else tests or []
    jobs: list[dict[str, Any]] = []
    for text in sources:
        if text.strip():
            jobs += _split_tests(text, entry_point)
    cases = cases or []
    total = len(jobs) + len(cases)
    if not total:
        return missing("no tests: give `tests`, `cases`, metadata['tests'] or metadata['cases']")
    if not jobs and not any(case.stdout.strip() for case in cases):
        return missing("no case expects any output, so a program that does nothing would pass")
    if total > _MOST_TESTS:
        return missing(f"{total} tests; at most {_MOST_TESTS} are run")
    solution = _find_solution(rollout, source, path, test_files, [job["source"] for job in jobs])
    if isinstance(solution, Verdict):
        return solution
    if solution.code is not None and setup:
        solution = replace(solution, code=f"{setup}\n{solution.code}")
    options = RunOptions(
        seconds, memory, stop=score == "all", mutates=mutates, in_process=in_process
    )
    reports: list[dict[str, Any]] = []
    try:
        if jobs:
            reports = run_tests(solution, jobs, options)
            # The sandbox may have stopped early. Reports for the rest keep the numbers of the cases right.
            reports += [{"passed": False, "why": "was not run"}] * (len(jobs) - len(reports))
        if cases and (score == "share" or all(report["passed"] for report in reports)):
            reports += _run_programs(solution, cases, options, compare, tolerance)
    except InvalidInput as error:
        # Names of files that the sandbox refuses: the policy's fault if it made the files, the data set's if not.
        if source != "answer":
            return Verdict(0.0, str(error)[:500])
        return missing(str(error))
    except (sandbox.NoIsolation, sandbox.SandboxFailed) as error:
        return missing(str(error))
    return _summarise(reports, total, score)


def _split_tests(source: str, entry_point: str | None) -> list[dict[str, Any]]:
    """Return the jobs of one source: one for each test function or method, else one for the source as a whole.

    A job is {"source": …} with "call" ("test_a" or "TestB.test_c") and, for HumanEval's `check`, "with": its argument.
    """
    test_names: list[str] = []
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for node in parse_python(source):
        if isinstance(node, functions) and node.name.startswith("test"):
            test_names.append(node.name)
        elif isinstance(node, functions) and node.name == "check" and entry_point:
            return [{"source": source, "call": "check", "with": [entry_point]}]
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            for method in node.body:
                if isinstance(method, functions) and method.name.startswith("test"):
                    test_names.append(f"{node.name}.{method.name}")
    if not test_names:
        return [{"source": source}]
    return [{"source": source, "call": name} for name in test_names]


def _find_solution(
    rollout: Rollout, source: str, path: str, patterns: list[str] | None, tests: list[str]
) -> Solution | Verdict:
    """Return the code to run, the files beside it and the tests' own files; a verdict if there is no code.

    `source` and `path` are parameters of TestsPass, `patterns` is its `test_files`; `tests` are sources of tests.
    """
    files = _FILES.validate_python(rollout.metadata.get("files") or {})
    module = Path(path).stem
    if source == "answer":
        code = find_code(rollout.answer)
        if code is None:
            return Verdict(0.0, "no Python code in the answer")
        return Solution(code, module, files, files)
    test_names = frozenset(find_test_files(files, patterns, tests))
    originals = {name: files[name] for name in test_names}
    if source == "file":
        final = _FILES.validate_python(rollout.metadata.get("final_files") or {})
        if path not in final:
            return Verdict(0.0, f"no file {path!r} was left behind")
        return Solution(final[path], module, {**files, **final, **originals}, files, test_names)
    if not files:
        return missing("no files to patch: metadata['files'] is absent")
    patched = _apply_patch(rollout.answer, files)
    if isinstance(patched, str):
        return Verdict(0.0, patched)
    return Solution(None, module, {**patched, **originals}, files, test_names)


def _run_programs(
    solution: Solution, cases: list[Case], options: RunOptions, compare: Compare, tolerance: float
) -> list[dict[str, Any]]:
    """Run the code as a program once per case. Returns one report per run: {"passed", "why"}."""
    inputs = [case.stdin for case in cases]
    code = solution.code or ""
    runs = run_program("python", code, inputs, options.seconds, options.memory, solution.files)
    if isinstance(runs, Verdict):
        raise sandbox.SandboxFailed(runs.reason)
    reports = []
    for run, case in zip(runs, cases, strict=True):
        why = find_failure(run, case.stdout, compare, tolerance)
        reports.append({"passed": not why, "why": why})
    return reports


def _summarise(reports: list[dict[str, Any]], total: int, score: str) -> Answer:
    """Return the value and the reason of TestsPass; the reason names the first test that failed."""
    passed = sum(report["passed"] for report in reports)
    reason = f"{passed} of {total} tests passed"
    # "live" says why a test ran in the solution's process.
    fakeable = [report["live"] for report in reports if report.get("live")]
    if fakeable:
        reason += f" ({len(fakeable)} ran in the code's process, where a pass can be faked: {fakeable[0][:100]})"
    failed = [number for number, report in enumerate(reports, 1) if not report["passed"]]
    if failed:
        reason += f"; test {failed[0]}: {reports[failed[0] - 1]['why']}"
    value = passed / total if score == "share" else float(passed == total)
    return value, reason[:500]


# ---- two sandboxes, one for the code and one for the tests -----------------------------------------------------------


def run_tests(
    solution: Solution, jobs: list[dict[str, Any]], options: RunOptions
) -> list[dict[str, Any]]:
    """Run the jobs in two sandboxes. Returns one report per job: {"passed", "why", "out", "live"}.

    Raises what `sandbox.run` raises, for either side.
    """
    # os.pipe() gives (reading end, writing end): the solution reads what the tests write, and the other way round.
    solution_reads, tests_write = os.pipe()
    tests_read, solution_writes = os.pipe()
    limits = sandbox.Limits(
        # A test may be tried twice: with plain data, then in the solution's process.
        seconds=min(_MOST_SECONDS, 2 * options.seconds * len(jobs) + 5),
        cpu=int(options.seconds) + 2,
        memory=options.memory,
        output=64,
        processes=32,
    )
    solution_request = {
        "code": solution.code,
        "module": solution.module,
        "mutates": options.mutates,
    }
    tests_request = {
        "jobs": jobs,
        "seconds": options.seconds,
        "stop": options.stop,
        "live": options.in_process,
        **_assign_modules(solution),
    }

    # `solution_process` and `tests_process` are modules beside this one; each runs in a separate sandbox.
    def run_side(
        module: str, request: dict[str, Any], files: Mapping[str, str], channel: tuple[int, int]
    ) -> sandbox.Result:
        return sandbox.run(
            make_command(f"{_PACKAGE}.messages", f"{_PACKAGE}.{module}"),
            files=files,
            stdin=json.dumps(request).encode(),
            limits=limits,
            channel=channel,
            trusted=True,
        )

    with ThreadPoolExecutor(1) as threads:
        solution_run = threads.submit(
            run_side,
            "solution_process",
            solution_request,
            solution.files,
            (solution_reads, solution_writes),
        )
        try:
            result = run_side(
                "tests_process", tests_request, solution.original_files, (tests_read, tests_write)
            )
        finally:
            # This waits for the solution's sandbox, which ends when the tests close their pipe.
            error = solution_run.exception()
    if error is not None:
        raise error
    # One JSON object per line. The last line is empty, or was cut off if the run was stopped.
    return [json.loads(line) for line in result.stdout.decode().split("\n")[:-1]]


def _assign_modules(solution: Solution) -> dict[str, Any]:
    """Say where the tests' process finds each module that it may import.

    remote     modules of the solution, imported in the solution's process
    local      modules of the tests' own files: name → file
    original   top-level modules of the files before the policy changed them; only these may hide a library's
    """
    local = {name: file for name, file in find_modules(solution.test_files).items() if file}
    remote: set[str] = set()
    # Code of an answer is one module; only solutions that consist of files have more.
    if solution.code is None or solution.test_files:
        remote = set(find_modules(solution.files)) - set(local)
    if solution.code is not None:
        remote.add(solution.module)
    original = {name.partition(".")[0] for name in find_modules(solution.original_files)}
    original.add(solution.module)
    return {"remote": sorted(remote), "local": local, "original": sorted(original)}


def find_test_files(
    files: Mapping[str, str], patterns: list[str] | None, sources: Iterable[str]
) -> set[str]:
    """Return the files that belong to the tests: those that the patterns name.

    Without patterns, these are files with names of tests and helpers that check. A helper that checks is a module which
    the tests import and which has a function such as `check_sorted` that asserts: a solution that may rewrite it may
    pass everything.
    """
    if patterns is not None:
        return {name for name in files if any(fnmatchcase(name, pattern) for pattern in patterns)}
    test_files = set()
    for name in files:
        path = PurePosixPath(name)
        if _TEST_FOLDERS & set(path.parts[:-1]) or _TEST_NAMES.fullmatch(path.name):
            test_files.add(name)
    test_sources = [files[name] for name in test_files if name.endswith(".py")]
    imported: set[str] = set()
    for source in [*sources, *test_sources]:
        for node in _walk_nodes(source):
            if isinstance(node, ast.Import):
                imported |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                # `from a import b` may import the module a.b.
                imported |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    for name in files:
        if find_module_name(name) not in imported:
            continue
        for node in _walk_nodes(files[name]):
            if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                continue
            if node.name.lstrip("_").startswith(_CHECKING_VERBS):
                inner_nodes = list(ast.walk(node))
                names = {inner.id for inner in inner_nodes if isinstance(inner, ast.Name)}
                asserts = any(isinstance(inner, ast.Assert) for inner in inner_nodes)
                if asserts or "AssertionError" in names:
                    test_files.add(name)
    return test_files


def _walk_nodes(source: str) -> Iterator[ast.AST]:
    """Yield all nodes of a source; none if it is not Python."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return
    yield from ast.walk(tree)


def find_module_name(name: str) -> str | None:
    """Return the module name of a file: a/b.py → a.b, a/__init__.py → a; None if it is not a Python module."""
    path = PurePosixPath(name)
    parts = path.with_suffix("").parts
    if path.suffix != ".py" or not all(part.isidentifier() for part in parts):
        return None
    if parts[-1] == "__init__":
        parts = parts[:-1]
    return ".".join(parts) or None


def find_modules(names: Iterable[str]) -> dict[str, str]:
    """Return {module name: file} for every module among the files; "" for packages without an __init__."""
    modules: dict[str, str] = {}
    for name in names:
        module = find_module_name(name)
        if module is None:
            continue
        modules[module] = name
        parts = module.split(".")
        for i in range(1, len(parts)):
            modules.setdefault(".".join(parts[:i]), "")
    return modules
