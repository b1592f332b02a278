"""verl's older trainer (`trainer.use_v1=false`) with `RubricBarrier`: it saves a checkpoint if its judges fail.

    python -m rubrank.training.verl trainer.use_v1=false reward.reward_manager.name=RubricBarrier …

verl has no setting for the class of this trainer. So the runner here, a subclass of verl's, replaces the class in
verl's module while it runs; its process exists for that run alone.
"""

from __future__ import annotations

from contextlib import suppress
from copy import deepcopy
from typing import Any

import ray  # type: ignore[import-not-found, unused-ignore]
from verl.trainer import main_ppo_v0  # type: ignore[import-not-found, unused-ignore]
from verl.trainer.ppo.ray_trainer import RayPPOTrainer  # type: ignore[import-not-found, unused-ignore]

from rubrank.training.frameworks.verl.checkpoint import find_barrier_fault, save_step


class OlderTrainer(RayPPOTrainer):  # type: ignore[misc, unused-ignore]
    """verl's older trainer; `checkpoint.py` says what is saved."""

    _done_step = 0
    """The last complete step."""
    _loader_before: Any = None
    """The state of the data loader before it handed out the prompts of the current step."""
    _loader_after: Any = None
    """Its state after that: where the next step begins."""

    def fit(self) -> None:
        """Run verl's `fit`, and save a checkpoint before an error of the judges is raised."""
        try:
            super().fit()
        except Exception as error:
            fault = find_barrier_fault()
            if fault is None:
                raise
            # The servers release the memory in which the checkpoint is assembled.
            with suppress(Exception):
                self.checkpoint_manager.sleep_replicas()
            fault.add_note(save_step(self, self._done_step, self._loader_before))
            raise fault from error

    def _load_checkpoint(self) -> None:
        super()._load_checkpoint()
        self._done_step = self.global_steps
        self._loader_after = deepcopy(self.train_dataloader.state_dict())

    def _start_profiling(self, do_profile: bool) -> None:
        """Called once per step, after its prompts were taken from the loader."""
        self._done_step = self.global_steps - 1
        self._loader_before = self._loader_after
        self._loader_after = deepcopy(self.train_dataloader.state_dict())
        super()._start_profiling(do_profile)


class OlderRunner(main_ppo_v0.TaskRunner.__ray_metadata__.modified_class):  # type: ignore[misc, unused-ignore]
    """verl's runner, with this trainer."""

    def run(self, config: Any) -> None:
        """Run from a configuration."""
        original = main_ppo_v0.RayPPOTrainer
        main_ppo_v0.RayPPOTrainer = OlderTrainer
        try:
            super().run(config)
        finally:
            main_ppo_v0.RayPPOTrainer = original


Runner = ray.remote(OlderRunner)
