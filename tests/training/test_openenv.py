"""OpenEnv's `Rubric`: its own class where it is installed, else one with the same contract."""

from __future__ import annotations

import asyncio
import sys
from types import ModuleType
from types import SimpleNamespace as Plain
from typing import Any

import pytest

from rubrank.errors import InvalidInput
from rubrank.training.engine import RewardEngine
from rubrank.training.frameworks.openenv import make_rubric

RUBRIC: list[Any] = [
    "EmptyAnswer",
    {"name": "Lake", "verifier": "Keyword", "params": {"keywords": ["lake"]}, "weight": 3},
    {"name": "Short", "verifier": "WordCount", "params": {"high": 3}},
]


class StandIn:
    """Calls `forward`, which may be asynchronous, with an action and an observation."""

    def __call__(self, action: Any, observation: Any) -> Any:
        return self.forward(action, observation)


@pytest.fixture
def openenv(monkeypatch) -> None:
    try:
        import openenv.core.rubrics.base  # noqa: F401
    except ImportError:
        for name in ("openenv", "openenv.core", "openenv.core.rubrics", "openenv.core.rubrics.base"):
            monkeypatch.setitem(sys.modules, name, ModuleType(name))
        sys.modules["openenv.core.rubrics.base"].Rubric = StandIn


def reward(graded_by: Any, message: Any, **metadata: Any) -> float:
    return asyncio.run(graded_by(Plain(message=message), Plain(metadata={"prompt": "Name a lake.", **metadata})))


def test_the_reward_is_the_gated_mean_of_the_scores(openenv):
    rubric = make_rubric(RewardEngine(RUBRIC))
    assert reward(rubric, "West Lake.") == 1.0
    assert reward(rubric, "It is the lake of Como.") == 0.75
    assert reward(rubric, "No.") == 0.25
    assert reward(rubric, "") == 0.0  # the gate


def test_a_row_has_its_own_rubric(openenv):
    rubric = make_rubric(RewardEngine(RUBRIC))
    own = [{"name": "Como", "verifier": "Keyword", "params": {"keywords": ["como"]}, "weight": 4}]
    assert reward(rubric, "West Lake.", rubric=own) == 0.5


def test_what_is_graded_can_be_read_from_anything(openenv):
    rubric = make_rubric(RewardEngine(RUBRIC), read=lambda action, observation: {"response": action["text"]})
    assert asyncio.run(rubric({"text": "A lake."}, None)) == 1.0
    with pytest.raises(InvalidInput, match="response must be what `read` returns"):
        reward(make_rubric(RewardEngine(RUBRIC)), None)


def test_judges_that_compare_are_refused(openenv):
    judge = {"name": "duel", "kind": "pairwise", "endpoints": [{"base_url": "http://127.0.0.1:1/v1", "model": "m"}]}
    with pytest.raises(InvalidInput, match="judge 'duel' must be of a kind that scores; got pairwise"):
        make_rubric(RewardEngine([{"name": "Tone", "question": "Is it kind?"}, *RUBRIC], judges=judge))
