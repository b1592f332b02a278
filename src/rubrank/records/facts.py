"""What a reader should know about a group at a glance, as bits: the report and the viewer filter by them.

    bits_of(record) & STOPPED            did a hard gate stop a rollout?
    title_of(record.prompt)              the beginning of what was asked

Works on a `GroupRecord` and on anything that has the same fields; in plain Python, which is faster than arrays for
groups of this size: the viewer looks at 100,000 of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

NO_SIGNAL = 1
"""All rewards are equal."""
STOPPED = 2
"""A hard gate stopped a rollout."""
SOFTENED = 4
"""A soft gate lowered a reward."""
MISSING = 8
"""A criterion ranked by says nothing about a rollout."""
RULES_DISAGREE = 16
"""Another rule chooses another winner."""
GATE_MISSING = 32
"""A gate could not decide about a rollout."""
LONGEST_WINS = 64
"""The longest response, longer than all others, has the highest reward."""
JUDGES_FAILED = 128
"""A judge was asked and gave no verdict."""

_TITLE = 110
_UNASKED = ("needs a judge", "not asked")


def bits_of(record: Any) -> int:
    """All that hold, added up."""
    absent = _absent(record)
    ranked, gates = absent[: len(record.weights)], absent[len(record.weights) :]
    bits = NO_SIGNAL * bool(record.no_signal) + MISSING * any(ranked) + GATE_MISSING * any(gates)
    if record.gate is not None:
        pairs = zip(record.gate.passed, record.gate.factor, strict=True)
        bits += STOPPED * (not all(record.gate.passed)) + SOFTENED * any(p and f < 1.0 for p, f in pairs)
    bits += RULES_DISAGREE * _rules_disagree(record) + LONGEST_WINS * _longest_wins(record)
    return bits + JUDGES_FAILED * _judges_failed(record)


def stopped(record: Any) -> int:
    """How many rollouts a hard gate stopped."""
    return 0 if record.gate is None else len(record.gate.passed) - sum(record.gate.passed)


def best_of(reward: Sequence[float]) -> set[int]:
    """All that have the highest reward."""
    most = max(reward, default=0.0)
    return {i for i, x in enumerate(reward) if x == most}


def title_of(prompt: Sequence[Mapping[str, Any]] | None) -> str:
    """The beginning of what the user asked last."""
    asked = [m for m in prompt or () if m.get("role") == "user"] or list(prompt or ())
    words = " ".join(str(asked[-1].get("content", ""))[: 4 * _TITLE].split()) if asked else ""
    return words if len(words) <= _TITLE else words[: _TITLE - 1] + "…"


def _absent(record: Any) -> list[bool]:
    """Of every criterion: is there a rollout that it neither scores nor compares?"""
    found = []
    for k, criterion in enumerate(record.criteria):
        won = record.outcomes.get(criterion.name)
        if won is None:
            found.append(any(row[k] is None or row[k] != row[k] for row in record.scores))
        else:
            found.append(any(all(x is None for j, x in enumerate(row) if j != i) for i, row in enumerate(won)))
    return found


def _rules_disagree(record: Any) -> bool:
    best = best_of(record.reward) if record.others else set()
    others = (best_of(rewards) for rewards in record.others.values() if len(rewards) == len(record.reward) > 0)
    return any(not best & other for other in others)


def _longest_wins(record: Any) -> bool:
    if record.no_signal or not record.responses or len(record.responses) < 2:
        return False
    lengths = [len(text) for text in record.responses]
    most = max(lengths)
    return lengths.count(most) == 1 and lengths.index(most) in best_of(record.reward)


def _judges_failed(record: Any) -> bool:
    """By its metadata; else by the reasons of what is missing, unless they say that no judge was asked."""
    judges = record.metadata.get("judges")
    if isinstance(judges, Mapping) and isinstance(judges.get("missing"), int):
        return bool(judges["missing"])
    judged = [k for k, criterion in enumerate(record.criteria) if criterion.verifier in (None, "judge")]
    rows = zip(record.scores, record.reasons, strict=True) if record.reasons else ()
    return any(
        row[k] is None and _was_asked(why[k], record.criteria[k].name, record) for row, why in rows for k in judged
    )


def _was_asked(reason: str, name: str, record: Any) -> bool:
    return bool(reason) and name not in record.outcomes and not reason.startswith(_UNASKED)
