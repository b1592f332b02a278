"""Several environments in one run: each row has its own, with its tools and what it says first."""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path

import pytest
import yaml

pytest.importorskip("trl", reason="trl is not installed: pip install 'rubrank[trl]'")

from rubrank.records.files import read_records
from rubrank.training.job.config import load_job
from rubrank.training.job.plan import make_plan
from rubrank.training.job.run import run

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # importing TRL takes seconds, and warns
RECIPE = Path(__file__).parents[2] / "recipes" / "tiny_agent"
WORLDS = '''
class Shop:
    seen = []

    def reset(self, **row):
        Shop.seen.append(row)
        return " In the shop."

    def price(self, thing: str) -> str:
        """Ask for a price.

        Args:
            thing: Of what.
        """
        return "3"


class Bank:
    seen = []

    def reset(self, **row):
        Bank.seen.append(row)

    def balance(self) -> str:
        """Ask for the balance."""
        return "7"
'''


def test_rows_meet_their_own_environments(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(RECIPE))
    runpy.run_path(str(RECIPE / "make.py"))["make"](tmp_path, 0)
    (tmp_path / "worlds_of_a_test.py").write_text(WORLDS)
    rows = [json.loads(line) for line in (tmp_path / "prompts.jsonl").read_text().splitlines()]
    told = [{**row, "environment": ("shop", "bank")[n % 2], "number": n} for n, row in enumerate(rows)]
    (tmp_path / "prompts.jsonl").write_text("".join(json.dumps(row) + "\n" for row in told))
    config = yaml.safe_load((tmp_path / "config.yaml").read_text())
    del config["held_out"], config["tools"]
    config |= {"environments": {"shop": "worlds_of_a_test.Shop", "bank": "worlds_of_a_test.Bank"}}
    config["rubric"] = [{"name": "Brief", "verifier": "WordCount", "params": {"high": 3}}]
    config["stages"][0]["steps"] = 1
    config["training"] |= {"num_generations": 2, "per_device_train_batch_size": 16, "max_completion_length": 4}
    (tmp_path / "config.yaml").write_text(yaml.safe_dump(config))
    monkeypatch.setattr(sys, "path", [*sys.path])
    try:
        records = list(read_records(run(make_plan(load_job(tmp_path / "config.yaml"))).records))
        worlds = sys.modules["worlds_of_a_test"]
    finally:
        for name in ("worlds_of_a_test", "calculator"):
            sys.modules.pop(name, None)
    in_shop = ["In the shop." in record.prompt[-1]["content"] for record in records]
    assert (len(worlds.Shop.seen), len(worlds.Bank.seen)) == (2 * sum(in_shop), 2 * (8 - sum(in_shop)))
    assert 0 < sum(in_shop) < 8
    assert {row["number"] % 2 for row in worlds.Shop.seen} == {0}
    assert all("environment" not in row for row in worlds.Bank.seen)  # it only says which
