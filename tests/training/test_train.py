"""Config files of `rubrank train`: defaults, and one clear message for each thing that is wrong."""

from __future__ import annotations

import copy
import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from rubrank.errors import InvalidInput
from rubrank.options import AttributeOptions
from rubrank.training.job.config import Config, Training, load_job, parse_config

ROOT = Path(__file__).parents[2]

GOOD: dict[str, Any] = {
    "model": {"path": "policy"},
    "stages": [
        {"name": "chat", "steps": 700, "sources": [{"path": "a.jsonl", "share": 0.7}, {"path": "b", "share": 0.3}]},
        {"name": "agentic", "steps": 300, "sources": [{"path": "c.jsonl"}]},
    ],
    "rubric": "rubric.yaml",
    "attributes": [{"name": "markdown", "start": "70%"}],
    "output": "out",
}


def with_(place: str, value: Any) -> dict[str, Any]:
    """The good config with another value at a place such as "stages.0.steps"; None takes the key away."""
    data: Any = copy.deepcopy(GOOD)
    *above, last = [int(part) if part.isdigit() else part for part in place.split(".")]
    at = data
    for part in above:
        at = at[part] if isinstance(part, int) else at.setdefault(part, {})
    if value is None:
        del at[last]
    else:
        at[last] = value
    return data


def test_defaults_are_the_papers():
    training = parse_config(GOOD).training
    assert (training.importance_sampling_level, training.loss_type) == ("sequence", "grpo")  # GSPO
    assert (training.epsilon, training.epsilon_high, training.beta) == (3e-4, 4e-4, 0.0)
    assert (training.num_generations, training.learning_rate, training.optim) == (8, 1e-6, "adamw_torch")
    assert training.scale_rewards == "group"
    assert parse_config(GOOD).rule == "rlvr2+"
    assert parse_config(GOOD).report_to == ("tensorboard",)


@pytest.mark.parametrize(("start", "step"), [(0, 0), (12, 12), ("70%", 700), ("0%", 0), ("33.35%", 334), ("0.1 %", 1)])
def test_attributes_begin_at_a_step_or_a_share_of_the_run(start, step):
    assert AttributeOptions(name="markdown", start=start).start_step(1000) == step


def test_the_name_of_an_attribute_will_do():
    config = parse_config(with_("attributes", ["markdown", {"name": "answer_length", "attenuate": 0.5}]))
    assert [one.start_step(10) for one in config.attributes] == [0, 0]
    assert [one.name for one in config.attributes] == ["markdown", "answer_length"]


def test_seventy_percent_of_ten_steps_is_the_eighth():
    assert (
        AttributeOptions(name="markdown", start="70%").start_step(10) == 7
    )  # steps count from 0; 0.7 · 10 is 7.000000000000001


def test_numbers_in_the_form_that_yaml_takes_for_texts():
    assert parse_config(with_("training.learning_rate", "1e-5")).training.learning_rate == 1e-5


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ("modle", {}, "config: modle must be left out (unknown key); got {}. Did you mean 'model'?"),
        ("training.num_generation", 8, "training.num_generation must be left out"),
        ("training.num_generation", 8, "Did you mean 'num_generations'?"),
        ("stages.0.sources.0.paht", "x", "Did you mean 'path'?"),
        ("stages.0.sources.0.share", 0.6, "sum of the shares must be 1; got 0.6 + 0.3 = 0.9"),
        ("stages.0.sources.0.share", None, "stage 'chat': share must be given for all sources or none; got 1 of 2"),
        ("stages.0.steps", 0, "stages.0.steps must be ≥ 1; got 0"),
        ("stages", [], "stages must be a list of at least 1; got []"),
        ("stages.1.sources.0.columns", {"promt": "q"}, "must be one of 'prompt', 'rubric'; got 'promt'"),
        ("held_out", {"sources": [{"path": "d", "share": 1.0}]}, "held_out: share must be left out"),
        ("attributes.0.start", "70", "start must be a step ≥ 0, or a share of the run; got '70'"),
        ("attributes.0.start", "170%", "got '170%'. Such as 70%."),
        ("attributes.0.start", -1, "got -1"),
        ("attributes.0.start", 0.7, "start must be a step ≥ 0, or a share of the run; got 0.7. Such as 70%."),
        ("attributes.0.start", True, "got 'true'"),
        ("stages.1.sources", [{"path": "c"}, {"path": "c"}], "stage 'agentic': sources must be different; got c twice"),
        ("attributes.0.attenuate", 1.5, "attributes.0.attenuate must be ≤ 1"),
        ("training.num_generations", 1, "training.num_generations must be ≥ 2"),
        ("training.loss_type", "gspo", "training.loss_type must be one of 'grpo'"),
        ("output", None, "output must be given"),
        ("model.path", None, "model.path must be given"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(place, value, said):
    with pytest.raises(InvalidInput) as raised:
        parse_config(with_(place, value))
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_config_is_a_mapping():
    with pytest.raises(InvalidInput, match="config: the config must be a mapping; got list"):
        parse_config([GOOD])


def test_files(tmp_path):
    file = tmp_path / "job.yaml"
    with pytest.raises(InvalidInput, match=r"job.yaml: the file must be a file that can be read; got no such file"):
        load_job(file)
    file.write_text("model: {path: policy}\noutput: out\nstages: [{steps: 2, sources: [{path: a.jsonl}]}]\n")
    job = load_job(file)
    assert isinstance(job.config, Config)
    assert job.config.steps == 2
    assert job.output == tmp_path / "out"
    assert job.path("/abs/x") != tmp_path / "abs/x"
    file.write_text("model: [\n")
    with pytest.raises(InvalidInput, match="must be valid YAML"):
        load_job(file)


# -------------------------------------------------------------------------------------------------------- what is shown


def test_the_config_in_the_docs_is_one():
    text = (ROOT / "docs" / "train.md").read_text(encoding="utf-8")
    shown = yaml.safe_load(text.split("```yaml\n")[1].split("```")[0])
    config = parse_config(shown, "docs/train.md")
    assert (config.steps, [one.start_step(config.steps) for one in config.attributes]) == (1000, [0, 700, 700])


def test_the_table_of_settings_has_every_setting_and_its_default():
    text = (ROOT / "docs" / "train.md").read_text(encoding="utf-8")
    rows = [line.split("|")[1:3] for line in text.splitlines() if line.startswith("| `") and line.count("|") == 4]
    names = [name for row in rows for name in re.findall(r"`(\w+)`", row[0])]
    assert sorted(set(names) & set(Training.model_fields)) == sorted(Training.model_fields)
    for given, defaults in rows:
        keys = re.findall(r"`(\w+)`", given)
        if not keys or not set(keys) <= set(Training.model_fields) or keys == ["per_device_train_batch_size"]:
            continue
        for name, default in zip(keys, re.sub(r" \(paper: [^)]*\)|`", "", defaults).split(","), strict=True):
            field = Training.model_fields[name].default
            assert default.strip() == str(field) if isinstance(field, str) else float(default) == field


@pytest.mark.parametrize("path", sorted((ROOT / "recipes").glob("*/config.yaml")), ids=lambda path: path.parent.name)
def test_recipes(path):
    assert load_job(path).config.held_out is not None
