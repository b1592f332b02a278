"""LongProc: long procedures carried out line by line; six tasks at three lengths.

    path_traversal     lines of <Route>; partial = (first wrong line + 1) / lines
    tom_tracking       lines that begin with "-", compared without punctuation and small words
    countdown          three equations of <Solution>; the search before them is only graded if they are wrong
    travel_planning    cities and days of <Plan>
    html_to_tsv        rows of the ```tsv block: F1, precision, recall
    pseudo_to_code     the ```cpp block, compiled and run on test cases in the sandbox

A row has `task` ("countdown_0.5k"), `prediction` and, once for each `index`, the `example` with its reference. Each
task has a function that compares a prediction with its example. It returns accuracy, partial credit, and "extraction":
was an answer found in the prediction? The rules, oddities included, are those of the authors' evaluators.
"""

from __future__ import annotations

import csv
import json
import re
import secrets
import string
from collections.abc import Callable, Sequence
from typing import Any, ClassVar, TypeAlias

from rubrank._plain import word_list
from rubrank.evaluation.benchmark import (
    Benchmark,
    DataFile,
    ItemScore,
    Metrics,
    MissingScore,
    Row,
    Setting,
    harmonic_mean,
    mean,
)
from rubrank.evaluation.benchmarks.helmet import normalise
from rubrank.verifiers.shared import sandbox

Values: TypeAlias = dict[str, float]

# Values of an output in which no answer was found, and of one that is completely right.
_UNREADABLE = {"accuracy": 0.0, "partial": 0.0, "extraction": 0.0}
_RIGHT = {"accuracy": 1.0, "partial": 1.0, "extraction": 1.0}
# Words that are ignored when beliefs are compared.
_SMALL_WORDS = re.compile(
    r"\b(?:a|an|the|on|in|at|step|thinks|think|believes|believe|is|are|of|location|know|knows|belief)\b"
)
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation + "\u2019")
# Numbers are limited, because Python refuses to read one of thousands of digits.
_NUMBER = r"(-?\d{1,18})"
# "3 * 14 = 42"
_EQUATION = re.compile(rf"\s*{_NUMBER}\s*([-+*/])\s*{_NUMBER}\s*=\s*{_NUMBER}\s*")
# "Day 5: fly from Rome to Oslo"
_FLIGHT = re.compile(r"Day (\d{1,9}).*from (\w+) to (\w+)")
# "Day 5-9": the last day of a stay
_SPAN = re.compile(r"\d+-(\d{1,9})")


class LongProc(Benchmark):
    """Six tasks at 0.5k, 2k and 8k tokens."""

    name = "longproc"
    title = "LongProc"
    capability = "long context"
    headline = "score"
    licence = "Apache-2.0"
    data = DataFile(
        "longproc.jsonl", "git clone princeton-pli/LongProc and export its examples as JSON lines"
    )
    settings: ClassVar = {
        "levels": Setting("all", ("all", "0.5k", "2k", "8k"), "which lengths count in the score")
    }

    outputs = ("prediction", "output", "response")

    def item_id(self, row: Row) -> str:
        """Return task and number."""
        if "task" in row and "index" in row:
            return f"{row['task']}/{row['index']}"
        return super().item_id(row)

    def score(self, item: Row, output: str, replies: Sequence[str]) -> ItemScore:
        """Return the score by the task's own function."""
        task, _, level = str(item["task"]).rpartition("_")
        example: Any = item.get("example") or item
        labels = {"task": task, "level": level}
        values = _TASKS[task](output, example)
        return ItemScore(self.item_id(item), values, labels=labels)

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """Return accuracy (F1 for html_to_tsv) of each task and level, and the mean over them."""
        levels = self.options["levels"]
        cells: dict[str, list[ItemScore]] = {}
        for score in scores:
            if levels in ("all", score.labels["level"]):
                cells.setdefault(f"{score.labels['task']}_{score.labels['level']}", []).append(
                    score
                )
        metrics: Metrics = {}
        for name, members in sorted(cells.items()):
            metrics[name] = mean(score.values["accuracy"] for score in members)
            for part in sorted(members[0].values):
                metrics[f"{name}/{part}"] = mean(score.values[part] for score in members)
        return {"score": mean(metrics[name] for name in cells), **metrics}


# -------------------------------------------------------------------------------------------------------------- tasks


def _find_tag(text: str, tag: str) -> str | None:
    """Return the text between the first <tag> and the first </tag>; None if one of them is missing."""
    start = text.find(f"<{tag}>")
    end = text.find(f"</{tag}>")
    if start == -1 or end == -1:
        return None
    return text[start + len(tag) + 2 : end].strip()


def _score_lines(lines: Sequence[str], expected: Sequence[str], *, counts_wrong: bool) -> Values:
    """Compare lists line by line; partial credit is the share of lines up to the first wrong one.

    counts_wrong: whether the first wrong line still counts as reached.
    """
    if expected == lines:
        return dict(_RIGHT)
    common = min(len(expected), len(lines))
    reached = common
    for i in range(common):
        if expected[i] != lines[i]:
            reached = i + counts_wrong
            break
    partial = reached / len(expected) if expected else 0.0
    return {"accuracy": 0.0, "partial": partial, "extraction": 1.0}


def score_path_traversal(prediction: str, example: Row) -> Values:
    """Compare the lines of the route; the first wrong line still counts as reached."""
    route = _find_tag(prediction, "Route")
    if route is None:
        return dict(_UNREADABLE)
    expected = str(example["reference_output"]).strip().split("\n")
    return _score_lines(route.split("\n"), expected, counts_wrong=True)


def score_tom_tracking(prediction: str, example: Row) -> Values:
    """Compare the beliefs step by step, loosely."""
    expected = _list_beliefs(str(example["reference_output"]))
    return _score_lines(_list_beliefs(prediction), expected, counts_wrong=False)


def _list_beliefs(text: str) -> list[str]:
    """Return the lines that begin with a dash; an indented one counts only as the first of the text."""
    block = "\n".join(line for line in text.splitlines() if line.strip().startswith("-")).strip()
    beliefs = []
    for line in block.split("\n"):
        if line.startswith("-"):
            words = _SMALL_WORDS.sub(" ", line[1:].lower().translate(_WITHOUT_PUNCTUATION)).split()
            if words:
                beliefs.append(" ".join(words))
    return beliefs


def score_countdown(prediction: str, example: Row) -> Values:
    """Check the solution; if it is wrong, give credit for the share of the search up to its first error."""
    solution = _find_tag(prediction, "Solution")
    if solution is not None and is_solution(
        list(example["nums"]), int(example["target"]), solution
    ):
        return dict(_RIGHT)
    values = {"accuracy": 0.0, "partial": 0.0, "extraction": float(solution is not None)}
    title = "# Search Procedure"
    if title in prediction:
        expected = (
            str(example["reference_output"])
            .split(title)[-1]
            .split("Now we have found the target")[0]
        )
        values["partial"] = _score_search(prediction.split(title)[-1], expected)
    return values


def is_solution(numbers: list[int], target: int, solution: str) -> bool:
    """Return whether three equations use up the numbers and end in the target."""
    lines = solution.split("\n")
    if len(lines) != 3:
        return False
    for line in lines:
        equation = _EQUATION.fullmatch(line)
        if equation is None:
            return False
        a = int(equation[1])
        b = int(equation[3])
        result = int(equation[4])
        # Each number may be used once; a result may be used in a later equation.
        for operand in (a, b):
            if operand not in numbers:
                return False
            numbers.remove(operand)
        is_right = {
            "+": a + b == result,
            "-": a - b == result,
            "*": a * b == result,
            "/": b != 0 and b * result == a,
        }
        if not is_right[equation[2]]:
            return False
        numbers.append(result)
    return numbers[0] == target


def _score_search(procedure: str, expected: str) -> float:
    """Return the credit for the search before the solution: 0 if it begins with another line."""
    first_line, *lines = procedure.strip().split("\n")
    expected_first_line, *expected_lines = expected.strip().split("\n")
    if first_line != expected_first_line:
        return 0.0
    return _measure_progress(lines, expected_lines, _is_same_step)


def _measure_progress(
    steps: Sequence[str], expected: Sequence[str], is_same: Callable[[str, str], bool]
) -> float:
    """Return the share of the expected steps before the first that differs; the last step reached does not count."""
    last_reached = 0
    for i, (step, expected_step) in enumerate(zip(steps, expected, strict=False)):
        last_reached = i
        if not is_same(step, expected_step):
            break
    return last_reached / len(expected) if expected else 0.0


def _is_same_step(line: str, expected_line: str) -> bool:
    """Return whether it is the same line, or tries the same equation and decides the same about its branch."""
    if line == expected_line:
        return True
    if "Pick two numbers" in expected_line or "|- Try" not in expected_line:
        return False
    drops_branch = "drop this branch"
    is_same_equation = line.split("=")[0] == expected_line.split("=")[0]
    return is_same_equation and (drops_branch in expected_line) == (drops_branch in line)


def score_travel_planning(prediction: str, example: Row) -> Values:
    """Check cities and days of the plan; if they are wrong, give credit for the search up to its first error."""
    plan = _find_tag(prediction, "Plan")
    cities = [city for city in str(example["ground_truth_cities"]).split("**") if city]
    days = [int(number) for number in str(example["ground_truth_durations"]).split("**") if number]
    expected_stays = list(zip(cities, days, strict=True))
    if plan is not None and _parse_stays(plan) == expected_stays:
        return dict(_RIGHT)
    partial = _measure_progress(
        _list_steps(prediction),
        _list_steps(str(example["reference_output"])),
        lambda step, expected_step: normalise(expected_step) in normalise(step),
    )
    return {"accuracy": 0.0, "partial": partial, "extraction": float(plan is not None)}


def _parse_stays(plan: str) -> list[tuple[str, int]]:
    """Return (city, days) between the flights; days of arrival and departure both count."""
    flights = [match for line in plan.split("\n") if (match := _FLIGHT.search(line))]
    last_days = [match for line in plan.split("\n") if (match := _SPAN.search(line))]
    if not flights or not last_days:
        return []
    cities = [flights[0][2], *(flight[3] for flight in flights)]
    days = [1, *(int(flight[1]) for flight in flights), int(last_days[-1][1])]
    return [(city, days[i + 1] - days[i] + 1) for i, city in enumerate(cities)]


def _list_steps(text: str) -> list[str]:
    """Return the lines of the search for a plan."""
    marker = "<Solving Procedure>"
    text = text.replace("Output the plan in the required format:", "")
    if marker in text:
        text = marker + text.split(marker)[1]
    return [line.rstrip() for line in text.strip().split("\n") if line.strip()]


def score_html_to_tsv(prediction: str, example: Row) -> Values:
    """Count the rows that are right, in any order; F1 is the accuracy."""
    block = re.search(r"```tsv([\s\S]*)```", prediction)
    if block is not None:
        text = block[1]
    elif "```tsv" in prediction:
        text = prediction.split("```tsv")[1]
    else:
        text = prediction
    table = _parse_table(text)
    expected = _parse_table(str(example["reference_output"]))
    if table is None or expected is None or table[0] != expected[0] or not table[1]:
        return {"accuracy": 0.0, "f1": 0.0, "precision": 0.0, "recall": 0.0, "extraction": 0.0}
    rows = table[1]
    expected_rows = expected[1]
    common_rows = set(rows) & set(expected_rows)
    precision = sum(row in common_rows for row in rows) / len(rows)
    recall = sum(row in common_rows for row in expected_rows) / len(expected_rows)
    f1 = harmonic_mean(precision, recall)
    return {"accuracy": f1, "f1": f1, "precision": precision, "recall": recall, "extraction": 1.0}


def _parse_table(text: str) -> tuple[int, list[tuple[str, ...]]] | None:
    """Return the number of columns, and the rows with cells in a loose form; None if the text is no table.

    A row of another width matches no other row; if it is the last one, it is dropped.
    """
    try:
        header, *rows = csv.reader(text.strip().split("\n"), delimiter="\t")
    except csv.Error:  # a carriage return within a line, or a cell of more than 128 kB
        return None
    if not header:
        return None
    width = len(header)
    if rows and len(rows[-1]) != width:
        rows = rows[:-1]
    loose_rows = []
    for row in rows:
        if len(row) == width:
            loose_rows.append(tuple(normalise(cell).replace(" ", "") for cell in row))
        else:
            loose_rows.append(("na",) * width)
    return width, loose_rows


# The C++ programs of pseudo_to_code.
_CPP_CASES = 10  # test cases of an item that are run
_CPP_SECONDS = 3.0  # for one test case
_CPP_BLOCK = re.compile(r"```(?:cpp|c\+\+)([\s\S]*)```")
_CPP_HEADERS = word_list("""
    cstdio iostream vector algorithm numeric cmath cstring set map queue stack list fstream climits cassert iomanip
    sstream bitset
""")
_CPP_PRELUDE = "".join(f"#include <{name}>\n" for name in _CPP_HEADERS) + "using namespace std;\n"
# Runs in the sandbox. It writes the mark, which the program cannot guess, only if all test cases pass.
_CPP_DRIVER = """
import json, subprocess, sys
task = json.load(open("task.json"))
subprocess.run(["g++", "-std=c++11", "-O", "-o", "main", "main.cpp"], capture_output=True, check=True)
for lines, expected in task["cases"]:
    program = subprocess.run(["./main"], input=("\\n".join(lines) + "\\n").encode(), capture_output=True,
                             timeout=task["seconds"])
    if program.stdout != ("\\n".join(expected) + "\\n").encode():
        sys.exit("another output")
print(task["mark"])
"""


def score_pseudo_to_code(prediction: str, example: Row) -> Values:
    """Compile the program and run it on the first ten test cases, all of which it must pass."""
    cases = list(example["testcases"])[:_CPP_CASES]
    block = _CPP_BLOCK.search(prediction)
    if block is None:
        return dict(_UNREADABLE)
    mark = secrets.token_hex(16)
    task = json.dumps({"cases": cases, "seconds": _CPP_SECONDS, "mark": mark})
    files = {"main.cpp": _CPP_PRELUDE + block[1], "driver.py": _CPP_DRIVER, "task.json": task}
    limits = sandbox.Limits(
        seconds=20 + _CPP_CASES * _CPP_SECONDS, cpu=60, memory=2048, processes=32, output=4
    )
    try:
        result = sandbox.run(["python", "driver.py"], files=files, limits=limits)
    except (sandbox.NoIsolation, sandbox.SandboxFailed) as error:
        raise MissingScore(f"the sandbox did not run it: {error}") from None
    if "No such file or directory: 'g++'" in result.stderr.decode("utf-8", "replace"):
        raise MissingScore("g++ is not installed")
    if mark.encode() in result.stdout:
        return dict(_RIGHT)
    return {"accuracy": 0.0, "partial": 0.0, "extraction": 1.0}


_TASKS = {
    "path_traversal": score_path_traversal,
    "tom_tracking": score_tom_tracking,
    "countdown": score_countdown,
    "travel_planning": score_travel_planning,
    "html_to_tsv": score_html_to_tsv,
    "pseudo_to_code": score_pseudo_to_code,
}
