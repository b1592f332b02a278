"""Code in responses: fenced blocks, the Python or the diff among them, and how outputs of programs are compared."""

from __future__ import annotations

import ast
import re
import warnings
from typing import Literal, TypeAlias

from rubrank.texts.prose import split_code

Compare: TypeAlias = Literal["lines", "tokens", "exact"]

_PYTHON_TAGS = ("", "python", "py", "python3", "python2")
_DIFF_TAGS = ("diff", "patch", "udiff")
# float() alone would also accept 5_0 and ５０.
_NUMBER = re.compile(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:[eE][-+]?\d+)?", re.ASCII)
_LONGEST_BARE_CODE = 200_000  # characters


def split_fenced_blocks(text: str) -> list[tuple[str, str]]:
    """Return (language, content) of each fenced block; one left open reaches to the end."""
    return [(tag.lower().split(" ")[0], f"{code}\n") for tag, code in split_code(text)[1]]


def parse_python(source: str) -> list[ast.stmt]:
    """Parse Python into statements, without warnings about strange escapes in other people's code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return ast.parse(source).body


def find_code(text: str) -> str | None:
    """Return the last block tagged as Python or without a tag, else a text that is Python as a whole, else None."""
    blocks = [block for language, block in split_fenced_blocks(text) if language in _PYTHON_TAGS]
    if blocks:
        return blocks[-1]
    if "```" in text or "~~~" in text or len(text) > _LONGEST_BARE_CODE:
        return None
    try:
        return text if parse_python(text) else None
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def find_patch(text: str) -> str | None:
    """Return the last block with a diff, else the text from the first line on that begins one, else None."""
    blocks = [(language, block) for language, block in split_fenced_blocks(text) if block.strip()]
    diffs = [block for language, block in blocks if language in _DIFF_TAGS]
    if not diffs:
        diffs = [block for _, block in blocks if _find_diff(block) is not None]
    if diffs:
        return diffs[-1]
    start = _find_diff(text)
    return None if start is None else text[start:]


def _find_diff(text: str) -> int | None:
    """Return the position where a diff begins; None if there is none."""
    if "\n+++ " not in text and "\nrename " not in text and " file mode " not in text:
        return None
    starts = []
    for mark in ("diff --git ", "--- "):
        if text.startswith(mark):
            starts.append(0)
        elif f"\n{mark}" in text:
            starts.append(text.index(f"\n{mark}") + 1)
    return min(starts, default=None)


def is_same_output(expected: str, written: str, compare: Compare, tolerance: float) -> bool:
    """Is what a program wrote what it should have written?

    lines    the same lines, without regard to spaces at the end of a line and around the text
    tokens   the same words; numbers may differ by `tolerance`, relative or (below 1) absolute
    exact    the same text
    """
    if compare == "exact":
        return expected == written
    if compare == "lines":
        expected_lines = [line.rstrip() for line in expected.strip().splitlines()]
        written_lines = [line.rstrip() for line in written.strip().splitlines()]
        return expected_lines == written_lines
    expected_tokens = expected.split()
    written_tokens = written.split()
    if len(expected_tokens) != len(written_tokens):
        return False
    return all(
        _is_same_token(a, b, tolerance)
        for a, b in zip(expected_tokens, written_tokens, strict=True)
    )


def _is_same_token(expected: str, written: str, tolerance: float) -> bool:
    if not (_NUMBER.fullmatch(expected) and _NUMBER.fullmatch(written)):
        # NaN comes from a calculation that failed, so no output is right.
        is_nan = expected.lower().strip("+-") == "nan"
        return expected == written and not is_nan
    number = float(expected)
    allowed_difference = tolerance * max(1.0, abs(number))
    return expected == written or abs(number - float(written)) <= allowed_difference
