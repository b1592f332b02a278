"""Shape (a): the trainer hands over one group, and takes a list of rewards.

    step = score_group(engine, "Name a lake.", ["West Lake.", "No.", ""], step=12)
    step.flat()                        [1.0, 0.4, 0.0]
    step.metrics                       for the trainer's log

For hooks that get all samples of a query at once. From asynchronous code: `await asyncio.to_thread(score_group, …)`; an
engine may be used in several threads. Rules that look at a whole batch (GDPO, AMRP …) see one group at a time here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Group
from rubrank.training.engine import RewardEngine, StepRewards
from rubrank.training.making import rollout_of


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
    train: bool = True,
) -> StepRewards:
    """Rewards of the completions of one query, in their order.

    prompt, completions: texts or chat messages. rubric: the query's own. id: of the group, in the records; by default
    one that no other group of the run has.
    """
    if isinstance(completions, str) or not len(completions):
        got = repr(completions)
        raise InvalidInput("score_group", "completions", "a list of at least one", got, "Pass the whole group.")
    name = engine.label(step, train=train) if id is None else id
    rollouts = (rollout_of(prompt, c, tools=tools, metadata=metadata, where=f"group {name!r}") for c in completions)
    return engine.score([Group(id=name, rollouts=tuple(rollouts), rubric=rubric)], step, train=train)
