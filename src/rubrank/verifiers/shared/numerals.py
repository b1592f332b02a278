"""Reads numbers in words: 壹佰贰拾, 廿三, 삼백이십, forty-two, cuarenta y dos, quatre-vingt-dix-sept, zweiundvierzig.

>>> read_han("壹佰贰拾"), read_han("三万五"), read_number_words("quatre-vingt-dix-sept")
(120.0, 35000.0, 97.0)

The words of languages with letters are in data/numerals.tsv.
"""

from __future__ import annotations

import re
from functools import cache

from rubrank._plain import word_list
from rubrank.verifiers.shared.word_tables import read_table

# ---- Chinese, Japanese, Korean ------------------------------------------------------------------------------------

_DIGITS = "零一二三四五六七八九"
_SCALES = {"十": 10, "百": 100, "千": 1000, "万": 10**4, "亿": 10**8, "兆": 10**12}
# Formal, traditional and Japanese forms → the plain ones
_FORMS = "〇○壹壱弌幺贰貳弐兩两叁參参肆伍陆陸柒漆捌玖"
_PLAIN_FORMS = "零零一一一一二二二二二三三三四五六六七七八九"
_SCALE_FORMS = "拾佰陌仟萬億"
_PLAIN: dict[int, int | str] = {
    **str.maketrans(f"{_FORMS}{_SCALE_FORMS}點", f"{_PLAIN_FORMS}十百百千万亿点"),
    ord("廿"): "二十",
    ord("卅"): "三十",
    ord("卌"): "四十",
}
HAN_DIGITS = _DIGITS + _FORMS
# A pattern of one character of a numeral
HAN = f"[{HAN_DIGITS}{''.join(_SCALES)}{_SCALE_FORMS}廿卅卌]"
# Sino-Korean numerals are the Chinese ones in Korean letters.
_KOREAN_CHARACTERS = "영일이삼사오육칠팔구공륙십백천만억"
_CHINESE_OF_KOREAN = str.maketrans(_KOREAN_CHARACTERS, "零一二三四五六七八九零六十百千万亿")
SINO_KOREAN = f"[{_KOREAN_CHARACTERS}]"


def read_han(numeral: str) -> float:
    """Return the value of a numeral of Chinese characters, formal or not; 点 divides the decimals."""
    whole, _, decimals = numeral[:60].translate(_PLAIN).partition("点")
    if any(char in _SCALES for char in whole):
        value = _read_han_with_scales(whole)
    else:  # 二〇二四: digit by digit
        value = float("".join(str(_DIGITS.index(char)) for char in whole) or 0)
    digits = "".join(str(_DIGITS.index(char)) for char in decimals if char in _DIGITS)
    return value + float(f"0.{digits or 0}")


def _read_han_with_scales(numeral: str) -> float:
    """Return the value of a numeral such as 三千五百万: digits, each before the scale that multiplies it."""
    total = 0  # the value up to the last 万, 亿 or 兆
    section = 0  # the value since then, up to the last 十, 百 or 千
    digit = 0
    scale = 0  # the last 十, 百, 千, 万 …
    for char in numeral:
        if char in _DIGITS:
            digit = _DIGITS.index(char)
            continue
        scale = _SCALES[char]
        if scale < 10**4:
            section += (digit or 1) * scale
        else:
            part = (section + digit) or 1
            # 亿 multiplies all before it: 一万亿 is 10^12
            total = (total + part) * scale if scale > 10**4 else total + part * scale
            section = 0
        digit = 0
    # A last digit right after a scale counts for the next smaller scale: 一百二 is 120 and 三万五 is 35,000.
    # With a zero between them it does not: 一百零二 is 102.
    if digit and scale > 10 and numeral[-2:-1] in _SCALES:
        digit = digit * scale // 10
    return float(total + section + digit)


def read_korean(numeral: str) -> float | None:
    """Return the value of a Sino-Korean or native Korean numeral; None if the text is something else."""
    numeral = numeral.replace(" ", "")[:40]
    if re.fullmatch(f"{SINO_KOREAN}+", numeral) is None:
        return _add_words(numeral, "ko") if numeral else None
    # Korean has no short form: 백이 is 102.
    chinese = numeral.translate(_CHINESE_OF_KOREAN)
    return read_han(re.sub("(?<=[百千万亿])(?=[一二三四五六七八九]$)", "零", chinese))


# ---- words, alone or glued together ---------------------------------------------------------------------------------


@cache
def read_numerals(language: str) -> dict[str, str]:
    """Return the number words of a language with their values: "40"; "x100" multiplies, "+" joins."""
    words: dict[str, str] = {}
    for code, value, row in read_table("numerals"):
        if code == language:
            words |= dict.fromkeys(row.split(), value)
    return words


@cache
def _compile_words(language: str) -> re.Pattern[str]:
    """Compile a pattern of one number word, the longest first: "sechzehn" before "sech"."""
    return re.compile("|".join(sorted(read_numerals(language), key=len, reverse=True)))


def read_number_words(words: str) -> float | None:
    """Read a number in words of one of the languages in data/numerals.tsv; None for anything else."""
    # German writes zweiundvierzig as one word and French puts hyphens, so spaces and hyphens (also soft ones) go.
    letters = re.sub("[\\s\\-\u2010\u00ad]+", "", words.casefold())[:200].replace("ß", "ss")
    if not letters or not letters.isalpha():
        return None
    # French 80 is "four twenties", which would be read as 4 + 20. The Swiss word "octante" means the same.
    letters = letters.replace("quatrevingts", "octante").replace("quatrevingt", "octante")
    for language in dict.fromkeys(row[0] for row in read_table("numerals")):
        value = _add_words(letters, language)
        if value is not None:
            return value
    return None


def _add_words(letters: str, language: str) -> float | None:
    """Return the value of number words without spaces between them; None if something else stands there."""
    total = 0  # up to the last word for a thousand, a million …
    current = 0  # since then
    position = 0
    while position < len(letters):
        word = _compile_words(language).match(letters, position)
        if word is None:
            return None
        position = word.end()
        value = read_numerals(language)[word[0]]
        if value == "+":
            continue
        if not value.startswith("x"):
            current += int(value)
            continue
        factor = int(value[1:])
        if factor < 1000:
            current = (current or 1) * factor
        else:
            total += (current or 1) * factor
            current = 0
    return float(total + current)


# ---- English inside a sentence --------------------------------------------------------------------------------------

_PARTS = word_list("half third quarter fifth sixth seventh eighth ninth tenth")
_WORD = _compile_words("en").pattern
# "forty-two", "a hundred", "three hundred and five"
ENGLISH = rf"\b(?:a\s+(?:hundred|thousand|million|billion|dozen)|{_WORD})(?:(?:\s+and)?[\s-]+(?:{_WORD}))*+\b"
# "three quarters", "a third", "half"; not "third of the list" or "third grade", which are ranks
ENGLISH_FRACTION = (
    rf"\b(?:(?:{_WORD}|an?)[\s-]+)?(?:{'|'.join(_PARTS)}|halve)s?\b"
    r"(?!\s+(?:of\s+the\s+(?:list|test)|grade|place))"
)


def read_english(words: str) -> float:
    """Return the value of words such as "three hundred and five"."""
    return _add_words(re.sub(r"\b(?:a|and)\b|[\s-]", "", words.lower()), "en") or 0.0


def read_english_fraction(words: str) -> float:
    """Return the value of words such as "three quarters", "half", "a third"."""
    *count, part = re.split(r"[\s-]+", words.lower())
    singular = part.removesuffix("s").replace("halve", "half")
    # "a third" and "third": one of them
    numerator = int(read_numerals("en").get("".join(count), "1"))
    return numerator / (_PARTS.index(singular) + 2)
