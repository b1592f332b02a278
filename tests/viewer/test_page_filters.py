"""The page's filters and orders, run by Node on the index that Python makes."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rubrank.records.record import GroupRecord
from rubrank.viewer.group_data import State, find_states
from rubrank.viewer.index import Index, make_curves
from rubrank.viewer.report import join_modules, read_asset

pytestmark = pytest.mark.skipif(shutil.which("node") is None, reason="needs node")
RUN = """
const { rows, filter, scores, hits, sort } = JSON.parse(require("fs").readFileSync(0, "utf-8"));
const found = filterGroups(rows, filter, scores, hits && new Set(hits));
process.stdout.write(JSON.stringify(sortGroups(rows, found, sort)));
"""


@pytest.fixture(scope="module")
def records(demo_records: list[GroupRecord], odd_records: list[GroupRecord]) -> list[GroupRecord]:
    return [record.model_copy(update={"step": n // 5}) for n, record in enumerate([*demo_records, *odd_records])]


@pytest.fixture(scope="module")
def index(records: list[GroupRecord]) -> Index:
    index = Index()
    for record in records:
        index.add_record(record)
    return index


def filter_in_node(folder: Path, index: Index, sort: str = "file", hits: Any = None, **filters: Any) -> list[int]:
    script = folder / "filters.cjs"
    script.write_text(read_asset("filters.js").replace("export ", "") + RUN, encoding="utf-8")
    criterion = filters.get("criterion")
    data = {
        "rows": index.list_rows(),
        "filter": filters,
        "scores": index.list_scores(criterion) if criterion else None,
        "hits": hits,
        "sort": sort,
    }
    text = json.dumps(data).encode()
    done = subprocess.run(["node", script], input=text, capture_output=True, check=True, timeout=60)
    return json.loads(done.stdout)


def test_the_page_has_the_numbers_of_the_states() -> None:
    for state in State:
        if state not in (State.EVALUATION, State.UNREADABLE):
            first, *rest = state.name.lower().split("_")
            assert f"{first}{''.join(map(str.title, rest))}: {int(state)}" in read_asset("filters.js")


@pytest.mark.parametrize(
    ("name", "state"),
    [
        ("noSignal", State.NO_SIGNAL),
        ("stopped", State.STOPPED),
        ("gated", State.STOPPED | State.SOFTENED),
        ("missing", State.MISSING),
        ("constant", State.CONSTANT),
        ("rulesDisagree", State.RULES_DISAGREE),
    ],
)
def test_states(tmp_path: Path, index: Index, records: list[GroupRecord], name: str, state: State) -> None:
    expected = [g for g, record in enumerate(records) if find_states(record) & state]
    assert filter_in_node(tmp_path, index, state=name) == expected


def test_step_rule_criterion_and_score(tmp_path: Path, index: Index, records: list[GroupRecord]) -> None:
    assert filter_in_node(tmp_path, index, step="2") == list(range(10, 15))
    assert filter_in_node(tmp_path, index, rule_filter="no such rule") == []
    name = records[0].criteria[1].name
    scores = {}
    for g, record in enumerate(records):
        for k, criterion in enumerate(record.criteria):
            if criterion.name == name:
                scores[g] = [row[k] for row in record.scores if row[k] is not None]
    assert filter_in_node(tmp_path, index, criterion=name) == sorted(scores)
    low = filter_in_node(tmp_path, index, criterion=name, score="low", value="0")
    assert low == [g for g, values in scores.items() if values and min(values) <= 0]
    differs = filter_in_node(tmp_path, index, criterion=name, score="differs")
    assert differs == [g for g, values in scores.items() if values and min(values) < max(values)]


def test_a_point_lists_the_groups_of_all_its_steps(tmp_path: Path, record_of: Any) -> None:
    """500 steps, recorded every tenth: three neighbours share a point, whose steps are not consecutive numbers."""
    index = Index()
    for step in range(0, 5000, 10):
        index.add_record(record_of({"A": [0.0, 1.0]}, [0.0, 1.0], step=step))
    modules = ("numbers.js", "dom.js", "save.js", "charts.js", "tables.js", "filters.js", "steps.js")
    show = """
    const { rows, curves } = JSON.parse(require("fs").readFileSync(0, "utf-8"));
    const list = (step) => filterGroups(rows, groupsOfStep(step, curves), null, null);
    process.stdout.write(JSON.stringify(curves.steps.map(list)));
    """
    script = tmp_path / "steps.cjs"
    script.write_text(join_modules(modules) + show, encoding="utf-8")
    text = json.dumps({"rows": index.list_rows(), "curves": make_curves(index)}).encode()
    done = subprocess.run(["node", script], input=text, capture_output=True, check=True, timeout=60)
    groups_of_points = json.loads(done.stdout)
    assert groups_of_points[:2] == [[0, 1, 2], [3, 4, 5]]
    assert [g for groups in groups_of_points for g in groups] == list(range(500))


def test_orders_and_searched_groups(tmp_path: Path, index: Index, records: list[GroupRecord]) -> None:
    spread = [round(max(r.reward) - min(r.reward), 4) if r.reward else 0.0 for r in records]
    expected = sorted(range(len(records)), key=lambda g: (spread[g], g))
    assert filter_in_node(tmp_path, index, sort="narrow") == expected
    assert filter_in_node(tmp_path, index, sort="latest")[0] == 5 * ((len(records) - 1) // 5)
    assert filter_in_node(tmp_path, index, hits=[4, 2], query="x") == [2, 4]


def test_a_page_says_how_many_criteria_its_filter_leaves_out(record_of: Any) -> None:
    index = Index()
    index.add_record(record_of({f"c{n:04}": [0.0, 1.0] for n in range(1005)}, [0.0, 1.0]))
    index.add_record(record_of({"c1004": [0.0, 1.0]}, [0.0, 1.0]))
    listed = index.list_criteria(most=1000)
    assert (len(listed), len(index.criterion_groups), "c1004" in listed) == (1000, 1005, True)
    name_any = re.search(r"function nameAny\(.*?\n}\n", read_asset("groups.js"), re.DOTALL)
    assert name_any
    run = json.dumps({"criteria": listed, "criteria_in_all": len(index.criterion_groups)})
    script = f"{name_any[0]}; console.log(nameAny({run}))"
    done = subprocess.run(["node", "-e", script], capture_output=True, check=True, text=True, timeout=60)
    assert done.stdout == "any (the 1000 most frequent of 1005 are listed)\n"


def test_a_criterion_that_is_only_compared_can_be_filtered_by(record_of: Any) -> None:
    won = ((None, 1.0), (0.0, None))
    index = Index()
    index.add_record(record_of({"A": [1.0, 0.0], "B": [None, None]}, [1.0, 0.0], outcomes={"B": won}))
    assert index.list_criteria(most=10) == ["A", "B"]
    assert index.list_scores("B") == {"groups": [], "low": [], "high": []}
