"""The reward managers: groups that wait for their siblings, in verl's reward loop.

verl's own configuration, TransferQueue, agent loop, reward loop and trainer, on a CPU; only the policy is a script
(tiny_verl.py). Skipped unless verl is installed, in an environment of its own: see docs/verl.md.
"""

from __future__ import annotations

import asyncio
import math
from typing import Any

import pytest
import tiny_verl
from tiny_verl import (
    RUBRIC,
    SAID,
    config_of,
    expected,
    prompts,
    read,
    run_of,
    sampled,
    uid_of,
    validated,
    with_manager,
)

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Rollout
from rubrank.training.engine import RewardEngine, StepRewards

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # theirs are not ours to mend


@pytest.fixture(scope="module")
def policy(tmp_path_factory):
    yield tiny_verl.policy_folder(tmp_path_factory.mktemp("policy"))
    tiny_verl.tidy()


@pytest.fixture(scope="module")
def cluster(policy):
    with tiny_verl.cluster_with(policy):
        yield


@pytest.fixture(scope="module")
def barrier_run(cluster, policy):
    config = config_of(
        policy,
        *with_manager("RubricBarrier"),
        "reward.num_workers=3",
        rubric=RUBRIC,
        timeout=300,
    )
    with run_of(config, policy, lost=((1, 0),)) as trainer:
        yield trainer


def counts() -> dict[str, int]:
    import ray

    return dict(ray.get(ray.get_actor("rubrank_barrier").counts.remote()))


def test_groups_wait_for_their_siblings_and_not_for_ever(barrier_run):
    batch = sampled(barrier_run, own := prompts([0, 1], 1))
    number = dict(zip(own["uid"], (0, 1), strict=True))
    found = read(barrier_run, batch, "rm_scores")
    assert len(found) == 7  # the first rollout of the second prompt was lost
    for key, row in found.items():
        said = SAID[0] if number[uid_of(key)] == 0 else SAID[1][1:]
        assert row["rm_scores"].sum().item() == pytest.approx(expected(said)[row["text"]])
    assert counts() == {"complete": 1, "short": 1}


def test_in_validation_nobody_waits(barrier_run):
    before = counts()
    metrics = validated(barrier_run)
    assert metrics["val-aux/lakes/rubrank/Keyword/mean@2"] > 0
    assert metrics["val-core/lakes/reward/mean@2"] == pytest.approx((1 + 2 / 3 + 0 + 2 / 3) / 4)
    assert counts() == before


def test_rollouts_that_verl_sends_twice_are_counted_once(barrier_run):
    """A batch of four over three workers: verl fills it up with its first two rows."""
    from tensordict import TensorDict
    from verl.protocol import DataProto

    tokenizer, before = barrier_run.tokenizer, counts()
    ids = [[*tokenizer(text, add_special_tokens=False).input_ids, tokenizer.eos_token_id] for text in SAID[0]]
    width = max(map(len, ids))
    responses = [row + [tokenizer.pad_token_id] * (width - len(row)) for row in ids]
    mask = [[1] + [1] * len(row) + [0] * (width - len(row)) for row in ids]
    import torch

    tensors = {
        "prompts": torch.ones(4, 1, dtype=int),
        "responses": torch.tensor(responses),
        "attention_mask": torch.tensor(mask),
    }
    columns = {
        "uid": ["twice"] * 4,
        "session_id": [0, 1, 2, 3],
        "global_steps": [1] * 4,
        "data_source": ["lakes"] * 4,
        "raw_prompt": [[{"role": "user", "content": "p"}]] * 4,
    }
    data = DataProto(TensorDict(tensors, batch_size=4), {name: tiny_verl.array(v) for name, v in columns.items()})
    found = barrier_run.reward_loop_manager.compute_rm_score(data)
    assert found.batch["rm_scores"].sum(1).tolist() == pytest.approx(list(expected(SAID[0]).values()))
    after = counts()
    assert after["repeated"] == before.get("repeated", 0) + 2
    assert after["complete"] == before["complete"] + 1


def test_the_unknown_get_the_mean_of_their_group():
    from rubrank.training.frameworks.verl.reward_loop import BarrierActor

    class Unsure(RewardEngine):
        def fuse(self, groups: Any, *given: Any, **named: Any) -> StepRewards:
            return StepRewards(((1.0, math.nan, 0.5),), columns={"rubrank/group": ((groups[0].id,) * 3,)})

    async def main() -> list[Any]:
        actor = BarrierActor({"rubric": RUBRIC}, 3)
        actor.barrier.engine = Unsure(RUBRIC)
        actor.partitions.find = nowhere  # type: ignore[method-assign]
        calls = [actor.reward("u", Rollout(prompt="p", response="x"), None, i, 1) for i in range(3)]
        return await asyncio.gather(*calls)

    async def nowhere(uid: str) -> None:
        return None

    found = asyncio.run(asyncio.wait_for(main(), 30))
    assert found == [(1.0, {"rubrank/unknown": 0.0}), (0.75, {"rubrank/unknown": 1.0}), (0.5, {"rubrank/unknown": 0.0})]


@pytest.mark.parametrize(
    ("overrides", "section", "message"),
    [
        ((), {"rule": "amrp"}, "rule must be one without a memory: .*rubrank_sync with RubricScores"),
        (
            ("data.train_batch_size=1024", "actor_rollout_ref.rollout.n=8"),
            {},
            "reward.num_workers must be ≥ 11 for 8,192",
        ),
        (("reward.reward_model.enable=true",), {}, "reward.reward_model.enable must be false"),
    ],
)
def test_what_a_barrier_refuses(policy, overrides, section, message):
    from rubrank.training.frameworks.verl.reward_loop import RubricBarrier

    with pytest.raises(InvalidInput, match=message):
        RubricBarrier(config_of(policy, *overrides, rubric=RUBRIC, **section), None)


@pytest.mark.parametrize("overrides", [(), ("trainer.use_v1=false",), ("trainer.v1.trainer_mode=colocate_async",)])
def test_scores_that_nobody_would_fuse(policy, overrides):
    """The rewards would be weighted means of the criteria, and nobody would notice."""
    from rubrank.training.frameworks.verl.reward_loop import RubricScores

    with pytest.raises(InvalidInput, match=r"trainer_mode must be rubrank_sync, .*RubricBarrier works with any mode"):
        RubricScores(config_of(policy, *overrides, rubric=RUBRIC), None)
    RubricScores(config_of(policy, *overrides, rubric=RUBRIC, fusing=True), None)


def test_judges_who_compare_are_left_to_the_trainer(policy):
    """They need the whole group: here only programs are asked, and no scores are sent."""
    from rubrank.training.frameworks.verl.reward_loop import describe_single
    from rubrank.training.frameworks.verl.scores import SingleScorer

    judge = {"kind": "pairwise", "endpoints": [{"base_url": "http://127.0.0.1:9", "model": "nobody"}]}
    asked = [*RUBRIC, {"name": "Better", "question": "Which is better?"}]
    alone = SingleScorer(RewardEngine(asked, judges={"judges": [judge]}))
    assert not alone.is_complete
    scores = asyncio.run(alone.score(Rollout(prompt="p", response="moon"), None))
    reward, shown = describe_single(scores, alone.engine)
    assert reward == pytest.approx(2 / 3)
    assert shown == {
        "rubrank/EmptyAnswer": 1.0,
        "rubrank/WordCount": 0.0,
        "rubrank/Keyword": 1.0,
        "rubrank/Better": None,
        "rubrank/unknown": 0.0,
        "rubrank/score": pytest.approx(2 / 3),
    }
    judge["kind"] = "absolute"
    assert SingleScorer(RewardEngine(asked, judges={"judges": [judge]})).is_complete
