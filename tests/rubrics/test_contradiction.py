"""Constraints that exclude each other are found; those that do not are left alone."""

from __future__ import annotations

from cases import folded

import rubrank.verifiers.instruction_items
import rubrank.verifiers.instructions.if_rlvr
import rubrank.verifiers.instructions.ifbench_words
import rubrank.verifiers.instructions.ifeval_format
import rubrank.verifiers.instructions.ifeval_words
import rubrank.verifiers.paper.format
import rubrank.verifiers.paper.length
import rubrank.verifiers.paper.presence  # noqa: F401 - all register verifiers
from rubrank.rubrics.claims import (
    CLAIMS,
    Contains,
    Interval,
    Lacks,
    OneOf,
    claims,
    compare_claims,
    find_contradictions,
    make_interval,
)
from rubrank.rubrics.rubric import Criterion
from rubrank.verifiers.verifier import VERIFIERS, verifier


def criteria(*pairs):
    return [Criterion(name=f"{i} {name}", verifier=name, params=params) for i, (name, params) in enumerate(pairs)]


WORDS = "length_constraints:number_words"
CONTRADICTIONS = [
    ((WORDS, {"relation": "less than", "num_words": 50}), (WORDS, {"relation": "at least", "num_words": 100})),
    ((WORDS, {"relation": "less than", "num_words": 50}), (WORDS, {"relation": "at least", "num_words": 50})),
    (("WordCount", {"relation": "at most", "count": 50}), (WORDS, {"relation": "at least", "num_words": 100})),
    (("WordCount", {"low": 10, "high": 20}), ("count:word_count_range", {"min_words": 30, "max_words": 40})),
    (("WordCount", {"relation": "at most", "count": 9}), ("count:unique_word_count", {"N": 10})),
    (("WordCount", {"relation": "around", "count": 100}), (WORDS, {"relation": "at least", "num_words": 120})),
    (
        ("SentenceCount", {"relation": "exactly", "count": 3}),
        ("length_constraints:number_sentences", {"relation": "at least", "num_sentences": 4}),
    ),
    (
        ("ParagraphCount", {"relation": "exactly", "count": 3}),
        ("length_constraints:nth_paragraph_first_word", {"num_paragraphs": 4, "nth_paragraph": 1, "first_word": "a"}),
    ),
    (
        ("detectable_format:number_bullet_lists", {"num_bullets": 3}),
        ("BulletCount", {"relation": "exactly", "count": 4}),
    ),
    (
        ("BulletCount", {"relation": "at least", "count": 5, "kind": "numbered"}),
        ("BulletCount", {"relation": "at most", "count": 3, "kind": "numbered"}),
    ),
    (("BulletCount", {"low": 5, "nested": False}), ("BulletCount", {"high": 3, "nested": False})),
    (("change_case:english_capital", {}), ("change_case:english_lowercase", {})),
    (("change_case:english_capital", {}), ("CaseFormat", {"case": "lower"})),
    (
        ("change_case:english_lowercase", {}),
        ("change_case:capital_word_frequency", {"capital_frequency": 2, "capital_relation": "at least"}),
    ),
    (
        ("keywords:existence", {"keywords": ["sea", "river"]}),
        ("keywords:forbidden_words", {"forbidden_words": ["River"]}),
    ),
    (("Keyword", {"keywords": ["river"]}), ("ForbiddenContent", {"words": ["river"]})),
    (("Keyword", {"keywords": ["the river bank"]}), ("keywords:forbidden_words", {"forbidden_words": ["river"]})),
    (
        ("keywords:frequency", {"keyword": "tea", "frequency": 3, "relation": "at least"}),
        ("keywords:frequency", {"keyword": "tea", "frequency": 2, "relation": "less than"}),
    ),
    (
        ("keywords:frequency", {"keyword": "tea", "frequency": 3, "relation": "at least"}),
        ("keywords:word_once", {"keyword": "Tea"}),
    ),
    (("punctuation:no_comma", {}), ("keywords:existence", {"keywords": ["tea, coffee"]})),
    (("punctuation:no_comma", {}), ("startend:end_checker", {"end_phrase": "Yours, Ann"})),
    (("punctuation:no_comma", {}), ("combination:repeat_prompt", {"prompt_to_repeat": "First, say hello."})),
    (("language:response_language", {"language": "fr"}), ("LanguageRequirement", {"language": "Chinese"})),
    (("language:response_language", {"language": "fr"}), ("change_case:english_capital", {})),
    (
        ("keywords:letter_frequency", {"letter": "E", "let_frequency": 5, "let_relation": "at least"}),
        ("LetterFrequency", {"letter": "e", "relation": "at most", "count": 4}),
    ),
    (("first_word:first_word_answer", {"first_word": "Now"}), ("first_word:first_word_answer", {"first_word": "Then"})),
]
FINE = [
    ((WORDS, {"relation": "less than", "num_words": 100}), (WORDS, {"relation": "at least", "num_words": 99})),
    (("WordCount", {"low": 10, "high": 20}), ("count:word_count_range", {"min_words": 20, "max_words": 40})),
    (("WordCount", {"high": 50}), ("WordCount", {"low": 100, "unit": "characters"})),
    (("SentenceCount", {"relation": "at most", "count": 3}), ("WordCount", {"low": 100})),
    (("ParagraphCount", {"count": 3}), ("length_constraints:number_paragraphs", {"num_paragraphs": 5})),
    (("BulletCount", {"low": 5, "kind": "numbered"}), ("BulletCount", {"high": 3})),
    (("BulletCount", {"low": 5}), ("BulletCount", {"high": 3, "nested": False})),
    (("change_case:english_capital", {}), ("CaseFormat", {"case": "lower", "scope": "headings"})),
    (("Keyword", {"keywords": ["rivers"]}), ("keywords:forbidden_words", {"forbidden_words": ["river"]})),
    (("Keyword", {"keywords": ["river", "sea"], "need": "any"}), ("ForbiddenContent", {"words": ["river"]})),
    (("LanguageRequirement", {"language": ["fr", "en"]}), ("language:response_language", {"language": "en"})),
    (
        ("LanguageRequirement", {"language": "fr", "share": 0.3}),
        ("LanguageRequirement", {"language": "en", "share": 0.3}),
    ),
    (("LanguageRequirement", {"language": "zh-Hans"}), ("LanguageRequirement", {"language": "中文"})),
    (("punctuation:no_comma", {}), ("keywords:existence", {"keywords": ["tea"]})),
    # It has a parameter `keys`.
    (("FormatRequirement", {"format": "json"}), ("keywords:existence", {"keywords": ["tea"]})),
]


@folded("pair", CONTRADICTIONS)
def test_found(pair):
    found = find_contradictions(criteria(*pair))
    assert len(found) == 1
    assert set(found[0].criteria) == {f"{i} {name}" for i, (name, _) in enumerate(pair)}
    assert find_contradictions(criteria(*reversed(pair)))


@folded("pair", FINE)
def test_left_alone(pair):
    assert find_contradictions(criteria(*pair)) == ()


def test_the_message_says_who_asks_for_what():
    found = find_contradictions(
        criteria(
            ("WordCount", {"relation": "at most", "count": 50}), ("WordCount", {"relation": "at least", "count": 100})
        )
    )
    assert found[0].message == "words: “0 WordCount” asks for at most 50, “1 WordCount” for at least 100"


def test_one_criterion_can_contradict_itself():
    found = find_contradictions(criteria(("count:word_count_range", {"min_words": 50, "max_words": 20})))
    assert found[0].criteria == ("0 count:word_count_range",)
    found = find_contradictions(
        criteria(
            (
                "length_constraints:nth_paragraph_first_word",
                {"num_paragraphs": 2, "nth_paragraph": 3, "first_word": "a"},
            )
        )
    )
    assert found[0].message.startswith("paragraphs (number 3 is required): “0 length_constraints")
    assert found[0].message.endswith("asks for at least 3 and at most 2, which is impossible")


def test_a_choice_without_values_is_impossible():
    (found,) = compare_claims([("Tongue", OneOf("language", frozenset()))])
    assert found.message == "language: “Tongue” asks for none, which is impossible"


def test_the_constraints_of_an_item_are_seen():
    ids = ["change_case:english_capital", "change_case:english_lowercase"]
    found = find_contradictions([Criterion(name="IFBench", params={"instruction_id_list": ids})])
    assert found[0].criteria == ("IFBench",)


def test_judged_and_reversed_criteria_claim_nothing():
    long = Criterion(name="long", verifier="WordCount", params={"low": 100}, direction="lower")
    short = Criterion(name="short", verifier="WordCount", params={"high": 50})
    assert find_contradictions([long, short, Criterion(name="A", question="?")]) == ()


def test_a_family_adds_its_own_line():
    @verifier("contradiction-test limit")
    def limit(text, *, most: int):
        return True, ""

    @claims("contradiction-test limit")
    def _(p):
        yield Interval("words", high=p["most"])

    try:
        pair = criteria(("contradiction-test limit", {"most": 3}), ("WordCount", {"low": 4}))
        assert len(find_contradictions(pair)) == 1
    finally:
        del VERIFIERS["contradiction-test limit"], CLAIMS["contradiction-test limit"]


def test_every_line_of_the_table_is_of_a_verifier():
    find_contradictions([])
    import importlib.resources
    import pkgutil

    import rubrank.verifiers

    for module in pkgutil.iter_modules(rubrank.verifiers.__path__):
        importlib.import_module(f"rubrank.verifiers.{module.name}")

    table = (importlib.resources.files("rubrank.rubrics") / "claims.tsv").read_text(encoding="utf-8")
    ours = {line.split("\t")[0] for line in table.splitlines() if line and not line.startswith("#")}
    # The documentation registers claims of its own.
    ours |= {name for name, claim in CLAIMS.items() if claim.__module__.startswith("rubrank.")}
    assert len(ours) > 20
    assert ours <= set(VERIFIERS)


@folded(
    ("relation", "low", "high"),
    [
        ("at least", 3, float("inf")),
        ("more than", 4, float("inf")),
        ("at most", 0, 3),
        ("less than", 0, 2),
        ("exactly", 3, 3),
    ],
)
def test_relations_as_intervals(relation, low, high):
    interval = make_interval("x", relation, 3)
    assert (interval.low, interval.high) == (low, high)


def test_claims_compare_only_what_is_the_same():
    fine = [("a", Interval("x", high=1)), ("b", Interval("y", low=2)), ("c", OneOf("z", frozenset("p")))]
    assert compare_claims(fine) == ()
    clash = [
        ("a", Contains("sea, side")),
        ("b", Lacks(",")),
        ("c", Lacks("side", is_word=True)),
        ("d", Lacks("sid", True)),
    ]
    assert [found.criteria for found in compare_claims(clash)] == [("a", "b"), ("a", "c")]


def test_a_pair_of_criteria_is_reported_once_in_whatever_order_they_come():
    forbids = ("ban", [Interval("occurrences of “lake”", 0, 0), Lacks("lake", is_word=True)])
    requires = ("use", [Interval("occurrences of “lake”", 1), Contains("lake")])
    for first, second in ((forbids, requires), (requires, forbids)):
        named_claims = [(name, claim) for name, claims_of_one in (first, second) for claim in claims_of_one]
        assert [contradiction.criteria for contradiction in compare_claims(named_claims)] == [(first[0], second[0])]
