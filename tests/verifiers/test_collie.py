"""COLLIE: constraints as data mean what they say; wrong data is refused; nothing takes too long."""

import pickle

import pytest
from cases import folded

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.collie import CollieMeasure, build_test, read_value
from rubrank.verifiers.verifier import find_verifier

COLLIE = find_verifier("Collie")
TWO = {"level": "sentence", "transform": "count", "relation": "exactly", "value": 2}


def check(text, *constraints, compat="fixed", **params):
    params = COLLIE.check_parameters({"constraints": list(constraints), **params})
    return COLLIE.verify(Rollout(response=text, reasoning=""), params, compat=compat)


# ---- measures, tests and checks ----

SAMPLE = Text("The cat sat. The dog ran off!\n\n- **One** thing\n- two\n\n# End")
WORDS = {"level": "word", "transform": "count"}
FIRST_WORD = {"level": "word", "transform": "position", "at": 1}


def measure(level, transform="count", **fields):
    return {"level": level, "transform": transform, **fields}


@folded(
    ("data", "value"),
    [
        (measure("word"), 11),
        (measure("sentence"), 5),
        (measure("paragraph"), 3),
        (measure("line"), 4),
        (measure("bullet"), 2),
        (measure("item"), 2),
        (measure("heading"), 1),
        (measure("highlight"), 1),
        (measure("numbered"), 0),
        (measure("code_block"), 0),
        (measure("passage"), 1),
        (measure("word", of="the"), 2),
        (measure("letter", of="T"), 6),
        (measure("word", pattern="^[a-z]{3}$"), 6),
        (measure("word", "distinct"), 10),
        (measure("word", "position", at=2), "cat"),
        (measure("sentence", "position", at=-1), "# End"),
        (measure("word", "position", at=99), None),
        (measure("word", "index_of", of="DOG"), 5),
        (measure("word", "index_of", of="cow"), None),
        (measure("sentence", "max", inner=WORDS), 4),
        (measure("sentence", "min", inner=WORDS), 1),
        (measure("paragraph", "sum", inner=WORDS), 11),
        (measure("sentence", "mean", inner=WORDS), 2.2),
        (measure("code_block", "max", inner=WORDS), None),
    ],
)
def test_measures(data, value):
    assert read_value(CollieMeasure.model_validate(data), SAMPLE) == value


@folded(
    ("relation", "value", "yes", "no"),
    [
        ("at least", 3, 3, 2),
        ("less than", 3, 2, 3),
        ("exactly", 3, 3, "3"),
        ("between", [2, 4], 4, 5),
        ("equals", "Home", "home.", "homes"),
        ("equals", "!", "!", "?"),
        ("differs", "home", "house", "Home!"),
        ("one of", ["a", "b"], "B", "c"),
        ("contains", ["cat", "mat"], "A cat on a mat.", "A category of mats"),
        ("contains", "猫", "一只猫。", "一只狗。"),
        ("lacks", "cat", "a category", "a Cat!"),
        ("starts with", "un", "“Unless", "sun"),
        ("ends with", ["ing", "ed"], "walked.", "walks"),
        ("matches", r"^\d+$", "42", "4x"),
        ("uppercase", None, "NASA 1", "Nasa"),
        ("lowercase", None, "small 1", "12"),
        ("capitalised", None, "“Hello”", "hello"),
    ],
)
def test_relations(relation, value, yes, no):
    test = build_test(relation, value)
    assert test.of(yes)
    assert not test.of(no)


def words(relation, n):
    return {**WORDS, "relation": relation, "value": n}


def each(level, relation=None, value=None, **fields):
    return {"level": level, "transform": "for_each", "relation": relation, "value": value, **fields}


ONE_WORD = words("exactly", 1)


@folded(
    ("constraint", "yes", "no"),
    [
        (each("sentence", check=words("at most", 2)), "One two. Three.", "One. Two three four."),
        (each("sentence", "at most", 2, inner=WORDS), "One.", ""),
        (each("sentence", check=ONE_WORD, reduction="any"), "One two. Three.", "One two. Three four."),
        (each("sentence", check=ONE_WORD, reduction="none"), "One two.", "One."),
        (each("sentence", check=ONE_WORD, reduction="at least", n=2), "Go. Run. See it.", "Go. See it."),
        (each("word", "uppercase", reduction="at most", n=1), "NO way", "NO WAY"),
        (each("paragraph", check=words("at least", 1), reduction="exactly", n=2), "a\n\nb", "a"),
        (each("word", "increasing", inner=measure("letter")), "I am the only", "I am so"),
        (each("word", "decreasing", inner=measure("letter")), "only the am I", "a b"),
        (each("sentence", "same", inner=FIRST_WORD), "We go. We see.", "We go. I see."),
        (each("word", "different"), "a b c", "a b A"),
        ({"and": [words("at least", 1), words("at most", 2)]}, "a b", "a b c"),
        ({"or": [words("exactly", 1), words("exactly", 3)]}, "a b c", "a b"),
        ({"not": ONE_WORD}, "a b", "a"),
        ({"level": "word", "transform": "position", "at": 2, "relation": "differs", "value": "x"}, "a y", "a"),
    ],
)
def test_checks(constraint, yes, no):
    assert check(yes, constraint, score="all").value == 1
    assert check(no, constraint, score="all").value == 0
    assert check(no, constraint).reason


def test_upstream_every_unit_of_none_holds():
    assert check("", each("bullet", "at most", 2, inner=WORDS), compat="upstream").value == 1
    assert check("", each("bullet", "at most", 2, inner=WORDS)).value == 0


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
    for bad in ([nested(300)], [TWO] * 6000):
        with pytest.raises(InvalidInput, match=r"deep|values"):
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
