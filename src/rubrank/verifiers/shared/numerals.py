"""Numbers in words: 壹佰贰拾, 廿三, 삼백이십, forty-two, cuarenta y dos, quatre-vingt-dix-sept, zweiundvierzig.

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
_TENS = {
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
_MYRIADS = {"万": 10**4, "萬": 10**4, "亿": 10**8, "億": 10**8, "兆": 10**12}
HAN_SCALES = {**_TENS, **_MYRIADS}
HAN_DIGITS = "".join(_DIGITS)
HAN = f"[{HAN_DIGITS}{''.join(HAN_SCALES)}]"

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
    total = 0  # the value up to the last 万, 亿 or 兆
    section = 0  # the value since then, up to the last 十, 百 or 千
    digit = 0
    scale = 0  # of the last character that is a scale
    after_zero = False
    for char in numeral:
        if char in _DIGITS:
            digit = _DIGITS[char]
            after_zero = digit == 0
        elif char in "廿卅卌":
            section += _TENS[char]
            digit = 0
            scale = 10
        elif char in _TENS:
            section += (digit or 1) * _TENS[char]
            digit = 0
            scale = _TENS[char]
        else:
            scale = _MYRIADS[char]
            part = (section + digit) or 1
            total = (total + part) * scale if scale > 10**4 else total + part * scale
            section = 0
            digit = 0
            after_zero = False
    # 一百二 is 120 and 三万五 is 35,000, but 一百零二 is 102.
    is_short = (
        digit and not after_zero and scale > 10 and len(numeral) > 1 and numeral[-2] in HAN_SCALES
    )
    if is_short:
        digit = digit * scale // 10
    return float(total + section + digit)


def read_korean(numeral: str) -> float | None:
    """Return the value of a Sino-Korean or native Korean numeral; None if it is none."""
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
_ENGLISH = {word: i for i, word in enumerate(_ENGLISH_BELOW_20.split())}
_ENGLISH |= {word: 10 * i for i, word in enumerate(_ENGLISH_TENS.split(), 2)}
_ENGLISH |= {"fourty": 40, "dozen": 12}
_LARGE = {"hundred": 100, "thousand": 1000, "million": 10**6, "billion": 10**9, "trillion": 10**12}
_ENGLISH_PARTS = "half third quarter fifth sixth seventh eighth ninth tenth"
_FRACTIONS = {word: i for i, word in enumerate(_ENGLISH_PARTS.split(), 2)}
_ANY_WORD = "|".join([*sorted(_ENGLISH, key=len, reverse=True), *_LARGE])
ENGLISH = rf"\b(?:a\s+(?:hundred|thousand|million|billion|dozen)|{_ANY_WORD})(?:(?:\s+and)?[\s-]+(?:{_ANY_WORD}))*+\b"
ENGLISH_FRACTION = (
    rf"\b(?:(?:{'|'.join(_ENGLISH)}|an?)[\s-]+)?(?:{'|'.join(_FRACTIONS)}|halve)s?\b"
    r"(?!\s+(?:of\s+the\s+(?:list|test)|grade|place))"
)


def read_english(words: str) -> float:
    """Return the value of words such as "three hundred and five"."""
    total = 0
    current = 0
    for word in re.split(r"[\s-]+", words.lower())[:40]:
        if word == "dozen":
            current = (current or 1) * 12
        elif word in _ENGLISH:
            current += _ENGLISH[word]
        elif word == "hundred":
            current = (current or 1) * 100
        elif word in _LARGE:
            total += (current or 1) * _LARGE[word]
            current = 0
    return float(total + current)


def read_english_fraction(words: str) -> float:
    """Return the value of words such as "three quarters", "half", "a third"."""
    *count, part = re.split(r"[\s-]+", words.lower())
    singular = part.rstrip("s")
    if singular == "halve":
        singular = "half"
    above = _ENGLISH.get(count[0], 1) if count else 1
    return above / _FRACTIONS.get(singular, 1)


# ---- other languages: words, alone or glued together ----------------------------------------------------------------


@cache
def _read_number_words() -> dict[str, dict[str, str]]:
    """Return, by language, {word: its value}: a number, "x100" for one that multiplies, "+" for one that only joins."""
    languages: dict[str, dict[str, str]] = {}
    for language, value, words in read_table("numerals"):
        languages.setdefault(language, {}).update(dict.fromkeys(words.split(), value))
    return languages


@cache
def _compile_words(language: str) -> re.Pattern[str]:
    return re.compile("|".join(sorted(_read_number_words()[language], key=len, reverse=True)))


def read_number_words(words: str) -> float | None:
    """Read a number in French, Spanish, Portuguese, Italian, German, Dutch or Russian words; None for anything else."""
    letters = re.sub(r"[\s\-‐­]+", "", words.casefold())[:200].replace("ß", "ss")
    if not letters or not letters.isalpha():
        return None
    letters = letters.replace("quatrevingts", "octante").replace("quatrevingt", "octante")
    for language in _read_number_words():
        value = _add_words(letters, language)
        if value is not None:
            return value
    return None


def _add_words(letters: str, language: str) -> float | None:
    """Return the value of number words without spaces between them; None if something else stands there."""
    total = 0
    current = 0
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
