import multiprocessing
import os
import signal
import sys
from concurrent.futures import ThreadPoolExecutor

import pytest
from cases import folded

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.shared import worker
from rubrank.verifiers.shared.answers import read_answer
from rubrank.verifiers.shared.choices import find_choice
from rubrank.verifiers.shared.numbers import read_numbers
from rubrank.verifiers.truth import ground_truth
from rubrank.verifiers.verifier import VERIFIERS


def verdict(response, truth=None, mode="normalised", metadata=None, **params):
    verifier = VERIFIERS["GroundTruthMatch"]
    rollout = Rollout(response=response, metadata=metadata or {})
    given = {"mode": mode, **params} | ({} if truth is None else {"truth": truth})
    return verifier.verify(rollout, verifier.check_parameters(given))


@folded(
    ("written", "value"),
    [
        ("1,234,567.5", 1234567.5),
        ("12 345", 12345),
        ("3,14", 3.14),
        ("-7", -7),
        ("−7", -7),
        ("3/4", 0.75),
        ("1 1/2", 1.5),
        ("½", 0.5),
        (r"\frac{3}{4}", 0.75),
        ("1.2e5", 120000),
        ("1.2 × 10^5", 120000),
        (r"3 \times 10^{-2}", 0.03),
        ("45%", 0.45),
        (r"45\%", 0.45),
        ("百分之五十", 0.5),
        ("三分之二", 2 / 3),
        ("二十三", 23),
        ("十", 10),
        ("一百零五", 105),
        ("一千二百", 1200),
        ("一亿两千万", 120_000_000),
        ("二〇二四", 2024),
        ("三点一四", 3.14),
        ("3.5万", 35000),
        ("2 million", 2e6),
        ("forty-two", 42),
        ("three hundred and five", 305),
        ("１２３", 123),
        ("5 km", 5000),
        ("20 厘米", 0.2),
        ("$5", 5),
    ],
)
def test_numbers_are_read_as_people_write_them(written, value):
    assert read_numbers(written)[0].value == pytest.approx(value)


@folded(
    ("response", "truth", "same"),
    [
        ("It is 5 kilograms.", "5 kg", 1),
        ("It is 5 m.", "5 kg", 0),
        ("5 USD", "5 元", 0),
        ("50", "50%", 1),
        ("0.5", "50%", 1),
        ("50%", "50", 1),
        ("0.5%", "0.5", 0),
        ("The answer is 42 because 6*7", "42", 1),
        ("We have 6 and 7, so 42", "42", 1),
        ("3.14", "3.14159", 0),
        ("no number", "1", 0),
    ],
)
def test_numeric(response, truth, same):
    assert verdict(response, truth, "numeric").value == same


@folded(
    ("equation", "truth", "same"),
    [
        ("200/3 = 67", "67", 1),
        ("7/2 = 4", "4", 1),
        ("7/2 = 3", "3", 0),
        ("1/3 = 1", "1", 0),
        ("3 = 22/7", "22/7", 0),
        ("0.5 = 1", "1", 0),
        ("41 = 42", "42", 0),
        ("0.333333 = 0.3", "0.3", 1),
        ("1.41 = 1.414", "1.414", 1),
        ("0.33 = 1/3", "1/3", 1),
        ("2/3 = 0.66", "0.66", 1),
        ("1/3 = 33%", "33%", 1),
        ("1/3 = 35%", "35%", 0),
        ("1,000/3 = 333.33", "333.33", 1),
        (r"2\pi = 2 \cdot 3.14", "6.28", 1),
        ("-8/3 = -2.67", "-2.67", 1),
    ],
)
def test_the_sides_of_an_equation_may_differ_by_rounding_only(equation, truth, same):
    assert verdict(rf"\boxed{{{equation}}}", truth, "numeric").value == same


def test_a_count_before_the_last_equals_sign_is_not_the_result():
    assert verdict("There are 36 ways, so p = 1/36.", "1/36", "numeric").value == 1
    assert verdict("Thus there are 36 ways to put 4 balls into 3 boxes.", "36", "numeric").value == 1


def test_a_number_in_words_is_the_result_if_few_words_follow():
    assert verdict(r"\boxed{cuarenta y dos manzanas}", "42", "numeric").value == 1
    assert verdict("Dos personas entran en un bar y piden agua.", "2", "numeric").value == 0


def test_tolerance_is_relative():
    assert verdict("3.14", "3.14159", "numeric", tolerance=0.01).value == 1


@folded(
    ("response", "letters"),
    [
        ("答案是B", "B"),
        ("(C)", "C"),
        (r"so \boxed{D}", "D"),
        (r"\boxed{\text{(D)}}", "D"),
        ("reasons\n\nB", "B"),
        ("**Answer: C**", "C"),
        ("The answer is A because of x", "A"),
        ("The answer is a dog", ""),
        ("选C。", "C"),
        ("The answer is (A) or (B)", "AB"),
        ("The answer is A. No, wait: the answer is B.", "B"),
        ("故选：AC", "AC"),
        ("The correct option is **D**.", "D"),
        ("B. Paris", "B"),
        ("I do not know", ""),
        ("正确答案为（A）", "A"),
    ],
)
def test_the_chosen_letter(response, letters):
    assert find_choice(response).letters == letters


def test_several_letters_where_one_is_true_are_ambiguous():
    result = verdict("The answer is A or B.", "A", "choice")
    assert result.value == 0
    assert "ambiguous" in result.reason
    assert verdict("The answer is A and C.", "CA", "choice").value == 1


def test_the_final_answer():
    assert read_answer("x\n\n**Answer: 42**").text == "42"
    assert read_answer(r"\boxed{\frac{1}{2}} then \boxed{a{b}c}").text == "a{b}c"
    assert read_answer("答案：西湖。").text == "西湖"
    assert read_answer("").text == ""


@folded("mode", ["exact", "normalised", "numeric", "choice", "set", "math"])
def test_without_a_truth_nothing_is_decided(mode):
    assert verdict("42", None, mode).value is None


def test_the_truth_may_come_with_the_rollout():
    assert verdict("West Lake", metadata={"answer": "west lake"}).value == 1


@folded("truth", ["#### 42", "\\boxed{42}", "<answer>42</answer>", "6 · 7 is 42.\n#### 42"])
def test_the_truth_may_be_a_worked_solution(truth):
    assert verdict("42", truth, "exact").value == 1


def test_sets_have_no_order_and_no_extras():
    assert verdict("b, c and a", "a, b, c", "set").value == 1
    assert verdict("苹果、香蕉", ["香蕉", "苹果"], "set").value == 1
    assert verdict("a, b, c, d", "a, b, c", "set").value == 0


@folded(
    ("response", "truth", "same"),
    [
        (r"$\boxed{(x+1)^2}$", "x^2+2x+1", 1),
        (r"so $\frac{\sqrt{2}}{2}$", r"\frac{1}{\sqrt{2}}", 1),
        (r"\boxed{0.5}", "1/2", 1),
        (r"\boxed{\{1,2\}}", r"\{2,1\}", 1),
        (r"\boxed{x}", "y", 0),
        ("no mathematics at all", "2", 0),
    ],
)
def test_mathematics(response, truth, same):
    results = {verdict(response, truth, "math").value for _ in range(3)}
    assert results == {same}


def test_threads_share_workers_safely():
    with ThreadPoolExecutor(4) as pool:
        jobs = [pool.submit(verdict, rf"\boxed{{{i}}}", str(i % 3), "math") for i in range(12)]
    assert [job.result().value for job in jobs] == [float(i == i % 3) for i in range(12)]


def _in_child(queue):
    queue.put((verdict(r"\boxed{2}", "2", "math").value, verdict(r"\boxed{2}", "3", "math").value))


@pytest.mark.skipif(sys.platform == "win32", reason="no fork")
# A library with threads that another test has loaded warns at every fork.
@pytest.mark.filterwarnings("ignore::RuntimeWarning", "ignore::pytest.PytestUnraisableExceptionWarning")
def test_a_forked_process_has_workers_of_its_own():
    assert verdict(r"\boxed{2}", "2", "math").value == 1
    context = multiprocessing.get_context("fork")
    queue = context.SimpleQueue()
    child = context.Process(target=_in_child, args=(queue,))
    child.start()
    assert queue.get() == (1.0, 0.0)
    child.join()
    assert verdict(r"\boxed{2}", "2", "math").value == 1


def test_computing_too_long_is_missing_and_the_worker_goes_on():
    with pytest.raises(worker.WorkerFailed, match="no result within"):
        worker.call("builtins:eval", ["[i for i in iter(int, 1)]"], seconds=0.2)
    assert worker.call("builtins:len", ["abc"], seconds=1) == 3


def test_a_worker_that_exceeds_the_wall_clock_limit_is_killed():
    with pytest.raises(worker.WorkerFailed, match="was ended"):
        worker.call("time:sleep", [60], seconds=0.1, wall_seconds=1.0)
    assert worker.call("builtins:len", ["abc"], seconds=1) == 3


def test_a_dying_worker_is_reported_and_replaced():
    with pytest.raises(worker.WorkerFailed, match="died"):
        worker.call("os:_exit", [1], seconds=1)
    assert worker.call("builtins:len", ["abc"], seconds=1) == 3


@pytest.mark.skipif(sys.platform == "win32", reason="no such signal")
def test_a_worker_that_died_while_idle_costs_nothing():
    pid = worker.call("os:getpid", [], seconds=1)
    os.kill(pid, signal.SIGKILL)
    assert worker.call("os:getpid", [], seconds=1) != pid


def test_a_failing_worker_is_no_verdict(monkeypatch):
    def fail(*_args, **_kw):
        raise worker.WorkerFailed("the worker process died")

    monkeypatch.setattr(ground_truth, "call", fail)
    result = verdict(r"\boxed{x+1}", "1+x", "math")
    assert result.value is None
    assert "died" in result.reason


@pytest.mark.parametrize("mode", ["exact", "normalised", "numeric", "choice", "set"])
@pytest.mark.parametrize(
    "text", ["\\boxed{" * 50_000, "答案是" * 100_000, "1," * 300_000, "\ud800" * 1000, "一" * 300_000]
)
def test_hostile_texts_get_a_verdict(mode, text):
    assert "failed" not in verdict(text, "A 1", mode).reason


@pytest.mark.parametrize("mode", ["numeric", "math"])
@pytest.mark.parametrize("text", [r"\boxed{0^{-1}}", r"\boxed{(-2)^{(-1)^{0.5}}}", r"\boxed{((-1)^{0.5})!}"])
def test_powers_without_a_value_are_wrong_and_not_missing(mode, text):
    assert verdict(text, "5", mode).value == 0


@pytest.mark.parametrize(
    "number", [r"2\frac{1}{%s}", r"%s\frac{1}{2}", r"0.\overline{%s}", r"0.%s\overline{3}"], ids=range(4)
)
def test_numbers_with_thousands_of_digits_are_wrong_and_not_missing(number):
    assert verdict(r"\boxed{" + number % ("3" * 5000) + "}", "5", "math").value == 0


@folded(
    ("answer", "written"),
    [
        ("The distance is 5 km.", "5 km"),
        ("It costs $1,200.50.", "$1,200.50"),
        ("一共一千二百元左右", "一千二百元"),
        ("The share is 45%.", "45%"),
        ("约占百分之三十", "百分之三十"),
        ("There are 12 apples.", "12"),
    ],
)
def test_the_reason_shows_the_number_as_it_was_written(answer, written):
    verifier = VERIFIERS["GroundTruthMatch"]
    params = verifier.check_parameters({"truth": 7, "mode": "numeric"})
    assert (
        verifier.verify(Rollout(response=answer), params).reason == f"read '{written}' from the last line, '7' expected"
    )
