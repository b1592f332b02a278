"""SQLite files shared by threads, processes and forked children: nothing is lost, damaged or written twice."""

from __future__ import annotations

import asyncio
import os
import sqlite3
import subprocess
import sys
import textwrap
import threading
from concurrent.futures import wait

import pytest

from rubrank import store as store_module
from rubrank.store import Store, lock_file

SCHEMA = "CREATE TABLE IF NOT EXISTS entries (name TEXT PRIMARY KEY)"
INSERT = "INSERT INTO entries VALUES (?)"


def insert(name):
    return lambda db: db.execute(INSERT, (name,)).lastrowid


def open_store(path, **options):
    return Store(path, SCHEMA, name="test", **options)


def names(store):
    return sorted(name for (name,) in store.read("SELECT name FROM entries"))


@pytest.fixture
def store(tmp_path):
    with open_store(tmp_path / "s.sqlite") as store:
        yield store


def test_what_is_written_can_be_read_at_once(store):
    store.write(insert("a")).result()
    assert store.read("SELECT name FROM entries WHERE name = ?", ("a",)) == [("a",)]


def test_a_request_returns_its_result(store):
    assert store.write(lambda db: 7).result() == 7
    assert asyncio.run(store.write_async(lambda db: 8)) == 8


def test_one_bad_request_does_not_take_others_with_it(tmp_path):
    with open_store(tmp_path / "s.sqlite", gather=0.05) as store:
        futures = [store.write(insert(name)) for name in ("a", "b", "a", "c")]
        wait(futures)
        assert [type(future.exception()) for future in futures] == [
            type(None),
            type(None),
            sqlite3.IntegrityError,
            type(None),
        ]
        assert names(store) == ["a", "b", "c"]


def test_flush_and_close_write_everything(tmp_path):
    store = open_store(tmp_path / "s.sqlite")
    store.write(insert("a"))
    store.flush()
    assert names(store) == ["a"]
    store.write(insert("b"))
    store.close()
    with pytest.raises(RuntimeError, match="is closed"):
        store.write(insert("c"))
    with open_store(tmp_path / "s.sqlite") as again:
        assert names(again) == ["a", "b"]


def test_a_cancelled_caller_has_its_request_committed(store):
    async def main():
        task = asyncio.create_task(store.write_async(insert("a")))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    store.flush()
    assert names(store) == ["a"]


def test_threads_write_to_one_store(store):
    def work(thread):
        for i in range(50):
            store.write(insert(f"{thread}-{i}")).result()

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(names(store)) == 200


def test_a_writer_waits_for_another_connection(tmp_path, store):
    other = sqlite3.connect(tmp_path / "s.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    other.execute(INSERT, ("other",))
    future = store.write(insert("ours"))
    with pytest.raises(TimeoutError):
        future.result(0.1)
    other.execute("COMMIT")
    other.close()
    future.result(30)
    assert names(store) == ["other", "ours"]


NEEDS_LOCK = "INSERT INTO entries VALUES ('read') RETURNING name"
"""A query that needs the lock of a writer, because plain queries are not blocked by one."""


def test_an_event_loop_goes_on_while_a_query_waits_for_a_lock(tmp_path, store):
    other = sqlite3.connect(tmp_path / "s.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def read_and_unlock():
        reading = asyncio.create_task(store.read_async(NEEDS_LOCK))
        for _ in range(5):  # the loop runs other tasks although the query is waiting
            await asyncio.sleep(0.01)
        assert not reading.done()
        other.execute("COMMIT")
        return await asyncio.wait_for(reading, 30)

    assert asyncio.run(read_and_unlock()) == [("read",)]
    other.close()


def test_an_event_loop_goes_on_while_a_locked_file_is_opened(tmp_path, store, monkeypatch):
    monkeypatch.setattr(store_module, "LOCK_TIMEOUT", 5.0)
    store.close()  # the next query opens the file
    other = sqlite3.connect(tmp_path / "s.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    async def read_and_unlock():
        reading = asyncio.create_task(store.read_async("SELECT name FROM entries"))
        for _ in range(5):
            await asyncio.sleep(0.01)
        assert not reading.done()
        other.execute("COMMIT")
        return await asyncio.wait_for(reading, 30)

    assert asyncio.run(read_and_unlock()) == []
    other.close()
    store.close()


def test_a_query_in_an_event_loop_gives_up_after_the_timeout(tmp_path, store, monkeypatch):
    monkeypatch.setattr(store_module, "LOCK_TIMEOUT", 0.05)
    other = sqlite3.connect(tmp_path / "s.sqlite", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(sqlite3.OperationalError, match="locked"):
        asyncio.run(asyncio.wait_for(store.read_async(NEEDS_LOCK), 30))
    other.execute("ROLLBACK")
    other.close()
    assert names(store) == []


def test_a_query_in_an_event_loop_raises_other_errors_at_once(store):
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        asyncio.run(asyncio.wait_for(store.read_async("SELECT * FROM absent"), 30))


# ------------------------------------------------------------------------------------------------------------- files


def test_damage_found_while_writing_starts_a_new_file(tmp_path, caplog):
    path = tmp_path / "s.sqlite"
    recovered = []
    with open_store(path) as store:
        wait([store.write(insert(f"{i:050}")) for i in range(500)])
    with open_store(path, recover=lambda damaged, db: recovered.append(damaged.name)) as store:
        store.read("SELECT 1")
        data = path.read_bytes()
        path.write_bytes(data[:4096] + b"\xa5" * (len(data) - 4096))
        store.write(insert("new")).result()
        assert "new" in names(store)
    assert recovered == ["s.sqlite.damaged"]
    assert "renamed to s.sqlite.damaged" in caplog.text


def test_a_file_that_was_replaced_in_the_meantime_is_not_renamed(tmp_path, monkeypatch):
    connect = sqlite3.connect
    errors = [sqlite3.DatabaseError("database disk image is malformed")]

    def connect_to_damaged_file_once(*arguments, **options):
        if errors:
            raise errors.pop()
        return connect(*arguments, **options)

    with open_store(tmp_path / "s.sqlite") as store:
        monkeypatch.setattr(sqlite3, "connect", connect_to_damaged_file_once)
        store.write(insert("a")).result()
        assert not errors
        assert names(store) == ["a"]
    assert not list(tmp_path.glob("*.damaged*"))


def test_a_store_for_reading_refuses_writes(tmp_path):
    path = tmp_path / "s.sqlite"
    open_store(path).close()
    with open_store(path, read_only=True) as store, pytest.raises(RuntimeError, match="for reading only"):
        store.write(insert("a"))
    with open_store(path) as store:
        assert names(store) == []


def test_a_file_of_another_version_is_refused(tmp_path):
    open_store(tmp_path / "s.sqlite", version=1).close()
    open_store(tmp_path / "s.sqlite", version=1).close()
    with pytest.raises(sqlite3.DatabaseError, match="another version"):
        open_store(tmp_path / "s.sqlite", version=2)


def test_a_text_file_is_left_alone(tmp_path):
    path = tmp_path / "scores.csv"
    path.write_text("group,score\n" * 100)
    with pytest.raises(sqlite3.DatabaseError):
        open_store(path)
    assert path.read_text() == "group,score\n" * 100


@pytest.mark.skipif(sys.platform == "win32", reason="there are no such locks")
def test_a_lock_keeps_others_out_until_it_is_closed(tmp_path):
    file = lock_file(tmp_path / "x.lock")
    with pytest.raises(BlockingIOError):
        lock_file(tmp_path / "x.lock")
    file.close()
    lock_file(tmp_path / "x.lock").close()


# ------------------------------------------------------------------------------------------------------------- forks

FORK = """
    import os, sys, threading, time
    from rubrank.store import Store
    store = Store(sys.argv[1], "CREATE TABLE IF NOT EXISTS entries (name TEXT)", name="test")
    begun = threading.Event()

    def insert_slowly(db):
        begun.set()
        for _ in range(10):
            db.execute("INSERT INTO entries VALUES ('parent')")
            time.sleep(0.05)

    writing = store.write(insert_slowly)
    begun.wait()
    pid = os.fork()
    if not pid:
        store.write(lambda db: db.execute("INSERT INTO entries VALUES ('child')")).result()
        with Store(sys.argv[1], "", name="test") as other:
            other.write(lambda db: db.execute("INSERT INTO entries VALUES ('child')")).result()
        store.close()
        os._exit(0)
    code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    writing.result()
    counts = dict(store.read("SELECT name, count(*) FROM entries GROUP BY name"))
    print(code, counts.get("parent", 0), counts.get("child", 0), store.read("PRAGMA integrity_check")[0][0])
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_a_fork_waits_for_a_transaction_and_its_child_may_write(tmp_path):
    command = [sys.executable, "-W", "ignore::DeprecationWarning", "-c", textwrap.dedent(FORK)]
    child = subprocess.run([*command, str(tmp_path / "s.sqlite")], capture_output=True, text=True, timeout=120)
    assert child.stdout.split() == ["0", "10", "2", "ok"], child.stderr
