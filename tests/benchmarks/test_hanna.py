"""The figures of docs/audit.md are those of a fresh run, and the rival rules are what they say they are."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases import nightly

from rubrank import utilities

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data" / "hanna" / "hanna_tidy.csv.gz"
NEEDS_DATA = pytest.mark.skipif(not DATA.exists(), reason="needs ../shared/data")
NUMBER = re.compile(r"[-+]?\d+\.\d+")


@pytest.fixture
def hanna(monkeypatch):
    monkeypatch.setattr(sys, "path", [str(ROOT / "benchmarks"), *sys.path])
    return importlib.import_module("hanna")


@pytest.fixture
def rules(hanna):
    return importlib.import_module("hanna_rules")


@NEEDS_DATA
@nightly()
@pytest.mark.slow
def test_the_page_shows_what_a_fresh_run_prints(tmp_path):
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        [sys.executable, "benchmarks/hanna.py", "--json", str(tmp_path / "figures.json")],
        cwd=ROOT,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHONPATH": path},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    page = (ROOT / "docs" / "audit.md").read_text(encoding="utf-8")
    shown = "\n\n".join(re.findall(r"^```text\n(.*?)\n```$", page, re.MULTILINE | re.DOTALL)[1:])
    assert NUMBER.sub("#", shown).split() == NUMBER.sub("#", done.stdout).split()
    numbers = [[float(x) for x in NUMBER.findall(text)] for text in (shown, done.stdout)]
    assert len(numbers[0]) > 200
    assert numbers[0] == pytest.approx(numbers[1], abs=0.011)  # the last digit may differ on other machines
    assert (tmp_path / "figures.json").stat().st_size > 10_000


@NEEDS_DATA
def test_the_data_are_read_as_they_are(rules):
    data = rules.load()
    assert data.human.shape == (96 * 11,)
    assert len(np.unique(data.prompts)) == 96
    assert (data.systems.reshape(96, 11) == data.systems[:11]).all()
    assert {name: int(np.isnan(x).sum()) for name, x in data.judges.items()} == {
        "Beluga-13B": 0,
        "OrcaPlatypus": 65,
        "Mistral-7B": 253,
        "Llama-13B": 25,
        "ChatGPT": 3,
    }
    assert min(np.nanmin(x) for x in data.judges.values()) >= 1.0


@pytest.mark.slow
def test_rival_rules(rules):
    scores = np.array([[1.0, 5.0], [2.0, 5.0], [4.0, np.nan], [3.0, 1.0]])
    groups = np.zeros(4, int)
    assert rules.mean(scores, groups) == pytest.approx([3.0, 3.5, 4.0, 2.0])
    borda = rules.by_group(rules.borda)(scores, groups)
    fitted = utilities(scores, model="borda")
    assert borda == pytest.approx([(-1 + 1 / 2) / 2, (-1 / 3 + 1 / 2) / 2, 1 / 2, (1 / 3 - 1) / 2])
    assert np.sign(rules.borda(scores)) == pytest.approx(np.sign(fitted))
    z = rules.z_scores(scores)
    assert (np.nanmean(z, axis=0), np.nanstd(z, axis=0)) == (pytest.approx([0, 0]), pytest.approx([1, 1]))
    assert rules.min_max(scores)[:, 0] == pytest.approx([-0.5, 1 / 3 - 0.5, 0.5, 2 / 3 - 0.5])
    assert rules.z_scores(np.full((3, 1), 2.0)) == pytest.approx(np.zeros((3, 1)))


@NEEDS_DATA
def test_systems_are_compared_by_their_means(hanna):
    from scipy import stats

    data = hanna.load()
    values = hanna.mean(data.judges["ChatGPT"], data.prompts)
    found = hanna.Compared(data, bootstrap=20).ranked(values, data.human)
    ours, theirs = (x.reshape(96, 11).mean(axis=0) for x in (values, data.human))
    assert found.system_tau.value == pytest.approx(stats.kendalltau(ours, theirs).statistic)
    assert found.system_rho.value == pytest.approx(stats.spearmanr(ours, theirs).statistic)
    each = [stats.spearmanr(values[i : i + 11], data.human[i : i + 11]).statistic for i in range(0, 1056, 11)]
    assert found.rho.value == pytest.approx(np.mean(each))
    assert len(found.system_tau.draws) == 20
