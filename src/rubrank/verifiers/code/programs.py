"""Programs that read standard input and write standard output, in seven languages."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.code.languages import RECIPES, Language, find_tool
from rubrank.verifiers.shared import sandbox
from rubrank.verifiers.shared.code_blocks import Compare, fenced_blocks, same_output
from rubrank.verifiers.shared.sandboxes.bundle import command
from rubrank.verifiers.verifier import UNIT, Answer, Verdict, missing, verifier

_MOST_TESTS = 200
_COMPILING = 60.0


class ProgramTest(BaseModel):
    """What a program reads and should write, in LiveCodeBench's form."""

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

    The last fenced block in `language` (by default the language of the last block that has one we know: python, cpp,
    java, javascript, go, rust, bash) is compiled, and run once for each of `tests` (or `metadata["tests"]`): {input,
    output}, LiveCodeBench's form. Outputs are compared outside, by "lines" (space at the ends aside), "tokens" (numbers
    within `tolerance`) or "exact"; or by `checker`, a Python program that reads {"input", "expected", "output"} as JSON
    and accepts by ending with 0. A Java program's class is Main.
    Passes with 1: every output right. Fails: no such block (0), does not compile (0), wrong, crashing, too slow or too
    large on a test (the share that is right, or with `score="all"` 0). Missing: no tests, a compiler that this machine
    does not have, a sandbox that cannot run, a checker that fails.
    Not covered: tests that call functions (TestsPass for Python); interactive programs; several files.
    """
    cases = _TESTS.validate_python(_given(rollout)) if tests is None else tests
    if not cases:
        return missing("no tests: give `tests` or metadata['tests']")
    if len(cases) > _MOST_TESTS:
        return missing(f"{len(cases)} tests; at most {_MOST_TESTS} are run")
    found = _program(rollout.answer, language)
    if found is None:
        return 0.0, f"no {language or 'known language'} block in the answer"
    lines = _run(found[0], found[1], cases, seconds, memory)
    if isinstance(lines, Verdict):
        return lines
    return _verdict(lines, cases, score, _Judge(compare, tolerance, checker))


def _given(rollout: Rollout) -> Any:
    given = rollout.metadata.get("tests") or []
    return json.loads(given) if isinstance(given, str) else given


def _program(answer: str, language: str | None) -> tuple[str, str] | None:
    """(language, source) of the last block that fits."""
    found = None
    for fence, block in fenced_blocks(answer):
        for name, recipe in RECIPES.items():
            if fence in recipe.fences and language in (None, name) and block.strip():
                found = (name, block)
    return found


def _run(
    language: str, source: str, cases: list[ProgramTest], seconds: float, memory: int, trying: bool = False
) -> list[dict[str, Any]] | Verdict:
    """One line per input, or why there is none."""
    tool = find_tool(language)
    if tool is None:
        return missing(f"this machine has no {RECIPES[language].tool}, which {language} needs")
    recipe, (path, keep) = RECIPES[language], tool
    words = {"tool": path, "home": str(Path(path).parent), "memory": str(memory)}
    request = {
        "compile": [part.format(**words) for part in recipe.compile],
        "run": [part.format(**words) for part in recipe.run],
        "binary": recipe.binary,
        "inputs": [case.input for case in cases],
        "seconds": seconds,
        "compile_seconds": _COMPILING,
    }
    space = 64_000 if recipe.reserves else max(memory, 1024 if recipe.compile else memory)
    limits = sandbox.Limits(
        seconds=min(900.0, seconds * len(cases) + _COMPILING + 5),
        cpu=int(max(seconds, _COMPILING)) + 2,
        memory=space,
        file_size=64,
        disk=256,
        processes=256,
        open_files=256,
        output=256,
    )
    try:
        result = sandbox.run(
            command("rubrank.verifiers.code.runner"),
            files={recipe.file: source},
            stdin=json.dumps(request).encode(),
            limits=limits,
            keep=keep,
            trusted=True,
        )
    except (InvalidInput, sandbox.NoIsolation, sandbox.SandboxFailed) as error:
        return missing(str(error))
    if result.ended == "exit" and result.code:
        return missing(f"the runner failed: {result.stderr.decode('utf-8', 'replace').strip()[-200:]}")
    lines = [json.loads(line) for line in result.stdout.decode().split("\n")[:-1]]
    if recipe.compile:
        first = lines.pop(0) if lines else {"code": None, "err": result.why}
        if first["code"] != 0 and trying:
            return missing("it does not work")
        if first["code"] != 0:
            why = "out of time" if first["code"] is None else str(first["err"]).strip()[:300]
            return (
                Verdict(0.0, f"it does not compile: {why}")
                if _compiles(language)
                else missing(f"{recipe.tool} does not work in the sandbox of this machine: {why}")
            )
    return lines


@cache
def _compiles(language: str) -> bool:
    """Does a program that is right compile here? Asked once, when one did not: the fault may be the machine's."""
    source = RECIPES[language].smallest
    return not source or not isinstance(_run(language, source, [ProgramTest(output="")], 5.0, 512, True), Verdict)


class _Judge:
    """Is an output right? By comparing, or by the checker."""

    def __init__(self, compare: Compare, tolerance: float, checker: str | None) -> None:
        self.compare, self.tolerance, self.checker = compare, tolerance, checker

    def __call__(self, case: ProgramTest, written: str) -> bool:
        """Raises what the sandbox raises, and ValueError for a checker that fails itself."""
        if self.checker is None:
            return same_output(case.output, written, self.compare, self.tolerance)
        asked = {"input": case.input, "expected": case.output, "output": written}
        result = sandbox.run(["python", "-I", "-B", "-c", self.checker], stdin=json.dumps(asked).encode())
        if result.ended != "exit" or b"Traceback (most recent call last)" in result.stderr:
            raise ValueError(f"the checker failed: {result.stderr.decode('utf-8', 'replace').strip()[-200:]}")
        return result.code == 0


def _verdict(
    lines: list[Mapping[str, Any]] | list[dict[str, Any]], cases: list[ProgramTest], score: str, judge: _Judge
) -> Answer:
    passed, why = 0, ""
    for number, case in enumerate(cases):
        line = lines[number] if number < len(lines) else None
        trouble = _trouble(line)
        if line is not None and not trouble:
            try:
                right = judge(case, line["out"])
            except (ValueError, sandbox.NoIsolation, sandbox.SandboxFailed) as error:
                return missing(str(error))
            trouble = "" if right else f"{case.output[:60]!r} expected, {line['out'][:60]!r} written"
        passed += not trouble
        why = why or (f"; test {number + 1}: {trouble}" if trouble else "")
        if trouble and score == "all":
            break
    value = passed / len(cases) if score == "share" else float(passed == len(cases))
    return value, f"{passed} of {len(cases)} tests passed{why}"[:500]


def _trouble(line: Mapping[str, Any] | None) -> str:
    if line is None:
        return "was not finished"
    if line["code"] is None:
        return "out of time"
    return "" if line["code"] == 0 else f"exit code {line['code']}: {line['err'].strip()[-200:]}"
