"""Answers compared with a known truth; and `find_truths`, which finds the truth in the criterion or in the data.

>>> find_truths(None, {"reward_model": {"style": "rule", "ground_truth": "42"}}).values
('42',)

The data name the truth in many ways. The names in `NAMES` are looked up in the metadata itself, then in the objects
that it has under the names in `HOLDERS`, such as verl's `reward_model`; objects may be JSON texts. Only the result of a
worked solution is taken: what is in <answer>…</answer> or \\boxed{}, or follows ####.
"""

from __future__ import annotations

import contextlib
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
HOLDERS = (
    "reward_model",
    "reward_spec",
    "extra_info",
    "info",
    "metadata",
    "label",
    "ground_truth",
    "answer",
)


@dataclass(frozen=True, slots=True)
class Truths:
    """The truths, any of which is right; empty if none is known, and then `where` says what was looked for."""

    values: tuple[str, ...]
    where: str


def find_truths(truth: Truth | None, metadata: Mapping[str, Any]) -> Truths:
    """Return the criterion's own truth, or the first that the data hold."""
    values = _read_values(truth)
    if values:
        return Truths(values, "the criterion")
    holders: list[tuple[str, Mapping[str, Any]]] = [("", metadata)]
    for name in HOLDERS:
        holder = _read_mapping(metadata.get(name))
        if holder is not None:
            holders.append((f"{name}.", holder))
    for name in NAMES:
        for prefix, holder in holders:
            values = _read_values(holder.get(name))
            if values:
                return Truths(values, f"{prefix}{name}")
    keys = ", ".join(sorted(map(str, metadata))[:12]) or "nothing"
    return Truths(
        (),
        f"looked for {', '.join(NAMES[:12])} … also in {', '.join(HOLDERS[:4])}; the data hold {keys}",
    )


def _read_mapping(value: Any) -> Mapping[str, Any] | None:
    if isinstance(value, str) and value.lstrip()[:1] == "{" and len(value) < 100_000:
        try:
            value = json.loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, Mapping) else None


def _read_values(value: Any) -> tuple[str, ...]:
    """Return the value as texts; () if it is not a truth: nothing, an object, a list of objects."""
    if hasattr(value, "tolist"):  # numpy
        value = value.tolist()
    if isinstance(value, str):
        text = value.strip()
        if _read_mapping(text) is not None:
            return ()
        if text[:1] == "[" and text[-1:] == "]" and '"' in text:
            with contextlib.suppress(ValueError, RecursionError):
                return _read_values(json.loads(text))
        if "####" in text or "\\boxed" in text or "</answer>" in text:  # a worked solution
            text = read_answer(text, ("answer_tag", "boxed", "hash")).text or text
        return (text,) if text else ()
    if isinstance(value, bool | int | float):
        return (str(value),)
    if isinstance(value, Sequence) and not isinstance(value, bytes):
        return tuple(text for part in value for text in _read_values(part))
    return ()
