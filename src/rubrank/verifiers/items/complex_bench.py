"""ComplexBench: the questions of one item, decided by rules or given verdicts, with what depends on what.

    ComplexBench(scoring_questions=[
        {"question": "Does it name the right branch?", "verdict": True},
        {"question": "At least 300 characters?", "rule": "length:[300,10000]", "dep": [0]}])

How the benchmark composes constraints shows in `dep`, the numbers of the questions that must hold first: And gives
none; Chain makes a task depend on the one before; Selection makes a branch depend on choosing it rightly.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from rubrank.errors import RubrankError
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.items.complex_bench_rules import check_rule, parse_rule
from rubrank.verifiers.items.live_bench import follow
from rubrank.verifiers.verifier import UNIT, Answer, Compat, Verdict, find_verifier, missing, verifier


class BenchQuestion(BaseModel):
    """One scoring question; other keys of the public file (dimensions, ids, translations) are not looked at."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    question: str = ""
    dep: list[int] = []
    rule: str | None = None
    """A rule of the public file."""
    verifier: str | None = None
    """Or a verifier with `params`."""
    params: dict[str, Any] = {}
    instruction_id: str | None = None
    """Or an instruction of IFEval or IFBench with `kwargs`."""
    kwargs: dict[str, Any] | None = None
    verdict: bool | None = None
    """Or what a judge said; it goes before the rule."""
    extracted: list[str] | None = None
    """The pieces of the answer that the question is about; None: the whole answer."""

    @field_validator("rule")
    @classmethod
    def _readable(cls, value: str | None) -> str | None:
        if value is not None:
            parse_rule(value)
        return value

    @model_validator(mode="after")
    def _not_itself(self) -> BenchQuestion:
        if self.verifier == "ComplexBench":
            raise ValueError("a question may not be another item of ComplexBench; write its questions out")
        return self


Questions: TypeAlias = Annotated[list[BenchQuestion], Field(max_length=1000)]


@verifier("ComplexBench", family="benchmark", domain=UNIT, version=2, how="both")
def complex_bench(rollout: Rollout, *, scoring_questions: Questions, compat: Compat = "fixed") -> Answer:
    """The share of the item's questions that hold, where a question holds only if those it depends on hold.

    Each question is decided by its `verdict` (a judge's), else its `rule`, `verifier` or `instruction_id`. Passes (1):
    all hold. Fails (0): none does; a question whose prerequisite fails counts as failed, whatever it says itself.
    Missing: a question that needs a judge and whose prerequisites hold, an unknown verifier, a dependency on a question
    that does not exist or on itself. A rule `model_…` speaks of a piece that a model must find: give it as `extracted`.
    Not covered: asking the judge, finding the pieces.
    upstream: only direct prerequisites count, lengths are raw, and an answer that holds “None” counts as empty.
    """
    if not scoring_questions:
        return missing("no scoring questions")
    if (wrong := _wrong_dependency(scoring_questions)) is not None:
        return missing(wrong)
    own = _Decided(rollout, scoring_questions, compat)
    order = _sorted(scoring_questions)
    if order is None:
        return missing("questions depend on one another in a cycle")
    results: dict[int, Verdict] = {}
    for i in order:
        results[i] = own.with_prerequisites(i, results)
    return _total([results[i] for i in range(len(scoring_questions))])


def _wrong_dependency(questions: Sequence[BenchQuestion]) -> str | None:
    bad = [(i, d) for i, q in enumerate(questions) for d in q.dep if not 0 <= d < len(questions) or d == i]
    return f"question {bad[0][0]} depends on question {bad[0][1]}, which is itself or does not exist" if bad else None


def _sorted(questions: Sequence[BenchQuestion]) -> list[int] | None:
    """The questions, each after those it depends on; None if that is impossible."""
    order: list[int] = []
    waiting = {i: set(q.dep) for i, q in enumerate(questions)}
    while waiting:
        ready = [i for i, deps in waiting.items() if not deps]
        if not ready:
            return None
        order += ready
        waiting = {i: deps.difference(ready) for i, deps in waiting.items() if i not in ready}
    return order


class _Decided:
    """The questions' own verdicts, each asked for when it is needed."""

    def __init__(self, rollout: Rollout, questions: Sequence[BenchQuestion], compat: Compat) -> None:
        self.rollout, self.questions, self.compat = rollout, questions, compat
        self.known: dict[int, Verdict] = {}

    def own(self, i: int) -> Verdict:
        """The verdict of the question alone."""
        if i not in self.known:
            self.known[i] = decide(self.rollout, self.questions[i], self.compat)
        return self.known[i]

    def with_prerequisites(self, i: int, results: dict[int, Verdict]) -> Verdict:
        """A failed prerequisite fails the question; one that cannot be decided leaves it undecided."""
        deps = self.questions[i].dep
        before = [results[d] if self.compat == "fixed" else self.own(d) for d in deps]
        for dep, verdict in zip(deps, before, strict=True):
            if verdict.value == 0:
                return Verdict(0.0, f"question {dep}, on which it depends, fails")
        mine = self.own(i)
        return mine if mine.value == 0 else next((v for v in before if v.value is None), mine)


def decide(rollout: Rollout, question: BenchQuestion, compat: Compat) -> Verdict:
    """The verdict on one question, without its prerequisites."""
    if question.verdict is not None:
        return Verdict(float(question.verdict), "given")
    pieces = question.extracted
    if question.rule is not None:
        if pieces is None and any(rule.extracted or rule.each for rule in parse_rule(question.rule)):
            return missing(f"the rule {question.rule[:60]!r} needs the pieces it speaks of, as `extracted`")
        found = check_rule(question.rule, [rollout.answer] if pieces is None else pieces, compat)
        return Verdict(float(found.ok), found.reason)
    if question.verifier is None and question.instruction_id is None:
        return missing(f"needs a judge: {question.question[:100] or 'a question without text'}")
    subjects = [rollout] if pieces is None else [_piece(rollout, piece) for piece in pieces]
    verdicts = [_ask(subject, question, compat) for subject in subjects] or [Verdict(0.0, "nothing to check")]
    return next((v for v in verdicts if v.value != 1), verdicts[0])


def _piece(rollout: Rollout, piece: str) -> Rollout:
    return rollout.model_copy(update={"response": piece, "reasoning": ""})


def _ask(rollout: Rollout, question: BenchQuestion, compat: Compat) -> Verdict:
    if question.verifier is None:
        return follow(rollout, str(question.instruction_id), question.kwargs, compat, "strict")
    try:
        found = find_verifier(question.verifier)
        verdict = found.verify(rollout, found.check_parameters(question.params), compat=compat)
    except RubrankError as error:
        return missing(str(error))
    return verdict if verdict.value is None else Verdict(float(verdict.value == found.domain.high), verdict.reason)


def _total(results: Sequence[Verdict]) -> Answer:
    for i, verdict in enumerate(results):
        if verdict.value is None:
            return missing(f"question {i}: {verdict.reason}")
    broken = [f"question {i} ({v.reason})" for i, v in enumerate(results) if not v.value]
    said = f"{len(results) - len(broken)} of {len(results)} questions hold"
    return 1 - len(broken) / len(results), said + (f"; not {'; '.join(broken[:3])}" if broken else "")
