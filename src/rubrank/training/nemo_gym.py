"""NeMo Gym: the verify function of a resources server, over the groups of a prompt.

    verify = RubricVerifier("reward.yaml", num_rollouts_per_prompt=8)

    async def verify_endpoint(body):                 POST /verify of your resources server
        return await verify(body)

NeMo Gym verifies one sample per call: shape (c). Samples of the same prompt (and the same rubric) wait for one another,
as many as `num_rollouts_per_prompt`; the answer is the request with its `reward`. Where judges fail there is no score:
the answer is masked (`mask_sample`) and of the failure kind `judge_failed`, with the mean of the group as reward; where
an agent asks, it is of that failure class too, and NeMo Gym tries it again. The request's other fields are the row's:
`rubric`, what verifiers need, `id`, which tells two rows with the same prompt apart.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput, JudgeOutage, JudgingFailed
from rubrank.training.configured import engine_of, without_steps
from rubrank.training.engine import RewardEngine, StepRewards
from rubrank.training.finishing import named_reason
from rubrank.training.queries import Completion, messages, query_of
from rubrank.training.shapes.barrier import Barrier

_OWNER = "NeMo Gym"
_GIVEN = ("responses_create_params", "response", "id")
_MOST = 10_000


class RubricVerifier:
    """Called with the body of `/verify`, in one event loop. train=False: nothing is learnt."""

    def __init__(
        self,
        engine: RewardEngine | str | Path | None = None,
        *,
        num_rollouts_per_prompt: int,
        timeout: float = 3600.0,
        train: bool = True,
    ) -> None:
        self.engine, self._column = engine_of(engine, _OWNER)
        without_steps(self.engine, _OWNER)
        self.barrier = Barrier(self.engine, num_rollouts_per_prompt, timeout=timeout, report=self._told)
        self.train = train
        self._means: dict[str, float] = {}

    async def __call__(self, body: Any) -> dict[str, Any]:
        """The body, with `reward`."""
        given = body.model_dump() if hasattr(body, "model_dump") else dict(body)
        row = {name: value for name, value in given.items() if name not in _GIVEN and not name.startswith("_ng_")}
        params, response = given.get("responses_create_params"), given.get("response")
        asked = params.get("input") if isinstance(params, Mapping) else None
        if asked is None or not isinstance(response, Mapping):
            got = ", ".join(f"{name}: {type(value).__name__}" for name, value in given.items()) or "nothing"
            raise InvalidInput(_OWNER, "body", "with responses_create_params.input and a response", got, "")
        query = query_of(_prompt(asked), row, rubric_column=self._column)
        key = repr(given["id"]) if given.get("id") is not None else repr((query.prompt, query.rubric))
        rollout = completion_of(given["response"]).rollout(self.engine, query, _OWNER)
        try:
            reward = await self.barrier.reward(key, rollout, step=0, rubric=query.rubric, train=self.train)
        except (JudgeOutage, JudgingFailed) as error:
            return {**given, "reward": 0.0, **_failed(given, str(error))}
        if math.isnan(reward):
            return {**given, "reward": self._means.get(key, 0.0), **_failed(given, "nothing is known about it")}
        return {**given, "reward": reward}

    def _told(self, result: StepRewards) -> None:
        for group, ids in zip(result.rewards, result.columns["rubrank/group"], strict=True):
            known = [one for one in group if not math.isnan(one)]
            if len(known) < len(group):
                self._means[ids[0].partition("/")[2]] = sum(known) / len(known) if known else 0.0
        while len(self._means) > _MOST:
            del self._means[next(iter(self._means))]


def _failed(body: Mapping[str, Any], reason: str) -> dict[str, Any]:
    """As NeMo Gym's own servers say it. Environment servers refuse keys of NeMo Gym's own, agents send some."""
    found = {"mask_sample": True, "failure_kind": "judge_failed", "failure_reason": reason}
    if any(name.startswith("_ng_") for name in body):
        found |= {"_ng_failure_class": "judge_failed", "_ng_failure_judge_error": reason}
    return found


def _prompt(asked: Any) -> Any:
    return asked if isinstance(asked, str) else [one for one in messages(list(asked)) if one.get("role")]


def completion_of(response: Mapping[str, Any]) -> Completion:
    """A response of the Responses API: messages, reasoning, calls of tools and what they gave, in its `output`."""
    said: list[dict[str, Any]] = []
    thoughts: list[str] = []
    for item in response.get("output") or ():
        if not isinstance(item, Mapping):
            raise InvalidInput(_OWNER, "response.output", "a list of objects", type(item).__name__, "")
        kind = item.get("type")
        if kind == "reasoning":
            thoughts += [part.get("text", "") for part in item.get("summary") or item.get("content") or ()]
        elif kind == "function_call":
            call = {"id": item.get("call_id"), "name": item["name"], "arguments": item.get("arguments", "{}")}
            said.append({"role": "assistant", "content": "", "tool_calls": [call]})
        elif kind == "function_call_output":
            said.append({"role": "tool", "content": item.get("output"), "tool_call_id": item.get("call_id")})
        elif kind in (None, "message"):
            said.append(_message(item, thoughts))
            thoughts = []
    if thoughts:  # it ended in its thoughts
        said.append(_message({"content": ""}, thoughts))
    usage = response.get("usage") or {}
    details = usage.get("output_tokens_details") or {}
    cut = (response.get("incomplete_details") or {}).get("reason")
    reason = named_reason(cut or (response.get("status") if response.get("status") == "completed" else None))
    return Completion(said, reason, tokens=usage.get("output_tokens"), reasoning_tokens=details.get("reasoning_tokens"))


def _message(item: Mapping[str, Any], thoughts: list[str]) -> dict[str, Any]:
    content = item.get("content") or ""
    text = content if isinstance(content, str) else "".join(part.get("text") or "" for part in content)
    found = {"role": item.get("role", "assistant"), "content": text}
    return {**found, "reasoning_content": "\n".join(thoughts)} if thoughts else found
