"""Episodes of verifiers 0.4, as its environments and prime-rl hand them over: traces of one task → rewards.

    await reward_episodes(engine, [episode, …], name="rubric")     the traces of one task, however many episodes

Traces of the same agent (seat) are a group: a proposer is not compared with a solver. What an agent that does not train
the policy said is left alone, and so is a trace that ended in an error: the machine's fault is no score. The rubric's
reward takes the place of what the task rewarded, which is kept among the metrics as `task/<name>`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rubrank.training.engine import RewardEngine, StepRewards
from rubrank.training.queries import Completion, query_of, score_query, split_prompt, without_unknown
from rubrank.training.rollouts import normalize_finish_reason

_OWNER = "verifiers"


async def reward_episodes(
    engine: RewardEngine,
    episodes: Sequence[Any],
    *,
    rubric_column: str = "rubric",
    name: str = "rubric",
    step: int | None = None,
    replace: bool = True,
) -> list[StepRewards]:
    """Record a reward on every trace; what was found about each group.

    step: by default the one at which an episode was dispatched. replace: False leaves what the task rewarded beside it.
    """
    seats: dict[str, list[Any]] = {}
    for episode in episodes:
        for trace in episode.traces:
            if trace.agent.trainable and trace.last_error is None:
                seats.setdefault(trace.agent.name, []).append(trace)
    at, train = when(episodes)
    at = at if step is None else step
    return [await _reward(engine, traces, rubric_column, name, at, train, replace) for traces in seats.values()]


def when(episodes: Sequence[Any]) -> tuple[int, bool]:
    """The step of the run, where it is known, and whether it trains."""
    run = next((one.run for one in episodes if getattr(one, "run", None) is not None), None)
    work = getattr(run, "work", None)
    kind = getattr(run if work is None else work, "type", "train")
    return int(getattr(work, "step", 0) or 0), kind != "eval"


async def _reward(
    engine: RewardEngine, traces: Sequence[Any], column: str, name: str, step: int, train: bool, replace: bool
) -> StepRewards:
    data = traces[0].task.data
    query = query_of(_prompt(traces[0]), _row(data), rubric_column=column)
    said = [completion_of(trace) for trace in traces]
    result = await score_query(engine, query, said, step=step, train=train, where=f"{_OWNER}: {name}")
    for trace, reward in zip(traces, without_unknown(result.flat()), strict=True):
        if replace:
            _put_aside(trace, name)
        trace.record_reward(name, reward)
    return result


def _prompt(trace: Any) -> Any:
    return split_prompt(_conversation(trace))[0] or trace.task.data.prompt or ""


def _row(data: Any) -> dict[str, Any]:
    """The task's own fields; its prompt is in the conversation, with the system's."""
    given = data.model_dump(exclude_none=True) if hasattr(data, "model_dump") else dict(data)
    info = given.pop("info", None)
    row = {name: value for name, value in given.items() if name not in ("prompt", "system_prompt")}
    return {**row, **(info if isinstance(info, Mapping) else {})}


def completion_of(trace: Any) -> Completion:
    """What the policy said in a trace, why it ended, and how many tokens its answer has."""
    call = next((one for one in reversed(trace.calls) if one.error is None), None)
    usage = getattr(call, "usage", None)
    reason = "length" if trace.is_truncated else normalize_finish_reason(getattr(call, "finish_reason", None))
    tokens, thought = getattr(usage, "completion_tokens", None), getattr(usage, "reasoning_tokens", None)
    return Completion(split_prompt(_conversation(trace))[1], reason, tokens=tokens, reasoning_tokens=thought)


def _conversation(trace: Any) -> list[Any]:
    """Of the last branch: what was said before a context was compacted is another one."""
    branches = trace.branches
    return list(branches[-1].messages) if branches else []


def _put_aside(trace: Any, name: str) -> None:
    for other in [key for key in trace.rewards if key != name]:
        reward = trace.rewards.pop(other)
        if reward is not None:
            trace.record_metric(f"task/{other}", reward.value)
