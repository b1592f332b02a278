"""verifiers: a rubric as a reward function of whole groups (≤ 0.3.1), or at the end of an episode (0.4).

verifiers ≤ 0.3.1 has a `vf.Rubric` of reward functions:

    from rubrank.training.frameworks.verifiers import group_reward, rubric_of

    env = vf.SingleTurnEnv(dataset=dataset, rubric=rubric_of("reward.yaml"))
    rubric.add_reward_func(group_reward(engine))                 or: beside your own functions

  Input.   A function whose parameters have plural names is called with all rollouts of an example, which are the group.
           A row's `info` may contain the query's own rubric; the rest of it, and `answer`, are metadata.
  Output.  A list of rewards.
  Errors.  verifiers catches what a function raises, logs it, and gives the group zeros. Without another function the
           group then has no advantage, and nothing is learned from it. Look for "Error calling group reward function"
           in the log.
  Step.    verifiers does not pass its step, so calls are counted instead.
  Tested   with 0.3.1 installed: `Rubric.score_group`, and `SingleTurnEnv.generate` with a scripted client.

verifiers 0.4 has no `Rubric`. It calls `Env.finalize(task, episode)` with the finished traces of an episode, such as
the n attempts of its best-of-n environment:

    from rubrank.training.frameworks.verifiers import RubricFinalize

    class Env(RubricFinalize, BestOfNEnv): ...                   any environment whose episode has several attempts

  Input.   Traces of the same agent are a group: a proposer is not compared with a solver. In prime-rl a group is
           several episodes; see `prime_rl.py`.
  Output.  The reward is set on each trace. It replaces that of the task, which is kept as the metric `task/<name>`.
           Traces of agents that are not trained, and traces that ended in an error, get no reward.
  Errors.  An error fails the episode, and verifiers tries it again.
  Step.    The run of an episode says which step it is, and whether it is an evaluation.
  Tested   with 0.4.0 installed, except its sandbox client: `Trace`, `Episode`, and `finalize` of its best-of-n
           environment.

Neither can leave a rollout out: one without any score gets the mean of its group.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from itertools import count
from typing import Any

from rubrank.errors import InvalidInput
from rubrank.training.config import EngineSource, load_engine
from rubrank.training.engine import RewardEngine, StepRewards
from rubrank.training.queries import Completion, make_query, score_query, split_prompt

_OWNER = "verifiers"


def group_reward(
    engine: EngineSource = None,
    *,
    rubric_column: str | None = None,
    name: str = "rubric",
    report: Callable[[StepRewards], None] | None = None,
) -> Callable[..., Awaitable[list[float]]]:
    """Return a reward function for `vf.Rubric`.

    engine: an engine, or the path of a configuration; None: RUBRANK_CONFIG.
    rubric_column: the key of a row's `info` with its own rubric; by default the configuration's, or "rubric".
    name: the name of the reward among the metrics of verifiers.
    report: called with the result of each group, for logs.
    """
    reward_engine, configured_column = load_engine(engine, _OWNER, passes_step=False)
    column = rubric_column or configured_column
    calls = count()

    async def reward(
        prompts: list, completions: list, answers: list, infos: list, states: list
    ) -> list[float]:
        query = make_query(
            prompts[0], {"answer": answers[0] or None}, infos[0], rubric_column=column
        )
        pairs = zip(completions, states, strict=True)
        result = await score_query(
            reward_engine,
            query,
            [read_completion(completion, state) for completion, state in pairs],
            step=next(calls),
            where=f"{_OWNER}: {name}",
        )
        if report is not None:
            report(result)
        return result.flat(means=True)

    reward.__name__ = name
    return reward


def rubric_of(engine: EngineSource = None, **options: Any) -> Any:
    """Return a `vf.Rubric` with `group_reward` as its only function; the options are the same."""
    import verifiers as vf  # type: ignore[import-not-found, import-untyped, unused-ignore]

    if not hasattr(vf, "Rubric"):
        raise InvalidInput(
            _OWNER,
            "version",
            allowed="≤ 0.3.1, with Rubric functions",
            got="one without",
            remedy="With 0.4, mix RubricFinalize of this module into an environment.",
        )
    return vf.Rubric(funcs=[group_reward(engine, **options)])


def read_completion(completion: Any, state: Any) -> Completion:
    """Return a completion of verifiers ≤ 0.3.1, with the finish reason and the token counts of its last response."""
    if not isinstance(state, Mapping):
        return Completion(completion)
    turns = state.get("trajectory")
    response = turns[-1]["response"] if turns else None
    reason = getattr(getattr(response, "message", None), "finish_reason", None)
    if state.get("is_truncated") is True:
        reason = "length"
    usage = getattr(response, "usage", None)
    return Completion(
        completion,
        reason,
        tokens=getattr(usage, "completion_tokens", None),
        reasoning_tokens=getattr(usage, "reasoning_tokens", None) or None,
    )


# ------------------------------------------------------------------------------------------ verifiers 0.4, prime-rl


class RubricFinalize:
    """A mixin; put it before an environment of verifiers 0.4."""

    rubrank: EngineSource = None
    """An engine, or the path of a configuration; None: RUBRANK_CONFIG."""
    rubrank_name = "rubric"
    """The name of the reward in a trace."""
    rubrank_replaces = True
    """False: the rubric's reward is added to the task's instead of replacing it."""

    async def finalize(self, task: Any, episode: Any) -> None:
        """Let the environment judge, then set the rubric's rewards."""
        await super().finalize(task, episode)  # type: ignore[misc]
        # Makes the engine of a configuration once per process, and then returns the same: the rule keeps its memory.
        engine, rubric_column = load_engine(self.rubrank, _OWNER)
        results = await reward_episodes(
            engine,
            [episode],
            rubric_column=rubric_column,
            name=self.rubrank_name,
            replace=self.rubrank_replaces,
        )
        for result in results:
            self.rubrank_report(result)

    def rubrank_report(self, result: StepRewards) -> None:
        """Called with the result of each group; override it for logs."""


async def reward_episodes(
    engine: RewardEngine,
    episodes: Sequence[Any],
    *,
    rubric_column: str = "rubric",
    name: str = "rubric",
    replace: bool = True,
) -> list[StepRewards]:
    """Record a reward on every trace of one task, however many episodes it has; returns the result of each group.

    replace: False adds the rubric's reward to the task's instead of replacing it.
    """
    traces_of_agent: dict[str, list[Any]] = {}
    for episode in episodes:
        for trace in episode.traces:
            if trace.agent.trainable and trace.last_error is None:
                traces_of_agent.setdefault(trace.agent.name, []).append(trace)
    step, train = _find_step(episodes)
    results = []
    for traces in traces_of_agent.values():
        conversation = _read_conversation(traces[0])
        task_data = traces[0].task.data
        prompt = split_prompt(conversation)[0] or task_data.prompt or ""
        result = await score_query(
            engine,
            make_query(prompt, _read_row(task_data), rubric_column=rubric_column),
            [_read_trace(trace) for trace in traces],
            step=step,
            train=train,
            where=f"{_OWNER}: {name}",
        )
        for trace, reward in zip(traces, result.flat(means=True), strict=True):
            if replace:
                _turn_rewards_into_metrics(trace, except_for=name)
            trace.record_reward(name, reward)
        results.append(result)
    return results


def _turn_rewards_into_metrics(trace: Any, except_for: str) -> None:
    """Turn the rewards of a trace into metrics `task/<name>`, except the one with the given name."""
    for name in list(trace.rewards):
        if name == except_for:
            continue
        reward = trace.rewards.pop(name)
        if reward is not None:
            trace.record_metric(f"task/{name}", reward.value)


def _find_step(episodes: Sequence[Any]) -> tuple[int, bool]:
    """Return the step of the run, 0 if unknown, and whether it trains.

    The run of an episode is one of:

        run.type == "train", run.work.type == "train", run.work.step == 12        a step of training
        run.type == "train", run.work.type == "eval", run.work.step == 12         an evaluation during training
        run.type == "eval"                                                        an evaluation by itself: no work
        None                                                                      not known: counts as training
    """
    runs = [getattr(episode, "run", None) for episode in episodes]
    run = next((run for run in runs if run is not None), None)
    if run is None:
        return 0, True
    work = getattr(run, "work", None)
    if work is None:
        return 0, run.type != "eval"
    return int(work.step), work.type != "eval"


def _read_row(data: Any) -> dict[str, Any]:
    """Return the task's own fields; its prompts are in the conversation."""
    row = data.model_dump(exclude_none=True) if hasattr(data, "model_dump") else dict(data)
    info = row.pop("info", None)
    row.pop("prompt", None)
    row.pop("system_prompt", None)
    return {**row, **info} if isinstance(info, Mapping) else row


def _read_trace(trace: Any) -> Completion:
    """Return what a trace answered, with finish reason and token counts of its last call that worked."""
    call = next((call for call in reversed(trace.calls) if call.error is None), None)
    usage = getattr(call, "usage", None)
    return Completion(
        split_prompt(_read_conversation(trace))[1],
        "length" if trace.is_truncated else getattr(call, "finish_reason", None),
        tokens=getattr(usage, "completion_tokens", None),
        reasoning_tokens=getattr(usage, "reasoning_tokens", None),
    )


def _read_conversation(trace: Any) -> list[Any]:
    """Return the messages of the last branch. Compacting the context begins a new branch."""
    return list(trace.branches[-1].messages) if trace.branches else []
