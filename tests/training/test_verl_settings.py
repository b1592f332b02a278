"""What verl's configuration and rows say: needs nothing of verl."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from rubrank.errors import InvalidInput
from rubrank.fusion.control.adjustment import attenuate
from rubrank.training.controls import Control
from rubrank.training.frameworks.verl.settings import Settings
from rubrank.training.queries import to_plain_data

RUBRIC = [{"name": "WordCount", "params": {"low": 3}}]
OWN = [{"name": "Keyword", "params": {"keywords": ["moon"]}}]


def settings(**section):
    return Settings.read({"rubrank": section, "trainer": {}})


def test_the_engine_that_a_configuration_describes(tmp_path):
    engine = settings(
        rubric=RUBRIC,
        rule="rlvr2*focal+",
        records=str(tmp_path / "r.jsonl"),
        seed=3,
        attributes=["markdown", {"name": "reasoning_length", "attenuate": 0.5, "start": 700}],
    ).engine()
    assert engine.rule.name == "rlvr2*focal+"
    assert engine.controls == (Control("markdown"), Control("reasoning_length", attenuate(0.5), 700))
    assert engine.records == tmp_path / "r.jsonl"


def test_a_configuration_without_us():
    assert Settings.read({"trainer": {}}) == Settings()
    assert settings(rule=None).engine().rule.name == "rlvr2+"


@pytest.mark.parametrize(
    ("section", "message"),
    [({"rubrik": "x"}, "rubrik.*Did you mean 'rubric'"), ({"timeouts": 3}, "Did you mean 'timeout'")],
)
def test_unknown_keys(section, message):
    with pytest.raises(InvalidInput, match=message):
        settings(**section)


def test_values_are_checked():
    with pytest.raises(InvalidInput, match=r"rubrank in verl's config: .*attenuate"):
        settings(attributes=[{"name": "markdown", "attenuate": 3}])
    with pytest.raises(InvalidInput, match="one that can be imported"):
        settings(rubric=RUBRIC, imports=["no_such_module_of_verifiers"]).engine()


@pytest.mark.parametrize(
    "row",
    [
        {"rubric": OWN},
        {"rubric": None, "extra_info": {"rubric": OWN}},
        {"reward_model": {"rubric": OWN, "style": "rubric"}, "extra_info": None},
    ],
)
def test_where_a_row_has_its_rubric(row):
    assert settings().find_rubric(row) == OWN


def test_instructions_are_a_rubric():
    row = {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}], "extra_info": {}}
    assert settings().find_rubric(row) == {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
    assert settings().find_rubric({"extra_info": row}) == settings().find_rubric(row)
    assert settings().find_rubric({"extra_info": {}}) is None


def test_a_place_that_is_named():
    asked = settings(rubric_column="extra_info.asked", columns=["tests"])
    assert asked.find_rubric({"rubric": RUBRIC, "extra_info": {"asked": OWN}}) == OWN
    assert {"extra_info", "tests"} < set(asked.row_columns)
    with pytest.raises(InvalidInput, match=r"a place in the row, which has extra_info; got 'extra_info\.asked'"):
        asked.find_rubric({"extra_info": {}})


def test_a_row_and_its_rollout():
    row = {
        "raw_prompt": [{"role": "user", "content": "Name a lake."}],
        "data_source": "lakes",
        "reward_model": {"style": "rule", "ground_truth": "West Lake"},
        "extra_info": {"index": 7, "rubric": OWN},
        "tests": ["a"],
    }
    rollout = settings(columns=["tests"]).make_rollout(row, "<think>Hm.</think>West Lake.")
    assert (rollout.question, rollout.thoughts, rollout.answer) == ("Name a lake.", "Hm.", "West Lake.")
    assert rollout.metadata == {
        "style": "rule",
        "ground_truth": "West Lake",
        "index": 7,
        "data_source": "lakes",
        "tests": ["a"],
    }
    assert "tests" not in Settings().make_rollout(row, "").metadata


def test_rows_are_checked_before_anything_is_loaded():
    engine = settings(rubric=RUBRIC).engine()
    rows = [{"rubric": None}, {"rubric": OWN}, {"rubric": OWN}]
    assert settings().check_rows(engine, rows, "train_dataset") == 3
    with pytest.raises(InvalidInput, match=r"train_dataset, row 2: criterion 'Is it polite\?' must be decided by"):
        settings().check_rows(engine, [{}, {"rubric": ["Is it polite?"]}], "train_dataset")
    with pytest.raises(InvalidInput, match="row 1: rubric must be given"):
        settings().check_rows(settings().engine(), [{}], "train_dataset")


def test_arrays_become_lists():
    messages = np.empty(1, dtype=object)
    messages[0] = {"role": "user", "content": "x", "n": np.int64(3)}
    assert to_plain_data({"raw_prompt": messages, "scores": np.array([[1.0]])}) == {
        "raw_prompt": [{"role": "user", "content": "x", "n": 3}],
        "scores": [[1.0]],
    }
    assert to_plain_data((1, "ab", None)) == [1, "ab", None]


@pytest.mark.slow
@pytest.mark.parametrize("module", ["frameworks.verl.trainer", "verl.reward_loop"])
def test_without_verl_one_line_says_what_to_install(module):
    code = f"import sys; sys.modules['verl'] = None; import rubrank.training.{module}"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    last = found.stderr.strip().splitlines()[-1]
    assert last.startswith(f"ImportError: rubrank.training.{module} needs verl 0.9.1")
    assert "pip install verl==0.9.1" in last
