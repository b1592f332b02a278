"""Read verl's configuration and the rows of its dataset. Imports nothing of verl, so it works and is tested without.

    python -m rubrank.training.verl … +rubrank.rubric=rubric.yaml +rubrank.rule=rlvr2+ +rubrank.records=records.jsonl

    settings = Settings.read(config)         verl's whole configuration, of which `rubrank` is a part
    settings.engine()                        RewardEngine(rubric="rubric.yaml", rule="rlvr2+", …)
    settings.find_rubric(row)                the query's own rubric, or None
    ResponseReader(settings, tokenizer, config).read_rollout(row, ids, "session 7")

A row is what verl's dataset holds: `raw_prompt`, `data_source`, `reward_model`, `extra_info`, and further columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Self

from rubrank._plain import validate_model
from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Rollout
from rubrank.training.config import RewardConfig
from rubrank.training.engine import RewardEngine
from rubrank.training.queries import INSTRUCTION_COLUMNS, find_own_rubric, to_plain_data
from rubrank.training.rollouts import (
    find_end_token_ids,
    find_template_opening_tag,
    infer_finish_reason,
    rollout_of,
    split_turns_at_end_tokens,
)

OWNER = "rubrank in verl's config"
_RUBRIC_PLACES = ("rubric", "extra_info.rubric", "reward_model.rubric")
_USUAL_COLUMNS = ("data_source", "ability", "reward_model", "extra_info", *INSTRUCTION_COLUMNS)
_ABSENT = object()
"""What `_get_at` returns for a place that a row does not have; None may be a value."""


class Settings(RewardConfig):
    """The keys below `rubrank` in verl's configuration."""

    rubric_column: str | None = None  # type: ignore[assignment]
    """Where a row has its own rubric, such as "extra_info.rubric". None: the first of "rubric", "extra_info.rubric",
    "reward_model.rubric" that it has, else `instruction_id_list` and `kwargs`."""
    columns: tuple[str, ...] = ()
    """Further columns of the dataset, for verifiers; `extra_info` and `reward_model` are always passed."""
    timeout: float = 3600.0
    """Seconds for which a group waits for its slowest rollout in the barrier."""
    keep: float = 600.0
    """Seconds for which the barrier remembers a group."""
    fusing: bool = False
    """Set by our trainer, to tell the reward workers that the trainer fuses their scores."""
    saving: bool = False
    """Set by our trainer, to tell the reward workers that it saves a checkpoint if the judges fail."""

    @classmethod
    def read(cls, config: Any) -> Self:
        """Read the section `rubrank` of verl's configuration; a key that is null counts as left out.

        Raises InvalidInput for an unknown key or a wrong value.
        """
        section = to_plain_data(config.get("rubrank") or {})
        section = {name: value for name, value in section.items() if value is not None}
        return validate_model(cls, section, OWNER, "verl")

    @property
    def row_columns(self) -> tuple[str, ...]:
        """Columns of a row that are read, if it has them."""
        places = [self.rubric_column] if self.rubric_column else _RUBRIC_PLACES
        rubric_columns = [place.partition(".")[0] for place in places]
        return tuple(dict.fromkeys([*_USUAL_COLUMNS, *rubric_columns, *self.columns]))

    def find_rubric(self, row: Mapping[str, Any]) -> Any:
        """Return the query's own rubric, or None. Raises InvalidInput if the row lacks the place `rubric_column`."""
        if self.rubric_column is not None:
            rubric = _get_at(row, self.rubric_column)
            if rubric is _ABSENT:
                raise InvalidInput(
                    OWNER,
                    "rubric_column",
                    allowed=f"a place in the row, which has {', '.join(sorted(row)) or 'nothing'}",
                    got=repr(self.rubric_column),
                    remedy="Such as extra_info.rubric.",
                )
            return rubric
        for place in _RUBRIC_PLACES:
            rubric = _get_at(row, place)
            if rubric is not _ABSENT and rubric is not None:
                return rubric
        for holder in (row, row.get("extra_info") or {}):
            rubric = find_own_rubric(holder)
            if rubric is not None:
                return rubric
        return None

    def check_rows(
        self, engine: RewardEngine, rows: Iterable[Mapping[str, Any]], where: str
    ) -> int:
        """Check the rubric of every row, before models are loaded, and return how many rows there are.

        where: the name of the dataset in errors. Raises InvalidInput for the first wrong rubric.
        """
        return engine.check_rubrics(
            (self.find_rubric(to_plain_data(row)), f"{where}, row {number}")
            for number, row in enumerate(rows, start=1)
        )

    def make_rollout(
        self, row: Mapping[str, Any], response: Any, where: str = "rollout", **options: Any
    ) -> Rollout:
        """Return the rollout of a row; `response` is a text or messages, `options` are those of `rollout_of`.

        The contents of `extra_info` and `reward_model`, except rubrics, and the columns of the settings are metadata.
        """
        metadata: dict[str, Any] = {}
        # Later entries replace earlier ones of the same name.
        for holder in (row.get("reward_model"), row.get("extra_info")):
            if isinstance(holder, Mapping):
                metadata |= holder
        metadata |= {name: row.get(name) for name in ("data_source", "ability")}
        metadata.pop("rubric", None)
        metadata |= {name: row[name] for name in self.columns if row.get(name) is not None}
        metadata = {name: value for name, value in metadata.items() if value is not None}
        return rollout_of(
            row["raw_prompt"],
            response,
            metadata=metadata,
            where=where,
            thinking=self.thinking,
            **options,
        )


class ResponseReader:
    """Makes rollouts of verl's tokens.

    Agent loops put the turns of the policy and the results of tools into one row of tokens. The reader splits them into
    messages again. Whether responses begin inside the reasoning follows from the chat template, applied with verl's
    options for it.
    """

    def __init__(self, settings: Settings, tokenizer: Any, config: Any) -> None:
        self.settings = settings
        self.tokenizer = tokenizer
        self.end_ids = find_end_token_ids(tokenizer)
        self.max_tokens = config.actor_rollout_ref.rollout.response_length
        template_options = config.data.get("apply_chat_template_kwargs")
        # The tag of thoughts, such as "<think>", that the template puts before a response; None without one.
        self.reasoning_tag = find_template_opening_tag(
            tokenizer, **to_plain_data(template_options or {})
        )

    def read_rollout(self, row: Mapping[str, Any], ids: Any, where: str) -> Rollout:
        """Return one rollout; `ids` are the tokens of the response, without padding."""

        def decode(tokens: Any) -> str:
            return str(self.tokenizer.decode(tokens, skip_special_tokens=True))

        messages, last_ids = split_turns_at_end_tokens(ids, self.end_ids, decode)
        is_single_answer = len(messages) == 1 and not messages[0].get("tool_calls")
        return self.settings.make_rollout(
            row,
            messages[0]["content"] if is_single_answer else messages,
            where,
            finish_reason=infer_finish_reason(ids, self.end_ids, self.max_tokens),
            reasoning_tag=self.reasoning_tag,
            ids=last_ids,
            tokenizer=self.tokenizer,
        )


def _get_at(row: Mapping[str, Any], place: str) -> Any:
    """Return the value at a dotted place such as "extra_info.rubric", or `_ABSENT`."""
    value: Any = row
    for name in place.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return _ABSENT
        value = value[name]
    return value
