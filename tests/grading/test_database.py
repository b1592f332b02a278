"""Several processes make the same file at the same moment."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from rubrank.grading.cache import VerdictCache
from rubrank.judges.client.cache import ReplyCache


def _open(folder: Path, together: Any) -> None:
    for number in range(3):
        for kind in (ReplyCache, VerdictCache):
            together.wait(100)
            with kind(folder / f"{kind.__name__}{number}.sqlite"):
                pass


@pytest.mark.slow
def test_made_by_several_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    together = context.Barrier(5)
    processes = [context.Process(target=_open, args=(tmp_path, together)) for _ in range(5)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
    assert [process.exitcode for process in processes] == [0] * 5
    assert len(list(tmp_path.glob("*.sqlite"))) == 6
