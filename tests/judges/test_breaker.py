"""The states of a circuit breaker, by a clock that is told the time."""

import math

from rubrank.judges.client.endpoint import Breaker


class Clock:
    now = 100.0

    def __call__(self):
        return self.now


def make(failures=3, pause=20.0):
    clock, news = Clock(), []
    return Breaker(failures, pause, lambda: news.append(clock.now), clock), clock, news


def fail(breaker, times):
    for _ in range(times):
        breaker.record_failure()


def test_it_opens_after_failures_in_a_row():
    breaker, _, news = make()
    fail(breaker, 2)
    breaker.record_success()
    fail(breaker, 2)
    assert (breaker.state, breaker.is_ready(), news) == ("closed", True, [])
    fail(breaker, 1)
    assert (breaker.state, breaker.is_ready(), breaker.seconds_until_ready()) == ("open", False, 20.0)
    assert news == [100.0]


def test_after_the_pause_one_call_may_try():
    breaker, clock, _ = make()
    fail(breaker, 3)
    clock.now += 20.0
    assert breaker.is_ready()
    breaker.start_request()
    assert (breaker.state, breaker.is_ready(), breaker.seconds_until_ready()) == ("half-open", False, math.inf)


def test_a_good_trial_closes():
    breaker, clock, news = make()
    fail(breaker, 3)
    clock.now += 20.0
    breaker.start_request()
    breaker.record_success()
    assert (breaker.state, breaker.is_ready(), len(news)) == ("closed", True, 2)
    fail(breaker, 2)
    assert breaker.state == "closed"


def test_a_bad_trial_opens_again():
    breaker, clock, _ = make()
    fail(breaker, 3)
    clock.now += 20.0
    breaker.start_request()
    breaker.record_failure()
    assert (breaker.state, breaker.consecutive_openings, breaker.seconds_until_ready()) == ("open", 2, 20.0)


def test_a_trial_that_was_cancelled_leaves_room_for_another():
    breaker, clock, news = make()
    fail(breaker, 3)
    clock.now += 20.0
    breaker.start_request()
    breaker.cancel_trial()
    assert (breaker.state, breaker.is_ready(), len(news)) == ("open", True, 2)


def test_late_failures_do_not_lengthen_the_pause():
    breaker, clock, _ = make()
    fail(breaker, 3)
    clock.now += 15.0
    fail(breaker, 5)
    assert (breaker.seconds_until_ready(), breaker.consecutive_openings) == (5.0, 1)


def test_patience_is_not_failure():
    breaker, clock, _ = make()
    breaker.hold(7.0)
    assert (breaker.state, breaker.seconds_until_ready()) == ("closed", 7.0)
    breaker.hold(2.0)
    assert breaker.seconds_until_ready() == 7.0
    clock.now += 7.0
    assert breaker.is_ready()
