"""No response makes a verifier hang: results and choices are read, and every verifier runs, in about linear time."""

import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from cases import is_thorough

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers import sql
from rubrank.verifiers.shared.choices import find_choice
from rubrank.verifiers.shared.worker import WorkerFailed, call
from rubrank.verifiers.verifier import find_verifier

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


_HIDDEN_TEXT = """
import faulthandler, sys
from rubrank.texts.visible import visible
for piece in ["x<!--", "<![CDATA[", "x <!-- -", "]]<![CDATA[", "\\n<!--x-->", "<script>x", "<a style='"]:
    faulthandler.dump_traceback_later(20, exit=True)
    visible("z " + piece * (1_000_000 // len(piece)))
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.verifier import find_verifier
faulthandler.dump_traceback_later(20, exit=True)
empty = find_verifier("EmptyAnswer")
assert empty.verify(Rollout(response="![" * 500_000), empty.check_parameters({})).value == 0
"""


def test_looking_for_hidden_text_never_hangs():
    done = subprocess.run([sys.executable, "-c", _HIDDEN_TEXT], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


_MARKUP = """
import faulthandler, sys
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.verifier import find_verifier
markup = find_verifier("ValidMarkup")
pieces = ["<!--", "<![CDATA[", "<![", "<!", "<?", "<a ", "<a '", "<a \\"", "<a href='", "</", "<script>", "</script"]
for piece in pieces:
    faulthandler.dump_traceback_later(20, exit=True)
    found = markup.verify(Rollout(response=piece * 100_000), markup.check_parameters({"kind": "html"}))
    assert found.value == 0, (piece, found)
faulthandler.dump_traceback_later(20, exit=True)
markup.verify(Rollout(response="graph TD\\n" + ">" * 200_000), markup.check_parameters({"kind": "mermaid"}))
"""


def test_markup_that_never_ends_is_wrong_and_read_once():
    done = subprocess.run([sys.executable, "-c", _MARKUP], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-2000:]


@pytest.mark.parametrize(
    ("html", "reason"),
    [
        ("<!-- a -- b <i> --><b>x</b>", "well-formed html"),
        ("<p title='a > b' id=\"c\">x</p><br/><hr>", "well-formed html"),
        ("<script>if (a < b && c > d) { '<b>' }</script>", "well-formed html"),
        ("<svg><![CDATA[ <b> ]]></svg>", "well-formed html"),
        ("<!DOCTYPE html><?php x ?><B>x</b >", "well-formed html"),
        ("a < b and <i>c</i>", "well-formed html"),
        ("<b>x</b><!-- never", "<!-- is never closed"),
        ("<b><i>x</b></i>", "</b> crosses <i>"),
        ("<script>x", "<script> is never closed"),
    ],
)
def test_tags_are_found_as_browsers_find_them(html, reason):
    markup = find_verifier("ValidMarkup")
    assert markup.verify(Rollout(response=html), markup.check_parameters({"kind": "html"})).reason == reason


def test_native_code_that_does_not_return_is_ended():
    with pytest.raises(WorkerFailed, match="within 1 s of computing; the worker was ended"):
        call("hashlib:pbkdf2_hmac", ["sha256", b"a", b"b", 10**9], seconds=1)
    assert call("math:gcd", [4, 6], seconds=5) == 2


def test_filling_tables_is_limited_like_the_query():
    endless = (
        "CREATE TABLE t (a); INSERT INTO t WITH RECURSIVE c(x) AS (SELECT 1 UNION ALL SELECT x FROM c) SELECT x FROM c"
    )
    with pytest.raises(sqlite3.OperationalError, match="interrupted"):
        sql.run(endless, "SELECT 1")


def test_line_breaks_behind_a_choice_do_not_change_it():
    assert find_choice("The answer is A" + "\n" * 40 + "Some text.").letters == "A"
    assert find_choice("A" + " " * 40 + "is wrong. B" + " " * 40 + "is correct.").letters == "B"


@pytest.mark.slow
def test_every_verifier_takes_repetitions_of_its_own_words():
    script = Path(__file__).with_name("stalls.py")
    size = 20_000 if is_thorough() else 5_000
    done = subprocess.run(
        [sys.executable, str(script), "20", str(size)], capture_output=True, text=True, check=False, timeout=900
    )
    lines = done.stdout.splitlines()
    assert lines[-1] == "end", f"{lines[-1]}\n{done.stderr[-2000:]}"
