"""Threads, forked and spawned processes, folders that cannot be written, and what importing loads.

Whatever could hang or abort runs in a process of its own, with a time limit, so that it fails instead of taking the
test run with it (and so that other libraries' threads in this process have no say).
"""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
from pathlib import Path

import numpy as np
import pytest

import rubrank
from rubrank import fuse
from rubrank.fusion.models import BradleyTerry

pytestmark = pytest.mark.slow

PACKAGE = Path(rubrank.__file__).parent
LIMIT = 300  # seconds; a run takes a few, a machine without a cache of compiled code some dozens

COMMON = """
import sys, threading, time
import numpy as np
import rubrank

rng = np.random.default_rng(0)
SMALL, LARGE = rng.integers(0, 5, (20, 8, 3)).astype(float), rng.normal(size=(3, 20, 2)).round(1)
LENGTHS = rng.lognormal(5.0, 0.5, (20, 8, 1))

def fused():
    return [rubrank.fuse(SMALL), rubrank.fuse(LARGE), rubrank.fuse(SMALL, attributes=LENGTHS)]

def same(a, b):
    return all(np.allclose(x, y, rtol=0, atol=1e-12) for x, y in zip(a, b, strict=True))
"""


def run(code, tmp_path, **options):
    """Run a program; its output, or what went wrong with it."""
    return run_aloud(code, tmp_path, **options).stdout


def run_aloud(code, tmp_path, **options):
    """The same, with what it said on the way."""
    script = tmp_path / "program.py"
    script.write_text(COMMON + code)
    environment = {**os.environ, "PYTHONPATH": str(PACKAGE.parent), **options.pop("env", {})}
    done = subprocess.run(
        [sys.executable, str(script)], capture_output=True, text=True, timeout=LIMIT, env=environment, **options
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done


# ------------------------------------------------------------------------------------------------------------- threads


def test_threads_give_the_single_thread_result():
    """Four threads over shapes that none of them has seen, starting together."""
    rng = np.random.default_rng(0)
    batches = [rng.integers(0, levels, (50, G, 2)).astype(float) for G in (5, 9, 14, 18) for levels in (2, 4, 9)]
    expected = [fuse(batch, prior=0.77) for batch in batches]
    model = BradleyTerry()  # a new instance has solved nothing yet
    start, wrong = threading.Barrier(4), []

    def work(offset):
        start.wait()
        for i in range(3 * len(batches)):
            at = (i + offset) % len(batches)
            if not np.allclose(fuse(batches[at], prior=0.77, model=model), expected[at], rtol=0, atol=1e-12):
                wrong.append(at)

    threads = [threading.Thread(target=work, args=(3 * t,)) for t in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
        assert not thread.is_alive()
    assert not wrong


def test_two_threads_at_first_use(tmp_path):
    """Nothing is loaded or compiled yet when both call for the first time."""
    code = """
results, start = [None, None], threading.Barrier(2)
def work(t):
    start.wait()
    results[t] = fused()
threads = [threading.Thread(target=work, args=(t,)) for t in range(2)]
[thread.start() for thread in threads]
[thread.join() for thread in threads]
print(same(results[0], results[1]) and same(results[0], fused()))
"""
    assert run(code, tmp_path).strip() == "True"


# ----------------------------------------------------------------------------------------------------------- processes


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_while_another_thread_fits(tmp_path):
    """Children of a parent that has fitted, forked while a thread of it is solving new shapes, under their lock."""
    code = """
import multiprocessing
context = multiprocessing.get_context("fork")
expected = fused()
stop = threading.Event()

def busy():
    prior = 1.0
    while not stop.is_set():
        prior += 0.001
        rubrank.fuse(LARGE, prior=prior)
        rubrank.fuse(LARGE + rng.normal(size=LARGE.shape), margins=0.3)

def child(connection):
    connection.send(same(fused(), expected))

thread = threading.Thread(target=busy)
thread.start()
answers = []
for _ in range(12):
    here, there = context.Pipe()
    process = context.Process(target=child, args=(there,))
    process.start()
    answers.append(here.poll(600) and here.recv())
    process.join(10) if answers[-1] else process.kill()
stop.set()
thread.join()
print(answers == [True] * 12, same(fused(), expected))
"""
    assert run(code, tmp_path).strip() == "True True"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_forked_while_another_thread_compiles(tmp_path):
    """A child must not inherit the compiler's lock from a thread that is not there any more; the next run is silent."""
    code = """
import multiprocessing
context = multiprocessing.get_context("fork")

def child(connection):
    connection.send(rubrank.fuse(SMALL))

thread = threading.Thread(target=rubrank.fuse, args=(SMALL,))
thread.start()
while not hasattr(sys.modules.get("rubrank.fusion.models.shapes"), "find_shape_table"):  # imported, about to compile
    time.sleep(0.01)
time.sleep(0.5)
here, there = context.Pipe()
process = context.Process(target=child, args=(there,))
process.start()
answer = here.recv() if here.poll(600) else None
process.kill()
thread.join()
print(answer is not None and same([answer], [rubrank.fuse(SMALL)]))
"""
    cold = {"NUMBA_CACHE_DIR": str(tmp_path / "cold")}
    first = run_aloud(code, tmp_path, env=cold)
    assert first.stdout.strip() == "True"
    assert "rubrank: compiling numeric kernels, once for this machine" in first.stderr
    assert run_aloud("rubrank.fuse(SMALL)", tmp_path, env=cold).stderr == ""


def test_spawned_workers(tmp_path):
    code = """
import multiprocessing

def worker(_):
    return fused()

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(2) as pool:
        results = pool.map(worker, range(4))
    print(all(same(result, fused()) for result in results))
"""
    assert run(code, tmp_path).strip() == "True"


def test_an_error_in_a_worker_reads_the_same_in_the_parent(tmp_path):
    code = """
from concurrent.futures import ProcessPoolExecutor
import multiprocessing

def worker(weight):
    return rubrank.fuse([[1.0], [2.0]], weights=[weight])

if __name__ == "__main__":
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as pool:
        try:
            pool.submit(worker, -1.0).result()
        except rubrank.InvalidInput as error:
            print(error.owner, error.parameter, error.got)
"""
    assert run(code, tmp_path).strip() == "fuse weights -1.0 for criterion 0"


# ---------------------------------------------------------------------------------- folders that cannot be written


def test_a_cache_folder_that_cannot_exist(tmp_path):
    blocked = tmp_path / "a file"
    blocked.write_text("")
    environment = {"NUMBA_CACHE_DIR": str(blocked / "cache"), "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    assert (
        run("print(rubrank.fuse([[1.0], [3.0], [2.0]]).tolist())", tmp_path, env=environment).strip()
        == "[0.0, 1.0, 0.5]"
    )


@pytest.fixture
def read_only_package():
    """A folder with a copy of the package, where nobody but root could write anything."""
    folder = Path(tempfile.mkdtemp())
    shutil.copytree(PACKAGE, folder / "rubrank", ignore=shutil.ignore_patterns("__pycache__"))
    for path in [folder, *folder.rglob("*")]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    yield folder
    for path in [folder, *folder.rglob("*")]:
        path.chmod(path.stat().st_mode | stat.S_IWUSR)
    shutil.rmtree(folder)


NOBODY = """
import os, sys
import numba, numpy                # Python's own folder may be closed to others: load it all before the rights go
numba.njit(lambda x: x.sum())(numpy.zeros(3))
numba.njit(lambda x: x + 1, cache=False)(1)
if os.getuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
package, *also = sys.argv[1:]
for folder in (package, package + "/rubrank/models", *also):
    try:
        open(folder + "/written", "w")
        sys.exit("SKIP: rights could not be dropped")
    except OSError:
        pass
sys.path.insert(0, package)
import rubrank
from rubrank.fusion.models import shapes
assert rubrank.__file__.startswith(package), rubrank.__file__
print(rubrank.fuse([[1.0], [3.0], [2.0]]).tolist(), type(shapes.look_up._cache).__name__)
"""


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="this system has no users to drop rights to")
def test_no_folder_can_be_written(read_only_package):
    """Neither where NUMBA_CACHE_DIR points, nor beside the package, nor at home: the three places that numba tries."""
    cache = str(read_only_package / "cache")
    environment = {"NUMBA_CACHE_DIR": cache, "HOME": "/nonexistent", "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-c", NOBODY, str(read_only_package)]
    done = subprocess.run(command, env=environment, cwd="/", capture_output=True, text=True, timeout=LIMIT)
    if done.stderr.startswith("SKIP"):
        pytest.skip(done.stderr)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == "[0.0, 1.0, 0.5] NullCache"


# ----------------------------------------------------------------------------------------------------------- importing


def test_importing_loads_nothing_heavy(tmp_path):
    code = """
heavy = ["numba", "torch", "polars", "rich", "typer", "scipy", "pandas", "pyromark"]
print([name for name in heavy if name in sys.modules])
rubrank.attenuate, rubrank.InvalidInput, rubrank.fuse
print([name for name in heavy if name in sys.modules])
rubrank.fuse([[1.0], [2.0]])
print([name for name in heavy if name in sys.modules and name != "scipy"])
"""
    assert run(code, tmp_path).splitlines() == ["[]", "[]", "['numba']"]
