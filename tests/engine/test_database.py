"""Several processes make the same file at the same moment."""

from __future__ import annotations

import multiprocessing
from pathlib import Path
from typing import Any

import pytest

from rubrank.grading.cache import VerdictCache
from rubrank.judges.client.replies import Replies


def _open(path: Path, kind: Any, together: Any) -> None:
    together.wait()
    with kind(path):
        pass


@pytest.mark.slow
def test_made_by_several_at_once(tmp_path: Path) -> None:
    context = multiprocessing.get_context("spawn")
    for number in range(3):
        for kind in (Replies, VerdictCache):
            together = context.Barrier(5)
            path = tmp_path / f"{kind.__name__}{number}.sqlite"
            processes = [context.Process(target=_open, args=(path, kind, together)) for _ in range(5)]
            for process in processes:
                process.start()
            for process in processes:
                process.join()
            assert [process.exitcode for process in processes] == [0] * 5
