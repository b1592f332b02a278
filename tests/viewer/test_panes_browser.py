"""The three panes, changes that re-rank, labels, comparisons and curves, in a real browser; and axe on every view."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from urllib.parse import unquote

import numpy as np
import pytest
from browser import NEEDS_BROWSER
from viewer.test_report_browser import Page as ReportPage
from viewer.test_viewer_browser import Page
from viewer.viewing import Viewer, served

from rubrank.evaluation.benchmark import ItemScore
from rubrank.evaluation.runs import EvalRun
from rubrank.evaluation.table import report_data
from rubrank.records.files import name_runs, write_records
from rubrank.records.record import GroupRecord, record_table
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.scores.criterion import CriterionData
from rubrank.scores.files import load_scores, read_scores
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.tables.columns import Columns
from rubrank.viewer.report import write_report

pytestmark = NEEDS_BROWSER
CRITERIA = (
    CriterionData("Facts"),
    CriterionData("Tone"),
    CriterionData("NotEmpty", layer="global_quality", verifier="NotEmpty"),
)
AXE = os.environ.get("AXE_PATH", "")
"""Path of axe.min.js of the npm package axe-core; without it the accessibility test is skipped."""
SIZES = {"desktop": (1600, 900), "phone": (390, 844)}


def make_run(seed: int, shift: float) -> list[GroupRecord]:
    """Six steps of eight groups; the first group of a step is always the same: rollout 0 wins on Facts, 1 on Tone."""
    random = np.random.default_rng(seed)
    records: list[GroupRecord] = []
    for step in range(6):
        scored = []
        texts = []
        for q in range(8):
            scores = (random.random((4, 3)) < 0.5 + shift).astype(float)
            scores[:, 2] = 1.0
            if q == 0:
                scores = np.array([[1.0, 0.0, 1.0], [0.0, 1.0, 1.0], [0.0, 0.0, 1.0], [1.0, 1.0, 0.0]])
            reasons = tuple(tuple(f"reason for {score:g}" for score in row) for row in scores)
            scored.append(GroupScores(f"q{q}", CRITERIA, scores, reasons))
            rollouts = tuple(Rollout(prompt=f"Question {q}?", response=f"Answer {i} of {q}") for i in range(4))
            texts.append(Group(id=f"q{q}", rollouts=rollouts))
        records += record_table(ScoreTable(tuple(scored)), "rlvr2+", groups=texts, step=step)
    return records


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("panes")
    write_records(place / "a" / "records.jsonl", make_run(1, 0.0))
    write_records(place / "b" / "records.jsonl", make_run(2, 0.4))
    return place


@pytest.fixture(scope="module")
def viewer(folder: Path) -> Iterator[Viewer]:
    scores = tuple(ItemScore(str(n), {"correct": float(n % 2)}) for n in range(40))
    evaluation = report_data([EvalRun("frames", "a", {"context": "oracle"}, scores, {"accuracy": 0.5})])
    paths = (folder / "a" / "records.jsonl", folder / "b" / "records.jsonl")
    with served(*paths, labels=folder / "labels.jsonl", evaluation=evaluation) as found:
        yield found


@pytest.fixture(scope="module")
def driver(bench: ModuleType) -> Iterator[Any]:
    with bench.browser(1600, 900) as found:
        yield found


def visible_panes(page: Any) -> list[str]:
    return page.run(
        "return [...document.querySelectorAll('.pane')].filter((p) => p.offsetHeight).map((p) => p.classList[1])"
    )


def test_three_panes_and_nothing_below_the_fold(driver: Any, viewer: Viewer) -> None:
    page = Page(driver, viewer, "#group=1&rollout=3")
    assert visible_panes(page) == ["list-pane", "matrix-pane", "text-pane"]
    assert page.text(".rollout-head h2") == "Rollout 3"
    assert page.run("return document.documentElement.scrollHeight <= innerHeight")
    edges = page.run("return [...document.querySelectorAll('.pane')].map((p) => p.getBoundingClientRect().right)")
    assert edges == sorted(edges)
    beside = "const box = (s) => document.querySelector(s).getBoundingClientRect(); "
    assert page.run(beside + "return box('.words').right <= box('.verdict-list').left")
    assert page.complaints() == []


def test_one_pane_at_a_time_on_a_phone(bench: ModuleType, viewer: Viewer) -> None:
    with bench.browser(390, 844) as driver:
        page = Page(driver, viewer, "#view=groups")
        assert visible_panes(page) == ["list-pane"]
        page.run("document.querySelector('.row').click()")
        assert page.until(lambda: visible_panes(page) == ["matrix-pane"])
        page.run("document.querySelectorAll('.rollouts tbody tr')[1].click()")
        assert page.until(lambda: visible_panes(page) == ["text-pane"])
        page.run("document.querySelector('.pane-buttons button').click()")
        assert page.until(lambda: visible_panes(page) == ["list-pane"])
        page = Page(driver, viewer, "#group=1&rollout=2")
        assert visible_panes(page) == ["text-pane"]
        tabs = (
            "return [...document.querySelectorAll('nav a')].every((a) => a.getBoundingClientRect().right <= innerWidth)"
        )
        assert page.run(tabs)
        assert page.complaints() == []


def type_number(page: Any, label: str, value: str) -> None:
    script = """
    const input = document.querySelector(`[aria-label="${arguments[0]}"]`);
    input.value = arguments[1];
    input.dispatchEvent(new Event("change"));
    """
    page.run(script, label, value)


def order(page: Any) -> list[str]:
    return page.run("return [...document.querySelectorAll('.rollouts tbody button')].map((b) => b.textContent)")


def test_a_weight_and_a_gate_change_the_order(driver: Any, viewer: Viewer) -> None:
    page = Page(driver, viewer, "#group=0")
    assert order(page) == ["0", "1", "2", "3"]  # 0 and 1 tie; the gate stops 3
    type_number(page, "Weight of Tone", "3")
    assert page.until(lambda: order(page) == ["1", "0", "2", "3"])
    assert "was 1" in page.text(".rollouts tbody tr:nth-child(2)")
    assert "Tone" in page.run("return decodeURIComponent(location.hash)")
    type_number(page, "Use of NotEmpty", "watch")
    assert page.until(lambda: order(page) == ["3", "1", "0", "2"])
    link = page.run("return location.hash")
    page = Page(driver, viewer, link)
    assert order(page) == ["3", "1", "0", "2"]
    page.run("[...document.querySelectorAll('.what-if-bar button')].pop().click()")
    assert page.until(lambda: order(page) == ["0", "1", "2", "3"])
    assert page.complaints() == []


def test_a_report_computes_weights_and_gates_as_the_server_does(driver: Any, viewer: Viewer, tmp_path: Path) -> None:
    write_report(make_run(1, 0.0), tmp_path / "report.html")
    rewards = "return [...document.querySelectorAll('.rollouts tbody .reward')].map((c) => c.textContent)"
    changed = "return document.querySelector('.chip.info') !== null"
    for g in (0, 3, 9, 17):
        shown = []
        for page in (ReportPage(driver, tmp_path / "report.html", f"#group={g}"), Page(driver, viewer, f"#group={g}")):
            type_number(page, "Weight of Facts", "2.5")
            page.until(lambda page=page: page.run(changed))
            type_number(page, "Use of NotEmpty", "watch")
            page.until(lambda page=page: "watch" in page.run("return location.hash") and page.run(changed))
            page.until(lambda page=page: not page.run("return document.querySelector('.group').ariaBusy"))
            shown.append([order(page), page.run(rewards)])
        assert shown[0] == shown[1]
    rule = "return [...document.querySelectorAll('.what-if label')].map((l) => l.firstChild.textContent)"
    assert ReportPage(driver, tmp_path / "report.html", "#group=0").run(rule) == []  # rules need the server


def click_label(page: Any, name: str) -> None:
    script = "[...document.querySelectorAll('.label-buttons button')].find((b) => b.ariaLabel === arguments[0]).click()"
    page.run(script, name)


def test_verdicts_are_accepted_and_rejected(driver: Any, viewer: Viewer, folder: Path) -> None:
    page = Page(driver, viewer, "#group=2&rollout=1")
    scores = make_run(1, 0.0)[2].scores[1]
    page.run("document.querySelector('[aria-label=\"Accept: Facts\"]').focus()")
    click_label(page, "Accept: Facts")
    assert page.until(lambda: len(page.texts(".label-buttons [aria-pressed=true]")) == 1)
    assert page.run("return document.activeElement.ariaLabel") == "Accept: Facts"  # the keyboard stays where it was
    click_label(page, "Reject: Tone")
    assert page.until(lambda: page.texts(".label-buttons .chip") == ["corrected"])
    labels = read_scores(folder / "labels.jsonl")["q2 (step 0)"]
    assert (labels.score(1, "Facts"), labels.score(1, "Tone")) == (scores[0], 1.0 - (scores[1] or 0.0))
    assert not any("NotEmpty" in text for text in page.texts(".label-buttons"))  # a program decided it
    click_label(page, "Reject: Tone")
    assert page.until(lambda: not page.texts(".label-buttons .chip"))
    assert page.complaints() == []


def test_labels_of_a_report_are_saved_as_a_file(driver: Any, tmp_path: Path) -> None:
    driver.execute_cdp_cmd("Page.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)})
    write_report(make_run(1, 0.0), tmp_path / "report.html")
    page = ReportPage(driver, tmp_path / "report.html", "#group=0&rollout=0")
    click_label(page, "Reject: Facts")
    page.until(lambda: page.text(".save-list") == "Save labels")
    page.run("document.querySelector('.save-list button').click()")
    page.until(lambda: (tmp_path / "labels.jsonl").exists())
    labels = load_scores(tmp_path / "labels.jsonl", Columns(declared=("Facts", "Tone"))).table
    assert [group.id for group in labels] == ["q0 (step 0)"]
    assert labels["q0 (step 0)"].score(0, "Facts") == 0.0
    assert len(labels["q0 (step 0)"].scores) == 4


def test_two_runs_are_named_by_folder_and_differ_with_intervals(driver: Any, folder: Path) -> None:
    paths = [folder / name / "records.jsonl" for name in ("a", "b")]
    assert name_runs(paths) == ["a", "b"]
    with served(*paths) as viewer:
        page = Page(driver, viewer, "#view=compare&first=1&second=0")
        heads = page.texts("#compare table thead th")
        assert heads[1:4] == ["records.jsonl", "records.jsonl", "Difference"]  # names as this test gave them: none
        row = next(text for text in page.texts("#compare table:first-of-type tbody tr") if text.startswith("Facts"))
        assert "±" in row
        assert "−0." in row  # the first run less the second, as the address asks
        assert page.complaints() == []


def test_curves_are_smoothed_zoomed_and_lead_to_groups(driver: Any, viewer: Viewer) -> None:
    page = Page(driver, viewer, "#view=steps&smooth=3&from=1&to=4")
    ranges = page.run("return [...document.querySelectorAll('#steps .plot')].map((p) => p.dataset.steps)")
    assert set(ranges) == {"1 4"}
    assert page.texts("#steps .measured")
    svg = "document.querySelectorAll('#steps .plot svg')[0]"
    page.run(f"const box = {svg}.getBoundingClientRect(); {svg}.dispatchEvent(new MouseEvent('click', "
             "{ clientX: box.left + box.width * 0.99, clientY: box.top + 20, bubbles: true }))")  # fmt: skip
    assert page.until(lambda: "step=4" in page.run("return location.hash"))
    page.becomes("#groups .status", "8 of 48 groups")
    assert page.complaints() == []


def test_a_drag_zooms_even_if_it_ends_outside_the_chart(driver: Any, viewer: Viewer) -> None:
    from selenium.webdriver import ActionChains

    page = Page(driver, viewer, "#view=steps")
    svg = driver.find_elements("css selector", "#steps .plot svg")[0]
    page.run("arguments[0].scrollIntoView({ block: 'center' })", svg)
    width = svg.rect["width"]
    drag = ActionChains(driver).move_to_element(svg).click_and_hold()
    drag.move_by_offset(int(width * 0.2), 3).move_by_offset(int(width * 0.5), 0).release().perform()
    assert page.until(lambda: "from=2&to=5" in page.run("return location.hash"))
    assert page.run("return document.documentElement.dataset.view") == "steps", "the drag is not a click on a point"
    assert page.run("return String(getSelection())") == ""
    assert page.complaints() == []


def test_a_number_out_of_range_is_brought_back(driver: Any, folder: Path) -> None:
    lengths = {"attribute_names": ("n",), "attributes": ((10.0,), (20.0,), (30.0,), (40.0,))}
    write_records(folder / "c" / "records.jsonl", [make_run(1, 0.0)[0].model_copy(update=lengths)])
    find = "const field = [...document.querySelectorAll('[data-key]')].find((f) => f.dataset.key === arguments[0]); "
    write = find + "field.value = arguments[1]; field.dispatchEvent(new Event('change'));"
    with served(folder / "c" / "records.jsonl") as viewer:
        page = Page(driver, viewer, "#group=0")
        page.run("document.querySelector('.what-if').open = true")
        for key, typed, shown in (("lam", "2", "1"), ("lam", "3", "1"), ("weight Facts", "-1", "0")):
            page.run(write, key, typed)
            page.until(lambda: not page.run("return document.querySelector('.group').ariaBusy"))
            assert page.run(find + "return field.value", key) == shown
        assert '"lam":1' in unquote(page.run("return location.hash"))
        assert page.complaints() == []


def test_a_range_without_points_says_so_and_can_be_left(driver: Any, folder: Path) -> None:
    records = [record.model_copy(update={"step": 10 * (record.step or 0)}) for record in make_run(1, 0.0)]
    write_records(folder / "d" / "records.jsonl", records)
    with served(folder / "d" / "records.jsonl") as viewer:
        page = Page(driver, viewer, "#view=steps&from=12&to=18")
        assert "No points between these steps." in page.text("#steps")
        page.run("[...document.querySelectorAll('#steps button')].find((b) => b.textContent === 'Whole run').click()")
        assert page.until(lambda: page.texts("#steps .plot figcaption"))
        assert page.complaints() == []


@pytest.mark.skipif(not AXE, reason="needs axe-core: npm pack axe-core, and AXE_PATH=…/axe.min.js")
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_axe_finds_no_violation(bench: ModuleType, viewer: Viewer, tmp_path: Path, theme: str, size: str) -> None:
    """Every view of the viewer and of a report, with all its parts open and two responses compared, in both themes."""
    axe = Path(AXE).read_text(encoding="utf-8")
    hashes = [
        "#view=summary",
        "#view=steps",
        "#group=0&rollout=1",
        "#group=0",
        "#view=groups",
        "#view=compare",
        "#view=evaluation",
    ]
    found = []
    write_report(make_run(1, 0.0), tmp_path / "report.html")
    report_hashes = ["#view=summary", "#view=steps", "#group=0&rollout=1", "#view=groups"]
    with bench.browser(*SIZES[size]) as driver:
        for kind, hash in [*(("view", hash) for hash in hashes), *(("report", hash) for hash in report_hashes)]:
            page: Any
            if kind == "view":
                page = Page(driver, viewer, hash)
            else:
                page = ReportPage(driver, tmp_path / "report.html", hash)
            if "rollout=" in hash:
                page.run(
                    "const select = document.querySelector('.rollout-head select'); select.value = '0';"
                    "select.dispatchEvent(new Event('change'))"
                )
                assert page.run("return document.querySelector('.side-by-side') !== null")
            page.run("document.documentElement.dataset.theme = arguments[0]", theme)
            page.run("document.querySelectorAll('main details').forEach((d) => { d.open = true; })")
            if kind == "view" and "group=" in hash:
                page.until(lambda page=page: page.texts(".same tbody tr"))
            page.driver.execute_cdp_cmd("Runtime.evaluate", {"expression": axe})
            violations = driver.execute_async_script(
                "const done = arguments[arguments.length - 1]; axe.run().then((result) => done(result.violations))"
            )
            for violation in violations:
                nodes = [node["html"][:160] for node in violation["nodes"][:3]]
                found.append((kind, hash, violation["id"], violation["help"], len(violation["nodes"]), nodes))
    assert not found, "\n".join(map(str, found))
