"""Score a model's outputs on one benchmark, and write and read such runs.

    run = score_rows(read_outputs("outputs.jsonl"), find_benchmark("sysbench"))
    run.metrics["ISR"], run.judged                        0.7636, "2500 of 2500"
    write_run(run, "runs/model-a/sysbench.json")          `rubrank eval table` and `compare` read these files

Rows are joined with the benchmark's data file by id, or contain its fields (question, answer, constraints …). Verdicts
in a row are used as they are; other rows are scored here, with a judge if the benchmark needs one. If the judge fails,
the score is missing and the reason is counted; it never counts as wrong. Reasoning is removed before scoring, and its
length is recorded.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal, TypeAlias

from pydantic import TypeAdapter, ValidationError

from rubrank._files import atomic_write, require_file
from rubrank._plain import plain, shorten
from rubrank.errors import InvalidInput, RubrankError, counted, only_our_errors
from rubrank.evaluation.benchmark import (
    OUTPUTS,
    Answer,
    Benchmark,
    ItemScore,
    Messages,
    Metrics,
    MissingScore,
    Number,
    Row,
    mean,
)
from rubrank.texts.reasoning import split_reasoning
from rubrank.texts.words import count_words

Judge: TypeAlias = Callable[[Sequence[Messages]], Sequence[Answer]]
"""Prompts → answers, in order; a failure is an `Answer` without text."""

_ALL_OUTPUT_KEYS = (*OUTPUTS, "model_outputs", "predicted_answer", "llm_answer")
"""Keys of a row that may hold an output, in any benchmark."""
_KEYS_OF_ONE_OUTPUT = frozenset(
    (*_ALL_OUTPUT_KEYS, "repeat", "metadata", "verdict", "verdicts", "judge_verdict", "score")
)
"""Keys of a row that describe its output and not the item."""
_MODEL_KEYS = ("model", "model_name", "model_id")
_MOST_LISTED = 4  # names or counts in a note


@dataclass(frozen=True, eq=False)
class EvalRun:
    """One benchmark on one model's outputs."""

    benchmark: str
    model: str
    settings: Mapping[str, Any]
    scores: tuple[ItemScore, ...]
    metrics: Metrics
    judge: str = ""
    """Name of the judge; empty if none was asked."""
    reasoning_words: Number = math.nan
    """Mean length of the reasoning that was removed; NaN if there was none."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    usage: Mapping[str, float] = field(default_factory=dict)
    """From `rubrank eval run`: the model's tokens, and the cost of judging."""
    notes: tuple[str, ...] = ()
    """Oddities of the rows that a reader of the numbers should know."""
    kind: Literal["rubrank eval"] = "rubrank eval"
    """What its file is."""

    @property
    def missing(self) -> Counter[str]:
        """Reasons why outputs have no score, with their counts."""
        return Counter(score.missing for score in self.scores if score.missing)

    @property
    def judged(self) -> str:
        """How many outputs have a score, such as "273 of 273"."""
        count = sum(not score.missing for score in self.scores)
        return f"{count} of {len(self.scores)}"

    def summary(self) -> dict[str, Any]:
        """Return everything except the scores, as plain data for JSON."""
        values = {name: value for name, value in vars(self).items() if name != "scores"}
        summary: dict[str, Any] = plain({**values, "judged": self.judged, "missing": self.missing})
        return summary


# ------------------------------------------------------------------------------------------------------------- scoring


@dataclass
class _Output:
    """One output, with everything that is known about it until it has a score."""

    row: Row
    number: int
    id: str
    item: Row
    text: str
    score: ItemScore | None = None
    """From published verdicts, if the row has some."""
    questions: Sequence[Messages] = ()
    answers: Sequence[Answer] = ()
    reasoning_words: int = 0


@only_our_errors
def score_rows(
    rows: Iterable[Row],
    benchmark: Benchmark,
    *,
    items: Iterable[Row] = (),
    judge: Judge | None = None,
    model: str = "",
    judge_name: str = "",
) -> EvalRun:
    """Score rows of outputs, joined with the benchmark's items.

    1. Every row becomes an output: joined with its item, without reasoning, with its questions for the judge.
    2. Exact copies are dropped, and all questions are asked in one call.
    3. Every output is scored; several outputs of one item are repeats, numbered from 0.

    Raises InvalidInput for a row that lacks a field, without rows, and if a judge is needed and none was given.
    """
    item_by_id: dict[str, Row] = {}
    for number, item in enumerate(items, start=1):
        with _name_row_in_errors(benchmark, f"item {number} of the data file", item):
            for item_id in (benchmark.item_id(item), *benchmark.other_ids(item)):
                item_by_id.setdefault(item_id, item)
    # An item may be there under several ids, so items are counted by identity.
    item_count = len({id(item) for item in item_by_id.values()})
    output_rows = [row for row in rows if not benchmark.is_summary(row)]
    outputs = [
        _read_output(benchmark, row, item_by_id, number)
        for number, row in enumerate(output_rows, start=1)
    ]
    if not outputs:
        raise InvalidInput(f"benchmark {benchmark.name}", "outputs", "at least one row", "none")
    outputs, copies = _drop_copies(outputs)
    was_judged = _ask_judge(benchmark, outputs, judge)
    scores = []
    repeats: Counter[str] = Counter()
    for output in outputs:
        score = output.score
        if score is None:
            with _name_row_in_errors(benchmark, f"row {output.number}", output.row):
                score = benchmark.score_answers(output.item, output.text, output.answers)
                score = replace(score, thought=output.reasoning_words)
        scores.append(replace(score, repeat=repeats[score.id]))
        repeats[score.id] += 1
    run = make_run(benchmark, scores, model=model, judge=judge_name if was_judged else "")
    return replace(run, notes=_make_notes(output_rows, scores, copies, item_count))


def make_run(
    benchmark: Benchmark, scores: Sequence[ItemScore], *, model: str, judge: str
) -> EvalRun:
    """Make a run of its scores, with the metrics of those that are not missing."""
    present = [score for score in scores if not score.missing]
    metrics = benchmark.metrics(present) if present else {benchmark.headline: math.nan}
    return EvalRun(
        benchmark=benchmark.name,
        model=model,
        settings=dict(benchmark.options),
        scores=tuple(scores),
        metrics=metrics,
        judge=judge,
        reasoning_words=mean(score.thought for score in scores if score.thought),
    )


def _read_output(
    benchmark: Benchmark, row: Row, item_by_id: dict[str, Row], number: int
) -> _Output:
    """Join a row with its item, and read its published score or its text and questions."""
    with _name_row_in_errors(benchmark, f"row {number}", row):
        row_id = benchmark.item_id(row)
        item = {**item_by_id.get(row_id, {}), **row}
        # Some files give an item's fields with its first output only, and refer to it by id after that. What describes
        # the first output itself is not kept for the others.
        item_by_id.setdefault(
            row_id, {key: value for key, value in item.items() if key not in _KEYS_OF_ONE_OUTPUT}
        )
        try:
            score = benchmark.published_score(item, row)
        except MissingScore as error:
            score = ItemScore(benchmark.item_id(item), {}, missing=str(error))
        values = [row[key] for key in _ALL_OUTPUT_KEYS if key in row]
        # An output of null means that the model gave no answer; an empty text is an answer.
        if score is None and values and all(value is None for value in values):
            score = ItemScore(benchmark.item_id(item), {}, missing="no output in the row")
        if score is not None:
            return _Output(row=row, number=number, id=score.id, item=item, text="", score=score)
        reasoning, answer = split_reasoning(benchmark.output(row))
        return _Output(
            row=row,
            number=number,
            id=benchmark.item_id(item),
            item=item,
            text=answer,
            questions=benchmark.questions(item, answer),
            reasoning_words=count_words(reasoning) if reasoning else 0,
        )


@contextmanager
def _name_row_in_errors(benchmark: Benchmark, where: str, row: Row) -> Iterator[None]:
    """Turn any error about a row's fields into one message that names the row."""
    try:
        yield
    except (RubrankError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        text = str(error) if isinstance(error, RubrankError) else f"{type(error).__name__}: {error}"
        raise InvalidInput(
            owner=f"benchmark {benchmark.name}",
            parameter=where,
            allowed="the fields of its data file, or an id that is in the data file",
            got=shorten(f"{text.rstrip('.')}; keys {', '.join(map(str, row))}", 400),
        ) from None


def _ask_judge(benchmark: Benchmark, outputs: Sequence[_Output], judge: Judge | None) -> bool:
    """Ask all questions of all outputs in one call, so that the judge's client sets the pace.

    Returns whether the judge was asked anything.
    """
    prompts = [prompt for output in outputs for prompt in output.questions]
    if not prompts:
        return False
    owner = f"benchmark {benchmark.name}"
    if judge is None:
        allowed = "given: these outputs have no verdicts"
        raise InvalidInput(owner, "judge", allowed, "none", "Name a file of judges: `judge=FILE`.")
    answers = list(judge(prompts))
    if len(answers) != len(prompts):
        allowed = f"a function that returns one answer for each of its {len(prompts):,} prompts"
        raise InvalidInput(owner, "judge", allowed, counted(len(answers), "answer"))
    start = 0
    for output in outputs:
        end = start + len(output.questions)
        output.answers = answers[start:end]
        start = end
    return True


def _drop_copies(outputs: Sequence[_Output]) -> tuple[list[_Output], int]:
    """Remove rows that are exact copies of another row; returns the rest and how many were removed.

    If every item has equally many outputs, these are repeats, and equal ones are kept. If some items have more than
    others, a row that occurs twice word for word got there by accident and would count twice.
    """
    counts = Counter(output.id for output in outputs)
    if len(set(counts.values())) == 1:
        return list(outputs), 0
    unique: dict[str, _Output] = {}
    for output in outputs:
        unique.setdefault(json.dumps(output.row, sort_keys=True, default=str), output)
    return list(unique.values()), len(outputs) - len(unique)


def _make_notes(
    rows: Sequence[Row], scores: Sequence[ItemScore], copies: int, item_count: int
) -> tuple[str, ...]:
    """Describe copies, items without outputs, uneven repeats, and several models in one file."""
    notes = []
    if copies:
        notes.append(f"{copies:,} rows are copies of others and were left out")
    outputs_per_item = Counter(score.id for score in scores)
    if item_count and len(outputs_per_item) != item_count:
        notes.append(
            f"{len(outputs_per_item):,} of {item_count:,} items of the data file have outputs"
        )
    # Items with more outputs than others have more weight in a mean over outputs.
    counts = Counter(outputs_per_item.values())
    if len(counts) > 1:
        listed = ", ".join(
            f"{counted(outputs, 'output')} for {counted(items, 'item')}"
            for outputs, items in sorted(counts.items())[:_MOST_LISTED]
        )
        notes.append(f"items have different numbers of outputs: {listed}")
    for key in _MODEL_KEYS:
        models = list(dict.fromkeys(str(row[key]) for row in rows if isinstance(row.get(key), str)))
        if len(models) > 1:
            listed = ", ".join(models[:_MOST_LISTED])
            notes.append(
                f"outputs of {len(models)} models are taken together: {listed} …; choose one: `where={key}=NAME`"
            )
            break
    return tuple(notes)


# --------------------------------------------------------------------------------------------------------------- files


def write_run(run: EvalRun, path: str | Path) -> None:
    """Write a run as JSON; the file appears complete or not at all."""
    text = TypeAdapter(EvalRun).dump_json(run)  # NaN becomes null
    with atomic_write(path) as temporary:
        temporary.write_bytes(text + b"\n")


def read_run(path: str | Path) -> EvalRun:
    """Read a run that `write_run` wrote."""
    source = require_file(path)
    try:
        return TypeAdapter(EvalRun).validate_json(source.read_bytes())
    except ValidationError:
        remedy = "`rubrank eval score` and `rubrank eval run` write such files."
        allowed = "a file of a scored run"
        raise InvalidInput("eval", "run", allowed, str(source), remedy) from None


def find_runs(path: Path) -> list[EvalRun]:
    """Return the scored runs of a file or a folder. Other files are skipped; the result is empty if there is no run."""
    if path.is_file() and path.suffix != ".json":
        return []
    runs = []
    for file in _list_run_files([path]):
        with suppress(RubrankError):
            runs.append(read_run(file))
    return runs


def read_runs(paths: Iterable[str | Path]) -> list[EvalRun]:
    """Read run files, and all JSON files in folders except those of Inspect's log folders.

    Raises InvalidInput if there is no file, or if one of them is not a run.
    """
    files = _list_run_files(paths)
    if not files:
        raise InvalidInput("eval", "runs", "at least one file of a scored run", "none")
    return [read_run(file) for file in files]


def _list_run_files(paths: Iterable[str | Path]) -> list[Path]:
    """Return the files among the paths, and the JSON files in folders outside of Inspect's log folders."""
    files: list[Path] = []
    for path in map(Path, paths):
        if not path.is_dir():
            files.append(path)
            continue
        log_folders = {
            file.parent
            for pattern in ("*.eval", "eval-set.json", ".eval-set-id")
            for file in path.rglob(pattern)
        }
        files += [file for file in sorted(path.rglob("*.json")) if file.parent not in log_folders]
    return files
