"""A user's anchors and findings are the scale: in every prompt, in parsing, and in the scores."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompted import rollout, system, user

from rubrank.errors import InvalidInput
from rubrank.judges.judge import Reply
from rubrank.judges.parsing import read_absolute, read_batched
from rubrank.judges.prompting import absolute_call, batched_call, listwise_call, pairwise_call
from rubrank.rubrics.rubric import Criterion, load_rubric

TONE = Criterion(name="Tone", question="How is the tone?", anchors={0: "bad", 1: "neutral", 2: "good"})
LONG = {0: "It talks down to the reader from the first sentence on.", 1: "It takes the reader seriously, throughout."}
USUAL = [Criterion(name=f"Q{i}", question=f"Is it {i}?") for i in range(3)]


def entry(number: object, **more: object) -> Reply:
    return Reply(json.dumps({"reasoning": "r", **more, "verdict": number}))


def texts(criterion: Criterion) -> dict[str, str]:
    one, two = rollout("a"), rollout("b")
    return {
        "absolute": system(absolute_call(criterion, one)),
        "batched": system(batched_call([*USUAL, criterion], one)),
        "pairwise": system(pairwise_call(criterion, one, two)),
        "listwise": system(listwise_call(criterion, [one, two])),
    }


@pytest.mark.parametrize("kind", ["absolute", "batched", "pairwise", "listwise"])
def test_the_prompt_has_the_users_words_and_no_others(kind):
    text = texts(TONE)[kind]
    own = text[text.index("How is the tone?") :]
    for value, word in (("2", "good"), ("1", "neutral"), ("0", "bad")):
        assert f'\n{value}: "{word}"' in own or f"\n{value}: {word}" in own
    assert "in part" not in own
    assert "It is so" not in own


def test_the_scores_are_the_anchors_numbers():
    assert TONE.value_domain.values == (0.0, 1.0, 2.0)
    assert [read_absolute(entry(n), TONE).value for n in (0, 1, 2)] == [0, 1, 2]
    assert read_absolute(entry(0.5), TONE).value is None
    assert read_absolute(entry(2, finding="neutral"), TONE).reason.startswith("verdict contradicts")
    schema = absolute_call(TONE, rollout()).schema["properties"]
    assert schema["verdict"]["enum"] == [0, 1, 2, None]
    assert schema["finding"]["enum"] == ["good", "neutral", "bad", "cannot be judged"]


def test_long_anchors_are_no_findings():
    criterion = Criterion(name="Respect", question="Is it respectful?", anchors=LONG)
    assert list(absolute_call(criterion, rollout()).schema["properties"]) == ["reasoning", "verdict"]
    assert "talks down" in system(absolute_call(criterion, rollout()))


def test_a_known_criterion_can_have_a_scale_of_ones_own():
    own = Criterion(name="GeneralQuality", anchors={1: "weak", 2: "fair", 3: "strong"})
    assert own.value_domain.values == (1.0, 2.0, 3.0)
    assert read_batched(Reply('{"GeneralQuality": {"verdict": 3}}'), [own])["GeneralQuality"].value == 3
    facts = Criterion(name="CoreFactAccuracy", anchors={0: "wrong", 1: "right"})
    assert "items" not in absolute_call(facts, rollout()).schema["properties"], "the user's scale wins"


def test_findings_of_ones_own():
    by_level = Criterion(name="Cites", question="Does it cite?", findings={"high": "cites", "low": "does not"})
    assert '1 ("cites"): It is so' in system(absolute_call(by_level, rollout()))
    assert read_absolute(entry(0, finding="cites"), by_level).value is None
    assert read_absolute(entry(0, finding="holds"), by_level).value == 0, "not a word of this scale"
    by_value = Criterion(name="Cites", question="?", domain=[1, 2, 3, 4], findings={i: f"w{i}" for i in range(1, 5)})
    assert read_absolute(entry(2, finding="w3"), by_value).value is None
    assert read_absolute(entry(2, finding="w2"), by_value).value == 2


@pytest.mark.parametrize("middle", [0.1, 0.3, 0.5, 0.7, 0.9])
@pytest.mark.parametrize("findings", [None, {"high": "all", "between": "some", "low": "none"}])
def test_the_middle_of_three_values_has_the_finding_between_wherever_it_lies(middle, findings):
    criterion = Criterion(name="Cites", question="Does it cite?", domain=[0, middle, 1], findings=findings)
    words = absolute_call(criterion, rollout(), language="en").schema["properties"]["finding"]["enum"][:3]
    assert words == (["all", "some", "none"] if findings else ["holds", "holds in part", "does not hold"])
    text = system(absolute_call(criterion, rollout(), language="en"))
    for number, word in zip((1, middle, 0), words, strict=True):
        assert f'\n{number} ("{word}"): ' in text
        assert read_absolute(entry(number, finding=word), criterion).value == number
        for other in {0, middle, 1} - {number}:
            assert read_absolute(entry(other, finding=word), criterion).reason.startswith("verdict contradicts")


@pytest.mark.parametrize(
    ("domain", "low", "between", "high"),
    [
        ([1, 2, 3, 4], [1], [2, 3], [4]),
        ([1, 2, 3, 4, 5], [1, 2], [3], [4, 5]),
        ({"low": 0, "high": 1}, [0, 1, 2, 3], [4, 5, 6], [7, 8, 9, 10]),
    ],
)
def test_findings_by_level_divide_a_longer_scale_into_thirds(domain, low, between, high):
    findings = {"high": "good", "between": "fair", "low": "bad"}
    criterion = Criterion(name="Depth", question="How deep is it?", domain=domain, findings=findings)
    word_of = {**dict.fromkeys(low, "bad"), **dict.fromkeys(between, "fair"), **dict.fromkeys(high, "good")}
    for number, right in word_of.items():
        for word in ("good", "fair", "bad"):
            assert (read_absolute(entry(number, finding=word), criterion).value is not None) == (word == right)


def test_findings_by_value_may_be_given_with_the_four_digits_that_a_judge_reads():
    findings = {0: "none", 0.3333: "some", 1: "all"}
    criterion = Criterion(name="Cites", question="Does it cite?", domain=[0, 1 / 3, 1], findings=findings)
    schema = absolute_call(criterion, rollout()).schema["properties"]
    assert schema["finding"]["enum"][:3] == ["all", "some", "none"]
    assert read_absolute(entry(0.3333, finding="some"), criterion).value == 1 / 3
    assert read_absolute(entry(0.3333, finding="all"), criterion).value is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"anchors": {"a": "x", "b": "y"}}, "anchors must be given by numbers"),
        ({"anchors": {0: "x"}}, "anchors must be given for 2 to 101 values; got 1"),
        ({"anchors": {0: "x", 1: " "}}, "anchors must be a text for 1"),
        ({"anchors": {0: "x", "0.0": "y", 1: "z"}}, "anchors must be given once for every value; got 0 twice"),
        ({"anchors": ["x", "y"]}, "anchors must be given by numbers"),
        ({"anchors": {True: "x", 0: "y"}}, "anchors must be given by numbers"),
        ({"anchors": {0: "x", float("inf"): "y"}}, "anchors must be given by numbers"),
        ({"anchors": {0: "x", 1: "y"}, "domain": [0, 1, 2]}, "the lowest and the highest value of the domain, 0 and 2"),
        ({"anchors": {0: "x", 0.5: "y", 2: "z"}, "domain": "ternary"}, "for values of the domain (0, 0.5, 1)"),
        ({"findings": {"high": "x"}}, "findings must be given for high, low; got high"),
        ({"findings": {"hi": "x", "low": "y"}}, "findings must be given by high, between and low, or by numbers"),
        ({"findings": {"high": "x", 0: "y"}}, "or by numbers, such as {high: cites, low: does not}; got high, 0"),
        ({"findings": {"high": "x", "low": "X"}}, "findings must be of different texts"),
        ({"findings": {0: "x", 2: "y"}}, "findings must be given for every value of the scale: 0, 1; got 0, 2"),
        ({"findings": {0: "x", "0.0": "y", 1: "z"}}, "findings must be given once for every value; got 0 twice"),
        (
            {"findings": {0: "x", 0.00001: "y"}},
            "findings must be given for every value of the scale: 0, 1; got 0, 1e-05",
        ),
        ({"findings": []}, "findings must be given by high, between and low"),
    ],
)
def test_what_is_no_scale_is_told(given, said):
    with pytest.raises(InvalidInput) as error:
        load_rubric({"criteria": [{"name": "A", "question": "Good?", **given}]})
    assert said in str(error.value)
    assert "criterion 'A'" in str(error.value)


def test_a_program_has_no_anchors():
    count = {"name": "WordCount", "params": {"relation": "at least", "count": 3}, "anchors": {0: "x", 1: "y"}}
    with pytest.raises(InvalidInput, match="anchors must be left out where a program decides"):
        load_rubric({"criteria": [count]})


@pytest.mark.parametrize("suffix", [".yaml", ".json"])
def test_files_keep_the_scale(tmp_path, suffix):
    rubric = load_rubric({"criteria": [TONE.model_dump(exclude_defaults=True)]})
    (tmp_path / f"r{suffix}").write_text(rubric.model_dump_json(exclude_defaults=True))
    assert load_rubric(tmp_path / f"r{suffix}") == rubric
    (tmp_path / "r.toml").write_text('[[criteria]]\nname="T"\nquestion="?"\n[criteria.anchors]\n0="bad"\n1="good"\n')
    assert load_rubric(tmp_path / "r.toml")["T"].anchors == {0.0: "bad", 1.0: "good"}


def test_in_a_batch_the_usual_scale_is_said_once_and_another_below_its_question():
    text = system(batched_call([*USUAL, TONE], rollout()))
    assert text.count("It is so, entirely.") == 1
    assert text.count("a careful expert") == 1
    assert text.index("That holds for every question without values of its own.") < text.index("Q0: Is it 0?")
    assert "### Tone: How is the tone?\nWhat the values mean:\n2:" in text


def test_every_further_question_costs_little():
    def size(n: int) -> int:
        return len(system(batched_call([Criterion(question=f"Is it good, part {i}?") for i in range(n)], rollout())))

    assert size(30) - size(8) < 22 * 40


def test_a_mixed_batch_names_every_key_and_form():
    names = ["GeneralQuality", "CoreFactAccuracy", "Verbosity"]
    call = batched_call([Criterion(name=name) for name in names] + USUAL, rollout())
    assert list(call.schema["properties"]) == [*names, "Q0", "Q1", "Q2"]
    fields = {name: list(entry["properties"]) for name, entry in call.schema["properties"].items()}
    assert fields["GeneralQuality"] == ["reasoning", "verdict"]
    assert fields["CoreFactAccuracy"] == ["reasoning", "items"]
    assert fields["Verbosity"] == fields["Q0"] == ["reasoning", "finding", "verdict"]
    assert all(f'"{name}"' in system(call) for name in names)


def test_data_first_puts_the_criteria_after_the_response():
    one = absolute_call(TONE, rollout("West Lake."), order="data_first")
    two = absolute_call(USUAL[0], rollout("West Lake."), order="data_first")
    assert user(one).index("West Lake.") < user(one).index("How is the tone?")
    assert one.messages[0] == two.messages[0]
    shared = user(one)[: user(one).index("## Criterion")]
    assert user(two).startswith(shared), "everything up to the criterion can be cached"
    assert one.prompt_version != absolute_call(TONE, rollout("West Lake.")).prompt_version
    example = {"response": "x", "reasoning": "It is kind.", "verdict": 2}
    shown = absolute_call(TONE, rollout("West Lake."), order="data_first", examples=[example])
    said = '{"reasoning": "It is kind.", "finding": "good", "verdict": 2}'
    assert said in user(shown)
    assert read_absolute(Reply(said), TONE, call=shown).value == 2, "an example is not the text under judgment"


@given(
    st.lists(st.integers(-1000, 1000).map(lambda n: n / 4), min_size=2, max_size=12, unique=True),
    st.tuples(st.integers(-50, 50), st.integers(1, 50)),
)
def test_scales_keep_the_order_and_stay_in_the_domain(numbers, ends):
    low, high = ends[0], ends[0] + ends[1]
    made = Criterion(
        name="A", question="?", anchors={n: f"word {n}" for n in numbers}, domain={"low": low, "high": high}
    )
    scores = [read_absolute(entry(n), made).value for n in sorted(numbers)]
    assert scores == sorted(set(scores))
    assert all(low <= score <= high for score in scores)
