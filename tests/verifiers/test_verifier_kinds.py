"""Criteria whose checks go beyond what examples can show."""

import numpy as np
import pytest
from cases import folded
from hypothesis import given
from hypothesis import strategies as st

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers.data import find_json
from rubrank.verifiers.paper.penalty import is_iban, passes_luhn
from rubrank.verifiers.similarity import longest_common, tokenize
from rubrank.verifiers.truth.measurements import count_digits, read_measurement
from rubrank.verifiers.verifier import find_verifier


def verdict(name, answer, **params):
    verifier = find_verifier(name)
    return verifier.verify(Rollout(response=answer, reasoning=""), verifier.check_parameters(params))


@given(st.lists(st.sampled_from("abc"), max_size=12), st.lists(st.sampled_from("abc"), max_size=12))
def test_the_longest_common_subsequence_is_that_of_the_textbook(a, b):
    table = np.zeros((len(a) + 1, len(b) + 1), int)
    for i, x in enumerate(a):
        for j, y in enumerate(b):
            table[i + 1, j + 1] = table[i, j] + 1 if x == y else max(table[i, j + 1], table[i + 1, j])
    assert longest_common(a, b) == table[-1, -1]


@given(st.text(max_size=60))
def test_a_text_is_like_itself_in_every_measure(text):
    for name in ("TokenF1", "Rouge", "ChrF"):
        more = {"whole": True} if name == "TokenF1" else {}
        found = verdict(name, text, references=text, **more)
        assert found.value == pytest.approx(1.0 if tokenize(text) or (name == "ChrF" and text.strip()) else found.value)


def test_embeddings_of_a_model_made_on_the_spot(tmp_path):
    model2vec = pytest.importorskip("model2vec")
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = ["[UNK]", "cat", "kitten", "car"]
    tokenizer = Tokenizer(models.WordLevel({word: i for i, word in enumerate(words)}, unk_token="[UNK]"))
    tokenizer.pre_tokenizer = pre_tokenizers.Whitespace()
    vectors = np.array([[0.0, 0.1], [1.0, 0.0], [0.9, 0.1], [0.0, 1.0]], dtype=np.float32)
    model2vec.StaticModel(vectors=vectors, tokenizer=tokenizer).save_pretrained(str(tmp_path / "m"))
    near = verdict("EmbeddingSimilarity", "kitten", model=str(tmp_path / "m"), references="cat")
    far = verdict("EmbeddingSimilarity", "car", model=str(tmp_path / "m"), references="cat")
    assert near.value > 0.9 > 0.3 > far.value


@folded(("text", "count"), [("0.0420", 3), ("1200", 4), ("1.2e3", 2), ("-3.50", 3), ("0", 1)])
def test_significant_digits_as_written(text, count):
    assert count_digits(text) == count


@pytest.mark.parametrize(
    ("text", "number", "unit"),
    [
        ("about 5.0 km.", 5.0, "km"),
        ("1,234.5 m/s", 1234.5, "m/s"),
        ("-3 °C", -3.0, "°C"),
        ("1.2 × 10^3 J", 1200.0, "J"),
    ],
)
def test_quantities_are_read(text, number, unit):
    measurement = read_measurement(text)
    assert measurement is not None
    assert (measurement.value, measurement.unit) == (number, unit)


def test_check_digits():
    assert passes_luhn("4111111111111111")
    assert not passes_luhn("4111111111111112")
    assert is_iban("GB82 WEST 1234 5698 7654 32")
    assert not is_iban("GB82 WEST 1234 5698 7654 33")


def test_the_last_fence_is_the_json_and_a_hostile_one_is_read_in_time():
    assert find_json('```json\n{"a": 1}\n```\ntext\n```\n{"a": 2}\n```') == {"a": 2}
    with pytest.raises(ValueError, match="no JSON"):
        find_json("`" * 200_000)
