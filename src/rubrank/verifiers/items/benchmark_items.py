"""A whole item of a public instruction-following benchmark as one criterion: the share of its constraints that hold.

    IFBench(instruction_id_list=["count:numbers", "format:no_whitespace"], kwargs=[{"N": 2.0}, {}])

The ids and their parameters are taken as the public files write them: one mapping an id, of which nulls are dropped. A
key with a value that the id does not know is refused.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.verifier import UNIT, Answer, Compat, Mode, Verdict, find_verifier, missing, verifier

Score = Literal["share", "all"]


def public_parameters(kwargs: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a public file gives for an id, without nulls."""
    return {key: value for key, value in (kwargs or {}).items() if value is not None}


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

    Passes: every constraint holds (1). Fails: none (0); between them, half of two is 0.5. `mode="loose"` grants each
    constraint its own best variant of the answer, as the benchmark does. Missing if any constraint is: an unknown
    id, wrong parameters, or one that cannot be decided. Not covered: the benchmark's score over all items.
    """
    given = list(kwargs or [{}] * len(instruction_id_list))
    if len(given) != len(instruction_id_list) or not instruction_id_list:
        return missing(f"{len(instruction_id_list)} ids and {len(given)} kwargs: one for each id is needed")
    rollout = Rollout(response=text.raw, reasoning="")
    verdicts = [_check(rollout, name, one, compat, mode) for name, one in zip(instruction_id_list, given, strict=True)]
    undecided = next((v.reason for v in verdicts if v.value is None), None)
    return missing(undecided) if undecided else _total(instruction_id_list, verdicts, score)


def _check(rollout: Rollout, name: str, kwargs: Mapping[str, Any] | None, compat: Compat, mode: Mode) -> Verdict:
    try:
        check = find_verifier(name)
        params = check.check_parameters(public_parameters(kwargs))
    except InvalidInput as error:
        return missing(str(error))
    return check.verify(rollout, params, compat=compat, mode=mode)


def _total(names: Sequence[str], verdicts: Sequence[Verdict], score: Score) -> Answer:
    broken = [f"{name}: {verdict.reason}" for name, verdict in zip(names, verdicts, strict=True) if verdict.value != 1]
    share = 1 - len(broken) / len(names)
    said = f"{len(names) - len(broken)} of {len(names)} constraints hold" + "".join(f"; {line}" for line in broken)
    return (share if score == "share" else float(not broken)), said
