"""Why sampling ended, from what a trainer has: the gate `Truncated` need not guess then.

finish_reason([5, 9, 2], ends={2}, most=3)      "stop": the last token is an end token
finish_reason([5, 9, 7], ends={2}, most=3)      "length": as many tokens as are allowed, and no end token
finish_reason([5, 9, 7], ends={2}, most=None)   None: not known
named_reason("MAX_TOKENS")                      "length": in the words that most samplers use
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any


def finish_reason(ids: Any, ends: Collection[int], most: int | None) -> str | None:
    """From the tokens of a completion, without padding; `most` may be sampled."""
    number = 0 if ids is None else len(ids)
    if not number or not ends:
        return None
    if int(ids[-1]) in ends:
        return "stop"
    return "length" if most is not None and number >= most else None


_NAMES = {
    "length": ("length", "max_tokens", "max_length", "truncated", "model_length", "max_output_tokens"),
    "stop": ("stop", "eos", "eos_token", "end_turn", "stop_sequence", "stop_token", "stop_tokens", "completed"),
    "tool_calls": ("tool_calls", "function_call", "tool_use"),
}
_NAMED = {word: name for name, words in _NAMES.items() for word in words}


def named_reason(said: Any) -> str | None:
    """What a trainer says about the end of sampling, an enumeration's member or a word; None: it says nothing."""
    said = getattr(said, "value", said)
    if not isinstance(said, str) or not said.strip():
        return None
    word = said.strip().lower()
    return _NAMED.get(word, word)


def end_tokens(*sources: Any) -> set[int]:
    """The ids of end tokens, of tokenizers, models, configurations: whatever has an `eos_token_id`."""
    found = set[int]()
    for source in sources:
        for holder in (source, getattr(source, "generation_config", None)):
            ids = getattr(holder, "eos_token_id", None)
            some = (
                [ids] if isinstance(ids, int) else ids if isinstance(ids, Sequence) and not isinstance(ids, str) else ()
            )
            found.update(int(one) for one in some if isinstance(one, int))
    return found
