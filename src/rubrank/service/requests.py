"""The bodies of requests, read into groups and samples, and the answers and errors that go back.

    POST /v1/groups
      {"groups": [{"id": "12/0", "prompt": "Name a lake.", "responses": ["West Lake.", "No."]}], "step": 12}
      {"groups": [{"id": "12/0", "rewards": [1.0, 0.0], "scores": {"Facts": [1.0, 0.0]}, "reasons": {…}}], "cost": {…}}

A prompt is a text or messages; a response is a text, messages, or an object with the fields of a rollout. A missing
score is `null`, and so is the reward of a rollout without any score. Numbers are written with all their digits.

Trainers that send single samples have their own formats. Each is a dialect:

    OPENRLHF     POST /openrlhf         {"query": […], "prompts": […], "labels": […]}
    SLIME        POST /slime, /miles    {"prompt": …, "response": …, "label": …}
    NEMO_GYM     POST /verify           {"responses_create_params": …, "response": …, …}

A dialect reads the body of a request into samples, which meet their siblings in `cohorts.py`, and writes the answers in
the format of its trainer. To add one: two functions, a `Dialect` of them, and a line in `app.py`.

All dialects make samples with `SampleReader`, which identifies the group of a sample and its place in it. A group is
identified by `group_id` if the trainer sends it, in the body or in the label; else by prompt and label. Samples of
different steps, or of training and evaluation, are never siblings. A sample is identified by `sample_id`, else by its
text. `group_size`, `step` and `train` may be sent too.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from math import fsum, isnan
from typing import Annotated, Any, Self

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
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
from rubrank.rollouts.rollout import Group, Rollout, make_rollout
from rubrank.rollouts.shapes import are_messages, parse_json_cell
from rubrank.service.cohorts import SampleAnswer, ServiceSample, digest_json
from rubrank.training.frameworks.nemo_gym import OWNER, PRIVATE_PREFIX, failure_fields, read_request
from rubrank.training.queries import Completion, make_query
from rubrank.training.rollouts import find_prompt_opening_tag, rollout_of

REQUEST = "request"
"""What errors about a request begin with."""
_LARGEST = 2**63 - 1  # the largest integer that files and arrays can hold
_OPENRLHF = "OpenRLHF"
_SLIME = "slime"
_MOST_BEFORE_PROMPT = 64  # characters of a query before its prompt: a token that begins a text
# Larger numbers, and NaN, are left out of means: their sum could overflow.
_LARGEST_AVERAGED = 1e100
_TASK_KEY = f"{PRIVATE_PREFIX}task_index"
SESSION = "resources_session_id"
"""The key under which NeMo Gym sends the id of a session."""
REVERIFY_MODE = "unsupported"
"""What NeMo Gym is told about scoring a sample again, which is not possible without its group."""

WholeNumber = Annotated[StrictInt, Field(ge=0, le=_LARGEST)]


# ------------------------------------------------------------------------------------------------------ errors and JSON


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
        remedy="Try again: replies of judges that were paid for are kept.",
        where="service",
    )


def check_object(data: Any, what: str = "body") -> Mapping[str, Any]:
    """Return the data if it is an object. Raises InvalidInput if it is not."""
    if not isinstance(data, Mapping):
        raise InvalidInput(REQUEST, what, allowed="an object", got=type(data).__name__)
    return data


def to_json(data: Any) -> bytes:
    """Return the data as bytes of JSON; NaN is null."""
    try:
        return fast_json(data, inf_nan_mode="null")
    except PydanticSerializationError:
        # Pydantic refuses lone surrogates and unknown types: the first are escaped here, the others written as text.
        return json.dumps(plain(data), default=str).encode("ascii")


# --------------------------------------------------------------------------------------------------------- whole groups


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


# ------------------------------------------------------------------------------------------------------- single samples


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


@dataclass(frozen=True)
class SampleReader:
    """Makes samples of what trainers send, according to the settings of the service."""

    group_size: int | None
    """Samples per prompt, for calls that do not send it; None: every call must."""
    rubric_column: str
    end_tokens: tuple[str, ...]
    """Special tokens that end a response, such as "<|im_end|>"; see `split_query`."""
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
        """Return one sample.

        label: what the trainer knows about the query: a text, a mapping, or a mapping as JSON.
        body: the request, which may have keys of the sample; they take precedence over those of the label.
        where: the owner of errors. Raises InvalidInput if a key is wrong, or the size of the group is unknown.
        """
        row = parse_json_cell(label)
        keys = SampleKeys.read(row if isinstance(row, Mapping) else {}, body)
        if keys.step is None and self.needs_step:
            raise InvalidInput(
                where,
                "step",
                allowed="sent with every sample if attributes start at a later step",
                got="none",
                remedy="Send it, or leave `start` out of the attributes.",
            )
        size = keys.group_size or self.group_size
        if size is None or size > self.max_group:
            raise InvalidInput(
                where,
                "group_size",
                allowed=f"known, and at most {self.max_group:,} (see max_group)",
                got="none" if size is None else f"{size:,}"[:60],
                remedy="Set group_size in the file of the service to the number of samples per prompt.",
            )
        query = make_query(prompt, label, rubric_column=self.rubric_column)
        group_id = keys.uid if keys.group_id is None else keys.group_id
        step = keys.step or 0
        # The same prompt at another step, or in an evaluation, is another group.
        if group_id is None:
            group_key = digest_json("prompt", prompt, label, keys.step, keys.train)
            group_name = f"{step}/{group_key.hex()[:12]}"
        else:
            group_key = digest_json("id", group_id, keys.step, keys.train)
            group_name = f"{step}/{group_id}"
        if keys.sample_id is None:
            sample_key = digest_json("text", completion.content, completion.finish_reason)
        else:
            sample_key = digest_json("id", keys.sample_id)
        return ServiceSample(
            group_key=group_key,
            sample_key=sample_key,
            has_sample_id=keys.sample_id is not None,
            rollout=completion.to_rollout(query, self.thinking, where),
            group_size=size,
            group_name=group_name if keys.train else f"eval-{group_name}",
            rubric=query.rubric,
            step=step,
            train=keys.train,
        )


@dataclass(frozen=True)
class Dialect:
    """How a trainer writes its requests and reads the answers."""

    read_samples: Callable[[Any, SampleReader], list[ServiceSample]]
    """(body of a request, reader) → its samples; raises InvalidInput."""
    write_answer: Callable[[Any, Sequence[SampleAnswer]], Any]
    """(body, answers) → the JSON of the reply."""
    write_object: Callable[[Any, Sequence[SampleAnswer]], Any] | None = None
    """The reply to an address with `?form=object`; None: the same reply."""


# ------------------------------------------------------------------------------------------------------------ OpenRLHF
#
#     --reward.remote_url http://127.0.0.1:8300/openrlhf
#
#     {"query": ["<prompt><response><|im_end|>"], "prompts": ["<prompt>"], "labels": ["…"]}
#     {"rewards": [0.75], "scores": [0.75], "extra_logs": {"rubrank/unknown": [0.0], "rubrank/incomplete": [0.0], …}}
#
# A query is prompt and response in one text, decoded with its special tokens. OpenRLHF sends one sample per call, tries
# five times, and has a timeout of 180 seconds; if it has several addresses, some get empty lists.


_Texts = Annotated[
    list[StrictStr], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)
]


class _OpenRLHFBody(BaseModel):
    """The body of a call; a text alone is a list of one."""

    query: _Texts
    prompts: _Texts
    labels: list[Any] | None = None


def _read_openrlhf(data: Any, reader: SampleReader) -> list[ServiceSample]:
    """Read the samples of a call: usually one."""
    if isinstance(data, dict) and isinstance(data.get("labels"), str):
        data = {**data, "labels": [data["labels"]]}
    body = validate_model(_OpenRLHFBody, data, REQUEST, "service")
    labels = [None] * len(body.query) if body.labels is None else body.labels
    if not len(body.query) == len(body.prompts) == len(labels):
        raise InvalidInput(
            _OPENRLHF,
            "query, prompts, labels",
            allowed="lists of the same length",
            got=f"{len(body.query)}, {len(body.prompts)}, {len(labels)}",
        )
    samples = []
    for query, prompt, label in zip(body.query, body.prompts, labels, strict=True):
        response, finish_reason = split_query(query, prompt, reader.end_tokens)
        completion = Completion(response, finish_reason)
        samples.append(reader.make_sample(prompt, completion, label, data, where=_OPENRLHF))
    return samples


def split_query(query: str, prompt: str, end_tokens: Sequence[str]) -> tuple[str, str | None]:
    """Return the response without end tokens, and its finish reason: "stop" if there was one, else None.

    Raises InvalidInput if the query does not begin with the prompt, apart from a token before it.

    split_query("<s>Name a lake. West Lake.<|im_end|>", "Name a lake.", ["<|im_end|>"])     (" West Lake.", "stop")
    """
    response = query
    if prompt:
        before, found_prompt, response = query.partition(prompt)
        if not found_prompt or len(before) > _MOST_BEFORE_PROMPT:
            raise InvalidInput(
                _OPENRLHF,
                "query",
                allowed="a text that begins with its prompt",
                got=repr(query[:60]),
                remedy="Send query = prompt + response; otherwise a different text would be scored.",
            )
    tokens = tuple(token for token in end_tokens if token)
    stripped = response.rstrip()
    if not stripped.endswith(tokens):
        return response, None
    # There may be several: "<|im_end|>\n<|endoftext|>".
    while stripped.endswith(tokens):
        token = next(token for token in tokens if stripped.endswith(token))
        stripped = stripped[: -len(token)].rstrip("\n")
    return stripped, "stop"


def _write_openrlhf(body: Any, answers: Sequence[SampleAnswer]) -> Any:
    """Write numbers under the same names for every sample, because OpenRLHF concatenates the logs of all samples."""
    rewards = [answer.usable for answer in answers]
    logs = {
        "rubrank/unknown": [float(isnan(answer.reward)) for answer in answers],
        "rubrank/incomplete": [float(not answer.complete) for answer in answers],
        "rubrank/late": [float(answer.late) for answer in answers],
        "rubrank/stopped": [float(bool(answer.stopped_by)) for answer in answers],
        "rubrank/cost": [answer.cost for answer in answers],
    }
    return {"rewards": rewards, "scores": rewards, "extra_logs": logs}


OPENRLHF = Dialect(_read_openrlhf, _write_openrlhf)


# ----------------------------------------------------------------------------------------------------- slime and miles
#
#     --rm-type remote_rm --rm-url http://127.0.0.1:8300/slime
#
#     {"prompt": "Name a lake.", "response": "West Lake.", "label": "West Lake"}
#     0.75
#
# The body of the answer is the reward. With `--reward-key reward`, use the address `/slime?form=object`; the answer is
# then {"reward": 0.75, "complete": true, "scores": {…} …}. slime has a timeout of 120 seconds, and tries ten times.


def _read_slime(data: Any, reader: SampleReader) -> list[ServiceSample]:
    """Read the one sample of a call."""
    body = check_object(data)
    for name in ("prompt", "response"):
        if name not in body:
            raise InvalidInput(_SLIME, name, allowed="given", got="none")
    completion = Completion(body["response"])
    return [reader.make_sample(body["prompt"], completion, body.get("label"), body, where=_SLIME)]


def _write_slime_number(body: Any, answers: Sequence[SampleAnswer]) -> Any:
    """Write the reward alone."""
    return answers[0].usable


def _write_slime_object(body: Any, answers: Sequence[SampleAnswer]) -> Any:
    """Write the reward with scores, reasons and the state of the group."""
    answer = answers[0]
    return {
        **asdict(answer),
        "reward": answer.usable,
        "complete": answer.complete,
        "unknown": isnan(answer.reward),
    }


SLIME = Dialect(_read_slime, _write_slime_number, _write_slime_object)


# ------------------------------------------------------------------------------------------------------------ NeMo Gym
#
# The service as a resources server, as version 0.7 calls one:
#
#     POST /verify              {"responses_create_params": {"input": [{"role": "user", "content": "Name …"}]},
#                                "response": {"output": […]}, …}
#                               {… the same …, "reward": 0.75, "reward_components": {"Facts": 1.0, …}}
#     POST /seed_session        {"resources_session_id": "7"} → the same, with a cookie; there is nothing to prepare
#     POST /close_session       {"resources_session_id": "7"} → the same; there is nothing to release
#     POST /aggregate_metrics   {"verify_responses": […]} → means over all samples and over those of each task
#     GET  /reverify_mode       "unsupported": a sample cannot be scored again without its group
#
# `rubrank.training.frameworks.nemo_gym` describes how a request is read. Fields other than the prompt and the response
# are used like a label in other trainers, and may contain the query's own rubric, `group_id` or `group_size`. A sample
# without any score is masked (`mask_sample`), with the failure kind and class "judge_failed", so that NeMo Gym leaves
# it out of its scores and tries it again. An incomplete group is only noted ("cohort_incomplete"); its samples are not
# masked.


def _read_nemo_gym(data: Any, reader: SampleReader) -> list[ServiceSample]:
    """Read the one sample of a call."""
    request = read_request(data)
    keys = dict(request.row)
    # Among NeMo Gym's own keys, only this one is different for all rollouts of all steps and epochs.
    rollout_id = request.body.get(f"{PRIVATE_PREFIX}rollout_id")
    if rollout_id is not None:
        keys["sample_id"] = rollout_id
    return [reader.make_sample(request.prompt, request.completion, request.row, keys, where=OWNER)]


def _write_nemo_gym(body: Any, answers: Sequence[SampleAnswer]) -> Any:
    """Write the row with the reward and its parts.

    Missing scores are 0, because NeMo Gym needs the same names every time.
    """
    answer = answers[0]
    is_unknown = isnan(answer.reward)
    components = {}
    for name, score in answer.scores.items():
        components[name] = 0.0 if score is None or isnan(score) else score
    row = {
        **body,
        "reward": answer.usable,
        "reward_components": components,
        "mask_sample": is_unknown,
    }
    if is_unknown:
        missing = [reason for name, reason in answer.reasons.items() if isnan(answer.scores[name])]
        row |= failure_fields(body, missing[0] if missing else "nothing is known")
    elif not answer.complete:
        reason = f"scored with {answer.samples} of {answer.size} samples: the others did not come in time"
        row |= {"failure_kind": "cohort_incomplete", "failure_reason": reason}
    return row


NEMO_GYM = Dialect(_read_nemo_gym, _write_nemo_gym)


def answer_session(body: Any) -> dict[str, Any]:
    """Return the answer to the start or end of a session: its id, if it has one."""
    session = check_object(body).get(SESSION)
    return {} if session is None else {SESSION: session}


def aggregate_metrics(body: Any) -> dict[str, Any]:
    """Return means of rewards and of their parts, over all samples that are not masked, and over those of each task.

    Fused rewards only rank the rollouts within a group, so the key metrics are the means of the parts.
    """
    responses = check_object(body).get("verify_responses")
    if not isinstance(responses, list):
        raise InvalidInput(
            OWNER, "verify_responses", allowed="a list", got=type(responses).__name__
        )
    rows = [check_object(row, "verify_responses") for row in responses]
    rows_of_task: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        rows_of_task.setdefault(repr(row.get(_TASK_KEY)), []).append(row)
    task_metrics = []
    for task_rows in rows_of_task.values():
        task_metrics.append({_TASK_KEY: task_rows[0].get(_TASK_KEY), **_compute_means(task_rows)})
    means = _compute_means(rows)
    masked = sum(bool(row.get("mask_sample")) for row in rows)
    return {
        "group_level_metrics": task_metrics,
        "agent_metrics": {**means, "samples": len(rows), "masked": masked},
        "key_metrics": {name: mean for name, mean in means.items() if name != "mean/reward"},
        "repeat_level_metrics": [],
    }


def _compute_means(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Return "mean/NAME" → mean, for the reward and each of its parts; masked rows are left out."""
    values: dict[str, list[float]] = {}
    for row in rows:
        if row.get("mask_sample"):
            continue
        parts = row.get("reward_components")
        numbers = dict(parts) if isinstance(parts, Mapping) else {}
        numbers["reward"] = row.get("reward")  # last: a criterion may be called "reward" too
        for name, number in numbers.items():
            if isinstance(number, int | float) and abs(number) <= _LARGEST_AVERAGED:
                values.setdefault(f"mean/{name}", []).append(number)
    return {name: fsum(numbers) / len(numbers) for name, numbers in values.items()}
