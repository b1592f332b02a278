"""IFEval: how many words, sentences and paragraphs."""

from __future__ import annotations

import re
import string

from rubrank.texts.text import Text
from rubrank.texts.words import count_segmented_words
from rubrank.verifiers.ifeval.common import AnyRelation, Lang, instruction
from rubrank.verifiers.ifeval.nltk_like import count_sentences
from rubrank.verifiers.ifeval.prompts import remove_frame
from rubrank.verifiers.shared.relation import Count, compare_count
from rubrank.verifiers.verifier import Answer, Compat

_ASCII_PUNCTUATION = str.maketrans("", "", string.punctuation)
_STARS = re.compile(r"\s?\*\*\*\s?")
_THREE = re.compile(r"(?<!\*)\*{3}(?!\*)")
_RUN = re.compile(r"\w+")
_LEADING = re.compile(r"[\W_]*")


@instruction("length_constraints:number_words")
def number_words(
    text: Text, *, num_words: Count, relation: AnyRelation = "at least", compat: Compat = "fixed"
) -> Answer:
    """At least / less than … `num_words` words. In Chinese each character is a word.

    Passes: "don't stop now" for less than 4.
    Fails: the same for at least 4.
    Not covered: words of Chinese.
    upstream: runs of letters, digits and underscores: "don't" is two, a Chinese clause is one.
    """
    count = len(_RUN.findall(text.raw)) if compat == "upstream" else count_segmented_words(text.raw)
    return compare_count(count, "word", relation, num_words)


@instruction("length_constraints:number_sentences", version=4)
def number_sentences(
    text: Text,
    *,
    num_sentences: Count,
    relation: AnyRelation = "at least",
    lang: Lang = "en",
    compat: Compat = "fixed",
) -> Answer:
    """At least / less than … `num_sentences` sentences; a blank line ends one too. A title in its marks,

    headings, a salutation and a signature are none.

    Passes: "Dr. Who came. He left." for less than 3.
    Fails: the same for at least 3.
    Not covered: poems and lists without full stops (a paragraph of them is one).
    upstream: the public splitter's sentences: line breaks end nothing, "1. One" is two.
    """
    if compat == "fixed":
        count = len(Text(remove_frame(text.raw)).shown.sentences)
    elif lang == "ja":
        count = sum(bool(part.strip()) for part in _JAPANESE_END.split(text.raw))
    else:
        count = count_sentences(text.raw, lang)
    return compare_count(count, "sentence", relation, num_sentences)


_JAPANESE_END = re.compile("[。!?！？]+[」』）)]*|\n")


@instruction("length_constraints:number_paragraphs", version=2)
def number_paragraphs(text: Text, *, num_paragraphs: Count, compat: Compat = "fixed") -> Answer:
    """Exactly `num_paragraphs` paragraphs, divided by `***`.

    Passes: "One.\\n***\\nTwo." for 2.
    Fails: "One.\\n\\nTwo." for 2 (no divider).
    Not covered: other dividers. `***` at one end of a line divides too, but not around words: `***bold***`.
    upstream: `***` also divides inside `***bold***`, and an empty paragraph between two dividers fails.
    """
    if compat == "fixed":
        parts = [part for part in _split_at_dividers(text.raw) if any(map(str.isalnum, part))]
        return compare_count(len(parts), "paragraph", "exactly", num_paragraphs)
    parts = _STARS.split(text.raw)
    if not all(part.strip() for part in parts[1:-1]):
        return False, "an empty paragraph between two dividers"
    count = sum(bool(part.strip()) for part in parts)
    return compare_count(count, "paragraph", "exactly", num_paragraphs)


def _split_at_dividers(raw: str) -> list[str]:
    """Split the text at its dividers: `***` between spaces, or the only `***` of a line at one end of it."""
    lines: list[str] = []
    for line in raw.replace("\x00", "").split("\n"):
        runs = list(_THREE.finditer(line))
        # From the last to the first, so that the positions of the others stay valid.
        for run in reversed(runs):
            before = line[: run.start()]
            after = line[run.end() :]
            is_between_spaces = (not before or before[-1].isspace()) and (
                not after or after[0].isspace()
            )
            is_at_edge = len(runs) == 1 and (not before.strip() or not after.strip(" \t.。"))
            if is_between_spaces or is_at_edge:
                line = f"{before}\x00{after}"
        lines.append(line)
    return "\n".join(lines).split("\x00")


@instruction("length_constraints:nth_paragraph_first_word", version=2)
def nth_paragraph_first_word(
    text: Text,
    *,
    num_paragraphs: Count,
    nth_paragraph: Count,
    first_word: str,
    lang: Lang = "en",
    compat: Compat = "fixed",
) -> Answer:
    """Exactly `num_paragraphs` paragraphs, a blank line between; the `nth_paragraph`-th begins with `first_word`.

    Passes: "One.\\n\\n**Two** men." for 2, 2, "two".
    Fails: three paragraphs, or "Twofold" for "two".
    upstream: paragraphs are cut at every two line breaks; of the first word everything before `.,?!'"` counts; in
        Spanish as many words as are asked for, without ASCII punctuation and list markers.
    Not covered: inflected forms of the word.
    """
    if compat == "upstream":
        return _check_first_word_upstream(
            text.raw, num_paragraphs, nth_paragraph, first_word.lower(), lang
        )
    paragraphs = text.paragraphs
    if len(paragraphs) != num_paragraphs:
        return compare_count(len(paragraphs), "paragraph", "exactly", num_paragraphs)
    if not 1 <= nth_paragraph <= len(paragraphs):
        return False, f"no paragraph {nth_paragraph}"
    start = _LEADING.sub("", paragraphs[nth_paragraph - 1], count=1).casefold()
    word = _LEADING.sub("", first_word, count=1).casefold()
    next_char = start[len(word) : len(word) + 1]
    is_whole_word = lang == "ja" or not word[-1:].isalnum() or not next_char.isalnum()
    start_word = start.split()[0][:40] if start else ""
    reason = f"paragraph {nth_paragraph} begins with “{start_word}”, “{word}” required"
    return start.startswith(word) and is_whole_word, reason


def _check_first_word_upstream(
    text: str, number: int, nth: int, first_word: str, lang: Lang
) -> tuple[bool, str]:
    paragraphs = text.split("\n\n")
    count = sum(bool(paragraph.strip()) for paragraph in paragraphs)
    if not 1 <= nth <= count or not paragraphs[nth - 1].strip():
        return False, f"no paragraph {nth}"
    paragraph = paragraphs[nth - 1].strip()
    if lang == "es":
        words = [word.translate(_ASCII_PUNCTUATION) for word in paragraph.lower().split()]
        words = [word for word in words if word]
        start = " ".join(words[: len(first_word.split())])
        first_word = " ".join(first_word.split())
    elif lang == "ja":
        start = paragraph.lstrip("「").lstrip("『")[: len(first_word)]
    else:
        word = paragraph.split()[0].lstrip("'").lstrip('"').lower()
        start = re.split("[.,?!'\"]", word, maxsplit=1)[0]
    reason = f"{count} paragraphs found, {number} required; "
    reason += f"paragraph {nth} begins with “{start[:40]}”, “{first_word}” required"
    return count == number and start == first_word, reason
