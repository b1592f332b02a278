"""Public callables with hostile arguments: whatever goes wrong is a RubrankError.

    python tests/fuzz/api_calls.py --count 4000 --seed 7

A call may succeed; it may raise RubrankError (or one of its kinds), or pydantic's ValidationError where a model is made
by hand; nothing else. A wrong number of arguments (TypeError of Python itself) is the caller's, and not counted.
"""

from __future__ import annotations

import argparse
import math
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from pydantic import ValidationError

import rubrank
from rubrank.errors import RubrankError

SCORES = [[1, 0.5], [0, 1.0], [1, math.nan]]
GOOD: dict[str, Any] = {
    "scores": SCORES,
    "rubric": [{"name": "WordCount", "params": {"low": 1}}],
    "rollouts": [{"prompt": "p", "response": "r"}],
    "source": {"criteria": ["Postscript"]},
    "path": "x.jsonl",
    "name": "WordCount",
    "text": "One two.",
    "texts": ["a", "b"],
    "answers": ["a b", "c"],
    "records": [],
    "prompt": "p",
    "response": "r",
    "id": "g",
    "workers": 0,
    "groups": ["a", "a", "b"],
}
HOSTILE: list[Any] = [
    None,
    True,
    0,
    -1,
    10**30,
    1.5,
    math.nan,
    math.inf,
    -math.inf,
    "",
    " ",
    "x",
    "é",
    "\ud800",
    "\0",
    "nowhere.csv",
    "-1",
    b"x",
    [],
    [[]],
    [None],
    [[1], [1, 2]],
    [[math.inf]],
    [["a"]],
    {},
    {"a": 1},
    {"criteria": 3},
    {1: 2},
    (),
    (1,),
    set(),
    object(),
    np.zeros(0),
    np.zeros((2, 0)),
    np.zeros((2, 2, 2, 2)),
    np.array([["a"]]),
    np.array([[1j]]),
    np.array([[None]], object),
    str,  # a class, and a function that does not raise: what a function of the caller raises comes through
    len,
    Path("nowhere"),
    Path("."),
    range(3),
    [{"prompt": 3, "response": []}],
    [{"response": {"a": 1}}],
    3 + 4j,
]
_SKIPPED = {
    "verifier",
    "rule",
    "utility_model",
    "attribute",
    "judge_kind",
    "claims",
    "register_rule",
    "register_model",
    "run_sandboxed",  # takes open files over, and closes them
}


def callables() -> dict[str, Callable[..., Any]]:
    """What can be called of the public names; decorators that register for good are left out."""
    found = {name: getattr(rubrank, name) for name in rubrank.__all__ if name[:1] != "_"}
    kept = {name: value for name, value in found.items() if callable(value) and name not in _SKIPPED}
    return {n: v for n, v in kept.items() if not (isinstance(v, type) and issubclass(v, BaseException))}


def arguments(function: Callable[..., Any], pick: random.Random) -> dict[str, Any]:
    """Arguments by name: some as they should be, some hostile."""
    import inspect

    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return {}
    given = {}
    for parameter in parameters:
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD) or parameter.name in (
            "self",
            "progress",
        ):
            continue
        needed = parameter.default is parameter.empty
        if not needed and pick.random() < 0.7:
            continue
        good = parameter.name in GOOD and pick.random() < 0.5
        given[parameter.name] = GOOD[parameter.name] if good else pick.choice(HOSTILE)
    return given


def fault(function: Callable[..., Any], given: dict[str, Any]) -> str | None:
    """What else than a RubrankError a call raised."""
    try:
        result = function(**given)
        if hasattr(result, "__next__"):
            next(result, None)
    except (RubrankError, ValidationError):
        return None
    except TypeError as error:
        return None if "argument" in str(error) and "rubrank" not in _where(error) else f"TypeError: {str(error)[:100]}"
    except Exception as error:
        return f"{type(error).__name__}: {str(error)[:100]}"
    return None


def _where(error: BaseException) -> str:
    trace, last = error.__traceback__, ""
    while trace is not None:
        last, trace = trace.tb_frame.f_code.co_filename, trace.tb_next
    return last


def run(count: int, seed: int, seconds: float = float("inf")) -> tuple[int, list[tuple[str, dict[str, Any], str]]]:
    """How many calls were made, and those that raised something else."""
    pick, wrong, tried, end = random.Random(seed), [], 0, time.monotonic() + seconds
    functions = callables()
    names = sorted(functions)
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="rubrank-fuzz-") as folder:
        os.chdir(folder)
        try:
            while tried < count and time.monotonic() < end:
                name = pick.choice(names)
                given = arguments(functions[name], pick)
                tried += 1
                found = fault(functions[name], given)
                if found is not None:
                    wrong.append((name, given, found))
        finally:
            os.chdir(before)
    return tried, wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    chosen = parser.parse_args()
    tried, wrong = run(chosen.count, chosen.seed, chosen.seconds)
    shown: Counter[str] = Counter()
    for name, _, found in wrong:
        shown[f"{name}: {found[:70]}"] += 1
    for text, times in shown.most_common(60):
        print(f"{times:4} {text}".encode("utf-8", "backslashreplace").decode())
    print(f"{tried} calls, {len(wrong)} raised something else than RubrankError")
    sys.exit(bool(wrong))
