"""Every benchmark end to end on a tiny file of its real schema, with a scripted judge; scores worked by hand."""

import json
import math

import pytest

from rubrank.errors import InvalidInput, UnknownName
from rubrank.evaluation.benchmark import Answer, MissingScore
from rubrank.evaluation.benchmarks import BENCHMARKS, benchmark_class, find_benchmark
from rubrank.evaluation.benchmarks.judged_questions import read_grade
from rubrank.evaluation.benchmarks.longproc import is_solution
from rubrank.evaluation.benchmarks.open_ended import read_verdict
from rubrank.evaluation.generation import ask_items
from rubrank.evaluation.runs import score_rows
from rubrank.evaluation.table import capability_table, compare


def judge(*texts):
    """Says these texts in turn; None is a failure."""
    said = iter(texts)

    def answer(prompts):
        return [Answer(text) if (text := next(said)) is not None else Answer(None, "timeout") for _ in prompts]

    return answer


def verdicts(**result):
    return json.dumps({"reason": "", "result": result})


def turn(number, system=1):
    criteria = [{"id": "1", "text": "be brief", "type": "style"}, {"id": "2", "text": "be kind", "type": "style"}]
    return {
        "system_id": system,
        "turn": number,
        "system_prompt": "s",
        "prompt": "p",
        "criteria": criteria,
        "output": "o",
    }


def test_sysbench():
    yes, no = verdicts(**{"1": "yes", "2": "yes"}), verdicts(**{"1": "yes", "2": "no"})
    run = score_rows([turn(n) for n in range(1, 6)], find_benchmark("sysbench"), judge=judge(yes, yes, no, yes, yes))
    assert run.metrics == {"ISR": 0.8, "CSR": 0.9, "SSR": 0.4}


def test_sysbench_a_reply_about_other_constraints_is_missing_and_its_dialogue_counts_in_no_ssr():
    yes = verdicts(**{"1": "yes", "2": "yes"})
    said = judge(yes, verdicts(**{"1": "yes"}), yes, None, yes)
    run = score_rows([turn(n) for n in range(1, 6)], find_benchmark("sysbench"), judge=said)
    assert run.judged == "3 of 5"
    assert run.metrics["ISR"] == 1.0
    assert math.isnan(run.metrics["SSR"])
    assert run.missing["timeout"] == 1


def test_advancedif():
    row = {
        "id": "a",
        "conversation_history": json.dumps([{"role": "user", "content": "q"}]),
        "output": "o",
        "prompt_metadata": json.dumps({"rubrics": json.dumps(["Is it short?", "Is it kind?"])}),
    }
    said = {"rubrics_check": {"question_1": "YES: it is", "question_2": "No, rude"}, "SATISFIED_ALL_REQUIREMENTS": "NO"}
    run = score_rows([row], find_benchmark("advancedif"), judge=judge(json.dumps(said)))
    assert run.metrics["all satisfied"] == 0.0
    assert run.metrics["criteria met"] == 0.5


def test_multichallenge_a_pass_criterion_may_be_no_and_one_attempt_is_enough():
    items = [
        {"QUESTION_ID": "1", "AXIS": "A", "CONVERSATION": [], "TARGET_QUESTION": "?", "PASS_CRITERIA": "NO"},
        {"QUESTION_ID": "2", "AXIS": "B", "CONVERSATION": [], "TARGET_QUESTION": "?", "PASS_CRITERIA": "YES"},
    ]
    rows = [{"id": "1", "output": "x"}, {"id": "1", "output": "y"}, {"id": "2", "output": "z"}]
    said = [json.dumps({"reasoning": "", "verdict": v}) for v in ("YES", "NO", "NO")]
    run = score_rows(rows, find_benchmark("multichallenge"), items=items, judge=judge(*said))
    assert run.metrics == {"overall": 50.0, "A": 100.0, "B": 0.0}


def test_simpleqa_f1_is_the_harmonic_mean_of_correct_and_correct_given_attempted():
    rows = [{"problem": str(n), "target": "t", "output": "o"} for n in range(4)]
    run = score_rows(rows, find_benchmark("simpleqa"), judge=judge("A", "B", "C", "A"))
    assert run.metrics["correct"] == 0.5
    assert run.metrics["correct given attempted"] == pytest.approx(2 / 3)
    assert run.metrics["F1"] == pytest.approx(2 * 0.5 * (2 / 3) / (0.5 + 2 / 3))


def test_readable_and_unreadable_published_verdicts_name_their_items_alike():
    items = [{"original_index": n, "problem": f"question {n}", "primary_category": "Art"} for n in (3, 4)]
    rows = [{"original_index": 3, "grade": "A"}, {"original_index": 4, "grade": "X"}]
    run = score_rows(rows, find_benchmark("simpleqa"), items=items)
    scores = {score.id: score for score in run.scores}
    assert set(scores) == {"3", "4"}
    assert scores["3"].labels == {"category": "Art"}
    assert "cannot be read" in scores["4"].missing


@pytest.mark.parametrize(
    ("text", "fixed", "upstream"),
    [
        ("A", "A", "A"),
        ("B.", "B", "B"),
        ("CORRECT", "A", "C"),
        ("INCORRECT", "B", "C"),
        ("NOT_ATTEMPTED", "C", "A"),
        ("The grade is **A**", "A", "A"),
        ("A or B", None, "A"),
        ("I cannot say", None, "C"),
        ("A (INCORRECT)", None, "A"),
        ("答案是：B", "B", "B"),
        ("正确", "A", "C"),
        ("", None, "C"),
    ],
)
def test_grades_of_simpleqa(text, fixed, upstream):
    assert read_grade(text, "fixed") == fixed
    assert read_grade(text, "upstream") == upstream


def test_chinese_simpleqa_by_category():
    rows = [
        {"id": n, "primary_category": c, "question": "q", "answer": "a", "output": "o"} for n, c in enumerate("甲甲乙")
    ]
    run = score_rows(rows, find_benchmark("chinese-simpleqa"), judge=judge("A", "C", "A"))
    assert run.metrics["correct/甲"] == 0.5
    assert run.metrics["correct/乙"] == 1.0


def test_frames_takes_the_last_decision_and_never_guesses():
    rows = [{"id": n, "question": "q", "answer": "a", "output": "o"} for n in range(3)]
    said = judge("Explanation: it is TRUE that …\nDecision: FALSE", "Decision: TRUE", "no idea")
    run = score_rows(rows, find_benchmark("frames"), judge=said)
    assert run.metrics["accuracy"] == 0.5
    assert run.judged == "2 of 3"


def test_aa_lcr_reads_whole_words():
    rows = [{"question_id": n, "question": "q", "answer": "a", "output": "o"} for n in range(3)]
    run = score_rows(rows, find_benchmark("aa-lcr"), judge=judge("INCORRECT", "CORRECT", "CORRECT, not INCORRECT"))
    assert run.metrics["accuracy"] == 0.5
    assert run.judged == "2 of 3"


def choice(id, answer, output, **more):
    return {"_id": id, "answer": answer, "output": output, "difficulty": "easy", "length": "short", **more}


def test_longbench():
    rows = [
        choice("1", "B", "The correct answer is (B)."),
        choice("2", "A", "**The correct answer is C**"),
        choice("3", "D", "I do not know"),
        choice("4", "A", ""),
    ]
    assert score_rows(rows, find_benchmark("longbench-v2")).metrics["accuracy"] == 0.25
    assert score_rows(rows, find_benchmark("longbench-v2", compensated="yes")).metrics["accuracy"] == 0.375
    upstream = score_rows(rows, find_benchmark("longbench-v2", compat="upstream"))
    assert upstream.metrics["accuracy"] == pytest.approx(1 / 3)


def test_mmlu_pro():
    rows = [
        {
            "question_id": 1,
            "answer": "C",
            "category": "law",
            "options": list("abcd"),
            "output": "the answer is (C).",
        },
        {"question_id": 2, "answer": "A", "category": "law", "options": list("abcd"), "output": "Answer: B\nAnswer: A"},
        {"question_id": 3, "answer": "D", "category": "art", "options": list("abcd"), "output": "hm"},
    ]
    run = score_rows(rows, find_benchmark("mmlu-pro"))
    assert run.metrics == {"accuracy": pytest.approx(2 / 3), "accuracy/art": 0.0, "accuracy/law": 1.0}


def test_an_answer_of_mmlu_pro_that_contradicts_its_index_names_the_row():
    right = {"question_id": 7, "answer": "C", "answer_index": 2, "options": list("abcd"), "output": "Answer: C"}
    for index in (2, "2", None):
        run = score_rows([{**right, "answer_index": index}], find_benchmark("mmlu-pro"))
        assert run.metrics["accuracy"] == 1.0
    for index in (3, 0, -8, "C", [2]):
        with pytest.raises(
            InvalidInput,
            match=r"row 7: answer must be a letter from A to J, whose place",
        ):
            score_rows([right, {**right, "answer_index": index, "output": "C"}], find_benchmark("mmlu-pro"))


def test_gpqa_orders_are_drawn_by_seed_and_repeat():
    item = {"Record ID": "r", "Question": "q", "Correct Answer": "right"}
    item |= {f"Incorrect Answer {k}": f"wrong {k}" for k in (1, 2, 3)}
    benchmark = find_benchmark("gpqa")
    orders = [benchmark.order_choices({**item, "repeat": repeat}) for repeat in range(8)]
    assert len({tuple(listed) for listed, _ in orders}) > 1
    assert all(listed["ABCD".index(letter)] == "right" for listed, letter in orders)
    assert orders[3] == find_benchmark("gpqa").order_choices({**item, "repeat": 3})
    letter = benchmark.order_choices(item)[1]
    run = score_rows([{**item, "output": f"…\nAnswer: {letter}"}], benchmark)
    assert run.metrics["accuracy"] == 1.0


def test_longproc_of_travel():
    example = {
        "ground_truth_cities": "Rome**Oslo",
        "ground_truth_durations": "3**2",
        "reference_output": "<Solving Procedure>a",
    }
    plan = (
        "<Plan>\nVisit European cities for 4 days.\nDay 1-3: Rome\nDay 3: fly from Rome to Oslo\nDay 3-4: Oslo\n</Plan>"
    )
    row = {"task": "travel_planning_2k", "index": 0, "prediction": plan, "example": example}
    run = score_rows([row], find_benchmark("longproc"))
    assert run.metrics["score"] == 1.0


@pytest.mark.parametrize(
    ("text", "right"),
    [
        ("2 + 3 = 5\n5 * 4 = 20\n20 - 1 = 19", True),
        ("2 + 3 = 5\n5 * 4 = 20", False),
        ("2 + 2 = 4\n4 * 4 = 16\n16 + 3 = 19", False),
        ("2 + 3 = 5\n5 * 4 = 21\n21 - 1 = 20", False),
        ("__import__('os') = 1\n1\n2", False),
    ],
)
def test_countdown_solutions(text, right):
    assert is_solution([1, 2, 3, 4], 19, text) is right


def test_helmet_is_the_mean_of_category_means():
    rows = [
        {"id": 1, "dataset": "nq", "question": "q", "answer": ["Paris"], "output": "It is Paris."},
        {"id": 2, "dataset": "nq", "question": "q", "answer": ["Rome"], "output": "Paris"},
        {"id": 3, "dataset": "icl", "question": "q", "answer": ["label: 7"], "output": "label: 7"},
        {"id": 4, "dataset": "rerank", "qrel": {"1": 2, "2": 1}, "output": "2 > 1"},
        {"id": 5, "dataset": "narrativeqa", "question": "q", "answer": ["a"], "output": "a"},
        {"id": 6, "dataset": "multi_lexsum", "keypoints": ["a", "b"], "summary": "s", "output": "o"},
    ]
    summary = '{"fluency": 1, "supported_key_points": 1, "sentence_count": 2, "supported_sentences": 2}'
    run = score_rows(rows, find_benchmark("helmet"), judge=judge('{"fluency": 1, "correctness": 2}', summary))
    ndcg = (1 + 2 / math.log2(3)) / (2 + 1 / math.log2(3))
    wanted = {"icl": 100.0, "longqa": 200 / 3, "rag": 50.0, "rerank": 100 * ndcg, "summ": 200 / 3}
    assert run.metrics == pytest.approx({"score": sum(wanted.values()) / 5, **wanted})


def test_arena_hard_counts_strong_labels_three_times():
    rows = [
        {"uid": "1", "category": "hard_prompt", "prompt": "p", "baseline": "b", "output": "o"},
        {"uid": "2", "category": "hard_prompt", "prompt": "p", "baseline": "b", "output": "o"},
    ]
    said = judge("… [[B>>A]]", "first [[B>A]], no: [[A=B]]", "[[A>B]]", "no label")
    run = score_rows(rows, find_benchmark("arena-hard-v2"), judge=said)
    assert run.metrics["win rate"] == pytest.approx(100 * 3.5 / 4)
    assert run.missing["a game is missing"] == 1
    assert read_verdict("[[A>>>B]] [[C]]") is None


def test_arena_hard_style_control_takes_length_out():
    rows = []
    for n in range(200):  # the longer one wins in four of five; the model is longer in three of four
        longer = n % 4 != 0
        wins = longer == (n % 5 != 0)
        games = [{"score": "B>A" if wins else "A>B"}, {"score": "A>B" if wins else "B>A"}]
        own, base = ({"token_len": 300}, {"token_len": 100}) if longer else ({"token_len": 100}, {"token_len": 300})
        rows.append({"uid": str(n), "games": games, "metadata": own, "baseline_metadata": base})
    raw = score_rows(rows, find_benchmark("arena-hard-v2")).metrics["win rate"]
    controlled = score_rows(rows, find_benchmark("arena-hard-v2", style="controlled")).metrics["win rate"]
    assert raw == 65.0
    assert controlled == pytest.approx(50.0, abs=1.0)


def test_eqbench_rubric_counts_only_what_is_better_when_more():
    row = {"scenario_id": "1", "output": "o"}
    grades = json.dumps({"demonstrated_empathy": 20, "pragmatic_ei": 10, "sycophantic": 20})
    assert score_rows([row], find_benchmark("eqbench3"), judge=judge(grades)).metrics["rubric score"] == 75.0
    assert score_rows([row], find_benchmark("eqbench3"), judge=judge('{"pragmatic_ei": 99}')).judged == "0 of 1"


def test_ifeval_cuts_thinking_and_counts_prompts_and_instructions():
    row = {
        "key": 1,
        "prompt": "p",
        "instruction_id_list": ["punctuation:no_comma", "change_case:english_lowercase"],
        "kwargs": [{}, {}],
        "response": "<think>a, b</think>no commas HERE",
    }
    run = score_rows([row], find_benchmark("ifeval"))
    assert run.metrics["prompt strict"] == 0.0
    assert run.metrics["instruction strict"] == 0.5
    assert run.reasoning_words == 2


def test_an_unknown_instruction_is_missing_not_failed():
    row = {"key": 1, "prompt": "p", "instruction_id_list": ["no:such"], "kwargs": [{}], "response": "x"}
    assert score_rows([row], find_benchmark("ifeval")).judged == "0 of 1"


@pytest.mark.parametrize("name", BENCHMARKS)
def test_every_benchmark_has_its_facts(name):
    one = benchmark_class(name)
    assert one.name == name
    assert one.data
    assert one.licence
    assert find_benchmark(name.replace("-", "_")).name == name


def test_mistakes_are_one_clear_error():
    with pytest.raises(UnknownName, match="sysbench"):
        find_benchmark("sysbenhc")
    with pytest.raises(UnknownName, match="compat"):
        find_benchmark("simpleqa", compatt="fixed")
    with pytest.raises(UnknownName, match="upstream"):
        find_benchmark("simpleqa", compat="new")
    with pytest.raises(InvalidInput, match="`judge=FILE`"):
        score_rows([{"problem": "p", "target": "t", "output": "o"}], find_benchmark("simpleqa"))
    with pytest.raises(InvalidInput, match="row 1"):
        score_rows([{"id": "1", "output": "o"}], find_benchmark("sysbench"), judge=judge())
    with pytest.raises(InvalidInput, match="at least one row"):
        score_rows([], find_benchmark("ifeval"))


@pytest.mark.parametrize(
    "output",
    [
        "12 > 5 > 3",
        "[12] > [5] > [3]",
        "[ID: 12] > [ID: 5] > [ID: 3]",
        "**12** > **5** > **3**",
        "Ranking: 12 > 5 > 3",
        "Here is my ranking:\n\n12 > 5 > 3",
        "ID: 12 (most relevant) > ID: 5 > ID: 3",
    ],
)
def test_a_helmet_ranking_is_read_in_the_forms_that_models_write(output):
    row = {"id": "1", "dataset": "msmarco_rerank_psg_k1000", "qrel": {"12": 3, "5": 2, "3": 1}, "output": output}
    assert score_rows([row], find_benchmark("helmet")).metrics["rerank"] == pytest.approx(100.0)


def test_a_helmet_ranking_of_one_passage_needs_no_comparison():
    row = {"id": "1", "dataset": "msmarco_rerank_psg_k1000", "qrel": {"3": 1}, "output": "Ranking: 3"}
    assert score_rows([row], find_benchmark("helmet")).metrics["rerank"] == pytest.approx(100.0)


def test_helmet_an_empty_summary_scores_zero_and_a_reply_without_numbers_is_missing():
    helmet = find_benchmark("helmet")
    item = {"id": "1", "dataset": "multi_lexsum", "keypoints": ["The moon pulls."], "summary": "The moon pulls."}
    reply = {"fluency": 1, "supported_key_points": 0, "supported_sentences": 0, "sentence_count": 0}
    assert helmet.score(item, "", [json.dumps(reply)]).values == {"score": 0.0}
    with pytest.raises(MissingScore, match="no grades"):
        helmet.score(item, "", [json.dumps({**reply, "sentence_count": math.inf})])


PAIR = {"test_model": "a", "neighbor_model": "b"}
COMPARISONS = [
    {"scenario_id": str(i), "pair": PAIR, "order": "A1:test/A2:other", "judge_response": {"correctness": "A1++"}}
    for i in range(3)
]


def test_eqbench_comparisons_have_ratings_and_no_points():
    run = score_rows(COMPARISONS, find_benchmark("eqbench3", form="pairwise"))
    assert run.metrics["rating/a"] == -run.metrics["rating/b"] > 0
    (row,) = capability_table([run], intervals=True).rows
    assert math.isnan(row.overall)
    assert not row.intervals
    assert math.isnan(compare(run, run).estimate)


def test_eqbench_comparisons_and_grades_may_stand_in_one_file():
    graded = {"scenario_id": "9", "rubric_scores": {"correctness": 10}}
    metrics = score_rows([*COMPARISONS, graded], find_benchmark("eqbench3")).metrics
    assert metrics["rubric score"] == 50.0
    assert metrics["plus counts"] == 6


def test_an_output_that_looks_like_nested_json_is_text():
    output = "[" * 100_000
    assert find_benchmark("advancedif").output({"response": output}) == output


def test_multichallenge_reads_pass_criteria_of_all_rows_alike():
    multichallenge = find_benchmark("multichallenge")
    item = {"QUESTION_ID": "1", "PASS_CRITERIA": "Yes.", "AXIS": "memory", "TARGET_QUESTION": "Is it so?"}
    reply = json.dumps({"reasoning": "", "verdict": "YES"})
    assert multichallenge.score(item, "It is.", [reply]).values == {"passed": 1.0}
    assert multichallenge.published_score(item, {**item, "verdict": "YES"}).values == {"passed": 1.0}
    with pytest.raises(InvalidInput, match="got 'perhaps'"):
        multichallenge.score({**item, "PASS_CRITERIA": "perhaps"}, "It is.", [reply])


@pytest.mark.parametrize(
    ("task", "output"),
    [
        ("html_to_tsv_2k", "```tsv\na\tb\n1\r2\t3\n```"),
        ("html_to_tsv_2k", "```tsv\na\tb\n" + "1" * 140_000 + "\t3\n```"),
        ("countdown_2k", "<Solution>\n" + "1" * 5000 + " + 1 = 2\n1 + 1 = 2\n1 + 1 = 2\n</Solution>"),
        ("travel_planning_2k", "<Plan>\nDay " + "1" * 5000 + ": fly from A to B\nDay 1-" + "1" * 5000 + "\n</Plan>"),
    ],
)
def test_longproc_scores_outputs_that_python_refuses_to_read(task, output):
    example = {
        "reference_output": "a\tb\n1\t2",
        "nums": [1, 2],
        "target": 3,
        "ground_truth_cities": "A**B",
        "ground_truth_durations": "2**3",
    }
    score = find_benchmark("longproc").score({"task": task, "index": 1, "example": example}, output, ())
    assert score.values["accuracy"] == 0.0


def test_a_dialogue_keeps_the_history_that_its_first_row_has():
    before = [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Hello."}]
    turns = [
        {"system_id": "s", "turn": 2, "system_prompt": "Be kind.", "prompt": "Two?", "history": before},
        {"system_id": "s", "turn": 3, "system_prompt": "Be kind.", "prompt": "Three?"},
    ]
    rows = ask_items(find_benchmark("sysbench"), turns, lambda prompts: ["yes"] * len(prompts))
    assert [message["content"] for message in rows[1]["history"]] == ["Hi.", "Hello.", "Two?", "yes"]


def test_an_answer_that_is_json_stays_as_it_is():
    advancedif = find_benchmark("advancedif")
    for answer in ("[1, 2, 3]", '["x"]', '{"a": true}', '[{"name": "Ada"}]'):
        assert advancedif.output({"response": answer}) == answer
    messages = [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a"}]
    assert advancedif.output({"response": json.dumps(messages)}) == "a"


@pytest.mark.parametrize("verdict", ["Not sure", "None", "Note: yes", "Yesterday it was"])
def test_advancedif_reads_only_whole_words_as_verdicts(verdict):
    item = {"id": "a", "rubrics": ["Is it short?"]}
    reply = json.dumps({"rubrics_check": {"question_1": verdict}})
    with pytest.raises(MissingScore, match="neither YES nor NO"):
        find_benchmark("advancedif").score(item, "An answer.", [reply])


def test_items_that_occur_again_are_repeats_and_not_turns():
    question = {"Record ID": "q", "Question": "?", "Correct Answer": "a"}
    question |= {f"Incorrect Answer {number}": "b" for number in (1, 2, 3)}
    rows = ask_items(find_benchmark("gpqa"), [question] * 3, lambda prompts: ["Answer: A"] * len(prompts))
    assert [row["history"] for row in rows] == [[], [], []]


def test_repeated_dialogues_keep_their_own_histories():
    turns = [{"system_id": "s", "turn": turn, "system_prompt": "Be brief.", "prompt": f"q{turn}"} for turn in (1, 2)]
    outputs = iter(["a1", "b1", "a2", "b2"])
    rows = ask_items(find_benchmark("sysbench"), turns * 2, lambda prompts: [next(outputs) for _ in prompts])
    histories = [[message["content"] for message in row["history"]] for row in rows]
    assert histories == [[], [], ["q1", "a1"], ["q1", "b1"]]
