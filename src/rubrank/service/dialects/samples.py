"""Shared by all dialects: make a sample, and identify its group and its place in it.

A group is identified by `group_id` if the trainer sends it, in the body or in the label; else by prompt and label.
Samples of different steps, or of training and evaluation, are never siblings. A sample is identified by `sample_id`,
else by its text. `group_size`, `step` and `train` may be sent too.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from rubrank._choices import Thinking
from rubrank.errors import InvalidInput
from rubrank.rollouts.messages import parse_json_cell
from rubrank.service.cohorts import ServiceSample
from rubrank.service.schemas import SampleKeys
from rubrank.training.queries import Completion, make_query


@dataclass(frozen=True)
class SampleReader:
    """Makes samples from what trainers send, with the settings of the service."""

    group_size: int | None
    rubric_column: str
    end_tokens: tuple[str, ...]
    needs_step: bool
    """Do some attributes start at a later step? Then every call must send its step."""
    max_group: int = 4096
    """Samples of a group, at most."""
    thinking: Thinking = "auto"
    """Whether responses begin inside thoughts; the setting of the engine."""

    def make_sample(
        self,
        prompt: Any,
        completion: Completion,
        label: Any,
        body: Mapping[str, Any],
        *,
        where: str,
    ) -> ServiceSample:
        """One sample. body: the request, which may have keys of the sample; where: the owner of errors."""
        row = parse_json_cell(label)
        keys = SampleKeys.read(row if isinstance(row, Mapping) else {}, body)
        query = make_query(prompt, label, rubric_column=self.rubric_column)
        group = keys.uid if keys.group_id is None else keys.group_id
        # The same prompt at another step, or in an evaluation, is another group.
        period = (keys.step, keys.train)
        if group is None:
            key = digest_json("prompt", prompt, label, *period)
        else:
            key = digest_json("id", group, *period)
        has_sample_id = keys.sample_id is not None
        if has_sample_id:
            sample_key = digest_json("id", keys.sample_id)
        else:
            sample_key = digest_json("text", completion.content, completion.finish_reason)
        if keys.step is None and self.needs_step:
            raise InvalidInput(
                where,
                "step",
                allowed="given if attributes start at a later step",
                got="none",
                remedy="Leave `start` out of the attributes.",
            )
        step = keys.step or 0
        name = f"{step}/{key.hex()[:12] if group is None else group}"
        return ServiceSample(
            group_key=key,
            sample_key=sample_key,
            has_sample_id=has_sample_id,
            rollout=completion.to_rollout(query, self.thinking, where),
            group_size=self._find_size(keys, where),
            group_name=name if keys.train else f"eval-{name}",
            rubric=query.rubric,
            step=step,
            train=keys.train,
        )

    def _find_size(self, keys: SampleKeys, where: str) -> int:
        size = keys.group_size or self.group_size
        if size is None:
            raise InvalidInput(
                where,
                "group_size",
                allowed="known",
                got="none",
                remedy="Set group_size in the file of the service: how many samples the trainer draws for a prompt.",
            )
        if size > self.max_group:
            raise InvalidInput(
                where,
                "group_size",
                allowed=f"at most {self.max_group:,}",
                got=f"{size:,}"[:60],
                remedy="See max_group.",
            )
        return size


def digest_json(*parts: Any) -> bytes:
    """A digest of values as JSON; equal values have equal digests."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return blake2b(text.encode("ascii"), digest_size=16).digest()
