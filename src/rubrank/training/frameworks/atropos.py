"""atropos 0.4: a rubric as the scores of a group.

    from atroposlib.envs.base import BaseEnv
    from rubrank.training.frameworks.atropos import RubricEnv

    class Env(RubricEnv, MyEnv): ...          MyEnv.collect_trajectories stays as it is

Input. atropos calls `collect_trajectories(item)` of an environment, which returns all rollouts of an item. Their
`messages` are graded (set `include_messages`, or add them yourself). The item holds the rest: `rubric`, `prompt`,
reference answers.

Output. atropos gets the same groups, with the rubric's `scores` instead of the environment's. A rollout without any
score gets the mean of its group.

Evaluations. In atropos they are your own functions, which run beside training. If `evaluate` collects trajectories,
they are scored, too, and no rule learns from them. If it scores by itself, use `RewardEngine.score(…, train=False)`.

Tested with atropos 0.4.0 installed: `BaseEnv.collect_trajectories`, with scripted trajectories. Its API server was not
run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.training.config import EngineSource, load_engine
from rubrank.training.queries import Completion, make_query, score_query, split_prompt
from rubrank.training.rollouts import find_end_token_ids, find_last_turn, infer_finish_reason

_OWNER = "atropos"
_NOT_SAMPLED = -100  # in the mask of a rollout's tokens
_evaluating: ContextVar[bool] = ContextVar("rubrank_atropos_evaluating", default=False)
"""Set per task, because trajectories for training may be collected at the same time."""


class RubricEnv:
    """A mixin; put it before an environment of atropos."""

    rubrank: EngineSource = None
    """An engine, or the path of a configuration; None: RUBRANK_CONFIG."""

    async def collect_trajectories(self, item: Any) -> tuple[Any, list[Any]]:
        """Return the environment's groups, with the rubric's scores."""
        collected, backlog = await super().collect_trajectories(item)  # type: ignore[misc]
        for group in collected if isinstance(collected, list) else [collected]:
            if isinstance(group, Mapping) and group.get("tokens"):
                await self._score(group, item)
        return collected, backlog

    async def evaluate(self, *args: Any, **kwargs: Any) -> Any:
        """Run the environment's own evaluation; no rule learns from what it collects."""
        token = _evaluating.set(True)
        try:
            return await super().evaluate(*args, **kwargs)  # type: ignore[misc]
        finally:
            _evaluating.reset(token)

    async def _score(self, group: Any, item: Any) -> None:
        """Replace the scores of a group by the rubric's. item: what the environment knows about the query."""
        engine, rubric_column = load_engine(self.rubrank, _OWNER)
        conversations = group.get("messages")
        if not conversations or len(conversations) != len(group["tokens"]):
            raise InvalidInput(
                _OWNER,
                "messages",
                allowed="one conversation for each rollout",
                got=repr(conversations)[:60],
                remedy="Put each rollout's messages into the group: messages=…",
            )
        tokenizer = getattr(self, "tokenizer", None)
        reported_reasons = _read_finish_reasons(group)
        completions = []
        masks = group.get("masks") or ()
        for i, conversation in enumerate(conversations):
            ids = None
            if len(masks) == len(conversations):
                is_sampled = [label != _NOT_SAMPLED for label in masks[i]]
                ids = find_last_turn(group["tokens"][i], is_sampled) or None
            reason = reported_reasons[i] or infer_finish_reason(
                ids, find_end_token_ids(tokenizer), None
            )
            completions.append(Completion(split_prompt(conversation)[1], reason, ids))
        # Of a tuple, the last mapping is the data of the item.
        parts = item if isinstance(item, Sequence) else [item]
        row = next((part for part in reversed(parts) if isinstance(part, Mapping)), {})
        prompt, _ = split_prompt(conversations[0])
        result = await score_query(
            engine,
            make_query(prompt, dict(row), rubric_column=rubric_column),
            completions,
            step=int(getattr(self, "curr_step", 0)),
            train=not _evaluating.get(),
            where=_OWNER,
            tokenizer=tokenizer,
        )
        group["scores"] = result.flat(means=True)


def _read_finish_reasons(group: Any) -> list[Any]:
    """Return the finish reasons that the environment reports as `finish_reasons` or in its overrides; None: unknown."""
    reasons = group.get("finish_reasons")
    if not reasons:
        reasons = [
            (override or {}).get("finish_reason") for override in group.get("overrides") or ()
        ]
    if len(reasons) != len(group["tokens"]):
        return [None] * len(group["tokens"])
    return list(reasons)
