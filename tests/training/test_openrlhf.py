"""OpenRLHF's agent file, over OpenRLHF's own executors where it is installed, and over stand-ins anyway."""

from __future__ import annotations

import asyncio
import importlib
import sys
from math import nan
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from openrlhf_stand_in import (
    RUBRIC,
    Characters,
    Engine,
    agent_file,
    configuration,
    installed,
    params,
    rewards,
    run,
    stand_in,
)

from rubrank.errors import InvalidInput
from rubrank.records.files import read_records
from rubrank.training.engine import RewardEngine, StepRewards


@pytest.fixture(params=["stand-in", "installed"])
def agent(request, monkeypatch):
    """OpenRLHF's module of executors."""
    if request.param == "installed":
        if not installed():
            pytest.skip("OpenRLHF is not installed")
        return importlib.import_module("openrlhf.utils.agent")
    for name in ("openrlhf", "openrlhf.utils"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setitem(sys.modules, "openrlhf.utils.agent", stand_in())
    return sys.modules["openrlhf.utils.agent"]


@pytest.fixture
def configure(tmp_path, monkeypatch):
    def write(**data: Any) -> Path:
        path = configuration(tmp_path, **data)
        monkeypatch.setenv("RUBRANK_CONFIG", str(path))
        return path

    write()
    return write


def test_openrlhf_finds_what_it_looks_for(agent, configure):
    module = agent_file()
    assert issubclass(module.AgentExecutor, agent.AgentExecutorBase)
    assert module.AgentExecutor().engine.rubric.criteria
    with pytest.raises(AttributeError, match="Other"):
        _ = module.Other


@pytest.mark.parametrize("slow", [True, False], ids=["the last first", "at once"])
def test_a_group(agent, configure, slow):
    outputs = run(agent_file().AgentExecutor(), "West Lake.", "No.", "", "A lake.", slow=slow)
    assert rewards(outputs) == [1.0, 0.25, 0.0, 1.0]
    assert "".join(map(chr, outputs[0]["observation_tokens"])) == "Name a lake.West Lake."
    assert {tuple(one["extra_logs"]) for one in outputs} == {
        ("rubrank/unknown", "rubrank/groups/no_signal", "rubrank/seconds")
    }


def test_groups_at_once_of_any_number_even_of_the_same_prompt(agent, configure):
    executor = agent_file().AgentExecutor()

    async def step() -> list[list[Any]]:
        engine = Engine(executor)
        groups = [
            params("lake", "a lake", name="1"),
            params("No.", "Nor.", "x", name="2"),
            params("lake", "x", name="3"),
        ]
        return await asyncio.gather(*(engine.generate_responses("p", "", one, len(one.said)) for one in groups))

    for _ in range(2):  # the parameters of the first round are gone, and their ids may come back
        assert [rewards(group) for group in asyncio.run(step())] == [[0.625, 0.625], [0.625, 0.625, 0.625], [1.0, 0.25]]


def test_labels_bring_rubrics_and_prompts(agent, configure, tmp_path):
    configure(records="records.jsonl", rule="rlvr2+")
    own = '{"prompt": "Name it.", "rubric": [{"name": "R", "verifier": "Keyword", "params": {"keywords": ["river"]}}]}'
    assert rewards(run(agent_file().AgentExecutor(), "lake", "lake and river", label=own)) == [0.25, 1.0]
    (path,) = tmp_path.glob("records-*.jsonl")  # one for each process
    (record,) = read_records(path)
    assert record.prompt == ({"role": "user", "content": "Name it."},)


def test_if_one_fails_all_do_and_nothing_is_graded(agent, configure, monkeypatch):
    graded: list[Any] = []
    executor = agent_file().AgentExecutor()
    monkeypatch.setattr(executor.engine, "fuse", lambda *given, **_: graded.append(given))
    with pytest.raises(OSError, match="out of memory"):
        run(executor, "lake", OSError("out of memory"), "No.")

    async def each() -> list[Any]:
        engine, one = Engine(executor), params("lake", OSError("out of memory"), "No.")
        calls = [executor.execute("p", "", one, 64, Characters(), engine) for _ in one.said]
        return await asyncio.wait_for(asyncio.gather(*calls, return_exceptions=True), 20)  # nobody waits for ever

    assert [str(error) for error in asyncio.run(each())] == ["out of memory"] * 3
    assert graded == []


def test_what_grading_raises_reaches_openrlhf(agent, configure):
    judged = '{"rubric": [{"name": "Good", "description": "Is it good?"}]}'
    with pytest.raises(InvalidInput, match="no judge for it"):
        run(agent_file().AgentExecutor(), "lake", "No.", label=judged)


def test_who_is_not_known_gets_the_mean(agent, configure, monkeypatch):
    metrics = dict.fromkeys(("rubrank/unknown", "rubrank/groups/no_signal", "rubrank/seconds"), 0.0)
    executor = agent_file().AgentExecutor()
    monkeypatch.setattr(executor.engine, "fuse", lambda *_, **__: StepRewards(((1.0, nan, 0.5),), metrics))
    assert rewards(run(executor, "a", "b", "c")) == [1.0, 0.75, 0.5]


def test_a_wrong_key_is_found_when_the_actor_starts(agent, configure):
    configure(ruel="rlvr2+")
    with pytest.raises(InvalidInput, match="Did you mean 'rule'"):
        agent_file().AgentExecutor()


def test_mistakes_are_found_when_the_actor_starts(agent, configure, monkeypatch):
    configure(attributes=[{"name": "markdown", "start": 3}], pool="group")
    with pytest.raises(InvalidInput, match="OpenRLHF: attributes must be controlled from step 0 on"):
        agent_file().AgentExecutor()
    monkeypatch.delenv("RUBRANK_CONFIG")
    with pytest.raises(InvalidInput, match="RUBRANK_CONFIG"):
        agent_file().AgentExecutor()


def test_without_openrlhf(monkeypatch):
    monkeypatch.setitem(sys.modules, "openrlhf.utils.agent", None)
    with pytest.raises(ImportError, match="openrlhf"):
        _ = agent_file().AgentExecutor


def test_the_engine_scores_as_it_does_elsewhere(agent, configure):
    from rubrank.training.queries import score_group

    said = ["A lake.", "No.", "The lake of Como.", ""]
    expected = score_group(RewardEngine(RUBRIC), "p", said, step=0).flat()
    assert rewards(run(agent_file().AgentExecutor(), *said)) == expected
