"""What is noteworthy about a group, as bits that the page filters by.

    State.STOPPED in find_states(record)      a hard gate stopped a rollout
    make_title(record.prompt)                 the beginning of what the user asked

The functions take a `GroupRecord` or anything with the same fields. They use plain Python, which is faster than arrays
for groups of this size: the viewer looks at up to 100,000 of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import IntFlag
from typing import Any

from rubrank.verifiers.verifier import NEEDS_JUDGE, NOT_ASKED


class State(IntFlag):
    """A set of noteworthy facts about a group. `assets/filters.js` has the same numbers."""

    NO_SIGNAL = 1
    """All rewards are equal."""
    STOPPED = 2
    """A hard gate stopped a rollout."""
    SOFTENED = 4
    """A soft gate lowered a reward."""
    MISSING = 8
    """A ranked criterion has no score and no comparison for a rollout."""
    RULES_DISAGREE = 16
    """Another rule chooses another winner."""
    GATE_MISSING = 32
    """A gate criterion has no score for a rollout."""
    LONGEST_WINS = 64
    """The longest response, longer than all others, has the highest reward."""
    JUDGES_FAILED = 128
    """A judge was asked and gave no verdict."""
    CONSTANT = 256
    """A ranked criterion ties all rollouts."""
    # The two highest bits say what kind of line it is.
    EVALUATION = 1 << 14
    """Written by an evaluation, and therefore no part of the training curves."""
    UNREADABLE = 1 << 15
    """The line is not a record."""


_TITLE_LENGTH = 110  # characters
_NOT_ASKED = (NEEDS_JUDGE, NOT_ASKED)
"""How the reason of a missing score begins if no judge was asked for it."""


def find_states(record: Any) -> State:
    """Return everything noteworthy about a group."""
    states = State(0)
    if record.no_signal:
        states |= State.NO_SIGNAL
    # Criteria that rank come first, those of the gate follow.
    ranked_count = len(record.weights)
    for k, criterion in enumerate(record.criteria):
        # A criterion that is only watched decides nothing, so it may be missing.
        if criterion.layer != "watch" and _is_missing_somewhere(record, k):
            states |= State.MISSING if k < ranked_count else State.GATE_MISSING
    if record.gate is not None:
        if not all(record.gate.passed):
            states |= State.STOPPED
        for passed, factor in zip(record.gate.passed, record.gate.factor, strict=True):
            if passed and factor < 1.0:
                states |= State.SOFTENED
    if _rules_disagree(record):
        states |= State.RULES_DISAGREE
    if _longest_wins(record):
        states |= State.LONGEST_WINS
    if _judges_failed(record):
        states |= State.JUDGES_FAILED
    if any(flag.startswith("constant: ") for flag in record.flags):
        states |= State.CONSTANT
    if record.metadata.get("mode") == "eval":
        states |= State.EVALUATION
    return states


def count_stopped(record: Any) -> int:
    """Return how many rollouts a hard gate stopped."""
    if record.gate is None:
        return 0
    return len(record.gate.passed) - sum(record.gate.passed)


def make_title(prompt: Sequence[Mapping[str, Any]] | None) -> str:
    """Return the beginning of the user's last message."""
    if not prompt:
        return ""
    from_user = [message for message in prompt if message.get("role") == "user"]
    last = from_user[-1] if from_user else prompt[-1]
    # A prompt may be very long: split only what can end up in the title, with room for white space.
    words = " ".join(str(last.get("content", ""))[: 4 * _TITLE_LENGTH].split())
    if len(words) <= _TITLE_LENGTH:
        return words
    return words[: _TITLE_LENGTH - 1] + "…"


def find_best(reward: Sequence[float]) -> set[int]:
    """Return the rollouts that share the highest reward."""
    highest = max(reward, default=0.0)
    return {i for i, value in enumerate(reward) if value == highest}


def _is_missing_somewhere(record: Any, k: int) -> bool:
    """Return whether criterion k neither scores nor compares some rollout."""
    outcomes = record.outcomes.get(record.criteria[k].name)
    if outcomes is None:
        return any(row[k] is None or row[k] != row[k] for row in record.scores)
    for i, row in enumerate(outcomes):
        against_others = [*row[:i], *row[i + 1 :]]
        if all(outcome is None for outcome in against_others):
            return True
    return False


def _rules_disagree(record: Any) -> bool:
    """Return whether another rule has none of the best rollouts in common with the record's rule."""
    best = find_best(record.reward)
    for rewards in record.others.values():
        if len(rewards) == len(record.reward) and best and best.isdisjoint(find_best(rewards)):
            return True
    return False


def _longest_wins(record: Any) -> bool:
    """Return whether one response is longer than all others and has the highest reward."""
    if record.no_signal or not record.responses or len(record.responses) < 2:
        return False
    lengths = [len(text) for text in record.responses]
    longest = max(lengths)
    return lengths.count(longest) == 1 and lengths.index(longest) in find_best(record.reward)


def _judges_failed(record: Any) -> bool:
    """Return whether a judge was asked and gave no verdict.

    The metadata say so if a trainer wrote the record; otherwise the reasons of missing scores do.
    """
    judges = record.metadata.get("judges")
    if isinstance(judges, Mapping) and isinstance(judges.get("missing"), int):
        return bool(judges["missing"])
    if not record.reasons:
        return False
    for k, criterion in enumerate(record.criteria):
        is_judged = criterion.verifier in (None, "judge")
        if not is_judged or criterion.name in record.outcomes:
            continue
        for scores, reasons in zip(record.scores, record.reasons, strict=True):
            if scores[k] is None and reasons[k] and not reasons[k].startswith(_NOT_ASKED):
                return True
    return False
