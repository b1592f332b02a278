"""NeMo Gym: the service as a resources server, as version 0.7 calls one.

    POST /verify              {"responses_create_params": {"input": [{"role": "user", "content": "Name …"}]},
                               "response": {"output": […]}, …}
                              {… the same …, "reward": 0.75, "reward_components": {"Facts": 1.0, …}}
    POST /seed_session        {"resources_session_id": "7"} → the same, with a cookie; there is nothing to prepare
    POST /close_session       {"resources_session_id": "7"} → the same; there is nothing to release
    POST /aggregate_metrics   {"verify_responses": […]} → means over all samples and over those of each task
    GET  /reverify_mode       "unsupported": a sample by itself is in no group

`rubrank.training.frameworks.nemo_gym` says how a request is read. Fields beside the prompt and the response are what a
label is elsewhere, and may hold the query's own rubric, `group_id` or `group_size`. A sample about which nothing is
known is masked (`mask_sample`), and of the failure kind and class "judge_failed", by which NeMo Gym keeps it out of its
scores and tries it again. Siblings that did not come are a note ("cohort_incomplete"), and no mask.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import fsum, isnan
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.service.dialects.reading import SampleReading
from rubrank.service.samples import SampleAnswer, ServiceSample
from rubrank.service.wire import mapping
from rubrank.training.frameworks.nemo_gym import OWNER, PRIVATE_PREFIX, failure_fields, read_request

_LARGEST = 1e100  # of a reward; more, or NaN, is none, and has no mean
_TASK = f"{PRIVATE_PREFIX}task_index"
SESSION = "resources_session_id"
REVERIFY = "unsupported"


def samples(data: Any, reading: SampleReading) -> list[ServiceSample]:
    """The one sample of a call."""
    one = read_request(data)
    # Of NeMo Gym's keys only this one is no other rollout's, whatever step or epoch it is of.
    named = one.body.get(f"{PRIVATE_PREFIX}rollout_id")
    extra = one.row if named is None else {**one.row, "sample_id": named}
    return [reading.sample(one.prompt, one.completion, one.row, extra, where=OWNER)]


def answer(body: Any, answers: Sequence[SampleAnswer]) -> Any:
    """The row again, with the reward and its parts. Parts without a score are 0: NeMo Gym wants the same names."""
    one = answers[0]
    unknown = isnan(one.reward)
    parts = {name: 0.0 if value is None or isnan(value) else value for name, value in one.scores.items()}
    found = {**body, "reward": one.usable, "reward_components": parts, "mask_sample": unknown}
    if unknown:
        reason = next((why for name, why in one.reasons.items() if isnan(one.scores[name])), "nothing is known")
        found |= failure_fields(body, reason)
    elif not one.complete:
        why = f"scored with {one.samples} of {one.size} samples: the others did not come in time"
        found |= {"failure_kind": "cohort_incomplete", "failure_reason": why}
    return found


def session(body: Any) -> dict[str, Any]:
    """What a session is answered that begins or ends: its id, where it has one."""
    return {SESSION: body[SESSION]} if mapping(body).get(SESSION) is not None else {}


def aggregated(body: Any) -> dict[str, Any]:
    """Means of rewards and of their parts, over all samples that are not masked, and over those of each task.

    Fused rewards say who is better within a group: the headline is the mean of each part.
    """
    every = mapping(body).get("verify_responses")
    if not isinstance(every, list):
        raise InvalidInput(OWNER, "verify_responses", "a list", type(every).__name__, "")
    rows = [mapping(one, "verify_responses") for one in every]
    tasks: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        tasks.setdefault(repr(row.get(_TASK)), []).append(row)
    means = _means(rows)
    masked = sum(bool(row.get("mask_sample")) for row in rows)
    return {
        "group_level_metrics": [{_TASK: some[0].get(_TASK), **_means(some)} for some in tasks.values()],
        "agent_metrics": {**means, "samples": len(rows), "masked": masked},
        "key_metrics": {name: value for name, value in means.items() if name != "mean/reward"},
        "repeat_level_metrics": [],
    }


def _means(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    values: dict[str, list[float]] = {}
    for row in rows:
        if row.get("mask_sample"):
            continue
        parts = row.get("reward_components")
        named = {"reward": row.get("reward"), **(parts if isinstance(parts, Mapping) else {})}
        for name, value in named.items():
            if isinstance(value, int | float) and abs(value) <= _LARGEST:
                values.setdefault(f"mean/{name}", []).append(value)
    return {name: fsum(some) / len(some) for name, some in values.items()}
