"""slime's reward function of groups, against a stand-in: slime is not on the package index (`slime` there is another
project). The stand-in has the fields of `slime.utils.types.Sample` that a reward function may touch, and calls as
`slime.rollout.rm_hub.batched_async_rm` does: by the dotted path, with the arguments and all samples of a prompt.
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
from argparse import Namespace
from dataclasses import dataclass, field
from math import nan
from typing import Any

import pytest
import yaml
from judged import server_module

from rubrank.errors import InvalidInput
from rubrank.records.files import read_records
from rubrank.training.engine import RewardEngine, StepRewards

PATH = "rubrank.training.frameworks.slime.reward"
RUBRIC = ["EmptyAnswer", {"name": "Keyword", "params": {"keywords": ["lake"]}}]


@dataclass
class Sample:
    prompt: Any = "<|user|>Name a lake."
    response: str = ""
    label: str | None = None
    metadata: dict = field(default_factory=dict)
    group_index: int | None = 0
    index: int | None = None
    reward: float | None = None
    remove_sample: bool = False


def group(*said: str, **given: Any) -> list[Sample]:
    return [Sample(response=text, **given) for text in said]


async def batched_async_rm(args: Namespace, samples: list[Sample], **given: Any) -> list[float]:
    module, _, name = args.custom_rm_path.rpartition(".")
    return await getattr(importlib.import_module(module), name)(args, samples, **given)


def arguments(tmp_path: Any, config: dict[str, Any] | None = None, **given: Any) -> Namespace:
    path = tmp_path / "reward.yaml"
    path.write_text(yaml.safe_dump({"rubric": RUBRIC, **(config or {})}), encoding="utf-8")
    # --custom-config-path puts the keys of a file among the arguments
    return Namespace(custom_rm_path=PATH, rubrank_config=str(path), **{"rollout_batch_size": 2, **given})


def rewards(args: Namespace, samples: list[Sample]) -> list[float]:
    return asyncio.run(batched_async_rm(args, samples))


def test_a_group(tmp_path):
    samples = group("West Lake.", "No.", "")
    assert rewards(arguments(tmp_path), samples) == [1.0, 0.25, 0.0]
    assert not any(sample.remove_sample for sample in samples)


def test_many_groups_at_once(tmp_path):
    args = arguments(tmp_path)

    async def rollout() -> list[list[float]]:
        groups = [group("No.", "A lake.", group_index=i) for i in range(8)]
        return await asyncio.gather(*(batched_async_rm(args, one) for one in groups))

    assert asyncio.run(rollout()) == [[0.25, 1.0]] * 8


def test_judges_are_asked(tmp_path):
    module = server_module()

    def script(asked: Any) -> Any:
        return module.Answer(json.dumps({"reasoning": "…", "verdict": int("please" in asked.prompt)}))

    with module.Server(script) as server:
        judge = {"endpoints": [{"base_url": server.url, "model": "test-model"}], "timeout": 5.0}
        args = arguments(tmp_path, {"rubric": [{"name": "Kind", "question": "Is it kind?"}], "judges": judge})
        assert rewards(args, group("Go.", "Go, please.")) == [0.0, 1.0]


def test_the_environment_names_the_file(tmp_path, monkeypatch):
    args = arguments(tmp_path)
    monkeypatch.setenv("RUBRANK_CONFIG", args.rubrank_config)
    del args.rubrank_config
    assert rewards(args, group("No.", "A lake.")) == [0.25, 1.0]
    monkeypatch.delenv("RUBRANK_CONFIG")
    with pytest.raises(InvalidInput, match="RUBRANK_CONFIG"):
        rewards(args, group("No.", "A lake."))


def test_rows_bring_rubrics_and_prompts(tmp_path):
    own = {
        "rubric": [{"name": "River", "verifier": "Keyword", "params": {"keywords": ["river"]}}],
        "prompt": "Name it.",
    }
    args = arguments(tmp_path, {"records": "records.jsonl"})
    assert rewards(args, group("a lake", "a lake, a river", metadata=own, label="gold", group_index=5)) == [0.25, 1.0]
    (record,) = read_records(tmp_path / "records.jsonl")
    assert (record.group, record.step) == ("2/5", 2)
    assert record.prompt == ({"role": "user", "content": "Name it."},)


def test_who_is_not_known_is_kept_out_of_the_loss(tmp_path):
    own = {"rubric": ["FinalStateMatch"], "expected_state": {"a": 1}}  # and no final state: cannot be decided
    args = arguments(tmp_path, {"rubric": ["EmptyAnswer"]})
    samples = group("a", "b", "", metadata=own)
    assert rewards(args, samples) == [0.0, 0.0, 0.0]  # the third was stopped by a gate, so its 0 is known
    assert [sample.remove_sample for sample in samples] == [True, True, False]


def test_who_is_not_known_does_not_move_the_baseline(tmp_path, monkeypatch):
    monkeypatch.setattr(RewardEngine, "fuse", lambda *_, **__: StepRewards(((1.0, nan, 0.5),)))
    samples = group("a", "b", "c")
    assert rewards(arguments(tmp_path), samples) == [1.0, 0.75, 0.5]
    assert [sample.remove_sample for sample in samples] == [False, True, False]


def test_attributes_that_begin_later_need_a_step(tmp_path):
    late = {"attributes": [{"name": "markdown", "start": 1}], "pool": "group"}
    assert rewards(arguments(tmp_path, late), group("# lake", "lake", group_index=2))
    for given in (
        {"dynamic_sampling_filter_path": "a.b"},
        {"over_sampling_batch_size": 4},
        {"rollout_batch_size": None},
    ):
        with pytest.raises(InvalidInput, match="controlled from step 0 on"):
            rewards(arguments(tmp_path, late, **given), group("# lake", "lake"))


@pytest.mark.parametrize(
    ("samples", "message"),
    [
        (Sample(), "Pass --group-rm, and"),
        ([[Sample()], [Sample()]], "one for each rollout; got a list of lists"),
    ],
)
def test_what_is_no_group(tmp_path, samples, message):
    with pytest.raises(InvalidInput, match=message):
        rewards(arguments(tmp_path), samples)


def test_the_documented_signature():
    function = importlib.import_module("rubrank.training.frameworks.slime").reward
    assert inspect.iscoroutinefunction(function)
    assert list(inspect.signature(function).parameters)[:2] == ["args", "samples"]
