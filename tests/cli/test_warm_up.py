"""`rubrank warm-up`, what is said while compiling, and what a shell completes."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from cases import nightly
from typer.testing import CliRunner

from rubrank.cli.app import app
from rubrank.fusion.models.model import model_names


@pytest.mark.slow
@nightly()  # `make test` warms up before it begins
def test_every_model_and_pool_is_compiled(after_warm_up):
    seconds = json.loads(after_warm_up[0])
    assert {f"{model}: no attributes" for model in model_names()} <= set(seconds)
    assert {f"bradley-terry: attributes, pool {pool}" for pool in ("group", "batch", "run")} <= set(seconds)


COMPILED_AFTERWARDS = """
import sys
import numpy as np
from rubrank import attenuate
from rubrank.cli.app import app
from rubrank.fusion.rlvr2 import RLVR2
from rubrank.scores.batch import ScoreBatch

def signatures():
    found = set()
    for module in [module for name, module in sys.modules.items() if name.startswith("rubrank")]:
        for kernel in vars(module).values():
            if hasattr(kernel, "py_func") and hasattr(kernel, "signatures"):
                found |= {(kernel.py_func.__name__, str(signature)) for signature in kernel.signatures}
    return found

app(["warm-up", "--json"], standalone_mode=False)
before = signatures()
draws = np.random.default_rng(0)
for span in ("model", "unit", "sd"):
    RLVR2(span=span, scale="utility")(ScoreBatch.of_arrays(draws.random((4, 8, 3)) > 0.5))
for pool in ("group", "batch", "run"):
    for columns in (1, 11):
        for adjust in ("remove", attenuate(0.5, draw="bernoulli")):
            scores = draws.integers(0, 5, (12, 8, 3)).astype(float)
            batch = ScoreBatch.of_arrays(scores, attributes=draws.random((12, 8, columns)))
            RLVR2(pool=pool, adjust=adjust, adjust_criteria=[0])(batch)
    ragged = ScoreBatch.of_arrays(
        draws.random((12, 2)), groups=np.repeat(range(4), [1, 2, 4, 5]), attributes=draws.random((12, 1))
    )
    RLVR2(pool=pool, adjust="remove")(ragged)
    compared = {0: [[None, 1, 0.5], [0, None, 1], [0.5, 0, None]]}
    scores = np.array([[np.nan, 1.0], [np.nan, 2.0], [np.nan, 3.0]])
    for model in ("bradley-terry", "thurstone"):
        batch = ScoreBatch.of_arrays(scores, outcomes=compared, attributes=draws.random((3, 1)))
        RLVR2(model=model, pool=pool, adjust="remove")(batch)
print(len(before), sorted(signatures() - before))
"""


@pytest.fixture(scope="module")
def after_warm_up():
    """What `rubrank warm-up --json` prints, and the line about kernels that were compiled before and after it."""
    run = [sys.executable, "-c", COMPILED_AFTERWARDS]
    done = subprocess.run(run, capture_output=True, text=True, check=True)
    *table, kernels = done.stdout.strip().splitlines()
    return "\n".join(table), kernels


@pytest.mark.slow
@nightly()
def test_no_kernel_is_left_to_the_first_step(after_warm_up):
    """Options, shapes and comparisons that warm-up itself does not fit."""
    compiled_before, _, afterwards = after_warm_up[1].partition(" ")
    assert int(compiled_before) > 5
    assert afterwards.strip() == "[]"


TWO_KERNELS = """
from rubrank._jit import jit

@jit
def double(x):
    return 2 * x

@jit
def twice(x):
    return double(double(x))

print(twice(3), double(3.5))
"""


@pytest.mark.slow
def test_the_first_compilation_is_announced_once(tmp_path):
    """With small kernels; tests/repository/test_concurrency.py compiles the library's."""
    script = tmp_path / "kernels.py"
    script.write_text(TWO_KERNELS)
    run = [sys.executable, str(script)]
    env = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    first = subprocess.run(run, env=env, capture_output=True, text=True, check=True)
    assert first.stdout == "12 7.0\n"
    assert first.stderr.count("rubrank: compiling numeric kernels, once for this machine") == 1
    second = subprocess.run(run, env=env, capture_output=True, text=True, check=True)
    assert second.stderr == ""


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("rubrank fuse scores.csv --set attribute_", "attribute_prior="),
        ("rubrank fuse scores.csv --set gate.fl", "gate.floor="),
        ("rubrank fuse scores.csv --set pool=r", "pool=run"),
        ("rubrank warm", "warm-up"),
        ("rubrank fuse --rule rl", "rlvr2+"),
        ("rubrank record scores.csv --rule gd", "gdpo+"),
        ("rubrank criteria WordC", "WordCount"),
        ("rubrank criteria --family fo", "format"),
    ],
)
def test_a_shell_completes_verbs_and_flags(line, offered):
    words = line.split()
    env = {"_RUBRANK_COMPLETE": "complete_bash", "COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    done = CliRunner().invoke(app, [], env=env, prog_name="rubrank")
    assert offered in done.output


@pytest.mark.parametrize("verb", ["fuse", "explain", "record"])
@pytest.mark.parametrize("flag", ["--set", "--weight", "--config", "--rule"])
def test_a_flag_that_waits_for_its_value_is_no_error_to_a_shell(verb, flag):
    env = {"_RUBRANK_COMPLETE": "complete_bash", "COMP_WORDS": f"rubrank {verb} {flag} ", "COMP_CWORD": "3"}
    done = CliRunner().invoke(app, [], env=env, prog_name="rubrank")
    assert done.exit_code == 0
    assert "--" not in done.output
