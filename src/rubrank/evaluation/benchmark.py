"""The contract of a benchmark: rows of outputs → a score for each item → metrics.

    outputs.jsonl   {"id": "17", "output": "The answer is (C)."}          what a model said, one line per item
    data.jsonl      {"id": "17", "question": …, "answer": "C"}            the benchmark's own file, joined by id

    item_id(row)              which item a row of outputs, or of data, is about
    questions(item, output)   what a judge must be asked, or nothing
    score(item, output, …)    values of one item: {"correct": 1.0}; missing with a reason where a judge failed
    metrics(scores)           {"accuracy": 0.62, …}; the first one is the benchmark's headline

A module of `benchmarks/` is one benchmark. Nothing here talks to a model: `scoring.py` joins files and asks judges,
`inspect.py` runs models. To add a benchmark, write a module with a `Benchmark` and name it in `benchmarks/__init__.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self, TypeAlias, get_args

from rubrank.errors import InvalidInput, UnknownName

Row: TypeAlias = Mapping[str, Any]
Messages: TypeAlias = Sequence[Mapping[str, str]]
Metrics: TypeAlias = dict[str, float]
Capability: TypeAlias = Literal[
    "instruction following", "factuality & QA", "long context", "reasoning", "knowledge", "open-ended"
]
CAPABILITIES: tuple[Capability, ...] = get_args(Capability)

OUTPUTS = ("output", "response", "completion", "model_output", "prediction")
"""What files call what a model said. Not "answer": that is the right one in most benchmarks' data."""


@dataclass(frozen=True)
class Setting:
    """A choice that the paper leaves open: its default, what is allowed, and why one would change it."""

    default: Any
    allowed: tuple[Any, ...] = ()
    """Empty: anything of the default's type."""
    help: str = ""


@dataclass(frozen=True)
class DataFile:
    """Where the benchmark's own data comes from."""

    name: str
    """Of the file in the data folder."""
    get: str
    """The command that gets it."""
    hub: str | None = None
    """What it is called on the hub; None: it is not there."""

    @classmethod
    def on_hub(cls, name: str, dataset: str, part: str = "") -> Self:
        """A data set of the hub, or a part of it."""
        return cls(name, f"huggingface-cli download --repo-type dataset {dataset} {part}".rstrip(), dataset)


@dataclass(frozen=True)
class Answer:
    """What a judge said to one question: its text, or why there is none."""

    text: str | None
    reason: str = ""


@dataclass(frozen=True)
class ItemScore:
    """One output, scored."""

    id: str
    values: Mapping[str, float]
    """Named numbers that metrics are made of; empty where missing."""
    reason: str = ""
    missing: str = ""
    """Why there is no score: a judge that failed. Never counted as wrong."""
    repeat: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    """What the item is: category, axis, difficulty …"""
    lists: Mapping[str, tuple[float, ...]] = field(default_factory=dict)
    """Values of several parts, such as one a constraint."""
    thought: int = 0
    """Words of thinking that were cut off before scoring."""

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> Self:
        """Back from what `asdict` and JSON made of it."""
        values = {name: float(value) for name, value in data["values"].items()}
        lists = {name: tuple(numbers) for name, numbers in data["lists"].items()}
        return cls(**{**data, "values": values, "lists": lists})


class Benchmark:
    """One benchmark; a module of `benchmarks/` has a subclass and its facts."""

    name: ClassVar[str]
    title: ClassVar[str]
    capability: ClassVar[Capability]
    headline: ClassVar[str]
    """The metric in the table."""
    per_cent: ClassVar[float] = 100.0
    """What turns the headline into points out of 100; 1 where it is given in these already."""
    judge: ClassVar[str | None] = None
    """Whom the authors ask; None: a program decides."""
    licence: ClassVar[str]
    data: ClassVar[DataFile]
    settings: ClassVar[Mapping[str, Setting]] = {}
    ids: ClassVar[Sequence[str]] = ("id", "item_id", "question_id", "key", "uid", "_id")
    """What files call an item's id; the first that is there counts."""
    outputs: ClassVar[Sequence[str]] = OUTPUTS
    """What they call what a model said."""
    columns: ClassVar[Mapping[str, str]] = {}
    """Label of an item → the column that holds it, where a row has one."""
    apart: ClassVar[Sequence[str]] = ()
    """Labels for each value of which the headline is given, too."""

    def __init__(self, **given: Any) -> None:
        self.options = {name: setting.default for name, setting in self.settings.items()}
        for name, value in given.items():
            self.options[name] = self._checked(name, value)

    def _checked(self, name: str, value: Any) -> Any:
        if name not in self.settings:
            raise UnknownName.of(f"benchmark {self.name}", "setting", name, self.settings)
        setting = self.settings[name]
        if setting.allowed and value not in setting.allowed:
            raise UnknownName.of(f"benchmark {self.name}", name, value, map(str, setting.allowed))
        kind = type(setting.default)
        if not setting.allowed and setting.default is not None:
            try:
                return kind(value)
            except (TypeError, ValueError):
                raise InvalidInput(f"benchmark {self.name}", name, f"a {kind.__name__}", repr(value), "") from None
        return value

    # ------------------------------------------------------------------------------------------------- rows of files

    def item_id(self, row: Row) -> str:
        """Which item a row is about."""
        return str(first_of(row, self.ids))

    def other_ids(self, row: Row) -> Sequence[str]:
        """By what else outputs may name an item of the data file, such as its prompt."""
        return ()

    def is_summary(self, row: Row) -> bool:
        """A row that holds totals instead of an item; it is passed over."""
        return False

    def output(self, row: Row) -> str:
        """What the model said."""
        return as_text(first_of(row, self.outputs))

    def prompt(self, item: Row) -> Messages:
        """What the model is asked."""
        return [{"role": "user", "content": str(first_of(item, ("prompt", "question", "problem", "query")))}]

    # ----------------------------------------------------------------------------------------------------- scoring

    def given(self, item: Row, row: Row) -> ItemScore | None:
        """The score where a row brings its verdicts with it; None: it has to be scored."""
        return None

    def questions(self, item: Row, output: str) -> list[Messages]:
        """What a judge must be asked about this output."""
        return []

    def score(self, item: Row, output: str, answers: Sequence[Answer]) -> ItemScore:
        """The score, from the output and the judge's answers to `questions`."""
        raise TypeError(f"benchmark {self.name} scores no outputs")  # pragma: no cover - every benchmark has its own

    def missing(self, row: Row, why: str, labels: Mapping[str, str] | None = None) -> ItemScore:
        """No score, and why."""
        return ItemScore(self.item_id(row), {}, missing=why, labels=labels or {})

    def scored(self, row: Row, values: Mapping[str, float], reason: str = "") -> ItemScore:
        """A score with the item's labels."""
        labels = {label: str(row[column]) for label, column in self.columns.items() if row.get(column)}
        return ItemScore(self.item_id(row), values, reason, labels=labels)

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """Of the scores that are there; see `scoring.py` for what is missing."""
        metrics = {self.headline: mean(score.values["correct"] for score in scores)}
        for label in self.apart:
            metrics |= by_label(scores, label, "correct", f"{self.headline}/")
        return metrics


def first_of(row: Row, names: Iterable[str]) -> Any:
    """The first of these keys that a row has."""
    names = tuple(names)
    for name in names:
        if row.get(name) is not None:
            return row[name]
    raise InvalidInput("row", "keys", f"one of {', '.join(names)}", ", ".join(map(str, row)) or "none", "")


def as_text(value: Any) -> str:
    """An output as files hold it: a text, a number, a message, or messages of which the last is meant."""
    if isinstance(value, list) and value and isinstance(value[-1], Mapping | str):
        value = value[-1]
    if isinstance(value, Mapping) and isinstance(value.get("content"), str):
        value = value["content"]
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise InvalidInput("row", "output", "a text, a message, or a list of these", type(value).__name__, "")


def mean(values: Iterable[float]) -> float:
    """The mean; NaN of nothing."""
    found = list(values)
    return math.fsum(found) / len(found) if found else math.nan


def by_label(scores: Sequence[ItemScore], label: str, value: str, prefix: str = "") -> Metrics:
    """The mean of a value for each label, such as `accuracy/hard`."""
    seen: dict[str, list[float]] = {}
    for score in scores:
        if label in score.labels:
            seen.setdefault(score.labels[label], []).append(score.values[value])
    return {f"{prefix}{name}": mean(found) for name, found in sorted(seen.items())}
