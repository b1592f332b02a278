"""Two queries and their answers, for the tests of the engine."""

from __future__ import annotations

from typing import Any

from rubrank.rollouts.rollout import Group, Rollout

RUBRIC = [
    "EmptyAnswer",
    {"name": "WordCount", "params": {"low": 4}},
    {"name": "Keyword", "params": {"keywords": ["moon"]}, "weight": 2},
]
ANSWERS = {
    "tides": ["The moon pulls the sea.", "Moon.", "The sea rises by itself.", ""],
    "rain": ["Clouds cool.", "Water falls when the moon is up.", "Wet."],
}


def group(id: str, *answers: str, **fields: Any) -> Group:
    return Group(id=id, rollouts=tuple(Rollout(prompt=id, response=text) for text in answers), **fields)


def groups(prefix: str = "") -> list[Group]:
    return [group(prefix + id, *answers) for id, answers in ANSWERS.items()]
