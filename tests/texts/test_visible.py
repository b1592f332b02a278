"""What a reader sees: tricks that hide or show words do neither, and an ordinary text stays the same object."""

import pytest
from cases import folded
from hypothesis import given
from hypothesis import strategies as st

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.text import Text
from rubrank.texts.visible import visible
from rubrank.verifiers.verifier import find_verifier

HIDDEN = {  # a word that nobody sees
    "a comment": "<!-- {} -->",
    "a comment that never closes": "\n<!-- {}",
    "an attribute": "<span hidden>{}</span>",
    "a style": '<div style="display:none">{}</div>',
    "another style": "<span style='font-size:0px'>{}</span>",
    "a third style": '<p style="visibility: hidden">{}</p>',
    "a script": "<script>{}</script>",
    "a template": "<template>{}</template>",
    "the target of a link": "[here](http://x.y/{})",
    "the title of a link": '[here](http://x.y "{}")',
    "a picture": "![{}](x.png)",
    "a definition": '\n[1]: http://x.y "{}"\n',
    "a comment of Markdown": "\n[//]: # ({})\n",
    "a phantom": "\\phantom{{{}}}",
    "a comment with code": "<!-- it is `x` {} -->",
    "a comment with a backtick, before another": "<!-- ` {} --> `",
    "a comment with code that never closes": "\n<!-- `x` {}",
    "an element with code": "<p hidden>`x` {}</p>",
    "the target of a link on code": "[`here`](http://x.y/{})",
}
WITHIN = {  # something in the midst of a word that nobody sees
    "zero-width space": "\u200b",
    "zero-width non-joiner": "\u200c",
    "zero-width joiner": "\u200d",
    "word joiner": "\u2060",
    "soft hyphen": "\u00ad",
    "byte-order mark": "\ufeff",
    "variation selector": "\ufe0f",
    "another selector": "\U000e0101",
    "grapheme joiner": "\u034f",
    "direction mark": "\u200e",
    "entity of nothing": "&#8203;",
    "named entity": "&shy;",
    "comment": "<!---->",
    "comment with words": "<!-- no -->",
    "tag": "<wbr>",
    "empty element": "<b></b>",
}


def verdict(name, text, **params):
    verifier = find_verifier(name)
    return verifier.verify(Rollout(response=text), verifier.check_parameters(params)).value


@folded("word", ["terrible", "糟糕透顶"])
@folded("trick", HIDDEN)
def test_a_hidden_word_is_not_there(trick, word):
    text = f"All is well {HIDDEN[trick].format(word)}"
    assert verdict("Keyword", text, keywords=[word]) == 0
    assert verdict("ForbiddenContent", text, words=[word]) == 1
    assert verdict("keywords:existence", text, keywords=[word]) == 0
    assert verdict("WordCount", text, relation="at most", count=4) == 1


@folded("word", ["terrible", "糟糕透顶"])
@folded("trick", WITHIN)
def test_a_word_that_is_cut_invisibly_is_there(trick, word):
    text = f"It is {word[:2]}{WITHIN[trick]}{word[2:]} today"
    assert verdict("Keyword", text, keywords=[word]) == 1
    assert verdict("ForbiddenContent", text, words=[word]) == 0
    assert verdict("keywords:forbidden_words", text, forbidden_words=[word]) == 0
    assert verdict("WordCount", text, relation="exactly", count=4 if word.isascii() else 7) == 1


@folded("text", ["ter**ri**ble", "**ter**rible", "ter`ri`ble", "ter<b>ri</b>ble", "t&#101;rribl&#x65;"])
def test_markup_inside_a_word_does_not_divide_it(text):
    assert visible(text) == "terrible"
    assert verdict("ForbiddenContent", text, words=["terrible"]) == 0


@pytest.mark.parametrize("blank", ["\u2800", "\u3164", "\uffa0", "\u115f"])
def test_blanks_are_no_words(blank):
    assert verdict("WordCount", f"one {blank * 3} two", relation="exactly", count=2) == 1
    assert verdict("EmptyAnswer", blank * 5) == 0


def test_the_public_readings_stay_as_they_are():
    verifier = find_verifier("keywords:existence")
    params = verifier.check_parameters({"keywords": ["cat"]})
    rollout = Rollout(response="<!-- cat -->dog")
    assert verifier.verify(rollout, params, compat="upstream").value == 1
    assert verifier.verify(rollout, params).value == 0


@folded(
    "text",
    [
        "An ordinary text, *with* some **Markdown** and `code`.",
        "```html\n<!-- seen -->\n```",
        "`<!-- seen -->`",
        "2*3*4 and K*b*x",
        "snake_case and x < y > z, a <= b",
        "<<title>> and <name>",
        "[^1]: a footnote that is shown",
        "❤️ 1️⃣ 👨‍👩‍👧",
        "List<int> and Map<String, Object>",
        "用`for`循环",
        "AT&T & Co; R&D",
    ],
)
def test_what_is_seen_stays(text):
    assert visible(text) == text
    assert Text(text).shown.raw == text


@pytest.mark.parametrize("text", ["Plain words.", "普通的文字。", "**bold** and *italic*", "- a\n- b"])
def test_an_ordinary_text_is_the_same_object(text):
    assert visible(text) is text
    whole = Text(text)
    assert whole.shown is whole


def test_code_that_opens_and_closes_on_one_line_is_no_fence():
    assert visible("```x``` It is b<!-- not -->ad.") == "```x``` It is bad."
    assert visible("```\n<!-- code -->\n```\n```x``` b<!-- not -->ad") == "```\n<!-- code -->\n```\n```x``` bad"
    assert (
        visible("```x``` bad\n```\n<!-- code that stays open -->") == "```x``` bad\n```\n<!-- code that stays open -->"
    )


def test_html_stands_as_its_markdown():
    assert [i.text for i in Text("<ul><li>a<li>b</ul>").shown.markdown.bullets] == ["a", "b"]
    assert Text("<h2>Plan</h2><p>One.<p>Two.").shown.paragraphs == ("## Plan", "One.", "Two.")


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ('<span style="color:white">Paris</span> Lyon', "Lyon"),
        ('<span style="color: #FFF">Paris</span> Lyon', "Lyon"),
        ('<span style="color:rgb(255, 255, 255)">Paris</span> Lyon', "Lyon"),
        ('<font color="white">Paris</font> Lyon', "Lyon"),
        ('<div style="position:absolute;left:-9999px">Paris</div> Lyon', "Lyon"),
        ('<span style="background:black;color:white">Paris</span> Lyon', "Paris Lyon"),
        ('<span style="background-color:white">Paris</span> Lyon', "Paris Lyon"),
        ('<span style="color:red">Paris</span> Lyon', "Paris Lyon"),
    ],
)
def test_white_letters_and_letters_off_the_page_are_hidden(text, seen):
    assert visible(text).strip() == seen


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("  <!-- a note --> Lyon\nParis", "   Lyon\nParis"),  # a closed comment hides itself only, indented or not
        ("Lyon\n  <!-- a note\nParis", "Lyon\n"),
        ("Lyon <!-- a note\nParis", "Lyon <!-- a note\nParis"),
        ("Lyon <!--> Paris <!---> Rome", "Lyon  Paris  Rome"),
        ("Lyon <![CDATA[ a ]]> Paris <![CDATA[ b", "Lyon  Paris <![CDATA[ b"),
    ],
)
def test_comments_end_where_browsers_end_them(text, seen):
    assert visible(text) == seen


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("<img hidden> Lyon", " Lyon"),
        ("Paris <input type='text' hidden/> Lyon", "Paris  Lyon"),
        ('<br style="display:none">Lyon\n\nParis', "Lyon\n\nParis"),
        ("<p hidden>Paris <img> Rome</p>Lyon", "Lyon"),
    ],
)
def test_a_hidden_element_without_content_hides_itself_only(text, seen):
    assert visible(text) == seen


@pytest.mark.parametrize(
    ("text", "seen"),
    [
        ("`<!--` and `-->`", "`<!--` and `-->`"),
        ("`<b>` <b>and</b> `a**b**`", "`<b>` and `a**b**`"),
        ("[`here`](http://x.y), `1` <!-- `2` -->`3`", "`here`, `1` `3`"),
        ("\x011\x01 `x` <b>y</b> &#1;0&#1;", "1 `x` y 0"),
    ],
)
def test_code_stays_as_it_is(text, seen):
    assert visible(text) == seen


@given(st.text(alphabet="ab<>!-[]()*`&;#\n \u200b\u2800'\"=/", max_size=60))
def test_nothing_is_hidden_twice_and_nothing_raises(text):
    seen = visible(text)
    assert "\u200b" not in seen
    assert len(seen) <= 4 * len(text) + 4


@pytest.mark.parametrize(
    "text",
    [
        "<" * 10**5,
        "<!--" * 30_000,
        "[" * 10**5,
        "](" * 50_000,
        "`" * 10**5,
        "a*" * 50_000,
        '<a style="' * 10_000,
        "<span hidden>" * 10_000,
        "&" * 10**5,
        "\\phantom{" * 10_000,
        "\n".join("`" * i for i in range(3, 400)),
    ],
    ids=lambda text: text[:8],
)
def test_hostile_texts_take_no_time(text):
    visible(text)
