"""Units as readers count them: words without spaces, bullets of all kinds, titles, entries, persons, HTML, formulas."""

import pytest
from cases import folded

from rubrank.rollouts.rollout import Rollout
from rubrank.texts.words import count_segmented_words
from rubrank.verifiers.paper.presence import find_first_person
from rubrank.verifiers.verifier import find_verifier


def verdict(name, text, **params):
    verifier = find_verifier(name)
    return verifier.verify(Rollout(response=text), verifier.check_parameters(params)).value


@folded(
    ("text", "count"),
    [
        ("私は学生です。", 4),
        ("東京は日本の首都です。", 6),
        ("日本語の単語を数えるのは難しい。", 8),
        ("ฉันรักเธอ", 3),
        ("เมืองหลวงของโปรตุเกสคืออะไร", 6),
        ("Hello ฉันรักเธอ world", 5),
        ("你好世界", 4),
        ("one two", 2),
        ("", 0),
        ("Python は便利です", 4),
        ("한국어 문장입니다", 2),
    ],
)
def test_words_without_spaces(text, count):
    assert count_segmented_words(text) == count
    assert verdict("WordCount", text or " ", relation="exactly", count=count) == 1
    if text:
        assert verdict("length_constraints:number_words", text, relation="exactly", num_words=count) == 1


def test_japanese_without_end_takes_linear_time():
    assert count_segmented_words("私は学生です" * 5_000) > 10_000
    assert count_segmented_words("ก" * 50_000) > 0


@folded("sign", ["- ", "* ", "+ ", "– ", "• ", "•", "・", "・ ", "-", "● "])
def test_bullets(sign):
    text = f"Fruits:\n{sign}apple\n{sign}pear\n{sign}plum"
    assert verdict("BulletCount", text, count=3) == 1
    assert verdict("EntryCount", text, count=3) == 1


@pytest.mark.parametrize("text", ["1️⃣ one\n2️⃣ two\n3️⃣ three", "1⃣ one\n2⃣ two\n🔟 ten", "1. a\n2. b\n3. c", "①一\n②二\n③三"])
def test_numbered_entries(text):
    assert verdict("BulletCount", text, count=3, kind="numbered") == 1


@pytest.mark.parametrize("text", ["-5 degrees\n-6 degrees", "—Hola\n—Adiós", "--flag\n--other", "**Bold**\n**Bold**"])
def test_no_bullets(text):
    assert verdict("BulletCount", text, count=0) == 1


@pytest.mark.parametrize("line", ["=====", "==", "-----", "---"])
def test_underlined_titles_are_headings(line):
    text = f"My Title\n{line}\n\nOne is here. Two is there.\n\nThree is gone."
    assert verdict("ParagraphCount", text, count=2) == 1
    assert verdict("SentenceCount", text, relation="exactly", count=3) == 1
    assert verdict("FormatRequirement", text, format="headings") == 1


def test_a_rule_under_a_sentence_is_a_rule():
    assert verdict("ParagraphCount", "This is a sentence.\n---\n\nThis is another.", count=2) == 1


@folded(
    ("text", "count"),
    [
        ("red, green or blue", 3),
        ("red, green, and blue", 3),
        ("red or blue", 2),
        ("苹果、香蕉和梨", 3),
        ("苹果，香蕉", 2),
        ("rouge, vert et bleu", 3),
        ("rojo, verde o azul", 3),
        ("rot, grün und blau", 3),
        ("one", 1),
        ("We all went up the hill and looked around there", 1),
    ],
)
def test_entries_in_a_sentence(text, count):
    assert verdict("EntryCount", text, count=count) == 1


@folded(
    "text",
    [
        "World War I began in 1914.",
        "Type I errors",
        "Elizabeth I of England",
        "I. Introduction",
        "In the US, I/O is slow.",
        "a coal mine",
        "for i in range(3)",
        "i.e. this",
        "自我管理",
        "Part I and Part II",
        "Chapter I: The Start",
    ],
)
def test_no_first_person(text):
    assert find_first_person(text) is None
    assert verdict("ForbiddenContent", text, kinds=["first person"]) == 1


@folded(
    "text",
    [
        "Yesterday I went.",
        "i think so",
        "give it to me",
        "This is mine.",
        "We won.",
        "it's ours",
        "我觉得",
        "咱们走",
        "In World War I we lost.",
        "I'm here",
        "So did I.",
        "i'm here",
    ],
)
def test_first_person(text):
    assert find_first_person(text)
    assert verdict("DictionRequirement", text, tone="no first person") == 0


@folded(
    "text",
    [
        "<ul><li>a<li>b</ul>",
        "<p>one<p>two",
        "<table><tr><td>1<td>2<tr><td>3</table>",
        "<DIV>x</div>",
        "<br>x<hr>",
        "<!DOCTYPE html><html><head><title>a < b</title><body><script>if (a<b) x()</script><img src=x></body></html>",
        "<dl><dt>a<dd>b</dl>",
        "<select><option>a<option>b</select>",
    ],
)
def test_html_as_browsers_read_it(text):
    assert verdict("FormatRequirement", text, format="html") == 1


@folded("text", ["<div>one", "<b>one</i>", "no tags", "</div>", "<ul><li>a</ol>"])
def test_no_html(text):
    assert verdict("FormatRequirement", text, format="html") == 0


@folded("text", ["$5 and $6", "It costs $5.", "$5-$10", "from $5/$6 to US$7", "$ x $"])
def test_prices_are_no_formulas(text):
    assert verdict("FormatRequirement", text, format="latex") == 0


@folded("text", ["$x$", "The sum $a+b$ is 3.", "$$x^2$$", "\\(x\\)", "\\[x\\]", "\\begin{align}", "$5x = 10$"])
def test_formulas(text):
    assert verdict("FormatRequirement", text, format="latex") == 1
