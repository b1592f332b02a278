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


MOUNTAIN = "제주도에서 가장 높은 산은 무엇입니까?"
WORK = "彼が最初に見た作品は何ですか。"
PRODUCT = "乔布斯发明了什么?"


@pytest.mark.parametrize(
    ("question", "truth", "answer"),
    [
        (WORK, "ガンダム", "彼が最初に見たのはガンダムという作品でした。"),
        (WORK, "ふじさん", "彼が最初に見たのはふじさんという作品でした。"),
        (MOUNTAIN, "한라산", "제주도에서 가장 높은 산으로 알려진 한라산이 유명합니다."),
        (MOUNTAIN, "한라 산맥", "제주도에서 가장 높은 산으로 알려진 한라 산맥의 봉우리가 유명합니다."),
        (PRODUCT, "iPhone手机", "乔布斯发明了iPhone手机并改变了世界。"),
        (PRODUCT, "iPhone手机", "乔布斯发明了 iPhone 手机并改变了世界。"),
    ],
)
def test_scripts_without_spaces(question, truth, answer):
    assert judge(question, truth, answer) == 1


@pytest.mark.parametrize(
    ("question", "truth", "answer"),
    [
        (WORK, "カンタム", "彼が最初に見たのはガンダムという作品でした。"),
        ("그는 어디에서 공부했습니까?", "서울", "그는 오랫동안 유명한 서울대학교에서 공부했습니다."),
        (PRODUCT, "Phone手机", "乔布斯发明了iPhone手机并改变了世界。"),
        ("他几岁去世?", "25岁", "他在1990年去世的时候125岁了。"),
    ],
)
def test_parts_of_other_words_in_scripts_without_spaces(question, truth, answer):
    assert judge(question, truth, answer) == 0
