"""The demo: what it shows and what it writes."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from rubrank.demo import ATTRIBUTES, CRITERIA, demo, fuse_rows, load_rows


def run_demo(path, width: int) -> str:
    console = Console(width=width, file=io.StringIO(), record=True)
    demo(path, console)
    return console.export_text()


@pytest.fixture(params=[80, 120])
def shown(request, tmp_path):
    return (
        run_demo(tmp_path / "out" / "rewards.jsonl", request.param),
        request.param,
        tmp_path / "out" / "rewards.jsonl",
    )


def test_nothing_is_cut_off(shown):
    text, width, _ = shown
    before = text.split("Why that reward?")[0]  # explanations and the path may run on, tables may not
    assert "…" not in text
    assert max(cell_len(line) for line in before.splitlines()) <= width
    for heading in (*CRITERIA[:4], *ATTRIBUTES, "gate", "reward", "fused", "effective"):
        assert re.search(rf"(^|\s){heading}(\s|$)", before, re.MULTILINE), heading


def test_every_row_of_every_table_is_on_one_line(shown):
    text, _, _ = shown
    result = fuse_rows(load_rows())
    for group in result:
        table = text.split(f"\n{group.label} ")[1].split("\n\n")[0].splitlines()[1:]
        order = [int(line.split()[0]) for line in table[1:]]
        assert sorted(order) == list(range(8))
        for line, i in zip(table[1:], order, strict=True):
            assert line.split()[-1] == f"{group.reward[i]:.2f}"
        assert (np.diff(group.reward[order]) <= 0).all()


def test_the_gate_is_visible(shown):
    text, _, _ = shown
    assert re.search(r"0\.96 +stop +0\.00", text)
    assert re.search(r"0\.46 +× 0\.50 +0\.23", text)
    assert "gate: stopped by NotEmpty, so the reward is 0 instead of 0.96" in text


def test_explanations_are_those_of_the_library(shown):
    text, _, path = shown
    result = fuse_rows(load_rows())
    assert result["explain-tides"].explain(1) in text
    assert result["fix-the-query"].explain(5) in text
    assert str(path) in text


def test_rewards_file(shown):
    _, _, path = shown
    rows = load_rows()
    written = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    assert len(written) == 24
    for row, out, reward in zip(rows, written, fuse_rows(rows).reward, strict=True):
        assert out == {**row, "reward": reward}
        assert 0.0 <= out["reward"] <= 1.0


def test_the_table_has_what_the_demo_promises():
    result = fuse_rows(load_rows())
    assert [len(group.reward) for group in result] == [8, 8, 8]
    assert result.criteria == ("Facts", "Keyword", "Clarity", "Coverage")
    assert (~result.gated.passed).any()
    assert (result.gated.factor < 1.0).any()
    assert sum(group.missing.sum() for group in result) == 1
    assert not result.no_signal.any()
    assert all(group.reward.max() == 1.0 for group in result)
