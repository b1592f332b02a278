"""Providers behind OpenAI-compatible endpoints: their base URLs, prompt caching, and what their replies look like.

Stubs on the loopback interface stand for the providers; no provider was asked.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from server import Answer, Asked, Server

import rubrank
from rubrank.rubrics.rubric import Criterion

CLEAR = Criterion(name="Clear", question="Is it clear?")
KIND = Criterion(name="Kind", question="Is it kind?")
ROLLOUTS = [{"prompt": "Greet.", "response": "Hello."}, {"prompt": "Greet.", "response": "Go away."}]
VERDICT = json.dumps({"reasoning": "Fine.", "finding": "holds", "verdict": 1})


def judges(url: str, endpoint: dict[str, Any] | None = None, **given: Any) -> dict[str, Any]:
    settings = {"base_url": url, "model": "test-model", **(endpoint or {})}
    return {"kind": "absolute", "endpoints": [settings], **given}


@pytest.mark.parametrize("path", ["/v1", "/v1beta/openai", "/api/v1", "/openai/v1"])
def test_the_base_url_is_kept_as_it_is(path):
    with Server([Answer(VERDICT)]) as server:
        url = server.url.removesuffix("/v1") + path
        table = rubrank.grade(ROLLOUTS, [CLEAR], judges=judges(url))
        assert {asked.path for asked in server.completions} == {f"{path}/chat/completions"}
    assert table.judging.missing == 0.0


def test_shared_parts_are_marked_and_say_the_same():
    bodies: dict[bool, list[Any]] = {}
    for marked in (False, True):
        with Server([Answer(VERDICT)]) as server:
            rubrank.grade(
                ROLLOUTS, [CLEAR, KIND], judges=judges(server.url, {"prompt_cache": marked}, order="data_first")
            )
            bodies[marked] = [asked.body["messages"] for asked in server.completions]
    plain = sorted(tuple(message["content"] for message in messages) for messages in bodies[False])
    joined = sorted(tuple(join(message) for message in messages) for messages in bodies[True])
    assert joined == plain
    marks: dict[str, int] = {}
    for system, user in bodies[True]:
        assert [part.get("cache_control") for part in system["content"]] == [{"type": "ephemeral"}]
        data, question = user["content"]
        assert data["cache_control"] == {"type": "ephemeral"}
        assert "cache_control" not in question
        assert "Is it" in question["text"]
        marks[data["text"]] = marks.get(data["text"], 0) + 1
    assert sorted(marks.values()) == [2, 2]  # both questions about a response share its marked part


def test_with_the_question_first_the_system_message_alone_is_marked():
    with Server([Answer(VERDICT)]) as server:
        rubrank.grade(ROLLOUTS, [CLEAR], judges=judges(server.url, {"prompt_cache": True}))
        system, user = server.completions[0].body["messages"]
    assert "cache_control" in system["content"][0]
    assert all("cache_control" not in part for part in user["content"])


@pytest.mark.parametrize("message", ["Unknown field: cache_control", "messages.0.content must be a string"])
def test_a_server_that_does_not_take_marks_gets_plain_messages(message):
    def script(asked: Asked) -> Answer:
        if isinstance(asked.body["messages"][0]["content"], str):
            return Answer(VERDICT)
        return Answer(status=400, body=json.dumps({"error": {"message": message}}))

    with Server(script) as server:
        table = rubrank.grade(ROLLOUTS, [CLEAR], judges=judges(server.url, {"prompt_cache": True, "concurrency": 1}))
        assert len(server.completions) == 3
    assert table.judging.missing == 0.0


def test_cached_tokens_have_their_own_price():
    price = {"input": 3.0, "output": 15.0, "cached_input": 0.3}
    with Server([Answer(VERDICT, usage=(1000, 10, 800))]) as server:
        table = rubrank.grade(ROLLOUTS, [CLEAR], judges=judges(server.url, {"prompt_cache": True, "price": price}))
    assert table.judging.account.cost == pytest.approx(2 * (200 * 3.0 + 800 * 0.3 + 10 * 15.0) / 1e6)


def join(message: dict[str, Any]) -> str:
    return "".join(part["text"] for part in message["content"])
