"""The thread that grades and fuses requests survives errors: no request waits forever."""

from __future__ import annotations

import asyncio

import pytest
from service.serving import RUBRIC

from rubrank import Group, RewardEngine, Rollout
from rubrank.service.metrics import Metrics
from rubrank.service.pipeline import Pipeline

GROUP = Group(id="g", rollouts=tuple(Rollout(prompt="p", response=text) for text in ("One two three.", "One.")))


class BrokenMetrics(Metrics):
    """Raises the first time that something is counted."""

    is_broken = True

    def count(self, name: str, number: float = 1) -> None:
        if self.is_broken:
            self.is_broken = False
            raise OSError("no counter")
        super().count(name, number)


def test_an_error_outside_of_grading_and_fusing_is_the_answer_and_later_requests_are_served():
    async def run() -> None:
        pipeline = Pipeline(RewardEngine(RUBRIC), BrokenMetrics())
        try:
            with pytest.raises(OSError, match="no counter"):
                await asyncio.wait_for(pipeline.score([GROUP], step=0), 60)
            _, step = await asyncio.wait_for(pipeline.score([GROUP], step=0), 60)
            assert step.rewards == RewardEngine(RUBRIC).score([GROUP], 0).rewards
            assert pipeline.waiting == 0
        finally:
            await pipeline.close()

    asyncio.run(run())
