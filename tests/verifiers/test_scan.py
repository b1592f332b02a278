"""What the compiled scan counts is what Python counts: on texts made up of everything, and on all real responses."""

from __future__ import annotations

import re

import pytest
from cases import examples, spread
from hypothesis import example, given
from hypothesis import strategies as st
from verifiers.test_prose import DATA, PIECES, as_word, mixed, real_texts

from rubrank.grading.grade import grade
from rubrank.rollouts.rollout import Rollout
from rubrank.texts import prose, scanned, sentences
from rubrank.texts.scan import flags as scan_flags
from rubrank.texts.scan import scanning as scan
from rubrank.texts.text import Text
from rubrank.verifiers.gates import thinking
from rubrank.verifiers.paper import format as paper_format

KEYWORDS = ("word", "example", "because", "k", "fine", "s", "3", "x", "i", "中文", "he's", "a word")


def same_as_python(raws: list[str]) -> int:
    """Compares all counts of all texts; how many were left to Python."""
    texts = [Text(raw) for raw in raws]
    scan.scan(texts)
    left = 0
    for text in texts:
        plainly, found = Text(text.raw), text.scan
        assert found is not None
        counts = {
            "words": plainly.word_count,
            "sentences": prose.count_sentences(plainly),
            "paragraphs": paper_format._count_paragraphs(plainly),
            "bullets": prose.count_bullets(plainly),
            "commas": len(re.findall("[,，、،﹐︐]", text.raw)),
        }
        for name, count in counts.items():
            assert getattr(found, name) in (count, -1), (name, text.raw)
            left += getattr(found, name) == -1
        assert text.word_count == counts["words"]
        assert prose.count_sentences(text) == counts["sentences"]
        assert paper_format._count_paragraphs(text) == counts["paragraphs"]
        assert prose.count_bullets(text) == counts["bullets"]
        check_signs(text.raw, found.signs)
        for word in KEYWORDS:
            assert prose.count_in(text, word) == as_word(prose.search_form(plainly), word)
    return left


def check_signs(raw: str, signs: int) -> None:
    """What is there has its bit, and an answer leaks thoughts by one way of looking as by the other."""
    assert bool(signs & scanned.FENCE) >= prose.has_fence(raw)
    assert bool(signs & scanned.TICK) >= ("`" in raw)
    assert bool(signs & scanned.ADDRESS) >= ("://" in raw or "www." in raw)
    assert bool(signs & scanned.BRACKETS) >= bool(thinking._tags(raw))
    assert bool(signs & scanned.TALK) >= bool(thinking._MONOLOGUE.search("\n" + raw))
    for reasoning in (None, ""):
        plainly, scanned_too = (Rollout(response=raw, reasoning=reasoning) for _ in range(2))
        scan.scan([scanned_too.text])
        assert thinking.think_leak(plainly) == thinking.think_leak(scanned_too)


LISTS = [*sentences._SHORTENED, *sentences._STARTERS, *sentences._MONTHS, "J", "I", "z", "x", "12", "123", "Café", "–"]
abbreviated = st.lists(
    st.sampled_from([*LISTS, *map(str.capitalize, LISTS), ". ", ". ", ".", "! ", '." ', "\n", " "]), max_size=30
).map("".join)
HEADS = ["", "#", "# ", "##  ", "#######", " ", "    ", "\t", "\u00a0", "-", "- ", "* ", "+\t", "•", "**", "1. "]
HEADS += [
    "1.  ",
    "12345. ",
    "1、",
    "(2)",
    "（二）",
    "十一、",
    "①",
    "iv. ",
    "xi) ",
    "q) ",
    "qq) ",
    "**1. ",
    "# 3) ",
]
HEADS += ["---", "- - -", "==="]
HEADS += ["== =", "```", "~~~~", "- ```", "> ~~~", "1. ```", "``` x", "````", "Wait, ", "But wait, ", "hmm… ", "Okay"]
lined = st.lists(
    st.tuples(st.sampled_from(HEADS), st.sampled_from(["", "x", "**T**", "A word. B", "。", "`", " ", "\u00a0", "…"])),
    max_size=14,
).map(lambda lines: "\n".join(head + rest for head, rest in lines))


@pytest.mark.slow
@examples(400)
@given(st.lists(st.one_of(mixed, abbreviated, lined), min_size=1, max_size=8))
@example(["", " ", "\n", "x", "\0", "K. He", "“走吧！”他说。"])
@example(["**T**\n## ", "a\n\n---\u00a0", "```\n\n\n", "```\nx\n\ny", "~~~\n```\n~~~\n. B"])
@example(["No. 5 is. no. It", "J. Smith. I. She", "am 3. Mai. Am 3. Haus", "he came. she sat. e.g. this."])
def test_scan_is_python(raws):
    same_as_python(raws)


@pytest.mark.slow
def test_most_is_left_to_nobody():
    assert same_as_python([f"# {piece}\n\nA {piece} b. C, d.\n\n- e" for piece in PIECES if piece.isprintable()]) < 5


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "m_ifeval").exists(), reason="needs ../shared/data")
def test_on_every_real_response():
    texts = real_texts()
    assert len(texts) > 5000
    some = spread(texts)
    for first in range(0, len(some), 100):
        same_as_python(some[first : first + 100])


@pytest.mark.slow
def test_a_word_that_is_there_is_never_denied():
    text = Text("It’s an Example: snake_case x-ray 3.14 QWERTY")
    scan.scan([text])
    assert text.scan is not None
    there = ("it", "s", "an", "example", "snake", "case", "x", "ray", "3", "14")
    assert all(text.scan.held[scanned.slot(word)] for word in there)
    assert not any(text.scan.held[scanned.slot(word)] for word in ("because", "obviously", "utilize", "examples"))


@pytest.mark.slow
def test_more_kinds_of_characters_than_bytes(monkeypatch):
    monkeypatch.setattr(scan_flags, "_BYTES", dict.fromkeys(range(-200, 0), 0))
    monkeypatch.setattr(scan_flags, "SHAPES", scan_flags.ClassTable(scan_flags._byte))
    text = Text("Élan vital. Ça va, non?")
    scan.scan([text])
    assert text.scan is not None
    assert text.scan[:5] == (-1,) * 5
    assert (text.word_count, prose.count_sentences(text)) == (5, 2)


def test_pieces_beyond_the_room_for_questions():
    raw = "\n\n".join(["“走吧！”他说。"] * 500)
    text = Text(raw)
    scan.scan([text])
    assert text.scan is not None
    assert text.scan.sentences == -1
    assert prose.count_sentences(text) == prose.count_sentences(Text(raw))


def test_it_pays_after_much_text(monkeypatch):
    monkeypatch.setattr(scan, "_read", 0)
    texts = [Text("x" * (scan._PAYS // 2))] * 2
    assert not scan.worth(texts)
    assert scan.worth(texts)


@pytest.mark.parametrize(
    "rubric", [["WordCount"], ["SentenceCount", "ParagraphCount", "BulletCount", "ThinkLeak"]], ids=len
)
def test_grading_says_the_same_with_and_without(rubric, monkeypatch):
    criteria = [{"name": name, "params": {} if name == "ThinkLeak" else {"count": 2}} for name in rubric]
    rows = [{"prompt": "p", "responses": [f"A {piece}. B\n\n- {piece}" for piece in PIECES]}]
    tables = []
    for read in (0, scan._PAYS):
        scanned_texts = []
        monkeypatch.setattr(scan, "_read", read)
        with monkeypatch.context() as patch:
            patch.setattr(
                scan, "scan", lambda texts, real=scan.scan, seen=scanned_texts: (seen.extend(texts), real(texts))
            )
            tables.append(grade(rows, criteria, workers=0).groups[0])
        assert bool(scanned_texts) == (read > 0 and len(rubric) > 1)
    assert (tables[0].scores == tables[1].scores).all()
    assert tables[0].reasons == tables[1].reasons
