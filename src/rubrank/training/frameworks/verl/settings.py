"""What verl's configuration and its rows say to rubrank. Pure: nothing of verl is imported.

    python -m rubrank.training.verl … +rubrank.rubric=rubric.yaml +rubrank.rule=rlvr2+ +rubrank.records=records.jsonl

    settings = Settings.of(config)           verl's whole configuration, of which `rubrank` is a part
    settings.engine()                        RewardEngine(rubric="rubric.yaml", rule="rlvr2+", …)
    settings.own_rubric(row)                 the query's own rubric, or None
    rollout_of_row(row, "West Lake.")        prompt, response, and what verifiers may look up

A row is what verl's dataset holds: `raw_prompt`, `data_source`, `reward_model`, `extra_info`, and columns of its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from rubrank._plain import validated
from rubrank.errors import InvalidInput, UnknownName
from rubrank.rollouts.rollout import Rollout
from rubrank.training.config import RewardConfig
from rubrank.training.engine import RewardEngine
from rubrank.training.rollouts import rollout_of

OWNER = "rubrank in verl's config"

_OWN = ("rubric_column", "columns", "timeout", "keep", "fusing", "saving")
_PLACES = ("rubric", "extra_info.rubric", "reward_model.rubric")
_INSTRUCTIONS = ("instruction_id_list", "kwargs")
_USUAL = ("data_source", "ability", "reward_model", "extra_info", *_INSTRUCTIONS)


@dataclass(frozen=True)
class Settings:
    """The keys below `rubrank`: those of `configured.RewardConfig`, and these.

    rubric_column: where a row has its own rubric, such as "extra_info.rubric". None: the first of "rubric",
        "extra_info.rubric", "reward_model.rubric" that it has, else `instruction_id_list` and `kwargs`.
    columns: of the dataset, for verifiers; `extra_info` and `reward_model` are theirs anyway.
    timeout, keep: of the barrier; see `rubrank.training.shapes.barrier`. A group waits for its slowest rollout.
    fusing: set by our trainer, for reward workers: it makes rewards of their scores.
    saving: set by our trainer: it saves a checkpoint before it ends for the judges.
    """

    reward: RewardConfig = field(default_factory=RewardConfig)
    rubric_column: str | None = None
    columns: tuple[str, ...] = ()
    timeout: float = 3600.0
    keep: float = 600.0
    fusing: bool = False
    saving: bool = False

    @classmethod
    def of(cls, config: Any) -> Self:
        """From verl's configuration; unknown keys are refused."""
        section = {name: v for name, v in plain(config.get("rubrank") or {}).items() if v is not None}
        known = {*RewardConfig.model_fields, *_OWN}
        for name in section:
            if name not in known:
                raise UnknownName.of(OWNER, "key", name, known)
        own = {name: section.pop(name) for name in _OWN if name in section}
        if "columns" in own:
            own["columns"] = tuple([own["columns"]] if isinstance(own["columns"], str) else own["columns"])
        return cls(validated(RewardConfig, section, OWNER, "docs/verl.md"), **own)

    def engine(self, **instead: Any) -> RewardEngine:
        """The engine that they describe; `instead` replaces some of its options."""
        return self.reward.model_copy(update=instead).engine()

    @property
    def fields(self) -> tuple[str, ...]:
        """Columns of a row that are read, where it has them."""
        places = [self.rubric_column] if self.rubric_column else _PLACES
        return tuple(dict.fromkeys([*_USUAL, *(place.partition(".")[0] for place in places), *self.columns]))

    def own_rubric(self, row: Mapping[str, Any]) -> Any:
        """The query's own rubric; None: it has none."""
        if self.rubric_column is not None:
            found = _at(row, self.rubric_column)
            if found is _ABSENT:
                allowed = f"a place in the row, which has {', '.join(sorted(row)) or 'nothing'}"
                raise InvalidInput(
                    OWNER, "rubric_column", allowed, repr(self.rubric_column), "Such as extra_info.rubric."
                )
            return found
        for place in _PLACES:
            found = _at(row, place)
            if found is not _ABSENT and found is not None:
                return found
        for holder in (row, row.get("extra_info") or {}):
            if holder.get("instruction_id_list") is not None:
                return {name: holder[name] for name in _INSTRUCTIONS if holder.get(name) is not None}
        return None

    def check(self, engine: RewardEngine, rows: Iterable[Mapping[str, Any]], where: str) -> int:
        """Try the rubric of every row before anything is loaded; returns how many rows there are."""
        return engine.check_rubrics(
            (self.own_rubric(plain(row)), f"{where}, row {number}") for number, row in enumerate(rows, start=1)
        )

    def rollout(self, row: Mapping[str, Any], said: Any, where: str = "rollout", **sampled: Any) -> Rollout:
        """The rollout of a row whose response is this text, or these messages; `sampled` as in `rollout_of`."""
        metadata = {name: row[name] for name in self.columns if row.get(name) is not None}
        return rollout_of_row(row, said, metadata, where, thinking=self.reward.thinking, **sampled)


def rollout_of_row(
    row: Mapping[str, Any],
    said: Any,
    metadata: Mapping[str, Any] | None = None,
    where: str = "rollout",
    **sampled: Any,
) -> Rollout:
    """One rollout; what `extra_info` and `reward_model` hold is metadata, except rubrics."""
    found: dict[str, Any] = {}
    for holder in (row.get("reward_model"), row.get("extra_info")):
        found |= holder if isinstance(holder, Mapping) else {}
    found |= {name: row[name] for name in ("data_source", "ability") if row.get(name) is not None}
    kept = {name: value for name, value in found.items() if name != "rubric" and value is not None}
    return rollout_of(row["raw_prompt"], said, metadata=kept | dict(metadata or {}), where=where, **sampled)


def most_tokens(config: Any) -> int | None:
    """How many tokens verl lets a response have; None: it does not say."""
    for place in ("actor_rollout_ref.rollout.response_length", "data.max_response_length"):
        value: Any = config
        for name in place.split("."):
            value = value.get(name) if hasattr(value, "get") else getattr(value, name, None)
        if isinstance(value, int):
            return value
    return None


# ---------------------------------------------------------------------------------------------------------------- data

_ABSENT = object()


def _at(row: Mapping[str, Any], place: str) -> Any:
    """The value at a dotted place."""
    value: Any = row
    for name in place.split("."):
        if not isinstance(value, Mapping) or name not in value:
            return _ABSENT
        value = value[name]
    return value


def plain(value: Any) -> Any:
    """Configurations, arrays and stacks as dicts, lists and numbers: what data files hold."""
    if isinstance(value, Mapping):
        return {name: plain(one) for name, one in value.items()}
    if hasattr(value, "tolist"):  # numpy's arrays and numbers, tensors, tensordict's stacks
        value = value.tolist()
    if isinstance(value, Sequence) and not isinstance(value, str | bytes):
        return [plain(one) for one in value]
    return value
