"""Arena-Hard v2: two games a prompt against a baseline, judged [[A>>B]] to [[B>>A]].

    game 1: A is the baseline;  game 2: A is the model       ">>" counts as three games, ">" as one, "=" as half a win

500 hard prompts (baseline o3-mini) and 250 creative ones (baseline Gemini 2.0 Flash) are reported apart. The last
label of a reply counts; an item with a game missing is left out and counted. `style="controlled"` fits the games with
length, headings, bold print and lists as attributes, and reports the win rate at equal style.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from rubrank.evaluation.benchmark import Answer, Benchmark, DataFile, ItemScore, Messages, Metrics, Row, Setting
from rubrank.evaluation.judge import fill_prompt
from rubrank.evaluation.ratings import ratings

_LABEL = re.compile(r"\[\[([AB<>=]+)\]\]")
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
"""Label → (outcome for A, games that it counts as)."""
STYLES = ("token_len", "header_count", "list_count", "bold_count")
_BOOTSTRAPS = 100


def read_label(reply: str) -> str | None:
    """The last label of a reply."""
    labels = [label for label in _LABEL.findall(reply) if label in GAMES]
    return labels[-1] if labels else None


class ArenaHard(Benchmark):
    """750 prompts of users."""

    name = "arena-hard-v2"
    title = "Arena-Hard v2"
    capability = "open-ended"
    headline = "win rate"
    per_cent = 1.0
    judge = "GPT-4.1, two games"
    licence = "Apache-2.0"
    data = DataFile.on_hub("question.jsonl", "lmarena-ai/arena-hard-auto")
    settings: ClassVar = {
        "style": Setting("raw", ("raw", "controlled"), "win rates as they are, or at equal style"),
        "seed": Setting(0, help="of the bootstrap"),
    }

    def item_id(self, row: Row) -> str:
        """The prompt's id."""
        return str(row.get("uid") or row.get("question_id") or super().item_id(row))

    def output(self, row: Row) -> str:
        """The model's answer, in the official schema or plain."""
        if row.get("messages"):
            content = row["messages"][-1]["content"]
            return str(content["answer"] if isinstance(content, Mapping) else content)
        return super().output(row)

    def published_score(self, item: Row, row: Row) -> ItemScore | None:
        """Published games."""
        games = row.get("games")
        if not games:
            return None
        labels = [game.get("score") if game else None for game in games]
        return self._score_games({**item, **row}, [label if label in GAMES else None for label in labels])

    def questions(self, item: Row, output: str) -> list[Messages]:
        """Two games with positions swapped; on hard prompts the judge answers first itself."""
        first = "arena_hard" if item.get("category") != "creative_writing" else "arena_creative"
        pairs = [(item["baseline"], output), (output, item["baseline"])]
        return [fill_prompt(first, prompt=item["prompt"], a=a, b=b) for a, b in pairs]

    def score(self, item: Row, output: str, answers: Sequence[Answer]) -> ItemScore:
        """The labels of both games."""
        return self._score_games(item, [None if a.text is None else read_label(a.text) for a in answers])

    def _score_games(self, item: Row, labels: Sequence[str | None]) -> ItemScore:
        kind = {"category": str(item.get("category") or "all")}
        if len(labels) != 2 or None in labels:
            return self.missing_score(item, "a game is missing", labels=kind)
        (base, n), (own, m) = GAMES[str(labels[0])], GAMES[str(labels[1])]
        won = (1.0 - base) * n + own * m
        values = {"won": won, "games": float(n + m)}
        values |= _contrasts(item)
        return ItemScore(self.item_id(item), values, f"{labels[0]}, {labels[1]}", labels=kind)

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """Win rate with a 90% interval, by category and over the categories."""
        kinds = sorted({score.labels["category"] for score in scores})
        metrics: Metrics = {}
        for kind in kinds:
            members = [score for score in scores if score.labels["category"] == kind]
            name = f"win rate/{kind}"
            metrics[name] = self._rate(members)
            low, high = self._interval(members)
            metrics |= {f"{name}/5%": low, f"{name}/95%": high}
        rates = [metrics[f"win rate/{kind}"] for kind in kinds]
        return {"win rate": sum(rates) / len(rates) if rates else float("nan"), **metrics}

    def _rate(self, scores: Sequence[ItemScore]) -> float:
        if self.options["style"] == "raw":
            return 100.0 * sum(s.values["won"] for s in scores) / sum(s.values["games"] for s in scores)
        contrasts = np.array([[s.values.get(f"style/{name}", 0.0) for name in STYLES] for s in scores])
        spread = contrasts.std(0)
        contrasts = contrasts / np.where(spread > 0.0, spread, 1.0)
        games = [("model", "baseline", s.values["won"] / s.values["games"]) for s in scores]
        fitted = ratings(games, weights=[s.values["games"] for s in scores], contrasts=contrasts, prior=1e-3)
        return 100.0 * fitted.win_rate("model", "baseline")

    def _interval(self, scores: Sequence[ItemScore]) -> tuple[float, float]:
        rng = np.random.default_rng(int(self.options["seed"]))
        draws = [self._rate([scores[i] for i in rng.integers(0, len(scores), len(scores))]) for _ in range(_BOOTSTRAPS)]
        low, high = np.quantile(draws, (0.05, 0.95))
        return float(low), float(high)


def _contrasts(item: Row) -> dict[str, float]:
    """Style of the model's answer against the baseline's: (a − b)/(a + b)."""
    style, baseline_style = item.get("metadata"), item.get("baseline_metadata")
    if not style or not baseline_style:
        return {}
    contrasts = {}
    for name in STYLES:
        a, b = _count(style.get(name, 0)), _count(baseline_style.get(name, 0))
        contrasts[f"style/{name}"] = (a - b) / (a + b) if a + b else 0.0
    return contrasts


def _count(value: Any) -> float:
    return float(sum(value.values()) if isinstance(value, Mapping) else value)
