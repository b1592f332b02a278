"""EasyR1: a rubric as its batch reward function. This file is the function's file.

    export RUBRANK_CONFIG=/abs/reward.yaml          docs/frameworks.md says what is in it
    python -m verl.trainer.main … worker.reward.reward_type=batch \\
        worker.reward.reward_function=…/rubrank/training/frameworks/easyr1.py:compute_score

EasyR1 hands over the whole batch as `{response, response_length, ground_truth}`: shape (b). It says neither the prompt
nor which rows belong together, so the ground truth must: JSON with a `uid` (no other row of the dataset has it), and
`prompt`, `rubric`, what verifiers need. `ground_truth_of(row, uid)` writes it. The function is the same in
validation, and is not told: so a rule that remembers is refused.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.rollouts.messages import decoded
from rubrank.training.config import engine_of, without_steps
from rubrank.training.queries import Completion, query_of
from rubrank.training.shapes.flat_batch import Sample, score_flat

REWARD_NAME = "rubrank"
REWARD_TYPE = "batch"
_OWNER = "EasyR1"
_NAMES = ("response", "response_length", "ground_truth")
_numbers = count()


def compute_score(
    reward_inputs: Sequence[Mapping[str, Any]],
    rubrank: Any = None,
    most_tokens: int | None = None,
    train: bool = True,
    **_: Any,
) -> list[dict[str, float]]:
    """A score for every row. most_tokens: that a response may have; one that long was cut off."""
    engine, column = engine_of(rubrank, _OWNER)
    if without_steps(engine, _OWNER).remembers:
        allowed = "one that remembers nothing: EasyR1 does not say when it validates"
        raise InvalidInput(_OWNER, "rule", allowed, repr(engine.rule.name), "")
    samples = []
    for number, row in enumerate(reward_inputs):
        if not isinstance(row, Mapping) or not all(name in row for name in _NAMES):
            allowed = f"a mapping with {', '.join(_NAMES)}"
            got = ", ".join(map(str, row)) if isinstance(row, Mapping) else type(row).__name__
            raise InvalidInput(_OWNER, f"row {number}", allowed, got, "Set worker.reward.reward_type=batch.")
        truth = decoded(row["ground_truth"])
        if not isinstance(truth, Mapping) or truth.get("uid") is None:
            remedy = "Write it with rubrank.training.frameworks.easyr1.ground_truth_of(row, uid)."
            raise InvalidInput(_OWNER, f"ground_truth of row {number}", "JSON with a uid", repr(truth)[:60], remedy)
        about = {name: value for name, value in truth.items() if name != "uid"}
        query = query_of("", about, rubric_column=column)
        length = int(row["response_length"])
        reason = "length" if most_tokens is not None and length >= most_tokens else None
        said = Completion(row["response"], reason, tokens=length)
        samples.append(Sample(said.rollout(engine, query, _OWNER), str(truth["uid"]), query.rubric))
    result = score_flat(engine, samples, step=next(_numbers), train=train, means=True)
    return [{"overall": reward} for reward in result.rewards]


def ground_truth_of(row: Mapping[str, Any], uid: Any) -> str:
    """The cell for a row of the dataset: its prompt, rubric and the rest, and a name that no other row has."""
    return json.dumps({**row, "uid": str(uid)}, ensure_ascii=False, default=str)
