"""OpenPipe ART: a rubric as the rewards of a trajectory group.

    from rubrank.training.frameworks.art import score_trajectories

    groups = await art.gather_trajectory_groups(
        (art.TrajectoryGroup(rollout(model, scenario) for _ in range(8)) for scenario in scenarios),
        after_each=score_trajectories("reward.yaml"),
    )

Input. ART passes one `TrajectoryGroup`, whose trajectories answer the same query; trajectories that failed are not in
it. What is known about the query is read from the `metadata` of the group and of its first trajectory: reference
answers, or the query's own `rubric` as JSON text, because ART keeps only plain values there. The conversation of a
trajectory after the prompt is its answer, tool calls included.

Output. ART gets the same group. Its trajectories have the rubric's rewards; those that the rollouts set themselves are
kept as the metric `independent_reward`. A trajectory without any score gets the mean of its group.

Tested with ART 0.5.18 installed, without its backend: `TrajectoryGroup` and `gather_trajectory_groups`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

from rubrank.training.config import EngineSource, load_engine
from rubrank.training.queries import Completion, make_query, score_query, split_prompt

_OWNER = "ART"


def score_trajectories(
    engine: EngineSource = None,
    *,
    train: bool = True,
    step: Callable[[], int] | None = None,
) -> Callable[[Any], Awaitable[Any]]:
    """Return a function for `after_each` that takes a group and returns it with the rubric's rewards.

    step: a function that returns the step of the run; by default the groups are counted instead.
    train: False for an evaluation.
    """
    reward_engine, rubric_column = load_engine(engine, _OWNER)
    group_numbers = count()

    async def score(group: Any) -> Any:
        if not group.trajectories:
            return group
        first = group.trajectories[0]
        prompt, _ = _split_conversation(first)
        tools = {"tools": first.tools} if first.tools else {}
        row = {**first.metadata, **group.metadata}
        query = make_query(prompt, tools, row, rubric_column=rubric_column)
        result = await score_query(
            reward_engine,
            query,
            [_read_completion(trajectory) for trajectory in group.trajectories],
            step=next(group_numbers) if step is None else step(),
            train=train,
            where=_OWNER,
        )
        for trajectory, reward in zip(group.trajectories, result.flat(means=True), strict=True):
            trajectory.metrics["independent_reward"] = trajectory.reward
            trajectory.reward = reward
        group.metrics.update(result.metrics)
        return group

    return score


def _split_conversation(trajectory: Any) -> tuple[list[Any], list[Any]]:
    """Return the messages of the prompt, and those after it.

    ART mixes messages with the choices of chat completions, each of which holds a message of the policy.
    """
    messages = []
    for item in trajectory.messages_and_choices:
        message = getattr(item, "message", None)
        if message is None:
            messages.append(item)
        else:
            data = message.model_dump(exclude_none=True)
            # Servers use either name.
            reasoning = data.get("reasoning_content") or data.get("reasoning")
            messages.append({**data, "reasoning_content": reasoning})
    return split_prompt(messages)


def _read_completion(trajectory: Any) -> Completion:
    """Return what a trajectory answered, with the finish reason and token count of its last choice."""
    _, completion = _split_conversation(trajectory)
    choices = [item for item in trajectory.messages_and_choices if hasattr(item, "finish_reason")]
    last_choice = choices[-1] if choices else None
    token_logprobs = getattr(getattr(last_choice, "logprobs", None), "content", None)
    # The number of tokens is counted in the log-probabilities; without them, a rollout may have reported it.
    tokens = None
    if token_logprobs:
        tokens = len(token_logprobs)
    elif isinstance(trajectory.metrics.get("completion_tokens"), int | float):
        tokens = int(trajectory.metrics["completion_tokens"])
    return Completion(completion, getattr(last_choice, "finish_reason", None), tokens=tokens)
