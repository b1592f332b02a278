"""AA-LCR: questions over sets of long documents; a judge says CORRECT or INCORRECT.

    "CORRECT" is inside "INCORRECT": whole words are read, and a reply with both is missing

Accuracy is the mean over the runs that are given (three by default upstream).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rubrank.evaluation.benchmark import Answer, Benchmark, DataFile, ItemScore, Messages, Row, Setting, first_value
from rubrank.evaluation.judge import fill_prompt, find_only_word

_WORDS = ("CORRECT", "INCORRECT")


class AALCR(Benchmark):
    """100 questions over about 100,000 tokens each."""

    name = "aa-lcr"
    title = "AA-LCR"
    capability = "long context"
    headline = "accuracy"
    judge = "CORRECT/INCORRECT"
    licence = "none stated"
    data = DataFile.on_hub("aa_lcr.jsonl", "ArtificialAnalysis/AA-LCR")
    settings: ClassVar = {
        "capability": Setting("long context", ("long context", "reasoning"), "the paper's text and table differ")
    }
    outputs = ("llm_answer", "output", "response", "completion")
    columns: ClassVar = {"category": "document_category"}

    def is_summary(self, row: Row) -> bool:
        """Published files carry their totals in a row."""
        return bool(row.get("_meta_stats"))

    def prompt(self, item: Row) -> Messages:
        """The documents, then the question."""
        return [{"role": "user", "content": f"{item.get('context', '')}\n\n{item['question']}".strip()}]

    def published_score(self, item: Row, row: Row) -> ItemScore | None:
        """A word of the judge's in the row."""
        verdict = row.get("judge_result")
        return None if verdict is None else self._make_score(row, find_only_word(str(verdict).upper(), _WORDS), "")

    def questions(self, item: Row, output: str) -> list[Messages]:
        """Does the answer agree with the reference?"""
        target = first_value(item, ("gold_answer", "answer"))
        return [fill_prompt("aa_lcr", question=item["question"], target=target, response=output)]

    def score(self, item: Row, output: str, answers: Sequence[Answer]) -> ItemScore:
        """By the one word."""
        answer = answers[0]
        word = None if answer.text is None else find_only_word(answer.text.upper(), _WORDS)
        return self._make_score(item, word, answer.reason)

    def _make_score(self, row: Row, word: str | None, reason: str) -> ItemScore:
        if word is None:
            return self.missing_score(row, reason or "the judge's reply holds no single decision")
        return self.make_score(row, {"correct": float(word == "CORRECT")})
