"""GRPO without a framework: the arms of an experiment trained side by side from one policy.

    finished = train_arms(family, policy, arms, seed)          arm → its measurements (`Measurements`)

The step is that of `rubrank train` with its defaults for this laboratory: six prompts, eight rollouts each, at
temperature 1; rewards of rubrank's own `RewardEngine`; advantages (r − mean)/(sd + 10⁻⁴) within the group; the loss of
GSPO, which for one update a batch is −A · mean log-probability of a response, averaged over responses; gradients cut
at norm 1; AdamW at a constant rate. Only grading is done here, by the family's own functions, and not by verifiers and
a judge service. docs/lab.md compares runs of both.

All arms of a seed see the same prompts in the same order and use the same random numbers for sampling.
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import torch

from rubrank.rollouts.rollout import Group, Rollout
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores
from rubrank.training.engine import Graded, RewardEngine
from rubrank_lab.family import Answer, Family
from rubrank_lab.network import Network, Samples

STEPS = 64
PROMPTS_PER_STEP = 6
GROUP = 8
TRAINED_TASKS, HELD_OUT_TASKS = 400, 48
HELD_OUT_ANSWERS = 16
BINS = 8
"""Equal parts of a run for which the course of training is kept."""


@dataclass(frozen=True)
class TaskRow:
    """A task with its rubric and its tokens."""

    task: Any
    criteria: tuple[CriterionData, ...]
    tokens: tuple[int, ...]


@dataclass
class Measurements:
    """Sums of what is measured on answers, by phase: "held_out", "last_quarter", and "bin_0" … "bin_7"."""

    sums: dict[tuple[str, str], float] = field(default_factory=lambda: defaultdict(float))
    counts: dict[tuple[str, str], int] = field(default_factory=lambda: defaultdict(int))

    def add(self, phase: str, values: Mapping[str, float]) -> None:
        """Count the values of one answer."""
        for name, value in values.items():
            if value == value:  # a missing score is NaN
                self.sums[phase, name] += value
                self.counts[phase, name] += 1

    def means(self) -> dict[tuple[str, str], float]:
        """(phase, metric) → mean over answers."""
        return {key: self.sums[key] / self.counts[key] for key in self.sums}


def make_rows(family: Family) -> tuple[list[TaskRow], list[TaskRow]]:
    """The tasks for training and the held-out ones: the same for all seeds and arms."""
    draws = random.Random(7)
    tasks: dict[str, Any] = {}
    while len(tasks) < TRAINED_TASKS + HELD_OUT_TASKS:
        task = family.draw_task(draws)
        tasks[task.prompt] = task
    rows = [
        TaskRow(task, family.list_criteria(task, number), tuple(family.encode(task.prompt)))
        for number, task in enumerate(tasks.values())
    ]
    return rows[:TRAINED_TASKS], rows[TRAINED_TASKS:]


def train_arms(
    family: Family,
    policy: Path,
    arms: Mapping[str, Mapping[str, Any]],
    seed: int,
    steps: int = STEPS,
) -> dict[str, Measurements]:
    """Train all arms with one seed. arms: name → options of `RewardEngine`."""
    torch.set_num_threads(1)
    network = Network.load(policy, len(arms))
    optimizer = torch.optim.AdamW(network.parameters(), lr=family.learning_rate, weight_decay=0.0)
    engines = [RewardEngine(**options) for options in arms.values()]
    measurements = [Measurements() for _ in arms]
    trained, held_out = make_rows(family)
    order = np.random.default_rng([seed, 0]).permutation(len(trained))
    generator = torch.Generator().manual_seed(seed)
    for step in range(steps):
        first = step * PROMPTS_PER_STEP
        rows = [trained[order[i % len(order)]] for i in range(first, first + PROMPTS_PER_STEP)]
        prompts = [row.tokens for row in rows]
        samples = network.sample(prompts, GROUP, family.most_tokens, generator)
        phases = [f"bin_{step * BINS // steps}"]
        if step >= steps * 3 // 4:
            phases.append("last_quarter")
        rewards = []
        for arm, engine in enumerate(engines):
            answers = read_answers(family, samples, arm, step)
            tables = [grade(family, row, answers[i * GROUP : (i + 1) * GROUP]) for i, row in enumerate(rows)]
            rewards.append(reward(engine, rows, answers, tables, step))
            for i, answer in enumerate(answers):
                values = family.assess(rows[i // GROUP].task, answer)
                for phase in phases:
                    measurements[arm].add(phase, values)
        advantages = standardise(torch.tensor(np.array(rewards), dtype=torch.float32))
        update(network, optimizer, prompts, samples, advantages)
    measure_held_out(family, network, held_out, steps, seed, measurements)
    return dict(zip(arms, measurements, strict=True))


def read_answers(family: Family, samples: Samples, arm: int, step: int) -> list[Answer]:
    """The responses of an arm as texts."""
    answers = []
    for tokens in samples.token_lists(arm):
        is_truncated = len(tokens) == family.most_tokens and tokens[-1] != 1
        answers.append(Answer(family.decode(tokens), is_truncated, step))
    return answers


def grade(family: Family, row: TaskRow, answers: Sequence[Answer]) -> np.ndarray:
    """(answers, criteria of the task) scores."""
    scored = [family.score(row.task, answer) for answer in answers]
    return np.array([[scores[criterion.name] for criterion in row.criteria] for scores in scored])


def reward(
    engine: RewardEngine,
    rows: Sequence[TaskRow],
    answers: Sequence[Answer],
    tables: Sequence[np.ndarray],
    step: int,
) -> list[float]:
    """Rewards of all answers of a step."""
    groups = []
    scored = []
    for i, (row, table) in enumerate(zip(rows, tables, strict=True)):
        rollouts = tuple(
            Rollout.model_construct(response=answer.text) for answer in answers[i * GROUP : (i + 1) * GROUP]
        )
        identity = f"{step}/{i}"
        groups.append(Group.model_construct(id=identity, rollouts=rollouts, rubric=None))
        no_reasons = (("",) * table.shape[1],) * table.shape[0]
        scored.append(GroupScores(identity, row.criteria, table, no_reasons))
    return engine.fuse(groups, Graded(tuple(scored)), step, write=False, logged=False).flat()


def standardise(rewards_AR: torch.Tensor) -> torch.Tensor:
    """Advantages within groups; a reward that is not known becomes the mean, as the trainers' adapters do."""
    groups = rewards_AR.unflatten(1, (-1, GROUP))
    means = groups.nanmean(-1, keepdim=True)
    groups = torch.where(groups.isnan(), means.nan_to_num(), groups)
    centred = groups - groups.mean(-1, keepdim=True)
    return (centred / (groups.std(-1, keepdim=True) + 1e-4)).flatten(1)


def update(
    network: Network,
    optimizer: torch.optim.Optimizer,
    prompts: Sequence[Sequence[int]],
    samples: Samples,
    advantages_AR: torch.Tensor,
) -> None:
    """One step of every copy; each has a loss, a gradient and a cut of its own."""
    log_probabilities = network.log_probabilities(prompts, samples)
    mean_AR = log_probabilities.sum(-1) / samples.lengths_AR
    loss = -(advantages_AR * mean_AR).mean(1).sum()
    optimizer.zero_grad()
    loss.backward()
    gradients = [parameter.grad for parameter in network.parameters() if parameter.grad is not None]
    norms_A = torch.stack([gradient.flatten(1).square().sum(1) for gradient in gradients]).sum(0).sqrt()
    factors_A = (1.0 / (norms_A + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        gradient.mul_(factors_A.view(-1, *[1] * (gradient.dim() - 1)))
    optimizer.step()


def measure_held_out(
    family: Family,
    network: Network,
    held_out: Sequence[TaskRow],
    step: int,
    seed: int,
    measurements: Sequence[Measurements],
) -> None:
    """True quality and scores of new answers to prompts that were never trained on."""
    generator = torch.Generator().manual_seed(1_000_000 + seed)
    for start in range(0, len(held_out), PROMPTS_PER_STEP):
        rows = held_out[start : start + PROMPTS_PER_STEP]
        samples = network.sample([row.tokens for row in rows], HELD_OUT_ANSWERS, family.most_tokens, generator)
        for arm, measured in enumerate(measurements):
            for i, answer in enumerate(read_answers(family, samples, arm, step)):
                row = rows[i // HELD_OUT_ANSWERS]
                scores = family.score(row.task, answer)
                values = {f"score_{criterion.name}": scores[criterion.name] for criterion in row.criteria}
                measured.add("held_out", {**family.assess(row.task, answer), **values})


def measure_start(family: Family, policy: Path, seed: int) -> Measurements:
    """The held-out measurements before training."""
    measured = Measurements()
    measure_held_out(family, Network.load(policy, 1), make_rows(family)[1], 0, seed, [measured])
    return measured
