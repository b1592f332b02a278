"""Judges for the tests of trainers: the scripted server of the judges' own tests, and a judge that asks it.

with server_module().Server([Answer(…)]) as server:
    RewardEngine(rubric, judges=judges_at(server.url))
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import Any

from rubrank.judges.judge import Endpoint, Judge, Judges, Price, Retry


def server_module() -> Any:
    """The scripted judge of the judges' own tests."""
    if "rubrank_test_server" not in sys.modules:
        path = Path(__file__).parents[1] / "judges" / "server.py"
        spec = importlib.util.spec_from_file_location("rubrank_test_server", path)
        assert spec is not None
        assert spec.loader is not None
        sys.modules["rubrank_test_server"] = module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return sys.modules["rubrank_test_server"]


def judges_at(url: str, **given: Any) -> Judges:
    endpoint = Endpoint(base_url=url, model="test-model", price=Price(input=1.0, output=2.0))
    return Judges(judges=(Judge(endpoints=(endpoint,), retry=Retry(attempts=1), timeout=5.0),), **given)
