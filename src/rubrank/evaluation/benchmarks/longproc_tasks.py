"""The measures of LongProc's tasks: a prediction and its example → accuracy, partial credit, could it be read."""

from __future__ import annotations

import csv
import json
import re
import secrets
import string
from collections.abc import Sequence
from typing import TypeAlias

from rubrank._plain import word_list
from rubrank.evaluation.benchmark import Row
from rubrank.evaluation.benchmarks.helmet_metrics import harmonic_mean, normalise
from rubrank.verifiers.shared import sandbox

Values: TypeAlias = dict[str, float]

_NOTHING = {"accuracy": 0.0, "partial": 0.0, "extraction": 0.0}
_RIGHT = {"accuracy": 1.0, "partial": 1.0, "extraction": 1.0}
_SMALL_WORDS = re.compile(
    r"\b(?:a|an|the|on|in|at|step|thinks|think|believes|believe|is|are|of|location|know|knows|belief)\b"
)
_ARTICLES = re.compile(r"\b(?:a|an|the)\b")
_NO_PUNCTUATION = str.maketrans("", "", string.punctuation + "\u2019")
_EQUATION = re.compile(r"\s*(-?\d+)\s*([-+*/])\s*(-?\d+)\s*=\s*(-?\d+)\s*")
_LEG = re.compile(r"Day (\d+).*from (\w+) to (\w+)")
_SPAN = re.compile(r"\d+-(\d+)")


def find_tag(text: str, tag: str) -> str | None:
    """What stands between the first <tag> and the first </tag>."""
    start, end = text.find(f"<{tag}>"), text.find(f"</{tag}>")
    return None if start == -1 or end == -1 else text[start + len(tag) + 2 : end].strip()


def first_difference(a: Sequence[str], b: Sequence[str]) -> int | None:
    """The first place where both have something, and not the same."""
    return next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), None)


def path_traversal(prediction: str, example: Row) -> Values:
    """Lines of the route; the first wrong line still counts as reached."""
    route = find_tag(prediction, "Route")
    if route is None:
        return dict(_NOTHING)
    expected, got = str(example["reference_output"]).strip().split("\n"), route.split("\n")
    if expected == got:
        return dict(_RIGHT)
    wrong = first_difference(expected, got)
    reached = min(len(expected), len(got)) if wrong is None else wrong + 1
    return {"accuracy": 0.0, "partial": reached / len(expected), "extraction": 1.0}


def tom_tracking(prediction: str, example: Row) -> Values:
    """Beliefs step by step, compared loosely."""
    expected, got = _list_beliefs(str(example["reference_output"])), _list_beliefs(prediction)
    if expected == got:
        return dict(_RIGHT)
    wrong = first_difference(expected, got)
    reached = min(len(expected), len(got)) if wrong is None else wrong
    return {"accuracy": 0.0, "partial": reached / len(expected) if expected else 0.0, "extraction": 1.0}


def _list_beliefs(text: str) -> list[str]:
    """The lines that begin with a dash; an indented one counts only as the first of the text."""
    block = "\n".join(line for line in text.splitlines() if line.strip().startswith("-")).strip()
    lines = [line[1:] for line in block.split("\n") if line.startswith("-")]
    loose = [_SMALL_WORDS.sub(" ", line.lower().translate(_NO_PUNCTUATION)) for line in lines]
    return [belief for line in loose if (belief := " ".join(line.split()))]


def countdown(prediction: str, example: Row) -> Values:
    """A solution that works is right; else the share of the search up to its first error."""
    solution = find_tag(prediction, "Solution")
    if solution is not None and solves(list(example["nums"]), int(example["target"]), solution):
        return dict(_RIGHT)
    values = {"accuracy": 0.0, "partial": 0.0, "extraction": float(solution is not None)}
    title = "# Search Procedure"
    if title in prediction:
        expected = str(example["reference_output"]).split(title)[-1].split("Now we have found the target")[0]
        values["partial"] = _score_search(prediction.split(title)[-1], expected)
    return values


def solves(numbers: list[int], target: int, solution: str) -> bool:
    """Three equations that use up the numbers and end in the target."""
    lines = solution.split("\n")
    if len(lines) != 3:
        return False
    for line in lines:
        equation = _EQUATION.fullmatch(line)
        if equation is None:
            return False
        a, sign, b, c = int(equation[1]), equation[2], int(equation[3]), int(equation[4])
        right = {"+": a + b == c, "-": a - b == c, "*": a * b == c, "/": b != 0 and b * c == a}[sign]
        for used in (a, b):
            if used not in numbers:
                return False
            numbers.remove(used)
        if not right:
            return False
        numbers.append(c)
    return numbers[0] == target


def _score_search(procedure: str, expected: str) -> float:
    got_first, *got = procedure.strip().split("\n")
    first, *lines = expected.strip().split("\n")
    if got_first != first or not lines:
        return 0.0
    at = -1
    for at, (line, right) in enumerate(zip(got, lines, strict=False)):  # noqa: B007 - the last place reached counts
        if not _same_step(line, right):
            break
    return max(at, 0) / len(lines)


def _same_step(line: str, right: str) -> bool:
    if line == right:
        return True
    if "Pick two numbers" in right or "|- Try" not in right:
        return False
    drops = "drop this branch"
    return line.split("=")[0] == right.split("=")[0] and (drops in right) == (drops in line)


def travel_planning(prediction: str, example: Row) -> Values:
    """Cities and days of the plan, else the share of the search up to its first error."""
    plan = find_tag(prediction, "Plan")
    if plan is not None and _parse_stays(plan) == _expected_stays(example):
        return dict(_RIGHT)
    expected = _list_steps(str(example["reference_output"]))
    got = _list_steps(prediction)
    at = -1
    for at, (line, right) in enumerate(zip(got, expected, strict=False)):  # noqa: B007 - the last place reached counts
        if normalise(right) not in normalise(line):
            break
    return {
        "accuracy": 0.0,
        "partial": max(at, 0) / len(expected) if expected else 0.0,
        "extraction": float(plan is not None),
    }


def _expected_stays(example: Row) -> list[tuple[str, int]]:
    cities = [city for city in str(example["ground_truth_cities"]).split("**") if city]
    days = [int(n) for n in str(example["ground_truth_durations"]).split("**") if n]
    return list(zip(cities, days, strict=True))


def _parse_stays(plan: str) -> list[tuple[str, int]]:
    """(city, days) as the flights cut the days; days of arrival and departure both count."""
    legs = [(int(m[1]), m[2], m[3]) for line in plan.split("\n") if (m := _LEG.search(line))]
    ends = [int(m[1]) for line in plan.split("\n") if (m := _SPAN.search(line))]
    if not legs or not ends:
        return []
    cities = [legs[0][1], *(leg[2] for leg in legs)]
    days = [1, *(leg[0] for leg in legs), ends[-1]]
    return [(city, days[i + 1] - days[i] + 1) for i, city in enumerate(cities)]


def _list_steps(text: str) -> list[str]:
    begins = "<Solving Procedure>"
    text = text.replace("Output the plan in the required format:", "")
    text = begins + text.split(begins)[1] if begins in text else text
    return [line.rstrip() for line in text.strip().split("\n") if line.strip()]


def html_to_tsv(prediction: str, example: Row) -> Values:
    """Rows found, whatever their order; F1 is the accuracy."""
    block = re.search(r"```tsv([\s\S]*)```", prediction)
    text = block[1] if block else prediction.split("```tsv")[1] if "```tsv" in prediction else prediction
    got, expected = _parse_table(text), _parse_table(str(example["reference_output"]))
    nothing = {"accuracy": 0.0, "f1": 0.0, "precision": 0.0, "recall": 0.0, "extraction": 0.0}
    if got is None or expected is None or got[0] != expected[0] or not got[1]:
        return nothing
    rows, right = got[1], set(expected[1])
    precision = sum(row in right for row in rows) / len(rows)
    recall = sum(row in set(rows) for row in expected[1]) / len(expected[1])
    f1 = harmonic_mean(precision, recall)
    return {"accuracy": f1, "f1": f1, "precision": precision, "recall": recall, "extraction": 1.0}


def _parse_table(text: str) -> tuple[int, list[tuple[str, ...]]] | None:
    """(columns, rows) with cells compared loosely; a row of another width matches none, at the end it is dropped."""
    lines = list(csv.reader(text.strip().split("\n"), delimiter="\t"))
    if not lines or not lines[0]:
        return None
    width, rows = len(lines[0]), lines[1:]
    if rows and len(rows[-1]) != width:
        rows = rows[:-1]
    return width, [
        tuple(normalise(cell).replace(" ", "") for cell in row) if len(row) == width else ("na",) * width
        for row in rows
    ]


# ------------------------------------------------------------------------------------------------- pseudo_to_code

_CPP_CASES = 10
_CPP_SECONDS = 3.0
_CPP_BLOCK = re.compile(r"```(?:cpp|c\+\+)([\s\S]*)```")
_CPP_HEADERS = word_list("""
    cstdio iostream vector algorithm numeric cmath cstring set map queue stack list fstream climits cassert iomanip
    sstream bitset
""")
_CPP_PRELUDE = "".join(f"#include <{name}>\n" for name in _CPP_HEADERS) + "using namespace std;\n"
_CPP_DRIVER = """
import json, subprocess, sys
task = json.load(open("task.json"))
build = subprocess.run(["g++", "-std=c++11", "-O", "-o", "main", "main.cpp"], capture_output=True)
outcome = "does not compile" if build.returncode else "passed"
if not build.returncode:
    for number, (lines, expected) in enumerate(task["cases"], 1):
        try:
            program = subprocess.run(["./main"], input=("\\n".join(lines) + "\\n").encode(), capture_output=True,
                                  timeout=task["seconds"])
        except subprocess.TimeoutExpired:
            outcome = f"case {number} runs out of time"
            break
        if program.stdout != ("\\n".join(expected) + "\\n").encode():
            outcome = f"case {number} prints something else"
            break
print(task["mark"] + outcome)
"""


def run_cpp_tests(output: str, cases: Sequence[Sequence[Sequence[str]]]) -> tuple[bool | None, str]:
    """Does the program in the output pass the first ten cases, and what happened; None if it could not be run here."""
    block = _CPP_BLOCK.search(output)
    if block is None:
        return False, "no code"
    mark = secrets.token_hex(16)
    task = json.dumps({"cases": list(cases)[:_CPP_CASES], "seconds": _CPP_SECONDS, "mark": mark})
    files = {"main.cpp": _CPP_PRELUDE + block[1], "driver.py": _CPP_DRIVER, "task.json": task}
    limits = sandbox.Limits(seconds=20 + _CPP_CASES * _CPP_SECONDS, cpu=60, memory=2048, processes=32, output=4)
    try:
        result = sandbox.run(["python", "driver.py"], files=files, limits=limits)
    except (sandbox.NoIsolation, sandbox.SandboxFailed) as error:
        return None, f"the sandbox did not run it: {error}"
    stdout = result.stdout.decode("utf-8", "replace")
    if "No such file or directory: 'g++'" in result.stderr.decode("utf-8", "replace"):
        return None, "g++ is not installed"
    if mark not in stdout:
        return False, result.why
    outcome = stdout.split(mark)[-1].strip()
    return outcome == "passed", outcome
