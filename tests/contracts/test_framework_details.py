"""What frameworks hand over in other shapes than the usual one: tokens, reasons and prompts are the right ones."""

from __future__ import annotations

import asyncio
from collections import UserDict
from types import SimpleNamespace as Plain
from typing import Any

import numpy as np
import pytest
from contracts.drivers import Tokenizer

from rubrank import RewardEngine
from rubrank.records.files import read_records
from rubrank.training.queries import Completion, make_query
from rubrank.training.rollouts import rollout_of

RUBRIC = [{"name": "Lake", "verifier": "Keyword", "params": {"keywords": ["lake"]}}]
ASKED = [{"role": "user", "content": "Name a lake."}]


def test_areal_with_a_template_that_gives_a_mapping():
    """As tokenizers of transformers 5 do: a list of it would be its keys."""
    from rubrank.training.frameworks.areal import RubricWorkflow

    class Five(Tokenizer):
        def apply_chat_template(self, messages: Any, **options: Any) -> Any:
            return UserDict(input_ids=[65, 66], attention_mask=[1, 1])

    made = RubricWorkflow(RewardEngine(RUBRIC), gconfig=Plain(), tokenizer=Five(), n=2, request=list)
    assert made.encode_prompt(ASKED) == [65, 66]


def test_rllm_asks_a_trajectory_that_has_a_prompt(tmp_path):
    from rubrank.training.frameworks.rllm import estimator

    talks = [[], [*ASKED, {"role": "assistant", "content": "a lake"}]]
    made = [Plain(steps=[Plain(chat_completions=one)] if one else [], task={}, reward=0.0) for one in talks]
    estimate = estimator(RewardEngine(RUBRIC, records=tmp_path / "r.jsonl"), lambda rewards, **_: rewards)
    (found,) = estimate(rewards=[np.zeros(2)], traj_groups=[Plain(group_id="a", trajectories=made)])
    assert found.tolist() == [0.0, 1.0]
    (record,) = read_records(tmp_path / "r.jsonl")
    assert [message["content"] for message in record.prompt or ()] == ["Name a lake."]


def test_a_task_of_rllm_that_is_a_question_is_not_the_truth():
    from rubrank.training.frameworks.rllm import estimator

    question = "What is 2+2?"
    talk = [{"role": "user", "content": question}, {"role": "assistant", "content": question}]
    made = [Plain(steps=[Plain(chat_completions=talk)], task=question, reward=0.0) for _ in range(2)]
    reported: list[Any] = []
    estimate = estimator(RewardEngine(["GroundTruthMatch"]), lambda rewards, **_: rewards, report=reported.append)
    estimate(rewards=[np.zeros(2)], traj_groups=[Plain(group_id="a", trajectories=made)])
    assert reported[0].metrics["rubrank/GroundTruthMatch/missing"] == 1.0  # the data hold no truth


def test_roll_reads_all_tokens_of_a_padded_batch(tmp_path):
    """ROLL pads prompts at the beginning, and its masks belong to the sequence without that padding."""
    from rubrank.training.frameworks.roll import RubricLoop

    prompt_ids = Tokenizer().encode("Name a lake.")
    items = []
    for text in ("It is a lake", "no"):
        response_ids = [*Tokenizer().encode(text), 0]
        padding = 30 - len(response_ids)
        batch = {
            "prompts": np.array([[0] * 6 + prompt_ids]),
            "responses": np.array([response_ids + [7] * padding]),
            "prompt_mask": np.array([[1] * 12 + [0] * 36], dtype=bool),
            "response_mask": np.array([[0] * 12 + [1] * len(response_ids) + [0] * (padding + 6)]),
            "response_level_rewards": np.array([0.3]),
        }
        items.append(Plain(batch=batch, non_tensor_batch={}))

    class Base:
        async def process_new_prompt(self, context: Any) -> Any:
            return items

    class Loop(RubricLoop, Base):
        rubrank = RewardEngine(RUBRIC, records=tmp_path / "r.jsonl")
        tokenizer = Tokenizer()

    asyncio.run(Loop().process_new_prompt(Plain(is_val=False, meta_info={})))
    (record,) = read_records(tmp_path / "r.jsonl")
    assert record.responses == ("It is a lake", "no")
    assert [message["content"] for message in record.prompt or ()] == ["Name a lake."]
    assert [float(item.batch["response_level_rewards"][0]) for item in items] == [1.0, 0.0]


def test_nemo_rl_counts_what_the_policy_said_and_not_what_came_after():
    from rubrank.training.frameworks.nemo_rl import RubricEnvironment

    environment = RubricEnvironment({"config": RewardEngine(RUBRIC), "num_generations": 2})
    said = {"role": "assistant", "content": "a lake", "token_ids": [1, 2], "finish_reason": "stop"}
    came = {"role": "environment", "content": "over", "token_ids": [1, 2, 3, 4], "truncated": True}
    rollout = environment.read_sample([*ASKED, said, came], {}).rollout
    assert (rollout.token_counts, rollout.finish_reason) == ({"reasoning": 0, "answer": 2}, "stop")


def test_verifiers_say_how_many_tokens_there_are():
    from rubrank.training.frameworks.verifiers import read_completion

    usage = Plain(completion_tokens=9, reasoning_tokens=5)
    response = Plain(message=Plain(finish_reason="length"), usage=usage)
    engine, query = RewardEngine(RUBRIC), make_query(ASKED)
    found = read_completion("<think>so</think>a lake", {"trajectory": [{"response": response}]})
    made = found.to_rollout(query, engine.thinking, "here")
    assert (made.finish_reason, made.token_counts) == ("length", {"reasoning": 5, "answer": 4})
    for state in (
        None,
        {},
        {"trajectory": []},
        {"trajectory": [{"response": None}]},
    ):
        assert read_completion("a lake", state).to_rollout(query, engine.thinking, "here").finish_reason is None
    assert read_completion("a lake", {"is_truncated": True}).finish_reason == "length"


def test_thoughts_closed_without_a_word_and_taken_out_by_a_renderer():
    """The same as under TRL: tinker-cookbook's renderers parse messages too."""
    words = Plain(decode=" ".join, encode=lambda text, add_special_tokens: text.split())
    said = [{"role": "assistant", "content": "West Lake."}]
    query, engine = make_query(ASKED), RewardEngine(RUBRIC)
    for ids, answer in ((["</think>", "West", "Lake."], "West Lake."), (["West", "Lake."], "")):
        made = Completion(said, ids=ids, reasoning_tag="<think>").to_rollout(query, engine.thinking, "here", words)
        assert made.answer == answer
        assert made.token_counts is not None


def test_samples_with_the_same_key_are_several_groups():
    from rubrank.training.flat_batch import Sample, by_key_and_size

    samples = [Sample(rollout_of("?", "!"), key) for key in "aabbaab"]
    assert by_key_and_size(2)(samples) == [0, 0, 1, 1, 2, 2, 3]
    assert by_key_and_size(None)(samples) == [0, 0, 1, 1, 0, 0, 1]


@pytest.mark.parametrize("content", [b"West Lake.", bytearray(b"West Lake."), [{"type": "text", "text": "West Lake."}]])
def test_content_that_is_no_text(content):
    assert rollout_of("?", [{"role": "assistant", "content": content}]).answer == "West Lake."


def test_one_group_that_fails_does_not_take_the_others_along():
    from rubrank.training.queries import score_query

    engine = RewardEngine(RUBRIC)

    async def main() -> list[Any]:
        asked = [make_query("?", {"rubric": own}) for own in (None, [{"name": "None"}], None)]
        each = (score_query(engine, one, ["a lake", "no"], step=0, where="here") for one in asked)
        return await asyncio.gather(*each, return_exceptions=True)

    first, failed, last = asyncio.run(main())
    assert (first.flat(), last.flat()) == ([1.0, 0.0], [1.0, 0.0])
    assert "here" in str(failed)
