"""Rubrics that grow during a run with TRL: judged items for prompts whose rubric no longer tells responses apart.

    reward = RubricReward("rubric.yaml", judges="judges.yaml", records="records.jsonl")
    GRPOTrainer(…, reward_funcs=reward, callbacks=[reward.callback, evolve(reward, writers="writers.yaml", every=50)])

`rubrank.drafting.evolution` says which items are proposed, kept and retired. An item is used from the step on at which
it was added: earlier rewards do not change, and evaluations never use it. The state is part of the trainer's
checkpoint. With several processes the first one calls the writers, and all use the same items. AsyncGRPO computes
rewards in another process, so its rubrics cannot evolve.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rubrank._plain import validate_model
from rubrank.drafting.evolution import EvolveOptions, Observation, RubricEvolution
from rubrank.records.record import GroupRecord, to_array
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.scores.table import ScoreTable

if TYPE_CHECKING:
    from rubrank.training.engine import StepRewards
    from rubrank.training.frameworks.trl import RubricReward

LOG_NAME = "evolution.jsonl"
STATE_KEY = "rubrank/evolution"


def evolve(reward: RubricReward, *, log: str | Path | None = None, **options: Any) -> Any:
    """Let the rubrics of a reward function evolve; returns the callback for the trainer.

    options: those of `EvolveOptions`; `writers` is needed.
    log: the file to which events are appended; by default evolution.jsonl beside the records, if the engine has any.
    """
    settings = validate_model(EvolveOptions, options, "evolve", "docs/drafting.md")
    records = reward.engine.records
    if log is None and records is not None:
        log = records.parent / LOG_NAME
    start_evolution(
        reward, RubricEvolution(settings, reward.engine.judges, None if log is None else Path(log))
    )
    return make_callback(reward)


def start_evolution(reward: RubricReward, evolution: RubricEvolution) -> None:
    """Pass every training step to the evolution, and use its items in the rewards."""

    def observe(
        groups: Sequence[Group], table: ScoreTable, rewards: StepRewards, step: int
    ) -> None:
        for observation in observe_step(groups, table, rewards, step):
            evolution.observe(observation)

    reward.evolution = evolution
    reward.engine.observer = observe


def observe_step(
    groups: Sequence[Group], table: ScoreTable, rewards: StepRewards, step: int
) -> Iterable[Observation]:
    """What an evolution needs to know about each group of a step."""
    for group, scores, group_rewards, stopped_by in zip(
        groups, table.groups, rewards.rewards, rewards.stopped_by, strict=True
    ):
        yield Observation(
            describe_prompt(group.rollouts[0]),
            [rollout.response for rollout in group.rollouts],
            scores.criteria,
            scores.scores,
            group_rewards,
            [not gates for gates in stopped_by],
            step,
        )


def observe_record(record: GroupRecord) -> Observation | None:
    """What an evolution needs to know about a recorded group; None if its texts were not recorded."""
    if record.prompt is None or record.responses is None:
        return None
    rollout = Rollout.model_validate({"prompt": list(record.prompt), "response": ""})
    return Observation(
        describe_prompt(rollout),
        record.responses,
        record.criteria,
        to_array(record.scores, (record.size, len(record.criteria))),
        record.reward,
        [True] * record.size if record.gate is None else record.gate.passed,
        record.step or 0,
    )


def describe_prompt(rollout: Rollout) -> str:
    """The prompt as one text: a single message as it is, several messages with their roles."""
    if len(rollout.prompt) == 1:
        return rollout.prompt[0].content
    return "\n\n".join(f"{message.role}: {message.content}" for message in rollout.prompt)


def make_callback(reward: RubricReward) -> Any:
    """The callback that proposes items between steps, and keeps the state in checkpoints."""
    from transformers import TrainerCallback

    from rubrank.training.flat_batch import gather_results
    from rubrank.training.frameworks.trl import current_processes

    assert reward.evolution is not None
    evolution: RubricEvolution = reward.evolution

    class EvolutionCallback(TrainerCallback):
        """Restores the state from a checkpoint, and applies proposals after the steps at which they are due."""

        def on_train_begin(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            saved = state.stateful_callbacks.get(STATE_KEY)
            if saved is not None:
                evolution.load_state_dict(saved)
            if state.is_world_process_zero:
                evolution.rewind_log(state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            step = state.global_step
            if evolution.is_due(step):
                processes = current_processes()
                is_first = processes.rank == 0
                proposals = gather_results(
                    processes, lambda: evolution.propose(step) if is_first else []
                )
                evolution.apply(proposals[0], write=is_first)
            state.stateful_callbacks[STATE_KEY] = evolution.state_dict()

    return EvolutionCallback()
