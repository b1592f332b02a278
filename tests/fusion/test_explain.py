"""Explanations, word by word for groups made by hand, and true for groups made by chance."""

from __future__ import annotations

import re
from dataclasses import replace

import numpy as np
import pytest
from cases import examples, folded
from hypothesis import given
from hypothesis import strategies as st
from ordinal import rlvr2

from rubrank import Gate, ScoreBatch, attenuate, find_rule
from rubrank.fusion.group import FusedGroup

NAN = np.nan


def explain(scores, i=0, attributes=None, **options) -> list[str]:
    """The explanation of one rollout of a single group, line by line. Borda: (wins − losses) / 2."""
    result = rlvr2(model="borda", **options)(scores, attributes=attributes)
    return apart(result.explain(i))[0]


def apart(explanation: str) -> tuple[list[str], list[str]]:
    """The lines about one thing each, and what the criteria say together."""
    lines = explanation.splitlines()
    together = [line for line in lines if line.startswith("  together:")]
    return [line for line in lines if line not in together], together


# ---------------------------------------------------------------------------------------------------- criteria

THREE = [[9, 1], [8, 0], [3, 1]]
NAMED = {"criteria": ["Facts", "Style"], "weights": {"Facts": 2}}


@pytest.mark.parametrize(
    ("i", "lines"),
    [
        (
            0,
            [
                "rollout 0 of group 0: reward 1.00, 1st of 3",
                "  Facts (weight 2): 9; beats all → +2.00",
                "  Style: 1; beats 1; ties 2 → +0.50",
            ],
        ),
        (
            1,
            [
                "rollout 1 of group 0: reward 0.12, 2nd of 3",
                "  Style: 0; loses to all → -1.00",
                "  Facts (weight 2): 8; beats 2; loses to 0",
            ],
        ),
        (
            2,
            [
                "rollout 2 of group 0: reward 0.00, 3rd of 3",
                "  Facts (weight 2): 3; loses to all → -2.00",
                "  Style: 1; beats 1; ties 0 → +0.50",
            ],
        ),
    ],
)
def test_beats_ties_loses(i, lines):
    assert explain(THREE, i, **NAMED) == lines


def test_what_the_criteria_say_together():
    """Borda by hand: Facts 2·(1, 0, −1), Style (.5, −1, .5); se² = 2 · Σ(part − mean)²."""
    result = rlvr2(model="borda", **NAMED)(THREE)
    for i, (facts, style) in enumerate([(2.0, 0.5), (0.0, -1.0), (-2.0, 0.5)]):
        error = abs(facts - style)  # of two parts: 2 · 2 · ((a − b)/2)² under the root
        lines = result.explain(i).splitlines()
        said = f"  together: {facts + style:+.2f} (se {error:.2f}); agreement of the criteria {result.agreement[0]:.2f}"
        assert lines[3] == said


def test_one_criterion_alone_agrees_with_nobody():
    assert apart(rlvr2()([[1, 5], [0, 5], [0, 5]]).explain(0))[1] == []


def test_all_three_verbs_in_one_line():
    assert explain([[2], [1], [2], [3], [0]])[1] == "  criterion 0: 2; beats 1, 4; ties 2; loses to 3 → +0.50"


def test_ties_all():
    assert explain([[1, 5], [0, 5], [0, 5]])[2] == "  criterion 1: 5; ties all"


def test_directions_and_margins():
    lines = explain([[20, 0.5], [90, 0.52], [25, 0.9]], directions=["lower", "higher"], margins=[0, 0.1])
    assert lines == [
        "rollout 0 of group 0: reward 0.80, 2nd of 3",
        "  criterion 0: 20; beats all → +1.00",
        "  criterion 1: 0.5; ties 1; loses to 2 → -0.50",
    ]


def test_not_scored():
    scores = [[NAN, 1], [1, 0], [0, 1]]
    assert explain(scores, 0, **NAMED) == [
        "rollout 0 of group 0: reward 1.00, 1st of 3",
        "  Style: 1; beats 1; ties 2 → +0.50",
        "  Facts (weight 2): not scored, so not compared",
    ]
    assert "  Facts (weight 2): 1; beats 2 → +1.00" in explain(scores, 1, **NAMED)


def test_the_only_one_scored():
    assert explain([[1, 7], [0, NAN]])[2] == "  criterion 1: 7; nothing to compare with"


@pytest.mark.parametrize(
    ("others", "text"),
    [
        (12, "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11"),
        (13, "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 1 more"),
        (16, "0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 and 4 more"),
    ],
)
def test_more_than_twelve_opponents(others, text):
    scores = [[0.0]] * others + [[1.0], [2.0]]
    assert f"1; beats {text}; loses to {others + 1} →" in explain(scores, others)[1]


def test_small_contributions_are_not_shown_as_zero():
    lines = explain([[1, 1], [0, 0]], criteria=["A", "B"], weights={"B": 0.009})
    assert lines[1:] == ["  A: 1; beats all → +0.50", "  B (weight 0.009): 1; beats all"]


# ---------------------------------------------------------------------------------------------------- headline


def test_ordinals():
    scores = np.arange(25.0)[::-1, None]
    found = [explain(scores, i)[0].rsplit(", ", 1)[1] for i in range(25)]
    suffixes = ["st", "nd", "rd", *["th"] * 17, "st", "nd", "rd", "th", "th"]
    assert found == [f"{n}{suffix} of 25" for n, suffix in enumerate(suffixes, 1)]


@pytest.mark.parametrize(
    ("i", "place"), [(0, "1st of 6"), (1, "2nd of 6, with 1 other"), (3, "4th of 6, with 2 others")]
)
def test_shared_places(i, place):
    assert explain([[9], [5], [5], [1], [1], [1]], i)[0].endswith(place)


def test_label_of_the_group():
    result = rlvr2()([[1], [0]], groups=["query-17", "query-17"])
    assert result.explain(1).startswith("rollout 1 of group query-17: reward 0.00, 2nd of 2")


def test_no_signal():
    assert explain([[1, 3]] * 3, 2) == [
        "rollout 2 of group 0: reward 0.50, same as all others: nothing tells them apart",
        "  criterion 0: 1; ties all",
        "  criterion 1: 3; ties all",
    ]


def test_alone_in_its_group():
    headline, *lines = explain([[1, NAN]])
    assert headline == "rollout 0 of group 0: reward 0.50, alone in its group: nothing to compare with"
    assert lines == ["  criterion 0: 1; nothing to compare with"]  # criterion 1 was not asked of this group


# -------------------------------------------------------------------------------------------------- attributes


def measured(taken, pool="batch", se=((0.1,), (0.1,)), **changes) -> FusedGroup:
    """The three rollouts from above with one attribute, of which the first has more and the last less."""
    group = rlvr2(model="borda", **NAMED)(THREE)[0]
    given = {
        "attribute_names": ("tokens",),
        "attributes": np.array([[90.0], [50.0], [0.0]]),
        "mean_contrasts": np.array([[1.0], [0.0], [-1.0]]),
        "pool": pool,
        "gamma": np.array([[0.5], [0.25]]),
        "se": np.array(se),
        "shrunk": np.array([[0.4], [0.1]]),
        "n": np.array([128, 64]),
        "taken": np.array(taken),
    }
    return replace(group, **{**given, **changes})


@pytest.mark.parametrize(
    ("taken", "fate"),
    [
        ([[0.0], [0.0]], "nothing taken out"),
        ([[0.4], [0.0]], "γ on Facts +0.50 (se 0.10, 128 groups); taken out of 1 criterion"),
        ([[0.0], [0.1]], "γ on Style +0.25 (se 0.10, 64 groups); taken out of 1 criterion"),
        ([[0.4], [0.1]], "γ on Facts +0.50 (se 0.10, 128 groups); taken out of 2 criteria"),
    ],
)
def test_what_becomes_of_an_attribute(taken, fate):
    assert apart(measured(taken).explain(0))[0][3:] == [f"  tokens: 90, more than its group; {fate}"]


def test_less_and_as_much_of_an_attribute():
    assert measured([[0.0], [0.0]]).explain(2).endswith("\n  tokens: 0, less than its group; nothing taken out")
    assert measured([[0.0], [0.0]]).explain(1).endswith("\n  tokens: 50, as much as its group; nothing taken out")


def test_what_taking_it_out_made():
    group = measured([[0.4], [0.1]])
    moved = replace(group, values=group.utilities + np.array([[-0.5, 0.25], [0.0, 0.0], [0.5, -0.25]]))
    made = np.array([2.0, 1.0]) @ np.array([-0.5, 0.25])
    assert moved.explain(0).splitlines()[-1] == f"  attributes: taking them out changed the sum by {made:+.2f}"
    assert "taking them out" not in moved.explain(1)


def test_the_letter_says_so_and_has_no_error():
    group = measured([[0.4], [0.1]], pool="group", se=((NAN,), (NAN,)))
    moved = replace(group, values=group.utilities - 1.0)
    attribute, made = moved.explain(0).splitlines()[-2:]
    assert attribute == "  tokens: 90, more than its group; γ on Facts +0.50; taken out of 2 criteria"
    assert made.endswith("(as in the paper: by this group alone)")


def test_every_attribute_has_its_line():
    rng = np.random.default_rng(0)
    lengths, headings = rng.lognormal(5, 0.7, (40, 6)), rng.integers(0, 3, (40, 6)).astype(float)
    scores = np.log(lengths)[..., None] + 0.3 * rng.normal(size=(40, 6, 1))
    rule = rlvr2(attribute_names=["tokens", "headings"], adjust=[attenuate(0.5), "remove"])
    lines = rule(scores, attributes=np.stack([lengths, headings], -1)).explain((0, 1)).splitlines()
    assert re.match(
        r"  tokens: \S+, (more|less) than its group; γ on criterion 0 \+\d\.\d\d \(se 0\.\d\d, 40", lines[2]
    )
    assert re.fullmatch(r"  headings: \d, (more than|less than|as much as) its group; nothing taken out", lines[3])


# -------------------------------------------------------------------------------------------------------- gate

GATED = {
    "criteria": ["Facts", "NotEmpty", "Language", "NoRepeats"],
    "gate": Gate(["NotEmpty", "Language"], ["NoRepeats"]),
}
ROLLOUTS = [[3, 1, 1, 1], [2, 1, 1, 0.4], [4, 0, 1, 1], [5, 0, 0.5, 0], [1, NAN, 1, NAN]]


@folded(
    ("i", "line"),
    [
        (0, "gate: passed"),
        (1, "gate: low quality 0.40 (1 = clean), so 0.25 is multiplied by 0.70"),
        (2, "gate: stopped by NotEmpty, so the reward is 0 instead of 0.75"),
        (3, "gate: stopped by NotEmpty, Language, so the reward is 0 instead of 1.00"),
        (4, "gate: passed (2 of its scores missing)"),
    ],
)
def test_gate(i, line):
    lines = explain(ROLLOUTS, i, **GATED)
    assert lines[-1] == f"  {line}"
    assert len(lines) == 3  # the gate's criteria have no lines of their own


def test_headline_counts_what_the_gate_left():
    assert explain(ROLLOUTS, 1, **GATED)[0] == "rollout 1 of group 0: reward 0.17, 2nd of 5"
    assert explain(ROLLOUTS, 3, **GATED)[0] == "rollout 3 of group 0: reward 0.00, 3rd of 5, with 2 others"


def test_all_stopped():
    lines = explain([[1, 0], [2, 0]], 1, criteria=["Facts", "NotEmpty"], gate=Gate(["NotEmpty"]))
    assert lines == [
        "rollout 1 of group 0: reward 0.00, same as all others: nothing tells them apart",
        "  Facts: 2; beats all → +0.50",
        "  gate: stopped by NotEmpty, so the reward is 0 instead of 1.00",
    ]


# ------------------------------------------------------------------------------------------ true, whatever comes

WEIGHTS = [2.0, 1.0, 0.25]
MARGINS = [0.0, 1.0, 0.0]
LOWER = [False, False, True]
RULES = {
    "criteria": ["A", "B", "C", "Stop", "Clean"],
    "weights": [*WEIGHTS, 1, 1],
    "margins": [*MARGINS, 0, 0],
    "directions": ["higher", "higher", "lower", "higher", "higher"],
    "gate": Gate(["Stop"], ["Clean"]),
}
cell = st.sampled_from([0.0, 1.0, 2.0, 3.0, NAN])
row = st.tuples(cell, cell, cell, st.sampled_from([1.0, 1.0, 1.0, 0.0, NAN]), st.sampled_from([1.0, 1.0, 0.5, NAN]))
groups = st.lists(row, min_size=1, max_size=7)


def expected_opponents(column, i: int, k: int) -> dict[str, set[int]]:
    """Who is beaten, tied with and lost to, from the scores and nothing else."""
    found: dict[str, set[int]] = {"beats": set(), "ties": set(), "loses to": set()}
    for j, other in enumerate(column):
        if j != i and other == other:
            ahead = (column[i] - other) * (-1 if LOWER[k] else 1)
            verb = "beats" if ahead > MARGINS[k] else "loses to" if -ahead > MARGINS[k] else "ties"
            found[verb].add(j)
    return found


def read_opponents(text: str, everyone: set[int]) -> dict[str, set[int]]:
    """The same, from the words."""
    found: dict[str, set[int]] = {"beats": set(), "ties": set(), "loses to": set()}
    for phrase in text.split("; "):
        verb, numbers = re.fullmatch(r"(beats|ties|loses to) (all|\d+(?:, \d+)*)", phrase).groups()
        found[verb] = everyone if numbers == "all" else {int(n) for n in numbers.split(", ")}
    return found


def check_criterion(group: FusedGroup, i: int, line: str) -> None:
    name, weight, rest = re.fullmatch(r"  (\w)(?: \(weight (\S+)\))?: (.*)", line).groups()
    k = "ABC".index(name)
    column, part = group.scores[:, k], WEIGHTS[k] * group.values[i, k]
    assert float(weight or 1) == WEIGHTS[k]
    if rest == "not scored, so not compared":
        assert np.isnan(column[i])
        return
    score, opponents, share = re.fullmatch(r"(\S+); (.*?)(?: → ([+-]\d+\.\d\d))?", rest).groups()
    assert float(score) == column[i]
    assert float(share or 0) == pytest.approx(part, abs=0.00501)
    expected = expected_opponents(column, i, k)
    everyone = set().union(*expected.values())
    read = {"beats": set(), "ties": set(), "loses to": set()}
    assert (read if opponents == "nothing to compare with" else read_opponents(opponents, everyone)) == expected


def check_headline(group: FusedGroup, i: int, line: str) -> None:
    reward = group.reward
    assert float(re.search(r"reward (\d\.\d\d)", line)[1]) == pytest.approx(reward[i], abs=0.00501)
    if "nothing tells them apart" in line or "nothing to compare with" in line:
        assert len(set(reward.tolist())) == 1
        return
    place, size, others = re.search(r", (\d+)\w\w of (\d+)(?:, with (\d+) others?)?$", line).groups()
    assert int(place) == 1 + sum(reward > reward[i])
    assert int(size) == len(reward)
    assert int(others or 0) == sum(reward == reward[i]) - 1


def check_together(group: FusedGroup, i: int, lines: list[str]) -> None:
    telling = group.values.any(0)
    if telling.sum() < 2:
        assert lines == []
        return
    total, error, agreement = map(float, re.findall(r"[+-]?\d+\.\d\d", lines[0]))
    parts = np.array(WEIGHTS)[telling] * group.values[i, telling]
    assert total == pytest.approx(parts.sum(), abs=0.00501)
    assert error == pytest.approx(np.sqrt(len(parts)) * parts.std(ddof=1), abs=0.00501)
    assert agreement == pytest.approx(group.agreement, abs=0.00501)


def check_gate(group: FusedGroup, i: int, stop: float, clean: float, line: str) -> None:
    if line.startswith("  gate: stopped by Stop"):
        assert stop < 1
        assert group.reward[i] == 0.0
        return
    assert not stop < 1
    soft = re.search(r"low quality (\d\.\d\d) .* multiplied by (\d\.\d\d)$", line)
    low, factor = (float(number) for number in soft.groups()) if soft else (1.0, 1.0)
    assert low == (1.0 if np.isnan(clean) else clean)
    assert group.reward[i] == pytest.approx(factor * group.ranking[i])
    missing = re.search(r"passed \((\d) of its scores missing\)$", line)
    assert soft or int(missing[1] if missing else 0) == np.isnan([stop, clean]).sum()


@examples(150)
@given(groups)
def test_words_are_true(rows):
    scores = np.array(rows)
    group = rlvr2(**RULES)(scores)[0]
    for i in range(len(scores)):
        (headline, *criteria, gate), together = apart(group.explain(i))
        check_headline(group, i, headline)
        check_together(group, i, together)
        asked = [name for name, column in zip("ABC", scores.T[:3], strict=True) if not np.isnan(column).all()]
        assert sorted(line[2] for line in criteria) == asked
        for line in criteria:
            check_criterion(group, i, line)
        check_gate(group, i, scores[i, 3], scores[i, 4], gate)


def test_no_gate_is_no_gate_that_was_passed():
    batch = ScoreBatch.of_arrays([[1, 0.5], [0, 0.7], [1, 0.2]])
    assert "gate" not in find_rule("rlvr2+")(batch).explain(0)


def test_uncertain_outcomes_are_no_wins():
    """A judge that is 70% sure does not make one rollout beat another."""
    outcome = np.array([[NAN, 0.7, 1.0], [0.3, NAN, 0.5], [0.0, 0.5, NAN]])
    batch = ScoreBatch.of_arrays(np.full((3, 1), NAN), criteria=["Tone"], outcomes={"Tone": outcome})
    fused = find_rule("rlvr2")(batch)
    lines = [fused.group(0).explain(i).splitlines()[1] for i in range(3)]
    assert "Tone: beats 2; ahead of 1 (0.70)" in lines[0]
    assert "Tone: ties 2; behind 0 (0.30)" in lines[1]
    assert "Tone: ties 1; loses to 0" in lines[2]


@pytest.mark.filterwarnings("error")
def test_a_rollout_without_scores_has_no_change_by_attributes():
    """Under a rule that adds up scores, the change is a mean over the rollout's scores, and there may be none."""
    rng = np.random.default_rng(0)
    lengths = rng.integers(10, 300, (12, 6, 1)).astype(float)
    scores = lengths / 400.0 + rng.random((12, 6, 1)) / 10.0
    scores[0, 2] = NAN
    fused = find_rule("weighted-mean", adjust="remove")(ScoreBatch.of_arrays(scores, attributes=lengths))
    assert "taking them out changed its mean score" in fused.explain((0, 0))
    assert "taking them out" not in fused.explain((0, 2))
