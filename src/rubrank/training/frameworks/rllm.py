"""rLLM: a rubric before the advantage.

    from rubrank.training.frameworks.rllm import register

    register("reward.yaml", base="grpo")          then algorithm.adv_estimator=rubrank

An advantage estimator of rLLM is given the rewards of all trajectory groups of a role, and the groups themselves:
shape (b). This one grades the trajectories, puts the rubric's rewards into the place of theirs, and leaves the
advantage to another estimator. Validation has no advantage, so nothing is learnt from it. A trajectory's last step has
its conversation (`chat_completions`); its `task` may hold `rubric`, `prompt` and what verifiers need. One about which
nothing is known gets the mean of its group.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.training.config import engine_of, without_steps
from rubrank.training.engine import RewardEngine, StepRewards
from rubrank.training.queries import Completion, group_of_query, query_of, split_prompt, without_unknown
from rubrank.training.rollouts import normalize_finish_reason

_OWNER = "rLLM"
NAME = "rubrank"


def estimator(
    engine: RewardEngine | str | Path | None,
    base: Callable[..., Any],
    *,
    report: Callable[[StepRewards], None] | None = None,
) -> Callable[..., Any]:
    """An estimator that rewards by a rubric, and gives the advantages of `base`. report: for logs."""
    found, column = engine_of(engine, _OWNER)
    found, numbers = without_steps(found, _OWNER), count()

    def estimate(rewards: Sequence[Any], algorithm_config: Any = None, **given: Any) -> Any:
        groups: Sequence[Any] = given.get("traj_groups") or ()
        if len(groups) != len(rewards):
            allowed = "passed by rLLM, one for each group of rewards"
            raise InvalidInput(_OWNER, "traj_groups", allowed, f"{len(groups)} for {len(rewards)}", "Update rLLM.")
        step = next(numbers)
        label = found.label(step)
        ids = [f"{label}/{i}" for i in range(len(groups))]
        asked = [_group(found, one, column, step, id) for one, id in zip(groups, ids, strict=True)]
        result = found.score(asked, step)
        fused = [np.array(without_unknown(group)) for group in result.rewards]
        for group, values in zip(groups, fused, strict=True):
            for trajectory, reward in zip(group.trajectories, values.tolist(), strict=True):
                trajectory.reward = reward
        if report is not None:
            report(result)
        return base(rewards=fused, algorithm_config=algorithm_config, **given)

    return estimate


def register(engine: RewardEngine | str | Path | None = None, base: str = "grpo", name: str = NAME) -> None:
    """Make the estimator known to rLLM."""
    for place in ("rllm.trainer.algorithms.advantage", "rllm.experimental.common.advantage"):
        try:
            module = __import__(place, fromlist=["register_rllm_adv_estimator"])
        except ImportError:
            continue
        module.register_rllm_adv_estimator(name)(estimator(engine, module.get_rllm_adv_estimator(base)))
        return
    raise InvalidInput(_OWNER, "package", "installed", "none with advantage estimators", "Run it where rLLM is.")


def _group(engine: RewardEngine, group: Any, column: str, step: int, id: str) -> Any:
    if not group.trajectories:
        raise InvalidInput(_OWNER, f"group {getattr(group, 'group_id', id)!r}", "with trajectories", "none", "")
    first = next((one for one in group.trajectories if _talk(one)), group.trajectories[0])
    task = getattr(first, "task", None)
    row = task if isinstance(task, Mapping) else {} if task is None else {"label": task}
    query = query_of(split_prompt(_talk(first))[0], row, rubric_column=column)
    said = [_completion(one) for one in group.trajectories]
    return group_of_query(engine, query, said, step=step, id=id, where=f"{_OWNER}: {getattr(group, 'group_id', id)}")


def _talk(trajectory: Any) -> list[Any]:
    steps = trajectory.steps
    return list(getattr(steps[-1], "chat_completions", None) or ()) if steps else []


def _completion(trajectory: Any) -> Completion:
    last = trajectory.steps[-1] if trajectory.steps else None
    output = getattr(last, "model_output", None)
    said = split_prompt(_talk(trajectory))[1] or getattr(last, "model_response", None) or ""
    ids = getattr(last, "response_ids", None) or getattr(output, "completion_ids", None)
    return Completion(said, normalize_finish_reason(getattr(output, "finish_reason", None)), ids or None)
