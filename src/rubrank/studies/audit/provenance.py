"""What score tables say about how they were judged: which replies answered, and who won by position.

    refuse_same_replies({"main": [run, rerun]})       InvalidInput, if the rerun was answered from the cache
    counted_positions({"ranker": [run, other]})       {"ranker": {"GeneralQuality": (61.0, 120)}}

A second run over the same cache gives the same verdicts to the last digit. That is what a cache is for; as a measure of
self-consistency it is worth nothing, and would come out as 1.00.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations

from rubrank.errors import InvalidInput
from rubrank.judges.judgments import Provenance

_OWNER = "audit"


def refuse_same_replies(known: Mapping[str, Sequence[Provenance | None]]) -> None:
    """InvalidInput, where two runs of a judge were answered by the same replies."""
    for judge, runs in known.items():
        for (i, one), (j, other) in combinations(enumerate(runs, 1), 2):
            shared = [] if one is None or other is None else _shared(one, other)
            if shared:
                got = f"runs {i} and {j}, which share replies in {len(shared)} groups, such as {shared[0]!r}"
                raise InvalidInput(
                    _OWNER,
                    f"runs of judge {judge!r}",
                    "asked independently of each other",
                    got,
                    "Ask again with another cache, or at least with another seed.",
                )


def _shared(one: Provenance, other: Provenance) -> list[str]:
    return [id for id, some in one.replies.items() if set(some) & set(other.replies.get(id, ()))]


def counted_positions(
    known: Mapping[str, Sequence[Provenance | None]],
) -> dict[str, dict[str, tuple[float, int]]]:
    """Wins of the response shown first over all runs of every judge that compared."""
    found: dict[str, dict[str, tuple[float, int]]] = {}
    for judge, runs in known.items():
        for run in runs:
            for name, (won, n) in (run.positions if run is not None else {}).items():
                before = found.setdefault(judge, {}).get(name, (0.0, 0))
                found[judge][name] = (before[0] + won, before[1] + n)
    return found
