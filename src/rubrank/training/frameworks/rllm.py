"""rLLM: an advantage estimator that replaces rewards by those of a rubric.

    from rubrank.training.frameworks.rllm import register

    register("reward.yaml", base="grpo")          then algorithm.adv_estimator=rubrank

rLLM calls an advantage estimator with the rewards of all trajectory groups of a role, and with the groups themselves.
The last step of a trajectory has its conversation (`chat_completions`); its `task` may contain `rubric`, `prompt` and
what verifiers need.

rLLM gets advantages: this estimator grades the trajectories, replaces their rewards by the rubric's, and leaves the
advantage to the estimator `base`. A trajectory without any score gets the mean of its group. Validation computes no
advantage, so no rule learns from it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from itertools import count
from typing import Any

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Group
from rubrank.training.config import load_engine
from rubrank.training.engine import RewardEngine, StepRewards, fill_unknown
from rubrank.training.frameworks.common import EngineSource
from rubrank.training.queries import Completion, make_group, make_query, split_prompt
from rubrank.training.rollouts import normalize_finish_reason

NAME = "rubrank"
_OWNER = "rLLM"
_MODULES = ("rllm.trainer.algorithms.advantage", "rllm.experimental.common.advantage")


def estimator(
    engine: EngineSource,
    base: Callable[..., Any],
    *,
    report: Callable[[StepRewards], None] | None = None,
) -> Callable[..., Any]:
    """Return an estimator that computes a rubric's rewards and passes them to the estimator `base`.

    report: called with the result of each step, for logs.
    """
    reward_engine, rubric_column = load_engine(engine, _OWNER, passes_step=False)
    calls = count()

    def estimate(rewards: Sequence[Any], algorithm_config: Any = None, **kwargs: Any) -> Any:
        trajectory_groups: Sequence[Any] = kwargs.get("traj_groups") or ()
        if len(trajectory_groups) != len(rewards):
            raise InvalidInput(
                _OWNER,
                "traj_groups",
                allowed="passed by rLLM, one for each group of rewards",
                got=f"{len(trajectory_groups)} for {len(rewards)}",
                remedy="Update rLLM.",
            )
        step = next(calls)
        label = reward_engine.label(step)
        groups = [
            _read_group(reward_engine, group, rubric_column, step, f"{label}/{i}")
            for i, group in enumerate(trajectory_groups)
        ]
        result = reward_engine.score(groups, step)
        fused = [np.array(fill_unknown(group_rewards)) for group_rewards in result.rewards]
        for group, values in zip(trajectory_groups, fused, strict=True):
            for trajectory, reward in zip(group.trajectories, values.tolist(), strict=True):
                trajectory.reward = reward
        if report is not None:
            report(result)
        return base(rewards=fused, algorithm_config=algorithm_config, **kwargs)

    return estimate


def register(engine: EngineSource = None, base: str = "grpo", name: str = NAME) -> None:
    """Register the estimator with rLLM. base: the name of the estimator that computes the advantages."""
    for module_name in _MODULES:
        try:
            module = import_module(module_name)
        except ImportError:
            continue
        base_estimator = module.get_rllm_adv_estimator(base)
        module.register_rllm_adv_estimator(name)(estimator(engine, base_estimator))
        return
    raise InvalidInput(
        _OWNER,
        "package",
        allowed="installed",
        got="no rLLM with advantage estimators",
        remedy="Run it in rLLM's environment.",
    )


def _read_group(engine: RewardEngine, group: Any, rubric_column: str, step: int, id: str) -> Group:
    """Return the trajectories of one query as a group."""
    group_name = getattr(group, "group_id", id)
    if not group.trajectories:
        raise InvalidInput(
            _OWNER,
            f"group {group_name!r}",
            allowed="a group with trajectories",
            got="none",
            remedy="",
        )
    # A trajectory that failed early has no conversation, so the prompt is taken from one that has.
    first = next(
        (item for item in group.trajectories if _read_conversation(item)), group.trajectories[0]
    )
    task = getattr(first, "task", None)
    row = task
    if task is not None and not isinstance(task, Mapping):  # such as a question as text
        row = {"label": task}
    prompt, _ = split_prompt(_read_conversation(first))
    query = make_query(prompt, row, rubric_column=rubric_column)
    completions = [_read_completion(trajectory) for trajectory in group.trajectories]
    return make_group(engine, query, completions, step=step, id=id, where=f"{_OWNER}: {group_name}")


def _read_conversation(trajectory: Any) -> list[Any]:
    if not trajectory.steps:
        return []
    return list(getattr(trajectory.steps[-1], "chat_completions", None) or ())


def _read_completion(trajectory: Any) -> Completion:
    """Return what a trajectory answered; a trajectory that failed early has an empty answer."""
    last_step = trajectory.steps[-1] if trajectory.steps else None
    output = getattr(last_step, "model_output", None)
    _, messages = split_prompt(_read_conversation(trajectory))
    content = messages or getattr(last_step, "model_response", None) or ""
    ids = getattr(last_step, "response_ids", None) or getattr(output, "completion_ids", None)
    reason = normalize_finish_reason(getattr(output, "finish_reason", None))
    return Completion(content, reason, ids or None)
