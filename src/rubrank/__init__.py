"""rubrank: rubrics into rewards, by ranking.

    rubric + rollouts → verifiers & judges → score table → comparisons → utilities → fused reward → gate → trainer
                                                     └ attributes ┘

    >>> import rubrank
    >>> scores = [[1, 0.5, 7],       # one row for each rollout of a group, one column for each criterion:
    ...           [1, 1.0, 8],       # any scale, any mix of yes/no, grades and metrics; NaN = not scored
    ...           [0, 1.0, 3]]
    >>> rubrank.fuse(scores).round(2)
    array([0.29, 1.  , 0.  ])

`grade` turns rollouts and a rubric into scores, by programs and judges; `fuse` turns scores into rewards, `find_rule`
finds other ways to do so. `utilities` are what is behind rewards; `RLVR2` gives everything at once, with explanations,
and records keep it. Nothing heavy is imported here: a name is loaded when it is first used, numba by the first fit,
polars and rich by files and the command line.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rubrank.errors import BadTable as BadTable
    from rubrank.errors import InvalidInput as InvalidInput
    from rubrank.errors import JudgingFailed as JudgingFailed
    from rubrank.errors import RubrankError as RubrankError
    from rubrank.errors import SolverError as SolverError
    from rubrank.errors import UnknownName as UnknownName
    from rubrank.fusion.adjust import attenuate as attenuate
    from rubrank.fusion.attributes.length import Lengths as Lengths
    from rubrank.fusion.attributes.length import lengths as lengths
    from rubrank.fusion.attributes.markdown import MARKERS as MARKERS
    from rubrank.fusion.attributes.markdown import markdown_counts as markdown_counts
    from rubrank.fusion.attributes.markdown import markdown_density as markdown_density
    from rubrank.fusion.fusing import fuse as fuse
    from rubrank.fusion.fusing import utilities as utilities
    from rubrank.fusion.gate import Gate as Gate
    from rubrank.fusion.gate import Gated as Gated
    from rubrank.fusion.model import register_model as register_model
    from rubrank.fusion.result import FusedBatch as FusedBatch
    from rubrank.fusion.result import FusedGroup as FusedGroup
    from rubrank.fusion.rlvr2 import RLVR2 as RLVR2
    from rubrank.fusion.rules import find_rule as find_rule
    from rubrank.fusion.rules import register_rule as register_rule
    from rubrank.fusion.rules import rule_names as rule_names
    from rubrank.fusion.rules import score_batch as score_batch
    from rubrank.grading.grade import grade as grade
    from rubrank.judges.judge import Judge as Judge
    from rubrank.judges.judge import Judges as Judges
    from rubrank.judges.judge import load_judges as load_judges
    from rubrank.records.record import GroupRecord as GroupRecord
    from rubrank.records.record import read_records as read_records
    from rubrank.records.record import records_of as records_of
    from rubrank.records.record import write_records as write_records
    from rubrank.rollouts.rollout import Group as Group
    from rubrank.rollouts.rollout import Rollout as Rollout
    from rubrank.rubrics.rubric import Criterion as Criterion
    from rubrank.rubrics.rubric import Rubric as Rubric
    from rubrank.rubrics.rubric import load_rubric as load_rubric
    from rubrank.scores.outcomes import outcomes as outcomes
    from rubrank.scores.table import ScoreTable as ScoreTable
    from rubrank.scores.table import read_scores as read_scores
    from rubrank.verifiers.verifier import Verdict as Verdict
    from rubrank.verifiers.verifier import find_verifier as find_verifier
    from rubrank.verifiers.verifier import missing as missing
    from rubrank.verifiers.verifier import verifier as verifier

__version__ = "0.1.0"

_HOMES = {
    "Rubric": "rubrics.rubric",
    "Criterion": "rubrics.rubric",
    "load_rubric": "rubrics.rubric",
    "Rollout": "rollouts.rollout",
    "Group": "rollouts.rollout",
    "verifier": "verifiers.verifier",
    "Verdict": "verifiers.verifier",
    "missing": "verifiers.verifier",
    "find_verifier": "verifiers.verifier",
    "Judge": "judges.judge",
    "Judges": "judges.judge",
    "load_judges": "judges.judge",
    "grade": "grading.grade",
    "ScoreTable": "scores.table",
    "read_scores": "scores.table",
    "fuse": "fusion.fusing",
    "utilities": "fusion.fusing",
    "RLVR2": "fusion.rlvr2",
    "find_rule": "fusion.rules",
    "rule_names": "fusion.rules",
    "register_rule": "fusion.rules",
    "score_batch": "fusion.rules",
    "GroupRecord": "records.record",
    "records_of": "records.record",
    "read_records": "records.record",
    "write_records": "records.record",
    "FusedBatch": "fusion.result",
    "FusedGroup": "fusion.result",
    "Gate": "fusion.gate",
    "Gated": "fusion.gate",
    "attenuate": "fusion.adjust",
    "outcomes": "scores.outcomes",
    "lengths": "fusion.attributes.length",
    "Lengths": "fusion.attributes.length",
    "markdown_counts": "fusion.attributes.markdown",
    "markdown_density": "fusion.attributes.markdown",
    "MARKERS": "fusion.attributes.markdown",
    "register_model": "fusion.model",
    "RubrankError": "errors",
    "InvalidInput": "errors",
    "UnknownName": "errors",
    "BadTable": "errors",
    "SolverError": "errors",
    "JudgingFailed": "errors",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'rubrank' has no attribute {name!r}")
    value = getattr(importlib.import_module(f"rubrank.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
