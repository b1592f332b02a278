"""Keep one row per group of a run, in columns that grow: what the page's list, filters and curves need.

    index = Index()
    index.add_record(record)                 a GroupRecord, or the light form that run.py decodes
    index.list_rows(start=0)                 the rows as plain lists, as the page reads them
    make_curves(index)                       means over the steps of training
    make_step_table(index)                   one row per step
    compare_runs(index, other)               how two runs differ on the prompts that they share

Two tables grow with every group. `facts` has one row per group: its step, size, states … `series` has one row for each
criterion and attribute of a group: the mean, lowest and highest value over its rollouts. A group takes some 60 bytes,
its name and title, and 20 bytes for each of its criteria. One thread adds groups while others read.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from rubrank.viewer.states import State, count_stopped, find_states, make_title
from rubrank.viewer.summary.figures import Moments

NO_STEP = np.iinfo(np.int64).min
"""The step of a group whose record has none."""
_MOST_POINTS = 240  # of a curve; beyond that, neighbouring steps share a point
_MOST_CURVES = 24  # of a kind

_FACTS = {
    "step": np.int64,
    "size": np.uint32,  # rollouts
    "spread": np.float32,  # highest minus lowest reward
    "mean": np.float32,  # mean reward
    "states": np.uint16,  # bits of State
    "stopped": np.uint32,  # rollouts that a gate stopped
    "rule": np.uint32,  # number in Index.rules
    "criteria": np.uint32,  # number in Index.criteria_sets
    "prompt": np.uint64,  # hash of the prompt
}
_SERIES = {
    "group": np.uint32,
    "series": np.uint32,  # number in Index.series_names
    "mean": np.float32,
    "low": np.float32,
    "high": np.float32,
}


class Columns:
    """Arrays of one length that grow together."""

    def __init__(self, types: Mapping[str, Any]) -> None:
        self.length = 0
        self._arrays = {name: np.zeros(1024, kind) for name, kind in types.items()}

    def append(self, **values: Any) -> None:
        """Add one row."""
        self.extend(**{name: [value] for name, value in values.items()})

    def extend(self, **values: Any) -> None:
        """Add many rows."""
        new_rows = len(next(iter(values.values())))
        while self.length + new_rows > len(next(iter(self._arrays.values()))):
            # Twice the room, in new arrays: a thread that reads keeps the old ones.
            self._arrays = {
                name: np.concatenate([array, np.zeros_like(array)])
                for name, array in self._arrays.items()
            }
        for name, value in values.items():
            self._arrays[name][self.length : self.length + new_rows] = value
        self.length += new_rows  # last, so that no thread sees a row that is not complete

    def __getitem__(self, name: str) -> np.ndarray:
        return self._arrays[name][: self.length]

    def select(self, *names: str) -> tuple[np.ndarray, ...]:
        """Return several columns of the same length, even while another thread appends."""
        # In this order: arrays that are read later have at least as many rows.
        length = self.length
        arrays = self._arrays
        return tuple(arrays[name][:length] for name in names)


class Index:
    """The groups of one run."""

    def __init__(self) -> None:
        self.facts = Columns(_FACTS)
        self.series = Columns(_SERIES)
        """One row per group and criterion (or attribute): mean, lowest and highest value over its rollouts."""
        self.ids: list[str] = []
        self.titles: list[str] = []
        self.rules: dict[str, int] = {}
        self.criteria_sets: dict[tuple[str, ...], int] = {}
        """Criteria of a group → number; groups with the same rubric share one."""
        self.criterion_groups: Counter[str] = Counter()
        """Criterion → groups that have it, with scores or with comparisons."""
        self.series_names: dict[tuple[str, str], int] = {}
        """("run" | "criterion" | "attribute", name) → number of the series."""
        self.unreadable: list[tuple[int, str]] = []
        """Lines that are not records: (number of the group, why)."""

    def __len__(self) -> int:
        return self.facts.length

    def add_record(self, record: Any, measured: Mapping[str, np.ndarray] | None = None) -> None:
        """Add the next group. measured: name → one value per rollout, of attributes that the record does not hold."""
        reward = record.reward
        names = tuple(criterion.name for criterion in record.criteria)
        row: dict[str, Any] = {
            "step": NO_STEP if record.step is None else record.step,
            "size": len(reward),
            "spread": max(reward) - min(reward) if reward else 0.0,
            "mean": sum(reward) / len(reward) if reward else 0.0,
            "states": int(find_states(record)),
            "stopped": count_stopped(record),
            "rule": self.rules.setdefault(record.rule, len(self.rules)),
            "criteria": self.criteria_sets.setdefault(names, len(self.criteria_sets)),
            "prompt": _hash_prompt(record),
        }
        # A value that no column can hold (a step beyond 64 bits) raises here, before anything is added.
        row = {name: _FACTS[name](value) for name, value in row.items()}
        self._add_series(record, measured or {})
        self.criterion_groups.update(names)
        self.ids.append(record.group)
        self.titles.append(make_title(record.prompt))
        self.facts.append(**row)

    def add_unreadable(self, why: str) -> None:
        """Add a line that is not a record."""
        self.unreadable.append((self.facts.length, why))
        self.ids.append("")
        self.titles.append("this line is not a record")
        self.facts.append(step=NO_STEP, states=int(State.UNREADABLE))

    def list_rows(self, start: int = 0) -> dict[str, Any]:
        """Return the groups from `start` on as one list per column, and the tables that the numbers point into."""
        rows = slice(start, len(self))
        steps = self.facts["step"][rows].tolist()
        return {
            "start": start,
            "id": self.ids[rows],
            "title": self.titles[rows],
            "step": [None if step == NO_STEP else step for step in steps],
            "states": self.facts["states"][rows].tolist(),
            "spread": np.round(self.facts["spread"][rows].astype(float), 4).tolist(),
            "mean": np.round(self.facts["mean"][rows].astype(float), 4).tolist(),
            "size": self.facts["size"][rows].tolist(),
            "stopped": self.facts["stopped"][rows].tolist(),
            "rule": self.facts["rule"][rows].tolist(),
            "criteria": self.facts["criteria"][rows].tolist(),
            "rules": list(self.rules),
            # A copy, because another thread may add to it.
            "criteria_sets": [list(names) for names in list(self.criteria_sets)],
        }

    def list_scores(self, criterion: str) -> dict[str, Any]:
        """Return the lowest and highest score of a criterion in every group that has one."""
        number = self.series_names.get(("criterion", criterion), -1)
        series, groups, lows, highs = self.series.select("series", "group", "low", "high")
        rows = np.flatnonzero(series == number)
        return {
            "groups": groups[rows].tolist(),
            "low": _round(lows[rows]),
            "high": _round(highs[rows]),
        }

    def list_criteria(self, most: int) -> list[str]:
        """Return at most `most` names of criteria, those that most groups have, in alphabetical order."""
        # A copy, because another thread may add to it.
        counts = Counter(dict(self.criterion_groups))
        return sorted(name for name, _ in counts.most_common(most))

    def _add_series(self, record: Any, measured: Mapping[str, np.ndarray]) -> None:
        """Add mean, lowest and highest value of every criterion and attribute of the next group."""
        columns: list[tuple[str, str, Any]] = [
            ("run", "agreement of the criteria", [record.agreement])
        ]
        for k, criterion in enumerate(record.criteria):
            columns.append(("criterion", criterion.name, [row[k] for row in record.scores]))
        if record.attributes is not None:
            for d, name in enumerate(record.attribute_names):
                columns.append(("attribute", name, [row[d] for row in record.attributes]))
        for name, values in measured.items():
            if name not in record.attribute_names:
                columns.append(("attribute", name, values.tolist()))
        rows = []
        for kind, name, values in columns:
            present = [x for x in values if x is not None and x == x]  # without None and NaN
            if present:
                number = self.series_names.setdefault((kind, name), len(self.series_names))
                mean = sum(present) / len(present)
                rows.append((len(self), number, mean, min(present), max(present)))
        if rows:
            groups, numbers, means, lows, highs = zip(*rows, strict=True)
            self.series.extend(group=groups, series=numbers, mean=means, low=lows, high=highs)


def _hash_prompt(record: Any) -> int:
    """Return a number that groups with the same prompt share; without a prompt, groups with the same name."""
    messages = [(message.get("role"), message.get("content")) for message in record.prompt or ()]
    text = json.dumps(messages or record.group, default=str)
    digest = blake2b(text.encode("utf-8", "replace"), digest_size=8).digest()
    return int.from_bytes(digest, "little")


def _round(values: np.ndarray) -> list[float]:
    """Return 32-bit numbers with the seven digits that they have."""
    return [float(f"{x:.7g}") for x in values.tolist()]


# ------------------------------------------------------------------------------- curves over the steps


def make_curves(index: Index) -> dict[str, Any]:
    """Return the means over the groups of each step, with half of their 95% intervals.

    {"steps": [0, 10], "last_steps": [0, 10],
     "curves": [{"kind": "run", "name": …, "points": [[step, mean, half width], …]}]}

    Kinds: "run", then "criterion" and "attribute" for those that most groups have. Beyond 240 steps, neighbours share a
    point: `steps` has the first step of each point, `last_steps` the last one.
    """
    n = len(index)  # groups that are added meanwhile are left out
    places, steps, last_steps = _assign_points(index, n)
    used = places >= 0
    values_of_groups = _compute_group_rates(index)
    values_of_groups["spread of rewards"] = index.facts["spread"].astype(float)
    curves = []
    for name, values in values_of_groups.items():
        counts, totals, squares = _sum_by_place(places[used], values[:n][used], len(steps))
        points = _make_points(counts, totals, squares, steps)
        # A curve that is zero throughout says nothing: no judges, no gate.
        if any(point[1] for point in points):
            curves.append({"kind": "run", "name": name, "points": points})
    curves += _make_series_curves(index, n, places, steps)
    return {"steps": steps, "last_steps": last_steps, "curves": curves}


def _compute_group_rates(index: Index) -> dict[str, np.ndarray]:
    """Return name → one number from 0 to 1 for every group: what curves and comparisons show of a run."""
    states, stopped, size = index.facts.select("states", "stopped", "size")

    def mark_groups(state: State) -> np.ndarray:
        return (states & int(state) > 0).astype(float)

    return {
        "groups without signal": mark_groups(State.NO_SIGNAL),
        "stopped by a gate": stopped / np.maximum(size, 1),
        "judges failed": mark_groups(State.JUDGES_FAILED),
        "the longest wins": mark_groups(State.LONGEST_WINS),
    }


def _make_series_curves(
    index: Index, n: int, places: np.ndarray, steps: list[int]
) -> list[dict[str, Any]]:
    """Return the curves of criteria and attributes, of each kind those that most groups have.

    places: the point of each of the first n groups, −1 for none. steps: the first step of each point.
    """
    numbers, groups, means = index.series.select("series", "group", "mean")
    names = list(index.series_names.items())
    rows = np.flatnonzero(groups < n)
    rows = rows[places[groups[rows]] >= 0]
    # There may be thousands of series: one pass over all of them, with a cell for each (series, point).
    cells = numbers[rows].astype(np.int64) * len(steps) + places[groups[rows]]
    sums = _sum_by_place(cells, means[rows].astype(float), len(names) * len(steps))
    counts, totals, squares = (column.reshape(len(names), len(steps)) for column in sums)
    names.sort(key=lambda item: -counts[item[1]].sum())
    curves = []
    curves_of_kind: Counter[str] = Counter()
    for (kind, name), number in names:
        curves_of_kind[kind] += 1
        if curves_of_kind[kind] <= _MOST_CURVES and counts[number].any():
            points = _make_points(counts[number], totals[number], squares[number], steps)
            curves.append({"kind": kind, "name": name, "points": points})
    return curves


def _sum_by_place(
    places: np.ndarray, values: np.ndarray, length: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the count, sum and sum of squares of the values at every place."""
    count = np.bincount(places, minlength=length)
    total = np.bincount(places, values, minlength=length)
    squares = np.bincount(places, values * values, minlength=length)
    return count, total, squares


def _make_points(
    count: np.ndarray, total: np.ndarray, squares: np.ndarray, steps: list[int]
) -> list[list[Any]]:
    """Return [step, mean, half width] for every place that has values."""
    points = []
    for place in np.flatnonzero(count):
        moments = Moments(int(count[place]), float(total[place]), float(squares[place]))
        points.append([steps[place], moments.mean, moments.half_width])
    return points


def _assign_points(index: Index, n: int) -> tuple[np.ndarray, list[int], list[int]]:
    """Return the point of each of the first n groups (−1: none), and the first and the last step of each point."""
    step = index.facts["step"][:n]
    excluded = int(State.EVALUATION | State.UNREADABLE)
    used = (step != NO_STEP) & (index.facts["states"][:n] & excluded == 0)
    all_steps = np.unique(step[used])
    steps_per_point = max(1, math.ceil(len(all_steps) / _MOST_POINTS))
    places = np.full(n, -1)
    places[used] = np.searchsorted(all_steps, step[used]) // steps_per_point
    first_steps = []
    last_steps = []
    for start in range(0, len(all_steps), steps_per_point):
        point_steps = all_steps[start : start + steps_per_point]
        first_steps.append(int(point_steps[0]))
        last_steps.append(int(point_steps[-1]))
    return places, first_steps, last_steps


def make_step_table(index: Index) -> list[dict[str, Any]]:
    """Return one row per step: groups, rollouts, and the share of groups in each noteworthy state."""
    columns = index.facts.select("step", "states", "size", "stopped")
    is_readable = columns[1] & int(State.UNREADABLE) == 0
    step, states, size, stopped = (column[is_readable] for column in columns)
    all_steps, place = np.unique(step, return_inverse=True)
    groups = np.bincount(place, minlength=len(all_steps))
    rollouts = np.bincount(place, size, minlength=len(all_steps))
    stopped_rollouts = np.bincount(place, stopped, minlength=len(all_steps))

    def compute_shares(state: State) -> np.ndarray:
        has_state = (states & int(state) > 0).astype(float)
        return np.bincount(place, has_state, minlength=len(all_steps)) / np.maximum(groups, 1)

    no_signal = compute_shares(State.NO_SIGNAL)
    judges_failed = compute_shares(State.JUDGES_FAILED)
    rules_disagree = compute_shares(State.RULES_DISAGREE)
    longest_wins = compute_shares(State.LONGEST_WINS)
    rows = []
    for i, value in enumerate(all_steps.tolist()):
        row = {
            "step": None if value == NO_STEP else int(value),
            "groups": int(groups[i]),
            "rollouts": int(rollouts[i]),
            "stopped": float(stopped_rollouts[i] / max(rollouts[i], 1)),
            "no_signal": float(no_signal[i]),
            "judges_failed": float(judges_failed[i]),
            "rules_disagree": float(rules_disagree[i]),
            "longest_wins": float(longest_wins[i]),
        }
        rows.append(row)
    return rows


# ---------------------------------------------------------------------------------------- two runs compared


def compare_runs(first: Index, second: Index) -> dict[str, Any]:
    """Return how two runs differ on the prompts that both have, each at the last group that has it.

    {"prompts": 40, "rows": [{"kind": "criterion", "name": "Facts", "prompts": 38, "first": 0.61, "second": 0.72,
                              "difference": 0.11, "half": 0.04}, …]}

    A difference is the mean over prompts of second minus first, with half of its 95% interval (Student's t, paired).
    """
    first_groups, second_groups = _match_prompts(first, second)
    columns: list[tuple[str, str, np.ndarray, np.ndarray]] = []
    second_rates = _compute_group_rates(second)
    for name, rates in _compute_group_rates(first).items():
        columns.append(("run", name, rates[first_groups], second_rates[name][second_groups]))
    for kind, name in list(first.series_names):  # a copy: another thread may add to it
        if (kind, name) in second.series_names:
            before = _read_means(first, kind, name)[first_groups]
            after = _read_means(second, kind, name)[second_groups]
            columns.append((kind, name, before, after))
    rows = []
    for kind, name, before, after in columns:
        both = ~np.isnan(before) & ~np.isnan(after)
        # A rate that is zero in both runs says nothing: no judges, no gate.
        is_zero = kind == "run" and not before.any() and not after.any()
        if is_zero or not both.any():
            continue
        differences = after[both] - before[both]
        moments = Moments(int(both.sum()), float(differences.sum()), float((differences**2).sum()))
        row = {
            "kind": kind,
            "name": name,
            "prompts": moments.n,
            "first": float(before[both].mean()),
            "second": float(after[both].mean()),
            "difference": moments.mean,
            "half": moments.half_width,
        }
        rows.append(row)
    return {"prompts": len(first_groups), "rows": rows}


def find_common_prompts(first: Index, second: Index) -> list[tuple[int, int, float, float]]:
    """Return (group, group, mean score, mean score) for each prompt that both runs have, at its last group in each run.

    The largest differences of mean scores come first.
    """
    first_groups, second_groups = _match_prompts(first, second)
    first_means = np.nan_to_num(_compute_mean_scores(first)[first_groups])
    second_means = np.nan_to_num(_compute_mean_scores(second)[second_groups])
    order = np.argsort(-np.abs(second_means - first_means), kind="stable")
    return [
        (int(first_groups[i]), int(second_groups[i]), float(first_means[i]), float(second_means[i]))
        for i in order
    ]


def _compute_mean_scores(index: Index) -> np.ndarray:
    """Return the mean over its criteria for every group; NaN without any."""
    n = len(index)
    numbers, groups, means = index.series.select("series", "group", "mean")
    kinds = [kind for kind, _ in list(index.series_names)]
    is_criterion = np.array([kind == "criterion" for kind in kinds] or [False])
    rows = is_criterion[numbers] & (groups < n)
    counts = np.bincount(groups[rows], minlength=n)
    totals = np.bincount(groups[rows], means[rows], minlength=n)
    return np.where(counts > 0, totals / np.maximum(counts, 1), np.nan)


def _match_prompts(first: Index, second: Index) -> tuple[np.ndarray, np.ndarray]:
    """Return the groups of two runs with the same prompt, one pair for each prompt: the last of each run."""
    first_prompts, first_groups = _find_last_groups(first)
    second_prompts, second_groups = _find_last_groups(second)
    _, at_first, at_second = np.intersect1d(first_prompts, second_prompts, return_indices=True)
    return first_groups[at_first], second_groups[at_second]


def _find_last_groups(index: Index) -> tuple[np.ndarray, np.ndarray]:
    """Return all prompts, sorted by their hash, and the last group that has each."""
    # From the end, because `unique` returns the first place of each.
    readable = np.flatnonzero(index.facts["states"] & int(State.UNREADABLE) == 0)[::-1]
    prompts, first = np.unique(index.facts["prompt"][readable], return_index=True)
    return prompts, readable[first]


def _read_means(index: Index, kind: str, name: str) -> np.ndarray:
    """Return the mean of a series for every group; NaN for groups without it."""
    means = np.full(len(index), np.nan)
    numbers, groups, values = index.series.select("series", "group", "mean")
    rows = np.flatnonzero((numbers == index.series_names[kind, name]) & (groups < len(means)))
    means[groups[rows]] = values[rows]
    return means
