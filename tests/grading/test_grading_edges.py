"""Grading where something ends, is defined again, or looks like something else: the same verdicts on every way."""

from __future__ import annotations

import importlib
import multiprocessing.resource_tracker
import multiprocessing.spawn
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rubrank.errors import InvalidInput
from rubrank.grading.cache import digest_rollout
from rubrank.grading.grade import count_missing, grade, grade_whole_groups
from rubrank.grading.plan import GradeOptions, plan_rubric
from rubrank.grading.preview import estimate
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.rubric import load_rubric
from rubrank.verifiers.shared.worker import call
from rubrank.verifiers.verifier import UNIT, VERIFIERS, verifier

MODULE = """
    import os, re, sys
    from pathlib import Path
    from rubrank.verifiers.verifier import verifier

    @verifier("edges says")
    def says(text):
        return True, "one"

    @verifier("edges odd reason")
    def odd_reason(text):
        return True, ["not", "a", "text"]

    @verifier("edges exits")
    def exits(text):
        sys.exit(3)

    @verifier("edges exits slowly", cost="process")
    def exits_slowly(text):
        sys.exit(3)

    @verifier("edges hangs")
    def hangs(text):
        Path(os.environ["EDGES_LOG"]).write_text(str(os.getpid()))
        re.match("(a+)+$", "a" * 60 + "b")  # holds the interpreter
"""


@pytest.fixture
def module(tmp_path, monkeypatch):
    """A module of a user, with verifiers that other processes can import."""
    (tmp_path / "edges_module.py").write_text(textwrap.dedent(MODULE))
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("EDGES_LOG", str(tmp_path / "log"))
    importlib.import_module("edges_module")
    yield tmp_path
    for name in [name for name, v in VERIFIERS.items() if v.function.__module__ == "edges_module"]:
        del VERIFIERS[name]
    del sys.modules["edges_module"]


def group(*texts: str) -> list[Group]:
    return [Group(id="g", rollouts=tuple(Rollout(prompt="p", response=text) for text in texts))]


def only_reasons(table) -> set[str]:
    return {reason for row in table["g"].reasons for reason in row}


# --------------------------------------------------------------------------------------------------------- what is seen

plain = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3) | st.binary(max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=5,
)


@given(plain, plain)
def test_different_metadata_are_different_keys(one, other):
    keys = [digest_rollout(Rollout(response="a", metadata={"x": x}), Rollout) for x in (one, other)]
    assert (keys[0] == keys[1]) == (repr(one) == repr(other))


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (float("inf"), float("-inf")),
        (float("nan"), None),
        (b"ab", "ab"),
        (np.arange(2000), np.where(np.arange(2000) == 1000, -1, np.arange(2000))),
    ],
)
def test_what_json_writes_alike_has_its_own_key(one, other):
    first, second = (Rollout(response="a", metadata={"x": x}) for x in (one, other))
    assert digest_rollout(first, Rollout) != digest_rollout(second, Rollout)
    assert digest_rollout(first, Rollout) == digest_rollout(first.model_copy(), Rollout)


def test_earlier_turns_of_a_response_are_seen():
    first, second = (
        Rollout(response=[{"role": "assistant", "content": said}, {"role": "assistant", "content": "end"}])
        for said in ("one", "two")
    )
    assert digest_rollout(first, Rollout) != digest_rollout(second, Rollout)


def test_what_cannot_be_told_apart_is_decided_each_time():
    rollout = Rollout(response="a", metadata={"x": lambda: 1})
    assert digest_rollout(rollout, Rollout) != digest_rollout(rollout, Rollout)


# ------------------------------------------------------------------------------------------------------ defined anew


def test_a_rubric_is_decided_by_the_verifier_as_it_is_now():
    def define(value: float) -> None:
        def edges_again(text):
            return value, str(value)

        verifier("edges again", domain=UNIT)(edges_again)

    try:
        define(0.25)
        rubric = load_rubric(["edges again"])
        assert grade(group("a"), rubric)["g"].scores.tolist() == [[0.25]]
        define(0.75)
        assert grade(group("a"), rubric)["g"].scores.tolist() == [[0.75]]
    finally:
        del VERIFIERS["edges again"]


@pytest.mark.slow
def test_workers_do_not_outlive_a_module_that_is_reloaded(module):
    assert only_reasons(grade(group("a"), ["edges says"], workers=1)) == {"one"}
    changed = textwrap.dedent(MODULE).replace('"one"', '"another"')
    (module / "edges_module.py").write_text(changed)
    importlib.reload(sys.modules["edges_module"])
    for workers in (0, 1):
        assert only_reasons(grade(group("a"), ["edges says"], workers=workers)) == {"another"}


# ------------------------------------------------------------------------------------------------- odd verifiers


@pytest.mark.slow
@pytest.mark.parametrize("name", ["edges odd reason", "edges exits", "edges exits slowly"])
def test_odd_verifiers_are_missing_in_the_same_words_here_and_elsewhere(module, name):
    here, there = (grade(group("a", "b"), [name], workers=workers) for workers in (0, 1))
    assert np.isnan(here.scores).all()
    assert only_reasons(here) == only_reasons(there)
    assert f"{name} failed: " in only_reasons(here).pop()


def test_an_error_while_waiting_for_slow_verifiers_is_raised_and_not_waited_for(monkeypatch):
    @verifier("edges interrupted", cost="process")
    def interrupted(text):
        raise KeyboardInterrupt

    try:
        with pytest.raises(KeyboardInterrupt):
            grade(group("a"), ["edges interrupted"], workers=0)
    finally:
        del VERIFIERS["edges interrupted"]


def test_values_of_whole_groups_that_a_criterion_does_not_allow_say_so():
    @verifier("edges together", domain=UNIT)
    def together(group: Group):
        return [(0.3, "fine") for _ in group.rollouts]

    try:
        rubric = load_rubric([{"name": "edges together", "domain": "binary"}])
        table = grade(group("a", "b"), rubric)
        again = grade_whole_groups(table, group("a", "b"), [plan_rubric(rubric, GradeOptions())])
        assert again["g"].reasons == table["g"].reasons
        assert "does not allow" in table["g"].reasons[0][0]
    finally:
        del VERIFIERS["edges together"]


def test_a_score_whose_reason_begins_like_a_gated_cell_counts():
    @verifier("edges reasons")
    def reasons(text):
        return (True, "not asked for bullets, none found") if text.raw == "a" else None

    try:
        found = count_missing(grade(group("a", "b", "c"), ["edges reasons"]))
        assert (found.asked, found.missing) == (3, 2)
    finally:
        del VERIFIERS["edges reasons"]


# -------------------------------------------------------------------------------------------------------------- endings


@pytest.mark.slow
def test_a_rollout_that_cannot_be_sent_ends_its_worker_once(module, monkeypatch):
    raised: list[object] = []
    monkeypatch.setattr(threading, "excepthook", raised.append)
    rollouts = [Rollout(response=str(i)) for i in range(40)]
    rollouts[-1] = Rollout(response="z", metadata={"function": lambda: 1})
    with pytest.raises(Exception, match="workers=0"):
        grade([Group(id="g", rollouts=tuple(rollouts))], ["edges says"], workers=1)
    assert raised == []


@pytest.mark.slow
def test_workers_that_do_not_start_are_one_clear_error(module, monkeypatch):
    # Python's own helper process starts with the first worker, by the same executable: only workers shall fail.
    multiprocessing.resource_tracker.ensure_running()
    executable = multiprocessing.spawn.get_executable()
    multiprocessing.set_executable("/bin/false")
    try:
        with pytest.raises(InvalidInput, match="workers=0"):
            grade(group("a", "b" * 200_000, "c"), ["edges says"], workers=2)
    finally:
        multiprocessing.set_executable(executable)
    assert only_reasons(grade(group("a"), ["edges says"], workers=2)) == {"one"}


@pytest.mark.slow
def test_a_worker_that_hangs_ends_with_its_caller(module):
    code = "import edges_module, rubrank; rubrank.grade([{'response': 'a'}], ['edges hangs'], workers=1, timeout=None)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    caller = subprocess.Popen([sys.executable, "-c", code], env=environment)
    try:
        worker = _soon(lambda: int((module / "log").read_text()))
    finally:
        caller.kill()
        caller.wait()
    assert _soon(lambda: _has_ended(worker) or None)


def _soon(look):
    for _ in range(600):
        try:
            if (found := look()) is not None:
                return found
        except (OSError, ValueError):
            pass
        time.sleep(0.05)
    raise AssertionError("it did not happen")


def _has_ended(process: int) -> bool:
    """Gone, or left for somebody to ask how it ended."""
    stat = Path(f"/proc/{process}/stat")
    return not stat.exists() or stat.read_text().rpartition(")")[2].split()[0] in "ZX"


@pytest.mark.slow
def test_files_where_we_stand_do_not_take_the_place_of_python_s_own(module, tmp_path, monkeypatch):
    stand = tmp_path / "a folder"
    stand.mkdir()
    (stand / "queue.py").write_text("raise ImportError('not this one')")
    monkeypatch.chdir(stand)
    monkeypatch.setattr(sys, "path", [tmp_path / "no text", *sys.path])  # Python passes over it
    assert only_reasons(grade(group("a"), ["edges says"], workers=1)) == {"one"}
    assert call("operator:add", [1, 2], seconds=5) == 3


def test_an_estimate_names_an_argument_of_the_wrong_type():
    with pytest.raises(InvalidInput, match=r"^estimate: columns must be of type Mapping"):
        estimate([{"prompt": "q", "response": "a"}], {"criteria": [{"name": "Clear"}]}, columns=["response"])


def test_the_memory_of_a_text_can_be_freed():
    rollout = Rollout(response="two words")
    first = rollout.text
    rollout.forget_text()
    assert rollout.text is not first
    assert rollout.text.words == first.words
