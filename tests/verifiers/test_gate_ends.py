"""Answers that break off, change their language or turn into random letters; and answers that only look like that."""

from __future__ import annotations

import random

import pytest

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.verifier import find_verifier

STORY = (
    "The town lies at the foot of two hills. Its market opens early in the morning. "
    "People come from the villages around it and sell what they have grown. "
)
RECIT = (
    "Le village se trouve au pied de deux collines. Le marché ouvre tôt le matin. "
    "Les habitants viennent des environs et vendent ce qu'ils ont cultivé. "
)


def judge(name, response, prompt=""):
    verifier = find_verifier(name)
    return verifier.verify(Rollout(response=response, prompt=prompt), verifier.check_parameters({})).value


CUT = {
    "within a word": STORY + "In the evening everybody goes home, and the streets are qui",
    "after a preposition": STORY + "In the evening everybody goes home and walks through the",
    "entry among entries with full stops": "- Wash the rice.\n- Boil the water.\n- Add the rice and sti",
    "entry with a sentence before": "- Wash the rice. Then drain it.\n- Boil the water. Add a little salt and wait",
    "French": RECIT + "Le soir tout le monde rentre à la maison et les rues deviennent tranq",
    "Chinese": "小镇在两座山的脚下。市场每天很早就开门。人们从附近的村子来到这里，不仅可以卖自己种的菜，还可以和",
    "SQL that ends with a comment": "SELECT name FROM orders;\n\n-- Now the customers that have no ord",
    "a comment that announces code": "def area(a, b):\n    return a * b\n\nprint(area(2, 3))\n\n# Compute the perim",
    "an attribute": "import os\n\ndef list_files(folder):\n    for name in os.listdir(folder):\n        path = os.",
}
WHOLE = {
    "a signature": STORY + "\n\nKind regards,\nMary Smith\nHead of the Department",
    "hashtags": STORY + "\n\n#Market #Village #Morning",
    "initials": "K. P. S. Menon",
    "a date": "6. prosince 1990 (6. 12. 1990) v Japonsku",
    "verse": "The river runs below the hill\nThe evening light is soft and still\nA bird is singing in the tree",
    "entries without full stops": "- wash the rice\n- boil the water\n- add the rice\n- stir and serve",
    "names": "1. FlexiMax Performance\n2. PeakMod Integration\n3. UltraFlex Engine\n4. QuantumStream Pro",
    "keywords": STORY + "\n\nKeywords: market, village, morning",
    "a stage direction": STORY + "*smiles warmly*",
    "a number at the end": STORY + "There are no primes whose digits sum to 9.",
    "output of code": "def area(a, b):\n    return a * b\n\nprint(area(2, 3))\n\n# Output: 6",
    "SQL": "SELECT name, price\nFROM orders\nWHERE price > 10",
    "one word": "Paris",
}


@pytest.mark.parametrize("kind", CUT)
def test_an_answer_that_breaks_off(kind):
    assert judge("Truncated", CUT[kind]) == 0


@pytest.mark.parametrize("kind", WHOLE)
def test_an_answer_that_ends_without_a_full_stop(kind):
    assert judge("Truncated", WHOLE[kind]) != 0


def test_a_prompt_may_forbid_full_stops():
    text = STORY + "In the evening everybody goes home and walks through the old gate of"
    assert judge("Truncated", text, "Write a story, and leave out the punctuation of the last line.") != 0


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("Describe a town.", STORY * 2 + "\n\n" + RECIT * 2),
        ("Décris un village.", RECIT * 2 + "\n\n" + STORY * 2),
        ("介绍一个小镇。", "小镇在两座山的脚下。市场很早就开门。人们从附近的村子来到这里。" * 3 + "\n\n" + STORY * 3),
    ],
)
def test_a_change_of_language_half_way(prompt, text):
    assert judge("WrongLanguage", text, prompt) == 0


@pytest.mark.parametrize(
    ("prompt", "text"),
    [
        ("Describe a town in English, then translate it into French.", STORY * 2 + "\n\n" + RECIT * 2),
        ("Give me a bilingual text about a town.", STORY * 2 + "\n\n" + RECIT * 2),
        ("Explain this text:\n\n" + RECIT * 2, STORY * 2 + "\n\n" + RECIT),
        ("Describe a town.", STORY * 2 + "\n\nThe inn is called Auberge du Vieux Marché."),
    ],
)
def test_two_languages_that_the_prompt_explains(prompt, text):
    assert judge("WrongLanguage", text, prompt) != 0


@pytest.mark.parametrize("seed", range(3))
def test_random_letters_after_a_long_good_text(seed):
    rng = random.Random(seed)
    words = ["".join(rng.choices("abcdefghijklmnopqrstuvwxyz", k=rng.randrange(3, 10))) for _ in range(60)]
    assert judge("GarbledText", STORY * 8 + " ".join(words)) == 0
    assert judge("GarbledText", STORY * 8) == 1
