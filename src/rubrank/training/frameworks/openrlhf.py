"""OpenRLHF: a rubric as the reward of an agent. This file is the agent file.

    export RUBRANK_CONFIG=/abs/reward.yaml          see docs/frameworks.md
    python -m openrlhf.cli.train_ppo_ray … \\
        --train.agent_func_path $(python -c "import rubrank.training.frameworks.openrlhf as m; print(m.__file__)")

Input. OpenRLHF samples a prompt in one rollout actor, by N concurrent calls of `AgentExecutor.execute`. It does not say
which calls belong together, or how many there are. But it starts the N calls of a prompt at once, with the same object
of sampling parameters, and every other prompt has its own object. So calls that enter in the same turn of the event
loop with the same parameters are a group. Each call samples a response, which is graded at once; the last call to
finish fuses the scores of all. Evaluations may have another N. If one call fails, all calls of its group fail, and
OpenRLHF drops them together.

A multi-turn agent of yours:

    class AgentExecutor(RubricAgent, MultiTurnAgentExecutor):
        def __init__(self):
            super().__init__(MyAgentInstance)

The label of a row (`--data.label_key`) may be JSON with the query's own rubric and its prompt without the template.

Tested with OpenRLHF 0.11.2 installed, without its GPU dependencies: its loader of agent files, its executors and its
rollout actor on Ray; vLLM was a stand-in. No training step was run.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
from collections.abc import Hashable
from itertools import count
from typing import Any

from rubrank.training.barrier import Barrier
from rubrank.training.config import load_engine
from rubrank.training.queries import Completion, Query, make_query
from rubrank.training.rollouts import (
    find_end_token_ids,
    find_token_opening_tag,
    infer_finish_reason,
)

_OWNER = "OpenRLHF"
_LOGGED_METRICS = ("rubrank/unknown", "rubrank/groups/no_signal", "rubrank/seconds")
"""OpenRLHF stacks the logs of samples, so they need the same names: only metrics that always exist."""


class _Siblings:
    """The calls of one prompt.

    Not a dataclass: dataclasses need their module in sys.modules, and OpenRLHF does not put agent files there.
    """

    def __init__(self, number: int, query: Query) -> None:
        self.number = number
        self.query = query
        self.size = 0
        self.failure: BaseException | None = None


class RubricAgent:
    """A mixin; put it before one of OpenRLHF's executors, whose rewards it replaces."""

    config: str | None = None
    """Path of the configuration; None: RUBRANK_CONFIG."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        # Several actors sample, each in its own process, and each writes its own records file.
        process = f"{socket.gethostname()}-{os.getpid()}"
        self.engine, self._rubric_column = load_engine(
            self.config, _OWNER, process=process, passes_step=False
        )
        # A group ends when all its calls do, so no time limit is needed.
        self._barrier = Barrier(self.engine, 1, timeout=math.inf)
        self._forming: dict[Hashable, _Siblings] = {}
        """(parameters, prompt) → the group whose calls are entering in this turn of the event loop."""
        self._group_numbers = count()
        super().__init__(*args, **kwargs)

    async def execute(
        self,
        prompt: Any,
        label: Any,
        sampling_params: Any,
        max_length: int,
        hf_tokenizer: Any,
        llm_engine: Any,
        images: Any = None,
    ) -> dict[str, Any]:
        """Return the executor's output, with the reward of the sample among its siblings."""
        siblings, member = await self._join_siblings(prompt, label, sampling_params)
        try:
            output = await super().execute(  # type: ignore[misc]
                prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images=images
            )
            if siblings.failure is not None:
                raise siblings.failure
            completion = read_completion(output, sampling_params, max_length, hf_tokenizer)
            rollout = completion.to_rollout(
                siblings.query, self.engine.thinking, _OWNER, hf_tokenizer
            )
            sample = await self._barrier.score(
                siblings.number,
                rollout,
                step=siblings.number,
                rubric=siblings.query.rubric,
                size=siblings.size,
                member=member,
            )
        except BaseException as error:
            # The siblings would wait for a sample that does not come.
            siblings.failure = siblings.failure or error
            self._barrier.give_up(siblings.number, error)
            raise
        logs = {name: sample.metrics[name] for name in _LOGGED_METRICS}
        return {**output, "reward": sample.filled, "scores": sample.filled, "extra_logs": logs}

    async def _join_siblings(
        self, prompt: Any, label: Any, sampling_params: Any
    ) -> tuple[_Siblings, int]:
        """Return the group of a call and the call's number in it, once all siblings have entered."""
        key = (id(sampling_params), str(prompt))
        siblings = self._forming.get(key)
        if siblings is None:
            query = make_query(prompt, label, rubric_column=self._rubric_column)
            self.engine.check_rubric(query.rubric, _OWNER)
            siblings = _Siblings(next(self._group_numbers), query)
            self._forming[key] = siblings
        member = siblings.size
        siblings.size += 1
        # The siblings, which were started together with this call, enter before it continues.
        await asyncio.sleep(0)
        if self._forming.get(key) is siblings:
            del self._forming[key]
        return siblings, member


def read_completion(
    output: dict[str, Any], sampling_params: Any, max_length: int, tokenizer: Any
) -> Completion:
    """Return every turn of the policy as a message, with the finish reason and the tokens of the last turn.

    output: what OpenRLHF's executor returned; `action_ranges` are the (start, end) of the turns in its tokens.
    What the environment said between the turns is left out.
    """
    tokens = output["observation_tokens"]
    messages = []
    for start, end in output["action_ranges"]:
        text = tokenizer.decode(tokens[start:end], skip_special_tokens=True)
        messages.append({"role": "assistant", "content": text})
    is_truncated = output.get("truncated") is True
    if not output["action_ranges"]:
        return Completion(messages, "length" if is_truncated else None)
    start, end = output["action_ranges"][-1]
    ids = tokens[start:end]
    if is_truncated:
        reason: str | None = "length"
    else:
        limit = getattr(sampling_params, "max_tokens", None)
        max_tokens = max_length - start
        if isinstance(limit, int):
            max_tokens = min(max_tokens, limit)
        reason = infer_finish_reason(ids, find_end_token_ids(tokenizer), max_tokens)
    return Completion(
        messages, reason, ids=ids, reasoning_tag=find_token_opening_tag(tokenizer, tokens[:start])
    )


def __getattr__(name: str) -> Any:
    """Return `AgentExecutor`, which OpenRLHF looks for here; made on demand, because it needs OpenRLHF."""
    if name != "AgentExecutor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from openrlhf.utils.agent import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
        SingleTurnAgentExecutor,
    )

    return type("AgentExecutor", (RubricAgent, SingleTurnAgentExecutor), {"__module__": __name__})
