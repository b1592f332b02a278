"""Choose criteria of the library that fit the type of a task, without a model.

    >>> find_task_type("Write a Python function that reverses a list.")
    'code'
    >>> find_task_type("What is 12 * 7?", reference="84")
    'maths'

data/tasks.yaml lists the types, the patterns by which their prompts are recognised, and their criteria.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from typing import Any

import yaml


def find_task_type(
    prompt: str, *, turns: int = 1, tools: Sequence[Any] = (), reference: str | None = None
) -> str:
    """The type of a task, one of the keys of data/tasks.yaml.

    turns: number of the user's turns. tools: tools that the model may call. reference: a known right answer.
    """
    if tools:
        return "tools"
    for task, entry in _read_tasks().items():
        if "prompts" not in entry or (task == "maths" and reference is None):
            continue
        patterns = ["|".join(alternatives) for alternatives in entry["prompts"]]
        if all(re.search(pattern, prompt, re.IGNORECASE) for pattern in patterns):
            return task
    return "multi_turn" if turns > 1 else "chat"


def activate_criteria(task: str, reference: str | None = None) -> list[dict[str, Any]]:
    """The criteria of the library for a type of task, in the form of a rubric file."""
    entry = _read_tasks()[task]
    criteria: list[dict[str, Any]] = []
    if task == "maths" and reference is not None:
        params = {"truth": reference, "mode": "math"}
        criteria.append({"name": "GroundTruthMatch", "params": params})
    criteria += [{"name": name} for name in entry["rules"]]
    criteria += [{"name": name, "verifier": "judge"} for name in entry["judged"]]
    return criteria


@cache
def _read_tasks() -> dict[str, dict[str, Any]]:
    text = (files("rubrank") / "drafting" / "data" / "tasks.yaml").read_text(encoding="utf-8")
    tasks: dict[str, dict[str, Any]] = yaml.safe_load(text)
    return tasks
