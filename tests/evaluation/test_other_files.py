"""Other files of the same kinds: shuffled, compressed, with copies, without optional fields, of another benchmark."""

import gzip
import json
import random

import pytest
from cases import folded
from hypothesis import given
from hypothesis import strategies as st
from typer.testing import CliRunner

from rubrank.cli.app import app
from rubrank.errors import RubrankError
from rubrank.evaluation.benchmarks import BENCHMARKS, find_benchmark
from rubrank.evaluation.runs import read_run, score_rows

COMMA = {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
IFEVAL = [{"key": k, "prompt": f"p{k}", **COMMA, "response": "a, b" if k % 3 else "a"} for k in range(9)]
MMLU = [
    {"question_id": k, "options": ["x", "y"], "answer": "A", "model_outputs": "The answer is (A)." if k else "?"}
    for k in range(4)
]
SYS = [
    {
        "system_id": 1,
        "turn": t,
        "system_prompt": "s",
        "prompt": "p",
        "response": "r",
        "criteria": [{"id": 1, "text": "c", "verdict": "yes" if t < 4 else "no"}],
    }
    for t in range(1, 6)
]


def number(rows, name, **settings):
    run = score_rows(rows, find_benchmark(name, **settings))
    return run.metrics[find_benchmark(name).headline], run


@given(st.randoms(use_true_random=False))
def test_the_order_of_rows_changes_nothing(draws: random.Random):
    for rows, name in ((IFEVAL, "ifeval"), (MMLU, "mmlu-pro"), (SYS, "sysbench")):
        mixed = list(rows)
        draws.shuffle(mixed)
        assert score_rows(mixed, find_benchmark(name)).metrics == score_rows(rows, find_benchmark(name)).metrics


@given(st.lists(st.integers(0, 8), min_size=1, max_size=8))
def test_copies_of_rows_change_nothing_and_are_said(again: list[int]):
    value, _ = number(IFEVAL, "ifeval")
    found, run = number([*IFEVAL, *(IFEVAL[k] for k in again)], "ifeval")
    assert found == value
    assert f"{len(again)} rows are copies" in " ".join(run.notes)


def test_repeats_that_are_alike_are_repeats():
    value, run = number(IFEVAL * 2, "ifeval")
    assert (value, len(run.scores), run.notes) == (number(IFEVAL, "ifeval")[0], 18, ())


def test_uneven_repeats_are_said():
    _, run = number([*IFEVAL, {**IFEVAL[0], "response": "other"}], "ifeval")
    assert "items have different numbers of outputs: 1 output for 8 items, 2 outputs for 1 item" in run.notes


def test_an_empty_answer_is_an_answer_and_null_is_missing():
    rows = [{**IFEVAL[0], "response": ""}, {**IFEVAL[1], "response": None}]
    _, run = number(rows, "ifeval")
    assert run.judged == "1 of 2"
    assert run.missing == {"no output in the row": 1}


@pytest.mark.parametrize("kind", ["gz", "zst", "plain"])
@pytest.mark.parametrize("form", ["jsonl", "json", "csv"])
def test_compressed_files_are_read_as_what_is_in_them(tmp_path, kind, form):
    rows = [{"problem": str(k), "grade": "AB"[k % 2]} for k in range(4)]
    texts = {
        "jsonl": "".join(json.dumps(row) + "\n" for row in rows),
        "json": json.dumps({"rows": rows}),
        "csv": "problem,grade\n" + "".join(f"{row['problem']},{row['grade']}\n" for row in rows),
    }
    data = texts[form].encode()
    path = tmp_path / (f"x.{form}" if kind == "plain" else f"x.{form}.{kind}")
    if kind == "gz":
        data = gzip.compress(data)
    elif kind == "zst":
        data = pytest.importorskip("zstandard").ZstdCompressor().compress(data)
    path.write_bytes(data)
    done = CliRunner().invoke(app, ["eval", "score", str(path), "-b", "simpleqa", "--json"])
    assert done.exit_code == 0, done.output
    assert json.loads(done.stdout)["metrics"]["correct"] == 0.5


QUESTIONS = {
    "mmlu-pro": {"question_id": 1, "question": "q", "options": ["x", "y"], "answer": "A"},
    "longbench-v2": {"_id": "1", "question": "q", "choice_A": "x", "answer": "A", "difficulty": "easy"},
    "simpleqa": {"problem": "q", "answer": "Paris"},
    "frames": {"id": 1, "Prompt": "q", "Answer": "Paris"},
    "aa-lcr": {"question_id": 1, "question": "q", "answer": "Paris"},
    "gpqa": {"Record ID": "1", "Question": "q", "Correct Answer": "x", "Incorrect Answer 1": "y"},
}


@pytest.mark.parametrize("name", BENCHMARKS)
@folded("kind", QUESTIONS)
def test_a_file_of_questions_is_no_file_of_outputs(name, kind):
    """The right answer is called `answer` in many files: taken for the output it would score 100."""
    with pytest.raises(RubrankError) as error:
        score_rows([QUESTIONS[kind]], find_benchmark(name))
    assert "row 1" in str(error.value) or "judge" in str(error.value)


@pytest.mark.parametrize(
    ("name", "rows"),
    [
        ("ifbench", IFEVAL),
        ("ifeval", [{"key": 1, "prompt": "p", "instruction_id_list": ["count:keywords_multiple"], "response": "r"}]),
        ("longbench-v2", [{"id": 1, "answer": "Paris", "output": "The correct answer is (A)"}]),
        ("mmlu-pro", [{"id": 1, "answer": "Paris", "options": ["x"], "output": "The answer is (A)"}]),
        ("mmlu-pro", [{"id": 1, "answer": "AB", "options": ["x", "y"], "output": "The answer is (A)"}]),
        ("helmet", [{"id": 1, "answer": "Paris", "output": "Paris", "dataset": "something_else"}]),
        ("multichallenge", [{"QUESTION_ID": 1, "verdict": "YES", "pass_criteria": "YES"}]),
        ("multichallenge", [{"QUESTION_ID": 1, "verdict": "YES", "axis": "a"}]),
        ("sysbench", [{key: value for key, value in SYS[0].items() if key != "turn"}]),
        ("longproc", [{"task": "other_0.5k", "index": 1, "prediction": "x"}]),
        ("ifeval", [{**IFEVAL[0], "response": {"a": 1}}]),
    ],
)
def test_what_cannot_be_scored_names_the_row(name, rows):
    with pytest.raises(RubrankError, match="row 1"):
        score_rows(rows, find_benchmark(name))


@pytest.mark.parametrize(
    ("name", "row"),
    [
        ("frames", {"id": 1, "decision": "ERROR"}),
        ("gpqa", {"id": 1, "score": "N"}),
        ("simpleqa", {"problem": "q", "grade": "A or B"}),
    ],
)
def test_a_verdict_that_is_none_is_missing_and_never_wrong(name, row):
    _, run = number([row], name)
    assert run.judged == "0 of 1"


@pytest.mark.parametrize("grade", ["A", "a", " A ", "CORRECT", "(A)"])
def test_grades_as_files_write_them(grade):
    assert number([{"problem": "q", "grade": grade}], "simpleqa")[0] == 1.0


def test_inspects_letters_are_scores():
    assert number([{"id": 1, "score": "C"}, {"id": 2, "score": "I"}, {"id": 3, "score": 1.0}], "gpqa")[0] == 2 / 3


def test_helmets_own_names_have_their_categories():
    row = {"id": 1, "answer": "Paris", "output": "It is Paris."}
    for dataset, category in (("kilt_nq", "rag"), ("ruler_niah_mk_2", "recall"), ("icl_trec_coarse_k100", "icl")):
        assert category in number([{**row, "dataset": dataset}], "helmet")[1].metrics


def test_outputs_may_name_an_item_by_its_prompt():
    items = [{"key": k, "prompt": f"p{k}", **COMMA} for k in range(3)]
    run = score_rows([{"prompt": "p1", "response": "a"}], find_benchmark("ifeval"), items=items)
    assert [score.id for score in run.scores] == ["1"]
    assert run.notes == ("1 of 3 items of the data file have outputs",)


def test_messages_are_outputs():
    said = [{"role": "user", "content": "p"}, {"role": "assistant", "content": "none"}]
    assert number([{**IFEVAL[1], "response": said}], "ifeval")[0] == 1.0


def test_several_models_in_a_file_are_said_and_one_can_be_chosen(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("item_id,model,score\n1,a,1\n1,b,0\n2,a,1\n2,b,1\n")
    command = ["eval", "score", str(path), "-b", "gpqa", "-o", str(tmp_path / "run.json")]
    both = CliRunner().invoke(app, command)
    assert both.exit_code == 0, both.output
    assert "outputs of 2 models" in " ".join(read_run(tmp_path / "run.json").notes)
    one = CliRunner().invoke(app, [*command, "--force", "--where", "model=b", "--json"])
    assert json.loads(one.stdout)["metrics"]["accuracy"] == 0.5
    assert json.loads(one.stdout)["notes"] == []
    none = CliRunner().invoke(app, [*command, "--force", "--where", "model=c"])
    assert none.exit_code == 2
    assert "at least one row" in none.output
