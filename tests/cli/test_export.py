"""Records to MLflow (the package itself, a folder of runs) and to Weave (a stand-in of its documented interface)."""

from __future__ import annotations

import importlib
import importlib.machinery
import json
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from typer.testing import CliRunner

from rubrank.cli.app import app
from rubrank.errors import InvalidInput, UnknownName
from rubrank.records.export import StepMetrics, export_records
from rubrank.records.files import write_records
from rubrank.records.record import GateRecord, GroupRecord
from rubrank.scores.criterion import CriterionData

CRITERIA = (CriterionData(name="No comma"), CriterionData(name="Länge %", layer="global_quality"))


def group(step: int, rewards: tuple[float, ...], scores: tuple[tuple[float | None, float], ...], **more: Any):
    gate = GateRecord(
        passed=(True, False),
        factor=(1.0, 0.0),
        low_quality=(None, None),
        stopped_by=((), ("Länge %",)),
        missing=(0, 0),
        lifted=(1.0, 0.0),
    )
    return GroupRecord(
        group="q",
        step=step,
        criteria=CRITERIA,
        scores=scores,
        weights=(1.0,),
        ranking=rewards,
        gate=gate,
        reward=rewards,
        no_signal=False,
        prompt=({"role": "user", "content": "Say."},),
        responses=("a", "b, c"),
        **more,
    )


@pytest.fixture
def records() -> list[GroupRecord]:
    return [
        group(0, (0.25, 0.0), ((1.0, 1.0), (None, 0.0)), reasons=(("", ""), ("no answer", ""))),
        group(1, (0.75, 0.0), ((1.0, 1.0), (0.0, 0.0))),
        group(1, (0.5, 0.0), ((0.0, 1.0), (0.0, 0.0)), metadata={"mode": "eval"}),
    ]


def test_means_by_step_by_hand(records: list[GroupRecord]) -> None:
    metrics = StepMetrics()
    for record in records:
        metrics.add(record)
    found = metrics.compute_means()
    assert found[0]["reward"] == 0.125
    assert found[0]["criterion/No comma"] == 1.0  # the missing one is no 0
    assert found[0]["missing/No comma"] == 0.5
    assert found[1]["criterion/No comma"] == 0.5
    assert found[1]["eval/criterion/No comma"] == 0.0
    assert found[1]["stopped"] == 0.5


@pytest.fixture
def store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    pytest.importorskip("mlflow", reason="pip install 'rubrank[mlflow]'")
    monkeypatch.setenv("MLFLOW_ALLOW_FILE_STORE", "true")
    monkeypatch.chdir(tmp_path)
    return (tmp_path / "runs").as_uri()


@pytest.mark.filterwarnings("ignore")  # of MLflow's own
def test_mlflow_has_the_curves_and_the_file(records: list[GroupRecord], tmp_path: Path, store: str) -> None:
    write_records(tmp_path / "records.jsonl", records)
    command = ["export", str(tmp_path / "records.jsonl"), "--to", "mlflow", "--place", store, "--project", "p"]
    done = CliRunner().invoke(app, [*command, "--name", "seed 0", "--json"])
    assert done.exit_code == 0, done.output
    said = json.loads(done.stdout)
    assert (said["groups"], said["rollouts"], said["steps"]) == (3, 6, 2)
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri=store)
    (run,) = client.search_runs([client.get_experiment_by_name("p").experiment_id])
    assert run.info.run_name == "seed 0"
    assert run.info.status == "FINISHED"
    assert run.data.params["rule"] == "rlvr2"
    history = client.get_metric_history(run.info.run_id, "criterion/No comma")
    assert [(one.step, one.value) for one in history] == [(0, 1.0), (1, 0.5)]
    assert run.data.metrics["criterion/L_nge _"] == 0.5
    assert [one.path for one in client.list_artifacts(run.info.run_id)] == ["records.jsonl"]
    again = CliRunner().invoke(app, command)
    assert again.exit_code == 0, again.output
    assert len(client.search_runs([client.get_experiment_by_name("p").experiment_id])) == 2  # nothing is overwritten


@pytest.mark.filterwarnings("ignore")  # of MLflow's own
def test_names_that_become_the_same_stay_apart(store: str) -> None:
    """MLflow takes neither ä nor ö: both become _, and each keeps a curve of its own."""
    from mlflow.tracking import MlflowClient

    criteria = tuple(CriterionData(name=name) for name in ("ä", "ö", "_"))
    record = group(0, (1.0, 0.0), ((1.0, 0.5, 0.25), (1.0, 0.5, 0.25)))
    record = record.model_copy(update={"criteria": criteria, "weights": (1.0, 1.0, 1.0), "gate": None})
    export_records([record], "mlflow", place=store, project="names")
    client = MlflowClient(tracking_uri=store)
    (run,) = client.search_runs([client.get_experiment_by_name("names").experiment_id])
    means = [value for name, value in run.data.metrics.items() if name.startswith("criterion/")]
    assert sorted(means) == [0.25, 0.5, 1.0]


@pytest.mark.filterwarnings("ignore")
def test_a_store_that_refuses_is_one_line(records: list[GroupRecord], store: str, monkeypatch) -> None:
    monkeypatch.delenv("MLFLOW_ALLOW_FILE_STORE")
    with pytest.raises(InvalidInput, match="place"):
        export_records(records, "mlflow", place=store)


@pytest.mark.filterwarnings("ignore")
def test_a_server_that_goes_away_is_one_line(records: list[GroupRecord], store: str, monkeypatch) -> None:
    """The run can be neither filled nor marked as failed: the first of the two errors is reported."""
    from mlflow.exceptions import MlflowException
    from mlflow.tracking import MlflowClient

    def fail(*_: Any, **__: Any) -> None:
        raise MlflowException("the server is gone")

    def fail_again(*_: Any, **__: Any) -> None:
        raise MlflowException("the server is still gone")

    monkeypatch.setattr(MlflowClient, "log_batch", fail)
    monkeypatch.setattr(MlflowClient, "set_terminated", fail_again)
    with pytest.raises(InvalidInput, match="the server is gone"):
        export_records(records, "mlflow", place=store)


class Prediction:
    def __init__(self, inputs: dict[str, Any], output: Any) -> None:
        self.inputs, self.output, self.scores, self.done = inputs, output, {}, False

    def log_score(self, scorer: str, score: Any) -> None:
        assert not self.done
        self.scores[scorer] = score

    def finish(self) -> None:
        self.done = True


class EvaluationLogger:
    made: list[EvaluationLogger] = []  # noqa: RUF012

    def __init__(self, name: str | None = None, model: Any = None, dataset: Any = None) -> None:
        self.name, self.predictions, self.summary = name, [], None
        self.made.append(self)

    def log_prediction(self, inputs: dict[str, Any], output: Any = None) -> Prediction:
        assert self.summary is None
        self.predictions.append(Prediction(inputs, output))
        return self.predictions[-1]

    def log_summary(self, summary: dict[str, Any] | None = None) -> None:
        assert all(one.done for one in self.predictions)
        self.summary = summary


@pytest.fixture
def weave(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """As https://docs.wandb.ai/weave/guides/evaluation/evaluation_logger says; there is no account here."""
    module = ModuleType("weave")
    module.__spec__ = importlib.machinery.ModuleSpec("weave", None)
    module.EvaluationLogger = EvaluationLogger  # type: ignore[attr-defined]
    module.projects = []  # type: ignore[attr-defined]
    module.init = module.projects.append  # type: ignore[attr-defined]
    EvaluationLogger.made.clear()
    monkeypatch.setitem(sys.modules, "weave", module)
    return module


def test_weave_has_every_rollout_and_no_score_for_what_is_missing(records: list[GroupRecord], weave: Any) -> None:
    done = export_records(records, "weave", project="team/p", name="seed 0")
    assert (done.groups, done.rollouts, done.steps) == (3, 6, 2)
    assert weave.projects == ["team/p"]
    (made,) = EvaluationLogger.made
    first, second = made.predictions[:2]
    assert first.scores == {"reward": 0.25, "criterion No comma": 1.0, "criterion Länge %": 1.0}
    assert second.scores == {"reward": 0.0, "criterion Länge %": 0.0}
    assert second.inputs["missing"] == {"No comma": "no answer"}
    assert (second.output, second.inputs["prompt"]) == ("b, c", [{"role": "user", "content": "Say."}])
    assert made.summary["step 0"]["reward"] == 0.125


def test_weave_without_an_account_says_so(records: list[GroupRecord], weave: Any) -> None:
    def refuse(project: str) -> None:
        raise RuntimeError("not logged in")

    weave.init = refuse
    with pytest.raises(InvalidInput, match=r"not logged in.*wandb login"):
        export_records(records, "weave")
    with pytest.raises(InvalidInput, match="place"):
        export_records(records, "weave", place="somewhere")


class WandbRun:
    id = "r1"

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.logged: list[tuple[int, dict[str, float]]] = []
        self.artifacts: list[Any] = []
        self.exit_code: int | None = None

    def log(self, data: dict[str, float], step: int) -> None:
        assert not self.logged or step > self.logged[-1][0]
        self.logged.append((step, data))

    def log_artifact(self, artifact: Any) -> None:
        self.artifacts.append(artifact)

    def finish(self, exit_code: int = 0) -> None:
        self.exit_code = exit_code


class WandbArtifact:
    def __init__(self, name: str, type: str) -> None:
        self.files: list[str] = []

    def add_file(self, local_path: str) -> None:
        self.files.append(Path(local_path).name)


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """As https://docs.wandb.ai/ref/python/init/ says; the package is not installed here."""
    module = ModuleType("wandb")
    module.__spec__ = importlib.machinery.ModuleSpec("wandb", None)
    module.runs = []  # type: ignore[attr-defined]

    def init(**settings: Any) -> WandbRun:
        module.runs.append(WandbRun(**settings))
        return module.runs[-1]

    module.init = init  # type: ignore[attr-defined]
    module.Artifact = WandbArtifact  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "wandb", module)
    return module


def test_wandb_has_the_curves_and_the_file(records: list[GroupRecord], wandb: Any, tmp_path: Path) -> None:
    write_records(tmp_path / "records.jsonl", [*records[1:], records[0]])
    command = ["export", str(tmp_path / "records.jsonl"), "--to", "wandb", "--place", "offline", "--project", "team/p"]
    done = CliRunner().invoke(app, [*command, "--name", "seed 0"])
    assert done.exit_code == 0, done.output
    assert "wandb sync" in done.output
    (run,) = wandb.runs
    settings = run.settings
    assert (settings["entity"], settings["project"], settings["name"]) == ("team", "p", "seed 0")
    assert settings["mode"] == "offline"
    assert settings["config"]["criteria"] == ["No comma", "Länge %"]
    assert [(step, means["criterion/No comma"]) for step, means in run.logged] == [(0, 1.0), (1, 0.5)]
    assert run.logged[1][1]["eval/criterion/No comma"] == 0.0
    assert [artifact.files for artifact in run.artifacts] == [["records.jsonl"]]
    assert run.exit_code == 0


def test_a_wandb_run_that_fails_is_marked_and_said(records: list[GroupRecord], wandb: Any, monkeypatch) -> None:
    def refuse(run: WandbRun, data: Any, step: int) -> None:
        raise RuntimeError("not logged in")

    monkeypatch.setattr(WandbRun, "log", refuse)
    with pytest.raises(InvalidInput, match=r"not logged in.*place=offline"):
        export_records(records, "wandb")
    assert wandb.runs[0].exit_code == 1
    with pytest.raises(InvalidInput, match="online, offline"):
        export_records(records, "wandb", place="http://localhost")


def test_what_cannot_be_sent_is_said(records: list[GroupRecord], tmp_path: Path, monkeypatch) -> None:
    with pytest.raises(UnknownName, match="mlflow"):
        export_records(records, "mlfow")
    monkeypatch.setattr("rubrank.records.export.find_spec", lambda name: None)
    with pytest.raises(InvalidInput, match=r"rubrank\[weave\]"):
        export_records(records, "weave")
    monkeypatch.setattr("rubrank.records.export.find_spec", importlib.util.find_spec)
    (tmp_path / "none.jsonl").write_text("")
    done = CliRunner().invoke(app, ["export", str(tmp_path / "none.jsonl"), "--to", "mlflow"])
    assert done.exit_code == 2
    assert "at least one group" in done.output
