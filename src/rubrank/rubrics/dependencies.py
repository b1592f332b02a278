"""Dependencies between criteria of a rubric, which form a graph without cycles.

>>> find_cyclic_names({"a": ["b"], "b": ["a"], "c": []})
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
    """Raise InvalidInput for an edge given twice, an edge to an unknown criterion, or a cycle.

    depends: the edges of each criterion, by its name. rubric: its name, for errors.
    """
    for name, edges in depends.items():
        twice = sorted(on for on, times in Counter(edge.on for edge in edges).items() if times > 1)
        if twice:
            raise InvalidInput(
                f"criterion {name!r}",
                "depends",
                allowed="one edge for each prerequisite",
                got=f"{twice[0]!r} twice",
                remedy="Keep the stronger one.",
            )
        for edge in edges:
            if edge.on not in depends:
                raise UnknownName.of(f"criterion {name!r}", "depends", edge.on, depends)
    cyclic_names = find_cyclic_names(
        {name: [edge.on for edge in edges] for name, edges in depends.items()}
    )
    if cyclic_names:
        raise InvalidInput(
            rubric,
            "depends",
            allowed="without cycles",
            got=f"a cycle among {cyclic_names}",
            remedy="Cut one of the edges.",
        )


def find_cyclic_names(prerequisites: Mapping[str, Sequence[str]]) -> list[str]:
    """Return the names on a cycle and those that depend on one, by a topological sort, which takes linear time.

    prerequisites: name → the names that it depends on; unknown names are ignored.
    """
    # Name → how many of its prerequisites are not sorted yet.
    waiting = {
        name: sum(on in prerequisites for on in names) for name, names in prerequisites.items()
    }
    followers: dict[str, list[str]] = {}
    for name, names in prerequisites.items():
        for on in names:
            followers.setdefault(on, []).append(name)
    ready = [name for name, count in waiting.items() if not count]
    for name in ready:
        for follower in followers.get(name, ()):
            waiting[follower] -= 1
            if not waiting[follower]:
                ready.append(follower)
    return sorted(set(prerequisites) - set(ready))
