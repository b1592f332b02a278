"""The stage that asks judges, with scripted askers; over HTTP in tests/judges/test_clients.py."""

import pickle
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from judges.scripted import CRITERION, LOST, Scripted, Slow, group, judge, names, said

from rubrank.errors import InvalidInput, JudgingFailed
from rubrank.judges.client.usage import Account
from rubrank.judges.judge import Call, Judge, Judges, Judgment, Reply
from rubrank.judges.judgments import Judgments
from rubrank.judges.step import find_judged_cells, find_stopped, judge_groups
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.rubric import Criterion

KIND = Criterion(name="Kind", question="Is it kind?")
GATE = Criterion(name="Truncated")
PENALTY = Criterion(name="ImproperWording")
LENGTH = Criterion(name="WordCount", params={"relation": "at least", "count": 3})
MAIN = Judges(judges=(judge(),), most_missing=0.9)


def everything(groups: Sequence[Group], criteria: Sequence[Criterion]) -> list[np.ndarray]:
    return [np.ones((len(one.rollouts), len(criteria)), dtype=bool) for one in groups]


def run(
    groups: Sequence[Group], asker: Any, judges: Judges = MAIN, criteria: Any = (CRITERION,), **more: Any
) -> Judgments:
    asker_of = asker if callable(asker) else lambda _: asker
    wanted = more.pop("wanted", everything(groups, criteria))
    return judge_groups(groups, [criteria] * len(groups), wanted, judges, asker_of=asker_of, **more)


# ------------------------------------------------------------------------------------------------------ what is wanted


def test_wanted_are_cells_that_verifiers_left_to_a_judge() -> None:
    criteria = (CRITERION, LENGTH, PENALTY)
    scores = np.array([[np.nan, 1.0, np.nan], [np.nan, np.nan, 0.0], [np.nan, 0.0, np.nan]])
    reasons = [
        ["needs a judge", "5 words", "needs a judge: no sure sign either way"],
        ["needs a judge", "WordCount failed: RuntimeError", "an insult"],
        ["needs a judge", "1 word", "ImproperWording failed: timeout"],
    ]
    expected = [[True, False, True], [True, False, False], [True, False, False]]
    np.testing.assert_array_equal(find_judged_cells(criteria, scores, reasons, MAIN), expected)


def test_a_rollout_that_a_hard_gate_stopped_wants_nothing() -> None:
    criteria = (GATE, CRITERION)
    scores = np.array([[1.0, np.nan], [0.0, np.nan], [np.nan, np.nan]])
    reasons = [["complete", "needs a judge"], ["cut", "needs a judge"], ["Truncated failed", "needs a judge"]]
    assert find_judged_cells(criteria, scores, reasons, MAIN)[:, 1].tolist() == [True, False, True]
    all_asked = Judges(judges=MAIN.judges, cascade=False)
    assert find_judged_cells(criteria, scores, reasons, all_asked)[:, 1].tolist() == [True, True, True]


def test_gates_of_any_domain_and_direction() -> None:
    graded = Criterion(name="Safe", question="?", layer="global_quality", domain=(0, 5, 10))
    defect = Criterion(name="Broken", question="?", layer="global_quality", direction="lower")
    low = Criterion(name="Tidy", question="?", layer="low_quality")
    scores = np.array([[10, 0, 0], [5, 0, 1], [10, 1, 1], [np.nan, np.nan, np.nan]])
    assert find_stopped((graded, defect, low), scores).tolist() == [False, True, True, False]


def test_criteria_that_no_judge_decides_are_not_wanted() -> None:
    judges = Judges(judges=(judge(criteria=("Kind",)),))
    wanted = find_judged_cells((CRITERION, KIND), np.full((1, 2), np.nan), [["needs a judge"] * 2], judges)
    assert wanted.tolist() == [[False, True]]


@pytest.mark.parametrize(("size", "count"), [(0, 2), (2, 0)])
def test_wanted_of_nothing(size: int, count: int) -> None:
    wanted = find_judged_cells((CRITERION, KIND)[:count], np.empty((size, count)), [[]] * size, MAIN)
    assert wanted.shape == (size, count)


def test_cascade_saves_calls() -> None:
    groups, criteria = [group(*names(4))], (GATE, CRITERION)
    scores = np.array([[1, np.nan], [0, np.nan], [0, np.nan], [1, np.nan]])
    reasons = [["", "needs a judge"]] * 4
    for cascade, expected in ((True, 1), (False, 6)):
        judges = Judges(judges=(judge(kind="pairwise", both_orders=False),), cascade=cascade)
        asker = Scripted(lambda shown: said("tie"))
        judgments = run(groups, asker, judges, criteria, wanted=[find_judged_cells(criteria, scores, reasons, judges)])
        assert len(asker.calls) == judgments.asked == judgments.account.calls == expected


# -------------------------------------------------------------------------------------------------------- who is asked


def test_each_criterion_goes_to_its_judge() -> None:
    ranker = judge(name="ranker", kind="listwise", criteria=("Kind",))
    judges = Judges(judges=(judge(name="main"), ranker))
    askers = {"main": Scripted(lambda shown: said(1)), "ranker": Scripted(lambda shown: said([1] * len(shown)))}
    judgments = run([group(*names(3)), group("a", id="p")], lambda who: askers[who.name], judges, (CRITERION, KIND))
    first, second = judgments.groups
    assert set(first.verdicts) == {(i, "Clear") for i in range(3)}
    assert set(first.outcomes) == {"Kind"}
    assert first.asked == 4
    assert list(second.verdicts) == [(0, "Clear")]
    assert [len(asker.calls) for asker in askers.values()] == [4, 1]
    assert judgments.missing == 0.0


def test_members_of_a_panel_have_their_own_askers() -> None:
    panel = Judges(judges=(Judge(members=(judge(name="a"), judge(name="b"))),), most_missing=0.9)
    askers = {"a": Scripted(lambda shown: said(1)), "b": Scripted(lambda shown: said(1))}
    judgments = run([group("x")], lambda who: askers[who.name], panel)
    assert [len(asker.calls) for asker in askers.values()] == [1, 1]
    assert judgments.disagreement == {"Clear": 0.0}


def test_a_gate_cannot_be_decided_by_comparisons() -> None:
    asker = Scripted(lambda shown: said("tie"))
    with pytest.raises(InvalidInput, match="'ImproperWording', which is a gate; got 'pairwise'"):
        run([group("a", "b")], asker, Judges(judges=(judge(kind="pairwise"),)), (PENALTY,))
    assert asker.calls == []


def test_comparisons_need_one_query() -> None:
    mixed = Group(id="q", rollouts=(Rollout(prompt="One?", response="a"), Rollout(prompt="Two?", response="b")))
    asker = Scripted(lambda shown: said([1, 2]))
    with pytest.raises(InvalidInput, match="got 'listwise', for group 'q'"):
        run([group("a", "b", id="p"), mixed], asker, Judges(judges=(judge(kind="listwise"),)))
    assert asker.calls == []


def test_what_a_verifier_gave_up_needs_a_prompt() -> None:
    """WordCount is no question for a judge, and has no prompt."""
    reasons = [["needs a judge: too short to say"]]
    assert find_judged_cells((LENGTH,), np.array([[np.nan]]), reasons, MAIN).tolist() == [[False]]
    with pytest.raises(InvalidInput, match="criterion 'WordCount'"):
        run([group("a")], Scripted(lambda shown: said(1)), criteria=(LENGTH,))


@pytest.mark.parametrize(
    "criterion",
    [
        Criterion(name="CoreIntentMatch"),
        Criterion(name="SummaryRecall", verifier="judge", params={"points": ["a"]}),
        Criterion(name="Decent", verifier="ImproperWording"),
    ],
)
def test_criteria_with_a_prompt_of_the_library_can_be_asked(criterion: Criterion) -> None:
    wanted = find_judged_cells((criterion,), np.array([[np.nan]]), [["needs a judge"]], MAIN)
    assert wanted.tolist() == [[True]]


def test_wanted_must_fit_the_group() -> None:
    with pytest.raises(InvalidInput, match=r"wanted of group 'q' must be of shape \(2, 1\); got shape \(1, 1\)"):
        run([group("a", "b")], Scripted(said), wanted=[np.ones((1, 1), dtype=bool)])


def test_nothing_wanted_asks_nobody() -> None:
    asker = Scripted(lambda shown: said(1))
    judgments = run([group("a")], asker, wanted=[np.zeros((1, 1), dtype=bool)])
    assert (asker.calls, judgments.asked, judgments.missing, judgments.account.calls) == ([], 0, 0.0, 0)
    assert run([], asker).groups == ()


# --------------------------------------------------------------------------------------------------------------- result


@pytest.mark.parametrize("kind", ["absolute", "batched", "pairwise", "listwise"])
def test_order_of_groups_does_not_matter(kind: Any) -> None:
    """Whatever is asked about a group, and what comes of it, belongs to the group."""
    groups = [group(*names(6), id=f"q{i}") for i in range(5)]

    def answer(shown: list[str]) -> Reply:
        if kind == "listwise":
            return said([sorted(shown).index(name) // 2 + 1 for name in shown])
        if kind == "pairwise":
            return said("A" if hash(tuple(shown)) % 3 else "B")
        return said({"Clear": int(shown[0] < "r3")} if kind == "batched" else int(shown[0] < "r3"))

    def asked(order: list[int]) -> tuple[dict[str, Any], Counter[Call]]:
        asker = Scripted(answer)
        settings = {"pairwise": {"pairs": 7}, "listwise": {"passes": 2}}.get(kind, {})
        judges = Judges(judges=(judge(kind=kind, **settings),))
        judgments = run([groups[i] for i in order], asker, judges)
        found = {f"q{i}": one for i, one in zip(order, judgments.groups, strict=True)}
        return found, Counter(repr(call.messages) for call in asker.calls)

    (one, first), (other, second) = asked([0, 1, 2, 3, 4]), asked([3, 0, 4, 2, 1])
    assert first == second
    for id, judgment in one.items():
        assert judgment.verdicts == other[id].verdicts
        for name, outcomes in judgment.outcomes.items():
            np.testing.assert_array_equal(outcomes, other[id].outcomes[name])


def test_bias_and_disagreement_over_all_groups() -> None:
    judges = Judges(judges=(judge(kind="pairwise"),))
    groups = [group("a", "b"), group("c", "d", "e", id="p")]
    judgments = run(groups, Scripted(lambda shown: said("A" if "a" in shown else "tie")), judges)
    assert judgments.first_win_rate == {"Clear": ((2 + 3) / 8, 8)}
    assert judgments.disagreement == {"Clear": 0.5}


def test_a_group_with_nothing_to_compare_hides_no_failure() -> None:
    compared = Judgment(outcomes={"Clear": np.full((2, 2), np.nan)}, missing={"Clear": ["timeout"]}, asked=1, lost=1)
    alone = Judgment(outcomes={"Clear": np.full((1, 1), np.nan)})
    assert Judgments((compared, alone), Account()).missing_throughout == {"Clear": "timeout"}
    assert Judgments((alone,), Account()).missing_throughout == {}


def test_account_counts_what_was_spent() -> None:
    judgments = run([group("a", "b", "c")], Scripted(lambda shown: LOST if shown == ["a"] else said(1)))
    account = judgments.account
    assert (account.calls, account.input_tokens, account.failures) == (3, 210, {"timeout after 1 s": 1})
    assert account.cost == pytest.approx(0.021)
    assert judgments.reasons == {"timeout after 1 s": 1}


def test_progress_counts_calls() -> None:
    seen: list[tuple[int, int]] = []
    judges = Judges(judges=(judge(kind="pairwise"),))
    groups = [group("a", "b"), group(*names(3), id="p")]
    run(groups, Scripted(lambda shown: said("A")), judges, progress=lambda *at: seen.append(at))
    assert seen == [(i, 8) for i in range(1, 9)]


# ------------------------------------------------------------------------------------------------- failures and limits


def test_lost_answers_are_missing_and_the_rest_is_used() -> None:
    judgments = run([group(*names(4))], Scripted(lambda shown: LOST if shown == ["r2"] else said(1)))
    verdicts = judgments.groups[0].verdicts
    assert [verdicts[i, "Clear"].value for i in range(4)] == [1, 1, None, 1]
    assert (judgments.asked, judgments.lost, judgments.missing) == (4, 1, 0.25)


def test_too_many_missing_fail_loudly() -> None:
    def script(shown: list[str]) -> Reply:
        return {"r0": said(1), "r1": LOST, "r2": LOST}.get(shown[0], Reply(None, "refused: I would rather not"))

    judges = Judges(judges=MAIN.judges, most_missing=0.5, cache="replies.sqlite")
    with pytest.raises(JudgingFailed) as failed:
        run([group(*names(4))], Scripted(script), judges)
    error = pickle.loads(pickle.dumps(failed.value))
    assert isinstance(error, RuntimeError)
    assert (error.missing, error.asked, error.ceiling) == (3, 4, 0.5)
    assert str(error) == (
        "judges: 3 of 4 answers are missing (75.0%), and most_missing allows 50.0%; most often: 2 × timeout after 1 s,"
        " 1 × refused. Spent: 4 calls, 0 from the cache, cost 0.012. Replies are cached in replies.sqlite and not paid"
        " for again: fix the judges and repeat the step."
    )
    assert run([group(*names(4))], Scripted(script), Judges(judges=MAIN.judges, most_missing=0.75)).missing == 0.75


def test_all_of_them_missing_is_too_much_whatever_is_allowed() -> None:
    judges = Judges(judges=MAIN.judges, most_missing=1.0)
    with pytest.raises(JudgingFailed, match="without any") as failed:
        run([group(*names(2))], Scripted(lambda shown: LOST), judges)
    assert "allows 100.0%" not in str(failed.value)


def test_a_panel_that_lost_a_member_counts_its_answers_and_reasons() -> None:
    panel = Judges(judges=(Judge(members=(judge(name="a"), judge(name="b"))),), most_missing=0.9)

    def of(who: Judge) -> Scripted:
        return Scripted(lambda shown: LOST if who.name == "b" or shown == ["r0"] else said(1))

    judgments = run([group(*names(3))], of, panel)
    assert (judgments.asked, judgments.lost) == (6, 4)
    assert judgments.reasons == {"timeout after 1 s": 4}


def test_a_panel_asks_as_often_as_it_says() -> None:
    asker = Scripted(lambda shown: said(1))
    panel = Judge(members=(judge(name="a"), judge(name="b")), samples=3)
    run([group("x")], asker, Judges(judges=(panel,)))
    assert sorted(call.sample for call in asker.calls) == [0, 0, 1, 1, 2, 2]


def test_most_missing_of_zero_forgives_nothing_but_asks_for_nothing_more() -> None:
    strict = Judges(judges=MAIN.judges, most_missing=0.0)
    assert run([group("a")], Scripted(lambda shown: said(1)), strict).missing == 0.0
    with pytest.raises(JudgingFailed, match="Without a cache, all calls are paid for again"):
        run([group("a")], Scripted(lambda shown: LOST), strict)


def test_after_the_deadline_answers_are_missing() -> None:
    class OneIsSlow(Slow):
        async def ask(self, call: Call) -> Reply:
            return await super().ask(call) if "zq-r1-qz" in call.messages[-1]["content"] else said(1)

    judges = Judges(judges=MAIN.judges, deadline=0.2, most_missing=0.9)
    judgments = run([group(*names(3))], OneIsSlow(60.0), judges)
    verdicts = judgments.groups[0].verdicts
    assert [verdicts[i, "Clear"].value for i in range(3)] == [1, None, 1]
    assert verdicts[1, "Clear"].reason == "deadline of the step passed"
    assert judgments.account.failures == {"deadline of the step passed": 1}


def test_all_tied_comparisons_ask_nobody() -> None:
    judges = Judges(judges=(judge(kind="pairwise"),))
    judgments = run([group("a", "a", "a"), group("b", id="p")], Scripted(lambda shown: said("A")), judges)
    assert judgments.account.calls == judgments.asked == 0
    assert judgments.groups[0].outcomes["Clear"][0, 1] == 0.5
