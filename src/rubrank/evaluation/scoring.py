"""Outputs of a model, scored: join files by id, ask a judge where one is needed, make metrics.

    run = score_file("outputs.jsonl", "sysbench")
    run.metrics["ISR"], run.judged                        0.7636, "2500 of 2500"
    run.write("runs/model-a/sysbench.json")               `rubrank eval table` and `compare` read these

Rows may bring the benchmark's own fields with them (question, answer, constraints …), or are joined with its data file
by id. Rows that bring verdicts are taken at their word; others are scored here. A judge that fails is missing with a
reason and counted, never wrong. Thinking is cut off before scoring, and its length kept.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, TypeAlias

from rubrank._plain import plain, shortened
from rubrank.errors import InvalidInput, RubrankError, only_our_errors
from rubrank.evaluation.benchmark import OUTPUTS, Answer, Benchmark, ItemScore, Messages, Metrics, Row, mean
from rubrank.evaluation.noticing import notes_on
from rubrank.texts.reasoning import split_reasoning
from rubrank.texts.words import count_words

Judge: TypeAlias = Callable[[Sequence[Messages]], Sequence[Answer]]
"""Prompts → answers, in order; a failure is an `Answer` without text."""


_OTHER_OUTPUTS = ("model_outputs", "predicted_answer", "llm_answer")
"""As some benchmarks' own files call them."""


@dataclass(frozen=True, eq=False)
class EvalRun:
    """One benchmark on one model's outputs."""

    benchmark: str
    model: str
    settings: Mapping[str, Any]
    scores: tuple[ItemScore, ...]
    metrics: Metrics
    judge: str = ""
    reasoning_words: float = math.nan
    """Mean length of the thinking that was cut off; NaN where there was none."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    usage: Mapping[str, float] = field(default_factory=dict)
    """Of `rubrank eval run`: the model's tokens, and what judging cost."""
    notes: tuple[str, ...] = ()
    """What one should know about the rows before believing the numbers."""

    @property
    def missing(self) -> Counter[str]:
        """Why outputs have no score, and how many."""
        return Counter(score.missing for score in self.scores if score.missing)

    @property
    def judged(self) -> str:
        """Such as "273 of 273"."""
        done = sum(not score.missing for score in self.scores)
        return f"{done} of {len(self.scores)}"

    def summary(self) -> dict[str, Any]:
        """All but the scores, as JSON can hold it."""
        kept = {one.name: getattr(self, one.name) for one in fields(self) if one.name != "scores"}
        found: dict[str, Any] = plain({**kept, "judged": self.judged, "missing": self.missing})
        return found


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
    """Score rows of outputs, joined with the benchmark's items."""
    known = _items(benchmark, items)
    data = len(set(map(id, known.values())))
    listed = [row for row in rows if not benchmark.is_summary(row)]
    pending = [_pending(benchmark, row, known, number) for number, row in enumerate(listed, start=1)]
    if not pending:
        raise InvalidInput(f"benchmark {benchmark.name}", "outputs", "at least one row", "none", "")
    pending, repeated = once_each(pending)
    _ask(benchmark, pending, judge)
    scores = _numbered([_scored(benchmark, one) for one in pending])
    run = scored_run(benchmark, scores, model=model, judge=judge_name)
    return replace(run, notes=notes_on(listed, scores, repeated, data))


def scored_run(benchmark: Benchmark, scores: Sequence[ItemScore], *, model: str, judge: str) -> EvalRun:
    """Scores, wherever they were made, as a run."""
    there = [score for score in scores if not score.missing]
    metrics = benchmark.metrics(there) if there else {benchmark.headline: math.nan}
    return EvalRun(benchmark.name, model, dict(benchmark.options), tuple(scores), metrics, judge, thinking_of(scores))


@dataclass
class _Pending:
    """One output on its way."""

    row: Row
    number: int
    id: str
    item: Row
    output: str
    score: ItemScore | None = None
    questions: Sequence[Messages] = ()
    answers: Sequence[Answer] = ()
    thought: int = 0


def _items(benchmark: Benchmark, items: Iterable[Row]) -> dict[str, Row]:
    known: dict[str, Row] = {}
    for number, row in enumerate(items, start=1):
        with _named(benchmark, f"item {number} of the data file", row):
            for id in (benchmark.item_id(row), *benchmark.other_ids(row)):
                known.setdefault(id, row)
    return known


def _pending(benchmark: Benchmark, row: Row, known: dict[str, Row], number: int) -> _Pending:
    with _named(benchmark, f"row {number}", row):
        id = benchmark.item_id(row)
        item = {**known.get(id, {}), **row}
        known.setdefault(id, item)  # files give an item once, and its outputs by id
        score = benchmark.given(item, row)
        if score is None and _says_nothing(row):
            score = ItemScore(benchmark.item_id(item), {}, missing="no output in the row")
        if score is not None:
            return _Pending(row, number, score.id, item, "", score)
        thought, answer = split_reasoning(benchmark.output(row))
        words = count_words(thought) if thought else 0
        one = _Pending(row, number, benchmark.item_id(item), item, answer, thought=words)
        one.questions = benchmark.questions(item, answer)
        return one


def _says_nothing(row: Row) -> bool:
    """Is the output null, so that the model gave no answer? An empty text is an answer."""
    found = [row[name] for name in (*OUTPUTS, *_OTHER_OUTPUTS) if name in row]
    return bool(found) and all(value is None for value in found)


@contextmanager
def _named(benchmark: Benchmark, where: str, row: Row) -> Iterator[None]:
    """Whatever a row lacks is one message that names the row."""
    try:
        yield
    except (RubrankError, KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
        said = str(error) if isinstance(error, RubrankError) else f"{type(error).__name__}: {error}"
        raise InvalidInput(
            f"benchmark {benchmark.name}",
            where,
            "the fields of its data file, or an id that is in the data file",
            shortened(f"{said.rstrip('.')}; keys {', '.join(map(str, row))}", 400),
            "",
        ) from None


def _ask(benchmark: Benchmark, pending: Sequence[_Pending], judge: Judge | None) -> None:
    """All questions of all outputs in one go, so that the judge's client can work at its own pace."""
    prompts = [prompt for one in pending for prompt in one.questions]
    if not prompts:
        return
    if judge is None:
        raise InvalidInput(
            f"benchmark {benchmark.name}",
            "judge",
            "given: these outputs have no verdicts",
            "none",
            "Name a file of judges: `judge=FILE`.",
        )
    answers = list(judge(prompts))
    for one in pending:
        one.answers, answers = answers[: len(one.questions)], answers[len(one.questions) :]


def _scored(benchmark: Benchmark, one: _Pending) -> ItemScore:
    if one.score is not None:
        return one.score
    with _named(benchmark, f"row {one.number}", one.row):
        return replace(benchmark.score(one.item, one.output, one.answers), thought=one.thought)


def thinking_of(scores: Iterable[ItemScore]) -> float:
    """The mean length of the thinking that was cut off, of the outputs that had some; NaN without any."""
    return mean(score.thought for score in scores if score.thought)


def once_each(pending: Sequence[_Pending]) -> tuple[list[_Pending], int]:
    """Without rows that are copies of another, and how many these are.

    Where every item has equally many outputs they are repeats, alike or not. Where some have more than others, a row
    that is in the file twice word for word got there by accident, and would count twice.
    """
    counts = Counter(one.id for one in pending)
    if len(set(counts.values())) == 1:
        return list(pending), 0
    kept: dict[str, _Pending] = {}
    for one in pending:
        kept.setdefault(json.dumps(one.row, sort_keys=True, default=str), one)
    return list(kept.values()), len(pending) - len(kept)


def _numbered(scores: Iterable[ItemScore]) -> list[ItemScore]:
    """Several outputs of an item are repeats, counted in their order."""
    seen: Counter[str] = Counter()
    numbered = []
    for score in scores:
        numbered.append(replace(score, repeat=seen[score.id]))
        seen[score.id] += 1
    return numbered
