"""What the judges were asked, and its usage, added up over the records.

    {"asked": 152, "missing": 3, "calls": 149, "hits": 12, "cost": 0.83, "failures": {"timeout after 120 s": 3}, …}

A record says about its own group what was asked and is missing (`metadata["judges"]`), and the first record of a batch
the usage of judging the batch (`metadata["judging"]`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

JUDGING = ("judges", "judging")
"""Keys of the metadata that are read here."""


class Judging:
    """Sums over the records that say something about judges."""

    def __init__(self) -> None:
        self.sums: Counter[str] = Counter()
        self.own: Counter[str] = Counter()
        self.failures: Counter[str] = Counter()

    def add(self, metadata: Mapping[str, Any]) -> None:
        """Count a record in."""
        for key, into in (("judges", self.own), ("judging", self.sums)):
            said = metadata.get(key)
            if isinstance(said, Mapping):
                into.update({str(name): value for name, value in said.items() if _is_number(value)})
                self._fail(said.get("failures"))

    def result(self) -> dict[str, Any] | None:
        """None where no record says anything."""
        if not self.sums and not self.own:
            return None
        return {**self.sums, **self.own, "failures": dict(self.failures.most_common())}

    def _fail(self, failures: Any) -> None:
        if isinstance(failures, Mapping):
            self.failures.update({str(why)[:120]: n for why, n in failures.items() if _is_number(n)})


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value
