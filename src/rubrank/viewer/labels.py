"""Labels by people: verdicts that were accepted or corrected on the page, written as a score table.

    labels = LabelFile(Path("labels.jsonl"))
    labels.put(record, group="query-7", rollout=3, criterion="Facts", score=1.0)

    rubrank judge audit scores.parquet --humans labels.jsonl

Every change is written at once, to a file that appears when it is complete. A file that is there already is continued.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import numpy as np

from rubrank.errors import InvalidInput, UnknownName
from rubrank.records.record import GroupRecord
from rubrank.scores.files import read_scores
from rubrank.scores.output import SUFFIXES
from rubrank.scores.table import GroupScores, ScoreTable


class LabelFile:
    """The labels of one person, and the file that holds them."""

    def __init__(self, path: Path) -> None:
        """Read the labels that the file has; raises InvalidInput if it cannot hold labels, or holds something else."""
        if not path.name.endswith(SUFFIXES):
            raise InvalidInput(
                "view",
                "labels",
                f"a file that ends in {', '.join(SUFFIXES)}",
                str(path),
            )
        self.path = path
        self._groups: dict[str, GroupScores] = {}
        self._lock = threading.Lock()
        if path.exists():
            self._groups = {group.id: group for group in read_scores(path)}

    def count(self) -> int:
        """Count the verdicts that have a label."""
        counts = [np.count_nonzero(~np.isnan(group.scores)) for group in self._groups.values()]
        return int(sum(counts))

    def list_group(self, group: str, size: int) -> dict[str, list[float | None]]:
        """Return criterion → the label of every rollout, None without one; {} if there is no group of this size."""
        labelled = self._groups.get(group)
        if labelled is None or len(labelled.scores) != size:
            return {}
        labels = {}
        for k, name in enumerate(labelled.names):
            labels[name] = [
                None if np.isnan(score) else float(score) for score in labelled.scores[:, k]
            ]
        return labels

    def put(
        self, record: GroupRecord, *, group: str, rollout: int, criterion: str, score: float | None
    ) -> None:
        """Set a label and write the file; score None removes the label.

        record: the group that the label is about. group: the id under which its labels are kept.
        Raises InvalidInput for a rollout or a score that the group cannot have, and UnknownName for a criterion.
        """
        by_name = {entry.name: entry for entry in record.criteria}
        if criterion not in by_name:
            raise UnknownName.of(f"group {group!r}", "criterion", criterion, by_name)
        if not 0 <= rollout < record.size:
            raise InvalidInput(
                "view", "rollout", f"a number from 0 to {record.size - 1}", str(rollout)
            )
        domain = by_name[criterion].domain
        if score is not None and not domain.holds(score):
            raise InvalidInput("view", f"label of {criterion!r}", domain.description, f"{score:g}")
        # Requests are answered in several threads, and each of them writes the whole file.
        with self._lock:
            labelled = self._groups.get(group)
            if labelled is None:
                labelled = GroupScores(group, (), np.zeros((record.size, 0)), ((),) * record.size)
            if len(labelled.scores) != record.size:
                raise InvalidInput(
                    "view",
                    f"group {group!r}",
                    f"a group of {len(labelled.scores)} rollouts, as in {self.path}",
                    str(record.size),
                    "Name another file of labels.",
                )
            if criterion not in labelled.names:
                labelled = replace(
                    labelled,
                    criteria=(*labelled.criteria, by_name[criterion]),
                    scores=np.column_stack([labelled.scores, np.full(record.size, np.nan)]),
                    reasons=tuple((*row, "") for row in labelled.reasons),
                )
            scores = labelled.scores.copy()
            scores[rollout, labelled.names.index(criterion)] = np.nan if score is None else score
            self._groups[group] = replace(labelled, scores=scores)
            ScoreTable(tuple(self._groups.values())).write(self.path)
