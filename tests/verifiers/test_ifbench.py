"""IFBench: the 58 ids against the published verdicts, their worked cases, hostile texts, and the item as a whole."""

from __future__ import annotations

import doctest
import gzip
import json
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from cases import examples, folded
from hypothesis import given
from hypothesis import strategies as st

from rubrank.rollouts.rollout import Rollout
from rubrank.texts import words as lexicon
from rubrank.texts.text import Text
from rubrank.texts.words import could_be_verb, count_syllables, is_emoji
from rubrank.verifiers import load
from rubrank.verifiers.instruction_items import public_params
from rubrank.verifiers.instructions import ifbench_format
from rubrank.verifiers.shared import public_tools
from rubrank.verifiers.shared.instruction import count_word
from rubrank.verifiers.shared.public_tools import split_public_sentences, split_public_tokens
from rubrank.verifiers.verifier import VERIFIERS, Verdict

PARTS = ("count", "ratio", "words", "sentence", "format", "nesting", "custom", "csv")
load()

DATA = Path(__file__).parents[3] / "shared" / "data" / "ifbench"
EXAMPLES = Path(ifbench_format.__file__).parents[1] / "examples"
IDS = sorted(name for name, check in VERIFIERS.items() if check.family == "ifbench")

needs_data = pytest.mark.skipif(not DATA.is_dir(), reason="needs the published prompts and verdicts in ../shared/data")


def rows(name: str) -> list[dict[str, Any]]:
    with gzip.open(DATA / name, "rt", encoding="utf-8") as file:
        return [json.loads(line) for line in file]


def check(name: str, text: str, params: dict[str, Any] | None = None, **reading: Any) -> Verdict:
    found = VERIFIERS[name]
    return found.verify(Rollout(response=text, reasoning=""), found.check_parameters(params or {}), **reading)


@cache
def worked_cases() -> list[tuple[str, dict[str, Any]]]:
    files = [*sorted(EXAMPLES.glob("ifbench_*.yaml")), EXAMPLES / "benchmark_items.yaml"]
    loaded = [yaml.safe_load(file.read_text(encoding="utf-8")) for file in files]
    return [(name, case) for cases in loaded for name, listed in cases.items() for case in listed]


@needs_data
def test_every_published_prompt_can_be_checked() -> None:
    prompts = rows("prompts.jsonl.gz")
    assert {name for row in prompts for name in row["instruction_id_list"]} == set(IDS)
    assert len(IDS) == 58
    for row in prompts:
        for name, kwargs in zip(row["instruction_id_list"], row["kwargs"], strict=True):
            verifier, params = public_params(name, {**kwargs, "relation": None})
            assert (verifier.name, params) == (name, kwargs)
            verifier.check_parameters(params)


@needs_data
@pytest.mark.parametrize("mode", ["strict", "loose"])
def test_agrees_with_the_published_verdicts(mode: Any) -> None:
    total = agreed = 0
    for row in rows("sample_verdicts.jsonl.gz"):
        for name, kwargs, published in zip(row["instruction_id_list"], row["kwargs"], row[mode], strict=True):
            total += 1
            agreed += check(name, row["response"], kwargs, compat="upstream", mode=mode).value == published
    assert total == 163
    assert agreed / total >= 0.99


def test_an_empty_answer_follows_no_instruction() -> None:
    cases = {name: case.get("params") for name, case in worked_cases() if name != "IFBench"}
    for name, params in cases.items():
        for compat in ("fixed", "upstream"):
            assert check(name, " \n ", params, compat=compat).value == 0, name


HOSTILE = {
    "brackets": "(" * 10_000 + ")" * 10_000,
    "quotes": "\"'" * 3_000,
    "marks": "!?." * 10_000,
    "letters": "a" * 100_000,
    "blank lines": "\n \n" * 30_000 + "x",
    "initials": "U.S. " * 20_000,
    "tags": "<i><<" * 20_000,
    "odd characters": "a\x00b\u200b\u202e\x01\x02 \u0661. " * 5_000,
    "asterisks": "* *** " * 20_000,
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", HOSTILE)
def test_hostile_texts_are_decided_quickly(kind: str) -> None:
    cases = {name: case.get("params") for name, case in worked_cases()}
    for name, params in cases.items():
        for compat in ("fixed", "upstream"):
            verdict = check(name, HOSTILE[kind], params, compat=compat)
            if name != "IFBench":
                assert verdict.value is not None, (name, verdict.reason)


@given(st.lists(st.sampled_from(["", " ", "  ", "a", " b", "  c", "   d"]), min_size=1, max_size=12))
@examples(300)
def test_line_indent_upstream_skips_some_blank_lines(lines: list[str]) -> None:
    kept_lines = list(lines)
    for line in kept_lines:
        if not line.strip():
            kept_lines.remove(line)  # the public checker removes from the list that it iterates over
    indents = [len(line) - len(line.lstrip(" ")) for line in kept_lines]
    is_stairs = all(indent < next_indent for indent, next_indent in pairwise(indents))
    assert ifbench_format.line_indent(Text("\n".join(lines)), compat="upstream")[0] == is_stairs


def test_docstring_examples() -> None:
    for module in (public_tools, lexicon):
        assert doctest.testmod(module).failed == 0


@folded(
    ("text", "expected"),
    [
        ('He said "go." Then he left.', ['He said "go".', "Then he left."]),
        ("Dr. Ray paid 3.50 at a.b.com. Why?", ["Dr. Ray paid 3.50 at a.b.com.", "Why?"]),
        ("Wait... what\nnow", ["Wait...", "what now"]),
        ("The U.S. It grew. No.5", ["The U.S.", "It grew.", "No.", "5"]),
        ("1. Mix it.", ["1.", "Mix it."]),
        ("", []),
    ],
)
def test_public_sentences(text: str, expected: list[str]) -> None:
    assert split_public_sentences(text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I can't, she's gone.", ["I", "ca", "n't", ",", "she", "'s", "gone", "."]),
        ("Mr. Ray left. Why?", ["Mr.", "Ray", "left", ".", "Why", "?"]),
        ('"Go" (now): 1,000 at 12:30...', ["``", "Go", "''", "(", "now", ")", ":", "1,000", "at", "12:30", "..."]),
        ("I cannot wanna go--home", ["I", "can", "not", "wan", "na", "go", "--", "home"]),
    ],
)
def test_public_tokens(text: str, expected: list[str]) -> None:
    assert split_public_tokens(text) == expected


def test_whole_words_have_edges_except_in_scripts_without_spaces() -> None:
    assert count_word("Sea, undersea, sea-side seas", "sea") == 2
    assert count_word("今天天气好", "天气") == 1
    assert count_word("c++ and C++11", "c++") == 2
    assert count_word("a b", " ") == 0


def test_lexicon() -> None:
    words = ("cat", "table", "making", "created", "beautiful", "it's", "12", "state-of-the-art")
    assert [count_syllables(word) for word in words] == [1, 2, 2, 3, 3, 1, 0, 4]
    assert [is_emoji(char) for char in "😀❤a1✓⭐"] == [True, True, False, False, False, True]
    assert [could_be_verb(word) for word in ("Explain", "Running", "Isn’t", "Morning", "The")] == [True] * 3 + [
        False
    ] * 2


@needs_data
def test_an_item_is_the_share_of_its_constraints() -> None:
    for row in rows("sample_verdicts.jsonl.gz"):
        item = {"instruction_id_list": row["instruction_id_list"], "kwargs": row["kwargs"], "mode": "loose"}
        alone = [
            check(name, row["response"], kwargs, mode="loose").value
            for name, kwargs in zip(row["instruction_id_list"], row["kwargs"], strict=True)
        ]
        assert check("IFBench", row["response"], item).value == pytest.approx(sum(filter(None, alone)) / len(alone))


def test_an_item_with_too_few_kwargs_is_missing() -> None:
    verdict = check("IFBench", "x", {"instruction_id_list": ["format:no_whitespace"] * 2, "kwargs": [{}]})
    assert verdict.value is None
    assert "one for each id" in verdict.reason
