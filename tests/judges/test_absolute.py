import asyncio
import math

import numpy as np
import pytest
from scripted import CRITERION, LOST, Scripted, group, judge, question, said

from rubrank.judges.judge import Judgment, Question, Reply
from rubrank.judges.kinds.scores import Absolute
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.verifier import Verdict


def ask(about: Question, asker: Scripted, **given: object) -> Judgment:
    return asyncio.run(Absolute().judge(about, judge(kind="absolute", **given), asker))


def test_one_call_for_each_cell() -> None:
    kind = Criterion(name="Kind", question="Is it kind?")
    asker = Scripted(lambda shown: said(1 if shown == ["r1"] else 0, f"about {shown[0]}"))
    about = question(3, (CRITERION, kind))
    judgment = ask(about, asker)
    assert len(asker.calls) == Absolute().calls(about, judge()) == 6
    assert {cell: verdict.value for cell, verdict in judgment.verdicts.items()} == {
        (i, name): float(i == 1) for i in range(3) for name in ("Clear", "Kind")
    }
    assert "about r1" in judgment.verdicts[1, "Kind"].reason
    assert (judgment.asked, judgment.lost, judgment.outcomes) == (6, 0, {})


def test_only_wanted_cells_are_asked() -> None:
    asker = Scripted(lambda shown: said(1))
    judgment = ask(question(3, wanted=np.array([[False], [True], [False]])), asker)
    assert asker.shown == [["r1"]]
    assert list(judgment.verdicts) == [(1, "Clear")]


def test_same_answers_are_asked_once_and_share_the_verdict() -> None:
    asker = Scripted(lambda shown: said(int(shown == ["a"])))
    about = question(group("a", "b", "a", "b", "a"))
    judgment = ask(about, asker)
    assert sorted(asker.shown) == [["a"], ["b"]]
    assert Absolute().calls(about, judge()) == 2
    assert [judgment.verdicts[i, "Clear"].value for i in range(5)] == [1, 0, 1, 0, 1]
    assert judgment.asked == 5


def test_a_lost_answer_is_missing_with_its_reason() -> None:
    asker = Scripted(lambda shown: LOST if shown == ["a"] else said(0))
    judgment = ask(question(group("a", "b", "a")), asker)
    assert judgment.verdicts[0, "Clear"] == Verdict(None, "timeout after 1 s")
    assert judgment.verdicts[1, "Clear"].value == 0
    assert (judgment.asked, judgment.lost) == (3, 2)


def test_examples_are_shown() -> None:
    example = {"prompt": "Hi", "response": "A model answer", "reasoning": "It is polite.", "verdict": 1}
    asker = Scripted(lambda shown: said(1))
    ask(question(1), asker, examples={"Clear": (example,), "Other": ({**example, "response": "Somebody else"},)})
    text = "\n".join(message["content"] for message in asker.calls[0].messages)
    assert "A model answer" in text
    assert "Somebody else" not in text


def test_expected_weighs_values_by_their_probability() -> None:
    asker = Scripted(lambda shown: weighed())
    verdict = ask(question(1), asker, expected=True).verdicts[0, "Clear"]
    assert asker.calls[0].logprobs
    assert verdict.value == pytest.approx(0.8, abs=1e-6)


def test_expected_is_missing_without_probabilities() -> None:
    judgment = ask(question(1), Scripted(lambda shown: said(1)), expected=True)
    assert judgment.verdicts[0, "Clear"].value is None
    assert judgment.lost == 1


def weighed() -> Reply:
    """Says 1 with probability 0.8."""
    reply = said(1)
    assert reply.text is not None
    before, _, after = reply.text.rpartition("1")
    tokens = [{"token": part, "logprob": 0.0, "top": {part: 0.0}} for part in (before, after)]
    verdict = {"token": "1", "logprob": math.log(0.8), "top": {"1": math.log(0.8), "0": math.log(0.2)}}
    return Reply(reply.text, logprobs=(tokens[0], verdict, tokens[1]))
