"""How well mathematical results are read: every truth against itself, numbers inside formulas, unmarked results.

python benchmarks/mathematics.py [--answers ../shared/data/good_answers/answers.jsonl.gz]

Three tables:
- truths: results in the forms that MATH uses, each as the answer to itself, in six wrappings (the bar: all of them);
- formulas: a number inside a formula, as the truth of an answer that ends with the formula (the bar: none passes);
- unmarked: the reasoning of real answers to MATH without their final field, for which the field is the truth, and for
  which another number of the reasoning is the truth.
"""

from __future__ import annotations

import argparse
import gzip
import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from rubrank import Rollout, find_verifier

# a to e are numbers, n and m words, D a day, U a unit.
FORMS = r"""
a | -a | a.b | 0.0a | .a | a,000 | a{,}000 | a,\!000 | \frac{a}{b} | -\frac{a}{b} | \dfrac{a}{b} | \tfrac{a}{b} | \frac ab | \frac1{b}
a\frac{b}{c} | \sqrt{a} | a\sqrt{b} | \sqrt a | \frac{\sqrt{a}}{b} | \frac{a+b\sqrt{c}}{d} | a - b\sqrt{c} | \sqrt[3]{a} | a\sqrt[4]{b}
\pi | a\pi | \frac{a\pi}{b} | \frac{\pi}{a} | a + b\pi | e^a | \ln a | \log_a b | a^b | a^{b} | 2^{ab} | a! | \binom{a}{b} | i | a + bi | -a - bi
\frac{a}{b} + \frac{c}{d}i | a\% | a.b\% | \$a | \$a.b0 | \$a,000 | a^\circ | a^{\circ} | a.b^\circ | a\text{ U} | a \text{ square U} | \frac{a}{b}\text{ U}
a\text{ U}^2 | a\text{ n} | \text{n} | \text{D} | \text{(A)} | \text{A} | (A) | \textbf{(B)} | \text{Yes} | \text{n and m} | \text{A, C, D} | \text{neither}
(a, b) | (-a, b) | (a,b,c) | \left( \frac{a}{b}, c \right) | \left(\frac{a}{b},\frac{c}{d}\right) | (\sqrt{a}, \frac{\pi}{b}) | (a, b), (c, d) | [a, b]
(a, ab] | (-\infty, a) | (-\infty, -a] \cup [b, \infty) | [a,ab) \cup (bc,\infty) | (-a,b)\cup(b,bc) | \{a, b, c\} | \{a\} | \emptyset
a, b | a,b,c | -a, b | \frac{a}{b}, -c | a \text{ and } b | a\text{ or }b | a \pm \sqrt{b} | \pm a | x = a | x=a, y=b | x \in [a, b] | y = ax + b
y = -\frac{a}{b}x + c | x^2 + ax + b | x^2-ax+b | (x - a)(x + b) | (x+a)^2 | a(x+b)^2 + c | x^3 + ax^2 - bx + c | \frac{x+a}{x-b} | \frac{a}{x^2+b}
ax + by - cz + d = 0 | x^2 + y^2 = a | \frac{x^2}{a} + \frac{y^2}{b} = 1 | a < x < b | x \le a | x > a | x \neq a | -a \leq x \leq b
f(x) = ax + b | \frac{a}{b}x | ax | a\sin x | \cos ax | \tan\theta | \sin^2 x | a \cos b^\circ | e^{ax} | \frac{1 - \cos x}{a} | |x - a| | \lfloor x \rfloor
\begin{pmatrix} a & b \\ c & d \end{pmatrix} | \begin{pmatrix} a \\ -b \end{pmatrix} | \begin{pmatrix} \frac{a}{b} & c \\ d & -\frac{1}{a} \end{pmatrix}
\begin{pmatrix} a \\ b \\ c \end{pmatrix} | \begin{bmatrix} a & b \\ c & d \end{bmatrix} | \begin{pmatrix} \frac{a}{b} \\ \frac{c}{d} \end{pmatrix}
\begin{pmatrix} -a & \frac{b}{c} & d \\ 0 & 1 & 0 \\ \frac{1}{a} & 0 & -\frac{b}{d} \end{pmatrix} | \begin{vmatrix} a & b \\ c & d \end{vmatrix}
ab_2 | 2ab_c | ABa_{16} | 12_{\text{eight}} | 0.\overline{a} | a.b\overline{c} | 0.ab\ldots | a : b | a:b | a:15 | a:15\text{ p.m.} | a:30 \text{ a.m.}
a \times 10^{b} | a.b \times 10^{-c} | a \cdot b | a + b | \frac{a}{b \cdot c} | \frac{a!}{b!} | a^{1/b} | a^{-b} | \left(\frac{a}{b}\right)^c | a\sqrt{b + \sqrt{c}}
\frac{n(n+1)}{2} | 2^n - 1 | n^2 + a | a_n = bn + c | \frac{F_{n+2}}{F_n} | \sum_{k=1}^{n} k^a | p^a q^b | \frac{a}{r^2} | ab^2c | abc | xy | \frac{xy}{x+y}
\text{n}, \text{m} | a\text{ feet}, b\text{ inches} | \text{Row }a | \text{point }(a, b) | \infty | -\infty | 0 | 1 | \text{no solution} | \text{all real numbers}
\triangle ABC | \overline{AB} | \angle ABC = a^\circ | AB = a | r = a \cos \theta | (r, \theta) = (a, \frac{\pi}{b}) | \mathbb{R} | a\text{ cm}^3 | a\,\text{m/s} | a \text{ km/h}
\frac{a\sqrt{b}}{c}\text{ U} | \$\frac{a}{b} | a\frac{b}{c}\text{ U} | a\text{ hours and }b\text{ minutes} | a \mod b | x \equiv a \pmod{b} | a \pmod b | (x+a)(x-b)(x+c)
x^{a} - y^{b} | \frac{x^a y^b}{z^c} | \sqrt{x^2 + a} | \sqrt[3]{x - a} | \log_{a} x | \frac{\ln a}{\ln b} | \arctan \frac{a}{b} | \sec \theta + a | i\sqrt{a} | a e^{\pi i / b}
"""
WRAPPINGS = {
    "box": "So the result is $\\boxed{{{}}}$.",
    "box alone": "\\boxed{{{}}}",
    "tag": "<answer>{}</answer>",
    "stated": "The answer is ${}$.",
    "####": "#### {}",
    "last line": "Now we are done.\n\n${}$",
}
FORMULAS = r"""
x + ay | $x^2 + ax | &= \frac{F_{n+a}}{F_n^{b}} | ax + b | $a(x+b)$ | y = \frac{a}{x} | f(a) | f(a) + b | P(X > a) | x > a | |x| < a | x_a + y | \sqrt{x+a}
\frac{x}{a} | x^a | $e^{ax}$ | a\sin x | \sin(a) + x | \log_a x | \binom{n}{a} | x \equiv y \pmod{a} | (a, b) | \{a, b\} | [a, b] | a \le x \le b
y = ax^2 + bx | ax - by | x/a | a/x | n! / a! + x | \sum_{k=a}^{n} k | \int_0^{a} x dx | x \cdot a | (x + a)^2 | x - a | ay | \vec{v} + a\vec{w} | n - a
"""


def fill(form: str, rng: random.Random) -> str:
    """The form with numbers and words in its places; commands of LaTeX and variables stay."""
    values = dict(zip("abcd", rng.sample("23456789", 4), strict=True))
    words = {"n": rng.choice(("even", "odd", "Navin", "ellipse", "east")), "m": "circle", "D": "Monday", "U": "inches"}
    parts = re.split(r"(\\text(?:bf)?\{[^}]*\}|\\[a-zA-Z]+(?:\{[bpv]?matrix\}|\{ABC?\})?)", form)
    filled = ""
    for part in parts:
        if part.startswith("\\text"):
            filled += re.sub(r"\b[nmDU]\b(?![./])", lambda match: words[match[0]], part)
        elif part.startswith("\\"):
            filled += part
        else:
            filled += re.sub("[abcd]", lambda match: values[match[0]], part)
    return filled


def grade(response: str, truth: str, mode: str) -> float | None:
    verifier = find_verifier("GroundTruthMatch")
    return verifier.verify(Rollout(response=response), verifier.check_parameters({"truth": truth, "mode": mode})).value


def list_forms(table: str) -> list[str]:
    return [form.strip() for line in table.strip().splitlines() for form in re.split(r"(?<=[^\\|]) \| ", line)]


def grade_truths(rng: random.Random) -> None:
    forms = list_forms(FORMS)
    truths = list(dict.fromkeys(fill(form, rng) for form in forms for _ in range(4)))
    print(f"{len(truths)} truths in {len(forms)} forms, each the answer to itself")
    for name, wrapping in WRAPPINGS.items():
        failed = [truth for truth in truths if grade(wrapping.format(truth), truth, "math") != 1]
        print(f"  {name:10} {len(truths) - len(failed)} of {len(truths)}", *failed[:8], sep="  ")
    pairs = [rng.sample(truths, 2) for _ in range(1000)]
    same = [pair for pair in pairs if grade(f"\\boxed{{{pair[0]}}}", pair[1], "math") == 1]
    print(f"  {len(same)} of 1000 pairs of different truths are called equal", *same[:12], sep="\n    ")


def grade_formulas(rng: random.Random) -> None:
    for mode in ("numeric", "math"):
        counts: Counter[bool] = Counter()
        passed = []
        for form in list_forms(FORMULAS):
            formula = fill(form, rng)
            for number in dict.fromkeys(re.findall(r"\d+", formula)):
                for wrapping in ("We get {}", "{}", "The answer is {}.", "So we find {}.\n", "\\boxed{{{}}}"):
                    response = wrapping.format(formula)
                    is_credited = grade(response, number, mode) == 1
                    counts[is_credited] += 1
                    if is_credited:
                        passed.append((response, number))
        print(f"numbers inside formulas, {mode}: {counts[True]} of {counts.total()} credited", *passed[:12], sep="\n  ")


def read_answers(path: Path) -> Iterator[tuple[str, str]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            row = json.loads(line)
            body = re.search(r"\{.*\}", row["response"], re.DOTALL)
            if row["src"] != "math" or body is None:
                continue
            try:
                answer = json.loads(body[0])
            except ValueError:
                continue
            if isinstance(answer.get("reasoning"), str) and str(answer.get("answer", "")).strip():
                yield answer["reasoning"], str(answer["answer"])


def grade_unmarked(path: Path, rng: random.Random) -> None:
    answers = list(read_answers(path))
    for mode in ("numeric", "math"):
        counts: Counter[str] = Counter()
        for reasoning, answer in answers:
            if re.fullmatch(r"-?\d+(?:\.\d+)?", answer) is None:
                continue
            counts["answers"] += 1
            counts["right"] += grade(reasoning, answer, mode) == 1
            numbers = sorted(set(re.findall(r"\d+", reasoning)) - {answer, answer.lstrip("-")})
            if numbers:
                counts["false"] += grade(reasoning, rng.choice(numbers), mode) == 1
        print(f"unmarked results, {mode}: {dict(counts)}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--answers", type=Path, default=Path("../shared/data/good_answers/answers.jsonl.gz"))
    path = parser.parse_args().answers
    rng = random.Random(32)
    grade_truths(rng)
    grade_formulas(rng)
    if path.exists():
        grade_unmarked(path, rng)


if __name__ == "__main__":
    main()
