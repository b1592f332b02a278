"""Groups are packed whole, within the budget, and nothing is lost but the ends of long texts."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from rubrank.records import facts
from rubrank.records.facts import MISSING, NO_SIGNAL, RULES_DISAGREE
from rubrank.records.record import GroupRecord
from rubrank.records.report.compact import COLUMNS
from rubrank.records.report.grouped import Grouped
from rubrank.records.report.packing import CHUNK, Packed, Packer, _limit_for, pack, unpack
from rubrank.records.report.page import asset

Make = Callable[..., GroupRecord]


def packed_of(records: list[GroupRecord], limit: int = 4000, budget: float = 1e9) -> Packed:
    packer = Packer(limit, budget)
    for record in records:
        packer.add(Grouped.of(record))
    return packer.finish()


def groups_of(packed: Packed) -> list[dict]:
    return [group for chunk in packed.chunks for group in unpack(chunk)]


def column(packed: Packed, name: str) -> list:
    return packed.index["columns"][COLUMNS.index(name)]


def test_a_group_comes_back(demo_records: list[GroupRecord]) -> None:
    packed = packed_of(demo_records)
    for record, group in zip(demo_records, groups_of(packed), strict=True):
        assert [tuple(row) for row in group["s"]] == list(record.scores)
        assert np.array(group["u"]) == pytest.approx(np.array(record.utilities), abs=1e-7)
        assert group["r"] == pytest.approx(record.reward, abs=1e-7)
        assert tuple(group["t"]) == record.responses
        assert [message["content"] for message in record.prompt or ()] == group["m"]
        assert "v" not in group  # made again from utilities, γ and what was kept of it
    assert column(packed, "id") == [record.group for record in demo_records]
    assert (packed.cut_texts, packed.text_limit) == (0, 4000)


def test_the_page_knows_the_columns_and_bits() -> None:
    columns = ", ".join(f'"{name}"' for name in COLUMNS)
    assert f"const COLUMNS = [{columns}];" in asset("store.js")
    names = [
        "NO_SIGNAL",
        "STOPPED",
        "SOFTENED",
        "MISSING",
        "RULES_DISAGREE",
        "GATE_MISSING",
        "LONGEST_WINS",
        "JUDGES_FAILED",
    ]
    words = ((name.lower().split("_"), getattr(facts, name)) for name in names)
    written = ", ".join(f"{first}{''.join(map(str.title, rest))}: {bit}" for (first, *rest), bit in words)
    assert f"const BITS = {{ {written} }};" in asset("list.js")


def test_values_that_cannot_be_made_again_are_kept(record_of: Make) -> None:
    odd = record_of({"A": [0.0, 1.0]}, [0.0, 1.0], utilities=((-1.0,), (1.0,)), values=((-3.0,), (1.0,)))
    assert groups_of(packed_of([odd]))[0]["v"] == [[-3.0], [1.0]]


def test_what_the_list_filters_by(record_of: Make) -> None:
    flat = record_of({"A": [None, 1.0]}, [0.5, 0.5], flags=("no signal", "missing: A (1)"))
    asked = ({"role": "user", "content": "a\n b"},)
    other = record_of({"A": [0.0, 1.0]}, [0.0, 1.0], others={"gdpo": (1.0, 0.0)}, prompt=asked)
    packed = packed_of([flat, other])
    assert column(packed, "bits") == [NO_SIGNAL | MISSING, RULES_DISAGREE]
    assert packed.index["flags"] == ["no signal", "missing: A"]
    assert column(packed, "flags") == [[0, 1], []]
    assert column(packed, "spread") == [0.0, 1.0]
    assert column(packed, "title") == ["", "a b"]


def test_long_texts_are_cut_and_say_so(record_of: Make) -> None:
    record = record_of({"A": [0.0, 1.0]}, [0.0, 1.0], responses=("x" * 50, "y" * 51), reasoning=("", "z" * 99))
    packed = packed_of([record], limit=50)
    assert groups_of(packed)[0]["t"] == ["x" * 50, ["y" * 50, 51]]
    assert groups_of(packed)[0]["h"] == ["", ["z" * 50, 99]]
    assert packed.cut_texts == 2


@pytest.mark.parametrize("budget", [40_000, 150_000, 400_000])
def test_the_budget_is_kept_and_used(record_of: Make, budget: int) -> None:
    random = np.random.default_rng(0)
    records = []
    for n in range(3 * CHUNK + 5):
        texts = tuple(random.bytes(int(size)).hex() for size in random.integers(10, 700, 4))
        records.append(
            record_of({"A": random.random(4).tolist()}, [0.0, 0.2, 0.4, 1.0], group=f"g{n}", responses=texts)
        )
    packed = packed_of(records, limit=2000, budget=budget)
    size = sum(map(len, packed.chunks)) * 4 / 3
    assert size <= budget
    assert size > 0.8 * budget or packed.text_limit == 0
    assert packed.text_limit < 2000
    for record, group in zip(records, groups_of(packed), strict=True):
        for text, kept in zip(record.responses or (), group["t"], strict=True):
            whole = len(text) <= packed.text_limit
            assert kept == (text if whole else [text[: packed.text_limit], len(text)])
    assert packed.cut_texts == sum(len(t) > packed.text_limit for r in records for t in r.responses or ())


def test_numbers_stay_when_even_they_are_too_much(record_of: Make) -> None:
    packed = packed_of([record_of({"A": [0.0, 1.0]}, [0.0, 1.0], responses=("long", "longer"))], budget=1.0)
    assert packed.text_limit == 0
    assert groups_of(packed)[0]["t"] == [["", 4], ["", 6]]
    assert groups_of(packed)[0]["s"] == [[0.0], [1.0]]


def test_the_limit_for_an_amount_of_text() -> None:
    lengths = np.array([1.0, 4.0, 10.0])
    for characters, limit in ((15.0, 10), (14.0, 9), (9.0, 4), (6.0, 2), (3.0, 1), (2.0, 0), (-5.0, 0)):
        assert _limit_for(lengths, characters) == limit
    assert _limit_for(np.zeros(0), 5.0) == 0


def test_a_lone_surrogate_is_no_reason_to_fail() -> None:
    assert unpack(pack(["a\ud800b", "中文", "\u2028"])) == ["a?b", "中文", "\u2028"]
