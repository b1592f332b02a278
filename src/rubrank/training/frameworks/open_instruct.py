"""open-instruct: a rubric as its reward function.

    from rubrank.training.frameworks.open_instruct import reward_function

    RewardConfig.build = lambda self: reward_function("reward.yaml", n=args.num_samples_per_prompt_rollout)

open-instruct awaits `reward_fn(responses, decoded_responses, ground_truths, datasets, finish_reasons, infos, queries)`
with all samples of a prompt. It has no setting that names a function, so its `build` is replaced before training
starts. A ground truth may be JSON with `rubric`, `prompt` (without the chat template) and what verifiers need; anything
else becomes `metadata["label"]`. If a call has several prompts, consecutive rows with the same query and ground truth
are a group, `n` at a time.

open-instruct gets a list of scores, and metrics. A sample without any score gets the mean of its group.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import count, groupby
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.training.config import load_engine
from rubrank.training.engine import fill_unknown
from rubrank.training.frameworks.common import EngineSource
from rubrank.training.queries import Completion, make_group, make_query
from rubrank.training.rollouts import normalize_finish_reason

_OWNER = "open-instruct"


def reward_function(
    engine: EngineSource = None, *, n: int | None = None, train: bool = True
) -> Callable[..., Awaitable[tuple[list[float], dict[str, Any]]]]:
    """Return the reward function.

    n: samples per prompt, needed if prompts with the same text may follow each other. train: False for an evaluation.
    """
    reward_engine, rubric_column = load_engine(engine, _OWNER, passes_step=False)
    calls = count()

    async def reward_fn(
        responses: Sequence[Any],
        decoded_responses: Sequence[str],
        ground_truths: Sequence[Any],
        datasets: Sequence[Any],
        finish_reasons: Sequence[str],
        infos: Any = None,
        queries: Sequence[str] | None = None,
        **_: Any,
    ) -> tuple[list[float], dict[str, Any]]:
        step = next(calls)
        prompts = list(queries or [""] * len(decoded_responses))
        label = reward_engine.label(step, train=train)
        groups = []
        for number, rows in enumerate(_group_rows(prompts, ground_truths, n)):
            first = rows[0]
            truth = ground_truths[first]
            if isinstance(truth, list | tuple) and len(truth) == 1:
                truth = truth[0]
            query = make_query(
                prompts[first], {"dataset": datasets[first]}, truth, rubric_column=rubric_column
            )
            completions = [
                Completion(
                    decoded_responses[i], normalize_finish_reason(finish_reasons[i]), responses[i]
                )
                for i in rows
            ]
            group = make_group(
                reward_engine,
                query,
                completions,
                step=step,
                id=f"{label}/{number}",
                train=train,
                where=_OWNER,
            )
            groups.append(group)
        result = await reward_engine.score_async(groups, step, train=train)
        scores = [
            reward for group_rewards in result.rewards for reward in fill_unknown(group_rewards)
        ]
        return scores, dict(result.metrics)

    return reward_fn


def _group_rows(prompts: Sequence[str], truths: Sequence[Any], n: int | None) -> list[list[int]]:
    """Return the row numbers of each group: consecutive rows with the same prompt and ground truth, `n` at a time."""
    runs = [
        list(rows)
        for _, rows in groupby(range(len(prompts)), lambda i: (prompts[i], repr(truths[i])))
    ]
    if n is None:
        return runs
    groups = []
    for run in runs:
        if len(run) > n and len(run) % n:
            raise InvalidInput(
                _OWNER,
                "n",
                allowed="a divisor of the number of samples with the same query",
                got=f"{n}, with {len(run)} samples",
                remedy="",
            )
        groups += [run[start : start + n] for start in range(0, len(run), n)]
    return groups
