"""Code that has to work: tests run in the sandbox, patches that have to fit.

What does the code of an answer see of its tests? Programs (`cases`) never see the outputs expected of them: those are
compared outside. Tests that call functions run in another sandbox than the code: arguments go over a pipe as plain
data, results come back as plain data, and are compared where no code of the answer ever ran.
"""

from __future__ import annotations

import ast
import json
import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import Field, TypeAdapter

from rubrank._plain import Strict
from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.agentic.patching import PatchError, apply, parse
from rubrank.verifiers.agentic.test_files import test_files
from rubrank.verifiers.agentic.testing import Work, run_apart
from rubrank.verifiers.agentic.values import is_number
from rubrank.verifiers.shared import sandbox
from rubrank.verifiers.shared.sandboxes.bundling import command
from rubrank.verifiers.verifier import UNIT, Answer, Verdict, missing, verifier

_MOST_TESTS = 200
_PYTHON = ("", "python", "py", "python3", "python2")
_DIFF = ("diff", "patch", "udiff")

Compare: TypeAlias = Literal["lines", "tokens", "exact"]


class Case(Strict):
    """What a program reads and what it should write."""

    stdin: str = ""
    stdout: str


_CASES: TypeAdapter[list[Case]] = TypeAdapter(list[Case])
_TESTS: TypeAdapter[list[str] | str] = TypeAdapter(list[str] | str)
_FILES: TypeAdapter[dict[str, str]] = TypeAdapter(dict[str, str])


# --- what the answer holds ----------------------------------------------------------------------------------------


def fenced_blocks(text: str) -> Iterator[tuple[str, str]]:
    """(language, content) of each fenced block; one left open reaches to the end."""
    fence, language = "", ""
    block: list[str] = []
    for line in text.split("\n"):
        bare = line.strip()
        if not fence and bare.startswith(("```", "~~~")):
            fence = bare[: len(bare) - len(bare.lstrip(bare[0]))]
            language, block = bare[len(fence) :].strip().split(" ")[0].lower(), []
        elif fence and bare.startswith(fence) and not bare.strip(fence[0]):
            yield language, "\n".join(block) + "\n"
            fence = ""
        elif fence:
            block.append(line)
    if fence:
        yield language, "\n".join(block) + "\n"


def find_code(text: str) -> str | None:
    """The last Python block, else the last block of an unnamed kind, else a text that is Python as a whole."""
    blocks = [block for language, block in fenced_blocks(text) if language in _PYTHON]
    if blocks:
        return blocks[-1]
    if "```" in text or "~~~" in text or len(text) > 200_000:
        return None
    try:
        return text if _syntax(text) else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _syntax(source: str) -> list[ast.stmt]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a strange escape in other people's code is not ours to complain about
        return ast.parse(source).body


def find_patch(text: str) -> str | None:
    """The last block of a diff, else the text from the first line on that begins one."""
    blocks = [(language, block) for language, block in fenced_blocks(text) if block.strip()]
    named = [b for language, b in blocks if language in _DIFF] or [b for _, b in blocks if _begins_diff(b) is not None]
    if named:
        return named[-1]
    start = _begins_diff(text)
    return None if start is None else text[start:]


def _begins_diff(text: str) -> int | None:
    places = [0 if text.startswith(mark) else text.find("\n" + mark) + 1 for mark in ("diff --git ", "--- ")]
    found = [p for p, mark in zip(places, ("diff --git ", "--- "), strict=True) if text.startswith(mark, p)]
    return min(found) if found and ("\n+++ " in text or "\nrename " in text or " file mode " in text) else None


# --- patches ------------------------------------------------------------------------------------------------------


@verifier("PatchApplies", family="agentic", version=2)
def patch_applies(
    rollout: Rollout, *, files: dict[str, str] | None = None, fuzz: Annotated[int, Field(ge=0, le=3)] = 0
) -> Answer:
    """The answer holds a unified diff that fits the files (`files` or `metadata["files"]`: name → content).

    Passes: a plain or git diff, in a fenced block or bare, whose context and removed lines are found to the letter;
    a hunk may have moved. New, deleted, renamed and copied files are understood. `fuzz`: as many lines at either end
    of the context may differ. Fails: no diff; wrong counts in a hunk's header; context that does not match; a file
    that is not there, or is there already, or would be a folder, too; paths that lead out of the tree or into .git, or
    that no file can have; symbolic links; submodules; binary patches.
    Applied in memory, strictly: no program is started and no file touched. Missing: no files given.
    Not covered: whether the change is right (TestsPass with `source="patch"`); combined diffs; ed scripts.
    """
    tree = _files(rollout, files)
    if tree is None:
        return missing("no files to patch: give `files` or metadata['files']")
    result = _patched(rollout, tree, fuzz)
    if isinstance(result, str):
        return False, result
    changed = sum(tree.get(name) != result.get(name) for name in {*tree, *result})
    return True, f"the patch applies; {changed} files change"


def _files(rollout: Rollout, files: dict[str, str] | None) -> dict[str, str] | None:
    given = rollout.metadata.get("files") if files is None else files
    return None if given is None else _FILES.validate_python(given)


def _patched(rollout: Rollout, files: dict[str, str], fuzz: int = 0) -> dict[str, str] | str:
    """The files after the answer's patch, or what is wrong with it."""
    diff = find_patch(rollout.answer)
    if diff is None:
        return "no diff in the answer"
    try:
        return apply(parse(diff), files, fuzz=fuzz)
    except PatchError as error:
        return f"the patch does not apply: {error}"


# --- tests --------------------------------------------------------------------------------------------------------


@verifier("TestsPass", family="agentic", domain=UNIT, version=2, cost="process")
def code_passes(
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
    compare: Compare = "lines",
    tolerance: Annotated[float, Field(ge=0)] = 0.0,
    seconds: Annotated[float, Field(gt=0, le=60)] = 5.0,
    memory: Annotated[int, Field(ge=64, le=8192)] = 512,
) -> Answer:
    """The Python code of the answer passes its tests, in the sandbox (see docs/sandbox.md).

    `tests` (or `metadata["tests"]`): Python source, or a list of it; each `test_…` function, each `test_…` method of a
    `Test…` class, each source without such is one test. They see the code's names (not those that would hide Python's
    own), and can import it as the stem of `path`. With `entry_point`, a source that defines `check` is called with that
    function (HumanEval's manner). Code and tests run apart: calls and results cross as plain data; an object of the
    code's is used through its methods and fields, and equals no plain data. What a function does to its arguments in
    place is seen if it returns None, or with `mutates` always.
    `cases` (or `metadata["cases"]`): {stdin, stdout}; the code runs as a program. Compared by "lines" (space at the
    ends of lines and of the text aside), "tokens" (numbers within `tolerance`) or "exact".
    `source`: "answer": the last Python block; "file": `metadata["final_files"][path]`; "patch": the answer's diff
    applied to `metadata["files"]`. `setup` runs before the code. Other files of `metadata["files"]` lie beside it.
    Tests use their own files as they were given, whatever a patch does to them: `test_files` names them ("tests/*"),
    by default folders and names of tests and helpers that assert.
    Value: the share of tests passed, or with `score="all"` 1 if all pass. `seconds` holds for each test, `memory` is
    in MB.
    Fails (0): no code, syntax errors, leaving early, too slow, too large. Missing: no tests, a sandbox that cannot run.
    Not covered: pytest's fixtures and parameters; languages other than Python (CodePasses); tests that look at files
    or variables which the code changes; subclassing the code's classes; a class whose own `==` is wrong.
    """
    jobs, expected = _jobs(rollout, tests, cases, entry_point)
    if not jobs:
        return missing("no tests: give `tests`, `cases`, metadata['tests'] or metadata['cases']")
    if len(jobs) > _MOST_TESTS:
        return missing(f"{len(jobs)} tests; at most {_MOST_TESTS} are run")
    work = _work(rollout, source, path, test_files, [job["source"] for job in jobs if "source" in job])
    if isinstance(work, Verdict):
        return work
    if work.code is not None and setup:
        work = replace(work, code=f"{setup}\n{work.code}")
    how = _How(seconds, memory, score == "all", mutates)
    lines = _run(work, jobs, how, theirs=source != "answer")
    return lines if isinstance(lines, Verdict) else _verdict(lines, len(jobs), expected, score, compare, tolerance)


@dataclass(frozen=True)
class _How:
    seconds: float
    memory: int
    stop: bool
    mutates: bool


def _jobs(
    rollout: Rollout, tests: list[str] | str | None, cases: list[Case] | None, entry: str | None
) -> tuple[list[dict[str, Any]], dict[int, str]]:
    """What the harness is told, and (kept outside) the outputs expected of the programs."""
    if tests is None and cases is None:
        tests = _TESTS.validate_python(rollout.metadata.get("tests", []))
        cases = _CASES.validate_python(rollout.metadata.get("cases", []))
    sources = [tests] if isinstance(tests, str) else tests or []
    jobs = [job for text in sources for job in _test_jobs(text, entry)]
    expected = {len(jobs) + i: case.stdout for i, case in enumerate(cases or [])}
    return jobs + [{"stdin": case.stdin} for case in cases or []], expected


def _test_jobs(source: str, entry: str | None) -> list[dict[str, Any]]:
    calls: list[str] = []
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    for node in _syntax(source):
        if isinstance(node, functions) and node.name.startswith("test"):
            calls.append(node.name)
        elif isinstance(node, ast.ClassDef) and node.name.startswith("Test"):
            calls += [
                f"{node.name}.{n.name}" for n in node.body if isinstance(n, functions) and n.name.startswith("test")
            ]
        elif isinstance(node, functions) and node.name == "check" and entry:
            return [{"source": source, "call": "check", "with": [entry]}]
    return [{"source": source, "call": call} for call in calls] or [{"source": source}]


def _work(rollout: Rollout, source: str, path: str, patterns: list[str] | None, tests: list[str]) -> Work | Verdict:
    """The code to run, the files beside it and the tests' own; a verdict if there is none."""
    given, stem = _files(rollout, None) or {}, Path(path).stem
    if source == "answer":
        code = find_code(rollout.answer)
        return Verdict(0.0, "no Python code in the answer") if code is None else Work(code, stem, given, given)
    own = frozenset(test_files(given, patterns, tests))
    kept = {name: given[name] for name in own}
    if source == "file":
        final = _FILES.validate_python(rollout.metadata.get("final_files") or {})
        if path not in final:
            return Verdict(0.0, f"no file {path!r} was left behind")
        return Work(final[path], stem, {**given, **final, **kept}, given, own)
    if not given:
        return missing("no files to patch: metadata['files'] is absent")
    result = _patched(rollout, given)
    return Verdict(0.0, result) if isinstance(result, str) else Work(None, stem, {**result, **kept}, given, own)


def _run(work: Work, jobs: list[dict[str, Any]], how: _How, *, theirs: bool) -> list[dict[str, Any]] | Verdict:
    """One line per job; missing where the sandbox, not the code, is at fault. `theirs`: the policy made the files."""
    calls = [job for job in jobs if "source" in job]
    programs = [job for job in jobs if "source" not in job]
    try:
        lines = _called(work, calls, how) if calls else []
        stopped = how.stop and not all(line["passed"] for line in lines)
        return lines if stopped or not programs else lines + _programs(work, programs, how)
    except InvalidInput as error:
        return Verdict(0.0, str(error)[:500]) if theirs else missing(str(error))
    except (sandbox.NoIsolation, sandbox.SandboxFailed) as error:
        return missing(str(error))


def _called(work: Work, jobs: list[dict[str, Any]], how: _How) -> list[dict[str, Any]]:
    lines = run_apart(work, jobs, seconds=how.seconds, memory=how.memory, stop=how.stop, mutates=how.mutates)
    if len(lines) < len(jobs) and not (how.stop and lines and not lines[-1]["passed"]):
        rest = len(jobs) - len(lines)  # later jobs keep their numbers
        lines += [{"passed": False, "why": "was not finished", "out": ""}] * rest
    return lines


def _programs(work: Work, jobs: list[dict[str, Any]], how: _How) -> list[dict[str, Any]]:
    """The code as a program, once for each input."""
    total = min(600.0, how.seconds * len(jobs) + 5)
    limits = sandbox.Limits(seconds=total, cpu=int(how.seconds) + 2, memory=how.memory, output=64, processes=32)
    harness = command("rubrank.verifiers.agentic.harness")
    request = {"code": work.code, "jobs": jobs, "seconds": how.seconds, "stop": how.stop}
    stdin = json.dumps(request).encode()
    result = sandbox.run(harness, files=work.files, stdin=stdin, limits=limits, trusted=True)
    return [json.loads(line) for line in result.stdout.decode().split("\n")[:-1]]


def _verdict(
    lines: list[dict[str, Any]], total: int, expected: dict[int, str], score: str, compare: Compare, tolerance: float
) -> Answer:
    passed, why = 0, ""
    for number, line in enumerate(lines):
        trouble = "" if line["passed"] else line["why"]
        if not trouble and number in expected and not same_output(expected[number], line["out"], compare, tolerance):
            trouble = f"{expected[number][:60]!r} expected, {line['out'][:60]!r} written"
        passed += not trouble
        why = why or (f"; test {number + 1}: {trouble}" if trouble else "")
    if not why and len(lines) < total:
        why = f"; test {len(lines) + 1} was not finished"
    value = passed / total if score == "share" else float(passed == total)
    return value, f"{passed} of {total} tests passed{why}"[:500]


def same_output(expected: str, written: str, compare: Compare, tolerance: float) -> bool:
    """Is what the program wrote what it should have written?"""
    if compare == "exact":
        return expected == written
    if compare == "lines":
        left, right = ([line.rstrip() for line in text.strip().splitlines()] for text in (expected, written))
        return left == right
    left, right = expected.split(), written.split()
    return len(left) == len(right) and all(_same_token(a, b, tolerance) for a, b in zip(left, right, strict=True))


def _same_token(left: str, right: str, tolerance: float) -> bool:
    if left == right or tolerance == 0:
        return left == right
    try:
        a, b = float(left), float(right)
    except ValueError:
        return False
    return is_number(a) and abs(a - b) <= tolerance * max(1.0, abs(a))
