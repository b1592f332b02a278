"""Sentences that hold the truth in another form: endings, middle names, titles, dates, numbers in words, lists."""

from __future__ import annotations

import pytest

from rubrank import Rollout, find_verifier


def judge(question, truth, answer):
    verifier = find_verifier("GroundTruthMatch")
    rollout = Rollout.model_validate({"prompt": question, "response": answer})
    return verifier.verify(rollout, verifier.check_parameters({"truth": truth})).value


@pytest.mark.parametrize(
    ("question", "truth", "answer"),
    [
        ("Kde se konal první kongres této společnosti?", "Paříž", "První kongres se konal v Paříži."),
        ("Kdy byla kniha vydána poprvé?", "Únor 2013.", "Poprvé byla vydána v únoru 2013."),
        ("Kolik dětí měl slavný malíř?", "4", "Slavný malíř měl čtyři děti."),
        ("Who sang at the opening of the games?", "Aida Emilevna Garifullina", "Aida Garifullina sang there."),
        ("Which president gave her the medal?", "President Obama", "She received it from Barack Obama in 2011."),
        ("When did it take place?", "June 5, 1944", "It took place on 5 June 1944 in the north."),
        ("When was it heard?", "April 2nd, 2024.", "It was heard on April 2, 2024 by the committee."),
        ("How many languages are there?", "7000", "About 7 000 languages are spoken there today."),
        (
            "Which lenders offer it?",
            "Beforepay, Wagepay and Wagetap",
            "It is offered by Wagetap, Wagepay and Beforepay.",
        ),
        ("How many days did it last?", "15", "The show lasted 15 days, from 13 to 28 July."),
        ("In which month of 1993 was it launched?", "October", "The probe was launched in October 1993."),
        ("How much energy, in TeV, did it reach in 2010?", "3.5", "In 2010 it reached 3.5 TeV."),
        ("Ve kterém kole vypadla na French Open 2020?", "Čtvrtfinále", "Vypadla ve čtvrtfinále French Open 2020."),
    ],
)
def test_other_forms(question, truth, answer):
    assert judge(question, truth, answer) == 1


@pytest.mark.parametrize(
    ("question", "truth", "answer"),
    [
        ("Kdy byla výstava otevřena?", "červenec 1916", "Výstava byla otevřena v červnu 1916."),
        ("Kolik let byl slavný herec ženatý?", "Jedenáct", "Slavný herec byl ženatý přibližně jeden rok."),
        (
            "What is the full name of the singer?",
            "Henry Franklin Smith",
            "Her full name is said with Henry Smith in mind.",
        ),
        (
            "Which lenders offer it?",
            "Beforepay and Wagepay",
            "It is offered by Wagetap, Wagepay, Cashly and Beforepay.",
        ),
        ("When did it take place?", "June 5, 1944", "It took place on 6 June 1944 in the north."),
        ("Which president gave her the medal?", "President Obama", "She received it from Donald Trump in 2011."),
    ],
)
def test_other_answers(question, truth, answer):
    assert judge(question, truth, answer) == 0


@pytest.mark.parametrize(
    ("question", "truth", "answer"),
    [
        ("Who is the grandfather of Nobita Nobi?", "Nobiru Nobi", "The grandfather of Nobita Nobi is Nobita Nobi."),
        ("In which year was the office created?", "1952", "It was created in 1949, then dissolved in 1952."),
        ("Which actress lived in Paris?", "Paris", "It was Paris Hilton."),
    ],
)
def test_another_number_or_a_longer_name_is_no_claim(question, truth, answer):
    assert judge(question, truth, answer) == 0


def test_an_answer_that_breaks_off_with_an_article_after_the_truth():
    assert judge("What did the boy see?", "dragon", "The boy saw the dragon The.") == 1
