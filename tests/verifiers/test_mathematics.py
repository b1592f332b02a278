"""Mathematical results: every truth is its own answer, other notations are the same, parts of formulas are not."""

import math

import pytest
from cases import folded

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.shared.arithmetic import evaluate
from rubrank.verifiers.verifier import find_verifier

WRAPPINGS = (
    "So $\\boxed{{{}}}$.",
    "<answer>{}</answer>",
    "The answer is ${}$.",
    "#### {}",
    "Done.\n\n${}$",
)


def verdict(response, truth, mode="math"):
    verifier = find_verifier("GroundTruthMatch")
    return verifier.verify(Rollout(response=response), verifier.check_parameters({"truth": truth, "mode": mode})).value


@folded(
    "truth",
    [
        r"\text{even}",
        r"\$18.90",
        r"\text{(E)}",
        r"\text{Monday}",
        r"10:15 \text{ p.m.}",
        r"3\text{ feet}, 2\text{ inches}",
        r"6 \text{ and } 9",
        r"\begin{pmatrix} \frac{1}{2} & 0 \\ -3 & \frac{5}{7} \end{pmatrix}",
        r"\begin{pmatrix} -1 \\ \frac{2}{3} \end{pmatrix}",
        r"(-\infty, -2] \cup [3, \infty)",
        r"\left( \frac{3}{2}, -13 \right)",
        r"101_2",
        r"12_{\text{eight}}",
        r"0.\overline{3}",
        r"x \equiv 3 \pmod{5}",
        r"a < x < b",
        r"y = -\frac{2}{3}x + 5",
        r"\frac{F_{n+2}}{F_n}",
        r"1{,}000",
        r"45^\circ",
        r"12\%",
        r"7\text{ cm}^2",
        r"\text{all real numbers}",
    ],
)
def test_a_truth_is_the_answer_to_itself(truth):
    assert [verdict(wrapping.format(truth), truth) for wrapping in WRAPPINGS] == [1.0] * len(WRAPPINGS)


@folded(
    ("response", "truth"),
    [
        (r"\boxed{\text{even}}", "even"),
        (r"\boxed{even}", r"\text{Even}"),
        ("So the function is even.", r"\text{even}"),
        (r"\boxed{\$78}", "78"),
        (r"\boxed{78 \text{ dollars}}", r"\$78"),
        (r"\boxed{18.9}", r"\$18.90"),
        (r"\boxed{\begin{pmatrix} 1/2 & 0 \end{pmatrix}}", r"\begin{pmatrix} \frac{1}{2} & 0 \end{pmatrix}"),
        (r"\boxed{\begin{bmatrix} 0.5 \\ 2 \end{bmatrix}}", r"\begin{pmatrix} \frac12 \\ 2 \end{pmatrix}"),
        (r"\boxed{1000}", r"1,\!000"),
        (r"\boxed{\dfrac{1}{2}}", r"\frac12"),
        (r"\boxed{90}", r"90^\circ"),
        (r"\boxed{5\text{ km}}", r"5000\text{ m}"),
        (r"\boxed{50}", r"50\%"),
        (r"\boxed{\frac{1}{3}}", r"0.\overline{3}"),
        (r"\boxed{x = 5}", "5"),
        (r"\boxed{2x + 3}", "y = 2x+3"),
        (r"\boxed{(C)}", r"\text{C}"),
        (r"\boxed{3, 2}", "2, 3"),
        ("We get x + 7y", "7y + x"),
        ("Hence it is -449.", "-449"),
        (r"Thus, the value of \( x \) is 49.", "49"),
        ("Thus, there are 36 ways to put the 4 balls into 3 boxes.", "36"),
        ("so 29^13 ≡ -4 ≡ 3 (mod 7)", "3"),
        ("The minimum is 8, which occurs when $a^2 + b^2 = 16$.", "8"),
        (r"\begin{align*} x &= 2 + 3 \\ &= 5 \end{align*}", "5"),
    ],
)
def test_other_notations_of_the_same(response, truth):
    assert verdict(response, truth) == 1


@folded(
    ("response", "truth"),
    [
        (r"\boxed{5\text{ m}}", r"5\text{ cm}"),
        (r"\boxed{10:15}", "2:3"),
        (r"\boxed{\text{neve}}", r"\text{even}"),
        (r"\boxed{\text{odd}}", r"\text{even}"),
        (r"\boxed{101_3}", "101_2"),
        (r"\boxed{0.5\%}", "0.5"),
        (r"\boxed{x^2 + y^2 = 1}", "1"),
        (r"\boxed{x = 1, y = 2}", "1"),
        (r"\boxed{\begin{pmatrix} \frac{1}{2} \\ 1 \end{pmatrix}}", "1"),
        ("So the function is not even.", r"\text{even}"),
        (r"\boxed{2 \text{ or } 3}", "3"),
        (r"\boxed{1.2.3}", "0.36"),
        (r"\boxed{0.36}", "1.2.3"),
        ("The address is 192.168.0.1.", "0"),
    ],
)
def test_what_only_resembles_the_truth(response, truth):
    assert verdict(response, truth) == 0


@folded(
    "text",
    ["1.2.3", "192.168.0.1", "3 .5", "(3).5", "2.5!", "(-3)!", "(-8)^{1/3}", "1e999 - 1e999", "0^{-1}", "six"],
)
def test_what_has_no_value(text):
    assert evaluate(text) is None
    assert verdict(f"\\boxed{{{text}}}", "1.5", "numeric") == 0


def test_what_has_a_value():
    assert evaluate(".5") == 0.5
    assert evaluate("2 x 3") == evaluate("2×3") == 6
    assert evaluate("170!") == float(math.factorial(170))
    assert evaluate("171!") == math.inf


@pytest.mark.parametrize("mode", ["numeric", "math"])
@folded(
    ("formula", "number"),
    [
        ("x + 7y", "7"),
        ("$x^2 + 3x", "3"),
        (r"&= \frac{F_{n+2}}{F_n^{18}}", "2"),
        (r"&= \frac{F_{n+2}}{F_n^{18}}", "18"),
        ("$a = 3x$", "3"),
        ("7 + x", "7"),
        ("3(x + 1)", "3"),
        ("3(x + 1)", "1"),
        (r"\frac{a}{3}", "3"),
        ("f(3)", "3"),
        ("12/z", "12"),
        ("|x| < 3", "3"),
        ("log 2", "2"),
        (r"x\sqrt{5}", "5"),
        (r"\sum_{k=5}^{n} k", "5"),
        ("(3, 4)", "4"),
        ("(3, 4)", "3"),
        ("10 choose 3", "3"),
        ("3 + 4", "4"),
        ("x7", "7"),
        ("2√x", "2"),
        ("3πr²", "3"),
    ],
)
def test_a_number_inside_a_formula_is_not_the_answer(formula, number, mode):
    for wrapping in ("We get {}", "{}", "The answer is {}.", "\\boxed{{{}}}"):
        assert verdict(wrapping.format(formula), number, mode) == 0, wrapping


@folded(
    ("response", "number"),
    [
        ("So the sum is 3 + 4", "7"),
        ("We need 5 - 2 = 3 more.", "3"),
        ("It takes 7 m of rope.", "7"),
        ("She has 12 left (out of many).", "12"),
        ("It is 3x faster than before", "3"),
        ("**Total:** 7", "7"),
        ("That is a 5-day trip", "5"),
    ],
)
def test_a_number_beside_words_is_the_answer(response, number):
    assert verdict(response, number, "numeric") == 1
