"""`fuse_file` and the like for tests whose tables hold only criteria: every column of numbers is one."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rubrank.fusion import files
from rubrank.fusion.group import FusedGroup
from rubrank.scores import files as score_files
from rubrank.studies import logged
from rubrank.tables.columns import Columns


def all_criteria(columns: Columns | None = None) -> Columns:
    """The columns, with all columns of numbers as criteria if they name none."""
    columns = columns or Columns()
    return replace(columns, criteria="all") if columns.criteria is None else columns


def fuse_file(*args: Any, columns: Columns | None = None, **more: Any) -> files.Summary:
    return files.fuse_file(*args, columns=all_criteria(columns), **more)


def explain_file(*args: Any, columns: Columns | None = None, **more: Any) -> FusedGroup:
    return files.explain_file(*args, columns=all_criteria(columns), **more)


def load_scores(source: Any, columns: Columns | None = None) -> score_files.LoadedScores:
    return score_files.load_scores(source, all_criteria(columns))


def read_logged(source: Any, rollouts: Any = None, columns: Columns | None = None, **more: Any) -> logged.Logged:
    return logged.read_logged(source, rollouts, all_criteria(columns), **more)
