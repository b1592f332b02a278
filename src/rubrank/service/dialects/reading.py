"""What all dialects share: which group a sample belongs to, and which sample of it it is.

A group is known by `group_id` where the trainer sends one, beside the sample or in its label; else by prompt and label.
A sample is known by `sample_id`, else by its text. `group_size`, `step` and `train` may be sent too.
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
from rubrank.service.samples import ServiceSample
from rubrank.service.wire import flag, whole
from rubrank.training.queries import Completion, make_query

_GROUP = ("group_id", "uid")
_SAMPLE = "sample_id"
_SAID = (*_GROUP, _SAMPLE, "group_size", "step", "train")


@dataclass(frozen=True)
class SampleReading:
    """How the service reads samples."""

    group_size: int | None
    rubric_column: str
    end_tokens: tuple[str, ...]
    has_steps: bool
    """Do some attributes begin at a step? Then every call must say its own."""
    max_group: int = 4096
    """Samples of a group, at most."""
    thinking: Thinking = "auto"
    """How responses begin, as the engine has it."""

    def sample(
        self, prompt: Any, completion: Completion, label: Any, extra: Mapping[str, Any], *, where: str
    ) -> ServiceSample:
        """One sample. extra: what the body says beside it; where: names it in errors."""
        row = parse_json_cell(label)
        given = {key: value for key, value in row.items() if key in _SAID} if isinstance(row, Mapping) else {}
        given |= {key: extra[key] for key in _SAID if extra.get(key) is not None}
        query = make_query(prompt, label, rubric_column=self.rubric_column)
        group = next((given[name] for name in _GROUP if given.get(name) is not None), None)
        key = digest("id", group) if group is not None else digest("prompt", prompt, label)
        named = given.get(_SAMPLE) is not None
        step = self._step(given, where)
        if named:
            member = digest("id", given[_SAMPLE])
        else:
            member = digest("text", completion.content, completion.finish_reason)
        return ServiceSample(
            key=key,
            member=member,
            named=named,
            rollout=completion.to_rollout(query, self.thinking, where),
            size=self._size(given, where),
            name=f"{step}/{key.hex()[:12] if group is None else group}",
            rubric=query.rubric,
            step=step,
            train=flag(given.get("train", True), "train"),
        )

    def _size(self, given: Mapping[str, Any], where: str) -> int:
        size = given.get("group_size", self.group_size)
        if size is None:
            remedy = "Say group_size in the file of the service: how many samples the trainer draws for a prompt."
            raise InvalidInput(where, "group_size", "known", "none", remedy)
        if whole(size, "group_size", 1) > self.max_group:
            raise InvalidInput(where, "group_size", f"at most {self.max_group:,}", f"{size:,}"[:60], "See max_group.")
        return int(size)

    def _step(self, given: Mapping[str, Any], where: str) -> int:
        if "step" not in given and self.has_steps:
            allowed = "given where attributes begin at a step"
            raise InvalidInput(where, "step", allowed, "none", "Leave `start` out of the attributes.")
        return whole(given.get("step", 0), "step")


def digest(*parts: Any) -> bytes:
    """The same for the same JSON."""
    text = json.dumps(parts, sort_keys=True, default=str)
    return blake2b(text.encode("ascii"), digest_size=16).digest()
