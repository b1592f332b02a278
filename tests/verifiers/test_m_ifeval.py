"""The 22 instructions that only Spanish, French or Japanese have, and conversations."""

import pytest

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers import load
from rubrank.verifiers.instruction_items import public_params
from rubrank.verifiers.verifier import VERIFIERS, find_verifier

load()


def check(name, text, compat="fixed", **kwargs):
    verifier, params = public_params(name, kwargs)
    rollout = Rollout(response=text, reasoning="")
    return verifier.verify(rollout, verifier.check_parameters(params), compat=compat).value


def test_all_22_are_there():
    names = [name for name, v in VERIFIERS.items() if v.family == "m_ifeval"]
    assert [sum(n.startswith(lang) for n in names) for lang in ("es:", "fr:", "ja:")] == [5, 5, 12]


def test_instructions_of_other_languages_have_their_own_signs():
    assert check("fr:startend:quotation", "« Bonjour »", compat="upstream") == 1
    assert check("en:startend:quotation", "« Bonjour »", compat="upstream") == 0
    assert check("fr:detectable_format:title", "##Titre##", compat="upstream") == 1
    assert check("ja:detectable_format:title", "『題』", compat="upstream") == 1
    assert check("es:detectable_format:constrained_response", "Quizás.") == 1
    assert check("ja:punctuation:no_comma", "a,b", compat="upstream") == 1


def test_a_long_run_of_kanji_is_read_once():
    assert check("ja:letters:furigana", "漢" * 10**6) == 0


def test_relation_words_of_japanese():
    assert check("ja:letters:kanji", "東京", kanji_limit=3, relation="未満") == 1
    with pytest.raises(InvalidInput, match="relation"):
        check("ja:letters:kanji", "東京", kanji_limit=3, relation="たくさん")


def test_conversation_is_checked_turn_by_turn():
    verifier = find_verifier("MultiIF")
    turns = [
        {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]},
        {"instruction_id_list": ["punctuation:no_comma", "detectable_format:title"], "kwargs": '[{}, "{}"]'},
    ]
    params = verifier.check_parameters({"turns": turns})
    prompt = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": "a, b"},
        {"role": "user", "content": "r"},
    ]
    verdict = verifier.verify(Rollout(prompt=prompt, response="<<Title>>"), params)
    assert verdict.value == pytest.approx(2 / 3)
    assert "punctuation:no_comma" in verdict.reason
    assert verifier.verify(Rollout(response="<<Title>>"), params).value is None


def test_conversation_needs_arguments_for_every_instruction():
    with pytest.raises(InvalidInput, match="1 instructions but 0 kwargs"):
        find_verifier("MultiIF").check_parameters({"turns": [{"instruction_id_list": ["a:b"], "kwargs": []}]})
