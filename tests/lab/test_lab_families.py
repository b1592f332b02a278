"""The two task families: what an answer is worth, what programs and judges say about it."""

from __future__ import annotations

import random

import pytest
from rubrank_lab import facts, kitchen
from rubrank_lab.family import Answer
from rubrank_lab.trainer import make_rows

FAMILIES = (facts.FACTS, kitchen.KITCHEN)
RIGHT_VERB = facts.TOPICS["bees"]


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_texts_survive_the_tokenizer(family):
    draws = random.Random(5)
    for _ in range(200):
        task = family.draw_task(draws)
        for text in (task.prompt, family.write_answer(task, draws)):
            assert family.decode(family.encode(text)) == text


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_every_criterion_of_a_rubric_gets_a_score_in_its_domain(family):
    draws = random.Random(6)
    for row in make_rows(family)[1]:
        answer = Answer(family.write_answer(row.task, draws), is_truncated=False, step=40)
        scores = family.score(row.task, answer)
        for criterion in row.criteria:
            assert criterion.domain.holds(scores[criterion.name]), criterion.name
        assert 0.0 <= family.assess(row.task, answer)["quality"] <= 1.0


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_training_and_held_out_tasks_are_different(family):
    trained, held_out = make_rows(family)
    assert not {row.task.prompt for row in trained} & {row.task.prompt for row in held_out}


def test_quality_of_facts_worked_out_by_hand():
    task = facts.Task("bees", facts=2, mention=("honey",), short=True)
    right = f"bees {RIGHT_VERB['honey']} honey. bees {RIGHT_VERB['wax']} wax."
    perfect = facts.assess(task, Answer(f"<think>need honey wax</think>\n{right}", False, 0))
    assert (perfect["quality"], perfect["thinking"], perfect["words"]) == (1.0, 3.0, 6.0)
    wrong_verb = next(verb for verb in facts.VERBS if verb != RIGHT_VERB["wax"])
    half = f"bees {RIGHT_VERB['honey']} honey. bees {wrong_verb} wax."
    # One of two sentences is right: precision and recall are ½, and all three wishes are met.
    assert facts.assess(task, Answer(f"<think></think>\n{half}", False, 0))["quality"] == pytest.approx(0.5**0.5)
    assert facts.assess(task, Answer(f"<think></think>\n{right}", True, 0))["quality"] == 0.0


def test_the_judge_of_facts_likes_length_and_markdown():
    task = facts.Task("bees", facts=1)
    body = f"bees {RIGHT_VERB['honey']} honey."
    wrong = f"bees {next(verb for verb in facts.VERBS if verb != RIGHT_VERB['honey'])} honey."

    def mean_accuracy(thought: str, text: str) -> float:
        variants = [f"<think>{thought}{' hmm' * extra}</think>\n{text}" for extra in range(30)]
        likes = facts.JUDGE_LIKES["Accuracy"]
        return sum(facts.judge("Accuracy", task, variant, likes) for variant in variants) / len(variants)

    assert mean_accuracy("so", body) > mean_accuracy("so", wrong)
    assert mean_accuracy("so" + " wait" * 30, wrong) > mean_accuracy("so", wrong)
    assert mean_accuracy("so", wrong + "\n- \n- \n- \n- \n- \n- ") > mean_accuracy("so", wrong)


def test_quality_of_a_recipe_worked_out_by_hand():
    task = kitchen.Task("soup", guests=2, items=2, tip=True)
    (leek_action, leek), (rice_action, rice) = (kitchen.DISHES["soup"][item] for item in ("leek", "rice"))
    perfect = f"{leek_action} {2 * leek} leek. {rice_action} {2 * rice} rice. {kitchen.TIP}"
    assert kitchen.assess(task, Answer(f"<think></think>\n{perfect}", False, 0))["quality"] == pytest.approx(1.0)
    other = next(action for action in kitchen.ACTIONS if action != rice_action)
    flawed = f"{leek_action} {4 * leek} leek. {other} {2 * rice} rice."
    # Items 1; amounts (0 + 1)/2; method ½ → 0.2 + 0.4; wishes (count met, no tip) ½.
    quality = kitchen.assess(task, Answer(f"<think></think>\n{flawed}", False, 0))["quality"]
    assert quality == pytest.approx((1.0 * 0.5 * 0.6 * 0.5) ** 0.25)


def test_the_judge_of_the_kitchen_is_compressed_and_drifts():
    draws = random.Random(7)
    for _ in range(200):
        task = kitchen.draw_task(draws)
        text = kitchen.write_answer(task, draws)
        early = kitchen.judge("Method", task, Answer(text, False, 0))
        late = kitchen.judge("Method", task, Answer(text, False, 64))
        assert 5.0 <= early <= 9.0
        assert late - early == pytest.approx(1.0)


def test_thinking_helps_in_the_kitchen_up_to_a_point():
    draws = random.Random(8)
    quality: dict[bool, list[float]] = {False: [], True: []}
    for _ in range(2000):
        task = kitchen.draw_task(draws)
        text = kitchen.write_answer(task, draws)
        reading = kitchen.read_answer(task, text)
        if reading.steps:
            has_planned = text.count(" is ") >= reading.steps
            quality[has_planned].append(kitchen.assess(task, Answer(text, False, 0))["quality"])
    assert sum(quality[True]) / len(quality[True]) > sum(quality[False]) / len(quality[False]) + 0.1
