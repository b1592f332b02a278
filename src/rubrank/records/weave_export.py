"""Records as a Weave evaluation: every rollout a prediction, every criterion and the reward a score.

export(records, Target(None, "team/constraints", "seed 0", None))

A score that is missing is not sent: Weave's means are then over what is there, and `missing` in the inputs says why it
is not. Weave needs an account (`wandb login`); its client was tested here by a stand-in of its documented interface.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import weave

from rubrank._plain import shortened
from rubrank.errors import InvalidInput
from rubrank.records.export import Exported, StepMetrics, Target
from rubrank.records.record import GroupRecord


def export(records: Iterator[GroupRecord], target: Target) -> Exported:
    """A new evaluation; its summary has the means by step."""
    if target.place is not None:
        remedy = "Weave sends as the user who is logged in; name a project: `project=TEAM/PROJECT`."
        raise InvalidInput("export", "place", "left out for weave", repr(target.place), remedy)
    try:
        weave.init(target.project)
    except Exception as error:  # Weave raises what its transport raises
        message = shortened(" ".join(str(error).split()) or type(error).__name__, 300)
        raise InvalidInput(
            "export", "project", "one that Weave opens", message, "Log in: wandb login."
        ) from None
    metrics = StepMetrics()
    evaluation = weave.EvaluationLogger(name=target.name, model="policy", dataset=target.name)
    for record in records:
        metrics.add(record)
        for i in range(record.size):
            prediction = evaluation.log_prediction(
                inputs=_describe_inputs(record, i), output=_find_response(record, i)
            )
            for name, value in _list_scores(record, i).items():
                prediction.log_score(name, value)
            prediction.finish()
    by_step = metrics.by_step()
    evaluation.log_summary({f"step {step}": means for step, means in by_step.items()})
    return Exported(
        "weave", metrics.groups, metrics.rollouts, len(by_step), f"project {target.project}"
    )


def _describe_inputs(record: GroupRecord, i: int) -> dict[str, Any]:
    reasons = record.reasons[i] if record.reasons is not None else ("",) * len(record.criteria)
    missing = {
        criterion.name: reason or "missing"
        for criterion, value, reason in zip(record.criteria, record.scores[i], reasons, strict=True)
        if value is None
    }
    prompt = [dict(message) for message in record.prompt or ()]
    inputs = {
        "group": record.group,
        "rollout": i,
        "step": record.step,
        "rule": record.rule,
        "prompt": prompt,
    }
    if missing:
        inputs["missing"] = missing
    return inputs


def _find_response(record: GroupRecord, i: int) -> str | None:
    return None if record.responses is None else record.responses[i]


def _list_scores(record: GroupRecord, i: int) -> dict[str, float]:
    scores = {"reward": float(record.reward[i])}
    for criterion, value in zip(record.criteria, record.scores[i], strict=True):
        if value is not None:
            scores[f"criterion {criterion.name}"] = float(value)
    return scores
