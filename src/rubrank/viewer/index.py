"""Keep one row per group of a run, in frames that grow: what the page's list, filters and curves need.

    index = Index()
    index.add_record(record)                 a GroupRecord, or the light form that run.py decodes
    index.list_rows(start=0)                 the rows as plain lists, as the page reads them
    make_curves(index)                       means over the steps of training
    make_step_table(index)                   one row per step
    compare_runs(index, other)               how two runs differ on the prompts that they share

Two frames grow with every group. `facts` has one row per group: its step, size, states … `series` has one row for each
criterion and attribute of a group: the mean, lowest and highest value over its rollouts. For group 7 with two rollouts,
of 80 and 120 words, that score 1 and 0 on "Facts":

    facts     group 7, step 20, size 2, spread 1.0, mean 0.5, …
    series    group 7, kind "criterion", name "Facts", mean 0.5, low 0, high 1
              group 7, kind "attribute", name "words", mean 100, low 80, high 120

Groups are numbered from 0 in the order of the run's lines. A line that is not a record also gets a number and a row in
`facts`. One thread adds groups while others read.
"""

from __future__ import annotations

import json
import math
import threading
from collections import Counter
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np
import polars as pl

from rubrank.viewer.figures import compute_half_width
from rubrank.viewer.group_data import State, count_gated, find_states, make_title

# Points of a curve. A chart is about 320 pixels wide, so with more steps neighbouring steps share a point.
_MOST_POINTS = 240
# Curves of criteria, and as many of attributes: more than a reader compares.
_MOST_CURVES = 24
# Criteria in the page's list to filter by. Where every prompt brings its own rubric, a run has tens of thousands.
_MOST_CRITERIA = 1000

_FACTS = {
    # number of the group
    "group": pl.Int64,
    "step": pl.Int64,
    # rollouts
    "size": pl.Int64,
    # highest minus lowest reward, and mean reward
    "spread": pl.Float64,
    "mean": pl.Float64,
    # bits of State
    "states": pl.Int64,
    # rollouts that a gate stopped
    "stopped": pl.Int64,
    # numbers in Index.rules and Index.criteria_sets; null if the line is not a record
    "rule": pl.Int64,
    "criteria": pl.Int64,
    # digest of the prompt; null if the line is not a record
    "prompt": pl.String,
}
_SERIES = {
    "group": pl.Int64,
    # "criterion", "attribute", or "run" for a figure of the group as a whole
    "kind": pl.String,
    "name": pl.String,
    # over the rollouts of the group
    "mean": pl.Float64,
    "low": pl.Float64,
    "high": pl.Float64,
}


class GrowingFrame:
    """Rows that one thread adds, and that others read as a frame."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._frame = pl.DataFrame(schema=schema)
        self._new_rows: list[dict[str, Any]] = []
        self._lock = threading.Lock()

    def extend(self, rows: list[dict[str, Any]]) -> None:
        """Add rows, column → value; a column that a row does not have is null."""
        with self._lock:
            self._new_rows += rows

    def read(self) -> pl.DataFrame:
        """Return all rows."""
        with self._lock:
            if self._new_rows:
                rows = pl.DataFrame(self._new_rows, schema=self._schema)
                self._frame = pl.concat([self._frame, rows], rechunk=False)
                self._new_rows = []
            return self._frame


class Index:
    """The groups of one run."""

    def __init__(self) -> None:
        self._facts = GrowingFrame(_FACTS)
        self._series = GrowingFrame(_SERIES)
        self.ids: list[str] = []
        self.titles: list[str] = []
        self.rules: dict[str, int] = {}
        self.criteria_sets: dict[tuple[str, ...], int] = {}
        """Criteria of a group → number; groups with the same rubric share one."""
        self.criterion_groups: Counter[str] = Counter()
        """Criterion → groups that have it, with scores or with comparisons."""
        self.unreadable: list[tuple[int, str]] = []
        """Lines that are not records: (number of the line, why)."""
        self._length = 0

    def __len__(self) -> int:
        return self._length

    @property
    def facts(self) -> pl.DataFrame:
        """One row per group."""
        return self._facts.read()

    @property
    def series(self) -> pl.DataFrame:
        """One row per group and criterion (or attribute): mean, lowest and highest value over its rollouts."""
        return self._series.read()

    def add_record(self, record: Any, measured: Mapping[str, np.ndarray] | None = None) -> None:
        """Add the next group. measured: name → one value per rollout, of attributes that the record does not hold.

        Raises OverflowError for a step that no column can hold.
        """
        if record.step is not None and abs(record.step) >= 2**63:
            raise OverflowError(f"step {record.step}")
        reward = record.reward
        names = tuple(criterion.name for criterion in record.criteria)
        fact = {
            "group": len(self),
            "step": record.step,
            "size": len(reward),
            "spread": max(reward) - min(reward) if reward else 0.0,
            "mean": sum(reward) / len(reward) if reward else 0.0,
            "states": int(find_states(record)),
            "stopped": count_gated(record)[0],
            "rule": self.rules.setdefault(record.rule, len(self.rules)),
            "criteria": self.criteria_sets.setdefault(names, len(self.criteria_sets)),
            "prompt": _digest_prompt(record),
        }
        self._add_series(record, measured or {})
        self.criterion_groups.update(names)
        self._add(fact, record.group, make_title(record.prompt))

    def add_unreadable(self, why: str) -> None:
        """Add a line that is not a record: it has no step, rule, criteria or prompt."""
        self.unreadable.append((len(self), why))
        fact = {
            "group": len(self),
            "size": 0,
            "spread": 0.0,
            "mean": 0.0,
            "states": int(State.UNREADABLE),
            "stopped": 0,
        }
        self._add(fact, "", "this line is not a record")

    def _add(self, fact: dict[str, Any], group_id: str, title: str) -> None:
        self.ids.append(group_id)
        self.titles.append(title)
        self._facts.extend([fact])
        self._length += 1  # last, so that no thread sees a row that is not complete

    def _add_series(self, record: Any, measured: Mapping[str, np.ndarray]) -> None:
        """Add mean, lowest and highest value of every criterion and attribute of the next group."""
        # (kind, name, one value per rollout). The agreement is one value of the whole group.
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
            present = [float(x) for x in values if x is not None and x == x]  # without None and NaN
            if present:
                row = {
                    "group": len(self),
                    "kind": kind,
                    "name": name,
                    "mean": sum(present) / len(present),
                    "low": min(present),
                    "high": max(present),
                }
                rows.append(row)
        self._series.extend(rows)

    def list_rows(self, start: int = 0) -> dict[str, Any]:
        """Return the groups from `start` on as one list per column, and the tables that the numbers point into."""
        facts = self.facts[start:]
        end = start + len(facts)
        columns = facts.drop("group", "prompt").with_columns(pl.col("spread", "mean").round(4))
        return {
            "start": start,
            "id": self.ids[start:end],
            "title": self.titles[start:end],
            **columns.to_dict(as_series=False),
            "rules": list(self.rules),
            # A copy, because another thread may add to it.
            "criteria_sets": [list(names) for names in list(self.criteria_sets)],
        }

    def list_scores(self, criterion: str) -> dict[str, Any]:
        """Return the lowest and highest score of a criterion in every group that has one."""
        rows = self.series.filter(kind="criterion", name=criterion)
        columns = rows.select(pl.col("group").alias("groups"), "low", "high")
        return columns.to_dict(as_series=False)

    def list_criteria(self, most: int) -> list[str]:
        """Return at most `most` names of criteria, those that most groups have, in alphabetical order."""
        # A copy, because another thread may add to it.
        counts = Counter(dict(self.criterion_groups))
        return sorted(name for name, _ in counts.most_common(most))

    def describe(self) -> dict[str, Any]:
        """Return what the page can filter by."""
        return {
            "steps": self.facts["step"].drop_nulls().unique().sort().to_list(),
            "rules": list(self.rules),
            "criteria": self.list_criteria(_MOST_CRITERIA),
            "criteria_in_all": len(self.criterion_groups),
        }

    def find_readable(self) -> pl.DataFrame:
        """Return the facts of all groups that are records."""
        return self.facts.filter(~has_state(State.UNREADABLE))


def has_state(states: State) -> pl.Expr:
    """Return the expression for groups that have one of the states."""
    return pl.col("states") & int(states) > 0


def _digest_prompt(record: Any) -> str:
    """Return a text that groups with the same prompt share; without a prompt, groups with the same name."""
    messages = [(message.get("role"), message.get("content")) for message in record.prompt or ()]
    text = json.dumps(messages or record.group, default=str)
    return blake2b(text.encode("utf-8", "replace"), digest_size=8).hexdigest()


# --------------------------------------------------------------------------- curves over the steps


_RATES = {
    "groups without signal": has_state(State.NO_SIGNAL).cast(pl.Float64),
    "stopped by a gate": pl.col("stopped") / pl.col("size").clip(1),
    "judges failed": has_state(State.JUDGES_FAILED).cast(pl.Float64),
    "the longest wins": has_state(State.LONGEST_WINS).cast(pl.Float64),
}
"""Name → one number from 0 to 1 for every group: what curves and comparisons show of a run."""


def _list_values(
    index: Index, facts: pl.DataFrame, column: str, **more_rates: pl.Expr
) -> pl.DataFrame:
    """Return one row for every value of these groups: first the rates, then criteria and attributes.

        name                     value  kind         prompt
        "groups without signal"  0.0    "run"        "5f0c…"
        "Facts"                  0.5    "criterion"  "5f0c…"

    facts: the rows of `index.facts` for these groups. column: the column of `facts` that is repeated for every value.
    more_rates: like `_RATES`, name → expression over `facts`.
    """
    rates = facts.select("group", **_RATES, **more_rates)
    rates = rates.unpivot(index="group", variable_name="name", value_name="value")
    rates = rates.with_columns(kind=pl.lit("run"))
    series = index.series.rename({"mean": "value"}).select(rates.columns)
    # The join adds the column, and leaves out the series of all other groups.
    values = pl.concat([rates, series])
    values = values.join(facts.select("group", column), on="group", maintain_order="left")
    return values.drop("group")


def make_curves(index: Index) -> dict[str, Any]:
    """Return the means over the groups of each step, with half of their 95% intervals.

    {"steps": [0, 10], "last_steps": [0, 10],
     "curves": [{"kind": "run", "name": …, "points": [[step, mean, half width], …]}],
     "table": [{"step": 0, "groups": 64, …}]}

    Kinds: "run", then "criterion" and "attribute" for those that most groups have. Beyond 240 steps, neighbours share a
    point: `steps` has the first step of each point, `last_steps` the last one.
    """
    is_training = pl.col("step").is_not_null() & ~has_state(State.EVALUATION | State.UNREADABLE)
    facts = index.facts.filter(is_training)

    # The point of each group: if two steps share one, steps 0, 10, 20, 30 belong to points 0, 0, 1, 1.
    steps_per_point = max(1, math.ceil(facts["step"].n_unique() / _MOST_POINTS))
    step_number = pl.col("step").rank("dense") - 1
    facts = facts.with_columns(point=step_number // steps_per_point)
    steps = facts.group_by("point").agg(first=pl.min("step"), last=pl.max("step")).sort("point")

    # One row per curve and point, in the order of the points.
    values = _list_values(index, facts, "point", **{"spread of rewards": pl.col("spread")})
    means = values.group_by("kind", "name", "point", maintain_order=True).agg(
        groups=pl.len(), mean=pl.mean("value"), variance=pl.var("value")
    )
    means = means.join(steps, on="point", maintain_order="left")
    means = means.sort("point", maintain_order=True)

    curves = []
    for kind in ("run", "criterion", "attribute"):
        # A frame for each curve, with a row for each of its points.
        curves_of_kind = means.filter(kind=kind).partition_by("name", maintain_order=True)
        if kind == "run":
            # A rate that is zero throughout is not worth a curve: the run has no judges, or no gate.
            curves_of_kind = [curve for curve in curves_of_kind if (curve["mean"] != 0.0).any()]
        else:
            curves_of_kind.sort(key=lambda curve: -int(curve["groups"].sum()))
            curves_of_kind = curves_of_kind[:_MOST_CURVES]
        for curve in curves_of_kind:
            points = []
            for row in curve.iter_rows(named=True):
                half_width = compute_half_width(row["groups"], row["mean"], row["variance"])
                points.append([row["first"], row["mean"], half_width])
            curves.append({"kind": kind, "name": curve["name"][0], "points": points})
    return {
        "steps": steps["first"].to_list(),
        "last_steps": steps["last"].to_list(),
        "curves": curves,
        "table": make_step_table(index),
    }


def make_step_table(index: Index) -> list[dict[str, Any]]:
    """Return one row per step: groups, rollouts, and the share of groups in each noteworthy state."""
    shares = {
        name.lower(): has_state(State[name]).mean()
        for name in ("NO_SIGNAL", "JUDGES_FAILED", "RULES_DISAGREE", "LONGEST_WINS")
    }
    steps = (
        index.find_readable()
        .group_by("step")
        .agg(
            groups=pl.len(),
            rollouts=pl.sum("size"),
            stopped=pl.sum("stopped") / pl.sum("size").clip(1),
            **shares,
        )
    )
    return steps.sort("step").to_dicts()


# ------------------------------------------------------------------------------- two runs compared


def compare_runs(first: Index, second: Index) -> dict[str, Any]:
    """Return how two runs differ on the prompts that both have, each at the last group that has it.

    {"prompts": 40, "rows": [{"kind": "criterion", "name": "Facts", "prompts": 38, "first": 0.61, "second": 0.72,
                              "difference": 0.11, "half": 0.04}, …]}

    A difference is the mean over prompts of second minus first, with half of its 95% interval (Student's t, paired).
    """
    first_facts, second_facts = _match_prompts(first, second)
    first_values = _list_values(first, first_facts, "prompt")
    second_values = _list_values(second, second_facts, "prompt")
    # One row per prompt and name: `value` is that of the first run, `value_second` that of the second.
    pairs = first_values.join(
        second_values, on=["prompt", "kind", "name"], maintain_order="left", suffix="_second"
    )
    difference = pl.col("value_second") - pl.col("value")
    figures = pairs.group_by("kind", "name", maintain_order=True).agg(
        prompts=pl.len(),
        first=pl.mean("value"),
        second=pl.mean("value_second"),
        difference=difference.mean(),
        variance=difference.var(),
    )
    rows = []
    for row in figures.iter_rows(named=True):
        variance = row.pop("variance")
        row["half"] = compute_half_width(row["prompts"], row["difference"], variance)
        # A rate that is zero in both runs is not worth a row: they have no judges, or no gate.
        if row["kind"] != "run" or row["first"] or row["second"]:
            rows.append(row)
    return {"prompts": len(first_facts), "rows": rows}


def find_common_prompts(first: Index, second: Index) -> list[tuple[int, int, float, float]]:
    """Return (group, group, mean score, mean score) for each prompt that both runs have, at its last group in each run.

    The largest differences of mean scores come first.
    """
    means = []
    for index, facts in zip((first, second), _match_prompts(first, second), strict=True):
        scores = index.series.filter(kind="criterion").group_by("group").agg(score=pl.mean("mean"))
        scored = facts.join(scores, on="group", how="left", maintain_order="left")
        means.append(scored.select("prompt", "group", pl.col("score").fill_null(0.0)))
    pairs = means[0].join(means[1], on="prompt", maintain_order="left", suffix="_second")
    size = (pl.col("score_second") - pl.col("score")).abs()
    pairs = pairs.sort(size, descending=True, maintain_order=True)
    return pairs.select("group", "group_second", "score", "score_second").rows()


def _match_prompts(first: Index, second: Index) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the facts of the groups of two runs with the same prompt: for each prompt the last group of each run."""
    first_facts = first.find_readable().unique("prompt", keep="last", maintain_order=True)
    second_facts = second.find_readable().unique("prompt", keep="last", maintain_order=True)
    return (
        first_facts.join(second_facts, on="prompt", how="semi", maintain_order="left"),
        second_facts.join(first_facts, on="prompt", how="semi", maintain_order="left"),
    )
