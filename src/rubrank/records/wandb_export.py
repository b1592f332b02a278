"""Records as a run of Weights & Biases: metrics by step, rule and criteria as configuration, the file as an artifact.

export(records, Target("offline", "constraints", "seed 0", Path("records.jsonl")))

The place is "online", "offline" or None, which leaves the choice to the package (WANDB_MODE). An offline run needs no
account: it is written to the folder `wandb`, and `wandb sync` sends it later. The package was not run here; it was
tested by a stand-in of its documented interface.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import wandb

from rubrank._plain import shortened
from rubrank.errors import InvalidInput
from rubrank.records.export import Exported, StepMetrics, Target
from rubrank.records.record import GroupRecord

_MODES = ("online", "offline")


def export(records: Iterator[GroupRecord], target: Target) -> Exported:
    """A new run; one that cannot be finished is marked as failed."""
    if target.place not in (None, *_MODES):
        raise InvalidInput(
            "export", "place", f"one of {', '.join(_MODES)} for wandb", repr(target.place), ""
        )
    metrics = StepMetrics()
    for record in records:
        metrics.add(record)
    entity, _, project = target.project.rpartition("/")
    config = {
        "rule": ", ".join(metrics.rules),
        "criteria": list(metrics.criteria),
        "groups": metrics.groups,
        "rollouts": metrics.rollouts,
    }
    try:
        run = wandb.init(
            entity=entity or None,
            project=project,
            name=target.name,
            mode=target.place,
            config=config,
        )
    except Exception as error:  # the package raises what its transport raises
        raise _explain(error) from None
    try:
        _log(run, metrics, target)
    except Exception as error:
        run.finish(exit_code=1)
        raise _explain(error) from None
    run.finish()
    by_step = metrics.by_step()
    where = f"project {target.project}, run {run.id}"
    if target.place == "offline":
        where += "; send it with `wandb sync`"
    return Exported("wandb", metrics.groups, metrics.rollouts, len(by_step), where)


def _log(run: Any, metrics: StepMetrics, target: Target) -> None:
    for step, means in sorted(
        metrics.by_step().items()
    ):  # W&B drops a step that is lower than the one before
        run.log(means, step=step)
    if target.source is not None:
        artifact = wandb.Artifact(name="records", type="rubrank-records")
        artifact.add_file(str(target.source))
        run.log_artifact(artifact)


def _explain(error: Exception) -> InvalidInput:
    message = shortened(" ".join(str(error).split()) or type(error).__name__, 300)
    remedy = "Log in (`wandb login`), or write an offline run: `place=offline`."
    return InvalidInput("export", "project", "one that Weights & Biases opens", message, remedy)
