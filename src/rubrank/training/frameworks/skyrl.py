"""SkyRL 0.3: a rubric as the rewards of a batch.

    from skyrl.train.trainer import RayPPOTrainer
    from rubrank.training.frameworks.skyrl import RubricRewards

    class Trainer(RubricRewards, RayPPOTrainer): ...          or FullyAsyncRayPPOTrainer

`postprocess_generator_output(generator_output, uids)` has the whole batch and the uid of every row: shape (b), on the
one process that controls the run. Prompts, rubrics and what verifiers need are those of the generator's input, else of
the dataset's row whose number the uid is. Turns of an agent are told apart by the loss mask. In training step by step
only the last step of a trajectory is rewarded, as SkyRL has it. A rollout about which nothing is known gets the mean
of its group.

SkyRL evaluates elsewhere (`evaluate` asks the generator itself): what is evaluated does not come this way, and its
prompts, whose uids are numbers of another dataset's rows, are not remembered. Reward metrics are those of the rows that
are trained on, also where the asynchronous trainer would count groups that it dropped: those have no rubric's reward.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.training.config import engine_of
from rubrank.training.engine import RewardEngine
from rubrank.training.queries import Completion, Query, query_of
from rubrank.training.rollouts import last_turn, normalize_finish_reason, split_turns, token_opening_tag
from rubrank.training.shapes.flat_batch import Sample, score_flat

_OWNER = "SkyRL"
_MOST = 100_000  # prompts that are remembered


class RubricRewards:
    """To be mixed in before one of SkyRL's trainers."""

    rubrank: RewardEngine | str | Path | None = None
    """An engine, or the path of a configuration; None: RUBRANK_CONFIG."""
    _asked: dict[str, Query]

    async def generate(self, input_batch: Any) -> Any:
        """What SkyRL generates; prompts that are trained on are remembered."""
        if not _held_out(input_batch):
            self._remember(input_batch)
        return await super().generate(input_batch)  # type: ignore[misc]

    def postprocess_generator_output(self, generator_output: Any, uids: Any, *_: Any, **__: Any) -> Any:
        """The rubric's rewards in the place of the environments', then what SkyRL does."""
        engine, column = engine_of(self.rubrank, _OWNER)
        tokenizer, output = getattr(self, "tokenizer", None), generator_output
        _check(output, uids, tokenizer)
        last = output.get("is_last_step") or [True] * len(uids)
        graded = [i for i, is_last in enumerate(last) if is_last]
        samples = [self._sample(engine, column, output, i, str(uids[i]), tokenizer) for i in graded]
        result = score_flat(engine, samples, step=int(getattr(self, "global_step", 0)), means=True)
        rewards = [0.0] * len(uids)
        for i, reward in zip(graded, result.rewards, strict=True):
            rewards[i] = reward
        output["rewards"] = rewards
        getattr(self, "all_metrics", {}).update(result.metrics)
        return super().postprocess_generator_output(output, uids)  # type: ignore[misc]

    def _sample(self, engine: RewardEngine, column: str, output: Any, i: int, uid: str, tokenizer: Any) -> Sample:
        def decode(ids: Any) -> str:
            return tokenizer.decode(ids, skip_special_tokens=True)

        ids, mask = output["response_ids"][i], (output.get("loss_masks") or {i: None})[i]
        opened = token_opening_tag(tokenizer, output["prompt_token_ids"][i])
        query = self._query(uid, column) or query_of(decode(output["prompt_token_ids"][i]))
        mask = mask if mask and any(mask) else None  # a row that is not trained on was sampled all the same
        reason = normalize_finish_reason((output.get("stop_reasons") or {i: None})[i])
        said = Completion(split_turns(ids, mask, decode), reason, last_turn(ids, mask), opened=opened)
        return Sample(said.rollout(engine, query, f"{_OWNER}: {uid}", tokenizer), uid, query.rubric)

    # --------------------------------------------------------------------------------------------------------- prompts

    def _remember(self, batch: Mapping[str, Any]) -> None:
        _, column = engine_of(self.rubrank, _OWNER)
        known = self.__dict__.setdefault("_asked", {})
        ids: Sequence[Any] = batch.get("trajectory_ids") or ()
        extras = batch.get("env_extras") or [None] * len(ids)
        told: dict[str, Any] = {}
        for one, prompt, extra in zip(ids, batch["prompts"], extras, strict=False):
            uid = str(one.instance_id)
            if told.setdefault(uid, prompt) != prompt:
                allowed = "of one prompt: rows with the same one are a group"
                raise InvalidInput(_OWNER, "uid", allowed, f"{uid!r} of two", "Renumber the rows of the dataset.")
            known[uid] = query_of(prompt, extra or {}, rubric_column=column)
        while len(known) > _MOST:
            del known[next(iter(known))]

    def _query(self, uid: str, column: str) -> Query | None:
        if uid in self.__dict__.get("_asked", {}):
            return self._asked[uid]
        rows = getattr(getattr(self, "train_dataset", None), "dataframe", None)
        if rows is None or not uid.isdigit() or int(uid) >= len(rows):
            return None
        row = dict(rows[int(uid)])
        return query_of(row.get("prompt"), {**(row.get("extra_info") or {}), **row}, rubric_column=column)


def _check(output: Mapping[str, Any], uids: Sequence[Any], tokenizer: Any) -> None:
    """Refuse what would mix up groups, or cannot be read."""
    number = len(output["response_ids"])
    if len(uids) != number or any(uid is None for uid in uids):
        got = f"{sum(uid is not None for uid in uids)} for {number} responses"
        raise InvalidInput(_OWNER, "uids", "one for each response", got, "Pass what SkyRL's generator was given.")
    if tokenizer is None and number:
        raise InvalidInput(_OWNER, "tokenizer", "the trainer's", "none", "Mix it into a trainer that has one.")


def _held_out(batch: Mapping[str, Any]) -> bool:
    """Is the batch of an evaluation?"""
    return getattr(batch.get("batch_metadata"), "training_phase", "train") == "eval"
