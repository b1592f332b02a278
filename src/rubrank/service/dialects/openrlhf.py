"""OpenRLHF: `--reward.remote_url http://127.0.0.1:8300/openrlhf`.

    {"query": ["<prompt><response><|im_end|>"], "prompts": ["<prompt>"], "labels": ["…"]}
    {"rewards": [0.75], "scores": [0.75], "extra_logs": {"rubrank/unknown": [0.0], "rubrank/incomplete": [0.0], …}}

A query is prompt and response in one text, decoded with its special tokens. OpenRLHF sends one sample per call, tries
five times, and has a timeout of 180 seconds; if it has several addresses, some get empty lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.service.cohorts import SampleAnswer, ServiceSample
from rubrank.service.dialects.samples import SampleReader
from rubrank.service.schemas import check_object
from rubrank.training.queries import Completion

WHERE = "OpenRLHF"
_MOST_BEFORE = 64  # characters allowed before the prompt: a token that begins a text


def read_samples(data: Any, reader: SampleReader) -> list[ServiceSample]:
    """The samples of a call: usually one."""
    body = check_object(data)
    queries = _read_list(body, "query")
    prompts = _read_list(body, "prompts")
    labels = _read_list(body, "labels")
    if labels is None:
        labels = [None] * len(queries or ())
    if queries is None or prompts is None or not len(queries) == len(prompts) == len(labels):
        lists = (queries, prompts, labels)
        raise InvalidInput(
            WHERE,
            "query, prompts, labels",
            allowed="lists of the same length",
            got=", ".join("none" if values is None else str(len(values)) for values in lists),
            remedy="",
        )
    samples = []
    for query, prompt, label in zip(queries, prompts, labels, strict=True):
        completion = Completion(*split_query(query, prompt, reader.end_tokens))
        samples.append(reader.make_sample(prompt, completion, label, body, where=WHERE))
    return samples


def write_answer(body: Any, answers: Sequence[SampleAnswer]) -> Any:
    """Numbers under the same names for every sample, because OpenRLHF concatenates the logs of all samples."""
    rewards = [answer.usable for answer in answers]
    logs = {
        "rubrank/unknown": [float(isnan(answer.reward)) for answer in answers],
        "rubrank/incomplete": [float(not answer.complete) for answer in answers],
        "rubrank/late": [float(answer.late) for answer in answers],
        "rubrank/stopped": [float(bool(answer.stopped_by)) for answer in answers],
        "rubrank/cost": [answer.cost for answer in answers],
    }
    return {"rewards": rewards, "scores": rewards, "extra_logs": logs}


def _read_list(body: Mapping[str, Any], name: str) -> list[Any] | None:
    value = body.get(name)
    if isinstance(value, str):
        return [value]
    return value if isinstance(value, list) else None


def split_query(query: Any, prompt: Any, end_tokens: Sequence[str]) -> tuple[str, str | None]:
    """The response without end tokens, and "stop" if there was one."""
    if not isinstance(query, str) or not isinstance(prompt, str):
        raise InvalidInput(
            WHERE,
            "query and prompts",
            allowed="texts",
            got=f"{type(query).__name__}, {type(prompt).__name__}",
            remedy="",
        )
    before, _, response = query.partition(prompt) if prompt else ("", "", query)
    if prompt and (prompt not in query or len(before) > _MOST_BEFORE):
        raise InvalidInput(
            WHERE,
            "query",
            allowed="a text that begins with its prompt",
            got=repr(query[:60]),
            remedy="Another text would be scored: send query = prompt + response.",
        )
    stripped = response.rstrip()
    is_stopped = False
    tokens = tuple(token for token in end_tokens if token)
    while stripped.endswith(tokens):
        token = next(token for token in tokens if stripped.endswith(token))
        stripped = stripped[: -len(token)].rstrip("\n")
        is_stopped = True
    if is_stopped:
        return stripped, "stop"
    return response, None
