"""The whole stage over HTTP: prompts, client, cache, parser, kinds."""

import signal
import sqlite3
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scripted import CRITERION, group, names, said, shown_in
from server import MODEL, Answer, Asked, Server

from rubrank.errors import InvalidInput, JudgingFailed
from rubrank.judges.judge import Call, Endpoint, Judge, Judges, Retry
from rubrank.judges.judgments import Judgments
from rubrank.judges.step import judge_groups
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.rubrics.rubric import Criterion

KIND = Criterion(name="Kind", question="Is it kind?")
ONCE = Retry(attempts=1)


def by(answer: Callable[[list[str]], Any]) -> Callable[[Asked], Answer]:
    """A script that answers by what is shown; an `Answer` goes out as it is."""

    def script(asked: Asked) -> Answer:
        found = answer(shown_in(Call(tuple(asked.body["messages"]))))
        return found if isinstance(found, Answer) else Answer(said(found).text)

    return script


def judges(server: Server, cache: Path | None = None, *, step: dict[str, Any] | None = None, **given: Any) -> Judges:
    endpoint = Endpoint(base_url=server.url, model=MODEL)
    one = Judge(**{"endpoints": (endpoint,), "retry": ONCE, **given})
    return Judges(judges=(one,), cache=None if cache is None else str(cache), **step or {})


def run(groups: list[Group], who: Judges, criteria: tuple[Criterion, ...] = (CRITERION,)) -> Judgments:
    wanted = [np.ones((len(one.rollouts), len(criteria)), dtype=bool) for one in groups]
    return judge_groups(groups, [criteria] * len(groups), wanted, who)


def better(shown: list[str]) -> Any:
    if len(shown) == 1:
        return int(shown[0] < "r2")
    return ["A", "B"][shown[0] > shown[1]] if len(shown) == 2 else [sorted(shown).index(one) + 1 for one in shown]


def test_every_kind(tmp_path: Path) -> None:
    i, j = np.indices((3, 3))
    ranked = np.where(i < j, 1.0, np.where(i > j, 0.0, np.nan))
    for kind, asked in (("absolute", 3), ("pairwise", 6), ("listwise", 1)):
        with Server(by(better)) as server:
            found = run([group(*names(3))], judges(server, kind=kind))
            assert len(server.completions) == found.account.calls == asked
            assert found.account.input_tokens == 100 * asked
            assert list(found.account.purposes) == [f"Clear ({kind})"]
        if kind == "absolute":
            assert [found.groups[0].verdicts[n, "Clear"].value for n in range(3)] == [1, 1, 0]
        else:
            np.testing.assert_array_equal(found.groups[0].outcomes["Clear"], ranked)


def test_batched() -> None:
    with Server(by(lambda shown: {"Clear": 1, "Kind": 0})) as server:
        found = run([group(*names(2))], judges(server, kind="batched"), (CRITERION, KIND))
        assert len(server.completions) == 2
    assert [found.groups[0].verdicts[1, name].value for name in ("Clear", "Kind")] == [1, 0]


def test_a_panel_of_two_models_and_two_samples(tmp_path: Path) -> None:
    with Server(by(lambda shown: 1), models=["one"]) as one, Server(by(lambda shown: 0), models=["other"]) as other:
        ends = [Endpoint(base_url=one.url, model="one"), Endpoint(base_url=other.url, model="other")]
        panel = Judge(members=tuple(Judge(endpoints=(end,)) for end in ends), samples=2, combine="mean")
        found = run([group("a")], Judges(judges=(panel,), cache=str(tmp_path / "replies.sqlite")))
        assert [len(server.completions) for server in (one, other)] == [2, 2]
    assert found.groups[0].verdicts[0, "Clear"].value == 0.5
    assert found.disagreement["Clear"] == pytest.approx(4 / 6)
    assert list(found.account.endpoints) == sorted([one.url, other.url])


def test_nothing_is_paid_twice(tmp_path: Path) -> None:
    with Server(by(better)) as server:
        who = judges(server, tmp_path / "replies.sqlite", kind="pairwise")
        first, second = run([group(*names(4))], who), run([group(*names(4))], who)
        assert len(server.completions) == 12
    assert (first.account.calls, first.account.hits) == (12, 0)
    assert (second.account.calls, second.account.hits, second.account.cost) == (0, 12, 0.0)
    np.testing.assert_array_equal(first.groups[0].outcomes["Clear"], second.groups[0].outcomes["Clear"])


def test_a_failed_step_keeps_what_was_answered(tmp_path: Path) -> None:
    broken = {"r1", "r2"}
    with Server(by(lambda shown: Answer(status=500) if shown[0] in broken else 1)) as server:
        who = judges(server, tmp_path / "replies.sqlite", step={"most_missing": 0.25})
        with pytest.raises(JudgingFailed, match=r"2 of 4 answers are missing .* most often: 2 × HTTP 500"):
            run([group(*names(4))], who)
        broken.clear()
        found = run([group(*names(4))], who)
        assert len(server.completions) == 4 + 2
    assert (found.missing, found.account.hits) == (0.0, 2)


def test_replies_that_cannot_be_used_are_missing_with_the_judges_words() -> None:
    replies = {
        "r0": Answer('{"reasoning": "Good.", "finding": "holds", "verdict": 0}'),
        "r1": Answer('{"reasoning": "Good.", "finding": "holds", "verdict": 7}'),
        "r2": Answer("I had rather not say."),
        "r3": Answer('{"reasoning": "Go', finish_reason="length"),
        "r4": Answer(None, message={"refusal": "I cannot help with that"}),
        "r5": Answer(drop="mid-body"),
        "r6": Answer(said(1).text),
    }
    with Server(by(lambda shown: replies[shown[0]])) as server:
        found = run([group(*names(7))], judges(server, step={"most_missing": 0.9}))
    verdicts = [found.groups[0].verdicts[i, "Clear"] for i in range(6)]
    assert [verdict.value for verdict in verdicts] == [None] * 6
    words = ["contradicts", "7 is not one of 0, 1", "rather not say", "cut off", "I cannot help with that", ""]
    assert all(word in verdict.reason for word, verdict in zip(words, verdicts, strict=True))
    assert found.missing == 6 / 7
    assert found.account.output_tokens == 6 * 20  # paid for all the same


def test_deadline_of_the_step(tmp_path: Path) -> None:
    with Server(by(lambda shown: Answer(drop="never") if shown[0] == "r1" else 1)) as server:
        found = run(
            [group(*names(3))], judges(server, tmp_path / "replies.sqlite", step={"deadline": 0.5, "most_missing": 0.5})
        )
    verdicts = [found.groups[0].verdicts[i, "Clear"] for i in range(3)]
    assert [verdict.value for verdict in verdicts] == [1, None, 1]
    assert verdicts[1].reason == "deadline of the step passed"


def test_cache_only(tmp_path: Path) -> None:
    cache = tmp_path / "replies.sqlite"
    with Server(by(better)) as server:
        run([group(*names(2))], judges(server, cache))
        before = cache.read_bytes()
        found = run([group(*names(3))], judges(server, cache, step={"cache_only": True, "most_missing": 0.5}))
        assert len(server.completions) == 2
    verdicts = [found.groups[0].verdicts[i, "Clear"] for i in range(3)]
    assert [verdict.value for verdict in verdicts] == [1, 1, None]
    assert verdicts[2].reason == "not in the cache"
    assert cache.read_bytes() == before


def test_cache_only_sees_what_another_process_has_just_written(tmp_path: Path) -> None:
    cache = tmp_path / "replies.sqlite"
    with Server(by(better)) as server:
        run([group("r0")], judges(server, cache))
        other = sqlite3.connect(cache)  # keeps the log of the next writer from being folded in
        other.execute("SELECT count(*) FROM ledger").fetchone()
        run([group("r1")], judges(server, cache))
        assert Path(f"{cache}-wal").exists()
        found = run([group("r1")], judges(server, cache, step={"cache_only": True}))
        other.close()
    assert found.missing == 0.0


def test_cache_only_needs_a_file(tmp_path: Path) -> None:
    with Server() as server, pytest.raises(InvalidInput, match="judges: cache must be"):
        run([group("a")], judges(server, tmp_path / "none.sqlite", step={"cache_only": True}))


def test_broken_characters() -> None:
    odd = Group(
        id="\ud800",
        rollouts=(Rollout(prompt="\udfff?", response="a \ud83d b"), Rollout(prompt="\udfff?", response="c")),
    )
    with Server([Answer(said([1, 2]).text)]) as server:
        found = run([odd], judges(server, kind="listwise"))
    assert found.missing == 0.0


_INTERRUPTED = """
    import sys
    sys.path[:0] = [{folder!r}]
    from test_clients import Endpoint, Judge, Judges, group, names, run
    end = Endpoint(base_url={url!r}, model="test-model", concurrency=2)
    who = Judges(judges=(Judge(endpoints=(end,)),), cache={cache!r})
    run([group(*names(20))], who)
"""


@pytest.mark.slow
def test_interrupt_keeps_what_was_answered(tmp_path: Path) -> None:
    cache = tmp_path / "replies.sqlite"
    with Server(by(lambda shown: Answer(said(1).text, delay=0.2))) as server:
        code = _INTERRUPTED.format(folder=str(Path(__file__).parent), url=server.url, cache=str(cache))
        command = [sys.executable, "-c", textwrap.dedent(code)]
        child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        while len(server.completions) < 6 and child.poll() is None:
            time.sleep(0.01)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=300)
        asked = len(server.completions)
        assert b"replies are kept in" in errors
        assert b"never" not in errors  # retrieved, awaited
        found = run([group(*names(20))], judges(server, cache))
        assert found.missing == 0.0
        assert found.account.hits >= 4
        assert len(server.completions) == asked + 20 - found.account.hits
