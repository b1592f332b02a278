"""How rollouts are graded: one object, checked when it is made, for `grade` here, on Ray and over Ray datasets."""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias, get_args

from rubrank.errors import InvalidInput, UnknownName
from rubrank.grading.missing import check_share
from rubrank.judges.judge import Judges, load_judges
from rubrank.verifiers.verifier import Compat, Mode

Timeout: TypeAlias = float | Literal["auto"] | None


@dataclass(frozen=True)
class GradeOptions:
    """What `grade` takes beside rollouts and a rubric; what each one means stands there."""

    compat: Compat = "fixed"
    mode: Mode = "strict"
    workers: int | None = None
    cache: str | Path | None = None
    timeout: Timeout = "auto"
    judges: Judges | None = None
    most_missing: float | None = None

    def __post_init__(self) -> None:
        if self.most_missing is not None:
            check_share(self.most_missing)
        for name, value, allowed in (("compat", self.compat, Compat), ("mode", self.mode, Mode)):
            if value not in get_args(allowed):
                raise UnknownName.of("grade", name, value, get_args(allowed))
        if self.workers is not None and self.workers < 0:
            raise InvalidInput("grade", "workers", "0 or more", str(self.workers), "0 grades in this process.")
        self._check_timeout()

    def _check_timeout(self) -> None:
        limit = self.timeout
        if limit is None or limit == "auto":
            return
        if not isinstance(limit, int | float) or isinstance(limit, bool) or not 0.0 < limit < math.inf:
            raise InvalidInput("grade", "timeout", "seconds > 0, 'auto' or None", repr(limit), "None sets no limit.")
        if self.workers == 0:
            remedy = "Use 1 worker, or leave the timeout out."
            allowed = "left out with 0 workers, as what hangs in this process cannot be stopped"
            raise InvalidInput("grade", "timeout", allowed, f"{limit:g}", remedy)

    @property
    def needs_judges(self) -> bool:
        """Must a rubric that asks judges be refused, as there are none and too much would be missing?"""
        return self.judges is None and self.most_missing is not None and self.most_missing < 1.0


def loaded_judges(judges: Any) -> Judges | None:
    """Judges from any form in which they may be given."""
    return None if judges is None else load_judges(judges)
