"""Benchmarks as tasks of Inspect AI, and any criterion or rubric as a scorer of Inspect AI.

    task = benchmark_task(find_benchmark("ifeval"), items)              inspect_ai.eval(task, model=…)
    Task(dataset=…, scorer=scorer(["WordCount", "RepeatSegment"]))      one value per criterion; NaN if it is missing

Inspect provides models, the log, retries, resuming and the viewer. Outputs are scored by the same code as plain files.
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
from pydantic import TypeAdapter

from rubrank.evaluation.benchmark import Answer, Benchmark, ItemScore, Messages, Row
from rubrank.evaluation.generation import extend_history, group_dialogues
from rubrank.evaluation.runs import Judge
from rubrank.grading.grade import grade
from rubrank.rollouts.rollout import Group, make_rollout
from rubrank.texts.reasoning import split_reasoning
from rubrank.texts.words import count_words

_MESSAGE_CLASSES = {
    "system": ChatMessageSystem,
    "user": ChatMessageUser,
    "assistant": ChatMessageAssistant,
}


def benchmark_task(
    benchmark: Benchmark,
    items: Iterable[Row],
    *,
    judge: Judge | None = None,
    epochs: int = 1,
    on_score: Callable[[TaskState], None] | None = None,
) -> Task:
    """Make a task of the benchmark's items; a dialogue is one sample, and its turns are asked one after another.

    on_score: called with every sample after it is scored.
    """
    samples = []
    for dialogue_id, turns in group_dialogues(benchmark, items).items():
        first_prompt = _make_chat(benchmark.prompt(turns[0]))
        metadata = {"turns": [dict(turn) for turn in turns]}
        samples.append(Sample(id=dialogue_id, input=first_prompt, metadata=metadata))
    return Task(
        name=benchmark.name,
        dataset=MemoryDataset(samples, name=benchmark.name),
        solver=_ask_turns(benchmark),
        scorer=_make_benchmark_scorer(benchmark, judge, on_score),
        epochs=epochs,
    )


def _make_chat(messages: Messages) -> list[ChatMessage]:
    return [
        _MESSAGE_CLASSES[message["role"]](content=str(message["content"])) for message in messages
    ]


@solver
def _ask_turns(benchmark: Benchmark) -> Solver:
    """Ask every turn of a sample; the model's own answers stay in the history.

    The items, the outputs and the words of reasoning of all turns go to the metadata, for the scorer.
    """

    async def solve(state: TaskState, generate: Generate) -> TaskState:
        items = []
        outputs = []
        reasoning_words = []
        history: list[dict[str, str]] = []
        for turn in state.metadata["turns"]:
            item = {
                **turn,
                "history": history or turn.get("history") or [],
                "repeat": state.epoch - 1,
            }
            items.append(item)
            state.messages = _make_chat(benchmark.prompt(item))
            state = await generate(state)
            outputs.append(state.output.completion)
            reasoning_words.append(_count_reasoning_words(state))
            history = extend_history(benchmark, turn, item["history"], state.output.completion)
        state.metadata |= {"items": items, "outputs": outputs, "reasoning_words": reasoning_words}
        return state

    return solve


def _count_reasoning_words(state: TaskState) -> int:
    """Count the words of reasoning: in the text, or in a field of its own, as most providers return it."""
    texts = [split_reasoning(state.output.completion)[0] or ""]
    content = state.output.message.content if state.output.choices else ""
    if not isinstance(content, str):
        texts += [part.reasoning for part in content if part.type == "reasoning"]
    return count_words(" ".join(texts).strip())


def _make_benchmark_scorer(
    benchmark: Benchmark, judge: Judge | None, on_score: Callable[[TaskState], None] | None = None
) -> Scorer:
    """Make a scorer for all turns of a sample.

    Inspect shows the values of the last turn; the metadata has those of all.
    """

    @register_scorer(metrics=[], name=f"rubrank/{benchmark.name}")
    def make_scorer() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score:
            scores = []
            turns = zip(
                state.metadata["items"],
                state.metadata["outputs"],
                state.metadata["reasoning_words"],
                strict=True,
            )
            for item, output, reasoning_words in turns:
                item_score = await _score_output(benchmark, item, output, judge)
                scores.append(replace(item_score, thought=reasoning_words))
            if on_score is not None:
                on_score(state)
            values = {name: float(value) for name, value in scores[-1].values.items()}
            reasons = [item_score.missing or item_score.reason for item_score in scores]
            return Score(
                value=values or math.nan,
                explanation="; ".join(filter(None, reasons)) or None,
                metadata={"scores": [asdict(item_score) for item_score in scores]},
            )

        return score

    return make_scorer()


async def _score_output(
    benchmark: Benchmark, item: Row, output: str, judge: Judge | None
) -> ItemScore:
    """Score one output; the judge runs in a thread, so that it does not block Inspect's event loop."""
    answer = split_reasoning(output)[1]
    repeat = item["repeat"]
    questions = benchmark.questions(item, answer)
    answers: Sequence[Answer] = ()
    if questions:
        if judge is None:
            return ItemScore(
                benchmark.item_id(item), {}, missing="no judge was given", repeat=repeat
            )
        answers = await asyncio.to_thread(judge, questions)
    score = benchmark.score_answers(item, answer, answers)
    return replace(score, repeat=repeat)


def read_scores(log: Any) -> list[ItemScore]:
    """Read the scores in an Inspect log that `benchmark_task` wrote."""
    data = []
    for sample in log.samples or ():
        for score in (sample.scores or {}).values():
            data += (score.metadata or {}).get("scores", ())
    return TypeAdapter(list[ItemScore]).validate_python(data)


def scorer(rubric: Any, judges: Any = None) -> Scorer:
    """Make an Inspect scorer of any rubric: one value per criterion; a missing score is NaN, never 0."""

    @register_scorer(metrics={"*": [mean()]}, name="rubrank/rubric")
    def make_scorer() -> Scorer:
        async def score(state: TaskState, target: Target) -> Score:
            prompt = [
                {"role": message.role, "content": message.text}
                for message in state.messages[:-1]
                if message.role != "tool"
            ]
            data: dict[str, Any] = {"prompt": prompt, "response": state.output.completion}
            if target.text:
                data["metadata"] = {"ground_truth": target.text}
            group = Group(id=str(state.sample_id), rollouts=(make_rollout(data, "inspect"),))
            table = await asyncio.to_thread(grade, [group], rubric, judges=judges)
            graded = table.groups[0]
            values = dict(zip(graded.names, graded.scores[0].tolist(), strict=True))
            named_reasons = zip(graded.names, graded.reasons[0], strict=True)
            reasons = [f"{name}: {reason}" for name, reason in named_reasons if reason]
            return Score(value=values, explanation="; ".join(reasons) or None)

        return score

    return make_scorer()
