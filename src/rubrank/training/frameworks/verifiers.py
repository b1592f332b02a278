"""verifiers: a rubric as a reward function of whole groups (≤ 0.3.1), or at the end of an episode (0.4).

    from rubrank.training.frameworks.verifiers import group_reward, rubric_of            verifiers ≤ 0.3.1

    env = vf.SingleTurnEnv(dataset=dataset, rubric=rubric_of("reward.yaml"))
    rubric.add_reward_func(group_reward(engine))                 or: beside functions of your own

    from rubrank.training.frameworks.verifiers import RubricFinalize                     verifiers 0.4

    class Env(RubricFinalize, BestOfNEnv): ...                   any environment whose episode has several attempts

A function of a `vf.Rubric` whose parameters have plural names is called with all rollouts of an example: shape (a). A
row's `info` may hold the query's own rubric; what else is in it, and `answer`, is metadata. verifiers cannot leave a
rollout out: one about which nothing is known gets the mean of its group. It does not say its step either.

verifiers catches what a function raises, logs it, and gives the group zeros: with no other function no advantage, so
nothing is learnt from it. Look for "Error calling group reward function" in the log.

verifiers 0.4 has no Rubric. `Env.finalize(task, episode)` sees the finished traces of an episode, which are the group
(`episodes.py`): n attempts, as in its best-of-n environment. What is raised there fails the episode, and verifiers
tries it again. Where a group is several episodes, as in prime-rl, see `prime_rl.py`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.training.config import engine_of, without_steps
from rubrank.training.engine import RewardEngine, StepRewards
from rubrank.training.frameworks.episodes import reward_episodes
from rubrank.training.queries import Completion, query_of, score_query, without_unknown
from rubrank.training.rollouts import normalize_finish_reason

_OWNER = "verifiers"


def group_reward(
    engine: RewardEngine | str | Path | None = None,
    *,
    rubric_column: str | None = None,
    name: str = "rubric",
    report: Callable[[StepRewards], None] | None = None,
) -> Callable[..., Awaitable[list[float]]]:
    """A reward function for `vf.Rubric`.

    engine: one, or the path of a configuration; None: the one that RUBRANK_CONFIG names.
    rubric_column: where a row's `info` has its own rubric; by default the configuration's, or "rubric".
    name: among the metrics of verifiers. report: called with what each group gave, for logs.
    """
    found, key = _engine(engine)
    key = rubric_column or key
    numbers = count()

    async def reward(prompts: list, completions: list, answers: list, infos: list, states: list) -> list[float]:
        query = query_of(prompts[0], {"answer": answers[0] or None}, infos[0], rubric_column=key)
        said = [_completion(one, state) for one, state in zip(completions, states, strict=True)]
        result = await score_query(found, query, said, step=next(numbers), where=f"{_OWNER}: {name}")
        if report is not None:
            report(result)
        return without_unknown(result.flat())

    reward.__name__ = name
    return reward


def rubric_of(engine: RewardEngine | str | Path | None = None, **given: Any) -> Any:
    """A `vf.Rubric` with `group_reward` as its only function; the parameters are the same."""
    vf = _package()
    return vf.Rubric(funcs=[group_reward(engine, **given)])


class RubricFinalize:
    """To be mixed in before an environment of verifiers 0.4."""

    rubrank: RewardEngine | str | Path | None = None
    """An engine, or the path of a configuration; None: RUBRANK_CONFIG."""
    rubrank_name = "rubric"
    """Of the reward, in a trace."""
    rubrank_replaces = True
    """False: what the task rewards is added to it, instead of becoming a metric."""

    async def finalize(self, task: Any, episode: Any) -> None:
        """The environment's own judgement, then the rubric's rewards."""
        await super().finalize(task, episode)  # type: ignore[misc]
        engine, column = engine_of(self.rubrank, _OWNER)
        given: dict[str, Any] = {"rubric_column": column, "name": self.rubrank_name}
        for result in await reward_episodes(engine, [episode], replace=self.rubrank_replaces, **given):
            self.rubrank_report(result)

    def rubrank_report(self, result: StepRewards) -> None:
        """Called with what each group gave; override it for logs."""


def _engine(given: RewardEngine | str | Path | None) -> tuple[RewardEngine, str]:
    found, key = engine_of(given, _OWNER)
    return without_steps(found, _OWNER), key


def _completion(said: Any, state: Any) -> Completion:
    """With why the last response of a rollout ended, and how many tokens it has."""
    if not isinstance(state, Mapping):
        return Completion(said)
    turns = state.get("trajectory") or state.get("responses") or ()
    last = turns[-1] if turns else None
    response = last.get("response", last) if isinstance(last, Mapping) else last
    choices, usage = _of(response, "choices") or (), _of(response, "usage")
    ended = choices[0] if choices else _of(response, "message")  # of an endpoint's own response, or of verifiers'
    reason = "length" if state.get("is_truncated") is True else _of(ended, "finish_reason")
    thought = _of(usage, "reasoning_tokens") or _of(_of(usage, "completion_tokens_details"), "reasoning_tokens")
    tokens = _number(_of(usage, "completion_tokens"))
    return Completion(said, normalize_finish_reason(reason), tokens=tokens, reasoning_tokens=_number(thought) or None)


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _of(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _package() -> Any:
    remedy = "pip install 'verifiers<0.4'; with 0.4, mix RubricFinalize of this module into an environment."
    try:
        import verifiers as vf  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise InvalidInput(_OWNER, "package", "installed", str(error), remedy) from error
    if not hasattr(vf, "Rubric"):
        got = f"{getattr(vf, '__version__', 'another')}, which has none"
        raise InvalidInput(_OWNER, "version", "one with Rubric functions (≤ 0.3.1)", got, remedy)
    return vf
