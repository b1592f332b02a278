"""Bodies of chat completions, well-formed and not."""

import json
import math

import pytest
from cases import folded
from hypothesis import given
from hypothesis import strategies as st

from rubrank.judges.client.protocol import read_response, read_usage, shorten
from rubrank.judges.judge import Price, Usage

FREE = Price()


def body(message, **choice):
    return json.dumps({"choices": [{"message": message, **choice}]}).encode()


def test_text_in_parts():
    parts = [{"type": "text", "text": "a"}, {"type": "image"}, {"type": "text", "text": "b"}]
    assert read_response(body({"content": parts}), FREE).reply.text == "ab"


def test_a_cut_wins_over_emptiness():
    outcome = read_response(body({"content": None}, finish_reason="length"), FREE)
    assert (outcome.reply.failure, outcome.next) == ("cut off at max_tokens", "done")


def test_usage_is_kept_where_the_message_is_missing():
    outcome = read_response(b'{"usage": {"prompt_tokens": 7, "completion_tokens": 1}}', FREE)
    assert outcome.reply.usage == Usage(7, 1)
    assert (outcome.next, outcome.healthy) == ("retry", False)


@folded(
    ("usage", "read"),
    [
        (None, Usage()),
        ("many", Usage()),
        ({"prompt_tokens": None, "completion_tokens": -1}, Usage()),
        ({"prompt_tokens": 0, "completion_tokens": 10**40}, Usage(0, 10**12, 0, 4e6)),
        ({"prompt_tokens": 10, "completion_tokens": 2}, Usage(10, 2, 0, 10e-6 + 8e-6)),
        ({"prompt_tokens": 10, "prompt_tokens_details": None}, Usage(10, 0, 0, 10e-6)),
        ({"prompt_tokens": 10, "prompt_tokens_details": {"cached_tokens": 99}}, Usage(10, 0, 10, 10e-6)),
    ],
)
def test_usage(usage, read):
    found = read_usage(usage, Price(input=1.0, output=4.0))
    assert found.cost == pytest.approx(read.cost)
    assert found == Usage(read.input_tokens, read.output_tokens, read.cached_tokens, found.cost)


def test_log_probabilities_that_are_missing_or_infinite():
    entries = [{"token": "a", "logprob": "-inf", "top_logprobs": None}, {"token": "b", "logprob": -1}]
    reply = read_response(body({"content": "ab"}, logprobs={"content": entries}), FREE).reply
    assert reply.logprobs[0] == {"token": "a", "logprob": -math.inf, "top": {}}
    assert len(reply.logprobs) == 2
    for odd in (None, ["odd"], [{"token": "b"}]):
        assert read_response(body({"content": "ab"}, logprobs={"content": odd}), FREE).reply.logprobs is None


def test_brackets_without_end():
    assert read_response(b"[" * 100_000, FREE).reply.failure.startswith("malformed reply: ")


def test_long_sayings_are_shortened():
    assert shorten("a \n b") == "a b"
    assert len(shorten("x" * 1000)) == 300


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                [
                    "choices",
                    "message",
                    "content",
                    "refusal",
                    "usage",
                    "error",
                    "logprobs",
                    "top_logprobs",
                    "token",
                    "logprob",
                    "prompt_tokens",
                    "completion_tokens",
                    "prompt_tokens_details",
                    "cached_tokens",
                    "finish_reason",
                ]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=20,
)


@pytest.mark.slow
@given(st.binary(max_size=40) | JSON.map(lambda value: json.dumps(value).encode()))
def test_no_body_raises(data):
    outcome = read_response(data, Price(input=1.0))
    assert outcome.reply.text is not None or outcome.reply.failure
    assert outcome.next == "done" or outcome.reply.failure


@pytest.mark.slow
@given(JSON, JSON, JSON)
def test_no_choice_raises(message, logprobs, finish):
    data = {
        "choices": [
            {
                "message": {"content": "x", "extra": message},
                "logprobs": {"content": [logprobs]},
                "finish_reason": finish,
            }
        ]
    }
    assert read_response(json.dumps(data).encode(), FREE).reply.text == "x"
