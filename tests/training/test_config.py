"""Engines from files, and what trainers know about a query."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from math import nan
from pathlib import Path

import pytest
import yaml

from rubrank.errors import InvalidInput, RubrankError
from rubrank.fusion.control.adjustment import attenuate
from rubrank.options import FuseOptions, RewardOptions
from rubrank.training import config as module
from rubrank.training.config import RewardConfig, load_config, load_engine, main, refuse_late_controls, warn_if_stateful
from rubrank.training.controls import Control
from rubrank.training.engine import RewardEngine, fill_unknown
from rubrank.training.job.config import parse_config
from rubrank.training.queries import make_query, score_query, to_messages

LAKE = {"name": "Keyword", "params": {"keywords": ["lake"]}}


def written(folder: Path, **data: object) -> Path:
    path = folder / "reward.yaml"
    path.write_text(yaml.safe_dump(data), encoding="utf-8")
    return path


def test_everything_that_a_file_can_say(tmp_path):
    (tmp_path / "rubric.yaml").write_text("id: r\ncriteria: [{name: EmptyAnswer}]\n", encoding="utf-8")
    judge = {"endpoints": [{"base_url": "http://localhost:1/v1", "model": "m"}]}
    config, folder = load_config(
        written(
            tmp_path,
            rubric="rubric.yaml",
            rule="rlvr2+",
            judges=judge,
            records="out/records.jsonl",
            seed=3,
            gate={"floor": 0.25},
            attributes=["markdown", {"name": "reasoning_length", "attenuate": 0.5, "start": 7}],
        )
    )
    engine = config.engine(folder, process="host-1")
    assert [criterion.name for criterion in engine.rubric.criteria] == ["EmptyAnswer"]
    assert engine.controls == (Control("markdown"), Control("reasoning_length", attenuate(0.5), 7))
    assert engine.records == tmp_path / "out" / "records-host-1.jsonl"
    assert engine.rule.gate.floor == 0.25
    assert engine.judges.judge_of("anything").endpoints[0].model == "m"


def test_options_of_the_ranking_are_those_of_fuse(tmp_path):
    """Declared once: same keys, same defaults, same words; and they reach the rule."""
    from rubrank.training.job.config import Config

    for model in (FuseOptions, RewardConfig, Config):
        for name in RewardOptions.model_fields.keys() - {"seed"}:  # a job's seed is the trainer's, too
            field = RewardOptions.model_fields[name]
            assert (model.model_fields[name].default, model.model_fields[name].description) == (
                field.default,
                field.description,
            )
    said = {"prior": 2.0, "span": "sd", "scale": "utility", "penalties": "ignore"}
    engine = load_config(written(tmp_path, rubric=[LAKE], rule="rlvr2+", gate={"floor": 0.25}, **said))[0].engine()
    ranking = engine.rule.rule
    assert (ranking.prior, ranking.span, ranking.scale, engine.penalties) == (2.0, "sd", "utility", "ignore")
    assert engine.rule.gate.floor == 0.25


def test_options_of_rlvr2_are_for_rlvr2(tmp_path):
    plain, _ = load_config(written(tmp_path, rubric=[LAKE], rule="gdpo+", scale="ranking", prior=1.0))
    assert plain.engine().rule.name == "gdpo+"
    with pytest.raises(
        InvalidInput, match=r"RewardEngine: rule must be 'rlvr2', alone or composed, if `prior` is given"
    ):
        load_config(written(tmp_path, rubric=[LAKE], rule="gdpo+", prior=2.0))[0].engine()


def test_presets_and_criteria_need_no_file(tmp_path):
    preset, _ = load_config(written(tmp_path, rubric="gates"))
    assert preset.engine(tmp_path).rubric.criteria
    config, folder = load_config(written(tmp_path, rubric=[LAKE]))
    assert config.engine(folder).rubric.criteria[0].name == "Keyword"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ({"rubrik": 1}, "rubrik must be left out (unknown key); got 1. Did you mean 'rubric'?"),
        ({"rule": "rlvr3"}, "rlvr3"),
        ({"rubric": "nowhere.yaml"}, "nowhere.yaml"),
        ({"rubric": [{"name": "Good", "description": "Is it good?"}]}, "no judge for it"),
        ({"rubric": [LAKE], "attributes": ["mark"]}, "'mark'"),
        ({"rubric": [LAKE], "attributes": [{"name": "markdown", "attenuate": 2}]}, "attenuate"),
        ({"rubric": [LAKE], "gate": {"flor": 1}}, "flor"),
        ({"rubric": [LAKE], "imports": ["no_such_module"]}, "no_such_module"),
        ({"rubric": [LAKE], "records": "r.csv"}, "r.csv"),
        ({"rubric": [LAKE], "workers": -1}, "workers"),
    ],
)
def test_what_is_wrong_is_said_in_one_line(tmp_path, data, message, capsys):
    path = written(tmp_path, **data)
    assert main([str(path)]) == 1
    said = capsys.readouterr().err
    assert message in said
    assert said.count("\n") == 1


def test_the_file_itself(tmp_path, monkeypatch):
    monkeypatch.delenv(module.VARIABLE, raising=False)
    with pytest.raises(InvalidInput, match="RUBRANK_CONFIG: value must be the path of a configuration; got none"):
        load_config()
    with pytest.raises(InvalidInput, match=r"none.yaml: the file must be a file that can be read; got no such file"):
        load_config(tmp_path / "none.yaml")
    monkeypatch.setenv(module.VARIABLE, "none.yaml")
    message = r"RUBRANK_CONFIG: value none.yaml must be .* got no such file. Use an abs"
    with pytest.raises(InvalidInput, match=message):
        load_engine(None, "trainer")
    with pytest.raises(InvalidInput, match=message):
        load_config()
    (tmp_path / "list.yaml").write_text("[1]", encoding="utf-8")
    with pytest.raises(InvalidInput, match="keys and values; got list"):
        load_config(tmp_path / "list.yaml")
    monkeypatch.setenv(module.VARIABLE, str(written(tmp_path, rubric=[LAKE], rubric_column="asks")))
    engine, column = load_engine(None, "test")
    assert column == "asks"
    assert load_engine(None, "test")[0] is engine


def test_the_file_on_our_page():
    page = (Path(__file__).parents[2] / "docs" / "frameworks.md").read_text(encoding="utf-8")
    shown = yaml.safe_load(page.partition("```yaml\n")[2].partition("```")[0])
    assert set(shown) == set(RewardConfig.model_fields)
    config = RewardConfig.model_validate({**shown, "rubric": [LAKE], "judges": None, "imports": []})
    assert config.engine().controls[1] == Control("reasoning_length", attenuate(0.5), 700)


@pytest.mark.slow
def test_a_file_is_checked_from_the_command_line(tmp_path):
    run = [sys.executable, "-m", "rubrank.training.config", str(written(tmp_path, rubric=[LAKE]))]
    done = subprocess.run(run, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "valid: rule 'rlvr2+', 1 criteria, 0 controlled attributes\n")


def test_modules_of_ones_own_are_imported(tmp_path, monkeypatch):
    (tmp_path / "my_checks_for_a_test.py").write_text("SEEN = True\n", encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    config, folder = load_config(written(tmp_path, rubric=[LAKE], imports=["my_checks_for_a_test"]))
    config.engine(folder)
    assert sys.modules.pop("my_checks_for_a_test").SEEN


def test_what_trainers_cannot_carry():
    late = RewardEngine([LAKE], attributes=[Control("markdown", start=5)])
    with pytest.raises(InvalidInput, match="controlled from step 0 on"):
        refuse_late_controls(late, "slime")
    with pytest.warns(RuntimeWarning, match="slime: no checkpoint contains the memory of 'amrp'"):
        warn_if_stateful(RewardEngine([LAKE], "amrp"), "slime")
    plain = RewardEngine([LAKE])
    refuse_late_controls(plain, "slime")
    warn_if_stateful(plain, "slime")


# ------------------------------------------------------------------------------------------------------------- queries


def test_labels_of_all_kinds():
    query = make_query("<|user|>q", '{"prompt": "q", "rubric": ["EmptyAnswer"], "answer": "a", "none": null}')
    assert (query.prompt, query.rubric, query.metadata) == ("q", ["EmptyAnswer"], {"answer": "a"})
    assert make_query("q", "42").metadata == {"label": "42"}
    assert make_query("q", None, "", {}).metadata == {}
    merged = make_query("q", "42", {"asks": ["x"], "tools": [{"name": "t"}]}, rubric_column="asks")
    assert (merged.metadata, merged.rubric, merged.tools) == ({"label": "42"}, ["x"], [{"name": "t"}])
    ifeval = make_query("q", {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]})
    assert ifeval.rubric == {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}


def test_a_rubric_that_nobody_decides_is_refused_before_anything_is_spent():
    judged = make_query("q", {"rubric": [{"name": "Good", "description": "Is it good?"}]})
    with pytest.raises(InvalidInput, match="no judge for it"):
        asyncio.run(score_query(RewardEngine([LAKE]), judged, ["a", "b"], step=0, where="here"))
    with pytest.raises(RubrankError, match="rubric must be given; got none"):
        asyncio.run(score_query(RewardEngine(), make_query("q"), ["a", "b"], step=0, where="here"))


def test_who_is_not_known_gets_the_mean():
    assert fill_unknown([1.0, nan, 0.5]) == [1.0, 0.75, 0.5]
    assert fill_unknown([nan, nan]) == [0.0, 0.0]


def test_messages_that_are_objects():
    class Part:
        def __init__(self, **data: object) -> None:
            self.data = data

        def model_dump(self, exclude_none: bool) -> dict[str, object]:
            return {k: v for k, v in self.data.items() if v is not None or not exclude_none}

    call = Part(id="c", function={"name": "find", "arguments": "{}"})
    thought = {"type": "thinking", "thinking": "hm"}
    said = Part(role="assistant", content=[thought, Part(type="text", text="yes")], tool_calls=[call], name=None)
    assert to_messages([said, "text"]) == [
        {
            "role": "assistant",
            "content": [thought, {"type": "text", "text": "yes"}],
            "tool_calls": [{"id": "c", "function": {"name": "find", "arguments": "{}"}}],
            "reasoning_content": "hm",
        },
        "text",
    ]
    assert to_messages("text") == "text"
    assert to_messages(None) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": True},
        {"workers": True},
        {"model": {"path": "m", "lora": {"r": True}}},
        {"model": {"path": "m", "lora": {"dropout": False}}},
        {"training": {"learning_rate": True}},
        {"training": {"num_generations": True}},
        {"stages": [{"steps": True, "sources": [{"path": "d.jsonl"}]}]},
        {"stages": [{"steps": 2, "sources": [{"path": "d.jsonl", "share": True}]}]},
        {"stages": [{"steps": 2, "sources": [{"path": "d.jsonl", "limit": True}]}]},
        {"records": {"every": True}},
        {"evaluate": {"benchmarks": ["ifeval"], "data": "d", "every": True}},
        {"held_out": {"sources": [{"path": "d.jsonl"}], "rollouts": True}},
    ],
)
def test_true_is_no_number_of_a_job(changes):
    stages = [{"steps": 2, "sources": [{"path": "d.jsonl"}]}]
    job = {"model": {"path": "m"}, "stages": stages, "output": "run", "rubric": [LAKE], **changes}
    with pytest.raises(InvalidInput, match=r"got '(true|false)'"):
        parse_config(job, "job.yaml")
