"""Add judged items to rubrics while a run goes on, for queries whose rubric no longer tells responses apart.

    evolution = RubricEvolution(EvolveOptions(writers="writers.yaml", every=50), judges)
    evolution.observe(observation)          after every step, for each group
    if evolution.is_due(step):              every 50 steps
        events = evolution.propose(step)    in one process: writers write items, and the data decides which are kept
        evolution.apply(events)             in all processes: the items are used from the next step on
    evolution.extend(rubric, prompt)        the query's rubric with its items

Items are proposed only for a query whose last group

    has no signal       all rewards are equal, although some rollouts passed the gate
    has lost headroom   the mean distance of the scores from the best possible is at most half of what it was when the
                        query was first seen (or last got an item)

A query has at most `most_items` items at a time. An item that gives all responses the same score `retire_after` times
in a row is retired, which makes room for another. The name of an item contains the step at which it began. Rewards of
earlier steps are never computed again. The same tests as in `rubrank draft` decide what is kept (`keep.py`).

Every event is appended to a log. An event is a mapping whose key "event" is one of

    added       the item is used from the next step on
    dropped     the item was measured and is not used, with the reason
    refused     a writer's item cannot be used, with the reason
    problem     a writer's reply could not be used, with the reason
    retired     the item gave all responses the same score too often
    failed      writers or judges failed, and nothing was proposed

`state_dict` is JSON data for a checkpoint. A run that is resumed from it makes the same proposals.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np
from pydantic import Field

from rubrank._plain import Strict
from rubrank.drafting.draft import DraftedItem, make_unique
from rubrank.drafting.keep import LEAST_RESPONSES, KeepTask, keep_by_data
from rubrank.drafting.writers import WritingTask, load_templates, load_writers, write_items
from rubrank.errors import InvalidInput, RubrankError
from rubrank.judges.judge import Judges
from rubrank.rubrics.public import to_rubric
from rubrank.scores.criterion import CriterionData

FAMILY = "evolved"
"""Family of the criteria that were added during a run."""
_STATE_VERSION = 2
_MOST_BASELINES = 50_000  # queries whose first headroom is remembered
_ORIGIN_FIELDS = ("writer", "model", "prompt_version", "figures")
"""Fields of an event, and of the column `draft`, that say where an item comes from."""
_log = logging.getLogger("rubrank")


class EvolveOptions(Strict):
    """How rubrics evolve; `writers` is all that is needed."""

    writers: Any
    """Models that write items: a file in the form of a judges file, or its data."""
    every: int = Field(default=50, ge=1)
    """Steps between two rounds of proposals."""
    most_items: int = Field(default=4, ge=1)
    """Items of a query that are used at the same time."""
    most_queries: int = Field(default=16, ge=1)
    """Queries that get proposals in one round; this bounds what a round costs."""
    retire_after: int = Field(default=3, ge=1)
    """Times in a row that an item gives all responses the same score, after which it is retired."""
    headroom: float = Field(default=0.5, gt=0.0, lt=1.0)
    """Share of a query's first headroom at which items are proposed."""
    keep: Literal["data", "all"] = "data"
    """data: items that the figures support; all: every item that the writers write."""
    prompts: str | None = None
    """A folder with own prompts for the writers."""


@dataclass(frozen=True)
class Observation:
    """One group of one step: its prompt, responses, scores and rewards."""

    prompt: str
    responses: Sequence[str]
    criteria: Sequence[CriterionData]
    scores: np.ndarray
    """(G, K) in the order of the criteria; NaN = missing."""
    rewards: Sequence[float]
    passed: Sequence[bool]
    """Rollouts that no hard gate stopped."""
    step: int


@dataclass
class EvolvedItem:
    """One item that was added to a query's rubric."""

    criterion: dict[str, Any]
    began: int
    """The first step at which it is used."""
    origin: dict[str, Any] = field(default_factory=dict)
    """Where it comes from: writer, model, prompt_version and figures, as far as they are known."""
    ties: int = 0
    """Times in a row that it gave all responses the same score."""
    retired: int | None = None
    """The step at which it was retired; None while it is used."""

    def describe_origin(self) -> dict[str, Any]:
        """Return the item's entry in the column `draft` of a drafted rubric."""
        entry: dict[str, Any] = {
            "name": self.criterion["name"],
            "step": "evolved",
            "kept": self.retired is None,
            "began": self.began,
            **self.origin,
        }
        if self.retired is not None:
            entry["reason"] = f"gave all responses the same score {self.ties} times in a row"
            entry["criterion"] = dict(self.criterion)
            entry["retired"] = self.retired
        if self.ties > 0:
            entry["ties"] = self.ties
        return entry


@dataclass
class QueryItems:
    """The items of one query."""

    prompt: str
    items: list[EvolvedItem] = field(default_factory=list)

    @property
    def active(self) -> list[EvolvedItem]:
        """The items that are not retired."""
        return [item for item in self.items if item.retired is None]


@dataclass
class _Candidate:
    """A query that may get items in the next round."""

    prompt: str
    responses: list[str]
    totals: list[float]
    """Weighted sum of each response's scores."""
    reason: str


class RubricEvolution:
    """The items of all queries of a run, and when new ones are proposed.

    judges: the judges of the run, which grade responses on proposed items. One of them must decide any criterion.
    log: a .jsonl file to which events are appended; None: they are only returned.
    """

    def __init__(
        self, options: EvolveOptions, judges: Judges | None, log: Path | None = None
    ) -> None:
        if judges is None or judges.judge_of("any other criterion") is None:
            raise InvalidInput(
                "evolve",
                "judges",
                allowed="with one that decides every criterion",
                got="none" if judges is None else "judges of named criteria only",
                remedy="Items that are added during a run need a judge: leave out `criteria` of one of them.",
            )
        self.options = options
        self.judges = judges
        self.log = log
        self.writers = load_writers(options.writers)
        self.templates = load_templates(None if options.prompts is None else Path(options.prompts))
        self.queries: dict[str, QueryItems] = {}
        """Prompt → its items."""
        # Digest of a prompt → headroom when the query was first seen, or since it last got an item.
        self._baselines: dict[str, float] = {}
        # Prompt → what the next round of proposals needs.
        self._candidates: dict[str, _Candidate] = {}
        self._retirements: list[dict[str, Any]] = []  # events since the last round

    # ---- steps ---------------------------------------------------------------------------------------------------

    def observe(self, observation: Observation) -> None:
        """Read one group: retire items that no longer decide, and remember the query if its rubric needs more items."""
        prompt = observation.prompt
        query = self.queries.get(prompt, QueryItems(prompt))
        self._retire_tied_items(query.active, observation)
        self._candidates.pop(prompt, None)
        scores, weights = _scale_scores(observation)
        reason = self._find_reason(observation, scores, weights)
        has_room = len(query.active) < self.options.most_items
        if reason is None or not has_room or len(observation.responses) < LEAST_RESPONSES:
            return
        # What the rubric gives each response; a missing score counts as the mean of its criterion.
        is_known = ~np.isnan(scores)
        means = np.nansum(scores, axis=0) / np.maximum(is_known.sum(axis=0), 1)
        totals = (np.where(is_known, scores, means) * weights).sum(axis=1).tolist()
        self._candidates[prompt] = _Candidate(prompt, list(observation.responses), totals, reason)
        while len(self._candidates) > self.options.most_queries:
            oldest = next(iter(self._candidates))
            del self._candidates[oldest]

    def _retire_tied_items(self, items: Sequence[EvolvedItem], observation: Observation) -> None:
        """Retire the items that gave all responses the same score too often."""
        columns = {criterion.name: k for k, criterion in enumerate(observation.criteria)}
        for item in items:
            column = columns.get(item.criterion["name"])
            if column is None:
                continue  # a group that was sampled before the item began
            scores = observation.scores[:, column]
            scores = scores[~np.isnan(scores)]
            if len(scores) < 2:
                continue  # the judge failed, which says nothing about the item
            item.ties = item.ties + 1 if np.ptp(scores) == 0 else 0
            if item.ties >= self.options.retire_after:
                item.retired = observation.step
                event = {"event": "retired", "step": observation.step, "prompt": observation.prompt}
                details = item.describe_origin()
                # It says "evolved", the step of drafting; the event has the step of training.
                del details["step"]
                self._retirements.append({**event, **details})

    def _find_reason(
        self, observation: Observation, scores: np.ndarray, weights: np.ndarray
    ) -> str | None:
        """Return why a query needs items; None if it does not. Remembers its headroom when it is first seen.

        scores, weights: of `_scale_scores`.
        """
        digest = _make_digest(observation.prompt)
        rewards = np.asarray(observation.rewards, dtype=float)
        is_comparable = np.asarray(observation.passed, dtype=bool) & ~np.isnan(rewards)
        if is_comparable.sum() < 2:
            # The others were stopped by gates or not judged, which no item would change.
            return None
        # Headroom: the weighted mean distance of the scores from the best possible; None if nothing was scored.
        headroom = None
        known_weight = float((~np.isnan(scores) * weights).sum())
        if known_weight > 0:
            headroom = 1.0 - float(np.nansum(scores * weights)) / known_weight
            if digest not in self._baselines:
                self._baselines[digest] = headroom
            if len(self._baselines) > _MOST_BASELINES:
                oldest = next(iter(self._baselines))
                del self._baselines[oldest]
        if np.ptp(rewards[~np.isnan(rewards)]) == 0:
            return "no signal"
        baseline = self._baselines.get(digest, 0.0)
        if headroom is None or baseline == 0:
            return None
        if headroom <= self.options.headroom * baseline:
            return f"headroom {baseline:.2f} → {headroom:.2f}"
        return None

    def is_due(self, step: int) -> bool:
        """Is it time for a round of proposals?"""
        return step > 0 and step % self.options.every == 0

    def propose(self, step: int) -> list[dict[str, Any]]:
        """Let writers propose items for the remembered queries. Returns events, which `apply` puts into effect.

        One process proposes, and all apply the same events. A failure of writers or judges is an event, too: it must
        not end a training run.
        """
        events = list(self._retirements)
        candidates = list(self._candidates.values())
        if not candidates:
            return events
        try:
            tasks = [
                WritingTask(candidate.prompt, None, candidate.responses) for candidate in candidates
            ]
            written, _ = write_items(tasks, self.writers, self.templates)
            measured = [[item for item in entry.items if item.kept] for entry in written]
            if self.options.keep == "data":
                keep_tasks = []
                for candidate, entry, items in zip(candidates, written, measured, strict=True):
                    keep_tasks.append(
                        KeepTask(
                            candidate.prompt,
                            items,
                            entry.breaker,
                            candidate.responses,
                            earlier_totals=candidate.totals,
                        )
                    )
                decided, _ = keep_by_data(keep_tasks, self.judges, self.writers, self.templates)
                measured = [list(entry.items) for entry in decided]
        except RubrankError as error:
            _log.warning("evolve: no items were proposed at step %d: %s", step, error)
            return [*events, {"event": "failed", "step": step, "reason": str(error)}]
        for candidate, entry, items in zip(candidates, written, measured, strict=True):
            # What all events of a query have in common.
            common = {"step": step, "prompt": candidate.prompt, "because": candidate.reason}
            for problem in entry.problems:
                events.append({"event": "problem", **common, "reason": problem})
            for item in entry.items:
                if not item.kept:
                    details = {"question": item.question, "reason": item.reason}
                    events.append({"event": "refused", **common, **details, **asdict(item.author)})
            events += self._make_item_events(candidate.prompt, items, common)
        return events

    def _make_item_events(
        self, prompt: str, items: Sequence[DraftedItem], common: Mapping[str, Any]
    ) -> Iterable[dict[str, Any]]:
        """Yield an event for every item: added, as long as there is room, or dropped with the reason."""
        query = self.queries.get(prompt, QueryItems(prompt))
        names = {item.criterion["name"] for item in query.items}
        # A retired item must not come back.
        earlier_questions = {item.criterion["question"] for item in query.items}
        room = self.options.most_items - len(query.active)
        for item in items:
            renamed = item.rename(make_unique(f"{item.name} (since step {common['step']})", names))
            reason = item.reason
            if item.kept and item.question in earlier_questions:
                reason = "it was added to the query before"
            elif item.kept and room <= 0:  # below 0 in a run resumed with a smaller `most_items`
                reason = f"the query has {self.options.most_items} items"
            elif item.kept:
                room -= 1
            event = {
                "event": "dropped" if reason else "added",
                **common,
                "criterion": {**renamed.criterion, "family": FAMILY},
                "figures": dict(item.figures),
                **asdict(item.author),
            }
            if reason:
                event["reason"] = reason
            yield event

    def apply(self, events: Sequence[Mapping[str, Any]], *, write: bool = True) -> int:
        """Use the proposed items from the next step on. Returns how many were added.

        write: append the events to the log.
        """
        count = 0
        for event in events:
            if event["event"] != "added":
                continue
            prompt = event["prompt"]
            query = self.queries.setdefault(prompt, QueryItems(prompt))
            query.items.append(
                EvolvedItem(dict(event["criterion"]), event["step"], _read_origin(event))
            )
            # The new item changes what headroom means.
            self._baselines.pop(_make_digest(prompt), None)
            count += 1
        self._candidates = {}
        self._retirements = []
        if write and self.log is not None and events:
            with self.log.open("a", encoding="utf-8") as file:
                for event in events:
                    file.write(json.dumps(event, ensure_ascii=False) + "\n")
        return count

    def adopt(self, row: Mapping[str, Any]) -> None:
        """Take over the items that an earlier `rubrank evolve` added to a row: they count, and may be retired."""
        draft = row.get("draft")
        if not isinstance(draft, Mapping) or "items" not in draft:
            return
        rubric = row.get("rubric")
        criteria = rubric.get("criteria", ()) if isinstance(rubric, Mapping) else ()
        criterion_of_name = {entry["name"]: entry for entry in criteria if "name" in entry}
        query = QueryItems(str(row["prompt"]))
        for entry in draft["items"]:
            criterion = entry.get("criterion") or criterion_of_name.get(entry["name"])
            if entry.get("step") == "evolved" and criterion is not None:
                item = EvolvedItem(dict(criterion), entry["began"], _read_origin(entry))
                item.ties = entry.get("ties", 0)
                item.retired = entry.get("retired")
                query.items.append(item)
        if query.items:
            self.queries[query.prompt] = query

    # ---- rubrics -------------------------------------------------------------------------------------------------

    def extend(self, rubric: Any, prompt: str) -> Any:
        """Return the rubric of a query with the items that were added to it; unchanged if there are none."""
        query = self.queries.get(prompt)
        if query is None or not query.items:
            return rubric
        active = [item.criterion for item in query.active]
        if rubric is None:
            return {"criteria": active} if active else None
        data = to_rubric(rubric).model_dump(exclude_unset=True)
        # A row that `rubrank evolve` wrote has its items already, and some of them may be retired by now.
        names = {item.criterion["name"] for item in query.items}
        own_criteria = [
            criterion for criterion in data["criteria"] if criterion["name"] not in names
        ]
        return {**data, "criteria": [*own_criteria, *active]}

    def metrics(self) -> dict[str, float]:
        """Return numbers for the trainer's log."""
        items = [item for query in self.queries.values() for item in query.items]
        active = sum(item.retired is None for item in items)
        return {
            "rubrank/evolve/active": float(active),
            "rubrank/evolve/retired": float(len(items) - active),
        }

    # ---- state ---------------------------------------------------------------------------------------------------

    def state_dict(self) -> dict[str, Any]:
        """Return what a checkpoint must contain, as JSON data."""
        return {
            "version": _STATE_VERSION,
            "queries": [asdict(query) for query in self.queries.values()],
            "baselines": dict(self._baselines),
            "candidates": [asdict(candidate) for candidate in self._candidates.values()],
            "retirements": list(self._retirements),
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue from a saved state. Raises InvalidInput if another version has saved it."""
        if state.get("version") != _STATE_VERSION:
            raise InvalidInput(
                "evolve",
                "state",
                allowed=f"of version {_STATE_VERSION}",
                got=repr(state.get("version")),
                remedy="Resume with the version of rubrank that saved it.",
            )
        self.queries = {}
        for query in state["queries"]:
            items = [EvolvedItem(**item) for item in query["items"]]
            self.queries[query["prompt"]] = QueryItems(query["prompt"], items)
        self._baselines = dict(state["baselines"])
        self._candidates = {entry["prompt"]: _Candidate(**entry) for entry in state["candidates"]}
        self._retirements = list(state["retirements"])

    def rewind_log(self, step: int) -> None:
        """Remove the events that a run resumed at `step` will make again."""
        if self.log is None or not self.log.exists():
            return
        lines = self.log.read_text(encoding="utf-8").splitlines(keepends=True)
        earlier_lines = []
        for line in lines:
            # A killed run may have left half a line.
            with suppress(ValueError, KeyError, TypeError):
                if line.endswith("\n") and json.loads(line)["step"] <= step:
                    earlier_lines.append(line)
        if len(earlier_lines) < len(lines):
            self.log.write_text("".join(earlier_lines), encoding="utf-8")


def _read_origin(entry: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields of an event or of a drafted item that say where it comes from."""
    return {name: entry[name] for name in _ORIGIN_FIELDS if entry.get(name)}


def _make_digest(prompt: str) -> str:
    """Return a short key of a prompt, of which many are remembered."""
    return hashlib.sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def _scale_scores(observation: Observation) -> tuple[np.ndarray, np.ndarray]:
    """Return (scores, weights) of the K criteria that rank: (G, K) from 0 for the worst to 1 for the best, and (K,)."""
    columns = [
        k for k, criterion in enumerate(observation.criteria) if criterion.layer == "quality"
    ]
    scaled = np.full((len(observation.responses), len(columns)), np.nan)
    for position, k in enumerate(columns):
        criterion = observation.criteria[k]
        width = criterion.domain.high - criterion.domain.low
        share = (observation.scores[:, k] - criterion.domain.low) / width
        scaled[:, position] = share if criterion.direction == "higher" else 1 - share
    return scaled, np.array([observation.criteria[k].weight for k in columns])
