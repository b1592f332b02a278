"""Rubrics that grow during a run with TRL: judged items for prompts whose rubric no longer tells responses apart.

    reward = RubricReward("rubric.yaml", judges="judges.yaml", records="records.jsonl")
    GRPOTrainer(…, reward_funcs=reward, callbacks=[reward.callback, evolve(reward, writers="writers.yaml", every=50)])

`rubrank.drafting.evolution` says which items are proposed, kept and retired. An item is used from the step on at which
it was added: earlier rewards do not change, and evaluations never use it. The state is part of the trainer's
checkpoint. With several processes the first one calls the writers, and all use the same items. AsyncGRPO computes
rewards in another process, so its rubrics cannot evolve.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    log_path = None
    if log is not None:
        log_path = Path(log)
    elif records is not None:
        log_path = records.parent / LOG_NAME
    start_evolution(reward, RubricEvolution(settings, reward.engine.judges, log_path))
    return make_callback(reward)


def start_evolution(reward: RubricReward, evolution: RubricEvolution) -> None:
    """Pass every training step to the evolution, and use its items in the rewards."""

    def observe(
        groups: Sequence[Group], table: ScoreTable, rewards: StepRewards, step: int
    ) -> None:
        for group, scores, group_rewards, stopped_by in zip(
            groups, table.groups, rewards.rewards, rewards.stopped_by, strict=True
        ):
            observation = Observation(
                prompt=describe_prompt(group.rollouts[0]),
                responses=[rollout.response for rollout in group.rollouts],
                criteria=scores.criteria,
                scores=scores.scores,
                rewards=group_rewards,
                passed=[not gates for gates in stopped_by],  # the gates that stopped each rollout
                step=step,
            )
            evolution.observe(observation)

    reward.evolution = evolution
    reward.engine.observer = observe


def observe_record(record: GroupRecord) -> Observation | None:
    """Return the observation of a recorded group; None if its texts were not recorded."""
    if record.prompt is None or record.responses is None:
        return None
    # A rollout without response: the same prompt must give the same text as during the run.
    rollout = Rollout.model_validate({"prompt": list(record.prompt), "response": ""})
    return Observation(
        prompt=describe_prompt(rollout),
        responses=record.responses,
        criteria=record.criteria,
        scores=to_array(record.scores, (record.size, len(record.criteria))),
        rewards=record.reward,
        passed=[True] * record.size if record.gate is None else record.gate.passed,
        step=record.step or 0,
    )


def describe_prompt(rollout: Rollout) -> str:
    """Return the prompt as one text: the content of a single message, or several messages with their roles."""
    if len(rollout.prompt) == 1:
        return rollout.prompt[0].content
    return "\n\n".join(f"{message.role}: {message.content}" for message in rollout.prompt)


def make_callback(reward: RubricReward) -> Any:
    """Make the trainer's callback that proposes items between steps, and keeps the state in checkpoints."""
    # Imported here: this module is also used where TRL is not installed.
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
                # A resumed run repeats the steps after its checkpoint, whose events are in the log already.
                evolution.rewind_log(state.global_step)

        def on_step_end(self, args: Any, state: Any, control: Any, **kwargs: Any) -> None:
            step = state.global_step
            if evolution.is_due(step):
                processes = current_processes()
                is_first = processes.rank == 0
                # The first process calls the writers, and every process gets its proposals.
                proposals_of_ranks = gather_results(
                    processes, lambda: evolution.propose(step) if is_first else []
                )
                evolution.apply(proposals_of_ranks[0], write=is_first)
            # The trainer writes these states into its checkpoints.
            state.stateful_callbacks[STATE_KEY] = evolution.state_dict()

    return EvolutionCallback()
