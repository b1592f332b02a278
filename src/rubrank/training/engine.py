"""The contract with trainers, and the core that all adapters share: the groups of a step → rewards.

    >>> from rubrank.rollouts.rollout import Group, Rollout
    >>> from rubrank.training.engine import RewardEngine
    >>> engine = RewardEngine(rubric=["EmptyAnswer", {"name": "WordCount", "params": {"low": 3}}])
    >>> said = [Rollout(prompt="Explain tides.", response=text) for text in ("The moon pulls.", "Moon.", "")]
    >>> step = engine.score([Group(id="0/0", rollouts=tuple(said))], step=0)
    >>> step.rewards
    ((1.0, 0.25, 0.0),)
    >>> round(step.metrics["rubrank/WordCount/mean"], 2), round(step.metrics["rubrank/gate/stopped"], 2)
    (0.33, 0.33)

A reward depends on the whole group, so that is what an engine takes: `grade` decides the criteria (rules, then judges),
`fuse` turns the scores of all groups into rewards, `score` does both. Trainers that hand over less than a group at a
time, or a batch that is cut over processes, come by way of `rubrank.training`.

A reward is NaN where nothing at all is known about a rollout: no criterion that is ranked by has a score, and no gate
has stopped it. A trainer leaves such a rollout out (TRL: None).

A group's id names it in the records, and the draws of `attenuate` depend on it: `label` gives ids that no other step
has.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from rubrank.errors import InvalidInput, UnknownName, refuses_wrong_kinds
from rubrank.fusion.adjust import Pool
from rubrank.fusion.attribute import Attribute
from rubrank.fusion.attributes.common import WORKER_ROWS
from rubrank.fusion.gate import Gate
from rubrank.fusion.options import has_part, part_of
from rubrank.fusion.rlvr2 import Scale
from rubrank.fusion.rule import Rule, Stateful, fused_by
from rubrank.fusion.rules import find_rule
from rubrank.judges.judgments import Judgments
from rubrank.records.writing import Recording, RecordWriter
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.public import to_rubric
from rubrank.rubrics.rubric import Criterion, Rubric
from rubrank.scores.table import Penalties, ScoreTable
from rubrank.training.asked import Asked
from rubrank.training.controls import Control, ControlledStep, changed, controls_of, pooled, remembers, warned_alone
from rubrank.training.measuring import Figures, by_group, controlled, figures_of, joined, keep_parts
from rubrank.training.parts import FusedPart, parts_of
from rubrank.training.rewards import Graded, StepRewards, by_groups, unknown_of, without_unknown
from rubrank.training.rollouts import Thinking, read_prefilled
from rubrank.training.step_judges import dividing, step_judges

if TYPE_CHECKING:
    from rubrank.grading.grade import MeasuredRows
    from rubrank.judges.arriving import Arrived

_VERSION = 1
_OWNER = "RewardEngine"
_MOST_STEPS = 10_000  # of which it is known how often they came


@refuses_wrong_kinds
class RewardEngine:
    """Rewards by one rubric, one rule and the same judges, step after step.

    rubric: what every query is asked; a query's own rubric is added. Any shape that `grade` takes.
    rule: an expression of `find_rule`, such as "rlvr2+", or a rule. gate: options of its "+".
    judges: decide what no verifier can; see docs/judges.md.
    attributes: what is controlled: names, or `Control(name, adjust, start)`.
    workers, cache: of grading; 0 workers is this process.
    records: a .jsonl, .jsonl.gz or .jsonl.zst file to which every group of every step is appended; a `Recording` may
        leave out steps and texts, and have a thread write.
    seed: of the draws of `attenuate`.
    pool: what the influence of attributes is estimated over: the "run" (the default: what the rule has learnt is in
        `state_dict`), each "batch" by itself, or each "group" by itself, exactly as in the paper.
    adjust_criteria: the criteria whose verdicts are adjusted, or "all"; None: those that judges decide.
    scale: "utility" gives advantages of RLVR² instead of rewards, for a trainer that does not scale them itself.
    penalties: criteria of low quality under a rule without "+": "rank", or "ignore".
    thinking: how responses begin: "prefilled", within reasoning that the prompt opened, as if a chat template ends in
        `<think>` (one that was cut off there has no answer); "tags", as they are; "auto", within reasoning if an
        adapter sees that the prompt ends in such a tag.
    """

    def __init__(
        self,
        rubric: Any = None,
        rule: str | Rule = "rlvr2+",
        *,
        gate: Gate | None = None,
        judges: Any = None,
        attributes: Iterable[str | Attribute | Control] = (),
        workers: int | None = 0,
        cache: str | Path | None = None,
        records: str | Path | Recording | None = None,
        seed: int = 0,
        pool: Pool | None = None,
        adjust_criteria: Sequence[str] | Literal["all"] | None = None,
        scale: Scale = "ranking",
        penalties: Penalties = "rank",
        thinking: Thinking = "auto",
    ) -> None:
        for name, given, kind in (("thinking", thinking, Thinking), ("penalties", penalties, Penalties)):
            if given not in get_args(kind):
                raise UnknownName.of(_OWNER, name, given, get_args(kind))
        if pool is not None and pool not in get_args(Pool):
            raise UnknownName.of(_OWNER, "pool", pool, get_args(Pool))
        if cache is not None and not isinstance(cache, str | Path):
            raise InvalidInput(_OWNER, "cache", "a file", repr(cache), "")
        self.thinking = thinking
        self.rule = find_rule(rule, gate=gate)
        self.controls = controls_of(attributes)
        if has_part(self.rule) and seed:
            self.rule = changed(self.rule, seed=seed)
        if scale != "ranking":
            self.rule = changed(self.rule, scale=scale)
        self.penalties = penalties
        if self.controls:
            changed(self.rule)  # raises for a rule that cannot control
            self.rule = pooled(self.rule, pool)
            if adjust_criteria is not None:
                self.rule = changed(self.rule, adjust_criteria=adjust_criteria)
        self.judges = None if judges is None else step_judges(judges)
        self.rubric = None if rubric is None else to_rubric(str(rubric) if isinstance(rubric, Path) else rubric)
        if self.rubric is not None:
            self._asked.check_decided(self.rubric, "rubric")
        self.recording = None if records is None else _recording(records)
        self.records = None if self.recording is None else self.recording.to.path
        if workers is not None and workers < 0:
            raise InvalidInput(_OWNER, "workers", "0 or more", str(workers), "0 grades in this process.")
        self._workers, self._cache = workers, cache
        self._lines: list[str] = []  # sources, categories … with metrics of their own, in the order of meeting them
        self._calls: dict[tuple[bool, int], int] = {}
        self._ended: float | None = None
        self._warned_alone = False
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        kept = {name: value for name, value in self.__dict__.items() if name != "_lock"}
        # A criterion in use holds its verifier, which only its own process has: the data go, and are read again.
        kept["rubric"] = None if self.rubric is None else self.rubric.model_dump(exclude_unset=True)
        return kept

    def __setstate__(self, state: dict[str, Any]) -> None:
        rubric = None if state["rubric"] is None else Rubric.model_validate(state["rubric"])
        self.__dict__.update(state, rubric=rubric, _lock=threading.Lock())

    # --------------------------------------------------------------------------------------------------------- steps

    def score(self, groups: Sequence[Group], step: int, *, train: bool = True, write: bool = True) -> StepRewards:
        """Rewards of all groups of a step. `train=False`: an evaluation, from which no rule learns."""
        groups = self._read(groups)  # once: what is measured of a rollout is kept with it
        return self.fuse(groups, self.grade(groups, step=step), step, train=train, write=write)

    def grade(self, groups: Sequence[Group], *, processes: int = 1, step: int | None = None) -> Graded:
        """Scores of these groups; may be some of the groups of a step, or none.

        processes: how many grade at the same time, and divide the limits of judges.
        step: for which the texts are measured too, so that `fuse` need not, which many processes may do at once.
        """
        from rubrank.grading.grade import grade_and_measure

        if not groups:
            return Graded()
        begun = time.perf_counter()
        judges = None if self.judges is None else dividing(self.judges, processes)
        groups = self._read(groups)
        table, known = grade_and_measure(
            groups, self.rubric, None if step is None else WORKER_ROWS, judges, self._workers, self._cache
        )
        figures = () if step is None else by_group(self._measured(groups, step, known), groups)
        if self.recording is not None:
            keep_parts([rollout for group in groups for rollout in group.rollouts], known)
        return Graded(table.groups, table.judging, time.perf_counter() - begun, figures=figures)

    def decide(self, groups: Sequence[Group]) -> ScoreTable:
        """What programs decide about these groups; judges are asked by `ask`."""
        from rubrank.grading.grade import grade

        return grade(self._read(groups), self.rubric, workers=self._workers, cache=self._cache)

    def decide_groups(self, table: ScoreTable, groups: Sequence[Group]) -> ScoreTable:
        """The table of rollouts that were graded one by one, with what can be decided about whole groups only."""
        from rubrank.grading.grade import grade_group_criteria

        criteria = [self.whole_rubric(group.rubric, f"group {group.id!r}").criteria for group in groups]
        return grade_group_criteria(table, self._read(groups), criteria)

    def _read(self, groups: Sequence[Group]) -> Sequence[Group]:
        """With "prefilled", responses as what they are; adapters have done it, callers that make rollouts have not."""
        return groups if self.thinking != "prefilled" else [read_prefilled(group) for group in groups]

    async def ask(
        self,
        table: ScoreTable,
        groups: Sequence[Group],
        *,
        compare: bool | None = None,
        arrived: Arrived | None = None,
    ) -> Graded:
        """The scores with what judges say; each call ends by itself, and nothing is raised for what is missing.

        compare: False: only judges that need no other rollouts of the group; True: only those that do.
        arrived: what is known of a group that came in rollout by rollout (`training/shapes/early.py`).
        """
        from rubrank.grading.judge_table import judge_table_async

        if self.judges is None:
            return Graded(table.groups)
        groups = self._read(groups)
        criteria = [self.whole_rubric(group.rubric, f"group {group.id!r}").criteria for group in groups]
        found = await judge_table_async(table, groups, criteria, self.judges, compare=compare, arrived=arrived)
        return Graded(found.groups, found.judging)

    async def ask_pairs(
        self, pairs: Sequence[Group], criteria: Sequence[Criterion], wanted: Sequence[np.ndarray], arrived: Arrived
    ) -> Judgments:
        """What judges say about groups of two, before all of their group are there."""
        from rubrank.judges.judging import judge_groups_async

        assert self.judges is not None
        own = [criteria] * len(pairs)
        return await judge_groups_async(self._read(pairs), own, wanted, self.judges, arrived=arrived)

    async def score_async(
        self, groups: Sequence[Group], step: int, *, train: bool = True, write: bool = True
    ) -> StepRewards:
        """`score` in an event loop, which goes on meanwhile, however many wait for judges."""
        begun, groups = time.perf_counter(), self._read(groups)
        graded = await self.ask(await asyncio.to_thread(self.decide, groups), groups)
        graded = replace(self.checked(graded), seconds=time.perf_counter() - begun)
        return await asyncio.to_thread(self.fuse, groups, graded, step, train=train, write=write)

    def checked(self, graded: Graded) -> Graded:
        """The same; JudgingFailed if more answers of judges are missing than their `most_missing` allows."""
        from rubrank.judges.judging import checked

        if self.judges is not None and graded.judging is not None:
            checked(graded.judging, self.judges)
        return graded

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
        """Rewards of all groups of a step from their scores. `write=False` leaves the records to another process.

        logged: False leaves out the metrics and all columns but the gates': a third of the work of rule criteria.
        """
        from rubrank.training.metrics import metrics_of, stopped_of, texts_of
        from rubrank.training.progress import score_lines

        if not groups:
            return StepRewards(())
        groups = self._read(groups)
        begun, rollouts = time.perf_counter(), [rollout for group in groups for rollout in group.rollouts]
        table = ScoreTable(graded.groups, graded.judging)
        figures = joined(graded.figures) if graded.figures else self._measured(groups, step)
        control = controlled(self.controls, figures, rollouts, step)
        self._warned_alone = self._warned_alone or warned_alone(_OWNER, self.rule, len(groups), control)
        with self._lock:  # trainers may score groups in several threads: a rule that learns does so once a time
            parts = self._fused(table, control, train)
            if write and self.recording is not None and self.recording.takes(step, train):
                self._write(parts, groups, step, train)
            unknown = np.concatenate([unknown_of(one.result, one.part.table) for one in parts])
            reward = np.concatenate([one.result.reward for one in parts])
            known = by_groups(np.where(unknown, np.nan, reward).tolist(), table)
            if not logged:
                return StepRewards(known, {}, stopped_of(parts))
            metrics = metrics_of(parts, table, rollouts, figures, self._shared)
            gate = getattr(self.rule, "gate", None)
            metrics |= score_lines(parts, gate, unknown, table, groups, self._shared, self._lines)
            metrics["rubrank/unknown"] = float(unknown.mean())
            metrics |= self._times(graded.seconds + time.perf_counter() - begun, train)
            if graded.judging is not None:
                metrics |= {"rubrank/judge/waited": graded.seconds, "rubrank/judge/hidden": graded.hidden}
        return StepRewards(known, metrics, texts_of(parts, table))

    def _measured(self, groups: Sequence[Group], step: int, known: MeasuredRows | None = None) -> Figures:
        return figures_of([rollout for group in groups for rollout in group.rollouts], self.controls, step, known)

    def _fused(self, table: ScoreTable, control: ControlledStep, train: bool) -> list[FusedPart]:
        values = control.values_MD
        rule = self.rule if values is None else changed(self.rule, adjust=control.adjust)
        before = None if train else self.state_dict()
        found = []
        try:
            for part in parts_of(table, rule):
                batch = part.table.batch(
                    attributes=None if values is None else values[part.rows],
                    attribute_names=control.columns,
                    penalties=self.penalties,
                )
                found.append(FusedPart(part, fused_by(rule, batch)))
        finally:
            if before is not None:  # what is evaluated must not teach
                self.load_state_dict(before)
        return found

    def label(self, step: int, *, train: bool = True) -> str:
        """A name for the next batch of a step, for ids of groups: "12", then "12.1"; "eval-12" of evaluations."""
        with self._lock:
            calls = self._calls.pop((train, step), 0)
            self._calls[train, step] = calls + 1  # the last: asynchronous trainers come back to earlier steps
            while len(self._calls) > _MOST_STEPS:
                del self._calls[next(iter(self._calls))]
        return f"{'' if train else 'eval-'}{step}{f'.{calls}' if calls else ''}"

    def _times(self, seconds: float, train: bool) -> dict[str, float]:
        now, before = time.perf_counter(), self._ended
        found = {"rubrank/seconds": seconds}
        if train:
            self._ended = now
            if before is not None and now > before:
                found["rubrank/share_of_step"] = min(seconds / (now - before), 1.0)
        return found

    # ------------------------------------------------------------------------------------------------------- records

    def _write(self, parts: Sequence[FusedPart], groups: Sequence[Group], step: int, train: bool) -> None:
        from rubrank.records.record import records_of
        from rubrank.training.progress import with_origin

        assert self.recording is not None
        metadata = {"mode": "train" if train else "eval"}
        records = (
            records_of(one.result, one.part.table, groups=groups[one.part.groups], step=step, metadata=metadata)
            for one in parts
        )
        paired = zip(chain.from_iterable(records), groups, strict=True)
        told = (one.model_copy(update={"metadata": with_origin(one.metadata, group)}) for one, group in paired)
        self.recording.write(told, step)

    def rewind(self, step: int, place: Mapping[str, Any] | None = None) -> int:
        """Take away the records that a run resumed at `step` makes again; returns how many.

        place: where they ended at the checkpoint, from `records_place`; None: it is looked for.
        """
        from rubrank.training.state import rewind

        self.finish_records()
        return 0 if self.records is None else rewind(self.records, step, place)

    def drop_half_record(self) -> None:
        """Before a run begins, in the one process that writes: what a run that was killed left half written goes."""
        from rubrank.training.state import drop_half

        if self.records is not None:
            drop_half(self.records)

    def records_place(self) -> dict[str, Any] | None:
        """Where the records end now, once all are on disk: a checkpoint keeps it for `rewind`."""
        return None if self.recording is None else self.recording.place()

    def finish_records(self) -> None:
        """Wait until all records are on disk; raises what went wrong with writing them."""
        if self.recording is not None:
            self.recording.wait()

    # --------------------------------------------------------------------------------------------------------- state

    @property
    def scale(self) -> str:
        """Of the rewards: "ranking", or "utility" for advantages."""
        return str(getattr(part_of(self.rule, "rule", "ordinal"), "scale", "ranking"))

    def check_scaling(self, owner: str, setting: str, scaled: bool) -> None:
        """Raise if the trainer would scale advantages once more: what they say about agreement would be lost."""
        if scaled and self.scale == "utility":
            allowed = "off with scale='utility', whose rewards are advantages already"
            raise InvalidInput(owner, setting, allowed, "on", "Turn it off, or leave scale out.")

    @property
    def _shared(self) -> frozenset[str]:
        """Names of the criteria that every query is asked."""
        return frozenset() if self.rubric is None else frozenset(c.name for c in self.rubric.criteria)

    @property
    def remembers(self) -> bool:
        """Does the rule learn from step to step?"""
        return remembers(self.rule)

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint must carry, as JSON can hold it."""
        memory = self.rule.state() if self.remembers and isinstance(self.rule, Stateful) else None
        return {"version": _VERSION, "rule": self.rule.name, "memory": memory, "lines": list(self._lines)}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from there; raises for the state of another rule."""
        if state.get("version") != _VERSION:
            got = repr(state.get("version"))
            raise InvalidInput(_OWNER, "state", f"of version {_VERSION}", got, "Resume with the rubrank that saved it.")
        lost = sorted({"rule", "memory", "lines"} - set(state))
        if lost:
            remedy = "It is damaged, or of a version before the first release."
            raise InvalidInput(_OWNER, "state", "whole", f"no {lost[0]!r}", remedy)
        self._lines = list(state["lines"])
        if state["memory"] is None:
            return
        if not (self.remembers and isinstance(self.rule, Stateful)):
            if state["rule"] == self.rule.name:
                return  # what it knew about attributes, which are not controlled any more
            raise InvalidInput(
                _OWNER,
                "rule",
                f"{state['rule']!r}, whose state the checkpoint has",
                repr(self.rule.name),
                "Resume with the same rule, or start a new run from the checkpoint's model.",
            )
        self.rule.restore(state["memory"])

    # -------------------------------------------------------------------------------------------------------- checks

    def check_rubric(self, own: Any, where: str = "rubric") -> None:
        """Can all of a query be decided, by its own rubric (None: it has none) and the shared one? Raises if not."""
        self._asked.check(own, where)

    def check_rubrics(self, named: Iterable[tuple[Any, str]]) -> int:
        """The same for many queries, of each its own rubric and where it stands; returns how many there are."""
        number, seen = 0, set()
        for own, where in named:
            number += 1
            if repr(own) not in seen:  # queries share rubrics: each is tried once
                self.check_rubric(own, where)
                seen.add(repr(own))
        return number

    def whole_rubric(self, own: Any, where: str) -> Rubric:
        """All that a query is asked: the shared rubric, and its own, which replaces what has the same name."""
        return self._asked.whole(own, where)

    @property
    def _asked(self) -> Asked:
        return Asked(self.rubric, self.judges)


def _recording(given: str | Path | Recording) -> RecordWriter:
    return RecordWriter(given if isinstance(given, Recording) else Recording(Path(given)))


__all__ = ["Control", "Graded", "RewardEngine", "StepRewards", "without_unknown"]
