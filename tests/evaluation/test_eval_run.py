"""`rubrank eval run`: thinking that is cut and counted, settings and repeats by name, the hub, cost of judging."""

import json
import sys
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
from typer.testing import CliRunner

from rubrank.cli.app import app
from rubrank.errors import InvalidInput, RubrankError, UnknownName
from rubrank.evaluation.benchmarks import BENCHMARKS, benchmark_class, find_benchmark, load_items
from rubrank.evaluation.judge import FileJudge, open_judge
from rubrank.evaluation.runs import read_run
from rubrank.evaluation.suite import RunOptions, SuiteResult, configure_benchmark, run_suite
from rubrank.evaluation.table import CapabilityTable
from rubrank.judges.judge import Reply, Usage

ITEMS = [
    {"key": 1, "prompt": "No commas.", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]},
    {"key": 2, "prompt": "None here.", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]},
]


@pytest.fixture
def data(tmp_path):
    (tmp_path / "ifeval.jsonl").write_text("".join(json.dumps(item) + "\n" for item in ITEMS))
    return tmp_path


def scripted(*contents):
    from inspect_ai.model import ModelOutput, ModelUsage, get_model

    outputs = []
    for content in contents:
        made = ModelOutput.from_content("mockllm/model", "")
        made.choices[0].message.content = content
        made.completion = content if isinstance(content, str) else content[-1].text
        made.usage = ModelUsage(input_tokens=3, output_tokens=2, total_tokens=5)
        outputs.append(made)
    return get_model("mockllm/model", custom_outputs=outputs)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Inspect's own
def test_thinking_is_cut_and_its_length_kept_in_the_text_and_apart(data, monkeypatch):
    pytest.importorskip("inspect_ai")
    told = []
    monkeypatch.setattr("rubrank.grading.progress.Bar.tell", lambda self, what: told.append(what))
    from inspect_ai.model import ContentReasoning, ContentText

    separate = [ContentReasoning(reasoning="five words, with a comma"), ContentText(text="small")]
    options = RunOptions("mockllm/model", only="ifeval", data=data, output=data / "out", repeats=2, batch=1)
    same = "<think>one, two, three</think>none"
    result = run_suite(options, scripted(same, separate, same, separate))
    assert result.skipped == result.failed == ()
    assert result.table is not None
    assert result.table.rows[0].cells == {"ifeval": 100.0}
    run = read_run(data / "out" / "ifeval.json")
    assert len(run.scores) == 4
    assert sorted(score.thought for score in run.scores) == [3, 3, 5, 5]
    assert run.reasoning_words == 4.0
    assert run.sampling["repeats"] == 2
    assert run.usage == {"input_tokens": 12, "output_tokens": 8}
    assert told == ["5 tokens", "10 tokens", "15 tokens", "20 tokens"]
    note = result.table.rows[0].notes["ifeval"]
    assert "4 words of thinking cut" in note
    assert "repeats 2" in note
    assert "compat upstream" in note


def test_settings_go_to_the_benchmarks_that_have_them():
    options = RunOptions("m", settings={"compat": "fixed"}, repeats=3)
    assert configure_benchmark("ifeval", options).options == {"compat": "fixed"}
    assert configure_benchmark("gpqa", options).options["repeats"] == 3
    assert configure_benchmark("multichallenge", options).options["attempts"] == 3
    assert configure_benchmark("frames", options).options == {"context": "oracle"}
    with pytest.raises(UnknownName, match="compat"):
        run_suite(RunOptions("m", only="ifeval", settings={"compt": "fixed"}))


def test_no_temperature_is_not_to_sample_for_a_local_model():
    local, endpoint = RunOptions("hf/x", temperature=0.0), RunOptions("openai-api/x/y", temperature=0.0)
    assert local.generation() == {"seed": 0, "model_args": {"do_sample": False}}
    assert endpoint.generation() == {"seed": 0, "temperature": 0.0}


# ------------------------------------------------------------------------------------------------------------- the hub


@pytest.fixture
def hub(monkeypatch):
    """A stand-in for `datasets`: there is no hub here."""
    module = ModuleType("datasets")
    module.__spec__ = ModuleSpec("datasets", None)
    module.asked = []
    module.found = {"google/IFEval": {"train": ITEMS}}

    def load_dataset(name, data_files=None):
        module.asked.append(name if data_files is None else f"{name}: {data_files}")
        return module.found[name]

    module.load_dataset = load_dataset
    monkeypatch.setitem(sys.modules, "datasets", module)
    return module


def test_the_local_file_comes_first_and_then_the_hub(hub, data, tmp_path):
    assert list(load_items(find_benchmark("ifeval"), data, hub=True)) == ITEMS
    assert hub.asked == []
    assert list(load_items(find_benchmark("ifeval"), tmp_path / "other", hub=True)) == ITEMS
    assert hub.asked == ["google/IFEval"]


def test_of_a_data_set_with_several_configurations_one_file_is_loaded(hub, tmp_path):
    hub.found["Idavidrein/gpqa"] = {"train": ITEMS}
    assert list(load_items(find_benchmark("gpqa"), tmp_path, hub=True)) == ITEMS
    assert hub.asked == ["Idavidrein/gpqa: gpqa_diamond.csv"]


def test_without_leave_nothing_is_loaded_and_the_command_is_said(hub, tmp_path):
    with pytest.raises(InvalidInput, match=r"huggingface-cli download.*`hub=true`"):
        list(load_items(find_benchmark("ifeval"), tmp_path))
    assert hub.asked == []
    with pytest.raises(InvalidInput, match="git clone"):  # not on the hub at all
        list(load_items(find_benchmark("sysbench"), tmp_path, hub=True))


def test_a_hub_that_says_no_is_one_message_with_the_command(hub, tmp_path):
    hub.found.clear()
    with pytest.raises(InvalidInput, match=r"hub must be .*huggingface-cli download --repo-type dataset google/IFEval"):
        list(load_items(find_benchmark("ifeval"), tmp_path, hub=True))


def test_the_split_with_the_questions_is_taken(hub, tmp_path):
    hub.found["google/IFEval"] = {"train": [], "test": ITEMS}
    assert list(load_items(find_benchmark("ifeval"), tmp_path, hub=True)) == ITEMS
    hub.found["google/IFEval"] = {"a": [], "b": []}
    with pytest.raises(InvalidInput, match="splits"):
        list(load_items(find_benchmark("ifeval"), tmp_path, hub=True))


def test_most_benchmarks_have_a_name_on_the_hub():
    named = [name for name in BENCHMARKS if benchmark_class(name).data.hub]
    assert {"ifeval", "mmlu-pro", "gpqa", "frames", "longbench-v2"} <= set(named)


# ------------------------------------------------------------------------------------------------------------ the cost


class Asker:
    async def ask(self, call):
        failed = "fail" in call.messages[0]["content"]
        return Reply(None, "timeout") if failed else Reply("TRUE", usage=Usage(cost=0.25))


def test_a_judge_counts_calls_cost_and_failures(tmp_path, monkeypatch):
    class Askers:
        def asker_of(self, leaf):
            return Asker()

    async def opened(*given):
        return Askers()

    monkeypatch.setattr("rubrank.evaluation.judge.open_clients", opened)
    judges = tmp_path / "judges.yaml"
    judges.write_text("judges: [{name: j, endpoints: [{model: m, base_url: 'http://127.0.0.1:9'}]}]\n")
    heard, told = [], []

    class Hears:
        def __call__(self, done, total):
            heard.append((done, total))

        def tell(self, what):
            told.append(what)

    judge, name = open_judge(judges, Hears())
    assert isinstance(judge, FileJudge)
    assert name == "j (m)"
    answers = judge([[{"role": "user", "content": text}] for text in ("a", "fail", "b")])
    assert [answer.text for answer in answers] == ["TRUE", None, "TRUE"]
    assert heard[-1] == (3, 3)
    assert told[-1] == "cost 0.5000, 1 failed"


def test_the_verb_takes_them_by_name(tmp_path):
    done = CliRunner().invoke(app, ["eval", "run", "--model", "m", "--only", "ifeval", "--set", "x=1"])
    assert done.exit_code == 2
    assert "--set" in done.output


# ------------------------------------------------------------------------------------------------- judge and exit code


FRAMES_ITEM = {"id": "1", "question": "Who?", "answer": "Ada"}


@pytest.fixture
def unreachable_judge(tmp_path):
    path = tmp_path / "judges.yaml"
    path.write_text("judges: [{name: j, endpoints: [{model: m, base_url: 'http://127.0.0.1:9'}]}]\n")
    return path


@pytest.mark.filterwarnings("ignore")  # of Inspect's own
def test_a_judge_that_is_down_is_noticed_before_anything_is_sampled(data, unreachable_judge):
    pytest.importorskip("inspect_ai")
    from inspect_ai.model import get_model

    (data / "frames.jsonl").write_text(json.dumps(FRAMES_ITEM) + "\n")
    sampled = []

    def sample(*arguments):
        sampled.append(arguments)
        raise AssertionError("the model was asked")

    options = RunOptions("mockllm/model", only="frames", data=data, output=data / "out", judge=unreachable_judge)
    with pytest.raises(RubrankError, match=r"127\.0\.0\.1:9"):
        run_suite(options, get_model("mockllm/model", custom_outputs=sample))
    assert sampled == []


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Inspect's own
def test_a_benchmark_that_a_program_decides_names_no_judge(data, unreachable_judge):
    pytest.importorskip("inspect_ai")
    options = RunOptions("mockllm/model", only="ifeval", data=data, output=data / "out", judge=unreachable_judge)
    result = run_suite(options, scripted("none", "none"))
    assert result.table is not None
    assert "judge" not in result.table.rows[0].notes["ifeval"]


@pytest.mark.parametrize(
    ("result", "only", "code"),
    [
        (SuiteResult(CapabilityTable((), (), ()), (), ()), None, 0),
        (SuiteResult(CapabilityTable((), (), ()), ("benchmark gpqa: no data",), ()), None, 0),
        (SuiteResult(CapabilityTable((), (), ()), ("benchmark gpqa: no data",), ()), "ifeval,gpqa", 1),
        (SuiteResult(CapabilityTable((), (), ()), (), ("benchmark gpqa: not finished",)), None, 1),
        (SuiteResult(None, ("benchmark gpqa: no data",), ()), None, 1),
    ],
)
def test_the_exit_code_says_whether_everything_that_was_wanted_is_finished(monkeypatch, result, only, code):
    monkeypatch.setattr("rubrank.evaluation.suite.run_suite", lambda options: result)
    done = CliRunner().invoke(app, ["eval", "run", "--model", "m", *(["--only", only] if only else [])])
    assert done.exit_code == code, done.output
    for message in (*result.skipped, *result.failed):
        assert message in done.output


def test_a_benchmark_without_data_is_skipped_with_the_flag_that_loads_it(tmp_path):
    command = ["eval", "run", "--model", "m", "--only", "ifeval", "--data", str(tmp_path), "-o", str(tmp_path / "out")]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 1
    assert "load it from the hub: --hub" in done.stderr
