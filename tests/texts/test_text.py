"""Units of a text: words, sentences, paragraphs, letters, syllables, Markdown, in several languages, in linear time."""

import pickle

import pytest
from cases import examples, folded
from hypothesis import given
from hypothesis import strategies as st

from rubrank.fusion.control.length import count_words
from rubrank.fusion.control.markdown import MARKERS, markdown_counts
from rubrank.texts.markdown import Code, Heading, Link, ListItem
from rubrank.texts.text import Text

ODD = "aZ1é中かกি́ -'’.,_!?。！？…\"“”‘’「」()[]*_`~#>|+\n\r\t\u200b\u200d\u00ad\x00\ud800😀١"


# ---- words ----------------------------------------------------------------------------------------------------------


@folded(
    ("text", "words"),
    [
        ("Don't stop—now", ["Don't", "stop", "now"]),
        ("state-of-the-art, 3.14 and 1,000.", ["state-of-the-art", "3.14", "and", "1,000"]),
        ("-- 'quoted' _x_ ...", ["quoted", "x"]),
        ("我爱Python3。", ["我", "爱", "Python3"]),
        ("これはペン", ["こ", "れ", "は", "ペ", "ン"]),
        ("안녕하세요 세계", ["안녕하세요", "세계"]),
        ("¿Qué tal, señor?", ["Qué", "tal", "señor"]),
        ("l’été aujourd'hui", ["l’été", "aujourd'hui"]),
        ("Привет, мир!", ["Привет", "мир"]),
        ("مرحبا بالعالم", ["مرحبا", "بالعالم"]),
        ("ที่", ["ที่"]),  # one letter with its signs
        ("cafe\u0301s", ["cafe\u0301s"]),  # an accent of its own
        ("می\u200cروم", ["می\u200cروم"]),  # joined without a space
        ("a\u200bb", ["a", "b"]),  # a space of no width
        ("😀 ok 👍🏽", ["ok"]),
        ("", []),
    ],
)
def test_words(text, words):
    assert list(Text(text).words) == words


@examples(400)
@given(st.text(alphabet=st.one_of(st.sampled_from(ODD), st.characters()), max_size=30))
def test_as_many_words_as_are_counted(text):
    assert len(Text(text).words) == count_words(text)


# ---- sentences ------------------------------------------------------------------------------------------------------


@folded(
    "sentences",
    [
        ["One.", "Two!", "Three?"],
        ["Dr. Lee paid 3.50 for it.", "He left."],
        ["J. R. R. Tolkien wrote it.", "It is long."],
        ["Plan B.", "The next one."],
        ["We live in the U.S. Army base.", "It is big."],
        ["It was 5 p.m.", "He left."],
        ["Apples, etc. are fruit.", "Eat them."],
        ["See fig. 3, no. 5 and e.g. this.", "Done."],
        ["He said no.", "Then he left."],
        ["“Really?” he asked.", "“Yes.”", "They went."],
        ["Wait... what?", "Wait...", "What?"],
        ["Look at www.example.com and v1.2.3 of foo.py now.", "Good."],
        ["(It is so.)", "Yes."],
        ["**Bold.**", "Plain."],
        ["really?", "yes!", "fine"],
        ["今天下雨。", "明天呢？", "不知道！"],
        ["“走吧！”他说。", "我们走了。"],
        ["我……不知道。", "真的。"],
        ["你好!", "再见?", "好"],
        ["これはペンです。", "「行こう。」と言った。", "はい！"],
        ["안녕하세요.", "반갑습니다!"],
        ["¿Qué tal?", "¡Muy bien!", "El Sr. Pérez vino."],
        ["M. Dupont est là.", "Il attend."],
        ["Er nahm z. B. den Bus.", "Das war gut."],
        ["Er kam am 3. Oktober an.", "Das war gut."],
        ["А. С. Пушкин писал, т. е. сочинял.", "Он велик."],
        ["هل أنت بخير؟", "نعم.", "شكرا."],
    ],
)
def test_sentences(sentences):
    joined = "".join(s if s[-1] in "。！」" or s.endswith("？") else f"{s} " for s in sentences)
    joined = joined.replace("再见? 好", "再见?好").replace("你好! 再", "你好!再")
    assert list(Text(joined).sentences) == sentences


@folded(
    ("text", "sentences"),
    [
        ("# Title\nText\ngoes on. More", ["# Title", "Text\ngoes on.", "More"]),
        ("- one\n- two. Three", ["- one", "- two.", "Three"]),
        ("1. First\n2. Second", ["1. First", "2. Second"]),
        ("A. Paris\nB. Rome", ["A. Paris", "B. Rome"]),
        ("一、苹果\n二、香蕉", ["一、苹果", "二、香蕉"]),
        ("No stop\n\nhere", ["No stop", "here"]),
        ("---\n\n***", []),
        ("It works. 🎉", ["It works. 🎉"]),
        ("… Well then. OK", ["… Well then.", "OK"]),
        ("ภาษาไทย\nบรรทัดสอง", ["ภาษาไทย", "บรรทัดสอง"]),
        ("", []),
    ],
)
def test_where_sentences_begin_and_end(text, sentences):
    assert list(Text(text).sentences) == sentences


@examples(300)
@given(st.text(alphabet=st.sampled_from(ODD), max_size=60))
def test_sentences_keep_every_word_in_order(text):
    found = "".join("".join(s.split()) for s in Text(text).sentences)
    assert [c for c in found if c.isalnum()] == [c for c in text if c.isalnum()]


# ---- the rest -------------------------------------------------------------------------------------------------------


def test_paragraphs_and_lines():
    text = Text("One\nstill one\n \n\nTwo\r\n\r\nThree\n")
    assert text.paragraphs == ("One\nstill one", "Two", "Three")
    assert text.lines == ("One", "still one", " ", "", "Two", "", "Three")


def test_letters_and_characters():
    text = Text("Cafe\u0301 42!\n中 文_\u200b")
    assert text.letters == "Café中文"
    assert text.characters == "Café42!中文_"


def test_syllables_of_each_word():
    assert Text("The table has 3 ideas.").syllables == (1, 2, 1, 0, 3)


def test_str_len_and_pickle():
    text = Text("Some words.")
    assert (str(text), len(text), text.words) == ("Some words.", 11, ("Some", "words"))
    assert pickle.loads(pickle.dumps(text)).words == text.words


def test_markdown_structure():
    found = Text(
        "# Plan *x*\n\n- **fast** and `c`\n- cheap\n  1. one\n  2. two\n\n| a | b |\n|---|---|\n| 1 | `2` |\n\n"
        "```py title\nx = 1\n```\n> said\n> so\n\n---\n[see](http://x.y)\n\nUnder\n=====\n"
    ).markdown
    assert found.headings == (Heading(1, "Plan x"), Heading(1, "Under"))
    assert found.bullets == (ListItem(1, "fast and c"), ListItem(1, "cheap"))
    assert found.numbered == (ListItem(2, "one"), ListItem(2, "two"))
    assert found.tables == ((("a", "b"), ("1", "2")),)
    assert found.code_blocks == (Code("py", "x = 1\n"),)
    assert found.emphasised == ("fast", "x")
    assert found.inline_code == ("c", "2")
    assert found.quotes == ("said\nso",)
    assert found.links == (Link("http://x.y", "see"),)
    assert found.rules == 1


@folded("text", ["2 * 3 * 4", "```\n# no\n- no\n```", "Plain text, no more", "#tag", "\\*no\\*"])
def test_what_is_no_markdown(text):
    found = Text(text).markdown
    assert (found.headings, found.bullets, found.emphasised) == ((), (), ())


@examples(300)
@given(st.text(alphabet=st.sampled_from("ab1 \n#*_-`>|.)[]("), max_size=60))
def test_as_many_parts_as_the_attributes_count(text):
    counts = dict(zip(MARKERS, markdown_counts([text])[0].tolist(), strict=True))
    found = Text(text).markdown
    assert counts["heading"] == len(found.headings)
    assert counts["bold"] == len(found.bold)
    assert counts["italic"] == len(found.italic)
    assert counts["unordered_item"] == len(found.bullets)
    assert counts["ordered_item"] == len(found.numbered)
    assert counts["code_block"] == len(found.code_blocks)
    assert counts["blockquote"] == len(found.quotes)
    assert counts["table_row"] == sum(map(len, found.tables))
    assert counts["horizontal_rule"] == found.rules


# ---- hostile texts --------------------------------------------------------------------------------------------------

REPEATED = [
    ".",
    "a. ",
    "A. ",
    '"',
    "`",
    "` ",
    '. "',
    ".\u201d",
    "中。",
    "“好。”",
    "- ",
    "1. ",
    "> ",
    "|",
    "|\n",
    "*a ",
    "*_",
]
REPEATED += [
    "[",
    "![",
    "[](",
    "<",
    "&",
    "\n",
    " ",
    "    x\n",
    "\u0301",
    "e\u0301",
    "\u200d",
    "a_",
    "**a *b",
    "\ud800",
    "\x00",
]
UNITS = ("words", "sentences", "paragraphs", "lines", "letters", "characters", "syllables", "markdown")


@pytest.mark.parametrize("piece", REPEATED, ids=ascii)
def test_no_text_takes_long(piece):
    # A linear method needs half a second at most; a quadratic one, minutes.
    text = Text(piece * (200_000 // len(piece)))
    for unit in UNITS:
        getattr(text, unit)
