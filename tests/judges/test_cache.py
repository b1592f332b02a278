"""Replies on disk: keys, what is answered from, several threads, processes and event loops."""

import asyncio
import multiprocessing
import socket
import sqlite3
import stat
import subprocess
import sys
import threading
import time
from dataclasses import replace

import pytest
from calling import key_for
from cases import folded

from rubrank.errors import InvalidInput
from rubrank.judges.client.cache import CallKeys, ReplyCache
from rubrank.judges.judge import Call, Endpoint, Judge, Reply, Sampling, Usage

CALL = Call(({"role": "user", "content": "Is it good?"},), schema={"type": "object"}, purpose="Quality (absolute)")
REPLY = Reply("yes", usage=Usage(10, 2, 1, 0.5), latency=1.5, model="m", endpoint="http://a/v1", finish_reason="stop")


def judge(*models, url="http://localhost/v1", sampling=None, **endpoint):
    endpoints = tuple(Endpoint(base_url=f"{url}{i}", model=model, **endpoint) for i, model in enumerate(models))
    return Judge(endpoints=endpoints, sampling=sampling or Sampling())


@pytest.fixture
def store(tmp_path):
    with ReplyCache(tmp_path / "replies.sqlite") as store:
        yield store


# --------------------------------------------------------------------------------------------------------------- keys

BASE = key_for(CALL, judge("m"))


@folded(
    "other",
    [
        replace(CALL, messages=({"role": "user", "content": "Is it good ?"},)),
        replace(CALL, messages=({"role": "system", "content": "Is it good?"},)),
        replace(CALL, schema=None),
        replace(CALL, prompt_version="2"),
        replace(CALL, sample=1),
        replace(CALL, logprobs=True),
    ],
)
def test_what_a_call_says_changes_its_key(other):
    assert key_for(other, judge("m")) != BASE


@folded(
    "other",
    [
        judge("n"),
        judge("m", "n"),
        judge("m", extra_body={"top_k": 1}),
        judge("m", sampling=Sampling(temperature=0.5)),
        judge("m", sampling=Sampling(max_tokens=5)),
        judge("m", sampling=Sampling(seed=0)),
        judge("m", structured="text"),
        judge("m", structured="json_schema"),
    ],
)
def test_what_the_judge_is_changes_the_key(other):
    assert key_for(CALL, other) != BASE


def test_how_a_schema_is_kept_does_not_matter_where_there_is_none():
    free = replace(CALL, schema=None)
    assert key_for(free, judge("m", structured="text")) == key_for(free, judge("m"))
    assert key_for(CALL, judge("m", structured="text")) != key_for(CALL, judge("m", structured="json_object"))


def test_where_it_is_asked_and_what_for_does_not():
    assert key_for(replace(CALL, purpose="other"), judge("m")) == BASE
    assert key_for(CALL, judge("m", url="https://elsewhere/v1", weight=3.0, concurrency=2)) == BASE
    assert key_for(CALL, judge("m", "m")) == BASE
    assert key_for(CALL, judge("m", "n")) == key_for(CALL, judge("n", "m"))


def test_a_reply_answers_for_the_server_that_sent_it_and_for_its_replicas(store):
    def answer_for(*urls, **endpoint):
        endpoints = tuple(Endpoint(base_url=url, model="m", **endpoint) for url in urls)
        keys = CallKeys(Judge(endpoints=endpoints))
        return store.get(keys.key(CALL), keys.servers)

    store.put(BASE, CALL, REPLY)  # from http://a/v1
    assert answer_for("http://a/v1/").text == "yes"
    assert answer_for("http://me:key@a/v1?api-key=x").text == "yes"
    assert answer_for("http://b/v1", "http://a/v1").text == "yes"
    for url in ("http://b/v1", "http://a:8001/v1", "https://a/v1", "http://a/v2", "http://[ab]/v1", "http://*/v1"):
        assert answer_for(url) is None, url
    assert answer_for("http://b/v1", cached_from=["http://a/v1"]).text == "yes"
    assert answer_for("http://b/v1", cached_from=["http://*/v1"]).text == "yes"
    assert answer_for("http://b/v1", cached_from=["http://node*/v1"]) is None


def test_the_order_of_fields_does_not():
    one = replace(CALL, schema={"a": 1, "b": 2}, messages=({"role": "user", "content": "x"},))
    two = replace(CALL, schema={"b": 2, "a": 1}, messages=({"content": "x", "role": "user"},))
    assert key_for(one, judge("m")) == key_for(two, judge("m"))


def test_a_key_for_any_text():
    assert key_for(replace(CALL, messages=({"role": "user", "content": "\ud800"},)), judge("m")) != BASE


# ------------------------------------------------------------------------------------------------------- put and get


def test_what_was_kept_comes_back_and_costs_nothing(store):
    store.put(BASE, CALL, REPLY)
    found = store.get(BASE)
    assert found == replace(REPLY, usage=Usage(), latency=0.0, attempts=0, cached=True, id=found.id)
    assert store.get(b"\0" * 16) is None
    assert len(store) == 1


def test_failures_are_kept_and_never_answered_from(store):
    store.put(BASE, CALL, replace(REPLY, failure="timeout after 1 s"))
    assert store.get(BASE) is None
    ((call, reply, requests, final),) = store.ledger()
    assert (call.purpose, reply.failure, reply.usage, requests, final) == (
        CALL.purpose,
        "timeout after 1 s",
        REPLY.usage,
        1,
        True,
    )
    with sqlite3.connect(store.path) as db:
        assert db.execute("SELECT text FROM ledger").fetchall() == [(b"yes",)]
    db.close()


def test_a_refusal_is_answered_from(store):
    """It would come again, at the same cost."""
    store.put(BASE, CALL, replace(REPLY, failure="refused: no"))
    found = store.get(BASE)
    assert (found.failure, found.cached) == ("refused: no", True)
    store.put(BASE, CALL, REPLY)
    assert store.get(BASE).failure is None


def test_an_unreadable_reply_is_asked_for_once_more(tmp_path):
    for text, again in (("hm", True), ("hm hm", False)):
        with ReplyCache(tmp_path / "r.sqlite") as store:
            store.put(BASE, CALL, replace(REPLY, text=text))
            found = store.get(BASE)
            assert found.text == text
            store.mark_unreadable(BASE, found)
            store.flush()
            assert (store.get(BASE) is None) == again
    with ReplyCache(tmp_path / "r.sqlite") as store:
        assert store.get(BASE).text == "hm hm"
        store.put(BASE, CALL, REPLY)
        assert store.get(BASE).text == "yes"


def test_a_store_is_for_its_owner_alone(tmp_path):
    with ReplyCache(tmp_path / "r.sqlite") as store:
        store.put(BASE, CALL, REPLY)
        modes = {path.name: path.stat().st_mode & 0o777 for path in tmp_path.iterdir()}
    assert set(modes.values()) == {0o600}
    assert "r.sqlite" in modes


# ------------------------------------------------------------------------------------------------------------- claims


def test_a_call_is_claimed_by_one(tmp_path):
    async def main():
        with ReplyCache(tmp_path / "r.sqlite") as one, ReplyCache(tmp_path / "r.sqlite") as other:
            assert await one.claim(BASE)
            assert await one.claim(BASE)
            assert not await other.claim(BASE)
            await one.put_async(BASE, CALL, REPLY)
            assert await other.claim(BASE)
            other.release(BASE)
            other.flush()
            assert await one.claim(BASE)
        with ReplyCache(tmp_path / "r.sqlite") as third:  # closing lets go
            assert await third.claim(BASE)

    asyncio.run(main())


def test_a_claim_ends_with_its_process_or_its_lease(tmp_path, monkeypatch):
    def claimed_by(owner, until):
        db = sqlite3.connect(tmp_path / "r.sqlite", isolation_level=None)
        db.execute("INSERT OR REPLACE INTO claims VALUES (?, ?, ?)", (BASE, owner, until))
        db.close()

    async def main():
        with ReplyCache(tmp_path / "r.sqlite") as store:
            claimed_by("elsewhere 1 x", time.time() + 60.0)
            assert not await store.claim(BASE)
            claimed_by("elsewhere 1 x", time.time() - 1.0)
            assert await store.claim(BASE)
            gone = subprocess.Popen([sys.executable, "-c", ""])
            gone.wait()
            claimed_by(f"{socket.gethostname()} {gone.pid} x", time.time() + 60.0)
            assert not await store.claim(BASE)
            assert await store.claim(BASE)

    asyncio.run(main())


# ------------------------------------------------------------------------------------------------------------- damage


def broken(path, how):
    data = bytearray(path.read_bytes())
    if how == "header":
        data[:100] = b"\0" * 100
    elif how == "noise":
        data[:] = bytes((i * 7919) % 251 for i in range(len(data)))
    elif how == "cut":
        del data[4096 + 100 :]
    elif how == "pages":
        data[4096:] = b"\xa5" * (len(data) - 4096)
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("how", ["header", "noise", "cut", "pages"])
def test_a_damaged_store_is_set_aside_and_begun_anew(tmp_path, caplog, how):
    path = tmp_path / "r.sqlite"
    with ReplyCache(path) as store:
        for i in range(200):
            store.put(bytes([i]) * 16, CALL, REPLY)
    broken(path, how)
    with ReplyCache(path) as store:
        store.get(BASE)
        store.put(BASE, CALL, replace(REPLY, text="new"))
        assert store.get(BASE).text == "new"
    assert [record.message for record in caplog.records if "renamed to r.sqlite.damaged" in record.message]
    assert (tmp_path / "r.sqlite.damaged").exists()
    with ReplyCache(path) as store:
        assert store.get(BASE).text == "new"


def test_what_can_be_read_of_a_damaged_store_is_taken_over(tmp_path):
    path = tmp_path / "r.sqlite"
    with ReplyCache(path) as store:
        for i in range(100):
            store.put(bytes([i]) * 16, CALL, replace(REPLY, text="x" * 2000))
    data = bytearray(path.read_bytes())
    data[-4096 * 10 :] = b"\xa5" * (4096 * 10)
    path.write_bytes(bytes(data))
    with ReplyCache(path) as store:
        for i in range(100):
            store.get(bytes([i]) * 16)
        store.put(BASE, CALL, REPLY)
        assert len(store) > 30


@pytest.mark.parametrize("text", ["group,score\n1,0.5\n", '{"prompt": "x"}\n', "结论：1\n"])
def test_somebody_elses_file_is_left_alone(tmp_path, text):
    path = tmp_path / "rollouts.csv"
    path.write_text(text)
    with pytest.raises(InvalidInput, match="cache must be"):
        ReplyCache(path)
    assert path.read_text() == text


def test_the_first_reply_stays(store):
    store.put(BASE, CALL, REPLY)
    store.put(BASE, CALL, replace(REPLY, text="no"))
    assert store.get(BASE).text == "yes"


@pytest.mark.parametrize("text", ["", "\ud800 broken", "nul \0", "判决 🙂"])
def test_any_text(store, text):
    store.put(BASE, CALL, replace(REPLY, text=text))
    assert store.get(BASE).text == text


def test_any_name(store):
    odd = replace(REPLY, model="\ud800", endpoint="\udfff", finish_reason="\ud800")
    store.put(BASE, replace(CALL, purpose="\ud800"), odd)
    store.count_hit(replace(CALL, purpose="\ud800"), odd)
    assert store.get(BASE).model == "?"
    assert store.hits() == [("?", "?", "?", 1)]


def test_a_row_that_cannot_be_written_does_not_stop_the_writer(store):
    with pytest.raises(InvalidInput, match="too large"):
        store.put(BASE, CALL, replace(REPLY, usage=Usage(10**30)))
    store.put(BASE, CALL, REPLY)
    assert store.get(BASE).text == "yes"


def test_log_probabilities(store):
    logprobs = ({"token": "1", "logprob": -0.5, "top": {"1": -0.5, "0": float("-inf")}},)
    store.put(BASE, CALL, replace(REPLY, logprobs=logprobs))
    assert store.get(BASE).logprobs == logprobs


def test_hits_are_counted(store):
    for _ in range(3):
        store.count_hit(CALL, REPLY)
    assert store.hits() == [(CALL.purpose, "m", "http://a/v1", 3)]
    store.count_hit(CALL, REPLY)
    assert store.hits()[0][-1] == 4


def test_it_is_there_the_next_time(tmp_path):
    with ReplyCache(tmp_path / "r.sqlite") as store:
        store.put(BASE, CALL, REPLY)
        store.count_hit(CALL, REPLY)
    assert not list(tmp_path.glob("*-wal"))
    with ReplyCache(tmp_path / "r.sqlite") as store:
        assert store.get(BASE).text == "yes"
        assert len(store.hits()) == 1


# ------------------------------------------------------------------------------------------------ many at the same time


def key_of(i):
    return i.to_bytes(16, "big")


def test_what_is_kept_in_an_event_loop_is_on_disk(tmp_path):
    path = tmp_path / "r.sqlite"

    async def keep(store, other, i):
        await store.put_async(key_of(i), CALL, replace(REPLY, text=str(i)))
        assert other.execute("SELECT text FROM ledger WHERE key = ?", (key_of(i),)).fetchone() == (str(i).encode(),)

    async def main(store, other):
        await asyncio.gather(*(keep(store, other, i) for i in range(700)))

    other = sqlite3.connect(path, isolation_level=None)
    with ReplyCache(path) as store:
        asyncio.run(main(store, other))
    other.close()


def test_who_is_cancelled_while_it_is_written_has_it_written(store):
    async def main():
        task = asyncio.create_task(store.put_async(BASE, CALL, REPLY))
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    asyncio.run(main())
    store.flush()
    assert store.get(BASE).text == "yes"


def test_several_threads(store):
    def work(thread):
        for i in range(50):
            store.put(key_of(100 * thread + i), CALL, REPLY)
            assert store.get(key_of(100 * thread + i)) is not None

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(store) == 200


def _work(path, number):
    with ReplyCache(path) as store:
        for i in range(100):
            store.put(key_of(1000 * number + i), CALL, REPLY)
            store.count_hit(CALL, REPLY)


@pytest.mark.slow
def test_several_processes(tmp_path):
    context = multiprocessing.get_context("spawn")
    processes = [context.Process(target=_work, args=(tmp_path / "r.sqlite", i)) for i in range(3)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    with ReplyCache(tmp_path / "r.sqlite") as store:
        assert len(store) == 300
        assert store.hits()[0][-1] == 300


# --------------------------------------------------------------------------------------------------------------- files


def test_read_only_reads_where_nothing_can_be_written(tmp_path):
    path = tmp_path / "folder" / "r.sqlite"
    with ReplyCache(path) as store:
        store.put(BASE, CALL, REPLY)
    path.chmod(stat.S_IRUSR)
    path.parent.chmod(stat.S_IRUSR | stat.S_IXUSR)
    try:
        with ReplyCache(path, read_only=True) as store:
            assert store.get(BASE).text == "yes"
            store.count_hit(CALL, REPLY)
            with pytest.raises(InvalidInput, match="opened to read"):
                store.put(BASE, CALL, REPLY)
        assert [file.name for file in path.parent.iterdir()] == ["r.sqlite"]
    finally:
        path.parent.chmod(stat.S_IRWXU)


def test_files_that_are_something_else(tmp_path):
    text = tmp_path / "notes.txt"
    text.write_text("not a database, and long enough to be looked at" * 30)
    other = tmp_path / "other.sqlite"
    with sqlite3.connect(other) as db:
        db.execute("CREATE TABLE verdicts (x)")
    db.close()
    for path in (text, other, tmp_path):
        with pytest.raises(InvalidInput, match="cache must be"):
            ReplyCache(path)
    with pytest.raises(InvalidInput, match="cache must be"):
        ReplyCache(tmp_path / "absent.sqlite", read_only=True)
    assert not (tmp_path / "absent.sqlite").exists()


def test_a_write_that_fails_is_reported(tmp_path):
    with ReplyCache(tmp_path / "r.sqlite") as store:
        store.put(BASE, CALL, REPLY)
        with sqlite3.connect(tmp_path / "r.sqlite") as db:
            db.execute("DROP TABLE ledger")
        db.close()
        with pytest.raises(InvalidInput, match="no such table"):
            store.put(BASE, CALL, REPLY)
        with pytest.raises(InvalidInput, match="no such table"):
            asyncio.run(store.put_async(BASE, CALL, REPLY))
