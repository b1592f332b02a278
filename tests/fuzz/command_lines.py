"""Mutated command lines over all verbs: whatever is typed, the answer is an exit code and never a traceback.

    python tests/fuzz/command_lines.py --count 2000 --seed 7        prints what went wrong, and how much of it

Files are tiny and damaged in many ways; verbs run in this process. No judge is called: the only endpoint is a closed
port.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

LONG = "prompt_id,response_id,criterion,score\nq1,a,F,1\nq1,a,S,3\nq1,b,F,0\nq1,b,S,5\n"
ROWS = [{"id": "q1", "prompt": "Tell.", "responses": ["One two.", "One.", "Two, three."]}]
CONFORMANCE = {
    "key": 1,
    "prompt": "p",
    "instruction_id_list": ["punctuation:no_comma"],
    "kwargs": [{}],
    "responses": [{"response": "a, b", "strict": [False], "loose": [False]}],
}
JUDGE = {"judges": [{"name": "m", "endpoints": [{"base_url": "http://127.0.0.1:9/v1", "model": "m"}]}]}
SOURCES: dict[str, str] = {
    "wide.csv": "group,F,S\nq,1,2\nq,0,3\nr,1,1\n",
    "long.csv": LONG,
    "wide.jsonl": '{"group": "q", "scores": {"F": 1, "S": 2}}\n{"group": "q", "scores": {"F": 0, "S": 3}}\n',
    "r.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS),
    "c.jsonl": json.dumps(CONFORMANCE) + "\n",
    "rubric.yaml": "criteria:\n  - {name: WordCount, params: {low: 2}}\n  - Postscript\n",
    "judged.yaml": "criteria:\n  - {name: Kind, question: 'Kind?'}\n",
    "judges.json": json.dumps(JUDGE),
    "job.yaml": "model: {path: nowhere}\nstages: [{steps: 1, sources: [{path: r.jsonl}]}]\nrubric: rubric.yaml\n",
    "options.toml": 'group-column = "group"\n[weight]\nF = 2\n',
    "empty.jsonl": "",
}
VERBS: list[list[str]] = [
    ["check", "rubric.yaml"],
    ["check", "r.jsonl", "--json"],
    ["criteria", "WordCount"],
    ["criteria", "--family", "gate"],
    ["grade", "r.jsonl", "-r", "rubric.yaml", "-o", "out.parquet", "--workers", "0", "--cache", "none"],
    ["grade", "r.jsonl", "-r", "judged.yaml", "--judges", "judges.json", "--dry-run"],
    ["conformance", "c.jsonl"],
    ["fuse", "wide.csv", "--criteria", "F,S"],
    ["fuse", "long.csv", "--json"],
    ["fuse", "wide.jsonl", "-o", "out.csv"],
    ["explain", "wide.csv", "--criteria", "F,S", "--group", "q"],
    ["record", "wide.csv", "--criteria", "F,S", "-o", "records.jsonl"],
    ["report", "wide.csv", "--criteria", "F,S", "-o", "out.html"],
    ["replay", "wide.csv", "--criteria", "F,S", "--rules", "rlvr2,borda"],
    ["robustness", "wide.csv", "--criteria", "F,S", "--rules", "borda"],
    ["bench", "fusion", "wide.csv", "--criteria", "F,S", "--rounds", "1", "--rules", "borda"],
    ["judge", "audit", "wide.csv", "--criteria", "F,S", "--bootstrap", "5"],
    ["judge", "stats", "empty.jsonl"],
    ["judge", "check", "rubric.yaml"],
    ["train", "job.yaml", "--dry-run"],
    ["fuse", "wide.csv", "--criteria", "F,S", "--config", "options.toml"],
]
FLAGS = [
    "--weight",
    "F=2",
    "--set",
    "margin.F=-1",
    "lower=S",
    "model=thurstone",
    "prior=nan",
    "span=unit",
    "adjust=remove",
    "pool=batch",
    "gate.floor=2",
    "criteria=F,S",
    "any_order=true",
    "text_limit=-5",
    "budget=0",
    "prefix=new_",
    "batch_column=S",
    "domain.F=1:0",
    "--attributes",
    "tokens",
    "--global-quality",
    "F",
    "--low-quality",
    "S",
    "--group-column",
    "nope",
    "--criteria",
    "F,S",
    "--long",
    "--column",
    "response=x",
    "--rules",
    "all",
    "--rule",
    "gdpo+",
    "--transform",
    "F*10",
    "F^0",
    "F=0:0,1:1",
    "--step",
    "0",
    "--rounds",
    "-1",
    "--json",
    "--quiet",
    "--force",
    "--timeout",
    "soon",
    "--compat",
    "upstream",
    "--mode",
    "loose",
    "--most-missing",
    "2",
    "--seed",
    "--title",
    "x",
    "--bootstrap",
    "0",
    "--positions",
    "--humans",
    "--picture",
    "out.png",
    "--details",
    "--utilities",
    "-o",
    "-r",
    "--judges",
    "--cache-only",
    "--rollouts",
    "--winners",
    "--rollout",
    "99",
    "--group",
    "--config",
    "--help",
    "--others",
]
WORDS = [
    "",
    " ",
    "-",
    "--",
    ".",
    "..",
    "/",
    "/dev/null",
    "nope.csv",
    "*.csv",
    "é",
    "\ud800",
    "\0",
    "1e400",
    "-1",
    "NaN",
    "true",
    "a=b",
    "F=",
    "=",
    "[",
    "{}",
    "'",
    "x" * 300,
    "hf:",
    "gates",
    "rlvr2:prior=-1",
    "rlvr2*gdpo+",
    "focal:gamma=x",
]
DAMAGE = [
    b"\xff\xfe",
    b"\x00",
    b'{"',
    b"\n,,,\n",
    b"]",
    b"nan",
    b"1e999",
    b'"',
    b"\r",
    b"\xed\xa0\x80",
    b"{{{{",
    b"- [",
    b"&a *a",
]


@contextmanager
def workplace() -> Iterator[Path]:
    """A folder of its own to run in."""
    before = Path.cwd()
    with tempfile.TemporaryDirectory(prefix="rubrank-fuzz-") as name:
        os.chdir(name)
        try:
            yield Path(name)
        finally:
            os.chdir(before)


def mutated_files(pick: random.Random) -> None:
    """The files as they should be, and some of them damaged."""
    for name, text in SOURCES.items():
        data = text.encode()
        if pick.random() < 0.35 and data:
            at, bad = pick.randrange(len(data)), pick.choice(DAMAGE)
            how = pick.randrange(4)
            data = [data[:at], data[:at] + bad + data[at:], data[at:], data[:at] + bad + data[at + len(bad) :]][how]
        Path(name).write_bytes(data)


def mutated_line(pick: random.Random) -> list[str]:
    """A command line with things dropped, swapped, added and replaced."""
    line = list(pick.choice(VERBS))
    names = [*SOURCES, *WORDS]
    for _ in range(pick.choice((0, 0, 1, 1, 2, 3))):
        at, how = pick.randrange(len(line) + 1), pick.randrange(5)
        if how == 0 and len(line) > 1:
            line.pop(at % len(line))
        elif how == 1:
            line.insert(at, pick.choice(FLAGS))
        elif how == 2:
            line[at % len(line)] = pick.choice(names)
        elif how == 3:
            line += [pick.choice(FLAGS), pick.choice([*FLAGS, *names])]
        else:
            line.insert(at, pick.choice(names))
    return line


def fault(app: Any, line: list[str]) -> str | None:
    """What is wrong with the answer to a command line; None if it is an exit code and clean words."""
    result = CliRunner().invoke(app, line, input="")
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        return f"{type(result.exception).__name__}: {str(result.exception)[:100]}"
    return "a traceback in the output" if "Traceback (most recent" in result.output else None


def run(count: int, seed: int, seconds: float = float("inf")) -> tuple[int, list[tuple[list[str], str]]]:
    """How many lines were tried, and those that went wrong."""
    from rubrank.cli.app import app

    pick, wrong, tried, end = random.Random(seed), [], 0, time.monotonic() + seconds
    while tried < count and time.monotonic() < end:
        with workplace():
            mutated_files(pick)
            for _ in range(min(12, count - tried)):
                line = mutated_line(pick)
                tried += 1
                found = fault(app, line)
                if found is not None:
                    wrong.append((line, found))
                if time.monotonic() > end:
                    break
    return tried, wrong


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=float("inf"))
    given = parser.parse_args()
    tried, wrong = run(given.count, given.seed, given.seconds)
    for line, found in wrong[:40]:
        print(" ".join(line)[:160].encode("utf-8", "backslashreplace").decode(), "→", found)
    print(Counter(found.partition(":")[0] for _, found in wrong).most_common())
    print(f"{tried} command lines, {len(wrong)} with something else than an exit code")
    sys.exit(bool(wrong))
