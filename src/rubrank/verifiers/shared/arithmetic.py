"""Compute the value of short expressions: 2^10, 6·7, 3(4+1), \\frac{3}{4}, 2\\sqrt{3}, 5!, 2π.

No text takes long, whoever wrote it: length, depth and the size of numbers are limited.

>>> evaluate("2^{10}"), evaluate("6 \\\\times 7 + 1"), evaluate("six")
(1024.0, 43.0, None)

A value too large for a float is infinite: "9^{9^{9^9}}" is not computed.
"""

from __future__ import annotations

import math
import re

_MOST_CHARACTERS = 400  # of an expression; what is longer is no result
_MOST_DEPTH = 40  # of brackets, signs and powers inside each other; each takes up to seven of Python's 1,000 calls
_LARGEST_FACTORIAL = 170  # 171! is too large for a float
_NUMBER_STARTS = "0123456789."
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺", "0123456789-+")
_RAISED = re.compile("[⁰¹²³⁴⁵⁶⁷⁸⁹⁻⁺]+")
# A number (12, 1.5, .5, 2e-3), or a symbol (\frac, √, **, a bracket).
_TOKEN = re.compile(
    r"\s*(?:(\d+(?:\.\d+)?(?:[eE][-+]?\d{1,4})?|\.\d+)|(\\[dtc]?frac|\\sqrt|√|\\pi|π|\*\*|[-+*/^(){}\[\]!%]))"
)
# Other ways to write a symbol, and the symbol that the parser reads. {,} and commas group digits: 1{,}000.
_REPLACED = (
    (re.compile(r"\\(?:left|right|displaystyle|[,;! ])|\$|~"), " "),
    (re.compile(r"\\(?:times|cdot|ast)|[×·⋅∙]"), "*"),
    (re.compile(r"\\div|÷"), "/"),
    (re.compile(r"[−–]"), "-"),
    (re.compile(r"\{,\}|(?<=\d),(?=\d{3}(?!\d))"), ""),
    (re.compile(r"\\%"), "%"),
    (re.compile(r"(?<=\d)\s?x(?=\s?\d)"), "*"),
)


class _NotAnExpressionError(ValueError):
    """The text is not an expression that can be computed here."""


def spell_powers(text: str) -> str:
    """Return the text with raised digits as powers: 2¹⁰ → 2^{10}."""
    return _RAISED.sub(lambda m: "^{" + m[0].translate(_SUPERSCRIPTS) + "}", text)


def evaluate(text: str) -> float | None:
    """Return the value of an expression, infinity if it is too large for a float.

    Returns None if the text is not an expression (words, letters, a list, 1.2.3), or has no real value (1/0, (-3)!).
    """
    text = spell_powers(text.strip())
    if not text or len(text) > _MOST_CHARACTERS:
        return None
    for pattern, replacement in _REPLACED:
        text = pattern.sub(replacement, text)
    tokens: list[str] = []
    position = 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            return None
        token = match[1] or match[2]
        follows_frac = bool(tokens) and tokens[-1].endswith("frac")
        if follows_frac and len(token) == 2 and token.isdigit():
            # \frac34 is three quarters.
            tokens += ["{", token[0], "}", "{", token[1], "}"]
        else:
            tokens.append(token)
        position = match.end()
    parser = _Parser(tokens)
    try:
        value = parser.parse_sum(0)
    except (ValueError, ZeroDivisionError):
        # Besides _NotAnExpressionError: `math.pow` and `int` raise ValueError for 0^{-1} and for powers that are NaN.
        return None
    except OverflowError:
        return math.inf
    # Infinity minus infinity is NaN.
    return None if math.isnan(value) or not parser.done else value


def _check_depth(depth: int) -> None:
    if depth > _MOST_DEPTH:
        raise _NotAnExpressionError


class _Parser:
    """Computes the value of tokens by recursive descent. `depth` bounds the recursion.

    sum      product (+ product)*
    product  signed (* signed | / signed | power)*     3(4+1) has no sign of multiplication
    signed   (+ | -)* power
    power    postfix (^ signed)?
    postfix  atom (! | %)*
    atom     number | π | (sum) | \\frac atom atom | √ atom
    """

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._position = 0

    @property
    def done(self) -> bool:
        return self._position == len(self._tokens)

    def _peek(self) -> str:
        return "" if self.done else self._tokens[self._position]

    def _take(self) -> str:
        if self.done:
            raise _NotAnExpressionError
        token = self._tokens[self._position]
        self._position += 1
        return token

    def parse_sum(self, depth: int) -> float:
        _check_depth(depth)
        value = self._parse_product(depth)
        while self._peek() in ("+", "-"):
            sign = self._take()
            right = self._parse_product(depth)
            value = value + right if sign == "+" else value - right
        return value

    def _parse_product(self, depth: int) -> float:
        value = self._parse_signed(depth)
        while (token := self._peek()) and token not in (")", "}", "]", "+", "-"):
            if token in ("*", "/"):
                self._take()
                right = self._parse_signed(depth)
                value = value * right if token == "*" else value / right
            elif token[0] in _NUMBER_STARTS:
                raise _NotAnExpressionError  # "3 4" and "1.2.3", which is 1.2 and .3, are no products
            else:
                value *= self._parse_power(depth)
        return value

    def _parse_signed(self, depth: int) -> float:
        if self._peek() not in ("-", "+"):
            return self._parse_power(depth)
        _check_depth(depth)
        sign = self._take()
        value = self._parse_signed(depth + 1)
        return -value if sign == "-" else value

    def _parse_power(self, depth: int) -> float:
        _check_depth(depth)
        base = self._parse_postfix(depth)
        if self._peek() not in ("^", "**"):
            return base
        self._take()
        exponent = self._parse_signed(depth + 1)
        if base < 0 and exponent != int(exponent):
            raise _NotAnExpressionError  # the value is not real
        return math.pow(base, exponent)

    def _parse_postfix(self, depth: int) -> float:
        value = self._parse_atom(depth)
        while self._peek() in ("!", "%"):
            if self._take() == "%":
                value /= 100
            elif value < 0 or value != int(value):
                raise _NotAnExpressionError  # only whole numbers from 0 have a factorial
            elif value > _LARGEST_FACTORIAL:
                raise OverflowError
            else:
                value = float(math.factorial(int(value)))
        return value

    def _parse_atom(self, depth: int) -> float:
        token = self._take()
        if token[0] in _NUMBER_STARTS:
            return float(token)
        if token in ("π", "\\pi"):
            return math.pi
        if token in ("(", "{", "["):
            return self._parse_brackets(token, depth)
        if token.endswith("frac"):
            above = self._parse_atom(depth + 1)
            below = self._parse_atom(depth + 1)
            return above / below
        if token in ("√", "\\sqrt"):
            _check_depth(depth)
            order = 2.0
            if self._peek() == "[":  # \sqrt[3]{8}
                self._take()
                order = self._parse_brackets("[", depth)
            radicand = self._parse_atom(depth + 1)
            if radicand < 0 or order == 0:
                raise _NotAnExpressionError
            return float(radicand ** (1 / order))
        raise _NotAnExpressionError

    def _parse_brackets(self, opening: str, depth: int) -> float:
        value = self.parse_sum(depth + 1)
        if self._take() != {"(": ")", "{": "}", "[": "]"}[opening]:
            raise _NotAnExpressionError
        return value
