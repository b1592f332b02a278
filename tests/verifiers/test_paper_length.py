from cases import folded
from hypothesis import given
from hypothesis import strategies as st

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.paper import length as paper_length
from rubrank.verifiers.verifier import VERIFIERS

assert paper_length.__doc__  # importing registers


def verdict(name, response, **params):
    verifier = VERIFIERS[name]
    return verifier.verify(Rollout(response=response), verifier.check_parameters(params))


@given(st.integers(0, 30), st.integers(0, 30))
def test_relations_and_ranges_agree(n, asked):
    text = " ".join(["word"] * n)
    assert verdict("WordCount", text, relation="at least", count=asked).value == (n >= asked)
    assert verdict("WordCount", text, low=asked).value == (n >= asked)
    assert verdict("WordCount", text, relation="less than", count=asked + 1).value == (n < asked + 1)
    assert verdict("WordCount", text, low=asked, high=asked).value == (n == asked)


@folded("n", [1, 2, 7])
@folded("sentence", ["Dr. Li paid $3.50 for it. ", "他说：“好的。” ", "真的吗？", "¿Qué tal? ", "Это так. "])
def test_sentences_in_many_languages(sentence, n):
    assert verdict("SentenceCount", sentence * n, relation="exactly", count=n).value == 1


@folded("mark", ["- {}", "* {}", "• {}", "{n}. {}", "{n}、{}", "（{n}）{}", "{n}) {}", "●{}"])
def test_entries_by_any_mark(mark):
    text = "\n".join(mark.format("thing", n=i + 1) for i in range(6))
    assert verdict("EntryCount", text, count=6).value == 1


def test_the_reason_tells_both_numbers():
    assert verdict("EntryCount", "- a\n- b", count=3).reason == "2 entries found, exactly 3 required"


def test_a_run_of_quotation_marks_takes_no_time():
    assert verdict("SentenceCount", '"' * 300_000, count=1).value == 0
