"""The verifier CodePasses: tests programs that read standard input and write standard output, in seven languages."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.code.languages import RECIPES, Language, find_tool
from rubrank.verifiers.shared import sandbox
from rubrank.verifiers.shared.code_blocks import Compare, is_same_output, split_fenced_blocks
from rubrank.verifiers.shared.sandbox import make_command
from rubrank.verifiers.verifier import UNIT, Answer, Verdict, missing, verifier

_MOST_TESTS = 200
_COMPILE_SECONDS = 60.0
_MOST_SECONDS = 900.0  # of one sandbox, however many tests it runs
_UNLIMITED_MEMORY = 64_000  # MB of address space, for runtimes that reserve more than they use
_COMPILER_MEMORY = 1024  # MB that a compiler gets at least


class ProgramTest(BaseModel):
    """An input and the expected output, in LiveCodeBench's form."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    input: str = ""
    output: str
    testtype: Literal["stdin"] = "stdin"


_TESTS: TypeAdapter[list[ProgramTest]] = TypeAdapter(list[ProgramTest])


@verifier("CodePasses", family="code", domain=UNIT, version=1, cost="process")
def code_passes(
    rollout: Rollout,
    *,
    language: Language | None = None,
    tests: list[ProgramTest] | None = None,
    score: Literal["share", "all"] = "share",
    compare: Compare = "lines",
    tolerance: Annotated[float, Field(ge=0)] = 0.0,
    checker: str | None = None,
    seconds: Annotated[float, Field(gt=0, le=60)] = 5.0,
    memory: Annotated[int, Field(ge=64, le=8192)] = 512,
) -> Answer:
    """The program in the answer passes its tests, in the sandbox (see docs/sandbox.md).

    The last fenced block in `language` (by default the last block in a supported language: python, cpp, java,
    javascript, go, rust, bash) is compiled, and run once for each of `tests` (or `metadata["tests"]`): {input, output},
    LiveCodeBench's form. Outputs are compared outside, by "lines" (ignoring space at both ends), "tokens" (numbers
    within `tolerance`) or "exact"; or by `checker`, a Python program that reads {"input", "expected", "output"} as JSON
    and accepts by exiting with 0. The class of a Java program must be called Main.
    Passes with 1: every output is right.
    Fails: no such block (0), does not compile (0), wrong, crashing, too slow or too large on a test (the share that is
        right, or 0 with `score="all"`).
    Missing: no tests, a compiler that this machine does not have, a sandbox that cannot run, a checker that fails.
    Not covered: tests that call functions (TestsPass for Python); interactive programs; several files.
    """
    cases = tests
    if cases is None:
        stored = rollout.metadata.get("tests") or []
        if isinstance(stored, str):  # LiveCodeBench stores a text of JSON
            stored = json.loads(stored)
        cases = _TESTS.validate_python(stored)
    if not cases:
        return missing("no tests: give `tests` or metadata['tests']")
    if len(cases) > _MOST_TESTS:
        return missing(f"{len(cases)} tests; at most {_MOST_TESTS} are run")
    program = _find_program(rollout.answer, language)
    if program is None:
        return 0.0, f"no {language or 'known language'} block in the answer"
    language_found, source = program
    runs = _run_program(language_found, source, cases, seconds, memory)
    if isinstance(runs, Verdict):
        return runs
    return _score_runs(runs, cases, score, _OutputCheck(compare, tolerance, checker))


def _find_program(answer: str, language: str | None) -> tuple[str, str] | None:
    """Return the language and source of the last code block in `language`, or in any language if that is None."""
    program = None
    for fence, block in split_fenced_blocks(answer):
        for name, recipe in RECIPES.items():
            if fence in recipe.fences and language in (None, name) and block.strip():
                program = (name, block)
    return program


def _run_program(
    language: str,
    source: str,
    cases: list[ProgramTest],
    seconds: float,
    memory: int,
    probing: bool = False,
) -> list[dict[str, Any]] | Verdict:
    """Compile the program and run it on every input, in the sandbox.

    Returns what the runner reports for each input, or the verdict if there is nothing to score. `probing`: the program
    is known to be right, so a failure to compile is the machine's.
    """
    recipe = RECIPES[language]
    tool = find_tool(language)
    if tool is None:
        return missing(f"this machine has no {recipe.tool}, which {language} needs")
    path, folders = tool
    placeholders = {"tool": path, "home": str(Path(path).parent), "memory": str(memory)}
    request = {
        "compile": [part.format(**placeholders) for part in recipe.compile],
        "run": [part.format(**placeholders) for part in recipe.run],
        "binary": recipe.binary,
        "inputs": [case.input for case in cases],
        "seconds": seconds,
        "compile_seconds": _COMPILE_SECONDS,
    }
    address_space = memory
    if recipe.reserves:
        address_space = _UNLIMITED_MEMORY
    elif recipe.compile:
        address_space = max(memory, _COMPILER_MEMORY)
    limits = sandbox.Limits(
        seconds=min(_MOST_SECONDS, seconds * len(cases) + _COMPILE_SECONDS + 5),
        cpu=int(max(seconds, _COMPILE_SECONDS)) + 2,
        memory=address_space,
        file_size=64,
        disk=256,
        processes=256,
        open_files=256,
        output=256,
    )
    try:
        result = sandbox.run(
            make_command("rubrank.verifiers.code.runner"),
            files={recipe.file: source},
            stdin=json.dumps(request).encode(),
            limits=limits,
            keep=folders,
            trusted=True,
        )
    except (InvalidInput, sandbox.NoIsolation, sandbox.SandboxFailed) as error:
        return missing(str(error))
    if result.ended == "exit" and result.code:
        stderr = result.stderr.decode("utf-8", "replace").strip()
        return missing(f"the runner failed: {stderr[-200:]}")
    # The last line is empty, or cut off if the run was stopped.
    runs = [json.loads(line) for line in result.stdout.decode().split("\n")[:-1]]
    if not recipe.compile:
        return runs
    if not runs:  # the runner was stopped while it compiled
        reason = result.why
    else:
        compilation = runs.pop(0)
        if compilation["code"] == 0:
            return runs
        if compilation["code"] is None:
            reason = "out of time"
        else:
            reason = str(compilation["err"]).strip()[:300]
    if probing:
        return missing("the compiler does not work")
    if _does_compiler_work(language):
        return Verdict(0.0, f"it does not compile: {reason}")
    return missing(f"{recipe.tool} does not work in the sandbox of this machine: {reason}")


@cache
def _does_compiler_work(language: str) -> bool:
    """Does a correct program compile here? Tried only after a program did not: that may be the machine's fault."""
    source = RECIPES[language].smallest
    if not source:
        return True
    outcome = _run_program(
        language, source, [ProgramTest(output="")], seconds=5.0, memory=512, probing=True
    )
    return not isinstance(outcome, Verdict)


class _OutputCheck:
    """Decides whether an output is right: by comparing it with the expected one, or by the checker."""

    def __init__(self, compare: Compare, tolerance: float, checker: str | None) -> None:
        self.compare = compare
        self.tolerance = tolerance
        self.checker = checker

    def is_right(self, case: ProgramTest, output: str) -> bool:
        """Is the output right? Raises ValueError if the checker itself fails, and the errors of the sandbox."""
        if self.checker is None:
            return is_same_output(case.output, output, self.compare, self.tolerance)
        request = {"input": case.input, "expected": case.output, "output": output}
        result = sandbox.run(
            ["python", "-I", "-B", "-c", self.checker], stdin=json.dumps(request).encode()
        )
        # An uncaught exception exits with 1 as a rejection does; only the traceback tells them apart.
        if result.ended != "exit" or b"Traceback (most recent call last)" in result.stderr:
            stderr = result.stderr.decode("utf-8", "replace").strip()
            raise ValueError(f"the checker failed: {stderr[-200:]}")
        return result.code == 0


def _score_runs(
    runs: list[dict[str, Any]], cases: list[ProgramTest], score: str, check: _OutputCheck
) -> Answer:
    """Return the share of tests passed, or whether all were, with the first failure as the reason.

    With score "all", the tests after the first failure do not matter, and their outputs are not checked.
    """
    passed = 0
    first_failure = ""
    for number, case in enumerate(cases, 1):
        run = runs[number - 1] if number <= len(runs) else None
        failure = ""
        if run is None:
            failure = "was not finished"
        elif run["code"] is None:
            failure = "out of time"
        elif run["code"] != 0:
            failure = f"exit code {run['code']}: {run['err'].strip()[-200:]}"
        else:
            try:
                is_right = check.is_right(case, run["out"])
            except (ValueError, sandbox.NoIsolation, sandbox.SandboxFailed) as error:
                return missing(str(error))
            if not is_right:
                failure = f"{case.output[:60]!r} expected, {run['out'][:60]!r} written"
        if not failure:
            passed += 1
            continue
        if score == "all":
            reason = f"test {number} of {len(cases)} failed after {passed} passed: {failure}"
            return 0.0, reason[:500]
        first_failure = first_failure or f"; test {number}: {failure}"
    reason = f"{passed} of {len(cases)} tests passed{first_failure}"
    return passed / len(cases), reason[:500]
