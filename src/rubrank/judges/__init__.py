"""The ways of asking a judge, and the client that asks. The contract is in `rubrank.judges.judge`.

    judgment = await judged(question, judge, asker_of)       whatever its kind, panel or not

To add a kind from a module of your own (docs/extending.md):

    @rubrank.judge_kind("yes-no")
    class YesNo:
        async def judge(self, question, judge, asker): ...       a Judgment; its calls are answered by the asker

`calls(question, judge)`, how many calls it will make, is wanted too where that is not one a cell. A kind of the library
is a file in `judges/kinds/` and a line in `KINDS`. Panels, accounts, the cache, deadlines and ceilings work for all.

Importing this package imports none of them: a kind is loaded when it is first asked for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar, overload

from rubrank._plugins import check_call, check_free, decorated, load_plugins, shown
from rubrank.errors import InvalidInput, UnknownName

if TYPE_CHECKING:
    from rubrank.judges.asking import AskerOf, CountedKind
    from rubrank.judges.judge import Judge, Judgment, Question

KINDS: dict[str, str | type] = {
    "absolute": "rubrank.judges.kinds.absolute:Absolute",
    "batched": "rubrank.judges.kinds.batched:Batched",
    "pairwise": "rubrank.judges.kinds.pairwise:Pairwise",
    "listwise": "rubrank.judges.kinds.listwise:Listwise",
}
"""Every kind, and where its class is, or the class itself."""

COMPARES = {"pairwise", "listwise"}
"""The kinds that compare rollouts instead of scoring them."""


_K = TypeVar("_K")


@overload
def judge_kind(name: str | None = None, *, compares: bool = False) -> Callable[[_K], _K]: ...


@overload
def judge_kind(name: _K, /) -> _K: ...


def judge_kind(name: Any = None, *, compares: bool = False) -> Any:
    """Register a way of asking under `name`, or under the class's `name`: a class, or a function like its `judge`.

    compares: it says which rollout is better (`Judgment.outcomes`) instead of how good each is (`Judgment.verdicts`).
    """

    def register(chosen: str | None, made: Any) -> Any:
        own = getattr(made, "name", None) or getattr(made, "__name__", None)
        wanted = own if chosen is None else chosen
        known = check_free("judge_kind", wanted, made, _taken)
        judge = getattr(made, "judge", None) if isinstance(made, type) else made
        if not inspect.iscoroutinefunction(judge):
            allowed = "a class with `async judge(question, judge, asker)`, or such a function"
            raise InvalidInput("judge_kind", "kind", allowed, shown(made), "See docs/extending.md.")
        if isinstance(made, type):
            check_call("judge_kind", made)
            check_call("judge_kind", judge, "self", "question", "judge", "asker")
        else:
            check_call("judge_kind", judge, "question", "judge", "asker")
        KINDS[known] = _held(known, made)
        (COMPARES.add if compares else COMPARES.discard)(known)
        return made

    return decorated(register, name)


def _taken(name: str) -> Any:
    found = KINDS.get(name)
    return find_kind if isinstance(found, str) else getattr(found, "made", found)  # a path is the library's


def _held(name: str, made: Any) -> type:
    """The kind as a class that has a `calls`, and whose judgments are checked."""

    async def judge(self: Any, question: Question, judge: Judge, asker: Any) -> Judgment:
        from rubrank.judges.asking import check_judgment

        own: Any = made
        asked = own.judge(self, question, judge, asker) if isinstance(made, type) else own(question, judge, asker)
        return check_judgment(name, question, await asked)

    members: dict[str, Any] = {"made": made, "judge": judge}
    if not hasattr(made, "calls"):
        members["calls"] = lambda self, question, judge: int(question.wanted.sum())
    return type(made.__name__, (made,) if isinstance(made, type) else (), members)


def kind_names() -> tuple[str, ...]:
    """All kinds: the library's, those of plug-ins, and your own."""
    load_plugins()
    return tuple(KINDS)


def find_kind(name: str) -> CountedKind:
    """The kind of that name."""
    if name not in KINDS:
        load_plugins()
    if name not in KINDS:
        raise UnknownName.of("judge", "kind", name, KINDS)
    found = KINDS[name]
    if isinstance(found, str):
        module, _, attribute = found.partition(":")
        found = getattr(import_module(module), attribute)
    kind: CountedKind = found()
    return kind


def count_calls(question: Question, judge: Judge) -> int:
    """How many calls the question will take, before anything is spent."""
    from rubrank.judges.kinds.panel import Panel

    kind = find_kind(judge.kind)
    return Panel(kind).calls(question, judge) if judge.is_panel else kind.calls(question, judge)


async def judged(question: Question, judge: Judge, asker_of: AskerOf) -> Judgment:
    """What the judge says; `asker_of(judge)` answers its calls, or those of a member of its panel."""
    from rubrank.judges.kinds.panel import Panel

    kind = find_kind(judge.kind)
    if judge.is_panel:
        return await Panel(kind).judge(question, judge, asker_of)
    return await kind.judge(question, judge, asker_of(judge))
