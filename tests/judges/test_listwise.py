import asyncio
import json

import numpy as np
import pytest
from scripted import CRITERION, LOST, Scripted, group, judge, names, question, said

from rubrank.judges.judge import Judgment, Question, Reply
from rubrank.judges.kinds.comparisons import Listwise
from rubrank.judges.parsing import read_listwise
from rubrank.rubrics.rubric import Criterion

NAN = np.nan


def ask(about: Question, asker: Scripted, **given: object) -> Judgment:
    return asyncio.run(Listwise().judge(about, judge(kind="listwise", **given), asker))


def calls(about: Question, **given: object) -> int:
    return Listwise().calls(about, judge(kind="listwise", **given))


def by_name(shown: list[str]) -> Reply:
    """r0 is best, then r1 …"""
    return said([sorted(shown).index(name) + 1 for name in shown])


def by_place(shown: list[str]) -> Reply:
    return said([place + 1 for place in range(len(shown))])


def test_one_call_ranks_the_whole_group() -> None:
    asker, about = Scripted(by_name), question(5)
    judgment = ask(about, asker)
    assert len(asker.calls) == calls(about) == 1
    assert sorted(asker.shown[0]) == names(5)
    i, j = np.indices((5, 5))
    expected = np.where(i < j, 1.0, np.where(i > j, 0.0, NAN))
    np.testing.assert_array_equal(judgment.outcomes["Clear"], expected)
    assert (judgment.asked, judgment.lost, judgment.missing) == (1, 0, {})
    assert "Clear" not in judgment.disagreement


def test_ties_share_a_rank() -> None:
    judgment = ask(question(3), Scripted(lambda shown: said([2 if name == "r0" else 1 for name in shown])))
    expected = [[NAN, 0.0, 0.0], [1.0, NAN, 0.5], [1.0, 0.5, NAN]]
    np.testing.assert_array_equal(judgment.outcomes["Clear"], expected)


def test_two_passes_cancel_and_report_what_is_owed_to_the_place() -> None:
    asker, about = Scripted(by_place), question(6)
    judgment = ask(about, asker, passes=2)
    first, second = asker.shown
    assert first == second[::-1]
    assert calls(about, passes=2) == judgment.asked == 2
    assert (judgment.outcomes["Clear"][~np.eye(6, dtype=bool)] == 0.5).all()
    assert judgment.first_wins["Clear"] == (30.0, 30)
    assert judgment.disagreement["Clear"] == 1.0


def test_outcome_is_the_mean_of_the_passes() -> None:
    worst = iter(["r0", "r1", "r1", "r1"])

    def script(shown: list[str]) -> Reply:
        last = next(worst)
        return said([2 if name == last else 1 for name in shown])

    judgment = ask(question(2), Scripted(script), passes=4)
    assert judgment.outcomes["Clear"][0, 1] == 0.75
    assert judgment.disagreement["Clear"] == 0.5  # three of the six pairs of passes


def test_lost_passes_are_left_out() -> None:
    replies = iter([LOST, said([1, 2]), LOST])
    judgment = ask(question(2), Scripted(lambda shown: next(replies)), passes=3)
    assert sorted(judgment.outcomes["Clear"][~np.eye(2, dtype=bool)]) == [0.0, 1.0]
    assert (judgment.asked, judgment.lost) == (3, 2)
    assert judgment.missing == {"Clear": ["timeout after 1 s"] * 2}
    assert judgment.first_wins["Clear"] == (1.0, 1)


def test_all_passes_lost() -> None:
    judgment = ask(question(3), Scripted(lambda shown: LOST), passes=2)
    assert np.isnan(judgment.outcomes["Clear"]).all()
    assert (judgment.asked, judgment.lost, judgment.first_wins) == (2, 2, {})


def test_order_belongs_to_seed_group_criterion_and_pass() -> None:
    def shown(id: str = "q", criterion: Criterion = CRITERION, **given: object) -> list[list[str]]:
        asker = Scripted(by_place)
        ask(question(group(*names(9), id=id), (criterion,)), asker, passes=3, **given)
        return asker.shown

    assert shown() == shown()
    first, _, third = shown()
    other = Criterion(name="Kind", question="Is it kind?")
    variants = [first, third, shown(id="p")[0], shown(criterion=other)[0], shown(seed=1)[0]]
    assert len({str(variant) for variant in variants}) == 5


def test_places_are_shuffled_evenly() -> None:
    first = []
    for i in range(300):
        asker = Scripted(by_place)
        ask(question(group(*names(4), id=f"q{i}")), asker)
        first.append(asker.shown[0][0])
    counts = [first.count(name) for name in names(4)]
    assert min(counts) > 50


def test_same_answers_are_shown_once_and_share_their_rank() -> None:
    asker, about = Scripted(by_name), question(group("b", "a", "b", "c"))
    judgment = ask(about, asker)
    assert sorted(asker.shown[0]) == ["a", "b", "c"]
    expected = [
        [NAN, 0.0, 0.5, 1.0],
        [1.0, NAN, 1.0, 1.0],
        [0.5, 0.0, NAN, 1.0],
        [0.0, 0.0, 0.0, NAN],
    ]
    np.testing.assert_array_equal(judgment.outcomes["Clear"], expected)
    assert judgment.first_wins["Clear"][1] == 3


def test_only_those_that_take_part_are_shown() -> None:
    kind = Criterion(name="Kind", question="Is it kind?")
    wanted = np.array([[True, False], [False, False], [True, True]])
    asker, about = Scripted(by_name), question(group(*names(3)), (CRITERION, kind), wanted)
    judgment = ask(about, asker)
    assert [sorted(shown) for shown in asker.shown] == [["r0", "r2"]]
    assert calls(about) == 1
    assert judgment.outcomes["Clear"][0, 2] == 1.0
    assert np.isnan(judgment.outcomes["Kind"]).all()


@pytest.mark.parametrize("answers", [("a",), ("a", "a", "a"), ()])
def test_nothing_to_rank_costs_nothing(answers: tuple[str, ...]) -> None:
    asker, about = Scripted(by_name), question(group(*answers))
    judgment = ask(about, asker, passes=3)
    assert asker.calls == []
    assert calls(about, passes=3) == judgment.asked == 0
    assert np.isfinite(judgment.outcomes["Clear"]).sum() == len(answers) * (len(answers) - 1)


def test_what_is_said_about_the_last_response_is_kept() -> None:
    text = " ".join(f"Response {i} {'is as good as one can be ' * 7}." for i in range(1, 9))
    ranks = {str(i): i for i in range(1, 9)}
    found, reason = read_listwise(Reply(json.dumps({"reasoning": text, "finding": [1], "verdict": ranks})), 8)
    assert found == (1, 2, 3, 4, 5, 6, 7, 8)
    assert "Response 8" in reason


def test_the_words_about_a_rollout_say_how_the_list_was_shown() -> None:
    judgment = ask(question(group("r0", "r1", "r2")), Scripted(by_name))
    words = judgment.words[1, "Clear"]
    assert words.startswith("of the whole list: rollouts ")
    assert " were shown as 1 to 3: " in words
