"""One path, for tables that nobody thought of: every way to a reward gives the same numbers, from one fit.

The trainer's reward, its record, the record unfolded, `fuse` and `explain` on a file, `record` and `replay` on a table:
under every rule, one of a user's among them, with any gate, missing scores, weights, margins and directions that differ
from query to query.
"""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from cases import examples
from hypothesis import assume, given
from hypothesis import strategies as st

import rubrank
from rubrank import RLVR2, Group, Rollout, rule_names
from rubrank.fusion.files import explain_file, fuse_file
from rubrank.fusion.options import make_fuse_rule
from rubrank.options import FuseOptions
from rubrank.records.files import read_records
from rubrank.records.record import record_table, to_fused_group
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.studies.logged import make_batch, read_logged
from rubrank.studies.replay import run_rule
from rubrank.training.engine import Graded, RewardEngine
from rubrank.verifiers.verifier import TERNARY, UNIT, Domain

GRADE = Domain("continuous", (), 0.0, 10.0)
LAYERS = {"Empty": "global_quality", "Clean": "low_quality"}
DOMAINS = {"Facts": TERNARY, "Grade": GRADE, "Style": UNIT, "Empty": TERNARY, "Clean": UNIT}
OUTSIDE = "property-best-case"


class BestCase:
    """A rule of a user's."""

    bounded, name = False, OUTSIDE

    def __init__(self, share: float = 1.0) -> None:
        self.share = share

    def __call__(self, batch):
        return rubrank.Fused(batch, self.name, self.share * np.fmax.reduce(batch.unit_MK, axis=1) - 0.25)


rubrank.rule(BestCase)
RULES = [
    *(name for name in rule_names() if name in rubrank.fusion.rules.RULES and not name.startswith("outside-")),
    "rlvr2*focal",
    "rlvr2*dvao",
    f"{OUTSIDE}:share=0.5",
]


@st.composite
def criteria(draw, name):
    """A criterion as one query asks for it."""
    return CriterionData(
        name,
        weight=draw(st.sampled_from([0.5, 1.0, 3.0])),
        margin=draw(st.sampled_from([0.0, 0.0, 0.25])),
        direction=draw(st.sampled_from(["higher", "lower"])),
        domain=DOMAINS[name],
        layer=LAYERS.get(name, "quality"),
    )


@st.composite
def tables(draw):
    """Up to three queries with criteria of their own; every score may be missing."""
    found = []
    for g in range(draw(st.integers(1, 3))):
        quality = draw(st.lists(st.sampled_from(["Facts", "Grade", "Style"]), min_size=1, unique=True))
        asked = [draw(criteria(name)) for name in [*quality, *draw(st.sets(st.sampled_from(list(LAYERS))))]]
        G = draw(st.integers(1, 5))
        shares = st.one_of(st.sampled_from([0.0, 0.5, 1.0, 0.5]), st.just(float("nan")))
        cells = [[draw(shares) * criterion.domain.high for criterion in asked] for _ in range(G)]
        found.append(GroupScores(f"q{g}", tuple(asked), np.array(cells), (("",) * len(asked),) * G))
    ranked = [group.scores[:, [c.layer == "quality" for c in group.criteria]] for group in found]
    assume(any(not np.isnan(scores).all() for scores in ranked))  # nothing to rank, which a file refuses
    return ScoreTable(tuple(found))


@st.composite
def options(draw, rule):
    """How it is fused: gated or not, and with what."""
    given = {"rule": rule + draw(st.sampled_from(["", "+"]))}
    if given["rule"].endswith("+"):
        gate = draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "lift": st.sampled_from([0.0, 0.5]),
                    "floor": st.sampled_from([0.0, 0.9]),
                    "threshold": st.sampled_from([0.4, 1.0]),
                    "shape": st.just("smoothstep"),
                    "missing": st.just("fail"),
                },
            )
        )
        given |= {"gate": gate} if gate else {}
    if rule.startswith("rlvr2"):
        given |= draw(
            st.fixed_dictionaries(
                {},
                optional={
                    "prior": st.sampled_from([0.1, 10.0]),
                    "span": st.sampled_from(["unit", "sd"]),
                    "scale": st.just("utility"),
                    "model": st.sampled_from(["thurstone", "borda"]),
                },
            )
        )
    return FuseOptions.model_validate(given)


def groups_of(table):
    texts = ("A.", "Two words.", "Three or four words.", "No.", "A longer answer than that.")
    return [
        Group(id=g.id, rollouts=tuple(Rollout(prompt="Q", response=texts[i]) for i in range(len(g.scores))))
        for g in table
    ]


def trained(rule, table, folder, **more):
    """What a trainer gets, and what is recorded of it."""
    engine = RewardEngine(rule=rule, records=folder / "records.jsonl", **more)
    rewards = engine.fuse(groups_of(table), Graded(table.groups), 0).rewards
    return [list(group) for group in rewards], list(read_records(folder / "records.jsonl"))


def known(rewards, records):
    """What is compared: a rollout that nothing is known about has no reward for a trainer."""
    for found, record in zip(rewards, records, strict=True):
        for reward, recorded in zip(found, record.reward, strict=True):
            assert reward == recorded or reward != reward


@pytest.mark.slow
@examples(300)
@given(data=st.data())
def test_every_way_to_a_reward_gives_the_same(data):
    table, chosen = data.draw(tables()), data.draw(st.sampled_from(RULES).flatmap(options))
    gates = any(criterion.layer != "quality" for group in table for criterion in group.criteria)
    assume(gates or "gate" not in chosen.model_fields_set)  # idle, and refused
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        rewards, records = trained(make_fuse_rule(chosen), table, folder)
        known(rewards, records)
        expected = [list(record.reward) for record in records]
        flat = [reward for group in expected for reward in group]
        for record in records:
            assert to_fused_group(record).reward.tolist() == list(record.reward)
        scores = folder / "scores.jsonl"
        table.write(scores)
        fuse_file(scores, folder / "out.jsonl", chosen)
        rows = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
        assert [row["reward"] for row in rows if "reward" in row] == flat
        logged = read_logged(scores)
        again, batch = make_batch(logged, chosen)
        assert [list(record.reward) for record in record_table(again, make_fuse_rule(chosen), batch=batch)] == expected
        assert run_rule(chosen.rule, batch, options=chosen).tolist() == flat
        if len(table.groups) == 1:
            explained = explain_file(scores, table.groups[0].id, chosen)
            assert explained.reward.tolist() == expected[0]
            assert explained.no_signal == records[0].no_signal
            assert [explained.explain(i) for i in range(len(expected[0]))] == [
                to_fused_group(records[0]).explain(i) for i in range(len(expected[0]))
            ]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:RewardEngine. the influence of attributes")  # over a single group, for one
@examples(100)
@given(table=tables(), rule=st.sampled_from(["rlvr2", "rlvr2+", "rlvr2*focal+", f"{OUTSIDE}+"]))
def test_with_attributes_too_and_from_one_fit(table, rule):
    count = []
    more = {"attributes": ["answer_length"]} if rule.startswith("rlvr2") else {}
    original = RLVR2.__call__
    try:
        RLVR2.__call__ = lambda self, *given: count.append(1) or original(self, *given)  # type: ignore[method-assign]
        with tempfile.TemporaryDirectory() as name:
            rewards, records = trained(rule, table, Path(name), **more)
            known(rewards, records)
            for record in records:
                assert to_fused_group(record).reward.tolist() == list(record.reward)
    finally:
        RLVR2.__call__ = original  # type: ignore[method-assign]
    assert len(count) == rule.startswith("rlvr2")
