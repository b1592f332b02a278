"""GroundTruthMatch: is the answer the known one? Six ways to compare, from letter by letter to mathematics."""

from __future__ import annotations

import importlib.util
import math
import re
from dataclasses import dataclass
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from rubrank._plain import clean
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.prose import bare, list_items
from rubrank.verifiers.shared.answers import DEFAULT, TAIL, AnswerReading, Extractor, read_answer
from rubrank.verifiers.shared.arithmetic import evaluate
from rubrank.verifiers.shared.choices import find_choice, find_option_texts
from rubrank.verifiers.shared.worker import WorkerFailed, call
from rubrank.verifiers.truth.claims import claims, normalise
from rubrank.verifiers.truth.quantities import is_close, read_quantity
from rubrank.verifiers.truth.truths import Truth, find_truths
from rubrank.verifiers.verifier import BINARY, Answer, missing, verifier

_NAMES = {"normalized": "normalised", "mathematical": "math", "mathematics": "math", "number": "numeric"}


def _mode(name: object) -> object:
    return _NAMES.get(name, name) if isinstance(name, str) else name


Mode: TypeAlias = Annotated[Literal["exact", "normalised", "numeric", "choice", "set", "math"], BeforeValidator(_mode)]


@dataclass(frozen=True, slots=True)
class _Asked:
    """What every comparison needs."""

    answer: str
    question: str
    truths: tuple[str, ...]
    extractors: tuple[Extractor, ...]

    @property
    def reading(self) -> AnswerReading:
        return read_answer(self.answer, self.extractors)

    def said(self, given: str, how: str) -> str:
        return f"read {given[:80]!r} from {how}, {self.truths[0][:80]!r} expected"


def _needs(params: Any) -> tuple[str, str] | None:
    return ("math_verify", "math") if params.mode == "math" else None


@verifier("GroundTruthMatch", family="presence", domain=BINARY, version=3, cost="process", needs=_needs)
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
    - exact: the same characters. normalised: case, width, punctuation, articles, Simplified/Traditional aside; a
      sentence that claims it ("The capital of France is Paris.") passes too.
    - numeric: within `tolerance` (relative); 1,200 = 1.2e3 = 一千二百, 50% = 0.5 = 1/2, 5 km = 5000 m; another unit
      fails.
    - choice: the letter chosen among `options`; several letters, where one is true, fail.
    - set: the same entries, in any order.
    - math: equal as mathematics (math-verify, extra [math]; in a worker process of at most `seconds`).
    Passes: "So \\boxed{42}" for 42. Fails: another result or none; one that is denied, hedged ("41 or 42") or
    contradicts itself ("41 = 42"); one that cannot be computed in time. Missing: no truth known, a truth that does not
    suit the mode, a machine that cannot compute. Not covered: a right result that is stated only in passing.
    """
    known = find_truths(truth, rollout.metadata)
    if not known.values:
        return missing(f"no ground truth is known: {known.where}")
    asked = _Asked(rollout.answer, rollout.question, known.values, extractors)
    if mode == "set":
        return _same_set(asked)
    if mode == "choice":
        return _same_choice(asked, options)
    if mode == "math":
        return _same_math(asked, seconds)
    return _same_number(asked, tolerance) if mode == "numeric" else _same_text(asked, exact=mode == "exact")


def _same_text(asked: _Asked, *, exact: bool) -> Answer:
    reading = asked.reading
    form = str.strip if exact else normalise
    candidates = {form(reading.text)}
    if not reading.explicit and len(asked.answer) < 10_000:
        candidates.add(form(asked.answer))
    found = any(form(truth) in candidates for truth in asked.truths)
    if not found and not exact:
        body = reading.text if reading.explicit else asked.answer[-TAIL:]
        stated = f": {body}" if reading.explicit else body  # what is marked as the result is claimed
        found = any(claims(stated, truth, asked.question) for truth in asked.truths)
    return found, asked.said(reading.text, reading.how)


def _same_number(asked: _Asked, tolerance: float) -> Answer:
    expected = [number for t in asked.truths if (number := read_quantity(t, listed=False).number)]
    if not expected:
        return missing(f"the truth {asked.truths[0][:80]!r} is not a number")
    reading = asked.reading
    if any(
        _without_marks(truth) == _without_marks(reading.text) for truth in asked.truths
    ):  # also 5:30, 3:4, 2024-05-01
        return True, asked.said(reading.text, reading.how)
    marked = reading.explicit and reading.how != "the last statement"
    found, how = read_quantity(reading.text, listed=marked, last=not reading.explicit), reading.how
    if found.number is None and not found.problem and not marked and "last" in asked.extractors:
        found, how = read_quantity(asked.answer[-5000:], listed=False, last=True), "the last number"
    if found.number is None:
        problem = found.problem or "no number found in the answer"
        return False, f"{problem} ({how}), {asked.truths[0][:80]!r} expected"
    same = any(is_close(found.number, one, tolerance) for one in expected)
    return same, asked.said(found.number.written, how)


def _same_choice(asked: _Asked, options: str) -> Answer:
    wanted = {_letters_of(t, options) for t in asked.truths}
    texts = find_option_texts(asked.question, options)
    if "" in wanted:
        wanted = {_letter_of_text(t, texts) for t in asked.truths}
    if "" in wanted:
        return missing(f"the truth {asked.truths[0][:80]!r} names no option of {options}")
    choice = find_choice(asked.answer, options, asked.extractors)
    letters, how = choice.letters, choice.how
    if not letters:  # the text of an option, without its letter
        reading = asked.reading
        letters, how = _letter_of_text(reading.text, texts), f"the option's text in {reading.how}"
    expected = "/".join(sorted(wanted))
    if not letters:
        return False, f"no option is chosen, {expected} expected"
    several = len(letters) > 1 and all(len(one) == 1 for one in wanted)
    said = f"ambiguous: read {'/'.join(letters)}" if several else f"read {letters}"
    return letters in wanted, f"{said} from {how}, {expected} expected"


def _letters_of(truth: str, options: str) -> str:
    bare_letters = re.sub(r"[\s,，、;/()（）.]|\band\b", "", truth)
    if bare_letters and len(bare_letters) <= len(options) and all(c in options for c in bare_letters.upper()):
        return "".join(sorted(set(bare_letters.upper())))
    return find_choice(truth, options).letters


def _letter_of_text(text: str, texts: dict[str, str]) -> str:
    """The letter of the only option with this text."""
    wanted = normalise(text) if text else ""
    found = [letter for letter, option in texts.items() if wanted and normalise(option) == wanted]
    return found[0] if len(found) == 1 else ""


_SEPARATOR = re.compile(r"[,，、;；|\n]|(?<=\s)(?:and|or)(?=\s)|和|与|以及")


def _same_set(asked: _Asked) -> Answer:
    single = asked.truths[0] if len(asked.truths) == 1 else None
    wanted = {normalise(t) for t in (_SEPARATOR.split(single.strip(" {}[]()\\")) if single else asked.truths)} - {""}
    reading = asked.reading
    items = [item.text for item in list_items(asked.answer[-50_000:])]
    how = "the list"
    if not items or (reading.explicit and reading.how != "the last statement"):
        items, how = _SEPARATOR.split(reading.text.strip(" {}[]()\\")), reading.how
    found = {normalise(bare(item)) for item in items} - {""}
    lacking, extra = sorted(wanted - found), sorted(found - wanted)
    said = f"{len(wanted & found)} of {len(wanted)} entries in {how}; lacking {lacking[:3]}, extra {extra[:3]}"
    return found == wanted, said


# ---- mathematics ---------------------------------------------------------------------------------------------------

_EQUAL = "rubrank.verifiers.truth.mathematics:equal"
_BEYOND = re.compile(r",?\s*(?:\bbecause\b|\bsince\b|\bwhich\b|\bnot\b|\brather\b|因为|而不是|\.\s+[A-Z])")
_PROSE = re.compile(r"(?<![\\a-zA-Z])[a-zA-Z]{4,}")


def _same_math(asked: _Asked, seconds: float) -> Answer:
    reading = asked.reading
    if any(_without_marks(reading.text) == _without_marks(truth) for truth in asked.truths):
        return True, asked.said(reading.text, reading.how)
    if reading.explicit and (problem := _impossible(reading.text)):
        return False, f"{problem} ({reading.how}), {asked.truths[0][:80]!r} expected"
    if importlib.util.find_spec("math_verify") is None:
        return missing("math-verify is not installed: pip install 'rubrank[math]'")
    given = _as_mathematics(reading, asked.answer)
    reasons: list[Any] = []
    for truth in asked.truths:
        same, reason = _computed(clean(truth), given, seconds)
        if same is None:
            return missing(f"mathematics not decided: {reason}")
        if same:
            return True, asked.said(reading.text, reading.how)
        reasons.append(reason)
    return False, f"{reasons[0]}; {asked.said(reading.text, reading.how)}"


def _without_marks(text: str) -> str:
    return re.sub(r"\s|\$|\\[()\[\],!; ]", "", text).rstrip(".")


def _impossible(text: str) -> str:
    """Why the result cannot be right, whatever the truth: it contradicts itself, or cannot be computed."""
    problem = read_quantity(text, listed=False).problem
    if problem.endswith(("contradicts itself", "is too large")) or (
        problem and re.search(r"≠|\\neq?(?![a-z])|!=", text)
    ):
        return problem
    value = evaluate(text)
    return "too large to compute" if value is not None and math.isinf(value) else ""


def _as_mathematics(reading: AnswerReading, answer: str) -> str:
    """What math-verify reads: a marked result in a box, else the end of the answer."""
    text = _BEYOND.split(reading.text, maxsplit=1)[0].strip().rstrip(".,;")
    if not reading.explicit:
        return clean(answer[-2000:])
    if "$" in text or "\\(" in text or _PROSE.search(re.sub(r"\\[a-zA-Z]+", "", text)):
        return clean(text)
    return f"$\\boxed{{{clean(text)}}}$"


def _computed(truth: str, given: str, seconds: float) -> tuple[bool | None, str]:
    """Equal, different, or None where nothing can be said. A failure that the truth alone does not cause is the
    response's: what cannot be computed in time, or breaks the library, is not the truth."""
    try:
        same, reason = call(_EQUAL, [truth, given], seconds=seconds)
    except WorkerFailed as error:
        try:
            same, reason = call(_EQUAL, [truth, truth], seconds=seconds)
        except WorkerFailed as machine:
            return None, str(machine)
        return (None, reason) if same is None else (False, f"the result cannot be computed ({error})")
    return same, reason
