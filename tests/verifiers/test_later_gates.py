"""Broken answers that outsiders found, and look-alikes that must pass: leaks, emptiness, stray words, loops of code."""

from __future__ import annotations

import pytest

from rubrank import Rollout, find_verifier


def judge(name, response, prompt):
    gate = find_verifier(name)
    return gate.verify(Rollout(response=response, prompt=prompt), gate.check_parameters({})).value


@pytest.mark.parametrize(
    ("prompt", "response"),
    [
        ("Quelle est la capitale du Pérou ?", "L'utilisateur demande la capitale du Pérou. C'est Lima.\n\nC'est Lima."),
        ("Who wrote Emma?", "The question is asking who wrote Emma. My response should be brief.\n\nJane Austen."),
        ("Name a river.", "Human wants the name of a river. I'll give a big one. Let me keep it short.\n\nThe Nile."),
        ("What is 3 times 4?", "It is 12.\n\nQuestion: What is 5 times 4?\nAnswer: It is 20."),
    ],
)
def test_leaks(prompt, response):
    assert judge("ThinkLeak", response, prompt) == 0


@pytest.mark.parametrize(
    ("prompt", "response"),
    [
        ("Answer these questions about the table.", "I'll answer each question with the data given.\n\n1. It is 4."),
        ("Write a quiz.", "Here it is.\n\nQuestion: What is 5 times 4?\nAnswer: 20."),
        (
            "Write an inner monologue of a chef.",
            "Okay, so I need to think. The sauce must be thick. That works.\n\nGood.",
        ),
        ("Réponds à ces questions.", "Je vais répondre à chaque question du texte.\n\n1. Lima."),
    ],
)
def test_no_leaks(prompt, response):
    assert judge("ThinkLeak", response, prompt) == 1


@pytest.mark.parametrize(
    ("prompt", "response", "value"),
    [
        ("Who was Nero?", "{}", 0),
        ("What is RNA?", "null", 0),
        ("What is RNA?", "None", 0),
        ("What are quasars?", "Great question!", 0),
        ("What does f([]) return?", "[]", 1),
        ("Which of them are prime? Answer with a JSON list.", "[]", 1),
        ("What are the side effects of water?", "None", None),
        ("Can you help me?", "Sure!", None),
        ("Which punctuation mark ends a question?", "?", 1),
    ],
)
def test_emptiness(prompt, response, value):
    assert judge("EmptyAnswer", response, prompt) == value


@pytest.mark.parametrize(
    ("sentence", "value"),
    [
        ("The dough should rest until it has 翻倍, and then it is baked for an hour.", 0),
        ("During the talk, 保持 eye contact and speak slowly to the people.", 0),
        ("Die Bürger wählen in freien und 公平 Wahlen ihre Vertreter im Parlament.", 0),
        (
            "The larger the mass, the stronger the притяжение, and the farther away, the weaker it is, it is said.",
            0,
        ),
        ("The art is called 功夫, and it takes many years of patience to learn it well.", 1),
        ("The novel was written by 村上春树, and it has been read all over the world.", 1),
    ],
)
def test_stray_words(sentence, value):
    prompt = "Was ist das?" if sentence.startswith("Die") else "Explain it."
    assert judge("WrongLanguage", sentence, prompt) == value


def test_code_that_repeats_one_line():
    assert judge("RepeatSegment", "```python\n" + "x = x + 1\n" * 60 + "```", "Write code.") == 0
    assert (
        judge("RepeatSegment", "```python\n" + "".join(f"a{n} = {n}\n" for n in range(12)) + "```", "Write code.") == 1
    )
