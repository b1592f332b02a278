"""How long a report of many groups takes to write, how large it is, and how soon a browser shows it.

    python benchmarks/report.py                        10,000 groups × 8 rollouts, 10 criteria, 3 attributes, 50 steps
    python benchmarks/report.py --groups 2000 --keep report.html

Records are made here: latent qualities, noisy criteria, a judge that likes length, prose of 40 to 400 words. The
browser part needs Chromium, chromedriver and selenium, and is left out without them.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from rubrank import attenuate
from rubrank.records.files import write_records
from rubrank.records.record import GroupRecord, records_of
from rubrank.rollouts.rollout import Group, Message, Rollout
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.viewer.report import BUDGET_MB, write_report

CRITERIA = (
    *(CriterionData(f"Rule{k}", weight=1.0 + (k % 3), verifier="WordCount") for k in range(5)),
    *(CriterionData(f"Judge{k}", weight=1.0) for k in range(4)),
    CriterionData("Brevity", direction="lower"),
    CriterionData("NotEmpty", layer="global_quality", verifier="EmptyAnswer"),
    CriterionData("NoTemplate", layer="low_quality"),
)
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-sync",
    "--disable-background-networking",
    "--disable-component-update",
    "--hide-scrollbars",
)


def synthetic_records(groups: int, rollouts: int, steps: int, texts: bool = True) -> Iterator[GroupRecord]:
    """Records of a made-up run, a step at a time."""
    random = np.random.default_rng(0)
    each = max(1, groups // steps)
    for step, start in enumerate(range(0, groups, each)):
        step_groups = [
            _group(random, g, rollouts, step / steps, texts) for g in range(start, min(groups, start + each))
        ]
        table = ScoreTable(tuple(scores for _, scores, _ in step_groups))
        length = np.concatenate([words for _, _, words in step_groups])
        result = table.fuse(
            attributes=np.column_stack([length, random.poisson(1.0, len(length)), random.poisson(0.5, len(length))]),
            attribute_names=("tokens", "headings", "bold"),
            adjust=[attenuate(0.5, draw="fixed"), "remove", "remove"],
        )
        plain = table.fuse().reward
        other_rewards = {"unadjusted": plain, "noisy": plain + random.normal(0.0, 0.2, len(plain))}
        rolled = [group for group, _, _ in step_groups] if texts else None
        metadata = {"judge": {"calls": 4 * rollouts, "cost": round(float(random.uniform(0.1, 0.2)), 4)}}
        yield from records_of(result, table, groups=rolled, step=10 * step, others=other_rewards, metadata=metadata)


def _group(
    random: np.random.Generator, g: int, rollouts: int, progress: float, texts: bool
) -> tuple[Group, GroupScores, np.ndarray]:
    quality = random.normal(progress, 1.0, rollouts)
    words = random.integers(40, 400, rollouts)
    noise = random.normal(0.0, 1.0, (rollouts, len(CRITERIA)))
    scores = np.empty((rollouts, len(CRITERIA)))
    scores[:, :5] = quality[:, None] + noise[:, :5] > 0.0
    scores[:, 5:9] = (
        np.clip(np.round(3.0 + quality[:, None] + words[:, None] / 200.0 - 1.0 + noise[:, 5:9]), 1, 5) / 5.0
    )
    scores[:, 9] = words / 400.0
    scores[:, 10] = random.random(rollouts) > 0.02
    scores[:, 11] = random.random(rollouts) > 0.05
    scores[random.random(scores.shape) < 0.01] = np.nan
    why = tuple(
        tuple("no answer in 120 s" if x != x else f"{x:.2g} found, 1 required" for x in row) for row in scores.tolist()
    )
    prompt = (Message(role="user", content=f"Question {g}: {_prose(random, 30)}"),)
    responses = [_prose(random, int(n)) if texts else "" for n in words]
    group = Group(id=f"query-{g:05d}", rollouts=tuple(Rollout(prompt=prompt, response=text) for text in responses))
    return group, GroupScores(group.id, CRITERIA, scores, why), words.astype(float)


def _prose(random: np.random.Generator, words: int) -> str:
    return " ".join(_vocabulary()[random.integers(0, len(_vocabulary()), words)])


@cache
def _vocabulary() -> np.ndarray:
    """20,000 made-up words: such prose compresses about as well as real one."""
    random = np.random.default_rng(1)
    syllables = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "an", "er", "is")]
    return np.array(["".join(random.choice(syllables, n)) for n in random.integers(1, 5, 20_000)])


@contextmanager
def browser(width: int = 1280, height: int = 900) -> Iterator[Any]:
    """A headless Chromium of that size, with a profile of its own."""
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        for flag in (*FLAGS, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
            options.add_argument(flag)
        driver = Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
            driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
            yield driver
        finally:
            driver.quit()


def opening_times(path: Path, groups: int) -> tuple[float, float, float]:
    """Seconds until the page is ready, until a filter answers, and until a text is found."""
    from selenium.webdriver.support.ui import WebDriverWait

    with browser() as driver:
        driver.get(path.resolve().as_uri())
        wait = WebDriverWait(driver, 120, poll_frequency=0.05)
        ready = wait.until(lambda d: d.execute_script("return document.documentElement.dataset.ready"))
        filtering = driver.execute_script(
            "const label = [...document.querySelectorAll('.controls label')].find((l) => /^State/.test(l.textContent));"
            "const select = label.querySelector('select'), start = performance.now();"
            "for (const value of ['stopped', '']) {"
            "  select.value = value; select.dispatchEvent(new Event('change'));"
            "  document.querySelector('.list').getBoundingClientRect(); }"
            "return (performance.now() - start) / 2;"
        )
        search_result = f"1 of {groups:,} groups"
        start = time.perf_counter()
        driver.find_element("id", "query").send_keys(f"question {groups - 1}:")
        wait.until(lambda d: d.find_element("css selector", ".status").text == search_result)
        return int(ready) / 1000.0, filtering / 1000.0, time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=10_000)
    parser.add_argument("--rollouts", type=int, default=8)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--budget", type=float, default=BUDGET_MB, help="megabytes")
    parser.add_argument("--keep", type=Path, help="where to leave the report")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        records = Path(folder) / "records.jsonl"
        report = Path(folder) / "report.html"
        write_records(records, synthetic_records(options.groups, options.rollouts, options.steps))
        start = time.perf_counter()
        summary = write_report(records, report, budget_mb=options.budget)
        took = time.perf_counter() - start
        print(f"records {records.stat().st_size / 1e6:.1f} MB, report {summary.bytes / 1e6:.1f} MB in {took:.1f} s")
        print(f"texts cut to {summary.text_limit:,} characters: {summary.cut_texts:,} of them")
        if shutil.which("chromium") and shutil.which("chromedriver"):
            ready, filtering, searching = opening_times(report, options.groups)
            answers = f"a filter takes {filtering * 1e3:.0f} ms, a full-text search {searching:.1f} s"
            print(f"ready after {ready:.2f} s, {answers}")
        else:
            print("no Chromium here: opening was not measured")
        if options.keep:
            shutil.copy(report, options.keep)


if __name__ == "__main__":
    main()
