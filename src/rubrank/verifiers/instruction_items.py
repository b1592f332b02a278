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
from collections.abc import Mapping
from typing import Any, Literal, get_args

from pydantic import field_validator, model_validator

from rubrank._plain import Strict
from rubrank.errors import RubrankError
from rubrank.rollouts.rollout import Message, Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.shared.instruction import Lang, compare_count
from rubrank.verifiers.shared.public_tools import detect_public_language
from rubrank.verifiers.verifier import (
    UNIT,
    VERIFIERS,
    Answer,
    Compat,
    Mode,
    Verdict,
    Verifier,
    find_verifier,
    is_verifier,
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
    Fails: no constraint holds (0). In between, one of two gives 0.5. `mode="loose"` takes the best variant of the
        answer for each constraint, as the benchmark does. Missing if an id is unknown, parameters are wrong, or a
        constraint cannot be decided.
    Not covered: the benchmark's score over all items.
    """
    rollout = Rollout(response=text.raw, reasoning="")
    outcome = _check_all(rollout, instruction_id_list, kwargs, compat, mode)
    if isinstance(outcome, Verdict):
        return outcome
    share, reason = outcome
    return float(share == 1.0) if score == "all" else share, reason


def _check_all(
    rollout: Rollout,
    names: list[str],
    kwargs: list[dict[str, Any] | None] | None,
    compat: Compat,
    mode: Mode,
) -> tuple[float, str] | Verdict:
    """Return the share of instructions that are followed, and the reason; missing if one cannot be decided."""
    parameters = [None] * len(names) if kwargs is None else kwargs
    if not names or len(parameters) != len(names):
        return missing(f"{len(names)} ids and {len(parameters)} kwargs: one for each id is needed")
    broken: list[str] = []
    for name, params in zip(names, parameters, strict=True):
        verdict = check_instruction(rollout, name, params, compat, mode)
        if verdict.value is None:
            return verdict
        if not verdict.value:
            broken.append(f"{name}: {verdict.reason}")
    return 1 - len(broken) / len(names), _describe_result(broken, len(names))


def _describe_result(broken: list[str], total: int) -> str:
    """Return the reason: "2 of 3 instructions followed; not followed: …"."""
    reason = f"{total - len(broken)} of {total} instructions followed"
    if broken:
        reason += f"; not followed: {'; '.join(broken[:5])}"
    return reason


def check_instruction(
    rollout: Rollout, name: str, kwargs: dict[str, Any] | None, compat: Compat, mode: Mode
) -> Verdict:
    """Return the verdict on one public instruction: 1 if it is followed entirely, else 0; missing if it is unknown."""
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
        the arguments of the public files, one mapping for each id. If there are <solution>…</solution> tags, only the
        text in the last pair is checked, as LiveBench does.
    Missing: an id that is not known, wrong arguments, an instruction that cannot be decided, no instruction at all.
    Not covered: LiveBench's other categories, whose answers have a ground truth (`GroundTruthMatch`).
    upstream: each instruction in its public reading.
    """
    solutions = _SOLUTION.findall(rollout.answer)
    if solutions and solutions[-1].strip():
        rollout = rollout.replace_answer(solutions[-1].strip())
    outcome = _check_all(rollout, instruction_id_list, kwargs, compat, mode)
    if isinstance(outcome, Verdict):
        return outcome
    share, reason = outcome
    return (float(share == 1.0) + share) / 2, reason


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

    Turns are matched with answers from the end: with one turn, only the final answer is checked.
    Passes (1): every instruction of every turn is followed.
    Fails (0): none is.
    Missing: fewer answers than turns, an unknown instruction or argument, an instruction that cannot be decided.
    Not covered: whether a later turn was meant to cancel an earlier instruction.
    upstream: each instruction in its public reading; words and sentences of Chinese, Japanese and Hindi as Multi-IF
        counts them, Thai ones undecided.
    """
    answers = (*rollout.turns, rollout.answer)[-len(turns) :]
    if not turns or len(answers) < len(turns):
        return missing(f"{len(turns)} turns with instructions, {len(answers)} answers")
    # Prompts are matched from the end too; a rollout may have fewer of them than turns.
    prompts = [message.content for message in rollout.prompt if message.role == "user"]
    prompts = ([""] * len(turns) + prompts)[-len(turns) :]
    broken: list[str] = []
    total = 0
    for turn, answer, prompt in zip(turns, answers, prompts, strict=True):
        message = Message(role="user", content=prompt)
        reply = Rollout(prompt=(message,), response=answer, reasoning="")
        for name, kwargs in zip(turn.instruction_id_list, turn.kwargs, strict=True):
            verdict = None
            if compat == "upstream":
                verdict = _check_count_upstream(name, kwargs, answer, mode)
            if verdict is None:
                verdict = check_instruction(reply, name, kwargs, compat, mode)
            if verdict.value is None:
                return missing(f"{name}: {verdict.reason}")
            if not verdict.value:
                broken.append(name)
            total += 1
    if not total:
        return missing("no instructions")
    return 1 - len(broken) / total, _describe_result(broken, total)


# Multi-IF has its own counters for words and sentences, by the language it detects in the answer:
# - In Chinese and Japanese punctuation is dropped first; then every East Asian character, every emoji and every run of
#   other letters is a word. Sentences end at 。.!?！？． and at line breaks.
# - In Hindi sentences end at the marks ।!?
# - Thai is cut with a tool that is not included here: undecided.
# Other languages go by IFEval's counters.

WORDS = "length_constraints:number_words"
SENTENCES = "length_constraints:number_sentences"
_EAST_ASIAN_CHARACTER = re.compile("[\u3400-\u4dbf\u4e00-\u9fff\u3040-\u30ff\uac00-\ud7af]")
_PUNCTUATION = re.compile(
    r"[\\.!?．/_,{}<>:;$%^&*(+\"'—！，。？、`~@#￥…（）：；《》“”)\[\]»〔〕\-「」]+"
)
_EAST_ASIAN_SENTENCE = re.compile(r"[^!?。.！？．\n]+")
_HINDI_END = re.compile(r"(?<=[।!?])\s*")
_EMOJI = re.compile("[\U0001f300-\U0001faff\u2600-\u27bf\u2b50\u2b55]\ufe0f?")


def _check_count_upstream(
    instruction_id: str, kwargs: dict[str, Any] | None, answer: str, mode: Mode
) -> Verdict | None:
    """Return the verdict by Multi-IF's own counters; None if it has none for the instruction or the language."""
    name, _ = resolve(instruction_id)
    if name not in (WORDS, SENTENCES):
        return None
    try:
        instruction, arguments = public_params(instruction_id, kwargs)
        params: Any = instruction.check_parameters(arguments)
    except RubrankError:
        return None  # `check_instruction` then says what is wrong with the arguments
    if not answer.strip():
        return None
    if detect_public_language(answer) == "th":
        return missing("words and sentences of Thai are counted by a tool that is not included")
    unit = "word" if name == WORDS else "sentence"
    number = getattr(params, f"num_{unit}s")
    verdict = None
    for variant in loose_variants(answer) if mode == "loose" else [answer]:
        count = count_upstream(name, variant)
        if count is None:
            break  # Multi-IF has no counter for the language of this variant
        is_right, reason = compare_count(count, unit, params.relation, number)
        verdict = Verdict(float(is_right), reason)
        if is_right:
            break
    return verdict


def count_upstream(instruction: str, answer: str) -> int | None:
    """Count as Multi-IF does for WORDS or SENTENCES; None where it counts as IFEval does.

    >>> count_upstream("length_constraints:number_words", "こんにちは、Jason。")
    6
    """
    language = detect_public_language(answer)
    is_east_asian = language in ("zh-cn", "zh-tw", "ja")
    if instruction == WORDS:
        return count_words(answer) if is_east_asian else None
    if is_east_asian:
        return sum(len(_EAST_ASIAN_SENTENCE.findall(line.strip())) for line in answer.splitlines())
    if language == "hi":
        return sum(bool(piece.strip()) for piece in _HINDI_END.split(answer))
    return None


def count_words(answer: str) -> int:
    """Count East Asian characters, emojis, and runs of everything else."""
    text = _PUNCTUATION.sub("", answer)
    emojis = len(_EMOJI.findall(text))
    text = _EMOJI.sub("", text)
    characters = len(_EAST_ASIAN_CHARACTER.findall(text))
    other_words = _EAST_ASIAN_CHARACTER.sub(" ", text).split()
    return characters + emojis + len(other_words)


# ---- ids of public data ----------------------------------------------------------------------------------------------

# Public files put a language before the id (`en:`, `fr:`), name the language in the id (`french_capital`), and fill the
# keyword arguments with nulls. All of that is removed here. An argument with a value that the verifier does not have is
# left in and refused where parameters are checked; otherwise what it asks for would be ignored silently.

_ALIASES = {
    "change_case:french_capital": "change_case:english_capital",
    "change_case:spanish_capital": "change_case:english_capital",
    "change_case:french_lowercase": "change_case:english_lowercase",
    "change_case:spanish_lowercase": "change_case:english_lowercase",
    "fr:detectable_format:no_digits": "fr:detectable_content:no_digits",
}
_LANGUAGE_CODES = {"french": "fr", "spanish": "es"}


def resolve(instruction_id: str) -> tuple[str, str]:
    """Return the verifier's name and the language of the instruction; an unknown id is returned as it is.

    >>> resolve("fr:change_case:french_capital")
    ('change_case:english_capital', 'fr')
    """
    language, _, bare_id = instruction_id.partition(":")
    if language not in get_args(Lang):
        bare_id = instruction_id
        name_start = instruction_id.partition(":")[2].partition("_")[0]
        language = _LANGUAGE_CODES.get(name_start, "en")
    full_id = f"{language}:{bare_id}"
    full_id = _ALIASES.get(full_id, full_id)
    if full_id in VERIFIERS:
        return full_id, language
    return _ALIASES.get(bare_id, bare_id), language


def public_params(
    instruction_id: str, kwargs: Mapping[str, Any] | None
) -> tuple[Verifier, dict[str, Any]]:
    """Return the verifier of a public id, and the arguments that are not null."""
    is_verifier("keywords:existence")  # imports all families: `resolve` looks ids up among them
    name, language = resolve(instruction_id)
    verifier = find_verifier(name)
    params = {key: value for key, value in (kwargs or {}).items() if value is not None}
    if "lang" in verifier.parameters.model_fields and language in get_args(Lang):
        params.setdefault("lang", language)
    return verifier, params
