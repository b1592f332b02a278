"""verl's older trainer (`trainer.use_v1=false`) with `RubricBarrier`: it saves before it ends for its judges.

    python -m rubrank.training.verl trainer.use_v1=false reward.reward_manager.name=RubricBarrier …

verl has no place where another trainer than its own could be named for this one. The runner here is verl's, and takes
the trainer below for the time of its run, in the process that is there for that run alone.
"""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from typing import Any

import ray  # type: ignore[import-not-found, unused-ignore]
from verl.trainer import main_ppo_v0  # type: ignore[import-not-found, unused-ignore]
from verl.trainer.ppo.ray_trainer import RayPPOTrainer  # type: ignore[import-not-found, unused-ignore]

from rubrank.training.frameworks.verl.checkpoint import fault_of_barrier, save_step


class OlderTrainer(RayPPOTrainer):  # type: ignore[misc, unused-ignore]
    """verl's; `ending.py` says what is saved."""

    _done = 0
    _before: Any = None
    _after: Any = None

    def fit(self) -> None:
        """verl's, which saves before it ends for the judges."""
        try:
            super().fit()
        except Exception as error:
            fault = fault_of_barrier()
            if fault is None:
                raise
            with suppress(Exception):  # the servers give back the memory in which the checkpoint is put together
                self.checkpoint_manager.sleep_replicas()
            fault.add_note(save_step(self, self._done, self._before))
            raise fault from error

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        self._done, self._after = self.global_steps, deepcopy(self.train_dataloader.state_dict())

    def _start_profiling(self, do_profile: bool) -> None:
        """Called once a step, when its prompts have been taken from the loader."""
        self._done = self.global_steps - 1
        self._before, self._after = self._after, deepcopy(self.train_dataloader.state_dict())
        super()._start_profiling(do_profile)


class OlderRunner(main_ppo_v0.TaskRunner.__ray_metadata__.modified_class):  # type: ignore[misc, unused-ignore]
    """verl's, with this trainer."""

    def run(self, config: Any) -> None:
        """The run, from its configuration on."""
        theirs, main_ppo_v0.RayPPOTrainer = main_ppo_v0.RayPPOTrainer, OlderTrainer
        try:
            super().run(config)
        finally:
            main_ppo_v0.RayPPOTrainer = theirs


Runner = ray.remote(OlderRunner)
