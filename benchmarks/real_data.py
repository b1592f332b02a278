"""Real rollouts that other people graded, as score tables: what the studies of rules are made on.

    study = longform_writing()              ~600 groups of 8 chapters, 14 criteria of one judge, 0 to 20
    study = m_ifeval()                      groups of 8 models' answers, verdicts of our own verifiers, yes or no
    study.table, study.attributes           scores; words, headings, bold print and list items of every response

The data lie outside the repository, in ../shared/data; `study.table` needs nothing else.
"""

from __future__ import annotations

import gzip
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.verifiers.verifier import discrete

DATA = Path(__file__).parents[2] / "shared" / "data"
ATTRIBUTES = {"n_words": "words", "n_headers": "headings", "n_bold": "bold", "n_list": "list items"}
"""Field of the data → what it is called here."""

Row = dict[str, Any]


@dataclass(frozen=True, eq=False)
class Study:
    """Scores of real rollouts, and what was measured on their texts."""

    name: str
    table: ScoreTable
    attributes: np.ndarray
    """(rollouts, 4), the columns of ATTRIBUTES, rows as in the table."""


def longform_writing(folder: Path = DATA, size: int = 8, seed: int = 0) -> Study:
    """Chapters of one prompt by different models, in disjoint groups that are drawn from the models.

    Weights are those of the benchmark: 5 for forced poetry or metaphor, 1 for the others; six criteria say what is bad.
    Five models are there under two names, with the same chapters and scores: one of each counts. Chapters without a
    score on some criterion (19) are left out, and those that fill no group.
    """
    source = folder / "longform_writing"
    criteria = _writing_criteria(json.loads((source / "criteria.json").read_text(encoding="utf-8")))
    rng = np.random.default_rng(seed)
    drawn: list[tuple[str, list[Row]]] = []
    for (prompt, part), rows in sorted(_chapters(_rows(source / "scores.jsonl.gz")).items()):
        order = rng.permutation(len(rows))
        for i in range(len(rows) // size):
            drawn.append((f"{prompt}.{part}.{i}", [rows[j] for j in order[i * size : (i + 1) * size]]))
    drawn = [drawn[i] for i in rng.permutation(len(drawn))]  # a step of training mixes prompts
    table = ScoreTable(tuple(_chapter(id, rows, criteria) for id, rows in drawn))
    return Study("longform_writing", table, _read_attributes([row for _, rows in drawn for row in rows]))


def m_ifeval(folder: Path = DATA, languages: Sequence[str] = ("en", "fr"), least: int = 1, seed: int = 0) -> Study:
    """Eight models' answers to each prompt, English and French, graded anew by our verifiers as the public ones read.

    least: prompts with fewer instructions are left out; with one, there is nothing to put together. Groups in which two
    models said the same are left out, too (37 of 776).
    """
    from rubrank.grading.grade import grade

    groups: list[GroupScores] = []
    answers: list[list[Row]] = []
    for language in languages:
        path = folder / "m_ifeval" / f"{language}_groups.jsonl.gz"
        graded = {group.id: group for group in grade(path, compat="upstream", workers=0)}
        for row in _rows(path):
            different = {answer["response"] for answer in row["responses"]}
            if len(row["instruction_id_list"]) >= least and len(different) == len(row["responses"]):
                groups.append(_rename(graded[str(row["key"])], language))
                answers.append(row["responses"])
    order = np.random.default_rng(seed).permutation(len(groups))
    table = ScoreTable(tuple(groups[i] for i in order))
    return Study("m_ifeval", table, _read_attributes([answer for i in order for answer in answers[i]]))


# ------------------------------------------------------------------------------------------------------------- helpers


def _rows(path: Path) -> list[Row]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def _writing_criteria(data: Mapping[str, Any]) -> tuple[CriterionData, ...]:
    weights = data["criteria_weights"]
    return tuple(
        CriterionData(
            name,
            weight=float(weights.get(name.lower(), 1.0)),
            direction="lower" if name in data["negative_chapter"] else "higher",
            domain=discrete(*range(21)),
        )
        for name in data["chapter"]
    )


def _chapters(rows: Sequence[Row]) -> dict[tuple[int, int], list[Row]]:
    """(prompt, part) → its different chapters that have all scores."""
    chapters: dict[tuple[int, int], dict[Any, Row]] = defaultdict(dict)
    for row in rows:
        if row["part"] != "final" and None not in row["scores"].values():
            same = (row["n_chars"], row["n_words"], *row["scores"].values())
            chapters[row["prompt_id"], row["part"]].setdefault(same, row)
    return {key: list(different.values()) for key, different in chapters.items()}


def _chapter(id: str, rows: Sequence[Row], criteria: tuple[CriterionData, ...]) -> GroupScores:
    scores = np.array([[row["scores"][criterion.name] for criterion in criteria] for row in rows], dtype=float)
    return GroupScores(id, criteria, scores, (("",) * len(criteria),) * len(rows))


def _rename(group: GroupScores, language: str) -> GroupScores:
    """Keys of the two languages overlap."""
    return GroupScores(f"{language}:{group.id}", group.criteria, group.scores, group.reasons, group.outcomes)


def _read_attributes(rows: Sequence[Row]) -> np.ndarray:
    return np.array([[row[field] for field in ATTRIBUTES] for row in rows], dtype=float)


def text_table(rows: Sequence[Sequence[str]]) -> str:
    """Columns side by side, the first to the left, the others to the right; the first row is the heading."""
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = (
        [f"{row[0]:<{widths[0]}}", *(f"{x:>{w}}" for x, w in zip(row[1:], widths[1:], strict=True))] for row in rows
    )
    return "\n".join("  ".join(line).rstrip() for line in lines)
