"""OpenPipe ART: a rubric as the rewards of a trajectory group.

    from rubrank.training.frameworks.art import score_trajectories

    groups = await art.gather_trajectory_groups(
        (art.TrajectoryGroup(rollout(model, one) for _ in range(8)) for one in scenarios),
        after_each=score_trajectories("reward.yaml"),
    )

A `TrajectoryGroup` is a query: shape (a). What a rollout put into `metadata` is what is known about it, and the
group's own `metadata` goes before: `rubric` as JSON text, since ART keeps plain values there. A trajectory's
conversation is its answer, calls of tools included. What the rollout rewarded by itself is kept as the metric
`independent_reward`. A trajectory about which nothing is known gets the mean of its group; one that failed is no
trajectory to ART.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from rubrank.training.config import engine_of
from rubrank.training.engine import RewardEngine
from rubrank.training.queries import Completion, query_of, score_query, split_prompt, without_unknown
from rubrank.training.rollouts import normalize_finish_reason

_OWNER = "ART"


def score_trajectories(
    engine: RewardEngine | str | Path | None = None, *, train: bool = True, step: Callable[[], int] | None = None
) -> Callable[[Any], Awaitable[Any]]:
    """A function for `after_each`: a group → the same group with the rubric's rewards.

    step: says the step, such as a method of the model; by default the number of the group. train=False: an evaluation.
    """
    found, column = engine_of(engine, _OWNER)
    numbers = count()

    async def score(group: Any) -> Any:
        if not group.trajectories:
            return group
        at = next(numbers) if step is None else step()
        told = [_completion(one) for one in group.trajectories]
        first = group.trajectories[0]
        row = {**first.metadata, **group.metadata}
        query = query_of(
            _conversation(first)[0], {"tools": first.tools} if first.tools else {}, row, rubric_column=column
        )
        result = await score_query(found, query, told, step=at, train=train, where=_OWNER)
        for one, reward in zip(group.trajectories, without_unknown(result.flat()), strict=True):
            one.metrics["independent_reward"] = one.reward
            one.reward = reward
        group.metrics.update({name: value for name, value in result.metrics.items() if name.startswith("rubrank/")})
        return group

    return score


def _conversation(trajectory: Any) -> tuple[list[Any], list[Any]]:
    return split_prompt([_message(one) for one in trajectory.messages_and_choices])


def _message(one: Any) -> Any:
    """A message; of a choice, the message that it holds."""
    inner = getattr(one, "message", None)
    if inner is None:
        return one
    found = inner.model_dump(exclude_none=True)
    return {**found, "reasoning_content": found.get("reasoning_content") or found.get("reasoning")}


def _completion(trajectory: Any) -> Completion:
    choices = [one for one in trajectory.messages_and_choices if hasattr(one, "finish_reason")]
    last = choices[-1] if choices else None
    tokens = getattr(getattr(last, "logprobs", None), "content", None)
    reason = normalize_finish_reason(getattr(last, "finish_reason", None))
    said = _conversation(trajectory)[1]
    return Completion(said, reason, tokens=len(tokens) if tokens else _tokens(trajectory.metrics))


def _tokens(metrics: Mapping[str, Any]) -> int | None:
    found = metrics.get("completion_tokens")
    return int(found) if isinstance(found, int | float) and not isinstance(found, bool) else None
