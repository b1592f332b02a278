"""The graph of a rubric's prerequisites, for GEAR.

    criteria = A;  B depends on A (strong);  C depends on A (weak) and B (trigger)
    build_graph(…)      order A, B, C;  parents of C: (A, "weak"), (B, "trigger")

Graphs are cached by their criteria. A cycle, an edge to the criterion itself or to an unknown one, and an edge that is
given twice are errors.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, NamedTuple

from rubrank.errors import InvalidInput, UnknownName
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData

Edges = tuple[tuple[tuple[str, str], ...], ...]


@dataclass(frozen=True)
class Graph:
    """Criteria by number."""

    order: tuple[int, ...]
    """Criteria with parents, each after all of its parents."""
    parents: tuple[tuple[tuple[int, str], ...], ...]
    """For every criterion, the number of each parent and the kind of the edge."""

    @cached_property
    def components(self) -> list[list[int]]:
        """The connected components, each in topological order; criteria without any edge are left out."""
        group = list(range(len(self.parents)))
        for k in self.order:
            for j, _ in self.parents[k]:
                merged = group[k]
                group = [group[j] if g == merged else g for g in group]
        members_of: dict[int, list[int]] = {}
        roots = [k for k in range(len(self.parents)) if k not in self.order]
        for k in (*roots, *self.order):
            members_of.setdefault(group[k], []).append(k)
        return [members for members in members_of.values() if len(members) > 1]


class PlacedGraph(NamedTuple):
    """A graph, the columns of its criteria in the batch, and the groups that have it."""

    graph: Graph
    columns: list[int]
    groups: list[int]


def build_graphs(batch: ScoreBatch) -> list[PlacedGraph]:
    """The distinct graphs of a batch; those without edges are left out."""
    rubrics: dict[int, tuple[CriterionData, ...]] = {0: batch.criteria}
    groups = {0: list(range(batch.N))}
    if batch.own is not None:  # groups often share a rubric, so each is read once
        rubrics = {id(rubric): rubric for rubric in batch.own}
        groups = {id(rubric): [] for rubric in batch.own}
        for g, rubric in enumerate(batch.own):
            groups[id(rubric)].append(g)
    number = {name: k for k, name in enumerate(batch.names)}
    gates = tuple(c.name for c in batch.gate_criteria)
    graphs: dict[tuple[Any, ...], PlacedGraph] = {}
    for key, rubric in rubrics.items():
        ranked = [c for c in rubric if c.name in number]
        names = tuple(c.name for c in ranked)
        edges = tuple(c.depends for c in ranked)
        if not any(edges) or not groups[key]:
            continue
        if (names, edges) not in graphs:
            columns = [number[name] for name in names]
            graphs[names, edges] = PlacedGraph(build_graph(names, edges, gates), columns, [])
        graphs[names, edges].groups.extend(groups[key])
    return [placed for placed in graphs.values() if placed.graph.order]


@lru_cache(maxsize=4096)
def build_graph(names: tuple[str, ...], depends: Edges, elsewhere: tuple[str, ...] = ()) -> Graph:
    """The graph of criteria by name; an edge to a criterion `elsewhere` (a gate) is left out: the gate acts itself."""
    number = {name: k for k, name in enumerate(names)}
    for name, edges in zip(names, depends, strict=True):
        _check_edges(name, edges, {*names, *elsewhere})
    parents = tuple(
        tuple((number[on], kind) for on, kind in edges if on in number) for edges in depends
    )
    return Graph(_sort_topologically(names, parents), parents)


def _check_edges(name: str, edges: tuple[tuple[str, str], ...], names: set[str]) -> None:
    owner = f"criterion {name!r}"
    parents = [parent for parent, _ in edges]
    for parent in parents:
        if parent not in names:
            raise UnknownName.of(owner, "depends", parent, names)
        if parent == name:
            raise InvalidInput(owner, "depends", "on other criteria", "itself", "")
        if parents.count(parent) > 1:
            got = f"{parent!r} twice"
            raise InvalidInput(
                owner, "depends", "each criterion once", got, "Keep one of the edges."
            )


def _sort_topologically(
    names: tuple[str, ...], parents: tuple[tuple[tuple[int, str], ...], ...]
) -> tuple[int, ...]:
    done = {k for k, above in enumerate(parents) if not above}
    order: list[int] = []
    while len(done) < len(parents):
        ready = [
            k
            for k, above in enumerate(parents)
            if k not in done and all(j in done for j, _ in above)
        ]
        if not ready:
            unsorted = sorted(names[k] for k in range(len(names)) if k not in done)
            raise InvalidInput("gear", "depends", "without cycles", f"a cycle among {unsorted}", "")
        order += ready
        done.update(ready)
    return tuple(order)
