"""A cheap judge decides where it is sure; a better one is asked about the rest.

    - name: quick
      kind: decision
      endpoints: […]
      escalate: 0.15                       at most 15% of its answers go to the fallback, the least sure first
      fallback: {kind: absolute, endpoints: […]}

    escalate: {threshold: 0.4, thresholds: {Tone: 0.2}}      or those below a margin; `rubrank judge calibrate` finds it

How sure an answer is, is the margin of its distribution: by how much the likeliest value is more probable than the
next. A missing answer is escalated first. Which cells are escalated depends on the question alone (the group, or the
single response that a trainer has so far), not on other groups, so a run that is repeated escalates the same ones. A
share that is not a whole number of cells is rounded by a seeded draw: one of four cells at 25%, on average, and never
more than one beyond the share.

If the fallback does not answer, the answer of the cheap judge stands; the failure counts as missing.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from rubrank.judges.design import find_duplicates, seeded_random
from rubrank.judges.judge import Escalation, Judge, Judgment, Question
from rubrank.verifiers.distribution import sureness
from rubrank.verifiers.verifier import LONGEST_REASON, Verdict

_MISSING = -1.0  # less sure than any answer


def most_escalated(question: Question, judge: Judge) -> int:
    """How many different cells may be escalated at most."""
    assert judge.escalate is not None
    return math.ceil(judge.escalate.most * len(_distinct_cells(question)) - 1e-9)


def choose_escalated(question: Question, judge: Judge, first: Judgment) -> np.ndarray:
    """(G, K): the cells that the fallback is asked about; equal responses are escalated together."""
    assert judge.escalate is not None
    cells = _distinct_cells(question)
    margins = {}
    for i, k in cells:
        verdict = first.verdicts.get((i, question.criteria[k].name))
        if verdict is not None:
            margins[i, k] = _margin_of(verdict)
    unsure = []
    for cell, margin in margins.items():
        threshold = _threshold_of(judge.escalate, question, cell[1])
        # Everything is to be escalated, what is certain too: `escalate: 1.0` asks both judges about each cell.
        is_all = threshold == judge.escalate.most == 1.0
        if margin < threshold or is_all:
            unsure.append(cell)
    unsure.sort(key=lambda cell: (margins[cell], cell))
    answers = [question.group.rollouts[i].answer for i in sorted({i for i, _ in cells})]
    draw = seeded_random(judge.seed, question.group.id, answers).random()
    chosen = set(unsure[: math.floor(judge.escalate.most * len(cells) + draw * (1.0 - 1e-9))])
    first_of = find_duplicates(question.group.rollouts)
    escalated = np.zeros_like(question.wanted)
    for i, k in zip(*question.wanted.nonzero(), strict=True):
        escalated[i, k] = (first_of[i], int(k)) in chosen
    return escalated


def merge_judgments(question: Question, first: Judgment, second: Judgment) -> Judgment:
    """The first judge's verdicts, with those of the fallback where it was asked and answered."""
    merged = Judgment(dict(first.verdicts), asked=first.asked + second.asked, disagreement=dict(first.disagreement))
    for name, reasons in first.missing.items():  # of the members of a panel
        merged.missing[name] = list(reasons)
    for cell, verdict in second.verdicts.items():
        before = first.verdicts[cell]
        if verdict.value is not None:
            reason = f"escalated ({_describe(before)}): {verdict.reason}"
            merged.verdicts[cell] = replace(verdict, reason=reason[:LONGEST_REASON])
        else:
            merged.missing.setdefault(cell[1], []).append(verdict.reason)
    for name, reasons in second.missing.items():
        merged.missing.setdefault(name, []).extend(reasons)
    without_answer = sum(verdict.value is None for verdict in merged.verdicts.values())
    merged.lost = without_answer + sum(len(reasons) for reasons in merged.missing.values())
    return merged


def _distinct_cells(question: Question) -> list[tuple[int, int]]:
    """The wanted cells (rollout, column), without those of duplicate responses."""
    first_of = find_duplicates(question.group.rollouts)
    return sorted({(first_of[int(i)], int(k)) for i, k in zip(*question.wanted.nonzero(), strict=True)})


def _margin_of(verdict: Verdict) -> float:
    if verdict.value is None:
        return _MISSING
    return sureness(verdict.probabilities) if verdict.probabilities else 1.0


def _threshold_of(escalate: Escalation, question: Question, column: int) -> float:
    return escalate.thresholds.get(question.criteria[column].name, escalate.threshold)


def _describe(verdict: Verdict) -> str:
    if verdict.value is None:
        return "no answer"
    return f"{verdict.value:g} by a margin of {_margin_of(verdict):.2f}"
