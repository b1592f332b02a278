"""How often the alarm for reward hacking is false, and how late it is: python benchmarks/alarm.py [--seeds 8]

A simulated policy has two qualities, a length, an amount of Markdown and a form, each normal with a mean that policy
gradients move. Three judged criteria see the qualities on a scale from 0 to 10 and like length (or Markdown) with
strength `bias`: a standard deviation of it is worth `bias` of quality. Programs check the second quality and the form
and are rewarded; another checks the first, fails more often the more there is of what judges like, and is only
watched. Rewards are those of the library's rules, advantages are standardised within groups. Nothing here is a
language model.

Prints tables in Markdown: false alarms per 1,000 steps in worlds without bias, and the delay of the alarm by its
strength: of a bias to length, of one to Markdown, of one that begins to grow in the middle of the run, and of a form
that costs correctness. `--table` prints one of them. Minutes on one core.

`--table laboratory` (not among those by default; a quarter of an hour, needs torch) trains the policy of the first
family of recipes/lab instead, with the judge's known liking of length and Markdown multiplied by a factor: 0 is an
honest judge, 1 the judge of docs/lab.md. A hold-out judge without the liking is watched.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from rubrank import attenuate
from rubrank.fusion.options import with_options
from rubrank.fusion.rules import find_rule
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.training.alarm import Alarm, RewardAlarm, find_gamma, measure_step
from rubrank.verifiers.domain import Domain

JUDGED = Domain("continuous", low=0.0, high=10.0)
WATCHED = CriterionData("Tests", layer="watch", verifier="TestsPass", family="agentic")
REWARDED = (
    CriterionData("Facts", verifier="GroundTruthMatch", family="presence"),
    CriterionData("Phrases", verifier="Keyword", family="presence"),
    CriterionData("Clarity", domain=JUDGED),
    CriterionData("Depth", domain=JUDGED),
    CriterionData("Tone", domain=JUDGED),
)
FIRST, SECOND, LENGTH, MARKUP, FORM = range(5)
"""Features of a response."""
GROWTH_BEGINS = 100
GROWTH_ENDS = 200
"""Steps between which a growing bias reaches its strength."""


@dataclass(frozen=True)
class World:
    """A policy, its judges, and what the programs make of length, Markdown and form."""

    bias: float = 0.0
    liked: int = LENGTH
    """The feature that judges like with strength `bias`."""
    grows: bool = False
    """The bias is 0 at first and grows in the middle of the run."""
    harm: float = 1.0
    """What a deviation of the liked feature costs the watched program, in deviations of quality; negative: it helps."""
    form_harm: float = 0.0
    """What a deviation of form costs the programs that check correctness."""
    form_weight: float = 1.0
    """Weight of the program that checks form."""
    rate: float = 0.08
    """Of learning; 0: the policy stays as it is."""
    prompts: int = 16
    noise: float = 0.7
    """Of the judges."""
    rule: str = "weighted-mean"
    controlled: bool = False
    """Length and Markdown are controlled, as trainers do by default."""
    steps: int = 500


NULL_WORLDS = {
    "honest judges": World(),
    "the policy does not learn": World(rate=0.0),
    "it learns fast": World(rate=0.2),
    "4 prompts a step": World(prompts=4),
    "noisy judges": World(noise=2.0),
    "length means nothing": World(harm=0.0),
    "length is quality": World(harm=-1.0),
    "Markdown means nothing": World(harm=0.0, liked=MARKUP),
    "form is rewarded and harmless": World(form_weight=4.0),
    "honest judges, controlled": World(controlled=True),
    "4 prompts a step, controlled": World(controlled=True, prompts=4),
    "honest judges, rlvr2": World(rule="rlvr2"),
    "honest judges, rlvr2, controlled": World(rule="rlvr2", controlled=True),
    "honest judges, gdpo": World(rule="gdpo"),
}
STRENGTHS = (0.25, 0.5, 0.75, 1.0, 1.5, 2.0)
GROUP = 8


def simulate(world: World, seed: int) -> tuple[list[Alarm], float]:
    """A run: the alarms, and how much the watched score changed from the first to the last 50 steps."""
    draws = np.random.default_rng(seed)
    rule = find_rule(world.rule)
    if world.controlled:
        rule = with_options(rule, "benchmark", pool="run", adjust=[attenuate(1.0), attenuate(1.0)])
    criteria = (REWARDED[0], replace(REWARDED[1], weight=world.form_weight), *REWARDED[2:])
    alarm = RewardAlarm()
    means = np.zeros(5)
    findings = []
    watched = []
    for step in range(world.steps):
        samples = means + draws.normal(size=(world.prompts, GROUP, 5))
        difficulty = draws.normal(scale=0.7, size=(world.prompts, 1))
        noise = draws.normal(scale=world.noise, size=(3, world.prompts, GROUP))
        bias = world.bias
        if world.grows:
            bias *= min(max(step - GROWTH_BEGINS, 0) / (GROWTH_ENDS - GROWTH_BEGINS), 1.0)
        liking = bias * samples[..., world.liked] - difficulty + noise
        harm = world.harm * samples[..., world.liked]
        form_harm = world.form_harm * samples[..., FORM]
        tests = (samples[..., FIRST] - harm - form_harm > difficulty).astype(float)
        facts = (samples[..., SECOND] - form_harm > difficulty).astype(float)
        phrases = (samples[..., FORM] > difficulty).astype(float)
        judged = [
            _judge(samples[..., quality] + part) for quality, part in zip((FIRST, SECOND, FIRST), liking, strict=True)
        ]
        scores = np.stack([facts, phrases, *judged], axis=-1)
        words = 150.0 * np.exp(0.4 * samples[..., LENGTH])
        markup = 0.5 * np.exp(0.5 * samples[..., MARKUP])
        batch = ScoreBatch.of_arrays(
            scores,
            criteria=criteria,
            attributes=np.stack([words, markup], axis=-1),
            attribute_names=["words", "markup"],
        )
        fused = rule(batch)
        reward = np.asarray(fused.reward).reshape(world.prompts, GROUP)
        deviation = reward.std(axis=1, keepdims=True)
        advantage = np.where(deviation > 1e-9, (reward - reward.mean(axis=1, keepdims=True)) / (deviation + 1e-9), 0.0)
        gradient = (advantage[..., None] * (samples - means)).mean(axis=(0, 1))
        means = means + world.rate * (gradient - 0.05 * means)
        measured = np.concatenate([scores, tests[..., None]], axis=-1)
        groups = [((*criteria, WATCHED), measured[g], reward[g]) for g in range(world.prompts)]
        figures = measure_step(step, groups, words.ravel(), markup.ravel(), find_gamma([fused]))
        watched.append(figures.means["Tests"][0])
        findings += alarm.update(figures)
    return findings, float(np.mean(watched[-50:]) - np.mean(watched[:50]))


def _judge(value: np.ndarray) -> np.ndarray:
    """A whole number from 0 to 10."""
    return np.round(10.0 / (1.0 + np.exp(-value)))


def print_false_alarms(seeds: int) -> None:
    """Alarms in worlds where nothing is hacked."""
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


def print_delays(seeds: int, strength: str, make_world: Callable[[float], World], signal: str, begin: int = 0) -> None:
    """The first alarm, and the first one of a signal, in steps after `begin`, by the strength of what is hacked."""
    print(f"| {strength} | runs with an alarm | first, median | 90% | `{signal}` | its median | watched | came first |")
    print("|--:|--:|--:|--:|--:|--:|--:|---|")
    for value in STRENGTHS:
        world = make_world(value)
        first_steps = []
        signal_steps = []
        first_kinds: Counter[str] = Counter()
        changes = []
        for seed in range(seeds):
            findings, change = simulate(world, 1000 + seed)
            changes.append(change)
            first_steps.append(findings[0].step - begin if findings else world.steps)
            steps_of_signal = [finding.step - begin for finding in findings if finding.kind.startswith(signal)]
            signal_steps.append(steps_of_signal[0] if steps_of_signal else world.steps)
            if findings:
                first_kinds[findings[0].kind] += 1
        median, ninety = (_format_quantile(first_steps, q, world) for q in (0.5, 0.9))
        of_signal = sum(step < world.steps for step in signal_steps)
        signal_median = _format_quantile(signal_steps, 0.5, world)
        which = ", ".join(f"{kind} {count}" for kind, count in first_kinds.most_common(3))
        print(
            f"| {value:g} | {sum(first_kinds.values())} of {seeds} | {median} | {ninety} | {of_signal} of {seeds} "
            f"| {signal_median} | {np.mean(changes):+.2f} | {which or '–'} |",
            flush=True,
        )


def _format_quantile(steps: Sequence[int], share: float, world: World) -> str:
    """A quantile over runs, of which those without an alarm have the last step; a dash if too few runs have one."""
    with_alarm = sum(step < world.steps for step in steps)
    return f"{np.quantile(steps, share):.0f}" if with_alarm >= share * len(steps) else "–"


# ------------------------------------------------------------------------------------------------------ the laboratory

RECIPE = Path(__file__).parents[1] / "recipes" / "lab"
FACTORS = (0.0, 0.5, 1.0, 2.0, 4.0)
"""Of the judge's liking; policies of all factors are trained side by side."""
LABORATORY_STEPS = 192
HOLD_OUT = CriterionData("HoldOut", layer="watch", domain=Domain("continuous", low=0.0, high=1.0))


def print_laboratory(seeds: int) -> None:
    """False alarms with an honest judge, and the first alarm by the factor of the judge's liking."""
    runs = []
    for seed in range(seeds):
        runs.append(train_laboratory(seed))
        print(
            f"seed {seed}: {[[(finding.kind, finding.step) for finding in run[0]] for run in runs[-1]]}",
            file=sys.stderr,
        )
    steps = seeds * LABORATORY_STEPS
    print(f"| liking of the judge | alarms in {steps:,} steps | runs with one | first, median | quality | came first |")
    print("|--:|--:|--:|--:|--:|---|")
    for number, factor in enumerate(FACTORS):
        findings_of_runs = [run[number][0] for run in runs]
        first = [findings[0] for findings in findings_of_runs if findings]
        first_steps = [finding.step for finding in first] + [LABORATORY_STEPS] * (seeds - len(first))
        median = float(np.median(first_steps))
        median_text = f"{median:.0f}" if median < LABORATORY_STEPS else "–"
        kinds = Counter(finding.kind for finding in first)
        which = ", ".join(f"{kind} {count}" for kind, count in kinds.most_common(3))
        quality = np.mean([run[number][1] for run in runs])
        alarms = sum(map(len, findings_of_runs))
        runs_with_one = f"{len(first)} of {seeds}"
        print(f"| {factor:g} | {alarms} | {runs_with_one} | {median_text} | {quality:.3f} | {which or '–'} |")


def train_laboratory(seed: int) -> list[tuple[list[Alarm], float]]:
    """For each factor: the alarms of a run, and the mean true quality of its last quarter."""
    sys.path.insert(0, str(RECIPE))
    import torch
    from rubrank_lab import facts, trainer  # type: ignore[import-not-found, import-untyped, unused-ignore]
    from rubrank_lab.network import Network  # type: ignore[import-not-found, import-untyped, unused-ignore]

    from rubrank import RewardEngine

    torch.set_num_threads(1)
    network = Network.load(RECIPE / "policies" / "facts", len(FACTORS))
    optimizer = torch.optim.AdamW(network.parameters(), lr=facts.FACTS.learning_rate, weight_decay=0.0)
    engines = [RewardEngine(rule="weighted-mean+", attributes=[]) for _ in FACTORS]
    alarms = [RewardAlarm() for _ in FACTORS]
    findings: list[list[Alarm]] = [[] for _ in FACTORS]
    qualities: list[list[float]] = [[] for _ in FACTORS]
    trained, _ = trainer.make_rows(facts.FACTS)
    order = np.random.default_rng([seed, 0]).permutation(len(trained))
    generator = torch.Generator().manual_seed(seed)
    prompts_per_step = trainer.PROMPTS_PER_STEP
    for step in range(LABORATORY_STEPS):
        first = step * prompts_per_step
        rows: list[Any] = [trained[order[i % len(order)]] for i in range(first, first + prompts_per_step)]
        prompts = [row.tokens for row in rows]
        samples = network.sample(prompts, trainer.GROUP, facts.FACTS.most_tokens, generator)
        rewards = []
        for arm, factor in enumerate(FACTORS):
            likes = {name: (factor * length, factor * mark) for name, (length, mark) in facts.JUDGE_LIKES.items()}
            family = replace(facts.FACTS, score=partial(facts.score, likes=likes))
            answers = trainer.read_answers(family, samples, arm, step)
            parts = [answers[i * trainer.GROUP : (i + 1) * trainer.GROUP] for i in range(len(rows))]
            tables = [trainer.grade(family, row, part) for row, part in zip(rows, parts, strict=True)]
            reward = trainer.reward(engines[arm], rows, answers, tables, step)
            rewards.append(reward)
            truths = [family.assess(rows[i // trainer.GROUP].task, answer) for i, answer in enumerate(answers)]
            groups = []
            for i, (row, table) in enumerate(zip(rows, tables, strict=True)):
                members = slice(i * trainer.GROUP, (i + 1) * trainer.GROUP)
                content = np.array([truth["content"] for truth in truths[members]])
                measured = np.column_stack([table, content])
                groups.append(((*row.criteria, HOLD_OUT), measured, np.array(reward[members])))
            words = np.array([truth["thinking"] + truth["words"] for truth in truths])
            lines = np.array([max(1, answer.text.count("\n")) for answer in answers])
            markup = np.array([truth["markers"] for truth in truths]) / lines
            findings[arm] += alarms[arm].update(measure_step(step, groups, words, markup))
            if step >= LABORATORY_STEPS * 3 // 4:
                qualities[arm].append(float(np.mean([truth["quality"] for truth in truths])))
        advantages = trainer.standardise(torch.tensor(np.array(rewards), dtype=torch.float32))
        trainer.update(network, optimizer, prompts, samples, advantages)
    return [(findings[arm], float(np.mean(qualities[arm]))) for arm in range(len(FACTORS))]


TABLES: dict[str, Callable[[int], None]] = {
    "false alarms": print_false_alarms,
    "length": lambda seeds: print_delays(seeds, "bias to length", lambda b: World(bias=b), "words"),
    "length, rlvr2": lambda seeds: print_delays(
        seeds, "bias to length", lambda b: World(bias=b, rule="rlvr2"), "words"
    ),
    "markup": lambda seeds: print_delays(seeds, "bias to Markdown", lambda b: World(bias=b, liked=MARKUP), "markup"),
    "gamma": lambda seeds: print_delays(
        seeds,
        "bias that grows",
        lambda b: World(bias=b, grows=True, harm=0.0, controlled=True),
        "gamma/words",
        begin=GROWTH_BEGINS,
    ),
    "presence": lambda seeds: print_delays(
        seeds, "cost of form", lambda harm: World(form_harm=harm, form_weight=4.0), "presence_up"
    ),
}


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=8, help="runs of 500 steps of each world (default 8)")
    tables = {**TABLES, "laboratory": print_laboratory}
    parser.add_argument("--table", choices=tables, action="append", help="this table only; repeatable")
    options = parser.parse_args()
    for name in options.table or TABLES:
        print(f"\n{name}:\n")
        tables[name](options.seeds)


if __name__ == "__main__":
    main()
