"""recipes/tiny_agent: a policy that calls a tool, trained for two steps; calls and results are messages in records."""

from __future__ import annotations

import runpy
import sys
from pathlib import Path

import pytest
import yaml
from cases import nightly

pytest.importorskip("trl", reason="trl is not installed: pip install 'rubrank[trl]'")

from rubrank.records.files import read_records
from rubrank.training.job.config import load_job
from rubrank.training.job.plan import make_plan
from rubrank.training.job.run import run

pytestmark = pytest.mark.slow  # importing TRL takes seconds
RECIPE = Path(__file__).parents[2] / "recipes" / "tiny_agent"


@pytest.fixture
def recipe(monkeypatch):
    monkeypatch.syspath_prepend(str(RECIPE))
    yield runpy.run_path(str(RECIPE / "make.py"))
    sys.modules.pop("calculator", None)


def test_what_is_shown_is_what_the_tool_says(recipe):
    asked, called, gave, said = recipe["conversation"](3, 9, True)
    assert called["tool_calls"][0]["function"] == {"name": "add", "arguments": {"a": 3, "b": 9}}
    assert (asked["content"], gave["content"], said["content"]) == ("3 plus 9?", "12", "It is 12.")
    assert len(recipe["conversation"](3, 9, False)) == 2
    assert not set(recipe["HELD_OUT"]) - set(recipe["PAIRS"])


@nightly()
def test_two_steps(recipe, tmp_path):
    recipe["make"](tmp_path, 100)  # a quarter of the rollouts call the tool then
    config = yaml.safe_load((tmp_path / "config.yaml").read_text())
    config.pop("held_out")
    config["stages"][0]["steps"] = 2
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    done = run(make_plan(load_job(tmp_path / "config.yaml")))
    assert done.steps == 2
    records = list(read_records(done.records))
    assert len(records) == 16
    turns = [turn for record in records for turn in record.turns or () if turn]
    answered = [turn for turn in turns if len(turn) > 1]  # a call for which no tokens were left has no result
    assert len(answered) > len(turns) / 2, "hardly a rollout called the tool"
    for call, result, *_ in answered:
        (made,) = call["tool_calls"][:1]
        assert (call["role"], result["role"], made["name"]) == ("assistant", "tool", "add")
        if {"a", "b"} == set(made["arguments"]) and all(isinstance(x, int) for x in made["arguments"].values()):
            assert result["content"] == str(sum(made["arguments"].values()))
    with_turns = [record for record in records if record.turns]
    answers = [text for one in with_turns for text, turn in zip(one.responses, one.turns, strict=True) if turn]
    assert not any("<tool_response>" in text for text in answers)
