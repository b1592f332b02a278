"""MultiIF: the instructions of every turn of a conversation, checked on the answer of that turn.

{"verifier": "MultiIF", "params": {"turns": [
    {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]},
    {"instruction_id_list": ["punctuation:no_comma", "detectable_format:title"], "kwargs": [{}, {}]}]}}
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, field_validator, model_validator

from rubrank._plain import Strict
from rubrank.errors import RubrankError
from rubrank.rollouts.rollout import Message, Rollout
from rubrank.verifiers.ifeval.ids import public_params
from rubrank.verifiers.items.multi_if_counts import WORDS, is_undecided, public_count
from rubrank.verifiers.shared.relation import compare_count
from rubrank.verifiers.verifier import UNIT, Answer, Compat, Mode, Verdict, loose_variants, missing, verifier


class Turn(Strict):
    """The instructions of one turn, in the shape of the public files (arguments may be JSON texts there)."""

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


@verifier("MultiIF", family="benchmark", domain=UNIT, version=3)
def multi_if(rollout: Rollout, *, turns: list[Turn], mode: Mode = "strict", compat: Compat = "fixed") -> Answer:
    """The share of the instructions of all turns that the answers follow; any language.

    The last turns belong to the last answers: with one entry only the final answer is checked. Passes (1): every
    instruction of every turn is followed. Fails (0): none is. Missing: fewer answers than turns, an unknown
    instruction or argument, an instruction that cannot be decided. Not covered: whether a later turn was meant to lift
    an earlier instruction.
    upstream: each instruction in its public reading; words and sentences of Chinese, Japanese and Hindi as Multi-IF
    counts them, Thai ones undecided.
    """
    answers = (*rollout.turns, rollout.answer)[-len(turns) :] if turns else ()
    if not turns or len(answers) < len(turns):
        return missing(f"{len(turns)} turns with instructions, {len(answers)} answers")
    asked = [message.content for message in rollout.prompt if message.role == "user"]
    prompts = ([""] * len(turns) + asked)[-len(turns) :]
    try:
        results = [
            result
            for turn, answer, prompt in zip(turns, answers, prompts, strict=True)
            for result in check_turn(turn, answer, compat, mode, prompt)
        ]
    except RubrankError as error:
        return missing(str(error))
    if not results:
        return missing("no instructions")
    undecided = next((f"{name}: {v.reason}" for name, v in results if v.value is None), None)
    if undecided is not None:
        return missing(undecided)
    broken = [name for name, verdict in results if not verdict.value]
    share = 1 - len(broken) / len(results)
    return share, f"{len(results) - len(broken)} of {len(results)} instructions followed" + (
        f"; not {', '.join(broken[:5])}" if broken else ""
    )


def check_turn(turn: Turn, answer: str, compat: Compat, mode: Mode, prompt: str = "") -> Sequence[tuple[str, Verdict]]:
    """Each instruction of the turn, and the verdict on it: 1 only if it is followed entirely."""
    rollout = Rollout(prompt=(Message(role="user", content=prompt),), response=answer, reasoning="")
    results = []
    for name, kwargs in zip(turn.instruction_id_list, turn.kwargs, strict=True):
        found, params = public_params(name, kwargs)
        checked = found.check_parameters(params)
        verdict = _counted_publicly(found.name, checked, answer, mode) if compat == "upstream" else None
        verdict = verdict or found.verify(rollout, checked, compat=compat, mode=mode)
        value = None if verdict.value is None else float(verdict.value == found.domain.high)
        results.append((name, Verdict(value, verdict.reason)))
    return results


def _counted_publicly(name: str, params: BaseModel, answer: str, mode: Mode) -> Verdict | None:
    """The verdict by Multi-IF's own counters, where it has some for the language of the answer."""
    if is_undecided(name, answer):
        return missing("words and sentences of Thai are counted by a tool that is not included")
    last = None
    for variant in loose_variants(answer) if mode == "loose" else [answer]:
        count = public_count(name, variant)
        if count is None or not variant.strip():
            return last
        unit = "word" if name == WORDS else "sentence"
        right, reason = compare_count(
            count, unit, getattr(params, "relation", "at least"), getattr(params, f"num_{unit}s")
        )
        last = Verdict(float(right), reason)
        if right:
            break
    return last
