"""MMLU-Pro: ten choices, five worked examples.

    "… so the answer is (C)."     C: "answer is (X)", else the last "answer: X", else the last letter that stands alone

Where nothing is found the authors' script guesses at random (seed 12345); `fixed`, the default, counts it as wrong.
"""

from __future__ import annotations

import random
import re
from collections.abc import Sequence
from typing import ClassVar

from rubrank.errors import InvalidInput
from rubrank.evaluation.benchmark import Answer, Benchmark, DataFile, ItemScore, Messages, Row, Setting

LETTERS = "ABCDEFGHIJ"
_IS = re.compile(r"answer is \(?([A-J])\)?")
_COLON = re.compile(r".*[aA]nswer:\s*([A-J])", re.DOTALL)


def extract(output: str) -> str | None:
    """The choice that an output states."""
    match = _IS.search(output) or _COLON.match(output)  # a search for ".*" would begin anew at every character
    if match is None:
        alone = re.findall(r"\b([A-J])\b", output)
        return alone[-1] if alone else None
    return match[1]


class MMLUPro(Benchmark):
    """12,032 questions in fourteen categories."""

    name = "mmlu-pro"
    title = "MMLU-Pro"
    capability = "knowledge"
    headline = "accuracy"
    licence = "Apache-2.0"
    data = DataFile.on_hub("mmlu_pro.jsonl", "TIGER-Lab/MMLU-Pro")
    settings: ClassVar = {
        "shots": Setting(5, help="worked examples of the category before the question"),
        "compat": Setting("fixed", ("fixed", "upstream"), "upstream guesses where no answer is found"),
    }
    outputs = ("model_outputs", "output", "response", "completion")
    columns: ClassVar = {"category": "category"}
    breakdowns = ("category",)

    def prompt(self, item: Row) -> Messages:
        """Worked examples where the file has some, then the question."""
        examples = (item.get("shots") or ())[: self.options["shots"]]
        shots = [_format_question(shot) + f"\n{shot['cot_content']}" for shot in examples]
        topic = item.get("category", "many things")
        ask = f'Questions about {topic}. Think step by step and end with "The answer is (X)".'
        return [{"role": "user", "content": "\n\n".join([ask, *shots, _format_question(item)])}]

    def score(self, item: Row, output: str, answers: Sequence[Answer]) -> ItemScore:
        """By the letter."""
        _check_answer(item, f"row {self.item_id(item)}")
        choice = extract(output)
        if choice is None and self.options["compat"] == "upstream":
            rng = random.Random(f"12345 {self.item_id(item)}")  # reproducible item by item, whatever the order
            choice = LETTERS[rng.randrange(len(item["options"]))]
        values = {"correct": float(choice == str(item["answer"]))}
        return self.make_score(item, values, f"answered {choice}" if choice else "no answer")


def _check_answer(item: Row, where: str) -> None:
    """Refuse an answer that is no letter, or another one than `answer_index` says."""
    answer = str(item["answer"])
    if len(answer) != 1 or answer not in LETTERS:
        raise InvalidInput(where, "answer", "a letter from A to J", repr(item["answer"])[:80], "")
    index = item.get("answer_index")
    if index is None:
        return
    try:
        is_same = float(index) == LETTERS.index(answer)
    except (TypeError, ValueError):
        is_same = False
    if not is_same:
        allowed = f"{LETTERS.index(answer)}, the place of `answer` {answer} counted from 0"
        raise InvalidInput(where, "answer_index", allowed, repr(index)[:80], "Correct the row.")


def _format_question(item: Row) -> str:
    options = "\n".join(f"{letter}. {text}" for letter, text in zip(LETTERS, item["options"], strict=False))
    return f"Question: {item['question']}\nOptions:\n{options}\nAnswer: Let's think step by step."
