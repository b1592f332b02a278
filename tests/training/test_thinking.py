"""Completions that begin in thoughts which the prompt had opened."""

from __future__ import annotations

import asyncio
import runpy
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubrank import RewardEngine
from rubrank.errors import InvalidInput, UnknownName
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.texts.reasoning import TAGS, opening_tag, reopen_reasoning, split_reasoning
from rubrank.training.config import RewardConfig
from rubrank.training.frameworks.trl import RubricReward, TrainerInfo
from rubrank.training.queries import Completion, make_query, score_group, score_query
from rubrank.training.rollouts import find_template_opening_tag, rollout_of

CUT = "The user wants a lake. West Lake is one, but perhaps I should"
WHOLE = "The user wants a lake.</think>West Lake."
LAKE = [{"name": "Lake", "verifier": "Keyword", "params": {"keywords": ["lake"]}}]


@pytest.mark.parametrize(
    ("text", "thoughts", "answer"),
    [
        (CUT, CUT, ""),
        (WHOLE, "The user wants a lake.", "West Lake."),
        ("<think>twice</think>West Lake.", "twice", "West Lake."),
        ("\n<think>\ntwice\n</think>\nWest Lake.", "twice", "West Lake."),
        ("I may write <think> and </think>, so</think>West Lake.", None, "West Lake."),
        ("安静地想[/THINK]西湖。", "安静地想", "西湖。"),
        ("", "", ""),
        ("   ", "", "   "),
    ],
)
def test_what_a_text_says(text, thoughts, answer):
    found = split_reasoning(reopen_reasoning(text))
    assert found[1].strip() == answer.strip()
    assert thoughts is None or found[0] == thoughts


@given(st.text(max_size=40), st.sampled_from([None, *(first for first, _ in TAGS)]))
def test_reopened_twice_is_once(text, tag):
    once = reopen_reasoning(text, tag)
    assert reopen_reasoning(once, tag) == once
    assert once.endswith(text)


@pytest.mark.parametrize(("first", "last"), TAGS)
def test_every_family_of_tags(first, last):
    assert opening_tag(f"<|assistant|>\n{first}\n") == first
    assert opening_tag(f"<|assistant|>\n{first}\n\n{last}\n\n") is None  # thinking turned off
    assert split_reasoning(reopen_reasoning("so", first)) == ("so", "")
    assert split_reasoning(reopen_reasoning(f"so{last}West Lake.")) == ("so", "West Lake.")


def test_a_prompt_in_text_tells_by_itself():
    assert rollout_of("<|user|>Hi<|assistant|><think>\n", CUT).answer == ""
    assert rollout_of("<|user|>Hi<|assistant|>", CUT).answer == CUT
    assert rollout_of("<|user|>Hi<|assistant|><think>\n", CUT, thinking="tags").answer == CUT
    begun = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "<think>\n"}]
    assert rollout_of(begun, CUT).answer == ""
    asked = [{"role": "user", "content": "What does <think>"}]
    assert rollout_of(asked, CUT).answer == CUT  # the user's words are no template


def test_reasoning_in_a_field_of_its_own_stays():
    said = [{"role": "assistant", "content": "West Lake.", "reasoning_content": "so"}]
    found = rollout_of("Hi", said, thinking="prefilled")
    assert (found.thoughts, found.answer) == ("so", "West Lake.")


def test_a_call_of_a_tool_and_nothing_else_is_no_thought():
    call = {"type": "function", "id": "1", "function": {"name": "look", "arguments": "{}"}}
    found = rollout_of("Hi", [{"role": "assistant", "content": "", "tool_calls": [call]}], thinking="prefilled")
    assert (found.response, len(found.tool_calls)) == ("", 1)


def test_the_engine_reads_rollouts_of_ones_own():
    said = tuple(Rollout(prompt="Name a lake.", response=text) for text in (CUT, WHOLE))
    groups = [Group(id="a", rollouts=said)]
    assert RewardEngine(LAKE).score(groups, 0).flat() == [0.5, 0.5]
    assert RewardEngine(LAKE, thinking="prefilled").score(groups, 0).flat() == [0.0, 1.0]
    assert asyncio.run(RewardEngine(LAKE, thinking="prefilled").score_async(groups, 0)).flat() == [0.0, 1.0]


def test_rollouts_of_ones_own_are_made_again_once(monkeypatch):
    made, begin = [], Rollout.reopen_thoughts

    def counting(self, tag=None):
        found = begin(self, tag)
        made.extend([found] * (found is not self))
        return found

    monkeypatch.setattr(Rollout, "reopen_thoughts", counting)
    groups = [Group(id="a", rollouts=tuple(Rollout(prompt="?", response=text) for text in (CUT, WHOLE)))]
    RewardEngine(LAKE, thinking="prefilled").score(groups, 0)
    assert len(made) == 2
    asyncio.run(RewardEngine(LAKE, thinking="prefilled").score_async(groups, 0))
    assert len(made) == 4


def test_one_group_and_queries():
    engine = RewardEngine(LAKE, thinking="prefilled")
    assert score_group(engine, "Name a lake.", [CUT, WHOLE], step=0).flat() == [0.0, 1.0]
    engine = RewardEngine(LAKE)
    query = make_query("<|user|>Name a lake.<|assistant|><think>", {"prompt": "Name a lake."})
    found = asyncio.run(score_query(engine, query, [Completion(CUT), Completion(WHOLE)], step=0, where="here"))
    assert found.flat() == [0.0, 1.0]


class Tokenizer:
    """As much of one as templates need."""

    chat_template = "given"

    def __init__(self, end: str) -> None:
        self.end = end

    def apply_chat_template(self, messages, tokenize, add_generation_prompt, enable_thinking=True):
        assert not tokenize
        return f"<|user|>{messages[0]['content']}<|assistant|>{self.end if enable_thinking else '<think></think>'}"


def test_a_template_is_asked():
    assert find_template_opening_tag(Tokenizer("<think>\n")) == "<think>"
    assert find_template_opening_tag(Tokenizer("<think>\n"), enable_thinking=False) is None
    assert find_template_opening_tag(Tokenizer("")) is None
    assert find_template_opening_tag(Tokenizer(""), unknown=1) is None  # it refuses: not known
    assert find_template_opening_tag(None) is None


def test_trl_asks_the_template_of_its_tokenizer():
    prompts = [[{"role": "user", "content": "Name a lake."}]] * 2
    said = [[{"role": "assistant", "content": text}] for text in (CUT, WHOLE)]
    assert _trl(Tokenizer("<think>\n"), prompts, said) == [0.0, 1.0]
    assert _trl(Tokenizer(""), prompts, said) == [0.5, 0.5]
    assert _trl(Tokenizer(""), prompts, said, thinking="prefilled") == [0.0, 1.0]
    assert _trl(Tokenizer("<think>\n"), prompts, said, thinking="tags") == [0.5, 0.5]
    assert _trl(Tokenizer("<think>\n"), ["Name a lake."] * 2, [CUT, WHOLE]) == [0.5, 0.5]  # texts get no template


def _trl(tokenizer, prompts, said, **options):
    from types import SimpleNamespace

    class Trainer:
        args = SimpleNamespace(num_generations=2, num_generations_eval=None, max_completion_length=9)
        model, processing_class = SimpleNamespace(training=True), tokenizer

        def log(self, name, value):
            pass

    ids = options.pop("completion_ids", None)
    return RubricReward(LAKE, **options)(prompts, said, completion_ids=ids, log_metric=Trainer().log)


class Words(Tokenizer):
    """Tokens are words."""

    def decode(self, ids):
        return " ".join(ids)

    def encode(self, text, add_special_tokens):
        return text.split()


@pytest.mark.parametrize("thinking", ["auto", "prefilled"])
def test_thoughts_that_are_closed_without_a_word_are_no_cut_ones(thinking):
    """TRL's parsers of Qwen3.5 and its kin leave `West Lake.` of both: the tokens tell."""
    prompts = [[{"role": "user", "content": "Name a lake."}]] * 2
    said = [[{"role": "assistant", "content": "West Lake."}]] * 2
    ids = [["</think>", "West", "Lake."], ["West", "Lake."]]
    given = {"thinking": thinking, "completion_ids": ids}
    assert _trl(Words("<think>\n"), prompts, said, **given) == [1.0, 0.0]
    assert _trl(Words(""), prompts, said, completion_ids=ids) == [0.5, 0.5]


def test_the_last_turn_tells():
    call = {"type": "function", "id": "1", "function": {"name": "look", "arguments": {}}}
    turns = [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "content": "West Lake."},
        {"role": "assistant", "content": "West Lake."},
    ]
    ids = ["<call>", "West", "Lake.", "</think>", "West", "Lake."]
    cut = ["</think>", "<call>", "West", "Lake.", "West", "Lake."]
    prompts = [[{"role": "user", "content": "Name a lake."}]] * 2
    assert _trl(Words("<think>\n"), prompts, [turns, turns], completion_ids=[ids, cut]) == [1.0, 0.0]


@pytest.mark.slow
@pytest.mark.filterwarnings("default")
def test_parsers_of_trl():
    """Its templates that open the thoughts, each with its own parser: what is an answer to us is one to the model."""
    trl = pytest.importorskip("trl", reason="trl is not installed: pip install 'rubrank[trl]'")
    from trl.chat_template_utils import add_response_schema, parse_response

    recipe = runpy.run_path(str(Path(__file__).parents[2] / "recipes" / "tiny_policy" / "make.py"))
    asked, parsed = [{"role": "user", "content": "Name a lake."}], 0
    for file in sorted((Path(trl.__file__).parent / "chat_templates").glob("*.jinja")):
        words = recipe["tokenizer"]()
        words.chat_template = file.read_text(encoding="utf-8")
        if find_template_opening_tag(words) is None or "deepseek" in file.name:  # the tiny tokenizer lacks its marks
            continue
        try:
            add_response_schema(words)
        except ValueError:
            continue
        prefix = words(words.apply_chat_template(asked, tokenize=False, add_generation_prompt=True))["input_ids"]
        for text, answer in (("so</think>\n\nA.", "A."), ("</think>\n\nA.", "A."), ("\n</think>A.", "A."), ("A.", "")):
            ids = words(text)["input_ids"]
            said = [parse_response(words, ids, prefix=prefix)]
            trainer = TrainerInfo(args=None, model=None, tokenizer=words)
            (sample,) = RubricReward(LAKE).make_samples([asked], [said], {}, [ids], trainer)
            assert sample.rollout.answer == answer, (file.name, text, said)
            parsed += said[0]["content"] == "A."
    assert parsed > 3


def test_thoughts_by_another_name():
    """gpt-oss and LFM2.5 call them `thinking`."""
    said = [{"role": "assistant", "content": "West Lake.", "thinking": "so"}]
    found = rollout_of("Hi", said)
    assert (found.thoughts, found.answer) == ("so", "West Lake.")
    assert rollout_of("Hi", [{"role": "assistant", "content": "West Lake.", "thinking": True}]).thoughts == ""


def test_only_three_words():
    with pytest.raises(UnknownName, match="prefilled"):
        RewardEngine(LAKE, thinking="prefiled")  # type: ignore[arg-type]
    with pytest.raises(Exception, match="thinking"):
        RewardConfig.model_validate({"thinking": "on"})
    assert issubclass(UnknownName, InvalidInput)
