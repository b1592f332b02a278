"""A little of both fuzzers in every run of the suite; the scripts beside this file run more."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import api_calls
import command_lines

import rubrank
from rubrank.fusion import arrays
from rubrank.fusion.control.attributes import find_attribute

SECONDS = 20.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11])
def test_a_mutated_command_line_ends_with_an_exit_code(seed):
    tried, wrong = command_lines.run(200, seed, SECONDS)
    assert tried > 10
    assert wrong == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", [5])
def test_hostile_arguments_raise_our_errors_only(seed):
    tried, wrong = api_calls.run(1500, seed, SECONDS)
    assert tried > 10
    assert [(name, found) for name, _, found in wrong] == []


def test_what_a_caller_raises_comes_through():
    def fails(_done, _total):
        raise KeyError("mine")

    with pytest.raises(KeyError, match="mine"):
        rubrank.grade([{"prompt": "p", "response": "r"}], ["Postscript"], workers=0, progress=fails)


def test_the_cause_is_kept():
    with pytest.raises(rubrank.InvalidInput, match="find_attribute: name must be of type str; got list") as error:
        find_attribute([])  # type: ignore[arg-type]
    assert isinstance(error.value.__cause__, TypeError)


def test_the_argument_that_is_wrong_is_named(tmp_path):
    with pytest.raises(rubrank.InvalidInput, match=r"records must be of type Iterable\[GroupRecord\]; got list"):
        rubrank.write_records(tmp_path / "x.jsonl", [1])  # type: ignore[list-item]


@pytest.mark.parametrize("error", [MemoryError, KeyError, TypeError, ZeroDivisionError])
def test_too_little_memory_and_bugs_come_through(monkeypatch, error):
    """The arguments are right, and something inside fails: that is not a mistake of the caller."""
    names = {"error": error}
    exec(compile("def fail(*_, **__):\n    raise error", arrays.__file__, "exec"), names)  # as if it stood there
    monkeypatch.setattr(arrays, "apply_rule", names["fail"])
    with pytest.raises(error):
        rubrank.fuse([[1.0, 0.0], [0.0, 1.0]])


@pytest.mark.parametrize("name", ["a" * 5000, "a" * 300 + ".csv", "b/" * 3000 + "c.jsonl"])
def test_a_name_that_is_too_long_for_the_system_is_one_of_our_errors(name):
    calls = [
        lambda: rubrank.fuse_file(name),
        lambda: rubrank.explain_file(name, "0"),
        lambda: rubrank.grade(name, ["WordCount"], workers=0),
        lambda: rubrank.load_rubric(name),
        lambda: rubrank.read_scores(name),
        lambda: rubrank.read_records(name),
    ]
    for call in calls:
        with pytest.raises(rubrank.InvalidInput):
            call()
