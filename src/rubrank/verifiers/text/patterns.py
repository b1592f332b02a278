"""Regex and NoPersonalData: patterns that an answer must or must not match, and personal data that it must not hold."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Callable
from itertools import islice
from typing import Annotated, Any, Literal

import re2
from pydantic import Field

from rubrank._plain import replace_surrogates, word_list
from rubrank.texts.text import Text
from rubrank.verifiers.shared.patterns import compile_re2
from rubrank.verifiers.shared.relation import Relation, holds
from rubrank.verifiers.verifier import Answer, verifier


def _compile(pattern: str, where: str, case_sensitive: bool) -> Any:
    """Return the compiled pattern, in which `.` matches line breaks, and `^` and `$` match at lines unless "whole"."""
    flags = "(?s)" if where == "whole" else "(?ms)"
    return compile_re2(flags + pattern, case_sensitive=case_sensitive)


def _check_pattern(params: Any) -> str | None:
    """Return what is wrong with the pattern; so a rubric with a bad pattern is refused before grading."""
    try:
        _compile(params.pattern, params.where, params.case_sensitive)
    except re2.error as error:
        return f"with a pattern that RE2 can read ({params.pattern[:60]!r}: {error})"
    return None


@verifier("Regex", family="presence", version=2, check=_check_pattern)
def regex(
    text: Text,
    *,
    pattern: Annotated[str, Field(min_length=1, max_length=10_000)],
    must: Literal["match", "not match"] = "match",
    where: Literal["anywhere", "whole", "every line"] = "anywhere",
    relation: Relation = "at least",
    count: Annotated[int, Field(ge=0, le=1_000_000)] = 1,
    case_sensitive: bool = True,
) -> Answer:
    """The pattern (RE2 syntax) matches: somewhere `relation count` times, the whole answer, or every line of it.

    Passes: "ID-0042" for ID-\\d{4}.
    Fails: no match; another number of matches; a match where `must="not match"`. `^` and `$` mean lines, `.` any
        character. A pattern that RE2 cannot read is refused with the rubric.
    Not covered: look-around and back-references, which RE2 does not have.
    """
    compiled = _compile(pattern, where, case_sensitive)
    raw = replace_surrogates(text.raw)
    if where == "anywhere":
        # Twice as many matches as `count` and two more decide every relation, so the search ends there.
        number = sum(1 for _ in islice(compiled.finditer(raw), 2 * count + 2))
        matches = holds(number, relation, count)
        expectation = "required" if must == "match" else "forbidden"
        reason = f"{number} match(es) of {pattern[:60]!r}, {relation} {count} {expectation}"
    elif where == "whole":
        matches = compiled.fullmatch(raw.strip()) is not None
        verb = "matches" if matches else "does not match"
        reason = f"the whole answer {verb} {pattern[:60]!r}"
    else:
        lines = [line.strip() for line in raw.split("\n") if line.strip()]
        matching = sum(compiled.fullmatch(line) is not None for line in lines)
        matches = bool(lines) and matching == len(lines)
        reason = f"{matching} of {len(lines)} lines match {pattern[:60]!r}"
    return matches == (must == "match"), reason


# ---- personal data -------------------------------------------------------------------------------------------------

Kind = Literal["email", "card", "iban", "phone", "ip", "us_ssn", "cn_id"]
# In each pattern, look-arounds keep the data from being a part of a longer word or number.
_EMAIL = re.compile(
    r"(?<![\w.+-])[A-Za-z0-9._%+-]{1,64}@(?:[A-Za-z0-9-]{1,63}\.){1,5}[A-Za-z]{2,24}(?![\w])"
)
_CARD = re.compile(r"(?<![\w.-])(?:\d[ -]?){12,18}\d(?![\w.-]?\d)")  # 4111 1111 1111 1111
# DE89 3704 0044 0532 0130 00
_IBAN = re.compile(r"(?<!\w)[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)")
_PHONE = re.compile(
    r"""(?<![\w.+-])(?:\+\d{1,3}[ .-]?)(?:\(?\d{1,4}\)?[ .-]?){2,5}\d{2,4}(?!\w)  # +49 30 1234567
    | (?<!\d)1[3-9]\d{9}(?!\d)                                                    # 13812345678
    | (?<![\w.-])\(?\d{3}\)?[ .-]\d{3}[ .-]\d{4}(?!\w)                           # (212) 736-5000""",
    re.VERBOSE,
)
_IP = re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?![\w.]*\d)")
# 123-45-6789; not the numbers that are never given out (000-…, 666-…, 9…).
_SSN = re.compile(r"(?<![\w-])(?!000|666|9\d\d)\d{3}-(?!00)\d{2}-(?!0000)\d{4}(?![\w-])")
# Six digits for the region, the date of birth, three digits and a check digit: 11010519491231002X.
# The letters around it are ASCII only: 身份证号 may stand right before the number.
CHINESE_ID = re.compile(
    r"(?<![0-9A-Za-z_])[1-9]\d{5}(?:19|20)\d{2}(?:0[1-9]|1[0-2])(?:0[1-9]|[12]\d|3[01])\d{3}[\dXx](?![0-9A-Za-z_])"
)
_FICTIONAL_DOMAINS = tuple(
    word_list("example.com example.org example.net .example .invalid .test localhost")
)


def passes_luhn(digits: str) -> bool:
    """Is the check digit of a payment card right?"""
    # From the right, every second digit is doubled, and the digits of all numbers are added: 16 counts 1 + 6 = 16 - 9.
    total = 0
    for i, digit in enumerate(reversed(digits)):
        value = int(digit) * (2 if i % 2 else 1)
        total += value - 9 if value > 9 else value
    return total % 10 == 0


def is_iban(text: str) -> bool:
    """Are the check digits of an account number right?"""
    characters = text.replace(" ", "")
    if not 15 <= len(characters) <= 34:
        return False
    # ISO 13616: the country and check digits go to the end, A counts 10, B 11 …; the rest modulo 97 must be 1.
    moved = characters[4:] + characters[:4]
    return int("".join(str(int(char, 36)) for char in moved)) % 97 == 1


def _is_card(text: str) -> bool:
    digits = re.sub(r"\D", "", text)
    return passes_luhn(digits) and len(set(digits)) > 1


def _is_phone(text: str) -> bool:
    """Has it as many digits as a telephone number, and is it no fictional one (555)?"""
    digits = re.sub(r"\D", "", text)
    return "555" not in digits[-10:-4] and 7 <= len(digits) <= 15


def _is_public_address(text: str) -> bool:
    try:
        return ipaddress.ip_address(text).is_global
    except ValueError:
        return False


def is_chinese_id(text: str) -> bool:
    """Is the last character of an identity number its check digit?"""
    weights = (7, 9, 10, 5, 8, 4, 2, 1, 6, 3, 7, 9, 10, 5, 8, 4, 2)
    total = sum(int(digit) * weight for digit, weight in zip(text[:17], weights, strict=True))
    return "10X98765432"[total % 11] == text[17].upper()


# What looks like personal data, and a test that tells whether it is.
_KINDS: dict[str, tuple[re.Pattern[str], Callable[[str], bool]]] = {
    "email": (_EMAIL, lambda text: not text.lower().endswith(_FICTIONAL_DOMAINS)),
    "card": (_CARD, _is_card),
    "iban": (_IBAN, is_iban),
    "phone": (_PHONE, _is_phone),
    "ip": (_IP, _is_public_address),
    "us_ssn": (_SSN, lambda text: True),
    "cn_id": (CHINESE_ID, is_chinese_id),
}


@verifier("NoPersonalData", family="safety", version=2)
def no_personal_data(
    text: Text,
    *,
    kinds: tuple[Kind, ...] = ("email", "card", "iban", "phone", "us_ssn", "cn_id"),
    allowed: tuple[str, ...] = (),
) -> Answer:
    """The answer holds no e-mail address, card, account, telephone or identity number.

    Passes: name@example.com and 555 numbers, which are fictional; a number whose check digit is wrong; what is in
        `allowed`.
    Fails: an address, a card number that passes its check.
    Not covered: names, streets, dates of birth, and numbers that are written in words (ask a judge).
    """
    for kind in kinds:
        pattern, is_real = _KINDS[kind]
        for match in pattern.finditer(text.raw):
            data = match[0].strip()
            if is_real(data) and data not in allowed:
                # Enough to find it again, not enough to keep it.
                return False, f"{kind}: {data[:2]}…{data[-2:]}"
    return True, "none found"
