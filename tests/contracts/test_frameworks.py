"""One contract for every framework: the rewards are the engine's, bit for bit, whatever the trainer hands over."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from contracts.drivers import DRIVERS, SINGLE, Asked, Said

from rubrank import RewardEngine, RubrankError, read_records
from rubrank.rollouts.rollout import Group
from rubrank.training.rollouts import rollout_of

RUBRIC = [
    "EmptyAnswer",
    {"name": "Long", "verifier": "WordCount", "params": {"low": 3}, "weight": 2},
    {"name": "Lake", "verifier": "Keyword", "params": {"keywords": ["lake"]}},
]
RIVER = [{"name": "River", "verifier": "Keyword", "params": {"keywords": ["river"]}}]
TEXTS = ("a lake in the north", "a lake", "no idea at all", "")
GROUPS = [
    Asked("Name a lake.", tuple(map(Said, TEXTS))),
    Asked("Name a river.", tuple(map(Said, ("a river", "a lake and a river", "x", "the river by the lake"))), RIVER),
    Asked("Name a lake.", tuple(map(Said, ("x", "x y", "lake", "the lake is deep")))),  # the same prompt once more
]
pytestmark = pytest.mark.parametrize("name", DRIVERS)


def expected(engine: RewardEngine, groups: list[Asked], name: str) -> list[list[float]]:
    made = [
        Group(
            id=str(g),
            rollouts=tuple(rollout_of(asked.user, one.messages, finish_reason=one.end) for one in asked.said),
            rubric=asked.rubric,
        )
        for g, asked in enumerate(groups)
    ]
    found = [list(rewards) for rewards in engine.score(made, 0, train=False, write=False).rewards]
    return [np.float32(one).astype(float).tolist() for one in found] if name in SINGLE else found


def test_rewards_are_the_engines(name):
    assert DRIVERS[name](RewardEngine(RUBRIC), GROUPS, True) == expected(RewardEngine(RUBRIC), GROUPS, name)


def test_groups_of_two_rows_with_the_same_prompt_are_two(name):
    """Scored as one, the answers of the first would change the rewards of the second."""
    twice = [GROUPS[0], GROUPS[2]]
    assert DRIVERS[name](RewardEngine(RUBRIC), twice, True) == expected(RewardEngine(RUBRIC), twice, name)


def test_rows_with_the_same_prompt_and_another_rubric(name):
    other = [Asked("Name a lake.", GROUPS[0].said, RIVER), Asked("Name a lake.", GROUPS[2].said)]
    assert DRIVERS[name](RewardEngine(RUBRIC), other, True) == expected(RewardEngine(RUBRIC), other, name)


def test_why_sampling_ended_is_passed_on(name):
    """Only the trainer knows that this one was cut off: its text ends with a full stop."""
    cut = [Asked("Name a lake.", (Said("It is a lake."), Said("It is a lake.", "length"), Said("A lake.")))]
    engine = RewardEngine(["Truncated", *RUBRIC])
    found = DRIVERS[name](engine, cut, True)
    assert found == expected(engine, cut, name)
    assert found[0][1] == 0.0


def test_thoughts_are_no_answer(name):
    said = ("<think>a lake in the north</think>no", "a lake in the north", "<think>lake lake lake")
    thought = [Asked("Name a lake.", tuple(map(Said, said)))]
    found = DRIVERS[name](RewardEngine(RUBRIC), thought, True)
    assert found == expected(RewardEngine(RUBRIC), thought, name)
    assert found[0].index(max(found[0])) == 1


def test_thoughts_that_the_prompt_opened(name):
    """`thinking="prefilled"`: what was cut off in its thoughts has no answer."""
    said = ("it should be a lake in the north", "so</think>a lake in the north", "so</think>no")
    opened = [Asked("Name a lake.", tuple(map(Said, said)))]
    found = DRIVERS[name](RewardEngine(RUBRIC, thinking="prefilled"), opened, True)[0]
    assert (found[0], found[1]) == (0.0, 1.0)


def test_what_is_not_known_gets_the_mean_of_its_group(name, monkeypatch):
    """The machine's fault is no score; and these trainers cannot leave a rollout out."""
    engine = RewardEngine(RUBRIC[1:])
    _lose(engine, monkeypatch)
    found = DRIVERS[name](engine, [Asked("Name a lake.", tuple(map(Said, TEXTS[:3])))], True)[0]
    assert found[1] == pytest.approx((found[0] + found[2]) / 2)


def _lose(engine: RewardEngine, monkeypatch: pytest.MonkeyPatch) -> None:
    """All scores of "a lake", as if what decides had failed."""
    whole = type(engine).fuse

    def fuse(self, groups, graded, *given, **named):
        for group, scored in zip(groups, graded.groups, strict=True):
            for i, rollout in enumerate(group.rollouts):
                if rollout.answer == "a lake":
                    scored.scores[i] = np.nan
        return whole(self, groups, graded, *given, **named)

    monkeypatch.setattr(type(engine), "fuse", fuse)


APART = {"rllm", "roll", "skyrl"}
"""Those whose evaluations do not come to the adapter, and keep the rewards that they have."""
AFTER = [
    Asked("Name a sea.", tuple(map(Said, ("x", "lake lake lake lake lake", "a lake, by the sea", "deep")))),
    Asked("Name a hill.", tuple(map(Said, ("a hill by a lake", "no", "hills and hills and hills", "a lake")))),
]


def remembering(rule: str, records: Path) -> RewardEngine:
    """A rule with a memory of its own, or attributes whose influence is estimated over the run."""
    controls = {"attributes": ["answer_length"], "adjust_criteria": "all"} if rule == "rlvr2+" else {}
    return RewardEngine(RUBRIC, rule, records=records, **controls)


@pytest.mark.parametrize("rule", ["amrp+", "rlvr2+"])
def test_evaluations_do_not_teach(name, rule, recwarn, tmp_path):
    """Between two steps of training: what the second is given, remembers and records is as if nobody had evaluated."""

    def driver(engine: RewardEngine, groups: list[Asked], train: bool) -> list[list[float]]:
        """Where groups are scored as they come, one after the other: what is learnt depends on the order."""
        parts = [[group] for group in groups] if name == "nemo_gym" else [groups]
        return [rewards for part in parts for rewards in DRIVERS[name](engine, part, train)]

    once, twice = (remembering(rule, tmp_path / f"{i}.jsonl") for i in range(2))
    if name == "easyr1":  # it says nothing about it: refused
        with pytest.raises(RubrankError, match="without a memory"):
            driver(once, GROUPS, True)
        return
    for engine in (once, twice):
        before = engine.state_dict()
        driver(engine, GROUPS, True)
        assert engine.state_dict() != before
    before = twice.state_dict()
    evaluated = driver(twice, AFTER, False)
    assert twice.state_dict() == before
    assert driver(once, AFTER, True) == driver(twice, AFTER, True)
    assert twice.state_dict() == once.state_dict()
    assert records_of(once, "train") == records_of(twice, "train")
    assert len(records_of(twice, "eval")) == (0 if name in APART else len(AFTER))
    if name in APART:
        assert evaluated == [[0.3] * 4] * 2


def records_of(engine: RewardEngine, mode: str) -> list[tuple[object, ...]]:
    found = [record for record in read_records(engine.records) if record.metadata["mode"] == mode]
    return [(one.group, one.step, one.reward, one.weights, one.shrunk) for one in found]


def test_records_hold_the_rewards(name, tmp_path):
    path = tmp_path / "records.jsonl"
    found = DRIVERS[name](RewardEngine(RUBRIC, records=path), GROUPS[:2], True)
    told = sorted(list(record.reward) for record in read_records(path))
    single = [np.float32(one).astype(float).tolist() for one in told] if name in SINGLE else told
    assert single == sorted(found)
    assert len({record.group for record in read_records(path)}) == 2


WITH_MESSAGES = {"verifiers", "prime_rl", "art", "atropos", "rllm", "swift", "nemo_rl"}
CALL = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "1", "type": "function", "function": {"name": "look", "arguments": '{"at": "map"}'}}],
}


def test_calls_of_tools_are_calls(name):
    if name not in WITH_MESSAGES:
        pytest.skip("it has no messages: texts, or tokens with a mask (test_turns.py)")
    answer = {"role": "tool", "content": "a lake", "tool_call_id": "1"}
    rubric = [{"name": "Looked", "verifier": "ToolCalled", "params": {"tool": "look"}}]
    talk = [Asked("Name a lake.", (Said("A lake.", before=(CALL, answer)), Said("A lake.")))]
    engine = RewardEngine(rubric)
    found = DRIVERS[name](engine, talk, True)
    assert found == [[1.0, 0.0]]
