"""`rubrank.training.engine`: groups of a step → rewards and metrics."""

from __future__ import annotations

import json
import math
from contextlib import contextmanager
from typing import Literal, get_args, get_origin, get_type_hints

import pytest
from judged import judges_at, server_module
from scored import RUBRIC, group, groups

from rubrank.errors import InvalidInput, JudgingFailed
from rubrank.fusion.control.adjustment import attenuate
from rubrank.fusion.control.attribute import Attribute
from rubrank.fusion.control.attributes import measure
from rubrank.fusion.control.markdown import MARKERS
from rubrank.fusion.gate import Gate
from rubrank.fusion.rlvr2 import RLVR2
from rubrank.fusion.rules import find_rule
from rubrank.grading.grade import grade
from rubrank.judges.judge import Endpoint, Judge
from rubrank.options import EngineKeywords, EngineOptions
from rubrank.records.files import read_records
from rubrank.rollouts.rollout import Group, Rollout
from rubrank.training.controls import Control
from rubrank.training.engine import Graded, RewardEngine

# -------------------------------------------------------------------------------------------------------------- rewards


@pytest.mark.parametrize("rule", ["rlvr2+", "rlvr2", "gdpo+", "weighted-mean", "rlvr2*focal+", "amrp+", "pow3r"])
def test_rewards_are_those_of_grading_and_the_rule(rule):
    expected = find_rule(rule)(grade(groups(), RUBRIC).batch()).reward
    step = RewardEngine(RUBRIC, rule).score(groups(), 0)
    assert [len(rewards) for rewards in step.rewards] == [4, 3]
    assert step.flat() == pytest.approx(expected.tolist(), abs=1e-12)


def test_a_group_is_scored_alike_in_any_company():
    engine = RewardEngine(RUBRIC)
    together = engine.score(groups(), 0).rewards
    assert together == tuple(engine.score([one], 0).rewards[0] for one in groups())


def test_queries_bring_their_own_rubrics():
    own = {"criteria": [{"name": "Short", "verifier": "WordCount", "params": {"high": 2}}]}
    engine = RewardEngine(["EmptyAnswer"])
    step = engine.score([group("a", "one two three", "one", rubric=own), group("b", "x", "", rubric=RUBRIC)], 0)
    assert step.rewards[0] == (0.25, 1.0)
    assert step.rewards[1][1] == 0.0
    assert "rubrank/EmptyAnswer/mean" in step.metrics
    assert not any("Short" in name or "WordCount" in name for name in step.metrics)  # a query's own have no names
    assert step.metrics["rubrank/score/own"] == pytest.approx((0.0 + 1.0 + 0.0 + 0.0) / 4)


def test_nothing_to_score():
    assert RewardEngine(RUBRIC).score([], 0).rewards == ()


def test_a_single_rollout_and_equal_ones_have_no_signal():
    step = RewardEngine(RUBRIC).score([group("one", "The moon is far away."), group("two", "same", "same")], 0)
    assert step.rewards == ((0.625,), (0.625, 0.625))
    assert step.metrics["rubrank/groups/no_signal"] == 1.0


# ------------------------------------------------------------------------------------------------- missing, and judges


@contextmanager
def answering(verdict):
    """A server whose judge says `verdict(text)`; None: it breaks down over this one."""
    module = server_module()

    def script(asked):
        found = verdict(asked.prompt)
        said = json.dumps({"reasoning": "…", "verdict": found})
        return module.Answer(status=500) if found is None else module.Answer(said)

    with module.Server(script) as server:
        yield server.url


def test_a_rollout_about_which_nothing_is_known_is_nan_but_a_stopped_one_is_zero():
    rubric = ["EmptyAnswer", {"name": "Kind", "question": "Is it kind?"}]
    with answering(lambda text: None if "hello" in text else 1) as url:
        engine = RewardEngine(rubric, judges=judges_at(url, most_missing=0.9))
        step = engine.score([group("a", "hello", "", "thanks")], 0)
    assert math.isnan(step.rewards[0][0])
    assert step.rewards[0][1] == 0.0
    assert step.metrics["rubrank/unknown"] == pytest.approx(1 / 3)
    assert step.metrics["rubrank/judge/missing"] == 0.5
    # The stopped one was never asked about, so its score is not missing.
    assert step.metrics["rubrank/Kind/missing"] == pytest.approx(1 / 3)


def test_a_rollout_that_something_is_known_about_is_not_nan():
    rubric = [{"name": "WordCount", "params": {"low": 2}}, {"name": "Kind", "question": "Is it kind?"}]
    with answering(lambda text: 1 if "third" in text else None) as url:
        engine = RewardEngine(rubric, judges=judges_at(url, most_missing=0.9))
        rewards = engine.score([group("a", "hello", "hello you", "a third")], 0).rewards[0]
    assert not any(map(math.isnan, rewards))
    assert rewards[0] < rewards[1]


def test_too_much_missing_fails_the_step():
    with answering(lambda text: None) as url:
        for allowed in (0.5, 1.0):  # all are too many, whatever is allowed
            judges = judges_at(url, most_missing=allowed)
            engine = RewardEngine([{"name": "Kind", "question": "Is it kind?"}], judges=judges)
            with pytest.raises(JudgingFailed, match="2 of 2 answers are missing"):
                engine.score([group("a", "hello", "you")], 0)


def test_a_judge_that_is_not_there_stops_the_run_at_once():
    engine = RewardEngine([{"name": "Kind", "question": "Is it kind?"}], judges=judges_at("http://127.0.0.1:9/v1"))
    with pytest.raises(InvalidInput, match=r"base_url must be an endpoint that answers.*Start the server"):
        engine.score([group("a", "hello", "you")], 0)


def test_judges_decide_and_their_cost_is_logged():
    module = server_module()

    def script(asked):
        return module.Answer(json.dumps({"reasoning": "…", "verdict": int("please" in asked.prompt)}))

    with module.Server(script) as server:
        engine = RewardEngine([{"name": "Kind", "question": "Is it kind?"}], judges=judges_at(server.url))
        step = engine.score([group("a", "Go away.", "Stay, please.", "Go.")], 0)
    assert step.rewards == ((0.0, 1.0, 0.0),)
    assert step.metrics["rubrank/judge/calls"] == 3
    assert step.metrics["rubrank/judge/cost"] == pytest.approx(3 * (100 * 1.0 + 20 * 2.0) / 1e6)
    assert 0.0 < step.metrics["rubrank/judge/latency_p50"] <= step.metrics["rubrank/judge/latency_p90"]
    assert step.metrics["rubrank/Kind/mean"] == pytest.approx(1 / 3)


def test_a_judged_criterion_wants_a_judge():
    with pytest.raises(InvalidInput, match="criterion 'Kind' must be decided by a verifier or a judge"):
        RewardEngine([{"name": "Kind", "question": "Is it kind?"}])
    other = Judge(criteria=("Other",), endpoints=(Endpoint(base_url="http://x/v1", model="m"),))
    with pytest.raises(InvalidInput, match="no judge for it"):
        RewardEngine([{"name": "Kind", "question": "Is it kind?"}], judges=other)


# -------------------------------------------------------------------------------------------------------------- metrics


def test_metrics_of_a_step():
    step = RewardEngine(RUBRIC).score(groups(), 0)
    found = step.metrics
    assert found["rubrank/WordCount/mean"] == pytest.approx(3 / 7)
    assert found["rubrank/Keyword/ties"] == pytest.approx(3 / 9)  # 2 of 6 pairs, 1 of 3
    assert found["rubrank/gate/stopped"] == found["rubrank/gate/EmptyAnswer"] == pytest.approx(1 / 7)
    assert found["rubrank/gate/factor"] == 1.0
    assert found["rubrank/WordCount/weight"] + found["rubrank/Keyword/weight"] == pytest.approx(1.0)
    assert found["rubrank/answer/words"] == pytest.approx((5 + 1 + 5 + 0 + 2 + 7 + 1) / 7)
    assert found["rubrank/seconds"] > 0.0
    assert all(isinstance(value, float) and math.isfinite(value) for value in found.values())


def test_weights_of_a_rule_that_sets_them_are_logged():
    step = RewardEngine(RUBRIC, "weighted-mean").score(groups(), 0)
    assert step.metrics["rubrank/Keyword/weight"] == pytest.approx(2 / 3)


def test_thoughts_and_markdown_are_measured():
    said = (Rollout(response="# Plan\n\n**do**", reasoning="two words"), Rollout(response="<think>a b c d</think>x"))
    step = RewardEngine(RUBRIC).score([Group(id="a", rollouts=said)], 0)
    assert step.metrics["rubrank/reasoning/words"] == 3.0
    assert step.metrics["rubrank/markdown/heading"] == pytest.approx(0.25)  # half a line in one of two answers


def test_share_of_the_step():
    engine = RewardEngine(RUBRIC)
    assert "rubrank/share_of_step" not in engine.score(groups(), 0).metrics
    assert 0.0 < engine.score(groups(), 1).metrics["rubrank/share_of_step"] <= 1.0


def test_columns_for_a_reader():
    step = RewardEngine(RUBRIC).score(groups(), 0)
    assert step.columns["rubrank/group"] == (("tides",) * 4, ("rain",) * 3)
    assert step.columns["rubrank/scores"][0][1] == "EmptyAnswer 1, WordCount 0, Keyword 1"
    assert step.columns["rubrank/stopped_by"] == (("", "", "", "EmptyAnswer"), ("", "", ""))


# ----------------------------------------------------------------------------------------------------------- attributes


def many(label: str = "0") -> list[Group]:
    """24 groups in which longer answers pass more often, but not always."""
    said = ("The moon pulls the sea, and the sea follows.", "The moon pulls.", "Sea.", "Rain falls here and there.")
    return [group(f"{label}/{g}", *(f"{said[(i + g // 5) % 4]}{' so' * (g % 3)}" for i in range(4))) for g in range(24)]


EVERYTHING = {"adjust_criteria": "all"}  # programs decide this rubric: without a name they are left alone


def test_attributes_are_controlled_from_their_step_on():
    controlled = RewardEngine(RUBRIC, attributes=[Control("answer_length", start=3)], **EVERYTHING)
    plain = RewardEngine(RUBRIC)
    assert controlled.score(many(), 2).rewards == plain.score(many(), 2).rewards
    step = controlled.score(many(), 3)
    assert step.rewards != plain.score(many(), 3).rewards
    found = {name: value for name, value in step.metrics.items() if name.startswith("rubrank/gamma/")}
    assert list(found) == ["rubrank/gamma/answer_length"]  # one line
    assert found["rubrank/gamma/answer_length"] > 0.0  # longer answers win here
    control = step.results[0].control
    was_taken = control.taken_NKD != 0.0
    assert found["rubrank/gamma/answer_length"] == pytest.approx(control.gamma_NKD[was_taken].mean())


def test_verdicts_of_programs_are_left_alone_unless_named():
    plain = RewardEngine(RUBRIC).score(many(), 0)
    assert RewardEngine(RUBRIC, attributes=["answer_length"]).score(many(), 0).rewards == plain.rewards
    named = RewardEngine(RUBRIC, attributes=["answer_length"], adjust_criteria=["WordCount"])
    assert named.score(many(), 0).rewards != plain.rewards


def test_controls_may_begin_one_after_the_other():
    controls = ["markdown", Control("reasoning_length", attenuate(0.5, "fixed"), start=1)]
    engine = RewardEngine(RUBRIC, attributes=controls, **EVERYTHING)
    assert engine.score(groups(), 0).results[0].attribute_names == MARKERS
    later = engine.score(groups(), 1)
    assert later.results[0].attribute_names == (*MARKERS, "reasoning_length")
    assert not any(name.startswith("rubrank/gamma/") for name in later.metrics)  # too few groups: none of them acts


def test_draws_depend_on_the_seed_and_on_the_step():
    def shares(seed: int, label: str) -> list[float]:
        control = Control("answer_length", attenuate(0.5, "bernoulli"))
        return RewardEngine(RUBRIC, attributes=[control], seed=seed, **EVERYTHING).score(many(label), 0).flat()

    assert shares(1, "0") == shares(1, "0")
    assert shares(1, "0") != shares(2, "0")
    assert shares(1, "0") != shares(1, "1")


def test_control_is_learnt_over_the_run_saved_and_restored():
    """The estimate grows with training steps, not with evaluations, and another engine goes on from its state."""

    def engine() -> RewardEngine:
        return RewardEngine(RUBRIC, attributes=["answer_length"], **EVERYTHING)

    first = engine()
    assert first.remembers
    once = first.score(many("0"), 0).results[0].n.max()
    saved = json.loads(json.dumps(first.state_dict()))
    first.score(many("eval"), 1, train=False)
    assert json.loads(json.dumps(first.state_dict())) == saved
    second = engine()
    second.load_state_dict(saved)
    goes_on, restored = first.score(many("1"), 1), second.score(many("1"), 1)
    assert goes_on.rewards == restored.rewards
    assert goes_on.results[0].n.max() == pytest.approx(1.9 * once)
    assert first.state_dict() == second.state_dict()


@pytest.mark.parametrize("pool", ["batch", "group"])
def test_another_pool_remembers_nothing(pool):
    engine = RewardEngine(RUBRIC, attributes=["answer_length"], pool=pool, **EVERYTHING)
    assert not engine.remembers
    assert engine.score(many(), 0).rewards == engine.score(many(), 1).rewards


def test_a_single_group_cannot_be_controlled_and_it_is_said_once():
    engine = RewardEngine(RUBRIC, attributes=["answer_length"], **EVERYTHING)
    with pytest.warns(RuntimeWarning, match="a single group: nothing is removed. Pass the groups"):
        engine.score(groups()[:1], 0)
    engine.score(groups()[:1], 1)


def test_lengths_are_in_tokens_where_all_are_counted(tmp_path):
    def counted(g: Group) -> Group:
        counts = [{"reasoning": 100 * i, "answer": 7} for i in range(len(g.rollouts))]
        rollouts = (r.model_copy(update={"token_counts": c}) for r, c in zip(g.rollouts, counts, strict=True))
        return g.model_copy(update={"rollouts": tuple(rollouts)})

    some = many()
    engine = RewardEngine(RUBRIC, attributes=["total_length"], records=tmp_path / "r.jsonl", **EVERYTHING)
    found = engine.score([counted(g) for g in some], 0).metrics
    assert (found["rubrank/reasoning/tokens"], found["rubrank/answer/tokens"]) == (150.0, 7.0)
    record = next(iter(read_records(tmp_path / "r.jsonl")))
    assert record.attributes == ((7.0,), (107.0,), (207.0,), (307.0,))
    assert record.tokens == ((0, 7), (100, 7), (200, 7), (300, 7))
    mixed = engine.score([counted(some[0]), *some[1:]], 1).metrics  # one unit in a step
    assert "rubrank/reasoning/tokens" not in mixed


def test_a_pool_that_the_rule_names_is_kept():
    assert not RewardEngine(RUBRIC, "rlvr2:pool=group+", attributes=["answer_length"]).remembers
    assert RewardEngine(RUBRIC, "rlvr2*focal+", attributes=["answer_length"]).remembers
    assert not RewardEngine(RUBRIC, "rlvr2+").remembers


def test_own_reasoning_is_measured_apart_from_the_answer():
    said = tuple(Rollout(response="the moon is far", reasoning="word " * n) for n in (1, 50, 3))
    engine = RewardEngine(RUBRIC, attributes=["reasoning_length", "answer_length"], pool="group")
    assert engine.score([Group(id="a", rollouts=said)], 0).rewards == ((0.625, 0.625, 0.625),)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (["answer_lenght"], "Did you mean 'answer_length'"),
        (["markdown", "markdown"], "twice"),
        ([Control("answer_length"), Attribute("x", ("answer_length",), len)], "answer_length"),
    ],
)
def test_attributes_that_cannot_be(given, message):
    with pytest.raises(InvalidInput, match=message):
        RewardEngine(RUBRIC, attributes=given)


ARMS = [
    "weighted-mean+",
    "gear+",
    "run-quantile+",
    "rlvr2:span=unit+",
    "rlvr2:wins=graded+",
    "rlvr2:wins=graded:width=run+",
]


@pytest.mark.parametrize("rule", ARMS)
def test_every_rule_controls_attributes_over_the_run(rule, tmp_path):
    """Its state grows with training steps alone, is saved and restored, and records say what was taken out."""

    def engine(**options) -> RewardEngine:
        names = ["answer_length", "markup"]
        return RewardEngine(RUBRIC, rule, attributes=names, adjust="attenuate:1", **EVERYTHING, **options)

    first = engine(records=tmp_path / "r.jsonl")
    assert first.remembers
    step = first.score(many("0"), 0)
    assert step.rewards != RewardEngine(RUBRIC, rule).score(many("0"), 0).rewards
    assert step.metrics["rubrank/gamma/answer_length"] > 0.0
    saved = json.loads(json.dumps(first.state_dict()))
    first.score(many("eval"), 1, train=False)
    assert json.loads(json.dumps(first.state_dict())) == saved
    second = engine()
    second.load_state_dict(saved)
    assert second.score(many("1"), 1).rewards == first.score(many("1"), 1).rewards
    record = next(iter(read_records(tmp_path / "r.jsonl")))
    assert record.attribute_names == ("answer_length", "markup")
    assert any(taken for row in record.taken for taken in row)


def test_markup_is_the_sum_of_the_densities():
    texts = ["# Plan\n\n- **fast**\n- cheap", "plain"]
    some = [group("a", *texts)]
    engine = RewardEngine(RUBRIC, attributes=["markup"], pool="group")
    batch = engine.score(some, 0).results[0].batch
    assert batch.attribute_names == ("markup",)
    assert batch.attributes_MD[:, 0].tolist() == [(1 + 1 + 2) / 3, 0.0]
    assert measure(texts, ["markup"]).values[:, 0].tolist() == [(1 + 1 + 2) / 3, 0.0]


def test_controls_that_cannot_be():
    with pytest.raises(InvalidInput, match="adds up scores"):
        RewardEngine(RUBRIC, "all-or-nothing", attributes=["markdown"])
    with pytest.raises(InvalidInput, match="start must be a step"):
        Control("markdown", start=-1)
    with pytest.raises(InvalidInput, match="adjust must be"):
        Control("markdown", "drop")  # type: ignore[arg-type]


def test_weights_that_learn_go_on_learning_when_a_control_begins():
    engine = RewardEngine(RUBRIC, "rlvr2*amrp+", attributes=[Control("answer_length", start=1)])
    plain = RewardEngine(RUBRIC, "rlvr2*amrp+")
    for step in range(3):
        engine.score(groups(), step)
        plain.score(groups(), step)
    learnt, expected = (one.state_dict()["memory"]["gated"] for one in (engine, plain))
    assert learnt["weighing"] == expected["weighing"]
    assert (learnt["ordinal"]["running"]["attributes"], expected["ordinal"]) == (["answer_length"], None)


@pytest.mark.parametrize(
    "options",
    [
        {"gate": {"flor": 0.5}},
        {"rule": find_rule("rlvr2+"), "gate": Gate()},
        {"rule": RLVR2},
        {"rule": 42},
        {"penalties": "drop"},
        {"pool": "step"},
        {"cache": 3},
    ],
    ids="-".join,
)
def test_options_of_another_kind_are_refused_before_anything_is_scored(options):
    with pytest.raises(InvalidInput, match=list(options)[-1]):
        RewardEngine(RUBRIC, **options)


# ------------------------------------------------------------------------------------------------------------- watching


def test_watched_criteria_are_logged_and_change_no_reward(tmp_path):
    short = {"name": "Short", "verifier": "WordCount", "params": {"high": 4}, "layer": "watch"}
    watching = RewardEngine([*RUBRIC, short], records=tmp_path / "r.jsonl")
    step = watching.score(groups(), 0)
    plain = RewardEngine(RUBRIC).score(groups(), 0)
    assert step.rewards == plain.rewards
    assert step.metrics["rubrank/score"] == plain.metrics["rubrank/score"]
    record = next(iter(read_records(tmp_path / "r.jsonl")))
    column = [criterion.name for criterion in record.criteria].index("Short")
    assert 0.0 < step.metrics["rubrank/Short/mean"] < 1.0
    assert "rubrank/Short/weight" not in step.metrics
    assert {row[column] for row in record.scores} <= {0.0, 1.0}


def test_a_hold_out_judge_is_asked_and_not_rewarded():
    """The same question twice, each with a judge of its own: the second verdict is logged alone."""
    module = server_module()

    def kind(asked):
        return module.Answer(json.dumps({"reasoning": "…", "verdict": int("please" in asked.prompt)}))

    def unkind(asked):
        return module.Answer(json.dumps({"reasoning": "…", "verdict": int("please" not in asked.prompt)}))

    rubric = [
        {"name": "Kind", "question": "Is it kind?"},
        {"name": "Kind (hold-out)", "question": "Is it kind?", "layer": "watch"},
    ]
    with module.Server(kind) as first, module.Server(unkind) as second:
        hold_out = Judge(
            name="other",
            criteria=("Kind (hold-out)",),
            endpoints=(Endpoint(base_url=second.url, model="another-model"),),
        )
        judges = judges_at(first.url)
        judges = judges.model_copy(update={"judges": (hold_out, *judges.judges)})
        step = RewardEngine(rubric, judges=judges).score([group("a", "Go away.", "Stay, please.", "Go.")], 0)
    assert step.rewards == ((0.0, 1.0, 0.0),)
    assert step.metrics["rubrank/Kind/mean"] == pytest.approx(1 / 3)
    assert step.metrics["rubrank/Kind (hold-out)/mean"] == pytest.approx(2 / 3)


def list_choices(annotation):
    """The words of the literals in an annotation."""
    kinds = (annotation, *get_args(annotation))
    return {word for kind in kinds if get_origin(kind) is Literal for word in get_args(kind)}


def test_keywords_for_editors_are_the_options_of_an_engine():
    """`EngineKeywords` repeats the names and choices of `EngineOptions` for type checkers; nothing may be missing."""
    keywords = get_type_hints(EngineKeywords)
    fields = EngineOptions.model_fields
    assert set(keywords) == set(fields) - {"rubric", "rule"}
    for name, hint in keywords.items():
        if name != "adjust_criteria":  # "all" is a text like any other
            assert list_choices(hint) == list_choices(fields[name].annotation), name


def test_parts_of_a_step_that_were_graded_at_the_same_time_are_joined():
    first, second = (RewardEngine(RUBRIC).grade([one]) for one in groups())
    parts = [Graded(first.groups, seconds=2.0, hidden=1.0), Graded(second.groups, seconds=1.0, hidden=3.0)]
    joined = Graded.join(parts)
    assert joined.groups == (*first.groups, *second.groups)
    assert (joined.seconds, joined.hidden) == (2.0, 3.0)
    assert Graded.join([]).groups == ()
