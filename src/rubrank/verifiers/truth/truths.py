"""Where the ground truth of a query stands: in the criterion, or in the data under one of the usual names.

>>> find_truths(None, {"reward_model": {"style": "rule", "ground_truth": "42"}}).values
('42',)

Looked for in the metadata itself, then in `reward_model` (verl), `reward_spec`, `extra_info`, `info`, `metadata`,
`label`; objects may be JSON texts. Worked solutions give their result: what is \\\\boxed, or follows ####.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from rubrank._plain import word_list
from rubrank.verifiers.shared.answers import read_answer

Truth: TypeAlias = str | int | float | tuple[str | int | float, ...]

NAMES = word_list("""
    ground_truth truth gold gold_answer golden_answer golden_answers final_answer reference_answer expected_answer
    correct_answer answer answers answerKey answer_key target targets label solution expected expected_output correct
    reference
""")
HOLDERS = ("reward_model", "reward_spec", "extra_info", "info", "metadata", "label", "ground_truth", "answer")


@dataclass(frozen=True, slots=True)
class Truths:
    """The truths, any of which is right; empty if none is known, and then `where` says what was looked for."""

    values: tuple[str, ...]
    where: str


def find_truths(given: Truth | None, metadata: Mapping[str, Any]) -> Truths:
    """The criterion's own truth, or the first that the data hold."""
    if given is not None and (values := _values(given)):
        return Truths(values, "the criterion")
    holders: list[tuple[str, Mapping[str, Any]]] = [("", metadata)]
    holders += [(f"{name}.", inner) for name in HOLDERS if (inner := _mapping(metadata.get(name))) is not None]
    for name in NAMES:
        for prefix, holder in holders:
            if values := _values(holder.get(name)):
                return Truths(values, f"{prefix}{name}")
    there = ", ".join(sorted(map(str, metadata))[:12]) or "nothing"
    return Truths((), f"looked for {', '.join(NAMES[:12])} … also in {', '.join(HOLDERS[:4])}; the data hold {there}")


def _mapping(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, str) and value.lstrip()[:1] == "{" and len(value) < 100_000:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, Mapping) else None


def _values(value: Any) -> tuple[str, ...]:
    """The value as texts; () for what is no truth: nothing, an object, a list of them."""
    if hasattr(value, "tolist"):  # numpy
        value = value.tolist()
    if isinstance(value, str):
        return _from_text(value)
    if isinstance(value, bool | int | float):
        return (str(value),)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return tuple(one for part in value for one in _values(part))
    return ()


def _from_text(text: str) -> tuple[str, ...]:
    stripped = text.strip()
    if _mapping(stripped) is not None:
        return ()
    if stripped[:1] == "[" and stripped[-1:] == "]" and '"' in stripped:
        try:
            return _values(json.loads(stripped))
        except (ValueError, RecursionError):
            pass
    if len(stripped) > 12 and ("####" in stripped or "\\boxed" in stripped or "</answer>" in stripped):
        read = read_answer(stripped, ("answer_tag", "boxed", "hash"))
        stripped = read.text or stripped
    return (stripped,) if stripped else ()
