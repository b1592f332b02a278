"""Two texts side by side: each column is the whole text, and only what differs is marked."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rubrank.viewer.report import join_modules

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
SHOW = """
const pairs = JSON.parse(require("fs").readFileSync(0, "utf-8"));
process.stdout.write(JSON.stringify(pairs.map(([a, b]) => diff(a, b))));
"""
MODULES = ("numbers.js", "dom.js", "texts.js", "diff.js")


def diffs(pairs: list[tuple[str, str]], folder: Path) -> list[list[tuple[str, str]]]:
    script = folder / "diff.cjs"
    script.write_text(join_modules(MODULES) + SHOW, encoding="utf-8")
    ran = subprocess.run(
        ["node", script], input=json.dumps(pairs).encode(), capture_output=True, check=True, timeout=60
    )
    return json.loads(ran.stdout)


def side(pieces: list[tuple[str, str]], kind: str) -> str:
    return "".join(text for own, text in pieces if own in ("same", kind))


@pytest.mark.parametrize(
    ("left", "right", "gone", "come"),
    [
        ("the old cat sat", "the new cat sat", ["old"], ["new"]),
        ("one two three", "one two three", [], []),
        ("", "all new", [], ["all new"]),
        ("a big, red car", "a small, blue car", ["big, red"], ["small, blue"]),
        ("我喜欢猫", "我喜欢狗", ["猫"], ["狗"]),
    ],
)
def test_what_differs(tmp_path: Path, left: str, right: str, gone: list[str], come: list[str]) -> None:
    (pieces,) = diffs([(left, right)], tmp_path)
    assert [text for kind, text in pieces if kind == "left"] == gone
    assert [text for kind, text in pieces if kind == "right"] == come


def test_long_texts_are_compared_by_paragraphs(tmp_path: Path) -> None:
    lines = [f"paragraph {n} says this and that and more" for n in range(2000)]
    other = [line.replace("says", "tells") if n == 1000 else line for n, line in enumerate(lines)]
    left, right = "x " + "\n".join(lines) + " y", "z " + "\n".join(other) + " w"
    (pieces,) = diffs([(left, right)], tmp_path)
    assert [text for kind, text in pieces if kind == "left"] == ["x", "says", "y"]
    assert (side(pieces, "left"), side(pieces, "right")) == (left, right)


WORDS = st.lists(st.sampled_from(["a", "b", " ", "\n", ",", "猫", "word", "é", "😀"]), max_size=30).map("".join)


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(st.tuples(WORDS, WORDS), min_size=20, max_size=40))
def test_nothing_is_lost_on_either_side(tmp_path: Path, pairs: list[tuple[str, str]]) -> None:
    for (left, right), pieces in zip(pairs, diffs(pairs, tmp_path), strict=True):
        assert (side(pieces, "left"), side(pieces, "right")) == (left, right)
