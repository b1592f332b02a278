"""A run that ends for its judges: the last whole step is saved first, and the next run repeats the step that failed.

    steps 1 to 7 are done; in step 8 no judge answers any more, and `on_outage` says not to go on
    →  global_step_7, from which the same command goes on with the prompts of step 8
    →  JudgeOutage, with a note that says so

What is trained on when a step fails is not what a checkpoint of verl's would hold: the loader has handed out the
prompts of the step already. So the loader's state of before the step is saved; in asynchronous modes, which save their
queue, prompts that were taken from the loader and not trained on go back into it, to be sampled again.

Errors of `RubricScores` are raised by the trainer itself. `RubricBarrier` raises in an actor, which costs verl the
rollouts of a group and tells it nothing: the trainer asks the actor, after sampling and before it replaces lost groups,
which it would do for as long as the judges are away.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

from rubrank.errors import JudgeOutage, JudgingFailed

if TYPE_CHECKING:
    _Trainer: TypeAlias = Any  # what follows in the order of methods: one of verl's trainers
else:
    _Trainer = object

Fault: TypeAlias = JudgeOutage | JudgingFailed

BARRIER = "RubricBarrier"
ACTOR = "rubrank_barrier"
MODES = ("sync", "colocate_async", "separate_async")
"""verl's, of each of which there is one of ours."""
_LATEST = "latest_checkpointed_iteration.txt"
_PATIENCE = 60.0  # seconds for an actor that only has to look


def waits_in_barrier(config: Any) -> bool:
    """Is `RubricBarrier` the reward manager?"""
    return bool(config.reward.reward_manager.name == BARRIER)


def saving_mode(config: Any) -> str:
    """The mode of verl's v1 trainer to run: with the barrier, ours in the place of verl's, which add that they save.

    >>> from types import SimpleNamespace as S
    >>> manager, v1 = S(reward_manager=S(name="RubricBarrier")), S(trainer_mode="sync")
    >>> saving_mode(S(reward=manager, trainer=S(v1=v1)))
    'rubrank_sync'
    """
    mode = str(config.trainer.v1.trainer_mode)
    return f"rubrank_{mode}" if waits_in_barrier(config) and mode in MODES else mode


def fault_of_barrier() -> Fault | None:
    """Why groups failed: an outage if there was one; None: for no fault of the judges, or there is no barrier."""
    import ray  # type: ignore[import-not-found, unused-ignore]

    with suppress(ValueError, ray.exceptions.RayError):
        found: Fault | None = ray.get(ray.get_actor(ACTOR).fault.remote(), timeout=_PATIENCE)
        return found
    return None


def save_step(trainer: Any, step: int, loader: Any = None) -> str:
    """Save what the trainer has as `global_step_<step>`, unless that is there; returns what to tell of it.

    loader: the state of the loader of training data that goes with it; None: as it is.
    """
    about = trainer.config.trainer
    again = "the same command" if about.resume_mode == "auto" else "the same command with trainer.resume_mode=auto"
    if step < 1:
        return "No step was complete, so that there is nothing to save."
    folder = Path(about.default_local_dir) / f"global_step_{step}"
    if _latest(folder.parent) == step:
        return f"{folder} had been saved: {again} resumes from there."
    try:
        with _at(trainer, step, loader):
            trainer._save_checkpoint()
    except Exception as error:  # the judges are what the run ends for, and what is to be told
        return f"{folder} could not be saved: {type(error).__name__}: {error}"
    return f"Saved {folder}: {again} resumes from there."


def _latest(folder: Path) -> int | None:
    with suppress(OSError, ValueError):
        return int((folder / _LATEST).read_text())
    return None


@contextmanager
def _at(trainer: Any, step: int, loader: Any) -> Iterator[None]:
    """The trainer as it was after a step."""
    now, data = trainer.global_steps, trainer.train_dataloader
    trainer.global_steps = step
    if loader is not None:
        trainer.train_dataloader = SimpleNamespace(state_dict=lambda: loader)
    try:
        yield
    finally:
        trainer.global_steps, trainer.train_dataloader = now, data


class SavesFirst(_Trainer):
    """To be mixed in before one of verl's v1 trainers."""

    _done = 0  # the last whole step; where a step has several updates, some of the next may be in the weights
    _loader: Any = None
    _sampling = False
    _sample_again = False  # of a checkpoint: nothing in its queue was judged for certain, however it is called there

    def fit(self, agent_loop_manager: Any) -> None:
        """verl's, which saves before it ends for the judges."""
        self._done, self._issued = self.global_steps, dict[str, tuple[Any, int]]()
        try:
            super().fit(agent_loop_manager)
        except Exception as error:
            fault = error if isinstance(error, Fault) else self._fault()
            if fault is None:
                raise
            fault.add_note(self._save_done())
            if fault is error:
                raise
            raise fault from error

    def _fault(self) -> Fault | None:
        return fault_of_barrier() if waits_in_barrier(self.config) else None

    def _check_judges(self) -> None:
        if isinstance(fault := self._fault(), JudgeOutage):
            raise fault

    def _save_done(self) -> str:
        if self._sampling:  # the servers give back the memory of GPUs in which the checkpoint is put together
            with suppress(Exception):
                super().on_sample_end()
        self._sample_again = True
        if self.trainer_mode == "sync":
            return save_step(self, self._done, self._loader)
        try:
            self._put_back()
        except Exception as error:  # the judges are what the run ends for, whatever else is broken
            lost = f"{type(error).__name__}: {error}"
            return f"{save_step(self, self._done)} Prompts under way could not be kept, and are lost: {lost}."
        return save_step(self, self._done)

    # ----------------------------------------------------------------------------------------------------- what is done

    def on_step_begin(self) -> None:
        """Remember what comes next."""
        if self.trainer_mode == "sync":
            self._loader = deepcopy(self.train_dataloader.state_dict())
        super().on_step_begin()

    def on_step_end(self) -> None:
        """The step is in the weights."""
        self._done = self.global_steps
        if self.trainer_mode != "sync":
            here = set(_prompts())
            self._issued = {uid: at for uid, at in self._issued.items() if uid in here}
        super().on_step_end()

    def on_sample_begin(self) -> None:
        """Servers are at work."""
        self._sampling = True
        super().on_sample_begin()

    def on_sample_end(self) -> None:
        """The first place after rewards were asked for."""
        super().on_sample_end()
        self._sampling = False
        self._check_judges()

    def _add_prompts_to_generate(self, num_prompts: int) -> int:
        """Called to replace groups that failed, among others."""
        self._check_judges()
        return int(super()._add_prompts_to_generate(num_prompts))

    # ---------------------------------------------------------------------------------------- prompts that are not lost

    def _submit_batch_to_rollout(self, batch: Any) -> int:
        self._keep(batch)
        return int(super()._submit_batch_to_rollout(batch))

    def _reissue_inflight_prompts(self, partition_id: str = "train") -> int:
        import transfer_queue as tq  # type: ignore[import-not-found, unused-ignore]

        if self.trainer_mode != "sync" and (uids := list(_prompts())):
            self._keep(tq.kv_batch_get(keys=uids, partition_id=partition_id))
            if self._sample_again:  # workers may have gone on while it was saved
                tq.kv_batch_put(keys=uids, partition_id=partition_id, tags=self._pending(uids))
        self._sample_again = False
        return int(super()._reissue_inflight_prompts(partition_id))

    def _keep(self, batch: Any) -> None:
        if self.trainer_mode == "sync":
            return
        from tensordict.tensorclass import NonTensorData  # type: ignore[import-not-found, unused-ignore]

        # what all rows have in common, such as the step, is said anew by the run that goes on, as where verl saves
        own = batch.select(*[name for name, values in batch.items() if not isinstance(values, NonTensorData)])
        self._issued |= {str(uid): (own, i) for i, uid in enumerate(own["uid"])}

    def _put_back(self) -> None:
        """Prompts that were not trained on are pending again: a run that resumes samples them anew."""
        import transfer_queue as tq
        from verl.utils import tensordict_utils as tu  # type: ignore[import-not-found, unused-ignore]

        for batch, places in _by_batch(self._issued.values()):
            rows = tu.index_select_tensor_dict(batch, places)
            uids = [str(uid) for uid in rows["uid"]]
            tq.kv_batch_put(keys=uids, partition_id="train", fields=rows, tags=self._pending(uids))

    def _pending(self, uids: Iterable[str]) -> list[dict[str, Any]]:
        return [{"is_prompt": True, "status": "pending", "global_steps": self.global_steps} for _ in uids]


def _prompts() -> Iterator[str]:
    """Of training, in the queue."""
    import transfer_queue as tq

    found = (tq.kv_list("train") or {}).get("train", {})
    return (key for key, tag in found.items() if tag.get("is_prompt", False))


def _by_batch(places: Iterable[tuple[Any, int]]) -> list[tuple[Any, list[int]]]:
    found: dict[int, tuple[Any, list[int]]] = {}
    for batch, i in places:
        found.setdefault(id(batch), (batch, []))[1].append(i)
    return list(found.values())
