"""Shape (a): the trainer hands over one group, and takes a list of rewards.

    step = score_group(engine, "Name a lake.", ["West Lake.", "No.", ""], step=12)
    step.flat()                        [1.0, 0.4, 0.0]
    step.metrics                       for the trainer's log

For hooks that get all samples of a query at once. From asynchronous code: `engine.score_async([group_of(…)], step)`. An
engine may be used in several threads. Rules that look at a whole batch (GDPO, AMRP …) see one group at a time here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rubrank.errors import InvalidInput, only_our_errors
from rubrank.rollouts.rollout import Group
from rubrank.training.engine import RewardEngine, StepRewards
from rubrank.training.rollouts import rollout_of


@only_our_errors
def score_group(
    engine: RewardEngine,
    prompt: Any,
    completions: Sequence[Any],
    *,
    step: int,
    rubric: Any = None,
    id: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    metadata: Mapping[str, Any] | None = None,
    finish_reasons: Sequence[str | None] | None = None,
    token_counts: Sequence[Mapping[str, int] | None] | None = None,
    train: bool = True,
) -> StepRewards:
    """Rewards of the completions of one query, in their order; the parameters are those of `group_of`."""
    given: dict[str, Any] = {"rubric": rubric, "id": id, "tools": tools, "metadata": metadata}
    given |= {"finish_reasons": finish_reasons, "token_counts": token_counts}
    return engine.score([group_of(engine, prompt, completions, step=step, train=train, **given)], step, train=train)


def group_of(
    engine: RewardEngine,
    prompt: Any,
    completions: Sequence[Any],
    *,
    step: int,
    rubric: Any = None,
    id: str | None = None,
    tools: Sequence[Mapping[str, Any]] | None = None,
    metadata: Mapping[str, Any] | None = None,
    finish_reasons: Sequence[str | None] | None = None,
    token_counts: Sequence[Mapping[str, int] | None] | None = None,
    train: bool = True,
) -> Group:
    """The completions of one query as a group.

    prompt, completions: texts or chat messages. rubric: the query's own. id: of the group, in the records; by default
    one that no other group of the run has. finish_reasons: why the sampling of each completion ended, where known.
    token_counts: of the "reasoning" and the "answer" of each, where known.
    """
    if isinstance(completions, str) or not len(completions):
        got = repr(completions)
        raise InvalidInput("score_group", "completions", "a list of at least one", got, "Pass the whole group.")
    name = engine.label(step, train=train) if id is None else id
    ends = finish_reasons or [None] * len(completions)
    counts = token_counts or [None] * len(completions)
    about: dict[str, Any] = {"tools": tools, "metadata": metadata, "thinking": engine.thinking}
    rollouts = (
        rollout_of(prompt, said, finish_reason=end, token_counts=count, where=f"group {name!r}", **about)
        for said, end, count in zip(completions, ends, counts, strict=True)
    )
    return Group(id=name, rollouts=tuple(rollouts), rubric=rubric)
