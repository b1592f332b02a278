"""Where a prompt comes from reaches the trainer's table: its source, and its stage where there are several."""

from __future__ import annotations

from types import SimpleNamespace as Plain

import numpy as np

from rubrank.training.job.data import SOURCE, STAGE, SourcePlan, StagePlan, make_dataset
from rubrank.training.job.run import add_stages


def plan(*stages: StagePlan) -> Plain:
    return Plain(stages=stages)


def test_the_stage_of_every_prompt():
    rows = [{"prompt": f"p{i}", "rubric": None, SOURCE: "chat.jsonl", "n": i} for i in range(3)]
    order = np.array([0, 2, 1, 0, 1])
    first = StagePlan("chat", 0, 0, (SourcePlan("chat.jsonl", 3, 1.0, 2),))
    second = StagePlan("agentic", 1, 2, (SourcePlan("chat.jsonl", 3, 1.0, 3),))
    found = add_stages(plan(first, second), make_dataset(rows, chat=False).select(order))
    assert [row[STAGE] for row in found] == ["chat", "chat", "agentic", "agentic", "agentic"]
    assert [row["n"] for row in found] == [0, 2, 1, 0, 1]
    assert {row[SOURCE] for row in found} == {"chat.jsonl"}


def test_one_stage_needs_no_name():
    rows = [{"prompt": "p", "rubric": None, SOURCE: "chat.jsonl"}]
    only = StagePlan("all", 0, 0, (SourcePlan("chat.jsonl", 1, 1.0, 1),))
    assert STAGE not in add_stages(plan(only), make_dataset(rows, chat=False)).column_names
