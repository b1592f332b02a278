"""Find out from a server's error messages which parameters of a chat completion it supports.

    body = capabilities.make_body(call)                {…, "response_format": {"type": "json_schema", …}}
    400 "response_format is not supported"             the server's answer
    capabilities.learn(body, 400, message)             True: send the call again
    capabilities.make_body(call)                       {…, "response_format": {"type": "json_object"}}

Servers differ. Some can force replies to follow a JSON schema, some only to be JSON, and some neither; reasoning models
want `max_completion_tokens` instead of `max_tokens`, and no temperature. Users should not have to configure that. So a
request has everything at first, and what the server rejects is left out or replaced in all later requests to this
endpoint. Each change is logged once, except fewer logprobs.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from rubrank.judges.judge import Call, Endpoint, Sampling

_log = logging.getLogger("rubrank.judges")

_TOP_LOGPROBS = 20
_FEWER_LOGPROBS = 5  # what servers with a small limit allow
_REJECTING_STATUSES = frozenset({400, 422, 501})  # with which servers reject a parameter
_FORMAT_WORDS = (  # a message with one of these is about the response format
    "response_format",
    "json_schema",
    "json_object",
    "json schema",
    "guided",
    "grammar",
    "structured output",
)
_UNKNOWN_WORDS = (  # a message with one of these rejects the parameter itself, not its value
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
# Parameters that a request can do without. "top_logprobs" comes before "logprobs", which is part of its name.
_OPTIONAL_PARAMETERS = ("temperature", "top_p", "seed", "top_logprobs", "logprobs")
_NEXT_FORMAT = {"json_schema": "json_object", "json_object": "text"}


class Capabilities:
    """What one endpoint supports, as far as it is known; at first, everything is assumed to be supported."""

    def __init__(self, endpoint: Endpoint, sampling: Sampling) -> None:
        self._endpoint = endpoint
        self._sampling = sampling
        # "json_schema", "json_object" or "text"; fixed if the user has configured it.
        self.format: str = "json_schema" if endpoint.structured == "auto" else endpoint.structured
        self._length_parameter = "max_tokens"
        self._top_logprobs = _TOP_LOGPROBS
        self._unsupported: set[str] = set()
        self._marks_shared = endpoint.prompt_cache

    def make_body(self, call: Call, max_tokens: int | None = None) -> dict[str, Any]:
        """Return the body of a request. max_tokens: overrides the judge's sampling."""
        sampling = self._sampling
        if self._marks_shared:
            messages = _mark_shared(call)
        else:
            messages = [dict(message) for message in call.messages]
        body: dict[str, Any] = {"model": self._endpoint.model, "messages": messages}
        body[self._length_parameter] = max_tokens or sampling.max_tokens
        body["temperature"] = sampling.temperature
        if sampling.top_p < 1.0:
            body["top_p"] = sampling.top_p
        if sampling.seed is not None:
            # The same seed would give the same reply to every sample.
            body["seed"] = sampling.seed + call.sample
        if call.logprobs:
            body["logprobs"] = True
            body["top_logprobs"] = self._top_logprobs
        if call.schema is not None and self.format == "json_object":
            body["response_format"] = {"type": "json_object"}
        elif call.schema is not None and self.format == "json_schema":
            schema = {"name": "reply", "strict": True, "schema": dict(call.schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        for name in self._unsupported:
            body.pop(name, None)
        return body | dict(self._endpoint.extra_body)

    def learn(self, body: Mapping[str, Any], status: int, message: str) -> bool:
        """Learn from an HTTP error; True if the next request will do without what was rejected, so send it again.

        body: the request that was rejected. What the user put into `extra_body` is never changed. One error changes one
        parameter; if the server rejects another one, too, the next error says so. A concurrent call may have learnt the
        same already: the request is then sent again, but nothing is logged.
        """
        if status not in _REJECTING_STATUSES:
            return False
        message = message.lower()
        users_parameters = self._endpoint.extra_body

        # Marks for caching: send the messages as plain text.
        has_marks = any(isinstance(sent["content"], list) for sent in body.get("messages", ()))
        if has_marks and any(word in message for word in ("cache_control", "content")):
            if self._marks_shared:
                self._marks_shared = False
                self._log("does not support cache_control: left out")
            return True

        # The response format: a schema, then JSON, then text.
        sent_format = body.get("response_format")
        is_ours = self._endpoint.structured == "auto" and "response_format" not in users_parameters
        if sent_format and is_ours and any(word in message for word in _FORMAT_WORDS):
            if sent_format["type"] == self.format:
                self.format = _NEXT_FORMAT[self.format]
                self._log(f"does not support {sent_format['type']}: falls back to {self.format}")
            return True

        # The parameter that limits the length of a reply has another name for reasoning models.
        is_ours = "max_tokens" in body and "max_tokens" not in users_parameters
        if is_ours and "max_completion_tokens" in message:
            if self._length_parameter == "max_tokens":
                self._length_parameter = "max_completion_tokens"
                self._log("requires max_completion_tokens instead of max_tokens")
            return True

        # Parameters that a request can do without. If the message does not reject the parameter itself, it rejects its
        # value. That is an error of the configuration, except for the number of logprobs.
        rejected = [name for name in _OPTIONAL_PARAMETERS if name in body and name in message]
        if not rejected or rejected[0] in users_parameters:
            return False
        name = rejected[0]
        if any(word in message for word in _UNKNOWN_WORDS):
            names = {name}
            if name.endswith("logprobs"):
                names = {"logprobs", "top_logprobs"}  # one is useless without the other
            if not names <= self._unsupported:
                self._unsupported |= names
                self._log(f"does not support {name}: left out")
            return True
        if name == "top_logprobs" and body[name] > _FEWER_LOGPROBS:
            self._top_logprobs = _FEWER_LOGPROBS
            return True
        return False

    def _log(self, message: str) -> None:
        _log.warning("%s (%s) %s", self._endpoint.where, self._endpoint.model, message)


def _mark_shared(call: Call) -> list[dict[str, Any]]:
    """Return the messages of a call, with a mark for the server's prompt cache on what other calls share.

    Shared are the system message and, with `order: data_first`, the data at the beginning of the user's message. A
    message becomes a list of parts, so that a part can be marked (`cache_control`, as Anthropic's models want it).
    """
    messages: list[dict[str, Any]] = []
    for message in call.messages:
        content = message["content"]
        shared_length = len(content) if message["role"] == "system" else 0
        if call.shares_data and call.data and content.startswith(call.data):
            shared_length = len(call.data)
        parts = []
        if shared_length:
            shared_text = content[:shared_length]
            parts.append(
                {"type": "text", "text": shared_text, "cache_control": {"type": "ephemeral"}}
            )
        if shared_length < len(content):
            parts.append({"type": "text", "text": content[shared_length:]})
        messages.append({"role": message["role"], "content": parts})
    return messages
