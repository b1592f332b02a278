"""How soon `rubrank view` shows a long run, how quickly it answers, and how much memory it takes.

    python benchmarks/viewer.py                         100,000 groups of 8 rollouts, with texts: about 2 GB
    python benchmarks/viewer.py --groups 20000 --keep run.jsonl

The run is made of real records, the demo's, each with another name, step and rewards. The server is a process of its
own; memory is what Linux says of it (/proc/PID/status). The browser part needs Chromium, chromedriver and selenium.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from rubrank import grade, records_of
from rubrank.cli.demo.groups import load_demo_groups

QUESTIONS = {
    "all rows": "index?run=0",
    "rows from the middle on": "index?run=0&start={middle}",
    "scores of a criterion": "scores?run=0&criterion={criterion}",
    "one group": "group?run=0&g={middle}",
    "another rule": "group?run=0&g={middle}&changes=%7B%22rule%22%3A%22gdpo%2B%22%7D",
    "curves": "curves",
    "the same prompt": "same?run=0&g={middle}",
}


def write_run(path: Path, groups: int, steps: int) -> None:
    """Real records, repeated with other names, steps and a little noise on the rewards."""
    rolled = list(load_demo_groups())
    table = grade(rolled, workers=0)
    records = [
        json.loads(r.model_dump_json(exclude_defaults=True)) for r in records_of(table.fuse(), table, groups=rolled)
    ]
    random = np.random.default_rng(0)
    with path.open("w", encoding="utf-8") as file:
        for g in range(groups):
            record = dict(records[g % len(records)])
            record["group"] = f"{record['group']}-{g:06d}"
            record["step"] = g * steps // groups
            record["reward"] = [round(min(1.0, max(0.0, x + random.normal(0, 0.05))), 6) for x in record["reward"]]
            file.write(json.dumps(record, ensure_ascii=False, separators=(",", ":")) + "\n")


@contextmanager
def serve_file(path: Path) -> Iterator[tuple[str, int]]:
    """The viewer over a file: its address and its process."""
    command = [sys.executable, "-m", "rubrank", "view", str(path), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), process.pid
    finally:
        process.terminate()
        process.wait(timeout=20)


def ask(address: str, question: str) -> Any:
    with urllib.request.urlopen(f"{address}api/{question}", timeout=120) as answer:
        return json.loads(answer.read())


def memory(pid: int) -> dict[str, float]:
    """Megabytes now and at most."""
    status = Path(f"/proc/{pid}/status").read_text()
    return {name: int(re.search(rf"{name}:\s+(\d+)", status)[1]) / 1024 for name in ("VmRSS", "VmHWM")}  # type: ignore[index]


def seconds_of(pid: int) -> float:
    """Processor time that a process has taken: what a machine with other work on it would need if it were idle."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def report_time(what: str, start: float, pid: int) -> None:
    print(f"{what} {time.perf_counter() - start:.2f} s after the command; {seconds_of(pid):.2f} s of processor time")


def until(condition: Any, seconds: float = 900.0) -> float:
    start = time.perf_counter()
    while not condition() and time.perf_counter() - start < seconds:
        time.sleep(0.2)
    return time.perf_counter() - start


def answer_times(address: str, groups: int, repeats: int = 5) -> dict[str, float]:
    """Median milliseconds of every question; the first of each is left out, as it may compile."""
    criterion = ask(address, "state")["runs"][0]["criteria"][0]
    seconds_by_request = {}
    for name, question in QUESTIONS.items():
        times = []
        for n in range(repeats + 1):
            filled = question.format(middle=groups // 2 + n, criterion=criterion)
            start = time.perf_counter()
            ask(address, filled)
            times.append(time.perf_counter() - start)
        seconds_by_request[name] = 1000.0 * float(np.median(times[1:]))
    return seconds_by_request


def search_time(address: str, groups: int) -> float:
    """Seconds until a word that one group has is found, and the search is through."""
    begun = time.perf_counter()
    first_group = 0
    while first_group < groups:
        first_group = ask(address, f"search?run=0&query=-{groups - 1:06d}&start={first_group}")["next"]
    return time.perf_counter() - begun


def page_time(address: str) -> float | None:
    """Seconds until a browser shows the list of groups and the first one; None without a browser."""
    if not (shutil.which("chromium") and shutil.which("chromedriver")):
        return None
    from report import browser  # benchmarks/report.py

    with browser(1440, 900) as driver:
        start = time.perf_counter()
        driver.get(address + "#view=groups")
        until(lambda: driver.execute_script("return document.documentElement.dataset.ready"), 60)
        return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--groups", type=int, default=100_000)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--keep", type=Path, help="where to leave the run; used again if it is there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = options.keep or Path(folder) / "records.jsonl"
        if not path.exists():
            write_run(path, options.groups, options.steps)
        print(f"{options.groups:,} groups, {path.stat().st_size / 1e6:,.0f} MB")
        start = time.perf_counter()
        with serve_file(path) as (address, pid):
            up = time.perf_counter() - start
            ask(address, "state")
            report_time(f"server up after {up:.2f} s, first rows", start, pid)
            seconds = page_time(address)
            print(
                "no browser here"
                if seconds is None
                else f"page ready {seconds:.2f} s after it was opened, while reading"
            )
            state = lambda: ask(address, "state")["runs"][0]  # noqa: E731
            until(lambda: state()["groups"] == options.groups)
            report_time("all groups can be opened", start, pid)
            until(lambda: state()["ready"] == options.groups)
            report_time("all read", start, pid)
            used = memory(pid)
            print(f"memory {used['VmRSS']:.0f} MB, at most {used['VmHWM']:.0f} MB")
            for name, milliseconds in answer_times(address, options.groups).items():
                print(f"  {name}: {milliseconds:.0f} ms")
            print(f"  search through all texts: {search_time(address, options.groups):.1f} s")
            seconds = page_time(address)
            print("" if seconds is None else f"page ready {seconds:.2f} s after it was opened, all read")


if __name__ == "__main__":
    main()
