"""Results compared with a known truth: GroundTruthMatch, SetMatch and Ndcg.

The truth stands in the criterion or in the data (`truths`). GroundTruthMatch reads the result from the answer
(`shared.answers`) and compares it with the truth in the way that `mode` says: as text, number, choice, set or formula.
Each mode has a function here. SetMatch and Ndcg compare the lists that `read_entries` reads:

>>> read_entries("1. Paris\\n2. Rome"), read_entries("[3] > [1] > [2]")
(['Paris', 'Rome'], ['3', '1', '2'])
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import Field

from rubrank._plain import replace_surrogates
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import list_items, strip_decoration
from rubrank.verifiers.shared.answers import DEFAULT, TAIL, AnswerReading, Extractor, read_answer
from rubrank.verifiers.shared.arithmetic import evaluate
from rubrank.verifiers.shared.choices import find_choice, find_option_texts
from rubrank.verifiers.shared.json_values import parse_json
from rubrank.verifiers.shared.numbers import is_close
from rubrank.verifiers.shared.worker import WorkerFailed, call
from rubrank.verifiers.truth import Truth, find_truths
from rubrank.verifiers.truth.claims import claims, normalise, separate_list
from rubrank.verifiers.truth.formulas import (
    compare_formulas,
    find_formula,
    find_last_formula,
    has_prose,
    read_formula,
)
from rubrank.verifiers.truth.quantities import read_quantity
from rubrank.verifiers.verifier import BINARY, UNIT, Answer, missing, verifier

Mode: TypeAlias = Literal["exact", "normalised", "numeric", "choice", "set", "math"]
_EQUAL = "rubrank.verifiers.truth.formulas:equal"  # the function that a worker process calls
_INEQUALITY = re.compile(r"≠|\\neq?(?![a-z])|!=")
# Spaces, dollars and the delimiters of LaTeX.
_FORMULA_MARKS = re.compile(r"\s|\$|\\[()\[\],!; ]")


@dataclass(frozen=True, slots=True)
class _Case:
    """One answer and its truths: what every comparison needs."""

    answer: str
    question: str
    truths: tuple[str, ...]
    extractors: tuple[Extractor, ...]

    def read(self) -> AnswerReading:
        """Return the result that the answer gives."""
        return read_answer(self.answer, self.extractors)

    def explain(self, result: str, how: str) -> str:
        """Return the verdict's reason: what was read, where, and what was expected."""
        return f"read {result[:80]!r} from {how}, {self.truths[0][:80]!r} expected"


@verifier(
    "GroundTruthMatch",
    family="presence",
    domain=BINARY,
    version=12,
    cost="process",
    needs=lambda params: ("math_verify", "math") if params.mode == "math" else None,
)
def ground_truth_match(
    rollout: Rollout,
    *,
    truth: Truth | None = None,
    mode: Mode = "normalised",
    extractors: tuple[Extractor, ...] = DEFAULT,
    tolerance: Annotated[float, Field(ge=0)] = 1e-6,
    options: str = "ABCDEFGHIJ",
    seconds: Annotated[float, Field(gt=0, le=60)] = 5.0,
) -> Answer:
    """The result that the answer gives is the true one (or one of several).

    The result is the last <answer>, <solution>, \\boxed{}, ####, JSON key "answer", "the answer is" / 答案是 …, or the
    last line: `extractors` says which of them, in which order ("whole": the entire answer). The reason says what was
    read, and where. The truth is `truth`, or in the data: `ground_truth` (also in verl's `reward_model`), `answer`,
    `solution`, `target`, `label` and the like. Modes:
    - exact: the same characters. normalised: ignores case, width, punctuation, articles and the difference between
      Simplified and Traditional; a sentence that claims the truth ("The capital of France is Paris.") passes, too.
    - numeric: within `tolerance` (relative); 1,200 = 1.2e3 = 一千二百, 50% = 0.5 = 1/2, 5 km = 5000 m; another unit
      fails.
    - choice: the letter chosen among `options`; several letters, where one is true, fail.
    - set: the same entries, in any order.
    - math: equal as mathematics (math-verify, extra [math]; in a worker process of at most `seconds`).
    Passes: "So \\boxed{42}" for 42. Fails: another result or none; one that is denied, hedged ("41 or 42") or
    contradicts itself ("41 = 42"); one that cannot be computed in time. Missing: no truth known, a truth that does not
    suit the mode, a machine that cannot compute. Not covered: a right result that is stated only in passing.
    """
    truths = find_truths(truth, rollout.metadata)
    if not truths.values:
        return missing(f"no ground truth is known: {truths.where}")
    case = _Case(rollout.answer, rollout.question, truths.values, extractors)
    if mode == "set":
        return _compare_sets(case)
    if mode == "choice":
        return _compare_choices(case, options)
    if mode == "math":
        return _compare_mathematics(case, seconds)
    if mode == "numeric":
        return _compare_numbers(case, tolerance)
    return _compare_texts(case, exact=mode == "exact")


def _compare_texts(case: _Case, *, exact: bool) -> Answer:
    """Return the verdict by the same characters or, unless `exact`, the same words or a sentence that claims them."""
    reading = case.read()
    reason = case.explain(reading.text, reading.how)
    fold: Callable[[str], str] = str.strip if exact else normalise
    candidates = {fold(reading.text)}
    if not reading.explicit and len(case.answer) < 10_000:
        _, entries = separate_list(case.answer)
        if entries:  # the last line is only one of several names
            candidates = set()
        candidates.add(fold(case.answer))
    if any(fold(truth) in candidates for truth in case.truths):
        return True, reason
    if exact:
        return False, reason
    # A marked result counts as claimed. Otherwise a sentence of the answer must claim the truth.
    text = f": {reading.text}" if reading.explicit else case.answer[-TAIL:]
    return any(claims(text, truth, case.question) for truth in case.truths), reason


def _compare_numbers(case: _Case, tolerance: float) -> Answer:
    """Return the verdict by the one number that the result gives, or else by the last number of the answer."""
    true_numbers = [read_quantity(truth, listed=False).number for truth in case.truths]
    expected_numbers = [number for number in true_numbers if number is not None]
    if not expected_numbers:
        return missing(f"the truth {case.truths[0][:80]!r} is not a number")
    reading = case.read()
    # Also decides 5:30, 3:4 and 2024-05-01, which are not single numbers.
    if _is_verbatim(reading.text, case.truths):
        return True, case.explain(reading.text, reading.how)
    is_marked = reading.explicit and reading.how != "the last statement"
    quantity = read_quantity(reading.text, listed=is_marked, last=not reading.explicit)
    how = reading.how
    has_no_number = quantity.number is None and not quantity.problem
    if has_no_number and not is_marked and "last" in case.extractors:
        quantity = read_quantity(case.answer[-5000:], listed=False, last=True)
        how = "the last number"
    if quantity.number is None:
        problem = quantity.problem or "no number found in the answer"
        return False, f"{problem} ({how}), {case.truths[0][:80]!r} expected"
    is_same = any(is_close(quantity.number, number, tolerance) for number in expected_numbers)
    return is_same, case.explain(quantity.number.written, how)


def _compare_choices(case: _Case, options: str) -> Answer:
    """Return the verdict by the letters of the chosen options."""
    option_texts = find_option_texts(case.question, options)
    expected = {_read_letters(truth, options) for truth in case.truths}
    if "" in expected:
        expected = {_find_option(truth, option_texts) for truth in case.truths}
    if "" in expected:
        return missing(f"the truth {case.truths[0][:80]!r} names no option of {options}")
    choice = find_choice(case.answer, options, case.extractors)
    letters = choice.letters
    how = choice.how
    if not letters:
        # The answer may give the text of an option without its letter.
        reading = case.read()
        letters = _find_option(reading.text, option_texts)
        how = f"the option's text in {reading.how}"
    expected_letters = "/".join(sorted(expected))
    if not letters:
        return False, f"no option is chosen, {expected_letters} expected"
    expects_one_letter = all(len(option) == 1 for option in expected)
    if len(letters) > 1 and expects_one_letter:
        finding = f"ambiguous: read {'/'.join(letters)}"
    else:
        finding = f"read {letters}"
    return letters in expected, f"{finding} from {how}, {expected_letters} expected"


def _read_letters(truth: str, options: str) -> str:
    """Return the letters that a truth such as "B", "(a)" or "A, C" names; "" if it names none."""
    letters = re.sub(r"[\s,，、;/()（）.]|\band\b", "", truth).upper()
    if letters and len(letters) <= len(options) and all(letter in options for letter in letters):
        return "".join(sorted(set(letters)))
    return find_choice(truth, options).letters


def _find_option(text: str, option_texts: dict[str, str]) -> str:
    """Return the letter of the only option with this text; "" if there is none, or several."""
    wording = normalise(text)
    if not wording:
        return ""
    letters = [letter for letter, option in option_texts.items() if normalise(option) == wording]
    return letters[0] if len(letters) == 1 else ""


def _compare_sets(case: _Case) -> Answer:
    """Return the verdict by the entries of the answer's list, or of its result, in any order."""
    truths = read_entries(case.truths[0]) if len(case.truths) == 1 else case.truths
    expected = {normalise(truth) for truth in truths} - {""}
    actual = {normalise(entry) for entry in read_entries(case.answer, case.extractors)} - {""}
    lacking = sorted(expected - actual)
    extra = sorted(actual - expected)
    reason = f"{len(expected & actual)} of {len(expected)} entries; lacking {lacking[:3]}, extra {extra[:3]}"
    return actual == expected, reason


# ---- mathematics ---------------------------------------------------------------------------------------------------


def _compare_mathematics(case: _Case, seconds: float) -> Answer:
    """Return the verdict by mathematical equality, which is computed only if canonical forms do not decide it."""
    reading = case.read()
    if _is_verbatim(reading.text, case.truths):
        return True, case.explain(reading.text, reading.how)
    if reading.explicit:
        problem = _find_impossibility(reading.text)
        if problem:
            return False, f"{problem} ({reading.how}), {case.truths[0][:80]!r} expected"
        written = find_formula(reading.text, whole=True) or reading.text
    else:
        written = find_last_formula(case.answer[-TAIL:])
    result = read_formula(replace_surrogates(written))
    reasons: list[str] = []
    for truth in case.truths:
        expected = read_formula(replace_surrogates(truth))
        is_same = compare_formulas(expected, result, is_marked=reading.explicit)
        if reading.explicit and compare_formulas(
            expected, read_formula(replace_surrogates(reading.text))
        ):
            is_same = True
        if is_same is None:
            is_same, reason = _compute_equality(expected.core, result.core, seconds)
            if is_same is None:
                return missing(f"mathematics not decided: {reason}")
            reasons.append(reason)
        elif not is_same and has_prose(expected.core):  # "So the function is even."
            sentence = f": {reading.text}" if reading.explicit else case.answer[-TAIL:]
            is_same = claims(sentence, expected.core, case.question)
        if is_same:
            return True, case.explain(written, reading.how)
    reason = case.explain(written, reading.how)
    return False, f"{reasons[0]}; {reason}" if reasons else reason


def _is_verbatim(text: str, truths: tuple[str, ...]) -> bool:
    """Is the text one of the truths, apart from spaces and LaTeX delimiters?"""
    return any(_drop_marks(text) == _drop_marks(truth) for truth in truths)


def _drop_marks(text: str) -> str:
    return _FORMULA_MARKS.sub("", text).rstrip(".")


def _find_impossibility(text: str) -> str:
    """Return why the result is wrong whatever the truth is, else "": a contradiction, an inequality, a huge number."""
    problem = read_quantity(text, listed=False).problem
    if problem.endswith(("contradicts itself", "is too large")):
        return problem
    if problem and _INEQUALITY.search(text):
        return problem
    value = evaluate(text)
    return "too large to compute" if value is not None and math.isinf(value) else ""


def _compute_equality(truth: str, result: str, seconds: float) -> tuple[bool | None, str]:
    """Return whether the result equals the truth as mathematics (None: undecided), and the reason.

    If the comparison fails or takes too long, the truth is compared with itself. If that works, the result caused the
    failure and is wrong. If that fails too, nothing is decided.
    """
    try:
        is_same, reason = call(_EQUAL, [truth, result], seconds=seconds)
        return is_same, reason
    except WorkerFailed as error:
        failure = error
    try:
        is_mathematics, reason = call(_EQUAL, [truth, truth], seconds=seconds)
    except WorkerFailed as error:
        return None, str(error)
    if is_mathematics is None:
        return None, reason
    return False, f"the result cannot be computed ({failure})"


# ---- lists and rankings ----------------------------------------------------------------------------------------------

# What stands between entries in one line: "a, b and c", "a > b".
_SEPARATOR = re.compile(r"[,，、;；|\n>]|(?<=\s)(?:and|or)(?=\s)|和|与|以及|→")
_MOST_ENTRIES = 2_000
_FENCE = re.compile(r"```\w*\n(.*)\n```", re.DOTALL)
# The bold name at the beginning of "- **Apple**: a fruit".
_LABEL = re.compile(r"(?:\*\*|__)([^*_\n]{1,200}?):?(?:\*\*|__)\s*[:：–—-]?")
# "The cities are: ", "The cities are "
_INTRODUCTION = re.compile(
    r"\A(?:[^:：]{0,60}[:：]|[^,，;；|\n>:：]{0,60}\s(?:are|were|include))\s"
)


def read_entries(answer: str, extractors: Sequence[Extractor] = DEFAULT) -> list[str]:
    """Return the entries of an answer in order: of a JSON list, a list of lines, or between commas, ">" and "and"."""
    reading = read_answer(answer, extractors)
    text = reading.text if reading.explicit else answer.strip()
    fenced = _FENCE.fullmatch(text)
    text = fenced[1] if fenced else text
    try:
        value = parse_json(text)
    except ValueError:
        value = None
    if isinstance(value, list):
        return [str(entry) for entry in value][:_MOST_ENTRIES]
    items = [item.text for item in list_items(text[-50_000:])]
    if items:
        labels = [_LABEL.match(item) for item in items]
        entries = [label[1] if label else item for item, label in zip(items, labels, strict=True)]
        return [strip_decoration(entry) for entry in entries][:_MOST_ENTRIES]
    line = _INTRODUCTION.sub("", text[-50_000:])
    parts = [strip_decoration(part).strip(" .{}[]()\"'“”") for part in _SEPARATOR.split(line)]
    return [part for part in parts if part][:_MOST_ENTRIES]


@verifier("SetMatch", family="truth", domain=UNIT, version=2)
def set_match(
    rollout: Rollout,
    *,
    truth: tuple[str | int | float, ...] | None = None,
    measure: Literal["f1", "precision", "recall"] = "f1",
) -> Answer:
    """F1, precision or recall of the entries that the answer names, in any order; case, width and articles aside.

    The entries are those of a JSON list, a bulleted or numbered list, or stand between commas.
    Passes (1): "b, a" for ["a", "b"].
    Part: one of two right is F1 2/3.
    Fails (0): none right; no entries. An entry named twice counts once.
    Missing: no truth.
    Not covered: entries that are equal only in meaning; prose around entries that are not a list.
    """
    truths = (
        tuple(map(str, truth)) if truth is not None else find_truths(None, rollout.metadata).values
    )
    expected = {normalise(entry) for entry in truths} - {""}
    if not expected:
        return missing("no truth is known")
    actual = {normalise(entry) for entry in read_entries(rollout.answer)} - {""}
    right = len(expected & actual)
    precision = right / len(actual) if actual else 0.0
    recall = right / len(expected)
    scores = {
        "precision": precision,
        "recall": recall,
        "f1": 2.0 * right / (len(actual) + len(expected)),
    }
    return scores[measure], f"{right} right of {len(actual)} named, {len(expected)} expected"


@verifier("Ndcg", family="truth", domain=UNIT, version=2)
def rank_by_ndcg(
    rollout: Rollout,
    *,
    relevance: dict[str, Annotated[float, Field(ge=0)]] | None = None,
    ranking: tuple[str, ...] = (),
    top: Annotated[int, Field(ge=1, le=1000)] = 10,
) -> Answer:
    """NDCG of the first `top` entries of the answer's ranking.

    `relevance` (or metadata["relevance"]) gives each entry's gain; `ranking` gives an order instead, its first entry
    having the largest gain.
    Passes (1): the best order.
    Part: good entries further down, or some left out.
    Fails (0): no relevant entry. An entry that is repeated counts once.
    Missing: neither is given, or nothing is relevant.
    Not covered: ties; an order that is only described ("the second is best").
    """
    gains = relevance if relevance is not None else rollout.metadata.get("relevance")
    if not gains and ranking:
        gains = {entry: float(len(ranking) - place) for place, entry in enumerate(ranking)}
    if not isinstance(gains, dict) or not any(gain > 0 for gain in gains.values()):
        return missing(
            "no relevance is known: give `relevance` or `ranking`, or metadata['relevance']"
        )
    gain_of = {normalise(str(entry)): float(gain) for entry, gain in gains.items()}
    entries = list(dict.fromkeys(normalise(entry) for entry in read_entries(rollout.answer)))[:top]
    score = _sum_gains([gain_of.get(entry, 0.0) for entry in entries])
    best = _sum_gains(sorted(gain_of.values(), reverse=True)[:top])
    return min(1.0, score / best), f"NDCG@{top} {score / best:.3f} of {len(entries)} entries"


def _sum_gains(gains: list[float]) -> float:
    """Return the discounted cumulative gain: the gain at place n counts 1 / log2(n + 1)."""
    return sum(gain / math.log2(place + 2) for place, gain in enumerate(gains))
