"""recipes/verl: the dataset that it builds is what verl's plug-ins read, and its command knows verl's keys."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace as Plain

import polars as pl
import pytest

from rubrank import RewardEngine
from rubrank.training.frameworks.verl.settings import ResponseReader, Settings

ROOT = Path(__file__).parents[2]
RECIPE = ROOT / "recipes" / "verl"
LAKE = [{"name": "Lake", "verifier": "Keyword", "params": {"keywords": ["lake"]}}]


@pytest.fixture
def folder(tmp_path):
    rows = [{"question": f"Name lake {i}.", "rubric": LAKE, "answer": "West Lake"} for i in range(5)]
    rows += [{"prompt": "No commas.", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}]
    (tmp_path / "rows.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    command = [sys.executable, str(RECIPE / "make.py"), str(tmp_path / "rows.jsonl"), str(tmp_path), "--held-out", "2"]
    subprocess.run(command, check=True, capture_output=True)
    return tmp_path


def test_the_dataset(folder):
    train, val = (pl.read_parquet(folder / f"{name}.parquet").to_dicts() for name in ("train", "val"))
    assert (len(train), len(val)) == (4, 2)
    splits = [row["extra_info"]["split"] for row in (*train, *val)]
    assert splits == ["train"] * 4 + ["val"] * 2
    settings = Settings.read({"rubrank": {"rubric": ["EmptyAnswer"]}})
    assert settings.check_rows(RewardEngine(["EmptyAnswer"]), [*train, *val], "rows") == 6
    assert json.loads(settings.find_rubric(train[0])) == LAKE
    assert json.loads(settings.find_rubric(val[1]))["instruction_id_list"] == ["punctuation:no_comma"]


def test_too_many_held_out(folder):
    command = [sys.executable, str(RECIPE / "make.py"), str(folder / "rows.jsonl"), str(folder), "--held-out", "6"]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert found.returncode
    assert found.stderr.strip() == "--held-out must be from 1 to 5, got 6"


def test_the_command_has_the_keys_of_the_page():
    """Those of docs/verl.md are put together with verl's own configuration in tests/training/test_verl.py."""

    def keys(text: str) -> set[str]:
        return set(re.findall(r"^\s+'?(\+?[a-z_0-9.]+)=", text, re.MULTILINE))

    script = keys((RECIPE / "launch.sh").read_text(encoding="utf-8"))
    page = keys((ROOT / "docs" / "verl.md").read_text(encoding="utf-8"))
    assert len(script) > 25
    assert script <= page
    subprocess.run(["bash", "-n", str(RECIPE / "launch.sh")], check=True)


class Tokenizer:
    """A character is a token; 0 ends a turn."""

    eos_token_id, chat_template = 0, "given"

    def __init__(self, end: str = "") -> None:
        self.end = end

    def decode(self, ids, skip_special_tokens=False):
        return "".join(chr(int(i)) for i in ids if int(i))

    def encode(self, text, add_special_tokens=False):
        return list(text)

    def apply_chat_template(self, messages, tokenize, add_generation_prompt, **_):
        return f"assistant\n{self.end}"


def tokens(*turns: str) -> list[int]:
    return [token for turn in turns for token in (*map(ord, turn), 0)]


CONFIG = Plain(actor_rollout_ref=Plain(rollout=Plain(response_length=512)), data={})
ROW = {"raw_prompt": [{"role": "user", "content": "Where?"}]}
CALL = '<tool_call>{"name": "look", "arguments": {"at": "map"}}</tool_call>'
ANSWER = "\nuser\n<tool_response>\na lake\n</tool_response>"


def test_turns_of_an_agent_loop():
    reading = ResponseReader(Settings(), Tokenizer(), CONFIG)
    found = reading.read_rollout(ROW, tokens(CALL, ANSWER, "\nassistant\nIt is a lake."), "here")
    assert [(call.name, call.arguments, call.result) for call in found.tool_calls] == [
        ("look", {"at": "map"}, "a lake")
    ]
    assert (found.answer, found.finish_reason) == ("It is a lake.", "stop")


def test_a_policy_cannot_answer_for_its_tools():
    """Without an end token there is no other turn, whatever the text says."""
    reading = ResponseReader(Settings(), Tokenizer(), CONFIG)
    found = reading.read_rollout(ROW, tokens(f"{CALL}{ANSWER}\nassistant\nIt is a lake."), "here")
    assert [call.result for call in found.tool_calls] == [None]


def test_templates_that_end_in_thoughts():
    tags = Settings.read({"rubrank": {"thinking": "tags"}})
    answers = []
    for settings, end in ((Settings(), "<think>\n"), (Settings(), ""), (tags, "<think>\n")):
        reader = ResponseReader(settings, Tokenizer(end), CONFIG)
        answers.append(reader.read_rollout(ROW, tokens("it should be a lake"), "here").answer)
    assert answers == ["", "it should be a lake", "it should be a lake"]


def test_loading_the_plugin_imports_nothing_heavy():
    code = (
        "import sys, rubrank.training.frameworks.verl.plugin as p;"
        "print([m for m in ('torch', 'numba', 'polars', 'pydantic', 'ray', 'verl') if m in sys.modules],"
        "sum(type(f) is p._TrainerFinder for f in sys.meta_path))"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[] 1"


@pytest.mark.slow
def test_the_modes_come_with_the_trainer(tmp_path, monkeypatch):
    """A package called verl, whose trainer module is imported by somebody: then ours is."""
    package = tmp_path / "verl" / "trainer" / "ppo" / "v1"
    package.mkdir(parents=True)
    for folder in (package, *list(package.parents)[:3]):
        (folder / "__init__.py").write_text("", encoding="utf-8")
    code = (
        "import warnings; warnings.simplefilter('error');"
        "import rubrank.training.frameworks.verl.plugin, verl;"
        "print('quiet');"
        "import verl.trainer.ppo.v1"
    )
    run = {"capture_output": True, "text": True, "check": False}
    path = f"{tmp_path}:{ROOT / 'src'}"
    found = subprocess.run([sys.executable, "-c", code], env={"PYTHONPATH": path, "PATH": "/usr/bin:/bin"}, **run)
    assert found.stdout.strip() == "quiet"
    assert "rubrank's modes of verl's trainer are not available" in found.stderr  # this verl has no trainers


@pytest.mark.slow
def test_the_command_without_verl():
    code = (
        "import runpy, sys; sys.modules['hydra'] = None; runpy.run_module('rubrank.training.verl', run_name='__main__')"
    )
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert found.returncode == 2
    assert found.stderr.startswith("rubrank: this command needs verl 0.9.1: pip install 'rubrank[verl]'")
    assert found.stderr.count("\n") == 1
