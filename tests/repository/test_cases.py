"""The helper that folds cases names every one that fails."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from cases import FULL, MOST_SHOWN, QUICK, USUAL, Cases, drawn

ROOT = Path(__file__).parents[2]


def run(*values: int) -> None:
    with Cases() as cases:
        for value in values:
            with cases("value", value):
                assert value % 2 == 0, "odd"


def test_cases_that_hold():
    run(2, 4)


def test_each_case_that_fails_is_named_and_the_others_still_run():
    with pytest.raises(AssertionError) as caught:
        run(1, 2, 3)
    assert str(caught.value).startswith("2 of 3 cases failed:\nvalue 1: AssertionError: odd")
    assert "value 3: " in str(caught.value)


def test_an_exception_is_a_failure_of_its_case():
    with (
        pytest.raises(AssertionError, match="1 of 1 cases failed:\nzero: ZeroDivisionError"),
        Cases() as cases,
        cases("zero"),
    ):
        raise ZeroDivisionError


def test_no_case_at_all_fails():
    with pytest.raises(AssertionError, match="no case ran"):
        run()


def test_a_long_list_is_cut():
    with pytest.raises(AssertionError, match="… and 5 more"):
        run(*([1] * (MOST_SHOWN + 5)))


@pytest.mark.slow
@pytest.mark.skipif(sys.platform == "win32", reason="no such signals")
def test_an_ignored_interrupt_is_not_inherited():
    """As under `nohup make test &`: pytest starts with SIGINT ignored, and the tests that send it still pass."""
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "tests/judges/test_step_calls.py"]
    code = f"import os, signal; signal.signal(signal.SIGINT, signal.SIG_IGN); os.execv({command[0]!r}, {command!r})"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout[-3000:]


def test_no_two_test_files_have_the_same_name():
    """pytest imports them by their names alone: of two, one could not be collected."""
    names = [path.name for path in (ROOT / "tests").rglob("test_*.py")]
    assert sorted({name for name in names if names.count(name) > 1}) == []


@pytest.mark.parametrize(
    ("profile", "most", "number"),
    [(QUICK, 400, 10), (QUICK, 5, 5), (USUAL, 400, 100), (USUAL, 40, 20), (FULL, 400, 400), (FULL, 5, 5)],
)
def test_how_many_examples_are_drawn(profile, most, number):
    assert drawn(most, profile) == number
