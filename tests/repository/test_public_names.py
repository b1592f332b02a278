"""What `import rubrank` offers, and what it costs."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from importlib.resources import files
from pathlib import Path

import pytest
from cases import folded

import rubrank

ROOT = Path(__file__).parents[2]
NAMES = [
    "Attribute",
    "BINARY",
    "BadTable",
    "Barrier",
    "Call",
    "Columns",
    "Control",
    "Criterion",
    "Domain",
    "FuseOptions",
    "Fused",
    "FusedGroup",
    "Gate",
    "Gated",
    "GradingFailed",
    "Group",
    "GroupRecord",
    "Interval",
    "InvalidInput",
    "Judge",
    "Judges",
    "JudgingFailed",
    "Judgment",
    "Lengths",
    "MARKERS",
    "Measure",
    "Processes",
    "Question",
    "RLVR2",
    "Reply",
    "Resampling",
    "RewardClient",
    "RewardEngine",
    "Rollout",
    "RubrankError",
    "Rubric",
    "Sample",
    "SandboxLimits",
    "ScoreBatch",
    "ScoreTable",
    "SolverError",
    "TERNARY",
    "Text",
    "UNIT",
    "UnknownName",
    "Verdict",
    "__version__",
    "absolute_call",
    "alpha",
    "attenuate",
    "attribute",
    "attribute_names",
    "audit",
    "check_file",
    "claims",
    "conformance",
    "discrete",
    "explain_file",
    "explain_record",
    "export_records",
    "find_attribute",
    "find_benchmark",
    "find_rule",
    "find_verifier",
    "fuse",
    "fuse_file",
    "grade",
    "judge_kind",
    "kappa",
    "kendall",
    "kendall_within",
    "lengths",
    "load_demo_groups",
    "load_job",
    "load_judges",
    "load_rubric",
    "make_plan",
    "markdown_counts",
    "markdown_density",
    "maximise",
    "measure",
    "missing",
    "model_names",
    "outcomes",
    "parse_config",
    "ratio_measure",
    "read_absolute",
    "read_logged",
    "read_records",
    "read_scores",
    "records_of",
    "remote_reward",
    "replay",
    "robustness",
    "rollout_of",
    "rubric_schema",
    "rule",
    "rule_names",
    "run_job",
    "run_sandboxed",
    "score_flat",
    "score_group",
    "score_rows",
    "show_calls",
    "spearman",
    "split_reasoning",
    "synthetic_step",
    "to_rubric",
    "utilities",
    "utility_model",
    "verifier",
    "write_records",
    "write_report",
]
HEAVY = ["numba", "torch", "openai", "polars", "rich", "typer", "pyromark", "pydantic"]


def in_a_new_process(code: str) -> str:
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stderr
    return run.stdout


def test_exactly_these_names():
    assert sorted(rubrank.__all__) == NAMES


@folded("name", NAMES)
def test_every_name_is_what_its_home_defines(name):
    value = getattr(rubrank, name)
    if hasattr(value, "__module__"):
        home = importlib.import_module(value.__module__)
        assert value.__module__.startswith("rubrank.")
        assert getattr(home, rubrank._HOMES[name][1]) is value
        assert value.__doc__


def test_star_import():
    namespace: dict[str, object] = {}
    exec("from rubrank import *", namespace)
    assert set(NAMES) <= set(namespace)


def test_dir_lists_the_names():
    assert dir(rubrank) == NAMES


def test_an_unknown_name_is_an_attribute_error():
    with pytest.raises(AttributeError, match=r"module 'rubrank' has no attribute 'fues'"):
        rubrank.fues  # noqa: B018 - looking it up is the test
    with pytest.raises(ImportError, match="fues"):
        exec("from rubrank import fues")


def test_importing_rubrank_imports_nothing_heavy():
    code = f"import sys, rubrank; print([m for m in {HEAVY} if m in sys.modules])"
    assert in_a_new_process(code).strip() == "[]"


@pytest.mark.slow
def test_the_first_fusion_loads_the_compiler_and_nothing_else():
    code = f"import sys, rubrank; rubrank.fuse([[1], [0]]); print([m for m in {HEAVY} if m in sys.modules])"
    assert in_a_new_process(code).strip() == "['numba']"


def test_names_are_there_in_a_new_process():
    code = f"import rubrank; print(all(hasattr(rubrank, name) for name in {NAMES}))"
    assert in_a_new_process(code).strip() == "True"


def test_types_are_shipped():
    assert (files("rubrank") / "py.typed").is_file()


def test_one_version():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert rubrank.__version__ == project["version"]


FRAMEWORKS = (
    "trl|verl|openrlhf|slime|tinker|verifiers|prime_rl|swift|skyrl|nemo_rl|nemo_gym|art|atropos|areal|open_instruct|rllm"
    "|roll|easyr1"
)
PUBLIC = rf"training\.(?:frameworks\.)?(?:{FRAMEWORKS})(?:[ ]|$)|evaluation\.inspect[ ]"
DEEP = re.compile(rf"^[ ]*(?:from|import)[ ]+rubrank\.(?!{PUBLIC})[\w.]+.*$", re.MULTILINE)


def test_documents_and_examples_use_public_names_only():
    """Public is what `rubrank` exports, one module for each training framework, and that for Inspect."""
    folders = [ROOT / name for name in ("docs", "examples", "recipes")]
    paths = [*ROOT.glob("*.md"), *(p for f in folders for kind in ("md", "py") for p in f.rglob(f"*.{kind}"))]
    found = {path.relative_to(ROOT): DEEP.findall(path.read_text("utf-8")) for path in paths}
    assert len(found) > 30
    assert {path: lines for path, lines in found.items() if lines} == {}
