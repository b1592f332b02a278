"""IFBench `format:`: lists, lines, templates, nested brackets and quotes.

    format:list(sep="!?!?")    "Answer with a list of items, instead of bullet points use !?!?."
    format:parentheses         "Nest parentheses (and [brackets {and braces}]) at least 5 levels deep."

Most have two readings, "fixed" and "upstream" (the public checker, faults included): see `instructions/__init__.py`.
Functions named …_upstream repeat that checker step by step.
"""

from __future__ import annotations

import re
import string
from itertools import pairwise, zip_longest

from rubrank.texts.text import Text
from rubrank.texts.words import is_emoji, word_list
from rubrank.verifiers.shared.instruction import (
    ifbench,
    is_increasing,
    remove_punctuation,
    require_none,
    select_sentences,
    trim,
)
from rubrank.verifiers.shared.public_tools import split_public_sentences, split_public_tokens
from rubrank.verifiers.verifier import Answer, Compat

_STAR_BULLET = re.compile(r"\s*\*(?!\*)\s*\S")  # "* tea"; not "**tea**"
_DASH_BULLET = re.compile(r"\s*-\s*[^\s\-]")  # "- green"; not "---"
_BULLET = re.compile(r"\s*(?:[-*•+]|\d{1,9}[.)])\s")  # of any kind: "- ", "2. "
_LETTER_OPTIONS = re.compile(r"\W*[aA]\W*[bB]\W*[cC]\W*")  # "a), b), c)"
# "## Tea", "<h2>Tea", or a line in bold.
_HEADING = re.compile(
    r"\s*(?:#{1,6}\s|<h[1-6]\b|(?:\*\*|__)[^*_]+(?:\*\*|__):?\s*\Z)", re.IGNORECASE
)
# <i>something</i> or <em>something</em>. Not "<i> </i>", which holds white space only; group 1 is "i" or "em".
_ITALICS = r"(?i:<(i|em)>)(?=\s*(?!</\1>)\S)(?:(?!</\1>).)*</\1>"
# Italics at the start, perhaps of an HTML paragraph, and something after them.
_THESIS = re.compile(rf"\s*(?i:<(?:p|div|section)\b[^<>]*>\s*)?{_ITALICS}\s*\S", re.DOTALL)
# What may stand before or after the emoji at the end of a sentence.
_MARKS_AT_END = " \t\n\"'”’»)]}*_~`.,;:!?…。！？\u200d\ufe0f"
_MOST_LINES = 10_000  # that are looked at where the public checker takes quadratic time
_TEMPLATE_LABELS = ("My Answer:", "My Conclusion:", "Future Outlook:")
_OPENING_BRACKETS = {")": "(", "]": "[", "}": "{"}  # by the closing one
_OPENING_QUOTES = {"”": "“", "’": "‘", "»": "«", "」": "「", "』": "『"}  # by the closing one
# A quotation mark. Single ones only at the edge of a word: not the apostrophe of "don't".
_QUOTE = re.compile("[\"“”«»「」『』]|(?<!\\w)['‘]|['’](?!\\w)")
# Digits and ASCII punctuation except the double quote, which the public checker removes at both ends.
_NOT_QUOTE = string.digits + string.punctuation.replace('"', "")


@ifbench("format:options")
def options(text: Text, *, options: str, compat: Compat = "fixed") -> Answer:
    """The answer is one of the options and nothing else; case and marks around it do not matter.

    Passes: "Maybe." for "yes/no/maybe".
    Fails: "Maybe, because …". Options stand between "/", " or " or commas.
    Upstream also divides at an "or" inside words, and requires options with letters ("a), b), c)") exactly as written.
    Not covered: an option that holds a separator.
    """
    if "/" in options:
        separator = "/"
    else:
        word_or = "or" if compat == "upstream" else " or "
        separator = word_or if word_or in options else ","
    choices = [choice.strip() for choice in options.split(separator)]
    if compat == "upstream" and _LETTER_OPTIONS.match(options):
        is_option = text.raw in choices
    else:
        answer = text.raw if compat == "upstream" else text.raw.strip()
        is_option = trim(answer).lower() in {trim(choice).lower() for choice in choices}
    if not is_option:
        return False, f"the answer is none of {', '.join(choices)}"
    return True, "the answer is an option"


@ifbench("format:newline")
def newline(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Every word is on its own line.

    Passes: "one\\ntwo\\n\\nthree".
    Fails: "one two". A mark by itself is not a word.
    Upstream removes ASCII marks only and compares the numbers of lines and words.
    Not covered: words joined by hyphens are one.
    """
    if compat == "upstream":
        plain = remove_punctuation(text.raw).strip()
        lines = sum(line != "" for line in plain.split("\n"))
        words = len(plain.split())
        return lines == words, f"{words} words on {lines} lines"
    wrong = []
    for line in text.lines:
        if sum(any(char.isalnum() for char in word) for word in line.split()) > 1:
            wrong.append(line)
    return require_none(wrong, "line with several words")


@ifbench("format:emoji", version=2)
def emoji(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Every sentence ends with an emoji, before or after its last mark.

    Passes: "Hi! 😀 It works 🎉."
    Fails: "Hi! It works 🎉."
    Upstream looks at the last two characters.
    Not covered: emoticons such as ":-)"; headings count as sentences.
    """
    sentences = select_sentences(text, compat)
    # "Hi! 😀 It works": the splitter may give the emoji behind the mark to the next sentence.
    wrong = []
    for sentence, following in zip_longest(sentences, sentences[1:], fillvalue=""):
        if compat == "upstream":
            last = remove_punctuation(sentence).strip()[-2:]
            next_char = remove_punctuation(following).strip()[:1] if last else ""
        else:
            last = sentence.rstrip(_MARKS_AT_END)[-1:]
            next_char = following.lstrip(_MARKS_AT_END)[:1]
        if not any(map(is_emoji, last + next_char)):
            wrong.append(sentence[-60:])
    return require_none(wrong, "sentence without an emoji at its end")


@ifbench("format:line_indent")
def line_indent(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Every line is indented further than the one above; blank lines do not count.

    Passes: "a\\n b\\n  c".
    Fails: two equal indents; a single line (upstream passes).
    Upstream forgets some of several blank lines in a row and counts those as lines; a tab has no width there.
    Not covered: tabs of other widths than 8 columns.
    """
    lines = text.raw.split("\n")
    if compat == "upstream":
        # The public checker changes the list over which it iterates. So each removal makes the loop skip the next line,
        # and `remove` takes away the first line that equals the blank one, which may have been skipped before.
        lines = lines[:_MOST_LINES]
        for line in lines:
            if not line.strip():
                lines.remove(line)
        indents = [len(line) - len(line.lstrip(" ")) for line in lines]
    else:
        lines = [line.expandtabs() for line in lines if line.strip()]
        indents = [len(line) - len(line.lstrip()) for line in lines]
        if len(lines) < 2:
            return False, "fewer than two lines found"
    return is_increasing(indents), f"the lines are indented by {indents[:20]}"


@ifbench("format:list")
def separated_list(text: Text, *, sep: str, compat: Compat = "fixed") -> Answer:
    """A list of at least two items, each led by `sep` instead of a bullet.

    Passes: "!?!? tea\\n!?!? milk" for "!?!?".
    Fails: one item; ordinary bullets ("* tea").
    Upstream counts `sep` anywhere, so that "-" passes with two hyphens.
    Not covered: whether the whole answer is a list.
    """
    if compat == "upstream":
        count = text.raw.count(sep) if sep else 0
        return count >= 2, f"{sep!r} found {count} times, at least 2 required"
    mark = sep.strip()
    lines = [line.strip() for line in text.lines]
    for line in lines:
        if _BULLET.match(line) and not line.startswith(mark):
            return False, f"an ordinary bullet point: {line[:60]!r}"
    items = 0
    if len(mark) > 1 or mark.isalnum():
        # Such a mark hardly occurs by chance, so it counts within lines, too; a single sign such as "-" does not.
        items = sum(bool(part.strip()) for part in text.raw.split(mark)[1:])
    elif mark:
        items = sum(line.startswith(mark) and line != mark for line in lines)
    return items >= 2, f"{items} items led by {sep!r} found, at least 2 required"


@ifbench("format:thesis")
def thesis(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Every section (what follows a heading; without headings: the text) begins with <i>…</i> or <em>…</em>, then more.

    Passes: "# A\\n<i>Tea is good.</i> It warms."
    Fails: a section without it; Markdown italics.
    Upstream asks for one such passage anywhere.
    Not covered: whether it states a thesis.
    """
    if compat == "upstream":
        return _check_thesis_upstream(text.raw)
    sections = [""]  # the first one: what stands before all headings
    for line in text.lines:
        if _HEADING.match(line):
            sections.append("")
        else:
            sections[-1] += f"{line}\n"
    if len(sections) > 1:
        del sections[0]
    sections = [section for section in sections if section.strip()]
    if not sections:
        return False, "no sections found"
    wrong = [section.strip() for section in sections if not _THESIS.match(section)]
    return require_none(wrong, "section without a thesis in italics")


def _check_thesis_upstream(raw: str) -> Answer:
    """Return the public checker's verdict, which looks at the first passage in <i>, or else in <em>.

    It takes both tags to be as long as <i> and </i>, so that of <em>so</em> it reads ">so" and then ">".
    """
    start = raw.find("<i>") if "<i>" in raw else raw.find("<em>")
    rest = raw[start:] if start >= 0 else ""
    inside, end_tag, after = rest[3:].partition("</i>" if "</i>" in rest else "</em>")
    after = end_tag[len("</i>") :] + after
    is_right = bool(inside.strip() and after.strip())
    return is_right, "a passage in <i> or <em>, with text after it, required"


@ifbench("format:sub-bullets")
def sub_bullets(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Bullet points with *, each with at least one sub-bullet with - before the next.

    Passes: "* tea\\n  - green\\n* milk\\n  - cold".
    Fails: a bullet without a sub-bullet; no bullets at all.
    Upstream only requires a hyphen after each asterisk, before the next, so it passes a text without bullets.
    Not covered: how far sub-bullets are indented.
    """
    if compat == "upstream":
        parts = text.raw.split("*")[1:]
        lacking = sum("-" not in part for part in parts)
        return not lacking, f"{lacking} of {len(parts)} asterisks have no hyphen before the next"
    sub_counts: list[int] = []  # the number of sub-bullets of each bullet
    for line in text.lines:
        if _STAR_BULLET.match(line):
            sub_counts.append(0)
        elif _DASH_BULLET.match(line) and sub_counts:
            sub_counts[-1] += 1
    reason = f"{len(sub_counts)} bullets found, {sub_counts.count(0)} without a sub-bullet"
    return bool(sub_counts) and all(sub_counts), reason


@ifbench("format:no_bullets_bullets", version=2)
def no_bullets_bullets(text: Text, *, compat: Compat = "fixed") -> Answer:
    """At least two sentences that end in a full stop, followed by at least two bullet points with *.

    Passes: "Tea is old. It is good.\\n* green\\n* black".
    Fails: bullets first; one bullet. Text may follow.
    Upstream fails text after the bullets, a second paragraph before them, and a blank line between them.
    Not covered: nested bullets.
    """
    if compat == "upstream":
        return _check_bullets_upstream(text.raw.split("\n"))
    first_bullet = next(
        (i for i, line in enumerate(text.lines) if _STAR_BULLET.match(line)), len(text.lines)
    )
    before = Text("\n".join(text.lines[:first_bullet])).sentences
    sentences = sum(sentence.rstrip(" *_\"'”’)").endswith((".", "。")) for sentence in before)
    bullets = sum(bool(_STAR_BULLET.match(line)) for line in text.lines)
    reason = f"{sentences} sentences, then {bullets} bullets found; at least 2 and 2 required"
    return sentences >= 2 and bullets >= 2, reason


def _check_bullets_upstream(lines: list[str]) -> Answer:
    """Return the public checker's verdict, which reads line by line: sentences, then bullets, then nothing."""
    sentences = 0
    bullets = 0
    may_be_prose = True
    for line in lines:
        if line.strip().startswith("*"):
            may_be_prose = False
            bullets += 1
            if sentences < 2:
                return False, f"{sentences} sentences before the first bullet"
        elif may_be_prose:
            new_sentences = len(split_public_sentences(line.strip()))
            sentences += new_sentences
            may_be_prose = new_sentences > 0
        else:
            return False, f"text where a bullet was expected: {line[:60]!r}"
    return bullets >= 2, f"{sentences} sentences, then {bullets} bullets found"


@ifbench("format:title_case", version=2)
def title_case(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Every major word starts with a capital; articles, conjunctions and short prepositions need none.

    Passes: "The Lord of the Rings".
    Fails: "The lord of the Rings".
    Upstream requires capitals on the minor words too.
    Not covered: which words are minor (style guides differ); words of scripts without capitals pass.
    """
    if compat == "upstream":
        words = [word for word in split_public_tokens(text.raw) if word[0].islower()]
        # The public checker overlooks words of mixed case ("iPhone") and a letter before digits ("x2").
        wrong = [word for word in words if not word[1:] or word[1:].islower() or word[1:].isupper()]
    else:
        words = [word for word in text.words if word[0].islower()]
        wrong = [word for word in words if word.lower() not in word_list("minor_words")]
    return require_none(wrong, "word without a capital")


@ifbench("format:output_template")
def output_template(text: Text, *, compat: Compat = "fixed") -> Answer:
    """`My Answer: … My Conclusion: … Future Outlook: …`, in this order, with text in each and nothing before.

    Passes: "My Answer: yes. My Conclusion: so. Future Outlook: good."
    Fails: another order, an empty part. Bold labels are fine.
    Upstream asks only that the labels occur.
    Not covered: what the parts say.
    """
    starts = [text.raw.find(label) for label in _TEMPLATE_LABELS]
    if min(starts) < 0:
        return False, f"{_TEMPLATE_LABELS[starts.index(-1)]!r} not found"
    if compat == "upstream":
        return True, "all labels found"
    if starts != sorted(starts) or text.raw[: starts[0]].strip(" *_#\n"):
        return False, "the labels are not in order, or something stands before them"
    parts = [text.raw[start:end] for start, end in pairwise([*starts, len(text.raw)])]
    labelled = zip(_TEMPLATE_LABELS, parts, strict=True)
    empty = [label for label, part in labelled if not part[len(label) :].strip(" *_#\n")]
    return require_none(empty, "empty part")


@ifbench("format:no_whitespace")
def no_whitespace(text: Text) -> Answer:
    """No space, tab or line break anywhere.

    Passes: "No,theyarenot."
    Fails: "No, they"; a line break at the end.
    Not covered: zero-width characters, which are not whitespace.
    """
    space = re.search(r"\s", text.raw)
    if space:
        return False, f"whitespace after {text.raw[max(0, space.start() - 20) : space.start()]!r}"
    return True, "no whitespace"


# ---- brackets and quotes ---------------------------------------------------------------------------------------------


@ifbench("format:parentheses")
def parentheses(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Brackets of any kind, ( [ {, nested at least 5 deep and all five closed in order.

    Passes: "(a [b {c (d [e])}])".
    Fails: four levels; "([{([" left open.
    Upstream only checks that the innermost of five is closed.
    Not covered: brackets in code count like others.
    """
    if compat == "upstream":
        return _has_five_levels_upstream(text.raw), "five levels of brackets required"
    stack = _NestingStack()
    for char in text.raw:
        if char in "([{":
            stack.open.append((char, 0))
        elif char in ")]}":
            if stack.last == _OPENING_BRACKETS[char]:
                stack.pop()
            else:  # a bracket that does not fit ends everything open
                stack.open.clear()
    levels = stack.deepest
    return levels >= 5, f"{levels} closed levels of brackets found, at least 5 required"


class _NestingStack:
    """The open brackets or quotes, each with the number of closed levels inside it.

    For "(a [b] {c (d)})": when the last ")" is read, "(" has two closed levels inside it, so that `deepest` becomes 3.
    """

    def __init__(self) -> None:
        self.open: list[tuple[str, int]] = []
        self.deepest = 0

    @property
    def last(self) -> str:
        return self.open[-1][0] if self.open else ""

    def pop(self) -> None:
        _, levels = self.open.pop()
        self.deepest = max(self.deepest, levels + 1)
        if self.open:
            mark, inside = self.open[-1]
            self.open[-1] = (mark, max(inside, levels + 1))


def _has_five_levels_upstream(raw: str) -> bool:
    """Are five brackets open at once, and is one of them closed later?"""
    stack: list[str] = []
    deepest = 0
    for char in raw:
        if char in "([{":
            stack.append(char)
            deepest = max(deepest, len(stack))
        elif char in ")]}":
            if stack and stack[-1] == _OPENING_BRACKETS[char]:
                stack.pop()
                if deepest >= 5:
                    return True
            else:
                stack = []
                deepest = 0
    return False


@ifbench("format:quotes")
def quotes(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Quotes within quotes within quotes, double and single in turn, all three closed.

    Passes: He said, "She told me 'they cried "help" there' then".
    Fails: two levels. An apostrophe inside a word is not a quote.
    Upstream treats every apostrophe as a quote.
    Not covered: a plural's apostrophe ("dogs'") may close a single quote.
    """
    if compat == "upstream":
        return _has_three_levels_upstream(text.raw), "three levels of quotes required"
    levels = max((_measure_quote_depth(paragraph) for paragraph in text.paragraphs), default=0)
    return levels >= 3, f"{levels} closed levels of quotes found, at least 3 required"


def _measure_quote_depth(paragraph: str) -> int:
    """Return the most levels of closed quotes of alternating kinds."""
    stack = _NestingStack()
    for match in _QUOTE.finditer(paragraph):
        mark = match[0]
        # The mark that this one would close. A straight quote closes another straight quote.
        opening = _OPENING_QUOTES.get(mark, mark)
        if stack.last == opening:
            stack.pop()
        elif mark not in _OPENING_QUOTES:
            if stack.last and _is_double(stack.last) == _is_double(mark):
                stack.open.clear()  # the outer one was no quote, or the kinds do not alternate
            stack.open.append((mark, 0))
    return stack.deepest


def _is_double(mark: str) -> bool:
    """Is it a double quotation mark, or one that takes the part of a double one?"""
    return mark in '"“«『'


def _has_three_levels_upstream(raw: str) -> bool:
    """Are three quotes open at once, double and single in turn, and all three closed later?"""
    stack: list[str] = []
    deepest = 0
    for char in raw:
        if char not in "\"'":
            continue
        if stack and char == stack[-1]:
            stack.pop()
            if deepest - len(stack) >= 3:
                return True
        else:
            stack.append(char)
            deepest = max(deepest, len(stack))
    return False


@ifbench("format:quote_unquote")
def quote_unquote(text: Text, *, compat: Compat = "fixed") -> Answer:
    """After every phrase in double quotes come words outside of quotes.

    Passes: "Carpe diem" means: seize the day.
    Fails: "one" "two" and so on; a quote at the end; no quote at all, which upstream passes.
    Not covered: whether those words explain anything; single quotes.
    """
    raw = text.raw.replace("“", '"').replace("”", '"')
    if compat == "upstream":
        joined = "".join(raw.replace("'\"'", "").split())  # without all white space
        if '""' in joined:
            return False, "two quotes follow each other"
        if joined.strip(_NOT_QUOTE).endswith('"'):
            return False, "the answer ends with a quote"
        return True, "no quote without what follows it"
    parts = raw.split('"')
    if len(parts) < 3:
        return False, "no quoted phrase found"
    after_quotes = parts[2::2]
    if len(parts) % 2 == 0:
        after_quotes.append("")  # the last quote never closes
    followed = sum(any(map(str.isalnum, part)) for part in after_quotes)
    reason = f"{followed} of {len(after_quotes)} quotes are followed by words"
    return followed == len(after_quotes), reason
