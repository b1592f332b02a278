"""Data that is too much, or that no file can hold, is one clear error, and soon."""

import json
import os
import shutil
import sqlite3
import subprocess

import pytest
from typer.testing import CliRunner

from rubrank._files import atomic_write
from rubrank._plain import MOST_DEPTH, MOST_KEYS, MOST_PARAMETERS, MOST_VALUES, check_bounds, plain
from rubrank.cli.app import app
from rubrank.errors import InvalidInput
from rubrank.grading.cache import VerdictCache
from rubrank.rubrics.claims import Contains, Interval, Lacks, OneOf, compare_claims
from rubrank.rubrics.rubric import MOST_CRITERIA, load_rubric
from rubrank.store import Store


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words])


def test_sets_are_plain_lists():
    assert plain({"names": {"b", "a"}, "none": frozenset()}) == {"names": ["a", "b"], "none": []}


def _bomb(levels: int, line: str) -> str:
    lines = ["a0: &a0 " + line]
    lines += [f"a{i}: &a{i} [{','.join([f'*a{i - 1}'] * 9)}]" for i in range(1, levels)]
    return "\n".join([*lines, f"criteria: *a{levels - 1}\n"])


def _merge_bomb(levels: int) -> str:
    lines = ["a0: &a0 {k: v}"]
    lines += [f"a{i}: &a{i} {{<<: [{','.join([f'*a{i - 1}'] * 9)}]}}" for i in range(1, levels)]
    return "\n".join([*lines, "criteria: [A]\n"])


HOSTILE = {
    "bomb of lists.yaml": (_bomb(12, "[x, x, x]"), "values"),
    "bomb of mappings.yaml": (_bomb(12, "{x: 1}"), "values"),
    "bomb of merges.yaml": (_merge_bomb(12), "values"),
    "contains itself.yaml": ("criteria: &a [*a]\n", "contains itself"),
    "deep.yaml": ("criteria: " + "[" * 3000 + "]" * 3000, "deep"),
    "deep.json": ("[" * 50_000 + "]" * 50_000, "recursion"),
    "deep.toml": ("criteria = " + "[" * 3000 + "]" * 3000, "deep|recursion|nested"),
    "keys.yaml": ("\n".join(f"k{i}: 1" for i in range(MOST_KEYS + 1)), "keys"),
    "keys.json": (json.dumps({f"k{i}": 1 for i in range(MOST_KEYS + 1)}), "keys"),
    "parameters.json": (
        json.dumps({"criteria": [{"name": "Keyword", "params": {f"k{i}": 1 for i in range(9_000)}}]}),
        "(unknown key)",
    ),
    "keywords.json": (
        json.dumps({"criteria": [{"name": "Keyword", "params": {"keywords": [f"w{i}" for i in range(100_000)]}}]}),
        f"at most {MOST_PARAMETERS:,} values",
    ),
    "criteria.json": (
        json.dumps({"criteria": [{"name": f"c{i}", "question": "?"} for i in range(20_000)]}),
        f"at most {MOST_CRITERIA:,}",
    ),
    "digits.json": ('{"criteria": [{"name": "A", "question": "b", "weight": ' + "9" * 100_000 + "}]}", "digits"),
    "long.yaml": ("criteria: [{name: A, question: '" + "x" * (5 << 20) + "'}]", "at most 4 MB"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_rubric_that_is_too_much_is_refused(name, tmp_path):
    text, why = HOSTILE[name]
    (tmp_path / name).write_text(text)
    done = run("check", tmp_path / name)
    assert done.exit_code == 1, done.output
    assert any(word in done.stdout for word in why.split("|")), done.stdout[:500]
    with pytest.raises(InvalidInput):
        load_rubric(tmp_path / name)


def test_aliases_and_merges_of_a_usual_size_are_read(tmp_path):
    text = "criteria:\n- &a {name: A, question: b, weight: 2}\n- {<<: *a, name: C}\n"
    (tmp_path / "r.yaml").write_text(text)
    assert [(c.name, c.weight) for c in load_rubric(tmp_path / "r.yaml").criteria] == [("A", 2), ("C", 2)]


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (list(range(MOST_VALUES + 1)), "values"),
        ([[0] * 1000] * (MOST_VALUES // 1000), "values"),
        (dict.fromkeys(range(MOST_KEYS + 1)), "keys"),
    ],
)
def test_bounds(value, why):
    check_bounds({"a": [1, "x", None, {"b": ()}]}, "f", "the file")
    with pytest.raises(InvalidInput, match=why):
        check_bounds(value, "f", "the file")
    nested: list = []
    for _ in range(MOST_DEPTH + 2):
        nested = [nested]
    with pytest.raises(InvalidInput, match="deep"):
        check_bounds(nested, "f", "the file")


# --- many criteria


def test_contradictions_among_a_thousand_claims():
    claims = [(f"c{i}", Contains(f"w{i} and more")) for i in range(1000)]
    claims += [(f"i{i}", Interval("words", low=i)) for i in range(1000)]
    assert compare_claims(claims) == ()
    more = [("max", Interval("words", high=998)), ("word", Lacks("W77", is_word=True)), ("letter", Lacks("Q"))]
    more += [("phrase", Lacks("w99 and")), ("a", OneOf("case", frozenset("a"))), ("b", OneOf("case", frozenset("b")))]
    found = {contradiction.criteria for contradiction in compare_claims([*claims, *more])}
    assert found == {("i999", "max"), ("c77", "word"), ("c99", "phrase"), ("a", "b")}


def test_long_chains_and_cycles_of_prerequisites():
    chain = {f"c{i}": [f"c{i - 1}"] if i else [] for i in range(9_000)}
    criteria = [{"name": name, "question": "?", "depends": on} for name, on in chain.items()]
    assert len(load_rubric({"criteria": criteria}).criteria) == 9_000


# --- score files


@pytest.fixture
def scores(tmp_path):
    rows = [{"prompt_id": "q", "prompt": "p", "response": "word " * (i + 1)} for i in range(3)]
    (tmp_path / "r.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    names = ["constructor", "__proto__", "toString"]
    criteria = [
        {"name": name, "verifier": "WordCount", "params": {"relation": "at least", "count": i + 1}}
        for i, name in enumerate(names)
    ]
    (tmp_path / "rubric.json").write_text(json.dumps({"criteria": criteria}))
    done = run("grade", tmp_path / "r.jsonl", "--rubric", tmp_path / "rubric.json", "-o", tmp_path / "s.jsonl")
    assert done.exit_code == 0, done.output
    return tmp_path / "s.jsonl"


@pytest.mark.parametrize("value", [7, -0.1, 1e308])
@pytest.mark.parametrize("verb", ["fuse", "record", "replay"])
def test_a_score_outside_its_domain_is_refused(scores, value, verb):
    first, second, *rest = scores.read_text().splitlines()
    row = json.loads(second)
    row["scores"]["toString"] = value
    scores.write_text("\n".join([first, json.dumps(row), *rest]) + "\n")
    output = [] if verb == "replay" else ["-o", scores.with_name("out.jsonl")]
    done = run(verb, scores, *output)
    assert done.exit_code == 2
    assert "'toString' must be from 0 to 1, its domain" in done.stderr
    assert not scores.with_name("out.jsonl").exists()


def test_half_a_character_in_an_id(tmp_path, scores):
    rows = [{"prompt_id": "q\ud800", "prompt": "p", "response": "word " * (i + 1)} for i in range(3)]
    (tmp_path / "half.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    graded = tmp_path / "half_scores.jsonl"
    words = ("grade", tmp_path / "half.jsonl", "--rubric", tmp_path / "rubric.json", "-o")
    assert run(*words, graded).exit_code == 0
    assert run("fuse", graded, "-o", tmp_path / "fused.jsonl").exit_code == 0
    for verb, output in [(words, "x.parquet"), (("record", graded, "-o"), "y.parquet")]:
        done = run(*verb, tmp_path / output)
        assert done.exit_code == 2
        assert "without lone surrogates" in done.stderr
        assert not (tmp_path / output).exists()


# --- a full disk


def test_a_full_disk_is_one_line_and_what_was_there_stays(tmp_path):
    target = tmp_path / "out.jsonl"
    target.write_text("before")
    with pytest.raises(InvalidInput, match="on a disk with room left"), atomic_write(target):
        raise OSError(28, os.strerror(28))
    assert target.read_text() == "before"
    assert [path.name for path in tmp_path.iterdir()] == ["out.jsonl"]
    with pytest.raises(OSError, match="Bad address"), atomic_write(target):
        raise OSError(14, os.strerror(14))


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("mount"), reason="needs root, to mount a small disk")
def test_a_disk_that_fills_up_while_grading(tmp_path, scores):
    disk = tmp_path / "disk"
    disk.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200k", "tmpfs", disk], check=False).returncode != 0:
        pytest.skip("nothing can be mounted here")
    try:
        rows = [{"prompt_id": f"q{i // 4}", "prompt": "p", "response": f"{i} x" * 9} for i in range(2_500)]
        (tmp_path / "many.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
        (disk / "out.jsonl").write_text("before")
        words = ["grade", tmp_path / "many.jsonl", "--rubric", tmp_path / "rubric.json"]
        done = run(*words, "-o", disk / "out.jsonl", "--force")
        assert done.exit_code == 2
        assert "on a disk with room left" in done.stderr
        assert (disk / "out.jsonl").read_text() == "before"
    finally:
        subprocess.run(["umount", disk], check=True)


def test_a_cache_on_a_full_disk_keeps_nothing_and_the_run_goes_on(tmp_path, caplog, monkeypatch):
    def fail(store, request):
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(Store, "write", fail)
    with VerdictCache(tmp_path / "c.sqlite") as cache:
        for i in range(3):
            cache.put({bytes([i]): (1.0, "kept")})
        assert caplog.text.count("the disk is full") == 1
        assert cache.get([b"\x00"]) == {}


def test_a_report_takes_criteria_of_any_name(scores):
    records, page = scores.with_name("r2.jsonl"), scores.with_name("page.html")
    assert run("record", scores, "-o", records).exit_code == 0
    assert run("report", records, "-o", page).exit_code == 0
    assert page.stat().st_size > 10_000
