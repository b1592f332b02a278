"""Damaged caches are set aside or made anew, and cost nothing but the work again."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from rubrank.grading.cache import VerdictCache

KEYS = [bytes([i]) * 16 for i in range(200)]


def damage(path, how):
    data = bytearray(path.read_bytes())
    if how == "header":
        data[:100] = b"\0" * 100
    elif how == "cut":
        del data[5000:]
    elif how == "pages":
        data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("how", ["header", "cut", "pages"])
def test_verdicts(tmp_path, caplog, how):
    path = tmp_path / "v.sqlite"
    with VerdictCache(path) as cache:
        cache.put(dict.fromkeys(KEYS, (1.0, "because " * 10)))
    damage(path, how)
    with VerdictCache(path) as cache:
        assert all(value == 1.0 for value, _ in cache.get(KEYS).values())
        cache.put({KEYS[0]: (0.5, "new")})
        assert cache.get(KEYS[:1])[KEYS[0]] == (0.5, "new")
    assert [record for record in caplog.records if "renamed to v.sqlite.damaged" in record.message]
    assert (tmp_path / "v.sqlite.damaged").exists()


CODE = """
import logging, sys
logging.basicConfig(format="%(message)s")
from rubrank._jit import jit

@jit
def double(x):
    return 2 * x

print(double(21))
"""


@pytest.mark.slow
@pytest.mark.parametrize("junk", [b"garbage", pickle.dumps("0.0")])
def test_compiled_code(tmp_path, junk):
    script = tmp_path / "kernel.py"
    script.write_text(CODE)

    def run():
        done = subprocess.run(
            [sys.executable, str(script)],
            capture_output=True,
            text=True,
            check=True,
            cwd=tmp_path,
            env={**__import__("os").environ, "NUMBA_CACHE_DIR": str(tmp_path / "numba")},
        )
        return done.stdout.strip(), done.stderr

    assert run()[0] == "42"
    indices = list((tmp_path / "numba").rglob("*.nbi"))
    assert indices
    for index in indices:
        index.write_bytes(junk)
    answer, errors = run()
    assert answer == "42"
    assert "Traceback" not in errors
    answer, errors = run()  # and it is mended
    assert (answer, errors) == ("42", "")
