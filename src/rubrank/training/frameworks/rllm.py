"""rLLM: a rubric as an advantage estimator, which replaces the rewards of trajectories by those of the rubric.

    from rubrank.training.frameworks.rllm import register

    register("reward.yaml", base="grpo")          then algorithm.adv_estimator=rubrank

Input. rLLM calls an advantage estimator with the rewards of all trajectory groups of a role, and with the groups
themselves (`traj_groups`). The last turn of a trajectory (`steps[-1]`) has its whole conversation (`chat_completions`).
The `task` of a trajectory is a mapping with `rubric`, `prompt` and what verifiers need; any other task, such as the
question as a text, becomes `metadata["task"]`.

Output. This estimator grades the trajectories, sets their rewards to the rubric's, and returns the advantages that the
estimator `base`, such as GRPO, computes from these rewards. A trajectory without any score gets the mean of its group.

Step. rLLM does not pass its training step, so calls are counted instead. With several roles a training step has several
calls; controls that start at a later step are therefore refused. rLLM computes no advantages in validation, so a rule
never learns from validation.

Tested with stand-ins of the call and of trajectory groups; its interface was last read at commit 4b756cf. rLLM itself
was not run.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any

import numpy as np

from rubrank.rollouts.rollout import Group
from rubrank.rollouts.shapes import parse_json_cell
from rubrank.training.config import EngineSource, load_engine
from rubrank.training.engine import RewardEngine, StepRewards, fill_unknown
from rubrank.training.queries import Completion, make_group, make_query, split_prompt

NAME = "rubrank"
_OWNER = "rLLM"


def estimator(
    engine: EngineSource,
    base: Callable[..., Any],
    *,
    report: Callable[[StepRewards], None] | None = None,
) -> Callable[..., Any]:
    """Return an estimator that computes a rubric's rewards and passes them to the estimator `base`.

    report: called with the rewards of each call, for logs.
    """
    reward_engine, rubric_column = load_engine(engine, _OWNER, passes_step=False)
    call_numbers = count()

    def estimate(
        rewards: Sequence[Any],
        algorithm_config: Any = None,
        *,
        traj_groups: Sequence[Any],
        **kwargs: Any,
    ) -> Any:
        """Return the advantages of `base`. rewards: rLLM's own, one array per group; replaced."""
        step = next(call_numbers)
        id_prefix = reward_engine.label(step)
        groups = [
            _read_group(reward_engine, group, rubric_column, step, id=f"{id_prefix}/{i}")
            for i, group in enumerate(traj_groups)
        ]
        result = reward_engine.score(groups, step)
        rubric_rewards = [np.array(fill_unknown(group_rewards)) for group_rewards in result.rewards]
        for group, group_rewards in zip(traj_groups, rubric_rewards, strict=True):
            for trajectory, reward in zip(group.trajectories, group_rewards.tolist(), strict=True):
                trajectory.reward = reward
        if report is not None:
            report(result)
        return base(
            rewards=rubric_rewards,
            algorithm_config=algorithm_config,
            traj_groups=traj_groups,
            **kwargs,
        )

    return estimate


def register(engine: EngineSource = None, base: str = "grpo", name: str = NAME) -> None:
    """Register the estimator with rLLM under `name`. base: rLLM's estimator that computes the advantages."""
    from rllm.trainer.algorithms.advantage import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
        get_rllm_adv_estimator,
        register_rllm_adv_estimator,
    )

    register_rllm_adv_estimator(name)(estimator(engine, get_rllm_adv_estimator(base)))


def _read_group(engine: RewardEngine, group: Any, rubric_column: str, step: int, id: str) -> Group:
    """Return the trajectories of one query as a group with this id; messages name the group as rLLM does."""
    group_name = getattr(group, "group_id", id)
    # A trajectory that failed early has no conversation, so the prompt is taken from one that has.
    example = group.trajectories[0]
    for trajectory in group.trajectories:
        if _read_conversation(trajectory):
            example = trajectory
            break
    task = parse_json_cell(getattr(example, "task", None))
    # Any other task, such as the question as a text, must not get the name "label", which `make_query` would give it:
    # verifiers would read it as the true answer.
    row = task if isinstance(task, Mapping) else {"task": task}
    prompt, _ = split_prompt(_read_conversation(example))
    query = make_query(prompt, row, rubric_column=rubric_column)
    completions = [_read_completion(trajectory) for trajectory in group.trajectories]
    return make_group(engine, query, completions, step=step, id=id, where=f"{_OWNER}: {group_name}")


def _read_conversation(trajectory: Any) -> list[Any]:
    """Return the messages of a trajectory, prompt included; [] if it failed before its first turn."""
    if not trajectory.steps:
        return []
    return list(getattr(trajectory.steps[-1], "chat_completions", None) or ())


def _read_completion(trajectory: Any) -> Completion:
    """Return the response of a trajectory; a trajectory that failed early has an empty one."""
    last_turn = trajectory.steps[-1] if trajectory.steps else None
    output = getattr(last_turn, "model_output", None)
    _, messages = split_prompt(_read_conversation(trajectory))
    content = messages or getattr(last_turn, "model_response", None) or ""
    ids = getattr(last_turn, "response_ids", None) or getattr(output, "completion_ids", None)
    return Completion(content, getattr(output, "finish_reason", None), ids or None)
