"""Answers of a decision model → verdicts with probabilities.

    {"Tone": {"type": "noul", "noul": 0.83}}                                        1.0, with ((0, 0.17), (1, 0.83))
    {"Depth": {"type": "score", "score": 1.6, "probabilities": {"0": 0.1, …}}}      the likeliest level
    {"Facts": {"type": "choice", "choice": "0.5", "probabilities": {…}}}            the same, or "cannot be judged"

The score is the likeliest level (of equally likely ones the least favourable), or the mean if the criterion is a range
or the judge is asked for expected values. An answer that is missing, of another type, or whose probabilities are not
those of the levels is missing with a reason.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.judges.judge import Reply
from rubrank.judges.prompting.decisions import CANNOT_JUDGE, DecisionQuestion, DecisionRequest
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.distribution import Distribution, make_distribution, mean_of, most_probable
from rubrank.verifiers.verifier import Verdict, missing


def read_decisions(reply: Reply, request: DecisionRequest, *, expected: bool = False) -> dict[str, Verdict]:
    """A verdict, or missing, for every criterion of a request by its name."""
    answers: Any = None
    problem = reply.failure or ""
    if not problem:
        try:
            answers = json.loads(reply.text or "")
        except ValueError:
            problem = f"malformed reply: {(reply.text or '')[:100]}"
        if not problem and not isinstance(answers, Mapping):
            problem = "malformed reply: no answers"
    verdicts = {}
    for criterion, question in zip(request.criteria, request.questions, strict=True):
        if problem:
            verdicts[criterion.name] = missing(problem)
        else:
            verdicts[criterion.name] = _read_answer(answers.get(question.key), question, criterion, expected)
    return verdicts


def _read_answer(answer: Any, question: DecisionQuestion, criterion: Criterion, expected: bool) -> Verdict:
    if not isinstance(answer, Mapping):
        return missing("no answer about it in the reply")
    if answer.get("type") != question.type:
        return missing(f"an answer of type {str(answer.get('type'))[:40]!r} to a question of type {question.type!r}")
    try:
        probabilities = _read_probabilities(answer, question)
    except (InvalidInput, TypeError, ValueError) as error:
        return missing(f"unusable answer: {error}")
    undecided = probabilities.pop(CANNOT_JUDGE, 0.0)
    if undecided > max(probabilities.values()):
        return missing(f"the judge cannot tell: {undecided:.0%} for {CANNOT_JUDGE!r}")
    total = math.fsum(probabilities.values())
    if not total > 0.0:
        return missing("unusable answer: no probability on any level")
    levels = zip(question.values, question.options, strict=True)
    distribution: Distribution = tuple((value, probabilities[option] / total) for value, option in levels)
    is_range = not criterion.value_domain.values
    value = most_probable(distribution, criterion.direction == "higher")
    if expected or is_range:
        value = mean_of(distribution)
    likeliest = sorted(distribution, key=lambda pair: -pair[1])[:5]
    return Verdict(value, ", ".join(f"{level:g}: {p:.2f}" for level, p in likeliest), distribution)


def _read_probabilities(answer: Mapping[str, Any], question: DecisionQuestion) -> dict[str, float]:
    """Option → probability, for all options of the question; raises if the answer does not have them."""
    if question.type == "noul":
        yes = answer.get("noul")
        if isinstance(yes, bool) or not isinstance(yes, int | float) or not 0.0 <= yes <= 1.0:
            raise ValueError(f"the probability of yes is {yes!r}")
        return {"false": 1.0 - float(yes), "true": float(yes)}
    given = answer.get("probabilities")
    options = question.options
    if question.type == "choice" and CANNOT_JUDGE in question.body["criteria"]:
        options = (*options, CANNOT_JUDGE)
    if not isinstance(given, Mapping) or set(map(str, given)) != set(options):
        raise ValueError("its probabilities are not those of the levels that were asked for")
    by_name = {str(name): probability for name, probability in given.items()}
    if any(isinstance(probability, bool) for probability in by_name.values()):
        raise ValueError("its probabilities are not numbers")
    checked = make_distribution({number: by_name[option] for number, option in enumerate(options)})
    return {option: probability for option, (_, probability) in zip(options, checked, strict=True)}
