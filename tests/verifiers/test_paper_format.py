import pytest
from cases import folded

from rubrank.rollouts.rollout import Rollout
from rubrank.verifiers import load
from rubrank.verifiers.verifier import VERIFIERS

load()


def verdict(name, response, rollout=None, **params):
    verifier = VERIFIERS[name]
    return verifier.verify(Rollout(response=response, **(rollout or {})), verifier.check_parameters(params))


@pytest.mark.parametrize("n", [0, 1, 5])
def test_code_adds_no_bullets_highlights_or_paragraphs(n):
    text = "Intro.\n\n" + "\n".join(f"- **point** {i}" for i in range(n))
    code = "\n\n```\n- x\n* y\n**z**\n\n- w\n```"
    for name, count in (("BulletCount", n), ("HighlightCount", n)):
        assert verdict(name, text, relation="exactly", count=count).value == 1
        assert verdict(name, text + code, relation="exactly", count=count).value == 1
    before = 1 + (n > 0)
    assert verdict("ParagraphCount", text + code, count=before + 1).value == 1


@folded(("opening", "closing"), ['""', "“”", "「」", "『』", "«»"])
def test_a_quotation_needs_both_of_its_marks(opening, closing):
    assert verdict("QuotationFormat", f"{opening}All of it.{closing}\n").value == 1
    assert verdict("QuotationFormat", f"{opening}All of it.").value == 0
    assert verdict("QuotationFormat", f"All of it.{closing}").value == 0
    assert verdict("QuotationFormat", f"So: {opening}All of it.{closing}").value == 0


@pytest.mark.parametrize(
    ("text", "value", "reason"),
    [
        ('"甲"和"乙"', 0, "two quotations, not one around all"),
        ('"他说："好"。"', 1, "the whole answer is quoted"),
        ('"A 5" board and a 6" nail."', 1, "the whole answer is quoted"),
        ('""', 0, "nothing inside the marks"),
    ],
)
def test_straight_marks_without_spaces_around_them(text, value, reason):
    result = verdict("QuotationFormat", text)
    assert (result.value, result.reason) == (value, reason)


@pytest.mark.parametrize("divider", ["## B", "**B**", "---"])
def test_a_heading_or_a_rule_divides_two_lists(divider):
    assert verdict("ParagraphCount", f"- a\n- b\n\n{divider}\n\n- c", count=2).value == 1


def test_a_repeated_prompt_ends_where_its_last_word_ends():
    assert verdict("PromptRepeat", "What is artificial light? A lamp.", prompt="What is art").value == 0
    assert verdict("PromptRepeat", "What is art? A craft.", prompt="What is art").value == 1
    assert verdict("PromptRepeat", "什么是艺术艺术是创作。", prompt="什么是艺术").value == 1


def test_upper_and_lower_exclude_each_other():
    for text in ("ABC", "abc", "Abc", "ÄÖ", "ß"):
        assert verdict("CaseFormat", text, case="upper").value + verdict("CaseFormat", text, case="lower").value <= 1


@folded("style", ["angle", "book", "bracket", "heading", "bold", "labelled"])
def test_every_style_of_title_is_told_from_the_others(style):
    titles = {
        "angle": "<<T>>",
        "book": "《T》",
        "bracket": "【T】",
        "heading": "# T",
        "bold": "**T**",
        "labelled": "Title: T",
    }
    assert verdict("TitleFormat", f"{titles[style]}\n\nText.", style=style).value == 1
    others = [title for name, title in titles.items() if name != style]
    assert not any(verdict("TitleFormat", f"{title}\n\nText.", style=style).value for title in others)


def test_deep_json_neither_hangs_nor_crashes():
    assert verdict("FormatRequirement", "[" * 10_000 + "]" * 10_000, format="json").value in (0, 1)
    assert verdict("FormatRequirement", "<a>" * 100_000, format="xml").value == 0
    assert verdict("FormatRequirement", "&a [*a, *a]\n" * 1000, format="yaml").value == 0


def test_an_acrostic_is_worth_its_letters():
    lines = ["Sun", "Under", "Nine", "Skies"]
    values = [
        verdict("ConstrainedWriting", "\n".join([*lines[:k], *["x"] * (4 - k)]), kind="acrostic", word="SUNS")
        for k in range(5)
    ]
    assert [v.value for v in values] == [0, 0.25, 0.5, 0.75, 1]


@folded(
    ("kind", "text", "params", "value"),
    [
        ("telestich", "sea\nclub\nmagic", {"word": "abc"}, 1),
        ("abecedarian", "\n".join(f"{c}-line" for c in "abcdefghijklmnopqrstuvwxyz"), {}, 1),
        ("univocalic", "Enter these red tents", {"letters": "e"}, 1),
        ("alliteration", "Peter Piper picked a peck of pickled peppers", {}, 1),
        ("alliteration", "One two three four", {"letters": "p"}, 0),
        ("pangram", "The quick brown fox jumps over the lazy dog", {}, 1),
        ("line lengths", "床前明月光，疑是地上霜。举头望明月，低头思故乡。", {"pattern": [5]}, 1),
        ("haiku", "古池や\n蛙飛びこむ\n水の音", {}, None),
        ("haiku", "Leise fällt das Weiß\nauf die Dächer in der Nacht\nalles wird so still", {}, None),
        ("haiku", "春水绿如蓝\n江南岸上花正开\n燕子又归来", {}, 1),
        (
            "line lengths",
            "Spring walks in through the garden gate,\nWind carries petals of last year's plum.",
            {"pattern": [7]},
            1,
        ),
        (
            "line lengths",
            "Spring walks in through the garden gate,\nWind carries petals of last year's plum.",
            {"pattern": "七言"},
            0,
        ),
        ("line lengths", "春深小巷燕初归，\n风入疏帘 rain falls down，", {"pattern": [7]}, 0.5),
        ("haiku", "ふるいけや\nかわずとびこむ\nみずのおと", {}, 1),
    ],
)
def test_constrained_forms(kind, text, params, value):
    assert verdict("ConstrainedWriting", text, kind=kind, **params).value == value


def test_recall_grows_with_what_is_said_and_is_one_for_the_reference_itself():
    points = ["西湖位于杭州市西部", "湖上有三座小岛", "春天柳树发芽"]
    values = [verdict("SummaryRecall", "。".join(points[:k]) + "。", points=points).value for k in range(1, 4)]
    assert values == sorted(values)
    assert values[-1] == 1
    assert 0.3 <= values[0] < 0.5


def test_words_far_apart_recall_nothing_together():
    filler = "Nothing of note here. " * 10
    near, far = "The lake is frozen.", f"The lake is large. {filler} It was frozen food."
    assert verdict("SummaryRecall", near, points=["lake frozen"]).value == 1
    assert verdict("SummaryRecall", far, points=["lake frozen"]).value == 0.5


def test_a_prompt_can_be_repeated_in_a_long_answer():
    prompt = "Explain the tides, please."
    assert verdict("PromptRepeat", f"{prompt}\n\n" + "Moon. " * 5000, {"prompt": prompt}).value == 1
    assert verdict("PromptRepeat", "Moon. " * 5000 + prompt, {"prompt": prompt}).value == 0


def test_a_repeated_prompt_in_a_quotation_needs_an_answer_too():
    prompt = "Why is the sky blue?"
    assert verdict("PromptRepeat", f"> {prompt}\n", {"prompt": prompt}).value == 0
    assert verdict("PromptRepeat", f"> {prompt}\n", {"prompt": prompt}, then_answer=False).value == 1
    assert verdict("PromptRepeat", f"> {prompt}\n\nBecause of scattering.", {"prompt": prompt}).value == 1
