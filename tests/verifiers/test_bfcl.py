"""FunctionCalls on the answers that BFCL publishes: all that it lists pass, and each with one thing changed fails.

The package is not a dependency: unpack `pip download bfcl-eval --no-deps`, and say BFCL_EVAL=…/bfcl_eval.
"""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def folder() -> Path:
    given = os.environ.get("BFCL_EVAL")
    found = importlib.util.find_spec("bfcl_eval") if given is None else None
    path = Path(given) if given else Path(found.origin).parent if found and found.origin else Path("/no/bfcl_eval")
    if not (path / "data" / "possible_answer").is_dir():
        pytest.skip("BFCL's answers are not here: say BFCL_EVAL=…/bfcl_eval")
    return path


@pytest.fixture(scope="module")
def bfcl():
    spec = importlib.util.spec_from_file_location("bfcl_benchmark", ROOT / "benchmarks" / "bfcl.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.slow
@pytest.mark.parametrize("category", ["simple_python", "multiple", "parallel", "parallel_multiple", "live_multiple"])
def test_published_answers_pass_and_changed_ones_fail(bfcl, category):
    asked = 0
    for _, truth in bfcl.items(folder(), category):
        if bfcl.answerable(truth):
            decide = bfcl.ours(truth)
            assert all(decide(calls) is True for calls in bfcl.right(truth)), truth
            assert [kind for kind, calls in bfcl.wrong(truth) if decide(calls) is not False] == [], truth
            asked += 1
    assert asked >= 200


def test_the_form_of_the_answers(bfcl):
    truth = [
        {"weather": {"city": ["Paris", "Paris, France"], "unit": ["C", ""], "at": [{"day": [1], "hour": ["", 2]}]}}
    ]
    base = {"city": "Paris", "unit": "C", "at": {"day": 1}}
    assert bfcl.first(truth) == [{"weather": base}]
    right, decide = list(bfcl.right(truth)), bfcl.ours(truth)
    assert [{"weather": {"city": "Paris", "at": {"day": 1}}}] in right
    assert [{"weather": {**base, "city": "Paris, France"}}] in right
    assert all(decide(calls) for calls in right)
    changed = dict(bfcl.wrong(truth))
    kinds = ["a call less", "a call more", "another name", "an argument more", "an argument less", "another value"]
    assert list(changed) == kinds
    assert not any(decide(calls) for _, calls in bfcl.wrong(truth))
