"""A judge that likes long answers, and what can be done about it.

Run it: python examples/02_attributes.py

Simulated: every response has a hidden quality, and a length that has nothing to do with it. Two judges grade
from 0 to 4; the second is swayed by length. How well do rewards follow quality, and how much of the length is in them?
"""

from typing import Any

import numpy as np

import rubrank
from rubrank import RLVR2, ScoreBatch, attenuate
from rubrank.fusion.control.markdown import MARKERS, markdown_counts

N, G = 200, 8  # queries, responses to each
rng = np.random.default_rng(0)
quality = rng.normal(size=(N, G))
tokens = np.round(400 * np.exp(0.6 * rng.normal(size=(N, G))))
longer = (np.log(tokens) - np.log(tokens).mean(1, keepdims=True)) / 0.6


def grades(impression: np.ndarray) -> np.ndarray:
    return np.digitize(impression + 0.5 * rng.normal(size=(N, G)), [-1.0, -0.3, 0.3, 1.0])


scores = np.stack([grades(quality), grades(quality + 1.2 * longer)], axis=-1)
attributes = tokens[..., None]  # (queries, responses, attributes)


def within(rewards: np.ndarray, other: np.ndarray) -> float:
    """Mean correlation within a group: what a group-relative trainer sees."""
    pairs = zip(rewards, other, strict=True)
    return float(np.mean([np.corrcoef(a, b)[0, 1] for a, b in pairs if np.ptp(a) > 0.0]))


WAYS: dict[str, dict[str, Any]] = {
    "nothing adjusted": {},
    "half taken out": {"attributes": attributes, "adjust": attenuate(0.5)},
    "removed": {"attributes": attributes},
    "removed, by the letter of the paper": {"attributes": attributes, "pool": "group"},
}
print(f"{'correlation of the reward with':<42} {'quality':>8} {'length':>8}")
for title, options in WAYS.items():
    rewards = rubrank.fuse(scores, **options)
    print(f"{title:<42} {within(rewards, quality):8.2f} {within(rewards, tokens):8.2f}")

# How much each judge is swayed: γ̂ with its standard error, and γ̃, the part of it beyond chance.
found = RLVR2(adjust="remove")(ScoreBatch.of_arrays(scores, attributes=attributes))
assert found.gamma is not None
assert found.se is not None
assert found.shrunk is not None
print()
for k in range(2):
    gamma, se, shrunk = found.gamma[0, k, 0], found.se[0, k, 0], found.shrunk[0, k, 0]
    print(f"judge {k}: γ {gamma:+.2f}, standard error {se:.2f}, taken out {shrunk:+.2f}")

# Lengths and Markdown need not be counted by hand:
texts = ["<think>Two and two make four.</think>It is 4.", "# Answer\n\n- **4**\n- because 2 + 2 = 4"]
print("\nreasoning, answer, total, in words:", rubrank.lengths(texts).stack().tolist())
counts = markdown_counts(texts)[1].tolist()
markers = [f"{count} × {name}" for name, count in zip(MARKERS, counts, strict=True) if count]
print("Markdown in the second one:", ", ".join(markers))
