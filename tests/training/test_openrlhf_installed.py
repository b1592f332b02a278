"""OpenRLHF's agent file within OpenRLHF 0.11.2 itself, where that is installed.

vLLM alone is replaced, by an engine that says what it is told: the loader of agent files, the rollout actor on Ray, the
executor of several turns and the conversion to experiences are OpenRLHF's.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.util
import re
import sys
from pathlib import Path
from typing import Any

import pytest
from openrlhf_stand_in import AGENT, Characters, Engine, agent_file, configuration, installed, params, rewards, run

from rubrank.records.files import read_records

pytestmark = pytest.mark.skipif(not installed(), reason="OpenRLHF is not installed")


@pytest.fixture
def configure(tmp_path, monkeypatch):
    def write(**data: Any) -> Path:
        path = configuration(tmp_path, **data)
        monkeypatch.setenv("RUBRANK_CONFIG", str(path))
        return path

    write()
    return write


VLLM = """
import asyncio
from collections import Counter
from types import SimpleNamespace

__version__ = "0.29.0"


class AsyncEngineArgs:
    def __init__(self, *args, **given): pass


class SamplingParams:
    def __init__(self, said=(), name="", **given):
        self.said, self.name, self.max_tokens, self.logprobs = said, name, 32, None


class AsyncLLMEngine:
    def __init__(self): self.asked = Counter()

    @classmethod
    def from_engine_args(cls, args): return cls()

    async def is_sleeping(self): return False

    async def generate(self, prompt, params, request_id):
        said = params.said[self.asked[params.name]]
        self.asked[params.name] += 1
        await asyncio.sleep(0.2 / self.asked[params.name])
        out = SimpleNamespace(token_ids=[ord(c) for c in said], text=said, finish_reason="stop", logprobs=None)
        yield SimpleNamespace(outputs=[out])


class Characters:
    def __call__(self, text, **given):
        import numpy as np

        return {"input_ids": np.array([[ord(c) for c in text]])}

    def decode(self, tokens, skip_special_tokens=False): return "".join(map(chr, tokens))
"""


@pytest.fixture
def vllm(tmp_path, monkeypatch):
    """A package that says what it is told, where OpenRLHF looks for vLLM."""
    pytest.importorskip("ray")
    if importlib.util.find_spec("vllm") is not None:
        pytest.skip("vLLM is installed, and would want a GPU")
    folder = tmp_path / "engine" / "vllm"
    folder.mkdir(parents=True)
    (folder / "__init__.py").write_text(VLLM, encoding="utf-8")
    (folder / "inputs.py").write_text("TokensPrompt = dict\n", encoding="utf-8")
    (folder / "utils.py").write_text("def random_uuid():\n    return '0'\n", encoding="utf-8")
    monkeypatch.syspath_prepend(folder.parent)
    yield importlib.import_module("vllm")
    for name in [name for name in sys.modules if name.partition(".")[0] == "vllm"]:
        del sys.modules[name]


def test_the_options_on_our_page_are_options_of_openrlhf():
    page = (Path(__file__).parents[2] / "docs" / "frameworks.md").read_text(encoding="utf-8")
    named = set(re.findall(r"--[a-z]+\.[a-z_.]+", page))
    folder = Path(importlib.util.find_spec("openrlhf").origin).parent
    known = (folder / "cli" / "train_ppo_ray.py").read_text(encoding="utf-8")
    assert len(named) > 5
    assert {name for name in named if f'"{name}"' not in known} == set()


def test_openrlhf_loads_the_file(vllm, configure):
    from openrlhf.trainer.ray.vllm_engine import _load_agent_executor

    assert rewards(run(_load_agent_executor(str(AGENT)), "lake", "No.")) == [1.0, 0.0]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_the_actor_of_openrlhf_on_ray(vllm, configure, tmp_path):
    """Two calls with the same prompt at once: Ray gives each its own parameters, so they are two groups."""
    import ray
    from openrlhf.trainer.ray.vllm_engine import RolloutRayActor

    paths = [str(Path(vllm.__file__).parents[1]), str(AGENT.parents[2])]
    given = {"PYTHONPATH": ":".join(paths), "RUBRANK_CONFIG": str(configure(records="records.jsonl"))}
    ray.init(num_cpus=1, include_dashboard=False, runtime_env={"env_vars": given}, log_to_driver=False)
    try:
        actor = RolloutRayActor.options(num_cpus=1).remote(agent_func_path=str(AGENT), num_gpus=0)
        groups = [vllm.SamplingParams(["a lake", "lake"], "1"), vllm.SamplingParams(["No.", "x", "y"], "2")]
        calls = [
            actor.generate_responses.remote(
                prompt="p",
                label="",
                sampling_params=one,
                max_length=64,
                hf_tokenizer=vllm.Characters(),
                num_samples=len(one.said),
            )
            for one in groups
        ]
        assert [rewards(outputs) for outputs in ray.get(calls, timeout=120)] == [[0.5, 0.5], [0.5, 0.5, 0.5]]
    finally:
        ray.shutdown()
    (path,) = tmp_path.glob("records-*.jsonl")
    assert sorted(len(record.reward) for record in read_records(path)) == [2, 3]


def test_openrlhf_makes_an_experience_of_it(vllm, configure):
    from openrlhf.trainer.ppo_utils.samples_generator import SamplesGenerator

    outputs = [{**one, "rollout_log_probs": None} for one in run(agent_file().AgentExecutor(), "lake", "No.")]
    generator = SamplesGenerator.__new__(SamplesGenerator)
    made = [generator._process_response_into_experience(one, max_len=64) for one in outputs]
    assert [one.rewards.item() for one in made] == [1.0, 0.0]
    assert made[0].info["rubrank/unknown"].item() == 0.0


def test_an_agent_of_several_turns(configure):
    import torch
    from openrlhf.utils.agent import AgentInstanceBase, MultiTurnAgentExecutor

    from rubrank.training.frameworks.openrlhf import RubricAgent

    class Twice(AgentInstanceBase):
        def __init__(self) -> None:
            self.turns = 0

        async def step(self, state: dict, **given: Any) -> dict[str, Any]:
            self.turns += 1
            return {"rewards": torch.tensor(0.0), "environment_feedback": " ", "done": self.turns == 2}

    class AgentExecutor(RubricAgent, MultiTurnAgentExecutor):
        def __init__(self) -> None:
            super().__init__(Twice)

    class Tensors(Characters):
        def __call__(self, text: str, **given: Any) -> dict[str, Any]:
            return {"input_ids": torch.tensor([[ord(c) for c in text]])}

    async def step() -> list[Any]:
        executor = AgentExecutor()
        engine, one = Engine(executor), params("a lake", "a river", "a river", "a lake", slow=False)
        given = {"label": "", "sampling_params": one, "max_length": 64, "hf_tokenizer": Tensors(), "llm_engine": engine}
        return await asyncio.gather(*(executor.execute(prompt="p", **given) for _ in range(2)))

    outputs = asyncio.run(step())
    last = ["".join(map(chr, out["observation_tokens"][slice(*out["action_ranges"][-1])])) for out in outputs]
    assert rewards(outputs) == [float(text == "a lake") for text in last]
    assert sorted(last) == ["a lake", "a river"]
