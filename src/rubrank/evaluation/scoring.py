"""Outputs of a model, scored: join files by id, ask a judge where one is needed, make metrics.

    run = score_file("outputs.jsonl", "sysbench")
    run.metrics["ISR"], run.judged                        0.7636, "2500 of 2500"
    run.write("runs/model-a/sysbench.json")               `rubrank eval table` and `compare` read these

Rows may bring the benchmark's own fields with them (question, answer, constraints …), or are joined with its data file
by id. Rows that bring verdicts are taken at their word; others are scored here. A judge that fails is missing with a
reason and counted, never wrong. Thinking is cut off before scoring, and its length kept.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

from rubrank.errors import InvalidInput, only_our_errors
from rubrank.evaluation.benchmark import Answer, Benchmark, ItemScore, Messages, Metrics, Row
from rubrank.texts.reasoning import split_reasoning
from rubrank.texts.words import count_words

Judge: TypeAlias = Callable[[Sequence[Messages]], Sequence[Answer]]
"""Prompts → answers, in order; a failure is an `Answer` without text."""


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

    @property
    def missing(self) -> Counter[str]:
        """Why outputs have no score, and how many."""
        return Counter(score.missing for score in self.scores if score.missing)

    @property
    def judged(self) -> str:
        """Such as "273 of 273"."""
        done = sum(not score.missing for score in self.scores)
        return f"{done} of {len(self.scores)}"


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
    pending: list[_Pending] = []
    for number, row in enumerate(rows, start=1):
        if not benchmark.is_summary(row):
            pending.append(_pending(benchmark, row, known, number))
    if not pending:
        raise InvalidInput(f"benchmark {benchmark.name}", "outputs", "at least one row", "none", "")
    _ask(benchmark, pending, judge)
    scores = _numbered([_scored(benchmark, one) for one in pending])
    there = [score for score in scores if not score.missing]
    lengths = [one.thought for one in pending if one.thought]
    return EvalRun(
        benchmark.name,
        model,
        dict(benchmark.options),
        tuple(scores),
        benchmark.metrics(there) if there else {benchmark.headline: math.nan},
        judge_name,
        math.fsum(lengths) / len(lengths) if lengths else math.nan,
    )


@dataclass
class _Pending:
    """One output on its way."""

    item: Row
    output: str
    score: ItemScore | None = None
    questions: Sequence[Messages] = ()
    answers: Sequence[Answer] = ()
    thought: int = 0


def _items(benchmark: Benchmark, items: Iterable[Row]) -> dict[str, Row]:
    known: dict[str, Row] = {}
    for row in items:
        known.setdefault(benchmark.item_id(row), row)
    return known


def _pending(benchmark: Benchmark, row: Row, known: dict[str, Row], number: int) -> _Pending:
    id = benchmark.item_id(row)
    item = {**known.get(id, {}), **row}
    known.setdefault(id, item)  # files give an item once, and its outputs by id
    try:
        score = benchmark.given(item, row)
        if score is not None:
            return _Pending(item, "", score)
        thought, answer = split_reasoning(benchmark.output(row))
        one = _Pending(item, answer, thought=count_words(thought) if thought else 0)
        one.questions = benchmark.questions(item, answer)
        return one
    except (KeyError, TypeError) as error:
        raise InvalidInput(
            f"benchmark {benchmark.name}",
            f"row {number}",
            "the fields of its data file, or an id that is in the file given by --data",
            f"{type(error).__name__}: {error}; keys {', '.join(map(str, row))}",
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
            "given: these outputs bring no verdicts",
            "none",
            "Name one with --judge judges.yaml.",
        )
    answers = list(judge(prompts))
    for one in pending:
        one.answers, answers = answers[: len(one.questions)], answers[len(one.questions) :]


def _scored(benchmark: Benchmark, one: _Pending) -> ItemScore:
    if one.score is not None:
        return one.score
    return benchmark.score(one.item, one.output, one.answers)


def _numbered(scores: Iterable[ItemScore]) -> list[ItemScore]:
    """Several outputs of an item are repeats, counted in their order."""
    seen: Counter[str] = Counter()
    numbered = []
    for score in scores:
        numbered.append(ItemScore(**{**vars(score), "repeat": seen[score.id]}))
        seen[score.id] += 1
    return numbered
