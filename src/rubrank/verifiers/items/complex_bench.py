"""ComplexBench: the share of an item's questions that hold, where some questions depend on others.

    ComplexBench(scoring_questions=[
        {"question": "Does it name the right branch?", "verdict": True},
        {"question": "At least 300 characters?", "rule": "length:[300,10000]", "dep": [0]}])

A question is decided by a verdict that is given (a judge's), a rule, a verifier or an instruction. `dep` lists the
questions that must hold first, by their numbers from 0. The benchmark composes constraints with it: questions of an
And have none, a task of a Chain depends on the one before, a branch of a Selection on having chosen it rightly.

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

`not_` before the name negates the rule. `model_` before it says that a model must first cut the piece out of the
answer; `_each` after it says that there are several pieces and that the rule must hold for each. Case and the width of
characters (， and ,) make no difference.
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

from rubrank.errors import RubrankError
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.items.instruction_items import follow_instruction
from rubrank.verifiers.items.collie import Holds
from rubrank.verifiers.verifier import (
    NEEDS_JUDGE,
    UNIT,
    Answer,
    Compat,
    Verdict,
    find_verifier,
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
    Fails (0): none does; a question whose prerequisite fails counts as failed, whatever it says itself.
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

    own_verdicts: dict[int, Verdict] = {}  # of the questions alone, each decided when it is needed
    results: dict[int, Verdict] = {}  # with their prerequisites

    def decide_alone(i: int) -> Verdict:
        if i not in own_verdicts:
            own_verdicts[i] = decide_question(rollout, scoring_questions[i], compat)
        return own_verdicts[i]

    for i in order:  # prerequisites first
        failed: list[int] = []
        undecided: list[Verdict] = []
        for dep in prerequisites_of[i]:
            # The public checker asks only whether the prerequisite itself holds, not what it depends on.
            prerequisite = results[dep] if compat == "fixed" else decide_alone(dep)
            if prerequisite.value == 0:
                failed.append(dep)
            elif prerequisite.value is None:
                undecided.append(prerequisite)
        if failed:
            results[i] = Verdict(0.0, f"question {failed[0]}, on which it depends, fails")
        elif undecided and decide_alone(i).value != 0:
            results[i] = undecided[0]
        else:
            results[i] = decide_alone(i)  # a question that fails by itself needs no prerequisites
    broken: list[str] = []
    for i in range(len(scoring_questions)):
        verdict = results[i]
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
    pieces = question.extracted
    if question.rule is not None:
        needs_pieces = any(rule.extracted or rule.each for rule in parse_rule(question.rule))
        if pieces is None and needs_pieces:
            return missing(
                f"the rule {question.rule[:60]!r} needs the pieces it is about: give `extracted`"
            )
        result = check_rule(question.rule, [rollout.answer] if pieces is None else pieces, compat)
        return Verdict(float(result.ok), result.reason)
    if question.verifier is None and question.instruction_id is None:
        return missing(f"{NEEDS_JUDGE}: {question.question[:100] or 'a question without text'}")
    if pieces is None:
        subjects = [rollout]
    else:
        subjects = [
            rollout.model_copy(update={"response": piece, "reasoning": ""}) for piece in pieces
        ]
    if not subjects:
        return Verdict(0.0, "nothing to check")
    # The question holds if all pieces pass; otherwise the first that does not decides.
    verdicts = [_verify(subject, question, compat) for subject in subjects]
    return next((verdict for verdict in verdicts if verdict.value != 1), verdicts[0])


def _verify(rollout: Rollout, question: BenchQuestion, compat: Compat) -> Verdict:
    """Return the verdict of the question's verifier or instruction: 1 only for the best value."""
    if question.verifier is None:
        return follow_instruction(
            rollout, str(question.instruction_id), question.kwargs, compat, "strict"
        )
    try:
        criterion = find_verifier(question.verifier)
        verdict = criterion.verify(
            rollout, criterion.check_parameters(question.params), compat=compat
        )
    except RubrankError as error:
        return missing(str(error))
    if verdict.value is None:
        return verdict
    return Verdict(float(verdict.value == criterion.domain.high), verdict.reason)


# ---- rules ----------------------------------------------------------------------------------------------------------

# "model_not_length_word_each:[1,100]": prefixes in either order, the name, "_each", and the argument.
_RULE_LINE = re.compile(
    r"""(?P<prefixes> (?:model_|not[ ]|not_)? (?:model_)? (?:not_)? )
    (?P<name>[A-Za-z_]+?) (?P<each>_each)? : \s*(?P<argument>.*)\Z""",
    re.DOTALL | re.VERBOSE,
)
# The line break before the next rule; an argument may have line breaks of its own.
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

    def read_range(self) -> tuple[int, int]:
        """Return the first two arguments as numbers, the least and the most. Raises ValueError if they are none."""
        try:
            low, high = map(int, self.arguments[:2])
        except ValueError:
            raise ValueError(
                f"rule {self.name} needs [least, most]; got {list(self.arguments)}"
            ) from None
        return low, high


@lru_cache(maxsize=1024)
def parse_rule(source: str) -> tuple[PieceRule, ...]:
    """Return the lines of a rule; ValueError if one cannot be read."""
    return tuple(_parse_line(line) for line in _NEXT_LINE.split(source.strip()))


def _parse_line(line: str) -> PieceRule:
    match = _RULE_LINE.match(line)
    if not match or match["name"] not in _LIST_RULES | _TEXT_RULES:
        rule_names = ", ".join(sorted(_LIST_RULES | _TEXT_RULES))
        raise ValueError(
            f"{line[:80]!r} is no rule; write NAME:ARGUMENT with one of {rule_names}, "
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
        rule.read_range()  # raises ValueError if the numbers are wrong
    return rule


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
    # These two rules are about all the pieces together.
    if rule.name == "number":
        low, high = rule.read_range()
        result = Holds(
            low <= len(pieces) <= high, f"{len(pieces)} pieces, {low} to {high} required"
        )
        return _negate(result) if rule.negated else result
    if not pieces:
        return Holds(_holds_without_piece(rule), f"nothing to check {rule.name} on")
    if rule.name == "starts_with_list":
        result = _check_starts(pieces, rule.arguments)
        return _negate(result) if rule.negated else result
    for number, piece in enumerate(pieces if rule.each else pieces[:1], start=1):
        result = _check_piece(rule, piece, compat)
        if not result.ok:
            return Holds(False, f"piece {number}: {result.reason}" if rule.each else result.reason)
    return Holds(True, f"{rule.name} holds")


def _check_starts(pieces: Sequence[str], starts: Sequence[str]) -> Holds:
    """Check that there are as many pieces as starts, and that each piece begins with its start."""
    if len(pieces) != len(starts):
        return Holds(False, f"{len(pieces)} pieces, {len(starts)} required")
    for number, (piece, start) in enumerate(zip(pieces, starts, strict=True), start=1):
        if not _fold(piece).startswith(_fold(start)):
            return Holds(False, f"piece {number} does not begin with {start!r}")
    return Holds(True, "the pieces begin as required")


def _negate(result: Holds) -> Holds:
    """Return the result of a rule with `not_` before its name."""
    return Holds(not result.ok, f"not: {result.reason}")


def _holds_without_piece(rule: PieceRule) -> bool:
    """Does the rule hold where there is nothing? It does if it forbids something."""
    return rule.negated or rule.name == "forbidden_word"


def _check_piece(rule: PieceRule, piece: str, compat: Compat) -> Holds:
    """Check one piece, with and without the quotation marks around it; it is enough if it passes one way."""
    # The public checker takes "None" for "nothing was extracted".
    if compat == "upstream" and "None" in piece and not rule.extracted:
        return Holds(_holds_without_piece(rule), "the piece holds “None”")
    result = _apply_rule(rule, piece, compat)
    stripped = piece.strip()
    is_quoted = _CLOSING_QUOTES.get(stripped[:1]) == stripped[-1:]
    if not result.ok and is_quoted:
        result = _apply_rule(rule, stripped[1:-1], compat)
    return _negate(result) if rule.negated else result


def _apply_rule(rule: PieceRule, piece: str, compat: Compat) -> Holds:
    """Apply the rule to the piece, without `not_`."""
    folded = _fold(piece)
    if rule.name == "keyword":
        absent = [word for word in rule.arguments if _fold(word) not in folded]
        if absent:
            return Holds(False, f"{absent[0]!r} does not occur")
        return Holds(True, "all keywords occur")
    if rule.name == "forbidden_word":
        present = [word for word in rule.arguments if _fold(word) in folded]
        if present:
            return Holds(False, f"{present[0]!r} occurs")
        return Holds(True, "no forbidden word occurs")
    if rule.name == "keyword_num":
        low, high = rule.read_range()
        count = sum(_fold(word) in folded for word in rule.arguments[2:])
        return Holds(low <= count <= high, f"{count} keywords occur, {low} to {high} required")
    if rule.name == "startswith":
        start = _fold(rule.arguments[0])
        return Holds(folded.startswith(start), f"begins with {piece.strip()[:30]!r}")
    if rule.name == "endswith":
        end = _fold(rule.arguments[0])
        is_right = folded.endswith((end, f"{end}。", f"{end}.", f"{end}?"))
        return Holds(is_right, f"ends with {piece.strip()[-30:]!r}")
    if rule.name == "match":
        whole = _fold(rule.arguments[0])
        return Holds(folded in (whole, f"{whole}。", f"{whole}."), f"it is {piece.strip()[:60]!r}")
    if rule.name == "length":
        low, high = rule.read_range()
        count = len(piece) if compat == "upstream" else len(Text(piece).characters)
        return Holds(low <= count <= high, f"{count} characters, {low} to {high} required")
    if rule.name == "length_word":
        low, high = rule.read_range()
        count = len(piece.split()) if compat == "upstream" else len(Text(piece).words)
        return Holds(low <= count <= high, f"{count} words, {low} to {high} required")
    if rule.name == "Json":
        return _check_json(piece, rule.arguments)
    # The rule is constraint_punc.
    allowed = set("".join(_fold(argument) for argument in rule.arguments))
    other_marks: set[str] = set()
    for char in folded:
        is_mark = char in _PUNCTUATION or unicodedata.category(char).startswith("P")
        if is_mark and char not in allowed:
            other_marks.add(char)
    if other_marks:
        return Holds(False, f"other punctuation: {' '.join(sorted(other_marks)[:10])}")
    return Holds(True, "no other punctuation")


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
