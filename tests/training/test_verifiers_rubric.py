"""A reward function for verifiers' Rubric: with verifiers ≤ 0.3.1 where it is installed, and with a stand-in anyway.

The stand-in does what verifiers documents: a function with plural parameter names gets lists over the rollouts of an
example, those that it names; what it raises is logged, and the group gets zeros.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import inspect
import sys
from collections import Counter
from math import nan
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import yaml

from rubrank.errors import InvalidInput
from rubrank.training.controls import Control
from rubrank.training.engine import RewardEngine, StepRewards
from rubrank.training.frameworks.verifiers import group_reward, rubric_of

RUBRIC = ["EmptyAnswer", {"name": "Keyword", "params": {"keywords": ["lake"]}}]
PLURAL = {"states", "prompts", "completions", "answers", "tasks", "infos"}


class Rubric:
    def __init__(self, funcs: list[Any]) -> None:
        self.funcs = funcs

    async def score_group(self, states: list[dict[str, Any]]) -> None:
        everything: dict[str, Any] = {
            "prompts": [state["prompt"] for state in states],
            "completions": [state["completion"] for state in states],
            "answers": [state.get("answer", "") for state in states],
            "infos": [state.get("info", {}) for state in states],
            "states": states,
            "tasks": [None for _ in states],
        }
        for function in self.funcs:
            names = set(inspect.signature(function).parameters)
            assert names & PLURAL
            scores = await function(**{name: value for name, value in everything.items() if name in names})
            for state, score in zip(states, scores, strict=True):
                state["reward"] = score
                state["metrics"] = {function.__name__: score}


def installed() -> bool:
    """The distribution: a folder of tests here has the package's name."""
    return bool(list(importlib.metadata.distributions(name="verifiers")))


@pytest.fixture(params=["stand-in", "installed"])
def rubric_class(request, monkeypatch):
    if request.param == "installed":
        if not installed():
            pytest.skip("verifiers is not installed")
        import verifiers as vf

        if not hasattr(vf, "Rubric"):
            pytest.skip(f"verifiers {vf.__version__} has no Rubric")
        return vf.Rubric
    module = ModuleType("verifiers")
    module.Rubric = Rubric
    monkeypatch.setitem(sys.modules, "verifiers", module)
    return Rubric


def state(said: Any, **given: Any) -> dict[str, Any]:
    prompt = [{"role": "user", "content": "Name a lake."}]
    return {"prompt": prompt, "completion": said, "trajectory": [], **given}


def assistant(text: str) -> list[dict[str, str]]:
    return [{"role": "assistant", "content": text}]


def test_a_group(rubric_class):
    rubric = rubric_of(RewardEngine(RUBRIC))
    assert isinstance(rubric, rubric_class)
    states = [state(assistant("West Lake.")), state("No."), state(None)]
    asyncio.run(rubric.score_group(states))
    assert [one["reward"] for one in states] == [1.0, 0.25, 0.0]
    assert states[0]["metrics"] == {"rubric": 1.0}


def test_rows_bring_rubrics_and_answers(rubric_class, tmp_path):
    path = tmp_path / "reward.yaml"
    path.write_text(yaml.safe_dump({"rubric": ["EmptyAnswer"], "records": "records.jsonl"}), encoding="utf-8")
    info = {"rubric": [{"name": "River", "verifier": "Keyword", "params": {"keywords": ["river"]}}]}
    seen: list[StepRewards] = []
    rubric = rubric_of(path, name="quality", report=seen.append)
    states = [state(assistant(text), info=info, answer="x") for text in ("a lake", "a river")]
    asyncio.run(rubric.score_group(states))
    assert [one["metrics"]["quality"] for one in states] == [0.25, 1.0]
    assert seen[0].metrics["rubrank/score/own"] == 0.5
    assert (tmp_path / "records.jsonl").is_file()


def test_who_is_not_known_gets_the_mean(rubric_class, monkeypatch):
    monkeypatch.setattr(RewardEngine, "fuse", lambda *_, **__: StepRewards(((1.0, nan, 0.5),)))
    states = [state(assistant(text)) for text in "abc"]
    asyncio.run(rubric_of(RewardEngine(RUBRIC)).score_group(states))
    assert [one["reward"] for one in states] == [1.0, 0.75, 0.5]


def test_the_steps_of_a_run_are_counted(tmp_path):
    from rubrank.records.files import read_records

    engine = RewardEngine(RUBRIC, records=tmp_path / "records.jsonl")
    function = group_reward(engine)
    for _ in range(2):
        given = {"prompts": ["p"] * 2, "completions": ["a", "lake"], "answers": [""] * 2, "infos": [{}] * 2}
        assert asyncio.run(function(**given, states=[{}] * 2)) == [0.25, 1.0]
    assert [record.step for record in read_records(engine.records)] == [0, 1]


def test_what_cannot_be_done_is_said_at_once():
    with (
        pytest.warns(RuntimeWarning, match="no checkpoint contains the memory"),  # it is of the run
        pytest.raises(InvalidInput, match="controlled from step 0 on"),
    ):
        group_reward(RewardEngine(RUBRIC, attributes=[Control("markdown", start=3)]))
    with pytest.warns(RuntimeWarning, match="no checkpoint contains the memory"):
        group_reward(RewardEngine(RUBRIC, "amrp"))


def test_versions_without_a_rubric(monkeypatch):
    monkeypatch.setitem(sys.modules, "verifiers", SimpleNamespace(__version__="0.4.0"))
    with pytest.raises(InvalidInput, match=r"≤ 0\.3\.1, .*With 0\.4, mix RubricFinalize"):
        rubric_of(RewardEngine(RUBRIC))


# ------------------------------------------------------------------------------------------- with the package only


needs_package = pytest.mark.skipif(not installed(), reason="verifiers is not installed")


@needs_package
def test_an_installed_version_without_a_rubric():
    import verifiers as vf

    if hasattr(vf, "Rubric"):
        pytest.skip(f"verifiers {vf.__version__} has a Rubric")
    with pytest.raises(InvalidInput, match="which has none"):
        rubric_of(RewardEngine(RUBRIC))


@needs_package
def test_verifiers_takes_it_for_a_function_of_groups():
    vf = pytest.importorskip("verifiers.legacy")
    rubric = rubric_of(RewardEngine(RUBRIC))
    assert rubric.has_group_rewards
    states = [
        vf.State(
            prompt=[vf.UserMessage(content="Name a lake.")],
            trajectory=[],
            info={},
            completion=[vf.AssistantMessage(content=text, reasoning_content="a lake?")],
        )
        for text in ("West Lake.", "No.")
    ]
    asyncio.run(rubric.score_group(states))
    assert [one["reward"] for one in states] == [1.0, 0.25]  # the worst that passes the gate
    assert [one["advantage"] for one in states] == [0.375, -0.375]


@needs_package
def test_what_a_function_raises_becomes_zeros_and_a_line_in_the_log(caplog):
    pytest.importorskip("verifiers.legacy")
    judged = {"rubric": [{"name": "Good", "description": "Is it good?"}]}
    states = [state(assistant(text), info=judged) for text in "ab"]
    asyncio.run(rubric_of(RewardEngine(RUBRIC)).score_group(states))
    assert [one["reward"] for one in states] == [0.0, 0.0]
    assert "Error calling group reward function rubric" in caplog.text
    assert "no judge for it" in caplog.text


@needs_package
def test_an_environment_of_verifiers(monkeypatch):
    """Its own loop: rollouts of an example are sampled by a client and scored as a group."""
    vf = pytest.importorskip("verifiers.legacy")
    from datasets import Dataset
    from verifiers.legacy.clients.client import Client
    from verifiers.legacy.types import Response, ResponseMessage, Usage

    said: Counter[str] = Counter()

    class Scripted(Client):
        def setup_client(self, config):
            return None

        async def to_native_tool(self, tool):
            return tool

        async def to_native_prompt(self, messages):
            return messages, {}

        async def get_native_response(self, prompt, model, sampling_args, tools=None, **given):
            said[str(prompt)] += 1
            return "West Lake." if said[str(prompt)] % 2 else "No."

        async def raise_from_native_response(self, response):
            pass

        async def from_native_response(self, response):
            message = ResponseMessage(content=response, finish_reason="stop", is_truncated=False)
            usage = Usage(prompt_tokens=1, reasoning_tokens=0, completion_tokens=3, total_tokens=4)
            return Response(id="r", created=0, model="m", usage=usage, message=message)

        async def close(self):
            pass

    rows = [{"question": f"Name lake {i}.", "answer": "", "info": {"rubric": ["EmptyAnswer"]}} for i in range(2)]
    engine, seen = RewardEngine(RUBRIC), []
    monkeypatch.setattr(
        engine, "fuse", lambda groups, *a, **k: seen.extend(groups) or RewardEngine.fuse(engine, groups, *a, **k)
    )
    env = vf.SingleTurnEnv(dataset=Dataset.from_list(rows), rubric=rubric_of(engine))
    inputs = [dict(row) for row in env.get_dataset() for _ in range(2)]
    found = asyncio.run(env.generate(inputs, client=Scripted(None), model="m"))
    outputs = sorted((out["example_id"], out["reward"]) for out in found["outputs"])
    assert outputs == [(0, 0.25), (0, 1.0), (1, 0.25), (1, 1.0)]
    told = [(one.finish_reason, one.token_counts) for group in seen for one in group.rollouts]
    assert told == [("stop", {"reasoning": 0, "answer": 3})] * 4
