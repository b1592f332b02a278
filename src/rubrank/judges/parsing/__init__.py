"""Reply → verdict, ranks, or missing with a reason."""

from rubrank.judges.parsing.verdicts import (
    missing_reasons,
    read_absolute,
    read_batched,
    read_expected,
    read_listwise,
    read_pairwise,
)

__all__ = ["missing_reasons", "read_absolute", "read_batched", "read_expected", "read_listwise", "read_pairwise"]
