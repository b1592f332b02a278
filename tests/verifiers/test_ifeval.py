"""The 25 IFEval instructions: the public reading, ids and arguments of public data, loose mode, hostile texts."""

import pytest
from cases import folded

from rubrank.errors import InvalidInput
from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers import load
from rubrank.verifiers.instruction_items import public_params, resolve
from rubrank.verifiers.shared.language import detect_language
from rubrank.verifiers.shared.public_tools import split_newspaper_sentences, split_public_tokens
from rubrank.verifiers.verifier import VERIFIERS

load()


def check(name, text, compat="fixed", mode="strict", **kwargs):
    verifier, params = public_params(name, kwargs)
    return verifier.verify(
        Rollout(response=text, reasoning=""), verifier.check_parameters(params), compat=compat, mode=mode
    )


def test_all_25_are_there():
    assert sum(v.family == "ifeval" for v in VERIFIERS.values()) == 25


@folded(
    ("text", "count"),
    [
        ("", 0),
        ("One", 1),
        ("One. Two", 2),
        ("One.\nTwo", 2),
        ("One\n\nTwo", 1),
        ("Dr. Smith left. He ran.", 2),
        ("It was 3.14 or e.g. 5.", 2),
        ("1. First\n2. Second", 3),
        ("in 1999. then more", 1),
        ("What?! Yes.", 2),
        ('He said "stop." Then left.', 2),
        ("He said “stop.” Then left.", 1),
        ("Bold **end.**", 2),
        ("Samuel L. Jackson came.", 1),
        ("Wait... what", 1),
        ("See www.example.com now.", 1),
        ("(Really.) Yes.", 2),
    ],
)
def test_sentences_of_the_public_splitter(text, count):
    assert len(split_newspaper_sentences(text)) == count


def test_french_abbreviations_differ():
    assert len(split_newspaper_sentences("Voir p. 3 etc. et après.", "fr")) == 1
    assert len(split_newspaper_sentences("Voir etc. et après.", "en")) == 2


@folded(
    ("text", "count"),
    [
        ("I AM", 2),
        ("DON'T", 2),
        ("NASA's", 1),
        ("CANNOT", 2),
        ("**NOTE:** it", 1),
        ("A/B iPhone", 1),
        ("(USA)", 1),
        ("U.S. law", 1),
        ("1,000 5M", 1),
    ],
)
def test_capital_words_of_the_treebank(text, count):
    assert sum(map(str.isupper, split_public_tokens(text))) == count


@folded(
    ("public", "name"),
    [
        ("en:punctuation:no_comma", ("punctuation:no_comma", "en")),
        ("punctuation:no_comma", ("punctuation:no_comma", "en")),
        ("fr:change_case:french_capital", ("change_case:english_capital", "fr")),
        ("change_case:french_lowercase", ("change_case:english_lowercase", "fr")),
        ("es:change_case:spanish_capital", ("change_case:english_capital", "es")),
        ("fr:detectable_content:no_digits", ("fr:detectable_content:no_digits", "fr")),
        ("fr:detectable_format:no_digits", ("fr:detectable_content:no_digits", "fr")),
        ("count:numbers", ("count:numbers", "en")),
    ],
)
def test_public_ids(public, name):
    assert resolve(public) == name


def test_nulls_are_dropped_and_foreign_arguments_refused():
    nulls = {"num_words": None, "relation": None, "keywords": ["cat"]}
    assert check("keywords:existence", "a cat", **nulls).value == 1
    with pytest.raises(InvalidInput, match="num_bullets"):
        check("keywords:existence", "a cat", **nulls, num_bullets=3)


def test_a_missing_argument_is_an_error_not_a_guess():
    with pytest.raises(InvalidInput, match="keywords"):
        check("keywords:existence", "a cat", keywords=None)


@folded("relation", ["at least", "au moins", "al menos", "以上", "至少"])
def test_relations_of_all_languages(relation):
    assert check("length_constraints:number_words", "a b c", num_words=3, relation=relation).value == 1
    assert check("length_constraints:number_words", "a b", num_words=3, relation=relation).value == 0


def test_a_keyword_is_a_pattern_upstream_and_a_bad_one_is_literal():
    assert check("keywords:existence", "cart", keywords=["c.rt"], compat="upstream").value == 1
    assert check("keywords:existence", "cart", keywords=["c.rt"]).value == 0
    assert check("keywords:existence", "a (b", keywords=["(b"], compat="upstream").value == 1


def test_accented_words_have_edges():
    assert check("keywords:forbidden_words", "une épée.", forbidden_words=["épée"], compat="upstream").value == 0
    assert check("keywords:forbidden_words", "épées", forbidden_words=["épée"], compat="upstream").value == 1


@folded(("text", "count"), [("*\n* b", 1), ("* a\n*", 1), ("** a", 0), (" \n\n  - a", 1), ("---", 1), ("+ a", 0)])
def test_bullets_upstream(text, count):
    assert check("detectable_format:number_bullet_lists", text, num_bullets=count, compat="upstream").value == 1


def test_loose_drops_edges_and_asterisks():
    text = "Sure, here it is:\n*no commas*\nHope, that helps"
    assert check("punctuation:no_comma", text).value == 0
    assert check("punctuation:no_comma", text, mode="loose").value == 1
    assert check("startend:end_checker", "*Bye!*", end_phrase="Bye!", compat="upstream", mode="loose").value == 1


def test_empty_answers_follow_nothing_in_either_mode():
    for mode in ("strict", "loose"):
        assert check("punctuation:no_comma", " \n ", mode=mode, compat="upstream").value == 0


@folded(
    ("text", "code"),
    [
        ("Hello my friend, how are you", "en"),
        ("Où est la gare ?", "fr"),
        ("Habari ya asubuhi, asante sana", "sw"),
        ("مرحبا كيف حالك؟ هذه مدرسة كبيرة", "ar"),
        ("سلام، حال شما چطور است؟", "fa"),
        ("آپ کیسے ہیں؟ میں ٹھیک ہوں", "ur"),
        ("मी आज घरी आहे आणि जेवत आहे", "mr"),
        ("मैं आज घर पर हूँ और यह अच्छा है", "hi"),
        ("तपाईंलाई कस्तो छ? म सञ्चै छु र खुसी छु।", "ne"),
        ("Това е български език и той е хубав, разбира се, защото съм тук.", "bg"),
        ("Это русский язык, и мы были вместе", "ru"),
        ("这是中文", "zh"),
        ("これは日本語です", "ja"),
        ("123 !?", ""),
    ],
)
def test_languages(text, code):
    assert detect_language(text)[0] == code


@folded("text", ["[" * 10**6, "<" * 10**6, "\n" * 10**6 + "x", "* " * 500_000, "a." * 500_000])
def test_a_megabyte_takes_no_time(text):
    for name, kwargs in {
        "detectable_content:number_placeholders": {"num_placeholders": 1},
        "detectable_format:title": {},
        "detectable_format:number_bullet_lists": {"num_bullets": 1},
        "detectable_format:number_highlighted_sections": {"num_highlights": 1},
        "language:response_language": {"language": "fr"},
    }.items():
        for compat in ("fixed", "upstream"):
            assert "failed" not in check(name, text, compat=compat, **kwargs).reason


def test_deep_json_and_surrogates_do_not_crash():
    assert check("detectable_format:json_format", "[" * 10_000 + "]" * 10_000).value == 0
    assert check("keywords:existence", "\ud800 c.t", keywords=["c.t"], compat="upstream").value == 1
