"""The thread that grades and fuses requests survives errors: no request waits forever."""

from __future__ import annotations

import asyncio
import json

import pytest
from service.serving import RUBRIC, config_at

from rubrank import Group, RewardEngine, Rollout
from rubrank.service.config import load_service
from rubrank.service.requests import GroupsRequest
from rubrank.service.service import Metrics, open_service

TEXTS = ["One two three.", "One."]
GROUP = Group(id="g", rollouts=tuple(Rollout(prompt="p", response=text) for text in TEXTS))


class BrokenMetrics(Metrics):
    """Raises the first time that something is counted."""

    is_broken = True

    def count(self, name: str, number: float = 1) -> None:
        if self.is_broken:
            self.is_broken = False
            raise OSError("no counter")
        super().count(name, number)


def test_an_error_outside_of_grading_and_fusing_is_the_answer_and_later_requests_are_served(tmp_path):
    request = GroupsRequest.model_validate({"groups": [{"id": "g", "prompt": "p", "responses": TEXTS}]})

    async def run() -> None:
        service = await open_service(*load_service(config_at(tmp_path)))
        service.metrics = BrokenMetrics()
        try:
            with pytest.raises(OSError, match="no counter"):
                await asyncio.wait_for(service.score_groups(request, b""), 60)
            answer = json.loads(await asyncio.wait_for(service.score_groups(request, b""), 60))
            expected = RewardEngine(RUBRIC).score([GROUP], 0).rewards
            assert [tuple(group["rewards"]) for group in answer["groups"]] == [tuple(rewards) for rewards in expected]
            assert service.rollouts_in_thread == 0
        finally:
            await service.close()

    asyncio.run(run())
