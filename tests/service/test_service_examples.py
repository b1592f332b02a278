"""The files of examples/service: as far as they can be looked at without Docker and systemd."""

from __future__ import annotations

import configparser
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from typer.testing import CliRunner

from rubrank.cli.app import app
from rubrank.service.config import describe_plan, load_service, plan_service

HERE = Path(__file__).parents[2] / "examples" / "service"


def test_the_configuration_is_right(monkeypatch):
    monkeypatch.setenv("RUBRANK_TOKEN", "x")
    found = plan_service(*load_service(HERE / "service.yaml"))
    assert found["address"] == "http://0.0.0.0:8300"
    assert found["token"] is True
    assert found["criteria"] == ["EmptyAnswer", "WordCount", "GeneralQuality"]
    assert found["judges"][0]["cache"].endswith("state/replies.sqlite")
    assert "judge        main: batched, Qwen3-32B" in describe_plan(found)


def test_the_command_checks_and_refuses_in_one_line(monkeypatch):
    monkeypatch.delenv("RUBRANK_TOKEN", raising=False)
    command = ["serve", str(HERE / "service.yaml"), "--dry-run", "--json"]
    refused = CliRunner().invoke(app, command)
    assert refused.exit_code == 2
    assert "token_env RUBRANK_TOKEN" in refused.stderr
    assert len(refused.stderr.splitlines()) == 1
    monkeypatch.setenv("RUBRANK_TOKEN", "x")
    allowed = CliRunner().invoke(app, [*command, "--host", "127.0.0.1", "--port", "9000"])
    assert json.loads(allowed.stdout)["address"] == "http://127.0.0.1:9000"


def test_compose_and_dockerfile_agree_with_it():
    config, _ = load_service(HERE / "service.yaml")
    service = yaml.safe_load((HERE / "compose.yaml").read_text())["services"]["rewards"]
    assert service["ports"] == [f"{config.port}:{config.port}"]
    assert config.token_env in service["environment"]
    assert any(volume.endswith(f"/{config.folder}") for volume in service["volumes"])
    assert int(service["stop_grace_period"].rstrip("s")) > config.shutdown
    assert (HERE / service["build"]["context"] / service["build"]["dockerfile"]).is_file()
    lines = (HERE / "Dockerfile").read_text().splitlines()
    assert f"EXPOSE {config.port}" in lines
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY")]
    assert all((HERE.parents[1] / name).exists() for names in copied for name in names)


def test_the_unit_ends_it_in_order():
    unit = configparser.ConfigParser(strict=False)
    unit.optionxform = str  # type: ignore[assignment, method-assign]
    unit.read(HERE / "rubrank-serve.service")
    assert unit["Service"]["KillSignal"] == "SIGTERM"
    assert int(unit["Service"]["TimeoutStopSec"]) > load_service(HERE / "service.yaml")[0].shutdown
    assert " serve " in unit["Service"]["ExecStart"]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="needs systemd-analyze")
def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path):
    """Of a program and a user that are here."""
    unit = (HERE / "rubrank-serve.service").read_text()
    # In quotes, because the folder of the checkout may have blanks in its name.
    here = unit.replace("/srv/rubrank/.venv/bin/rubrank", f'"{sys.executable}"').replace("User=rubrank", "User=root")
    assert here.count(sys.executable) == 1
    path = tmp_path / "rubrank-serve.service"
    path.write_text(here)
    done = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False)
    assert (done.returncode, [line for line in done.stderr.splitlines() if path.name in line]) == (0, [])
    path.write_text(here.replace("KillSignal=SIGTERM", "KillSignal=SIGNOTHING"))
    wrong = subprocess.run(["systemd-analyze", "verify", str(path)], capture_output=True, text=True, check=False)
    assert "SIGNOTHING" in wrong.stderr


def test_a_plan_in_words(tmp_path):
    path = tmp_path / "s.yaml"
    path.write_text("rubric: [EmptyAnswer, {name: WordCount, params: {low: 3}}]\n")
    said = describe_plan(plan_service(*load_service(path)))
    assert "address      http://127.0.0.1:8300\ntoken        no\n" in said
    assert "criteria     EmptyAnswer, WordCount" in said
    assert not (tmp_path / "rubrank-service").exists()
    path.write_text('rubric: [EmptyAnswer]\nhost: "::1"\n')
    assert plan_service(*load_service(path))["address"] == "http://[::1]:8300"
