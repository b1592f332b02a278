"""IF-RLVR: the 29 training ids, by their worked cases, hostile texts and the shapes that the data comes in."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from cases import folded, thinned

import rubrank.verifiers.instructions.if_rlvr  # registers the verifiers
from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.verifier import VERIFIERS, Verdict

EXAMPLES = Path(rubrank.verifiers.__file__).parent / "examples"
CASES: dict[str, list[dict[str, Any]]] = {
    name: cases
    for file in ("if_rlvr.yaml", "if_rlvr_copy.yaml")
    for name, cases in yaml.safe_load((EXAMPLES / file).read_text(encoding="utf-8")).items()
}
PUBLIC_IDS = """
    copy:repeat_phrase copy:copy copy:copying_simple copy:copying_multiple new:copy_span_idx
    detectable_format:sentence_hyphens detectable_format:square_brackets detectable_format:bigram_wrapping
    keywords:no_adjacent_consecutive keywords:word_once keywords:word_count_different_numbers
    keywords:exclude_word_harder keywords:palindrome keywords:keyword_specific_position keywords:start_end
    paragraphs:paragraphs paragraphs:paragraphs2 first_word:first_word_sent first_word:first_word_answer
    last_word:last_word_sent last_word:last_word_answer punctuation:punctuation_dot
    punctuation:punctuation_exclamation count:lowercase_counting count:counting_composition count:count_unique
    count:count_increment_word letters:letter_counting letters:letter_counting2
"""


def check(name: str, text: str, params: dict[str, Any] | None = None, **reading: Any) -> Verdict:
    found = VERIFIERS[name]
    return found.verify(Rollout(response=text, reasoning=""), found.check_parameters(params or {}), **reading)


def test_all_public_ids_are_there() -> None:
    registered = {name for name, found in VERIFIERS.items() if found.family == "if_rlvr"}
    assert registered == set(PUBLIC_IDS.split()) == set(CASES)
    assert len(registered) == 29


@pytest.mark.parametrize("name", thinned(CASES))
@folded("text", ["the deep " * 20_000, "a-a.-" * 20_000, "<<a " * 20_000, "***" * 30_000, "\x00\u202e"])
def test_hostile_texts_are_decided_quickly(name: str, text: str) -> None:
    for compat in ("fixed", "upstream"):
        verdict = check(name, text, CASES[name][0].get("params"), compat=compat)
        assert verdict.value in (0, 1), verdict.reason


def test_a_word_may_come_as_a_list_of_one() -> None:
    assert check("last_word:last_word_answer", "So it ends.", {"last_word": ["ends"]}).value == 1
    with pytest.raises(InvalidInput, match="first_word"):
        VERIFIERS["first_word:first_word_sent"].check_parameters({"first_word": []})


def test_the_last_repetition_alone_counts_upstream() -> None:
    params = {"phrase": "dance like nobody is watching you", "small_n": 2}
    text = "dance like nobody is watching you\ndance like somebody is watching you"
    assert check("copy:repeat_phrase", text, params, compat="upstream").value == 1
    assert check("copy:repeat_phrase", text, params).value == 0
    longer = text.replace("somebody is", "no one at all is")
    assert check("copy:repeat_phrase", longer, params, compat="upstream").value == 0
