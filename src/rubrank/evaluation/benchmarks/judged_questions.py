"""Questions with a reference answer, graded by a judge: SimpleQA-Verified, ChineseSimpleQA, FRAMES, AA-LCR.

    SimpleQA    "A" correct, "B" incorrect, "C" not attempted; F1 of correct/all and correct/attempted
    FRAMES      "Explanation: … Decision: TRUE"; the last TRUE or FALSE counts
    AA-LCR      "CORRECT" or "INCORRECT", as whole words; a reply with both is missing

A file of outputs may contain the judge's verdicts, which are then used as they are.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import ClassVar

from rubrank.evaluation.benchmark import (
    Benchmark,
    DataFile,
    ItemScore,
    Messages,
    Metrics,
    MissingScore,
    Row,
    Setting,
    first_value,
    harmonic_mean,
    mean_by_label,
    mean_value,
)
from rubrank.evaluation.judge import fill_prompt, find_last_word, find_only_word


class JudgedQuestion(Benchmark):
    """A question, its reference answer, and a judge whose reply contains one verdict."""

    template: ClassVar[str]
    """Name of the template of the judge's prompt."""
    question_columns: ClassVar[Sequence[str]] = ("question",)
    target_columns: ClassVar[Sequence[str]] = ("answer",)
    verdict_columns: ClassVar[Sequence[str]]
    """Columns in which published files have the judge's verdict."""
    right_verdict: ClassVar[str]
    """The verdict about a correct answer."""

    def read_verdict(self, reply: str) -> str | None:
        """Return the verdict in a judge's reply; None if there is none, or none that is clear."""
        raise NotImplementedError

    def read_published_verdict(self, text: str) -> str | None:
        """Return the verdict in a cell of a published file; None if it cannot be read."""
        return self.read_verdict(text.strip().upper())

    def make_verdict_score(self, item: Row, verdict: str | None, text: str) -> ItemScore:
        """Return the score for a verdict that was read from a text."""
        if verdict is None:
            raise MissingScore(f"the verdict cannot be read: {text[:80]!r}")
        return self.make_score(item, {"correct": float(verdict == self.right_verdict)})

    def published_score(self, item: Row, row: Row) -> ItemScore | None:
        """Return the score from the verdict in the row; None if the row has no verdict."""
        for name in self.verdict_columns:
            if row.get(name) not in (None, ""):
                text = str(row[name])
                return self.make_verdict_score(item, self.read_published_verdict(text), text)
        return None

    def questions(self, item: Row, output: str) -> list[Messages]:
        """Return one question: does the output agree with the reference answer?"""
        question = first_value(item, self.question_columns)
        target = first_value(item, self.target_columns)
        return [fill_prompt(self.template, question=question, target=target, response=output)]

    def score(self, item: Row, output: str, replies: Sequence[str]) -> ItemScore:
        """Return the score for the verdict in the judge's reply."""
        return self.make_verdict_score(item, self.read_verdict(replies[0]), replies[0])


# ----------------------------------------------------------------------------------------------------------- SimpleQA

_GRADE_OF_WORD = {
    "CORRECT": "A",
    "INCORRECT": "B",
    "NOT_ATTEMPTED": "C",
    "正确": "A",
    "错误": "B",
    "未尝试": "C",
}
_WORD = re.compile(r"(?<![A-Z_])(NOT_ATTEMPTED|INCORRECT|CORRECT)(?![A-Z_])|(未尝试|错误|正确)")
_LETTER = re.compile(r"(?<![A-Za-z0-9_])([ABC])(?![A-Za-z0-9_'’])")


def read_grade(text: str, compat: str) -> str | None:
    """Return the grade in a judge's reply: A, B or C.

    compat="upstream" reads a grade as the authors' scripts do: the first A, B or C anywhere in the reply, so that
    "CORRECT" is a C; C if there is none. "fixed" takes a single letter or a grade word; None if there is no grade, or
    if there are two.
    """
    if compat == "upstream":
        match = re.search(r"[ABC]", text)
        return match[0] if match else "C"
    bare_text = text.strip().strip("*`\"'().:：。 ")
    if bare_text in ("A", "B", "C"):
        return bare_text
    letters = set(_LETTER.findall(text))
    words = _WORD.findall(text.upper().replace("NOT ATTEMPTED", "NOT_ATTEMPTED"))
    grades_of_words = {_GRADE_OF_WORD[english or chinese] for english, chinese in words}
    if letters and grades_of_words and letters != grades_of_words:
        return None
    grades = letters or grades_of_words
    return grades.pop() if len(grades) == 1 else None


class SimpleQA(JudgedQuestion):
    """Short factual questions."""

    name = "simpleqa"
    title = "SimpleQA-Verified"
    capability = "factuality & QA"
    headline = "F1"
    judge = "letters A/B/C"
    licence = "MIT"
    data = DataFile.on_hub("simpleqa_verified.jsonl", "google/simpleqa-verified")
    settings: ClassVar = {
        "compat": Setting(
            "fixed", ("fixed", "upstream"), "how a grade is read from the judge's reply"
        )
    }
    ids = ("id", "original_index", "problem", "query", "question")
    outputs = ("predicted_answer", "llm_answer", "output", "response", "completion")
    columns: ClassVar = {"category": "primary_category"}
    template = "simpleqa"
    question_columns = ("problem", "query", "question")
    target_columns = ("target", "gold_answer", "answer")
    verdict_columns = ("grade", "grade_letter")
    right_verdict = "A"

    def read_verdict(self, reply: str) -> str | None:
        """Return A, B or C."""
        return read_grade(reply, self.options["compat"])

    def read_published_verdict(self, text: str) -> str | None:
        """Return the grade for a letter or a word. A cell is always read as "fixed": "compat" is about replies."""
        return read_grade(text.upper(), "fixed")

    def make_verdict_score(self, item: Row, verdict: str | None, text: str) -> ItemScore:
        """Return whether the answer is correct, and whether there is one, as 0 or 1."""
        score = super().make_verdict_score(item, verdict, text)
        return replace(score, values={**score.values, "attempted": float(verdict != "C")})

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """Return F1, correct, attempted, correct given attempted; by category if items have one."""
        correct = mean_value(scores, "correct")
        attempted = mean_value(scores, "attempted")
        correct_of_attempted = correct / attempted if attempted else 0.0
        return {
            "F1": harmonic_mean(correct, correct_of_attempted),
            "correct": correct,
            "attempted": attempted,
            "correct given attempted": correct_of_attempted,
            **mean_by_label(scores, "category", "correct", "correct/"),
        }


class ChineseSimpleQA(SimpleQA):
    """3,000 questions in Chinese; the headline is the share of correct answers."""

    name = "chinese-simpleqa"
    title = "ChineseSimpleQA"
    headline = "correct"
    licence = "MIT"
    data = DataFile.on_hub("chinese_simpleqa.jsonl", "OpenStellarTeam/Chinese-SimpleQA")
    template = "chinese_simpleqa"


# ------------------------------------------------------------------------------------------------- FRAMES and AA-LCR


class Frames(JudgedQuestion):
    """824 questions that need several documents."""

    name = "frames"
    title = "FRAMES"
    capability = "long context"
    headline = "accuracy"
    judge = "TRUE/FALSE"
    licence = "Apache-2.0"
    data = DataFile.on_hub("frames.jsonl", "google/frames-benchmark")
    settings: ClassVar = {
        "context": Setting("oracle", ("oracle", "closed"), "with the articles, or from memory")
    }
    template = "frames"
    question_columns = ("question", "Prompt", "prompt")
    target_columns = ("answer", "Answer")
    verdict_columns = ("decision",)
    right_verdict = "TRUE"

    def prompt(self, item: Row) -> Messages:
        """Return the question, after the articles in the oracle setting."""
        text = str(first_value(item, self.question_columns))
        if self.options["context"] == "oracle" and item.get("context"):
            text = f"{item['context']}\n\n{text}"
        return [{"role": "user", "content": text}]

    def read_verdict(self, reply: str) -> str | None:
        """Return the last TRUE or FALSE."""
        return find_last_word(reply, ("TRUE", "FALSE"))

    def read_published_verdict(self, text: str) -> str | None:
        """Return TRUE or FALSE if the cell has nothing else; None otherwise."""
        word = text.strip().upper()
        return word if word in ("TRUE", "FALSE") else None


class AALCR(JudgedQuestion):
    """100 questions over sets of documents, about 100,000 tokens each; accuracy is the mean over all runs."""

    name = "aa-lcr"
    title = "AA-LCR"
    capability = "long context"
    headline = "accuracy"
    judge = "CORRECT/INCORRECT"
    licence = "none stated"
    data = DataFile.on_hub("aa_lcr.jsonl", "ArtificialAnalysis/AA-LCR")
    settings: ClassVar = {
        "capability": Setting(
            "long context",
            ("long context", "reasoning"),
            "the mean that it counts in; the paper's text and its table differ",
        )
    }
    outputs = ("llm_answer", "output", "response", "completion")
    columns: ClassVar = {"category": "document_category"}
    template = "aa_lcr"
    target_columns = ("gold_answer", "answer")
    verdict_columns = ("judge_result",)
    right_verdict = "CORRECT"

    def is_summary(self, row: Row) -> bool:
        """Return whether it is the row with totals that published files have."""
        return bool(row.get("_meta_stats"))

    def prompt(self, item: Row) -> Messages:
        """Return the documents, then the question."""
        return [
            {"role": "user", "content": f"{item.get('context', '')}\n\n{item['question']}".strip()}
        ]

    def read_verdict(self, reply: str) -> str | None:
        """Return CORRECT or INCORRECT, as a whole word; None if the reply contains both."""
        return find_only_word(reply.upper(), ("CORRECT", "INCORRECT"))
