"""An audit finds what was put into simulated judges, and finds nothing in a clean one.

heard = quality + bias · (log length, standardised) + markup · (has Markdown) + noise          told in five levels
"""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from rubrank.cli.verbs.judge import show_audit
from rubrank.errors import InvalidInput, UnknownName
from rubrank.scores.criterion import CriterionData
from rubrank.scores.table import GroupScores, ScoreTable
from rubrank.studies.audit.audit import audit, audit_files
from rubrank.studies.audit.result import list_unmeasured
from rubrank.verifiers.verifier import discrete

pytestmark = pytest.mark.slow

N, G, K = 80, 8, 2
NAMES = ("Clarity", "Depth")


class World:
    """Responses of known quality, length and Markdown, and judges of known vices."""

    def __init__(self, seed=0):
        self.rng = np.random.default_rng(seed)
        self.quality, self.log_length = self.rng.normal(size=(2, N, G))
        self.marked = self.rng.random((N, G)) < 0.5
        self.words = np.round(200 * np.exp(0.5 * self.log_length)).astype(int)

    def scores(self, bias=0.0, markup=0.0, noise=0.5, missing=0.0):
        heard = (self.quality + bias * self.log_length + markup * self.marked)[..., None]
        heard = heard + noise * self.rng.normal(size=(N, G, K))
        told = np.digitize(heard, np.quantile(heard, [0.2, 0.4, 0.6, 0.8])).astype(float)
        told[self.rng.random(told.shape) < missing] = np.nan
        return told

    @property
    def texts(self):
        """All of them; a fifth of the lines is bold in some."""
        return [
            "\n".join(("**word**" if bold and i % 5 == 0 else "word") for i in range(n))
            for n, bold in zip(self.words.ravel().tolist(), self.marked.ravel().tolist(), strict=True)
        ]


def table(scores, names=NAMES, groups=None, **options):
    criteria = tuple(CriterionData(name, domain=discrete(0, 1, 2, 3, 4), **options) for name in names)
    ids = [f"q{g}" for g in range(len(scores))] if groups is None else groups
    reasons = tuple(("",) * len(names) for _ in range(scores.shape[1]))
    return ScoreTable(tuple(GroupScores(id, criteria, x, reasons) for id, x in zip(ids, scores, strict=True)))


def only(rows, **wanted):
    found = [row for row in rows if all(getattr(row, key) == value for key, value in wanted.items())]
    assert len(found) == 1, (wanted, found)
    return found[0]


# ---------------------------------------------------------------------------------------------------------- what it is


@pytest.fixture(scope="module")
def result():
    world = World()
    judges = {
        "clean": [world.scores(), world.scores()],
        "long": world.scores(bias=1.0),
        "bold": world.scores(markup=1.5),
        "noisy": [world.scores(noise=3.0), world.scores(noise=3.0)],
    }
    positions = {
        "clean": {"Clarity": (51.5, 100), "Depth": (49, 100)},
        "long": {"Clarity": (160, 200)},
    }
    return audit(
        judges, humans=world.scores(noise=0.3), criteria=NAMES, texts=world.texts, positions=positions, bootstrap=100
    )


def test_a_clean_judge_comes_out_clean(result):
    for attribute in ("answer_length", "markdown"):
        bias = only(result.bias, judge="clean", criterion=None, attribute=attribute)
        assert abs(bias.gamma.value) < 0.3
        assert 0.7 < bias.odds.value < 1.4
        assert bias.wins.value == pytest.approx(0.5, abs=0.05)
        assert bias.excess.low < 0.0 < bias.excess.high
    assert only(result.position, judge="clean", criterion=None).first.value == pytest.approx(0.5025)
    assert only(result.agreement, a="clean", b="humans", criterion=None).tau_within.low > 0.5


@pytest.mark.slow
def test_intervals_of_clean_judges_hold_nothing():
    """In twenty worlds in which neither length nor Markdown has to do with quality, as often as they should."""
    held = np.zeros((3, 2))
    for seed in range(20):
        world = World(100 + seed)
        attributes = np.stack([world.words, 0.2 * world.marked], axis=-1)
        found = audit(world.scores()[..., :1], attributes=attributes, bootstrap=60).bias[:2]
        held[0] += [b.gamma.low < 0.0 < b.gamma.high for b in found]
        held[1] += [b.odds.low < 1.0 < b.odds.high for b in found]
        held[2] += [b.wins.low < 0.5 < b.wins.high for b in found]
    assert (held >= 17).all()


def test_length_bias_is_found_where_it_is(result):
    for criterion in (*NAMES, None):
        bias = only(result.bias, judge="long", criterion=criterion, attribute="answer_length")
        assert bias.gamma.low > 0.8
        assert bias.excess.low > 0.5
        assert bias.odds.low > 1.5
        assert 0.6 < bias.wins.low < bias.wins.high < 0.8
        other = only(result.bias, judge="long", criterion=criterion, attribute="markdown")
        assert abs(other.gamma.value) < 0.3
        assert other.excess.low < 0.0 < other.excess.high


def test_markdown_bias_is_found_where_it_is(result):
    bias = only(result.bias, judge="bold", criterion=None, attribute="markdown")
    assert bias.gamma.low > 0.4
    assert bias.wins.low > 0.55
    length = only(result.bias, judge="bold", criterion=None, attribute="answer_length")
    assert abs(length.gamma.value) < 0.3


def test_consistency_tells_noise(result):
    clean, noisy = (only(result.consistency, judge=name, criterion=None) for name in ("clean", "noisy"))
    assert clean.alpha.low > 0.7 > 0.4 > noisy.alpha.high
    assert clean.identical.low > noisy.identical.high
    assert clean.runs == 2
    assert {row.judge for row in result.consistency} == {"clean", "noisy"}


def test_position_bias(result):
    first = only(result.position, judge="long", criterion="Clarity").first
    theirs = stats.binomtest(160, 200).proportion_ci(0.95, method="wilson")
    assert (first.value, first.low, first.high) == pytest.approx((0.8, theirs.low, theirs.high))
    pooled = only(result.position, judge="clean", criterion=None).first
    assert (pooled.value, pooled.n) == (pytest.approx(100.5 / 200), 200)


def test_who_agrees_with_humans(result):
    clean, long, noisy = (
        only(result.agreement, a=name, b="humans", criterion=None) for name in ("clean", "long", "noisy")
    )
    for coefficient in ("kappa", "alpha", "tau_within", "tau"):
        best, worse, worst = (getattr(row, coefficient) for row in (clean, long, noisy))
        assert best.low > worse.high > worse.low > worst.high


def test_what_is_not_measured_is_said(result):
    assert list_unmeasured(result) == [
        "position bias (bold, noisy): no comparisons of responses shown in an order",
        "self-consistency (long, bold): one run only: ask the same questions again",
    ]


def test_the_mean_over_criteria_is_that(result):
    each = [only(result.agreement, a="clean", b="long", criterion=name).tau for name in NAMES]
    mean = only(result.agreement, a="clean", b="long", criterion=None).tau
    assert mean.value == pytest.approx(np.mean([one.value for one in each]))
    assert min(one.low for one in each) < mean.low < mean.value < mean.high < max(one.high for one in each)


def test_one_judge_and_one_run_will_do():
    found = audit(World().scores(missing=0.1), bootstrap=50)
    assert found.judges == ("judge",)
    assert (found.agreement, found.bias, found.consistency, found.position) == ((), (), (), ())
    asked = {row.criterion: row.asked for row in found.coverage}
    assert asked == {"criterion 1": 640, "criterion 2": 640, None: 1280}
    assert {one.what for one in found.unmeasured} == {
        "self-consistency",
        "agreement between judges",
        "agreement with humans",
        "position bias",
        "length and Markdown bias",
    }


def test_missing_and_ties_are_counted():
    scores = np.array([[[1.0], [1.0], [2.0], [np.nan]], [[3.0], [3.0], [3.0], [3.0]]])
    found, _ = audit([scores, scores], bootstrap=0).coverage
    assert (found.asked, found.missing, found.all_tied) == (16, 2, 1)
    assert found.ties.value == pytest.approx(7 / 9)  # of the first run: 1 of 3 pairs, and 6 of 6
    assert found.ties.n == 9


def test_seeds(result):
    world = World(3)
    scores, lengths = {"a": world.scores(), "b": world.scores()}, world.words[..., None]
    one, same, other = (audit(scores, attributes=lengths, bootstrap=30, seed=seed) for seed in (1, 1, 2))
    assert one == same
    assert one.bias != other.bias
    assert one.bias[0].gamma.value == other.bias[0].gamma.value


def test_the_order_of_rows_does_not_matter():
    world = World(1)
    scores, words = world.scores(bias=0.5).reshape(-1, K), world.words.reshape(-1, 1)
    humans = world.scores().reshape(-1, K)
    groups = np.repeat(np.arange(N), G)
    order = np.argsort(np.tile(np.arange(G), N), kind="stable")  # first rollouts of all groups first
    straight, mixed = (
        audit(scores[o], humans=humans[o], groups=groups[o], attributes=words[o], bootstrap=20)
        for o in (np.arange(N * G), order)
    )
    for a, b in zip(straight.agreement, mixed.agreement, strict=True):
        assert (a.kappa.low, a.tau.high) == pytest.approx((b.kappa.low, b.tau.high))
    for c, d in zip(straight.bias, mixed.bias, strict=True):
        assert (c.gamma.value, c.gamma.low, c.wins.high) == pytest.approx((d.gamma.value, d.gamma.low, d.wins.high))


def test_several_human_raters():
    world = World(2)
    raters = [world.scores(noise=1.5) for _ in range(3)]
    found = audit(world.scores(), humans=raters, criteria=NAMES, bootstrap=50)
    assert (found.human_raters.runs, found.human_raters.judge) == (3, "humans")
    mean, single = (
        only(audit(world.scores(), humans=h, criteria=NAMES, bootstrap=0).agreement, criterion=None).tau_within.value
        for h in (raters, raters[0])
    )
    assert mean > single + 0.05


# ------------------------------------------------------------------------------------------------ tables, comparisons


def test_tables_and_arrays_give_the_same():
    world = World(4)
    a, b = world.scores(), world.scores(missing=0.1)
    of_arrays = audit({"a": a, "b": b}, criteria=NAMES, texts=world.texts, bootstrap=20)
    of_tables = audit({"a": table(a), "b": table(b)}, texts=world.texts, bootstrap=20)
    assert repr(of_arrays) == repr(of_tables)  # NaN is not equal to itself


def test_groups_that_were_not_asked_are_not_missing():
    world = World(5)
    scores, labels = world.scores(), world.scores()
    humans = table(labels[20:40, :, :1], ["Clarity"], [f"q{g}" for g in range(39, 19, -1)])
    found = audit({"a": table(scores), "b": table(scores[:30])}, humans=humans, bootstrap=0)
    assert only(found.coverage, judge="b", criterion="Depth").asked == 30 * G
    assert only(found.coverage, judge="b", criterion="Depth").missing == 0
    together = only(found.agreement, a="a", b="humans", criterion="Clarity").tau
    turned = labels[20:40, :, 0][::-1]
    assert together.value == pytest.approx(stats.kendalltau(scores[20:40, :, 0].ravel(), turned.ravel()).statistic)
    assert together.n == 20 * G
    assert only(found.agreement, a="b", b="humans", criterion="Clarity").tau.n == 10 * G
    assert not [row for row in found.agreement if row.b == "humans" and row.criterion == "Depth"]


def test_lower_is_better_is_turned_round():
    world = World(6)
    scores = world.scores(bias=1.0)
    plain, turned = (
        audit(t, attributes=world.words[..., None].reshape(-1, 1), bootstrap=0)
        for t in (table(scores), table(4.0 - scores, direction="lower"))
    )
    assert plain.bias[0].gamma.value == pytest.approx(turned.bias[0].gamma.value)
    assert turned.bias[0].gamma.value > 0.5


def test_margins_make_ties():
    scores = World(7).scores()
    narrow, wide = (audit(table(scores, margin=m), bootstrap=0).coverage[0].ties.value for m in (0.0, 1.0))
    assert wide > narrow + 0.2


def test_rule_criteria_are_left_out_unless_named():
    scores = World(8).scores()
    ruled = table(scores, verifier="WordCount")
    with pytest.raises(InvalidInput, match="criteria must be some that a judge decides"):
        audit(ruled)
    assert audit(ruled, criteria=["Depth"], bootstrap=0).criteria == ("Depth",)


def compared(world, gamma, seed=0):
    """Pairs judged one by one by the very model that is fitted; a quarter of them not at all."""
    rng = np.random.default_rng(seed)
    groups = []
    for quality, words in zip(world.quality, world.words, strict=True):
        z = (words[:, None] - words) / (words[:, None] + words)
        z = z / np.sqrt((z**2).sum() / (G * (G - 1)))
        won = (rng.random((G, G)) < 1.0 / (1.0 + np.exp(-(quality[:, None] - quality + gamma * z)))).astype(float)
        won[rng.random((G, G)) < 0.25] = np.nan
        upper = np.triu(np.ones((G, G), bool), 1)
        won = np.where(upper, won, np.where(upper.T, 1.0 - won.T, np.nan))
        groups.append(won)
    return groups


def table_of_outcomes(outcomes):
    empty, reasons = np.full((G, 1), np.nan), (("",),) * G
    criteria = (CriterionData("Clarity"),)
    return ScoreTable(
        tuple(GroupScores(f"q{g}", criteria, empty, reasons, {"Clarity": x}) for g, x in enumerate(outcomes))
    )


@pytest.mark.parametrize("gamma", [0.0, 0.8])
def test_comparisons_are_audited_as_they_are(gamma):
    """γ of the model that made them comes back; the priors take about a sixth of it off."""
    world = World(9)
    tables = [table_of_outcomes(compared(world, gamma, seed)) for seed in (0, 1)]
    found = audit({"ranker": tables}, texts=world.texts, measures=["answer_length"], bootstrap=40)
    (bias,) = [row for row in found.bias if row.criterion == "Clarity"]
    assert bias.gamma.value == pytest.approx(0.84 * gamma, abs=0.2)
    assert (bias.gamma.low > 0.0) == (gamma > 0.0)
    assert found.coverage[0].ties.value == 0.0
    assert found.coverage[0].ties.n == pytest.approx(N * 21, rel=0.05)
    assert 0.3 < only(found.consistency, criterion=None).alpha.value < 0.9


def test_the_retest_deviation_is_pooled_over_responses():
    first = np.array([[0.0, 1.0], [1.0, 1.0], [0.5, np.nan]])
    again = np.array([[1.0, 1.0], [1.0, 0.0], [0.5, 0.0]])
    third = np.array([[0.5, 1.0], [np.nan, 0.0], [0.5, np.nan]])
    found = audit([first, again, third], criteria=["Tone", "Depth"], bootstrap=0)
    # Tone: squares 0.5 (0, 1, 0.5), 0, 0 over 2 + 1 + 2 degrees of freedom; Depth: 0 and 2/3 over 2 + 2
    assert found.retest == pytest.approx({"Tone": math.sqrt(0.5 / 5), "Depth": math.sqrt(2 / 3 / 4)})
    assert math.isnan(only(found.consistency, criterion=None).deviation.value)
    assert audit(first, bootstrap=0).retest == {}


# --------------------------------------------------------------------------------------------------------- out and in


def test_as_dict_is_plain(result):
    data = json.loads(json.dumps(result.as_dict(), allow_nan=False))
    assert data["judges"] == ["clean", "long", "bold", "noisy"]
    assert data["bias"][0]["gamma"]["low"] < data["bias"][0]["gamma"]["high"]
    assert data["human_raters"] is None
    without = audit(World().scores(), bootstrap=0).as_dict()
    assert without["coverage"][0]["ties"]["low"] is None


@pytest.mark.parametrize("width", [80, 160])
def test_tables_on_the_terminal(result, width, monkeypatch, capsysbinary):
    monkeypatch.setenv("COLUMNS", str(width))
    show_audit(result, details=True)
    text = capsysbinary.readouterr().out.decode()
    tables = text.split("not measured")[0].splitlines()[1:]
    assert max(map(len, tables)) <= width
    assert "clean, long, bold, noisy: 640 rollouts in 80 groups" in text
    assert "0.80 [0.74, 0.85]" in text  # position of "long"
    assert "self-consistency (long, bold): one run only" in text
    assert "Depth" in text
    show_audit(result)
    assert "Depth" not in capsysbinary.readouterr().out.decode()


def test_from_files(tmp_path):
    world = World(10)
    once, again, labels = world.scores(bias=1.0), world.scores(bias=1.0), world.scores()
    for name, scores in {"main.parquet": once, "again.jsonl": again, "labels.parquet": labels}.items():
        table(scores).write(tmp_path / name)
    texts = np.reshape(np.array(world.texts, object), (N, G))
    rows = [
        {"id": f"q{g}", "prompt": f"Question {g}", "response": f"<think>{'hm ' * 500}</think>{text}"}
        for g in range(N - 1, -1, -1)
        for text in texts[g]
    ]
    (tmp_path / "rollouts.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (tmp_path / "positions.json").write_text('{"main": {"Clarity": [30, 40]}}')
    found = audit_files(
        [tmp_path / "main.parquet", f"main={tmp_path / 'again.jsonl'}"],
        humans=tmp_path / "labels.parquet",
        rollouts=tmp_path / "rollouts.jsonl",
        positions=tmp_path / "positions.json",
        bootstrap=30,
    )
    here = audit(
        {"main": [table(once), table(again)]},
        humans=table(labels),
        texts=world.texts,
        positions={"Clarity": (30, 40)},
        bootstrap=30,
    )
    assert repr(found) == repr(here)
    assert found.unmeasured == (type(found.unmeasured[0])("agreement between judges", "main", "no other judge"),)


# -------------------------------------------------------------------------------------------------------------- errors


def bad(message, *args, error=InvalidInput, **options):
    with pytest.raises(error, match=message):
        audit(*args, bootstrap=0, **options)


def test_errors_say_what_is_wrong(tmp_path):
    world = World()
    scores = world.scores()
    bad("scores must be those of at least one judge", {})
    bad("arrays of the same shape", {"a": scores, "b": scores[:3]})
    bad("shape", scores.ravel())
    bad("infinity", np.full((3, 2), np.inf))
    bad("groups must be a list of 640 labels", scores.reshape(-1, K), groups=["a"])
    bad("criteria must be 2 different names", scores, criteria=["a", "a"])
    bad("all score tables, or all arrays", {"a": table(scores), "b": scores})
    bad("groups must be left out with score tables", table(scores), groups=["a"])
    bad("group 'q40'", {"a": table(scores[:40]), "b": table(scores)})
    bad("the same rollouts as the first table", {"a": table(scores), "b": table(scores[:, :5])})
    bad("Did you mean 'Depth'", table(scores), criteria=["Dept"], error=UnknownName)
    bad("other names than 'humans'", {"humans": scores}, humans=scores)
    bad("texts must be 640", scores, texts=["a", "b"])
    bad("left out if texts are given", scores, texts=world.texts, attributes=world.words)
    bad("attributes must be finite numbers", scores, attributes=world.words.ravel())
    bad("attributes must be finite numbers", scores, attributes=-world.words[..., None])
    bad("attribute_names must be 1 different", scores, attributes=world.words[..., None], attribute_names=["a", "b"])
    bad("positions key must be one of", {"a": scores, "b": scores}, positions={"Clarity": (1, 2)}, error=UnknownName)
    bad("Did you mean 'a'", {"a": scores}, positions={"aa": {"Clarity": (1, 2)}}, error=UnknownName)
    bad(r"positions of 'judge' on 'Clarity' must be \(wins", scores, positions={"Clarity": (3, 2)})
    with pytest.raises(InvalidInput, match="at least one score table"):
        audit_files([])
    table(scores).write(tmp_path / "a.parquet")
    (tmp_path / "few.jsonl").write_text('{"id": "q0", "prompt": "x", "response": "y"}')
    with pytest.raises(InvalidInput, match="group 'q0' must be there, with 8 rollouts; got 1 rollouts"):
        audit_files([tmp_path / "a.parquet"], rollouts=tmp_path / "few.jsonl")


def test_what_never_differs_cannot_sway():
    world = World()
    found = audit(world.scores(), attributes=np.ones((N, G, 1)), attribute_names=["headings"], bootstrap=0)
    assert found.attributes == ()
    assert "bias by headings (all judges): no two responses of a group differ in it" in list_unmeasured(found)


def test_a_judge_that_ties_everything():
    world = World()
    flat = np.full((N, G, K), 3.0)
    found = audit({"flat": flat, "clean": world.scores()}, attributes=world.words[..., None], bootstrap=20)
    assert {row.judge for row in found.bias} == {"clean"}
    together = only(found.agreement, criterion=None)
    assert math.isnan(together.tau_within.value)
    assert math.isnan(together.tau.value)
    assert together.kappa.value == pytest.approx(0.0)


def test_one_group_has_no_intervals():
    """It cannot be drawn differently."""
    world = World()
    scores = {"a": world.scores()[:1], "b": world.scores()[:1]}
    found = audit(scores, attributes=world.words[:1, :, None], bootstrap=50)
    together = only(found.agreement, criterion=None)
    assert together.tau_within.value == pytest.approx(together.tau.value, abs=1e-12)
    for estimate in (together.kappa, together.tau, found.bias[0].gamma, found.bias[0].wins, found.bias[0].odds):
        assert not math.isnan(estimate.value)
        assert math.isnan(estimate.low)


def test_a_margin_can_tie_everything():
    world = World()
    found = audit(table(world.scores(), margin=4.0), attributes=world.words.reshape(-1, 1), bootstrap=10)
    assert found.bias == ()
    assert found.coverage[0].all_tied == N


def test_a_nested_list_of_numbers_is_one_run():
    scores = World().scores()[:3, :4]
    of_list = audit(scores.tolist(), bootstrap=0)
    assert (of_list.groups, of_list.rollouts, of_list.consistency) == (3, 12, ())
    assert repr(of_list) == repr(audit(scores, bootstrap=0))
    again = audit([scores, scores], bootstrap=0)
    assert (again.groups, only(again.consistency, criterion=None).runs) == (3, 2)


def test_groups_may_be_labelled_by_tuples():
    scores = World().scores()[:2, :3].reshape(-1, K)
    labels = [("en", 1)] * 3 + [("de", 1)] * 3
    assert repr(audit(scores, groups=labels, bootstrap=0)) == repr(audit(scores, groups=list("aaabbb"), bootstrap=0))
    bad("groups must be a list of 6 labels", scores, groups=[[1]] * 6)


@pytest.mark.parametrize("field", ["digests", "rollout_ids"])
def test_tables_of_the_same_rollouts_in_another_order_are_refused(field):
    """The verdicts of different responses would be compared with each other."""
    (group,) = table(World().scores()[:1]).groups
    names = tuple("abcdefgh")
    first = ScoreTable((replace(group, **{field: names}),))
    turned = ScoreTable((replace(group, **{field: names[::-1]}),))
    bad("judge 'b' must be about the same rollouts as the first table", {"a": first, "b": turned})
    bad("humans must be about the same rollouts as the first table", first, humans=turned)
    assert audit({"a": first, "b": ScoreTable((group,))}, humans=first, bootstrap=0).groups == 1


def test_ids_of_another_kind_are_not_compared():
    """Labels that were given on the page number the rollouts; the table may have names for them."""
    (group,) = table(World().scores()[:1]).groups
    named = ScoreTable((replace(group, rollout_ids=tuple("abcdefgh")),))
    numbered = ScoreTable((replace(group, rollout_ids=tuple("01234567")),))
    assert audit(named, humans=numbered, bootstrap=0).groups == 1
