"""Truncated: structures that stay open, and sentences that break off."""

from __future__ import annotations

import pytest

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.shared.code_blocks import (
    find_half_name,
    find_unclosed_code,
    find_unclosed_formula,
    find_unclosed_markup,
    find_unclosed_sql,
    take_code,
)
from rubrank.verifiers.verifier import find_verifier


def judge(response, prompt="Tell me.", **fields):
    verifier = find_verifier("Truncated")
    return verifier.verify(Rollout(response=response, prompt=prompt, **fields), verifier.check_parameters({})).value


C_CODE = '#include <stdio.h>\nint main() {\n    int x = 1;\n    printf("%d", x);\n    return 0;\n}'
PYTHON = "import os\n\ndef count(folder):\n    names = os.listdir(folder)\n    return len(names)\n\nprint(count('.'))"
PAGE = "<html>\n<body>\n<div>\n<p>One\n<img src='x'>\n</div>\n</body>\n</html>"
SQL = "SELECT name, price\nFROM goods WHERE name IN ('a', 'b', 'c', 'd', 'e');"


@pytest.mark.parametrize("whole", [C_CODE, PYTHON, PAGE, SQL])
def test_whole_code_ends_and_cut_code_does_not(whole):
    assert judge(whole) == 1
    assert judge(whole[: len(whole) * 2 // 3]) == 0


def test_brackets_inside_strings_and_comments_do_not_count():
    assert find_unclosed_code('a = "("  # (\nb = [1]  // {') is None
    assert find_unclosed_code("x = f(1,") == "'(' never closes"
    assert find_unclosed_code("/* open") == "'*/' never comes"


def test_half_a_name_is_one_that_was_longer_before():
    code = "total_price = 3\nfor item in items:\n    total_price += item\nif total_price > 3:\n    print(total_pr"
    assert find_half_name(code) == "half a name at the end: 'total_pr', 'total_price' before"
    assert find_half_name(code + "ice)") is None


def test_prose_is_not_code():
    assert take_code("First we go home.\nThen we eat.\nThen we sleep.\nIt was fine.") == ""
    assert take_code(C_CODE) == C_CODE


def test_elements_that_need_no_end():
    assert find_unclosed_markup("<ul><li>One<li>Two</ul>") is None
    assert find_unclosed_markup("<ul><li>One<li>Two") == "<ul> never closes"
    assert find_unclosed_markup("<div><p>x</p></div><spa") == "a tag breaks off: '<spa'"


@pytest.mark.parametrize(
    ("text", "is_open"),
    [
        (r"So \[ x = 1 \] and \( y \).", False),
        (r"So \[ x = \frac{1}{", True),
        (r"It costs $5 or $6 today.", False),
        (r"We have $x = \frac{1", True),
        (r"\begin{align} x &= 1 \\ y &= 2", True),
        (r"\begin{align} x &= 1 \end{align}", False),
    ],
)
def test_formulas(text, is_open):
    assert (find_unclosed_formula(text) is not None) == is_open


def test_sql_is_not_prose_that_begins_with_with():
    assert find_unclosed_sql("With competence in many fields you can work anywhere.") is None
    assert find_unclosed_sql("SELECT a FROM b WHERE") is not None


PARAGRAPH = "The town has a long history. Its market is known far beyond the valley.\n\n"


@pytest.mark.parametrize(
    "end",
    [
        "The council wants to protect the environm",
        "The main reasons for the change are as follows:",
        "Many people came to the",
        "The mayor, who was elected last year,",
    ],
)
def test_a_sentence_that_breaks_off(end):
    assert judge(PARAGRAPH * 2 + end) == 0


@pytest.mark.parametrize(
    "end", ["Best regards,\nAnna Smith", "Date: ______", "Please enter your choice:", "#Town #Market"]
)
def test_ends_that_are_no_sentences(end):
    assert judge(PARAGRAPH * 2 + end) == 1


def test_a_whole_sentence_without_its_full_stop_is_not_sure():
    assert judge(PARAGRAPH * 2 + "You can visit it every morning before the bus leaves") is None


def test_words_that_the_prompt_asks_for_may_stand_last():
    end = "I hope that all of this will help you with the"
    assert judge(PARAGRAPH * 2 + end) == 0
    assert judge(PARAGRAPH * 2 + end, f"Describe the town. End with: {end}") == 1


@pytest.mark.parametrize(
    "end",
    [
        "Der Strom fließt durch den Leiter, wo er",
        "El agua pasa por una serie de filtros y llega a",
        "Вода проходит через фильтр и попадает в",
        "L'acqua scorre attraverso una valle e arriva nella",
    ],
)
def test_words_that_no_sentence_of_other_languages_ends_with(end):
    beginnings = {
        "D": "Die Stadt hat eine lange Geschichte. Der Markt ist weit bekannt. ",
        "E": "La ciudad tiene una larga historia. El mercado es muy conocido. ",
        "В": "Город имеет долгую историю. Рынок известен далеко за его пределами. ",
        "L": "La città ha una lunga storia. Il mercato è molto conosciuto. ",
    }
    assert judge(beginnings[end[0]] + end) == 0


def test_a_letter_may_break_off_below_its_salutation():
    letter = "Dear Ms Hall,\n\nThe parcel has not come. It was a present. Therefore I would like to ask you to"
    assert judge(letter) == 0
    assert judge("It was a pleasure to meet you. I will write soon.\n\nBest wishes,\nthe whole team of Hall") == 1
