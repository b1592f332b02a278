"""Scores as text and back, and rollouts graded as they come: needs nothing of verl."""

from __future__ import annotations

import asyncio
import json
import math

import numpy as np
import pytest
from judged import judges_at, server_module

from rubrank.errors import InvalidInput, JudgeOutage, JudgingFailed
from rubrank.judges.judge import Retry
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.training.engine import RewardEngine, fill_unknown
from rubrank.training.frameworks.verl.scores import SingleScorer, pack_scores, unpack_groups

RUBRIC = [
    "EmptyAnswer",
    {"name": "WordCount", "params": {"low": 3}},
    {"name": "Keyword", "params": {"keywords": ["moon"]}, "weight": 2},
]
OWN = [{"name": "Own", "verifier": "WordCount", "params": {"high": 1}}]
SAID = [["the moon is far", "moon", "sea", ""], ["x", "a moon", "no moon"]]


def groups(own=None):
    return [
        Group(id=f"1/{g}", rollouts=tuple(Rollout(prompt="p", response=text) for text in said), rubric=own)
        for g, said in enumerate(SAID)
    ]


def texts_of(engine, some):
    """Every rollout graded by itself, as in a reward worker."""
    return [packed_one(engine, group) for group in some]


def packed_one(engine, group):
    alone = [Group(id="alone", rollouts=(rollout,), rubric=group.rubric) for rollout in group.rollouts]
    return [pack_scores(asyncio.run(engine.ask(engine.decide([one]), [one]))) for one in alone]


@pytest.mark.parametrize("own", [None, OWN, json.dumps(OWN)])
def test_scores_come_back_as_they_went(own):
    engine = RewardEngine(RUBRIC)
    found, direct = unpack_groups(groups(own), texts_of(engine, groups(own)), engine), engine.grade(groups(own))
    for one, other in zip(found.groups, direct.groups, strict=True):
        assert (one.id, one.criteria, one.reasons) == (other.id, other.criteria, other.reasons)
        np.testing.assert_array_equal(one.scores, other.scores)
    assert engine.fuse(groups(own), found, 1).rewards == engine.fuse(groups(own), direct, 1).rewards


def test_missing_scores_stay_missing():
    engine = RewardEngine(RUBRIC)
    texts = texts_of(engine, groups())
    data = json.loads(texts[0][1])
    texts[0][1] = json.dumps({**data, "scores": [None] * 3})
    found = unpack_groups(groups(), texts, engine)
    assert np.isnan(found.groups[0].scores[1]).all()
    assert math.isnan(engine.fuse(groups(), found, 1).rewards[0][1])


def test_workers_with_another_rubric_are_told():
    engine = RewardEngine(RUBRIC)
    with pytest.raises(InvalidInput, match="the same files and the same rubrank"):
        unpack_groups(groups(), texts_of(RewardEngine(RUBRIC[1:]), groups()), engine)
    with pytest.raises(InvalidInput, match="rubric must be given"):
        unpack_groups(groups(), texts_of(engine, groups()), RewardEngine())


def test_what_judges_took_is_added_up():
    server = server_module()
    asked = [*RUBRIC, {"name": "Polite", "question": "Is it polite?"}]
    with server.Server([server.Answer(json.dumps({"reasoning": "yes", "verdict": 1}))] * 20) as at:
        engine = RewardEngine(asked, judges=judges_at(at.url))
        found = unpack_groups(groups(), texts_of(engine, groups()), engine)
    assert found.judging.account.calls == len(found.judging.account.latencies) == 6  # the empty one is stopped
    assert [one.asked for one in found.judging.groups] == [3, 3]
    assert found.judging.missing == 0.0
    assert found.judging.account.cost > 0
    metrics = engine.fuse(groups(), found, 1).metrics
    assert metrics["rubrank/judge/calls"] == 6
    assert metrics["rubrank/judge/latency_p50"] > 0


def test_too_many_missing_answers_fail_the_step():
    server = server_module()
    asked = [*RUBRIC, {"name": "Polite", "question": "Is it polite?"}]
    with server.Server([server.Answer("no JSON at all")] * 40) as at:
        lenient = RewardEngine(asked, judges=judges_at(at.url, most_missing=1.0))
        texts = texts_of(lenient, groups())
        with pytest.raises(JudgingFailed, match="6 of 6"):  # all are too many, whatever is allowed
            unpack_groups(groups(), texts, lenient)
        strict = RewardEngine(asked, judges=judges_at(at.url, most_missing=0.5))
        with pytest.raises(JudgingFailed, match=r"6 of 6 answers are missing .*most_missing allows 50"):
            unpack_groups(groups(), texts, strict)


@pytest.mark.parametrize(
    ("rewards", "expected"),
    [([1.0, math.nan, 0.0], [1.0, 0.5, 0.0]), ([math.nan] * 2, [0.0, 0.0]), ([0.25], [0.25])],
)
def test_the_unknown_get_the_mean_of_the_known(rewards, expected):
    assert fill_unknown(rewards) == expected


# ------------------------------------------------------------------------------------------------- graded as they come


def run(main):
    return asyncio.run(asyncio.wait_for(main, 30))


def test_rollouts_are_scored_by_themselves():
    async def main():
        scorer = SingleScorer(RewardEngine(RUBRIC))
        found = await asyncio.gather(*(scorer.score(Rollout(prompt="p", response=text), None) for text in SAID[0]))
        assert [one.reward for one in found] == pytest.approx([1.0, 2 / 3, 0.0, 0.0])
        assert found[1].scores == {"EmptyAnswer": 1.0, "WordCount": 0.0, "Keyword": 1.0}
        assert json.loads(found[1].text)["scores"] == [1.0, 0.0, 1.0]

    run(main())


@pytest.mark.parametrize("policy", ["stop", "wait", "continue"])
def test_judges_that_are_away_end_the_run_in_the_trainer_which_can_save_it(policy):
    """A reward worker that raised would only lose its rollout."""
    module = server_module()
    with module.Server([module.Answer(status=500)]) as at:
        given = judges_at(at.url, on_outage=policy, outage_wait=0.1, most_missing=0.5)
        retry = Retry(attempts=3, first_wait=0.01, breaker_failures=1, breaker_pause=0.02)
        judges = given.model_copy(update={"judges": (given.judges[0].model_copy(update={"retry": retry}),)})
        engine = RewardEngine([{"name": "Kind", "question": "Is it kind?"}], judges=judges)
        # more than a few: of few calls that fail, a server's fault with these alone is not told from an outage
        group = Group(id="g", rollouts=tuple(Rollout(prompt="p", response=text) for text in "abcdefgh"))

        async def main():
            scorer = SingleScorer(engine)
            return await asyncio.gather(*(scorer.score(rollout, None) for rollout in group.rollouts))

        found = asyncio.run(main())
    assert all(math.isnan(one.reward) for one in found)
    texts = [[one.text for one in found]]
    if policy == "continue":
        assert unpack_groups([group], texts, engine).judging.lost == 8
    else:
        with pytest.raises(JudgeOutage, match="has not answered for"):
            unpack_groups([group], texts, engine)
        met = next(text for text in texts[0] if "outage" in json.loads(text))  # others used up their attempts before
        with pytest.raises(JudgeOutage):  # whatever may be missing: here one of eight
            unpack_groups([group], [[met, *[_answered(text) for text in texts[0][1:]]]], engine)


def _answered(text):
    """What the rollout would have said with judges that were there."""
    told = {**json.loads(text), "scores": [1.0], "reasons": [""]}
    told["judges"]["lost"] = 0
    told.pop("outage", None)
    return json.dumps(told)
