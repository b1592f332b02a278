"""ms-swift 4.6: a rubric as an outcome reward. This file is the plug-in.

    export RUBRANK_CONFIG=/abs/reward.yaml          see docs/frameworks.md
    swift rlhf --rlhf_type grpo … --reward_funcs rubrank --num_generations 8 \\
        --external_plugins $(python -c "import rubrank.training.frameworks.swift as m; print(m.__file__)")

Input. ms-swift calls a reward function in each process with the rows of that process, whose number may differ; the rows
of all processes are gathered here. It passes `prompt_id`, which is the same for all rows with the same messages. If two
rows of the dataset have the same prompt, rows with different rubrics are separate groups; rows with the same rubric are
split by their order, `num_generations` at a time.

Output. ms-swift gets a list of rewards. It sums rewards with missing ones as 0, so a rollout without any score gets the
mean of its group.

Evaluations. ms-swift does not tell a reward function whether it evaluates. Its trainers know (their model is not in
training mode), so their scoring method is wrapped (`watch_scoring`). If that is not possible and the run evaluates,
rules that learn from step to step are refused.

Tested with ms-swift 4.6.0 installed: `compute_rewards_per_func` on `GRPOSample`s. Its trainer was not run.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import Any

from rubrank._plain import word_list
from rubrank.errors import InvalidInput
from rubrank.training.config import EngineSource, load_engine, refuse_memory
from rubrank.training.engine import RewardEngine
from rubrank.training.flat_batch import Sample, by_key_and_size, score_flat
from rubrank.training.frameworks.trl import current_processes
from rubrank.training.queries import Completion, make_query, select_row_columns, split_prompt

_OWNER = "ms-swift"
_TRAINERS = {
    "swift.rlhf_trainers.grpo_trainer": ("GRPOTrainer", "_compute_rewards_per_func"),
    "swift.megatron.trainers.grpo_trainer": ("MegatronGRPOTrainer", "_score_completions"),
}
"""Module → its trainer, and the method in which it calls reward functions."""
_evaluating: ContextVar[bool] = ContextVar("rubrank_swift_evaluating", default=False)
_NOT_COLUMNS = ("trainer_state", "trajectory_inputs")
_NOT_METADATA = word_list("""
    messages prompt_id request_id finish_reason is_truncated rollout_infos response_token_ids images videos audios
    objects
""")


class RubricORM:
    """An `ORM` of ms-swift."""

    rubrank: EngineSource = None
    """An engine, or the path of a configuration; None: RUBRANK_CONFIG."""

    def __init__(self, args: Any = None, **_: Any) -> None:
        self.args = args
        self.engine, self._rubric_column = load_engine(self.rubrank, _OWNER)
        is_watched = False
        for module, (name, method) in _TRAINERS.items():
            trainer = getattr(sys.modules.get(module), name, None)
            if trainer is not None and watch_scoring(trainer, method):
                is_watched = True
        evaluates = getattr(args, "eval_strategy", "no") not in (None, "no")
        if evaluates and not is_watched:
            reason = "this trainer of ms-swift does not say when it evaluates"
            refuse_memory(self.engine, _OWNER, reason, remedy="Or set --eval_strategy no.")

    def __call__(self, completions: Sequence[str], **kwargs: Any) -> list[float]:
        """Return the reward of every completion of this process."""
        train = not _evaluating.get()
        size = getattr(self.args, "num_generations", None)
        if not train:
            size = getattr(self.args, "num_generations_eval", None) or size
        result = score_flat(
            self.engine,
            lambda: _read_samples(self.engine, completions, kwargs, self._rubric_column),
            step=int(getattr(kwargs.get("trainer_state"), "global_step", 0) or 0),
            train=train,
            group_of=by_key_and_size(size),
            processes=current_processes(),
            means=True,
        )
        return result.rewards


def watch_scoring(trainer: type, method: str = "_compute_rewards_per_func") -> bool:
    """Wrap the scoring method of a trainer, so that it tells whether it evaluates; False: it has no such method."""
    original = getattr(trainer, method, None)
    if original is None:
        return False
    if hasattr(original, "_rubrank"):  # it is wrapped already
        return True

    @wraps(original)
    def score(self: Any, *args: Any, **kwargs: Any) -> Any:
        # ms-swift looks at the same attribute: of its model, or of the first of Megatron's models.
        models = getattr(self, "unwrapped_models", None) or [getattr(self, "model", None)]
        token = _evaluating.set(not getattr(models[0], "training", True))
        try:
            return original(self, *args, **kwargs)
        finally:
            _evaluating.reset(token)

    score._rubrank = True  # type: ignore[attr-defined]
    setattr(trainer, method, score)
    return True


def _read_samples(
    engine: RewardEngine, completions: Sequence[str], kwargs: Mapping[str, Any], rubric_column: str
) -> list[Sample]:
    """Return the rows of this process as samples; the key of a row is its prompt id and its rubric."""
    number = len(completions)
    if not number:  # other processes may have rows
        return []
    columns = select_row_columns(kwargs, number)
    for name in _NOT_COLUMNS:
        columns.pop(name, None)
    if None in columns["prompt_id"]:
        raise InvalidInput(
            _OWNER,
            "prompt_id",
            allowed="given for every row: rows without one would all be one group",
            got="None",
            remedy="Do not change what ms-swift passes.",
        )
    samples = []
    for i, text in enumerate(completions):
        row = {name: values[i] for name, values in columns.items()}
        prompt, messages = split_prompt(row.get("messages") or [])
        metadata = {name: value for name, value in row.items() if name not in _NOT_METADATA}
        query = make_query(prompt, {**metadata, "prompt": prompt}, rubric_column=rubric_column)
        content: Any = text
        if messages:
            content = [*messages[:-1], {**messages[-1], "content": text}]
        reason = "length" if row.get("is_truncated") else row.get("finish_reason")
        ids = row.get("response_token_ids")
        if ids and isinstance(ids[0], list):
            ids = ids[-1]  # one list per turn
        completion = Completion(content, reason, ids or None)
        rollout = completion.to_rollout(query, engine.thinking, _OWNER)
        key = (row["prompt_id"], repr(query.rubric))
        samples.append(Sample(rollout, key, query.rubric))
    return samples


def register() -> None:
    """Register with ms-swift as `rubrank`; called when ms-swift loads this file."""
    from swift.rewards import orms  # type: ignore[import-not-found, import-untyped, unused-ignore]

    orms["rubrank"] = RubricORM


if "swift" in sys.modules:
    register()
