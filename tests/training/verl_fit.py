"""verl's own `fit()` on a CPU: what test_verl_fit.py runs.

verl's task runners, configuration, datasets and loaders, TransferQueue, agent loops, reward loop, replay buffer,
balancing, advantages, metrics, validation, checkpoints and logs are the installed package's. In the place of GPUs:

    Workers     for its group of workers: log-probs and entropies of the right shapes, an update that changes nothing
    Servers     for its servers of a model: `Talker`, which says the k-th text the k-th time that it is asked

`fitted` runs the body of verl's task runner in this process, and gives what reached the advantage, step by step.
Whoever imports this is skipped where verl is not installed.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
import tiny_verl

ROOT = Path(__file__).parents[2]
TEXTS = (
    "the moon is far from here",
    "moon",
    "the sea is wide, and the moon is over it, and all is well",
    "no",
    "a moon",
    "the sea",
    "moon, sea, and all the stars of the sky above us",
    "a word or two about the sea",
)
UPDATES = "updates.txt"  # of a checkpoint: how many are in its weights
SEQUENCE = 2  # ranks of data parallelism that batches are balanced for


class Talker:
    """In the place of verl's client of a model server. `lost`: numbers of prompts whose first rollout never ends."""

    def __init__(self, policy: Path, lost: tuple[int, ...] = ()) -> None:
        self.policy, self.lost = str(policy), lost
        self.calls: Counter[int] = Counter()

    async def generate(self, request_id: str, *, prompt_ids: list[int], **given: Any) -> Any:
        from transformers import AutoTokenizer
        from verl.workers.rollout.replica import TokenOutput

        tokenizer = AutoTokenizer.from_pretrained(self.policy)
        found = re.search(r"number (\d+)", tokenizer.decode(prompt_ids))
        assert found is not None
        number = int(found[1])
        k = self.calls[number]
        self.calls[number] += 1
        await asyncio.sleep(0.01 * (k % 4))
        if number in self.lost and k == 0:
            raise RuntimeError("the server went away")
        said = TEXTS[(3 * number + k) % len(TEXTS)]
        ids = [*tokenizer(said, add_special_tokens=False).input_ids, tokenizer.eos_token_id]
        more = {"min_global_steps": 0, "max_global_steps": 0}
        return TokenOutput(token_ids=ids, log_probs=[-1.0] * len(ids), extra_fields=more)


class Servers:
    """In the place of verl's manager of model servers."""

    talker: Talker

    @classmethod
    def create(cls, **given: Any) -> Servers:
        return cls()

    def get_client(self, **given: Any) -> Talker:
        return self.talker

    def get_replicas(self) -> list[Any]:
        return []


class Workers:
    """In the place of verl's group of GPU workers: actor, and reference policy."""

    def __init__(self, *given: Any, **named: Any) -> None:
        self._dispatch_info: dict[str, list[int]] = {}
        self.updates: list[Any] = []
        self.before = 0  # updates in the checkpoint that was loaded

    def spawn(self, prefix_set: Any) -> dict[str, Workers]:
        return dict.fromkeys(prefix_set, self)

    def _query_dispatch_info(self, role: str) -> list[int]:
        return list(range(SEQUENCE))

    def init_model(self) -> None:
        pass

    def update_weights(self, **given: Any) -> list[Any]:
        return []

    def save_checkpoint(self, path: str, *given: Any, **named: Any) -> None:
        Path(path).mkdir(parents=True, exist_ok=True)
        (Path(path) / UPDATES).write_text(str(self.before + len(self.updates)), encoding="utf-8")

    def load_checkpoint(self, local_path: str, **given: Any) -> None:
        self.before = int((Path(local_path) / UPDATES).read_text(encoding="utf-8"))

    def compute_log_prob(self, batch: Any) -> Any:
        """Of every token: minus one. The trainer passes names of rows in its queue."""
        import transfer_queue as tq
        from tensordict import TensorDict

        named = {"keys": batch.keys, "partition_id": batch.partition_id}
        ones = _ones(tq.kv_batch_get(**named, select_fields=["input_ids"])["input_ids"])
        tq.kv_batch_put(**named, fields=TensorDict({"log_probs": -ones, "entropy": ones}, batch_size=len(batch.keys)))
        return batch

    def update_actor(self, batch: Any) -> Any:
        self.updates.append(_advantages(batch))
        return {"metrics": {"mfu": [0.0], "grad_norm": [1.0]}}


def _ones(ids: Any) -> Any:
    import torch

    return torch.nested.as_nested_tensor([torch.ones(len(row)) for row in ids.unbind()], layout=torch.jagged)


def _advantages(batch: Any) -> list[float]:
    """The advantage of every row, at its first token."""
    import transfer_queue as tq

    found = tq.kv_batch_get(keys=batch.keys, partition_id=batch.partition_id, select_fields=["advantages"])
    return [float(row[0]) for row in found["advantages"].unbind()]


# ----------------------------------------------------------------------------------------------------------------- runs


@dataclass(frozen=True)
class Row:
    """One rollout as it reached the advantage."""

    uid: str
    number: int
    text: str
    reward: float
    """The sum of its token-level rewards."""
    last: float
    """Its token-level reward at the last token."""


@dataclass
class Fit:
    """What a run did."""

    steps: list[list[Row]] = field(default_factory=list)
    states: list[tuple[Any, Any]] = field(default_factory=list)
    """Of the trainer's engine, before and after each validation."""
    trainer: Any = None
    workers: Workers = field(default_factory=Workers)
    log: list[dict[str, Any]] = field(default_factory=list)

    def groups(self, step: int) -> dict[str, list[Row]]:
        """uid → its rows, of a step that is counted from 0."""
        found: dict[str, list[Row]] = {}
        for row in self.steps[step]:
            found.setdefault(row.uid, []).append(row)
        return found


def dataset(folder: Path, rows: int = 6, held_out: int = 2, **columns: Any) -> list[str]:
    """Files of the recipe's own making, as settings of verl."""
    lines = [{"prompt": f"Say something about the number {i}.", **columns} for i in range(rows + held_out)]
    (folder / "rows.jsonl").write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    make = [sys.executable, str(ROOT / "recipes" / "verl" / "make.py"), str(folder / "rows.jsonl"), str(folder)]
    subprocess.run([*make, "--held-out", str(held_out)], check=True, capture_output=True)
    return [f"data.{name}_files={folder / name}.parquet" for name in ("train", "val")]


def fit_config(policy: Path, folder: Path, *overrides: str, **section: Any) -> Any:
    """A run of three steps, validated before and after each of them, with checkpoints."""
    usual = [
        "data.dataloader_num_workers=0",
        "data.max_prompt_length=64",
        "data.max_response_length=64",
        "actor_rollout_ref.rollout.agent.default_agent_loop=single_turn_agent",
        "trainer.n_gpus_per_node=2",
        "trainer.total_training_steps=3",
        "trainer.val_before_train=true",
        "trainer.test_freq=1",
        "trainer.save_freq=2",
        f"trainer.default_local_dir={folder / 'checkpoints'}",
        "trainer.logger=[file]",
        "trainer.resume_mode=disable",
        "actor_rollout_ref.actor.use_kl_loss=false",
        "actor_rollout_ref.rollout.log_prob_micro_batch_size_per_gpu=1",
        "actor_rollout_ref.actor.ppo_micro_batch_size_per_gpu=1",
    ]
    return tiny_verl.config_of(policy, *usual, *overrides, **section)


def fitted(config: Any, talker: Talker, folder: Path, monkeypatch: pytest.MonkeyPatch, found: Fit | None = None) -> Fit:
    """Run verl to its end. found: what to fill, for those who want to look at a run that fails."""
    found = found or Fit()
    monkeypatch.setattr(Servers, "talker", talker, raising=False)
    monkeypatch.setenv("VERL_FILE_LOGGER_PATH", str(folder / "log.jsonl"))
    runner = _mock_runner(found, monkeypatch)
    try:
        runner.run(config)
    finally:
        _end(getattr(runner, "trainer", None) or found.trainer)
    found.log = [json.loads(line) for line in (folder / "log.jsonl").read_text(encoding="utf-8").splitlines()]
    return found


def _mock_runner(found: Fit, monkeypatch: pytest.MonkeyPatch) -> Any:
    from verl.trainer.main_ppo import TaskRunnerV1
    from verl.trainer.ppo.v1 import trainer_base as theirs

    monkeypatch.setattr(theirs, "RayWorkerGroup", lambda *given, **named: found.workers)
    monkeypatch.setattr(theirs, "LLMServerManager", Servers)
    advantage, validate = theirs.compute_advantage_for_multi_trajectories, theirs.PPOTrainer._validate
    fit = theirs.PPOTrainer.fit

    def spied(data: Any, batch_keys: Any, **given: Any) -> Any:
        found.steps.append(_rows(data, batch_keys, found.trainer.tokenizer))
        return advantage(data, batch_keys=batch_keys, **given)

    def fits(self: Any, manager: Any) -> None:
        found.trainer = self
        fit(self, manager)

    def validated(self: Any) -> Any:
        before = _state(self)
        metrics = validate(self)
        found.states.append((before, _state(self)))
        return metrics

    monkeypatch.setattr(theirs, "compute_advantage_for_multi_trajectories", spied)
    monkeypatch.setattr(theirs.PPOTrainer, "_validate", validated)
    monkeypatch.setattr(theirs.PPOTrainer, "fit", fits)
    return _plain(TaskRunnerV1)()


def _plain(remote: Any) -> type:
    """The class behind a Ray actor."""
    return remote.__ray_metadata__.modified_class


def mocked_runner() -> Any:
    """A Ray actor: verl's task runner with GPU parts mocked in its own process."""
    import ray
    from verl.trainer.main_ppo import TaskRunnerV1

    class Mocked(_plain(TaskRunnerV1)):  # type: ignore[misc]
        def run(self, config: Any) -> None:
            from verl.trainer.ppo.v1 import trainer_base as theirs

            import rubrank.training.frameworks.verl.trainer  # noqa: F401 - registers; actors of tests load no plug-ins

            workers = Workers()
            Servers.talker = Talker(config.actor_rollout_ref.model.path)
            theirs.RayWorkerGroup, theirs.LLMServerManager = lambda *given, **named: workers, Servers
            super().run(config)

    return ray.remote(Mocked)


def _state(trainer: Any) -> Any:
    engine = getattr(trainer, "engine", None)
    return None if engine is None else json.loads(json.dumps(engine.state_dict()))


def _rows(data: Any, keys: Any, tokenizer: Any) -> list[Row]:
    """What is in the batch, without verl's padding, whose mask is empty."""
    import transfer_queue as tq

    told = tq.kv_batch_get(keys=list(keys), partition_id="train", select_fields=["responses", "raw_prompt"])
    texts = [tokenizer.decode(ids, skip_special_tokens=True) for ids in told["responses"].unbind()]
    asked = [one[-1]["content"] for one in told["raw_prompt"]]
    return [
        _row(str(data.non_tensor_batch["uid"][i]), asked[i], texts[i], data, i)
        for i in range(len(texts))
        if data.batch["response_mask"][i].any()
    ]


def _row(uid: str, asked: str, text: str, data: Any, i: int) -> Row:
    rewards, length = data.batch["token_level_rewards"][i], int(data.batch["response_mask"][i].sum())
    number = re.search(r"\d+", asked)
    assert number is not None
    return Row(uid, int(number[0]), text, float(rewards.sum()), float(rewards[length - 1]))


def _end(trainer: Any) -> None:
    """Names of actors are free again."""
    import ray

    loop = getattr(trainer, "reward_loop_manager", None)
    agents = getattr(trainer, "agent_loop_manager", None) or getattr(trainer, "async_rollout_manager", None)
    for worker in (*getattr(loop, "reward_loop_workers", ()), *getattr(agents, "agent_loop_workers", ())):
        ray.kill(worker)
    with suppress(ValueError):
        ray.kill(ray.get_actor("rubrank_barrier"))


@contextmanager
def cluster() -> Iterator[None]:
    """Ray with two GPUs that it is told of; nothing runs on them."""
    import ray

    tiny_verl.start(num_gpus=2)
    try:
        yield
    finally:
        ray.shutdown()
