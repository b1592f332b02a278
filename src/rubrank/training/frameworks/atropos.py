"""atropos 0.4: a rubric as the scores of a group.

    from atroposlib.envs.base import BaseEnv
    from rubrank.training.frameworks.atropos import RubricEnv

    class Env(RubricEnv, MyEnv): ...          MyEnv.collect_trajectories as it is

`collect_trajectories(item)` gives all rollouts of an item: shape (a). Its `messages` are what is graded (ask for them
with `include_messages`, or put them there); the item says the rest: `rubric`, `prompt`, reference answers. The scores
take the place of the environment's. A rollout about which nothing is known gets the mean of its group.

Evaluations of atropos are functions of your own, which run beside training. Where `evaluate` collects trajectories they
are scored too, and teach nothing; where it scores by itself, `RewardEngine.score(…, train=False)` does.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.training.config import engine_of
from rubrank.training.engine import RewardEngine
from rubrank.training.queries import Completion, query_of, score_query, split_prompt, without_unknown
from rubrank.training.rollouts import end_token_ids, infer_finish_reason, normalize_finish_reason

_OWNER = "atropos"
_NOT_SAMPLED = -100
_evaluating: ContextVar[bool] = ContextVar("rubrank_atropos_evaluating", default=False)
"""Of a task: trajectories for training may be collected at the same time."""


class RubricEnv:
    """To be mixed in before an environment of atropos."""

    rubrank: RewardEngine | str | Path | None = None
    """An engine, or the path of a configuration; None: RUBRANK_CONFIG."""

    async def collect_trajectories(self, item: Any) -> tuple[Any, list[Any]]:
        """The environment's groups, with the rubric's scores."""
        found, backlog = await super().collect_trajectories(item)  # type: ignore[misc]
        groups = found if isinstance(found, list) else [found]
        for group in groups:
            if isinstance(group, Mapping) and group.get("tokens"):
                await self._score(group, item)
        return found, backlog

    async def evaluate(self, *given: Any, **named: Any) -> Any:
        """The environment's own evaluation; what it collects is not learnt from."""
        token = _evaluating.set(True)
        try:
            return await super().evaluate(*given, **named)  # type: ignore[misc]
        finally:
            _evaluating.reset(token)

    async def _score(self, group: Any, item: Any) -> None:
        engine, column = engine_of(self.rubrank, _OWNER)
        talks = group.get("messages")
        if not talks or len(talks) != len(group["tokens"]):
            remedy = "Put each rollout's messages into the group: messages=…"
            raise InvalidInput(_OWNER, "messages", "one conversation for each rollout", repr(talks)[:60], remedy)
        query = query_of(split_prompt(talks[0])[0], _row(item), rubric_column=column)
        tokenizer = getattr(self, "tokenizer", None)
        reasons = _reasons(group, tokenizer)
        said = [
            Completion(split_prompt(talk)[1], reason, _sampled(group, i))
            for i, (talk, reason) in enumerate(zip(talks, reasons, strict=True))
        ]
        step, train = int(getattr(self, "curr_step", 0)), not _evaluating.get()
        result = await score_query(engine, query, said, step=step, train=train, where=_OWNER, tokenizer=tokenizer)
        group["scores"] = without_unknown(result.flat())


def _row(item: Any) -> dict[str, Any]:
    """What an item holds; in a tuple, its last mapping."""
    if isinstance(item, Mapping):
        return dict(item)
    parts = [one for one in item if isinstance(one, Mapping)] if isinstance(item, Sequence) else []
    return dict(parts[-1]) if parts else {}


def _sampled(group: Any, i: int) -> list[int] | None:
    """The tokens of the last turn, from the masks, which hold -100 for what was not sampled."""
    masks = group.get("masks")
    if not masks or len(masks) != len(group["tokens"]):
        return None
    turn: list[int] = []
    for token, masked in zip(group["tokens"][i], masks[i], strict=False):
        if masked == _NOT_SAMPLED:
            turn = []
        else:
            turn.append(int(token))
    return turn or None


def _reasons(group: Any, tokenizer: Any) -> list[str | None]:
    """What the environment says (`finish_reasons`, or in the overrides), else whether an end token was sampled."""
    number = len(group["tokens"])
    said = group.get("finish_reasons") or [(one or {}).get("finish_reason") for one in group.get("overrides") or ()]
    told = [normalize_finish_reason(one) for one in said] if len(said) == number else [None] * number
    ends = end_token_ids(tokenizer)
    return [one or infer_finish_reason(_sampled(group, i), ends, None) for i, one in enumerate(told)]
