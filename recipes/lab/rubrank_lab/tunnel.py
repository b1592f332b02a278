"""The wind tunnel: every rule in many small worlds, without a language model.

    gains = run_tunnel(seeds=32)                 world × rule × seed: how much true quality training gained
    share_of_best(gains)                         the regret table

A response is a vector of independent features, and the policy is their distribution: means of normal features
(content, length, Markdown, styles) and log-odds of yes/no features (wishes, gate, tidiness). Training is REINFORCE on
these parameters with the advantages of group-relative training, (R − mean)/sd within the group, where R comes from
rubrank's own rules. A step has 6 prompts with 8 responses each; prompts shift what the features are.

    features ── world ──> scores of programs and of a biased judge ── rule ──> rewards ──> parameters
         └───── world ──> true quality, which no rule sees

For one seed all rules see the same prompts and random numbers, so their differences are not differences of luck.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import polars as pl

from rubrank import UnknownName
from rubrank.fusion.control.adjustment import attenuate
from rubrank.fusion.options import has_memory, make_rule, with_options
from rubrank.fusion.rule import Rule, apply_rule
from rubrank.fusion.rules import rule_names
from rubrank.options import RewardOptions
from rubrank.scores.batch import ScoreBatch
from rubrank.scores.criterion import CriterionData
from rubrank.verifiers.domain import BINARY, TERNARY, UNIT, Domain

STEPS, PROMPTS, GROUP = 24, 6, 8
LEARNING_RATE = 0.25
TRAINERS_DEFAULT = "RLVR² model + control"
"""The arm that trainers use if nothing is said: `rlvr2+`, with control where judges decide."""
_TEN = Domain("continuous", low=0.0, high=10.0)
_HUNDRED = Domain("continuous", low=0.0, high=100.0)


# -------------------------------------------------------------------------------------------------------------- worlds


@dataclass(frozen=True)
class World:
    """What differs between worlds; the defaults are the honest world."""

    name: str
    about: str
    wish_rates: tuple[float, ...] = (0.3, 0.4, 0.5, 0.6, 0.8, 0.95)
    """Share of responses that meet each yes/no wish before training."""
    wish_weights: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0, 1.0, 1.0)
    content_weight: float = 3.0
    judged: bool = True
    """False: a rubric of yes/no criteria only, decided by programs."""
    idle_styles: int = 2
    """Continuous criteria of programs that count nothing in true quality."""
    real_styles: int = 0
    """Continuous criteria of programs that count."""
    style_range: float = 1.0
    """Share of the declared scale that styles use."""
    length_bias: float = 0.08
    """What a unit of length is worth to the judge, on a scale from 0 to 1."""
    markup_bias: float = 0.06
    bias_varies: bool = False
    """The judge's liking differs from prompt to prompt, up to its sign."""
    noise: float = 0.1
    heavy_tails: bool = False
    scale: tuple[float, float] = (0.0, 1.0)
    """The part of its declared scale that the judge uses."""
    drift: float = 0.0
    """How far the judge's scale moves over the run, as a share of the declared scale."""
    scale_by_prompt: bool = False
    missing: float = 0.0
    """Share of the judge's scores that are missing."""
    prerequisites: bool = False
    """Each second wish counts only if the one before it is met."""
    clean_rate: float = 0.9
    """Share of responses that pass the gate before training."""
    length_value: float = 0.0
    """What length is truly worth, up to two units; only the judge can see it."""
    group: int = GROUP


HONEST = World("honest", "honest scales, a judge with a moderate liking of length and Markdown")


def _change(name: str, about: str, **changes: Any) -> World:
    return replace(HONEST, name=name, about=about, **changes)


WORLDS: tuple[World, ...] = (
    HONEST,
    _change("compressed", "the judge uses 6 to 9 of 0 to 10", scale=(0.6, 0.9)),
    _change("heavy tails", "one verdict in ten is arbitrary", heavy_tails=True),
    _change("drift", "the judge's scale moves by 30% over the run", scale=(0.2, 0.7), drift=0.3),
    _change(
        "scale by prompt",
        "range and level of the judge's scores differ by prompt",
        scale_by_prompt=True,
    ),
    _change("missing", "40% of the judge's scores are missing", missing=0.4),
    _change("noise", "the judge's noise is four times as large", noise=0.4),
    _change(
        "skewed importance",
        "one wish weighs 8, the others 1",
        wish_weights=(8.0, 1.0, 1.0, 1.0, 1.0, 1.0),
    ),
    _change(
        "rare passes",
        "wishes are met by 3 to 10% at the start",
        wish_rates=(0.03, 0.04, 0.05, 0.06, 0.08, 0.1),
    ),
    _change(
        "saturated",
        "all wishes but one are met by 95%",
        wish_rates=(0.3, 0.95, 0.95, 0.95, 0.95, 0.97),
    ),
    _change("yes/no only", "no judge, yes/no criteria only", judged=False, idle_styles=0),
    _change("no styles", "no criterion that counts nothing", idle_styles=0),
    _change("idle styles", "six continuous criteria that count nothing", idle_styles=6),
    _change("real styles", "three continuous criteria that count", idle_styles=0, real_styles=3),
    _change(
        "narrow styles",
        "they count, and use a tenth of their scale",
        idle_styles=0,
        real_styles=3,
        style_range=0.1,
    ),
    _change(
        "narrow idle styles",
        "they count nothing, and use a tenth of their scale",
        style_range=0.1,
        idle_styles=4,
    ),
    _change("prerequisites", "each second wish counts only with the one before", prerequisites=True),
    _change(
        "strong bias",
        "the judge's liking is three times as strong",
        length_bias=0.24,
        markup_bias=0.18,
    ),
    _change("no bias", "the judge likes neither length nor Markdown", length_bias=0.0, markup_bias=0.0),
    _change(
        "bias by prompt",
        "the judge's liking differs by prompt",
        length_bias=0.08,
        markup_bias=0.06,
        bias_varies=True,
    ),
    _change(
        "length is quality",
        "length is truly good, and only the judge sees it",
        length_bias=0.0,
        length_value=2.0,
    ),
    _change("many gated", "half of the responses fail the gate at the start", clean_rate=0.5),
    _change(
        "everything",
        "compressed, drifting, heavy tails, missing, strong bias",
        scale=(0.6, 0.85),
        drift=0.1,
        heavy_tails=True,
        missing=0.2,
        length_bias=0.16,
        markup_bias=0.12,
    ),
    _change("groups of four", "four responses a prompt", group=4),
)

CONTENT, LENGTH, MARKUP = 0, 1, 2
"""Normal features; styles follow, then the yes/no features: wishes, half wish twice, clean, tidy."""


def list_criteria(world: World) -> tuple[CriterionData, ...]:
    """The rubric of a world, in the order of the columns of `World` scores."""
    criteria = []
    for number, weight in enumerate(world.wish_weights):
        edges = ((f"Wish{number - 1}", "strong"),) if world.prerequisites and number % 2 else ()
        criteria.append(CriterionData(f"Wish{number}", weight=weight, domain=BINARY, verifier="program", depends=edges))
    if world.judged:
        criteria.append(CriterionData("Both", weight=2.0, domain=TERNARY, verifier="program"))
        criteria.append(CriterionData("Content", weight=world.content_weight, domain=_TEN))
        criteria.append(CriterionData("Helpful", weight=2.0, domain=_TEN, depends=(("Content", "weak"),)))
        criteria.append(CriterionData("Clear", weight=1.0, domain=BINARY))
    for number in range(world.idle_styles + world.real_styles):
        domain = UNIT if number % 2 else _HUNDRED
        criteria.append(CriterionData(f"Style{number}", domain=domain, verifier="program"))
    criteria.append(CriterionData("Clean", layer="global_quality", domain=BINARY, verifier="program"))
    criteria.append(CriterionData("Tidy", layer="low_quality", domain=BINARY, verifier="program"))
    return tuple(criteria)


@dataclass(frozen=True)
class Responses:
    """Features of responses (…, features), as they are: prompts have shifted them."""

    normal: np.ndarray
    yes: np.ndarray


def rate_truth(world: World, responses: Responses) -> dict[str, np.ndarray]:
    """The parts of true quality, and quality itself: 0 if not clean, a quarter less if not tidy."""
    styles = world.idle_styles + world.real_styles
    wishes = responses.yes[..., : len(world.wish_rates)]
    if world.prerequisites:
        met = wishes.copy()
        met[..., 1::2] *= wishes[..., 0::2]
        wishes = met
    both = responses.yes[..., len(world.wish_rates) : len(world.wish_rates) + 2].mean(-1)
    content = 1.0 / (1.0 + np.exp(1.0 - responses.normal[..., CONTENT]))
    length = responses.normal[..., LENGTH]
    clean = responses.yes[..., -2] * (length < 4.0)  # longer responses are cut off
    weights = np.array(world.wish_weights)
    total = wishes @ weights
    most = weights.sum()
    useful_length = np.clip(length, -1.0, 2.0) / 3.0 + 1.0 / 3.0
    if world.judged:
        total = total + 2.0 * both + world.content_weight * content + world.length_value * useful_length
        most += 2.0 + world.content_weight + world.length_value
    if world.real_styles:
        real = _logistic(responses.normal[..., 3 + world.idle_styles : 3 + styles])
        total = total + real.sum(-1)
        most += world.real_styles
    return {
        "wishes": wishes.mean(-1),
        "both": both,
        "content": content,
        "length": useful_length,
        "clean": clean,
        "quality": clean * (0.75 + 0.25 * responses.yes[..., -1]) * total / most,
    }


def _logistic(x: np.ndarray) -> np.ndarray:
    return 1.0 / (1.0 + np.exp(-x))


def score(world: World, responses: Responses, prompts: Mapping[str, np.ndarray], progress: float) -> np.ndarray:
    """Scores (…, criteria) of programs and judge; NaN = missing. progress: share of the run that is over."""
    truth = rate_truth(world, responses)
    columns = [responses.yes[..., number] for number in range(len(world.wish_rates))]
    if world.judged:
        length, markup = responses.normal[..., LENGTH], responses.normal[..., MARKUP]
        sign = prompts["liking"][..., None] if world.bias_varies else 1.0
        liking = sign * (world.length_bias * length + world.markup_bias * markup)
        share = world.length_value / (world.length_value + world.content_weight)
        content = (1 - share) * truth["content"] + share * truth["length"]
        helpful = (content + truth["wishes"] + truth["both"]) / 3
        columns.append(truth["both"])
        for number, latent in enumerate((content, helpful, content)):
            noise = world.noise * prompts["noise"][..., number]
            impression = latent + liking + noise
            if world.heavy_tails:
                is_arbitrary = prompts["arbitrary"][..., number] < 0.1
                impression = np.where(is_arbitrary, prompts["arbitrary"][..., number] * 10.0, impression)
            if number == 2:
                verdict = (impression > 0.5).astype(float)
            else:
                low, high = world.scale
                verdict = low + (high - low) * np.clip(impression, 0.0, 1.0) + world.drift * progress
                if world.scale_by_prompt:
                    reach = prompts["reach"][..., None]
                    verdict = prompts["level"][..., None] * (1 - reach) + reach * verdict
                verdict = np.round(10.0 * np.clip(verdict, 0.0, 1.0), 0 if world.scale == (0.0, 1.0) else 1)
            is_missing = prompts["missing"][..., number] < world.missing
            columns.append(np.where(is_missing, np.nan, verdict))
    for number in range(world.idle_styles + world.real_styles):
        style = 0.5 + world.style_range * (_logistic(responses.normal[..., 3 + number]) - 0.5)
        columns.append(style if number % 2 else 100.0 * style)
    columns += [truth["clean"], responses.yes[..., -1]]
    return np.stack(columns, axis=-1)


# ------------------------------------------------------------------------------------------------------------ training


@dataclass
class Policy:
    """Parameters of all seeds: means (S, normal features) and log-odds (S, yes/no features)."""

    means: np.ndarray
    odds: np.ndarray


def start_policy(world: World, seeds: int) -> Policy:
    """The policy before training, the same for all seeds."""
    styles = world.idle_styles + world.real_styles
    rates = np.array([*world.wish_rates, 0.4, 0.5, world.clean_rate, 0.8])
    return Policy(np.zeros((seeds, 3 + styles)), np.tile(np.log(rates / (1 - rates)), (seeds, 1)))


def draw_prompts(world: World, draws: np.random.Generator, prompts: int) -> dict[str, np.ndarray]:
    """Everything random of a step: drawn in the same order whatever the policy is."""
    styles = world.idle_styles + world.real_styles
    shape = (prompts, world.group)
    return {
        "shift": 0.7 * draws.standard_normal((prompts, 1)),
        "difficulty": 0.7 * draws.standard_normal((prompts, len(world.wish_rates) + 4)),
        "normal": draws.standard_normal((*shape, 3 + styles)),
        "uniform": draws.random((*shape, len(world.wish_rates) + 4)),
        "noise": draws.standard_normal((*shape, 3)),
        "arbitrary": draws.random((*shape, 3)),
        "missing": draws.random((*shape, 3)),
        "liking": 1.0 + 2.0 * draws.standard_normal(prompts),
        "reach": draws.uniform(0.3, 1.0, prompts),
        "level": draws.random(prompts),
    }


def respond(world: World, policy: Policy, prompts: Mapping[str, np.ndarray]) -> tuple[Responses, np.ndarray]:
    """Responses (S, prompts, group, features), and the pass rates of their yes/no features."""
    normal = policy.means[:, None, None] + prompts["normal"]
    normal[..., CONTENT] += prompts["shift"]  # (S, prompts, 1): a prompt is easy or hard for all responses to it
    rates = _logistic(policy.odds[:, None] + prompts["difficulty"])[:, :, None]
    return Responses(normal, (prompts["uniform"] < rates).astype(float)), rates


def train(world: World, make: Callable[[], Rule], draws: Sequence[np.random.Generator]) -> Policy:
    """Train one policy per generator with its own rule, or with a common one if the rule keeps no state."""
    policy = start_policy(world, len(draws))
    criteria = list_criteria(world)
    first = make()
    rules = [make() for _ in draws] if has_memory(first) else [first]
    for step in range(STEPS):
        drawn = [draw_prompts(world, generator, PROMPTS) for generator in draws]
        prompts = {name: np.stack([draw[name] for draw in drawn]) for name in drawn[0]}
        responses, rates = respond(world, policy, prompts)
        scores = score(world, responses, prompts, step / STEPS)
        attributes = np.exp(
            np.stack([2.5 + 0.5 * responses.normal[..., LENGTH], responses.normal[..., MARKUP] - 1], -1)
        )
        shape = (-1, world.group, scores.shape[-1])
        parts = []
        for part in np.array_split(np.arange(len(draws)), len(rules)):
            batch = ScoreBatch.of_arrays(
                scores[part].reshape(shape),
                criteria=criteria,
                global_quality=["Clean"],
                low_quality=["Tidy"],
                attributes=attributes[part].reshape(-1, world.group, 2),
                attribute_names=["reasoning_length", "markup"],
            )
            parts.append(apply_rule(rules[len(parts)], batch).reward.reshape(len(part), PROMPTS, world.group))
        rewards = np.concatenate(parts)
        centred = rewards - rewards.mean(-1, keepdims=True)
        advantages = (centred / (rewards.std(-1, keepdims=True, ddof=1) + 1e-4))[..., None]
        count = PROMPTS * world.group
        deviations = responses.normal - policy.means[:, None, None]
        deviations[..., CONTENT] -= prompts["shift"]
        policy.means += LEARNING_RATE * (advantages * deviations).sum((1, 2)) / count
        policy.odds += LEARNING_RATE * 4.0 * (advantages * (responses.yes - rates)).sum((1, 2)) / count
    return policy


def measure_quality(world: World, policy: Policy, prompts: int = 400) -> np.ndarray:
    """(S,) true quality on prompts of its own, the same for all rules."""
    drawn = draw_prompts(world, np.random.default_rng(12345), prompts)
    quality = []
    for means, odds in zip(policy.means, policy.odds, strict=True):
        responses, _ = respond(world, Policy(means[None], odds[None]), drawn)
        quality.append(float(rate_truth(world, responses)["quality"].mean()))
    return np.array(quality)


# ------------------------------------------------------------------------------------------------------------- results


def rule_maker(options: Mapping[str, Any]) -> Callable[[], Rule]:
    """Makes a new rule from an arm's options, with control over the run where attributes are named."""

    def make() -> Rule:
        settings = {name: value for name, value in options.items() if name not in ("attributes", "pool")}
        rule = make_rule(RewardOptions(**settings))
        if options.get("attributes"):
            rule = with_options(rule, "tunnel", pool="run", adjust=[attenuate(1.0), attenuate(1.0)])
        return rule

    return make


def run_tunnel(
    arms: Mapping[str, Mapping[str, Any]],
    seeds: int = 32,
    worlds: Sequence[World] = WORLDS,
    report: Callable[[str], None] = lambda line: None,
) -> pl.DataFrame:
    """One row for each world, rule and seed: the gain in true quality."""
    rows = []
    for done, world in enumerate(worlds, start=1):
        number = WORLDS.index(world)  # the random numbers of a world do not depend on which others are run
        start = measure_quality(world, start_policy(world, 1))[0]
        for arm, options in arms.items():
            draws = [np.random.default_rng([number, seed]) for seed in range(seeds)]
            end = measure_quality(world, train(world, rule_maker(options), draws))
            rows += [(world.name, arm, seed, float(end[seed] - start)) for seed in range(seeds)]
        report(f"{done} of {len(worlds)}: {world.name}")
    return pl.DataFrame(
        rows,
        schema={"world": pl.String, "arm": pl.String, "seed": pl.Int16, "gain": pl.Float32},
        orient="row",
    )


def choose_worlds(names: Sequence[str]) -> Sequence[World]:
    """The named worlds; all if none is named."""
    by_name = {world.name: world for world in WORLDS}
    for name in names:
        if name not in by_name:
            raise UnknownName.of("lab tunnel", "--world", name, by_name)
    return [by_name[name] for name in names] or WORLDS


def summarise(shares: pl.DataFrame) -> list[tuple[str, float, float]]:
    """Arm, mean and worst share of the best gain over the worlds, the best mean first; ties by name."""
    summary = shares.group_by("arm").agg(
        pl.col("share").mean().round(6).alias("mean"), pl.col("share").min().round(6).alias("worst")
    )
    return list(summary.sort(["mean", "arm"], descending=[True, False]).iter_rows())


def share_of_best(gains: pl.DataFrame) -> pl.DataFrame:
    """World × arm: mean gain as a share of the best arm's mean gain in that world."""
    means = gains.group_by("world", "arm", maintain_order=True).agg(pl.col("gain").mean())
    return means.with_columns((pl.col("gain") / pl.col("gain").max().over("world")).alias("share"))


def list_arms(arms: Mapping[str, Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """The arms of the laboratory, every other rule with a gate, and the main rules without gate or control."""
    listed = dict(arms)
    # Not arms of the laboratory, which are frozen: what trainers do by default, and RLVR² of GEAR's scores.
    control = ["reasoning_length", "markup"]
    listed[TRAINERS_DEFAULT] = {"rule": "rlvr2:span=model+", "attributes": control}
    listed["RLVR²*GEAR + control"] = {"rule": "rlvr2:span=unit*gear+", "attributes": control}
    for name, expression in (
        ("RLVR² unit+", "rlvr2:span=unit+"),
        ("RLVR² sd+", "rlvr2:span=sd+"),
        ("graded+", "rlvr2:wins=graded+"),
        ("run-quantile+", "run-quantile+"),
        ("RLVR²+ (lift 0.25)", "rlvr2:span=model+"),
        ("RLVR², no gate", "rlvr2:span=model"),
        ("weighted mean, no gate", "weighted-mean"),
        ("GDPO, no gate", "gdpo"),
        ("Focal, no gate", "focal"),
    ):
        listed[name] = {"rule": expression}
    used = {str(options["rule"]).split(":")[0].rstrip("+") for options in listed.values()}
    for name in rule_names():
        if name not in used:
            listed[f"{name}+"] = {"rule": f"{name}+"}
    return listed
