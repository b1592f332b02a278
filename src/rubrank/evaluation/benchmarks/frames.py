"""FRAMES: questions that need several documents; a judge says TRUE or FALSE.

    "Explanation: … Decision: TRUE"        the last TRUE or FALSE counts

`context="oracle"` gives the model the documents, `closed` only the question.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rubrank.evaluation.benchmark import Answer, Benchmark, DataFile, ItemScore, Messages, Row, Setting, first_value
from rubrank.evaluation.judge import fill_prompt, find_last_word


class Frames(Benchmark):
    """824 multi-hop questions."""

    name = "frames"
    title = "FRAMES"
    capability = "long context"
    headline = "accuracy"
    judge = "TRUE/FALSE"
    licence = "Apache-2.0"
    data = DataFile.on_hub("frames.jsonl", "google/frames-benchmark")
    settings: ClassVar = {"context": Setting("oracle", ("oracle", "closed"), "with the articles, or from memory")}

    def prompt(self, item: Row) -> Messages:
        """The question, after the articles in the oracle setting."""
        question = str(first_value(item, ("question", "Prompt", "prompt")))
        context = item.get("context") if self.options["context"] == "oracle" else None
        return [{"role": "user", "content": f"{context}\n\n{question}" if context else question}]

    def published_score(self, item: Row, row: Row) -> ItemScore | None:
        """A decision in the row."""
        decision = row.get("decision")
        if decision is None:
            return None
        word = str(decision).strip().upper()
        if word not in ("TRUE", "FALSE"):
            return self.missing_score(row, f"the decision is {str(decision)[:80]!r}, not TRUE or FALSE")
        return ItemScore(self.item_id(row), {"correct": float(word == "TRUE")})

    def questions(self, item: Row, output: str) -> list[Messages]:
        """Is the reference in the answer?"""
        question, target = first_value(item, ("question", "Prompt", "prompt")), first_value(item, ("answer", "Answer"))
        return [fill_prompt("frames", question=question, target=target, response=output)]

    def score(self, item: Row, output: str, answers: Sequence[Answer]) -> ItemScore:
        """The last TRUE or FALSE of the reply."""
        answer = answers[0]
        word = None if answer.text is None else find_last_word(answer.text, ("TRUE", "FALSE"))
        if word is None:
            return self.missing_score(item, answer.reason or "the judge's reply holds no decision")
        return ItemScore(self.item_id(item), {"correct": float(word == "TRUE")})
