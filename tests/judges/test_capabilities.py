"""Parameters that a server refuses are put otherwise or left out, and that is remembered; over real HTTP."""

import json

import pytest
from calling import SCHEMA, ask, ask_all, call_of, judge_of, run
from cases import folded
from server import Answer, Server, refusal_of

from rubrank.judges.client.client import Client
from rubrank.judges.judge import Sampling


def error(message, status=400):
    return Answer(status=status, body=json.dumps({"error": {"message": message}}))


def only(*accepted):
    """A server that takes these forms of replies."""

    def script(asked):
        form = asked.body.get("response_format", {}).get("type", "text")
        return Answer(f"by {form}") if form in accepted else error(f"Invalid response_format: {form}")

    return script


def ask_in_turn(judge, calls):
    async def main():
        async with Client(judge) as client:
            return [await client.ask(call) for call in calls]

    return run(main())


def calls(number):
    return [call_of(str(i), schema=SCHEMA) for i in range(number)]


@pytest.mark.parametrize(
    ("accepted", "requests"), [(("json_schema",), 3), (("json_object", "text"), 4), (("text",), 5)]
)
def test_the_best_form_that_the_server_takes(accepted, requests):
    with Server(only(*accepted)) as server:
        replies = ask_in_turn(judge_of(server), calls(3))
        assert len(server.completions) == requests  # refused once for each form, and never again
    assert [reply.text for reply in replies] == [f"by {accepted[0]}"] * 3
    assert [reply.attempts for reply in replies] == [1] * 3


@folded("status", [400, 422, 501])
@folded(
    "message",
    ["'response_format' is not supported", "json_schema: extra inputs", "Grammar error", "guided decoding is off"],
)
def test_refusals_in_many_words(status, message):
    with Server([error(message, status), Answer("ok")]) as server:
        assert ask(judge_of(server), calls(1)[0]).text == "ok"


def test_many_calls_that_are_refused_at_once():
    with Server(only("text")) as server:
        replies, _ = run(ask_all(judge_of(server), calls(30)))
    assert [reply.text for reply in replies] == ["by text"] * 30


def test_a_form_that_was_asked_for_stays():
    with Server(only("text")) as server:
        reply = ask(judge_of(server, endpoint={"structured": "json_schema"}), calls(1)[0])
        assert len(server.completions) == 1
    assert reply.failure.startswith("HTTP 400: Invalid response_format")


@pytest.mark.parametrize("form", ["json_object", "text"])
def test_a_form_that_was_asked_for_is_used(form):
    with Server(only(form)) as server:
        assert ask(judge_of(server, endpoint={"structured": form}), calls(1)[0]).text == f"by {form}"
        assert len(server.completions) == 1


def test_other_errors_teach_nothing():
    with Server([error("context length exceeded"), Answer("ok")]) as server:
        replies = ask_in_turn(judge_of(server), calls(2))
        assert server.completions[1].body["response_format"]["type"] == "json_schema"
    assert replies[0].failure == "HTTP 400: context length exceeded"


def test_a_reasoning_model():
    def script(asked):
        if "max_tokens" in asked.body:
            return error("Unsupported parameter: 'max_tokens'. Use 'max_completion_tokens' instead.")
        if "temperature" in asked.body:
            return error("Unsupported value: 'temperature' does not support 0.0; only the default (1) is supported.")
        return Answer("thought through")

    with Server(script) as server:
        replies = ask_in_turn(judge_of(server, sampling=Sampling(max_tokens=50)), calls(2))
        last = server.completions[-1].body
        assert len(server.completions) == 4
    assert [reply.text for reply in replies] == ["thought through"] * 2
    assert last["max_completion_tokens"] == 50


@pytest.mark.parametrize("name", ["seed", "top_p", "logprobs", "top_logprobs"])
def test_parameters_that_are_left_out(name):
    def script(asked):
        return refusal_of(name) if name in asked.body else Answer("ok")

    with Server(script) as server:
        judge = judge_of(server, sampling=Sampling(seed=1, top_p=0.5))
        assert ask(judge, call_of(logprobs=True)).text == "ok"
        assert len(server.completions) == 2


def test_fewer_alternatives_where_the_server_has_a_limit():
    def script(asked):
        return error("top_logprobs must be at most 5") if asked.body["top_logprobs"] > 5 else Answer("ok")

    with Server(script) as server:
        assert ask(judge_of(server), call_of(logprobs=True)).text == "ok"


def test_a_wrong_value_is_not_a_wrong_parameter():
    with Server([error("temperature must be at most 2")]) as server:
        assert ask(judge_of(server, sampling=Sampling(temperature=5.0))).failure.startswith("HTTP 400")
        assert len(server.completions) == 1


@pytest.mark.parametrize("extra", [{"response_format": {"type": "x"}}, {"max_tokens": 5}, {"temperature": 3}])
def test_what_the_user_asked_for_is_never_left_out(extra):
    message = f"Unsupported: {next(iter(extra))}, max_completion_tokens"
    with Server([error(message)]) as server:
        reply = ask(judge_of(server, endpoint={"extra_body": extra}), calls(1)[0])
        assert all(extra.items() <= asked.body.items() for asked in server.completions)
    assert reply.failure.startswith("HTTP 400")


def test_a_server_that_refuses_everything_is_given_up():
    with Server([error("unsupported response_format json_schema max_completion_tokens temperature")]) as server:
        assert ask(judge_of(server), calls(1)[0]).failure.startswith("HTTP 400")
        assert len(server.completions) <= 8
