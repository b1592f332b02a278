"""A cell of the first family by `rubrank train` (TRL), to compare with the lean trainer.

    train_with_trl(policy, {"rule": "weighted-mean+", "attributes": []}, seed=0, folder=Path("out/trl-0"))

The same prompts, policy, criteria, judge, rule and hyperparameters. Criteria go through rubrank's grading: those of
programs by the verifier `LabCriterion`, those of the judge by the judge kind "lab", which makes and reads real calls
but answers them itself. Afterwards the trained policy is measured like all others.
"""

from __future__ import annotations

import contextlib
import json
import shutil
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

import rubrank
from rubrank import Judge, Judgment, Question, Reply
from rubrank.judges.parsing import read_absolute
from rubrank.judges.prompting import absolute_call
from rubrank.verifiers.domain import Domain
from rubrank_lab.facts import FACTS
from rubrank_lab.family import Answer
from rubrank_lab.network import Network
from rubrank_lab.trainer import (
    GROUP,
    PROMPTS_PER_STEP,
    STEPS,
    Measurements,
    TaskRow,
    make_rows,
    measure_held_out,
)


@cache
def _rows_by_prompt() -> dict[str, TaskRow]:
    trained, held_out = make_rows(FACTS)
    return {row.task.prompt: row for row in (*trained, *held_out)}


def _score(rollout: rubrank.Rollout, criterion: str) -> float:
    row = _rows_by_prompt()[rollout.question]
    answer = Answer(str(rollout.response), rollout.finish_reason == "length", step=0)
    return FACTS.score(row.task, answer)[criterion]


@rubrank.verifier("LabCriterion", domain=Domain("continuous", low=0.0, high=100.0))
def lab_criterion(rollout: rubrank.Rollout, *, criterion: str) -> float:
    """A criterion of the family that a program decides."""
    return _score(rollout, criterion)


@rubrank.judge_kind("lab")
class LabJudge:
    """The family's judge behind the judge layer: one call for each rollout and criterion, answered here."""

    async def judge(self, question: Question, judge: Judge, asker: Any) -> Judgment:
        """Scores of all cells that are asked for."""
        scores = {}
        for i, k in np.argwhere(question.wanted).tolist():
            rollout, criterion = question.group.rollouts[i], question.criteria[k]
            call = absolute_call(criterion, rollout, language="en")
            verdict = {
                "reasoning": "by a script",
                "finding": "",
                "verdict": _score(rollout, criterion.name),
            }
            reply = Reply(json.dumps(verdict), finish_reason="stop", model="script")
            scores[i, criterion.name] = read_absolute(reply, criterion, call=call)
        return Judgment(scores, asked=len(scores), lost=0)


def make_rubric(row: TaskRow) -> dict[str, Any]:
    """The task's criteria as a rubric of rubrank."""
    criteria = []
    for criterion in row.criteria:
        domain: Any = {"low": criterion.domain.low, "high": criterion.domain.high}
        if criterion.domain.kind in ("binary", "ternary"):
            domain = criterion.domain.kind
        elif criterion.domain.kind == "discrete":
            domain = list(criterion.domain.values)
        entry = {
            "name": criterion.name,
            "weight": criterion.weight,
            "domain": domain,
            "layer": criterion.layer,
        }
        if criterion.depends:
            entry["depends"] = [name for name, _ in criterion.depends]
        if criterion.verifier:
            entry |= {"verifier": criterion.verifier, "params": {"criterion": criterion.name}}
        else:
            entry["question"] = f"{criterion.name}?"
        criteria.append(entry)
    return {"criteria": criteria}


def train_with_trl(
    policy: Path, options: Mapping[str, Any], seed: int, folder: Path, steps: int = STEPS
) -> Measurements:
    """Run `rubrank train` in a folder, then measure the trained policy."""
    from rubrank.training.job.config import load_job
    from rubrank.training.job.plan import make_plan
    from rubrank.training.job.run import run

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    trained, held_out = make_rows(FACTS)
    with (folder / "prompts.jsonl").open("w", encoding="utf-8") as file:
        for row in trained:
            file.write(json.dumps({"prompt": row.task.prompt, "rubric": json.dumps(make_rubric(row))}) + "\n")
    endpoint = {"base_url": "http://script.invalid/v1", "model": "script"}
    judges = {
        "judges": [{"name": "script", "kind": "lab", "endpoints": [endpoint]}],
        "cache": str(folder / "c.sqlite"),
    }
    rubrank.grade(  # makes the cache that `cache_only` asks for, so that nobody calls the endpoint
        [{"prompt": trained[0].task.prompt, "responses": ["<think>so</think>\nso."]}],
        [{"name": "Accuracy", "question": "Accuracy?", "domain": {"low": 0, "high": 10}}],
        judges=rubrank.load_judges(judges),
    )
    config = {
        "model": {"path": str(policy.resolve()), "chat": False},
        "stages": [{"steps": steps, "sources": [{"path": str(folder / "prompts.jsonl")}]}],
        "judges": {**judges, "cache_only": True},
        "training": {
            "prompts_per_batch": PROMPTS_PER_STEP,
            "num_generations": GROUP,
            "per_device_train_batch_size": PROMPTS_PER_STEP * GROUP,
            "max_completion_length": FACTS.most_tokens,
            "learning_rate": FACTS.learning_rate,
            "save_steps": 10 * steps,
        },
        "trl": {"gradient_checkpointing": False},
        "report_to": [],
        "seed": seed,
        "output": "run",
        **options,
    }
    path = folder / "config.yaml"
    path.write_text(json.dumps(config, indent=1), encoding="utf-8")
    log = (folder / "log.txt").open("w", encoding="utf-8")
    with log, contextlib.redirect_stdout(log), contextlib.redirect_stderr(log):
        run(make_plan(load_job(path)))
    measured = Measurements()
    measure_held_out(FACTS, Network.load(folder / "run" / "model", 1), held_out, steps, seed, [measured])
    return measured
