"""TRL's GRPOTrainer: a rubric as reward function.

    from rubrank.training.trl import RubricReward

    reward = RubricReward("rubric.yaml", rule="rlvr2+", records="records.jsonl")
    trainer = GRPOTrainer(model, reward_funcs=reward, callbacks=[reward.callback], args=…, train_dataset=…)

Input. TRL calls a reward function with the rows of one process: prompts, completions, and every other column of the
dataset. Its sampler repeats a prompt `num_generations` times in a row, in the order of all processes. So a group is a
*position*, never a prompt text, and the rows of a process may begin or end within a group (`flat_batch.py`). In
AsyncGRPO a call has one group, in a separate process.

Output. TRL gets a list of rewards, with None for a completion without any score: TRL leaves it out.

Evaluations. The trainer knows whether it is training, and the group size (`num_generations`, in evaluations
`num_generations_eval`). The reward function finds the trainer through `log_metric`, which is one of its methods, or
through the callback. Without a trainer the group size is the option `num_generations`, or else the number of times that
prompts repeat.

Step. TRL passes its state. AsyncGRPO does not, so calls are counted instead.

Tested with TRL 1.16.0 installed: training runs on CPU, in one process and in two; AsyncGRPO's own scoring method.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from math import gcd, isnan
from typing import TYPE_CHECKING, Any, Unpack

import numpy as np

from rubrank.errors import InvalidInput, JudgeOutage, JudgingFailed, RubrankError
from rubrank.fusion.rule import Rule
from rubrank.options import EngineKeywords, EngineOptions, check_keywords
from rubrank.training.config import refuse_late_controls
from rubrank.training.engine import RewardEngine
from rubrank.training.flat_batch import Processes, Sample, score_flat
from rubrank.training.queries import find_own_rubric, select_row_columns
from rubrank.training.rollouts import (
    find_end_token_ids,
    find_template_opening_tag,
    infer_finish_reason,
    rollout_of,
    unwrap_tokenizer,
)

if TYPE_CHECKING:
    from rubrank.drafting.evolution import RubricEvolution
    from rubrank.training.frameworks.trl_callback import RubricCallback
    from rubrank.training.metrics import DisputedRollout

MESSAGES_COLUMN = "completion_messages"
"""Column that a rollout function may return: the messages of each completion, which TRL decodes into one text."""
_OWNER = "RubricReward"
# Columns that are large, or that reach the rollout in another way.
_NOT_METADATA = ("image", "images", "video", "videos", "audio", "tools", MESSAGES_COLUMN)


@dataclass(frozen=True, eq=False)
class TrainerInfo:
    """The arguments, the model and the tokenizer of the trainer that calls the reward function."""

    args: Any
    model: Any
    tokenizer: Any = None

    @property
    def reasoning_tag(self) -> str | None:
        """The reasoning tag in which the chat template ends, so that completions begin inside the reasoning."""
        options = getattr(self.args, "chat_template_kwargs", None) or {}
        return find_template_opening_tag(self.tokenizer, **options)

    def infer_finish_reasons(self, completion_ids: Sequence[Any]) -> list[str | None]:
        """Return why each completion ended: an end token, or the trainer's limit."""
        end_ids = find_end_token_ids(unwrap_tokenizer(self.tokenizer), self.model)
        max_tokens = getattr(self.args, "max_completion_length", None)
        return [infer_finish_reason(ids, end_ids, max_tokens) for ids in completion_ids]


class RubricReward:
    """A reward function for TRL: called with what TRL passes, it returns a reward, or None, for each completion.

    rubric: criteria applied to every response; a row's own rubric is added.
    rule: an expression of `find_rule`, such as "rlvr2+", or a rule.
    rubric_column: the column with a row's own rubric, in any shape of docs/rubrics.md. None: "rubric", or
        `instruction_id_list` and `kwargs`, if the dataset has them.
    num_generations: rollouts per query, only needed without a trainer.
    name: the name of the reward in the trainer's log.
    options: judges, attributes, records and all other options of `rubrank.training.engine.RewardEngine`.
    """

    def __init__(
        self,
        rubric: Any = None,
        *,
        rule: str | Rule = "rlvr2+",
        rubric_column: str | None = None,
        num_generations: int | None = None,
        name: str = "rubric",
        **options: Unpack[EngineKeywords],
    ) -> None:
        if num_generations is not None and num_generations < 1:
            raise InvalidInput(
                _OWNER,
                "num_generations",
                allowed="≥ 1",
                got=repr(num_generations),
                remedy="Leave it out.",
            )
        check_keywords(
            _OWNER,
            options,
            [*EngineOptions.model_fields, "rubric_column", "num_generations", "name"],
        )
        self.engine = RewardEngine(rubric, rule, **options)
        self.rubric_column = rubric_column
        self.num_generations = num_generations
        self.__name__ = name
        self.trainer: TrainerInfo | None = None
        self.rewind_random_state: Callable[[], None] | None = None
        """Restores the random state of the beginning of the step; set by the callback."""
        self.evolution: RubricEvolution | None = None
        """Items that are added to rubrics during the run; set by `rubrank.training.evolution.evolve`."""
        self._calls = 0
        self._has_warned = False

    def __getstate__(self) -> dict[str, Any]:
        """Without the model and the callback: AsyncGRPO sends the function to another process."""
        state = {name: value for name, value in self.__dict__.items() if name != "callback"}
        return {**state, "trainer": None, "rewind_random_state": None, "evolution": None}

    @cached_property
    def callback(self) -> RubricCallback:
        """For `GRPOTrainer(callbacks=[…])`: saves what the rule has learnt with each checkpoint, and restores it."""
        from rubrank.training.frameworks.trl_callback import RubricCallback

        return RubricCallback(self)

    def attach(self, args: Any, model: Any) -> None:
        """Remember the trainer's arguments and its model; raises if it would scale advantages twice.

        Called by the callback.
        """
        scale_rewards = getattr(args, "scale_rewards", "group")
        self.engine.check_scaling(_OWNER, "scale_rewards", scale_rewards not in (False, "none"))
        self.trainer = TrainerInfo(args, model)

    # ---------------------------------------------------------------------------------------------------------- calls

    def __call__(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        *,
        completion_ids: Any = None,
        trainer_state: Any = None,
        log_metric: Any = None,
        log_extra: Any = None,
        environments: Any = None,
        **columns: Any,
    ) -> list[float | None]:
        """Return the reward of every completion; None if it has no score, so that TRL leaves it out.

        The arguments are TRL's: the rows of this process (columns of the dataset in `columns`), the sampled tokens, and
        functions with which metrics and texts are logged. `environments` is not used; it is named here because it is
        not a column.
        """
        # 1. Find the trainer, whether it trains, and its step.
        if self.trainer is None:
            # Without the callback no checkpoint would contain what is estimated and learnt.
            self.engine.leave_out_default_control()
            if not self._has_warned and self.engine.remembers:
                self._has_warned = True
                message = (
                    f"{_OWNER}: no checkpoint contains the memory of {self.engine.rule.name!r}: "
                    "pass callbacks=[reward.callback] to the trainer"
                )
                warnings.warn(message, RuntimeWarning, stacklevel=2)
        trainer = self.trainer
        caller = getattr(log_metric, "__self__", None)
        args = getattr(caller, "args", None)
        model = getattr(caller, "model", None)
        if hasattr(args, "num_generations") and hasattr(model, "training"):
            trainer = TrainerInfo(args, model, getattr(caller, "processing_class", None))
        train = trainer is None or bool(trainer.model.training)
        if trainer_state is not None:
            step = int(trainer_state.global_step)
        else:
            refuse_late_controls(self.engine, _OWNER)  # AsyncGRPO passes no step
            step = self._calls
            self._calls += 1

        # 2. Score the groups of all processes together. Samples are read by a function, so that all processes raise if
        # it fails in one; the others would wait forever.
        with checkpoint_before_outage(caller if train else None, self.rewind_random_state):
            result = score_flat(
                self.engine,
                lambda: self.make_samples(
                    prompts, completions, columns, completion_ids, trainer, train
                ),
                step=step,
                train=train,
                group_of=lambda samples: self._number_groups(samples, trainer, train),
                processes=current_processes(),
            )

        # 3. Log what TRL has a place for.
        if log_metric:
            metrics = result.metrics
            if self.evolution is not None:
                metrics = {**metrics, **self.evolution.metrics()}
            for name, value in metrics.items():
                log_metric(name, value)
        if train and getattr(trainer_state, "is_world_process_zero", False):
            log_distributions(
                caller, result.distributions, result.disputed, trainer_state.global_step
            )
        if log_extra:
            for name, texts in result.columns.items():
                log_extra(name, texts)
        return [None if isnan(reward) else reward for reward in result.rewards]

    def make_samples(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        columns: Mapping[str, Any],
        completion_ids: Any = None,
        trainer: TrainerInfo | None = None,
        train: bool = True,
    ) -> list[Sample]:
        """Return the rows of this process as samples, reasoning separated from answers and tokens counted.

        train: False for an evaluation, which leaves out items that were added to rubrics during the run, so that
            evaluations stay comparable.
        """
        number = len(completions)
        row_columns = select_row_columns(columns, number)
        not_metadata = (self.rubric_column or "rubric", *_NOT_METADATA)
        unknown: list[Any] = [None] * number
        has_ids = completion_ids is not None and len(completion_ids) == number
        ids = completion_ids if has_ids else unknown
        finish_reasons: Sequence[str | None] = unknown
        tokenizer = None
        reasoning_tag = None
        if trainer is not None:
            tokenizer = unwrap_tokenizer(trainer.tokenizer)
            reasoning_tag = trainer.reasoning_tag
            if has_ids:
                finish_reasons = trainer.infer_finish_reasons(ids)
        samples = []
        for i in range(number):
            row = {name: values[i] for name, values in row_columns.items()}
            messages = row.get(MESSAGES_COLUMN)
            metadata = {
                name: value
                for name, value in row.items()
                if name not in not_metadata and value is not None
            }
            rollout = rollout_of(
                prompts[i],
                completions[i] if messages is None else messages,
                where=f"{_OWNER}: row {i}",
                tools=row.get("tools"),
                metadata=metadata,
                finish_reason=finish_reasons[i],
                thinking=self.engine.thinking,
                # TRL applies no template to texts.
                reasoning_tag=None if isinstance(prompts[i], str) else reasoning_tag,
                ids=ids[i],
                tokenizer=tokenizer,
            )
            rubric = self._read_rubric(row)
            if self.evolution is not None and train:
                from rubrank.training.evolution import describe_prompt

                rubric = self.evolution.extend(rubric, describe_prompt(rollout))
            samples.append(Sample(rollout, rubric=rubric))
        return samples

    def _read_rubric(self, row: Mapping[str, Any]) -> Any:
        """Return a row's own rubric, or None. Raises InvalidInput if the row must have one, and lacks the column."""
        column = self.rubric_column or "rubric"
        has_column = column in row or (self.rubric_column is None and "instruction_id_list" in row)
        is_needed = self.rubric_column is not None or self.engine.rubric is None
        if is_needed and not has_column:
            raise InvalidInput(
                _OWNER,
                "rubric_column",
                allowed=f"one of the dataset's columns ({', '.join(sorted(row)) or 'none'})",
                got=repr(column),
                remedy="Or leave it out, and pass a shared rubric: RubricReward(rubric).",
            )
        if self.rubric_column is not None:
            return row[column]
        # The sources of a mixture may have a rubric or instructions, each in its own columns.
        return find_own_rubric(row)

    def _number_groups(
        self, samples: Sequence[Sample], trainer: TrainerInfo | None, train: bool
    ) -> list[int]:
        """Return the number of the group of every sample: samples of a group follow each other.

        The trainer says how many. Prompts are not compared then, because environments may add to those of each rollout.
        Without a trainer, the number is found from the prompts that repeat.
        """
        if trainer is not None:
            size = int(trainer.args.num_generations)
            if self.num_generations not in (None, size):
                raise InvalidInput(
                    _OWNER,
                    "num_generations",
                    allowed=f"{size}, as in the trainer's arguments",
                    got=str(self.num_generations),
                    remedy="Leave it out: the trainer's is used.",
                )
            if not train:
                size = int(trainer.args.num_generations_eval or size)
            if len(samples) % size:
                raise InvalidInput(
                    _OWNER,
                    "rows",
                    allowed=f"a multiple of the group size, {size}",
                    got=str(len(samples)),
                    remedy="Every process must call, with all of its rows.",
                )
            return [i // size for i in range(len(samples))]
        # A group may not contain different prompts, so its size divides the length of every run of equal prompts.
        run_lengths = [
            len(list(run)) for _, run in groupby(sample.rollout.prompt for sample in samples)
        ]
        size = gcd(*run_lengths)
        if self.num_generations is not None and size % self.num_generations == 0:
            size = self.num_generations
        elif size == 1 and len(samples) > 1:
            repeats = sorted(set(run_lengths))
            raise InvalidInput(
                _OWNER,
                "num_generations",
                allowed="such that the rollouts of a query are consecutive, and more than one",
                got=f"{self.num_generations} for {len(samples)} rows whose prompts repeat {repeats} times",
                remedy="Pass callbacks=[reward.callback] to the trainer.",
            )
        # Otherwise the option does not apply: evaluations may have another group size, and AsyncGRPO may lose rollouts.
        return [i // size for i in range(len(samples))]

    def check(self, dataset: Iterable[Mapping[str, Any]]) -> int:
        """Check the rubric of every row of a dataset before a model is loaded; returns how many rows there are."""
        return self.engine.check_rubrics(
            (self._read_rubric(row), f"row {number}") for number, row in enumerate(dataset, start=1)
        )


def log_distributions(
    trainer: Any, distributions: Mapping[str, Any], disputed: Sequence[DisputedRollout], step: int
) -> None:
    """Log histograms, and the rollouts about which criteria disagree most, to TensorBoard and Weights & Biases.

    A trainer's log takes numbers only, so these go to the loggers directly.
    """
    values = {name: array[~np.isnan(array)] for name, array in distributions.items()}
    texts = []
    for rollout in disputed:
        title = f"{rollout.group}, rollout {rollout.number}: {rollout.scores}; reward {rollout.reward:.3g}"
        texts.append(f"{title}\n\n{rollout.prompt}\n\n{rollout.response}")
    for callback in getattr(getattr(trainer, "callback_handler", None), "callbacks", ()):
        writer = getattr(callback, "tb_writer", None)
        if writer is not None:
            for name, array in values.items():
                if len(array):
                    writer.add_histogram(name, array, step)
            for number, text in enumerate(texts):
                writer.add_text(f"rubrank/disputed/{number}", text, step)
    wandb = sys.modules.get("wandb")
    if wandb is not None and getattr(wandb, "run", None) is not None:
        wandb.log(
            {name: wandb.Histogram(array) for name, array in values.items() if len(array)},
            commit=False,
        )
        rows = [
            [rollout.group, rollout.scores, rollout.reward, rollout.response]
            for rollout in disputed
        ]
        table = wandb.Table(columns=["group", "scores", "reward", "response"], data=rows)
        wandb.log({"rubrank/disputed": table}, commit=False)


def current_processes() -> Processes:
    """This process among those that train together; alone unless torch.distributed was initialised with several."""
    torch = sys.modules.get("torch")  # a process that has not imported it has initialised nothing
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return Processes()
    world = distributed.get_world_size()
    if world == 1:
        return Processes()
    from accelerate import PartialState  # type: ignore[import-untyped, import-not-found, unused-ignore]
    from accelerate.utils import gather_object  # type: ignore[import-untyped, import-not-found, unused-ignore]

    accelerate_world = PartialState().num_processes
    if accelerate_world != world:
        # It would gather from fewer processes, and rewards would be fused without the other rollouts.
        raise InvalidInput(
            _OWNER,
            "processes",
            allowed=f"{world}, as in torch.distributed",
            got=f"{accelerate_world} in accelerate",
            remedy="On CPUs, GRPOConfig needs use_cpu=True before anything else uses accelerate.",
        )
    return Processes(gather_object, distributed.get_rank(), world)


@contextmanager
def checkpoint_before_outage(
    trainer: Any, rewind: Callable[[], None] | None = None
) -> Iterator[None]:
    """Save a checkpoint before an error of the judges ends the run, so that no step is lost.

    rewind: restores the random state of the beginning of the step, so that a resumed run samples the same rollouts, and
    the replies of judges about them are not paid for again.
    """
    try:
        yield
    except RubrankError as error:
        # With several processes, it may be the error of another one.
        reason = error.__cause__ or error
        is_outage = isinstance(reason, JudgeOutage | JudgingFailed)
        save = getattr(trainer, "_save_checkpoint", None)
        if is_outage and save is not None and trainer.state.global_step:
            try:
                if rewind is not None:
                    rewind()
                save(trainer.model, None)
            except Exception as failure:
                # The run ends because of the judges, and that is what must be reported.
                error.add_note(f"No checkpoint could be saved: {type(failure).__name__}: {failure}")
        raise
