import asyncio
import math
from random import Random
from typing import Any

import numpy as np
import pytest
from cases import examples
from hypothesis import given
from hypothesis import strategies as st
from scripted import LOST, Scripted, group, judge, question, said

from rubrank.judges import COMPARES, count_calls, judge_question
from rubrank.judges.kinds.comparisons import average_outcomes, list_distinct_rollouts, measure_disagreement

ANSWERS = st.lists(st.sampled_from("abcdef"), max_size=8)


@given(ANSWERS, st.sampled_from(sorted(COMPARES)), st.integers(1, 3), st.integers(1, 30), st.booleans(), st.randoms())
@examples(60)
def test_whatever_is_answered_a_matrix_fits_itself(
    answers: list[str], kind: Any, times: int, budget: int, both_orders: bool, random: Random
) -> None:
    def script(shown: list[str]) -> Any:
        if random.random() < 0.3:
            return LOST
        return random.choice(["A", "B", "tie"]) if kind == "pairwise" else ranks(shown, random)

    settings = {"passes": times} if kind == "listwise" else {"pairs": budget, "both_orders": both_orders}
    who = judge(kind=kind, samples=times, **settings)
    takes_part = np.array([random.random() < 0.8 for _ in answers], dtype=bool)
    asker, about = Scripted(script), question(group(*answers), wanted=takes_part[:, None])
    judgment = asyncio.run(judge_question(about, who, lambda _: asker))
    outcomes = judgment.outcomes["Clear"]
    seen = ~np.isnan(outcomes)

    assert len(asker.calls) == count_calls(about, who)
    assert 0 <= judgment.lost <= judgment.asked <= len(asker.calls)
    assert not seen.diagonal().any()
    assert not seen[~takes_part].any()
    np.testing.assert_allclose((outcomes + outcomes.T)[seen], 1.0)
    assert ((outcomes[seen] >= 0.0) & (outcomes[seen] <= 1.0)).all()
    for i, j in zip(*np.nonzero(np.outer(takes_part, takes_part)), strict=True):
        if i != j and answers[i] == answers[j]:
            assert outcomes[i, j] == 0.5
            others = [k for k in range(len(answers)) if answers[k] != answers[i]]
            np.testing.assert_array_equal(outcomes[i, others], outcomes[j, others])


def ranks(shown: list[str], random: Random) -> Any:
    drawn = [random.randint(1, 3) for _ in shown]
    return said([sorted(set(drawn)).index(rank) + 1 for rank in drawn])


def test_contestants_are_the_first_of_each_answer_that_take_part() -> None:
    wanted = np.array([[False], [True], [True], [True], [False]])
    assert list_distinct_rollouts(question(group("a", "b", "a", "a", "c"), wanted=wanted), 0) == [1, 2]


def test_mean_of_what_was_seen() -> None:
    seen = np.array([[1.0, np.nan, 0.5], [0.0, np.nan, np.nan]])
    np.testing.assert_array_equal(average_outcomes(seen), [0.5, np.nan, 0.5])


def test_measure_disagreement() -> None:
    assert measure_disagreement(np.array([[1.0, 0.5], [0.0, 0.5]])) == 0.5
    assert measure_disagreement([np.array([1.0]), np.array([0.5]), np.array([0.0])]) == pytest.approx(
        (0.5 + 1.0 + 0.5) / 3
    )
    assert math.isnan(measure_disagreement(np.array([[1.0, np.nan], [np.nan, 0.5]])))
    assert math.isnan(measure_disagreement([np.array([1.0])]))
    assert math.isnan(measure_disagreement([]))
