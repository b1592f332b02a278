"""The figures of docs/robustness.md and docs/attribute_study.md are those of a fresh run."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from cases import nightly

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[2]
DATA = ROOT.parent / "shared" / "data"
NEEDS_DATA = pytest.mark.skipif(not (DATA / "longform_writing").exists(), reason="needs ../shared/data")
NUMBER = re.compile(r"[-+]?\d+\.\d+")


def run(script: str, *options: str) -> str:
    path = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONIOENCODING": "utf-8"}
    done = subprocess.run(
        [sys.executable, f"benchmarks/{script}.py", *options],
        cwd=ROOT,
        capture_output=True,
        encoding="utf-8",
        env=environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def shown(page: str) -> str:
    text = (ROOT / "docs" / f"{page}.md").read_text(encoding="utf-8")
    return "\n\n".join(re.findall(r"^```text\n(.*?)\n```$", text, re.MULTILINE | re.DOTALL))


def assert_same(page: str, printed: str, slack: float) -> None:
    """Word for word; the last digit of a number may differ on other machines."""
    assert NUMBER.sub("#", page).split() == NUMBER.sub("#", printed).split()
    ours, fresh = ([float(x) for x in NUMBER.findall(text)] for text in (page, printed))
    assert ours == pytest.approx(fresh, abs=slack)


@nightly()
@NEEDS_DATA
def test_robustness(tmp_path):
    printed = run("robustness", "--json", str(tmp_path / "figures.json"))
    assert_same(shown("robustness"), printed, 0.011)
    figures = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    for rows in figures.values():
        ordinal = [row for row in rows if row["rule"] == "rlvr2" and row["groups"]]
        assert len(ordinal) >= 3 * 14
        assert {row["signs"] for row in ordinal} == {1.0}
        assert min(row["spearman"] for row in ordinal) > 1.0 - 1e-12


@NEEDS_DATA
@nightly()
@pytest.mark.slow
def test_attribute_study(tmp_path):
    picture = tmp_path / "study.svg"
    printed = run("attribute_study", "--json", str(tmp_path / "figures.json"), "--draw", str(picture))
    assert_same(shown("attribute_study"), printed, 0.0021)
    assert picture.read_text(encoding="utf-8").startswith("<?xml")
    assert (ROOT / "docs" / "pictures" / "attribute_study.svg").stat().st_size < 100_000
    rows = json.loads((tmp_path / "figures.json").read_text(encoding="utf-8"))
    plain = [row for row in rows if row.get("rule") == "rlvr2" and row["attributes"] == "none"]
    assert {row["tau"] for row in plain} == {1.0}


# ------------------------------------------------------------------------------------------------------------ the data


@pytest.fixture
def real_data(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    import real_data

    yield real_data
    del sys.modules["real_data"]


@NEEDS_DATA
def test_chapters_are_drawn_without_overlap(real_data):
    study = real_data.longform_writing()
    assert {len(group.scores) for group in study.table.groups} == {8}
    assert study.attributes.shape == (len(study.table), 4)
    assert not np.isnan(study.table.scores).any()
    criteria = {c.name: c for c in study.table.groups[0].criteria}
    assert sum(c.direction == "lower" for c in criteria.values()) == 6
    assert criteria["Forced Poetry or Metaphor"].weight == 5.0
    assert (criteria["Coherent"].domain.low, criteria["Coherent"].domain.high) == (0.0, 20.0)
    by_chapter: dict[str, list] = {}
    for group, words in zip(study.table.groups, study.attributes[:, 0].reshape(-1, 8), strict=True):
        rows = zip(words.tolist(), map(tuple, group.scores.tolist()), strict=True)
        by_chapter.setdefault(group.id.rpartition(".")[0], []).extend(rows)
    assert len(by_chapter) == 96
    assert all(len(rows) == len(set(rows)) for rows in by_chapter.values())
    again = real_data.longform_writing()
    np.testing.assert_array_equal(study.table.scores, again.table.scores)
    assert real_data.longform_writing(seed=1).table.groups[0].id != study.table.groups[0].id


@NEEDS_DATA
def test_verdicts_stand_beside_their_lengths(real_data):
    study = real_data.m_ifeval(languages=("fr",), least=2)
    assert {len(group.scores) for group in study.table.groups} == {8}
    assert min(len(group.names) for group in study.table.groups) == 2
    rows = {f"fr:{row['key']}": row for row in real_data._rows(DATA / "m_ifeval" / "fr_groups.jsonl.gz")}
    same = []
    for group, words in zip(study.table.groups, study.attributes[:, 0].reshape(-1, 8), strict=True):
        responses = rows[group.id]["responses"]
        assert words.tolist() == [answer["n_words"] for answer in responses]
        same.append(group.scores == np.array([answer["strict"] for answer in responses], dtype=float))
    assert np.mean(np.concatenate([one.ravel() for one in same])) > 0.97  # ours and the published verdicts


def test_a_text_table(real_data):
    rows = [("rule", "ρ"), ("a", "0.5"), ("long", "–")]
    assert real_data.text_table(rows).splitlines() == ["rule    ρ", "a     0.5", "long    –"]
