"""Responses to a prompt that opens their thoughts: one reading, whatever shape they are sent in."""

from __future__ import annotations

from typing import Any

import pytest

from rubrank.service.requests import SLIME, GroupsRequest, SampleReader, ScoreRequest
from rubrank.training.rollouts import rollout_of

OPEN, CLOSED = "<|user|>Name a lake.<|assistant|><think>\n", "<|user|>Name a lake.<|assistant|>"
SAID = ["Hangzhou, and", "Hangzhou.</think>West Lake.", "<think>So.</think>West Lake.", ""]


def sent(prompt: Any, response: Any, thinking: Any, **more: Any) -> tuple[str, str]:
    group = {"prompt": prompt, "responses": [response], **more}
    request = GroupsRequest.model_validate({"groups": [group]})
    rollout = request.groups[0].make_group("g", "groups.0", 8, thinking).rollouts[0]
    return rollout.thoughts, rollout.answer


@pytest.mark.parametrize("thinking", ["auto", "tags", "prefilled"])
@pytest.mark.parametrize("prompt", [OPEN, CLOSED])
@pytest.mark.parametrize("said", SAID)
def test_every_shape_is_read_alike(thinking: Any, prompt: str, said: str):
    made = rollout_of(prompt, said, thinking=thinking)
    expected = (made.thoughts, made.answer)
    assert sent(prompt, said, thinking) == expected
    assert sent(prompt, said, thinking, finish_reasons=["stop"]) == expected
    assert sent(prompt, [{"role": "assistant", "content": said}], thinking) == expected
    assert sent(prompt, {"response": said}, thinking) == expected
    asked = [{"role": "user", "content": "Name a lake."}, {"role": "assistant", "content": prompt}]
    assert sent(asked, said, thinking) == expected
    request = ScoreRequest.model_validate({"prompt": prompt, "response": said})
    one = request.as_group().make_group("score", "body", 8, thinking).rollouts[0]
    assert (one.thoughts, one.answer) == expected
    reading = SampleReader(4, "rubric", (), False, thinking=thinking)
    (sample,) = SLIME.read_samples({"prompt": prompt, "response": said}, reading)
    assert (sample.rollout.thoughts, sample.rollout.answer) == expected


def test_reasoning_in_a_field_of_its_own_stays():
    assert sent(OPEN, {"response": "West Lake.", "reasoning": "So."}, "auto") == ("So.", "West Lake.")
    assert sent(OPEN, "Hangzhou, and", "auto")[1] == ""
    assert sent(OPEN, "Hangzhou, and", "tags")[1] == "Hangzhou, and"
