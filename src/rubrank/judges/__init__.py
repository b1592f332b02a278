"""Judges: models that decide what no program can. This file registers their kinds; `judge.py` has the contract.

    judge.py      configuration and contract: Judge, Judges, Call, Reply, Asker, Question, Judgment
    step.py       one step: which cells are judged, all judges at once, what is missing
    kinds/        scores.py: absolute, batched, decision; comparisons.py: pairwise, listwise, incomplete groups;
                  panel.py: panels, calibrated probabilities, a better judge for what is unsure
    prompting/    criterion + rollouts → Call
    parsing/      Reply → verdict
    client/       Call → Reply over HTTP, with a cache, limits and retries
    batches.py    the same through batch APIs

    judgment = await judge_question(question, judge, asker_of)       for every kind, and for panels

To add a kind from a module of your own (docs/extending.md):

    @rubrank.judge_kind("yes-no")
    class YesNo:
        async def judge(self, question, judge, asker): ...       a Judgment; its calls are answered by the asker

A kind also has `calls(question, judge)`, unless it makes one call for every cell. A kind of the library is a file in
`judges/kinds/` and a line in `KINDS`. Panels, usage, the cache, deadlines and limits work for all kinds.

Importing this package imports none of them: a kind is loaded when it is first used.
"""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from reprlib import repr as brief
from typing import TYPE_CHECKING, Any, TypeVar, cast, overload

from rubrank._plugins import check_call, check_free, describe_object, load_plugins, make_decorator
from rubrank.errors import InvalidInput, UnknownName

if TYPE_CHECKING:
    from rubrank.judges.judge import AskerOf, Judge, JudgeKind, Judgment, Question

KINDS: dict[str, str | type] = {
    "decision": "rubrank.judges.kinds.scores:Decision",
    "absolute": "rubrank.judges.kinds.scores:Absolute",
    "batched": "rubrank.judges.kinds.scores:Batched",
    "pairwise": "rubrank.judges.kinds.comparisons:Pairwise",
    "listwise": "rubrank.judges.kinds.comparisons:Listwise",
}
"""Every kind: its class, or where to import it from."""

COMPARES = {"pairwise", "listwise"}
"""The kinds that compare rollouts instead of scoring them."""

_K = TypeVar("_K")


@overload
def judge_kind(name: str | None = None, *, compares: bool = False) -> Callable[[_K], _K]: ...


@overload
def judge_kind(name: _K, /) -> _K: ...


def judge_kind(name: Any = None, *, compares: bool = False) -> Any:
    """Register a kind of judge under `name`, or under the class's `name`: a class, or a function like its `judge`.

    compares: it compares rollouts (`Judgment.outcomes`) instead of scoring each (`Judgment.verdicts`).
    """

    def register(chosen: str | None, kind: Any) -> Any:
        default = getattr(kind, "name", None) or getattr(kind, "__name__", None)
        checked_name = check_free(
            "judge_kind", default if chosen is None else chosen, kind, _find_registered_kind
        )
        judge = getattr(kind, "judge", None) if isinstance(kind, type) else kind
        if not inspect.iscoroutinefunction(judge):
            raise InvalidInput(
                "judge_kind",
                "kind",
                allowed="a class with `async judge(question, judge, asker)`, or such a function",
                got=describe_object(kind),
                remedy="See `rubrank help extending`.",
            )
        if isinstance(kind, type):
            check_call("judge_kind", kind)
            check_call("judge_kind", judge, "self", "question", "judge", "asker")
        else:
            check_call("judge_kind", judge, "question", "judge", "asker")
        KINDS[checked_name] = _make_kind_class(checked_name, kind)
        COMPARES.discard(checked_name)  # it may be registered again, as another kind
        if compares:
            COMPARES.add(checked_name)
        return kind

    return make_decorator(register, name)


def _find_registered_kind(name: str) -> Any:
    """Return the class or function that was registered under a name; None for a free name."""
    kind = KINDS.get(name)
    if isinstance(kind, str):
        # A kind of the library, which need not be imported for this: `check_free` refuses the name if the object that
        # it gets is defined in the library, and `find_kind` is.
        return find_kind
    return getattr(kind, "registered", kind)


def _make_kind_class(name: str, kind: Any) -> type:
    """Return a class that runs a user's class or function, has `calls`, and checks the judgments."""

    async def judge(self: Any, question: Question, judge: Judge, asker: Any) -> Judgment:
        if isinstance(kind, type):
            judgment = await cast(Any, kind).judge(self, question, judge, asker)
        else:
            judgment = await kind(question, judge, asker)
        return _check_judgment(name, question, judgment)

    members: dict[str, Any] = {"registered": kind, "judge": judge}
    if not hasattr(kind, "calls"):
        members["calls"] = lambda self, question, judge: int(question.wanted.sum())
    bases = (kind,) if isinstance(kind, type) else ()
    return type(kind.__name__, bases, members)


def _check_judgment(kind: str, question: Question, judgment: Any) -> Judgment:
    """Check the judgment of a kind of judge that a user has written, and return it.

    Values outside the domain of their criterion are replaced by missing verdicts, in the judgment itself. Raises
    InvalidInput if it is not a judgment, or about other cells than the question.
    """
    import numpy as np

    from rubrank.judges.judge import Judgment
    from rubrank.verifiers.verifier import Verdict

    # bool is an int: True is 1, as for verifiers
    numbers = (int, float, np.number, type(None))

    def refuse(what: str, allowed: str, got: str) -> InvalidInput:
        remedy = "See `rubrank help extending`."
        return InvalidInput(f"judge kind {kind!r}", what, allowed, got, remedy)

    if not isinstance(judgment, Judgment):
        raise refuse("what it returns", "a rubrank.Judgment", brief(judgment))
    size = len(question.group.rollouts)
    criteria = {criterion.name: criterion for criterion in question.criteria}
    cells = set(itertools.product(range(size), criteria))
    for cell, verdict in judgment.verdicts.items():
        is_verdict = isinstance(verdict, Verdict) and isinstance(verdict.value, numbers)
        if cell not in cells or not is_verdict:
            allowed = "rubrank.Verdict by (rollout, criterion) of the question"
            raise refuse("verdicts", allowed, f"{brief(verdict)} for {cell!r}")
        domain = criteria[cell[1]].value_domain
        if verdict.value is not None and not domain.holds(verdict.value):
            reason = (
                f"{kind} gave {verdict.value:g}, which is not in its domain ({domain.description})"
            )
            judgment.verdicts[cell] = Verdict(None, reason)
    for name, outcomes in judgment.outcomes.items():
        if name not in criteria or np.shape(outcomes) != (size, size):
            allowed = f"an array of shape ({size}, {size}) by criterion"
            raise refuse("outcomes", allowed, f"shape {np.shape(outcomes)} for {name!r}")
    return judgment


def list_kind_names() -> tuple[str, ...]:
    """Return the names of all kinds: the library's, those of plug-ins, and the user's."""
    load_plugins()
    return tuple(KINDS)


def find_kind(name: str) -> JudgeKind:
    """Return an instance of the kind of that name; raises UnknownName if there is none."""
    if name not in KINDS:
        load_plugins()
    if name not in KINDS:
        raise UnknownName.of("judge", "kind", name, KINDS)
    kind_class = KINDS[name]
    if isinstance(kind_class, str):
        module, _, attribute = kind_class.partition(":")
        kind_class = getattr(import_module(module), attribute)
    kind: JudgeKind = kind_class()
    return kind


def count_calls(question: Question, judge: Judge) -> int:
    """Return how many calls the question will take at most; nothing is sent."""
    from rubrank.judges.kinds.panel import Panel

    kind = find_kind(judge.kind)
    calls = Panel(kind).calls(question, judge) if judge.is_panel else kind.calls(question, judge)
    if judge.fallback is not None:
        from rubrank.judges.kinds.panel import count_most_escalated

        calls += min(count_most_escalated(question, judge), count_calls(question, judge.fallback))
    return calls


async def judge_question(question: Question, judge: Judge, asker_of: AskerOf) -> Judgment:
    """Ask a judge or panel, and its fallback where it is unsure; returns their judgment.

    asker_of: returns the asker that answers the calls of a judge or member.
    """
    from rubrank.judges.kinds.panel import (
        Panel,
        calibrate_judgment,
        choose_escalated,
        merge_judgments,
    )

    kind = find_kind(judge.kind)
    if judge.is_panel:
        judgment = await Panel(kind).judge(question, judge, asker_of)
    else:
        judgment = await kind.judge(question, judge, asker_of(judge))
    if judge.calibration:
        calibrate_judgment(judgment, question, judge)
    if judge.fallback is None:
        return judgment
    escalated = choose_escalated(question, judge, judgment)
    if not escalated.any():
        return judgment
    second = await judge_question(replace(question, wanted=escalated), judge.fallback, asker_of)
    return merge_judgments(judgment, second)
