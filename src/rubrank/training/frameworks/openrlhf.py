"""OpenRLHF: a rubric as the reward of an agent. This file is the agent file.

    export RUBRANK_CONFIG=/abs/reward.yaml          docs/frameworks.md says what is in it
    python -m openrlhf.cli.train_ppo_ray … \\
        --train.agent_func_path $(python -c "import rubrank.training.frameworks.openrlhf as m; print(m.__file__)")

OpenRLHF samples a prompt in one rollout actor, by N concurrent calls of `AgentExecutor.execute`; it says neither which
calls belong together nor how many there are. But it starts the N calls of a prompt at once, with one and the same
sampling parameters, which every other prompt has as an object of its own. So calls that enter in the same turn of the
event loop with the same parameters are a group; each then samples and is graded, and the last to finish fuses them all.
Evaluations may have another N. If one of them fails, all do, and nothing is graded: OpenRLHF drops them together.

A multi-turn agent of yours:

    class AgentExecutor(RubricAgent, MultiTurnAgentExecutor):
        def __init__(self):
            super().__init__(MyAgentInstance)

The label of a row (`--data.label_key`) may be JSON with the query's own rubric and its prompt before the template.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Hashable
from itertools import count
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.training.config import configured, without_steps
from rubrank.training.engine import RewardEngine, StepRewards
from rubrank.training.queries import Completion, Query, query_of, without_unknown
from rubrank.training.rollouts import end_token_ids, infer_finish_reason, token_opening_tag
from rubrank.training.shapes.early import Early

_OWNER = "OpenRLHF"


class _Siblings:
    """The calls of one prompt. No dataclass: those want their module in sys.modules, where OpenRLHF does not put it."""

    def __init__(self, engine: RewardEngine, number: int, query: Query) -> None:
        engine.check_rubric(query.rubric, _OWNER)
        self.number, self.query, self.size = number, query, 0
        self.label = engine.label(number)
        self.early = Early(engine, self.label, query.rubric)
        self.rollouts: dict[int, Rollout] = {}
        self.result: asyncio.Future[StepRewards] = asyncio.get_running_loop().create_future()


class RubricAgent:
    """Put it before one of OpenRLHF's executors: whatever that one rewards is replaced by the rubric's rewards."""

    config: str | None = None
    """Path of the configuration; None: RUBRANK_CONFIG."""

    def __init__(self, *args: Any, **given: Any) -> None:
        # Several actors sample, each in a process of its own: each has its own records.
        engine, self._rubric_column = configured(self.config, _OWNER, apart=f"{socket.gethostname()}-{os.getpid()}")
        self.engine: RewardEngine = without_steps(engine, _OWNER)
        self._entering: dict[Hashable, _Siblings] = {}
        self._numbers = count()
        super().__init__(*args, **given)

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
        """What the executor gives, with the reward of the sample among its siblings."""
        siblings, member = await self._enter(prompt, label, sampling_params)
        try:
            output = await super().execute(  # type: ignore[misc]
                prompt, label, sampling_params, max_length, hf_tokenizer, llm_engine, images=images
            )
            reason = _finish_reason(output, sampling_params, max_length, hf_tokenizer)
            ids = _last_action(output)
            said = Completion(_said(output, hf_tokenizer), reason, ids=ids, opened=_opened(output, hf_tokenizer))
            siblings.rollouts[member] = rollout = said.rollout(self.engine, siblings.query, _OWNER, hf_tokenizer)
            siblings.early.size = siblings.size  # all have entered
            siblings.early.begin(member, rollout)
            if len(siblings.rollouts) == siblings.size:
                siblings.result.set_result(await self._score(siblings))
        except BaseException as error:
            siblings.early.cancel()
            _fail(siblings.result, error)
            raise
        return {**output, **_rewarded(await asyncio.shield(siblings.result), member)}

    async def _enter(self, prompt: Any, label: Any, sampling_params: Any) -> tuple[_Siblings, int]:
        key = (id(sampling_params), str(prompt))
        siblings = self._entering.get(key)
        if siblings is None:
            query = query_of(prompt, label, rubric_column=self._rubric_column)
            siblings = self._entering[key] = _Siblings(self.engine, next(self._numbers), query)
        member, siblings.size = siblings.size, siblings.size + 1
        await asyncio.sleep(0)  # the others, who were started together with this one, enter before it goes on
        if self._entering.get(key) is siblings:
            del self._entering[key]
        return siblings, member

    async def _score(self, siblings: _Siblings) -> StepRewards:
        members = range(siblings.size)
        rollouts = tuple(siblings.rollouts[member] for member in members)
        group = Group(id=siblings.label, rollouts=rollouts, rubric=siblings.query.rubric)
        graded = self.engine.checked(await siblings.early.finish(list(members)))
        return await asyncio.to_thread(self.engine.fuse, [group], graded, siblings.number)


def _fail(result: asyncio.Future[StepRewards], error: BaseException) -> None:
    """Let no caller wait for what will not come."""
    if result.done():
        return
    if isinstance(error, Exception):
        result.set_exception(error)
        result.exception()  # seen: it may be that nothing waits yet
    else:
        result.cancel()


def _last_action(output: dict[str, Any]) -> Any:
    """The tokens of the answer's turn; None without any."""
    if not output["action_ranges"]:
        return None
    first, end = output["action_ranges"][-1]
    return output["observation_tokens"][first:end]


def _opened(output: dict[str, Any], tokenizer: Any) -> str | None:
    """The tag before the last action: the template's, whatever turn it is."""
    if not output["action_ranges"]:
        return None
    first = output["action_ranges"][-1][0]
    return token_opening_tag(tokenizer, output["observation_tokens"][:first])


def _finish_reason(output: dict[str, Any], sampling_params: Any, max_length: int, tokenizer: Any) -> str | None:
    """What the executor says of its last action, else what its tokens show."""
    if output.get("truncated") is True:
        return "length"
    if not output["action_ranges"]:
        return None
    first, end = output["action_ranges"][-1]
    allowed = getattr(sampling_params, "max_tokens", None)
    most = min(max_length - first, allowed) if isinstance(allowed, int) else max_length - first
    return infer_finish_reason(output["observation_tokens"][first:end], end_token_ids(tokenizer), most)


def _said(output: dict[str, Any], tokenizer: Any) -> list[dict[str, str]]:
    """Every turn of the policy; what the environment said is between them, in tokens of the template."""
    tokens = output["observation_tokens"]
    texts = (tokenizer.decode(tokens[first:end], skip_special_tokens=True) for first, end in output["action_ranges"])
    return [{"role": "assistant", "content": text} for text in texts]


def _rewarded(result: StepRewards, member: int) -> dict[str, Any]:
    reward = without_unknown(result.flat())[member]
    # OpenRLHF puts samples together whose logs have the same names: only numbers that always exist.
    names = ("rubrank/unknown", "rubrank/groups/no_signal", "rubrank/seconds")
    return {"reward": reward, "scores": reward, "extra_logs": {name: result.metrics[name] for name in names}}


def __getattr__(name: str) -> Any:
    """`AgentExecutor`, which OpenRLHF looks for here: made when it is asked for, since it needs OpenRLHF."""
    if name != "AgentExecutor":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from openrlhf.utils.agent import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
            SingleTurnAgentExecutor,
        )
    except ImportError as error:
        raise InvalidInput(_OWNER, "package", "installed", str(error), "pip install openrlhf[vllm]==0.11.2") from error
    return type("AgentExecutor", (RubricAgent, SingleTurnAgentExecutor), {"__module__": __name__})
