"""A training run logs what to change about it: seldom, and only if something is wrong."""

import numpy as np
import pytest

from rubrank.records.findings import GROUPS_OF_RUN, STEPS_BETWEEN
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.training.engine import RewardEngine

LONG = {"name": "WordCount", "params": {"low": 4, "high": 400}}
HEALTHY = [{"name": "Keyword", "params": {"keywords": ["moon"]}}, {"name": "Keyword", "params": {"keywords": ["sea"]}}]
HEALTHY[1] = {**HEALTHY[1], "name": "Sea", "verifier": "Keyword"}


def run(engine, steps, groups_per_step, start=0):
    draws = np.random.default_rng(start)
    results = []
    for step in range(start, start + steps):
        groups = []
        for g in range(groups_per_step):
            words = [[draws.choice(["moon", "sun"]), draws.choice(["sea", "sky"])] for _ in range(8)]
            texts = [f"the {first} and the {second}" for first, second in words]
            rollouts = tuple(Rollout(prompt=f"Explain tides, part {g}.", response=text) for text in texts)
            groups.append(Group(id=f"{step}/{g}", rollouts=rollouts))
        results.append(engine.score(groups, step))
    return results


def logged(caplog):
    return [record.getMessage() for record in caplog.records if record.getMessage().startswith("what to change")]


def test_a_healthy_run_logs_nothing(caplog):
    engine = RewardEngine(rubric=HEALTHY, alarm="off", workers=0)
    steps = run(engine, 20, 16)
    assert not logged(caplog)
    assert steps[-1].findings == ()


def test_a_finding_is_logged_once_and_stays_in_the_results(caplog):
    engine = RewardEngine(rubric=[*HEALTHY, LONG], alarm="off", workers=0)
    steps = run(engine, 30, 16)
    first = next(i for i, step in enumerate(steps) if step.findings)
    assert (first + 1) * 16 >= GROUPS_OF_RUN  # fewer groups are not examined
    assert logged(caplog) == [
        "what to change: WordCount is tied in 100% of 64 groups. Drop it, or give it more levels."
    ]
    assert [finding.subject for finding in steps[-1].findings] == ["WordCount"]


def test_a_finding_is_repeated_after_many_steps(caplog):
    engine = RewardEngine(rubric=[*HEALTHY, LONG], alarm="off", workers=0)
    run(engine, 4, 16)
    run(engine, 4, 16, start=STEPS_BETWEEN // 2)
    assert len(logged(caplog)) == 1
    run(engine, 4, 16, start=2 * STEPS_BETWEEN)
    assert len(logged(caplog)) == 2


@pytest.mark.parametrize(("groups", "lines"), [(4, 0), (12, 1)])
def test_the_end_of_a_short_run_has_findings_if_there_are_enough_groups(caplog, groups, lines):
    engine = RewardEngine(rubric=[*HEALTHY, LONG], alarm="off", workers=0)
    run(engine, 1, groups)
    assert not logged(caplog)
    engine.log_last_findings(1)
    assert len(logged(caplog)) == lines


def test_processes_that_do_not_write_and_evaluations_log_nothing(caplog):
    engine = RewardEngine(rubric=[*HEALTHY, LONG], alarm="off", workers=0)
    rollouts = tuple(Rollout(prompt="Tides?", response=text) for text in ("the moon and sea", "a sea and moon"))
    groups = [Group(id=f"0/{g}", rollouts=rollouts) for g in range(GROUPS_OF_RUN)]
    for step in range(4):
        engine.score(groups, step, write=False)
        engine.score(groups, step, train=False)
    assert not logged(caplog)


def test_solved_prompts_are_named_by_their_text(caplog):
    engine = RewardEngine(rubric=[LONG], alarm="off", workers=0)
    rollouts = tuple(Rollout(prompt="Why are there tides at sea?", response="the moon and sea") for _ in range(4))
    engine.score([Group(id=f"0/{g}", rollouts=rollouts) for g in range(16)], 0)
    engine.log_last_findings(0)
    assert "64" not in logged(caplog)[0]
    assert "“Why are there tides at sea?”" in logged(caplog)[0]
