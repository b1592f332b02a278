"""A little of both fuzzers in every run of the suite; the scripts beside this file run more."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import command_lines

SECONDS = 20.0


@pytest.mark.slow
@pytest.mark.parametrize("seed", [11])
def test_a_mutated_command_line_ends_with_an_exit_code(seed):
    tried, wrong = command_lines.run(200, seed, SECONDS)
    assert tried > 10
    assert wrong == []
