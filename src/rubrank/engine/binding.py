"""A verifier with its parameters, made ready to be asked many times.

`bound(verifier, params, compat, mode)(rollout)` says what `verifier.verify(rollout, params, …)` says, without doing
again for every rollout what does not depend on it. A test holds the two together on every example of the library.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

from pydantic import BaseModel

from rubrank.rollout import Rollout
from rubrank.text import Text
from rubrank.verification import LONGEST_REASON, Compat, Mode, Verdict, Verifier

Found: TypeAlias = tuple[float | None, str]
"""A value, or None if it is missing, and the reason: a verdict that is made, and pickles, fast."""


def bound(verifier: Verifier, params: BaseModel, compat: Compat, mode: Mode) -> Callable[[Rollout], Found]:
    """The verifier for these parameters."""
    if mode == "loose" and verifier.knows_loose:

        def loosely(rollout: Rollout) -> Found:
            verdict = verifier.verify(rollout, params, compat=compat, mode=mode)
            return verdict.value, verdict.reason

        return loosely
    arguments: dict[str, Any] = {name: getattr(params, name) for name in type(params).model_fields}
    arguments |= {"compat": compat} if verifier.knows_compat else {}
    return _strictly(verifier, arguments)


def _strictly(verifier: Verifier, arguments: dict[str, Any]) -> Callable[[Rollout], Found]:
    function, name, wants_text = verifier.function, verifier.name, verifier.wants is Text
    holds = frozenset(verifier.domain.values).__contains__ if verifier.domain.values else verifier.domain.holds

    def decide(rollout: Rollout) -> Found:
        try:
            answer = function(rollout.text if wants_text else rollout, **arguments)
            if isinstance(answer, Verdict):
                value, reason = answer.value, answer.reason
            else:
                value, reason = float(answer[0]), answer[1]
        except Exception as error:
            return None, f"{name} failed: {type(error).__name__}: {error}"
        if len(reason) > LONGEST_REASON:
            reason = reason[:LONGEST_REASON] + " …"
        if value is None:
            return None, reason
        return (value, reason) if holds(value) else (None, f"{name} gave {value!r}, which is not in its domain")

    return decide
