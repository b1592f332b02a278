"""Tables of words, letters and units (the TSV files in `data/`, each with a comment at its top), and patterns.

Patterns are made of the phrases in these tables, or come from rubrics and data. The latter are compiled by RE2, which
takes linear time, so that no pattern can stall a verifier.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

import re2

from rubrank._plain import replace_surrogates

_FOLDER = Path(__file__).with_name("data")
_UNSPACED = re.compile("[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]")


@cache
def read_table(name: str) -> tuple[tuple[str, ...], ...]:
    """Return the rows of data/NAME.tsv; lines that begin with # are comments."""
    lines = (_FOLDER / f"{name}.tsv").read_text("utf-8").splitlines()
    return tuple(tuple(line.split("\t")) for line in lines if not line.startswith("#"))


@cache
def read_words(name: str) -> dict[str, tuple[str, ...]]:
    """Return a table of two columns, a key and words separated by spaces, as {key: words}."""
    return {key: tuple(words.split()) for key, words in read_table(name)}


@cache
def join_patterns(kind: str) -> str:
    """Return one regular expression for all patterns of a kind in data/answer_patterns.tsv."""
    rows = read_table("answer_patterns")
    return "|".join(pattern for row_kind, _, pattern, _ in rows if row_kind == kind)


@cache
def compile_phrases(*kinds: str, before: str = "", after: str = "") -> re.Pattern[str]:
    """Compile one pattern for all phrases of these kinds in data/gate_phrases.tsv, in upper or lower case.

    before, after: regular expressions for what must stand around the phrase. The group "phrase" is the phrase itself.
    """
    sources = [pattern for kind, _, pattern, *_ in read_table("gate_phrases") if kind in kinds]
    return re.compile(f"{before}(?P<phrase>{'|'.join(sources)}){after}", re.IGNORECASE)


def write_pattern(phrases: Iterable[str], not_beside: str = r"\w") -> str:
    """Write a regular expression for any of the phrases. * stands for the rest of a word, or one word.

    A phrase is whole words: none of the characters `not_beside` stands next to it. Scripts that put no spaces between
    words (Chinese, Japanese, Thai, Korean with its particles) have no such limit.
    """
    spaced: list[str] = []
    unspaced: list[str] = []
    for phrase in sorted(set(phrases), key=len, reverse=True):
        source = re.escape(phrase).replace(r"\ \*\ ", r" \w{1,20} ").replace(r"\*", r"\w{0,20}")
        source = source.replace("'", "['’]")
        (unspaced if _UNSPACED.search(phrase) else spaced).append(source)
    if spaced:
        unspaced.append(f"(?<![{not_beside}])(?:{'|'.join(spaced)})(?![{not_beside}])")
    return f"(?:{'|'.join(unspaced)})"


@lru_cache(maxsize=2048)
def compile_re2(source: str, *, case_sensitive: bool = True) -> Any:
    """Return the compiled pattern; raises `re2.error` if RE2 cannot read it. Texts to search must be valid UTF-8."""
    options = re2.Options()
    options.log_errors = False
    options.case_sensitive = case_sensitive
    return re2.compile(replace_surrogates(source), options)
