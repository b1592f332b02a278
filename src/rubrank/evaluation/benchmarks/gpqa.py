"""GPQA diamond: four choices in an order drawn by the seed, several times over.

    "… Answer: C"        the first "Answer: X" of the output

The official columns are kept (Question, Correct Answer, Incorrect Answer 1–3). The data carries a canary: it is read
from a file of yours, never copied.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import ClassVar

from rubrank.evaluation.benchmark import (
    Answer,
    Benchmark,
    DataFile,
    ItemScore,
    Messages,
    Metrics,
    Row,
    Setting,
    mean,
    mean_by_label,
)

_RIGHT, _WRONG = ("1", "1.0", "TRUE", "C"), ("0", "0.0", "FALSE", "I")
_SCORES = dict.fromkeys(_RIGHT, 1.0) | dict.fromkeys(_WRONG, 0.0)
"""Also as Inspect writes them: C correct, I incorrect."""
_ANSWER = re.compile(r"Answer\s*[:：]\s*[\"'*`$\s(]*([A-D])\b", re.IGNORECASE)


def extract(output: str) -> str | None:
    """The choice that an output states."""
    match = _ANSWER.search(output)
    return match[1].upper() if match else None


class GPQA(Benchmark):
    """198 questions that search engines do not answer."""

    name = "gpqa"
    title = "GPQA diamond"
    capability = "reasoning"
    headline = "accuracy"
    licence = "CC BY 4.0"
    data = DataFile.on_hub("gpqa_diamond.csv", "Idavidrein/gpqa", "gpqa_diamond.csv")
    settings: ClassVar = {
        "repeats": Setting(4, help="answers a question, each with another order of the choices"),
        "seed": Setting(0, help="of the orders"),
    }
    ids = ("item_id", "Record ID", "id", "question_id")
    columns: ClassVar = {"domain": "High-level domain"}

    def choices(self, item: Row, repeat: int = 0) -> tuple[list[str], str]:
        """The choices in the order shown, and the letter of the right one."""
        right = str(item["Correct Answer"])
        listed = [right, *(str(item[f"Incorrect Answer {k}"]) for k in (1, 2, 3))]
        order = list(range(4))
        random.Random(f"{self.options['seed']} {self.item_id(item)} {repeat}").shuffle(order)
        return [listed[k] for k in order], "ABCD"[order.index(0)]

    def prompt(self, item: Row) -> Messages:
        """The question with the choices of this repeat."""
        choices, _ = self.choices(item, int(item.get("repeat") or 0))
        listed = "\n".join(f"{letter}) {text}" for letter, text in zip("ABCD", choices, strict=True))
        ask = 'Think step by step. The last line of your reply must be "Answer: X", with the letter of one choice.'
        return [{"role": "user", "content": f"{ask}\n\n{item['Question']}\n\n{listed}"}]

    def published_score(self, item: Row, row: Row) -> ItemScore | None:
        """A score in the row, as in tables of item, model and epoch."""
        if row.get("score") is None:
            return None
        value = _SCORES.get(str(row["score"]).strip().upper())
        if value is None:
            return self.missing_score(row, f"the score is {str(row['score'])[:80]!r}, not 0 or 1")
        return ItemScore(self.item_id(row), {"correct": value})

    def score(self, item: Row, output: str, answers: Sequence[Answer]) -> ItemScore:
        """By the letter."""
        choice = extract(output)
        right = str(item["target"]) if item.get("target") else self.choices(item, int(item.get("repeat") or 0))[1]
        return self.make_score(
            item, {"correct": float(choice == right)}, f"answered {choice}" if choice else "no answer"
        )

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """The mean over questions of the mean over repeats, and by domain."""
        items: dict[str, list[float]] = {}
        for score in scores:
            items.setdefault(score.id, []).append(score.values["correct"])
        return {
            "accuracy": mean(mean(values) for values in items.values()),
            **mean_by_label(scores, "domain", "correct", "accuracy/"),
        }
