"""SQLite files that several processes may open, even make, at the same moment.

connect("verdicts.sqlite")      a connection in WAL mode; statements are not gathered into transactions by themselves
"""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

PATIENCE = 60.0
"""Seconds to wait for another process that writes."""
_PAUSE = 0.01


def connect(path: str | Path) -> sqlite3.Connection:
    """Open a file, or make it."""
    db = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    _into_wal(db)
    db.execute("PRAGMA synchronous = NORMAL")
    return db


def _into_wal(db: sqlite3.Connection) -> None:
    """SQLite does not wait by itself where the mode of the file is changed by two at once."""
    end = time.monotonic() + PATIENCE
    while True:
        try:
            db.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > end:
                db.close()
                raise
            time.sleep(_PAUSE)
