"""Open-ended prompts, on which a judge compares or grades outputs: Arena-Hard v2, EQ-Bench 3.

Both can turn comparisons into ratings of models, by the Bradley–Terry model at the end of this file.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from rubrank._plain import word_list
from rubrank.errors import SolverError
from rubrank.evaluation.benchmark import (
    Benchmark,
    DataFile,
    ItemScore,
    Messages,
    Metrics,
    MissingScore,
    Row,
    Setting,
    divide_sums,
    mean,
)
from rubrank.evaluation.judge import fill_prompt, parse_json_object

# -------------------------------------------------------------------------------------------------------- Arena-Hard

_VERDICT = re.compile(r"\[\[([AB<>=]+)\]\]")  # "[[A>>B]]"
GAMES: dict[str, tuple[float, int]] = {
    "A>>B": (1.0, 3),
    "A>B": (1.0, 1),
    "A=B": (0.5, 1),
    "A<B": (0.0, 1),
    "A<<B": (0.0, 3),
    "B>>A": (0.0, 3),
    "B>A": (0.0, 1),
    "B=A": (0.5, 1),
    "B<A": (1.0, 1),
    "B<<A": (1.0, 3),
}
"""Verdict → (outcome for A, number of games that it counts as)."""
STYLES = ("token_len", "header_count", "list_count", "bold_count")
"""Counts that describe the style of an answer, as the official files name them."""
_BOOTSTRAPS = 100
# Precision of the prior on the ratings with style control; small, because there are only two models.
_STYLE_PRIOR = 1e-3


def read_verdict(reply: str) -> str | None:
    """Return the last verdict of a reply, such as "A>>B"; None if it has none."""
    verdicts = [verdict for verdict in _VERDICT.findall(reply) if verdict in GAMES]
    return verdicts[-1] if verdicts else None


class ArenaHard(Benchmark):
    """750 prompts of users, with two games per prompt against a baseline, judged [[A>>B]] to [[B>>A]].

    game 1: A is the baseline;  game 2: A is the model       ">>" counts as three games, ">" as one, "=" as half a win

    500 hard prompts (baseline o3-mini) and 250 creative ones (baseline Gemini 2.0 Flash) are reported separately. The
    last verdict of a reply counts; an item with a missing game is left out and counted. `style="controlled"` fits the
    games with length, headings, bold print and lists as attributes, and reports the win rate at equal style.
    """

    name = "arena-hard-v2"
    title = "Arena-Hard v2"
    capability = "open-ended"
    headline = "win rate"
    points_factor = 1.0
    judge = "GPT-4.1, two games"
    licence = "Apache-2.0"
    data = DataFile.on_hub("question.jsonl", "lmarena-ai/arena-hard-auto")
    settings: ClassVar = {
        "style": Setting("raw", ("raw", "controlled"), "win rates as they are, or at equal style"),
        "seed": Setting(0, help="seed of the bootstrap"),
    }
    ids = ("uid", *Benchmark.ids)
    columns: ClassVar = {"category": "category"}

    def output(self, row: Row) -> str:
        """Return the model's answer, in the official schema or plain."""
        if row.get("messages"):
            content = row["messages"][-1]["content"]
            return str(content["answer"] if isinstance(content, Mapping) else content)
        return super().output(row)

    def published_score(self, item: Row, row: Row) -> ItemScore | None:
        """Return the score from the verdicts of published games; None if the row has no games."""
        games = row.get("games")
        if not games:
            return None
        verdicts = [str(game.get("score")) if game else "" for game in games]
        return self._score_games({**item, **row}, verdicts)

    def questions(self, item: Row, output: str) -> list[Messages]:
        """Return two games, with positions swapped; on hard prompts the judge first answers the prompt itself."""
        template = "arena_creative" if item.get("category") == "creative_writing" else "arena_hard"
        pairs = [(item["baseline"], output), (output, item["baseline"])]
        return [fill_prompt(template, prompt=item["prompt"], a=a, b=b) for a, b in pairs]

    def score(self, item: Row, output: str, replies: Sequence[str]) -> ItemScore:
        """Return the score from the verdicts of both games."""
        return self._score_games(item, [read_verdict(reply) or "" for reply in replies])

    def _score_games(self, item: Row, verdicts: Sequence[str]) -> ItemScore:
        """Score both games of a prompt; missing if one of them has no verdict."""
        if len(verdicts) != 2 or not set(verdicts) <= GAMES.keys():
            raise MissingScore("a game is missing")
        # In the first game the baseline is A, in the second the model is.
        baseline_outcome, first_games = GAMES[verdicts[0]]
        model_outcome, second_games = GAMES[verdicts[1]]
        won = (1.0 - baseline_outcome) * first_games + model_outcome * second_games
        values = {"won": won, "games": float(first_games + second_games), **_contrast_styles(item)}
        return self.make_score(item, values, reason=", ".join(verdicts))

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """Return the win rate with a 90% interval, by category and over the categories."""
        by_category: dict[str, list[ItemScore]] = {}
        for score in scores:
            by_category.setdefault(score.labels.get("category", "all"), []).append(score)
        rates = []
        metrics: Metrics = {}
        for category, members in sorted(by_category.items()):
            name = f"win rate/{category}"
            rate = self._compute_win_rate(members)
            rng = np.random.default_rng(int(self.options["seed"]))
            resampled_rates = []
            for _ in range(_BOOTSTRAPS):
                drawn = rng.integers(0, len(members), len(members))
                resampled_rates.append(self._compute_win_rate([members[i] for i in drawn]))
            low, high = np.quantile(resampled_rates, (0.05, 0.95)).tolist()
            metrics |= {name: rate, f"{name}/5%": low, f"{name}/95%": high}
            rates.append(rate)
        return {"win rate": mean(rates), **metrics}

    def _compute_win_rate(self, scores: Sequence[ItemScore]) -> float:
        """Return the win rate in percent, as it is or at equal style."""
        if self.options["style"] == "raw":
            return 100.0 * divide_sums(scores, "won", "games")
        contrasts = np.array(
            [[score.values.get(f"style/{name}", 0.0) for name in STYLES] for score in scores]
        )
        spread = contrasts.std(0)
        contrasts = contrasts / np.where(spread > 0.0, spread, 1.0)
        games = [
            ("model", "baseline", score.values["won"] / score.values["games"]) for score in scores
        ]
        weights = [score.values["games"] for score in scores]
        ratings, _ = fit_ratings(games, weights=weights, contrasts=contrasts, prior=_STYLE_PRIOR)
        chance = 1.0 / (1.0 + math.exp(ratings["baseline"] - ratings["model"]))
        return 100.0 * chance


def _contrast_styles(item: Row) -> dict[str, float]:
    """Contrast the style of the model's answer with the baseline's: (a − b)/(a + b) for each count."""
    style = item.get("metadata")
    baseline_style = item.get("baseline_metadata")
    if not style or not baseline_style:
        return {}
    contrasts = {}
    for name in STYLES:
        counts = []
        for value in (style.get(name, 0), baseline_style.get(name, 0)):
            # Headings and lists are counted by kind: {"h1": 2, "h2": 5}.
            counts.append(float(sum(value.values()) if isinstance(value, Mapping) else value))
        a, b = counts
        contrasts[f"style/{name}"] = (a - b) / (a + b) if a + b else 0.0
    return contrasts


# --------------------------------------------------------------------------------------------------------- EQ-Bench


COUNTED = word_list("""
    demonstrated_empathy pragmatic_ei depth_of_insight social_dexterity emotional_reasoning message_tailoring
    theory_of_mind subtext_identification intellectual_grounding correctness
""")
"""Criteria of the rubric on which more is better; the others describe a style."""
_RATING_PRIOR = 1.0  # precision of the prior on the ratings of models
_MOST_PLUSES = 40  # of a comparison: five on each of eight criteria
# "A0488+++": the winner of a criterion, and by how many pluses
_WINNER = re.compile(r"\s*(\w+?)\s*(\+{1,5})\s*")
# "A0488:test / A1234:other": which respondent is which model
_ORDER = re.compile(r"\s*(\w+)\s*:\s*(test|other)\s*/\s*(\w+)\s*:\s*(test|other)\s*")


def count_pluses(row: Row) -> tuple[int, int] | None:
    """Count the pluses of a published comparison: for the test model, and for the other. None if the judge failed.

    "depth_of_insight": "A0488+++"        the respondent A0488 wins that criterion by three pluses
    """
    reply = row.get("judge_response")
    order = _ORDER.fullmatch(str(row.get("order", "")))
    if row.get("error") or not reply or order is None:
        return None
    test = order[1] if order[2] == "test" else order[3]
    for_test = 0
    for_other = 0
    for vote in reply.values():
        match = _WINNER.fullmatch(str(vote))
        if match is not None and match[1] == test:
            for_test += len(match[2])
        elif match is not None:
            for_other += len(match[2])
    return for_test, for_other


class EQBench(Benchmark):
    """45 scenarios of several turns: emotional intelligence in role-play.

    Rubric: criteria from 0 to 20, of which those count on which more is better, × 5. Comparisons: eight criteria, each
    with a winner and one to five pluses, in both orders. Published ratings come from a TrueSkill that depends on the
    order of the games; here a Bradley–Terry model is fitted to the difference of the pluses, which does not.
    """

    name = "eqbench3"
    title = "EQ-Bench 3"
    capability = "open-ended"
    headline = "rubric score"
    points_factor = 1.0
    judge = "Claude 3.7 Sonnet"
    licence = "MIT"
    data = DataFile(
        "scenario_prompts.txt", "git clone EQ-bench/eqbench3; data/scenario_prompts.txt"
    )
    settings: ClassVar = {
        "form": Setting(
            "rubric", ("rubric", "pairwise"), "grades from 0 to 20, or games against other models"
        )
    }

    def item_id(self, row: Row) -> str:
        """Return the scenario; for a comparison, with the models and the order."""
        if "pair" in row:
            pair: Any = row["pair"]
            return f"{row['scenario_id']}/{pair['test_model']}/{pair['neighbor_model']}/{row.get('order')}"
        return str(row["scenario_id"]) if "scenario_id" in row else super().item_id(row)

    def published_score(self, item: Row, row: Row) -> ItemScore | None:
        """Return the score from a published comparison, or from grades in the row; None without either."""
        if "pair" in row:
            pluses = count_pluses(row)
            if pluses is None:
                raise MissingScore(str(row.get("error") or "no comparison")[:200])
            for_test, for_other = pluses
            # The win of the test model: 0.5 for equally many pluses, 1 if it has all that can be given.
            share = 0.5 + 0.5 * (for_test - for_other) / _MOST_PLUSES
            values = {
                "plus for test": float(for_test),
                "plus for other": float(for_other),
                "share": share,
            }
            pair: Any = row["pair"]
            labels = {"test": str(pair["test_model"]), "other": str(pair["neighbor_model"])}
            return ItemScore(self.item_id(row), values, labels=labels)
        if not row.get("rubric_scores"):
            return None
        return self._score_grades(row, row["rubric_scores"])

    def questions(self, item: Row, output: str) -> list[Messages]:
        """Return one question: a grade for every criterion."""
        criteria = "\n".join(item.get("criteria") or COUNTED)
        return [
            fill_prompt(
                "eqbench", scenario=item.get("scenario", ""), response=output, criteria=criteria
            )
        ]

    def score(self, item: Row, output: str, replies: Sequence[str]) -> ItemScore:
        """Return the mean of the grades that count, × 5."""
        return self._score_grades(item, parse_json_object(replies[0]))

    def _score_grades(self, row: Row, grades: Mapping[str, Any]) -> ItemScore:
        """Score an item by the mean of the grades that count; missing if they are not numbers from 0 to 20."""
        counted = [grades[name] for name in COUNTED if name in grades]
        try:
            if not counted or not all(0.0 <= float(grade) <= 20.0 for grade in counted):
                raise ValueError
        except (TypeError, ValueError):
            raise MissingScore("there are no grades from 0 to 20") from None
        return self.make_score(row, {"rubric": 5.0 * mean(map(float, counted))})

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """Return the mean rubric score, or the ratings of the models."""
        metrics: Metrics = {}
        rubric_scores = [score.values["rubric"] for score in scores if "rubric" in score.values]
        if rubric_scores:
            metrics["rubric score"] = mean(rubric_scores)
        comparisons = [score for score in scores if "share" in score.values]
        if comparisons:
            games = [
                (score.labels["test"], score.labels["other"], score.values["share"])
                for score in comparisons
            ]
            ratings, _ = fit_ratings(games, prior=_RATING_PRIOR)
            ordered = sorted(ratings.items(), key=lambda pair: -pair[1])
            metrics |= {f"rating/{name}": value for name, value in ordered}
            metrics["plus counts"] = sum(
                score.values["plus for test"] + score.values["plus for other"]
                for score in comparisons
            )
        return metrics


# ------------------------------------------------------------------------------------------------------------- ratings
#
# Bradley–Terry ratings of models from games, with or without attributes of the answers (style control):
#
#     maximise  Σ w [ o log σ(e) + (1 − o) log σ(−e) ] − (α/2)|u|² − (β/2)|γ|²,    e = u_i − u_j + γᵀz
#
# A game is (i, j, outcome for i), and z are the attributes of i's answer against j's. Fusion fits the same model to the
# scores of a criterion; here models take the place of rollouts, and each has one rating u over all prompts.

_ITERATIONS = 100
_TOLERANCE = 1e-10
_SMALLEST_STEP = 1e-8  # share of a Newton step: below, rounding decides whether the objective rises


def fit_ratings(
    games: Sequence[tuple[str, str, float]],
    *,
    weights: Sequence[float] | None = None,
    contrasts: np.ndarray | None = None,
    prior: float,
    attribute_prior: float = 1e-3,
) -> tuple[dict[str, float], np.ndarray]:
    """Return the ratings of the models and the coefficients of the attributes that maximise the objective above.

    games: (i, j, outcome for i), where 1 is a win of i, 0.5 a tie; at least one.
    weights: how many games each of them counts as.
    contrasts: (games, D), attributes of i's answer against j's. prior, attribute_prior: α and β.
    Raises SolverError if the fit does not converge.
    """
    names = sorted({name for i, j, _ in games for name in (i, j)})
    n = len(names)
    D = 0 if contrasts is None else contrasts.shape[1]
    # One row per game, so that X @ (u, γ) is e: 1 for the first model, -1 for the second, then the attributes.
    X = np.zeros((len(games), n + D))
    for row, (i, j, _) in enumerate(games):
        X[row, names.index(i)] += 1.0
        X[row, names.index(j)] -= 1.0
    if contrasts is not None:
        X[:, n:] = contrasts
    outcome = np.array([result for _, _, result in games], dtype=float)
    weight = np.ones(len(games)) if weights is None else np.asarray(weights, dtype=float)
    ridge = np.concatenate([np.full(n, prior), np.full(D, attribute_prior)])

    def compute_objective(theta: np.ndarray) -> float:
        e = X @ theta
        return float(weight @ (outcome * e - np.logaddexp(0.0, e)) - 0.5 * ridge @ theta**2)

    # Newton's method: each step is halved until the objective does not fall.
    theta = np.zeros(n + D)
    value = compute_objective(theta)
    for _ in range(_ITERATIONS):
        chance = 1.0 / (1.0 + np.exp(-(X @ theta)))
        gradient = X.T @ (weight * (outcome - chance)) - ridge * theta
        hessian = (X * (weight * chance * (1.0 - chance))[:, None]).T @ X + np.diag(ridge)
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while size > _SMALLEST_STEP:
            candidate = theta + size * step
            candidate_value = compute_objective(candidate)
            if candidate_value >= value:
                break
            size /= 2.0
        theta = candidate
        value = candidate_value
        if np.abs(size * step).max() < _TOLERANCE:
            return dict(zip(names, theta[:n].tolist(), strict=True)), theta[n:]
    raise SolverError("ratings did not converge")
