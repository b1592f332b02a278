"""NeMo-RL: a rubric as an environment.

    env:
      rubrank: {config: /abs/reward.yaml, num_generations: 8}
    register_env("rubrank", "rubrank.training.frameworks.nemo_rl.RubricEnvironment")       in your run script

`EnvironmentInterface.step(message_log_batch, metadata)` has no groups. Synchronous rollouts hand over the whole batch,
each prompt `num_generations` times in a row: shape (b). Asynchronous ones hand over one sample at a time: shape (c),
and a barrier holds each until its siblings are there, so give the actor as many threads as samples may wait
(`max_concurrency` of Ray). `metadata` is `extra_env_info` of the dataset: `rubric`, what verifiers need, and `id`,
which tells two rows with the same prompt apart. An episode ends with the first answer. With `train: false` nothing is
learnt. A rollout about which nothing is known gets the mean of its group; of a barrier that gave up waiting, of those
that came.
"""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

from rubrank.errors import InvalidInput
from rubrank.training.config import engine_of, without_steps
from rubrank.training.engine import StepRewards
from rubrank.training.queries import Completion, Query, query_of, split_prompt
from rubrank.training.rollouts import normalize_finish_reason
from rubrank.training.shapes.barrier import Barrier
from rubrank.training.shapes.flat_batch import Sample, score_flat

_OWNER = "NeMo-RL"
_MOST = 10_000  # groups in which something is not known, that are remembered


class Returned(NamedTuple):
    """What `step` gives, by the names of NeMo-RL's EnvironmentReturn."""

    observations: list[dict[str, str]]
    metadata: list[Any]
    next_stop_strings: list[Any]
    rewards: Any
    terminateds: Any
    answers: list[str | None] | None = None


class RubricEnvironment:
    """An environment of NeMo-RL; a plain class behind `ray.remote`."""

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        self.engine, self._column = engine_of(cfg.get("config"), _OWNER)
        without_steps(self.engine, _OWNER)
        self.size, self.train = int(cfg.get("num_generations") or 0), bool(cfg.get("train", True))
        if self.size < 1:
            raise InvalidInput(_OWNER, "num_generations", "as in the run's configuration", repr(self.size), "")
        self._timeout = float(cfg.get("timeout", 3600.0))
        self._calls, self._metrics = 0, dict[str, float]()
        self._lock, self._waiting = threading.Lock(), _Waiting(self)

    def step(self, message_log_batch: Sequence[Any], metadata: Sequence[Any]) -> Any:
        """The reward of every conversation; the episode ends."""
        samples = [self._sample(log, about) for log, about in zip(message_log_batch, metadata, strict=True)]
        with self._lock:
            step, self._calls = self._calls, self._calls + 1
        if len(samples) == 1 and self.size > 1:
            rewards = [self._waiting.reward(samples[0])]
        else:
            result = score_flat(self.engine, samples, step=step, train=self.train, group_of=self._groups, means=True)
            rewards, self._metrics = result.rewards, result.metrics
        return _returned(message_log_batch, list(metadata), rewards)

    def global_post_process_and_metrics(self, batch: Any) -> tuple[Any, dict[str, float]]:
        """Nothing is changed; the metrics of the last batch."""
        return batch, dict(self._metrics)

    def shutdown(self) -> None:
        """No caller waits any more."""
        self._waiting.close()

    def _sample(self, log: Sequence[Mapping[str, Any]], about: Any) -> Sample:
        plain = [{name: value for name, value in one.items() if name in _TEXTS} for one in log]
        before, after = split_prompt(plain)
        row = dict(about) if isinstance(about, Mapping) else {} if about is None else {"label": about}
        query = query_of(before, {k: v for k, v in row.items() if k != "id"}, rubric_column=self._column)
        last: Mapping[str, Any] = next((one for one in reversed(log) if one.get("role") == "assistant"), {})
        reason = "length" if last.get("truncated") else normalize_finish_reason(last.get("finish_reason"))
        said = Completion(after or "", reason, last.get("token_ids"))
        rollout = said.rollout(self.engine, query, _OWNER)
        return Sample(rollout, _key(row, query), query.rubric)

    def _groups(self, samples: Sequence[Sample]) -> list[Hashable]:
        """`num_generations` in a row among those with the same key; the rest of a key is a group by itself."""
        seen: dict[Hashable, int] = {}
        keys: list[Hashable] = []
        numbers: dict[Hashable, int] = {}
        for sample in samples:
            at = seen[sample.key] = seen.get(sample.key, -1) + 1
            key = (sample.key, at // self.size)
            keys.append(str(numbers.setdefault(key, len(numbers))))
        return keys


_TEXTS = ("role", "content", "tool_calls", "tool_call_id", "reasoning_content", "reasoning")


def _key(row: Mapping[str, Any], query: Query) -> Hashable:
    """The dataset's id, else what is asked: prompt and rubric."""
    return repr(row["id"]) if row.get("id") is not None else repr((query.prompt, query.rubric))


def _returned(logs: Sequence[Any], metadata: list[Any], rewards: Sequence[float]) -> Any:
    import torch

    try:
        from nemo_rl.environments.interfaces import (  # type: ignore[import-not-found, import-untyped, unused-ignore]
            EnvironmentReturn,
        )
    except ImportError:
        EnvironmentReturn = Returned
    number = len(logs)
    return EnvironmentReturn(
        observations=[{"role": "environment", "content": ""}] * number,
        metadata=metadata,
        next_stop_strings=[None] * number,
        rewards=torch.tensor(list(rewards), dtype=torch.float32),
        terminateds=torch.ones(number, dtype=torch.bool),
        answers=[None] * number,
    )


class _Waiting:
    """The barrier of samples that come one by one, each in a thread of its own."""

    def __init__(self, environment: RubricEnvironment) -> None:
        self._environment = environment
        self._loop: asyncio.AbstractEventLoop | None = None
        self._barrier: Barrier | None = None
        self._lock = threading.Lock()
        self._means: dict[str, float] = {}

    def reward(self, sample: Sample) -> float:
        """When the siblings are there."""
        loop = self._started()
        assert self._barrier is not None
        asked = self._barrier.reward(
            str(sample.key), sample.rollout, step=0, rubric=sample.rubric, train=self._environment.train
        )
        found = asyncio.run_coroutine_threadsafe(asked, loop).result()
        return self._means.get(str(sample.key), 0.0) if math.isnan(found) else found

    def _started(self) -> Any:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(target=self._loop.run_forever, daemon=True).start()
                one = self._environment
                self._barrier = Barrier(one.engine, one.size, timeout=one._timeout, report=self._told)
        return self._loop

    def _told(self, result: StepRewards) -> None:
        self._environment._metrics = dict(result.metrics)
        for group, ids in zip(result.rewards, result.columns["rubrank/group"], strict=True):
            known = [one for one in group if not math.isnan(one)]
            if len(known) < len(group):
                self._means[ids[0].partition("/")[2]] = sum(known) / len(known) if known else 0.0
        while len(self._means) > _MOST:
            del self._means[next(iter(self._means))]

    def close(self) -> None:
        """End the loop."""
        if self._loop is not None:
            self._loop.call_soon_threadsafe(self._loop.stop)
