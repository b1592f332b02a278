"""SimpleQA-Verified and ChineseSimpleQA: short questions with one answer, graded by a letter.

    A correct, B incorrect, C not attempted        F1 = harmonic mean of correct/all and correct/attempted

`compat="upstream"` reads a grade as the authors' scripts do, the first A, B or C anywhere in the reply, so that
"CORRECT" is a C. `fixed`, the default, takes a letter that stands alone, or the word itself.
"""

from __future__ import annotations

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
    first_value,
    mean,
    mean_by_label,
)
from rubrank.evaluation.judge import fill_prompt

_WORDS = {"CORRECT": "A", "INCORRECT": "B", "NOT_ATTEMPTED": "C", "正确": "A", "错误": "B", "未尝试": "C"}
_WORD = re.compile(r"(?<![A-Z_])(NOT_ATTEMPTED|INCORRECT|CORRECT)(?![A-Z_])|(未尝试|错误|正确)")
_LETTER = re.compile(r"(?<![A-Za-z0-9_])([ABC])(?![A-Za-z0-9_'’])")


def read_grade(text: str, compat: str) -> str | None:
    """A, B or C; None where a reply holds no grade, or two."""
    if compat == "upstream":
        match = re.search(r"[ABC]", text)
        return match[0] if match else "C"
    bare = text.strip().strip("*`\"'().:：。 ")
    if bare in ("A", "B", "C"):
        return bare
    letters = set(_LETTER.findall(text))
    words = {_WORDS[a or b] for a, b in _WORD.findall(text.upper().replace("NOT ATTEMPTED", "NOT_ATTEMPTED"))}
    grades = letters or words
    if letters and words and letters != words:
        return None
    return grades.pop() if len(grades) == 1 else None


class SimpleQA(Benchmark):
    """Short factual questions."""

    name = "simpleqa"
    title = "SimpleQA-Verified"
    capability = "factuality & QA"
    headline = "F1"
    judge = "letters A/B/C"
    licence = "MIT"
    data = DataFile.on_hub("simpleqa_verified.jsonl", "google/simpleqa-verified")
    settings: ClassVar = {
        "compat": Setting("fixed", ("fixed", "upstream"), "how a grade is read from the judge's reply")
    }
    ids = ("id", "original_index", "problem", "query", "question")
    outputs = ("predicted_answer", "llm_answer", "output", "response", "completion")
    columns: ClassVar = {"category": "primary_category"}
    template = "simpleqa"

    def published_score(self, item: Row, row: Row) -> ItemScore | None:
        """A letter in the row."""
        letter = row.get("grade") or row.get("grade_letter")
        if letter is None:
            return None
        read = read_grade(str(letter).upper(), "fixed")
        if read is None:
            return self.missing_score(row, f"the grade is {str(letter)[:80]!r}, not A, B or C")
        return self._make_score({**item, **row}, read)

    def questions(self, item: Row, output: str) -> list[Messages]:
        """One question: which letter."""
        question = first_value(item, ("problem", "query", "question"))
        target = first_value(item, ("target", "gold_answer", "answer"))
        return [fill_prompt(self.template, question=question, target=target, response=output)]

    def score(self, item: Row, output: str, answers: Sequence[Answer]) -> ItemScore:
        """By the letter."""
        answer = answers[0]
        letter = None if answer.text is None else read_grade(answer.text, self.options["compat"])
        if letter is None:
            return self.missing_score(item, answer.reason or "the judge's reply holds no grade")
        return self._make_score(item, letter)

    def _make_score(self, row: Row, letter: str) -> ItemScore:
        return self.make_score(row, {"correct": float(letter == "A"), "attempted": float(letter != "C")})

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """F1, correct, attempted, correct given attempted; by category where there are some."""
        return {**qa_metrics(scores), **mean_by_label(scores, "category", "correct", "correct/")}


def qa_metrics(scores: Sequence[ItemScore]) -> Metrics:
    """The four numbers of a SimpleQA run."""
    correct = mean(score.values["correct"] for score in scores)
    tried = sum(score.values["attempted"] for score in scores)
    correct_of_attempted = sum(score.values["correct"] for score in scores) / tried if tried else 0.0
    f1 = (
        2.0 * correct * correct_of_attempted / (correct + correct_of_attempted)
        if correct + correct_of_attempted > 0.0
        else 0.0
    )
    attempted = mean(score.values["attempted"] for score in scores)
    return {"F1": f1, "correct": correct, "attempted": attempted, "correct given attempted": correct_of_attempted}


class ChineseSimpleQA(SimpleQA):
    """3,000 questions in Chinese; the headline is the share of correct answers."""

    name = "chinese-simpleqa"
    title = "ChineseSimpleQA"
    headline = "correct"
    licence = "MIT"
    data = DataFile.on_hub("chinese_simpleqa.jsonl", "OpenStellarTeam/Chinese-SimpleQA")
    template = "chinese_simpleqa"
