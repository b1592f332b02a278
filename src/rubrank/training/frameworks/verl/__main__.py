"""`python -m verl.trainer.main_ppo`, with a good end for runs whose judges do not answer.

    python -m rubrank.training.verl trainer.v1.trainer_mode=rubrank_sync …        the arguments are verl's

Configuration, trainers and everything else are verl's, and rubrank's plug-ins in it. What it adds:

    a run that rubrank ends says why in one line, below what Ray has logged, and its exit code is 2
    it saves a checkpoint first: the v1 modes rubrank_… do so by themselves, verl's own modes are run as these where
    `RubricBarrier` is the reward manager, and so does verl's older trainer (`trainer.use_v1=false`)
"""

from __future__ import annotations

import sys
from typing import Any

from rubrank.errors import RubrankError
from rubrank.training.frameworks.verl.checkpoint import saving_mode

EXIT = 2
"""As of `rubrank train`."""

try:
    import hydra  # type: ignore[import-not-found, unused-ignore]
    from omegaconf import OmegaConf, open_dict  # type: ignore[import-not-found, unused-ignore]
except ImportError as error:
    if __name__ != "__main__":
        raise
    print(f"rubrank: this command needs verl 0.9.1: pip install 'rubrank[verl]' ({error})", file=sys.stderr)
    sys.exit(EXIT)


def told(error: BaseException | None) -> RubrankError | None:
    """The error of ours that another process raised; None: it is none of ours."""
    while error is not None:
        within = getattr(error, "cause", None)  # Ray's errors have the class of what they bring, and bring it here
        if isinstance(error, RubrankError) and within is None:
            return error
        error = within
    return None


def line(error: RubrankError) -> str:
    """What is said about it."""
    return " ".join([f"rubrank: {error}", *getattr(error, "__notes__", ())])


def run(config: Any, runner: Any = None) -> None:
    """What verl's `main_ppo` does. runner: a Ray actor class in the place of verl's."""
    from verl.trainer import main_ppo  # type: ignore[import-not-found, unused-ignore]
    from verl.utils.config import validate_config  # type: ignore[import-not-found, unused-ignore]
    from verl.utils.device import auto_set_device  # type: ignore[import-not-found, unused-ignore]

    auto_set_device(config)
    reference, critic = main_ppo.need_reference_policy(config), main_ppo.need_critic(config)
    validate_config(config=config, use_reference_policy=reference, use_critic=critic)
    if config.trainer.use_v1:
        _save_first(config)
    else:
        with open_dict(config):
            config.rubrank = OmegaConf.merge(config.get("rubrank") or {}, {"saving": True})
    main_ppo.run_ppo(config, task_runner_class=runner or _runner(config, main_ppo))


def _save_first(config: Any) -> None:
    mode, theirs = saving_mode(config), config.trainer.v1.trainer_mode
    if mode != theirs:
        print(f"rubrank: {mode} instead of {theirs}: it saves before a run ends for its judges", file=sys.stderr)
        with open_dict(config):
            config.trainer.v1.trainer_mode = mode


def _runner(config: Any, main_ppo: Any) -> Any:
    if config.trainer.use_v1:
        return main_ppo.TaskRunnerV1
    from rubrank.training.frameworks.verl.ray_trainer import Runner

    return Runner


def end(config: Any, runner: Any = None) -> None:
    """The run; an error of ours is one line and an exit code."""
    try:
        run(config, runner)
    except Exception as error:
        found = told(error)
        if found is None:
            raise
        print(line(found), file=sys.stderr)
        sys.exit(EXIT)


@hydra.main(config_path="pkg://verl.trainer.config", config_name="ppo_trainer", version_base=None)
def main(config: Any) -> None:
    """Hydra's entry."""
    end(config)


if __name__ == "__main__":
    main()
