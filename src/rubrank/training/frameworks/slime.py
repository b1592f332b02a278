"""slime: a rubric as the reward function of all samples of a prompt.

    export RUBRANK_CONFIG=/abs/reward.yaml          see docs/frameworks.md
    train.py … --group-rm --custom-rm-path rubrank.training.frameworks.slime.reward

Input. slime awaits `reward(args, samples)` with all samples of one prompt. The label and the metadata of a sample
(`--label-key`, `--metadata-key`) may contain the query's own rubric, and its prompt without the chat template.

Output. slime gets one number per sample. It cannot leave a sample out of the baseline. So a sample without any score
gets the mean of its group, and its `remove_sample` is set, which keeps it out of the loss.

Step. slime does not pass its step. But its data source numbers all groups (`group_index`), and draws
`rollout_batch_size` of them for each step, so with a batch size of 32 group 70 belongs to step 70 // 32 = 2. This is
wrong if slime draws more groups than it trains on, or filters them. Then the configuration must not contain controls
that start at a later step, because it is not known when to start them.

Tested with a stand-in of `Sample` and of the call; its interface was last read at commit 0b420f1. slime itself was not
run.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.training.config import load_engine, refuse_late_controls
from rubrank.training.queries import Completion, make_query, score_query

_OWNER = "slime"


async def reward(args: Any, samples: Sequence[Any], **_: Any) -> list[float]:
    """Return the rewards of the samples of one prompt, and set `remove_sample` of samples without any score.

    args: slime's arguments; `args.rubrank_config` takes precedence over RUBRANK_CONFIG.
    Raises InvalidInput if slime passes something else than the samples of one prompt.
    """
    is_list = isinstance(samples, Sequence)
    if not is_list or any(isinstance(sample, Sequence) for sample in samples):
        raise InvalidInput(
            owner=_OWNER,
            parameter="samples",
            allowed="all samples of a prompt, one for each rollout",
            got="a list of lists" if is_list else type(samples).__name__,
            remedy="Pass --group-rm, and no generate function that returns several samples per call.",
        )
    engine, rubric_column = load_engine(getattr(args, "rubrank_config", None), _OWNER)
    first = samples[0]
    # The number of a group tells the step only if every step draws the same number of groups, and keeps all.
    batch_size = getattr(args, "rollout_batch_size", None)
    groups_drawn = getattr(args, "over_sampling_batch_size", None) or batch_size
    is_filtered = bool(getattr(args, "dynamic_sampling_filter_path", None))
    if not batch_size or groups_drawn != batch_size or is_filtered or first.group_index is None:
        refuse_late_controls(engine, _OWNER)
    step = 0
    if batch_size and first.group_index is not None:
        step = first.group_index // batch_size
    query = make_query(first.prompt, first.label, first.metadata, rubric_column=rubric_column)
    group_id = None if first.group_index is None else f"{step}/{first.group_index}"
    completions = [_read_completion(sample) for sample in samples]
    result = await score_query(engine, query, completions, step=step, id=group_id, where=_OWNER)
    for sample, value in zip(samples, result.flat(), strict=True):
        sample.remove_sample = sample.remove_sample or isnan(value)
    return result.flat(means=True)


def _read_completion(sample: Any) -> Completion:
    """Return the response of a sample, with its finish reason and its tokens."""
    # slime's status is an enum; "aborted" and "pending" say nothing about how the text ended.
    status = getattr(sample, "status", None)
    status_name = str(getattr(status, "value", status)).lower()
    reason = {"truncated": "length", "completed": "stop"}.get(status_name)
    tokens = getattr(sample, "tokens", None)
    length = getattr(sample, "response_length", None)
    # The tokens of the response follow those of the prompt.
    response_ids = tokens[-length:] if tokens and length else None
    return Completion(sample.response, reason, response_ids)
