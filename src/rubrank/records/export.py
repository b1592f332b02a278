"""Send records to an experiment tracker: MLflow, Weave or Weights & Biases.

    export_records("records.jsonl", "mlflow", place="http://localhost:5000", project="constraints", name="seed 0")
        Exported(to="mlflow", groups=160, rollouts=1280, steps=40, where="http://localhost:5000, run 3f…")

    MLflow     a run: metrics by step, the rule and the criteria as parameters, the file as an artifact
    wandb      a run: metrics by step, the rule and the criteria as configuration, the file as an artifact
    Weave      an evaluation: every rollout a prediction, every criterion and the reward a score

Each tracker needs its package, which is an extra of the same name. Weave and Weights & Biases were tested with
stand-ins that have their documented interfaces.
"""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import chain
from pathlib import Path
from typing import Any

from rubrank._plain import shorten
from rubrank.errors import InvalidInput, RubrankError, UnknownName, only_our_errors
from rubrank.records.files import read_records
from rubrank.records.record import GroupRecord

# MLflow refuses names with other characters than these.
_NOT_ALLOWED_BY_MLFLOW = re.compile(r"[^\w\-./: ]", re.ASCII)
_LONGEST_MLFLOW_NAME = 250  # characters
_LONGEST_MLFLOW_PARAMETER = 6000  # characters
_MLFLOW_BATCH = 1000  # metrics in one request
_WANDB_PLACES = ("online", "offline")


@dataclass(frozen=True)
class Exported:
    """The result of an export: how much was sent, and where it is."""

    to: str
    groups: int
    rollouts: int
    steps: int
    where: str


@dataclass(frozen=True)
class Target:
    """Where records go."""

    place: str | None
    """MLflow: the tracking URI. W&B: online, offline, or None for its own choice. Weave: always None."""
    project: str
    """MLflow's experiment, the project of Weave or W&B."""
    name: str
    """Name of the run."""
    source: Path | None
    """The file that the records come from, which is sent as an artifact; None if they come from memory."""


@only_our_errors
def export_records(
    records: Iterable[GroupRecord] | str | Path,
    to: str,
    *,
    place: str | None = None,
    project: str = "rubrank",
    name: str | None = None,
) -> Exported:
    """Send records, or a file of them, to a tracker.

    to: "mlflow", "weave" or "wandb". place: for MLflow the tracking URI, for W&B "online" or "offline"; None: as the
    tracker is configured. project: MLflow's experiment, or the project of Weave or W&B. name: of the run; None: that of
    the file. Raises InvalidInput if the package is not installed, there are no records, or the tracker refuses them.
    """
    if to not in _EXPORTERS:
        raise UnknownName.of("export", "to", to, _EXPORTERS)
    if find_spec(to) is None:
        raise InvalidInput(
            "export",
            "to",
            allowed="a package that is installed",
            got=to,
            remedy=f"pip install 'rubrank[{to}]'.",
        )
    source = None
    if isinstance(records, str | Path):
        source = Path(records)
        records = read_records(source)
    remaining = iter(records)
    # The first record is read before anything is created: an empty file leaves no empty run behind.
    first = next(remaining, None)
    if first is None:
        raise InvalidInput("export", "records", allowed="at least one group", got="none")
    if name is None:
        name = source.name.split(".")[0] if source else "rubrank"
    metrics = StepMetrics()  # the exporter adds every record that it reads
    target = Target(place, project, name, source)
    try:
        where = _EXPORTERS[to](chain([first], remaining), metrics, target)
    except RubrankError:
        raise
    except Exception as error:  # the packages raise what their transports raise
        raise InvalidInput(
            "export",
            "place",
            allowed=f"one that accepts the run, and `project` one that {to} opens",
            got=shorten(" ".join(str(error).split()) or type(error).__name__, 400),
            remedy=_REMEDIES[to],
        ) from None
    return Exported(to, metrics.groups, metrics.rollouts, len(metrics.compute_means()), where)


@dataclass
class StepMetrics:
    """Means by step, which all trackers show. Groups are added one by one."""

    values: dict[tuple[int, str], list[float]] = field(default_factory=dict)
    """(step, name of the metric) → the values to average."""
    groups: int = 0
    rollouts: int = 0
    # Names in the order in which they first occurred; the values are not used.
    rules: dict[str, None] = field(default_factory=dict)
    criteria: dict[str, None] = field(default_factory=dict)

    def add(self, record: GroupRecord) -> None:
        """Add a group. Metrics of evaluations during training get names that begin with `eval/`."""
        self.groups += 1
        self.rollouts += record.size
        self.rules.setdefault(record.rule)
        prefix = "eval/" if record.metadata.get("mode") == "eval" else ""
        step = record.step or 0
        self._add_value(step, f"{prefix}no_signal", float(record.no_signal))
        for i, reward in enumerate(record.reward):
            self._add_value(step, f"{prefix}reward", reward)
            if record.gate is not None:
                self._add_value(step, f"{prefix}stopped", float(not record.gate.passed[i]))
            for criterion, score in zip(record.criteria, record.scores[i], strict=True):
                self._add_value(step, f"{prefix}criterion/{criterion.name}", score)
                self._add_value(step, f"{prefix}missing/{criterion.name}", float(score is None))
        self.criteria.update(dict.fromkeys(criterion.name for criterion in record.criteria))

    def compute_means(self) -> dict[int, dict[str, float]]:
        """Return the means of each step, in the order of steps.

        {0: {"reward": 0.5, "criterion/NoComma": 0.62, "missing/NoComma": 0.0, "no_signal": 0.25}, …}

        Means are over rollouts, except that of `no_signal`, which is over groups. A score that no rollout of a step has
        is left out.
        """
        means_of_step: dict[int, dict[str, float]] = {}
        for (step, name), values in sorted(self.values.items()):
            means_of_step.setdefault(step, {})[name] = sum(values) / len(values)
        return means_of_step

    def _add_value(self, step: int, name: str, value: float | None) -> None:
        """Add a value to a metric, unless it is missing."""
        if value is not None and not math.isnan(value):
            self.values.setdefault((step, name), []).append(value)


# ------------------------------------------------------------------------------------------------------------- MLflow


def _export_to_mlflow(records: Iterator[GroupRecord], metrics: StepMetrics, target: Target) -> str:
    """Make a run, which is marked as failed if it cannot be finished. Returns where it is, in words for the user."""
    from mlflow.entities import Metric, Param
    from mlflow.tracking import MlflowClient

    for record in records:
        metrics.add(record)
    texts = {
        "rule": ", ".join(metrics.rules),
        "criteria": ", ".join(metrics.criteria),
        "groups": str(metrics.groups),
        "rollouts": str(metrics.rollouts),
    }
    parameters = [
        Param(name, shorten(text, _LONGEST_MLFLOW_PARAMETER)) for name, text in texts.items()
    ]
    means_of_step = metrics.compute_means()
    names = make_mlflow_names({name for means in means_of_step.values() for name in means})
    now = int(time.time() * 1000)  # MLflow counts milliseconds
    points = []
    for step, means in means_of_step.items():
        points += [Metric(names[name], mean, now, step) for name, mean in means.items()]
    client = MlflowClient(tracking_uri=target.place)
    experiment = client.get_experiment_by_name(target.project)
    if experiment is None:
        experiment_id = client.create_experiment(target.project)
    else:
        experiment_id = experiment.experiment_id
    run_id = client.create_run(experiment_id, run_name=target.name).info.run_id
    try:
        client.log_batch(run_id, params=parameters)
        for start in range(0, len(points), _MLFLOW_BATCH):
            client.log_batch(run_id, metrics=points[start : start + _MLFLOW_BATCH])
        if target.source is not None:
            client.log_artifact(run_id, str(target.source))
        client.set_terminated(run_id)
    except Exception:
        # A server that is gone cannot mark the run either; the first error is the one to report.
        with suppress(Exception):
            client.set_terminated(run_id, "FAILED")
        raise
    return f"{target.place or 'the default tracking store'}, run {run_id}"


def make_mlflow_names(names: set[str]) -> dict[str, str]:
    """Map names to names that MLflow accepts: letters, digits, _ - . / : and spaces; anything else becomes "_".

    Two names that become the same are told apart by a number, so that no curve is mixed with another.
    """
    mlflow_names: dict[str, str] = {}
    for name in sorted(names):
        allowed = _NOT_ALLOWED_BY_MLFLOW.sub("_", name)[:_LONGEST_MLFLOW_NAME]
        mlflow_name = allowed
        number = 2
        while mlflow_name in mlflow_names.values():
            # The last eight characters are left for "_" and the number.
            mlflow_name = f"{allowed[: _LONGEST_MLFLOW_NAME - 8]}_{number}"
            number += 1
        mlflow_names[name] = mlflow_name
    return mlflow_names


# --------------------------------------------------------------------------------------------------- Weights & Biases


def _export_to_wandb(records: Iterator[GroupRecord], metrics: StepMetrics, target: Target) -> str:
    """Make a run, which is marked as failed if it cannot be finished. Returns where it is, in words for the user.

    An offline run needs no account: it is written to the folder `wandb`, and `wandb sync` sends it later.
    """
    import wandb

    if target.place not in (None, *_WANDB_PLACES):
        raise InvalidInput(
            "export",
            "place",
            allowed=f"one of {', '.join(_WANDB_PLACES)} for wandb",
            got=repr(target.place),
        )
    for record in records:
        metrics.add(record)
    entity, _, project = target.project.rpartition("/")  # "TEAM/PROJECT", or "PROJECT" alone
    config = {
        "rule": ", ".join(metrics.rules),
        "criteria": list(metrics.criteria),
        "groups": metrics.groups,
        "rollouts": metrics.rollouts,
    }
    run = wandb.init(
        entity=entity or None,
        project=project,
        name=target.name,
        mode=target.place,
        config=config,
    )
    try:
        # Steps are sorted: W&B drops a step that is lower than the one before.
        for step, means in metrics.compute_means().items():
            run.log(means, step=step)
        if target.source is not None:
            artifact = wandb.Artifact(name="records", type="rubrank-records")
            artifact.add_file(str(target.source))
            run.log_artifact(artifact)
    except Exception:
        run.finish(exit_code=1)
        raise
    run.finish()
    where = f"project {target.project}, run {run.id}"
    if target.place == "offline":
        where += "; send it with `wandb sync`"
    return where


# -------------------------------------------------------------------------------------------------------------- Weave


def _export_to_weave(records: Iterator[GroupRecord], metrics: StepMetrics, target: Target) -> str:
    """Make an evaluation whose summary has the means by step. Returns where it is, in words for the user.

    A missing score is not sent, so that Weave's means are over what is there; `missing` in the inputs says why.
    """
    import weave

    if target.place is not None:
        raise InvalidInput(
            "export",
            "place",
            allowed="left out for weave",
            got=repr(target.place),
            remedy="Weave sends as the user who is logged in; name a project: `project=TEAM/PROJECT`.",
        )
    weave.init(target.project)
    evaluation = weave.EvaluationLogger(name=target.name, model="policy", dataset=target.name)
    for record in records:
        metrics.add(record)
        prompt = [dict(message) for message in record.prompt or ()]
        for i in range(record.size):
            inputs: dict[str, Any] = {
                "group": record.group,
                "rollout": i,
                "step": record.step,
                "rule": record.rule,
                "prompt": prompt,
            }
            scores = {"reward": float(record.reward[i])}
            missing = {}
            for k, criterion in enumerate(record.criteria):
                score = record.scores[i][k]
                if score is not None:
                    scores[f"criterion {criterion.name}"] = float(score)
                else:
                    reason = record.reasons[i][k] if record.reasons is not None else ""
                    missing[criterion.name] = reason or "missing"
            if missing:
                inputs["missing"] = missing
            response = None if record.responses is None else record.responses[i]
            prediction = evaluation.log_prediction(inputs=inputs, output=response)
            for name, score in scores.items():
                prediction.log_score(name, score)
            prediction.finish()
    evaluation.log_summary(
        {f"step {step}": means for step, means in metrics.compute_means().items()}
    )
    return f"project {target.project}"


_EXPORTERS: dict[str, Callable[[Iterator[GroupRecord], StepMetrics, Target], str]] = {
    "mlflow": _export_to_mlflow,
    "weave": _export_to_weave,
    "wandb": _export_to_wandb,
}
"""The package of a tracker → the function that sends records to it and returns where they are, for the user."""
_REMEDIES = {
    "mlflow": "",
    "weave": "Log in: wandb login.",
    "wandb": "Log in (`wandb login`), or write an offline run: `place=offline`.",
}
