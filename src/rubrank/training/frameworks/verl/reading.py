"""Tokens of verl → rollouts. Pure: nothing of verl is imported.

    Reading(settings, tokenizer, config).rollout(row, ids, "session 7")

Agent loops put turns of the policy and answers of tools into one row of tokens; here they are messages again, calls
with their results. Whether responses begin in thoughts is asked of the chat template, with verl's own options for it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rubrank.rollouts.rollout import Rollout
from rubrank.training.frameworks.verl.settings import Settings, most_tokens, plain
from rubrank.training.rollouts import (
    count_tokens,
    end_token_ids,
    infer_finish_reason,
    split_turns_at_end_tokens,
    template_opening_tag,
)

_TRAIN = ("train", "training")


class Reading:
    """What is needed to read responses of a run."""

    def __init__(self, settings: Settings, tokenizer: Any, config: Any) -> None:
        self.settings, self.tokenizer = settings, tokenizer
        self.ends, self.most = end_token_ids(tokenizer), most_tokens(config)
        data = (config.get("data") if hasattr(config, "get") else None) or {}
        options = plain(data.get("apply_chat_template_kwargs") or {}) if hasattr(data, "get") else {}
        self.opened = template_opening_tag(tokenizer, **options)

    def rollout(self, row: Mapping[str, Any], ids: Any, where: str) -> Rollout:
        """One rollout; the tokens are those of the response, without filling."""

        def decode(tokens: Any) -> str:
            return self.tokenizer.decode(tokens, skip_special_tokens=True)

        said, last = split_turns_at_end_tokens(ids, self.ends, decode)
        alone = len(said) == 1 and not said[0].get("tool_calls")
        reason = infer_finish_reason(ids, self.ends, self.most)
        about: dict[str, Any] = {"finish_reason": reason, "opened": self.opened}
        found = self.settings.rollout(row, said[0]["content"] if alone else said, where, **about)
        return count_tokens(found, last, self.tokenizer)


def step_of(row: Mapping[str, Any], meta: Any) -> int | None:
    """The step: in the row, or, under fully_async_policy and one_step_off_policy, in meta_info; None: nowhere."""
    found = row.get("global_steps")
    if found is None and isinstance(meta, Mapping):
        found = meta.get("global_steps")
    return None if found is None or int(found) < 0 else int(found)


def is_held_out(row: Mapping[str, Any]) -> bool:
    """Does the row say that it is not trained on? verl's datasets have `extra_info.split`."""
    split = (row.get("extra_info") or {}).get("split") if isinstance(row.get("extra_info"), Mapping) else None
    return isinstance(split, str) and split.lower() not in _TRAIN
