"""verl on a CPU, without a model: what the tests of `rubrank.training.frameworks.verl.trainer` run.

Everything but the policy is verl's own: its configuration, its TransferQueue, its agent-loop workers, its reward loop,
its replay buffer, its trainer's methods. The policy is a script: the k-th rollout of a prompt says the k-th text.
Whoever imports this is skipped where verl is not installed.
"""

from __future__ import annotations

import asyncio
import gc
import os
import uuid
import warnings
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest

from rubrank.rollouts.rollout import Group, Rollout
from rubrank.training.engine import RewardEngine

_WHY = "verl is not installed: pip install verl==0.9.1 TransferQueue (see docs/verl.md)"
pytest.importorskip("verl", reason=_WHY, exc_type=ImportError)
pytest.importorskip("transfer_queue", reason=_WHY, exc_type=ImportError)

SAID = {
    0: ["the moon is far from here", "moon", "the sea is wide", ""],
    1: ["x", "a moon", "moon", "no moon"],
}
RUBRIC = [
    "EmptyAnswer",
    {"name": "WordCount", "params": {"low": 3}},
    {"name": "Keyword", "params": {"keywords": ["moon"]}, "weight": 2},
]
MANAGER = "reward.reward_manager.source=importlib"
MODULE = "reward.reward_manager.module.path=pkg://rubrank.training.verl.reward_loop"


TEMPLATE = (
    "{% for m in messages %}<|im_start|>{{ m['role'] }}\n{{ m['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)


def policy_folder(folder: Path) -> Path:
    """A byte-level tokenizer and the configuration of a model, as verl reads them."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
    from transformers import PreTrainedTokenizerFast, Qwen3Config

    raw = Tokenizer(models.BPE())
    raw.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    raw.decoder = decoders.ByteLevel()
    special = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    raw.train_from_iterator(
        ["moon"], trainers.BpeTrainer(special_tokens=special, initial_alphabet=alphabet, show_progress=False)
    )
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=raw, pad_token=special[0], eos_token=special[2], chat_template=TEMPLATE
    )
    tokenizer.save_pretrained(folder)
    Qwen3Config(
        architectures=["Qwen3ForCausalLM"],
        vocab_size=len(tokenizer),
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=2,
        num_key_value_heads=2,
        eos_token_id=tokenizer.eos_token_id,
    ).save_pretrained(folder)
    return folder


def config_of(policy: Path, *overrides: str, **section: Any) -> Any:
    """verl's own configuration, with ours on top."""
    import verl.trainer
    from hydra import compose, initialize_config_dir
    from omegaconf import OmegaConf, open_dict

    folder = str(Path(verl.trainer.__file__).parent / "config")
    usual = [
        f"actor_rollout_ref.model.path={policy}",
        "algorithm.adv_estimator=grpo",
        "trainer.device=cpu",
        "actor_rollout_ref.rollout.name=vllm",
        "actor_rollout_ref.rollout.n=4",
        "actor_rollout_ref.rollout.agent.num_workers=1",
        "actor_rollout_ref.actor.ppo_mini_batch_size=2",
        "actor_rollout_ref.rollout.val_kwargs.n=2",
        "data.train_batch_size=2",
        "reward.num_workers=2",
        "transfer_queue.backend.SimpleStorage.num_data_storage_units=1",
    ]
    with initialize_config_dir(folder, version_base=None):
        config = compose("ppo_trainer", overrides=[*usual, *overrides])
    with open_dict(config):
        config.rubrank = OmegaConf.merge(config.get("rubrank") or {}, section)
    return config


def with_manager(name: str) -> list[str]:
    return [MANAGER, MODULE, f"reward.reward_manager.name={name}"]


class Script:
    """In the place of verl's client of a model server."""

    def __init__(self, policy: Path, lost: tuple[tuple[int, int], ...] = ()) -> None:
        self.policy, self.lost = str(policy), lost
        self.calls: Counter[int] = Counter()

    async def generate(self, request_id: str, *, prompt_ids: list[int], **given: Any) -> Any:
        from transformers import AutoTokenizer
        from verl.workers.rollout.replica import TokenOutput

        tokenizer = AutoTokenizer.from_pretrained(self.policy)
        number = int(tokenizer.decode(prompt_ids).split("number ")[1][0])
        k = self.calls[number]
        self.calls[number] += 1
        await asyncio.sleep(0.01 * k)
        if (number, k) in self.lost:
            raise RuntimeError("the server went away")
        said = SAID[number][k % len(SAID[number])]
        ids = [*tokenizer(said, add_special_tokens=False).input_ids, tokenizer.eos_token_id]
        return TokenOutput(
            token_ids=ids, log_probs=[-1.0] * len(ids), extra_fields={"min_global_steps": 0, "max_global_steps": 0}
        )


def array(values: list[Any]) -> Any:
    """One object a row, whatever it is."""
    import numpy as np

    made = np.empty(len(values), dtype=object)
    made[:] = values
    return made


def prompts(numbers: list[int], step: int, *, validate: bool = False, **columns: list[Any]) -> Any:
    """A batch as verl's trainer makes it from its dataset."""
    from verl.utils import tensordict_utils as tu

    data = {
        "raw_prompt": array([[{"role": "user", "content": f"Say something about the number {n}."}] for n in numbers]),
        "uid": array([str(uuid.uuid4()) for _ in numbers]),
        "data_source": array(["lakes"] * len(numbers)),
        "reward_model": array([{"style": "rule", "ground_truth": "moon"} for _ in numbers]),
        "extra_info": array([{"index": n} for n in numbers]),
        "index": array(list(numbers)),
        **{name: array(values) for name, values in columns.items()},
    }
    batch = tu.get_tensordict(data)
    tu.assign_non_tensor_data(batch, "global_steps", step)
    if validate:
        tu.assign_non_tensor_data(batch, "validate", True)
    return batch


def rolled_out(manager: Any, batch: Any, step: int, partition: str) -> None:
    """Register the prompts and begin to generate, as the trainer does."""
    import transfer_queue as tq

    tags = [{"is_prompt": True, "status": "pending", "global_steps": step} for _ in range(len(batch))]
    tq.kv_batch_put(keys=list(batch["uid"]), partition_id=partition, tags=tags)
    manager.generate_sequences(batch)


def start(**resources: int) -> None:
    import ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    os.environ.setdefault("RAY_worker_niceness", "0")  # 15 would starve them beside other work
    os.environ.setdefault("RAY_worker_register_timeout_seconds", "300")
    os.environ.setdefault("RAY_prestart_worker_first_driver", "0")  # most of them would idle
    path = os.pathsep.join([str(Path(__file__).parent), str(Path(__file__).parents[2] / "src")])
    env = {"PYTHONPATH": path, "TRANSFER_QUEUE_ENABLE": "1", "VERL_USE_EXTERNAL_PLUGINS": "none", "HF_HUB_OFFLINE": "1"}
    for left in reversed(range(4)):
        try:
            ray.init(
                num_cpus=16,
                **resources,
                object_store_memory=200 * 2**20,
                include_dashboard=False,
                log_to_driver=bool(os.getenv("VERL_TEST_LOG")),
                runtime_env={"env_vars": env},
                ignore_reinit_error=True,
            )
            return
        except Exception as error:  # Ray gives its own processes 30 seconds, which a busy machine may take
            if not left or "timed out" not in str(error):
                raise
            ray.shutdown()


# ----------------------------------------------------------------------------------------------------------------- runs


@contextmanager
def cluster_with(policy: Path) -> Iterator[None]:
    """Ray and a TransferQueue, shut down in the end."""
    import ray
    import transfer_queue as tq

    start()
    tq.init(config_of(policy).transfer_queue)
    try:
        yield
    finally:
        tq.close()
        ray.shutdown()


def tidy() -> None:
    """verl, Ray and the queue leave sockets and event loops open: collected here, where nobody counts them."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for _ in range(3):
            gc.collect()


@contextmanager
def reward_loop(config: Any) -> Iterator[Any]:
    """verl's reward loop; its workers have names that only one can have at a time."""
    import ray
    from verl.experimental.reward_loop import RewardLoopManager

    manager = RewardLoopManager(config)
    try:
        yield manager
    finally:
        for worker in manager.reward_loop_workers:
            ray.kill(worker)
        with suppress(ValueError):
            ray.kill(ray.get_actor("rubrank_barrier"))


@contextmanager
def run_of(config: Any, policy: Path, lost: Any = ()) -> Iterator[Any]:
    """A trainer with everything around it but models: the trainer."""
    import ray
    from verl.trainer.ppo.v1 import AgentLoopManagerTQ

    trainer = trainer_of(config, policy)
    with reward_loop(config) as rewards:
        agents = AgentLoopManagerTQ.create(
            config=config,
            llm_client=Script(policy, lost),
            teacher_client=None,
            reward_loop_worker_handles=rewards.reward_loop_worker_handles,
        )
        trainer.agent_loop_manager, trainer.reward_loop_manager = agents, rewards
        try:
            yield trainer
        finally:
            for worker in agents.agent_loop_workers:
                ray.kill(worker)


def trainer_of(config: Any, policy: Path) -> Any:
    from transformers import AutoTokenizer
    from verl.trainer.ppo.v1 import get_trainer_cls

    import rubrank.training.frameworks.verl.trainer  # noqa: F401 - registers

    trainer = get_trainer_cls(config.trainer.v1.trainer_mode)(config)
    trainer.tokenizer, trainer.processor, trainer.global_steps = AutoTokenizer.from_pretrained(policy), None, 1
    trainer.replay_buffer.poll_interval = 0.05
    return trainer


def sampled(trainer: Any, batch: Any, step: int = 1) -> Any:
    """A batch that the agent loop has generated, taken out of verl's replay buffer."""
    rolled_out(trainer.agent_loop_manager, batch, step, "train")
    return trainer.replay_buffer.sample(global_steps=step, partition_id="train", batch_size=len(batch))[0]


def advantage(trainer: Any, batch: Any) -> dict[str, Any]:
    """`_compute_advantage`, after what it needs of the actor; returns the metrics."""
    import transfer_queue as tq

    data = tq.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=["rollout_log_probs"])
    data["old_log_probs"] = data.pop("rollout_log_probs")
    tq.kv_batch_put(keys=batch.keys, partition_id="train", fields=data)
    metrics: dict[str, Any] = {}
    trainer._compute_advantage(batch, metrics)
    return metrics


def read(trainer: Any, batch: Any, *fields: str) -> dict[str, dict[str, Any]]:
    """key → text, and the fields."""
    import transfer_queue as tq

    data = tq.kv_batch_get(keys=batch.keys, partition_id="train", select_fields=["responses", *fields])
    texts = [trainer.tokenizer.decode(ids, skip_special_tokens=True) for ids in data["responses"]]
    return {key: {"text": texts[i], **{name: data[name][i] for name in fields}} for i, key in enumerate(batch.keys)}


def expected(said: list[str], rubric: Any = None, rule: str = "rlvr2+") -> dict[str, float]:
    """text → fused reward."""
    group = Group(id="g", rollouts=tuple(Rollout(prompt="p", response=text) for text in said), rubric=rubric)
    return dict(zip(said, RewardEngine(RUBRIC, rule).score([group], 1).rewards[0], strict=True))


def uid_of(key: str) -> str:
    return key.split("_")[0]


def validated(trainer: Any) -> dict[str, float]:
    batch = prompts([0, 1], 1)
    columns = ("raw_prompt", "data_source", "reward_model", "extra_info", "index")
    trainer.val_dataloader = [{name: array(list(batch[name])) for name in columns}]
    return trainer._validate()


def put(trainer: Any, rows: list[dict[str, Any]], padding: int = 0) -> Any:
    """Trajectories as verl's workers leave them: {key, text, scores, reward}; the last `padding` ones are padding."""
    import torch
    import transfer_queue as tq
    from transfer_queue import KVBatchMeta
    from verl.utils.tensordict_utils import list_of_dict_to_tensordict

    fields, tags = [], []
    for i, row in enumerate(rows):
        ids = [*trainer.tokenizer(row["text"], add_special_tokens=False).input_ids, trainer.tokenizer.eos_token_id]
        scores = torch.zeros(len(ids))
        scores[-1] = row.get("reward", 0.0)
        info = {} if row.get("scores") is None else {"rubrank": row["scores"]}
        fields.append(
            {
                "uid": uid_of(row["key"]),
                "responses": torch.tensor(ids),
                "response_mask": torch.ones(len(ids), dtype=int),
                "rollout_log_probs": torch.zeros(len(ids)),
                "rm_scores": scores,
                "data_source": "lakes",
                "raw_prompt": [{"role": "user", "content": "p"}],
                "extra_fields": {"reward_extra_info": info},
                "reward_model": {"ground_truth": "moon"},
                "extra_info": {},
            }
        )
        tags.append({"is_padding": i >= len(rows) - padding})
    keys = [row["key"] for row in rows]
    tq.kv_batch_put(keys=keys, partition_id="train", fields=list_of_dict_to_tensordict(fields), tags=tags)
    return KVBatchMeta(partition_id="train", keys=keys, tags=tags)
