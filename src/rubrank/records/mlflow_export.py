"""Records as an MLflow run: metrics by step, the rule and criteria as parameters, the file as an artifact.

export(records, Target("http://localhost:5000", "constraints", "seed 0", Path("records.jsonl")))

MLflow's names hold letters, digits and _ - . / : and spaces; anything else of a criterion's name becomes "_". Two names
that become the same are told apart by a number, so that no curve is mixed with another.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from typing import Any

from mlflow.entities import Metric, Param
from mlflow.exceptions import MlflowException
from mlflow.tracking import MlflowClient

from rubrank._plain import shortened
from rubrank.errors import InvalidInput
from rubrank.records.export import Exported, StepMetrics, Target
from rubrank.records.record import GroupRecord

_NOT_ALLOWED = re.compile(r"[^\w\-./: ]", re.ASCII)
_LONGEST_NAME = 250
_LONGEST_PARAM = 6000
_AT_ONCE = 1000


def export(records: Iterator[GroupRecord], target: Target) -> Exported:
    """A new run; one that cannot be finished is marked as failed."""
    collected = StepMetrics()
    for record in records:
        collected.add(record)
    try:
        client = MlflowClient(tracking_uri=target.place)
        run = client.create_run(_find_experiment(client, target.project), run_name=target.name)
    except (MlflowException, OSError) as error:
        raise _explain(error) from None
    id = run.info.run_id
    try:
        _log(client, id, collected, target)
    except (MlflowException, OSError) as error:
        client.set_terminated(id, "FAILED")
        raise _explain(error) from None
    client.set_terminated(id)
    place = target.place or "the default tracking store"
    return Exported(
        "mlflow",
        collected.groups,
        collected.rollouts,
        len(collected.by_step()),
        f"{place}, run {id}",
    )


def _find_experiment(client: Any, name: str) -> str:
    experiment = client.get_experiment_by_name(name)
    return str(client.create_experiment(name) if experiment is None else experiment.experiment_id)


def _log(client: Any, id: str, collected: StepMetrics, target: Target) -> None:
    params = {
        "rule": ", ".join(collected.rules),
        "criteria": ", ".join(collected.criteria),
        "groups": str(collected.groups),
        "rollouts": str(collected.rollouts),
    }
    now = int(time.time() * 1000)
    by_step = collected.by_step()
    names = _make_metric_names({name for means in by_step.values() for name in means})
    metrics = []
    for step, means in by_step.items():
        metrics += [Metric(names[name], value, now, step) for name, value in means.items()]
    client.log_batch(
        id, params=[Param(name, shortened(value, _LONGEST_PARAM)) for name, value in params.items()]
    )
    for start in range(0, len(metrics), _AT_ONCE):
        client.log_batch(id, metrics=metrics[start : start + _AT_ONCE])
    if target.source is not None:
        client.log_artifact(id, str(target.source))


def _make_metric_names(names: set[str]) -> dict[str, str]:
    """Name → a name that MLflow accepts; all different."""
    metric_names: dict[str, str] = {}
    for name in sorted(names):
        allowed = _NOT_ALLOWED.sub("_", name)[:_LONGEST_NAME]
        metric_name = allowed
        number = 2
        while metric_name in metric_names.values():
            metric_name = f"{allowed[: _LONGEST_NAME - 8]}_{number}"
            number += 1
        metric_names[name] = metric_name
    return metric_names


def _explain(error: Exception) -> InvalidInput:
    message = shortened(" ".join(str(error).split()), 400)
    return InvalidInput("export", "place", "a tracking store that accepts the run", message, "")
