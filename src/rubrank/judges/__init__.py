"""The ways of asking a judge, and the client that asks. The contract is in `rubrank.judges.judge`.

    judgment = await judged(question, judge, asker_of)       whatever its kind, panel or not

To add a kind:

1. Write `judges/<name>.py` with a class that has `calls(question, judge)`, how many calls it will make, and
   `async judge(question, judge, asker)`, which makes them (`judges/asking.py`).
2. Add its name to `rubrank.judges.judge.Kind`, and a line to `KINDS` below. Panels, accounts, the cache, deadlines and
   ceilings then work for it as they do for the others.

Importing this package imports none of them: a kind is loaded when it is first asked for.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

from rubrank.errors import UnknownName

if TYPE_CHECKING:
    from rubrank.judges.asking import AskerOf, CountedKind
    from rubrank.judges.judge import Judge, Judgment, Question

KINDS: dict[str, str] = {
    "absolute": "rubrank.judges.kinds.absolute:Absolute",
    "batched": "rubrank.judges.kinds.batched:Batched",
    "pairwise": "rubrank.judges.kinds.pairwise:Pairwise",
    "listwise": "rubrank.judges.kinds.listwise:Listwise",
}
"""Every kind, and where its class is."""

COMPARES = frozenset({"pairwise", "listwise"})
"""The kinds that compare rollouts instead of scoring them."""


def find_kind(name: str) -> CountedKind:
    """The kind of that name."""
    if name not in KINDS:
        raise UnknownName.of("judge", "kind", name, KINDS)
    module, _, attribute = KINDS[name].partition(":")
    kind: CountedKind = getattr(import_module(module), attribute)()
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
