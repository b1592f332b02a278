"""Every example of every verifier is run; every verifier has enough of them and says what it does."""

import inspect
from collections import Counter

import pytest
from library import load_all, load_examples, rollout_of

LIBRARY = load_all()
ALL = load_examples()
KEYS = {"kind", "text", "params", "value", "note", "compat", "mode", "rollout"}


@pytest.mark.parametrize(
    ("name", "example"),
    [pytest.param(name, example, id=f"{name}-{i}") for i, (_, name, example) in enumerate(ALL)],
)
def test_example(name, example):
    verifier = LIBRARY[name]
    params = verifier.check_parameters(example.get("params", {}))
    compat, mode = example.get("compat", "fixed"), example.get("mode", "strict")
    verdict = verifier.verify(rollout_of(example), params, compat=compat, mode=mode)
    assert verdict.value == (None if example["value"] is None else pytest.approx(example["value"])), verdict.reason
    assert verdict.reason
    assert f"{name} failed" not in verdict.reason


@pytest.mark.parametrize(("file", "name", "example"), ALL, ids=[f"{name}-{i}" for i, (_, name, _) in enumerate(ALL)])
def test_example_is_well_formed(file, name, example):
    assert {"kind", "text", "value"} <= example.keys() <= KEYS
    assert example["kind"] in ("pass", "fail", "tricky")
    domain = LIBRARY[name].domain
    if example["kind"] == "pass" and LIBRARY[name].layer != "low_quality":  # there no sign of a fault is no verdict
        assert example["value"] == domain.high
    if example["kind"] == "fail":
        assert example["value"] is not None
        assert example["value"] < domain.high


@pytest.mark.parametrize("name", LIBRARY)
def test_enough_examples(name):
    kinds = Counter(example["kind"] for _, other, example in ALL if other == name)
    assert kinds["pass"] >= 3
    assert kinds["fail"] >= 3
    assert kinds["tricky"] >= 2


def test_no_examples_for_what_does_not_exist():
    assert {name for _, name, _ in ALL} <= LIBRARY.keys()


def test_no_verifier_has_its_examples_in_two_files():
    files = Counter(name for _, name in {(file, name) for file, name, _ in ALL})
    assert [name for name, n in files.items() if n > 1] == []


@pytest.mark.parametrize("name", LIBRARY)
def test_docstring_says_what_passes_what_fails_and_what_is_not_covered(name):
    doc = " ".join(LIBRARY[name].doc.split()).lower()
    assert [word for word in ("pass", "fail", "not covered") if word not in doc] == []


@pytest.mark.parametrize("name", LIBRARY)
def test_parameters_are_typed_keywords(name):
    first, *rest = inspect.signature(LIBRARY[name].function).parameters.values()
    assert first.annotation in ("Text", "Rollout")
    for parameter in rest:
        assert parameter.kind is parameter.KEYWORD_ONLY
        assert parameter.annotation is not parameter.empty
    assert LIBRARY[name].parameters.model_json_schema()["additionalProperties"] is False


@pytest.mark.parametrize("name", LIBRARY)
def test_the_version_and_the_domain_are_declared(name):
    verifier = LIBRARY[name]
    assert verifier.version >= 1
    assert verifier.domain.low < verifier.domain.high
