"""MultiChallenge: does the last answer of a conversation do what an earlier turn asked for?

    target question "Are the places within a 5-minute walk?", pass criterion YES; the judge says NO: failed

The judge sees only the final answer and the target question. An item passes if any of its attempts does; the overall
score is the mean of the four axes' scores, not of the questions. A judge that fails is missing; the authors' script
makes a fifth axis of it that scores 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from rubrank.errors import InvalidInput
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
    to_text,
)
from rubrank.evaluation.judge import fill_prompt, find_last_word, parse_json_object


class MultiChallenge(Benchmark):
    """273 conversations on four axes."""

    name = "multichallenge"
    title = "MultiChallenge"
    capability = "instruction following"
    headline = "overall"
    per_cent = 1.0
    judge = "GPT-4o"
    licence = "none stated"
    data = DataFile("benchmark_questions.jsonl", "git clone ekwinox117/multi-challenge; data/benchmark_questions.jsonl")
    settings: ClassVar = {"attempts": Setting(1, help="answers a question; one must pass")}

    def item_id(self, row: Row) -> str:
        """The question, under either spelling."""
        return str(row["QUESTION_ID"]) if "QUESTION_ID" in row else super().item_id(row)

    def is_summary(self, row: Row) -> bool:
        """Published files carry their totals in a row."""
        return "summary" in row or "published_scores" in row

    def output(self, row: Row) -> str:
        """The first attempt of a file that keeps several."""
        return to_text(row["responses"][0]) if row.get("responses") else super().output(row)

    def published_score(self, item: Row, row: Row) -> ItemScore | None:
        """Published verdicts: one row an attempt, or a list of attempts."""
        attempts = row.get("evaluations") or ([row] if "verdict" in row or "judge_verdict" in row else [])
        if not attempts:
            return None
        pass_criterion = find_last_word(
            str(first_value(item, ("pass_criteria", "PASS_CRITERIA"))).upper(), ("YES", "NO")
        )
        if pass_criterion is None:
            raise InvalidInput("row", "pass_criteria", "YES or NO", repr(item.get("PASS_CRITERIA")), "")
        verdicts = [str(a.get("verdict") or a.get("judge_verdict", "")).strip().upper() for a in attempts]
        readable_verdicts = [verdict for verdict in verdicts if verdict in ("YES", "NO")]
        if not readable_verdicts:
            return self.missing_score(row, f"no verdict: {verdicts[0][:80]!r}")
        return self._make_score({**item, **row}, any(verdict == pass_criterion for verdict in readable_verdicts), "")

    def prompt(self, item: Row) -> Messages:
        """The conversation so far."""
        messages: Messages = item["CONVERSATION"]
        return messages

    def questions(self, item: Row, output: str) -> list[Messages]:
        """The target question about the final answer."""
        return [fill_prompt("multichallenge", response=output, question=item["TARGET_QUESTION"])]

    def score(self, item: Row, output: str, answers: Sequence[Answer]) -> ItemScore:
        """Passed if the verdict is the item's pass criterion, which may be NO."""
        answer = answers[0]
        reply = parse_json_object(answer.text)
        verdict = str((reply or {}).get("verdict", "")).strip().upper()
        if verdict not in ("YES", "NO"):
            return self.missing_score(item, answer.reason or "the judge's reply holds no verdict")
        passed = verdict == str(item["PASS_CRITERIA"]).upper()
        return self._make_score(item, passed, str((reply or {}).get("reasoning", "")))

    def _make_score(self, row: Row, passed: bool, reason: str) -> ItemScore:
        axis = str(first_value(row, ("AXIS", "axis")))
        return ItemScore(self.item_id(row), {"passed": float(passed)}, reason, labels={"axis": axis})

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """The mean of the axes, in percent, and each axis."""
        passed: dict[str, dict[str, float]] = {}
        for score in scores:
            items = passed.setdefault(score.labels["axis"], {})
            items[score.id] = max(items.get(score.id, 0.0), score.values["passed"])
        axes = {axis: 100.0 * mean(passed[axis].values()) for axis in sorted(passed)}
        return {"overall": mean(axes.values()), **axes}
