"""OpenRLHF: `--reward.remote_url http://127.0.0.1:8300/openrlhf`.

    {"query": ["<prompt><response><|im_end|>"], "prompts": ["<prompt>"], "labels": ["…"]}
    {"rewards": [0.75], "scores": [0.75], "extra_logs": {"rubrank/unknown": [0.0], "rubrank/incomplete": [0.0], …}}

A query is prompt and response in one text, decoded with its special tokens. OpenRLHF sends one sample per call, tries
five times, and gives a call 180 seconds; where it has several addresses, some get empty lists.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isnan
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.service.dialects.reading import SampleReading
from rubrank.service.samples import SampleAnswer, ServiceSample
from rubrank.service.wire import mapping
from rubrank.training.queries import Completion

WHERE = "OpenRLHF"
_BEFORE = 64  # characters before a prompt: a token that begins a text


def samples(data: Any, reading: SampleReading) -> list[ServiceSample]:
    """The samples of a call: usually one."""
    body = mapping(data)
    queries, prompts, labels = (_texts(body, name) for name in ("query", "prompts", "labels"))
    if labels is None:
        labels = [None] * len(queries or ())
    if queries is None or prompts is None or not len(queries) == len(prompts) == len(labels):
        sizes = ", ".join("none" if some is None else str(len(some)) for some in (queries, prompts, labels))
        raise InvalidInput(WHERE, "query, prompts, labels", "lists of the same length", sizes, "")
    found = []
    for query, prompt, label in zip(queries, prompts, labels, strict=True):
        said, reason = _response(query, prompt, reading.end_tokens)
        found.append(reading.sample(prompt, Completion(said, reason), label, body, where=WHERE))
    return found


def answer(body: Any, answers: Sequence[SampleAnswer]) -> Any:
    """Numbers that always exist, under the same names: OpenRLHF puts the logs of all samples together."""
    rewards = [one.usable for one in answers]
    logs = {
        "rubrank/unknown": [float(isnan(one.reward)) for one in answers],
        "rubrank/incomplete": [float(not one.complete) for one in answers],
        "rubrank/late": [float(one.late) for one in answers],
        "rubrank/stopped": [float(bool(one.stopped_by)) for one in answers],
        "rubrank/cost": [one.cost for one in answers],
    }
    return {"rewards": rewards, "scores": rewards, "extra_logs": logs}


def _texts(body: Mapping[str, Any], name: str) -> list[Any] | None:
    value = body.get(name)
    return [value] if isinstance(value, str) else value if isinstance(value, list) else None


def _response(query: Any, prompt: Any, ends: Sequence[str]) -> tuple[str, str | None]:
    """What was sampled, without end tokens; "stop" where there was one."""
    if not isinstance(query, str) or not isinstance(prompt, str):
        raise InvalidInput(WHERE, "query and prompts", "texts", f"{type(query).__name__}, {type(prompt).__name__}", "")
    before, found, said = query.partition(prompt) if prompt else ("", "", query)
    if prompt and (not found or len(before) > _BEFORE):
        remedy = "The reward would be that of another text: send query = prompt + response."
        raise InvalidInput(WHERE, "query", "a text that begins with its prompt", repr(query[:60]), remedy)
    bare = said.rstrip()
    stopped = False
    while any(bare.endswith(end) for end in ends if end):
        end = next(end for end in ends if end and bare.endswith(end))
        bare, stopped = bare[: -len(end)].rstrip("\n"), True
    return (bare, "stop") if stopped else (said, None)
