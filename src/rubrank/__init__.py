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
    from rubrank.cli.demo.groups import load_demo_groups as load_demo_groups
    from rubrank.errors import BadTable as BadTable
    from rubrank.errors import GradingFailed as GradingFailed
    from rubrank.errors import InvalidInput as InvalidInput
    from rubrank.errors import JudgingFailed as JudgingFailed
    from rubrank.errors import RubrankError as RubrankError
    from rubrank.errors import SolverError as SolverError
    from rubrank.errors import UnknownName as UnknownName
    from rubrank.evaluation.benchmarks import find_benchmark as find_benchmark
    from rubrank.evaluation.scoring import score_rows as score_rows
    from rubrank.fusion.adjust import attenuate as attenuate
    from rubrank.fusion.attribute import Attribute as Attribute
    from rubrank.fusion.attributes import attribute as attribute
    from rubrank.fusion.attributes import attribute_names as attribute_names
    from rubrank.fusion.attributes import find_attribute as find_attribute
    from rubrank.fusion.attributes import measure as measure
    from rubrank.fusion.attributes.length import Lengths as Lengths
    from rubrank.fusion.attributes.length import lengths as lengths
    from rubrank.fusion.attributes.markdown import MARKERS as MARKERS
    from rubrank.fusion.attributes.markdown import markdown_counts as markdown_counts
    from rubrank.fusion.attributes.markdown import markdown_density as markdown_density
    from rubrank.fusion.fusing import fuse as fuse
    from rubrank.fusion.fusing import utilities as utilities
    from rubrank.fusion.gate import Gate as Gate
    from rubrank.fusion.gated import Gated as Gated
    from rubrank.fusion.group import FusedGroup as FusedGroup
    from rubrank.fusion.model import model_names as model_names
    from rubrank.fusion.model import utility_model as utility_model
    from rubrank.fusion.models.newton import maximise as maximise
    from rubrank.fusion.options import FuseOptions as FuseOptions
    from rubrank.fusion.result import Fused as Fused
    from rubrank.fusion.rlvr2 import RLVR2 as RLVR2
    from rubrank.fusion.rules import find_rule as find_rule
    from rubrank.fusion.rules import rule as rule
    from rubrank.fusion.rules import rule_names as rule_names
    from rubrank.fusion.stream.files import Columns as Columns
    from rubrank.fusion.stream.files import explain_file as explain_file
    from rubrank.fusion.stream.files import fuse_file as fuse_file
    from rubrank.grading.grade import grade as grade
    from rubrank.grading.showing import show_calls as show_calls
    from rubrank.judges import judge_kind as judge_kind
    from rubrank.judges.judge import Call as Call
    from rubrank.judges.judge import Judge as Judge
    from rubrank.judges.judge import Judges as Judges
    from rubrank.judges.judge import Judgment as Judgment
    from rubrank.judges.judge import Question as Question
    from rubrank.judges.judge import Reply as Reply
    from rubrank.judges.judge import load_judges as load_judges
    from rubrank.judges.parsing import read_absolute as read_absolute
    from rubrank.judges.prompting import absolute_call as absolute_call
    from rubrank.records.exporting import export_records as export_records
    from rubrank.records.files import read_records as read_records
    from rubrank.records.files import write_records as write_records
    from rubrank.records.record import GroupRecord as GroupRecord
    from rubrank.records.record import records_of as records_of
    from rubrank.records.report import write_report as write_report
    from rubrank.records.unfolding import explain as explain_record  # noqa: F401
    from rubrank.rollouts.rollout import Group as Group
    from rubrank.rollouts.rollout import Rollout as Rollout
    from rubrank.rubrics.checking import check_file as check_file
    from rubrank.rubrics.claims import Interval as Interval
    from rubrank.rubrics.claims import claims as claims
    from rubrank.rubrics.public import to_rubric as to_rubric
    from rubrank.rubrics.rubric import Criterion as Criterion
    from rubrank.rubrics.rubric import Rubric as Rubric
    from rubrank.rubrics.rubric import json_schema as rubric_schema  # noqa: F401
    from rubrank.rubrics.rubric import load_rubric as load_rubric
    from rubrank.scores.batch import ScoreBatch as ScoreBatch
    from rubrank.scores.files import read_scores as read_scores
    from rubrank.scores.outcomes import outcomes as outcomes
    from rubrank.scores.table import ScoreTable as ScoreTable
    from rubrank.service.client import RewardClient as RewardClient
    from rubrank.service.client import remote_reward as remote_reward
    from rubrank.studies.audit.audit import audit as audit
    from rubrank.studies.conformance import measure as conformance  # noqa: F401
    from rubrank.studies.replay.logged import read_logged as read_logged
    from rubrank.studies.replay.overhead import synthetic_step as synthetic_step
    from rubrank.studies.replay.replay import replay as replay
    from rubrank.studies.replay.robustness import robustness as robustness
    from rubrank.studies.statistics.agreement import alpha as alpha
    from rubrank.studies.statistics.agreement import kappa as kappa
    from rubrank.studies.statistics.correlation import kendall as kendall
    from rubrank.studies.statistics.correlation import kendall_within as kendall_within
    from rubrank.studies.statistics.correlation import spearman as spearman
    from rubrank.studies.statistics.resampling import Measure as Measure
    from rubrank.studies.statistics.resampling import Resampling as Resampling
    from rubrank.studies.statistics.resampling import ratio_measure as ratio_measure
    from rubrank.texts.reasoning import split_reasoning as split_reasoning
    from rubrank.texts.text import Text as Text
    from rubrank.training.controls import Control as Control
    from rubrank.training.engine import RewardEngine as RewardEngine
    from rubrank.training.job.job import load_job as load_job
    from rubrank.training.job.job import parse_config as parse_config
    from rubrank.training.job.plan import make_plan as make_plan
    from rubrank.training.job.running import run as run_job  # noqa: F401
    from rubrank.training.making import rollout_of as rollout_of
    from rubrank.training.shapes.barrier import Barrier as Barrier
    from rubrank.training.shapes.flat_batch import Processes as Processes
    from rubrank.training.shapes.flat_batch import Sample as Sample
    from rubrank.training.shapes.flat_batch import score_flat as score_flat
    from rubrank.training.shapes.one_group import score_group as score_group
    from rubrank.verifiers.shared.sandbox import Limits as SandboxLimits  # noqa: F401
    from rubrank.verifiers.shared.sandbox import run as run_sandboxed  # noqa: F401
    from rubrank.verifiers.verifier import BINARY as BINARY
    from rubrank.verifiers.verifier import TERNARY as TERNARY
    from rubrank.verifiers.verifier import UNIT as UNIT
    from rubrank.verifiers.verifier import Domain as Domain
    from rubrank.verifiers.verifier import Verdict as Verdict
    from rubrank.verifiers.verifier import discrete as discrete
    from rubrank.verifiers.verifier import find_verifier as find_verifier
    from rubrank.verifiers.verifier import missing as missing
    from rubrank.verifiers.verifier import verifier as verifier

__version__ = "0.1.0"

# Where each public name lives; "module:name" where it has another name there.
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
    "show_calls": "grading.showing",
    "ScoreTable": "scores.table",
    "read_scores": "scores.files",
    "ScoreBatch": "scores.batch",
    "fuse": "fusion.fusing",
    "utilities": "fusion.fusing",
    "RLVR2": "fusion.rlvr2",
    "find_rule": "fusion.rules",
    "rule_names": "fusion.rules",
    "rule": "fusion.rules",
    "GroupRecord": "records.record",
    "records_of": "records.record",
    "read_records": "records.files",
    "write_records": "records.files",
    "Fused": "fusion.result",
    "FusedGroup": "fusion.group",
    "Gate": "fusion.gate",
    "Gated": "fusion.gated",
    "attenuate": "fusion.adjust",
    "outcomes": "scores.outcomes",
    "lengths": "fusion.attributes.length",
    "Lengths": "fusion.attributes.length",
    "markdown_counts": "fusion.attributes.markdown",
    "markdown_density": "fusion.attributes.markdown",
    "MARKERS": "fusion.attributes.markdown",
    "utility_model": "fusion.model",
    "attribute": "fusion.attributes",
    "judge_kind": "judges",
    # for extending, files, studies and trainers
    "Text": "texts.text",
    "split_reasoning": "texts.reasoning",
    "Domain": "verifiers.verifier",
    "BINARY": "verifiers.verifier",
    "TERNARY": "verifiers.verifier",
    "UNIT": "verifiers.verifier",
    "discrete": "verifiers.verifier",
    "to_rubric": "rubrics.public",
    "check_file": "rubrics.checking",
    "claims": "rubrics.claims",
    "Interval": "rubrics.claims",
    "Call": "judges.judge",
    "Reply": "judges.judge",
    "Question": "judges.judge",
    "Judgment": "judges.judge",
    "absolute_call": "judges.prompting",
    "read_absolute": "judges.parsing",
    "Attribute": "fusion.attribute",
    "measure": "fusion.attributes",
    "attribute_names": "fusion.attributes",
    "model_names": "fusion.model",
    "maximise": "fusion.models.newton",
    "fuse_file": "fusion.stream.files",
    "explain_file": "fusion.stream.files",
    "Columns": "fusion.stream.files",
    "write_report": "records.report",
    "export_records": "records.exporting",
    "replay": "studies.replay.replay",
    "read_logged": "studies.replay.logged",
    "robustness": "studies.replay.robustness",
    "audit": "studies.audit.audit",
    "Measure": "studies.statistics.resampling",
    "Resampling": "studies.statistics.resampling",
    "ratio_measure": "studies.statistics.resampling",
    "find_benchmark": "evaluation.benchmarks",
    "score_rows": "evaluation.scoring",
    "RewardEngine": "training.engine",
    "Control": "training.controls",
    "Sample": "training.shapes.flat_batch",
    "Processes": "training.shapes.flat_batch",
    "score_flat": "training.shapes.flat_batch",
    "score_group": "training.shapes.one_group",
    "Barrier": "training.shapes.barrier",
    "rollout_of": "training.making",
    "parse_config": "training.job.job",
    "RewardClient": "service.client",
    "remote_reward": "service.client",
    "load_demo_groups": "cli.demo.groups",
    "FuseOptions": "fusion.options",
    "synthetic_step": "studies.replay.overhead",
    "find_attribute": "fusion.attributes",
    "explain_record": "records.unfolding:explain",
    "conformance": "studies.conformance:measure",
    "rubric_schema": "rubrics.rubric:json_schema",
    "run_sandboxed": "verifiers.shared.sandbox:run",
    "SandboxLimits": "verifiers.shared.sandbox:Limits",
    "load_job": "training.job.job",
    "make_plan": "training.job.plan",
    "run_job": "training.job.running:run",
    "kappa": "studies.statistics.agreement",
    "alpha": "studies.statistics.agreement",
    "kendall": "studies.statistics.correlation",
    "kendall_within": "studies.statistics.correlation",
    "spearman": "studies.statistics.correlation",
    "RubrankError": "errors",
    "InvalidInput": "errors",
    "UnknownName": "errors",
    "BadTable": "errors",
    "SolverError": "errors",
    "GradingFailed": "errors",
    "JudgingFailed": "errors",
}

__all__ = ["__version__", *_HOMES]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'rubrank' has no attribute {name!r}")
    home, _, inside = _HOMES[name].partition(":")
    value = getattr(importlib.import_module(f"rubrank.{home}"), inside or name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
