"""JSON of requests and answers ⇄ groups, scores and rewards; errors that answer a request.

    POST /v1/groups
      {"groups": [{"id": "12/0", "prompt": "Name a lake.", "responses": ["West Lake.", "No."]}], "step": 12}
      {"groups": [{"id": "12/0", "rewards": [1.0, 0.0], "scores": {"Facts": [1.0, 0.0]}, "reasons": {…}}], "cost": {…}}

A prompt is a text or messages; a response is a text, messages, or an object with the fields of a rollout. A missing
score is `null`, and so is the reward of a rollout without any score. Numbers are written with all their digits.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    ConfigDict,
    Field,
    StrictBool,
    StrictInt,
    StrictStr,
)
from pydantic_core import PydanticSerializationError
from pydantic_core import to_json as fast_json

from rubrank._choices import Thinking
from rubrank._plain import plain, validate_model
from rubrank.errors import InvalidInput
from rubrank.judges.judgments import Judgments
from rubrank.rollouts.messages import are_messages
from rubrank.rollouts.rollout import Group, Rollout, make_rollout
from rubrank.scores.table import GroupScores
from rubrank.training.rollouts import find_prompt_opening_tag, rollout_of

REQUEST = "request"
"""What errors about a request begin with."""
_LARGEST = 2**63 - 1  # the largest integer that files and arrays can hold

WholeNumber = Annotated[StrictInt, Field(ge=0, le=_LARGEST)]


class RequestRefused(Exception):  # noqa: N818
    """Raised to answer a request with an error."""

    def __init__(self, status: int, error: InvalidInput) -> None:
        super().__init__(status, error)
        self.status = status
        self.error = error


def make_refusal(
    status: int, what: str, allowed: str, got: str, remedy: str = "", where: str = REQUEST
) -> RequestRefused:
    """Return the error to raise for a request, with the parts that all errors of rubrank have."""
    return RequestRefused(
        status, InvalidInput(where, what, allowed=allowed, got=got, remedy=remedy)
    )


def make_shutdown_error() -> RequestRefused:
    """Return the error for callers while the service is shutting down."""
    return make_refusal(
        503,
        "service",
        allowed="running",
        got="shutting down",
        remedy="Try again: what was paid for is kept.",
        where="service",
    )


# ----------------------------------------------------------------------------------------------------------- requests


def _check_prompt(prompt: Any) -> Any:
    if not isinstance(prompt, str) and not are_messages(prompt):
        raise ValueError("a text or messages")
    return prompt


class _QueryBody(BaseModel):
    """The keys that a group and a single rollout have in common."""

    model_config = ConfigDict(extra="forbid")

    prompt: Annotated[Any, AfterValidator(_check_prompt)]
    id: StrictStr | None = None
    rubric: Any = None
    metadata: dict[str, Any] | None = None
    tools: Any = None


class GroupBody(_QueryBody):
    """One group of a request."""

    responses: list[Any] = Field(min_length=1)
    finish_reasons: list[StrictStr | None] | None = None
    """One for each response."""

    def make_group(self, name: str, where: str, most: int, thinking: Thinking) -> Group:
        """Return the group of this body. Raises InvalidInput if it does not fit.

        name: its id, if the body has none. where: its place in the request, for errors. most: the largest number of
        rollouts. thinking: the setting of the engine.
        """
        number = len(self.responses)
        if number > most:
            raise InvalidInput(
                REQUEST,
                f"{where}.responses",
                allowed=f"at most {most:,}",
                got=f"{number:,}",
                remedy="See max_group.",
            )
        finish_reasons = self.finish_reasons or [None] * number
        if len(finish_reasons) != number:
            raise InvalidInput(
                REQUEST,
                f"{where}.finish_reasons",
                allowed="one for each response",
                got=f"{len(finish_reasons)} for {number} responses",
            )
        rollouts = []
        for i, response in enumerate(self.responses):
            what = f"{where}.responses.{i}"
            rollouts.append(self._make_rollout(response, finish_reasons[i], what, thinking))
        id = name if self.id is None else self.id
        return Group.model_construct(id=id, rollouts=tuple(rollouts), rubric=self.rubric)

    def _make_rollout(
        self, response: Any, finish_reason: str | None, what: str, thinking: Thinking
    ) -> Rollout:
        """Return one rollout. what: its place in the request, for errors."""
        metadata = self.metadata or {}
        if not isinstance(response, Mapping) or "response" not in response:
            return rollout_of(
                self.prompt,
                response,
                tools=self.tools,
                metadata=metadata,
                finish_reason=finish_reason,
                thinking=thinking,
                where=f"{REQUEST}: {what}",
            )
        # The response is an object with the fields of a rollout. Add those of the group that it does not have.
        common = rollout_of(self.prompt, "", tools=self.tools, where=f"{REQUEST}: {what}")
        own_metadata = check_object(response.get("metadata") or {}, f"{what}.metadata")
        fields = {
            "prompt": common.prompt,
            "tools": common.tools,
            "finish_reason": finish_reason,
            **response,
            "metadata": {**metadata, **own_metadata},
        }
        present = {name: value for name, value in fields.items() if value is not None}
        rollout = make_rollout(present, f"{REQUEST}: {what}")
        opening_tag = find_prompt_opening_tag(self.prompt)
        if thinking == "prefilled" or (thinking == "auto" and opening_tag):
            return rollout.reopen_thoughts(opening_tag)
        return rollout


class GroupsRequest(BaseModel):
    """The body of `POST /v1/groups`."""

    model_config = ConfigDict(extra="forbid")

    groups: list[GroupBody] = Field(min_length=1)
    step: WholeNumber = 0
    train: StrictBool = True
    request_id: StrictStr | None = None
    """Chosen by the caller. A second request with the same id gets the same answer, without doing the work again."""
    reasons: StrictBool = True
    metrics: StrictBool = False
    """Add the metrics that trainers log about a step."""

    def make_groups(self, most: int, label: Callable[..., str], thinking: Thinking) -> list[Group]:
        """Return the groups of this request. Raises InvalidInput if one does not fit.

        most: the largest number of rollouts of a group. label: makes names for groups without an id, from the step.
        thinking: the setting of the engine.
        """
        name = ""
        if any(group.id is None for group in self.groups):
            name = label(self.step, train=self.train)
        return [
            group.make_group(f"{name}/{i}", f"groups.{i}", most, thinking)
            for i, group in enumerate(self.groups)
        ]


class ScoreRequest(_QueryBody):
    """The body of `POST /v1/score`: the keys of a group, with one `response` instead of `responses`."""

    response: Any
    finish_reason: StrictStr | None = None

    def as_group(self) -> GroupBody:
        """Return the body of a group of one."""
        return GroupBody.model_construct(
            prompt=self.prompt,
            responses=[self.response],
            id=self.id or "score",
            rubric=self.rubric,
            metadata=self.metadata,
            tools=self.tools,
            finish_reasons=[self.finish_reason],
        )


class SampleKeys(BaseModel):
    """Keys that a trainer may send with a sample, in the body or in its label."""

    model_config = ConfigDict(extra="ignore")

    group_id: Any = None
    uid: Any = None
    sample_id: Any = None
    group_size: Annotated[StrictInt, Field(ge=1, le=_LARGEST)] | None = None
    step: WholeNumber | None = None
    train: StrictBool = True

    @classmethod
    def read(cls, *sources: Mapping[str, Any]) -> Self:
        """Read the keys from several objects; later ones take precedence."""
        keys: dict[str, Any] = {}
        for source in sources:
            keys |= {
                name: source[name] for name in cls.model_fields if source.get(name) is not None
            }
        return validate_model(cls, keys, REQUEST, "service")


def check_object(data: Any, what: str = "body") -> Mapping[str, Any]:
    """Return the data if it is an object. Raises InvalidInput if it is not."""
    if not isinstance(data, Mapping):
        raise InvalidInput(REQUEST, what, allowed="an object", got=type(data).__name__)
    return data


# ------------------------------------------------------------------------------------------------------------ answers


def to_json(data: Any) -> bytes:
    """Return the data as bytes of JSON; NaN is null."""
    try:
        return fast_json(data, inf_nan_mode="null")
    except PydanticSerializationError:
        # Pydantic refuses lone surrogates and unknown types: the first are escaped here, the others written as text.
        return json.dumps(plain(data), default=str).encode("ascii")


def write_scores(group: GroupScores, with_reasons: bool) -> dict[str, Any]:
    """Return the scores of a group as JSON data, by criterion."""
    answer: dict[str, Any] = {
        "id": group.id,
        "scores": dict(zip(group.names, group.scores.T.tolist(), strict=True)),
    }
    if group.outcomes:
        answer["outcomes"] = {name: outcomes.tolist() for name, outcomes in group.outcomes.items()}
    if group.probabilities:
        answer["probabilities"] = dict(group.probabilities)
    if with_reasons:
        by_criterion = [list(reasons) for reasons in zip(*group.reasons, strict=True)]
        answer["reasons"] = dict(zip(group.names, by_criterion, strict=True))
    return answer


def write_cost(judging: Judgments | None) -> dict[str, Any]:
    """Return what the judges were asked and what it cost, as JSON data; zeros if there are no judges (None)."""
    if judging is None:
        return {
            "calls": 0,
            "hits": 0,
            "cost": 0.0,
            "input_tokens": 0,
            "output_tokens": 0,
            "asked": 0,
            "missing": 0,
        }
    account = judging.account
    return {
        "calls": account.calls,
        "hits": account.hits,
        "cost": account.cost,
        "input_tokens": account.input_tokens,
        "output_tokens": account.output_tokens,
        "asked": judging.asked,
        "missing": judging.lost,
    }
