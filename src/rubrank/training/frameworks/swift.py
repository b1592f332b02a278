"""ms-swift 4.6: a rubric as an outcome reward. This file is the plug-in.

    export RUBRANK_CONFIG=/abs/reward.yaml          docs/frameworks.md says what is in it
    swift rlhf --rlhf_type grpo … --reward_funcs rubrank --num_generations 8 \\
        --external_plugins $(python -c "import rubrank.training.frameworks.swift as m; print(m.__file__)")

ms-swift calls a reward function on the rows of each process, which may differ in number: shape (b), gathered here. It
passes `prompt_id`, the same for all rows with the same messages: where two rows of the dataset have the same prompt,
those with another rubric are apart, and the others go by their order, `num_generations` at a time.

ms-swift adds up rewards with missing ones as 0, so a rollout about which nothing is known gets the mean of its group.

A reward function is not told whether ms-swift evaluates. Its trainers know (their model is not in training mode), and
are watched while they score (`watch`). A rule that remembers is refused where a run evaluates unwatched.
"""

from __future__ import annotations

import sys
from collections.abc import Hashable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from functools import wraps
from typing import Any

from rubrank._plain import word_list
from rubrank.errors import InvalidInput
from rubrank.training.config import engine_of
from rubrank.training.engine import RewardEngine
from rubrank.training.frameworks.trl import current_processes
from rubrank.training.queries import Completion, query_of, split_prompt
from rubrank.training.rollouts import count_tokens, normalize_finish_reason
from rubrank.training.shapes.flat_batch import GroupOf, Sample, score_flat

_OWNER = "ms-swift"
_TRAINERS = {
    "swift.rlhf_trainers.grpo_trainer": ("GRPOTrainer", "_compute_rewards_per_func"),
    "swift.megatron.trainers.grpo_trainer": ("MegatronGRPOTrainer", "_score_completions"),
}
"""Module → its trainer, and the method in which that calls reward functions."""
_evaluating: ContextVar[bool] = ContextVar("rubrank_swift_evaluating", default=False)
_NOT_ROWS = ("trainer_state", "trajectory_inputs")
_KNOWN = word_list("""
    messages prompt_id request_id finish_reason is_truncated rollout_infos response_token_ids images videos audios
    objects
""")


class RubricORM:
    """An `ORM` of ms-swift."""

    rubrank: Any = None
    """An engine, or the path of a configuration; None: RUBRANK_CONFIG."""

    def __init__(self, args: Any = None, **_: Any) -> None:
        self.args = args
        self.engine, self._column = engine_of(self.rubrank, _OWNER)
        evaluates = getattr(args, "eval_strategy", "no") not in (None, "no")
        if not watch_loaded() and self.engine.remembers and evaluates:
            allowed = "one that remembers nothing: this trainer of ms-swift does not say when it evaluates"
            raise InvalidInput(_OWNER, "rule", allowed, repr(self.engine.rule.name), "Or --eval_strategy no.")

    def __call__(self, completions: Sequence[str], **given: Any) -> list[float]:
        """The reward of every completion of this process."""
        state, train = given.get("trainer_state"), not _evaluating.get()
        size = getattr(self.args, "num_generations", None)
        if not train:
            size = getattr(self.args, "num_generations_eval", None) or size
        result = score_flat(
            self.engine,
            lambda: _samples(self.engine, completions, given, self._column),
            step=int(getattr(state, "global_step", 0) or 0),
            train=train,
            group_of=by_prompt_id(size),
            processes=current_processes(),
            means=True,
        )
        return result.rewards


def watch_loaded() -> bool:
    """Watch those trainers of ms-swift that are there; are there any?"""
    found = [
        watch(getattr(sys.modules[module], name), method)
        for module, (name, method) in _TRAINERS.items()
        if hasattr(sys.modules.get(module), name)
    ]
    return any(found)


def watch(trainer: type, method: str = "_compute_rewards_per_func") -> bool:
    """Have a trainer say whether it evaluates, while it scores; False: it has no such method."""
    whole = getattr(trainer, method, None)
    if whole is None or hasattr(whole, "_rubrank"):
        return whole is not None

    @wraps(whole)
    def scoring(self: Any, *given: Any, **named: Any) -> Any:
        token = _evaluating.set(not _training(self))
        try:
            return whole(self, *given, **named)
        finally:
            _evaluating.reset(token)

    scoring._rubrank = True  # type: ignore[attr-defined]
    setattr(trainer, method, scoring)
    return True


def _training(trainer: Any) -> bool:
    """As ms-swift itself asks: of its model, or of the first of Megatron's."""
    models = getattr(trainer, "unwrapped_models", None) or [getattr(trainer, "model", None)]
    return bool(getattr(models[0], "training", True))


def by_prompt_id(size: int | None) -> GroupOf:
    """Groups of `size` among the rows with the same key, in their order; all of them where that does not go up."""

    def group_of(samples: Sequence[Sample]) -> list[Hashable]:
        number: dict[Hashable, int] = {}
        for sample in samples:
            number[sample.key] = number.get(sample.key, 0) + 1
        names = _names(number)
        seen: dict[Hashable, int] = {}
        keys: list[Hashable] = []
        for sample in samples:
            at = seen[sample.key] = seen.get(sample.key, -1) + 1
            cut = at // size if size and number[sample.key] % size == 0 else 0
            name = names[sample.key]
            keys.append(f"{name}.{cut}" if cut else name)
        return keys

    return group_of


def _names(every: Iterable[Any]) -> dict[Hashable, Hashable]:
    """The prompt's id, and the rubric's number where other rows of the same prompt have another one."""
    rubrics: dict[Hashable, list[Any]] = {}
    for key in every:
        rubrics.setdefault(key[0], []).append(key)
    return {
        key: prompt if len(same) == 1 else f"{prompt}:{number}"
        for prompt, same in rubrics.items()
        for number, key in enumerate(same)
    }


def _samples(engine: RewardEngine, completions: Sequence[str], given: Mapping[str, Any], column: str) -> list[Sample]:
    number = len(completions)
    if not number:  # the others' rows are gathered all the same
        return []
    columns = {n: v for n, v in given.items() if n not in _NOT_ROWS and isinstance(v, Sequence) and len(v) == number}
    if "prompt_id" not in columns:
        got = ", ".join(sorted(given)) or "nothing"
        raise InvalidInput(_OWNER, "prompt_id", "among what ms-swift passes", got, "Use ms-swift 4.6 or later.")
    if None in columns["prompt_id"]:
        allowed = "given for every row: rows without one would be one group, whatever they answer"
        raise InvalidInput(_OWNER, "prompt_id", allowed, "None", "Leave what ms-swift passes as it is.")
    rows = [{name: values[i] for name, values in columns.items()} for i in range(number)]
    return [_sample(engine, said, row, column) for said, row in zip(completions, rows, strict=True)]


def _sample(engine: RewardEngine, said: str, row: Mapping[str, Any], column: str) -> Sample:
    before, after = split_prompt(row.get("messages") or [])
    more = {name: value for name, value in row.items() if name not in _KNOWN}
    query = query_of(before, {**more, "prompt": before}, rubric_column=column)
    reason = "length" if row.get("is_truncated") else normalize_finish_reason(row.get("finish_reason"))
    answer = [*after[:-1], {**after[-1], "content": said}] if after else said
    rollout = Completion(answer, reason).rollout(engine, query, _OWNER)
    ids = row.get("response_token_ids")
    return Sample(
        count_tokens(rollout, ids[-1] if ids and isinstance(ids[0], list) else ids or None, None),
        (row["prompt_id"], repr(query.rubric)),
        query.rubric,
    )


def register() -> None:
    """Make it known to ms-swift as `rubrank`; done when ms-swift loads this file."""
    from swift.rewards import orms  # type: ignore[import-not-found, import-untyped, unused-ignore]

    orms["rubrank"] = RubricORM


if "swift" in sys.modules:
    register()
