"""Running a solution against its tests: each in a sandbox of its own, with a pipe between them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from rubrank.verifiers.agentic.test_files import modules_of
from rubrank.verifiers.shared import sandbox
from rubrank.verifiers.shared.sandboxes.bundling import command

_PACKAGE = "rubrank.verifiers.agentic.apart"


@dataclass(frozen=True)
class Work:
    """What is to be run: the solution's code and files, and the files as the tests know them."""

    code: str | None
    """The solution, as a module named `module`; None: the tests import it from `files`."""
    module: str
    files: Mapping[str, str] = field(default_factory=dict)
    """The solution's files."""
    given: Mapping[str, str] = field(default_factory=dict)
    """The files as they were before the policy touched them: those that tests see."""
    own: frozenset[str] = frozenset()
    """Of these, the tests' own: imported beside the tests, not from the solution."""


def run_apart(
    work: Work, jobs: list[dict[str, Any]], *, seconds: float, memory: int, stop: bool, mutates: bool
) -> list[Any]:
    """The tests' lines, one a job. Raises what `sandbox.run` raises, for either side."""
    to_solution, from_tests = os.pipe()
    to_tests, from_solution = os.pipe()
    total = min(600.0, seconds * len(jobs) + 5)
    limits = sandbox.Limits(seconds=total, cpu=int(seconds) + 2, memory=memory, output=64, processes=32)
    solution = {"code": work.code, "module": work.module, "mutates": mutates}
    with ThreadPoolExecutor(1) as threads:
        other = threads.submit(_side, "solution_side", solution, work.files, limits, (to_solution, from_solution))
        tests = {"jobs": jobs, "seconds": seconds, "stop": stop, **_modules(work)}
        try:
            result = _side("tests_side", tests, work.given, limits, (to_tests, from_tests))
        finally:
            trouble = other.exception()
    if trouble is not None:
        raise trouble
    return [json.loads(line) for line in result.stdout.decode().split("\n")[:-1]]


def _modules(work: Work) -> dict[str, Any]:
    """Which modules are the solution's (`remote`), which the tests' own (`local`), and what there was before."""
    own = {name: file for name, file in modules_of(work.own).items() if file}
    remote = set(modules_of(work.files)) - set(own) if work.code is None or work.own else set()
    if work.code is not None:
        remote.add(work.module)
    tops = {name.partition(".")[0] for name in modules_of(work.given)} | {work.module}
    return {"remote": sorted(remote), "local": own, "given": sorted(tops)}


def _side(
    name: str, request: dict[str, Any], files: Mapping[str, str], limits: sandbox.Limits, channel: tuple[int, int]
) -> sandbox.Result:
    program = command(*(f"{_PACKAGE}.{module}" for module in ("wire", "proxies", name)))
    return sandbox.run(
        program, files=files, stdin=json.dumps(request).encode(), limits=limits, channel=channel, trusted=True
    )
