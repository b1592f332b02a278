import pytest
from cases import folded

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.paper import presence as paper_presence
from rubrank.verifiers.verifier import VERIFIERS

assert paper_presence.__doc__  # importing registers


def verdict(name, response, **params):
    verifier = VERIFIERS[name]
    return verifier.verify(Rollout(response=response), verifier.check_parameters(params))


@folded("word", ["lake", "West Lake", "C++", "西湖", "カフェ", "l'eau", "naïve"])
@folded("frame", ["{}", "a {} b", "({})", "“{}”", "x\n{}\ny", "**{}**"])
def test_what_is_a_keyword_is_forbidden_as_a_word(word, frame):
    text = frame.format(word)
    assert verdict("Keyword", text, keywords=[word]).value == 1
    assert verdict("ForbiddenContent", text, words=[word]).value == 0
    assert verdict("Keyword", text, keywords=[word.upper()]).value == 1


def test_whole_words_and_parts():
    assert verdict("Keyword", "cartography", keywords=["cart"]).value == 0
    assert verdict("Keyword", "cartography", keywords=["cart"], whole_words=False).value == 1
    assert verdict("Keyword", "学习python编程", keywords=["python"]).value == 1


@folded(
    ("where", "value"),
    [
        ("start", 1),
        ("end", 0),
        ("first sentence", 1),
        ("last sentence", 0),
        ("every sentence", 0),
        ("every paragraph", 1),
    ],
)
def test_places(where, value):
    assert verdict("Keyword", "Rain fell. It was cold.", keywords=["rain"], where=where).value == value


def test_patterns_from_data_cannot_hang():
    assert verdict("ForbiddenContent", "a" * 100_000 + "b", patterns=["(a+)+$"]).value == 1
    assert verdict("ForbiddenContent", "\ud800 a", patterns=["a"]).value == 0


@pytest.mark.parametrize("tone", ["formal", "no contractions"])
def test_contractions_break_the_tone(tone):
    assert verdict("DictionRequirement", "We don’t know.", tone=tone).value == 0
    assert verdict("DictionRequirement", "The dog's bone.", tone="no contractions").value == 1


@folded(
    ("word", "text", "where", "value"),
    [
        ("#hashtag", "#hashtag is new", "start", 1),
        ("#hashtag", "**#hashtag** is new", "start", 1),
        ("#hashtag", "#hashtags are new", "start", 0),
        ("C#", "# C# is new", "start", 1),
        ('"done"', 'He said "done"', "end", 1),
        ('"done"', '**He said "done"**.', "end", 1),
        ("done", 'He said "done."', "end", 1),
        ('"done"', "He said done.", "end", 0),
    ],
)
def test_a_keyword_may_begin_or_end_with_a_mark(word, text, where, value):
    assert verdict("Keyword", text, keywords=[word], where=where).value == value
