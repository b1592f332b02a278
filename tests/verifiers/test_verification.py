import math
import re
import sys
from typing import Annotated, Literal

import pytest
from cases import folded
from pydantic import Field

from rubrank.errors import InvalidInput, UnknownName
from rubrank.rollouts.rollout import Rollout
from rubrank.texts.text import Text
from rubrank.verifiers.verifier import (
    BINARY,
    TERNARY,
    UNIT,
    VERIFIERS,
    Answer,
    Compat,
    Domain,
    Verdict,
    discrete,
    find_verifier,
    is_verifier,
    loose_variants,
    missing,
    verifier,
)


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch):
    """What a test registers is gone after it."""
    is_verifier("")  # all families are imported, so that none is registered into the copy only
    monkeypatch.setattr("rubrank.verifiers.verifier.VERIFIERS", dict(VERIFIERS))


def registry():
    return sys.modules["rubrank.verifiers.verifier"].VERIFIERS


def registered(function, name="Mine", **options):
    verifier(name, **options)(function)
    return registry()[name]


def run(found, response="text", params=None, **options):
    rollout = response if isinstance(response, Rollout) else Rollout(response=response)
    return found.verify(rollout, found.check_parameters(params or {}), **options)


def shouting(
    text: Text, *, most: Annotated[int, Field(ge=0)] = 1, how: Literal["words", "letters"] = "words"
) -> Answer:
    """At most `most` words in capitals."""
    n = sum(word.isupper() for word in text.words)
    return n <= most, f"{n} words in capitals, at most {most} allowed"


def constant(answer):
    def function(text: Text) -> Answer:
        return answer

    return function


def test_registering_keeps_the_function_callable_and_takes_everything_from_it():
    assert verifier("Shouting", family="style", version=3, languages=["en"])(shouting) is shouting
    found = find_verifier("Shouting")
    assert (found.family, found.version, found.domain, found.languages) == ("style", 3, UNIT, ("en",))
    assert (found.layer, found.how, found.cost) == ("quality", "rule", "cheap")
    assert found.doc == "At most `most` words in capitals."
    assert found.wants is Text
    assert list(found.parameters.model_fields) == ["most", "how"]
    assert not found.knows_compat


def test_a_verdict_has_the_value_and_the_reason():
    found = registered(shouting)
    assert run(found, "OK") == Verdict(1.0, "1 words in capitals, at most 1 allowed")
    assert run(found, "OH NO") == Verdict(0.0, "2 words in capitals, at most 1 allowed")
    assert run(found, "OH NO", {"most": 2}).value == 1


def test_the_reasoning_is_not_part_of_the_text():
    assert run(registered(shouting), "<think>OH NO NO</think>fine").value == 1
    assert run(registered(shouting), Rollout(response="fine", reasoning="OH NO NO")).value == 1


def test_who_wants_the_rollout_gets_all_of_it():
    def speaks(rollout: Rollout) -> Answer:
        return rollout.question == "Why?" and rollout.thoughts == "hm", "seen"

    found = registered(speaks)
    assert found.wants is Rollout
    assert run(found, Rollout(prompt="Why?", response="<think>hm</think>So.")).value == 1


def test_the_score_of_what_is_missing_is_no_number():
    assert missing("no text") == Verdict(None, "no text")
    assert math.isnan(missing("no text").score)
    assert Verdict(0.5, "half").score == 0.5


@folded(
    ("domain", "inside", "outside"),
    [
        (BINARY, [0, 1], [0.5, -1, math.nan]),
        (TERNARY, [0, 0.5, 1], [0.25]),
        (UNIT, [0, 0.3, 1], [-0.1, 1.1, math.nan, math.inf]),
        (discrete(1, -1, 0), [-1, 0, 1], [0.5, 2]),
        (Domain("continuous", low=-2, high=5), [-2, 0, 5], [-3, 6]),
    ],
)
def test_a_domain_holds_its_values_and_no_others(domain, inside, outside):
    assert all(map(domain.holds, inside))
    assert not any(map(domain.holds, outside))
    found = registered(constant((outside[0], "wrong")), domain=domain)
    assert run(found).value is None
    assert "not in its domain" in run(found).reason
    for value in inside:
        assert run(registered(constant((value, "right")), domain=domain)).value == value


def test_the_edges_of_a_discrete_domain_are_found():
    domain = discrete(2, -1, 0)
    assert (domain.kind, domain.values, domain.low, domain.high) == ("discrete", (-1, 0, 2), -1, 2)


def test_an_exception_is_missing_and_says_where_it_came_from():
    def broken(text: Text) -> Answer:
        raise ValueError("no such thing")

    verdict = run(registered(broken))
    assert verdict.value is None
    assert re.fullmatch(r"Mine failed: ValueError: no such thing \(.*test_verification.py, line \d+\)", verdict.reason)
    assert run(registered(broken), mode="loose").value is None


@folded("answer", [("yes", "reason"), "1", [1], (), (1, 2), {}])
def test_an_answer_of_another_shape_is_missing(answer):
    verdict = run(registered(constant(answer)))
    assert verdict.value is None
    assert verdict.reason.startswith("Mine failed: ")


def test_a_verdict_is_passed_on_as_it_is():
    verdict = Verdict(None, "cannot be told")
    assert run(registered(constant(verdict))) == verdict


@pytest.mark.parametrize(
    ("params", "where"),
    [({"most": "many"}, "most"), ({"most": -1}, "most"), ({"how": "signs"}, "how"), ({"least": 1}, "least")],
)
def test_parameters_that_do_not_fit_are_one_clear_error(params, where):
    with pytest.raises(InvalidInput) as caught:
        registered(shouting).check_parameters(params)
    message = str(caught.value)
    assert "'Mine'" in message
    assert where in message
    assert "most, how" in message  # what it does have


def test_a_parameter_without_a_default_is_needed_and_parameters_are_frozen():
    def needs(text: Text, *, word: str) -> Answer:
        return word in text.raw, word

    found = registered(needs)
    with pytest.raises(InvalidInput, match="word"):
        found.check_parameters({})
    params = found.check_parameters({"word": "a"})
    with pytest.raises(ValueError, match="frozen"):
        params.word = "b"


def test_compat_is_passed_to_those_who_know_it_and_is_no_parameter():
    def reads(text: Text, *, compat: Compat = "fixed") -> Answer:
        return compat == "upstream", compat

    found = registered(reads)
    assert found.knows_compat
    assert run(found).reason == "fixed"
    assert run(found, compat="upstream").reason == "upstream"
    with pytest.raises(InvalidInput, match="compat"):
        found.check_parameters({"compat": "upstream"})
    assert run(registered(shouting, "Other"), compat="upstream").value == 1


def test_a_name_is_taken_by_one_function_only():
    registered(shouting)
    registered(shouting)  # importing again is no conflict
    with pytest.raises(InvalidInput, match="Mine"):
        registered(constant((1, "")))
    assert find_verifier("Mine").function is shouting


def test_names_are_found_after_all_families_are_imported_and_unknown_ones_are_an_error():
    assert is_verifier("WordCount")
    assert not is_verifier("WordCuont")
    with pytest.raises(UnknownName, match="WordCount"):
        find_verifier("WordCuont")


def test_loose_variants_are_the_usual_eight():
    assert loose_variants("*a*\nb*\nc*") == ["*a*\nb*\nc*", "b*\nc*", "*a*\nb*", "b*", "a\nb\nc", "b\nc", "a\nb", "b"]


@folded(
    ("text", "variants"),
    [
        ("one line", ["one line"]),
        ("a\nb", ["a\nb", "b", "a"]),
        ("", [""]),
        ("**", ["**"]),
        ("*a*", ["*a*", "a"]),
        ("a\n\nb", ["a\n\nb", "b", "a"]),
    ],
)
def test_variants_are_different_and_not_empty(text, variants):
    assert loose_variants(text) == variants


@folded("wants", [Text, Rollout])
@folded(
    ("response", "strict", "loose"),
    [
        ("42", 1, 1),
        ("Sure!\n42", 0, 1),
        ("42\nAnything else?", 0, 1),
        ("Sure!\n**42**\nAnything else?", 0, 1),
        ("Sure!\nHere:\n42", 0, 0),
        ("<think>x\ny</think>Sure!\n42", 0, 1),
    ],
)
def test_loosely_the_best_variant_counts(wants, response, strict, loose):
    def is_42(subject) -> Answer:
        said = subject.raw if isinstance(subject, Text) else subject.answer
        return said == "42", repr(said)

    is_42.__annotations__["subject"] = wants
    found = registered(is_42)
    assert run(found, response).value == strict
    assert run(found, response, mode="loose").value == loose


def test_variants_of_a_rollout_keep_everything_but_the_answer():
    seen = []

    def look(rollout: Rollout) -> Answer:
        seen.append(rollout)
        return False, "no"

    rollout = Rollout(prompt="Why?", response="<think>hm</think>a\nb", metadata={"id": 7}, finish_reason="stop")
    run(registered(look), rollout, mode="loose")
    assert [(r.answer, r.text.raw) for r in seen] == [("a\nb", "a\nb"), ("b", "b"), ("a", "a")]
    assert {(r.question, r.thoughts, r.metadata["id"], r.finish_reason) for r in seen} == {("Why?", "hm", 7, "stop")}
    assert rollout.answer == "a\nb"


def test_loosely_a_value_beats_missing_and_the_first_best_is_kept():
    def by_length(text: Text) -> Answer:
        return missing("long") if "\n" in text.raw else (0.5 if text.raw == "b" else 0.25, text.raw)

    assert run(registered(by_length, domain=UNIT), "a\nb\nc", mode="loose") == Verdict(0.5, "b")
    assert run(registered(by_length, domain=UNIT), "x\nb", mode="loose") == Verdict(0.5, "b")


@pytest.mark.parametrize("wants", [Text, Rollout])
def test_loosely_nothing_runs_once_the_best_is_reached(wants):
    calls = []

    def count(subject) -> Answer:
        calls.append(subject)
        return True, ""

    count.__annotations__["subject"] = wants
    run(registered(count), "a\nb\nc", mode="loose")
    assert len(calls) == 1


@pytest.mark.parametrize("options", [{"layer": "global_quality"}, {"cost": "process"}])
def test_gates_and_processes_are_not_loosened(options):
    calls = []

    def stop(rollout: Rollout) -> Answer:
        calls.append(rollout)
        return False, "defect"

    found = registered(stop, **options)
    assert not found.knows_loose
    assert run(found, "a\nb", mode="loose").value == 0
    assert len(calls) == 1
