"""The contract of a benchmark, which turns rows of outputs into a score for each item, and scores into metrics.

    outputs.jsonl   {"id": "17", "output": "The answer is (C)."}          outputs of a model, one line per item
    data.jsonl      {"id": "17", "question": …, "answer": "C"}            the benchmark's own file, joined by id

    item_id(row)              the item that a row of outputs, or of data, belongs to
    questions(item, output)   prompts for the judge; empty if a program decides
    score(item, output, …)    values of one item: {"correct": 1.0}
    metrics(scores)           {"accuracy": 0.62, …}; the first one is the benchmark's headline

Nothing here talks to a model: `runs.py` joins files and asks judges, `suite.py` and `inspect.py` run models. To add a
benchmark, write a subclass of `Benchmark` in a module of `benchmarks/` and name it in `benchmarks/__init__.py`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, get_args

from pydantic import BeforeValidator

from rubrank.errors import InvalidInput, UnknownName

Row: TypeAlias = Mapping[str, Any]
Messages: TypeAlias = Sequence[Mapping[str, str]]
Metrics: TypeAlias = dict[str, "Number"]
Capability: TypeAlias = Literal[
    "instruction following",
    "factuality & QA",
    "long context",
    "reasoning",
    "knowledge",
    "open-ended",
]
CAPABILITIES: tuple[Capability, ...] = get_args(Capability)

OUTPUTS = ("output", "response", "completion", "model_output", "prediction")
"""Columns that hold a model's output. Not "answer": in most benchmarks' data that is the correct answer."""


@dataclass(frozen=True)
class Setting:
    """A choice that the paper leaves open: its default, the allowed values, and what it changes."""

    default: Any
    allowed: tuple[Any, ...] = ()
    """Empty: any value of the default's type."""
    help: str = ""


@dataclass(frozen=True)
class DataFile:
    """The benchmark's data file and where to get it."""

    name: str
    """Name of the file in the data folder."""
    get: str
    """The command that gets it."""
    hub: str | None = None
    """Name of the data set on the hub; None if it is not there."""
    hub_file: str | None = None
    """The file of that data set with the items; None: the whole data set."""

    @classmethod
    def on_hub(cls, name: str, dataset: str, file: str | None = None) -> Self:
        """Describe a data set of the hub, or one file of it."""
        command = f"huggingface-cli download --repo-type dataset {dataset}"
        if file is not None:
            command += f" {file}"
        return cls(name, command, dataset, file)


class MissingScore(Exception):  # noqa: N818 - it is no error of the program
    """Raised by a benchmark for an output that cannot be scored, such as after an unreadable reply; says why."""


@dataclass(frozen=True)
class Answer:
    """A judge's answer to one question: its text, or the reason why there is none."""

    text: str | None
    reason: str = ""


def _read_nan(value: Any) -> Any:
    return math.nan if value is None else value


Number: TypeAlias = Annotated[float, BeforeValidator(_read_nan)]
"""A number of a file of scores, in which null stands for NaN: JSON has none."""


@dataclass(frozen=True)
class ItemScore:
    """The score of one output."""

    id: str
    values: Mapping[str, Number]
    """Named numbers that the metrics are computed from; empty if the score is missing."""
    reason: str = ""
    missing: str = ""
    """Why there is no score, such as a judge that failed. Never counted as wrong."""
    repeat: int = 0
    labels: Mapping[str, str] = field(default_factory=dict)
    """Properties of the item: category, axis, difficulty …"""
    thought: int = 0
    """Words of reasoning that were removed before scoring."""


class Benchmark:
    """One benchmark; the modules of `benchmarks/` define subclasses."""

    name: ClassVar[str]
    title: ClassVar[str]
    capability: ClassVar[Capability]
    headline: ClassVar[str]
    """The metric that the table shows."""
    points_factor: ClassVar[float] = 100.0
    """Factor from the headline metric to points out of 100; 1 if it is in points already."""
    judge: ClassVar[str | None] = None
    """The judge that the authors use; None if a program decides."""
    licence: ClassVar[str]
    data: ClassVar[DataFile]
    settings: ClassVar[Mapping[str, Setting]] = {}
    ids: ClassVar[Sequence[str]] = ("id", "item_id", "question_id", "key", "uid", "_id")
    """Columns that may hold an item's id; the first that a row has counts."""
    outputs: ClassVar[Sequence[str]] = OUTPUTS
    """Columns that may hold a model's output; the first that a row has counts."""
    columns: ClassVar[Mapping[str, str]] = {}
    """Label of an item → the column that holds it."""
    breakdowns: ClassVar[Sequence[str]] = ()
    """Labels by which the headline is also broken down."""

    def __init__(self, **options: Any) -> None:
        self.options = {name: setting.default for name, setting in self.settings.items()}
        for name, value in options.items():
            self.options[name] = self._check_option(name, value)

    def _check_option(self, name: str, value: Any) -> Any:
        """Return a setting in the type of its default. Raises InvalidInput for a value that is not allowed."""
        if name not in self.settings:
            raise UnknownName.of(f"benchmark {self.name}", "setting", name, self.settings)
        setting = self.settings[name]
        allowed = setting.allowed
        if isinstance(setting.default, bool):
            allowed = (True, False)
        # Settings from the command line are texts: "1" for 1, "false" for False.
        for allowed_value in allowed:
            if str(value).lower() == str(allowed_value).lower():
                return allowed_value
        if allowed:
            raise UnknownName.of(f"benchmark {self.name}", name, value, map(str, allowed))
        kind = type(setting.default)
        try:
            return kind(value)
        except (TypeError, ValueError):
            owner = f"benchmark {self.name}"
            raise InvalidInput(owner, name, f"a {kind.__name__}", repr(value)) from None

    # ------------------------------------------------------------------------------------------------- rows of files

    def item_id(self, row: Row) -> str:
        """Return the id of the item that a row belongs to."""
        return str(first_value(row, self.ids))

    def other_ids(self, row: Row) -> Sequence[str]:
        """Return other ids by which outputs may name an item of the data file, such as its prompt."""
        return ()

    def is_summary(self, row: Row) -> bool:
        """Return whether the row holds totals instead of an item. Such rows are skipped."""
        return False

    def output(self, row: Row) -> str:
        """Return the model's output."""
        return to_text(first_value(row, self.outputs))

    def prompt(self, item: Row) -> Messages:
        """Return the messages that are sent to the model."""
        text = str(first_value(item, ("prompt", "question", "problem", "query")))
        return [{"role": "user", "content": text}]

    # ----------------------------------------------------------------------------------------------------- scoring

    def published_score(self, item: Row, row: Row) -> ItemScore | None:
        """Return the score from verdicts in the row; None if the output has to be scored."""
        return None

    def questions(self, item: Row, output: str) -> list[Messages]:
        """Return the prompts for the judge about this output; empty if a program decides."""
        return []

    def score(self, item: Row, output: str, replies: Sequence[str]) -> ItemScore:
        """Score an output. replies: the judge's, one for each of the `questions`.

        Raises MissingScore if there is no score, such as for a reply that cannot be read.
        """
        raise NotImplementedError

    def score_answers(self, item: Row, output: str, answers: Sequence[Answer]) -> ItemScore:
        """Score an output as `score` does; the score is missing, with a reason, if the judge failed."""
        try:
            for answer in answers:
                if answer.text is None:
                    raise MissingScore(answer.reason or "no reply")
            return self.score(item, output, [str(answer.text) for answer in answers])
        except MissingScore as error:
            return ItemScore(self.item_id(item), {}, missing=str(error))

    def make_score(self, row: Row, values: Mapping[str, float], reason: str = "") -> ItemScore:
        """Return a score with the item's labels."""
        labels = {
            label: str(row[column])
            for label, column in self.columns.items()
            if row.get(column) not in (None, "", [])
        }
        return ItemScore(self.item_id(row), values, reason, labels=labels)

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """Compute the metrics of scores, none of which is missing; the headline comes first."""
        metrics = {self.headline: mean_value(scores, "correct")}
        for label in self.breakdowns:
            metrics |= mean_by_label(scores, label, "correct", f"{self.headline}/")
        return metrics


def first_value(row: Row, names: Iterable[str]) -> Any:
    """Return the value of the first of these keys that a row has. Raises InvalidInput if it has none."""
    names = tuple(names)
    for name in names:
        if row.get(name) is not None:
            return row[name]
    raise InvalidInput(
        owner="row",
        parameter="keys",
        allowed=f"one of {', '.join(names)}",
        got=", ".join(map(str, row)) or "none",
    )


def to_text(value: Any) -> str:
    """Return the text of an output cell: a text, a number, a message, or a list of messages (the last one counts)."""
    if isinstance(value, list) and value and isinstance(value[-1], Mapping | str):
        value = value[-1]
    if isinstance(value, Mapping) and isinstance(value.get("content"), str):
        value = value["content"]
    if isinstance(value, str | int | float) and not isinstance(value, bool):
        return str(value)
    raise InvalidInput(
        owner="row",
        parameter="output",
        allowed="a text, a message, or a list of these",
        got=type(value).__name__,
    )


def mean(values: Iterable[float]) -> float:
    """Return the mean; NaN without values."""
    numbers = list(values)
    return math.fsum(numbers) / len(numbers) if numbers else math.nan


def mean_value(scores: Iterable[ItemScore], name: str) -> float:
    """Return the mean of one of the values of all scores."""
    return mean(score.values[name] for score in scores)


def divide_sums(scores: Iterable[ItemScore], part: str, total: str) -> float:
    """Return the sum of a value over all scores, divided by the sum of another; NaN if that is 0."""
    parts = sum(score.values[part] for score in scores)
    totals = sum(score.values[total] for score in scores)
    return parts / totals if totals else math.nan


def harmonic_mean(precision: float, recall: float) -> float:
    """Return the harmonic mean of precision and recall, F1; 0 if both are 0."""
    if precision + recall == 0.0:
        return 0.0
    return 2 * precision * recall / (precision + recall)


def mean_by_label(scores: Sequence[ItemScore], label: str, value: str, prefix: str = "") -> Metrics:
    """Return the mean of a value for each label, such as `accuracy/hard`."""
    by_name: dict[str, list[float]] = {}
    for score in scores:
        if label in score.labels:
            by_name.setdefault(score.labels[label], []).append(score.values[value])
    return {f"{prefix}{name}": mean(values) for name, values in sorted(by_name.items())}
