"""EasyR1: a rubric as its batch reward function. This file is the function's file.

    export RUBRANK_CONFIG=/abs/reward.yaml          see docs/frameworks.md
    python -m verl.trainer.main … worker.reward.reward_type=batch \\
        worker.reward.reward_function=…/rubrank/training/frameworks/easyr1.py:compute_score

Input. EasyR1 passes the whole batch as `{response, response_length, ground_truth}`. It passes neither the prompt nor
which rows belong together, so the ground truth must contain both: JSON with a `uid` that no other row of the dataset
has, `prompt`, `rubric`, and what verifiers need. `ground_truth_of(row, uid)` writes it.

Output. EasyR1 gets `{"overall": reward}` for each row; one without any score gets the mean of its group.

Evaluations. EasyR1 calls the same function in validation without saying so. Rules that learn from step to step are
refused, because they would learn from validation, too.

Tested with a plain call; its interface was last read at commit 46c6c21. EasyR1 itself was not run.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import count
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.rollouts.shapes import parse_json_cell
from rubrank.training.config import EngineSource, load_engine, refuse_memory
from rubrank.training.flat_batch import Sample, score_flat
from rubrank.training.queries import Completion, make_query

REWARD_NAME = "rubrank"
REWARD_TYPE = "batch"
_OWNER = "EasyR1"
_calls = count()


def compute_score(
    reward_inputs: Sequence[Mapping[str, Any]],
    rubrank: EngineSource = None,
    most_tokens: int | None = None,
    train: bool = True,
    **_: Any,
) -> list[dict[str, float]]:
    """Return {"overall": reward} for every row.

    rubrank: an engine, or the path of a configuration; None: RUBRANK_CONFIG.
    most_tokens: the limit of a response; a response of that length counts as cut off.
    """
    engine, rubric_column = load_engine(rubrank, _OWNER, passes_step=False)
    refuse_memory(engine, _OWNER, "EasyR1 does not say when it validates")
    samples = []
    for number, row in enumerate(reward_inputs):
        truth = parse_json_cell(row["ground_truth"])
        if not isinstance(truth, Mapping) or truth.get("uid") is None:
            raise InvalidInput(
                _OWNER,
                f"ground_truth of row {number}",
                allowed="JSON with a uid",
                got=repr(truth)[:60],
                remedy="Write it with rubrank.training.frameworks.easyr1.ground_truth_of(row, uid).",
            )
        query_row = {name: value for name, value in truth.items() if name != "uid"}
        query = make_query("", query_row, rubric_column=rubric_column)
        length = int(row["response_length"])
        is_cut_off = most_tokens is not None and length >= most_tokens
        completion = Completion(row["response"], "length" if is_cut_off else None, tokens=length)
        rollout = completion.to_rollout(query, engine.thinking, _OWNER)
        samples.append(Sample(rollout, str(truth["uid"]), query.rubric))
    result = score_flat(engine, samples, step=next(_calls), train=train, means=True)
    return [{"overall": reward} for reward in result.rewards]


def ground_truth_of(row: Mapping[str, Any], uid: Any) -> str:
    """Return the ground truth of a row of the dataset as JSON: the row, with a uid that no other row has."""
    return json.dumps({**row, "uid": str(uid)}, ensure_ascii=False, default=str)
