"""Reply → verdict, ranks, or missing with a reason."""

from rubrank.judges.parsing.statements import NoVerdict
from rubrank.judges.parsing.verdicts import (
    add_probabilities,
    parse_ranks,
    read_absolute,
    read_batched,
    read_expected,
    read_listwise,
    read_pairwise,
)

__all__ = [
    "NoVerdict",
    "add_probabilities",
    "parse_ranks",
    "read_absolute",
    "read_batched",
    "read_expected",
    "read_listwise",
    "read_pairwise",
]
