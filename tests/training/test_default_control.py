"""Control is on by default in trainers where judges decide; the log says so once, and `attributes: []` turns it off."""

from __future__ import annotations

import json
import logging

import numpy as np
import pytest
from judged import judges_at
from scored import group

from rubrank.rollouts.rollout import Group
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores
from rubrank.training.config import RewardConfig, load_engine
from rubrank.training.engine import Graded, RewardEngine
from rubrank.verifiers.domain import UNIT

JUDGED = {"name": "Clear", "question": "Is it clear?"}
PROGRAM = {"name": "WordCount", "params": {"low": 3}}
CLEAR = CriterionData("Clear", domain=UNIT)
WORDS = CriterionData("WordCount", verifier="WordCount")


def engine_of(rule: str = "rlvr2+", **options) -> RewardEngine:
    return RewardEngine([JUDGED, PROGRAM], rule, judges=judges_at("http://127.0.0.1:9"), **options)


def step_of(seed: int, N: int = 16, G: int = 6, criterion=CLEAR) -> tuple[list[Group], Graded]:
    """A judge that likes long reasoning; whether an answer is good is random."""
    rng = np.random.default_rng(seed)
    lengths = rng.integers(5, 60, (N, G))
    likes = 0.5 + 0.1 * rng.normal(size=(N, G)) + 0.1 * (np.log(lengths) - 3.0)
    groups = []
    scores = []
    for g in range(N):
        texts = [f"<think>{'so ' * n}</think>Yes." for n in lengths[g]]
        groups.append(group(f"{seed}/{g}", *texts))
        columns = np.column_stack([np.clip(likes[g], 0, 1), rng.integers(0, 2, G)])
        criteria = (criterion(g) if callable(criterion) else criterion, WORDS)
        scores.append(GroupScores(f"{seed}/{g}", criteria, columns, ((("", "")),) * G))
    return groups, Graded(tuple(scores))


def fuse(engine: RewardEngine, seed: int, **options):
    groups, graded = step_of(seed)
    return engine.fuse(groups, graded, seed, **options)


@pytest.mark.parametrize("rule", ["rlvr2+", "weighted-mean+", "gear+", "rlvr2*focal", "rlvr2:wins=graded"])
def test_judges_are_controlled_unless_it_is_turned_off(rule, caplog):
    caplog.set_level(logging.WARNING, "rubrank")
    controlled = engine_of(rule)
    off = engine_of(rule, attributes=[])
    asked = engine_of(rule, attributes=["reasoning_length", "markup"], adjust="attenuate:1", pool="run")
    assert controlled.remembers
    steps = [[fuse(engine, step) for engine in (controlled, off, asked)] for step in range(3)]
    assert [by_default.rewards == plain.rewards for by_default, plain, _ in steps] == [False, False, False]
    assert all(by_default.rewards == named.rewards for by_default, _, named in steps)
    assert steps[2][0].metrics["rubrank/gamma/reasoning_length"] > 0.0
    assert "rubrank/gamma/markup" not in steps[2][0].metrics  # constant here: it does not act
    messages = [record.getMessage() for record in caplog.records]
    assert len(messages) == 1
    assert "judges decide Clear" in messages[0]
    assert "`attributes: []` turns this off" in messages[0]


def test_its_state_is_saved_and_evaluations_teach_nothing():
    first = engine_of("weighted-mean+")
    fuse(first, 0)
    saved = json.loads(json.dumps(first.state_dict()))
    fuse(first, 5, train=False)
    assert json.loads(json.dumps(first.state_dict())) == saved
    second = engine_of("weighted-mean+")
    second.load_state_dict(saved)
    assert fuse(second, 1).rewards == fuse(first, 1).rewards


def test_processes_that_fuse_the_same_step_have_the_same_state():
    """Each process of a trainer fuses all groups, whether it writes the records or not."""
    writer, other = engine_of(), engine_of()
    for step in range(3):
        fuse(writer, step)
        fuse(other, step, write=False)
    assert writer.state_dict() == other.state_dict()


def test_a_trainer_that_passes_one_group_at_a_time_is_controlled_too(caplog):
    """The linear stage learns from single groups; RLVR² does not, and controls nothing there."""
    caplog.set_level(logging.WARNING, "rubrank")
    linear, ordinal = engine_of("weighted-mean+"), engine_of("rlvr2+")
    for step in range(3):
        groups, graded = step_of(step)
        for group_, scores in zip(groups, graded.groups, strict=True):
            last = linear.fuse([group_], Graded((scores,)), step)
            uncontrolled = ordinal.fuse([group_], Graded((scores,)), step)
    assert last.metrics["rubrank/gamma/reasoning_length"] > 0.0
    assert uncontrolled.results[0].control is None
    assert len(caplog.records) == 1


def test_nothing_is_controlled_where_only_programs_decide():
    engine = RewardEngine([PROGRAM])
    assert (engine.controls, engine.remembers) == ((), False)
    engine = engine_of()
    program = CriterionData("Clear", domain=UNIT, verifier="Clear")
    groups, graded = step_of(0, criterion=program)
    assert engine.fuse(groups, graded, 0).results[0].control is None


def test_nothing_is_controlled_where_every_query_has_criteria_of_its_own():
    """No influence can be estimated from one group, and the step is not put into one wide matrix for it."""
    engine = engine_of()
    groups, graded = step_of(0, criterion=lambda g: CriterionData(f"Mentions {g}", domain=UNIT))
    assert engine.fuse(groups, graded, 0).results[0].control is None


@pytest.mark.parametrize("options", [{"edition": "paper"}, {"pool": "group"}, {"attributes": []}])
def test_what_turns_it_off(options):
    assert engine_of(**options).controls == ()


def test_a_rule_with_thresholds_has_none():
    assert engine_of("all-or-nothing").controls == ()


def test_trainers_without_a_place_for_its_state_do_not_have_it(tmp_path):
    engine = engine_of()
    assert len(engine.controls) == 2
    loaded, _ = load_engine(engine, "a trainer")  # and no warning
    assert (loaded.controls, loaded.remembers) == ((), False)
    named = engine_of(attributes=["markup"], pool="batch")
    assert [control.name for control in load_engine(named, "a trainer")[0].controls] == ["markup"]
    config = RewardConfig(rubric=[JUDGED], judges=judges_at("http://127.0.0.1:9"))
    assert [control.name for control in config.engine().controls] == ["reasoning_length", "markup"]
