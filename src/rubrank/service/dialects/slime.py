"""slime and miles: `--rm-type remote_rm --rm-url http://127.0.0.1:8300/slime`.

    {"prompt": "Name a lake.", "response": "West Lake.", "label": "West Lake"}
    0.75

The body of the answer is the reward. With `--reward-key reward`, use the address `/slime?form=object`; the answer is
then {"reward": 0.75, "complete": true, "scores": {…} …}. slime has a timeout of 120 seconds, and tries ten times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import isnan
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.service.cohorts import SampleAnswer, ServiceSample
from rubrank.service.dialects.samples import SampleReader
from rubrank.service.schemas import check_object
from rubrank.training.queries import Completion

WHERE = "slime"


def read_samples(data: Any, reader: SampleReader) -> list[ServiceSample]:
    """The one sample of a call."""
    body = check_object(data)
    for name in ("prompt", "response"):
        if name not in body:
            raise InvalidInput(WHERE, name, allowed="given", got="none", remedy="")
    completion = Completion(body["response"])
    return [reader.make_sample(body["prompt"], completion, body.get("label"), body, where=WHERE)]


def write_answer(body: Any, answers: Sequence[SampleAnswer]) -> Any:
    """The reward alone."""
    return answers[0].usable


def write_object(body: Any, answers: Sequence[SampleAnswer]) -> Any:
    """The reward with scores, reasons and the state of the group."""
    answer = answers[0]
    return {
        **asdict(answer),
        "reward": answer.usable,
        "complete": answer.complete,
        "unknown": isnan(answer.reward),
    }
