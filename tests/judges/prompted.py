"""What the tests of prompts share: criteria, rollouts, and calls of all four forms."""

from __future__ import annotations

from rubrank.judges.judge import Call
from rubrank.judges.prompting import absolute_call, batched_call, listwise_call, pairwise_call
from rubrank.rollouts.rollout import Rollout
from rubrank.rubrics.catalogue import KNOWN
from rubrank.rubrics.rubric import Criterion

JUDGED = sorted({name for name, known in KNOWN.items() if known.how != "rule"} | {"SummaryRecall"})


def rollout(response: str = "West Lake.", **more: object) -> Rollout:
    return Rollout(**{"prompt": "Name a lake in Hangzhou.", "response": response, "reasoning": "", **more})


REQUIRED = {"ComplexBench": {"scoring_questions": []}, "LiveBench": {"instruction_id_list": []}}


def criterion(name: str = "CoreIntentMatch", **more: object) -> Criterion:
    return Criterion(name=name, **{"params": REQUIRED.get(name, {}), **more})


def user(call: Call) -> str:
    return call.messages[1]["content"]


def system(call: Call) -> str:
    return call.messages[0]["content"]


MANY = [criterion(name) for name in JUDGED]


def calls(first: Rollout, second: Rollout, **more: object) -> list[Call]:
    return [
        absolute_call(criterion(), first, **more),
        batched_call(MANY, first, **more),
        pairwise_call(criterion(), first, second, **more),
        listwise_call(criterion(), [first, second, first], **more),
    ]
