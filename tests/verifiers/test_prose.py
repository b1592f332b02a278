"""Counts equal an independent, obvious implementation, on generated texts and on all real responses."""

from __future__ import annotations

import gzip
import json
import re
import unicodedata
from pathlib import Path

import pytest
from cases import examples, spread
from hypothesis import example, given
from hypothesis import strategies as st

from rubrank.rollouts.rollout import Rollout
from rubrank.texts import prose
from rubrank.texts.reasoning import TAGS, split_reasoning
from rubrank.texts.text import Text, split_piece
from rubrank.verifiers.gates.empty import empty_answer
from rubrank.verifiers.gates.think_leak import think_leak
from rubrank.verifiers.instructions.ifeval_format import no_comma
from rubrank.verifiers.paper.length import letter_frequency

DATA = Path(__file__).parents[3] / "shared" / "data"

PIECES = [
    *("Word", "a word", "example", "because", "Dr", "Mr", "e.g", "etc", "no", "i", "B", "x-ray", "3", "12", "3.14"),
    *(
        "U.S",
        "don't",
        "he’s",
        "É",
        "é",
        "e\u0301",
        "ﬁne",
        "\uff2b",
        "\u212a",
        "\u017f",
        "İ",
        "中文",
        "一、",
        "①",
        "かな",
    ),
    *("ไทย", "слово", "हिन्दी", "한국", ".", ". ", "! ", "? ", "?!", "…", "... ", '."', '" ', "“", "”", "。", "\uff01"),
    *(".)", ".**", "._", "**", "*", "_", "`", "```", "~~~", "#", "# ", "## A", "- ", "* ", "+ ", "• ", "•", "1. "),
    *("2) ", "a. ", "iv) ", "(1)", "---", "***", "* * *", "===", "|", ">", "<", "<think>", "</think>", "[THINK]"),
    *("<|im_end|>", "◁think▷", "Wait, ", "hmm… ", "等等，", ",", "\uff0c", "、", "&nbsp;", "<br>", "\u200b", "\u200d"),
    *("\u00a0", "\u00ad", "\x00", "\ud800", "😀", " ", "  ", "\t", "\n", "\n\n", "\n\n", "\r\n", "\x0b", "\x85"),
    *(
        "\u2028",
        "http://x.y/z",
        "www.x.y",
        "– ",
        "・",
        "-a",
        "-5",
        "1\ufe0f\u20e3",
        "2\u20e3 ",
        "\U0001f51f",
        "\n===\n",
        "\n---\n",
    ),
]
mixed = st.one_of(
    st.lists(st.sampled_from(PIECES), max_size=25).map("".join),
    st.lists(st.sampled_from([*PIECES[:20], ". ", "! ", ", ", "\n"]), max_size=25).map(" ".join),
    st.text(st.characters(), max_size=40),
)


def real_texts() -> list[str]:
    found = []
    for name in ("m_ifeval/en_groups", "m_ifeval/fr_groups", "ifbench/sample_verdicts"):
        with gzip.open(DATA / f"{name}.jsonl.gz", "rt", encoding="utf-8") as lines:
            for line in lines:
                row = json.loads(line)
                found += [a["response"] for a in row["responses"]] if "responses" in row else [row["response"]]
    return found


# ---- the obvious way ------------------------------------------------------------------------------------------------


def words(text: str) -> int:
    """Spaces for what divides, nothing for what joins, a word of its own for a letter that is one."""
    kept = []
    for char in text:
        category = unicodedata.category(char)
        if char in "'’-‐‑.,_" or category[0] == "M" or (category == "Cf" and char != "\u200b"):
            continue
        unspaced = re.match(
            "CJK |IDEOGRAPHIC |HIRAGANA |(HALFWIDTH )?KATAKANA|BOPOMOFO |THAI |LAO |KHMER |MYANMAR ",
            unicodedata.name(char, ""),
        )
        alone = unspaced and (category[0] == "L" or char == "〇")
        kept.append(" x " if alone else "x" if category[0] in "LN" else " ")
    return len("".join(kept).split())


def pieces(text: str) -> list[str]:
    found: list[list[str]] = [[]]
    for line in prose.split_code(text)[0]:
        if not line.strip() or prose.is_heading(line) or prose.is_rule(line):
            found.append([])
        elif prose.is_item(line):
            found.append([prose.list_items(line)[0].text])
        else:
            found[-1].append(line)
    return ["\n".join(piece).strip() for piece in found]


def blocks(lines: list[str]) -> tuple[str, ...]:
    found: list[list[str]] = [[]]
    for line in lines:
        if line.strip():
            found[-1].append(line)
        elif found[-1]:
            found.append([])
    return tuple("\n".join(block).strip() for block in found if block)


def as_word(text: str, phrase: str) -> int:
    glue = f"[^\\W_{prose.UNSPACED}]"
    before, after = (f"(?<!{glue})", f"(?!{glue})") if re.match(glue, phrase) else ("", "")
    return len(re.findall(before + re.escape(phrase) + after, text))


def shows_something(answer: str) -> bool:
    shown = re.sub(r"```\w*|[#*_~`|>=-]", "", answer)
    return any(unicodedata.category(c)[0] not in "ZCMP" for c in shown)


# ---- both ways ------------------------------------------------------------------------------------------------------


def same_both_ways(raw: str) -> None:
    text = Text(raw)
    assert text.word_count == len(text.words) == words(raw)
    assert text.paragraphs == blocks(raw.splitlines())
    marked = prose.mark_titles(raw)
    expected = [sentence.split() for piece in pieces(marked) for sentence in split_piece(piece)]
    assert [sentence.split() for sentence in prose.sentences(raw)] == expected
    for phrase in ("word", "example", "because", "he's", "k", "fine", "s", "中文", "a word"):
        assert prose.count_phrase(text.folded, phrase) == as_word(text.folded, phrase)
        assert prose.count_phrase(text.folded, phrase, whole=False) == text.folded.count(phrase)
    for letter in "ekE3é中":
        whole, found = unicodedata.normalize("NFC", text.shown.raw), letter_frequency(text, letter=letter, count=0)
        assert found[1].startswith(f"{sum(map(whole.count, {letter, letter.lower(), letter.upper()}))} ")  # type: ignore[index]
    if not shows_something(raw):
        assert empty_answer(Rollout(response=raw, reasoning=""))[1] != "there is an answer"
    assert no_comma(text)[1].startswith(f"{len(re.findall('[,，、،﹐︐]', raw))} comma")  # type: ignore[index]
    assert (split_reasoning(raw) == ("", raw)) >= (not any(tag in raw for pair in TAGS for tag in pair))


@pytest.mark.slow
@examples(1500)
@given(mixed)
@example("It works. 🎉")
@example("**  **\nx")
@example("he came. she sat. e.g. this.")
@example("1. 2. Foo bar. Baz")
@example("* * *\n- - -\n    * * * x")
def test_generated_texts(raw):
    same_both_ways(raw)


@pytest.mark.slow
@pytest.mark.skipif(not (DATA / "m_ifeval").exists(), reason="needs ../shared/data")
def test_on_every_real_response():
    texts = real_texts()
    assert len(texts) > 5000
    for raw in spread(texts, every=12):
        same_both_ways(raw)


@pytest.mark.slow
@examples(500)
@given(mixed)
def test_a_thinking_tag_is_found_wherever_it_stands(raw):
    assert think_leak(Rollout(response=raw, reasoning=""))[1]
    if "`" not in raw:
        assert think_leak(Rollout(response=f"{raw}\n\n</think> so", reasoning=""))[0] is False
