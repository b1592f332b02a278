"""Verifiers of code blocks: CodePasses runs a program on its tests, in seven languages; CodeParses only parses it.

The programs of CodePasses read standard input and write standard output. They run in the sandbox.
"""

from __future__ import annotations

import doctest
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from xml.etree import ElementTree

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.shared import sandbox
from rubrank.verifiers.shared.code_blocks import (
    Compare,
    is_same_output,
    parse_python,
    split_fenced_blocks,
)
from rubrank.verifiers.verifier import UNIT, Answer, Verdict, missing, verifier

_MOST_TESTS = 200  # of one response; more are most likely a mistake in the data
_COMPILE_SECONDS = 60.0
_MOST_SECONDS = 900.0  # of one sandbox, however many tests it runs
_UNLIMITED_MEMORY = 64_000  # MB of address space, for runtimes that reserve more than they use
_COMPILER_MEMORY = 1024  # MB that a compiler gets at least


# ---- languages -------------------------------------------------------------------------------------------------------

Language: TypeAlias = Literal["python", "cpp", "java", "javascript", "go", "rust", "bash"]


@dataclass(frozen=True)
class Recipe:
    """How programs of one language are compiled and run: an entry of languages.yaml."""

    fences: list[str]
    """Names of the language after the backticks of a code block."""
    file: str
    """The name under which the source is saved."""
    tool: str
    """The compiler or interpreter."""
    compile: str = ""
    """The command that compiles the source; empty for interpreted languages."""
    run: str = "./program"
    binary: str = ""
    """The executable that the compiler writes, if it writes one."""
    smallest: str = ""
    """The smallest program, compiled once to find out whether the compiler works. Empty for interpreted languages."""
    reserves: bool = False
    """Does the runtime reserve far more address space than it uses?

    Then the sandbox sets no limit on address space. Java and JavaScript have a flag in `run` instead.
    """


RECIPES = {
    language: Recipe(**entry)
    for language, entry in yaml.safe_load(
        Path(__file__).with_name("languages.yaml").read_text("utf-8")
    ).items()
}
"""How to compile and run programs, by language."""


@cache
def find_tool(language: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the path of the compiler or interpreter and the folders that it must read; None if it is absent."""
    name = RECIPES[language].tool
    if name == "python":
        return sys.executable, ()
    path = shutil.which(name, path="/usr/local/bin:/usr/bin:/bin") or shutil.which(name)
    if path is None:
        return None
    if language == "rust":
        # rustup's `rustc` only starts the real one, and reads its settings in a home, which the sandbox hides.
        sysroot = subprocess.run(
            [path, "--print", "sysroot"], capture_output=True, text=True, check=False
        )
        root = sysroot.stdout.strip()
        compiler = f"{root}/bin/rustc"
        return (compiler, (root,)) if os.path.exists(compiler) else None
    real_path = os.path.realpath(path)
    folders = (os.path.dirname(os.path.dirname(real_path)),)  # the folder that contains bin/
    if language == "cpp":
        # `g++` may be a link to clang or ccache, which behave according to the name they are called by.
        return path, folders
    return real_path, folders


# ---- the verifier ----------------------------------------------------------------------------------------------------


class ProgramTest(BaseModel):
    """An input and the expected output, in LiveCodeBench's form."""

    model_config = ConfigDict(extra="ignore", frozen=True)
    input: str = ""
    output: str
    # LiveCodeBench also has "functional", which is not covered
    testtype: Literal["stdin"] = "stdin"


_TESTS: TypeAdapter[list[ProgramTest]] = TypeAdapter(list[ProgramTest])


@verifier("CodePasses", family="code", domain=UNIT, version=2, cost="process")
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
    # The last block in `language`, or in any language that is known.
    source = ""
    block_language = ""
    for fence, block in split_fenced_blocks(rollout.answer):
        for name, recipe in RECIPES.items():
            if fence in recipe.fences and language in (None, name) and block.strip():
                source = block
                block_language = name
    if not source:
        return 0.0, f"no {language or 'known language'} block in the answer"
    inputs = [case.input for case in cases]
    passed = 0
    first_failure = ""
    try:
        runs = run_program(block_language, source, inputs, seconds, memory)
        if isinstance(runs, Verdict):
            return runs
        for number, (case, run) in enumerate(zip(cases, runs, strict=True), 1):
            if checker is None:
                failure = find_failure(run, case.output, compare, tolerance)
            else:
                failure = find_failure(run, None) or _run_checker(checker, case, run["out"])
            passed += not failure
            if failure and not first_failure:
                first_failure = f"; test {number}: {failure}"
    except (InvalidInput, sandbox.NoIsolation, sandbox.SandboxFailed, _CheckerFailed) as error:
        return missing(str(error))
    reason = f"{passed} of {len(cases)} tests passed{first_failure}"
    value = passed / len(cases) if score == "share" else float(passed == len(cases))
    return value, reason[:500]


def run_program(
    language: str,
    source: str,
    inputs: list[str],
    seconds: float,
    memory: int,
    files: Mapping[str, str] | None = None,
) -> list[dict[str, Any]] | Verdict:
    """Compile the program and run it on every input, in one sandbox, with `files` beside it.

    Returns what the runner reports for each input, or the verdict if there is nothing to score. What the program should
    write never enters the sandbox. Raises what `sandbox.run` raises.
    """
    recipe = RECIPES[language]
    tool = find_tool(language)
    if tool is None:
        return missing(f"this machine has no {recipe.tool}, which {language} needs")
    path, folders = tool
    placeholders = {"tool": path, "home": str(Path(path).parent), "memory": str(memory)}
    request = {
        "compile": [part.format(**placeholders) for part in recipe.compile.split()],
        "run": [part.format(**placeholders) for part in recipe.run.split()],
        "binary": recipe.binary,
        "inputs": inputs,
        "seconds": seconds,
        "compile_seconds": _COMPILE_SECONDS,
    }
    address_space = memory
    if recipe.reserves:
        address_space = _UNLIMITED_MEMORY
    elif recipe.compile:
        address_space = max(memory, _COMPILER_MEMORY)
    limits = sandbox.Limits(
        seconds=min(_MOST_SECONDS, seconds * len(inputs) + _COMPILE_SECONDS + 5),
        cpu=int(max(seconds, _COMPILE_SECONDS)) + 2,
        memory=address_space,
        file_size=64,
        disk=256,
        processes=256,
        open_files=256,
        output=256,
    )
    result = sandbox.run(
        sandbox.make_command("rubrank.verifiers.code.runner"),
        files={**(files or {}), recipe.file: source},
        stdin=json.dumps(request).encode(),
        limits=limits,
        keep=folders,
        trusted=True,
    )
    if result.ended == "exit" and result.code:
        stderr = result.stderr.decode("utf-8", "replace").strip()
        return missing(f"the runner failed: {stderr[-200:]}")
    # The last line is empty, or cut off if the run was stopped.
    runs = [json.loads(line) for line in result.stdout.decode().split("\n")[:-1]]
    if recipe.compile:
        # Without any line, the runner was stopped while it compiled.
        compilation = runs.pop(0) if runs else {"code": None, "err": result.why}
        if compilation["code"] != 0:
            reason = str(compilation["err"]).strip()[:300] or "out of time"
            # If even the smallest program does not compile, it is the machine's fault. `_compile_smallest` calls this
            # function once more, with that program.
            is_smallest = source == recipe.smallest
            if is_smallest or isinstance(_compile_smallest(language), Verdict):
                return missing(
                    f"{recipe.tool} does not work in the sandbox of this machine: {reason}"
                )
            return Verdict(0.0, f"it does not compile: {reason}")
    unfinished = {"code": None, "out": "", "err": "was not finished"}
    return runs + [unfinished] * (len(inputs) - len(runs))


@cache
def _compile_smallest(language: str) -> list[dict[str, Any]] | Verdict:
    return run_program(language, RECIPES[language].smallest, [""], seconds=5.0, memory=512)


def find_failure(
    run: dict[str, Any], expected: str | None, compare: Compare = "lines", tolerance: float = 0.0
) -> str:
    """Return why a run fails: its end, or another output than the expected one (None: any will do); "" if it passes."""
    if run["code"] is None:
        return run["err"] or "out of time"
    if run["code"] != 0:
        return f"exit code {run['code']}: {run['err'].strip()[-200:]}"
    if expected is not None and not is_same_output(expected, run["out"], compare, tolerance):
        return f"{expected[:60]!r} expected, {run['out'][:60]!r} written"
    return ""


class _CheckerFailed(Exception):  # noqa: N818 - says what happened
    """The checker itself failed."""


def _run_checker(checker: str, case: ProgramTest, output: str) -> str:
    """Return why the checker rejects an output; "" if it accepts it. Raises _CheckerFailed if it fails itself."""
    request = {"input": case.input, "expected": case.output, "output": output}
    result = sandbox.run(["python", "-I", "-B", "-c", checker], stdin=json.dumps(request).encode())
    # An uncaught exception exits with 1 as a rejection does; only the traceback tells them apart.
    if result.ended != "exit" or b"Traceback (most recent call last)" in result.stderr:
        stderr = result.stderr.decode("utf-8", "replace").strip()
        raise _CheckerFailed(f"the checker failed: {stderr[-200:]}")
    return "" if result.code == 0 else f"{output[:60]!r} is rejected by the checker"


# ---- CodeParses ------------------------------------------------------------------------------------------------------

_PARSED_LANGUAGES = ("json", "python", "sql", "toml", "xml", "yaml")
# Other names of these languages
_LANGUAGE_ALIASES = {
    "py": "python",
    "python3": "python",
    "yml": "yaml",
    "sqlite": "sql",
    "postgresql": "sql",
    "mysql": "sql",
}
_MOST_CHARACTERS = 200_000
_LINT_SECONDS = 20


def _find_name(tag: str) -> str:
    """Return the name of a language here: "py" → "python"."""
    return _LANGUAGE_ALIASES.get(tag.lower(), tag.lower())


def find_syntax_error(language: str, source: str) -> str | None:
    """Return what is wrong with a source; None if nothing is. Raises LookupError if no parser knows the language."""
    language = _find_name(language)
    if language == "sql" and importlib.util.find_spec("sqlglot") is None:
        raise LookupError("sqlglot is not installed: pip install 'rubrank[sql]'")
    if language not in _PARSED_LANGUAGES:
        raise LookupError(
            f"no parser for {language!r}; there is one for {', '.join(_PARSED_LANGUAGES)}"
        )
    source = source[:_MOST_CHARACTERS]
    try:
        if language == "python":
            parse_python(drop_prompts(source))
        elif language == "json":
            json.loads(source)
        elif language == "toml":
            tomllib.loads(source)
        elif language == "yaml":
            for _ in yaml.parse(source, Loader=yaml.SafeLoader):
                pass
        elif language == "xml":
            # Entities of entities can make gigabytes out of a few lines.
            if "<!ENTITY" in source:
                raise ValueError("entities are not read")
            ElementTree.fromstring(source.strip())
        else:
            import sqlglot

            if not any(sqlglot.parse(source)):
                raise ValueError("no statement")
    except Exception as error:  # every parser raises other errors
        return f"{language} that does not parse: {' '.join(str(error).split())}"[:200]
    return None


def drop_prompts(source: str) -> str:
    """Return the statements of a Python session (after >>> and ...) without its outputs; other sources unchanged."""
    if not source.lstrip().startswith(">>>"):
        return source
    examples = doctest.DocTestParser().get_examples(source.replace("\t", "    "))
    return "".join(example.source for example in examples)


@verifier(
    "CodeParses",
    family="code",
    version=2,
    cost="process",
    needs=lambda params: ("ruff", "lint") if params.lint else None,
)
def code_parses(text: Text, *, language: str | None = None, lint: bool = False) -> Answer:
    """Every code block of the answer parses: Python, JSON, YAML, TOML, XML, SQL (extra [sql]).

    `language` takes the blocks of that language, or without any the whole answer; blocks without a tag are read as it.
    Of a Python session (`>>> 1 + 1`) the statements are read, and its outputs are not.
    `lint` also asks ruff (extra [lint]) for undefined names and the like (rules E9 and F).
    Passes: a block with `def f(): ...`.
    Fails: `def f(:`; no block; a block that never closes is read to its end.
    Missing: only blocks in languages without a parser here, or without a tag.
    Not covered: whether the code runs or is right (CodePasses).
    """
    blocks = [
        (tag or language or "", code) for tag, code in split_fenced_blocks(text.raw) if code.strip()
    ]
    if language is not None:
        name = _find_name(language)
        blocks = [(tag, code) for tag, code in blocks if _find_name(tag) == name]
        if not blocks and "```" not in text.raw and text.raw.strip():
            blocks = [(language, text.raw)]
    if not blocks:
        return False, "no code block"
    unread = ""
    parsed = 0
    for tag, code in blocks:
        try:
            problem = find_syntax_error(tag, code)
        except LookupError as error:
            unread = str(error)
            continue
        if problem is None and lint and _find_name(tag) == "python":
            problem = _lint_python(drop_prompts(code))
        if problem:
            return False, problem
        parsed += 1
    if not parsed:
        return missing(unread)
    reason = f"{parsed} of {len(blocks)} block(s) parse"
    if unread:
        reason += f"; {unread}"
    return True, reason


def _lint_python(source: str) -> str | None:
    """Return the first finding of ruff's rules E9 and F, except F401: a snippet may import names for later use."""
    command = [
        sys.executable,
        "-m",
        "ruff",
        "check",
        "--isolated",
        "--quiet",
        "--select=E9,F",
        "--ignore=F401",
        "--output-format=concise",
        "--no-cache",
        "-",
    ]
    process = subprocess.run(
        command,
        input=source[:_MOST_CHARACTERS],
        capture_output=True,
        text=True,
        check=False,
        timeout=_LINT_SECONDS,
    )
    if process.returncode > 1:
        raise OSError(f"ruff failed: {process.stderr[:200]}")
    lines = process.stdout.splitlines()
    return f"ruff: {lines[0].removeprefix('-:')}" if lines else None
