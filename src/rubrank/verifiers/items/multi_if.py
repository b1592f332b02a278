"""MultiIF: the instructions of every turn of a conversation, checked on the answer of that turn.

{"verifier": "MultiIF", "params": {"turns": [
    {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]},
    {"instruction_id_list": ["punctuation:no_comma", "detectable_format:title"], "kwargs": [{}, {}]}]}}
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, field_validator, model_validator

from rubrank.errors import RubrankError
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.ifeval.ids import public_params
from rubrank.verifiers.verifier import UNIT, Answer, Compat, Mode, missing, verifier


class Turn(BaseModel):
    """The instructions of one turn, in the shape of the public files (arguments may be JSON texts there)."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    instruction_id_list: list[str]
    kwargs: list[dict[str, Any] | None]

    @field_validator("instruction_id_list", "kwargs", mode="before")
    @classmethod
    def _from_json(cls, value: Any) -> Any:
        value = json.loads(value) if isinstance(value, str) and value.startswith("[") else value
        return [json.loads(v) if isinstance(v, str) and v.startswith("{") else v for v in value or ()]

    @model_validator(mode="after")
    def _as_many(self) -> Turn:
        if len(self.kwargs) != len(self.instruction_id_list):
            raise ValueError(f"{len(self.instruction_id_list)} instructions but {len(self.kwargs)} kwargs")
        return self


@verifier("MultiIF", family="benchmark", domain=UNIT, version=2)
def multi_if(rollout: Rollout, *, turns: list[Turn], mode: Mode = "strict", compat: Compat = "fixed") -> Answer:
    """The share of the instructions of all turns that the answers follow; any language.

    The last turns belong to the last answers: with one entry only the final answer is checked. Passes (1): every
    instruction of every turn is followed. Fails (0): none is. Missing: fewer answers than turns, an unknown
    instruction. Not covered: whether a later turn was meant to lift an earlier instruction.
    upstream: each instruction in its public reading.
    """
    answers = (*rollout.turns, rollout.answer)[-len(turns) :] if turns else ()
    if not turns or len(answers) < len(turns):
        return missing(f"{len(turns)} turns with instructions, {len(answers)} answers")
    try:
        results = [
            r for turn, answer in zip(turns, answers, strict=True) for r in check_turn(turn, answer, compat, mode)
        ]
    except RubrankError as error:
        return missing(str(error))
    if not results:
        return missing("no instructions")
    broken = [name for name, followed in results if not followed]
    share = 1 - len(broken) / len(results)
    return share, f"{len(results) - len(broken)} of {len(results)} instructions followed" + (
        f"; not {', '.join(broken[:5])}" if broken else ""
    )


def check_turn(turn: Turn, answer: str, compat: Compat, mode: Mode) -> Sequence[tuple[str, bool]]:
    """Each instruction of the turn, and whether the answer follows it."""
    rollout = Rollout(response=answer, reasoning="")
    results = []
    for name, kwargs in zip(turn.instruction_id_list, turn.kwargs, strict=True):
        found, params = public_params(name, kwargs)
        verdict = found.verify(rollout, found.check_parameters(params), compat=compat, mode=mode)
        results.append((name, verdict.value == found.domain.high))
    return results
