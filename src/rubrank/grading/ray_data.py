"""Grading on a Ray cluster: the groups are partitioned, the limits of judges are shared, the scores are the same bits.

    table = grade_on_ray("rollouts.jsonl", "rubric.yaml", judges="judges.yaml", address="ray://head:10001")
    scored = on_ray(ray.data.read_parquet("rollouts/"), "rubric.yaml", group="uid")        a dataset, lazily

Every actor grades whole groups as `grade` does and holds one judge runtime; one more actor divides the limits of the
endpoints among them. Verdicts and replies that are kept in files are found again by the next run.
"""

from __future__ import annotations

import asyncio
import gc
import importlib
import pickle
import zlib
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil
from pathlib import Path
from typing import Any, TypeAlias
from uuid import uuid4

from rubrank.errors import InvalidInput, RubrankError, only_our_errors
from rubrank.grading.cluster import connected, got, held, processors, quiet
from rubrank.grading.grade import Progress, grade
from rubrank.grading.judged import judged_table_async
from rubrank.grading.missing import missing_of
from rubrank.grading.options import GradeOptions, Timeout, loaded_judges
from rubrank.grading.plan import GroupPlan, planned, rubrics_of, shared_rubric
from rubrank.grading.progress import Bar
from rubrank.judges import KINDS
from rubrank.judges.judge import Judge, Judges
from rubrank.judges.judging import checked
from rubrank.judges.judgments import Judgments
from rubrank.rollouts.rollout import Group
from rubrank.rubrics.rubric import Rubric
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.verifiers.verifier import Compat, Mode

OWNER = "grade on Ray"
_PART, _JUDGED_PART = 2048, 1024  # rollouts handed to an actor at a time; judges want many calls under way
_AHEAD = 2  # parts that an actor has at a time
_RESTARTS = 3  # of an actor that is lost with its machine; its parts are graded again
_ACTOR = {"num_cpus": 1, "max_restarts": _RESTARTS, "max_task_retries": _RESTARTS, "scheduling_strategy": "SPREAD"}
ANYWHERE = ""
"""The queue of parts that any machine may grade."""
Queues: TypeAlias = dict[str, deque[tuple[int, list[int]]]]
"""By machine: parts with their numbers; a part is numbers of groups."""
_PARTS_EACH = 4  # at least so many parts for every actor, so that none waits long for the slowest


@dataclass(frozen=True)
class ActorSetting:
    """What an actor needs to know to grade."""

    rubric: Rubric | None
    options: GradeOptions = field(default_factory=GradeOptions)
    modules: tuple[str, ...] = ()
    """That register verifiers of one's own."""

    @property
    def judges(self) -> Judges | None:
        """Who is asked."""
        return self.options.judges

    @property
    def workers(self) -> int:
        """Processes beside an actor: one where something may have to be stopped."""
        return int(bool(self.modules) or self.options.timeout not in ("auto", None))


class Grader:
    """What an actor holds: the judge runtime of its process, and how to grade."""

    def __init__(self, setting: ActorSetting, limits: Any = None) -> None:
        from rubrank.judges.client.runtime import share_limits_through

        for module in setting.modules:
            importlib.import_module(module)
        self._setting, self._settled = setting, False
        if isinstance(limits, str):  # a name: an actor that is made of another's handle may not be made again
            import ray

            limits = ray.get_actor(limits)
        if setting.judges is not None and limits is not None:
            share_limits_through(limits, f"grader-{uuid4().hex}")

    def table(self, groups: Sequence[Group]) -> ScoreTable:
        """The scores of whole groups; what judges do not answer is missing, and for the caller to count."""
        found = self._table(groups)
        if not self._settled:  # all modules are there, and stay: they need not be looked through again and again
            gc.collect()
            gc.freeze()
            self._settled = True
        return found

    def _table(self, groups: Sequence[Group]) -> ScoreTable:
        setting, how = self._setting, self._setting.options
        options: dict[str, Any] = {"compat": how.compat, "mode": how.mode, "cache": how.cache, "timeout": how.timeout}
        table = grade(groups, setting.rubric, workers=setting.workers, **options)
        if how.judges is None:
            return table
        asked = [one.criteria for one in rubrics_of(groups, setting.rubric)]
        return asyncio.run(judged_table_async(table, groups, asked, how.judges))

    def machine(self) -> str:
        """Where it is; it has been made."""
        import ray

        return str(ray.util.get_node_ip_address())

    def graded(self, part: bytes) -> bytes:
        """Packed groups → packed scores, or the error."""
        try:
            return pickle.dumps(self.table(pickle.loads(part)), pickle.HIGHEST_PROTOCOL)
        except RubrankError as error:
            return pickle.dumps(error)


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
    options = GradeOptions(compat, mode, workers, _absolute(cache), timeout, loaded_judges(judges), most_missing)
    groups, plans = planned(rollouts, rubric, columns, options)
    setting = _checked_setting(ActorSetting(shared_rubric(rubric), options), plans)
    try:
        with connected(address, OWNER) as ray, quiet(ray), held(), Bar("grading") as bar:
            tables, numbers = _tables(ray, setting, groups, workers, bar if progress is True else progress or None)
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_kept(setting.options)) from None
    table = _merged(tables, numbers)
    if setting.judges is not None and table.judging is not None:
        checked(table.judging, setting.judges)
    if most_missing is not None:
        missing_of(table).check(most_missing)
    return table


def _kept(options: GradeOptions) -> str:
    """What an interrupted run leaves, on the machines that did it."""
    replies = None if options.judges is None else options.judges.cache
    kept = [str(path) for path in (options.cache, replies) if path is not None]
    return f"what was decided is kept in {' and '.join(kept)}; run again to go on" if kept else "nothing is kept"


# ------------------------------------------------------------------------------------------------------------- checking


def _absolute(path: str | Path | None) -> str | None:
    """Actors do not start where we stand."""
    return None if path is None else str(Path(path).resolve())


def _checked_setting(setting: ActorSetting, plans: Iterable[GroupPlan]) -> ActorSetting:
    """The setting with the modules to import; refused is what cannot be the same there as here."""
    if setting.options.workers == 0:
        raise InvalidInput(OWNER, "workers", "1 or more", "0", "")
    checks = {check.verifier.name: check for plan in plans for check in (*plan.checks, *plan.group_checks)}
    local = sorted(name for name, check in checks.items() if check.is_local)
    if local:
        allowed, remedy = "in a module that other processes can import", "Put it in a module of its own."
        raise InvalidInput(OWNER, f"verifier {local[0]!r}", allowed, "made in this process", remedy)
    modules = tuple(sorted({check.verifier.home for check in checks.values() if not check.is_ours}))
    options = replace(setting.options, judges=_checked_judges(setting.judges))
    return replace(setting, modules=modules, options=options)


def _checked_judges(judges: Judges | None) -> Judges | None:
    if judges is None:
        return None
    if judges.deadline is not None:
        allowed = "left out: parts are asked at different times, so that none can hold for all calls"
        raise InvalidInput(OWNER, "deadline of the judges", allowed, f"{judges.deadline:g}", "")
    for judge in judges.judges:
        _refuse_own_kind(judge)
    return judges.model_copy(update={"cache": _absolute(judges.cache)})


def _refuse_own_kind(judge: Judge) -> None:
    for one in (judge, *judge.members):
        if not isinstance(KINDS.get(one.kind), str):
            library = ", ".join(name for name, found in KINDS.items() if isinstance(found, str))
            raise InvalidInput(
                OWNER, f"kind of judge {judge.name!r}", f"of the library ({library})", repr(one.kind), ""
            )


# -------------------------------------------------------------------------------------------------------------- running


def _tables(
    ray: Any, setting: ActorSetting, groups: Sequence[Group], workers: int | None, progress: Progress | None
) -> tuple[list[ScoreTable], list[int]]:
    """The tables of all parts, and the numbers of the groups that they have one after another."""
    number = min(workers or processors(ray), len(groups))
    name = f"rubrank-limits-{uuid4().hex}"
    limits = limits_of(ray, setting, name)  # held until the end of this function, and the actor with it
    told = None if limits is None else name
    pool = [ray.remote(Grader).options(**_ACTOR).remote(setting, told) for _ in range(number)]
    queues, parts = _queues(groups, number, setting, machines(ray))
    found: dict[int, ScoreTable] = {}
    done, total = 0, sum(len(group.rollouts) for group in groups)
    for i, packed in handed_out(ray, pool, queues, groups):
        part = pickle.loads(packed)
        if isinstance(part, RubrankError):
            raise part
        found[i] = part
        done += len(part)
        if progress is not None:
            progress(done, total)
    return [found[i] for i in range(len(parts))], [g for part in parts for g in part]


def machines(ray: Any) -> list[str]:
    """Addresses of those that have processors, in an order that stays the same from run to run."""
    return sorted({str(node["NodeManagerAddress"]) for node in ray.nodes() if node["Resources"].get("CPU")})


def _queues(
    groups: Sequence[Group], actors: int, setting: ActorSetting, known: Sequence[str]
) -> tuple[Queues, list[list[int]]]:
    """Parts (numbers of groups) in the queues of machines.

    Where replies of judges are kept, a group always goes to the same machine, which has those that are paid for;
    else there is one queue for all.
    """
    bound = setting.judges is not None and setting.judges.cache is not None and len(known) > 1
    places = known if bound else [ANYWHERE]
    homes: dict[str, list[int]] = {place: [] for place in places}
    for g, group in enumerate(groups):
        homes[places[zlib.crc32(group.id.encode("utf-8", "replace")) % len(places)]].append(g)
    most = _PART if setting.judges is None else _JUDGED_PART
    parts: list[list[int]] = []
    queues: Queues = {place: deque() for place in places}
    for place, own in homes.items():
        for part in _parts([groups[g] for g in own], max(1, actors // len(places)), most):
            if part:
                queues[place].append((len(parts), own[: len(part)]))
                parts.append(own[: len(part)])
                own = own[len(part) :]
    return queues, parts


def handed_out(ray: Any, pool: Sequence[Any], queues: Queues, groups: Sequence[Group]) -> Iterator[tuple[int, bytes]]:
    """The results of all parts as they come.

    An actor has two at a time, so that it never waits: the store of the cluster holds no more, however many parts there
    are. It takes those of its machine; what machines without an actor have is taken by others in the end.
    """
    under_way: dict[Any, tuple[int | None, Any]] = {actor.machine.remote(): (None, actor) for actor in pool}
    homes: list[tuple[Any, str]] = []

    def give(actor: Any, home: str | None, most: int) -> None:
        for n, part in _taken(queues, home, most):
            packed = pickle.dumps([groups[g] for g in part], pickle.HIGHEST_PROTOCOL)
            under_way[actor.graded.remote(packed)] = (n, actor)

    left = sum(map(len, queues.values()))
    while left:
        (first,), _ = ray.wait(list(under_way), num_returns=1)
        i, actor = under_way.pop(first)
        found = got(ray, first, OWNER)
        if i is None:
            homes.append((actor, ANYWHERE if ANYWHERE in queues else found))
        give(actor, next(home for one, home in homes if one is actor), _AHEAD if i is None else 1)
        if all(n is None for n, _ in under_way.values()):
            for other, _ in homes:
                give(other, None, _AHEAD)
        if i is not None:
            left -= 1
            yield i, found


def _taken(queues: Queues, home: str | None, most: int) -> list[tuple[int, list[int]]]:
    """Parts of a machine's queue; of the longest one where it is None."""
    queue = max(queues.values(), key=len) if home is None else queues.get(home, deque())
    return [queue.popleft() for _ in range(min(most, len(queue)))]


def actors(ray: Any, number: int) -> dict[str, Any]:
    """As many actors as said, or as there is room for."""
    return {"compute": ray.data.ActorPoolStrategy(min_size=1, max_size=number), "num_cpus": 1}


def limits_of(ray: Any, setting: ActorSetting, name: str | None = None) -> Any:
    """The actor that divides the limits, where judges are asked; it lives as long as a handle to it."""
    from rubrank.judges.client.limits import LimitsActor

    return None if setting.judges is None else ray.remote(LimitsActor).options(num_cpus=0, name=name).remote()


def _parts(groups: Sequence[Group], actors: int, most: int) -> list[list[Group]]:
    """Groups in order, about as many rollouts in each part; a group is never cut."""
    total = sum(len(group.rollouts) for group in groups)
    size = min(most, max(1, ceil(total / (actors * _PARTS_EACH))))
    parts: list[list[Group]] = [[]]
    held = 0
    for group in groups:
        if held >= size:
            parts.append([])
            held = 0
        parts[-1].append(group)
        held += len(group.rollouts)
    return parts


def _merged(tables: Sequence[ScoreTable], numbers: Sequence[int]) -> ScoreTable:
    """One table in the order of the groups, whose numbers the tables have one after another; one account."""
    from rubrank.judges.client.usage import Account

    order = sorted(range(len(numbers)), key=numbers.__getitem__)
    rows: list[GroupScores] = [group for table in tables for group in table.groups]
    groups = tuple(rows[i] for i in order)
    said = [table.judging for table in tables if table.judging is not None]
    if not said:
        return ScoreTable(groups)
    ids = [id for one in said for id in one.ids]
    judgments = [judgment for one in said for judgment in one.groups]
    account = Account.merge(one.account for one in said)
    return ScoreTable(
        groups, judging=Judgments(tuple(judgments[i] for i in order), account, tuple(ids[i] for i in order))
    )
