"""A benchmark's items asked of anything that answers prompts, turn by turn where turns belong together.

    rows = ask_items(find_benchmark("ifeval"), items, lambda prompts: ["none" for _ in prompts])
    score_rows(rows, find_benchmark("ifeval"))

The model's own answers stay in the history of a dialogue (or the reference's, where the benchmark is set so), without
their thinking. Inspect's tasks use the same two functions.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias

from rubrank.evaluation.benchmark import Benchmark, Messages, Row
from rubrank.texts.reasoning import split_reasoning

Ask: TypeAlias = Callable[[Sequence[Messages]], Sequence[str]]
"""Prompts → outputs, in order."""


def dialogues(benchmark: Benchmark, items: Iterable[Row]) -> dict[str, list[Row]]:
    """Items that continue one another stand together; every other item is alone."""
    found: dict[str, list[Row]] = {}
    for item in items:
        id = benchmark.item_id(item)
        key = str(item["system_id"]) if "system_id" in item and "turn" in item else id
        found.setdefault(key, []).append(item)
    for turns in found.values():
        turns.sort(key=lambda item: int(item.get("turn") or 0))
    return found


def next_history(benchmark: Benchmark, turn: Row, history: Sequence[Any], output: str) -> list[dict[str, str]]:
    """The history of the turn after this one."""
    reference = benchmark.options.get("history") == "reference" and turn.get("reference_answer")
    said = str(reference or split_reasoning(output)[1])
    asked = {"role": "user", "content": str(turn.get("prompt", ""))}
    return [*history, asked, {"role": "assistant", "content": said}]


def ask_items(benchmark: Benchmark, items: Iterable[Row], ask: Ask) -> list[dict[str, Any]]:
    """Every item with its output, all dialogues' first turns asked together, then all second ones."""
    waiting: list[tuple[list[Row], list[dict[str, str]]]] = [
        (turns, []) for turns in dialogues(benchmark, items).values()
    ]
    rows: list[dict[str, Any]] = []
    number = 0
    while waiting:
        asked = [{**turns[number], "history": own or turns[number].get("history") or []} for turns, own in waiting]
        outputs = ask([benchmark.prompt(item) for item in asked])
        for (turns, own), item, output in zip(waiting, asked, outputs, strict=True):
            rows.append({**item, "output": output})
            own[:] = next_history(benchmark, turns[number], own, output)
        number += 1
        waiting = [one for one in waiting if len(one[0]) > number]
    return rows
