"""Save the last complete step of a verl run before it ends because its judges failed.

    steps 1 to 7 are done; in step 8 no judge answers any more, and `on_outage` says not to continue
    →  global_step_7 is saved; the same command resumes from there with the prompts of step 8
    →  JudgeOutage is raised, with a note that says so

An ordinary checkpoint of verl would lose the prompts of the failed step: the data loader has handed them out already.
What is saved instead depends on verl's mode:

    synchronous     the state that the data loader had before the step
    asynchronous    the queue between sampling and training. Prompts that were taken from the loader and not trained on
                    are marked as pending in the queue, so that the resumed run samples them again.

Who raises the errors of judges depends on the reward manager:

    RubricScores    the trainer itself.
    RubricBarrier   an actor, in another process, in which the samples of a group wait for each other. verl only sees
                    that the rollouts of a group are lost, and would sample new groups until the judges answer again. So
                    the trainer asks the actor for errors after sampling, and before it replaces lost groups.

`CheckpointBeforeOutage` overrides these methods of verl's v1 trainer:

    fit                              runs all steps; saves the last complete one if the judges end the run
    _reissue_inflight_prompts        in a resumed run: marks prompts that may not have been judged as pending
    on_step_begin                    remembers the state of the data loader (synchronous mode)
    _add_prompts_to_generate         raises an error of the barrier, before lost groups are replaced
    _submit_batch_to_rollout         remembers the prompts that are in flight (asynchronous modes)
    on_sample_begin, on_sample_end   remember whether the servers are sampling; the end raises an error of the barrier
    on_step_end                      remembers that the step is complete
"""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

from rubrank.errors import JudgeOutage, JudgingFailed

if TYPE_CHECKING:
    # The next class in the method resolution order is one of verl's trainers, which has no type hints.
    _Trainer: TypeAlias = Any
else:
    _Trainer = object

Fault: TypeAlias = JudgeOutage | JudgingFailed
"""An error of the judges that ends a run."""

BARRIER_MANAGER = "RubricBarrier"
"""The reward manager whose samples wait in an actor until their group is complete."""
BARRIER_ACTOR = "rubrank_barrier"
"""The name of that actor."""
MODES = ("sync", "colocate_async", "separate_async")
"""verl's modes; each has a counterpart `rubrank_…`, whose trainer is a `CheckpointBeforeOutage`."""
_QUEUE_PARTITION = "train"  # the part of verl's queue with training prompts and rollouts, but not those of validation
# verl writes this file when a checkpoint is complete.
_LATEST_STEP_FILE = "latest_checkpointed_iteration.txt"
_ACTOR_TIMEOUT_SECONDS = 60.0  # generous: the actor only returns an attribute


def uses_barrier(config: Any) -> bool:
    """Whether `RubricBarrier` is the reward manager."""
    return bool(config.reward.reward_manager.name == BARRIER_MANAGER)


def choose_mode(config: Any) -> str:
    """Return the mode of verl's v1 trainer to run: with the barrier, our counterpart of verl's mode.

    >>> from types import SimpleNamespace as S
    >>> manager, v1 = S(reward_manager=S(name="RubricBarrier")), S(trainer_mode="sync")
    >>> choose_mode(S(reward=manager, trainer=S(v1=v1)))
    'rubrank_sync'
    """
    mode = str(config.trainer.v1.trainer_mode)
    return f"rubrank_{mode}" if uses_barrier(config) and mode in MODES else mode


def save_step(trainer: Any, step: int, loader: Any = None) -> str:
    """Save the trainer as `global_step_<step>`, unless that exists; returns a sentence for the user.

    loader: the state of the training data loader at that step; None: as it is now.
    A checkpoint that cannot be saved is reported in the sentence, and never raises.
    """
    if step < 1:
        return "No step was complete, so there is nothing to save."
    settings = trainer.config.trainer
    command = "the same command"
    if settings.resume_mode != "auto":
        command = "the same command with trainer.resume_mode=auto"
    folder = Path(settings.default_local_dir) / f"global_step_{step}"
    with suppress(OSError, ValueError):
        if int((folder.parent / _LATEST_STEP_FILE).read_text()) == step:
            return f"{folder} had been saved: {command} resumes from there."
    # verl saves the step that it is in, and the loader as it is. Both are exchanged until that is done.
    current_step = trainer.global_steps
    current_loader = trainer.train_dataloader
    trainer.global_steps = step
    if loader is not None:
        trainer.train_dataloader = SimpleNamespace(state_dict=lambda: loader)
    try:
        trainer._save_checkpoint()
    except Exception as error:
        # The run ends because of the judges, and that is what must be reported.
        return f"{folder} could not be saved: {type(error).__name__}: {error}"
    finally:
        trainer.global_steps = current_step
        trainer.train_dataloader = current_loader
    return f"Saved {folder}: {command} resumes from there."


class CheckpointBeforeOutage(_Trainer):
    """A mixin that saves a checkpoint when judges fail; put it before one of verl's v1 trainers."""

    # Class attributes, because verl's trainers restore a checkpoint from within their own `__init__`.
    _done_step = 0
    """The last complete step. If a step has several updates, the weights may contain some updates of the next one."""
    _loader_state: Any = None
    """The state of the data loader before the current step (synchronous mode)."""
    _is_sampling = False
    """Whether the servers that sample responses are running, and so hold GPU memory."""
    _sample_again = False
    """Whether the prompts in a checkpoint's queue must be sampled again: some may be marked as done, but not judged.

    Set before a checkpoint is saved because of the judges. `RubricAdvantage` in `trainer.py` writes it into the
    checkpoint, and reads it in the resumed run.
    """

    def fit(self, agent_loop_manager: Any) -> None:
        """Run verl's `fit`, and save a checkpoint before it ends because of the judges."""
        self._done_step = self.global_steps
        self._prompts_in_flight: dict[str, tuple[Any, int]] = {}
        """Id of a prompt → the batch in which it was submitted, and its row there (asynchronous modes)."""
        try:
            super().fit(agent_loop_manager)
        except Exception as error:
            # With the barrier, verl may fail because groups are lost; the reason is in the actor.
            fault = error if isinstance(error, Fault) else self._find_fault()
            if fault is None:
                raise
            fault.add_note(self._save_last_step())
            if fault is error:
                raise
            raise fault from error

    def _find_fault(self) -> Fault | None:
        """Ask the actor of the barrier for the error of judges that made groups fail, preferably an outage.

        None: there is no such error, no barrier, or its actor does not answer.
        """
        if not uses_barrier(self.config):
            return None
        import ray  # type: ignore[import-not-found, unused-ignore]

        try:
            actor = ray.get_actor(BARRIER_ACTOR)  # ValueError: no actor of this name
            fault: Fault | None = ray.get(actor.fault.remote(), timeout=_ACTOR_TIMEOUT_SECONDS)
        except (ValueError, ray.exceptions.RayError):
            return None
        return fault

    def _raise_outage(self) -> None:
        """Raise the error of the barrier if no judge answers any more; after other errors, the run goes on."""
        fault = self._find_fault()
        if isinstance(fault, JudgeOutage):
            raise fault

    def _save_last_step(self) -> str:
        """Save the last complete step; returns a sentence for the user."""
        if self._is_sampling:
            # The servers must release the GPU memory in which the checkpoint is assembled.
            with suppress(Exception):
                super().on_sample_end()
        self._sample_again = True
        if self.trainer_mode == "sync":
            return save_step(self, self._done_step, self._loader_state)
        try:
            self._put_prompts_back()
        except Exception as error:
            saved = save_step(self, self._done_step)
            reason = f"{type(error).__name__}: {error}"
            return f"{saved} Prompts in flight could not be saved, and are lost: {reason}."
        return save_step(self, self._done_step)

    # ------------------------------------------------------------------------------------------------ hooks of verl

    def on_step_begin(self) -> None:
        """Remember where the data loader is."""
        if self.trainer_mode == "sync":
            self._loader_state = deepcopy(self.train_dataloader.state_dict())
        super().on_step_begin()

    def on_step_end(self) -> None:
        """Note that the step is complete: its update is in the weights."""
        self._done_step = self.global_steps
        if self.trainer_mode != "sync":
            # verl removes prompts from the queue when they have been trained on.
            queued = set(_list_queued_prompts())
            self._prompts_in_flight = {
                uid: place for uid, place in self._prompts_in_flight.items() if uid in queued
            }
        super().on_step_end()

    def on_sample_begin(self) -> None:
        """Note that the servers start to sample."""
        self._is_sampling = True
        super().on_sample_begin()

    def on_sample_end(self) -> None:
        """End the sampling, and with it the judging; then raise an outage of the barrier."""
        super().on_sample_end()
        self._is_sampling = False
        self._raise_outage()

    def _add_prompts_to_generate(self, num_prompts: int) -> int:
        """Raise an outage of the barrier first, because verl calls this also to replace groups that failed."""
        self._raise_outage()
        return int(super()._add_prompts_to_generate(num_prompts))

    def _submit_batch_to_rollout(self, batch: Any) -> int:
        """Remember the prompts before they are sampled."""
        self._remember_prompts(batch)
        return int(super()._submit_batch_to_rollout(batch))

    def _reissue_inflight_prompts(self, partition_id: str = _QUEUE_PARTITION) -> int:
        """In a resumed run, remember the prompts of the queue; mark all as pending if some may not have been judged.

        verl then submits the pending ones again.
        """
        import transfer_queue as tq  # type: ignore[import-not-found, unused-ignore]

        uids = [] if self.trainer_mode == "sync" else _list_queued_prompts()
        if uids:
            self._remember_prompts(tq.kv_batch_get(keys=uids, partition_id=partition_id))
            # `_put_prompts_back` has marked them once, but workers may have continued while the checkpoint was saved.
            if self._sample_again:
                tq.kv_batch_put(
                    keys=uids, partition_id=partition_id, tags=self._make_pending_tags(len(uids))
                )
        self._sample_again = False
        return int(super()._reissue_inflight_prompts(partition_id))

    # ----------------------------------------------------------------------------------------------- prompts in flight

    def _remember_prompts(self, batch: Any) -> None:
        """Remember in which row of which batch each prompt is, until it is trained on (asynchronous modes)."""
        if self.trainer_mode == "sync":
            return
        from tensordict.tensorclass import NonTensorData  # type: ignore[import-not-found, unused-ignore]

        # Values that all rows share, such as the step, are left out, as in verl's checkpoints: a resumed run sets them.
        row_fields = [
            name for name, values in batch.items() if not isinstance(values, NonTensorData)
        ]
        rows = batch.select(*row_fields)
        for i, uid in enumerate(rows["uid"]):
            self._prompts_in_flight[str(uid)] = (rows, i)

    def _put_prompts_back(self) -> None:
        """Mark prompts that were not trained on as pending, so that a resumed run samples them again."""
        import transfer_queue as tq
        from verl.utils import tensordict_utils as tu  # type: ignore[import-not-found, unused-ignore]

        # The rows of one batch are written together. Batches cannot be keys, so they are told apart by their identity.
        batches: dict[int, Any] = {}
        rows_of_batch: dict[int, list[int]] = {}
        for batch, row in self._prompts_in_flight.values():
            batches[id(batch)] = batch
            rows_of_batch.setdefault(id(batch), []).append(row)
        for batch_id, rows in rows_of_batch.items():
            batch = batches[batch_id]
            fields = tu.index_select_tensor_dict(batch, rows)
            uids = [str(uid) for uid in fields["uid"]]
            tq.kv_batch_put(
                keys=uids,
                partition_id=_QUEUE_PARTITION,
                fields=fields,
                tags=self._make_pending_tags(len(uids)),
            )

    def _make_pending_tags(self, number: int) -> list[dict[str, Any]]:
        """Return verl's tags for this many prompts that are still to be sampled."""
        return [
            {"is_prompt": True, "status": "pending", "global_steps": self.global_steps}
            for _ in range(number)
        ]


def _list_queued_prompts() -> list[str]:
    """Return the ids of the training prompts in the queue, which also has rollouts."""
    import transfer_queue as tq

    tags = (tq.kv_list(_QUEUE_PARTITION) or {}).get(_QUEUE_PARTITION, {})
    return [uid for uid, tag in tags.items() if tag.get("is_prompt", False)]
