"""LongBench v2: four choices about a long text.

    "The correct answer is (B)."      B;  without brackets too;  nothing of the kind: no answer

A text beyond the model's window loses its middle; both ends stay. `compensated` counts no answer as a quarter.
The authors leave empty replies out of the total; here they count as no answer.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import ClassVar

from rubrank.errors import InvalidInput
from rubrank.evaluation.benchmark import Answer, Benchmark, DataFile, ItemScore, Messages, Metrics, Row, Setting, mean

_BRACKETS = re.compile(r"The correct answer is \(([A-D])\)")
_BARE = re.compile(r"The correct answer is ([A-D])")


def extract(output: str) -> str | None:
    """The choice that an output states."""
    text = output.replace("*", "")
    match = _BRACKETS.search(text) or _BARE.search(text)
    return match[1] if match else None


def without_middle(words: Sequence[str], most: int) -> list[str]:
    """The first and the last half of what fits."""
    if len(words) <= most:
        return list(words)
    half = most // 2
    return [*words[:half], *words[len(words) - (most - half) :]]


class LongBench(Benchmark):
    """503 questions over texts of 8k to 2M words."""

    name = "longbench-v2"
    title = "LongBench v2"
    capability = "long context"
    headline = "accuracy"
    licence = "MIT"
    data = DataFile.on_hub("longbench_v2.jsonl", "zai-org/LongBench-v2")
    settings: ClassVar = {
        "compensated": Setting("no", ("no", "yes"), "no answer counts as a quarter"),
        "words": Setting(90_000, help="of the text that is shown; the middle is cut"),
        "compat": Setting("fixed", ("fixed", "upstream"), "upstream leaves empty replies out of the total"),
    }
    columns: ClassVar = {name: name for name in ("difficulty", "length", "domain")}
    breakdowns = ("difficulty", "length")

    def prompt(self, item: Row) -> Messages:
        """The text, the question, the choices, and how to answer."""
        text = " ".join(without_middle(str(item["context"]).split(" "), self.options["words"]))
        choices = "\n".join(f"({letter}) {item[f'choice_{letter}']}" for letter in "ABCD")
        ask = 'Choose one. Answer in this form: "The correct answer is (your letter)".'
        return [{"role": "user", "content": f"{text}\n\nQuestion: {item['question']}\n{choices}\n\n{ask}"}]

    def score(self, item: Row, output: str, answers: Sequence[Answer]) -> ItemScore:
        """Right, wrong, or no answer."""
        if self.options["compat"] == "upstream" and not output.strip():
            return self.missing_score(item, "an empty reply, left out upstream")
        if str(item["answer"]) not in tuple("ABCD"):
            raise InvalidInput("row", "answer", "A, B, C or D", repr(item["answer"])[:80], "")
        choice = extract(output)
        none = 0.25 if self.options["compensated"] == "yes" else 0.0
        value = none if choice is None else float(choice == str(item["answer"]))
        values = {"correct": value, "answered": float(choice is not None)}
        return self.make_score(item, values, "no answer" if choice is None else f"answered {choice}")

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """Accuracy, by difficulty and by length, and how many were answered."""
        return {**super().metrics(scores), "answered": mean(score.values["answered"] for score in scores)}
