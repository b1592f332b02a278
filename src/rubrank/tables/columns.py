"""The usual names of columns, which all commands recognise, and `Columns`: the names that a user gives instead.

A table of rollouts has prompts and responses (`COLUMNS`). A table of scores is wide, with one row per rollout, or long,
with one row per score:

    wide     group, Facts, Style              "q1", 1, 3
    wide     group, scores                    "q1", {Facts: 1, Style: 3}
    long     group, rollout, criterion, score "q1", 0, "Facts", 1
                                              "q1", 0, "Style", 3
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

GROUP_NAMES = (
    "group",
    "group_id",
    "uid",
    "prompt_id",
    "query_id",
    "question_id",
    "problem_id",
    "task_id",
    "qid",
)
"""Columns that name the group of a rollout; the first one present is used."""
WEAK_GROUP_NAMES = ("key", "id")
"""Used for the group only if none of `GROUP_NAMES` is there: in other files these number the rows."""
STEP_NAMES = ("step", "global_step", "training_step", "train_step")
"""Columns that name the training step: the same query in two steps is two groups."""

COLUMNS: dict[str, tuple[str, ...]] = {
    "group": (*GROUP_NAMES, *WEAK_GROUP_NAMES),
    "step": STEP_NAMES,
    "prompt": (
        "prompt",
        "prompts",
        "messages",
        "query",
        "question",
        "instruction",
        "input",
        "conversation",
    ),
    "response": (
        "response",
        "responses",
        "completion",
        "completions",
        "output",
        "outputs",
        "generation",
        "generations",
        "rollouts",
        "samples",
        "model_output",
    ),
    "reasoning": ("reasoning", "reasoning_content", "thinking", "thoughts"),
    "tool_calls": ("tool_calls",),
    "tools": ("tools",),
    "finish_reason": ("finish_reason", "stop_reason"),
    "token_counts": ("token_counts",),
    "metadata": ("metadata",),
    "rubric": ("rubric", "rubrics", "criteria"),
}
"""Field of a rollout → its usual column names, the likeliest first; the first one present is used."""

# ---------------------------------------------------------------------------------------------------- tables of scores

SCORES = "scores"
"""A column that may hold one field for each criterion: its score."""
ATTRIBUTES = "attributes"
"""A column that may hold one field for each attribute: its value."""
REASONS = "reasons"
"""A column that may hold one field for each criterion: the reason for its score."""

# Long tables: the first name present is used.
CRITERION_NAMES = ("criterion", "criterion_name", "criterion_id", "metric", "dimension", "aspect")
"""Columns that name the criterion of a score."""
SCORE_NAMES = ("score", "value", "rating", "grade", "verdict")
"""Columns with the score."""
RESPONSE_NAMES = (
    "response_id",
    "rollout",
    "rollout_id",
    "rollout_index",
    "sample",
    "sample_id",
    "completion_id",
    "answer_id",
    "response",
    "completion",
    "id",
)
"""Columns that say to which response of its group a score belongs: an id, or the response itself."""
REASON_NAMES = ("reason", "explanation", "rationale")
"""Columns with the reason for a score."""

ROLLOUT_ID_NAMES = (
    "rollout",
    "rollout_id",
    "rollout_index",
    "response_id",
    "completion_id",
    "answer_id",
)
"""Columns that tell the rollouts of a group apart, in tables with one row per rollout."""
_TEXT_NAMES = """answer answers target targets gold label labels ground_truth gts reference references solution expected
    choice choices final_answer predicted prediction category subject language model"""
TEXT_NAMES = frozenset(_TEXT_NAMES.split())
"""Columns whose texts may look like scores, such as the answer "42", but are not."""
RECORD_COLUMNS = ({"criteria", "scores", "reward", "ranking"}, {"record", "rule", "rollouts"})
"""Columns that identify a file of records, which trainers write, and which is no table of scores.

A file that has all columns of the first set (JSON Lines) or of the second (Parquet) is one.
"""

_COUNTERS = """id index idx row rollout rollout_id rollout_index sample sample_id response_id request_id turn seed rank
    rubric rubric_id step global_step epoch iteration batch batch_id time timestamp"""
_EARLIER_RESULTS = "reward rewards return advantage ranking no_signal logprob logprobs"
_LENGTHS = """token tokens n_tokens num_tokens token_count total_tokens prompt_tokens completion_tokens reasoning_tokens
    length response_length answer_length reasoning_length chars n_chars words n_words"""
BOOKKEEPING = frozenset(f"{_COUNTERS} {_EARLIER_RESULTS} {_LENGTHS}".split())
"""Columns of numbers that are usually no scores: they are criteria only if the user names them."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    r"""What a user says about the columns of a table of scores; the rest is found by usual names (docs/data.md).

    group: one column, or several whose cells are joined to the name of a group: "1/2". A slash or backslash in a cell
        (except the last) gets a backslash before it, so that different cells never give the same name.
    batch: rows with the same value here belong to one batch; it becomes the first part of the group's name.
    criteria, attributes: names of columns, or of fields of the columns `scores` and `attributes`.
        criteria="all": every column of numbers, except those in `BOOKKEEPING`. None: the fields of `scores`; a table
        without that column is refused unless all its columns of numbers are in `declared`.
    declared: columns known to be criteria for another reason, such as an option that gives them a weight.
    long: is there one row per score? None: decided from the columns.
    fields: the columns of a long table, if their names are unusual. Keys: criterion, score, response, reason.
    """

    group: Sequence[str] = ()
    batch: str | None = None
    criteria: Sequence[str] | Literal["all"] | None = None
    declared: Sequence[str] = ()
    attributes: Sequence[str] = ()
    long: bool | None = None
    fields: Mapping[str, str] = field(default_factory=dict)

    @property
    def named_criteria(self) -> tuple[str, ...] | None:
        """The criteria that were named, each once; None if none were, or all are to be used."""
        if self.criteria is None or self.criteria == "all":
            return None
        if isinstance(self.criteria, str):
            return (self.criteria,)
        return tuple(dict.fromkeys(self.criteria))
