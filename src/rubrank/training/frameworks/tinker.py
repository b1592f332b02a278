"""tinker-cookbook: a rubric as the reward of a group of environments.

    from rubrank.training.frameworks.tinker import RubricGroupBuilder

    class Dataset(RLDataset):
        def get_batch(self, index):
            return [RubricGroupBuilder(builder, engine, row["prompt"], renderer, row, step=index) for …]

The cookbook calls `compute_group_rewards(trajectory_group, env_group)` of a builder when all its rollouts have ended:
shape (a). This one wraps a builder of yours, whose environments, tags and clean-up it keeps; its own group rewards take
the place of the builder's, and are added to what environments reward step by step, so let those give 0.

Completions are the actions of a trajectory, read by the renderer. What tools answered is in the observations, in
tokens: pass `completion_of=` (trajectory, environment → messages) where an environment keeps the conversation. The
cookbook cannot leave a rollout out: one about which nothing is known gets the mean of its group. Builders may be sent
to other processes, engines with them: each then remembers by itself, and `records` must not be written by several.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.training.engine import RewardEngine
from rubrank.training.queries import Completion, messages, query_of, score_query, without_unknown
from rubrank.training.rollouts import normalize_finish_reason, token_opening_tag

_OWNER = "RubricGroupBuilder"


@dataclass(frozen=True, eq=False)
class RubricGroupBuilder:
    """An `EnvGroupBuilder` that rewards by a rubric.

    builder: makes the environments. prompt: text or messages, for judges and verifiers.
    renderer: reads actions; not needed with `completion_of`.
    row: what else is known about the query: its `rubric`, reference answers.
    step: of the run, such as the index of the batch. train=False: an evaluation.
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
            remedy = "Pass renderer=get_renderer(…), which reads the tokens of actions."
            raise InvalidInput(_OWNER, "renderer", "given, or completion_of", "neither", remedy)
        query = query_of(self.prompt, self.row, rubric_column=self.rubric_column)
        self.engine.check_rubric(query.rubric, f"{_OWNER}({query.prompt!r:.40})")  # before anything is sampled

    async def make_envs(self) -> Sequence[Any]:
        """The builder's environments."""
        return await self.builder.make_envs()

    def logging_tags(self) -> list[str]:
        """The builder's tags."""
        return self.builder.logging_tags()

    async def cleanup(self) -> None:
        """The builder's clean-up."""
        await self.builder.cleanup()

    async def compute_group_rewards(
        self, trajectory_group: Sequence[Any], env_group: Sequence[Any]
    ) -> list[tuple[float, dict[str, float]]]:
        """A reward for each trajectory, and the metrics of the group."""
        query = query_of(self.prompt, self.row, rubric_column=self.rubric_column)
        said = [
            Completion(self._said(one, env), self._finish_reason(one), self._ids(one), opened=self._opened(one))
            for one, env in zip(trajectory_group, env_group, strict=True)
        ]
        tokenizer = getattr(self.renderer, "tokenizer", None)
        result = await score_query(
            self.engine, query, said, step=self.step, train=self.train, where=_OWNER, tokenizer=tokenizer
        )
        return [(reward, dict(result.metrics)) for reward in without_unknown(result.flat())]

    def _said(self, trajectory: Any, env: Any) -> Any:
        if self.completion_of is not None:
            return messages(self.completion_of(trajectory, env))
        actions = [step.ac.tokens for step in trajectory.transitions if step.ac.tokens]
        return [messages(self.renderer.parse_response(tokens)[0]) for tokens in actions]

    def _ids(self, trajectory: Any) -> Any:
        """The tokens of the last action."""
        return next((step.ac.tokens for step in reversed(trajectory.transitions) if step.ac.tokens), None)

    def _opened(self, trajectory: Any) -> str | None:
        """The tag in which what the last action was sampled from ends."""
        acted = [step for step in trajectory.transitions if step.ac.tokens]
        seen: Any = getattr(acted[-1], "ob", None) if acted else None
        tokenizer = getattr(self.renderer, "tokenizer", None)
        if tokenizer is None or not hasattr(seen, "to_ints"):
            return None
        return token_opening_tag(tokenizer, seen.to_ints())

    def _finish_reason(self, trajectory: Any) -> str | None:
        """Of the last action: what the sampler said, else whether the renderer found its end."""
        actions = [step.ac for step in trajectory.transitions if step.ac.tokens]
        if not actions:
            return None
        if reason := getattr(actions[-1], "stop_reason", None):
            return normalize_finish_reason(reason)
        if self.renderer is None:
            return None
        ended = self.renderer.parse_response(actions[-1].tokens)[1]
        return "stop" if ended is True else "length" if ended is False else None
