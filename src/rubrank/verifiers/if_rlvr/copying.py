"""IF-RLVR — copying the request, paragraphs, brackets and forbidden marks.

copy:copying_multiple(prompt_to_repeat="Sing.", N=2)    →  "Sing. ****** Sing."
"""

from __future__ import annotations

import re

from rubrank.texts.text import Text
from rubrank.verifiers.if_rlvr.constraints import if_rlvr
from rubrank.verifiers.ifbench.tokens import public_sentences
from rubrank.verifiers.shared.relation import Count, compare_count
from rubrank.verifiers.verifier import Answer, Compat

_DIVIDER = re.compile(r"\s?\*\*\*\s?")
_JOINED = re.compile(r"[.!?。！？][\"'”’)\]]{0,3}-(?=\S)")
_BRACKETED = re.compile(r"[^\w\[\]]*\[[^\[\]]+\][^\w\[\]]*\Z")
_PAIR = re.compile(r"<<[^<>\s]+[ \t\n]+[^<>\s]+>>")
_LAST_ALONE = re.compile(r"<<[^<>\s]+>>\W*\Z")


# ---- copying --------------------------------------------------------------------------------------------------------


@if_rlvr("copy:repeat_phrase")
def repeat_phrase(text: Text, *, phrase: str, small_n: Count, compat: Compat = "fixed") -> Answer:
    """The phrase exactly `small_n` times, each time with another word in place of one of its inner words.

    Passes: "the old sea" and "the wide sea" for "the deep sea", 2. Fails: the phrase unchanged, another first or last
    word, two words replaced. Upstream checks the replacement for the last repetition only. Not covered: words inserted.
    """
    wanted = phrase.split()
    if len(wanted) < 3:
        return False, f"the phrase {phrase!r} has no inner word"
    if compat == "upstream":
        return _repeated_upstream(text.raw, wanted, small_n)
    plain, words = [word.lower() for word in Text(phrase).words], [word.lower() for word in text.words]
    size = len(plain)
    starts = [i for i in range(len(words) - size + 1) if words[i] == plain[0] and words[i + size - 1] == plain[-1]]
    changes = [sum(a != b for a, b in zip(words[i : i + size], plain, strict=True)) for i in starts]
    if 0 in changes:
        return False, "the phrase occurs unchanged"
    return compare_count(changes.count(1), "changed phrase", "exactly", small_n)


def _repeated_upstream(raw: str, wanted: list[str], small_n: int) -> Answer:
    found = [span.split() for line in raw.split("\n") for span in _spans(line, wanted[0], wanted[-1])]
    if len(found) != small_n:
        return False, f"{len(found)} phrases found, {small_n} asked"
    changes = [
        sum(a != b for a, b in zip(words, wanted, strict=False)) if len(words) <= len(wanted) else 2 for words in found
    ]
    good = bool(changes) and max(changes) <= 1 and changes[-1] == 1
    return good, f"{changes} words changed in the {len(found)} phrases"


def _spans(line: str, first: str, last: str) -> list[str]:
    """The shortest passages of a line from the first word to the last."""
    spans, at = [], line.find(f"{first} ")
    while at >= 0:
        end = line.find(f" {last}", at + len(first) + 1)
        if end < 0:
            break
        end += len(last) + 1
        spans.append(line[at:end])
        at = line.find(f"{first} ", end)
    return spans


@if_rlvr("copy:copy")
def copy(text: Text, *, prompt_to_repeat: str, compat: Compat = "fixed") -> Answer:
    """The request, copied as it is and nothing else; spaces and line breaks may differ.

    Passes: "Sing a song." for itself. Fails: an answer after it; other capitals, which upstream ignores. Not covered:
    quotes around it fail.
    """
    return _is_copy(text.raw, prompt_to_repeat, compat)


@if_rlvr("copy:copying_simple")
def copying_simple(text: Text, *, prompt_to_repeat: str, compat: Compat = "fixed") -> Answer:
    """The request again without change, and no answer; spaces and line breaks may differ.

    Passes: "Sing a song." for itself. Fails: "Sure! Sing a song."; other capitals, which upstream ignores. Not covered:
    quotes around it fail.
    """
    return _is_copy(text.raw, prompt_to_repeat, compat)


@if_rlvr("copy:copying_multiple")
def copying_multiple(text: Text, *, prompt_to_repeat: str, N: Count, compat: Compat = "fixed") -> Answer:
    """The request again without change, `N` times, divided by six asterisks.

    Passes: "Sing.\\n******\\nSing." for "Sing.", 2. Fails: once more or less; asterisks at the end. Not covered:
    longer rows of asterisks, which divide where the first six end.
    """
    parts = text.raw.split("******")
    if len(parts) != N:
        return False, f"{len(parts)} parts found, {N} asked"
    wrong = next((part for part in parts if not _same(part, prompt_to_repeat, compat)), None)
    return wrong is None, f"{N} copies" if wrong is None else f"no copy: {wrong.strip()[:60]!r}"


def _is_copy(raw: str, prompt: str, compat: Compat) -> Answer:
    same = _same(raw, prompt, compat)
    return same, "a copy of the request" if same else f"no copy of the request: {raw.strip()[:60]!r}"


def _same(one: str, two: str, compat: Compat) -> bool:
    return one.strip().lower() == two.strip().lower() if compat == "upstream" else one.split() == two.split()


@if_rlvr("new:copy_span_idx")
def copy_span_idx(
    text: Text, *, prompt_to_repeat: str, n_start: Count, n_end: Count, compat: Compat = "fixed"
) -> Answer:
    """The characters of the request from index `n_start` to `n_end`, counted from 0, both included; nothing else.

    Passes: "bcd" for "abcdef", 1, 3. Fails: "bc", which is what upstream wants, for it leaves out the last one and
    ignores case. Spaces around do not matter. Not covered: quotes around it fail.
    """
    end = n_end if compat == "upstream" else n_end + 1
    wanted, said = prompt_to_repeat[n_start:end].strip(), text.raw.strip()
    same = said.lower() == wanted.lower() if compat == "upstream" else said == wanted
    return same, f"{'the' if same else 'not the'} span {wanted[:60]!r}"


# ---- layout ---------------------------------------------------------------------------------------------------------


@if_rlvr("detectable_format:sentence_hyphens", version=2)
def sentence_hyphens(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Sentences are joined by hyphens, without spaces.

    Passes: "It rains.-We stay." Fails: "It rains. We stay."; "It rains. - We stay."; a single sentence (upstream
    passes). Upstream takes every hyphen for a joint and compares only as many pieces as there are sentences. Not
    covered: full stops of abbreviations before a hyphen.
    """
    if compat == "upstream":
        sentences = public_sentences(text.raw.replace("-", " "))
        pairs = list(zip(text.raw.split("-"), sentences, strict=False))
        wrong = next((piece for piece, sentence in pairs if piece != sentence), None)
        return wrong is None, "joined by hyphens" if wrong is None else f"{wrong[:60]!r} is no sentence by itself"
    glued, joints = _JOINED.subn(",", text.raw)
    apart = len(Text(glued).sentences)
    return apart == 1 and joints > 0, f"{joints} hyphens join sentences; {apart - 1} joints have spaces"


@if_rlvr("detectable_format:square_brackets")
def square_brackets(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Every word is in square brackets.

    Passes: "[Tea] [is] [hot]." Fails: "[Tea is] hot". Marks may stand inside or outside; upstream wants every piece
    between spaces to start with [ and end with ]. Not covered: a bracket around several words fails.
    """
    pieces = text.raw.split()
    if compat == "upstream":
        bare = next((piece for piece in pieces if not (piece[0] == "[" and piece[-1] == "]")), None)
    else:
        words = (piece for piece in pieces if any(char.isalnum() or char in "[]" for char in piece))
        bare = next((piece for piece in words if not _BRACKETED.match(piece)), None)
    return bare is None, "every word is in brackets" if bare is None else f"{bare[:60]!r} is not in brackets"


@if_rlvr("detectable_format:bigram_wrapping")
def bigram_wrapping(text: Text, *, compat: Compat = "fixed") -> Answer:
    """All words stand in pairs in double angular brackets; of an odd number the last may stand alone.

    Passes: "<<I am>> <<at home>>." Fails: "<<I am>> at home". Upstream looks at the brackets of every second piece
    between spaces only. Not covered: brackets inside of words.
    """
    if compat == "upstream":
        pieces = text.raw.split()
        pairs = zip(pieces[::2], pieces[1::2], strict=False)
        wrong = next((f"{a} {b}" for a, b in pairs if not (a.startswith("<<") and b.endswith(">>"))), None)
        return wrong is None, "wrapped in pairs" if wrong is None else f"{wrong[:60]!r} is not wrapped"
    rest, pairs_found = _PAIR.subn(" ", text.raw)
    rest = _LAST_ALONE.sub("", rest)
    bare = any(char.isalnum() for char in rest)
    return pairs_found > 0 and not bare, f"{pairs_found} pairs; outside: {rest.strip()[:60]!r}"


@if_rlvr("paragraphs:paragraphs")
def paragraphs(text: Text) -> Answer:
    """Two paragraphs with the Markdown divider `***` between them.

    Passes: "One.\\n***\\nTwo." Fails: three parts, none, an empty one between dividers. A divider at the start or
    end does no harm. Not covered: other dividers (`---`, `* * *`).
    """
    return _two(_DIVIDER.split(text.raw))


@if_rlvr("paragraphs:paragraphs2")
def paragraphs2(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Two paragraphs with a blank line between them, and no other blank lines.

    Passes: "One.\\n\\nTwo." Fails: one or three. Blank lines may hold spaces and be several in a row; upstream fails
    four line breaks in a row and sees no blank line that holds spaces. Not covered: headings and lists count as
    paragraphs.
    """
    return _two(text.raw.split("\n\n") if compat == "upstream" else list(text.paragraphs))


def _two(parts: list[str]) -> Answer:
    inner = [part for i, part in enumerate(parts) if part.strip() or 0 < i < len(parts) - 1]
    if not all(part.strip() for part in inner):
        return False, "an empty paragraph between two others"
    return compare_count(len(inner), "paragraph", "exactly", 2)


# ---- forbidden marks ------------------------------------------------------------------------------------------------


@if_rlvr("punctuation:punctuation_dot")
def punctuation_dot(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No full stop anywhere, in numbers and abbreviations neither; the Chinese 。 and ． are full stops, too.

    Passes: "No dots here!" Fails: "3.5", "Yes." Upstream knows "." only. Not covered: the ellipsis sign …
    """
    return compare_count(_marks(text, "." if compat == "upstream" else ".。．"), "full stop", "exactly", 0)


@if_rlvr("punctuation:punctuation_exclamation")
def punctuation_exclamation(text: Text, *, compat: Compat = "fixed") -> Answer:
    """No exclamation mark anywhere, in code neither; the Chinese ！ is one, too.

    Passes: "Calm." Fails: "Go!", "a != b". Upstream knows "!" only. Not covered: ¡ and the interrobang ‽.
    """
    return compare_count(_marks(text, "!" if compat == "upstream" else "!！"), "exclamation mark", "exactly", 0)


def _marks(text: Text, marks: str) -> int:
    return sum(text.raw.count(mark) for mark in marks)
