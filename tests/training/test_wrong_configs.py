"""Configs that a trainer would only refuse after loading the model, or never: each is one line, beforehand."""

from __future__ import annotations

import json
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytest.importorskip("trl", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytest.importorskip("peft", reason="PEFT is not installed: pip install peft")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # importing TRL takes seconds, and warns

from training import tiny  # noqa: E402

from rubrank._plain import word_set  # noqa: E402
from rubrank.errors import InvalidInput  # noqa: E402
from rubrank.training.job import checks, policy  # noqa: E402
from rubrank.training.job.config import load_job  # noqa: E402
from rubrank.training.job.plan import make_plan  # noqa: E402
from rubrank.training.job.policy import HALF_PRECISION_FLAGS  # noqa: E402
from rubrank.training.job.trl_config import DECIDED_ELSEWHERE, make_arguments  # noqa: E402

MODULE = '''
class World:
    def reset(self, **kwargs):
        return None

    def look(self, place: str) -> str:
        """Look at a place.

        Args:
            place: Where.
        """
        return place


class NoReset:
    def look(self):
        return 1


class ResetsNothing:
    def reset(self):
        return None


class NeedsSize:
    def __init__(self, size):
        self.size = size

    def reset(self, **kwargs):
        return None


class Undescribed:
    def reset(self, **kwargs):
        return None

    def look(self, place):
        return place


def add(a: int) -> int:
    """Add one.

    Args:
        a: A number.
    """
    return a + 1


def other(a: int) -> int:
    """Add two.

    Args:
        a: A number.
    """
    return a + 2


other.__name__ = "add"


def make_world():
    return World()


def sample(prompts, trainer):
    return {}


def of_prompts(prompts):
    return {}


def of_three(prompts, trainer, more):
    return {}


async def later(prompts, trainer):
    return {}


class Sampler:
    def __init__(self, prompts, trainer):
        self.prompts = prompts

    def __call__(self, prompts, trainer):
        return {}


sampler = Sampler([], None)
'''

FILES = {
    "parts_of_a_test.py": MODULE,
    "leaves_of_a_test.py": "raise SystemExit(0)\n",
    "text.jsonl": '{"prompt": "a", "rubric": "none_of_these.yaml"}\n',
    "twice.jsonl": '{"prompt": "same"}\n' * 3,
    "judges_without.yaml": "judges: [{name: a}]\n",
    "bench/ifeval.jsonl": json.dumps(
        {"key": 1, "prompt": "x", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
    ),
}


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return tiny.make(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def folder(made, tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(sys, "path", [*sys.path])
    folder = tiny.copy_without_weights(made, tmp_path / "job")
    for name, text in FILES.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)
    yield folder
    for name in ("parts_of_a_test", "leaves_of_a_test"):
        sys.modules.pop(name, None)


def stage(**changes: Any) -> list[dict[str, Any]]:
    return [{"steps": 4, "sources": [{"path": "prompts.jsonl"}], **changes}]


INIT, INF = "trl.model_init_kwargs", float("inf")
EVALUATE = {"benchmarks": ["ifeval"], "data": "bench"}
WORLD = "parts_of_a_test.World"
BEST = {"trl__load_best_model_at_end": True, "training__save_steps": 15}
WRONG: list[tuple[dict[str, Any], str]] = [
    # GRPOConfig: optimizer, schedule, data loader, computing
    (
        {"training__optim": "adamw_bnb_8bit"},
        "training.optim must be one that can be made; got You need to install `bitsandb",
    ),
    ({"training__optim": "lomo"}, "training.optim must be one that can be made; got You need to install `lomo_opt"),
    (
        {"training__optim": "nothing_like_it"},
        "trl must be what TRL's GRPOConfig takes; got nothing_like_it is no",
    ),
    (
        {"trl__optim_args": "betas=1,eps"},
        "training.optim must be one that can be made; got not enough values to unpack (",
    ),
    (
        {"training__lr_scheduler_type": "cosine_with_min_lr"},
        "training.lr_scheduler_type must be one that can be made; got One of min_lr or",
    ),
    ({"training__lr_scheduler_type": "warmup_stable_decay"}, "missing 1 required positional argument: 'num_decay_"),
    (
        {"training__lr_scheduler_type": "polynomial", "trl__lr_scheduler_kwargs": {"pover": 2}},
        "training.lr_scheduler_type must be one that can be made; got get_polynomial_de",
    ),
    (
        {**BEST, "trl__metric_for_best_model": "acuracy"},
        "trl.metric_for_best_model must be one of 'aux_loss', 'benchmark', 'clip_ratio'",
    ),
    ({"trl__use_liger_kernel": True}, "got no liger_kernel. pip install liger-kernel, or leave trl.use_liger_kernel"),
    ({"trl__deepspeed": {"zero_optimization": {"stage": 3}}}, "got no deepspeed. pip install deepspeed, or leave"),
    (
        {"trl__trackio_static_space_id": True},
        "trl.trackio_static_space_id must be a text or one of False; got True. See `rub",
    ),
    # sampling
    (
        {"trl__generation_kwargs": {"max_new_tokens": 3}},
        "trl.generation_kwargs.max_new_tokens must be left out; got 3. It follows from",
    ),
    (
        {"trl__generation_kwargs": {"num_return_sequences": 2}},
        "trl.generation_kwargs.num_return_sequences must be left out; got 2",
    ),
    (
        {"trl__generation_kwargs": {"do_sample": False}},
        "trl.generation_kwargs.do_sample must be left out; got False. It follows from t",
    ),
    ({"trl__generation_kwargs": {"typical_q": 0.9}}, "got 'typical_q'. Did you mean 'typical_p'?"),
    (
        {"trl__generation_kwargs": {"early_stopping": "soon"}},
        "trl.generation_kwargs must be one that can be made; got `early_stopping` must",
    ),
    # the hub
    # how the model is loaded
    (
        {"trl__model_init_kwargs": {"subfolder": "none"}},
        "none without *.safetensors",
    ),
    ({"trl__model_init_kwargs": {"gguf_file": "x.gguf"}}, "without x.gguf"),
    (
        {"trl__model_init_kwargs": {"hidden_size": "big"}},
        "model.path must be a folder, or a name on the hub, that can be read with trl.m",
    ),
    ({"model__path": ""}, "model.path must be a text that is not empty"),
    ({"trl__model_init_kwargs": {"trust_remote_code": "no"}}, f"{INIT}.trust_remote_code must be true or false"),
    # adapters
    (
        {"model__lora": {"targets": ["q_prj"]}},
        "model.lora must be adapters that fit the model; got Target modules {'q_prj'} n",
    ),
    (
        {"model__lora": {"targets": ["q_proj", "nope"]}},
        "model.lora must be for modules that the model has; got 'nope'.",
    ),
    ({"model__lora": {"targets": "nope"}}, "model.lora must be adapters that fit the model; got Target modules nope"),
    ({"model__lora": {"targets": []}}, "model.lora must be adapters that fit the model"),
    ({"model__lora": {"targets": "("}}, "model.lora must be adapters that fit the model; got missing )"),
    ({"model__lora": {"targets": 3}}, "model.lora.targets must be a text or a list; got 3"),
    (
        {"model__lora": {"modules_to_save": ["embed"]}},
        "model.lora must be for modules that the model has; got 'embed'.",
    ),
    ({"model__lora": {"rank_pattern": {"q_proj": 0}}}, "`r` should be a positive integer value"),
    ({"model__lora": {"targets": ["q_proj"], "layers_to_transform": [99]}}, "'layers_to_transform': [99]"),
    ({"model__lora": {"layer_replication": [[0, 9]]}}, "model.lora must be adapters that fit the model"),
    (
        {"model__lora": {"eva_config": {"nope": 1}}},
        "model.lora.eva_config.nope must be valid (Unexpected keyword argument); got 1.",
    ),
    # loggers
    ({"report_to": ["none", "tensorboard"]}, "report_to must be one of"),
    ({"report_to": ["TensorBoard"]}, "Did you mean 'tensorboard'?"),
    ({"report_to": ["all", "wandb"]}, "report_to must be one of"),
    ({"report_to": [{"wandb": 1}]}, "report_to.0 must be a text"),
    # what is named by a dotted path
    (
        {"imports": ["leaves_of_a_test"]},
        "imports must be what can be imported, such as my_tools.search; got 'leaves_of_a_test' (Syst",
    ),
    (
        {"tools": ["parts_of_a_test.World"]},
        "tools.0 must be a function that can be described to a model; got parts_of_a_test.W",
    ),
    (
        {"tools": ["parts_of_a_test.add", "parts_of_a_test.other"]},
        "names of tools must be different; got two tools named 'add'",
    ),
    ({"environments": {}}, "environments must be a text or a list of at least 1; got {}"),
    ({"environments": [WORLD]}, "environments must be a text or keys and values"),
    ({"environments": {"a": 3}}, "environments.a must be a text; got 3"),
    (
        {"environments": "parts_of_a_test.NoReset"},
        "environments must be a function that can be described to a model; got parts_of_a_t",
    ),
    (
        {"environments": "parts_of_a_test.NeedsSize"},
        "environments must be callable without arguments; got NeedsSize (missing a requ",
    ),
    ({"environments": "parts_of_a_test.Undescribed"}, "described to a model; got parts_of_a_test.Undescribed.look ("),
    (
        {"environments": "parts_of_a_test.ResetsNothing"},
        "environments must be a class whose reset takes every column of a row, such as",
    ),
    ({"environments": "parts_of_a_test.sampler"}, "environments must be callable without arguments"),
    (
        {"rollout": "parts_of_a_test.of_prompts"},
        "rollout must be a function of prompts and trainer; got of_prompts (too many po",
    ),
    (
        {"rollout": "parts_of_a_test.of_three"},
        "rollout must be a function of prompts and trainer; got of_three (missing a req",
    ),
    # data, rubrics, judges, evaluation
    ({"stages": stage(sources=[{"path": ""}])}, "stages.0.sources.0.path must be a text that is not empty"),
    (
        {"stages": stage(sources=[{"path": "text.jsonl"}])},
        "none_of_these.yaml: the file must be a file that can be read",
    ),
    ({"held_out": {"sources": [{"path": "held_out.jsonl"}] * 2}}, "held_out: sources must be different"),
    ({"judges": 3}, "judges: source must be a file, or the data of one; got int"),
    ({"judges": ["a"]}, "judges: source must be a file, or the data of one; got list"),
    ({"judges": "judges_without.yaml"}, "judge 'a': endpoints must be at least one"),
    ({"evaluate": {**EVALUATE, "judges": "none.yaml"}}, "none.yaml: the file must be a file that can be read"),
    ({"attributes": ["answer_length"], "adjust_criteria": ["LeterE"]}, "got 'LeterE'. Did you mean 'LetterE'?"),
    ({"adjust_criteria": "some"}, "adjust_criteria must be one of 'FewWords', 'LetterE', 'Letters'; got 'some'"),
    # numbers, seeds, records, output
    ({"training__temperature": INF}, "training.temperature must be a finite number; got inf"),
    ({"training__learning_rate": ".inf"}, "training.learning_rate must be a number; got '.inf'"),
    ({"training__epsilon_high": INF}, "training.epsilon_high must be a finite number"),
    ({"seed": 2**40}, "seed must be < 4.29497e+09; got 1099511627776"),
    ({"records": {"most_mb": INF}}, "records.most_mb must be a finite number; got inf"),
    ({"output": ""}, "output must be a text that is not empty"),
    ({"output": "prompts.jsonl/run"}, "output must be a folder; got the file"),
    ({"output": "policy"}, "output must be a folder without a config.json of something else"),
]


@pytest.mark.parametrize(("changes", "said"), WRONG, ids=[f"{n}-{said[:40]}" for n, (_, said) in enumerate(WRONG)])
def test_one_line_before_the_model_loads(folder, changes, said, monkeypatch):
    found, there, absent = checks.find_spec, ("vllm",), ("flash_attn", "liger_kernel", "deepspeed", "wandb")
    monkeypatch.setattr(checks, "find_spec", lambda n: n if n in there else None if n in absent else found(n))
    monkeypatch.setattr("huggingface_hub.get_token", lambda: None)
    with pytest.raises(InvalidInput) as raised:
        make_plan(tiny.job(folder, **changes))
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)
    assert ".." not in str(raised.value).replace("../", "")


# ------------------------------------------------------------------------------------------------- what is not refused

RIGHT: list[dict[str, Any]] = [
    {"report_to": "all"},
    {"report_to": ["none"]},
    {"report_to": ["tensorboard", "tensorboard"]},
    {"trl__gradient_checkpointing": True, "trl__gradient_checkpointing_kwargs": {"use_reentrant": False}},
    {"training__lr_scheduler_type": "cosine_with_min_lr", "trl__lr_scheduler_kwargs": {"min_lr": 1e-7}},
    {"training__optim": "adafactor"},
    {"trl__optim_args": "beta1=0.8, weight_decay=0.1", "training__optim": "adafactor"},
    {"trl__generation_kwargs": {"typical_p": 0.9}},
    {"trl__torch_compile_backend": "inductor"},
    {"trl__trackio_static_space_id": False},
    {"trl__include_num_input_tokens_seen": "non_padding"},
    {"training__loss_type": "vespo", "trl__use_vllm": True, "trl__vllm_importance_sampling_correction": False},
    {**BEST, "trl__metric_for_best_model": "rubrank/score", "trl__greater_is_better": True},
    {"trl__model_init_kwargs": {"device_map": "cuda:0"}},
    {"trl__model_init_kwargs": {"device_map": {"": 0}, "max_memory": {0: "10GB"}}},
    {"trl__model_init_kwargs": {"use_cache": False, "trust_remote_code": None}},
    {"model__lora": {"targets": ["q_proj", "v_proj"], "modules_to_save": ["embed_tokens"]}},
    {"model__lora": {"targets": ".*q_proj", "init_lora_weights": "pissa"}},
    {"model__lora": {"layer_replication": [[0, 1], [0, 2]]}},
    {"model__lora": {"use_dora": True, "rank_pattern": {"q_proj": 4}}},
    {"rollout": "parts_of_a_test.sampler"},
    {"stages": stage(sources=[{"path": "twice.jsonl"}])},
    {"attributes": ["answer_length"], "adjust_criteria": ["LetterE"]},
    {"evaluate": EVALUATE},
    {"seed": 2**32 - 1},
    {"output": "a/b/c"},
]


@pytest.mark.parametrize("changes", RIGHT, ids=[str(one)[:50] for one in RIGHT])
def test_what_is_right_is_not_refused(folder, changes, monkeypatch):
    found = checks.find_spec
    monkeypatch.setattr(checks, "find_spec", lambda name: name if name == "vllm" else found(name))
    assert make_plan(tiny.job(folder, **changes)).checkpoint is None


SENSIBLE: dict[str, Any] = {
    "optim_args": "beta1=0.9",
    "optim_target_modules": ["attn"],
    "lr_scheduler_kwargs": {},
    "gradient_checkpointing_kwargs": {"use_reentrant": False},
    "torch_compile_backend": "eager",
    "torch_compile_mode": "default",
    "liger_kernel_config": {"rope": True},
    "neftune_noise_alpha": 5.0,
    "torch_empty_cache_steps": 4,
    "run_name": "a",
    "hub_model_id": "owner/name",
    "hub_revision": "main",
    "dataloader_multiprocessing_context": "fork",
    "label_names": ["labels"],
    "ddp_bucket_cap_mb": 25,
    "fsdp_config": {"min_num_params": 0},
    "accelerator_config": {"split_batches": False},
    "model_init_kwargs": {"attn_implementation": "eager"},
    "min_p": 0.1,
    "generation_kwargs": {"typical_p": 0.9},
    "chat_template_kwargs": {"enable_thinking": False},
    "cache_implementation": "dynamic",
    "vllm_structured_outputs_regex": "[a-z]+",
    "vllm_server_base_url": "http://host:8000",
    "vllm_max_model_length": 4096,
    "delta": 4.0,
    "max_tool_calling_iterations": 3,
    "vllm_importance_sampling_clip_min": 0.5,
    "off_policy_mask_threshold": 0.5,
    "num_completions_to_print": 3,
    "transformers_continuous_batching_config": {},
    "vllm_importance_sampling_cap": 2.0,
    "trackio_space_id": "owner/name",
    "trackio_bucket_id": "owner/name",
    "eval_accumulation_steps": 1,
    "metric_for_best_model": "loss",
}
"""Of arguments whose default is null: a value that somebody would give."""


ELSEWHERE = word_set("""
    fp16 fp16_full_eval bf16 tf32 use_cpu use_liger_kernel use_vllm push_to_hub auto_find_batch_size ddp_backend
    deepspeed
    load_best_model_at_end dataloader_persistent_workers dataloader_prefetch_factor sync_ref_model fsdp torch_compile
    use_transformers_continuous_batching use_transformers_paged log_completions_hub_repo router_aux_loss_coef
    enable_jit_checkpoint
""")
"""Arguments that other machines, packages, models or settings are needed for."""


def test_every_argument_arrives_with_a_value_other_than_its_default(folder):
    """Booleans are turned over, numbers moved a little; those that only some machines can do are left out."""
    from trl import GRPOConfig

    given: dict[str, Any] = {}
    for field in fields(GRPOConfig):
        if (
            not field.init
            or field.name in DECIDED_ELSEWHERE
            or field.name in ELSEWHERE
            or field.name in HALF_PRECISION_FLAGS
        ):
            continue  # half precision is turned off without a GPU
        default = getattr(field.default, "value", field.default)
        if field.name in SENSIBLE:
            given[field.name] = SENSIBLE[field.name]
        elif isinstance(default, bool):
            given[field.name] = not default
        elif isinstance(default, int | float):
            given[field.name] = default + 1 if isinstance(default, int) else default * 0.9
    plan = make_plan(tiny.job(folder, trl=given, training__optim="adafactor"))
    found = make_arguments(plan)
    converted = {"accelerator_config", "fsdp_config", "vllm_importance_sampling_clip_max", "model_init_kwargs"}
    told = {name: value for name, value in given.items() if name not in converted}
    assert {name: getattr(found, name) for name in told} == told
    assert len(given) > 90


# --------------------------------------------------------------------------------------------- environments by a column


def test_rows_say_which_environment_is_theirs(folder, monkeypatch):
    monkeypatch.setattr(policy, "check_tools", lambda *_: None)  # the tiny policy's template knows no tools
    for name in ("prompts.jsonl", "held_out.jsonl"):
        rows = [{**json.loads(line), "environment": "a"} for line in (folder / name).read_text().splitlines()]
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    plan = make_plan(tiny.job(folder, environments={"a": WORLD, "b": "parts_of_a_test.make_world"}))
    assert {row["environment"] for row in (*plan.rows, *plan.held_out)} == {"a"}
    assert "environment" not in make_plan(tiny.job(folder)).rows[0]  # TRL would take it for one
    with pytest.raises(InvalidInput, match=r"prompt 1: environment must be one of 'b'; got 'a'"):
        make_plan(tiny.job(folder, environments={"b": WORLD}))


def test_columns_of_rows_may_have_any_names(folder, monkeypatch):
    monkeypatch.setattr(policy, "check_tools", lambda *_: None)  # the tiny policy's template knows no tools
    columns = {"job": "baker", "place": "Hangzhou", "allowed": True, "function": "f"}
    file = folder / "prompts.jsonl"
    rows = [{**json.loads(line), **columns} for line in file.read_text().splitlines()]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    assert make_plan(tiny.job(folder, environments=WORLD)).rows[0]["job"] == "baker"


# ------------------------------------------------------------------------------------------ prompts and chat templates


def chatting(folder: Path, template: str) -> None:
    file = folder / "policy" / "tokenizer_config.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "chat_template": template}))


def test_a_template_that_refuses_a_system_message(folder):
    chatting(
        folder,
        "{% if messages[0]['role'] == 'system' %}{{ raise_exception('System role not supported') }}{% endif %}"
        "{% for m in messages %}{{ m['content'] }}{% endfor %}",
    )
    told = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Why?"}]
    rows = [{"prompt": told[1:]}, {"prompt": told}]
    (folder / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    with pytest.raises(InvalidInput, match=r"prompt 2: prompt must be messages that the model's chat template takes"):
        make_plan(tiny.job(folder))
    (folder / "prompts.jsonl").write_text(json.dumps(rows[0]) + "\n")
    assert make_plan(tiny.job(folder)).chat


def test_prefilled_thinking_needs_a_template_that_opens_it(folder):
    messages = "{% for m in messages %}{{ m['content'] }}{% endfor %}"
    chatting(folder, messages)
    with pytest.raises(InvalidInput, match=r"thinking must be auto or tags without a chat template that ends in"):
        make_plan(tiny.job(folder, thinking="prefilled"))
    opening = "{% if add_generation_prompt and enable_thinking %}<think>\n{% endif %}"
    chatting(folder, messages + opening)
    with pytest.raises(InvalidInput, match="got prefilled"):
        make_plan(tiny.job(folder, thinking="prefilled"))
    options = {"enable_thinking": True}
    assert make_plan(tiny.job(folder, thinking="prefilled", trl__chat_template_kwargs=options)).chat


def test_a_prompt_with_an_image_is_not_cut_to_its_text(folder):
    chatting(folder, "{% for m in messages %}{{ m['content'] }}{% endfor %}")
    content = [{"type": "image"}, {"type": "text", "text": "What is it?"}]
    (folder / "prompts.jsonl").write_text(json.dumps({"prompt": [{"role": "user", "content": content}]}) + "\n")
    with pytest.raises(InvalidInput, match=r"jsonl: row 1: prompt must be .*; got content that is not text"):
        make_plan(tiny.job(folder))


def test_a_folder_without_weights(folder):
    (folder / "policy" / "model.safetensors").unlink()
    with pytest.raises(InvalidInput, match=r"model\.path must be a folder with a model's weights"):
        make_plan(tiny.job(folder))


# -------------------------------------------------------------------------------------------------------------- folders


def test_nothing_of_others_is_written_over(folder):
    (folder / "model").mkdir()
    with pytest.raises(InvalidInput, match=r"output must be a folder without model; got .*which it would overwrite"):
        make_plan(tiny.job(folder, output="."))
    (folder / "model").rmdir()
    own = folder / "config.json"  # the job itself stands where a run says what it ran
    own.write_text(json.dumps({**tiny.config_of(folder), "output": "."}))
    with pytest.raises(InvalidInput, match=r"without a config\.json of something else"):
        make_plan(load_job(own))
