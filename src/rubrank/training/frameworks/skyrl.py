"""SkyRL 0.3 and 0.4: a rubric as the rewards of a batch.

    from skyrl.train.trainer import RayPPOTrainer
    from rubrank.training.frameworks.skyrl import RubricRewards

    class Trainer(RubricRewards, RayPPOTrainer): ...          or FullyAsyncRayPPOTrainer

Input. SkyRL calls `postprocess_generator_output(generator_output, uids)` with the whole batch as tokens, and the uid of
every row, in the one process that controls the run. Prompts, rubrics and what verifiers need are taken from the
generator's input, else from the row of the dataset whose number is the uid. The loss mask separates the turns of an
agent.

Output. SkyRL gets the rubric's rewards in the generator's output. In step-wise training only the last step of a
trajectory is rewarded, as in SkyRL. A rollout without any score gets the mean of its group.

Evaluations. SkyRL's `evaluate` calls the generator directly, so evaluations are not rewarded here. Their prompts are
not remembered either, because their uids are row numbers of another dataset. Reward metrics cover the rows that are
trained on, but not groups that the asynchronous trainer dropped: those have no rewards of the rubric.

Tested with SkyRL 0.4.0 installed: the method of its `RayPPOTrainer`, with the output of a scripted generator. No
training was run.
"""

from __future__ import annotations

from typing import Any

from rubrank.errors import InvalidInput
from rubrank.training.config import EngineSource, load_engine
from rubrank.training.engine import RewardEngine
from rubrank.training.flat_batch import Sample, score_flat
from rubrank.training.queries import Completion, Query, make_query
from rubrank.training.rollouts import find_last_turn, find_token_opening_tag, split_turns

_OWNER = "SkyRL"


class RubricRewards:
    """A mixin; put it before one of SkyRL's trainers."""

    rubrank: EngineSource = None
    """An engine, or the path of a configuration; None: RUBRANK_CONFIG."""
    tokenizer: Any
    _queries: dict[str, Query]

    async def generate(self, input_batch: Any) -> Any:
        """Call SkyRL's generator, and remember the queries that are trained on."""
        phase = getattr(input_batch.get("batch_metadata"), "training_phase", "train")
        if phase == "eval":
            return await super().generate(input_batch)  # type: ignore[misc]
        _, rubric_column = load_engine(self.rubrank, _OWNER)
        # Not set in `__init__`, which SkyRL's trainers need not call for their other bases.
        queries = self.__dict__.setdefault("_queries", {})
        prompts = input_batch["prompts"]
        trajectory_ids = input_batch["trajectory_ids"]
        extras = input_batch.get("env_extras") or [None] * len(prompts)
        prompt_of_uid: dict[str, Any] = {}
        for trajectory_id, prompt, extra in zip(trajectory_ids, prompts, extras, strict=True):
            uid = str(trajectory_id.instance_id)
            if prompt_of_uid.setdefault(uid, prompt) != prompt:
                raise InvalidInput(
                    _OWNER,
                    "uid",
                    allowed="different for different prompts: rows with the same uid are a group",
                    got=f"{uid!r} for two prompts",
                    remedy="Renumber the rows of the dataset.",
                )
            queries[uid] = make_query(prompt, extra or {}, rubric_column=rubric_column)
        return await super().generate(input_batch)  # type: ignore[misc]

    def postprocess_generator_output(
        self, generator_output: Any, uids: Any, *args: Any, **options: Any
    ) -> Any:
        """Replace the environments' rewards by the rubric's, then do what SkyRL does."""
        engine, rubric_column = load_engine(self.rubrank, _OWNER)
        is_last_step = generator_output.get("is_last_step") or [True] * len(uids)
        rewarded_rows = [i for i, is_last in enumerate(is_last_step) if is_last]
        samples = []
        for i in rewarded_rows:
            query = self._find_query(str(uids[i]), rubric_column)
            samples.append(
                _read_sample(engine, generator_output, i, str(uids[i]), query, self.tokenizer)
            )
        result = score_flat(engine, samples, step=int(getattr(self, "global_step", 0)), means=True)
        rewards = [0.0] * len(uids)
        for i, reward in zip(rewarded_rows, result.rewards, strict=True):
            rewards[i] = reward
        generator_output["rewards"] = rewards
        getattr(self, "all_metrics", {}).update(result.metrics)
        return super().postprocess_generator_output(  # type: ignore[misc]
            generator_output, uids, *args, **options
        )

    def _find_query(self, uid: str, rubric_column: str) -> Query | None:
        """Return the query of a uid, from the generator's input or else the dataset; None if neither has it."""
        if uid in self.__dict__.get("_queries", {}):
            return self._queries[uid]
        rows = getattr(getattr(self, "train_dataset", None), "dataframe", None)
        if rows is None or not uid.isdigit() or int(uid) >= len(rows):
            return None
        row = dict(rows[int(uid)])
        extra_info = row.get("extra_info") or {}
        return make_query(row.get("prompt"), {**extra_info, **row}, rubric_column=rubric_column)


def _read_sample(
    engine: RewardEngine, output: Any, i: int, uid: str, query: Query | None, tokenizer: Any
) -> Sample:
    """Return row `i` of the output as a sample. query: None if only the tokens of the prompt are known."""

    def decode(ids: Any) -> str:
        return str(tokenizer.decode(ids, skip_special_tokens=True))

    prompt_ids = output["prompt_token_ids"][i]
    ids = output["response_ids"][i]
    mask = output["loss_masks"][i] if output.get("loss_masks") else None
    if not mask or not any(mask):
        mask = None  # a row that is masked as a whole is not trained on, but has a response
    reason = output["stop_reasons"][i] if output.get("stop_reasons") else None
    if query is None:
        query = make_query(decode(prompt_ids))
    completion = Completion(
        split_turns(ids, mask, decode),
        reason,
        find_last_turn(ids, mask),
        reasoning_tag=find_token_opening_tag(tokenizer, prompt_ids),
    )
    rollout = completion.to_rollout(query, engine.thinking, f"{_OWNER}: {uid}", tokenizer)
    return Sample(rollout, uid, query.rubric)
