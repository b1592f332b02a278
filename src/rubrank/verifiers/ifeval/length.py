"""IFEval: how many words, sentences and paragraphs."""

from __future__ import annotations

import re
import string

from rubrank.texts.text import Text
from rubrank.texts.words import count_segmented_words
from rubrank.verifiers.ifeval.asked import without_frame
from rubrank.verifiers.ifeval.common import AnyRelation, Lang, instruction
from rubrank.verifiers.ifeval.nltk_like import count_sentences
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

    Passes: "don't stop now" for less than 4. Fails: the same for at least 4. Not covered: words of Chinese.
    upstream: runs of letters, digits and underscores: "don't" is two, a Chinese clause is one.
    """
    count = len(_RUN.findall(text.raw)) if compat == "upstream" else count_segmented_words(text.raw)
    return compare_count(count, "word", relation, num_words)


@instruction("length_constraints:number_sentences", version=4)
def number_sentences(
    text: Text, *, num_sentences: Count, relation: AnyRelation = "at least", lang: Lang = "en", compat: Compat = "fixed"
) -> Answer:
    """At least / less than … `num_sentences` sentences; a blank line ends one too. A title in its marks,
    headings, a salutation and a signature are none.

    Passes: "Dr. Who came. He left." for less than 3. Fails: the same for at least 3. Not covered: poems and lists
    without full stops (a paragraph of them is one).
    upstream: the public splitter's sentences: line breaks end nothing, "1. One" is two.
    """
    if compat == "fixed":
        count = len(Text(without_frame(text.raw)).shown.sentences)
    else:
        count = _japanese_sentences(text.raw) if lang == "ja" else count_sentences(text.raw, lang)
    return compare_count(count, "sentence", relation, num_sentences)


_JAPANESE_END = re.compile("[。!?！？]+[」』）)]*|\n")


def _japanese_sentences(text: str) -> int:
    return sum(1 for part in _JAPANESE_END.split(text) if part.strip())


@instruction("length_constraints:number_paragraphs", version=2)
def number_paragraphs(text: Text, *, num_paragraphs: Count, compat: Compat = "fixed") -> Answer:
    """Exactly `num_paragraphs` paragraphs, divided by `***`.

    Passes: "One.\\n***\\nTwo." for 2. Fails: "One.\\n\\nTwo." for 2 (no divider). Not covered: other dividers.
    `***` at one end of a line divides too, but not around words: `***bold***`.
    upstream: `***` also divides inside `***bold***`, and an empty paragraph between two dividers fails.
    """
    if compat == "fixed":
        return compare_count(sum(map(_says_something, _divided(text.raw))), "paragraph", "exactly", num_paragraphs)
    parts = [bool(part.strip()) for part in _STARS.split(text.raw)]
    if not all(parts[1:-1]):
        return False, "an empty paragraph between two dividers"
    return compare_count(sum(parts), "paragraph", "exactly", num_paragraphs)


def _divided(raw: str) -> list[str]:
    """The text cut at its dividers: `***` between spaces, or alone in its line at one end of it."""
    marked = []
    for line in raw.replace("\x00", "").split("\n"):
        runs = list(_THREE.finditer(line))
        for run in reversed(runs):
            before, after = line[: run.start()], line[run.end() :]
            alone = (not before or before[-1].isspace()) and (not after or after[0].isspace())
            if alone or (len(runs) == 1 and (not before.strip() or not after.strip(" \t.。"))):
                line = f"{before}\x00{after}"
        marked.append(line)
    return "\n".join(marked).split("\x00")


def _says_something(part: str) -> bool:
    return any(map(str.isalnum, part))


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

    Passes: "One.\\n\\n**Two** men." for 2, 2, "two". Fails: three paragraphs, or "Twofold" for "two".
    upstream: paragraphs are cut at every two line breaks; of the first word everything before `.,?!'"` counts; in
    Spanish as many words as are asked for, without ASCII punctuation and list markers.
    Not covered: inflected forms of the word.
    """
    if compat == "upstream":
        return _first_word_upstream(text.raw, num_paragraphs, nth_paragraph, first_word.lower(), lang)
    paragraphs = text.paragraphs
    if len(paragraphs) != num_paragraphs:
        return compare_count(len(paragraphs), "paragraph", "exactly", num_paragraphs)
    if not 1 <= nth_paragraph <= len(paragraphs):
        return False, f"no paragraph {nth_paragraph}"
    start = _LEADING.sub("", paragraphs[nth_paragraph - 1], count=1).casefold()
    word = _LEADING.sub("", first_word, count=1).casefold()
    rest = start[len(word) : len(word) + 1]
    right = start.startswith(word) and (lang == "ja" or not word[-1:].isalnum() or not rest.isalnum())
    return right, f"paragraph {nth_paragraph} begins with “{start.split()[0][:40] if start else ''}”, “{word}” asked"


def _first_word_upstream(text: str, number: int, nth: int, wanted: str, lang: Lang) -> tuple[bool, str]:
    paragraphs = text.split("\n\n")
    count = sum(1 for paragraph in paragraphs if paragraph.strip())
    if not 1 <= nth <= count or not paragraphs[nth - 1].strip():
        return False, f"no paragraph {nth}"
    paragraph = paragraphs[nth - 1].strip()
    if lang == "es":
        words = [bare for word in paragraph.lower().split() if (bare := word.translate(_ASCII_PUNCTUATION))]
        found, wanted = " ".join(words[: len(wanted.split())]), " ".join(wanted.split())
    elif lang == "ja":
        found = paragraph.lstrip("「").lstrip("『")[: len(wanted)]
    else:
        found = re.split("[.,?!'\"]", paragraph.split()[0].lstrip("'").lstrip('"').lower(), maxsplit=1)[0]
    return count == number and found == wanted, (
        f"{count} paragraphs found, {number} asked; paragraph {nth} begins with “{found[:40]}”, “{wanted}” asked"
    )
