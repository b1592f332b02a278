"""The wind tunnel: worlds, common random numbers, and effects that must be there."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import polars as pl
import pytest
from rubrank_lab import tunnel
from rubrank_lab.tunnel import HONEST, LENGTH, MARKUP, WORLDS, Responses

SUM = {"rule": "weighted-mean+"}
CONTROLLED = {"rule": "weighted-mean+", "attributes": ["reasoning_length", "markup"]}


def train(world, options, seeds=4):
    draws = [np.random.default_rng([0, seed]) for seed in range(seeds)]
    return tunnel.train(world, tunnel.rule_maker(options), draws)


def test_there_are_at_least_nineteen_different_worlds():
    assert len({world.name for world in WORLDS}) == len(WORLDS) >= 19
    assert len({replace(world, name="", about="") for world in WORLDS}) == len(WORLDS)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
def test_scores_lie_in_their_domains(world):
    policy = tunnel.start_policy(world, 2)
    drawn = tunnel.draw_prompts(world, np.random.default_rng(1), 5)
    prompts = {name: np.stack([values, values]) for name, values in drawn.items()}
    responses, _ = tunnel.respond(world, policy, prompts)
    scores = tunnel.score(world, responses, prompts, progress=0.9)
    criteria = tunnel.list_criteria(world)
    assert scores.shape == (2, 5, world.group, len(criteria))
    for column, criterion in zip(np.moveaxis(scores, -1, 0), criteria, strict=True):
        is_judged = criterion.verifier is None
        assert np.isnan(column).any() == (is_judged and world.missing > 0)
        known = column[~np.isnan(column)]
        assert known.min() >= criterion.domain.low
        assert known.max() <= criterion.domain.high


def test_quality_by_hand():
    yes = np.array([1.0, 0.0, 1.0, 0.0, 1.0, 1.0, 1.0, 0.0, 1.0, 1.0])  # four of six wishes, half of "both"
    normal = np.array([1.0, 0.0, 0.0, 5.0, -5.0])  # content is logistic(0) = ½; styles count nothing
    truth = tunnel.rate_truth(HONEST, Responses(normal, yes))
    assert truth["quality"] == pytest.approx((4 + 2 * 0.5 + 3 * 0.5) / (6 + 2 + 3))
    yes[-1] = 0.0
    assert tunnel.rate_truth(HONEST, Responses(normal, yes))["quality"] == pytest.approx(0.75 * truth["quality"])
    yes[-2] = 0.0
    assert tunnel.rate_truth(HONEST, Responses(normal, yes))["quality"] == 0.0


def test_a_rule_with_the_same_order_of_rewards_gives_the_same_run():
    """A sum and the same sum with doubled weights: common random numbers, equal parameters."""
    doubled = replace(HONEST, wish_weights=(2.0,) * 6, content_weight=6.0)
    first = train(replace(HONEST, judged=False, idle_styles=0), SUM)
    second = train(replace(doubled, judged=False, idle_styles=0), SUM)
    np.testing.assert_allclose(first.odds, second.odds, atol=1e-9)


def test_control_stops_the_growth_of_length_and_markup():
    biased = next(world for world in WORLDS if world.name == "strong bias")
    free, controlled = train(biased, SUM), train(biased, CONTROLLED)
    for feature in (LENGTH, MARKUP):
        assert free.means[:, feature].mean() > 3 * abs(controlled.means[:, feature].mean())
    free_quality = tunnel.measure_quality(biased, free).mean()
    assert tunnel.measure_quality(biased, controlled).mean() > free_quality


def test_seeds_of_a_rule_with_memory_do_not_share_it():
    together = train(HONEST, CONTROLLED, seeds=3)
    alone = train(HONEST, CONTROLLED, seeds=1)
    np.testing.assert_allclose(together.means[0], alone.means[0], atol=1e-12)


def test_shares_are_of_the_best_gain_in_each_world():
    gains = pl.DataFrame(
        {"world": ["w", "w", "v", "v"], "arm": ["a", "b", "a", "b"], "seed": [0] * 4, "gain": [0.2, 0.1, 0.1, 0.4]}
    )
    assert tunnel.share_of_best(gains)["share"].to_list() == pytest.approx([1.0, 0.5, 0.25, 1.0])
    assert tunnel.summarise(tunnel.share_of_best(gains)) == [("b", 0.75, 0.5), ("a", 0.625, 0.25)]


def test_worlds_are_the_same_whichever_are_run():
    arms = {"sum": SUM}
    alone = tunnel.run_tunnel(arms, seeds=2, worlds=[WORLDS[2]])
    both = tunnel.run_tunnel(arms, seeds=2, worlds=WORLDS[1:3])
    assert both.filter(pl.col("world") == WORLDS[2].name).equals(alone)
