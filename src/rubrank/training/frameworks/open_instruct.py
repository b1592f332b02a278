"""open-instruct: a rubric as its reward function.

    from rubrank.training.frameworks.open_instruct import reward_function

    RewardConfig.build = lambda self: reward_function("reward.yaml", n=args.num_samples_per_prompt_rollout)

Input. open-instruct awaits `reward_fn(responses, decoded_responses, ground_truths, datasets, finish_reasons, infos,
queries)` with all samples of a prompt. It has no setting that names a function, so its `build` is replaced before
training starts. A ground truth may be JSON with `rubric`, `prompt` (without the chat template) and what verifiers need;
anything else becomes `metadata["label"]`. If a call has several prompts, rows with the same query and ground truth are
a group, `n` at a time.

Output. open-instruct gets a list of scores, and metrics. A sample without any score gets the mean of its group.

Tested with a stand-in of the call; its interface was last read at commit c28e030. open-instruct itself was not run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from itertools import count
from typing import Any

from rubrank.training.config import EngineSource, load_engine
from rubrank.training.flat_batch import Sample, by_key_and_size, score_flat
from rubrank.training.queries import Completion, make_query

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
        prompts = list(queries or [""] * len(decoded_responses))
        samples = []
        for i, text in enumerate(decoded_responses):
            truth = ground_truths[i]
            if isinstance(truth, list | tuple) and len(truth) == 1:
                truth = truth[0]
            row = {"dataset": datasets[i]}
            query = make_query(prompts[i], row, truth, rubric_column=rubric_column)
            completion = Completion(text, finish_reasons[i], responses[i])
            rollout = completion.to_rollout(query, reward_engine.thinking, _OWNER)
            samples.append(Sample(rollout, (prompts[i], repr(truth)), query.rubric))
        result = await asyncio.to_thread(
            score_flat,
            reward_engine,
            samples,
            step=next(calls),
            train=train,
            group_of=by_key_and_size(n),
            means=True,
        )
        return result.rewards, result.metrics

    return reward_fn
