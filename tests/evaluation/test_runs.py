"""Run files, the capability table, comparisons, the verbs, and Inspect."""

import json
import math
from pathlib import Path

import pytest
from typer.testing import CliRunner

from rubrank.cli.app import app
from rubrank.errors import InvalidInput
from rubrank.evaluation.benchmark import Answer, Benchmark, ItemScore, Setting
from rubrank.evaluation.benchmarks import find_benchmark
from rubrank.evaluation.benchmarks.open_ended import fit_ratings
from rubrank.evaluation.runs import EvalRun, find_runs, read_run, score_rows, write_run
from rubrank.evaluation.table import capability_table, compare, compare_runs

RUN = CliRunner()


def frames(model, values):
    scores = tuple(ItemScore(str(n), {"correct": float(v)}) for n, v in enumerate(values))
    return EvalRun("frames", model, {"context": "oracle"}, scores, {"accuracy": sum(values) / len(values)})


def multi(model, points):
    return EvalRun("multichallenge", model, {"attempts": 1}, (), {"overall": points})


def test_a_run_comes_back_from_its_file_as_it_was(tmp_path):
    rows = [{"problem": "p", "grade": "A"}, {"problem": "q", "grade": "X"}]
    run = score_rows(rows, find_benchmark("simpleqa"), model="m")
    write_run(run, tmp_path / "new" / "run.json")
    again = read_run(tmp_path / "new" / "run.json")
    assert again.scores == run.scores
    assert again.metrics == run.metrics
    assert again.missing == run.missing


def test_values_without_a_number_are_null_in_the_file(tmp_path):
    score = ItemScore("1", {"correct": math.nan})
    write_run(EvalRun("frames", "m", {}, (score,), {"accuracy": 1.0}), tmp_path / "run.json")
    assert "NaN" not in (tmp_path / "run.json").read_text(encoding="utf-8")
    (again,) = read_run(tmp_path / "run.json").scores
    assert math.isnan(again.values["correct"])


def test_other_json_files_beside_runs_are_skipped(tmp_path):
    write_run(frames("a", [1, 0]), tmp_path / "frames.json")
    (tmp_path / "notes.json").write_text("{}", encoding="utf-8")
    assert [run.model for run in find_runs(tmp_path)] == ["a"]
    assert find_runs(tmp_path / "notes.json") == []


def test_a_judge_that_returns_too_few_answers_is_refused():
    rows = [{"problem": p, "answer": "x", "response": "x"} for p in "pq"]
    with pytest.raises(InvalidInput, match="each of its 2 prompts; got 1 answer"):
        score_rows(rows, find_benchmark("simpleqa"), judge=lambda prompts: [Answer("A")])


def test_a_second_output_keeps_the_fields_of_the_item_but_not_of_the_first_output():
    seen = []

    class Own(Benchmark):
        name = headline = "own"

        def score(self, item, output, answers):
            seen.append(dict(item))
            return ItemScore(item["id"], {"correct": 1.0})

    rows = [
        {"id": "1", "question": "q", "response": "a", "metadata": {"tokens": 1}, "repeat": 1},
        {"id": "1", "output": "b"},
    ]
    score_rows(rows, Own())
    assert seen[1] == {"id": "1", "question": "q", "output": "b"}


def test_settings_may_be_texts():
    class Own(Benchmark):
        name = "own"
        settings = {"level": Setting(1, (1, 2)), "strict": Setting(True)}  # noqa: RUF012

    options = Own(level="2", strict="False").options
    assert options == {"level": 2, "strict": False}
    assert type(options["level"]) is int
    with pytest.raises(InvalidInput, match="'3'"):
        Own(level="3")
    with pytest.raises(InvalidInput, match="must be one of 'False', 'True'"):
        Own(strict="perhaps")


def test_a_label_may_be_zero():
    class Own(Benchmark):
        name = "own"
        columns = {"level": "level", "topic": "topic"}  # noqa: RUF012

    score = Own().make_score({"id": 1, "level": 0, "topic": None}, {"correct": 1.0})
    assert score.labels == {"level": "0"}


def test_a_folder_of_runs_may_hold_the_logs_of_inspect(tmp_path):
    for model, values in (("a", [1, 0, 0, 1]), ("b", [1, 1, 0, 1])):
        write_run(frames(model, values), tmp_path / model / "frames.json")
        logs = tmp_path / model / "logs" / "frames"
        logs.mkdir(parents=True)
        for name in (".eval-set-id", "eval-set.json", "logs.json"):
            (logs / name).write_text("{}", encoding="utf-8")
    result = RUN.invoke(app, ["eval", "compare", str(tmp_path / "a"), str(tmp_path / "b"), "--json"])
    assert result.exit_code == 0, result.output
    (tmp_path / "a" / "other.json").write_text("{}", encoding="utf-8")
    refused = RUN.invoke(app, ["eval", "table", str(tmp_path / "a")])
    assert refused.exit_code != 0
    assert "other.json" in refused.output


def test_the_real_run_in_the_docs_is_what_the_kept_runs_say():
    root = Path(__file__).resolve().parents[2]
    page = (root / "docs" / "evaluation.md").read_text(encoding="utf-8")
    kept = root / "recipes" / "smollm2_ifeval" / "kept" / "eval"
    result = RUN.invoke(app, ["eval", "compare", str(kept / "base"), str(kept / "adapter"), "--json"])
    for line in json.loads(result.stdout):
        assert f"{line['estimate']:+.2f} [{line['low']:+.2f}, {line['high']:+.2f}]" in page
    for run in (read_run(file) for file in kept.rglob("*.json")):
        for value in run.metrics.values():
            assert f"{100 * value:.2f}" in page


def test_table_averages_capabilities_and_says_what_was_not_run():
    runs = [frames("a", [1, 0]), multi("a", 30.0), frames("b", [1, 1])]
    table = capability_table(runs)
    assert table.benchmarks == ("multichallenge", "frames")
    a, b = table.rows
    assert a.averages == {"instruction following": 30.0, "long context": 50.0}
    assert a.overall == 40.0
    assert "multichallenge" not in b.cells
    assert "| b | – | 100.00 | – | 100.00 | 100.00 |" in table.markdown()


def test_paired_differences_are_narrower_than_what_independent_runs_would_show():
    base = [n % 2 for n in range(200)]
    better = [1 if n % 10 == 0 else v for n, v in enumerate(base)]
    found = compare(frames("a", base), frames("b", better))
    assert found.estimate == pytest.approx(10.0)
    low, high = found.interval
    assert 5.0 < low < found.estimate < high < 15.0
    both = compare_runs([frames("a", base)], [frames("b", better)])
    assert [one.name for one in both] == ["FRAMES"]


def test_ratings_agree_with_a_general_optimiser():
    import numpy as np
    from scipy.optimize import minimize

    rng = np.random.default_rng(0)
    names = list("abcd")
    games = [(*rng.choice(names, 2, replace=False), float(rng.integers(0, 3)) / 2) for _ in range(60)]
    z = rng.normal(size=(60, 2))
    ratings, coefficients = fit_ratings(games, contrasts=z, prior=0.5, attribute_prior=0.2)

    def loss(theta):
        u = dict(zip(names, theta[:4], strict=True))
        eta = np.array([u[i] - u[j] for i, j, _ in games]) + z @ theta[4:]
        o = np.array([o for *_, o in games])
        return -np.sum(o * eta - np.logaddexp(0, eta)) + 0.25 * theta[:4] @ theta[:4] + 0.1 * theta[4:] @ theta[4:]

    found = minimize(loss, np.zeros(6), tol=1e-12).x
    assert [ratings[name] for name in names] == pytest.approx(found[:4], abs=1e-5)
    assert list(coefficients) == pytest.approx(found[4:], abs=1e-5)


@pytest.fixture
def outputs(tmp_path):
    path = tmp_path / "model-a.jsonl"
    path.write_text("".join(json.dumps({"problem": str(n), "grade": "AB"[n % 2]}) + "\n" for n in range(6)))
    return path


def test_verbs_score_table_compare(outputs, tmp_path):
    target = tmp_path / "runs" / "a.json"
    done = RUN.invoke(app, ["eval", "score", str(outputs), "-b", "simpleqa", "-o", str(target)])
    assert done.exit_code == 0, done.output
    assert "0.5000" in done.output
    assert "6 of 6 scored" in done.output
    again = RUN.invoke(app, ["eval", "score", str(outputs), "-b", "simpleqa", "-o", str(target)])
    assert again.exit_code == 2
    assert "--force" in again.output
    same = RUN.invoke(app, ["eval", "score", str(outputs), "-b", "simpleqa", "-o", str(outputs), "--force"])
    assert same.exit_code == 2
    made = RUN.invoke(app, ["eval", "table", str(target.parent), "--json"])
    assert json.loads(made.output)["rows"][0]["points"] == {"simpleqa": 50.0}
    both = RUN.invoke(app, ["eval", "compare", str(target), str(target), "--json"])
    assert json.loads(both.output)[0]["estimate"] == 0.0


def test_a_run_in_which_everything_is_missing_fails(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"problem": "p", "grade": "?"}\n')
    done = RUN.invoke(app, ["eval", "score", str(path), "-b", "simpleqa"])
    assert done.exit_code == 1


def test_list_names_all_sixteen_and_their_data(tmp_path):
    (tmp_path / "frames.jsonl").write_text('{"id": 1}\n')
    done = RUN.invoke(app, ["eval", "list", "--data", str(tmp_path), "--json"])
    found = {one["name"]: one for one in json.loads(done.output)}
    assert len(found) == 16
    assert found["frames"]["data"].endswith("frames.jsonl")
    assert len(found["frames"]["sha256"]) == 64
    assert found["gpqa"]["data"] == "missing"


def output(text):
    from inspect_ai.model import ModelOutput, ModelUsage

    made = ModelOutput.from_content("mockllm/model", text)
    made.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return made


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Inspect's own
def test_a_suite_runs_through_inspect_and_goes_on_without_missing_data(tmp_path):
    pytest.importorskip("inspect_ai")
    from inspect_ai.model import get_model

    from rubrank.evaluation.suite import RunOptions, run_suite

    items = [
        {"key": 1, "prompt": "No commas.", "instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]},
        {"key": 2, "prompt": "Small.", "instruction_id_list": ["change_case:english_lowercase"], "kwargs": [{}]},
    ]
    (tmp_path / "ifeval.jsonl").write_text("".join(json.dumps(item) + "\n" for item in items))
    model = get_model("mockllm/model", custom_outputs=[output("<think>a, b</think>none"), output("LOUD")])
    options = RunOptions("mockllm/model", only="ifeval,ifbench,frames", data=tmp_path, output=tmp_path / "out")
    result = run_suite(options, model)
    assert result.table is not None
    assert result.table.rows[0].cells == {"ifeval": 50.0}
    assert result.failed == ()
    assert len(result.skipped) == 2
    assert "ifbench.jsonl" in result.skipped[0]
    assert "`judge=FILE`" in result.skipped[1]
    kept = read_run(tmp_path / "out" / "ifeval.json")
    assert kept.sampling["seed"] == 0
    result = run_suite(options, model)  # finished: nothing is asked again, and nothing is left to be said
    assert result.table is not None
    assert result.table.rows[0].cells == {"ifeval": 50.0}


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Inspect's own
def test_dialogues_keep_the_models_own_answers(tmp_path):
    pytest.importorskip("inspect_ai")
    from inspect_ai import eval as run
    from inspect_ai.model import get_model

    from rubrank.evaluation.benchmark import Answer
    from rubrank.evaluation.inspect import benchmark_task, read_scores

    asked = []

    def judge(prompts):
        asked.extend(prompts)
        return [Answer('{"reason": "", "result": {"1": "yes"}}') for _ in prompts]

    criteria = [{"id": "1", "text": "c", "type": "t"}]
    turns = [
        {"system_id": 1, "turn": n, "system_prompt": "s", "prompt": f"q{n}", "criteria": criteria} for n in range(1, 6)
    ]
    benchmark = find_benchmark("sysbench")
    model = get_model("mockllm/model", custom_outputs=[output(f"answer {n}") for n in range(1, 6)])
    log = run(benchmark_task(benchmark, turns, judge=judge), model=model, log_dir=str(tmp_path), display="none")[0]
    assert benchmark.metrics(read_scores(log))["SSR"] == 1.0
    assert "answer 1" in asked[1][0]["content"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # of Inspect's own
def test_a_rubric_is_an_inspect_scorer_and_missing_is_not_zero(tmp_path):
    pytest.importorskip("inspect_ai")
    import math

    from inspect_ai import Task
    from inspect_ai import eval as run
    from inspect_ai.dataset import MemoryDataset, Sample
    from inspect_ai.model import get_model

    from rubrank.evaluation.inspect import scorer

    rubric = [{"name": "WordCount", "params": {"low": 2}}, {"name": "Kind", "question": "Is it kind?"}]
    task = Task(dataset=MemoryDataset([Sample(input="hi")]), scorer=scorer(rubric))
    model = get_model("mockllm/model", custom_outputs=[output("One two three")])
    log = run(task, model=model, log_dir=str(tmp_path), display="none")[0]
    value = next(iter(log.samples[0].scores.values())).value
    assert value["WordCount"] == 1.0
    assert math.isnan(value["Kind"])
