"""LiveBench's instruction-following score of one item: half for following all instructions, half for how many."""

from __future__ import annotations

import re
from typing import Any

from rubrank.errors import RubrankError
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.ifeval.ids import public_params
from rubrank.verifiers.verifier import UNIT, Answer, Compat, Mode, Verdict, missing, verifier


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

    Passes (1): all are followed. Fails (0): none is. Between: one of two gives (0 + 0.5) / 2 = 0.25. The instructions
    are ids of IFEval, IFBench and their relatives with the arguments of the public files, one mapping for each id.
    An answer that holds <solution>…</solution> is what stands in the last one, as LiveBench takes it.
    Missing: an id that is not known, wrong arguments, an instruction that cannot be decided, no instruction at all.
    Not covered: LiveBench's other categories, whose answers have a ground truth (`GroundTruthMatch`).
    upstream: each instruction in its public reading.
    """
    given = kwargs if kwargs is not None else [None] * len(instruction_id_list)
    if not instruction_id_list or len(given) != len(instruction_id_list):
        return missing(f"{len(instruction_id_list)} instructions and {len(given)} kwargs: one for each is needed")
    rollout = rollout.with_answer(solution_of(rollout.answer))
    verdicts = [follow(rollout, name, one, compat, mode) for name, one in zip(instruction_id_list, given, strict=True)]
    undecided = next((verdict.reason for verdict in verdicts if verdict.value is None), None)
    if undecided is not None:
        return missing(undecided)
    return _composed(instruction_id_list, verdicts)


def solution_of(answer: str) -> str:
    """What stands in the last <solution>…</solution>; the answer itself if there is none, or nothing in it."""
    found = re.findall(r"<solution>(.*?)</solution>", answer, re.DOTALL | re.IGNORECASE)
    return found[-1].strip() if found and found[-1].strip() else answer


def follow(rollout: Rollout, name: str, kwargs: dict[str, Any] | None, compat: Compat, mode: Mode) -> Verdict:
    """The verdict on one public instruction, 1 only if it is followed entirely; missing if it cannot be asked."""
    try:
        found, params = public_params(name, kwargs)
        verdict = found.verify(rollout, found.check_parameters(params), compat=compat, mode=mode)
    except RubrankError as error:
        return missing(str(error))
    return verdict if verdict.value is None else Verdict(float(verdict.value == found.domain.high), verdict.reason)


def _composed(names: list[str], verdicts: list[Verdict]) -> tuple[float, str]:
    broken = [f"{name} ({v.reason})" for name, v in zip(names, verdicts, strict=True) if not v.value]
    share = 1 - len(broken) / len(names)
    said = f"{len(names) - len(broken)} of {len(names)} instructions followed"
    return (float(not broken) + share) / 2, said + (f"; not {'; '.join(broken[:3])}" if broken else "")
