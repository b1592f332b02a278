import asyncio

import numpy as np
from scripted import CRITERION, LOST, Scripted, group, judge, question, said

from rubrank.judges.judge import Judgment, Question
from rubrank.judges.kinds.scores import Batched
from rubrank.rubrics.rubric import Criterion

KIND = Criterion(name="Kind", question="Is it kind?", domain="ternary")
BOTH = (CRITERION, KIND)


def ask(about: Question, asker: Scripted, **given: object) -> Judgment:
    return asyncio.run(Batched().judge(about, judge(kind="batched", **given), asker))


def test_one_call_for_each_rollout() -> None:
    asker = Scripted(lambda shown: said({"Clear": int(shown == ["r0"]), "Kind": 0.5}))
    about = question(3, BOTH)
    judgment = ask(about, asker)
    assert sorted(asker.shown) == [["r0"], ["r1"], ["r2"]]
    assert Batched().calls(about, judge(kind="batched")) == 3
    assert [judgment.verdicts[i, "Clear"].value for i in range(3)] == [1, 0, 0]
    assert [judgment.verdicts[i, "Kind"].value for i in range(3)] == [0.5] * 3
    assert (judgment.asked, judgment.lost) == (6, 0)


def test_only_wanted_criteria_are_asked_of_each() -> None:
    asked: dict[str, str] = {}

    def script(shown: list[str]) -> object:
        return said({"Clear": 1, "Kind": 1})

    asker = Scripted(script)
    judgment = ask(question(3, BOTH, np.array([[True, False], [True, True], [False, False]])), asker)
    for call in asker.calls:
        text = "\n".join(message["content"] for message in call.messages)
        asked["r0" if "zq-r0" in text else "r1"] = text
    assert sorted(asked) == ["r0", "r1"]
    assert "Is it kind?" in asked["r1"]
    assert "Is it kind?" not in asked["r0"]
    assert set(judgment.verdicts) == {(0, "Clear"), (1, "Clear"), (1, "Kind")}


def test_same_answers_share_a_call_if_the_same_is_wanted() -> None:
    asker = Scripted(lambda shown: said({"Clear": 1, "Kind": 0}))
    about = question(group("a", "a", "a"), BOTH, np.array([[True, True], [True, True], [True, False]]))
    judgment = ask(about, asker)
    assert len(asker.calls) == Batched().calls(about, judge(kind="batched")) == 2
    assert judgment.asked == len(judgment.verdicts) == 5


def test_a_lost_call_is_missing_for_all_its_criteria() -> None:
    both = said({"Clear": 1, "Kind": 0})
    judgment = ask(question(2, BOTH), Scripted(lambda shown: LOST if shown == ["r0"] else both))
    assert [judgment.verdicts[0, name].reason for name in ("Clear", "Kind")] == ["timeout after 1 s"] * 2
    assert (judgment.asked, judgment.lost) == (4, 2)


def test_a_criterion_left_out_of_the_reply_is_missing_alone() -> None:
    judgment = ask(question(1, BOTH), Scripted(lambda shown: said({"Clear": 1})))
    assert judgment.verdicts[0, "Clear"].value == 1
    assert judgment.verdicts[0, "Kind"].value is None
    assert (judgment.asked, judgment.lost) == (2, 1)


def test_examples_of_the_criteria_at_hand_are_shown() -> None:
    example = {"prompt": "Hi", "response": "A model answer", "reasoning": "It is polite.", "verdict": 1}
    asker = Scripted(lambda shown: said({"Clear": 1}))
    ask(question(1), asker, examples={"Clear": (example,), "Kind": ({**example, "response": "Somebody else"},)})
    text = "\n".join(message["content"] for message in asker.calls[0].messages)
    assert "A model answer" in text
    assert "Somebody else" not in text
