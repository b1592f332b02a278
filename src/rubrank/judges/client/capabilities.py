"""What one server understands of the parameters of a chat completion; learnt from its refusals.

    capabilities.body(call)             {"model": …, "messages": …, "response_format": {"type": "json_schema", …}}
    400 "response_format …"        capabilities.learn(…) → True: ask again
    capabilities.body(call)             {… "response_format": {"type": "json_object"}}, then none at all

Servers differ: some hold replies to a JSON schema, some to JSON, some to nothing; reasoning models want
`max_completion_tokens` and no temperature. Users should not have to configure that. What was learnt is remembered for
the endpoint, and said in the log once.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from rubrank.judges.judge import Call, Endpoint, Sampling

_log = logging.getLogger("rubrank.judges")

_TOP_LOGPROBS = 20
_FEWER_LOGPROBS = 5  # the most that servers with a small limit allow
_LEARNABLE = frozenset({400, 422, 501})
_FORMAT_WORDS = (
    "response_format",
    "json_schema",
    "json_object",
    "json schema",
    "guided",
    "grammar",
    "structured output",
)
_UNKNOWN_WORDS = (
    "unsupported",
    "not support",
    "unrecognized",
    "unknown",
    "unexpected",
    "not permitted",
    "not allowed",
    "only the default",
    "extra inputs",
    "extra_forbidden",
)
_OPTIONAL = ("temperature", "top_p", "seed", "top_logprobs", "logprobs")
_NEXT_FORM = {"json_schema": "json_object", "json_object": "text"}


class Capabilities:
    """Of one endpoint."""

    def __init__(self, endpoint: Endpoint, sampling: Sampling) -> None:
        self._endpoint, self._sampling = endpoint, sampling
        self.form: str = "json_schema" if endpoint.structured == "auto" else endpoint.structured
        self._length = "max_tokens"
        self._top = _TOP_LOGPROBS
        self._left_out: set[str] = set()

    def body(self, call: Call, most: int | None = None) -> dict[str, Any]:
        """The request; `most` tokens instead of those of the sampling."""
        sampling = self._sampling
        body: dict[str, Any] = {"model": self._endpoint.model, "messages": [dict(m) for m in call.messages]}
        body[self._length] = most or sampling.max_tokens
        body["temperature"] = sampling.temperature
        if sampling.top_p < 1.0:
            body["top_p"] = sampling.top_p
        if sampling.seed is not None:
            body["seed"] = sampling.seed + call.sample  # the same seed would give the same answer again
        if call.logprobs:
            body |= {"logprobs": True, "top_logprobs": self._top}
        if call.schema is not None and self.form != "text":
            body["response_format"] = self._response_format(call.schema)
        for name in self._left_out:
            body.pop(name, None)
        return body | dict(self._endpoint.extra_body)

    def _response_format(self, schema: Mapping[str, Any]) -> dict[str, Any]:
        if self.form == "json_object":
            return {"type": "json_object"}
        return {"type": "json_schema", "json_schema": {"name": "reply", "strict": True, "schema": dict(schema)}}

    def learn(self, sent: Mapping[str, Any], status: int, said: str) -> bool:
        """Is this a refusal of a parameter that can be put otherwise or left out? Then ask again."""
        if status not in _LEARNABLE:
            return False
        said = said.lower()
        return self._learn_format(sent, said) or self._learn_length(sent, said) or self._learn_optional(sent, said)

    def _learn_format(self, sent: Mapping[str, Any], said: str) -> bool:
        refused = sent.get("response_format")
        ours = self._endpoint.structured == "auto" and "response_format" not in self._endpoint.extra_body
        if not refused or not ours or not any(word in said for word in _FORMAT_WORDS):
            return False
        if refused["type"] == self.form:  # else another call has learnt it meanwhile
            self.form = _NEXT_FORM[self.form]
            self._note(f"does not take {refused['type']}: falls back to {self.form}")
        return True

    def _learn_length(self, sent: Mapping[str, Any], said: str) -> bool:
        ours = "max_tokens" in sent and "max_tokens" not in self._endpoint.extra_body
        if not ours or "max_completion_tokens" not in said:
            return False
        if self._length == "max_tokens":
            self._length = "max_completion_tokens"
            self._note("wants max_completion_tokens instead of max_tokens")
        return True

    def _learn_optional(self, sent: Mapping[str, Any], said: str) -> bool:
        name = next((name for name in _OPTIONAL if name in sent and name in said), None)
        if name is None or name in self._endpoint.extra_body:
            return False
        if any(word in said for word in _UNKNOWN_WORDS):
            names = {"logprobs", "top_logprobs"} if name.endswith("logprobs") else {name}
            if not names <= self._left_out:
                self._left_out |= names
                self._note(f"does not take {name}: left out")
            return True
        if name == "top_logprobs" and sent[name] > _FEWER_LOGPROBS:
            self._top = _FEWER_LOGPROBS
            return True
        return False

    def _note(self, what: str) -> None:
        _log.warning("%s (%s) %s", self._endpoint.base_url, self._endpoint.model, what)
