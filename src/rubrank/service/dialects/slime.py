"""slime and miles: `--rm-type remote_rm --rm-url http://127.0.0.1:8300/slime`.

    {"prompt": "Name a lake.", "response": "West Lake.", "label": "West Lake"}
    0.75

The body of the answer is the reward. With `--reward-key reward` let the address end in `/slime?form=object`: then it is
{"reward": 0.75, "complete": true, "scores": {…} …}. slime gives a call 120 seconds, and tries ten times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from math import isnan
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.service.dialects.reading import SampleReading
from rubrank.service.samples import SampleAnswer, ServiceSample
from rubrank.service.wire import mapping
from rubrank.training.queries import Completion

WHERE = "slime"


def samples(data: Any, reading: SampleReading) -> list[ServiceSample]:
    """The one sample of a call."""
    body = mapping(data)
    for name in ("prompt", "response"):
        if name not in body:
            raise InvalidInput(WHERE, name, "given", "none", "")
    said = Completion(body["response"])
    return [reading.sample(body["prompt"], said, body.get("label"), body, where=WHERE)]


def answer(body: Any, answers: Sequence[SampleAnswer]) -> Any:
    """The reward alone."""
    return answers[0].usable


def whole_answer(body: Any, answers: Sequence[SampleAnswer]) -> Any:
    """The reward and what is behind it."""
    one = answers[0]
    return {**asdict(one), "reward": one.usable, "complete": one.complete, "unknown": isnan(one.reward)}
