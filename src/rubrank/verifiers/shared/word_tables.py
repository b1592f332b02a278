"""Tables of words, letters and units that verifiers need: the TSV files in `data/`, each with a comment at its top."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).with_name("data")


@cache
def read_table(name: str) -> tuple[tuple[str, ...], ...]:
    """The rows of data/NAME.tsv; lines that begin with # are comments."""
    lines = (_FOLDER / f"{name}.tsv").read_text("utf-8").splitlines()
    return tuple(tuple(line.split("\t")) for line in lines if not line.startswith("#"))


@cache
def read_words(name: str) -> dict[str, tuple[str, ...]]:
    """A table of two columns: a key, and words separated by spaces."""
    return {key: tuple(words.split()) for key, words in read_table(name)}
