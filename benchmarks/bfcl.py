"""FunctionCalls on the published answers of the Berkeley Function-Calling Leaderboard, beside its own checker.

    pip download bfcl-eval --no-deps && unzip bfcl_eval-*.whl -d bfcl
    PYTHONPATH=src python benchmarks/bfcl.py bfcl/bfcl_eval

Every listed answer, every allowed value of every argument in turn, and every optional argument left out must pass; each
of them with a value, a name, an argument or a call changed must fail. The package's checker is asked the same where it
can be loaded; it reads types from the function's description as well, which is not in what FunctionCalls sees.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from rubrank import Rollout, find_verifier

CATEGORIES: tuple[str, ...] = (
    "simple_python",
    "multiple",
    "parallel",
    "parallel_multiple",
    "live_simple",
    "live_multiple",
)
CATEGORIES += ("live_parallel", "live_parallel_multiple")
Calls = list[dict[str, dict[str, Any]]]
Truth = list[dict[str, dict[str, list[Any]]]]


def items(folder: Path, category: str) -> Iterator[tuple[Any, Truth]]:
    """(functions, ground truth) of every item."""
    name = f"BFCL_v4_{category}.json"
    questions = {row["id"]: row for row in map(json.loads, (folder / "data" / name).read_text().splitlines())}
    for line in (folder / "data" / "possible_answer" / name).read_text().splitlines():
        row = json.loads(line)
        yield questions[row["id"]]["function"], row["ground_truth"]


def answerable(truth: Truth) -> bool:
    """Two items list no value at all for some argument: by either checker nothing passes."""
    return all(values for call in truth for allowed in call.values() for values in allowed.values())


def plain(value: Any) -> Any:
    """An allowed value as a model writes it: mappings inside hold lists of allowed values, too."""
    if isinstance(value, dict):
        chosen = {
            key: options[0] if isinstance(options, list) and options else options for key, options in value.items()
        }
        return {key: plain(entry) for key, entry in chosen.items() if entry != ""}
    return [plain(entry) for entry in value] if isinstance(value, list) else value


def first(truth: Truth) -> Calls:
    """Every call with the first value of every argument that has one."""
    return [
        {name: {key: plain(real[0]) for key, values in allowed.items() if (real := [v for v in values if v != ""])}}
        for call in truth
        for name, allowed in call.items()
    ]


def right(truth: Truth) -> Iterator[Calls]:
    """The first answer, its calls in the opposite order, and each allowed value in turn."""
    base = first(truth)
    yield base
    if len(base) > 1:
        yield base[::-1]
    for i, call in enumerate(truth):
        for name, allowed in call.items():
            for key, values in allowed.items():
                for value in values[1:]:
                    arguments = {k: v for k, v in base[i][name].items() if k != key or value != ""}
                    yield [*base[:i], {name: arguments | ({} if value == "" else {key: plain(value)})}, *base[i + 1 :]]


def wrong(truth: Truth) -> Iterator[tuple[str, Calls]]:
    """The first answer with one thing changed."""
    base = first(truth)
    yield "a call less", base[1:]
    yield "a call more", [*base, base[0]]
    for i, call in enumerate(base):
        for name, arguments in call.items():
            yield "another name", [*base[:i], {f"{name}_x": arguments}, *base[i + 1 :]]
            yield "an argument more", [*base[:i], {name: {**arguments, "no_such_argument": 1}}, *base[i + 1 :]]
            for key, values in truth[i][name].items():
                if "" not in values:
                    less = {k: v for k, v in arguments.items() if k != key}
                    yield "an argument less", [*base[:i], {name: less}, *base[i + 1 :]]
                changed_arguments = {**arguments, key: change_value(values)}
                yield "another value", [*base[:i], {name: changed_arguments}, *base[i + 1 :]]


def change_value(values: list[Any]) -> Any:
    """A value of the same type that is not allowed."""
    real = next((value for value in values if value != ""), "x")
    if isinstance(real, bool):
        return (not real) if (not real) not in values else "neither"
    if isinstance(real, int | float):
        return max(abs(v) for v in values if isinstance(v, int | float) and not isinstance(v, bool)) + 17
    if isinstance(real, list):
        return [*plain(real), *(plain(real)[:1] or ["more"])]
    return {**plain(real), "more": 1} if isinstance(real, dict) else f"{real} zqx"


def ours(truth: Truth) -> Callable[[Calls], bool | None]:
    verifier = find_verifier("FunctionCalls")
    decide = verifier.bind(verifier.check_parameters({"expected": truth}))

    def run(calls: Calls) -> bool | None:
        tool_calls = [{"name": name, "arguments": arguments} for call in calls for name, arguments in call.items()]
        value, _ = decide(Rollout.model_validate({"response": "", "tool_calls": tool_calls}))
        return None if value is None else value == 1.0

    return run


def upstream(folder: Path) -> Callable[..., bool] | None:
    """The package's own checker; its table of models wants a dozen clients, and is not needed here."""
    stand_in: Any = ModuleType("bfcl_eval.constants.model_config")
    plainly = SimpleNamespace(underscore_to_dot=False)
    stand_in.MODEL_CONFIG_MAPPING = {"none": plainly}
    sys.modules["bfcl_eval.constants.model_config"] = stand_in
    sys.path.insert(0, str(folder.parent))
    try:
        from bfcl_eval.constants.enums import Language  # type: ignore[import-not-found]
        from bfcl_eval.eval_checker.ast_eval.ast_checker import ast_checker  # type: ignore[import-not-found]
    except ImportError:
        return None
    return lambda functions, calls, truth, category: bool(
        ast_checker(functions, calls, truth, Language.PYTHON, category, "none")["valid"]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description="FunctionCalls on BFCL's published answers.")
    parser.add_argument("folder", type=Path, help="bfcl_eval, as the package brings it")
    folder = parser.parse_args().folder
    theirs = upstream(folder)
    total = Counter[str]()
    for category in CATEGORIES:
        count = Counter[str]()
        for functions, truth in items(folder, category):
            if not answerable(truth):
                count["unanswerable"] += 1
                continue
            decide = ours(truth)
            cases = [("right", calls) for calls in right(truth)] + list(wrong(truth))
            count["items"] += 1
            for kind, calls in cases:
                verdict = decide(calls)
                is_right = kind == "right"
                count["right" if is_right else "wrong"] += 1
                count["right passed" if is_right else "wrong failed"] += verdict is is_right
                if verdict is not is_right:
                    print(f"{category}: {kind}: {json.dumps(calls)[:160]} / {json.dumps(truth)[:160]}", file=sys.stderr)
                if theirs is not None:
                    count["agree"] += theirs(functions, calls, truth, category) is verdict
                    count["asked"] += 1
        print(_line(category, count))
        total += count
    print(_line("all", total))


def _line(category: str, count: Counter[str]) -> str:
    beside = f"  agree with BFCL's checker {count['agree']:,} of {count['asked']:,}" if count["asked"] else ""
    passed = f"{count['right passed']:,} of {count['right']:,} right ones pass"
    failed = f"{count['wrong failed']:,} of {count['wrong']:,} changed ones fail"
    return f"{category:24} {count['items']:5,} items  {passed}  {failed}{beside}"


if __name__ == "__main__":
    main()
