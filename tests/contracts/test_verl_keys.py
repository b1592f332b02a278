"""What the verl plug-ins and docs/verl.md rely on in verl 0.9.1. Skipped unless verl is installed; see docs/verl.md.

A release that changes one of these fails here, by name, instead of training on other rewards.
"""

from __future__ import annotations

import inspect
import re
import shlex
import sys
from pathlib import Path

import pytest

_WHY = "verl is not installed: pip install verl==0.9.1 TransferQueue (see docs/verl.md)"
pytest.importorskip("verl", reason=_WHY, exc_type=ImportError)
pytest.importorskip("transfer_queue", reason=_WHY, exc_type=ImportError)
pytestmark = pytest.mark.filterwarnings("default")  # theirs are not ours to mend

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "tests" / "training"))

from rubrank.training.frameworks.verl.settings import Settings  # noqa: E402


def documented() -> list[str]:
    """The arguments of the command in docs/verl.md."""
    text = (ROOT / "docs" / "verl.md").read_text(encoding="utf-8")
    command = re.search(r"^python -m rubrank\.training\.verl.*?(?=^```)", text, re.MULTILINE | re.DOTALL)
    assert command is not None
    return shlex.split(command[0].replace("\\\n", " "))[3:]


def composed(overrides: list[str]):
    import verl.trainer
    from hydra import compose, initialize_config_dir

    with initialize_config_dir(str(Path(verl.trainer.__file__).parent / "config"), version_base=None):
        return compose("ppo_trainer", overrides=overrides)


def test_the_documented_command_has_keys_that_verl_knows():
    """Hydra refuses a key that is not in verl's files, unless it begins with +."""
    arguments = documented()
    assert {one.partition(".")[0] for one in arguments if one.startswith("+")} == {"+rubrank"}
    config = composed(arguments)
    assert config.trainer.use_v1
    assert config.trainer.v1.trainer_mode == "rubrank_sync"
    assert config.actor_rollout_ref.actor.policy_loss.loss_mode == "gspo"
    with pytest.raises(Exception, match="no_such_key"):
        composed([*arguments, "reward.no_such_key=1"])


def test_verl_accepts_the_documented_command():
    from verl.trainer.ppo.utils import need_critic, need_reference_policy
    from verl.utils.config import validate_config

    config = composed(documented())
    assert not need_critic(config)
    validate_config(config, use_reference_policy=need_reference_policy(config), use_critic=False)


def test_we_understand_the_documented_command():
    settings = Settings.read(composed(documented()))
    assert settings.reward.rule == "rlvr2+"
    assert settings.reward.records == "/shared/run-1/records.jsonl"
    markdown, length = settings.reward.attributes
    assert (markdown.name, length.name, length.attenuate) == ("markdown", "reasoning_length", 0.5)
    assert length.start_step(None) == 700


def test_the_documented_manager_is_the_one_that_verl_loads():
    from verl.trainer.ppo.reward import resolve_reward_manager_cls

    from rubrank.training.frameworks.verl.reward_loop import RubricBarrier, RubricScores

    assert resolve_reward_manager_cls(composed(documented())) is RubricScores
    config = composed([*documented(), "reward.reward_manager.name=RubricBarrier"])
    assert resolve_reward_manager_cls(config) is RubricBarrier


@pytest.mark.parametrize(
    ("method", "parameters"),
    [
        ("_compute_advantage", ["self", "batch", "metrics"]),
        ("_init_dataloader", ["self"]),
        ("_save_checkpoint", ["self"]),
        ("_load_checkpoint", ["self"]),
    ],
)
def test_methods_that_we_extend(method, parameters):
    from verl.trainer.ppo.v1 import PPOTrainer

    assert list(inspect.signature(getattr(PPOTrainer, method)).parameters) == parameters


def test_data_are_looked_at_before_models_are_loaded():
    from verl.trainer.ppo.v1 import PPOTrainer

    source = inspect.getsource(PPOTrainer._setup)
    assert source.index("_init_dataloader()") < source.index("init_model()")


def test_rays_limit_of_calls_in_a_worker():
    from ray._common.ray_constants import DEFAULT_MAX_CONCURRENCY_ASYNC

    from rubrank.training.frameworks.verl import reward_loop as verl_reward_loop

    assert verl_reward_loop.WORKER_CALLS == DEFAULT_MAX_CONCURRENCY_ASYNC
