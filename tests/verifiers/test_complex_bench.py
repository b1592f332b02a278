"""ComplexBench and LiveBench: composed scores."""

import pytest
from cases import folded

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.complex_bench import check_rule, parse_rule
from rubrank.verifiers.verifier import VERIFIERS


def check(name, text, compat="fixed", **params):
    verifier = VERIFIERS[name]
    return verifier.verify(Rollout(response=text, reasoning=""), verifier.check_parameters(params), compat=compat)


@folded(
    ("rule", "yes", "no"),
    [
        ("keyword:[苹果,香蕉]", ["苹果香蕉"], ["苹果"]),
        ("keyword:[A,b]", ["a B"], ["a"]),
        ("forbidden_word:[苹果]", ["香蕉"], ["苹果"]),
        ("model_keyword_num:[1,2,a,b,c]", ["a b"], ["a b c"]),
        ("startswith:亲爱的", ["亲爱的你"], ["你好"]),
        ("startswith:你好,", ["你好，朋友"], ["朋友"]),
        ("endswith:谢谢", ["谢谢。"], ["谢谢你"]),
        ("not endswith:谢谢", ["再见"], ["谢谢。"]),
        ("model_not_startswith:首先", ["其次"], ["首先"]),
        ("length:[2,3]", ["中 文"], ["中文中文"]),
        ("length_word:[2,3]", ["two words"], ["one"]),
        ("match:对", ["“对。”"], ["不对"]),
        ("Json:['a','b']", ['x {"a": 1, "b": {}} y'], ['{"a": 1}']),
        ("Json:[]", ['{"any": 1}'], ["[1]"]),
        ("constraint_punc:[，,。]", ["好，好。"], ["好！"]),
        ("model_number_each:[2,3]", ["a", "b"], ["a"]),
        ("model_length_each:[1,2]", ["ab", "c"], ["ab", "cde"]),
        ("model_starts_with_list_each:[一,二]", ["一号", "二号"], ["二号", "一号"]),
        ("model_not_number_each:[2,3]", ["a"], ["a", "b"]),
        ("model_not_starts_with_list_each:[一,二]", ["二号", "一号"], ["一号", "二号"]),
        ("model_keyword_num_each:[1,1,a,b]\nmodel_forbidden_word_each:[z]", ["a", "b"], ["a z"]),
        ("startswith:a\nendswith:z", ["a to z"], ["a to y"]),
    ],
)
def test_rules(rule, yes, no):
    assert check_rule(rule, yes, "fixed").ok
    assert not check_rule(rule, no, "fixed").ok


def test_nothing_to_check():
    assert not check_rule("keyword:[a]", [""], "fixed").ok
    assert check_rule("forbidden_word:[a]", [], "fixed").ok
    assert check_rule("model_not_endswith:a", [], "fixed").ok


@folded("rule", ["", "colour:[red]", "length:[long]", "length:[1]", "keyword"])
def test_rules_that_are_none(rule):
    with pytest.raises(ValueError, match="rule"):
        parse_rule(rule)
    with pytest.raises(InvalidInput):
        check("ComplexBench", "x", scoring_questions=[{"rule": rule}])


def test_upstream_readings():
    assert check_rule("length:[5,5]", ["a b c"], "upstream").ok
    assert not check_rule("length:[5,5]", ["a b c"], "fixed").ok
    assert not check_rule("keyword:[None]", ["None"], "upstream").ok
    assert check_rule("keyword:[None]", ["None"], "fixed").ok


def test_a_failed_prerequisite_is_named():
    verdict = check("ComplexBench", "x", scoring_questions=[{"verdict": False}, {"rule": "length:[1,9]", "dep": [0]}])
    assert verdict.value == 0
    assert "question 0, on which it depends, fails" in verdict.reason


@pytest.mark.parametrize("dep", [[5], [-1], [0]])
def test_dependencies_that_cannot_be(dep):
    assert check("ComplexBench", "x", scoring_questions=[{"verdict": True, "dep": dep}]).value is None


def test_no_item_within_an_item():
    with pytest.raises(InvalidInput, match="ComplexBench"):
        check("ComplexBench", "x", scoring_questions=[{"verifier": "ComplexBench"}])


def test_an_unknown_verifier_is_missing_with_its_name():
    verdict = check("ComplexBench", "x", scoring_questions=[{"verifier": "NoSuch"}])
    assert verdict.value is None
    assert "NoSuch" in verdict.reason


@pytest.mark.parametrize(("followed", "score"), [(0, 0), (1, 1 / 6), (2, 1 / 3), (3, 1)])
def test_live_bench_is_the_mean_of_all_and_share(followed, score):
    kwargs = [{"keywords": ["yes" if i < followed else "no"]} for i in range(3)]
    verdict = check("LiveBench", "yes", instruction_id_list=["keywords:existence"] * 3, kwargs=kwargs)
    assert verdict.value == pytest.approx(score)


def test_live_bench_needs_arguments_for_each():
    assert check("LiveBench", "x", instruction_id_list=["punctuation:no_comma"], kwargs=[]).value is None
    assert check("LiveBench", "x", instruction_id_list=[]).value is None
