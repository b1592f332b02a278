"""The examples run by themselves and show what they promise."""

from __future__ import annotations

import os
import re
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


@pytest.fixture
def run(monkeypatch, tmp_path, capsys):
    """Run one example as a script in an empty directory; returns what it prints."""
    monkeypatch.chdir(tmp_path)

    def run_example(number: str) -> str:
        (path,) = (ROOT / "examples").glob(f"{number}_*.py")
        runpy.run_path(str(path), run_name="__main__")
        return capsys.readouterr().out

    return run_example


def numbers_after(title: str, text: str) -> list[float]:
    (line,) = (line for line in text.splitlines() if line.startswith(title))
    return [float(number) for number in re.findall(r"-?\d+\.\d*", line.removeprefix(title))]


def test_they_count_from_one():
    assert [path.name[:3] for path in EXAMPLES] == [f"{n:02}_" for n in range(1, len(EXAMPLES) + 1)]


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.stem)
def test_says_how_to_run_it(path):
    assert f"\nRun it: python examples/{path.name}\n" in path.read_text(encoding="utf-8")


@pytest.mark.slow
def test_one_runs_in_a_process_of_its_own(tmp_path):
    env = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONWARNINGS": "error"}
    command = [sys.executable, str(EXAMPLES[0])]
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=tmp_path, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert "by ranking" in done.stdout


def test_first_rewards(run):
    text = run("01")
    ranked = numbers_after("by ranking", text)
    assert numbers_after("the same ordering on other scales", text) == ranked
    assert numbers_after("adding up", text) != ranked
    assert numbers_after("one judgment missing", text) != ranked
    assert len(numbers_after("two queries in one batch", text)) == 6
    assert all(0.0 <= reward <= 1.0 for reward in ranked)


def test_attributes(run):
    text = run("02")
    quality, length = numbers_after("nothing adjusted", text)
    better, shorter = numbers_after("removed ", text)
    assert better > quality
    assert abs(shorter) < length / 3
    fair, _, untouched = numbers_after("judge 0: γ", text)
    swayed, error, taken = numbers_after("judge 1: γ", text)
    assert abs(fair) < 0.2 < 1.0 < taken <= swayed
    assert untouched == 0.0 < error < 0.1
    assert text.endswith("1 × heading, 1 × bold, 2 × unordered_item\n")


def test_gate_and_explain(run):
    text = run("03")
    assert "gate: stopped by NotEmpty, so the reward is 0 instead of" in text
    assert "is multiplied by 0.70" in text
    assert "lake: no signal; constant: Facts; constant: Clarity" in text
    assert text.endswith("worth training on: tides\n")
    before, after = numbers_after("before the gate", text), numbers_after("reward", text)
    assert len(before) == len(after)
    assert 0.0 in after


def test_own_model(run):
    text = run("04")
    for named in ("bradley-terry", "thurstone", "borda", "laplace", "bold"):
        utilities, rewards = (found := numbers_after(named + " ", text))[:5], found[5:]
        assert utilities == sorted(utilities, reverse=True)
        assert (rewards[0], rewards[-1]) == (1.0, 0.0)
        assert rewards[1] == rewards[2]
    assert "bold: attribute adjustment: model must be a model with a link" in text


def test_own_verifier(run):
    text = run("06")
    assert numbers_after("What tea?", text)[:3] == [0.0, 1.0, 0.0]
    assert numbers_after("GIVE ME TEA", text)[:3] == [1.0, 0.12, 1.0]
    assert "got 'WordCount', a built-in name" in text


def test_own_rule(run):
    text = run("07")
    assert numbers_after("best-case ", text) == [1.0, 1.0, 1.0, 0.0]
    assert numbers_after("best-case:share=0.5 ", text) == [0.5, 0.5, 0.5, 0.0]
    assert numbers_after("best-case+", text)[-1] == 0.0


def test_own_attribute(run):
    text = run("08")
    quality, marks = numbers_after("as judged", text)
    better, fewer = numbers_after("exclamations removed", text)
    assert better > quality
    assert abs(fewer) < marks / 3


def test_own_judge_kind(run):
    text = run("09")
    assert "Como.    1.0  yes" in text
    assert "Tea?     None  neither yes nor no" in text
    assert text.endswith("asked 4, lost 1\n")


def test_grading(run):
    text = run("10")
    assert numbers_after("rewards", text) == [1.0, 0.25, 0.0, 0.0]
    assert "gate: stopped by RepeatSegment" in text


def test_a_judge(run):
    text = run("11")
    assert "response 1: 0, No cause is named." in text
    assert numbers_after("rewards", text) == [1.0, 0.0, 1.0]
    assert "again: 0 calls, 3 from the cache" in text


def test_other_rules(run):
    text = run("12")
    first = numbers_after("rlvr2", text.partition("share in")[0])
    assert first[0] == 1.0
    assert first[1] < first[2] < 1.0  # Borda ranks as RLVR² does; adding up does not


@pytest.mark.slow
def test_a_reward_server(run):
    pytest.importorskip("starlette", reason="pip install 'rubrank[serve]'")
    text = run("13")
    assert numbers_after("rewards", text) == [1.0, 0.25, 0.0]
