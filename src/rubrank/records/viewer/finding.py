"""Which groups a list shows, and in which order: filters on columns, then words in the records themselves.

    finder = GroupFinder(run)
    found = finder.find(Wanted(state="stopped", sort="spread", query="tides"))
    found.groups, found.done           numbers of groups; how much of the search is done, from 0 to 1

A search goes on a little with every question, from where it stood, so that no answer takes long.
"""

from __future__ import annotations

import json
import threading
import time
from collections import OrderedDict
from dataclasses import dataclass, replace

import numpy as np

from rubrank.errors import InvalidInput
from rubrank.records import facts
from rubrank.records.viewer.index import NO_STEP, UNREADABLE, Index
from rubrank.records.viewer.light import said_in
from rubrank.records.viewer.run import ViewedRun

STATES = {
    "": (0, 0),
    "signal": (facts.NO_SIGNAL, 0),
    "noSignal": (facts.NO_SIGNAL, facts.NO_SIGNAL),
    "stopped": (facts.STOPPED, facts.STOPPED),
    "softened": (facts.SOFTENED, facts.SOFTENED),
    "missing": (facts.MISSING, facts.MISSING),
    "judgesFailed": (facts.JUDGES_FAILED, facts.JUDGES_FAILED),
    "gateMissing": (facts.GATE_MISSING, facts.GATE_MISSING),
    "rulesDisagree": (facts.RULES_DISAGREE, facts.RULES_DISAGREE),
    "longestWins": (facts.LONGEST_WINS, facts.LONGEST_WINS),
}
"""State → bits that are looked at, and what they must be."""
SORTS = {
    "file": None,
    "spread": ("spread", -1),
    "narrow": ("spread", 1),
    "size": ("size", -1),
    "stopped": ("stopped", -1),
    "latest": ("step", -1),
    "first": ("step", 1),
}
SCORES = ("any", "low", "high", "constant", "differs")
_KEPT = 16  # answers that are kept, to page through them
_PATIENCE = 0.2  # seconds that one question may search


@dataclass(frozen=True)
class Wanted:
    """What a list shows."""

    query: str = ""
    state: str = ""
    criterion: str = ""
    score: str = "any"
    """Of the criterion: "low" = a rollout scores at most `value`, "high" = at least, "constant", "differs"."""
    value: float = 0.0
    step: int | None = None
    rule: str = ""
    sort: str = "file"

    def check(self) -> Wanted:
        """Itself; raises for what there is not."""
        for name, allowed in (("state", STATES), ("sort", SORTS), ("score", SCORES)):
            if getattr(self, name) not in allowed:
                raise InvalidInput("view", name, f"one of {', '.join(allowed)}", getattr(self, name), "")
        return self


@dataclass
class FoundGroups:
    """The groups of a list."""

    groups: np.ndarray
    done: float = 1.0


class GroupFinder:
    """Answers about one run, with the latest kept."""

    def __init__(self, run: ViewedRun) -> None:
        self.run = run
        self._lock = threading.Lock()
        self._kept: OrderedDict[tuple[Wanted, int, int], FoundGroups] = OrderedDict()
        self._searches: OrderedDict[tuple[Wanted, int], Search] = OrderedDict()

    def find(self, wanted: Wanted) -> FoundGroups:
        """The groups that fit, as far as the run is read."""
        with self._lock:
            return self._find(wanted)

    def _find(self, wanted: Wanted) -> FoundGroups:
        index, plain = self.run.index, replace(wanted, query="")
        key = wanted.check(), self.run.epoch, len(index) if wanted == Wanted() else index.ready
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        fits = fitting(index, plain)
        if wanted == Wanted():  # everything can be opened as soon as it is found
            unread = np.arange(len(fits), len(index))
            found = FoundGroups(np.concatenate([np.flatnonzero(fits), unread]))
        elif wanted.query.strip():
            search = self._search(wanted)
            done = search.go_on(np.flatnonzero(fits), _PATIENCE)
            found = FoundGroups(ordered(index, np.array(search.hits, dtype=np.int64), wanted.sort), done)
            if done < 1.0:
                return found
        else:
            found = FoundGroups(ordered(index, np.flatnonzero(fits), wanted.sort))
        self._kept[key] = found
        while len(self._kept) > _KEPT:
            self._kept.popitem(last=False)
        return found

    def _search(self, wanted: Wanted) -> Search:
        key = replace(wanted, sort="file"), self.run.epoch
        if key not in self._searches:
            self._searches[key] = Search(self.run, wanted.query)
        self._searches.move_to_end(key)
        while len(self._searches) > _KEPT:
            self._searches.popitem(last=False)
        return self._searches[key]


def fitting(index: Index, wanted: Wanted) -> np.ndarray:
    """(ready,): which groups fit everything but the words."""
    n, columns = index.ready, index.facts
    bits, mask = columns["bits"][:n], STATES[wanted.state]
    fits = (bits & UNREADABLE == 0) & (bits & mask[0] == mask[1])
    if wanted.step is not None:
        fits &= columns["step"][:n] == wanted.step
    if wanted.rule:
        fits &= columns["rule"][:n] == index.rules.get(wanted.rule, len(index.rules))
    if wanted.criterion:
        fits &= _scored(index, wanted, n)
    return fits


def _scored(index: Index, wanted: Wanted, n: int) -> np.ndarray:
    """Which groups have such scores of the criterion."""
    number = index.names.get(("criterion", wanted.criterion), len(index.names))
    numbers, groups, lows, highs = index.series.columns("series", "group", "low", "high")
    mine = np.flatnonzero((numbers == number) & (groups < n))
    low, high = lows[mine], highs[mine]
    value = np.float32(wanted.value)
    fits = {
        "any": np.ones(len(mine), dtype=bool),
        "low": low <= value,
        "high": high >= value,
        "constant": low == high,
        "differs": low != high,
    }
    found = np.zeros(n, dtype=bool)
    found[groups[mine[fits[wanted.score]]]] = True
    return found


def ordered(index: Index, groups: np.ndarray, sort: str) -> np.ndarray:
    """The groups in the order asked for; equal ones as in the file."""
    by = SORTS[sort]
    if by is None:
        return groups
    values = index.facts[by[0]][groups].astype(np.float64)
    if by[0] == "step":
        values[index.facts["step"][groups] == NO_STEP] = -np.inf * by[1]
    return groups[np.argsort(by[1] * values, kind="stable")]


class Search:
    """Words in the texts of groups, read from the file once and in order."""

    def __init__(self, run: ViewedRun, query: str) -> None:
        self.run, self.words = run, query.strip().casefold()
        self.hits: list[int] = []
        self.next = 0
        self._needles = needles(query.strip())

    def go_on(self, candidates: np.ndarray, seconds: float) -> float:
        """Look at the next groups for a while; how much is done, from 0 to 1."""
        end, at = time.monotonic() + seconds, int(np.searchsorted(candidates, self.next))
        while at < len(candidates) and time.monotonic() < end:
            g = int(candidates[at])
            if self._is_in(g):
                self.hits.append(g)
            at, self.next = at + 1, g + 1
        return 1.0 if at >= len(candidates) else at / len(candidates)

    def _is_in(self, g: int) -> bool:
        line = self.run.line(g)
        small = line.lower()
        if not any(needle in small for needle in self._needles):
            return False
        return any(self.words in text.casefold() for text in said_in(line).texts())


def needles(query: str) -> set[bytes]:
    """What a line holds, in small ASCII letters, if the query is in it: as JSON writes it, in several cases."""
    forms = {query, query.lower(), query.upper(), query.capitalize(), query.title()}
    written = {json.dumps(form, ensure_ascii=ascii)[1:-1] for form in forms for ascii in (False, True)}
    return {text.encode("utf-8", "surrogatepass").lower() for text in written}
