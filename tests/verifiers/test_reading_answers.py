"""Results are read as people state them: hundreds of phrasings, in many languages and notations, right and wrong."""

import re
from pathlib import Path

import pytest
import yaml
from cases import examples, folded
from hypothesis import given
from hypothesis import strategies as st

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.shared import worker
from rubrank.verifiers.shared.answers import read_answer
from rubrank.verifiers.shared.choices import Choice, find_choice
from rubrank.verifiers.shared.word_tables import read_table
from rubrank.verifiers.truth import ground_truth
from rubrank.verifiers.verifier import find_verifier

PHRASINGS = yaml.safe_load(Path(__file__).with_name("phrasings.yaml").read_text("utf-8"))
OTHERS = {"A": ("C", "D"), "B": ("A", "D"), "C": ("B", "A"), "D": ("A", "C")}


def verdict(response, truth=None, mode="normalised", question="", metadata=None, **params):
    verifier = find_verifier("GroundTruthMatch")
    rollout = Rollout(prompt=question, response=response, metadata=metadata or {})
    given = {"mode": mode, **params} | ({} if truth is None else {"truth": truth})
    return verifier.verify(rollout, verifier.check_parameters(given))


def filled(template, letter, lower=False):
    other, third = OTHERS[letter]
    for name, value in (("{X}", letter), ("{Y}", other), ("{Z}", third)):
        template = template.replace(name, value.lower() if lower else value)
    return template


@folded("row", read_table("answer_patterns"))
def test_every_pattern_finds_its_example(row):
    _, _, pattern, example = row
    assert re.search(pattern, example, re.IGNORECASE), row


@folded("template", PHRASINGS["chosen"])
@folded("letter", "ABCD")
def test_an_option_is_chosen(template, letter):
    text = filled(template, letter)
    assert find_choice(text).letters == letter, text
    assert verdict(text, letter, "choice").value == 1
    wrong = OTHERS[letter][0]
    assert verdict(text, wrong, "choice").value == 0


@folded(("answer", "truth", "right"), PHRASINGS["choices"])
def test_choices_in_longer_words(answer, truth, right):
    result = verdict(answer, truth, "choice")
    assert result.value == right, result.reason


@folded("template", [t for t in PHRASINGS["chosen"] if "{Y}" not in t])
def test_small_letters_are_options_too(template):
    assert find_choice(filled(template, "B", lower=True)).letters == "B"


@folded("template", PHRASINGS["not_chosen"])
@folded("letter", "ABCD")
def test_what_is_denied_or_hedged_is_not_chosen(template, letter):
    assert verdict(filled(template, letter), letter, "choice").value == 0


@folded(("answer", "truth"), PHRASINGS["numbers"])
def test_right_numbers(answer, truth):
    result = verdict(answer, truth, "numeric")
    assert result.value == 1, result.reason


@folded(("answer", "truth"), PHRASINGS["not_numbers"])
def test_wrong_hedged_denied_and_contradictory_numbers(answer, truth):
    result = verdict(answer, truth, "numeric")
    assert result.value == 0, result.reason


@folded(("answer", "truth", "right", "question"), [(*t, "")[:4] for t in PHRASINGS["texts"]])
def test_texts(answer, truth, right, question):
    result = verdict(answer, truth, question=question)
    assert result.value == right, result.reason


@folded("mode", ["exact", "normalised", "numeric", "math"])
@folded(
    "wrapped",
    [
        "<answer>42</answer>",
        "<solution>42</solution>",
        "\\boxed{42}",
        "#### 42",
        '{"answer": "42"}',
        "Answer: 42",
        "42",
    ],
)
def test_every_mode_reads_by_the_same_layer(mode, wrapped):
    assert verdict(f"6 times 7 is\n\n{wrapped}", "42", mode).value == 1
    assert verdict(f"Not 42, I think.\n\n{wrapped.replace('42', '41')}", "42", mode).value == 0


@folded(
    ("answer", "how"),
    [
        ("<answer>42</answer>", "the last <answer>"),
        ("so \\boxed{42}", "the last \\boxed"),
        ("#### 42", "the last ####"),
        ('{"answer": 42}', "the JSON key"),
        ("The answer is 42", "the last statement"),
        ("so it is 42", "the last line"),
    ],
)
def test_the_reason_says_what_was_read_and_where(answer, how):
    assert verdict(answer, "7", "numeric").reason == f"read '42' from {how}, '7' expected"


def test_extractors_can_be_chosen_and_ordered():
    text = "<answer>1</answer> \\boxed{2}\n\n#### 3\n\nAnswer: 4"
    assert [read_answer(text, (name,)).text for name in ("answer_tag", "boxed", "hash", "stated")] == [
        "1",
        "2",
        "3",
        "4",
    ]
    assert read_answer(text, ("solution_tag", "hash", "boxed")).text == "3"
    assert verdict(text, 2, "numeric", extractors=["boxed"]).value == 1
    assert verdict(text, 1, "numeric").value == 1
    assert verdict("B\n\nAnswer: C", "B", "choice", extractors=["answer_tag", "last"]).value == 1
    assert verdict("no tag, 42", 42, "numeric", extractors=["answer_tag"]).value == 0


QUESTION = "Which city is the capital?\nA. Lyon\nB. Paris\nC. Nice\nD. Lille"


@pytest.mark.parametrize(
    "answer", ["Paris", "<answer>Paris</answer>", "The answer is Paris.", "\\boxed{\\text{Paris}}"]
)
def test_the_text_of_an_option_is_its_letter(answer):
    assert verdict(answer, "B", "choice", QUESTION).value == 1
    assert verdict(answer, "C", "choice", QUESTION).value == 0
    assert verdict("B", "Paris", "choice", QUESTION).value == 1


@folded(
    "metadata",
    [
        {"reward_model": {"style": "rule", "ground_truth": "42"}},
        {"reward_model": '{"ground_truth": "42"}'},
        {"ground_truth": "42"},
        {"answer": 42},
        {"gold": "42"},
        {"label": 42},
        {"solution": "So \\boxed{42}"},
        {"target": "42"},
        {"final_answer": "42"},
        {"extra_info": {"answer": "42", "index": 3}},
        {"answer": "6*7 = <<6*7=42>>42\n#### 42"},
        {"info": {"answer": "42"}},
        {"ground_truth": ["41", "42"]},
        {"ground_truth": '["42"]'},
        {"expected_answer": 42.0},
        {"label": {"answer": "42"}},
        {"reward_spec": {"ground_truth": "42"}},
        {"correct_answer": "42"},
        {"answers": ["42"]},
    ],
)
def test_the_truth_is_found_under_the_usual_names(metadata):
    assert verdict("The answer is 42.", None, "numeric", metadata=metadata).value == 1
    assert verdict("The answer is 40.", None, "numeric", metadata=metadata).value == 0


def test_without_a_truth_the_reason_names_what_was_looked_for():
    result = verdict("42", metadata={"difficulty": 3})
    assert result.value is None
    assert "ground_truth" in result.reason
    assert "difficulty" in result.reason


@folded(
    ("answer", "truth", "same"),
    [
        (r"\boxed{41 = 42}", "42", 0),
        (r"\boxed{x = 42}", "42", 1),
        (r"\boxed{6 \times 7 = 42}", "42", 1),
        (r"\boxed{x \neq 42}", "42", 0),
        (r"\boxed{x > 42}", "42", 0),
        (r"\boxed{41} or \boxed{42}", "42", 0),
        (r"\boxed{41 \text{ or } 42}", "42", 0),
        (r"<answer>x+1</answer>", "1+x", 1),
        (r"<answer>\frac{1}{2}</answer>", "0.5", 1),
        ("The answer is $x+1$.", "1+x", 1),
        ("The answer is 41, not 42.", "42", 0),
        (r"#### \frac{2}{4}", r"\frac{1}{2}", 1),
        (r"\boxed{\{1,2\}}", r"\{2,1\}", 1),
        (r"\boxed{9^{9^{9^{9^9}}}}", "42", 0),
        (r"\boxed{9^{9^{9^{9^9}}}}", r"9^{9^{9^{9^9}}}", 1),
    ],
)
def test_mathematics(answer, truth, same):
    result = verdict(answer, truth, "math")
    assert result.value == same, result.reason


@examples(200)
@given(
    st.integers(-(10**9), 10**9),
    st.sampled_from(["{}", "<answer>{}</answer>", "The answer is {}.", "答案是{}。", "\\boxed{{{}}}"]),
)
def test_any_integer_is_read_in_any_wrapping(number, wrapping):
    for written in (str(number), f"{number:,}"):
        text = wrapping.format(written)
        assert verdict(text, number, "numeric").value == 1
        assert verdict(text, number + 1 + abs(number) // 1000, "numeric").value == 0


@examples(200)
@given(st.text(max_size=300), st.sampled_from(["exact", "normalised", "numeric", "choice", "set"]))
def test_any_text_gets_a_verdict(text, mode):
    result = verdict(text, "B" if mode == "choice" else "7", mode)
    assert result.value in (0, 1)
    assert "failed" not in result.reason


def test_what_the_response_causes_counts_against_it(monkeypatch):
    def fails_on_the_answer(function, arguments, *, seconds):
        if arguments[0] != arguments[1]:
            raise worker.WorkerFailed(f"no result within {seconds:g} s of computing")
        return True, "the truth is itself"

    monkeypatch.setattr(ground_truth, "call", fails_on_the_answer)
    result = verdict(r"\boxed{\sum_{k=1}^{10^9} k}", "42", "math")
    assert result.value == 0
    assert "cannot be computed" in result.reason

    def fails_always(function, arguments, *, seconds):
        raise worker.WorkerFailed("the worker process died")

    monkeypatch.setattr(ground_truth, "call", fails_always)
    assert verdict(r"\boxed{\sum_{k=1}^{10^9} k}", "42", "math").value is None


@folded(
    ("answer", "letters"),
    [
        ("\\boxed{33.4}\n\nTherefore, the correct option is: B", "B"),
        ("\\boxed{5.0 \\text{ m}}, which corresponds to option C", "C"),
        ("The heat capacity is 16.16 Btu/lb-F", ""),
        ("It is 40 °F outside", ""),
        ("The charge is 3 C.", ""),
        ("Oranges hold vitamin C", ""),
        ("【答案】A. ①② B. ①③ C. ②③ D. ①④", ""),
        ("【答案】A. ①② B. ①③", ""),
        ("【答案】B. ①③", "B"),
    ],
)
def test_letters_that_are_units_names_or_lists_are_no_choice(answer, letters):
    assert find_choice(answer).letters == letters


@folded(
    ("answer", "letters"),
    [
        ("The answer is B, not A.", "B"),
        ("The answer is B; A is wrong.", "B"),
        ("The answer is B. Doesn't matter why.", "B"),
        ("The answer is B\nWrong options: A, C", "B"),
        ("选B，不是A。", "B"),
        ("选B，A错误。", "B"),
        ("正解はB、Aではない。", "B"),
        ("Правильный ответ B, не A.", "B"),
        ("La respuesta es B, no es A.", "B"),
        ("The answer is A\n\nWait, actually it is C.", "C"),
        ("答案是A。不对，应该是C。", "C"),
        ("A选项正确，B选项也正确。", "AB"),
        ("The answer is A, B are wrong", ""),
        ("选项A不能选。", ""),
    ],
)
def test_denying_another_option_leaves_the_choice(answer, letters):
    assert find_choice(answer).letters == letters


def test_not_knowing_whether_is_no_claim():
    assert verdict("I don't know whether it is Canberra.", "Canberra").value == 0


HALFTIME = "Who performed the halftime show of the Super Bowl in 2017?"


@folded(
    ("answer", "truth", "question", "right"),
    [
        ("Lady Gaga performed the halftime show in Houston.", "Lady Gaga", HALFTIME, 1),
        ("Lady Gaga performed the halftime show.", "Lady Gaga", "", 1),
        ("The halftime show was headlined by Lady Gaga, with drones.", "Lady Gaga", HALFTIME, 1),
        ("In 2017 Lady Gaga took the stage.", "lady gaga", HALFTIME, 1),
        ("Balerína zemřela v obvodu Manhattan v New York City.", "Manhattan", "Kde zemřela balerína?", 1),
        ("伏兔穴属于足阳明胃经的腧穴。", "足阳明胃经", "伏兔穴所属的经脉是什么？", 1),
        ("She retired in three years.", "3 years", "When did she retire?", 1),
        ("Lady Gaga did not perform it.", "Lady Gaga", HALFTIME, 0),
        ("Beyoncé performed, like Lady Gaga before.", "Lady Gaga", HALFTIME, 0),
        ("Perhaps Lady Gaga performed it.", "Lady Gaga", HALFTIME, 0),
        ("Lady Gaga or Beyoncé performed it.", "Lady Gaga", HALFTIME, 0),
        ("Paris Hilton lives in New York.", "Paris", "Where does she live?", 0),
        ("It began in 1912 and ended in 1915.", "1915", "When did it begin?", 0),
        ("Munar won the set against Tsitsipas.", "Tsitsipas", "Munar or Tsitsipas: who won the set?", 0),
        ("He was born on 3. března.", "3", "How many brothers did he have?", 0),
        ("The city lies north of Lyon.", "Lyon", "Where does the city lie?", 0),
        ("She received it. She often thanked Eva Nová for it.", "Eva Nová", "Who received the medal?", 1),
        ("Jana Malá received the medal. She often thanked Eva Nová for it.", "Eva Nová", "Who received the medal?", 0),
    ],
)
def test_sentences_that_answer_the_question(answer, truth, question, right):
    assert verdict(answer, truth, question=question).value == right


@folded(
    ("answer", "truth", "right"),
    [
        ("The speed is $3.0 \\times 10^{8}$ m/s.", "300000 km/s", 1),
        ("长度为1.5米", "150 cm", 1),
        ("时速六十公里每小时", "60 km/h", 1),
        ("3千克", "3000 g", 1),
        ("压强是101千帕", "101 kPa", 1),
        ("9.8 m·s⁻²", "9.8 m/s^2", 1),
        ("5%", "0.05", 1),
        ("1.5米", "15 cm", 0),
        ("1.5米", "150 kg", 0),
        ("$3.0 \\times 10^{7}$ m/s", "3e8 m/s", 0),
        ("5 per cent", "5%", 1),
        ("It is 5 km long.", "5000 m", 1),
        ("9.8 m s^-2 downwards", "9.8 m/s^2", 1),
        ("It is 20 degrees Celsius outside", "20 °C", 1),
        ("It is 20 degrees Fahrenheit outside", "20 °C", 0),
        ("5 km 200 m", "5 km", 0),
        ("5 km per lap", "5 km", 0),
        ("5 m square", "5 m", 0),
        ("2.5 m", "2-3 m", 1),
        ("4 m", "2-3 m", 0),
        ("2-3 km", "2 to 3 km", 1),
        ("2-3 km", "3 km", 0),
        ("2-3 km", "-3 km", 0),
        ("x = -3 km", "-3 km", 1),
        ("It is Public Law 117-17.", "Public Law No: 117-17", 1),
        ("2000", "2024-05", 0),
        ("3", "zfs-2021-2040", 0),
        ("0.003 m", "3.0×10-3 m", 1),
    ],
)
def test_quantities_with_powers_and_chinese_units(answer, truth, right):
    verifier = find_verifier("QuantityMatch")
    assert verifier.verify(Rollout(response=answer), verifier.check_parameters({"truth": truth})).value == right


def test_several_options_in_brackets_are_not_called_the_only_one():
    assert find_choice("I see (A) and also (C) there") == Choice("AC", "the options in brackets")
