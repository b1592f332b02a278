import asyncio
import itertools

import numpy as np
import pytest
from cases import examples
from hypothesis import given
from hypothesis import strategies as st
from scripted import CRITERION, LOST, Scripted, group, judge, names, question, said

from rubrank.judges.judge import Judgment, Question, Reply
from rubrank.judges.kinds.comparisons import Pairwise
from rubrank.rubrics.rubric import Criterion

NAN = np.nan


def ask(about: Question, asker: Scripted, **given: object) -> Judgment:
    return asyncio.run(Pairwise().judge(about, judge(kind="pairwise", **given), asker))


def calls(about: Question, **given: object) -> int:
    return Pairwise().calls(about, judge(kind="pairwise", **given))


def better(shown: list[str]) -> Reply:
    """r0 is best, then r1 …"""
    return said("A" if shown[0] < shown[1] else "B")


def test_both_orders_of_all_pairs() -> None:
    asker, about = Scripted(better), question(4)
    judgment = ask(about, asker)
    assert sorted(asker.shown) == sorted(map(list, itertools.permutations(names(4), 2)))
    assert len(asker.calls) == calls(about) == 12
    i, j = np.indices((4, 4))
    expected = np.where(i < j, 1.0, np.where(i > j, 0.0, NAN))
    np.testing.assert_array_equal(judgment.outcomes["Clear"], expected)
    assert (judgment.asked, judgment.lost, judgment.missing, judgment.verdicts) == (6, 0, {}, {})
    assert judgment.first_wins["Clear"] == (6.0, 12)
    assert judgment.disagreement["Clear"] == 0.0


def test_a_judge_that_always_says_first_is_cancelled_and_reported() -> None:
    judgment = ask(question(3), Scripted(lambda shown: said("A")))
    off = ~np.eye(3, dtype=bool)
    assert (judgment.outcomes["Clear"][off] == 0.5).all()
    assert judgment.first_wins["Clear"] == (6.0, 6)
    assert judgment.disagreement["Clear"] == 1.0


def test_a_tie_against_a_win_counts_half() -> None:
    judgment = ask(question(2), Scripted(lambda shown: said("A" if shown == ["r0", "r1"] else "tie")))
    assert judgment.outcomes["Clear"][0, 1] == 0.75
    assert judgment.outcomes["Clear"][1, 0] == 0.25
    assert judgment.disagreement["Clear"] == 0.5
    assert judgment.first_wins["Clear"] == (1.5, 2)


def test_ties() -> None:
    judgment = ask(question(2), Scripted(lambda shown: said("tie")))
    assert judgment.outcomes["Clear"][0, 1] == judgment.outcomes["Clear"][1, 0] == 0.5
    assert judgment.disagreement["Clear"] == 0.0


def test_one_lost_order_leaves_the_other() -> None:
    judgment = ask(question(2), Scripted(lambda shown: LOST if shown[0] == "r0" else said("A")))
    assert judgment.outcomes["Clear"][1, 0] == 1.0
    assert (judgment.asked, judgment.lost, judgment.missing) == (1, 0, {})
    assert "Clear" not in judgment.disagreement
    assert judgment.first_wins["Clear"] == (1.0, 1)


def test_a_pair_lost_in_both_orders_is_not_compared() -> None:
    def script(shown: list[str]) -> Reply:
        if set(shown) == {"r0", "r1"}:
            return LOST if shown[0] == "r0" else Reply(None, "refused: no")
        return better(shown)

    judgment = ask(question(3), Scripted(script))
    assert np.isnan(judgment.outcomes["Clear"][0, 1])
    assert np.isnan(judgment.outcomes["Clear"][1, 0])
    assert judgment.outcomes["Clear"][0, 2] == judgment.outcomes["Clear"][1, 2] == 1.0
    assert (judgment.asked, judgment.lost) == (3, 1)
    assert judgment.missing == {"Clear": ["timeout after 1 s; refused: no"]}


def test_everything_lost() -> None:
    judgment = ask(question(3), Scripted(lambda shown: LOST))
    assert np.isnan(judgment.outcomes["Clear"]).all()
    assert (judgment.asked, judgment.lost) == (3, 3)
    assert judgment.missing == {"Clear": ["timeout after 1 s"] * 3}
    assert judgment.first_wins == {}


@given(st.integers(2, 12), st.integers(1, 70), st.booleans(), st.integers(0, 99))
@examples(25)
def test_budget_is_kept(size: int, budget: int, both_orders: bool, seed: int) -> None:
    given = {"pairs": budget, "both_orders": both_orders, "seed": seed}
    asker, about = Scripted(better), question(size)
    judgment = ask(about, asker, **given)
    compared = min(budget, size * (size - 1) // 2)
    assert len(asker.calls) == calls(about, **given) == compared * (1 + both_orders)
    assert judgment.asked == len({frozenset(shown) for shown in asker.shown}) == compared
    assert np.isfinite(judgment.outcomes["Clear"]).sum() == 2 * compared


def test_one_order_is_drawn_for_each_pair() -> None:
    asker = Scripted(better)
    ask(question(12), asker, both_orders=False)
    forward = sum(int(first[1:]) < int(second[1:]) for first, second in asker.shown)
    assert len(asker.calls) == 66
    assert 15 < forward < 51


def test_design_belongs_to_seed_group_and_criterion() -> None:
    def designed(id: str = "q", criterion: Criterion = CRITERION, **given: object) -> list[list[str]]:
        asker = Scripted(better)
        ask(question(group(*names(9), id=id), (criterion,)), asker, pairs=12, both_orders=False, **given)
        return sorted(asker.shown)

    other = Criterion(name="Kind", question="Is it kind?")
    assert designed() == designed()
    variants = [designed(), designed(id="p"), designed(criterion=other), designed(seed=1)]
    assert len({str(variant) for variant in variants}) == 4


def test_each_criterion_has_its_own_pairs_and_outcomes() -> None:
    kind = Criterion(name="Kind", question="Is it kind?")
    wanted = np.array([[True, True], [True, True], [True, False]])
    asker, about = Scripted(better), question(group(*names(3)), (CRITERION, kind), wanted)
    judgment = ask(about, asker)
    assert len(asker.calls) == calls(about) == 8
    assert np.isfinite(judgment.outcomes["Kind"]).sum() == 2
    assert judgment.outcomes["Kind"][0, 1] == 1.0


def test_same_answers_tie_without_a_call_and_share_what_is_observed() -> None:
    asker, about = Scripted(better), question(group("b", "a", "b"))
    judgment = ask(about, asker)
    assert sorted(asker.shown) == [["a", "b"], ["b", "a"]]
    assert calls(about) == 2
    expected = [[NAN, 0.0, 0.5], [1.0, NAN, 1.0], [0.5, 0.0, NAN]]
    np.testing.assert_array_equal(judgment.outcomes["Clear"], expected)
    assert judgment.asked == 1


def test_same_answer_of_a_rollout_that_takes_no_part() -> None:
    wanted = np.array([[False], [True], [True]])
    asker = Scripted(better)
    judgment = ask(question(group("b", "a", "b"), wanted=wanted), asker)
    expected = [[NAN, NAN, NAN], [NAN, NAN, 1.0], [NAN, 0.0, NAN]]
    np.testing.assert_array_equal(judgment.outcomes["Clear"], expected)


@pytest.mark.parametrize("answers", [("a",), ("a", "a", "a"), ()])
def test_nothing_to_compare_costs_nothing(answers: tuple[str, ...]) -> None:
    asker, about = Scripted(better), question(group(*answers))
    judgment = ask(about, asker)
    assert asker.calls == []
    assert calls(about) == judgment.asked == judgment.lost == 0
    assert judgment.outcomes["Clear"].shape == (len(answers), len(answers))
    assert np.isfinite(judgment.outcomes["Clear"]).sum() == len(answers) * (len(answers) - 1)
