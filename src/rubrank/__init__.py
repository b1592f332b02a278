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
    from rubrank.adjustment import attenuate as attenuate
    from rubrank.aggregators import find_rule as find_rule
    from rubrank.aggregators import register_rule as register_rule
    from rubrank.aggregators import rule_names as rule_names
    from rubrank.aggregators import score_batch as score_batch
    from rubrank.aggregators.rlvr2 import RLVR2 as RLVR2
    from rubrank.attributes.length import Lengths as Lengths
    from rubrank.attributes.length import lengths as lengths
    from rubrank.attributes.markdown import MARKERS as MARKERS
    from rubrank.attributes.markdown import markdown_counts as markdown_counts
    from rubrank.attributes.markdown import markdown_density as markdown_density
    from rubrank.comparison import outcomes as outcomes
    from rubrank.errors import BadTable as BadTable
    from rubrank.errors import InvalidInput as InvalidInput
    from rubrank.errors import JudgingFailed as JudgingFailed
    from rubrank.errors import RubrankError as RubrankError
    from rubrank.errors import SolverError as SolverError
    from rubrank.errors import UnknownName as UnknownName
    from rubrank.fused import FusedBatch as FusedBatch
    from rubrank.fused import FusedGroup as FusedGroup
    from rubrank.fusion import fuse as fuse
    from rubrank.fusion import utilities as utilities
    from rubrank.gate import Gate as Gate
    from rubrank.gate import Gated as Gated
    from rubrank.grading import grade as grade
    from rubrank.judge import Judge as Judge
    from rubrank.judge import Judges as Judges
    from rubrank.judge import load_judges as load_judges
    from rubrank.record import GroupRecord as GroupRecord
    from rubrank.record import read_records as read_records
    from rubrank.record import records_of as records_of
    from rubrank.record import write_records as write_records
    from rubrank.rollout import Group as Group
    from rubrank.rollout import Rollout as Rollout
    from rubrank.rubric import Criterion as Criterion
    from rubrank.rubric import Rubric as Rubric
    from rubrank.rubric import load_rubric as load_rubric
    from rubrank.scores import ScoreTable as ScoreTable
    from rubrank.scores import read_scores as read_scores
    from rubrank.utility import register_model as register_model
    from rubrank.verification import Verdict as Verdict
    from rubrank.verification import find_verifier as find_verifier
    from rubrank.verification import missing as missing
    from rubrank.verification import verifier as verifier

__version__ = "0.1.0"

_HOMES = {
    "Rubric": "rubric",
    "Criterion": "rubric",
    "load_rubric": "rubric",
    "Rollout": "rollout",
    "Group": "rollout",
    "verifier": "verification",
    "Verdict": "verification",
    "missing": "verification",
    "find_verifier": "verification",
    "Judge": "judge",
    "Judges": "judge",
    "load_judges": "judge",
    "grade": "grading",
    "ScoreTable": "scores",
    "read_scores": "scores",
    "fuse": "fusion",
    "utilities": "fusion",
    "RLVR2": "aggregators.rlvr2",
    "find_rule": "aggregators",
    "rule_names": "aggregators",
    "register_rule": "aggregators",
    "score_batch": "aggregators",
    "GroupRecord": "record",
    "records_of": "record",
    "read_records": "record",
    "write_records": "record",
    "FusedBatch": "fused",
    "FusedGroup": "fused",
    "Gate": "gate",
    "Gated": "gate",
    "attenuate": "adjustment",
    "outcomes": "comparison",
    "lengths": "attributes.length",
    "Lengths": "attributes.length",
    "markdown_counts": "attributes.markdown",
    "markdown_density": "attributes.markdown",
    "MARKERS": "attributes.markdown",
    "register_model": "utility",
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
