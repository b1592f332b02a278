"""recipes/eight_gpus: what of it can be tried without a GPU."""

from __future__ import annotations

import runpy
import shutil
from pathlib import Path
from typing import Any

import pytest
import yaml

pytest.importorskip("trl", reason="trl is not installed: pip install 'rubrank[trl]'")

from tiny import make

from rubrank.errors import InvalidInput
from rubrank.training.job import policy as policies
from rubrank.training.job.batches import split_batch
from rubrank.training.job.config import load_job
from rubrank.training.job.plan import make_plan
from rubrank.training.job.trl_arguments import make_arguments

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
    config["trl"] |= trl
    (folder / "eight.yaml").write_text(yaml.safe_dump(config))
    return load_job(folder / "eight.yaml")


@pytest.mark.parametrize("mode", ["colocate", "server"])
def test_the_config_becomes_trls(folder, monkeypatch, mode):
    monkeypatch.setattr(policies, "_is_installed", lambda name: True)
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
    monkeypatch.setattr(policies, "_is_installed", lambda name: name != "vllm")
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
