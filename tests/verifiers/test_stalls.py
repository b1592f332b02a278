"""No response makes a verifier hang: results and choices are read, and every verifier runs, in about linear time."""

import subprocess
import sys
from pathlib import Path

import pytest

from rubrank.verifiers.shared.choices import find_choice

_READERS = """
import faulthandler, sys
from rubrank.verifiers.shared.answers import read_answer
from rubrank.verifiers.shared.choices import find_choice
from rubrank.verifiers.truth.claims import claims
from rubrank.verifiers.truth.quantities import read_quantity
text = sys.stdin.read()
faulthandler.dump_traceback_later(20, exit=True)
read_answer(text); find_choice(text); claims(text, "Paris"); read_quantity(text, listed=False, last=True)
"""


@pytest.mark.parametrize(
    "text",
    [
        "The answer is A" + "\n" * 15_000 + "text",
        "A" + " \n" * 9_000 + "is",
        "A\n" * 9_000,
        "(A) " * 5_000,
        "A is " * 4_000,
        "\\boxed{" * 3_000,
        "\\boxed{1} or " * 1_500,
        "the answer is " * 1_500,
        "答案" * 9_000,
        "1.111" * 4_000,
        "not " * 5_000 + "A",
        "A" + "*" * 19_000,
    ],
    ids=lambda text: repr(text[:12]),
)
def test_reading_a_result_never_hangs(text):
    done = subprocess.run([sys.executable, "-c", _READERS], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


def test_line_breaks_behind_a_choice_do_not_change_it():
    assert find_choice("The answer is A" + "\n" * 40 + "Some text.").letters == "A"
    assert find_choice("A" + " " * 40 + "is wrong. B" + " " * 40 + "is correct.").letters == "B"


@pytest.mark.slow
def test_every_verifier_takes_repetitions_of_its_own_words():
    script = Path(__file__).with_name("stalls.py")
    done = subprocess.run(
        [sys.executable, str(script), "20", "20000"], capture_output=True, text=True, check=False, timeout=900
    )
    lines = done.stdout.splitlines()
    assert lines[-1] == "end", f"{lines[-1]}\n{done.stderr[-2000:]}"
