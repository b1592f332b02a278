"""Grade rollouts on a Ray cluster. The scores are bit-identical to those of one machine.

    table = grade_on_ray("rollouts.jsonl", "rubric.yaml", judges="judges.yaml", address="ray://head:10001")

    scored = on_ray(ray.data.read_parquet("rollouts/"), "rubric.yaml", group="uid", judges="judges.yaml")
    scored.write_parquet("scored/")                    a lazy dataset, for more rows than one process can hold

`grade_on_ray` divides the groups into parts and sends these to actors. Every actor grades whole groups as `grade` does,
with one judge client. One more actor divides the rate limits of the judges' endpoints among them. Verdicts of verifiers
and replies of judges can be cached in files, so that the next run finds them.

In a dataset every criterion adds two columns: its scores (NaN = missing) under its name, and the reasons under "NAME
(reason)". Criteria about one rollout need no shuffle. Criteria about a whole group (`GroupDiversity`, judges that
compare) bring the rows of a group together first, and comparisons add the column "outcomes". Judges add the column
"probabilities": how sure they are, if they report it.
"""

from __future__ import annotations

import asyncio
import importlib
import pickle
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from rubrank._plain import replace_surrogates
from rubrank.errors import InvalidInput, RubrankError, only_our_errors
from rubrank.grading.cluster import (
    connect_ray,
    count_processors,
    get_result,
    import_ray,
)
from rubrank.grading.grade import count_missing, grade
from rubrank.grading.judge_table import judge_table_async
from rubrank.grading.plan import (
    GradeOptions,
    GroupPlan,
    Timeout,
    find_rubrics,
    plan_groups,
    plan_rubric,
    read_rubric,
)
from rubrank.grading.progress import Progress, open_progress
from rubrank.judges import COMPARES, KINDS
from rubrank.judges.judge import Judges, Judgment
from rubrank.judges.judgments import Judgments
from rubrank.judges.step import check_judgments
from rubrank.rollouts.groups import group_rows
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.rubric import Rubric
from rubrank.scores.output import (
    OUTCOMES,
    PROBABILITIES,
    REASON_SUFFIX,
    format_outcomes,
    format_probabilities,
)
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.tables.columns import COLUMNS
from rubrank.verifiers.verifier import Compat, Mode

OWNER = "grade on Ray"
"""What error messages begin with."""
ANY_MACHINE = ""
"""The queue of parts that any machine may grade."""

_PART_ROLLOUTS = 2048  # most rollouts of a part without judges
_JUDGED_PART_ROLLOUTS = 1024  # … and with judges, whose calls take longer
_PARTS_PER_ACTOR = 4  # at least, so that no actor waits long for the slowest
_PARTS_AHEAD = 2  # parts that an actor has at a time, so that it never waits for the next one
_RESTARTS = 3  # of an actor that is lost with its machine; its parts are graded again
_ACTOR_OPTIONS = {
    "num_cpus": 1,
    "max_restarts": _RESTARTS,
    "max_task_retries": _RESTARTS,
    "scheduling_strategy": "SPREAD",
}
_ROW = "row of the batch"  # column that makes every row a group of its own


Part: TypeAlias = list[int]
"""Indices of some groups that an actor grades together."""

Queues: TypeAlias = dict[str, deque[Part]]
"""Address of a machine, or ANY_MACHINE → the parts that wait for it."""


@dataclass(frozen=True)
class ActorSetting:
    """What an actor needs to grade."""

    rubric: Rubric | None
    """None if every group has its own."""
    options: GradeOptions = field(default_factory=GradeOptions)
    modules: tuple[str, ...] = ()
    """Modules that register the user's own verifiers."""

    @property
    def judges(self) -> Judges | None:
        """The judges of the options."""
        return self.options.judges

    @property
    def worker_processes(self) -> int:
        """Worker processes that each actor starts: 1 if a verifier may have to be interrupted, else 0.

        Not to be confused with `options.workers`, the number of actors.
        """
        has_limit = self.options.timeout not in ("auto", None)
        return int(bool(self.modules) or has_limit)


class Grader:
    """An actor that grades the groups it gets.

    limits: the actor that divides the rate limits of judges, or its name; None if there is none.
    """

    def __init__(self, setting: ActorSetting, limits: Any = None) -> None:
        from rubrank.judges.client.runtime import share_limits_through

        for module in setting.modules:
            importlib.import_module(module)
        self._setting = setting
        if isinstance(limits, str):
            # A name instead of a handle: Ray cannot restart an actor that was created with the handle of another.
            import ray

            limits = ray.get_actor(limits)
        if setting.judges is not None and limits is not None:
            share_limits_through(limits, f"grader-{uuid4().hex}")

    def grade_groups(self, groups: Sequence[Group]) -> ScoreTable:
        """Grade whole groups. Missing answers of judges raise no error here; the caller counts them."""
        options = self._setting.options
        table = grade(
            groups,
            self._setting.rubric,
            workers=self._setting.worker_processes,
            compat=options.compat,
            mode=options.mode,
            cache=options.cache,
            timeout=options.timeout,
        )
        if options.judges is not None:
            # Not `grade(judges=…)`, which raises an error if too many answers are missing: what counts is the whole run
            # and not one part of it.
            criteria = [rubric.criteria for rubric in find_rubrics(groups, self._setting.rubric)]
            table = asyncio.run(judge_table_async(table, groups, criteria, options.judges))
        return table

    def find_machine(self) -> str:
        """Return the address of its machine. An answer also shows that the actor has started."""
        import ray

        return str(ray.util.get_node_ip_address())

    def grade_part(self, pickled_groups: bytes) -> bytes:
        """Return the pickled score table of some groups, or the pickled RubrankError if grading raised one."""
        try:
            table = self.grade_groups(pickle.loads(pickled_groups))
        except RubrankError as error:
            # Returned and not raised, because Ray would wrap it in an error of its own.
            return pickle.dumps(error)
        return pickle.dumps(table, pickle.HIGHEST_PROTOCOL)


@only_our_errors
def grade_on_ray(
    rollouts: Any,
    rubric: Rubric | str | Path | Any = None,
    *,
    address: str | None = None,
    compat: Compat = "fixed",
    mode: Mode = "strict",
    workers: int | None = None,
    cache: str | Path | None = None,
    columns: dict[str, str] | None = None,
    progress: Progress | bool = False,
    timeout: Timeout = "auto",
    judges: Any = None,
    most_missing: float | None = None,
) -> ScoreTable:
    """`grade` on a Ray cluster: the same parameters, the same table.

    address: of the cluster; None: the one this process is connected to, or one on this machine.
    workers: actors; None: one for each processor of the cluster.
    cache: as for `grade`; every machine has its own file at this path.
    """
    options = GradeOptions.read(
        compat=compat,
        mode=mode,
        workers=workers,
        cache=_make_absolute(cache),
        timeout=timeout,
        judges=judges,
        most_missing=most_missing,
    )
    groups, plans = plan_groups(rollouts, rubric, columns, options)
    setting = _prepare_setting(ActorSetting(read_rubric(rubric), options), plans)
    try:
        with (
            connect_ray(address, OWNER) as ray,
            open_progress(progress, "grading") as report,
        ):
            table = _grade_with_actors(ray, setting, groups, workers, report)
    except KeyboardInterrupt:
        reply_cache = None if setting.judges is None else setting.judges.cache
        files = [str(path) for path in (setting.options.cache, reply_cache) if path is not None]
        message = "nothing was saved"
        if files:
            message = f"results so far are saved in {' and '.join(files)}; run the same command again to continue"
        raise KeyboardInterrupt(message) from None
    if setting.judges is not None and table.judging is not None:
        check_judgments(table.judging, setting.judges)
    if most_missing is not None:
        count_missing(table).check(most_missing)
    return table


# ------------------------------------------------------------------------------------------------------------ setting


def _make_absolute(path: str | Path | None) -> str | None:
    """Return the absolute path, because actors start in another folder."""
    return None if path is None else str(Path(path).resolve())


def _prepare_setting(setting: ActorSetting, plans: Iterable[GroupPlan]) -> ActorSetting:
    """Add the modules that actors import, and make the path of the judges' cache absolute.

    Raises InvalidInput for workers=0, and for verifiers and judges that do not work in other processes.
    """
    if setting.options.workers == 0:
        raise InvalidInput(OWNER, "workers", allowed="1 or more", got="0")
    modules = set()
    for plan in plans:
        for check in (*plan.checks, *plan.group_checks):
            if check.is_local:
                raise InvalidInput(
                    OWNER,
                    f"verifier {check.verifier.name!r}",
                    allowed="in a module that other processes can import",
                    got="made in this process",
                    remedy="Put it in a module of its own.",
                )
            if not check.is_builtin:
                modules.add(check.verifier.home)
    judges = setting.judges
    if judges is not None:
        if judges.deadline is not None:
            raise InvalidInput(
                OWNER,
                "deadline of the judges",
                allowed="left out on Ray, where the parts of a run are judged at different times",
                got=f"{judges.deadline:g}",
            )
        # Kinds of the library are registered by the name of their module. Those of a user are registered as a class in
        # this process; actors do not have them.
        library = [name for name, kind in KINDS.items() if isinstance(kind, str)]
        for judge in judges.judges:
            for member in (judge, *judge.leaves):
                if member.kind not in library:
                    raise InvalidInput(
                        OWNER,
                        f"kind of judge {judge.name!r}",
                        allowed=f"of the library ({', '.join(library)})",
                        got=repr(member.kind),
                    )
        judges = judges.model_copy(update={"cache": _make_absolute(judges.cache)})
    options = setting.options.model_copy(update={"judges": judges})
    return replace(setting, modules=tuple(sorted(modules)), options=options)


# ------------------------------------------------------------------------------------------------------------- actors


def _grade_with_actors(
    ray: Any,
    setting: ActorSetting,
    groups: Sequence[Group],
    workers: int | None,
    progress: Progress | None,
) -> ScoreTable:
    """Start the actors, send them the parts, and merge their tables."""
    from rubrank.judges.client.usage import Account

    actor_count = min(workers or count_processors(ray), len(groups))
    limits_name = f"rubrank-limits-{uuid4().hex}"
    # Graders get the name, but the handle must stay in a variable: Ray stops the actor when its handle is gone.
    limits = start_limits_actor(ray, setting, limits_name)
    name = None if limits is None else limits_name
    remote_grader = ray.remote(Grader).options(**_ACTOR_OPTIONS)
    actors = [remote_grader.remote(setting, name) for _ in range(actor_count)]
    queues = queue_parts(groups, actor_count, setting, find_machines(ray))
    total = sum(len(group.rollouts) for group in groups)
    done = 0
    graded: list[tuple[Part, ScoreTable]] = []
    for part, pickled_result in distribute_parts(ray, actors, queues, groups):
        result = pickle.loads(pickled_result)
        if isinstance(result, RubrankError):
            raise result
        graded.append((part, result))
        done += len(result)
        if progress is not None:
            progress(done, total)

    # One table of all parts, in the order of the groups
    scores: dict[int, GroupScores] = {}
    judgments: dict[int, Judgment] = {}
    accounts = []
    for part, table in graded:
        scores.update(zip(part, table.groups, strict=True))
        if table.judging is not None:
            judgments.update(zip(part, table.judging.groups, strict=True))
            accounts.append(table.judging.account)
    merged_groups = tuple(scores[index] for index in sorted(scores))
    if not accounts:
        return ScoreTable(merged_groups)
    judging = Judgments(
        groups=tuple(judgments[index] for index in sorted(judgments)),
        account=Account.merge(accounts),
        ids=tuple(group.id for group in merged_groups),
    )
    return ScoreTable(merged_groups, judging=judging)


def find_machines(ray: Any) -> list[str]:
    """Return the addresses of the machines with processors, in an order that is the same in every run."""
    return sorted(
        {str(node["NodeManagerAddress"]) for node in ray.nodes() if node["Resources"].get("CPU")}
    )


def queue_parts(
    groups: Sequence[Group], actors: int, setting: ActorSetting, machines: Sequence[str]
) -> Queues:
    """Divide the groups into parts, and put these into the queues of machines. actors: their number.

    If replies of judges are cached, a group always goes to the same machine, whose cache has the replies that were paid
    for; else there is one queue for all machines.
    """
    has_reply_cache = setting.judges is not None and setting.judges.cache is not None
    places = machines if has_reply_cache and len(machines) > 1 else [ANY_MACHINE]
    groups_of_place: dict[str, list[int]] = {place: [] for place in places}
    for index, group in enumerate(groups):
        # crc32 and not hash(), which differs between processes.
        place = places[zlib.crc32(group.id.encode("utf-8", "replace")) % len(places)]
        groups_of_place[place].append(index)
    most_rollouts = _PART_ROLLOUTS if setting.judges is None else _JUDGED_PART_ROLLOUTS
    actors_per_place = max(1, actors // len(places))
    queues: Queues = {}
    for place, indices in groups_of_place.items():
        queues[place] = deque(divide_groups(groups, indices, actors_per_place, most_rollouts))
    return queues


def divide_groups(
    groups: Sequence[Group], indices: Sequence[int], actors: int, most_rollouts: int
) -> list[Part]:
    """Divide some groups into parts with about the same number of rollouts, in order; a group is never divided.

    indices: of the groups to divide. A part ends with the group that brings it to `most_rollouts`, or earlier if each
    of the actors would otherwise get fewer than `_PARTS_PER_ACTOR` parts.
    """
    total = sum(len(groups[index].rollouts) for index in indices)
    enough_rollouts = min(most_rollouts, max(1, ceil(total / (actors * _PARTS_PER_ACTOR))))
    parts: list[Part] = []
    part: Part = []
    rollouts = 0
    for index in indices:
        part.append(index)
        rollouts += len(groups[index].rollouts)
        if rollouts >= enough_rollouts:
            parts.append(part)
            part = []
            rollouts = 0
    if part:
        parts.append(part)
    return parts


def distribute_parts(
    ray: Any, actors: Sequence[Any], queues: Queues, groups: Sequence[Group]
) -> Iterator[tuple[Part, bytes]]:
    """Send parts to actors, and yield each part with its pickled result when an actor has graded it.

    An actor has two parts at a time, so that it never waits and Ray's object store stays small. It gets the parts of
    its own machine. Parts of machines without an actor go to the others at the end.
    """
    unfinished = sum(map(len, queues.values()))
    # Keys are references to results that Ray will deliver; values say what they belong to.
    starting = {actor.find_machine.remote(): number for number, actor in enumerate(actors)}
    running: dict[Any, tuple[Part, int]] = {}  # → the part, and the number of its actor
    queue_of_actor: dict[int, deque[Part]] = {}  # number of an actor that has started → its queue

    def send_parts(number: int, queue: deque[Part], most: int) -> None:
        """Send up to `most` parts of a queue to the actor with this number."""
        for _ in range(min(most, len(queue))):
            part = queue.popleft()
            part_groups = [groups[index] for index in part]
            pickled_groups = pickle.dumps(part_groups, pickle.HIGHEST_PROTOCOL)
            running[actors[number].grade_part.remote(pickled_groups)] = (part, number)

    while unfinished:
        (reference,), _ = ray.wait([*starting, *running], num_returns=1)
        result = get_result(ray, reference, OWNER)
        if reference in starting:
            number = starting.pop(reference)
            machine = ANY_MACHINE if ANY_MACHINE in queues else result
            queue_of_actor[number] = queues.get(machine, deque())
            send_parts(number, queue_of_actor[number], _PARTS_AHEAD)
        else:
            part, number = running.pop(reference)
            send_parts(number, queue_of_actor[number], 1)
            unfinished -= 1
            yield part, result
        if not running:
            # The remaining parts belong to machines that have no actor, or none that has started. Waiting for one could
            # take forever, so the others grade them, from the longest queue.
            for number in queue_of_actor:
                send_parts(number, max(queues.values(), key=len), _PARTS_AHEAD)


def start_limits_actor(ray: Any, setting: ActorSetting, name: str | None = None) -> Any:
    """Start the actor that divides the rate limits of judges; None without judges. It lives as long as its handle."""
    from rubrank.judges.client.limits import LimitsActor

    if setting.judges is None:
        return None
    return ray.remote(LimitsActor).options(num_cpus=0, name=name).remote()


# ----------------------------------------------------------------------------------------------------------- datasets


@only_our_errors
def on_ray(
    dataset: Any,
    rubric: Rubric | str | Path | Any,
    *,
    group: str = "uid",
    compat: Compat = "fixed",
    mode: Mode = "strict",
    workers: int | None = None,
    cache: str | Path | None = None,
    columns: Mapping[str, str] | None = None,
    timeout: Timeout = "auto",
    judges: Any = None,
    partitions: int | None = None,
) -> Any:
    """Return the dataset with the scores of its rows, one rollout per row. It is lazy: rows are graded when it is read.

    group: the column that names the group of a row; needed if a criterion is about a whole group.
    partitions: of the shuffle that brings groups together; None: four for each processor.
    The others are as for `grade`. Missing answers of judges raise no error: they are NaN, with a reason.
    """
    ray = import_ray(OWNER)
    options = GradeOptions.read(
        compat=compat,
        mode=mode,
        workers=workers,
        cache=_make_absolute(cache),
        timeout=timeout,
        judges=judges,
    )
    shared_rubric = read_rubric(rubric)
    if shared_rubric is None:
        raise InvalidInput(
            OWNER,
            "rubric",
            allowed="given: all rows of a dataset share one",
            got="None",
        )
    plan = plan_rubric(shared_rubric, options)
    setting = _prepare_setting(ActorSetting(shared_rubric, options), [plan])
    # Do some criteria need all rollouts of a group together? Rows are shuffled only then.
    needs_groups = bool(plan.group_checks)
    if options.judges is not None:
        for criterion in shared_rubric.criteria:
            judge = options.judges.judge_of(criterion.name)
            if judge is not None and judge.kind in COMPARES:
                needs_groups = True
    names = dataset.columns() or []
    _check_columns(
        names,
        shared_rubric,
        group,
        needs_groups=needs_groups,
        has_judges=options.judges is not None,
    )
    actor_count = workers or count_processors(ray)
    limits = start_limits_actor(ray, setting)
    map_options: dict[str, Any] = {
        "batch_format": "pyarrow",
        "compute": ray.data.ActorPoolStrategy(min_size=1, max_size=actor_count),
        "num_cpus": 1,
        "fn_constructor_args": (setting, limits, group, needs_groups, dict(columns or {})),
    }
    if needs_groups:
        grouped = dataset.groupby(group, num_partitions=partitions or 4 * actor_count)
        return grouped.map_groups(RowGrader, **map_options)
    batch_size = _PART_ROLLOUTS if options.judges is None else _JUDGED_PART_ROLLOUTS
    return dataset.map_batches(RowGrader, batch_size=batch_size, **map_options)


def _check_columns(
    names: Sequence[str], rubric: Rubric, group: str, *, needs_groups: bool, has_judges: bool
) -> None:
    """Raise InvalidInput for columns that are missing, would be overwritten, or would be ignored."""
    added = [
        criterion.name + ending for criterion in rubric.criteria for ending in ("", REASON_SUFFIX)
    ]
    if needs_groups:
        added.append(OUTCOMES)
    if has_judges:
        added.append(PROBABILITIES)
    for name in added:
        if name in names:
            raise InvalidInput(
                OWNER,
                "added columns",
                allowed="new to the dataset",
                got=f"{name!r} again",
                remedy="Rename or drop it.",
            )
    if needs_groups and group not in names:
        raise InvalidInput(
            OWNER,
            "group",
            allowed="a column of the dataset",
            got=repr(group),
            remedy="Pass group=NAME.",
        )
    for name in names:
        if name in (*COLUMNS["rubric"], "instruction_id_list"):
            raise InvalidInput(
                OWNER,
                "dataset",
                allowed="without rubrics of its rows",
                got=f"the column {name!r}",
                remedy="Drop the column, or use `rubrank grade` on Ray, which takes rubrics of queries.",
            )


class RowGrader:
    """An actor of Ray Data: rows of rollouts (an Arrow table) → the same rows with scores and reasons."""

    def __init__(
        self,
        setting: ActorSetting,
        limits: Any,
        group: str,
        needs_groups: bool,
        columns: dict[str, str],
    ) -> None:
        self._grader = Grader(setting, limits)
        self._group = group
        self._needs_groups = needs_groups
        self._has_judges = setting.judges is not None
        assert setting.rubric is not None  # `on_ray` requires one for all rows
        self._criteria = [criterion.name for criterion in setting.rubric.criteria]
        self._columns = {**columns, "group": _ROW}  # see `_read_groups`

    def __call__(self, table: Any) -> Any:
        """Grade a batch of rows, or all rows of a group.

        Ray Data also passes batches without rows, such as what a filter left of a block: they get the same columns.
        """
        import pyarrow as pa

        groups = self._read_groups(table.to_pylist())
        # One row of scores for each row of the table, in order
        scored = self._grader.grade_groups(groups).groups if groups else ()
        for column, criterion in enumerate(self._criteria):
            numbers = [float(score) for group in scored for score in group.scores[:, column]]
            reasons = [replace_surrogates(row[column]) for group in scored for row in group.reasons]
            table = table.append_column(criterion, pa.array(numbers, pa.float64()))
            table = table.append_column(criterion + REASON_SUFFIX, pa.array(reasons, pa.string()))
        rows = [(group, row) for group in scored for row in range(len(group.scores))]
        if self._needs_groups:
            outcomes = [format_outcomes(group, row) for group, row in rows]
            table = table.append_column(OUTCOMES, pa.array(outcomes, pa.string()))
        if self._has_judges:
            probabilities = [format_probabilities(group, row) for group, row in rows]
            table = table.append_column(PROBABILITIES, pa.array(probabilities, pa.string()))
        return table

    def _read_groups(self, rows: list[dict[str, Any]]) -> list[Group]:
        """Return one group for each row, or one group of all rows if criteria need groups; none without rows."""
        if not rows:
            return []
        # `group_rows` puts rows of one group or prompt together, which would change their order. So each row gets its
        # number as its group, instead of the group that the dataset names.
        numbered = []
        for number, row in enumerate(rows):
            values = {name: value for name, value in row.items() if name != self._group}
            numbered.append({**values, _ROW: str(number)})
        groups = group_rows(numbered, "dataset", self._columns)
        rollouts = tuple(rollout for group in groups for rollout in group.rollouts)
        if len(rollouts) != len(rows):
            raise InvalidInput(
                OWNER,
                "dataset",
                allowed="one rollout per row",
                got="rows with several",
                remedy="Explode the lists.",
            )
        if self._needs_groups:
            return [Group(id=str(rows[0][self._group]), rollouts=rollouts)]
        return groups
