"""ROLL: a rubric as the reward of a prompt's responses.

    from roll.distributed.scheduler.user_defined_rollout_loop import UserDefinedRolloutLoop
    from rubrank.training.frameworks.roll import RubricLoop

    class Loop(RubricLoop, UserDefinedRolloutLoop):
        tokenizer_path = "Qwen/Qwen3-8B"              then user_defined_rollout_loop_cls: my_module.Loop

`process_new_prompt(context)` gives all responses to a prompt: shape (a). Their `response_level_rewards` and `scores`
become the rubric's; what ROLL's own reward workers gave is left out, and its filter of queries has looked at that. In
validation the responses stay as they are, and nothing is learnt. A row's columns (`prompt`, `ground_truth`, `rubric`
…) say what is asked. A response about which nothing is known gets the mean of its group.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.training.config import engine_of, without_steps
from rubrank.training.engine import RewardEngine
from rubrank.training.queries import Completion, Query, query_of, score_query, without_unknown
from rubrank.training.rollouts import end_token_ids, infer_finish_reason, normalize_finish_reason, token_opening_tag

_OWNER = "ROLL"


class RubricLoop:
    """To be mixed in before a rollout loop of ROLL."""

    rubrank: RewardEngine | str | Path | None = None
    """An engine, or the path of a configuration; None: RUBRANK_CONFIG."""
    tokenizer_path: str = ""
    """Of the policy."""

    async def process_new_prompt(self, context: Any) -> Any:
        """ROLL's responses, with the rubric's rewards."""
        found = await super().process_new_prompt(context)  # type: ignore[misc]
        if not found or context.is_val:
            return found
        items = found if isinstance(found, list) else [found[[i]] for i in range(len(found))]
        engine, column = engine_of(self.rubrank, _OWNER)
        step = int((getattr(context, "meta_info", None) or {}).get("global_step", 0) or 0)
        if not step:
            without_steps(engine, _OWNER)
        query = self._query(items[0], column)
        said = [self._completion(one) for one in items]
        result = await score_query(engine, query, said, step=step, where=_OWNER, tokenizer=self.tokenizer)
        for item, reward in zip(items, without_unknown(result.flat()), strict=True):
            for name in ("response_level_rewards", "scores"):
                if name in item.batch:
                    item.batch[name] = item.batch[name] * 0 + reward
        return items

    @cached_property
    def tokenizer(self) -> Any:
        """Loaded when the first prompt comes."""
        if not self.tokenizer_path:
            raise InvalidInput(_OWNER, "tokenizer_path", "of the policy", "none", "Set it in the class of your loop.")
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.tokenizer_path)

    def _query(self, item: Any, column: str) -> Query:
        row = {name: values[0] for name, values in item.non_tensor_batch.items()}
        ids = _real(item.batch["prompts"][0], item.batch.get("prompt_mask"))
        return query_of(self.tokenizer.decode(ids, skip_special_tokens=True), row, rubric_column=column)

    def _completion(self, item: Any) -> Completion:
        ids = _real(item.batch["responses"][0], item.batch.get("response_mask"))
        told = _sampling(item.non_tensor_batch)
        reasons = told.get("finish_reasons") or [None]
        reason = normalize_finish_reason(reasons[0]) or infer_finish_reason(ids, end_token_ids(self.tokenizer), None)
        opened = token_opening_tag(self.tokenizer, _real(item.batch["prompts"][0], item.batch.get("prompt_mask")))
        text = self.tokenizer.decode(ids, skip_special_tokens=True)
        return Completion(text, reason, ids, opened=opened)


def _real(ids: Any, mask: Any) -> list[int]:
    """The tokens without filling; a mask that covers the whole sequence ends with the response."""
    tokens = list(ids.tolist() if hasattr(ids, "tolist") else ids)
    if mask is None:
        return tokens
    flags: Sequence[Any] = mask[0].tolist() if hasattr(mask[0], "tolist") else mask[0]
    return [token for token, flag in zip(tokens, flags[-len(tokens) :], strict=True) if flag]


def _sampling(row: Mapping[str, Any]) -> dict[str, Any]:
    if "sampling_params" not in row:
        return {}
    try:
        found = json.loads(row["sampling_params"][0])
    except (TypeError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}
