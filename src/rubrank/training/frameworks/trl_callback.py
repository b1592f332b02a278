"""The callback that saves what the rule of a `RubricReward` has learnt in TRL's checkpoints, and restores it.

    GRPOTrainer(…, reward_funcs=reward, callbacks=[reward.callback])

After every step the state of the engine is put into `TrainerState.stateful_callbacks` under "rubrank/<name>", so it is
part of the trainer_state.json of a checkpoint. A resumed run restores it in every process, and removes the records of
steps that it will repeat.
"""

from __future__ import annotations

import random
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from transformers import TrainerCallback

if TYPE_CHECKING:
    from rubrank.records.findings import Finding
    from rubrank.training.frameworks.trl import RubricReward


class RubricCallback(TrainerCallback):
    """Ties a reward function to its trainer; made by `RubricReward.callback`."""

    def __init__(self, reward: RubricReward) -> None:
        self.reward = reward

    @property
    def key(self) -> str:
        """The key of the engine's state in the trainer's state."""
        return f"rubrank/{self.reward.__name__}"

    @property
    def findings(self) -> list[Finding]:
        """What to change about the run: up to three findings, most important first."""
        return self.reward.engine.findings.latest

    def on_init_end(
        self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any
    ) -> None:
        """Tell the reward function about the trainer."""
        if model is not None and hasattr(args, "num_generations"):
            self.reward.attach(args, model)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Continue from the checkpoint, if there is one."""
        engine = self.reward.engine
        if not state.global_step:
            if state.is_world_process_zero:
                engine.drop_half_record()
            return
        saved = state.stateful_callbacks.get(self.key)
        if saved is not None:
            engine.load_state_dict(saved)
        elif engine.remembers:
            message = (
                f"the checkpoint lacks the state of {engine.rule.name!r}, which starts without one"
            )
            warnings.warn(f"{self.key}: {message}", RuntimeWarning, stacklevel=2)
        if state.is_world_process_zero:
            engine.rewind(state.global_step)

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Remember the random state, because a step that fails for lack of judges is repeated from here."""
        self.reward.rewind_random_state = RandomState().restore

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Update the saved state, because a checkpoint may follow. An alarm may end the run here, with a checkpoint."""
        if self.reward.engine.alarm_stops:
            control.should_training_stop = True
            control.should_save = True
        state.stateful_callbacks[self.key] = self.reward.engine.state_dict()

    def on_save(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Wait until all records are on disk: a run that is resumed from this checkpoint does not write them again."""
        self.reward.engine.finish_records()

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Wait until all records are on disk, and log the last findings."""
        self.reward.engine.finish_records()
        if state.is_world_process_zero:
            self.reward.engine.log_last_findings(state.global_step)


class RandomState:
    """A snapshot of all random generators that sampling draws from."""

    def __init__(self) -> None:
        import torch

        self._python = random.getstate()
        self._numpy = np.random.get_state()
        self._torch = torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None

    def restore(self) -> None:
        """Set the generators back to the snapshot."""
        import torch

        random.setstate(self._python)
        np.random.set_state(self._numpy)
        torch.set_rng_state(self._torch)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)
