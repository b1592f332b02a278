"""A policy made on the spot, trained by TRL for a few steps: what the tests of `rubrank.training.frameworks.trl` run.

    torchrun --nproc_per_node 2 tests/training/tiny_trl.py OUT '{"first": {"num_generations": 4, …}, …}'

A Qwen3 of two layers over a byte-level BPE tokenizer that is trained here: it says nonsense, at 0.2 s a step. As a
script it writes what every process got to OUT/first/rank-N.json.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

TEMPLATE = (
    "{% for m in messages %}<|{{ m['role'] }}|>{{ m['content'] }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|assistant|>{% endif %}"
)
RUBRIC = [
    "EmptyAnswer",
    {"name": "WordCount", "params": {"low": 3}},
    {"name": "Letters", "verifier": "letters:letter_counting", "params": {"N": 6, "relation": "at least"}},
]
PROMPTS = [f"Say something about the number {n}." for n in range(8)]


def tokenizer() -> Any:
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    special = ["<|pad|>", "<|end|>", "<|user|>", "<|assistant|>"]
    trainer = trainers.BpeTrainer(
        vocab_size=320,
        special_tokens=special,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        show_progress=False,
    )
    raw.train_from_iterator(PROMPTS, trainer)
    return PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token="<|pad|>", eos_token="<|end|>", padding_side="left", chat_template=TEMPLATE
    )


def model(vocabulary: int, pad: int, eos: int) -> Any:
    import torch
    from transformers import Qwen3Config, Qwen3ForCausalLM

    torch.manual_seed(0)
    config = Qwen3Config(
        vocab_size=vocabulary,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        head_dim=16,
        max_position_embeddings=256,
        pad_token_id=pad,
        eos_token_id=eos,
        bos_token_id=eos,
        tie_word_embeddings=True,
    )
    return Qwen3ForCausalLM(config)


def rows(*, chat: bool = True, rubrics: bool = False) -> Any:
    """Eight queries; with `rubrics`, each asks for other words, and the third has none of its own."""
    from datasets import Dataset

    data: dict[str, list[Any]] = {
        "prompt": [[{"role": "user", "content": text}] if chat else text for text in PROMPTS],
        "reference": [str(n) for n in range(len(PROMPTS))],
    }
    if rubrics:
        own = [json.dumps([{"name": "Own", "verifier": "WordCount", "params": {"low": n}}]) for n in range(8)]
        data["rubric"] = [None if n == 2 else text for n, text in enumerate(own)]
    return Dataset.from_dict(data)


def arguments(out: Path, **given: Any) -> Any:
    from trl import GRPOConfig

    usual: dict[str, Any] = {
        "output_dir": str(out),
        "max_steps": 2,
        "seed": 3,
        "use_cpu": True,
        "bf16": False,
        "per_device_train_batch_size": 8,
        "num_generations": 4,
        "max_completion_length": 8,
        "learning_rate": 1e-3,
        "beta": 0.0,
        "loss_type": "grpo",
        "importance_sampling_level": "sequence",
        "logging_steps": 1,
        "report_to": [],
        "save_strategy": "no",
        "disable_tqdm": True,
        "gradient_checkpointing": False,
    }
    return GRPOConfig(**{**usual, **given})


def trainer_of(
    reward: Any, out: Path, *, dataset: Any = None, callback: bool = True, held_out: Any = None, **given: Any
) -> Any:
    from trl import GRPOTrainer

    words = tokenizer()
    return GRPOTrainer(
        model=model(len(words), words.pad_token_id, words.eos_token_id),
        reward_funcs=reward,
        args=arguments(out, **given),
        train_dataset=rows() if dataset is None else dataset,
        eval_dataset=held_out,
        processing_class=words,
        callbacks=[reward.callback] if callback else [],
    )


def in_two_processes(out: Path, runs: dict[str, dict[str, Any]]) -> dict[str, list[dict[str, Any]]]:
    """Runs by name, one after the other in the same two gloo processes; what each of these wrote of each run."""
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "2"]
    env = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[2] / "src"), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(
        [*command, __file__, str(out), json.dumps(runs)],
        capture_output=True,
        text=True,
        env=env,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return {
        name: [
            {**json.loads((out / name / f"rank-{rank}.json").read_text()), "records": out / name / "records.jsonl"}
            for rank in range(2)
        ]
        for name in runs
    }


def main(out: Path, options: dict[str, Any]) -> None:
    """Train in every process, and write what each one's calls were and gave; `resume` is a folder beside `out`."""
    import torch
    from transformers import set_seed

    from rubrank.training.frameworks.trl import RubricReward, current_processes

    torch.set_num_threads(1)
    out.mkdir(parents=True, exist_ok=True)
    rule, resume = options.pop("rule", "rlvr2+"), options.pop("resume", None)
    reward = RubricReward(RUBRIC, rule=rule, records=out / "records.jsonl", **options.pop("reward", {}))
    calls: list[dict[str, Any]] = []

    def watched(prompts: Any, completions: Any, **kwargs: Any) -> Any:
        rewards = reward(prompts, completions, **kwargs)
        calls.append(
            {
                "prompts": [p[0]["content"] for p in prompts],
                "completions": [c[0]["content"] for c in completions],
                "tokens": [len(ids) for ids in kwargs["completion_ids"]],
                "rewards": rewards,
                "train": kwargs["log_metric"].__self__.model.training,
            }
        )
        return rewards

    watched.callback = reward.callback  # type: ignore[attr-defined]
    held_out = rows() if "eval_strategy" in options else None
    trainer = trainer_of(watched, out, held_out=held_out, **options)
    set_seed(3 + trainer.accelerator.process_index)  # ranks sample differently
    trainer.train(resume_from_checkpoint=resume and str(out.parent / resume))
    here = current_processes()
    found = {"calls": calls, "world": here.world, "state": reward.engine.state_dict(), "log": trainer.state.log_history}
    (out / f"rank-{here.rank}.json").write_text(json.dumps(found))


if __name__ == "__main__":
    for name, options in json.loads(sys.argv[2]).items():
        main(Path(sys.argv[1]) / name, options)
