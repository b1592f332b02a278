"""What several adapters share. Every adapter does the same four things:

    1. load the engine          `load_engine(source, "slime")`: an engine, a configuration file, or RUBRANK_CONFIG
    2. read what is passed      prompt and row → `make_query`; each response → `Completion`, with its finish reason
    3. score                    one group: `score_query`; a batch of groups: `score_flat`; single samples: `Barrier`
    4. return rewards           in the trainer's own shape; most trainers cannot leave a rollout out, so one without any
                                score gets the mean of its group (`fill_unknown`)

The adapters differ in who calls them, with what, and in what the trainer cannot tell them: its step, whether it
evaluates, which samples belong together. The docstring of an adapter says that, after an example of its use:

    Input         who calls it, with what, and which samples are a group
    Output        what the framework gets; what happens to a rollout without any score
    Evaluations   whether the framework says when it evaluates
    Step          where the step of the run comes from, if the framework does not pass it
    Tested        what was run with the framework itself, and what only with a stand-in
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeAlias

from rubrank.errors import InvalidInput
from rubrank.training.engine import RewardEngine
from rubrank.training.queries import Completion
from rubrank.training.rollouts import (
    find_end_token_ids,
    find_token_opening_tag,
    infer_finish_reason,
)

EngineSource: TypeAlias = RewardEngine | str | Path | None
"""An engine, or the path of a configuration; None: the path in RUBRANK_CONFIG."""


def read_token_completion(
    tokenizer: Any,
    prompt_ids: Sequence[int],
    response_ids: Sequence[int],
    finish_reason: str | None,
    max_tokens: int | None = None,
) -> Completion:
    """Return the completion that a trainer has as tokens.

    finish_reason: what the trainer reports; None: it is inferred from the last token and from max_tokens.
    """
    if finish_reason is None:
        finish_reason = infer_finish_reason(response_ids, find_end_token_ids(tokenizer), max_tokens)
    return Completion(
        tokenizer.decode(response_ids, skip_special_tokens=True),
        finish_reason,
        response_ids,
        reasoning_tag=find_token_opening_tag(tokenizer, prompt_ids),
    )


def select_row_columns(columns: Mapping[str, Any], number: int) -> dict[str, Sequence[Any]]:
    """Return the columns that have one value for each of `number` rows; trainers pass other arguments with them."""
    row_columns = {}
    for name, values in columns.items():
        is_list = isinstance(values, Sequence) and not isinstance(values, str)
        if is_list and len(values) == number:
            row_columns[name] = values
    return row_columns


def refuse_memory(engine: RewardEngine, owner: str, reason: str, remedy: str = "") -> None:
    """Raise InvalidInput for a rule that learns from step to step. reason: why this trainer cannot have one."""
    if engine.remembers:
        raise InvalidInput(
            owner,
            "rule",
            allowed=f"one without a memory: {reason}",
            got=repr(engine.rule.name),
            remedy=remedy,
        )
