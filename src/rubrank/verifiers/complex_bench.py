"""ComplexBench: the share of an item's questions that hold, where some questions depend on others.

    ComplexBench(scoring_questions=[
        {"question": "Does it name the right branch?", "verdict": True},
        {"question": "At least 300 characters?", "rule": "length:[300,10000]", "dep": [0]}])

A question is decided by a judge's verdict that comes with it, a rule, a verifier or an instruction. `dep` lists the
questions that must hold for this one to count, by their numbers from 0. The benchmark describes composed tasks this
way: the questions of an "And" depend on none, each step of a "Chain" on the step before, and the questions about a
branch of a "Selection" on the question whether it was the right branch.

A rule is one or more lines `name:argument`, as the public file writes them; all must hold:

    keyword:[a,b]                   contains all of them
    forbidden_word:[a,b]            contains none of them
    keyword_num:[1,2,a,b,c]         contains 1 to 2 of them
    startswith:x, endswith:x        begins or ends with x (a full stop or question mark may follow the end)
    match:x                         is x
    length:[1,100]                  has 1 to 100 characters
    length_word:[1,100]             has 1 to 100 words
    Json:[a,b]                      holds a JSON object with exactly these keys; any keys if none is named
    constraint_punc:[，,。]          has no other punctuation
    number_each:[3,5]               there are 3 to 5 pieces
    starts_with_list_each:[a,b]     there are as many pieces as texts, and each piece begins with its text

`not_` before the name negates the rule. `model_` before it says that a model must first find the piece of the answer
that the rule is about; the pieces are given as `extracted`. `_each` after the name says that there are several pieces
and that the rule must hold for each. Case and the width of characters (， and ,) make no difference.
"""

from __future__ import annotations

import ast
import json
import re
import string
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.collie import Holds
from rubrank.verifiers.instruction_items import check_instruction
from rubrank.verifiers.verifier import (
    NEEDS_JUDGE,
    UNIT,
    Answer,
    Compat,
    Verdict,
    missing,
    verifier,
)


class BenchQuestion(BaseModel):
    """One scoring question; other keys of the public file (dimensions, ids, translations) are ignored."""

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
    """Or the verdict of a judge; it overrides the rule."""
    extracted: list[str] | None = None
    """The pieces of the answer that the question is about; None: the whole answer."""

    @field_validator("rule")
    @classmethod
    def _check_rule(cls, value: str | None) -> str | None:
        if value is not None:
            parse_rule(value)
        return value

    @model_validator(mode="after")
    def _check_not_nested(self) -> BenchQuestion:
        if self.verifier == "ComplexBench":
            raise ValueError(
                "a question may not be another item of ComplexBench; write its questions out"
            )
        return self


Questions: TypeAlias = Annotated[list[BenchQuestion], Field(max_length=1000)]


@verifier("ComplexBench", family="benchmark", domain=UNIT, version=3, how="both")
def complex_bench(
    rollout: Rollout, *, scoring_questions: Questions, compat: Compat = "fixed"
) -> Answer:
    """The share of the item's questions that hold, where a question holds only if those it depends on hold.

    Each question is decided by its `verdict` (a judge's), else its `rule`, `verifier` or `instruction_id`.
    Passes (1): all hold.
    Fails (0): none holds; a question whose prerequisite fails counts as failed, even if it holds.
    Missing: a question that needs a judge and whose prerequisites hold, an unknown verifier, a dependency on a question
        that does not exist or on itself. A rule `model_…` speaks of a piece that a model must find: give it as
        `extracted`.
    Not covered: asking the judge, finding the pieces.
    upstream: only direct prerequisites count, lengths are raw, and an answer that holds “None” counts as empty.
    """
    if not scoring_questions:
        return missing("no scoring questions")
    for i, question in enumerate(scoring_questions):
        for dep in question.dep:
            if not 0 <= dep < len(scoring_questions) or dep == i:
                return missing(
                    f"question {i} depends on question {dep}, which is itself or does not exist"
                )
    prerequisites_of = {i: question.dep for i, question in enumerate(scoring_questions)}
    try:
        order = list(TopologicalSorter(prerequisites_of).static_order())
    except CycleError:
        return missing("questions depend on one another in a cycle")

    # The verdicts without regard to prerequisites; `results` takes them into account, prerequisites first.
    own_verdicts = [decide_question(rollout, question, compat) for question in scoring_questions]
    results = list(own_verdicts)
    for i in order:
        # The public checker asks only whether the prerequisite itself holds, not whether its own prerequisites do.
        prerequisites = results if compat == "fixed" else own_verdicts
        failed = [dep for dep in prerequisites_of[i] if prerequisites[dep].value == 0]
        undecided = [dep for dep in prerequisites_of[i] if prerequisites[dep].value is None]
        if failed:
            results[i] = Verdict(0.0, f"question {failed[0]}, on which it depends, fails")
        elif undecided and results[i].value != 0:  # a question that fails needs no prerequisites
            results[i] = prerequisites[undecided[0]]
    broken: list[str] = []
    for i, verdict in enumerate(results):
        if verdict.value is None:
            return missing(f"question {i}: {verdict.reason}")
        if not verdict.value:
            broken.append(f"question {i} ({verdict.reason})")
    reason = f"{len(results) - len(broken)} of {len(results)} questions hold"
    if broken:
        reason += f"; not met: {'; '.join(broken[:3])}"
    return 1 - len(broken) / len(results), reason


def decide_question(rollout: Rollout, question: BenchQuestion, compat: Compat) -> Verdict:
    """Return the verdict on one question, without its prerequisites."""
    if question.verdict is not None:
        return Verdict(float(question.verdict), "given")
    pieces = [rollout.answer] if question.extracted is None else question.extracted
    if question.rule is not None:
        needs_pieces = any(rule.extracted or rule.each for rule in parse_rule(question.rule))
        if question.extracted is None and needs_pieces:
            return missing(
                f"the rule {question.rule[:60]!r} needs the pieces it is about: give `extracted`"
            )
        result = check_rule(question.rule, pieces, compat)
        return Verdict(float(result.ok), result.reason)
    criterion = question.verifier or question.instruction_id
    if criterion is None:
        return missing(f"{NEEDS_JUDGE}: {question.question[:100] or 'a question without text'}")
    params = question.kwargs if question.verifier is None else question.params
    # The question holds if all pieces pass; otherwise the first that does not decides.
    verdict = Verdict(0.0, "nothing to check")
    for piece in pieces:
        subject = rollout
        if question.extracted is not None:
            subject = rollout.model_copy(update={"response": piece, "reasoning": ""})
        verdict = check_instruction(subject, criterion, params, compat, "strict")
        if verdict.value != 1:
            break
    return verdict


# ---- rules ----------------------------------------------------------------------------------------------------------

# A line of a rule, such as "model_not_length_word_each:[1,100]". "model_" and "not_" may stand in either order.
_RULE_LINE = re.compile(
    r"""(?P<prefixes> (?:model_|not[ ]|not_)? (?:model_)? (?:not_)? )
    (?P<name>[A-Za-z_]+?) (?P<each>_each)? : \s*(?P<argument>.*)\Z""",
    re.DOTALL | re.VERBOSE,
)
# The line break before the next rule. Other line breaks belong to an argument.
_NEXT_LINE = re.compile(r"\n(?=(?:model_|not[ _])*[A-Za-z_]+:)")
_CLOSING_QUOTES = {'"': '"', "“": "”", "`": "`", "「": "」"}
_PUNCTUATION = frozenset(string.punctuation)
# Rules whose arguments begin with the least and the most; all rules with a list of arguments; rules with a plain text.
_RANGE_RULES = frozenset(("length", "length_word", "number", "keyword_num"))
_LIST_RULES = _RANGE_RULES | {
    "keyword",
    "forbidden_word",
    "Json",
    "constraint_punc",
    "starts_with_list",
}
_TEXT_RULES = frozenset(("startswith", "endswith", "match"))


@dataclass(frozen=True)
class PieceRule:
    """One line of a rule: "model_not_length_each:[1,100]" has the name "length" and the arguments "1" and "100"."""

    name: str
    arguments: tuple[str, ...]
    negated: bool = False
    """`not_` stands before the name."""
    each: bool = False
    """`_each` stands after the name: the rule must hold for each piece, not only for the first."""
    extracted: bool = False
    """`model_` stands before the name: a model has to find the piece first."""

    def check_range(self, count: int, unit: str) -> Holds:
        """Check a count against the first two arguments, the least and the most. Raises ValueError."""
        try:
            low, high = map(int, self.arguments[:2])
        except ValueError:
            raise ValueError(
                f"rule {self.name} needs [least, most]; got {list(self.arguments)}"
            ) from None
        return Holds(low <= count <= high, f"{count} {unit}, {low} to {high} required")

    @property
    def holds_for_nothing(self) -> bool:
        """Does the rule hold where there is nothing? It does if it forbids something."""
        return self.negated or self.name == "forbidden_word"


@lru_cache(maxsize=1024)
def parse_rule(source: str) -> tuple[PieceRule, ...]:
    """Return the lines of a rule; ValueError if one cannot be read."""
    rules: list[PieceRule] = []
    for line in _NEXT_LINE.split(source.strip()):
        match = _RULE_LINE.match(line)
        if not match or match["name"] not in _LIST_RULES | _TEXT_RULES:
            rule_names = ", ".join(sorted(_LIST_RULES | _TEXT_RULES))
            raise ValueError(
                f"{line[:80]!r} is not a rule; write NAME:ARGUMENT with one of {rule_names}, "
                "perhaps with model_ or not_ before the name and _each after it"
            )
        name = match["name"]
        if name in _LIST_RULES:
            arguments = _parse_list(match["argument"])
        else:
            arguments = (match["argument"].strip(),)
        rule = PieceRule(
            name,
            arguments,
            negated="not" in match["prefixes"],
            each=match["each"] is not None,
            extracted="model_" in match["prefixes"],
        )
        if name in _RANGE_RULES:
            rule.check_range(0, "")  # raises ValueError if the numbers are wrong
        rules.append(rule)
    return tuple(rules)


def _parse_list(text: str) -> tuple[str, ...]:
    """Read `[a, b]`, with or without quotation marks."""
    try:
        value = ast.literal_eval(text) if len(text) < 10_000 else None
        if isinstance(value, list) and all(isinstance(part, str | int) for part in value):
            return tuple(map(str, value))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        pass  # the public file writes most lists without quotation marks
    parts = [part.strip() for part in text.strip().strip("[]").split(",")]
    return tuple(part for part in parts if part)


def check_rule(source: str, pieces: Sequence[str], compat: Compat) -> Holds:
    """Check all lines of the rule on the pieces; without `_each` on the first piece.

    >>> check_rule("length_word:[2,3]\\nendswith:ok", ["all is ok."], "fixed").ok
    True
    """
    results = [_check_line(rule, pieces, compat) for rule in parse_rule(source)]
    # The reason is that of the first line that does not hold.
    return next((result for result in results if not result.ok), results[0])


def _check_line(rule: PieceRule, pieces: Sequence[str], compat: Compat) -> Holds:
    """Check one line of a rule on the pieces that are not empty."""
    pieces = [piece for piece in pieces if piece.strip()]
    if not pieces and rule.name != "number":
        return Holds(rule.holds_for_nothing, f"nothing to check {rule.name} on")
    # These two rules are about all the pieces together.
    if rule.name == "number":
        results = [rule.check_range(len(pieces), "pieces")]
    elif rule.name == "starts_with_list":
        starts = [_fold(start) for start in rule.arguments]
        begin_so = map(str.startswith, map(_fold, pieces), starts)
        is_right = len(pieces) == len(starts) and all(begin_so)
        results = [Holds(is_right, f"{len(pieces)} pieces, that begin with {starts} required")]
    else:
        checked = pieces if rule.each else pieces[:1]
        results = [_check_piece(rule, piece, compat) for piece in checked]
    for number, result in enumerate(results, start=1):
        if result.ok == rule.negated:  # it fails, or it passes a rule with `not_`
            return Holds(
                False, f"{'not ' * rule.negated}{rule.name}, piece {number}: {result.reason}"
            )
    return Holds(True, f"{rule.name} holds")


def _check_piece(rule: PieceRule, piece: str, compat: Compat) -> Holds:
    """Check one piece, without regard to `not_`. It may pass with or without the quotation marks around it."""
    # The public checker takes "None" for "nothing was extracted", also in a negated rule; the caller negates once more.
    if compat == "upstream" and "None" in piece and not rule.extracted:
        return Holds(rule.holds_for_nothing != rule.negated, "the piece holds “None”")
    result = _apply_rule(rule, piece, compat)
    stripped = piece.strip()
    is_quoted = _CLOSING_QUOTES.get(stripped[:1]) == stripped[-1:]
    if not result.ok and is_quoted:
        result = _apply_rule(rule, stripped[1:-1], compat)
    return result


def _apply_rule(rule: PieceRule, piece: str, compat: Compat) -> Holds:
    """Apply the rule to the piece as it is."""
    folded = _fold(piece)
    arguments = [_fold(argument) for argument in rule.arguments]
    if rule.name == "keyword":
        absent = [word for word in arguments if word not in folded]
        return Holds(not absent, f"{len(absent)} do not occur: {absent[:3]}")
    if rule.name == "forbidden_word":
        present = [word for word in arguments if word in folded]
        return Holds(not present, f"{len(present)} occur: {present[:3]}")
    if rule.name == "keyword_num":
        return rule.check_range(sum(word in folded for word in arguments[2:]), "keywords")
    if rule.name == "startswith":
        return Holds(folded.startswith(arguments[0]), f"begins with {piece.strip()[:30]!r}")
    if rule.name == "endswith":
        is_right = folded.endswith(tuple(arguments[0] + mark for mark in ("", "。", ".", "?")))
        return Holds(is_right, f"ends with {piece.strip()[-30:]!r}")
    if rule.name == "match":
        is_right = folded in [arguments[0] + mark for mark in ("", "。", ".")]
        return Holds(is_right, f"it is {piece.strip()[:30]!r}")
    if rule.name == "length":
        count = len(piece) if compat == "upstream" else len(Text(piece).characters)
        return rule.check_range(count, "characters")
    if rule.name == "length_word":
        count = len(piece.split()) if compat == "upstream" else len(Text(piece).words)
        return rule.check_range(count, "words")
    if rule.name == "Json":
        return _check_json(piece, rule.arguments)
    # The rule is constraint_punc.
    marks = [
        char for char in folded if char in _PUNCTUATION or unicodedata.category(char)[0] == "P"
    ]
    other_marks = sorted(set(marks) - set("".join(arguments)))
    return Holds(not other_marks, f"other punctuation: {' '.join(other_marks[:10])}")


def _check_json(piece: str, keys: Sequence[str]) -> Holds:
    """Check that the piece holds a JSON object with exactly these keys; any keys if none is given."""
    start = piece.find("{")
    if start < 0:
        return Holds(False, "no JSON object")
    try:
        value, _ = json.JSONDecoder().raw_decode(piece, start)
    except (ValueError, RecursionError):
        return Holds(False, "the JSON object cannot be read")
    is_right = not keys or set(value) == set(keys)
    return Holds(is_right, f"JSON with the keys {list(value)[:10]}")


def _fold(text: str) -> str:
    """Return the text without case and width of characters, and without spaces around it."""
    return unicodedata.normalize("NFKC", text).casefold().strip()
