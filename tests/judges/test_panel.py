import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from cases import folded
from scripted import CRITERION, LOST, Scripted, group, judge, question, said

from rubrank.errors import InvalidInput
from rubrank.judges import count_calls, judge_question
from rubrank.judges.judge import Asker, Judge, Judgment, Question, load_judges
from rubrank.judges.kinds.panel import combine_verdicts
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.verifier import Verdict, missing

QUARTERS = Criterion(name="Clear", question="How clear?", domain=(0, 0.25, 0.5, 0.75, 1))
DEFECT = Criterion(name="Clear", question="Is it broken?", direction="lower")


def panel(count: int, **given: Any) -> Judge:
    kind = given.setdefault("kind", "absolute")
    return judge(members=tuple(judge(name=f"m{i}", kind=kind) for i in range(count)), **given)


def ask(about: Question, who: Judge, *scripts: Callable[..., Any]) -> tuple[Judgment, list[Scripted]]:
    """Each member answers by its own script; without members, the judge by the first."""
    askers = [Scripted(script) for script in scripts]

    def asker_of(member: Judge) -> Asker:
        return askers[who.members.index(member)] if who.members else askers[0]

    return asyncio.run(judge_question(about, who, asker_of)), askers


def values(*given: float | None, criterion: Criterion = CRITERION, combine: Any = "majority") -> Verdict:
    verdicts = [missing("timeout after 1 s") if v is None else Verdict(v, f"because {v:g}") for v in given]
    return combine_verdicts(verdicts, criterion, combine)


@folded(
    ("given", "criterion", "expected"),
    [
        ((1, 1, 0), CRITERION, 1),
        ((0, 1), CRITERION, 0),  # neither nearer: the less favourable
        ((0, 1), DEFECT, 1),  # … which is 1 where less is better
        ((0, 0, 1, 1, 0.5), QUARTERS, 0),
        ((0.25, 0.25, 1, 1, 0.5), QUARTERS, 0.25),  # nearest to 0.5
        ((0, 0, 0.75, 0.75, 1), QUARTERS, 0.75),
        ((0, 0.25, 1), QUARTERS, 0.25),  # all differ: the median
        ((None, 1, None), CRITERION, 1),
    ],
)
def test_majority(given: tuple[float | None, ...], criterion: Criterion, expected: float) -> None:
    verdict = values(*given, criterion=criterion)
    assert verdict.value == expected
    assert criterion.value_domain.holds(expected)


def test_mean_and_median_may_lie_between_values() -> None:
    assert values(1, 1, 0, combine="mean").value == pytest.approx(2 / 3)
    assert values(0, 1, combine="median").value == 0.5
    assert values(1, 1, 0, combine="median").value == 1
    assert values(1, None, 0, combine="mean").value == 0.5


def test_reasons_say_how_it_was_reached() -> None:
    assert values(1, 0, 1).reason == "2 of 3 said 1: because 1"
    assert values(1, None, 1).reason == "2 of 2 said 1 (1 missing: timeout after 1 s): because 1"
    assert values(1, 1, 0, combine="mean").reason == "mean 0.667 of 1, 1, 0: because 1"
    assert values(None, None).reason == "timeout after 1 s: none of 2 answered"
    assert values(None, None).value is None
    assert len(combine_verdicts([Verdict(1.0, "x" * 499), missing("y" * 400)], CRITERION, "majority").reason) < 510


def test_members_are_asked_the_same_and_combined() -> None:
    who, about = panel(3), question(2)
    scripts = [lambda shown: said(1), lambda shown: said(int(shown == ["r0"])), lambda shown: said(0)]
    judgment, askers = ask(about, who, *scripts)
    assert [len(asker.calls) for asker in askers] == [2, 2, 2]
    assert count_calls(about, who) == 6
    assert judgment.verdicts[0, "Clear"].value == 1
    assert judgment.verdicts[1, "Clear"].value == 0
    assert "2 of 3 said 1" in judgment.verdicts[0, "Clear"].reason
    assert judgment.disagreement["Clear"] == pytest.approx(2 / 3)  # two of three pairs of members, both times
    assert (judgment.asked, judgment.lost) == (6, 0)


def test_samples_have_numbers() -> None:
    who, about = judge(samples=3), question(1)
    judgment, (asker,) = ask(about, who, lambda shown: said(1))
    assert sorted(call.sample for call in asker.calls) == [0, 1, 2]
    assert count_calls(about, who) == 3
    assert judgment.disagreement["Clear"] == 0.0


def test_samples_of_members() -> None:
    who = judge(members=(judge(name="a"), judge(name="b", samples=3)), samples=2).complete_members()
    _, (a, b) = ask(question(1), who, lambda shown: said(1), lambda shown: said(1))
    assert sorted(call.sample for call in a.calls) == [0, 1]
    assert sorted(call.sample for call in b.calls) == [0, 1, 2]
    assert count_calls(question(1), who) == 5


def test_members_do_what_they_do_not_say_as_the_panel_does() -> None:
    quick, own = judge(name="a", kind="listwise"), judge(name="b", kind="listwise", passes=3, language="zh")
    who = judge(kind="listwise", members=(quick, own), passes=2, language="en", timeout=9.0).complete_members()
    assert [(m.name, m.passes, m.language, m.timeout) for m in who.members] == [
        ("a", 2, "en", 9.0),
        ("b", 3, "zh", 9.0),
    ]
    assert all(m.endpoints == quick.endpoints for m in who.members)
    alone = judge(samples=2)
    assert alone.complete_members() == alone


def test_a_member_that_is_lost_is_left_out_and_counted() -> None:
    judgment, _ = ask(question(2), panel(2), lambda shown: said(1), lambda shown: LOST)
    assert [judgment.verdicts[i, "Clear"].value for i in range(2)] == [1, 1]
    assert (judgment.asked, judgment.lost) == (4, 2)
    assert judgment.missing == {"Clear": ["timeout after 1 s"] * 2}
    assert "Clear" not in judgment.disagreement


def test_all_members_lost() -> None:
    judgment, _ = ask(question(1), panel(2), lambda shown: LOST, lambda shown: LOST)
    assert judgment.verdicts[0, "Clear"].value is None
    assert judgment.lost == judgment.asked == 2


def test_disagreement_is_on_the_scale_of_the_domain() -> None:
    wide = Criterion(name="Clear", question="How clear?", domain=(0, 5, 10))
    judgment, _ = ask(question(1, (wide,)), panel(2), lambda shown: said(5, high=10), lambda shown: said(10, high=10))
    assert judgment.disagreement["Clear"] == 0.5


def test_outcomes_of_comparisons_are_averaged() -> None:
    best_first = [lambda shown: said("A" if shown[0] < shown[1] else "B")] * 2
    worst_first = lambda shown: said("B" if shown[0] < shown[1] else "A")  # noqa: E731
    about = question(group("a", "b", "b"))
    judgment, _ = ask(about, panel(3, kind="pairwise"), *best_first, worst_first)
    assert judgment.outcomes["Clear"][0, 1] == judgment.outcomes["Clear"][0, 2] == pytest.approx(2 / 3)
    assert judgment.outcomes["Clear"][1, 0] == pytest.approx(1 / 3)
    assert judgment.outcomes["Clear"][1, 2] == 0.5
    assert judgment.disagreement["Clear"] == pytest.approx(2 / 3)
    assert judgment.first_wins["Clear"] == (3.0, 6)
    assert (judgment.asked, judgment.lost) == (3, 0)


def test_a_member_that_lost_its_comparisons_is_left_out() -> None:
    judgment, _ = ask(question(2), panel(2, kind="listwise"), lambda shown: said([1, 1]), lambda shown: LOST)
    assert judgment.outcomes["Clear"][0, 1] == 0.5
    assert judgment.missing == {"Clear": ["timeout after 1 s"]}
    assert (judgment.asked, judgment.lost) == (2, 1)
    assert not np.isnan(judgment.outcomes["Clear"][1, 0])


def test_a_panel_of_batched_judges() -> None:
    kind = Criterion(name="Kind", question="Is it kind?")
    first, second = (lambda shown: said({"Clear": 1, "Kind": 0})), (lambda shown: said({"Clear": 1}))
    judgment, _ = ask(question(1, (CRITERION, kind)), panel(2, kind="batched"), first, second)
    assert judgment.verdicts[0, "Clear"].value == 1
    assert judgment.verdicts[0, "Kind"].value == 0
    assert (judgment.asked, judgment.lost) == (4, 1)


def test_members_that_are_no_list_are_refused_as_a_whole() -> None:
    with pytest.raises(InvalidInput, match="members must be a list; got 'abc'"):
        load_judges({"kind": "absolute", "members": "abc"})


def test_a_member_that_names_no_kind_has_the_panels() -> None:
    members: list[dict[str, Any]] = [
        {"name": name, "endpoints": [{"base_url": "http://127.0.0.1:1/v1", "model": "m"}]} for name in ("a", "b")
    ]
    [made] = load_judges({"name": "panel", "kind": "pairwise", "members": members}).judges
    assert [member.kind for member in made.members] == ["pairwise", "pairwise"]
    members[1]["kind"] = "absolute"
    with pytest.raises(InvalidInput, match="the panel's kind 'pairwise'"):
        load_judges({"name": "panel", "kind": "pairwise", "members": members})
