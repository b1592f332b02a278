"""The report in a real browser: the same page as the viewer's, with its data inside and no server."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from browser import NEEDS_BROWSER
from cases import is_thorough

from rubrank.drafting.draft import draft_rubric
from rubrank.evaluation.benchmark import ItemScore
from rubrank.evaluation.runs import EvalRun
from rubrank.evaluation.table import report_data
from rubrank.records.record import GroupRecord, explain
from rubrank.viewer.group_data import State, find_states
from rubrank.viewer.report import write_draft_report, write_evaluation_report, write_report

pytestmark = NEEDS_BROWSER
EVIL = (
    "<script>document.title='got you'</script>",
    "</script><img src=x onerror=\"document.title='got you'\">",
    "\u2028x",
)


class Page:
    """A report that is open."""

    def __init__(self, driver: Any, path: Path, hash: str = "") -> None:
        self.driver = driver
        driver.get("about:blank")
        driver.get(path.resolve().as_uri() + hash)
        self.until(lambda: self.run("return document.documentElement.dataset.ready"), 60)

    def run(self, script: str, *arguments: object) -> Any:
        return self.driver.execute_script(script, *arguments)

    def until(self, condition: Callable[[], Any], seconds: float = 30) -> Any:
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, seconds, poll_frequency=0.05).until(lambda _: condition())

    def find(self, selector: str) -> list[Any]:
        return self.driver.find_elements("css selector", selector)

    def text(self, selector: str) -> str:
        return self.run("return document.querySelector(arguments[0]).textContent", selector)

    def choose(self, label: str, value: str) -> None:
        """Set one of the filters, as a hand would."""
        script = """
        const fields = [...document.querySelectorAll(".controls label")];
        const field = fields.find((found) => found.textContent.startsWith(arguments[0]));
        const select = field.querySelector("select");
        select.value = arguments[1];
        select.dispatchEvent(new Event("change"));
        """
        self.run(script, label, value)

    def search(self, words: str) -> None:
        box = self.driver.find_element("id", "query")
        box.clear()
        box.send_keys(words)

    def complaints(self) -> list[str]:
        """What the console says, and words that no reader should see."""
        ours = """
        const main = document.querySelector("main").cloneNode(true);
        main.querySelectorAll(".said, .title, .reason").forEach((element) => element.remove());
        return main.textContent;
        """
        slips = re.findall(r".{0,30}(?:undefined|NaN|\[object|false|null).{0,9}", self.run(ours))
        return [entry["message"] for entry in self.driver.get_log("browser")] + slips


@pytest.fixture(scope="module")
def driver(bench: ModuleType) -> Iterator[Any]:
    with bench.browser() as found:
        yield found


@pytest.fixture(scope="module")
def demo_page(driver: Any, demo_records: list[GroupRecord], tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("report") / "demo.html"
    write_report(demo_records, path, title="Demo")
    return path


@pytest.fixture
def page(driver: Any, demo_page: Path) -> Iterator[Page]:
    opened = Page(driver, demo_page)
    yield opened
    assert opened.complaints() == []


def test_the_summary_has_every_part(page: Page, demo_records: list[GroupRecord]) -> None:
    assert [link.text for link in page.find("nav a")] == ["Summary", "Steps", "Groups"]
    titles = page.run("return [...document.querySelectorAll('#summary h2')].map((title) => title.textContent)")
    assert titles == [
        "What to look at",
        "Overview",
        "Criteria",
        "Conflicts between criteria",
        "Length and form",
        "Gates",
        "Rules compared",
    ]
    tiles = page.text("#summary .tiles")
    rollouts = sum(record.size for record in demo_records)
    assert all(w in tiles for w in (f"Groups{len(demo_records)}", f"Rollouts{rollouts}", "Rulerlvr2", "Missing scores"))
    assert "Pairs seen in at least" in page.text("#summary")
    assert len(page.find("#summary .whisker")) > 5
    assert "Truncated" in page.text("#summary .gates")
    assert "unadjusted" in page.text("#summary")
    texts = page.run("return [...document.querySelectorAll('#summary .histogram text')].map((t) => t.textContent)")
    assert {"rollouts", "reward", "0"} <= set(texts)


def test_the_words_are_those_of_python(driver: Any, demo_page: Path, demo_records: list[GroupRecord]) -> None:
    page = Page(driver, demo_page, "#group=0")
    for button in page.find(".rollouts tbody button"):
        button.click()
        shown = page.run("return [...document.querySelectorAll('.why summary, .why p')].map((p) => p.textContent)")
        expected = explain(demo_records[0], int(button.text)).split("\n")
        assert shown[0] == expected[0]
        # The page has a true minus sign before contributions, as in its other numbers.
        assert shown[1:] == [line.strip().replace(" → -", "−").replace(" → ", "") for line in expected[1:]]
    assert page.complaints() == []


def test_filters_and_search(driver: Any, demo_page: Path, demo_records: list[GroupRecord]) -> None:
    page = Page(driver, demo_page, "#view=groups")
    total = f"{len(demo_records)} groups"
    page.until(lambda: page.text(".status") == f"{len(demo_records)} of {total}")
    disagreeing = sum(State.RULES_DISAGREE in find_states(record) for record in demo_records)
    page.choose("State", "rulesDisagree")
    page.until(lambda: page.text(".status") == f"{disagreeing} of {total}")
    page.choose("State", "")
    words = (demo_records[7].responses or ("",))[3][20:60].strip()
    holders = sum(words.lower() in " ".join(record.responses or ()).lower() for record in demo_records)
    page.search(words.replace("\n", ""))
    page.until(lambda: page.text(".status") == f"{holders} of {total}")
    assert page.text(".row strong") == demo_records[7].group
    page.search("no group says such a thing")
    page.until(lambda: page.text(".status") == f"0 of {total}")
    assert "No group matches" in page.text(".list")
    assert page.complaints() == []


def test_a_group_opens_by_click_by_key_and_by_address(
    driver: Any, demo_page: Path, demo_records: list[GroupRecord]
) -> None:
    from selenium.webdriver.common.keys import Keys

    page = Page(driver, demo_page, "#view=groups")
    page.find(".row")[2].click()
    page.until(lambda: page.text(".group-name") == demo_records[2].group)
    page.find(".list")[0].send_keys(Keys.ARROW_DOWN)
    page.until(lambda: page.text(".group-name") == demo_records[3].group)
    assert page.run("return location.hash") == "#view=groups&group=3"
    page.run("location.hash = '#group=5&rollout=2'")
    page.until(lambda: page.text(".group-name") == demo_records[5].group)
    assert page.text(".rollout-head h2") == "Rollout 2"
    assert page.complaints() == []


def test_a_criterion_leads_to_its_groups(page: Page) -> None:
    name = page.text("#summary .opener .name")
    page.run("document.querySelector('#summary .opener').click()")
    page.run("document.querySelector('#summary .extra:not([hidden]) button:last-child').click()")
    page.until(lambda: f"criterion={name}" in page.run("return location.hash"))


def test_contrast_is_enough(page: Page) -> None:
    """WCAG AA, 4.5 : 1, of the text colours on both grounds."""
    script = """
    const linear = (x) => (x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4);
    const light = (c) => {
      const [r, g, b] = c.match(/[\\d.]+/g).map((x) => linear(x / 255));
      return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    const probe = document.body.appendChild(document.createElement("i"));
    const colour = (name) => { probe.style.color = `var(${name})`; return light(getComputedStyle(probe).color); };
    const found = [];
    for (const theme of ["light", "dark"]) {
      document.documentElement.dataset.theme = theme;
      for (const [ink, ground] of arguments[0]) {
        const [a, b] = [colour(ink), colour(ground)].sort((x, y) => y - x);
        found.push([theme, ink, ground, (a + 0.05) / (b + 0.05)]);
      }
    }
    probe.remove();
    return found;
    """
    pairs = [[ink, ground] for ink in ("--ink", "--muted", "--accent") for ground in ("--bg", "--surface", "--sunken")]
    pairs += [["--bad", "--bad-soft"], ["--warn", "--warn-soft"], ["--accent", "--accent-soft"]]
    assert [found for found in page.run(script, pairs) if found[3] < 4.5] == []


def test_everything_has_a_name(page: Page) -> None:
    script = """
    const named = (e) => e.getAttribute("aria-label") || e.textContent.trim() || e.closest("label");
    const roles = "[role=img], [role=region], [role=listbox], nav, article";
    return [...document.querySelectorAll(`button, select, input, ${roles}`)]
      .filter((e) => !named(e)).map((e) => e.outerHTML.slice(0, 120));
    """
    assert page.run(script) == []
    ids = page.run("return [...document.querySelectorAll('[id]')].map((e) => e.id)")
    assert len(ids) == len(set(ids))


@pytest.mark.parametrize("hash", ["", "#group=1"])
def test_a_phone_needs_no_scrolling_sideways(bench: ModuleType, demo_page: Path, hash: str) -> None:
    with bench.browser(390, 844) as driver:
        page = Page(driver, demo_page, hash)
        for opener in page.find("details:not([open]) > summary"):
            page.run("arguments[0].click()", opener)
        assert page.run("return [innerWidth, document.documentElement.scrollWidth]") == [390, 390]
        assert page.complaints() == []


def test_what_responses_say_is_not_done(driver: Any, tmp_path: Path, record_of: Callable[..., GroupRecord]) -> None:
    given = {"responses": EVIL, "reasoning": EVIL, "prompt": tuple({"role": "user", "content": t} for t in EVIL)}
    record = record_of(
        {EVIL[0]: [0.0, 1.0, 1.0], "B": [1.0, 0.0, 0.0]},
        [0.0, 1.0, 1.0],
        group=EVIL[1],
        rule=EVIL[1],
        flags=EVIL,
        reasons=tuple((text, text) for text in EVIL),
        metadata={"a": EVIL[1]},
        others={EVIL[0]: (0.0, 1.0, 0.5)},
        **given,
    )
    write_report([record], tmp_path / "evil.html", title="Kept")
    page = Page(driver, tmp_path / "evil.html", "#group=0")
    shown = []
    for button in page.find(".rollouts tbody button"):
        button.click()
        shown.append(page.text(".rollout .answer"))
    assert shown == [EVIL[1], EVIL[2], EVIL[0]]
    assert page.text(".group-name") == EVIL[1]
    assert page.run("return [document.title, document.images.length]") == ["Kept", 0]
    assert page.complaints() == []


def test_steps_rules_without_utilities_and_odd_groups(
    driver: Any, tmp_path: Path, rule_records: list[GroupRecord], odd_records: list[GroupRecord]
) -> None:
    odd = [record.model_copy(update={"step": 2 + n % 3}) for n, record in enumerate(odd_records)]
    write_report([*rule_records, *odd], tmp_path / "steps.html")
    page = Page(driver, tmp_path / "steps.html", "#view=steps")
    assert len(page.find("#steps .plot")) > 3
    for g in range(len(rule_records) - 1, len(rule_records) + len(odd)):
        page.run("location.hash = arguments[0]", f"#group={g}")
        page.until(lambda g=g: page.run("return document.querySelector('.group')?.dataset.group") == str(g))
        assert page.find(".why .headline")
    assert page.complaints() == []


def test_benchmarks_are_drawn_if_some_were_run(driver: Any, tmp_path: Path, demo_records: list[GroupRecord]) -> None:
    evaluation = {
        "columns": ["IFEval", "overall"],
        "rows": [{"model": "step 0", "points": [12.5, 12.5]}, {"model": "<b>step 20</b>", "points": [None, 20.0]}],
        "intervals": [[[8.0, 17.0], None], [None, None]],
        "notes": ["step 0, IFEval: prompt strict, 32 of 32 scored"],
        "curves": [{"name": "IFEval, prompt strict", "points": [[0, 12.5, 4.0], [20, 20.0, None]]}],
    }
    write_report(demo_records[:2], tmp_path / "benchmarks.html", evaluation=evaluation)
    page = Page(driver, tmp_path / "benchmarks.html", "#view=evaluation")
    part = "#evaluation"
    assert "12.50" in page.text(part)
    bar = "return getComputedStyle(document.querySelector('.bar-span')).getPropertyValue('--from')"
    assert page.run(bar) == "8.00%"
    assert "8.0 to 17.0" in page.text(part)
    assert "<b>step 20</b>" in page.text(part)
    assert len(page.find(f"{part} .plot")) == 1
    assert "32 of 32 scored" in page.text(part)
    assert page.complaints() == []


def test_a_run_of_eval_alone_opens_at_its_benchmarks(driver: Any, tmp_path: Path) -> None:
    scores = tuple(ItemScore(str(n), {"correct": float(n % 2)}) for n in range(10))
    run = EvalRun("frames", "<i>a</i>", {"context": "oracle"}, scores, {"accuracy": 0.5})
    write_evaluation_report(report_data([run]), tmp_path / "benchmarks.html", title="One run")
    page = Page(driver, tmp_path / "benchmarks.html")
    assert [link.text for link in page.find("#nav a")] == ["Benchmarks"]
    assert "<i>a</i>" in page.text("#evaluation")
    assert "50.00" in page.text("#evaluation")
    assert page.find("#evaluation .bar-span")
    assert page.driver.title == "One run"
    page.run("location.hash = '#view=groups&group=3'")
    page.until(lambda: page.run("return document.documentElement.dataset.view") == "evaluation")
    assert page.complaints() == []


def test_drafted_rubrics_open_at_the_prompt_of_the_address(driver: Any, tmp_path: Path) -> None:
    drafts = tmp_path / "rubrics.jsonl"
    prompts = ("Use at most 30 words.", EVIL[1], "Reply in French.")
    lines = [json.dumps(draft_rubric(prompt, activate=False).to_row()) + "\n" for prompt in prompts]
    drafts.write_text("".join(lines), encoding="utf-8")
    write_draft_report(drafts, tmp_path / "drafts.html", title="Drafts")
    address = (tmp_path / "drafts.html").as_uri()

    def shown() -> tuple[list[str], list[str]]:
        headings = [e.text for e in driver.find_elements("css selector", ".prompt h2") if e.is_displayed()]
        return headings, [e.text for e in driver.find_elements("css selector", "nav a[aria-current]")]

    driver.get("about:blank")
    driver.get(address)
    assert shown() == (["Prompt 1 of 3"], [prompts[0]])
    driver.find_elements("css selector", "nav a")[2].click()
    assert shown() == (["Prompt 3 of 3"], [prompts[2]])
    driver.get("about:blank")
    driver.get(address + "#row-2")
    assert shown() == (["Prompt 2 of 3"], [prompts[1]])
    driver.get("about:blank")
    driver.get(address + "#row-9")
    assert shown()[0] == ["Prompt 1 of 3"], "an address that names no prompt"
    assert driver.title == "Drafts"
    assert driver.get_log("browser") == []


def test_nothing_is_written_into_the_address_by_itself(page: Page) -> None:
    assert page.run("return [location.hash, scrollY]") == ["", 0]


def test_tool_calls_and_turns_are_shown(driver: Any, tmp_path: Path, record_of: Callable[..., GroupRecord]) -> None:
    call = {"name": "search", "arguments": {"q": "tides"}, "result": "3 hits", "error": True}
    turns = (({"role": "assistant", "content": "I look.", "tool_calls": [call], "reasoning": "hm"},), ())
    prompt = ({"role": "user", "content": "Why?"}, {"role": "assistant", "content": "", "tool_calls": [call]})
    record = record_of({"A": [1.0, 0.0]}, [1.0, 0.0], turns=turns, prompt=prompt, responses=("Moon.", "Sun."))
    write_report([record], tmp_path / "r.html")
    page = Page(driver, tmp_path / "r.html", "#group=0")
    for place in (".before", ".prompt"):
        said = page.text(place)
        assert all(words in said for words in ("search", '{"q": "tides"}', "3 hits", "failed"))
    assert "I look." in page.text(".before")
    assert page.text(".rollout .answer") == "Moon."
    assert page.complaints() == []


def test_comparisons_say_wins_and_losses(driver: Any, tmp_path: Path, odd_records: list[GroupRecord]) -> None:
    write_report(odd_records[:1], tmp_path / "r.html")
    page = Page(driver, tmp_path / "r.html", "#group=0")
    assert "≷" not in page.text("main")
    cells = page.run(
        "return [...document.querySelectorAll('.rollouts tbody td:nth-child(5)')].map((c) => c.firstChild.data)"
    )
    assert all(re.fullmatch(r"\d+–\d+", cell) for cell in cells)


def test_conflicts_ask_for_a_minimum(page: Page) -> None:
    part = "[aria-label='Conflicts between criteria']"
    choose = f"""
    const select = document.querySelector("{part} select");
    select.value = arguments[0];
    select.dispatchEvent(new Event("change"));
    """
    counts = []
    for least in ("1", "2", "5"):
        page.run(choose, least)
        counts.append(len(page.find(f"{part} td.plus, {part} td.minus")))
    assert counts[0] > counts[1] >= counts[2]
    assert counts[2] or "seen in 5 groups" in page.text(part)


def test_thousands_of_groups(driver: Any, bench: ModuleType, tmp_path: Path) -> None:
    """Ready within a minute wherever this runs; benchmarks/report.py prints how soon."""
    N = 10_000 if is_thorough() else 1_500
    summary = write_report(bench.synthetic_records(N, 8, 20, texts=False), tmp_path / "many.html")
    assert summary.rollouts == 8 * N
    page = Page(driver, tmp_path / "many.html", "#view=groups")
    far = 9 * N // 10
    print(f"{summary.bytes / 1e6:.1f} MB, ready after", page.run("return document.documentElement.dataset.ready"), "ms")
    assert len(page.find(".row")) < 60
    page.run(f"document.querySelector('.list').scrollTop = 68 * {far}")
    page.until(lambda: page.find(f"#row-{far}"))
    page.find(f"#row-{far}")[0].click()
    page.until(lambda: page.text(".group-name") == f"query-{far:05}")
    page.choose("Step", "100")
    page.until(lambda: page.text(".status") == f"{N // 20} of {N:,} groups")
    page.choose("Step", "")
    page.search("query-01234")
    page.until(lambda: page.text(".status") == f"1 of {N:,} groups", 60)
    assert page.complaints() == []
