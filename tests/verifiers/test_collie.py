"""COLLIE: constraints as data are what the primitives say; wrong data is refused; nothing takes too long."""

import pickle

import pytest
from cases import folded

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.items import primitives as p
from rubrank.verifiers.verifier import find_verifier

COLLIE = find_verifier("Collie")
TWO = {"level": "sentence", "transform": "count", "relation": "exactly", "value": 2}


def check(text, *constraints, compat="fixed", **params):
    params = COLLIE.check_parameters({"constraints": list(constraints), **params})
    return COLLIE.verify(Rollout(response=text, reasoning=""), params, compat=compat)


# ---- primitives ----

SAMPLE = Text("The cat sat. The dog ran off!\n\n- **One** thing\n- two\n\n# End")


@folded(
    ("measure", "value"),
    [
        (p.measure_count("word"), 11),
        (p.measure_count("sentence"), 5),
        (p.measure_count("paragraph"), 3),
        (p.measure_count("line"), 4),
        (p.measure_count("bullet"), 2),
        (p.measure_count("item"), 2),
        (p.measure_count("heading"), 1),
        (p.measure_count("highlight"), 1),
        (p.measure_count("numbered"), 0),
        (p.measure_count("code_block"), 0),
        (p.measure_count("passage"), 1),
        (p.measure_count_of("word", "the"), 2),
        (p.measure_count_of("letter", "T"), 6),
        (p.measure_count_like("word", "^[a-z]{3}$"), 6),
        (p.measure_distinct("word"), 10),
        (p.measure_unit_at("word", 2), "cat"),
        (p.measure_unit_at("sentence", -1), "# End"),
        (p.measure_unit_at("word", 99), None),
        (p.measure_index_of("word", "DOG"), 5),
        (p.measure_index_of("word", "cow"), None),
        (p.measure_aggregate("max", "sentence", p.measure_count("word")), 4),
        (p.measure_aggregate("min", "sentence", p.measure_count("word")), 1),
        (p.measure_aggregate("sum", "paragraph", p.measure_count("word")), 11),
        (p.measure_aggregate("mean", "sentence", p.measure_count("word")), 2.2),
        (p.measure_aggregate("max", "code_block", p.measure_count("word")), None),
    ],
)
def test_measures(measure, value):
    assert measure(SAMPLE) == value


@folded(
    ("test", "yes", "no"),
    [
        (p.require_number("at least", 3), 3, 2),
        (p.require_number("less than", 3), 2, 3),
        (p.require_number("exactly", 3), 3, "3"),
        (p.require_between(2, 4), 4, 5),
        (p.require_equal("Home"), "home.", "homes"),
        (p.require_equal("!"), "!", "?"),
        (p.require_other("home"), "house", "Home!"),
        (p.require_one_of(["a", "b"]), "B", "c"),
        (p.require_words(["cat", "mat"]), "A cat on a mat.", "A category of mats"),
        (p.require_words(["猫"]), "一只猫。", "一只狗。"),
        (p.require_no_words(["cat"]), "a category", "a Cat!"),
        (p.require_start(["un"]), "“Unless", "sun"),
        (p.require_end(["ing", "ed"]), "walked.", "walks"),
        (p.require_match(r"^\d+$"), "42", "4x"),
        (p.require_upper(), "NASA 1", "Nasa"),
        (p.require_lower(), "small 1", "12"),
        (p.require_capital(), "“Hello”", "hello"),
        (p.require_equal("x"), "x", None),
        (p.require_other("x"), "y", None),
    ],
)
def test_tests(test, yes, no):
    assert test(yes)
    assert not test(no)


def words(relation, n):
    return p.check_measure(p.measure_count("word"), p.require_number(relation, n))


@folded(
    ("check", "yes", "no"),
    [
        (p.check_every("sentence", words("at most", 2)), "One two. Three.", "One. Two three four."),
        (p.check_every("sentence", words("at most", 2)), "One.", ""),
        (p.check_every("sentence", words("at most", 2), vacuous=True), "", "One two three."),
        (
            p.check_count_passing("sentence", words("exactly", 1), "at least", 1),
            "One two. Three.",
            "One two. Three four.",
        ),
        (p.check_count_passing("sentence", words("exactly", 1), "exactly", 0), "One two.", "One."),
        (p.check_count_passing("sentence", words("exactly", 1), "at least", 2), "Go. Run. See it.", "Go. See it."),
        (
            p.check_count_passing("word", p.check_measure(p.measure_text(), p.require_upper()), "at most", 1),
            "NO way",
            "NO WAY",
        ),
        (p.check_count_passing("paragraph", words("at least", 1), "exactly", 2), "a\n\nb", "a"),
        (p.check_order("word", p.measure_count("letter"), "increasing"), "I am the only", "I am so"),
        (p.check_order("word", p.measure_count("letter"), "decreasing"), "only the am I", "a b"),
        (p.check_order("sentence", p.measure_unit_at("word", 1), "same"), "We go. We see.", "We go. I see."),
        (p.check_order("word", p.measure_text(), "different"), "a b c", "a b A"),
        (p.check_all(words("at least", 1), words("at most", 2)), "a b", "a b c"),
        (p.check_any(words("exactly", 1), words("exactly", 3)), "a b c", "a b"),
        (p.check_not(words("exactly", 1)), "a b", "a"),
    ],
)
def test_checks(check, yes, no):
    assert check(Text(yes)).ok
    assert not check(Text(no)).ok
    assert check(Text(no)).reason


# ---- the grammar ----


def test_the_reason_names_the_first_constraint_that_fails():
    verdict = check(
        "One.", {**TWO, "name": "two sentences"}, {"level": "word", "transform": "count", "relation": ">", "value": 0}
    )
    assert verdict.value == 0.5
    assert verdict.reason == (
        "1 of 2 constraints hold; the first that does not is two sentences: 1 sentences, exactly 2 required"
    )


@folded(
    "bad",
    [
        {},
        {"level": "word"},
        {"level": "verse", "transform": "count", "relation": "exactly", "value": 1},
        {"level": "word", "transform": "count"},
        {"level": "word", "transform": "count", "relation": "exactly"},
        {"level": "word", "transform": "count", "relation": "nearly", "value": 1},
        {"level": "word", "transform": "position", "relation": "equals", "value": "x"},
        {"level": "word", "transform": "position", "at": 0, "relation": "equals", "value": "x"},
        {"level": "sentence", "transform": "max", "relation": "at most", "value": 1},
        {"level": "word", "transform": "for_each", "relation": "at least", "value": 1, "reduction": "at least"},
        {"level": "word", "transform": "for_each", "relation": "matches", "value": "(unclosed"},
        {"level": "word", "transform": "count", "pattern": r"(a)\1", "relation": "exactly", "value": 1},
        {"level": "word", "transform": "count", "relation": "between", "value": [1]},
        {"level": "word", "transform": "count", "relation": "contains", "value": 3},
        {"level": "word", "transform": "count", "relation": "exactly", "value": float("inf")},
        {"and": []},
        {"and": [TWO], "or": [TWO]},
        {**TWO, "surprise": 1},
    ],
)
def test_data_that_says_nothing_is_refused(bad):
    with pytest.raises(InvalidInput, match="Collie"):
        check("text", bad)


def nested(depth):
    constraint = TWO
    for _ in range(depth):
        constraint = {"not": constraint}
    return constraint


def test_constraints_may_not_be_too_deep_or_too_many():
    assert check("One. Two.", nested(6)).value == 1
    for bad in ([nested(40)], [nested(300)], [TWO] * 500, [{"and": [TWO] * 300}]):
        with pytest.raises(InvalidInput, match="deep"):
            COLLIE.check_parameters({"constraints": bad})


@pytest.mark.slow
def test_too_much_work_is_missing_not_slow():
    each = {"level": "character", "transform": "for_each", "relation": "lowercase"}
    verdict = check("ab " * 400_000, *[each] * 5)
    assert verdict.value is None
    assert "more parts" in verdict.reason


def test_patterns_take_linear_time():
    slow = {"level": "word", "transform": "for_each", "relation": "matches", "value": "(a+)+$", "reduction": "none"}
    assert check("a" * 5000 + "!" + " b", slow).value == 0


def test_constraints_travel_to_other_processes():
    params = COLLIE.check_parameters({"constraints": [{"and": [TWO, {"not": {**TWO, "value": 3}}]}]})
    again = COLLIE.check_parameters({"constraints": pickle.loads(pickle.dumps(params.constraints))})
    assert COLLIE.verify(Rollout(response="One. Two."), again).value == 1
    assert again.model_dump(mode="json") == params.model_dump(mode="json")


# ---- each unit its own value ----


def collie(text, *constraints, compat="fixed"):
    verifier = find_verifier("Collie")
    params = verifier.check_parameters({"constraints": list(constraints)})
    return verifier.verify(Rollout(response=text), params, compat=compat).value


LAST_WORDS = {
    "level": "sentence",
    "transform": "for_each",
    "inner": {"level": "word", "transform": "position", "at": -1},
    "relation": "equals",
    "values": ["lake", "moon"],
}
LAST_SENTENCES = {
    "level": "paragraph",
    "transform": "for_each",
    "inner": {"level": "sentence", "transform": "position", "at": -1},
    "relation": "equals",
    "values": ["It ended.", "So it was."],
}


@pytest.mark.parametrize("compat", ["fixed", "upstream"])
def test_each_unit_has_its_own_value(compat):
    assert collie("We saw a lake. It held the moon.", LAST_WORDS, compat=compat) == 1
    assert collie("We saw the moon. It held a lake.", LAST_WORDS, compat=compat) == 0
    assert collie("We saw a lake.", LAST_WORDS, compat=compat) == 0
    assert collie("We ran. It ended.\n\nWe sat. So it was.", LAST_SENTENCES, compat=compat) == 1
    assert collie("We ran. So it was.\n\nWe sat. It ended.", LAST_SENTENCES, compat=compat) == 0
    either = LAST_WORDS | {"reduction": "any"}
    assert collie("We saw a lake. It held the sun.", either, compat=compat) == 1


def test_values_need_a_for_each():
    with pytest.raises(InvalidInput, match="for_each"):
        collie("x", {"level": "word", "transform": "count", "relation": "exactly", "values": [1, 2]})
