"""Reward managers for verl's reward loop, which asks about one rollout at a time.

    reward.reward_manager.source=importlib
    reward.reward_manager.module.path=pkg://rubrank.training.verl.reward_loop
    reward.reward_manager.name=RubricScores        grades; the trainer fuses (trainer_mode=rubrank_sync, verl.py)
    reward.reward_manager.name=RubricBarrier       waits for the group, and gives fused rewards to any trainer

`RubricScores` works while other rollouts are still being generated. The scores go to the trainer as text, which makes
the rewards of training from them.

`RubricBarrier` is shape (c): all reward workers send their rollouts to one named actor, which holds the barrier of
`barrier.py`: timeouts, lost and late siblings, repeated calls.

In validation both give the weighted mean of the criteria, gated, and the score on each: fused rewards say who is better
within a group, so their mean says nothing about the policy. Nobody waits there, whatever `val_kwargs.n` is. Which
prompts are held out is known by the partition of the TransferQueue in which verl registers them.
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
from rubrank.training.config import refuse_late_controls
from rubrank.training.engine import RewardEngine, divide_limits
from rubrank.training.frameworks.verl.checkpoint import ACTOR, Fault
from rubrank.training.frameworks.verl.grading import GradedTogether
from rubrank.training.frameworks.verl.reading import Reading, is_held_out, step_of
from rubrank.training.frameworks.verl.settings import OWNER, Settings, plain
from rubrank.training.shapes.barrier import Barrier

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
_ENOUGH = 1_000_000  # calls that may wait in the actor: every rollout of a step does
_ASYNC_CALLS = 1000  # Ray's limit of calls at a time in a reward worker
_FULL = 0.8  # share of it up to which chance does not fill one worker before the others


class _Reading(RewardManagerBase):
    """What both have in common: a row of verl's → rollout, rubric, and whose it is."""

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
            remedy = "Ask models as judges: rubrank.judges."
            raise InvalidInput("verl", "reward.reward_model.enable", "false with rubrank's managers", "true", remedy)
        self.settings = Settings.of(config)

    async def _read(self, data: Any) -> tuple[dict[str, Any], Rollout, Any]:
        """The row, its rollout and its own rubric; of several outputs the last one counts, as in verl."""
        item = data[-1:][0]
        row = {name: plain(value) for name, value in item.non_tensor_batch.items() if name != "multi_modal_data"}
        ids = item.batch["responses"]
        length = row.get("response_len")
        if length is None:
            length = int(item.batch["attention_mask"][-len(ids) :].sum())
        name = f"rollout {row.get('session_id', '?')} of {row.get('uid', '?')}"
        reading = Reading(self.settings, self.tokenizer, self.config)
        rollout = await asyncio.to_thread(reading.rollout, row, ids[:length], name)
        return row, rollout, self.settings.own_rubric(row)


class RubricScores(_Reading):
    """Grades every rollout by itself; `rubrank.training.frameworks.verl.trainer` fuses."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        if not self.settings.fusing:
            allowed = "rubrank_sync, rubrank_colocate_async or rubrank_separate_async with RubricScores"
            got = f"{self.config.trainer.v1.trainer_mode!r}, or trainer.use_v1=false"
            remedy = "Nobody would fuse. RubricBarrier goes with any trainer."
            raise InvalidInput("verl", "trainer.v1.trainer_mode", allowed, got, remedy)
        self.alone = Alone(self.settings, int(self.config.reward.num_workers))

    async def run_single(self, data: Any) -> dict[str, Any]:
        """Called by verl with one rollout."""
        _, rollout, rubric = await self._read(data)
        reward, shown, text = await self.alone.grade(rollout, rubric)
        if self.alone.complete:
            shown["rubrank"] = text
        return {"reward_score": reward, "reward_extra_info": shown}


class RubricBarrier(_Reading):
    """Waits until all rollouts of a query are there; the reward is the fused one."""

    def __init__(self, *given: Any, **named: Any) -> None:
        super().__init__(*given, **named)
        check_waiting(self.config)
        self.engine = forgetful_engine(self.settings)  # raises here, rather than in the actor
        if not has_queue():
            check_held_out(self.config)
        _warn_unsaved(self.settings, self.engine)
        actor: Any = ray.remote(BarrierActor).options(
            name=ACTOR, get_if_exists=True, max_concurrency=_ENOUGH, num_cpus=0
        )
        section = plain(self.config.get("rubrank") or {})
        self.actor: Any = actor.remote(section, int(self.config.actor_rollout_ref.rollout.n))

    async def run_single(self, data: Any) -> dict[str, Any]:
        """Called by verl with one rollout."""
        row, rollout, rubric = await self._read(data)
        if "uid" not in row:
            remedy = "Use the v1 trainer (trainer.use_v1=true), or fully_async_policy, one_step_off_policy."
            raise InvalidInput("RubricBarrier", "uid", "among what verl passes", ", ".join(sorted(row)), remedy)
        step = step_of(row, getattr(data, "meta_info", None))
        if step is None:
            refuse_late_controls(self.engine, "RubricBarrier")
        given = str(row["uid"]), rollout, rubric, row.get("session_id"), step or 0, is_held_out(row)
        reward, shown = await self.actor.reward.remote(*given)
        return {"reward_score": reward, "reward_extra_info": shown}


def _warn_unsaved(settings: Settings, engine: RewardEngine) -> None:
    """A trainer of verl's own learns of judges that are away as of lost rollouts, and ends without a checkpoint."""
    if settings.saving or engine.judges is None or engine.judges.on_outage == "continue":
        return
    what = "this trainer saves no checkpoint when its judges stay away"
    remedy = "trainer.v1.trainer_mode=rubrank_sync does, or rubrank_colocate_async; or python -m rubrank.training.verl"
    _log.warning("RubricBarrier: %s: %s", what, remedy)


class Alone:
    """Rollouts without their group: the weighted mean of the criteria, gated. The trainer counts what is missing.

    complete: are the scores all that can be said? Not where a judge compares: it needs the group, and is not asked.
    """

    def __init__(self, settings: Settings, processes: int = 1) -> None:
        # A rollout alone has no others to be stretched among: its mean as it is, times the gate's factor.
        gate = {**(settings.reward.gate or {}), "lift": 0.0}
        plain = {"scale": "ranking", "prior": 1.0, "span": "model"}  # those of a ranking
        engine = settings.engine(rule="weighted-mean+", gate=gate, attributes=(), records=None, **plain)
        self.complete = engine.judges is None or all(judge.kind not in COMPARES for judge in engine.judges.judges)
        if not self.complete:
            engine.judges = None
        elif engine.judges is not None:
            engine.judges = divide_limits(engine.judges, processes)
        self.shared = () if engine.rubric is None else tuple(c.name for c in engine.rubric.criteria)
        self.grading = GradedTogether(engine)

    async def grade(self, rollout: Rollout, rubric: Any) -> tuple[float, dict[str, Any], str]:
        """The reward; what verl's log shows: the scores on the criteria that all rows share; all scores as text.

        verl's validation can leave nothing out: a rollout about which nothing is known has 0, and is counted.
        """
        found = await self.grading.grade(Group(id="alone", rollouts=(rollout,), rubric=rubric))
        unknown = math.isnan(found.reward)
        shown = {f"rubrank/{name}": found.scores.get(name) for name in self.shared}
        shown |= {"rubrank/unknown": float(unknown), "rubrank/score": None if unknown else found.reward}
        return 0.0 if unknown else found.reward, shown, found.text


def check_waiting(config: Any) -> None:
    """Refuse what would stand still: rollouts that wait fill a reward worker, and the siblings they wait for queue."""
    mode = config.trainer.v1.get(config.trainer.v1.trainer_mode, {}) or {}
    ahead = 1 + float(mode.get("num_warmup_batches", 0))
    waiting = config.data.train_batch_size * config.actor_rollout_ref.rollout.n * ahead
    needed = math.ceil(waiting / (_FULL * _ASYNC_CALLS))
    if config.reward.num_workers < needed:
        raise InvalidInput(
            "verl",
            "reward.num_workers",
            f"≥ {needed} for {waiting:,.0f} rollouts that may wait at once",
            str(config.reward.num_workers),
            "A worker takes 1,000 calls at a time.",
        )


def has_queue() -> bool:
    """Does the run have a TransferQueue?"""
    try:
        ray.get_actor("TransferQueueController", namespace="transfer_queue")
    except ValueError:
        return False
    return True


def check_held_out(config: Any) -> None:
    """Refuse validation that looks like training: without a TransferQueue only its rows can say what they are, and
    rollouts would wait for siblings that never come, and teach."""
    trainer = config.trainer
    if not (trainer.get("val_before_train", True) or trainer.get("test_freq", -1) > 0):
        return
    files = plain(config.data.get("val_files")) or []
    for path in [files] if isinstance(files, str) else files:
        if not str(path).endswith(".parquet") or not Path(path).is_file():
            continue  # of another kind, or elsewhere
        if not all(is_held_out(row) for row in _about(path)):
            allowed = "rows whose extra_info.split is not 'train', where verl has no TransferQueue"
            remedy = "Write it, as recipes/verl/make.py does; or trainer.val_before_train=false trainer.test_freq=-1."
            raise InvalidInput("verl", "data.val_files", allowed, f"{path} has others", remedy)


def _about(path: Any) -> list[dict[str, Any]]:
    """What the rows of a file say about themselves."""
    import polars as pl

    frame = pl.scan_parquet(path, glob=False)
    return frame.select("extra_info").collect().to_dicts() if "extra_info" in frame.collect_schema() else [{}]


def forgetful_engine(settings: Settings) -> RewardEngine:
    """The engine of a barrier."""
    engine = settings.engine()
    if engine.remembers:
        allowed = "one that remembers nothing: reward workers are in no checkpoint"
        remedy = "Use trainer.v1.trainer_mode=rubrank_sync with RubricScores, which saves it; or pool: group."
        raise InvalidInput(OWNER, "rule", allowed, repr(engine.rule.name), remedy)
    return engine


# --------------------------------------------------------------------------------------------------------------- actor


class BarrierActor:
    """Holds the barrier; one in a run, by the name `rubrank_barrier`."""

    def __init__(self, section: dict[str, Any], size: int) -> None:
        settings = Settings.of({"rubrank": section})
        engine = forgetful_engine(settings)
        self.barrier = Barrier(engine, size, timeout=settings.timeout, keep=settings.keep)
        self.alone = Alone(settings)
        self.partitions = Partitions()
        self._fault: Fault | None = None

    async def reward(
        self, uid: str, rollout: Rollout, rubric: Any, session: Any, step: int, held_out: bool = False
    ) -> tuple[float, dict[str, Any]]:
        """The reward of one rollout within its group, or by itself in validation; and what is shown with it."""
        partition = await self.partitions.of(uid)
        if partition == "val" or (partition is None and held_out):
            reward, shown, _ = await self.alone.grade(rollout, rubric)
            return reward, shown
        try:
            sample = await self.barrier.score(uid, rollout, step=step, rubric=rubric, member=session)
        except (JudgeOutage, JudgingFailed) as error:
            if not isinstance(self._fault, JudgeOutage):  # the graver one
                self._fault = error
            raise
        if not isinstance(self._fault, JudgeOutage):  # judges are there, after all
            self._fault = None
        return sample.filled, {"rubrank/unknown": float(not sample.is_known)}

    async def fault(self) -> Fault | None:
        """Of judges, for which groups failed; see `ending.py`."""
        return self._fault

    async def counts(self) -> Counter[str]:
        """Groups complete and short, calls late and repeated."""
        return self.barrier.counts


class Partitions:
    """Which partition of the TransferQueue a prompt is in: "train" or "val". verl registers all before it begins."""

    def __init__(self) -> None:
        self._of: dict[str, str] = {}
        self._connected = False

    async def of(self, uid: str) -> str | None:
        """None: the queue does not know it, or there is none."""
        if uid not in self._of and self._connect():
            import transfer_queue as tq  # type: ignore[import-not-found, unused-ignore]

            found = await tq.async_kv_list() or {}
            self._of = {key: name for name, keys in found.items() for key, tag in keys.items() if tag.get("is_prompt")}
        return self._of.get(uid)

    def _connect(self) -> bool:
        """To the queue of the run. `init` would make one if there were none."""
        if not self._connected:
            try:
                import transfer_queue as tq
            except ImportError:
                return False
            if not has_queue():
                return False
            tq.init()
            self._connected = True
        return True
