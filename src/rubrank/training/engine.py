"""The contract with trainers, and the core that all adapters share: the groups of a step → rewards.

    >>> from rubrank.rollouts.rollout import Group, Rollout
    >>> from rubrank.training.engine import RewardEngine
    >>> engine = RewardEngine(rubric=["EmptyAnswer", {"name": "WordCount", "params": {"low": 3}}])
    >>> rollouts = [Rollout(prompt="Explain tides.", response=text) for text in ("The moon pulls.", "Moon.", "")]
    >>> step = engine.score([Group(id="0/0", rollouts=tuple(rollouts))], step=0)
    >>> step.rewards
    ((1.0, 0.25, 0.0),)
    >>> round(step.metrics["rubrank/WordCount/mean"], 2), round(step.metrics["rubrank/gate/stopped"], 2)
    (0.33, 0.33)

A reward depends on the whole group, because it compares the rollouts of one query. So an engine takes whole groups. One
training step:

    groups (`Group`: a query and its rollouts)
      │
      │  grade    1. verifiers score what programs can decide
      │           2. judges score the rest, except rollouts that a hard gate stops
      ▼
    scores (`Graded`)
      │
      │  fuse     3. texts are measured: words and Markdown
      │           4. the attributes to control are chosen, such as the length, whose influence on the reward is removed
      │           5. the rule fuses the scores of each group, and the gate is applied
      │           6. records are written
      │           7. rollouts without any score get NaN instead of a reward
      │           8. metrics, alarm and findings are computed for the log
      ▼
    rewards (`StepRewards`)

`score` grades and fuses. Trainers that split a batch over processes use `flat_batch.py`, which grades a part of it in
every process. Trainers that pass single samples use `barrier.py`, which grades each rollout when it arrives. Both fuse
whole groups.

A reward is NaN if a rollout has no score on any quality criterion, and no gate stopped it. A trainer leaves such a
rollout out (TRL: None), or gives it the mean of its group (`flat(means=True)`).

A group's id names it in the records, and the random draws of `attenuate` depend on it. `label` makes ids that no other
step has.

If a rule learns from step to step, it does so in `fuse`, and `state_dict` is part of the trainer's checkpoint. Only
training steps are learned from, not evaluations.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from itertools import compress, pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from rubrank.errors import InvalidInput, refuses_wrong_kinds
from rubrank.fusion.options import find_parts, has_memory, is_controllable, make_rule
from rubrank.fusion.result import Fused
from rubrank.fusion.rule import Rule, Stateful
from rubrank.grading.grade import grade_whole_groups, run_grading
from rubrank.grading.judge_table import judge_table_async
from rubrank.grading.plan import GradeOptions, combine_rubrics, find_rubrics, plan_groups
from rubrank.judges.client.usage import Account
from rubrank.judges.judge import Judges, load_judges
from rubrank.judges.judgments import Judgments
from rubrank.judges.step import check_judgments
from rubrank.options import AttributeOptions, EngineKeywords, EngineOptions, read_options
from rubrank.records.findings import GROUPS_OF_STEP, Finding, RunFindings
from rubrank.records.record import GroupRecord, records_of
from rubrank.records.writer import Recording, RecordWriter
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.public import to_rubric
from rubrank.rubrics.rubric import Criterion, Rubric
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.training.alarm import Alarm, RewardAlarm, find_gamma, standardise_rewards
from rubrank.training.controls import (
    ActiveControls,
    is_linear,
    list_shared_judged,
    make_control,
    make_default_controls,
    measure_texts,
    parse_controls,
    select_active_controls,
    set_pool,
    warn_of_single_group,
)
from rubrank.training.metrics import (
    DisputedRollout,
    collect_step_metrics,
    find_disputed,
    find_origin,
    make_completion_columns,
    measure_judges,
)
from rubrank.training.rewind import drop_half_record, rewind_records
from rubrank.training.step_parts import FusedPart, fuse_in_parts
from rubrank.verifiers.verifier import VERIFIERS

if TYPE_CHECKING:
    from rubrank.judges.kinds.comparisons import ArrivedGroup

_log = logging.getLogger("rubrank")
STEP_DEADLINE = 540.0
"""Seconds for all judge calls of a step if the judges set no deadline; collective operations time out after 600."""
_STATE_VERSION = 1
_OWNER = "RewardEngine"
_MOST_NAMES = 5  # a line of the log names at most this many criteria
# Seconds that remain for the calls of a step after the longest outage that is waited for
_AFTER_OUTAGE = 240.0


@dataclass(frozen=True, eq=False)
class Graded:
    """The scores of some groups; can be sent to another process."""

    groups: tuple[GroupScores, ...] = ()
    judging: Judgments | None = None
    seconds: float = 0.0
    """Seconds that the trainer waited for the scores."""
    hidden: float = 0.0
    """Seconds of judging that overlapped with the generation of other rollouts of the group."""

    @classmethod
    def join(cls, parts: Sequence[Graded]) -> Graded:
        """Join the scores of consecutive groups, as if they had been graded together."""
        groups = tuple(group for part in parts for group in part.groups)
        judgings = [part.judging for part in parts if part.judging is not None]
        judging = None
        if judgings:
            judging = Judgments(
                tuple(judgment for part in judgings for judgment in part.groups),
                Account.merge(part.account for part in judgings),
                tuple(id for part in judgings for id in part.ids),
            )
        # The parts were graded at the same time, so the longest time counts.
        seconds = max((part.seconds for part in parts), default=0.0)
        hidden = max((part.hidden for part in parts), default=0.0)
        return cls(groups, judging, seconds, hidden)

    def drop_cost(self) -> Graded:
        """Return the same scores without what their judge calls cost, because that has been counted."""
        if self.judging is None:
            return self
        return replace(self, judging=replace(self.judging, account=Account()))


@dataclass(frozen=True, eq=False)
class StepRewards:
    """The rewards of a step and what is logged about it; groups and rollouts keep their order."""

    rewards: tuple[tuple[float, ...], ...]
    """One tuple per group; NaN for a rollout without any score."""
    metrics: Mapping[str, float] = field(default_factory=dict)
    """For the trainer's log; an undefined number is left out instead of being NaN."""
    columns: Mapping[str, tuple[tuple[str, ...], ...]] = field(default_factory=dict)
    """Texts about each rollout, for a table of completions; shaped like the rewards."""
    results: tuple[Fused, ...] = ()
    """The fused results of consecutive groups; one, unless the step was split."""
    distributions: Mapping[str, np.ndarray] = field(default_factory=dict)
    """Rewards and advantages of all rollouts, for histograms."""
    disputed: tuple[DisputedRollout, ...] = ()
    """The rollouts about which the criteria disagree most, to look at."""
    findings: tuple[Finding, ...] = ()
    """What to change: up to three findings about the last groups of the run (`rubrank.records.findings`)."""

    def flat(self, *, means: bool = False) -> list[float]:
        """All rewards in one list. means: True gives a rollout without any score the mean of its group."""
        groups = map(fill_unknown, self.rewards) if means else self.rewards
        return [reward for group in groups for reward in group]

    @property
    def stopped_by(self) -> tuple[tuple[tuple[str, ...], ...], ...]:
        """The names of the hard gates that stopped each rollout; shaped like the rewards."""
        groups: list[tuple[tuple[str, ...], ...]] = []
        for result in self.results:
            names: Sequence[str] = ()
            stopped_MQ = np.zeros((len(result.batch.scores_MK), 0))
            if result.gate is not None and result.gated is not None:
                names = list(map(str, result.gate.global_quality))
                stopped_MQ = result.gated.stopped_by
            rows = [tuple(compress(names, stopped_Q)) for stopped_Q in stopped_MQ.tolist()]
            for start, end in pairwise(result.batch.starts.tolist()):
                groups.append(tuple(rows[start:end]))
        return tuple(groups)


def fill_unknown(rewards: Sequence[float]) -> list[float]:
    """Replace NaN in the rewards of a group by the mean of the known ones, or by 0 if none is known.

    For trainers that cannot leave a rollout out: its advantage is 0, and the baseline of the others does not change.
    """
    numbers = [reward for reward in rewards if not math.isnan(reward)]
    mean = math.fsum(numbers) / len(numbers) if numbers else 0.0
    return [mean if math.isnan(reward) else reward for reward in rewards]


@refuses_wrong_kinds
class RewardEngine:
    """Computes the rewards of a run, step by step, with one rubric, one rule and the same judges.

    rubric: criteria applied to every response; a query's own rubric is added. Any shape that `grade` takes.
    rule: an expression of `find_rule`, such as "rlvr2+", or a rule.
    options: those of `rubrank.options.EngineOptions`, among them
        gate: constants of the rule's "+", as a `Gate` or by name.
        judges: they decide the criteria that no verifier decides; see docs/judges.md.
        attributes: what is controlled: names, or `Control(name, adjust, start)`. By default reasoning_length and markup
            on judged criteria that several groups share; [] controls nothing.
        workers, cache: worker processes and cache of grading; with 0 workers this process grades.
        records: a .jsonl, .jsonl.gz or .jsonl.zst file to which every group of every step is appended; a `Recording`
            may leave out steps and texts, and write in a separate thread.
        pool: the groups over which the influence of attributes is estimated: those of the "run" so far (the default;
            `state_dict` contains the estimate), of each "batch", or each "group" by itself, exactly as in the paper.
        adjust_criteria: the criteria whose verdicts are adjusted, or "all"; by default those that judges decide.
        scale: "utility" gives advantages of RLVR² instead of rewards, for a trainer that does not scale them itself.
        penalties: what a rule without "+" does with low-quality criteria: "rank" by them, or "ignore" them.
        alarm: what to do at signs of reward hacking: "warn", "stop" (sets `alarm_stops`), or "off"; see docs/alarm.md.
        thinking: whether responses begin inside the reasoning, because the prompt ends in a tag such as `<think>`:
            "prefilled": always; "tags": never; "auto": if an adapter sees that the prompt ends in such a tag.
        prior, attribute_prior, span, seed: constants of RLVR².
    """

    def __init__(
        self, rubric: Any = None, rule: str | Rule = "rlvr2+", **options: Unpack[EngineKeywords]
    ) -> None:
        settings = read_options(EngineOptions, _OWNER, {"rubric": rubric, "rule": rule, **options})
        # Grading
        self.thinking = settings.thinking
        self._workers = settings.workers
        self._cache = settings.cache
        self.judges = None if settings.judges is None else _set_step_deadline(settings.judges)
        self.rubric: Rubric | None = None
        if rubric is not None:
            self.rubric = to_rubric(str(rubric) if isinstance(rubric, Path) else rubric)
            self._check_decidable(self.rubric, "rubric")

        # Fusion
        self.penalties = settings.penalties
        self.rule = make_rule(settings, owner=_OWNER)
        attributes: list[Any] = []  # names were read as AttributeOptions; objects stay as they are
        for attribute in settings.attributes:
            is_options = isinstance(attribute, AttributeOptions)
            attributes.append(make_control(settings, attribute) if is_options else attribute)
        self.controls = parse_controls(attributes)
        # Judges prefer long and formatted answers, so these attributes are controlled by default if there are judges.
        # `attributes: []`, `edition: paper` and `pool: group` turn default control off.
        self._has_default_control = False
        self._uncontrolled_rule = self.rule  # replaces the rule if default control is turned off
        is_decided = "attributes" in settings.model_fields_set or settings.edition is not None
        is_possible = self.judges is not None and is_controllable(self.rule)
        if is_possible and not is_decided and settings.pool != "group":
            self._has_default_control = True
            self.controls = make_default_controls(settings)
        if self.controls:
            self.rule = set_pool(self.rule, settings.pool)
        self._lock = threading.Lock()  # held while a step is fused

        # Records
        records = settings.records
        if records is not None and not isinstance(records, Recording):
            records = Recording(Path(records))
        self.recording = None if records is None else RecordWriter(records)
        self.records = None if records is None else records.path
        self._calls: Counter[tuple[bool, int]] = Counter()  # (training?, step) → calls of `label`

        # Log
        self.alarm = None if settings.alarm == "off" else RewardAlarm()
        self.alarm_stops = False
        """Whether an alarm asks the trainer to stop; only with the option alarm="stop"."""
        self._stops_at_alarm = settings.alarm == "stop"
        self.findings = RunFindings()
        self._score_lines: list[str] = []  # sources, categories … that have their own line
        self._judge_totals = {"cost": 0.0, "tokens": 0.0}
        self._last_fused_at: float | None = None  # when the last training step was fused
        self._has_warned_of_single_group = False
        self._has_logged_control = False
        self.observer: Callable[[Sequence[Group], ScoreTable, StepRewards, int], None] | None = None
        """Called with every training step; `rubrank.training.evolution` sets it."""

    def __getstate__(self) -> dict[str, Any]:
        state = {name: value for name, value in self.__dict__.items() if name != "_lock"}
        state["observer"] = None  # it belongs to the run of this process
        # A criterion that was used holds its verifier, which cannot be pickled, so the rubric's data is sent.
        if self.rubric is not None:
            state["rubric"] = self.rubric.model_dump(exclude_unset=True)
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        rubric = None if state["rubric"] is None else Rubric.model_validate(state["rubric"])
        self.__dict__.update(state, rubric=rubric, _lock=threading.Lock())

    # --------------------------------------------------------------------------------------------------------- steps

    def score(
        self, groups: Sequence[Group], step: int, *, train: bool = True, write: bool = True
    ) -> StepRewards:
        """Return the rewards of all groups of a step.

        train: False for an evaluation, from which the rule does not learn. write: False writes no records.
        """
        groups = self.read_thinking(groups)
        return self.fuse(groups, self.grade(groups), step, train=train, write=write)

    async def score_async(
        self, groups: Sequence[Group], step: int, *, train: bool = True
    ) -> StepRewards:
        """`score` without blocking the event loop, however many judge calls are in flight."""
        started = time.perf_counter()
        groups = self.read_thinking(groups)
        table = await asyncio.to_thread(self.decide, groups)
        graded = await self.ask(table, groups)
        self.check_judgments(graded)
        graded = replace(graded, seconds=time.perf_counter() - started)
        return await asyncio.to_thread(self.fuse, groups, graded, step, train=train)

    def read_thinking(self, groups: Sequence[Group]) -> Sequence[Group]:
        """With thinking="prefilled", return the groups with responses that begin inside the reasoning.

        `score` calls it, for rollouts that were not made by `rollout_of`. `grade` and `fuse` take groups as they are.
        """
        if self.thinking != "prefilled":
            return groups
        return [
            group.model_copy(
                update={"rollouts": tuple(rollout.reopen_thoughts() for rollout in group.rollouts)}
            )
            for group in groups
        ]

    # ------------------------------------------------------------------------------------------------------- grading
    #
    # `grade` does everything in one call. If rollouts arrive one by one, `barrier.py` and the service need more:
    #
    #     decide → ask(compare=False)             each rollout by itself, as a group of one
    #     decide_groups → ask(compare=True)       the whole group, at the end

    def grade(self, groups: Sequence[Group], *, processes: int = 1) -> Graded:
        """Return the scores of some or all groups of a step (1 and 2 in the drawing at the top of the module).

        processes: how many processes grade at the same time; they share the limits of the judges.
        Raises JudgingFailed if too many answers of judges are missing.
        """
        if not groups:
            return Graded()
        started = time.perf_counter()
        judges = self.judges
        if judges is not None and processes > 1:
            judges = divide_limits(judges, processes)
        options = GradeOptions(workers=self._workers, cache=self._cache, judges=judges)
        table = run_grading(groups, self.rubric, options)
        return Graded(table.groups, table.judging, time.perf_counter() - started)

    def decide(self, groups: Sequence[Group]) -> ScoreTable:
        """Return the scores that verifiers give; `ask` adds those of judges."""
        options = GradeOptions(workers=self._workers, cache=self._cache, judged_later=True)
        return run_grading(groups, self.rubric, options)

    def decide_groups(self, table: ScoreTable, groups: Sequence[Group]) -> ScoreTable:
        """Add the scores of verifiers that need the whole group to a table of rollouts that were graded one by one."""
        groups, plans = plan_groups(groups, self.rubric, None, GradeOptions(judged_later=True))
        return grade_whole_groups(table, groups, plans)

    async def ask(
        self,
        table: ScoreTable,
        groups: Sequence[Group],
        *,
        compare: bool | None = None,
        arrived: ArrivedGroup | None = None,
    ) -> Graded:
        """Add the scores of judges to a table. Missing answers raise nothing here; see `check_judgments`.

        compare: False calls only judges that score single rollouts, True only judges that compare; None calls all.
        arrived: the judgments about pairs of a group whose rollouts arrived one by one (`barrier.py`).
        """
        if self.judges is None:
            return Graded(table.groups)
        judged = await judge_table_async(
            table,
            groups,
            self.list_criteria(groups),
            self.judges,
            compare=compare,
            arrived=arrived,
        )
        return Graded(judged.groups, judged.judging)

    def check_judgments(self, graded: Graded) -> None:
        """Raise JudgingFailed if more answers are missing than the judges' `most_missing` allows."""
        if self.judges is not None and graded.judging is not None:
            check_judgments(graded.judging, self.judges)

    # -------------------------------------------------------------------------------------------------------- fusion

    def fuse(
        self,
        groups: Sequence[Group],
        graded: Graded,
        step: int,
        *,
        train: bool = True,
        write: bool = True,
        logged: bool = True,
    ) -> StepRewards:
        """Return the rewards of all groups of a step from their scores (3–8 in the drawing at the top of the module).

        write: False leaves the records to another process.
        logged: False returns only rewards and results, and leaves out step 8: metrics, alarm, findings, the time of the
            step, and columns. That is a third of the work if verifiers decide all criteria.
        """
        if not groups:
            return StepRewards(())
        started = time.perf_counter()
        table = ScoreTable(graded.groups, graded.judging)
        shared = frozenset[str]()  # names of the criteria of the shared rubric
        if self.rubric is not None:
            shared = frozenset(criterion.name for criterion in self.rubric.criteria)

        # 3. Texts, and 4. controls
        controls = ActiveControls()
        if logged or self.controls:
            rollouts = [rollout for group in groups for rollout in group.rollouts]
            features = measure_texts(rollouts)
            controls = select_active_controls(self.controls, features, rollouts, step)
            if controls.columns:
                controls = self._check_controls(controls, table, shared, write)

        # Trainers may score groups in several threads; a rule that learns must see one call at a time.
        with self._lock:
            # 5. Rule and gate
            memory = None if train else self._copy_memory()
            try:
                parts = fuse_in_parts(self.rule, table, controls, self.penalties)
            finally:
                if memory is not None:  # an evaluation must not change what the rule has learnt
                    self.rule.restore(memory)  # type: ignore[attr-defined]

            # 6. Records
            records = None
            if write and self.recording is not None and self.recording.is_due(step, train):
                records = self._make_records(parts, groups, step, train)
                self.recording.write(records, step)

            # 7. Rewards
            group_rewards = _collect_rewards(parts, table)
            rewards = tuple(tuple(rewards_G.tolist()) for rewards_G in group_rewards)
            results = tuple(part.result for part in parts)
            step_rewards = StepRewards(rewards, results=results)
            if train and self.observer is not None:
                self.observer(groups, table, step_rewards, step)
            if not logged:
                return step_rewards

            # 8. What the trainer logs
            metrics = collect_step_metrics(
                results, table, groups, rewards, features, shared, self._score_lines
            )
            if graded.judging is not None:
                metrics |= measure_judges(graded.judging, self._judge_totals)
                metrics["rubrank/judge/waited"] = graded.seconds
                metrics["rubrank/judge/hidden"] = graded.hidden
            if train and self.alarm is not None:
                alarms = self.alarm.add_groups(
                    step, table.groups, rewards, features, find_gamma(results), shared
                )
                self._report_alarms(alarms, write)
                metrics |= self.alarm.metrics()
            if train and write:
                self._log_findings(parts, groups, step, records)
            metrics |= self._measure_time(started, graded.seconds, train)
        advantages = [standardise_rewards(rewards_G) for rewards_G in group_rewards]
        return replace(
            step_rewards,
            metrics=metrics,
            columns=make_completion_columns(table, step_rewards.stopped_by),
            distributions={
                "rubrank/rewards": np.concatenate(group_rewards),
                "rubrank/advantages": np.concatenate(advantages),
            },
            disputed=find_disputed(table, groups, rewards),
            findings=tuple(self.findings.latest),
        )

    def _check_controls(
        self, controls: ActiveControls, table: ScoreTable, shared: frozenset[str], write: bool
    ) -> ActiveControls:
        """Return the controls of a step; none if control is on by default and has no criterion to act on.

        Default control needs criteria that judges decide and that several groups share. The first time it acts, a line
        in the log says so. If the user chose the controls, a warning says once that one group is too few.
        """
        if not self._has_default_control:
            if len(table.groups) == 1 and not self._has_warned_of_single_group:
                self._has_warned_of_single_group = warn_of_single_group(_OWNER, self.rule)
            return controls
        # The linear stage learns over the run, so criteria of the shared rubric count even if one group has them.
        judged = list_shared_judged(table.groups, shared if is_linear(self.rule) else ())
        if not judged:
            return ActiveControls()
        if write and not self._has_logged_control:
            self._has_logged_control = True
            names = ", ".join(judged[:_MOST_NAMES])
            if len(judged) > _MOST_NAMES:
                names += f" and {len(judged) - _MOST_NAMES} more"
            _log.warning(
                "judges decide %s: their preference for reasoning_length and markup is estimated over the run and "
                "removed from the reward. `attributes: []` turns this off; `attributes: [NAME, …]` controls others. "
                "See `rubrank help attributes`.",
                names,
            )
        return controls

    def _report_alarms(self, alarms: Sequence[Alarm], write: bool) -> None:
        """Log the alarms that begin with a step, and ask the trainer to stop if the user chose that."""
        if write:
            for alarm in alarms:
                _log.warning("alarm: %s. See `rubrank help alarm`.", alarm.text)
        if alarms and self._stops_at_alarm:
            self.alarm_stops = True

    def _measure_time(self, started: float, graded_seconds: float, train: bool) -> dict[str, float]:
        """Return the seconds that the rewards of a step took, and their share of the time between training steps.

        started: when fusing began. graded_seconds: how long the trainer waited for the scores before that.
        """
        now = time.perf_counter()
        seconds = graded_seconds + now - started
        times = {"rubrank/seconds": seconds}
        if train:
            if self._last_fused_at is not None:
                share = seconds / (now - self._last_fused_at)
                times["rubrank/share_of_step"] = min(share, 1.0)
            self._last_fused_at = now
        return times

    def _log_findings(
        self,
        parts: Sequence[FusedPart],
        groups: Sequence[Group],
        step: int,
        records: Sequence[GroupRecord] | None,
    ) -> None:
        """Examine some groups, evenly spread over the step, and log what should be changed.

        records: those of all groups of the step; None if the step is not recorded.
        """
        every = math.ceil(len(groups) / GROUPS_OF_STEP)
        if records is None:
            examined = self._make_records(parts, groups, step, train=True, every=every)
        else:
            examined = list(records[::every])
        for finding in self.findings.add(examined, step):
            _log.warning("what to change: %s", finding)

    def label(self, step: int, *, train: bool = True) -> str:
        """Return a unique prefix for the group ids of a call: "12", then "12.1"; "eval-12" in evaluations."""
        with self._lock:
            calls = self._calls[train, step]
            self._calls[train, step] += 1
        prefix = "" if train else "eval-"
        suffix = f".{calls}" if calls else ""
        return f"{prefix}{step}{suffix}"

    # ------------------------------------------------------------------------------------------------------- records

    def _make_records(
        self,
        parts: Sequence[FusedPart],
        groups: Sequence[Group],
        step: int,
        train: bool,
        every: int = 1,
    ) -> list[GroupRecord]:
        """Make the records of a step. every: n makes only those of every n-th group of a part."""
        metadata = {"mode": "train" if train else "eval"}
        records = []
        for part in parts:
            part_groups = groups[part.groups]
            numbers = range(0, len(part_groups), every)
            part_records = records_of(
                part.result,
                part.table,
                groups=part_groups,
                step=step,
                metadata=metadata,
                only=numbers,
            )
            for number, record in zip(numbers, part_records, strict=True):
                origin = find_origin(part_groups[number])
                update = {"metadata": {**record.metadata, **origin}}
                records.append(record.model_copy(update=update))
        return records

    def rewind(self, step: int) -> int:
        """Remove the records that a run resumed at `step` will write again; returns how many."""
        if self.recording is None or self.records is None:
            return 0
        self.recording.reset()
        return rewind_records(self.records, step)

    def drop_half_record(self) -> None:
        """Remove a record that a killed run left half written; call it in the one process that writes."""
        if self.records is not None:
            drop_half_record(self.records)

    def finish_records(self) -> None:
        """Wait until all records are on disk; raises what went wrong while writing them."""
        if self.recording is not None:
            self.recording.wait()

    def log_last_findings(self, step: int) -> None:
        """Log findings about the groups since the last findings; called at the end of a run."""
        for finding in self.findings.finish(step):
            _log.warning("what to change: %s", finding)

    # --------------------------------------------------------------------------------------------------------- state

    @property
    def scale(self) -> str:
        """The scale of the rewards: "ranking", or "utility" for advantages."""
        return str(getattr(find_parts(self.rule).controlling, "scale", "ranking"))

    def check_scaling(self, owner: str, setting: str, scaled: bool) -> None:
        """Raise if the trainer would scale rewards that are advantages already.

        Scaling would remove the information about agreement in their size. owner, setting: named in the message.
        """
        if scaled and self.scale == "utility":
            raise InvalidInput(
                owner,
                setting,
                allowed="off with scale='utility', whose rewards are advantages already",
                got="on",
                remedy="Turn it off, or leave scale out.",
            )

    def leave_out_default_control(self) -> None:
        """Turn default control off: for trainers whose checkpoints do not contain the engine's state."""
        if self._has_default_control:
            self.rule = self._uncontrolled_rule
            self.controls = ()
            self._has_default_control = False

    @property
    def remembers(self) -> bool:
        """Whether the rule, or a rule inside it, learns from step to step."""
        return has_memory(self.rule)

    def _copy_memory(self) -> dict[str, Any] | None:
        """Return what the rule has learnt, as JSON data; None for a rule that does not learn."""
        return self.rule.state() if self.remembers and isinstance(self.rule, Stateful) else None

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint must contain, as JSON data."""
        return {
            "version": _STATE_VERSION,
            "rule": self.rule.name,
            "memory": self._copy_memory(),
            "lines": list(self._score_lines),
            "judge": dict(self._judge_totals),
            "alarm": None if self.alarm is None else self.alarm.state_dict(),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state; raises if it is incomplete, or has the memory of a rule that is not this one.

        A state without a memory fits every rule: its rule learned nothing, so nothing would be lost.
        """
        missing = [name for name in self.state_dict() if name not in state]
        if state.get("version") != _STATE_VERSION or missing:
            without = f" without {', '.join(missing)}" if missing else ""
            raise InvalidInput(
                _OWNER,
                "state",
                allowed=f"complete, and of version {_STATE_VERSION}",
                got=f"version {state.get('version')!r}{without}",
                remedy="Resume with the version of rubrank that saved it.",
            )
        self._score_lines = list(state["lines"])
        self._judge_totals |= state["judge"]
        if self.alarm is not None and state["alarm"] is not None:
            self.alarm.load_state_dict(state["alarm"])
        if state["memory"] is None:
            return
        if self.remembers and isinstance(self.rule, Stateful):
            self.rule.restore(state["memory"])
        elif state["rule"] != self.rule.name:
            # The same rule is accepted: it learns nothing now because attributes are no longer controlled.
            raise InvalidInput(
                _OWNER,
                "rule",
                allowed=f"{state['rule']!r}, whose state the checkpoint contains",
                got=repr(self.rule.name),
                remedy="Resume with the same rule, or start a new run from the checkpoint's model.",
            )

    # ------------------------------------------------------------------------------------------------------- rubrics

    def check_rubric(self, own_rubric: Any, where: str = "rubric") -> None:
        """Raise if a query cannot be scored with the shared rubric and its own (None: it has none)."""
        rubric = combine_rubrics(self.rubric, own_rubric, where)
        self._check_decidable(rubric, where)
        if all(criterion.value_layer != "quality" for criterion in rubric.criteria):
            raise InvalidInput(
                where,
                "criteria",
                allowed='some in the layer "quality"',
                got="gates only",
                remedy="Add a criterion to rank by.",
            )

    def check_rubrics(self, rubrics: Iterable[tuple[Any, str]]) -> int:
        """Check the rubrics of many queries, given as (own rubric, where it is); returns how many there are."""
        count = 0
        checked = set()  # queries share rubrics: each is checked once
        for own_rubric, where in rubrics:
            count += 1
            key = repr(own_rubric)
            if key not in checked:
                self.check_rubric(own_rubric, where)
                checked.add(key)
        return count

    def _check_decidable(self, rubric: Rubric, where: str) -> None:
        """Raise for a criterion that neither a verifier nor a judge decides."""
        for criterion in rubric.criteria:
            criterion.check_installed()
            judge = None if self.judges is None else self.judges.judge_of(criterion.name)
            if not criterion.judged or judge is not None:
                continue
            remedy = "Pass judges, or name a verifier."
            similar_names = get_close_matches(criterion.name, VERIFIERS, n=1)
            if similar_names:
                remedy = f"Did you mean {similar_names[0]!r}?"
            raise InvalidInput(
                where,
                f"criterion {criterion.name!r}",
                allowed="decided by a verifier or a judge",
                got="a judged criterion, and no judge for it",
                remedy=remedy,
            )

    def list_criteria(self, groups: Sequence[Group]) -> list[tuple[Criterion, ...]]:
        """Return the criteria of each group: shared ones and those of the query."""
        return [rubric.criteria for rubric in find_rubrics(groups, self.rubric)]


def _collect_rewards(parts: Sequence[FusedPart], table: ScoreTable) -> list[np.ndarray]:
    """Return the rewards of each group of a step, NaN for rollouts whose reward is unknown."""
    unknown_M = np.concatenate([part.find_unknown() for part in parts])
    reward_M = np.concatenate([part.result.reward for part in parts])
    reward_M = np.where(unknown_M, np.nan, reward_M)
    group_ends = np.cumsum([len(group.scores) for group in table.groups])
    return np.split(reward_M, group_ends[:-1])


# -------------------------------------------------------------------------------------------------------------- judges


def _set_step_deadline(judges: Any) -> Judges:
    """Load the judges, and give them a deadline for all calls of a step if they have none."""
    loaded = load_judges(judges)
    if "deadline" in loaded.model_fields_set:
        return loaded
    deadline = STEP_DEADLINE
    if loaded.on_outage == "wait" and "outage_wait" in loaded.model_fields_set:
        # The deadline must leave time to wait for the outage to end, and for the remaining calls.
        deadline = max(STEP_DEADLINE, loaded.outage_wait + _AFTER_OUTAGE)
    return loaded.model_copy(update={"deadline": deadline})


def divide_limits(judges: Judges, processes: int) -> Judges:
    """Return the judges with the limits of one process out of several that call them at the same time."""
    return judges.model_copy(update={"processes": judges.processes * processes})
