"""What a run with `RubricReward` keeps between its steps: the memory of rules that learn, in the trainer's state.

    GRPOTrainer(…, reward_funcs=reward, callbacks=[reward.callback])

Before a checkpoint is written the memory is put into `TrainerState.stateful_callbacks`, under "rubrank/<name>", so it
stands in the checkpoint's trainer_state.json. A run that is resumed takes it from there, in every process, and the
records of steps that are made again are taken away.
"""

from __future__ import annotations

import random
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from transformers import TrainerCallback

if TYPE_CHECKING:
    from rubrank.training.frameworks.trl import RubricReward


_PLACE = "records"


class RubricCallback(TrainerCallback):
    """Ties a reward function to its trainer; made by `RubricReward.callback`."""

    def __init__(self, reward: RubricReward) -> None:
        self.reward = reward

    @property
    def key(self) -> str:
        """Under which the state is kept."""
        return f"rubrank/{self.reward.__name__}"

    def on_init_end(self, args: Any, state: Any, control: Any, model: Any = None, **kwargs: Any) -> None:
        """Let the reward function know the run."""
        if model is not None and hasattr(args, "num_generations"):
            self.reward.attach(args, model)

    def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Go on from the checkpoint, if there is one."""
        if not state.global_step:
            if state.is_world_process_zero:
                self.reward.engine.drop_half_record()
            return
        engine, saved = self.reward.engine, state.stateful_callbacks.get(self.key)
        if saved is not None:
            engine.load_state_dict(saved)
        elif engine.remembers:
            message = f"the checkpoint lacks the state of {engine.rule.name!r}, which starts afresh"
            warnings.warn(f"{self.key}: {message}", RuntimeWarning, stacklevel=2)
        if state.is_world_process_zero:
            engine.rewind(state.global_step, (saved or {}).get(_PLACE))

    def on_step_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Remember the state of chance: a step that judges end in the middle is made again from here."""
        self.reward.rewound = RandomState()

    def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """Have the state ready: a checkpoint may follow."""
        state.stateful_callbacks[self.key] = self.reward.engine.state_dict()
        self._place(state, control)

    def on_evaluate(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """The same: what was evaluated comes before a checkpoint."""
        self._place(state, control)

    def _place(self, state: Any, control: Any) -> None:
        """Before a checkpoint: a run that goes on from there has the records of all steps before, and none after."""
        if control.should_save and state.is_world_process_zero:
            saved = state.stateful_callbacks.get(self.key) or self.reward.engine.state_dict()
            state.stateful_callbacks[self.key] = {**saved, _PLACE: self.reward.engine.records_place()}

    def on_train_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
        """All records are on disk when training is over."""
        self.reward.engine.finish_records()


class RandomState:
    """Of all generators that sampling draws from, at the moment when it is made; calling it brings them back."""

    def __init__(self) -> None:
        import torch

        self._python, self._numpy, self._torch = random.getstate(), np.random.get_state(), torch.get_rng_state()
        self._cuda = torch.cuda.get_rng_state_all() if torch.cuda.is_available() else None

    def __call__(self) -> None:
        """Bring them back."""
        import torch

        random.setstate(self._python)
        np.random.set_state(self._numpy)
        torch.set_rng_state(self._torch)
        if self._cuda is not None:
            torch.cuda.set_rng_state_all(self._cuda)
