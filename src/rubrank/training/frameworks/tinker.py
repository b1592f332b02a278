"""tinker-cookbook: a rubric as the reward of a group of environments.

    from rubrank.training.frameworks.tinker import RubricGroupBuilder

    class Dataset(RLDataset):
        def get_batch(self, index):
            return [RubricGroupBuilder(builder, engine, row["prompt"], renderer, row, step=index) for …]

Input. The cookbook calls `compute_group_rewards(trajectory_group, env_group)` of a builder when all its rollouts have
ended. This class wraps your builder and keeps its environments, tags and clean-up. A completion is made of the actions
of a trajectory, decoded by the renderer. The results of tools are in the observations, as tokens: pass `completion_of=`
(trajectory, environment → messages) if an environment keeps the conversation.

Output. The cookbook gets a reward and metrics for each trajectory. They replace those of the builder and are added to
what the environments reward step by step, so let those return 0. It cannot leave a rollout out: one without any score
gets the mean of its group.

Processes. Builders may be sent to other processes together with their engines; each engine then has its own memory, and
`records` must not be written by several.

Tested with tinker-cookbook 0.5.8 installed: `do_group_rollout`, its metrics and advantages, with a scripted policy. The
Tinker service was not called.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.training.engine import RewardEngine
from rubrank.training.queries import Completion, make_query, score_query, to_messages
from rubrank.training.rollouts import find_token_opening_tag

_OWNER = "RubricGroupBuilder"


@dataclass(frozen=True, eq=False)
class RubricGroupBuilder:
    """An `EnvGroupBuilder` that rewards by a rubric.

    builder: makes the environments. prompt: text or messages, for judges and verifiers.
    renderer: decodes actions; not needed with `completion_of`.
    row: what else is known about the query: its `rubric`, reference answers.
    step: the step of the run, such as the index of the batch. train: False for an evaluation.
    rubric_column: the key of `row` under which the query has its own rubric.
    completion_of: (trajectory, environment) → messages; by default the renderer decodes the actions.
    """

    builder: Any
    engine: RewardEngine
    prompt: Any
    renderer: Any = None
    row: Any = None
    step: int = 0
    train: bool = True
    rubric_column: str = "rubric"
    completion_of: Callable[[Any, Any], Any] | None = None

    def __post_init__(self) -> None:
        if self.renderer is None and self.completion_of is None:
            raise InvalidInput(
                _OWNER,
                "renderer",
                allowed="given, or completion_of",
                got="neither",
                remedy="Pass renderer=get_renderer(…), which decodes the tokens of actions.",
            )
        query = make_query(self.prompt, self.row, rubric_column=self.rubric_column)
        # Checked before anything is sampled.
        self.engine.check_rubric(query.rubric, f"{_OWNER}({query.prompt!r:.40})")

    async def make_envs(self) -> Sequence[Any]:
        """Return the builder's environments."""
        return await self.builder.make_envs()

    def logging_tags(self) -> list[str]:
        """Return the builder's tags."""
        return self.builder.logging_tags()

    async def cleanup(self) -> None:
        """Clean up as the builder does."""
        await self.builder.cleanup()

    async def compute_group_rewards(
        self, trajectory_group: Sequence[Any], env_group: Sequence[Any]
    ) -> list[tuple[float, dict[str, float]]]:
        """Return (reward, metrics of the group) for each trajectory."""
        pairs = zip(trajectory_group, env_group, strict=True)
        result = await score_query(
            self.engine,
            make_query(self.prompt, self.row, rubric_column=self.rubric_column),
            [self._read_completion(trajectory, env) for trajectory, env in pairs],
            step=self.step,
            train=self.train,
            where=_OWNER,
            tokenizer=getattr(self.renderer, "tokenizer", None),
        )
        return [(reward, dict(result.metrics)) for reward in result.flat(means=True)]

    def _read_completion(self, trajectory: Any, env: Any) -> Completion:
        """Return the messages of a trajectory, with finish reason and tokens of its last action.

        In the cookbook's transitions, `ob` is an observation and `ac` the action that followed it, both as tokens.
        """
        transitions = [transition for transition in trajectory.transitions if transition.ac.tokens]
        if self.completion_of is not None:
            content = to_messages(self.completion_of(trajectory, env))
        else:
            parsed = [
                self.renderer.parse_response(transition.ac.tokens)[0] for transition in transitions
            ]
            content = [to_messages(message) for message in parsed]
        if not transitions:
            return Completion(content)
        last_transition = transitions[-1]
        action = last_transition.ac
        reasoning_tag = None
        tokenizer = getattr(self.renderer, "tokenizer", None)
        observation: Any = getattr(last_transition, "ob", None)  # what the action was sampled from
        if tokenizer is not None and hasattr(observation, "to_ints"):
            reasoning_tag = find_token_opening_tag(tokenizer, observation.to_ints())
        # If the sampler reported no reason, the renderer knows whether it found the end of the action.
        reason = getattr(action, "stop_reason", None)
        if not reason and self.renderer is not None:
            _, has_ended = self.renderer.parse_response(action.tokens)
            # Anything else than True or False leaves the reason unknown.
            reason = {True: "stop", False: "length"}.get(has_ended)
        return Completion(content, reason, action.tokens, reasoning_tag=reasoning_tag)
