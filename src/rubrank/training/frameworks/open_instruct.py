"""open-instruct: a rubric as its reward function.

    from rubrank.training.frameworks.open_instruct import reward_function

    RewardConfig.build = lambda self: reward_function("reward.yaml", n=args.num_samples_per_prompt_rollout)

open-instruct awaits `reward_fn(responses, decoded_responses, ground_truths, datasets, finish_reasons, infos, queries)`
with all samples of a prompt, and takes scores and metrics: shape (a). It has no setting that names a function, so its
`build` is replaced before training starts. A ground truth may be JSON with `rubric`, `prompt` (before the chat
template) and what verifiers need; anything else is `metadata["label"]`. Where a call brings several prompts, rows with
the same query and ground truth in a row are a group, `n` at a time. One about which nothing is known gets the mean of
its group.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from itertools import count, groupby
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.training.config import engine_of, without_steps
from rubrank.training.engine import RewardEngine
from rubrank.training.queries import Completion, group_of_query, query_of, without_unknown
from rubrank.training.rollouts import normalize_finish_reason

_OWNER = "open-instruct"


def reward_function(
    engine: RewardEngine | str | Path | None = None, *, n: int | None = None, train: bool = True
) -> Callable[..., Awaitable[tuple[list[float], dict[str, Any]]]]:
    """The function. n: samples of a prompt, where several with the same text may come. train=False: an evaluation."""
    found, column = engine_of(engine, _OWNER)
    found, numbers = without_steps(found, _OWNER), count()

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
        step, asked = next(numbers), list(queries or [""] * len(decoded_responses))
        groups = []
        for number, rows in enumerate(_groups(asked, ground_truths, n)):
            first = rows[0]
            about = {"dataset": datasets[first]}
            query = query_of(asked[first], about, _single(ground_truths[first]), rubric_column=column)
            said = [
                Completion(decoded_responses[i], normalize_finish_reason(finish_reasons[i]), responses[i]) for i in rows
            ]
            id = f"{found.label(step, train=train)}/{number}"
            groups.append(group_of_query(found, query, said, step=step, id=id, train=train, where=_OWNER))
        result = await found.score_async(groups, step, train=train)
        scores = [reward for group in result.rewards for reward in without_unknown(group)]
        return scores, dict(result.metrics)

    return reward_fn


def _groups(queries: Sequence[str], truths: Sequence[Any], n: int | None) -> list[list[int]]:
    """Rows that belong together."""
    same = groupby(range(len(queries)), lambda i: (queries[i], repr(truths[i])))
    runs = [list(rows) for _, rows in same]
    if n is None:
        return runs
    odd = next((len(run) for run in runs if len(run) > n and len(run) % n), None)
    if odd is not None:
        raise InvalidInput(_OWNER, "n", "a divisor of the samples that come with the same query", f"{n}, and {odd}", "")
    return [run[at : at + n] for run in runs for at in range(0, len(run), n)]


def _single(truth: Any) -> Any:
    """Ground truths come as lists of one."""
    return truth[0] if isinstance(truth, list | tuple) and len(truth) == 1 else truth
