"""Plans: everything that is wrong is said before the model loads. The policy here has no weights to load."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytest.importorskip("trl", reason="TRL is not installed: pip install torch==2.13.0 trl==1.16.0")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]  # importing TRL takes seconds, and warns

from judges.server import MODEL, Server  # noqa: E402
from training import tiny  # noqa: E402

from rubrank.errors import InvalidInput, UnknownName  # noqa: E402
from rubrank.training.job import checks  # noqa: E402
from rubrank.training.job.config import load_job  # noqa: E402
from rubrank.training.job.folder import write_config  # noqa: E402
from rubrank.training.job.plan import make_plan  # noqa: E402

STAGE = {"steps": 2, "sources": [{"path": "prompts.jsonl"}]}
JUDGED = [{"name": "Polite", "question": "Is it polite?"}]
TWO = [
    {
        "name": "chat",
        "steps": 6,
        "sources": [{"path": "prompts.jsonl", "share": 0.75}, {"path": "own.jsonl", "share": 0.25}],
    },
    {"name": "agentic", "steps": 4, "sources": [{"path": "own.jsonl"}]},
]


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    return tiny.make(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def folder(made, tmp_path) -> Path:
    folder = tiny.copy_without_weights(made, tmp_path / "job")
    own = [
        {"prompt": f"Count to {n}.", "rubric": [{"name": "Own", "verifier": "WordCount", "params": {"low": n}}]}
        for n in range(2, 7)
    ]
    (folder / "own.jsonl").write_text("".join(json.dumps(row) + "\n" for row in own))
    return folder


def judge(url: str) -> dict[str, Any]:
    return {"judges": [{"name": "main", "endpoints": [{"base_url": url, "model": MODEL}], "retry": {"attempts": 1}}]}


# ------------------------------------------------------------------------------------------------------------- the plan


def test_stages_with_shares(folder):
    plan = make_plan(tiny.job(folder, stages=TWO, attributes=[{"name": "answer_length", "start": "70%"}]))
    chat, agentic = plan.stages
    assert (chat.first, chat.last, agentic.first, agentic.last) == (0, 5, 6, 9)
    assert [(s.path, s.rows, s.share, s.prompts) for s in chat.sources] == [
        ("prompts.jsonl", 12, 0.75, 36),
        ("own.jsonl", 5, 0.25, 12),
    ]
    assert [(s.path, s.prompts) for s in agentic.sources] == [("own.jsonl", 32)]
    assert [(c.name, c.adjust, c.start) for c in plan.controls] == [("answer_length", "remove", 7)]
    assert len(plan.order) == 80
    assert np.all(plan.order[48:] >= 12)
    assert plan.checkpoint is None
    assert not plan.job.output.exists()  # a plan writes nothing


def test_shares_by_rows_if_none_is_given(folder):
    stage = {"steps": 17, "sources": [{"path": "prompts.jsonl"}, {"path": "own.jsonl"}]}
    plan = make_plan(tiny.job(folder, stages=[stage]))
    assert [source.prompts for source in plan.stages[0].sources] == [96, 40]


def test_a_plan_in_words_and_for_machines(folder):
    plan = make_plan(tiny.job(folder, stages=TWO, attributes=[{"name": "markdown", "attenuate": 0.5, "start": 3}]))
    said = plan.describe()
    for part in (
        "10 steps, 8 prompts × 8 rollouts a batch, seed 0",
        "steps 0–5: prompts.jsonl 75% (36 prompts from 12 rows, 3.0 passes); own.jsonl 25%",
        "4 prompts × 16 every 15 steps",
        "rlvr2+; 3 criteria for all, 5 of 17 rows have their own; no judge",
        "markdown: attenuate(0.5, fixed) from step 3 on",
        "estimated over the run; of no criterion: none is judged, and adjust_criteria names none",
        "GSPO, adamw_torch at 0.005 (constant), clip 0.0003 / 0.0004, β = 0",
        "prompts as texts",
    ):
        assert part in said
    data = json.loads(json.dumps(plan.as_dict()))
    assert data["steps"] == 10
    assert data["stages"][0]["sources"][1] == {"path": "own.jsonl", "rows": 5, "share": 0.25, "prompts": 12}
    assert data["resume"] is None


def test_processes_share_a_batch(folder, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "4")
    plan = make_plan(tiny.job(folder, training__per_device_train_batch_size=None))
    assert (plan.processes, plan.split.per_device, plan.split.accumulation) == (4, 8, 2)


# ------------------------------------------------------------------------------------------------------ what is refused


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"model": {"path": "none/of/these"}},
            "model.path must be a folder with a config.json and weights, or a name on",
        ),
        ({"model": {"path": "./none"}}, "a folder with a config.json and weights, or a name on the hub; got './none'"),
        ({"model": {"path": "../job"}}, "model.path must be a folder with a config.json"),
        ({"model": {"path": "policy", "chat": True}}, "model.path must be a model with a chat template, for messages"),
        ({"rubric": None}, "prompts.jsonl: row 1: rubric must be given; got none"),
        ({"rubric": []}, "rubric: criteria must be a list of at least 1; got []"),
        ({"rubric": "none.yaml"}, "a file that can be read"),
        ({"rubric": ["EmptyAnswer"]}, 'prompts.jsonl: row 1: criteria must be some in the layer "quality"'),
        ({"rubric": JUDGED}, "criterion 'Polite' must be decided by a verifier or a judge"),
        ({"rubric": [{"name": "WordCuont"}]}, "Did you mean 'WordCount'?"),
        ({"rubric": ["WordCuont"]}, "got 'WordCuont'. Did you mean 'WordCount'?"),
        ({"rule": "rlvr3"}, "'rlvr3'"),
        ({"rule": "all-or-nothing", "attributes": [{"name": "markdown"}]}, "rule must be one that adds up scores"),
        ({"attributes": [{"name": "markdwon"}]}, "Did you mean 'markdown'?"),
        ({"attributes": [{"name": "markdown", "start": 45}]}, "before the end of the run, at step 45; got 45"),
        ({"held_out": {"sources": [{"path": "prompts.jsonl"}]}}, "row 1 of prompts.jsonl, which is in prompts.jsonl"),
        ({"training__per_device_train_batch_size": 7}, "per_device_train_batch_size must be a divisor of 64; got 7"),
        (
            {"training__updates_per_batch": 2, "training__per_device_train_batch_size": 8},
            "steps of stage 'all' must be a multiple of training.updates_per_batch (2)",
        ),
        ({"training__optim": "adamw_toch"}, "adamw_toch is not a valid OptimizerNames"),
        ({"training__lr_scheduler_type": "kosine"}, "kosine is not a valid SchedulerType"),
        (
            {"trl__learning_rate": 1},
            "must be left out; got 1. It has its own key, under training.",
        ),
        ({"trl__max_steps": 1}, "trl.max_steps must be left out; got 1. It follows from the steps of stages."),
        ({"trl__use_vlm": True}, "Did you mean 'use_vllm'?"),
        ({"records": "records.txt"}, "records: path must be a .jsonl, .jsonl.gz or .jsonl.zst file; got "),
        ({"records": {"every": 0}}, "records.every"),
        ({"records": "../records.jsonl"}, "records: path must be inside the output folder; got '../records.jsonl'"),
        ({"records": {"path": "/tmp/records.jsonl"}}, "records: path must be inside the output folder"),
        ({"output": "config.yaml"}, "output must be a folder; got the file"),
        ({"training__warmup_steps": 46}, "training.warmup_steps must be ≤ 45, the steps of the run; got 46"),
        (
            {"training__warmup_steps": 5},
            "training.warmup_steps must be 0 with lr_scheduler_type: constant; got 5. Use",
        ),
        (
            {
                "stages": [{**STAGE, "steps": 4}],
                "training__updates_per_batch": 2,
                "training__per_device_train_batch_size": 8,
                "training__save_steps": 3,
            },
            "training.save_steps must be a multiple of training.updates_per_batch (2); got 3",
        ),
        ({"stages": [STAGE, STAGE]}, "names of stages must be different; got 'all' twice"),
        ({"stages": [STAGE, {**STAGE, "name": "All "}]}, "names of stages must be different; got 'all' twice"),
        (
            {"training__max_completion_length": 128},
            "prompt 1: prompt must be ≤ 128 tokens with its completion, the model's positions; got ",
        ),
        (
            {"training__max_completion_length": 120},
            "prompt 2: prompt must be ≤ 128 tokens with its completion, the model's positions; got ",
        ),
        (
            {"trl__use_vllm": True, "trl__vllm_max_model_length": 30},
            "≤ 30 tokens with its completion, trl.vllm_max_model_length; got ",
        ),
        ({"thinking": "prefilled"}, "thinking must be auto or tags without prompts that end in an opening tag"),
    ],
)
def test_what_is_wrong_is_said_before_the_model_loads(folder, changes, said, monkeypatch):
    is_installed = checks.is_installed
    monkeypatch.setattr(checks, "is_installed", lambda name: name == "vllm" or is_installed(name))
    with pytest.raises(InvalidInput) as raised:
        make_plan(tiny.job(folder, **changes))
    assert said in str(raised.value)
    assert "\n" not in str(raised.value)


def test_advantages_need_a_trainer_that_does_not_scale(folder):
    """`scale: utility` with TRL's own scaling would be scaled twice: said by the plan."""
    said = {"rule": "rlvr2+", "scale": "utility", "prior": 2.0}
    with pytest.raises(InvalidInput, match=r"training\.scale_rewards must be off with scale='utility'"):
        make_plan(tiny.job(folder, **said))
    engine = make_plan(tiny.job(folder, **said, training__scale_rewards="none")).reward.engine
    assert (engine.scale, engine.rule.rule.prior) == ("utility", 2.0)


def test_messages_for_a_model_without_a_template(folder):
    (folder / "prompts.jsonl").write_text(json.dumps({"messages": [{"role": "user", "content": "Hello"}]}) + "\n")
    with pytest.raises(
        InvalidInput, match=r"model\.path must be a model with a chat template, for messages and model\.chat"
    ):
        make_plan(tiny.job(folder))


def test_a_row_whose_rubric_is_wrong_is_named(folder):
    with (folder / "own.jsonl").open("a") as file:
        file.write(
            json.dumps({"prompt": "x", "rubric": [{"name": "Own", "verifier": "WordCount", "params": {"lo": 1}}]})
        )
    with pytest.raises(InvalidInput, match=r"own\.jsonl: row 6: .*lo"):
        make_plan(tiny.job(folder, stages=TWO))


@pytest.mark.parametrize("name", ["wandb", "trackio"])
def test_loggers_that_are_not_installed(folder, name, monkeypatch):

    monkeypatch.setattr(checks, "find_spec", lambda wanted: None if wanted == name else wanted)
    with pytest.raises(InvalidInput, match=f"got no {name}. pip install {name}, or change report_to"):
        make_plan(tiny.job(folder, report_to=["tensorboard", name]))


def test_a_judge_that_is_away(folder):
    with pytest.raises(InvalidInput, match="judge 'main'"):
        make_plan(tiny.job(folder, rubric=JUDGED, judges=judge("http://127.0.0.1:9/v1")))


def test_a_judge_that_is_there(folder):
    with Server() as server:
        plan = make_plan(tiny.job(folder, rubric=JUDGED, judges=judge(server.url)))
    assert plan.as_dict()["judges"] == ["main"]
    assert "judges main" in plan.describe()
    assert plan.reward.engine.judges.cache == str(folder / "run" / "replies.sqlite")
    # judges decide: the plan says what is controlled though the config names nothing
    names = [attribute["name"] for attribute in plan.as_dict()["attributes"]]
    assert names == ["reasoning_length", "markup"]
    assert "markup: attenuate(1, fixed) from step 0 on" in plan.describe()


def test_a_model_that_the_hub_does_not_have(folder, monkeypatch):
    import transformers

    def away(name: str, **_: Any) -> Any:
        raise OSError(f"We couldn't connect to 'https://huggingface.co' to load\n{name}")

    monkeypatch.setattr(transformers.AutoConfig, "from_pretrained", away)
    with pytest.raises(InvalidInput, match=r"a name on the hub, that can be read .*; got 'owner/none' \(We couldn't"):
        make_plan(tiny.job(folder, model={"path": "owner/none"}))


# --------------------------------------------------------------------------------------------------- folders of runs


def begun(folder: Path, **changes: Any) -> Any:
    """A run that got to a checkpoint, as far as its folder tells."""
    from rubrank.training.job.folder import write_config

    plan = make_plan(tiny.job(folder, **changes))
    write_config(plan.job, plan.fingerprint)
    for step, whole in ((9, True), (10, True), (11, False)):
        checkpoint = plan.job.output / f"checkpoint-{step}"
        checkpoint.mkdir()
        if whole:
            (checkpoint / "trainer_state.json").write_text("{}")
    return plan


def test_a_run_is_not_overwritten(folder):
    plan = begun(folder)
    with pytest.raises(InvalidInput, match=r"a folder without a run; .*Use `resume=true`, or choose another one"):
        make_plan(plan.job)


def test_other_processes_leave_the_folder_to_the_first(folder, monkeypatch):
    plan = begun(folder)
    monkeypatch.setenv("RANK", "1")
    assert make_plan(plan.job).checkpoint is None  # the first one has begun to write, maybe
    assert make_plan(plan.job, resume=True).checkpoint == plan.job.output / "checkpoint-10"


def test_the_last_whole_checkpoint_is_resumed(folder):
    plan = begun(folder)
    found = make_plan(plan.job, resume=True)
    assert found.checkpoint == plan.job.output / "checkpoint-10"
    assert "resumes     from" in found.describe()


def test_without_a_checkpoint_a_resumed_run_begins(folder):
    assert make_plan(tiny.job(folder), resume=True).checkpoint is None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"seed": 1}, "seed must be 0, as when the run began; got 1"),
        ({"training__learning_rate": 1e-4}, "training.learning_rate must be 0.005, as when the run began; got 0.0001"),
        ({"rule": "rlvr2"}, "rule must be 'rlvr2+'"),
        ({"stages": [{"steps": 44, "sources": [{"path": "prompts.jsonl"}]}]}, "stages.0.steps must be 45"),
    ],
)
def test_a_resumed_run_must_be_the_same(folder, changes, said):
    begun(folder)
    with pytest.raises(InvalidInput) as raised:
        make_plan(tiny.job(folder, **changes), resume=True)
    assert said in str(raised.value)


def test_data_that_has_changed(folder):
    begun(folder)
    with (folder / "prompts.jsonl").open("a") as file:
        file.write('{"prompt": "One more."}\n')
    with pytest.raises(InvalidInput, match=r"rows\.prompts\.jsonl must be 12, as when the run began; got 13"):
        make_plan(tiny.job(folder), resume=True)


def test_data_and_rubrics_that_were_rewritten(folder):
    """As many rows, and the same names: other texts are another run all the same."""
    begun(folder)
    rows = (folder / "prompts.jsonl").read_text()
    (folder / "prompts.jsonl").write_text(rows.replace("lakes", "lagoons"))
    with pytest.raises(InvalidInput, match=r"contents\.sources\.prompts\.jsonl must be '\w+', as when the run began"):
        make_plan(tiny.job(folder), resume=True)
    (folder / "prompts.jsonl").write_text(rows)
    assert make_plan(tiny.job(folder), resume=True).checkpoint is not None
    rubric = (folder / "rubric.yaml").read_text()
    (folder / "rubric.yaml").write_text(f"{rubric}  - {{name: More, verifier: WordCount, params: {{low: 2}}}}\n")
    with pytest.raises(InvalidInput, match=r"contents\.rubric must be"):
        make_plan(tiny.job(folder), resume=True)


@pytest.mark.parametrize("state", ["", "{", "[1]", "{}\x00"])
def test_a_damaged_checkpoint_is_passed_over(folder, state):
    output = begun(folder).job.output
    (output / "checkpoint-10" / "trainer_state.json").write_text(state)
    assert make_plan(tiny.job(folder), resume=True).checkpoint == output / "checkpoint-9"
    with pytest.raises(InvalidInput, match="branch must be a complete checkpoint"):
        make_plan(tiny.job(folder, output="other"), branch=output / "checkpoint-10")
    (output / "checkpoint-9" / "trainer_state.json").write_text(state)
    with pytest.raises(InvalidInput, match=r"a complete checkpoint; got checkpoint-10, whose trainer_state"):
        make_plan(tiny.job(folder), resume=True)


@pytest.mark.parametrize("said", ["", "{", "[1]", "3", "null"])
def test_a_run_that_does_not_say_what_it_was(folder, said):
    (begun(folder).job.output / "config.json").write_text(said)
    with pytest.raises(InvalidInput, match=r"output must be a folder with the config\.json of its run; got"):
        make_plan(tiny.job(folder), resume=True)


def test_what_is_logged_and_kept_may_change(folder):
    begun(folder)
    assert make_plan(tiny.job(folder, training__save_steps=3, report_to=["tensorboard"]), resume=True).checkpoint


@pytest.mark.parametrize(
    "changes",
    [
        {"trl__gradient_checkpointing": True},
        {"trl__gradient_checkpointing": True, "trl__gradient_checkpointing_kwargs": {"use_reentrant": False}},
        {"trl__torch_empty_cache_steps": 4},
        {"trl__vllm_gpu_memory_utilization": 0.2},
        {"trl__model_init_kwargs": {"attn_implementation": "eager"}},
        {"training__per_device_train_batch_size": 8},
        {"held_out__batch": 16},
        {"stages": [{"steps": 60, "sources": [{"path": "prompts.jsonl"}]}]},
    ],
)
def test_what_a_crash_forces_may_change(folder, changes):
    begun(folder)
    assert make_plan(tiny.job(folder, **changes), resume=True).checkpoint is not None


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"trl__top_k": 5}, "trl.top_k must be None, as when the run began; got 5"),
        ({"trl__adam_beta2": 0.95}, "trl.adam_beta2 must be None, as when the run began; got 0.95"),
        ({"trl__model_init_kwargs": {"revision": "v2"}}, "trl.model_init_kwargs.revision must be None"),
        ({"model": {"path": "policy", "lora": {"r": 2}}}, "model.lora"),
        ({"training__max_completion_length": 12}, "training.max_completion_length must be 24"),
        ({"imports": ["json"]}, "imports"),
    ],
)
def test_what_is_learnt_may_not_change(folder, changes, said):
    begun(folder)
    with pytest.raises(InvalidInput) as raised:
        make_plan(tiny.job(folder, **changes), resume=True)
    assert said in str(raised.value)


LONGER = [{"name": "all", "steps": 60, "sources": [{"path": "prompts.jsonl"}]}]


def test_more_steps_under_a_learning_rate_that_goes_by_the_end(folder):
    begun(folder, training__lr_scheduler_type="cosine")
    with pytest.raises(InvalidInput, match=r"stages\.0\.steps must be 45, .*the learning rate depends on the end"):
        make_plan(tiny.job(folder, training__lr_scheduler_type="cosine", stages=LONGER), resume=True)


def test_more_steps_leave_the_starts_of_attributes(folder):
    share = [{"name": "answer_length", "start": "80%"}]  # step 36 of 45
    begun(folder, attributes=share)
    with pytest.raises(InvalidInput, match=r"attributes\.0\.start must be 36, as when the run began; got 48"):
        make_plan(tiny.job(folder, stages=LONGER, attributes=share), resume=True)
    step = [{"name": "answer_length", "start": 36}]
    assert make_plan(tiny.job(folder, stages=LONGER, attributes=step), resume=True).controls[0].start == 36


def test_more_steps_in_an_earlier_stage(folder):
    begun(folder, stages=TWO)
    more = [{**TWO[0], "steps": 8}, TWO[1]]
    with pytest.raises(InvalidInput, match=r"stages\.0\.steps must be 6, as when the run began; got 8"):
        make_plan(tiny.job(folder, stages=more), resume=True)
    with pytest.raises(InvalidInput, match=r"stages\.2"):
        make_plan(tiny.job(folder, stages=[*TWO, {**TWO[1], "name": "more"}]), resume=True)


# ------------------------------------------------------------------------------------------------------------- branches

CONTROL = [{"name": "answer_length", "attenuate": 0.5}]


def test_a_branch_goes_on_with_other_control_settings(folder):
    left = begun(folder).job.output / "checkpoint-10"
    plan = make_plan(tiny.job(folder, output="branch", attributes=CONTROL, pool="batch"), branch=left)
    assert plan.checkpoint == left.resolve()
    assert plan.branch is not None
    assert plan.branch.changed["attributes.0.attenuate"] == {"before": None, "now": 0.5}
    assert plan.branch.changed["pool"] == {"before": None, "now": "batch"}
    assert "branch      of" in plan.describe()
    assert "pool None → 'batch'" in plan.describe()
    assert plan.as_dict()["branch"]["changed"]["pool"] == {"before": None, "now": "batch"}


def test_a_branch_changes_nothing_else(folder):
    left = begun(folder).job.output / "checkpoint-10"
    job = tiny.job(folder, output="branch", seed=1)
    with pytest.raises(InvalidInput, match=r"seed must be 0, as in the run that it leaves.*control settings only"):
        make_plan(job, branch=left)


def test_a_branch_needs_a_whole_checkpoint_and_a_folder_of_its_own(folder):
    run = begun(folder).job
    with pytest.raises(InvalidInput, match="a folder without a run"):
        make_plan(run, branch=run.output / "checkpoint-10")
    other = tiny.job(folder, output="branch")
    with pytest.raises(InvalidInput, match=r"branch must be a complete checkpoint; got .*nowhere"):
        make_plan(other, branch=folder / "nowhere")
    with pytest.raises(InvalidInput, match=r"branch must be a complete checkpoint; .*Did you mean .*checkpoint-10\?"):
        make_plan(other, branch=run.output)
    with pytest.raises(InvalidInput, match="given without `resume`"):
        make_plan(other, branch=run.output / "checkpoint-10", resume=True)


def test_a_branch_that_is_resumed_before_its_first_checkpoint_begins_where_it_left(folder):
    left = begun(folder).job.output / "checkpoint-10"
    job = tiny.job(folder, output="branch", attributes=CONTROL)
    plan = make_plan(job, branch=left)
    write_config(job, plan.fingerprint, plan.branch)
    again = make_plan(job, resume=True)
    assert again.checkpoint == left.resolve()
    assert again.branch == plan.branch


def test_a_branch_that_is_resumed_before_its_first_checkpoint_keeps_its_settings(folder):
    left = begun(folder).job.output / "checkpoint-10"
    job = tiny.job(folder, output="branch", attributes=CONTROL)
    plan = make_plan(job, branch=left)
    write_config(job, plan.fingerprint, plan.branch)
    with pytest.raises(InvalidInput, match=r"seed must be 0, as when the run began; got 1"):
        make_plan(tiny.job(folder, output="branch", attributes=CONTROL, seed=1), resume=True)


# --------------------------------------------------------------------------------------------------------------- preset


def test_the_papers_preset(folder):
    config = tiny.job(folder, preset="paper", training={"learning_rate": 1e-4}).config
    assert (config.training.prompts_per_batch, config.training.max_completion_length) == (128, 16384)
    assert (config.training.num_generations, config.training.learning_rate) == (8, 1e-4)
    assert load_job(folder / "job.yaml", "paper").config == config


def test_small_defaults_say_that_they_are_not_the_papers(folder):
    long = {"max_position_embeddings": 20_000}
    training = {"per_device_train_batch_size": 8}
    small = make_plan(tiny.job(folder, training=training, trl__model_init_kwargs=long)).describe()
    assert "prompts_per_batch 16 (paper: 128), max_completion_length 1,024 (paper: 16,384): small" in small
    papers = tiny.job(folder, preset="paper", training={}, trl__model_init_kwargs=long)
    assert "paper:" not in make_plan(papers).describe()


def test_an_unknown_preset(folder):
    with pytest.raises(UnknownName, match="preset must be one of 'paper'"):
        load_job(tiny.job(folder).file, "papre")
