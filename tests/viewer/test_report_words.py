"""The page's explanation in JavaScript reads as the one in Python, word for word."""

from __future__ import annotations

import json
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from rubrank.records.pages import asset, bundled
from rubrank.records.record import GroupRecord
from rubrank.records.report.grouped import Grouped
from rubrank.records.report.packing import Packer, unpack
from rubrank.records.unfolding import explain

WORDS = bundled([asset("numbers.js"), asset("words.js")])
pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs node; test_browser.py looks at a page")

SHOW = """
const { groups, ids, silent, tables } = JSON.parse(require("fs").readFileSync(0, "utf-8"));
const said = groups.map((raw, g) => {
  const group = unfold(raw, ids[g], silent[g], tables);
  return group.reward.map((_, i) => explainRollout(group, i));
});
process.stdout.write(JSON.stringify(said));
"""


def run_node(script: Path, given: str = "") -> bytes:
    return subprocess.run(["node", script], input=given.encode(), capture_output=True, check=True, timeout=60).stdout


def in_javascript(records: list[GroupRecord], folder: Path) -> list[list[str]]:
    packer = Packer(text_limit=100, budget=1e9)
    for record in records:
        packer.add(Grouped.of(record))
    packed = packer.finish()
    given = {
        "groups": [group for chunk in packed.chunks for group in unpack(chunk)],
        "ids": [r.group for r in records],
        "silent": [r.no_signal for r in records],
        "tables": packed.index,
    }
    script = folder / "words.cjs"
    script.write_text(WORDS + SHOW, encoding="utf-8")
    return json.loads(run_node(script, json.dumps(given)))


def tidied(record: GroupRecord) -> GroupRecord:
    """Without what only rounding tells apart: the page has seven decimals, and orders criteria by six."""
    changes = {
        "reward": tuple(round(x, 7) for x in record.reward),
        "values": record.values and tuple(tuple(x and round(x, 7) for x in row) for row in record.values),
    }
    if record.gate is not None and record.gate.lifted is not None:
        lifted = tuple(round(x, 7) for x in record.gate.lifted)
        changes["gate"] = record.gate.model_copy(update={"lifted": lifted})
    return record.model_copy(update=changes)


@pytest.mark.parametrize("kind", ["demo_records", "rule_records", "odd_records"])
def test_the_same_words(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    records: list[GroupRecord] = request.getfixturevalue(kind)
    for record, said in zip(records, in_javascript(records, tmp_path), strict=True):
        assert said == [explain(tidied(record), i) for i in range(record.size)]


def test_criteria_may_have_the_names_of_javascripts_own_things(tmp_path: Path, demo_records: list[GroupRecord]) -> None:
    record = demo_records[0]
    names = ["constructor", "__proto__", "toString", "valueOf", "hasOwnProperty", "length", "prototype"]
    criteria = tuple(
        replace(criterion, name=names[k % len(names)] + "_" * (k // len(names)))
        for k, criterion in enumerate(record.criteria)
    )
    record = record.model_copy(update={"criteria": criteria})
    assert in_javascript([record], tmp_path) == [[explain(tidied(record), i) for i in range(record.size)]]


def test_numbers_are_printed_as_in_python(tmp_path: Path) -> None:
    numbers = [
        0.0,
        1.0,
        0.125,
        0.375,
        0.625,
        0.875,
        -0.125,
        0.005,
        0.015,
        0.994999,
        0.995,
        2.675,
        1e-5,
        1e-4,
        0.00012345678,
        999999.0,
        999999.5,
        1e6,
        1234567.0,
        123456.5,
        123457.5,
        12345.25,
        1234.125,
        -3.5,
        1 / 3,
        2e-7,
        1e20,
        100.0,
    ]
    script = tmp_path / "numbers.cjs"
    show = f"{json.dumps(numbers)}.map((x) => [fixed(x), fixedSigned(x), general(x)])"
    script.write_text(f"{WORDS}\nprocess.stdout.write(JSON.stringify({show}));", encoding="utf-8")
    assert json.loads(run_node(script)) == [[f"{x:.2f}", f"{x:+.2f}", f"{x:g}"] for x in numbers]
