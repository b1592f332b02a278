"""NeMo-RL: a rubric as an environment.

    env:
      rubrank: {config: /abs/reward.yaml, num_generations: 8}
    register_env("rubrank", "rubrank.training.frameworks.nemo_rl.RubricEnvironment")       in your run script

Input. NeMo-RL calls `EnvironmentInterface.step(message_log_batch, metadata)`, which has no groups. Synchronous rollouts
pass the whole batch, each prompt `num_generations` times in a row. Asynchronous ones pass one sample at a time: a
barrier then holds each sample until its siblings are there, so give the actor as many threads as samples may wait
(`max_concurrency` of Ray). `metadata` is `extra_env_info` of the dataset: `rubric`, what verifiers need, and `id`,
which separates rows with the same prompt.

Output. NeMo-RL gets one reward per sample, and every episode ends with the first answer. A rollout without any score
gets the mean of its group, or of those that came in time. With `train: false` no rule learns.

Tested with a stand-in of the interface; its interface was last read at commit 0b8a793. NeMo-RL itself was not run.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping, Sequence
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.training.barrier import Barrier
from rubrank.training.config import load_engine
from rubrank.training.engine import StepRewards
from rubrank.training.flat_batch import Sample, by_key_and_size, score_flat
from rubrank.training.queries import Completion, make_query, split_prompt

_OWNER = "NeMo-RL"
_MESSAGE_KEYS = ("role", "content", "tool_calls", "tool_call_id", "reasoning_content", "reasoning")


class RubricEnvironment:
    """An environment of NeMo-RL; a plain class, to be wrapped by `ray.remote`."""

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        self.engine, self._rubric_column = load_engine(cfg.get("config"), _OWNER, passes_step=False)
        self.size = int(cfg.get("num_generations") or 0)
        self.train = bool(cfg.get("train", True))
        if self.size < 1:
            raise InvalidInput(
                _OWNER,
                "num_generations",
                allowed="as in the run's configuration",
                got=repr(self.size),
                remedy="",
            )
        self._timeout = float(cfg.get("timeout", 3600.0))
        self._calls = 0
        self._metrics: dict[str, float] = {}
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._barrier: Barrier | None = None

    def step(self, message_log_batch: Sequence[Any], metadata: Sequence[Any]) -> Any:
        """Return the reward of every conversation, all of which end here."""
        pairs = zip(message_log_batch, metadata, strict=True)
        samples = [self.read_sample(log, info) for log, info in pairs]
        with self._lock:
            step = self._calls
            self._calls += 1
        if len(samples) == 1 and self.size > 1:
            rewards = [self._wait_for_group(samples[0])]
        else:
            result = score_flat(
                self.engine,
                samples,
                step=step,
                train=self.train,
                group_of=by_key_and_size(self.size),
                means=True,
            )
            rewards = result.rewards
            self._metrics = result.metrics
        return _make_return(list(metadata), rewards)

    def global_post_process_and_metrics(self, batch: Any) -> tuple[Any, dict[str, float]]:
        """Return the batch unchanged, and the metrics of the last one."""
        return batch, dict(self._metrics)

    def shutdown(self) -> None:
        """Stop the event loop of the barrier."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)

    def read_sample(self, log: Sequence[Mapping[str, Any]], info: Any) -> Sample:
        """Return one sample, from a conversation and what the dataset knows about its prompt."""
        messages = [
            {key: message[key] for key in message if key in _MESSAGE_KEYS} for message in log
        ]
        prompt, completion_messages = split_prompt(messages)
        row = dict(info) if isinstance(info, Mapping) else {"label": info}
        row_id = row.pop("id", None)
        query = make_query(prompt, row, rubric_column=self._rubric_column)
        last_turn: Mapping[str, Any] = {}
        for message in log:
            if message.get("role") == "assistant":
                last_turn = message
        reason = "length" if last_turn.get("truncated") else last_turn.get("finish_reason")
        completion = Completion(completion_messages or "", reason, last_turn.get("token_ids"))
        key = repr((query.prompt, query.rubric) if row_id is None else row_id)
        return Sample(completion.to_rollout(query, self.engine.thinking, _OWNER), key, query.rubric)

    def _wait_for_group(self, sample: Sample) -> float:
        """Return the reward of a sample that was passed alone; blocks its thread until its siblings have arrived."""

        def keep_metrics(result: StepRewards) -> None:
            self._metrics = dict(result.metrics)

        with self._lock:
            if self._loop is None or self._barrier is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, daemon=True).start()
                self._barrier = Barrier(
                    self.engine, self.size, timeout=self._timeout, report=keep_metrics
                )
        scoring = self._barrier.score(
            str(sample.key), sample.rollout, step=0, rubric=sample.rubric, train=self.train
        )
        return asyncio.run_coroutine_threadsafe(scoring, self._loop).result().filled


def _make_return(metadata: list[Any], rewards: Sequence[float]) -> Any:
    """Return the result of a step in NeMo-RL's class: rewards, and that all episodes have ended."""
    import torch
    from nemo_rl.environments.interfaces import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
        EnvironmentReturn,
    )

    number = len(rewards)
    return EnvironmentReturn(
        observations=[{"role": "environment", "content": ""} for _ in rewards],
        metadata=metadata,
        next_stop_strings=[None] * number,
        rewards=torch.tensor(list(rewards), dtype=torch.float32),
        terminateds=torch.ones(number, dtype=torch.bool),
        answers=[None] * number,
    )
