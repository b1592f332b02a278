"""recipes/eight_gpus: what of it can be tried without a GPU."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml

pytest.importorskip("trl", reason="trl is not installed: pip install 'rubrank[trl]'")

from tiny import make

from rubrank.errors import InvalidInput
from rubrank.training.job import checks
from rubrank.training.job.config import load_job
from rubrank.training.job.data import split_batch
from rubrank.training.job.plan import make_plan
from rubrank.training.job.run import check_can_save, save_policy
from rubrank.training.job.trl_config import make_arguments

pytestmark = pytest.mark.slow  # importing TRL takes seconds
RECIPE = Path(__file__).parents[2] / "recipes" / "eight_gpus"
MEMORY = runpy.run_path(str(RECIPE / "memory.py"), run_name="memory")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return make(tmp_path_factory.mktemp("eight"))


def job(folder: Path, **trl: Any) -> Any:
    """The recipe's config with the tiny model."""
    config = yaml.safe_load((RECIPE / "config.yaml").read_text(encoding="utf-8"))
    config["model"]["path"] = "policy"
    config["trl"] |= {"model_init_kwargs": {"max_position_embeddings": 40_960}, **trl}  # as many as Qwen3-8B has
    (folder / "eight.yaml").write_text(yaml.safe_dump(config))
    return load_job(folder / "eight.yaml")


@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_the_config_becomes_trls(folder, monkeypatch, mode):
    monkeypatch.setattr(checks, "is_installed", lambda name: True)
    config = make_arguments(make_plan(job(folder, vllm_mode=mode)))  # what --dry-run does, in one process
    assert (config.use_vllm, config.vllm_mode, config.vllm_enable_sleep_mode) == (True, mode, True)
    assert config.gradient_checkpointing
    assert config.max_completion_length == 8192


@pytest.mark.parametrize("prompts_and_processes", [(128, 8), (126, 6)])
def test_batches_go_into_the_processes(folder, prompts_and_processes):
    prompts, world = prompts_and_processes
    config = job(folder).config
    training = config.training.model_copy(update={"prompts_per_batch": prompts})
    found = split_batch(training, config.held_out, world, "x")
    assert (found.rollouts, found.per_device, found.steps_per_generation) == (8 * prompts, 1, 8 * prompts // world)
    assert found.evaluated * world % 4 == 0


def test_without_vllm_the_remedy_is_named(folder, monkeypatch):
    monkeypatch.setattr(checks, "is_installed", lambda name: name != "vllm")
    with pytest.raises(InvalidInput, match=r"got no vllm\. pip install 'trl\[vllm\]'"):
        make_plan(job(folder))


@pytest.mark.parametrize(("name", "kind"), [("fsdp2.yaml", "FSDP"), ("zero3.yaml", "DEEPSPEED")])
def test_accelerate_reads_its_files(name, kind):
    from accelerate.commands.config.config_args import load_config_from_file

    found = load_config_from_file(str(RECIPE / name))
    assert (str(found.distributed_type).rpartition(".")[2], found.num_processes) == (kind, 8)


@pytest.mark.parametrize("tied", [True, False])
def test_counts_are_those_of_a_real_model(tied):
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    shape = MEMORY["Shape"](3, 32, 80, 4, 2, 16, 101, tied)
    config = Qwen3Config(
        vocab_size=101,
        hidden_size=32,
        intermediate_size=80,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        tie_word_embeddings=tied,
    )
    model = Qwen3ForCausalLM(config)  # in float32: half precision crashes some CPUs, and counting does not need it
    assert MEMORY["parameters"](shape) == sum(weight.numel() for weight in model.parameters())
    assert MEMORY["layer_parameters"](shape) == sum(weight.numel() for weight in model.model.layers[0].parameters())
    ids = torch.zeros((2, 7), dtype=torch.long)
    output = model(ids, use_cache=True)
    cached_numbers = sum(layer.keys.numel() + layer.values.numel() for layer in output.past_key_values.layers)
    assert MEMORY["cache_bytes"](shape) * ids.numel() == 2 * cached_numbers  # two bytes each in bfloat16
    logits = MEMORY["training"](shape, 1, 7, 2)["logits"] * MEMORY["GB"]
    assert logits == pytest.approx(10 * output.logits.numel())


def test_the_page_says_what_the_sums_are():
    text = (RECIPE / "README.md").read_text(encoding="utf-8")
    shape = MEMORY["QWEN3_8B"]
    assert f"{MEMORY['parameters'](shape):,}" in text
    assert f"{MEMORY['cache_bytes'](shape):,} bytes a token" in text
    trained, sampled = MEMORY["training"](shape, 8, 9216, 1), MEMORY["sampling"](shape, 8, 80.0, 0.45, 1)
    for size in (*trained.values(), sum(trained.values()), *sampled.values(), sum(sampled.values())):
        assert f"{size:.1f}" in text
    assert f"{MEMORY['rollouts_in'](sampled['cache'], shape, 9216, 1)} rollouts of full length" in text


def test_the_script_is_sound(tmp_path):
    import subprocess

    shutil.copy(RECIPE / "launch.sh", tmp_path / "launch.sh")
    assert subprocess.run(["bash", "-n", tmp_path / "launch.sh"], check=False).returncode == 0


# ------------------------------------------------------------------------------------------------------------- saving


class DividedTrainer:
    """As much of a trainer as transformers' own `save_model` uses when weights are divided over processes by FSDP."""

    is_fsdp_enabled = True
    is_deepspeed_enabled = False
    is_fsdp_xla_v1_enabled = False

    def __init__(self, weights: dict[str, Any], deepspeed_config: dict[str, Any] | None = None) -> None:
        from accelerate.utils import FullyShardedDataParallelPlugin

        self.model = None
        self.args = SimpleNamespace(output_dir="", should_save=True, push_to_hub=False)
        plugin = FullyShardedDataParallelPlugin(fsdp_version=2, state_dict_type="SHARDED_STATE_DICT")
        deepspeed = None if deepspeed_config is None else SimpleNamespace(deepspeed_config=deepspeed_config)
        state = SimpleNamespace(fsdp_plugin=plugin, deepspeed_plugin=deepspeed)
        self.accelerator = SimpleNamespace(state=state, get_state_dict=lambda model: weights)

    def is_world_process_zero(self) -> bool:
        return True

    def save_model(self, folder: str) -> None:
        from transformers import Trainer

        Trainer.save_model(self, folder, _internal_call=True)

    def _save(self, folder: str, state_dict: dict[str, Any]) -> None:
        from safetensors.torch import save_file

        Path(folder).mkdir(parents=True, exist_ok=True)
        (Path(folder) / "training_args.bin").write_bytes(b"no weights")
        if state_dict:
            save_file(state_dict, str(Path(folder) / "model.safetensors"))


def test_sharded_checkpoints_leave_a_policy_all_the_same(tmp_path):
    """transformers writes nothing at all with SHARDED_STATE_DICT, and does not say so."""
    import torch

    trainer = DividedTrainer({"weight": torch.arange(3.0)})
    trainer.save_model(str(tmp_path / "by_transformers"))
    assert not (tmp_path / "by_transformers").exists()
    save_policy(trainer, tmp_path / "model")
    from safetensors.torch import load_file

    assert load_file(tmp_path / "model" / "model.safetensors")["weight"].tolist() == [0.0, 1.0, 2.0]


def test_a_policy_without_weights_is_an_error(tmp_path):
    with pytest.raises(InvalidInput, match="saved with its weights; got none in"):
        save_policy(DividedTrainer({}), tmp_path / "model")


@pytest.mark.parametrize(("gathered", "is_refused"), [(None, True), (False, True), (True, False)])
def test_zero3_that_saves_no_weights_is_refused_before_the_run(folder, gathered, is_refused):
    zero = {"stage": 3}
    if gathered is not None:
        zero["stage3_gather_16bit_weights_on_model_save"] = gathered
    trainer = DividedTrainer({}, {"zero_optimization": zero})
    if is_refused:
        with pytest.raises(InvalidInput, match="zero3_save_16bit_model: true"):
            check_can_save(job(folder), trainer)
    else:
        check_can_save(job(folder), trainer)


def test_the_recipe_saves_whole_models():
    fsdp = yaml.safe_load((RECIPE / "fsdp2.yaml").read_text(encoding="utf-8"))["fsdp_config"]
    zero = yaml.safe_load((RECIPE / "zero3.yaml").read_text(encoding="utf-8"))["deepspeed_config"]
    assert (fsdp["fsdp_state_dict_type"], zero["zero3_save_16bit_model"]) == ("FULL_STATE_DICT", True)
