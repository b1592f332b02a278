"""ROLL: a rubric as the reward of a prompt's responses.

    from roll.distributed.scheduler.user_defined_rollout_loop import UserDefinedRolloutLoop
    from rubrank.training.frameworks.roll import RubricLoop

    class Loop(RubricLoop, UserDefinedRolloutLoop):
        tokenizer_path = "Qwen/Qwen3-8B"              then user_defined_rollout_loop_cls: my_module.Loop

Input. ROLL calls `process_new_prompt(context)` of a loop, which returns all responses to a prompt, as tokens. The
columns of a row (`prompt`, `ground_truth`, `rubric` …) are the query.

Output. ROLL gets the responses with the rubric's rewards as their `response_level_rewards` and `scores`. The rewards of
ROLL's own reward workers are replaced, but its query filter has already used them. A response without any score gets
the mean of its group. In validation the responses stay as they are, and no rule learns.

Tested with stand-ins of the loop and its data; its interface was last read at commit 84d005c. ROLL itself was not run.
"""

from __future__ import annotations

import json
from contextlib import suppress
from functools import cached_property
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.training.config import EngineSource, load_engine, refuse_late_controls
from rubrank.training.queries import (
    Completion,
    make_query,
    read_token_completion,
    score_query,
)

_OWNER = "ROLL"


class RubricLoop:
    """A mixin; put it before a rollout loop of ROLL."""

    rubrank: EngineSource = None
    """An engine, or the path of a configuration; None: RUBRANK_CONFIG."""
    tokenizer_path: str = ""
    """The policy's tokenizer."""

    async def process_new_prompt(self, context: Any) -> Any:
        """Return ROLL's responses, with the rubric's rewards."""
        responses = await super().process_new_prompt(context)  # type: ignore[misc]
        if not responses or context.is_val:
            return responses
        items = responses
        if not isinstance(responses, list):  # one batch object with a row for each response
            items = [responses[[i]] for i in range(len(responses))]
        engine, rubric_column = load_engine(self.rubrank, _OWNER)
        meta_info = getattr(context, "meta_info", None) or {}
        step = int(meta_info.get("global_step", 0) or 0)
        if not step:
            refuse_late_controls(engine, _OWNER)
        first = items[0]
        row = {name: values[0] for name, values in first.non_tensor_batch.items()}
        prompt = self.tokenizer.decode(_read_prompt_ids(first), skip_special_tokens=True)
        result = await score_query(
            engine,
            make_query(prompt, row, rubric_column=rubric_column),
            [self._read_completion(item) for item in items],
            step=step,
            where=_OWNER,
            tokenizer=self.tokenizer,
        )
        for item, reward in zip(items, result.flat(means=True), strict=True):
            for name in ("response_level_rewards", "scores"):
                if name in item.batch:
                    item.batch[name] = item.batch[name] * 0 + reward
        return items

    @cached_property
    def tokenizer(self) -> Any:
        """Loaded with the first prompt."""
        if not self.tokenizer_path:
            raise InvalidInput(
                _OWNER,
                "tokenizer_path",
                allowed="the policy's",
                got="none",
                remedy="Set it in the class of your loop.",
            )
        from transformers import AutoTokenizer

        return AutoTokenizer.from_pretrained(self.tokenizer_path)

    def _read_completion(self, item: Any) -> Completion:
        """Return the completion of a response, which ROLL has as padded tokens."""
        ids = _to_list(item.batch["responses"][0])
        if item.batch.get("response_mask") is not None:
            ids = ids[: _count_tokens(item.batch["response_mask"])]  # padded at the end
        # ROLL reports the finish reason among the sampling parameters, which it keeps as JSON.
        params = None
        with suppress(KeyError, TypeError, ValueError):
            params = json.loads(item.non_tensor_batch["sampling_params"][0])
        reason = None
        if isinstance(params, dict) and params.get("finish_reasons"):
            reason = params["finish_reasons"][0]
        return read_token_completion(self.tokenizer, _read_prompt_ids(item), ids, reason)


def _read_prompt_ids(item: Any) -> list[int]:
    """Return the tokens of a prompt, without padding."""
    ids = _to_list(item.batch["prompts"][0])
    if item.batch.get("prompt_mask") is None:
        return ids
    padding = len(ids) - _count_tokens(item.batch["prompt_mask"])
    return ids[padding:]  # padded at the beginning


def _count_tokens(mask: Any) -> int:
    """Return the number of tokens that are not padding.

    ROLL's masks cover prompt and response together, shifted to the left by the padding of the prompt. So they say how
    many tokens there are, but not at which places of `prompts` and `responses`.
    """
    return int(sum(_to_list(mask[0])))


def _to_list(values: Any) -> list[Any]:
    return list(values.tolist() if hasattr(values, "tolist") else values)
