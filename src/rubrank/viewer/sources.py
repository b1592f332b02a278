"""Turn the sources of `rubrank view` and `rubrank report` into records: scores, rollouts, training folders.

    records, a training folder     shown as they are; `view` reads them as they grow (run.py)
    scores                         fused as the options say, as `rubrank record` does
    rollouts and a rubric          graded and fused; `view` shows the first groups while it grades the rest
    a scored run of `eval`         benchmarks with intervals; it has no groups
    drafted rubrics                shown on a separate page (server.py)

`view` writes what it fuses to a temporary file of records, which is read like any other and removed at the end.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from rubrank._files import require_file
from rubrank._folders import make_folder
from rubrank.errors import InvalidInput, RubrankError
from rubrank.evaluation.runs import EvalRun, find_runs
from rubrank.fusion.options import can_fuse_in_parts, make_fuse_rule
from rubrank.grading.grade import grade
from rubrank.options import FuseOptions
from rubrank.records.files import find_record_files, is_records, write_records
from rubrank.records.record import GroupRecord, record_table
from rubrank.rollouts.groups import read_rollouts
from rubrank.rollouts.rollout import Group
from rubrank.scores.files import match_rollouts
from rubrank.studies.logged import Logged, make_batch, read_logged
from rubrank.tables.columns import Columns
from rubrank.tables.sources import find_files, format_of

# Groups that are graded before the page opens, so that a wrong rubric is refused at once.
_FIRST_GROUPS = 4
# Groups that are graded before the page is given new records: few, because a judge may take minutes.
_GROUPS_AT_ONCE = 16
_KINDS = "records, scores, rollouts with `rubric`, a training folder, a scored run of `eval`, or drafted rubrics"
_SHOWN_AS_THEY_ARE = {
    "records": "Records are shown as they were graded and fused. To fuse them again, use `rubrank record`.",
    "drafted rubrics": "Drafted rubrics have no groups.",
    "a scored run of `eval`": "A scored run has benchmarks and no groups.",
}
"""Kinds of sources that are neither graded nor fused → why options have no effect on them."""


@dataclass(frozen=True)
class SourceOptions:
    """How to read sources that are not records."""

    verb: Literal["view", "report"] = "view"
    """The verb that reads them, for errors."""
    rubric: str | None = None
    judges: Any = None
    rollouts: Path | None = None
    """The rollouts that scores belong to, to show their texts."""
    columns: Columns | None = None
    """Where score tables hold what."""
    rollout_columns: dict[str, Any] | None = None
    """Where files of rollouts hold what."""
    column_options: Collection[str] = ()
    """Names of the options about columns that are set."""
    fusion: FuseOptions = field(default_factory=FuseOptions)
    """How scores are fused; the page of `view` can fuse every group in another way."""

    def refuse_options(self, source: str | Path, kind: str, also: Collection[str] = ()) -> None:
        """Raise InvalidInput if an option is set that has no effect on a source of this kind.

        kind: a key of _SHOWN_AS_THEY_ARE. also: names of more options that are set.
        """
        names = [name for name in ("judges", "rollouts") if getattr(self, name) is not None]
        # A report lists the findings of `lint` about the rubric of records.
        if self.rubric is not None and (self.verb, kind) != ("report", "records"):
            names.append("rubric")
        names += sorted(self.fusion.model_fields_set)
        names += [*self.column_options, *also]
        if names:
            raise InvalidInput(
                self.verb,
                names[0],
                "given with scores or rollouts",
                f"{kind}: {source}",
                _SHOWN_AS_THEY_ARE[kind],
                field=names[0],
            )


def read_as_records(
    source: str, options: SourceOptions, report: Callable[[str], None]
) -> str | Iterator[GroupRecord]:
    """Return the source itself if it has records; otherwise the records of its scores or rollouts.

    Scores are fused as the options say; rollouts are graded first.

    report: called with a line about the scores that were read.
    """
    if is_records(Path(source)):
        options.refuse_options(source, "records")
        return source
    # Passed on below, together with the name of the rule, once the scores are fused.
    lines: list[str] = []
    content = _read_scores_or_rollouts(source, options, lines.append)
    if isinstance(content, list):
        return _grade_and_fuse(content, options, workers=None)
    records = _fuse_scores(source, content, options)
    report(f"{lines[0]} Fused by {make_fuse_rule(options.fusion).name}.")
    return records


def _read_scores_or_rollouts(
    source: str, options: SourceOptions, report: Callable[[str], None] | None = None
) -> Logged | list[Group]:
    """Return the scores of a file, or its rollouts if it has no scores.

    Raises InvalidInput for rollouts without a rubric to grade them by, and for options that have no effect.
    """
    problem: RubrankError | None = None
    # With a rubric, `view` grades what it is given; a report of scores lists the weaknesses of their rubric.
    if options.rubric is None or options.verb == "report":
        try:
            logged = read_logged(
                source, options.rollouts, options.columns, report, options.rollout_columns
            )
        except RubrankError as error:
            if options.rollouts is not None:
                raise
            problem = error
        else:
            if options.judges is not None:
                raise InvalidInput(
                    options.verb,
                    "judges",
                    "given with rollouts",
                    f"graded already: {source}",
                )
            return logged
    try:
        groups = list(read_rollouts(source, options.rollout_columns).groups)
    except RubrankError as error:
        # Neither scores nor rollouts: the error about the scores is raised if these were tried.
        raise problem or error from None
    if options.rubric is None and any(group.rubric is None for group in groups):
        raise InvalidInput(
            options.verb,
            source,
            "scores, or rollouts with a rubric",
            "rollouts without one",
            (
                f"Name the rubric: rubrank {options.verb} {source} --rubric FILE; "
                "or columns with scores: `criteria`."
            ),
        )
    if options.fusion.attributes:
        raise InvalidInput(
            options.verb,
            "attributes",
            "given with scores",
            f"rollouts: {source}",
            f"Grade first: rubrank grade {source}, then rubrank {options.verb} SCORES --rollouts {source}.",
        )
    return groups


def _fuse_scores(source: str, logged: Logged, options: SourceOptions) -> Iterator[GroupRecord]:
    """Fuse scores; the records have the texts of `rollouts`, or of the scores' own rows if these have some."""
    table, batch = make_batch(logged, options.fusion)
    groups: list[Group] | None
    if options.rollouts is None:
        try:
            groups = match_rollouts(table, source)
        except RubrankError:
            groups = None  # the rows of the scores do not hold the responses
    else:
        groups = match_rollouts(table, options.rollouts, options.rollout_columns)
    return record_table(table, make_fuse_rule(options.fusion), groups=groups, batch=batch)


def _grade_and_fuse(
    groups: Sequence[Group], options: SourceOptions, workers: int | None
) -> Iterator[GroupRecord]:
    """Grade rollouts by the rubric of the options or by those of their rows, and fuse the scores."""
    graded = grade(groups, options.rubric, judges=options.judges, workers=workers)
    table, batch = make_batch(Logged(graded), options.fusion)
    return record_table(table, make_fuse_rule(options.fusion), groups=groups, batch=batch)


# ------------------------------------------------------------------------------------------------ for `rubrank view`


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

    def __init__(self, groups: Sequence[Group], options: SourceOptions, records: Path) -> None:
        self.total = len(groups)
        self.done = 0
        self.problem = ""
        self._groups = groups
        self._options = options
        self._records = records
        self._stopped = threading.Event()
        self._thread = threading.Thread(
            target=self._grade_rest, name="rubrank view: grading", daemon=True
        )

    def grade_first(self) -> None:
        """Grade some groups in this thread; raises what is wrong with rubric, judges or rollouts."""
        # A rule that looks at other groups, or at criteria by name, gets all groups at once: parts would have other
        # rewards, or lack a criterion.
        rule = make_fuse_rule(self._options.fusion)
        self._grade(_FIRST_GROUPS if can_fuse_in_parts(rule) else self.total)

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
                self._grade(_GROUPS_AT_ONCE)
        except (RubrankError, OSError) as error:
            self.problem = f"Grading ended after {self.done} of {self.total} groups: {error}"

    def _grade(self, number: int) -> None:
        """Grade the next groups and append them to the records."""
        groups = self._groups[self.done : self.done + number]
        records = _grade_and_fuse(groups, self._options, workers=0)
        write_records(self._records, records, append=True)
        self.done += len(groups)


def open_source(path: Path, options: SourceOptions, cleanup: ExitStack) -> OpenedSource:
    """Open a path for `rubrank view`, as the first kind that fits: records, scored runs, scores, rollouts.

    cleanup: gets what removes temporary files. Raises InvalidInput if the path cannot be shown.
    """
    # Imported here, because it needs packages of the extra `serve`, which a report does not.
    from rubrank.viewer.run import has_records

    if not path.exists() and not find_record_files(path, missing_ok=True):
        require_file(path)  # raises the error about a missing file
    if has_records(path):
        options.refuse_options(path, "records")
        return OpenedSource(path, path)
    evaluation = find_runs(path)
    if evaluation:
        options.refuse_options(path, "a scored run of `eval`")
        return OpenedSource(path, evaluation=evaluation)
    if path.is_dir():
        raise InvalidInput(
            "view",
            "sources",
            _KINDS,
            f"the folder {path}, which has neither records nor scored runs",
            "A run that has just begun has records after its first step.",
        )
    try:
        format_of(find_files(str(path))[0])
    except RubrankError:  # its suffix is not that of a table: a rubric, a picture, notes
        raise InvalidInput("view", "sources", _KINDS, str(path)) from None
    target = Path(cleanup.enter_context(make_folder("view"))) / "records.jsonl"
    content = _read_scores_or_rollouts(str(path), options)
    if isinstance(content, Logged):
        write_records(target, _fuse_scores(str(path), content, options))
        return OpenedSource(path, target)
    feed = GradingFeed(content, options, target)
    feed.grade_first()
    return OpenedSource(path, target, feed)
