"""verifiers ≤ 0.3.1: a rubric as a reward function of whole groups.

    from rubrank.training.verifiers import group_reward, rubric_of

    env = vf.SingleTurnEnv(dataset=dataset, rubric=rubric_of("reward.yaml"))
    rubric.add_reward_func(group_reward(engine))                 or: beside functions of your own

A function of a `vf.Rubric` whose parameters have plural names is called with all rollouts of an example: shape (a). A
row's `info` may hold the query's own rubric; what else is in it, and `answer`, is metadata. verifiers cannot leave a
rollout out: one about which nothing is known gets the mean of its group. It does not say its step either.

verifiers catches what a function raises, logs it, and gives the group zeros: with no other function no advantage, so
nothing is learnt from it. Look for "Error calling group reward function" in the log. verifiers 0.4.0 has no Rubric.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from itertools import count
from pathlib import Path
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.training.configured import configured, without_checkpoints, without_steps
from rubrank.training.engine import RewardEngine, StepRewards
from rubrank.training.queries import query_of, score_query, without_unknown

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
        result = await score_query(
            found,
            query,
            completions,
            step=next(numbers),
            where=f"{_OWNER}: {name}",
            finish_reasons=[_finish_reason(state) for state in states],
        )
        if report is not None:
            report(result)
        return without_unknown(result.flat())

    reward.__name__ = name
    return reward


def rubric_of(engine: RewardEngine | str | Path | None = None, **given: Any) -> Any:
    """A `vf.Rubric` with `group_reward` as its only function; the parameters are the same."""
    vf = _package()
    return vf.Rubric(funcs=[group_reward(engine, **given)])


def _engine(given: RewardEngine | str | Path | None) -> tuple[RewardEngine, str]:
    if isinstance(given, RewardEngine):
        return without_checkpoints(without_steps(given, _OWNER), _OWNER), "rubric"
    found, key = configured(given, _OWNER)
    return without_steps(found, _OWNER), key


def _finish_reason(state: Any) -> str | None:
    """What the last response of a rollout says, or the state."""
    if not isinstance(state, Mapping):
        return None
    if state.get("is_truncated") is True:
        return "length"
    turns = state.get("trajectory") or state.get("responses") or ()
    last = turns[-1] if turns else None
    response = last.get("response", last) if isinstance(last, Mapping) else last
    choices = _of(response, "choices") or ()
    reason = _of(choices[0], "finish_reason") if choices else None
    return reason if isinstance(reason, str) else None


def _of(value: Any, name: str) -> Any:
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)


def _package() -> Any:
    remedy = "pip install 'verifiers<0.4'"
    try:
        import verifiers as vf  # type: ignore[import-not-found, import-untyped, unused-ignore]
    except ImportError as error:
        raise InvalidInput(_OWNER, "package", "installed", str(error), remedy) from error
    if not hasattr(vf, "Rubric"):
        got = f"{getattr(vf, '__version__', 'another')}, which has none"
        raise InvalidInput(_OWNER, "version", "one with Rubric functions (≤ 0.3.1)", got, remedy)
    return vf
