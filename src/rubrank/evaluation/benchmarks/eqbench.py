"""EQ-Bench 3: emotional intelligence in role-play; a rubric score, and ratings from comparisons.

    "depth_of_insight": "A0488+++"        the second respondent wins that criterion by three pluses

Rubric: criteria from 0 to 20, of which those count where more is better, × 5. Comparisons: eight criteria, each with
a winner and one to five pluses, both orders. Published ratings come from a TrueSkill that depends on the order of the
games; here a Bradley–Terry model is fitted to the difference of the pluses, which does not.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from rubrank._plain import word_list
from rubrank.evaluation.benchmark import Answer, Benchmark, DataFile, ItemScore, Messages, Metrics, Row, Setting, mean
from rubrank.evaluation.judge import fill_prompt, parse_json_object
from rubrank.evaluation.ratings import ModelRatings, ratings

CRITERIA = word_list("""
    depth_of_insight authentic_eu causal_attribution theory_of_mind incisiveness reading_between_lines correctness
    overall_eq
""")
PRIOR = 1.0
COUNTED = word_list("""
    demonstrated_empathy pragmatic_ei depth_of_insight social_dexterity emotional_reasoning message_tailoring
    theory_of_mind subtext_identification intellectual_grounding correctness
""")
"""Criteria of which more is better; the others describe a style."""
_MOST_PLUSES = 5
_WINNER = re.compile(r"\s*(A?\w+?)\s*(\+{1,5})\s*")
_ORDER = re.compile(r"\s*(\w+)\s*:\s*(test|other)\s*/\s*(\w+)\s*:\s*(test|other)\s*")


@dataclass(frozen=True)
class Comparison:
    """One judged comparison of two models on a scenario."""

    test: str
    other: str
    scenario: str
    pluses: tuple[int, int]
    """For the test model, and for the other, over all criteria."""
    by_criterion: Mapping[str, int]
    """Pluses for the test model, less those for the other."""

    @property
    def share(self) -> float:
        """From 0 to 1: a half, moved by the difference of the pluses over the most that there can be."""
        won, lost = self.pluses
        return 0.5 + 0.5 * (won - lost) / (_MOST_PLUSES * len(CRITERIA))


def read_comparison(row: Row) -> Comparison | None:
    """A row of published comparisons; None where the judge failed."""
    reply = row.get("judge_response")
    order = _ORDER.fullmatch(str(row.get("order", "")))
    if row.get("error") or not reply or order is None:
        return None
    test = order[1] if order[2] == "test" else order[3]
    votes: dict[str, int] = {}
    won = lost = 0
    for name, vote in reply.items():
        match = _WINNER.fullmatch(str(vote))
        if match is None:
            continue
        size = len(match[2])
        votes[name] = size if match[1] == test else -size
        won, lost = (won + size, lost) if match[1] == test else (won, lost + size)
    pair: Any = row["pair"]
    return Comparison(str(pair["test_model"]), str(pair["neighbor_model"]), str(row["scenario_id"]), (won, lost), votes)


def rate(comparisons: Iterable[Comparison], criterion: str | None = None) -> ModelRatings:
    """Bradley–Terry ratings of the models, of all criteria together or of one."""
    games = []
    for comparison in comparisons:
        if criterion is None:
            games.append((comparison.test, comparison.other, comparison.share))
        elif criterion in comparison.by_criterion:
            games.append((comparison.test, comparison.other, float(comparison.by_criterion[criterion] > 0)))
    return ratings(games, prior=PRIOR)


class EQBench(Benchmark):
    """45 scenarios of several turns."""

    name = "eqbench3"
    title = "EQ-Bench 3"
    capability = "open-ended"
    headline = "rubric score"
    per_cent = 1.0
    judge = "Claude 3.7 Sonnet"
    licence = "MIT"
    data = DataFile("scenario_prompts.txt", "git clone EQ-bench/eqbench3; data/scenario_prompts.txt")
    settings: ClassVar = {
        "form": Setting("rubric", ("rubric", "pairwise"), "grades from 0 to 20, or games against other models")
    }

    def item_id(self, row: Row) -> str:
        """The scenario; of a comparison with the models and the order."""
        if "pair" in row:
            pair: Any = row["pair"]
            return f"{row['scenario_id']}/{pair['test_model']}/{pair['neighbor_model']}/{row.get('order')}"
        return str(row["scenario_id"]) if "scenario_id" in row else super().item_id(row)

    def published_score(self, item: Row, row: Row) -> ItemScore | None:
        """A published comparison, or grades in the row."""
        if "pair" in row:
            comparison = read_comparison(row)
            if comparison is None:
                return self.missing_score(row, str(row.get("error") or "no comparison")[:200])
            values = {"plus for test": float(comparison.pluses[0]), "plus for other": float(comparison.pluses[1])}
            labels = {"test": comparison.test, "other": comparison.other}
            return ItemScore(self.item_id(row), {**values, "share": comparison.share}, labels=labels)
        grades = row.get("rubric_scores")
        return None if not grades else self._score_grades(row, grades)

    def questions(self, item: Row, output: str) -> list[Messages]:
        """Grades for every criterion."""
        listed = "\n".join(item.get("criteria") or COUNTED)
        return [fill_prompt("eqbench", scenario=item.get("scenario", ""), response=output, criteria=listed)]

    def score(self, item: Row, output: str, answers: Sequence[Answer]) -> ItemScore:
        """The mean of the grades that count, × 5."""
        answer = answers[0]
        grades = parse_json_object(answer.text)
        if grades is None:
            return self.missing_score(item, answer.reason or "the judge's reply holds no grades")
        return self._score_grades(item, grades)

    def _score_grades(self, row: Row, grades: Mapping[str, Any]) -> ItemScore:
        try:
            counted = [float(grades[name]) for name in COUNTED if name in grades]
        except (TypeError, ValueError):
            return self.missing_score(row, "a grade is not a number")
        if not counted or not all(0.0 <= grade <= 20.0 for grade in counted):
            return self.missing_score(row, "grades from 0 to 20 are missing")
        return ItemScore(self.item_id(row), {"rubric": 5.0 * mean(counted)})

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """The mean rubric score, or the ratings of the models."""
        games = [(s.labels["test"], s.labels["other"], s.values["share"]) for s in scores if "test" in s.labels]
        metrics: Metrics = {}
        graded = [score.values["rubric"] for score in scores if "rubric" in score.values]
        if graded:
            metrics["rubric score"] = mean(graded)
        if games:
            fitted = ratings(games, prior=PRIOR)
            ordered = sorted(fitted.strength.items(), key=lambda pair: -pair[1])
            metrics |= {f"rating/{name}": value for name, value in ordered}
            metrics["plus counts"] = sum(s.values["plus for test"] + s.values["plus for other"] for s in scores)
        return metrics
