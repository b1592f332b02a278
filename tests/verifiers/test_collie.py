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
        (p.count("word"), 11),
        (p.count("sentence"), 5),
        (p.count("paragraph"), 3),
        (p.count("line"), 4),
        (p.count("bullet"), 2),
        (p.count("item"), 2),
        (p.count("heading"), 1),
        (p.count("highlight"), 1),
        (p.count("numbered"), 0),
        (p.count("code_block"), 0),
        (p.count("passage"), 1),
        (p.count_of("word", "the"), 2),
        (p.count_of("letter", "T"), 6),
        (p.count_like("word", "^[a-z]{3}$"), 6),
        (p.distinct("word"), 10),
        (p.at("word", 2), "cat"),
        (p.at("sentence", -1), "# End"),
        (p.at("word", 99), None),
        (p.index_of("word", "DOG"), 5),
        (p.index_of("word", "cow"), None),
        (p.aggregate("max", "sentence", p.count("word")), 4),
        (p.aggregate("min", "sentence", p.count("word")), 1),
        (p.aggregate("sum", "paragraph", p.count("word")), 11),
        (p.aggregate("mean", "sentence", p.count("word")), 2.2),
        (p.aggregate("max", "code_block", p.count("word")), None),
    ],
)
def test_measures(measure, value):
    assert measure(SAMPLE) == value


@folded(
    ("test", "yes", "no"),
    [
        (p.number("at least", 3), 3, 2),
        (p.number("less than", 3), 2, 3),
        (p.number("exactly", 3), 3, "3"),
        (p.between(2, 4), 4, 5),
        (p.equals("Home"), "home.", "homes"),
        (p.equals("!"), "!", "?"),
        (p.differs("home"), "house", "Home!"),
        (p.one_of(["a", "b"]), "B", "c"),
        (p.contains(["cat", "mat"]), "A cat on a mat.", "A category of mats"),
        (p.contains(["猫"]), "一只猫。", "一只狗。"),
        (p.lacks(["cat"]), "a category", "a Cat!"),
        (p.starts(["un"]), "“Unless", "sun"),
        (p.ends(["ing", "ed"]), "walked.", "walks"),
        (p.matches(r"^\d+$"), "42", "4x"),
        (p.upper(), "NASA 1", "Nasa"),
        (p.lower(), "small 1", "12"),
        (p.capitalised(), "“Hello”", "hello"),
        (p.equals("x"), "x", None),
        (p.differs("x"), "y", None),
    ],
)
def test_tests(test, yes, no):
    assert test(yes)
    assert not test(no)


def words(relation, n):
    return p.holds(p.count("word"), p.number(relation, n))


@folded(
    ("check", "yes", "no"),
    [
        (p.every("sentence", words("at most", 2)), "One two. Three.", "One. Two three four."),
        (p.every("sentence", words("at most", 2)), "One.", ""),
        (p.every("sentence", words("at most", 2), vacuous=True), "", "One two three."),
        (p.count_passing("sentence", words("exactly", 1), "at least", 1), "One two. Three.", "One two. Three four."),
        (p.count_passing("sentence", words("exactly", 1), "exactly", 0), "One two.", "One."),
        (p.count_passing("sentence", words("exactly", 1), "at least", 2), "Go. Run. See it.", "Go. See it."),
        (p.count_passing("word", p.holds(p.whole(), p.upper()), "at most", 1), "NO way", "NO WAY"),
        (p.count_passing("paragraph", words("at least", 1), "exactly", 2), "a\n\nb", "a"),
        (p.in_order("word", p.count("letter"), "increasing"), "I am the only", "I am so"),
        (p.in_order("word", p.count("letter"), "decreasing"), "only the am I", "a b"),
        (p.in_order("sentence", p.at("word", 1), "same"), "We go. We see.", "We go. I see."),
        (p.in_order("word", p.whole(), "different"), "a b c", "a b A"),
        (p.both(words("at least", 1), words("at most", 2)), "a b", "a b c"),
        (p.either(words("exactly", 1), words("exactly", 3)), "a b c", "a b"),
        (p.negated(words("exactly", 1)), "a b", "a"),
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
