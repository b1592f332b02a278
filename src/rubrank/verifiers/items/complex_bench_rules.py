"""The rules of ComplexBench, as its public file writes them: `model_length:[300,10000]`, `keyword:[苹果,香蕉]`.

    >>> check_rule("length_word:[2,3]\\nendswith:ok", ["all is ok."], "fixed").ok
    True

A rule is one or more lines `name:argument`; all must hold. What each asks of a piece of the answer:

    keyword[a,b], forbidden_word[a,b]     holds all of them; none of them
    keyword_num[1,2,a,b,c]                holds 1 to 2 of them
    startswith:x, endswith:x, not_…       begins, ends so (a full stop or question mark may follow)
    length[1,100], length_word[1,100]     so many characters; words
    match:x                               is x
    Json[a,b]                             holds a JSON object with exactly these keys; any keys if none is named
    constraint_punc[，,。]                 no punctuation but this
    number_each[3,5], starts_with_list_each[a,b]   so many pieces; the pieces begin so, in order

`model_` before the name says that a model must cut the piece out of the answer first, `_each` after it that there are
several pieces and the rule holds for each. Widths of characters (，and ,) and case make no difference.
"""

from __future__ import annotations

import ast
import json
import re
import string
import unicodedata
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from rubrank.texts.text import Text
from rubrank.verifiers.shared.checks import Holds
from rubrank.verifiers.verifier import Compat

_LINE = re.compile(r"(model_|not |not_)?(model_)?(not_)?([A-Za-z_]+?)(_each)?:\s*(.*)\Z", re.DOTALL)
_QUOTES = {'"': '"', "“": "”", "`": "`", "「": "」"}
_PUNCTUATION = frozenset(string.punctuation)


@dataclass(frozen=True)
class PieceRule:
    """One line of a rule."""

    name: str
    arguments: tuple[str, ...]
    negated: bool = False
    each: bool = False
    extracted: bool = False
    """Does a model have to find the piece first?"""


_LISTS = frozenset(("keyword", "forbidden_word", "keyword_num", "length", "length_word", "Json", "constraint_punc"))
_LISTS |= {"number", "starts_with_list"}
_TEXTS = frozenset(("startswith", "endswith", "match"))


@lru_cache(maxsize=1024)
def parse_rule(source: str) -> tuple[PieceRule, ...]:
    """The lines of a rule; ValueError if one is none."""
    lines = re.split(r"\n(?=(?:model_|not[ _])*[A-Za-z_]+:)", source.strip())
    return tuple(map(_parse_line, lines))


def _parse_line(line: str) -> PieceRule:
    found = _LINE.match(line)
    if not found or found[4] not in _LISTS | _TEXTS:
        known = ", ".join(sorted(_LISTS | _TEXTS))
        raise ValueError(f"{line[:80]!r} is no rule; known are {known}, each with model_, not_ and _each")
    before = [found[1] or "", found[2] or "", found[3] or ""]
    arguments = _listed(found[6]) if found[4] in _LISTS else (found[6].strip(),)
    rule = PieceRule(found[4], arguments, any("not" in b for b in before), bool(found[5]), "model_" in before)
    if rule.name in ("length", "length_word", "number", "keyword_num"):
        _range(rule)
    return rule


def _listed(text: str) -> tuple[str, ...]:
    """`[a, b]`, with or without quotation marks."""
    try:
        value = ast.literal_eval(text) if len(text) < 10_000 else None
        if isinstance(value, list) and all(isinstance(v, str | int) for v in value):
            return tuple(map(str, value))
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        pass  # the public file writes most lists without quotation marks
    return tuple(part for part in (p.strip() for p in text.strip().strip("[]").split(",")) if part)


def _range(rule: PieceRule) -> tuple[int, int]:
    try:
        low, high = map(int, rule.arguments[:2])
    except ValueError:
        raise ValueError(f"rule {rule.name} needs [least, most]; got {list(rule.arguments)}") from None
    return low, high


def check_rule(source: str, pieces: Sequence[str], compat: Compat) -> Holds:
    """Do all lines of the rule hold for the pieces (without `_each`: for the first)?"""
    results = [_check_line(rule, pieces, compat) for rule in parse_rule(source)]
    return next((r for r in results if not r.ok), results[0])


def _check_line(rule: PieceRule, pieces: Sequence[str], compat: Compat) -> Holds:
    pieces = [piece for piece in pieces if piece.strip()]
    if rule.name == "number":
        low, high = _range(rule)
        return Holds(low <= len(pieces) <= high, f"{len(pieces)} pieces, {low} to {high} asked")
    if not pieces:
        passes = rule.negated or rule.name == "forbidden_word"
        return Holds(passes, f"nothing to check {rule.name} on")
    if rule.name == "starts_with_list":
        return _in_turn(rule, pieces)
    for i, piece in enumerate(pieces if rule.each else pieces[:1], 1):
        found = _check_piece(rule, piece, compat)
        if not found.ok:
            return Holds(False, f"piece {i}: {found.reason}" if rule.each else found.reason)
    return Holds(True, f"{rule.name} holds")


def _in_turn(rule: PieceRule, pieces: Sequence[str]) -> Holds:
    if len(pieces) != len(rule.arguments):
        return Holds(False, f"{len(pieces)} pieces, {len(rule.arguments)} asked")
    bad = [a for piece, a in zip(pieces, rule.arguments, strict=True) if not _flat(piece).startswith(_flat(a))]
    return Holds(not bad, f"no piece begins with {bad[0]!r} in its place" if bad else "the pieces begin as asked")


def _check_piece(rule: PieceRule, piece: str, compat: Compat) -> Holds:
    """The piece passes as it is, or without quotation marks around it."""
    if compat == "upstream" and "None" in piece and not rule.extracted:  # stands for “nothing found” there
        return Holds(rule.negated or rule.name == "forbidden_word", "the piece holds “None”")
    check = _CHECKS[rule.name]
    found = check(piece, rule, compat)
    if not found.ok and _QUOTES.get(piece.strip()[:1]) == piece.strip()[-1:]:
        found = check(piece.strip()[1:-1], rule, compat)
    return Holds(not found.ok, f"not: {found.reason}") if rule.negated else found


def _flat(text: str) -> str:
    return unicodedata.normalize("NFKC", text).casefold().strip()


def _keyword(piece: str, rule: PieceRule, compat: Compat) -> Holds:
    flat = _flat(piece)
    lacking = [word for word in rule.arguments if _flat(word) not in flat]
    return Holds(not lacking, f"{lacking[0]!r} is not there" if lacking else "all keywords are there")


def _forbidden(piece: str, rule: PieceRule, compat: Compat) -> Holds:
    flat = _flat(piece)
    present = [word for word in rule.arguments if _flat(word) in flat]
    return Holds(not present, f"{present[0]!r} is there" if present else "no forbidden word is there")


def _keyword_num(piece: str, rule: PieceRule, compat: Compat) -> Holds:
    low, high = _range(rule)
    flat = _flat(piece)
    n = sum(_flat(word) in flat for word in rule.arguments[2:])
    return Holds(low <= n <= high, f"{n} of the keywords are there, {low} to {high} asked")


def _starts(piece: str, rule: PieceRule, compat: Compat) -> Holds:
    return Holds(_flat(piece).startswith(_flat(rule.arguments[0])), f"begins with {piece.strip()[:30]!r}")


def _ends(piece: str, rule: PieceRule, compat: Compat) -> Holds:
    flat, wanted = _flat(piece), _flat(rule.arguments[0])
    return Holds(
        flat.endswith((wanted, f"{wanted}。", f"{wanted}.", f"{wanted}?")), f"ends with {piece.strip()[-30:]!r}"
    )


def _match(piece: str, rule: PieceRule, compat: Compat) -> Holds:
    flat, wanted = _flat(piece), _flat(rule.arguments[0])
    return Holds(flat in (wanted, f"{wanted}。", f"{wanted}."), f"it is {piece.strip()[:60]!r}")


def _length(piece: str, rule: PieceRule, compat: Compat) -> Holds:
    low, high = _range(rule)
    n = len(piece) if compat == "upstream" else len(Text(piece).characters)
    return Holds(low <= n <= high, f"{n} characters, {low} to {high} asked")


def _length_word(piece: str, rule: PieceRule, compat: Compat) -> Holds:
    low, high = _range(rule)
    n = len(piece.split()) if compat == "upstream" else len(Text(piece).words)
    return Holds(low <= n <= high, f"{n} words, {low} to {high} asked")


def _json(piece: str, rule: PieceRule, compat: Compat) -> Holds:
    start = piece.find("{")
    try:
        value, _ = json.JSONDecoder().raw_decode(piece, start) if start >= 0 else (None, 0)
    except (ValueError, RecursionError):
        return Holds(False, "the JSON object cannot be read")
    if not isinstance(value, dict):
        return Holds(False, "no JSON object")
    return Holds(not rule.arguments or set(value) == set(rule.arguments), f"JSON with the keys {list(value)[:10]}")


def _punctuation(piece: str, rule: PieceRule, compat: Compat) -> Holds:
    allowed = set("".join(map(_flat, rule.arguments)))
    other = sorted({c for c in set(_flat(piece)) if _is_punctuation(c)} - allowed)
    return Holds(not other, f"other punctuation: {' '.join(other[:10])}" if other else "no other punctuation")


def _is_punctuation(char: str) -> bool:
    return char in _PUNCTUATION or unicodedata.category(char)[0] == "P"


_CHECKS: dict[str, Callable[[str, PieceRule, Compat], Holds]] = {
    "keyword": _keyword,
    "forbidden_word": _forbidden,
    "keyword_num": _keyword_num,
    "startswith": _starts,
    "endswith": _ends,
    "match": _match,
    "length": _length,
    "length_word": _length_word,
    "Json": _json,
    "constraint_punc": _punctuation,
}
