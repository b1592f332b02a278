"""slime: a rubric as the reward function of whole groups.

    export RUBRANK_CONFIG=/abs/reward.yaml          docs/frameworks.md says what is in it
    train.py … --group-rm --custom-rm-path rubrank.training.frameworks.slime.reward

slime awaits `fn(args, samples)` with all samples of one prompt, and takes a list of numbers: shape (a). The label and
the metadata of a sample (`--label-key`, `--metadata-key`) may hold the query's own rubric and its prompt before the
chat template. slime cannot leave a sample out of the baseline: one about which nothing is known gets the mean of its
group, and `remove_sample`, which keeps it out of the loss.

slime does not say its step. Its data source numbers groups, and draws `rollout_batch_size` of them for each rollout, so
the step is their quotient; not so where groups are drawn in excess or filtered, and there attributes that begin later
are refused.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.training.config import configured, without_steps
from rubrank.training.engine import RewardEngine
from rubrank.training.queries import Completion, query_of, score_query, without_unknown

_OWNER = "slime"


async def reward(args: Any, samples: Sequence[Any], **_: Any) -> list[float]:
    """The rewards of the samples of one prompt; configured by `args.rubrank_config`, or else by RUBRANK_CONFIG."""
    _check(samples)
    engine, rubric_column = configured(getattr(args, "rubrank_config", None), _OWNER)
    first = samples[0]
    step = _step(engine, args, first)
    query = query_of(first.prompt, first.label, first.metadata, rubric_column=rubric_column)
    number = None if first.group_index is None else f"{step}/{first.group_index}"
    said = [Completion(sample.response, _finish_reason(sample), _ids(sample)) for sample in samples]
    result = await score_query(engine, query, said, step=step, id=number, where=_OWNER)
    rewards = result.flat()
    for sample, value in zip(samples, rewards, strict=True):
        sample.remove_sample = sample.remove_sample or isnan(value)
    return without_unknown(rewards)


def _ids(sample: Any) -> Any:
    """The tokens of the response, which stand behind those of the prompt."""
    tokens, number = getattr(sample, "tokens", None), getattr(sample, "response_length", None)
    return tokens[-number:] if tokens and number else None


def _finish_reason(sample: Any) -> str | None:
    """slime says it by the status of a sample: completed, truncated, aborted."""
    status = getattr(sample, "status", None)
    name = str(getattr(status, "value", status)).lower()
    return {"truncated": "length", "completed": "stop"}.get(name)


def _check(samples: Any) -> None:
    if not isinstance(samples, Sequence) or isinstance(samples, str):
        got = type(samples).__name__
        raise InvalidInput(_OWNER, "samples", "all samples of a prompt", got, "Pass --group-rm too.")
    if not samples or any(isinstance(sample, Sequence) for sample in samples):
        got = f"a list of {type(samples[0]).__name__ if samples else 'none'}"
        remedy = "A generate function that returns several samples for one cannot be used with --group-rm."
        raise InvalidInput(_OWNER, "samples", "one for each rollout", got, remedy)


def _step(engine: RewardEngine, args: Any, sample: Any) -> int:
    size = getattr(args, "rollout_batch_size", None)
    drawn = getattr(args, "over_sampling_batch_size", None) or size
    exact = size and drawn == size and not getattr(args, "dynamic_sampling_filter_path", None)
    if not exact or sample.group_index is None:
        without_steps(engine, _OWNER)
    return (sample.group_index or 0) // size if size else 0
