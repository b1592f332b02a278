"""Whatever TRL, PEFT and transformers take goes through a config; what they would not take is one line, beforehand."""

from __future__ import annotations

import sys
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytest.importorskip("trl", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytest.importorskip("peft", reason="PEFT is not installed: pip install peft")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # importing TRL takes seconds, and warns

from training import tiny  # noqa: E402
from typer.testing import CliRunner  # noqa: E402

from rubrank.errors import InvalidInput  # noqa: E402
from rubrank.training.job import checks, policy  # noqa: E402
from rubrank.training.job.checks import load_components  # noqa: E402
from rubrank.training.job.plan import make_plan  # noqa: E402
from rubrank.training.job.policy import (  # noqa: E402
    make_init_kwargs,
    make_lora_config,
    make_quantization,
)
from rubrank.training.job.trl_config import DECIDED_ELSEWHERE, make_arguments, read_trl_arguments  # noqa: E402

TOOLS = '''
"""Tools for a test."""

number = 3


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: One.
        b: The other.
    """
    return a + b


def undescribed(a, b):
    return a + b


class World:
    def reset(self, **kwargs):
        return None


def sample(prompts, trainer):
    raise RuntimeError("never called here")
'''


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return tiny.make(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def folder(made, tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = tiny.copy_without_weights(made, tmp_path / "job")
    (folder / "tools_of_a_test.py").write_text(TOOLS)
    (folder / "broken_of_a_test.py").write_text("1 / 0\n")
    yield folder
    for name in ("tools_of_a_test", "broken_of_a_test"):
        sys.modules.pop(name, None)


# ------------------------------------------------------------------------------------------------------ every argument


def test_every_argument_of_grpo_config_is_taken_or_refused_with_a_reason(folder):
    from trl import GRPOConfig

    taken: dict[str, Any] = {}
    for field in fields(GRPOConfig):
        if not field.init or field.name in DECIDED_ELSEWHERE:
            continue
        taken[field.name] = field.default_factory() if field.default is MISSING else field.default
        taken[field.name] = getattr(taken[field.name], "value", taken[field.name])
    expected = {name: value for name, value in taken.items() if name != "model_init_kwargs"}
    assert read_trl_arguments(tiny.job(folder, trl=taken)) == expected
    names = {field.name for field in fields(GRPOConfig) if field.init}
    assert all(reason.endswith(".") and len(reason) > 10 for reason in DECIDED_ELSEWHERE.values())
    assert set(DECIDED_ELSEWHERE) - names == {"prompts_per_batch", "updates_per_batch"}  # keys of ours, under training
    for name in sorted(DECIDED_ELSEWHERE.keys() & names):
        with pytest.raises(InvalidInput, match=rf"trl\.{name} must be left out"):
            make_plan(tiny.job(folder, trl={name: 1}))


def test_what_is_given_arrives(folder):
    given = {
        "gradient_checkpointing": False,
        "top_k": 20,
        "min_p": 0.1,
        "adam_epsilon": "1e-7",  # as YAML reads it
        "chat_template_kwargs": {"enable_thinking": False},
        "mask_truncated_completions": True,
        "vllm_importance_sampling_mode": "token_mask",
        "logging_strategy": "steps",
        "hub_strategy": "end",
        "log_level": "error",
    }
    found = make_arguments(make_plan(tiny.job(folder, trl=given)))
    assert {name: getattr(found, name) for name in given} == {**given, "adam_epsilon": 1e-7}


# ------------------------------------------------------------------------------------------------- forty wrong configs

INIT = "trl.model_init_kwargs"
WRONG: list[tuple[dict[str, Any], str]] = [
    (
        {"trl__hub_strategy": "sometimes"},
        "trl must be what TRL's GRPOConfig takes; got sometimes is not a va",
    ),
    (
        {"trl__logging_strategy": "step"},
        "trl must be what TRL's GRPOConfig takes; got step is not a valid I",
    ),
    ({"trl__ddp_backend": "glo"}, "trl must be what TRL's GRPOConfig takes; got Default process group"),
    ({"trl__top_k": 2.5}, "trl.top_k must be a whole number; got 2.5"),
    ({"trl__min_p": "small"}, "trl.min_p must be a number; got 'small'. See `rubrank help train`."),
    ({"trl__gradient_checkpointing": "maybe"}, "trl.gradient_checkpointing must be true or false; got 'maybe'"),
    ({"trl__adam_beta1": 1.0}, "training.optim must be one that can be made; got Invalid beta parameter at ind"),
    ({"trl__adam_epsilon": float("nan")}, "trl.adam_epsilon must be a finite number; got nan"),
    (
        {"trl__chat_template_kwargs": [1]},
        "trl.chat_template_kwargs must be keys and values or a text; got [1]. See `rubr",
    ),
    (
        {"trl__auto_find_batch_size": True},
        "trl must be what TRL's GRPOConfig takes; got auto_find_batch_size",
    ),
    ({"trl__log_completions_hub_repo": "a/b"}, "log_completions_hub_repo is set, but log_completions is False"),
    ({"trl__vllm_importance_sampling_clip_min": 5.0}, "must be less than vllm_importance_sampling_clip_max"),
    (
        {"trl__deepspeed": "zero3.json"},
        "the config must be runnable with what is installed; got no deepspeed. pip inst",
    ),
    ({"trl__hub_token": "secret"}, "Set HF_TOKEN in the environment"),
    ({"trl__resume_from_checkpoint": "x"}, "Use `resume=true`."),
    ({"trl__num_generations_eval": 4}, "It follows from held_out."),
    ({"trl__model_init_kwargs": "sdpa"}, f"{INIT} must be a mapping; got 'sdpa'"),
    ({"trl__model_init_kwargs": {"dtype": "bfloat16"}}, "It has its own key: model.dtype."),
    (
        {"trl__model_init_kwargs": {"quantization_config": "4bit"}},
        "trl.model_init_kwargs.quantization_config must be one that transformers takes;",
    ),
    ({"trl__model_init_kwargs": {"quantization_config": {"bits": 4}}}, "must be one that transformers takes"),
    ({"trl__use_vllm": True}, "got no vllm. pip install 'trl[vllm]', or leave trl.use_vllm out."),
    ({"model__lora": {"use_dorra": True}}, "Did you mean 'use_dora'?"),
    (
        {"model__lora": {"bias": "some"}},
        "model.lora.bias must be one of 'none', 'all', 'lora_only'; got 'some'. See `ru",
    ),
    ({"model__lora": {"lora_alpha": 8, "alpha": 8}}, "model.lora.lora_alpha must be given without alpha; got both"),
    (
        {"model__lora": {"task_type": "SEQ_CLS"}},
        "model.lora.task_type must be left out (unknown key); got 'SEQ_CLS'. Known: r,",
    ),
    (
        {"model__lora": {"lora_dropout": 1.5}},
        "model.lora must be adapters that fit the model; got dropout probability has to",
    ),
    ({"report_to": ["tensorbord"]}, "tensorbord"),
    (
        {"imports": ["none_of_these"]},
        "imports must be what can be imported, such as my_tools.search; got 'none_of_these'",
    ),
    ({"imports": ["broken_of_a_test"]}, "ZeroDivisionError('division by zero')"),
    ({"tools": ["add"]}, "tools.0 must be what can be imported, such as my_tools.search; got 'add'"),
    ({"tools": ["tools_of_a_test.ad"]}, "got 'tools_of_a_test.ad' (Invalid python path: No module named"),
    ({"tools": ["tools_of_a_test.number"]}, "tools.0 must be a function or a class; got tools_of_a_test.number: int"),
    ({"tools": ["tools_of_a_test.undescribed"]}, "Give it types, and a docstring with `Args:`."),
    ({"tools": ["tools_of_a_test.add"]}, "tools must be left out for a model whose chat template has no tools"),
    ({"environments": "tools_of_a_test.Word"}, "got 'tools_of_a_test.Word' (Invalid python path: No module named"),
    ({"environments": {"shop": "tools_of_a_test.World"}}, "environment must be one of"),
    ({"rollout": "tools_of_a_test.smple"}, "got 'tools_of_a_test.smple' (Invalid python path: No module named"),
]


@pytest.mark.parametrize(("changes", "said"), WRONG, ids=[said[:50] for _, said in WRONG])
def test_wrong_settings_are_one_line(folder, changes, said, monkeypatch):
    absent = ("vllm", "flash_attn")
    found = checks.find_spec
    monkeypatch.setattr(checks, "find_spec", lambda name: None if name in absent else found(name))
    with pytest.raises(InvalidInput) as raised:
        make_plan(tiny.job(folder, **changes))
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_the_verb_says_it_in_one_line(folder):
    from rubrank.cli.app import app

    job = tiny.job(folder, trl__top_k=2.5)
    result = CliRunner().invoke(app, ["train", str(job.file), "--dry-run"])
    assert result.exit_code == 2
    assert result.stderr.count("\n") == 1
    assert "trl.top_k must be a whole number; got 2.5" in result.stderr


# ------------------------------------------------------------------------------------- models, adapters, dotted paths


def test_how_the_model_is_loaded(folder, monkeypatch):
    monkeypatch.setattr(checks, "find_spec", lambda name: name)
    monkeypatch.setattr(policy, "has_accelerator", lambda: True)
    wanted = {"load_in_4bit": True, "bnb_4bit_compute_dtype": "bfloat16"}
    given = {"attn_implementation": "sdpa", "revision": "main", "quantization_config": wanted}
    job = tiny.job(folder, trl__model_init_kwargs=given, model__dtype="bfloat16")
    plan = make_plan(job)
    assert make_init_kwargs(job) == {"dtype": "bfloat16", "attn_implementation": "sdpa", "revision": "main"}
    assert make_arguments(plan).model_init_kwargs == make_init_kwargs(job)
    assert make_quantization(job).load_in_4bit
    assert make_quantization(tiny.job(folder)) is None


@pytest.mark.parametrize("dtype", ["bfloat16", "float16", "auto"])
def test_without_a_gpu_the_weights_are_float32_and_the_plan_says_so(folder, monkeypatch, dtype):
    monkeypatch.setattr(policy, "has_accelerator", lambda: False)
    monkeypatch.setenv("ACCELERATE_MIXED_PRECISION", "bf16")
    plan = make_plan(tiny.job(folder, model__dtype=dtype, trl__bf16=True, trl__bf16_full_eval=True))
    described = plan.describe()
    policy.overrule_launcher(plan.job)
    config = make_arguments(plan)
    assert config.model_init_kwargs["dtype"] == "float32"
    assert (config.bf16, config.fp16, config.bf16_full_eval, config.mixed_precision) == (False, False, False, "no")
    assert f"float32 instead of model.dtype {dtype}, trl.bf16, trl.bf16_full_eval, accelerate's" in described
    assert "no GPU, and half precision crashes some CPUs" in described


def test_a_null_is_no_half_precision_either(folder):
    """TRL reads `bf16: null` as true."""
    config = make_arguments(make_plan(tiny.job(folder, trl__bf16=None)))
    assert (config.bf16, config.mixed_precision) == (False, "no")


@pytest.mark.parametrize(
    ("settings", "bf16"),
    [({}, True), ({"trl__fp16": True}, False), ({"trl__fp16": False}, True), ({"trl__bf16": False}, False)],
)
def test_fp16_on_a_gpu_that_can_use_bf16_turns_bf16_off(folder, monkeypatch, settings, bf16):
    """GRPOConfig refuses both together, and only fp16 was asked for. No GPU is needed: the arguments are looked at."""
    from trl import GRPOConfig

    class UncheckedConfig(GRPOConfig):
        """Keeps its arguments, and looks for no GPU."""

        def __init__(self, **arguments: Any) -> None:
            self.arguments = arguments

    plan = make_plan(tiny.job(folder, **settings))
    monkeypatch.setattr(policy, "has_accelerator", lambda: True)
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)
    monkeypatch.setattr("torch.cuda.is_bf16_supported", lambda: True)
    monkeypatch.setattr("trl.GRPOConfig", UncheckedConfig)
    arguments = make_arguments(plan).arguments
    assert arguments["bf16"] is bf16
    assert not (arguments["bf16"] and arguments.get("fp16"))


@pytest.mark.parametrize("chosen_by", ["config", "launcher"])
def test_a_run_on_the_cpu_of_a_machine_with_a_gpu_is_float32(folder, monkeypatch, chosen_by):
    monkeypatch.setattr(policy, "has_accelerator", lambda: True)
    settings: dict[str, Any] = {"model__dtype": "bfloat16", "trl__bf16": True}
    if chosen_by == "config":
        settings["trl__use_cpu"] = True
    else:
        monkeypatch.setenv("ACCELERATE_USE_CPU", "True")
    plan = make_plan(tiny.job(folder, **settings))
    config = make_arguments(plan)
    assert (config.model_init_kwargs["dtype"], config.bf16) == ("float32", False)
    assert "float32 instead of model.dtype bfloat16, trl.bf16: the run is on the CPU" in plan.describe()


def test_with_a_gpu_the_precision_is_the_one_in_the_config(folder, monkeypatch):
    monkeypatch.setattr(policy, "has_accelerator", lambda: True)
    plan = make_plan(tiny.job(folder, model__dtype="bfloat16"))
    assert "bfloat16" in plan.describe()
    assert "instead of" not in plan.describe()


def test_options_of_peft(folder):
    more = {"use_rslora": True, "rank_pattern": {"q_proj": 4}, "lora_alpha": 8, "target_modules": ["q_proj"]}
    job = tiny.job(folder, model__lora={"r": 2, "dropout": "1e-1", **more})
    make_plan(job)
    found = make_lora_config(job)
    assert (found.r, found.lora_alpha, found.lora_dropout, found.use_rslora) == (2, 8, 0.1, True)
    assert (found.target_modules, found.rank_pattern) == ({"q_proj"}, {"q_proj": 4})


def test_dotted_paths(folder):
    job = tiny.job(
        folder,
        imports=["tools_of_a_test"],
        tools=["tools_of_a_test.add", "tools_of_a_test:add"],
        environments={"a": "tools_of_a_test.World"},
        rollout="tools_of_a_test.sample",
    )
    sys.path.append(str(folder))
    found = load_components(job)
    assert found.tools is not None
    assert [tool(1, 2) for tool in found.tools] == [3]  # named twice, passed on once
    assert found.environments["a"]().reset() is None
    assert found.rollout.__name__ == "sample"
    assert load_components(tiny.job(folder, imports=None, tools=None, environments=None, rollout=None)).tools is None


def test_any_logger_that_transformers_knows(folder, monkeypatch):
    monkeypatch.setattr(checks, "find_spec", lambda name: name)
    for name in ("mlflow", "swanlab", "clearml", "dvclive"):
        assert make_plan(tiny.job(folder, report_to=name)).job.config.report_to == (name,)
    assert make_plan(tiny.job(folder, report_to="none")).job.config.report_to == ()
