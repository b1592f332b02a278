"""tinker-cookbook's group rewards: through its own `do_group_rollout` where it is installed; with a stand-in anyway.

The stand-in has what the cookbook documents of trajectories: `transitions`, each with `ac.tokens` and `reward`.
"""

from __future__ import annotations

import asyncio
import importlib.util
import pickle
from math import nan
from types import SimpleNamespace
from typing import Any

import pytest

from rubrank.errors import InvalidInput
from rubrank.records.files import read_records
from rubrank.training.controls import Control
from rubrank.training.engine import RewardEngine, StepRewards
from rubrank.training.frameworks.tinker import RubricGroupBuilder

RUBRIC = ["EmptyAnswer", {"name": "Keyword", "params": {"keywords": ["lake"]}}]


class Characters:
    """A renderer whose tokens are characters; what is before "|" are thoughts."""

    def parse_response(self, tokens: list[int]) -> tuple[dict[str, Any], bool]:
        thoughts, bar, text = "".join(map(chr, tokens)).rpartition("|")
        parts: list[dict[str, str]] = [{"type": "thinking", "thinking": thoughts}] if bar else []
        return {"role": "assistant", "content": [*parts, {"type": "text", "text": text}]}, True


def tokens(text: str) -> list[int]:
    return list(map(ord, text))


def trajectory(*said: str) -> Any:
    steps = [SimpleNamespace(ac=SimpleNamespace(tokens=tokens(text)), reward=0.0) for text in said]
    return SimpleNamespace(transitions=steps, final_ob=None)


class Inner:
    """A builder of the user's."""

    cleaned = 0

    async def make_envs(self) -> list[str]:
        return ["a", "b"]

    def logging_tags(self) -> list[str]:
        return ["lakes"]

    async def cleanup(self) -> None:
        self.cleaned += 1


def builder(rubric: Any = RUBRIC, *, engine: RewardEngine | None = None, **given: Any) -> RubricGroupBuilder:
    return RubricGroupBuilder(Inner(), engine or RewardEngine(rubric), "Name a lake.", Characters(), **given)


def rewards(made: RubricGroupBuilder, *said: Any) -> list[float]:
    group = [trajectory(*([one] if isinstance(one, str) else one)) for one in said]
    found = asyncio.run(made.compute_group_rewards(group, [None] * len(group)))
    assert all(set(metrics) == set(found[0][1]) for _, metrics in found)
    return [reward for reward, _ in found]


def test_a_group():
    assert rewards(builder(), "West Lake.", "a lake?|No.", "") == [1.0, 0.25, 0.0]


def test_the_last_action_is_the_answer():
    assert rewards(builder(), ["a river", "a lake"], ["a lake", "a river"]) == [1.0, 0.25]


def test_metrics_go_with_every_trajectory():
    found = asyncio.run(builder().compute_group_rewards([trajectory("lake"), trajectory("x")], [None, None]))
    assert [metrics["rubrank/Keyword/mean"] for _, metrics in found] == [0.5, 0.5]


def test_environments_that_keep_the_conversation():
    def completion_of(trajectory: Any, env: Any) -> Any:
        return env["history"][1:]

    made = RubricGroupBuilder(Inner(), RewardEngine(RUBRIC), "q", completion_of=completion_of)
    envs = [{"history": [{"role": "user", "content": "q"}, {"role": "assistant", "content": t}]} for t in ("lake", "x")]
    found = asyncio.run(made.compute_group_rewards([trajectory("?")] * 2, envs))
    assert [reward for reward, _ in found] == [1.0, 0.25]


def test_rows_steps_and_evaluations(tmp_path):
    engine = RewardEngine(RUBRIC, "amrp", records=tmp_path / "records.jsonl")
    row = {"rubric": [{"name": "River", "verifier": "Keyword", "params": {"keywords": ["river"]}}], "answer": "x"}
    learnt = engine.state_dict()["memory"]
    rewards(builder(engine=engine, row=row, step=7, train=False), "a lake, a river", "a lake")
    assert engine.state_dict()["memory"] == learnt
    (record,) = read_records(engine.records)
    assert (record.step, record.group) == (7, "eval-7")
    assert "River" in [criterion.name for criterion in record.criteria]


def test_attributes_that_begin_later():
    engine = RewardEngine(RUBRIC, attributes=[Control("markdown", start=5)], pool="group", adjust_criteria="all")
    said = ["# A lake\n\n- one\n- two", "a lake", "no", "# no"]
    before = rewards(builder(engine=engine, step=4), *said)
    assert before == rewards(builder(), *said)
    assert before != rewards(builder(engine=engine, step=5), *said)


def test_who_is_not_known_gets_the_mean(monkeypatch):
    monkeypatch.setattr(RewardEngine, "fuse", lambda *_, **__: StepRewards(((1.0, nan, 0.5),)))
    assert rewards(builder(), "a", "b", "c") == [1.0, 0.75, 0.5]


def test_the_rest_is_the_builders():
    made = builder()
    assert asyncio.run(made.make_envs()) == ["a", "b"]
    assert made.logging_tags() == ["lakes"]
    asyncio.run(made.cleanup())
    assert made.builder.cleaned == 1


def test_what_is_missing_is_said_before_anything_is_sampled():
    with pytest.raises(InvalidInput, match="renderer must be given, or completion_of; got neither"):
        RubricGroupBuilder(Inner(), RewardEngine(RUBRIC), "q")
    with pytest.raises(InvalidInput, match="no judge for it"):
        builder(row={"rubric": [{"name": "Good", "description": "Is it good?"}]})
    with pytest.raises(InvalidInput, match="rubric must be given"):
        builder(None)


def test_builders_can_be_sent():
    sent = pickle.loads(pickle.dumps(builder(step=3)))
    assert rewards(sent, "a lake", "x") == [1.0, 0.25]


# --------------------------------------------------------------------------------------------- with the package only


@pytest.fixture
def cookbook():
    if importlib.util.find_spec("tinker_cookbook") is None:
        pytest.skip("tinker-cookbook is not installed")
    return pytest.importorskip("tinker_cookbook.rl.types")


def environments(types: Any, number: int) -> Any:
    """A builder of single-turn environments that reward nothing themselves."""
    import tinker

    class OneTurn(types.Env):
        async def initial_observation(self) -> Any:
            return tinker.ModelInput.from_ints(tokens("Name a lake.")), []

        async def step(self, action: Any, *, extra: Any = None) -> Any:
            empty = tinker.ModelInput.from_ints([])
            return types.StepResult(reward=0.0, episode_done=True, next_observation=empty, next_stop_condition=[])

    class Builder(types.EnvGroupBuilder):
        async def make_envs(self) -> list[Any]:
            return [OneTurn() for _ in range(number)]

    return Builder()


def policy(*said: str) -> Any:
    from tinker_cookbook.completers import TokenCompleter, TokensWithLogprobs

    left = list(said)

    class Scripted(TokenCompleter):
        async def __call__(self, model_input: Any, stop: Any, *, max_tokens: Any = None) -> Any:
            sampled = tokens(left.pop(0))
            return TokensWithLogprobs(tokens=sampled, maybe_logprobs=[0.0] * len(sampled))

    return Scripted()


def test_the_cookbooks_own_loop(cookbook):
    from tinker_cookbook.rl.data_processing import compute_advantages
    from tinker_cookbook.rl.metric_util import compute_trajectory_metrics
    from tinker_cookbook.rl.rollouts import do_group_rollout

    made = RubricGroupBuilder(environments(cookbook, 3), RewardEngine(RUBRIC), "Name a lake.", Characters())
    group = asyncio.run(do_group_rollout(made, policy("West Lake.", "a lake?|No.", "No, thanks.")))
    assert group.get_total_rewards() == [1.0, 0.0, 0.0]
    assert compute_advantages([group])[0].tolist() == pytest.approx([2 / 3, -1 / 3, -1 / 3])
    logged = compute_trajectory_metrics([group], [made.logging_tags()])
    assert logged["env/all/rubrank/Keyword/mean"] == pytest.approx(1 / 3)


def test_wrapping_has_all_that_a_builder_has(cookbook):
    public = {name for name in vars(cookbook.EnvGroupBuilder) if not name.startswith("_")}
    assert public <= {name for name in dir(RubricGroupBuilder) if not name.startswith("_")}


def test_messages_of_the_cookbook(cookbook):
    from tinker_cookbook.renderers.base import ToolCall

    from rubrank.training.queries import to_messages
    from rubrank.training.rollouts import rollout_of

    call = ToolCall(function=ToolCall.FunctionBody(name="find", arguments='{"what": "lake"}'), id="c1")
    said = [
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "hm"}], "tool_calls": [call]},
        {"role": "tool", "content": "West Lake", "tool_call_id": "c1", "name": "find"},
        {"role": "assistant", "content": [{"type": "thinking", "thinking": "so"}, {"type": "text", "text": "It is."}]},
    ]
    found = rollout_of("q", to_messages(said))
    assert (found.answer, found.thoughts) == ("It is.", "so")
    assert [(one.name, one.result) for one in found.tool_calls] == [("find", "West Lake")]
