"""IFBench `format:` — brackets, quotes, lists, lines, templates.

    format:list(sep="!?!?")    "Answer with a list of items, instead of bullet points use !?!?."

The simpler shapes are here; nesting (brackets, quotes) and the rest of the quotes are in `ifbench_nesting`.
"""

from __future__ import annotations

import re
from collections import defaultdict, deque
from itertools import pairwise

from rubrank.texts.lexicon import is_emoji, word_list
from rubrank.texts.text import Text
from rubrank.verifiers.ifbench.tokens import ifbench, public_sentences, public_tokens, trim, without_punctuation
from rubrank.verifiers.verifier import Answer, Compat

_STAR = re.compile(r"\s*\*(?!\*)\s*\S")
_DASH = re.compile(r"\s*-\s*[^\s\-]")
_BULLET = re.compile(r"\s*(?:[-*•+]|\d{1,9}[.)])\s")
_LETTERS = re.compile(r"\W*[aA]\W*[bB]\W*[cC]\W*")
_HEADING = re.compile(r"\s*(?:#{1,6}\s|<h[1-6]\b|(?:\*\*|__)[^*_]+(?:\*\*|__):?\s*\Z)", re.IGNORECASE)
_THESIS = re.compile(r"\s*(?:<(?:p|div|section)\b[^<>]*>\s*)?<(i|em)>", re.IGNORECASE)
_TAIL = " \t\n\"'”’»)]}*_~`.,;:!?…。！？\u200d\ufe0f"
_LABELS = ("My Answer:", "My Conclusion:", "Future Outlook:")


@ifbench("format:options")
def options(text: Text, *, options: str, compat: Compat = "fixed") -> Answer:
    """The answer is one of the options and nothing else; case and marks around it do not matter.

    Passes: "Maybe." for "yes/no/maybe". Fails: "Maybe, because …". Options stand between "/", " or " or commas.
    Upstream wants options with letters ("a), b), c)") exactly as written. Not covered: an option that holds a
    separator.
    """
    separator = next((mark for mark in ("/", "or" if compat == "upstream" else " or ") if mark in options), ",")
    choices = [choice.strip() for choice in options.split(separator)]
    if compat == "upstream" and _LETTERS.match(options):
        found = text.raw in choices
    else:
        answer = text.raw if compat == "upstream" else text.raw.strip()
        found = trim(answer).lower() in {trim(choice).lower() for choice in choices}
    return found, "the answer is an option" if found else f"the answer is none of {', '.join(choices)}"


@ifbench("format:newline")
def newline(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Every word stands on a line of its own.

    Passes: "one\\ntwo\\n\\nthree". Fails: "one two". A mark by itself is no word; upstream removes ASCII marks only and
    compares the numbers of lines and words. Not covered: words joined by hyphens are one.
    """
    if compat == "upstream":
        plain = without_punctuation(text.raw).strip()
        lines, words = sum(line != "" for line in plain.split("\n")), len(plain.split())
        return lines == words, f"{words} words on {lines} lines"
    crowded = next((line for line in text.lines if _words_in(line) > 1), None)
    return crowded is None, "one word per line" if crowded is None else f"more than one word in {crowded[:60]!r}"


def _words_in(line: str) -> int:
    return sum(any(char.isalnum() for char in word) for word in line.split())


@ifbench("format:emoji", version=2)
def emoji(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Every sentence ends with an emoji, before or after its last mark.

    Passes: "Hi! 😀 It works 🎉." Fails: "Hi! It works 🎉." Upstream looks at the last two
    characters. Not covered: emoticons such as ":-)"; headings count as sentences.
    """
    sentences = public_sentences(text.raw) if compat == "upstream" else text.sentences
    for i, sentence in enumerate(sentences):
        following = sentences[i + 1] if i + 1 < len(sentences) else ""
        ends = _ends_upstream(sentence, following) if compat == "upstream" else _ends_in_emoji(sentence, following)
        if not ends:
            return False, f"no emoji at the end of {sentence[-60:]!r}"
    return True, f"{len(sentences)} sentences end with an emoji"


def _ends_in_emoji(sentence: str, following: str) -> bool:
    return is_emoji(sentence.rstrip(_TAIL)[-1:]) or is_emoji(following.lstrip(_TAIL)[:1])


def _ends_upstream(sentence: str, following: str) -> bool:
    bare = without_punctuation(sentence).strip()
    if any(is_emoji(char) for char in bare[-2:]):
        return True
    return bool(bare) and is_emoji(without_punctuation(following).strip()[:1])


@ifbench("format:line_indent")
def line_indent(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Every line is indented further than the one above; blank lines do not count.

    Passes: "a\\n b\\n  c". Fails: two equal indents; a single line (upstream passes). Upstream forgets some of several
    blank lines in a row, and counts those as lines. Not covered: width of a tab (8 columns; upstream: none).
    """
    if compat == "upstream":
        indents = [len(line) - len(line.lstrip(" ")) for line in _some_blank_lines_dropped(text.raw.split("\n"))]
    else:
        lines = [line.expandtabs() for line in text.raw.split("\n") if line.strip()]
        indents = [len(line) - len(line.lstrip()) for line in lines]
        if len(lines) < 2:
            return False, "fewer than two lines found"
    flat = next((i for i, (one, two) in enumerate(pairwise(indents)) if two <= one), None)
    if flat is not None:
        return False, f"line {flat + 1} is indented by {indents[flat]}, the next by {indents[flat + 1]}"
    return True, f"{len(indents)} lines form stairs"


def _some_blank_lines_dropped(lines: list[str]) -> list[str]:
    """What is left when blank lines are removed from a list that is being walked: each removal skips the next line.

    A removal takes the first line that equals the blank one, which may be one that was skipped before.
    """
    waiting: dict[str, deque[int]] = defaultdict(deque)
    for i, line in enumerate(lines):
        if not line.strip():
            waiting[line].append(i)
    removed, i = set(), 0
    while i < len(lines):
        blank = not lines[i].strip()
        if blank:
            removed.add(waiting[lines[i]].popleft())
        i += 1 + blank
    return [line for i, line in enumerate(lines) if i not in removed]


@ifbench("format:list")
def separated_list(text: Text, *, sep: str, compat: Compat = "fixed") -> Answer:
    """A list of at least two items, each led by `sep` instead of a bullet.

    Passes: "!?!? tea\\n!?!? milk" for "!?!?". Fails: one item; ordinary bullets ("* tea"). Upstream counts `sep`
    anywhere, so that "-" passes with two hyphens. Not covered: whether the whole answer is a list.
    """
    if compat == "upstream":
        n = text.raw.count(sep) if sep else 0
        return n >= 2, f"{sep!r} found {n} times, at least 2 asked"
    items = _items(text, sep.strip())
    other = next(
        (line for line in text.lines if _BULLET.match(line) and not line.strip().startswith(sep.strip())), None
    )
    if other is not None:
        return False, f"an ordinary bullet point: {other.strip()[:60]!r}"
    return items >= 2, f"{items} items led by {sep!r} found, at least 2 asked"


def _items(text: Text, sep: str) -> int:
    """Items at the start of a line; for a separator that is no plain hyphen also within lines, between spaces."""
    if not sep:
        return 0
    if any(char.isalnum() for char in sep) or len(sep) > 1:
        return sum(bool(part.strip()) for part in f" {text.raw} ".split(sep)[1:])
    return sum(line.strip().startswith(sep) and len(line.strip()) > len(sep) for line in text.lines)


@ifbench("format:thesis")
def thesis(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Every section (what follows a heading; without headings: the text) begins with <i>…</i> or <em>…</em>, then more.

    Passes: "# A\\n<i>Tea is good.</i> It warms." Fails: a section without it; Markdown italics. Upstream asks for
    one such passage anywhere. Not covered: whether it states a thesis.
    """
    if compat == "upstream":
        return _thesis_upstream(text.raw)
    bodies = _sections(text.lines)
    without = next((body for body in bodies if not _opens_in_italics(body)), None)
    if without is not None:
        return False, f"a section does not begin with a thesis in italics: {without.strip()[:60]!r}"
    return bool(bodies), f"{len(bodies)} sections begin with a thesis in italics"


def _thesis_upstream(raw: str) -> Answer:
    start = raw.find("<i>") if "<i>" in raw else raw.find("<em>")
    rest = raw[start:] if start >= 0 else ""
    end = rest.find("</i>") if "</i>" in rest else rest.find("</em>")
    if not rest or end < 0:
        return False, "no passage in <i> or <em> found"
    good = bool(rest[3:end].strip() and rest[end + 4 :].strip())
    return good, "a passage in italics with text after it" if good else "the italics or what follows them are empty"


def _sections(lines: tuple[str, ...]) -> list[str]:
    bodies: list[list[str]] = [[]]
    headed = False
    for line in lines:
        if _HEADING.match(line):
            bodies, headed = (bodies if headed else []), True
            bodies.append([])
        else:
            bodies[-1].append(line)
    joined = ("\n".join(body) for body in bodies)
    return [body for body in joined if body.strip()]


def _opens_in_italics(body: str) -> bool:
    opening = _THESIS.match(body)
    if not opening:
        return False
    inside, closing, after = body[opening.end() :].partition(f"</{opening[1]}>")
    return bool(inside.strip() and closing and after.strip())


@ifbench("format:sub-bullets")
def sub_bullets(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Bullet points with *, each with at least one sub-bullet with - before the next.

    Passes: "* tea\\n  - green\\n* milk\\n  - cold". Fails: a bullet without; no bullets at all, which upstream
    passes, for it only asks for a hyphen between any two asterisks. Not covered: how far sub-bullets are indented.
    """
    if compat == "upstream":
        parts = text.raw.split("*")[1:]
        lacking = sum("-" not in part for part in parts)
        return not lacking, f"{lacking} of {len(parts)} asterisks have no hyphen before the next"
    subs: list[int] = []
    for line in text.lines:
        if _STAR.match(line):
            subs.append(0)
        elif _DASH.match(line) and subs:
            subs[-1] += 1
    return bool(subs) and all(subs), f"{len(subs)} bullets found, {subs.count(0)} without a sub-bullet"


@ifbench("format:no_bullets_bullets", version=2)
def no_bullets_bullets(text: Text, *, compat: Compat = "fixed") -> Answer:
    """At least two sentences that end in a full stop, followed by at least two bullet points with *.

    Passes: "Tea is old. It is good.\\n* green\\n* black". Fails: bullets first; one bullet. Text may follow;
    upstream fails that, a second paragraph before the bullets, and a blank line between them. Not covered: nested
    bullets.
    """
    if compat == "upstream":
        return _bullets_upstream(text.raw.split("\n"))
    first = next((i for i, line in enumerate(text.lines) if _STAR.match(line)), len(text.lines))
    before = Text("\n".join(text.lines[:first])).sentences
    said = sum(sentence.rstrip(" *_\"'”’)").endswith((".", "。")) for sentence in before)
    bullets = sum(bool(_STAR.match(line)) for line in text.lines)
    return said >= 2 and bullets >= 2, f"{said} sentences, then {bullets} bullets found; at least 2 and 2 asked"


def _bullets_upstream(lines: list[str]) -> Answer:
    said, bullets, more = 0, 0, True
    for line in lines:
        if line.strip().startswith("*"):
            more, bullets = False, bullets + 1
            if said < 2:
                return False, f"{said} sentences before the first bullet"
        elif more:
            found = len(public_sentences(line.strip()))
            said, more = said + found, found > 0
        else:
            return False, f"text where a bullet was expected: {line[:60]!r}"
    return bullets >= 2, f"{said} sentences, then {bullets} bullets found"


@ifbench("format:title_case", version=2)
def title_case(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Every major word starts with a capital; articles, conjunctions and short prepositions need none.

    Passes: "The Lord of the Rings". Fails: "The lord of the Rings". Upstream wants capitals on the minor words
    too. Not covered: which words are minor (style guides differ); words of scripts without capitals pass.
    """
    if compat == "upstream":
        wrong = next((token for token in public_tokens(text.raw) if _small_upstream(token)), None)
    else:
        minor = word_list("minor_words")
        wrong = next((word for word in text.words if word[0].islower() and word.lower() not in minor), None)
    return wrong is None, "title case" if wrong is None else f"{wrong!r} has no capital"


def _small_upstream(token: str) -> bool:
    return token[0].islower() and (len(token) == 1 or token[1:].islower() or token[1:].isupper())


@ifbench("format:output_template")
def output_template(text: Text, *, compat: Compat = "fixed") -> Answer:
    """`My Answer: … My Conclusion: … Future Outlook: …`, in this order, with text in each and nothing before.

    Passes: "My Answer: yes. My Conclusion: so. Future Outlook: good." Fails: another order, an empty part. Bold
    labels are fine. Upstream asks only that the labels occur. Not covered: what the parts say.
    """
    lacking = next((label for label in _LABELS if label not in text.raw), None)
    if lacking or compat == "upstream":
        return lacking is None, f"{lacking!r} not found" if lacking else "all labels found"
    places = [text.raw.find(label) for label in _LABELS]
    ends = [*places[1:], len(text.raw)]
    parts = [text.raw[at + len(label) : end] for at, label, end in zip(places, _LABELS, ends, strict=True)]
    if sorted(places) != places or text.raw[: places[0]].strip(" *_#\n"):
        return False, "the labels are not in order, or something stands before them"
    filled = all(part.strip(" *_#\n") for part in parts)
    return filled, "the template is filled" if filled else "a part of the template is empty"


@ifbench("format:no_whitespace")
def no_whitespace(text: Text) -> Answer:
    """No space, tab or line break anywhere.

    Passes: "No,theyarenot." Fails: "No, they"; a line break at the end. Not covered: zero-width characters, which
    are no whitespace.
    """
    at = next((i for i, char in enumerate(text.raw) if char.isspace()), None)
    return at is None, "no whitespace" if at is None else f"whitespace after {text.raw[max(0, at - 20) : at]!r}"
