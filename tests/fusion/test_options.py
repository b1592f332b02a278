"""Options of a reward: declared once, with the same defaults everywhere, and errors that name the option."""

from __future__ import annotations

import pickle

import numpy as np
import polars
import pytest

from rubrank import (
    RLVR2,
    FuseOptions,
    Gate,
    InvalidInput,
    RewardEngine,
    ScoreBatch,
    UnknownName,
    find_rule,
    fuse,
    utilities,
)
from rubrank.errors import UnknownOption
from rubrank.fusion.options import make_fuse_rule, make_rule
from rubrank.options import EngineOptions, GateOptions, RewardOptions

SCORES = [[1, 0.5], [0, 1.0], [1, 1.0]]
RUBRIC = ["EmptyAnswer"]


@pytest.mark.parametrize("name", ["prior", "attribute_prior", "span", "scale", "seed"])
def test_rlvr2_has_the_declared_defaults(name):
    assert getattr(RLVR2(), name) == RewardOptions.model_fields[name].default


def test_the_gate_has_the_declared_defaults():
    for name in ("threshold", "floor", "shape", "missing"):
        assert getattr(Gate(), name) == GateOptions.model_fields[name].default


@pytest.mark.parametrize("model", [RewardOptions, FuseOptions, EngineOptions, GateOptions])
def test_every_option_is_described(model):
    assert [name for name, field in model.model_fields.items() if not field.description] == []


@pytest.mark.parametrize(
    ("call", "nearest"),
    [
        (lambda: fuse(SCORES, rulee="gdpo"), "rule"),
        (lambda: fuse(SCORES, weight=[1, 2]), "weights"),
        (lambda: RLVR2(piror=2), "prior"),
        (lambda: Gate(flor=0.5), "floor"),
        (lambda: FuseOptions(wieght={"A": 1}), "weight"),
        (lambda: RewardEngine(RUBRIC, atributes=["markdown"]), "attributes"),
        (lambda: RewardOptions(gate={"flor": 1}), "floor"),
    ],
)
def test_an_unknown_keyword_names_the_nearest(call, nearest):
    with pytest.raises(InvalidInput, match=f"Did you mean '{nearest}'") as error:
        call()
    assert "\n" not in str(error.value)


def test_an_unknown_keyword_is_a_type_error_as_well():
    with pytest.raises(TypeError):
        fuse(SCORES, nonsense=1)


def test_fuse_takes_any_rule():
    assert fuse(SCORES, rule="borda").tolist() == find_rule("borda")(ScoreBatch.of_arrays(SCORES)).reward.tolist()
    assert fuse(SCORES, rule=find_rule("focal:gamma=2")).tolist() == fuse(SCORES, rule="focal", gamma=2).tolist()
    with pytest.raises(InvalidInput, match="threshold"):
        fuse(SCORES, rule="all-or-nothing", attributes=[[1], [2], [3]])


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"prior": -1}, "prior"),
        ({"pool": "runn"}, "pool"),
        ({"gate": {"floor": 2}}, "gate.floor"),
        ({"weight": {"A": 0}}, "weight.A"),
        ({"domain": {"A": "5:1"}}, "domain"),
        ({"adjust": "attenuate:2"}, "adjust"),
        ({"attributes": ["tokens=remov"]}, "attributes"),
        ({"seed": True}, "seed"),
    ],
)
def test_an_error_carries_its_field(options, field):
    with pytest.raises(InvalidInput) as error:
        FuseOptions(**options)
    assert error.value.field == field
    assert pickle.loads(pickle.dumps(error.value)).field == field


def test_an_error_about_the_content_of_a_file_has_no_field():
    assert InvalidInput("scores.csv", "row 3", "a number", "'x'", "").field is None
    assert UnknownName.of("scores.csv", "column", "x", ["y"], field="group_column").field == "group_column"


def test_written_forms_mean_the_same():
    written = FuseOptions.model_validate(
        {"attribute-prior": "2", "lower": "A", "weight": ["A=2"], "attributes": "tokens=attenuate:0.5:uniform"}
    )
    plain = FuseOptions(
        attribute_prior=2.0,
        lower=("A",),
        weight={"A": 2.0},
        attributes=[{"name": "tokens", "attenuate": 0.5, "draw": "uniform"}],
    )
    assert written == plain


def test_an_option_that_is_not_set_leaves_the_rule_alone():
    assert make_rule(RewardOptions(rule="rlvr2:prior=2")).prior == 2
    assert make_rule(RewardOptions(rule="rlvr2:prior=2", prior=3)).prior == 3
    assert make_rule(RewardOptions(rule="gdpo", prior=1.0)).name == "gdpo"
    with pytest.raises(InvalidInput, match="if `prior` is given"):
        make_rule(RewardOptions(rule="gdpo", prior=2.0))


def test_attributes_say_what_is_done_about_them():
    rule = make_fuse_rule(FuseOptions(rule="rlvr2", attributes=["a", "b=remove"], adjust="attenuate:0.5"))
    assert [str(adjust) for adjust in rule.adjust] == ["attenuate(0.5, fixed)", "remove"]
    assert np.isclose(rule.adjust[0].lam, 0.5)


@pytest.mark.parametrize("pool", ["batch", "group"])
def test_compared_rules_are_controlled_too(pool):
    """A rule with control beside rules without it would be no comparison; "group" is something only RLVR² has."""
    rng = np.random.default_rng(0)
    tokens = rng.uniform(10, 100, (32, 6))
    scores = 0.3 * np.log(tokens) - 0.5 + 0.1 * rng.random((32, 6))
    batch = ScoreBatch.of_arrays(scores[..., None], attributes=tokens[..., None], attribute_names=["tokens"])
    options = FuseOptions(rule="rlvr2", attributes=["tokens"], pool=pool)
    for name in ("rlvr2", "weighted-mean", "gear+"):
        rule = make_fuse_rule(options, name)
        assert rule(batch).control is not None
        assert not np.array_equal(rule(batch).reward, find_rule(name)(batch).reward)
    # A small adjustment would decide which scores reach the threshold of this one.
    assert make_fuse_rule(options, "all-or-nothing")(batch).control is None


FRAME = {"F": [1, 0, 1, 1], "S": [3, 4, 5, 2]}


def fuse_frame(**options):
    frame = polars.DataFrame({"prompt_id": ["a", "a", "b", "b"], **FRAME})
    return fuse(frame, groups="prompt_id", criteria=["F", "S"], **options)


def test_a_rule_that_adds_scores_is_told_their_scales():
    expected = [1 / 2 + 2 / 8, 3 / 8, 1 / 2 + 4 / 8, 1 / 2 + 1 / 8]
    assert fuse_frame(rule="weighted-mean", domains={"S": (1, 5)}) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("options", "remedy"),
    [
        ({}, r"Give its scale: domains=\{'S': \(LOW, HIGH\)\}"),
        ({"domains": {"S": (5, 1)}}, r"low < high; got \(5, 1\)"),
        ({"domains": {"S": 5}}, "two numbers"),
        ({"domains": {"T": (1, 5)}}, "one of 'F', 'S'"),
        ({"domains": (1, 5)}, "by criterion"),
        ({"flor": 1}, "Did you mean 'floor'"),
        ({"group": "x"}, "Did you mean 'groups'"),
    ],
)
def test_wrong_keywords_beside_a_rule(options, remedy):
    with pytest.raises(InvalidInput, match=remedy):
        fuse_frame(rule="gdpo", **options)


def test_an_attribute_keeps_its_draw_with_the_common_adjustment():
    options = RewardOptions(attributes=[{"name": "tokens", "draw": "uniform"}, "markdown"], adjust="attenuate:0.5")
    assert [options.adjustment_of(attribute) for attribute in options.attributes] == [(0.5, "uniform"), (0.5, "fixed")]


def test_keys_may_have_hyphens():
    assert RewardOptions(**{"attribute-prior": 2}).attribute_prior == 2.0
    with pytest.raises(UnknownOption, match="Did you mean 'attribute_prior'"):
        RewardOptions(**{"atribute-prior": 2})


def test_options_beside_a_rule_object_are_refused_by_name():
    scores = [[1.0, 2.0], [2.0, 1.0]]
    with pytest.raises(UnknownOption, match="outcomes must be left out: a rule object has its options already"):
        fuse(scores, rule=find_rule("gdpo"), outcomes="soft")
    with pytest.raises(UnknownOption, match=r"got 'rule'\.$"):
        utilities(scores, rule="gdpo")
