"""`python -m verl.trainer.main_ppo` with a checkpoint and a clear message if the judges do not answer.

    python -m rubrank.training.verl trainer.v1.trainer_mode=rubrank_sync …        the arguments are verl's

Configuration, trainers and everything else are verl's, with rubrank's plug-ins. Two things are added:

    If rubrank ends the run, the reason is printed in one line below the log of Ray, and the exit code is 2.
    A checkpoint is saved first, in the modes rubrank_…. With the reward manager `RubricBarrier`, verl's own modes are
    replaced by ours.
"""

from __future__ import annotations

import sys
from typing import Any

from rubrank.errors import InvalidInput, RubrankError
from rubrank.training.frameworks.verl.checkpoint import choose_mode

EXIT_CODE = 2
"""The same exit code as that of `rubrank train`."""

try:
    import hydra  # type: ignore[import-not-found, unused-ignore]
    from omegaconf import open_dict  # type: ignore[import-not-found, unused-ignore]
except ImportError as error:
    if __name__ != "__main__":
        raise
    print(
        f"rubrank: this command needs verl 0.9.1: pip install 'rubrank[verl]' ({error})",
        file=sys.stderr,
    )
    sys.exit(EXIT_CODE)


def find_own_error(error: BaseException | None) -> RubrankError | None:
    """Return the error of rubrank behind an error of Ray; None if there is none."""
    while error is not None:
        # An error of Ray is also an instance of the original's class; the original itself is its `cause`.
        cause = getattr(error, "cause", None)
        if isinstance(error, RubrankError) and cause is None:
            return error
        error = cause
    return None


def run(config: Any, runner: Any = None) -> None:
    """Do what verl's `main_ppo` does, with our trainer if that saves a checkpoint where verl's would not.

    runner: a Ray actor class instead of verl's.
    """
    from verl.trainer import main_ppo  # type: ignore[import-not-found, unused-ignore]
    from verl.utils.config import validate_config  # type: ignore[import-not-found, unused-ignore]
    from verl.utils.device import auto_set_device  # type: ignore[import-not-found, unused-ignore]

    auto_set_device(config)
    validate_config(
        config=config,
        use_reference_policy=main_ppo.need_reference_policy(config),
        use_critic=main_ppo.need_critic(config),
    )
    if not config.trainer.use_v1:
        raise InvalidInput("verl", "trainer.use_v1", allowed="true with rubrank", got="false")
    mode = choose_mode(config)
    verl_mode = config.trainer.v1.trainer_mode
    if mode != verl_mode:
        message = f"rubrank: using {mode} instead of {verl_mode}: it saves a checkpoint if the judges fail"
        print(message, file=sys.stderr)
        with open_dict(config):
            config.trainer.v1.trainer_mode = mode
    main_ppo.run_ppo(config, task_runner_class=runner or main_ppo.TaskRunnerV1)


def run_or_exit(config: Any, runner: Any = None) -> None:
    """Do what `run` does; an error of rubrank becomes one line and an exit code."""
    try:
        run(config, runner)
    except Exception as error:
        own_error = find_own_error(error)
        if own_error is None:
            raise
        notes = getattr(own_error, "__notes__", ())
        print(" ".join([f"rubrank: {own_error}", *notes]), file=sys.stderr)
        sys.exit(EXIT_CODE)


@hydra.main(config_path="pkg://verl.trainer.config", config_name="ppo_trainer", version_base=None)
def main(config: Any) -> None:
    """Run with the configuration that Hydra makes of the command line."""
    run_or_exit(config)


if __name__ == "__main__":
    main()
