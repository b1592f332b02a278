"""Reply → verdict, ranks, or missing with a reason."""

from rubrank.judges.parsing.verdicts import (
    add_probabilities,
    missing_reasons,
    read_absolute,
    read_batched,
    read_expected,
    read_listwise,
    read_pairwise,
)

__all__ = [
    "add_probabilities",
    "missing_reasons",
    "read_absolute",
    "read_batched",
    "read_expected",
    "read_listwise",
    "read_pairwise",
]
