"""NeMo Gym: the verify function of a resources server, over the groups of a prompt.

    verify = RubricVerifier("reward.yaml", num_rollouts_per_prompt=8)

    async def verify_endpoint(body):                 POST /verify of your resources server
        return await verify(body)

NeMo Gym verifies one sample per call: shape (c). Samples of the same prompt and the same row wait for one another, as
many as `num_rollouts_per_prompt`; the answer is the request with its `reward`. Where judges fail there is no score:
the answer is masked (`mask_sample`) and of the failure kind `judge_failed`, with the mean of the group as reward; where
an agent asks, it is of that failure class too, and NeMo Gym tries it again. The request's other fields are the row's:
`rubric`, what verifiers need; `group_id`, `uid` or `id`, where there is one, says alone which samples belong together.
`rubrank.training.frameworks.responses` says how requests are read.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from rubrank.errors import JudgeOutage, JudgingFailed
from rubrank.training.config import engine_of, without_steps
from rubrank.training.engine import RewardEngine, StepRewards
from rubrank.training.frameworks.responses import OWNER, failed, gym_sample
from rubrank.training.queries import query_of
from rubrank.training.shapes.barrier import Barrier

_NAMED = ("group_id", "uid", "id")  # what tells rows with the same prompt apart
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
        self.engine, self._column = engine_of(engine, OWNER)
        without_steps(self.engine, OWNER)
        self.barrier = Barrier(self.engine, num_rollouts_per_prompt, timeout=timeout, report=self._told)
        self.train = train
        self._means: dict[str, float] = {}

    async def __call__(self, body: Any) -> dict[str, Any]:
        """The body, with `reward`."""
        sample = gym_sample(body)
        given, row = sample.body, sample.row
        query = query_of(sample.prompt, row, rubric_column=self._column)
        own = next((row[name] for name in _NAMED if row.get(name) is not None), None)
        key = repr((sample.prompt, row) if own is None else own)
        rollout = sample.completion.rollout(self.engine, query, OWNER)
        try:
            reward = await self.barrier.reward(key, rollout, step=0, rubric=query.rubric, train=self.train)
        except (JudgeOutage, JudgingFailed) as error:
            return {**given, "reward": 0.0, **failed(given, str(error))}
        if math.isnan(reward):
            return {**given, "reward": self._means.get(key, 0.0), **failed(given, "nothing is known about it")}
        return {**given, "reward": reward}

    def _told(self, result: StepRewards) -> None:
        for group, ids in zip(result.rewards, result.columns["rubrank/group"], strict=True):
            known = [one for one in group if not math.isnan(one)]
            if len(known) < len(group):
                self._means[ids[0].partition("/")[2]] = sum(known) / len(known) if known else 0.0
        while len(self._means) > _MOST:
            del self._means[next(iter(self._means))]
