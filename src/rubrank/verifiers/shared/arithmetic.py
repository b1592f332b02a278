"""Small sums read as numbers: 2^10, 6·7, 3(4+1), \\frac{3}{4}, 2\\sqrt{3}, 5!, 2π; bounded, whatever is written.

>>> evaluate("2^{10}"), evaluate("6 \\\\times 7 + 1"), evaluate("six")
(1024.0, 43.0, None)

A value too large for a float is infinite, at once: "9^{9^{9^9}}" costs nothing.
"""

from __future__ import annotations

import math
import re

_LONGEST = 400
_DEEPEST = 40
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+")
_TOKEN = re.compile(
    r"\s*(?:(\d+(?:\.\d+)?(?:[eE][-+]?\d{1,4})?|\.\d+)|(\\[dtc]?frac|\\sqrt|√|\\pi|π|\*\*|[-+*/^(){}\[\]!%]))"
)
_REPLACED = (
    (re.compile(r"\\(?:left|right|displaystyle|[,;! ])|\$|~"), " "),
    (re.compile(r"\\(?:times|cdot|ast)|[×·⋅∙]"), "*"),
    (re.compile(r"\\div|÷"), "/"),
    (re.compile(r"[−–]"), "-"),
    (re.compile(r"\{,\}|(?<=\d),(?=\d{3}(?!\d))"), ""),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"(?<=\d)\s?[x×](?=\s?\d)"), "*"),
)


class _NoSumError(ValueError):
    """The text is no sum."""


def spell_powers(text: str) -> str:
    """With raised digits as powers: 2¹⁰ as 2^{10}."""
    return _RAISED.sub(lambda m: "^{" + m[0].translate(_SUPERSCRIPTS) + "}", text)


def evaluate(text: str) -> float | None:
    """The value of a sum; None if the text is none (words, letters, a list)."""
    text = spell_powers(text.strip())
    if not text or len(text) > _LONGEST:
        return None
    for pattern, by in _REPLACED:
        text = pattern.sub(by, text)
    try:
        parser = _Parser(_tokens(text))
        value = parser.sum(0)
    except (_NoSumError, ZeroDivisionError):
        return None
    except OverflowError:
        return math.inf
    return value if parser.done else None


def _tokens(text: str) -> list[str]:
    tokens, at = [], 0
    text = text.rstrip()
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise _NoSumError
        tokens.append(match[1] or match[2])
        at = match.end()
    # \frac34 is three quarters
    joined: list[str] = []
    for i, token in enumerate(tokens):
        if token.isdigit() and len(token) == 2 and i and tokens[i - 1].endswith("frac"):
            joined += ["{", token[0], "}", "{", token[1], "}"]
        else:
            joined.append(token)
    return joined


class _Parser:
    """Recursive descent over the tokens; every step takes one."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens, self._at = tokens, 0

    @property
    def done(self) -> bool:
        return self._at == len(self._tokens)

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        token = self._peek()
        self._at += 1
        return token

    def sum(self, depth: int) -> float:
        if depth > _DEEPEST:
            raise _NoSumError
        value = self._product(depth)
        while self._peek() in ("+", "-"):
            value = value + self._product(depth) if self._take() == "+" else value - self._product(depth)
        return value

    def _product(self, depth: int) -> float:
        value = self._signed(depth)
        while (token := self._peek()) and token not in (")", "}", "]", "+", "-"):
            if token in ("*", "/"):
                self._take()
                right = self._signed(depth)
                value = value * right if token == "*" else value / right
            elif token[0].isdigit():
                raise _NoSumError  # "3 4" is no product
            else:
                value *= self._power(depth)
        return value

    def _signed(self, depth: int) -> float:
        if self._peek() in ("-", "+"):
            if depth > _DEEPEST:
                raise _NoSumError
            return -self._signed(depth + 1) if self._take() == "-" else self._signed(depth + 1)
        return self._power(depth)

    def _power(self, depth: int) -> float:
        if depth > _DEEPEST:
            raise _NoSumError
        base = self._postfix(depth)
        if self._peek() not in ("^", "**"):
            return base
        self._take()
        exponent = self._power(depth + 1) if self._peek() not in ("-", "+") else self._signed(depth + 1)
        return math.pow(base, exponent) if base >= 0 or exponent == int(exponent) else math.nan

    def _postfix(self, depth: int) -> float:
        value = self._atom(depth)
        while self._peek() in ("!", "%"):
            if self._take() == "%":
                value /= 100
            elif value != int(value) or not 0 <= value <= 170:
                raise OverflowError
            else:
                value = float(math.factorial(int(value)))
        return value

    def _atom(self, depth: int) -> float:
        token = self._take()
        if token and token[0] in "0123456789.":
            return float(token)
        if token in ("π", "\\pi"):
            return math.pi
        if token in ("(", "{", "["):
            return self._closed(token, depth)
        if token.endswith("frac"):
            above, below = self._atom(depth + 1), self._atom(depth + 1)
            return above / below
        if token in ("√", "\\sqrt"):
            return self._root(depth)
        raise _NoSumError

    def _closed(self, opening: str, depth: int) -> float:
        value = self.sum(depth + 1)
        if self._take() != {"(": ")", "{": "}", "[": "]"}[opening]:
            raise _NoSumError
        return value

    def _root(self, depth: int) -> float:
        if depth > _DEEPEST:
            raise _NoSumError
        order = 2.0
        if self._peek() == "[":
            self._take()
            order = self._closed("[", depth)
        value = self._atom(depth + 1)
        if value < 0 or order == 0:
            raise _NoSumError
        return float(value ** (1 / order))
