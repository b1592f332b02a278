"""Inspect AI both ways: benchmarks as Inspect tasks, and any criterion or rubric as an Inspect scorer.

    task = benchmark_task(find_benchmark("ifeval"), items)              inspect_ai.eval(task, model=…)
    Task(dataset=…, scorer=scorer(["WordCount", "RepeatSegment"]))      one value per criterion; NaN where it is missing

Inspect has the model providers, the log, retries, resuming and the viewer; scoring is the same code as for plain files.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, replace
from typing import Any

from inspect_ai import Task
from inspect_ai.dataset import MemoryDataset, Sample
from inspect_ai.model import ChatMessage, ChatMessageAssistant, ChatMessageSystem, ChatMessageUser
from inspect_ai.scorer import Score, Scorer, Target, mean
from inspect_ai.scorer import scorer as register_scorer
from inspect_ai.solver import Generate, Solver, TaskState, solver

from rubrank.evaluation.asking import dialogues, next_history
from rubrank.evaluation.benchmark import Answer, Benchmark, ItemScore, Messages, Row
from rubrank.evaluation.scoring import Judge
from rubrank.grading.grade import grade
from rubrank.rollouts.rollout import Group, to_rollout
from rubrank.texts.reasoning import split_reasoning
from rubrank.texts.words import count_words

_KEPT = ("asked", "outputs", "thoughts")
"""What the solver leaves in a sample's metadata, one each for every turn."""
_KINDS = {"system": ChatMessageSystem, "user": ChatMessageUser, "assistant": ChatMessageAssistant}


def benchmark_task(
    benchmark: Benchmark,
    items: Iterable[Row],
    *,
    judge: Judge | None = None,
    epochs: int = 1,
    scored: Callable[[TaskState], None] | None = None,
) -> Task:
    """A task over the benchmark's items; dialogues are one sample each, their turns asked one after another.

    scored: called with every sample that has its score.
    """
    samples = [
        Sample(id=id, input=_chat(benchmark.prompt(turns[0])), metadata={"turns": [dict(turn) for turn in turns]})
        for id, turns in dialogues(benchmark, items).items()
    ]
    return Task(
        name=benchmark.name,
        dataset=MemoryDataset(samples, name=benchmark.name),
        solver=_turn_by_turn(benchmark),
        scorer=_benchmark_scorer(benchmark, judge, scored),
        epochs=epochs,
    )


def _chat(messages: Messages) -> list[ChatMessage]:
    return [_KINDS[message["role"]](content=str(message["content"])) for message in messages]


@solver
def _turn_by_turn(benchmark: Benchmark) -> Solver:
    """Ask every turn of a sample; the model's own answers stay in the history."""

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        outputs, asked, thoughts = [], [], []
        own: list[dict[str, str]] = []
        for turn in state.metadata["turns"]:
            item = {**turn, "history": own or turn.get("history") or [], "repeat": state.epoch - 1}
            asked.append(item)
            state.messages = _chat(benchmark.prompt(item))
            state = await generate(state)
            outputs.append(state.output.completion)
            thoughts.append(_thought(state))
            own = next_history(benchmark, turn, own, state.output.completion)
        state.metadata |= {"outputs": outputs, "asked": asked, "thoughts": thoughts}
        return state

    return solve


def _thought(state: TaskState) -> int:
    """Words of thinking: in the text, or apart from it, as most providers give it."""
    content = state.output.message.content if state.output.choices else ""
    apart = "" if isinstance(content, str) else " ".join(p.reasoning for p in content if p.type == "reasoning")
    return count_words(f"{split_reasoning(state.output.completion)[0] or ''} {apart}".strip())


def _benchmark_scorer(
    benchmark: Benchmark, judge: Judge | None, scored: Callable[[TaskState], None] | None = None
) -> Scorer:
    @register_scorer(metrics=[], name=f"rubrank/{benchmark.name}")
    def made() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score:
            found = [
                replace(await _scored(benchmark, turn, output, judge, state.epoch - 1), thought=thought)
                for turn, output, thought in zip(*(state.metadata[name] for name in _KEPT), strict=True)
            ]
            if scored is not None:
                scored(state)
            values = {name: float(value) for name, value in found[-1].values.items()}
            reasons = "; ".join(one.missing or one.reason for one in found if one.missing or one.reason)
            return Score(
                value=values or math.nan, explanation=reasons or None, metadata={"scores": [asdict(s) for s in found]}
            )

        return score

    return made()


async def _scored(benchmark: Benchmark, item: Row, output: str, judge: Judge | None, repeat: int) -> ItemScore:
    """One output; judges are asked in a thread of their own, so that Inspect's loop goes on."""
    answer = split_reasoning(output)[1]
    item = {**item, "repeat": repeat}
    questions = benchmark.questions(item, answer)
    answers: Sequence[Answer] = ()
    if questions:
        if judge is None:
            return ItemScore(benchmark.item_id(item), {}, missing="no judge was given", repeat=repeat)
        answers = await asyncio.to_thread(judge, questions)
    score = benchmark.score(item, answer, answers)
    return replace(score, repeat=repeat)


def scores_of(log: Any) -> list[ItemScore]:
    """The scores in an Inspect log that `benchmark_task` wrote."""
    made = [score for sample in log.samples or () for score in (sample.scores or {}).values()]
    return [ItemScore.of(data) for score in made for data in (score.metadata or {}).get("scores", ())]


def scorer(rubric: Any, judges: Any = None) -> Scorer:
    """Any rubric as an Inspect scorer: a dict of values, one a criterion; what is missing is NaN, never 0."""

    @register_scorer(metrics={"*": [mean()]}, name="rubrank/rubric")
    def made() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score:
            before = [{"role": m.role, "content": m.text} for m in state.messages[:-1] if m.role != "tool"]
            data: dict[str, Any] = {"prompt": before, "response": state.output.completion}
            if target.text:
                data["metadata"] = {"ground_truth": target.text}
            group = Group(id=str(state.sample_id), rollouts=(to_rollout(data, "inspect"),))
            table = await asyncio.to_thread(grade, [group], rubric, judges=judges)
            graded = table.groups[0]
            values = dict(zip(graded.names, graded.scores[0].tolist(), strict=True))
            reasons = "; ".join(f"{n}: {r}" for n, r in zip(graded.names, graded.reasons[0], strict=True) if r)
            return Score(value=values, explanation=reasons or None)

        return score

    return made()
