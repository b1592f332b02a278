"""Every example of every verifier is run; every verifier has enough of them and says what it does."""

import inspect
from collections import Counter, defaultdict

import pytest
from cases import Cases, folded
from library import group_of, load_all, load_examples, rollout_of

from rubrank.verifiers.verifier import Verdict

LIBRARY = load_all()
ALL = load_examples()
OF_NAME = defaultdict(list)
for _, _name, _example in ALL:
    OF_NAME[_name].append(_example)
KEYS = {"kind", "text", "siblings", "params", "value", "note", "compat", "mode", "rollout"}


@pytest.mark.parametrize("name", LIBRARY)
def test_examples(name):
    verifier = LIBRARY[name]
    with Cases() as cases:
        for number, example in enumerate(OF_NAME[name]):
            with cases(f"example {number} ({example['kind']}), {example['text'][:60]!r}"):
                params = verifier.check_parameters(example.get("params", {}))
                compat, mode = example.get("compat", "fixed"), example.get("mode", "strict")
                verdict = verdict_of(verifier, example, params, compat, mode)
                wanted = None if example["value"] is None else pytest.approx(example["value"])
                assert verdict.value == wanted, verdict.reason
                assert verdict.reason
                assert f"{name} failed" not in verdict.reason


def verdict_of(verifier, example, params, compat, mode):
    if not verifier.sees_group:
        return verifier.verify(rollout_of(example), params, compat=compat, mode=mode)
    return Verdict(*verifier.bind_group(params)(group_of(example))[0])


@folded("file", sorted({file for file, _, _ in ALL}))
def test_examples_of_a_file_are_well_formed(file):
    with Cases() as cases:
        for number, (of, name, example) in enumerate(ALL):
            if of == file:
                with cases(name, number):
                    check_form(name, example)


def check_form(name, example):
    assert {"kind", "text", "value"} <= example.keys() <= KEYS
    assert example["kind"] in ("pass", "fail", "tricky")
    domain = LIBRARY[name].domain
    if example["kind"] == "pass" and LIBRARY[name].layer != "low_quality":  # there no sign of a fault is no verdict
        assert example["value"] == domain.high
    if example["kind"] == "fail":
        assert example["value"] is not None
        assert example["value"] < domain.high


def test_every_verifier_has_enough_examples():
    with Cases() as cases:
        for name in LIBRARY:
            with cases(name):
                kinds = Counter(example["kind"] for example in OF_NAME[name])
                assert kinds["pass"] >= 3
                assert kinds["fail"] >= 3
                assert kinds["tricky"] >= 2


def test_no_examples_for_what_does_not_exist():
    assert {name for _, name, _ in ALL} <= LIBRARY.keys()


def test_no_verifier_has_its_examples_in_two_files():
    files = Counter(name for _, name in {(file, name) for file, name, _ in ALL})
    assert [name for name, n in files.items() if n > 1] == []


def test_every_docstring_says_what_passes_what_fails_and_what_is_not_covered():
    with Cases() as cases:
        for name, verifier in LIBRARY.items():
            with cases(name):
                doc = " ".join(verifier.doc.split()).lower()
                assert [word for word in ("pass", "fail", "not covered") if word not in doc] == []


def test_parameters_are_typed_keywords():
    with Cases() as cases:
        for name, verifier in LIBRARY.items():
            with cases(name):
                first, *rest = inspect.signature(verifier.function).parameters.values()
                assert first.annotation in ("Text", "Rollout", "Group")
                for parameter in rest:
                    assert parameter.kind is parameter.KEYWORD_ONLY
                    assert parameter.annotation is not parameter.empty
                assert verifier.parameters.model_json_schema()["additionalProperties"] is False


def test_every_version_and_domain_is_declared():
    with Cases() as cases:
        for name, verifier in LIBRARY.items():
            with cases(name):
                assert verifier.version >= 1
                assert verifier.domain.low < verifier.domain.high
