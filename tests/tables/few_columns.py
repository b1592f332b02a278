"""Tables with few criteria, read as if they had too many for columns."""

from __future__ import annotations

import pytest

_MODULES = ("tables.table", "tables.layout", "tables.output", "fusion.files")


def allow_few_columns(monkeypatch: pytest.MonkeyPatch, most: int) -> None:
    """Treat more criteria than this as too many for columns."""
    for module in _MODULES:
        monkeypatch.setattr(f"rubrank.{module}.MOST_CRITERION_COLUMNS", most)
