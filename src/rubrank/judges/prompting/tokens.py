"""Count the tokens of a text, with a tokenizer from a file or by an estimate.

    count, name = load_token_counter(None)                       name: "estimate"
    count("Name a lake in Hangzhou.")                            6
    count, name = load_token_counter(Path("tokenizer.json"))     name: "tokenizer.json"

The estimate takes a token for every four ASCII characters and one for every other character. For the library's prompts
that is 2 to 5 % more than OpenAI's o200k_base and Qwen's tokenizer count in English, and 15 to 30 % more in Chinese
(docs/prompts.md). Supported files: `tokenizer.json` of Hugging Face (package `tokenizers`), and `.tiktoken` ranks
(package `tiktoken`), which are read with the splitting pattern of o200k_base.
"""

from __future__ import annotations

import base64
import math
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from rubrank._files import require_file
from rubrank.errors import InvalidInput

Counter: TypeAlias = Callable[[str], int]

_ASCII_PER_TOKEN = 4  # a character of most other scripts is a token by itself
# How o200k_base splits a text before it merges bytes to tokens; copied from tiktoken, because a file of ranks does not
# contain it. In this order: words with a preceding space and a contraction ("'s"), in two forms for upper and lower
# case; up to three digits; punctuation; line ends; other spaces.
_O200K_PATTERN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
    r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def estimate_tokens(text: str) -> int:
    """Return an estimate of the tokens in a text, the same for all models."""
    ascii_count = sum(character.isascii() for character in text)
    return math.ceil(ascii_count / _ASCII_PER_TOKEN) + len(text) - ascii_count


def load_token_counter(tokenizer: Path | None) -> tuple[Counter, str]:
    """Return a function that counts tokens, and its name. tokenizer: a file; None: the estimate.

    Raises InvalidInput if the file cannot be used, or the package that reads it is not installed.
    """
    if tokenizer is None:
        return estimate_tokens, "estimate"
    require_file(tokenizer)
    load = _load_tiktoken if tokenizer.suffix == ".tiktoken" else _load_tokenizer_json
    return load(tokenizer), tokenizer.name


def _load_tokenizer_json(path: Path) -> Counter:
    """Return a counter that uses a tokenizer.json of Hugging Face."""
    try:
        from tokenizers import Tokenizer
    except ImportError:
        raise _make_error(
            path, "left out if the package tokenizers is not installed", "pip install tokenizers"
        ) from None
    try:
        tokenizer = Tokenizer.from_file(str(path))
    except Exception as error:  # tokenizers raises plain Exception
        raise _make_error(path, f"a tokenizer.json ({error})", "") from None
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)


def _load_tiktoken(path: Path) -> Counter:
    """Return a counter that uses a file of tiktoken ranks."""
    try:
        from tiktoken import Encoding
    except ImportError:
        raise _make_error(
            path, "left out if the package tiktoken is not installed", "pip install tiktoken"
        ) from None
    try:
        pairs = (line.split() for line in path.read_bytes().splitlines() if line.strip())
        ranks = {base64.b64decode(token): int(rank) for token, rank in pairs}
        encoding = Encoding(
            path.name, pat_str=_O200K_PATTERN, mergeable_ranks=ranks, special_tokens={}
        )
    except Exception as error:  # the file may contain anything
        raise _make_error(path, f"lines of a token in base64 and its rank ({error})", "") from None
    return lambda text: len(encoding.encode_ordinary(text))


def _make_error(path: Path, allowed: str, remedy: str) -> InvalidInput:
    """Return the error about the option `tokenizer` of `rubrank judge show`."""
    return InvalidInput(
        owner="judge show", parameter="tokenizer", allowed=allowed, got=str(path), remedy=remedy
    )
