"""What one should know about a file of outputs before believing its numbers.

    notes_on(rows, scores, repeated=2, known=541)
        ("2 rows are copies of others and were left out", "530 of 541 items of the data file have outputs")

Nothing here changes a number; a table says it beside the number.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rubrank.evaluation.benchmark import ItemScore, Row

_MODELS = ("model", "model_name", "model_id")
_SHOWN = 4


def notes_on(rows: Sequence[Row], scores: Sequence[ItemScore], repeated: int, known: int) -> tuple[str, ...]:
    """Copies, items without outputs, uneven repeats, several models in one file."""
    found = [_copies(repeated), _coverage(scores, known), _uneven(scores), _models(rows)]
    return tuple(note for note in found if note)


def _copies(repeated: int) -> str:
    return f"{repeated:,} rows are copies of others and were left out" if repeated else ""


def _coverage(scores: Sequence[ItemScore], known: int) -> str:
    items = len({score.id for score in scores})
    return f"{items:,} of {known:,} items of the data file have outputs" if known and items != known else ""


def _uneven(scores: Sequence[ItemScore]) -> str:
    """Items with more outputs than others weigh more in a mean over outputs."""
    counts = Counter(Counter(score.id for score in scores).values())
    if len(counts) < 2:
        return ""
    said = ", ".join(f"{outputs} of {items:,}" for outputs, items in sorted(counts.items())[:_SHOWN])
    return f"items have different numbers of outputs: {said} items"


def _models(rows: Sequence[Row]) -> str:
    for name in _MODELS:
        found = dict.fromkeys(str(row[name]) for row in rows if isinstance(row.get(name), str))
        if len(found) > 1:
            listed = ", ".join([*found][:_SHOWN]) + (" …" if len(found) > _SHOWN else "")
            return f"outputs of {len(found)} models are taken together: {listed}; choose one: `where={name}=NAME`"
    return ""
