"""Reward managers for verl's reward loop, which scores one rollout at a time.

    reward.reward_manager.source=importlib
    reward.reward_manager.module.path=pkg://rubrank.training.verl.reward_loop
    reward.reward_manager.name=RubricScores        grades; the trainer fuses (trainer_mode=rubrank_sync, trainer.py)
    reward.reward_manager.name=RubricBarrier       waits for the group, and returns fused rewards to any trainer

`RubricScores` grades rollouts while others are still being generated. The scores go to the trainer as text, and the
trainer fuses them into rewards.

With `RubricBarrier`, all reward workers send their rollouts to one named actor, which holds a `Barrier`
(`training/barrier.py`). The barrier deals with timeouts, lost and late rollouts, and repeated calls.

In validation both return the gated weighted mean of the criteria, and the score on each criterion. Fused rewards rank
the rollouts of a group, so their mean would say nothing about the policy. No rollout waits in validation. The partition
of the TransferQueue in which verl registers a prompt says whether it is held out, so both need verl's v1 trainer.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from typing import Any

from rubrank.errors import InvalidInput, JudgeOutage, JudgingFailed
from rubrank.rollouts.rollout import Rollout
from rubrank.training.barrier import Barrier
from rubrank.training.config import refuse_memory
from rubrank.training.engine import RewardEngine, divide_limits
from rubrank.training.frameworks.verl.checkpoint import BARRIER_ACTOR, Fault
from rubrank.training.frameworks.verl.scores import SingleScorer, SingleScores
from rubrank.training.frameworks.verl.settings import (
    OWNER,
    ResponseReader,
    Settings,
)
from rubrank.training.queries import to_plain_data

try:
    import ray  # type: ignore[import-not-found, unused-ignore]
    from verl.experimental.reward_loop.reward_manager.base import (  # type: ignore[import-not-found, unused-ignore]
        RewardManagerBase,
    )
except ImportError as error:
    raise ImportError(
        f"rubrank.training.verl.reward_loop needs verl 0.9.1: pip install verl==0.9.1 ({error})"
    ) from error

_log = logging.getLogger("rubrank")
_ACTOR_CALLS = 1_000_000  # calls that may wait in the actor: every rollout of a step does
WORKER_CALLS = 1000  # Ray's limit of concurrent calls in a reward worker
# Calls are spread at random, so a higher load could fill one worker before the others.
_WORKER_LOAD = 0.8


class _RubricManager(RewardManagerBase):
    """The base of both managers: reads the rollout and the rubric of a row."""

    def __init__(
        self,
        config: Any,
        tokenizer: Any,
        compute_score: Any = None,
        reward_router_address: Any = None,
        reward_model_tokenizer: Any = None,
    ) -> None:
        super().__init__(config, tokenizer, compute_score)
        if config.reward.reward_model.enable:
            raise InvalidInput(
                "verl",
                "reward.reward_model.enable",
                allowed="false with rubrank's managers",
                got="true",
                remedy="Use models as judges: rubrank.judges.",
            )
        self.settings = Settings.read(config)
        self.reader = ResponseReader(self.settings, tokenizer, config)

    async def _read_rollout(self, data: Any) -> tuple[dict[str, Any], Rollout, Any]:
        """Return the row, its rollout and its own rubric; of several outputs the last one counts, as in verl."""
        item = data[-1:][0]
        row = {
            name: to_plain_data(value)
            for name, value in item.non_tensor_batch.items()
            if name != "multi_modal_data"
        }
        ids = item.batch["responses"]
        length = row.get("response_len")
        if length is None:
            length = int(item.batch["attention_mask"][-len(ids) :].sum())
        where = f"rollout {row.get('session_id', '?')} of {row.get('uid', '?')}"
        rollout = await asyncio.to_thread(self.reader.read_rollout, row, ids[:length], where)
        return row, rollout, self.settings.find_rubric(row)


class RubricScores(_RubricManager):
    """Grades every rollout by itself; `trainer.py` fuses."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if not self.settings.fusing:
            raise InvalidInput(
                "verl",
                "trainer.v1.trainer_mode",
                allowed="rubrank_sync, rubrank_colocate_async or rubrank_separate_async with RubricScores",
                got=f"{self.config.trainer.v1.trainer_mode!r}, or trainer.use_v1=false",
                remedy="No component would fuse the scores. RubricBarrier works with any mode of the v1 trainer.",
            )
        engine = self.settings.engine()
        if engine.judges is not None:
            engine.judges = divide_limits(engine.judges, int(self.config.reward.num_workers))
        self.scorer = SingleScorer(engine)

    async def run_single(self, data: Any) -> dict[str, Any]:
        """Called by verl with one rollout."""
        _, rollout, rubric = await self._read_rollout(data)
        scores = await self.scorer.score(rollout, rubric)
        reward, info = describe_single(scores, self.scorer.engine)
        if self.scorer.is_complete:
            info["rubrank"] = scores.text
        return {"reward_score": reward, "reward_extra_info": info}


class RubricBarrier(_RubricManager):
    """Waits until all rollouts of a query are there, and returns the fused reward."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        check_workers(self.config)
        # Made here too, so that a wrong setting is reported in the worker and not in the actor.
        self.engine = make_stateless_engine(self.settings)
        check_queue()
        judges = self.engine.judges
        if not self.settings.saving and judges is not None and judges.on_outage != "continue":
            _log.warning(
                "RubricBarrier: this trainer saves no checkpoint if its judges do not answer; use "
                "trainer.v1.trainer_mode=rubrank_sync or rubrank_colocate_async, or python -m rubrank.training.verl"
            )
        actor_class: Any = ray.remote(BarrierActor).options(
            name=BARRIER_ACTOR, get_if_exists=True, max_concurrency=_ACTOR_CALLS, num_cpus=0
        )
        section = to_plain_data(self.config.get("rubrank") or {})
        self.actor: Any = actor_class.remote(section, int(self.config.actor_rollout_ref.rollout.n))

    async def run_single(self, data: Any) -> dict[str, Any]:
        """Called by verl with one rollout."""
        row, rollout, rubric = await self._read_rollout(data)
        step = int(row.get("global_steps") or 0)
        reward, info = await self.actor.reward.remote(
            str(row["uid"]), rollout, rubric, row.get("session_id"), step
        )
        return {"reward_score": reward, "reward_extra_info": info}


def describe_single(scores: SingleScores, engine: RewardEngine) -> tuple[float, dict[str, Any]]:
    """Return the reward of a rollout by itself, and its scores on the shared criteria, for verl's log.

    verl's validation cannot leave a rollout out: one without any score gets 0, and is counted.
    """
    info: dict[str, Any] = {}
    if engine.rubric is not None:
        for criterion in engine.rubric.criteria:
            info[f"rubrank/{criterion.name}"] = scores.scores.get(criterion.name)
    is_unknown = math.isnan(scores.reward)
    info["rubrank/unknown"] = float(is_unknown)
    info["rubrank/score"] = None if is_unknown else scores.reward
    return 0.0 if is_unknown else scores.reward, info


def check_workers(config: Any) -> None:
    """Raise if waiting rollouts could fill all reward workers, so that those they wait for could not enter."""
    mode = config.trainer.v1.get(config.trainer.v1.trainer_mode, {}) or {}
    batches = 1 + float(mode.get("num_warmup_batches", 0))
    waiting = config.data.train_batch_size * config.actor_rollout_ref.rollout.n * batches
    needed = math.ceil(waiting / (_WORKER_LOAD * WORKER_CALLS))
    if config.reward.num_workers < needed:
        raise InvalidInput(
            "verl",
            "reward.num_workers",
            allowed=f"≥ {needed} for {waiting:,.0f} rollouts that may wait at once",
            got=str(config.reward.num_workers),
            remedy="A worker takes 1,000 calls at a time.",
        )


def check_queue() -> None:
    """Raise if the run has no TransferQueue, which says whether a prompt is held out.

    Without it, the rollouts of validation would wait for siblings that never come, and the rule would learn from them.
    """
    try:
        ray.get_actor("TransferQueueController", namespace="transfer_queue")
    except ValueError:
        raise InvalidInput(
            "RubricBarrier",
            "trainer",
            allowed="verl's v1 trainer (trainer.use_v1=true), which has a TransferQueue",
            got="one without a TransferQueue",
        ) from None


def make_stateless_engine(settings: Settings) -> RewardEngine:
    """Return the engine of a barrier. Raises InvalidInput for a rule with a memory."""
    engine = settings.engine()
    engine.leave_out_default_control()
    remedy = "Use trainer.v1.trainer_mode=rubrank_sync with RubricScores, which saves it; or pool: group."
    refuse_memory(engine, OWNER, "no checkpoint contains reward workers", remedy)
    return engine


# --------------------------------------------------------------------------------------------------------------- actor


class BarrierActor:
    """Holds the barrier; one per run, under the name `rubrank_barrier`."""

    def __init__(self, section: dict[str, Any], size: int) -> None:
        settings = Settings.read({"rubrank": section})
        engine = make_stateless_engine(settings)
        self.barrier = Barrier(engine, size, timeout=settings.timeout, keep=settings.keep)
        self.scorer = SingleScorer(settings.engine())
        self.partitions = Partitions()
        self._fault: Fault | None = None

    async def reward(
        self, uid: str, rollout: Rollout, rubric: Any, session: Any, step: int
    ) -> tuple[float, dict[str, Any]]:
        """Return the reward of one rollout within its group, or by itself in validation; and what is logged with it."""
        if await self.partitions.find(uid) == "val":
            return describe_single(await self.scorer.score(rollout, rubric), self.scorer.engine)
        try:
            sample = await self.barrier.score(
                uid, rollout, step=step, rubric=rubric, member=session
            )
        except (JudgeOutage, JudgingFailed) as error:
            # An outage is kept, because it ends the run.
            if not isinstance(self._fault, JudgeOutage):
                self._fault = error
            raise
        if not isinstance(self._fault, JudgeOutage):  # the judges answer again
            self._fault = None
        return sample.filled, {"rubrank/unknown": float(not sample.is_known)}

    async def fault(self) -> Fault | None:
        """Return the error of judges because of which groups failed, or None; `checkpoint.py` asks for it."""
        return self._fault

    async def counts(self) -> Counter[str]:
        """Return the numbers of complete and short groups, and of late and repeated calls."""
        return self.barrier.counts


class Partitions:
    """Finds the partition of the TransferQueue that a prompt is in: "train" or "val".

    verl registers all prompts before it samples.
    """

    def __init__(self) -> None:
        self._partition_of: dict[str, str] = {}
        self._is_connected = False

    async def find(self, uid: str) -> str | None:
        """Return the partition; None if the queue does not know the prompt."""
        import transfer_queue as tq  # type: ignore[import-not-found, unused-ignore]

        if not self._is_connected:
            tq.init()  # connects to the queue of the run
            self._is_connected = True
        if uid not in self._partition_of:
            for partition, keys in (await tq.async_kv_list() or {}).items():
                for key, tag in keys.items():
                    if tag.get("is_prompt"):
                        self._partition_of[key] = partition
        return self._partition_of.get(uid)
