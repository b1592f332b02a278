import random

import pytest
from cases import folded

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers import load
from rubrank.verifiers.verifier import VERIFIERS

load()
NAMES = ("EmptyAnswer", "Truncated", "RepeatSegment", "GarbledText", "ThinkLeak", "WrongLanguage")


def verdict(name, response, params=None, **fields):
    verifier = VERIFIERS[name]
    return verifier.verify(Rollout(response=response, **fields), verifier.check_parameters(params or {}))


def prose(seed: int, words: int, chinese: bool) -> str:
    """Text that says something new all the time."""
    rng = random.Random(seed)
    if chinese:
        clauses = ["".join(chr(rng.randrange(0x4E00, 0x9000)) for _ in range(9)) for _ in range(words // 9)]
        return "，".join(clauses) + "。"
    found = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randrange(2, 9))) for _ in range(words)]
    return ". ".join(" ".join(found[i : i + 9]) for i in range(0, words, 9)) + "."


@folded("chinese", [False, True])
@folded("period", [1, 4, 20, 90, 400])
def test_a_loop_after_good_text_is_caught_whatever_its_period(period, chinese):
    segment = prose(period, 500, chinese)[:period]
    answer = prose(1, 100, chinese) + segment * max(8, 300 // period)
    assert verdict("RepeatSegment", prose(1, 300, chinese)).value == 1
    assert verdict("RepeatSegment", answer).value == 0


def test_a_whole_answer_said_twice_is_caught_and_a_quotation_of_it_is_not():
    text = prose(3, 120, False)
    assert verdict("RepeatSegment", f"{text}\n\n{text}").value == 0
    assert verdict("RepeatSegment", f"{text}\n\nAs said: {text[:80]}").value == 1


def test_refrains_and_the_number_of_times_are_parameters():
    song = "\n".join(
        f"{prose(i, 9, False)}\nRow, row, row your boat gently down the stream, my friend!" for i in range(12)
    )
    refrain = "Row, row, row your boat gently down the stream, my friend!"
    assert verdict("RepeatSegment", song, {"refrains": [refrain]}).value == 1
    cheer = "hip hip hurray and so on " * 6
    assert verdict("RepeatSegment", cheer).value == 0
    assert verdict("RepeatSegment", cheer, {"most_times": 8}).value == 1


@folded("cut", range(5, 60, 5))
def test_cut_json_is_unfinished_and_whole_json_is_not(cut):
    whole = '{"name": "Li", "tags": ["a", "b"], "nested": {"x": 1, "y": [2]}}'
    assert verdict("Truncated", whole).value == 1
    assert verdict("Truncated", whole[:cut]).value == 0


def test_why_sampling_ended_outweighs_the_look_of_the_text():
    assert verdict("Truncated", "All is said.", finish_reason="length").value == 0
    text = "We went there. We saw it all. And then everybody walked home through the cold dark rain"
    assert verdict("Truncated", text).value is None
    assert verdict("Truncated", text, finish_reason="stop").value == 1


@pytest.mark.parametrize("text", ["你好，世界，今天天气很好", "Élève français à l’école", "Привет, как дела"])
def test_text_decoded_wrongly_is_garbled_and_decoded_rightly_is_not(text):
    wrong = text.encode("utf-8").decode("latin-1")
    assert verdict("GarbledText", f"{text} {text} {text}").value == 1
    assert verdict("GarbledText", f"{wrong} {wrong} {wrong}").value == 0


def test_what_the_prompt_contains_may_be_answered_with():
    broken = "a\ufffdb\ufffdc\ufffdd"
    assert verdict("GarbledText", f"You wrote {broken}.").value == 0
    assert verdict("GarbledText", f"You wrote {broken}.", prompt=f"What is {broken}?").value == 1


@folded("tag", ["</think>", "<thinking>", "<|im_start|>", "[/THINK]", "<scratchpad>"])
def test_tags_leak_only_outside_code_and_unasked(tag):
    fields = {"prompt": "Name a lake.", "reasoning": "thoughts"}
    assert verdict("ThinkLeak", f"West Lake. {tag}", **fields).value == 0
    assert verdict("ThinkLeak", f"Write `{tag}` there.", **fields).value == 1
    asked = f"What does {tag} mean?"
    assert verdict("ThinkLeak", f"It is {tag}.", prompt=asked, reasoning="t").value == 1


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    "text",
    [
        "(" * 10_000,
        "\ud800" * 100,
        "\x00" * 100,
        "\u200b" * 100,
        "\u202eabc",
        " " * 100_000,
        "|" * 100_000,
        "`" * 99_999,
        "[" * 100_000,
        "a" * 1_000_000,
        "你好。" * 100_000,
    ],
    ids=lambda text: ascii(text[:3]),
)
def test_hostile_texts_get_a_verdict(name, text):
    result = verdict(name, text, prompt="What is the capital of France, please?")
    assert "failed" not in result.reason


def test_all_gates_stop_the_reward():
    assert {VERIFIERS[name].layer for name in NAMES} == {"global_quality"}
