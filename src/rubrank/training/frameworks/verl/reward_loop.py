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
of the TransferQueue in which verl registers a prompt says whether it is held out.
"""

from __future__ import annotations

import asyncio
import logging
import math
from collections import Counter
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput, JudgeOutage, JudgingFailed
from rubrank.judges import COMPARES
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.training.barrier import Barrier
from rubrank.training.config import refuse_late_controls
from rubrank.training.engine import RewardEngine, divide_limits
from rubrank.training.frameworks.common import refuse_memory
from rubrank.training.frameworks.verl.checkpoint import BARRIER_ACTOR, Fault
from rubrank.training.frameworks.verl.scores import SingleGrader
from rubrank.training.frameworks.verl.settings import (
    OWNER,
    ResponseReader,
    Settings,
    is_held_out,
    read_step,
    to_plain_data,
)

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
                remedy="No component would fuse the scores. RubricBarrier works with any trainer.",
            )
        self.scorer = SingleScorer(self.settings, int(self.config.reward.num_workers))

    async def run_single(self, data: Any) -> dict[str, Any]:
        """Called by verl with one rollout."""
        _, rollout, rubric = await self._read_rollout(data)
        reward, info, text = await self.scorer.score(rollout, rubric)
        if self.scorer.is_complete:
            info["rubrank"] = text
        return {"reward_score": reward, "reward_extra_info": info}


class RubricBarrier(_RubricManager):
    """Waits until all rollouts of a query are there, and returns the fused reward."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        check_workers(self.config)
        # Made here too, so that a wrong setting is reported in the worker and not in the actor.
        self.engine = make_stateless_engine(self.settings)
        if not has_queue():
            check_held_out(self.config)
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
        if "uid" not in row:
            raise InvalidInput(
                "RubricBarrier",
                "uid",
                allowed="passed by verl",
                got=", ".join(sorted(row)),
                remedy="Use the v1 trainer (trainer.use_v1=true), or fully_async_policy, one_step_off_policy.",
            )
        step = read_step(row, getattr(data, "meta_info", None))
        if step is None:
            refuse_late_controls(self.engine, "RubricBarrier")
        reward, info = await self.actor.reward.remote(
            str(row["uid"]), rollout, rubric, row.get("session_id"), step or 0, is_held_out(row)
        )
        return {"reward_score": reward, "reward_extra_info": info}


class SingleScorer:
    """Scores rollouts without their group: the gated weighted mean of the criteria.

    is_complete: False if a judge compares rollouts: it needs the whole group, and is not called here.
    """

    def __init__(self, settings: Settings, processes: int = 1) -> None:
        engine = settings.make_single_engine()
        judges = engine.judges
        self.is_complete = judges is None or all(
            judge.kind not in COMPARES for judge in judges.judges
        )
        if not self.is_complete:
            engine.judges = None
        elif judges is not None:
            engine.judges = divide_limits(judges, processes)
        self.shared: list[str] = []
        """Names of the shared criteria, whose scores are logged: every rollout has them."""
        if engine.rubric is not None:
            self.shared = [criterion.name for criterion in engine.rubric.criteria]
        self.grader = SingleGrader(engine)

    async def score(self, rollout: Rollout, rubric: Any) -> tuple[float, dict[str, Any], str]:
        """Return the reward; the scores on the shared criteria, for verl's log; and all scores as text.

        verl's validation cannot leave a rollout out: one without any score gets 0, and is counted.
        """
        graded = await self.grader.grade(Group(id="alone", rollouts=(rollout,), rubric=rubric))
        is_unknown = math.isnan(graded.reward)
        info: dict[str, Any] = {f"rubrank/{name}": graded.scores.get(name) for name in self.shared}
        info["rubrank/unknown"] = float(is_unknown)
        info["rubrank/score"] = None if is_unknown else graded.reward
        return 0.0 if is_unknown else graded.reward, info, graded.text


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


def has_queue() -> bool:
    """Whether the run has a TransferQueue."""
    try:
        ray.get_actor("TransferQueueController", namespace="transfer_queue")
    except ValueError:
        return False
    return True


def check_held_out(config: Any) -> None:
    """Raise for validation rows that look like training rows, in runs without a TransferQueue.

    Without a queue, only a row itself says whether it is held out. A row that does not say so would wait for siblings
    that never come, and the rule would learn from it.
    """
    import polars as pl

    trainer = config.trainer
    if not (trainer.get("val_before_train", True) or trainer.get("test_freq", -1) > 0):
        return
    files = to_plain_data(config.data.get("val_files")) or []
    for path in [files] if isinstance(files, str) else files:
        if not str(path).endswith(".parquet") or not Path(path).is_file():
            continue  # another format, or on another machine
        frame = pl.scan_parquet(path, glob=False)
        rows: list[dict[str, Any]] = [{}]
        if "extra_info" in frame.collect_schema():
            rows = frame.select("extra_info").collect().to_dicts()
        if not all(is_held_out(row) for row in rows):
            raise InvalidInput(
                "verl",
                "data.val_files",
                allowed="rows whose extra_info.split is not 'train', because verl has no TransferQueue here",
                got=f"{path} has others",
                remedy="Write it, as recipes/verl/make.py does; or set trainer.val_before_train=false"
                " trainer.test_freq=-1.",
            )


def make_stateless_engine(settings: Settings) -> RewardEngine:
    """Return the engine of a barrier. Raises InvalidInput for a rule with a memory."""
    engine = settings.make_engine()
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
        self.scorer = SingleScorer(settings)
        self.partitions = Partitions()
        self._fault: Fault | None = None

    async def reward(
        self,
        uid: str,
        rollout: Rollout,
        rubric: Any,
        session: Any,
        step: int,
        held_out: bool = False,
    ) -> tuple[float, dict[str, Any]]:
        """Return the reward of one rollout within its group, or by itself in validation; and what is logged with it."""
        partition = await self.partitions.find(uid)
        if partition == "val" or (partition is None and held_out):
            reward, info, _ = await self.scorer.score(rollout, rubric)
            return reward, info
        try:
            sample = await self.barrier.score(
                uid, rollout, step=step, rubric=rubric, member=session
            )
        except (JudgeOutage, JudgingFailed) as error:
            if not isinstance(
                self._fault, JudgeOutage
            ):  # an outage is kept, because it ends the run
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
        """Return the partition; None if the queue does not know the prompt, or there is no queue."""
        if uid not in self._partition_of and self._connect():
            import transfer_queue as tq  # type: ignore[import-not-found, unused-ignore]

            for partition, keys in (await tq.async_kv_list() or {}).items():
                for key, tag in keys.items():
                    if tag.get("is_prompt"):
                        self._partition_of[key] = partition
        return self._partition_of.get(uid)

    def _connect(self) -> bool:
        """Connect to the queue of the run, if there is one; `tq.init` alone would start a new one."""
        if not self._is_connected:
            try:
                import transfer_queue as tq
            except ImportError:
                return False
            if not has_queue():
                return False
            tq.init()
            self._is_connected = True
        return True
