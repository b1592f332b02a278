"""TRL's GRPOTrainer: a rubric as reward function.

    from rubrank.training.frameworks.trl import RubricReward

    reward = RubricReward("rubric.yaml", rule="rlvr2+", records="records.jsonl")
    trainer = GRPOTrainer(model, reward_funcs=reward, callbacks=[reward.callback], args=…, train_dataset=…)

TRL calls a reward function with the rows of one process: prompts, completions, and every other column of the dataset.
Its sampler repeats a prompt `num_generations` times in a row in the order of all processes, so a group is a *position*
there, never a prompt text, and a process's rows may begin or end within a group (shape (b), `flat_batch.py`). In
AsyncGRPO a call brings one group, in a process of its own.

How many rows are a group? The trainer knows (`num_generations`, in evaluations `num_generations_eval`), and whether it
is training; it is asked through the `log_metric` that it passes, which is a method of its own, or through the callback.
Where there is no trainer, `num_generations` says it, or else prompts that repeat.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cached_property
from itertools import groupby
from math import gcd, isnan
from typing import TYPE_CHECKING, Any, NamedTuple

from rubrank.errors import InvalidInput, JudgeOutage, JudgingFailed, RubrankError
from rubrank.options import EngineOptions, check_keywords
from rubrank.rollouts.rollout import Rollout
from rubrank.training.engine import RewardEngine
from rubrank.training.rollouts import (
    count_tokens,
    end_token_ids,
    infer_finish_reason,
    rollout_of,
    template_opening_tag,
)
from rubrank.training.shapes.flat_batch import GroupOf, Processes, Sample, by_position, score_flat

if TYPE_CHECKING:
    from rubrank.training.frameworks.trl_callback import RubricCallback

_OWNER = "RubricReward"
_INSTRUCTIONS = ("instruction_id_list", "kwargs")
TURNS = "completion_messages"
"""What a rollout function may hand on: the messages of each completion, which TRL decodes into one text."""
_NOT_METADATA = ("image", "images", "video", "videos", "audio", "tools", TURNS)  # large, or passed on otherwise


class _Training(NamedTuple):
    """The run that asks."""

    args: Any
    model: Any
    tokenizer: Any = None


class _Sampled(NamedTuple):
    """What the trainer knows about how completions were sampled; None: not known."""

    ids: Sequence[Any]
    reasons: Sequence[str | None]
    """Why each ended: an end token, or as many tokens as the trainer lets sample."""
    tokenizer: Any = None
    opened: str | None = None
    """The tag in which the chat template ends: completions begin in their thoughts."""

    @classmethod
    def of(cls, run: _Training | None, completion_ids: Any, number: int) -> _Sampled:
        options = getattr(run and run.args, "chat_template_kwargs", None) or {}
        opened = None if run is None else template_opening_tag(run.tokenizer, **options)
        if completion_ids is None or len(completion_ids) != number:
            return cls([None] * number, [None] * number, opened=opened)
        if run is None:
            return cls(completion_ids, [None] * number)
        tokenizer = getattr(run.tokenizer, "tokenizer", run.tokenizer)  # a processor has one
        ends, most = end_token_ids(tokenizer, run.model), getattr(run.args, "max_completion_length", None)
        return cls(completion_ids, [infer_finish_reason(ids, ends, most) for ids in completion_ids], tokenizer, opened)


class RubricReward:
    """A reward function for TRL: call it with what TRL passes, and it gives a reward, or None, for each completion.

    rubric: what every query is asked; a row's own rubric is added.
    rubric_column: where a row has it, in any shape of docs/rubrics.md. None: "rubric", or `instruction_id_list` and
        `kwargs`, if the dataset has them.
    num_generations: rollouts of a query, only where no trainer can be asked.
    name: in the trainer's log.
    options: rule, judges, attributes, records and all others of `rubrank.training.engine.RewardEngine`.
    """

    def __init__(
        self,
        rubric: Any = None,
        *,
        rubric_column: str | None = None,
        num_generations: int | None = None,
        name: str = "rubric",
        **options: Any,
    ) -> None:
        if num_generations is not None and num_generations < 1:
            raise InvalidInput(_OWNER, "num_generations", "≥ 1", repr(num_generations), "Leave it out.")
        check_keywords(_OWNER, options, [*EngineOptions.model_fields, "rubric_column", "num_generations", "name"])
        self.engine = RewardEngine(rubric, **options)
        self.rubric_column, self.num_generations, self.__name__ = rubric_column, num_generations, name
        self._run: _Training | None = None
        self.rewound: Callable[[], None] | None = None
        """Brings chance back to the beginning of the step; the callback sets it."""
        self._calls = 0
        self._warned = False

    def __getstate__(self) -> dict[str, Any]:
        """Without the model and the callback: AsyncGRPO sends the function to another process."""
        return {name: v for name, v in self.__dict__.items() if name != "callback"} | {"_run": None, "rewound": None}

    @cached_property
    def callback(self) -> RubricCallback:
        """For `GRPOTrainer(callbacks=[…])`: saves with each checkpoint what the rule remembers, and restores it."""
        from rubrank.training.frameworks.trl_callback import RubricCallback

        return RubricCallback(self)

    def attach(self, args: Any, model: Any) -> None:
        """Know the trainer's arguments and its model; the callback does it."""
        scaled = getattr(args, "scale_rewards", "group")
        self.engine.check_scaling(_OWNER, "scale_rewards", scaled not in (False, "none"))
        self._run = _Training(args, model)

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
        """The reward of every completion; None: nothing is known about it, and TRL leaves it out."""
        self._warn()
        run = _run_of(log_metric) or self._run
        train = run is None or bool(run.model.training)
        with saved_before_a_stop(getattr(log_metric, "__self__", None) if train else None, self.rewound):
            result = score_flat(
                self.engine,
                lambda: self._samples(
                    prompts, completions, columns, _Sampled.of(run, completion_ids, len(completions))
                ),
                step=self._step(trainer_state),
                train=train,
                group_of=self._by_prompts if run is None else by_position(self._size(run, train)),
                processes=current_processes(),
            )
        for name, value in result.metrics.items() if log_metric else ():
            log_metric(name, value)
        for name, texts in result.columns.items() if log_extra else ():
            log_extra(name, texts)
        return [None if isnan(reward) else reward for reward in result.rewards]

    def _warn(self) -> None:
        if self.engine.remembers and self._run is None and not self._warned:
            self._warned = True
            what = f"what {self.engine.rule.name!r} remembers is in no checkpoint: pass callbacks=[reward.callback]"
            warnings.warn(f"{_OWNER}: {what} to the trainer", RuntimeWarning, stacklevel=3)

    def _samples(
        self,
        prompts: Sequence[Any],
        completions: Sequence[Any],
        columns: Mapping[str, Any],
        sampled: _Sampled,
    ) -> list[Sample]:
        if len(prompts) != len(completions):
            got = f"{len(prompts)} prompts, {len(completions)} completions"
            raise InvalidInput(_OWNER, "prompts", "one for each completion", got, "Pass what TRL passes.")
        per_row = {name: values for name, values in columns.items() if _is_column(values, len(prompts))}
        rubrics = self._rubrics(per_row, len(prompts))
        kept = {name: v for name, v in per_row.items() if name not in (self.rubric_column or "rubric", *_NOT_METADATA)}
        tools = per_row.get("tools") or [None] * len(prompts)
        turns = per_row.get(TURNS) or [None] * len(prompts)
        return [
            Sample(
                self._rollout(
                    prompts[i],
                    completions[i] if turns[i] is None else turns[i],
                    i,
                    sampled,
                    tools=tools[i],
                    metadata={name: values[i] for name, values in kept.items() if values[i] is not None},
                ),
                rubric=rubrics[i],
            )
            for i in range(len(prompts))
        ]

    def _rollout(self, prompt: Any, said: Any, i: int, sampled: _Sampled, **given: Any) -> Rollout:
        """One rollout, its thoughts told from its answer and its tokens counted."""
        found = rollout_of(
            prompt,
            said,
            where=f"{_OWNER}: row {i}",
            finish_reason=sampled.reasons[i],
            thinking=self.engine.thinking,
            opened=None if isinstance(prompt, str) else sampled.opened,  # texts get no template
            ids=sampled.ids[i],
            tokenizer=sampled.tokenizer,
            **given,
        )
        return count_tokens(found, sampled.ids[i], sampled.tokenizer)

    def _rubrics(self, columns: Mapping[str, Any], number: int) -> list[Any]:
        """Each row's own rubric, or None."""
        column = self.rubric_column or "rubric"
        instructions = [name for name in _INSTRUCTIONS if self.rubric_column is None and name in columns]
        if column not in columns and (self.rubric_column or not (instructions or self.engine.rubric)):
            raise InvalidInput(
                _OWNER,
                "rubric_column",
                f"one of the dataset's columns ({', '.join(sorted(columns)) or 'none'})",
                repr(column),
                "Or leave it out, and pass a rubric for all: RubricReward(rubric).",
            )
        found = list(columns.get(column, [None] * number))
        for i, ids in enumerate(columns["instruction_id_list"] if "instruction_id_list" in instructions else ()):
            if found[i] is None and ids is not None:  # sources of a mixture have one or the other
                found[i] = {name: columns[name][i] for name in instructions}
        return found

    def _step(self, trainer_state: Any) -> int:
        if trainer_state is not None:
            return int(trainer_state.global_step)
        late = [control.name for control in self.engine.controls if control.start > 0]
        if late:
            allowed = "controlled from step 0 on, where the trainer does not say its step (AsyncGRPO)"
            raise InvalidInput(_OWNER, "attributes", allowed, repr(late[0]), "Leave `start` out.")
        self._calls += 1
        return self._calls - 1

    # --------------------------------------------------------------------------------------------------------- groups

    def _size(self, run: _Training, train: bool) -> int:
        trained = int(run.args.num_generations)
        if self.num_generations not in (None, trained):
            remedy = "Leave it out: the trainer is asked."
            raise InvalidInput(
                _OWNER,
                "num_generations",
                f"{trained}, as in the trainer's arguments",
                str(self.num_generations),
                remedy,
            )
        return trained if train else int(run.args.num_generations_eval or trained)

    def _by_prompts(self, samples: Sequence[Sample]) -> Sequence[Any]:
        """Groups where no trainer can be asked: so many in a row, but never of different prompts."""
        lengths = [len(list(run)) for _, run in groupby(sample.rollout.prompt for sample in samples)]
        repeated, given = gcd(*lengths), self.num_generations
        if given is not None and repeated % given == 0:
            group_of: GroupOf = by_position(given)
        elif repeated > 1 or len(samples) == 1:
            group_of = by_position(repeated)  # evaluations may have another number, and AsyncGRPO may lose some
        else:
            raise InvalidInput(
                _OWNER,
                "num_generations",
                "such that the rollouts of a query stand together, and number more than one",
                f"{given} for {len(samples)} rows whose prompts repeat {sorted(set(lengths))} times",
                "Pass callbacks=[reward.callback] to the trainer.",
            )
        return group_of(samples)

    # --------------------------------------------------------------------------------------------------------- checks

    def check(self, dataset: Iterable[Mapping[str, Any]]) -> int:
        """Try the rubric of every row of a dataset, before a model is loaded; returns how many rows there are."""
        return self.engine.check_rubrics(
            (self._rubrics({name: [value] for name, value in row.items()}, 1)[0], f"row {number}")
            for number, row in enumerate(dataset, start=1)
        )


def current_processes() -> Processes:
    """This process among those that train together; alone unless torch.distributed has begun with several."""
    torch = sys.modules.get("torch")  # who has not imported it has not begun anything
    if torch is None or not torch.distributed.is_available() or not torch.distributed.is_initialized():
        return Processes()
    world = torch.distributed.get_world_size()
    if world == 1:
        return Processes()
    from accelerate import PartialState  # type: ignore[import-untyped, import-not-found, unused-ignore]
    from accelerate.utils import gather_object  # type: ignore[import-untyped, import-not-found, unused-ignore]

    known = PartialState().num_processes
    if known != world:  # it would gather from so many only, and rewards would be fused without the other rollouts
        remedy = "On CPUs, GRPOConfig wants use_cpu=True before anything else asks accelerate."
        raise InvalidInput(_OWNER, "processes", f"{world}, as in torch.distributed", f"{known} in accelerate", remedy)
    return Processes(gather_object, torch.distributed.get_rank(), world)


@contextmanager
def saved_before_a_stop(trainer: Any, rewound: Callable[[], None] | None = None) -> Iterator[None]:
    """Where judges end the run, a checkpoint is saved first, if there is a trainer to ask: an outage costs no step.

    rewound: brings chance back to where the step began, so that a run that goes on samples the same rollouts, and what
    judges said about them is not paid again.
    """
    try:
        yield
    except RubrankError as error:
        why = error.__cause__ or error  # where several train, another process may have met it
        save = getattr(trainer, "_save_checkpoint", None)
        if isinstance(why, JudgeOutage | JudgingFailed) and save is not None and trainer.state.global_step:
            try:
                if rewound is not None:
                    rewound()
                save(trainer.model, None)
            except Exception as failure:  # the judges are what the run ends for, and what is to be told
                error.add_note(f"No checkpoint could be saved: {type(failure).__name__}: {failure}")
        raise


def _run_of(log_metric: Any) -> _Training | None:
    """The run whose method `log_metric` is."""
    owner = getattr(log_metric, "__self__", None)
    args, model = getattr(owner, "args", None), getattr(owner, "model", None)
    if not (hasattr(args, "num_generations") and hasattr(model, "training")):
        return None
    return _Training(args, model, getattr(owner, "processing_class", None))


def _is_column(values: Any, length: int) -> bool:
    return isinstance(values, Sequence) and not isinstance(values, str) and len(values) == length
