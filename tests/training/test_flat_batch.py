"""A flat batch: whatever the cut over processes, the rewards are those of one process."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from cases import examples
from hypothesis import given
from hypothesis import strategies as st
from judged import judges_at, server_module

from rubrank.errors import InvalidInput, RubrankError
from rubrank.records.files import read_records
from rubrank.rollouts.rollout import Rollout
from rubrank.training.engine import RewardEngine
from rubrank.training.flat_batch import FlatRewards, Processes, Sample, by_position, score_flat

RUBRIC = [
    "EmptyAnswer",
    {"name": "WordCount", "params": {"low": 3}},
    {"name": "Keyword", "params": {"keywords": ["moon"]}},
]
WORDS = ["moon", "sea", "far", "and", "the"]


class Meeting:
    """A gather for threads in place of processes; what is sent is pickled, as between processes."""

    def __init__(self, world: int) -> None:
        self._parts: list[bytes] = [b""] * world
        self._barrier = threading.Barrier(world, timeout=300)
        self.calls = 0

    def gather(self, rank: int) -> Callable[[list[Any]], list[Any]]:
        def gather(part: list[Any]) -> list[Any]:
            self._parts[rank] = pickle.dumps(part)
            self._barrier.wait()
            found = [one for data in self._parts for one in pickle.loads(data)]
            self._barrier.wait()
            self.calls += rank == 0
            return found

        return gather


def in_processes(world: int, work: Callable[[Processes], Any]) -> list[Any]:
    """What each of the processes gave, or the error that it raised."""
    meeting, found = Meeting(world), [None] * world

    def run(rank: int) -> None:
        try:
            found[rank] = work(Processes(meeting.gather(rank), rank, world))
        except Exception as error:
            found[rank] = error

    threads = [threading.Thread(target=run, args=(rank,)) for rank in range(world)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert not any(thread.is_alive() for thread in threads), "a process was left waiting"
    return found


def samples_of(groups: int, size: int, seed: int, keyed: bool = True) -> list[Sample]:
    rng = np.random.default_rng(seed)
    own = [{"name": "Own", "verifier": "WordCount", "params": {"high": 4}}]
    return [
        Sample(
            Rollout(prompt=f"p{g % 2}", response=" ".join(rng.choice(WORDS, rng.integers(0, 7)))),
            f"uid-{g}" if keyed else None,
            own if g % 3 == 1 else None,
        )
        for g in range(groups)
        for _ in range(size)
    ]


@st.composite
def cut_batches(draw):
    groups, size = draw(st.integers(1, 5)), draw(st.integers(1, 5))
    samples = samples_of(groups, size, draw(st.integers(0, 999)))
    world = draw(st.integers(1, 4))
    cuts = sorted(draw(st.lists(st.integers(0, len(samples)), min_size=world - 1, max_size=world - 1)))
    edges = [0, *cuts, len(samples)]
    return size, samples, [samples[a:b] for a, b in pairwise(edges)]


@examples(40)
@given(cut_batches(), st.sampled_from(["rlvr2+", "gdpo+", "amrp+", "rlvr2*focal"]), st.booleans())
def test_any_cut_gives_the_same_rewards(batch, rule, by_place):
    size, samples, parts = batch
    options: dict[str, Any] = {"step": 3, **({"group_of": by_position(size)} if by_place else {})}
    alone = RewardEngine(RUBRIC, rule)
    expected = score_flat(alone, samples, **options)
    engines = [RewardEngine(RUBRIC, rule) for _ in parts]
    found = in_processes(len(parts), lambda p: score_flat(engines[p.rank], parts[p.rank], processes=p, **options))
    np.testing.assert_array_equal([r for part in found for r in part.rewards], expected.rewards)
    for part, engine in zip(found, engines, strict=True):
        assert without_times(part) == without_times(expected)
        assert engine.state_dict() == alone.state_dict()
    for name, column in expected.columns.items():
        assert [text for part in found for text in part.columns[name]] == column


def without_times(result: FlatRewards) -> dict[str, float]:
    return {name: value for name, value in result.metrics.items() if name != "rubrank/seconds"}


def test_keys_need_not_stand_together():
    samples = samples_of(3, 4, seed=1)
    mixed = [samples[i] for i in np.random.default_rng(0).permutation(len(samples))]
    by_sample = dict(zip(map(id, samples), score_flat(RewardEngine(RUBRIC), samples, step=0).rewards, strict=True))
    found = score_flat(RewardEngine(RUBRIC), mixed, step=0).rewards
    assert found == pytest.approx([by_sample[id(sample)] for sample in mixed])


def test_position_not_prompt_makes_a_group():
    """Two queries of the same text are two groups."""
    said = ["the moon is far", "moon", "sea", "x"]
    samples = [Sample(Rollout(prompt="same", response=text)) for text in said]
    flat = score_flat(RewardEngine(RUBRIC), samples, step=0, group_of=by_position(2))
    assert flat.rewards == [1.0, 0.25, 0.625, 0.625]


def test_each_group_is_graded_once_and_recorded_once(tmp_path):
    parts = [samples_of(4, 3, seed=2)[a:b] for a, b in ((0, 5), (5, 12))]
    engines = [RewardEngine(RUBRIC, records=tmp_path / "records.jsonl") for _ in parts]
    graded: list[str] = []
    for engine in engines:
        grade = engine.grade
        engine.grade = lambda groups, grade=grade, **_: (graded.extend(g.id for g in groups), grade(groups))[1]  # type: ignore
    in_processes(2, lambda p: score_flat(engines[p.rank], parts[p.rank], step=7, processes=p))
    assert sorted(graded) == [f"7/uid-{g}" for g in range(4)]
    assert [record.group for record in read_records(tmp_path / "records.jsonl")] == [f"7/uid-{g}" for g in range(4)]


def test_what_judges_took_is_added_up_over_processes():
    module = server_module()
    with module.Server([module.Answer('{"reasoning": "…", "verdict": 1}')]) as server:
        rubric = [{"name": "Kind", "question": "Is it kind?"}, *RUBRIC]
        engines = [RewardEngine(rubric, judges=judges_at(server.url)) for _ in range(2)]
        samples = [Sample(Rollout(prompt="p", response=f"the moon {n}"), key=n // 3) for n in range(9)]
        parts = [samples[:4], samples[4:]]
        found = in_processes(2, lambda p: score_flat(engines[p.rank], parts[p.rank], step=0, processes=p))
        assert len(server.completions) == 9  # each rollout once
    for part in found:
        assert part.metrics["rubrank/judge/calls"] == 9
        assert part.metrics["rubrank/judge/cost"] == pytest.approx(9 * 140 / 1e6)
        assert part.metrics["rubrank/Kind/mean"] == 1.0


def test_one_process_gathers_nothing():
    def never(part: list[Any]) -> list[Any]:
        raise AssertionError

    assert len(score_flat(RewardEngine(RUBRIC), samples_of(2, 2, 0), step=0, processes=Processes(never)).rewards) == 4


def test_a_process_without_rows_takes_part():
    parts: list[list[Sample]] = [samples_of(1, 3, seed=3), []]
    found = in_processes(2, lambda p: score_flat(RewardEngine(RUBRIC), parts[p.rank], step=0, processes=p))
    assert [len(part.rewards) for part in found] == [3, 0]
    assert score_flat(RewardEngine(RUBRIC), [], step=0).rewards == []


class UnsendableError(Exception):
    def __init__(self) -> None:
        super().__init__("odd")
        self.lock = threading.Lock()


@pytest.mark.parametrize("error", [InvalidInput("row 3", "x", "y", "z", "w."), UnsendableError()])
def test_when_one_process_cannot_make_its_samples_all_raise(error):
    def make(rank: int) -> Callable[[], list[Sample]]:
        def samples() -> list[Sample]:
            if rank == 1:
                raise error
            return samples_of(1, 2, seed=0)

        return samples

    first, second = in_processes(2, lambda p: score_flat(RewardEngine(RUBRIC), make(p.rank), step=0, processes=p))
    assert second is error
    assert isinstance(first, RubrankError)
    assert f"process 1 of 2 failed: {'InvalidInput' if isinstance(error, InvalidInput) else 'RubrankError'}" in str(
        first
    )


def test_when_one_process_cannot_grade_all_raise(monkeypatch):
    engines = [RewardEngine(RUBRIC), RewardEngine(RUBRIC)]

    def broken(groups, **_):
        raise OSError("disk full")

    engines[0].grade = broken  # type: ignore[method-assign]
    parts = [samples_of(2, 3, seed=4)[:2], samples_of(2, 3, seed=4)[2:]]
    first, second = in_processes(2, lambda p: score_flat(engines[p.rank], parts[p.rank], step=0, processes=p))
    assert isinstance(first, OSError)
    assert "process 0 of 2 failed: OSError: disk full" in str(second)


def test_what_cannot_be_grouped():
    with pytest.raises(InvalidInput, match="a multiple of the group size, 4; got 6"):
        score_flat(RewardEngine(RUBRIC), samples_of(2, 3, 0), step=0, group_of=by_position(4))
    with pytest.raises(InvalidInput, match="key must be given for every sample"):
        score_flat(RewardEngine(RUBRIC), samples_of(2, 3, 0, keyed=False), step=0)
    pairs = samples_of(2, 2, 0)
    with pytest.raises(InvalidInput, match="4 in a row of the same prompt; got sample 2 with another"):
        score_flat(RewardEngine(RUBRIC), pairs, step=0, group_of=by_position(4))
    with pytest.raises(InvalidInput, match="2 in a row of the same prompt; got sample 1 with another"):
        score_flat(RewardEngine(RUBRIC), [*pairs[::2], *pairs[1::2]], step=0, group_of=by_position(2))
    for size in (0, -2, True):
        with pytest.raises(InvalidInput, match="size must be a whole number ≥ 1"):
            by_position(size)


@pytest.mark.parametrize("world", [2, 3])
def test_records_say_of_each_group_what_its_own_judges_were_asked(tmp_path, world):
    module = server_module()
    with module.Server([module.Answer('{"reasoning": "…", "verdict": 1}')]) as server:
        rubric = [{"name": "Kind", "question": "Is it kind?"}, *RUBRIC]
        engines = [
            RewardEngine(rubric, judges=judges_at(server.url), records=tmp_path / f"{rank}.jsonl")
            for rank in range(world)
        ]
        sizes = [1, 2, 3, 4, 5, 2]
        samples = [
            Sample(Rollout(prompt=f"p{g}", response=f"the moon {g} {i}"), key=g)
            for g, size in enumerate(sizes)
            for i in range(size)
        ]
        parts = [samples if rank == 0 else [] for rank in range(world)]
        in_processes(world, lambda p: score_flat(engines[p.rank], parts[p.rank], step=0, processes=p))
    found = [record.metadata["judges"]["asked"] for record in read_records(tmp_path / "0.jsonl")]
    assert found == sizes


def test_fewer_groups_than_processes_that_have_judges():
    module = server_module()
    with module.Server([module.Answer('{"reasoning": "…", "verdict": 1}')]) as server:
        engines = [RewardEngine(["Is it kind?", *RUBRIC], judges=judges_at(server.url)) for _ in range(3)]
        parts = [[Sample(Rollout(prompt="p", response=f"the moon {i}"), key=0) for i in range(2)], [], []]
        found = in_processes(3, lambda p: score_flat(engines[p.rank], parts[p.rank], step=0, processes=p))
    assert found[0].metrics["rubrank/judge/calls"] == 2
