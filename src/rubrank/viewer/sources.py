"""What `rubrank view` opens besides records, and how each of it becomes a run of records.

    records, a training folder     read as they grow (run.py)
    scores                         fused as the options say, as `rubrank record` does
    rollouts and a rubric          graded and fused some groups at a time, while the page is open already
    a scored run of `eval`         benchmarks with intervals; it has no groups
    drafted rubrics                a page of their own (drafts.py)

What is fused here is kept in a temporary file of records, which is read like any other and removed at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rubrank._files import require_file
from rubrank._folders import make_folder
from rubrank.errors import InvalidInput, RubrankError
from rubrank.evaluation.runs import EvalRun, find_runs
from rubrank.fusion.options import is_local, make_fuse_rule
from rubrank.options import FuseOptions
from rubrank.records.files import record_files, write_records
from rubrank.records.record import record_table
from rubrank.rollouts.groups import read_rollouts
from rubrank.rollouts.rollout import Group
from rubrank.tables.columns import Columns
from rubrank.tables.sources import find_files, format_of
from rubrank.viewer.run import check_source

_FIRST_GROUPS = 4  # graded before the page opens, so that a wrong rubric is refused at once
_GROUPS_AT_ONCE = 16
_KINDS = "records, scores, rollouts with `rubric`, a training folder, a scored run of `eval`, or drafted rubrics"


@dataclass(frozen=True)
class OpenOptions:
    """How sources are read that are not records."""

    rubric: str | None = None
    judges: Any = None
    rollouts: Path | None = None
    """The rollouts that scores belong to, to show their texts."""
    columns: Columns | None = None
    """Where score tables hold what."""
    rollout_columns: dict[str, Any] | None = None
    """Where files of rollouts hold what."""
    fusion: FuseOptions = field(default_factory=FuseOptions)
    """How scores are fused; the page can fuse every group in another way."""


@dataclass
class OpenedSource:
    """One argument of `rubrank view`."""

    path: Path
    """As it was given."""
    records: Path | None = None
    """The records to show; None for runs of `eval`."""
    feed: GradingFeed | None = None
    """What still adds records."""
    evaluation: list[EvalRun] = field(default_factory=list)


class GradingFeed:
    """Grades groups in a thread and appends them, fused, to a file of records."""

    def __init__(self, groups: Sequence[Group], options: OpenOptions, records: Path) -> None:
        self.total = len(groups)
        self.done = 0
        self.problem = ""
        self._groups = groups
        self._options = options
        self._rule = make_fuse_rule(options.fusion)
        # A rule that normalizes over the batch gets all groups at once: parts would have other rewards.
        self._first_groups = _FIRST_GROUPS if is_local(self._rule) else len(groups)
        self._records = records
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._grade_rest, name="rubrank view: grading", daemon=True
        )

    def grade_first(self) -> None:
        """Grade some groups in this thread; raises what is wrong with rubric, judges or rollouts."""
        self._grade(self._groups[: self._first_groups])

    def start(self) -> None:
        """Grade the rest."""
        self._thread.start()

    def stop(self) -> None:
        """End after the groups that are being graded."""
        self._stopped.set()
        if self._thread.ident is not None:
            self._thread.join(timeout=10)

    def _grade_rest(self) -> None:
        try:
            while self.done < self.total and not self._stopped.is_set():
                self._grade(self._groups[self.done : self.done + _GROUPS_AT_ONCE])
        except (RubrankError, OSError) as error:
            self.problem = f"Grading ended after {self.done} of {self.total} groups: {error}"

    def _grade(self, groups: Sequence[Group]) -> None:
        from rubrank.grading.grade import grade
        from rubrank.studies.replay.log import Logged, make_batch

        table = grade(groups, self._options.rubric, judges=self._options.judges, workers=0)
        table, batch = make_batch(Logged(table), self._options.fusion)
        write_records(
            self._records, record_table(table, self._rule, groups=groups, batch=batch), append=True
        )
        self.done += len(groups)


def open_sources(
    paths: Sequence[Path], options: OpenOptions, cleanup: ExitStack
) -> list[OpenedSource]:
    """Every path as something that can be shown; raises for the first that cannot. cleanup: removes temporary files."""
    return [_open_source(path, options, cleanup) for path in paths]


def _open_source(path: Path, options: OpenOptions, cleanup: ExitStack) -> OpenedSource:
    if not path.exists() and not record_files(path, missing_ok=True):
        require_file(path)
    try:
        check_source(path)
    except InvalidInput as error:
        record_problem = error
    else:
        for name in ("rubric", "judges", "rollouts"):
            if getattr(options, name) is not None:
                remedy = "Records are shown as they were graded and fused."
                raise InvalidInput(
                    "view", name, "given with rollouts or scores", f"records: {path}", remedy
                )
        for name in sorted(options.fusion.model_fields_set):
            remedy = "Change the rule, weights and gates on the page, or fuse again with `rubrank record`."
            raise InvalidInput(
                "view", name, "given with rollouts or scores", f"records: {path}", remedy
            )
        return OpenedSource(path, path)
    evaluation = find_runs(path)
    if evaluation:
        return OpenedSource(path, evaluation=evaluation)
    if path.is_dir():
        got = f"the folder {path}, which has neither records nor scored runs"
        remedy = "A run that has just begun has records after its first step."
        raise InvalidInput("view", "sources", _KINDS, got, remedy)
    if path.is_file() and not path.read_bytes().strip():
        raise record_problem
    check_table_file(path)
    target = Path(cleanup.enter_context(make_folder("view"))) / "records.jsonl"
    if options.rubric is None:
        try:
            write_records(target, _fuse_scores(path, options))
            return OpenedSource(path, target)
        except RubrankError as error:
            score_problem = error
        groups = _read_graded_by_own_rubrics(path, options, score_problem)
    else:
        groups = list(read_rollouts(str(path), options.rollout_columns).groups)
    if options.fusion.attributes:
        remedy = f"Grade first: rubrank grade {path}, then rubrank view SCORES --rollouts {path}."
        raise InvalidInput("view", "attributes", "given with scores", f"rollouts: {path}", remedy)
    feed = GradingFeed(groups, options, target)
    feed.grade_first()
    return OpenedSource(path, target, feed)


def check_table_file(path: Path) -> None:
    """Raise for a file that is no table, by its name: a rubric, a picture, notes."""
    try:
        format_of(find_files(str(path))[0])
    except RubrankError:
        raise InvalidInput("view", "sources", _KINDS, str(path), "") from None


def _fuse_scores(path: Path, options: OpenOptions) -> Iterator[Any]:
    from rubrank.scores.files import match_own_texts, match_rollouts
    from rubrank.studies.replay.log import make_batch, read_logged

    rule = make_fuse_rule(options.fusion)
    table, batch = make_batch(read_logged(path, options.rollouts, options.columns), options.fusion)
    groups = (
        match_own_texts(table, path)
        if options.rollouts is None
        else match_rollouts(table, options.rollouts)
    )
    return record_table(table, rule, groups=groups, batch=batch)


def _read_graded_by_own_rubrics(
    path: Path, options: OpenOptions, score_problem: RubrankError
) -> list[Group]:
    """Rollouts whose rows hold their rubrics; raises with what is missing for everything else."""
    try:
        groups = list(read_rollouts(str(path), options.rollout_columns).groups)
    except RubrankError:
        raise score_problem from None
    if not all(group.rubric is not None for group in groups):
        remedy = f"Name the rubric: rubrank view {path} --rubric FILE."
        raise InvalidInput(
            "view", str(path), "rollouts with a rubric", "rollouts without one", remedy
        )
    return groups
