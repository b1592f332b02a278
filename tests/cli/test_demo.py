"""The demo: what it shows and what it writes."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stdout

import numpy as np
import pytest
from rich.cells import cell_len

from rubrank.cli.demo.demo import ATTRIBUTES, NOTICE, demo, demo_judges, fuse_table
from rubrank.cli.demo.groups import load_demo_groups
from rubrank.grading.grade import grade
from rubrank.records.files import read_records

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def graded(tmp_path_factory):
    groups = load_demo_groups()
    table = grade(groups, workers=0, judges=demo_judges(tmp_path_factory.mktemp("demo") / "replies.sqlite"))
    return groups, table, fuse_table(table, groups)


@pytest.fixture(scope="module", params=[80, 120])
def shown(request, tmp_path_factory):
    path, printed = tmp_path_factory.mktemp("shown") / "out" / "rewards.jsonl", io.BytesIO()
    with (
        pytest.MonkeyPatch.context() as patch,
        io.TextIOWrapper(printed, encoding="utf-8") as terminal,
        redirect_stdout(terminal),
    ):
        patch.setenv("COLUMNS", str(request.param))
        demo(path, explain=True)
        terminal.flush()
        return printed.getvalue().decode(), request.param, path


def test_nothing_is_cut_off(shown):
    text, width, _ = shown
    before = text.split("Why that reward?")[0]  # explanations and the path may run on, tables may not
    assert "…" not in before
    assert max(cell_len(line) for line in before.splitlines()) <= width


def test_by_default_it_shows_one_table_and_one_short_explanation(tmp_path, capsys):
    demo(tmp_path / "rewards.jsonl")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 40
    assert max(cell_len(line) for line in lines if str(tmp_path) not in line) <= 80
    assert sum(line.startswith("reward ") for line in lines) == 1
    assert sum("→" in line for line in lines) == 3
    assert any("demo_report.html" in line for line in lines)
    assert any("--explain" in line for line in lines)


def test_every_group_has_its_line(shown, graded):
    text, _, _ = shown
    for group in graded[2]:
        rewards = " ".join(f"{100 * reward:3.0f}" for reward in group.reward)
        name = str(group.label)[:20]  # a long one is folded
        assert any(name in line and rewards.strip() in line for line in text.splitlines()), group.label


def test_a_gate_is_visible_and_explained(shown):
    text, _, _ = shown
    assert " stop " in text
    assert "gate: stopped by" in text


def test_it_says_that_no_model_was_asked(shown):
    assert " ".join(NOTICE.split()) in " ".join(shown[0].split())


def test_records_and_a_report_are_beside_the_rewards(shown, graded):
    text, _, path = shown
    records = list(read_records(path.with_name("demo_records.jsonl")))
    assert [record.group for record in records] == [group.id for group in graded[0]]
    assert set(records[0].others) == {"weighted-mean+", "gdpo+", "focal+", "borda+"}
    assert path.with_name("demo_report.html").read_text(encoding="utf-8").lower().startswith("<!doctype html>")
    assert "demo_report.html" in text


def test_verifiers_say_why(shown, graded):
    text, _, _ = shown
    table = graded[1]
    first = next(iter(graded[2]))
    best = int(np.argmax(first.reward))
    for name in table[first.label].names:
        assert f"  · {name}: {table[first.label].reason(best, name)}" in text


def test_rewards_are_written(shown, graded):
    _, _, path = shown
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert np.array([row["reward"] for row in rows]) == pytest.approx(graded[2].reward, abs=1e-12)
    assert {row["group"] for row in rows} == {group.id for group in graded[0]}


def test_attributes_are_adjusted(graded):
    result = graded[2]
    assert result.attribute_names == ATTRIBUTES
    assert np.abs(result.gamma).max() > 0.1
    assert ((result.reward >= 0) & (result.reward <= 1)).all()
