"""Tables of bytes answer what patterns would."""

from __future__ import annotations

import re

from hypothesis import given
from hypothesis import strategies as st

from rubrank.texts.bytewise import beyond_ascii, count_signs, has_controls
from rubrank.texts.words import _count_compiled, count_words, split_words

TEXTS = st.text(st.characters() | st.sampled_from("ab 1_-'.,\n\t\x00\x1b\x7f\u3000中é\u0301\u200b“"), max_size=80)
PATTERNS = [re.compile(p) for p in ("[\u00c0-\u00ff]{2,}", "[\u4e00-\u9fff]+", "中+é", "[\u0300-\u036f]{2,}")]


@given(TEXTS)
def test_patterns_beyond_ascii_find_the_same(text):
    for pattern in PATTERNS:
        assert pattern.findall(beyond_ascii(text)) == pattern.findall(text)


@given(TEXTS)
def test_signs_and_controls(text):
    assert count_signs(text) == sum(c.isascii() and not c.isalnum() and not c.isspace() for c in text)
    assert has_controls(text) == bool(re.search("[\x00-\x08\x0b\x0e-\x1a\x1c-\x1f\x7f]", text))


@given(TEXTS)
def test_compiled_words_are_the_same(text):
    assert _count_compiled(text) == count_words(text) == len(split_words(text))
