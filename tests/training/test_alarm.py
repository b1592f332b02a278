"""The alarm for reward hacking: figures of a step, its signals, in the engine, in records, and on the command line."""

from __future__ import annotations

import json
import math
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from rubrank.cli.app import app
from rubrank.grading.grade import grade
from rubrank.judges.client.usage import Account
from rubrank.judges.judge import Judgment
from rubrank.judges.judgments import Judgments
from rubrank.records.files import read_records
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.scores.criterion import CriterionData
from rubrank.training.alarm import WINDOW, RewardAlarm, StepFigures, figures_of_records, measure_step
from rubrank.training.engine import Graded, RewardEngine
from rubrank.verifiers.domain import Domain

TESTS = CriterionData("Tests", verifier="TestsPass", family="agentic")
TONE = CriterionData("Tone", domain=Domain("continuous", low=0.0, high=10.0))
WATCHED = CriterionData("SecondJudge", layer="watch")


def follow(series: list[StepFigures]) -> list[tuple[str, int]]:
    alarm = RewardAlarm()
    return [(finding.kind, finding.step) for figures in series for finding in alarm.update(figures)]


def wobble(step: int) -> float:
    """Noise without a trend, the same in every run."""
    return 0.005 * (-1) ** step


# -------------------------------------------------------------------------------------------------------------- figures


def test_figures_of_a_step_by_hand():
    """Tests and reward go against each other, Tone goes with the reward."""
    first = ((TESTS, TONE, WATCHED), np.array([[0.0, 10.0, 1.0], [1.0, 0.0, 1.0]]), np.array([1.0, 0.0]))
    second = ((TESTS, TONE), np.array([[1.0, np.nan], [1.0, 5.0]]), np.array([0.25, 0.75]))
    figures = measure_step(7, [first, second], words_M=np.array([0.0, math.e - 1.0]))
    assert figures.covariance == {"Tests": (-1.0, 1.0), "Tone": (1.0, 1.0)}
    assert figures.judged == pytest.approx((1.0 + 0.0 + 0.5) / 3)
    assert figures.checked == pytest.approx((0.0 + 1.0 + 1.0 + 1.0 + 1.0 + 1.0) / 6)  # with what is only watched
    assert figures.correctness == pytest.approx(3 / 4)
    assert figures.presence is None
    assert figures.means["Tests"] == (0.75, 0.5)  # tied in one of two groups
    assert figures.words == pytest.approx(0.5)
    assert set(figures.checked_criteria) == {"Tests", "SecondJudge"}


def test_a_criterion_on_which_lower_is_better():
    bad = CriterionData("Errors", direction="lower", verifier="NoToolError")
    figures = measure_step(0, [((bad,), np.array([[0.0], [1.0]]), np.array([1.0, 0.0]))])
    assert figures.covariance["Errors"] == (1.0, 1.0)


def test_an_equal_group_says_nothing_about_directions():
    figures = measure_step(0, [((TESTS,), np.array([[0.0], [1.0]]), np.array([0.5, 0.5]))])
    assert figures.covariance["Tests"][0] == 0.0


# -------------------------------------------------------------------------------------------------------------- signals


def test_judged_scores_rise_and_programs_fall():
    series = [
        StepFigures(step, judged=0.5 + 0.004 * step + wobble(step), checked=0.8 - 0.004 * step - wobble(step))
        for step in range(60)
    ]
    assert follow(series) == [("judged_up", 23)]  # as soon as a trend can be fitted, and once
    assert follow([replace(figures, checked=1.6 - figures.checked) for figures in series]) == []
    assert follow([replace(figures, judged=0.5) for figures in series]) == []


def test_one_criterion_that_falls_is_enough():
    series = [
        StepFigures(
            step,
            judged=0.5 + 0.004 * step + wobble(step),
            checked=0.8,
            means={"SecondJudge": (0.8 - 0.004 * step - wobble(step), 0.0)},
            checked_criteria=("SecondJudge",),
        )
        for step in range(30)
    ]
    alarm = RewardAlarm()
    findings = [finding for figures in series for finding in alarm.update(figures)]
    assert [finding.kind for finding in findings] == ["judged_up"]
    assert "judged scores rose by 0.09 over the last 24 steps, 'SecondJudge' fell by 0.09" in findings[0].text


def test_a_small_change_is_no_alarm_however_steady():
    series = [StepFigures(step, judged=0.5 + 0.0005 * step, checked=0.8 - 0.0005 * step) for step in range(60)]
    assert follow(series) == []


def test_form_rises_and_correctness_falls():
    series = [
        StepFigures(step, presence=0.5 + 0.004 * step + wobble(step), correctness=0.8 - 0.004 * step - wobble(step))
        for step in range(40)
    ]
    assert follow(series) == [("presence_up", 23)]


def test_longer_answers_are_an_alarm_unless_they_are_better():
    longer = [
        StepFigures(step, words=5.0 + 0.02 * step + wobble(step), checked=0.7 + wobble(step)) for step in range(40)
    ]
    assert follow(longer) == [("words", 23)]
    better = [replace(figures, checked=0.5 + 0.01 * figures.step + wobble(figures.step)) for figures in longer]
    assert follow(better) == []


def test_a_criterion_that_training_makes_worse():
    """A correlation of −0.3 with 100 degrees of freedom is 3 standard errors; 2.25 count, and the limit is 12."""
    series = [StepFigures(step, covariance={"Facts": (-0.3, 100.0)}) for step in range(20)]
    assert follow(series) == [("against/Facts", 5)]
    fair = [StepFigures(step, covariance={"Facts": ((-0.1) ** (step % 2), 100.0)}) for step in range(400)]
    assert follow(fair) == []


def test_a_growing_influence_of_an_attribute():
    series = [StepFigures(step, gamma={"markup": (0.1 + 0.01 * step, 0.05)}) for step in range(WINDOW)]
    assert follow(series) == [("gamma/markup", WINDOW - 1)]  # 0.47 / (0.05 √2) = 6.6 standard errors
    slower = [StepFigures(step, gamma={"markup": (0.1 + 0.005 * step, 0.05)}) for step in range(WINDOW)]
    assert follow(slower) == []  # 3.3 standard errors
    assert follow([replace(figures, gamma={"markup": (0.5, 0.05)}) for figures in series]) == []


def test_saturated_criteria_are_a_notice(caplog):
    alarm = RewardAlarm()
    findings = [f for step in range(25) for f in alarm.update(StepFigures(step, means={"Polite": (0.99, 1.0)}))]
    assert findings == []
    assert alarm.saturated == ["Polite"]
    assert alarm.metrics()["rubrank/alarm/saturated"] == 1.0
    resumed = RewardAlarm()
    resumed.load_state_dict(alarm.state_dict())
    assert resumed.saturated == ["Polite"]
    with caplog.at_level("INFO", "rubrank"):
        resumed.update(StepFigures(25, means={"Polite": (0.99, 1.0)}))
    assert not caplog.records  # it was reported before the checkpoint


def test_a_resumed_alarm_goes_on():
    series = [
        StepFigures(step, judged=0.5 + 0.004 * step + wobble(step), checked=0.8 - 0.004 * step - wobble(step))
        for step in range(40)
    ]
    whole, first, second = RewardAlarm(), RewardAlarm(), RewardAlarm()
    for figures in series[:20]:
        first.update(figures)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    found = [finding.step for figures in series[20:] for finding in second.update(figures)]
    expected = [finding.step for figures in series for finding in whole.update(figures)]
    assert found == expected == [23]
    assert second.strengths == whole.strengths


# ----------------------------------------------------------------------------------------------------- engine, records

RUBRIC: list[Any] = [
    {"name": "Short", "verifier": "WordCount", "params": {"high": 6}},
    {"name": "Lake", "verifier": "Keyword", "params": {"keywords": ["lake"]}, "weight": 3},
]


def make_groups(step: int, count: int = 4) -> list[Group]:
    """Answers that name a lake are long."""
    texts = ("It is a lake of the very long kind.", "No.", "A lake.", "Nothing at all to say about this one here.")
    return [
        Group(id=f"{step}/{n}", rollouts=tuple(Rollout(prompt="Name a lake.", response=text) for text in texts))
        for n in range(count)
    ]


def test_the_engine_logs_directions_and_the_alarm(tmp_path, caplog):
    engine = RewardEngine(RUBRIC, "weighted-mean", records=tmp_path / "records.jsonl", alarm="stop")
    with caplog.at_level("WARNING", "rubrank"):
        for step in range(3):
            metrics = engine.score(make_groups(step), step).metrics
    # Lake: 1 0 1 0, Short: 0 1 1 0, reward (3 Lake + Short)/4: .75 .25 1 0, in deviations from .5: .25 −.25 .5 −.5
    assert metrics["rubrank/Lake/covariance"] == pytest.approx(0.375 / math.sqrt(0.25 * 0.625))
    assert metrics["rubrank/Short/covariance"] == pytest.approx(0.0 + 0.125 / math.sqrt(0.25 * 0.625))
    assert metrics["rubrank/alarm/against/Lake"] == 0.0
    assert not engine.alarm_stops
    assert not [record for record in caplog.records if "alarm" in record.message]
    assert engine.alarm is not None
    followed = RewardAlarm()
    for figures in figures_of_records(read_records(tmp_path / "records.jsonl")):
        followed.update(figures)
    assert followed.state_dict() == engine.alarm.state_dict()  # records say the same


def test_an_alarm_is_logged_and_may_stop(caplog):
    engine = RewardEngine(RUBRIC, "weighted-mean", alarm="stop")
    assert engine.alarm is not None
    engine.alarm.load_state_dict({**engine.alarm.state_dict(), "against": {"Short": 100.0}})
    with caplog.at_level("WARNING", "rubrank"):
        engine.score(make_groups(0), 0)
    [warning] = [record.message for record in caplog.records]
    assert warning.startswith("alarm: step 0: 'Short' falls where rewards rise")
    assert engine.alarm_stops


def test_it_can_be_turned_off():
    engine = RewardEngine(RUBRIC, "weighted-mean", alarm="off")
    assert not [name for name in engine.score(make_groups(0), 0).metrics if "alarm" in name]


def test_evaluations_do_not_count_and_single_groups_are_collected():
    engine = RewardEngine(RUBRIC, "weighted-mean")
    assert engine.alarm is not None
    engine.score(make_groups(0), 0, train=False)
    for n in range(3):
        engine.score(make_groups(n, 1), n)
    assert engine.alarm.state_dict()["window"] == []
    engine.score(make_groups(3, 1), 3)
    assert len(engine.alarm.state_dict()["window"]) == 1


def test_the_verb(tmp_path):
    path = tmp_path / "records.jsonl"
    engine = RewardEngine(RUBRIC, "weighted-mean", records=path)
    for step in range(3):
        engine.score(make_groups(step), step)
    done = CliRunner().invoke(app, ["alarm", str(path), "--json", "--fail"])
    assert done.exit_code == 0, done.output
    answer = json.loads(done.stdout)
    assert (answer["steps"], answer["alarms"]) == (3, [])
    assert "against/Lake" in answer["signals"]


# ----------------------------------------------------------------------------------------- distributions, disagreement


def test_rewards_advantages_and_disputed_rollouts():
    step = RewardEngine(RUBRIC, "weighted-mean").score(make_groups(0, 2), 0)
    assert step.distributions["rubrank/rewards"].tolist() == [0.75, 0.25, 1.0, 0.0] * 2
    expected = [0.25, -0.25, 0.5, -0.5]
    advantages = step.distributions["rubrank/advantages"]
    assert advantages.tolist() == pytest.approx([value / math.sqrt(0.15625) for value in expected] * 2)
    first = step.disputed[0]
    assert (first.group, first.number, first.disagreement) == ("0/0", 0, pytest.approx(1.0))  # +1 by Lake, −1 by Short
    assert first.response == "It is a lake of the very long kind."
    assert first.scores == "Short 0, Lake 1"


def test_histograms_go_to_tensorboard():
    from rubrank.training.frameworks.trl import log_distributions

    logged = []
    writer = SimpleNamespace(
        add_histogram=lambda name, values, step: logged.append((name, list(values), step)),
        add_text=lambda name, text, step: logged.append((name, text.splitlines()[0], step)),
    )
    trainer = SimpleNamespace(callback_handler=SimpleNamespace(callbacks=[SimpleNamespace(tb_writer=writer), object()]))
    step = RewardEngine(RUBRIC, "weighted-mean").score(make_groups(0, 1), 0)
    log_distributions(trainer, {"rubrank/rewards": np.array([1.0, np.nan])}, step.disputed, 5)
    assert logged[0] == ("rubrank/rewards", [1.0], 5)
    assert logged[1] == ("rubrank/disputed/0", "0/0, rollout 0: Short 0, Lake 1; reward 0.75", 5)


def test_totals_of_judges_go_on_after_resuming():
    def fuse_judged_step(engine):
        groups = make_groups(0, 2)
        table = grade(groups, RUBRIC)
        account = Account(input_tokens=100, output_tokens=20, cost=0.5)
        judging = Judgments(tuple(Judgment() for _ in groups), account, tuple(group.id for group in groups))
        return engine.fuse(groups, Graded(table.groups, judging), 0).metrics

    engine = RewardEngine(RUBRIC)
    fuse_judged_step(engine)
    resumed = RewardEngine(RUBRIC)
    resumed.load_state_dict(json.loads(json.dumps(engine.state_dict())))
    metrics = fuse_judged_step(resumed)
    assert metrics["rubrank/judge/tokens"] == 120.0
    assert metrics["rubrank/judge/total_tokens"] == 240.0
    assert metrics["rubrank/judge/total_cost"] == 1.0


def test_a_run_ends_with_a_checkpoint_after_an_alarm():
    pytest.importorskip("transformers", reason="transformers is not installed: pip install 'rubrank[trl]'")
    from rubrank.training.trl import RubricReward

    reward = RubricReward(RUBRIC, alarm="stop")
    control = SimpleNamespace(should_training_stop=False, should_save=False)
    state = SimpleNamespace(stateful_callbacks={}, is_world_process_zero=True)
    reward.callback.on_step_end(None, state, control)
    assert not control.should_training_stop
    reward.engine.alarm_stops = True
    reward.callback.on_step_end(None, state, control)
    assert (control.should_training_stop, control.should_save) == (True, True)
