"""Whole items of public instruction benchmarks as one criterion each: IFBench, LiveBench, Multi-IF.

    IFBench(instruction_id_list=["count:numbers", "format:no_whitespace"], kwargs=[{"N": 2.0}, {}])
    MultiIF(turns=[{"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]},
                   {"instruction_id_list": ["punctuation:no_comma", "detectable_format:title"], "kwargs": [{}, {}]}])

Ids and parameters are taken as the public files write them: one mapping per id, of which nulls are dropped. A key that
has a value and that the instruction does not know is refused. If one instruction of an item cannot be decided, the item
is missing.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import BaseModel, field_validator, model_validator

from rubrank._plain import Strict
from rubrank.errors import InvalidInput, RubrankError
from rubrank.rollouts.rollout import Message, Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.ifeval.ids import public_params
from rubrank.verifiers.shared.public_tools import public_language
from rubrank.verifiers.shared.relation import Relation, compare_count
from rubrank.verifiers.verifier import (
    UNIT,
    Answer,
    Compat,
    Mode,
    Verdict,
    find_verifier,
    loose_variants,
    missing,
    verifier,
)

Score = Literal["share", "all"]


# ---- IFBench --------------------------------------------------------------------------------------------------------


@verifier("IFBench", family="benchmark", domain=UNIT, version=2)
def ifbench_item(
    text: Text,
    *,
    instruction_id_list: list[str],
    kwargs: list[dict[str, Any] | None] | None = None,
    score: Score = "share",
    mode: Mode = "strict",
    compat: Compat = "fixed",
) -> Answer:
    """The share of an IFBench item's constraints that hold; with `score="all"` 1 if all hold, else 0.

    Passes: every constraint holds (1).
    Fails: none (0); between them, half of two is 0.5. `mode="loose"` grants each constraint its own best variant of the
        answer, as the benchmark does. Missing if any constraint is: an unknown id, wrong parameters, or one that cannot
        be decided.
    Not covered: the benchmark's score over all items.
    """
    names = instruction_id_list
    parameters = kwargs or [{}] * len(names)
    if not names or len(parameters) != len(names):
        return missing(f"{len(names)} ids and {len(parameters)} kwargs: one for each id is needed")
    rollout = Rollout(response=text.raw, reasoning="")
    broken: list[str] = []
    for name, params in zip(names, parameters, strict=True):
        try:
            constraint = find_verifier(name)
            checked = constraint.check_parameters(drop_nulls(params))
        except InvalidInput as error:
            return missing(str(error))
        verdict = constraint.verify(rollout, checked, compat=compat, mode=mode)
        if verdict.value is None:
            return missing(verdict.reason)
        if verdict.value != 1:
            broken.append(f"{name}: {verdict.reason}")
    share = 1 - len(broken) / len(names)
    reason = "; ".join([f"{len(names) - len(broken)} of {len(names)} constraints hold", *broken])
    return (share if score == "share" else float(not broken)), reason


def drop_nulls(kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return what a public file gives for an id, without nulls."""
    return {key: value for key, value in (kwargs or {}).items() if value is not None}


# ---- LiveBench ------------------------------------------------------------------------------------------------------

_SOLUTION = re.compile(r"<solution>(.*?)</solution>", re.DOTALL | re.IGNORECASE)


@verifier("LiveBench", family="benchmark", domain=UNIT, version=3, how="both")
def live_bench(
    rollout: Rollout,
    *,
    instruction_id_list: list[str],
    kwargs: list[dict[str, Any] | None] | None = None,
    mode: Mode = "strict",
    compat: Compat = "fixed",
) -> Answer:
    """The mean of two scores: 1 if every instruction is followed, else 0; and the share of instructions followed.

    Passes (1): all are followed.
    Fails (0): none is.
    Between: one of two gives (0 + 0.5) / 2 = 0.25. The instructions are ids of IFEval, IFBench and their relatives with
        the arguments of the public files, one mapping for each id. An answer that holds <solution>…</solution> is what
        stands in the last one, as LiveBench takes it.
    Missing: an id that is not known, wrong arguments, an instruction that cannot be decided, no instruction at all.
    Not covered: LiveBench's other categories, whose answers have a ground truth (`GroundTruthMatch`).
    upstream: each instruction in its public reading.
    """
    names = instruction_id_list
    parameters = kwargs if kwargs is not None else [None] * len(names)
    if not names or len(parameters) != len(names):
        return missing(
            f"{len(names)} instructions and {len(parameters)} kwargs: one for each is needed"
        )
    solutions = _SOLUTION.findall(rollout.answer)
    if solutions and solutions[-1].strip():
        rollout = rollout.with_answer(solutions[-1].strip())
    broken: list[str] = []
    for name, params in zip(names, parameters, strict=True):
        verdict = follow_instruction(rollout, name, params, compat, mode)
        if verdict.value is None:
            return missing(verdict.reason)
        if not verdict.value:
            broken.append(f"{name} ({verdict.reason})")
    share = 1 - len(broken) / len(names)
    reason = f"{len(names) - len(broken)} of {len(names)} instructions followed"
    if broken:
        reason += f"; not {'; '.join(broken[:3])}"
    return (float(not broken) + share) / 2, reason


def follow_instruction(
    rollout: Rollout, name: str, kwargs: dict[str, Any] | None, compat: Compat, mode: Mode
) -> Verdict:
    """Return the verdict on one public instruction: 1 only if it is followed entirely; missing if it is unknown."""
    try:
        instruction, params = public_params(name, kwargs)
        verdict = instruction.verify(
            rollout, instruction.check_parameters(params), compat=compat, mode=mode
        )
    except RubrankError as error:
        return missing(str(error))
    if verdict.value is None:
        return verdict
    return Verdict(float(verdict.value == instruction.domain.high), verdict.reason)


# ---- Multi-IF -------------------------------------------------------------------------------------------------------


class Turn(Strict):
    """The instructions of one turn, in the shape of the public files (arguments may be JSON texts there)."""

    instruction_id_list: list[str]
    kwargs: list[dict[str, Any] | None]

    @field_validator("instruction_id_list", "kwargs", mode="before")
    @classmethod
    def _parse_json(cls, value: Any) -> Any:
        if isinstance(value, str) and value.startswith("["):
            value = json.loads(value)
        return [
            json.loads(part) if isinstance(part, str) and part.startswith("{") else part
            for part in value or ()
        ]

    @model_validator(mode="after")
    def _check_lengths(self) -> Turn:
        if len(self.kwargs) != len(self.instruction_id_list):
            raise ValueError(
                f"{len(self.instruction_id_list)} instructions but {len(self.kwargs)} kwargs"
            )
        return self


@verifier("MultiIF", family="benchmark", domain=UNIT, version=3)
def multi_if(
    rollout: Rollout, *, turns: list[Turn], mode: Mode = "strict", compat: Compat = "fixed"
) -> Answer:
    """The share of the instructions of all turns that the answers follow; any language.

    The last turns belong to the last answers: with one entry only the final answer is checked.
    Passes (1): every instruction of every turn is followed.
    Fails (0): none is.
    Missing: fewer answers than turns, an unknown instruction or argument, an instruction that cannot be decided.
    Not covered: whether a later turn was meant to cancel an earlier instruction.
    upstream: each instruction in its public reading; words and sentences of Chinese, Japanese and Hindi as Multi-IF
        counts them, Thai ones undecided.
    """
    answers = (*rollout.turns, rollout.answer)[-len(turns) :] if turns else ()
    if not turns or len(answers) < len(turns):
        return missing(f"{len(turns)} turns with instructions, {len(answers)} answers")
    prompts = [message.content for message in rollout.prompt if message.role == "user"]
    prompts = ([""] * len(turns) + prompts)[-len(turns) :]
    results: list[tuple[str, Verdict]] = []
    try:
        for turn, answer, prompt in zip(turns, answers, prompts, strict=True):
            results += check_turn(turn, answer, compat, mode, prompt)
    except RubrankError as error:
        return missing(str(error))
    if not results:
        return missing("no instructions")
    for name, verdict in results:
        if verdict.value is None:
            return missing(f"{name}: {verdict.reason}")
    broken = [name for name, verdict in results if not verdict.value]
    reason = f"{len(results) - len(broken)} of {len(results)} instructions followed"
    if broken:
        reason += f"; not {', '.join(broken[:5])}"
    return 1 - len(broken) / len(results), reason


def check_turn(
    turn: Turn, answer: str, compat: Compat, mode: Mode, prompt: str = ""
) -> Sequence[tuple[str, Verdict]]:
    """Return each instruction of the turn with its verdict: 1 only if it is followed entirely."""
    rollout = Rollout(prompt=(Message(role="user", content=prompt),), response=answer, reasoning="")
    results: list[tuple[str, Verdict]] = []
    for name, kwargs in zip(turn.instruction_id_list, turn.kwargs, strict=True):
        instruction, params = public_params(name, kwargs)
        checked = instruction.check_parameters(params)
        verdict = None
        if compat == "upstream":
            verdict = _check_count_upstream(instruction.name, checked, answer, mode)
        if verdict is None:
            verdict = instruction.verify(rollout, checked, compat=compat, mode=mode)
        value = None if verdict.value is None else float(verdict.value == instruction.domain.high)
        results.append((name, Verdict(value, verdict.reason)))
    return results


# Multi-IF has its own counters for words and sentences, by the language it detects in the answer:
# - In Chinese and Japanese every East Asian character is a word, and so is an emoji and every run of other letters;
#   punctuation is dropped first. A sentence is what stands between 。.!?！？． and line breaks.
# - In Hindi a sentence is what stands between ।!? marks.
# - Thai is cut with a tool that is not included here: undecided.
# Other languages go by IFEval's counters.

WORDS = "length_constraints:number_words"
SENTENCES = "length_constraints:number_sentences"
_EAST_ASIAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\u3040-\u30ff\uac00-\ud7af]")
_DROPPED = re.compile(
    r"[\\.!?．/_,{}<>:;$%^&*(+\"'—！，。？、`~@#￥…（）：；《》“”)\[\]»〔〕\-「」]+"
)
_SENTENCE = re.compile(r"[^!?。.！？．\n]+")
_HINDI_END = re.compile(r"(?<=[।!?])\s*")
_EMOJI = re.compile("[\U0001f300-\U0001faff\u2600-\u27bf\u2b50\u2b55]\ufe0f?")


def _check_count_upstream(name: str, params: BaseModel, answer: str, mode: Mode) -> Verdict | None:
    """Return the verdict by Multi-IF's own counters; None if it has none for the instruction or the language."""
    if name not in (WORDS, SENTENCES):
        return None
    if answer.strip() and public_language(answer) == "th":
        return missing("words and sentences of Thai are counted by a tool that is not included")
    unit = "word" if name == WORDS else "sentence"
    verdict = None
    for variant in loose_variants(answer) if mode == "loose" else [answer]:
        count = public_count(name, variant)
        if count is None or not variant.strip():
            return verdict
        relation: Relation = getattr(params, "relation", "at least")
        is_right, reason = compare_count(count, unit, relation, getattr(params, f"num_{unit}s"))
        verdict = Verdict(float(is_right), reason)
        if is_right:
            break
    return verdict


def public_count(instruction: str, answer: str) -> int | None:
    """Count as Multi-IF does for this instruction; None where it counts as IFEval does.

    >>> public_count("length_constraints:number_words", "こんにちは、Jason。")
    6
    """
    if instruction not in (WORDS, SENTENCES):
        return None
    language = public_language(answer)
    is_east_asian = language in ("zh-cn", "zh-tw", "ja")
    if instruction == WORDS:
        return count_words(answer) if is_east_asian else None
    if is_east_asian:
        return sum(len(_SENTENCE.findall(line.strip())) for line in answer.splitlines())
    if language == "hi":
        return sum(bool(piece.strip()) for piece in _HINDI_END.split(answer))
    return None


def count_words(answer: str) -> int:
    """Count East Asian characters, emojis, and runs of everything else."""
    text = _DROPPED.sub("", answer)
    emojis = len(_EMOJI.findall(text))
    text = _EMOJI.sub("", text)
    characters = len(_EAST_ASIAN.findall(text))
    return characters + emojis + len(_EAST_ASIAN.sub(" ", text).split())
