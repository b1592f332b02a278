"""Grading: every verdict once, whatever dies on the way."""

from __future__ import annotations

import math
import os
import re
import signal
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from cases import folded
from typer.testing import CliRunner

import rubrank.verifiers.gates.empty
import rubrank.verifiers.gates.legibility
import rubrank.verifiers.paper.length  # noqa: F401 - all register verifiers
from rubrank.cli.app import app
from rubrank.errors import InvalidInput, UnknownName
from rubrank.grading.cache import VerdictCache, digest_check, digest_rollout, make_key
from rubrank.grading.grade import count_missing, grade
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.rubric import load_rubric, parse_rubric
from rubrank.texts.text import Text
from rubrank.verifiers.verifier import (
    TERNARY,
    UNIT,
    VERIFIERS,
    Answer,
    Compat,
    find_verifier,
    missing,
    verifier,
)

CALLS: list[str] = []
SEEN: list[Text] = []
TWO = threading.Barrier(2)
SHORT = {"name": "Short", "verifier": "WordCount", "params": {"high": 2}}


@verifier("grade-test has a")
def has_a(text: Text, *, letter: str = "a", compat: Compat = "fixed") -> Answer:
    CALLS.append(text.raw)
    SEEN.append(text)
    return letter in text.raw, f"{letter} looked for, {compat}"


@verifier("grade-test share", domain=UNIT)
def share(text: Text) -> Answer:
    SEEN.append(text)
    return min(1.0, len(text.words) / 10), "words"


@verifier("grade-test turns")
def turns(rollout: Rollout) -> Answer:
    CALLS.append(rollout.question)
    return bool(rollout.turns), "turns"


@verifier("grade-test breaks")
def breaks(text: Text) -> Answer:
    raise RuntimeError("no good")


@verifier("grade-test cannot say")
def cannot_say(text: Text) -> Answer:
    CALLS.append("cannot say")
    return missing("nothing to go by")


@verifier("grade-test slow", cost="process")
def slow(text: Text) -> Answer:
    TWO.wait(timeout=20)  # broken, and so missing, unless two wait at the same time
    return text.raw == "a", "two at a time"


@pytest.fixture(autouse=True)
def _fresh():
    CALLS.clear()
    SEEN.clear()


def groups(*texts):
    return [
        Group(id=f"g{i}", rollouts=tuple(Rollout(prompt="p", response=text) for text in some))
        for i, some in enumerate(texts)
    ]


# ------------------------------------------------------------------------------------------------------------- results


def test_all_criteria_of_all_rollouts():
    rubric = parse_rubric(["grade-test has a", {"name": "Short", "verifier": "WordCount", "params": {"high": 2}}], "r")
    table = grade(groups(["a b c", "b"], ["a"]), rubric)
    np.testing.assert_array_equal(table["g0"].scores, [[1, 0], [0, 1]])
    np.testing.assert_array_equal(table["g1"].scores, [[1, 1]])
    assert table["g0"].reason(0, "Short") == "3 words found, at most 2 required"


def test_a_text_is_made_once_for_all_criteria():
    grade(groups(["a b", "c"]), ["grade-test has a", "grade-test share"], workers=0)
    assert len(SEEN) == 4
    assert len({id(text) for text in SEEN}) == 2


def test_judged_failed_and_undecided_are_missing_with_a_reason():
    rubric = ["Is it kind?", "grade-test breaks", "grade-test cannot say", "grade-test has a"]
    table = grade(groups(["a"]), rubric, most_missing=1)
    assert [math.isnan(x) for x in table["g0"].scores[0]] == [True, True, True, False]
    judged, failed, undecided = table["g0"].reasons[0][:3]
    assert (judged, undecided) == ("needs a judge", "nothing to go by")
    assert re.fullmatch(r"grade-test breaks failed: RuntimeError: no good \(.*\.py, line \d+\)", failed)
    assert failed in str(count_missing(table))  # the exception and its place are shown once


def test_a_rubric_that_needs_a_judge_is_refused_without_one():
    for rubric in (["Is it polite?"], ["Is it polite?", "Is it short?", "EmptyAnswer"]):
        with pytest.raises(InvalidInput, match=r"judges must be given: only a judge can decide 'Is it polite\?'"):
            grade(groups(["a", "b"]), rubric)
    assert np.isnan(grade(groups(["a"]), ["Is it polite?", "grade-test has a"]).scores[:, 0]).all()
    with pytest.raises(InvalidInput, match="judges must be given"):
        grade(groups(["a"]), ["Is it polite?", "grade-test has a"], most_missing=0.5)


def test_criteria_that_stay_missing_without_a_judge_are_named_once(caplog):
    rubric = ["Is it polite?", "grade-test has a", "Is it kind?"]
    table = grade(groups(["a"], ["b"]), rubric, workers=0)
    assert [group.scores[0, 1] for group in table.groups] == [1.0, 0.0]
    (record,) = [record for record in caplog.records if record.name == "rubrank"]
    assert record.levelname == "WARNING"
    assert "only a judge can decide 'Is it kind?', 'Is it polite?': these scores are missing" in record.getMessage()
    caplog.clear()
    grade(groups(["a"]), rubric, workers=0, most_missing=1)  # accepted in words
    grade(groups(["a"]), ["grade-test has a"], workers=0)
    assert not caplog.records


def test_a_value_that_the_criterion_does_not_allow_is_missing():
    rubric = [{"name": "A", "verifier": "grade-test share", "domain": "ternary"}]
    table = grade(groups(["one two three four five", "one"]), rubric)
    assert table["g0"].criteria[0].domain == TERNARY
    assert table["g0"].scores[0, 0] == 0.5
    assert math.isnan(table["g0"].scores[1, 0])
    assert "does not allow" in table["g0"].reason(1, "A")


def test_compat_and_mode_reach_the_verifiers():
    table = grade(groups(["x"]), ["grade-test has a"], compat="upstream")
    assert table["g0"].reason(0, "grade-test has a") == "a looked for, upstream"
    rubric = [{"name": "Short", "verifier": "WordCount", "params": {"high": 1}}]
    text = groups(["two words\nhere"])
    assert grade(text, rubric)["g0"].scores[0, 0] == 0
    assert grade(text, rubric, mode="loose")["g0"].scores[0, 0] == 1


def test_every_query_may_bring_its_own_rubric():
    one, two = groups(["a"], ["b"])
    one = one.model_copy(update={"rubric": ["grade-test has a"]})
    two = two.model_copy(
        update={"rubric": {"criteria": [{"name": "grade-test has a", "params": {"letter": "b"}}, "Postscript"]}}
    )
    table = grade([one, two])
    assert table["g0"].names == ("grade-test has a",)
    assert table["g1"].names == ("grade-test has a", "Postscript")
    assert table["g1"].score(0, "grade-test has a") == 1
    both = grade([one, two], ["EmptyAnswer", "grade-test has a"])
    assert both["g0"].names == ("EmptyAnswer", "grade-test has a")
    assert both["g1"].names == ("EmptyAnswer", "grade-test has a", "Postscript")
    assert both["g1"].score(0, "grade-test has a") == 1  # the query's own replaces the common one


def test_rubrics_and_rollouts_from_files(tmp_path):
    (tmp_path / "r.jsonl").write_text('{"id": 1, "prompt": "p", "said": "x"}\n{"id": 2, "prompt": "q", "said": ""}\n')
    (tmp_path / "r.yaml").write_text("extends: gates\ncriteria: [Postscript]\n")
    table = grade(tmp_path / "r.jsonl", tmp_path / "r.yaml", columns={"response": "said"})
    assert table["2"].score(0, "EmptyAnswer") == 0
    assert table["1"].score(0, "EmptyAnswer") == 1
    assert table["1"].criteria[0].layer == "global_quality"


def test_it_feeds_fusion():
    table = grade(groups(["a b", "", "c"]), ["EmptyAnswer", "grade-test has a"])
    assert table.fuse().reward.tolist() == [1.0, 0.0, 0.25]  # the worst that passes is above what the gate stops


def test_options_that_are_wrong():
    for wrong in ({"compat": "old"}, {"mode": "lax"}):
        with pytest.raises(UnknownName):
            grade(groups(["a"]), ["Postscript"], **wrong)
    with pytest.raises(InvalidInput, match="workers must be ≥ 0"):
        grade(groups(["a"]), ["Postscript"], workers=-1)
    with pytest.raises(InvalidInput, match="group 'g0': rubric must be given"):
        grade(groups(["a"]))
    bad = groups(["a"])[0].model_copy(update={"rubric": ["Postscript", {"name": "B", "verifier": "Nothing"}]})
    with pytest.raises(InvalidInput, match="group 'g0'"):
        grade([bad])


def test_progress_is_told(capsys):
    told = []
    grade(
        groups(["a", "b"], ["c"]),
        ["grade-test has a", "Kind?"],
        progress=lambda done, total: told.append((done, total)),
        most_missing=1,
    )
    assert told[-1] == (3, 3)
    assert sorted(told) == told
    grade(groups(["a"]), ["grade-test has a"], progress=True)
    assert capsys.readouterr().out == ""


def test_slow_ones_run_side_by_side():
    table = grade(groups(["a", "b"] * 4), ["grade-test slow", "grade-test has a"], workers=2)
    assert table["g0"].scores[:, 0].tolist() == [1, 0] * 4


# --------------------------------------------------------------------------------------------------------------- cache


def test_nothing_is_decided_twice(tmp_path):
    rubric = ["grade-test has a", "grade-test turns"]
    first = grade(groups(["a", "b"]), rubric, cache=tmp_path / "c.sqlite", workers=0)
    assert len(CALLS) == 4
    again = grade(groups(["b", "a", "new"]), rubric, cache=tmp_path / "c.sqlite", workers=0)
    assert CALLS[4:] == ["new", "p"]
    assert again["g0"].scores[:2].tolist() == first["g0"].scores[::-1].tolist()
    assert again["g0"].reasons[0] == first["g0"].reasons[1]


def test_a_changed_version_parameter_or_reading_is_decided_again(tmp_path, monkeypatch):
    def calls(rubric, **options):
        CALLS.clear()
        grade(groups(["a"]), rubric, cache=tmp_path / "c.sqlite", workers=0, **options)
        return len(CALLS)

    assert calls(["grade-test has a"]) == 1
    assert calls([{"name": "other name", "verifier": "grade-test has a", "params": {"letter": "a"}}]) == 0
    assert calls([{"name": "grade-test has a", "params": {"letter": "b"}}]) == 1
    assert calls(["grade-test has a"], compat="upstream") == 1
    assert calls(["grade-test has a"], mode="loose") == 1
    assert calls(["grade-test turns"]) == 1
    assert calls(["grade-test turns"], compat="upstream") == 0  # it has only one reading
    assert calls(["grade-test turns"], mode="loose") == 1  # a cheap one that is no gate has a loose mode
    from dataclasses import replace

    newer = replace(find_verifier("grade-test has a"), version=2)
    monkeypatch.setitem(VERIFIERS, "grade-test has a", newer)
    assert calls(["grade-test has a"]) == 1


def test_keys_depend_on_all_that_is_seen():
    check = digest_check(
        find_verifier("grade-test has a"), find_verifier("grade-test has a").check_parameters({}), "fixed", "strict"
    )
    a, b = Rollout(prompt="p", response="x"), Rollout(prompt="q", response="x")
    assert make_key(check, digest_rollout(a, Text)) == make_key(check, digest_rollout(b, Text))
    assert digest_rollout(a, Rollout) != digest_rollout(b, Rollout)
    assert digest_rollout(Rollout(response="\ud800"), Rollout) != digest_rollout(Rollout(response="\ud801"), Rollout)
    assert digest_rollout(Rollout(response="\ud800"), Text) != digest_rollout(Rollout(response="?"), Text)


def test_what_is_missing_is_not_kept(tmp_path):
    for _ in range(2):
        grade(groups(["a"]), ["grade-test cannot say"], cache=tmp_path / "c.sqlite", workers=0)
    assert CALLS == ["cannot say"] * 2


def test_a_file_that_is_no_cache(tmp_path):
    (tmp_path / "c.sqlite").write_text("something else, and long enough to be looked at " * 40)
    with pytest.raises(InvalidInput, match="cache"):
        grade(groups(["a"]), ["grade-test has a"], cache=tmp_path / "c.sqlite")
    with pytest.raises(InvalidInput, match="cache"):
        grade(groups(["a"]), ["grade-test has a"], cache=tmp_path)


@pytest.mark.slow
def test_several_processes_share_a_cache(tmp_path):
    code = """
        import sys
        from rubrank.grading.cache import VerdictCache
        with VerdictCache(sys.argv[1]) as cache:
            for i in range(60):
                cache.put({bytes([int(sys.argv[2]), i, j]): (1.0, "r") for j in range(20)})
    """
    running = [
        subprocess.Popen([sys.executable, "-c", textwrap.dedent(code), str(tmp_path / "c"), str(n)], env=environment())
        for n in range(3)
    ]
    assert [process.wait() for process in running] == [0, 0, 0]
    with VerdictCache(tmp_path / "c") as cache:
        assert len(cache) == 3 * 60 * 20
        assert cache.get([b"\x01\x02\x03", b"no"]) == {b"\x01\x02\x03": (1.0, "r")}


# ------------------------------------------------------------------------------------------------------------- workers

MODULE = """
    import os, re, signal, subprocess, sys, time
    from pathlib import Path
    from rubrank.texts.text import Text
    from rubrank.verifiers.verifier import verifier

    LOG = os.environ.get("GRADE_TEST_LOG")

    @verifier("grade-test elsewhere")
    def elsewhere(text: Text, *, letter: str = "a"):
        print("printing does no harm")
        return letter in text.raw, f"process {os.getpid()}"

    @verifier("grade-test dies")
    def dies(text: Text):
        if LOG:
            with open(LOG, "a") as log:
                log.write(text.raw + "\\n")
        if text.raw.startswith("die"):
            os._exit(3)
        if text.raw == "once" and not Path(LOG + ".once").exists():
            Path(LOG + ".once").touch()
            os.kill(os.getpid(), 9)
        return True, "alive"

    @verifier("grade-test hangs")
    def hangs(text: Text):
        with open(LOG, "a") as log:
            log.write(text.raw + "\\n")
        if text.raw.startswith("hang"):
            time.sleep(600)
        if text.raw.startswith("lock"):  # holds the interpreter: no thread and no handler of a signal gets a turn
            re.match("(a+)+$", "a" * 60 + "b")
        if text.raw.startswith("deaf"):
            signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGALRM, signal.SIGTERM])
            time.sleep(600)
        if text.raw.startswith("child"):
            wait = "import os, sys, time; open(sys.argv[1], 'w').write(str(os.getpid())); time.sleep(600)"
            subprocess.run([sys.executable, "-c", wait, LOG + ".child"])
        return True, f"process {os.getpid()}"

    @verifier("grade-test takes its time")
    def takes_its_time(text: Text):
        with open(LOG + ".slow", "a") as log:
            log.write(text.raw + "\\n")
        time.sleep(0.7)
        return True, "done"

    @verifier("grade-test logged")
    def logged(text: Text):
        time.sleep(0.02)
        with open(LOG, "a") as log:
            log.write(text.raw + "\\n")
        return True, "logged"
"""


def environment(**more):
    return {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), **more}


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of a user, with verifiers that other processes can import."""
    (tmp_path / "grade_test_module.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("GRADE_TEST_LOG", str(tmp_path / "log"))
    import grade_test_module

    yield tmp_path
    for name in [name for name, v in VERIFIERS.items() if v.function.__module__ == "grade_test_module"]:
        del VERIFIERS[name]
    del sys.modules["grade_test_module"], grade_test_module


def test_workers_give_the_same_verdicts(module):
    some = groups(["a", "b", "一二三"] * 10, ["c a \ud800"])
    rubric = ["grade-test elsewhere", {"name": "Short", "verifier": "WordCount", "params": {"high": 2}}]
    here, there = grade(some, rubric, workers=0), grade(some, rubric, workers=2)
    np.testing.assert_array_equal(here.scores, there.scores)
    assert here["g0"].reason(0, "Short") == there["g0"].reason(0, "Short")
    pids = {there["g0"].reason(i, "grade-test elsewhere") for i in range(30)}
    assert f"process {os.getpid()}" not in pids


@pytest.mark.slow
def test_workers_are_kept_for_the_next_call(module, monkeypatch):
    def pids():
        table = grade(groups(["a", "b"]), ["grade-test elsewhere"], workers=1)
        return {table["g0"].reason(i, "grade-test elsewhere") for i in range(2)}

    first = pids()
    assert len(first) == 1
    assert pids() == first
    monkeypatch.setenv("GRADE_TEST_OTHER", "1")  # what a verifier may read has changed
    assert pids() != first


@pytest.mark.slow
def test_a_kept_worker_that_died_is_replaced(module):
    def run():
        return grade(groups(["a"]), ["grade-test elsewhere"], workers=1)["g0"].reason(0, "grade-test elsewhere")

    first = run()
    os.kill(int(first.split()[1]), signal.SIGKILL)
    assert run().startswith("process ")


@pytest.mark.slow
def test_what_cannot_be_sent_is_said(module):
    rollout = Rollout(response="a", metadata={"function": lambda: 1})
    with pytest.raises(InvalidInput, match="workers=0"):
        grade([rollout], ["grade-test elsewhere"], workers=1)
    assert grade([rollout], ["grade-test elsewhere"], workers=0)["0"].scores[0, 0] == 1


@pytest.mark.slow
def test_verifiers_that_only_this_process_has_are_graded_here(module):
    @verifier("grade-test local")
    def local(text: Text) -> Answer:
        return True, f"process {os.getpid()}"

    try:
        table = grade(groups(["a"]), ["grade-test local", "grade-test elsewhere"], workers=1)
    finally:
        del VERIFIERS["grade-test local"]
    assert table["g0"].reason(0, "grade-test local") == f"process {os.getpid()}"
    assert table["g0"].reason(0, "grade-test elsewhere") != f"process {os.getpid()}"


@pytest.mark.slow
def test_a_module_that_other_processes_cannot_import(module):
    (module / "grade_test_module.py").write_text("import nothing_like_it")
    with pytest.raises(InvalidInput, match=r"nothing_like_it.*workers=0"):
        grade(groups(["a"]), ["grade-test elsewhere"], workers=1)


@pytest.mark.slow
def test_what_kills_a_worker_twice_is_missing_and_the_rest_goes_on(module):
    some = groups(["x", "die 1", "y", "die 2", "z"])
    table = grade(some, ["grade-test elsewhere", "grade-test dies", "Postscript"], workers=1)
    assert np.isnan(table["g0"].scores[:, 1]).tolist() == [False, True, False, True, False]
    assert table["g0"].reason(1, "grade-test dies") == (
        "grade-test dies failed: it ended its worker process twice (exit code 3)"
    )
    assert not np.isnan(table["g0"].scores[:, 0]).any()
    assert (module / "log").read_text().split("\n").count("die 1") == 2


@pytest.mark.slow
def test_a_worker_that_dies_once_is_forgiven(module):
    table = grade(groups(["x", "once", "y"]), ["grade-test dies"], workers=1)
    assert table["g0"].scores[:, 0].tolist() == [1, 1, 1]


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_what_takes_too_long_is_missing_and_the_rest_goes_on(module, workers):
    texts = ["x", "hang", "y", "lock", "z", *(f"text {i}" for i in range(60))]
    table = grade(groups(texts), [SHORT, "grade-test hangs", "grade-test elsewhere"], workers=workers, timeout=1)
    assert np.isnan(table["g0"].scores[:, 1]).tolist() == [text in ("hang", "lock") for text in texts]
    assert not np.isnan(table["g0"].scores[:, [0, 2]]).any()
    for i in (1, 3):
        assert table["g0"].reason(i, "grade-test hangs") == "grade-test hangs took longer than 1 s"
    log = (module / "log").read_text().splitlines()
    assert (log.count("hang"), log.count("lock"), log.count("text 59")) == (1, 1, 1)  # tried once, and kept


@pytest.mark.slow
def test_verdicts_given_before_are_kept(module, tmp_path):
    rubric = ["grade-test takes its time", SHORT, "grade-test hangs"]
    grade(groups(["hang"]), rubric, workers=1, timeout=1.5, cache=tmp_path / "c")
    assert (module / "log.slow").read_text() == "hang\n"
    assert _known(tmp_path / "c") == 2


@pytest.mark.slow
def test_code_that_no_signal_interrupts_is_killed_with_its_worker(module, monkeypatch):
    """The limits are long enough for the other verdicts on a busy machine."""
    monkeypatch.setattr("rubrank.grading.workers._GRACE_SECONDS", 4.0)
    table = grade(groups(["x", "deaf", "y"]), ["grade-test hangs", SHORT], workers=1, timeout=4)
    assert np.isnan(table["g0"].scores[:, 0]).tolist() == [False, True, False]
    assert table["g0"].reason(1, "grade-test hangs") == "grade-test hangs took longer than 4 s"
    assert not np.isnan(table["g0"].scores[:, 1]).any()


@pytest.mark.slow
def test_many_verdicts_together_may_take_longer(module):
    rubric = [{"name": f"{i}", "verifier": "grade-test takes its time"} for i in range(3)]
    assert grade(groups(["a"]), rubric, workers=1, timeout=1)["g0"].scores.tolist() == [[1, 1, 1]]


@pytest.mark.slow
def test_what_a_stopped_verifier_started_ends_too(module):
    table = grade(groups(["child"]), ["grade-test hangs"], workers=1, timeout=2)
    assert table["g0"].reason(0, "grade-test hangs") == "grade-test hangs took longer than 2 s"
    child = Path(f"/proc/{(module / 'log.child').read_text()}")
    for _ in range(100):
        if not child.exists():
            return
        time.sleep(0.05)
    raise AssertionError("its process is still there")


@pytest.mark.slow
def test_a_limit_that_is_asked_for_holds_without_a_number_of_workers(module):
    table = grade(groups(["hang", "y"]), ["grade-test hangs", SHORT], timeout=1)
    assert table["g0"].reason(0, "grade-test hangs") == "grade-test hangs took longer than 1 s"
    assert table["g0"].reason(1, "grade-test hangs") != f"process {os.getpid()}"
    here = grade(groups(["y"]), ["grade-test hangs"])
    assert here["g0"].reason(0, "grade-test hangs") == f"process {os.getpid()}"


@pytest.mark.slow
def test_there_is_a_limit_in_workers_unless_there_is_none(module, monkeypatch):
    monkeypatch.setattr("rubrank.grading.grade.TIMEOUT", 0.3)
    rubric = ["grade-test takes its time"]
    assert math.isnan(grade(groups(["a"]), rubric, workers=1)["g0"].scores[0, 0])
    assert grade(groups(["a"]), rubric, workers=1, timeout=None)["g0"].scores[0, 0] == 1
    assert grade(groups(["a"]), rubric, workers=0)["g0"].scores[0, 0] == 1


@folded("timeout", [0, -1, math.inf, math.nan, True, "long"])
def test_limits_that_are_none(timeout):
    with pytest.raises(InvalidInput, match="timeout must be"):
        grade(groups(["a"]), ["Postscript"], timeout=timeout)


def test_no_limit_can_be_kept_in_this_process():
    with pytest.raises(InvalidInput, match="Use 1 worker"):
        grade(groups(["a"]), ["Postscript"], timeout=5, workers=0)


@pytest.mark.parametrize(
    ("options", "found"),
    [
        (["--timeout", "5", "--workers", "0"], "Use 1 worker"),
        (["--timeout", "soon"], 'or "none"'),
        (["--timeout", "0"], "seconds > 0"),
        (["--timeout", "none", "--workers", "0"], None),
        (["--timeout", "5"], None),
    ],
)
def test_the_limit_on_the_command_line(tmp_path, options, found):
    (tmp_path / "r.jsonl").write_text('{"prompt": "p", "response": "x"}\n')
    files = [str(tmp_path / "r.jsonl"), "-r", "gates", "-o", str(tmp_path / "s.parquet"), "--cache", "none"]
    done = CliRunner().invoke(app, ["grade", *files, *options])
    assert done.exit_code == (0 if found is None else 2), done.output
    assert found is None or found in done.stderr


@pytest.mark.slow
def test_a_script_needs_no_guard(module):
    script = module / "script.py"
    script.write_text(
        "import grade_test_module\nfrom rubrank import Rollout, grade\n"
        "table = grade([Rollout(response='a')] * 3, ['grade-test elsewhere'], workers=2)\n"
        "print(table['0'].scores[:, 0].tolist())\n"
    )
    done = subprocess.run([sys.executable, script], capture_output=True, text=True, env=environment(), check=False)
    assert done.stdout.splitlines()[-1] == "[1.0, 1.0, 1.0]", done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("workers", [0, 2])
def test_a_killed_run_goes_on_where_it_was(module, workers):
    script = module / "script.py"
    script.write_text(
        "import sys, grade_test_module\nfrom rubrank import Rollout, grade\n"
        "rollouts = [Rollout(prompt='p', response=f'text {i}') for i in range(200)]\n"
        f"table = grade(rollouts, ['grade-test logged'], workers={workers}, cache=sys.argv[1])\n"
        "print(table['0'].scores.sum())\n"
    )
    command = [sys.executable, str(script), str(module / "cache")]
    running = subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE)
    _wait_for(module / "cache", 40)
    running.send_signal(signal.SIGKILL)
    running.communicate()
    time.sleep(0.3)  # workers see the end of their pipe
    known = _known(module / "cache")
    before = len((module / "log").read_text().splitlines())
    assert 40 <= known <= before < 200
    done = subprocess.run(command, env=environment(), capture_output=True, text=True, check=True)
    assert float(done.stdout) == 200
    lines = (module / "log").read_text().splitlines()
    assert len(lines) - before == 200 - known  # exactly what was not known
    assert set(lines) == {f"text {i}" for i in range(200)}


def _known(path: Path) -> int:
    with VerdictCache(path) as cache:
        return len(cache)


def _wait_for(path: Path, verdicts: int) -> None:
    for _ in range(600):
        if path.exists() and _known(path) >= verdicts:
            return
        time.sleep(0.05)
    raise AssertionError("nothing was written")


def test_the_preset_of_gates_grades():
    table = grade(groups(["A whole answer.", ""]), "gates")
    assert table["g0"].names == load_rubric("gates").names
    assert table["g0"].score(1, "EmptyAnswer") == 0


def test_an_own_verifier_that_raises_is_shown_once(caplog):
    """In Python and in trainers the scores are missing, which nobody would notice; a run has many steps."""
    from rubrank.rollouts.groups import read_groups
    from rubrank.training.engine import RewardEngine
    from rubrank.verifiers.verifier import VERIFIERS, verifier

    @verifier("RaisesOnce")
    def raises_once(text: str) -> bool:
        raise KeyError("no such column")

    try:
        groups = read_groups([{"id": "a", "prompt": "p", "response": text} for text in ("x", "y")])
        engine = RewardEngine(["RaisesOnce", "EmptyAnswer"])
        for step in range(3):
            engine.score(groups, step)
        grade(groups, ["RaisesOnce"])
    finally:
        del VERIFIERS["RaisesOnce"]
    (message,) = [record.message for record in caplog.records if "RaisesOnce" in record.message]
    assert "KeyError: 'no such column' (" in message
    assert "test_grade.py, line" in message
