"""No answer, however odd or long, makes a verifier raise, hang or crash.

Fifteen kilobytes of several kinds (at night a whole one), ten thousand nested brackets, broken UTF-8, NUL,
zero-width and right-to-left characters: `hostile.py` runs every verifier on each, in a process that a watchdog ends
when one call takes more than five seconds of the processor.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from cases import is_thorough, thinned
from library import load_all, load_examples, rollout_of

LIBRARY = load_all()
SECONDS = 5
SIZE = 1_000_000 if is_thorough() else 15_000
SMALL = {
    "broken UTF-8": b"A \xff caf\xe9, \xf0\x9f. \xed\xa0\x80?\n- x\n".decode("utf-8", "surrogateescape"),
    "lone surrogates": "\ud83d One. \udfff\n\nTwo?",
    "control": "a\x00b\x00. \x1b[0m\r\r\n\x85\u2028c\x0b",
    "zero width": "\u200b\ufeffw\u200do\u2060rd. \u200b",
    "right to left": "\u202eabc\u202c مرحبا بالعالم؟ (שלום)",
    "brackets": "([{<“「" * 300,
    "marks": "\"'`*_~#-|>.,!?" * 50,
    "digits": "٣٤ ² ½ Ⅷ 九 1e999 -0 0x1F 1,2,3",
    "nothing": "",
    "spaces": " \t\n\u3000\xa0",
}


def run(first):
    """The lines of `hostile.py` from a call on, and what it said when it died."""
    script = Path(__file__).with_name("hostile.py")
    done = subprocess.run(
        [sys.executable, str(script), str(first), str(SECONDS), str(SIZE)],
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    return [json.loads(line) for line in done.stdout.splitlines()], done.stderr


@pytest.fixture(scope="module")
def results():
    """Every call: where it began, and how it ended (None: it did not)."""
    calls, first = [], 0
    for _ in range(30):
        lines, error = run(first)
        starts = [line for line in lines if "start" in line]
        ends = [line for line in lines if "done" in line]
        calls += [(start, ends[i] if i < len(ends) else None) for i, start in enumerate(starts)]
        if lines and "end" in lines[-1]:
            return calls
        assert starts, error
        first = starts[-1]["start"] + 1
    return calls


def named(start):
    return f"{start['name']} on {start['text']} ({start['compat']})"


@pytest.mark.slow
def test_every_verifier_was_tried(results):
    assert {start["name"] for start, _ in results} == set(LIBRARY)


@pytest.mark.slow
def test_every_call_ends_in_time(results):
    assert [named(start) for start, end in results if end is None] == []


@pytest.mark.slow
def test_every_call_gives_a_verdict_with_a_reason(results):
    assert [named(start) for start, end in results if end is not None and not end["right"]] == []


@pytest.mark.slow
def test_no_verifier_fails_inside(results):
    assert [f"{named(start)}: {end['crashed']}" for start, end in results if end is not None and end["crashed"]] == []


@pytest.mark.slow
def test_no_reason_repeats_the_answer(results):
    assert sorted({start["name"] for start, end in results if end is not None and end["size"] > 2000}) == []


@pytest.mark.parametrize("name", thinned(name for name, verifier in LIBRARY.items() if verifier.cost == "cheap"))
def test_every_example_takes_small_hostile_answers(name):
    verifier = LIBRARY[name]
    for _, other, example in load_examples_once():
        if other != name:
            continue
        params = verifier.check_parameters(example.get("params", {}))
        for kind, text in SMALL.items():
            verdict = verifier.verify(
                rollout_of({**example, "text": text}), params, compat=example.get("compat", "fixed")
            )
            assert f"{name} failed" not in verdict.reason, kind
            assert verdict.value is None or verifier.domain.holds(verdict.value)


def load_examples_once(kept=[]):  # noqa: B006 - the list is the cache
    if not kept:
        kept.extend(load_examples())
    return kept


def test_a_verifier_that_hangs_is_found():
    """The watchdog works: without this the tests above could not fail."""
    code = "import watchdog\nwatchdog.start(0.2)\nwhile True:\n    pass"
    folder = Path(__file__).parent
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == -signal.SIGPROF
    assert '"<string>"' in done.stderr
