"""verl's v1 trainer with rubric rewards: `trainer.v1.trainer_mode=rubrank_sync`.

A step of `verl.trainer.main_ppo`:

    reward workers            grade every rollout while others are generated (`RubricScores` in `reward_loop.py`)
    `_compute_advantage`      1. reads the scores and the uids of the batch from verl's TransferQueue
                              2. fuses them over the whole batch; rollouts with the same uid are a group
                              3. writes the rewards back to the queue, as `rm_scores`
                              4. lets verl compute its advantages

Steps 1 to 4 run in the one process that controls the run. verl loads `plugin.py` by the entry point `verl.plugins`; the
plug-in imports this module together with verl's trainer, and this module registers the modes below. docs/verl.md has
the command. If a judge compares rollouts, or the reward workers sent no scores, the trainer grades the rollouts itself.

Which rewards arrive depends on the reward manager in verl's config, `reward.reward_manager.name` (`reward_loop.py`).
`RubricScores` sends the scores of single rollouts, which are fused here. `RubricBarrier` waits for whole groups and
sends fused rewards, which stay as they are. With both, a run whose judges fail saves a checkpoint before it ends
(`checkpoint.py`).

A rollout without any score gets the mean of its group, so its advantage is 0 if the group's mean is the baseline. If a
session has several outputs, the last one is graded, and all get its reward, as in verl.
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
from rubrank.training.frameworks.verl.checkpoint import CheckpointBeforeOutage, uses_barrier
from rubrank.training.frameworks.verl.scores import unpack_groups
from rubrank.training.frameworks.verl.settings import ResponseReader, Settings
from rubrank.training.queries import to_plain_data

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

SCORES_KEY = "rubrank"
"""Key of `reward_extra_info` under which reward workers send the scores of a rollout."""

_STATE_FILE = "rubrank.json"


@dataclass(frozen=True, eq=False)
class _Session:
    """One rollout of a query: its last output, and the rows of all its outputs in the batch."""

    uid: str
    rollout: Rollout
    rubric: Any
    scores: str | None
    rows: tuple[int, ...]


class RubricAdvantage(CheckpointBeforeOutage):
    """A mixin; put it before one of verl's trainers."""

    base_mode: ClassVar[str]
    """The mode of verl's trainer."""

    def __init__(self, config: Any) -> None:
        self.fuses = not uses_barrier(config)
        with open_dict(config):
            # verl's code compares the mode with the names of its own modes.
            config.trainer.v1.trainer_mode = self.base_mode
            # The reward workers get the same config, and read in it what this trainer does (`Settings`).
            trainer_duties = {"fusing": self.fuses, "saving": True}
            config.rubrank = OmegaConf.merge(config.get("rubrank") or {}, trainer_duties)
        self.settings = Settings.read(config)
        self.engine = self.settings.engine()
        is_scaled = bool(config.algorithm.get("norm_adv_by_std_in_grpo", True))
        self.engine.check_scaling("verl", "algorithm.norm_adv_by_std_in_grpo", is_scaled)
        super().__init__(config)

    def _init_dataloader(self) -> None:
        """Also check the rubric of every row, before a model is loaded."""
        super()._init_dataloader()
        for name in ("train_dataset", "val_dataset"):
            rows = getattr(getattr(self, name), "dataframe", None)  # a custom dataset may have none
            if rows is not None:
                self.settings.check_rows(self.engine, rows, name)

    # ------------------------------------------------------------------------------------------------------- rewards

    def _compute_advantage(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> KVBatchMeta:
        """Fuse the rewards, then compute verl's advantages."""
        if self.fuses:
            self._write_rewards(batch, metrics)
        return super()._compute_advantage(batch, metrics)

    def _write_rewards(self, batch: KVBatchMeta, metrics: dict[str, Any]) -> None:
        """Fuse the scores of a batch, group by group, and write the rewards to verl's queue as `rm_scores`."""
        tagged_keys = zip(batch.keys, batch.tags, strict=True)
        keys = [key for key, tag in tagged_keys if not tag.get("is_padding", False)]
        if not keys:
            return
        sessions, lengths = self._read_sessions(keys, batch.partition_id)
        # verl has sorted the batch by length, so the sessions of a group need not be consecutive.
        sessions_of: dict[str, list[_Session]] = {}
        for session in sessions:
            sessions_of.setdefault(session.uid, []).append(session)
        step = self.global_steps
        label = self.engine.label(step)
        groups = []
        for uid, members in sessions_of.items():
            rollouts = tuple(session.rollout for session in members)
            groups.append(Group(id=f"{label}/{uid}", rollouts=rollouts, rubric=members[0].rubric))
        graded = self._grade(groups, list(sessions_of.values()))
        result = self.engine.fuse(groups, graded, step)
        metrics.update(result.metrics)
        rewards = [0.0] * len(keys)
        for members, group_rewards in zip(sessions_of.values(), result.rewards, strict=True):
            for session, reward in zip(members, fill_unknown(group_rewards), strict=True):
                for row in session.rows:
                    rewards[row] = reward
        rm_scores = _pack_rewards(rewards, lengths)
        fields = TensorDict({"rm_scores": rm_scores}, batch_size=len(keys))
        tq.kv_batch_put(keys=keys, partition_id=batch.partition_id, fields=fields)

    def _read_sessions(self, keys: list[str], partition: str) -> tuple[list[_Session], list[int]]:
        """Return the sessions of the batch, and the number of tokens of every row."""
        columns_to_read = [
            "uid",
            "responses",
            "raw_prompt",
            "extra_fields",
            *self.settings.row_columns,
        ]
        data = tq.kv_batch_get(keys=keys, partition_id=partition, select_fields=columns_to_read)
        responses = list(data["responses"].unbind())
        columns = {
            name: [to_plain_data(value) for value in data[name]]
            for name in data.keys()  # noqa: SIM118
            if name != "responses"
        }
        rows_of_session: dict[str, list[int]] = {}
        # A key is the name of a session and the number of one of its outputs: "uid-7_0_2".
        for i, key in enumerate(keys):
            session_name, _, _ = key.rpartition("_")
            rows_of_session.setdefault(session_name, []).append(i)
        reader = ResponseReader(self.settings, self.tokenizer, self.config)
        sessions = []
        for session_name, rows in rows_of_session.items():
            last = max(rows, key=lambda i: int(keys[i].rpartition("_")[2]))
            row = {column: values[last] for column, values in columns.items()}
            info = (row.get("extra_fields") or {}).get("reward_extra_info") or {}
            session = _Session(
                uid=str(row["uid"]),
                rollout=reader.read_rollout(row, responses[last], f"session {session_name}"),
                rubric=self.settings.find_rubric(row),
                scores=info.get(SCORES_KEY),
                rows=tuple(rows),
            )
            sessions.append(session)
        return sessions, [len(response) for response in responses]

    def _grade(self, groups: Sequence[Group], members: Sequence[Sequence[_Session]]) -> Graded:
        """Return the scores from the queue; if a rollout has none, grade all rollouts here."""
        texts: list[list[str]] = []
        for group in members:
            group_texts = [session.scores for session in group if session.scores is not None]
            if len(group_texts) < len(group):
                return self.engine.grade(groups)
            texts.append(group_texts)
        return unpack_groups(groups, texts, self.engine)

    # --------------------------------------------------------------------------------------------------- checkpoints

    def _save_checkpoint(self) -> None:
        """Write the state of the rule into the checkpoint's folder before verl marks it as complete."""
        folder = Path(self.config.trainer.default_local_dir) / f"global_step_{self.global_steps}"
        folder.mkdir(parents=True, exist_ok=True)
        # `CheckpointBeforeOutage` sets `_sample_again` before it saves because of the judges.
        state = {**self.engine.state_dict(), "sample_again": self._sample_again}
        (folder / _STATE_FILE).write_text(json.dumps(state), encoding="utf-8")
        super()._save_checkpoint()

    def _load_checkpoint(self) -> None:
        """Continue from the checkpoint, and remove the records of steps that will be repeated."""
        super()._load_checkpoint()
        step = self.global_steps
        if not step:
            self.engine.drop_half_record()
            return
        trainer = self.config.trainer
        if trainer.resume_mode == "resume_path":
            folder = Path(trainer.resume_from_path)
        else:
            folder = Path(trainer.default_local_dir) / f"global_step_{step}"
        path = folder / _STATE_FILE
        if path.exists():
            state = json.loads(path.read_text(encoding="utf-8"))
            # `CheckpointBeforeOutage` reads it when the run continues.
            self._sample_again = bool(state.pop("sample_again", False))
            self.engine.load_state_dict(state)
        elif self.engine.remembers:
            raise RubrankError(
                f"{path} is missing: it has the state of {self.engine.rule.name!r}. Start a new run."
            )
        self.engine.rewind(step + 1)  # verl counts from 1, and step `step` is done


def _pack_rewards(rewards: Sequence[float], lengths: Sequence[int]) -> torch.Tensor:
    """Return one row of tokens per response, with the reward at the last token and 0 before, as verl keeps rewards.

    Rewards 0.5 and 1.0 of responses with 3 and 2 tokens: [[0, 0, 0.5], [0, 1.0]].
    """
    reward_rows = []
    for reward, length in zip(rewards, lengths, strict=True):
        reward_row = torch.zeros(length, dtype=torch.float32)
        reward_row[-1:] = reward
        reward_rows.append(reward_row)
    return torch.nested.as_nested_tensor(reward_rows, layout=torch.jagged)


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
    """verl's asynchronous trainer with separate GPUs."""

    base_mode = "separate_async"
