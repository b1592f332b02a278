"""Control of attributes before every rule, against a plain version of docs/method.md's formulas."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from rubrank import InvalidInput, ScoreBatch, attenuate, find_rule, fuse
from rubrank.fusion.control.adjustment import attenuate as take_share
from rubrank.fusion.control.linear import Controlled
from rubrank.fusion.gate import Gated
from rubrank.fusion.rules import rule_names
from rubrank.records.record import explain, records_of
from rubrank.scores.criterion import CriterionData
from rubrank.verifiers.domain import UNIT

NAN = np.nan


def biased(seed, bias=0.1, N=24, G=6, K=3, levels=None, attributes=2):
    """Scores from 0 to 1 of judges who like the first attribute; the others mean nothing to them."""
    rng = np.random.default_rng(seed)
    logs = rng.normal(size=(N, G, attributes))
    seen = 0.5 + 0.1 * rng.normal(size=(N, G, 1)) + bias * logs[..., :1] + 0.1 * rng.normal(size=(N, G, K))
    if levels is not None:
        seen = np.digitize(seen, np.quantile(seen, np.arange(1, levels) / levels)) / (levels - 1)
    return np.clip(seen, 0.0, 1.0), np.exp(5.0 + logs)


class PlainStage:
    """One criterion at a time, one rollout at a time; the state of a run in four arrays."""

    def __init__(self, decay, errors):
        self.decay, self.errors, self.sums = decay, errors, {}

    def __call__(self, scores, attributes, share=None):
        N, G, K = scores.shape
        D = attributes.shape[-1]
        z = np.zeros((N, G, D))
        for g in range(N):
            for i in range(G):
                for j in range(G):
                    a, b = attributes[g, i], attributes[g, j]
                    z[g, i] += np.where(a + b == 0, 0.0, (a - b) / np.where(a + b == 0, 1.0, a + b)) / G
        adjusted = scores.copy()
        for k in range(K):
            groups = [g for g in range(N) if len(set(scores[g, :, k])) > 1]
            A, b, V, n = self.sums.get(k, (np.zeros((D, D)), np.zeros(D), np.zeros((D, D)), 0.0))
            A = self.decay * A + sum(z[g].T @ z[g] for g in groups)
            b = self.decay * b + sum(z[g].T @ scores[g, :, k] for g in groups)
            inverse = np.linalg.inv(A + 0.05 * np.eye(D))
            gamma = inverse @ b
            s = [z[g].T @ (scores[g, :, k] - scores[g, :, k].mean() - z[g] @ gamma) for g in groups]
            V = self.decay**2 * V + sum(np.outer(s_g, s_g) for s_g in s)
            n = self.decay * n + len(groups)
            self.sums[k] = A, b, V, n
            se = np.sqrt(np.diag(inverse @ V @ inverse))
            c = stats.t.ppf(0.975, n - 1) if self.errors is None else self.errors
            shrunk = gamma * np.maximum(0.0, 1.0 - (c * se / gamma) ** 2) if n >= 8 else 0.0 * gamma
            delta = shrunk if share is None else share * np.maximum(0.0, shrunk)
            for g in groups:
                adjusted[g, :, k] -= z[g] @ delta
        return adjusted


def test_one_batch_is_as_the_plain_version_says():
    scores, attributes = biased(0)
    weights = np.array([2.0, 1.0, 0.5])
    expected = PlainStage(0.0, None)(scores, attributes) @ weights / weights.sum()
    found = fuse(scores, rule="weighted-mean", attributes=attributes, weights=weights)
    assert found == pytest.approx(expected, abs=1e-12)
    assert np.abs(found - fuse(scores, rule="weighted-mean", weights=weights)).max() > 0.02


def test_a_run_is_as_the_plain_version_says():
    rule = Controlled(find_rule("weighted-mean"), adjust=take_share(0.7), pool="run")
    plain = PlainStage(0.9, 1.0)
    for step in range(5):
        scores, attributes = biased(step, N=4)  # eight groups are there in the third step, not before
        found = rule(ScoreBatch.of_arrays(scores, attributes=attributes)).reward
        assert found == pytest.approx(plain(scores, attributes, 0.7).mean(-1), abs=1e-12)


def test_worked_by_hand():
    """Nine groups of two with lengths 100 and 300: z = ∓¼, A = 9/8, b = 9 · ½ · 0.2 · ½ …, and no spread of s."""
    scores = np.tile([[0.6], [0.8]], (9, 1, 1))
    lengths = np.tile([[100.0], [300.0]], (9, 1, 1))
    gamma = (9 * 0.25 * 0.2) / (9 * 2 * 0.25**2 + 0.05)
    result = Controlled(find_rule("weighted-mean"), adjust="remove")(
        ScoreBatch.of_arrays(scores, attributes=lengths, attribute_names=["tokens"])
    )
    assert result.gamma[0, 0] == pytest.approx([gamma])
    se = np.sqrt(9) * abs(0.25 * (0.2 - 2 * 0.25 * gamma)) / (9 * 2 * 0.25**2 + 0.05)
    delta = gamma * (1 - (stats.t.ppf(0.975, 8) * se / gamma) ** 2)
    assert result.reward[0] == pytest.approx([0.6 + 0.25 * delta, 0.8 - 0.25 * delta])
    assert delta == pytest.approx(0.38, abs=0.02)  # nearly all of 0.4: it explains all differences


@pytest.mark.parametrize("name", [name for name in rule_names() if name not in ("all-or-nothing", "rlvr2")])
def test_every_rule_can_be_controlled(name):
    """The reward depends less on the attribute than without control, and is gated as before."""
    scores, attributes = biased(3, bias=0.15, N=40, attributes=1)
    gates = np.ones((40, 6, 1))
    gates[:, 2] = 0.0
    batch = ScoreBatch.of_arrays(scores, attributes=attributes, gates=gates, gate_criteria=["NotEmpty"])
    rule = find_rule(f"{name}+")
    plain = rule(batch).reward
    controlled = Gated(Controlled(find_rule(name), adjust="remove"))(batch)
    logs = np.log(attributes[..., 0])

    def dependence(reward):
        passed = [0, 1, 3, 4, 5]
        return np.mean([np.corrcoef(reward[g, passed], logs[g, passed])[0, 1] for g in range(40)])

    assert dependence(controlled.reward) < dependence(plain) - 0.2
    assert (controlled.reward[:, 2] == 0.0).all()
    assert ((controlled.reward >= 0.0) & (controlled.reward <= 1.0)).all()
    assert controlled.rule == f"{name}+"


@pytest.mark.parametrize("name", ["weighted-mean", "gear", "gdpo", "borda", "run-quantile", "rlvr2:wins=graded"])
@pytest.mark.parametrize("pool", ["batch", "run"])
def test_attenuate_zero_is_off_bit_for_bit(name, pool):
    scores, attributes = biased(5)
    scores[0, 1, 2] = NAN
    off = fuse(scores, rule=name, attributes=attributes, adjust=attenuate(0.0), pool=pool)
    assert np.array_equal(off, fuse(scores, rule=name))
    gates = {"gates": np.ones((24, 6, 1)), "gate_criteria": ["NotEmpty"]}
    batch = ScoreBatch.of_arrays(scores, attributes=attributes, **gates)
    options = {"adjust": attenuate(0.0), "pool": pool}
    gated = find_rule(f"{name}+", **options) if "rlvr2" in name else Gated(Controlled(find_rule(name), **options))
    assert np.array_equal(gated(batch).reward, find_rule(f"{name}+")(batch).reward)


def test_graded_wins_have_the_stage_too():
    """τ = 1 adds up unit scores, so their controlled sums are those of the weighted mean, stretched."""
    scores, attributes = biased(6)
    sums = fuse(scores, rule="weighted-mean", attributes=attributes)
    low, high = sums.min(1, keepdims=True), sums.max(1, keepdims=True)
    graded = fuse(scores, wins="graded", tau=1.0, attributes=attributes)
    assert graded == pytest.approx((sums - low) / (high - low), abs=1e-10)


def test_programs_are_left_alone_and_ties_too():
    scores, attributes = biased(7)
    scores[4, :, 1] = 0.5  # a tie shows no bias
    criteria = [
        CriterionData("Program", domain=UNIT, verifier="WordCount"),
        CriterionData("Judged", domain=UNIT),
        CriterionData("Other", domain=UNIT),
    ]
    batch = ScoreBatch.of_arrays(scores, criteria=criteria, attributes=attributes)
    control = Controlled(find_rule("weighted-mean"), adjust="remove")(batch).control
    removed = (batch.unit_MK - control.values_MK).reshape(24, 6, 3)
    assert not removed[:, :, 0].any()
    assert not removed[4, :, 1].any()
    assert removed[5, :, 1].all()
    named = Controlled(find_rule("weighted-mean"), adjust="remove", adjust_criteria=["Program"])(batch)
    assert named.taken.any((0, 2)).tolist() == [True, False, False]


def test_missing_scores_are_left_out():
    """A rollout without a score neither counts nor changes; the others are compared among themselves."""
    scores, attributes = biased(8, K=1, attributes=1)
    scores[:, 0] = NAN
    result = Controlled(find_rule("weighted-mean"), adjust="remove")(
        ScoreBatch.of_arrays(scores, attributes=attributes)
    )
    z = result.control.contrasts_MD.reshape(24, 6)[:, 1:]
    z = z - z.mean(1, keepdims=True)
    x = scores[:, 1:, 0] - scores[:, 1:, 0].mean(1, keepdims=True)
    assert result.gamma[0, 0] == pytest.approx([(z * x).sum() / ((z * z).sum() + 0.05)])
    assert np.isnan(result.control.values_MK.reshape(24, 6)[:, 0]).all()


def test_fewer_than_eight_groups_change_nothing():
    scores, attributes = biased(9, N=7)
    assert np.array_equal(fuse(scores, rule="gear", attributes=attributes), fuse(scores, rule="gear"))


@pytest.mark.parametrize(("pool", "low", "high"), [("batch", 0.02, 0.08), ("run", 0.26, 0.40)])
@pytest.mark.parametrize("levels", [2, 10])
def test_null_property_for_both_thresholds(pool, low, high, levels):
    """§7.11: an attribute that means nothing is found at the rate of its threshold: 5%, or 32% at one error."""
    found = []
    for seed in range(150):
        scores, attributes = biased(seed, bias=0.0, N=32, G=8, K=2, levels=levels, attributes=1)
        rule = Controlled(find_rule("weighted-mean"), adjust="remove", pool=pool)
        found.append(rule(ScoreBatch.of_arrays(scores, attributes=attributes)).shrunk[0, :, 0] != 0.0)
    assert low < np.mean(found) < high


def test_the_state_of_a_run_is_saved_restored_and_shared():
    first = Controlled(find_rule("pow3r:memory_of=criterion"), adjust="remove", pool="run")
    second = Controlled(find_rule("pow3r:memory_of=criterion"), adjust="remove", pool="run")
    for step in range(3):
        scores, attributes = biased(step)
        first(ScoreBatch.of_arrays(scores, attributes=attributes))
    second.restore(json.loads(json.dumps(first.state())))
    scores, attributes = biased(3)
    batch = ScoreBatch.of_arrays(scores, attributes=attributes)
    other_options = replace(first, adjust=take_share(0.5))  # goes on with the same sums
    assert other_options.running is first.running
    assert np.array_equal(first(batch).reward, second(batch).reward)
    assert first.state() == second.state()


def test_control_may_begin_or_end_between_checkpoints():
    plain = find_rule("pow3r:memory_of=criterion")
    plain(ScoreBatch.of_arrays(biased(0)[0]))
    controlled = Controlled(find_rule("pow3r:memory_of=criterion"), adjust="remove", pool="run")
    controlled.restore(plain.state())
    assert controlled.rule.state() == plain.state()
    again = find_rule("pow3r:memory_of=criterion")
    again.restore(controlled.state())
    assert again.state() == plain.state()


def test_what_was_taken_out_is_in_words_and_in_the_record():
    scores, attributes = biased(10, attributes=1)
    batch = ScoreBatch.of_arrays(
        scores, criteria=["A", "B", "C"], attributes=attributes, attribute_names=["tokens"], gates=np.ones((24, 6, 1)),
        gate_criteria=["NotEmpty"],
    )  # fmt: skip
    result = Gated(Controlled(find_rule("weighted-mean"), adjust="remove"))(batch)
    longest = int(attributes[0, :, 0].argmax())
    lines = result.explain((0, longest)).splitlines()
    change = (result.control.values_MK[longest] - scores[0, longest]).mean()
    assert f"  attributes: taking them out changed its mean score by {change:+.2f}" in lines
    assert any(line.startswith("  tokens: ") and "taken out of 3 criteria" in line for line in lines)
    record = next(records_of(result))
    assert record.taken == tuple(map(tuple, result.taken[0].tolist()))
    assert record.scores[0][:3] == tuple(scores[0, 0].tolist())
    assert explain(record, longest) == result.explain((0, longest))


def test_what_cannot_be_controlled_says_so():
    scores, attributes = biased(0)
    with pytest.raises(InvalidInput, match=r"all-or-nothing.*adds up scores"):
        fuse(scores, rule="all-or-nothing", attributes=attributes)
    with pytest.raises(InvalidInput, match="pool must be 'run' or 'batch'"):
        fuse(scores, rule="gear", attributes=attributes, pool="group")
    with pytest.raises(InvalidInput, match="pool must be 'run' or 'batch'"):
        fuse(scores, wins="graded", attributes=attributes, pool="group")


def test_thresholds_read_the_scores_themselves():
    """A hard rule and a condition are decided by the verdicts, not by what control makes of them."""
    scores, attributes = biased(11, K=2, attributes=1)
    scores[..., 0] = scores[..., 0] > 0.5
    names = ["Hard", "Soft"]
    broken = scores[..., 0] < 1.0
    batch = ScoreBatch.of_arrays(scores, criteria=names, attributes=attributes)
    rule = Controlled(find_rule("rule-fusion", hard=["Hard"]), adjust="remove")
    assert np.array_equal(rule(batch).details["broken"].reshape(24, 6), broken)
