"""The task family: prompts, truth, verifiers and the judge, whose bias is known."""

from __future__ import annotations

import json
import random
from dataclasses import replace

import numpy as np
import pytest
import rubrank_lab.task as task
from hypothesis import given, settings
from hypothesis import strategies as st
from rubrank_lab.cell import judges_of
from rubrank_lab.rows import GATES, JUDGED, row_of, write_rows
from rubrank_lab.truth import read, truth
from rubrank_lab.world import TOPICS, Ask, answer, draw_ask, tokens

import rubrank
from rubrank.rubrics.public import to_rubric

ASK = Ask("bees", 2, mention=("honey", "wax"), avoid="odd", closing=True)
HONEY, WAX = (f"bees {TOPICS['bees'][noun]} {noun}." for noun in ("honey", "wax"))
WRONG = next(f"bees {verb} honey." for verb in ("make", "need", "fear") if verb != TOPICS["bees"]["honey"])
PERFECT = f"<think>need honey wax</think>\n{HONEY} {WAX}\nthanks."


@given(st.integers(0, 10**6))
@settings(max_examples=60, deadline=None)
def test_a_prompt_says_everything_that_it_asks(seed):
    ask = draw_ask(random.Random(seed))
    assert Ask.parse(ask.prompt) == ask


def test_every_answer_can_be_said_in_tokens():
    from rubrank_lab.policy import tokenizer

    words, chance = tokenizer(), random.Random(0)
    assert len(words) == len(tokens()) < 400
    for _ in range(300):
        ask = draw_ask(chance)
        for text in (ask.prompt, answer(ask, chance)):
            ids = words(text)["input_ids"]
            assert words.decode(ids) == text
            assert words.pad_token_id not in ids


def test_a_perfect_answer_is_worth_all():
    found = truth(ASK, PERFECT, truncated=False)
    assert (found.quality, found.additive, found.satisfied, found.gate) == (1.0, 1.0, 1.0, 1.0)


@pytest.mark.parametrize(
    ("response", "truncated"),
    [
        (PERFECT, True),
        ("<think>need honey", False),
        (f"<think>need</think>\n{HONEY} {HONEY} {HONEY}", False),
        ("<think>need</think>\nder honey ist ein bees.", False),
        ("<think>need</think>\n", False),
    ],
)
def test_what_a_gate_stops_is_worth_nothing(response, truncated):
    assert truth(ASK, response, truncated).quality == 0.0


def test_neither_thinking_nor_markdown_is_worth_anything():
    longer = PERFECT.replace("wax</think>", "wax hmm wait check again so so</think>")
    marked = PERFECT.replace("honey.", "**honey**.", 1)
    for text in (longer, marked):
        assert truth(ASK, text, truncated=False) == truth(ASK, PERFECT, truncated=False)
    assert read(ASK, longer).thinking == read(ASK, PERFECT).thinking + 6
    assert read(ASK, marked).markers == 1


def test_wrong_facts_cost_content_alone():
    found = truth(ASK, PERFECT.replace(HONEY, WRONG), truncated=False)
    assert found.content == pytest.approx(0.5)
    assert found.asks == 1.0


def test_the_judge_likes_length_and_markdown_as_much_as_it_should():
    """Over many answers of the same content, the mean verdict rises by the bias that is written down."""
    exact = task.Habits(noise=0.0)
    ask, text = replace(ASK, mention=()), f"<think>{'so ' * 7}so</think>\n{WRONG} {WAX}"
    longer = text.replace("<think>", "<think>" + "so " * 16)
    assert read(ask, text).thinking == 8
    assert read(ask, longer).thinking == 24
    gap = task.verdict("Accuracy", ask, longer, exact) - task.verdict("Accuracy", ask, text, exact)
    assert gap == pytest.approx(10 * task.LIKES["Accuracy"][0])
    assert task.verdict("Accuracy", ask, longer, task.Habits(0.0, 0.0, 0.0)) == 5.0


def test_noise_is_a_function_of_the_answer():
    noisy = task.Habits(noise=0.3)
    texts = [f"<think>need</think>\n{HONEY} {'so ' * n}{WAX}" for n in range(300)]
    once, again = ([task.verdict("Accuracy", ASK, text, noisy) for text in texts] for _ in range(2))
    assert once == again
    assert np.std(once) > 1.0


def test_every_ask_has_a_rubric_of_its_own(tmp_path):
    write_rows(tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "prompts.jsonl").read_text().splitlines()]
    held = [json.loads(line) for line in (tmp_path / "held_out.jsonl").read_text().splitlines()]
    assert not {row["prompt"] for row in rows} & {row["prompt"] for row in held}
    rubrics = [to_rubric(json.loads(row["rubric"])) for row in rows]
    ranked = [{c.name for c in rubric.criteria if c.value_layer == "quality"} for rubric in rubrics]
    assert len(set.union(*ranked)) >= 12
    assert len({frozenset(names) for names in ranked}) > 50
    assert all(set(GATES) <= set(rubric.names) for rubric in rubrics)
    domains = {str(c.value_domain.description) for rubric in rubrics for c in rubric.criteria}
    assert {"0, 1", "0, 0.5, 1", "0 to 1", "0 to 100", "1, 2, 3, 4, 5"} <= domains


def test_binary_rows_have_yes_no_criteria_alone():
    chance = random.Random(1)
    for number in range(40):
        rubric = to_rubric(json.loads(row_of(draw_ask(chance), number, only="binary")["rubric"]))
        assert not set(rubric.names) & set(JUDGED)
        assert {c.value_domain.kind for c in rubric.criteria} == {"binary"}


@pytest.mark.parametrize("missing", [0.0, 0.5])
def test_the_scripted_judge_is_asked_as_any_other(tmp_path, missing):
    judges = judges_of(tmp_path / "replies.sqlite", {"missing": missing})
    chance = random.Random(2)
    asks = [draw_ask(chance) for _ in range(10)]
    groups = [
        {
            "prompt": ask.prompt,
            "responses": [answer(ask, chance) for _ in range(8)],
            "rubric": json.loads(row["rubric"]),
        }
        for number, ask in enumerate(asks)
        for row in [row_of(ask, number)]
    ]
    table = rubrank.grade(groups, judges=rubrank.load_judges(judges))
    cells = [
        group.scores[i, group.names.index("Accuracy")]
        for group in table.groups
        for i in range(8)
        if group.scores[i, group.names.index("LabLanguage")] == 1.0
    ]
    lost = float(np.mean(np.isnan(cells)))
    assert lost == pytest.approx(missing, abs=0.2 if missing else 0.0)


def test_a_raw_sum_adds_scores_as_they_are():
    batch = rubrank.ScoreBatch.of_arrays([[10.0, 1.0], [20.0, 0.0]], weights=[1, 5])
    assert rubrank.find_rule("lab-raw-sum")(batch).reward.tolist() == [15.0, 20.0]
