"""LongProc: long procedures carried out line by line; six tasks at three lengths.

    path_traversal     lines of <Route>; partial = (first wrong line + 1) / lines
    tom_tracking       lines that begin with "-", compared without punctuation and small words
    countdown          three equations of <Solution>; a right solution is right whatever the search says
    travel_planning    cities and days of <Plan>
    html_to_tsv        rows of the ```tsv block: F1, precision, recall
    pseudo_to_code     the ```cpp block, compiled and run on test cases in the sandbox

A row holds `task` ("countdown_0.5k"), `prediction` and, once for each `index`, the `example` with its reference.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, ClassVar

from rubrank.evaluation.benchmark import (
    Answer,
    Benchmark,
    DataFile,
    ItemScore,
    Metrics,
    Row,
    Setting,
    first_value,
    mean,
)
from rubrank.evaluation.benchmarks.longproc_tasks import (
    Values,
    countdown,
    html_to_tsv,
    path_traversal,
    run_cpp_tests,
    tom_tracking,
    travel_planning,
)

TASKS: dict[str, Callable[[str, Row], Values]] = {
    "path_traversal": path_traversal,
    "tom_tracking": tom_tracking,
    "countdown": countdown,
    "travel_planning": travel_planning,
    "html_to_tsv": html_to_tsv,
}


class LongProc(Benchmark):
    """Six tasks at 0.5k, 2k and 8k tokens."""

    name = "longproc"
    title = "LongProc"
    capability = "long context"
    headline = "score"
    licence = "Apache-2.0"
    data = DataFile("longproc.jsonl", "git clone princeton-pli/LongProc and export its examples as JSON lines")
    settings: ClassVar = {"levels": Setting("all", ("all", "0.5k", "2k", "8k"), "which lengths count in the score")}

    def item_id(self, row: Row) -> str:
        """Task and number; files of predictions keep several of an item apart by `mutation`."""
        if "task" in row and "index" in row:
            return f"{row['task']}/{row['index']}"
        return super().item_id(row)

    def output(self, row: Row) -> str:
        """What was predicted."""
        return str(first_value(row, ("prediction", "output", "response")) if row.get("prediction") != "" else "")

    def score(self, item: Row, output: str, answers: Sequence[Answer]) -> ItemScore:
        """By the task's own measure."""
        task, _, level = str(item["task"]).rpartition("_")
        example: Any = item.get("example") or item
        labels = {"task": task, "level": level}
        if task == "pseudo_to_code":
            passed, reason = run_cpp_tests(output, example["testcases"])
            if passed is None:
                return self.missing_score(item, reason, labels=labels)
            values = {"accuracy": float(passed), "partial": float(passed), "extraction": float(reason != "no code")}
        else:
            values = TASKS[task](output, example)
        return ItemScore(self.item_id(item), values, labels=labels)

    def metrics(self, scores: Sequence[ItemScore]) -> Metrics:
        """Accuracy of each task and level, and the mean over those (F1 for html_to_tsv)."""
        levels = self.options["levels"]
        cells: dict[str, list[ItemScore]] = {}
        for score in scores:
            if levels in ("all", score.labels["level"]):
                cells.setdefault(f"{score.labels['task']}_{score.labels['level']}", []).append(score)
        metrics: Metrics = {}
        for name, members in sorted(cells.items()):
            metrics[name] = mean(score.values["accuracy"] for score in members)
            for part in sorted(members[0].values):
                metrics[f"{name}/{part}"] = mean(score.values[part] for score in members)
        return {"score": mean(metrics[name] for name in cells), **metrics}
