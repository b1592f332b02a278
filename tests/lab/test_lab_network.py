"""The lean network and trainer against references: transformers' Qwen3, and arms that are trained alone."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("safetensors")

from rubrank_lab.facts import FACTS  # noqa: E402
from rubrank_lab.network import Network, Samples  # noqa: E402
from rubrank_lab.trainer import make_rows, standardise, train_arms, update  # noqa: E402

POLICY = Path(__file__).parents[2] / "recipes" / "lab" / "policies" / "facts"
PROMPTS = [row.tokens for row in make_rows(FACTS)[0][:3]]


def change_weights(network: Network) -> None:
    """Make the copies different; the first stays as it is."""
    generator = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for parameter in network.parameters():
            parameter[1:] += 0.02 * torch.randn(parameter[1:].shape, generator=generator)


def sample(network: Network, seed: int = 0) -> Samples:
    return network.sample(PROMPTS, 4, 30, torch.Generator().manual_seed(seed))


def test_log_probabilities_are_those_of_transformers():
    transformers = pytest.importorskip("transformers")
    network = Network.load(POLICY, copies=2)
    change_weights(network)
    samples = sample(network)
    ours = network.log_probabilities(PROMPTS, samples)
    model = transformers.AutoModelForCausalLM.from_pretrained(POLICY, dtype=torch.float32).eval()
    for row, tokens in enumerate(samples.token_lists(0)):
        prompt = list(PROMPTS[row // 4])
        with torch.no_grad():
            logits = model(torch.tensor([prompt + tokens])).logits[0].log_softmax(-1)
        expected = [float(logits[len(prompt) - 1 + t, token]) for t, token in enumerate(tokens)]
        np.testing.assert_allclose(ours[0, row, : len(tokens)].detach(), expected, atol=5e-5)
        assert not ours[0, row, len(tokens) :].any()


def test_copies_with_equal_weights_sample_equal_responses():
    network = Network.load(POLICY, copies=2)
    samples = sample(network)
    assert samples.token_lists(0) == samples.token_lists(1)
    assert samples.token_lists(0) != sample(network, seed=1).token_lists(0)


def test_tokens_are_drawn_with_the_probabilities_of_the_network():
    """A response begins with "<think>" and "need"; the noun behind them is drawn as often as the network says."""
    network = Network.load(POLICY, copies=1)
    samples = network.sample([PROMPTS[0]], 2000, 3, torch.Generator().manual_seed(3))
    with torch.no_grad():
        third = network.log_probabilities([PROMPTS[0]], samples)[0, :, 2].exp().numpy()
    drawn = samples.tokens_ART[0].numpy()
    usual = (drawn[:, :2] == FACTS.encode("<think>need")).all(1)
    assert usual.mean() > 0.9
    frequent = np.unique(drawn[usual & (third > 0.01), 2])
    assert len(frequent) > 3
    for noun in frequent:
        is_noun = usual & (drawn[:, 2] == noun)
        probability = float(third[is_noun][0])
        error = math.sqrt(probability * (1 - probability) / usual.sum())
        assert abs(is_noun.sum() / usual.sum() - probability) < 5 * error


def test_each_copy_is_trained_as_if_it_were_alone():
    both = Network.load(POLICY, copies=2)
    change_weights(both)
    samples = sample(both)
    advantages = torch.linspace(-1.0, 1.0, 24).view(2, 12)
    update(both, torch.optim.SGD(both.parameters(), lr=0.5), PROMPTS, samples, advantages)
    alone = Network.load(POLICY, copies=1)
    first = Samples(samples.tokens_ART[:1], samples.lengths_AR[:1])
    update(alone, torch.optim.SGD(alone.parameters(), lr=0.5), PROMPTS, first, advantages[:1])
    for together, single in zip(both.parameters(), alone.parameters(), strict=True):
        np.testing.assert_allclose(together[:1].detach(), single.detach(), atol=2e-6)


def test_gradients_are_cut_at_norm_one():
    network = Network.load(POLICY, copies=1)
    before = [parameter.detach().clone() for parameter in network.parameters()]
    update(network, torch.optim.SGD(network.parameters(), lr=1.0), PROMPTS, sample(network), torch.full((1, 12), 1e4))
    moved = math.sqrt(
        sum(float((new.detach() - old).square().sum()) for new, old in zip(network.parameters(), before, strict=True))
    )
    assert moved == pytest.approx(1.0, abs=1e-3)


def test_advantages_by_hand():
    rewards = torch.tensor([[0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, float("nan")]])
    advantages = standardise(rewards)[0]
    filled = [0.0, 0.0, 1.0, 1.0, 0.0, 0.0, 1.0, 3 / 7]
    expected = (np.array(filled) - np.mean(filled)) / (np.std(filled, ddof=1) + 1e-4)
    np.testing.assert_allclose(advantages, expected, atol=1e-6)


def test_a_short_run_of_two_arms():
    arms = {"sum": {"rule": "weighted-mean+", "attributes": []}, "rank": {"rule": "rlvr2+", "attributes": []}}
    finished = train_arms(FACTS, POLICY, arms, seed=3, steps=2)
    again = train_arms(FACTS, POLICY, {"rank": arms["rank"]}, seed=3, steps=2)
    means = {arm: measured.means() for arm, measured in finished.items()}
    assert means["sum"]["bin_0", "quality"] == means["rank"]["bin_0", "quality"]  # the first step is before any update
    for phase in ("held_out", "last_quarter", "bin_4"):
        assert 0.2 < means["rank"][phase, "quality"] < 0.8
        assert means["rank"][phase, "quality"] == pytest.approx(again["rank"].means()[phase, "quality"], abs=0.02)
