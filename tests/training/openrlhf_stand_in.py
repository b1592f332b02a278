"""Stand-ins for the tests of OpenRLHF's agent file: an executor, the rollout actor, a tokenizer.

They do what OpenRLHF 0.11.2 does: an executor samples once and returns tokens and ranges; the actor starts all samples
of a prompt at once.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import importlib.util
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import yaml

AGENT = Path(importlib.util.find_spec("rubrank.training.frameworks.openrlhf").origin)
RUBRIC = ["EmptyAnswer", {"name": "Keyword", "params": {"keywords": ["lake"]}}]


class Characters:
    """A tokenizer whose tokens are characters."""

    def __call__(self, text: str, **given: Any) -> dict[str, Any]:
        return {"input_ids": np.array([[ord(c) for c in text]])}

    def decode(self, tokens: list[int], skip_special_tokens: bool = False) -> str:
        return "".join(map(chr, tokens))


class Engine:
    """The rollout actor without Ray and vLLM."""

    def __init__(self, executor: Any) -> None:
        self.executor, self.asked = executor, Counter[int]()

    async def generate(self, prompt_token_ids: list[int], params: Any, multi_modal_data: Any = None) -> Any:
        said = params.said[self.asked[params.name] % len(params.said)]
        self.asked[params.name] += 1
        await asyncio.sleep(0.01 * (len(params.said) - self.asked[params.name]) if params.slow else 0)
        if isinstance(said, Exception):
            raise said
        out = SimpleNamespace(token_ids=[ord(c) for c in said], text=said, finish_reason="stop", logprobs=None)
        return SimpleNamespace(outputs=[out])

    async def generate_responses(self, prompt: str, label: Any, sampling_params: Any, number: int) -> list[Any]:
        calls = [
            self.executor.execute(
                prompt=prompt,
                label=label,
                sampling_params=sampling_params,
                max_length=64,
                hf_tokenizer=Characters(),
                llm_engine=self,
                images=None,
            )
            for _ in range(number)
        ]
        return await asyncio.gather(*calls)


def params(*said: Any, name: str = "", slow: bool = True) -> Any:
    return SimpleNamespace(said=said, name=name, slow=slow, max_tokens=32, logprobs=None)


def stand_in() -> ModuleType:
    module = ModuleType("openrlhf.utils.agent")

    class AgentExecutorBase:
        pass

    class SingleTurnAgentExecutor(AgentExecutorBase):
        def __init__(self, remote_rm_url: Any = None) -> None:
            self.remote_rm_url = remote_rm_url

        async def execute(self, prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images=None):
            begin = hf_tokenizer(text=prompt)["input_ids"][0].tolist()
            tokens = begin + (await llm_engine.generate(begin, sampling_params)).outputs[0].token_ids
            ranges = [(len(begin), len(tokens))]
            return {
                "prompt": prompt,
                "label": label,
                "observation_tokens": tokens,
                "action_ranges": ranges,
                "reward": None,
                "scores": None,
                "extra_logs": {},
                "truncated": False,
            }

    module.AgentExecutorBase, module.SingleTurnAgentExecutor = AgentExecutorBase, SingleTurnAgentExecutor
    return module


def installed() -> bool:
    return bool(list(importlib.metadata.distributions(name="openrlhf")))


def agent_file() -> ModuleType:
    """The agent file as OpenRLHF loads it."""
    spec = importlib.util.spec_from_file_location("agent_module", AGENT)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)  # and not put into sys.modules
    return module


def rewards(outputs: list[Any]) -> list[float]:
    assert [one["scores"] for one in outputs] == [one["reward"] for one in outputs]
    return [one["reward"] for one in outputs]


def run(executor: Any, *said: Any, prompt: str = "Name a lake.", label: Any = "", **given: Any) -> list[Any]:
    calls = Engine(executor).generate_responses(prompt, label, params(*said, **given), len(said))
    return asyncio.run(asyncio.wait_for(calls, 20))


def configuration(folder: Path, **data: Any) -> Path:
    path = folder / "reward.yaml"
    path.write_text(yaml.safe_dump({"rubric": RUBRIC, **data}), encoding="utf-8")
    return path
