"""GDPO says what TRL's trainer says: `multi_objective_aggregation="normalize_then_sum"`.

TRL computes it in the middle of a long method of its trainer. These statements, and only these, are taken from TRL's
own source and run with a stub in place of the trainer: what is compared with is TRL's code, not a copy of it.
Skipped unless TRL is installed: pip install "torch==2.13.0" "trl==1.16.0".
"""

from __future__ import annotations

import ast
import inspect
import sys
import textwrap
from types import SimpleNamespace

import numpy as np
import pytest

from rubrank.fusion.rules import find_rule
from rubrank.scores.batch import ScoreBatch

pytestmark = pytest.mark.slow

torch = pytest.importorskip("torch", reason="TRL's trainer is not installed: pip install torch trl")
pytest.importorskip("trl", reason="TRL's trainer is not installed: pip install torch trl")

NAN = np.nan
CASES = {
    "mixed": ([[[1, 0.2], [0, 0.9], [1, 0.4], [0, 0.4]], [[0, 0.1], [0, 0.7], [1, 0.8], [0, 0.3]]], [1.0, 1.0]),
    "weights": ([[[1, 0.2], [0, 0.9], [1, 0.4]], [[0, 0.1], [0, 0.7], [1, 0.8]]], [2.0, 0.5]),
    "one pass in eight": ([[[1.0]] + [[0.0]] * 7], [1.0]),
    "a constant criterion": ([[[1, 0.2], [1, 0.9], [1, 0.4]], [[1, 0.1], [1, 0.7], [0, 0.8]]], [1.0, 1.0]),
    "a constant sum": ([[[1, 0], [0, 1], [1, 0]], [[1, 0], [0, 1], [0, 1]]], [1.0, 1.0]),
    "missing": ([[[1, NAN], [0, 0.9], [NAN, 0.4]], [[0, 0.1], [0, 0.7], [1, 0.8]]], [1.0, 3.0]),
    "a criterion that a group does not ask": ([[[1, NAN], [0, NAN], [1, NAN]], [[0, 0.1], [0, 0.7], [1, 0.8]]], [1, 1]),
    "one score in a group": ([[[1, NAN], [0, 0.5], [1, NAN]], [[0, 0.1], [0, 0.7], [1, 0.8]]], [1.0, 1.0]),
    "a rollout without scores": ([[[1, 0.3], [NAN, NAN], [0, 0.4]], [[0, 0.1], [0, 0.7], [1, 0.8]]], [1.0, 1.0]),
}


@pytest.fixture(autouse=True)
def _in_double_precision():
    """TRL divides counts in the default precision, which would cost eight digits."""
    before = torch.get_default_dtype()
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(before)


def trl_statements() -> ast.Module:
    """From the mark of unscorable rollouts to the advantages."""
    from trl import GRPOTrainer

    source = textwrap.dedent(inspect.getsource(GRPOTrainer._generate_and_score_completions))
    body = ast.parse(source).body[0].body
    targets = [ast.unparse(s.targets[0]) if isinstance(s, ast.Assign) else "" for s in body]
    return ast.Module(body[targets.index("unscorable_mask") : targets.index("advantages") + 1], [])


def trl_gdpo(scores_NGK: np.ndarray, weights: list[float]) -> np.ndarray:
    from trl import GRPOTrainer

    N, G, K = scores_NGK.shape
    trainer = SimpleNamespace(
        multi_objective_aggregation="normalize_then_sum",
        scale_rewards="group",
        reward_funcs=[None] * K,
        reward_weights=torch.tensor(weights, dtype=torch.float64),
    )
    here = {
        "self": trainer,
        "device": "cpu",
        "num_generations": G,
        "rewards_per_func": torch.tensor(scores_NGK.reshape(N * G, K), dtype=torch.float64),
    }
    module = sys.modules[GRPOTrainer.__module__]
    exec(compile(trl_statements(), module.__file__, "exec"), {**vars(module), **here}, here)
    return here["advantages"].numpy()


def compare(scores_NGK: np.ndarray, weights: list[float]) -> None:
    batch = ScoreBatch.of_arrays(scores_NGK, weights=weights)
    assert find_rule("gdpo")(batch).value_M == pytest.approx(trl_gdpo(scores_NGK, weights), abs=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_by_case(case):
    scores, weights = CASES[case]
    compare(np.array(scores, dtype=float), weights)


@pytest.mark.parametrize("seed", range(20))
def test_by_chance(seed):
    rng = np.random.default_rng(seed)
    N, G, K = rng.integers(1, 6), rng.integers(2, 10), rng.integers(1, 6)
    scores = rng.random((N, G, K)).round(2)
    binary = rng.random(K) < 0.5
    scores[..., binary] = scores[..., binary].round()
    if seed % 2:
        scores[rng.random(scores.shape) < 0.3] = np.nan
    compare(scores, rng.uniform(0.2, 3.0, K).tolist())


def test_the_stub_runs_trl_and_not_us():
    """Another aggregation of TRL's gives other numbers."""
    scores, weights = CASES["mixed"]
    array = np.array(scores)
    summed = find_rule("weighted-mean")(ScoreBatch.of_arrays(array, weights=weights)).value_M
    assert trl_gdpo(array, weights) != pytest.approx(summed, abs=1e-3)
    assert abs(trl_gdpo(array, weights).mean()) < 1e-9
