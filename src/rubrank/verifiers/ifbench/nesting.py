"""IFBench `format:` — nested brackets and quotes, and quotes with their explanations.

format:parentheses    "Nest parentheses (and [brackets {and braces}]) at least 5 levels deep."
"""

from __future__ import annotations

import re
import string

from rubrank.texts.text import Text
from rubrank.verifiers.ifbench.tokens import ifbench
from rubrank.verifiers.verifier import Answer, Compat

_BRACKETS = {")": "(", "]": "[", "}": "{"}
_CLOSES = {"”": "“", "’": "‘", "»": "«", "」": "「", "』": "『"}
_QUOTE = re.compile("[\"“”«»「」『』]|(?<!\\w)['‘]|['’](?!\\w)")
_NOT_QUOTE = string.digits + string.punctuation.replace('"', "")


@ifbench("format:parentheses")
def parentheses(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Brackets of any kind, ( [ {, nested at least 5 deep and all five closed in order.

    Passes: "(a [b {c (d [e])}])". Fails: four levels; "([{([" left open. Upstream is content when the innermost of five
    is closed. Not covered: brackets in code count like others.
    """
    if compat == "upstream":
        deep = _five_upstream(text.raw)
        return deep, "five levels" if deep else "no five levels of brackets found"
    deepest = _deepest(text.raw)
    return deepest >= 5, f"{deepest} closed levels of brackets found, at least 5 asked"


def _deepest(raw: str) -> int:
    """The most levels of one properly closed group; a bracket that does not fit ends whatever was open."""
    stack: list[tuple[str, int]] = []
    deepest = 0
    for char in raw:
        if char in "([{":
            stack.append((char, 0))
        elif char in ")]}" and stack and stack[-1][0] == _BRACKETS[char]:
            levels = stack.pop()[1] + 1
            deepest = max(deepest, levels)
            if stack:
                stack[-1] = (stack[-1][0], max(stack[-1][1], levels))
        elif char in ")]}":
            stack = []
    return deepest


def _five_upstream(raw: str) -> bool:
    stack: list[str] = []
    deepest = 0
    for char in raw:
        if char in "([{":
            stack.append(char)
            deepest = max(deepest, len(stack))
        elif char in ")]}":
            if stack and stack[-1] == _BRACKETS[char]:
                stack.pop()
                if deepest >= 5:
                    return True
            else:
                stack, deepest = [], 0
    return False


@ifbench("format:quotes")
def quotes(text: Text, *, compat: Compat = "fixed") -> Answer:
    """Quotes within quotes within quotes, double and single in turn, all three closed.

    Passes: He said, "She told me 'they cried "help" there' then". Fails: two levels. An apostrophe inside a word is no
    quote; upstream takes each for one. Not covered: a plural's apostrophe ("dogs'") may close a single quote.
    """
    if compat == "upstream":
        deep = _three_upstream(text.raw)
        return deep, "three levels" if deep else "no three levels of quotes found"
    deepest = max((_quote_levels(block) for block in text.paragraphs), default=0)
    return deepest >= 3, f"{deepest} closed levels of quotes found, at least 3 asked"


def _quote_levels(block: str) -> int:
    """The most levels of closed quotes of alternating kinds."""
    stack: list[tuple[str, int]] = []
    deepest = 0
    for match in _QUOTE.finditer(block):
        mark = match[0]
        if stack and stack[-1][0] == _CLOSES.get(mark, mark):
            levels = stack.pop()[1] + 1
            deepest = max(deepest, levels)
            if stack:
                stack[-1] = (stack[-1][0], max(stack[-1][1], levels))
        elif mark not in _CLOSES:
            if stack and _is_double(stack[-1][0]) == _is_double(mark):
                stack = []  # the outer one was no quote, or the kinds do not alternate
            stack.append((mark, 0))
    return deepest


def _is_double(mark: str) -> bool:
    return mark in '"“«『'


def _three_upstream(raw: str) -> bool:
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

    Passes: "Carpe diem" means: seize the day. Fails: "one" "two" and so on; a quote at the end; no quote at all, which
    upstream passes. Not covered: whether those words explain anything; single quotes.
    """
    if compat == "upstream":
        return _quotes_upstream(text.raw)
    parts = text.raw.replace("“", '"').replace("”", '"').split('"')
    if len(parts) < 3:
        return False, "no quoted phrase found"
    after = parts[2::2] if len(parts) % 2 else [*parts[2::2], ""]
    bare = next((i for i, part in enumerate(after) if not any(char.isalnum() for char in part)), None)
    return bare is None, "every quote is followed by words" if bare is None else f"nothing follows quote {bare + 1}"


def _quotes_upstream(raw: str) -> Answer:
    joined = "".join(raw.replace("“", '"').replace("”", '"').replace("'\"'", "").split())
    if '""' in joined:
        return False, "two quotes follow each other"
    last = joined.strip(_NOT_QUOTE)[-1:]
    return last != '"', "the answer ends with a quote" if last == '"' else "no quote without what follows it"
