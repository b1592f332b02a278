"""The judges of a trainer: with a deadline for every step, and their limits divided among processes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rubrank.judges.judge import Judges

STEP = 540.0
"""Seconds for all answers of judges of a step, where a file of judges says nothing: collectives give up after 600."""
_AFTERWARDS = 240.0  # seconds of a step when an outage is over


def step_judges(judges: Any) -> Judges:
    """The judges of a trainer, with a deadline for every step."""
    from rubrank.judges.judge import load_judges

    found = load_judges(judges)
    if "deadline" in found.model_fields_set:
        return found
    # An outage that is to be waited for must not end at the deadline; what is left to ask then takes its time too.
    waits = found.on_outage == "wait" and "outage_wait" in found.model_fields_set
    deadline = max(STEP, found.outage_wait + _AFTERWARDS) if waits else STEP
    return found.model_copy(update={"deadline": deadline})


def dividing(judges: Judges, processes: int) -> Judges:
    """The judges of one process among several that ask at the same time."""
    if processes == 1:
        return judges
    return judges.model_copy(update={"processes": judges.processes * processes})
