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
    counted = StepMetrics()
    for record in records:
        counted.add(record)
    try:
        client = MlflowClient(tracking_uri=target.place)
        run = client.create_run(_experiment(client, target.project), run_name=target.name)
    except (MlflowException, OSError) as error:
        raise _refused(error) from None
    id = run.info.run_id
    try:
        _log(client, id, counted, target)
    except (MlflowException, OSError) as error:
        client.set_terminated(id, "FAILED")
        raise _refused(error) from None
    client.set_terminated(id)
    place = target.place or "the default tracking store"
    return Exported("mlflow", counted.groups, counted.rollouts, len(counted.by_step()), f"{place}, run {id}")


def _experiment(client: Any, name: str) -> str:
    found = client.get_experiment_by_name(name)
    return str(found.experiment_id if found is not None else client.create_experiment(name))


def _log(client: Any, id: str, counted: StepMetrics, target: Target) -> None:
    params = {
        "rule": ", ".join(counted.rules),
        "criteria": ", ".join(counted.criteria),
        "groups": str(counted.groups),
        "rollouts": str(counted.rollouts),
    }
    now = int(time.time() * 1000)
    by_step = counted.by_step()
    names = _names({name for of in by_step.values() for name in of})
    metrics = [Metric(names[name], value, now, step) for step, of in by_step.items() for name, value in of.items()]
    client.log_batch(id, params=[Param(name, shortened(value, _LONGEST_PARAM)) for name, value in params.items()])
    for start in range(0, len(metrics), _AT_ONCE):
        client.log_batch(id, metrics=metrics[start : start + _AT_ONCE])
    if target.source is not None:
        client.log_artifact(id, str(target.source))


def _names(given: set[str]) -> dict[str, str]:
    """Name → what MLflow takes for it; all different."""
    found: dict[str, str] = {}
    taken: set[str] = set()
    for name in sorted(given):
        plain = _NOT_ALLOWED.sub("_", name)[:_LONGEST_NAME]
        number, made = 2, plain
        while made in taken:
            number, made = number + 1, f"{plain[: _LONGEST_NAME - 8]}_{number}"
        taken.add(made)
        found[name] = made
    return found


def _refused(error: Exception) -> InvalidInput:
    said = shortened(" ".join(str(error).split()), 400)
    return InvalidInput("export", "place", "a tracking store that takes the run", said, "")
