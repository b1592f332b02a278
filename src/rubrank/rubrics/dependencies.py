"""What criteria build on: edges to others of the rubric, without twins, strangers and cycles.

>>> in_cycles({"a": ["b"], "b": ["a"], "c": []})
['a', 'b']
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal, TypeAlias

from rubrank._plain import Strict
from rubrank.errors import InvalidInput, UnknownName

EdgeKind: TypeAlias = Literal["weak", "strong", "trigger"]


class Dependency(Strict):
    """Another criterion that this one builds on: without it, this one is worth less (or nothing)."""

    on: str
    kind: EdgeKind = "weak"


def check_edges(depends: Mapping[str, Sequence[Dependency]], rubric: str) -> None:
    """Refuse an edge given twice, one to a criterion that is not there, and cycles; `depends` by criterion."""
    for name, edges in depends.items():
        twice = sorted(on for on, times in Counter(edge.on for edge in edges).items() if times > 1)
        if twice:
            got, remedy = f"{twice[0]!r} twice", "Keep the stronger one."
            raise InvalidInput(f"criterion {name!r}", "depends", "one edge for each prerequisite", got, remedy)
        for edge in edges:
            if edge.on not in depends:
                raise UnknownName.of(f"criterion {name!r}", "depends", edge.on, depends)
    left = in_cycles({name: [edge.on for edge in edges] for name, edges in depends.items()})
    if left:
        raise InvalidInput(rubric, "depends", "without cycles", f"a cycle among {left}", "Cut one of the edges.")


def in_cycles(needs: Mapping[str, Sequence[str]]) -> list[str]:
    """Names that are never ready: on a cycle, or needing one that is. Each edge is looked at once."""
    waiting = {name: sum(on in needs for on in ons) for name, ons in needs.items()}
    followers: dict[str, list[str]] = {}
    for name, ons in needs.items():
        for on in ons:
            followers.setdefault(on, []).append(name)
    ready = [name for name, count in waiting.items() if not count]
    for name in ready:
        for follower in followers.get(name, ()):
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append(follower)
    return sorted(set(needs) - set(ready))
