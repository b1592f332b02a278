"""Findings say what is wrong with a run, and nothing where nothing is."""

import numpy as np
import pytest

import rubrank
from rubrank import ScoreBatch, find_rule
from rubrank.records.findings import FindingCounts, find_findings
from rubrank.records.record import records_of

GROUPS = 12


def fuse(scores, criteria, rule="rlvr2", **options):
    batch = rubrank.ScoreBatch.of_arrays(scores, criteria=criteria, **options)
    return rubrank.find_rule(rule)(batch)


def noise(*shape, seed=0):
    return np.random.default_rng(seed).normal(size=shape)


def kinds(findings):
    return [finding.kind for finding in findings]


def test_a_healthy_batch_has_no_finding():
    assert find_findings(fuse(noise(GROUPS, 8, 3), ["A", "B", "C"])) == []


def test_a_criterion_that_is_always_tied():
    scores = noise(GROUPS, 8, 2)
    scores[:, :, 1] = 1
    (finding,) = find_findings(fuse(scores, ["A", "Tone"]))
    assert finding.kind == "tied"
    assert str(finding) == "Tone is tied in 100% of 12 groups. Drop it, or give it more levels."


def test_few_groups_say_nothing():
    scores = noise(7, 8, 2)
    scores[:, :, 1] = 1
    assert find_findings(fuse(scores, ["A", "Tone"])) == []


def test_groups_without_signal():
    scores = np.ones((GROUPS, 4, 2))
    scores[:6, :, :] = noise(6, 4, 2) > 0
    finding = find_findings(fuse(scores, ["A", "B"]))[0]
    assert finding.kind == "no signal"
    assert finding.evidence["share"] >= 0.5


def test_two_criteria_that_agree():
    scores = noise(GROUPS, 8, 2)
    scores[:, :, 1] = 3 * scores[:, :, 0] + 1
    (finding,) = find_findings(fuse(scores, ["Coverage", "Facts"]))
    assert finding.sentence == "Coverage and Facts agree in 100% of 336 pairs."  # 12 groups of 28 pairs


def test_missing_scores():
    scores = noise(GROUPS, 8, 2)
    scores[:, :3, 1] = np.nan
    findings = find_findings(fuse(scores, ["A", "Judged"]))
    assert findings[0].sentence == "38% of the scores of Judged are missing."


def test_responses_that_a_judge_did_not_compare_are_missing_and_not_tied():
    """In half of the groups it compared nothing; in the others, three of eight responses with nothing."""
    compared = np.full((GROUPS, 8, 8), np.nan)
    order = np.arange(5)
    compared[:6, :5, :5] = 0.5 + 0.5 * np.sign(order[:, None] - order)
    scores = noise(GROUPS, 8, 2)
    scores[:, :, 1] = np.nan
    counts = FindingCounts()
    for record in records_of(fuse(scores, ["A", "Style"], outcomes={"Style": list(compared)})):
        counts.add(record)
    style = counts.criteria["Style"]
    assert (style.groups, style.tied, style.missing) == (6, 0, 18)


def test_rollouts_that_a_gate_stopped_miss_no_verdict_of_a_judge():
    """The judge is not asked about them: two of eight in every group."""
    scores = noise(GROUPS, 8, 2)
    scores[:, :2, 1] = np.nan
    gate = np.ones((GROUPS, 8))
    gate[:, :2] = 0.0
    criteria = ["A", "Judged", "NotEmpty"]
    batch = ScoreBatch.of_arrays(np.dstack([scores, gate]), criteria=criteria, global_quality=["NotEmpty"])
    fused = find_rule("rlvr2+")(batch)
    assert "missing" not in {finding.kind for finding in find_findings(fused)}
    scores[:, 2:4, 1] = np.nan  # two of the six that passed
    batch = ScoreBatch.of_arrays(np.dstack([scores, gate]), criteria=criteria, global_quality=["NotEmpty"])
    sentences = [finding.sentence for finding in find_findings(find_rule("rlvr2+")(batch))]
    assert "33% of the scores of Judged are missing." in sentences


def test_a_criterion_against_the_rest():
    scores = noise(GROUPS, 8, 3)
    scores[:, :, 1] = scores[:, :, 0] + 0.1 * noise(GROUPS, 8, seed=1)
    scores[:, :, 2] = -scores[:, :, 0]
    assert "reversed" in kinds(find_findings(fuse(scores, ["A", "B", "Badness"]), most=9))


def test_a_gate_that_stops_many():
    scores = np.concatenate([noise(GROUPS, 8, 2), np.ones((GROUPS, 8, 1))], axis=2)
    scores[:, :4, 2] = 0
    fused = fuse(scores, ["A", "B", "NotEmpty"], "rlvr2+", global_quality=["NotEmpty"])
    assert find_findings(fused)[0].sentence == "The gate NotEmpty stops 50% of the rollouts."


def test_a_judged_criterion_that_follows_length():
    scores = noise(GROUPS, 8, 1)
    lengths = np.exp(scores[:, :, 0])
    records = []
    for record, group in zip(records_of(fuse(scores, ["Quality"])), lengths, strict=True):
        texts = tuple("x" * int(100 * length + 1) for length in group)
        records.append(record.model_copy(update={"responses": texts}))
    (finding,) = find_findings(records)
    assert finding.sentence == "Quality follows the length of the answer (mean τ +1.00)."
    assert "`answer_length`" in finding.action


def test_groups_may_be_added_one_by_one():
    scores = noise(GROUPS, 8, 2)
    scores[:, :, 1] = 1
    fused = fuse(scores, ["A", "Tone"])
    counts = FindingCounts()
    for record in records_of(fused):
        counts.add(record)
    assert counts.list_findings() == find_findings(fused)


@pytest.mark.parametrize("most", [0, 1, 3])
def test_the_most_important_come_first(most):
    scores = np.ones((GROUPS, 4, 3))
    findings = find_findings(fuse(scores, ["A", "B", "C"]), most=most)
    assert len(findings) == most
    assert [finding.severity for finding in findings] == sorted((f.severity for f in findings), reverse=True)


def test_two_criteria_that_contradict_each_other_are_one_finding():
    scores = noise(GROUPS, 8, 2)
    scores[:, :, 1] = -scores[:, :, 0]
    findings = find_findings(fuse(scores, ["Long", "Short"]), most=9)
    (finding,) = [finding for finding in findings if finding.kind == "reversed"]
    assert finding.sentence == "Long and Short contradict each other (mean τ -1.00)."
