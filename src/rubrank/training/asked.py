"""What queries are asked: a shared rubric, a query's own on top of it, and whether all of it can be decided."""

from __future__ import annotations

from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any

from rubrank.errors import InvalidInput
from rubrank.rubrics.public import to_rubric
from rubrank.rubrics.rubric import Rubric
from rubrank.verifiers.verifier import VERIFIERS

if TYPE_CHECKING:
    from rubrank.judges.judge import Judges


@dataclass(frozen=True, eq=False)
class Asked:
    """The rubric of all queries, and who decides what no verifier can."""

    rubric: Rubric | None
    judges: Judges | None

    def check(self, own: Any, where: str) -> None:
        """Raise where a query cannot be decided by its own rubric and the shared one, or has nothing to rank by."""
        whole = self.whole(own, where)
        self.check_decided(whole, where)
        if all(criterion.value_layer != "quality" for criterion in whole.criteria):
            raise InvalidInput(
                where, "criteria", 'some in the layer "quality"', "gates only", "Add something to rank by."
            )

    def whole(self, own: Any, where: str) -> Rubric:
        """All that a query is asked: the shared rubric, and its own, which replaces what has the same name."""
        if own is not None:
            found = _rubric_of(own, where)
            return found if self.rubric is None else self.rubric.extended(found)
        if self.rubric is None:
            raise InvalidInput(where, "rubric", "given", "none", "Give a rubric for all, or fill the query's column.")
        return self.rubric

    def check_decided(self, rubric: Rubric, where: str) -> None:
        """Raise for a criterion that no verifier and no judge decides."""
        for criterion in rubric.criteria:
            criterion.check_installed()
            if criterion.judged and (self.judges is None or self.judges.judge_of(criterion.name) is None):
                near = get_close_matches(criterion.name, VERIFIERS, n=1)
                raise InvalidInput(
                    where,
                    f"criterion {criterion.name!r}",
                    "decided by a verifier or a judge",
                    "a judged one, and no judge for it",
                    f"Did you mean {near[0]!r}?" if near else "Give judges, or name a verifier.",
                )


def _rubric_of(own: Any, where: str) -> Rubric:
    """A query's own; what is wrong with a file that it names is said of the query."""
    try:
        return to_rubric(own, where)
    except InvalidInput as error:
        if error.owner.startswith(where):
            raise
        raise type(error)(f"{where}: {error.owner}", error.parameter, error.allowed, error.got, error.remedy) from None
