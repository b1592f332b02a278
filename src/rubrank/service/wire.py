"""JSON ⇄ groups, scores and rewards.

    POST /v1/groups
      {"groups": [{"id": "12/0", "prompt": "Name a lake.", "responses": ["West Lake.", "No."]}], "step": 12}
      {"groups": [{"id": "12/0", "rewards": [1.0, 0.0], "scores": {"Facts": [1.0, 0.0]}, "reasons": {…}}], "cost": {…}}

A prompt is a text or messages, a response a text, messages, or an object with the fields of a rollout. `null` is a
reward about which nothing is known, or a score that is missing. Numbers come out as they are, to the last bit.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic_core import PydanticSerializationError
from pydantic_core import to_json as fast_json

from rubrank._choices import Thinking
from rubrank._plain import plain
from rubrank.errors import InvalidInput
from rubrank.rollouts.messages import are_messages
from rubrank.rollouts.rollout import Group, Message, Rollout, to_rollout
from rubrank.scores.table import GroupScores
from rubrank.training.rollouts import prompt_opening_tag, rollout_of

_WHERE = "request"
_GROUP = {"id", "prompt", "responses", "rubric", "metadata", "tools", "finish_reasons"}
_REQUEST = {"groups", "step", "train", "request_id", "reasons", "metrics"}
_FIELDS = {"prompt", "response", "metadata"}
_LARGEST = 2**63 - 1  # of a whole number: files and arrays hold no more


def to_json(data: Any) -> bytes:
    """Bytes of JSON; null for what is no number, escapes for half characters."""
    try:
        return fast_json(data, inf_nan_mode="null")
    except PydanticSerializationError:
        return json.dumps(plain(data), default=str).encode("ascii")


@dataclass(frozen=True, eq=False)
class GroupsRequest:
    """What `POST /v1/groups` takes."""

    groups: tuple[Group, ...]
    step: int = 0
    train: bool = True
    request_id: str | None = None
    """Of the caller's making: the same one again gets the same answer, and nothing is done twice."""
    reasons: bool = True
    metrics: bool = False
    """What trainers log about a step, too."""

    @property
    def rollouts(self) -> int:
        """In all groups."""
        return sum(len(group.rollouts) for group in self.groups)


def mapping(data: Any, what: str = "body") -> Mapping[str, Any]:
    """The same, or an error: an object is wanted."""
    if not isinstance(data, Mapping):
        raise InvalidInput(_WHERE, what, "an object", type(data).__name__, "")
    return data


def known_keys(data: Mapping[str, Any], known: set[str], what: str) -> None:
    """Raise for a key that nothing reads."""
    unknown = sorted(set(data) - known)
    if unknown:
        place = f"{what}.{unknown[0]}" if what else unknown[0]
        raise InvalidInput(_WHERE, place, f"one of {', '.join(sorted(known))}", "another key", "")


def groups_request(data: Any, most: int, label: Any, thinking: Thinking = "auto") -> GroupsRequest:
    """A request from its JSON. most: rollouts of a group; label: a function that names groups without an id.

    thinking: how responses begin, as the engine has it.
    """
    body = mapping(data)
    known_keys(body, _REQUEST, "")
    given = body.get("groups")
    if not isinstance(given, list) or not given:
        raise InvalidInput(_WHERE, "groups", "a list of at least one group", _kind(given), "")
    step, train = whole(body.get("step", 0), "step"), body.get("train", True)
    name = "" if all(isinstance(g, Mapping) and g.get("id") is not None for g in given) else label(step, train=train)
    groups = tuple(_group(one, f"groups.{n}", f"{name}/{n}", most, thinking) for n, one in enumerate(given))
    return GroupsRequest(
        groups,
        step,
        flag(train, "train"),
        None if body.get("request_id") is None else text(body["request_id"], "request_id"),
        flag(body.get("reasons", True), "reasons"),
        flag(body.get("metrics", False), "metrics"),
    )


def _group(data: Any, where: str, name: str, most: int, thinking: Thinking) -> Group:
    group = mapping(data, where)
    known_keys(group, _GROUP, where)
    responses = group.get("responses")
    if not isinstance(responses, list) or not responses:
        raise InvalidInput(_WHERE, f"{where}.responses", "a list of at least one", _kind(responses), "")
    if len(responses) > most:
        raise InvalidInput(_WHERE, f"{where}.responses", f"at most {most:,}", f"{len(responses):,}", "See max_group.")
    ends = group.get("finish_reasons") or [None] * len(responses)
    if not isinstance(ends, list) or len(ends) != len(responses):
        raise InvalidInput(_WHERE, f"{where}.finish_reasons", "one for each response", _kind(ends), "")
    shared = _Shared.of(group, where, thinking)
    rollouts = tuple(
        shared.rollout(said, end, f"{where}.responses.{i}")
        for i, (said, end) in enumerate(zip(responses, ends, strict=True))
    )
    id = group.get("id")
    return Group.model_construct(
        id=name if id is None else text(id, f"{where}.id"), rollouts=rollouts, rubric=group.get("rubric")
    )


_ASKED = Message.model_construct(_fields_set={"role", "content"}, role="user", content="")
_PATTERN = Rollout.model_construct(_fields_set=set(_FIELDS), prompt=(), response="", metadata={})


@dataclass(frozen=True, eq=False)
class _Shared:
    """What all rollouts of a group have in common, read once."""

    prompt: Any
    metadata: Mapping[str, Any]
    tools: Any
    thinking: Thinking
    opened: str | None
    """The tag in which the prompt ends, where responses are to be read as begun in it."""
    pattern: Rollout | None = field(default=None)
    """A rollout without its response, where the prompt is a text that opens no thoughts and there are no tools: nothing
    is left to check."""

    @classmethod
    def of(cls, group: Mapping[str, Any], where: str, thinking: Thinking) -> _Shared:
        prompt, metadata, tools = group.get("prompt"), group.get("metadata") or {}, group.get("tools")
        if not isinstance(prompt, str) and not are_messages(prompt):
            raise InvalidInput(_WHERE, f"{where}.prompt", "a text or messages", _kind(prompt), "")
        mapping(metadata, f"{where}.metadata")
        opened, pattern = None if thinking == "tags" else prompt_opening_tag(prompt), None
        if isinstance(prompt, str) and not tools and opened is None:
            asked = (_ASKED.model_copy(update={"content": prompt}),)
            pattern = _PATTERN.model_copy(update={"prompt": asked, "metadata": metadata})
        return cls(prompt, metadata, tools, thinking, opened, pattern)

    def rollout(self, said: Any, end: Any, where: str) -> Rollout:
        if self.pattern is not None and isinstance(said, str) and end is None:
            # A text that answers a text fits as it is. Checking it again took a third of the time of a request, and
            # making it with all its defaults a tenth.
            return self.pattern.model_copy(update={"response": said})
        if isinstance(said, Mapping) and "response" in said:
            return self._of_fields(said, end, where)
        return rollout_of(
            self.prompt,
            said,
            tools=self.tools,
            metadata=self.metadata,
            finish_reason=None if end is None else text(end, f"{where}.finish_reason"),
            thinking=self.thinking,
            where=f"{_WHERE}: {where}",
        )

    def _of_fields(self, said: Mapping[str, Any], end: Any, where: str) -> Rollout:
        made = rollout_of(self.prompt, "", tools=self.tools, where=f"{_WHERE}: {where}")
        own = mapping(said.get("metadata") or {}, f"{where}.metadata")
        shared = {"prompt": made.prompt, "tools": made.tools, "finish_reason": end}
        given = {**shared, **said, "metadata": {**self.metadata, **own}}
        found = to_rollout({key: value for key, value in given.items() if value is not None}, f"{_WHERE}: {where}")
        return found if self.opened is None else found.begun_in_thoughts(self.opened)


def one_rollout(data: Any, most: int, thinking: Thinking = "auto") -> Group:
    """What `POST /v1/score` takes: the keys of a group, with one `response`."""
    body = mapping(data)
    if "response" not in body:
        raise InvalidInput(_WHERE, "response", "given", "none", "")
    rest = {key: value for key, value in body.items() if key not in ("response", "finish_reason")}
    end = body.get("finish_reason")
    return _group(
        {**rest, "responses": [body["response"]], **({} if end is None else {"finish_reasons": [end]})},
        "body",
        str(body.get("id") or "score"),
        most,
        thinking,
    )


# ------------------------------------------------------------------------------------------------------------- answers


def scored(group: GroupScores, rewards: Sequence[float] | None, reasons: bool) -> dict[str, Any]:
    """One group of an answer."""
    scores = group.scores.T.tolist()
    found: dict[str, Any] = {"id": group.id}
    if rewards is not None:
        found["rewards"] = rewards
    found["scores"] = dict(zip(group.names, scores, strict=True))
    if group.outcomes:
        found["outcomes"] = {name: won.tolist() for name, won in group.outcomes.items()}
    if reasons:
        found["reasons"] = dict(zip(group.names, map(list, zip(*group.reasons, strict=True)), strict=True))
    return found


def cost_of(judging: Any) -> dict[str, Any]:
    """What judges took for an answer."""
    if judging is None:
        return {"calls": 0, "hits": 0, "cost": 0.0, "missing": 0, "asked": 0}
    account = judging.account
    tokens = {"input_tokens": account.input_tokens, "output_tokens": account.output_tokens}
    counts = {"calls": account.calls, "hits": account.hits, "cost": account.cost}
    return {**counts, **tokens, "asked": judging.asked, "missing": judging.lost}


# ------------------------------------------------------------------------------------------------------------- values


def text(value: Any, what: str) -> str:
    """A text."""
    if not isinstance(value, str):
        raise InvalidInput(_WHERE, what, "a text", _kind(value), "")
    return value


def whole(value: Any, what: str, least: int = 0) -> int:
    """A whole number."""
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= _LARGEST:
        raise InvalidInput(_WHERE, what, f"a whole number ≥ {least}", _shown(value), "")
    return value


def flag(value: Any, what: str) -> bool:
    """True or false."""
    if not isinstance(value, bool):
        raise InvalidInput(_WHERE, what, "true or false", _shown(value), "")
    return value


def _kind(value: Any) -> str:
    if isinstance(value, list):
        return f"a list of {len(value)}"
    names = {dict: "an object", str: "a text", int: "a number", float: "a number", bool: "true or false"}
    return "none" if value is None else names.get(type(value), type(value).__name__)


def _shown(value: Any) -> str:
    return repr(value)[:60]
