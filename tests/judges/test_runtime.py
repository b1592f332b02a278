"""One runtime in a process: limits and health are shared by all judges, steps and threads; processes share a store."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
import sys
import textwrap
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from calling import ask_all, call_of, judge_of, run
from scripted import group, names
from server import MODEL, Answer, Server

from rubrank.errors import JudgeOutage, JudgingFailed
from rubrank.judges.client.client import Client, Deadline, _CallState
from rubrank.judges.client.endpoint import NO_ANSWER
from rubrank.judges.client.limits import ConcurrencyLimit
from rubrank.judges.client.protocol import BAD_GATEWAY, RequestOutcome
from rubrank.judges.client.runtime import close_runtime, runtime
from rubrank.judges.judge import Endpoint, Judge, Judges, Retry
from rubrank.judges.step import judge_groups, judge_groups_async
from rubrank.rubrics.rubric import Criterion

CLEAR, KIND, SHORT = (Criterion(name=name, question=f"Is it {name}?") for name in ("Clear", "Kind", "Short"))
GOOD = json.dumps({"reasoning": "It is.", "verdict": 1})


class Crowd:
    """A server that counts how many it answers at once, by its own clock."""

    def __init__(self, seconds: float) -> None:
        self.seconds, self.most, self._ends, self._lock = seconds, 0, [], threading.Lock()

    def __call__(self, asked) -> Answer:
        now = time.monotonic()
        with self._lock:
            self._ends = [end for end in self._ends if end > now] + [now + self.seconds]
            self.most = max(self.most, len(self._ends))
        return Answer(GOOD, delay=self.seconds)


def judges(url: str, concurrency: int = 64, **more) -> Judges:
    endpoint = Endpoint(base_url=url, model=MODEL, concurrency=concurrency)
    retry = Retry(attempts=1, first_wait=0.01, breaker_failures=2, breaker_pause=0.1)
    kind = more.pop("kind", "batched")
    made = Judge(endpoints=(endpoint,), kind=kind, retry=more.pop("retry", retry), timeout=more.pop("timeout", 5.0))
    return Judges(judges=(made,), **more)


def judged(who: Judges, number: int = 8, criteria=(CLEAR,), id: str = "q"):
    one = group(*names(number), id=id)
    return judge_groups([one], [criteria], [np.ones((number, len(criteria)), bool)], who)


# ------------------------------------------------------------------------------------------------------------- sharing


def test_limits_hold_for_all_threads_and_judges_of_a_process():
    crowd = Crowd(0.05)
    with Server(crowd) as server:
        threads = [
            threading.Thread(target=judged, args=(judges(server.url, 5), 12), kwargs={"id": f"q{i}"}) for i in range(6)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(server.completions) == 6 * 12
    assert crowd.most <= 5


def test_two_judges_of_one_endpoint_share_its_places():
    crowd = Crowd(0.05)
    with Server(crowd) as server:
        endpoint = Endpoint(base_url=server.url, model=MODEL, concurrency=4)
        both = tuple(Judge(name=c.name, criteria=(c.name,), endpoints=(endpoint,)) for c in (CLEAR, KIND))
        found = judged(Judges(judges=both), 10, (CLEAR, KIND))
        assert len(server.completions) == 20
    assert found.lost == 0
    assert crowd.most <= 4


def test_more_processes_than_places_are_told_once(caplog):
    with Server([Answer(GOOD)]) as server:
        for step in range(3):
            judged(judges(server.url, 2, processes=4), 2, id=f"few{step}")
        assert caplog.text.count("4 processes send calls at the same time") == 1


def test_waiting_for_judges_where_they_are_asked_is_an_error_and_no_standstill():
    async def inside():
        return runtime().run(asyncio.sleep(0))

    with pytest.raises(RuntimeError, match="await"):
        runtime().run(inside())


def test_processes_of_a_run_divide_the_limits():
    crowd = Crowd(0.05)
    with Server(crowd) as server:
        judged(judges(server.url, 12, processes=4), 20)
    assert crowd.most <= 3


def test_connections_stay_open_from_step_to_step():
    with Server([Answer(GOOD)]) as server:
        for step in range(5):
            judged(judges(server.url, 1), 3, id=f"q{step}")
        assert server.connections <= 2  # one of them for the health check


def test_from_an_event_loop_which_goes_on():
    with Server([Answer(GOOD, delay=0.3)]) as server:

        async def main():
            turns = 0
            one = group(*names(4))
            work = judge_groups_async([one], [(CLEAR,)], [np.ones((4, 1), bool)], judges(server.url))
            task = asyncio.create_task(work)
            while not task.done():
                await asyncio.sleep(0.02)
                turns += 1
            return turns, await task

        turns, found = asyncio.run(main())
    assert turns > 3
    assert found.lost == 0


def test_a_closed_runtime_is_made_again():
    before = runtime()
    close_runtime()
    assert runtime() is not before
    with Server([Answer(GOOD)]) as server:
        assert judged(judges(server.url), 2).lost == 0


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_forked_process_has_a_runtime_of_its_own():
    runtime()
    code = """
        import os, sys
        sys.path[:0] = [sys.argv[1]]
        from test_runtime import judged, judges, runtime
        runtime()
        pid = os.fork()
        if not pid:
            os._exit(judged(judges(sys.argv[2]), 3).lost)
        sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
    """
    with Server([Answer(GOOD)]) as server:
        command = [sys.executable, "-c", textwrap.dedent(code), str(Path(__file__).parent), server.url]
        assert subprocess.run(command, timeout=60).returncode == 0
        assert len(server.completions) == 3


# ----------------------------------------------------------------------------------------------------------- two stores

TWO = """
    import sys
    sys.path[:0] = [sys.argv[1]]
    from test_runtime import judged, judges
    found = judged(judges(sys.argv[2], 8, cache=sys.argv[3]), 40)
    print(found.lost, found.account.calls, found.account.hits)
"""


@pytest.mark.slow
def test_two_processes_on_one_store_pay_once(tmp_path):
    with Server([Answer(GOOD, delay=0.2)]) as server:
        command = [sys.executable, "-c", textwrap.dedent(TWO), str(Path(__file__).parent), server.url]
        both = [
            subprocess.Popen([*command, str(tmp_path / "replies.sqlite")], stdout=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        told = [child.communicate(timeout=120)[0].split() for child in both]
        assert len(server.completions) == 40
    assert [lost for lost, _, _ in told] == ["0", "0"]
    assert sum(int(calls) for _, calls, _ in told) == 40
    assert sum(int(hits) for _, _, hits in told) == 40


@pytest.mark.slow
def test_who_was_killed_holds_nobody_up(tmp_path):
    with Server(lambda asked: Answer(GOOD, delay=30.0 if asked.number < 4 else 0.0)) as server:
        command = [sys.executable, "-c", textwrap.dedent(TWO), str(Path(__file__).parent), server.url]
        child = subprocess.Popen([*command, str(tmp_path / "replies.sqlite")], stdout=subprocess.DEVNULL)
        while len(server.completions) < 4:
            time.sleep(0.02)
        child.kill()
        child.wait()
        assert judged(judges(server.url, cache=str(tmp_path / "replies.sqlite"), deadline=60.0), 40).lost == 0


# -------------------------------------------------------------------------------------------------------------- resume


@pytest.mark.parametrize(("text", "again"), [("Hm, hard to say.", True), ("I'm sorry, I can't judge that.", False)])
def test_what_could_not_be_read_is_asked_again_once_on_resume(tmp_path, text, again):
    who = {"cache": str(tmp_path / "replies.sqlite"), "most_missing": 0.9}
    with Server(lambda asked: Answer(text if "r0" in asked.prompt else GOOD)) as server:
        counts = []
        for _ in range(3):
            assert judged(judges(server.url, **who), 3).lost == 1
            counts.append(len(server.completions))
    assert counts == ([3, 4, 4] if again else [3, 3, 3])


# ------------------------------------------------------------------------------------------------------------ overload


def test_places_follow_what_a_server_bears():
    async def main():
        places = ConcurrencyLimit(64)
        for _ in range(64):
            await places.acquire()
        assert places.in_use == places.limit
        begun = time.monotonic()
        places.note_overload(begun)
        places.note_overload(begun - 1.0)  # about the same moment
        assert places.limit == 32
        for _ in range(64):
            places.release()
        for _ in range(32):
            places.note_success()
        assert places.limit == 36
        for _ in range(1000):
            places.note_success()
        assert places.limit == 64

    asyncio.run(main())


def test_a_cut_gives_no_place_that_other_processes_hold():
    async def main():
        places = ConcurrencyLimit(4)
        await places.acquire()
        places.set_ceiling(0)
        places.note_overload(time.monotonic())
        places.release()
        assert places.limit == 0
        places.set_ceiling(2)
        await asyncio.wait_for(places.acquire(), 5.0)

    asyncio.run(main())


def test_a_server_that_bears_little_answers_all():
    """It turns away whoever is more than four at once; nobody is lost, and it is soon asked less."""
    lock, ends = threading.Lock(), []

    def script(asked):
        now = time.monotonic()
        with lock:
            ends[:] = [end for end in ends if end > now]
            if len(ends) >= 4:
                return Answer(status=429, body="{}")
            ends.append(now + 0.02)
        return Answer(GOOD, delay=0.02)

    with Server(script) as server:
        replies, _ = run(ask_all(judge_of(server, retry={"longest_wait": 0.5}), [call_of(str(i)) for i in range(120)]))
        turned_away = len(server.completions) - 120
    assert [reply.failure for reply in replies if reply.failure] == []
    assert turned_away < 5 * 120


# -------------------------------------------------------------------------------------------------------------- outage

DOWN = Answer(status=500, body="{}")


def test_an_outage_that_is_borne_fails_waiting_calls_together():
    with Server(lambda asked: Answer(GOOD) if asked.number < 4 else DOWN) as server:
        found = judged(judges(server.url, 2, on_outage="continue", most_missing=0.99), 200)
        assert len(server.completions) < 40
    assert found.lost > 150
    assert set(found.reasons) <= {"HTTP 500", "outage", "no endpoint answers"}


@pytest.mark.parametrize("answered", [0, 4])
@pytest.mark.parametrize("attempts", [1, 3])
def test_a_step_goes_on_without_judges_that_are_away(caplog, answered, attempts):
    """Whatever `most_missing` is, even if all is missing; and says so at every step."""
    retry = Retry(attempts=attempts, first_wait=0.01, breaker_failures=2, breaker_pause=0.05)
    with Server(lambda asked: Answer(GOOD) if asked.number < answered else DOWN) as server:
        who = judges(server.url, 2, on_outage="continue", most_missing=0.1, retry=retry)
        for _ in range(2):
            found = judged(who, 40)
            assert found.reasons["outage"] >= found.lost - 4 > 0
    assert len([record for record in caplog.records if "the judges do not answer" in record.message]) == 2


def test_what_is_lost_otherwise_counts_though_training_goes_on_in_outages():
    def script(asked):
        return Answer(status=400, body="{}") if asked.number % 2 else Answer(GOOD)

    with Server(script) as server, pytest.raises(JudgingFailed, match="HTTP 400"):
        judged(judges(server.url, 2, on_outage="continue", most_missing=0.1), 20)


def test_calls_are_not_used_up_by_finding_out_that_an_outage_goes_on():
    """A few hundred trials in an outage, and four attempts a call: none is lost but those of its beginning."""
    begun = time.monotonic()

    def script(asked):
        return DOWN if 0.2 < time.monotonic() - begun < 2.5 else Answer(GOOD, delay=0.02)

    retry = Retry(attempts=4, first_wait=0.01, longest_wait=0.02, breaker_failures=2, breaker_pause=0.02)
    with Server(script) as server:
        found = judged(judges(server.url, 4, outage_wait=60.0, retry=retry, most_missing=0.5), 100)
    assert found.lost <= 4


@pytest.mark.parametrize("policy", ["stop", "wait"])
def test_an_outage_stops_the_run(policy):
    message = r"judge 'judge': http.* has not answered for .*HTTP 500"
    script = lambda asked: Answer(GOOD) if asked.number < 4 else DOWN  # noqa: E731
    with Server(script) as server, pytest.raises(JudgeOutage, match=message):
        judged(judges(server.url, 2, on_outage=policy, outage_wait=0.6), 200)


def test_an_outage_that_ends_is_waited_for():
    begun = time.monotonic()

    def script(asked):
        gone = 0.3 < time.monotonic() - begun < 1.5
        return DOWN if gone else Answer(GOOD, delay=0.02)

    retry = Retry(attempts=8, first_wait=0.01, longest_wait=0.05, breaker_failures=2, breaker_pause=0.1)
    with Server(script) as server:
        found = judged(judges(server.url, 4, outage_wait=30.0, retry=retry, most_missing=0.5), 200)
    assert found.lost <= 4  # those that were under way when it began


def test_a_server_that_hangs_is_found_out_by_the_deadline():
    script = lambda asked: Answer(GOOD) if asked.number < 2 else Answer(drop="never")  # noqa: E731
    with Server(script) as server, pytest.raises(JudgingFailed, match="deadline of the step passed"):
        judged(judges(server.url, 2, deadline=1.0, timeout=30.0), 50)


def test_the_client_bears_an_outage_by_itself():
    with Server([DOWN]) as server:

        async def main():
            async with Client(
                judge_of(server, retry={"breaker_failures": 1, "breaker_pause": 0.05, "attempts": 9}),
                deadline=Deadline(10.0),
            ) as client:
                return await asyncio.gather(*(client.ask(call_of(str(i))) for i in range(20)))

        replies = run(main(), seconds=20.0)
    assert all(reply.text is None for reply in replies)


def test_an_outage_begins_when_the_last_endpoint_goes_down():
    """One endpoint has been down for an hour, the other for a moment: the configured wait is not over."""

    async def main():
        judge = judge_of("http://127.0.0.1:9/v1", "http://127.0.0.1:10/v1")
        waiting = Judges(judges=(judge,), outage_wait=600.0)
        async with Client(judge, waiting, deadline=Deadline(1.0)) as client:
            for endpoint, seconds in zip(client._endpoints, (3600.0, 1.0), strict=True):
                breaker = endpoint.breaker
                breaker.state = "open"
                breaker.consecutive_openings = 9
                breaker.down_since = time.monotonic() - seconds
                breaker.hold(60.0)
            return await client.ask(call_of())

    assert run(main()).text is None  # no JudgeOutage


def test_an_endpoint_that_refuses_the_call_does_not_hide_the_outage_of_the_others():
    """Its only other endpoint is down, and the policy is to wait: a failed trial uses up no attempt."""

    async def main():
        judge = judge_of("http://127.0.0.1:9/v1", "http://127.0.0.1:10/v1")
        async with Client(judge, Judges(judges=(judge,), outage_wait=600.0)) as client:
            down, refusing = client._endpoints
            down.breaker.consecutive_openings = 9
            client._pool.in_flight.update((("call", i, ""), None) for i in range(10))
            state = _CallState(call_of(), b"key", 4.0, refused_by=[refusing])
            await client._prepare_retry(state, down, RequestOutcome(NO_ANSWER, "retry", BAD_GATEWAY))
            return state.attempts_left

    assert run(main()) == 4.0


def test_a_paid_request_that_is_lost_to_an_outage_is_in_the_account():
    body = '{"error": {"message": "overloaded"}, "usage": {"prompt_tokens": 10, "completion_tokens": 1}}'
    with Server([Answer(status=200, body=body)]) as server:
        judge = judge_of(server, retry={"breaker_failures": 1, "attempts": 1})
        replies, client = run(ask_all(judge, [call_of()]))
    assert replies[0].failure.startswith("outage")
    assert replies[0].usage.input_tokens == 10
    assert client.usage.input_tokens == 10


def test_a_criterion_that_is_missing_throughout_is_told_once(caplog):
    never_judged = Criterion(name="Never judged", question="Is it?")  # once in a process: no other test has it
    with Server(lambda asked: Answer(GOOD) if "Is it Kind" in asked.body["messages"][0]["content"] else DOWN) as server:
        retry = Retry(attempts=1, first_wait=0.01, breaker_failures=1000)
        who = judges(server.url, most_missing=0.6, retry=retry, kind="absolute")
        for _ in range(2):
            judged(who, 3, (never_judged, KIND))
    told = [record.message for record in caplog.records if "no judge gave an answer" in record.message]
    assert told == ["criterion 'Never judged': no judge gave an answer in this step; the first reason: HTTP 500"]


def test_a_limit_stays_low_while_its_ceiling_falls_and_rises():
    async def main():
        places = ConcurrencyLimit(64)
        for _ in range(16):
            await places.acquire()
        places.note_overload(time.monotonic())
        lowered = places.limit
        places.set_ceiling(4)
        places.set_ceiling(64)
        assert places.limit == 4.0 < lowered
        places.set_ceiling(0)
        places.set_ceiling(64)
        assert places.limit == 1.0  # one call may show that the server has recovered
        never_lowered = ConcurrencyLimit(64)
        never_lowered.set_ceiling(4)
        never_lowered.set_ceiling(64)
        assert never_lowered.limit == 64.0

    asyncio.run(main())
