"""Which pairs should a judge compare? Adaptive designs against fixed ones at equal calls, on real scores.

    python benchmarks/adaptive_pairs.py          a minute on one core; the tables of docs/judging_cost.md

Three sets of real scores or comparisons, from ../shared/data:

    HANNA           96 prompts × 11 stories; the mean of five language models over six criteria
    longform        60 groups of 16 chapters by different models; the benchmark's weighted mean
    EQ-Bench 3      60 groups of 12 of its 27 models; utilities fitted to its 6,362 comparisons

A simulated judge compares two of a group, once in each order, and is right as often as a Bradley–Terry model of those
scores says (HANNA and longform: a standard deviation within the group is worth two logits). The same answers serve all
designs. Figures are means over groups of Kendall's tau-b between the utilities of a design and those of the round robin
of the same judge, and between the design and the scores themselves ("truth"). Fixed designs get as many pairs as the
adaptive one took in that group.

The last table: is Plackett–Luce a better utility model for judges that rank lists? Rankings of the same groups by a
noisy judge, one to four passes, fitted by Bradley–Terry to the mean outcomes of pairs, as the library does, and by
Plackett–Luce with the same prior.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import math
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from real_data import DATA, longform_writing

from rubrank.fusion.models.model import find_model
from rubrank.judges.design import choose_next_round, choose_pairs, choose_rounds, make_seeded_random, shuffle

SEED = 20261120
DESIGNS: tuple[Any, ...] = ("swiss", "bracket", "pivot")
SLOPE = 2.0


def read_hanna() -> list[np.ndarray]:
    text = gzip.decompress((DATA / "hanna" / "hanna_tidy.csv.gz").read_bytes()).decode()
    judges = ("Beluga-13B", "OrcaPlatypus", "Mistral-7B", "Llama-13B", "ChatGPT")
    by_prompt: dict[str, list[float]] = {}
    for row in csv.DictReader(io.StringIO(text)):
        values = [float(row[f"{judge}_{name}"]) for judge in judges for name in ("RE", "CH", "EM", "SU", "EG", "CX")]
        by_prompt.setdefault(row["prompt_idx"], []).append(float(np.mean([value for value in values if value >= 1.0])))
    return [standardise(np.array(values)) for values in by_prompt.values()]


def read_longform() -> list[np.ndarray]:
    groups = []
    for group in longform_writing(size=16).table.groups[:60]:
        signs = np.array(
            [criterion.weight * (1 if criterion.direction == "higher" else -1) for criterion in group.criteria]
        )
        groups.append(standardise(group.scores @ signs))
    return groups


def read_eqbench(rng: np.random.Generator) -> list[np.ndarray]:
    path = DATA / "eval" / "eqbench3" / "pairwise_comparisons_2025-04-29.jsonl.gz"
    names: dict[str, int] = {}
    rows = []
    for line in gzip.decompress(path.read_bytes()).decode().splitlines():
        row = json.loads(line)
        outcome = row.get("outcome_for_test_model")
        if outcome is None:
            continue
        first = names.setdefault(row["pair"]["test_model"], len(names))
        second = names.setdefault(row["pair"]["neighbor_model"], len(names))
        rows.append((first, second, float(outcome)))
    wins = np.zeros((len(names), len(names)))
    for i, j, outcome in rows:
        wins[i, j] += outcome
        wins[j, i] += 1.0 - outcome
    utilities = find_model("bradley-terry").fit(wins[None], np.ones((1, len(names))))[0]
    return [utilities[rng.choice(len(names), 12, replace=False)] for _ in range(60)]


def standardise(values: np.ndarray) -> np.ndarray:
    return SLOPE * (values - values.mean()) / values.std()


def kendall(x: np.ndarray, y: np.ndarray) -> float:
    """tau-b."""
    i, j = np.triu_indices(len(x), 1)
    a = np.sign(np.round(x[i] - x[j], 9))
    b = np.sign(np.round(y[i] - y[j], 9))
    scale = math.sqrt(float((a != 0).sum()) * float((b != 0).sum()))
    return float((a * b).sum()) / scale if scale else 0.0


def fit(n: int, answers: dict[tuple[int, int], float]) -> np.ndarray:
    wins = np.zeros((n, n))
    for (i, j), outcome in answers.items():
        wins[i, j] = outcome
        wins[j, i] = 1.0 - outcome
    return find_model("bradley-terry").fit(wins[None], np.ones((1, n)))[0]


def compare_all(latent: np.ndarray, rng: np.random.Generator) -> dict[tuple[int, int], float]:
    """The judge's answer to every pair: the mean over both orders."""
    answers = {}
    for i, j in combinations(range(len(latent)), 2):
        p = 1.0 / (1.0 + math.exp(latent[j] - latent[i]))
        answers[i, j] = float((rng.random(2) < p).mean())
    return answers


def run_adaptive(design: Any, n: int, judge: dict[tuple[int, int], float], name: str, rounds: int) -> dict:
    rank = shuffle(n, make_seeded_random(SEED, name, design))
    answers: dict[tuple[int, int], float] = {}
    for _ in range(rounds):
        pairs = choose_next_round(design, n, answers, rank)
        answers |= {pair: judge[pair] for pair in pairs}
    return answers


def show_designs(name: str, groups: list[np.ndarray], rng: np.random.Generator) -> None:
    judges = [compare_all(latent, rng) for latent in groups]
    robins = [fit(len(latent), judge) for latent, judge in zip(groups, judges, strict=True)]
    n = len(groups[0])
    truth = np.mean([kendall(robin, latent) for robin, latent in zip(robins, groups, strict=True)])
    print(f"| {name} | round robin | {n * (n - 1):.0f} | 1 | | {truth:.3f} | |")
    settings: list[tuple[Any, int]] = [(design, choose_rounds(design, n)) for design in DESIGNS]
    settings += [("swiss", 2 * choose_rounds("swiss", n)), ("pivot", 3)]
    for design, rounds in settings:
        taus: dict[str, list[float]] = {"own": [], "fixed": [], "own truth": [], "fixed truth": []}
        calls = []
        for g, (latent, judge, robin) in enumerate(zip(groups, judges, robins, strict=True)):
            answers = run_adaptive(design, n, judge, f"{name}-{g}", rounds)
            calls.append(2 * len(answers))
            fixed = choose_pairs(n, len(answers), make_seeded_random(SEED, name, g))
            for key, chosen in (("own", answers), ("fixed", {pair: judge[pair] for pair in fixed})):
                utilities = fit(n, chosen)
                taus[key].append(kendall(utilities, robin))
                taus[f"{key} truth"].append(kendall(utilities, latent))
        figures = {key: f"{np.mean(values):.3f}" for key, values in taus.items()}
        label = f"{design}, {rounds} rounds"
        row = (figures["own"], figures["fixed"], figures["own truth"], figures["fixed truth"])
        print(f"| {name} | {label} | {np.mean(calls):.0f} | {' | '.join(row)} |", flush=True)


# ------------------------------------------------------------------------------------------------------ Plackett–Luce


def fit_plackett_luce(rankings: np.ndarray, steps: int = 200) -> np.ndarray:
    """Utilities of rankings (P, n), best first, with a standard normal prior on each; by gradient ascent."""
    n = rankings.shape[1]
    u = np.zeros(n)
    for _ in range(steps):
        gradient = -u
        for ranking in rankings:
            e = np.exp(u[ranking])
            left = np.cumsum(e[::-1])[::-1]
            gradient[ranking] += 1.0 - e * np.cumsum(1.0 / left)
        u = u + 0.5 / (1.0 + 0.5 * len(rankings)) * gradient
    return u


def show_listwise(name: str, groups: list[np.ndarray], rng: np.random.Generator) -> None:
    draws: dict[str, Callable[..., Any]] = {
        "Gumbel": rng.gumbel,
        "normal": lambda size: 1.3 * rng.normal(size=size),
    }
    for noise_name, draw in draws.items():
        row = []
        for passes in (1, 2, 4):
            taus: dict[str, list[float]] = {"bt": [], "pl": []}
            for latent in groups:
                n = len(latent)
                rankings = np.stack([np.argsort(-(latent + noise(draw, n))) for _ in range(passes)])
                answers = {}
                places = np.argsort(rankings, axis=1)
                for i, j in combinations(range(n), 2):
                    answers[i, j] = float((places[:, i] < places[:, j]).mean())
                taus["bt"].append(kendall(fit(n, answers), latent))
                taus["pl"].append(kendall(fit_plackett_luce(rankings), latent))
            row += [f"{np.mean(taus['bt']):.3f}", f"{np.mean(taus['pl']):.3f}"]
        print(f"| {name} | {noise_name} | {' | '.join(row)} |", flush=True)


def noise(draw: Callable[..., Any], n: int) -> np.ndarray:
    return draw(size=n)


def main() -> None:
    rng = np.random.default_rng(SEED)
    data = {"HANNA": read_hanna(), "longform": read_longform(), "EQ-Bench 3": read_eqbench(rng)}
    print("| data | design | calls | tau with round robin | fixed, equal calls | tau with truth | fixed, equal calls |")
    print("|---|---|---|---|---|---|---|")
    for name, groups in data.items():
        show_designs(name, groups, rng)
    print("\n| data | noise of the judge | 1 pass: BT | PL | 2 passes: BT | PL | 4 passes: BT | PL |")
    print("|---|---|---|---|---|---|---|---|")
    for name, groups in data.items():
        show_listwise(name, groups, rng)


if __name__ == "__main__":
    main()
