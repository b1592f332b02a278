"""Reads numbers in words: 壹佰贰拾, 廿三, 삼백이십, forty-two, cuarenta y dos, quatre-vingt-dix-sept, zweiundvierzig.

>>> read_han("壹佰贰拾"), read_han("三万五"), read_number_words("quatre-vingt-dix-sept")
(120.0, 35000.0, 97.0)
"""

from __future__ import annotations

import re
from functools import cache

from rubrank.verifiers.shared.word_tables import read_table

# ---- Chinese, Japanese, Korean ------------------------------------------------------------------------------------

_DIGIT_FORMS = (
    "零〇○",
    "一壹壱弌幺",
    "二贰貳弐兩两",
    "三叁參参",
    "四肆",
    "五伍",
    "六陆陸",
    "七柒漆",
    "八捌",
    "九玖",
)
_DIGITS = {form: digit for digit, forms in enumerate(_DIGIT_FORMS) for form in forms}
_SMALL_SCALES = {
    "十": 10,
    "拾": 10,
    "廿": 20,
    "卅": 30,
    "卌": 40,
    "百": 100,
    "佰": 100,
    "陌": 100,
    "千": 1000,
    "仟": 1000,
}
# Scales above 千, each of which multiplies a whole section: (三千五百)万
_MYRIADS = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8, "兆": 10**12}
HAN_SCALES = {**_SMALL_SCALES, **_MYRIADS}
HAN_DIGITS = "".join(_DIGITS)
# A pattern of one character of a numeral
HAN = f"[{HAN_DIGITS}{''.join(HAN_SCALES)}]"

# Korean has two sets of numerals. Sino-Korean ones work like Chinese ones; native ones go up to 99.
_SINO_KOREAN_DIGITS = {form: digit for digit, form in enumerate("영일이삼사오육칠팔구")} | {
    "공": 0,
    "륙": 6,
}
_SINO_KOREAN_SCALES = {"십": "十", "백": "百", "천": "千", "만": "万", "억": "亿"}
SINO_KOREAN = f"[{''.join(_SINO_KOREAN_DIGITS)}{''.join(_SINO_KOREAN_SCALES)}]"
_KOREAN_TENS = {
    "열": 10,
    "스물": 20,
    "스무": 20,
    "서른": 30,
    "마흔": 40,
    "쉰": 50,
    "예순": 60,
    "일흔": 70,
    "여든": 80,
    "아흔": 90,
}
_KOREAN_ONES = {
    "다섯": 5,
    "여섯": 6,
    "일곱": 7,
    "여덟": 8,
    "아홉": 9,
    "하나": 1,
    "둘": 2,
    "셋": 3,
    "넷": 4,
    "한": 1,
    "두": 2,
    "세": 3,
    "네": 4,
}
_NATIVE_KOREAN = re.compile(rf"({'|'.join(_KOREAN_TENS)})?({'|'.join(_KOREAN_ONES)})?")


def read_han(numeral: str) -> float:
    """Return the value of a numeral of Chinese characters, formal or not; 点 divides the decimals."""
    whole, _, decimals = numeral[:60].replace("點", "点").partition("点")
    if any(char in HAN_SCALES for char in whole):
        value = _read_han_with_scales(whole)
    else:  # 二〇二四: digit by digit
        value = float("".join(str(_DIGITS[char]) for char in whole) or 0)
    digits = "".join(str(_DIGITS[char]) for char in decimals if char in _DIGITS)
    return value + float("0." + (digits or "0"))


def _read_han_with_scales(numeral: str) -> float:
    """Return the value of a numeral such as 三千五百万: digits, each before the scale that multiplies it."""
    total = 0  # the value up to the last 万, 亿 or 兆
    section = 0  # the value since then, up to the last 十, 百 or 千
    digit = 0
    scale = 0  # the last 十, 百, 千, 万 …
    for char in numeral:
        if char in _DIGITS:
            digit = _DIGITS[char]
        elif char in "廿卅卌":  # twenty, thirty, forty: no digit before them
            section += _SMALL_SCALES[char]
            digit = 0
            scale = 10
        elif char in _SMALL_SCALES:
            section += (digit or 1) * _SMALL_SCALES[char]
            digit = 0
            scale = _SMALL_SCALES[char]
        else:
            scale = _MYRIADS[char]
            part = (section + digit) or 1
            if scale > 10**4:
                total = (total + part) * scale  # 亿 multiplies all before it: 一万亿 is 10^12
            else:
                total += part * scale
            section = 0
            digit = 0
    # A last digit right after a scale counts for the next smaller scale: 一百二 is 120 and 三万五 is 35,000.
    # With a zero between them it does not: 一百零二 is 102.
    if digit and scale > 10 and numeral[-2:-1] in HAN_SCALES:
        digit = digit * scale // 10
    return float(total + section + digit)


def read_korean(numeral: str) -> float | None:
    """Return the value of a Sino-Korean or native Korean numeral; None if the text is something else."""
    numeral = numeral.replace(" ", "")[:40]
    if not numeral:
        return None
    native = _NATIVE_KOREAN.fullmatch(numeral)
    if native:
        return float(_KOREAN_TENS.get(native[1] or "", 0) + _KOREAN_ONES.get(native[2] or "", 0))
    if re.fullmatch(f"{SINO_KOREAN}+", numeral) is None:
        return None
    chinese = ""
    for char in numeral:
        if char in _SINO_KOREAN_DIGITS:
            chinese += "零一二三四五六七八九"[_SINO_KOREAN_DIGITS[char]]
        else:
            chinese += _SINO_KOREAN_SCALES[char]
    # Korean has no short form: 백이 is 102.
    return read_han(re.sub("(?<=[百千万亿])(?=[一二三四五六七八九]$)", "零", chinese))


# ---- English -------------------------------------------------------------------------------------------------------

_ENGLISH_BELOW_20 = """
    zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen seventeen
    eighteen nineteen
"""
_ENGLISH_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_ENGLISH_NUMBERS = {word: i for i, word in enumerate(_ENGLISH_BELOW_20.split())}
_ENGLISH_NUMBERS |= {word: 10 * i for i, word in enumerate(_ENGLISH_TENS.split(), 2)}
_ENGLISH_NUMBERS |= {"fourty": 40, "dozen": 12}  # "fourty" is a common slip
_ENGLISH_SCALES = {
    "hundred": 100,
    "thousand": 1000,
    "million": 10**6,
    "billion": 10**9,
    "trillion": 10**12,
}
_ENGLISH_PARTS = "half third quarter fifth sixth seventh eighth ninth tenth"
_DENOMINATORS = {word: i for i, word in enumerate(_ENGLISH_PARTS.split(), 2)}
_ANY_WORD = "|".join([*sorted(_ENGLISH_NUMBERS, key=len, reverse=True), *_ENGLISH_SCALES])
# "forty-two", "a hundred", "three hundred and five"
ENGLISH = rf"\b(?:a\s+(?:hundred|thousand|million|billion|dozen)|{_ANY_WORD})(?:(?:\s+and)?[\s-]+(?:{_ANY_WORD}))*+\b"
# "three quarters", "a third", "half"; not "third of the list" or "third grade", which are ranks
ENGLISH_FRACTION = (
    rf"\b(?:(?:{'|'.join(_ENGLISH_NUMBERS)}|an?)[\s-]+)?(?:{'|'.join(_DENOMINATORS)}|halve)s?\b"
    r"(?!\s+(?:of\s+the\s+(?:list|test)|grade|place))"
)


def read_english(words: str) -> float:
    """Return the value of words such as "three hundred and five"."""
    total = 0  # up to the last "thousand", "million" …
    current = 0  # since then
    for word in re.split(r"[\s-]+", words.lower())[:40]:
        if word == "dozen":
            current = (current or 1) * 12
        elif word in _ENGLISH_NUMBERS:
            current += _ENGLISH_NUMBERS[word]
        elif word == "hundred":
            current = (current or 1) * 100
        elif word in _ENGLISH_SCALES:
            total += (current or 1) * _ENGLISH_SCALES[word]
            current = 0
    return float(total + current)


def read_english_fraction(words: str) -> float:
    """Return the value of words such as "three quarters", "half", "a third"."""
    *count, part = re.split(r"[\s-]+", words.lower())
    singular = part.rstrip("s")
    if singular == "halve":
        singular = "half"
    # "a third" and "third": one of them
    numerator = _ENGLISH_NUMBERS.get(count[0], 1) if count else 1
    return numerator / _DENOMINATORS.get(singular, 1)


# ---- other languages: words, alone or glued together ----------------------------------------------------------------


@cache
def _read_number_words() -> dict[str, dict[str, str]]:
    """Return {language: {word: value}}. A value is "40", "x100" for a word that multiplies, "+" for one that joins."""
    languages: dict[str, dict[str, str]] = {}
    for language, value, words in read_table("numerals"):
        languages.setdefault(language, {}).update(dict.fromkeys(words.split(), value))
    return languages


@cache
def _compile_words(language: str) -> re.Pattern[str]:
    """Compile a pattern of one number word, the longest first: "sechzehn" before "sech"."""
    return re.compile("|".join(sorted(_read_number_words()[language], key=len, reverse=True)))


def read_number_words(words: str) -> float | None:
    """Read a number in French, Spanish, Portuguese, Italian, German, Dutch or Russian words; None for anything else."""
    # German writes zweiundvierzig as one word and French puts hyphens, so spaces and hyphens (also soft ones) go.
    letters = re.sub("[\\s\\-\u2010\u00ad]+", "", words.casefold())[:200].replace("ß", "ss")
    if not letters or not letters.isalpha():
        return None
    # French 80 is "four twenties", which would be read as 4 + 20. The Swiss word "octante" means the same.
    letters = letters.replace("quatrevingts", "octante").replace("quatrevingt", "octante")
    for language in _read_number_words():
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
        value = _read_number_words()[language][word[0]]
        if value == "+":
            continue
        if not value.startswith("x"):
            current += int(value)
        elif value == "x100":
            current = (current or 1) * 100
        else:
            total += (current or 1) * int(value[1:])
            current = 0
    return float(total + current)
