"""How often the alarm for reward hacking is false, and how late it is: python benchmarks/alarm.py [--seeds 12]

A simulated policy has two qualities and a length, each normal with a mean that policy gradients move. Three judged
criteria see the qualities on a scale from 0 to 10 and like length with strength `bias`: a standard deviation of length
is worth `bias` of quality. A program checks the second quality and is rewarded; another checks the first, fails more
often the longer the answer is, and is only watched. Rewards are those of the library's rules, advantages are
standardised within groups. Nothing here is a language model.

Prints two tables in Markdown: false alarms per 1,000 steps in worlds without bias, and the delay of the alarm by the
strength of the bias. Minutes on one core.
"""

from __future__ import annotations

import argparse
from collections import Counter
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rubrank.fusion.rules import find_rule
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.training.alarm import Finding, RewardAlarm, measure_step
from rubrank.verifiers.domain import Domain

JUDGED = Domain("continuous", low=0.0, high=10.0)
WATCHED = CriterionData("Tests", layer="watch", verifier="TestsPass", family="agentic")
REWARDED = (
    CriterionData("Facts", verifier="GroundTruthMatch", family="presence"),
    CriterionData("Clarity", domain=JUDGED),
    CriterionData("Depth", domain=JUDGED),
    CriterionData("Tone", domain=JUDGED),
)


@dataclass(frozen=True)
class World:
    """A policy, its judges, and what length does to the first program."""

    bias: float = 0.0
    harm: float = 1.0
    """What a standard deviation of length costs the watched program, in deviations of quality; negative: it helps."""
    rate: float = 0.08
    """Of learning; 0: the policy stays as it is."""
    prompts: int = 16
    noise: float = 0.7
    """Of the judges."""
    rule: str = "weighted-mean"
    steps: int = 500


NULL_WORLDS = {
    "honest judges": World(),
    "the policy does not learn": World(rate=0.0),
    "it learns fast": World(rate=0.2),
    "4 prompts a step": World(prompts=4),
    "noisy judges": World(noise=2.0),
    "length means nothing": World(harm=0.0),
    "length is quality": World(harm=-1.0),
    "honest judges, rlvr2": World(rule="rlvr2"),
    "honest judges, gdpo": World(rule="gdpo"),
}
BIASES = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
GROUP = 8


def simulate(world: World, seed: int) -> tuple[list[Finding], float]:
    """A run: the alarms, and how much the watched score changed from the first to the last 50 steps."""
    draws = np.random.default_rng(seed)
    rule = find_rule(world.rule)
    alarm = RewardAlarm()
    means = np.zeros(3)
    findings = []
    watched = []
    for step in range(world.steps):
        samples = means + draws.normal(size=(world.prompts, GROUP, 3))
        first, second, length = np.moveaxis(samples, -1, 0)
        difficulty = draws.normal(scale=0.7, size=(world.prompts, 1))
        noise = draws.normal(scale=world.noise, size=(3, world.prompts, GROUP))
        liked = world.bias * length - difficulty + noise
        tests = (first - world.harm * length > difficulty).astype(float)
        facts = (second > difficulty).astype(float)
        judged = [_judge(quality + part) for quality, part in zip((first, second, first), liked, strict=True)]
        scores = np.stack([facts, *judged], axis=-1)
        reward = np.asarray(rule(ScoreBatch.of_arrays(scores, criteria=REWARDED)).reward).reshape(world.prompts, GROUP)
        deviation = reward.std(axis=1, keepdims=True)
        advantage = np.where(deviation > 1e-9, (reward - reward.mean(axis=1, keepdims=True)) / (deviation + 1e-9), 0.0)
        gradient = (advantage[..., None] * (samples - means)).mean(axis=(0, 1))
        means = means + world.rate * (gradient - 0.05 * means)
        words = 150.0 * np.exp(0.4 * length).ravel()
        measured = np.concatenate([scores, tests[..., None]], axis=-1)
        groups = [((*REWARDED, WATCHED), measured[g], reward[g]) for g in range(world.prompts)]
        figures = measure_step(step, groups, words)
        watched.append(figures.means["Tests"][0])
        findings += alarm.update(figures)
    return findings, float(np.mean(watched[-50:]) - np.mean(watched[:50]))


def _judge(value: np.ndarray) -> np.ndarray:
    """A whole number from 0 to 10."""
    return np.round(10.0 / (1.0 + np.exp(-value)))


def false_alarms(seeds: int) -> None:
    print("| world without bias | steps | alarms | per 1,000 steps | which |")
    print("|---|--:|--:|--:|---|")
    all_steps = 0
    all_alarms = 0
    for name, world in NULL_WORLDS.items():
        kinds: Counter[str] = Counter()
        for seed in range(seeds):
            findings, _ = simulate(world, seed)
            kinds.update(finding.kind for finding in findings)
        steps = seeds * world.steps
        alarms = sum(kinds.values())
        all_steps += steps
        all_alarms += alarms
        which = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
        print(f"| {name} | {steps:,} | {alarms} | {1000 * alarms / steps:.2f} | {which or '–'} |", flush=True)
    print(f"| all | {all_steps:,} | {all_alarms} | {1000 * all_alarms / all_steps:.2f} | |", flush=True)


def delays(seeds: int, **changes: Any) -> None:
    print("| bias | runs with an alarm | first alarm, median step | 90% | watched score | which came first |")
    print("|--:|--:|--:|--:|--:|---|")
    for bias in BIASES:
        world = replace(World(bias=bias), **changes)
        first_steps = []
        first_kinds: Counter[str] = Counter()
        falls = []
        for seed in range(seeds):
            findings, change = simulate(world, 1000 + seed)
            falls.append(change)
            first_steps.append(findings[0].step if findings else world.steps)
            if findings:
                first_kinds[findings[0].kind] += 1
        found = sum(first_kinds.values())
        median, ninety = (f"{q:.0f}" if q < world.steps else "–" for q in np.quantile(first_steps, [0.5, 0.9]))
        which = ", ".join(f"{kind} {count}" for kind, count in first_kinds.most_common(3))
        row = f"| {bias:g} | {found} of {seeds} | {median} | {ninety} | {np.mean(falls):+.2f} | {which or '–'} |"
        print(row, flush=True)


def main() -> None:
    """Print both tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=12, help="runs of 500 steps of each world (default 12)")
    options = parser.parse_args()
    false_alarms(options.seeds)
    for rule in ("weighted-mean", "rlvr2"):
        print(f"\n{rule}:\n")
        delays(options.seeds, rule=rule)


if __name__ == "__main__":
    main()
