"""The served page in a real browser: every control does what it says, and no text is executed."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from browser import NEEDS_BROWSER
from viewer.viewing import Viewer, served, wait_for

from rubrank.records.files import write_records
from rubrank.records.record import GroupRecord
from rubrank.viewer.group_data import State, find_states

pytestmark = NEEDS_BROWSER
EVIL = (
    "<script>document.title='got you'</script>",
    "</script><img src=x onerror=\"document.title='got you'\">",
    "'\"><b>",
)


class Page:
    """The viewer, opened in a browser."""

    def __init__(self, driver: Any, viewer: Viewer, hash: str = "") -> None:
        self.driver, self.viewer = driver, viewer
        driver.get("about:blank")
        driver.get_log("browser")  # of the page before, whose server may be gone
        driver.get(viewer.address + hash)
        assert self.until(lambda: self.run("return document.documentElement.dataset.ready"), 60)

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def until(self, condition: Callable[[], Any], seconds: float = 30) -> Any:
        return wait_for(condition, seconds)

    def text(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0])?.textContent ?? ''", selector)

    def texts(self, selector: str) -> list[str]:
        return self.run("return [...document.querySelectorAll(arguments[0])].map((e) => e.textContent)", selector)

    def becomes(self, selector: str, text: str) -> None:
        assert self.until(lambda: self.text(selector) == text), f"{selector}: {self.text(selector)!r}, not {text!r}"

    def select(self, label: str, value: str) -> None:
        """Choose in a field, as a hand would."""
        script = """
        const fields = [...document.querySelectorAll("section:not([hidden]) label.field, nav label.field")];
        const field = fields.find((found) => found.firstChild.textContent === arguments[0]);
        field.querySelector("select").value = arguments[1];
        field.querySelector("select").dispatchEvent(new Event("change"));
        """
        self.run(script, label, value)

    def press(self, key: str) -> None:
        self.run("document.activeElement?.blur?.()")
        self.driver.find_element("tag name", "body").send_keys(key)

    def complaints(self) -> list[str]:
        ours = """
        const main = document.querySelector("main").cloneNode(true);
        main.querySelectorAll(".said, .title, .reason").forEach((element) => element.remove());
        return main.textContent;
        """
        slips = re.findall(r".{0,30}(?:undefined|NaN|\[object|null).{0,9}", self.run(ours))
        problem = self.run("const p = document.querySelector('#problem'); return p.hidden ? '' : p.textContent")
        return [entry["message"] for entry in self.driver.get_log("browser")] + slips + ([problem] if problem else [])


@pytest.fixture(scope="module")
def driver(bench: ModuleType) -> Iterator[Any]:
    with bench.browser(1440, 900) as found:
        yield found


@pytest.fixture(scope="module")
def records(demo_records: list[GroupRecord]) -> list[GroupRecord]:
    return [r.model_copy(update={"step": n // 5}) for n, r in enumerate(demo_records)]


@pytest.fixture(scope="module")
def viewer(tmp_path_factory: pytest.TempPathFactory, records: list[GroupRecord]) -> Iterator[Viewer]:
    folder = tmp_path_factory.mktemp("browsed")
    write_records(folder / "a.jsonl", records)
    write_records(folder / "b.jsonl", [r.model_copy(update={"reward": tuple(reversed(r.reward))}) for r in records])
    with served(folder / "a.jsonl", folder / "b.jsonl") as found:
        yield found


@pytest.fixture
def page(driver: Any, viewer: Viewer) -> Iterator[Page]:
    opened = Page(driver, viewer)
    yield opened
    assert opened.complaints() == []


def test_steps_lead_to_groups(page: Page, records: list[GroupRecord]) -> None:
    assert page.text("#steps h2") == "a.jsonl"
    assert "Groups19" in page.text("#steps .tiles")
    assert len(page.texts("#steps .plot")) > 4
    assert page.texts("#steps tbody th button") == ["3", "2", "1", "0"]
    page.run("document.querySelector('#steps tbody tr:nth-child(2) th button').click()")
    page.becomes("#groups .status", "5 of 19 groups")
    page.becomes(".group-name", records[10].group)
    assert "step=2" in page.run("return location.hash")


def test_filters_sorting_and_clearing(page: Page, records: list[GroupRecord]) -> None:
    page.run("document.querySelector('nav a:nth-child(3)').click()")
    page.becomes("#groups .status", "19 of 19 groups")
    for state, bit in (("stopped", State.STOPPED), ("longestWins", State.LONGEST_WINS)):
        page.select("State", state)
        page.becomes("#groups .status", f"{sum(bit in find_states(r) for r in records)} of 19 groups")
    page.select("State", "")
    name = records[0].criteria[1].name
    page.select("Criterion", name)
    asked = [r for r in records if any(c.name == name for c in r.criteria)]
    page.becomes("#groups .status", f"{len(asked)} of 19 groups")
    page.select("Its score", "low")
    assert page.until(lambda: page.text("#groups .field.narrow span") == "Value")
    page.select("Sort by", "latest")
    page.run("[...document.querySelectorAll('.controls button')].pop().click()")
    page.becomes("#groups .status", "19 of 19 groups")
    assert page.run("return location.hash") == "#view=groups"


def test_search_marks_what_it_finds(page: Page, records: list[GroupRecord]) -> None:
    page.press("/")
    assert page.until(lambda: page.run("return document.activeElement.id") == "query")
    words = (records[7].responses or ("",))[3][20:50].strip()
    page.driver.switch_to.active_element.send_keys(words)
    assert page.until(lambda: page.text("#groups .status").startswith("1 of"))
    assert page.until(lambda: page.text(".group-name") == records[7].group)
    page.run("location.hash += '&rollout=3'")
    assert page.until(lambda: page.text(".rollout-head h2") == "Rollout 3")
    assert page.until(lambda: any(mark.lower() == words.lower() for mark in page.texts("mark")))


def test_permalinks_open_run_group_rollout_and_rule(driver: Any, viewer: Viewer, records: list[GroupRecord]) -> None:
    page = Page(driver, viewer, "#run=1&group=4&rollout=2&rule=gdpo%2B")
    assert page.text(".group-name") == records[4].group
    assert page.text(".rollout-head h2") == "Rollout 2"
    assert page.run("return document.querySelector('.group').dataset.rule") == "gdpo+"
    assert "As recorded" in page.text(".what-if-bar")
    link = page.run("return document.querySelector('.permalink').getAttribute('href')")
    assert link.startswith("#view=groups&run=1&group=4")
    assert page.complaints() == []


def test_the_rule_is_switched_in_place(page: Page, records: list[GroupRecord]) -> None:
    page.run("location.hash = '#group=0'")
    assert page.until(lambda: page.text(".group-name") == records[0].group)
    page.select("Rule", "weighted-mean+")
    assert page.until(lambda: page.run("return document.querySelector('.group').dataset.rule") == "weighted-mean+")
    assert page.texts(".chips .chip.info")[0] == "changed"
    page.select("Rule", "")
    assert page.until(lambda: page.run("return document.querySelector('.group').dataset.rule") == records[0].rule)


def test_the_keyboard(page: Page, records: list[GroupRecord]) -> None:
    page.press("3")
    assert page.until(lambda: page.text(".group-name") == records[0].group)
    page.press("j")
    assert page.until(lambda: page.text(".group-name") == records[1].group)
    page.press("k")
    assert page.until(lambda: page.text(".group-name") == records[0].group)
    first = page.text(".rollout-head h2")
    page.press("l")
    assert page.until(lambda: page.text(".rollout-head h2") != first)
    page.press("h")
    page.becomes(".rollout-head h2", first)
    page.press("c")
    assert page.until(lambda: len(page.texts(".side-text")) == 2)
    page.press("c")
    assert page.until(lambda: not page.texts(".side-text"))
    page.press("?")
    assert page.until(lambda: page.run("return document.querySelector('#keys').open"))
    page.run("document.querySelector('#keys button').click()")
    page.press("1")
    assert page.until(lambda: page.texts("#summary .tiles"))
    page.press("2")
    assert page.until(lambda: not page.run("return document.querySelector('#steps').hidden"))
    page.press("4")
    assert page.until(lambda: not page.run("return document.querySelector('#compare').hidden"))


def test_previous_next_and_back(page: Page, records: list[GroupRecord]) -> None:
    page.run("location.hash = '#group=3'")
    assert page.until(lambda: page.text(".group-name") == records[3].group)
    page.run("document.querySelectorAll('.steer button')[1].click()")
    assert page.until(lambda: page.text(".group-name") == records[4].group)
    page.run("document.querySelectorAll('.steer button')[0].click()")
    assert page.until(lambda: page.text(".group-name") == records[3].group)
    page.run("document.querySelectorAll('.row')[6].click()")
    assert page.until(lambda: "group=6" in page.run("return location.hash") or page.texts(".row.open"))


def test_runs_over_each_other_and_the_same_prompt(page: Page, records: list[GroupRecord]) -> None:
    page.run("[...document.querySelectorAll('nav a')].pop().click()")
    assert page.until(lambda: len(page.texts("#compare .plot")) > 4)
    legend = "return [...document.querySelector('#compare .lines-legend').children].map((line) => line.textContent)"
    assert page.run(legend) == ["a.jsonl", "b.jsonl"]
    assert page.until(lambda: len(page.texts("#compare tbody tr:has(a)")) == 19)
    page.run("document.querySelector('#compare tbody tr a').click()")
    assert page.until(lambda: page.texts(".group-name"))
    page.run("document.querySelector('.same').open = true")
    assert page.until(lambda: len(page.texts(".same tbody tr")) == 2)
    page.select("Best response beside that of", "0")
    assert page.until(lambda: len(page.texts(".same .side-text")) == 2)
    page.select("Run", "1")
    assert page.until(lambda: "run=1" in page.run("return location.hash"))


def test_files_can_be_saved(page: Page, tmp_path: Path, records: list[GroupRecord]) -> None:
    behaviour = {"behavior": "allow", "downloadPath": str(tmp_path)}
    page.driver.execute_cdp_cmd("Page.setDownloadBehavior", behaviour)
    page.run("document.querySelector('#steps .plot .save').childNodes.forEach((b) => b.click())")
    names = lambda: {path.name for path in tmp_path.iterdir()}  # noqa: E731
    assert page.until(lambda: {"stopped-by-a-gate.svg", "stopped-by-a-gate.png"} <= names()), names()
    assert (tmp_path / "stopped-by-a-gate.png").read_bytes().startswith(b"\x89PNG")
    assert (tmp_path / "stopped-by-a-gate.svg").read_text().startswith("<svg")
    page.run("document.querySelector('.steps-table h3 button').click()")
    assert page.until(lambda: "steps.csv" in names())
    page.run("location.hash = '#group=0'")
    assert page.until(lambda: page.texts(".save-group button"))
    page.run("document.querySelectorAll('.save-group button').forEach((b) => b.click())")
    stem = f"group-{records[0].group}"
    assert page.until(lambda: {f"{stem}.csv", f"{stem}.json"} <= names()), names()
    assert json.loads((tmp_path / f"{stem}.json").read_text())["id"] == records[0].group
    for at, name in enumerate(("groups.csv", "groups.jsonl")):
        page.run("document.querySelectorAll('.save-list a')[arguments[0]].click()", at)
        assert page.until(lambda name=name: name in names()), names()


def test_light_dark_and_still(page: Page) -> None:
    seen = {}
    for _ in range(3):
        page.press("t")
        ground = page.run("return getComputedStyle(document.documentElement).backgroundColor")
        seen[page.run("return document.documentElement.dataset.theme")] = ground
    assert (seen["light"], seen["dark"]) == ("rgb(247, 247, 245)", "rgb(21, 23, 27)")
    page.press("r")
    page.becomes("#live", "Paused")
    page.press("r")
    page.becomes("#live", "Live")


def test_everything_has_a_name(page: Page) -> None:
    page.run("location.hash = '#group=0'")
    assert page.until(lambda: page.texts(".group-name"))
    script = """
    const named = (e) => e.getAttribute("aria-label") || e.textContent.trim() || e.closest("label");
    const what = "button, select, input, a, [role=img], [role=region], [role=listbox], nav, article";
    return [...document.querySelectorAll(what)]
      .filter((e) => !named(e)).map((e) => e.outerHTML.slice(0, 120));
    """
    assert page.run(script) == []
    ids = page.run("return [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))


def test_new_records_appear_by_themselves(driver: Any, tmp_path: Path, records: list[GroupRecord]) -> None:
    path = tmp_path / "live.jsonl"
    write_records(path, records[:2])
    with served(path, live=True) as found:
        page = Page(driver, found, "#view=groups")
        page.becomes("#groups .status", "2 of 2 groups")
        write_records(path, records[2:6], append=True)
        page.becomes("#groups .status", "6 of 6 groups")
        assert page.text(".group-name") == records[0].group  # what is looked at stays
        assert page.complaints() == []


@pytest.mark.parametrize("hash", ["", "#view=summary", "#group=2", "#view=compare"])
def test_a_phone_needs_no_scrolling_sideways(bench: ModuleType, viewer: Viewer, hash: str) -> None:
    with bench.browser(390, 844) as driver:
        page = Page(driver, viewer, hash)
        page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
        page.until(lambda: page.texts(".same tbody tr") or hash != "#group=2")
        assert page.run("return [innerWidth, document.documentElement.scrollWidth]") == [390, 390]
        assert page.run("return scrollY") == 0
        assert page.complaints() == []


def test_what_texts_say_is_not_done(driver: Any, tmp_path: Path, record_of: Callable[..., GroupRecord]) -> None:
    call = {"name": EVIL[1], "arguments": {EVIL[0]: EVIL[1]}, "result": EVIL[1]}
    turn = {"role": EVIL[0], "content": EVIL[1], "tool_calls": [call], "reasoning": EVIL[0]}
    record = record_of(
        {EVIL[0]: [0.0, 1.0, 1.0], EVIL[1]: [1.0, 0.0, 0.5]},
        [0.0, 1.0, 1.0],
        group=EVIL[1],
        rule="rlvr2",
        step=0,
        flags=EVIL,
        responses=EVIL,
        reasoning=EVIL,
        prompt=(turn,),
        turns=((turn,), (turn,), ()),
        reasons=tuple((text, text) for text in EVIL),
        metadata={EVIL[1]: EVIL[0], "judges": {"asked": 1, "missing": EVIL[0]}},
        others={EVIL[0]: (0.0, 1.0, 0.5)},
        attribute_names=(EVIL[1],),
        attributes=((1.0,), (2.0,), (3.0,)),
    )
    path = tmp_path / "<img src=x onerror=alert(1)>.jsonl"
    write_records(path, [record, record.model_copy(update={"step": 1})])
    with served(path, path) as found:
        for hash in ("", f"#group=0&rollout=0&query={EVIL[2][:3]}", "#view=compare"):
            page = Page(driver, found, hash)
            page.run("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
            page.until(lambda page=page: page.texts(".same tbody tr, #compare tbody tr, #steps tbody tr"))
            title, images = page.run("return [document.title, document.images.length]")
            assert title.startswith("rubrank view: <img")
            assert images == 0
            assert page.complaints() == []


def test_odd_groups(
    driver: Any, tmp_path: Path, rule_records: list[GroupRecord], odd_records: list[GroupRecord], record_of: Any
) -> None:
    """Comparisons, spans, lower is better, one rollout, none, no criterion that says anything, no step."""
    odd = [*rule_records[:1], *odd_records, record_of({"A": []}, [], no_signal=True, group="empty")]
    write_records(tmp_path / "odd.jsonl", odd)
    with served(tmp_path / "odd.jsonl") as found:
        page = Page(driver, found)
        for g, record in enumerate(odd):
            page.run("location.hash = arguments[0]", f"#group={g}")
            wait = lambda g=g: page.run("return document.querySelector('.group').dataset.group") == str(g)  # noqa: E731
            assert page.until(wait)
            assert page.text(".group-name") == record.group
        assert page.complaints() == []


def test_the_focus_stays_where_it_is(driver: Any, tmp_path: Path, records: list[GroupRecord]) -> None:
    path = tmp_path / "live.jsonl"
    write_records(path, records[:2])
    with served(path, live=True) as found:
        page = Page(driver, found, "#view=groups")
        page.driver.find_element("id", "query").send_keys("e")
        write_records(path, [r.model_copy(update={"step": 50}) for r in records[2:4]], append=True)
        assert page.until(lambda: "of 4 groups" in page.text("#groups .status"))
        assert page.run("return [document.activeElement.id, document.activeElement.value]") == ["query", "e"]


def test_only_the_rows_in_view_of_a_long_list_exist(
    driver: Any, tmp_path: Path, record_of: Callable[..., GroupRecord]
) -> None:
    line = record_of({"A": [0.0, 1.0]}, [0.0, 1.0], group="GROUP", step=7).model_dump_json(exclude_defaults=True)
    text = "".join(
        line.replace("GROUP", f"q{n:05d}").replace('"step":7', f'"step":{n // 100}') + "\n" for n in range(20_000)
    )
    (tmp_path / "long.jsonl").write_text(text)
    with served(tmp_path / "long.jsonl") as found:
        page = Page(driver, found, "#view=groups")
        page.becomes("#groups .status", "20,000 of 20,000 groups")
        assert len(page.texts(".row")) < 60
        page.run("document.querySelector('.list').scrollTop = 68 * 15000")
        assert page.until(lambda: page.texts("#row-15000"))
        page.run("document.querySelector('#row-15000').click()")
        page.becomes(".group-name", "q15000")
        page.press("j")
        page.becomes(".group-name", "q15001")
        page.run("location.hash = '#group=19999'")
        page.becomes(".group-name", "q19999")
        assert page.until(lambda: page.texts("#row-19999"))
        assert page.complaints() == []
