"""NeMo Gym: the service as a resources server, as version 0.7 calls one.

    POST /verify              {"responses_create_params": {"input": [{"role": "user", "content": "Name …"}]},
                               "response": {"output": […]}, …}
                              {… the same …, "reward": 0.75, "reward_components": {"Facts": 1.0, …}}
    POST /seed_session        {"resources_session_id": "7"} → the same, with a cookie; there is nothing to prepare
    POST /close_session       {"resources_session_id": "7"} → the same; there is nothing to release
    POST /aggregate_metrics   {"verify_responses": […]} → means over all samples and over those of each task
    GET  /reverify_mode       "unsupported": a sample cannot be scored again without its group

`rubrank.training.frameworks.nemo_gym` describes how a request is read. Fields other than the prompt and the response
are used like a label in other trainers, and may contain the query's own rubric, `group_id` or `group_size`. A sample
without any score is masked (`mask_sample`), with the failure kind and class "judge_failed", so that NeMo Gym leaves it
out of its scores and tries it again. An incomplete group is only noted ("cohort_incomplete"); its samples are not
masked.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum, isnan
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.service.cohorts import SampleAnswer, ServiceSample
from rubrank.service.dialects.samples import SampleReader
from rubrank.service.schemas import check_object
from rubrank.training.frameworks.nemo_gym import OWNER, PRIVATE_PREFIX, failure_fields, read_request

_LARGEST = 1e100  # numbers beyond it, and NaN, are left out of means
_TASK = f"{PRIVATE_PREFIX}task_index"
SESSION = "resources_session_id"
REVERIFY = "unsupported"


def read_samples(data: Any, reader: SampleReader) -> list[ServiceSample]:
    """The one sample of a call."""
    request = read_request(data)
    # Among NeMo Gym's own keys, only this one is different for all rollouts of all steps and epochs.
    rollout_id = request.body.get(f"{PRIVATE_PREFIX}rollout_id")
    keys = request.row if rollout_id is None else {**request.row, "sample_id": rollout_id}
    return [reader.make_sample(request.prompt, request.completion, request.row, keys, where=OWNER)]


def write_answer(body: Any, answers: Sequence[SampleAnswer]) -> Any:
    """The row with the reward and its parts. Missing scores are 0, because NeMo Gym needs the same names every time."""
    answer = answers[0]
    is_unknown = isnan(answer.reward)
    scores = {
        name: 0.0 if score is None or isnan(score) else score
        for name, score in answer.scores.items()
    }
    row = {**body, "reward": answer.usable, "reward_components": scores, "mask_sample": is_unknown}
    if is_unknown:
        missing = [reason for name, reason in answer.reasons.items() if isnan(answer.scores[name])]
        row |= failure_fields(body, missing[0] if missing else "nothing is known")
    elif not answer.complete:
        reason = f"scored with {answer.samples} of {answer.size} samples: the others did not come in time"
        row |= {"failure_kind": "cohort_incomplete", "failure_reason": reason}
    return row


def answer_session(body: Any) -> dict[str, Any]:
    """The answer to the start or end of a session: its id, if it has one."""
    session = check_object(body).get(SESSION)
    return {} if session is None else {SESSION: session}


def aggregate_metrics(body: Any) -> dict[str, Any]:
    """Means of rewards and of their parts, over all samples that are not masked, and over those of each task.

    Fused rewards only rank the rollouts within a group, so the key metrics are the means of the parts.
    """
    responses = check_object(body).get("verify_responses")
    if not isinstance(responses, list):
        raise InvalidInput(
            OWNER, "verify_responses", allowed="a list", got=type(responses).__name__, remedy=""
        )
    rows = [check_object(row, "verify_responses") for row in responses]
    tasks: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        tasks.setdefault(repr(row.get(_TASK)), []).append(row)
    means = _compute_means(rows)
    masked = sum(bool(row.get("mask_sample")) for row in rows)
    return {
        "group_level_metrics": [
            {_TASK: task_rows[0].get(_TASK), **_compute_means(task_rows)}
            for task_rows in tasks.values()
        ],
        "agent_metrics": {**means, "samples": len(rows), "masked": masked},
        "key_metrics": {name: mean for name, mean in means.items() if name != "mean/reward"},
        "repeat_level_metrics": [],
    }


def _compute_means(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for row in rows:
        if row.get("mask_sample"):
            continue
        parts = row.get("reward_components")
        numbers = {"reward": row.get("reward")}
        if isinstance(parts, Mapping):
            numbers |= parts
        for name, number in numbers.items():
            if isinstance(number, int | float) and abs(number) <= _LARGEST:
                values.setdefault(f"mean/{name}", []).append(number)
    return {name: fsum(numbers) / len(numbers) for name, numbers in values.items()}
