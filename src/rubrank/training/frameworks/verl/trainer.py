"""verl's v1 trainer, with rubric rewards: `trainer.v1.trainer_mode=rubrank_sync`.

    verl.trainer.main_ppo   →  reward workers grade every rollout while others are generated   (verl_reward_loop.py)
                            →  `_compute_advantage`: scores and uids out of the TransferQueue, fused by uid over the
                               whole batch, `rm_scores` written back
                            →  verl's own advantage

Shape (b), on the one process that controls the run. verl loads `plugin.py` by the entry point `verl.plugins`, which
imports this module with verl's trainer; it registers the modes below; docs/verl.md has the command. Where a judge
compares rollouts with one another, or rollouts bring no scores, the trainer grades them itself.

With `RubricBarrier` rewards are fused when they come, and stay as they are; what the modes add then is that a run which
ends for its judges saves a checkpoint first (`ending.py`), as it does with `RubricScores`.

A rollout about which nothing is known gets the mean of the known rewards of its group, so that its advantage is 0
where advantages are measured from the group's mean. In a session of several outputs the last one is graded, and all
get its reward, as in verl.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from rubrank.errors import RubrankError
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.training.engine import Graded, fill_unknown
from rubrank.training.frameworks.verl.checkpoint import SavesFirst, waits_in_barrier
from rubrank.training.frameworks.verl.reading import Reading
from rubrank.training.frameworks.verl.scores import regrouped
from rubrank.training.frameworks.verl.settings import Settings, plain

INSTALL = (
    "needs verl 0.9.1 and its queue: pip install verl==0.9.1 'TransferQueue>=0.1.10' pyzmq msgspec cachetools fastapi"
    " uvicorn"
)

try:
    import torch
    import transfer_queue as tq  # type: ignore[import-not-found, unused-ignore]
    from omegaconf import OmegaConf, open_dict  # type: ignore[import-not-found, unused-ignore]
    from tensordict import TensorDict  # type: ignore[import-not-found, unused-ignore]
    from verl.trainer.ppo.v1 import (  # type: ignore[import-not-found, unused-ignore]
        PPOTrainerColocateAsync,
        PPOTrainerSeparateAsync,
        PPOTrainerSync,
        register_trainer,
    )
except ImportError as error:
    raise ImportError(f"rubrank.training.frameworks.verl.trainer {INSTALL} ({error})") from error

if TYPE_CHECKING:
    from transfer_queue import KVBatchMeta

SCORES = "rubrank"
"""Key of `reward_extra_info` under which reward workers send the scores of a rollout."""

_STATE = "rubrank.json"


@dataclass(frozen=True, eq=False)
class _Session:
    """One rollout of a query: its last output, and the places of all its outputs in the batch."""

    uid: str
    rollout: Rollout
    rubric: Any
    scores: str | None
    places: tuple[int, ...]


class RubricAdvantage(SavesFirst):
    """To be mixed in before one of verl's trainers, whose mode is `base_mode`."""

    base_mode: ClassVar[str]

    def __init__(self, config: Any) -> None:
        self.fuses = not waits_in_barrier(config)
        with open_dict(config):  # verl compares the mode with its own names in many places
            config.trainer.v1.trainer_mode = self.base_mode
            told = {"fusing": self.fuses, "saving": True}
            config.rubrank = OmegaConf.merge(config.get("rubrank") or {}, told)
        self.settings = Settings.of(config)
        self.engine = self.settings.engine()
        setting = "algorithm.norm_adv_by_std_in_grpo"
        self.engine.check_scaling("verl", setting, bool(config.algorithm.get("norm_adv_by_std_in_grpo", True)))
        super().__init__(config)

    def _init_dataloader(self) -> None:
        """With a look at the rubric of every row, before a model is loaded."""
        super()._init_dataloader()
        for name in ("train_dataset", "val_dataset"):
            rows = getattr(getattr(self, name), "dataframe", None)  # a dataset of one's own may have none
            if rows is not None:
                self.settings.check(self.engine, rows, name)

    # ------------------------------------------------------------------------------------------------------- rewards

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """Fused rewards first, then verl's advantage."""
        if self.fuses:
            self._fuse(batch, metrics)
        return super()._compute_advantage(batch, metrics)

    def _fuse(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> None:
        real = [i for i, tag in enumerate(batch.tags) if not tag.get("is_padding", False)]
        if not real:
            return
        keys = [batch.keys[i] for i in real]
        sessions, lengths = self._read(keys, batch.partition_id)
        step = self.global_steps
        groups, members = _grouped(sessions, self.engine.label(step))
        result = self.engine.fuse(groups, self._graded(groups, members), step)
        metrics.update(result.metrics)
        rewards = [0.0] * len(keys)
        for group, found in zip(members, result.rewards, strict=True):
            for session, reward in zip(group, fill_unknown(found), strict=True):
                for place in session.places:
                    rewards[place] = reward
        fields = TensorDict({"rm_scores": _token_scores(rewards, lengths)}, batch_size=len(keys))
        tq.kv_batch_put(keys=keys, partition_id=batch.partition_id, fields=fields)

    def _read(self, keys: list[str], partition: str) -> tuple[list[_Session], list[int]]:
        """The sessions of the batch, and the number of tokens of every row."""
        wanted = ["uid", "responses", "raw_prompt", "extra_fields", *self.settings.fields]
        data = tq.kv_batch_get(keys=keys, partition_id=partition, select_fields=wanted)
        responses = list(data["responses"].unbind())
        columns = {name: [plain(one) for one in data[name]] for name in data.keys() if name != "responses"}  # noqa: SIM118
        outputs: dict[str, list[int]] = {}
        for i, key in enumerate(keys):
            outputs.setdefault(key.rpartition("_")[0], []).append(i)
        sessions, reading = [], Reading(self.settings, self.tokenizer, self.config)
        for name, places in outputs.items():
            last = max(places, key=lambda i: int(keys[i].rpartition("_")[2]))
            row = {column: values[last] for column, values in columns.items()}
            info = (row.get("extra_fields") or {}).get("reward_extra_info") or {}
            rollout = reading.rollout(row, responses[last], f"session {name}")
            rubric = self.settings.own_rubric(row)
            sessions.append(_Session(str(row["uid"]), rollout, rubric, info.get(SCORES), tuple(places)))
        return sessions, [len(response) for response in responses]

    def _graded(self, groups: Sequence[Group], members: Sequence[Sequence[_Session]]) -> Graded:
        """Scores from the queue if every rollout brought them, else made here."""
        texts = [[session.scores for session in group if session.scores is not None] for group in members]
        if all(len(found) == len(group) for found, group in zip(texts, members, strict=True)):
            return regrouped(groups, texts, self.engine)
        return self.engine.grade(groups)

    # --------------------------------------------------------------------------------------------------- checkpoints

    def _save_checkpoint(self) -> None:
        """What the rule remembers goes into the checkpoint's folder, before verl calls it complete."""
        trainer = self.config.trainer
        folder = Path(trainer.default_local_dir) / f"global_step_{self.global_steps}"
        folder.mkdir(parents=True, exist_ok=True)
        state = {**self.engine.state_dict(), "sample_again": self._sample_again}
        (folder / _STATE).write_text(json.dumps(state), encoding="utf-8")
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        """Go on from there; records of steps that are made again are taken away."""
        super()._load_checkpoint()
        step = self.global_steps
        if not step:
            self.engine.drop_half_record()
            return
        path = _resumed(self.config.trainer, step) / _STATE
        if path.exists():
            state = json.loads(path.read_text(encoding="utf-8"))
            self._sample_again = bool(state.pop("sample_again", False))
            self.engine.load_state_dict(state)
        elif self.engine.remembers:
            raise RubrankError(f"{path} is missing: it has the state of {self.engine.rule.name!r}. Start a new run.")
        self.engine.rewind(step + 1)  # verl counts from 1, and step `step` is done


def _resumed(trainer: Any, step: int) -> Path:
    """The folder from which verl resumed."""
    if trainer.resume_mode == "resume_path":
        return Path(trainer.resume_from_path)
    return Path(trainer.default_local_dir) / f"global_step_{step}"


def _grouped(sessions: Sequence[_Session], label: str) -> tuple[list[Group], list[list[_Session]]]:
    """Groups by uid, in the order in which they appear: verl has sorted the batch by length."""
    members: dict[str, list[_Session]] = {}
    for session in sessions:
        members.setdefault(session.uid, []).append(session)
    groups = [
        Group(id=f"{label}/{uid}", rollouts=tuple(s.rollout for s in group), rubric=group[0].rubric)
        for uid, group in members.items()
    ]
    return groups, list(members.values())


def _token_scores(rewards: Sequence[float], lengths: Sequence[int]) -> Any:
    """The reward at the last token of every response, as verl keeps it."""
    rows = []
    for reward, length in zip(rewards, lengths, strict=True):
        row = torch.zeros(length, dtype=torch.float32)
        row[-1:] = reward
        rows.append(row)
    return torch.nested.as_nested_tensor(rows, layout=torch.jagged)


@register_trainer("rubrank_sync")
class RubricTrainerSync(RubricAdvantage, PPOTrainerSync):
    """verl's synchronous trainer."""

    base_mode = "sync"


@register_trainer("rubrank_colocate_async")
class RubricTrainerColocateAsync(RubricAdvantage, PPOTrainerColocateAsync):
    """verl's asynchronous trainer on the GPUs of the rollouts."""

    base_mode = "colocate_async"


@register_trainer("rubrank_separate_async")
class RubricTrainerSeparateAsync(RubricAdvantage, PPOTrainerSeparateAsync):
    """verl's asynchronous trainer with GPUs of its own."""

    base_mode = "separate_async"
